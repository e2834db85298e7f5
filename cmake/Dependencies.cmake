# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# what the library stands on, and what the verbs headers of this machine have

include(CheckCSourceCompiles)
include(CheckIncludeFile)
include(CheckSymbolExists)
include(CMakePushCheckState)

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# rdma-core numbers its libraries 1.<abi>.<release>: 44 is Debian 12's
pkg_check_modules(LIBIBVERBS IMPORTED_TARGET libibverbs>=1.14.44)
pkg_check_modules(LIBRDMACM IMPORTED_TARGET librdmacm>=1.3.44)
if(NOT LIBIBVERBS_FOUND OR NOT LIBRDMACM_FOUND)
	message(FATAL_ERROR "A library is missing, or too old (see above). On Debian or Ubuntu:\n"
		"  apt-get install libibverbs-dev librdmacm-dev\n"
		"elsewhere: rdma-core 44 or later, with what is needed to build with it.")
endif()

# Writes back the processor's caches, for mappings with MAP_SYNC and DAX devices. A build loses that only by an explicit
# choice, because such memory then cannot be made durable.
option(WITH_PMEM "durability of MAP_SYNC mappings and DAX devices, with libpmem2" ON)
set(HAVE_PMEM2 OFF)
set(PMEM_LIBS)
if(WITH_PMEM)
	pkg_check_modules(LIBPMEM2 IMPORTED_TARGET libpmem2)
	if(NOT LIBPMEM2_FOUND)
		message(FATAL_ERROR "libpmem2 is missing. On Debian or Ubuntu:\n"
			"  apt-get install libpmem2-dev\n"
			"Without it: -DWITH_PMEM=OFF. Then mappings with MAP_SYNC and DAX devices are refused for persistence.")
	endif()
	set(HAVE_PMEM2 ON)
	set(PMEM_LIBS PkgConfig::LIBPMEM2)
endif()

# encryption and authentication of the software device; without it whoever asks for these is refused
option(WITH_TLS "TLS of the software device, with OpenSSL" ON)
set(HAVE_OPENSSL OFF)
set(TLS_LIBS)
if(WITH_TLS)
	pkg_check_modules(OPENSSL IMPORTED_TARGET libssl>=3.0 libcrypto>=3.0)
	if(OPENSSL_FOUND)
		set(HAVE_OPENSSL ON)
		set(TLS_LIBS PkgConfig::OPENSSL)
	else()
		message(STATUS "no OpenSSL 3 (libssl-dev): the software device does without TLS")
	endif()
endif()

# check sums of the software device; without it they are computed without the processor's instructions
option(WITH_ISAL "check sums of the software device by ISA-L" ON)
set(HAVE_ISAL OFF)
set(CRC_LIBS)
if(WITH_ISAL)
	pkg_check_modules(ISAL IMPORTED_TARGET libisal>=2.29)
	if(ISAL_FOUND)
		set(HAVE_ISAL ON)
		set(CRC_LIBS PkgConfig::ISAL)
	else()
		message(STATUS "no ISA-L (libisal-dev): the software device computes check sums slowly")
	endif()
endif()

# probes for tracers: only a header, which adds nothing that runs
option(WITH_USDT "probes for bpftrace and other tracers, by sys/sdt.h" ON)
set(HAVE_SDT OFF)
if(WITH_USDT)
	check_include_file(sys/sdt.h HAVE_SYS_SDT_H)
	if(HAVE_SYS_SDT_H)
		set(HAVE_SDT ON)
	else()
		message(STATUS "no sys/sdt.h (systemtap-sdt-dev): no probes for tracers")
	endif()
endif()

cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::LIBIBVERBS)
check_symbol_exists(ibv_advise_mr infiniband/verbs.h HAVE_IBV_ADVISE_MR)
check_symbol_exists(ibv_wr_atomic_write infiniband/verbs.h HAVE_IBV_WR_ATOMIC_WRITE)
check_symbol_exists(ibv_wr_flush infiniband/verbs.h HAVE_IBV_WR_FLUSH)
check_c_source_compiles("#include <infiniband/verbs.h>
	int main(void) { return IBV_ACCESS_ON_DEMAND | IBV_ODP_SUPPORT; }" HAVE_ON_DEMAND_PAGING)
cmake_pop_check_state()

# in every release since 44, so there is no variant of the sources without them
foreach(needed HAVE_IBV_ADVISE_MR HAVE_IBV_WR_ATOMIC_WRITE HAVE_ON_DEMAND_PAGING)
	if(NOT ${needed})
		message(FATAL_ERROR "${needed}: infiniband/verbs.h does not; rdma-core 44 or later is needed")
	endif()
endforeach()
