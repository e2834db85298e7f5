/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * rdma.h -- the seam between the library and a device: struct rdma_api
 *
 * The table holds the control calls of libibverbs and librdmacm that the library makes, as function pointers.
 * A member has the name (without the prefix), the signature and the meaning of its original. rdma_core.c
 * fills the table with the originals, rdma_soft.c with the software device, and unit tests with mocks. The
 * verbs headers define the other calls inline (ibv_post_send, ibv_wr_*, ibv_post_recv, ibv_post_srq_recv,
 * ibv_poll_cq, ibv_req_notify_cq). These reach the device through the objects themselves and are called
 * directly.
 *
 * Unless stated otherwise, members are never NULL. Any thread may call them, several threads at once, with no
 * lock of the library held. Objects belong to the caller, which returns them by the matching destroy call.
 * "errno": the call returns -1 or NULL and sets errno; "errnum": it returns 0 or a positive errno value.
 */

#ifndef RPMAI_RDMA_H
#define RPMAI_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* values of the verbs ABI that older headers do not name (rdma-core 44) */
#define RPMAI_ACCESS_FLUSH_GLOBAL (1 << 8)
#define RPMAI_ACCESS_FLUSH_PERSISTENT (1 << 9)
#define RPMAI_CAP_FLUSH_GLOBAL (1ULL << 38)
#define RPMAI_CAP_FLUSH_PERSISTENT (1ULL << 39)
#define RPMAI_CAP_ATOMIC_WRITE (1ULL << 40)
#define RPMAI_QP_EX_WITH_FLUSH (1ULL << 11)
#define RPMAI_QP_EX_WITH_ATOMIC_WRITE (1ULL << 12)
#define RPMAI_WR_FLUSH 14
#define RPMAI_WR_ATOMIC_WRITE 15
#define RPMAI_WC_FLUSH 8
#define RPMAI_WC_ATOMIC_WRITE 9
#define RPMAI_FLUSH_GLOBAL (1 << 0)     /* placement type: visible to all readers of the target */
#define RPMAI_FLUSH_PERSISTENT (1 << 1) /* placement type: survives a power failure of the target */

struct softrdma_credentials; /* known to the device only */

#define RPMAI_FLUSH_TIMES 24

/* what a device has counted in a protection domain that the library cannot see; made of uint64_t only */
struct rdma_served {
	uint64_t reads, writes, atomics, flushes, sends; /* executed for other sides */
	uint64_t bytes_read, bytes_written, bytes_sent;
	uint64_t refused_invalid, refused_access, refused_failed; /* requests of other sides */
	uint64_t crc_errors;
	uint64_t flush_ns; /* how long it took to make memory durable for other sides */
	uint64_t flush_times
		[RPMAI_FLUSH_TIMES]; /* how often less than 2^i us, and not less than half of that */
};

struct rdma_api {
	/* ---- properties of the device ---- */

	/* for log lines */
	const char *name;
	/*
	 * True for the software device. Its differences from hardware are told to the user; the library never
	 * branches on them.
	 */
	bool is_soft;
	/*
	 * True if a READ pushes earlier WRITEs of the connection to where they are visible (and durable, if
	 * the target writes directly to persistent memory). True for hardware; the software device has FLUSH
	 * for what is to be durable.
	 */
	bool read_flushes;
	/*
	 * True if a WRITE is visible to the target's program as soon as it is executed, so that the response to
	 * any later request shows it. True for the software device, which writes with the target's processor.
	 */
	bool writes_are_visible;
	/* most bytes of one FLUSH */
	uint64_t flush_max;
	/* most bytes of private data in a connection request, an acceptance and a rejection */
	uint8_t connect_data_max;
	uint8_t accept_data_max;
	uint8_t reject_data_max;
	/* true if private data arrives padded with zeros to the most bytes */
	bool pads_private_data;

	/*
	 * True if the process inherited the context from its parent, by fork(2). Then every call with an
	 * object made with the context fails. May be called with any lock held. NULL if the device cannot
	 * tell.
	 */
	bool (*is_inherited)(const struct ibv_context *context);

	/* number of arrivals that were damaged on the way; NULL if the device does not count them */
	uint64_t (*crc_errors)(struct ibv_qp *qp);

	/*
	 * What the domain's queue pairs have counted, also those that are destroyed. NULL if the device does not count
	 * it for one domain.
	 */
	void (*get_served)(struct ibv_pd *pd, struct rdma_served *served);

	/*
	 * Loads TLS credentials from PEM files, for ids that neither listen nor connect yet. If *credentials is
	 * not NULL, replaces its contents, for connections that begin from then on, also on listening ids. The code
	 * that made the credentials also puts them. NULL if the device has no TLS. errnum.
	 */
	int (*credentials_load)(const char *cert_file, const char *key_file, const char *ca_file,
		struct softrdma_credentials **credentials);
	void (*credentials_put)(struct softrdma_credentials *credentials);
	void (*set_credentials)(struct rdma_cm_id *id, struct softrdma_credentials *credentials);

	/* ---- addresses and connections ---- */

	/* 0; or -1 with errno, or an EAI_* value with errno 0. May block on name resolution. */
	int (*getaddrinfo)(const char *node, const char *service, const struct rdma_addrinfo *hints,
		struct rdma_addrinfo **res);
	void (*freeaddrinfo)(struct rdma_addrinfo *res);

	/*
	 * Returns a NULL-terminated list of the opened devices; give it back to free_devices. The contexts
	 * stay open. NULL where binding a wildcard address already gives a context. errno.
	 */
	struct ibv_context **(*get_devices)(int *num_devices);
	void (*free_devices)(struct ibv_context **list);

	/* one per endpoint and one per connection; destroy it after the ids that use it. errno. */
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);

	/*
	 * If channel is NULL, then bind_addr, resolve_addr and resolve_route of this id block until they are
	 * done; migrate_id ends that. Before destroy_id, destroy the queue pair and acknowledge all events of
	 * the id: destroy_id waits for events that are not acknowledged. A passive id (from a CONNECT_REQUEST
	 * event) belongs to the code that took the event. errno.
	 */
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);

	/*
	 * Sets id->qp. Fails with EINVAL if attr->pd is of another device than the id. Call destroy_qp before
	 * destroy_id. errno.
	 */
	int (*create_qp_ex)(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
	void (*destroy_qp)(struct rdma_cm_id *id);

	/* errnum */
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

	/* each starts an action that ends with an event on the id's channel; conn_param is copied. errno. */
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
	int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
	int (*disconnect)(struct rdma_cm_id *id);

	/*
	 * Moves the id and its queued events to another channel. Blocks while an event of the id is not
	 * acknowledged. errno.
	 */
	int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *channel);

	/*
	 * Blocks unless channel->fd is O_NONBLOCK. ack_cm_event frees the event and its private data. errno.
	 */
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);

	/* ---- devices, memory, queues ---- */

	/* errnum */
	int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		struct ibv_device_attr_ex *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);

	/* alloc and reg: errno; dealloc (EBUSY while something uses it), dereg and advise: errnum */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		struct ibv_sge *sg_list, uint32_t num_sge);

	/* create: errno; destroy: errnum. A channel is destroyed after its completion queues. */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);

	/* destroy_cq waits for events that are not acknowledged */
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
		struct ibv_comp_channel *channel, int comp_vector);
	int (*destroy_cq)(struct ibv_cq *cq);

	/* blocks unless channel->fd is O_NONBLOCK. errno. */
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);

	/* create: errno; destroy: errnum (EBUSY while a queue pair uses it) */
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);

	/* NULL if the queue pair was made without extended operations; called once for each queue pair */
	struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);

	/* ---- data path ---- */

	/*
	 * As ibv_wr_flush of a range, between ibv_wr_start and ibv_wr_complete: some releases of the headers
	 * do not have it. type is RPMAI_FLUSH_GLOBAL or RPMAI_FLUSH_PERSISTENT. Only for queue pairs of
	 * devices whose query_device_ex reports both RPMAI_CAP_FLUSH_* bits.
	 */
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type);
};

/* RDMA devices, through libibverbs and librdmacm */
extern const struct rdma_api rpmai_rdma_core;

/*
 * The data-path member of rpmai_rdma_core, and the capabilities (device_cap_flags_ex) that these headers can
 * use. The library hides all other capabilities of a device.
 */
void rpmai_rdma_core_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
	uint8_t type);
extern const uint64_t rpmai_rdma_core_usable_caps;

/* the software device, which logs to the log of the library */
const struct rdma_api *rpmai_rdma_soft(void);

/* the table for a context of either device */
const struct rdma_api *rpmai_rdma_api_of(const struct ibv_context *ctx);

#endif /* RPMAI_RDMA_H */
