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
