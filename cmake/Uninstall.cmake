# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# removes what the last "install" of this build directory put in place

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
endforeach()
