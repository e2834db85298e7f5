# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- a table of different sizes is written and read back in batches of 16 rows; for run-example

# part of a batch, one batch, one row more, more than may be in flight, and the largest number
for rows in 1 16 17 100 4096; do
	pair '' "$rows"
	batches=$(((rows + 15) / 16))
	says client0 "writes: $((rows + 1)), reads: $rows, completions: $((2 * batches + 1))" \
		'the rows are as they were written'
	mapfile -t expected < <(for ((i = 1; i <= rows; i++)); do echo "$i: the square is $((i * i))"; done)
	says_sorted server "${expected[@]}" "rows: $rows"
done
