#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# readme.sh <README.md> <number> <output.c>: extracts the first or second C program of the README, so that it is tested

set -euo pipefail
awk -v number="$2" '/^```c$/ { inside = 1; count++; next } /^```$/ { inside = 0 } inside && count == number' "$1" >"$3.new"
lines=$(wc -l <"$3.new")
if ((lines == 0 || lines > 45)); then
	echo "program $2 of the README has $lines lines"
	exit 1
fi
mv "$3.new" "$3"
