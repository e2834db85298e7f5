# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# how C is compiled: language, warnings, sanitizers; Hardening.cmake has the rest

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

add_compile_definitions(_GNU_SOURCE) # secure_getenv, accept4, pthread_setname_np

# assertions guard the memory of other processes: no build type switches them off
foreach(type DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
	string(REGEX REPLACE "[-/]D *NDEBUG" "" CMAKE_C_FLAGS_${type} "${CMAKE_C_FLAGS_${type}}")
endforeach()
add_compile_options(-UNDEBUG)

if(DEVELOPER_WARNINGS)
	add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
		-Wpointer-arith -Wformat=2 -Wdate-time -Werror)
endif()

# Two builds of the same sources give the same files, wherever they are: no paths of this machine in code, debugging
# information or search paths of libraries (utils/check-packages compares two builds). gdb finds the sources if it is
# started in their folder. Debug builds and those for the sanitizers have full paths, for tools that open the files.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
include(CheckCCompilerFlag)
check_c_compiler_flag(-ffile-prefix-map=/from=to HAVE_FILE_PREFIX_MAP)
if(HAVE_FILE_PREFIX_MAP AND NOT SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
	# the last one that fits counts, and the build may be a folder of the sources
	add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
endif()

if(SANITIZE)
	string(REPLACE ";" "," sanitizers "${SANITIZE}")
	add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
	if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
		# sanitizers tell files and lines; what only a debugger asks for takes half of the time of a build
		add_compile_options(-O1 -g1)
	endif()
	add_link_options(-fsanitize=${sanitizers})
	check_c_compiler_flag(-Wtsan HAVE_WTSAN)
	if(sanitizers MATCHES "thread" AND HAVE_WTSAN)
		# gcc warns that this sanitizer knows no fences; those here are for other processes that look at the memory
		add_compile_options(-Wno-tsan)
	endif()
	if(sanitizers MATCHES "undefined")
		add_compile_options(-fno-sanitize-recover=undefined)
	endif()
endif()
