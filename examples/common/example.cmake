# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# CMake code shared by the examples. As part of the project they use the library that is being built. An example built
# alone,
#	cmake -S examples/05-flush-to-persistent -B build
# uses the installed library, found by its CMake package or by pkg-config.

include_guard(GLOBAL)

find_package(PkgConfig REQUIRED)

# example_needs(<prefix> <module of pkg-config> <package of Debian>): the target PkgConfig::<prefix>
function(example_needs prefix module package)
	pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
	if(NOT ${prefix}_FOUND)
		message(FATAL_ERROR "The example ${PROJECT_NAME} needs ${module}, which pkg-config does not find. Debian and "
			"Ubuntu have it in ${package}.")
	endif()
endfunction()

if(NOT TARGET librpma::rpma AND TARGET rpma)
	add_library(librpma::rpma ALIAS rpma)
endif()
if(NOT TARGET librpma::rpma)
	find_package(librpma QUIET)
endif()
if(NOT TARGET librpma::rpma)
	pkg_check_modules(LIBRPMA QUIET IMPORTED_TARGET GLOBAL librpma)
	if(NOT LIBRPMA_FOUND)
		message(FATAL_ERROR "librpma is not installed, or in a place that pkg-config does not know (PKG_CONFIG_PATH). "
			"How to install it: README.md of the sources.")
	endif()
	add_library(librpma::rpma ALIAS PkgConfig::LIBRPMA)
endif()
example_needs(EXAMPLE_LIBIBVERBS libibverbs libibverbs-dev)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# add_example(<program> PREFIX <prefix> SOURCES <files> [COMMON <files of examples/common>] [LIBS <targets>])
# the target is <prefix>-<program>, the file in the build directory is <program>
function(add_example program)
	cmake_parse_arguments(EXAMPLE "" "PREFIX" "SOURCES;COMMON;LIBS" ${ARGN})
	list(TRANSFORM EXAMPLE_COMMON PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
	set(target ${EXAMPLE_PREFIX}-${program})
	add_executable(${target} ${EXAMPLE_SOURCES} ${EXAMPLE_COMMON})
	set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program})
	target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
	target_compile_options(${target} PRIVATE -UNDEBUG) # assertions stay on in every build type
	target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
	target_link_libraries(${target} PRIVATE librpma::rpma PkgConfig::EXAMPLE_LIBIBVERBS ${EXAMPLE_LIBS})
endfunction()

# add_example_pair(<prefix> [FROM <folder of client.c and server.c>] [COMMON <files>] [LIBS <targets>])
# the two programs of most examples, server and client
function(add_example_pair prefix)
	cmake_parse_arguments(PAIR "" "FROM" "COMMON;LIBS" ${ARGN})
	if(NOT PAIR_FROM)
		set(PAIR_FROM ${CMAKE_CURRENT_SOURCE_DIR})
	endif()
	foreach(program server client)
		add_example(${program}
			PREFIX ${prefix}
			SOURCES ${PAIR_FROM}/${program}.c
			COMMON ${PAIR_COMMON}
			LIBS ${PAIR_LIBS})
	endforeach()
endfunction()
