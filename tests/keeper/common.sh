# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# common.sh -- keepers and nbdkits for the tests; to be sourced after "here" and "keeper" are set

# shellcheck disable=SC2154 # "here" is the folder of the script
. "$here/../tools/common.sh"

export RPMA_DEVICE=soft RPMA_LOG_LEVEL=error
address=127.0.0.1  # of the keeper, as its clients write it
listen=$address     # and as the keeper does

# skip_without <program...>
skip_without()
{
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || {
			echo "SKIPPED: $program is not installed"
			exit 77
		}
	done
}

free_port()
{
	python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# start_keeper <argument...>: on $port, which it chooses unless it is set; sets keeper_pid. Its status is there, and not that of
# the keeper before.
start_keeper()
{
	local tries
	for tries in 1 2 3 4 5; do
		port=${port:-$(free_port)}
		rm -f "$work/status"
		# shellcheck disable=SC2154 # "keeper" is the program under test
		"$keeper" --listen "$listen:$port" --status "$work/status" "$@" 2>"$work/keeper.log" &
		keeper_pid=$!
		started+=("$keeper_pid")
		until grep -q 'listening on' "$work/keeper.log"; do
			if ! kill -0 "$keeper_pid" 2>/dev/null; then
				grep -q 'in use' "$work/keeper.log" && ((tries < 5)) && sleep 0.2 && continue 2
				cat "$work/keeper.log" >&2
				fail "the keeper does not start: $*"
			fi
			sleep 0.02
		done
		until_true 'the status of a keeper' test -s "$work/status"
		return
	done
}

# has_status <jq filter>: true if the filter is true of the keeper's status
has_status()
{
	[[ $(jq "$1" "$work/status") == true ]]
}

# end_keeper <signal> <status that is expected>
end_keeper()
{
	local status=0
	kill "-$1" "$keeper_pid"
	wait "$keeper_pid" 2>/dev/null || status=$?
	((status == $2)) || fail "the keeper ended with status $status and not $2 after $1"
}

# start_nbdkit <socket> <parameter...>: in the background; returns when it serves
# shellcheck disable=SC2154 # "plugin" is the plugin under test
start_nbdkit()
{
	local socket=$1
	shift
	rm -f "$socket.pid"
	nbdkit -f -U "$socket" -P "$socket.pid" "$plugin" host="$address" port="$port" "$@" 2>>"$work/nbdkit.log" &
	nbdkit_pid=$!
	started+=("$nbdkit_pid")
	until [[ -s $socket.pid ]]; do
		kill -0 "$nbdkit_pid" 2>/dev/null || {
			cat "$work/nbdkit.log" >&2
			fail "nbdkit does not start: $*"
		}
		sleep 0.02
	done
	# it has the memory when it answers
	nbdinfo --size "nbd+unix:///?socket=$socket" >/dev/null || fail "nbdkit does not serve: $*"
}
