#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manual-html.sh <project> <folder of the build>
#
# The target doc-html makes a site without broken links: each link leads to an existing page, and to an existing place
# on it. Each page can be reached from the index, and contains each name of its manual.

set -euo pipefail
here=$(realpath "$(dirname "$0")")
project=$(realpath "$1")
site=$2/doc/html
if [[ ! -d $site ]]; then
	echo 'SKIPPED: no site can be built: pandoc is not installed, or BUILD_DOC is OFF'
	exit 77
fi
cmake --build "$2" --target doc-html >/dev/null
cd "$site"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
failed=false

# all links of all pages: page, file (the page itself if none is named), place
for page in *.html; do
	[[ $page == nav.html ]] && continue
	tr '\n' ' ' <"$page" | grep -o '\(href\|src\)="[^"]*"' | sed "s/^[a-z]*=\"\([^\"#]*\)#*\([^\"]*\)\"$/$page \1 \2/; s/^$page  /$page $page /"
done | sort -u >"$dir/links"

while read -r page file place; do
	case $file in
	http://* | https://*) continue ;;
	esac
	if [[ ! -f $file ]]; then
		echo "$page: no $file"
		failed=true
	elif [[ $place ]] && ! grep -q "id=\"$place\"" "$file"; then
		echo "$page: no $place in $file"
		failed=true
	fi
done <"$dir/links"

unlinked=$(comm -13 <(awk '$1 == "index.html" { print $2 }' "$dir/links" | sort -u) \
	<(printf '%s\n' *.html | grep -vx 'index.html\|nav.html' | sort))
if [[ $unlinked ]]; then
	printf 'not in the index:\n%s\n' "$unlinked"
	failed=true
fi
while read -r name; do
	if ! grep -q "<strong>$name</strong></a>" index.html; then
		echo "$name is not in the index"
		failed=true
	fi
done < <(awk -v part=names -f "$here/manual.awk" "$project"/doc/manuals/*.md | cut -d' ' -f2)
echo "$(wc -l <"$dir/links") links, $(printf '%s\n' *.html | wc -l) pages"
! $failed
