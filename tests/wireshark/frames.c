/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * frames.c -- connections that send every message and frame of the protocol, and datagrams, as a pcap file
 *
 *	frames --file FILE [--segment BYTES] [--opaque]
 *
 * Both ends of each connection are in this process. The bytes are those of the device; capture.c puts headers of IP and of
 * TCP or UDP before them. FILE.ledger has a line for each message, frame and datagram, as the device's own decoder reads
 * them. The environment decides whether the streams are plain, in records (SOFTRDMA_CRC) or over TLS, and whether datagrams
 * have check sums (SOFTRDMA_CRC). Status 1: a message, a frame or a datagram is missing, so the capture would show less than
 * it should.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "capture.h"
#include "deadline.h"
#include "driver.h"
#include "ledger.h"
#include "pair.h"
#include "softrdma/bounds.h"
#include "softrdma/softrdma.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/gid.h"
#include "wait.h"

/* more than two frames of a message, so that there is one that is neither the first nor the last */
#define LONG_LEN ((size_t)600 * 1024)
#define SHORT_LEN ((size_t)64)
#define MEM_LEN (2 * LONG_LEN)
#define DESC_MAX 64
#define DEADLINE_S 60

static const char *file;
static unsigned long segment = 1400;
static bool opaque;

static const struct driver_option options[] = {
	{ "file", "FILE", "write the capture to FILE, and what it should show to FILE.ledger",
		.text = &file },
	{ "segment", "BYTES", "bytes of the stream in one packet", .number = &segment, .min = 1,
		.max = 65000 },
	{ "opaque", NULL,
		"the streams are encrypted: nothing is expected in the ledger, and no datagram is sent",
		.flag = &opaque },
	{ 0 },
};

static const struct driver_program program = { "frames",
	"Makes connections that send every message and frame of the protocol, and datagrams, and writes them as a pcap "
	"file.",
	options };

static const char *const every_name[] = { "CONNECT", "ACCEPT", "REJECT", "JOIN", "RESOLVE", "SEND", "WRITE",
	"READ", "ATOMIC_WRITE", "COMPARE_SWAP", "FETCH_ADD", "FLUSH", "RESYNC", "ACK", "READ_RESPONSE",
	"ATOMIC_RESPONSE", "NAK", "RNR", "RNR_READY", "READY", "DISCONNECT", "DATAGRAM", NULL };

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "FAILED: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void
check(const char *what, int ret)
{
	if (ret)
		fail(what, rpma_errormsg());
}

static void
check_errno(const char *what, int ret)
{
	if (ret)
		fail(what, strerror(ret < 0 ? errno : ret));
}

/* until a frame of this kind has left; a message that finds no receive causes no event on either side */
static void
await(const char *name)
{
	while (!opaque && !ledger_has(name))
		poll(NULL, 0, 1);
}

/* --- connections of the connection manager --- */

struct memory {
	uint8_t *bytes;
	struct rpma_mr_local *mr;
};

static void
memory_init(struct memory *memory, struct rpma_peer *peer)
{
	const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV |
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	memory->bytes = aligned_alloc(4096, MEM_LEN);
	if (memory->bytes == NULL)
		fail("memory", "none is left");
	/* nothing that looks like a header */
	memset(memory->bytes, 0xa5, MEM_LEN);
	check("rpma_mr_reg", rpma_mr_reg(peer, memory->bytes, MEM_LEN, usage, &memory->mr));
}

static void
memory_fini(struct memory *memory)
{
	check("rpma_mr_dereg", rpma_mr_dereg(&memory->mr));
	free(memory->bytes);
}

/* what the other side would get in a message of the program */
static struct rpma_mr_remote *
remote_of(const struct memory *memory)
{
	uint8_t desc[DESC_MAX];
	size_t len = 0;
	struct rpma_mr_remote *remote = NULL;
	check("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size(memory->mr, &len));
	if (len > sizeof(desc))
		fail("descriptor", "longer than expected");
	check("rpma_mr_get_descriptor", rpma_mr_get_descriptor(memory->mr, desc));
	check("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(desc, len, &remote));
	return remote;
}

static void
expect(const char *what, struct pair_side *side, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	check(what, wait_wc(side->cq, &wc, WAIT_MS));
	if (wc.status != status)
		fail(what, ibv_wc_status_str(wc.status));
}

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static void
one_sided(struct pair_side *client, struct memory *own, struct rpma_mr_remote *remote)
{
	struct rpma_conn *conn = client->conn;
	check("rpma_write", rpma_write(conn, remote, 0, own->mr, 0, SHORT_LEN, ALWAYS, NULL));
	expect("write", client, IBV_WC_SUCCESS);
	check("rpma_write, long", rpma_write(conn, remote, 0, own->mr, 0, LONG_LEN, ALWAYS, NULL));
	expect("long write", client, IBV_WC_SUCCESS);
	check("rpma_write, empty", rpma_write(conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
	expect("empty write", client, IBV_WC_SUCCESS);
	check("rpma_read", rpma_read(conn, own->mr, LONG_LEN, remote, 0, SHORT_LEN, ALWAYS, NULL));
	expect("read", client, IBV_WC_SUCCESS);
	check("rpma_read, long", rpma_read(conn, own->mr, LONG_LEN, remote, 0, LONG_LEN, ALWAYS, NULL));
	expect("long read", client, IBV_WC_SUCCESS);
	check("rpma_atomic_write", rpma_atomic_write(conn, remote, 8, "8 bytes.", ALWAYS, NULL));
	expect("atomic write", client, IBV_WC_SUCCESS);
	check("rpma_compare_and_swap",
		rpma_compare_and_swap(conn, own->mr, LONG_LEN, remote, 16, 1, 2, ALWAYS, NULL));
	expect("compare and swap", client, IBV_WC_SUCCESS);
	check("rpma_fetch_and_add", rpma_fetch_and_add(conn, own->mr, LONG_LEN, remote, 16, 3, ALWAYS, NULL));
	expect("fetch and add", client, IBV_WC_SUCCESS);
	check("rpma_flush", rpma_flush(conn, remote, 0, LONG_LEN, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
	expect("flush", client, IBV_WC_SUCCESS);
}

/* the first message finds no receive: RNR, RNR_READY, RESYNC, and the message again */
static void
messages(struct pair *p, struct memory *own, struct memory *others, struct rpma_mr_remote *remote)
{
	struct rpma_conn *conn = p->client.conn;
	check("rpma_send", rpma_send(conn, own->mr, 0, SHORT_LEN, ALWAYS, NULL));
	await("RNR");
	check("rpma_recv", rpma_recv(p->server.conn, others->mr, 0, SHORT_LEN, NULL));
	expect("send", &p->client, IBV_WC_SUCCESS);
	expect("receive", &p->server, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++)
		check("rpma_recv", rpma_recv(p->server.conn, others->mr, 0, LONG_LEN, NULL));
	check("rpma_send_with_imm", rpma_send_with_imm(conn, own->mr, 0, LONG_LEN, ALWAYS, 0x12345678, NULL));
	expect("send with immediate data", &p->client, IBV_WC_SUCCESS);
	expect("receive with immediate data", &p->server, IBV_WC_SUCCESS);
	check("rpma_write_with_imm",
		rpma_write_with_imm(conn, remote, 0, own->mr, 0, SHORT_LEN, ALWAYS, 7, NULL));
	expect("write with immediate data", &p->client, IBV_WC_SUCCESS);
	expect("receive of a write", &p->server, IBV_WC_SUCCESS);
}

static void
all_operations(const char *addr)
{
	struct pair p;
	struct memory client, server;
	check("connection", pair_open(&p, addr, NULL, NULL));
	memory_init(&client, p.client.peer);
	memory_init(&server, p.server.peer);
	struct rpma_mr_remote *remote = remote_of(&server);
	one_sided(&p.client, &client, remote);
	messages(&p, &client, &server, remote);
	check("rpma_mr_remote_delete", rpma_mr_remote_delete(&remote));
	memory_fini(&client);
	memory_fini(&server);
	pair_close(&p);
}

/* the key is known no longer: NAK */
static void
refused_write(const char *addr)
{
	struct pair p;
	struct memory client, server;
	check("connection", pair_open(&p, addr, NULL, NULL));
	memory_init(&client, p.client.peer);
	memory_init(&server, p.server.peer);
	struct rpma_mr_remote *remote = remote_of(&server);
	memory_fini(&server);
	check("rpma_write", rpma_write(p.client.conn, remote, 0, client.mr, 0, SHORT_LEN, ALWAYS, NULL));
	expect("refused write", &p.client, IBV_WC_REM_ACCESS_ERR);
	check("rpma_mr_remote_delete", rpma_mr_remote_delete(&remote));
	memory_fini(&client);
	pair_close(&p);
}

static void
refused_connection(const char *addr)
{
	char port[NET_PORT_LEN], words[] = "not today";
	struct ibv_context *ctx = NULL;
	struct rpma_peer *peer = NULL;
	struct rpma_ep *ep = NULL;
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	const struct rpma_conn_private_data why = { .ptr = words, .len = sizeof(words) };
	check("context", rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
	check("rpma_peer_new", rpma_peer_new(ctx, &peer));
	check("endpoint", pair_listen(peer, addr, port, &ep));
	check("rpma_conn_req_new", rpma_conn_req_new(peer, addr, port, NULL, &req));
	check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &why, &conn));
	check("request", wait_conn_req(ep, NULL, &req, WAIT_MS));
	check("rpma_conn_req_reject", rpma_conn_req_reject(&req, &why));
	check("event", wait_event(conn, &event, WAIT_MS));
	if (event != RPMA_CONN_REJECTED)
		fail("event", rpma_utils_conn_event_2str(event));
	check("rpma_conn_delete", rpma_conn_delete(&conn));
	check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
	check("rpma_peer_delete", rpma_peer_delete(&peer));
}

/* --- queue pairs that are connected by hand --- */

#define PSN_A 0x100
#define PSN_B 0xfffffe

/* the device's own kind of GID, the mapped one, and that of IPv6: each has bytes by which it is found */
static const struct gid_of_loopback {
	uint8_t first;
	size_t at, length;
	uint8_t bytes[16];
} own_kind = { 0xfc, 4, 4, { 127, 0, 0, 1 } }, mapped_kind = { 0, 10, 6, { 0xff, 0xff, 127, 0, 0, 1 } },
  v6_kind = { 0, 0, 16, { [15] = 1 } };

/* false: the loopback has no GID of this kind */
static bool
find_gid(const struct gid_of_loopback *kind, union ibv_gid *gid, uint8_t *index)
{
	for (unsigned i = 0; i < softrdma_gid_count(); i++) {
		check_errno("GID", softrdma_gid_get(i, gid));
		if (gid->raw[0] == kind->first &&
			memcmp(gid->raw + kind->at, kind->bytes, kind->length) == 0) {
			*index = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static void
to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	check_errno("INIT",
		softrdma_ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void
to_rtr(struct ibv_qp *qp, const union ibv_gid *gid, uint8_t index, uint32_t dest_qp_num, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 } };
	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = index;
	attr.ah_attr.grh.hop_limit = 1;
	check_errno("RTR",
		softrdma_ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static void
to_rts(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = psn,
		.max_rd_atomic = 1 };
	check_errno("RTS",
		softrdma_ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_qp *
new_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = softrdma_ibv_create_qp(pd, &init);
	if (qp == NULL)
		fail("queue pair", strerror(errno));
	return qp;
}

static void
post(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc;
	int n = 0;
	check_errno("post", ibv_post_send(qp, wr, &bad));
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		poll(NULL, 0, 1);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		fail("request by hand", n < 0 ? strerror(-n) : ibv_wc_status_str(wc.status));
}

static void
write_by_hand(struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = SHORT_LEN, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + SHORT_LEN;
	wr.wr.rdma.rkey = mr->rkey;
	post(qp, cq, &wr);
}

/* only one of the two calls, so that JOIN is answered by ACCEPT */
static void
by_hand(void)
{
	static uint8_t bytes[2 * SHORT_LEN];
	uint8_t index = 0;
	struct ibv_context *ctx = softrdma_context();
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(ctx);
	struct ibv_cq *cq = softrdma_ibv_create_cq(ctx, 16, NULL, NULL, 0);
	if (pd == NULL || cq == NULL)
		fail("protection domain and completion queue", strerror(errno));
	struct ibv_mr *mr = softrdma_ibv_reg_mr(pd, bytes, sizeof(bytes),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (mr == NULL)
		fail("memory", strerror(errno));
	union ibv_gid gid;
	if (!find_gid(&own_kind, &gid, &index))
		fail("GID", "the loopback has none");
	struct ibv_qp *a = new_qp(pd, cq, IBV_QPT_RC), *b = new_qp(pd, cq, IBV_QPT_RC);
	to_init(a);
	to_init(b);
	to_rtr(b, &gid, index, a->qp_num, PSN_A);
	to_rtr(a, &gid, index, b->qp_num, PSN_B);
	to_rts(a, PSN_A);
	write_by_hand(a, cq, mr);
	check_errno("destroy", softrdma_ibv_destroy_qp(a));
	check_errno("destroy", softrdma_ibv_destroy_qp(b));
	check_errno("memory", softrdma_ibv_dereg_mr(mr));
	check_errno("completion queue", softrdma_ibv_destroy_cq(cq));
	check_errno("protection domain", softrdma_ibv_dealloc_pd(pd));
	softrdma_release_gids();
}

/* --- datagrams --- */

/* takes the next event of the channel, which must be of this type */
static struct rdma_cm_event *
next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;
	check_errno("event", softrdma_rdma_get_cm_event(channel, &event));
	if (event->event != type)
		fail("event of another type", rdma_event_str(event->event));
	return event;
}

static void
await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	softrdma_rdma_ack_cm_event(next_event(channel, type));
}

static struct rdma_cm_id *
new_datagram_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;
	check_errno("id", softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	return id;
}

static void
ask(struct rdma_cm_id *id, struct sockaddr *server)
{
	struct rdma_conn_param param = { .private_data = "where?", .private_data_len = 7 };
	check_errno("address", softrdma_rdma_resolve_addr(id, NULL, server, 1000));
	await_event(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check_errno("route", softrdma_rdma_resolve_route(id, 1000));
	await_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	check_errno("question", softrdma_rdma_connect(id, &param));
}

/* the server names a number of a queue pair that it does not have, which is all that leaves */
static void
answer(struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = { .qp_num = 0xabcdef, .private_data = "there", .private_data_len = 6 };
	struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	softrdma_rdma_ack_cm_event(event);
	check_errno("answer", softrdma_rdma_accept(id, &param));
	check_errno("id", softrdma_rdma_destroy_id(id));
}

/* RESOLVE and its ACCEPT */
static void
question(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *client = softrdma_rdma_create_event_channel();
	struct rdma_event_channel *server = softrdma_rdma_create_event_channel();
	if (client == NULL || server == NULL)
		fail("event channel", strerror(errno));
	struct rdma_cm_id *listener = new_datagram_id(server), *id = new_datagram_id(client);
	check_errno("bind", softrdma_rdma_bind_addr(listener, (struct sockaddr *)&addr));
	check_errno("listen", softrdma_rdma_listen(listener, 1));
	ask(id, &listener->route.addr.src_addr);
	answer(server);
	await_event(client, RDMA_CM_EVENT_ESTABLISHED);
	check_errno("id", softrdma_rdma_destroy_id(id));
	check_errno("listener", softrdma_rdma_destroy_id(listener));
	softrdma_rdma_destroy_event_channel(client);
	softrdma_rdma_destroy_event_channel(server);
}

#define QKEY 0x11223344

static void
to_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	check_errno("INIT",
		softrdma_ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	check_errno("RTR", softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	check_errno("RTS", softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void
send_datagram(struct ibv_qp *qp, const struct ibv_mr *mr, struct ibv_ah *ah, uint32_t to,
	struct ibv_send_wr wr, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey };
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_SIGNALED;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to;
	wr.wr.ud.remote_qkey = QKEY;
	post(qp, qp->send_cq, &wr);
}

/* No receive is posted: what leaves is all that counts. The one with all flags is the last. */
static void
send_datagrams(struct ibv_qp *from, const struct ibv_qp *to, const struct ibv_mr *mr,
	const struct gid_of_loopback *own, const struct gid_of_loopback *others)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_send_wr plain = { .opcode = IBV_WR_SEND };
	struct ibv_send_wr solicited = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED };
	struct ibv_send_wr with_imm = { .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SOLICITED,
		.imm_data = htobe32(0x12345678) };
	union ibv_gid own_gid;
	uint8_t index;
	if (!find_gid(own, &own_gid, &attr.grh.sgid_index) || !find_gid(others, &attr.grh.dgid, &index))
		return;
	attr.grh.flow_label = 0xabcde;
	attr.grh.traffic_class = 0x28;
	attr.grh.hop_limit = 3;
	struct ibv_ah *ah = softrdma_ibv_create_ah(mr->pd, &attr);
	if (ah == NULL)
		fail("address handle", strerror(errno));
	send_datagram(from, mr, ah, to->qp_num, plain, 0);
	send_datagram(from, mr, ah, to->qp_num, plain, SOFTRDMA_DATAGRAM_MAX);
	send_datagram(from, mr, ah, to->qp_num, solicited, 1);
	send_datagram(from, mr, ah, to->qp_num, with_imm, SHORT_LEN);
	check_errno("address handle", softrdma_ibv_destroy_ah(ah));
}

static void
datagrams(void)
{
	static uint8_t bytes[SOFTRDMA_DATAGRAM_MAX];
	struct ibv_context *ctx = softrdma_context();
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(ctx);
	struct ibv_cq *cq = softrdma_ibv_create_cq(ctx, 16, NULL, NULL, 0);
	if (pd == NULL || cq == NULL)
		fail("protection domain and completion queue", strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	struct ibv_mr *mr = softrdma_ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	if (mr == NULL)
		fail("memory", strerror(errno));
	struct ibv_qp *a = new_qp(pd, cq, IBV_QPT_UD), *b = new_qp(pd, cq, IBV_QPT_UD);
	to_datagrams(a);
	to_datagrams(b);
	send_datagrams(b, a, mr, &own_kind, &own_kind);
	send_datagrams(a, b, mr, &v6_kind, &v6_kind);
	send_datagrams(b, a, mr, &mapped_kind, &own_kind);
	send_datagrams(a, b, mr, &own_kind, &mapped_kind);
	check_errno("destroy", softrdma_ibv_destroy_qp(a));
	check_errno("destroy", softrdma_ibv_destroy_qp(b));
	check_errno("memory", softrdma_ibv_dereg_mr(mr));
	check_errno("completion queue", softrdma_ibv_destroy_cq(cq));
	check_errno("protection domain", softrdma_ibv_dealloc_pd(pd));
}

int
main(int argc, char **argv)
{
	const char *same_host = getenv("SOFTRDMA_SAME_HOST");
	driver_parse(&program, argc, argv);
	if (file == NULL)
		driver_refuse("--file is missing");
	setenv("RPMA_DEVICE", "soft", 1);
	deadline_start("frames", DEADLINE_S);
	if (!capture_open(file, segment))
		fail(file, strerror(errno));
	all_operations("127.0.0.1");
	refused_write("127.0.0.1");
	refused_connection("127.0.0.1");
	if (!opaque) {
		question();
		datagrams();
	}
	by_hand();
	if (!capture_close())
		fail(file, "not everything was written");
	if (opaque)
		return 0;
	unsigned missing = same_host ? 0 : ledger_missing(every_name);
	if (same_host && !ledger_has("SHM_OFFER")) {
		fprintf(stderr, "no SHM_OFFER has left\n");
		missing = 1;
	}
	return missing > 0;
}
