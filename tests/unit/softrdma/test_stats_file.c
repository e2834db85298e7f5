/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_stats_file.c -- the statistics of the process: what is counted, and the file that tells it */

#include "connected.h"

#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "softrdma/engine/connection.h"
#include "softrdma/engine/stats_file.h"

#define LEN 64

/* --- the text --- */

static char *
text_of_stats(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	softrdma_stats_print(out);
	assert_int_equal(fclose(out), 0);
	assert_null(strstr(text, "(null)")); /* each kind and each reason has its name */
	return text;
}

/*
 * The value of the only line that begins with the metric and has all of the words, which '|' separates; a row without a
 * listener is one that has no such label.
 */
static double
value_in(const char *text, const char *metric, const char *listener, const char *words)
{
	double value = -1;
	const size_t len = strlen(metric);
	char line[1024];
	for (const char *at = text, *next; *at; at = next) {
		next = strchr(at, '\n') + 1;
		snprintf(line, sizeof(line), "%.*s", (int)(next - at - 1), at);
		bool fits = strncmp(line, metric, len) == 0 && line[len] == '{';
		char label[300];
		snprintf(label, sizeof(label), "listener=\"%s\"", listener);
		fits = fits && (*listener ? strstr(line, label) != NULL : strstr(line, "listener=") == NULL);
		char copy[256], *rest = NULL;
		snprintf(copy, sizeof(copy), "%s", words);
		for (char *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
			fits = fits && strstr(line, word);
		if (!fits)
			continue;
		assert_true(value < 0); /* else there are two */
		value = strtod(strrchr(line, ' ') + 1, NULL);
	}
	if (value < 0)
		fail_msg("no %s of \"%s\" with %s in:\n%s", metric, listener, words, text);
	return value;
}

static double
value_of(const char *metric, const char *listener, const char *words)
{
	char *text = text_of_stats();
	const double value = value_in(text, metric, listener, words);
	free(text);
	return value;
}

#define expect_counted(metric, listener, words, wanted) \
	assert_true(value_of(metric, listener, words) == (double)(wanted))

static const char *
name_of(const struct listener *l)
{
	static char name[32];
	snprintf(name, sizeof(name), "127.0.0.1:%u", ntohs(l->addr.sin_port));
	return name;
}

/* --- operations --- */

struct region {
	int fd;
	uint8_t *bytes;
	struct ibv_mr *mr;
};

/*
 * Memory of a file in memory, which is accepted for persistent flushes. Users other than root find such a file only by a
 * descriptor of it.
 */
static void
region_init(struct region *region)
{
	region->fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(region->fd >= 0);
	assert_int_equal(ftruncate(region->fd, MEM_SIZE), 0);
	region->bytes = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	assert_ptr_not_equal(region->bytes, MAP_FAILED);
	region->mr = softrdma_ibv_reg_mr(the_pd, region->bytes, MEM_SIZE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | SOFTRDMA_ACCESS_FLUSH_GLOBAL |
			SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(region->mr);
}

static void
region_fini(struct region *region)
{
	assert_int_equal(softrdma_ibv_dereg_mr(region->mr), 0);
	munmap(region->bytes, MEM_SIZE);
	close(region->fd);
}

static struct ibv_wc
run(struct ibv_qp *qp, const struct region *region, uint8_t opcode, uint32_t key, size_t len)
{
	struct softrdma_link *link = softrdma_qp_of(qp)->link;
	pthread_mutex_lock(&link->lock);
	struct softrdma_send *send = softrdma_send_ring_slot(&link->requester.ring);
	assert_non_null(send);
	send->wr_id = opcode;
	send->opcode = opcode;
	send->flush_type = opcode == SOFTRDMA_OP_FLUSH ? SOFTRDMA_FLUSH_PERSISTENT : 0;
	send->signaled = true;
	send->length = len;
	send->key = key;
	send->remote_addr = (uintptr_t)region->bytes;
	if (opcode != SOFTRDMA_OP_FLUSH) {
		send->num_sge = 1;
		send->sge[0] = (struct ibv_sge){ .addr = (uintptr_t)region->bytes + MEM_SIZE / 2,
			.length = (uint32_t)len,
			.lkey = region->mr->lkey };
	}
	softrdma_send_ring_commit(&link->requester.ring);
	softrdma_connection_send(link);
	pthread_mutex_unlock(&link->lock);
	return next_wc();
}

static void
run_well(struct ibv_qp *qp, const struct region *region, uint8_t opcode, size_t len)
{
	assert_int_equal(run(qp, region, opcode, region->mr->rkey, len).status, IBV_WC_SUCCESS);
}

/* both sides are in this process: the active one issues, and the listener's serves */
static void
test_operations(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct region region;
	pair_init(&p);
	region_init(&region);
	char name[32];
	snprintf(name, sizeof(name), "%s", name_of(&p.listener));
	const double made = value_of("softrdma_connections_total", "", "");
	expect_counted("softrdma_connections", name, "", 1);
	expect_counted("softrdma_connections_total", name, "", 1);

	run_well(p.active->qp, &region, SOFTRDMA_OP_WRITE, LEN);
	run_well(p.active->qp, &region, SOFTRDMA_OP_WRITE, LEN);
	run_well(p.active->qp, &region, SOFTRDMA_OP_READ, 2 * LEN);
	run_well(p.active->qp, &region, SOFTRDMA_OP_FETCH_ADD, 8);
	run_well(p.active->qp, &region, SOFTRDMA_OP_FLUSH, MEM_SIZE);
	static const struct {
		const char *kind;
		unsigned count;
		size_t bytes;
	} cases[] = { { "kind=\"send\"", 0, 0 }, { "kind=\"write\"", 2, 2 * LEN },
		{ "kind=\"read\"", 1, 2 * LEN }, { "kind=\"atomic\"", 1, 8 },
		{ "kind=\"flush\"", 1, MEM_SIZE } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char served[64], issued[64];
		snprintf(served, sizeof(served), "side=\"served\"|%s", cases[i].kind);
		snprintf(issued, sizeof(issued), "side=\"issued\"|%s", cases[i].kind);
		expect_counted("softrdma_operations_total", name, served, cases[i].count);
		expect_counted("softrdma_bytes_total", name, served, cases[i].bytes);
		expect_counted("softrdma_operations_total", name, issued, 0);
		expect_counted("softrdma_operations_total", "", issued, cases[i].count);
		expect_counted("softrdma_bytes_total", "", issued, cases[i].bytes);
	}
	expect_counted("softrdma_flush_seconds_count", name, "", 1);
	expect_counted("softrdma_flush_seconds_bucket", name, "le=\"+Inf\"", 1);

	/* a wrong key */
	assert_int_equal(run(p.active->qp, &region, SOFTRDMA_OP_WRITE, region.mr->rkey + 1, LEN).status,
		IBV_WC_REM_ACCESS_ERR);
	expect_counted("softrdma_refusals_total", name, "side=\"served\"|reason=\"access\"", 1);
	expect_counted("softrdma_refusals_total", name, "side=\"served\"|reason=\"invalid\"", 0);
	expect_counted("softrdma_refusals_total", "", "side=\"issued\"|reason=\"access\"", 1);
	expect_counted("softrdma_failed_total", "", "", 1);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);

	/* all of it stays when the queue pairs are gone */
	region_fini(&region);
	pair_fini(&p);
	expect_counted("softrdma_connections", name, "", 0);
	expect_counted("softrdma_connections_total", name, "", 1);
	expect_counted("softrdma_connections", "", "", 0);
	expect_counted("softrdma_connections_total", "", "", made);
	expect_counted("softrdma_operations_total", name, "side=\"served\"|kind=\"write\"", 2);
	expect_counted("softrdma_refusals_total", name, "side=\"served\"|reason=\"access\"", 1);
	expect_counted("softrdma_flush_seconds_count", name, "", 1);
}

/* a domain has what its own queue pairs have counted, before they are destroyed and after that */
static void
test_domains(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct region region;
	struct softrdma_stats before, stats;
	struct ibv_pd *other = softrdma_ibv_alloc_pd(softrdma_context());
	assert_non_null(other);
	softrdma_get_stats(the_pd, &before);
	pair_init(&p);
	region_init(&region);
	run_well(p.active->qp, &region, SOFTRDMA_OP_WRITE, LEN);
	for (int round = 0; round < 2; round++) {
		softrdma_get_stats(the_pd, &stats);
		assert_int_equal(stats.served.operations[SOFTRDMA_STATS_WRITE],
			before.served.operations[SOFTRDMA_STATS_WRITE] + 1);
		assert_int_equal(stats.issued.bytes[SOFTRDMA_STATS_WRITE],
			before.issued.bytes[SOFTRDMA_STATS_WRITE] + LEN);
		assert_int_equal(stats.connections, before.connections + 2);
		assert_int_equal(stats.connections_ended, before.connections_ended + (round ? 2 : 0));
		softrdma_get_stats(other, &stats);
		assert_int_equal(stats.served.operations[SOFTRDMA_STATS_WRITE] + stats.connections, 0);
		if (round == 0) {
			region_fini(&region);
			pair_fini(&p);
		}
	}
	assert_int_equal(softrdma_ibv_dealloc_pd(other), 0);
}

/* --- times of flushes --- */

static atomic_bool stepping;

/* for each thread the clock goes on by 3 us with each of its own looks, and otherwise not if it is stopped */
static uint64_t
stepping_now_ns(void)
{
	static _Thread_local uint64_t steps;
	return movable_now_ns() + (stepping ? 3000 * ++steps : 0);
}

static int
setup_clock(void **state)
{
	static const struct softrdma_env env = { .now_ns = stepping_now_ns };
	const int ret = setup_device(state);
	softrdma_set_env(&env);
	return ret;
}

static void
test_flush_times(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct region region;
	pair_init(&p);
	region_init(&region);
	clock_stop();
	stepping = true;
	run_well(p.active->qp, &region, SOFTRDMA_OP_FLUSH, LEN);
	stepping = false;
	clock_forward_ms(1000); /* so that it goes back for no thread */
	clock_go_on();
	/* a thread looks before it flushes, and after that */
	const char *name = name_of(&p.listener);
	expect_counted("softrdma_flush_seconds_bucket", name, "le=\"0.000002\"", 0);
	expect_counted("softrdma_flush_seconds_bucket", name, "le=\"0.000004\"", 1);
	expect_counted("softrdma_flush_seconds_bucket", name, "le=\"4.194304\"", 1);
	expect_counted("softrdma_flush_seconds_sum", name, "", 3e-6);
	region_fini(&region);
	pair_fini(&p);
}

/* --- connections that are refused --- */

static void
expect_refused(const struct listener *l, const char *reason)
{
	char word[64];
	snprintf(word, sizeof(word), "reason=\"%s\"", reason);
	wait_until(value_of("softrdma_connections_refused_total", name_of(l), word) == 1);
}

static void
test_refused(void **state)
{
	(void)state;
	struct listener l;
	uint8_t buf[BUF_MAX];
	listener_init(&l);

	int fd = raw_connect(&l.addr);
	raw_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
	expect_refused(&l, "not_understood");
	close(fd);

	raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	buf[4] = SOFTRDMA_WIRE_VERSION + 1;
	fd = raw_connect(&l.addr);
	raw_send(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	expect_refused(&l, "version");
	close(fd);

	raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	buf[12] ^= 1;
	fd = raw_connect(&l.addr);
	raw_send(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	expect_refused(&l, "damaged");
	close(fd);

	raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	fd = raw_connect(&l.addr);
	raw_send(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(softrdma_rdma_reject(id, NULL, 0), 0);
	expect_refused(&l, "application");
	assert_int_equal(softrdma_rdma_destroy_id(id), 0);
	close(fd);

	fd = raw_connect(&l.addr);
	raw_send(fd, buf, 1);
	wait_until(count_fds() >= fds_before + 3); /* it is taken, and waits */
	poll(NULL, 0, 20);
	clock_forward_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS + 1000);
	expect_refused(&l, "silent");
	close(fd);
	expect_counted("softrdma_connections_total", name_of(&l), "", 0);
	listener_fini(&l);
}

/* --- the file --- */

static char folder[] = "stats-XXXXXX";

/* starts and stops the threads of the device, and so writes the file */
static void
use_device(void)
{
	assert_int_equal(softrdma_threads_start(), 0);
	softrdma_threads_stop();
}

static void
read_file(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	const size_t len = fread(text, 1, size - 1, file);
	text[len] = '\0';
	fclose(file);
}

static size_t
count_files(void)
{
	char pattern[64];
	glob_t found;
	snprintf(pattern, sizeof(pattern), "%s/*", folder);
	const int ret = glob(pattern, 0, NULL, &found);
	const size_t count = ret == 0 ? found.gl_pathc : 0;
	globfree(&found);
	return count;
}

static int
setup_folder(void **state)
{
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	return mkdtemp(folder) == NULL ? -1 : setup_one_thread(state);
}

static int
teardown_folder(void **state)
{
	unsetenv("SOFTRDMA_STATS_FILE");
	unsetenv("SOFTRDMA_STATS_SECONDS");
	return rmdir(folder) ? -1 : teardown_one_thread(state);
}

static void
test_file(void **state)
{
	(void)state;
	static char text[1 << 20];
	char path[64], pid[32];
	struct stat status;
	snprintf(path, sizeof(path), "%s/100%%%%-%%p.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	use_device();
	snprintf(path, sizeof(path), "%s/100%%-%ld.prom", folder, (long)getpid());
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	assert_int_equal(count_files(), 1);
	read_file(path, text, sizeof(text));
	snprintf(pid, sizeof(pid), "pid=\"%ld\"", (long)getpid());
	value_in(text, "softrdma_connections", "", pid);
	value_in(text, "softrdma_connections", "", "program=\"softrdma_test_stats_file\"");
	assert_int_equal(text[strlen(text) - 1], '\n');

	/* a reader that has the old file open reads the whole old one */
	FILE *old = fopen(path, "r");
	assert_non_null(old);
	struct pair_of_ids p;
	pair_init(&p);
	pair_fini(&p);
	static char again[sizeof(text)];
	const size_t len = fread(again, 1, sizeof(again) - 1, old);
	again[len] = '\0';
	assert_string_equal(again, text);
	fclose(old);
	read_file(path, again, sizeof(again));
	assert_string_not_equal(again, text);
	assert_int_equal(value_in(again, "softrdma_connections_total", name_of(&p.listener), ""), 1);
	assert_int_equal(unlink(path), 0);
}

/* the next one comes when its time has come, while the device works */
static void
test_written_again(void **state)
{
	(void)state;
	char path[64];
	snprintf(path, sizeof(path), "%s/again.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	setenv("SOFTRDMA_STATS_SECONDS", "1", 1);
	assert_int_equal(softrdma_threads_start(), 0);
	for (int i = 0; i < 2; i++) {
		wait_until(access(path, F_OK) == 0);
		assert_int_equal(unlink(path), 0);
	}
	softrdma_threads_stop();
	assert_int_equal(unlink(path), 0);
}

/* what the format gives a meaning is not taken from the name of the program */
static void
test_name_of_the_program(void **state)
{
	(void)state;
	char *before = program_invocation_short_name, name[] = "a\"b\\c\td\xe4";
	program_invocation_short_name = name;
	char *text = text_of_stats();
	program_invocation_short_name = before;
	assert_non_null(strstr(text, "program=\"a_b_c_d_\""));
	free(text);
}

static void
test_no_memory(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	char *text = text_of_stats();
	assert_int_equal(fail_nothing(), 1);
	assert_string_equal(text, "");
	free(text);
}

static void
test_no_file(void **state)
{
	(void)state;
	char path[64];
	snprintf(path, sizeof(path), "%s/none/stats.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	use_device();
	assert_true(log_has("the statistics cannot be written to"));
	assert_true(log_has("No such file or directory"));
	log_clear();

	/* the disk is full: nothing is left */
	snprintf(path, sizeof(path), "%s/full.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	assert_int_equal(softrdma_threads_start(), 0);
	wait_until(access(path, F_OK) == 0);
	assert_int_equal(unlink(path), 0);
	fail_call(FAIL_THEIRS, "write", 0, FAIL_FOR_EVER, ENOSPC);
	softrdma_threads_stop();
	assert_true(fail_nothing() > 0);
	assert_int_equal(count_files(), 0);
	log_clear();

	/* a folder has the name: the new file is removed again */
	snprintf(path, sizeof(path), "%s/taken.prom", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	use_device();
	assert_int_equal(count_files(), 1);
	assert_int_equal(rmdir(path), 0);
	log_clear();

	setenv("SOFTRDMA_STATS_FILE", "stats-%d.prom", 1);
	use_device();
	assert_true(log_has("SOFTRDMA_STATS_FILE=stats-%d.prom is ignored"));
	log_clear();

	/* the first thread is the progress thread */
	snprintf(path, sizeof(path), "%s/stats.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	fail_call(FAIL_MINE, "pthread_create", 1, 1, EAGAIN);
	use_device();
	assert_int_equal(fail_nothing(), 1);
	assert_true(log_has("no thread for the statistics"));
	assert_int_equal(count_files(), 0);
	log_clear();

	setenv("SOFTRDMA_STATS_FILE", "", 1);
	use_device();
	assert_int_equal(log_worst, 0);
}

/* a child begins with nothing, and has a file of its own */
static void
test_child(void **state)
{
	(void)state;
	if (in_thread_sanitizer()) {
		print_message("SKIPPED: the thread sanitizer cannot follow a child that begins threads\n");
		skip();
	}
	char path[64];
	struct listener l;
	listener_init(&l);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char *text = text_of_stats();
		const bool good = strstr(text, name_of(&l)) == NULL;
		snprintf(path, sizeof(path), "%s/%%p.prom", folder);
		setenv("SOFTRDMA_STATS_FILE", path, 1);
		use_device();
		end_child(good ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	snprintf(path, sizeof(path), "%s/%ld.prom", folder, (long)child);
	assert_int_equal(unlink(path), 0);
	listener_fini(&l);
}

/* a program that ends while the device works has its last counts in the file */
static void
test_end_of_the_program(void **state)
{
	(void)state;
	if (in_thread_sanitizer() || HAS_LEAK_CHECKER) {
		print_message("SKIPPED: a sanitizer cannot follow a child that begins threads, and exits\n");
		skip();
	}
	char path[64];
	snprintf(path, sizeof(path), "%s/last.prom", folder);
	setenv("SOFTRDMA_STATS_FILE", path, 1);
	setenv("SOFTRDMA_STATS_SECONDS", "3600", 1);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (softrdma_threads_start())
			exit(1);
		wait_until(access(path, F_OK) == 0);
		exit(unlink(path) == 0 ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(unlink(path), 0);
}

#define file_test(function) cmocka_unit_test_setup_teardown(function, setup_folder, teardown_folder)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_operations),
		device_test(test_domains),
		device_test(test_flush_times),
		device_test(test_refused),
		file_test(test_file),
		file_test(test_written_again),
		device_test(test_name_of_the_program),
		device_test(test_no_memory),
		file_test(test_no_file),
		file_test(test_child),
		file_test(test_end_of_the_program),
	};
	return cmocka_run_group_tests(tests, setup_clock, teardown_device);
}
