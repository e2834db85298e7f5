/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lead.c -- whether the threads of the program read the sockets of a channel, or the progress threads do */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/pause.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/lead.h"
#include "softrdma/engine/pace.h"
#include "softrdma/engine/reader.h"

/* traffic is dense if a thread takes this number of events, each within this time of the one before */
#define DENSE_EVENTS 8
#define DENSE_NS SOFTRDMA_NS_PER_MS
/* or if pollers look this many times, each within this time of the one before: their peers would hardly wait longer */
#define DENSE_POLLS 64
#define DENSE_POLL_NS 50000

/* how long a lead that has let input wait stays off; twice as long each time that it happens again soon */
#define PAUSE_MIN_NS (10 * SOFTRDMA_NS_PER_MS)
#define PAUSE_MAX_NS (1000 * SOFTRDMA_NS_PER_MS)

/*
 * Checks of the progress thread, 2 ms apart: without a look of a thread, or at a lead that hides its sockets; and between two
 * for leads that were forgotten although the program's descriptor may report their input.
 */
#define CHECKS_ASLEEP 3
#define CHECKS_OF_ALL 50

#define EVENTS_MAX 64

/* how the thread looks that a lead goes on for */
enum looker {
	POLLER,     /* at a queue, again and again */
	WAITER,     /* in ibv_get_cq_event(3), which blocks */
	EVENT_LOOP, /* at the channel's descriptor, by a call of the kernel */
};

/* those that are on: apart, because many may show their sockets, and those that hide them are checked often */
enum {
	SHOWN,
	HIDDEN,
	LISTS,
};
static pthread_mutex_t leads_lock = PTHREAD_MUTEX_INITIALIZER;
static struct softrdma_lead *leads[LISTS];

/* The thread has looked at any lead since the last check. By number of thread; each cache line is seldom written. */
static atomic_bool looked[SOFTRDMA_PACE_THREADS];

/* a lead that was left has been served just then: it is looked at again; the list's lock is held */
static bool has_skipped;

/* the progress thread's own: checks since the last look at the leads of a list, and of each thread without a look */
static unsigned checks[LISTS], asleep[SOFTRDMA_PACE_THREADS];

static void
after_fork(void)
{
	leads[SHOWN] = leads[HIDDEN] = NULL;
	leads_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- replies; the lead's lock is held --- */

/* acknowledgements may leave with the program's reply, unless threads of another lead serve the connection, too */
static bool
may_await_reply(const struct softrdma_lead *lead, const struct softrdma_connection *conn)
{
	return conn->led_by == lead && conn->link.requester.ring.cq->lead == conn->link.responder.cq->lead;
}

static void
await_reply(struct softrdma_lead *lead, struct softrdma_link *link)
{
	link->replier_next = lead->repliers;
	lead->repliers = link;
}

/* a thread has finished with what it got at the last look */
static void
await_no_replies(struct softrdma_lead *lead)
{
	while (lead->repliers) {
		struct softrdma_link *link = lead->repliers;
		lead->repliers = link->replier_next;
		pthread_mutex_lock(&link->lock);
		softrdma_connection_no_reply(softrdma_connection_of(link));
		pthread_mutex_unlock(&link->lock);
	}
}

/* --- going on and off; the lead's lock is held --- */

static void check_all(uint64_t now_ns);

static void
enter_list(struct softrdma_lead *lead)
{
	struct softrdma_lead **list = &leads[lead->is_hidden ? HIDDEN : SHOWN];
	pthread_mutex_lock(&leads_lock);
	lead->at = list;
	lead->next = *list;
	if (lead->next)
		lead->next->at = &lead->next;
	lead->is_left = false;
	*list = lead;
	pthread_mutex_unlock(&leads_lock);
	softrdma_engine_at_beat(SOFTRDMA_BEAT_LEADS, check_all);
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_LEADS, 1);
}

/* the list's lock is held */
static void
leave_list(struct softrdma_lead *lead)
{
	*lead->at = lead->next;
	if (lead->next)
		lead->next->at = lead->at;
	softrdma_engine_timed(softrdma_engine_first(), SOFTRDMA_BEAT_LEADS, -1);
}

static bool
has_socket(const struct softrdma_lead *lead)
{
	bool has = false;
	for (unsigned i = 0; i < lead->link_count && !has; i++) {
		pthread_mutex_lock(&lead->links[i]->lock);
		has = softrdma_connection_of(lead->links[i])->fd >= 0;
		pthread_mutex_unlock(&lead->links[i]->lock);
	}
	return has;
}

/*
 * Sockets in the channel's descriptor make it readable for bytes that complete nothing. A program that blocks in
 * ibv_get_cq_event(3) need not be ready for an event without a completion, and its sockets are hidden.
 */
static bool
is_to_be_hidden(const struct softrdma_lead *lead)
{
	return lead->channel == NULL || !(fcntl(lead->channel->readable.fd, F_GETFL) & O_NONBLOCK);
}

/* the lead's lock is held */
static int
hidden_epoll(struct softrdma_lead *lead)
{
	if (lead->hidden_fd < 0)
		lead->hidden_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	return lead->hidden_fd;
}

/* that of the channel by another number: the application may close its own, or give it to another file */
static int
copy_of_channel(const struct softrdma_lead *lead)
{
	return softrdma_fork_owned(fcntl(lead->channel->readable.fd, F_DUPFD_CLOEXEC, 3));
}

/* The program may find the descriptor readable for bytes that have come. The lead's lock is held, or that of a link that it has. */
static void
owe(struct softrdma_lead *lead)
{
	if (!lead->is_hidden)
		atomic_store_explicit(&lead->owes, true, memory_order_relaxed);
}

static void
note_look(struct softrdma_lead *lead)
{
	const unsigned thread = softrdma_pace_thread(softrdma_pace_mine());
	if (!atomic_load_explicit(&looked[thread], memory_order_relaxed))
		atomic_store_explicit(&looked[thread], true, memory_order_relaxed);
	atomic_fetch_add_explicit(&lead->looks, 1, memory_order_relaxed);
	/* after the thread's own mark, which has_sleeping_looker() looks at next */
	atomic_store_explicit(&lead->looker, thread, memory_order_release);
}

/*
 * While sockets are hidden, another thread that waits for the channel's descriptor would learn of input only when the lead
 * has gone off. So a program leads then if it waits in ibv_get_cq_event(3), or if it polls and is told of no completion.
 */
static bool
may_be_hidden(const struct softrdma_lead *lead, enum looker looker)
{
	switch (looker) {
	case WAITER:
		return true;
	case POLLER:
		return lead->channel == NULL || !softrdma_comp_channel_is_armed(lead->channel);
	case EVENT_LOOP:
		break;
	}
	return false;
}

/* without a descriptor it stays off, which is slower */
static void
go_on(struct softrdma_lead *lead, enum looker looker, uint64_t now_ns)
{
	if (now_ns < lead->again_ns)
		return;
	lead->is_hidden = is_to_be_hidden(lead);
	/* a thread that arms a queue from here on ends the lead, or the queue is seen to be armed */
	atomic_store(&lead->ends_if_armed, looker == POLLER && lead->channel && lead->is_hidden);
	if ((!lead->is_hidden || may_be_hidden(lead, looker)) && has_socket(lead))
		lead->epoll_fd = lead->is_hidden ? hidden_epoll(lead) : copy_of_channel(lead);
	if (lead->epoll_fd < 0) {
		atomic_store(&lead->ends_if_armed, false);
		return;
	}
	note_look(lead);
	atomic_store(&lead->on, true);
	enter_list(lead);
}

/* The program may have found the descriptor readable for its input, which another thread receives. Under the link's lock. */
static void
take_away(struct softrdma_lead *lead, struct softrdma_connection *conn)
{
	if (conn->led_by != lead)
		return;
	softrdma_reader_give_back(conn, lead);
	owe(lead);
}

/* it has left the list */
static void
go_off(struct softrdma_lead *lead)
{
	atomic_store(&lead->on, false);
	atomic_store(&lead->ends_if_armed, false);
	await_no_replies(lead);
	/* a progress thread that has seen it on holds the lock of a link, and is waited for */
	for (unsigned i = 0; i < lead->link_count; i++) {
		pthread_mutex_lock(&lead->links[i]->lock);
		take_away(lead, softrdma_connection_of(lead->links[i]));
		pthread_mutex_unlock(&lead->links[i]->lock);
	}
	const int epoll_fd = lead->epoll_fd;
	lead->epoll_fd = -1;
	if (lead->channel == NULL)
		lead->hidden_fd = -1;
	/* threads may wait for the one that a channel hides */
	if (lead->channel == NULL || !lead->is_hidden)
		softrdma_fork_close(epoll_fd);
	atomic_store_explicit(&lead->polls, 0, memory_order_relaxed);
}

/* input has waited for a thread that computes, or that has gone elsewhere */
static void
pause_lead(struct softrdma_lead *lead, uint64_t now_ns)
{
	const bool again = now_ns < lead->again_ns + PAUSE_MAX_NS;
	lead->pause_ns = softrdma_pause_next(again ? lead->pause_ns : 0, PAUSE_MIN_NS, PAUSE_MAX_NS);
	lead->again_ns = now_ns + lead->pause_ns;
}

/* --- connections --- */

/*
 * The one that may have its socket. Pollers of queues without a channel look at all their connections, so of two different
 * leads either may. NULL: none.
 */
static struct softrdma_lead *
lead_of(const struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	struct softrdma_lead *sends = link->requester.ring.cq->lead, *receives = link->responder.cq->lead;
	if (sends == receives)
		return sends;
	if (sends->channel || receives->channel || sends->link_count > SOFTRDMA_POLLED_LINKS_MAX ||
		receives->link_count > SOFTRDMA_POLLED_LINKS_MAX)
		return NULL;
	return softrdma_lead_is_on(sends) ? sends : receives;
}

/* under the link's lock */
static void
hand_over(struct softrdma_connection *conn)
{
	/* a queue pair that has gone has left its leads, or is about to */
	struct softrdma_lead *lead = conn->link.qp ? lead_of(conn) : NULL;
	/* in this order: go_off() takes the link's lock after it has changed the flag */
	if (lead == NULL || !atomic_load(&lead->on) || conn->flush_running)
		return;
	if (conn->fd < 0 || conn->reader != SOFTRDMA_READER_ENGINE)
		return;
	/* for what the stream holds already, which no epoll reports, the connection waits in the list of turns */
	if (!softrdma_reader_hand_over(conn, lead))
		owe(lead); /* the epoll may have had the socket for a moment */
}

void
softrdma_lead_receives(struct softrdma_connection *conn)
{
	if (conn->led_by)
		owe(conn->led_by);
}

void
softrdma_lead_received(struct softrdma_connection *conn)
{
	hand_over(conn);
}

/* --- looks --- */

/* a socket may be readable although nothing can be received: a FLUSH runs. An epoll would report it again and again. */
static bool
serve(struct softrdma_lead *lead, struct softrdma_link *link, uint32_t events, bool waits)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	bool progress = false;
	if (waits)
		pthread_mutex_lock(&link->lock);
	else if (pthread_mutex_trylock(&link->lock) != 0)
		return false; /* another thread serves it */
	if (conn->fd >= 0) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn->hung_up = true;
		conn->polls++;
		/* also of a stream that has ended the program was told */
		progress = may_await_reply(lead, conn) ? softrdma_connection_serve_replier(conn)
						       : softrdma_connection_serve(conn);
		progress = progress || conn->fd < 0;
		if (conn->awaits_reply)
			await_reply(lead, link);
		if ((events && !progress) || conn->flush_running)
			take_away(lead, conn);
		else if (lead->epoll_fd >= 0)
			hand_over(conn);
	}
	pthread_mutex_unlock(&link->lock);
	return progress;
}

/* as epoll_wait(2), for sockets that have input; the lead is on */
static int
report(struct softrdma_lead *lead, struct epoll_event events[EVENTS_MAX])
{
	const int count = epoll_wait(lead->epoll_fd, events, EVENTS_MAX, 0);
	int sockets = 0;
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr)
			events[sockets++] = events[i];
	}
	if (sockets < count) /* the report has taken the channel's own entry out */
		softrdma_comp_channel_tell_again(lead->channel);
	return sockets;
}

static bool
serve_reported(struct softrdma_lead *lead)
{
	struct epoll_event events[EVENTS_MAX];
	bool progress = false;
	await_no_replies(lead);
	const int count = report(lead, events);
	for (int i = 0; i < count; i++)
		progress |= serve(lead, events[i].data.ptr, events[i].events, true);
	return progress;
}

static bool
serve_all(struct softrdma_lead *lead, bool waits)
{
	bool progress = false;
	await_no_replies(lead);
	for (unsigned i = 0; i < lead->link_count; i++)
		progress |= serve(lead, lead->links[i], 0, waits);
	return progress;
}

/*
 * Before it goes off: a program may have found the descriptor readable for what is received here, so the channel has an event
 * for it, or owes one. True if there was anything.
 */
static bool
serve_last(struct softrdma_lead *lead)
{
	const bool progress = serve_reported(lead);
	if (progress)
		owe(lead);
	return progress;
}

static void
stop(struct softrdma_lead *lead)
{
	serve_last(lead);
	pthread_mutex_lock(&leads_lock);
	leave_list(lead);
	pthread_mutex_unlock(&leads_lock);
	go_off(lead);
}

/* for a while: it has served no thread well */
static void
stop_and_pause(struct softrdma_lead *lead)
{
	stop(lead);
	pause_lead(lead, softrdma_now_ns());
}

/* The lead's lock is held. The descriptor may be readable for bytes of a link that another thread holds: then waits is true. */
static bool
look(struct softrdma_lead *lead, bool waits)
{
	bool progress = false;
	note_look(lead);
	if (lead->link_count <= SOFTRDMA_POLLED_LINKS_MAX)
		progress = serve_all(lead, waits);
	else if (softrdma_lead_is_on(lead))
		progress = serve_reported(lead);
	return progress;
}

/* the caller, which has the lead's lock, takes an event next */
static bool
look_and_unlock(struct softrdma_lead *lead, bool waits)
{
	softrdma_comp_channel_serve(lead->channel);
	const bool progress = look(lead, waits);
	softrdma_comp_channel_serve(NULL);
	if (progress && softrdma_lead_is_on(lead))
		owe(lead);
	pthread_mutex_unlock(&lead->lock);
	return progress;
}

/* For threads that look again and again: false if another thread serves the lead, or waits for the lock. */
static bool
try_lock(struct softrdma_lead *lead)
{
	return !atomic_load_explicit(&lead->wanted, memory_order_relaxed) &&
		pthread_mutex_trylock(&lead->lock) == 0;
}

bool
softrdma_lead_look(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	return try_lock(lead) && look_and_unlock(lead, false);
}

bool
softrdma_lead_look_at_reported(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	softrdma_lead_lock(lead);
	note_look(lead);
	softrdma_comp_channel_serve(lead->channel);
	const bool progress = softrdma_lead_is_on(lead) && serve_reported(lead);
	softrdma_comp_channel_serve(NULL);
	pthread_mutex_unlock(&lead->lock);
	return progress;
}

/* --- pollers --- */

/* true for one of DENSE_POLLS polls */
static bool
is_one_of_many(struct softrdma_lead *lead)
{
	return (atomic_fetch_add_explicit(&lead->polls, 1, memory_order_relaxed) + 1) % DENSE_POLLS == 0;
}

/* true if it was polled densely for some time, which ends with this poll */
static bool
polls_are_dense(struct softrdma_lead *lead, uint64_t now_ns)
{
	const uint64_t before_ns = atomic_exchange_explicit(&lead->polled_ns, now_ns, memory_order_relaxed);
	if (now_ns - before_ns >= DENSE_POLL_NS)
		atomic_store_explicit(&lead->polls, 0, memory_order_relaxed);
	return is_one_of_many(lead);
}

/* The program polls, and no thread blocks in the call. If it is to be told of the next completion, it waits elsewhere. */
static void
expect_arming(struct softrdma_lead *lead)
{
	atomic_store(&lead->ends_if_armed, true);
	if (softrdma_comp_channel_is_armed(lead->channel))
		stop_and_pause(lead);
}

bool
softrdma_lead_poll(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	if (!try_lock(lead))
		return false;
	const bool progress = look(lead, false);
	if (softrdma_lead_is_on(lead)) {
		if (progress)
			owe(lead);
		else if (lead->channel && lead->is_hidden && is_one_of_many(lead))
			expect_arming(lead);
	} else {
		const uint64_t now_ns = softrdma_now_ns();
		if (polls_are_dense(lead, now_ns))
			go_on(lead, POLLER, now_ns);
	}
	pthread_mutex_unlock(&lead->lock);
	return progress;
}

void
softrdma_lead_no_replies(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	if (!try_lock(lead))
		return;
	await_no_replies(lead);
	pthread_mutex_unlock(&lead->lock);
}

void
softrdma_lead_nap(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	static const struct timespec limit = { .tv_nsec = SOFTRDMA_NAP_NS };
	struct pollfd pfds[SOFTRDMA_POLLED_LINKS_MAX];
	nfds_t count = 0;
	/* held meanwhile, so that no connection is freed; a socket that is closed and opened anew only ends the sleep */
	if (!try_lock(lead))
		return;
	if (lead->link_count <= SOFTRDMA_POLLED_LINKS_MAX) {
		for (; count < lead->link_count; count++) {
			pthread_mutex_lock(&lead->links[count]->lock);
			const int fd = softrdma_connection_of(lead->links[count])->fd;
			pthread_mutex_unlock(&lead->links[count]->lock);
			pfds[count] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
	} else if (softrdma_lead_is_on(lead)) {
		pfds[count++] = (struct pollfd){ .fd = lead->epoll_fd, .events = POLLIN };
	}
	if (count > 0)
		ppoll(pfds, count, &limit, NULL);
	/* it would have noticed input */
	atomic_store_explicit(&lead->polled_ns, softrdma_now_ns(), memory_order_relaxed);
	pthread_mutex_unlock(&lead->lock);
}

/* --- threads that wait --- */

int
softrdma_lead_hidden_fd(struct softrdma_lead *lead)
{
	if (lead->hidden_fd < 0) {
		softrdma_lead_lock(lead);
		hidden_epoll(lead);
		pthread_mutex_unlock(&lead->lock);
	}
	return lead->hidden_fd;
}

void
softrdma_lead_show(struct softrdma_lead *lead)
{
	if (softrdma_lead_is_on(lead) && lead->is_hidden)
		softrdma_lead_end(lead);
}

bool
softrdma_lead_collect(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	if (lead->epoll_fd >= 0) { /* also while it goes off */
		softrdma_lead_lock(lead);
		look_and_unlock(lead, true);
	}
	/* an event without a completion: has the program made the descriptor blocking meanwhile? */
	if (atomic_exchange_explicit(&lead->owes, false, memory_order_relaxed) &&
		softrdma_comp_channel_owe(lead->channel) && is_to_be_hidden(lead))
		softrdma_lead_end(lead);
	return softrdma_comp_channel_has_event(lead->channel);
}

void
softrdma_lead_armed(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	if (!atomic_load(&lead->ends_if_armed))
		return;
	softrdma_lead_lock(lead);
	if (softrdma_lead_is_on(lead) && atomic_load(&lead->ends_if_armed))
		stop_and_pause(lead);
	pthread_mutex_unlock(&lead->lock);
}

void
softrdma_lead_took_event(struct softrdma_lead *lead, bool has_blocked)
{
	SOFTRDMA_NO_CANCEL;
	const uint64_t now_ns = softrdma_now_ns();
	const bool is_on = softrdma_lead_is_on(lead);
	struct softrdma_pace *pace = softrdma_pace_mine();
	const bool is_late = softrdma_pace_computes(pace, now_ns);
	if (atomic_load_explicit(&lead->owes, memory_order_relaxed))
		atomic_store_explicit(&lead->owes, false, memory_order_relaxed);
	/* its polls in between are none of a program that only polls */
	if (atomic_load_explicit(&lead->polls, memory_order_relaxed))
		atomic_store_explicit(&lead->polls, 0, memory_order_relaxed);
	if (has_blocked && atomic_load_explicit(&lead->ends_if_armed, memory_order_relaxed))
		atomic_store(&lead->ends_if_armed, false);
	pace->dense = now_ns - pace->event_ns < DENSE_NS ? pace->dense + 1 : 0;
	pace->event_ns = now_ns;
	const bool changes = is_on ? is_late : !is_late && pace->dense >= DENSE_EVENTS;
	if (!changes || pthread_mutex_trylock(&lead->lock) != 0)
		return;
	if (!is_late && !softrdma_lead_is_on(lead)) {
		go_on(lead, has_blocked ? WAITER : EVENT_LOOP, now_ns);
	} else if (is_late && softrdma_lead_is_on(lead)) {
		stop_and_pause(lead);
	}
	pthread_mutex_unlock(&lead->lock);
}

/* the channel, or the queue, has lost its connections; or no engine runs, so that no connection has a socket */
void
softrdma_lead_end(struct softrdma_lead *lead)
{
	SOFTRDMA_NO_CANCEL;
	softrdma_lead_lock(lead);
	if (softrdma_lead_is_on(lead))
		stop(lead);
	pthread_mutex_unlock(&lead->lock);
}

/* --- connections --- */

void
softrdma_lead_lose(struct softrdma_connection *conn)
{
	if (conn->led_by)
		take_away(conn->led_by, conn);
}

/* --- the progress thread looks after them --- */

/* The list's lock is held. Leaves out leads that a thread serves. Gives one that is left, off the list, with its lock; NULL: none. */
static struct softrdma_lead *
take_left_of(struct softrdma_lead *lead)
{
	for (; lead; lead = lead->next) {
		if (!lead->is_left)
			continue;
		lead->is_left = false;
		if (pthread_mutex_trylock(&lead->lock) != 0) {
			has_skipped = true;
			continue;
		}
		leave_list(lead);
		return lead;
	}
	return NULL;
}

static struct softrdma_lead *
take_left(void)
{
	struct softrdma_lead *lead = take_left_of(leads[HIDDEN]);
	return lead ? lead : take_left_of(leads[SHOWN]);
}

/* no thread has looked at it since the last of these calls */
static bool
is_forgotten(struct softrdma_lead *lead)
{
	const unsigned looks = atomic_load_explicit(&lead->looks, memory_order_relaxed);
	const bool no_look = looks == lead->looks_seen;
	lead->looks_seen = looks;
	return no_look;
}

/* the thread that looked last has not looked at any lead for long */
static bool
has_sleeping_looker(const struct softrdma_lead *lead)
{
	const unsigned looker = atomic_load_explicit(&lead->looker, memory_order_acquire);
	return asleep[looker] >= CHECKS_ASLEEP &&
		!atomic_load_explicit(&looked[looker], memory_order_relaxed);
}

/* true in one of count calls */
static bool
is_due(unsigned *calls, unsigned count)
{
	if (++*calls < count)
		return false;
	*calls = 0;
	return true;
}

/* true if a thread has just become one that has not looked for long */
static bool
some_fall_asleep(void)
{
	bool some = false;
	for (unsigned i = 0; i < SOFTRDMA_PACE_THREADS; i++) {
		if (atomic_exchange_explicit(&looked[i], false, memory_order_relaxed))
			asleep[i] = 0;
		else
			some |= ++asleep[i] == CHECKS_ASLEEP;
	}
	return some;
}

/*
 * Every 2 ms while leads are on; on the first progress thread. A thread that has gone on to another lead leaves one behind
 * whose input nothing reports, if it hides its sockets.
 */
static void
check_all(uint64_t now_ns)
{
	const bool all_hidden = is_due(&checks[HIDDEN], CHECKS_ASLEEP),
		   all_shown = is_due(&checks[SHOWN], CHECKS_OF_ALL);
	const bool some_sleep = some_fall_asleep() || has_skipped;
	if (!some_sleep && !all_hidden && !all_shown)
		return;
	struct softrdma_lead *lead;
	pthread_mutex_lock(&leads_lock);
	has_skipped = false;
	for (lead = leads[HIDDEN]; lead && all_hidden; lead = lead->next)
		lead->is_left = is_forgotten(lead);
	for (lead = leads[SHOWN]; lead && (some_sleep || all_shown); lead = lead->next)
		lead->is_left = has_sleeping_looker(lead) || (all_shown && is_forgotten(lead));
	while ((lead = take_left()) != NULL) {
		pthread_mutex_unlock(&leads_lock); /* what is served may take long */
		if (serve_last(lead))
			pause_lead(lead, now_ns);
		go_off(lead);
		pthread_mutex_unlock(&lead->lock);
		pthread_mutex_lock(&leads_lock);
	}
	pthread_mutex_unlock(&leads_lock);
}

void
softrdma_lead_end_all(void)
{
	pthread_mutex_lock(&leads_lock);
	while (leads[HIDDEN] || leads[SHOWN]) {
		for (unsigned i = 0; i < LISTS; i++) {
			for (struct softrdma_lead *lead = leads[i]; lead; lead = lead->next)
				lead->is_left = true;
		}
		struct softrdma_lead *lead = take_left();
		pthread_mutex_unlock(&leads_lock);
		if (lead) {
			go_off(lead);
			pthread_mutex_unlock(&lead->lock);
		}
		sched_yield(); /* threads of the program may serve all that are left, and their turns are short */
		pthread_mutex_lock(&leads_lock);
	}
	has_skipped = false; /* nothing of this life may show in the next one */
	pthread_mutex_unlock(&leads_lock);
	checks[HIDDEN] = checks[SHOWN] = 0;
	for (unsigned i = 0; i < SOFTRDMA_PACE_THREADS; i++) {
		asleep[i] = 0;
		atomic_store_explicit(&looked[i], false, memory_order_relaxed);
	}
}
