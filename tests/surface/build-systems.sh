#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# build-systems.sh <project> <build folder>
#
# A user's program by the other ways of doc/install.md: as a part of a CMake project, by FetchContent and by
# add_subdirectory, which build the library alone; by Meson; and in C++.

set -euo pipefail
project=$1 tree=$2
root=$(mktemp -d)
trap 'rm -r "$root"' EXIT
export RPMA_DEVICE=soft

quietly()
{
	"$@" >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
}

# as_part <name> <cmake lines> <option...>: the build has the library, and nothing that only this project needs
as_part()
{
	local name=$1 lines=$2 objects
	shift 2
	mkdir "$root/$name"
	cp "$project/tests/surface/consumer/main.c" "$root/$name/"
	{
		echo 'cmake_minimum_required(VERSION 3.18)'
		echo 'project(program C)'
		echo 'add_executable(program main.c)'
		echo "$lines"
	} >"$root/$name/CMakeLists.txt"
	quietly cmake -G 'Unix Makefiles' -S "$root/$name" -B "$root/$name/build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@"
	if grep -E '"file": ".*/(tests|examples|apps|tools|benchmarks)/' "$root/$name/build/compile_commands.json"; then
		echo "$name: a part of another project builds these too"
		exit 1
	fi
	objects=$(grep -c '"file": ".*/src/' "$root/$name/build/compile_commands.json")
	((objects > 0)) || { echo "$name: the library is not built"; exit 1; }
	echo "$name: $objects objects of the library"
}

# shellcheck disable=SC2016 # backticks of Markdown
fetch=$(sed -n '/^```cmake$/,/^```$/{/^```/!p}' "$project/doc/install.md")
[[ $fetch == *FetchContent_Declare\(librpma\ * ]] || { echo 'doc/install.md has no example of FetchContent'; exit 1; }
as_part fetch-content "$fetch" -DFETCHCONTENT_SOURCE_DIR_LIBRPMA="$project"
as_part add-subdirectory "add_subdirectory($project librpma)
	target_link_libraries(program PRIVATE librpma::rpma_static)"

DESTDIR=$root/installed quietly cmake --install "$tree"
pc=$(find "$root/installed" -name librpma.pc)
export PKG_CONFIG_PATH=${pc%/*}
library=$(dirname "${pc%/*}")

cat >"$root/program.cc" <<-END
	#include <librpma.h>
	int main()
	{
		return rpma_err_2str(RPMA_E_INVAL) == nullptr;
	}
END
read -ra flags < <(pkg-config --cflags --libs librpma)
quietly g++ -Wall -Wextra -Wpedantic -Werror -o "$root/program" "$root/program.cc" "${flags[@]}"
quietly env LD_LIBRARY_PATH="$library" "$root/program"
echo 'C++: built and run'

if ! command -v meson >/dev/null; then
	echo 'meson is not installed: not tried'
	exit
fi
mkdir "$root/meson"
cp "$project/tests/surface/consumer/main.c" "$root/meson/"
cat >"$root/meson/meson.build" <<-END
	project('program', 'c')
	executable('program', 'main.c', dependencies: dependency('librpma'))
END
quietly meson setup "$root/meson/build" "$root/meson"
quietly meson compile -C "$root/meson/build"
quietly env LD_LIBRARY_PATH="$library" "$root/meson/build/program"
echo 'Meson: built and run'
