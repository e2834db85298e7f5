/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_core.c -- struct rdma_api through libibverbs and librdmacm: RDMA hardware, SoftRoCE, iWARP */

#include <assert.h>

#include "rdma.h"

static_assert((uint64_t)IBV_QP_EX_WITH_ATOMIC_WRITE == RPMAI_QP_EX_WITH_ATOMIC_WRITE, "as the header has it");
static_assert((int)IBV_WC_ATOMIC_WRITE == RPMAI_WC_ATOMIC_WRITE, "as the header has it");

/*
 * Limits of private data in InfiniBand's connection manager, for RDMA_PS_TCP: with a request 92 bytes minus
 * the 36 bytes of the IP addressing header; with a reply 196; with a rejection 148. The kernel refuses more
 * without telling why.
 */
#define CONNECT_DATA_MAX 56
#define ACCEPT_DATA_MAX 196
#define REJECT_DATA_MAX 148

/* SoftRoCE (the kernel's rxe); no vendor is registered with this number */
#define VENDOR_SOFTROCE 0xffffffU

/* ---- wrappers for calls that the headers define as a macro or inline, or with a compatibility type ---- */

static int
query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr)
{
	int errnum = ibv_query_device_ex(context, input, attr);
	if (errnum)
		return errnum;
	attr->device_cap_flags_ex &= rpmai_rdma_core_usable_caps;
	/*
	 * Newer kernels (seen in 7.2) give SoftRoCE on-demand paging, but it copies each packet to the
	 * beginning of the page instead of to its place. Bytes are acknowledged, flushed and read back, and
	 * yet are not there. tests/lab/odp.c shows it; see doc/durability.md.
	 */
	if (attr->orig_attr.vendor_id == VENDOR_SOFTROCE)
		attr->odp_caps = (struct ibv_odp_caps){ 0 };
	return 0;
}

static int
query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port_num, attr);
}

static struct ibv_mr *
reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr(pd, addr, length, (unsigned)access);
}

static int
advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list,
	uint32_t num_sge)
{
	return ibv_advise_mr(pd, advice, flags, sg_list, num_sge);
}

const struct rdma_api rpmai_rdma_core = {
	.name = "rdma-core",
	.is_soft = false,
	.read_flushes = true,
	.writes_are_visible = false,
	/* the length travels in 32 bits: providers truncate it, flush that much, and acknowledge */
	.flush_max = UINT32_MAX,
	.connect_data_max = CONNECT_DATA_MAX,
	.accept_data_max = ACCEPT_DATA_MAX,
	.reject_data_max = REJECT_DATA_MAX,
	.pads_private_data = true,

	.getaddrinfo = rdma_getaddrinfo,
	.freeaddrinfo = rdma_freeaddrinfo,
	.get_devices = rdma_get_devices,
	.free_devices = rdma_free_devices,
	.create_event_channel = rdma_create_event_channel,
	.destroy_event_channel = rdma_destroy_event_channel,
	.create_id = rdma_create_id,
	.destroy_id = rdma_destroy_id,
	.bind_addr = rdma_bind_addr,
	.resolve_addr = rdma_resolve_addr,
	.resolve_route = rdma_resolve_route,
	.create_qp_ex = rdma_create_qp_ex,
	.destroy_qp = rdma_destroy_qp,
	.modify_qp = ibv_modify_qp,
	.connect = rdma_connect,
	.listen = rdma_listen,
	.accept = rdma_accept,
	.reject = rdma_reject,
	.disconnect = rdma_disconnect,
	.migrate_id = rdma_migrate_id,
	.get_cm_event = rdma_get_cm_event,
	.ack_cm_event = rdma_ack_cm_event,

	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = ibv_dereg_mr,
	.advise_mr = advise_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = ibv_create_srq,
	.destroy_srq = ibv_destroy_srq,
	.qp_to_qp_ex = ibv_qp_to_qp_ex,

	.wr_flush = rpmai_rdma_core_wr_flush,
};
