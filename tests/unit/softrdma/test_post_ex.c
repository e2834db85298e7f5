/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_post_ex.c -- work requests by ibv_wr_*: their effect on the other side, and that a batch with an error
 * has none
 */

#include <sys/mman.h>

#include "connected.h"

#define QUEUE_DEPTH 8 /* of qp_attr() */
#define INLINE_SIZE 64

/* the two halves of the memory that both sides share here: sources, and targets */
static uint8_t *const near = the_mem, *const far = the_mem + MEM_SIZE / 2;

static uint64_t
far_addr(size_t offset)
{
	return (uintptr_t)far + offset;
}

static void
fill_memory(void)
{
	for (size_t i = 0; i < MEM_SIZE / 2; i++) {
		near[i] = (uint8_t)(i * 13 + 7);
		far[i] = 0;
	}
}

static struct ibv_qp_ex *
ex_of(struct rdma_cm_id *id)
{
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(id->qp);
	assert_non_null(ex);
	return ex;
}

static void
set_id(struct ibv_qp_ex *ex, uint64_t wr_id, unsigned int flags)
{
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
}

/* adds a write of len bytes from near to far */
static void
add_write(struct ibv_qp_ex *ex, uint64_t wr_id, size_t offset, uint32_t len)
{
	set_id(ex, wr_id, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(offset));
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + offset, len);
}

static void
expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void
expect_nothing(void)
{
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
}

static void
post_recv(struct ibv_qp *qp, uint64_t wr_id, uint8_t *at, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = len, .lkey = the_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

/* takes count completions, and sorts them by their ids, which begin with first */
static void
collect(struct ibv_wc *wc, uint64_t first, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_wc one = next_wc();
		assert_in_range(one.wr_id, first, first + (uint64_t)count - 1);
		assert_int_equal(one.status, IBV_WC_SUCCESS);
		wc[one.wr_id - first] = one;
	}
	expect_nothing();
}

/* --- effects --- */

static void
test_one_sided(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	struct ibv_sge pieces[2] = { { (uintptr_t)near + 200, 10, the_mr->lkey },
		{ (uintptr_t)near + 300, 20, the_mr->lkey } };
	memcpy(far + 1000, "to be read", 10);
	const uint64_t old[2] = { 5, 7 };
	memcpy(far + 2000, &old[0], 8);
	memcpy(far + 2008, &old[1], 8);
	const uint64_t value = 0x1122334455667788u;

	ibv_wr_start(ex);
	add_write(ex, 1, 0, 100);
	set_id(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(500));
	ibv_wr_set_sge_list(ex, 2, pieces);
	set_id(ex, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(ex, the_mr->rkey, far_addr(1000));
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + 4000, 10);
	set_id(ex, 4, IBV_SEND_SIGNALED);
	ibv_wr_atomic_cmp_swp(ex, the_mr->rkey, far_addr(2000), 5, 6);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + 4016, 8);
	set_id(ex, 5, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(ex, the_mr->rkey, far_addr(2008), 100);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + 4024, 8);
	set_id(ex, 6, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(ex, the_mr->rkey, far_addr(2016), &value);
	set_id(ex, 7, IBV_SEND_SIGNALED);
	softrdma_wr_flush(ex, the_mr->rkey, far_addr(0), 600, SOFTRDMA_FLUSH_GLOBAL);
	set_id(ex, 8, IBV_SEND_SIGNALED); /* of 0 bytes */
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	expect_nothing();
	assert_int_equal(ibv_wr_complete(ex), 0);

	struct ibv_wc wc[8];
	collect(wc, 1, 8);
	static const int opcodes[8] = { IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
		IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, SOFTRDMA_WC_ATOMIC_WRITE, SOFTRDMA_WC_FLUSH,
		IBV_WC_RDMA_WRITE };
	for (int i = 0; i < 8; i++)
		assert_int_equal((int)wc[i].opcode, opcodes[i]);
	assert_memory_equal(far, near, 100);
	assert_int_equal(far[100], 0);
	assert_memory_equal(far + 500, near + 200, 10);
	assert_memory_equal(far + 510, near + 300, 20);
	assert_int_equal(far[530], 0);
	assert_memory_equal(near + 4000, "to be read", 10);
	assert_memory_equal(near + 4016, old, 16);
	const uint64_t now[3] = { 6, 107, value };
	assert_memory_equal(far + 2000, now, 24);
	pair_fini(&p);
}

static void
test_messages(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	for (uint64_t i = 0; i < 3; i++)
		post_recv(p.passive->qp, 10 + i, far + 100 * i, 50);

	ibv_wr_start(ex);
	set_id(ex, 1, 0); /* unsignaled */
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near, 11);
	set_id(ex, 2, 0);
	ibv_wr_send_imm(ex, htonl(0x01020304));
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + 20, 12);
	set_id(ex, 3, 0);
	ibv_wr_rdma_write_imm(ex, the_mr->rkey, far_addr(300), htonl(0x05060708));
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near + 40, 13);
	assert_int_equal(ibv_wr_complete(ex), 0);

	struct ibv_wc wc[3];
	collect(wc, 10, 3);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV);
	assert_int_equal(wc[0].byte_len, 11);
	assert_int_equal(wc[0].wc_flags, 0);
	assert_int_equal(wc[1].opcode, IBV_WC_RECV);
	assert_int_equal(wc[1].byte_len, 12);
	assert_int_equal(ntohl(wc[1].imm_data), 0x01020304);
	assert_int_equal(wc[2].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc[2].byte_len, 13);
	assert_int_equal(ntohl(wc[2].imm_data), 0x05060708);
	assert_memory_equal(far, near, 11);
	assert_memory_equal(far + 100, near + 20, 12);
	assert_int_equal(far[200], 0);
	assert_memory_equal(far + 300, near + 40, 13);
	pair_fini(&p);
}

/* their bytes are limited, not their number; a buffer list set before is not sent */
static void
test_inline_in_many_pieces(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	struct ibv_data_buf list[SOFTRDMA_SGE_MAX + 1];
	_Static_assert(SOFTRDMA_SGE_MAX + 1 <= INLINE_SIZE, "they fit");
	for (size_t i = 0; i <= SOFTRDMA_SGE_MAX; i++)
		list[i] = (struct ibv_data_buf){ near + 2 * i, 1 };
	ibv_wr_start(ex);
	set_id(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data(ex, near, INLINE_SIZE);
	ibv_wr_set_inline_data_list(ex, SOFTRDMA_SGE_MAX + 1, list);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(1, IBV_WC_SUCCESS);
	for (size_t i = 0; i <= SOFTRDMA_SGE_MAX; i++)
		assert_int_equal(far[i], near[2 * i]);
	assert_int_equal(far[SOFTRDMA_SGE_MAX + 1], 0);
	pair_fini(&p);
}

/* The caller may reuse the data when the call returns, even before the batch is complete. */
static void
test_inline(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	char one[INLINE_SIZE], two[10], expected[INLINE_SIZE];
	memset(one, 'a', sizeof(one));
	memset(two, 'b', sizeof(two));
	struct ibv_data_buf list[3] = { { two, 10 }, { NULL, 0 }, { one, INLINE_SIZE - 10 } };
	list[1] = (struct ibv_data_buf){ one, 1 };
	list[2].length = 0;

	ibv_wr_start(ex);
	set_id(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data(ex, one, sizeof(one));
	set_id(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(100));
	ibv_wr_set_inline_data_list(ex, 2, list);
	set_id(ex, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(200));
	ibv_wr_set_inline_data(ex, one, 0);
	memset(one, 'x', sizeof(one));
	memset(two, 'x', sizeof(two));
	memset(list, 0, sizeof(list));
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (uint64_t i = 1; i <= 3; i++)
		expect(i, IBV_WC_SUCCESS);
	memset(expected, 'a', sizeof(expected));
	assert_memory_equal(far, expected, sizeof(expected));
	assert_int_equal(far[INLINE_SIZE], 0);
	assert_memory_equal(far + 100, "bbbbbbbbbba", 11);
	assert_int_equal(far[111], 0);
	assert_int_equal(far[200], 0);
	pair_fini(&p);
}

/* the function of newer headers is at the offset that their structure gives it */
static void
flush_by_offset(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	void (*flush)(struct ibv_qp_ex * qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type,
		uint8_t level);
	memcpy(&flush, (char *)ex + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void)),
		sizeof(flush));
	flush(ex, rkey, addr, len, type, level);
}

static void
test_flush(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096), 0);
	uint8_t *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, file, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | SOFTRDMA_ACCESS_FLUSH_GLOBAL |
			SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(mr);
	static const uint8_t types[2] = { SOFTRDMA_FLUSH_GLOBAL, SOFTRDMA_FLUSH_PERSISTENT };
	for (uint64_t i = 0; i < 4; i++) {
		ibv_wr_start(ex);
		set_id(ex, 10, 0);
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)file + 8 * i);
		ibv_wr_set_inline_data(ex, (void *)&i, 8);
		set_id(ex, 20 + i, IBV_SEND_SIGNALED);
		if (i < 2)
			softrdma_wr_flush(ex, mr->rkey, (uintptr_t)file + 8 * i, 8, types[i % 2]);
		else
			flush_by_offset(ex, mr->rkey, (uintptr_t)file + 8 * i, 8, types[i % 2], 0);
		assert_int_equal(ibv_wr_complete(ex), 0);
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 20 + i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal((int)wc.opcode, SOFTRDMA_WC_FLUSH);
		assert_memory_equal(file + 8 * i, &i, 8);
	}

	/* the other side can tell the two flush types apart: this region cannot be made durable */
	ibv_wr_start(ex);
	set_id(ex, 30, 0);
	flush_by_offset(ex, the_mr->rkey, far_addr(0), 8, SOFTRDMA_FLUSH_PERSISTENT, 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(30, IBV_WC_REM_ACCESS_ERR);
	pair_fini(&p);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(file, 4096);
	close(fd);
}

/* Each request takes the flags set at that time. INLINE only affects the call that gives the data. */
static void
test_flags(void **state)
{
	(void)state;
	static const unsigned int flags[] = { 0, IBV_SEND_SIGNALED, IBV_SEND_FENCE, IBV_SEND_SOLICITED,
		IBV_SEND_INLINE, IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED };
	for (int all = 0; all < 2; all++) {
		struct pair_of_ids p;
		struct ibv_qp_init_attr_ex attr = qp_attr();
		attr.sq_sig_all = all;
		pair_init_as(&p, attr, 7);
		struct ibv_qp_ex *ex = ex_of(p.active);
		struct softrdma_requester *req = &softrdma_qp_of(p.active->qp)->link->requester;
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			ibv_wr_start(ex);
			set_id(ex, 77, flags[i]);
			ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(8));
			set_id(ex, 78, 0);
			const struct softrdma_send *send =
				softrdma_send_ring_slot_at(&req->ring, req->ring.head);
			assert_int_equal(send->wr_id, 77);
			assert_int_equal(send->key, the_mr->rkey);
			assert_true(send->remote_addr == far_addr(8));
			assert_int_equal(send->signaled, all || (flags[i] & IBV_SEND_SIGNALED));
			assert_int_equal(send->fenced, (flags[i] & IBV_SEND_FENCE) != 0);
			assert_int_equal(send->solicited, (flags[i] & IBV_SEND_SOLICITED) != 0);
			assert_false(send->is_inline);
			assert_false(send->has_imm);
			ibv_wr_abort(ex);
		}
		pair_fini(&p);
	}
}

/* --- errors --- */

static struct ibv_sge three[3];

static void
setter_first(struct ibv_qp_ex *ex)
{
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near, 1);
}

static void
too_many_pieces(struct ibv_qp_ex *ex)
{
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_sge_list(ex, 3, three);
}

static void
inline_too_long(struct ibv_qp_ex *ex)
{
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data(ex, near, INLINE_SIZE + 1);
}

static void
inline_much_too_long(struct ibv_qp_ex *ex)
{
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data(ex, near, ((size_t)1 << 32) + 1);
}

static void
inline_list_too_long(struct ibv_qp_ex *ex)
{
	const struct ibv_data_buf list[2] = { { near, INLINE_SIZE }, { near, 1 } };
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data_list(ex, 2, list);
}

static void
inline_list_with_a_long_end(struct ibv_qp_ex *ex)
{
	const struct ibv_data_buf list[2] = { { near, 1 }, { near, INLINE_SIZE } };
	ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data_list(ex, 2, list);
}

static void
memory_for_a_flush(struct ibv_qp_ex *ex)
{
	softrdma_wr_flush(ex, the_mr->rkey, far_addr(0), 8, SOFTRDMA_FLUSH_GLOBAL);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near, 8);
}

static void
memory_for_an_atomic_write(struct ibv_qp_ex *ex)
{
	ibv_wr_atomic_write(ex, the_mr->rkey, far_addr(0), near);
	ibv_wr_set_inline_data(ex, near, 8);
}

static void
read_inline(struct ibv_qp_ex *ex)
{
	ibv_wr_rdma_read(ex, the_mr->rkey, far_addr(0));
	ibv_wr_set_inline_data(ex, near, 8);
}

static void
result_inline(struct ibv_qp_ex *ex)
{
	ibv_wr_atomic_fetch_add(ex, the_mr->rkey, far_addr(0), 1);
	ibv_wr_set_inline_data(ex, near, 8);
}

static void
result_without_place(struct ibv_qp_ex *ex)
{
	ibv_wr_atomic_cmp_swp(ex, the_mr->rkey, far_addr(0), 0, 1);
}

static void
result_too_short(struct ibv_qp_ex *ex)
{
	ibv_wr_atomic_cmp_swp(ex, the_mr->rkey, far_addr(0), 0, 1);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)near, 7);
}

static void
flush_without_type(struct ibv_qp_ex *ex)
{
	softrdma_wr_flush(ex, the_mr->rkey, far_addr(0), 8, 0);
}

static void
flush_of_both_types(struct ibv_qp_ex *ex)
{
	softrdma_wr_flush(ex, the_mr->rkey, far_addr(0), 8,
		SOFTRDMA_FLUSH_GLOBAL | SOFTRDMA_FLUSH_PERSISTENT);
}

static void
flush_of_a_region(struct ibv_qp_ex *ex)
{
	flush_by_offset(ex, the_mr->rkey, far_addr(0), 8, SOFTRDMA_FLUSH_GLOBAL, 1);
}

static void
local_inv(struct ibv_qp_ex *ex)
{
	ibv_wr_local_inv(ex, the_mr->rkey);
}

static void
send_inv(struct ibv_qp_ex *ex)
{
	ibv_wr_send_inv(ex, the_mr->rkey);
}

static void
bind_mw(struct ibv_qp_ex *ex)
{
	const struct ibv_mw_bind_info info = { 0 };
	ibv_wr_bind_mw(ex, NULL, 1, &info);
}

static void
send_tso(struct ibv_qp_ex *ex)
{
	ibv_wr_send_tso(ex, near, 8, 100);
}

static void
ud_addr(struct ibv_qp_ex *ex)
{
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, NULL, 1, 1);
}

static void
xrc_srqn(struct ibv_qp_ex *ex)
{
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 1);
}

/* the first error counts, and later calls do not repair it */
static void
two_mistakes(struct ibv_qp_ex *ex)
{
	ibv_wr_local_inv(ex, the_mr->rkey);
	ibv_wr_rdma_write_imm(ex, the_mr->rkey, far_addr(0), 1);
	ibv_wr_set_inline_data(ex, near, INLINE_SIZE + 1);
	ibv_wr_send_imm(ex, 1);
	ibv_wr_atomic_cmp_swp(ex, the_mr->rkey, far_addr(0), 0, 1);
	ibv_wr_atomic_fetch_add(ex, the_mr->rkey, far_addr(0), 1);
	ibv_wr_atomic_write(ex, the_mr->rkey, far_addr(0), near);
	softrdma_wr_flush(ex, the_mr->rkey, far_addr(0), 8, SOFTRDMA_FLUSH_GLOBAL);
	ibv_wr_rdma_read(ex, the_mr->rkey, far_addr(0));
}

static void
more_than_the_queue_holds(struct ibv_qp_ex *ex)
{
	for (int i = 0; i < QUEUE_DEPTH; i++)
		ibv_wr_rdma_write(ex, the_mr->rkey, far_addr(0));
}

static const struct {
	const char *name;
	void (*make)(struct ibv_qp_ex *ex);
	int error;
} mistakes[] = {
	{ "too many pieces", too_many_pieces, EINVAL },
	{ "inline too long", inline_too_long, EINVAL },
	{ "inline much too long", inline_much_too_long, EINVAL },
	{ "inline list too long", inline_list_too_long, EINVAL },
	{ "inline list whose second piece is too long", inline_list_with_a_long_end, EINVAL },
	{ "memory for a flush", memory_for_a_flush, EINVAL },
	{ "memory for an atomic write", memory_for_an_atomic_write, EINVAL },
	{ "read inline", read_inline, EINVAL },
	{ "result inline", result_inline, EINVAL },
	{ "result without place", result_without_place, EINVAL },
	{ "result too short", result_too_short, EINVAL },
	{ "flush without type", flush_without_type, EINVAL },
	{ "flush of both types", flush_of_both_types, EINVAL },
	{ "flush of a region", flush_of_a_region, EINVAL },
	{ "local_inv", local_inv, EOPNOTSUPP },
	{ "send_inv", send_inv, EOPNOTSUPP },
	{ "bind_mw", bind_mw, EOPNOTSUPP },
	{ "send_tso", send_tso, EOPNOTSUPP },
	{ "ud_addr", ud_addr, EINVAL },
	{ "xrc_srqn", xrc_srqn, EOPNOTSUPP },
	{ "two mistakes", two_mistakes, EOPNOTSUPP },
	{ "more than the queue holds", more_than_the_queue_holds, ENOMEM },
};

/* an error cancels its whole batch, and no other one */
static void
test_mistakes(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	struct softrdma_requester *req = &softrdma_qp_of(p.active->qp)->link->requester;
	for (size_t i = 0; i < 3; i++)
		three[i] = (struct ibv_sge){ (uintptr_t)near, 1, the_mr->lkey };
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		fill_memory();
		const uint32_t head = locked(softrdma_qp_of(p.active->qp)->link, req->ring.head);
		ibv_wr_start(ex);
		add_write(ex, 1, 0, 100);
		set_id(ex, 2, IBV_SEND_SIGNALED);
		mistakes[i].make(ex);
		add_write(ex, 3, 100, 100); /* too late */
		int error = ibv_wr_complete(ex);
		if (error != mistakes[i].error)
			fail_msg("%s: %d", mistakes[i].name, error);
		assert_int_equal(locked(softrdma_qp_of(p.active->qp)->link, req->ring.head), head);
		expect_nothing();
		assert_int_equal(far[0], 0);

		/* the queue is unchanged */
		ibv_wr_start(ex);
		for (uint64_t n = 0; n < QUEUE_DEPTH; n++)
			add_write(ex, 10 + n, 100 * n, 100);
		assert_int_equal(ibv_wr_complete(ex), 0);
		for (uint64_t n = 0; n < QUEUE_DEPTH; n++)
			expect(10 + n, IBV_WC_SUCCESS);
		expect_nothing();
		assert_memory_equal(far, near, 100 * QUEUE_DEPTH);
	}

	/* data without a request */
	ibv_wr_start(ex);
	setter_first(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	/* nor is it data for the last request of the previous batch */
	ibv_wr_start(ex);
	add_write(ex, 1, 0, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(1, IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	setter_first(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	pair_fini(&p);
}

static void
test_abort(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	for (int round = 0; round < 3; round++) { /* together more than the queue holds */
		ibv_wr_start(ex);
		for (uint64_t i = 0; i < 5; i++)
			add_write(ex, i, 0, 100);
		ibv_wr_abort(ex);
	}
	ibv_wr_start(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	assert_int_equal(ibv_wr_complete(ex), 0); /* an empty batch */
	expect_nothing();
	assert_int_equal(far[0], 0);
	ibv_wr_start(ex);
	add_write(ex, 9, 0, 100);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(9, IBV_WC_SUCCESS);
	expect_nothing();
	assert_memory_equal(far, near, 100);
	pair_fini(&p);
}

/* requests that wait in the queue count: the peer has posted no receive */
static void
test_full_queue(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	for (int i = 0; i < QUEUE_DEPTH - 2; i++) {
		ibv_wr_start(ex);
		set_id(ex, (uint64_t)i, 0);
		ibv_wr_send(ex);
		assert_int_equal(ibv_wr_complete(ex), 0);
	}
	for (int count = 3; count >= 2; count--) {
		ibv_wr_start(ex);
		for (int i = 0; i < count; i++) {
			set_id(ex, 100 + (uint64_t)i, IBV_SEND_SIGNALED);
			ibv_wr_send(ex);
		}
		assert_int_equal(ibv_wr_complete(ex), count == 3 ? ENOMEM : 0);
	}
	for (uint64_t i = 0; i < QUEUE_DEPTH; i++)
		post_recv(p.passive->qp, 1000 + i, far, 8);
	unsigned sent = 0;
	for (int i = 0; i < QUEUE_DEPTH + 2; i++) {
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sent += wc.wr_id < 1000;
	}
	assert_int_equal(sent, 2);
	expect_nothing();
	pair_fini(&p);
}

static void
test_not_connected(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr = qp_attr();
	struct softrdma_qp *qp = softrdma_qp_new(the_pd, &attr, &softrdma_managed_qp, 0);
	assert_non_null(qp);
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(&qp->qp);
	ibv_wr_start(ex);
	add_write(ex, 1, 0, 8);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	expect_nothing();
	softrdma_qp_delete(qp);
}

/* --- failed requests --- */

static void
test_failed_queue_pair(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	assert_int_equal(softrdma_ibv_modify_qp(p.active->qp, &error, IBV_QP_STATE), 0);
	for (int round = 0; round < 2; round++) {
		ibv_wr_start(ex);
		for (uint64_t i = 0; i < 3; i++) {
			add_write(ex, i, 0, 8);
			ex->wr_flags = 0; /* in error every request has a completion */
		}
		assert_int_equal(ibv_wr_complete(ex), 0);
		for (uint64_t i = 0; i < 3; i++)
			expect(i, IBV_WC_WR_FLUSH_ERR);
		expect_nothing();
	}
	pair_fini(&p);
}

static void
test_too_long(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	const struct ibv_sge sges[2] = { { (uintptr_t)near, SOFTRDMA_MSG_MAX, the_mr->lkey },
		{ (uintptr_t)near, 1, the_mr->lkey } };
	ibv_wr_start(ex);
	add_write(ex, 1, 0, 8);
	set_id(ex, 2, 0);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 2, sges);
	add_write(ex, 3, 0, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(1, IBV_WC_WR_FLUSH_ERR);
	expect(2, IBV_WC_LOC_LEN_ERR);
	expect(3, IBV_WC_WR_FLUSH_ERR);
	expect_nothing();
	expect_state(p.active->qp, IBV_QPS_ERR);
	pair_fini(&p);
}

/* --- on the wire --- */

/* a batch is sent by one system call; requests posted one by one are not */
static void
test_one_system_call(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	for (int batched = 0; batched < 2; batched++) {
		fail_call(FAIL_MINE, "sendmsg", 1, FAIL_FOR_EVER, EAGAIN); /* all but the first */
		for (uint64_t i = 0; i < QUEUE_DEPTH; i++) {
			if (i == 0 || !batched)
				ibv_wr_start(ex);
			add_write(ex, i, 100 * i, 100);
			if (i == QUEUE_DEPTH - 1 || !batched)
				assert_int_equal(ibv_wr_complete(ex), 0);
		}
		const unsigned more_calls = fail_nothing();
		if (batched)
			assert_int_equal(more_calls, 0);
		else
			assert_in_range(more_calls, 1, QUEUE_DEPTH);
		for (uint64_t i = 0; i < QUEUE_DEPTH; i++)
			expect(i, IBV_WC_SUCCESS);
		assert_memory_equal(far, near, 100 * QUEUE_DEPTH);
		fill_memory();
	}
	pair_fini(&p);
}

/* --- several threads --- */

#define BATCHES 300

static struct {
	struct ibv_qp_ex *ex;
	atomic_int refused;     /* for another reason than a full queue */
	atomic_int uncollected; /* in requests; the completion queue holds slightly more */
} shared;

static void *
post_batches(void *arg)
{
	const uint64_t thread = (uintptr_t)arg;
	for (uint64_t i = 0; i < BATCHES && shared.refused == 0;) {
		if (shared.uncollected > 40) {
			sched_yield();
			continue;
		}
		shared.uncollected += 2;
		ibv_wr_start(shared.ex);
		add_write(shared.ex, thread << 32 | 2 * i, 0, 8);
		add_write(shared.ex, thread << 32 | (2 * i + 1), 8, 8);
		int error = ibv_wr_complete(shared.ex);
		if (error == 0) {
			i++;
			continue;
		}
		shared.uncollected -= 2;
		shared.refused += error != ENOMEM;
		sched_yield();
	}
	return NULL;
}

/* batches of several threads do not mix */
static void
test_threads(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	pthread_t threads[2];
	uint64_t next[2] = { 0, 0 };
	shared.ex = ex_of(p.active);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_batches, (void *)i), 0);
	for (int i = 0; i < 2 * BATCHES; i++) {
		struct ibv_wc first = next_wc(), second = next_wc();
		const uint64_t thread = first.wr_id >> 32;
		assert_int_equal(first.status, IBV_WC_SUCCESS);
		assert_int_equal(second.status, IBV_WC_SUCCESS);
		assert_in_range(thread, 0, 1);
		assert_int_equal(first.wr_id & UINT32_MAX, next[thread]);
		assert_int_equal(second.wr_id, first.wr_id + 1);
		next[thread] += 2;
		shared.uncollected -= 2;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.refused, 0);
	expect_nothing();
	pair_fini(&p);
}

/* --- between start and complete --- */

/*
 * All of these took the link's lock, which the thread held itself: each waited for ever. A peer whose message waits
 * for a receive, a region that is deregistered, another one that is made, a completion, and a new id.
 */
static void
test_calls_of_the_same_thread(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	fill_memory();
	struct ibv_qp_ex *ex = ex_of(p.active);
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
	static uint8_t other[64];
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, other, sizeof(other), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	struct ibv_sge sge = { .addr = (uintptr_t)near + 200, .length = 10, .lkey = the_mr->lkey };
	struct ibv_send_wr *bad,
		send = { .wr_id = 1,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED };
	assert_int_equal(ibv_post_send(p.passive->qp, &send, &bad), 0);
	while (locked(link, link->responder.state) != SOFTRDMA_RESPONDER_RNR_SENT)
		sched_yield();

	ibv_wr_start(ex);
	add_write(ex, 10, 0, 100);
	post_recv(p.active->qp, 2, far + 4000, 10);
	struct ibv_wc wc[2];
	collect(wc, 1, 2);
	assert_memory_equal(far + 4000, near + 200, 10);
	add_write(ex, 11, 100, 100);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	mr = softrdma_ibv_reg_mr(the_pd, other, sizeof(other), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_req_notify_cq(the_cq, 0), 0);
	struct rdma_cm_id *id;
	assert_int_equal(softrdma_rdma_create_id(p.channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(softrdma_rdma_destroy_id(id), 0);
	expect_nothing();
	assert_int_equal(far[0], 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(10, IBV_WC_SUCCESS);
	expect(11, IBV_WC_SUCCESS);
	assert_memory_equal(far, near, 200);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	pair_fini(&p);
}

static void *
post_a_list(void *arg)
{
	struct ibv_sge sge = { .addr = (uintptr_t)near + 300, .length = 100, .lkey = the_mr->lkey };
	struct ibv_send_wr *bad,
		write = { .wr_id = 30,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = far_addr(300), .rkey = the_mr->rkey } };
	return ibv_post_send(arg, &write, &bad) ? arg : NULL;
}

static void *
post_a_batch(void *arg)
{
	struct ibv_qp_ex *ex = arg;
	ibv_wr_start(ex);
	add_write(ex, 30, 300, 100);
	return ibv_wr_complete(ex) ? arg : NULL;
}

/* another thread posts while a batch is being filled: it waits for its end */
static void
test_posts_of_another_thread(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = ex_of(p.active);
	for (int round = 0; round < 4; round++) {
		const bool is_list = round % 2, is_aborted = round / 2;
		pthread_t thread;
		void *failed;
		fill_memory();
		ibv_wr_start(ex);
		add_write(ex, 10, 0, 100);
		assert_int_equal(pthread_create(&thread, NULL, is_list ? post_a_list : post_a_batch,
					 is_list ? (void *)p.active->qp : (void *)ex),
			0);
		await_sleep_of_other_threads();
		expect_nothing();
		add_write(ex, 11, 100, 100);
		if (is_aborted)
			ibv_wr_abort(ex);
		else
			assert_int_equal(ibv_wr_complete(ex), 0);
		for (uint64_t id = 10; id < 12 && !is_aborted; id++)
			expect(id, IBV_WC_SUCCESS);
		expect(30, IBV_WC_SUCCESS);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		expect_nothing();
		if (is_aborted)
			assert_int_equal(far[0], 0);
		else
			assert_memory_equal(far, near, 200);
		assert_memory_equal(far + 300, near + 300, 100);
	}
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_one_sided),
		device_test(test_messages),
		device_test(test_inline),
		device_test(test_inline_in_many_pieces),
		device_test(test_flush),
		device_test(test_flags),
		device_test(test_mistakes),
		device_test(test_abort),
		device_test(test_full_queue),
		device_test(test_not_connected),
		device_test(test_failed_queue_pair),
		device_test(test_too_long),
		device_test(test_one_system_call),
		device_test(test_threads),
		device_test(test_calls_of_the_same_thread),
		device_test(test_posts_of_another_thread),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
