/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * client.c -- transfer money between the server's accounts, while other clients do the same
 *
 * For each transfer it takes the lock, reads the copy that counts, writes a changed one to a copy of its own,
 * makes the state point to that, and gives the lock back. A lock that does not change for LEASE_MS is taken
 * over: its holder is dead or late, and no client can tell which. So the lock only keeps clients out of each
 * other's way, and protects nothing by itself. The protection is that the state is changed by
 * compare-and-swap, which fails for a holder that was late.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accounts.h"
#include "connection.h"
#include "counter.h"
#include "exchange.h"
#include "numbers.h"
#include "watch.h"

#define TRANSFERS_MAX 1000000

/* many times the duration of a transfer */
#define LEASE_MS 1000
#define PAUSE_US 200 /* between two attempts to take the lock */

/* the registered memory: the old value of a word, then a copy that is read, changed and written */
#define LOCAL_WORD 0
#define LOCAL_COPY WORD_SIZE
#define LOCAL_SIZE (LOCAL_COPY + COPY_SIZE)

#define OP_ID ((const void *)(uintptr_t)0x10cc)

struct client {
	struct rpma_conn *conn;
	struct exchange server;
	uint8_t *local;
	struct rpma_mr_local *mr;
	uint64_t number; /* of this client */
	uint64_t lock;   /* the value of the lock while this client holds it */
	uint32_t locked; /* number of times that this client took the lock */
	bool hold;       /* true if the next transfer pauses while it holds the lock */
};

/* --- words --- */

/* the old value that a remote atomic returned; the device has put it into this processor's byte order */
static int
atomic_result(struct client *c, uint64_t *old)
{
	int ret = conn_wait_completion(c->conn, OP_ID);
	if (ret == 0)
		memcpy(old, c->local + LOCAL_WORD, sizeof(*old));

	return ret;
}

/* with an addend of 0 it reads the word */
static int
fetch_and_add(struct client *c, size_t offset, uint64_t addend, uint64_t *old)
{
	int ret = checked("rpma_fetch_and_add",
		rpma_fetch_and_add(c->conn, c->mr, LOCAL_WORD, c->server.mr, c->server.data_offset + offset,
			addend, RPMA_F_COMPLETION_ALWAYS, OP_ID));

	return ret ? ret : atomic_result(c, old);
}

/* the swap happened if *old == expected */
static int
compare_and_swap(struct client *c, size_t offset, uint64_t expected, uint64_t desired, uint64_t *old)
{
	int ret = checked("rpma_compare_and_swap",
		rpma_compare_and_swap(c->conn, c->mr, LOCAL_WORD, c->server.mr,
			c->server.data_offset + offset, expected, desired, RPMA_F_COMPLETION_ALWAYS, OP_ID));

	return ret ? ret : atomic_result(c, old);
}

/* --- the lock --- */

static int
take_lock(struct client *c)
{
	const struct timespec pause = { .tv_nsec = PAUSE_US * 1000L };
	uint64_t expected = 0; /* 0 (free), or a value that has not changed for too long */
	uint64_t seen = 0;
	int64_t since_ms = 0;
	uint64_t old;

	c->lock = LOCK_OF(c->number, ++c->locked);
	for (;;) {
		int ret = compare_and_swap(c, LOCK_OFFSET, expected, c->lock, &old);
		if (ret)
			return ret;
		if (old == expected)
			break;
		/* another client has it: how long has the value been the same, by our own clock? */
		int64_t now_ms = watch_now_ms();
		if (old != seen) {
			seen = old;
			since_ms = now_ms;
		}
		bool is_over = seen != 0 && now_ms - since_ms >= LEASE_MS;
		expected = is_over ? seen : 0;
		if (!is_over)
			nanosleep(&pause, NULL);
	}
	if (expected)
		fprintf(stderr, "client %" PRIu64 ": took the lock over from client %" PRIu64 "\n", c->number,
			LOCK_CLIENT(expected));

	return 0;
}

/* if another client has taken the lock over, it keeps it */
static int
give_lock_back(struct client *c)
{
	uint64_t old;

	return compare_and_swap(c, LOCK_OFFSET, c->lock, 0, &old);
}

/* --- the accounts --- */

static size_t
copy_at(const struct client *c, size_t copy)
{
	return c->server.data_offset + COPIES_OFFSET + copy * COPY_SIZE;
}

/* reads the state, which any client could have written, and the copy that it points to */
static int
read_accounts(struct client *c, uint64_t *state)
{
	int ret = fetch_and_add(c, STATE_OFFSET, 0, state);
	if (ret)
		return ret;
	if (STATE_COPY(*state) >= COPIES) {
		fprintf(stderr, "the server has no accounts\n");
		return RPMA_E_INVAL;
	}

	ret = checked("rpma_read",
		rpma_read(c->conn, c->mr, LOCAL_COPY, c->server.mr, copy_at(c, STATE_COPY(*state)), COPY_SIZE,
			RPMA_F_COMPLETION_ALWAYS, OP_ID));

	return ret ? ret : conn_wait_completion(c->conn, OP_ID);
}

/*
 * Writes the changed copy, and makes the state point to it if it has not changed. Operations of a connection
 * take effect in order, so both are posted at once.
 */
static int
change_accounts(struct client *c, uint64_t state, bool *changed)
{
	size_t own = (size_t)c->number * 2;
	size_t copy = STATE_COPY(state) == own ? own + 1 : own;
	uint64_t old = 0;

	int ret = checked("rpma_write",
		rpma_write(c->conn, c->server.mr, copy_at(c, copy), c->mr, LOCAL_COPY, COPY_SIZE,
			RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, NULL));
	if (ret == 0)
		ret = compare_and_swap(c, STATE_OFFSET, state, STATE(STATE_TRANSFERS(state) + 1, copy), &old);
	*changed = ret == 0 && old == state;

	return ret;
}

static void
wait_for_enter(struct client *c)
{
	int character;

	c->hold = false;
	printf("client %" PRIu64 " holds the lock: press Enter, or kill it\n", c->number);
	fflush(stdout);
	do
		character = getchar();
	while (character != '\n' && character != EOF);
}

/*
 * Moves 1 from one account to the next; *done is false if another client was faster, because this one was
 * late
 */
static int
transfer_once(struct client *c, unsigned from, bool *done)
{
	uint8_t *src = c->local + LOCAL_COPY + (size_t)from * ACCOUNT_SIZE;
	uint8_t *dst = c->local + LOCAL_COPY + (size_t)(from + 1) % ACCOUNTS * ACCOUNT_SIZE;
	uint64_t state;

	int ret = take_lock(c);
	if (ret == 0)
		ret = read_accounts(c, &state);
	if (ret)
		return ret;

	if (c->hold)
		wait_for_enter(c);
	counter_put(src, counter_get(src) - 1);
	counter_put(dst, counter_get(dst) + 1);
	ret = change_accounts(c, state, done);

	return ret ? ret : give_lock_back(c);
}

static int
transfer_all(struct client *c, uint64_t transfers)
{
	bool done = false;
	int ret = 0;

	for (uint64_t i = 0; ret == 0 && i < transfers; i += done) {
		ret = transfer_once(c, (unsigned)(i % ACCOUNTS), &done);
		if (ret == 0 && !done)
			printf("client %" PRIu64 " was too late: once more\n", c->number);
	}
	if (ret == 0)
		printf("client %" PRIu64 ": %" PRIu64 " transfers\n", c->number, transfers);

	return ret;
}

static int
work(struct client *c, uint64_t transfers)
{
	int ret = checked("reading what the server says about its memory",
		exchange_unpack(c->conn, &c->server));
	if (ret)
		return ret;

	if (c->server.size - c->server.data_offset < SHARED_SIZE) {
		fprintf(stderr, "the server's memory is too small for the accounts\n");
		ret = RPMA_E_INVAL;
	}
	/* no two clients get the same number */
	if (ret == 0)
		ret = fetch_and_add(c, CLIENTS_OFFSET, 1, &c->number);
	if (ret == RPMA_E_NOSUPP)
		fprintf(stderr, "a device has no remote atomics: this example needs them\n");
	if (ret == 0 && c->number >= CLIENTS_MAX) {
		fprintf(stderr, "the server has had %d clients: it has no room for another one\n",
			CLIENTS_MAX);
		ret = RPMA_E_AGAIN;
	}
	if (ret == 0)
		ret = transfer_all(c, transfers);
	exchange_release(&c->server);

	return ret;
}

int
main(int argc, char *argv[])
{
	struct client c = { 0 };
	struct rpma_peer *peer = NULL;
	uint64_t transfers;

	c.hold = argc == 5 && strcmp(argv[4], "hold") == 0;
	if ((argc != 4 && !c.hold) || !parse_number(argv[3], TRANSFERS_MAX, &transfers)) {
		fprintf(stderr, "usage: %s <server_address> <port> <transfers> [hold]\n", argv[0]);
		return 2;
	}

	c.local = memory_new(LOCAL_SIZE);
	if (c.local == NULL)
		return 1;
	int ret = peer_new_by_addr(argv[1], RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer, NULL);
	/* the results of atomics are stored as those of reads are */
	if (ret == 0)
		ret = checked("rpma_mr_reg",
			rpma_mr_reg(peer, c.local, LOCAL_SIZE,
				RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &c.mr));
	if (ret == 0)
		ret = client_connect(peer, argv[1], argv[2], NULL, NULL, &c.conn);
	if (ret == 0) {
		ret = work(&c, transfers);
		ret = first_error(ret, conn_disconnect(&c.conn));
	}

	ret = first_error(ret, checked("rpma_mr_dereg", rpma_mr_dereg(&c.mr)));
	ret = first_error(ret, checked("rpma_peer_delete", rpma_peer_delete(&peer)));
	free(c.local);

	return ret ? 1 : 0;
}
