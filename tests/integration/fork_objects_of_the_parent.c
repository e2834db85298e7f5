/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * fork_objects_of_the_parent.c -- a child calls every function that takes an object, with an object of its
 * parent
 *
 * Such calls used the sockets and the events of the parent. Or they waited for ever: for a lock held by a
 * thread of the parent, for an event, for a thread that the child does not have. Now each returns
 * RPMA_E_PROVIDER within a second, and the parent is not affected.
 */

#include <librpma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define LEN 4096
#define TEST_S 60
#define CALL_MS 1000
#define LONG_MS 20000

#define USAGE \
	(RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | \
		RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV | \
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

/* objects that the parent has made, which the child finds in its memory */
static struct {
	struct pair pair;
	struct pair shared; /* its completion queues share a channel */
	struct rpma_mr_local *local, *target;
	struct rpma_mr_remote *remote;
	struct rpma_srq *srq;
	struct rpma_conn_req *outgoing, *incoming;
	struct rpma_conn *asking;
	uint8_t src[LEN], dst[LEN];
} own;

static int failures;

static void
must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "failed: %s (%s)\n", what, rpma_errormsg());
	exit(1);
}

static void
expect(const char *call, int ret, int wanted)
{
	static int64_t last_ms;
	const int64_t took_ms = last_ms ? now_ms() - last_ms : 0;
	if (ret != wanted || took_ms > (int64_t)CALL_MS * deadline_scaled(1)) {
		fprintf(stderr, "%s: %d (%s) after %d ms, not %d\n", call, ret, rpma_err_2str(ret),
			(int)took_ms, wanted);
		failures++;
	}
	last_ms = now_ms();
}

static void
refused(const char *call, int ret)
{
	expect(call, ret, RPMA_E_PROVIDER);
	if (ret == RPMA_E_PROVIDER && strstr(rpma_errormsg(), "fork") == NULL) {
		fprintf(stderr, "%s: no word of a fork: %s\n", call, rpma_errormsg());
		failures++;
	}
}

/* --- the child --- */

static void
use_peer(void)
{
	struct rpma_peer *peer = own.pair.client.peer;
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	struct rpma_conn_req *req;
	struct rpma_ep *ep;
	struct rpma_srq *srq;
	static uint8_t mem[LEN];
	uint32_t caps;
	struct rpma_peer_stats stats = { .size = sizeof(stats) };
	refused("rpma_mr_reg", rpma_mr_reg(peer, mem, LEN, USAGE, &mr));
	refused("rpma_conn_req_new", rpma_conn_req_new(peer, ADDR, own.pair.port, NULL, &req));
	refused("rpma_ep_listen", rpma_ep_listen(peer, ADDR, "0", &ep));
	refused("rpma_srq_new", rpma_srq_new(peer, NULL, &srq));
	refused("rpma_peer_find_conn", rpma_peer_find_conn(peer, 1, &conn));
	refused("rpma_peer_get_stats", rpma_peer_get_stats(peer, &stats));
	refused("rpma_peer_set_tls", rpma_peer_set_tls(peer, "none", "none", "none"));
	expect("rpma_peer_get_caps", rpma_peer_get_caps(peer, &caps), 0);
}

static void
post(void)
{
	const int flags = RPMA_F_COMPLETION_ALWAYS;
	struct rpma_conn *conn = own.pair.client.conn;
	const struct rpma_sge piece = { .mr = own.local, .len = 8 };
	const char value[8] = { 0 };
	const char bytes[8] = { 0 };
	refused("rpma_write", rpma_write(conn, own.remote, 0, own.local, 0, LEN, flags, NULL));
	refused("rpma_write with more",
		rpma_write(conn, own.remote, 0, own.local, 0, LEN, RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE,
			NULL));
	refused("rpma_conn_submit", rpma_conn_submit(conn));
	refused("rpma_write_with_imm",
		rpma_write_with_imm(conn, own.remote, 0, own.local, 0, LEN, flags, 1, NULL));
	refused("rpma_writev", rpma_writev(conn, own.remote, 0, &piece, 1, flags, NULL));
	refused("rpma_readv", rpma_readv(conn, &piece, 1, own.remote, 0, flags, NULL));
	refused("rpma_write_inline", rpma_write_inline(conn, own.remote, 0, bytes, 8, flags, NULL));
	refused("rpma_atomic_write", rpma_atomic_write(conn, own.remote, 0, value, flags, NULL));
	refused("rpma_flush", rpma_flush(conn, own.remote, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, flags, NULL));
	refused("rpma_write_flush",
		rpma_write_flush(conn, own.remote, 0, own.local, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, flags,
			NULL));
	refused("rpma_read", rpma_read(conn, own.local, 0, own.remote, 0, LEN, flags, NULL));
	refused("rpma_fetch_and_add", rpma_fetch_and_add(conn, own.local, 0, own.remote, 0, 1, flags, NULL));
	refused("rpma_compare_and_swap",
		rpma_compare_and_swap(conn, own.local, 0, own.remote, 0, 1, 2, flags, NULL));
	refused("rpma_send", rpma_send(conn, own.local, 0, LEN, flags, NULL));
	refused("rpma_send_with_imm", rpma_send_with_imm(conn, own.local, 0, LEN, flags, 1, NULL));
	refused("rpma_send_inline", rpma_send_inline(conn, bytes, 8, flags, NULL));
	refused("rpma_recv", rpma_recv(conn, own.local, 0, LEN, NULL));
	refused("rpma_srq_recv", rpma_srq_recv(own.srq, own.local, 0, LEN, NULL));
	refused("rpma_mr_advise", rpma_mr_advise(own.local, 0, LEN, IBV_ADVISE_MR_ADVICE_PREFETCH, 0));
}

static void
wait_and_poll(void)
{
	enum rpma_conn_event event;
	struct ibv_wc wc;
	struct rpma_conn_req *req;
	struct rpma_cq *cq;
	struct rpma_conn_private_data pdata;
	struct rpma_completion cmpl;
	struct rpma_conn *conn = own.pair.client.conn;
	refused("rpma_cq_wait", rpma_cq_wait(own.pair.client.cq));
	refused("rpma_cq_wait_timed", rpma_cq_wait_timed(own.pair.client.cq, LONG_MS));
	refused("rpma_cq_arm", rpma_cq_arm(own.pair.client.cq));
	refused("rpma_cq_get_wc", rpma_cq_get_wc(own.pair.client.cq, 1, &wc, NULL));
	refused("rpma_cq_get_wc of a durable write", rpma_cq_get_wc(own.shared.client.cq, 1, &wc, NULL));
	refused("rpma_cq_get_completion", rpma_cq_get_completion(own.pair.server.cq, &cmpl));
	refused("rpma_conn_completion_wait", rpma_conn_completion_wait(conn));
	refused("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
	refused("rpma_conn_next_event_timed", rpma_conn_next_event_timed(conn, LONG_MS, &event));
	refused("rpma_conn_wait", rpma_conn_wait(own.shared.client.conn, 0, &cq, NULL));
	refused("rpma_conn_wait_timed", rpma_conn_wait_timed(own.shared.client.conn, 0, LONG_MS, &cq, NULL));
	refused("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
	refused("rpma_ep_next_conn_req", rpma_ep_next_conn_req(own.pair.ep, NULL, &req));
	refused("rpma_ep_next_conn_req_timed", rpma_ep_next_conn_req_timed(own.pair.ep, NULL, LONG_MS, &req));
}

static void
use_what_is_memory_only(void)
{
	uint32_t qp_num;
	size_t size;
	void *ptr;
	uint8_t desc[UINT8_MAX];
	struct rpma_conn_stats stats = { .size = sizeof(stats) };
	expect("rpma_conn_get_qp_num", rpma_conn_get_qp_num(own.pair.client.conn, &qp_num), 0);
	expect("rpma_conn_get_stats", rpma_conn_get_stats(own.pair.client.conn, &stats), 0);
	expect("rpma_mr_get_ptr", rpma_mr_get_ptr(own.local, &ptr), 0);
	expect("rpma_mr_get_descriptor", rpma_mr_get_descriptor(own.local, desc), 0);
	expect("rpma_mr_remote_get_size", rpma_mr_remote_get_size(own.remote, &size), 0);
	expect("rpma_mr_remote_delete", rpma_mr_remote_delete(&own.remote), 0);
}

/* deletions, which clear the pointer as always */
static void delete (void)
{
	struct rpma_conn *conn;
	refused("rpma_conn_req_recv", rpma_conn_req_recv(own.incoming, own.local, 0, LEN, NULL));
	refused("rpma_conn_req_connect", rpma_conn_req_connect(&own.incoming, NULL, &conn));
	refused("rpma_conn_req_delete", rpma_conn_req_delete(&own.outgoing));
	refused("rpma_conn_disconnect", rpma_conn_disconnect(own.pair.client.conn));
	refused("rpma_conn_delete", rpma_conn_delete(&own.pair.client.conn));
	refused("rpma_conn_delete of the other side", rpma_conn_delete(&own.pair.server.conn));
	refused("rpma_conn_delete of the one that asks", rpma_conn_delete(&own.asking));
	refused("rpma_conn_delete of the shared ones", rpma_conn_delete(&own.shared.client.conn));
	refused("rpma_srq_delete", rpma_srq_delete(&own.srq));
	refused("rpma_mr_dereg", rpma_mr_dereg(&own.local));
	refused("rpma_ep_shutdown", rpma_ep_shutdown(&own.pair.ep));
	refused("rpma_peer_delete", rpma_peer_delete(&own.pair.client.peer));
	must(own.incoming == NULL && own.outgoing == NULL && own.pair.client.conn == NULL &&
			own.srq == NULL && own.local == NULL && own.pair.ep == NULL &&
			own.pair.client.peer == NULL,
		"the pointers are cleared");
}

static _Noreturn void
be_a_child(void)
{
	deadline_start("the child", TEST_S);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
	expect("the clock", 0, 0);
	use_peer();
	post();
	wait_and_poll();
	use_what_is_memory_only();
	delete ();
	/* the child can make objects of its own */
	struct pair pair;
	must(pair_open(&pair, ADDR, NULL, NULL) == 0, "a connection of the child");
	pair_close(&pair);
	exit(failures > 0); /* exit() also runs leak checkers */
}

/* --- the parent --- */

static void
write_once(struct pair *pair, uint64_t seed)
{
	struct ibv_wc wc = { 0 };
	pattern_fill(own.src, LEN, seed, 0);
	must(rpma_write_flush(pair->client.conn, own.remote, 0, own.local, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY,
		     RPMA_F_COMPLETION_ALWAYS, NULL) == 0,
		"rpma_write_flush");
	must(poll_wc(pair->client.cq, &wc, WAIT_MS) == 0 && wc.status == IBV_WC_SUCCESS, "its completion");
	must(pattern_check(own.dst, LEN, seed, 0) < 0, "what it has written");
}

/* another thread of the parent, which waits during the fork and holds all the locks that waiting takes */
static void *
wait_for_a_completion(void *arg)
{
	(void)arg;
	must(rpma_cq_wait_timed(own.pair.server.cq, LONG_MS) == 0, "a completion at the server");
	return NULL;
}

static void
make_objects(void)
{
	uint8_t desc[UINT8_MAX];
	size_t size;
	struct rpma_conn_cfg *cfg;
	must(rpma_conn_cfg_new(&cfg) == 0, "rpma_conn_cfg_new");
	must(rpma_conn_cfg_set_compl_channel(cfg, true) == 0, "rpma_conn_cfg_set_compl_channel");
	must(pair_open(&own.pair, ADDR, NULL, NULL) == 0, "a connection");
	must(pair_open(&own.shared, ADDR, cfg, cfg) == 0, "a connection with a shared channel");
	must(rpma_conn_cfg_delete(&cfg) == 0, "rpma_conn_cfg_delete");
	must(rpma_mr_reg(own.pair.client.peer, own.src, LEN, USAGE, &own.local) == 0, "the source");
	must(rpma_mr_reg(own.pair.server.peer, own.dst, LEN, USAGE, &own.target) == 0, "the target");
	must(rpma_mr_get_descriptor_size(own.target, &size) == 0 && size <= sizeof(desc), "the size");
	must(rpma_mr_get_descriptor(own.target, desc) == 0, "the descriptor");
	must(rpma_mr_remote_from_descriptor(desc, size, &own.remote) == 0, "the remote region");
	must(rpma_srq_new(own.pair.client.peer, NULL, &own.srq) == 0, "a shared receive queue");
	struct rpma_conn_req *req;
	must(rpma_conn_req_new(own.pair.client.peer, ADDR, own.pair.port, NULL, &req) == 0, "a request");
	must(rpma_conn_req_connect(&req, NULL, &own.asking) == 0, "its connection");
	must(wait_conn_req(own.pair.ep, NULL, &own.incoming, WAIT_MS) == 0, "its request");
	must(rpma_conn_req_new(own.pair.client.peer, ADDR, own.pair.port, NULL, &own.outgoing) == 0,
		"an outgoing request");
}

static void
delete_objects(void)
{
	must(rpma_conn_req_delete(&own.outgoing) == 0, "rpma_conn_req_delete");
	must(rpma_conn_req_delete(&own.incoming) == 0, "rpma_conn_req_delete of the incoming one");
	must(rpma_conn_delete(&own.asking) == 0, "rpma_conn_delete");
	must(rpma_srq_delete(&own.srq) == 0, "rpma_srq_delete");
	must(rpma_mr_remote_delete(&own.remote) == 0, "rpma_mr_remote_delete");
	must(rpma_mr_dereg(&own.local) == 0 && rpma_mr_dereg(&own.target) == 0, "rpma_mr_dereg");
	pair_close(&own.shared);
	pair_close(&own.pair);
}

int
main(void)
{
	pthread_t thread;
	int status;
	deadline_start("objects of the parent in a child", TEST_S);
	make_objects();
	write_once(&own.pair, 1);
	must(rpma_recv(own.pair.server.conn, own.target, 0, LEN, NULL) == 0, "rpma_recv");
	must(pthread_create(&thread, NULL, wait_for_a_completion, NULL) == 0, "a thread");

	await_sleep_of_other_threads();
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0)
		be_a_child();
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the end of the child");

	/* the child took neither an event of the parent nor a byte of its connection */
	must(rpma_cq_wait_timed(own.pair.client.cq, LONG_MS) == 0, "the event of before the fork");
	write_once(&own.pair, 2);
	must(rpma_send(own.pair.client.conn, own.local, 0, LEN, RPMA_F_COMPLETION_ON_ERROR, NULL) == 0,
		"rpma_send");
	must(pthread_join(thread, NULL) == 0, "the thread");
	delete_objects();
	printf("every call was refused in the child, and the parent went on\n");
	return 0;
}
