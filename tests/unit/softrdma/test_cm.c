/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_cm.c -- ids, event channels and events: which object gets an event, and in which order objects may be
 * destroyed
 */

#include "connected.h"
#include "softrdma/cm/event.h"

#include <signal.h>

/* --- channels --- */

static void
test_channel(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	assert_true(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	expect_no_event(channel);
	softrdma_rdma_destroy_event_channel(channel);

	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_null(softrdma_rdma_create_event_channel());
	assert_int_equal(errno, ENOMEM);
	fail_call(FAIL_MINE, "eventfd", 0, 1, EMFILE);
	assert_null(softrdma_rdma_create_event_channel());
	assert_int_equal(errno, EMFILE);

	int fds = count_fds();
	fail_call(FAIL_MINE, "tsearch", 0, 1, ENOMEM);
	assert_null(softrdma_rdma_create_event_channel());
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(count_fds(), fds);
}

/* each channel has its own events, and is found as long as it is there, however many there are */
static void
test_many_channels(void **state)
{
	(void)state;
	enum { CHANNELS = 200 };
	struct rdma_event_channel *channels[CHANNELS];
	struct rdma_cm_id *ids[CHANNELS];
	struct rdma_cm_event *event;
	for (int i = 0; i < CHANNELS; i++) {
		channels[i] = new_channel();
		assert_int_equal(softrdma_rdma_create_id(channels[i], &ids[i], NULL, RDMA_PS_TCP), 0);
	}
	for (int i = 0; i < CHANNELS; i++) {
		const int at = i * 77 % CHANNELS; /* in another order than they were made in */
		struct sockaddr_in addr = loopback(1);
		assert_int_equal(softrdma_rdma_resolve_addr(ids[at], NULL, (struct sockaddr *)&addr, 0), 0);
		assert_int_equal(softrdma_rdma_get_cm_event(channels[at], &event), 0);
		assert_ptr_equal(event->id, ids[at]);
		softrdma_rdma_ack_cm_event(event);
		softrdma_rdma_destroy_id(ids[at]);
		softrdma_rdma_destroy_event_channel(channels[at]);
		for (int j = 0; j <= i; j++) {
			assert_int_equal(softrdma_rdma_get_cm_event(channels[j * 77 % CHANNELS], &event), -1);
			assert_int_equal(errno, EBADF);
		}
	}
}

/* A thread may ask for another event after its channel was destroyed. The call must not touch the channel. */
static void
test_destroyed_channel(void **state)
{
	(void)state;
	struct rdma_event_channel *channels[3];
	for (int i = 0; i < 3; i++)
		channels[i] = new_channel();
	struct rdma_cm_event *const untouched = (void *)the_mem;
	static const int order[] = { 1, 0, 2 };
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_event *event = untouched;
		softrdma_rdma_destroy_event_channel(channels[order[i]]);
		assert_int_equal(softrdma_rdma_get_cm_event(channels[order[i]], &event), -1);
		assert_int_equal(errno, EBADF);
		assert_ptr_equal(event, untouched);
		if (i < 2)
			expect_no_event(channels[2]);
	}
}

static void
interrupt(int signum)
{
	(void)signum;
}

static void
test_waiting_for_an_event(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_event *const untouched = (void *)the_mem;
	struct rdma_cm_event *event = untouched;

	/* a signal ends the wait, as with the kernel's channels */
	struct sigaction action = { .sa_handler = interrupt }, before;
	sigaction(SIGALRM, &action, &before);
	struct itimerspec soon = { .it_value.tv_nsec = 10000000, .it_interval.tv_nsec = 10000000 };
	struct sigevent sev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_t timer;
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &sev, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
	assert_int_equal(softrdma_rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EINTR);
	timer_delete(timer);
	sigaction(SIGALRM, &before, NULL);

	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(softrdma_rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_ptr_equal(event, untouched);
	assert_int_equal(softrdma_rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
	softrdma_rdma_destroy_event_channel(channel);
}

static void *
wait_for_resolved(void *arg)
{
	struct rdma_cm_event *event = NULL;
	assert_int_equal(softrdma_rdma_get_cm_event(arg, &event), 0);
	return event;
}

/* one thread waits, another one causes the event */
static void
test_event_of_another_thread(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in dst = loopback(htons(1));
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_resolved, channel), 0);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 0), 0);
	void *event;
	pthread_join(thread, &event);
	assert_int_equal(((struct rdma_cm_event *)event)->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* --- ids --- */

static void
test_create_id(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *const untouched = (void *)the_mem;
	struct rdma_cm_id *id = untouched;

	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, ENOMEM);
	for (unsigned skip = 0; skip < 2; skip++) { /* a synchronous id has its own channel */
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_int_equal(softrdma_rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), -1);
		assert_int_equal(errno, ENOMEM);
	}
	fail_nothing();
	assert_ptr_equal(id, untouched);

	assert_int_equal(softrdma_rdma_create_id(channel, &id, the_mem, RDMA_PS_IB), 0);
	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, the_mem);
	assert_int_equal(id->ps, RDMA_PS_IB);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_create_qp(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct ibv_qp_init_attr_ex attr = qp_attr();

	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1); /* it has no device yet */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	attr.comp_mask = 0;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1); /* it has no protection domain */
	assert_int_equal(errno, EINVAL);
	id->pd = the_pd; /* the default of rdma_create_qp() */
	attr.qp_type = IBV_QPT_UD;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	softrdma_rdma_destroy_qp(id); /* it has none */
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EINVAL);

	/* a second queue pair is possible only until the peer has been told the first one's number */
	softrdma_rdma_destroy_qp(id);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	softrdma_rdma_destroy_qp(id);
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

static void
test_wrong_state(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	assert_int_equal(softrdma_rdma_listen(l.id, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_connect(l.id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_accept(l.id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_reject(l.id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(softrdma_rdma_disconnect(l.id), -1);
	assert_int_equal(errno, EINVAL);

	struct rdma_cm_id *id = new_id(l.channel);
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	id = new_active(l.channel, &l.addr);
	assert_int_equal(softrdma_rdma_disconnect(id), -1); /* it is not connected */
	assert_int_equal(errno, EINVAL);
	destroy(id);
	listener_fini(&l);
}

/* without a progress thread there is no connection; the next attempt works */
static void
test_engine_does_not_start(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_in addr = loopback(0);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	fail_call(FAIL_MINE, "pthread_create", 0, FAIL_FOR_EVER, EAGAIN);
	assert_int_equal(softrdma_rdma_listen(id, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(softrdma_rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	fail_nothing();
	assert_int_equal(softrdma_rdma_listen(id, 0), 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* --- events and the ids they belong to --- */

static struct rdma_cm_id *
resolved_id(struct rdma_event_channel *channel)
{
	struct sockaddr_in dst = loopback(htons(1));
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 0), 0);
	return id;
}

/* events not yet fetched are removed with their id; those of other ids stay, in order */
static void
test_events_go_with_their_id(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *ids[4];
	for (int i = 0; i < 4; i++)
		ids[i] = resolved_id(channel);
	assert_int_equal(softrdma_rdma_resolve_route(ids[1], 0), 0);
	destroy(ids[1]);
	destroy(ids[3]); /* the last in the queue */
	ids[3] = resolved_id(channel);
	static const int order[] = { 0, 2, 3 };
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0), ids[order[i]]);
	expect_no_event(channel);
	for (int i = 0; i < 3; i++)
		destroy(ids[order[i]]);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_migrate(void **state)
{
	(void)state;
	struct rdma_event_channel *from = new_channel(), *to = new_channel();
	struct rdma_cm_id *id = resolved_id(from), *other = resolved_id(from);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), 0);
	assert_int_equal(softrdma_rdma_migrate_id(id, to), 0);
	assert_ptr_equal(id->channel, to);
	assert_ptr_equal(expect_event(to, RDMA_CM_EVENT_ADDR_RESOLVED, 0), id);
	assert_ptr_equal(expect_event(to, RDMA_CM_EVENT_ROUTE_RESOLVED, 0), id);
	expect_no_event(to);
	assert_ptr_equal(expect_event(from, RDMA_CM_EVENT_ADDR_RESOLVED, 0), other);
	expect_no_event(from);
	/* new events go to the new channel, even after the old channel is gone */
	destroy(other);
	softrdma_rdma_destroy_event_channel(from);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), 0);
	expect_event(to, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(to);
}

static void
test_migrate_to_sync_and_back(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_rdma_migrate_id(id, NULL), -1);
	assert_int_equal(errno, ENOMEM);
	fail_nothing();
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(softrdma_rdma_migrate_id(id, NULL), 0);
	assert_int_equal(softrdma_rdma_migrate_id(id, NULL), -1); /* it is synchronous already */
	assert_int_equal(errno, EINVAL);

	/* the event that a synchronous call kept is released */
	struct sockaddr_in unused;
	int fd = raw_listen(&unused);
	close(fd); /* no process listens on this port */
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&unused, 0), 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_non_null(id->event);
	assert_int_equal(softrdma_rdma_migrate_id(id, channel), 0);
	assert_null(id->event);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

struct in_thread {
	pthread_t thread;
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel;
	atomic_bool done;
};

static void *
destroy_in_thread(void *arg)
{
	struct in_thread *t = arg;
	if (t->channel)
		softrdma_rdma_migrate_id(t->id, t->channel);
	else
		softrdma_rdma_destroy_id(t->id);
	t->done = true;
	return NULL;
}

/* destroying and migrating wait while the application holds an event of the id */
static void
test_waits_for_the_acknowledgement(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel(), *other = new_channel();
	for (int migrates = 0; migrates < 2; migrates++) {
		struct in_thread t = { .id = resolved_id(channel), .channel = migrates ? other : NULL };
		struct rdma_cm_event *event = take_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(pthread_create(&t.thread, NULL, destroy_in_thread, &t), 0);
		for (int i = 0; i < 20; i++)
			sched_yield();
		assert_false(t.done);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		pthread_join(t.thread, NULL);
		assert_true(t.done);
		if (migrates)
			destroy(t.id);
	}
	softrdma_rdma_destroy_event_channel(channel);
	softrdma_rdma_destroy_event_channel(other);
}

/*
 * An id that moves to another channel waits until its events are acknowledged. Events that are posted meanwhile move
 * with it.
 */
struct move {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to;
};

static void *
move_in_thread(void *arg)
{
	struct move *move = arg;
	return softrdma_rdma_migrate_id(move->id, move->to) ? arg : NULL;
}

static void
test_event_while_moving(void **state)
{
	(void)state;
	struct sockaddr_in unused;
	int fd = raw_listen(&unused);
	struct rdma_event_channel *from = new_channel();
	struct move move = { .id = new_id(from), .to = new_channel() };
	assert_int_equal(softrdma_rdma_resolve_addr(move.id, NULL, (struct sockaddr *)&unused, 0), 0);
	struct rdma_cm_event *event = take_event(from, RDMA_CM_EVENT_ADDR_RESOLVED);

	pthread_t thread;
	void *failed;
	assert_int_equal(pthread_create(&thread, NULL, move_in_thread, &move), 0);
	/* the thread waits for the acknowledgement (glibc counts the waiting threads) */
	wait_until(__atomic_load_n(&softrdma_id_of(move.id)->acked.__data.__wrefs, __ATOMIC_SEQ_CST) != 0);
	assert_int_equal(softrdma_rdma_resolve_route(move.id, 0), 0);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
	pthread_join(thread, &failed);
	assert_null(failed);

	expect_no_event(from);
	expect_event(move.to, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	destroy(move.id);
	softrdma_rdma_destroy_event_channel(from);
	softrdma_rdma_destroy_event_channel(move.to);
	close(fd);
}

/* a connection request that was never fetched: if the listener or the channel goes, the peer is told */
static void
test_unseen_request(void **state)
{
	(void)state;
	for (int channel_first = 0; channel_first < 2; channel_first++) {
		struct listener l;
		listener_init(&l);
		struct rdma_event_channel *channel = new_channel();
		struct rdma_cm_id *id = new_active(channel, &l.addr);
		assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
		assert_true(readable(l.channel->fd, PATIENCE_MS));
		if (channel_first) {
			softrdma_rdma_destroy_event_channel(l.channel);
			destroy(l.id);
		} else {
			listener_fini(&l);
		}
		expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
		destroy(id);
		softrdma_rdma_destroy_event_channel(channel);
	}
}

/*
 * The listener's channel is gone, but the listener is not. Requests are refused. Other events cannot be
 * delivered; the call that causes one fails.
 */
static void
test_channel_destroyed_before_its_ids(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	softrdma_rdma_destroy_event_channel(l.channel);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_BUSY);
	assert_int_equal(softrdma_rdma_resolve_route(l.id, 0), -1);
	assert_int_equal(errno, EINVAL);
	softrdma_rdma_destroy_event_channel(channel);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), -1);
	assert_int_equal(errno, ENOTCONN);
	destroy(id);
	destroy(l.id);
}

/* --- connections --- */

static void *
accept_one_request(void *arg)
{
	struct listener *l = arg;
	struct rdma_cm_id *id = expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_migrate_id(id, NULL), 0);
	assert_int_equal(softrdma_rdma_accept(id, NULL), 0); /* waits for ESTABLISHED */
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

/* ids without a channel: each call waits for its own event, on both sides */
static void
test_synchronous(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one_request, &l), 0);
	struct rdma_cm_id *id = new_id(NULL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 0), 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	void *passive;
	pthread_join(thread, &passive);
	destroy(id);
	destroy(passive);

	/* unreachable: errno is ENETUNREACH */
	id = new_id(NULL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 0), 0);
	give_qp(id);
	fail_call(FAIL_MINE, "connect", 0, 1, ENETUNREACH);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ENETUNREACH);
	destroy(id);

	/* the wait itself fails: the connection request is still pending */
	id = new_id(NULL);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&l.addr, 0), 0);
	give_qp(id);
	fail_call(FAIL_MINE, "poll", 0, 1, EINTR);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINTR);
	destroy(id);
	listener_fini(&l);
}

/* a synchronous id that has kept an event releases it before the next call */
static void
test_synchronous_keeps_one_event(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_resolve_route(id, 0), 0);
	id->event = take_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(softrdma_rdma_migrate_id(id, NULL), 0);
	assert_null(id->event);
	struct softrdma_id *own = softrdma_id_of(id);
	assert_int_equal(softrdma_id_post(own, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL, NULL), 0);
	id->event = take_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one_request, &l), 0);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	void *passive;
	pthread_join(thread, &passive);
	destroy(id);
	destroy(passive);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

static void
test_disconnect(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0); /* harmless */
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
	assert_int_equal(softrdma_rdma_accept(p.passive, NULL), -1);
	assert_int_equal(errno, EINVAL);
	expect_no_event(p.channel);
	expect_no_event(p.listener.channel);
	pair_fini(&p);
}

/* an id may be destroyed before its queue pair, as some programs do; the peer sees the end at once */
static void
test_id_before_queue_pair(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp *qp = p.active->qp;
	assert_int_equal(softrdma_rdma_destroy_id(p.active), 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_state(qp, IBV_QPS_ERR);
	softrdma_qp_delete(softrdma_qp_of(qp));
	destroy(p.passive);
	softrdma_rdma_destroy_event_channel(p.channel);
	listener_fini(&p.listener);
}

/*
 * All ids are destroyed before their queue pairs, and the device's thread ends with them. Later posts fail. A
 * new id may start the thread again. Objects still in use cannot be destroyed.
 */
static void
test_all_ids_before_their_queue_pairs(void **state)
{
	(void)state;
	for (int restart = 0; restart < 2; restart++) {
		struct pair_of_ids p;
		pair_init(&p);
		struct ibv_qp *qps[] = { p.active->qp, p.passive->qp };
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem,
			.length = MEM_SIZE / 2,
			.lkey = the_mr->lkey };
		struct ibv_send_wr *bad,
			wr = {
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = IBV_SEND_SIGNALED,
				.sg_list = &sge,
				.num_sge = 1,
				.wr.rdma = { .remote_addr = (uintptr_t)the_mem + MEM_SIZE / 2,
					.rkey = the_mr->rkey },
			};
		for (int i = 0; i < 8; i++)
			assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
		assert_int_equal(softrdma_rdma_destroy_id(p.active), 0);
		assert_int_equal(softrdma_rdma_destroy_id(p.passive), 0);
		softrdma_rdma_destroy_event_channel(p.channel);
		listener_fini(&p.listener);
		for (int i = 0; i < 8; i++)
			(void)next_wc();

		struct pair_of_ids other = { 0 };
		if (restart)
			pair_init(&other);
		assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
		assert_int_equal(next_wc().status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(softrdma_ibv_dealloc_pd(the_pd), EBUSY);
		assert_int_equal(softrdma_ibv_destroy_cq(the_cq), EBUSY);
		for (int i = 0; i < 2; i++) {
			expect_state(qps[i], IBV_QPS_ERR);
			assert_int_equal(softrdma_ibv_destroy_qp(qps[i]), 0);
		}
		if (restart)
			pair_fini(&other);
	}
}

/* the listener is destroyed, its accepted connection stays */
static void
test_listener_goes_first(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct rdma_event_channel *channel = new_channel();
	assert_int_equal(softrdma_rdma_migrate_id(p.passive, channel), 0);
	listener_fini(&p.listener);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	destroy(p.active);
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(p.passive);
	softrdma_rdma_destroy_event_channel(p.channel);
	softrdma_rdma_destroy_event_channel(channel);
}

/* events are delivered even without memory, unless their channel is gone */
static void
test_end_without_memory(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	softrdma_rdma_destroy_event_channel(p.listener.channel);
	fail_call(FAIL_ANY, "calloc", 0, FAIL_FOR_EVER, ENOMEM);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	wait_for_log("the end of a connection cannot be reported");
	fail_nothing();
	destroy(p.active);
	destroy(p.passive);
	softrdma_rdma_destroy_event_channel(p.channel);
	destroy(p.listener.id);
}

/* --- queue pairs that the program moves to another id, by the public member --- */

static void
move_qp(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	to->qp = from->qp;
	from->qp = NULL;
}

/* a write of no bytes succeeds */
static void
expect_works(struct rdma_cm_id *id)
{
	static uint64_t number;
	struct ibv_send_wr wr = { .wr_id = ++number,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, number);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, id->qp->qp_num);
}

static void
expect_refused(int result, int errnum)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, errnum);
}

/*
 * The queue pairs of both sides were made with other ids. These neither end the connection, nor take the queue pair with
 * them: before the connection is made (0), while it exists (1), or after it (2).
 */
static void
test_queue_pair_moves_before_it_connects(void **state)
{
	(void)state;
	for (int when = 0; when < 3; when++) {
		struct pair_of_ids p;
		struct rdma_cm_id *donors[2], *other = NULL;
		struct rdma_conn_param param = { .rnr_retry_count = 7 };
		listener_init(&p.listener);
		p.channel = new_channel();
		for (int i = 0; i < 2; i++)
			donors[i] = new_active(p.channel, &p.listener.addr);
		p.active = new_resolved(p.channel, &p.listener.addr);
		move_qp(donors[0], p.active);
		if (when == 0)
			destroy(donors[0]);
		const uint32_t numbers[] = { p.active->qp->qp_num, donors[1]->qp->qp_num };
		assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
		struct rdma_cm_event *event = take_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		p.passive = event->id;
		assert_int_equal(event->param.conn.qp_num, numbers[0]);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		if (when == 1) { /* back and forth, and with a queue pair of its own before */
			give_qp(p.passive);
			other = new_id(p.channel);
			move_qp(p.passive, other);
			expect_refused(softrdma_rdma_accept(p.passive, &param), EINVAL);
		}
		move_qp(donors[1], p.passive);
		if (when == 0)
			destroy(donors[1]);
		assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
		event = take_event(p.channel, RDMA_CM_EVENT_ESTABLISHED);
		assert_int_equal(event->param.conn.qp_num, numbers[1]);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
		expect_works(p.active);
		expect_works(p.passive);
		for (int i = 0; i < 2 && when > 0; i++) {
			expect_refused(softrdma_rdma_disconnect(donors[i]), EINVAL);
			softrdma_rdma_destroy_qp(donors[i]);
			if (when == 1)
				destroy(donors[i]);
		}
		expect_works(p.active);
		expect_works(p.passive);
		expect_no_event(p.channel);
		expect_no_event(p.listener.channel);
		assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);
		assert_ptr_equal(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.active);
		assert_ptr_equal(expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.passive);
		for (int i = 0; i < 2 && when == 2; i++)
			destroy(donors[i]);
		if (other)
			destroy(other);
		pair_fini(&p);
	}
}

/* an id whose queue pair was taken away can get another one, or none: the one that it lost is not connected by it */
static void
test_queue_pair_is_exchanged(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	listener_init(&p.listener);
	p.channel = new_channel();
	p.active = new_active(p.channel, &p.listener.addr);
	struct rdma_cm_id *other = new_id(p.channel);
	move_qp(p.active, other);
	expect_refused(softrdma_rdma_connect(p.active, &param), EINVAL);
	expect_refused(softrdma_rdma_connect(p.active, NULL), EINVAL);
	give_qp(p.active);
	assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
	p.passive = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	move_qp(other, p.passive);
	assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_works(p.active);
	expect_works(p.passive);
	destroy(other);
	pair_fini(&p);
}

/* a queue pair that is connected cannot be connected by another id, and goes on */
static void
test_connected_queue_pair_moves(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	pair_init(&p);
	struct rdma_cm_id *active = new_active(p.channel, &p.listener.addr);
	/* the connection does not depend on what else the program stores in its id, and destroys there */
	struct rdma_cm_id *holder = new_id(p.channel);
	move_qp(p.passive, holder);
	move_qp(active, p.passive);
	softrdma_rdma_destroy_qp(p.passive);
	move_qp(holder, p.passive);
	destroy(holder);
	assert_non_null(softrdma_id_of(p.passive)->link);
	expect_works(p.active);
	give_qp(active);
	assert_int_equal(softrdma_rdma_connect(active, &param), 0);
	struct rdma_cm_id *request = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *third = new_resolved(p.channel, &p.listener.addr);
	request->qp = third->qp = p.passive->qp; /* of all three now */
	expect_refused(softrdma_rdma_accept(request, &param), EINVAL);
	expect_refused(softrdma_rdma_connect(third, &param), EINVAL);
	expect_works(p.active);
	request->qp = third->qp = NULL;
	assert_int_equal(softrdma_rdma_destroy_id(third), 0);
	expect_works(p.passive);

	/* destroyed by way of another id: the connection ends, and its own id hears of it */
	move_qp(p.passive, request);
	softrdma_rdma_destroy_qp(request);
	assert_null(request->qp);
	assert_ptr_equal(expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.passive);
	assert_ptr_equal(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0), p.active);
	assert_int_equal(softrdma_rdma_disconnect(p.passive), 0);

	give_qp(request);
	assert_int_equal(softrdma_rdma_accept(request, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_works(active);
	destroy(active);
	destroy(request);
	pair_fini(&p);
}

/* a queue pair that is destroyed by way of another id while its own one connects is not connected */
static void
test_queue_pair_ends_while_its_id_connects(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	listener_init(&p.listener);
	p.channel = new_channel();
	p.active = new_active(p.channel, &p.listener.addr);
	assert_int_equal(softrdma_rdma_connect(p.active, &param), 0);
	p.passive = expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p.passive);
	struct rdma_cm_id *other = new_id(p.channel);
	move_qp(p.active, other);
	destroy(other);
	assert_int_equal(softrdma_rdma_accept(p.passive, &param), 0);
	expect_event(p.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED);
	expect_event(p.listener.channel, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_channel),
		device_test(test_many_channels),
		device_test(test_destroyed_channel),
		device_test(test_waiting_for_an_event),
		device_test(test_event_of_another_thread),
		device_test(test_create_id),
		device_test(test_create_qp),
		device_test(test_wrong_state),
		device_test(test_engine_does_not_start),
		device_test(test_events_go_with_their_id),
		device_test(test_migrate),
		device_test(test_migrate_to_sync_and_back),
		device_test(test_waits_for_the_acknowledgement),
		device_test(test_event_while_moving),
		device_test(test_unseen_request),
		device_test(test_channel_destroyed_before_its_ids),
		device_test(test_synchronous),
		device_test(test_synchronous_keeps_one_event),
		device_test(test_disconnect),
		device_test(test_id_before_queue_pair),
		device_test(test_all_ids_before_their_queue_pairs),
		device_test(test_listener_goes_first),
		device_test(test_end_without_memory),
		device_test(test_queue_pair_moves_before_it_connects),
		device_test(test_queue_pair_is_exchanged),
		device_test(test_connected_queue_pair_moves),
		device_test(test_queue_pair_ends_while_its_id_connects),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
