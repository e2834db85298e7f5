/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.c -- the device itself: its context, what it can do, protection domains, memory regions */

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "completion.h"
#include "device.h"
#include "fault_plan.h"
#include "gid.h"
#include "io.h"
#include "bounds.h"
#include "memory.h"
#include "post.h"
#include "qp.h"
#include "recv_queue.h"

/* newer headers append to struct ibv_device; what they would find there is zero */
static union {
	struct ibv_device device;
	char room[4096];
} the_device = {
	.device = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = "softrdma0",
		.dev_name = "softrdma0",
		/* no such path: programs that look for attributes in sysfs find none */
		.dev_path = "/nonexistent/softrdma0",
		.ibdev_path = "/nonexistent/softrdma0",
	},
};

static int
query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t attr_size)
{
	(void)context;
	if (input && input->comp_mask)
		return EINVAL;
	struct ibv_device_attr_ex full;
	memset(&full, 0, sizeof(full));
	struct ibv_device_attr *orig = &full.orig_attr;
	strncpy(orig->fw_ver, "2.0.0", sizeof(orig->fw_ver) - 1);
	orig->node_guid = orig->sys_image_guid = htobe64(SOFTRDMA_NODE_GUID);
	orig->max_mr_size = UINT64_MAX;
	orig->page_size_cap = 0xfffffffffffff000u;
	orig->max_qp = 0xfffffe;
	orig->max_qp_wr = SOFTRDMA_WR_MAX;
	orig->max_sge = SOFTRDMA_SGE_MAX;
	orig->max_sge_rd = SOFTRDMA_SGE_MAX;
	orig->max_cq = 0xffffff;
	orig->max_cqe = SOFTRDMA_CQE_MAX;
	orig->max_mr = INT32_MAX;
	orig->max_pd = INT32_MAX;
	orig->max_qp_rd_atom = SOFTRDMA_RD_ATOM_MAX;
	orig->max_qp_init_rd_atom = SOFTRDMA_RD_ATOM_MAX;
	orig->max_res_rd_atom = INT32_MAX;
	orig->atomic_cap = IBV_ATOMIC_GLOB; /* with CPU atomics too */
	orig->max_srq = 0xffffff;
	orig->max_srq_wr = SOFTRDMA_WR_MAX;
	orig->max_srq_sge = SOFTRDMA_SGE_MAX;
	orig->max_pkeys = 1;
	orig->phys_port_cnt = 1;
	full.device_cap_flags_ex =
		SOFTRDMA_CAP_FLUSH_GLOBAL | SOFTRDMA_CAP_FLUSH_PERSISTENT | SOFTRDMA_CAP_ATOMIC_WRITE;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

static int
query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t attr_len)
{
	(void)context;
	if (port_num != 1)
		return EINVAL;
	struct ibv_port_attr full;
	memset(&full, 0, sizeof(full));
	full.state = IBV_PORT_ACTIVE;
	full.max_mtu = IBV_MTU_4096;
	full.active_mtu = IBV_MTU_4096;
	full.gid_tbl_len = (int)softrdma_gid_count();
	full.max_msg_sz = SOFTRDMA_MSG_MAX;
	full.pkey_tbl_len = 1;
	full.active_width = 1;
	full.active_speed = 1;
	full.phys_state = 5; /* link up */
	full.link_layer = IBV_LINK_LAYER_ETHERNET;
	memset(attr, 0, attr_len);
	memcpy(attr, &full, attr_len < sizeof(full) ? attr_len : sizeof(full));
	return 0;
}

static struct verbs_context the_context = {
	.query_port = query_port,
	.advise_mr = softrdma_ibv_advise_mr,
	.modify_cq = softrdma_ibv_modify_cq,
	.create_cq_ex = softrdma_ibv_create_cq_ex,
	.create_qp_ex = softrdma_ibv_create_qp_ex,
	.query_device_ex = query_device_ex,
	.sz = sizeof(struct verbs_context),
	.context = {
		.device = &the_device.device,
		.ops = {
			.poll_cq = softrdma_poll_cq,
			.req_notify_cq = softrdma_req_notify_cq,
			.post_srq_recv = softrdma_post_srq_recv,
			.post_send = softrdma_post_send,
			.post_recv = softrdma_post_recv,
		},
		.cmd_fd = -1,
		.async_fd = -1,
		.num_comp_vectors = 1,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.abi_compat = __VERBS_ABI_IS_EXTENDED,
	},
};

struct ibv_context *
softrdma_context(void)
{
	return &the_context.context;
}

bool
softrdma_owns(const struct ibv_context *context)
{
	return context == &the_context.context;
}

int
softrdma_ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr)
{
	return query_device_ex(context, input, attr, sizeof(*attr));
}

int
softrdma_ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	return query_port(context, port_num, attr, sizeof(*attr));
}

struct ibv_pd *
softrdma_ibv_alloc_pd(struct ibv_context *context)
{
	int ret = softrdma_fault_plan_read();
	if (ret) {
		errno = ret;
		return NULL;
	}
	struct softrdma_pd *pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->pd.context = context;
	return &pd->pd;
}

int
softrdma_ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (atomic_load(&softrdma_pd_of(pd)->users) > 0)
		return EBUSY;
	free(pd);
	return 0;
}

struct ibv_mr *
softrdma_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct softrdma_mr *mr = softrdma_mr_new(pd, addr, length, access);
	return mr ? &mr->mr : NULL;
}

int
softrdma_ibv_dereg_mr(struct ibv_mr *ibv_mr)
{
	struct softrdma_mr *mr = (struct softrdma_mr *)ibv_mr;
	softrdma_mr_remove(mr);
	softrdma_io_revoke(mr);
	softrdma_mr_delete(mr);
	return 0;
}
