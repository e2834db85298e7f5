#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# readme.sh <README.md> <output.c>: the C program of the README, so that it stays one

set -euo pipefail
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1" >"$2.new"
lines=$(wc -l <"$2.new")
if ((lines == 0 || lines > 45)); then
	echo "the README's program has $lines lines"
	exit 1
fi
mv "$2.new" "$2"
