/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_fault_inject.c -- what programs see when faults are injected
 *
 * Both sides are in this process, so the active side's queue pair is connection 1 of the plan and the passive
 * side's is connection 2. Times are long, and the clock is moved, so nothing depends on the speed of the
 * machine.
 */

#include "connected.h"

#include <sys/mman.h>

#include "extended.h"
#include "pattern.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/faults/fault_plan.h"

#define VARIABLE "SOFTRDMA_FAULTS"
#define UNTOUCHED 0xee
#define SLOT 512 /* bytes of one small write */
#define SLOTS 16

static void
faults(const char *text)
{
	setenv(VARIABLE, text, 1);
	assert_int_equal(softrdma_fault_plan_read(), 0);
	memset(the_mem, UNTOUCHED, sizeof(the_mem));
}

static int
no_faults(void **state)
{
	unsetenv(VARIABLE);
	return softrdma_fault_plan_read() ? -1 : teardown_test(state);
}

#define fault_test(function) cmocka_unit_test_setup_teardown(function, setup_test, no_faults)

/* --- writes from one half of the memory to the other, each with its own content --- */

static uint8_t *
source(unsigned n)
{
	return the_mem + n * SLOT;
}

static uint8_t *
target(unsigned n)
{
	return the_mem + MEM_SIZE / 2 + n * SLOT;
}

/* write n has n as its wr_id */
static void
post_writes(struct ibv_qp *qp, unsigned first, unsigned last)
{
	struct ibv_sge sge[SLOTS];
	struct ibv_send_wr wr[SLOTS] = { 0 }, *bad;
	for (unsigned n = first; n <= last; n++) {
		pattern_fill(source(n), SLOT, n, 0);
		sge[n] = (struct ibv_sge){ (uintptr_t)source(n), SLOT, the_mr->lkey };
		wr[n].wr_id = n;
		wr[n].opcode = IBV_WR_RDMA_WRITE;
		wr[n].sg_list = &sge[n];
		wr[n].num_sge = 1;
		wr[n].send_flags = IBV_SEND_SIGNALED;
		wr[n].wr.rdma.remote_addr = (uintptr_t)target(n);
		wr[n].wr.rdma.rkey = the_mr->rkey;
		wr[n].next = n < last ? &wr[n + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(qp, &wr[first], &bad), 0);
}

static bool
is_written(unsigned n)
{
	return pattern_check(target(n), SLOT, n, 0) < 0;
}

static bool
is_untouched(unsigned n)
{
	return pattern_check_byte(target(n), SLOT, UNTOUCHED) < 0;
}

static void
expect_wc(const struct ibv_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, qp->qp_num);
}

static void
expect_no_wc(void)
{
	struct ibv_wc wc;
	for (int i = 0; i < 200; i++) /* enough for a poller to own the connection */
		assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
}

static void
expect_written(const struct ibv_qp *qp, unsigned n)
{
	expect_wc(qp, n, IBV_WC_SUCCESS);
	assert_true(is_written(n));
}

static void
post_recv(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

/* waits without polling; the device's thread writes while it holds the passive side's lock */
static void
wait_for_write(const struct pair_of_ids *p, unsigned n)
{
	struct softrdma_link *link = softrdma_qp_of(p->passive->qp)->link;
	wait_until(locked(link, is_written(n)));
}

static void
expect_disconnected(struct pair_of_ids *p)
{
	expect_event(p->channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p->listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* --- errors of work requests --- */

static void
test_error_of_the_nth(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum ibv_wc_status status;
	} cases[] = {
		{ "wc-error=rem_access@3,connection=1", IBV_WC_REM_ACCESS_ERR },
		{ "wc-error=loc_prot@3,connection=1", IBV_WC_LOC_PROT_ERR },
		{ "wc-error=rnr_retry_exc@3,connection=1", IBV_WC_RNR_RETRY_EXC_ERR },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair_of_ids p;
		faults(cases[i].text);
		pair_init(&p);
		post_recv(p.active->qp, 77);
		post_writes(p.active->qp, 1, 5);
		expect_written(p.active->qp, 1);
		expect_written(p.active->qp, 2);
		expect_wc(p.active->qp, 3, cases[i].status);
		expect_wc(p.active->qp, 4, IBV_WC_WR_FLUSH_ERR);
		expect_wc(p.active->qp, 5, IBV_WC_WR_FLUSH_ERR);
		expect_wc(p.active->qp, 77, IBV_WC_WR_FLUSH_ERR);
		assert_true(is_untouched(3) && is_untouched(4) && is_untouched(5));
		expect_state(p.active->qp, IBV_QPS_ERR);
		post_writes(p.active->qp, 6, 6);
		expect_wc(p.active->qp, 6, IBV_WC_WR_FLUSH_ERR);
		assert_true(is_untouched(6));
		/* the other side has seen nothing yet, and finds out in the same way as on hardware */
		expect_state(p.passive->qp, IBV_QPS_RTS);
		expect_no_event(p.channel);
		expect_no_event(p.listener.channel);
		post_writes(p.passive->qp, 7, 7);
		expect_wc(p.passive->qp, 7, IBV_WC_RETRY_EXC_ERR);
		assert_true(is_untouched(7));
		assert_true(log_has("injected fault: an error for work request 3 of connection 1"));
		pair_fini(&p);
	}
}

/* requests sent earlier complete first, even a read; the first request has none before it */
static void
test_error_behind_a_read(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("wc-error=fatal@2,connection=1");
	pair_init(&p);
	pattern_fill(target(0), SLOT, 42, 0);
	struct ibv_sge sge = { (uintptr_t)source(0), SLOT, the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 9,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)target(0);
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	post_writes(p.active->qp, 1, 1);
	expect_wc(p.active->qp, 9, IBV_WC_SUCCESS);
	assert_true(pattern_check(source(0), SLOT, 42, 0) < 0);
	expect_wc(p.active->qp, 1, IBV_WC_FATAL_ERR);
	assert_true(is_untouched(1));
	pair_fini(&p);

	faults("wc-error=rem_op,connection=1"); /* every request: so the first one fails */
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	expect_wc(p.active->qp, 1, IBV_WC_REM_OP_ERR);
	assert_true(is_untouched(1));
	pair_fini(&p);
}

/* the other connections of the process are not affected */
static void
test_other_connections(void **state)
{
	(void)state;
	struct pair_of_ids p, q;
	faults("wc-error=rem_op@1,connection=3");
	pair_init(&p);
	pair_init(&q);
	assert_null(softrdma_connection_of(softrdma_qp_of(p.active->qp)->link)->fault_inject);
	assert_null(softrdma_connection_of(softrdma_qp_of(q.passive->qp)->link)->fault_inject);
	post_writes(q.active->qp, 1, 1);
	expect_wc(q.active->qp, 1, IBV_WC_REM_OP_ERR);
	post_writes(p.active->qp, 2, 3);
	expect_written(p.active->qp, 2);
	expect_written(p.active->qp, 3);
	pair_fini(&q);
	pair_fini(&p);
}

/* --- the end of a connection --- */

static void
test_disconnect_after(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("disconnect-after=2,connection=1");
	pair_init(&p);
	post_recv(p.passive->qp, 77);
	post_writes(p.active->qp, 1, 1);
	expect_written(p.active->qp, 1);
	expect_no_event(p.channel);
	post_writes(p.active->qp, 2, 4);
	expect_written(p.active->qp, 2);
	expect_wc(p.active->qp, 3, IBV_WC_WR_FLUSH_ERR);
	expect_wc(p.active->qp, 4, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_untouched(3) && is_untouched(4));
	expect_disconnected(&p);
	assert_true(log_has("injected fault: connection 1 ends after work request 2"));
	/* its receives stay until this side disconnects too */
	expect_no_wc();
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
	expect_wc(p.passive->qp, 77, IBV_WC_WR_FLUSH_ERR);
	pair_fini(&p);
}

static void
test_disconnect(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("disconnect=3000s,connection=2");
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	expect_written(p.active->qp, 1);
	clock_forward_ms(2000000);
	post_writes(p.active->qp, 2, 2);
	expect_written(p.active->qp, 2);
	expect_no_event(p.channel);
	clock_forward_ms(1000000);
	expect_disconnected(&p);
	post_writes(p.active->qp, 3, 3);
	expect_wc(p.active->qp, 3, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_untouched(3));
	assert_true(log_has("injected fault: connection 2 ends, its time is over"));
	pair_fini(&p);
}

/* a connection that has ended early ends only once */
static void
test_disconnect_of_a_closed_one(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("disconnect=3000s");
	pair_init(&p);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_disconnected(&p);
	clock_forward_ms(3000000);
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
	wait_until(locked(link, softrdma_connection_of(link)->fd < 0));
	assert_false(log_has("its time is over"));
	expect_no_event(p.channel);
	expect_no_event(p.listener.channel);
	pair_fini(&p);
}

/* --- silence --- */

static void
test_silent_requests(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("drop-after=2,retry-timeout=1000s,connection=1");
	pair_init(&p);
	post_recv(p.passive->qp, 77);
	post_writes(p.active->qp, 1, 4);
	expect_written(p.active->qp, 1);
	expect_written(p.active->qp, 2);
	clock_forward_ms(900000);
	expect_no_wc();
	expect_no_event(p.channel);
	expect_no_event(p.listener.channel);
	assert_true(log_has("injected fault: connection 1 is silent after 2 frames"));
	clock_forward_ms(100000);
	expect_wc(p.active->qp, 3, IBV_WC_RETRY_EXC_ERR);
	expect_wc(p.active->qp, 4, IBV_WC_WR_FLUSH_ERR);
	expect_wc(p.passive->qp, 77, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_untouched(3) && is_untouched(4));
	expect_disconnected(&p);
	pair_fini(&p);
}

/*
 * the request is executed and its response is lost: an error does not tell whether the request was executed
 */
static void
test_silent_answers(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("drop-after=1,retry-timeout=1000s,connection=2");
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	expect_written(p.active->qp, 1);
	post_writes(p.active->qp, 2, 3);
	wait_for_write(&p, 3);
	expect_no_wc();
	clock_forward_ms(1000000);
	expect_wc(p.active->qp, 2, IBV_WC_RETRY_EXC_ERR);
	expect_wc(p.active->qp, 3, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_written(2));
	expect_disconnected(&p);
	pair_fini(&p);
}

/* in the middle of a message: the target has received its beginning */
static void
test_silent_in_a_message(void **state)
{
	(void)state;
	struct pair_of_ids p;
	const size_t len = 3 * (size_t)SOFTRDMA_SEGMENT_MAX, there = 2 * (size_t)SOFTRDMA_SEGMENT_MAX;
	uint8_t *mem = malloc(2 * len);
	assert_non_null(mem);
	pattern_fill(mem, len, 5, 0);
	memset(mem + len, UNTOUCHED, len);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, 2 * len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	faults("drop-after=2,retry-timeout=1000s,connection=1");
	pair_init(&p);
	struct ibv_sge sge = { (uintptr_t)mem, (uint32_t)len, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)mem + len;
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	struct softrdma_link *link = softrdma_qp_of(p.passive->qp)->link;
	wait_until(locked(link, pattern_check(mem + len, there, 5, 0) < 0));
	link = softrdma_qp_of(p.active->qp)->link;
	wait_until(locked(link,
		softrdma_connection_of(link)->fault_inject->silent)); /* its time is counted from here */
	clock_forward_ms(1000000);
	expect_wc(p.active->qp, 1, IBV_WC_RETRY_EXC_ERR);
	expect_disconnected(&p);
	assert_true(pattern_check(mem + len, there, 5, 0) < 0);
	assert_true(pattern_check_byte(mem + len + there, len - there, UNTOUCHED) < 0);
	pair_fini(&p);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	free(mem);
}

/* the end of the connection is not received either */
static void
test_silent_goodbye(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("drop-after=0,retry-timeout=60s,connection=1");
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	expect_no_wc();
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_wc(p.active->qp, 1, IBV_WC_WR_FLUSH_ERR);
	assert_true(is_untouched(1));
	struct softrdma_link *link = softrdma_qp_of(p.active->qp)->link;
	assert_false(locked(link, softrdma_connection_of(link)->fin_sent));
	expect_no_event(p.listener.channel);
	/* as with a peer that does not respond */
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS);
	expect_disconnected(&p);
	pair_fini(&p);
}

/* --- delays --- */

static void
test_delay_of_the_nth(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("delay=1000s@2,connection=1");
	pair_init(&p);
	post_writes(p.active->qp, 1, 4);
	expect_written(p.active->qp, 1);
	expect_no_wc();
	clock_forward_ms(900000);
	expect_no_wc();
	assert_true(is_untouched(2) && is_untouched(3) && is_untouched(4)); /* order is kept */
	clock_forward_ms(100000);
	expect_written(p.active->qp, 2);
	expect_written(p.active->qp, 3);
	expect_written(p.active->qp, 4);
	expect_no_event(p.channel);
	pair_fini(&p);
}

/* without a poller, the device's thread sends the delayed frame */
static void
test_delay_without_poller(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("delay=1000s,connection=1");
	pair_init(&p);
	post_writes(p.active->qp, 1, 2);
	assert_true(is_untouched(1));
	clock_forward_ms(1000000);
	wait_for_write(&p, 1);
	assert_true(is_untouched(2));
	clock_forward_ms(1000000);
	wait_for_write(&p, 2);
	expect_written(p.active->qp, 1);
	expect_written(p.active->qp, 2);
	pair_fini(&p);
}

/* when the earlier of two times is over, the later one still counts */
static void
test_two_times(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("delay=1000s@1,disconnect=3000s,connection=1");
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	clock_forward_ms(1000000);
	wait_for_write(&p, 1);
	expect_written(p.active->qp, 1); /* its response also arrives in time */
	expect_no_event(p.channel);
	clock_forward_ms(2000000);
	expect_disconnected(&p);
	pair_fini(&p);
}

/* with a running clock: each frame is delayed by its time, and the order is kept */
static void
test_delays_of_answers(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("delay=3ms,connection=2");
	pair_init(&p);
	for (unsigned n = 1; n <= 7; n++) {
		uint64_t before = movable_now_ns();
		post_writes(p.active->qp, n, n);
		expect_written(p.active->qp, n);
		assert_true(movable_now_ns() - before >= 3000000);
	}
	pair_fini(&p);
}

/* a frame whose memory is deregistered during the delay is not sent */
static void
test_deregistered_while_delayed(void **state)
{
	(void)state;
	struct pair_of_ids p;
	uint8_t bytes[SLOT] = { 1 };
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, bytes, sizeof(bytes), 0);
	faults("delay=1000s@1,connection=1");
	pair_init(&p);
	struct ibv_sge sge = { (uintptr_t)bytes, SLOT, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)target(1);
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	expect_wc(p.active->qp, 1, IBV_WC_LOC_PROT_ERR);
	clock_forward_ms(1000000);
	expect_disconnected(&p);
	assert_true(is_untouched(1));
	pair_fini(&p);
}

/* destroying a queue pair does not discard its delayed responses */
static void
test_destroyed_while_delayed(void **state)
{
	(void)state;
	struct pair_of_ids p;
	faults("delay=3600s,connection=2");
	pair_init(&p);
	post_writes(p.active->qp, 1, 1);
	wait_for_write(&p, 1);
	struct softrdma_link *link = softrdma_qp_of(p.passive->qp)->link;
	wait_until(locked(link, softrdma_connection_of(link)->fault_inject->held_until != 0));
	softrdma_rdma_destroy_qp(p.passive);
	expect_wc(p.active->qp, 1, IBV_WC_SUCCESS);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	pair_fini(&p);
}

/* --- requests for a connection --- */

static void
test_rejected_requests(void **state)
{
	(void)state;
	struct listener l;
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5 };
	faults("reject@2");
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	for (int n = 1; n <= 3; n++) {
		struct rdma_cm_id *id = new_active(channel, &l.addr);
		assert_int_equal(softrdma_rdma_connect(id, &param), 0);
		if (n == 2) {
			struct rdma_cm_event *event = take_event(channel, RDMA_CM_EVENT_REJECTED);
			assert_int_equal(event->status, SOFTRDMA_REJECT_CONSUMER);
			assert_int_equal(event->param.conn.private_data_len, 0);
			assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
			expect_no_event(l.channel);
			assert_true(log_has("injected fault: the request of 127.0.0.1:"));
		} else {
			struct rdma_cm_id *request =
				expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
			give_qp(request);
			assert_int_equal(softrdma_rdma_accept(request, NULL), 0);
			expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
			expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
			post_writes(id->qp, (unsigned)n, (unsigned)n);
			expect_written(id->qp, (unsigned)n);
			destroy(request);
			expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		}
		destroy(id);
	}
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

/* --- flushes --- */

struct shared_memory {
	int fd;
	uint8_t *mem;
	struct ibv_mr *mr;
};

static void
shared_memory_init(struct shared_memory *s)
{
	s->fd = memfd_create("test_fault_inject", MFD_CLOEXEC);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, 4096), 0);
	s->mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_ptr_not_equal(s->mem, MAP_FAILED);
	s->mr = softrdma_ibv_reg_mr(the_pd, s->mem, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(s->mr);
}

static void
shared_memory_fini(struct shared_memory *s)
{
	assert_int_equal(softrdma_ibv_dereg_mr(s->mr), 0);
	munmap(s->mem, 4096);
	close(s->fd);
}

static void
flush(struct ibv_qp *qp, uint64_t wr_id, const struct shared_memory *s)
{
	assert_int_equal(post_flush(qp, wr_id, IBV_SEND_SIGNALED, s->mr->rkey, (uintptr_t)s->mem, 4096,
				 SOFTRDMA_FLUSH_PERSISTENT),
		0);
}

/* a failed flush does not touch the medium and does not report success */
static void
test_flush_error(void **state)
{
	(void)state;
	static const char *const texts[] = { "flush-error@2,connection=2",
		"flush-error@2,slow-flush=1ms,connection=2" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct pair_of_ids p;
		struct shared_memory s;
		shared_memory_init(&s);
		faults(texts[i]);
		pair_init(&p);
		flush(p.active->qp, 1, &s);
		expect_wc(p.active->qp, 1, IBV_WC_SUCCESS);
		fail_call(FAIL_ANY, "msync", 0, FAIL_FOR_EVER, EIO);
		flush(p.active->qp, 2, &s);
		post_writes(p.active->qp, 3, 3);
		expect_wc(p.active->qp, 2, IBV_WC_REM_OP_ERR);
		expect_wc(p.active->qp, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(fail_nothing(), 0);
		assert_true(is_untouched(3));
		expect_state(p.active->qp, IBV_QPS_ERR);
		expect_state(p.passive->qp, IBV_QPS_ERR);
		assert_true(log_has("injected fault: flush 2 of connection 2 fails"));
		pair_fini(&p);

		/* the next connection finds a medium that works */
		pair_init(&p);
		flush(p.active->qp, 4, &s);
		expect_wc(p.active->qp, 4, IBV_WC_SUCCESS);
		pair_fini(&p);
		shared_memory_fini(&s);
	}
}

/* a flush that only takes longer reaches the medium, which may fail */
static void
test_slow_flush(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct shared_memory s;
	shared_memory_init(&s);
	faults("slow-flush=30ms@2");
	pair_init(&p);
	flush(p.active->qp, 1, &s);
	expect_wc(p.active->qp, 1, IBV_WC_SUCCESS);
	assert_false(log_has("takes its time"));
	uint64_t before = movable_now_ns();
	flush(p.active->qp, 2, &s);
	post_writes(p.active->qp, 3, 3);
	expect_wc(p.active->qp, 2, IBV_WC_SUCCESS);
	assert_true(movable_now_ns() - before >= 30000000);
	assert_true(log_has("injected fault: flush 2 of connection 2 takes its time"));
	expect_written(p.active->qp, 3);
	pair_fini(&p);

	faults("slow-flush=1ms");
	pair_init(&p);
	assert_int_equal(ftruncate(s.fd, 0), 0);
	flush(p.active->qp, 4, &s);
	expect_wc(p.active->qp, 4, IBV_WC_REM_OP_ERR);
	pair_fini(&p);
	shared_memory_fini(&s);
}

/* --- reproducible --- */

/* the outcome of 40 connections that write until they fail; one letter for each work request */
static void
outcomes(const char *text, char seen[static 1024])
{
	char *at = seen;
	faults(text);
	for (int i = 0; i < 40; i++) {
		struct pair_of_ids p;
		pair_init(&p);
		struct ibv_wc wc = { 0 };
		for (unsigned n = 0; n < SLOTS && wc.status == IBV_WC_SUCCESS; n++) {
			post_writes(p.active->qp, n, n);
			wc = next_wc();
			assert_int_equal(wc.wr_id, n);
			*at++ = wc.status == IBV_WC_SUCCESS ? 'w' : 'X';
		}
		*at++ = ' ';
		pair_fini(&p);
	}
	*at = '\0';
	unsetenv(VARIABLE); /* the plan starts again when the same text is set again */
	assert_int_equal(softrdma_fault_plan_read(), 0);
}

static void
test_reproducible(void **state)
{
	(void)state;
	char first[1024], again[1024], other[1024];
	outcomes("wc-error=general@10%,delay=10us@50%,seed=7", first);
	outcomes("wc-error=general@10%,delay=10us@50%,seed=7", again);
	outcomes("wc-error=general@10%,delay=10us@50%,seed=8", other);
	assert_string_equal(first, again);
	assert_string_not_equal(first, other);
	assert_non_null(strchr(first, 'X'));
	assert_non_null(strchr(first, 'w'));
}

/* --- resources --- */

static void
test_no_memory(void **state)
{
	(void)state;
	faults("delay=1ms");
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	static const char *const calls[] = { "malloc", "calloc" }; /* the link, and its fault state */
	for (int i = 0; i < 2; i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENOMEM);
		assert_null(softrdma_connection_new());
		assert_int_equal(fail_nothing(), 1);
	}
	struct softrdma_link *link = softrdma_connection_new();
	assert_non_null(link);
	assert_non_null(softrdma_connection_of(link)->fault_inject);
	softrdma_link_put(link);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* without the variable a link has no fault state */
static void
test_none(void **state)
{
	(void)state;
	struct softrdma_link *link = softrdma_connection_new();
	assert_null(softrdma_connection_of(link)->fault_inject);
	assert_int_equal(link->tx.frames_max, SOFTRDMA_TX_FRAMES);
	softrdma_link_put(link);
	faults("reject");
	link = softrdma_connection_new();
	assert_null(softrdma_connection_of(link)->fault_inject);
	softrdma_link_put(link);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		fault_test(test_none),
		fault_test(test_no_memory),
		fault_test(test_error_of_the_nth),
		fault_test(test_error_behind_a_read),
		fault_test(test_other_connections),
		fault_test(test_disconnect_after),
		fault_test(test_disconnect),
		fault_test(test_disconnect_of_a_closed_one),
		fault_test(test_silent_requests),
		fault_test(test_silent_answers),
		fault_test(test_silent_in_a_message),
		fault_test(test_silent_goodbye),
		fault_test(test_delay_of_the_nth),
		fault_test(test_delay_without_poller),
		fault_test(test_two_times),
		fault_test(test_delays_of_answers),
		fault_test(test_deregistered_while_delayed),
		fault_test(test_destroyed_while_delayed),
		fault_test(test_rejected_requests),
		fault_test(test_flush_error),
		fault_test(test_slow_flush),
		fault_test(test_reproducible),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
