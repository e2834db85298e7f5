/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_cancel.c -- a thread can be cancelled in the two calls that wait for events, and in no other
 *
 * A thread that is to be cancelled makes a whole conversation: it would end at the first cancellation point. Then threads
 * are cancelled while they wait, and everything that they have used goes on.
 */

#include "connected.h"

/* --- all calls, by a thread that is to be cancelled --- */

static const char *last_call;
static const char *failure; /* NULL: none */

/* a call during which the thread can be cancelled. It leaves that as it is. */
#define CALL(call) \
	({ \
		int state_; \
		last_call = #call; \
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state_); \
		__typeof__(call) value_ = (call); \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); \
		if (state_ != PTHREAD_CANCEL_ENABLE) \
			failure = last_call; \
		value_; \
	})

#define CALL_VOID(call) (void)CALL(((call), 0))

#define MUST(condition) \
	do { \
		if (!(condition) && failure == NULL) \
			failure = #condition; \
	} while (0)

static struct ibv_comp_channel *comp_channel;

static struct rdma_cm_id *
next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;
	MUST(readable(channel->fd, PATIENCE_MS)); /* the event is there: the call has nothing to wait for */
	MUST(CALL(softrdma_rdma_get_cm_event(channel, &event)) == 0);
	MUST(event && event->event == type);
	struct rdma_cm_id *id = event ? event->id : NULL;
	if (event)
		MUST(CALL(softrdma_rdma_ack_cm_event(event)) == 0);
	return id;
}

static struct ibv_wc
next_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc = { 0 };
	int64_t end = now_ms() + PATIENCE_MS;
	while (CALL(ibv_poll_cq(cq, 1, &wc)) == 0 && left_ms(end) > 0)
		;
	MUST(wc.status == IBV_WC_SUCCESS && wc.qp_num != 0);
	return wc;
}

static void
await_completion(struct ibv_cq *cq)
{
	struct ibv_cq *got = NULL;
	void *context;
	MUST(readable(comp_channel->fd, PATIENCE_MS));
	MUST(CALL(softrdma_ibv_get_cq_event(comp_channel, &got, &context)) == 0 && got == cq);
	CALL_VOID(softrdma_ibv_ack_cq_events(cq, 1));
	next_completion(cq);
}

struct talk {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct rdma_event_channel *listening, *channel;
	struct rdma_cm_id *listener, *active, *passive;
};

static uint8_t talk_mem[2 * 4096] __attribute__((aligned(4096)));

static void
create_queue_pair(const struct talk *t, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.pd = t->pd;
	attr.send_cq = attr.recv_cq = t->cq;
	MUST(CALL(softrdma_rdma_create_qp_ex(id, &attr)) == 0);
}

static void
begin_talk(struct talk *t)
{
	struct rdma_conn_param param = { .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7 };
	struct sockaddr_in any = loopback(0);
	comp_channel = CALL(softrdma_ibv_create_comp_channel(softrdma_context()));
	t->cq = CALL(softrdma_ibv_create_cq(softrdma_context(), 64, NULL, comp_channel, 0));
	t->pd = CALL(softrdma_ibv_alloc_pd(softrdma_context()));
	t->mr = CALL(softrdma_ibv_reg_mr(t->pd, talk_mem, sizeof(talk_mem),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL));
	t->listening = CALL(softrdma_rdma_create_event_channel());
	t->channel = CALL(softrdma_rdma_create_event_channel());
	MUST(CALL(softrdma_rdma_create_id(t->listening, &t->listener, NULL, RDMA_PS_TCP)) == 0);
	MUST(CALL(softrdma_rdma_bind_addr(t->listener, (struct sockaddr *)&any)) == 0);
	MUST(CALL(softrdma_rdma_listen(t->listener, 0)) == 0);
	struct sockaddr_in addr = t->listener->route.addr.src_sin;
	MUST(CALL(softrdma_rdma_create_id(t->channel, &t->active, NULL, RDMA_PS_TCP)) == 0);
	MUST(CALL(softrdma_rdma_resolve_addr(t->active, NULL, (struct sockaddr *)&addr, 1000)) == 0);
	next_event(t->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(CALL(softrdma_rdma_resolve_route(t->active, 1000)) == 0);
	next_event(t->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_queue_pair(t, t->active);
	CALL_VOID(softrdma_rdma_set_credentials(t->active, NULL));
	MUST(CALL(softrdma_rdma_set_ack_timeout(t->active, 14)) == 0);
	MUST(CALL(softrdma_rdma_connect(t->active, &param)) == 0);
	t->passive = next_event(t->listening, RDMA_CM_EVENT_CONNECT_REQUEST);
	create_queue_pair(t, t->passive);
	MUST(CALL(softrdma_rdma_accept(t->passive, &param)) == 0);
	next_event(t->channel, RDMA_CM_EVENT_ESTABLISHED);
	next_event(t->listening, RDMA_CM_EVENT_ESTABLISHED);
}

static void
end_talk(struct talk *t)
{
	MUST(CALL(softrdma_rdma_disconnect(t->active)) == 0);
	next_event(t->channel, RDMA_CM_EVENT_DISCONNECTED);
	next_event(t->listening, RDMA_CM_EVENT_DISCONNECTED);
	CALL_VOID(softrdma_rdma_destroy_qp(t->active));
	CALL_VOID(softrdma_rdma_destroy_qp(t->passive));
	MUST(CALL(softrdma_rdma_destroy_id(t->active)) == 0);
	MUST(CALL(softrdma_rdma_destroy_id(t->passive)) == 0);
	MUST(CALL(softrdma_rdma_destroy_id(t->listener)) == 0);
	CALL_VOID(softrdma_rdma_destroy_event_channel(t->channel));
	CALL_VOID(softrdma_rdma_destroy_event_channel(t->listening));
	MUST(CALL(softrdma_ibv_dereg_mr(t->mr)) == 0);
	MUST(CALL(softrdma_ibv_dealloc_pd(t->pd)) == 0);
	MUST(CALL(softrdma_ibv_destroy_cq(t->cq)) == 0);
	MUST(CALL(softrdma_ibv_destroy_comp_channel(comp_channel)) == 0);
}

static void
send_one(const struct talk *t, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)talk_mem, .length = 8, .lkey = t->mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)talk_mem + 4096;
	wr.wr.rdma.rkey = t->mr->rkey;
	MUST(CALL(ibv_post_send(t->active->qp, &wr, &bad)) == 0);
}

static void
flush_one(const struct talk *t)
{
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(t->active->qp);
	CALL_VOID(ibv_wr_start(ex));
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	CALL_VOID(softrdma_wr_flush(ex, t->mr->rkey, (uintptr_t)talk_mem, 8, SOFTRDMA_FLUSH_GLOBAL));
	MUST(CALL(ibv_wr_complete(ex)) == 0);
}

static void
exchange(const struct talk *t)
{
	struct ibv_sge sge = { .addr = (uintptr_t)talk_mem + 4096, .length = 8, .lkey = t->mr->lkey };
	struct ibv_recv_wr *bad, recv = { .sg_list = &sge, .num_sge = 1 };
	send_one(t, IBV_WR_RDMA_WRITE);
	next_completion(t->cq);
	send_one(t, IBV_WR_RDMA_READ);
	next_completion(t->cq);
	flush_one(t);
	next_completion(t->cq);
	send_one(t, IBV_WR_SEND); /* there is no receive yet */
	MUST(CALL(ibv_post_recv(t->passive->qp, &recv, &bad)) == 0);
	next_completion(t->cq);
	next_completion(t->cq);
	MUST(CALL(ibv_req_notify_cq(t->cq, 0)) == 0);
	send_one(t, IBV_WR_RDMA_WRITE);
	await_completion(t->cq);
}

/* queues and queue pairs without a connection manager */
static void
make_the_rest(const struct talk *t)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_sge sge = { .addr = (uintptr_t)talk_mem, .length = 8, .lkey = t->mr->lkey };
	struct ibv_port_attr port;
	union ibv_gid gid;
	MUST(CALL(softrdma_ibv_query_port(softrdma_context(), 1, &port)) == 0);
	MUST(CALL(softrdma_ibv_query_gid(softrdma_context(), 1, 0, &gid)) == 0);
	MUST(CALL(softrdma_ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1)) == 0);
	struct ibv_srq *srq = CALL(softrdma_ibv_create_srq(t->pd, &srq_init));
	MUST(CALL(softrdma_ibv_destroy_srq(srq)) == 0);
	struct ibv_qp *qp = CALL(softrdma_ibv_create_qp(t->pd, &init));
	MUST(CALL(softrdma_ibv_modify_qp(qp, &attr,
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) == 0);
	MUST(CALL(softrdma_ibv_query_qp(qp, &attr, 0, &init)) == 0);
	attr.qp_state = IBV_QPS_RESET;
	MUST(CALL(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE)) == 0);
	MUST(CALL(softrdma_ibv_destroy_qp(qp)) == 0);
	CALL_VOID(softrdma_release_gids());
}

static uint32_t completed_locally;

static void *
talk(void *arg)
{
	(void)arg;
	int before;
	struct talk t = { 0 };
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cancel(pthread_self());
	begin_talk(&t);
	for (int i = 0; i < 20; i++) /* the first requests go by TCP in any case */
		exchange(&t);
	struct softrdma_link *link = softrdma_qp_of(t.active->qp)->link;
	completed_locally = locked(link, link->requester.completed_locally);
	make_the_rest(&t);
	end_talk(&t);
	return &failure;
}

static void
expect_talk(void)
{
	pthread_t thread;
	void *result;
	failure = NULL;
	assert_int_equal(pthread_create(&thread, NULL, talk, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	if (result == PTHREAD_CANCELED)
		fail_msg("the thread was cancelled in %s", last_call);
	if (failure)
		fail_msg("failed, or changed the state: %s", failure);
}

static void
test_same_host(void **state)
{
	(void)state;
	if (in_emulator()) {
		print_message(
			"SKIPPED: the emulator has no robust mutexes, which the path of the same host needs\n");
		skip();
	}
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	expect_talk();
	unsetenv("SOFTRDMA_SAME_HOST");
	assert_true(completed_locally > 0);
}

static void
test_plain(void **state)
{
	(void)state;
	expect_talk();
}

static void
test_sums(void **state)
{
	(void)state;
	setenv("SOFTRDMA_CRC", "1", 1);
	expect_talk();
	unsetenv("SOFTRDMA_CRC");
}

#ifdef HAVE_OPENSSL
static void
test_tls(void **state)
{
	(void)state;
	static const char key[] = "a:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	char path[] = "cancel-psk-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, sizeof(key) - 1), sizeof(key) - 1);
	close(fd);
	setenv("SOFTRDMA_TLS_PSK", path, 1);
	expect_talk();
	unsetenv("SOFTRDMA_TLS_PSK");
	unlink(path);
}
#endif

/* --- threads that are cancelled while they wait --- */

static atomic_bool is_about_to_wait;

/* it sees none of the locks that such a thread takes after it was cancelled in a system call */
static void
skip_in_thread_sanitizer(void)
{
	if (in_thread_sanitizer()) {
		print_message("SKIPPED: the thread sanitizer cannot follow a thread that is cancelled\n");
		skip();
	}
}

/* cancels the thread when it sleeps in the kernel; true if it has ended by that */
static bool
cancel_asleep(pthread_t thread)
{
	void *result;
	wait_until(is_about_to_wait);
	await_sleep_of_other_threads();
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return result == PTHREAD_CANCELED;
}

static pthread_t
start(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;
	is_about_to_wait = false;
	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	return thread;
}

static void *
get_cq_event(void *arg)
{
	struct ibv_cq *cq;
	void *context;
	is_about_to_wait = true;
	if (softrdma_ibv_get_cq_event(arg, &cq, &context))
		return NULL;
	softrdma_ibv_ack_cq_events(cq, 1);
	return cq;
}

static void
write_one(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + 4096;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* other threads serve the connections, and the next one that waits gets the event */
static void
test_waiter(void **state)
{
	(void)state;
	skip_in_thread_sanitizer();
	struct pair_of_ids p;
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	struct ibv_cq *usual = the_cq, *cq = softrdma_ibv_create_cq(softrdma_context(), 8, NULL, channel, 0);
	void *result;
	assert_non_null(cq);
	the_cq = cq;
	pair_init(&p);
	for (int i = 0; i < 3; i++) {
		pthread_t thread = start(get_cq_event, channel);
		assert_true(cancel_asleep(thread));
		write_one(p.active->qp); /* the progress thread serves both sides */
		next_wc();
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		thread = start(get_cq_event, channel);
		wait_until(is_about_to_wait);
		write_one(p.passive->qp);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, cq);
		next_wc();
	}
	pair_fini(&p);
	the_cq = usual;
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
}

static void *
get_cm_event(void *arg)
{
	struct rdma_cm_event *event;
	is_about_to_wait = true;
	return softrdma_rdma_get_cm_event(arg, &event) ? NULL : event;
}

static void
test_event_channel(void **state)
{
	(void)state;
	skip_in_thread_sanitizer();
	struct listener l;
	listener_init(&l);
	assert_true(cancel_asleep(start(get_cm_event, l.channel)));
	struct pair_of_ids p = { .listener = l };
	pair_connect(&p, 8);
	pair_fini(&p);
}

static void *
connect_id(void *arg)
{
	is_about_to_wait = true;
	return softrdma_rdma_connect(arg, NULL) ? NULL : arg;
}

/* the peer accepts no connection; the id can be destroyed */
static void
test_synchronous_id(void **state)
{
	(void)state;
	skip_in_thread_sanitizer();
	struct sockaddr_in addr;
	struct rdma_cm_id *id;
	int listening = raw_listen(&addr);
	assert_int_equal(softrdma_rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	give_qp(id);
	assert_true(cancel_asleep(start(connect_id, id)));
	destroy(id);
	close(listening);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_same_host),
		device_test(test_plain),
		device_test(test_sums),
#ifdef HAVE_OPENSSL
		device_test(test_tls),
#endif
		device_test(test_waiter),
		device_test(test_event_channel),
		device_test(test_synchronous_id),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
