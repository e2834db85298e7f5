# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2034 # variables for the scripts that source this

# common.sh -- shared by the driver and the suites: folders, our libraries, the device, the sources of others; to be
# sourced
#
# The environment may set, as the lab does: OTHERS_DEVICE, soft (the software device, by libsoftrdma.so; the default) or
# rxe (SoftRoCE, at $LAB_ADDRESS); OTHERS_BUILD, the folder of our built libraries; OTHERS_CACHE, the folder in which
# programs of others are built; OTHERS_PATIENCE, a factor for the deadlines.

project=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
cache=${OTHERS_CACHE:-$project/.cache/others}
results_folder=$project/build/others-results
ours=${OTHERS_BUILD:-$project/build/others}
patience=${OTHERS_PATIENCE:-1}

# shellcheck source=SCRIPTDIR/../../utils/install-packages.sh
. "$project/utils/install-packages.sh"

# the verbs device, its address, the library to preload for it, and its name in RPMA_DEVICE
case ${OTHERS_DEVICE:-soft} in
soft)
	device=softrdma0
	address=198.18.7.1 # see in-namespace
	preload=LD_PRELOAD=$ours/src/libsoftrdma.so.0
	rpma_device=soft
	;;
rxe)
	device=rxe0
	address=$LAB_ADDRESS
	preload=
	rpma_device=rdma
	;;
*)
	echo "OTHERS_DEVICE is soft or rxe" >&2
	exit 2
	;;
esac

skip()
{
	echo "SKIPPED: $*"
	exit 77
}

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

need()
{
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed (utils/install-packages.sh: others_packages)"
	done
}

need_machine()
{
	need unshare ip timeout awk
	((EUID == 0)) || skip 'only root makes namespaces of network and mounts'
	"$project/tests/others/in-namespace" true || skip 'the kernel makes no namespaces, or no virtual network card'
}

build_ours()
{
	local log=$results_folder/build.log
	{
		cmake -S "$project" -B "$ours" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_DOC=OFF -DBUILD_TOOLS=OFF &&
			cmake --build "$ours" -j"$(nproc)"
	} >"$log" 2>&1 || {
		tail "$log"
		fail 'our libraries cannot be built'
	}
}

# --- for suites ---

results=${1-}

# result <test> <pass | skip: reason | fail: reason>
result()
{
	echo "$1 | $2" >>"$results"
}

# on_device <command...>
on_device()
{
	env ${preload:+"$preload"} "$@"
}

# within <seconds> <command...>: runs it on the device, and ends it after that time
within()
{
	local seconds=$(($1 * patience))
	shift
	timeout --kill-after=1 "$seconds" env ${preload:+"$preload"} "$@"
}

# gid_index <GID>: its place in the table of the device; nothing if the GID is not there
gid_index()
{
	on_device ibv_devinfo -v -d "$device" |
		sed -n "s/^[[:space:]]*GID\\[ *\\([0-9]*\\)\\]:[[:space:]]*$1\\(,.*\\)\\{0,1\\}\$/\\1/p" | sed -n 1p
}

# count_bytes: from here on, each process writes how many bytes the software device carries for it into a file of its own
count_bytes()
{
	mkdir stats
	export SOFTRDMA_STATS_FILE=$work/stats/%p
}

# carried <bytes>: true if the processes since forget_bytes sent, wrote and read at least this number of bytes by the software
# device, all together. Of another device it is not known
carried()
{
	local bytes
	[[ $device == softrdma0 ]] || return 0
	bytes=$(find stats -type f -exec cat {} + |
		awk '/^softrdma_bytes_total.*side="issued",kind="(send|write|read|atomic)"/ { sum += $2 } END { printf "%d", sum }')
	echo "the device carried $bytes bytes; at least $1 are needed"
	((bytes >= $1))
}

forget_bytes()
{
	rm -rf stats/*
}

# listens <port>: true if a program listens there for streams, as the software device and programs that connect by hand
# do, or for the connection manager
listens()
{
	[[ -n $(ss -Hltn "sport = :$1") ]] ||
		{ [[ $device == rxe0 ]] && rdma resource show cm_id | grep -q "state LISTEN.*:$1 "; }
}

# await_listener <port> <pid>: false if the process ends first, or if it does not listen within 20 s
await_listener()
{
	local end=$((SECONDS + 20 * patience))
	until listens "$1"; do
		((SECONDS < end)) && kill -0 "$2" 2>/dev/null || return
		sleep 0.02
	done
}

# pair <test> <port> <check> <server...> -- <client...>: passes if both end with 0 on the device, and if the check,
# which gets the output of the client on standard input, succeeds
pair()
{
	local test=$1 port=$2 check=$3 server=() server_pid client_status=0 server_status=0
	local on=(timeout --kill-after=1 $((60 * patience)) env ${preload:+"$preload"})
	shift 3
	forget_bytes
	: >client.out
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	"${on[@]}" "${server[@]}" >server.out 2>&1 </dev/null &
	server_pid=$!
	if await_listener "$port" "$server_pid"; then
		"${on[@]}" "$@" >client.out 2>&1 </dev/null || client_status=$?
	else
		client_status=255
	fi
	((client_status == 0)) || kill "$server_pid" 2>/dev/null || true
	wait "$server_pid" || server_status=$?
	echo "== $test: client $client_status, server $server_status"
	if ((client_status == 0 && server_status == 0)) && $check <client.out; then
		result "$test" pass
	else
		cat server.out client.out
		result "$test" "fail: status $client_status of the client, $server_status of the server"
	fi
}

# mpi_results <what> <command...>: the command runs mpi.c; gives the results of its tests, and whether it ended well and
# whether its bytes went by the device. <what> is put before their names
mpi_results()
{
	local what=$1 bytes
	shift
	run_mpi "$@"
	sed -n "s/^mpi: /$what/p" mpi.out >>"$results"
	bytes=$(sed -n 's/^mpi bytes: //p' mpi.out)
	if [[ -n $bytes ]] && carried "$bytes"; then
		result "${what}bytes by the device" pass
	else
		result "${what}bytes by the device" 'fail: fewer than the program has sent'
	fi
	if ((mpi_status == 0)); then
		result "${what}exit status" pass
	else
		result "${what}exit status" "fail: $mpi_status"
	fi
}

# mpi_control <command...>: as before, but the command has the processes share memory, so the device may carry nothing
mpi_control()
{
	local test='shared memory is seen' bytes
	if [[ $device != softrdma0 ]]; then
		result "$test" 'skip: the device does not count bytes'
		return
	fi
	run_mpi "$@"
	bytes=$(sed -n 's/^mpi bytes: //p' mpi.out)
	if ((mpi_status)) || [[ -z $bytes ]]; then
		result "$test" "fail: the program's status is $mpi_status"
	elif carried "$bytes"; then
		result "$test" 'fail: the device carried its bytes'
	else
		result "$test" pass
	fi
}

# run_mpi <command...>: gives mpi_status, and what the command prints in the files mpi.out and mpi.err
run_mpi()
{
	mpi_status=0
	forget_bytes
	timeout --kill-after=1 $((60 * patience)) "$@" >mpi.out 2>mpi.err </dev/null || mpi_status=$?
	cat mpi.err mpi.out
}

# checks for pair(): the line of figures has the size and the iterations; and those bytes went by the device
perftest_figures()
{
	grep -qE "^ *$size +$iterations +[0-9.]+"
}

perftest_bytes()
{
	perftest_figures && carried $((size * iterations))
}

# perftest <test> <size> <iterations> <program> <options...>: a pair of programs of perftest, at the next port, that are to
# print this size and number. These programs measure the processor's clock first. On a busy machine that may fail, over any
# device; then the test is repeated. With -R they end without closing their connections, so the device writes no last
# count
perftest()
{
	local test=$1 size=$2 iterations=$3 check=perftest_bytes
	shift 3
	[[ " $* " != *' -R '* ]] || check=perftest_figures
	for _ in 1 2 3; do
		((++port))
		: >>"$results"
		cp "$results" before
		pair "$test" $port $check "$@" -p $port -- "$@" -p $port "$address"
		grep -q '^Correlation coefficient' server.out client.out || return 0
		cp before "$results"
	done
	result "$test" 'fail: could not measure the clock'
}

# in_work_folder: changes to a folder that is removed when the suite ends
in_work_folder()
{
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/others-XXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT # a suite may have mounted something there
	cd "$work" || exit
}

# --- the sources of others ---

# fetch_source <package>: gets the upstream archive of a Debian source package, checked by apt, into $cache/src. It
# comes from the machine's own Debian mirror; the release is that of the machine, or Debian 13 if the file is missing
# there
fetch_source()
{
	local package=$1 uri release apt=$cache/apt options
	archive=$(compgen -G "$cache/src/${package}_*.orig.tar.*z" | head -n 1) && return
	uri=$(debian_uri)
	[[ -n $uri ]] || skip "apt knows no source of this machine's own Debian"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$cache/src"
	options=(-o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User=root)
	for release in "$(. /etc/os-release && echo "$VERSION_CODENAME")" trixie; do
		echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $release main" >"$apt/sources.list"
		apt-get "${options[@]}" -qq update -o APT::Update::Error-Mode=any || continue
		# the description and Debian's changes are not used
		(cd "$cache/src" && apt-get "${options[@]}" -qq source --download-only "$package") || true
		archive=$(compgen -G "$cache/src/${package}_*.orig.tar.*z" | head -n 1) && return
	done
	skip "there is no source of $package where this machine has its Debian from"
}

# build_once <name> <package> <function>: the function builds in the unpacked sources, and installs into $cache/<name>.
# Suites run without a network, so a suite is called with --build before that, and then does nothing else
build_once()
{
	local name=$1 package=$2 how=$3
	prefix=$cache/$name
	if [[ ! -e $prefix/built ]]; then
		[[ $results == --build ]] || fail "$name is to be built first, by $0 --build"
		fetch_source "$package"
		rm -rf "$prefix" "$cache/build-$name"
		mkdir -p "$prefix" "$cache/build-$name"
		tar -xf "$archive" -C "$cache/build-$name" --strip-components=1
		(cd "$cache/build-$name" && "$how") || fail "$package cannot be built"
		basename "$archive" >"$prefix/built"
		rm -rf "$cache/build-$name"
	fi
	[[ $results != --build ]] || exit 0
}

# is_built <suite>: true if it builds a program of others
is_built()
{
	[[ $1 == fio-librpma || $1 == fabtests-* || $1 == libnbd || $1 == nbdkit || $1 == original ]]
}
