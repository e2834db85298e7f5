/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* warm.c -- reads the file of lent memory into the page cache, in the background */

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "warm.h"

/* between two looks at whether it is to end */
#define PIECE ((size_t)4 << 20)

struct warm {
	pthread_t thread;
	int fd;
	size_t size;
	atomic_bool stop;
};

bool
warm_fits(size_t size)
{
	char line[128];
	uint64_t available_kib = 0;
	FILE *info = fopen("/proc/meminfo", "re");

	while (info && fgets(line, sizeof(line), info) &&
		sscanf(line, "MemAvailable: %" SCNu64, &available_kib) != 1)
		;
	if (info)
		fclose(info);
	return size / 1024 < available_kib / 2;
}

static void *
read_file(void *arg)
{
	struct warm *warm = arg;

	/* pages of the usual size, unlike those of read(2), and without a copy */
	for (size_t at = 0; at < warm->size && !atomic_load(&warm->stop); at += PIECE)
		if (posix_fadvise(warm->fd, (off_t)at, (off_t)PIECE, POSIX_FADV_WILLNEED))
			break;
	return NULL;
}

struct warm *
warm_start(int fd, size_t size)
{
	struct warm *warm = malloc(sizeof(*warm));

	if (warm == NULL)
		return NULL;
	*warm = (struct warm){ .fd = fd, .size = size };
	if (pthread_create(&warm->thread, NULL, read_file, warm)) {
		free(warm);
		return NULL;
	}
	return warm;
}

void
warm_stop(struct warm *warm)
{
	if (warm == NULL)
		return;
	atomic_store(&warm->stop, true);
	(void)pthread_join(warm->thread, NULL);
	free(warm);
}
