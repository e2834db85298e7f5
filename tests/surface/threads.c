/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * threads.c -- tests what librpma(7) says about threads, function by function, under the thread sanitizer
 *
 *	threads           runs each case in several threads at once, over the software device
 *	threads --list    function, class and case, one line each: what the manual's table must say
 *
 * Functions of the class "safe" are called by all threads with the same object. Functions of the class
 * "objects" are called by all threads too, each with objects of its own. If such an object comes from a peer
 * or another parent, the threads share that parent.
 */

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <librpma.h>

#include "deadline.h"
#include "pair.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define THREADS 4
#define ROUNDS 50
#define LIFE_ROUNDS 5 /* complete connections */
#define SIZE 4096
#define PIECE 64
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define DEADLINE_S 60
/* more than the number of outstanding requests: one operation and one receive for each thread */
#define QUEUE 64

#define TRUE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

#define ZERO(call) \
	do { \
		int zero_ret = (call); \
		if (zero_ret) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				rpma_err_2str(zero_ret)); \
			exit(1); \
		} \
	} while (0)

/* what the threads share: objects of each kind, and two connections of the process with itself */
static struct {
	struct ibv_context *dev;
	struct rpma_peer *peer;
	struct rpma_peer_cfg *pcfg;
	struct rpma_conn_cfg *cfg;
	struct rpma_srq_cfg *srq_cfg;
	struct pair plain;  /* a completion queue of each kind */
	struct pair shared; /* a shared completion channel */
	struct rpma_srq *srq;
	struct rpma_cq *rcq, *srq_rcq;
	void *mem;                   /* mapped from a file, registered on both sides */
	struct rpma_mr_local *mr;    /* of the client of plain */
	struct rpma_mr_local *there; /* of the server of plain */
	struct rpma_mr_remote *remote;
} w;

static void
log_nowhere(enum rpma_log_level level, const char *file, const int line, const char *function,
	const char *format, ...)
{
	(void)level;
	(void)file;
	(void)line;
	(void)function;
	(void)format;
}

/* ---- setting up ---- */

static void
never_wait(int fd)
{
	TRUE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

static struct rpma_conn_cfg *
new_cfg(bool shared)
{
	struct rpma_conn_cfg *cfg;
	ZERO(rpma_conn_cfg_new(&cfg));
	ZERO(rpma_conn_cfg_set_sq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_set_rq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_set_cq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_set_rcq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_set_compl_channel(cfg, shared));
	ZERO(rpma_conn_cfg_set_max_sge(cfg, 2));
	ZERO(rpma_conn_cfg_set_inline_size(cfg, PIECE));
	return cfg;
}

static char path[] = "threads.XXXXXX";

static void
map_file(void)
{
	int fd = mkstemp(path);
	TRUE(fd >= 0 && ftruncate(fd, SIZE) == 0);
	w.mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(w.mem != MAP_FAILED);
	close(fd);
}

static void
set_up(void)
{
	const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV |
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	struct rpma_conn_cfg *cfg = new_cfg(false), *shared = new_cfg(true);
	uint8_t desc[32];
	size_t size;
	int fd;

	map_file();
	ZERO(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &w.dev));
	ZERO(rpma_peer_new(w.dev, &w.peer));
	ZERO(rpma_peer_cfg_new(&w.pcfg));
	w.cfg = new_cfg(false);
	ZERO(rpma_srq_cfg_new(&w.srq_cfg));

	ZERO(pair_open(&w.plain, ADDR, cfg, cfg));
	ZERO(rpma_conn_get_rcq(w.plain.server.conn, &w.rcq));
	ZERO(rpma_cq_get_fd(w.plain.client.cq, &fd));
	never_wait(fd);
	ZERO(rpma_mr_reg(w.plain.client.peer, w.mem, SIZE, usage, &w.mr));
	ZERO(rpma_mr_reg(w.plain.server.peer, w.mem, SIZE, usage, &w.there));
	ZERO(rpma_mr_get_descriptor_size(w.there, &size));
	TRUE(size <= sizeof(desc));
	ZERO(rpma_mr_get_descriptor(w.there, desc));
	ZERO(rpma_mr_remote_from_descriptor(desc, size, &w.remote));

	ZERO(pair_open(&w.shared, ADDR, shared, shared));
	ZERO(rpma_conn_get_compl_fd(w.shared.client.conn, &fd));
	never_wait(fd);

	ZERO(rpma_conn_cfg_delete(&cfg));
	ZERO(rpma_conn_cfg_delete(&shared));
}

static void
tear_down(void)
{
	pair_close(&w.shared);
	ZERO(rpma_mr_remote_delete(&w.remote));
	ZERO(rpma_mr_dereg(&w.mr));
	ZERO(rpma_mr_dereg(&w.there));
	pair_close(&w.plain);
	ZERO(rpma_srq_cfg_delete(&w.srq_cfg));
	ZERO(rpma_conn_cfg_delete(&w.cfg));
	ZERO(rpma_peer_cfg_delete(&w.pcfg));
	ZERO(rpma_peer_delete(&w.peer));
	munmap(w.mem, SIZE);
	unlink(path);
}

/* ---- devices, words, log ---- */

static void
find(void)
{
	struct ibv_context *dev;
	int odp;
	ZERO(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_REMOTE, &dev));
	TRUE(dev == w.dev);
	ZERO(rpma_utils_ibv_context_is_odp_capable(dev, &odp));
	int soft;
	ZERO(rpma_utils_ibv_context_is_soft(dev, &soft));
	TRUE(soft == 1);
	TRUE(strcmp(rpma_utils_conn_event_2str(RPMA_CONN_LOST), "Connection lost") == 0);
	TRUE(strcmp(rpma_err_2str(RPMA_E_AGAIN), "Temporary error, try again") == 0);
}

static void
talk(void)
{
	enum rpma_log_level level;
	struct rpma_peer *none = NULL;
	ZERO(rpma_log_set_function(log_nowhere));
	ZERO(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING));
	ZERO(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
	TRUE(level == RPMA_LOG_LEVEL_WARNING);
	TRUE(rpma_peer_new(NULL, &none) == RPMA_E_INVAL); /* this is logged */
	TRUE(strstr(rpma_errormsg(), "NULL") != NULL);
}

/* ---- configurations ---- */

static void
configure(void)
{
	struct rpma_conn_cfg *cfg = w.cfg;
	struct rpma_srq *srq;
	uint32_t size;
	int timeout;
	bool yes;
	ZERO(rpma_conn_cfg_set_timeout(cfg, 2000));
	ZERO(rpma_conn_cfg_get_timeout(cfg, &timeout));
	TRUE(timeout == 2000);
	ZERO(rpma_conn_cfg_set_cq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_get_cq_size(cfg, &size));
	TRUE(size == QUEUE);
	ZERO(rpma_conn_cfg_set_rcq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_get_rcq_size(cfg, &size));
	ZERO(rpma_conn_cfg_set_sq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_get_sq_size(cfg, &size));
	ZERO(rpma_conn_cfg_set_rq_size(cfg, QUEUE));
	ZERO(rpma_conn_cfg_get_rq_size(cfg, &size));
	TRUE(size == QUEUE);
	ZERO(rpma_conn_cfg_set_compl_channel(cfg, false));
	ZERO(rpma_conn_cfg_get_compl_channel(cfg, &yes));
	TRUE(!yes);
	ZERO(rpma_conn_cfg_get_srq(cfg, &srq));
	ZERO(rpma_conn_cfg_set_max_sge(cfg, 2));
	ZERO(rpma_conn_cfg_get_max_sge(cfg, &size));
	TRUE(size == 2);
	ZERO(rpma_conn_cfg_set_inline_size(cfg, PIECE));
	ZERO(rpma_conn_cfg_get_inline_size(cfg, &size));
	TRUE(size == PIECE);
	ZERO(rpma_conn_cfg_set_connect_timeout(cfg, WAIT_MS));
	ZERO(rpma_conn_cfg_get_connect_timeout(cfg, &timeout));
	TRUE(timeout == WAIT_MS);

	ZERO(rpma_srq_cfg_set_rq_size(w.srq_cfg, QUEUE));
	ZERO(rpma_srq_cfg_get_rq_size(w.srq_cfg, &size));
	ZERO(rpma_srq_cfg_set_rcq_size(w.srq_cfg, QUEUE));
	ZERO(rpma_srq_cfg_get_rcq_size(w.srq_cfg, &size));
	TRUE(size == QUEUE);

	ZERO(rpma_peer_cfg_set_direct_write_to_pmem(w.pcfg, true));
	ZERO(rpma_peer_cfg_get_direct_write_to_pmem(w.pcfg, &yes));
	TRUE(yes);
}

static void
new_configurations(void)
{
	struct rpma_conn_cfg *cfg;
	struct rpma_srq_cfg *srq_cfg;
	struct rpma_peer_cfg *pcfg;
	uint8_t desc = 0;
	size_t size;
	ZERO(rpma_conn_cfg_new(&cfg));
	ZERO(rpma_conn_cfg_delete(&cfg));
	ZERO(rpma_srq_cfg_new(&srq_cfg));
	ZERO(rpma_srq_cfg_delete(&srq_cfg));
	ZERO(rpma_peer_cfg_new(&pcfg));
	ZERO(rpma_peer_cfg_delete(&pcfg));
	ZERO(rpma_peer_cfg_get_descriptor_size(w.pcfg, &size));
	TRUE(size == sizeof(desc));
	ZERO(rpma_peer_cfg_get_descriptor(w.pcfg, &desc));
	ZERO(rpma_peer_cfg_from_descriptor(&desc, sizeof(desc), &pcfg));
	ZERO(rpma_conn_apply_remote_peer_cfg(w.plain.client.conn, pcfg));
	ZERO(rpma_peer_cfg_delete(&pcfg));
}

/* ---- memory ---- */

static void
register_memory(void)
{
	static char memory[PIECE];
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote;
	uint8_t desc[32];
	size_t size;
	void *ptr;
	int types;
	/* all threads register the same range with the same peer */
	ZERO(rpma_mr_reg(w.peer, memory, sizeof(memory), RPMA_MR_USAGE_READ_SRC, &mr));
	ZERO(rpma_mr_dereg(&mr));

	ZERO(rpma_mr_get_descriptor_size(w.there, &size));
	TRUE(size <= sizeof(desc));
	ZERO(rpma_mr_get_descriptor(w.there, desc));
	ZERO(rpma_mr_get_ptr(w.mr, &ptr));
	TRUE(ptr == w.mem);
	ZERO(rpma_mr_get_size(w.mr, &size));
	TRUE(size == SIZE);
	ZERO(rpma_mr_remote_from_descriptor(desc, sizeof(desc), &remote));
	ZERO(rpma_mr_remote_delete(&remote));
	ZERO(rpma_mr_remote_get_size(w.remote, &size));
	TRUE(size == SIZE);
	ZERO(rpma_mr_remote_get_flush_type(w.remote, &types));
	TRUE(types == RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	ZERO(rpma_mr_advise(w.mr, 0, SIZE, IBV_ADVISE_MR_ADVICE_PREFETCH, 0));
}

/* ---- getters of connections and queues ---- */

static void
look(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_conn_private_data pdata;
	struct rpma_conn *found;
	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	struct rpma_peer_stats peer_stats = { .size = sizeof(peer_stats) };
	struct rpma_cq *cq;
	uint32_t qp_num, caps;
	int fd;
	ZERO(rpma_conn_get_stats(conn, &stats));
	ZERO(rpma_peer_get_stats(w.plain.client.peer, &peer_stats));
	TRUE(stats.size == sizeof(stats));
	ZERO(rpma_peer_get_caps(w.plain.client.peer, &caps));
	TRUE(caps & RPMA_CAP_SOFT);
	ZERO(rpma_conn_get_event_fd(conn, &fd));
	ZERO(rpma_conn_get_private_data(conn, &pdata));
	TRUE(pdata.len == 0);
	ZERO(rpma_conn_get_qp_num(conn, &qp_num));
	ZERO(rpma_peer_find_conn(w.plain.client.peer, qp_num, &found));
	TRUE(found == conn);
	ZERO(rpma_conn_get_cq(conn, &cq));
	TRUE(cq == w.plain.client.cq);
	ZERO(rpma_conn_get_rcq(conn, &cq));
	ZERO(rpma_conn_get_compl_fd(w.shared.client.conn, &fd));
	ZERO(rpma_conn_get_completion_fd(conn, &fd));
	ZERO(rpma_cq_get_fd(cq, &fd));
}

/* ---- operations: each thread posts one, and takes one completion, which may be another thread's ---- */

static struct ibv_wc
take(struct rpma_cq *cq)
{
	struct ibv_wc wc;
	int ret;
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		sched_yield();
	ZERO(ret);
	TRUE(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void
post(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_cq *cq = w.plain.client.cq;
	ZERO(rpma_write(conn, w.remote, 0, w.mr, PIECE, PIECE, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_read(conn, w.mr, 2 * PIECE, w.remote, 0, PIECE, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_atomic_write(conn, w.remote, 3 * PIECE, "12345678", ALWAYS, NULL));
	take(cq);
	ZERO(rpma_write_atomic(conn, w.remote, 3 * PIECE, w.mr, PIECE, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_flush(conn, w.remote, 0, PIECE, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, NULL));
	take(cq);
}

/* one thread may ring the doorbell for requests that another has batched */
static void
post_more(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_cq *cq = w.plain.client.cq;
	const struct rpma_sge pieces[] = { { w.mr, 7 * PIECE, PIECE }, { w.mr, 9 * PIECE, PIECE } };
	const uint64_t word = 7;
	ZERO(rpma_readv(conn, pieces, 2, w.remote, 10 * PIECE, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_writev(conn, w.remote, 0, pieces, 2, ALWAYS | RPMA_F_FENCE, NULL));
	take(cq);
	ZERO(rpma_write_inline(conn, w.remote, 2 * PIECE, &word, sizeof(word), ALWAYS, NULL));
	take(cq);
	ZERO(rpma_write_flush(conn, w.remote, 0, w.mr, PIECE, PIECE, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS,
		NULL));
	take(cq);
	ZERO(rpma_compare_and_swap(conn, w.mr, 6 * PIECE, w.remote, 5 * PIECE, 1, 2, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_fetch_and_add(conn, w.mr, 6 * PIECE, w.remote, 5 * PIECE, 1, ALWAYS, NULL));
	take(cq);
	ZERO(rpma_write(conn, w.remote, 0, w.mr, PIECE, PIECE, ALWAYS | RPMA_F_MORE, NULL));
	ZERO(rpma_conn_submit(conn));
	take(cq);
}

static void
converse(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_cq *cq = w.plain.client.cq;
	const uint64_t word = 7;
	for (int kind = 0; kind < 5; kind++) {
		ZERO(rpma_recv(w.plain.server.conn, w.there, 4 * PIECE, PIECE, NULL));
		if (kind == 0)
			ZERO(rpma_send(conn, w.mr, PIECE, PIECE, ALWAYS, NULL));
		else if (kind == 1)
			ZERO(rpma_send_with_imm(conn, w.mr, PIECE, PIECE, ALWAYS, 1, NULL));
		else if (kind == 2)
			ZERO(rpma_write_with_imm(conn, w.remote, 0, w.mr, PIECE, PIECE, ALWAYS, 2, NULL));
		else if (kind == 3)
			ZERO(rpma_write_inline_with_imm(conn, w.remote, 0, &word, sizeof(word), ALWAYS, 3,
				NULL));
		else
			ZERO(rpma_send_inline(conn, &word, sizeof(word), ALWAYS, NULL));
		take(cq);
		take(w.rcq);
	}
}

/* a wait may also end with no completion to take: another thread may have taken it */
static void
collect(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_cq *cq = w.plain.client.cq;
	struct rpma_completion done;
	for (int kind = 0; kind < 2; kind++) {
		int ret = RPMA_E_NO_COMPLETION;
		ZERO(rpma_write(conn, w.remote, 0, w.mr, PIECE, PIECE, ALWAYS, NULL));
		while (ret == RPMA_E_NO_COMPLETION) {
			ret = kind ? rpma_cq_wait(cq) : rpma_conn_completion_wait(conn);
			TRUE(ret == 0 || ret == RPMA_E_NO_COMPLETION);
			ret = kind ? rpma_cq_get_completion(cq, &done)
				   : rpma_conn_completion_get(conn, &done);
		}
		ZERO(ret);
		TRUE(done.op_status == IBV_WC_SUCCESS);
	}
}

/* if several threads wait for one queue, all of them use timeouts or none does */
static void
collect_timed(void)
{
	struct rpma_conn *conn = w.plain.client.conn;
	struct rpma_cq *cq = w.plain.client.cq;
	struct ibv_wc wc;
	int ret = RPMA_E_NO_COMPLETION;
	ZERO(rpma_cq_set_auto_arm(cq, true));
	ZERO(rpma_write(conn, w.remote, 0, w.mr, PIECE, PIECE, ALWAYS, NULL));
	while (ret == RPMA_E_NO_COMPLETION) {
		ZERO(rpma_cq_arm(cq));
		ret = rpma_cq_wait_timed(cq, 1);
		TRUE(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
	}
	ZERO(ret);
	TRUE(wc.status == IBV_WC_SUCCESS);
}

static void
collect_shared_timed(void)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret = RPMA_E_NO_COMPLETION;
	ZERO(rpma_write(w.shared.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
	while (ret == RPMA_E_NO_COMPLETION) {
		ret = rpma_conn_wait_timed(w.shared.client.conn, 0, 1, &cq, NULL);
		TRUE(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		ret = rpma_cq_get_wc(w.shared.client.cq, 1, &wc, NULL);
	}
	ZERO(ret);
	TRUE(wc.status == IBV_WC_SUCCESS);
}

static void
collect_shared(void)
{
	struct rpma_conn *conn = w.shared.client.conn;
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret = RPMA_E_NO_COMPLETION;
	ZERO(rpma_write(conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
	while (ret == RPMA_E_NO_COMPLETION) {
		ret = rpma_conn_wait(conn, 0, &cq, NULL);
		TRUE(ret == 0 || ret == RPMA_E_NO_COMPLETION);
		ret = rpma_cq_get_wc(w.shared.client.cq, 1, &wc, NULL);
	}
	ZERO(ret);
	TRUE(wc.status == IBV_WC_SUCCESS);
}

/* all threads post to a shared receive queue; deleting it removes the receives */
static void
pool(void)
{
	struct rpma_srq *srq;
	struct rpma_cq *rcq;
	ZERO(rpma_srq_new(w.peer, w.srq_cfg, &srq));
	ZERO(rpma_srq_get_rcq(srq, &rcq));
	TRUE(rcq != NULL);
	ZERO(rpma_srq_recv(srq, NULL, 0, 0, NULL));
	ZERO(rpma_srq_delete(&srq));
}

static void
fill_pool(void)
{
	struct rpma_cq *rcq;
	struct rpma_conn_cfg *cfg = w.cfg;
	ZERO(rpma_srq_recv(w.srq, NULL, 0, 0, NULL));
	ZERO(rpma_srq_get_rcq(w.srq, &rcq));
	TRUE(rcq == w.srq_rcq);
	ZERO(rpma_conn_cfg_set_srq(cfg, w.srq));
}

/* ---- whole lives ---- */

/* one thread runs both sides, from the endpoint and the request to the end of the connection */
static void
live(void)
{
	struct pair p;
	ZERO(pair_open(&p, ADDR, NULL, NULL));
	pair_close(&p);
}

/* the calls that all threads may make on one peer at the same time */
static void
ask(void)
{
	static char memory[PIECE];
	struct rpma_conn_private_data pdata;
	struct rpma_conn_req *out, *in;
	struct rpma_conn *conn;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	char port[NET_PORT_LEN];
	int fd;

	ZERO(rpma_mr_reg(w.peer, memory, sizeof(memory), RPMA_MR_USAGE_RECV, &mr));
	ZERO(pair_listen(w.peer, ADDR, port, &ep));
	ZERO(rpma_ep_get_fd(ep, &fd));
	ZERO(rpma_conn_req_new(w.peer, ADDR, port, w.cfg, &out));
	ZERO(rpma_conn_req_recv(out, mr, 0, sizeof(memory), NULL));
	ZERO(rpma_conn_req_connect(&out, NULL, &conn));
	ZERO(rpma_ep_next_conn_req(ep, w.cfg, &in));
	ZERO(rpma_conn_req_get_private_data(in, &pdata));
	ZERO(rpma_conn_req_delete(&in));
	enum rpma_conn_event event;
	ZERO(rpma_conn_next_event(conn, &event));
	TRUE(event == RPMA_CONN_REJECTED);
	ZERO(rpma_conn_delete(&conn));

	struct rpma_conn_private_data reason = { "full", 4 };
	ZERO(rpma_conn_req_new(w.peer, ADDR, port, w.cfg, &out));
	ZERO(rpma_conn_req_connect(&out, NULL, &conn));
	ZERO(rpma_ep_next_conn_req_timed(ep, w.cfg, WAIT_MS, &in));
	ZERO(rpma_conn_req_reject(&in, &reason));
	ZERO(rpma_conn_next_event_timed(conn, WAIT_MS, &event));
	TRUE(event == RPMA_CONN_REJECTED);
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_ep_shutdown(&ep));
	ZERO(rpma_mr_dereg(&mr));
}

static void
use_device(void)
{
	struct rpma_peer *peer;
	ZERO(rpma_peer_new(w.dev, &peer));
	TRUE(rpma_peer_set_tls(peer, "/nonexistent", "/nonexistent", "/nonexistent") != 0);
	ZERO(rpma_peer_delete(&peer));
}

/* all threads end the same connection, which was opened for this case */
static struct pair ending;

static void
end(void)
{
	ZERO(rpma_conn_disconnect(ending.client.conn));
}

/* ---- the table ---- */

enum class {
	SAFE,    /* may use the same object */
	OBJECTS, /* must use different objects */
};

static const struct {
	const char *name;
	void (*run)(void);
	int rounds;
	enum class class;
	const char *functions;
} cases[] = {
	{ "find", find, ROUNDS, SAFE,
		"rpma_utils_get_ibv_context rpma_utils_ibv_context_is_odp_capable "
		"rpma_utils_ibv_context_is_soft rpma_utils_conn_event_2str "
		"rpma_err_2str" },
	{ "talk", talk, ROUNDS, SAFE,
		"rpma_log_set_threshold rpma_log_get_threshold rpma_log_set_function rpma_errormsg" },
	{ "configure", configure, ROUNDS, SAFE,
		"rpma_conn_cfg_set_timeout rpma_conn_cfg_get_timeout rpma_conn_cfg_set_cq_size "
		"rpma_conn_cfg_get_cq_size rpma_conn_cfg_set_rcq_size rpma_conn_cfg_get_rcq_size "
		"rpma_conn_cfg_set_sq_size rpma_conn_cfg_get_sq_size rpma_conn_cfg_set_rq_size "
		"rpma_conn_cfg_get_rq_size rpma_conn_cfg_set_compl_channel rpma_conn_cfg_get_compl_channel "
		"rpma_conn_cfg_set_max_sge rpma_conn_cfg_get_max_sge rpma_conn_cfg_set_inline_size "
		"rpma_conn_cfg_get_inline_size rpma_conn_cfg_set_connect_timeout rpma_conn_cfg_get_connect_timeout "
		"rpma_conn_cfg_get_srq rpma_srq_cfg_set_rq_size rpma_srq_cfg_get_rq_size "
		"rpma_srq_cfg_set_rcq_size rpma_srq_cfg_get_rcq_size rpma_peer_cfg_set_direct_write_to_pmem "
		"rpma_peer_cfg_get_direct_write_to_pmem" },
	{ "new_configurations", new_configurations, ROUNDS, SAFE,
		"rpma_conn_cfg_new rpma_srq_cfg_new rpma_peer_cfg_new rpma_peer_cfg_get_descriptor "
		"rpma_peer_cfg_get_descriptor_size rpma_peer_cfg_from_descriptor "
		"rpma_conn_apply_remote_peer_cfg" },
	{ "new_configurations", NULL, 0, OBJECTS,
		"rpma_conn_cfg_delete rpma_srq_cfg_delete rpma_peer_cfg_delete" },
	{ "use_device", use_device, ROUNDS, SAFE, "rpma_peer_new" },
	{ "use_device", NULL, 0, OBJECTS, "rpma_peer_delete rpma_peer_set_tls" },
	{ "register_memory", register_memory, ROUNDS, SAFE,
		"rpma_mr_reg rpma_mr_get_descriptor rpma_mr_get_descriptor_size rpma_mr_get_ptr "
		"rpma_mr_get_size rpma_mr_remote_from_descriptor rpma_mr_remote_get_size "
		"rpma_mr_remote_get_flush_type rpma_mr_advise" },
	{ "register_memory", NULL, 0, OBJECTS, "rpma_mr_dereg rpma_mr_remote_delete" },
	{ "look", look, ROUNDS, SAFE,
		"rpma_conn_get_event_fd rpma_conn_get_private_data rpma_conn_get_qp_num rpma_conn_get_cq "
		"rpma_conn_get_rcq rpma_conn_get_compl_fd rpma_conn_get_completion_fd rpma_cq_get_fd "
		"rpma_conn_get_stats rpma_peer_get_stats rpma_peer_get_caps rpma_peer_find_conn" },
	{ "post", post, ROUNDS, SAFE,
		"rpma_write rpma_read rpma_atomic_write rpma_write_atomic rpma_flush rpma_cq_get_wc" },
	{ "post_more", post_more, ROUNDS, SAFE,
		"rpma_readv rpma_writev rpma_write_inline rpma_write_flush rpma_compare_and_swap "
		"rpma_fetch_and_add rpma_conn_submit" },
	{ "converse", converse, ROUNDS, SAFE,
		"rpma_send_inline rpma_write_inline_with_imm rpma_send rpma_send_with_imm rpma_write_with_imm rpma_recv" },
	{ "collect", collect, ROUNDS, SAFE,
		"rpma_cq_wait rpma_conn_completion_wait rpma_cq_get_completion rpma_conn_completion_get" },
	{ "collect_timed", collect_timed, ROUNDS, SAFE,
		"rpma_cq_wait_timed rpma_cq_arm rpma_cq_set_auto_arm" },
	{ "collect_shared", collect_shared, ROUNDS, SAFE, "rpma_conn_wait" },
	{ "collect_shared_timed", collect_shared_timed, ROUNDS, SAFE, "rpma_conn_wait_timed" },
	{ "pool", pool, ROUNDS, SAFE, "rpma_srq_new" },
	{ "pool", NULL, 0, OBJECTS, "rpma_srq_delete" },
	{ "fill_pool", fill_pool, ROUNDS, SAFE, "rpma_srq_recv rpma_srq_get_rcq rpma_conn_cfg_set_srq" },
	{ "ask", ask, LIFE_ROUNDS, SAFE, "rpma_conn_req_new rpma_ep_listen" },
	{ "ask", NULL, 0, OBJECTS,
		"rpma_conn_req_recv rpma_conn_req_connect rpma_conn_req_get_private_data "
		"rpma_conn_req_delete rpma_ep_get_fd rpma_ep_next_conn_req rpma_ep_shutdown "
		"rpma_ep_next_conn_req_timed rpma_conn_req_reject rpma_conn_next_event_timed" },
	{ "live", live, LIFE_ROUNDS, OBJECTS, "rpma_conn_next_event rpma_conn_delete" },
	{ "end", end, LIFE_ROUNDS, SAFE, "rpma_conn_disconnect" },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static pthread_barrier_t barrier;

struct job {
	void (*run)(void);
	int rounds;
};

static void *
work(void *arg)
{
	const struct job *job = arg;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < job->rounds; i++)
		job->run();
	return NULL;
}

static void
run_in_threads(void (*run)(void), int rounds)
{
	pthread_t threads[THREADS];
	struct job job = { run, rounds };
	TRUE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++)
		TRUE(pthread_create(&threads[i], NULL, work, &job) == 0);
	for (int i = 0; i < THREADS; i++)
		TRUE(pthread_join(threads[i], NULL) == 0);
	pthread_barrier_destroy(&barrier);
}

/* sets up what one case needs and no other */
static void
prepare(void (*run)(void))
{
	if (run == end)
		ZERO(pair_open(&ending, ADDR, NULL, NULL));
	if (run != fill_pool)
		return;
	ZERO(rpma_srq_cfg_set_rq_size(w.srq_cfg, THREADS * ROUNDS));
	ZERO(rpma_srq_new(w.peer, w.srq_cfg, &w.srq));
	ZERO(rpma_srq_get_rcq(w.srq, &w.srq_rcq));
}

static void
clean_up(void (*run)(void))
{
	if (run == end)
		pair_close(&ending);
	if (run != fill_pool)
		return;
	ZERO(rpma_conn_cfg_delete(&w.cfg)); /* it refers to the queue that is deleted next */
	w.cfg = new_cfg(false);
	ZERO(rpma_srq_delete(&w.srq));
}

static int
list(void)
{
	for (size_t i = 0; i < CASES; i++) {
		char functions[1024];
		char *save = NULL;
		snprintf(functions, sizeof(functions), "%s", cases[i].functions);
		for (char *f = strtok_r(functions, " ", &save); f; f = strtok_r(NULL, " ", &save))
			printf("%s %s %s\n", f, cases[i].class == SAFE ? "safe" : "objects", cases[i].name);
	}
	return 0;
}

int
main(int argc, char *argv[])
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc != 1) {
		fprintf(stderr, "usage: %s [--list]\n", argv[0]);
		return 2;
	}

	deadline_start("setting up", DEADLINE_S);
	set_up();
	for (size_t i = 0; i < CASES; i++) {
		if (cases[i].run == NULL) /* the same case as the line above */
			continue;
		deadline_start(cases[i].name, DEADLINE_S);
		prepare(cases[i].run);
		run_in_threads(cases[i].run, cases[i].rounds);
		clean_up(cases[i].run);
		printf("%s\n", cases[i].name);
	}
	deadline_start("the end", DEADLINE_S);
	tear_down();
	return 0;
}
