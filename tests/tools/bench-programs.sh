#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# bench-programs.sh <one of them> -- the benchmark programs end, and print the number of figures that they document

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
programs=$(dirname "$1")

# prints <pattern of the line> <program> <argument...>
prints()
{
	local pattern=$1 program=$2
	shift 2
	expect 0 "" "$programs/$program" "$@"
	grep -qxE -e "$pattern" "$work/out" || fail "$program $*: $(cat "$work/out")"
	(($(wc -l <"$work/out") == 1)) || fail "$program prints more than a line"
}
number='[0-9]+(\.[0-9]+)?'

for mode in spin block poll; do
	prints "$number $number $number" bench-tcp-pingpong $mode 64 0.01
	# the median is not more than what 99 % do not exceed, and a round trip takes some time
	read -r mean median most <"$work/out"
	awk -v mean="$mean" -v median="$median" -v most="$most" 'BEGIN { exit !(0.5 < median && median <= most && mean > 0.5) }' ||
		fail "bench-tcp-pingpong $mode: $(cat "$work/out")"
	prints "$number $number $number" bench-tcp-pingpong $mode 1048576 0.01
done
for clients in 1 3 200; do
	prints "$number $number $number" bench-tcp-pingpong --clients $clients 64 0.05
	read -r rate median most <"$work/out"
	awk -v rate="$rate" -v median="$median" -v most="$most" 'BEGIN { exit !(rate > 1 && 0.5 < median && median <= most) }' ||
		fail "bench-tcp-pingpong --clients $clients: $(cat "$work/out")"
done
prints "$number $number $number" bench-tcp-pingpong --clients 3 4096 0.01
for which in bare verbs; do
	prints "$number $number $number" bench-datagrams $which ping-pong 64 0.01
	prints "$number $number" bench-datagrams $which flood 4096 0.01
done
prints "$number" bench-msync "$work" 4096 0.01
[[ -z $(find "$work" -name 'bench-msync-*') ]] || fail "a file is left behind"
prints "- - $number" bench-connections 1 0.01
prints "$number $number $number" bench-connections 20 0
if ! "$programs/bench-process-vm" 64 0.01 >"$work/out" 2>"$work/err"; then
	grep -q "Operation not permitted" "$work/err" || fail "bench-process-vm: $(cat "$work/err")"
else
	prints "$number $number" bench-process-vm 1048576 0.01
fi

expect 1 "$work/none" "$programs/bench-msync" "$work/none" 4096 0.01
# shellcheck disable=SC2086 # words of a command
for wrong in "tcp-pingpong spin 0 1" "tcp-pingpong spin 64 x" "msync $work 4096k 1" "connections 0 1" "connections 1 nan" \
	"tcp-pingpong --clients 0 64 1" "tcp-pingpong --clients 5000 64 1" "tcp-pingpong --clients 3 8192 1" \
	"process-vm 64 -1" "datagrams bare flood 5000 1"; do
	expect 2 "not a number from" "$programs/"bench-$wrong
done
# shellcheck disable=SC2086
for wrong in "tcp-pingpong fly 64 1" "tcp-pingpong spin 64" "tcp-pingpong --clients 64 1" "msync $work 4096" "connections 1" process-vm \
	"datagrams both flood 64 1"; do
	expect 2 "usage: bench-" "$programs/"bench-$wrong
done
