/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* engine.c -- one progress thread (progress engine): events, turns and beats */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/spin.h"
#include "softrdma/base/thread.h"
#include "softrdma/engine/one_engine.h"

/* an object that had this many events in a row is polled before all are looked at again ... */
#define BUSY_AFTER 4
/* ... this often; a turn that has received something takes a quarter of that away */
#define BUSY_TURNS 16

#define EVENTS_MAX 64

static const unsigned beat_ms[SOFTRDMA_BEATS] = {
	[SOFTRDMA_BEAT_LEADS] = 2,
	[SOFTRDMA_BEAT_DEADLINES] = 20,
};

/* --- what the engine waits for --- */

static int
control(struct softrdma_watched *watched, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = watched };
	return epoll_ctl(softrdma_engine_of(watched)->epoll_fd, op, fd, &ev) == 0 ? 0 : errno;
}

int
softrdma_engine_watch(struct softrdma_watched *watched, int fd, uint32_t events)
{
	return control(watched, EPOLL_CTL_ADD, fd, events);
}

int
softrdma_engine_watch_again(struct softrdma_watched *watched, int fd, uint32_t events)
{
	return control(watched, EPOLL_CTL_MOD, fd, events);
}

void
softrdma_engine_unwatch(struct softrdma_watched *watched, int fd)
{
	control(watched, EPOLL_CTL_DEL, fd, 0);
}

void
softrdma_one_engine_wake(const struct softrdma_engine *engine)
{
	SOFTRDMA_NO_CANCEL;
	const uint64_t one = 1;
	while (write(engine->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void
drain_wakes(const struct softrdma_engine *engine)
{
	uint64_t count;
	while (read(engine->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

/* --- objects that are no longer watched --- */

void
softrdma_engine_retire(struct softrdma_watched *watched)
{
	struct softrdma_engine *engine = softrdma_engine_of(watched);
	pthread_mutex_lock(&engine->lock);
	bool running = engine->running;
	if (running) {
		watched->retired_next = engine->retired;
		engine->retired = watched;
	}
	pthread_mutex_unlock(&engine->lock);
	if (!running)
		watched->put(watched);
}

static void
release_retired(struct softrdma_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	struct softrdma_watched *watched = engine->retired;
	engine->retired = NULL;
	pthread_mutex_unlock(&engine->lock);
	while (watched) {
		struct softrdma_watched *next = watched->retired_next;
		watched->put(watched);
		watched = next;
	}
}

/* --- turns --- */

void
softrdma_engine_queue(struct softrdma_watched *watched)
{
	struct softrdma_engine *engine = softrdma_engine_of(watched);
	pthread_mutex_lock(&engine->lock);
	bool wake = engine->running && engine->work == NULL;
	if (engine->running && !watched->queued) {
		watched->queued = true;
		watched->work_next = NULL;
		watched->get(watched);
		if (engine->work)
			engine->work_last->work_next = watched;
		else
			engine->work = watched;
		engine->work_last = watched;
		atomic_fetch_add_explicit(&engine->work_count, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&engine->lock);
	if (wake)
		softrdma_one_engine_wake(engine);
}

bool
softrdma_engine_has_queued(const struct softrdma_engine *engine)
{
	return atomic_load_explicit(&engine->work_count, memory_order_relaxed) > 0;
}

static struct softrdma_watched *
take_work(struct softrdma_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	struct softrdma_watched *watched = engine->work;
	assert(watched); /* only this thread takes objects out, and at most as many as it has counted */
	engine->work = watched->work_next;
	atomic_fetch_sub_explicit(&engine->work_count, 1, memory_order_relaxed);
	watched->queued = false;
	pthread_mutex_unlock(&engine->lock);
	return watched;
}

static void
end_busy_polling(struct softrdma_engine *engine)
{
	if (engine->busy.watched)
		engine->busy.watched->put(engine->busy.watched);
	engine->busy.watched = NULL;
	engine->busy.events = 0;
}

/* something has come for this object, and more may follow */
static void
expect_more_of(struct softrdma_engine *engine, struct softrdma_watched *watched)
{
	if (watched != engine->busy.watched) {
		end_busy_polling(engine);
		watched->get(watched);
		engine->busy.watched = watched;
	}
	if (engine->busy.events < BUSY_AFTER)
		engine->busy.events++;
}

static struct softrdma_turn
take_turn(struct softrdma_engine *engine, struct softrdma_watched *watched, uint32_t events)
{
	const struct softrdma_turn turn = watched->turn(watched, events);
	if (turn.alone && turn.progress)
		expect_more_of(engine, watched);
	else if (!turn.alone && watched == engine->busy.watched)
		end_busy_polling(engine); /* this may free the object */
	return turn;
}

/*
 * Gives another turn to at most this many objects that had more to do than one; those that are queued meanwhile
 * wait for the next call. False: there was none.
 */
static bool
do_queued_work(struct softrdma_engine *engine, unsigned most)
{
	pthread_mutex_lock(&engine->lock);
	unsigned count = engine->work_count < most ? engine->work_count : most;
	pthread_mutex_unlock(&engine->lock);

	for (unsigned i = 0; i < count; i++) {
		struct softrdma_watched *watched = take_work(engine);
		take_turn(engine, watched, 0);
		watched->put(watched);
	}
	return count > 0;
}

/* --- time --- */

void
softrdma_engine_at_beat(enum softrdma_beat beat, void (*tick)(uint64_t now_ns))
{
	struct softrdma_engine *engine = softrdma_engine_first();
	int at = 0;
	pthread_mutex_lock(&engine->lock);
	while (engine->beat_calls[beat][at] && engine->beat_calls[beat][at] != tick) {
		at++;
		assert(at < SOFTRDMA_BEAT_CALLS_MAX);
	}
	engine->beat_calls[beat][at] = tick;
	pthread_mutex_unlock(&engine->lock);
}

void
softrdma_engine_alarm(uint64_t when_ns)
{
	struct softrdma_engine *engine = softrdma_engine_first();
	pthread_mutex_lock(&engine->lock);
	bool earlier = engine->alarm_ns == 0 || when_ns < engine->alarm_ns;
	if (earlier)
		engine->alarm_ns = when_ns;
	pthread_mutex_unlock(&engine->lock);
	if (earlier)
		softrdma_one_engine_wake(engine);
}

/* connections that still wait for a time set the alarm again, and so wake this thread */
static void
ring_alarm(struct softrdma_engine *engine, const struct softrdma_engine_calls *calls, uint64_t now_ns)
{
	pthread_mutex_lock(&engine->lock);
	engine->alarm_ns = 0; /* before the call, so that an alarm set meanwhile is not lost */
	pthread_mutex_unlock(&engine->lock);
	calls->ring(now_ns);
}

/* ms until when_ns, rounded up; at most one beat, because the clock may be set forward */
static int
ms_until(uint64_t when_ns, uint64_t now_ns)
{
	const uint64_t most = beat_ms[SOFTRDMA_BEAT_DEADLINES];
	uint64_t ms = (when_ns - now_ns + SOFTRDMA_NS_PER_MS - 1) / SOFTRDMA_NS_PER_MS;
	return (int)(ms < most ? ms : most);
}

/* the earlier of a timeout in ms (-1: never) and a time in ns (0: never), as a timeout in ms */
static int
sooner(int timeout_ms, uint64_t when_ns, uint64_t now_ns)
{
	if (when_ns == 0)
		return timeout_ms;
	int ms = ms_until(when_ns, now_ns);
	return timeout_ms >= 0 && timeout_ms < ms ? timeout_ms : ms;
}

static void
call_beats(struct softrdma_engine *engine, enum softrdma_beat beat, uint64_t now_ns)
{
	struct softrdma_watched *watched;
	while ((watched = softrdma_beats_next(engine, beat, now_ns)) != NULL) {
		watched->beat(watched, beat, now_ns);
		watched->put(watched);
	}
}

struct schedule {
	uint64_t beat_ns[SOFTRDMA_BEATS]; /* times of the next beats */
	struct softrdma_spin *spin;
};

/* does the work that is due; returns how long epoll_wait() may sleep, in ms */
static int
do_timed_work(struct softrdma_engine *engine, const struct softrdma_engine_calls *calls,
	struct schedule *schedule)
{
	int timed[SOFTRDMA_BEATS];
	void (*beat_calls[SOFTRDMA_BEATS][SOFTRDMA_BEAT_CALLS_MAX])(uint64_t now_ns);
	pthread_mutex_lock(&engine->lock);
	for (int beat = 0; beat < SOFTRDMA_BEATS; beat++)
		timed[beat] = engine->timed[beat];
	memcpy(beat_calls, engine->beat_calls, sizeof(beat_calls));
	uint64_t alarm_ns = engine->alarm_ns;
	pthread_mutex_unlock(&engine->lock);

	const uint64_t now_ns = softrdma_now_ns();
	int timeout_ms = -1;
	for (enum softrdma_beat beat = 0; beat < SOFTRDMA_BEATS; beat++) {
		if (timed[beat] == 0)
			continue;
		if (timeout_ms < 0)
			timeout_ms = (int)beat_ms[beat]; /* the shortest beat comes first */
		if (now_ns < schedule->beat_ns[beat])
			continue;
		schedule->beat_ns[beat] = now_ns + beat_ms[beat] * (uint64_t)SOFTRDMA_NS_PER_MS;
		softrdma_spin_is_busy(schedule->spin);
		call_beats(engine, beat, now_ns);
		for (int i = 0; i < SOFTRDMA_BEAT_CALLS_MAX && beat_calls[beat][i]; i++)
			beat_calls[beat][i](now_ns);
	}
	if (alarm_ns && now_ns >= alarm_ns) {
		ring_alarm(engine, calls, now_ns);
		alarm_ns = 0;
	}
	const uint64_t look_ns = calls->before_sleep ? calls->before_sleep(now_ns) : 0;
	if (softrdma_spin_is_on(schedule->spin))
		return 0;
	return sooner(sooner(timeout_ms, alarm_ns, now_ns), look_ns, now_ns);
}

/* --- looks that pending sockets wait for --- */

void
softrdma_one_engine_ask(struct softrdma_engine *engine)
{
	atomic_fetch_add(&engine->look_asked, 1);
	softrdma_one_engine_wake(engine);
}

/*
 * The engine has handled this number of events. They were reported after it was asked for this look. If one report
 * could not hold all objects, the look goes on until it has seen more events than there are connections: epoll reports
 * those first that have waited longest.
 */
static void
go_on_with_look(struct softrdma_engine *engine, unsigned asked, int count)
{
	engine->look_events += count > 0 ? (unsigned)count : 0;
	if (count == EVENTS_MAX && engine->look_events <= engine->connections)
		return;
	engine->look_events = 0;
	engine->look_ended = asked;
	softrdma_one_engine_wake(softrdma_engine_first());
}

/* --- the thread --- */

enum handled {
	HANDLED_NOTHING,
	HANDLED_ALL, /* no input is expected to follow */
	HANDLED_SOME,
};

/* polls the busy object, if there is one. HANDLED_NOTHING: it had no input, and it is time to look at all objects. */
static enum handled
poll_busily(struct softrdma_engine *engine)
{
	while (engine->busy.events == BUSY_AFTER && engine->busy.turns > 0) {
		engine->busy.turns--;
		const struct softrdma_turn turn = take_turn(engine, engine->busy.watched, 0);
		if (turn.progress) {
			engine->busy.turns -=
				engine->busy.turns < BUSY_TURNS / 4 ? engine->busy.turns : BUSY_TURNS / 4;
			return turn.may_follow ? HANDLED_SOME : HANDLED_ALL;
		}
	}
	engine->busy.turns = BUSY_TURNS;
	return HANDLED_NOTHING;
}

/* true if more input is likely to follow */
static bool
handle_event(struct softrdma_engine *engine, struct softrdma_watched *watched, uint32_t events)
{
	if (watched->turn)
		return take_turn(engine, watched, events).may_follow;
	watched->handle(watched, events);
	return true;
}

static enum handled
handle_events(struct softrdma_engine *engine, int timeout_ms)
{
	enum handled handled = HANDLED_NOTHING;
	if (timeout_ms != 0)
		end_busy_polling(engine);
	else
		handled = poll_busily(engine);
	if (handled != HANDLED_NOTHING)
		return handled;

	struct epoll_event events[EVENTS_MAX];
	const unsigned asked = engine->look_asked;
	const bool awaited = asked != engine->look_ended;
	int count = epoll_wait(engine->epoll_fd, events, EVENTS_MAX, awaited ? 0 : timeout_ms);
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr == NULL) {
			drain_wakes(engine);
			continue;
		}
		if (handle_event(engine, events[i].data.ptr, events[i].events))
			handled = HANDLED_SOME;
		else if (handled == HANDLED_NOTHING)
			handled = HANDLED_ALL;
	}
	if (awaited)
		go_on_with_look(engine, asked, count);
	return handled;
}

static void *
run_thread(void *arg)
{
	struct softrdma_engine *engine = arg;
	const struct softrdma_engine_calls *calls = engine->calls;
	struct schedule schedule = { .spin = softrdma_spin_mine() };
	bool stopping = false;
	if (calls->begin)
		calls->begin();
	while (!stopping) {
		/* only one: objects with little to do must not wait for all objects with much to do */
		bool worked = do_queued_work(engine, 1);
		int timeout_ms = do_timed_work(engine, calls, &schedule);
		enum handled handled = handle_events(engine, worked ? 0 : timeout_ms);
		if (handled == HANDLED_SOME)
			softrdma_spin_input(schedule.spin, engine->spin_ns);
		else if (handled == HANDLED_ALL)
			softrdma_spin_end(schedule.spin);
		else if (softrdma_spin_goes_on(schedule.spin))
			softrdma_spin_give_way(schedule.spin);
		release_retired(engine);
		softrdma_spin_let_run(schedule.spin);
		pthread_mutex_lock(&engine->lock);
		/* not running: a log function has forked on this thread, and returned in the child */
		stopping = engine->stopping || !engine->running;
		pthread_mutex_unlock(&engine->lock);
	}
	end_busy_polling(engine);
	if (calls->end)
		calls->end();
	return NULL;
}

/* --- its life --- */

static void
set_running(struct softrdma_engine *engine, bool running)
{
	pthread_mutex_lock(&engine->lock);
	engine->running = running;
	pthread_mutex_unlock(&engine->lock);
}

int
softrdma_one_engine_open(struct softrdma_engine *engine)
{
	engine->epoll_fd = softrdma_fork_owned(epoll_create1(EPOLL_CLOEXEC));
	return engine->epoll_fd < 0 ? errno : 0;
}

int
softrdma_one_engine_run(struct softrdma_engine *engine, const char *name,
	const struct softrdma_engine_calls *calls, uint64_t spin_ns)
{
	int ret;
	engine->wake_fd = softrdma_fork_owned(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (engine->wake_fd < 0)
		return errno;
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
	if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &ev) != 0) {
		ret = errno;
		goto err_close_wake;
	}
	engine->spin_ns = spin_ns;
	engine->calls = calls;
	engine->connections = engine->look_asked = engine->look_ended = engine->look_events = 0;
	for (int beat = 0; beat < SOFTRDMA_BEATS; beat++)
		engine->on_beat[beat].begun_ns = 0;
	set_running(engine, true);
	engine->stopping = false;
	ret = softrdma_thread_create(&engine->thread, name, run_thread, engine);
	if (ret)
		goto err_not_running;
	return 0;

err_not_running:
	set_running(engine, false);
err_close_wake:
	softrdma_fork_close(engine->wake_fd);
	engine->wake_fd = -1;
	return ret;
}

void
softrdma_one_engine_stop(struct softrdma_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->stopping = true;
	pthread_mutex_unlock(&engine->lock);
	softrdma_one_engine_wake(engine);
}

void
softrdma_one_engine_join(struct softrdma_engine *engine)
{
	pthread_join(engine->thread, NULL);
}

/* gives each queued object one turn; an object that has more to do may get another turn when the engines start again */
void
softrdma_one_engine_drain(struct softrdma_engine *engine)
{
	do_queued_work(engine, UINT_MAX);
	end_busy_polling(engine); /* this thread has made the turns, and polls nothing */
	set_running(engine, false);
	while (softrdma_engine_has_queued(engine)) {
		struct softrdma_watched *watched = take_work(engine);
		watched->put(watched);
	}
	release_retired(engine);
}

void
softrdma_one_engine_close(struct softrdma_engine *engine)
{
	if (engine->wake_fd >= 0)
		softrdma_fork_close(engine->wake_fd);
	softrdma_fork_close(engine->epoll_fd);
	engine->wake_fd = engine->epoll_fd = -1;
}
