/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_keeper_hostile.c -- clients that break the rules of rpma-keeper, while an honest one uses a disk
 *
 *	test_keeper_hostile KEEPER [FILTER]
 *
 * The honest client must not fail, and must not lose its connection. How slow it became is printed, and not
 * judged: the machine may be busy with other things.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "keeper_process.h"
#include "pattern.h"
#include "wait.h"

#define SIZE ((size_t)1 << 20)
#define BLOCK 4096
#define TIMEOUT_MS 60000
#define CASE_SECONDS 120
#define QUIET_MS 500
#define SILENT 1000 /* connections that say nothing */
#define LATENCIES 100000

static const char *program;
static struct keeper_process keeper;
static struct disk *disk;
static struct disk_config config;
static struct disk_facts facts;
static atomic_uint said;

static pthread_t honest_thread;
static atomic_bool stop;
static unsigned honest_errors;
static uint32_t latencies_us[LATENCIES];
static unsigned latency_count;
static pthread_mutex_t latency_lock = PTHREAD_MUTEX_INITIALIZER;

static void
say(const char *text)
{
	printf("%s\n", text);
	atomic_fetch_add(&said, 1);
}

static int64_t
now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- the honest client --- */

static void *
be_honest(void *arg)
{
	uint8_t buf[BLOCK];

	(void)arg;
	for (uint64_t i = 0; !atomic_load(&stop); i++) {
		const uint64_t offset = i % (SIZE / BLOCK) * BLOCK;
		const int64_t begin = now_us();
		pattern_fill(buf, BLOCK, i, offset);
		if (!disk_write(disk, buf, BLOCK, offset, false) || !disk_read(disk, buf, BLOCK, offset) ||
			pattern_check(buf, BLOCK, i, offset) >= 0)
			honest_errors++;
		pthread_mutex_lock(&latency_lock);
		latencies_us[latency_count++ % LATENCIES] = (uint32_t)(now_us() - begin);
		pthread_mutex_unlock(&latency_lock);
		(void)usleep(200);
	}
	return NULL;
}

static int
compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* the 99th percentile since the last call, in microseconds */
static uint32_t
p99_us(void)
{
	static uint32_t sorted[LATENCIES];

	pthread_mutex_lock(&latency_lock);
	const unsigned count = latency_count < LATENCIES ? latency_count : LATENCIES;
	latency_count = 0;
	memcpy(sorted, latencies_us, count * sizeof(sorted[0]));
	pthread_mutex_unlock(&latency_lock);
	if (count == 0)
		return 0;
	qsort(sorted, count, sizeof(sorted[0]), compare);
	return sorted[(count - 1) * 99 / 100];
}

static uint32_t quiet_us; /* the honest client's before the attack */

static int
set_up(void **state)
{
	(void)state;
	deadline_start("a case of test_keeper_hostile", CASE_SECONDS);
	keeper_process_init(&keeper, program, SIZE);
	keeper.clients = "16";
	keeper_process_start(&keeper);
	config = case_config(&keeper, TIMEOUT_MS, DISK_JOURNAL_MIN);
	config.say = say;
	atomic_store(&said, 0);
	atomic_store(&stop, false);
	honest_errors = 0;
	case_opens(&config, &facts, &disk);
	assert_int_equal(pthread_create(&honest_thread, NULL, be_honest, NULL), 0);
	(void)usleep(QUIET_MS * 1000);
	quiet_us = p99_us();
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	printf("p99 of a write and a read: %u us before, %u us during the attack\n", quiet_us, p99_us());
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(honest_thread, NULL), 0);
	disk_stop(&disk);
	assert_int_equal(honest_errors, 0);
	assert_int_equal(atomic_load(&said), 0);
	assert_int_equal(keeper_process_end(&keeper, SIGTERM), 0);
	keeper_process_fini(&keeper);
	deadline_stop();
	return 0;
}

/* --- attacks --- */

/* opens a connection with any private data; the event that ends the attempt */
static enum rpma_conn_event
ask(struct rpma_peer *peer, const void *bytes, size_t len, struct rpma_conn **conn)
{
	const struct rpma_conn_private_data pdata = { (void *)(uintptr_t)bytes, (uint8_t)len };
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *req = NULL;

	assert_int_equal(rpma_conn_req_new(peer, KEEPER_ADDRESS, keeper.port, NULL, &req), 0);
	assert_int_equal(rpma_conn_req_connect(&req, len ? &pdata : NULL, conn), 0);
	assert_int_equal(wait_event(*conn, &event, WAIT_MS), 0);
	return event;
}

static void
is_refused(struct rpma_peer *peer, const void *bytes, size_t len, enum keeper_reason reason)
{
	struct rpma_conn_private_data pdata = { NULL, 0 };
	struct keeper_refusal refusal;
	struct rpma_conn *conn = NULL;

	assert_int_equal(ask(peer, bytes, len, &conn), RPMA_CONN_REJECTED);
	assert_int_equal(rpma_conn_get_private_data(conn, &pdata), 0);
	assert_int_equal(keeper_refusal_decode(pdata.ptr, pdata.len, &refusal), KEEPER_DECODED);
	assert_int_equal(refusal.reason, reason);
	assert_int_equal(rpma_conn_delete(&conn), 0);
}

static size_t
encode(uint8_t want, uint64_t client, const char *name, uint8_t bytes[static KEEPER_REQUEST_MAX])
{
	struct keeper_request request = { .want = want, .client = client };

	snprintf(request.name, sizeof(request.name), "%s", name);
	return keeper_request_encode(&request, bytes);
}

static void
says_nothing(void **state)
{
	(void)state;
	static int fds[SILENT];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(keeper.port)) };
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < SILENT; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fds[i] >= 0);
		(void)connect(fds[i], (struct sockaddr *)&to, sizeof(to));
	}
	/* a client that asks properly gets an answer all the same */
	struct rpma_peer *peer = case_peer();
	uint8_t bytes[KEEPER_REQUEST_MAX];
	is_refused(peer, bytes, encode(KEEPER_WANT_WRITE, 1, KEEPER_NAME, bytes), KEEPER_REFUSED_BUSY);
	assert_int_equal(rpma_peer_delete(&peer), 0);
	for (int i = 0; i < SILENT; i++)
		close(fds[i]);
}

static void
asks_for_nonsense(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	uint8_t bytes[UINT8_MAX];
	unsigned random = 1;
	is_refused(peer, NULL, 0, KEEPER_REFUSED_REQUEST);
	for (int i = 0; i < 300; i++) {
		size_t len = 1 + (size_t)rand_r(&random) % (sizeof(bytes) - 1);
		for (size_t j = 0; j < len; j++)
			bytes[j] = (uint8_t)rand_r(&random);
		if (i % 3 == 0) {
			/* almost right: one byte is changed */
			len = encode(KEEPER_WANT_WRITE, 1, KEEPER_NAME, bytes);
			bytes[i % 4] ^= 0x40;
		}
		is_refused(peer, bytes, len, KEEPER_REFUSED_REQUEST);
	}
	size_t len = encode(KEEPER_WANT_WRITE, 1, KEEPER_NAME, bytes);
	bytes[4] = KEEPER_VERSION + 1;
	is_refused(peer, bytes, len, KEEPER_REFUSED_VERSION);
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

/* names that are not lent, and memory that another client has */
static void
asks_for_what_it_may_not_have(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	uint8_t bytes[KEEPER_REQUEST_MAX];
	for (uint64_t i = 1; i <= 300; i++) {
		char name[KEEPER_NAME_MAX];
		snprintf(name, sizeof(name), "disk%u", (unsigned)i);
		is_refused(peer, bytes, encode(KEEPER_WANT_WRITE, i, name, bytes), KEEPER_REFUSED_NAME);
		is_refused(peer, bytes, encode(KEEPER_WANT_WRITE, i, KEEPER_NAME, bytes),
			KEEPER_REFUSED_BUSY);
		is_refused(peer, bytes, encode(KEEPER_WANT_WRITE | KEEPER_WANT_RESUME, i, KEEPER_NAME, bytes),
			KEEPER_REFUSED_SUPERSEDED);
	}
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

/* as many as the keeper admits; the next one is refused, and comes in when one has left */
static void
takes_all_places(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	struct rpma_conn *conns[15] = { NULL }, *next = NULL;
	uint8_t bytes[KEEPER_REQUEST_MAX];
	const size_t len = encode(0, 1, KEEPER_NAME, bytes);
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(ask(peer, bytes, len, &conns[i]), RPMA_CONN_ESTABLISHED);
	is_refused(peer, bytes, len, KEEPER_REFUSED_FULL);
	assert_int_equal(rpma_conn_delete(&conns[7]), 0);
	const int64_t end = now_ms() + WAIT_MS;
	while (ask(peer, bytes, len, &next) != RPMA_CONN_ESTABLISHED) {
		assert_int_equal(rpma_conn_delete(&next), 0);
		assert_true(now_ms() < end);
	}
	assert_int_equal(rpma_conn_delete(&next), 0);
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(rpma_conn_delete(&conns[i]), 0);
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

/* a reader changes the rights in its descriptor, and writes: its connection ends, and the memory stays as it is */
static void
forges_its_rights(void **state)
{
	(void)state;
	enum { RIGHTS_AT = 20 }; /* the usage in the descriptor of a memory region */
	struct rpma_peer *peer = case_peer();
	static uint8_t data[BLOCK];
	uint8_t bytes[KEEPER_REQUEST_MAX];
	struct rpma_mr_local *src = NULL;
	memset(data, 0xee, sizeof(data));
	assert_int_equal(rpma_mr_reg(peer, data, sizeof(data), RPMA_MR_USAGE_WRITE_SRC, &src), 0);
	for (int i = 0; i < 20; i++) {
		struct rpma_conn_private_data pdata = { NULL, 0 };
		struct rpma_conn *conn = NULL;
		struct rpma_mr_remote *dst = NULL;
		struct keeper_reply reply;
		struct rpma_cq *cq;
		struct ibv_wc wc;
		const size_t len = encode(0, 1, KEEPER_NAME, bytes);
		assert_int_equal(ask(peer, bytes, len, &conn), RPMA_CONN_ESTABLISHED);
		assert_int_equal(rpma_conn_get_private_data(conn, &pdata), 0);
		assert_int_equal(keeper_reply_decode(pdata.ptr, pdata.len, &reply), KEEPER_DECODED);
		assert_false(reply.writable);
		assert_true(reply.lent);
		reply.descriptor[RIGHTS_AT] |= RPMA_MR_USAGE_WRITE_DST;
		assert_int_equal(
			rpma_mr_remote_from_descriptor(reply.descriptor, reply.descriptor_size, &dst), 0);
		assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
		/* all of the memory, and the honest client would read a wrong byte */
		for (size_t at = 0; at < SIZE && i == 0; at += BLOCK)
			if (rpma_write(conn, dst, at, src, 0, BLOCK, RPMA_F_COMPLETION_ON_ERROR, NULL))
				break;
		if (i)
			assert_int_equal(
				rpma_write(conn, dst, 0, src, 0, BLOCK, RPMA_F_COMPLETION_ALWAYS, NULL), 0);
		assert_int_equal(wait_wc(cq, &wc, WAIT_MS), 0);
		assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(rpma_conn_delete(&conn), 0);
		assert_int_equal(rpma_mr_remote_delete(&dst), 0);
	}
	assert_int_equal(rpma_mr_dereg(&src), 0);
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

/* asks, and goes away before the answer comes */
static void
leaves_at_once(void **state)
{
	(void)state;
	struct rpma_peer *peer = case_peer();
	uint8_t bytes[KEEPER_REQUEST_MAX];
	for (uint64_t i = 1; i <= 200; i++) {
		const size_t len = encode(0, i, KEEPER_NAME, bytes);
		const struct rpma_conn_private_data pdata = { bytes, (uint8_t)len };
		struct rpma_conn_req *req = NULL;
		struct rpma_conn *conn = NULL;
		assert_int_equal(rpma_conn_req_new(peer, KEEPER_ADDRESS, keeper.port, NULL, &req), 0);
		assert_int_equal(rpma_conn_req_connect(&req, &pdata, &conn), 0);
		assert_int_equal(rpma_conn_delete(&conn), 0);
	}
	assert_int_equal(rpma_peer_delete(&peer), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(says_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(asks_for_nonsense, set_up, tear_down),
		cmocka_unit_test_setup_teardown(asks_for_what_it_may_not_have, set_up, tear_down),
		cmocka_unit_test_setup_teardown(takes_all_places, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forges_its_rights, set_up, tear_down),
		cmocka_unit_test_setup_teardown(leaves_at_once, set_up, tear_down),
	};
	struct rlimit limit;

	if (argc < 2) {
		fprintf(stderr, "usage: test_keeper_hostile KEEPER [FILTER]\n");
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	program = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	/* refusals are expected, and the log of each would take the time */
	(void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
