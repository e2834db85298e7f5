# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# packages by CPack, as Debian splits them
#
#	cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr && cmake --build build
#	cd build && cpack -G DEB		(or RPM, TGZ)
#
# utils/check-packages does that, and tries what comes out.
#
#	component		.deb		.rpm
#	runtime			librpma0	librpma
#	common			librpma-common	librpma-common	manuals that users of each of the others read
#	devel, Unspecified	librpma-dev	librpma-devel
#	doc			librpma-doc	librpma-doc
#	utils			librpma-utils	librpma-utils
#	softrdma		libsoftrdma0	libsoftrdma
#	softrdma_run		softrdma-run	softrdma-run
#	nbdkit			nbdkit-plugin-rpma	nbdkit-rpma-plugin
#
# A component that installs nothing makes no package. One that is not in the table is an error. debian/rules and
# packaging/librpma.spec read the table from packages.list in the build folder: "component .deb .rpm" in each line.

# a part of another project is packaged by that one
if(NOT IN_TREE)
	return()
endif()

# as debian/control says
file(STRINGS ${PROJECT_SOURCE_DIR}/debian/control maintainer REGEX "^Maintainer: " LIMIT_COUNT 1)
string(REPLACE "Maintainer: " "" maintainer "${maintainer}")
set(LIBRPMA_PACKAGER "${maintainer}" CACHE STRING "who makes the packages: name <address>")
set(LIBRPMA_PACKAGE_REVISION 1 CACHE STRING "which package of this version it is")
# so that a package which Debian makes itself, whose revision is 1, takes the place of this one
set(deb_revision 0upstream${LIBRPMA_PACKAGE_REVISION})

# the documentation as it lies in the repository
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/librpma-doc)
file(GLOB documents CONFIGURE_DEPENDS *.md)
install(FILES ${documents} LICENSE DESTINATION ${doc_dir} COMPONENT doc EXCLUDE_FROM_ALL)
install(DIRECTORY doc/ DESTINATION ${doc_dir}/doc COMPONENT doc EXCLUDE_FROM_ALL FILES_MATCHING PATTERN *.md
	PATTERN *.svg PATTERN *.png PATTERN manuals EXCLUDE PATTERN html EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/doc/messages.md DESTINATION ${doc_dir}/doc COMPONENT doc EXCLUDE_FROM_ALL OPTIONAL)
install(DIRECTORY examples apps DESTINATION ${doc_dir} COMPONENT doc EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS)

set(CPACK_PACKAGE_NAME librpma)
set(CPACK_PACKAGE_VERSION ${LIBRPMA_SORTED_VERSION})
set(CPACK_PACKAGE_VENDOR "librpma authors")
set(CPACK_PACKAGE_CONTACT ${LIBRPMA_PACKAGER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "remote persistent memory over RDMA")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
# folders of the system belong to no package
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
	OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(about "librpma reads, writes and durably flushes the memory of another machine over
RDMA (Remote Direct Memory Access), and has a software device for machines
without such hardware. It takes the place of the original librpma, whose
programs run on it unchanged.")

# package(<component> DEB <name> RPM <name> SECTION <deb section> SUMMARY <words> TEXT <sentence>)
function(package component)
	cmake_parse_arguments(P "" "DEB;RPM;SECTION;SUMMARY;TEXT" "" ${ARGN})
	string(TOUPPER ${P_DEB} group)
	string(TOUPPER ${component} upper)
	set(values
		packages_${component} "${component} ${P_DEB} ${P_RPM}"
		CPACK_COMPONENT_${upper}_GROUP ${P_DEB}
		CPACK_DEBIAN_${group}_PACKAGE_NAME ${P_DEB}
		CPACK_DEBIAN_${group}_PACKAGE_SECTION ${P_SECTION}
		CPACK_DEBIAN_${group}_DESCRIPTION "${about}\n.\n${P_TEXT}"
		CPACK_RPM_${group}_PACKAGE_NAME ${P_RPM}
		CPACK_RPM_${group}_PACKAGE_SUMMARY "remote persistent memory over RDMA (${P_SUMMARY})"
		CPACK_RPM_${group}_PACKAGE_DESCRIPTION "${about}\n\n${P_TEXT}")
	while(values)
		list(POP_FRONT values name value)
		set(${name} "${value}" PARENT_SCOPE)
	endwhile()
endfunction()

package(runtime DEB librpma0 RPM librpma SECTION libs SUMMARY "library" TEXT "This package has the shared library.")
package(common DEB librpma-common RPM librpma-common SECTION doc SUMMARY "common manuals" TEXT
	"This package has the manuals of the library and of its software device as a\nwhole: what they can do, and the variables that set them up.")
package(devel DEB librpma-dev RPM librpma-devel SECTION libdevel SUMMARY "development files" TEXT
	"This package has what is needed to build programs: header, static library,\nfiles for pkg-config and CMake, and the manuals of all functions.")
package(doc DEB librpma-doc RPM librpma-doc SECTION doc SUMMARY "documentation and examples" TEXT
	"This package has the documentation, the examples, and the sources of an\napplication: a replicated log.")
package(utils DEB librpma-utils RPM librpma-utils SECTION utils SUMMARY "tools" TEXT
	"This package has rpma-info, which shows what devices, addresses and memory of a\nmachine can do, rpma-perf, which measures how fast they are, and rpma-keeper,\nwhich lends memory to clients elsewhere.")
package(softrdma DEB libsoftrdma0 RPM libsoftrdma SECTION libs SUMMARY "software device for other programs" TEXT
	"This package has the software device as a library of its own, for programs that\nspeak to libibverbs and librdmacm. softrdma-run starts them on it.")
package(softrdma_run DEB softrdma-run RPM softrdma-run SECTION utils SUMMARY "programs without RDMA hardware" TEXT
	"This package has softrdma-run, which runs a program of libibverbs and librdmacm\non the software device.")
package(nbdkit DEB nbdkit-plugin-rpma RPM nbdkit-rpma-plugin SECTION net SUMMARY "plugin of nbdkit" TEXT
	"This package has a plugin of nbdkit, which makes a block device of memory that\nrpma-keeper lends on another machine.")
# what others install without naming a component
set(CPACK_COMPONENT_UNSPECIFIED_GROUP librpma-dev)
set(packages_Unspecified "Unspecified librpma-dev librpma-devel")

get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
set(packages_list "")
foreach(component ${CPACK_COMPONENTS_ALL})
	if(NOT packages_${component})
		message(FATAL_ERROR "cmake/packages.cmake has no package for the component ${component}")
	endif()
	string(APPEND packages_list "${packages_${component}}\n")
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/packages.list "${packages_list}")

# --- .deb ---

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${deb_revision})
set(CPACK_DEBIAN_PACKAGE_SOURCE librpma)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(deb_version "${LIBRPMA_SORTED_VERSION}-${deb_revision}")

# CPack's own would call ldconfig from maintainer scripts
file(WRITE ${PROJECT_BINARY_DIR}/deb/shlibs "librpma ${LIBRPMA_SOVERSION} librpma0 (>= ${LIBRPMA_SORTED_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/deb/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRPMA0_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/shlibs ${PROJECT_BINARY_DIR}/deb/triggers)
set(CPACK_DEBIAN_LIBRPMA0_PACKAGE_SHLIBDEPS ON)
file(WRITE ${PROJECT_BINARY_DIR}/deb/softrdma/shlibs
	"libsoftrdma ${LIBSOFTRDMA_SOVERSION} libsoftrdma0 (>= ${LIBRPMA_SORTED_VERSION})\n")
set(CPACK_DEBIAN_LIBSOFTRDMA0_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/softrdma/shlibs
	${PROJECT_BINARY_DIR}/deb/triggers)
# the static library needs what the shared one has with it
if(HAVE_PMEM2)
	set(deb_pmem_dev ", libpmem2-dev")
	set(rpm_pmem_dev ", libpmem2-devel")
endif()
if(HAVE_OPENSSL)
	set(deb_tls_dev ", libssl-dev")
	set(rpm_tls_dev ", openssl-devel")
endif()
if(HAVE_ISAL)
	set(deb_crc_dev ", libisal-dev")
	set(rpm_crc_dev ", pkgconfig(libisal)")
endif()
set(CPACK_DEBIAN_LIBRPMA-DEV_PACKAGE_DEPENDS
	"librpma0 (= ${deb_version}), libibverbs-dev, librdmacm-dev${deb_pmem_dev}${deb_tls_dev}${deb_crc_dev}")
set(CPACK_DEBIAN_LIBRPMA-DEV_PACKAGE_SUGGESTS "librpma-doc")
set(CPACK_DEBIAN_LIBRPMA-DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_LIBRPMA-COMMON_PACKAGE_ARCHITECTURE all)
# librpma(7) is in Debian's librpma-dev
set(CPACK_DEBIAN_LIBRPMA-COMMON_PACKAGE_BREAKS "librpma-dev (<< 2.0.0~)")
set(CPACK_DEBIAN_LIBRPMA-COMMON_PACKAGE_REPLACES "librpma-dev (<< 2.0.0~)")
if("common" IN_LIST CPACK_COMPONENTS_ALL)
	set(CPACK_DEBIAN_LIBRPMA0_PACKAGE_RECOMMENDS librpma-common)
	set(CPACK_DEBIAN_SOFTRDMA-RUN_PACKAGE_RECOMMENDS librpma-common)
endif()
set(CPACK_DEBIAN_SOFTRDMA-RUN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SOFTRDMA-RUN_PACKAGE_DEPENDS "libsoftrdma0 (>= ${LIBRPMA_SORTED_VERSION})")
# where programs are packed dpkg-shlibdeps looks for the library, on a machine that may have none, or that of the original:
# then it asks for a version of that, which is too old
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)
set(CPACK_DEBIAN_LIBRPMA-UTILS_PACKAGE_DEPENDS "librpma0 (= ${deb_version})")
set(CPACK_DEBIAN_LIBRPMA-UTILS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBSOFTRDMA0_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_NBDKIT-PLUGIN-RPMA_PACKAGE_DEPENDS "librpma0 (= ${deb_version}), nbdkit (>= 1.28)")
set(CPACK_DEBIAN_NBDKIT-PLUGIN-RPMA_PACKAGE_SUGGESTS "librpma-utils")
set(CPACK_DEBIAN_NBDKIT-PLUGIN-RPMA_PACKAGE_SHLIBDEPS ON)

# copyright, changelog, compression, stripping: what packages want and an installation by "make install" does not have
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packed-files.cmake)
# of the build, or SOURCE_DATE_EPOCH
string(TIMESTAMP LIBRPMA_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${PROJECT_SOURCE_DIR}/cmake/changelog.Debian.in ${PROJECT_BINARY_DIR}/changelog.Debian @ONLY)
set(CPACK_LIBRPMA_CHANGELOG_DEBIAN ${PROJECT_BINARY_DIR}/changelog.Debian)
set(CPACK_LIBRPMA_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_LIBRPMA_STRIP ${CMAKE_STRIP})

# --- .rpm ---

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_GROUP "System Environment/Libraries")
set(CPACK_RPM_PACKAGE_RELEASE ${LIBRPMA_PACKAGE_REVISION})
set(CPACK_RPM_PACKAGE_AUTOREQ ON)
set(CPACK_RPM_PACKAGE_AUTOPROV ON)
set(CPACK_RPM_LIBRPMA0_POST_INSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/ldconfig.sh)
set(CPACK_RPM_LIBRPMA0_POST_UNINSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/ldconfig.sh)
set(CPACK_RPM_LIBSOFTRDMA0_POST_INSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/ldconfig.sh)
set(CPACK_RPM_LIBSOFTRDMA0_POST_UNINSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/ldconfig.sh)
set(CPACK_RPM_LIBRPMA-DEV_PACKAGE_REQUIRES
	"librpma = ${LIBRPMA_SORTED_VERSION}-${LIBRPMA_PACKAGE_REVISION}, rdma-core-devel${rpm_pmem_dev}${rpm_tls_dev}${rpm_crc_dev}")
set(CPACK_RPM_LIBRPMA-UTILS_PACKAGE_REQUIRES "librpma = ${LIBRPMA_SORTED_VERSION}-${LIBRPMA_PACKAGE_REVISION}")
set(CPACK_RPM_NBDKIT-PLUGIN-RPMA_PACKAGE_REQUIRES "librpma = ${LIBRPMA_SORTED_VERSION}-${LIBRPMA_PACKAGE_REVISION}, nbdkit-server")
set(CPACK_RPM_LIBRPMA-DOC_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_LIBRPMA-COMMON_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_SOFTRDMA-RUN_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_SOFTRDMA-RUN_PACKAGE_REQUIRES "libsoftrdma >= ${LIBRPMA_SORTED_VERSION}")
# folders that packages of the system own
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
	/usr/share/doc /usr/share/man /usr/share/man/man1 /usr/share/man/man3 /usr/share/man/man7
	/usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr/${CMAKE_INSTALL_LIBDIR}/cmake)

include(CPack)
