#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# consumer.sh <build folder> <install prefix of the build>
#
# Installs into a temporary root, and builds and runs a user's program there: by find_package and by pkg-config, with
# the shared and with the static library, by the commands of doc/install.md; and by the variables LIBRPMA_*, as projects of
# the original do.

set -euo pipefail
tree=$1 prefix=$2
source=$(dirname "$(realpath "$0")")/consumer
install_md=$source/../../../doc/install.md
root=$(mktemp -d)
trap 'rm -r "$root"' EXIT
export RPMA_DEVICE=soft

DESTDIR=$root cmake --install "$tree" >/dev/null
pc=$(find "$root" -name librpma.pc)
libdir=$(dirname "$(dirname "$pc")")
run()
{
	echo "$1:"
	LD_LIBRARY_PATH=$libdir "$root/$1"
}

# build <project> <folder> [<option>...]
build()
{
	local project=$1 folder=$2
	shift 2
	if ! cmake -S "$project" -B "$root/$folder" -DCMAKE_PREFIX_PATH="$root$prefix" "$@" >"$root/log" 2>&1 ||
		! cmake --build "$root/$folder" >>"$root/log" 2>&1; then
		cat "$root/log"
		exit 1
	fi
}
build "$source" build
run build/consumer-shared
run build/consumer-static

export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
for how in librpma LIBRPMA pkg-config; do
	build "$source/variables" "variables-$how" -DHOW=$how
	run "variables-$how/consumer-variables"
done
unset PKG_CONFIG_SYSROOT_DIR # librpma.pc finds its own place

# as_documented <words> <program>: the command of doc/install.md that has these words
as_documented()
{
	local command
	command=$(sed -n "s/.*\`\(cc [^\`]*$1[^\`]*\)\`.*/\1/p" "$install_md")
	[[ $command ]] || { echo "no command of doc/install.md has: $1"; exit 1; }
	echo "$command"
	(cd "$root" && cp "$source/main.c" program.c && eval "$command" 2>"$root/log" && mv a.out "$2") ||
		{ cat "$root/log"; exit 1; }
}
# shellcheck disable=SC2016 # what the document says
as_documented 'program.c $(pkg-config --cflags --libs librpma)' pc-shared
run pc-shared
as_documented '-l:librpma.a' pc-static
if ldd "$root/pc-static" | grep librpma; then
	echo "linked to the shared library"
	exit 1
fi
run pc-static
# Debian has no static library of ISA-L, nor of what libpmem2 needs
if ! pkg-config --static --libs librpma | grep -qE -- '-l(isal|pmem2)\b'; then
	as_documented '-static program.c' pc-all-static
	if readelf -d "$root/pc-all-static" | grep NEEDED; then
		echo "not wholly static"
		exit 1
	fi
	run pc-all-static
fi

# uninstall removes everything that was installed, and the folders that are empty then, but not those that a system has
mkdir -p "$root$prefix"/{bin,include,lib,share/man}
DESTDIR=$root cmake --build "$tree" --target uninstall >/dev/null
left=$(cd "$root$prefix" && find . -mindepth 1 ! -path ./bin ! -path ./include ! -path ./lib ! -path ./share ! -path ./share/man)
[[ -z $left ]] || { echo "left after uninstall: $left"; exit 1; }
