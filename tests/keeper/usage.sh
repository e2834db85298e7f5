#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# usage.sh <rpma-keeper> -- wrong command lines end with status 2, and what cannot be lent with status 1; signals

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
keeper=$1
. "$here/common.sh"
skip_without python3

wrong()
{
	local text=$1
	shift
	expect 2 "$text" "$keeper" "$@"
	[[ ! -s $work/out ]] || fail "writes to standard output: $*"
}
at=(--listen "$address:1")
wrong '--listen is missing'
wrong '--lend is missing' "${at[@]}"
wrong 'needs a value' --listen
wrong '--nonsense is no option' --nonsense
wrong 'one argument too many' "${at[@]}" --lend a=dram:,size=4k more
wrong '--listen is given twice' "${at[@]}" "${at[@]}"
wrong '0 is no port' --listen "$address:0"
wrong '65536 is no port' --listen "$address:65536"
wrong 'is no [ADDRESS]:PORT' --listen '[::1'
wrong 'names no address' --listen ':7204'
wrong 'is no NAME=PATH' "${at[@]}" --lend disk
wrong 'is no NAME=PATH' "${at[@]}" --lend =path
wrong 'is no NAME=PATH' "${at[@]}" --lend a/b=path
wrong 'is no NAME=PATH' "${at[@]}" --lend 123456789012345678901234567890123=path
wrong 'the path is empty' "${at[@]}" --lend a=
wrong 'the name a is given twice' "${at[@]}" --lend a=x --lend a=y
wrong 'is none of' "${at[@]}" --lend a=x,rw
wrong 'is none of' "${at[@]}" --lend a=x,identity=
wrong 'no multiple of 4096' "${at[@]}" --lend a=x,size=4097
wrong 'size=1x is no size: give' "${at[@]}" --lend a=x,size=1x
wrong 'size= is no size: give' "${at[@]}" --lend a=x,size=
wrong 'size=0 is no size' "${at[@]}" --lend a=x,size=0
wrong 'size=-4k is no size' "${at[@]}" --lend a=x,size=-4k
wrong 'size=99999999999g is no size' "${at[@]}" --lend a=x,size=99999999999g
wrong 'dram: needs size=' "${at[@]}" --lend a=dram:
wrong 'dram: needs size=' "${at[@]}" --lend a=dram:,size=4k,identity=x
wrong '--clients: 0 is no number' "${at[@]}" --clients 0
wrong '--clear-failed: no --lend has the name b' --lend a=x --clear-failed b
wrong '--clear-failed: dram: has no record' --lend a=dram:,size=4k --clear-failed a
lends=()
for i in {1..65}; do
	lends+=(--lend "n$i=dram:,size=4k")
done
wrong 'more than 64 times' "${at[@]}" "${lends[@]}"

expect 0 '' "$keeper" --help
in_manual rpma-keeper.1.md
expect 0 '' "$keeper" --version
grep -qE '^rpma-keeper [0-9.]+(-[a-z0-9]+)?$' "$work/out" || fail 'no version'

# a large file must not be cut off while its blocks are allocated
grep -qx 'TimeoutStartSec=infinity' "$here/../../tools/keeper/rpma-keeper@.service.in" || fail 'the unit limits the start'

# what cannot be lent
cannot()
{
	local text=$1
	shift
	expect 1 "$text" "$keeper" "${at[@]}" "$@"
}
cannot 'does not exist, and no size=' --lend "a=$work/none"
cannot 'does not exist' --lend "a=$work/none,ro"
cannot 'neither a file nor a device DAX' --lend "a=$work"
cannot 'a device DAX needs identity=' --lend a=/dev/zero
cannot 'No such file' --lend "a=$work/none/none,size=4k"
# a file for two purposes would be replaced by the other content
head -c 8192 /dev/zero >"$work/one"
head -c 8192 /dev/zero >"$work/two"
ln -s one "$work/link"
mkdir "$work/folder"
same='have the same file for their identity'
cannot "$same" --lend "a=$work/one,identity=$work/id" --lend "b=$work/two,identity=$work/id"
cannot "$same" --lend "a=$work/one,identity=$work/id" --lend "b=$work/two,ro,identity=$work/folder/../id"
cannot "$same" --lend "a=$work/one" --lend "b=$work/two,identity=$work/one.identity"
memory='is the memory that is lent as'
cannot "a $memory a" --lend "a=$work/one,identity=$work/one"
cannot "a $memory a" --lend "a=$work/one,identity=$work/link"
cannot "b $memory a" --lend "a=$work/one" --lend "b=$work/two,identity=$work/one"
cannot "a $memory b" --lend "a=$work/one,identity=$work/two" --lend "b=$work/two"
cannot "is a file of a" --lend "a=$work/one" --status "$work/one"
cannot "is a file of a" --lend "a=$work/one" --status "$work/./one.identity"
# what replaces a file has a name of its own, and a file of that name would be removed
head -c 8192 /dev/zero >"$work/one.new"
cannot "is a file of a" --lend "a=$work/one.new" --status "$work/one"
cannot "a $memory a" --lend "a=$work/one.new,identity=$work/one"
cannot "$same" --lend "a=$work/one,identity=$work/id" --lend "b=$work/two,identity=$work/id.new"
cmp "$work/one" "$work/one.new" || fail 'a refused keeper has removed a file'
rm "$work/one.new"
[[ $(cd "$work" && ls one two ./*id* 2>/dev/null) == $'one\ntwo' ]] || fail 'a refused keeper has written files'
cmp "$work/one" "$work/two" || fail 'a refused keeper has changed a file'
head -c 5000 /dev/zero >"$work/odd"
cannot 'no multiple of' --lend "a=$work/odd"
expect 1 '192.0.2.1' "$keeper" --listen 192.0.2.1 --lend a=dram:,size=4k

# all that it lends, in each form of an address
start_keeper --lend "a=$work/a,size=1m" --lend "b=dram:,size=8k" --clients 3
[[ $(stat -c %s "$work/a") == 1048576 ]] || fail 'the file has another size'
is '.clients == 0 and .clients_max == 3 and (.lends | length) == 2 and .lends[0].size == 1048576
	and (.lends[0].identity | length) == 32 and .lends[1].persistence == "none" and (.lends[1].read_only | not)' \
	"$work/status"
cannot 'another keeper lends it' --lend "a=$work/a"
expect 1 'another keeper lends it' "$keeper" --clear-failed a --lend "a=$work/a"
kill -HUP "$keeper_pid"
until_true 'a line about SIGHUP' grep -q 'SIGHUP: nothing to do' "$work/keeper.log"
identity=$(jq -r '.lends[0].identity' "$work/status")
end_keeper TERM 0
start_keeper --lend "a=$work/a,ro"
is ".lends[0].identity == \"$identity\" and .lends[0].read_only" "$work/status"
end_keeper INT 0
cannot 'and not 2097152' --lend "a=$work/a,size=2m"
expect 0 '' "$keeper" --clear-failed a --lend "a=$work/a"
grep -qx 'a: no failure of its medium is on record' "$work/out" || fail 'clears what is not there'
sed -i 's/"failed": false/"failed": true/' "$work/a.identity"
expect 0 '' "$keeper" --listen "$address" --lend "a=$work/a" --clear-failed a
grep -qx 'a: the failure of its medium is cleared' "$work/out" || fail 'the failure is not cleared'
grep -q '"failed": false' "$work/a.identity" || fail 'the record still has the failure'
expect 1 'does not exist' "$keeper" --clear-failed a --lend "a=$work/none,size=4k"

# the reader of the log does not read: the keeper lends all the same, ends as told, and tells later what is missing
mkfifo "$work/log" "$work/silent"
exec {fifo}<>"$work/log" {silent}<>"$work/silent"
fill_log()
{
	dd if=/dev/zero bs=4096 count=64 oflag=nonblock >"$work/log" 2>"$work/err" || true
}
fill_log
port=$(free_port)
"$keeper" --listen "$address:$port" --lend "a=$work/a" --status "$work/unread" 2>"$work/log" &
keeper_pid=$!
started+=("$keeper_pid")
until_true 'the status of a keeper whose log is not read' test -s "$work/unread"
# signals that come while the keeper has no processor are one line, so it may take several rounds
says_what_is_missing()
{
	fill_log
	for _ in {1..500}; do # more lines than wait for the reader
		kill -HUP "$keeper_pid"
		read -rt 0.001 <&"$silent" || true # meanwhile the keeper runs
	done
	dd bs=4096 count=17 iflag=nonblock <"$work/log" >/dev/null 2>"$work/err" || true
	kill -HUP "$keeper_pid"
	timeout 1 grep -m1 -a 'lines are missing here: the log was not read' <"$work/log" >/dev/null
}
until_true 'a line about lines that are missing' says_what_is_missing
end_keeper TERM 0
exec {fifo}>&- {silent}>&-

# what has no reader at all, and a terminal whose reader does not read
"$keeper" --help >/dev/full 2>"$work/err" && fail 'help that cannot be written is no error'
python3 - "$keeper" "$address:$(free_port)" "$work/a" "$work/unread" <<-'END' || fail 'a terminal that is not read stops the keeper'
	import os, pty, signal, subprocess, sys, time
	keeper, listen, file, status = sys.argv[1:]
	os.path.exists(status) and os.unlink(status)
	reader, terminal = pty.openpty()
	process = subprocess.Popen([keeper, "--listen", listen, "--lend", "a=" + file, "--status", status], stderr=terminal)
	for _ in range(1000):
	    process.poll() is None or sys.exit(1)
	    if os.path.exists(status):
	        break
	    time.sleep(0.02)
	for _ in range(3000):
	    process.send_signal(signal.SIGHUP)
	    time.sleep(0.0001)
	process.send_signal(signal.SIGTERM)
	sys.exit(process.wait(20))
END
# a keeper that is started without standard descriptors writes its lines nowhere, and not into the memory
head -c 8192 /dev/zero >"$work/clean"
cp "$work/clean" "$work/memory"
port=$(free_port)
rm -f "$work/unread"
"$keeper" --listen "$address:$port" --lend "a=$work/memory" --status "$work/unread" <&- >&- 2>&- &
keeper_pid=$!
started+=("$keeper_pid")
until_true 'the status of a keeper without standard error' test -s "$work/unread"
for fd in 0 1 2; do
	[[ $(readlink "/proc/$keeper_pid/fd/$fd") == /dev/null ]] || fail "the keeper has a descriptor $fd of its own"
done
end_keeper TERM 0
cmp "$work/clean" "$work/memory" || fail 'lines of the log are in the memory'
