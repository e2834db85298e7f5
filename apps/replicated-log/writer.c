/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * writer.c -- append the records of standard input to a log on several replicas
 *
 * A record is acknowledged when it is durable on a majority of the replicas. cluster.h explains how, and why
 * the record is then never lost. This file has the user's part: input, acknowledgements, progress, summary.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "figure.h"
#include "input.h"
#include "numbers.h"

/* limits on records that are not acknowledged: in bytes (without --window), and in reads of the input (batches) */
#define WINDOW_BYTES ((size_t)8 << 20)
#define BATCHES_MAX 1024

#define PROGRESS_MS 200

struct options {
	const char *replicas;
	const char *ack_path;
	uint64_t record_size; /* 0: records are lines */
	size_t window;  /* bytes that may be read before the records in front of them are acknowledged */
	int timeout_ms; /* -1: no limit */
	bool resume;
	bool trust_empty;
};

/* The records of one read. The counts are those of the whole log up to the end of the batch. */
struct batch {
	size_t end;
	uint64_t records;
	uint64_t bytes;
	int64_t read_ns;
	int64_t alone_ms; /* total time without a majority when the batch was read */
};

struct writer {
	struct cluster cluster;
	struct input input;
	struct log_scan known; /* --resume: the records that the input must begin with */
	size_t window;
	bool resume;
	bool full;
	struct batch batches[BATCHES_MAX]; /* a ring of the batches that are not acknowledged yet */
	unsigned first;
	unsigned count;
	struct batch last; /* the newest batch, acknowledged or not */
	struct batch acknowledged;
	struct batch recovered;
	/* from reading a record to its acknowledgement, in ns: with a majority all the time, and with an outage */
	struct histogram latency;
	struct histogram outage;
	int ack_fd;
	int64_t start_ns;
	int64_t progress_ns; /* time when the progress was last shown */
	int64_t looked_ms;   /* time when the replicas were last counted */
	int64_t alone_ms;    /* total time without a majority */
	int64_t fine_ms;     /* time when there last was a majority and progress */
	bool show_progress;
};

static volatile int interrupted;

static void
on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

/*
 * Writes the number of acknowledged records and bytes, to be read after this process was killed. It counts
 * the whole log, not only this run.
 */
static int
write_ack_file(struct writer *w)
{
	char line[64];

	if (w->ack_fd < 0)
		return 0;
	int len = snprintf(line, sizeof(line), "%020" PRIu64 " %020" PRIu64 "\n", w->acknowledged.records,
		w->acknowledged.bytes);
	if (pwrite(w->ack_fd, line, (size_t)len, 0) != len) {
		perror("the file of acknowledgements");
		return -1;
	}
	return 0;
}

/* acknowledges all batches that end at or before commit */
static int
acknowledge(struct writer *w, size_t commit)
{
	const int64_t now = now_ns();

	if (w->count == 0 || w->batches[w->first].end > commit)
		return 0;
	while (w->count && w->batches[w->first].end <= commit) {
		const struct batch *b = &w->batches[w->first];
		if (b->read_ns)
			histogram_add_many(w->alone_ms == b->alone_ms ? &w->latency : &w->outage,
				(uint64_t)(now - b->read_ns), b->records - w->acknowledged.records);
		w->acknowledged = *b;
		w->first = (w->first + 1) % BATCHES_MAX;
		w->count--;
	}
	w->fine_ms = now_ms();

	return write_ack_file(w);
}

static void
add_batch(struct writer *w, const struct batch *batch)
{
	w->batches[(w->first + w->count) % BATCHES_MAX] = *batch;
	w->count++;
	w->last = *batch;
}

/*
 * --resume: compares this record with the next one of the log: 1 equal, 0 the log has no further records, -1
 * different
 */
static int
match_known(struct writer *w, const uint8_t *payload, size_t length)
{
	struct log_record record;

	if (!w->resume || log_scan_next(&w->known, &record) != LOG_OK)
		return 0;
	if (record.length == length && memcmp(record.payload, payload, length) == 0)
		return 1;
	tell("the input is not what the log begins with: record %" PRIu64 " differs", record.sequence);

	return -1;
}

/* appends all whole records that were read, as one batch */
static int
append_records(struct writer *w)
{
	struct batch batch = w->last;
	const uint8_t *payload;
	size_t length;

	while (!w->full && input_next(&w->input, &payload, &length)) {
		int known = match_known(w, payload, length);
		if (known < 0)
			return -1;
		if (known)
			continue;
		w->full = !cluster_append(&w->cluster, payload, length);
		if (w->full)
			break;
		batch.records++;
		batch.bytes += length;
	}
	if (batch.records == w->last.records)
		return 0;

	batch.end = w->cluster.head;
	batch.read_ns = now_ns();
	batch.alone_ms = w->alone_ms;
	add_batch(w, &batch);
	cluster_publish(&w->cluster);

	return 0;
}

static bool
wants_input(const struct writer *w, size_t commit)
{
	/* before a majority has joined, commit is at the beginning of the log */
	size_t waiting = w->cluster.head - (w->acknowledged.end > commit ? w->acknowledged.end : commit);

	return !w->full && !interrupted && !w->input.eof && w->count < BATCHES_MAX && waiting < w->window;
}

/* waits for input (if wanted), for an acknowledgement, or for a moment; then reads the input */
static int
wait_and_read(struct writer *w, size_t commit)
{
	struct pollfd pfds[] = {
		{ .fd = w->cluster.main_fd, .events = POLLIN },
		{ .fd = wants_input(w, commit) ? w->input.fd : -1, .events = POLLIN },
	};

	if (poll(pfds, 2, PROGRESS_MS) < 0)
		return errno == EINTR ? 0 : -1;
	if (pfds[0].revents)
		wake_wait(w->cluster.main_fd, 0);
	if (pfds[1].revents == 0)
		return 0;

	return input_fill(&w->input) || append_records(w) ? -1 : 0;
}

static void
show_progress(struct writer *w, unsigned joined, bool at_end)
{
	const int64_t now = now_ns();

	if (!w->show_progress || (!at_end && now - w->progress_ns < PROGRESS_MS * INT64_C(1000000)))
		return;
	uint64_t bytes = w->acknowledged.bytes - w->recovered.bytes;
	double seconds = (double)(now - w->start_ns) / 1e9;
	fprintf(stderr, "\r%" PRIu64 " records, %.1f MB, %.1f MB/s, %u of %u replicas \033[K%s",
		w->acknowledged.records - w->recovered.records, (double)bytes / 1e6,
		seconds > 0 ? (double)bytes / 1e6 / seconds : 0, joined, w->cluster.count,
		at_end ? "\n" : "");
	w->progress_ns = now;
}

/* true if there is a majority and progress; false after it has told the user that the timeout is over */
static bool
is_worth_waiting(struct writer *w, const struct options *options, unsigned joined, bool doomed)
{
	if (doomed) {
		tell("too few replicas can be used");
		return false;
	}
	const int64_t now = now_ms();
	const bool alone = joined < cluster_majority(&w->cluster);
	if (alone)
		w->alone_ms += now - w->looked_ms;
	else if (w->count == 0)
		w->fine_ms = now;
	w->looked_ms = now;
	if (options->timeout_ms >= 0 && now - w->fine_ms > options->timeout_ms) {
		tell("no majority of the replicas for %d seconds", options->timeout_ms / 1000);
		return false;
	}

	return true;
}

/* runs until all of the input is acknowledged */
static int
replicate_input(struct writer *w, const struct options *options)
{
	unsigned joined;
	bool doomed;

	for (;;) {
		size_t commit = cluster_commit(&w->cluster, &joined, &doomed);
		if (acknowledge(w, commit))
			return -1;
		show_progress(w, joined, false);
		bool no_more = interrupted || w->full || input_is_over(&w->input);
		if (no_more && w->count == 0)
			break;
		if (!is_worth_waiting(w, options, joined, doomed) || wait_and_read(w, commit))
			return -1;
	}
	show_progress(w, joined, true);

	return 0;
}

/* of records that were read and acknowledged while there was a majority, then of the others */
static void
print_latencies(const struct writer *w)
{
	char p50[FIGURE_TEXT_MAX];
	char p99[FIGURE_TEXT_MAX];
	char longest[FIGURE_TEXT_MAX];

	figure_quantile_text(&w->latency, 0.5, p50);
	figure_quantile_text(&w->latency, 0.99, p99);
	figure_quantile_text(&w->outage, 1, longest);
	printf("latency p50: %s us\n", p50);
	printf("latency p99: %s us\n", p99);
	printf("latency samples: %" PRIu64 "\n", w->latency.count);
	printf("records that waited for a majority: %" PRIu64 "\n", w->outage.count);
	printf("their longest wait: %s us\n", longest);
}

static void
print_summary(const struct writer *w)
{
	const uint64_t records = w->acknowledged.records - w->recovered.records;
	const uint64_t bytes = w->acknowledged.bytes - w->recovered.bytes;
	const double seconds = (double)(now_ns() - w->start_ns) / 1e9;

	printf("records: %" PRIu64 "\n", records);
	printf("bytes: %" PRIu64 "\n", bytes);
	printf("seconds: %.3f\n", seconds);
	printf("seconds without a majority: %.3f\n", (double)w->alone_ms / 1e3);
	printf("records/s: %.0f\n", (double)records / seconds);
	printf("MB/s: %.1f\n", (double)bytes / 1e6 / seconds);
	print_latencies(w);
}

/* acknowledges the recovered log again, as soon as a majority has all of it */
static void
begin(struct writer *w, const struct options *options)
{
	const struct cluster *c = &w->cluster;

	w->recovered = (struct batch){
		.end = c->recovered_end,
		.records = c->recovered.records,
		.bytes = c->recovered.payload_bytes,
	};
	tell("log %012" PRIx64 ", epoch %" PRIu64 ": %" PRIu64 " records, %" PRIu64 " bytes recovered",
		c->log_id, log_epoch_round(c->epoch), w->recovered.records, w->recovered.bytes);
	w->window = options->window;
	w->resume = options->resume;
	log_scan_init(&w->known, c->image, c->recovered_end);
	add_batch(w, &w->recovered);
	/* time counts from here, whether or not a majority is up already */
	w->acknowledged = w->recovered;
	w->acknowledged.end = 0;
	w->start_ns = now_ns();
	w->fine_ms = now_ms();
	w->looked_ms = w->fine_ms;
	w->show_progress = isatty(STDERR_FILENO);
}

static int
run(struct writer *w, const struct options *options)
{
	if (cluster_recover(&w->cluster, options->timeout_ms, &interrupted))
		return -1;
	begin(w, options);

	int ret = replicate_input(w, options);
	if (ret)
		cluster_report(&w->cluster);
	print_summary(w);
	if (w->full)
		tell("the log is full: %" PRIu64 " records of %" PRIu64 " bytes fit into its %zu bytes; "
		     "the rest of the input was not appended",
			w->last.records, w->last.bytes, w->cluster.size);
	if (ret == 0)
		cluster_drain(&w->cluster);

	return ret || w->full || interrupted ? -1 : 0;
}

static int
usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [options] <addr:port>[,<addr:port>...]\n"
		"  Appends standard input to the log on these replicas: name all of them. IPv6: [::1]:port\n"
		"  -b, --bytes N      a record is N bytes instead of a line\n"
		"  -w, --window N     read at most N bytes before the first of them is acknowledged (8M)\n"
		"  -t, --timeout S    give up after S seconds without a majority (default: wait for ever)\n"
		"  -a, --ack-file F   keep in the file F how many records and bytes are acknowledged\n"
		"  -r, --resume       the input is that of a run which was cut off: skip what the log has\n"
		"      --trust-empty  a replica with an empty log has lost nothing, it is new\n",
		name);
	return 2;
}

static bool
parse_options(int argc, char *argv[], struct options *options)
{
	static const struct option longs[] = {
		{ "bytes", required_argument, NULL, 'b' },
		{ "window", required_argument, NULL, 'w' },
		{ "timeout", required_argument, NULL, 't' },
		{ "ack-file", required_argument, NULL, 'a' },
		{ "resume", no_argument, NULL, 'r' },
		{ "trust-empty", no_argument, NULL, 'e' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t number;
	int opt;

	while ((opt = getopt_long(argc, argv, "b:w:t:a:r", longs, NULL)) != -1) {
		if (opt == 'b' && parse_size(optarg, LOG_PAYLOAD_MAX, &number) && number)
			options->record_size = number;
		else if (opt == 'w' && parse_size(optarg, LOG_PAYLOAD_MAX, &number) && number)
			options->window = (size_t)number;
		else if (opt == 't' && parse_number(optarg, INT_MAX / 1000, &number))
			options->timeout_ms = (int)number * 1000;
		else if (opt == 'a')
			options->ack_path = optarg;
		else if (opt == 'r')
			options->resume = true;
		else if (opt == 'e')
			options->trust_empty = true;
		else
			return false;
	}
	if (argc - optind != 1)
		return false;
	options->replicas = argv[optind];

	return true;
}

/* a first signal ends the input, a second one the process; the threads of the replicas take no signals */
static int
start(struct writer *w)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	sigset_t all;
	sigset_t old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int ret = cluster_start(&w->cluster);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	return ret;
}

static int
open_files(struct writer *w, const struct options *options)
{
	if (!input_init(&w->input, STDIN_FILENO, (size_t)options->record_size)) {
		fprintf(stderr, "no memory for the input\n");
		return -1;
	}
	/* a read takes at most as many bytes as the window has, or one record if that is larger */
	w->input.read_max = options->window > options->record_size ? options->window : options->record_size;
	w->ack_fd = -1;
	if (options->ack_path == NULL)
		return 0;
	w->ack_fd = open(options->ack_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (w->ack_fd < 0)
		perror(options->ack_path);

	return w->ack_fd < 0 ? -1 : 0;
}

int
main(int argc, char *argv[])
{
	static struct writer w; /* too large for a stack */
	struct options options = { .window = WINDOW_BYTES, .timeout_ms = -1 };

	if (!parse_options(argc, argv, &options))
		return usage(argv[0]);
	if (!cluster_init(&w.cluster, options.replicas)) {
		fprintf(stderr, "%s: not a list of up to %d different <addr:port>\n", options.replicas,
			MEMBERS_MAX);
		return usage(argv[0]);
	}
	w.cluster.trust_empty = options.trust_empty;
	if (open_files(&w, &options) || start(&w))
		return 1;

	int ret = run(&w, &options);

	cluster_stop(&w.cluster);
	cluster_destroy(&w.cluster);
	input_fini(&w.input);
	if (w.ack_fd >= 0)
		close(w.ack_fd);

	return ret ? 1 : 0;
}
