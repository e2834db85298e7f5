/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * guest.h -- functions that the lab's programs share: each step succeeds, or ends the program with its name
 */

#ifndef LAB_GUEST_H
#define LAB_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#define DESCRIPTOR_MAX 64

/* checks the result of a librpma call */
void must(const char *what, int ret);
/* checks anything else; prints errno */
void need(const char *what, bool is_so);

/* a number of at least 1; otherwise the program ends with status 2 */
unsigned long number_of(const char *text);

struct rpma_peer *peer_at(const char *addr, enum rpma_util_ibv_context_type type);

/* waits for the event; another event ends the program */
void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected);

/* connects to the target; *region is the one that the target describes in its private data */
struct rpma_conn *connect_to(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, struct rpma_mr_remote **region);

/* accepts such a request with the description of this region */
struct rpma_conn *accept_with(struct rpma_conn_req *req, struct rpma_mr_local *region);

/* maps len bytes of a file or device DAX, shared; anonymous memory if path is NULL */
uint8_t *map_shared(const char *path, size_t len);

#endif /* LAB_GUEST_H */
