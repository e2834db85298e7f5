/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* qp_type.c -- which types of queue pairs the device has, and may use */

#include <stddef.h>

#include "softrdma/base/missing.h"
#include "softrdma/base/variables.h"
#include "softrdma/verbs/qp.h"

/* datagrams have no check of who sends them, so where that is demanded they are none */
static int
check_datagrams(const char *call)
{
	static const char *const demands[] = { "SOFTRDMA_TLS_CA", "SOFTRDMA_TLS_CERT", "SOFTRDMA_TLS_KEY",
		"SOFTRDMA_TLS_PSK" };
	if (softrdma_setting("SOFTRDMA_UD", 0, 1, 1) == 0)
		return softrdma_missing(call, " of unreliable datagrams (UD)", "SOFTRDMA_UD is 0");
	for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++) {
		if (softrdma_variable(demands[i]))
			return softrdma_missing(call, " of unreliable datagrams (UD) with TLS",
				"datagrams cannot be encrypted: use a reliable connection (IBV_QPT_RC)");
	}
	return 0;
}

int
softrdma_qp_check_type(const char *call, enum ibv_qp_type type)
{
	static const char use_rc[] = "use a reliable connection (IBV_QPT_RC)";
	switch (type) {
	case IBV_QPT_RC:
		return 0;
	case IBV_QPT_UC:
		return softrdma_missing(call, " of an unreliable connection (UC)", use_rc);
	case IBV_QPT_UD:
		return check_datagrams(call);
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return softrdma_missing(call, " of an extended reliable connection (XRC)", use_rc);
	default:
		return softrdma_missing(call, " of another type than IBV_QPT_RC", use_rc);
	}
}

int
softrdma_qp_check_kind(const struct softrdma_qp_kind *kind, enum ibv_qp_type type)
{
	const int ret = softrdma_qp_check_type("ibv_create_qp", type);
	if (ret == 0 && type != kind->type)
		return softrdma_missing("rdma_create_qp", " of unreliable datagrams (UD)",
			"use an id of RDMA_PS_UDP, or ibv_create_qp()");
	return ret;
}
