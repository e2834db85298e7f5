# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# aarch64-linux-gnu.cmake -- a toolchain file: builds for arm64 on another machine, with Debian's cross compiler
#
#	utils/arm64-sysroot build/arm64-sysroot
#	cmake -S . -B build/arm64 -DDEVELOPER=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DARM64_SYSROOT=build/arm64-sysroot
#
# ctest runs the programs by qemu-aarch64, if that is installed.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

# compiler checks read this file too, in a project of their own
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ARM64_SYSROOT)
if(NOT ARM64_SYSROOT)
	message(FATAL_ERROR "ARM64_SYSROOT is not set: name the folder that utils/arm64-sysroot has made")
endif()
get_filename_component(ARM64_SYSROOT ${ARM64_SYSROOT} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
set(CMAKE_SYSROOT ${ARM64_SYSROOT})

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
	set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64} -L ${CMAKE_SYSROOT})
endif()
