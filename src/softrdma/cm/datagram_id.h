/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * datagram_id.h -- ids of RDMA_PS_UDP: a client asks a server where its datagrams go
 *
 * The client's id asks by rdma_connect(), the server answers by rdma_accept() with the number of its queue pair, and the
 * question is over: neither side is connected. (Service ID Resolution, SIDR, in IBTA 1, 12.11; rdma_connect(3).) Question and
 * answer take the same way as those of connections (handshake.h): a TCP connection, which ends with the answer. So they are
 * bounded and counted like those, none is lost, and no forged address gets an answer.
 */

#ifndef SOFTRDMA_DATAGRAM_ID_H
#define SOFTRDMA_DATAGRAM_ID_H

#include <stdbool.h>

#include "softrdma/bounds.h"
#include "softrdma/cm/cm.h"
#include "softrdma/verbs/gid.h"

static inline bool
softrdma_id_is_of_datagrams(const struct softrdma_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* true if datagrams can go to a queue pair of this number, which holds its port. The number may come from a stranger. */
static inline bool
softrdma_datagram_id_can_name(uint32_t qp_num)
{
	return qp_num <= SOFTRDMA_QP_NUM_MAX && softrdma_gid_port(qp_num) != 0;
}

/*
 * Turns an event of a connection into one of datagrams: an attempt that a connection would report as REJECTED is
 * UNREACHABLE with a status of SIDR, and the parameters are those of struct rdma_ud_param, with the way to the server in
 * ESTABLISHED. hs may be NULL. The caller has set the members event and status. Any lock.
 */
void softrdma_datagram_id_fill_event(const struct softrdma_id *id, const struct softrdma_handshake *hs,
	struct softrdma_event *event);

#endif /* SOFTRDMA_DATAGRAM_ID_H */
