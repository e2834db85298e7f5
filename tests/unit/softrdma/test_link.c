/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_link.c -- two links joined by a stream in memory, which is cut at random, at each position, or into
 * single bytes
 *
 * TCP can do nothing to a stream of bytes but cut it, so a scenario must have the same result for any cuts.
 * There are no sockets, threads or clocks. A FLUSH completes at once, with the error that the test sets.
 */

#include "fixture.h"
#include "softrdma/base/valgrind.h"

#define SEGMENT SOFTRDMA_SEGMENT_MAX
#define STREAM_SIZE (8u << 20)
#define EVERYTHING ((size_t)-1)

struct stream {
	uint8_t *bytes;
	size_t begin, end; /* of the bytes in transit; positions count from the start of the connection */
};

struct pair {
	struct side side[2];
	struct stream to[2]; /* to[i] goes to side[i] */
	uint64_t random;     /* 0: no random cuts */
	size_t cut;          /* in each direction, a part ends at this position */
	size_t piece_max;
	int flush_error;
	int ready[2], disconnected[2];
	bool broken[2]; /* side i has found a protocol error of the other one */
	bool hold[2];   /* side i does not receive the bytes in transit */
	bool ended[2];  /* side i has seen the end of the stream */
};

static void
told_ready(struct softrdma_link *link, void *arg)
{
	(void)link;
	++*(int *)arg;
}

static struct pair *the_pair; /* of the running test */

static void
told_disconnected(struct softrdma_link *link, void *arg)
{
	(void)arg;
	the_pair->disconnected[link == the_pair->side[1].link]++;
}

static const struct softrdma_link_ops ops = { .ready = told_ready, .disconnected = told_disconnected };

static bool by_copy; /* for all links: as if their stream were encrypted */

static struct pair *
new_pair(void)
{
	quieten();
	struct pair *p = calloc(1, sizeof(*p));
	assert_non_null(p);
	the_pair = p;
	p->piece_max = EVERYTHING;
	p->cut = EVERYTHING;
	for (int i = 0; i < 2; i++) {
		side_init(&p->side[i], 256, ALL_RIGHTS | SOFTRDMA_ACCESS_FLUSH_PERSISTENT, 64);
		p->to[i].bytes = malloc(STREAM_SIZE);
		p->side[i].link->seq = UINT32_MAX - 2 + (uint32_t)i;
		p->side[i].link->by_copy = by_copy;
		p->side[i].link->ops = &ops;
		p->side[i].link->ops_arg = &p->ready[i];
	}
	for (int i = 0; i < 2; i++)
		softrdma_link_start(p->side[i].link, p->side[!i].link->seq, 4, 4);
	return p;
}

static void
free_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		side_fini(&p->side[i]);
		free(p->to[i].bytes);
	}
	free(p);
}

static size_t
smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* number of bytes that move at once, of those available at this position of a stream */
static size_t
next_piece(struct pair *p, size_t position, size_t available)
{
	size_t len = smaller(available, p->piece_max);
	if (position < p->cut)
		len = smaller(len, p->cut - position);
	if (p->random && len > 1) {
		p->random ^= p->random << 13;
		p->random ^= p->random >> 7;
		p->random ^= p->random << 17;
		/* mostly short, sometimes very long */
		size_t scale = p->random & 1 ? 64 : p->random & 2 ? 20000 : len;
		len = 1 + (size_t)((p->random >> 8) % smaller(len, scale));
	}
	return len;
}

/* one sendmsg() of a part of the batch; false if there is nothing to send */
static bool
send_some(struct pair *p, int from)
{
	struct softrdma_link *link = p->side[from].link;
	struct stream *s = &p->to[!from];
	if (!softrdma_link_tx_fill(link))
		return false;
	size_t available = 0;
	for (unsigned i = link->tx.first; i < link->tx.count; i++)
		available += link->tx.iov[i].iov_len;
	size_t len = next_piece(p, s->end, available);
	size_t left = len;
	if (link->by_copy) {
		assert_true(s->end + len <= STREAM_SIZE);
		assert_int_equal(softrdma_link_tx_copy(link, s->bytes + s->end, len), len);
		s->end += len;
		left = 0;
	}
	for (unsigned i = link->tx.first; left > 0; i++) {
		size_t n = smaller(left, link->tx.iov[i].iov_len);
		assert_true(s->end + n <= STREAM_SIZE);
		memcpy(s->bytes + s->end, link->tx.iov[i].iov_base, n);
		s->end += n;
		left -= n;
	}
	softrdma_link_tx_done(link, len);
	return true;
}

static uint8_t *lost_at_flush; /* NULL, or the page that becomes read-only while a flush runs */

static void
lose(uint8_t *page)
{
	assert_int_equal(mprotect(page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ), 0);
}

static void
look_again_after_flush(struct pair *p, int at)
{
	if (lost_at_flush && softrdma_responder_is_flushing(&p->side[at].link->responder))
		lose(lost_at_flush);
	struct softrdma_link *link = p->side[at].link;
	while (!p->broken[at] && softrdma_responder_is_flushing(&link->responder)) {
		struct iovec iov[SOFTRDMA_SGE_MAX + 1];
		assert_int_equal(softrdma_link_rx_iov(link, iov), 0);
		softrdma_responder_flushed(&link->responder, p->flush_error);
		p->broken[at] = !softrdma_link_rx_go_on(link);
	}
}

/* one recvmsg(); false if nothing has arrived */
static bool
receive_some(struct pair *p, int at)
{
	struct softrdma_link *link = p->side[at].link;
	struct stream *s = &p->to[at];
	if (s->begin == s->end || p->broken[at] || p->hold[at])
		return false;
	struct iovec iov[SOFTRDMA_SGE_MAX + 1];
	int count = softrdma_link_rx_iov(link, iov);
	assert_true(count > 0);
	size_t room = 0;
	for (int i = 0; i < count; i++)
		room += iov[i].iov_len;
	size_t len = next_piece(p, s->begin, smaller(room, s->end - s->begin));
	size_t left = len;
	for (int i = 0; left > 0; i++) {
		size_t n = smaller(left, iov[i].iov_len);
		memcpy(iov[i].iov_base, s->bytes + s->begin, n);
		s->begin += n;
		left -= n;
	}
	p->broken[at] = !softrdma_link_rx_done(link, len);
	look_again_after_flush(p, at);
	return true;
}

/* A side that has sent its last byte shuts its direction down. The other side sees this after that byte. */
static bool
see_end(struct pair *p, int at)
{
	const struct softrdma_link *from = p->side[!at].link;
	const struct stream *s = &p->to[at];
	if (p->ended[at] || !from->fin_due || from->tx.first < from->tx.count || s->begin < s->end)
		return false;
	p->ended[at] = true;
	softrdma_link_lost(p->side[at].link);
	return true;
}

/* runs until nothing moves */
static void
run(struct pair *p)
{
	bool moved = true;
	while (moved) {
		moved = false;
		for (int i = 0; i < 2; i++) {
			moved = send_some(p, i) || moved;
			moved = receive_some(p, i) || moved;
			moved = see_end(p, i) || moved;
		}
	}
	assert_false(p->broken[0] || p->broken[1]);
}

/* like run(), but all bytes of the next batches stay in the stream */
static void
run_sender(struct pair *p, int from)
{
	while (send_some(p, from))
		;
}

/* gives the posted receives to the links that wait for one, as post.c does after a post */
static void
replenish(struct side *side)
{
	struct softrdma_link *link;
	while ((link = softrdma_recv_queue_pop_waiting(&side->recvs)) != NULL) {
		softrdma_responder_replenished(&link->responder);
		softrdma_link_put(link);
	}
}

static struct softrdma_send *
prepare_remote(struct pair *p, int from, uint8_t opcode, uint64_t wr_id, size_t local, size_t remote,
	size_t len)
{
	struct softrdma_send *send = prepare(&p->side[from], opcode, wr_id, local, len);
	send->remote_addr = addr_of(&p->side[!from], remote);
	send->key = p->side[!from].key;
	return send;
}

static void
post(struct pair *p, int from, uint8_t opcode, uint64_t wr_id, size_t local, size_t remote, size_t len)
{
	struct softrdma_send *send = prepare_remote(p, from, opcode, wr_id, local, remote, len);
	if (opcode == SOFTRDMA_OP_FLUSH) {
		send->num_sge = 0;
		send->flush_type = SOFTRDMA_FLUSH_PERSISTENT;
	}
	commit(&p->side[from]);
}

static void
expect_recv(struct side *side, uint64_t wr_id, uint32_t len, bool imm)
{
	struct ibv_wc wc;
	assert_int_equal(softrdma_cq_pop(side->recv_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.byte_len, len);
	assert_int_equal(wc.wc_flags, imm ? IBV_WC_WITH_IMM : 0);
}

/* offsets in the regions; local and remote ranges do not overlap */
#define LOCAL 0
#define REMOTE 0x10000
#define RECVS 0x20000

/* posts one request of each kind from one side; the seeds make the sides' bytes differ */
static void
post_everything(struct pair *p, int from)
{
	struct side *here = &p->side[from], *there = &p->side[!from];
	uint64_t seed = 100 * (uint64_t)(from + 1);
	pattern_fill(here->mem + LOCAL, 256, seed, 0);
	pattern_fill(there->mem + REMOTE + 256, 64, seed + 1, 0);
	*(uint64_t *)(void *)(there->mem + REMOTE + 512) = 5;
	*(uint64_t *)(void *)(there->mem + REMOTE + 520) = 7;
	post_recv(there, 1, RECVS, 0);
	struct ibv_sge sge[3] = { piece(there, RECVS, 3), piece(there, RECVS + 50, 0),
		piece(there, RECVS + 60, 60) };
	post_recv_sges(there, 2, sge, 3);
	post_recv(there, 3, RECVS + 200, 10);

	post(p, from, SOFTRDMA_OP_SEND, 1, LOCAL, 0, 0);
	struct softrdma_send *send = prepare_remote(p, from, SOFTRDMA_OP_SEND, 2, 0, 0, 40);
	send->num_sge = 3;
	send->sge[0] = piece(here, LOCAL, 17);
	send->sge[1] = piece(here, LOCAL + 99, 0);
	send->sge[2] = piece(here, LOCAL + 17, 23);
	send->has_imm = send->solicited = true;
	send->imm = 0x01020304;
	commit(here);
	post(p, from, SOFTRDMA_OP_WRITE, 3, LOCAL, REMOTE, 100);
	post(p, from, SOFTRDMA_OP_READ, 4, LOCAL + 300, REMOTE + 256, 33);
	send = prepare_remote(p, from, SOFTRDMA_OP_WRITE, 5, LOCAL + 100, REMOTE + 100, 28);
	send->has_imm = true;
	send->imm = 9;
	commit(here);
	post(p, from, SOFTRDMA_OP_FLUSH, 6, 0, REMOTE, 128);
	send = prepare_remote(p, from, SOFTRDMA_OP_COMPARE_SWAP, 7, LOCAL + 400, REMOTE + 512, 8);
	send->operand[0] = 5;
	send->operand[1] = 6;
	commit(here);
	send = prepare_remote(p, from, SOFTRDMA_OP_FETCH_ADD, 8, LOCAL + 408, REMOTE + 520, 8);
	send->operand[0] = 10;
	commit(here);
	send = prepare_remote(p, from, SOFTRDMA_OP_ATOMIC_WRITE, 9, 0, REMOTE + 528, 8);
	memcpy(send->operand, "ABCDEFGH", 8);
	commit(here);
	send = prepare_remote(p, from, SOFTRDMA_OP_WRITE, 10, 0, REMOTE + 600, 6);
	send->is_inline = true;
	send->num_sge = 0;
	memcpy(send->inline_data, "inline", 6);
	commit(here);
	send = prepare_remote(p, from, SOFTRDMA_OP_READ, 11, 0, REMOTE + 600, 6);
	send->fenced = true;
	send->num_sge = 2;
	send->sge[0] = piece(here, LOCAL + 500, 2);
	send->sge[1] = piece(here, LOCAL + 510, 4);
	commit(here);
	post(p, from, SOFTRDMA_OP_WRITE, 12, 0, REMOTE, 0);
	post(p, from, SOFTRDMA_OP_READ, 13, 0, REMOTE, 0);
	post(p, from, SOFTRDMA_OP_FLUSH, 14, 0, REMOTE, 0);
}

static void
check_everything(struct pair *p, int from)
{
	struct side *here = &p->side[from], *there = &p->side[!from];
	uint64_t seed = 100 * (uint64_t)(from + 1);
	for (uint64_t i = 1; i <= 14; i++)
		expect_wc(here->send_cq, i, IBV_WC_SUCCESS);
	expect_no_wc(here->send_cq);
	expect_recv(there, 1, 0, false);
	expect_recv(there, 2, 40, true);
	expect_recv(there, 3, 28, true);
	expect_no_wc(there->recv_cq);
	assert_int_equal(pattern_check(there->mem + RECVS, 3, seed, 0), -1);
	assert_int_equal(pattern_check(there->mem + RECVS + 60, 37, seed, 3), -1);
	assert_int_equal(pattern_check_byte(there->mem + RECVS + 97, 100, 0), -1);
	assert_int_equal(pattern_check(there->mem + REMOTE, 128, seed, 0), -1);
	assert_int_equal(pattern_check_byte(there->mem + REMOTE + 128, 128, 0), -1);
	assert_int_equal(pattern_check(here->mem + LOCAL + 300, 33, seed + 1, 0), -1);
	assert_int_equal(here->mem[LOCAL + 333], 0);
	assert_int_equal(*(uint64_t *)(void *)(here->mem + LOCAL + 400), 5);
	assert_int_equal(*(uint64_t *)(void *)(here->mem + LOCAL + 408), 7);
	assert_int_equal(*(uint64_t *)(void *)(there->mem + REMOTE + 512), 6);
	assert_int_equal(*(uint64_t *)(void *)(there->mem + REMOTE + 520), 17);
	assert_memory_equal(there->mem + REMOTE + 528, "ABCDEFGH", 8);
	assert_memory_equal(here->mem + LOCAL + 500, "in", 3);
	assert_memory_equal(here->mem + LOCAL + 510, "line", 5);
}

/* resets the pair, which is cheaper than making a new one */
static void
clear(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		memset(p->side[i].mem, 0, 0x30000);
		assert_int_equal(p->to[i].begin, p->to[i].end);
		p->to[i].begin = p->to[i].end = 0;
	}
}

static size_t
everything_both_ways(struct pair *p)
{
	post_everything(p, 0);
	post_everything(p, 1);
	run(p);
	check_everything(p, 0);
	check_everything(p, 1);
	size_t length = p->to[0].end > p->to[1].end ? p->to[0].end : p->to[1].end;
	clear(p);
	return length;
}

static void
test_everything(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	size_t length = everything_both_ways(p);
	assert_in_range(length, 500, 4000);
	for (p->cut = 1; p->cut < length; p->cut++)
		everything_both_ways(p);
	p->cut = EVERYTHING;
	for (p->piece_max = 1; p->piece_max < 80; p->piece_max++)
		everything_both_ways(p);
	p->piece_max = EVERYTHING;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		p->random = seed * 0x9e3779b97f4a7c15u;
		everything_both_ways(p);
	}
	free_pair(p);
}

/* messages of many frames in both directions, between lists of SGEs of any length */
static void
test_long_messages(void **state)
{
	(void)state;
	static const size_t lengths[] = { SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 7 };
	for (uint64_t round = 0; round < 24; round++) {
		struct pair *p = new_pair();
		size_t len = lengths[round % 4];
		p->random = round < 4 ? 0 : round * 0x9e3779b97f4a7c15u;
		for (int i = 0; i < 2; i++) {
			struct side *here = &p->side[i];
			pattern_fill(here->mem, len, 7 + (uint64_t)i, 0);
			struct ibv_sge sge[2] = { piece(here, 1 << 20, SEGMENT / 2 + 1),
				piece(here, 2 << 20, len) };
			post_recv_sges(here, 1, sge, 2);
			struct softrdma_send *send = prepare_remote(p, i, SOFTRDMA_OP_SEND, 1, 0, 0, len);
			send->num_sge = 3;
			send->sge[0] = piece(here, 0, 5);
			send->sge[1] = piece(here, 5, len - 10);
			send->sge[2] = piece(here, len - 5, 5);
			commit(here);
			post(p, i, SOFTRDMA_OP_WRITE, 2, 0, 3 << 20, len);
		}
		run(p);
		for (int i = 0; i < 2; i++) {
			struct side *here = &p->side[i];
			uint64_t seed = 7 + (uint64_t)!i;
			size_t head = SEGMENT / 2 + 1;
			expect_recv(here, 1, (uint32_t)len, false);
			expect_wc(here->send_cq, 1, IBV_WC_SUCCESS);
			expect_wc(here->send_cq, 2, IBV_WC_SUCCESS);
			assert_int_equal(pattern_check(here->mem + (1 << 20), head, seed, 0), -1);
			assert_int_equal(pattern_check(here->mem + (2 << 20), len - head, seed, head), -1);
			assert_int_equal(pattern_check(here->mem + (3 << 20), len, seed, 0), -1);
			post(p, i, SOFTRDMA_OP_READ, 3, 1 << 20, 0, len);
		}
		run(p);
		for (int i = 0; i < 2; i++) {
			expect_wc(p->side[i].send_cq, 3, IBV_WC_SUCCESS);
			assert_int_equal(pattern_check(p->side[i].mem + (1 << 20), len, 7 + (uint64_t)!i, 0),
				-1);
		}
		free_pair(p);
	}
}

/*
 * There is no receive in the middle of a pipeline of all requests. It goes on when there is one, and no byte
 * is lost or doubled.
 */
static void
test_not_ready(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct pair *p = new_pair();
		p->random = seed * 0x9e3779b97f4a7c15u;
		struct side *here = &p->side[0], *there = &p->side[1];
		bool is_write = seed & 1;
		size_t len = seed % 3 ? 100 : 2 * SEGMENT + 3;
		pattern_fill(here->mem, len, seed, 0);
		pattern_fill(there->mem, 3 * SEGMENT, seed + 1000, 0);
		post(p, 0, SOFTRDMA_OP_READ, 1, 1 << 20, 0, 2 * SEGMENT);
		struct softrdma_send *send = prepare_remote(p, 0,
			is_write ? SOFTRDMA_OP_WRITE : SOFTRDMA_OP_SEND, 2, 0, 1 << 20, len);
		send->has_imm = is_write;
		commit(here);
		send = prepare_remote(p, 0, SOFTRDMA_OP_FETCH_ADD, 3, 3 << 20, 3 << 20, 8);
		send->operand[0] = 1;
		commit(here);
		post(p, 0, SOFTRDMA_OP_READ, 4, 2 << 20, 0, 3);
		send = prepare_remote(p, 0, SOFTRDMA_OP_SEND, 5, 0, 0, 3);
		send->fenced = true;
		commit(here);
		post(p, 1, SOFTRDMA_OP_READ, 1, 2 << 20, 0, 50); /* the other direction is not held up */
		run(p);
		expect_wc(here->send_cq, 1, IBV_WC_SUCCESS);
		expect_no_wc(here->send_cq);
		expect_wc(there->send_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(*(uint64_t *)(void *)(there->mem + (3 << 20)), 0);
		assert_true(here->link->requester.waiting);

		post_recv(there, 1, is_write ? 0 : 1 << 20, is_write ? 0 : len);
		replenish(there);
		run(p);
		for (uint64_t i = 2; i <= 4; i++)
			expect_wc(here->send_cq, i, IBV_WC_SUCCESS);
		expect_no_wc(here->send_cq);
		expect_recv(there, 1, (uint32_t)len, is_write);
		post_recv(there, 2, (3 << 20) + 64, 3);
		replenish(there);
		run(p);
		expect_wc(here->send_cq, 5, IBV_WC_SUCCESS);
		expect_recv(there, 2, 3, false);
		assert_int_equal(pattern_check(there->mem + (1 << 20), len, seed, 0), -1);
		assert_int_equal(pattern_check(here->mem + (1 << 20), 2 * SEGMENT, seed + 1000, 0), -1);
		assert_int_equal(pattern_check(here->mem + (2 << 20), 3, seed + 1000, 0), -1);
		assert_int_equal(*(uint64_t *)(void *)(there->mem + (3 << 20)), 1); /* executed once */
		free_pair(p);
	}
}

/*
 * The responder's queue pair goes to error while the requester waits for a receive. The requester must get no
 * more than an error status. The reason is a failed request of the responder's side with nothing else to
 * send, or an outside event.
 */
static void
test_failure_while_not_ready(void **state)
{
	(void)state;
	for (int variant = 0; variant < 4; variant++) {
		const bool replenished = variant & 1, by_request = variant & 2;
		struct pair *p = new_pair();
		post(p, 0, SOFTRDMA_OP_SEND, 1, 0, 0, 8);
		run(p);
		if (replenished) {
			post_recv(&p->side[1], 1, 0, 8);
			replenish(&p->side[1]);
			p->hold[1] = true;
			run(p);
			p->hold[1] = false;
		}
		if (by_request) {
			prepare_remote(p, 1, SOFTRDMA_OP_WRITE, 2, 0, 0, 8)->sge[0].lkey ^= 1;
			commit(&p->side[1]);
		} else {
			softrdma_link_fail(p->side[1].link, IBV_WC_WR_FLUSH_ERR);
		}
		run(p);
		expect_wc(p->side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		if (by_request)
			expect_wc(p->side[1].send_cq, 2, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(p->side[0].link->state, SOFTRDMA_LINK_UP);
		if (replenished)
			expect_wc(p->side[1].recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		free_pair(p);
	}
}

/*
 * for each remote error: its status; all later requests are flushed, in order and once; memory is unchanged
 */
static void
test_remote_errors(void **state)
{
	(void)state;
	enum { KEY, RANGE, ALIGNMENT, TOO_LONG, NO_MEMORY, FLUSH, CASES };
	static const int status[CASES] = { IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
		IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR };
	for (uint64_t round = 0; round < CASES * 20; round++) {
		struct pair *p = new_pair();
		struct side *here = &p->side[0], *there = &p->side[1];
		int what = (int)(round % CASES);
		p->random = round < CASES ? 0 : round * 0x9e3779b97f4a7c15u;
		pattern_fill(here->mem, 3 * SEGMENT, 1, 0);
		post_recv(there, 1, 2 << 20, 10);
		if (what == NO_MEMORY)
			there->recvs.ring[0].sge[0].lkey ^= 1;
		post_recv(there, 2, 2 << 20, 10);
		post(p, 0, SOFTRDMA_OP_WRITE, 1, 0, 0, 100);
		post(p, 0, SOFTRDMA_OP_READ, 2, 3 << 20, 0, 100);
		switch (what) {
		case KEY:
			prepare_remote(p, 0, SOFTRDMA_OP_WRITE, 3, 0, 1 << 20, 2 * SEGMENT)->key ^= 1;
			break;
		case RANGE:
			prepare_remote(p, 0, SOFTRDMA_OP_WRITE, 3, 0, REGION_SIZE - 2 * SEGMENT + 1,
				2 * SEGMENT);
			break;
		case ALIGNMENT:
			prepare_remote(p, 0, SOFTRDMA_OP_FETCH_ADD, 3, 0, 1004, 8);
			break;
		case FLUSH:
			p->flush_error = 5;
			prepare_remote(p, 0, SOFTRDMA_OP_FLUSH, 3, 0, 0, 8)->flush_type =
				SOFTRDMA_FLUSH_PERSISTENT;
			break;
		default:
			prepare_remote(p, 0, SOFTRDMA_OP_SEND, 3, 0, 0, what == TOO_LONG ? SEGMENT + 1 : 10);
			break;
		}
		commit(here);
		post(p, 0, SOFTRDMA_OP_WRITE, 4, 0, 500, 8);
		post(p, 0, SOFTRDMA_OP_READ, 5, 3 << 20, 0, 8);
		/* if the stream is cut, it could end in the middle of this request, and so without the NAK */
		if (p->random == 0)
			post(p, 1, SOFTRDMA_OP_WRITE, 1, 0, 500, 8);
		run(p);
		expect_wc(here->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(here->send_cq, 2, IBV_WC_SUCCESS);
		expect_wc(here->send_cq, 3, status[what]);
		expect_wc(here->send_cq, 4, IBV_WC_WR_FLUSH_ERR);
		expect_wc(here->send_cq, 5, IBV_WC_WR_FLUSH_ERR);
		post(p, 0, SOFTRDMA_OP_WRITE, 6, 0, 500, 8);
		expect_wc(here->send_cq, 6, IBV_WC_WR_FLUSH_ERR);
		expect_no_wc(here->send_cq);
		int recv_status = what == TOO_LONG ? IBV_WC_LOC_LEN_ERR
			: what == NO_MEMORY        ? IBV_WC_LOC_PROT_ERR
						   : IBV_WC_WR_FLUSH_ERR;
		expect_wc(there->recv_cq, 1, recv_status);
		expect_wc(there->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
		expect_no_wc(there->recv_cq);
		struct ibv_wc wc; /* completed, or flushed with its queue pair */
		assert_int_equal(softrdma_cq_pop(there->send_cq, 1, &wc), p->random == 0);
		expect_no_wc(there->send_cq);
		assert_int_equal(here->qp.state, IBV_QPS_ERR);
		assert_int_equal(there->qp.state, IBV_QPS_ERR);
		assert_int_equal(pattern_check(there->mem, 100, 1, 0), -1);
		assert_int_equal(pattern_check(here->mem + (3 << 20), 100, 1, 0), -1);
		assert_int_equal(pattern_check_byte(there->mem + 100, REGION_SIZE - 100, 0), -1);
		if (p->random == 0) /* a request that was sent only in part ends the stream */
			assert_int_equal(p->disconnected[0] + p->disconnected[1], 0);
		free_pair(p);
	}
}

/*
 * A batch is ready to send when the queue pair fails. Its requests are not sent, because their memory belongs
 * to the application again; the responses are. A request that was sent in part ends the stream.
 */
static void
test_failure_with_a_batch(void **state)
{
	(void)state;
	const size_t frame = SOFTRDMA_FRAME_SIZE + 100;
	for (size_t sent = 0; sent < 3 * frame + SOFTRDMA_FRAME_SIZE; sent += 3) {
		struct pair *p = new_pair();
		struct side *here = &p->side[0], *there = &p->side[1];
		pattern_fill(here->mem, 200, 1, 0);
		post(p, 1, SOFTRDMA_OP_READ, 1, 1000, 0, 100);
		post(p, 1, SOFTRDMA_OP_READ, 2, 1100, 100, 100);
		run_sender(p, 1);
		while (receive_some(p, 0))
			;
		post(p, 0, SOFTRDMA_OP_FLUSH, 1, 0, 0, 8);
		post(p, 0, SOFTRDMA_OP_WRITE, 2, 0, 2000, 100);
		assert_true(
			softrdma_link_tx_fill(here->link)); /* a response, a request, a response, a request */
		p->cut = sent;
		if (sent > 0)
			assert_true(send_some(p, 0));
		softrdma_link_fail(here->link, IBV_WC_WR_FLUSH_ERR);
		expect_wc(here->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
		expect_wc(here->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		bool first_partly = sent > frame && sent < frame + SOFTRDMA_FRAME_SIZE;
		size_t second = 2 * frame + SOFTRDMA_FRAME_SIZE;
		bool partly = first_partly || (sent > second && sent < second + frame);
		struct softrdma_tx *tx = &here->link->tx;
		assert_int_equal(here->link->fin_due, partly);
		for (unsigned i = tx->first; i < tx->count; i++)
			assert_int_equal(tx->opcode[i], SOFTRDMA_OP_READ_RESPONSE);
		for (unsigned i = tx->first; i < tx->count; i++)
			assert_ptr_equal(tx->mr[i], tx->is_header[i] ? NULL : here->mr); /* revoke finds it */
		p->cut = EVERYTHING;
		run(p);
		expect_wc(there->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(there->send_cq, 2, first_partly ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		assert_int_equal(pattern_check(there->mem + 1000, first_partly ? 100 : 200, 1, 0), -1);
		assert_int_equal(p->disconnected[1], partly);
		if (sent <= second)
			assert_int_equal(pattern_check_byte(there->mem + 2000, 100, 0), -1);
		free_pair(p);
	}
}

/* how many frames have left since the last call */
static uint32_t
received(struct pair *p, int at)
{
	const uint32_t frames = p->side[at].link->frames_received;
	p->side[at].link->frames_received = 0;
	return frames;
}

static void
send_unasked(struct pair *p, int from)
{
	prepare(&p->side[from], SOFTRDMA_OP_SEND, 5, 0, 8)->signaled = false;
	commit(&p->side[from]);
	run(p);
}

/* a message and its reply are one frame each, and the orderly end still acknowledges the last message */
static void
test_acknowledgement_travels_with_others(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	const unsigned first = SOFTRDMA_ACK_LATER_FROM;
	for (uint64_t i = 0; i < first + 4; i++) {
		post_recv(&p->side[0], i, 0, 8);
		post_recv(&p->side[1], i, 0, 8);
	}
	for (unsigned i = 0; i < first + 3; i++) {
		send_unasked(p, 0);
		/* the message, and before it the acknowledgement of the last reply; its own comes with the reply */
		assert_int_equal(received(p, 1), i > first ? 2 : 1);
		assert_int_equal(received(p, 0), i >= first ? 0 : 1);
		send_unasked(p, 1);
		assert_int_equal(received(p, 0), i >= first ? 2 : 1);
		assert_int_equal(received(p, 1), i >= first ? 0 : 1);
	}
	assert_true(softrdma_responder_ack_may_wait(&p->side[0].link->responder));
	send_unasked(p, 0);
	softrdma_link_close(p->side[1].link);
	run(p);
	expect_no_wc(p->side[0].send_cq); /* not flushed */
	for (int i = 0; i < 2; i++)
		softrdma_link_close(p->side[i].link);
	free_pair(p);
}

static void
test_ready_and_disconnect(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct pair *p = new_pair();
		p->random = seed * 0x9e3779b97f4a7c15u;
		int closer = (int)(seed & 1);
		bool both = seed & 2;
		p->side[0].link->ready_due = true;
		p->side[1].link->awaits_ready = true;
		pattern_fill(p->side[closer].mem, 1000, 1, 0);
		post_recv(&p->side[0], 1, 0, 8);
		post_recv(&p->side[1], 1, 0, 8);
		post(p, !closer, SOFTRDMA_OP_WRITE, 1, 0, 2000, 1000);
		run(p);
		assert_int_equal(p->ready[1], 1);
		assert_int_equal(p->ready[0], 0);
		expect_wc(p->side[!closer].send_cq, 1, IBV_WC_SUCCESS);

		post(p, closer, SOFTRDMA_OP_WRITE, 2, 0, 4000, 1000);
		post(p, !closer, SOFTRDMA_OP_WRITE, 3, 0, 6000, 1000);
		softrdma_link_close(p->side[closer].link);
		expect_wc(p->side[closer].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		expect_wc(p->side[closer].recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		if (both)
			softrdma_link_close(p->side[!closer].link);
		run(p);
		expect_wc(p->side[!closer].send_cq, 3, IBV_WC_WR_FLUSH_ERR);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(p->disconnected[i], 1);
			assert_int_equal(p->side[i].link->state, SOFTRDMA_LINK_DOWN);
			assert_true(p->side[i].link->fin_due);
			expect_no_wc(p->side[i].send_cq);
			softrdma_link_lost(p->side[i].link);
			assert_int_equal(p->disconnected[i], 1);
		}
		/* the side that did not disconnect keeps its receives until it does */
		if (!both) {
			expect_no_wc(p->side[!closer].recv_cq);
			softrdma_link_close(p->side[!closer].link);
		}
		expect_wc(p->side[!closer].recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		expect_no_wc(p->side[!closer].recv_cq);
		free_pair(p);
	}
}

/* after an access violation: the responses to earlier requests, then the NAK, then DISCONNECT */
static void
test_closed_after_violation(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct side *here = &p->side[0], *there = &p->side[1];
	pattern_fill(here->mem, 100, 1, 0);
	post(p, 1, SOFTRDMA_OP_READ, 1, 1000, 0, 100);
	post(p, 1, SOFTRDMA_OP_WRITE, 2, 0, REGION_SIZE - 4, 8);
	post(p, 1, SOFTRDMA_OP_WRITE, 3, 0, 0, 8);
	assert_true(send_some(p, 1));
	assert_true(receive_some(p, 0));
	assert_true(here->link->responder.access_violation);
	softrdma_link_close_after_violation(here->link);
	run(p);
	expect_wc(there->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(there->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_wc(there->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pattern_check(there->mem + 1000, 100, 1, 0), -1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(p->disconnected[i], 1);
		assert_int_equal(p->side[i].link->state, SOFTRDMA_LINK_DOWN);
	}
	free_pair(p);

	/* other refusals are no access violation, and neither is memory that disappears during a READ */
	p = new_pair();
	post(p, 1, SOFTRDMA_OP_FETCH_ADD, 1, 0, 4, 8);
	run(p);
	assert_true(softrdma_responder_has_failed(&p->side[0].link->responder));
	assert_false(p->side[0].link->responder.access_violation);
	free_pair(p);
}

/* a request of this side was sent in part: the stream ends after it, without DISCONNECT */
static void
test_closed_after_violation_in_the_middle(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct side *here = &p->side[0], *there = &p->side[1];
	post(p, 0, SOFTRDMA_OP_WRITE, 1, 0, 0, 1000);
	p->cut = 500;
	assert_true(send_some(p, 0));
	post(p, 1, SOFTRDMA_OP_WRITE, 2, 0, REGION_SIZE - 4, 8);
	assert_true(send_some(p, 1));
	assert_true(receive_some(p, 0));
	softrdma_link_close_after_violation(here->link);
	p->cut = EVERYTHING;
	run(p);
	expect_wc(here->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(there->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	free_pair(p);
}

static void
test_lost(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct side *here = &p->side[0];
	post_recv(here, 1, 0, 8);
	for (uint64_t i = 0; i < 3; i++)
		post(p, 0, SOFTRDMA_OP_WRITE, i, 0, 0, 8);
	assert_true(send_some(p, 0));
	softrdma_link_lost(here->link);
	softrdma_link_lost(here->link);
	expect_wc(here->send_cq, 0, IBV_WC_RETRY_EXC_ERR);
	expect_wc(here->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(here->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(here->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(here->send_cq);
	expect_no_wc(here->recv_cq);
	assert_int_equal(p->disconnected[0], 1);
	free_pair(p);
}

/* memory is deregistered while a message is received into it: no further byte of it is written */
static void
test_revoke_while_receiving(void **state)
{
	(void)state;
	enum { WRITE, SEND, READ, CASES };
	for (int what = 0; what < CASES; what++) {
		for (size_t got = 1; got < 2 * SEGMENT; got += 70001) {
			struct pair *p = new_pair();
			int receiver = what == READ ? 0 : 1;
			pattern_fill(p->side[!receiver].mem, 2 * SEGMENT, 1, 0);
			post_recv(&p->side[1], 1, 0, 2 * SEGMENT);
			static const uint8_t opcodes[CASES] = { SOFTRDMA_OP_WRITE, SOFTRDMA_OP_SEND,
				SOFTRDMA_OP_READ };
			post(p, 0, opcodes[what], 1, 0, 0, 2 * SEGMENT);
			post(p, 0, SOFTRDMA_OP_WRITE, 2, 0, 1 << 20, 8);
			if (what == READ) {
				run_sender(p, 0);
				while (receive_some(p, 1))
					;
			}
			run_sender(p, !receiver);
			struct stream *s = &p->to[receiver];
			p->cut = s->begin + SOFTRDMA_FRAME_SIZE + got +
				(got > SEGMENT ? SOFTRDMA_FRAME_SIZE : 0);
			while (s->begin < p->cut)
				assert_true(receive_some(p, receiver));

			struct side *side = &p->side[receiver];
			softrdma_mr_remove(side->mr);
			assert_false(softrdma_link_revoke(side->link, side->mr));
			softrdma_mr_delete(side->mr);
			side->mr = NULL;
			memset(side->mem, 0xdb, REGION_SIZE); /* other memory now */
			run(p);
			assert_int_equal(pattern_check_byte(side->mem, REGION_SIZE, 0xdb), -1);
			expect_wc(p->side[0].send_cq, 1,
				what == READ ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
			expect_wc(p->side[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
			expect_no_wc(p->side[0].send_cq);
			if (what == READ)
				expect_no_wc(p->side[1].recv_cq); /* the other side is not told */
			else
				expect_wc(p->side[1].recv_cq, 1,
					what == SEND ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
			free_pair(p);
		}
	}
}

/* memory is deregistered while it is sent */
static void
test_revoke_while_sending(void **state)
{
	(void)state;
	for (int response = 0; response < 2; response++) {
		for (size_t sent = 0; sent < SEGMENT + 64; sent += 40009) {
			struct pair *p = new_pair();
			int sender = response;
			post(p, 0, response ? SOFTRDMA_OP_READ : SOFTRDMA_OP_WRITE, 1, 0, 0, 2 * SEGMENT);
			if (response) {
				assert_true(send_some(p, 0));
				while (receive_some(p, 1))
					;
			}
			struct side *side = &p->side[sender];
			assert_true(softrdma_link_tx_fill(side->link));
			p->cut = sent;
			if (sent > 0)
				assert_true(send_some(p, sender));
			if (response) /* a request of its own, which does not use that memory */
				post(p, 1, SOFTRDMA_OP_FLUSH, 2, 0, 0, 0);
			softrdma_mr_remove(side->mr);
			assert_true(softrdma_link_revoke(side->link, side->mr));
			assert_int_equal(side->link->tx.first, side->link->tx.count);
			softrdma_mr_delete(side->mr);
			side->mr = NULL;
			assert_false(softrdma_link_tx_fill(side->link)); /* the stream ends */
			assert_true(side->link->fin_due);
			softrdma_link_lost(side->link);
			softrdma_link_lost(p->side[!sender].link);
			expect_wc(p->side[0].send_cq, 1,
				response ? IBV_WC_RETRY_EXC_ERR : IBV_WC_LOC_PROT_ERR);
			expect_no_wc(p->side[0].send_cq);
			if (response)
				expect_wc(p->side[1].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
			free_pair(p);
		}
	}
}

/*
 * The pages of the memory being sent are gone, but not the region. Whose error this is depends on whose
 * memory it is.
 */
static void
test_whose_memory_is_gone(void **state)
{
	(void)state;
	for (int response = 0; response < 2; response++) {
		struct pair *p = new_pair();
		post(p, 0, response ? SOFTRDMA_OP_READ : SOFTRDMA_OP_WRITE, 1, 0, 0, 64);
		if (response) {
			run_sender(p, 0);
			while (receive_some(p, 1))
				;
			post(p, 1, SOFTRDMA_OP_FLUSH, 2, 0, 0, 0); /* it needs no memory */
		}
		struct side *side = &p->side[response];
		assert_true(softrdma_link_tx_fill(side->link));
		softrdma_link_tx_fault(side->link);
		assert_true(side->link->failed);
		expect_wc(side->send_cq, 1 + (uint64_t)response,
			response ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_PROT_ERR);
		expect_no_wc(side->send_cq);
		free_pair(p);
	}
}

/* gives all bytes in transit to a side at once, as a stream of records does */
static void
take_all(struct pair *p, int at)
{
	struct stream *s = &p->to[at];
	ssize_t used = softrdma_link_rx_take(p->side[at].link, s->bytes + s->begin, s->end - s->begin);
	assert_int_equal(used, s->end - s->begin);
	s->begin = s->end;
}

/* A page that was writable for one request may be lost before the next one arrives, or while a flush runs in between. */
static void
test_memory_lost_between_requests(void **state)
{
	(void)state;
	enum { IN_STAGE, TAKEN, BEHIND_A_FLUSH, WAYS };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (softrdma_under_valgrind()) {
		print_message("skipped: under valgrind the device does not ask for pages\n");
		skip();
	}
	for (int way = 0; way < WAYS; way++) {
		struct pair *p = new_pair();
		struct side *target = &p->side[1];
		uint8_t *mem = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(mem, MAP_FAILED);
		struct softrdma_mr *mr = softrdma_mr_new(target->pd, mem, page, ALL_RIGHTS);
		assert_non_null(mr);
		pattern_fill(p->side[0].mem, 64, 3, 0);
		lost_at_flush = way == BEHIND_A_FLUSH ? mem : NULL;
		for (uint64_t i = 0; i < 2; i++) {
			struct softrdma_send *send = prepare(&p->side[0], SOFTRDMA_OP_WRITE, 1 + i, 0, 64);
			send->remote_addr = (uintptr_t)mem + i * 64;
			send->key = mr->mr.rkey;
			commit(&p->side[0]);
			if (way == BEHIND_A_FLUSH && i == 0) {
				post(p, 0, SOFTRDMA_OP_FLUSH, 9, 0, 0, 64);
				continue;
			}
			if (way == TAKEN) {
				run_sender(p, 0);
				take_all(p, 1);
			}
			run(p);
			if (i == 0)
				lose(mem);
		}
		lost_at_flush = NULL;
		expect_wc(p->side[0].send_cq, 1, IBV_WC_SUCCESS);
		if (way == BEHIND_A_FLUSH)
			expect_wc(p->side[0].send_cq, 9, IBV_WC_SUCCESS);
		expect_wc(p->side[0].send_cq, 2, IBV_WC_REM_OP_ERR);
		assert_int_equal(pattern_check(mem, 64, 3, 0), -1);
		softrdma_mr_remove(mr);
		softrdma_mr_delete(mr);
		munmap(mem, page);
		free_pair(p);
	}
}

/* A short read into any memory may have ended at a page that is lost: the next one tells. A copy tells at once. */
static void
test_short_read_may_be_a_fault(void **state)
{
	(void)state;
	const size_t size = 2 * SOFTRDMA_STAGE_SIZE;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	for (int copies = 0; copies < 2; copies++) {
		struct pair *p = new_pair();
		struct softrdma_link *target = p->side[1].link;
		struct softrdma_mr *mr = softrdma_mr_new(p->side[1].pd, mem, size, ALL_RIGHTS);
		assert_non_null(mr);
		assert_false(mr->fragile);
		target->by_copy = copies;
		struct softrdma_send *send = prepare(&p->side[0], SOFTRDMA_OP_WRITE, 1, 0, size);
		send->remote_addr = (uintptr_t)mem;
		send->key = mr->mr.rkey;
		commit(&p->side[0]);
		run_sender(p, 0);
		assert_false(softrdma_link_rx_may_fault(target));
		p->piece_max = SOFTRDMA_STAGE_SIZE;
		assert_true(receive_some(p, 1)); /* the header and the beginning */
		assert_int_equal(softrdma_link_rx_may_fault(target), !copies);
		run(p);
		assert_false(softrdma_link_rx_may_fault(target));
		expect_wc(p->side[0].send_cq, 1, IBV_WC_SUCCESS);
		softrdma_mr_remove(mr);
		softrdma_mr_delete(mr);
		free_pair(p);
	}
	munmap(mem, size);
}

/* The other side does not read while it makes memory durable, so later messages may fill all buffers. */
static void
test_response_behind_a_flush(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct softrdma_requester *req = &p->side[0].link->requester;
	post(p, 1, SOFTRDMA_OP_READ, 1, 0, 0, 64);
	run_sender(p, 1);
	while (receive_some(p, 0))
		;
	run_sender(p, 0); /* a response without a flush before it */
	post(p, 0, SOFTRDMA_OP_FLUSH, 1, 0, 0, 64);
	run_sender(p, 0);
	assert_false(req->behind_flush);

	post(p, 1, SOFTRDMA_OP_READ, 2, 0, 0, 64);
	run_sender(p, 1);
	while (receive_some(p, 0))
		;
	assert_true(softrdma_link_tx_fill(p->side[0].link));
	assert_true(req->behind_flush);
	free_pair(p);
}

/* a region that is not in transit, on either side, and one of a posted request that was not checked yet */
static void
test_revoke_of_something_else(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct side *here = &p->side[0], *there = &p->side[1];
	struct softrdma_mr *other = softrdma_mr_new(here->pd, here->mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct softrdma_mr *far_one = softrdma_mr_new(there->pd, there->mem, 4096, ALL_RIGHTS);
	post(p, 0, SOFTRDMA_OP_WRITE, 1, 0, 0, 100);
	assert_true(softrdma_link_tx_fill(here->link));
	softrdma_mr_remove(other);
	assert_false(softrdma_link_revoke(here->link, other));
	softrdma_mr_delete(other);
	other = softrdma_mr_new(there->pd, there->mem, 4096, ALL_RIGHTS);
	run_sender(p, 0);
	p->cut = SOFTRDMA_FRAME_SIZE + 50;
	assert_true(receive_some(p, 1));
	assert_int_equal(there->link->rx.state, SOFTRDMA_RX_PLACING);
	softrdma_mr_remove(other);
	assert_false(softrdma_link_revoke(there->link, other));
	softrdma_mr_delete(other);
	run(p);
	expect_wc(here->send_cq, 1, IBV_WC_SUCCESS);

	prepare_remote(p, 0, SOFTRDMA_OP_READ, 2, 0, 0, 100)->key = far_one->mr.rkey;
	commit(here);
	run_sender(p, 0);
	while (receive_some(p, 1))
		;
	softrdma_mr_remove(far_one);
	assert_false(softrdma_link_revoke(there->link, far_one));
	softrdma_mr_delete(far_one);
	run(p);
	expect_wc(here->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	free_pair(p);
}

/* bytes that no correct peer sends must end the stream, never raise an assertion */
static void
inject(struct pair *p, int to, const struct softrdma_frame *frame)
{
	struct stream *s = &p->to[to];
	softrdma_frame_encode(frame, s->bytes + s->end);
	s->end += SOFTRDMA_FRAME_SIZE;
	memset(s->bytes + s->end, 0, frame->length);
	s->end += frame->length;
	while (receive_some(p, to))
		;
}

static void
test_broken_protocol(void **state)
{
	(void)state;
	static const struct softrdma_frame frames[] = {
		{ .opcode = SOFTRDMA_OP_ACK },
		{ .opcode = SOFTRDMA_OP_NAK, .code = SOFTRDMA_NAK_ACCESS },
		{ .opcode = SOFTRDMA_OP_RNR },
		{ .opcode = SOFTRDMA_OP_RNR_READY },
		{ .opcode = SOFTRDMA_OP_READ_RESPONSE,
			.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
			.length = 8 },
		{ .opcode = SOFTRDMA_OP_ATOMIC_RESPONSE, .length = 8 },
		{ .opcode = SOFTRDMA_OP_WRITE, .flags = SOFTRDMA_FRAME_LAST, .length = 8 },
		{ .opcode = SOFTRDMA_OP_READ, .seq = 12345 },
		{ .opcode = SOFTRDMA_OP_RESYNC },
		{ .opcode = 77 },
	};
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		struct pair *p = new_pair();
		struct softrdma_frame frame = frames[i];
		if (frame.seq == 0)
			frame.seq = p->side[0].link->seq;
		inject(p, 1, &frame);
		if (!p->broken[1])
			fail_msg("frame %zu is taken", i);
		softrdma_link_lost(p->side[1].link);
		assert_int_equal(p->disconnected[1], 1);
		free_pair(p);
	}
}

/*
 * Two requests are gathered, and half of the second has left. A response that completes the second is refused: its memory
 * is still to be sent, and a program may change that once it has the completion.
 */
static void
test_response_before_the_request_has_left(void **state)
{
	(void)state;
	static const struct {
		uint8_t opcode;
		uint32_t request; /* 0 or 1 */
		bool is_taken;
	} cases[] = {
		{ SOFTRDMA_OP_ACK, 0, true },
		{ SOFTRDMA_OP_ACK, 1, false },
		{ SOFTRDMA_OP_NAK, 0, true },
		{ SOFTRDMA_OP_NAK, 1, true }, /* a refusal may come before the rest of its request has left */
		{ SOFTRDMA_OP_RNR, 1, true },
	};
	const size_t frame = SOFTRDMA_FRAME_SIZE + 1000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *p = new_pair();
		struct side *here = &p->side[0];
		post(p, 0, SOFTRDMA_OP_WRITE, 1, 0, 0, 1000);
		/* an RNR is for a message only */
		post(p, 0, cases[i].opcode == SOFTRDMA_OP_RNR ? SOFTRDMA_OP_SEND : SOFTRDMA_OP_WRITE, 2, 0,
			2000, 1000);
		p->cut = frame + SOFTRDMA_FRAME_SIZE + 500;
		assert_true(send_some(p, 0));
		p->cut = EVERYTHING;
		struct softrdma_frame response = { .opcode = cases[i].opcode,
			.seq = here->link->seq + cases[i].request };
		if (cases[i].opcode == SOFTRDMA_OP_NAK)
			response.code = SOFTRDMA_NAK_ACCESS;
		inject(p, 0, &response);
		if (p->broken[0] == cases[i].is_taken)
			fail_msg("case %zu", i);
		if (!cases[i].is_taken) {
			softrdma_link_lost(here->link);
			expect_wc(here->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
			expect_wc(here->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		}
		free_pair(p);
	}
}

/* DISCONNECT is the last frame: frames after it are ignored and raise no event */
static void
test_nothing_after_disconnect(void **state)
{
	(void)state;
	static const uint8_t opcodes[] = { SOFTRDMA_OP_READY, SOFTRDMA_OP_DISCONNECT, SOFTRDMA_OP_WRITE };
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		struct pair *p = new_pair();
		struct side *side = &p->side[1];
		inject(p, 1, &(struct softrdma_frame){ .opcode = SOFTRDMA_OP_DISCONNECT });
		assert_int_equal(p->disconnected[1], 1);
		memset(side->mem, 0xdb, 8);
		struct softrdma_frame frame = { .opcode = opcodes[i] };
		if (opcodes[i] == SOFTRDMA_OP_WRITE) {
			frame.seq = p->side[0].link->seq;
			frame.key = side->key;
			frame.addr = addr_of(side, 0);
			frame.length = 8;
			frame.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST;
		}
		inject(p, 1, &frame);
		assert_int_equal(p->ready[1], 0);
		assert_int_equal(p->disconnected[1], 1);
		assert_int_equal(side->mem[0], 0xdb);
		free_pair(p);
	}
}

/* a peer makes one offer, also to a side that does not look at it */
static void
test_second_offer(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	const struct softrdma_frame offer = { .opcode = SOFTRDMA_OP_SHM_OFFER,
		.length = 16,
		.key = 1,
		.arg = 1 };
	inject(p, 1, &offer);
	assert_false(p->broken[1]);
	inject(p, 1, &offer);
	assert_true(p->broken[1]);
	assert_non_null(strstr(p->side[1].link->breach, "SHM_OFFER"));
	free_pair(p);
}

/* one completion queue is too small: the queue pair goes to error, and no completion is delivered twice */
static void
test_overrun(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	struct softrdma_cq *small = new_cq(1);
	struct softrdma_cq *own = p->side[1].recv_cq;
	p->side[1].link->responder.cq = small;
	for (uint64_t i = 0; i < 3; i++) {
		post_recv(&p->side[1], i, 0, 8);
		post(p, 0, SOFTRDMA_OP_SEND, i, 0, 0, 8);
	}
	run(p);
	expect_wc(p->side[0].send_cq, 0, IBV_WC_SUCCESS);
	assert_true(p->side[1].link->failed);
	assert_int_equal(p->side[1].qp.state, IBV_QPS_ERR);
	expect_wc(small, 0, IBV_WC_SUCCESS);
	struct ibv_wc wc;
	assert_int_equal(softrdma_cq_pop(small, 1, &wc), -1);
	p->side[1].link->responder.cq = own;
	softrdma_ibv_destroy_cq(&small->cq);
	free_pair(p);
}

static uint64_t
roll(uint64_t *random, uint64_t sides)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 16) % sides;
}

static const uint8_t any_opcode[] = { SOFTRDMA_OP_SEND, SOFTRDMA_OP_WRITE, SOFTRDMA_OP_READ,
	SOFTRDMA_OP_FETCH_ADD, SOFTRDMA_OP_ATOMIC_WRITE, SOFTRDMA_OP_FLUSH };

struct count {
	uint64_t sends, recvs; /* number of posted requests */
	uint64_t sends_done, recvs_done;
	bool failed;
};

static void
take_completions(struct side *side, struct count *count)
{
	struct ibv_wc wc;
	while (softrdma_cq_pop(side->send_cq, 1, &wc) == 1) {
		assert_int_equal(wc.wr_id, count->sends_done); /* in order, each once */
		assert_false(count->failed && wc.status == IBV_WC_SUCCESS);
		count->failed = count->failed || wc.status != IBV_WC_SUCCESS;
		count->sends_done++;
	}
	while (softrdma_cq_pop(side->recv_cq, 1, &wc) == 1)
		assert_int_equal(wc.wr_id, count->recvs_done++);
}

static void
post_anything(struct pair *p, int from, struct count *count, uint64_t *random)
{
	if (p->side[from].link->requester.ring.head - p->side[from].link->requester.ring.tail >= 60)
		return;
	uint8_t opcode = any_opcode[roll(random, sizeof(any_opcode))];
	size_t len = opcode == SOFTRDMA_OP_FETCH_ADD || opcode == SOFTRDMA_OP_ATOMIC_WRITE
		? 8
		: roll(random, 20000);
	struct softrdma_send *send = prepare_remote(p, from, opcode, count->sends, 0, 1 << 20, len);
	send->fenced = roll(random, 8) == 0;
	send->flush_type = SOFTRDMA_FLUSH_PERSISTENT;
	if (roll(random, 400) == 0)
		send->key ^= 1;
	if (roll(random, 400) == 0)
		send->sge[0].lkey ^= 1;
	commit(&p->side[from]);
	count->sends++;
}

/*
 * Random requests at random times, with an occasional error, and the end of the stream at last. Each request
 * completes once.
 */
static void
test_anything(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct pair *p = new_pair();
		uint64_t random = seed * 0x9e3779b97f4a7c15u;
		struct count count[2] = { { 0 } };
		p->random = random;
		for (int step = 0; step < 400; step++) {
			int i = (int)roll(&random, 2);
			switch (roll(&random, 5)) {
			case 0:
				post_anything(p, i, &count[i], &random);
				break;
			case 1:
				if (p->side[i].recvs.count < RECV_WR_MAX) {
					post_recv(&p->side[i], count[i].recvs++, 2 << 20, 20000);
					if (p->side[i].link->failed)
						softrdma_responder_fail(&p->side[i].link->responder);
					replenish(&p->side[i]);
				}
				break;
			case 2:
				receive_some(p, i);
				break;
			default:
				send_some(p, i);
				break;
			}
			take_completions(&p->side[i], &count[i]);
			assert_false(p->broken[0] || p->broken[1]);
		}
		if (seed % 3 == 0)
			softrdma_link_close(p->side[seed & 1].link);
		if (seed % 2 == 0)
			run(p);
		for (int i = 0; i < 2; i++) {
			softrdma_link_lost(p->side[i].link);
			softrdma_link_close(p->side[i].link);
			take_completions(&p->side[i], &count[i]);
			assert_int_equal(count[i].sends_done, count[i].sends);
			assert_int_equal(count[i].recvs_done, count[i].recvs);
			assert_int_equal(p->disconnected[i], 1);
		}
		free_pair(p);
	}
}

/* the stream is copied from and to memory: the results are the same */
static void
test_by_copy(void **state)
{
	by_copy = true;
	test_everything(state);
	test_long_messages(state);
	test_not_ready(state);
	test_remote_errors(state);
	test_anything(state);
	by_copy = false;
}

/* decoded bytes, as from records: bytes that are no frame end the connection */
static void
test_taken_bytes_that_are_no_frame(void **state)
{
	(void)state;
	struct pair *p = new_pair();
	uint8_t bytes[2 * SOFTRDMA_FRAME_SIZE];
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(softrdma_link_rx_take(p->side[1].link, bytes, sizeof(bytes)), -1);
	free_pair(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_taken_bytes_that_are_no_frame),
		cmocka_unit_test(test_long_messages),
		cmocka_unit_test(test_not_ready),
		cmocka_unit_test(test_failure_while_not_ready),
		cmocka_unit_test(test_remote_errors),
		cmocka_unit_test(test_failure_with_a_batch),
		cmocka_unit_test(test_acknowledgement_travels_with_others),
		cmocka_unit_test(test_ready_and_disconnect),
		cmocka_unit_test(test_closed_after_violation),
		cmocka_unit_test(test_closed_after_violation_in_the_middle),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_revoke_while_receiving),
		cmocka_unit_test(test_revoke_while_sending),
		cmocka_unit_test(test_whose_memory_is_gone),
		cmocka_unit_test(test_memory_lost_between_requests),
		cmocka_unit_test(test_short_read_may_be_a_fault),
		cmocka_unit_test(test_response_behind_a_flush),
		cmocka_unit_test(test_response_before_the_request_has_left),
		cmocka_unit_test(test_revoke_of_something_else),
		cmocka_unit_test(test_broken_protocol),
		cmocka_unit_test(test_nothing_after_disconnect),
		cmocka_unit_test(test_second_offer),
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_by_copy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
