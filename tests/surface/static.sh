#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# static.sh <librpma.a> <librpma.map>: the archive defines the names of the map and no other

set -euo pipefail
diff -u --label map --label "$1" \
	<(awk '/^\t\t[a-z].*;$/ { sub(";", ""); print $1 }' "$2" | sort -u) \
	<(nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' | sort)
echo "the archive shows nothing internal"
