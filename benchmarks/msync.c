/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * msync.c -- the time to make bytes of a mapped file durable, with no network
 *
 *	bench-msync <directory> <bytes> <seconds>    prints microseconds per msync (mean)
 *
 * All of the bytes are changed before each call, always the same bytes. The file is made in the directory and
 * removed at the end.
 */

#include "bench.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES_MAX (1 << 30)

/* makes a file with allocated blocks and a name, like that of a program that keeps it */
static void *
new_mapping(char path[static PATH_MAX], size_t len)
{
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		bench_die(path);
	errno = posix_fallocate(fd, 0, (off_t)len);
	void *mem = MAP_FAILED;
	if (errno == 0)
		mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED) {
		perror(path);
		(void)unlink(path);
		exit(1);
	}
	close(fd);
	return mem;
}

/* returns a negative number if it failed */
static double
measure(void *mem, size_t len, double seconds)
{
	double begin = bench_now_s(), now = begin;
	unsigned long count = 0;
	while (now - begin < seconds) {
		memset(mem, (int)(count & 0xff), len);
		if (msync(mem, len, MS_SYNC))
			return -1;
		count++;
		now = bench_now_s();
	}
	return (now - begin) / (double)count * 1e6;
}

int
main(int argc, char *argv[])
{
	char path[PATH_MAX];
	if (argc != 4) {
		fprintf(stderr, "usage: bench-msync <directory> <bytes> <seconds>\n");
		return 2;
	}
	size_t len = (size_t)bench_number(argv[2], 1, BYTES_MAX);
	double seconds = bench_number(argv[3], 0.001, 1e6);
	if (snprintf(path, sizeof(path), "%s/bench-msync-XXXXXX", argv[1]) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		bench_die(argv[1]);
	}

	void *mem = new_mapping(path, len);
	double us = measure(mem, len, BENCH_WARM_UP_S);
	if (us >= 0)
		us = measure(mem, len, seconds);
	if (us < 0)
		perror("msync");
	else
		printf("%.2f\n", us);
	(void)unlink(path);
	return us < 0;
}
