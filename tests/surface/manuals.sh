#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manuals.sh <project>
#
# One list of names, in four places: what the header declares is what the map exports; each has a unit test, and a page
# in section 3 of the manual, as the page's name or in its section NAME. Pages that are missing are listed, and are an
# error from the day on that there is a doc/manuals.

set -euo pipefail
cd "$1"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

gcc -fsyntax-only -aux-info "$dir/prototypes" -x c include/librpma.h
sed -n 's|^/\* include/librpma.h:.*\*/ extern .*[ *]\(rpma_[a-z0-9_]*\) (.*$|\1|p' "$dir/prototypes" | sort -u >"$dir/header"
awk '/^\t\t[a-z].*;$/ { sub(";", ""); print $1 }' src/librpma.map | sort -u >"$dir/map"
diff -u --label include/librpma.h --label src/librpma.map "$dir/header" "$dir/map"

untested=$(comm -23 "$dir/map" <(grep -oh '\brpma_[a-z0-9_]*' tests/unit/*.c | sort -u))
if [[ $untested ]]; then
	printf 'no unit test names:\n%s\n' "$untested"
	exit 1
fi

# the words of NAME, and the pages themselves
for page in doc/manuals/rpma_*.3.md; do
	[[ -f $page ]] || continue
	basename "$page" .3.md
	awk '/^#+ / { inside = /NAME/ } inside' "$page" | grep -o '\brpma_[a-z0-9_]*' || true
done | sort -u >"$dir/manuals"

echo "$(wc -l <"$dir/map") names in header and map, $(comm -12 "$dir/map" "$dir/manuals" | wc -l) of them with a manual"
missing=$(comm -23 "$dir/map" "$dir/manuals")
unknown=$(comm -13 "$dir/map" "$dir/manuals")
if [[ $missing ]]; then
	printf 'without a manual:\n%s\n' "$missing"
fi
if [[ $unknown ]]; then
	printf 'a manual of what does not exist:\n%s\n' "$unknown"
fi
[[ ! -d doc/manuals ]] || [[ -z $missing$unknown ]]
