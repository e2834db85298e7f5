/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conformance.c -- scenarios of the conformance table under faults
 *
 * These scenarios do not expect faults. A check that fails after a fault may mean that the library has reported
 * the fault, as it must: the run then ends, and passes. These are wrong with a fault, too: an error that is not
 * documented, a wait without end, payload that differs or lies in the wrong place, a completion too many.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "deadline.h"
#include "fault.h"
#include "groups.h"
#include "torture.h"

/* ms of a scenario after a fault; then time is made to pass faster, so that deadlines end it */
#define PATIENCE_MS 1500
#define SKIP_MS 1000
#define SKIP_EVERY_MS 50

/* ms for the other role to report why it ends */
#define ORPHAN_MS 200
#define LISTEN_MS 100

static _Thread_local struct role *current;
static struct role *last_bound;

/* ---- the functions of check.h, with faults ---- */

void
check_bind(struct role *r)
{
	current = r;
	__atomic_store_n(&last_bound, r, __ATOMIC_RELAXED);
}

struct role *
check_role(void)
{
	return current ? current : __atomic_load_n(&last_bound, __ATOMIC_RELAXED);
}

static bool
never_right(const char *why)
{
	static const char *const parts[] = {
		"payload differs",
		"the payload was written",
		"a completion of no connection",
		"does not answer",
		"did not end",
		"no event: No event available",
		"no completion: No completion available",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strstr(why, parts[i]))
			return true;
	}
	/* a failed completion may report the fault */
	return strstr(why, "a completion too many") && strstr(why, ibv_wc_status_str(IBV_WC_SUCCESS));
}

void
check_failed(const char *file, int line, const char *format, ...)
{
	const char *slash = strrchr(file, '/');
	char why[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	if (!fault_used() || never_right(why))
		wrong("%s:%d: %s", slash ? slash + 1 : file, line, why);
	stopped();
}

void
check_ret(const char *file, int line, const char *text, int ret, int expected)
{
	char function[64];
	size_t len = strcspn(text, "(");

	if (ret == expected)
		return;
	snprintf(function, sizeof(function), "%.*s", (int)len, text);
	if (ret && fault_used() && !strncmp(function, "rpma_", 5) && !documented(function, ret))
		wrong("%s() returns %d (%s), which the header does not say", function, ret,
			rpma_err_2str(ret));
	/* a fault may have refused the request, and then the client was told */
	if (!strcmp(function, "wait_conn_req") && fault_used())
		stopped();
	/* these wait longer than anything may take */
	if (!strncmp(function, "wait_", 5) && (ret == RPMA_E_NO_EVENT || ret == RPMA_E_NO_COMPLETION))
		wrong("%s() waits in vain", function);
	check_failed(file, line, "%s: \"%s\" (%d), not \"%s\"", text, rpma_err_2str(ret), ret,
		rpma_err_2str(expected));
}

void
check_eq(const char *file, int line, const char *text, intmax_t value, intmax_t expected)
{
	if (value != expected)
		check_failed(file, line, "%s is %jd, not %jd", text, value, expected);
}

void
check_orphaned(void)
{
	/* the other role has ended, or is about to report a failure and to end the process */
	poll(NULL, 0, ORPHAN_MS);
	if (!fault_used())
		wrong("the other role has ended");
	stopped();
}

void
check_skip(struct role *r, const char *format, ...)
{
	(void)r;
	(void)format;
	skipped();
}

void
check_skipped_by_other(const char *why)
{
	(void)why;
	skipped();
}

/* ---- messages between the roles ---- */

/* After a fault both roles may wait for a message of the other: that ends the run. */
static int control[2];
static int listening; /* roles that wait for a message */

int __real_wait_readable(int fd, int timeout_ms);
int __wrap_wait_readable(int fd, int timeout_ms);

int
__wrap_wait_readable(int fd, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms;
	bool listens = timeout_ms > 0 && (fd == control[0] || fd == control[1]);
	int ready;

	if (!listens)
		return __real_wait_readable(fd, timeout_ms);
	__atomic_fetch_add(&listening, 1, __ATOMIC_SEQ_CST);
	do {
		ready = __real_wait_readable(fd, LISTEN_MS);
		/* a message that was sent would have arrived by now */
		if (!ready && fault_used() && __atomic_load_n(&listening, __ATOMIC_SEQ_CST) == 2 &&
			!__real_wait_readable(control[0], 0) && !__real_wait_readable(control[1], 0))
			stopped();
	} while (!ready && left_ms(end) > 0);
	__atomic_fetch_sub(&listening, 1, __ATOMIC_SEQ_CST);
	return ready;
}

/* ---- the run ---- */

static void *
role_main(void *arg)
{
	struct role *r = arg;

	check_bind(r);
	if (r->is_target)
		r->scenario->target(r);
	else
		r->scenario->initiator(r);
	shutdown(r->control, SHUT_RDWR);
	return NULL;
}

/* makes time pass faster after a fault, until the other end of the pipe is closed */
static void *
hurry(void *arg)
{
	struct pollfd over = { .fd = *(const int *)arg, .events = POLLIN };
	int after_fault_ms = 0;

	while (poll(&over, 1, SKIP_EVERY_MS) == 0) {
		if (fault_used())
			after_fault_ms += SKIP_EVERY_MS;
		if (after_fault_ms > PATIENCE_MS)
			fault_skip_time(SKIP_MS);
	}
	return NULL;
}

static void
start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	if (pthread_create(thread, NULL, run, arg))
		wrong("no thread");
}

void
conformance_run(const struct scenario *s, const char *dir)
{
	struct role roles[2];
	pthread_t threads[2], hurrying;
	int over[2];

	if (pipe2(over, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control))
		wrong("no control channel");
	start(&hurrying, hurry, &over[0]);
	for (int i = 0; i < 2; i++) {
		roles[i] = (struct role){
			.scenario = s,
			.addr = "127.0.0.1",
			.dir = dir,
			.is_target = i == 0,
			.soft = true,
			.processes = 1,
			.control = control[i],
			.report = STDERR_FILENO,
		};
		start(&threads[i], role_main, &roles[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	close(over[1]);
	pthread_join(hurrying, NULL);
	close(over[0]);
	close(control[0]);
	close(control[1]);
}

/* ---- the scenarios ---- */

/* left out: they take seconds, are about a fault of their own, or have threads that wait for each other */
static bool
suits(const struct scenario *s)
{
	static const char *const others[] = { "queue-deep", "cm-unreachable", "everything-returns",
		"target-asleep", "threads-disconnect-against-posts", "smoke-reconnect" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strcmp(s->name, others[i]))
			return false;
	}
	/* dozens of connections each */
	if (!strncmp(s->name, "lost-", strlen("lost-")))
		return false;
	return s->size <= PAYLOAD_MAX &&
		!(s->flags & (TWO_PROCESSES | TARGET_DIES | INITIATOR_DIES | ONE_HOST | RACES));
}

const struct scenario *
conformance_next(const struct scenario *s)
{
	bool found = s == NULL;

	for (const struct scenario_group *const *group = scenario_groups; *group; group++) {
		for (size_t i = 0; i < (*group)->count; i++) {
			const struct scenario *at = &(*group)->list[i];

			if (found && suits(at))
				return at;
			found = found || at == s;
		}
	}
	return NULL;
}

const char *
conformance_name(const struct scenario *s)
{
	return s->name;
}
