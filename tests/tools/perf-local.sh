#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-local.sh <rpma-perf> -- every operation, with every byte verified, and the reports about it

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1
short=(--duration 0.1 --warm-up 0.02)

ops=write,read,send,write-with-imm,atomic-write,cas,write+flush,write_flush,ping-pong
expect 0 "" "$perf" local --op $ops "${short[@]}" --verify --json
is "$sane"
is "[.results[].load.op] == (\"$ops\" | split(\",\"))"
is '.device == "softrdma0" and .is_software_device and .machine.cores > 0 and (.machine.kernel | length) > 0'
is 'all(.results[]; .load.size == if .load.op == "cas" or .load.op == "atomic-write" then 8 else 64 end)'

# all options at once, with odd sizes; the run waits for unsignaled operations at its end
expect 0 "" "$perf" local --op $ops --size 1,100,5000 "${short[@]}" --depth 8 --batch 3 --signal-every 5 \
	--connections 3 --threads 2 --verify --json
is "$sane"
expect 0 "" "$perf" local --op $ops --depth 4 --batch 4 --connections 3 --wait "${short[@]}" --verify --json
is "$sane"
is 'all(.results[]; .load.wait == "cq_wait")'
is 'all(.results[]; .load.target_waits == if .load.op | test("send|imm|ping") then "fd" else "pause" end)'

# the ways of waiting, one connection and several to a thread
few=(--count 300 --warm-up 0)
for how in poll cq_wait fd; do
	for there in poll cq_wait fd; do
		expect 0 "" "$perf" local --op write,cas,send,ping-pong --wait $how --target-waits $there "${few[@]}" --verify --json
		is "$sane"
		is "all(.results[]; .load.wait == \"$how\" and .load.target_waits == \"$there\")"
	done
	expect 0 "" "$perf" local --op write,send,ping-pong --wait=$how --target-waits $how --connections 3 --threads 2 \
		--depth 4 "${few[@]}" --verify --json
	is "$sane"
	expect 0 "" "$perf" local --op write,read --wait $how --target-waits pause --count 10 --json
	is "all(.results[]; .load.wait == \"$how\" and .load.target_waits == \"pause\")"
done
# paced: as many operations as are due, at the asked rate, and no faster
for how in poll cq_wait fd; do
	expect 0 "" "$perf" local --op write,ping-pong --wait $how --rate 250.5 --count 100 --connections 2 --verify --json
	is "$sane"
	is 'all(.results[]; .load.rate == 250.5 and .ops == 200 and .ops_per_s < 510)'
	is 'all(.results[]; .seconds > 99 / 250.5 and .seconds < 5)'
done
expect 0 "" "$perf" local --op write --count 10 --json
is '.results[0].load | has("rate") and .rate == null'
expect 0 "" "$perf" local --rate 1000 --count 10 --report "$work/paced.html"
grep -q '1000 operations per second due on each connection' "$work/paced.html" || fail "the page does not have the rate"
grep -q ', 1000 operations per second due on each connection; ' "$work/out" || fail "the table does not have the rate"
expect 0 "" "$perf" local --rate 1000.25 --count 10 --csv
[[ $(cut -d, -f27 "$work/out") == $'rate\n1000.25' ]] || fail "CSV does not have the rate"
# an operation that takes 400 ms delays those that are due meanwhile, and their latencies say so; without a rate it is
# the only one
stall=(env RPMA_LOG_LEVEL=error SOFTRDMA_FAULTS=delay=400ms@100)
expect 0 "" "${stall[@]}" "$perf" local --count 600 --warm-up 0 --rate 1000 --json
is '.results[0].latency_us | .max >= 400000 and .p50 > 40000'
expect 0 "" "${stall[@]}" "$perf" local --count 600 --warm-up 0 --json
is '.results[0].latency_us | .max >= 400000 and .p50 < 40000'

# what follows --wait is its value only if it names a way
for words in "local --wait" "--wait local" "local --wait 127.0.0.1" "--wait cq_wait local 127.0.0.1" \
	"local 127.0.0.1 --wait cq_wait"; do
	# shellcheck disable=SC2086 # words of a command line
	expect 0 "" "$perf" $words --count 10 --json
	is '.results[0].load | .wait == "cq_wait" and .target_waits == "pause"'
done
expect 0 "" "$perf" local --count 10 --json
is '.results[0].load | .wait == "poll" and .target_waits == "pause"'
expect 0 "" "$perf" local --op write,send --wait fd --count 10
grep -q '; initiator: fd, target: pause or fd$' "$work/out" || fail "the table does not name the ways"
expect 0 "" "$perf" local --op write,send,write-with-imm --inline 256 --size 8,256,257 "${short[@]}" --verify --json
is "$sane"
expect 0 "" "$perf" local --op write,read --pieces 7 --size 7,1000,64k "${short[@]}" --depth 2 --verify --json
is "$sane"
expect 0 "" "$perf" local ::1 --op $ops "${short[@]}" --verify --json
is "$sane"

# the count is exact, however many operations are in flight
expect 0 "" "$perf" local --op write,send,ping-pong --count 1001 --connections 3 --depth 16 --batch 4 --signal-every 16 \
	--verify --json
is "$sane"
is 'all(.results[]; .ops == 3003)'
# answers complete a ping-pong, so its sends may complete more seldom than the depth says, and each has a latency
for signal in 1 16 1000; do
	expect 0 "" "$perf" local --op ping-pong --count 2500 --depth 2 --signal-every $signal --verify --json
	is "$sane"
	is '.results[0] | .ops == 5000 / 2 and .latency_us.count == .ops'
done
expect 0 "" "$perf" local --op ping-pong --size 1 --count 20000 --depth 8192 --signal-every 8192 --batch 8192 --verify --json
is "$sane"

# sweeps
expect 0 "" "$perf" local --size 64:1k,3000 --count 10 --json
is '[.results[].load.size] == [64, 128, 256, 512, 1024, 3000]'

# a line for each result, with as many fields as the first line
expect 0 "" "$perf" local --op read,write+flush --size 64,128 --count 10 --csv
awk -F, 'NR == 1 { n = NF } NF != n { bad = 1 } END { exit bad || NR != 5 || n != 29 }' "$work/out" || fail "not CSV"
# percentiles that ten latencies do not support are empty, and those they do support are not: p50 to max
expect 0 "" "$perf" local --op read --count 10 --csv
[[ $(sed -n 2p "$work/out" | cut -d, -f17-21) =~ ^[0-9.]+,[0-9.]+,,,[0-9.]+$ ]] || fail "CSV: $(cat "$work/out")"
[[ $(cut -d, -f28-29 "$work/out") == $'latencies,target_clients\n10,1' ]] || fail "CSV: $(cat "$work/out")"

# in the table, figures have three digits, and a percentile without enough latencies is "-"
expect 0 "" "$perf" local --size 64,128 --count 10
(($(grep -c '^write ' "$work/out") == 2)) || fail "the table has not 2 rows"
[[ $(head -n 1 "$work/out") == "rpma-perf local --size 64,128 --count 10" ]] || fail "the table does not have the command"
figure='(0|[0-9]\.[0-9][0-9]|[0-9]{2}\.[0-9]|[0-9]{3}|[0-9]{3}0+|0\.0*[1-9][0-9][0-9])'
grep -qxE "write +64( +$figure){2} \|( +$figure){2} +- +- +$figure +10 \|( +$figure){2}" "$work/out" ||
	fail "not figures as they should be: $(cat "$work/out")"
grep -q ': 1 connection, 1 thread, 1 operation in flight on each connection; \|; 1 connection, 1 thread, 1 operation in flight' \
	"$work/out" || fail "not singular: $(cat "$work/out")"
expect 0 "" "$perf" local --connections 2 --threads 2 --depth 3 --batch 2 --signal-every 2 --pieces 2 --count 12
grep -qF '2 connections, 2 threads, 3 operations in flight on each connection, posted in batches of 2, one operation of 2 asks' \
	"$work/out" || fail "not plural: $(cat "$work/out")"

# the page loads nothing from elsewhere; the command is quoted as a shell needs it
page=$work/"a page's.html"
expect 0 "" "$perf" local --op write,read --size 64:4k --count 200 --report "$page"
for text in '<!DOCTYPE html>' '</html>' '4k' 'Throughput for each size' 'Latency that 99 % do not exceed' \
	'initiator: poll, target: pause' 'Waiting' '1 connection, 1 thread, 1 operation in flight' '<td>200</td>' \
	"<pre>rpma-perf local --op write,read --size 64:4k --count 200 --report '$work/a page'\\''s.html'</pre>"; do
	grep -qF -- "$text" "$page" || fail "the page has no \"$text\""
done
(($(grep -c '<svg' "$page") == 5 && $(grep -c '</svg>' "$page") == 5)) || fail "not 5 charts"
(($(grep -c '<polyline' "$page") == 10)) || fail "not 10 lines"
! grep -qiE 'https?:|src=|href=|@import|url\(|<script|>-?nan|[^a-z]inf[^a-z]' "$page" || fail "the page needs something else"
# with ten latencies the chart of p99 is left out, and so is its figure
expect 0 "" "$perf" local --op write,read --size 64:4k --count 10 --report "$page"
(($(grep -c '<svg' "$page") == 4 && $(grep -c '<polyline' "$page") == 8)) || fail "not 4 charts with 8 lines"
! grep -q 'p99), for each size' "$page" || fail "p99 of 10 latencies is drawn"
(($(grep -c '<td>-</td><td>-</td>' "$page") == 14)) || fail "p99 and p99.9 of 10 latencies are shown"

# bad_path <text> <path>: it is found before anything is measured
bad_path()
{
	expect 1 "$1" "$perf" local --duration 1000 --report "$2"
	[[ ! -s $work/out ]] || fail "it has measured, although the report cannot go to $2"
}
bad_path "$work/none/page.html" "$work/none/page.html"
bad_path "is a folder" "$work"
bad_path "cannot be written" /proc/page.html
mkdir "$work/locked"
touch "$work/locked/page.html"
chmod 555 "$work/locked"
if ! touch "$work/locked/new" 2>/dev/null; then
	bad_path "cannot be written" "$work/locked/new"
	bad_path "cannot be written" "$work/locked/page.html"
else
	echo "not tried: a folder without the right to write, which this user has everywhere"
fi
rm -rf "$work/locked"
status=0
"$perf" local --duration 1000 >&- 2>"$work/err" || status=$?
if ((status != 1)) || ! grep -q "standard output" "$work/err"; then
	fail "closed standard output: $status, $(cat "$work/err")"
fi
# an existing report is there until the new one is whole, with its mode, and through a symbolic link
echo old >"$work/old.html"
chmod 640 "$work/old.html"
ln -s old.html "$work/link.html"
expect 1 "max-memory" "$perf" local --max-memory 1 --report "$work/link.html"
[[ $(cat "$work/old.html") == old ]] || fail "a report was lost although nothing was measured"
expect 0 "" "$perf" local --count 10 --report "$work/link.html"
grep -q '</html>' "$work/old.html" || fail "the report is not where the link points to"
[[ $(stat -c %a "$work/old.html") == 640 && -L $work/link.html ]] || fail "the report has another mode, or the link is gone"
[[ -z $(find "$work" -name '*.new') ]] || fail "left behind: $(ls "$work")"
expect 0 "" "$perf" local --count 10 --report /dev/null
expect 1 "/dev/full" "$perf" local --count 10 --report /dev/full

# persistent flushes: refused unless the memory is persistent
expect 1 "cannot be flushed to persistence" "$perf" local --op write_flush --flush-type persistent "${short[@]}"
mkdir "$work/dir"
# if the disk acknowledges too early, the program logs a WARNING
expect 0 "" env RPMA_LOG_LEVEL=error "$perf" local --op write_flush,write+flush --flush-type persistent \
	--memory "$work/dir" --size 4k "${short[@]}" --verify --json
is "$sane"
is '.target_memory | test("granularity: (page|cache line|byte)")'
[[ -z $(ls -A "$work/dir") ]] || fail "left behind: $(ls -A "$work/dir")"
expect 0 "" env RPMA_LOG_LEVEL=error "$perf" local --op write_flush --flush-type persistent --memory "$work/new" \
	--count 10
[[ ! -e $work/new ]] || fail "left behind: $work/new"
# existing data is not overwritten by mistake
printf 'kept%.0s' {1..2048} >"$work/file"
sum=$(sha256sum <"$work/file")
expect 1 "content would be lost" "$perf" local --memory "$work/file" --count 10
[[ $(sha256sum <"$work/file") == "$sum" ]] || fail "the file was changed"
expect 0 "" "$perf" local --memory "$work/file" --overwrite --count 10
[[ -e $work/file ]] || fail "somebody's file was removed"
expect 1 "has 8192 bytes" "$perf" local --memory "$work/file" --overwrite --size 16k --count 10
expect 1 "--max-memory is 1024" "$perf" local --max-memory 1k --size 4k
# memory that cannot be used is found when the server starts, and said once
for mode in server local; do
	expect 1 "$work/none" "$perf" $mode 127.0.0.1 --memory "$work/none/file"
	expect 1 "content would be lost" "$perf" $mode 127.0.0.1 --memory "$work/file"
	(($(wc -l <"$work/err") == 1)) || fail "said more than once: $(cat "$work/err")"
done
