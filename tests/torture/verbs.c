/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * verbs.c -- the software device behind a table in which every call may fail
 *
 * A call that takes a resource fails before it takes it. A call that releases a resource releases it and then
 * reports a failure: otherwise the device itself would cause a leak.
 */

#include <errno.h>
#include <netdb.h>

#include "fault.h"
#include "peer.h"
#include "rdma.h"
#include "torture.h"

#define ERRNOS(...) ((const int[]){ __VA_ARGS__, 0 })
#define HITS(call, ...) (fault_hits(FAULT_VERBS, call, ERRNOS(__VA_ARGS__)))

static const struct rdma_api *soft;

/* -1 with this errno, or 0 for no error */
static int
by_errno(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

static int
faulty_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **res)
{
	int error = HITS("rdma_getaddrinfo", ENOMEM, ENODEV);

	return error ? by_errno(error) : soft->getaddrinfo(node, service, hints, res);
}

static struct rdma_event_channel *
faulty_create_event_channel(void)
{
	int error = HITS("rdma_create_event_channel", EMFILE, ENODEV, ENOMEM);

	return by_errno(error) ? NULL : soft->create_event_channel();
}

static int
faulty_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	int error = HITS("rdma_create_id", ENOMEM, ENODEV, EMFILE);

	return error ? by_errno(error) : soft->create_id(channel, id, context, ps);
}

static int
faulty_destroy_id(struct rdma_cm_id *id)
{
	int error = HITS("rdma_destroy_id", ENODEV, EINVAL);
	int ret = soft->destroy_id(id);

	return error ? by_errno(error) : ret;
}

static int
faulty_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int error = HITS("rdma_bind_addr", EADDRINUSE, ENODEV, EADDRNOTAVAIL);

	return error ? by_errno(error) : soft->bind_addr(id, addr);
}

static int
faulty_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	int error = HITS("rdma_resolve_addr", ETIMEDOUT, ENODEV, EHOSTUNREACH);

	return error ? by_errno(error) : soft->resolve_addr(id, src, dst, timeout_ms);
}

static int
faulty_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int error = HITS("rdma_resolve_route", ETIMEDOUT, EHOSTUNREACH);

	return error ? by_errno(error) : soft->resolve_route(id, timeout_ms);
}

static int
faulty_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error = HITS("rdma_create_qp_ex", ENOMEM, EINVAL, EOPNOTSUPP);

	return error ? by_errno(error) : soft->create_qp_ex(id, attr);
}

static int
faulty_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int error = HITS("rdma_connect", ENOMEM, EINVAL, ENODEV);

	return error ? by_errno(error) : soft->connect(id, param);
}

static int
faulty_listen(struct rdma_cm_id *id, int backlog)
{
	int error = HITS("rdma_listen", EADDRINUSE, ENODEV);

	return error ? by_errno(error) : soft->listen(id, backlog);
}

static int
faulty_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int error = HITS("rdma_accept", ENOMEM, EINVAL, ECONNRESET);

	return error ? by_errno(error) : soft->accept(id, param);
}

static int
faulty_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	int error = HITS("rdma_reject", EINVAL, ENOMEM);

	return error ? by_errno(error) : soft->reject(id, data, len);
}

static int
faulty_disconnect(struct rdma_cm_id *id)
{
	int error = HITS("rdma_disconnect", ENOTCONN, ENODEV);

	return error ? by_errno(error) : soft->disconnect(id);
}

static int
faulty_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	int error = HITS("rdma_migrate_id", ENOMEM, ENODEV);

	return error ? by_errno(error) : soft->migrate_id(id, channel);
}

static int
faulty_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int error = HITS("rdma_get_cm_event", ENODEV, EINTR, ENOMEM);

	return error ? by_errno(error) : soft->get_cm_event(channel, event);
}

static int
faulty_ack_cm_event(struct rdma_cm_event *event)
{
	int error = HITS("rdma_ack_cm_event", EINVAL);
	int ret = soft->ack_cm_event(event);

	return error ? by_errno(error) : ret;
}

static int
faulty_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr)
{
	int error = HITS("ibv_query_device_ex", ENOSYS, EINVAL);

	return error ? error : soft->query_device_ex(ctx, input, attr);
}

static int
faulty_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr)
{
	int error = HITS("ibv_query_port", EINVAL, ENODEV);

	return error ? error : soft->query_port(ctx, port_num, attr);
}

static struct ibv_pd *
faulty_alloc_pd(struct ibv_context *ctx)
{
	int error = HITS("ibv_alloc_pd", ENOMEM, ENODEV);

	return by_errno(error) ? NULL : soft->alloc_pd(ctx);
}

static int
faulty_dealloc_pd(struct ibv_pd *pd)
{
	int error = HITS("ibv_dealloc_pd", EIO);
	int ret = soft->dealloc_pd(pd);

	return error ? error : ret;
}

static struct ibv_mr *
faulty_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	int error = HITS("ibv_reg_mr", ENOMEM, EOPNOTSUPP, EINVAL, EFAULT);

	return by_errno(error) ? NULL : soft->reg_mr(pd, addr, len, access);
}

static int
faulty_dereg_mr(struct ibv_mr *mr)
{
	int error = HITS("ibv_dereg_mr", EIO);
	int ret = soft->dereg_mr(mr);

	return error ? error : ret;
}

static struct ibv_comp_channel *
faulty_create_comp_channel(struct ibv_context *ctx)
{
	int error = HITS("ibv_create_comp_channel", EMFILE, ENOMEM);

	return by_errno(error) ? NULL : soft->create_comp_channel(ctx);
}

static int
faulty_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int error = HITS("ibv_destroy_comp_channel", EIO);
	int ret = soft->destroy_comp_channel(channel);

	return error ? error : ret;
}

static struct ibv_cq *
faulty_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	int vector)
{
	int error = HITS("ibv_create_cq", ENOMEM, EINVAL);

	return by_errno(error) ? NULL : soft->create_cq(ctx, cqe, cq_context, channel, vector);
}

static int
faulty_destroy_cq(struct ibv_cq *cq)
{
	int error = HITS("ibv_destroy_cq", EIO);
	int ret = soft->destroy_cq(cq);

	return error ? error : ret;
}

static int
faulty_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int error = HITS("ibv_get_cq_event", EINTR, ENODEV);

	return error ? by_errno(error) : soft->get_cq_event(channel, cq, cq_context);
}

static struct ibv_srq *
faulty_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	int error = HITS("ibv_create_srq", ENOMEM, ENOSYS);

	return by_errno(error) ? NULL : soft->create_srq(pd, attr);
}

static int
faulty_destroy_srq(struct ibv_srq *srq)
{
	int error = HITS("ibv_destroy_srq", EIO);
	int ret = soft->destroy_srq(srq);

	return error ? error : ret;
}

static int (*soft_wr_complete)(struct ibv_qp_ex *qp);

static int
faulty_wr_complete(struct ibv_qp_ex *qp)
{
	int error = HITS("ibv_wr_complete", ENOMEM, EINVAL);

	if (error == 0)
		return soft_wr_complete(qp);
	ibv_wr_abort(qp);
	return error;
}

static struct ibv_qp_ex *
faulty_qp_to_qp_ex(struct ibv_qp *ibv_qp)
{
	struct ibv_qp_ex *qp = soft->qp_to_qp_ex(ibv_qp);

	soft_wr_complete = qp->wr_complete;
	qp->wr_complete = faulty_wr_complete;
	return qp;
}

/* like hardware without native flush and atomic write */
static int
plain_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr)
{
	int ret = faulty_query_device_ex(ctx, input, attr);

	if (ret == 0)
		attr->device_cap_flags_ex &= ~(uint64_t)(RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT |
			RPMAI_CAP_ATOMIC_WRITE);
	return ret;
}

static void
fill(struct rdma_api *api)
{
	*api = *soft;
	api->getaddrinfo = faulty_getaddrinfo;
	api->create_event_channel = faulty_create_event_channel;
	api->create_id = faulty_create_id;
	api->destroy_id = faulty_destroy_id;
	api->bind_addr = faulty_bind_addr;
	api->resolve_addr = faulty_resolve_addr;
	api->resolve_route = faulty_resolve_route;
	api->create_qp_ex = faulty_create_qp_ex;
	api->connect = faulty_connect;
	api->listen = faulty_listen;
	api->accept = faulty_accept;
	api->reject = faulty_reject;
	api->disconnect = faulty_disconnect;
	api->migrate_id = faulty_migrate_id;
	api->get_cm_event = faulty_get_cm_event;
	api->ack_cm_event = faulty_ack_cm_event;
	api->query_device_ex = faulty_query_device_ex;
	api->query_port = faulty_query_port;
	api->alloc_pd = faulty_alloc_pd;
	api->dealloc_pd = faulty_dealloc_pd;
	api->reg_mr = faulty_reg_mr;
	api->dereg_mr = faulty_dereg_mr;
	api->create_comp_channel = faulty_create_comp_channel;
	api->destroy_comp_channel = faulty_destroy_comp_channel;
	api->create_cq = faulty_create_cq;
	api->destroy_cq = faulty_destroy_cq;
	api->get_cq_event = faulty_get_cq_event;
	api->create_srq = faulty_create_srq;
	api->destroy_srq = faulty_destroy_srq;
	api->qp_to_qp_ex = faulty_qp_to_qp_ex;
}

int
faulty_peer_new(struct ibv_context *ctx, bool read_flushes, struct rpma_peer **peer)
{
	static struct rdma_api native, plain;

	soft = rpmai_rdma_soft();
	fill(&native);
	fill(&plain);
	plain.is_soft = false;
	plain.read_flushes = true;
	plain.query_device_ex = plain_query_device_ex;
	return rpmai_peer_new(read_flushes ? &plain : &native, ctx, peer);
}
