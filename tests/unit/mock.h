/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * mock.h -- a device that exists only in memory: struct rdma_api and the operations of its context
 *
 * Every object that it creates is counted, so that a test sees which ones were not released. A test can make
 * any call fail, by its name or by its number. The library itself is never mocked.
 */

#ifndef RPMAI_MOCK_H
#define RPMAI_MOCK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conn.h"
#include "librpma.h"
#include "mr.h"
#include "peer.h"
#include "rdma.h"

#define MOCK_EVENTS 8
#define MOCK_TRACE 1024
#define MOCK_RKEY 0xA1B2C3D4u
#define MOCK_LKEY 0x11223344u
#define MOCK_QP_NUM 77
#define MOCK_MAX_MSG 4096
#define MOCK_CHAIN 300
#define MOCK_SGE 16
#define MOCK_INLINE 256

struct mock {
	/* the state of the device */
	struct ibv_device device;
	struct ibv_context ctx;
	struct ibv_context other_ctx; /* of a second device */
	struct ibv_device_attr_ex attr;
	uint32_t max_msg_size;
	bool no_verbs; /* binding and resolving find no device */
	bool no_qp_ex;
	bool no_devices;
	int devices; /* number of them from get_devices; 0: one, -1: an empty list */
	struct rdma_cm_event events[MOCK_EVENTS];
	int events_queued;
	int events_taken;
	int events_acked;
	struct ibv_cq *cq_event; /* the next event of any completion channel */
	int cq_events_acked;
	struct ibv_wc wc[MOCK_EVENTS];
	int wcs;        /* number of completions that poll_cq returns */
	bool wcs_once;  /* later calls of poll_cq return none */
	int channel_fd; /* the descriptor of channels; 0: a number that is not open */

	/* failures */
	sem_t *held,
		*go_on; /* localtime_r() posts the first one and waits for the other; NULL: it does not */
	const char *fail_call; /* the call that fails ... */
	int fail_skip;         /* ... after this number of calls that succeed ... */
	int fail_again;        /* ... and this number of calls after it fail as well */
	int fail_errno;
	int fail_getaddrinfo; /* an EAI_* value, with errno 0 */
	int fail_access;      /* registrations with one of these rights */
	int fail_without;     /* registrations without one of these rights */
	int fail_kth;         /* the k-th fallible call fails, counted from 1; 0: none */
	int malloc_skip;      /* -1: never fails */
	int send_limit;       /* entries of the send queue; 0: no limit */

	/* what the library did */
	char credentials; /* its address is used as the credentials */
	int live;         /* objects that were not released */
	int fallible;     /* calls that could have failed */
	const char *trace[MOCK_TRACE];
	int traced;
	int access[4]; /* of the registrations, in order */
	int registrations;
	struct rdma_conn_param param; /* of connect or accept */
	uint8_t param_data[256];
	uint8_t param_data_len; /* of reject */
	struct ibv_qp_init_attr_ex qp_attr;
	struct ibv_qp_attr modified; /* by modify_qp */
	int modified_mask;
	struct ibv_srq_init_attr srq_attr;
	int cqe[4];
	int cqs;
	int timeout_ms;
	struct ibv_send_wr send_wr;
	struct ibv_sge send_sge;
	uint8_t send_inline[MOCK_INLINE];
	int sends;
	struct {
		struct ibv_send_wr wr;
		struct ibv_sge sge[MOCK_SGE];
		uint8_t inline_data[MOCK_INLINE];
	} chain[MOCK_CHAIN]; /* all requests that were taken, in order */
	int chained;
	int rung; /* doorbells */
	struct ibv_recv_wr recv_wr;
	struct ibv_sge recv_sge;
	int recvs;
	int srq_recvs;
	int notified;
	struct {
		uint64_t wr_id;
		unsigned int flags;
		uint32_t rkey;
		uint64_t raddr;
		size_t len;
		uint8_t type;
	} flush;
	int flushes;
	uint8_t atomic[8];
	unsigned int atomic_flags;
	int atomics;
	struct ibv_sge advised;

	/* the log */
	int logged[RPMA_LOG_LEVEL_DEBUG + 1];
	char last_log[1024];
};

extern struct mock mock;
extern struct rdma_api mock_rdma;

/* Resets the device to one that works, and sends the log to the mock. A cmocka setup function. */
int mock_setup(void **state);

/* Fails if objects or unacknowledged events are left. A cmocka teardown function. */
int mock_teardown(void **state);

/* number of calls with this name */
int mock_count(const char *call);

/* the position of the last call with this name, -1 if there was none */
int mock_last(const char *call);

void mock_queue_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, const void *data, uint8_t len);

/* gives the device every capability that a device may have */
void mock_native(void);

struct rpma_peer *mock_peer(void);

/* an established connection of the peer, made from a request; cfg may be NULL */
struct rpma_conn *mock_conn(struct rpma_peer *peer, const struct rpma_conn_cfg *cfg);

/* a remote region of size bytes; if has_caps, its descriptor names these capabilities */
struct rpma_mr_remote *mock_remote(uint64_t size, int usage, bool has_caps, int caps);

/* the expression must return ret, and log exactly one error */
#define assert_fails(ret, expr) \
	do { \
		int errors_ = mock.logged[RPMA_LOG_LEVEL_ERROR]; \
		int got_ = (expr); \
		if (got_ != (ret)) \
			fail_msg("%s: %d, not %d", #expr, got_, (ret)); \
		if (mock.logged[RPMA_LOG_LEVEL_ERROR] != errors_ + 1) \
			fail_msg("%s: %d errors logged: %s", #expr, \
				mock.logged[RPMA_LOG_LEVEL_ERROR] - errors_, mock.last_log); \
	} while (0)

#define assert_ok(expr) \
	do { \
		int got_ = (expr); \
		if (got_) \
			fail_msg("%s: %d: %s", #expr, got_, mock.last_log); \
	} while (0)

#define rpma_test(f) cmocka_unit_test_setup_teardown(f, mock_setup, mock_teardown)

#endif /* RPMAI_MOCK_H */
