#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# document-links.sh <project>
#
# Each link of a document to a file of the project leads to a file that is there, and to a heading that is there. The README's
# figures of speed are those of doc/evidence/measurements.md. A picture in text is the same in all documents that have it, and its source
# has the same numbered steps.

set -euo pipefail
cd "$1"
failed=false
count=0

# the names by which hosting sites know the headings of a document
headings()
{
	awk '/^```/ { code = !code } !code && /^#+ / {
		sub(/^#+ /, ""); gsub(/\]\([^)]*\)/, ""); gsub(/[^A-Za-z0-9 _-]/, ""); gsub(/ /, "-"); print tolower($0) }' "$1"
}

# the documents that people read on a hosting site; manuals are pages of their own
documents=(*.md doc/*.md doc/evidence/*.md examples/*.md examples/*/*.md apps/*/*.md tests/*.md tests/*/*.md src/softrdma/*.md)
for document in "${documents[@]}"; do
	# shellcheck disable=SC2016 # backticks of Markdown
	while read -r link; do
		count=$((count + 1))
		case $link in
		http://* | https://* | mailto:*) continue ;;
		esac
		file=${link%%#*}
		target=$(dirname "$document")/$file
		[[ $file ]] || target=$document
		if [[ ! -e $target ]]; then
			echo "$document: no $file"
			failed=true
		elif [[ $link == *#* && $target == *.md ]] && ! headings "$target" | grep -qxF -- "${link#*#}"; then
			echo "$document: no heading ${link#*#} in $target"
			failed=true
		fi
	done < <(awk '/^```/ { code = !code } !code' "$document" | tr '\n' ' ' | sed 's/`[^`]*`//g' |
		{ grep -o '\]([^) ]*)' || true; } | sed 's/^](//; s/)$//')
done

while read -r figure; do
	if ! grep -qE "(^|[ |])${figure//./\\.}([ ,|]|\$)" doc/evidence/measurements.md; then
		echo "README.md: doc/evidence/measurements.md does not have $figure"
		failed=true
	fi
done < <(sed -n '/^- \*\*Speed\*\*/,/^- \*\*Where/p' README.md | tr '\n' ' ' | grep -oE '[0-9.]+ (us|MB/s)')

# picture <document> <name>: its lines
picture()
{
	awk -v name="$2" 'index($0, "<!-- picture: " name ":") == 1 { found = 1; next }
		found && /^```/ { if (inside) exit; inside = 1; next } inside' "$1"
}

while read -r name; do
	source=doc/images/$name.dot
	if [[ ! -f $source ]]; then
		echo "no $source"
		failed=true
		continue
	fi
	texts=()
	for document in "${documents[@]}"; do
		text=$(picture "$document" "$name")
		[[ -z $text ]] || texts+=("$text")
	done
	steps=$(grep -o '\b[1-9]\b' <<<"${texts[0]}" | sort -u)
	for text in "${texts[@]}"; do
		if [[ $text != "${texts[0]}" ]]; then
			echo "the picture $name is not the same in all documents"
			failed=true
		fi
	done
	if [[ $steps != "$(grep -o 'label="[^"]*"' "$source" | sed 's/\\n/ /g' | grep -o '\b[1-9]\b' | sort -u)" ]]; then
		echo "$source has other steps than the picture in text"
		failed=true
	fi
done < <(sed -n 's/^<!-- picture: \([^:]*\):.*/\1/p' "${documents[@]}" | sort -u)

echo "$count links in ${#documents[@]} documents"
! $failed
