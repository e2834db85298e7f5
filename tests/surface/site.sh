#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# site.sh <project> <folder of the build>
#
# The target doc-html makes a site that is whole. Each link and each image leads to an existing file of it, and to an
# existing place there; nothing leads out of its folder but to the web. Each document for users and each manual has a page;
# each page can be reached from the start page, which has each name of the manuals. Tables are in boxes that scroll. The
# search finds each page (site-search.js).

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

wrong()
{
	echo "$*"
	failed=true
}

# all links of all pages: page, file (the page itself if none is named), place
for page in *.html; do
	tr '\n' ' ' <"$page" | grep -o ' \(href\|src\|action\)="[^"]*"' |
		sed "s/^ [a-z]*=\"\([^\"#]*\)#*\([^\"]*\)\"$/$page \1 \2/; s/^$page  /$page $page /"
done | sort -u >"$dir/links"

while read -r page file place; do
	case $file in
	http://* | https://*) ;;
	/* | *../* | file:*) wrong "$page: $file is outside of the site" ;;
	*)
		if [[ ! -f $file ]]; then
			wrong "$page: no $file"
		elif [[ $place ]] && ! grep -q "id=\"$place\"" "$file"; then
			wrong "$page: no $place in $file"
		fi
		;;
	esac
done <"$dir/links"

for document in README HACKING SECURITY CHANGELOG LICENSE; do
	[[ -f ${document,,}.html ]] || wrong "$document has no page"
done
for document in "$project"/doc/*.md "$project"/doc/evidence/*.md "$project"/doc/manuals/*.md; do
	page=$(basename "$document" .md).html
	[[ $document != */doc/evidence/* ]] || page=evidence-$page
	[[ $page != README.html ]] || page=doc.html
	[[ -f ${page,,} ]] || wrong "$document has no page"
done
for image in "$project"/doc/images/*.svg; do
	[[ -f images/$(basename "$image") ]] || wrong "$image is not on the site"
done

unlinked=$(comm -13 <(awk '$1 == "index.html" { print $2 }' "$dir/links" | sort -u) \
	<(printf '%s\n' *.html | grep -vx 'index.html' | sort))
if [[ $unlinked ]]; then
	wrong "not on the start page: $unlinked"
fi
while read -r name; do
	grep -q "<strong>$name</strong></a>" index.html || wrong "$name is not on the start page"
done < <(awk -v part=names -f "$here/manual.awk" "$project"/doc/manuals/*.md | cut -d' ' -f2)

# each document has a sentence there that says what it is about
while read -r entry; do
	wrong "the start page does not say what this is about: $entry"
done < <(sed -n '/^# Documents/,/^# Overviews/p' "$2/doc/index.md" | grep -E '^- \[[^]]*\]\([^)]*\)$|: The README ' | grep -v '(LICENSE)')

for page in *.html; do
	if (($(grep -o '<table' "$page" | wc -l) != $(grep -o '<div class="table[" ]' "$page" | wc -l))); then
		wrong "$page: a table that cannot scroll"
	fi
done

echo "$(wc -l <"$dir/links") links, $(printf '%s\n' *.html | wc -l) pages"
if ! command -v mujs >/dev/null; then
	! $failed || exit 1
	echo 'SKIPPED: the search was not tried: mujs is not installed'
	exit 77
fi
mujs "$here/site-search.js" search.js search-index.js ./*.html || failed=true
! $failed
