/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* utils.c -- finding a device, and names of events */

#include <stdlib.h>

#include "device.h"
#include "err.h"
#include "peer.h"
#include "rdma.h"

int
rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
	struct ibv_context **ibv_ctx_ptr)
{
	if (addr == NULL || ibv_ctx_ptr == NULL)
		return RPMAI_FAIL_NULL();
	/*
	 * message(find): a wrong second argument of rpma_utils_get_ibv_context(3) -> LOCAL for an address
	 * of this machine, REMOTE for that of the server.
	 */
	if (type != RPMA_UTIL_IBV_CONTEXT_LOCAL && type != RPMA_UTIL_IBV_CONTEXT_REMOTE)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"type %d: give RPMA_UTIL_IBV_CONTEXT_LOCAL or RPMA_UTIL_IBV_CONTEXT_REMOTE",
			(int)type);

	enum device_choice choice;
	const char *device = secure_getenv("RPMA_DEVICE");
	/*
	 * message(find): the variable has another value -> Set one of the three, in lower case and without
	 * spaces.
	 */
	if (!rpmai_device_parse_choice(device, &choice))
		return RPMAI_FAIL(RPMA_E_INVAL, "RPMA_DEVICE is \"%.64s\": set it to auto, rdma or soft",
			device);

	return rpmai_device_find(&rpmai_rdma_core, rpmai_rdma_soft(), choice, addr, type, ibv_ctx_ptr);
}

int
rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable)
{
	if (ibv_ctx == NULL || is_odp_capable == NULL)
		return RPMAI_FAIL_NULL();

	uint32_t caps;
	int ret = rpmai_peer_query(rpmai_rdma_api_of(ibv_ctx), ibv_ctx, &caps, NULL);
	if (ret)
		return ret;

	*is_odp_capable = (caps & RPMA_CAP_ODP) ? 1 : 0;
	return 0;
}

int
rpma_utils_ibv_context_is_soft(struct ibv_context *ibv_ctx, int *is_soft)
{
	if (ibv_ctx == NULL || is_soft == NULL)
		return RPMAI_FAIL_NULL();

	*is_soft = rpmai_rdma_api_of(ibv_ctx)->is_soft ? 1 : 0;
	return 0;
}

const char *
rpma_utils_conn_event_2str(enum rpma_conn_event conn_event)
{
	switch (conn_event) {
	case RPMA_CONN_UNDEFINED:
		return "Undefined connection event";
	case RPMA_CONN_ESTABLISHED:
		return "Connection established";
	case RPMA_CONN_CLOSED:
		return "Connection closed";
	case RPMA_CONN_LOST:
		return "Connection lost";
	case RPMA_CONN_REJECTED:
		return "Connection rejected";
	case RPMA_CONN_UNREACHABLE:
		return "Connection unreachable";
	default:
		return "Unsupported connection event";
	}
}
