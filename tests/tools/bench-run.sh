#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# shellcheck disable=SC2016 # what stands between backticks is no command

# bench-run.sh -- what benchmarks/run computes from figures: medians, ratios and verdicts, and where it puts the table

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"

mkdir -p "$work/tree/"{doc/evidence,utils,build/benchmarks}
cp -r "$here/../../benchmarks" "$work/tree/"
cp "$here/../../utils/install-packages.sh" "$work/tree/utils/"
run=$work/tree/benchmarks/run
data=$work/tree/build/benchmarks/run.data

expect 1 "nothing has been measured" "$run" --rounds 0
expect 2 "no row \"nonsense\"" "$run" --only nonsense
expect 2 "5 rounds at least" "$run" --write --rounds 4
expect 2 "all rows" "$run" --write --only write
expect 2 "" "$run" --rounds many
expect 0 "" "$run" --list
for name in write wait connections idle instructions 'event loop' services service-64 service-calls service-mixed 'busy machine'; do
	grep -q "^$name  " "$work/out" || fail "--list has no $name"
done
expect 2 "no row \"event\"" "$run" --only event

# rounds <figure> <value...>
rounds()
{
	local value
	for value in "${@:2}"; do
		echo "$1 $value" >>"$data"
	done
}
echo "about 5 0.10" >"$data"
rounds write "100 100 100" "1 9 20" "3 10 30" "1.5 10 30" "2 10 40"
rounds libfabric 4 5 4 1 4
rounds tcp_spin 1 1 1 1 1
rounds write_wait 1.1e1 11 11
rounds tcp_block 10 10
rounds write_wait_spin 8
rounds write_rate 5000000
rounds write_flush 10
rounds msync 7
rounds many_memory 34.4
rounds many_connects 2000
rounds rate_1000 70
rounds rate_8 100
rounds ping_fd "21 19 70" "20 18.5 60" "19 18 50"
rounds tcp_poll "18 17 30"
rounds write_16 "30 20.5 61"
rounds paced_cpu "0.5 2.5"
rounds read 3

# has <text>: a line of the table
has()
{
	grep -qF -- "$1" "$work/out" || fail "no \"$1\" in: $(cat "$work/out")"
}
expect 0 "" "$run" --rounds 0
has '| 2.00 us, p99 30.0 | 4.00 us (2 x `fi_pingpong -p tcp -e msg`) | 0.50 | <= 0.85 | yes |'
has '| 2.00 us, p99 30.0 | 1.00 us (bare TCP ping-pong, both sides spin) | 2.00 | <= 1.3 | **no** |'
# a goal that is only just reached
has '| 11.0 us | 10.0 us (bare TCP ping-pong, both sides block) | 1.10 | <= 1.1 | yes |'
has '| 70.0 /s | 100 /s (the same over 8) | 0.70 | >= 0.7 | yes |'
has '| 2000 /s | - | - | >= 2000 /s | yes |'
has '| memory of a server for each of many connections | 34.4 KiB | - | - | <= 34 KiB | **no** |'
# a sum; without a goal; without a yardstick, and without a figure
has '| 10.0 us | 10.0 us (local `msync` + 1.5 x the 64 B write) | 1.00 | <= 1 | yes |'
has '| 8.00 us | 4.00 us (2 x `fi_pingpong -p tcp -e msg`) | 2.00 | - | - |'
has '| 5000000 /s | `ucx_perftest -t ucp_put_bw`, tcp | - | >= 8 | not measured |'
has '| 1 MiB writes, 4 in flight | - | `iperf3`, one stream | - | >= 0.95 | not measured |'
has '| - | - | - | <= 10 ms | not measured |'
# of a latency with three numbers each is a figure of its own, and p99 stands beside the others
has '| 20.0 us, p99 60.0 | 18.0 us, p99 30.0 (bare TCP ping-pong, both sides in `poll`) | 1.11 | <= 1.3 | yes |'
has '| 60.0 us | 18.5 us, p99 60.0 (their median) | 3.24 | <= 3 | **no** |'
has '| 20.5 us, p99 61.0 | 10.0 us, p99 30.0 (one in flight) | 2.05 | <= 2 | **no** |'
has '| 0.50 % | - | - | <= 2 % | yes |'
has '| 2.50 % | - | - | <= 2 % | **no** |'
# one of two yardsticks: 0.85 of libfabric, unless bare TCP is above that
has '| 3.00 us | 3.40 us (0.85 x `fi_pingpong`; 1.1 x bare TCP where that alone is above it) | 0.88 | <= 1 | yes |'
# each group once, before its rows
(($(grep -c '^| \*\*polling\*\* | | | | | |$' "$work/out") == 1)) || fail "no heading of a group: $(cat "$work/out")"
has 'rounds: 5'
! grep -q "Other programs ran" "$work/out" || fail "a machine that was idle is called busy"

expect 1 "" "$run" --rounds 0 --strict
expect 0 "" "$run" --rounds 0 --strict --only flush
(($(grep -c '^|' "$work/out") == 4)) || fail "--only shows more than its row and its group"
expect 1 "" "$run" --rounds 0 --strict --only "event loop"
(($(grep -c '^|' "$work/out") == 6)) || fail "--only does not show three rows of a group: $(cat "$work/out")"
! grep -qF '**polling**' "$work/out" || fail "--only shows another group"
sed -i '/^tcp_spin/s/ .*/ 3.5/' "$data"
expect 0 "" "$run" --rounds 0 --only read
has '| 3.00 us | 3.85 us (0.85 x `fi_pingpong`; 1.1 x bare TCP where that alone is above it) | 0.78 | <= 1 | yes |'
# plain posts have a goal only beside an older build
rounds plain_rate 4750000
rounds baseline_rate 5000000
expect 0 "" "$run" --rounds 0 --only plain
has '| 4750000 /s | 5000000 /s (batches of 16) | 0.95 | - | - |'
expect 0 "" env BASELINE_PERF=/nowhere/rpma-perf "$run" --rounds 0 --only plain
has '| 4750000 /s | 5000000 /s (batches of 16, older build) | 0.95 | >= 0.9 | yes |'
expect 1 "" "$run" --rounds 0 --strict --only flush --only rate
# ratios of each round, whose median is not the ratio of the medians; a round without one of both does not count
for round in "1 40 100" "2 90 100" "3 150 200" "4 - 1000" "5 80 -"; do
	read -r round ours bare <<<"$round"
	echo "round $round" >>"$data"
	[[ $ours == - ]] || rounds service_messages_64 "$ours 1000 $((ours * 30))"
	[[ $bare == - ]] || rounds tcp_service_64 "$bare 500 $((bare * 10))"
done
rounds beside_service_read "100 90 450"
rounds beside_service_write "100 90 600"
rounds service_calls 4.2 5.5 4.9
rounds service_messages_8 100
expect 0 "" "$run" --rounds 0 --only services
has '| 85.0 /s, p99 2550 us | 150 /s, p99 1500 us (bare TCP, the same shape) | 0.75 | >= 0.7 | yes |'
has '| 2550 us | 1500 us (bare TCP, the same shape, 99 %) | 2.25 | <= 1.5 | **no** |'
has '| 100 /s | bare TCP, the same shape | - | >= 0.75 | not measured |'
has '| 450 us | - | - | <= 500 us | yes |'
has '| 64 B write of another client there, 99 % | 600 us | - | - | - | - |'
has '| 4.90 calls | - | - | <= 5 calls | yes |'
# a round of their own for each: no ratio
printf 'round 8\ntcp_service_8 100\n' >>"$data"
expect 0 "" "$run" --rounds 0 --only service-8
has '| 100 /s | 100 /s (bare TCP, the same shape) | - | >= 0.75 | not measured |'
# a figure among the words of a row
rounds many_count 1000 10000 10000
expect 0 "" "$run" --rounds 0 --only connections
has '| memory of a server for each of 10,000 connections | 34.4 KiB |'
has '| 64 B writes over 10,000 connections, all active | - |'
sed -i 's/^about.*/about 5 1.5/' "$data"
expect 0 "" "$run" --rounds 0
has 'Other programs ran at the same time'

doc=$work/tree/doc/evidence/measurements.md
printf '%s\n' before '<!-- begin run -->' 'old table' '<!-- end run -->' after >"$doc"
expect 0 "" "$run" --rounds 0 --write
[[ $(head -n 2 "$doc")/$(tail -n 2 "$doc") == $'before\n<!-- begin run -->/<!-- end run -->\nafter' ]] ||
	fail "the rest of the document has changed: $(cat "$doc")"
! grep -q "old table" "$doc" || fail "the old table is still there"
diff <(sed '/^<!-- begin/,/^<!-- end/!d;/^<!--/d' "$doc") "$work/out" || fail "the table is not what was printed"
echo "no place" >"$doc"
expect 1 "no place for the table" "$run" --rounds 0 --write
