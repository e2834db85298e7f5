/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_flush_worker.c -- flushes of a connection: in its turn or on a worker, and what the worker does afterwards
 *
 * One side is the device, the other one is a plain socket that speaks the protocol.
 */

#include "serving.h"

#include "softrdma/base/env.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/workers.h"

#include <netinet/tcp.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* while this is not 0 the clock stands at this time, but for a step at each look */
static _Atomic(uint64_t) standing_ns, step_ns;
uint64_t __real_softrdma_now_ns(void);
uint64_t __wrap_softrdma_now_ns(void);

uint64_t
__wrap_softrdma_now_ns(void)
{
	if (standing_ns)
		standing_ns += step_ns;
	const uint64_t ns = standing_ns;
	return ns ? ns : __real_softrdma_now_ns();
}

struct file_region {
	char path[32];
	int fd;
	uint8_t *mem;
	struct ibv_mr *mr;
};

/* On a disk, where a flush may take time. The working directory is the build's; /tmp may be in memory. */
static void
file_region_init(struct file_region *r)
{
	struct statfs fs;
	strcpy(r->path, "flushed.XXXXXX");
	r->fd = mkstemp(r->path);
	assert_true(r->fd >= 0);
	assert_int_equal(fstatfs(r->fd, &fs), 0);
	if (fs.f_type == 0x01021994 || fs.f_type == 0x858458f6) {
		unlink(r->path);
		close(r->fd);
		print_message("skipped: the build directory is on no disk\n");
		skip();
	}
	assert_int_equal(ftruncate(r->fd, 8192), 0);
	r->mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	assert_ptr_not_equal(r->mem, MAP_FAILED);
	r->mr = softrdma_ibv_reg_mr(the_pd, r->mem, 8192,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(r->mr);
}

static void
file_region_fini(struct file_region *r)
{
	assert_int_equal(softrdma_ibv_dereg_mr(r->mr), 0);
	munmap(r->mem, 8192);
	unlink(r->path);
	close(r->fd);
}

static void
raw_flush(struct raw_peer *p, const struct file_region *r)
{
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_FLUSH,
		.code = SOFTRDMA_FLUSH_PERSISTENT,
		.seq = p->seq++,
		.key = r->mr->rkey,
		.addr = (uintptr_t)r->mem,
		.arg = 8192 };
	raw_frame(p->fd, &frame);
}

/* during a flush no later request of this connection is executed, but other connections go on */
static void
test_flush_on_worker(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&p, &r);
	raw_write(&p, r.mem, r.mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	wait_until(has_failed(1));
	raw_write(&other, the_mem, the_mr->rkey, 4);
	raw_send(other.fd, "abcd", 4);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_int_equal(r.mem[0], 0);
	assert_false(readable(p.fd, 0));
	fail_nothing();
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame ack = { 0 };
	while (ack.seq != 101) { /* one ACK for both, or one each */
		raw_recv(p.fd, buf, sizeof(buf));
		assert_true(softrdma_frame_decode(buf, &ack));
		assert_int_equal(ack.opcode, SOFTRDMA_OP_ACK);
	}
	assert_memory_equal(r.mem, "data", 4);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	file_region_fini(&r);
}

/* if reading flushes, the response waits for the medium */
static void
test_read_that_flushes(void **state)
{
	(void)state;
	struct file_region r;
	setenv("SOFTRDMA_READ_FLUSHES", "1", 1);
	file_region_init(&r);
	unsetenv("SOFTRDMA_READ_FLUSHES");
	struct raw_peer p;
	raw_peer_init(&p);
	memset(r.mem, 'm', 4);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_READ,
		.seq = p.seq++,
		.key = r.mr->rkey,
		.addr = (uintptr_t)r.mem,
		.arg = 4 };
	raw_frame(p.fd, &frame);
	wait_until(has_failed(1));
	assert_false(readable(p.fd, 0));
	fail_nothing();
	uint8_t buf[SOFTRDMA_FRAME_SIZE + 4];
	raw_recv(p.fd, buf, sizeof(buf));
	struct softrdma_frame answer;
	assert_true(softrdma_frame_decode(buf, &answer));
	assert_int_equal(answer.opcode, SOFTRDMA_OP_READ_RESPONSE);
	assert_memory_equal(buf + SOFTRDMA_FRAME_SIZE, "mmmm", 4);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

static void
test_flush_without_thread(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_THEIRS, "pthread_create", 0, 1, EAGAIN);
	raw_flush(&p, &r);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	assert_int_equal(fail_nothing(), 1);
	wait_for_log("no thread for a flush (Resource temporarily unavailable)");

	/* the protocol is broken after the flush */
	fail_call(FAIL_THEIRS, "pthread_create", 0, FAIL_FOR_EVER, EAGAIN);
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	raw_flush(&p, &r);
	raw_send(p.fd, garbage, sizeof(garbage));
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	fail_nothing();
	raw_peer_fini(&p);
	file_region_fini(&r);
}

/* the medium reports an error */
static void
test_flush_fails(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_ANY, "msync", 0, 1, EIO);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 100);
	expect_state(p.id->qp, IBV_QPS_ERR);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

#define FLUSHES 300

/* sends many flushes of one byte at once */
static void
raw_flood_of_flushes(struct raw_peer *p, const struct ibv_mr *mr, unsigned count)
{
	static uint8_t flood[FLUSHES * SOFTRDMA_FRAME_SIZE];
	for (unsigned i = 0; i < count; i++) {
		const struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_FLUSH,
			.code = SOFTRDMA_FLUSH_PERSISTENT,
			.seq = p->seq++,
			.key = mr->rkey,
			.addr = (uintptr_t)mr->addr,
			.arg = 1 };
		softrdma_frame_encode(&frame, flood + (size_t)i * SOFTRDMA_FRAME_SIZE);
	}
	/* so that one turn finds all of it: a slow sender would be read in pieces, and each turn has its own time */
	pthread_mutex_lock(&p->link->lock);
	raw_send(p->fd, flood, (size_t)count * SOFTRDMA_FRAME_SIZE);
	pthread_mutex_unlock(&p->link->lock);
}

/* waits until all requests are acknowledged, by one ACK or by several */
static void
raw_expect_all(struct raw_peer *p)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame ack = { 0 };
	while (ack.seq != p->seq - 1) {
		raw_recv(p->fd, buf, sizeof(buf));
		assert_true(softrdma_frame_decode(buf, &ack));
		assert_int_equal(ack.opcode, SOFTRDMA_OP_ACK);
	}
}

/*
 * Flushes that cannot block take time all the same. The progress thread makes them for a limited time in one turn, and a
 * worker makes the others. Meanwhile other connections are served.
 */
static void
test_flood_of_flushes(void **state)
{
	(void)state;
	struct raw_peer p, other;
	const int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096), 0);
	uint8_t *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(mr);
	raw_peer_init(&p);
	raw_peer_init(&other);

	/* the time is that of one turn: the clock stands, and is put forward between two of them. No worker is needed. */
	standing_ns = softrdma_now_ns();
	raw_flood_of_flushes(&p, mr, FLUSHES);
	raw_expect_all(&p);
	standing_ns += 10 * SOFTRDMA_FLUSH_TURN_NS;
	raw_flood_of_flushes(&p, mr, 3);
	raw_expect_all(&p);
	assert_int_equal(count_threads(), 2);

	/*
	 * Ten looks at the clock, the first of them at the second flush, use up the time of a turn. Each flush takes three: the
	 * sixth one is a worker's, and waits.
	 */
	fail_call(FAIL_ANY, "msync", 5, 1, FAIL_WAIT);
	step_ns = SOFTRDMA_FLUSH_TURN_NS / 10 + 1;
	raw_flood_of_flushes(&p, mr, FLUSHES);
	raw_write(&p, mem, mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	wait_until(has_failed(1));
	raw_expect_alive(&other);
	assert_int_equal(count_threads(), 3);
	assert_int_equal(mem[0], 0); /* what came after the flush waits for it */
	fail_nothing();
	raw_expect_all(&p);
	assert_memory_equal(mem, "data", 4);

	raw_peer_fini(&other);
	raw_peer_fini(&p);
	step_ns = standing_ns = 0; /* now that no other thread looks at the clock */
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, 4096);
	close(fd);
}

/* --- the worker stays --- */

/*
 * A worker polls for the next flush, for the time set in the environment, and serves the requests before it. If flushes
 * follow each other closely, it polls for four times as long.
 */
static void
test_worker_stays(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p, other;
	raw_peer_init(&p);
	raw_peer_init(&other);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_WORKER));
	assert_int_equal(count_threads(), 3);
	raw_write(&p, r.mem, r.mr->rkey, 4);
	raw_send(p.fd, "data", 4);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_flush(&p, &r);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 102);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 103);
	assert_memory_equal(r.mem, "data", 4);
	assert_int_equal(count_threads(), 3);
	assert_false(
		locked(p.link, softrdma_reader_borrow(softrdma_connection_of(p.link)))); /* a worker has it */
	raw_expect_alive(&other);

	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_WORKER));
	clock_forward_ms(1001);
	for (int i = 0; i < 2; i++) {
		raw_expect_alive(&p);
		assert_true(locked(p.link, softrdma_connection_of(p.link)->has_worker));
	}
	/* when the time is over, the progress thread has the socket again */
	clock_forward_ms(3000);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	assert_true(locked(p.link, softrdma_connection_of(p.link)->reader != SOFTRDMA_READER_WORKER));
	raw_expect_alive(&p);
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 107);
	/* no flush came in the longer time, so the next one is the shorter */
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_WORKER));
	clock_forward_ms(1001);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 108);

	/* the worker sees the end of the stream */
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_WORKER));
	shutdown(p.fd, SHUT_WR);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* a lead keeps the socket that it has got meanwhile */
static void
test_worker_leaves_the_socket_to_a_lead(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	raw_peer_init(&p);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&p, &r);
	wait_until(has_failed(1));
	locked(p.link, softrdma_connection_of(p.link)->reader = SOFTRDMA_READER_LEAD);
	fail_nothing();
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(!locked(p.link, softrdma_connection_of(p.link)->has_worker));
	assert_true(locked(p.link, softrdma_connection_of(p.link)->reader != SOFTRDMA_READER_WORKER));
	locked(p.link, softrdma_connection_of(p.link)->reader = SOFTRDMA_READER_ENGINE);
	raw_expect_alive(&p);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

static sem_t worker_begun, worker_may_end;

static void
occupy_worker(struct softrdma_connection *conn)
{
	(void)conn;
	sem_post(&worker_begun);
	sem_wait(&worker_may_end);
}

/* without enough workers for all, a connection that flushes all the time takes turns with others */
static void
test_worker_goes_where_it_is_needed(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct file_region r;
	file_region_init(&r);
	enum { OCCUPANT = 23 };
	struct raw_peer p, other, occupant;
	raw_peer_init(&p);
	raw_peer_init(&other);
	raw_peer_init_from(&occupant, OCCUPANT); /* of another address, which has all workers but one */
	const int one = 1; /* so that the second of two flushes does not wait for the first one's ACK */
	assert_int_equal(setsockopt(other.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	sem_init(&worker_begun, 0, 0);
	sem_init(&worker_may_end, 0, 0);
	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX - 1; i++) {
		assert_int_equal(
			softrdma_workers_submit(softrdma_connection_of(occupant.link), occupy_worker), 0);
		sem_wait(&worker_begun);
	}

	/* the worker stays for the next flush of its connection, unless another connection needs it */
	raw_flush(&p, &r);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->reader == SOFTRDMA_READER_WORKER));
	raw_flush(&other, &r);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 100);
	assert_false(locked(p.link, softrdma_connection_of(p.link)->has_worker));

	/*
	 * It does not prefer its own connection's next flush. Of the next msync() calls the second is the
	 * other connection's, and fails.
	 */
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	raw_flush(&other, &r);
	raw_flush(&other, &r);
	wait_until(has_failed(1));
	raw_flush(&p, &r);
	wait_until(locked(p.link, softrdma_connection_of(p.link)->flush_running));
	fail_call(FAIL_ANY, "msync", 1, 1, EIO);
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_expect_frame(other.fd, SOFTRDMA_OP_ACK, 0, 101);
	raw_expect_frame(other.fd, SOFTRDMA_OP_NAK, SOFTRDMA_NAK_OPERATION, 102);
	assert_int_equal(fail_nothing(), 1);

	for (int i = 0; i < SOFTRDMA_FLUSH_THREADS_MAX - 1; i++)
		sem_post(&worker_may_end);
	raw_peer_fini(&p);
	raw_peer_fini(&other);
	raw_peer_fini(&occupant);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* --- the peer leaves or guesses --- */

/* during the flush the queue pair is destroyed, it is disconnected, or the peer breaks the protocol */
static void
test_gone_during_flush(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	for (int way = 0; way < 3; way++) {
		struct raw_peer p;
		raw_peer_init(&p);
		char garbage[SOFTRDMA_FRAME_SIZE];
		memset(garbage, 'x', sizeof(garbage));
		fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
		raw_flush(&p, &r);
		if (way == 2)
			raw_send(p.fd, garbage, sizeof(garbage));
		wait_until(has_failed(1));
		if (way == 0) {
			destroy(p.id);
			p.id = NULL;
		} else if (way == 1) {
			assert_int_equal(softrdma_rdma_disconnect(p.id), 0);
			clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS + 1);
			expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		}
		fail_nothing();
		if (way == 2)
			expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_peer_fini(&p);
	}
	file_region_fini(&r);
}

static bool
has_hung_up(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };
	return poll(&pfd, 1, 0) == 1;
}

/* a peer leaves by FIN or RST, with many of its flushes not made yet: none of these is begun, and nothing after them counts */
static void
test_left_before_its_flushes(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	for (int way = 0; way < 2; way++) {
		struct raw_peer p;
		raw_peer_init(&p);
		const int fd = locked(p.link, softrdma_connection_of(p.link)->fd);
		fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
		raw_flush(&p, &r);
		for (int i = 0; i < 10; i++)
			raw_flush(&p, &r);
		raw_write(&p, r.mem, r.mr->rkey, 4);
		raw_send(p.fd, "data", 4);
		wait_until(has_failed(1));
		if (way == 0) {
			shutdown(p.fd, SHUT_WR);
		} else {
			const struct linger reset = { .l_onoff = 1 };
			assert_int_equal(setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
			close(p.fd);
			p.fd = -1;
		}
		wait_until(has_hung_up(fd));
		fail_call(FAIL_ANY, "msync", 0, FAIL_FOR_EVER, EIO); /* lets the first one go on */
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		assert_int_equal(fail_nothing(), 0);
		assert_int_equal(r.mem[0], 0);
		raw_peer_fini(&p);
	}
	file_region_fini(&r);
}

/* the worker that makes the flush reads on: a wrong key and the end of the connection come to it together */
static void
test_offender_behind_a_flush(void **state)
{
	(void)state;
	struct file_region r;
	file_region_init(&r);
	struct sockaddr_in addr = loopback(0);
	const struct softrdma_source source = softrdma_source_of((struct sockaddr *)&addr);
	struct raw_peer p;
	raw_peer_init(&p);
	const unsigned before = softrdma_source_violations(&source, softrdma_now_ns());
	char garbage[SOFTRDMA_FRAME_SIZE];
	memset(garbage, 'x', sizeof(garbage));
	pthread_mutex_lock(&p.link->lock); /* so that all of it is received at once */
	raw_flush(&p, &r);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	raw_send(p.fd, garbage, sizeof(garbage));
	pthread_mutex_unlock(&p.link->lock);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("a peer sent what is no frame of the protocol");
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), before + 1);
	raw_peer_fini(&p);
	file_region_fini(&r);
}

/* the peer's address is shut out while a worker makes its flush: a wrong key that came with the FLUSH is no guess */
static void
test_shut_out_during_a_flush(void **state)
{
	(void)state;
	enum { GUESSER = 22 };
	const struct softrdma_source source = source_of_host(GUESSER);
	struct file_region r;
	file_region_init(&r);
	struct raw_peer p;
	setenv("SOFTRDMA_MAX_WRONG_KEYS", "1", 1);
	raw_peer_init_from(&p, GUESSER);
	fail_call(FAIL_ANY, "msync", 0, 1, FAIL_WAIT);
	pthread_mutex_lock(&p.link->lock); /* so that all of it is received at once */
	raw_flush(&p, &r);
	raw_write(&p, the_mem, the_mr->rkey + 1, 4);
	raw_send(p.fd, "evil", 4);
	pthread_mutex_unlock(&p.link->lock);
	wait_until(has_failed(1));
	softrdma_source_add_violation(&source,
		softrdma_now_ns()); /* as another connection of the peer does */
	fail_nothing();
	raw_expect_frame(p.fd, SOFTRDMA_OP_ACK, 0, 100);
	raw_expect_shut_out(&p);
	assert_int_equal(softrdma_source_violations(&source, softrdma_now_ns()), 1);
	raw_peer_fini(&p);
	file_region_fini(&r);
	unsetenv("SOFTRDMA_MAX_WRONG_KEYS");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_flush_on_worker),
		device_test(test_read_that_flushes),
		device_test(test_flush_without_thread),
		device_test(test_flush_fails),
		one_thread_test(test_flood_of_flushes),
		one_thread_test(test_worker_stays),
		device_test(test_worker_leaves_the_socket_to_a_lead),
		device_test(test_worker_goes_where_it_is_needed),
		device_test(test_gone_during_flush),
		device_test(test_left_before_its_flushes),
		device_test(test_offender_behind_a_flush),
		device_test(test_shut_out_during_a_flush),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
