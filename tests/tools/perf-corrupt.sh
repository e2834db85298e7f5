#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-corrupt.sh <rpma-perf> <corrupt module> -- --verify finds wrong data, in each kind of operation

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1 corrupt=$2

# the count exceeds the number of slots, so each is written several times
for op in write read send write-with-imm atomic-write cas write+flush write_flush ping-pong; do
	expect 0 "" "$perf" local --op $op --count 100 --depth 8 --verify --json
	is '.results[0].wrong == 0'
	expect 3 "WRONG DATA" env LD_PRELOAD="$corrupt" "$perf" local --op $op --count 100 --depth 8 --verify --json
	is '.results[0].wrong > 0'
	# without --verify no data is checked
	expect 0 "" env LD_PRELOAD="$corrupt" "$perf" local --op $op --count 100 --depth 8 --json
done

# an event loop that serves several connections finds them too
expect 3 "WRONG DATA" env LD_PRELOAD="$corrupt" "$perf" local --op ping-pong --clients 3 --wait fd --count 100 --verify --json
is '.results[0].wrong > 0'

# both directions of a ping-pong: only one side is corrupt, or none
# ping_pong <status of the client> <preloaded by the server> <preloaded by the client>
ping_pong()
{
	local server
	: >"$work/server.out"
	env LD_PRELOAD="$2" "$perf" server 127.0.0.1 --port 0 --once >"$work/server.out" &
	server=$!
	started+=("$server")
	until_true "the server listens" grep -q listening "$work/server.out"
	expect "$1" "${4-}" env LD_PRELOAD="$3" "$perf" client 127.0.0.1 --op ping-pong --count 100 --depth 8 --verify --json \
		--port "$(sed -n 's/.* port \([0-9]*\), RDMA.*/\1/p' "$work/server.out")"
	wait "$server" || fail "the server ends with $?"
}
ping_pong 0 "" ""
is '.results[0].wrong == 0'
ping_pong 3 "" "$corrupt" "slot 0 of connection 0, last written by operation"
ping_pong 3 "$corrupt" "" "the answer to message 0 of connection 0 is wrong from offset 63 on"
