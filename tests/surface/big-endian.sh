#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# big-endian.sh <project> <cmake>
#
# CMake refuses a build for a big-endian processor, and names the reason. The compiler is clang, which knows the byte
# order of s390x without any library of it. As a control, riscv64 passes the check, and fails at a later one.

set -euo pipefail
project=$(realpath "$1")
cmake=$2
if ! command -v clang >/dev/null; then
	echo 'SKIPPED: clang is not installed'
	exit 77
fi
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

# configure <processor>: nothing can be linked, and later checks find no library
configure()
{
	cat >"$dir/$1.cmake" <<-END
		set(CMAKE_SYSTEM_NAME Linux)
		set(CMAKE_SYSTEM_PROCESSOR $1)
		set(CMAKE_C_COMPILER clang)
		set(CMAKE_C_COMPILER_TARGET $1-linux-gnu)
		set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
	END
	"$cmake" -S "$project" -B "$dir/$1" -DCMAKE_TOOLCHAIN_FILE="$dir/$1.cmake" >"$dir/$1.log" 2>&1
}

# CMake wraps its messages
refused()
{
	tr -s ' \n' '  ' <"$dir/$1.log" | grep -q "(s390x) is big-endian. librpma supports little-endian processors only"
}

if configure s390x || ! refused s390x; then
	cat "$dir/s390x.log"
	echo 'FAILED: s390x is not refused, or not for its byte order'
	exit 1
fi
configure riscv64 || true
if grep -q 'big-endian' "$dir/riscv64.log" || ! grep -qi 'threads' "$dir/riscv64.log"; then
	cat "$dir/riscv64.log"
	echo 'FAILED: the control, which is little-endian, did not pass the check'
	exit 1
fi
