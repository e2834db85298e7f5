#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# preload-symbols.sh <libsoftrdma.so> <librpma.so> <libibverbs.so> <librdmacm.so> <folder of the verbs headers>...
#
# The preload library exports, without versions, each function that libibverbs and librdmacm export, that their headers
# declare, and that takes an object of theirs; the exceptions are below. It exports nothing else. librpma contains the
# same device and exports none of it. (stat, stat64 and access: see src/softrdma_preload/device_file.c.)

set -euo pipefail
soft=$1 rpma=$2 ibverbs=$3 rdmacm=$4
shift 4

# these take no object: the real library handles them, so they need not be replaced
exceptions=(
	ibv_event_type_str ibv_node_type_str ibv_port_state_str ibv_wc_status_str ibv_wr_opcode_str # numbers to words
	ibv_rate_to_mbps ibv_rate_to_mult mbps_to_ibv_rate mult_to_ibv_rate                         # numbers to numbers
	rdma_event_str                                                                              # a number to a word
)

names()
{
	nm -D --defined-only "$1" | awk '$2 ~ /^[TWi]$/ { print $3 }' | sed 's/@.*//' | sort -u
}

if nm -D --with-symbol-versions --defined-only "$soft" | grep '@'; then
	echo 'these have a version, and would replace that version alone'
	exit 1
fi

exported=$(names "$soft")
wrong=false
count=0
for name in $({ names "$ibverbs"; names "$rdmacm"; } | grep -E '^_?(ibv|rdma)_'); do
	# the headers of other machines may differ: only functions that these headers declare count
	grep -qrw -- "$name" "$@" || continue
	count=$((count + 1))
	if [[ " ${exceptions[*]} " == *" $name "* ]]; then
		continue
	fi
	if ! grep -qx -- "$name" <<<"$exported"; then
		echo "not exported: $name"
		wrong=true
	fi
done
((count > 100)) || { echo "only $count names found in $*"; exit 1; }

# perftest and ibv_devinfo call this function of libibverbs, though no header declares it
grep -qx ibv_query_gid_type <<<"$exported" || { echo 'not exported: ibv_query_gid_type'; wrong=true; }

for name in stat stat64 access; do
	grep -qx "$name" <<<"$exported" || { echo "not exported: $name"; wrong=true; }
done
strangers=$(grep -vE '^_?(ibv|rdma)_|^(rsocket|stat|stat64|access)$' <<<"$exported" || true)
if [[ $strangers ]]; then
	echo "exported: $strangers"
	wrong=true
fi
if readelf -d "$soft" | grep -E 'NEEDED.*(ibverbs|rdmacm)'; then
	echo 'it must not need the libraries whose place it takes'
	wrong=true
fi
if names "$rpma" | grep -E '^(softrdma|_?ibv|rdma)_'; then
	echo "these are exported by $rpma"
	wrong=true
fi
$wrong && exit 1
echo "$count names of the headers, all there"
