# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test_ping.sh <label of the client> <label of the server> [<argument of the server>...] -- the examples in which a number
# goes back and forth: a run without an argument, and one with each of them; for run-example

# shellcheck source=SCRIPTDIR/pings.sh
. "$(dirname "${BASH_SOURCE[0]}")/pings.sh"

for server_arg in '' "${@:3}"; do
	pair "$server_arg" 100 50
	mapfile -t said < <(ping "$1" 100 50)
	says client0 "${said[@]}"
	mapfile -t said < <(pong "$2" 100 50)
	says server "${said[@]}"
done
