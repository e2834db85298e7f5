# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# removes what the last "install" of this build directory put in place, and the folders that are empty then

cmake_minimum_required(VERSION 3.18)

# the folders of the file system hierarchy, which stay also if they are empty
set(kept / /etc /opt /home /root /tmp /var /usr /usr/local)
foreach(prefix /usr /usr/local)
	foreach(folder bin etc games include lib lib64 libexec sbin share share/man src)
		list(APPEND kept ${prefix}/${folder})
	endforeach()
endforeach()

if(NOT EXISTS ${MANIFEST})
	message(FATAL_ERROR "${MANIFEST} is missing: nothing was installed from this build directory")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file ${files})
	set(path "$ENV{DESTDIR}${file}")
	if(EXISTS "${path}" OR IS_SYMLINK "${path}")
		message(STATUS "Removing: ${path}")
		file(REMOVE "${path}")
	endif()
	# rmdir refuses a folder that has anything in it
	get_filename_component(folder "${file}" DIRECTORY)
	while(NOT folder IN_LIST kept)
		execute_process(COMMAND rmdir "$ENV{DESTDIR}${folder}" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
		if(NOT status EQUAL 0)
			break()
		endif()
		get_filename_component(folder "${folder}" DIRECTORY)
	endwhile()
endforeach()
