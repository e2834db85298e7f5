#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-network.sh <rpma-perf> <perf_peer> -- client and server, several clients, runs that end badly, and messages that
# make no sense

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1 false_server=$2

# servers are killed, so their status does not tell what a sanitizer has found
for name in ASAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS; do
	export "$name=${!name:+${!name}:}log_path=$work/sanitizer"
done

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

# a server that is started without standard input and error: none of its sockets is one of them, and every byte is right
: >"$work/server.out" # the lines of the server before
"$perf" server 127.0.0.1 --port 0 --once >"$work/server.out" <&- 2>&- &
server=$!
started+=("$server")
until_true "the server without standard error listens" grep -q listening "$work/server.out"
port=$(sed -n 's/.* port \([0-9]*\), RDMA.*/\1/p' "$work/server.out")
for fd in 0 2; do
	[[ $(readlink "/proc/$server/fd/$fd") == /dev/null ]] || fail "the server has a descriptor $fd of its own"
done
expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op write,read,send --size 64,4k --count 100 --verify --json
wait "$server" || fail "the server without standard error ends with $?"

# one server, one client after another
serve 127.0.0.1
for op in write send; do
	expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op $op --count 10
done

# send <text>: sends it to the server as it is, and reads its answer until it closes the connection
send()
{
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	# the server may close before it has read all of them
	printf '%b' "$1" >&3 2>/dev/null || true
	timeout 30 cat <&3 >"$work/answer" 2>/dev/null || true
	exec 3>&-
}
hello='{"type":"hello","version":3}\n'
# setup [<key>:<value>...]: a message, with other values than the usual ones
setup()
{
	jq -nc '{ type: "setup", op: "write", flush_type: "visibility", size: 64, depth: 1, signal_every: 1, connections: 1,
		threads: 1, target_waits: "poll", verify: false } + ($ARGS.positional | map(split(":") | { (.[0]): (.[1] | fromjson) }) | add)' \
		--args "$@"
}
refused()
{
	: >"$work/server.err"
	send "$2"
	until_true "the server says \"$1\"" grep -qF -- "$1" "$work/server.err"
	kill -0 "$server" || fail "the server has ended"
}
refused "no rpma-perf" 'GET / HTTP/1.1\r\n\r\n'
refused "no rpma-perf" '\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff'
refused "no rpma-perf" '{}\n'
refused "nested too deeply" '{"type":[[[[[[[[]]]]]]]]}\n'
refused 'sent "setup" where "hello" was expected' "$(setup)\n"
# the same form is decoded if its values are allowed: only the memory is too much
refused "max-memory is" "$hello$(setup size:1073741824 depth:2)\n"
refused '"depth" is 0' "$hello$(setup depth:0)\n"
refused '"signal_every" is 0' "$hello$(setup signal_every:0)\n"
refused '"connections" is 5000' "$hello$(setup connections:5000)\n"
refused "2 threads are more than 1 connections" "$hello$(setup threads:2)\n"
refused '"target_waits" is not known' "$hello$(setup 'target_waits:"nap"')\n"
refused "pauses" "$hello$(setup 'op:"send"' 'target_waits:"pause"')\n"
refused '"verify" is neither' "$hello$(setup verify:2)\n"
# the client gets the reason as well
grep -q '^{"type":"error","sentence":".*neither' "$work/answer" || fail "the client is not told why: $(cat "$work/answer")"
# programs of other versions: both sides say it; the binary messages of version 2 get one of their kind, of version 3
refused "versions 3 and 4 of the control protocol" '{"type":"hello","version":4,"more":{}}\n'
grep -q '^{"type":"error","sentence":"versions 3 and 4' "$work/answer" || fail "the client is not told: $(cat "$work/answer")"
refused "versions 3 and 2 of the control protocol" 'RPPF\x02\x00\x01\x00\x00\x00\x00\x00'
[[ $(head -c 12 "$work/answer" | od -An -tx1) == " 52 50 50 46 03 00 08 00 00 00 00 00" ]] ||
	fail "an old client is not told: $(od -c "$work/answer")"
# half a message, then the connection is closed
: >"$work/server.err"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf '{"type":' >&3
exec 3>&-
until_true "the server notices" grep -q "has gone" "$work/server.err"

# peer <argument...>: starts a false server; sets $peer and $peer_port
peer()
{
	: >"$work/peer.out"
	"$false_server" "$@" >"$work/peer.out" &
	peer=$!
	started+=("$peer")
	until_true "the other side listens" grep -q '^port' "$work/peer.out"
	peer_port=$(sed -n 's/^port //p' "$work/peer.out")
}
# the server's machine does not answer at all, or the server does not: both end, and say it
peer full
expect 1 "no answer within 10 seconds; does a firewall" "$perf" client 127.0.0.1 --port "$peer_port"
kill -9 "$peer"
peer lines
expect 1 "has not answered in time" "$perf" client 127.0.0.1 --port "$peer_port"
peer lines '{"type":"hello","version":4}'
expect 1 "versions 3 and 4 of the control protocol" "$perf" client 127.0.0.1 --port "$peer_port"
peer lines $'RPPF\x01\x01' # an argument cannot have a byte of 0
expect 1 "versions 3 and 257" "$perf" client 127.0.0.1 --port "$peer_port"
# a connection that is refused has nothing to disconnect: no error but the one
ready='{"type":"ready","token":"0123456789abcdef","port":PORT,"memory":"DRAM"}'
peer lines '{"type":"hello","version":3}' "${ready/PORT/1}"
expect 1 "connecting to" "$perf" client 127.0.0.1 --port "$peer_port"
! grep -q "rdma_disconnect" "$work/err" || fail "a false alarm: $(cat "$work/err")"
data_port=$(sed -n 's/.* RDMA on port //p' "$work/server.out")
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf '%b' "$hello$(setup)\n" >&3
until_true "the server is ready" grep -q '"ready"' <(timeout 5 head -n 2 <&3)
# the server waits for connections now, and refuses this one, which has another token
peer lines '{"type":"hello","version":3}' "${ready/PORT/$data_port}"
expect 1 "connecting to 127.0.0.1 port $data_port" "$perf" client 127.0.0.1 --port "$peer_port"
exec 3>&-
! grep -q "rdma_disconnect" "$work/err" || fail "a false alarm: $(cat "$work/err")"

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

# two clients at once: this one begins and ends while the other one measures
serve 127.0.0.1 --max-memory 1m
"$perf" client 127.0.0.1 --port "$port" --op send --size 64k --depth 8 --duration 1000 >"$work/long.out" 2>"$work/long.err" &
long=$!
started+=("$long")
until_true "the client measures" measuring "$long"
expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op write,send,ping-pong --connections 2 --count 300 --verify --json
is "$sane"
is 'all(.results[]; .target_clients == 2 and .target_cpu_us_per_op == null)'
expect 0 "" "$perf" client 127.0.0.1 --port "$port" --count 10
grep -q "^The server had other clients at the same time" "$work/out" || fail "no word about the other client: $(cat "$work/out")"
# the memory is for all of them
expect 1 "other clients have 524288, and --max-memory is 1048576" "$perf" client 127.0.0.1 --port "$port" --size 512k \
	--depth 2 --count 10
kill -0 "$long" || fail "the other client has ended: $(cat "$work/long.err")"
kill -9 "$long"
until_true "the server notices" grep -q "has gone" "$work/server.err"
# alone again
until_true "no thread is left" not_receiving "$server"
expect 0 "" "$perf" client 127.0.0.1 --port "$port" --count 10 --json
is '.results[0] | .target_clients == 1 and .target_cpu_us_per_op >= 0'
# many at once, each of which has its own data
clients=()
for i in 1 2 3 4 5 6; do
	"$perf" client 127.0.0.1 --port "$port" --op write,send,cas --connections 3 --threads 2 --count 500 --verify --json \
		>"$work/many$i.out" 2>"$work/many$i.err" &
	clients+=($!)
	started+=($!)
done
for i in 1 2 3 4 5 6; do
	wait "${clients[i - 1]}" || fail "client $i of 6: $(cat "$work/many$i.err")"
	is "$sane" "$work/many$i.out"
done
# a client that comes later counts as well
"$perf" client 127.0.0.1 --port "$port" --duration 3 --json >"$work/long.out" 2>"$work/long.err" &
long=$!
started+=("$long")
until_true "the client measures" measuring "$long"
while ! ended "$long"; do
	expect 0 "" "$perf" client 127.0.0.1 --port "$port" --op write,send --count 100
done
wait "$long" || fail "the client ends with $?: $(cat "$work/long.err")"
is '.results[0] | .target_clients == 2 and .target_cpu_us_per_op == null' "$work/long.out"
kill -9 "$server"
# a file is for one client, and a folder has a file for each
printf 'lost%.0s' {1..2048} >"$work/file"
mkdir "$work/folder"
for memory in "$work/file" "$work/folder"; do
	RPMA_LOG_LEVEL=error serve 127.0.0.1 --memory "$memory" --overwrite
	"$perf" client 127.0.0.1 --port "$port" --duration 1000 >"$work/long.out" 2>"$work/long.err" &
	long=$!
	started+=("$long")
	until_true "the client measures" measuring "$long"
	if [[ -d $memory ]]; then
		expect 0 "" "$perf" client 127.0.0.1 --port "$port" --count 10 --verify
	else
		expect 1 "another client uses $memory" "$perf" client 127.0.0.1 --port "$port" --count 10
	fi
	kill -9 "$long"
	until_true "the server notices" grep -q "has gone" "$work/server.err"
	kill -9 "$server"
done
serve 127.0.0.1

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

reports=("$work"/sanitizer.*)
[[ ! -e ${reports[0]} ]] || {
	cat "${reports[@]}"
	fail "a sanitizer has found something"
}
