# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- three keepers and a writer; two keepers die in the middle; one is missing from the beginning; for run-example

# shellcheck source=SCRIPTDIR/../common/journal.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common/journal.sh"

keeper_pids=()
keeper_ports=()

# start_keepers: three servers, each with a new file
start_keepers()
{
	local i
	forget
	feed
	for i in 0 1 2; do
		rm -f "$pmem_folder/keeper$i"
		truncate -s 64K "$pmem_folder/keeper$i"
		start_server "$pmem_folder/keeper$i"
		keeper_pids[i]=$server_pid
		keeper_ports[i]=$used_port
		# the next keeper uses the same names
		mv server.out "keeper$i.out"
		mv server.err "keeper$i.err"
	done
	client_pids=()
}

# start_writer: with all three ports, whether a keeper is there or not
start_writer()
{
	used_port=${keeper_ports[0]}
	start_client "$address" "${keeper_ports[1]}" "$address" "${keeper_ports[2]}"
}

# keeper_has <number> <records>
keeper_has()
{
	seq -f 'line %g' 1 "$2" >expected
	grep -a -o 'line [0-9]*' "$pmem_folder/keeper$1" >kept || true
	same "the file of keeper $1" kept
}

# keeper_ends <number> <records>: checks the keeper's output and its file
keeper_ends()
{
	local said
	wait_program "keeper $1" "${keeper_pids[$1]}"
	mapfile -t said < <(journal '' 1 "$2")
	says "keeper$1" 'The journal holds:' "${said[@]}"
	keeper_has "$1" "$2"
}

# all keepers are there
start_keepers
start_writer
seq -f 'line %g' 1 20 >&9
end_feed
# hardware that cannot flush by itself
if [[ $RPMA_DEVICE != soft ]] && { wait "${client_pids[0]}" || true; grep -q '^rpma_flush failed' client0.err; }; then
	skip 'the device cannot flush to persistence by itself'
fi
wait_client 0
mapfile -t said < <(journal 'durable on a majority' 1 20)
says client0 "${said[@]}"
for i in 0 1 2; do
	keeper_ends "$i" 20
done
no_errors

# two of them die, one after the other
start_keepers
start_writer
seq -f 'line %g' 1 5 >&9
wait_for "${client_pids[0]}" client0.out ' 5: ' || fail 'the writer does not write'
kill_program "${keeper_pids[1]}"
seq -f 'line %g' 6 10 >&9
wait_for "${client_pids[0]}" client0.out ' 10: ' || fail 'the writer does not go on with two'
kill_program "${keeper_pids[2]}"
keeper_has 2 10
echo 'line 11' >&9
wait_client 0 1
mapfile -t said < <(journal 'durable on a majority' 1 10)
says client0 "${said[@]}" 'not durable on a majority: 11: line 11'
keeper_ends 0 11
end_feed

# one is missing
start_keepers
kill_program "${keeper_pids[0]}"
start_writer
seq -f 'line %g' 1 5 >&9
end_feed
wait_client 0
mapfile -t said < <(journal 'durable on a majority' 1 5)
says client0 "${said[@]}"
keeper_ends 1 5
keeper_ends 2 5
