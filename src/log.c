/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * log.c -- thresholds, the default log function, and the program's own
 *
 * A message that passes the main threshold is formatted once and given to the log function. The default
 * function writes it to syslog, and also to stderr if it passes the auxiliary threshold.
 */

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "err.h"
#include "log.h"
#include "softrdma/base/stderr_line.h"

#define TEXT_MAX 1024 /* of one message; the rest is cut */
#define LINE_MAX (TEXT_MAX + 512)
#define LEVELS (RPMA_LOG_LEVEL_DEBUG + 1)

static const struct {
	const char *name; /* in RPMA_LOG_LEVEL */
	const char *tag;  /* in a line on stderr */
	int priority;     /* in syslog */
} levels[LEVELS] = {
	[RPMA_LOG_LEVEL_FATAL] = { "fatal", "*FATAL* ", LOG_CRIT },
	[RPMA_LOG_LEVEL_ERROR] = { "error", "*ERROR* ", LOG_ERR },
	[RPMA_LOG_LEVEL_WARNING] = { "warning", "*WARN*  ", LOG_WARNING },
	[RPMA_LOG_LEVEL_NOTICE] = { "notice", "*NOTE*  ", LOG_NOTICE },
	[RPMA_LOG_LEVEL_INFO] = { "info", "*INFO*  ", LOG_INFO },
	[RPMA_LOG_LEVEL_DEBUG] = { "debug", "*DEBUG* ", LOG_DEBUG },
};

static void default_function(enum rpma_log_level level, const char *file, int line, const char *func,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static _Atomic(rpma_log_function *) log_function = default_function;
static _Atomic int thresholds[RPMA_LOG_THRESHOLD_MAX] = { RPMA_LOG_LEVEL_WARNING, RPMA_LOG_LEVEL_WARNING };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool environment_is_wrong; /* true until a message has reported it */
static char wrong_level[32];             /* what the environment says then; not changed after that */

/* a fork waits for a line that is being written: it looks at most this often, with this pause in ns */
#define FORK_LOOKS 1000
#define FORK_LOOK_NS 1000000

static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool fork_has_lock; /* set from the beginning of a fork to its end */

/* writes the time, as "Nov 20 21:14:05.123456 " */
static void
print_time(char *buf, size_t size)
{
	struct timespec now;
	struct tm tm;
	char date[sizeof("Mon DD HH:MM:SS") + 8]; /* some locales have longer months */

	if (clock_gettime(CLOCK_REALTIME, &now) || localtime_r(&now.tv_sec, &tm) == NULL ||
		strftime(date, sizeof(date), "%b %d %H:%M:%S", &tm) == 0)
		snprintf(buf, size, "[time error] ");
	else
		snprintf(buf, size, "%s.%06ld ", date, now.tv_nsec / 1000);
}

/*
 * Calls syslog() without openlog(). The identity, options and facility of syslog belong to the process, so a
 * library that set them would relabel all other messages of the process. Instead each message carries the
 * facility, and the name in its text. The C library opens the connection at the first message.
 */
static void
default_function(enum rpma_log_level level, const char *file, const int line, const char *func,
	const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text[strcspn(text, "\n")] = '\0';

	char origin[256] = "";
	if (file)
		snprintf(origin, sizeof(origin), "%s: %3d: %s: ", file, line, func);

	int cancel_state, off;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the lock must not stay taken */
	pthread_mutex_lock(&line_lock);
	if ((int)level <= atomic_load_explicit(&thresholds[RPMA_LOG_THRESHOLD_AUX], memory_order_relaxed)) {
		char when[64];
		char out[LINE_MAX];
		print_time(when, sizeof(when));
		const int len = snprintf(out, sizeof(out), "%s[%ld] %s%s%s\n", when, syscall(SYS_gettid),
			levels[level].tag, origin, text);
		/* one write, so that lines of several threads and processes do not mix */
		softrdma_stderr_line(out, (size_t)len, SOFTRDMA_STDERR_PATIENCE_MS);
	}

	syslog(LOG_LOCAL7 | levels[level].priority, "rpma: %s%s%s", levels[level].tag, origin, text);
	pthread_mutex_unlock(&line_lock);
	pthread_setcancelstate(cancel_state, &off);
}

/*
 * The C library has locks for syslog() and for the time zone that a child cannot reinitialize. So a fork
 * waits while a line is being written. It waits at most about a second, because the reader of syslog may have
 * stopped reading.
 */
static void
before_fork(void)
{
	const struct timespec look = { .tv_nsec = FORK_LOOK_NS };
	bool locked = pthread_mutex_trylock(&line_lock) == 0;
	for (int i = 0; i < FORK_LOOKS && !locked; i++) {
		nanosleep(&look, NULL);
		locked = pthread_mutex_trylock(&line_lock) == 0;
	}
	fork_has_lock = locked;
}

static void
after_fork_in_parent(void)
{
	if (fork_has_lock)
		pthread_mutex_unlock(&line_lock);
}

static void
after_fork_in_child(void)
{
	after_fork_in_parent();
	line_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* accepts "debug", "DEBUG", "5", "disabled", "-1" and the like */
static bool
parse_level(const char *text, int *level)
{
	if (!strcasecmp(text, "disabled") || !strcmp(text, "-1")) {
		*level = RPMA_LOG_DISABLED;
		return true;
	}
	for (int i = 0; i < LEVELS; i++) {
		const char digit[] = { (char)('0' + i), '\0' };
		if (!strcasecmp(text, levels[i].name) || !strcmp(text, digit)) {
			*level = i;
			return true;
		}
	}
	return false;
}

static void
read_environment(void)
{
	const char *text = secure_getenv("RPMA_LOG_LEVEL");
	if (text == NULL || *text == '\0')
		return;

	int level;
	if (parse_level(text, &level)) {
		atomic_store(&thresholds[RPMA_LOG_THRESHOLD], level);
		atomic_store(&thresholds[RPMA_LOG_THRESHOLD_AUX], level);
	} else {
		snprintf(wrong_level, sizeof(wrong_level), "%s", text);
		atomic_store(&environment_is_wrong, true);
	}
}

static void
prepare(void)
{
	read_environment();
	(void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); /* else log anyway */
}

void
rpmai_log_prepare(void)
{
	pthread_once(&once, prepare);
}

void
rpmai_log(enum rpma_log_level level, const char *file, int line, const char *func, const char *fmt, ...)
{
	int saved_errno = errno; /* a log line must not change the errno that its caller is about to report */

	rpmai_log_prepare();
	/* message(environment): with the first message -> Set one of these. */
	if (atomic_load_explicit(&environment_is_wrong, memory_order_relaxed) &&
		atomic_exchange(&environment_is_wrong, false))
		RPMAI_LOG(WARNING,
			"RPMA_LOG_LEVEL is \"%s\", which is ignored: set it to disabled, fatal, error, "
			"warning, notice, info, debug or a number from -1 to 5",
			wrong_level);

	if ((int)level <= atomic_load_explicit(&thresholds[RPMA_LOG_THRESHOLD], memory_order_relaxed)) {
		errno = saved_errno; /* for %m */
		char text[TEXT_MAX];
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);

		const char *base = file ? strrchr(file, '/') : NULL;
		rpma_log_function *function = atomic_load(&log_function);
		function(level, base ? base + 1 : file, line, func, "%s\n", text);
	}

	errno = saved_errno;
}

/*
 * 0, or RPMA_E_INVAL with a sentence that is not logged: the caller may be the program's log function, which would then
 * be called again
 */
static int
check_threshold(enum rpma_log_threshold threshold)
{
	if (threshold == RPMA_LOG_THRESHOLD || threshold == RPMA_LOG_THRESHOLD_AUX)
		return 0;
	/*
	 * message(arguments, levels): rpma_log_set_threshold(3), rpma_log_get_threshold(3); not in the log
	 * -> As they say.
	 */
	return rpmai_refuse(RPMA_E_INVAL, "threshold %d: give RPMA_LOG_THRESHOLD or RPMA_LOG_THRESHOLD_AUX",
		(int)threshold);
}

int
rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level)
{
	int ret = check_threshold(threshold);
	if (ret)
		return ret;
	/* message(levels) */
	if ((int)level < RPMA_LOG_DISABLED || (int)level > RPMA_LOG_LEVEL_DEBUG)
		return rpmai_refuse(RPMA_E_INVAL,
			"log level %d: give RPMA_LOG_DISABLED, or a level from RPMA_LOG_LEVEL_FATAL to "
			"RPMA_LOG_LEVEL_DEBUG",
			(int)level);

	/* read the environment first, so that the program's setting overrides it */
	rpmai_log_prepare();
	atomic_store(&thresholds[threshold], (int)level);
	return 0;
}

int
rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level)
{
	int ret = check_threshold(threshold);
	if (ret)
		return ret;
	if (level == NULL)
		return rpmai_refuse(RPMA_E_INVAL, "an argument is NULL that must not be");

	rpmai_log_prepare();
	*level = (enum rpma_log_level)atomic_load(&thresholds[threshold]);
	return 0;
}

int
rpma_log_set_function(rpma_log_function *function)
{
	atomic_store(&log_function, function == RPMA_LOG_USE_DEFAULT_FUNCTION ? default_function : function);
	return 0;
}
