/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lending.c -- a program that lends a mapped file, and its client, in one process, for cmocka tests */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lending.h"
#include "wait.h"

#define ADDR "127.0.0.1"

void
lending_connect(struct lending *lending)
{
	assert_int_equal(pair_open(&lending->pair, ADDR, NULL, NULL), 0);
	assert_int_equal(rpma_mr_reg(lending->pair.client.peer, lending->data, LENDING_SIZE,
				 RPMA_MR_USAGE_WRITE_SRC, &lending->src),
		0);
}

void
lending_disconnect(struct lending *lending)
{
	rpma_mr_remote_delete(&lending->remote);
	rpma_mr_dereg(&lending->src);
	rpma_mr_dereg(&lending->lent);
	pair_close(&lending->pair);
}

void
lending_begin(struct lending *lending, int fd)
{
	memset(lending, 0, sizeof(*lending));
	assert_true(fd >= 0);
	lending->fd = fd;
	assert_int_equal(ftruncate(fd, (off_t)LENDING_SIZE), 0);
	lending->mem = mmap(NULL, LENDING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(lending->mem, MAP_FAILED);
	lending_connect(lending);
}

void
lending_end(struct lending *lending)
{
	lending_disconnect(lending);
	munmap(lending->mem, LENDING_SIZE);
	close(lending->fd);
}

int
lending_lend(struct lending *lending)
{
	char desc[64];
	size_t size;
	int ret = rpma_mr_reg(lending->pair.server.peer, lending->mem, LENDING_SIZE,
		RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
		&lending->lent);
	if (ret)
		return ret;
	assert_int_equal(rpma_mr_get_descriptor_size(lending->lent, &size), 0);
	assert_true(size <= sizeof(desc));
	assert_int_equal(rpma_mr_get_descriptor(lending->lent, desc), 0);
	assert_int_equal(rpma_mr_remote_from_descriptor(desc, size, &lending->remote), 0);
	return 0;
}

bool
lending_is_persistent(const struct lending *lending)
{
	int type;
	assert_int_equal(rpma_mr_remote_get_flush_type(lending->remote, &type), 0);
	return type & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
}

static enum ibv_wc_status
complete(struct lending *lending)
{
	struct ibv_wc wc;
	assert_int_equal(wait_wc(lending->pair.client.cq, &wc, WAIT_MS), 0);
	return wc.status;
}

enum ibv_wc_status
lending_write(struct lending *lending, char value)
{
	memset(lending->data, value, LENDING_SIZE);
	assert_int_equal(rpma_write(lending->pair.client.conn, lending->remote, 0, lending->src, 0,
				 LENDING_SIZE, RPMA_F_COMPLETION_ALWAYS, NULL),
		0);
	return complete(lending);
}

enum ibv_wc_status
lending_flush(struct lending *lending)
{
	assert_int_equal(rpma_flush(lending->pair.client.conn, lending->remote, 0, LENDING_SIZE,
				 RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL),
		0);
	return complete(lending);
}
