/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_disk_faults.c -- a disk whose flushes and requests fail one by one, whose processes die, and whose keeper's machine loses
 * its power
 *
 * The keeper is one whose msync() copies to a second file, the medium (tests/medium/to_medium.c). A power cut gives the file the
 * content of the medium, and of some pages that were not flushed. In each round a client, a process of its own, has the disk of
 * nbdkit-rpma-plugin. Its threads read, write, zero and flush. Meanwhile the keeper is killed, ended and stopped, with power cuts
 * and without. Faults of both devices make single flushes and work requests fail. At last the client is killed, or ends.
 * disk_model.h says what must be there after each of these events.
 *
 * All that a client reads when it has just started is taken to be durable from then on, although an earlier client has written
 * it: a program that reads it there, and then flushes, relies on that.
 *
 * With --control the keeper's msync() copies nothing, and cuts must lose what was durable.
 */

#include <fcntl.h>
#include <inttypes.h>
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk.h"
#include "disk_model.h"
#include "driver.h"
#include "end_child.h"
#include "keeper_process.h"

#define THREADS 4
#define PART (MODEL_BLOCKS / THREADS)
#define RUN_MAX 64
#define PAGE 4096
#define TIMEOUT_MS 20000
#define ROUND_SECONDS 120
/* a client that has not started or stopped by then is killed: faults may break every connection before it is of use */
#define AWAIT_MS 20000
/* events wait for progress of the client, but at most this time: it may be waiting for the link */
#define PROGRESS_MS 2000
#define LIES_SHOWN 20
/* cuts that must have lost something in the control */
#define CONTROL_LIES 5

enum client_state { STARTING, HAS_READ, WORKING, QUIET, STOPPING, GONE };

/* how a client ends, if it is not killed */
#define HAS_STOPPED 0
#define HAS_NOT_STARTED 3
#define MAY_HAVE_LOST 4
#define HAS_GIVEN_UP 5

static struct shared {
	struct model model;
	uint8_t content[MODEL_SIZE]; /* what a client has read when it started */
	_Atomic enum client_state state;
	atomic_bool given_up, may_have_lost;
	atomic_ulong lies, requests, flushes, failures, again;
} * shared;

static struct {
	unsigned long rounds, cuts, losses, torn, keepers, clients, not_started, given_up, stalled;
} total;

static struct keeper_process keeper;
static const char *program;
static bool is_control;
static unsigned random_state;
static char keeper_faults[96];

static unsigned
random_below(unsigned *state, unsigned n)
{
	return (unsigned)rand_r(state) % n;
}

static unsigned
choose(unsigned n)
{
	return random_below(&random_state, n);
}

static void __attribute__((format(printf, 1, 2))) lie(const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&shared->lies, 1) >= LIES_SHOWN || is_control)
		return;
	fprintf(stderr, "FAILED (round %lu, seed %lu): ", total.rounds, driver.seed);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* --- the client --- */

static struct disk *disk;

struct worker {
	pthread_t thread;
	unsigned number, random;
	uint32_t seen[MODEL_BLOCKS];
	uint8_t buf[RUN_MAX * MODEL_BLOCK];
};

static void
say(const char *text)
{
	if (strstr(text, "all requests fail from now on"))
		atomic_store(&shared->given_up, true);
	if (strstr(text, "may be lost"))
		atomic_store(&shared->may_have_lost, true);
	if (strstr(text, "connected again"))
		atomic_fetch_add(&shared->again, 1);
	if (getenv("TEST_DISK_SAYS"))
		fprintf(stderr, "%s\n", text);
}

static void
count(bool good)
{
	atomic_fetch_add(&shared->requests, 1);
	atomic_fetch_add(&shared->failures, !good);
}

/* what was answered is there, and no version that has been read goes back */
static void
check_read(struct worker *w, size_t block, uint32_t first, const uint8_t *buf)
{
	const struct model_block *b = &shared->model.blocks[block];
	const uint32_t last = atomic_load(&b->issued);
	const bool is_own = block / PART == w->number;

	if (first < w->seen[block])
		first = w->seen[block];
	const int64_t version = model_find(&shared->model, block, first, last, buf);
	if (version >= 0)
		w->seen[block] = (uint32_t)version;
	else if (version == MODEL_NONE || is_own || first == last)
		lie("a read of block %zu gives none of the versions from %u to %u", block, first, last);
}

static void
do_read(struct worker *w, size_t first, size_t count_of)
{
	uint32_t answered[RUN_MAX];

	for (size_t i = 0; i < count_of; i++)
		answered[i] = atomic_load(&shared->model.blocks[first + i].answered);
	const bool good = disk_read(disk, w->buf, count_of * MODEL_BLOCK, first * MODEL_BLOCK);
	for (size_t i = 0; good && i < count_of; i++)
		check_read(w, first + i, answered[i], w->buf + i * MODEL_BLOCK);
	count(good);
}

static void
do_flush(void)
{
	uint32_t answered[MODEL_BLOCKS];

	model_flush_begins(&shared->model, answered);
	const bool good = disk_flush(disk);
	if (good)
		model_flushed(&shared->model, answered);
	count(good);
	atomic_fetch_add(&shared->flushes, good);
}

static void
do_write(struct worker *w, size_t first, size_t count_of, bool zeros, bool durable)
{
	uint32_t versions[RUN_MAX];

	for (size_t i = 0; i < count_of; i++) {
		if (!model_has_room(&shared->model, first + i)) {
			do_flush();
			return;
		}
	}
	for (size_t i = 0; i < count_of; i++)
		versions[i] = model_issue(&shared->model, first + i, zeros, w->buf + i * MODEL_BLOCK);
	const size_t len = count_of * MODEL_BLOCK, offset = first * MODEL_BLOCK;
	const bool good = zeros ? disk_zero(disk, len, offset, durable)
				: disk_write(disk, w->buf, len, offset, durable);
	for (size_t i = 0; good && i < count_of; i++)
		model_answered(&shared->model, first + i, versions[i], durable);
	count(good);
	atomic_fetch_add(&shared->flushes, good && durable);
}

static void *
work(void *arg)
{
	struct worker *w = arg;

	while (atomic_load(&shared->state) == WORKING && !atomic_load(&shared->given_up)) {
		const unsigned what = random_below(&w->random, 100);
		const size_t count_of = 1 + random_below(&w->random, what % 4 ? 8 : RUN_MAX);
		const size_t own = w->number * PART + random_below(&w->random, PART - RUN_MAX + 1);
		if (what < 15)
			do_read(w, random_below(&w->random, MODEL_BLOCKS - RUN_MAX + 1), count_of);
		else if (what < 35)
			do_read(w, own, count_of);
		else if (what < 40)
			do_flush();
		else
			do_write(w, own, count_of, what < 50, what % 10 == 0);
	}
	return NULL;
}

static void
await_state(enum client_state state)
{
	while (atomic_load(&shared->state) < state)
		(void)usleep(200);
}

/* the end of the parent is the end of this process too */
static _Noreturn void
be_client(bool write_back)
{
	static struct worker workers[THREADS];
	const struct disk_config config = { .host = KEEPER_ADDRESS,
		.port = keeper.port,
		.name = KEEPER_NAME,
		.timeout_ms = TIMEOUT_MS,
		.journal_size = DISK_JOURNAL_MIN,
		.takeover = true,
		.write_back = write_back,
		.say = say };
	struct disk_facts facts;
	char why[WHY_MAX] = "";

	if (!disk_probe(&config, &facts, why) || !disk_start(&config, &facts, &disk, why) ||
		!disk_read(disk, shared->content, MODEL_SIZE, 0)) {
		say(why);
		_exit(HAS_NOT_STARTED);
	}
	atomic_store(&shared->state, HAS_READ);
	await_state(WORKING);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].random = (unsigned)total.rounds * THREADS + i + (unsigned)driver.seed * 7919;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
	if (!atomic_load(&shared->given_up))
		await_state(STOPPING);
	disk_stop(&disk);
	end_child(atomic_load(&shared->given_up)              ? HAS_GIVEN_UP
			: atomic_load(&shared->may_have_lost) ? MAY_HAVE_LOST
							      : HAS_STOPPED);
}

static pid_t client;
static int client_status; /* as waitpid() gives it */

static const char *
choose_client_faults(void)
{
	static char text[96];
	static const char *const often[] = { "0.1%", "0.3%", "1%" };

	switch (choose(7)) {
	case 0:
		snprintf(text, sizeof(text), "wc-error=retry_exc@%s,seed=%u", often[choose(3)],
			choose(100000));
		return text;
	case 1: /* the first connection is that of the probe; the third is made after the first failure */
		snprintf(text, sizeof(text), "wc-error=general@%u,connection=%u",
			1 + choose(choose(2) ? 4 : 150), 2 + choose(3));
		return text;
	case 2:
		snprintf(text, sizeof(text), "disconnect-after=%u", 200 + choose(400));
		return text;
	case 3:
		snprintf(text, sizeof(text), "wc-error=rem_op@%u,connection=2", 1 + choose(600));
		return text;
	case 4: /* it takes longer to write the journal again */
		return "delay=1ms@20%";
	default:
		return NULL;
	}
}

static void
start_client(bool write_back, const char *faults)
{
	atomic_store(&shared->state, STARTING);
	atomic_store(&shared->given_up, false);
	atomic_store(&shared->may_have_lost, false);
	total.clients++;
	fflush(NULL);
	client = fork();
	assert_true(client >= 0);
	if (client)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (faults)
		setenv("SOFTRDMA_FAULTS", faults, 1);
	else
		unsetenv("SOFTRDMA_FAULTS");
	be_client(write_back);
}

/* true if the client is there */
static bool
client_lives(void)
{
	if (client && waitpid(client, &client_status, WNOHANG) == client)
		client = 0;
	return client != 0;
}

static void
kill_client(void)
{
	if (!client_lives())
		return;
	assert_int_equal(kill(client, SIGKILL), 0);
	assert_int_equal(waitpid(client, &client_status, 0), client);
	client = 0;
}

/* waits until the client has reached the state, or its end; kills it if that takes too long */
static bool
await_client(enum client_state state)
{
	const int64_t end = now_ms() + AWAIT_MS;

	while (client_lives() && atomic_load(&shared->state) != state) {
		if (now_ms() >= end) {
			total.stalled++;
			kill_client();
		}
		(void)usleep(200);
	}
	return client != 0;
}

/* --- the keeper and its medium --- */

static const char *
choose_keeper_faults(void)
{
	const unsigned seed = choose(100000);

	switch (choose(8)) {
	case 0:
		snprintf(keeper_faults, sizeof(keeper_faults), "flush-error@%u", 1 + choose(40));
		break;
	case 1:
		snprintf(keeper_faults, sizeof(keeper_faults), "flush-error@2%%,seed=%u", seed);
		break;
	case 2:
		snprintf(keeper_faults, sizeof(keeper_faults), "slow-flush=3ms@30%%,seed=%u", seed);
		break;
	case 3:
		snprintf(keeper_faults, sizeof(keeper_faults), "disconnect=%ums", 50 + choose(300));
		break;
	case 4:
		snprintf(keeper_faults, sizeof(keeper_faults), "drop-after=%u,retry-timeout=50ms",
			100 + choose(1000));
		break;
	default:
		return NULL;
	}
	return keeper_faults;
}

static void
start_keeper(void)
{
	keeper.faults = choose_keeper_faults();
	keeper_process_start(&keeper);
	total.keepers++;
}

static void
end_keeper(int signal)
{
	const int status = keeper_process_end(&keeper, signal);

	/* SIGTERM: it may say that its medium has failed */
	if (signal == SIGTERM && status != 0)
		lie("the keeper ends with status %d", status);
}

static void
transfer(const char *file, uint8_t *content, bool writes)
{
	const int fd = open(keeper_process_path(&keeper, file), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	const ssize_t n = writes ? pwrite(fd, content, MODEL_SIZE, 0) : pread(fd, content, MODEL_SIZE, 0);
	assert_int_equal(n, MODEL_SIZE);
	close(fd);
}

/* what the power cut has left of a block; `durable` was read before */
static void
check_left(size_t block, uint32_t durable, const uint8_t *buf, unsigned long *lost)
{
	const uint32_t last = atomic_load(&shared->model.blocks[block].issued);
	const int64_t version = model_find(&shared->model, block, durable, last, buf);

	total.torn += version == MODEL_TORN;
	if (version != MODEL_NONE)
		return;
	const int64_t older = model_find(&shared->model, block, 0, last, buf);
	if (++*lost == 1)
		lie("after a power cut block %zu has version %" PRId64 ", and %u was durable (of %u)", block,
			older, durable, last);
}

/* the keeper is dead: its machine loses what was not flushed, except some pages that the kernel has written by itself */
static void
cut_power(void)
{
	static const unsigned kept[] = { 0, 0, 10, 50, 90 };
	static uint8_t file[MODEL_SIZE], medium[MODEL_SIZE];
	uint32_t durable[MODEL_BLOCKS];
	const unsigned percent = kept[choose(sizeof(kept) / sizeof(kept[0]))];
	unsigned long lost = 0;

	assert_int_equal(keeper.pid, 0);
	for (size_t i = 0; i < MODEL_BLOCKS; i++)
		durable[i] = atomic_load(&shared->model.blocks[i].durable);
	transfer("disk", file, false);
	transfer("disk.medium", medium, false);
	for (size_t at = 0; at < MODEL_SIZE; at += PAGE)
		if (choose(100) < percent)
			memcpy(medium + at, file + at, PAGE);
	transfer("disk", medium, true);
	transfer("disk.medium", medium, true);
	total.cuts++;
	for (size_t i = 0; i < MODEL_BLOCKS; i++)
		check_left(i, durable[i], medium + i * MODEL_BLOCK, &lost);
	total.losses += lost > 0;
}

/* --- events --- */

/* true if no event since the client started can have made it write older data again, so what was answered is there */
static bool is_calm;
/* the power was cut since the client started: what was answered is there again when it has connected again */
static bool was_cut;

static void
lose_keeper(int signal, bool cut)
{
	is_calm = false;
	was_cut = was_cut || cut;
	end_keeper(signal);
	if (cut)
		cut_power();
	start_keeper();
}

/* waits until the client has the memory again, and a moment longer: it may be writing its journal */
static void
lose_keeper_while_replaying(void)
{
	const int64_t end = now_ms() + PROGRESS_MS;

	lose_keeper(SIGKILL, choose(2));
	while (client_lives() && !keeper_process_logged(&keeper, "for writing") && now_ms() < end)
		(void)usleep(500);
	(void)usleep(choose(3000));
	lose_keeper(SIGKILL, choose(2));
}

static void
await_requests(unsigned long more)
{
	const unsigned long goal = atomic_load(&shared->requests) + more;
	const int64_t end = now_ms() + PROGRESS_MS;

	while (client_lives() && atomic_load(&shared->requests) < goal && now_ms() < end)
		(void)usleep(500);
}

static void
make_event(void)
{
	switch (choose(8)) {
	case 0:
	case 1:
		lose_keeper(SIGKILL, true);
		break;
	case 2:
		lose_keeper(SIGKILL, false);
		break;
	case 3:
		lose_keeper(SIGTERM, choose(2));
		break;
	case 4:
		lose_keeper_while_replaying();
		break;
	case 5:
		keeper_process_stop(&keeper);
		(void)usleep(choose(20000));
		assert_int_equal(kill(keeper.pid, SIGCONT), 0);
		break;
	default:
		break;
	}
}

/* the client that has just started takes over what the earlier ones have left */
static void
take_over(uint64_t round, bool has_all)
{
	for (size_t i = 0; i < MODEL_BLOCKS; i++) {
		const struct model_block *b = &shared->model.blocks[i];
		const uint32_t first = atomic_load(has_all ? &b->answered : &b->durable);
		const uint32_t last = atomic_load(&b->issued);
		const int64_t version =
			model_find(&shared->model, i, first, last, shared->content + i * MODEL_BLOCK);
		if (version == MODEL_NONE)
			lie("a new client finds block %zu before version %u (of %u)%s", i, first, last,
				has_all ? ", and there was no power cut" : "");
		model_adopt(&shared->model, i, version, round);
	}
}

/* the threads of the client have ended, and its disk is there; it stops while it may be connecting again */
static void
let_client_stop(void)
{
	atomic_store(&shared->state, QUIET);
	if (choose(2)) {
		(void)usleep(choose(2000));
		lose_keeper(SIGKILL, choose(2));
		const int64_t end = now_ms() + PROGRESS_MS;
		while (!keeper_process_logged(&keeper, "for writing") && client_lives() && now_ms() < end)
			(void)usleep(500);
		(void)usleep(choose(1500));
	}
	atomic_store(&shared->state, STOPPING);
	(void)await_client(GONE);
}

/* returns true if all that was answered is there afterwards, although not all of it is durable */
static bool
end_round(bool write_back)
{
	bool has_all = false;

	if (choose(2)) {
		kill_client();
		has_all = is_calm && !write_back && WIFSIGNALED(client_status);
	} else {
		let_client_stop();
		has_all = !was_cut && WIFEXITED(client_status) && WEXITSTATUS(client_status) == HAS_STOPPED;
	}
	if (WIFSIGNALED(client_status) && WTERMSIG(client_status) != SIGKILL)
		lie("a client ends by signal %d", WTERMSIG(client_status));
	total.given_up += WIFEXITED(client_status) && WEXITSTATUS(client_status) == HAS_GIVEN_UP;
	if (choose(2)) {
		lose_keeper(SIGKILL, true);
		has_all = false;
	}
	return has_all;
}

/* a client that could not start, because of a fault or an event, has not changed anything */
static void
run_round(bool *has_all)
{
	const bool write_back = choose(2);
	const char *faults = choose_client_faults();

	deadline_start("a round of test_disk_faults", ROUND_SECONDS);
	is_calm = faults == NULL && keeper.faults == NULL;
	was_cut = false;
	start_client(write_back, faults);
	if (choose(4) == 0) {
		(void)usleep(choose(20000));
		const bool cut = choose(2);
		lose_keeper(SIGKILL, cut);
		*has_all = *has_all && !cut;
	}
	if (!await_client(HAS_READ)) {
		total.not_started++;
		if (WIFSIGNALED(client_status) ? WTERMSIG(client_status) != SIGKILL
					       : WEXITSTATUS(client_status) != HAS_NOT_STARTED)
			lie("a client that starts ends with status %#x", (unsigned)client_status);
		/* it fails again if the keeper's first flush does */
		lose_keeper(SIGKILL, false);
		return;
	}
	take_over(total.rounds + 1, *has_all);
	atomic_store(&shared->state, WORKING);
	for (unsigned i = choose(5); i > 0 && client_lives(); i--) {
		await_requests(1 + choose(400));
		make_event();
	}
	await_requests(1 + choose(400));
	*has_all = end_round(write_back);
}

static void
set_up(void)
{
	static uint8_t zeros[MODEL_SIZE];

	random_state = (unsigned)driver.seed;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	keeper_process_init(&keeper, program, MODEL_SIZE);
	transfer("disk.medium", zeros, true);
	if (is_control)
		setenv("MEDIUM_CONTROL", "1", 1);
	else
		unsetenv("MEDIUM_CONTROL");
	start_keeper();
}

static bool
is_good(void)
{
	const unsigned long lies = atomic_load(&shared->lies);

	return is_control ? total.losses >= CONTROL_LIES : lies == 0;
}

int
main(int argc, char **argv)
{
	const struct driver_option options[] = {
		{ "keeper", "PROGRAM", "an rpma-keeper with the msync() of tests/medium/to_medium.c",
			.text = &program },
		{ "control", NULL, "its msync() copies nothing: cuts must lose data", .flag = &is_control },
		{ DRIVER_SECONDS, .help = "run for T seconds (default: 20)" },
		{ DRIVER_SEED },
		{ .name = NULL },
	};
	const struct driver_program self = { .name = "test_disk_faults",
		.purpose =
			"A disk of rpma-keeper whose flushes and requests fail, whose processes die, and whose "
			"keeper loses power.",
		.options = options };
	bool has_all = true;

	driver.seconds = 20;
	driver_parse(&self, argc, argv);
	if (program == NULL)
		driver_refuse("--keeper is missing");
	driver_print_seed();
	set_up();
	while (!driver_is_time_over() && is_control != is_good()) {
		run_round(&has_all);
		total.rounds++;
		driver_progress(0, 0, "%lu rounds, %lu cuts, %lu lies", total.rounds, total.cuts,
			atomic_load(&shared->lies));
	}
	driver_clear_progress();
	const bool good = is_good();
	kill_client();
	(void)keeper_process_end(&keeper, SIGKILL);
	if (good) {
		(void)unlink(keeper_process_path(&keeper, "disk.medium"));
		keeper_process_fini(&keeper);
	}
	return driver_close(good,
		"%lu rounds, %lu power cuts (%lu lost durable data), %lu keepers, "
		"%lu clients (%lu did not start, %lu gave up, %lu stalled), "
		"%lu requests (%lu failed), %lu flushes, %lu connections made again, %lu torn blocks; %lu lies",
		total.rounds, total.cuts, total.losses, total.keepers, total.clients, total.not_started,
		total.given_up, total.stalled, atomic_load(&shared->requests), atomic_load(&shared->failures),
		atomic_load(&shared->flushes), atomic_load(&shared->again), total.torn,
		atomic_load(&shared->lies));
}
