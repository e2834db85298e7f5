#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-clients.sh <rpma-perf> -- one event loop on each side serves all connections of --clients, and forgets none

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1
service=(--clients 3 --wait fd --verify --json)

# clients <option...>: three of them, with every byte verified; nothing is said
clients()
{
	expect 0 "" "$perf" local "${service[@]}" "$@"
	is "$sane"
	is 'all(.results[].load; .connections == 3 and .threads == 1 and .wait == "fd")'
}

# each connection makes its count, and no operation more; the target answers in a loop, or sleeps
ops=write,read,send,write-with-imm,atomic-write,cas,write+flush,write_flush,ping-pong
clients --op $ops --count 200
is "[.results[].load.op] == (\"$ops\" | split(\",\"))"
is 'all(.results[]; .ops == 600 and .latency_us.count == 600 and .load.depth == 1)'
is 'all(.results[]; .load.target_waits == if .load.op | test("send|imm|ping") then "fd" else "pause" end)'
clients --op ping-pong --signal-every 8 --count 200
is '.results[0] | .ops == 600 and .latency_us.count == 600'
clients --op write --target-waits fd --count 200
is '.results[0].load.target_waits == "fd"'
expect 0 "" "$perf" local ::1 "${service[@]}" --op ping-pong,write --signal-every 1 --count 100
is "$sane"

# the loop looks at other connections before a busy one has nothing left, and comes back to it
clients --op write,ping-pong --depth 2048 --batch 1024 --count 6000
is 'all(.results[]; .ops == 18000)'
# a change of phase finds each connection in the middle of something
clients --op write,send,ping-pong --depth 8 --batch 2 --signal-every 4 --warm-up 0.02 --duration 0.1
# operations that are due wake the loop
clients --op write,ping-pong --rate 500 --count 50
is 'all(.results[]; .ops == 150 and .load.rate == 500)'

# a program that computes keeps all of its clients waiting, and answers each: no round trip takes less
clients --op ping-pong --count 20 --warm-up 0 --compute 2000
is '.results[0] | .ops == 60 and .latency_us.p50 >= 2000 and .seconds >= 60 * 0.002'

# one connection is the least
expect 0 "" "$perf" local --op ping-pong,write --clients 1 --wait fd --count 100 --json
is 'all(.results[]; .ops == 100 and .load.connections == 1)'
expect 0 "" "$perf" local --op ping-pong --clients 3 --wait fd --count 100
grep -q '; 3 connections, 1 thread, 1 operation in flight on each connection; initiator: fd, target: fd$' "$work/out" ||
	fail "the table does not say how: $(cat "$work/out")"
