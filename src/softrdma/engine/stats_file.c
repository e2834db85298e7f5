/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* stats_file.c -- the statistics of the process as a text file, for node_exporter's textfile collector */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/thread.h"
#include "softrdma/base/variables.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/accounts.h"
#include "softrdma/engine/links.h"
#include "softrdma/engine/stats_file.h"

#define SECONDS_DEFAULT 10
#define SECONDS_MAX 3600
#define MODE 0644 /* node_exporter has a user of its own */

#define PATH_SIZE 4096
#define SUFFIX ".XXXXXX" /* of mkostemp(3); the collector reads only names that end with .prom */
#define LABELS_SIZE 512

/* --- the text --- */

struct row {
	char labels[LABELS_SIZE]; /* of the process and of the listener, without braces */
	struct softrdma_stats stats;
	uint64_t refused[SOFTRDMA_REFUSALS];
};

static const char *const operation_names[] = {
	[SOFTRDMA_STATS_SEND] = "send",
	[SOFTRDMA_STATS_WRITE] = "write",
	[SOFTRDMA_STATS_READ] = "read",
	[SOFTRDMA_STATS_ATOMIC] = "atomic",
	[SOFTRDMA_STATS_FLUSH] = "flush",
};
static_assert(sizeof(operation_names) / sizeof(operation_names[0]) == SOFTRDMA_STATS_OPERATIONS,
	"each kind of operation has its name");

static const char *const nak_names[] = {
	[SOFTRDMA_STATS_INVALID] = "invalid",
	[SOFTRDMA_STATS_ACCESS] = "access",
	[SOFTRDMA_STATS_OPERATION] = "operation",
	[SOFTRDMA_STATS_GONE] = "gone",
};
static_assert(sizeof(nak_names) / sizeof(nak_names[0]) == SOFTRDMA_STATS_REFUSALS,
	"each reason has its name");

static const char *const drop_names[] = {
	[SOFTRDMA_STATS_NO_RECEIVE] = "no_receive",
	[SOFTRDMA_STATS_TOO_LONG] = "too_long",
	[SOFTRDMA_STATS_QKEY] = "qkey",
	[SOFTRDMA_STATS_DAMAGED] = "damaged",
	[SOFTRDMA_STATS_FOREIGN] = "foreign",
	[SOFTRDMA_STATS_UNSENT] = "unsent",
};
static_assert(sizeof(drop_names) / sizeof(drop_names[0]) == SOFTRDMA_STATS_DROPS, "each reason has its name");

static const char *const refusal_names[] = {
	[SOFTRDMA_REFUSED_BY_APPLICATION] = "application",
	[SOFTRDMA_REFUSED_BUSY] = "busy",
	[SOFTRDMA_REFUSED_CLOSED] = "closed",
	[SOFTRDMA_REFUSED_VERSION] = "version",
	[SOFTRDMA_REFUSED_DAMAGED] = "damaged",
	[SOFTRDMA_REFUSED_PLAIN] = "plain",
	[SOFTRDMA_REFUSED_UNTRUSTED] = "untrusted",
	[SOFTRDMA_REFUSED_NOT_UNDERSTOOD] = "not_understood",
	[SOFTRDMA_REFUSED_SILENT] = "silent",
	[SOFTRDMA_REFUSED_SHUT_OUT] = "shut_out",
};
static_assert(sizeof(refusal_names) / sizeof(refusal_names[0]) == SOFTRDMA_REFUSALS,
	"each reason has its name");

/* a text as the value of a label: what is no printable ASCII, or has a meaning in the format, becomes '_' */
static void
make_label(char *label, size_t size, const char *text)
{
	const size_t len = strnlen(text, size - 1);
	memcpy(label, text, len);
	label[len] = '\0';
	for (char *at = label; *at; at++) {
		if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
			*at = '_';
	}
}

static void
set_labels(struct row *row, const char *listener)
{
	char program[64], name[300];
	make_label(program, sizeof(program), program_invocation_short_name);
	make_label(name, sizeof(name), listener); /* the name of an interface may be in it */
	const int len = snprintf(row->labels, sizeof(row->labels), "program=\"%s\",pid=\"%ld\"", program,
		(long)getpid());
	if (*name && len > 0 && (size_t)len < sizeof(row->labels))
		snprintf(row->labels + len, sizeof(row->labels) - (size_t)len, ",listener=\"%s\"", name);
}

static void
read_row(unsigned account, struct row *row)
{
	struct softrdma_account copy;
	memset(row, 0, sizeof(*row));
	softrdma_links_sum_account(account, &row->stats);
	softrdma_account_get(account, &copy);
	memcpy(row->refused, copy.refused, sizeof(row->refused));
	set_labels(row, copy.listener);
}

static void
head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP softrdma_%s %s\n# TYPE softrdma_%s %s\n", name, help, name, type);
}

/* connections come and go while the counters are read */
static uint64_t
connections_now(const struct softrdma_stats *stats)
{
	const uint64_t made = stats->connections, ended = stats->connections_ended;
	return made > ended ? made - ended : 0;
}

static void
print_connections(FILE *out, const struct row *rows, unsigned count)
{
	head(out, "connections", "gauge", "Connections that there are now.");
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "softrdma_connections{%s} %" PRIu64 "\n", rows[i].labels,
			connections_now(&rows[i].stats));
	head(out, "connections_total", "counter", "Connections that have been made.");
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "softrdma_connections_total{%s} %" PRIu64 "\n", rows[i].labels,
			rows[i].stats.connections);
	head(out, "connections_refused_total", "counter", "Incoming connections that have been refused.");
	for (unsigned i = 0; i < count; i++) {
		for (int why = 0; why < SOFTRDMA_REFUSALS; why++)
			fprintf(out, "softrdma_connections_refused_total{%s,reason=\"%s\"} %" PRIu64 "\n",
				rows[i].labels, refusal_names[why], rows[i].refused[why]);
	}
	head(out, "damaged_total", "counter", "Records that have come with a wrong check sum.");
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "softrdma_damaged_total{%s} %" PRIu64 "\n", rows[i].labels,
			rows[i].stats.crc_errors);
}

/* values of one side, by their kind */
static void
print_kinds(FILE *out, const char *metric, const struct row *row, const char *side, const char *label,
	const char *const *names, const uint64_t *values, int count)
{
	for (int i = 0; i < count; i++)
		fprintf(out, "softrdma_%s{%s,side=\"%s\",%s=\"%s\"} %" PRIu64 "\n", metric, row->labels, side,
			label, names[i], values[i]);
}

static void
print_operations(FILE *out, const struct row *rows, unsigned count)
{
	head(out, "operations_total", "counter",
		"Requests that were executed: issued by this process, or served for its peers.");
	for (unsigned i = 0; i < count; i++) {
		print_kinds(out, "operations_total", &rows[i], "issued", "kind", operation_names,
			rows[i].stats.issued.operations, SOFTRDMA_STATS_OPERATIONS);
		print_kinds(out, "operations_total", &rows[i], "served", "kind", operation_names,
			rows[i].stats.served.operations, SOFTRDMA_STATS_OPERATIONS);
	}
	head(out, "bytes_total", "counter", "Bytes of these requests; of a flush those of its range.");
	for (unsigned i = 0; i < count; i++) {
		print_kinds(out, "bytes_total", &rows[i], "issued", "kind", operation_names,
			rows[i].stats.issued.bytes, SOFTRDMA_STATS_OPERATIONS);
		print_kinds(out, "bytes_total", &rows[i], "served", "kind", operation_names,
			rows[i].stats.served.bytes, SOFTRDMA_STATS_OPERATIONS);
	}
	head(out, "refusals_total", "counter", "Requests that were refused: by a peer, or by this process.");
	for (unsigned i = 0; i < count; i++) {
		print_kinds(out, "refusals_total", &rows[i], "issued", "reason", nak_names,
			rows[i].stats.issued.refused, SOFTRDMA_STATS_REFUSALS);
		print_kinds(out, "refusals_total", &rows[i], "served", "reason", nak_names,
			rows[i].stats.served.refused, SOFTRDMA_STATS_REFUSALS);
	}
	head(out, "failed_total", "counter",
		"Requests of this process that did not succeed, for any reason.");
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "softrdma_failed_total{%s} %" PRIu64 "\n", rows[i].labels, rows[i].stats.failed);
}

static void
print_drops(FILE *out, const struct row *rows, unsigned count)
{
	head(out, "datagrams_dropped_total", "counter", "Unreliable datagrams that were dropped.");
	for (unsigned i = 0; i < count; i++) {
		for (int why = 0; why < SOFTRDMA_STATS_DROPS; why++)
			fprintf(out, "softrdma_datagrams_dropped_total{%s,reason=\"%s\"} %" PRIu64 "\n",
				rows[i].labels, drop_names[why], rows[i].stats.dropped[why]);
	}
}

/* without floating point, in which the program's locale may write a comma */
static void
print_flush_times(FILE *out, const struct row *row)
{
	uint64_t sum = 0;
	for (int i = 0; i < SOFTRDMA_STATS_FLUSH_TIMES - 1; i++) {
		sum += row->stats.flush_times[i];
		fprintf(out, "softrdma_flush_seconds_bucket{%s,le=\"%u.%06u\"} %" PRIu64 "\n", row->labels,
			(1u << i) / 1000000, (1u << i) % 1000000, sum);
	}
	sum += row->stats.flush_times[SOFTRDMA_STATS_FLUSH_TIMES - 1];
	fprintf(out, "softrdma_flush_seconds_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", row->labels, sum);
	fprintf(out, "softrdma_flush_seconds_sum{%s} %" PRIu64 ".%09" PRIu64 "\n", row->labels,
		row->stats.flush_ns / 1000000000, row->stats.flush_ns % 1000000000);
	fprintf(out, "softrdma_flush_seconds_count{%s} %" PRIu64 "\n", row->labels, sum);
}

void
softrdma_stats_print(FILE *out)
{
	const unsigned count = softrdma_accounts_count();
	struct row *rows = calloc(count, sizeof(*rows));
	if (rows == NULL)
		return;
	for (unsigned i = 0; i < count; i++)
		read_row(i, &rows[i]);
	print_connections(out, rows, count);
	print_operations(out, rows, count);
	print_drops(out, rows, count);
	head(out, "flush_seconds", "histogram",
		"How long it took to make memory of this process durable for its peers.");
	for (unsigned i = 0; i < count; i++)
		print_flush_times(out, &rows[i]);
	free(rows);
}

/* --- the file --- */

/* guards what follows; no other lock is taken under it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_cond;
static bool running, stopping;
static pthread_t thread;
static char path[PATH_SIZE];
static uint64_t interval_s;

static void
after_fork(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	running = stopping = false;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

static int
write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* 0 or an errno value; then the file is as it was */
static int
replace_file(const char *text, size_t len)
{
	char name[PATH_SIZE + sizeof(SUFFIX)];
	snprintf(name, sizeof(name), "%s%s", path, SUFFIX);
	/* not among the descriptors that a fork closes: close() may wait for the file system, and others for their lock */
	const int fd = softrdma_high_fd(mkostemp(name, O_CLOEXEC));
	if (fd < 0)
		return errno;
	int ret = fchmod(fd, MODE) == 0 ? write_all(fd, text, len) : errno;
	ret = close(fd) != 0 && ret == 0 ? errno : ret; /* some file systems write only then */
	if (ret == 0 && rename(name, path) != 0)
		ret = errno;
	if (ret)
		unlink(name);
	return ret;
}

static void
write_file(void)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_ONCE;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int ret = ENOMEM;
	if (out) {
		softrdma_stats_print(out);
		const bool good = !ferror(out);
		if (fclose(out) == 0 && good)
			ret = replace_file(text, len);
	}
	free(text);
	/*
	 * message(environment, statistics): `SOFTRDMA_STATS_FILE` -> The system's text says why: the folder
	 * must exist, and the process must be able to write to it.
	 */
	if (ret)
		SOFTRDMA_LOG_FEW(&limit, WARNING, "the statistics cannot be written to %s: %s", path,
			strerror(ret));
}

/* the lock is held; true if the time has come, false if the thread is to end */
static bool
await_next(void)
{
	struct timespec when;
	clock_gettime(CLOCK_MONOTONIC, &when);
	when.tv_sec += (time_t)interval_s;
	int ret = 0;
	while (!stopping && ret == 0)
		ret = pthread_cond_timedwait(&stop_cond, &lock, &when);
	return !stopping;
}

static void *
run(void *arg)
{
	(void)arg;
	bool more = true;
	while (more) {
		write_file();
		pthread_mutex_lock(&lock);
		more = await_next();
		pthread_mutex_unlock(&lock);
	}
	write_file();
	return NULL;
}

/* %p becomes the number of the process, and %% a %; false: the path is too long, or has another % */
static bool
expand(const char *text)
{
	size_t len = 0;
	for (; *text && len < sizeof(path) - 1; text++) {
		if (*text != '%') {
			path[len++] = *text;
			continue;
		}
		text++;
		int n = 0;
		if (*text == 'p')
			n = snprintf(path + len, sizeof(path) - len, "%ld", (long)getpid());
		else if (*text == '%')
			n = snprintf(path + len, sizeof(path) - len, "%%");
		if (n <= 0 || (size_t)n >= sizeof(path) - len)
			return false;
		len += (size_t)n;
	}
	path[len] = '\0';
	return *text == '\0';
}

static int
start_thread(void)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&stop_cond, &attr);
	pthread_condattr_destroy(&attr);
	stopping = false;
	int ret = softrdma_thread_create(&thread, "softrdma-stats", run, NULL);
	if (ret)
		pthread_cond_destroy(&stop_cond);
	return ret;
}

void
softrdma_stats_file_start(void)
{
	const char *text = softrdma_variable("SOFTRDMA_STATS_FILE");
	if (text == NULL)
		return;
	if (!expand(text)) {
		/* message(environment): - -> Shorten the path, or correct what follows a %. */
		SOFTRDMA_LOG(WARNING,
			"SOFTRDMA_STATS_FILE=%s is ignored: give a path of less than %d bytes, in which %%p is the "
			"number of the process, and %%%% a %%",
			text, PATH_SIZE);
		return;
	}
	interval_s = softrdma_setting("SOFTRDMA_STATS_SECONDS", 1, SECONDS_MAX, SECONDS_DEFAULT);
	const int ret = start_thread();
	running = ret == 0;
	/* message(statistics) */
	if (ret)
		SOFTRDMA_LOG(WARNING, "no thread for the statistics in %s: %s", path, strerror(ret));
}

void
softrdma_stats_file_stop(void)
{
	if (!running)
		return;
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_signal(&stop_cond);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	pthread_cond_destroy(&stop_cond);
	running = false;
}
