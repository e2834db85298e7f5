#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# symbols.sh <librpma.so> <librpma.map> [<the distribution's librpma.so>]
#
# The shared library exports the names of the map, each in its node, and nothing else. It exports everything that the
# original exports, in the same nodes.

set -euo pipefail
lib=$1 map=$2 original=${3-}

# "name node" for each exported function
exported()
{
	nm -D --with-symbol-versions --defined-only "$1" |
		sed -n 's/^[0-9a-f]* [^A] \([^@]*\)@@*\(.*\)$/\1 \2/p' | sort
}

from_map()
{
	awk '/^[A-Z].*{$/ { node = $1 } /^\t\t[a-z].*;$/ { sub(";", ""); print $1, node }' "$map" | sort
}

# names without a version would not show up above
unversioned=$(nm -D --defined-only "$lib" | awk '$2 != "A"' | grep -v '@' || true)
if [[ $unversioned ]]; then
	echo "exported without a version: $unversioned"
	exit 1
fi
diff -u --label map --label "$lib" <(from_map) <(exported "$lib")

all=$(nm -D --with-symbol-versions --defined-only "$lib")

# the calls of the 0.9 manual; one of them exists twice, for its binaries and for new ones
for wanted in 'rpma_write_atomic@@LIBRPMA_1.0' 'rpma_conn_get_completion_fd@@LIBRPMA_1.0' \
	'rpma_conn_completion_wait@@LIBRPMA_1.0' 'rpma_conn_completion_get@LIBRPMA_1.0' \
	'rpma_conn_completion_get@@LIBRPMA_2.0' 'rpma_cq_get_completion@@LIBRPMA_2.0'; do
	if ! grep -q " T $wanted\$" <<<"$all"; then
		echo "missing: $wanted"
		exit 1
	fi
done

if [[ $original ]]; then
	lost=$(comm -23 <(exported "$original") <(exported "$lib"))
	count=$(exported "$original" | wc -l)
	if [[ $lost ]] || ((count != 84)); then
		echo "of the original's $count functions these are missing or elsewhere: $lost"
		exit 1
	fi
fi
# the progress thread runs as long as a connection exists
if ! readelf -d "$lib" | grep -q 'Flags:.*NODELETE'; then
	echo "dlclose() would take the library away from under its threads"
	exit 1
fi
echo "$(exported "$lib" | wc -l) exported names are right"
