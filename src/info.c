/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.c -- translating an address and a port for a device */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "info.h"

#define PORT_MAX 65535

/* getaddrinfo() takes any number, and keeps its lowest 16 bits */
static bool
is_number_too_large(const char *port)
{
	char *end;
	errno = 0;
	long value = strtol(port, &end, 10);
	return end > port && *end == '\0' && (errno || value < 0 || value > PORT_MAX);
}

static bool
refuse_port(const char *port, char reason[static INFO_REASON_MAX])
{
	/*
	 * message(connect): after the address, in a message of rpma_ep_listen(3) or rpma_conn_req_new(3) ->
	 * Give a number, or a name of `/etc/services`.
	 */
	snprintf(reason, INFO_REASON_MAX,
		"port \"%.32s\" is neither a number from 0 to %d nor the name of a service", port, PORT_MAX);
	return false;
}

bool
rpmai_info_get(const struct rdma_api *rdma, const char *addr, const char *port, enum info_side side,
	struct rdma_addrinfo **rai_ptr, char reason[static INFO_REASON_MAX])
{
	const struct rdma_addrinfo hints = {
		.ai_flags = side == INFO_PASSIVE ? RAI_PASSIVE : 0,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
	};

	if (port && is_number_too_large(port))
		return refuse_port(port, reason);
	errno = 0; /* rdma_getaddrinfo returns what getaddrinfo returned, which sets no errno */
	int ret = rdma->getaddrinfo(addr, port, &hints, rai_ptr);
	if (ret == 0)
		return true;

	if (errno == 0 && ret == EAI_SERVICE && port)
		return refuse_port(port, reason);
	/* message(why-no-device) */
	if (errno)
		snprintf(reason, INFO_REASON_MAX, "rdma_getaddrinfo() failed: %m");
	else
		snprintf(reason, INFO_REASON_MAX, "rdma_getaddrinfo() failed: %s", gai_strerror(ret));
	return false;
}

const char *
rpmai_info_way_out(int errnum)
{
	switch (errnum) {
	case EADDRINUSE:
		/* message(connect): the way out of *Address already in use* */
		return "another program has the port: end it (ss -tlnp shows it), or take another port";
	case EADDRNOTAVAIL:
	case ENODEV:
		/* message(connect): the way out of *No such device* */
		return "give an address of this machine that a device has (rpma-info lists them)";
	case EACCES:
		/*
		 * message(connect): the way out of *Permission denied* -> Or give the program
		 * `CAP_NET_BIND_SERVICE`.
		 */
		return "ports below 1024 need a privilege: take another port";
	case EHOSTUNREACH:
	case ENETUNREACH:
		/* message(connect): the way out of *Network is unreachable* */
		return "this machine has no route to the address (ip route get)";
	default:
		return NULL;
	}
}

const char *
rpmai_info_way_out_of_start(const struct rdma_api *rdma, int errnum)
{
	switch (errnum) {
	case EADDRINUSE:
		return rpmai_info_way_out(errnum);
	case EINVAL:
	case ENOENT:
	case EACCES:
	case EOPNOTSUPP: /* of TLS or of SOFTRDMA_FAULTS, about which the device itself writes a line */
		/*
		 * message(connect): the way out, if TLS or `SOFTRDMA_FAULTS` is configured wrongly -> See
		 * that line.
		 */
		return rdma->is_soft ? "the line before this one in the log has the reason" : NULL;
	default:
		return NULL;
	}
}
