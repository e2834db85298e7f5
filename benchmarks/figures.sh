# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2154 # what the sourcing script sets is named below

# figures.sh -- each figure of benchmarks/run, measured once; to be sourced
#
# figure_<name> prints one number; its unit is in the table of benchmarks/run. A latency is up to three numbers in
# microseconds: the mean of whole round trips, the median, and what 99 % do not exceed. The table names the second and
# third by <name>.p50 and <name>.p99. That of a service has its rate in place of the mean. Throughput is in 10^6 bytes of
# payload per second. A failure is reported on standard error and by the status. The sourcing script sets $build, $addr,
# $directory and $seconds, the time in seconds that one program measures.

perf=$build/tools/rpma-perf
programs=$build/benchmarks

out_of_time=124 # the status of a program that was stopped because its time was over
around=()       # a command that runs the programs

# runs in the foreground, so that an interrupt from the terminal reaches the program as well
limited()
{
	timeout --foreground 60 "${around[@]}" "$@"
}

# on_one_processor <command of a figure...>
on_one_processor()
{
	local around=(taskset -c 0)
	"$@"
}

computing=() # processes that only compute
stop_computing()
{
	if ((${#computing[@]} > 0)); then
		kill "${computing[@]}" 2>/dev/null || true
		wait "${computing[@]}" 2>/dev/null || true
		computing=()
	fi
}

# beside_load <command of a figure...>: beside two processes that only compute. They end with the shell that started them,
# even if that is killed.
beside_load()
{
	local status=0
	trap stop_computing EXIT # this runs in a subshell: that of the figure
	for _ in 1 2; do
		setpriv --pdeathsig KILL awk 'BEGIN { while (1) n++ }' </dev/null >/dev/null &
		computing+=($!)
	done
	"$@" || status=$?
	stop_computing
	return "$status"
}

# ---- our own ----

# ours <jq filter of the result> <rpma-perf option...>
ours()
{
	local what=$1
	shift
	limited "$perf" local "$addr" --device soft --duration "$seconds" --json "$@" | jq -er ".results[0] | $what"
}

# p99 is missing if a program has made fewer than a hundred operations
latency='.latency_us | [.mean, .p50, .p99] | map(select(. != null)) | join(" ")'
cq_wait=(--wait cq_wait --target-waits cq_wait)
# a send of sixteen asks for its completion, since answers say that it has arrived
ping_pong=(--op ping-pong --signal-every 16)

figure_write() { ours "$latency"; }
figure_read() { ours "$latency" --op read; }
figure_write_16() { ours "$latency" --depth 16; }
figure_write_64() { ours "$latency" --depth 64; }
figure_write_wait() { SOFTRDMA_SPIN_US=0 ours "$latency" --wait; }
figure_write_wait_spin() { ours "$latency" --wait; }
figure_write_to_cq_wait() { ours "$latency" --target-waits cq_wait; }
figure_write_to_fd() { ours "$latency" --target-waits fd; }
figure_write_cq_wait() { ours "$latency" "${cq_wait[@]}"; }
figure_ping_cq_wait() { ours "$latency" "${ping_pong[@]}" "${cq_wait[@]}"; }
figure_ping_fd() { ours "$latency" "${ping_pong[@]}" --wait fd --target-waits fd; }
figure_write_rate() { ours .ops_per_s --depth 64 --batch 16; }
figure_plain_rate() { ours .ops_per_s --depth 64; }
figure_plain_rate_16() { ours .ops_per_s --depth 64 --signal-every 16; }
figure_write_1m() { ours .mb_per_s --size 1m --depth 4; }
figure_write_1m_crc() { SOFTRDMA_CRC=1 ours .mb_per_s --size 1m --depth 4; }
figure_read_1m() { ours .mb_per_s --op read --size 1m --depth 4; }
figure_write_flush() { ours "$latency" --op write_flush --flush-type persistent --size 4k --memory "$directory"; }

# another build of rpma-perf, with its own library
figure_baseline_rate()
{
	local perf=$BASELINE_PERF
	figure_write_rate
}

figure_one_write_poll() { on_one_processor ours .ops_per_s --target-waits poll; }
figure_one_write_cq_wait() { on_one_processor ours .ops_per_s "${cq_wait[@]}"; }
figure_one_ping_poll() { on_one_processor ours .ops_per_s "${ping_pong[@]}"; }
figure_one_ping_cq_wait() { on_one_processor ours .ops_per_s "${ping_pong[@]}" "${cq_wait[@]}"; }

# the program of the target of a write serves something else
figure_busy_write_poll() { beside_load ours "$latency"; }
figure_busy_write_cq_wait() { beside_load ours "$latency" --wait cq_wait; }
figure_busy_write_fd() { beside_load ours "$latency" --wait fd; }
figure_busy_ping_poll() { beside_load ours "$latency" "${ping_pong[@]}"; }
figure_busy_ping_cq_wait() { beside_load figure_ping_cq_wait; }
figure_busy_ping_fd() { beside_load figure_ping_fd; }

# percent of a processor that the initiator and the target take for 1,000 writes per second
paced_percent()
{
	ours '"\(.cpu_us_per_op * .ops_per_s / 1e4) \(.target_cpu_us_per_op * .ops_per_s / 1e4)"' --rate 1000 --wait cq_wait
}

# the same, less what they take if the device never looks for more work; the second number is the target's
figure_paced_cpu()
{
	local spinning sleeping
	spinning=$(paced_percent) && sleeping=$(SOFTRDMA_SPIN_US=0 paced_percent) &&
		awk '{ print $1 - $3, $2 - $4 }' <<<"$spinning $sleeping"
}

# A shared mapping of a file in memory is like a file of persistent memory to two processes. A write that is copied at
# once waits for nothing, so one in flight is enough; more would only use more memory than the yardsticks do.
figure_shared_write() { SOFTRDMA_SAME_HOST=2 ours "$latency" --memory /dev/shm; }
figure_shared_write_1m() { SOFTRDMA_SAME_HOST=2 ours .mb_per_s --size 1m --memory /dev/shm; }
# memory that only the kernel can reach
figure_process_write() { SOFTRDMA_SAME_HOST=1 ours "$latency"; }
figure_process_write_1m() { SOFTRDMA_SAME_HOST=1 ours .mb_per_s --size 1m; }

# connections need a few descriptors each
many_descriptors()
{
	ulimit -Sn "$(ulimit -Hn)"
}

figure_rate_8() { ours .ops_per_s --connections 8 --depth 16 --batch 16; }
figure_rate_1000()
{
	(
		many_descriptors
		ours .ops_per_s --connections 1000 --depth 16 --batch 16
	)
}

# service <clients> <rpma-perf option...>: one event loop on each side, one operation in flight for each client
service()
{
	(
		many_descriptors
		ours '[.ops_per_s, .latency_us.p50, .latency_us.p99] | map(select(. != null)) | join(" ")' \
			--wait fd --clients "$@"
	)
}

# an answer says that its message has arrived, so a send of eight asks for its completion
service_messages() { service "$1" --op ping-pong --signal-every 8 "${@:2}"; }
figure_service_messages_1() { service_messages 1; }
figure_service_messages_8() { service_messages 8; }
figure_service_messages_64() { service_messages 64; }
figure_service_messages_512() { service_messages 512; }
figure_service_writes_1() { service 1; }
figure_service_writes_8() { service 8; }
figure_service_writes_64() { service 64; }
figure_service_writes_512() { service 512; }

# calls_of <round trips of each client>: the system calls of both sides of a service with 64 clients
calls_of()
{
	(
		around=(perf stat -x "," -o "$build/calls" -e raw_syscalls:sys_enter)
		service_messages 64 --warm-up 0 --count "$1" >"$build/calls.service"
	) && awk -F, '$3 == "raw_syscalls:sys_enter" && $1 ~ /^[0-9]+$/ { print $1; found = 1 } END { exit !found }' "$build/calls"
}

# calls for a round trip; those that make and end the connections are in both numbers
figure_service_calls()
{
	local few many
	few=$(calls_of 200) && many=$(calls_of 1200) &&
		awk -v few="$few" -v many="$many" 'BEGIN { print (many - few) / (1000 * 64) }'
}

figure_idle_cpu() { limited "$programs/bench-connections" 1 2 | cut -d' ' -f3; }

# as many connections as the project has a goal for, or as many as descriptors allow: each takes three in a process
figure_many_count()
{
	local limit count most=30500
	limit=$(ulimit -Hn)
	if [[ $limit == unlimited ]] || ((limit > most)); then
		limit=$most
	fi
	count=$(((limit - 500) / 3))
	echo $((count - count % 100))
}

# many <field>: of what bench-connections prints about them; one run is for all fields
many()
{
	(
		many_descriptors
		[[ -s $build/many ]] ||
			limited "$programs/bench-connections" "$(figure_many_count)" 0 0.2 >"$build/many" || return
		cut -d' ' -f"$1" "$build/many"
	)
}

# the next figure of many connections is measured again
forget_connections()
{
	rm -f "$build/many"
}

figure_many_memory() { many 2; }
figure_many_connects() { many 1; }
figure_many_rate() { many 4; }
figure_many_rate_8() { many 5; }
figure_many_p99() { many 10; }
figure_many_p99_1() { many 12; }

figure_ud_ping() { datagrams verbs ping-pong 64; }
figure_ud_flood() { datagrams verbs flood 4096; }

# ---- the bare kernel, with nothing on top ----

# tcp <way of waiting>
tcp() { limited "$programs/bench-tcp-pingpong" "$1" 64 "$seconds"; }
figure_tcp_spin() { tcp spin; }
figure_tcp_block() { tcp block; }
figure_tcp_poll() { tcp poll; }
figure_busy_tcp_spin() { beside_load tcp spin; }
figure_busy_tcp_block() { beside_load tcp block; }
figure_busy_tcp_poll() { beside_load tcp poll; }
# tcp_service <clients>: the same shape as service
tcp_service()
{
	(
		many_descriptors
		limited "$programs/bench-tcp-pingpong" --clients "$1" 64 "$seconds"
	)
}
figure_tcp_service_1() { tcp_service 1; }
figure_tcp_service_8() { tcp_service 8; }
figure_tcp_service_64() { tcp_service 64; }
figure_tcp_service_512() { tcp_service 512; }
# datagrams <verbs or bare> <what> <bytes>
datagrams() { limited "$programs/bench-datagrams" "$1" "$2" "$3" "$seconds"; }
figure_udp_ping() { datagrams bare ping-pong 64; }
figure_udp_flood() { datagrams bare flood 4096; }
figure_msync() { limited "$programs/bench-msync" "$directory" 4096 "$seconds"; }
figure_process_vm() { limited "$programs/bench-process-vm" 64 "$seconds" | cut -d' ' -f1; }
figure_process_vm_1m() { limited "$programs/bench-process-vm" 1048576 "$seconds" | cut -d' ' -f2; }

# ---- the peers ----

server= # the server of a peer, one at a time
stop_server()
{
	if [[ -n $server ]]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	fi
}

# against <server command> <client command>, each with the port as PORT: retries the client until the server listens.
# These servers do not print a port that the kernel chose. So the port is a guess, below the range that the kernel
# uses.
against()
{
	local port=$((20000 + RANDOM % 10000)) tries status out
	# shellcheck disable=SC2086 # words of a command
	${1//PORT/$port} >/dev/null 2>&1 &
	server=$!
	trap stop_server EXIT # this runs in a subshell: that of the figure
	for ((tries = 0; tries < 50; tries++)); do
		sleep 0.1
		status=0
		# shellcheck disable=SC2086
		out=$(limited ${2//PORT/$port} 2>&1) || status=$?
		if ((status == 0)); then
			stop_server
			echo "$out"
			return
		fi
		# a server serves no second client after the first one has come through
		if ((status == out_of_time)) || ! kill -0 "$server" 2>/dev/null; then
			break
		fi
	done
	stop_server
	printf 'status %d of: %s\n%s\n' "$status" "$2" "$out" >&2
	return 1
}

# serve <option of the server...>: starts a server of rpma-perf; sets port, and out, a folder for the time of the figure
serve()
{
	local tries
	port=''
	out=$(mktemp -d)
	"$perf" server "$addr" --device soft --port 0 "$@" >"$out/server" &
	server=$!
	trap 'stop_server; rm -rf "$out"' EXIT # this runs in a subshell: that of the figure
	for ((tries = 0; tries < 50 && ${#port} == 0; tries++)); do
		sleep 0.1
		port=$(sed -n 's/^listening on .* port \([0-9]*\),.*/\1/p' "$out/server")
	done
}

# two_clients <progress threads of the server>: operations per second of two client processes together
two_clients()
{
	local client clients=()
	SOFTRDMA_THREADS=$1 serve
	for client in 1 2; do
		limited "$perf" client "$addr" --device soft --port "$port" --connections 4 --depth 16 --batch 16 \
			--duration "$seconds" --json >"$out/client$client" &
		clients+=($!)
	done
	wait "${clients[0]}" && wait "${clients[1]}" && jq -es 'map(.results[0].ops_per_s) | add' "$out"/client?
}

# beside_service <rpma-perf option...>: the latency of one client's operations while the server answers eight others, and
# computes 100 us for each message; a second is the warm-up, in which the device learns how the program behaves
beside_service()
{
	local service status=0
	serve --compute 100
	limited "$perf" client "$addr" --device soft --port "$port" --op ping-pong --signal-every 8 --clients 8 --wait fd \
		--duration "$((${seconds%.*} + 3))" --json >"$out/service" &
	service=$!
	limited "$perf" client "$addr" --device soft --port "$port" --wait fd --warm-up 1 --duration "$seconds" --json "$@" |
		jq -er ".results[0] | $latency" || status=$?
	wait "$service" && return "$status"
}

figure_beside_service_read() { beside_service --op read; }
figure_beside_service_write() { beside_service --op write; }

figure_rate_threads_1() { two_clients 1; }
figure_rate_threads_2() { two_clients 2; }

# libfabric <size> <transfers>: MB/s, and microseconds of one transfer, which is half a round trip
libfabric()
{
	local command="fi_pingpong -p tcp -e msg -S $1 -I $2"
	against "$command -B PORT" "$command -P PORT $addr" | awk 'END { if (NF > 2) print $(NF - 2), $(NF - 1) }'
}

figure_libfabric() { libfabric 64 40000 | awk '{ print 2 * $2 }'; }
figure_libfabric_1m() { libfabric 1048576 1000 | awk '{ print $1 }'; }

figure_iperf3()
{
	against "iperf3 -s -p PORT" "iperf3 -c $addr -p PORT -t $seconds -J" | jq -e '.end.sum_received.bits_per_second / 8e6'
}

# ucx <transports> <test> <size> <iterations> [option...]: microseconds of an operation, and operations per second; a
# tenth more iterations are a warm-up, which is not counted
ucx()
{
	local program=ucx_perftest
	export UCX_TLS=$1 UCX_LOG_LEVEL=error
	if [[ $1 == tcp ]]; then
		export UCX_NET_DEVICES=lo
	elif [[ $1 == *_v* ]]; then
		export UCX_NET_DEVICES=softrdma0:1 SOFTRDMA_LIBRARY=$PWD/$build/src/libsoftrdma.so.0
		program="utils/softrdma-run ucx_perftest"
	fi
	against "$program -p PORT" "$program $addr -p PORT -t $2 -s $3 -n $4 -w $(($4 / 10)) ${*:5} -v" |
		awk -F, 'END { print $4, $8 }'
}

# its MB are 2^20 bytes; ours are 10^6
megabytes()
{
	awk -v size="$1" '{ print $2 * size / 1e6 }'
}

figure_ucx_rate() { ucx tcp ucp_put_bw 64 500000 | awk '{ print $2 }'; }
figure_ucx_write_1m() { ucx tcp ucp_put_bw 1048576 500 -O 4 | megabytes 1048576; }
figure_ucx_read_1m() { ucx tcp ucp_get 1048576 500 -O 4 | megabytes 1048576; }
figure_ucx_shared() { ucx posix,cma ucp_put_lat 64 500000 | awk '{ print $1 }'; }
figure_ucx_shared_1m() { ucx posix,cma ucp_put_bw 1048576 10000 | megabytes 1048576; }

figure_ucx_tcp_put_bw() { ucx tcp ucp_put_bw 4096 50000 | megabytes 4096; }
figure_ucx_tcp_tag_lat() { ucx tcp tag_lat 64 50000 | awk '{ print $1 }'; }
figure_ucx_tcp_am_bw() { ucx tcp ucp_am_bw 4096 50000 | megabytes 4096; }

# ---- programs of verbs, on our device ----

figure_ucx_rc_put_bw() { ucx rc_v,ud_v,self ucp_put_bw 4096 50000 | megabytes 4096; }
figure_ucx_rc_tag_lat() { ucx rc_v,ud_v,self tag_lat 64 50000 | awk '{ print $1 }'; }
figure_ucx_rc_am_bw() { ucx rc_v,ud_v,self ucp_am_bw 4096 50000 | megabytes 4096; }
figure_ucx_ud_tag_lat() { ucx ud_v,self tag_lat 64 50000 | awk '{ print $1 }'; }
figure_ucx_ud_am_bw() { ucx ud_v,self ucp_am_bw 4096 50000 | megabytes 4096; }

# perftest <size> <program> <option...>: the line of figures. These programs measure the processor's clock first. On a
# machine that is busy they may fail to, over any device, and print no figures.
perftest()
{
	local size=$1 command="utils/softrdma-run ${*:2} -F -s $1 -p PORT" line
	export SOFTRDMA_LIBRARY=$PWD/$build/src/libsoftrdma.so.0
	for _ in 1 2 3; do
		line=$(against "$command" "$command $addr" | awk -v size="$size" '$1 == size && NF >= 5') || return
		if [[ -n $line ]]; then
			echo "$line"
			return
		fi
	done
	echo "$2 has printed no figures" >&2
	return 1
}

# the average, the typical latency, and what 99 % do not exceed: each is that of one way
figure_ib_write_lat() { perftest 8 ib_write_lat -R -n 10000 | awk '{ print $6, $5, $8 }'; }
# its MB are 2^20 bytes
figure_ib_read_bw_cm() { perftest 1048576 ib_read_bw -R -n 2000 | awk '{ print $4 * 1.048576 }'; }
figure_ib_read_bw() { perftest 1048576 ib_read_bw -n 2000 | awk '{ print $4 * 1.048576 }'; }
