#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# info.sh <rpma-info> -- its output is valid JSON; known values are right, and unknown ones are marked as unknown

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
info=$1

expect 0 "" "$info" --json
is '.program == "rpma-info"'
# the software device is on every machine, supports all but on-demand paging, and is listed once
is '[.devices[] | select(.usable and .is_software)] | length == 1'
is '.devices[] | select(.is_software) | .native_flush and .native_atomic_write and .atomics and (.on_demand_paging | not)'
is '.devices[] | select(.is_software) | .limits | .queue_entries > 0 and .pieces > 0 and .message_bytes > 0'
is '[.addresses[] | select(.address == "127.0.0.1" and .interface == "lo")] | length == 1'
is '.path == null'
is '.memlock.is_known and (.memlock.meaning | length > 0)'
limit=$(ulimit -l)
if [[ $limit != unlimited ]]; then
	is ".memlock.soft_bytes == $limit * 1024"
else
	is '.memlock.soft_bytes == null'
fi
# auto_takes is one of the devices, and there is a reason for each address without one
# shellcheck disable=SC2016 # jq's own variable
is '[.devices[].name] as $names | all(.addresses[]; .auto_takes == null or (.auto_takes | IN($names[])))'
is 'all(.addresses[]; (.why_no_rdma_device | length) > 0 or .auto_takes != null)'

expect 0 "" "$info" --json --remote 127.0.0.1
is '(.addresses | length) == 1 and .addresses[0].is_remote'
# the variable is not set, so no reason speaks of it
unset RPMA_DEVICE
expect 0 "" "$info" --json
grep -q 'RPMA_DEVICE=' "$work/out" && fail "it speaks of RPMA_DEVICE: $(grep -m 1 'RPMA_DEVICE=' "$work/out")"
expect 0 "" "$info"
grep -q 'RPMA_DEVICE=rdma' "$work/out" && fail "it speaks of RPMA_DEVICE: $(grep -m 1 'RPMA_DEVICE=' "$work/out")"
# the address is in front already, so no reason repeats it
# shellcheck disable=SC2016 # jq's own variable
is 'all(.addresses[]; .address as $a | (.why_no_rdma_device // "") | contains($a + ":") | not)' <("$info" --json)
export RPMA_DEVICE=soft

# a standard descriptor that is closed does not become a socket; the result that cannot be written is an error
status=0
"$info" --json <&- >&- 2>"$work/err" || status=$?
((status == 1)) || fail "standard output is closed: $status"
grep -qx 'rpma-info: the result cannot be written' "$work/err" || fail "standard output is closed: $(cat "$work/err")"

# what the command line names and no device can use is a failure, and is printed as well
expect 1 "no device can use the address 192.0.2.77: rdma_bind_addr() failed:" "$info" --json --address 192.0.2.77
is '.addresses | length == 1 and .[0].auto_takes == null and (.[0].why_not_software_device | length) > 0'
expect 1 "no device can use the address no.such.name.invalid: rdma_getaddrinfo() failed:" "$info" --json \
	--address no.such.name.invalid
is '.addresses[0].auto_takes == null'

# in a directory on a disk, msync makes data durable; nothing is left behind
mkdir "$work/dir"
expect 0 "" "$info" --json --path "$work/dir"
is '.path.store_granularity == "page" and (.path.meaning | length) > 0 and (.path.file_system | length) > 0'
is ".path.file_system == \"$(stat -f -c %T "$work/dir" | sed 's|ext2/ext3|ext4|')\" or .path.file_system != \"unknown\""
[[ -z $(ls -A "$work/dir") ]] || fail "left behind: $(ls -A "$work/dir")"
if ! jq -e .path.is_in_memory "$work/out" >/dev/null; then
	is '.path.devices[] | select(.device | startswith("softrdma")) | .persistent_flush'
fi
# an existing file is examined, but not changed
printf 'kept%.0s' {1..2048} >"$work/file"
sum=$(sha256sum <"$work/file")
expect 0 "" "$info" --json --path "$work/file"
is '.path.store_granularity == "page"'
[[ $(sha256sum <"$work/file") == "$sum" ]] || fail "the file was changed"
expect 1 "nothing can be found out about memory at $work/none: No such file or directory" "$info" --json \
	--path "$work/none"
is '.path.store_granularity == "unknown" and (.path.reason | test("No such file")) and .path.devices == []'
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then
	expect 0 "" "$info" --json --path /dev/shm
	is '.path.is_in_memory and (.path.meaning | test("in RAM")) and (.path.meaning | test("msync") | not)'
	expect 0 "" "$info" --path /dev/shm
	[[ $(grep -c 'in RAM' "$work/out") == 1 ]] || fail "not once: $(grep 'in RAM' "$work/out")"
	grep -q msync "$work/out" && fail "msync cannot make that durable: $(grep -m 1 msync "$work/out")"
fi

# text output, for people
expect 0 "" "$info" --path "$work/dir"
for text in 'the software device' '127.0.0.1 (lo)' 'Memory that may be locked' 'Datagrams that wait in a socket: ' 'store granularity:'; do
	grep -qF "$text" "$work/out" || fail "the text has no \"$text\""
done
# all devices are queried, whatever the variable says
RPMA_DEVICE=nonsense expect 0 "" "$info"
grep -qF "now it is nonsense" "$work/out" || fail "the variable is not shown"

expect 0 "" "$info" --help
in_manual rpma-info.1.md
expect 0 "" "$info" --version
expect 2 "is no option" "$info" --nonsense
expect 2 "needs a value" "$info" --path
expect 2 "one argument too many" "$info" something
