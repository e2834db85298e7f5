/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * prefetch_on_a_full_disk.c -- advice on memory for which the disk has no room fails
 *
 * rpma_mr_advise() was refused for every kind of memory, so programs of the original that map a file ended.
 * Now it fetches the pages. If the disk has no room for a page, the call fails, without a SIGBUS.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <librpma.h>

#include "deadline.h"
#include "medium.h"

#define DEADLINE_S 60
#define MIB ((size_t)1 << 20)
#define DISK_MIB 32
#define FILE_SIZE (256 * MIB)
#define STEP MIB

#define CHECK(true_expr) \
	do { \
		if (!(true_expr)) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #true_expr, rpma_errormsg()); \
			exit(1); \
		} \
	} while (0)

static int
fetch(struct rpma_mr_local *mr, size_t offset, size_t len, int advice)
{
	return rpma_mr_advise(mr, offset, len, advice, IBV_ADVISE_MR_FLAG_FLUSH);
}

/* the advice on a sparse file that is larger than its disk */
static void
fill_by_advice(struct rpma_mr_local *mr, unsigned char *mem, int fd)
{
	struct stat st;
	CHECK(fstat(fd, &st) == 0 && st.st_blocks == 0);

	/* holes read as zeros, and remain holes */
	CHECK(fetch(mr, 0, FILE_SIZE, IBV_ADVISE_MR_ADVICE_PREFETCH) == 0);
	CHECK(fetch(mr, 0, FILE_SIZE, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) == 0);

	size_t offset = 0;
	int ret = 0;
	for (; ret == 0 && offset < FILE_SIZE; offset += STEP)
		ret = fetch(mr, offset, STEP, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	CHECK(ret == RPMA_E_INVAL);
	CHECK(strstr(rpma_errormsg(), "a full disk"));
	CHECK(offset > STEP);

	/* a fetched page has its blocks, so a store needs no room */
	memset(mem, 0x5A, STEP);
	CHECK(msync(mem, STEP, MS_SYNC) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_blocks > 0);

	/* the file is shorter than its mapping */
	CHECK(ftruncate(fd, (off_t)STEP) == 0);
	CHECK(fetch(mr, 0, STEP, IBV_ADVISE_MR_ADVICE_PREFETCH) == 0);
	CHECK(fetch(mr, STEP, STEP, IBV_ADVISE_MR_ADVICE_PREFETCH) == RPMA_E_INVAL);
	CHECK(fetch(mr, STEP, 1, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE) == RPMA_E_INVAL);
}

int
main(void)
{
	struct medium medium;
	char path[MEDIUM_PATH_LEN];
	deadline_start("prefetch_on_a_full_disk", DEADLINE_S);
	if (!medium_open(&medium, "mkfs.ext4 -q", NULL, DISK_MIB, 2 * DISK_MIB))
		return MEDIUM_SKIPPED;

	int fd = open(medium_path(&medium, "file", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)FILE_SIZE) == 0);
	unsigned char *mem = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mem != MAP_FAILED);

	/* since Linux 5.14; before that the advice is a hint without a result */
	if (madvise(mem, 1, 22 /* MADV_POPULATE_READ */)) {
		printf("SKIPPED: the kernel has no MADV_POPULATE_READ\n");
		medium_close(&medium);
		return MEDIUM_SKIPPED;
	}

	struct ibv_context *dev;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	CHECK(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev) == 0);
	CHECK(rpma_peer_new(dev, &peer) == 0);
	CHECK(rpma_mr_reg(peer, mem, FILE_SIZE,
		      RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
		      &mr) == 0);
	fill_by_advice(mr, mem, fd);
	CHECK(rpma_mr_dereg(&mr) == 0);
	CHECK(rpma_peer_delete(&peer) == 0);

	munmap(mem, FILE_SIZE);
	close(fd);
	medium_close(&medium);
	return 0;
}
