# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# fresh-system.sh -- a minimal system of this machine's own distribution, or of a suite of Debian, in a folder, and commands
# in it; to be sourced
#
# It needs root and mmdebstrap. Of another suite than the machine's own, it also needs install-packages.sh and
# debian-archive-keyring. suite= names it.

suite=

# apt_sources <codename>: the archives that apt knows of this distribution, whatever form its configuration has
apt_sources()
{
	local sources
	# shellcheck disable=SC2016 # expanded by apt-get
	sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v c="$1" '$3 == c || index($3, c "-") == 1' | sort -u)
	if [[ -z $sources ]]; then
		echo "apt has no lists of $1: run apt-get update first" >&2
		return 1
	fi
	echo "$sources"
}

# make_system <folder> <mmdebstrap arguments...>
make_system()
{
	local codename sources root=$1
	shift
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	if [[ $suite && $suite != "$codename" ]]; then
		codename=$suite
		sources="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(debian_uri) $suite main"
	else
		sources=$(apt_sources "$codename") || return
	fi

	echo "== a minimal $codename"
	mmdebstrap --quiet --variant=minbase "$@" "$codename" "$root" - <<<"$sources"
	rm -rf "$root/dev/infiniband"
}

# in_system <folder> <folder in it to work in> <command...>: its own processes and mounts, which end with it; a minimal
# /dev, and no terminal
in_system()
{
	# shellcheck disable=SC2016 # expanded inside
	unshare --mount --pid --ipc --fork --kill-child bash -euc '
		root=$1
		shift
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount -t tmpfs -o mode=0755 dev "$root/dev"
		mkdir -m 1777 "$root/dev/shm"
		for node in null zero full random urandom tty; do
			: >"$root/dev/$node"
			mount --bind "/dev/$node" "$root/dev/$node"
		done
		ln -s /proc/self/fd "$root/dev/fd"
		cp -L /etc/resolv.conf "$root/etc/resolv.conf"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot "$root" \
			bash -euc "cd \"\$0\" && exec \"\$@\"" "$@"
	' bash "$@" </dev/null
}
