/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* guest.h -- what the lab's programs share: each step succeeds, or the program says which one did not and
 * ends */

#ifndef LAB_GUEST_H
#define LAB_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#define DESCRIPTOR_MAX 64

/* the result of a librpma call */
void must(const char *what, int ret);
/* anything else; errno is told */
void need(const char *what, bool is_so);

/* a number from 1 on; the program ends with status 2 if it is none */
unsigned long number_of(const char *text);

struct rpma_peer *peer_at(const char *addr, enum rpma_util_ibv_context_type type);

/* waits; another event ends the program */
void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected);

/* a connection to the target, and the region that the target has described in its private data */
struct rpma_conn *connect_to(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, struct rpma_mr_remote **region);

/* the target's answer to such a request */
struct rpma_conn *accept_with(struct rpma_conn_req *req, struct rpma_mr_local *region);

/* len bytes of a file or device DAX, shared; of anonymous memory if path is NULL */
uint8_t *map_shared(const char *path, size_t len);

#endif /* LAB_GUEST_H */
