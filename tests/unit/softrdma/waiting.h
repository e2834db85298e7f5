/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * waiting.h -- shared by the tests of threads that wait for completions: a channel, a queue, connections, a thread
 *
 * The progress thread can be held. Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_WAITING_H
#define TEST_SOFTRDMA_WAITING_H

#include "connected.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/pace.h"

/* --- the progress thread is held, so the waiting thread does all the work --- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate;

static inline void
wait_at_gate(uint64_t now_ns)
{
	(void)now_ns;
	at_gate = true;
	pthread_mutex_lock(&gate);
	at_gate = false;
	pthread_mutex_unlock(&gate);
}

static inline void
shut_gate(void)
{
	pthread_mutex_lock(&gate);
	softrdma_engine_at_beat(SOFTRDMA_BEAT_DEADLINES, wait_at_gate);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	clock_forward_ms(20); /* the next beat, also if the clock stands */
	wait_until(at_gate);
}

static inline void
open_gate(void)
{
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	pthread_mutex_unlock(&gate);
}

/* --- threads that compute --- */

/* the clock is the test's own, and processor time is not, so the test says what the device would measure */
static atomic_bool a_thread_computes;

bool __wrap_softrdma_pace_computes(struct softrdma_pace *pace, uint64_t now_ns);

bool
__wrap_softrdma_pace_computes(struct softrdma_pace *pace, uint64_t now_ns)
{
	(void)pace;
	(void)now_ns;
	return a_thread_computes;
}

/* --- connections whose completions raise events --- */

static struct ibv_comp_channel *channel;
static struct ibv_cq *event_cq;

static inline void
channel_init(void)
{
	channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	event_cq = softrdma_ibv_create_cq(softrdma_context(), 64, &channel, channel, 0);
	assert_non_null(event_cq);
}

static inline void
channel_fini(void)
{
	assert_int_equal(softrdma_ibv_destroy_cq(event_cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
}

/* a pair of ids; both sides complete in this queue */
static inline void
pair_init_with(struct pair_of_ids *p, struct ibv_cq *cq)
{
	struct ibv_cq *usual = the_cq;
	the_cq = cq;
	pair_init(p);
	the_cq = usual;
}

static inline void
post_write(struct ibv_qp *qp, const struct ibv_mr *mr, size_t len, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = (uint32_t)len, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + mr->length / 2;
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* the other side gets bytes, and this one an acknowledgement; nothing completes */
static inline void
post_silent_write(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static inline int
post_empty_send(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static inline bool
is_nonblocking(void)
{
	return fcntl(channel->fd, F_GETFL) & O_NONBLOCK;
}

/* waits in the call, or for the descriptor */
static inline void
expect_cq_event(struct ibv_cq *cq)
{
	if (is_nonblocking())
		assert_true(readable(channel->fd, PATIENCE_MS));
	struct ibv_cq *got = NULL;
	void *context = NULL;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), 0);
	assert_ptr_equal(got, cq);
	softrdma_ibv_ack_cq_events(got, 1);
}

static inline void
set_nonblocking(bool is)
{
	assert_int_equal(fcntl(channel->fd, F_SETFL, is ? O_NONBLOCK : 0), 0);
}

/* takes an event of the channel; false: it has none, and the call fails with this error */
static inline bool
get_event_or_error(int error)
{
	struct ibv_cq *cq;
	void *context;
	if (softrdma_ibv_get_cq_event(channel, &cq, &context)) {
		assert_int_equal(errno, error);
		return false;
	}
	softrdma_ibv_ack_cq_events(cq, 1);
	return true;
}

/* the same for a descriptor that is non-blocking */
static inline bool
get_event(void)
{
	return get_event_or_error(EAGAIN);
}

static inline void
expect_wc(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc = { 0 };
	assert_int_equal(softrdma_cq_pop(softrdma_cq_of(cq), 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static inline struct softrdma_link *
link_of(const struct rdma_cm_id *id)
{
	return softrdma_qp_of(id->qp)->link;
}

/* --- a thread that waits --- */

struct wait {
	pthread_t thread;
	int ret;
};

static inline void *
wait_for_event(void *arg)
{
	struct wait *wait = arg;
	struct ibv_cq *cq;
	void *context;

	wait->ret = softrdma_ibv_get_cq_event(channel, &cq, &context);
	if (wait->ret == 0)
		softrdma_ibv_ack_cq_events(cq, 1);
	return NULL;
}

static inline void
wait_begin(struct wait *wait)
{
	assert_int_equal(pthread_create(&wait->thread, NULL, wait_for_event, wait), 0);
}

static inline void
wait_end(struct wait *wait)
{
	assert_int_equal(pthread_join(wait->thread, NULL), 0);
	assert_int_equal(wait->ret, 0);
}

static inline struct softrdma_lead *
the_lead(void)
{
	return &((struct softrdma_comp_channel *)channel)->lead;
}

static inline enum softrdma_reader
reader_of(const struct rdma_cm_id *id)
{
	struct softrdma_link *link = link_of(id);
	return locked(link, softrdma_connection_of(link)->reader);
}

/* one write, whose event the calling thread takes */
static inline void
write_and_wait(const struct pair_of_ids *p, uint64_t wr_id)
{
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p->active->qp, the_mr, 8, wr_id);
	expect_cq_event(event_cq);
	/* a non-blocking descriptor also reports bytes without a completion; the queue stays armed */
	while (is_nonblocking() && atomic_load(&softrdma_cq_of(event_cq)->count) == 0)
		expect_cq_event(event_cq);
	expect_wc(event_cq, wr_id);
}

static inline bool
is_led(const struct rdma_cm_id *id)
{
	return reader_of(id) == SOFTRDMA_READER_LEAD;
}

/*
 * Dense traffic until the lead is on and has the socket of the active side, or of both sides. The clock stands, so that the
 * events follow each other closely and no progress thread looks whether this thread has stopped. Each round ends with a
 * measurement of this thread, so that what it computes later counts only after the clock has gone on.
 */
static inline void
lead_sides(const struct pair_of_ids *p, bool both)
{
	int64_t end = now_ms() + PATIENCE_MS;
	clock_stop();
	do {
		for (int i = 0; i < 20; i++)
			write_and_wait(p, 98);
		clock_forward_ms(10);
		write_and_wait(p, 99);
	} while (!(is_led(p->active) && (!both || is_led(p->passive))) && left_ms(end) > 0);
	assert_true(softrdma_lead_is_on(the_lead()));
	assert_true(is_led(p->active));
	assert_true(!both || is_led(p->passive));
}

static inline void
lead_with(const struct pair_of_ids *p)
{
	lead_sides(p, true);
}

/* --- messages and replies --- */

static atomic_uint sent; /* messages that are known to have arrived */

/* looks until the queue pair has received a message; that look is the last one */
static inline void
await_message(const struct rdma_cm_id *id)
{
	const int64_t end = now_ms() + PATIENCE_MS;
	bool has_come = false;
	while (!has_come && left_ms(end) > 0) {
		struct ibv_wc wc;
		if (softrdma_cq_pop(softrdma_cq_of(event_cq), 1, &wc) == 0) {
			softrdma_lead_look(the_lead());
			continue;
		}
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		has_come = wc.opcode == IBV_WC_RECV && wc.qp_num == id->qp->qp_num;
		sent += wc.opcode == IBV_WC_SEND;
	}
	assert_true(has_come);
}

static inline void
send_message(const struct rdma_cm_id *from, const struct rdma_cm_id *to)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	assert_int_equal(ibv_post_recv(to->qp, &wr, &bad), 0);
	assert_int_equal(post_empty_send(from->qp), 0);
	await_message(to);
}

static inline bool
awaits_reply(const struct rdma_cm_id *id)
{
	struct softrdma_link *link = link_of(id);
	return locked(link, softrdma_connection_of(link)->awaits_reply);
}

/* messages that had replies, and another one, which waits for its reply */
static inline void
send_many(const struct pair_of_ids *p)
{
	for (int i = 0; i < 20; i++) {
		send_message(p->active, p->passive);
		send_message(p->passive, p->active);
	}
	send_message(p->active, p->passive);
	assert_true(awaits_reply(p->passive));
}

/* --- the end --- */

/* the beats at which the progress thread looks at leads, until the lead is off */
static inline void
beats_until_off(void)
{
	int64_t end = now_ms() + PATIENCE_MS;
	while (softrdma_lead_is_on(the_lead()) && left_ms(end) > 0) {
		clock_forward_ms(2);
		poll(NULL, 0, 5); /* longer than the beat */
	}
	assert_false(softrdma_lead_is_on(the_lead()));
}

/* the end of a test of one pair, whose clock may stand */
static inline void
end_with(struct pair_of_ids *p)
{
	clock_go_on();
	pair_fini(p);
	channel_fini();
}

#endif /* TEST_SOFTRDMA_WAITING_H */
