/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_waiter.c -- a thread that waits for a completion serves its connections itself */

#include <signal.h>
#include <sys/mman.h>

#include "connected.h"
#include "softrdma/base/env.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/reader.h"
#include "softrdma/engine/waiter.h"

#define LARGE ((size_t)32 << 20)

/* --- the progress thread is held, so the waiting thread does all the work --- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate;

static void
wait_at_gate(uint64_t now_ns)
{
	(void)now_ns;
	at_gate = true;
	pthread_mutex_lock(&gate);
	at_gate = false;
	pthread_mutex_unlock(&gate);
}

static void
shut_gate(void)
{
	pthread_mutex_lock(&gate);
	softrdma_engine_at_beat(wait_at_gate);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, 1);
	wait_until(at_gate);
}

static void
open_gate(void)
{
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_DEADLINES, -1);
	pthread_mutex_unlock(&gate);
}

/* --- connections whose completions raise events --- */

static struct ibv_comp_channel *channel;
static struct ibv_cq *event_cq;

static void
channel_init(void)
{
	channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	event_cq = softrdma_ibv_create_cq(softrdma_context(), 64, &channel, channel, 0);
	assert_non_null(event_cq);
}

static void
channel_fini(void)
{
	assert_int_equal(softrdma_ibv_destroy_cq(event_cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
}

/* a pair of ids; both sides complete in this queue */
static void
pair_init_with(struct pair_of_ids *p, struct ibv_cq *cq)
{
	struct ibv_cq *usual = the_cq;
	the_cq = cq;
	pair_init(p);
	the_cq = usual;
}

static void
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

static void
expect_cq_event(struct ibv_cq *cq)
{
	struct ibv_cq *got = NULL;
	void *context = NULL;
	assert_int_equal(softrdma_ibv_get_cq_event(channel, &got, &context), 0);
	assert_ptr_equal(got, cq);
	softrdma_ibv_ack_cq_events(got, 1);
}

static void
expect_wc(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc = { 0 };
	assert_int_equal(softrdma_cq_pop(softrdma_cq_of(cq), 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static struct softrdma_link *
link_of(const struct rdma_cm_id *id)
{
	return softrdma_qp_of(id->qp)->link;
}

/* --- a thread that waits --- */

struct wait {
	pthread_t thread;
	int ret;
};

static void *
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

static void
wait_begin(struct wait *wait)
{
	assert_int_equal(pthread_create(&wait->thread, NULL, wait_for_event, wait), 0);
}

static void
wait_end(struct wait *wait)
{
	assert_int_equal(pthread_join(wait->thread, NULL), 0);
	assert_int_equal(wait->ret, 0);
}

/* --- tests --- */

/* the waiting thread serves both sides of the write */
static void
test_needs_no_other_thread(void **state)
{
	(void)state;
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	memset(the_mem, 0x17, 64);
	memset(the_mem + MEM_SIZE / 2, 0, 64);

	shut_gate();
	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		post_write(p.active->qp, the_mr, 64, i);
		expect_cq_event(event_cq);
		expect_wc(event_cq, i);
		/* the descriptor does not count an event that was taken */
		assert_false(readable(channel->fd, 0));
	}
	assert_memory_equal(the_mem, the_mem + MEM_SIZE / 2, 64);
	assert_true(locked(link_of(p.active),
		softrdma_connection_of(link_of(p.active))->reader != SOFTRDMA_READER_BORROWER));
	open_gate();

	/* without a waiting thread, the progress thread serves the connections again */
	the_mem[0]++;
	post_write(p.active->qp, the_mr, 64, 4);
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1);
	expect_wc(event_cq, 4);
	assert_int_equal(the_mem[MEM_SIZE / 2], the_mem[0]);
	pair_fini(&p);
	channel_fini();
}

/* a waiter takes one event; the descriptor reports the others */
static void
test_more_events_than_one(void **state)
{
	(void)state;
	struct pair_of_ids p, q;
	channel_init();
	struct ibv_cq *other = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, channel, 0);
	assert_non_null(other);
	pair_init_with(&p, event_cq);
	pair_init_with(&q, other);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);

	struct softrdma_comp_channel *ch = (struct softrdma_comp_channel *)channel;
	const struct ibv_wc wc = { .wr_id = 1 };
	softrdma_comp_channel_serve(ch);
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	assert_true(softrdma_cq_push(softrdma_cq_of(other), &wc, false));
	softrdma_comp_channel_serve(NULL);
	assert_false(readable(channel->fd, 0));
	assert_true(softrdma_comp_channel_has_event(ch));
	expect_cq_event(event_cq);
	assert_true(readable(channel->fd, 0));
	expect_cq_event(other);
	assert_false(readable(channel->fd, 0));

	/* the same if the queue is destroyed */
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(other, 0), 0);
	softrdma_comp_channel_serve(ch);
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	assert_true(softrdma_cq_push(softrdma_cq_of(other), &wc, false));
	softrdma_comp_channel_serve(NULL);
	pair_fini(&q);
	assert_int_equal(softrdma_ibv_destroy_cq(other), 0);
	assert_true(readable(channel->fd, 0));
	expect_cq_event(event_cq);
	assert_false(readable(channel->fd, 0));
	pair_fini(&p);
	channel_fini();
}

static enum softrdma_reader
reader_of(const struct rdma_cm_id *id)
{
	struct softrdma_link *link = link_of(id);
	return locked(link, softrdma_connection_of(link)->reader);
}

static void
write_and_wait(const struct pair_of_ids *p, uint64_t wr_id)
{
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p->active->qp, the_mr, 8, wr_id);
	expect_cq_event(event_cq);
	expect_wc(event_cq, wr_id);
}

/* waits that follow each other closely: the thread keeps the sockets between them, and no other one reads them */
static void
test_keeps_the_sockets(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct pair_of_ids p;
	struct wait wait;
	channel_init();
	pair_init_with(&p, event_cq);
	const struct softrdma_connection *conn = softrdma_connection_of(link_of(p.active));
	clock_stop(); /* no beat comes, however busy the machine is */
	write_and_wait(&p, 1);
	write_and_wait(&p, 2);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ABSENT);
	assert_true(locked(link_of(p.active), is_checked(conn)));
	write_and_wait(&p, 3);
	clock_go_on();

	/* another thread may wait in its place; while it sleeps, no beat looks at the socket */
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	wait_until(locked(link_of(p.active), !is_checked(conn)) &&
		reader_of(p.active) == SOFTRDMA_READER_BORROWER);
	post_write(p.active->qp, the_mr, 8, 4);
	wait_end(&wait);
	expect_wc(event_cq, 4);

	/* the thread does not come back: the progress thread finds that, and serves the connections */
	clock_stop();
	write_and_wait(&p, 5);
	write_and_wait(&p, 6);
	assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ABSENT);
	clock_go_on();
	post_write(p.active->qp, the_mr, 8, 7);
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1);
	expect_wc(event_cq, 7);
	assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ENGINE);
	assert_true(locked(link_of(p.passive), softrdma_connection_of(link_of(p.passive))->own_again_ns > 0));
	assert_false(locked(link_of(p.passive), is_checked(softrdma_connection_of(link_of(p.passive)))));

	/* a socket that is kept can be closed */
	wait_until(softrdma_now_ns() >= locked(link_of(p.active), conn->own_again_ns));
	clock_stop();
	write_and_wait(&p, 8);
	write_and_wait(&p, 9);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ABSENT);
	clock_go_on();
	pair_fini(&p);
	channel_fini();
	unsetenv("SOFTRDMA_SPIN_US");
}

/* moves the clock to a time at which a waiter that has kept its sockets comes back late */
static void
let_time_pass(void)
{
	clock_forward_ms(5000);
}

/* a thread that keeps its sockets and does something else has let the peer's requests wait: it may not keep them for a while */
static void
test_comes_back_late(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct pair_of_ids p;
	struct ibv_wc wc;
	channel_init();
	pair_init_with(&p, event_cq);
	struct softrdma_connection *conn = softrdma_connection_of(link_of(p.passive));
	shut_gate();
	write_and_wait(&p, 1);
	write_and_wait(&p, 2);
	assert_int_equal(reader_of(p.passive), SOFTRDMA_READER_ABSENT);

	/* nothing has come, or it is soon enough */
	let_time_pass();
	assert_true(softrdma_reader_borrow(&conn->link) >= 0);
	softrdma_reader_keep(&conn->link);
	post_write(p.active->qp, the_mr, 8, 3);
	assert_true(softrdma_reader_borrow(&conn->link) >= 0);
	assert_true(locked(&conn->link, conn->own_again_ns) == 0);

	softrdma_reader_keep(&conn->link);
	let_time_pass();
	assert_true(softrdma_reader_borrow(&conn->link) >= 0);
	assert_true(locked(&conn->link, conn->own_again_ns) > softrdma_now_ns());

	/* the same for a thread that polls first */
	locked(&conn->link, conn->own_again_ns = 0);
	softrdma_reader_keep(&conn->link);
	let_time_pass();
	assert_int_equal(ibv_poll_cq(event_cq, 0, &wc), 0);
	assert_true(locked(&conn->link, conn->own_again_ns) > softrdma_now_ns());
	open_gate();
	wait_until(atomic_load(&softrdma_cq_of(event_cq)->count) == 1);
	expect_wc(event_cq, 3);
	pair_fini(&p);
	channel_fini();
	unsetenv("SOFTRDMA_SPIN_US");
}

/* what the socket did not take, or a flush holds up, the progress thread goes on with */
static void
test_keeps_no_busy_sockets(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	struct pair_of_ids p;
	channel_init();
	pair_init_with(&p, event_cq);
	struct softrdma_link *link = link_of(p.active);
	assert_true(softrdma_reader_borrow(link) >= 0);
	locked(link, link->tx.count = 1);
	softrdma_reader_keep(link);
	locked(link, link->tx.count = 0);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);

	assert_true(softrdma_reader_borrow(link) >= 0);
	softrdma_reader_keep(link);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ABSENT);
	locked(link, softrdma_connection_of(link)->flush_running = true);
	assert_int_equal(softrdma_reader_borrow(link), -1);
	locked(link, softrdma_connection_of(link)->flush_running = false);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);

	/* a thread that has let input wait before */
	locked(link, softrdma_connection_of(link)->own_again_ns = UINT64_MAX);
	assert_true(softrdma_reader_borrow(link) >= 0);
	softrdma_reader_keep(link);
	assert_int_equal(reader_of(p.active), SOFTRDMA_READER_ENGINE);
	pair_fini(&p);
	channel_fini();
	unsetenv("SOFTRDMA_SPIN_US");
}

/* another thread posts more than the socket holds: all of it is sent */
static void
test_full_socket(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	void *mem = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	struct ibv_mr *mr =
		softrdma_ibv_reg_mr(the_pd, mem, 2 * LARGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	memset(mem, 0x2a, LARGE);
	channel_init();
	pair_init_with(&p, event_cq);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	wait_until(locked(link_of(p.active),
		softrdma_connection_of(link_of(p.active))->reader == SOFTRDMA_READER_BORROWER));

	post_write(p.active->qp, mr, LARGE, 1);
	wait_end(&wait);
	expect_wc(event_cq, 1);
	assert_memory_equal(mem, (char *)mem + LARGE, LARGE);
	pair_fini(&p);
	channel_fini();
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, 2 * LARGE);
}

/* the end of a connection is reported, even while a thread waits for it */
static void
test_connection_ends(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	channel_init();
	pair_init_with(&p, event_cq);
	wait_begin(&wait);
	wait_until(locked(link_of(p.active),
		softrdma_connection_of(link_of(p.active))->reader == SOFTRDMA_READER_BORROWER));
	wait_until(locked(link_of(p.passive),
		softrdma_connection_of(link_of(p.passive))->reader == SOFTRDMA_READER_BORROWER));
	softrdma_rdma_destroy_qp(p.active);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);

	/* and the thread waits until something completes */
	struct ibv_recv_wr wr = { .wr_id = 5 };
	struct ibv_recv_wr *bad;
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(ibv_post_recv(p.passive->qp, &wr, &bad), 0);
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
	wait_end(&wait);
	pair_fini(&p);
	channel_fini();
}

/* if a socket is closed while a waiter polls it, the other side sees the end, too */
static void
test_closed_while_borrowed(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct wait wait;
	channel_init();
	pair_init_with(&p, event_cq);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	struct softrdma_link *link = link_of(p.active);
	wait_until(locked(link, softrdma_connection_of(link)->reader == SOFTRDMA_READER_BORROWER));
	wait_until(locked(link_of(p.passive),
		softrdma_connection_of(link_of(p.passive))->reader == SOFTRDMA_READER_BORROWER));
	pthread_mutex_lock(&link->lock);
	softrdma_link_lost(link);
	softrdma_connection_detach(link);
	pthread_mutex_unlock(&link->lock);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);

	const struct ibv_wc wc = { .wr_id = 1 };
	assert_true(softrdma_cq_push(softrdma_cq_of(event_cq), &wc, false));
	wait_end(&wait);
	pair_fini(&p);
	channel_fini();
}

/* sockets that cannot be borrowed, or are too many, are left to the progress thread */
static void
test_not_borrowed(void **state)
{
	(void)state;
	struct pair_of_ids p[3];
	struct wait wait;
	channel_init();
	for (int i = 0; i < 3; i++)
		pair_init_with(&p[i], event_cq);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	wait_begin(&wait);
	post_write(p[0].active->qp, the_mr, 8, 1);
	wait_end(&wait);
	for (int i = 0; i < 3; i++)
		assert_false(locked(link_of(p[i].active),
			softrdma_connection_of(link_of(p[i].active))->reader == SOFTRDMA_READER_BORROWER));
	expect_wc(event_cq, 1);
	pair_fini(&p[2]);
	pair_fini(&p[1]);

	/* one of two queues is in use at the moment: the first or the second in the search */
	struct softrdma_link *links[4];
	struct softrdma_comp_channel *ch = (struct softrdma_comp_channel *)channel;
	struct ibv_cq *other = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, channel, 0);
	assert_non_null(other);
	pair_init_with(&p[1], other);
	struct ibv_cq *cqs[] = { event_cq, other };
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&softrdma_cq_of(cqs[i])->links_lock);
		assert_int_equal(softrdma_comp_channel_links(ch, links, 4), 0);
		pthread_mutex_unlock(&softrdma_cq_of(cqs[i])->links_lock);
	}
	assert_int_equal(softrdma_comp_channel_links(ch, links, 4), 4);
	for (int i = 0; i < 4; i++)
		softrdma_link_put(links[i]);
	pair_fini(&p[1]);
	assert_int_equal(softrdma_ibv_destroy_cq(other), 0);

	/* the kernel refuses, another thread has it, a flush is in progress, or it is not connected */
	struct softrdma_link *link = link_of(p[0].active);
	fail_call(FAIL_MINE, "epoll_ctl", 0, 1, ENOMEM);
	assert_int_equal(softrdma_reader_borrow(link), -1);
	assert_int_equal(fail_nothing(), 1);
	assert_true(softrdma_reader_borrow(link) >= 0);
	assert_int_equal(softrdma_reader_borrow(link), -1);
	softrdma_reader_return(link);
	locked(link, softrdma_connection_of(link)->flush_running = true);
	assert_int_equal(softrdma_reader_borrow(link), -1);
	locked(link, softrdma_connection_of(link)->flush_running = false);
	locked(link, softrdma_connection_of(link)->reader = SOFTRDMA_READER_POLLER);
	assert_int_equal(softrdma_reader_borrow(link), -1);
	locked(link, softrdma_connection_of(link)->reader = SOFTRDMA_READER_ENGINE);
	assert_int_equal(softrdma_rdma_disconnect(p[0].active), 0);
	expect_event(p[0].channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_until(locked(link, softrdma_connection_of(link)->fd < 0));
	assert_int_equal(softrdma_reader_borrow(link), -1);
	assert_false(softrdma_reader_serve_borrowed(link, POLLHUP));
	pair_fini(&p[0]);
	channel_fini();
}

/* --- signals --- */

static atomic_bool ended;
static atomic_int end_error; /* of the wait that has ended; 0 if an event came */

static void *
wait_until_interrupted(void *arg)
{
	(void)arg;
	struct ibv_cq *cq;
	void *context;
	end_error = softrdma_ibv_get_cq_event(channel, &cq, &context) ? errno : 0;
	ended = true;
	return NULL;
}

static void
on_signal(int signal)
{
	(void)signal;
}

/* posts as many writes without completions as there is room for */
static void
post_silent_writes(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 64;
	wr.wr.rdma.rkey = the_mr->rkey;
	while (ibv_post_send(qp, &wr, &bad) == 0)
		;
}

/*
 * A signal ends the wait, even if the peer sends all the time, so that the waiting thread never sleeps: a program must be
 * able to end.
 */
static void
test_signal_while_it_is_busy(void **state)
{
	(void)state;
	struct pair_of_ids p;
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;
	pthread_t thread;
	setenv("SOFTRDMA_SPIN_US", "1000000", 1);
	channel_init();
	pair_init_with(&p, event_cq);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	ended = false;
	assert_int_equal(pthread_create(&thread, NULL, wait_until_interrupted, NULL), 0);
	wait_until(locked(link_of(p.passive),
		softrdma_connection_of(link_of(p.passive))->reader == SOFTRDMA_READER_BORROWER));
	int64_t end = now_ms() + 20;
	while (left_ms(end) > 0)
		post_silent_writes(p.active->qp);
	assert_false(ended);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	end = now_ms() + PATIENCE_MS;
	while (!ended && left_ms(end) > 0)
		post_silent_writes(p.active->qp);
	assert_true(ended);
	pthread_join(thread, NULL);
	assert_int_equal(end_error, EINTR);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	pair_fini(&p);
	channel_fini();
	unsetenv("SOFTRDMA_SPIN_US");
}

/* what the thread blocks is the same after a wait */
static void
test_signal_mask_stays(void **state)
{
	(void)state;
	struct pair_of_ids p;
	sigset_t blocked, before, after;
	channel_init();
	pair_init_with(&p, event_cq);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(p.active->qp, the_mr, 8, 1);
	expect_cq_event(event_cq);
	expect_wc(event_cq, 1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
	sigaddset(&before, SIGUSR2);
	for (int signal = 1; signal < NSIG; signal++)
		assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
	pair_fini(&p);
	channel_fini();
}

static void
test_waiting_fails(void **state)
{
	(void)state;
	channel_init();
	fail_call(FAIL_MINE, "ppoll", 0, 1, ENOMEM);
	assert_int_equal(softrdma_waiter_wait((struct softrdma_comp_channel *)channel, PTHREAD_CANCEL_ENABLE),
		ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(softrdma_waiter_wait((struct softrdma_comp_channel *)channel, PTHREAD_CANCEL_ENABLE),
		EAGAIN);
	channel_fini();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_needs_no_other_thread),
		device_test(test_more_events_than_one),
		device_test(test_keeps_the_sockets),
		device_test(test_comes_back_late),
		device_test(test_keeps_no_busy_sockets),
		device_test(test_full_socket),
		device_test(test_connection_ends),
		device_test(test_closed_while_borrowed),
		device_test(test_not_borrowed),
		device_test(test_signal_while_it_is_busy),
		device_test(test_signal_mask_stays),
		device_test(test_waiting_fails),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
