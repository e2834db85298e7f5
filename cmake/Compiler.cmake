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
		-Wpointer-arith -Wformat=2 -Werror)
endif()

if(SANITIZE)
	string(REPLACE ";" "," sanitizers "${SANITIZE}")
	add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
	add_link_options(-fsanitize=${sanitizers})
	if(sanitizers MATCHES "undefined")
		add_compile_options(-fno-sanitize-recover=undefined)
	endif()
endif()
