/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * high_fd.h -- no descriptor of ours is 0, 1 or 2
 *
 * The kernel gives the lowest free number. A daemon that has closed its standard descriptors would so get a socket as its
 * standard error: each line that any code of the process prints would go into the stream of a connection, or into a file.
 * So each descriptor that src/ opens is moved; utils/check-code looks for calls that are not wrapped in these.
 */

#ifndef SOFTRDMA_HIGH_FD_H
#define SOFTRDMA_HIGH_FD_H

#include <stdio.h>

/*
 * Moves a descriptor that was just opened to 3 or higher, closed on exec, and frees its low number. High ones and -1 are
 * returned unchanged, without a call of the kernel. If none is left it is closed: -1 with errno. Any thread, any lock.
 */
int softrdma_high_fd(int fd);

/* as pipe2(2), with both ends at 3 or higher, closed on exec */
int softrdma_high_pipe(int ends[2], int flags);

/* the same for a stream that was just opened for reading; NULL is returned unchanged */
FILE *softrdma_high_stream(FILE *low);

#endif /* SOFTRDMA_HIGH_FD_H */
