# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# common.sh -- runs the two sides of a third-party program on the software device; to be sourced
#
# In the environment: PRELOAD_LIBRARY, the library; PRELOAD_RUN, utils/softrdma-run; PRELOAD_FIRST, what is loaded
# before it (the runtime of a sanitizer). As root, everything runs without privileges: the device must not need any.

set -euo pipefail

: "${PRELOAD_LIBRARY:?}" "${PRELOAD_RUN:?}"
export SOFTRDMA_LIBRARY=$PRELOAD_LIBRARY
# third-party programs leak memory; other tests check that the device does not
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
deadline=$((60 * ${TEST_DEADLINE_FACTOR:-1}))

skip()
{
	echo "SKIPPED: $*"
	exit 77
}

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

need()
{
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}
need ss timeout

as_nobody=()
work=$(mktemp -d /var/tmp/preload-XXXXXX)
if ((EUID == 0)); then
	need setpriv
	as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	chown 65534:65534 "$work"
	# a library in a folder that others cannot read is copied
	install -m 755 "$PRELOAD_LIBRARY" "$work/libsoftrdma.so.0"
	SOFTRDMA_LIBRARY=$work/libsoftrdma.so.0
	install -m 755 "$PRELOAD_RUN" "$work/softrdma-run"
	PRELOAD_RUN=$work/softrdma-run
fi
server_pid=
# the server is the child of timeout(1), which ends its child when it gets SIGTERM, but not when it is killed
cleanup()
{
	if [[ -n $server_pid ]]; then
		kill "$server_pid" 2>/dev/null || true
		wait "$server_pid" 2>/dev/null || true
	fi
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT
cd "$work"

# soft <command...>: runs the command on the device, with the deadline; replaces the shell
soft()
{
	exec "${as_nobody[@]}" timeout --kill-after=1 "$deadline" env ${PRELOAD_FIRST:+LD_PRELOAD="$PRELOAD_FIRST"} \
		"$PRELOAD_RUN" "$@"
}

# ended_well <status> <output>: true if the status is 0. rping may also end with 255, over any device: its event thread
# asks once more for an event after the main thread has closed the channel.
ended_well()
{
	(($1 == 0)) || { (($1 == 255)) && grep -q 'rdma_get_cm_event: Bad file descriptor$' "$2"; }
}

# client <command...>: must end well; its output is in client.out
client()
{
	local status=0
	run_client "$@" || status=$?
	expect_client_well "$status" "$*"
}

run_client()
{
	(soft "$@") >client.out 2>&1 </dev/null
}

# expect_client_well <status> <command>
expect_client_well()
{
	ended_well "$1" client.out || { show; fail "status $1: $2"; }
}

show()
{
	local file
	for file in server.out client.out; do
		[[ ! -s $file ]] || { echo "==> $file <=="; cat "$file"; }
	done >&2
}

ports=${TMPDIR:-/tmp}/librpma-preload-ports
port_lock=

# choose_port: sets port, which no other script of this folder uses until this one ends. Without the lock two of them may
# find the same one free, and each take the other's listener for its own. If fixed_port is set it is that port, when its turn
# comes.
choose_port()
{
	[[ -z $port_lock ]] || exec {port_lock}>&-
	mkdir -p "$ports"
	chmod 1777 "$ports" 2>/dev/null || true # it may be another user's
	while true; do
		# below the range of ports that the kernel assigns itself
		port=${fixed_port:-$((RANDOM % 12000 + 20000))}
		{ exec {port_lock}>"$ports/$port"; } 2>/dev/null || continue # it may be another user's
		if [[ -n ${fixed_port:-} ]]; then
			flock "$port_lock"
			return
		fi
		! flock -n "$port_lock" || return 0
		exec {port_lock}>&-
	done
}

listens()
{
	[[ -n $(ss -Hltn "sport = :$port") ]]
}

# server <command...>, with PORT for the port: starts it in the background, and waits until it listens
server()
{
	local try end args
	for try in 1 2 3 4 5 6 7 8; do
		choose_port
		listens && continue
		args=("${@//PORT/$port}")
		(soft "${args[@]}") >server.out 2>&1 </dev/null &
		server_pid=$!
		end=$((SECONDS + deadline))
		until listens; do
			((SECONDS < end)) || { show; fail "does not listen: ${args[*]}"; }
			if ! kill -0 "$server_pid" 2>/dev/null; then
				wait "$server_pid" || true
				grep -q 'in use' server.out && continue 2
				show
				fail "ends before it listens: ${args[*]}"
			fi
			sleep 0.02
		done
		return
	done
	fail "no free port after $try tries"
}

# server_ends: waits for the server, which must end well
server_ends()
{
	local status=0
	wait_for_server || status=$?
	expect_server_well "$status"
}

wait_for_server()
{
	local status=0
	wait "$server_pid" || status=$?
	server_pid=
	return "$status"
}

# expect_server_well <status>
expect_server_well()
{
	ended_well "$1" server.out || { show; fail "status $1 of the server"; }
	# the warning that nothing is encrypted is logged for each address that other machines can reach
	if grep -E 'Sanitizer|runtime error|^softrdma:' server.out client.out | grep -v ' without TLS: nothing is encrypted'; then
		show
		fail 'that should not have been said'
	fi
}

# both <command...>: runs a server and a client with the same options. Programs of perftest measure the processor's
# clock first. On a machine that is too busy they print no figures or end at once, over any device; then try again.
both()
{
	local try client_status server_status
	for try in 1 2 3 4 5 6 7 8; do
		client_status=0 server_status=0
		server "$@" -p PORT
		run_client "$@" -p "$port" 127.0.0.1 || client_status=$?
		((client_status == 0)) || kill "$server_pid" 2>/dev/null || true # it may wait for messages that will not come
		wait_for_server || server_status=$?
		if grep -q '^Correlation coefficient' server.out client.out; then
			echo "$1 could not measure the clock: once more"
			continue
		fi
		expect_client_well "$client_status" "$*"
		expect_server_well "$server_status"
		return
	done
	fail "$1 could not measure the clock in $try tries"
}

# says <file> <extended expression>...: the file must match each of them
says()
{
	local file=$1 expression
	shift
	for expression; do
		grep -qE -- "$expression" "$file" || { show; fail "$file does not say $expression"; }
	done
}

addresses=(127.0.0.1)
if grep -qs " lo\$" /proc/net/if_inet6; then
	addresses+=(::1)
fi
