/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * posting.h -- shared by the tests of operations: a connection, and memory on both sides of it
 *
 * Each test includes it once, so that a test remains one file and one program.
 */

#ifndef TEST_POSTING_H
#define TEST_POSTING_H

#include "mock.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define MORE RPMA_F_MORE
#define FENCE RPMA_F_FENCE
#define IMM 0x01020304u

#define RADDR 0x10000u /* of every mock_remote */
#define SQ_SIZE 8
#define PIECES 3
#define INLINE_SIZE 32
#define ALL_CAPS (MR_CAP_NATIVE_FLUSH | MR_CAP_NATIVE_ATOMIC_WRITE | MR_CAP_REMOTE_ATOMICS)

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static char memory[64];
static char large[2 * MOCK_MAX_MSG];

static struct {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	struct rpma_mr_local *mr, *large;
	struct rpma_mr_remote *remote, *large_remote;
} f;

static inline struct rpma_conn *
conn_of_sq_size(uint32_t sq_size)
{
	struct rpma_conn_cfg *cfg = NULL;
	assert_ok(rpma_conn_cfg_new(&cfg));
	assert_ok(rpma_conn_cfg_set_sq_size(cfg, sq_size));
	assert_ok(rpma_conn_cfg_set_max_sge(cfg, PIECES));
	assert_ok(rpma_conn_cfg_set_inline_size(cfg, INLINE_SIZE));
	struct rpma_conn *conn = mock_conn(f.peer, cfg);
	assert_ok(rpma_conn_cfg_delete(&cfg));
	return conn;
}

static inline int
make_all(int caps)
{
	mock.attr.orig_attr.max_sge = PIECES + 1;
	f.peer = mock_peer();
	f.conn = conn_of_sq_size(SQ_SIZE);
	assert_ok(rpma_mr_reg(f.peer, memory, sizeof(memory), 0xFF, &f.mr));
	assert_ok(rpma_mr_reg(f.peer, large, sizeof(large), 0xFF, &f.large));
	f.remote = mock_remote(64, 0xFF, true, caps);
	f.large_remote = mock_remote(sizeof(large), 0xFF, true, caps);
	return 0;
}

/* a device without extended operations and without atomics */
__attribute__((unused)) static int
setup_plain(void **state)
{
	mock_setup(state);
	return make_all(0);
}

/* a device with all capabilities, on both sides */
__attribute__((unused)) static int
setup_native(void **state)
{
	mock_setup(state);
	mock_native();
	return make_all(ALL_CAPS);
}

__attribute__((unused)) static int
teardown(void **state)
{
	mock.fail_call = NULL;
	rpma_mr_dereg(&f.mr);
	rpma_mr_dereg(&f.large);
	rpma_mr_remote_delete(&f.remote);
	rpma_mr_remote_delete(&f.large_remote);
	rpma_conn_delete(&f.conn);
	rpma_peer_delete(&f.peer);
	return mock_teardown(state);
}

#define plain_test(t) cmocka_unit_test_setup_teardown(t, setup_plain, teardown)
#define native_test(t) cmocka_unit_test_setup_teardown(t, setup_native, teardown)

/* contexts that differ */
static inline void *
ctx(uintptr_t number)
{
	return (void *)(0x1000 + number);
}

/* makes the next call with this name fail */
static inline void
fail_next(const char *call, int errnum)
{
	mock.fail_call = call;
	mock.fail_skip = 0;
	mock.fail_errno = errnum;
}

/* forgets all requests posted so far */
static inline void
forget_posts(void)
{
	mock.chained = mock.rung = mock.sends = mock.flushes = mock.atomics = 0;
	memset(&mock.send_wr, 0, sizeof(mock.send_wr));
	memset(&mock.send_sge, 0, sizeof(mock.send_sge));
}

/* checks the request at this position, of all that reached the device */
static inline void
assert_posted(int at, int opcode, const void *context)
{
	assert_in_range(at, 0, mock.chained - 1);
	assert_int_equal((int)mock.chain[at].wr.opcode, opcode);
	assert_true(mock.chain[at].wr.wr_id == (uintptr_t)context);
}

#endif /* TEST_POSTING_H */
