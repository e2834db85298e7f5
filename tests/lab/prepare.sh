# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # variables of the script that sources this, and for it

# prepare.sh -- makes the guest's root file system, its kernels and the build in it; to be sourced by machine.sh
#
# Everything is in $cache and made once. Packages of other Debian suites come through apt with lists of its own, so the
# machine's lists do not change.

guest_suite=trixie
# a Debian suite with another version of librpma
older_suite=bookworm
declare -A kernel_suites=([6.1]=bookworm [6.12]=trixie [newest]=trixie-backports)

# packages of the guest: to build the project, to make devices, to inspect them
guest_packages=(gcc libc6-dev make cmake pkg-config libibverbs-dev librdmacm-dev libpmem2-dev zlib1g-dev
	libssl-dev libisal-dev libcmocka-dev librpma-dev libprotobuf-c-dev protobuf-c-compiler rdma-core rdmacm-utils ibverbs-utils
	ibverbs-providers perftest ndctl daxctl iproute2 e2fsprogs kmod xz-utils zstd busybox-static procps strace gdb
	dmsetup xfsprogs btrfs-progs libjansson-dev nbdkit nbdkit-plugin-dev nbd-client mdadm sqlite3)

# modules that the initramfs loads to reach the root file system; all others are loaded from there
initial_modules=(virtio_pci 9pnet_virtio 9p virtio_console)

# lines of the kernel's log that fail a run
kernel_complaints='\b(BUG|WARNING):|\bOops\b|[Ll]ockup|general protection|Kernel panic|blocked for more than|'
kernel_complaints+='detected stall|UBSAN|KASAN'

# reason_not_to_run: prints nothing if the lab can run here
reason_not_to_run()
{
	if ! grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
		echo "is made of Debian's packages, and this is no Debian"
	elif [[ $(dpkg --print-architecture) != amd64 ]]; then
		echo "is for amd64 only"
	fi
}

# in_root <command...>: runs it in the guest's root file system, on this machine's kernel
in_root()
{
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$root" "$@"
}

# become_in_root <command...>: replaces this shell by a program of the guest's root, run on this machine's kernel over
# the software device. The software device needs /proc to learn about memory.
become_in_root()
{
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 RPMA_DEVICE=soft \
		sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}

# logged <what> <command...>: announces a long step; its output is shown only if it fails
logged()
{
	local what=$1 start=$SECONDS log status=0
	shift
	log=$cache/${what//[^a-z0-9.]/-}.log
	printf 'tests/lab: %s ... ' "$what"
	# in the background, because bash ignores -e in a condition
	(
		set -e
		renice -n "$niceness" "$BASHPID"
		"$@"
	) >"$log" 2>&1 </dev/null &
	wait $! || status=$?
	if ((status)); then
		echo failed
		tail -n 60 "$log" >&2
		fail "$what failed"
	fi
	echo "$((SECONDS - start)) s"
}

# source_line <suite>: in apt's one-line format
source_line()
{
	local uri
	uri=$(debian_uri)
	[[ -n $uri ]] || fail "apt knows no source of this machine's own Debian"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $1 main"
}

make_root()
{
	local stamp=$root/.made source
	if [[ -e $stamp && $(<"$stamp") == "${guest_packages[*]}" ]]; then
		return
	fi
	rm -rf "$root" "$cache/kernels"
	source=$(source_line "$guest_suite")
	logged "guest root of $guest_suite" mmdebstrap --variant=minbase --aptopt='Acquire::Languages "none"' \
		--dpkgopt=force-unsafe-io \
		--include="$(IFS=, && echo "${guest_packages[*]}")" "$guest_suite" "$root" "$source"
	mkdir -p "$root"/{project,build,results,kernels,lib/modules,mnt/pmem}
	echo "${guest_packages[*]}" >"$stamp"
}

install_in_root()
{
	in_root apt-get -q update
	in_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"
}

# prepare_others: adds the packages of tests/others to the root; only the script "others" needs them
prepare_others()
{
	local stamp=$root/.others
	if [[ ! -e $stamp || $(<"$stamp") != "${others_packages[*]}" ]]; then
		logged 'packages for suites of others' install_in_root "${others_packages[@]}"
		echo "${others_packages[*]}" >"$stamp"
	fi
}

# apt_of <suite> <apt program> <arguments...>: runs apt so that it sees this suite only
apt_of()
{
	local dir=$cache/apt/$1 program=$2
	shift 2
	"$program" -q -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts="$dir/none" \
		-o Dir::State="$dir/state" -o Dir::State::status=/dev/null -o Dir::Cache="$dir/cache" \
		-o APT::Sandbox::User=root "$@"
}

# open_suite <suite>: gets the package lists of the suite for apt_of
open_suite()
{
	mkdir -p "$cache/apt/$1"/{none,state/lists/partial,cache/archives/partial}
	source_line "$1" >"$cache/apt/$1/sources.list"
	apt_of "$1" apt-get update -o APT::Update::Error-Mode=any
}

# can_fetch: true if there is a network with packages
can_fetch()
{
	open_suite "$guest_suite" >"$cache/network.log" 2>&1
}

# fetch_kernel <suite> <folder>: gets the packages of its kernel image; their number differs by release
fetch_kernel()
{
	local suite=$1 dir=$2 packages
	mkdir -p "$dir"
	open_suite "$suite"
	mapfile -t packages < <(apt_of "$suite" apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances linux-image-amd64 |
		grep -E '^linux-(image|binary|modules|base)-[0-9]' | sort -u)
	((${#packages[@]})) || return 1
	(cd "$dir" && apt_of "$suite" apt-get download "${packages[@]}")
}

# unpack_kernel <folder of packages> <folder>: vmlinuz, lib/modules, and the version
unpack_kernel()
{
	local dir=$2 package version
	for package in "$1"/*.deb; do
		dpkg-deb -x "$package" "$dir"
	done
	[[ -e $dir/lib ]] || ln -s usr/lib "$dir/lib"
	version=$(ls "$dir/lib/modules")
	if [[ -e $dir/boot/vmlinuz-$version ]]; then
		ln "$dir/boot/vmlinuz-$version" "$dir/vmlinuz"
	else
		ln "$dir/lib/modules/$version/vmlinuz" "$dir/vmlinuz"
	fi
	dpkg-deb -f "$package" Version >"$dir/package-version"
	echo "$version" >"$dir/version"
}

# make_initramfs <folder as seen from the guest's root>: modules in dependency order, busybox, and initramfs-init
make_initramfs()
{
	local dir=$1 tree=$root$1/initramfs-tree version path
	version=$(<"$root$dir/version")
	in_root depmod -b "$dir" "$version"
	mkdir -p "$tree"/{modules,proc,sys,dev,root}
	for module in "${initial_modules[@]}"; do
		in_root modprobe -d "$dir" -S "$version" --show-depends "$module"
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$tree/paths"
	while read -r path; do
		case $path in
		*.xz) in_root xz -dc "$path" ;;
		*.zst) in_root zstd -dcq "$path" ;;
		*) cat "$root$path" ;;
		esac >"$tree/modules/$(basename "$path" | sed 's/\.ko.*//').ko"
		basename "$path" | sed 's/\.ko.*/.ko/'
	done <"$tree/paths" >"$tree/modules/order"
	rm "$tree/paths"
	cp "$root/bin/busybox" "$tree/busybox"
	install -m 755 "$lab/initramfs-init" "$tree/init"
	in_root sh -c "cd $dir/initramfs-tree && find . | busybox cpio -o -H newc | gzip >$dir/initramfs"
	rm -rf "$tree"
}

make_kernel()
{
	local suite=$1 name=$2 packages
	packages=$(mktemp -d "$cache/packages-XXXX")
	rm -rf "$root/kernels/$name" "$cache/kernels/$name"
	fetch_kernel "$suite" "$packages"
	mkdir -p "$root/kernels/$name" "$cache/kernels/$name"
	unpack_kernel "$packages" "$root/kernels/$name"
	rm -rf "$packages"
	make_initramfs "/kernels/$name"
	mv "$root/kernels/$name"/{vmlinuz,initramfs} "$cache/kernels/$name/"
	cp "$root/kernels/$name"/{version,package-version} "$cache/kernels/$name/"
	touch "$cache/kernels/$name/made"
}

# copies the project into the guest's root, without its builds; keeps times for incremental builds
copy_project()
{
	rm -rf "$root/project"
	mkdir "$root/project"
	tar -C "$project" --exclude='./build*' --exclude=./.git --exclude=.cache -c . | tar -C "$root/project" -x
}

# everything, unless the script that sources this needs only some targets
build_targets=(all)

build_project()
{
	# warnings of another compiler are not the lab's concern
	in_root cmake -S /project -B /build -DDEVELOPER=ON -DDEVELOPER_WARNINGS=OFF
	in_root cmake --build /build -j "$(nproc)" --target "${build_targets[@]}"
	# for the guest's ctest, see guest-init
	mkdir -p "$root/build/Testing"
}

# make_older_original: library and header of the previous distribution, in the guest's /original
make_older_original()
{
	local suite=$1 dir=$cache/original package
	rm -rf "$dir" "$root/original"
	mkdir -p "$dir"
	open_suite "$suite"
	(cd "$dir" && apt_of "$suite" apt-get download librpma0 librpma-dev)
	mkdir "$root/original.new"
	for package in "$dir"/*.deb; do
		dpkg-deb -x "$package" "$root/original.new"
		dpkg-deb -f "$package" Version >"$root/original.new/version"
	done
	rm -r "$dir"
	mv "$root/original.new" "$root/original"
}

# the programs that run over the original and over ours are compiled with the header of either original
prepare_originals()
{
	[[ -e $root/original/version ]] || logged "librpma of $older_suite" make_older_original "$older_suite"
}

is_prepared()
{
	[[ -e $cache/kernels/$1/made && -e $root/kernels/$1/version &&
		! $lab/initramfs-init -nt $cache/kernels/$1/made ]]
}

# prepare_kernel <kernel>: made once, and again if initramfs-init has changed
prepare_kernel()
{
	local kernel=$1
	if ! is_prepared "$kernel"; then
		logged "kernel $kernel" make_kernel "${kernel_suites[$kernel]}" "$kernel"
	fi
}
