# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2034 # the lists are for those who source it

# install-packages.sh -- what the project needs of Debian or Ubuntu, and how it gets there; to be sourced
#
# Nothing is called that changes the machine unless a package is missing.

# to build the library, the examples and the tools
build_packages=(build-essential cmake pkg-config libibverbs-dev librdmacm-dev libpmem2-dev libssl-dev libisal-dev
	zlib1g-dev libjansson-dev)

# to build and run the tests: a second compiler with its sanitizers, the test framework, the library that ours takes the
# place of, what one of the examples speaks, what reads the JSON of the tools, pkill for the examples that are killed, what
# makes certificates, what compiles nothing twice, and what starts a compiler without a shell and a make around it (a third
# of the time of a build is theirs)
test_packages=(ccache ninja-build clang libclang-rt-dev lld llvm libcmocka-dev librpma-dev libprotobuf-c-dev
	protobuf-c-compiler jq procps openssl)

# what finds the places of the seeded defects and makes mutants
test_packages+=(python3)

# programs of others that run on the software device (tests/preload)
test_packages+=(rdmacm-utils ibverbs-utils perftest fio jq iproute2)

# probes for tracers, which a build without it leaves out
test_packages+=(systemtap-sdt-dev)

# what tells systemd that rpma-keeper is ready, and what its block devices are built with
test_packages+=(libsystemd-dev nbdkit-plugin-dev)

# for the tests of utils/run-tests --deep: what makes the manuals and their site with its pictures, runs its search, and
# looks for faults in them (a build without those leaves them out), and what compares the ABI
deep_packages=(pandoc graphviz mandoc mujs abigail-tools)

# what shows the protocol of the software device by tools/wireshark (tests/wireshark)
deep_packages+=(tshark)

# what the block devices of rpma-keeper are tested with
deep_packages+=(nbdkit libnbd-bin python3-libnbd qemu-utils fio)

# what makes disks for tests/disks: file systems on loop devices, in a mount namespace
deep_packages+=(btrfs-progs e2fsprogs mount util-linux)

# what builds a user's program with the library
deep_packages+=(meson)

# to link a program with all that libcrypto.pc of Debian 13 names for static libraries; libssl-dev does not bring it
deep_packages+=(libzstd-dev)

# to look at the sources and at the running tests: clang-format and clang-tidy of Debian 12 (version 14), and clang-query
analysis_packages=(clang-format clang-tidy clang-tools codespell cppcheck gcovr shellcheck valgrind yamllint)

# to build for arm64 and run the tests by an emulator, and what is unpacked for that from Debian's arm64
# (utils/arm64-sysroot)
cross_packages=(gcc-aarch64-linux-gnu mmdebstrap qemu-user)
arm64_packages=(libc6-dev libcmocka-dev libibverbs-dev libisal-dev libpmem2-dev librdmacm-dev libssl-dev)

# to make the project's own packages, and to try them in a system of their own
packaging_packages=(debhelper dpkg-dev file libsystemd-dev lintian mmdebstrap nbdkit-plugin-dev ninja-build pandoc rpm)

# for the RDMA lab: an emulator, and what makes the systems that run in it
lab_packages=(debian-archive-keyring mmdebstrap qemu-system-x86)

# for benchmarks/run: what reads the JSON of rpma-perf, what its figures are compared with, programs of verbs that it
# measures, and what binds programs to a processor and to their parent. One row needs perf as well, whose package is another
# in each distribution, and whose use the kernel may forbid.
benchmark_packages=(jq iperf3 libfabric-bin ucx-utils perftest util-linux)

# for tests/others: suites of others, and what builds those that Debian has only as source
others_packages=(python3-pyverbs rdma-core rdmacm-utils ibverbs-providers fio perftest openmpi-bin libopenmpi-dev mpich
	libmpich-dev ucx-utils ibverbs-utils iproute2 jq util-linux autoconf automake libtool libnl-3-dev
	libnl-route-3-dev dpkg-dev procps)

# its suites iser, migration and udapl, which the lab does not run; Debian 13 has no uDAPL
others_packages_here=(tgt libiscsi-bin qemu-utils qemu-block-extra qemu-system-x86 dapl2-utils libdapl2)

# its suites libnbd and nbdkit, over nbdkit-rpma-plugin; they are not part of CI
nbd_suites_packages=(nbdkit libnbd-bin python3-libnbd qemu-utils bsdextrautils)

# debian_uri: where this machine has its own Debian from, as apt knows it
debian_uri()
{
	local codename
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' "Release: $codename" 'Component: main' |
		sed -n 1p
}

# prints those of its arguments that are not installed, each once
missing_packages()
{
	local package
	for package in "$@"; do
		if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
			echo "$package"
		fi
	done | sort -u
}

# installs those of its arguments that are missing; ends the script with status 1 if it may not
install_packages()
{
	if ! command -v dpkg-query >/dev/null; then
		echo "no dpkg on this machine: install what corresponds to $* yourself" >&2
		return
	fi

	local missing as_root=()
	mapfile -t missing < <(missing_packages "$@")
	if ((${#missing[@]} == 0)); then
		return
	fi
	if ((EUID != 0)); then
		if ! command -v sudo >/dev/null; then
			echo "packages are missing, and neither root nor sudo is there to install them. As root:" >&2
			echo "apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
			exit 1
		fi
		as_root=(sudo)
		# without a terminal nobody can type a password
		[[ -t 0 ]] || as_root+=(-n)
	fi

	echo "installing ${missing[*]}"
	if ! "${as_root[@]}" apt-get -qq update ||
		! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
			-o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" </dev/null >/dev/null; then
		echo "that did not work. As root:" >&2
		echo "apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
}
