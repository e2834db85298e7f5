# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# run by CPack before it packs what was installed into its folders, one for each package

if(NOT CPACK_GENERATOR STREQUAL "DEB")
	return()
endif()

find_program(GZIP gzip REQUIRED)

# compress <files...>: the same bytes each time
function(compress)
	if(ARGN)
		execute_process(COMMAND ${GZIP} -9 -n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
	endif()
endfunction()

file(GLOB packages LIST_DIRECTORIES ON ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(package ${packages})
	if(NOT IS_DIRECTORY ${package}/usr)
		continue()
	endif()
	get_filename_component(name ${package} NAME)
	set(doc ${package}/usr/share/doc/${name})
	file(MAKE_DIRECTORY ${doc})
	file(COPY_FILE ${CPACK_LIBRPMA_CHANGELOG_DEBIAN} ${doc}/changelog.Debian)
	file(REMOVE ${doc}/CHANGELOG.md)
	file(COPY_FILE ${CPACK_LIBRPMA_SOURCE_DIR}/CHANGELOG.md ${doc}/changelog)
	file(READ ${CPACK_LIBRPMA_SOURCE_DIR}/LICENSE license)
	string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
	string(REGEX REPLACE "\n$" "" license "${license}")
	string(REGEX REPLACE "^Copyright[^\n]*\n\\.?\n?" "" license "${license}")
	string(REPLACE "\n" "\n " license "${license}")
	file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: librpma

Files: *
Copyright: the librpma authors
License: BSD-3-clause

License: BSD-3-clause
 ${license}
")
	file(CHMOD ${doc}/copyright ${doc}/changelog ${doc}/changelog.Debian
		PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
	file(GLOB_RECURSE pages ${package}/usr/share/man/*)
	compress(${doc}/changelog ${doc}/changelog.Debian ${pages})
endforeach()
