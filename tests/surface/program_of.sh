#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# program_of.sh <document> <number> <output.c> <most lines>: extracts the C program of that number from a document, so that
# it is tested

set -euo pipefail
awk -v number="$2" '/^```c$/ { inside = 1; count++; next } /^```$/ { inside = 0 } inside && count == number' "$1" >"$3.new"
lines=$(wc -l <"$3.new")
if ((lines == 0 || lines > $4)); then
	echo "program $2 of $1 has $lines lines, and may have $4"
	exit 1
fi
mv "$3.new" "$3"
