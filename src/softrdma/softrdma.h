/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * softrdma.h -- the software device: RDMA over TCP, inside the process
 *
 * Each function has the signature and the meaning of the libibverbs or librdmacm function whose name follows
 * the prefix: softrdma_ibv_reg_mr() is ibv_reg_mr(), softrdma_rdma_listen() is rdma_listen(). Functions that are
 * inline in the verbs headers (ibv_post_send, ibv_poll_cq, ibv_query_device_ex, ...) call the device through its
 * objects.
 *
 * The device depends on verbs only, not on its users. Clock, random numbers and log come from struct softrdma_env.
 */

#ifndef SOFTRDMA_H
#define SOFTRDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* values of the verbs ABI that older headers do not name (rdma-core 44) */
#define SOFTRDMA_ACCESS_FLUSH_GLOBAL (1 << 8)
#define SOFTRDMA_ACCESS_FLUSH_PERSISTENT (1 << 9)
#define SOFTRDMA_CAP_FLUSH_GLOBAL (1ULL << 38)
#define SOFTRDMA_CAP_FLUSH_PERSISTENT (1ULL << 39)
#define SOFTRDMA_CAP_ATOMIC_WRITE (1ULL << 40)
#define SOFTRDMA_WC_FLUSH 8
#define SOFTRDMA_WC_ATOMIC_WRITE 9
#define SOFTRDMA_FLUSH_GLOBAL (1 << 0)     /* placement type: visible to all readers of the target */
#define SOFTRDMA_FLUSH_PERSISTENT (1 << 1) /* placement type: survives a power failure of the target */
/* RoCE v2 in libibverbs' ibv_query_gid_type(); the header with that name is not installed */
#define SOFTRDMA_GID_TYPE_SYSFS_ROCE_V2 1

enum softrdma_log_level {
	SOFTRDMA_LOG_ERROR = 1,
	SOFTRDMA_LOG_WARNING = 2,
	SOFTRDMA_LOG_NOTICE = 3,
	SOFTRDMA_LOG_INFO = 4,
	SOFTRDMA_LOG_DEBUG = 5,
};

/* what the device needs from outside; simulations and the library that embeds the device replace it */
struct softrdma_env {
	/* monotonic time in nanoseconds; any thread */
	uint64_t (*now_ns)(void);
	/* fills buf with len unpredictable bytes; 0 or an errno value; any thread */
	int (*random)(void *buf, size_t len);
	/*
	 * Logs one complete sentence without a newline. The text never contains keys, addresses of memory or
	 * payload. Any thread, also one that holds locks of the device: the function must not call the device.
	 */
	void (*log)(enum softrdma_log_level level, const char *file, int line, const char *func,
		const char *text);
	/* appended to a log line about a refused connection, so that an embedder can name its own settings */
	const char *refused_hint;
	/*
	 * How many milliseconds a client retries if there is no listener. Hardware needs milliseconds to find the
	 * route, and some programs start the server's listener while the client connects.
	 */
	unsigned refused_patience_ms;
};

/*
 * Replaces these for the whole process; members that are NULL or 0 stay as they were. Call it before any other
 * function of the device.
 */
void softrdma_set_env(const struct softrdma_env *env);

/* true if the context belongs to the software device */
bool softrdma_owns(const struct ibv_context *context);

/* libibverbs */
int softrdma_ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr);
int softrdma_ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
int softrdma_ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);
/* _ibv_query_gid_ex and _ibv_query_gid_table, which the inline functions call */
int softrdma_ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
ssize_t softrdma_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
	size_t max_entries, uint32_t flags, size_t entry_size);
int softrdma_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
	unsigned int *type);
int softrdma_ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
int softrdma_ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);
struct ibv_pd *softrdma_ibv_alloc_pd(struct ibv_context *context);
int softrdma_ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *softrdma_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int softrdma_ibv_dereg_mr(struct ibv_mr *mr);
int softrdma_ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_comp_channel *softrdma_ibv_create_comp_channel(struct ibv_context *context);
int softrdma_ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *softrdma_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *softrdma_ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int softrdma_ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int softrdma_ibv_destroy_cq(struct ibv_cq *cq);
int softrdma_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void softrdma_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);
struct ibv_ah *softrdma_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int softrdma_ibv_destroy_ah(struct ibv_ah *ah);
int softrdma_ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
	struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *softrdma_ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
	uint8_t port_num);
struct ibv_srq *softrdma_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init);
int softrdma_ibv_destroy_srq(struct ibv_srq *srq);
/* for queue pairs that the application moves through their states itself, without the connection manager */
struct ibv_qp *softrdma_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init_attr);
struct ibv_qp *softrdma_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init_attr);
int softrdma_ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_qp_ex *softrdma_ibv_qp_to_qp_ex(struct ibv_qp *qp);
/* number of times that data for the queue pair arrived damaged; any thread */
uint64_t softrdma_crc_errors(struct ibv_qp *qp);
int softrdma_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int softrdma_ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
	struct ibv_qp_init_attr *init_attr);

/* kinds of operations; an atomic write is an atomic */
enum softrdma_stats_operation {
	SOFTRDMA_STATS_SEND,
	SOFTRDMA_STATS_WRITE,
	SOFTRDMA_STATS_READ,
	SOFTRDMA_STATS_ATOMIC,
	SOFTRDMA_STATS_FLUSH,
	SOFTRDMA_STATS_OPERATIONS,
};

/* reasons for which a responder refuses a request */
enum softrdma_stats_refusal {
	SOFTRDMA_STATS_INVALID, /* longer than the receive, not aligned, too many reads, a kind that is not allowed */
	SOFTRDMA_STATS_ACCESS,    /* wrong key, range or right */
	SOFTRDMA_STATS_OPERATION, /* a flush failed, or memory vanished */
	SOFTRDMA_STATS_GONE,      /* the queue pair was in error already */
	SOFTRDMA_STATS_REFUSALS,
};

/* why datagrams were dropped */
enum softrdma_stats_drop {
	SOFTRDMA_STATS_NO_RECEIVE, /* none was posted, or the queue pair has failed */
	SOFTRDMA_STATS_TOO_LONG,   /* for the oldest receive */
	SOFTRDMA_STATS_QKEY,       /* another one than the queue pair's */
	SOFTRDMA_STATS_DAMAGED,    /* the check sum is wrong */
	SOFTRDMA_STATS_FOREIGN, /* none of the device's, for another queue pair or address, or not from where it says */
	SOFTRDMA_STATS_UNSENT, /* the system did not take it from this side */
	SOFTRDMA_STATS_DROPS,
};

/* times of flushes: times[i] counts those that took less than 2^i us and not less than 2^(i-1); the last one also all longer */
#define SOFTRDMA_STATS_FLUSH_TIMES 24

/* what queue pairs have counted; made of uint64_t only */
struct softrdma_stats {
	uint64_t connections; /* made so far */
	uint64_t connections_ended;
	uint64_t crc_errors; /* arrivals that were damaged on the way */
	/* requests that this side has issued and that have succeeded, and requests of peers that it has served */
	struct softrdma_stats_side {
		uint64_t operations[SOFTRDMA_STATS_OPERATIONS];
		uint64_t bytes[SOFTRDMA_STATS_OPERATIONS]; /* payload; of a flush those of its range */
		uint64_t refused[SOFTRDMA_STATS_REFUSALS]; /* by the peer, and by this side */
	} issued, served;
	uint64_t failed; /* requests of this side with another status than success */
	/* how long it took to make memory of this side durable for peers */
	uint64_t flush_ns;
	uint64_t flush_times[SOFTRDMA_STATS_FLUSH_TIMES];
	uint64_t dropped[SOFTRDMA_STATS_DROPS]; /* unreliable datagrams */
};

/* what all queue pairs of a protection domain have counted, also those that are destroyed. Any thread. */
void softrdma_get_stats(struct ibv_pd *pd, struct softrdma_stats *stats);

/*
 * Forgets the port's GIDs; the next open of the device makes new ones. To be called after the last user has closed
 * the device. Queue pairs that still exist are not affected.
 */
void softrdma_release_gids(void);

/*
 * ibv_wr_flush() of a range, for programs built with headers that lack it. Call it between ibv_wr_start and
 * ibv_wr_complete. type is SOFTRDMA_FLUSH_GLOBAL or SOFTRDMA_FLUSH_PERSISTENT.
 */
void softrdma_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type);

/*
 * Makes credentials for TLS from files in PEM: a certificate (and those that lead to the CA), its key, and the CA
 * whose certificates are trusted. Both sides need credentials. An id without credentials uses those of the
 * environment. If *credentials is not NULL, it gets these contents: ids that have it, also those that listen, use them
 * for each connection that begins from then on. 0, or an errno value (EOPNOTSUPP in a build without TLS), and
 * *credentials is as it was; a log line gives the reason. Any thread.
 */
struct softrdma_credentials;
int softrdma_credentials_load(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_credentials **credentials);
/* releases the caller's reference; ids that use the credentials hold their own. credentials may be NULL. */
void softrdma_credentials_put(struct softrdma_credentials *credentials);
/* sets credentials for the id's connection, or for those that it listens for; call it before connect or listen */
void softrdma_rdma_set_credentials(struct rdma_cm_id *id, struct softrdma_credentials *credentials);

/* librdmacm */
int softrdma_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **res);
void softrdma_rdma_freeaddrinfo(struct rdma_addrinfo *res);
struct rdma_event_channel *softrdma_rdma_create_event_channel(void);
void softrdma_rdma_destroy_event_channel(struct rdma_event_channel *channel);
/* an id of RDMA_PS_UDP asks for queue pairs of datagrams; EOPNOTSUPP where there are none (SOFTRDMA_UD, TLS) */
int softrdma_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps);
int softrdma_rdma_destroy_id(struct rdma_cm_id *id);
int softrdma_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int softrdma_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
	int timeout_ms);
int softrdma_rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
/* RDMA_PS_UDP: the queue pair is of the type IBV_QPT_UD, and in RTS with RDMA_UDP_QKEY */
int softrdma_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void softrdma_rdma_destroy_qp(struct rdma_cm_id *id);
/*
 * RDMA_PS_UDP: asks the server for its queue pair, and needs none of its own. ESTABLISHED has the answer in param.ud. Without
 * an answer comes UNREACHABLE, with a positive status of SIDR or a negative errno value; ADDR_ERROR, if this side's address has
 * no GID.
 */
int softrdma_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
int softrdma_rdma_listen(struct rdma_cm_id *id, int backlog);
/* RDMA_PS_UDP: answers with the id's queue pair, or with qp_num of the parameters (neither: EINVAL). No event follows. */
int softrdma_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
int softrdma_rdma_establish(struct rdma_cm_id *id);
int softrdma_rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int softrdma_rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
int softrdma_rdma_disconnect(struct rdma_cm_id *id);
/* RDMA_OPTION_ID_ACK_TIMEOUT, which only changes what ibv_query_qp shows */
int softrdma_rdma_set_ack_timeout(struct rdma_cm_id *id, uint8_t timeout);
/* RDMA_OPTION_ID_AFONLY: an IPv6 address of the id stands for IPv6 only. Before it is bound to one; else EINVAL. */
int softrdma_rdma_set_family_only(struct rdma_cm_id *id, bool only);
int softrdma_rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int softrdma_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int softrdma_rdma_ack_cm_event(struct rdma_cm_event *event);

#endif /* SOFTRDMA_H */
