/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fixture.h -- shared by the tests of the device's parts: one side of a connection, without a socket
 *
 * A side has a protection domain, one completion queue for sends and one for receives, a receive queue, and a
 * region with all rights. Each test includes it once, so that a test remains one file and one program.
 */

#ifndef TEST_SOFTRDMA_FIXTURE_H
#define TEST_SOFTRDMA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"
#include "softrdma/core/link.h"
#include "softrdma/core/recv_queue.h"
#include "softrdma/engine/connection.h"
#include "softrdma/verbs/device.h"

#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL)
#define REGION_SIZE ((size_t)4 << 20)
#define RECV_WR_MAX 64

struct side {
	struct ibv_pd *pd;
	struct softrdma_cq *send_cq, *recv_cq;
	struct softrdma_recv_queue recvs;
	struct softrdma_mr *mr;
	uint8_t *mem;
	int fd; /* of mem: users other than root find a file without a name only by a descriptor of it */
	uint32_t key;
	struct ibv_qp qp;
	struct softrdma_link *link;
};

__attribute__((unused)) static void
quiet_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)level;
	(void)file;
	(void)line;
	(void)func;
	assert_true(*text != '\0' && strchr(text, '\n') == NULL);
}

static inline void
quieten(void)
{
	static const struct softrdma_env env = { .log = quiet_log };
	softrdma_set_env(&env);
}

static inline struct softrdma_cq *
new_cq(int entries)
{
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), entries, NULL, NULL, 0);
	assert_non_null(cq);
	return softrdma_cq_of(cq);
}

/*
 * The memory is shared and mapped from a file that is not on a disk, so that persistent flushes are granted
 * too.
 */
static inline void
side_init(struct side *side, int send_cqe, int access, uint32_t max_send_wr)
{
	memset(side, 0, sizeof(*side));
	side->pd = softrdma_ibv_alloc_pd(softrdma_context());
	side->send_cq = new_cq(send_cqe);
	side->recv_cq = new_cq(256);
	side->fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(side->fd >= 0);
	assert_int_equal(ftruncate(side->fd, REGION_SIZE), 0);
	side->mem = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, side->fd, 0);
	assert_ptr_not_equal(side->mem, MAP_FAILED);
	side->mr = softrdma_mr_new(side->pd, side->mem, REGION_SIZE, access);
	assert_non_null(side->mr);
	side->key = side->mr->mr.rkey;
	assert_int_equal(softrdma_recv_queue_init(&side->recvs, RECV_WR_MAX, 4), 0);
	side->link = softrdma_connection_new();
	assert_non_null(side->link);
	side->qp.state = IBV_QPS_RTS;
	side->link->qp = &side->qp;
	const struct ibv_qp_cap cap = { .max_send_wr = max_send_wr,
		.max_send_sge = 4,
		.max_inline_data = 64 };
	softrdma_responder_init(&side->link->responder, side->pd, side->recv_cq, &side->recvs, false, 77,
		side->link);
	assert_int_equal(softrdma_requester_init(&side->link->requester, side->pd, side->send_cq, 77, &cap),
		0);
}

static inline void
side_fini(struct side *side)
{
	softrdma_link_abandon(side->link);
	softrdma_link_put(side->link);
	softrdma_recv_queue_fini(&side->recvs);
	if (side->mr) {
		softrdma_mr_remove(side->mr);
		softrdma_mr_delete(side->mr);
	}
	munmap(side->mem, REGION_SIZE);
	close(side->fd);
	assert_int_equal(softrdma_ibv_destroy_cq(&side->send_cq->cq), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(&side->recv_cq->cq), 0);
	assert_int_equal(softrdma_ibv_dealloc_pd(side->pd), 0);
}

static inline uint64_t
addr_of(const struct side *side, size_t offset)
{
	return (uint64_t)(uintptr_t)side->mem + offset;
}

static inline struct ibv_sge
piece(const struct side *side, size_t offset, size_t len)
{
	return (struct ibv_sge){ .addr = addr_of(side, offset), .length = (uint32_t)len, .lkey = side->key };
}

static inline void
post_recv_sges(struct side *side, uint64_t wr_id, struct ibv_sge *sge, int num_sge)
{
	const struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = num_sge };
	assert_int_equal(softrdma_recv_queue_put(&side->recvs, &wr), 0);
}

static inline void
post_recv(struct side *side, uint64_t wr_id, size_t offset, size_t len)
{
	struct ibv_sge sge = piece(side, offset, len);
	post_recv_sges(side, wr_id, &sge, 1);
}

/* the slot of the next request, signaled and with one local SGE; commit() posts it */
static inline struct softrdma_send *
prepare(struct side *side, uint8_t opcode, uint64_t wr_id, size_t offset, size_t len)
{
	struct softrdma_send *send = softrdma_send_ring_slot(&side->link->requester.ring);
	assert_non_null(send);
	send->wr_id = wr_id;
	send->opcode = opcode;
	send->signaled = true;
	send->length = len;
	send->num_sge = 1;
	send->sge[0] = piece(side, offset, len);
	return send;
}

static inline void
commit(struct side *side)
{
	softrdma_send_ring_commit(&side->link->requester.ring);
	if (side->link->requester.failed)
		softrdma_requester_fail(&side->link->requester, IBV_WC_WR_FLUSH_ERR);
}

/* the next completion must be this one */
#define expect_wc(cq, id, wanted) \
	do { \
		struct ibv_wc wc_; \
		assert_int_equal(softrdma_cq_pop(cq, 1, &wc_), 1); \
		assert_int_equal(wc_.wr_id, id); \
		assert_int_equal(wc_.status, wanted); \
	} while (0)

#define expect_no_wc(cq) \
	do { \
		struct ibv_wc wc_; \
		assert_int_equal(softrdma_cq_pop(cq, 1, &wc_), 0); \
	} while (0)

#endif /* TEST_SOFTRDMA_FIXTURE_H */
