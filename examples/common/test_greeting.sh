# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test_greeting.sh [flush|gpspm] -- the examples that transfer a greeting: in volatile memory, then twice in the same
# persistent memory; for run-example

kind=${1-}
server_more=()
[[ $kind != flush ]] || server_more=(on)
first='Hello world!' second='¡Hola Mundo!'

# greeting <volatile|1|2>: one run; last_greeting is what it has transferred
greeting()
{
	local run=$1 other old=() supported=() extra=() now
	now=$(sed -n '1s/^Next value: //p' client0.out)
	case $now in
	"$first") other=$second ;;
	"$second") other=$first ;;
	*) fail "the client offers '$now'" ;;
	esac
	if [[ $run == volatile ]] || { $pmem_is_fresh && ((run == 1)); }; then
		[[ $now == "$first" ]] || fail 'the first greeting is another one'
	fi
	if [[ $run != volatile ]]; then
		old=("$(sed -n '/^Old value: /p' server.out)")
		if ((run == 2)) && [[ ${old[0]} != "Old value: $last_greeting" || $now == "$last_greeting" ]]; then
			fail 'what was persistent is no longer there'
		fi
		if $pmem_is_fresh && ((run == 1)); then
			old=('Old value: ')
		fi
	fi

	case $kind in
	flush)
		supported=("RPMA_FLUSH_TYPE_PERSISTENT is supported")
		# never supported for memory that is not persistent; otherwise it depends on the hardware
		if [[ $run == volatile ]] || { [[ $RPMA_DEVICE != soft ]] && grep -q 'is NOT supported' client0.out; }; then
			supported=("RPMA_FLUSH_TYPE_PERSISTENT is NOT supported")
		fi
		;;
	gpspm)
		extra=("$(sed -n -E \
			'/^Flush request received: \{offset: 0x[0-9A-F]+, length: 0x400, op_context: 0xF1A54\}$/p' server.out)")
		[[ $run != volatile ]] ||
			extra+=('The persist function should be called here, if there were persistent memory.')
		;;
	esac
	says client0 "Next value: $now" "${supported[@]}" 'translating...' "Translation: $other"
	says server "${old[@]}" "${extra[@]}" "New value: $now"
	last_greeting=$now
}

pair ''
greeting volatile
prepare_pmem
for run in 1 2; do
	pair "$server_pmem ${server_more[*]}" "${client_pmem[@]}"
	greeting "$run"
done
