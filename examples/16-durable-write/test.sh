# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154,SC2034 # variables of run-example

# test.sh -- a journal that becomes full, and one whose server is killed and comes back; for run-example

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
