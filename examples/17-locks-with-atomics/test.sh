# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154,SC2034 # variables of run-example

# test.sh [kill|Enter] -- clients transfer money at once. With an argument the first one takes the lock and keeps it, until
# it is killed, or until Enter is pressed, which is too late. For run-example.

# accounts <clients> <transfers of each> <transfers of one more>: what the server prints at the end
accounts()
{
	local i balance=(1000 1000 1000 1000 1000 1000 1000 1000)
	((balance[0] -= $1, balance[$2 % 8] += $1)) || true
	((balance[0] -= $3 > 0, balance[$3 % 8] += $3 > 0)) || true
	for i in {0..7}; do
		echo "account $i: ${balance[i]}"
	done
	echo "total: 8000 after $(($1 * $2 + $3)) transfers"
}

# the transfers of five clients
at_once()
{
	for _ in {1..5}; do
		start_client 50
	done
	wait_clients
	stop_server
	no_errors
	cat client*.out >clients.out
	says_sorted clients "client "{0..4}": 50 transfers"
	mapfile -t said < <(accounts 5 50 0)
}

# with_the_lock <kill|Enter>: the first client takes the lock and keeps it; then the others start
with_the_lock()
{
	wait_for "${client_pids[0]}" client0.out 'holds the lock' || fail 'it gets no lock'
	if [[ $1 == kill ]]; then
		kill_program "${client_pids[0]}"
	fi
	input=/dev/null
	start_client 20
	start_client 20
	wait_client 1
	wait_client 2
	# another client has taken the lock over, so this one is too late
	if [[ $1 == Enter ]]; then
		echo >&9
		wait_client 0
	fi
	end_feed
	stop_server
	no_errors
	(($(cat client*.err | grep -c 'took the lock over from client 0$') == 1)) ||
		fail 'no client took the lock over, or more than one'
	cat client{1,2}.out >others.out
	says_sorted others 'client 1: 20 transfers' 'client 2: 20 transfers'
	said=('client 0 holds the lock: press Enter, or kill it')
	[[ $1 == kill ]] || said+=('client 0 was too late: once more' 'client 0: 3 transfers')
	says client0 "${said[@]}"
	mapfile -t said < <(accounts 2 20 "$([[ $1 == kill ]] && echo 0 || echo 3)")
}

how=${1-}
[[ -z $how ]] || feed
start_server
if [[ -z $how ]]; then
	at_once
else
	start_client 3 hold
	with_the_lock "$how"
fi
says server "${said[@]}"
