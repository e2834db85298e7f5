/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * missing.c -- calls that the device does not have: exported so that the real libraries never see its objects
 */

#include <errno.h>
#include <stddef.h>

#include "preload.h"
#include "softrdma/base/missing.h"

int
softrdma_preload_missing(const char *name)
{
	return softrdma_missing(name, "", SOFTRDMA_SEE_MANUAL);
}

/* for calls that return a pointer */
static void *
null_for(const char *name)
{
	errno = softrdma_preload_missing(name);
	return NULL;
}

/* for calls of the connection manager */
static int
minus_one_for(const char *name)
{
	return softrdma_cm_result(softrdma_preload_missing(name));
}

/* --- libibverbs --- */

struct ibv_context *
ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return null_for(__func__);
}

struct ibv_pd *
ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	(void)context;
	(void)pd_handle;
	return null_for(__func__);
}

void
ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
	softrdma_preload_missing(__func__);
}

struct ibv_mr *
ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	(void)pd;
	(void)mr_handle;
	return null_for(__func__);
}

void
ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
	softrdma_preload_missing(__func__);
}

struct ibv_dm *
ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	(void)context;
	(void)dm_handle;
	return null_for(__func__);
}

void
ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
	softrdma_preload_missing(__func__);
}

struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	return null_for(__func__);
}

/* the region stays unchanged */
int
ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr;
	(void)flags;
	(void)pd;
	(void)addr;
	(void)length;
	(void)access;
	errno = softrdma_preload_missing(__func__);
	return IBV_REREG_MR_ERR_INPUT;
}

int
ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return softrdma_preload_missing(__func__);
}

/* a limit would need asynchronous events, which the device does not have */
int
ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	(void)srq;
	(void)attr;
	(void)attr_mask;
	return softrdma_preload_missing(__func__);
}

int
ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return softrdma_preload_missing(__func__);
}

int
ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return softrdma_preload_missing(__func__);
}

int
ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
	uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	return softrdma_preload_missing(__func__);
}

int
ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return softrdma_preload_missing(__func__);
}

int
ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return softrdma_preload_missing(__func__);
}

/* --- librdmacm --- */

int
rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)id;
	(void)addr;
	(void)context;
	return minus_one_for(__func__);
}

int
rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
{
	(void)id;
	(void)mc_join_attr;
	(void)context;
	return minus_one_for(__func__);
}

int
rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id;
	(void)addr;
	return minus_one_for(__func__);
}

int
rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return minus_one_for(__func__);
}

int
rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return minus_one_for(__func__);
}

int
rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	(void)id;
	(void)private_data;
	(void)private_data_len;
	return minus_one_for(__func__);
}

int rsocket(int domain, int type, int protocol);

int
rsocket(int domain, int type, int protocol)
{
	(void)domain;
	(void)type;
	(void)protocol;
	return minus_one_for(__func__);
}
