# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# CMake code shared by the examples. As part of the project they use the library that is being built. An example built
# alone,
#	cmake -S examples/05-flush-to-persistent -B build
# uses the installed library, found by its CMake package or by pkg-config. ctest then runs its tests.

include_guard(GLOBAL)

find_package(PkgConfig REQUIRED)
enable_testing()
set(EXAMPLES_COMMON_DIR ${CMAKE_CURRENT_LIST_DIR} CACHE INTERNAL "folder of what the examples share")

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
	list(TRANSFORM EXAMPLE_COMMON PREPEND ${EXAMPLES_COMMON_DIR}/)
	set(target ${EXAMPLE_PREFIX}-${program})
	add_executable(${target} ${EXAMPLE_SOURCES} ${EXAMPLE_COMMON})
	set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program})
	target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
	target_compile_options(${target} PRIVATE -UNDEBUG) # assertions stay on in every build type
	target_include_directories(${target} PRIVATE ${EXAMPLES_COMMON_DIR})
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

# add_example_test([NAME <suffix>] [IPV6] [SERVER <arguments>] [CLIENT <arguments>] [SERVER_SAYS <lines>]
#	[CLIENT_SAYS <lines>] [SCRIPT <file> [<arguments>]])
# a test of ctest, example-<folder>[-<suffix>]: server and client run once, with these arguments after address and port, and
# print exactly these lines; or the script runs them. IPV6: the same over ::1. common/run-example has the rest.
# add_example_test(MISSING <what the build lacked>): it is skipped, and says why
function(add_example_test)
	cmake_parse_arguments(TEST "IPV6" "NAME;MISSING" "SERVER;CLIENT;SERVER_SAYS;CLIENT_SAYS;SCRIPT" ${ARGN})
	get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
	set(name example-${name})
	if(TEST_NAME)
		string(APPEND name -${TEST_NAME})
	endif()
	if(TEST_MISSING)
		add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${TEST_MISSING}")
		set_tests_properties(${name} PROPERTIES LABELS integration SKIP_REGULAR_EXPRESSION "^SKIPPED")
		return()
	endif()
	set(arguments ${CMAKE_CURRENT_BINARY_DIR})
	foreach(kind SERVER CLIENT SERVER_SAYS CLIENT_SAYS)
		string(TOLOWER --${kind} option)
		string(REPLACE _ - option ${option})
		foreach(value IN LISTS TEST_${kind})
			list(APPEND arguments ${option} "${value}")
		endforeach()
	endforeach()
	if(TEST_SCRIPT)
		list(POP_FRONT TEST_SCRIPT script)
		list(APPEND arguments --script ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${TEST_SCRIPT})
	endif()

	set(names ${name})
	if(TEST_IPV6)
		list(APPEND names ${name}-ipv6)
	endif()
	foreach(test ${names})
		add_test(NAME ${test} COMMAND ${EXAMPLES_COMMON_DIR}/run-example ${arguments}
			WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
		set_tests_properties(${test} PROPERTIES LABELS integration TIMEOUT 400 SKIP_RETURN_CODE 77)
	endforeach()
	if(TEST_IPV6)
		set_tests_properties(${name}-ipv6 PROPERTIES ENVIRONMENT EXAMPLE_ADDRESS=::1)
	endif()
endfunction()
