#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manual-errors.sh <project> <unit test programs...>
#
# The errors that the manual lists for a function are exactly those that the unit tests have seen it return, and the
# comment of the public header names the same ones.

set -euo pipefail
here=$(realpath "$(dirname "$0")")
project=$(realpath "$1")
shift
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
failed=false

for program in "$@"; do
	if ! RPMA_TEST_RECORD=$dir/record "$program" >"$dir/output" 2>&1; then
		cat "$dir/output"
		echo "$program fails: what it records is worth nothing"
		exit 1
	fi
done
sort -u "$dir/record" >"$dir/tested"
awk -v part=errors -f "$here/manual.awk" "$project"/doc/manuals/*.3.md | sort -u >"$dir/manual"
awk -f "$here/header-errors.awk" "$project/include/librpma.h" | sort -u >"$dir/header"

# differ <file> <text for what only it has> <text for what only the manual has>
differ()
{
	local more less
	more=$(comm -23 "$dir/$1" "$dir/manual")
	less=$(comm -13 "$dir/$1" "$dir/manual")
	[[ -z $more ]] || printf '%s:\n%s\n' "$2" "$more"
	[[ -z $less ]] || printf '%s:\n%s\n' "$3" "$less"
	[[ -z $more$less ]] || failed=true
}

differ tested 'returned in a unit test, and not in the manual' 'in the manual, and returned in no unit test'
differ header 'in the header, and not in the manual' 'in the manual, and not in the header'
echo "$(wc -l <"$dir/manual") errors of functions in the manual, $(wc -l <"$dir/tested") seen in unit tests," \
	"$(wc -l <"$dir/header") in the header"
! $failed
