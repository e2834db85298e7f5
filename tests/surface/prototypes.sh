#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# prototypes.sh <our include folder> <the distribution's include folder>
#
# Every function of the original has the same prototype in our header, as the compiler understands both.

set -euo pipefail
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

prototypes()
{
	gcc -fsyntax-only -aux-info "$dir/$2" -x c "$1/librpma.h"
	sed -n 's|^/\*.*\*/ extern \(.*[ *]rpma_.*\)$|\1|p' "$dir/$2" | sort -u >"$dir/$2.sorted"
}
prototypes "$1" ours
prototypes "$2" original
missing=$(comm -13 "$dir/ours.sorted" "$dir/original.sorted")
if [[ $missing ]]; then
	printf 'these are not in our header as they are in the original:\n%s\n' "$missing"
	exit 1
fi
echo "$(wc -l <"$dir/original.sorted") prototypes of the original, $(wc -l <"$dir/ours.sorted") of ours"
