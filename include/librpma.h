/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * librpma.h -- read, write and durably flush the memory of another machine over RDMA
 *
 * What holds for every call, unless its comment says otherwise:
 *
 * Errors. Zero is success; any other value is one of the negative RPMA_E_* values. A call that fails leaves
 * its outputs as they were. A NULL pointer is RPMA_E_INVAL, unless the comment says that the pointer is
 * optional. RPMA_E_PROVIDER: a call of libibverbs or librdmacm (or of the software device in their place)
 * failed; the log and rpma_errormsg say which and why.
 *
 * Objects. All are opaque. A call named *_new makes an object, and so does a call whose comment says that it
 * makes one. The call that takes a pointer to the pointer consumes the object: afterwards the object is gone
 * and the pointer is NULL, also when that call reports an error. That call accepts a pointer to NULL and does
 * nothing. A peer, a shared receive queue or registered memory must outlive the objects made from it.
 *
 * Threads. Calls on different objects run in parallel. Several threads may at once, on one object: call
 * getters, post operations (rpma_read to rpma_recv), create objects from a peer, use a configuration object,
 * wait for and collect completions. Only one thread at a time may use an endpoint or a connection request, or
 * call rpma_conn_next_event(_timed) of a connection. While an object is being deleted, no other call may be
 * running on it.
 *
 * Timeouts are in milliseconds of monotonic time; -1 waits for ever, 0 does not wait. They count whether the
 * descriptor is O_NONBLOCK or not. A signal ends a wait early, with the result of a timeout. If several
 * threads wait for one queue, either all of them wait with a timeout or none does.
 *
 * Descriptors. Those that *_get_*fd return are for poll, epoll and O_NONBLOCK. The library closes them.
 */

#ifndef LIBRPMA_H
#define LIBRPMA_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RPMA_W_WAIT_FOR_COMPLETION (1) /* kept for the programs that name it; no call uses it */
#define RPMA_W_NO_ARM (1 << 1)         /* of rpma_conn_wait: this call does not arm the queue */

#define RPMA_E_UNKNOWN (-100000)         /* a response that nothing explains */
#define RPMA_E_NOSUPP (-100001)          /* not supported by the device or by the other side */
#define RPMA_E_PROVIDER (-100002)        /* a call of libibverbs or librdmacm failed */
#define RPMA_E_NOMEM (-100003)           /* out of memory */
#define RPMA_E_INVAL (-100004)           /* invalid argument */
#define RPMA_E_NO_COMPLETION (-100005)   /* there is no completion */
#define RPMA_E_NO_EVENT (-100006)        /* there is no event */
#define RPMA_E_AGAIN (-100007)           /* no room at the moment: collect completions, then try again */
#define RPMA_E_SHARED_CHANNEL (-100008)  /* the completion channel is shared: use rpma_conn_wait */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the completion channel is not shared: use rpma_cq_wait */

#define RPMA_DEFAULT_TIMEOUT_MS 1000 /* to resolve an address, and again to resolve the route to it */

/* ---- utilities ---- */

/* on which side of the connection an address lies */
enum rpma_util_ibv_context_type {
	RPMA_UTIL_IBV_CONTEXT_LOCAL = 0,  /* the address belongs to this machine */
	RPMA_UTIL_IBV_CONTEXT_REMOTE = 1, /* this machine is to reach the address */
};

/* what rpma_conn_next_event reports */
enum rpma_conn_event {
	RPMA_CONN_UNDEFINED = -1,
	RPMA_CONN_ESTABLISHED = 0, /* operations may be posted */
	RPMA_CONN_CLOSED = 1,      /* disconnected, by either side; reported once */
	RPMA_CONN_LOST = 2,        /* the device went away or the connection could not be made */
	RPMA_CONN_REJECTED = 3,    /* the other side refused the connection */
	RPMA_CONN_UNREACHABLE = 4, /* the other side does not respond */
};

/*
 * Finds the device that an address belongs to (LOCAL) or is reached through (REMOTE). The environment
 * variable RPMA_DEVICE decides. "rdma": only RDMA devices. "soft": only the software device (RDMA over TCP,
 * in this process). "auto" or not set: an RDMA device if the address has one, else the software device, with
 * a WARNING in the log. The context belongs to the library and stays open. Any thread may call it.
 * RPMA_E_INVAL (also: wrong value of RPMA_DEVICE), RPMA_E_PROVIDER (no device)
 */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
	struct ibv_context **ibv_ctx_ptr);

/*
 * Sets *is_odp_capable to 1 if the device can register memory on demand (on-demand paging) for reads and for
 * writes, else 0. File-backed memory of file systems without long-term pinning needs on-demand paging. The
 * result is 0 on SoftRoCE, whose on-demand paging is not reliable. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* Sets *is_soft to 1 if the context is that of the software device, else 0. RPMA_E_INVAL */
int rpma_utils_ibv_context_is_soft(struct ibv_context *ibv_ctx, int *is_soft);

/* the event in words; never NULL, static storage */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* an RPMA_E_* value (or 0) in words; never NULL, static storage */
const char *rpma_err_2str(int ret);

/*
 * The last failure of this thread as a sentence: which call failed, its errno, what can be done. Never NULL;
 * valid until the thread's next call that fails. RPMA_E_NO_COMPLETION and RPMA_E_NO_EVENT are not failures.
 */
const char *rpma_errormsg(void);

/* ---- peer configuration ---- */

/* what a peer tells the other side about itself; sent as a descriptor */
struct rpma_peer_cfg;

/*
 * Makes a configuration with defaults: no direct write to persistent memory.
 * RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);

/* frees a configuration. RPMA_E_INVAL */
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/*
 * supported is true if data that the device writes into this peer's persistent memory is durable as soon as
 * it is visible: there is no cache in between (direct data I/O is switched off), or the platform flushes its
 * caches on a power failure. The library cannot check this promise of the machine's administrator. A false
 * promise loses data. RPMA_E_INVAL
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);

/* RPMA_E_INVAL */
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);

/*
 * Writes the descriptor (rpma_peer_cfg_get_descriptor_size bytes), to be sent to the other side. RPMA_E_INVAL
 */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);

/* size of the descriptor in bytes: 1. RPMA_E_INVAL */
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);

/*
 * Makes the configuration that another peer described. desc_size is the number of bytes at desc, at least 1;
 * bytes after the first are ignored. RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/* ---- peer ---- */

/* a device in use; everything else is made from it */
struct rpma_peer;

/*
 * Makes a peer of a device (rpma_utils_get_ibv_context).
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER, RPMA_E_UNKNOWN (the provider failed without a reason)
 */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);

/*
 * Frees a peer. Delete first the objects made from it. If a memory region, a request, a connection or a
 * shared receive queue is left, the call returns RPMA_E_PROVIDER. Those objects continue to work, and the
 * device's part of the peer ends with the last of them. Endpoints that are left give no further requests. The
 * pointer is NULL in any case. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/* what a device can do */
enum rpma_cap {
	RPMA_CAP_SOFT = 1 << 0,                /* it is the software device */
	RPMA_CAP_ODP = 1 << 1,                 /* on-demand paging, for reads and for writes */
	RPMA_CAP_NATIVE_FLUSH = 1 << 2,        /* FLUSH, to visibility and to persistence */
	RPMA_CAP_NATIVE_ATOMIC_WRITE = 1 << 3, /* ATOMIC WRITE */
	RPMA_CAP_ATOMICS = 1 << 4,             /* compare-and-swap, fetch-and-add */
};

/* *caps: enum rpma_cap, combined with |. RPMA_E_INVAL */
int rpma_peer_get_caps(const struct rpma_peer *peer, uint32_t *caps);

/*
 * Software device: sets TLS for the connections of this peer, instead of the settings of the environment
 * (softrdma(7)). The three files are in PEM: a certificate, its key, the CA whose certificates are trusted.
 * The other side needs the same kinds of files. Call it before rpma_ep_listen and rpma_conn_req_new. A later
 * call replaces the credentials for all connections that begin after it, also for those of endpoints that
 * have listened since an earlier call. The files are read in the call. RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_NOSUPP (the device has no TLS), RPMA_E_PROVIDER (a file cannot be used)
 */
int rpma_peer_set_tls(struct rpma_peer *peer, const char *cert_file, const char *key_file,
	const char *ca_file);

#define RPMA_FLUSH_TIMES 24

/* what a peer's connections have counted since it was made, also those that are deleted */
struct rpma_peer_stats {
	uint64_t size; /* of this structure in bytes; later versions add members at its end */
	/* connections that are established now, and that have been; requests that the program has refused */
	uint64_t connections_now, connections, refused_connections;
	/* operations that this side has posted, as in struct rpma_conn_stats */
	uint64_t reads, writes, atomics, flushes, sends, recvs;
	uint64_t bytes_read, bytes_written, bytes_sent;
	uint64_t completions, completion_errors;
	/*
	 * Software device: operations that the device has executed for other sides, without the program. RDMA hardware
	 * counts them elsewhere, and they are 0 here.
	 */
	uint64_t served_reads, served_writes, served_atomics, served_flushes, served_sends;
	uint64_t served_bytes_read, served_bytes_written, served_bytes_sent;
	/*
	 * Software device: operations of other sides that it has refused. Invalid ones are too long, not aligned, too
	 * many, or not allowed; of others the key, the range or the right was wrong; and others failed, for example
	 * flushes whose file could not be written.
	 */
	uint64_t refused_invalid, refused_access, refused_failed;
	uint64_t crc_errors; /* software device: how often incoming data was damaged */
	/*
	 * Software device: how long it took to make memory durable for other sides, in all, and how often it took less
	 * than 2^i us and not less than half of that. The last one also counts all that took longer.
	 */
	uint64_t flush_ns;
	uint64_t flush_times[RPMA_FLUSH_TIMES];
};

/*
 * Fills in the counters. Before the call, the caller sets stats->size to sizeof(struct rpma_peer_stats). The call
 * sets it to the number of bytes that it filled, and zeroes the counters that the library does not know. It looks at
 * all connections of the peer; counting itself takes no lock in the data path. RPMA_E_INVAL (also: size < 8)
 */
int rpma_peer_get_stats(struct rpma_peer *peer, struct rpma_peer_stats *stats);

struct rpma_conn; /* a connection, from the moment its request is sent or accepted */

/*
 * Finds the connection whose completions carry this number in ibv_wc.qp_num, among the peer's connections
 * that are not deleted. The pointer is valid until that connection is deleted. RPMA_E_INVAL (also: no such
 * connection)
 */
int rpma_peer_find_conn(struct rpma_peer *peer, uint32_t qp_num, struct rpma_conn **conn_ptr);

/* ---- memory regions ---- */

struct rpma_mr_local;  /* memory of this process, registered */
struct rpma_mr_remote; /* memory of the other side, as its descriptor describes it */

/* what registered memory is for; combined with | */
#define RPMA_MR_USAGE_READ_SRC (1 << 0)              /* the other side may read from it */
#define RPMA_MR_USAGE_READ_DST (1 << 1)              /* this side's reads put their results into it */
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)             /* this side's writes take their data from it */
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)             /* the other side may write to it */
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4) /* the other side may flush it to visibility */
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5) /* the other side may flush it to persistence */
#define RPMA_MR_USAGE_SEND (1 << 6)                  /* messages are sent from it */
#define RPMA_MR_USAGE_RECV (1 << 7)                  /* messages are received in it */

/*
 * Registers size bytes at ptr. The memory stays the caller's and must stay mapped until rpma_mr_dereg.
 * WRITE_DST together with READ_SRC also allows remote atomics, if the device has them. FLUSH_TYPE_* also
 * allows reading. If FLUSH_TYPE_PERSISTENT is asked for memory that cannot be made durable, the call still
 * registers it. Then the log has a WARNING, and the descriptor lacks that usage. RPMA_E_INVAL (also: size 0,
 * usage 0 or unknown bits), RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);

/*
 * Deregisters. After it returns, the device no longer touches the memory. No operation that uses the memory
 * may be outstanding. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

/*
 * Writes the descriptor (rpma_mr_get_descriptor_size bytes). The holder of a descriptor can use the memory as
 * the usage allows: it is a secret between the two sides. RPMA_E_INVAL
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);

/*
 * Size of the descriptor in bytes: 22. The first 21 are those of the original library, the last one holds
 * capabilities. RPMA_E_INVAL
 */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/*
 * Makes the remote memory region that the other side described. desc_size is the number of bytes at desc, at
 * least 21; bytes after the descriptor are ignored. RPMA_E_INVAL (also: too short, no usage, size 0, a range
 * that wraps), RPMA_E_NOMEM
 */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);

/* the memory that was registered. RPMA_E_INVAL */
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);

/* its size in bytes. RPMA_E_INVAL */
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);

/* size of the remote region in bytes. RPMA_E_INVAL */
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);

/*
 * The RPMA_MR_USAGE_FLUSH_TYPE_* bits (not enum rpma_flush_type) that the remote region allows. RPMA_E_INVAL
 */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/* forgets a remote region; nothing is sent. RPMA_E_INVAL */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);

/*
 * Makes the device fetch the pages of a range before they are needed; advice and flags are those of
 * ibv_advise_mr(3). It is for memory registered on demand, on the software device for any memory.
 * RPMA_E_INVAL (also: a page cannot be fetched), RPMA_E_NOSUPP (the device, or the headers that the library
 * was built with, do not offer it), RPMA_E_PROVIDER
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/* ---- connection configuration ---- */

struct rpma_conn_cfg; /* how a connection is to be made */
struct rpma_srq;      /* a receive queue that connections share */

/*
 * Makes a configuration with defaults: timeout 1000 ms; 10 entries each in the completion, send and receive
 * queue; no separate receive completion queue (0 entries); completion channel not shared; no shared receive
 * queue. RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);

/* frees a configuration; connections made with it are not affected. RPMA_E_INVAL */
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/*
 * milliseconds that resolving the address of an outgoing request may take, and again the route to it.
 * RPMA_E_INVAL (also: < 0)
 */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/*
 * Completions that the main queue can hold: of all operations, or of all but receives if rcq_size > 0.
 * RPMA_E_INVAL
 */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);

/*
 * Completions that the receive completion queue can hold. 0: the connection has no such queue, and receives
 * complete in the main queue. RPMA_E_INVAL
 */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);

/* operations other than receives that may be outstanding. RPMA_E_INVAL */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);

/* receives that may be outstanding. RPMA_E_INVAL */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

/* shared is true if both completion queues share one channel, on which rpma_conn_wait waits. RPMA_E_INVAL */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/*
 * The connection takes its receives from a shared receive queue, which must outlive it. RPMA_E_INVAL (also:
 * srq NULL)
 */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
/* *srq_ptr is NULL where none was set. RPMA_E_INVAL */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/*
 * Segments (scatter/gather entries) that one rpma_readv or rpma_writev can have; 1 by default. If it is more
 * than the device has, or more than 64, requesting a connection fails as not supported. RPMA_E_INVAL (also:
 * 0)
 */
int rpma_conn_cfg_set_max_sge(struct rpma_conn_cfg *cfg, uint32_t max_sge);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_max_sge(const struct rpma_conn_cfg *cfg, uint32_t *max_sge);

/*
 * Bytes that one rpma_write_inline or rpma_send_inline can have; 8 by default, and fewer count as 8. If it is
 * more than the device takes, setting up the queues fails as not supported. RPMA_E_INVAL
 */
int rpma_conn_cfg_set_inline_size(struct rpma_conn_cfg *cfg, uint32_t bytes);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_inline_size(const struct rpma_conn_cfg *cfg, uint32_t *bytes);

/*
 * Milliseconds from rpma_conn_req_connect to RPMA_CONN_ESTABLISHED. When they are over, the event is
 * RPMA_CONN_UNREACHABLE, and the connection can only be deleted. -1, the default: no limit. RPMA_E_INVAL
 * (also: less than -1)
 */
int rpma_conn_cfg_set_connect_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_connect_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/* ---- connections ---- */

struct rpma_cq; /* a completion queue; belongs to its connection or shared receive queue */

/* bytes that travel with a connection request or its acceptance */
struct rpma_conn_private_data {
	void *ptr;
	uint8_t len;
};

/* readable (poll) when rpma_conn_next_event has an event to report. RPMA_E_INVAL */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

/*
 * Takes the next event of the connection, and waits for it unless the descriptor is O_NONBLOCK. Closing is
 * reported once. Only one thread at a time may call it. RPMA_E_INVAL, RPMA_E_NO_EVENT (none is there, or a
 * signal ended the wait), RPMA_E_UNKNOWN (an event unknown to this version; *event untouched), RPMA_E_PROVIDER,
 * RPMA_E_NOMEM
 */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);

/* as rpma_conn_next_event, for at most timeout_ms */
int rpma_conn_next_event_timed(struct rpma_conn *conn, int timeout_ms, enum rpma_conn_event *event);

/*
 * The bytes that the other side sent: on the passive side with its request; on the active side with its
 * acceptance (after RPMA_CONN_ESTABLISHED) or its rejection (after RPMA_CONN_REJECTED). They belong to the
 * connection; {NULL, 0} if the other side sent none. RDMA hardware pads them with zeros. The length is still
 * exact if the other side uses this library too and sent at least 6 bytes less than fit
 * (rpma_conn_req_connect). RPMA_E_INVAL
 */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);

/*
 * Applies to this connection what the other side's configuration declares (direct write to persistent
 * memory). RPMA_E_INVAL
 */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);

/* the number that completions of this connection carry in ibv_wc.qp_num. RPMA_E_INVAL */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/* the main completion queue; belongs to the connection. RPMA_E_INVAL */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);

/* the completion queue of receives, NULL if they go to the main one. RPMA_E_INVAL */
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);

/* the shared completion channel. RPMA_E_INVAL, RPMA_E_NOT_SHARED_CHNL */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);

/*
 * Waits for a completion on the shared channel and sets *cq to its queue. *is_rcq (optional) is true if that
 * is the receive completion queue. Collect until RPMA_E_NO_COMPLETION before waiting again. A wait may return
 * although there is no completion to collect. flags: 0 or RPMA_W_NO_ARM. RPMA_E_INVAL,
 * RPMA_E_NOT_SHARED_CHNL, RPMA_E_NO_COMPLETION (no completion is there and the descriptor is non-blocking, or
 * a signal came), RPMA_E_UNKNOWN (an event of another queue), RPMA_E_PROVIDER
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);

/* as rpma_conn_wait, for at most timeout_ms */
int rpma_conn_wait_timed(struct rpma_conn *conn, int flags, int timeout_ms, struct rpma_cq **cq,
	bool *is_rcq);

/* what a connection has counted since it was made */
struct rpma_conn_stats {
	uint64_t size; /* of this structure in bytes; later versions add members at its end */
	/* operations posted; an atomic write counts as an atomic, rpma_write_flush as a write and a flush */
	uint64_t reads, writes, atomics, flushes, sends, recvs;
	uint64_t bytes_read, bytes_written, bytes_sent;
	/* completions collected from its own completion queues, and how many of them were not a success */
	uint64_t completions, completion_errors;
	uint64_t waits; /* waits for its own completion queues that ended with an event */
	/* software device: how often a wrong check sum showed that incoming data was damaged; at most 1 */
	uint64_t crc_errors;
};

/*
 * Fills in the counters. Before the call, the caller sets stats->size to sizeof(struct rpma_conn_stats). The
 * call sets it to the number of bytes that it filled, and zeroes the counters that the library does not know.
 * Counting takes no lock in the data path. RPMA_E_INVAL (also: size < 8)
 */
int rpma_conn_get_stats(const struct rpma_conn *conn, struct rpma_conn_stats *stats);

/*
 * Starts disconnecting. RPMA_CONN_CLOSED follows when the other side has responded. On hardware it responds
 * by disconnecting or deleting its connection too, so each side does one of the two after RPMA_CONN_CLOSED.
 * Outstanding operations and receives of this side complete with IBV_WC_WR_FLUSH_ERR. RPMA_E_INVAL,
 * RPMA_E_PROVIDER
 */
int rpma_conn_disconnect(struct rpma_conn *conn);

/*
 * Frees a connection and all it owns. The completions of outstanding operations are lost. The connection is
 * gone also after an error. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/* ---- connection requests ---- */

struct rpma_conn_req; /* a connection before it is made: outgoing (rpma_conn_req_new) or incoming */

/*
 * Makes an outgoing request: resolves the address and the route (each within the timeout of cfg) and sets up
 * the queues. cfg is optional. The device is the peer's. RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (cfg asks
 * for more in one operation than the device can do), RPMA_E_PROVIDER
 */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/* drops a request; an incoming one is rejected. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/*
 * Rejects an incoming request. pdata is optional and says why; at most 148 bytes on RDMA hardware, 255 on the
 * software device. The other side reads it by rpma_conn_get_private_data after RPMA_CONN_REJECTED. The call
 * consumes the request whatever it returns, unless req_ptr is NULL or points to NULL. RPMA_E_INVAL (also: an
 * outgoing request), RPMA_E_PROVIDER
 */
int rpma_conn_req_reject(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata);

/*
 * Sends an outgoing request, or accepts an incoming one. For an incoming request it first sets up the queues;
 * if that fails, the client is rejected. RPMA_CONN_ESTABLISHED reports that the connection is made. pdata is
 * optional and copied. The device limits it: on RDMA hardware to 56 bytes with a request and 196 with an
 * acceptance, on the software device to 255. The call consumes the request whatever it returns, unless
 * req_ptr is NULL or points to NULL. RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_conn_req_new),
 * RPMA_E_PROVIDER
 */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn_ptr);

/*
 * Posts a receive before the connection is made, so that the receive is there when the first message comes.
 * As rpma_recv, but dst is not optional. The first use of an incoming request sets up its queues.
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_conn_req_new), RPMA_E_PROVIDER
 */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/*
 * The bytes that the other side sent with an incoming request. They belong to the request; {NULL, 0} if it
 * sent none. RPMA_E_INVAL
 */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/* ---- endpoints ---- */

struct rpma_ep; /* listens for connection requests */

/*
 * Listens on an address of this machine with the peer's device.
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);

/*
 * stops listening; requests and connections that came from the endpoint stay. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);

/* readable (poll) when a request has come. RPMA_E_INVAL */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/*
 * Takes the next incoming request, and waits for it unless the descriptor is O_NONBLOCK. cfg is optional; the
 * call reads it before it returns. The queues are set up when the request is used or accepted. RPMA_E_INVAL
 * (also: an event that is not a request), RPMA_E_NO_EVENT (none is there, or a signal came), RPMA_E_NOMEM,
 * RPMA_E_NOSUPP (as rpma_conn_req_new), RPMA_E_PROVIDER (also: the endpoint's peer is deleted)
 */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req_ptr);

/* as rpma_ep_next_conn_req, for at most timeout_ms */
int rpma_ep_next_conn_req_timed(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, int timeout_ms,
	struct rpma_conn_req **req_ptr);

/* ---- shared receive queues ---- */

struct rpma_srq_cfg;

/*
 * makes a configuration with defaults: 20 entries in the queue and in its completion queue. RPMA_E_INVAL,
 * RPMA_E_NOMEM
 */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);

/* frees a configuration. RPMA_E_INVAL */
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/* receives that may be outstanding. RPMA_E_INVAL */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
/* RPMA_E_INVAL */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);

/*
 * Completions that its completion queue can hold. 0: it has none, and a receive completes in the queue of the
 * connection that used it. RPMA_E_INVAL
 */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
/* RPMA_E_INVAL */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

/* makes a shared receive queue; cfg is optional. RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);

/*
 * Frees a shared receive queue. Delete first the connections and requests that use it. If one is left, the
 * call returns RPMA_E_PROVIDER, and the queue ends with the last of them. The pointer is NULL in any case.
 * RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_srq_delete(struct rpma_srq **srq_ptr);

/*
 * Posts a receive for the next message of any connection that uses the queue. dst may be NULL, with offset
 * and len 0, for an empty message. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/* its completion queue, NULL if it has none; belongs to the shared receive queue. RPMA_E_INVAL */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* ---- operations ---- */

/*
 * Operations are posted and run in order; op_context comes back in the completion (ibv_wc.wr_id). Before it
 * posts anything, each call checks the ranges against the local and the remote region, and a transfer also
 * against the largest message of the port: RPMA_E_INVAL. RPMA_E_PROVIDER is most often a full send queue.
 * RPMA_E_NOMEM comes with RPMA_F_MORE only, and RPMA_E_AGAIN only while RPMA_F_MORE holds operations back. Do
 * not touch an operation's memory until it completes. A completion of any later operation on the same
 * connection implies that it has.
 *
 * flags: one of RPMA_F_COMPLETION_*, combined by | with any of the others
 */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)                            /* a completion only if it fails */
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR) /* a completion in any case */

/*
 * More posts follow at once, so the library may hold this one back (doorbell batching). It goes to the device
 * together with the connection's next post without RPMA_F_MORE, or by rpma_conn_submit. The library copies
 * the segments and the inline data of a post that it holds, but not the registered memory. If the call that
 * hands them over fails with RPMA_E_PROVIDER, earlier posts that the device did not take stay held;
 * rpma_conn_submit tries them again. The post of that call itself is neither posted nor held, as after any
 * other error of a post. If there is no room to hold another post and the device has none either, the post
 * fails with RPMA_E_AGAIN: collect completions, then post it again. Disconnecting and deleting drop the posts
 * that are held.
 */
#define RPMA_F_MORE (1 << 2)
/* starts only after all earlier reads, flushes and atomics of the connection */
#define RPMA_F_FENCE (1 << 3)

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8 /* alignment of the destination's offset, and size, in bytes */

/*
 * Reads len bytes of the remote region src into dst (READ_DST). What it shows need not be durable, even if
 * this program has written it on an earlier connection: flush it on this one (rpma_flush, RPMA_F_FENCE). If
 * both regions are NULL and the offsets and len are 0, the operation reads nothing and completes.
 * RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *op_context);

/*
 * Writes len bytes of src (WRITE_SRC) into the remote region dst (WRITE_DST). Its completion says that the
 * data has arrived, not that it is durable: rpma_flush makes it durable. If both regions are NULL and the
 * offsets and len are 0, the operation writes nothing. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER
 */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *op_context);

/*
 * As rpma_write; it also consumes a receive of the other side, whose completion carries imm. RPMA_E_AGAIN,
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
	const void *op_context);

/* a segment of registered local memory; offset and len in bytes */
struct rpma_sge {
	const struct rpma_mr_local *mr;
	size_t offset;
	size_t len;
};

/*
 * As rpma_read, into dst_count segments one after the other. dst_count is at most the number set by
 * rpma_conn_cfg_set_max_sge; 0 reads nothing. The array may be reused when the call returns. RPMA_E_AGAIN,
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_readv(struct rpma_conn *conn, const struct rpma_sge *dst, int dst_count,
	const struct rpma_mr_remote *src, size_t src_offset, int flags, const void *op_context);

/*
 * As rpma_write, from src_count segments one after the other; see rpma_readv. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_writev(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_sge *src, int src_count, int flags, const void *op_context);

/*
 * As rpma_write, from any memory, which may be reused when the call returns. len is at most the number of
 * bytes set by rpma_conn_cfg_set_inline_size. src may be NULL if len is 0. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_write_inline(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const void *src,
	size_t len, int flags, const void *op_context);

/* both of rpma_write_inline and rpma_write_with_imm. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER */
int rpma_write_inline_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const void *src, size_t len, int flags, uint32_t imm, const void *op_context);

/*
 * Writes 8 bytes atomically: no reader sees only a part of them. dst_offset is a multiple of 8. src is any
 * memory; the call copies it before it returns. The write starts only after earlier reads and flushes of the
 * connection, so a pointer follows its data. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const char src[8], int flags, const void *op_context);

/* how far a flush reaches (in the reverse order of the usage bits) */
enum rpma_flush_type {
	RPMA_FLUSH_TYPE_PERSISTENT = 0, /* survives a power failure of the other side */
	RPMA_FLUSH_TYPE_VISIBILITY = 1, /* visible to every reader of the other side */
};

/*
 * Flushes the range: the data that earlier writes of this connection put there, and what was there before.
 * After the flush has completed with success, that data is durable (PERSISTENT) or visible at the other side.
 * If both sides have FLUSH, the device's FLUSH does it, and the completion is a FLUSH's. Else a read after the
 * writes does it, and the completion is a READ's. That is durable only if the other side declared direct write
 * to persistent memory (rpma_conn_apply_remote_peer_cfg). RPMA_E_AGAIN, RPMA_E_INVAL (also: unknown type; len
 * of 4 GiB or more over hardware), RPMA_E_NOMEM, RPMA_E_NOSUPP (the region or the other side does not provide
 * it), RPMA_E_PROVIDER
 */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *op_context);

/*
 * Writes, and flushes exactly the bytes that it wrote, as one post with one completion. After that completion
 * with success, the data is durable (PERSISTENT) or visible at the other side. If either part fails, the
 * completion is an error, and the data must be considered lost. The post takes two entries of the send queue.
 * The completion is the flush's (see rpma_flush). Both regions are required. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_flush), RPMA_E_PROVIDER
 */
int rpma_write_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context);

/*
 * Sets 8 bytes of the remote region (WRITE_DST with READ_SRC) to desired if they equal expected. The earlier
 * value goes to result (READ_DST). The operation is atomic among all remote atomics of that device; on the
 * software device it is also atomic with atomic instructions of that side's processors. Values are in the
 * byte order of the target's processors. The remote address is a multiple of 8. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_NOSUPP (a device or the region does not offer it), RPMA_E_PROVIDER
 */
int rpma_compare_and_swap(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t expected, uint64_t desired, int flags,
	const void *op_context);

/* adds addend to the 8 bytes, modulo 2^64; otherwise as rpma_compare_and_swap */
int rpma_fetch_and_add(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t addend, int flags, const void *op_context);

/*
 * Hands the posts that RPMA_F_MORE holds back to the device (rings the doorbell). If none is held, the call
 * succeeds. RPMA_E_INVAL, RPMA_E_PROVIDER (the posts that the device did not take stay held)
 */
int rpma_conn_submit(struct rpma_conn *conn);

/*
 * Sends a message from src (SEND). src may be NULL, with offset and len 0, for an empty message.
 * RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
	const void *op_context);

/* as rpma_send; the receive's completion carries imm. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
	int flags, uint32_t imm, const void *op_context);

/* as rpma_send, from any memory: see rpma_write_inline. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER */
int rpma_send_inline(struct rpma_conn *conn, const void *src, size_t len, int flags, const void *op_context);

/*
 * Posts a receive of at most len bytes into dst (RECV). dst may be NULL, with offset and len 0, for an empty
 * message. The receive completes with a message, or with an error after rpma_conn_disconnect of this side or
 * after a failed operation. It stays posted when only the other side disconnects. For a connection with a
 * shared receive queue use rpma_srq_recv instead. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/* ---- completions ---- */

/*
 * readable (poll) when rpma_cq_wait (or, if the channel is shared, rpma_conn_wait) has an event to take.
 * RPMA_E_INVAL
 */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);

/*
 * Waits until there may be completions, unless the descriptor is O_NONBLOCK. Collect until
 * RPMA_E_NO_COMPLETION before waiting again. A wait may return although there is no completion to collect.
 * RPMA_E_INVAL, RPMA_E_SHARED_CHANNEL, RPMA_E_NO_COMPLETION (no completion is there and the descriptor is
 * non-blocking, or a signal came), RPMA_E_PROVIDER
 */
int rpma_cq_wait(struct rpma_cq *cq);

/* as rpma_cq_wait, for at most timeout_ms */
int rpma_cq_wait_timed(struct rpma_cq *cq, int timeout_ms);

/*
 * enabled is true, the default, if each wait arms the queue for its next event as the wait returns. If it is
 * false, the program arms the queue by rpma_cq_arm. A queue that is not armed gives no event. RPMA_E_INVAL
 */
int rpma_cq_set_auto_arm(struct rpma_cq *cq, bool enabled);

/*
 * Arms the queue: the next completion gives an event. Completions that are already there give none, so
 * collect once more after arming. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_cq_arm(struct rpma_cq *cq);

/*
 * Collects up to num_entries completions into wc[] and sets *num_entries_got to their number (optional if
 * num_entries is 1). Never waits. imm_data is in network byte order: use ntohl(). RPMA_E_INVAL (also:
 * num_entries < 1), RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER, RPMA_E_UNKNOWN
 */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/* ---- shorthands ---- */

/*
 * These take one completion at a time, most of them from a connection's main completion queue, as in the 0.9
 * manual.
 */

/* what completed */
enum rpma_op {
	RPMA_OP_READ = 0,  /* also a flush that was done by reading after writing */
	RPMA_OP_WRITE = 1, /* also an atomic write */
	RPMA_OP_FLUSH = 2,
	RPMA_OP_SEND = 3,
	RPMA_OP_RECV = 4,
	RPMA_OP_RECV_RDMA_WITH_IMM = 5, /* a receive consumed by a write with immediate data */
	RPMA_OP_ATOMIC = 6,             /* compare-and-swap, fetch-and-add */
};

/* a completion; only op_context and op_status are set when op_status is not IBV_WC_SUCCESS */
struct rpma_completion {
	void *op_context;
	enum rpma_op op;
	uint32_t byte_len; /* of a read or of a received message */
	enum ibv_wc_status op_status;
	unsigned flags; /* IBV_WC_WITH_IMM: imm is valid */
	uint32_t imm;   /* in the byte order of this machine */
};

/*
 * As rpma_atomic_write, with the 8 bytes taken from registered memory (WRITE_SRC). RPMA_E_AGAIN,
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_write_atomic(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, int flags, const void *op_context);

/* rpma_cq_get_fd of the main completion queue. RPMA_E_INVAL */
int rpma_conn_get_completion_fd(const struct rpma_conn *conn, int *fd);

/* rpma_cq_wait of the main completion queue. As that, also RPMA_E_SHARED_CHANNEL */
int rpma_conn_completion_wait(struct rpma_conn *conn);

/* rpma_cq_get_completion of the main completion queue. As that */
int rpma_conn_completion_get(struct rpma_conn *conn, struct rpma_completion *cmpl);

/*
 * Takes one completion and translates it. Never waits. RPMA_E_INVAL, RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER,
 * RPMA_E_UNKNOWN, RPMA_E_NOSUPP (the opcode is unknown to this version; the completion is still taken)
 */
int rpma_cq_get_completion(struct rpma_cq *cq, struct rpma_completion *cmpl);

/* names that older manuals use */
#define rpma_conn_prepare_completions rpma_conn_completion_wait
#define rpma_conn_next_completion rpma_conn_completion_get
#define rpma_conn_get_next_event rpma_conn_next_event

/* ---- logging ---- */

enum rpma_log_level {
	RPMA_LOG_DISABLED = -1,
	RPMA_LOG_LEVEL_FATAL = 0,
	RPMA_LOG_LEVEL_ERROR = 1,
	RPMA_LOG_LEVEL_WARNING = 2,
	RPMA_LOG_LEVEL_NOTICE = 3,
	RPMA_LOG_LEVEL_INFO = 4,
	RPMA_LOG_LEVEL_DEBUG = 5,
};

enum rpma_log_threshold {
	RPMA_LOG_THRESHOLD = 0, /* messages up to this level are made; default WARNING */
	RPMA_LOG_THRESHOLD_AUX =
		1, /* the default function also writes messages up to this level to stderr; default WARNING */
	RPMA_LOG_THRESHOLD_MAX = 2, /* number of thresholds */
};

/*
 * Sets a threshold. The environment variable RPMA_LOG_LEVEL (a name such as "debug", or a number from -1 to
 * 5) sets both before the first message. Any thread may call it at any time. RPMA_E_INVAL
 */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/* RPMA_E_INVAL */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/*
 * A log function gets each message: its place in the source, and a format with its arguments. If file_name is
 * NULL, line and function mean nothing. The text ends with a newline. Any thread may call the function, and
 * several may call it at once. It must not call the library.
 */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
	const char *function_name, const char *message_format, ...);

#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/*
 * Replaces the function that gets the messages. RPMA_LOG_USE_DEFAULT_FUNCTION: syslog and stderr again. Any
 * thread may call it at any time. A message on its way may still reach the earlier function. Always 0.
 */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_H */
