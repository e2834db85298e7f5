/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* initiator.c -- the client's connections of one step */

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "initiator.h"
#include "op.h"
#include "pattern.h"
#include "target.h"

#define ESTABLISH_TIMEOUT_MS 10000

/* ---- local memory ---- */

static void
lay_out(struct initiator *initiator)
{
	const struct load *load = &initiator->load;
	initiator->piece_size = (load->size + load->pieces - 1) / load->pieces;
	/* segments lie apart, as those of a program do */
	uint64_t gap = load->pieces > 1 ? LOAD_LINE : 0;
	initiator->piece_stride = (initiator->piece_size + gap + LOAD_LINE - 1) / LOAD_LINE * LOAD_LINE;
	initiator->slot_stride = initiator->piece_stride * load->pieces;
}

uint64_t
initiator_slot(const struct lane *lane, uint64_t sequence)
{
	const struct initiator *initiator = lane->initiator;
	uint64_t slot = (uint64_t)lane->index * initiator->load.depth + sequence % initiator->load.depth;
	return slot * initiator->slot_stride;
}

/* the slots of the answers follow those of the operations */
static uint64_t
answer_slot(const struct lane *lane, uint64_t sequence)
{
	const struct initiator *initiator = lane->initiator;
	uint64_t slots = (uint64_t)initiator->load.connections * initiator->load.depth;
	return slots * initiator->slot_stride + initiator_slot(lane, sequence);
}

/* the length in bytes of segment number i of a slot; 0 if the operation does not reach it */
static uint64_t
piece_len(const struct initiator *initiator, uint32_t i)
{
	uint64_t before = i * initiator->piece_size;
	if (before >= initiator->load.size)
		return 0;
	uint64_t left = initiator->load.size - before;
	return left < initiator->piece_size ? left : initiator->piece_size;
}

void
initiator_stamp(const struct lane *lane, uint64_t sequence)
{
	const struct initiator *initiator = lane->initiator;
	uint8_t *slot = initiator->mem + initiator_slot(lane, sequence);
	for (uint32_t i = 0; i < initiator->load.pieces; i++)
		pattern_fill(slot + i * initiator->piece_stride, piece_len(initiator, i),
			pattern_key(lane->index, sequence), i * initiator->piece_size);
}

void
initiator_clear(const struct lane *lane, uint64_t sequence)
{
	memset(lane->initiator->mem + initiator_slot(lane, sequence), 0, lane->initiator->slot_stride);
}

int
initiator_receive(const struct lane *lane, uint64_t sequence)
{
	const struct initiator *initiator = lane->initiator;
	uint64_t slot = answer_slot(lane, sequence);
	if (initiator->load.verify) /* so that an answer can be told from an earlier one */
		memset(initiator->mem + slot, 0, initiator->slot_stride);
	return rpma_recv(lane->conn, initiator->mr, slot, initiator->load.size,
		(const void *)(uintptr_t)(sequence + 1));
}

/* true if the answer to the operation is right */
static bool
check_answer(const struct lane *lane, uint64_t sequence, char why[static WHY_MAX])
{
	const struct initiator *initiator = lane->initiator;
	uint64_t wrong;
	if (pattern_check(initiator->mem + answer_slot(lane, sequence), initiator->load.size,
		    pattern_answer_key(lane->index, sequence), 0, &wrong))
		return true;
	return why_say(why,
		"the answer to message %" PRIu64 " of connection %u is wrong from offset %" PRIu64 " on",
		sequence, lane->index, wrong);
}

bool
initiator_check(const struct lane *lane, uint64_t sequence, char why[static WHY_MAX])
{
	const struct initiator *initiator = lane->initiator;
	const uint8_t *slot = initiator->mem + initiator_slot(lane, sequence);
	const struct op_kind *kind = &op_kinds[initiator->load.op];

	if (initiator->load.op == OP_COMPARE_AND_SWAP) {
		uint64_t found, expected = sequence / initiator->load.depth;
		memcpy(&found, slot, sizeof(found));
		if (found != expected)
			return why_say(why,
				"%s %" PRIu64 " of connection %u found %" PRIu64 " and not %" PRIu64,
				kind->name, sequence, lane->index, found, expected);
		return true;
	}
	if (kind->is_answered)
		return check_answer(lane, sequence, why);
	for (uint32_t i = 0; kind->reads_target && i < initiator->load.pieces; i++) {
		uint64_t wrong;
		/* each slot of the target holds the pattern of the first operation that uses it */
		uint64_t key = pattern_key(lane->index, sequence % initiator->load.depth);
		if (!pattern_check(slot + i * initiator->piece_stride, piece_len(initiator, i), key,
			    i * initiator->piece_size, &wrong))
			return why_say(why,
				"%s %" PRIu64 " of connection %u brought a wrong byte at offset %" PRIu64,
				kind->name, sequence, lane->index, wrong);
	}
	return true;
}

static bool
open_memory(struct initiator *initiator, char why[static WHY_MAX])
{
	const struct load *load = &initiator->load;
	uint64_t slots = (uint64_t)load->connections * (load->depth + op_answers(load));
	lay_out(initiator);
	if (slots > SIZE_MAX / 2 / initiator->slot_stride)
		return why_say(why,
			"--connections, --depth and --size together need more memory than can be addressed");

	initiator->mem_size = slots * initiator->slot_stride;
	initiator->mem = aligned_alloc(LOAD_LINE, initiator->mem_size);
	if (initiator->mem == NULL)
		return why_say(why, "%zu bytes of memory: %m", initiator->mem_size);
	memset(initiator->mem, 0, initiator->mem_size); /* touches the pages before the clock runs */
	if (rpma_mr_reg(initiator->peer, initiator->mem, initiator->mem_size,
		    RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND |
			    RPMA_MR_USAGE_RECV,
		    &initiator->mr))
		return why_rpma(why, "registering memory");
	return true;
}

/* ---- connections ---- */

static bool
new_config(const struct load *load, struct rpma_conn_cfg **cfg_ptr, char why[static WHY_MAX])
{
	struct rpma_conn_cfg *cfg = NULL;
	const uint32_t sends = op_sends(load), answers = op_answers(load);
	if (rpma_conn_cfg_new(&cfg))
		return why_rpma(why, "configuring a connection");
	bool good = rpma_conn_cfg_set_sq_size(cfg, sends) == 0 &&
		rpma_conn_cfg_set_cq_size(cfg, sends + answers) == 0 &&
		rpma_conn_cfg_set_rq_size(cfg, answers ? answers : 1) == 0 &&
		rpma_conn_cfg_set_max_sge(cfg, load->pieces) == 0 &&
		rpma_conn_cfg_set_connect_timeout(cfg, ESTABLISH_TIMEOUT_MS) == 0;
	if (good && load->inline_size > 0)
		good = rpma_conn_cfg_set_inline_size(cfg, load->inline_size) == 0;
	if (!good) {
		why_rpma(why, "configuring a connection");
		(void)rpma_conn_cfg_delete(&cfg);
		return false;
	}
	*cfg_ptr = cfg;
	return true;
}

/* takes the target's memory, and how it writes to persistent memory, from the acceptance */
static bool
take_target(struct lane *lane, char why[static WHY_MAX])
{
	const struct load *load = &lane->initiator->load;
	struct rpma_conn_private_data data;
	if (rpma_conn_get_private_data(lane->conn, &data))
		return why_rpma(why, "the target's memory");

	/*
	 * One byte with the length of the memory's descriptor, the descriptor, then that of the configuration
	 */
	const uint8_t *bytes = data.ptr;
	if (data.len < 2 || bytes[0] > data.len - 1)
		return why_say(why, "the target does not describe its memory as it should");
	const size_t mr_len = bytes[0], rest = data.len - 1 - mr_len;
	struct rpma_peer_cfg *pcfg = NULL;
	if (rpma_mr_remote_from_descriptor(bytes + 1, mr_len, &lane->dst) ||
		rpma_peer_cfg_from_descriptor(bytes + 1 + mr_len, rest, &pcfg) ||
		rpma_conn_apply_remote_peer_cfg(lane->conn, pcfg)) {
		why_rpma(why, "the target's memory");
		if (pcfg)
			(void)rpma_peer_cfg_delete(&pcfg);
		return false;
	}
	(void)rpma_peer_cfg_delete(&pcfg);

	size_t size;
	int flush = 0;
	if (rpma_mr_remote_get_size(lane->dst, &size) || rpma_mr_remote_get_flush_type(lane->dst, &flush))
		return why_rpma(why, "the target's memory");
	if (size / load->connections < load_target_share(load))
		return why_say(why, "the target has %zu bytes of memory, which is less than this needs",
			size);
	int wanted = load->flush_type == RPMA_FLUSH_TYPE_PERSISTENT ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
								    : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	if (op_kinds[load->op].flushes && !(flush & wanted))
		return why_say(why, "the target's memory cannot be flushed to %s",
			load->flush_type == RPMA_FLUSH_TYPE_PERSISTENT
				? "persistence: give the server a file or persistent memory by --memory"
				: "visibility");
	return true;
}

static bool
connect_lane(struct lane *lane, const char *addr, const struct control_ready *ready,
	const struct rpma_conn_cfg *cfg, char why[static WHY_MAX])
{
	struct initiator *initiator = lane->initiator;
	struct target_ticket ticket = { htole64(ready->token), htole32(lane->index), 0 };
	struct rpma_conn_private_data data = { .ptr = &ticket, .len = sizeof(ticket) };
	struct rpma_conn_req *req;
	enum rpma_conn_event event;
	char port[8];
	snprintf(port, sizeof(port), "%u", ready->port);

	lane->since = calloc(initiator->load.depth, sizeof(*lane->since));
	if (lane->since == NULL)
		return why_say(why, "out of memory");
	if (rpma_conn_req_new(initiator->peer, addr, port, cfg, &req) ||
		rpma_conn_req_connect(&req, &data, &lane->conn) || rpma_conn_next_event(lane->conn, &event))
		return why_rpma(why, "connecting to the target");
	if (event != RPMA_CONN_ESTABLISHED)
		return why_say(why, "connecting to %s port %s: %s", addr, port,
			rpma_utils_conn_event_2str(event));
	lane->is_established = true;
	if (!take_target(lane, why))
		return false;
	if (rpma_conn_get_cq(lane->conn, &lane->cq) || rpma_cq_get_fd(lane->cq, &lane->cq_fd))
		return why_rpma(why, "the completion queue");
	for (uint32_t i = 0; i < op_answers(&initiator->load); i++)
		if (initiator_receive(lane, i))
			return why_rpma(why, "posting a receive");
	return true;
}

bool
initiator_open(struct initiator *initiator, const struct load *load, struct rpma_peer *peer, const char *addr,
	const struct control_ready *ready, char why[static WHY_MAX])
{
	*initiator = (struct initiator){ .load = *load, .peer = peer };
	struct rpma_conn_cfg *cfg = NULL;
	if (!open_memory(initiator, why))
		goto err_close;
	initiator->lanes = calloc(load->connections, sizeof(*initiator->lanes));
	if (initiator->lanes == NULL) {
		why_say(why, "out of memory");
		goto err_close;
	}
	if (!new_config(load, &cfg, why))
		goto err_close;

	bool good = true;
	for (uint32_t i = 0; good && i < load->connections; i++) {
		initiator->lanes[i].initiator = initiator;
		initiator->lanes[i].index = i;
		good = connect_lane(&initiator->lanes[i], addr, ready, cfg, why);
	}
	(void)rpma_conn_cfg_delete(&cfg);
	if (good)
		return true;

err_close:
	initiator_close(initiator);
	return false;
}

void
initiator_disconnect(const struct initiator *initiator)
{
	for (uint32_t i = 0; i < initiator->load.connections; i++)
		if (initiator->lanes[i].is_established)
			(void)rpma_conn_disconnect(initiator->lanes[i].conn);
}

void
initiator_close(struct initiator *initiator)
{
	for (uint32_t i = 0; initiator->lanes && i < initiator->load.connections; i++) {
		struct lane *lane = &initiator->lanes[i];
		if (lane->is_established)
			(void)rpma_conn_disconnect(lane->conn);
		(void)rpma_conn_delete(&lane->conn);
		(void)rpma_mr_remote_delete(&lane->dst);
		free(lane->since);
	}
	free(initiator->lanes);
	(void)rpma_mr_dereg(&initiator->mr);
	free(initiator->mem);
	*initiator = (struct initiator){ 0 };
}
