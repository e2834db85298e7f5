/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * original.h -- shared by the programs of the original library that run on ours as well
 *
 * EXPECTED_LIBRARY in the environment names the folder from which the library must have come.
 */

#ifndef SURFACE_ORIGINAL_H
#define SURFACE_ORIGINAL_H

#include <dlfcn.h>
#include <librpma.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>

#include "two.h"

/* returns the file of the loaded library, which must be in the expected folder */
static inline const char *
original_library(void)
{
	static char real[PATH_MAX];
	Dl_info info;
	const char *expected = getenv("EXPECTED_LIBRARY");
	TRUE(expected);
	TRUE(dladdr((void *)(uintptr_t)rpma_peer_new, &info));
	TRUE(realpath(info.dli_fname, real));
	if (strncmp(real, expected, strlen(expected)) != 0) {
		fprintf(stderr, "the library is %s\n", real);
		exit(1);
	}
	return real;
}

/* a device DAX is mapped in units of this size; a file need not be that large */
#define ORIGINAL_MAP_UNIT (2 << 20)

/* maps one unit of the device DAX or of the file; with O_CREAT the file gets that size */
static inline unsigned char *
original_map(const char *path, int flags)
{
	int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
	TRUE(fd >= 0);
	if (flags & O_CREAT)
		TRUE(ftruncate(fd, ORIGINAL_MAP_UNIT) == 0);
	unsigned char *mem = mmap(NULL, ORIGINAL_MAP_UNIT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);
	close(fd);
	return mem;
}

/* what the original's users do before a persistent flush that works by reading */
static inline void
original_apply_peer_cfg(struct rpma_conn *conn)
{
	struct rpma_peer_cfg *pcfg;
	ZERO(rpma_peer_cfg_new(&pcfg));
	ZERO(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true));
	ZERO(rpma_conn_apply_remote_peer_cfg(conn, pcfg));
	ZERO(rpma_peer_cfg_delete(&pcfg));
}

#endif /* SURFACE_ORIGINAL_H */
