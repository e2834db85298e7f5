/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * device_file.c -- the file of the device in /dev/infiniband, for programs that look whether it is there
 *
 * UCX uses a device only if stat(2) finds a character device there, and access(2) a right to read and write it. It never
 * opens the file. So these calls answer for that path as for /dev/null, and nothing has to be made on the machine. All other
 * paths go to the kernel.
 */

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload.h"
#include "softrdma/verbs/device.h"

#define FOLDER "/dev/infiniband/"

/* not inlined: the headers say that paths are not NULL, which programs need not know */
__attribute__((noinline)) static const char *
path_of(const char *path)
{
	const size_t length = sizeof(FOLDER) - 1;
	if (path == NULL || strncmp(path, FOLDER, length) != 0)
		return path;
	return strcmp(path + length, softrdma_device()->dev_name) == 0 ? "/dev/null" : path;
}

int
stat(const char *restrict file, struct stat *restrict buf)
{
	return fstatat(AT_FDCWD, path_of(file), buf, 0);
}

int
stat64(const char *restrict file, struct stat64 *restrict buf)
{
	return fstatat64(AT_FDCWD, path_of(file), buf, 0);
}

int
access(const char *name, int type)
{
	return faccessat(AT_FDCWD, path_of(name), type, 0);
}
