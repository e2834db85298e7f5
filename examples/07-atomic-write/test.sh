# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- words are appended to a log: a new one, the same one again, and until it is full; for run-example

# appended <used at the start> <words...>: checks the output of the client
appended()
{
	local used=$1 word said=()
	shift
	for word in "$@"; do
		said+=("used value: $used")
		if ((${#word} + 1 > 1024 - used)); then
			said+=('Log size exhausted.')
			break
		fi
		((used += ${#word} + 1))
	done
	says client0 "${said[@]}"
}

pair '' one two three
appended 0 one two three
says server 'The log holds:' '- one' '- two' '- three'

prepare_pmem
if $pmem_is_fresh; then
	pair "$server_pmem" alpha beta
	appended 0 alpha beta
	says server 'The log holds:' '- alpha' '- beta'
	pair "$server_pmem" alpha beta
	appended 11 alpha beta
	says server 'The log holds:' '- alpha' '- beta' '- alpha' '- beta'
	# one byte too long for the rest of the log, then a word of exactly that length
	long=$(printf '%01002d' 0)
	pair "$server_pmem" "$long"
	appended 22 "$long"
	pair "$server_pmem" "${long:1}" x
	appended 22 "${long:1}" x
else
	# a device that may hold a log already
	for _ in 1 2; do
		pair "$server_pmem" alpha beta
		appended "$(sed -n '1s/^used value: //p' client0.out)" alpha beta
	done
fi
