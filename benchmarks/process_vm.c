/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * process_vm.c -- the time the kernel takes to copy into the memory of another process, with nothing on top
 *
 *	bench-process-vm <bytes> <seconds>    prints microseconds per process_vm_writev (mean) and MB/s
 *
 * It makes one call after the other, and always copies the same bytes to the same place.
 */

#include "bench.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES_MAX (1 << 30)
#define COPIES_PER_LOOK 16 /* copies between two looks at the clock */

static double
measure(pid_t target, void *mem, void *target_mem, size_t len, double seconds)
{
	struct iovec from = { .iov_base = mem, .iov_len = len };
	struct iovec to = { .iov_base = target_mem, .iov_len = len };
	double begin = bench_now_s(), now = begin;
	unsigned long copies = 0;
	while (now - begin < seconds) {
		for (int i = 0; i < COPIES_PER_LOOK; i++)
			if (process_vm_writev(target, &from, 1, &to, 1, 0) != (ssize_t)len)
				bench_die("process_vm_writev");
		copies += COPIES_PER_LOOK;
		now = bench_now_s();
	}
	return (now - begin) / (double)copies;
}

/* runs the target: it touches its pages and then sleeps until it is killed */
static void
lend(unsigned char *mem, size_t len, int ready_fd)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(mem, 1, len);
	if (write(ready_fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void *
new_memory(size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		bench_die("mmap");
	memset(mem, 2, len);
	return mem;
}

int
main(int argc, char *argv[])
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench-process-vm <bytes> <seconds>\n");
		return 2;
	}
	size_t len = (size_t)bench_number(argv[1], 1, BYTES_MAX);
	double seconds = bench_number(argv[2], 0.001, 1e6);
	void *mem = new_memory(len), *target_mem = new_memory(len);

	int ready[2];
	if (pipe(ready))
		bench_die("pipe");
	pid_t target = fork();
	if (target < 0)
		bench_die("fork");
	if (target == 0)
		lend(target_mem, len, ready[1]);
	close(ready[1]);
	char byte;
	if (read(ready[0], &byte, 1) != 1) {
		fprintf(stderr, "the target has ended\n");
		return 1;
	}

	(void)measure(target, mem, target_mem, len, BENCH_WARM_UP_S);
	double each_s = measure(target, mem, target_mem, len, seconds);
	printf("%.3f %.1f\n", each_s * 1e6, (double)len / each_s / 1e6);
	kill(target, SIGKILL);
	(void)waitpid(target, NULL, 0);
	return 0;
}
