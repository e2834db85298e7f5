#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-waits.sh <rpma-perf> <count-waits module> -- each side waits in the calls that --wait and --target-waits name

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1 module=$2
count=100
# each frame leaves 2 ms late: a thread that looks for a completion right after its post must not find it
export SOFTRDMA_FAULTS=delay=2ms RPMA_LOG_LEVEL=error

# calls <file> <call>: how often a side has called it
calls()
{
	awk -v call="$2" '{ for (i = 1; i < NF; i += 2) if ($i == call) print $(i + 1) }' "$1"
}

# run <option...>: a server and a client, whose calls are counted in the files server and client
run()
{
	rm -f "$work/server" "$work/client" "$work/server.out"
	env COUNT_WAITS="$work/server" LD_PRELOAD="$module" "$perf" server 127.0.0.1 --port 0 --once >"$work/server.out" &
	local server=$!
	started+=("$server")
	until_true "the server listens" grep -qs listening "$work/server.out"
	expect 0 "" env COUNT_WAITS="$work/client" LD_PRELOAD="$module" "$perf" client 127.0.0.1 \
		--port "$(sed -n 's/.* port \([0-9]*\), RDMA.*/\1/p' "$work/server.out")" --count $count --warm-up 0 "$@"
	wait "$server" || fail "the server ends with $?"
}

# made <file> <call> <least> <most>
made()
{
	local number
	number=$(calls "$work/$1" "$2")
	((number >= $3 && number <= $4)) || fail "$1: $number calls of $2, and not $3 to $4: $(cat "$work/$1")"
}

# most operations need a wait, and a wait may end for nothing; a look around every 100 ms makes a few calls more
some=$((count / 2)) most=$((count * 100)) few=40

# no option: both poll, or the target pauses
run --op write,send
for side in server client; do
	made $side cq_wait 0 0
	made $side cq_wait_timed 0 0
	made $side epoll 0 0
done

run --op write --wait
made client cq_wait $some $most
made client cq_wait_timed 0 $few
made client epoll 0 0
made server cq_wait 0 0
made server epoll 0 0

run --op write --wait fd
made client cq_wait $some $most
made client cq_wait_timed 0 0
made client epoll $some $most

# the target's thread is in the call all the time, and no message comes
run --op write --target-waits cq_wait
made client cq_wait 0 0
made server cq_wait 1 4
made server cq_wait_timed 0 0
made server epoll 0 0
run --op write --target-waits fd
made server cq_wait 0 0
made server cq_wait_timed 0 0
made server epoll 1 $few
run --op write --target-waits poll
made server cq_wait 0 0
made server epoll 0 0

# messages wake it
run --op send --target-waits cq_wait
made server cq_wait $some $most
made server cq_wait_timed 0 0
made server epoll 0 0
run --op send --target-waits fd
made server cq_wait $some $most
made server cq_wait_timed 0 0
made server epoll $some $most

# one event loop on each side serves all clients
run --op ping-pong --clients 3 --wait fd
for side in server client; do
	made $side epoll $some $most
	made $side cq_wait $some $most
	made $side cq_wait_timed 0 0
done
# the program of the target of writes is asleep
run --op write --clients 3 --wait fd
made client epoll $some $most
made server cq_wait 0 0
made server epoll 0 0

# a thread with two connections cannot wait for one of them only
run --op send --wait cq_wait --target-waits cq_wait --connections 2
for side in server client; do
	made $side epoll $some $most
	made $side cq_wait_timed 0 0
done
