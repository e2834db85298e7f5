#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# probes.sh <1 if there are probes> <doc/tracing.md> <librpma.so> <libsoftrdma.so> <tools/trace>
#
# The libraries have the probes that the document lists, with as many arguments, and no others; libsoftrdma.so those of
# the device only. The scripts of tools/trace use no others.

set -euo pipefail
have=$1 document=$2 librpma=$3 libsoftrdma=$4 scripts=$5

if [[ $have != 1 ]]; then
	echo "SKIPPED: systemtap-sdt-dev is not installed, or WITH_USDT is off: the libraries have no probes"
	exit 77
fi

# "provider:name number-of-arguments" for each row of the table
documented()
{
	awk -F '|' '/^\| `(librpma|softrdma):/ {
		gsub(/[ `]/, "", $2)
		print $2, gsub(/`[^`]*`/, "", $4)
	}' "$document" | sort
}

# the same for each probe of a library; a probe may be at several places
of_library()
{
	readelf -n "$1" 2>/dev/null | awk '
		$1 == "Provider:" { provider = $2 }
		$1 == "Name:" { name = $2 }
		$1 == "Arguments:" { print provider ":" name, NF - 1 }' | sort -u
}

diff -u --label "$document" --label "$librpma" <(documented) <(of_library "$librpma")
diff -u --label "$document" --label "$libsoftrdma" <(documented | grep '^softrdma:') <(of_library "$libsoftrdma")

# no semaphores: a tracer has nothing to write to the process
if readelf -n "$librpma" | grep -q 'Semaphore: 0x0*[1-9a-f]'; then
	echo "a probe has a semaphore"
	exit 1
fi

# the scripts: each attaches to something, and all that they attach to exists, with the arguments that they use
for script in "$scripts"/*.bt; do
	# shellcheck disable=SC2016 # an argument of the script, not of this one
	used=$(grep -o 'usdt:\$1:[a-z_]*:[a-z_]*' "$script" | cut -d : -f 3- | sort -u)
	unknown=$(comm -23 <(echo "$used") <(documented | cut -d ' ' -f 1 | sort))
	if [[ -z $used || $unknown ]]; then
		echo "$script: attaches to nothing, or to what does not exist: $unknown"
		exit 1
	fi
done
echo "$(of_library "$librpma" | wc -l) probes are as documented"
