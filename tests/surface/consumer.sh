#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# consumer.sh <build folder> <install prefix of the build>
#
# Installs into a temporary root, and builds and runs a user's program there: by find_package and by pkg-config, with
# the shared and with the static library; and by the variables LIBRPMA_*, as projects of the original do.

set -euo pipefail
tree=$1 prefix=$2
source=$(dirname "$(realpath "$0")")/consumer
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
read -ra shared < <(pkg-config --cflags --libs librpma)
gcc -o "$root/pc-shared" "$source/main.c" "${shared[@]}"
run pc-shared
# the archive is linked by its name, because all other libraries stay shared
read -ra cflags < <(pkg-config --cflags librpma)
read -ra static < <(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs --static librpma | sed 's/-lrpma\b/-l:librpma.a/')
gcc -o "$root/pc-static" "$source/main.c" "${cflags[@]}" "-L$libdir" "${static[@]}"
if ldd "$root/pc-static" | grep librpma; then
	echo "linked to the shared library"
	exit 1
fi
run pc-static

# uninstall removes everything that was installed
DESTDIR=$root cmake --build "$tree" --target uninstall >/dev/null
left=$(find "$root$prefix" ! -type d)
[[ -z $left ]] || { echo "left after uninstall: $left"; exit 1; }
