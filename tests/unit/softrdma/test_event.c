/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_event.c -- event channels and their events: which object gets an event, and what becomes of one that is not taken */

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

/* --- ids without a channel --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_channel),
		device_test(test_many_channels),
		device_test(test_destroyed_channel),
		device_test(test_waiting_for_an_event),
		device_test(test_event_of_another_thread),
		device_test(test_events_go_with_their_id),
		device_test(test_migrate),
		device_test(test_migrate_to_sync_and_back),
		device_test(test_waits_for_the_acknowledgement),
		device_test(test_event_while_moving),
		device_test(test_unseen_request),
		device_test(test_channel_destroyed_before_its_ids),
		device_test(test_end_without_memory),
		device_test(test_synchronous),
		device_test(test_synchronous_keeps_one_event),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
