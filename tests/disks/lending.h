/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* lending.h -- a program that lends a mapped file, and its client, in one process, for cmocka tests */

#ifndef TEST_DISKS_LENDING_H
#define TEST_DISKS_LENDING_H

#include <librpma.h>
#include <stdbool.h>
#include <stddef.h>

#include "pair.h"

#define LENDING_SIZE ((size_t)1 << 20)

struct lending {
	int fd; /* of the file; owned by the test */
	char *mem;
	struct pair pair;
	struct rpma_mr_local *lent; /* NULL: not registered */
	struct rpma_mr_local *src;
	struct rpma_mr_remote *remote; /* the client's view of it */
	char data[LENDING_SIZE];       /* the bytes that the client wrote last */
};

/* gives the file LENDING_SIZE bytes, maps them, and connects a client */
void lending_begin(struct lending *lending, int fd);
void lending_end(struct lending *lending);

/*
 * registers the memory for persistent flush and gives its descriptor to the client; returns the result of
 * rpma_mr_reg
 */
int lending_lend(struct lending *lending);

/*
 * deregisters the memory and ends the connection; then the next client connects, with no memory lent to it
 * yet
 */
void lending_disconnect(struct lending *lending);
void lending_connect(struct lending *lending);

/* true if the client may flush the memory persistently */
bool lending_is_persistent(const struct lending *lending);

/* the client writes all of the memory, or flushes it persistently; return the status of its completion */
enum ibv_wc_status lending_write(struct lending *lending, char value);
enum ibv_wc_status lending_flush(struct lending *lending);

#endif /* TEST_DISKS_LENDING_H */
