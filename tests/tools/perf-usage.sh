#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-usage.sh <rpma-perf> -- wrong command lines end with status 2 and say why

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1

wrong()
{
	local text=$1
	shift
	expect 2 "$text" "$perf" "$@"
	[[ ! -s $work/out ]] || fail "writes to standard output: $*"
}
wrong "server, client or local?"
wrong "neither server, client nor local" nonsense
wrong "an address is needed" client
wrong "an address is needed" server
wrong "one argument too many" local 127.0.0.1 more
wrong "--nonsense is no option" local --nonsense
wrong "needs a value" local --size
wrong "\"fly\" is not an operation" local --op fly
wrong "\"\" is not an operation" local --op write,
wrong "--size takes" local --size 0
wrong "--size takes" local --size 64x
wrong "--size takes" local --size 64k:1k
wrong "--size takes" local --size 2g
wrong "--size takes" local --size -1
wrong "--size takes" local --size 18446744073709551617
wrong "--depth takes" local --depth 0
wrong "--depth takes" local --depth 1e3
wrong "--depth takes" local --depth 100000
wrong "--batch 5 is more than --depth 4" local --depth 4 --batch 5
wrong "--signal-every 5 is more than --depth 4" local --depth 4 --signal-every 5
wrong "no room for a batch" local --depth 10 --batch 4 --signal-every 10
wrong "--signal-every 5 is more than --depth 4" local --depth 4 --signal-every 5 --op ping-pong,write
wrong "--threads 2 is more than --connections 1" local --threads 2
wrong "--clients takes a number from 1 to 4096" local --clients 0 --wait fd
wrong "--clients takes a number from 1 to 4096" local --clients 4097 --wait fd
wrong "--clients takes a number from 1 to 4096" local --clients many --wait fd
wrong "give --wait fd as well" local --clients 3
wrong "give --wait fd as well" local --clients 3 --wait
wrong "give --wait fd as well" local --clients 3 --wait poll
wrong "--clients and --connections exclude each other" local --clients 3 --wait fd --connections 3
wrong "leave --threads out" local --wait fd --threads 1 --clients 3
wrong "give --target-waits fd or pause" local --clients 3 --wait fd --op ping-pong --target-waits poll
wrong "give --target-waits fd or pause" local --clients 3 --wait fd --target-waits cq_wait
wrong "--clients is an option of the client, or of local" server 127.0.0.1 --clients 3
wrong "needs a value" local --clients
wrong "--pieces takes" local --pieces 65
wrong "exclude each other" local --pieces 2 --inline 64
wrong "--inline does not apply to read" local --op write,read --inline 64
wrong "--pieces does not apply to send" local --op send --pieces 2
wrong "--inline does not apply to ping-pong" local --op ping-pong --inline 64
wrong "fewer bytes than --pieces" local --pieces 8 --size 4
wrong "--flush-type takes" local --flush-type never
for rate in 0 -1 1e3 inf 0.0001 2000000000 many; do
	wrong "--rate takes" local --rate $rate
done
wrong "leave --batch out" local --rate 100 --depth 4 --batch 2
wrong "completion of each write" local --rate 100 --depth 4 --signal-every 2 --op ping-pong,write
wrong "--rate is an option of the client, or of local" server 127.0.0.1 --rate 100
wrong "--wait takes" local --wait=nonsense
wrong "--wait takes" local --wait=
wrong "--wait takes" local --wait pause
wrong "one argument too many" local 127.0.0.1 --wait nonsense
wrong "--target-waits takes" local --target-waits nonsense
wrong "needs a value" local --target-waits
wrong "pause does not apply to send" local --op write,send --target-waits pause
wrong "pause does not apply to ping-pong" local --op ping-pong --target-waits pause
wrong "pause does not apply to write-with-imm" local --op write-with-imm --target-waits pause
wrong "--wait is an option of the client, or of local" server 127.0.0.1 --wait
wrong "--target-waits is an option of the client, or of local" server 127.0.0.1 --target-waits poll
wrong "--duration takes" local --duration 0
wrong "--duration takes" local --duration inf
wrong "--warm-up takes" local --warm-up -1
wrong "--count takes" local --count 0
wrong "--device takes" local --device nonsense
wrong "--memory takes" local --memory ""
wrong "--compute takes a number from 0 to 100000" local --compute 100001
wrong "--compute takes a number from 0 to 100000" local --compute -1
wrong "--compute takes a number from 0 to 100000" local --compute 1ms
wrong "--compute is an option of the server, or of local" client 127.0.0.1 --compute 100
wrong "--port takes" client 127.0.0.1 --port 65536
wrong "--port is an option of server and client" local --port 1
wrong "--once is an option of the server" client 127.0.0.1 --once
wrong "--memory is an option of the server, or of local" client 127.0.0.1 --memory dram
wrong "--op is an option of the client, or of local" server 127.0.0.1 --op write

for mode in --help -h help; do
	expect 0 "" "$perf" $mode
	grep -q "Exit status: 0 done; 1 .*; 2 wrong" "$work/out" || fail "$mode has no exit statuses"
done
# --help names every option
while read -r option; do
	grep -qE -- "--$option\b" "$work/out" || fail "--help has no --$option"
done < <(sed -n 's/^\t{ "\([a-z-]*\)", .*/\1/p' "$here/../../tools/perf/options.c")
in_manual rpma-perf.1.md
expect 0 "" "$perf" --version
