/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conformance.c -- scenarios of the conformance table under faults
 *
 * They know of no faults, so a check that fails after one may mean that the fault was reported as it should
 * be. That ends the run. Never right, with a fault or without, are: an error that is not documented, a wait
 * in vain, payload that differs or lies where none belongs, a completion too many.
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

/* how long a scenario goes on by itself after a fault; then deadlines pass fast, so that it ends by them */
#define PATIENCE_MS 1500
#define SKIP_MS 1000
#define SKIP_EVERY_MS 50

/* for the other role to say why it ends */
#define ORPHAN_MS 200
#define LISTEN_MS 100

static _Thread_local struct role *current;
static struct role *last_bound;

/* ---- what check.h says, for a world with faults ---- */

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
	/* one that says that something has failed is how a fault is reported */
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
	/* a request that a fault has refused does not come; whoever made it has been told */
	if (!strcmp(function, "wait_conn_req") && fault_used())
		stopped();
	/* these wait as long as anything may take */
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
	/* it has come to its end, or is about to end the process and to say how */
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

/* ---- what the roles say to each other ---- */

/*
 * one role waits for a word that the other, which has met the fault, does not come to say: both do in the end
 */
static int control[2];
static int listening; /* roles that wait for a word */

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
		/* a word on its way would have come by now */
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

/* until the descriptor is readable: the other end was closed */
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

/* ---- which ---- */

/* seconds each, about what a fault does by itself, or a thread that waits for another one of the same role */
static bool
suits(const struct scenario *s)
{
	static const char *const others[] = { "queue-deep", "cm-unreachable", "everything-returns",
		"target-asleep", "threads-disconnect-against-posts", "smoke-reconnect" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strcmp(s->name, others[i]))
			return false;
	}
	return s->size <= PAYLOAD_MAX &&
		!(s->flags & (TWO_PROCESSES | TARGET_DIES | INITIATOR_DIES | ONE_HOST));
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
