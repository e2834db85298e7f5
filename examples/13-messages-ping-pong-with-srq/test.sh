# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- six clients at once, one receive queue for all; for run-example

# shellcheck source=SCRIPTDIR/../common/pings.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common/pings.sh"

# it would end by itself, but only after some time
start_server 600
for i in {0..5}; do
	start_client $((i * 1000)) 20
done
wait_clients
stop_server
no_errors
said=()
for i in {0..5}; do
	# each line begins with the same [client #<its process>]
	prefix=$(grep -o -m 1 '^\[client #[0-9]*\]' "client$i.out" || true)
	mapfile -t client_said < <(ping "$prefix value" $((i * 1000)) 20)
	says "client$i" "${client_said[@]}"
	said+=("The client #$((i + 1)) has been connected.")
	mapfile -t -O ${#said[@]} said < <(seq -f "[server] value received: %.0f from the connection" \
		$((i * 1000)) $((i * 1000 + 19)))
done
# each client has a connection of its own, which stays the same
if ! sed -n 's/^\[server\] value received: \([0-9]*\) .*\[qp#\([0-9]*\)\]$/\1 \2/p' server.out | awk '
	{ c = int($1 / 1000); if (c in qp && qp[c] != $2) exit 1; qp[c] = $2; seen[$2] = 1 }
	END { n = 0; for (q in seen) n++; exit n != 6 }'; then
	fail 'numbers of queue pairs are mixed up'
fi
sed -i 's/ \[qp#[0-9]*\]$//' server.out
says_sorted server "${said[@]}" 'Server ended listening.'
