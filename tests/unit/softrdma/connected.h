/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connected.h -- shared by the tests of the device over real sockets
 *
 * Ids on both sides of the loopback, and plain TCP sockets that replace either side. Ports come from the
 * kernel; tests wait for events. The clock can be moved forward, and log lines are kept. Each test includes
 * it once, so that a test remains one file and one program.
 */

#ifndef TEST_SOFTRDMA_CONNECTED_H
#define TEST_SOFTRDMA_CONNECTED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "end_child.h"
#include "failing.h"
#include "softrdma/base/source.h"
#include "softrdma/cm/cm.h"
#include "softrdma/cm/handshake.h"
#include "softrdma/engine/accounts.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/threads.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/qp.h"
#include "softrdma/wire/crc.h"

#define PATIENCE_MS 20000
#define MEM_SIZE ((size_t)65536)

/* --- environment: a clock that can be moved, a log that is kept, random numbers that may fail --- */

static atomic_ullong clock_offset_ns;
static atomic_ullong clock_stands_at_ns; /* 0: it runs */
static atomic_int random_error;
static char log_text[16384];
static enum softrdma_log_level log_worst;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static inline uint64_t
movable_now_ns(void)
{
	struct timespec ts;
	const uint64_t stands_at_ns = clock_stands_at_ns;
	if (stands_at_ns)
		return stands_at_ns + clock_offset_ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + clock_offset_ns;
}

/* stops the clock: it moves only with clock_forward_ms() */
static inline void
clock_stop(void)
{
	clock_stands_at_ns = movable_now_ns() - clock_offset_ns;
}

static inline void
clock_go_on(void)
{
	clock_stands_at_ns = 0;
}

static inline void
clock_forward_ms(unsigned ms)
{
	clock_offset_ns += (uint64_t)ms * 1000000u;
}

static inline int
counted_random(void *buf, size_t len)
{
	static atomic_ullong number;
	if (random_error)
		return random_error;
	for (size_t done = 0; done < len; done += sizeof(uint64_t)) {
		uint64_t next = ++number * 0x9e3779b97f4a7c15u;
		memcpy((char *)buf + done, &next, len - done < sizeof(next) ? len - done : sizeof(next));
	}
	return 0;
}

static inline void
keep_log(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	(void)line;
	assert_null(strchr(file, '/'));
	assert_true(*func != '\0' && *text != '\0' && strchr(text, '\n') == NULL);
	pthread_mutex_lock(&log_lock);
	if (log_worst == 0 || level < log_worst)
		log_worst = level;
	size_t used = strlen(log_text);
	snprintf(log_text + used, sizeof(log_text) - used, "%s\n", text);
	pthread_mutex_unlock(&log_lock);
}

static inline void
log_clear(void)
{
	pthread_mutex_lock(&log_lock);
	log_text[0] = '\0';
	log_worst = 0;
	pthread_mutex_unlock(&log_lock);
}

static inline bool
log_has(const char *text)
{
	pthread_mutex_lock(&log_lock);
	bool found = strstr(log_text, text) != NULL;
	pthread_mutex_unlock(&log_lock);
	return found;
}

/* polls until the condition is true; for changes by another thread that raise no event */
#define wait_until(condition) \
	do { \
		int64_t end_ = now_ms() + PATIENCE_MS; \
		bool so_ = condition; \
		for (; !so_ && left_ms(end_) > 0; so_ = condition) \
			poll(NULL, 0, 1); \
		assert_true(so_); \
	} while (0)

#define wait_for_log(text) wait_until(log_has(text))

/* evaluates the expression under the link's lock, because the device's own thread changes such values */
#define locked(link_, expression) \
	({ \
		pthread_mutex_lock(&(link_)->lock); \
		__typeof__(expression) value_ = (expression); \
		pthread_mutex_unlock(&(link_)->lock); \
		value_; \
	})

/* --- common setup --- */

static struct ibv_pd *the_pd;
static struct ibv_cq *the_cq;
static struct ibv_mr *the_mr;
static uint8_t the_mem[MEM_SIZE] __attribute__((aligned(4096)));

static inline int
setup_device(void **state)
{
	(void)state;
	static const struct softrdma_env env = {
		.now_ns = movable_now_ns,
		.random = counted_random,
		.log = keep_log,
		.refused_hint = "look at the hint",
	};
	softrdma_set_env(&env);
	deadline_start("test of the software device", 120);
	the_pd = softrdma_ibv_alloc_pd(softrdma_context());
	the_cq = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, NULL, 0);
	the_mr = softrdma_ibv_reg_mr(the_pd, the_mem, sizeof(the_mem),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL);
	return the_pd && the_cq && the_mr ? 0 : -1;
}

/* whatever a test did, the device must be in the same state as before the first test */
static inline int
teardown_device(void **state)
{
	(void)state;
	int threads = count_settle(count_threads, 1, PATIENCE_MS);
	if (softrdma_ibv_dereg_mr(the_mr) || softrdma_ibv_destroy_cq(the_cq) ||
		softrdma_ibv_dealloc_pd(the_pd))
		return -1;
	deadline_stop();
	return threads == 1 ? 0 : -1;
}

static int fds_before;

/* after each test: everything it opened is closed, no fault is armed, and the device's threads have ended */
static inline int
setup_test(void **state)
{
	(void)state;
	log_clear();
	fds_before = count_fds();
	return 0;
}

static inline int
teardown_test(void **state)
{
	(void)state;
	fail_nothing();
	random_error = 0;
	return count_settle(count_fds, fds_before, PATIENCE_MS) == fds_before &&
			count_settle(count_threads, 1, PATIENCE_MS) == 1
		? 0
		: -1;
}

#define device_test(function) cmocka_unit_test_setup_teardown(function, setup_test, teardown_test)

/* the same for a test that holds the progress thread, or counts what it does: the device has only one meanwhile */
static char threads_before[16];

static inline int
setup_one_thread(void **state)
{
	const char *threads = getenv("SOFTRDMA_THREADS");
	snprintf(threads_before, sizeof(threads_before), "%s", threads ? threads : "");
	setenv("SOFTRDMA_THREADS", "1", 1);
	return setup_test(state);
}

static inline int
teardown_one_thread(void **state)
{
	setenv("SOFTRDMA_THREADS", threads_before, 1); /* empty is as if it were not set */
	return teardown_test(state);
}

#define one_thread_test(function) \
	cmocka_unit_test_setup_teardown(function, setup_one_thread, teardown_one_thread)

/* --- events --- */

static inline bool
readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int n;
	do {
		n = poll(&pfd, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

static inline struct rdma_cm_event *
take_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;
	assert_true(readable(channel->fd, PATIENCE_MS));
	assert_int_equal(softrdma_rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	return event;
}

/* takes the next event, and returns its id */
static inline struct rdma_cm_id *
expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = take_event(channel, type);
	struct rdma_cm_id *id = event->id;
	assert_int_equal(event->status, status);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
	return id;
}

static inline void
expect_no_event(struct rdma_event_channel *channel)
{
	assert_false(readable(channel->fd, 0));
}

/* --- ids --- */

static inline struct rdma_event_channel *
new_channel(void)
{
	struct rdma_event_channel *channel = softrdma_rdma_create_event_channel();
	assert_non_null(channel);
	return channel;
}

static inline struct rdma_cm_id *
new_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;
	assert_int_equal(softrdma_rdma_create_id(channel, &id, &the_mem, RDMA_PS_TCP), 0);
	return id;
}

static inline struct sockaddr_in
loopback(in_port_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static inline struct ibv_qp_init_attr_ex
qp_attr(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC,
		.send_cq = the_cq,
		.recv_cq = the_cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = the_pd,
		.cap = { .max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64 },
	};
}

static inline void
give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
}

/* destroys the id, and its queue pair if it has one */
static inline void
destroy(struct rdma_cm_id *id)
{
	softrdma_rdma_destroy_qp(id);
	assert_int_equal(softrdma_rdma_destroy_id(id), 0);
}

struct listener {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct sockaddr_in addr;
};

static inline void
listener_init(struct listener *l)
{
	struct sockaddr_in any = loopback(0);
	l->channel = new_channel();
	l->id = new_id(l->channel);
	assert_int_equal(softrdma_rdma_bind_addr(l->id, (struct sockaddr *)&any), 0);
	assert_int_equal(softrdma_rdma_listen(l->id, 0), 0);
	l->addr = l->id->route.addr.src_sin;
	assert_int_not_equal(l->addr.sin_port, 0);
}

static inline void
listener_fini(struct listener *l)
{
	destroy(l->id);
	softrdma_rdma_destroy_event_channel(l->channel);
}

/* how many the device has refused in the name of the listener's address */
static inline uint64_t
count_refused(const struct listener *l, enum softrdma_refusal why)
{
	struct softrdma_account account;
	softrdma_account_get(softrdma_account_of((const struct sockaddr *)&l->addr), &account);
	return account.refused[why];
}

/* an id with a resolved address and a queue pair, not connected yet */
static inline struct rdma_cm_id *
new_resolved(struct rdma_event_channel *channel, const struct sockaddr_in *addr)
{
	struct sockaddr_in dst = *addr;
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static inline struct rdma_cm_id *
new_active(struct rdma_event_channel *channel, const struct sockaddr_in *addr)
{
	struct rdma_cm_id *id = new_resolved(channel, addr);
	give_qp(id);
	return id;
}

/* under the lock, because the device's own thread sets the error state */
static inline void
expect_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	assert_int_equal(locked(softrdma_qp_of(qp)->link, qp->state), state);
}

/* both sides of a connection, each with its own channel */
struct pair_of_ids {
	struct listener listener;
	struct rdma_event_channel *channel; /* of the active side */
	struct rdma_cm_id *active, *passive;
};

/* connects both sides by a listener that is there; attr: of the active side's queue pair; rnr_retry: of both */
static inline void
pair_connect_as(struct pair_of_ids *p, struct ibv_qp_init_attr_ex attr, uint8_t rnr_retry)
{
	struct rdma_conn_param given = { .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = rnr_retry };
	p->channel = new_channel();
	p->active = new_resolved(p->channel, &p->listener.addr);
	assert_int_equal(softrdma_rdma_create_qp_ex(p->active, &attr), 0);
	assert_int_equal(softrdma_rdma_connect(p->active, &given), 0);
	p->passive = expect_event(p->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->passive);
	assert_int_equal(softrdma_rdma_accept(p->passive, &given), 0);
	expect_event(p->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p->listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* depth: of the active side's send queue */
static inline void
pair_connect(struct pair_of_ids *p, uint32_t depth)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.cap.max_send_wr = depth;
	pair_connect_as(p, attr, 7);
}

static inline void
pair_init_as(struct pair_of_ids *p, struct ibv_qp_init_attr_ex attr, uint8_t rnr_retry)
{
	memset(p, 0, sizeof(*p));
	listener_init(&p->listener);
	pair_connect_as(p, attr, rnr_retry);
}

static inline void
pair_init_depth(struct pair_of_ids *p, uint32_t depth)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.cap.max_send_wr = depth;
	pair_init_as(p, attr, 7);
}

static inline void
pair_init(struct pair_of_ids *p)
{
	pair_init_depth(p, qp_attr().cap.max_send_wr);
}

static inline void
pair_fini(struct pair_of_ids *p)
{
	destroy(p->active);
	destroy(p->passive);
	softrdma_rdma_destroy_event_channel(p->channel);
	listener_fini(&p->listener);
}

/* the next completion of the shared completion queue */
static inline struct ibv_wc
next_wc(void)
{
	struct ibv_wc wc = { 0 };
	wait_until(ibv_poll_cq(the_cq, 1, &wc) == 1);
	return wc;
}

/* --- plain sockets that replace one side --- */

static inline int
raw_connect(const struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)addr, sizeof(*addr)), 0);
	return fd;
}

static inline int
raw_listen(struct sockaddr_in *addr)
{
	*addr = loopback(0);
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)addr, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
	return fd;
}

static inline int
raw_accept(int listening)
{
	assert_true(readable(listening, PATIENCE_MS));
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline void
raw_send(int fd, const void *buf, size_t len)
{
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
}

static inline void
raw_recv(int fd, void *buf, size_t len)
{
	for (size_t have = 0; have < len;) {
		assert_true(readable(fd, PATIENCE_MS));
		ssize_t n = recv(fd, (char *)buf + have, len - have, 0);
		assert_true(n > 0);
		have += (size_t)n;
	}
}

/* waits until the other side has ended the stream, by a FIN or a reset */
static inline void
raw_expect_end(int fd)
{
	char byte;
	ssize_t n;
	assert_true(readable(fd, PATIENCE_MS));
	n = recv(fd, &byte, 1, 0);
	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
}

/* encodes a handshake message with its private data; returns its length */
static inline size_t
raw_message(uint8_t buf[static SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_PRIVATE_DATA_MAX], uint8_t type,
	const char *private_data)
{
	struct softrdma_handshake hs = { .version = SOFTRDMA_WIRE_VERSION,
		.type = type,
		.private_len = (uint8_t)strlen(private_data),
		.private_crc = softrdma_crc32c(0, private_data, strlen(private_data)),
		.responder_resources = 3,
		.initiator_depth = 2,
		.rnr_retry = 7,
		.qp_num = 0x1234,
		.seq = 100 };
	softrdma_handshake_encode(&hs, buf);
	memcpy(buf + SOFTRDMA_HANDSHAKE_SIZE, private_data, strlen(private_data));
	return SOFTRDMA_HANDSHAKE_SIZE + strlen(private_data);
}

static inline void
raw_put_sum(uint8_t *at, const uint8_t *bytes, size_t len)
{
	const uint32_t crc = softrdma_crc32c(0, bytes, len);
	for (size_t i = 0; i < 4; i++)
		at[i] = (uint8_t)(crc >> 8 * i);
}

/* computes the check sums of a changed message with this number of bytes of private data */
static inline void
raw_sum_again(uint8_t *buf, size_t private_len)
{
	raw_put_sum(buf + 24, buf + SOFTRDMA_HANDSHAKE_SIZE, private_len);
	raw_put_sum(buf + 28, buf, 28);
}

/* waits for a REJECT with this reason, and for the end of the stream after it */
static inline void
raw_expect_reject(int fd, uint16_t reason)
{
	uint8_t buf[SOFTRDMA_HANDSHAKE_SIZE];
	struct softrdma_handshake hs;
	raw_recv(fd, buf, sizeof(buf));
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_REJECT);
	assert_int_equal(hs.reason, reason);
	assert_int_equal(hs.private_len, 0);
	raw_expect_end(fd);
}

static inline void
raw_frame(int fd, const struct softrdma_frame *frame)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	softrdma_frame_encode(frame, buf);
	raw_send(fd, buf, sizeof(buf));
}

static inline bool
limit_files(rlim_t limit, rlim_t *before)
{
	struct rlimit rlimit;
	getrlimit(RLIMIT_NOFILE, &rlimit);
	if (before)
		*before = rlimit.rlim_cur;
	rlimit.rlim_cur = limit;
	return setrlimit(RLIMIT_NOFILE, &rlimit) == 0;
}

/* another loopback address: 127.0.0.<host> */
static inline struct sockaddr_in
address_of_host(unsigned host)
{
	struct sockaddr_in addr = loopback(0);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host - 1);
	return addr;
}

/* the source of connections from there */
static inline struct softrdma_source
source_of_host(unsigned host)
{
	const struct sockaddr_in addr = address_of_host(host);
	return softrdma_source_of((const struct sockaddr *)&addr);
}

/* connects from there */
static inline int
raw_connect_from(const struct sockaddr_in *addr, unsigned host)
{
	struct sockaddr_in from = address_of_host(host);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)addr, sizeof(*addr)), 0);
	return fd;
}

static inline void
expect_not_ended(int fd)
{
	assert_false(readable(fd, 0));
	close(fd);
}

#define BUF_MAX (SOFTRDMA_HANDSHAKE_SIZE + SOFTRDMA_PRIVATE_DATA_MAX)

#endif /* TEST_SOFTRDMA_CONNECTED_H */
