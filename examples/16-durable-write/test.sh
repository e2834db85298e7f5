# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154,SC2034 # variables of run-example

# test.sh -- a journal that becomes full, one whose server is killed and comes back, and one whose flush fails; for run-example

# shellcheck source=SCRIPTDIR/../common/journal.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common/journal.sh"

# more lines than there is room for; volatile memory cannot be made durable
seq -f 'line %g' 1100 >input
input=input
pair ''
mapfile -t said < <(journal visible 1 1000)
says client0 "${said[@]}" 'The journal is full.'
mapfile -t said < <(journal '' 1 1000)
says server 'The journal holds:' "${said[@]}"

# kills the server in the middle and starts it again; a device DAX cannot be emptied for that
[[ -d $pmem ]] || pmem=
prepare_pmem
truncate -s 64K "$server_pmem"
forget
feed
start_server "$server_pmem"
start_client
seq -f 'line %g' 1 5 >&9
wait_for "${client_pids[0]}" client0.out ' 5: ' || fail 'the client does not write'
kill_program "$server_pid"
port=$used_port
start_server "$server_pmem"
seq -f 'line %g' 6 20 >&9
end_feed
wait_clients
wait_server
word=durable
[[ $RPMA_DEVICE == soft ]] || word=$(sed -n '1s/:.*//p' client0.out)
mapfile -t said < <(journal "$word" 1 20)
says client0 "${said[@]}"
mapfile -t said < <(journal '' 1 20)
says server 'The journal holds:' "${said[@]}"
grep -q 'are not known to be durable$' client0.err || fail 'the client has not noticed that the server was gone'

# a record whose flush has failed is in the server's memory, but it is not durable
[[ $RPMA_DEVICE == soft ]] || return 0
prepare_pmem
truncate -s 64K "$server_pmem"
forget
feed
# the first flush is that of the empty journal
SOFTRDMA_FAULTS=flush-error@65 start_server "$server_pmem"
client_pids=()
start_client
seq -f 'line %g' 1 64 >&9
wait_for "${client_pids[0]}" client0.err 'records 64 to 64 are not known to be durable' ||
	fail 'the client does not notice that a flush has failed'
kill_program "${client_pids[0]}"
end_feed
wait_server
mapfile -t said < <(journal durable 1 63)
says client0 "${said[@]}"
mapfile -t said < <(journal '' 1 64)
says server 'The journal holds:' "${said[@]}"

# the next client counts nothing that it cannot flush, even if it writes nothing
forget
SOFTRDMA_FAULTS=flush-error@1 start_server "$server_pmem"
client_pids=()
start_client
wait_client 0 1
wait_server
says client0
grep -q '^the records of the server are not known to be durable$' client0.err ||
	fail 'the client counts records that it has not flushed'

# once the flush succeeds, a client counts all 64, and writes the next one
echo 'line 65' >line
input=line
forget
start_server "$server_pmem"
client_pids=()
start_client
wait_clients
wait_server
says client0 'durable: 65: line 65'
mapfile -t said < <(journal '' 1 65)
says server 'The journal holds:' "${said[@]}"
no_errors
