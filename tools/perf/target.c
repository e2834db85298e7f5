/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* target.c -- the server's memory and connections of one step */

#include <endian.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "op.h"
#include "pattern.h"
#include "target.h"

#define ACCEPT_TIMEOUT_MS 10000 /* longest time between two connections of a step */
#define LOOK_MS 100             /* interval at which the control connection is checked meanwhile */
#define MR_DESCRIPTOR_MAX 64

static uint8_t *
slot_of(const struct target *target, uint32_t conn, uint64_t slot)
{
	return target->memory.ptr + conn * load_target_share(&target->load) +
		slot * load_target_stride(&target->load);
}

/* writes the data that reads will find */
static void
fill(struct target *target)
{
	const struct load *load = &target->load;
	for (uint32_t conn = 0; conn < load->connections; conn++)
		for (uint32_t slot = 0; slot < load->depth; slot++)
			pattern_fill(slot_of(target, conn, slot), load->size, pattern_key(conn, slot), 0);
}

static bool
register_memory(struct target *target, struct rpma_peer *peer, char why[static WHY_MAX])
{
	int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
		RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND;
	/* requested only if it is used, since devices refuse it for some memory */
	if (target->memory.is_file && op_kinds[target->load.op].flushes &&
		target->load.flush_type == RPMA_FLUSH_TYPE_PERSISTENT)
		usage |= RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
	if (rpma_mr_reg(peer, target->memory.ptr, target->memory.size, usage, &target->mr))
		return why_rpma(why, "registering the target's memory");
	return true;
}

bool
target_open(struct target *target, const struct load *load, struct rpma_peer *peer, const char *memory,
	bool overwrite, char why[static WHY_MAX])
{
	*target = (struct target){ .load = *load, .memory.fd = -1 };

	if (getrandom(&target->token, sizeof(target->token), 0) != (ssize_t)sizeof(target->token))
		return why_say(why, "random numbers: %m");
	if (!memory_open(&target->memory, memory, overwrite, load_target_size(load), why))
		return false;
	if (op_kinds[load->op].reads_target)
		fill(target);

	target->conns = calloc(load->connections, sizeof(*target->conns));
	if (target->conns == NULL)
		why_say(why, "out of memory");
	if (target->conns == NULL || !register_memory(target, peer, why)) {
		target_close(target);
		return false;
	}
	return true;
}

int
target_receive(const struct target *target, uint32_t conn, uint64_t sequence)
{
	const struct load *load = &target->load;
	const void *context = (const void *)(uintptr_t)(sequence + 1);
	/* a write with immediate data places the data itself */
	if (load->op == OP_WRITE_WITH_IMM || !op_kinds[load->op].needs_receives)
		return rpma_recv(target->conns[conn].conn, NULL, 0, 0, context);
	uint64_t offset = conn * load_target_share(load) + sequence % load->depth * load_target_stride(load);
	return rpma_recv(target->conns[conn].conn, target->mr, offset, load->size, context);
}

int
target_answer(const struct target *target, uint32_t conn, uint64_t sequence)
{
	const struct load *load = &target->load;
	/* the initiator has the answer before this one in the slot, else this message would not have come */
	uint64_t slot = load->depth + sequence % load->depth;
	if (load->verify)
		pattern_fill(slot_of(target, conn, slot), load->size, pattern_answer_key(conn, sequence), 0);
	bool is_signaled = (sequence + 1) % load->signal_every == 0;
	return rpma_send(target->conns[conn].conn, target->mr,
		conn * load_target_share(load) + slot * load_target_stride(load), load->size,
		is_signaled ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR,
		(const void *)(uintptr_t)(sequence + 1));
}

/* ---- connections ---- */

static bool
new_config(const struct load *load, struct rpma_conn_cfg **cfg_ptr, char why[static WHY_MAX])
{
	struct rpma_conn_cfg *cfg = NULL;
	/* a queue has room for one at least */
	uint32_t receives = op_receives(load) ? op_receives(load) : 1;
	uint32_t sends = op_kinds[load->op].is_answered ? op_sends(load) : 1;
	if (rpma_conn_cfg_new(&cfg))
		return why_rpma(why, "configuring a connection");
	if (rpma_conn_cfg_set_rq_size(cfg, receives) || rpma_conn_cfg_set_cq_size(cfg, receives + sends) ||
		rpma_conn_cfg_set_sq_size(cfg, sends)) {
		why_rpma(why, "configuring a connection");
		(void)rpma_conn_cfg_delete(&cfg);
		return false;
	}
	*cfg_ptr = cfg;
	return true;
}

/* finds the connection of the step that a request is for; false if it is not an expected one */
static bool
check_ticket(const struct target *target, const struct rpma_conn_req *req, uint32_t *index)
{
	struct rpma_conn_private_data data;
	struct target_ticket ticket;
	/* hardware pads with zeros, so there may be more bytes */
	if (rpma_conn_req_get_private_data(req, &data) || data.len < sizeof(ticket))
		return false;
	memcpy(&ticket, data.ptr, sizeof(ticket));
	*index = le32toh(ticket.index);
	return le64toh(ticket.token) == target->token && *index < target->load.connections &&
		target->conns[*index].conn == NULL;
}

/* one byte with the length of the memory's descriptor, the descriptor, then that of the configuration */
static bool
describe(const struct target *target, bool direct_write, uint8_t bytes[static UINT8_MAX], uint8_t *len,
	char why[static WHY_MAX])
{
	struct rpma_peer_cfg *pcfg = NULL;
	size_t mr_len, pcfg_len;
	bool good = rpma_peer_cfg_new(&pcfg) == 0 &&
		rpma_peer_cfg_set_direct_write_to_pmem(pcfg, direct_write) == 0 &&
		rpma_mr_get_descriptor_size(target->mr, &mr_len) == 0 &&
		rpma_peer_cfg_get_descriptor_size(pcfg, &pcfg_len) == 0 && mr_len <= MR_DESCRIPTOR_MAX &&
		1 + mr_len + pcfg_len <= UINT8_MAX && rpma_mr_get_descriptor(target->mr, bytes + 1) == 0 &&
		rpma_peer_cfg_get_descriptor(pcfg, bytes + 1 + mr_len) == 0;
	if (good) {
		bytes[0] = (uint8_t)mr_len;
		*len = (uint8_t)(1 + mr_len + pcfg_len);
	}
	if (pcfg)
		(void)rpma_peer_cfg_delete(&pcfg);
	return good ? true : why_rpma(why, "describing the memory");
}

static bool
accept_one(struct target *target, uint32_t index, struct rpma_conn_req *req,
	struct rpma_conn_private_data *data, char why[static WHY_MAX])
{
	struct target_conn *conn = &target->conns[index];
	enum rpma_conn_event event;
	if (rpma_conn_req_connect(&req, data, &conn->conn) || rpma_conn_get_cq(conn->conn, &conn->cq) ||
		rpma_cq_get_fd(conn->cq, &conn->cq_fd))
		return why_rpma(why, "accepting a connection");

	/* posted before GO, so they are there when the first message comes */
	for (uint32_t i = 0; i < op_receives(&target->load); i++)
		if (target_receive(target, index, i))
			return why_rpma(why, "posting a receive");
	if (rpma_conn_next_event_timed(conn->conn, ACCEPT_TIMEOUT_MS, &event))
		return why_rpma(why, "accepting a connection");
	if (event != RPMA_CONN_ESTABLISHED)
		return why_say(why, "accepting a connection: %s", rpma_utils_conn_event_2str(event));
	conn->is_established = true;
	target->connected++;
	return true;
}

/* true if nothing has arrived, as expected now: else the client has ended or breaks the protocol */
static bool
is_quiet(int control_fd)
{
	struct pollfd pfd = { .fd = control_fd, .events = POLLIN };
	return poll(&pfd, 1, 0) <= 0;
}

bool
target_accept(struct target *target, struct rpma_ep *ep, bool direct_write, int control_fd,
	char why[static WHY_MAX])
{
	uint8_t bytes[UINT8_MAX];
	struct rpma_conn_private_data data = { .ptr = bytes };
	struct rpma_conn_cfg *cfg = NULL;
	if (!describe(target, direct_write, bytes, &data.len, why) || !new_config(&target->load, &cfg, why))
		return false;

	bool good = true;
	uint64_t deadline_ns = now_ns() + (uint64_t)ACCEPT_TIMEOUT_MS * 1000000;
	while (good && target->connected < target->load.connections) {
		struct rpma_conn_req *req;
		uint32_t index;
		int ret = rpma_ep_next_conn_req_timed(ep, cfg, LOOK_MS, &req);
		if (ret == RPMA_E_NO_EVENT) {
			/*
			 * message(perf, client-gone): at the server -> The client's message says why: a
			 * firewall that lets only the control port through, TLS on one side only.
			 */
			if (!is_quiet(control_fd))
				good = why_say(why, "the client has gone, or could not connect");
			else if (now_ns() > deadline_ns)
				/* message(client-gone) */
				good = why_say(why, "the client has made %u of %u connections in time",
					target->connected, target->load.connections);
		} else if (ret) {
			good = why_rpma(why, "waiting for connections");
		} else if (!check_ticket(target, req, &index)) {
			(void)rpma_conn_req_delete(&req); /* from a stranger, or from an earlier step */
		} else {
			good = accept_one(target, index, req, &data, why);
			deadline_ns = now_ns() + (uint64_t)ACCEPT_TIMEOUT_MS * 1000000;
		}
	}
	(void)rpma_conn_cfg_delete(&cfg);
	return good;
}

/* ---- verification ---- */

static bool
check_slot(struct target *target, uint32_t conn, uint64_t slot, uint64_t posted)
{
	const struct load *load = &target->load;
	const uint8_t *mem = slot_of(target, conn, slot);
	uint64_t last = load_last_in_slot(load, posted, slot), wrong;

	if (load->op == OP_COMPARE_AND_SWAP) {
		uint64_t count, expected = last / load->depth + 1;
		memcpy(&count, mem, sizeof(count));
		if (count == expected)
			return true;
		snprintf(target->first_wrong, sizeof(target->first_wrong),
			"slot %" PRIu64 " of connection %u counts %" PRIu64 " and not %" PRIu64, slot, conn,
			count, expected);
		return false;
	}
	if (pattern_check(mem, load->size, pattern_key(conn, last), 0, &wrong))
		return true;
	snprintf(target->first_wrong, sizeof(target->first_wrong),
		"slot %" PRIu64 " of connection %u, last written by operation %" PRIu64
		", differs from offset %" PRIu64 " on",
		slot, conn, last, wrong);
	return false;
}

uint64_t
target_verify(struct target *target, const uint64_t *posted)
{
	const struct load *load = &target->load;
	uint64_t wrong = 0;
	if (!op_kinds[load->op].fills_target && load->op != OP_COMPARE_AND_SWAP)
		return 0;
	/* backwards, so that the remaining sentence is about the first wrong slot */
	for (uint32_t conn = load->connections; conn-- > 0;) {
		uint64_t slots = posted[conn] < load->depth ? posted[conn] : load->depth;
		for (uint64_t slot = slots; slot-- > 0;)
			wrong += !check_slot(target, conn, slot, posted[conn]);
	}
	return wrong;
}

void
target_disconnect(const struct target *target)
{
	for (uint32_t i = 0; i < target->load.connections; i++)
		if (target->conns[i].is_established)
			(void)rpma_conn_disconnect(target->conns[i].conn);
}

void
target_close(struct target *target)
{
	for (uint32_t i = 0; target->conns && i < target->load.connections; i++) {
		if (target->conns[i].is_established)
			(void)rpma_conn_disconnect(target->conns[i].conn);
		(void)rpma_conn_delete(&target->conns[i].conn);
	}
	free(target->conns);
	(void)rpma_mr_dereg(&target->mr);
	memory_close(&target->memory);
	*target = (struct target){ .memory.fd = -1 };
}
