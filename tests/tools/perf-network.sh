#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-network.sh <rpma-perf> -- client and server, runs that end badly, and messages that make no sense

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1

# serve <address> [option...]: starts a server; sets $server and $port
serve()
{
	local addr=$1
	shift
	: >"$work/server.out"
	"$perf" server "$addr" --port 0 "$@" >"$work/server.out" 2>"$work/server.err" &
	server=$!
	started+=("$server")
	until_true "the server listens" grep -q listening "$work/server.out"
	port=$(sed -n 's/.* port \([0-9]*\), RDMA.*/\1/p' "$work/server.out")
}

for addr in 127.0.0.1 ::1; do
	serve $addr --once
	expect 0 "" "$perf" client $addr --port "$port" --op write,read,send --size 64,4k --count 100 --verify --json
	is "$sane"
	is '.results | length == 6'
	wait "$server" || fail "the server ends with $?"
done

# one server, one client after another
serve 127.0.0.1
for op in write send; do
	expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op $op --count 10
done

# bytes <byte...>, as \xNN: sends them to the server, and reads its answer until it closes the connection
bytes()
{
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	# the server may close before it has read all of them
	printf '%b' "$1" >&3 2>/dev/null || true
	timeout 30 cat <&3 >"$work/answer" 2>/dev/null || true
	exec 3>&-
}
hello='RPPF\x02\x00\x01\x00\x00\x00\x00\x00'
setup='RPPF\x02\x00\x02\x00\x28\x00\x00\x00'
zeros='\x00\x00\x00\x00'
# operation, flush type, size (64 bit), depth, signal-every, connections, threads, target's way of waiting, verify
write='\x00\x00\x00\x00'$zeros'\x40\x00\x00\x00'$zeros
one='\x01\x00\x00\x00'
refused()
{
	: >"$work/server.err"
	bytes "$2"
	until_true "the server says \"$1\"" grep -qF "$1" "$work/server.err"
	kill -0 "$server" || fail "the server has ended"
}
refused "no rpma-perf" 'GET / HTTP/1.1\r\n\r\n'
refused "no rpma-perf" '\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff'
refused "speaks version 1" 'RPPF\x01\x00\x01\x00\x00\x00\x00\x00'
refused "4294967295 bytes" 'RPPF\x02\x00\x01\x00\xff\xff\xff\xff'
refused "type 2 where type 1 was expected" "$setup$write$one$one$one$one$zeros$zeros"
refused "type 65535 where type 1" 'RPPF\x02\x00\xff\xff\x00\x00\x00\x00'
refused "too long" 'RPPF\x02\x00\x01\x00\x01\x00\x00\x00x'
# the same form is decoded if its values are allowed: only the memory is too much
refused "max-memory is" "$hello$setup$zeros$zeros\x00\x00\x00\x40$zeros\x02\x00\x00\x00$one$one$one$zeros$zeros"
refused "values that are not allowed" "${hello}RPPF\x02\x00\x02\x00\x00\x00\x00\x00"
refused "values that are not allowed" "$hello$setup\xff\xff\xff\xff$zeros\x40$zeros\x00\x00\x00$one$one$one$one$zeros$zeros"
refused "values that are not allowed" "$hello$setup$write$zeros$one$one$one$zeros$zeros" # no depth
refused "values that are not allowed" "$hello$setup$write$one$zeros$one$one$zeros$zeros" # never signaled
refused "values that are not allowed" "$hello$setup$write$one$one\xff\xff\xff\xff$one$zeros$zeros"
refused "values that are not allowed" "$hello$setup$write$one$one$one\x02\x00\x00\x00$zeros$zeros" # more threads than connections
refused "values that are not allowed" "$hello$setup$write$one$one$one$one\x04\x00\x00\x00$zeros" # no such way
refused "values that are not allowed" "$hello$setup\x02${write#????}$one$one$one$one\x03\x00\x00\x00$zeros" # send, and pause
refused "values that are not allowed" "$hello$setup$write$one$one$one$one$zeros\x02\x00\x00\x00"
# the client gets the reason as well
grep -q "values that are not allowed" "$work/answer" || fail "the client is not told why"
# half a message, then the connection is closed
: >"$work/server.err"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'RPPF\x02' >&3
exec 3>&-
until_true "the server notices" grep -q "has gone" "$work/server.err"
# more memory than the server offers
expect 1 "--max-memory is 1073741824" "$perf" client 127.0.0.1 --port "$port" --size 1g --connections 2 --count 1
# the server still serves clients afterwards
expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op write,cas --count 10 --verify

# measuring <pid>: true if its worker threads run
measuring()
{
	grep -qs perf-worker /proc/"$1"/task/*/comm
}

# not_receiving <pid>: true if a server has no thread that waits for messages
not_receiving()
{
	! grep -qs perf-receiver /proc/"$1"/task/*/comm
}

# ended <pid>: true if it is a zombie, or was reaped by the shell already
ended()
{
	! grep -qs '^State:[[:space:]]*[^Z]' /proc/"$1"/status
}

# the server is killed in the middle of a run
for how in "" --wait "--wait fd --target-waits cq_wait" "--op send --wait cq_wait --target-waits cq_wait"; do
	status=0
	# shellcheck disable=SC2086 # some options or none
	"$perf" client 127.0.0.1 --port "$port" --duration 1000 $how >"$work/out" 2>"$work/err" &
	client=$!
	started+=("$client")
	until_true "the client measures" measuring "$client"
	kill -9 "$server"
	until_true "the client ends" ended "$client"
	wait "$client" || status=$?
	((status == 1)) || fail "the client ends with $status"
	grep -qE "rpma-perf: .*(has gone|failed)" "$work/err" || fail "the client says \"$(cat "$work/err")\""
	! grep -q "rdma_disconnect" "$work/err" || fail "a false alarm: $(cat "$work/err")"
	serve 127.0.0.1
done

# the client is killed in the middle of a run: the server reports it, and serves the next client
for how in "--op send" "--op send --target-waits cq_wait" "--target-waits cq_wait" "--target-waits fd --wait fd"; do
	: >"$work/server.err"
	# shellcheck disable=SC2086 # several words
	"$perf" client 127.0.0.1 --port "$port" --duration 1000 $how >"$work/out" 2>"$work/err" &
	client=$!
	started+=("$client")
	until_true "the client measures" measuring "$client"
	kill -9 "$client"
	until_true "the server notices" grep -q "has gone" "$work/server.err"
	expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op send --count 10 --verify
	until_true "no thread is left" not_receiving "$server"
done

# the target's answers fail: both sides end and say it, also an initiator that sleeps until the answer comes
kill -9 "$server"
export SOFTRDMA_FAULTS=wc-error=general@50
serve 127.0.0.1
unset SOFTRDMA_FAULTS
for how in poll cq_wait fd; do
	: >"$work/server.err"
	expect 1 "failed" "$perf" client 127.0.0.1 --port "$port" --op ping-pong --duration 1000 --wait $how --target-waits $how
	until_true "the server says why" grep -q "failed" "$work/server.err"
	until_true "no thread is left" not_receiving "$server"
done

# the port is taken; no server runs
expect 1 "listening on 127.0.0.1 port $port" "$perf" server 127.0.0.1 --port "$port"
kill -9 "$server"
wait "$server" 2>/dev/null || true
expect 1 "no server can be reached" "$perf" client 127.0.0.1 --port "$port"
