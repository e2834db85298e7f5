# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# the sources of libsoftrdma.so: one list for the library and for its test
set(SOFTRDMA_PRELOAD_SOURCES
	softrdma_preload/device_file.c
	softrdma_preload/devices.c
	softrdma_preload/endpoint.c
	softrdma_preload/missing.c
	softrdma_preload/rdma_cm.c
	softrdma_preload/verbs.c
)
