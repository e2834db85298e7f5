/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* rdma_soft.c -- struct rdma_api through the software device: RDMA over TCP, in this process */

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "log.h"
#include "rdma.h"
#include "softrdma/base/fork.h"
#include "softrdma/softrdma.h"

#define PRIVATE_DATA_MAX UINT8_MAX

static_assert(RPMAI_ACCESS_FLUSH_GLOBAL == SOFTRDMA_ACCESS_FLUSH_GLOBAL, "one ABI");
static_assert(RPMAI_ACCESS_FLUSH_PERSISTENT == SOFTRDMA_ACCESS_FLUSH_PERSISTENT, "one ABI");
static_assert(RPMAI_CAP_FLUSH_GLOBAL == SOFTRDMA_CAP_FLUSH_GLOBAL, "one ABI");
static_assert(RPMAI_CAP_FLUSH_PERSISTENT == SOFTRDMA_CAP_FLUSH_PERSISTENT, "one ABI");
static_assert(RPMAI_CAP_ATOMIC_WRITE == SOFTRDMA_CAP_ATOMIC_WRITE, "one ABI");
static_assert(RPMAI_FLUSH_GLOBAL == SOFTRDMA_FLUSH_GLOBAL, "one ABI");
static_assert(RPMAI_FLUSH_PERSISTENT == SOFTRDMA_FLUSH_PERSISTENT, "one ABI");
static_assert(RPMAI_WC_FLUSH == SOFTRDMA_WC_FLUSH, "one ABI");
static_assert(RPMAI_WC_ATOMIC_WRITE == SOFTRDMA_WC_ATOMIC_WRITE, "one ABI");
static_assert((int)RPMA_LOG_LEVEL_ERROR == SOFTRDMA_LOG_ERROR, "one scale of levels");
static_assert((int)RPMA_LOG_LEVEL_DEBUG == SOFTRDMA_LOG_DEBUG, "one scale of levels");

static_assert(RPMAI_FLUSH_TIMES == SOFTRDMA_STATS_FLUSH_TIMES, "one histogram");

static void
get_served(struct ibv_pd *pd, struct rdma_served *served)
{
	struct softrdma_stats stats;
	softrdma_get_stats(pd, &stats);
	const struct softrdma_stats_side *side = &stats.served;
	*served = (struct rdma_served){
		.reads = side->operations[SOFTRDMA_STATS_READ],
		.writes = side->operations[SOFTRDMA_STATS_WRITE],
		.atomics = side->operations[SOFTRDMA_STATS_ATOMIC],
		.flushes = side->operations[SOFTRDMA_STATS_FLUSH],
		.sends = side->operations[SOFTRDMA_STATS_SEND],
		.bytes_read = side->bytes[SOFTRDMA_STATS_READ],
		.bytes_written = side->bytes[SOFTRDMA_STATS_WRITE],
		.bytes_sent = side->bytes[SOFTRDMA_STATS_SEND],
		.refused_invalid = side->refused[SOFTRDMA_STATS_INVALID],
		.refused_access = side->refused[SOFTRDMA_STATS_ACCESS],
		.refused_failed = side->refused[SOFTRDMA_STATS_OPERATION],
		.crc_errors = stats.crc_errors,
		.flush_ns = stats.flush_ns,
	};
	memcpy(served->flush_times, stats.flush_times, sizeof(served->flush_times));
}

static const struct rdma_api rdma_soft = {
	.name = "softrdma",
	.is_soft = true,
	.read_flushes = false,
	.writes_are_visible = true,
	.flush_max = UINT64_MAX,
	.connect_data_max = PRIVATE_DATA_MAX,
	.accept_data_max = PRIVATE_DATA_MAX,
	.reject_data_max = PRIVATE_DATA_MAX,
	.pads_private_data = false,

	.is_inherited = softrdma_is_inherited,
	.credentials_load = softrdma_credentials_load,
	.credentials_put = softrdma_credentials_put,
	.set_credentials = softrdma_rdma_set_credentials,

	.getaddrinfo = softrdma_rdma_getaddrinfo,
	.freeaddrinfo = softrdma_rdma_freeaddrinfo,
	.get_devices = NULL,
	.free_devices = NULL,
	.create_event_channel = softrdma_rdma_create_event_channel,
	.destroy_event_channel = softrdma_rdma_destroy_event_channel,
	.create_id = softrdma_rdma_create_id,
	.destroy_id = softrdma_rdma_destroy_id,
	.bind_addr = softrdma_rdma_bind_addr,
	.resolve_addr = softrdma_rdma_resolve_addr,
	.resolve_route = softrdma_rdma_resolve_route,
	.create_qp_ex = softrdma_rdma_create_qp_ex,
	.destroy_qp = softrdma_rdma_destroy_qp,
	.modify_qp = softrdma_ibv_modify_qp,
	.connect = softrdma_rdma_connect,
	.listen = softrdma_rdma_listen,
	.accept = softrdma_rdma_accept,
	.reject = softrdma_rdma_reject,
	.disconnect = softrdma_rdma_disconnect,
	.migrate_id = softrdma_rdma_migrate_id,
	.get_cm_event = softrdma_rdma_get_cm_event,
	.ack_cm_event = softrdma_rdma_ack_cm_event,

	.query_device_ex = softrdma_ibv_query_device_ex,
	.query_port = softrdma_ibv_query_port,
	.alloc_pd = softrdma_ibv_alloc_pd,
	.dealloc_pd = softrdma_ibv_dealloc_pd,
	.reg_mr = softrdma_ibv_reg_mr,
	.dereg_mr = softrdma_ibv_dereg_mr,
	.advise_mr = softrdma_ibv_advise_mr,
	.create_comp_channel = softrdma_ibv_create_comp_channel,
	.destroy_comp_channel = softrdma_ibv_destroy_comp_channel,
	.create_cq = softrdma_ibv_create_cq,
	.destroy_cq = softrdma_ibv_destroy_cq,
	.get_cq_event = softrdma_ibv_get_cq_event,
	.ack_cq_events = softrdma_ibv_ack_cq_events,
	.create_srq = softrdma_ibv_create_srq,
	.destroy_srq = softrdma_ibv_destroy_srq,
	.qp_to_qp_ex = softrdma_ibv_qp_to_qp_ex,
	.crc_errors = softrdma_crc_errors,
	.get_served = get_served,

	.wr_flush = softrdma_wr_flush,
};

static void
log_for_device(enum softrdma_log_level level, const char *file, int line, const char *func, const char *text)
{
	rpmai_log((enum rpma_log_level)level, file, line, func, "%s", text);
}

static void
connect_device(void)
{
	static const struct softrdma_env env = {
		.log = log_for_device,
		/*
		 * message(connect): the end of messages about servers that do not answer as expected ->
		 * Both sides must use the same kind of device.
		 */
		.refused_hint = "the server may listen on RDMA hardware instead: see RPMA_DEVICE",
	};
	/*
	 * Before the device: fork handlers run in reverse order, so the log is locked last and the device may
	 * still log
	 */
	rpmai_log_prepare();
	softrdma_set_env(&env);
}

const struct rdma_api *
rpmai_rdma_soft(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, connect_device);
	return &rdma_soft;
}

const struct rdma_api *
rpmai_rdma_api_of(const struct ibv_context *ctx)
{
	const struct rdma_api *soft = rpmai_rdma_soft();
	return softrdma_owns(ctx) ? soft : &rpmai_rdma_core;
}
