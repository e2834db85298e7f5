/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk.c -- the disk of nbdkit-rpma-plugin against a real rpma-keeper, which is killed, stopped and replaced
 *
 *	test_disk KEEPER [FILTER]	runs the cases that match, each with a keeper of its own
 *
 * TEST_KEEPER_ROUNDS in the environment multiplies the rounds of the longer cases.
 *
 * A machine that fails loses what was written and not flushed. The tests cause that without a power cut: after
 * the keeper was killed, they put the content that the file had at the last flush back into it.
 */

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "disk_internal.h"
#include "keeper_process.h"
#include "pattern.h"
#include "wait.h"

#define SIZE ((size_t)4 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 20000
#define SHORT_TIMEOUT_MS 1000
#define CASE_SECONDS 120

static const char *program;
static unsigned rounds = 1;
static uint64_t seed = 1;

static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static struct disk_facts facts;
static int
set_up(void **state)
{
	(void)state;
	keeper_process_init(&keeper, program, SIZE);
	config = case_config(&keeper, TIMEOUT_MS, (size_t)16 << 20);
	deadline_start("a case of test_disk", CASE_SECONDS * rounds);
	return 0;
}

/* writes return before the keeper has them, see test_disk_write_back.c */
static int
set_up_write_back(void **state)
{
	(void)set_up(state);
	config.write_back = true;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	case_ends(&keeper, &disk);
	return 0;
}

static void
starts(void)
{
	case_starts(&keeper, &config, &facts, &disk);
	assert_int_equal(facts.size, keeper.size);
}

static void
writes(uint64_t with, uint64_t offset, size_t len, bool durable)
{
	uint8_t *buf = malloc(len);

	assert_non_null(buf);
	pattern_fill(buf, len, with, offset);
	assert_true(disk_write(disk, buf, len, offset, durable));
	free(buf);
}

static void
has(uint64_t with, uint64_t offset, size_t len)
{
	uint8_t *buf = malloc(len);

	assert_non_null(buf);
	if (!disk_read(disk, buf, len, offset))
		fail_msg("reading fails: %s", case_last_said());
	assert_int_equal(pattern_check(buf, len, with, offset), -1);
	free(buf);
}

static void
file_has(uint64_t with, uint64_t offset, size_t len)
{
	case_file_has(&keeper, with, offset, len);
}

/* the content of the file, to be put back after the keeper was killed */
static uint8_t *
save_file(void)
{
	uint8_t *content = malloc(SIZE);
	int fd = open(keeper_process_path(&keeper, "disk"), O_RDONLY | O_CLOEXEC);

	assert_true(content && fd >= 0);
	assert_int_equal(pread(fd, content, SIZE, 0), SIZE);
	close(fd);
	return content;
}

static void
put_back(const uint8_t *content)
{
	int fd = open(keeper_process_path(&keeper, "disk"), O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, content, SIZE, 0), SIZE);
	close(fd);
}

/* --- requests --- */

static void
reads_and_writes(void **state)
{
	(void)state;
	static const size_t lens[] = { 1, 511, 4096, 4097, (size_t)1 << 20, ((size_t)1 << 20) + 1, SIZE - 7 };
	starts();
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		const uint64_t offset = i % 2 ? 7 : SIZE - lens[i];
		writes(seed + i, offset, lens[i], i % 3 == 0);
		has(seed + i, offset, lens[i]);
		file_has(seed + i, offset, lens[i]);
	}
	assert_true(disk_flush(disk));
	assert_true(disk_flush(disk)); /* nothing to flush */
	assert_int_equal(case_said_count(), 0);
}

static void
zeros(void **state)
{
	(void)state;
	uint8_t *buf = malloc(SIZE);
	assert_non_null(buf);
	starts();
	writes(seed, 0, SIZE, false);
	assert_true(disk_zero(disk, SIZE - 200, 100, true));
	assert_true(disk_read(disk, buf, SIZE, 0));
	assert_int_equal(pattern_check(buf, 100, seed, 0), -1);
	assert_int_equal(pattern_check_byte(buf + 100, SIZE - 200, 0), -1);
	assert_int_equal(pattern_check(buf + SIZE - 100, 100, seed, SIZE - 100), -1);
	free(buf);
}

/* more is written than the journal holds */
static void
small_journal(void **state)
{
	(void)state;
	config.journal_size = DISK_JOURNAL_MIN;
	starts();
	for (uint64_t i = 0; i < 20; i++)
		writes(seed + i, 1, SIZE - 1, false);
	has(seed + 19, 1, SIZE - 1);
}

/* --- the keeper dies and comes back --- */

/* what was written and not flushed is there again, although the keeper's machine has lost it */
static void
lost_writes_are_written_again(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 5 * rounds; round++) {
		starts();
		writes(seed, 0, SIZE, true);
		uint8_t *durable = save_file();
		writes(seed + 1, BLOCK, 3 * BLOCK, false);
		writes(seed + 2, 2 * BLOCK, BLOCK, false); /* over a part of it: the order counts */
		assert_true(disk_zero(disk, BLOCK, SIZE - BLOCK, false));
		assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
		put_back(durable);
		keeper_process_start(&keeper);
		has(seed, 0, BLOCK);
		has(seed + 1, BLOCK, BLOCK);
		has(seed + 2, 2 * BLOCK, BLOCK);
		has(seed + 1, 3 * BLOCK, BLOCK);
		has(seed, 4 * BLOCK, SIZE - 5 * BLOCK);
		assert_true(disk_flush(disk));
		file_has(seed + 2, 2 * BLOCK, BLOCK);
		assert_true(case_was_said("connected again; 3 writes"));
		/* after the flush there is nothing to write again */
		assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);
		keeper_process_start(&keeper);
		has(seed + 2, 2 * BLOCK, BLOCK);
		assert_true(case_was_said("connected again; 0 writes"));
		free(durable);
		disk_stop(&disk);
		assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
		case_forget_lines();
	}
}

#define WRITERS 4
#define PART (SIZE / WRITERS)

struct writer {
	pthread_t thread;
	unsigned number;
	atomic_bool *stop;
	uint64_t writes, errors;
	uint64_t last[PART / BLOCK]; /* the seed of each block; 0: not written yet */
};

/* writes and reads random blocks of its own part, and flushes now and then; on a busy machine it may begin late */
static void *
run_writer(void *arg)
{
	struct writer *w = arg;
	unsigned random = w->number + (unsigned)seed;
	uint8_t buf[BLOCK];

	while (!atomic_load(w->stop) || w->writes == 0) {
		const size_t block = (size_t)rand_r(&random) % (PART / BLOCK);
		const uint64_t offset = w->number * PART + block * BLOCK;
		const unsigned what = (unsigned)rand_r(&random) % 16;
		if (what == 0) {
			w->errors += !disk_flush(disk);
		} else if (what < 6 && w->last[block]) {
			if (!disk_read(disk, buf, BLOCK, offset) ||
				pattern_check(buf, BLOCK, w->last[block], offset) >= 0)
				w->errors++;
		} else {
			w->last[block] = ((uint64_t)w->number << 32) + ++w->writes;
			pattern_fill(buf, BLOCK, w->last[block], offset);
			w->errors += !disk_write(disk, buf, BLOCK, offset, what == 15);
		}
	}
	return NULL;
}

static void
begin_writers(struct writer *writers, atomic_bool *stop)
{
	atomic_store(stop, false);
	for (unsigned i = 0; i < WRITERS; i++) {
		memset(&writers[i], 0, sizeof(writers[i]));
		writers[i].number = i;
		writers[i].stop = stop;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]), 0);
	}
}

static void
end_writers(struct writer *writers, atomic_bool *stop)
{
	atomic_store(stop, true);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
}

static void
check_writers(const struct writer *writers)
{
	for (unsigned i = 0; i < WRITERS; i++) {
		assert_int_equal(writers[i].errors, 0);
		assert_true(writers[i].writes > 0);
		for (size_t block = 0; block < PART / BLOCK; block++)
			if (writers[i].last[block])
				has(writers[i].last[block], i * PART + block * BLOCK, BLOCK);
	}
}

/* threads notice nothing but the time, however the keeper dies */
static void
killed_under_load(void **state)
{
	(void)state;
	static struct writer writers[WRITERS];
	atomic_bool stop;
	unsigned random = (unsigned)seed;
	starts();
	begin_writers(writers, &stop);
	for (unsigned i = 0; i < 15 * rounds; i++) {
		/* the pauses between attempts to connect grow to a second */
		if (i % 3)
			case_await_link(disk);
		(void)usleep((unsigned)rand_r(&random) % 100000);
		(void)keeper_process_end(&keeper, i % 4 == 3 ? SIGTERM : SIGKILL);
		keeper_process_start(&keeper);
	}
	(void)usleep(100000);
	end_writers(writers, &stop);
	check_writers(writers);
	assert_true(disk_flush(disk));
	assert_true(case_was_said("connected again"));
}

/* the same, when only the connection breaks, after any number of operations */
static void
connections_break_under_load(void **state)
{
	(void)state;
	static struct writer writers[WRITERS];
	atomic_bool stop;
	assert_int_equal(setenv("SOFTRDMA_FAULTS", "disconnect-after=150,seed=1", 1), 0);
	config.journal_size = DISK_JOURNAL_MIN;
	starts();
	begin_writers(writers, &stop);
	/* two messages for each connection that breaks; they come more and more slowly */
	while (case_said_count() < 14 * rounds)
		(void)usleep(10000);
	end_writers(writers, &stop);
	check_writers(writers);
}

/* a keeper that hangs: a request fails after the timeout; afterwards all goes on, and nothing is lost */
static void
stopped_keeper(void **state)
{
	(void)state;
	uint8_t buf[BLOCK];
	config.timeout_ms = SHORT_TIMEOUT_MS;
	starts();
	writes(seed, 0, SIZE, true);
	writes(seed + 1, 0, BLOCK, false);
	keeper_process_stop(&keeper);
	const int64_t begin = now_ms();
	assert_false(disk_read(disk, buf, BLOCK, 0));
	assert_true(now_ms() - begin >= SHORT_TIMEOUT_MS);
	assert_false(disk_write(disk, buf, BLOCK, 2 * BLOCK, false));
	assert_false(disk_flush(disk));
	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	/* on a busy machine the timeout may pass once more */
	const int64_t end = now_ms() + TIMEOUT_MS;
	uint8_t *all = malloc(SIZE);
	assert_non_null(all);
	while (!disk_read(disk, all, SIZE, 0))
		assert_true(now_ms() < end);
	assert_int_equal(pattern_check(all, BLOCK, seed + 1, 0), -1);
	assert_int_equal(pattern_check(all + 3 * BLOCK, SIZE - 3 * BLOCK, seed, 3 * BLOCK), -1);
	free(all);
	pattern_fill(buf, BLOCK, seed + 2, 2 * BLOCK);
	while (!disk_write(disk, buf, BLOCK, 2 * BLOCK, true))
		assert_true(now_ms() < end);
	file_has(seed + 2, 2 * BLOCK, BLOCK);
}

/* waits until a flush has been posted */
static void
await_flush(void)
{
	const int64_t end = now_ms() + TIMEOUT_MS;
	bool flushing = false;

	while (!flushing) {
		pthread_mutex_lock(&disk->lock);
		flushing = disk->flushing;
		pthread_mutex_unlock(&disk->lock);
		assert_true(flushing || now_ms() < end);
		(void)usleep(1000);
	}
}

static void *
write_a_durable_block(void *arg)
{
	const uint64_t *offset = arg;
	uint8_t buf[BLOCK];

	pattern_fill(buf, BLOCK, seed, *offset);
	return disk_write(disk, buf, BLOCK, *offset, true) ? arg : NULL;
}

/* requests that come during a flush wait for the next one: longer than the timeout, but there is progress */
static void
slow_keeper(void **state)
{
	(void)state;
	uint64_t offsets[10];
	pthread_t threads[10];
	void *good;
	config.timeout_ms = 4 * SHORT_TIMEOUT_MS;
	keeper.faults = "slow-flush=2500ms";
	starts();
	for (uint64_t i = 0; i < 10; i++) {
		offsets[i] = i * BLOCK;
		assert_int_equal(pthread_create(&threads[i], NULL, write_a_durable_block, &offsets[i]), 0);
		if (i == 0)
			await_flush();
	}
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(pthread_join(threads[i], &good), 0);
		assert_non_null(good);
	}
	assert_int_equal(case_said_count(), 0);
	has(seed, 0, 10 * BLOCK);
}

/* --- what must fail for ever --- */

static void
fails_for_ever(const char *because)
{
	uint8_t buf[BLOCK] = { 0 };

	assert_false(disk_read(disk, buf, BLOCK, 0));
	assert_false(disk_write(disk, buf, BLOCK, 0, false));
	assert_false(disk_zero(disk, BLOCK, 0, false));
	assert_false(disk_flush(disk));
	if (!case_was_said(because) || !case_was_said("all requests fail from now on"))
		fail_msg("did not say \"%s\" but \"%s\"", because, case_last_said());
}

/* a keeper that comes back with another file */
static void
other_identity(void **state)
{
	(void)state;
	starts();
	writes(seed, 0, SIZE, false);
	(void)keeper_process_end(&keeper, SIGKILL);
	assert_int_equal(unlink(keeper_process_path(&keeper, "disk")), 0);
	keeper_process_start(&keeper);
	fails_for_ever("other memory of");
	assert_true(keeper_process_logged(&keeper, "created"));
	uint8_t *content = save_file();
	assert_int_equal(pattern_check_byte(content, SIZE, 0), -1);
	free(content);
}

/* a reader does not resume anything, so only the identity tells it */
static void
other_identity_for_a_reader(void **state)
{
	(void)state;
	uint8_t buf[BLOCK];
	config.read_only = true;
	starts();
	assert_true(disk_read(disk, buf, BLOCK, 0));
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper_process_start(&keeper);
	assert_true(disk_read(disk, buf, BLOCK, 0));
	(void)keeper_process_end(&keeper, SIGKILL);
	/* as an operator who wants the file to be new memory; the file system may have no attributes */
	assert_int_equal(unlink(keeper_process_path(&keeper, "disk.identity")), 0);
	(void)removexattr(keeper_process_path(&keeper, "disk"), "user.rpma-keeper");
	keeper_process_start(&keeper);
	assert_false(disk_read(disk, buf, BLOCK, 0));
	assert_true(case_was_said("other memory of"));
}

/* volatile memory is refused unless it is asked for, and never comes back */
static void
volatile_memory(void **state)
{
	(void)state;
	keeper.lend = KEEPER_NAME "=dram:,size=4m";
	keeper_process_start(&keeper);
	case_refuses(&config, "volatile=true accepts that");
	config.volatile_allowed = true;
	case_opens(&config, &facts, &disk);
	writes(seed, 0, SIZE, true);
	assert_true(disk_flush(disk));
	has(seed, 0, SIZE);
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper_process_start(&keeper);
	fails_for_ever("other memory of");
}

/* another client had the memory while this one was away: its data is not overwritten, over any number of starts */
static void
superseded(void **state)
{
	(void)state;
	struct disk *other = NULL;
	uint8_t buf[BLOCK];
	char port[NET_PORT_LEN];
	memcpy(port, keeper.port, sizeof(port));
	config.port = port;
	starts();
	writes(seed, 0, SIZE, false);
	/* the keeper is back at another port, where only the other client looks */
	(void)keeper_process_end(&keeper, SIGKILL);
	assert_int_equal(net_free_port(KEEPER_ADDRESS, keeper.port), 0);
	keeper_process_start(&keeper);
	struct disk_config elsewhere = config;
	elsewhere.port = keeper.port;
	case_opens(&elsewhere, &facts, &other);
	pattern_fill(buf, BLOCK, seed + 1, 0);
	assert_true(disk_write(other, buf, BLOCK, 0, true));
	disk_stop(&other);
	(void)keeper_process_end(&keeper, SIGTERM);
	memcpy(keeper.port, port, sizeof(port));
	keeper_process_start(&keeper);
	fails_for_ever("another client had the memory for writing meanwhile");
	file_has(seed + 1, 0, BLOCK);
}

/* a flush that fails is never followed by one that succeeds */
static void
failed_flush(void **state)
{
	(void)state;
	keeper.faults = "flush-error@3"; /* the first flush is that of the start */
	starts();
	writes(seed, 0, BLOCK, true);
	writes(seed, BLOCK, BLOCK, false);
	assert_false(disk_flush(disk));
	fails_for_ever("an operation failed");
}

/* a write that must be durable is flushed before it returns */
static void
failed_durable_write(void **state)
{
	(void)state;
	uint8_t buf[BLOCK] = { 0 };
	keeper.faults = "flush-error@2";
	starts();
	writes(seed, 0, BLOCK, false);
	assert_false(disk_write(disk, buf, BLOCK, BLOCK, true));
	fails_for_ever("an operation failed");
}

/* the same of zeros */
static void
failed_durable_zeros(void **state)
{
	(void)state;
	keeper.faults = "flush-error@2";
	starts();
	assert_false(disk_zero(disk, BLOCK, BLOCK, true));
	fails_for_ever("an operation failed");
}

/* of several ranges, one fails that is not the last */
static void
failed_range(void **state)
{
	(void)state;
	keeper.faults = "flush-error@16";
	starts();
	/* as if the memory were persistent memory: each range is flushed by itself */
	pthread_mutex_lock(&disk->lock);
	ranges_init(&disk->dirty, RANGES_MAX);
	pthread_mutex_unlock(&disk->lock);
	for (uint64_t i = 0; i < 10; i++)
		writes(seed, 3 * i * BLOCK, BLOCK, false);
	assert_true(disk_flush(disk));
	assert_true(disk_flush(disk));
	for (uint64_t i = 0; i < 10; i++)
		writes(seed, 3 * i * BLOCK, BLOCK, false);
	assert_false(disk_flush(disk));
	fails_for_ever("an operation failed");
}

/* a medium that has failed stays failed when the keeper starts again, until the operator clears that */
static void
failed_medium(void **state)
{
	(void)state;
	struct disk_config reading = config;
	struct disk *reader = NULL;
	uint8_t buf[BLOCK];
	keeper.medium_fails = true;
	keeper_process_start(&keeper);
	if (keeper_process_logged(&keeper, "no seccomp"))
		skip();
	case_refuses(&config, "cannot be made durable");
	keeper_process_await_line(&keeper, "its medium has failed");
	case_refuses(&config, "the medium of the memory has failed");
	assert_int_equal(keeper_process_end(&keeper, SIGKILL), 128 + SIGKILL);

	keeper.medium_fails = false;
	for (int i = 0; i < 2; i++) {
		keeper_process_start(&keeper);
		assert_true(keeper_process_logged(&keeper, "its medium has failed earlier"));
		case_refuses(&config, "the medium of the memory has failed");
		reading.read_only = true;
		case_opens(&reading, &facts, &reader);
		assert_true(disk_read(reader, buf, BLOCK, 0));
		disk_stop(&reader);
		assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	}
	assert_true(keeper_process_clears_failure(&keeper));
	starts();
	writes(seed, 0, BLOCK, true);
}

/* a medium that fails only when the keeper ends and flushes is recorded as well */
static void
failed_medium_at_the_end(void **state)
{
	(void)state;
	keeper.medium_fails = true;
	keeper_process_start(&keeper);
	if (keeper_process_logged(&keeper, "no seccomp"))
		skip();
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), EXIT_FAILURE);
	keeper.medium_fails = false;
	keeper_process_start(&keeper);
	case_refuses(&config, "the medium of the memory has failed");
}

static void *
flush_slowly(void *arg)
{
	return disk_flush(arg) ? arg : NULL;
}

/* a flush does not cover what was written after it had begun */
static void
written_during_a_flush(void **state)
{
	(void)state;
	pthread_t thread;
	void *good = NULL;
	starts();
	writes(seed, 0, SIZE, true);
	disk_stop(&disk);
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	uint8_t *durable = save_file();
	keeper.faults = "slow-flush=500ms";
	starts();
	writes(seed + 1, 0, BLOCK, false);
	assert_int_equal(pthread_create(&thread, NULL, flush_slowly, disk), 0);
	await_flush();
	writes(seed + 2, BLOCK, BLOCK, false);
	assert_int_equal(pthread_join(thread, &good), 0);
	assert_non_null(good);
	(void)keeper_process_end(&keeper, SIGKILL);
	pattern_fill(durable, BLOCK, seed + 1, 0); /* that was flushed */
	put_back(durable);
	keeper.faults = NULL;
	keeper_process_start(&keeper);
	has(seed + 1, 0, BLOCK);
	has(seed + 2, BLOCK, BLOCK);
	has(seed, 2 * BLOCK, SIZE - 2 * BLOCK);
	free(durable);
}

/* --- several clients --- */

static void
one_writer(void **state)
{
	(void)state;
	struct disk *other = NULL;
	struct disk_config reading = config, taking = config;
	uint8_t buf[BLOCK];
	starts();
	writes(seed, 0, SIZE, true);
	case_refuses(&config, "takeover=true takes it");
	reading.read_only = true;
	case_opens(&reading, &facts, &other);
	assert_true(disk_read(other, buf, BLOCK, BLOCK));
	assert_int_equal(pattern_check(buf, BLOCK, seed, BLOCK), -1);
	disk_stop(&other);
	taking.takeover = true;
	case_opens(&taking, &facts, &other);
	fails_for_ever("another client had the memory for writing meanwhile");
	assert_true(disk_write(other, buf, BLOCK, 0, true));
	disk_stop(&other);

	reading.name = "nothing";
	case_refuses(&reading, "nothing is lent under this name");
	reading.name = KEEPER_NAME;
	reading.port = "1";
	case_refuses(&reading, "");
}

/* sends a request */
static void
asks(struct rpma_peer *peer, uint8_t want, uint64_t client, struct rpma_conn **conn)
{
	const struct keeper_request request = { .want = want, .client = client, .name = KEEPER_NAME };
	uint8_t bytes[KEEPER_REQUEST_MAX];
	const struct rpma_conn_private_data pdata = { bytes,
		(uint8_t)keeper_request_encode(&request, bytes) };
	struct rpma_conn_req *req = NULL;

	assert_int_equal(rpma_conn_req_new(peer, KEEPER_ADDRESS, keeper.port, NULL, &req), 0);
	assert_int_equal(rpma_conn_req_connect(&req, &pdata, conn), 0);
}

/* a client that asks for a takeover, and is gone before the keeper answers, takes nothing */
static void
takeover_by_a_client_that_has_gone(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	starts();
	for (uint64_t round = 1; round <= 10 * rounds; round++) {
		struct rpma_conn *conns[3];
		writes(seed + round, 0, SIZE, round % 2);
		keeper_process_stop(&keeper);
		/* the last of them displaces one that has gone as well */
		for (size_t i = 0; i < 3; i++)
			asks(peer, KEEPER_WANT_WRITE | KEEPER_WANT_TAKEOVER, 100 * round + i, &conns[i]);
		(void)usleep(20000); /* so that the requests have left */
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(rpma_conn_delete(&conns[i]), 0);
		assert_int_equal(kill(keeper.pid, SIGCONT), 0);
		keeper_process_await_line(&keeper, "may resume");
		has(seed + round, 0, SIZE);
		writes(seed, 0, BLOCK, true);
	}
	/* the record too names the disk's client again; not by SIGKILL, because the last takeover may not have ended yet */
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	keeper_process_start(&keeper);
	has(seed, 0, BLOCK);
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

/* readers that have all places do not keep the writer out that comes back */
static void
readers_take_all_places(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	struct rpma_conn *conns[3] = { NULL };
	enum rpma_conn_event event;
	keeper.clients = "3";
	starts();
	writes(seed, 0, SIZE, true);
	writes(seed + 1, 0, BLOCK, false);
	/* under its lock, the writer does not connect again before the readers are there */
	pthread_mutex_lock(&disk->lock);
	(void)keeper_process_end(&keeper, SIGKILL);
	keeper_process_start(&keeper);
	for (size_t i = 0; i < 3; i++) {
		asks(peer, 0, 1 + i, &conns[i]);
		assert_int_equal(wait_event(conns[i], &event, WAIT_MS), 0);
		assert_int_equal(event, RPMA_CONN_ESTABLISHED);
	}
	pthread_mutex_unlock(&disk->lock);
	has(seed + 1, 0, BLOCK);
	has(seed, BLOCK, SIZE - BLOCK);
	/* no further client comes in */
	struct rpma_conn *next = NULL;
	asks(peer, 0, 4, &next);
	assert_int_equal(wait_event(next, &event, WAIT_MS), 0);
	assert_int_equal(event, RPMA_CONN_REJECTED);
	assert_int_equal(rpma_conn_delete(&next), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rpma_conn_delete(&conns[i]), 0);
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

struct contender {
	pthread_t thread;
	struct disk_config config;
	struct disk *disk;
	bool has_it;
	char why[WHY_MAX];
};

static void *
contend(void *arg)
{
	struct contender *c = arg;

	c->has_it = disk_start(&c->config, &facts, &c->disk, c->why);
	return NULL;
}

/* of several clients that ask at once, exactly one gets it */
static void
contenders(void **state)
{
	(void)state;
	struct contender all[8] = { 0 };
	char why[WHY_MAX] = "";
	keeper_process_start(&keeper);
	for (unsigned round = 0; round < 10 * rounds; round++) {
		int count = 0;
		/* the keeper may see the request of a next client before it sees that the earlier one has gone */
		const int64_t end = now_ms() + TIMEOUT_MS;
		while (!disk_probe(&config, &facts, why)) {
			if (now_ms() >= end)
				fail_msg("%s", why);
			(void)usleep(1000);
		}
		for (size_t i = 0; i < 8; i++) {
			all[i].config = config;
			assert_int_equal(pthread_create(&all[i].thread, NULL, contend, &all[i]), 0);
		}
		for (size_t i = 0; i < 8; i++) {
			assert_int_equal(pthread_join(all[i].thread, NULL), 0);
			count += all[i].has_it;
		}
		for (size_t i = 0; i < 8 && count != 1; i++)
			print_error("%zu: %s\n", i, all[i].has_it ? "has it" : all[i].why);
		assert_int_equal(count, 1);
		for (size_t i = 0; i < 8; i++)
			disk_stop(&all[i].disk);
	}
}

/* writes all of the memory over and over, until that fails */
static void *
overwrite(void *arg)
{
	struct disk *d = arg;
	const size_t len = (size_t)64 << 10;
	uint8_t *buf = malloc(len);

	for (uint64_t offset = 0; buf; offset = (offset + len) % SIZE) {
		pattern_fill(buf, len, 999, offset);
		if (!disk_write(d, buf, len, offset, false))
			break;
	}
	free(buf);
	return NULL;
}

/* from the moment that a client has taken over, no byte of the earlier one arrives */
static void
takeover_under_load(void **state)
{
	(void)state;
	struct disk *now = NULL;
	uint8_t *buf = malloc(SIZE);
	assert_non_null(buf);
	config.takeover = true;
	config.journal_size = (size_t)64 << 20;
	keeper_process_start(&keeper);
	case_opens(&config, &facts, &disk);
	for (uint64_t round = 1; round <= 100 * rounds; round++) {
		pthread_t threads[WRITERS];
		for (size_t i = 0; i < WRITERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, overwrite, disk), 0);
		if (round % 4 == 0)
			(void)usleep(2000);
		case_opens(&config, &facts, &now);
		/* the earlier client does not know yet, and goes on */
		pattern_fill(buf, SIZE, round, 0);
		assert_true(disk_write(now, buf, SIZE, 0, round % 10 == 0));
		for (size_t i = 0; i < WRITERS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(disk_read(now, buf, SIZE, 0));
		assert_int_equal(pattern_check(buf, SIZE, round, 0), -1);
		disk_stop(&disk);
		disk = now;
	}
	free(buf);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_and_writes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(zeros, set_up, tear_down),
		cmocka_unit_test_setup_teardown(small_journal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lost_writes_are_written_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed_under_load, set_up, tear_down),
		cmocka_unit_test_setup_teardown(connections_break_under_load, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopped_keeper, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slow_keeper, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_identity, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_identity_for_a_reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(volatile_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(superseded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_flush, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_durable_write, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_durable_zeros, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_range, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_medium, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_medium_at_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(written_during_a_flush, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_writer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(takeover_by_a_client_that_has_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(readers_take_all_places, set_up, tear_down),
		cmocka_unit_test_setup_teardown(contenders, set_up, tear_down),
		cmocka_unit_test_setup_teardown(takeover_under_load, set_up, tear_down),
		{ "reads_and_writes, write-back", reads_and_writes, set_up_write_back, tear_down, NULL },
		{ "zeros, write-back", zeros, set_up_write_back, tear_down, NULL },
		{ "small_journal, write-back", small_journal, set_up_write_back, tear_down, NULL },
		{ "lost_writes_are_written_again, write-back", lost_writes_are_written_again,
			set_up_write_back, tear_down, NULL },
		{ "killed_under_load, write-back", killed_under_load, set_up_write_back, tear_down, NULL },
		{ "connections_break_under_load, write-back", connections_break_under_load, set_up_write_back,
			tear_down, NULL },
		{ "failed_range, write-back", failed_range, set_up_write_back, tear_down, NULL },
		{ "written_during_a_flush, write-back", written_during_a_flush, set_up_write_back, tear_down,
			NULL },
		{ "takeover_under_load, write-back", takeover_under_load, set_up_write_back, tear_down,
			NULL },
	};
	const char *times = getenv("TEST_KEEPER_ROUNDS");

	if (argc < 2) {
		fprintf(stderr, "usage: test_disk KEEPER [FILTER]\n");
		return 2;
	}
	program = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (times && atoi(times) > 0)
		rounds = (unsigned)atoi(times);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
