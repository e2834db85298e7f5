/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_completion_fd.c -- what programs do with the descriptor of a completion channel, and with threads that wait there
 *
 * Each case runs while the channel does not lead and while it does. Then a thread that finds the descriptor readable
 * finds an event.
 */

#include "waiting.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#ifdef __has_include
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
#endif

#include "softrdma/base/env.h"
#include "softrdma/engine/reader.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/verbs/srq.h"

/* --- a channel that leads, or does not --- */

struct place {
	bool leads;
	unsigned pair_count;
	struct pair_of_ids pairs[3];
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	/* of threads that wait there */
	atomic_uint events, done, ended;
	atomic_bool stop, failed;
};

/* the calls of waiting.h are about this one */
static void
use(const struct place *place)
{
	channel = place->channel;
	event_cq = place->cq;
}

/* The clock stands: what leads stays so, and what does not begins only with dense traffic. */
static void
open_place_of(struct place *place, unsigned pair_count, bool leads, bool nonblocking)
{
	*place = (struct place){ .leads = leads, .pair_count = pair_count };
	channel_init();
	set_nonblocking(nonblocking);
	place->channel = channel;
	place->cq = event_cq;
	for (unsigned i = 0; i < pair_count; i++)
		pair_init_with(&place->pairs[i], event_cq);
	clock_stop();
	for (unsigned i = 0; leads && i < pair_count; i++)
		lead_with(&place->pairs[i]);
	assert_int_equal(softrdma_lead_is_on(the_lead()), leads);
}

/* whose descriptor blocks */
static void
open_place(struct place *place, unsigned pair_count, bool leads)
{
	open_place_of(place, pair_count, leads, false);
}

static void
close_place(struct place *place)
{
	use(place);
	clock_go_on();
	for (unsigned i = 0; i < place->pair_count; i++)
		pair_fini(&place->pairs[i]);
	channel_fini();
}

/* events that are 2 ms apart are no dense traffic */
static void
pass_time(const struct place *place)
{
	if (!place->leads)
		clock_forward_ms(2);
}

/* the lead is as it was at first */
static void
expect_as_before(const struct place *place)
{
	assert_int_equal(softrdma_lead_is_on(&softrdma_comp_channel_of(place->channel)->lead), place->leads);
}

/* --- the ways in which a program waits for a descriptor --- */

struct way {
	const char *name;
	bool is_edge; /* the program takes events until it gets EAGAIN */
	void (*open)(const struct way *way);
	bool (*wait)(int timeout_ms);
	uint32_t events; /* of epoll */
	int depth;       /* epolls of the program, each in the next one */
};

static int epolls[3];
static const struct way *current;
static bool is_armed; /* of those that report once */

static void
open_nothing(const struct way *way)
{
	(void)way;
}

static bool
wait_by_poll(int timeout_ms)
{
	return readable(channel->fd, timeout_ms);
}

static bool
wait_by_select(int timeout_ms)
{
	struct timeval limit = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };
	fd_set set;
	assert_true(channel->fd < FD_SETSIZE);
	FD_ZERO(&set);
	FD_SET(channel->fd, &set);
	const int count = select(channel->fd + 1, &set, NULL, NULL, &limit);
	assert_true(count >= 0);
	return count == 1;
}

static void
open_epolls(const struct way *way)
{
	for (int i = 0; i < way->depth; i++) {
		struct epoll_event event = { .events = EPOLLIN | way->events };
		epolls[i] = epoll_create1(EPOLL_CLOEXEC);
		assert_true(epolls[i] >= 0);
		assert_int_equal(
			epoll_ctl(epolls[i], EPOLL_CTL_ADD, i > 0 ? epolls[i - 1] : channel->fd, &event), 0);
	}
	is_armed = true;
}

static bool
wait_by_epoll(int timeout_ms)
{
	struct epoll_event event = { .events = EPOLLIN | current->events };
	if (!is_armed)
		assert_int_equal(epoll_ctl(epolls[0], EPOLL_CTL_MOD, channel->fd, &event), 0);
	is_armed = true;
	/* from the outermost to the one that has the channel: what one reports, the next one has */
	for (int i = current->depth - 1; i >= 0; i--) {
		const int count = epoll_wait(epolls[i], &event, 1, timeout_ms);
		assert_true(count >= 0);
		if (count == 0) {
			assert_int_equal(i, current->depth - 1);
			return false;
		}
		timeout_ms = 0;
	}
	if (current->events & EPOLLONESHOT)
		is_armed = false;
	return true;
}

/* --- io_uring, by system calls --- */

#if defined(IORING_FEAT_SINGLE_MMAP) && defined(SYS_io_uring_setup)

static struct {
	int fd;
	struct io_uring_params params;
	uint8_t *rings;
	size_t rings_size;
	struct io_uring_sqe *entries;
	size_t entries_size;
} ring;

static int
open_ring(void)
{
	ring.params = (struct io_uring_params){ 0 };
	ring.fd = (int)syscall(SYS_io_uring_setup, 4, &ring.params);
	if (ring.fd < 0)
		return errno;
	const struct io_uring_params *p = &ring.params;
	assert_true(p->features & IORING_FEAT_SINGLE_MMAP);
	const size_t sq_size = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	const size_t cq_size = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	ring.rings_size = sq_size > cq_size ? sq_size : cq_size;
	ring.rings =
		mmap(NULL, ring.rings_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	assert_ptr_not_equal(ring.rings, MAP_FAILED);
	ring.entries_size = p->sq_entries * sizeof(struct io_uring_sqe);
	ring.entries =
		mmap(NULL, ring.entries_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	assert_ptr_not_equal(ring.entries, MAP_FAILED);
	is_armed = false;
	return 0;
}

static void
close_ring(void)
{
	munmap(ring.entries, ring.entries_size);
	munmap(ring.rings, ring.rings_size);
	close(ring.fd);
}

static atomic_uint *
in_rings(uint32_t offset)
{
	return (atomic_uint *)(void *)(ring.rings + offset);
}

/* one IORING_OP_POLL_ADD */
static void
submit_poll(void)
{
	const struct io_uring_params *p = &ring.params;
	const uint32_t tail = atomic_load(in_rings(p->sq_off.tail));
	const uint32_t at = tail & atomic_load(in_rings(p->sq_off.ring_mask));
	ring.entries[at] = (struct io_uring_sqe){ .opcode = IORING_OP_POLL_ADD,
		.fd = channel->fd,
		.poll_events = POLLIN,
		.user_data = 17 };
	atomic_store(&in_rings(p->sq_off.array)[at], at);
	atomic_store(in_rings(p->sq_off.tail), tail + 1);
	assert_int_equal(syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0), 1);
}

static bool
wait_by_ring(int timeout_ms)
{
	const struct io_uring_params *p = &ring.params;
	if (!is_armed)
		submit_poll();
	is_armed = true;
	if (!readable(ring.fd, timeout_ms))
		return false;
	const uint32_t head = atomic_load(in_rings(p->cq_off.head));
	assert_int_equal(atomic_load(in_rings(p->cq_off.tail)), head + 1);
	const struct io_uring_cqe *cqes = (const void *)(ring.rings + p->cq_off.cqes);
	const struct io_uring_cqe *cqe = &cqes[head & atomic_load(in_rings(p->cq_off.ring_mask))];
	assert_int_equal(cqe->user_data, 17);
	assert_true(cqe->res > 0 && cqe->res & POLLIN);
	atomic_store(in_rings(p->cq_off.head), head + 1);
	is_armed = false;
	return true;
}

#endif

/* --- each of them --- */

#define ROUNDS 60

/* takes one event at least; further ones if the program waits for edges */
static unsigned
take_events(void)
{
	unsigned count = 0;
	do {
		if (!get_event())
			break;
		count++;
	} while (current->is_edge);
	return count;
}

/* arm, wait, take, poll: what each event loop does */
static void
expect_loop(struct place *place)
{
	const bool stays = current->open != open_nothing;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		unsigned events = 0;
		struct ibv_wc wc = { 0 };
		pass_time(place);
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		/* a lead that has given a socket back may get an event late, for what it has completed */
		while (current->wait(0)) {
			assert_true(place->leads);
			assert_true(take_events() > 0);
		}
		post_write(place->pairs[i % place->pair_count].active->qp, the_mr, 8, i);
		do {
			assert_true(current->wait(PATIENCE_MS));
			/* what is readable has an event, and stays readable until that is taken unless it tells edges */
			if (current->depth == 0 && !stays)
				assert_true(current->wait(0));
			const unsigned taken = take_events();
			assert_true(taken > 0);
			events += taken;
		} while (ibv_poll_cq(event_cq, 1, &wc) == 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (!place->leads)
			assert_int_equal(events, 1);
		while (get_event())
			assert_true(place->leads);
	}
	expect_as_before(place);
}

/* with 6 sockets, a thread that leads asks the channel's epoll itself which of them has input */
static void
expect_way(const struct way *way)
{
	static const struct {
		unsigned pair_count;
		bool leads;
	} table[] = { { 1, false }, { 1, true }, { 3, true } };
	current = way;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct place place;
		print_message("%s, %u pairs, %s\n", way->name, table[i].pair_count,
			table[i].leads ? "leads" : "does not lead");
		open_place_of(&place, table[i].pair_count, table[i].leads, true);
		way->open(way);
		expect_loop(&place);
		for (int e = 0; e < way->depth; e++)
			close(epolls[e]);
		close_place(&place);
	}
}

static void
test_ways(void **state)
{
	(void)state;
	static const struct way ways[] = {
		{ "select", false, open_nothing, wait_by_select, 0, 0 },
		{ "poll", false, open_nothing, wait_by_poll, 0, 0 },
		{ "epoll", false, open_epolls, wait_by_epoll, 0, 1 },
		{ "epoll, edges", true, open_epolls, wait_by_epoll, EPOLLET, 1 },
		{ "epoll, one shot", false, open_epolls, wait_by_epoll, EPOLLONESHOT, 1 },
		{ "epoll, one shot and edges", true, open_epolls, wait_by_epoll, EPOLLONESHOT | EPOLLET, 1 },
		{ "epolls in epolls", false, open_epolls, wait_by_epoll, 0, 3 },
		{ "epolls in epolls, edges", true, open_epolls, wait_by_epoll, EPOLLET, 3 },
	};
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		expect_way(&ways[i]);
}

#if defined(IORING_FEAT_SINGLE_MMAP) && defined(SYS_io_uring_setup)

static void
open_uring(const struct way *way)
{
	(void)way;
	is_armed = false;
	/* a request of the case before has ended with its channel's last event, or never comes */
	close_ring();
	assert_int_equal(open_ring(), 0);
}

static void
test_io_uring(void **state)
{
	(void)state;
	static const struct way way = { "io_uring", false, open_uring, wait_by_ring, 0, 0 };
	const int error = open_ring();
	if (error) {
		print_message("SKIPPED: the kernel refuses io_uring_setup: %s\n", strerror(error));
		skip();
	}
	expect_way(&way);
	close_ring();
}

#else

static void
test_io_uring(void **state)
{
	(void)state;
	print_message("SKIPPED: the headers of this system have no io_uring\n");
	skip();
}

#endif

/* the kernel takes no epoll descriptor so: a program that wants this waits by threads (below) */
static void
test_exclusive(void **state)
{
	(void)state;
	for (int leads = 0; leads < 2; leads++) {
		struct place place;
		struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE };
		open_place(&place, 1, leads);
		const int epoll = epoll_create1(EPOLL_CLOEXEC);
		assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event), -1);
		assert_int_equal(errno, EINVAL);
		event.events = EPOLLIN;
		assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event), 0);
		event.events = EPOLLIN | EPOLLEXCLUSIVE;
		assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_MOD, channel->fd, &event), -1);
		assert_int_equal(errno, EINVAL);
		close(epoll);
		close_place(&place);
	}
}

/* --- many channels --- */

#define MANY 1000
#define LEADING 4
#define FILES (2 * MANY + 500) /* a lead, which needs no connection, has a descriptor of its own */

static struct place many[MANY];

/* traffic on all of them until all lead: while one begins, the others may end */
static void
lead_all(struct place *places, unsigned count)
{
	const int64_t end = now_ms() + PATIENCE_MS;
	unsigned leading = 0;
	while (leading < count && left_ms(end) > 0) {
		for (unsigned i = 0; i < count; i++) {
			use(&places[i]);
			lead_with(&places[i].pairs[0]);
		}
		leading = 0;
		for (unsigned i = 0; i < count; i++)
			leading += softrdma_lead_is_on(&softrdma_comp_channel_of(places[i].channel)->lead);
	}
	assert_int_equal(leading, count);
}

/* an event of the channel, as a connection raises it */
static void
raise_one(const struct place *place, unsigned number)
{
	assert_int_equal(ibv_req_notify_cq(place->cq, 0), 0);
	if (place->pair_count > 0) {
		post_write(place->pairs[0].active->qp, the_mr, 8, number);
	} else {
		const struct ibv_wc wc = { .wr_id = number };
		assert_true(softrdma_cq_push(softrdma_cq_of(place->cq), &wc, false));
	}
}

/* takes events of what the epoll reports, until this number of completions has come: one of each of these channels */
static void
expect_each(int epoll, unsigned step, unsigned expected)
{
	unsigned done = 0;
	const int64_t end = now_ms() + PATIENCE_MS;
	while (done < expected && left_ms(end) > 0) {
		struct epoll_event events[7];
		const int count = epoll_wait(epoll, events, 7, PATIENCE_MS);
		assert_true(count > 0);
		for (int i = 0; i < count; i++) {
			const struct place *place = &many[events[i].data.u32];
			struct ibv_wc wc;
			assert_true(place->leads || events[i].data.u32 % step == 0);
			use(place);
			assert_true(get_event());
			while (get_event())
				assert_true(place->leads);
			if (ibv_poll_cq(place->cq, 1, &wc) == 0)
				continue;
			assert_int_equal(wc.wr_id, events[i].data.u32);
			done++;
		}
	}
	assert_int_equal(done, expected);
}

/*
 * 1,000 channels in one epoll of the program. Two queue pairs for each would be 2,000 connections, which are not what
 * matters: the channels share eventfds, and the kernel limits the epolls that lead to one. So most have a queue only, and a
 * few lead.
 */
static void
test_many(void **state)
{
	(void)state;
	static const uint32_t kinds[] = { EPOLLIN, EPOLLIN | EPOLLET };
	rlim_t before;
	if (!limit_files(FILES, &before)) {
		print_message("SKIPPED: this process may not open %d files\n", FILES);
		skip();
	}
	for (unsigned i = 0; i < MANY; i++) {
		open_place_of(&many[i], i < LEADING ? 1 : 0, false, true);
	}
	lead_all(many, LEADING);
	for (unsigned i = 0; i < LEADING; i++) {
		many[i].leads = true;
		use(&many[i]);
		while (get_event())
			;
	}
	for (int k = 0; k < 2; k++) {
		const int epoll = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event;
		for (unsigned i = 0; i < MANY; i++) {
			event = (struct epoll_event){ .events = kinds[k], .data.u32 = i };
			assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, many[i].channel->fd, &event), 0);
		}
		for (unsigned step = 1; step <= 3; step += 2) {
			while (epoll_wait(epoll, &event, 1, 0) == 1) {
				assert_true(many[event.data.u32].leads);
				use(&many[event.data.u32]);
				while (get_event())
					;
			}
			unsigned raised = 0;
			for (unsigned i = 0; i < MANY; i += step, raised++)
				raise_one(&many[i], i);
			expect_each(epoll, step, raised);
		}
		close(epoll);
	}
	for (unsigned i = 0; i < LEADING; i++)
		expect_as_before(&many[i]);
	for (unsigned i = 0; i < MANY; i++)
		close_place(&many[i]);
	limit_files(before, NULL);
}

/* --- O_NONBLOCK --- */

/* one thread waits, asleep, and gets an event */
static void
wait_once(const struct place *place)
{
	struct wait wait;
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	pass_time(place);
	wait_begin(&wait);
	await_sleep_of_other_threads();
	post_write(place->pairs[0].active->qp, the_mr, 8, 5);
	wait_end(&wait);
	expect_wc(event_cq, 5);
}

/* the descriptor is readable, and the call has an event; a lead that hides its sockets goes off before */
static void
find_readable(const struct place *place)
{
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	post_write(place->pairs[0].active->qp, the_mr, 8, 6);
	if (place->leads)
		beats_until_off();
	assert_true(readable(channel->fd, PATIENCE_MS));
	assert_true(get_event());
	expect_wc(event_cq, 6);
}

/*
 * The descriptor becomes non-blocking after a thread has blocked, and blocking again. In both states, a call after it was
 * readable has an event. Only the active side completes here: if the channel leads, what makes its descriptor readable
 * without a completion is an acknowledgement.
 */
static void
test_nonblocking_later(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SPIN_US", "0", 1); /* the thread that waits sleeps */
	for (int leads = 0; leads < 2; leads++) {
		struct place place = { .leads = leads };
		channel_init();
		place.channel = channel;
		place.cq = event_cq;
		struct ibv_qp_init_attr_ex attr = qp_attr();
		attr.send_cq = attr.recv_cq = event_cq;
		place.pair_count = 1;
		pair_init_as(&place.pairs[0], attr, 7);
		struct rdma_cm_id *active = place.pairs[0].active;
		clock_stop();
		for (int i = 0; i < 5; i++) {
			set_nonblocking(false);
			if (leads)
				lead_sides(&place.pairs[0], false);
			wait_once(&place);
			set_nonblocking(true);
			find_readable(&place);
			assert_false(get_event());
			assert_false(readable(channel->fd, 0));
			if (!leads)
				continue;
			lead_sides(&place.pairs[0], false);
			while (get_event())
				;
			post_silent_write(active->qp);
			assert_true(readable(channel->fd, PATIENCE_MS));
			assert_true(get_event());
			while (get_event())
				;
			/* what was readable when it was non-blocking does not block later */
			post_silent_write(active->qp);
			assert_true(readable(channel->fd, PATIENCE_MS));
			set_nonblocking(false);
			assert_true(get_event());
			set_nonblocking(true);
			while (get_event())
				;
		}
		close_place(&place);
	}
	unsetenv("SOFTRDMA_SPIN_US");
}

/* --- threads that wait --- */

/* takes events until it is told to stop; then the next event is its last */
static void *
serve_place(void *arg)
{
	struct place *place = arg;
	bool stops = false;
	while (!stops) {
		struct ibv_cq *cq;
		void *context;
		struct ibv_wc wc;
		if (softrdma_ibv_get_cq_event(place->channel, &cq, &context)) {
			place->failed = true;
			break;
		}
		softrdma_ibv_ack_cq_events(cq, 1);
		stops = place->stop;
		place->events++;
		if (ibv_req_notify_cq(cq, 0))
			place->failed = true;
		while (softrdma_cq_pop(softrdma_cq_of(cq), 1, &wc) == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				place->failed = true;
			place->done++;
		}
	}
	place->ended++;
	return NULL;
}

/* for what other threads do in microseconds; they may need this processor */
#define yield_until(condition) \
	do { \
		const int64_t end_ = now_ms() + PATIENCE_MS; \
		while (!(condition) && left_ms(end_) > 0) \
			sched_yield(); \
		assert_true(condition); \
	} while (0)

static void
send_one(struct place *place)
{
	pass_time(place);
	post_write(place->pairs[0].active->qp, the_mr, 8, 1);
}

/* the threads of the place end, one with each event */
static void
end_threads(struct place *place, pthread_t *threads, unsigned count)
{
	const unsigned events = place->events;
	place->stop = true;
	while (place->ended < count) {
		const unsigned ended = place->ended, done = place->done;
		send_one(place);
		yield_until(place->done > done || place->ended == count);
		if (!place->leads)
			yield_until(place->ended == ended + 1);
	}
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(place->failed);
	if (!place->leads)
		assert_int_equal(place->events, events + count);
}

#define CREW 4
#define MESSAGES 200

static void
expect_crew(bool leads)
{
	struct place place;
	pthread_t threads[CREW];
	open_place(&place, 1, leads);
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	for (int i = 0; i < CREW; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, serve_place, &place), 0);
	for (unsigned i = 1; i <= MESSAGES; i++) {
		send_one(&place);
		yield_until(place.done == i);
	}
	assert_int_equal(place.events, MESSAGES); /* each has woken one thread */
	expect_as_before(&place);
	end_threads(&place, threads, CREW);
	close_place(&place);
}

/* several threads wait at one channel */
static void
test_threads_of_one_channel(void **state)
{
	(void)state;
	expect_crew(false);
	expect_crew(true);
	setenv("SOFTRDMA_SPIN_US", "0", 1);
	expect_crew(true);
	unsetenv("SOFTRDMA_SPIN_US");
}

/* each thread has a channel of its own; one progress thread serves all connections */
static void
test_threads_of_several_channels(void **state)
{
	(void)state;
	static struct place places[CREW];
	for (int leads = 0; leads < 2; leads++) {
		pthread_t threads[CREW];
		for (int i = 0; i < CREW; i++)
			open_place(&places[i], 1, false);
		if (leads)
			lead_all(places, CREW);
		for (int i = 0; i < CREW; i++) {
			places[i].leads = leads;
			assert_int_equal(ibv_req_notify_cq(places[i].cq, 0), 0);
			assert_int_equal(pthread_create(&threads[i], NULL, serve_place, &places[i]), 0);
		}
		for (unsigned round = 1; round <= MESSAGES / CREW; round++) {
			for (int i = 0; i < CREW; i++)
				send_one(&places[i]);
			for (int i = 0; i < CREW; i++)
				yield_until(places[i].done == round);
		}
		for (int i = 0; i < CREW; i++) {
			assert_int_equal(places[i].events, MESSAGES / CREW);
			expect_as_before(&places[i]);
			end_threads(&places[i], &threads[i], 1);
		}
		for (int i = 0; i < CREW; i++)
			close_place(&places[i]);
	}
}

/* of two threads that wait, one is cancelled: the other one gets what comes */
static void
test_one_is_cancelled(void **state)
{
	(void)state;
	if (in_thread_sanitizer()) {
		print_message("SKIPPED: the thread sanitizer cannot follow a thread that is cancelled\n");
		skip();
	}
	setenv("SOFTRDMA_SPIN_US", "0", 1); /* with a clock that stands, a thread that spins never sleeps */
	for (int leads = 0; leads < 2; leads++) {
		for (int which = 0; which < 2; which++) {
			struct place place;
			pthread_t threads[2];
			void *result;
			open_place(&place, 1, leads);
			assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
			for (int i = 0; i < 2; i++)
				assert_int_equal(pthread_create(&threads[i], NULL, serve_place, &place), 0);
			await_sleep_of_other_threads();
			assert_int_equal(pthread_cancel(threads[which]), 0);
			assert_int_equal(pthread_join(threads[which], &result), 0);
			assert_ptr_equal(result, PTHREAD_CANCELED);
			for (unsigned i = 1; i <= 20; i++) {
				send_one(&place);
				yield_until(place.done == i);
			}
			expect_as_before(&place);
			end_threads(&place, &threads[1 - which], 1);
			close_place(&place);
		}
	}
	unsetenv("SOFTRDMA_SPIN_US");
}

/* --- a shared receive queue, whose connections have several progress threads if there are any --- */

#define PEERS 4
#define EXCHANGES 50
#define SHARED_CQE (PEERS * EXCHANGES) /* a thread of the server may come late */

static struct {
	struct pair_of_ids pairs[PEERS];
	struct ibv_srq *srq;
	struct ibv_cq *send_cq, *recv_cq;
	atomic_bool failed;
} shared;

struct server {
	struct ibv_comp_channel *channel;
	unsigned recvs, sends; /* to wait for */
	pthread_t thread;
};

static int
post_shared(void)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	return softrdma_post_srq_recv(shared.srq, &wr, &bad);
}

/* answers each message, and ends when it has seen all its completions */
static void *
serve_shared(void *arg)
{
	struct server *server = arg;
	while (server->recvs + server->sends > 0) {
		struct ibv_cq *cq;
		void *context;
		struct ibv_wc wc;
		if (softrdma_ibv_get_cq_event(server->channel, &cq, &context) || ibv_req_notify_cq(cq, 0)) {
			shared.failed = true;
			break;
		}
		softrdma_ibv_ack_cq_events(cq, 1);
		while (softrdma_cq_pop(softrdma_cq_of(cq), 1, &wc) == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				shared.failed = true;
			if (wc.opcode != IBV_WC_RECV) {
				server->sends--;
				continue;
			}
			server->recvs--;
			struct ibv_qp *qp = NULL;
			for (int i = 0; i < PEERS; i++) {
				if (shared.pairs[i].passive->qp->qp_num == wc.qp_num)
					qp = shared.pairs[i].passive->qp;
			}
			if (qp == NULL || post_shared() || post_empty_send(qp))
				shared.failed = true;
		}
	}
	return NULL;
}

static void
connect_shared(struct pair_of_ids *p)
{
	struct rdma_conn_param given = { .responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = 7 };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	memset(p, 0, sizeof(*p));
	listener_init(&p->listener);
	p->channel = new_channel();
	p->active = new_active(p->channel, &p->listener.addr);
	assert_int_equal(softrdma_rdma_connect(p->active, &given), 0);
	p->passive = expect_event(p->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	attr.send_cq = shared.send_cq;
	attr.recv_cq = shared.recv_cq;
	attr.srq = shared.srq;
	assert_int_equal(softrdma_rdma_create_qp_ex(p->passive, &attr), 0);
	assert_int_equal(softrdma_rdma_accept(p->passive, &given), 0);
	expect_event(p->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p->listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* a message, whose answer expect_answers() awaits */
static void
send_to(struct pair_of_ids *p)
{
	struct ibv_recv_wr wr = { .wr_id = 2 }, *bad;
	assert_int_equal(ibv_post_recv(p->active->qp, &wr, &bad), 0);
	assert_int_equal(post_empty_send(p->active->qp), 0);
}

static void
expect_answers(int count)
{
	for (int i = 0; i < 2 * count; i++)
		assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
}

/* is_apart: the send queues complete at another channel, so that no connection is handed over */
static void
expect_shared(bool is_dense, bool is_apart)
{
	struct ibv_comp_channel *channels[2];
	struct server servers[2] = { { .recvs = PEERS * EXCHANGES }, { 0 } };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	for (int i = 0; i < 2; i++) {
		channels[i] = softrdma_ibv_create_comp_channel(softrdma_context());
		assert_non_null(channels[i]);
		servers[i].channel = channels[i];
	}
	servers[is_apart].sends = PEERS * EXCHANGES;
	shared.srq = softrdma_ibv_create_srq(the_pd, &init);
	shared.recv_cq = softrdma_ibv_create_cq(softrdma_context(), SHARED_CQE, NULL, channels[0], 0);
	shared.send_cq = softrdma_ibv_create_cq(softrdma_context(), SHARED_CQE, NULL, channels[is_apart], 0);
	assert_true(shared.srq && shared.recv_cq && shared.send_cq);
	for (int i = 0; i < 16; i++)
		assert_int_equal(post_shared(), 0);
	for (int i = 0; i < PEERS; i++)
		connect_shared(&shared.pairs[i]);
	assert_int_equal(ibv_req_notify_cq(shared.recv_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(shared.send_cq, 0), 0);
	clock_stop();
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&servers[i].thread, NULL, serve_shared, &servers[i]), 0);
	for (int round = 0; round < EXCHANGES; round++) {
		for (int i = 0; i < PEERS; i++) {
			if (!is_dense)
				clock_forward_ms(2);
			send_to(&shared.pairs[i]);
			if (!is_dense)
				expect_answers(1);
		}
		if (is_dense)
			expect_answers(PEERS);
	}
	const bool leads = softrdma_lead_is_on(&softrdma_comp_channel_of(channels[0])->lead);
	/* there is no further message that acknowledges the last answers */
	struct ibv_wc wc;
	assert_int_equal(ibv_poll_cq(the_cq, 1, &wc), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(servers[i].thread, NULL), 0);
	assert_false(shared.failed);
	assert_int_equal(leads, is_dense);
	for (int i = 0; i < PEERS; i++)
		assert_int_equal(reader_of(shared.pairs[i].passive),
			is_dense && !is_apart ? SOFTRDMA_READER_LEAD : SOFTRDMA_READER_ENGINE);
	clock_go_on();
	for (int i = 0; i < PEERS; i++)
		pair_fini(&shared.pairs[i]);
	assert_int_equal(softrdma_ibv_destroy_cq(shared.recv_cq), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(shared.send_cq), 0);
	assert_int_equal(softrdma_ibv_destroy_srq(shared.srq), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(softrdma_ibv_destroy_comp_channel(channels[i]), 0);
}

static void
test_shared_queue(void **state)
{
	(void)state;
	expect_shared(true, false);
	expect_shared(true, true);
	/* with a clock that stands, a thread that spins does so for ever */
	setenv("SOFTRDMA_SPIN_US", "0", 1);
	for (int is_dense = 0; is_dense < 2; is_dense++) {
		expect_shared(is_dense, false);
		expect_shared(is_dense, true);
	}
	unsetenv("SOFTRDMA_SPIN_US");
}

/* --- a thread that leads goes elsewhere --- */

enum elsewhere { AT_A_LOCK, AT_A_PIPE, AT_WORK };

static struct {
	struct place place;
	enum elsewhere elsewhere;
	atomic_bool leaves, is_away;
	pthread_mutex_t lock;
	int pipe[2];
} led;

static void
compute_us(long us)
{
	struct timespec start, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* after each completion for which it is told to, the thread is busy with something else */
static void
go_elsewhere(void)
{
	char byte;
	led.is_away = true;
	if (led.elsewhere == AT_WORK) {
		compute_us(100);
	} else if (led.elsewhere == AT_A_LOCK) {
		pthread_mutex_lock(&led.lock);
		pthread_mutex_unlock(&led.lock);
	} else if (read(led.pipe[0], &byte, 1) != 1) {
		led.place.failed = true;
	}
}

static void *
lead_and_leave(void *arg)
{
	(void)arg;
	while (!led.place.stop) {
		struct ibv_cq *cq;
		void *context;
		struct ibv_wc wc;
		if (softrdma_ibv_get_cq_event(led.place.channel, &cq, &context) || ibv_req_notify_cq(cq, 0)) {
			led.place.failed = true;
			break;
		}
		softrdma_ibv_ack_cq_events(cq, 1);
		bool has_done = false; /* not after an event for bytes */
		while (softrdma_cq_pop(softrdma_cq_of(cq), 1, &wc) == 1) {
			led.place.done++;
			has_done = true;
		}
		if (has_done && led.leaves)
			go_elsewhere();
	}
	led.place.ended++;
	return NULL;
}

/* What peers read is written once: the thread sanitizer cannot see that a completion at the peer ends a read here. */
#define READ_TO 1024
#define READ_FROM 4096
#define READS 50

static void
post_read(struct ibv_qp *qp, size_t from)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem + READ_TO, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 3,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)the_mem + from;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* a read by a peer whose completions are at a channel of its own: this thread sleeps meanwhile */
static void
expect_read(struct ibv_qp *qp, struct ibv_comp_channel *peers, struct ibv_cq *cq, int number)
{
	struct ibv_cq *got;
	void *context;
	const size_t from = READ_FROM + 8 * (size_t)number;
	memset(the_mem + READ_TO, 0, 8);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	post_read(qp, from);
	while (atomic_load(&softrdma_cq_of(cq)->count) == 0) {
		assert_true(readable(peers->fd, PATIENCE_MS));
		assert_int_equal(softrdma_ibv_get_cq_event(peers, &got, &context), 0);
		softrdma_ibv_ack_cq_events(got, 1);
	}
	expect_wc(cq, 3);
	assert_memory_equal(the_mem + READ_TO, the_mem + from, 8);
}

static void
lead_one_more(void)
{
	const unsigned done = led.place.done;
	post_write(led.place.pairs[0].active->qp, the_mr, 8, 1);
	yield_until(led.place.done > done);
}

/* the thread has gone, and does not come back before the peers of all connections have been served */
static void
expect_peers_are_served(struct pair_of_ids *peer, struct ibv_comp_channel *peers, struct ibv_cq *cq)
{
	led.leaves = true;
	if (led.elsewhere == AT_WORK) {
		clock_go_on();
		for (int i = 0; i < READS; i++) {
			lead_one_more();
			expect_read(peer->active->qp, peers, cq, i);
		}
		a_thread_computes = true;
		const int64_t end = now_ms() + PATIENCE_MS;
		while (softrdma_lead_is_on(the_lead()) && left_ms(end) > 0)
			lead_one_more();
		a_thread_computes = false;
	} else {
		if (led.elsewhere == AT_A_LOCK)
			pthread_mutex_lock(&led.lock);
		lead_one_more();
		yield_until(led.is_away);
		assert_true(softrdma_lead_is_on(the_lead()));
		assert_int_equal(reader_of(peer->passive), SOFTRDMA_READER_LEAD);
		clock_go_on();
		for (int i = 0; i < READS; i++)
			expect_read(peer->active->qp, peers, cq, i);
	}
	assert_false(softrdma_lead_is_on(the_lead()));
}

static void
expect_goes_on_without(enum elsewhere elsewhere)
{
	struct pair_of_ids peer;
	pthread_t thread;
	struct ibv_comp_channel *peers = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(peers);
	struct ibv_cq *usual = the_cq, *cq = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, peers, 0);
	assert_non_null(cq);
	memset(&led, 0, sizeof(led));
	pthread_mutex_init(&led.lock, NULL);
	assert_int_equal(pipe(led.pipe), 0);
	led.elsewhere = elsewhere;
	open_place(&led.place, 1, true);
	struct ibv_qp_init_attr_ex attr = qp_attr();
	attr.send_cq = attr.recv_cq = cq;
	the_cq = led.place.cq;
	pair_init_as(&peer, attr, 7);
	the_cq = usual;
	assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, lead_and_leave, NULL), 0);
	const int64_t end = now_ms() + PATIENCE_MS;
	while (reader_of(peer.passive) != SOFTRDMA_READER_LEAD && left_ms(end) > 0) {
		lead_one_more();
		expect_read(peer.active->qp, peers, cq, 0);
	}
	assert_int_equal(reader_of(peer.passive), SOFTRDMA_READER_LEAD);

	expect_peers_are_served(&peer, peers, cq);

	/* and the thread finds all as it was */
	led.leaves = false;
	if (elsewhere == AT_A_LOCK)
		pthread_mutex_unlock(&led.lock);
	if (elsewhere == AT_A_PIPE)
		assert_int_equal(write(led.pipe[1], "x", 1), 1);
	for (int i = 0; i < 20; i++)
		lead_one_more();
	led.place.stop = true;
	post_write(led.place.pairs[0].active->qp, the_mr, 8, 1);
	yield_until(led.place.ended == 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(led.place.failed);
	pair_fini(&peer);
	close_place(&led.place);
	assert_int_equal(softrdma_ibv_destroy_cq(cq), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(peers), 0);
	close(led.pipe[0]);
	close(led.pipe[1]);
	pthread_mutex_destroy(&led.lock);
}

static void
test_thread_goes_elsewhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < READS; i++)
		memset(the_mem + READ_FROM + 8 * i, (int)i + 1, 8);
	expect_goes_on_without(AT_A_LOCK);
	expect_goes_on_without(AT_A_PIPE);
	expect_goes_on_without(AT_WORK);
}

/* --- the descriptor is copied, closed and replaced --- */

/* a copy tells what the descriptor does, also after that was closed */
static void
test_copies(void **state)
{
	(void)state;
	for (int leads = 0; leads < 2; leads++) {
		struct place place;
		open_place_of(&place, 1, leads, true);
		const int copy = dup(channel->fd);
		assert_true(copy >= 0);
		for (int i = 0; i < 5; i++) {
			pass_time(&place);
			assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
			while (readable(copy, 0)) {
				assert_true(leads);
				assert_true(get_event());
			}
			post_write(place.pairs[0].active->qp, the_mr, 8, 7);
			do {
				assert_true(readable(copy, PATIENCE_MS));
				assert_true(readable(channel->fd, 0));
				assert_true(get_event());
			} while (atomic_load(&softrdma_cq_of(event_cq)->count) == 0);
			expect_wc(event_cq, 7);
		}
		close(copy);
		expect_as_before(&place);
		pass_time(&place);
		write_and_wait(&place.pairs[0], 8);
		close_place(&place);
	}
}

/* while the program has closed the descriptor, its events can be taken, and no call waits for another one */
static void
test_closed(void **state)
{
	(void)state;
	for (int leads = 0; leads < 2; leads++) {
		struct place place;
		open_place(&place, 1, leads);
		const int fd = channel->fd, copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		assert_true(copy >= 0);
		pass_time(&place);
		assert_int_equal(ibv_req_notify_cq(event_cq, 0), 0);
		close(fd);
		for (int i = 0; i < 3; i++)
			while (get_event_or_error(EBADF))
				assert_true(leads);
		post_write(place.pairs[0].active->qp, the_mr, 8, 9);
		clock_go_on();
		bool taken = false;
		wait_until((taken |= get_event_or_error(EBADF),
			taken && atomic_load(&softrdma_cq_of(event_cq)->count) == 1));
		expect_wc(event_cq, 9);
		assert_int_equal(fcntl(fd, F_GETFD), -1); /* the device has opened nothing there */
		assert_int_equal(dup2(copy, fd), fd);
		close(copy);
		set_nonblocking(true);
		while (get_event())
			;
		set_nonblocking(false);
		for (uint64_t i = 0; i < 20; i++)
			write_and_wait(&place.pairs[0], i);
		close_place(&place);
	}
}

/*
 * The program has given the number to a file of its own, a pipe that holds one byte: that stays, and no other flag of the file
 * changes. A thread that waits gets its event.
 */
static void
test_replaced(void **state)
{
	(void)state;
	for (int leads = 0; leads < 2; leads++) {
		struct place place;
		int ends[2];
		char bytes[2];
		open_place(&place, 1, leads);
		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], "x", 1), 1);
		const int fd = channel->fd, copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		assert_int_equal(dup2(ends[0], fd), fd);
		const int flags = fcntl(fd, F_GETFL);
		for (int i = 0; i < 5; i++) {
			pass_time(&place);
			write_and_wait(&place.pairs[0], 10);
		}
		expect_as_before(&place);
		set_nonblocking(true);
		post_write(place.pairs[0].active->qp, the_mr, 8, 11);
		clock_go_on();
		wait_until((get_event_or_error(EAGAIN), atomic_load(&softrdma_cq_of(event_cq)->count) == 1));
		expect_wc(event_cq, 11);
		/* no thread looks any longer, so the lead goes off, and closes its own number only */
		wait_until(!softrdma_lead_is_on(the_lead()));
		set_nonblocking(false);
		assert_int_equal(fcntl(fd, F_GETFL), flags);
		assert_int_equal(dup2(copy, fd), fd);
		assert_int_equal(read(ends[0], bytes, 2), 1);
		close(copy);
		close(ends[0]);
		close(ends[1]);
		for (uint64_t i = 0; i < 20; i++)
			write_and_wait(&place.pairs[0], i);
		close_place(&place);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_ways),
		device_test(test_io_uring),
		device_test(test_exclusive),
		device_test(test_many),
		device_test(test_nonblocking_later),
		device_test(test_threads_of_one_channel),
		one_thread_test(test_threads_of_several_channels),
		device_test(test_one_is_cancelled),
		device_test(test_shared_queue),
		device_test(test_thread_goes_elsewhere),
		device_test(test_copies),
		device_test(test_closed),
		device_test(test_replaced),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
