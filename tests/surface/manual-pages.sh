#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manual-pages.sh <project> <folder of man pages>
#
# mandoc reports no error in the man pages that were built and knows all of their fonts, and each name of a page leads to that
# page.

set -euo pipefail
here=$(realpath "$(dirname "$0")")
project=$(realpath "$1")
if [[ ! -d $2 ]]; then
	echo 'SKIPPED: no man pages were built: pandoc is not installed, or BUILD_DOC is OFF'
	exit 77
fi
if ! command -v mandoc >/dev/null; then
	echo 'SKIPPED: mandoc is not installed'
	exit 77
fi
cd "$2" # ".so man3/..." is relative to this folder
failed=false
count=0

mandoc -T lint -W error man*/* || failed=true
if mandoc -T lint man*/* | grep 'invalid escape sequence' >&2; then
	failed=true
fi

while read -r page name; do
	file=man${page##*.}/$name.${page##*.}
	# mandoc prints bold letters twice, with a backspace between them
	if ! mandoc -T ascii "$file" | sed 's/.\x08//g' | awk '/^NAME/ { inside = 1; next } /^[A-Z]/ { inside = 0 } inside' |
		grep -qw "$name"; then
		echo "$file does not lead to the page of $name"
		failed=true
	fi
	count=$((count + 1))
done < <(awk -v part=names -f "$here/manual.awk" "$project"/doc/manuals/*.md)
echo "$count names lead to their pages"
! $failed
