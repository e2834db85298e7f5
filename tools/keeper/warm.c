/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* warm.c -- reads the file of lent memory into the page cache, in the background */

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
warm_reserve(size_t size)
{
	static const char available[] = "MemAvailable:";
	static unsigned long long given_kib;
	char line[128];
	unsigned long long available_kib = 0;
	FILE *info = fopen("/proc/meminfo", "re");

	while (info && available_kib == 0 && fgets(line, sizeof(line), info))
		if (strncmp(line, available, strlen(available)) == 0)
			available_kib = strtoull(line + strlen(available), NULL, 10);
	if (info)
		fclose(info);
	if (given_kib >= available_kib / 2 || size / 1024 >= available_kib / 2 - given_kib)
		return false;
	given_kib += size / 1024;
	return true;
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
