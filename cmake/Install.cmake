# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# header, libraries, librpma.pc, the CMake package, and the way back
#
# Components: runtime, common, devel, doc, utils, softrdma, softrdma_run, nbdkit; others may follow. packages.cmake makes
# packages of them.

include(CMakePackageConfigHelpers)

set(LIBRPMA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/librpma)

install(FILES ${PROJECT_SOURCE_DIR}/include/librpma.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	COMPONENT devel)
install(TARGETS rpma rpma_static EXPORT librpma-targets
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT devel
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel
	INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# only ever loaded by name, so there is nothing to link with
install(TARGETS softrdma LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT softrdma NAMELINK_SKIP)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/utils/softrdma-run DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT softrdma_run)
install(EXPORT librpma-targets NAMESPACE librpma:: DESTINATION ${LIBRPMA_CMAKE_DIR}
	COMPONENT devel)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/librpma-config.cmake.in
	${PROJECT_BINARY_DIR}/librpma-config.cmake INSTALL_DESTINATION ${LIBRPMA_CMAKE_DIR}
	PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/librpma-config-version.cmake
	COMPATIBILITY AnyNewerVersion)
install(FILES ${PROJECT_BINARY_DIR}/librpma-config.cmake ${PROJECT_BINARY_DIR}/librpma-config-version.cmake
	DESTINATION ${LIBRPMA_CMAKE_DIR} COMPONENT devel)

# relative to where librpma.pc lies, so that "cmake --install --prefix" is right too; absolute where asked for so
set(LIBRPMA_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
set(LIBRPMA_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
set(LIBRPMA_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} AND NOT IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
	file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
	string(REGEX REPLACE "/$" "" LIBRPMA_PC_PREFIX "\${pcfiledir}/${up}")
	set(LIBRPMA_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
	set(LIBRPMA_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# What librpma.a needs, by name. Requires.private would also ask for what these libraries need to be linked statically
# (zstd, for OpenSSL of Debian 13), and that is not installed with them.
set(static_libs)
foreach(dependency PMEM2:LIBPMEM2 OPENSSL:OPENSSL ISAL:ISAL)
	string(REPLACE ":" ";" dependency ${dependency})
	list(GET dependency 0 have)
	list(GET dependency 1 prefix)
	if(HAVE_${have})
		list(APPEND static_libs ${${prefix}_LIBRARIES})
	endif()
endforeach()
list(TRANSFORM static_libs PREPEND -l)
list(JOIN static_libs " " LIBRPMA_PC_STATIC_LIBS)
configure_file(${PROJECT_SOURCE_DIR}/cmake/librpma.pc.in ${PROJECT_BINARY_DIR}/librpma.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/librpma.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
	COMPONENT devel)

if(IN_TREE)
	add_custom_target(uninstall
		COMMAND ${CMAKE_COMMAND} -D MANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
			-P ${PROJECT_SOURCE_DIR}/cmake/Uninstall.cmake
		VERBATIM)
endif()
