# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# run by CPack before it packs what was installed into its folders, one for each package

file(GLOB packages LIST_DIRECTORIES ON ${CPACK_TEMPORARY_DIRECTORY}/*)

# CPack strips programs and shared libraries only
if(CPACK_LIBRPMA_STRIP)
	foreach(package ${packages})
		file(GLOB_RECURSE archives ${package}/usr/*.a)
		foreach(archive ${archives})
			execute_process(COMMAND ${CPACK_LIBRPMA_STRIP} --strip-debug --enable-deterministic-archives ${archive}
				COMMAND_ERROR_IS_FATAL ANY)
		endforeach()
	endforeach()
endif()

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
	file(COPY_FILE ${CPACK_LIBRPMA_SOURCE_DIR}/debian/copyright ${doc}/copyright)
	file(CHMOD ${doc}/copyright ${doc}/changelog ${doc}/changelog.Debian
		PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
	file(GLOB_RECURSE pages ${package}/usr/share/man/*)
	compress(${doc}/changelog ${doc}/changelog.Debian ${pages})
	# the text that README.md refers to
	if(EXISTS ${doc}/LICENSE)
		file(REMOVE ${doc}/LICENSE)
		file(CREATE_LINK copyright ${doc}/LICENSE SYMBOLIC)
	endif()
	# the time of the sources, as dpkg-deb does it; not that of this run
	if(DEFINED ENV{SOURCE_DATE_EPOCH})
		execute_process(COMMAND find ${package} -newermt @$ENV{SOURCE_DATE_EPOCH}
			-exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
			COMMAND_ERROR_IS_FATAL ANY)
	endif()
endforeach()
