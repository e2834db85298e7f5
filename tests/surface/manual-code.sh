#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manual-code.sh <project>
#
# The code in the manuals compiles. Each SYNOPSIS declares exactly the functions that NAME lists, with the prototypes of
# the header. Each other block of code is a piece of a program that compiles by itself.

set -euo pipefail
here=$(realpath "$(dirname "$0")")
cd "$1"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
options=(-std=gnu11 -Wall -Wextra -Werror)
failed=false
count=0

part()
{
	awk -v "part=$1" -v "number=${3-}" -f "$here/manual.awk" "$2"
}

# compiled once, because nearly all the time goes into the headers of verbs
gcc "${options[@]}" -x c-header include/librpma.h -o "$dir/librpma.h.gch"

# compile <page> <what> <file> <further arguments...>
compile()
{
	local page=$1 what=$2 file=$3
	shift 3
	count=$((count + 1))
	if ! gcc "${options[@]}" "-I$dir" -Iinclude -fsyntax-only "$@" "$file"; then
		echo "$page: the code of $what does not compile"
		failed=true
	fi
}

# for a page of section 3: compares its prototypes with the header's; the compiler itself reports them where it can
check_synopsis()
{
	local page=$1 names declared
	part synopsis "$page" >"$dir/synopsis.c"
	compile "$page" SYNOPSIS "$dir/synopsis.c" -aux-info "$dir/prototypes"
	names=$(part names "$page" | cut -d' ' -f2 | sort)
	declared=$(sed -n "s|^/\* $dir/synopsis.c:.*\*/ extern .*[ *]\(rpma_[a-z0-9_]*\) (.*$|\1|p" "$dir/prototypes" | sort -u)
	if [[ $names != "$declared" ]]; then
		echo "$page: NAME and SYNOPSIS differ:"
		diff <(echo "$names") <(echo "$declared") || true
		failed=true
	fi
}

for page in doc/manuals/*.md; do
	if [[ $page == *.3.md ]]; then
		check_synopsis "$page"
	fi
	number=1
	while part code "$page" $number >"$dir/code.c" && [[ -s $dir/code.c ]]; do
		compile "$page" "block $number" "$dir/code.c"
		number=$((number + 1))
	done
	if [[ $page == *.3.md ]] && ((number == 1)); then
		echo "$page: no EXAMPLE"
		failed=true
	fi
done
echo "$count pieces of code"
! $failed
