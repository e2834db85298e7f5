# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- eight clients at once, each of which gets another name; for run-example

start_server
for seed in {1..7} 30; do
	start_client "$seed"
done
wait_clients
stop_server
no_errors
names=()
for client in {0..7}; do
	names+=("- $(sed -n 's/^My names is: //p' "client$client.out")")
done
says client7 'My names is: Echo-1'
(($(printf '%s\n' "${names[@]}" | sort -u | wc -l) == 8)) || fail 'two clients have one name'
says_sorted server 'Today I have got in touch with:' "${names[@]}"
[[ $(head -n 1 server.out) == Today* ]] || fail 'the server begins with something else'
