/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * beside_original.c -- measures operations over the guest's RDMA device, in a program written for the
 * original's API
 *
 *	beside_original MILLISECONDS       for each measurement, after a fifth of that to warm up
 *
 * It is compiled with the header and linked to the library of the distribution; LD_LIBRARY_PATH replaces that
 * by ours (original.h has the checks). TWO_ADDR is the device's address, LAB_DEVDAX the target's memory.
 *
 * The target's application sleeps, the initiator's polls. The program prints a line for each measurement: its
 * name, and the median time of an operation in microseconds.
 */

#include <sched.h>
#include <time.h>

#include "original.h"

#define SEED 42u
#define READ_SEED 7u

#define SAMPLES_MAX 1000000
#define MILLISECONDS_MAX 1000 /* an operation takes at least a microsecond, so the samples suffice */

#define DEVICE_PROCESSOR 0u
#define POLLER_PROCESSOR 1u

#define SMALL 64u
#define BLOCK 4096u
#define IN_FLIGHT 64
#define BATCH 16
#define SAMPLE_WRITES 256
#define QUEUE_SIZE 128
#define MESSAGE_SIZE 64 /* as in two_accept() */

/* places in the target's memory, and in the initiator's copy of it; each operation takes the next slot */
struct area {
	size_t offset;
	size_t slots;
	size_t slot_size;
};

static const struct area write_area = { 0, 64, SMALL };
static const struct area rate_area = { 4096, 64, SMALL };
static const struct area flush_area = { 8192, 8, BLOCK };
static const struct area read_area = { 40960, 64, SMALL };
#define WRITTEN_SIZE 40960 /* everything before read_area */
#define READ_SIZE 4096

static bool yields;
static uint64_t measured_ns;

/*
 * A polling thread keeps its processor until its time slice is over. So the kernel's part, which is the
 * device, runs on the other processor together with the target (guest-beside-original sets that up). With
 * only one processor, the poller yields it between two polls.
 */
static void
run_on(size_t processor)
{
	yields = sysconf(_SC_NPROCESSORS_ONLN) == 1;
	if (yields)
		return;

	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	TRUE(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static struct rpma_conn_cfg *
queue_sizes(void)
{
	struct rpma_conn_cfg *cfg;
	ZERO(rpma_conn_cfg_new(&cfg));
	ZERO(rpma_conn_cfg_set_sq_size(cfg, QUEUE_SIZE));
	ZERO(rpma_conn_cfg_set_rq_size(cfg, QUEUE_SIZE));
	ZERO(rpma_conn_cfg_set_cq_size(cfg, 2 * QUEUE_SIZE));
	return cfg;
}

/* ---- target ---- */

static void
target(int port_fd)
{
	original_library();
	run_on(DEVICE_PROCESSOR);
	const char *device = getenv("LAB_DEVDAX");
	TRUE(device);
	unsigned char *mem = original_map(device, 0);
	memset(mem, 0, TWO_SIZE);
	two_fill(mem + read_area.offset, READ_SIZE, READ_SEED);

	char message[MESSAGE_SIZE];
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_mr_local *mr, *message_mr;
	ZERO(rpma_mr_reg(peer, mem, TWO_SIZE,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT |
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		&mr));
	ZERO(rpma_mr_reg(peer, message, sizeof(message), RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND,
		&message_mr));

	char descriptor[24];
	size_t size;
	ZERO(rpma_mr_get_descriptor_size(mr, &size));
	TRUE(size <= sizeof(descriptor));
	ZERO(rpma_mr_get_descriptor(mr, descriptor));

	char port[8];
	struct rpma_conn_cfg *cfg = queue_sizes();
	struct rpma_ep *ep = two_listen(peer, port);
	two_tell_port(port_fd, port);
	struct rpma_conn *conn = two_accept(ep, cfg, descriptor, size, message_mr);

	two_expect_completion(conn, message_mr, IBV_WC_RECV);
	TRUE(strcmp(message, "written") == 0);
	TRUE(two_check(mem, WRITTEN_SIZE, SEED));
	strcpy(message, "seen");
	ZERO(rpma_send(conn, message_mr, 0, sizeof(message), RPMA_F_COMPLETION_ALWAYS, "send"));
	two_expect_completion(conn, "send", IBV_WC_SEND);
	two_expect_event(conn, RPMA_CONN_CLOSED);

	ZERO(rpma_conn_disconnect(conn));
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_conn_cfg_delete(&cfg));
	ZERO(rpma_ep_shutdown(&ep));
	ZERO(rpma_mr_dereg(&message_mr));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
	munmap(mem, ORIGINAL_MAP_UNIT);
}

/* ---- initiator ---- */

struct side {
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_local *mr; /* of the copy */
	struct rpma_mr_remote *remote;
};

static uint64_t
now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static size_t
slot(const struct area *area, uint64_t number)
{
	return area->offset + number % area->slots * area->slot_size;
}

static void
post_write(const struct side *side, const struct area *area, uint64_t number)
{
	const size_t at = slot(area, number);
	ZERO(rpma_write(side->conn, side->remote, at, side->mr, at, SMALL, RPMA_F_COMPLETION_ALWAYS, side));
}

static void
post_read(const struct side *side, const struct area *area, uint64_t number)
{
	const size_t at = slot(area, number);
	ZERO(rpma_read(side->conn, side->mr, at, side->remote, at, SMALL, RPMA_F_COMPLETION_ALWAYS, side));
}

static void
post_write_and_flush(const struct side *side, const struct area *area, uint64_t number)
{
	const size_t at = slot(area, number);
	ZERO(rpma_write(side->conn, side->remote, at, side->mr, at, BLOCK, RPMA_F_COMPLETION_ON_ERROR, side));
	ZERO(rpma_flush(side->conn, side->remote, at, BLOCK, RPMA_FLUSH_TYPE_PERSISTENT,
		RPMA_F_COMPLETION_ALWAYS, side));
}

/* polls without sleeping until at least one completion is there */
static int
collect(const struct side *side)
{
	struct ibv_wc wc[BATCH];
	int got, ret;
	do {
		ret = rpma_cq_get_wc(side->cq, BATCH, wc, &got);
	} while (ret == RPMA_E_NO_COMPLETION && (!yields || sched_yield() == 0));
	ZERO(ret);
	for (int i = 0; i < got; i++)
		TRUE(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)(uintptr_t)side);
	return got;
}

typedef void (*post_fn)(const struct side *side, const struct area *area, uint64_t number);

/* ---- measurements ---- */

struct samples {
	double us[SAMPLES_MAX];
	size_t count;
};

static void
add_sample(struct samples *samples, uint64_t ns, uint64_t operations)
{
	TRUE(samples->count < SAMPLES_MAX);
	samples->us[samples->count++] = (double)ns / 1e3 / (double)operations;
}

static int
compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void
print_median(const char *name, struct samples *samples)
{
	qsort(samples->us, samples->count, sizeof(*samples->us), compare);
	printf("%s %.2f\n", name, samples->us[samples->count / 2]);
}

/* one operation at a time, for `duration` ns and until each slot was used; a sample for each operation */
static void
one_by_one(const struct side *side, post_fn post, const struct area *area, uint64_t duration,
	struct samples *samples)
{
	const uint64_t start = now();
	uint64_t begin = start;
	samples->count = 0;
	while (samples->count < area->slots || begin - start < duration) {
		post(side, area, samples->count);
		TRUE(collect(side) == 1);
		const uint64_t end = now();
		add_sample(samples, end - begin, 1);
		begin = end;
	}
}

/*
 * keeps IN_FLIGHT writes in flight for `duration` ns, then waits for the rest; a sample for each
 * SAMPLE_WRITES writes
 */
static void
many_at_once(const struct side *side, uint64_t duration, struct samples *samples)
{
	const uint64_t start = now();
	uint64_t begin = start, posted = 0, completed = 0, sampled = 0;
	samples->count = 0;
	while (posted < IN_FLIGHT)
		post_write(side, &rate_area, posted++);
	while (completed < posted) {
		completed += (uint64_t)collect(side);
		const bool goes_on = samples->count == 0 || begin - start < duration;
		while (goes_on && posted < completed + IN_FLIGHT)
			post_write(side, &rate_area, posted++);
		if (goes_on && completed - sampled >= SAMPLE_WRITES) {
			const uint64_t end = now();
			add_sample(samples, end - begin, completed - sampled);
			begin = end;
			sampled = completed;
		}
	}
}

static void
measure_latency(const struct side *side, const char *name, post_fn post, const struct area *area,
	struct samples *samples)
{
	one_by_one(side, post, area, measured_ns / 5, samples);
	one_by_one(side, post, area, measured_ns, samples);
	print_median(name, samples);
}

static void
measure_rate(const struct side *side, const char *name, struct samples *samples)
{
	many_at_once(side, measured_ns / 5, samples);
	many_at_once(side, measured_ns, samples);
	print_median(name, samples);
}

static void
measure_all(const struct side *side)
{
	struct samples *samples = malloc(sizeof(*samples));
	TRUE(samples);
	measure_latency(side, "write", post_write, &write_area, samples);
	measure_latency(side, "read", post_read, &read_area, samples);
	measure_rate(side, "rate", samples);
	measure_latency(side, "flush", post_write_and_flush, &flush_area, samples);
	free(samples);
}

/* ---- the connection ---- */

static void
initiator(const char *port)
{
	original_library();
	run_on(POLLER_PROCESSOR);
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_REMOTE);
	unsigned char *mem = aligned_alloc(BLOCK, TWO_SIZE);
	char messages[2 * MESSAGE_SIZE]; /* one to receive, one to send */
	struct side side;
	struct rpma_mr_local *message_mr;
	TRUE(mem);
	memset(mem, 0, TWO_SIZE);
	two_fill(mem, WRITTEN_SIZE, SEED);
	ZERO(rpma_mr_reg(peer, mem, TWO_SIZE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &side.mr));
	ZERO(rpma_mr_reg(peer, messages, sizeof(messages), RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND,
		&message_mr));

	struct rpma_conn_cfg *cfg = queue_sizes();
	struct rpma_conn_private_data data;
	side.conn = two_connect(peer, port, cfg);
	original_apply_peer_cfg(side.conn);
	ZERO(rpma_conn_get_private_data(side.conn, &data));
	ZERO(rpma_mr_remote_from_descriptor(data.ptr, data.len, &side.remote));
	ZERO(rpma_conn_get_cq(side.conn, &side.cq));

	measure_all(&side);

	TRUE(two_check(mem + read_area.offset, READ_SIZE, READ_SEED));
	ZERO(rpma_recv(side.conn, message_mr, 0, MESSAGE_SIZE, "recv"));
	strcpy(messages + MESSAGE_SIZE, "written");
	ZERO(rpma_send(side.conn, message_mr, MESSAGE_SIZE, MESSAGE_SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
	two_expect_completion(side.conn, "recv", IBV_WC_RECV);
	TRUE(strcmp(messages, "seen") == 0);

	ZERO(rpma_conn_disconnect(side.conn));
	two_expect_event(side.conn, RPMA_CONN_CLOSED);
	ZERO(rpma_mr_remote_delete(&side.remote));
	ZERO(rpma_conn_delete(&side.conn));
	ZERO(rpma_conn_cfg_delete(&cfg));
	ZERO(rpma_mr_dereg(&message_mr));
	ZERO(rpma_mr_dereg(&side.mr));
	ZERO(rpma_peer_delete(&peer));
	free(mem);
}

int
main(int argc, char **argv)
{
	TRUE(argc == 2);
	const int milliseconds = atoi(argv[1]);
	TRUE(milliseconds > 0 && milliseconds <= MILLISECONDS_MAX);
	measured_ns = (uint64_t)milliseconds * 1000000;
	setvbuf(stdout, NULL, _IOLBF, 0); /* so that the output is complete up to the point where a
					   * deadline ends the program */
	return two_run(target, initiator);
}
