# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# pings.sh -- what the examples print in which a number goes back and forth; to be sourced

# ping <label> <first> <rounds>, pong likewise: the expected output of client and server
ping()
{
	local i
	for ((i = $2; i < $2 + $3; i++)); do
		printf '%s sent: %d\n%s received: %d\n' "$1" "$i" "$1" $((i + 1))
	done
}

pong()
{
	local i
	for ((i = $2; i < $2 + $3; i++)); do
		printf '%s received: %d\n%s sent: %d\n' "$1" "$i" "$1" $((i + 1))
	done
}
