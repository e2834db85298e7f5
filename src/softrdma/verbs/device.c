/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* device.c -- the device itself: its context, its attributes, and the registration of memory regions */

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/variables.h"
#include "softrdma/bounds.h"
#include "softrdma/core/memory.h"
#include "softrdma/core/recv_queue.h"
#include "softrdma/engine/revoke.h"
#include "softrdma/faults/fault_plan.h"
#include "softrdma/samehost/registry.h"
#include "softrdma/verbs/completion.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/domain.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/qp.h"
#include "softrdma/verbs/srq.h"

/* newer headers append members to struct ibv_device; programs built with them find zeros there */
static union {
	struct ibv_device device;
	char room[4096];
} the_device = {
	.device = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = "softrdma0",
		.dev_name = "softrdma0",
		/* the path does not exist, so programs that look for attributes in sysfs find none */
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
	strncpy(orig->fw_ver, SOFTRDMA_VERSION, sizeof(orig->fw_ver) - 1);
	orig->node_guid = orig->sys_image_guid = htobe64(SOFTRDMA_NODE_GUID);
	orig->vendor_id = SOFTRDMA_VENDOR_ID;
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
	orig->max_ah = INT32_MAX;
	orig->max_qp_rd_atom = SOFTRDMA_RD_ATOM_MAX;
	orig->max_qp_init_rd_atom = SOFTRDMA_RD_ATOM_MAX;
	orig->max_res_rd_atom = INT32_MAX;
	/* the atomics are atomic with the processors' too (IBV_ATOMIC_GLOB), but programs expect the value of hardware */
	orig->atomic_cap = IBV_ATOMIC_HCA;
	orig->max_srq = 0xffffff;
	orig->max_srq_wr = SOFTRDMA_WR_MAX;
	orig->max_srq_sge = SOFTRDMA_SGE_MAX;
	orig->max_pkeys = 1;
	orig->phys_port_cnt = 1;
	full.phys_port_cnt_ex = 1;
	full.device_cap_flags_ex =
		SOFTRDMA_CAP_FLUSH_GLOBAL | SOFTRDMA_CAP_FLUSH_PERSISTENT | SOFTRDMA_CAP_ATOMIC_WRITE;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

static int
query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t attr_len)
{
	SOFTRDMA_NO_CANCEL;
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

/* the context of a parent gets these functions in a forked child: see fork.h */
static int
refuse_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	(void)cq;
	(void)num_entries;
	(void)wc;
	return -softrdma_fork_refuse("ibv_poll_cq");
}

static int
refuse_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return softrdma_fork_refuse("ibv_req_notify_cq");
}

static int
refuse_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)srq;
	*bad_wr = wr;
	return softrdma_fork_refuse("ibv_post_srq_recv");
}

static int
refuse_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	*bad_wr = wr;
	return softrdma_fork_refuse("ibv_post_send");
}

static int
refuse_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)qp;
	*bad_wr = wr;
	return softrdma_fork_refuse("ibv_post_recv");
}

static const struct ibv_context_ops ops_of_parent = {
	.poll_cq = refuse_poll_cq,
	.req_notify_cq = refuse_req_notify_cq,
	.post_srq_recv = refuse_post_srq_recv,
	.post_send = refuse_post_send,
	.post_recv = refuse_post_recv,
};

static const struct verbs_context new_context = {
	.query_port = query_port,
	.advise_mr = softrdma_ibv_advise_mr,
	.alloc_parent_domain = softrdma_ibv_alloc_parent_domain,
	.dealloc_td = softrdma_ibv_dealloc_td,
	.alloc_td = softrdma_ibv_alloc_td,
	.modify_cq = softrdma_ibv_modify_cq,
	.create_cq_ex = softrdma_ibv_create_cq_ex,
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

static softrdma_create_qp_ex *create_qp_ex;

void
softrdma_device_makes_qps(softrdma_create_qp_ex *create)
{
	create_qp_ex = create;
}

struct device_context {
	struct verbs_context verbs;
	struct device_context *of_parent; /* NULL: the parent had no context */
};

/* the context of a process whose parent had none: needs no allocation, so it cannot fail */
static struct device_context first_context;

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_context *contexts; /* this process's own, if there is one, then its parent's and so on */
static struct ibv_context *_Atomic own_context; /* NULL: not made yet; set once in the life of the process */

/* the caller holds the lock; NULL: no memory */
static struct ibv_context *
make_context(void)
{
	struct device_context *made = contexts ? malloc(sizeof(*made)) : &first_context;
	if (made == NULL)
		return NULL;
	if (contexts == NULL)
		softrdma_variables_check();
	made->verbs = new_context;
	made->verbs.create_qp_ex = create_qp_ex;
	made->of_parent = contexts;
	contexts = made;
	softrdma_fork_prepare_for();
	softrdma_fork_owns(&made->verbs.context);
	return &made->verbs.context;
}

struct ibv_context *
softrdma_context(void)
{
	struct ibv_context *context = atomic_load_explicit(&own_context, memory_order_acquire);
	if (context)
		return context;
	pthread_mutex_lock(&context_lock);
	if (own_context == NULL)
		atomic_store_explicit(&own_context, make_context(), memory_order_release);
	context = own_context;
	pthread_mutex_unlock(&context_lock);
	return context;
}

struct ibv_device *
softrdma_device(void)
{
	return &the_device.device;
}

static void
after_fork(void)
{
	if (own_context)
		own_context->ops = ops_of_parent;
	own_context = NULL;
	context_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_DEVICE, .in_child = after_fork);

bool
softrdma_owns(const struct ibv_context *context)
{
	pthread_mutex_lock(&context_lock);
	const struct device_context *at = contexts;
	while (at && &at->verbs.context != context)
		at = at->of_parent;
	pthread_mutex_unlock(&context_lock);
	return at != NULL;
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

struct ibv_mr *
softrdma_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_is_inherited(pd->context)) {
		errno = softrdma_fork_refuse("ibv_reg_mr");
		return NULL;
	}
	struct softrdma_mr *mr = softrdma_mr_new(pd, addr, length, access);
	if (mr == NULL)
		return NULL;
	softrdma_registry_show(mr);
	return &mr->mr;
}

int
softrdma_ibv_dereg_mr(struct ibv_mr *ibv_mr)
{
	SOFTRDMA_NO_CANCEL;
	if (softrdma_is_inherited(ibv_mr->context))
		return softrdma_fork_refuse("ibv_dereg_mr");
	struct softrdma_mr *mr = (struct softrdma_mr *)ibv_mr;
	softrdma_mr_remove(mr);
	softrdma_registry_hide(mr);
	softrdma_revoke(mr);
	softrdma_mr_wait_for_flushes(mr);
	softrdma_registry_forget(mr);
	softrdma_mr_delete(mr);
	return 0;
}
