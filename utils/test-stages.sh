# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2034 # run-tests prints what is gathered here

# test-stages.sh -- the stages that tests are run in: how long each may take, and what it does; run-tests sources it

jobs=$(nproc)
test_jobs=$((jobs + 1)) # tests wait for each other, for the clock and for the disk
stages=()
summaries=()
figures=()
failed=false
budgets=false # true if the stages have their budgets

# budget <stage>: the seconds that it may take: about three times of what it takes on two idle cores. What grows unseen
# makes the whole too long for anybody to run, so a stage that takes more has failed, also if all else in it is right.
# BUDGET_FACTOR in the environment multiplies all of them, for a machine that is slow or busy; 0: none has one.
budget()
{
	local seconds
	case $1 in
	'packages in a fresh system') seconds=1200 ;;
	'a fresh machine'*) seconds=1200 ;;
	packages*) seconds=600 ;;
	'build: gcc') seconds=300 ;;
	'build: gcc, without'*) seconds=240 ;;
	'tests: gcc, without'*) seconds=60 ;;
	'build: clang, address'*) seconds=450 ;;
	'build: clang, thread'*) seconds=240 ;;
	'build: arm64') seconds=300 ;;
	'tests: gcc') seconds=300 ;;
	'tests: gcc, the rest') seconds=900 ;;
	'tests: clang, address'*) seconds=900 ;;
	'tests: clang, thread'*) seconds=360 ;;
	'tests: arm64') seconds=450 ;;
	valgrind*) seconds=300 ;;
	'sources: tidy-product' | 'sources: tidy-recent') seconds=600 ;;
	sources:*) seconds=120 ;;
	coverage) seconds=600 ;;
	torture:*) seconds=360 ;;
	'cut streams'*) seconds=90 ;;
	'torture and cut streams'*) seconds=90 ;;
	fuzzing:*) seconds=120 ;;
	'seeded defects: a sample') seconds=240 ;;
	'programs of others') seconds=360 ;;
	'the RDMA lab') seconds=2700 ;;
	*) seconds=0 ;;
	esac
	echo $((seconds * ${BUDGET_FACTOR-1}))
}

# ended <stage> <seconds> <seconds of processors> <exit status>: sets stage_ok, and keeps the line for the end
ended()
{
	local name=$1 seconds=$2 computed=$3 status=$4 budget=0 outcome=''
	! $budgets || budget=$(budget "$name")
	stage_ok=true
	if ((status == 77)) && [[ ${CI-} != true ]]; then
		outcome=': SKIPPED'
	elif ((status == 77)); then
		outcome=': SKIPPED, which CI may not'
		stage_ok=false
	elif ((status)); then
		outcome=': FAILED'
		stage_ok=false
	elif ((budget && seconds > budget)); then
		outcome=": FAILED, it took more than its budget of $budget s"
		failed=true
	fi
	$stage_ok || failed=true
	stages+=("$(printf '%6d s %6d s  %s%s' "$seconds" "$computed" "$name" "$outcome")")
}

# computed_by <shell>: the seconds that processors have computed for its ended children: fields 16 and 17 of proc_pid_stat(5)
computed_by()
{
	local fields
	fields=$(<"/proc/$1/stat")
	read -ra fields <<<"${fields##*) }" # the name may have spaces
	echo $(((fields[13] + fields[14]) / $(getconf CLK_TCK)))
}

# of this shell without the stages behind, which end during others
computed_so_far()
{
	echo $(($(computed_by $$) - behind_computed))
}

# stage <name> <command...>: what it took and how it ended is told at the end. A failure does not keep the next one from
# being run; stage_ok is for those that need this one.
stage()
{
	local name=$1 start=$SECONDS status=0 computed
	computed=$(computed_so_far)
	shift
	printf '\n== %s\n' "$name"
	"$@" || status=$?
	ended "$name" $((SECONDS - start)) $(($(computed_so_far) - computed)) $status
}

# --- stages behind the others, one after the other: what waits beside what computes ---

behind_pid=''
behind_names=()
behind_patterns=()
behind_commands=()
behind_computed=0 # seconds, by those that have ended

# behind <name> <pattern> <command...>: one more of them; of what it prints the lines that fit are told again at the end
behind()
{
	behind_names+=("$1") behind_patterns+=("$2")
	shift 2
	behind_commands+=("$(printf '%q ' "$@")")
}

start_behind()
{
	rm -f build/behind-*.seconds
	printf '\n== one after the other, behind what follows (build/behind-*.log):\n'
	printf '%s\n' "${behind_names[@]}"
	set -m # a process group of its own, so that all of it can be ended
	run_behind </dev/null &
	behind_pid=$!
	set +m
	trap end_behind EXIT
}

run_behind()
{
	local i start status before shell=$BASHPID
	for i in "${!behind_commands[@]}"; do
		start=$SECONDS status=0 before=$(computed_by "$shell")
		eval "${behind_commands[i]}" >"build/behind-$i.log" 2>&1 || status=$?
		echo $((SECONDS - start)) $(($(computed_by "$shell") - before)) $status >"build/behind-$i.seconds"
	done
}

end_behind()
{
	[[ -z $behind_pid ]] || kill -- -"$behind_pid" 2>/dev/null || true
	behind_pid=''
}

# what they have printed is shown now
await_behind()
{
	local i line outcome
	printf '\n== the rest of what runs behind\n'
	wait "$behind_pid" || true
	behind_pid=''
	for i in "${!behind_names[@]}"; do
		printf '\n== %s\n' "${behind_names[i]}"
		cat "build/behind-$i.log"
		while IFS= read -r line; do figures+=("$line"); done < <(grep -aE "${behind_patterns[i]}" "build/behind-$i.log")
		outcome=(0 0 1)
		[[ ! -s build/behind-$i.seconds ]] || read -ra outcome <"build/behind-$i.seconds"
		behind_computed=$((behind_computed + outcome[1]))
		ended "${behind_names[i]}" "${outcome[@]}"
	done
}

# --- parts of stages ---

skip()
{
	echo "SKIPPED: $*"
	return 77
}

need()
{
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

# measured <what> <pattern> <command...>: the lines that fit are told again at the end
measured()
{
	local what=$1 pattern=$2 log="build/figures-$1.log" status=0 line
	shift 2
	"$@" 2>&1 | tee "$log" || status=$?
	while IFS= read -r line; do figures+=("$what: $line"); done < <(grep -E "$pattern" "$log")
	return $status
}

# build <folder> <cmake arguments...>: what was compiled with the same options before is taken from a cache, which the
# seeded defects use too. Of a source that is not there, the cache asks the compiler once, and not the preprocessor before.
build()
{
	local dir=$1
	shift
	local -x CCACHE_DIR=$PWD/build/ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=locale
	if command -v ccache >/dev/null; then
		set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
	fi
	# a folder that is there keeps what it was made for
	if command -v ninja >/dev/null && [[ ! -e $dir/CMakeCache.txt ]]; then
		set -- -G Ninja "$@"
	fi
	cmake -S . -B "$dir" -DDEVELOPER=ON "$@" >"$dir.log" 2>&1 &&
		cmake --build "$dir" -j "$jobs" >>"$dir.log" 2>&1 && return
	cat "$dir.log"
	return 1
}

runner=() # what runs ctest

# disks_skipped <folder>: the tests of the label disks that were skipped in the last run, as a whole or in part
disks_skipped()
{
	local dir=$1 skipped
	skipped=$(
		sed -n 's/^.* Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped .*/\1/p' "$dir.log"
		awk '/^[0-9]+\/[0-9]+ Testing: / { name = $3 } /SKIPPED/ { print name }' "$dir/Testing/Temporary/LastTest.log"
	)
	# this begins another log
	ctest --test-dir "$dir" -N -L '^disks$' | sed -n 's/^ *Test *#[0-9]*: //p' >"$dir.disks"
	sort -u <<<"$skipped" | grep -Fxf "$dir.disks"
}

# run_ctest <folder> <ctest arguments...>: its closing lines are kept for the end
run_ctest()
{
	local dir=$1 status=0
	shift
	"${runner[@]}" ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$test_jobs" "$@" 2>&1 |
		tee "$dir.log" || status=$?
	summaries+=("$(printf '\n%s:\n' "$dir"; sed -n '/tests passed,/,$p' "$dir.log")")
	# what is wanted, these scripts install
	if [[ ${CI-} == true ]] && grep 'SKIPPED: .* not installed' "$dir/Testing/Temporary/LastTest.log"; then
		echo 'that is no reason in CI'
		status=1
	fi
	# root may mount what they need
	if [[ ${CI-} == true ]] && ((EUID == 0)) && disks_skipped "$dir"; then
		echo 'these tests of the label disks were skipped, which they may not be in CI as root'
		status=1
	fi
	return $status
}

# Which tests are run first: those of the library and the device by themselves. The rest: whole programs, hostile peers,
# disks, large payloads, documents and what a build gives. The samples of torture have stages of their own.
of_the_rest='large|slow|deep|integration|disks|surface|mistakes'
first=(-L '^(unit|fuzz|simulation|conformance|preload|tools)$' -LE "^(torture|$of_the_rest)\$")
# of the rest what a fresh machine runs with the library installed (run_quick of run-tests, in run_deep), and what it does not
rest_quick=(-L '^(slow|deep|surface|mistakes)$' -LE '^(torture|large|integration|disks)$')
rest_slow=(-L '^(large|integration|disks)$' -LE '^torture$')
# The same with sanitizers: what has parsers and threads; the largest payloads take long and show nothing new. Of the
# forms of the scenarios those that are plain and over TLS, and in the rest those in records; several progress threads are
# with the thread sanitizer, and copies from another process's memory have their unit tests.
# Left out are programs of the original, which are not instrumented, those that are killed, which report nothing, and of the
# rest what is a script, what is with the thread sanitizer too, and of the disks and logs what takes longest: it runs the same
# code as their other tests do, with other faults.
not_sanitized='conformance-(two-processes|ipv6-.*|same-host-.|tls-psk)$'
first_sanitized=(-L '^(unit|fuzz|simulation|conformance)$' -LE "^(torture|$of_the_rest)\$"
	-E "$not_sanitized|^conformance-(crc|closed-.*|threads-4)\$|^unit-threads-4-")
rest_sanitized=(-L '^(surface|preload|tools|mistakes|slow|integration|disks|conformance)$' -LE '^(torture|large)$'
	-E "$not_sanitized|^conformance-(one-process|tls|threads-4)\$|^preload-original\$|^integration/(kills|replicated_log)\$|^keeper/disk\$|^tools/(wireshark|bench-run|perf-network|perf-local)\$")

# what a build has, beside the library and the device
some_parts='-DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF -DBUILD_BENCHMARKS=OFF'
all_parts='-DTEST_PARTS= -DBUILD_EXAMPLES=ON -DBUILD_DOC=ON -DBUILD_TOOLS=ON -DBUILD_BENCHMARKS=ON'

# variant <name> <more of its name> <folder> <cmake arguments, one word> <ctest arguments...>: builds and tests one
variant()
{
	local name=$1 more=$2 dir=$3 cmake_args
	read -ra cmake_args <<<"$4"
	shift 4
	stage "build: $name$more" build "$dir" "${cmake_args[@]}"
	if $stage_ok; then
		stage "tests: $name$more" run_ctest "$dir" "$@"
	fi
}

release=(-DCMAKE_C_COMPILER=gcc -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTEST_PARTS= -DBUILD_DOC=ON)

run_release()
{
	variant gcc '' build/tests "${release[*]}" "$@"
}

# count_tests <ctest arguments...>
count_tests()
{
	ctest --test-dir build/tests -N "$@" | sed -n 's/^Total Tests: //p'
}

# a test without a label that is known would be run by nobody
rest_of_release()
{
	local first_count quick_count slow_count
	first_count=$(count_tests "${first[@]}")
	quick_count=$(count_tests "${rest_quick[@]}")
	slow_count=$(count_tests "${rest_slow[@]}")
	if (($(count_tests -LE '^torture$') != first_count + quick_count + slow_count)); then
		echo 'a test belongs neither to the first ones nor to the rest: see its labels, and test-stages.sh'
		return 1
	fi
	run_ctest build/tests "${rest_slow[@]}"
}

# the build is there
run_release_rest()
{
	stage 'tests: gcc, the rest' rest_of_release
}

# What a build may leave out: whatever needs it is refused with a reason. Most objects of the tests come from the cache.
run_without()
{
	variant gcc ', without libpmem2, OpenSSL and ISA-L' build/tests-without \
		'-DCMAKE_C_COMPILER=gcc -DWITH_PMEM=OFF -DWITH_TLS=OFF -DWITH_ISAL=OFF -DBUILD_DOC=OFF -DTEST_PARTS=unit/softrdma;tools;surface' \
		-R '^(unit-softrdma-test_(crc|persist.*|tls_none)|surface-(consumer|needed-.*|static-.*)|tools/info)$'
}

# sanitize <name> <more of its name> <folder> <cmake arguments> <ctest arguments...>
sanitize()
{
	local -x ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
	local -x UBSAN_OPTIONS=print_stacktrace=1
	local -x TEST_DEADLINE_FACTOR=4
	local name="$1, address and undefined behaviour sanitizers" more=$2 dir=$3 how=$4
	shift 4
	variant "$name" "$more" "$dir" "$how -DSANITIZE=address;undefined" "$@"
}

# The thread sanitizer of clang 14 wants its memory where kernels with many random bits (vm.mmap_rnd_bits) may put
# something else: without address space randomisation it always fits.
tsan_ctest()
{
	need setarch || return
	if ! setarch -R true 2>/dev/null; then
		skip 'setarch -R is not permitted here'
		return
	fi
	local -x TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
	local -x TEST_DEADLINE_FACTOR=4
	run_ctest build/tests-tsan "$@"
}

# what has threads: the conformance scenarios, the unit tests, the tools, and what the manual says. CI runs the scenarios
# in one process, with one progress thread and with four, and over TLS only, and of the tools rpma-perf only. This sanitizer
# cannot follow children that begin threads of their own (test_fork). test_link has no second thread, and would take a
# minute and a half of this stage.
tsan_parts='unit;unit/softrdma;unit/softrdma_preload;conformance'
tsan_build="-DCMAKE_C_COMPILER=clang -DSANITIZE=thread $some_parts"
tsan_first='^(unit|conformance-(one|threads))'
tsan_rest='^(conformance-tls$|tools/perf-(local|network)|surface-threads)'
tsan_all='^(unit|conformance-|tools|surface-threads)'

# run_tsan <more of its name> <regular expression of its tests> <ctest arguments...>
run_tsan()
{
	local name='clang, thread sanitizer' more=$1 tests=$2 parts=$tsan_parts with_tools=OFF cmake_args
	shift 2
	if [[ $tests != "$tsan_first" ]]; then
		parts+=';tools;surface' with_tools=ON
	fi
	read -ra cmake_args <<<"$tsan_build"
	stage "build: $name$more" build build/tests-tsan "${cmake_args[@]}" "-DTEST_PARTS=$parts" -DBUILD_TOOLS=$with_tools
	if $stage_ok; then
		runner=(setarch -R)
		stage "tests: $name$more" tsan_ctest -R "$tests" -E 'softrdma-test_(fork|link)$' -LE 'large|torture' "$@"
		runner=()
	fi
}

# arm64 on another machine: the headers and libraries of Debian's arm64 in a folder, and the programs by an emulator
build_arm64()
{
	local sysroot=build/arm64-sysroot
	need aarch64-linux-gnu-gcc || return
	need qemu-aarch64 || return
	utils/arm64-sysroot $sysroot || return
	build build/tests-arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DARM64_SYSROOT=$sysroot \
		"-DTEST_PARTS=unit;unit/softrdma;unit/softrdma_preload;conformance" -DBUILD_TOOLS=OFF \
		-DBUILD_EXAMPLES=OFF -DBUILD_BENCHMARKS=OFF -DBUILD_DOC=OFF
}

# What qemu-aarch64 7.2 cannot run: it has no robust mutexes and no process_vm_readv() (copy, shm_path, local_peer, registry);
# it answers madvise() itself (advise, copy); a SIGBUS that a handler leaves by a jump is a failed assertion of its own
# (memory, responder), and so are threads that a forked child begins (fork, stats_file); a read into memory that has gone fails
# in another way (receive, send); it makes /proc/self/maps itself, also where the test has left no descriptor for that
# (persist_find); DC CVAP of libpmem2 is an illegal instruction (persist, persist_dax). What takes longest has nothing that
# depends on the processor but what others try too (link). On a busy machine flush_worker stands still at times, in one of
# several runs, and why is not known.
# Its /proc/self/maps may lack what another thread maps meanwhile, so the scenarios do not run in one process. Without the
# same-host path, one form of them is enough for what depends on the processor: TLS and several progress threads have their
# unit tests, but for those with threads-4 in their names.
not_for_emulator='softrdma-test_(advise|copy|shm_path|flush_worker|fork|link|local_peer|memory|persist|persist_dax'
not_for_emulator+='|persist_find|receive|registry|responder|send|stats_file)$|^unit-threads-4-'
not_for_emulator+='|^conformance-(one-process|ipv6-.*|same-host-.|crc|closed-.*|threads-4|tls|tls-psk)$'

tests_arm64()
{
	local -x TEST_DEADLINE_FACTOR=10
	run_ctest build/tests-arm64 -L '^(unit|conformance)$' -LE large -E "$not_for_emulator" "$@"
}

run_arm64()
{
	if [[ $(uname -m) == aarch64 ]]; then
		printf '\n== arm64: this machine is one\n'
		return
	fi
	stage 'build: arm64' build_arm64
	if $stage_ok; then
		stage 'tests: arm64' tests_arm64 "$@"
	fi
}

# What valgrind 3.19 cannot run, each of which the address sanitizer looks at: it answers rt_sigprocmask() itself, so the
# kernel is never asked if memory is there (copy, memory, responder: SIGBUS); keeps another mask of signals than the thread has
# asked for, and changes the exit status of a child (engine, stats_file); closes a descriptor beyond the limit that accept() was
# given (pending); reports a read into memory that has gone (receive, send), and the msync of memory that has gone or allows no
# access (flush_worker, persist, persist_description, persist_file, persist_msync); looks in forked children for what only
# the stacks of the parent's threads refer to (fork, shm_path); drops empty variables (log-empty); and does not come to an end
# where a thread is stuck in a write (log-debug). It runs one thread at a time, so several progress threads show nothing more.
not_for_valgrind='^unit-threads-4-|softrdma-test_(copy|shm_path|engine|flush_worker|fork|memory|pending|persist|persist_description'
not_for_valgrind+='|persist_file|persist_msync|receive|responder|send|stats_file)$|log-(empty|debug)$'

# Looks at the test's own process, not at its children: they end in the middle of things. valgrind runs one thread at a time;
# without its fair scheduling, a thread that never sleeps can keep the others from running for minutes.
valgrind_ctest()
{
	need valgrind || return
	local dir=build/tests status=0
	local -x TEST_DEADLINE_FACTOR=10
	local leaks='definite,indirect,possible'
	local options="-q --leak-check=full --error-exitcode=99 --child-silent-after-fork=yes"
	options+=" --fair-sched=try"
	options+=" --show-leak-kinds=$leaks --errors-for-leak-kinds=$leaks"
	rm -f "$dir"/Testing/Temporary/MemoryChecker.*.log
	run_ctest "$dir" --overwrite MemoryCheckCommand="$(command -v valgrind)" \
		--overwrite MemoryCheckCommandOptions="$options" -T memcheck "$@" || status=$?
	# what valgrind says of a question to the kernel that it answers itself is no finding
	find "$dir/Testing/Temporary" -name 'MemoryChecker.*.log' -size +0 -exec cat '{}' + |
		sed '/ sigprocmask: unknown .how. field /d'
	return $status
}

run_coverage()
{
	need gcovr || return
	measured coverage '^(all|reached:|FAILED:) ' utils/coverage
}

# turn <count>: which of this number of turns it is, from 0 on, so that each commit takes the next one; nothing in a release
turn()
{
	local commits
	! commits=$(git rev-list --count HEAD 2>/dev/null) || echo $((commits % $1))
}

run_valgrind()
{
	stage 'valgrind: unit tests' valgrind_ctest -R '^unit' -E "$not_for_valgrind" "$@"
}

# every third one, by turns
run_valgrind_sample()
{
	local which
	which=$(turn 3)
	run_valgrind ${which:+-I "$((which + 1)),,3"}
}

torture()
{
	cd build/tests/tests/torture && ./torture "$@"
}

findings_of_torture='^(seed [0-9]|[0-9]+ runs of )'

run_torture()
{
	measured torture "$findings_of_torture" torture "$@"
}

# run_torture_sample <calls of each scenario>
run_torture_sample()
{
	stage 'torture: a sample' run_torture --sample "$1"
}

# run_hostile <seconds of each attack>: with what takes time, which the tests of ctest (and so CI) leave out
run_hostile()
{
	local -x RPMA_DEVICE=soft
	measured hostile '^(seed|FAILED|all attacks|[a-z-]+ +[0-9]+ connects)' build/tests/tests/hostile/hostile \
		--seconds "$1" --measure
}

# over TLS: what has something of its own there
run_hostile_tls()
{
	local -x RPMA_DEVICE=soft
	measured hostile-tls '^(seed|FAILED|all attacks|[a-z-]+ +[0-9]+ connects)' tests/lib/with-certificates \
		build/tests/tests/hostile/hostile --seconds "$1" --measure \
		--only 'on-after-*|key-updates|empty-records|recorded-hellos|slow-tls|by-hand-*'
}

run_kills()
{
	local -x RPMA_DEVICE=soft
	cd build/tests/tests/integration && ./kills --rounds 10000 --resume kills.state
}

findings_of_cuts='^(seed|LOST|WRONG|REFUSED|FAILED|[0-9]+ tasks)'

# run_faults_and_cuts <options...>
run_faults_and_cuts()
{
	local -x RPMA_DEVICE=soft
	cd build/tests/tests/medium && ./faults_and_cuts "$@"
}

# half an hour that has passed is a line of the file
run_soak()
{
	local -x RPMA_DEVICE=soft RPMA_LOG_LEVEL=error
	cd build/tests/tests/soak && ./soak --seconds 1800 && date >>soak.state
}

run_simulation()
{
	cd build/tests/tests/simulation && ./simulation --seeds 100000 --resume simulation.state
}

run_datagram_simulation()
{
	cd build/tests/tests/simulation && ./simulation --datagrams --seeds 100000 --resume datagram-simulation.state
}

run_log_simulation()
{
	cd build/tests/tests/simulation/log && ./log-simulation --seeds 100000 --resume log-simulation.state
}

findings_of_cut_streams='^(seed [0-9]|[0-9]+ runs, )'

run_cuts()
{
	measured cuts "$findings_of_cut_streams" torture --cut "$@"
}

cuts_sample()
{
	run_cuts --seconds 20
}

run_cuts_sample()
{
	stage 'cut streams: a sample' cuts_sample
}

# with a key, so that the handshake is short
cuts_of_tls()
{
	local with_certificates=$PWD/tests/lib/with-certificates
	cd build/tests/tests/torture && "$with_certificates" --psk ./torture --cut "$@"
}

run_cuts_of_tls()
{
	measured cuts-tls '^(seed [0-9]|[0-9]+ runs, )' cuts_of_tls "$@"
}

# both in records with check sums and over TLS, three quarters of a minute together
run_samples_of_streams()
{
	stage 'torture and cut streams: samples with check sums and over TLS' run_ctest build/tests -R '^(torture|cuts)-sample-(crc|tls)$'
}

# combination <microseconds of spinning> <progress threads> <command that gives credentials for TLS...>: in the build and in
# that of the thread sanitizer, what has threads and waits. The simulation has a wire of its own, without TLS.
combination()
{
	local -x RPMA_DEVICE=soft SOFTRDMA_SPIN_US=$1 SOFTRDMA_THREADS=$2 TSAN_OPTIONS=halt_on_error=1
	local scenarios='[!s]*|send-*|srq-*|smoke-[!ar]*|stopped-*|shared-*' status=0
	shift 2
	"$@" build/tests/tests/conformance/conformance --processes 2 --max-size 1048576 --only "$scenarios" || status=$?
	"$@" build/tests/tests/torture/torture --sample 2 || status=$?
	(($#)) || build/tests/tests/simulation/simulation --seeds 300 || status=$?
	local -x TEST_DEADLINE_FACTOR=4
	"$@" setarch -R build/tests-tsan/tests/conformance/conformance --processes 1 --max-size 65536 --only "$scenarios" ||
		status=$?
	return $status
}

# all scenarios whose roles are started without some of the standard descriptors, four minutes together
closed()
{
	local -x RPMA_DEVICE=soft SOFTRDMA_CRC=1
	local digits status=0
	for digits in - 0 1 2 01 02 12 012; do
		build/tests/tests/conformance/conformance --processes 2 --max-size 1048576 --closed "$digits" || status=$?
	done
	return $status
}

run_closed()
{
	stage 'all scenarios without standard descriptors' measured closed 'passed|^not ok' closed
}

run_combinations()
{
	local spin_us threads
	for spin_us in 0 50; do
		for threads in 1 4; do
			stage "spinning for $spin_us us, $threads progress threads" measured "combination-$spin_us-$threads" \
				'passed|failures|FAILED' combination $spin_us $threads
			stage "the same over TLS" measured "combination-$spin_us-$threads-tls" 'passed|failures|FAILED' \
				combination $spin_us $threads tests/lib/with-certificates --psk
		done
	done
}

run_fuzz()
{
	BUILD=$PWD/build/tests-sanitize measured fuzz ' runs, ' tests/fuzz/run "$@"
}

# the decoders are through with all that they have in a second; the stream finds its way by chance
run_fuzz_sample()
{
	stage 'fuzzing: decoders' run_fuzz --seconds 2 mr_descriptor peer_cfg private_data handshake frame control_line
	stage 'fuzzing: the listener' run_fuzz --seconds 5 listener
	stage 'fuzzing: the stream' run_fuzz --seconds 20 stream
}

findings_of_mutation='^(seed|seeded defects:|mutants:|survived:|cannot be tried:) '

run_mutation()
{
	measured mutation "$findings_of_mutation" tests/mutation/run "$@"
}

# what takes little time of the suites of others
run_others()
{
	measured others '^(suite|FAILED) ' tests/others/run --ci
}

# fresh_machine <suite of Debian>: what the README says, from the packages to the removal
fresh_machine()
{
	measured "fresh-$1" '^== .*: [0-9]+( s)?$' utils/check-fresh-machine --suite "$1" --readme
}

# The machine of CI may be older than what its distribution offers. An object that was compiled with older headers is of no
# use to a fresh machine, which would compile all tests again.
upgrade_headers()
{
	apt-get -qq update && apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends linux-libc-dev libssl-dev \
		</dev/null >/dev/null ||
		echo 'then a fresh machine compiles more'
}

# install_optional <package...>: in a shell of its own, so that who may not install anything goes on, and skips what needs them
install_optional()
{
	(install_packages "$@") || echo 'what needs them is skipped'
}
