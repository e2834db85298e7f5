# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# journal.sh -- what the examples print that keep a journal; to be sourced

# journal <word> <first> <last>: what the client prints for these records; without a word, what the server holds
journal()
{
	local i
	for ((i = $2; i <= $3; i++)); do
		echo "${1:+$1: }$i: line $i"
	done
}
