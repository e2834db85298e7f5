# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# add_gpspm(<prefix> <file of examples/common that waits for completions>): server and client, if protobuf-c is
# installed

set(GPSPM_DIR ${CMAKE_CURRENT_LIST_DIR})

function(add_gpspm prefix completions)
	example_needs(EXAMPLE_LIBPMEM2 libpmem2 libpmem2-dev)
	pkg_check_modules(EXAMPLE_PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
	find_program(PROTOC_C NAMES protoc-c)
	if(NOT EXAMPLE_PROTOBUF_C_FOUND OR NOT PROTOC_C)
		message(STATUS "${prefix} is left out: libprotobuf-c-dev and protobuf-c-compiler are not installed")
		add_example_test(MISSING "it was built without protobuf-c")
		return()
	endif()

	set(generated ${CMAKE_CURRENT_BINARY_DIR}/gpspm.pb-c.c ${CMAKE_CURRENT_BINARY_DIR}/gpspm.pb-c.h)
	add_custom_command(OUTPUT ${generated}
		COMMAND ${PROTOC_C} --c_out=${CMAKE_CURRENT_BINARY_DIR} --proto_path=${GPSPM_DIR} gpspm.proto
		DEPENDS ${GPSPM_DIR}/gpspm.proto VERBATIM)
	# warnings about the compiler's output are not our concern
	add_library(${prefix}-messages STATIC ${generated})
	target_compile_options(${prefix}-messages PRIVATE -w)
	target_include_directories(${prefix}-messages SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
	target_link_libraries(${prefix}-messages PUBLIC PkgConfig::EXAMPLE_PROTOBUF_C)

	foreach(program server client)
		add_example(${program}
			PREFIX ${prefix}
			SOURCES ${GPSPM_DIR}/${program}.c ${GPSPM_DIR}/messages.c
			COMMON ${completions} connection.c exchange.c greeting.c numbers.c persistent.c text.c
			LIBS ${prefix}-messages PkgConfig::EXAMPLE_LIBPMEM2)
	endforeach()
	add_example_test(SCRIPT ../common/test_greeting.sh gpspm)
endfunction()
