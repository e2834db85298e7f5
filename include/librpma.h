/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * librpma.h -- read, write and durably flush the memory of another machine over RDMA
 *
 * What holds for every call, unless its comment says otherwise:
 *
 * Errors. Zero is success, everything else one of the negative RPMA_E_* values. A call that fails leaves its
 * outputs as they were. NULL for a pointer that is not said to be optional is RPMA_E_INVAL. RPMA_E_PROVIDER:
 * a call of libibverbs or librdmacm (or of the software device in their place) failed; the log and
 * rpma_errormsg say which and why.
 *
 * Objects. All are opaque, made by *_new (or a call that says so) and consumed by the call that takes a
 * pointer to the pointer: the object is gone and the pointer is NULL afterwards, also when that call reports
 * an error. A pointer to NULL is accepted there and does nothing. What an object was made from (a peer, a
 * shared receive queue, registered memory) must live longer than the object.
 *
 * Threads. Calls on different objects run in parallel. Getters and the posting of operations (rpma_read to
 * rpma_recv) are safe on one object from several threads at once. Creating from one peer, configuration
 * objects, waiting and collecting completions: likewise. One thread at a time only: the calls of one
 * endpoint, of one connection request, and rpma_conn_next_event(_timed) of one connection. No other call may
 * be running on an object that is being deleted.
 *
 * Timeouts are in ms of monotonic time; -1 waits for ever, 0 does not wait. They count whether the descriptor
 * is O_NONBLOCK or not. A signal ends a wait early, with the result of a timeout. Of several threads that
 * wait for one queue either all do so with timeouts or none.
 *
 * Descriptors. Those handed out by *_get_*fd are for poll, epoll and O_NONBLOCK; closing them is the
 * library's.
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
#define RPMA_W_NO_ARM (1 << 1)         /* of rpma_conn_wait: the queue is not armed by this call */

#define RPMA_E_UNKNOWN (-100000)         /* an answer that nothing explains */
#define RPMA_E_NOSUPP (-100001)          /* not supported by the device or by the other side */
#define RPMA_E_PROVIDER (-100002)        /* a call of libibverbs or librdmacm failed */
#define RPMA_E_NOMEM (-100003)           /* out of memory */
#define RPMA_E_INVAL (-100004)           /* invalid argument */
#define RPMA_E_NO_COMPLETION (-100005)   /* no completion is there */
#define RPMA_E_NO_EVENT (-100006)        /* no event is there */
#define RPMA_E_AGAIN (-100007)           /* no room at the moment: collect completions, then try again */
#define RPMA_E_SHARED_CHANNEL (-100008)  /* the completion channel is shared: use rpma_conn_wait */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the completion channel is not shared: use rpma_cq_wait */

#define RPMA_DEFAULT_TIMEOUT_MS 1000 /* of resolving an address and of resolving the route to it, each */

/* ---- utilities ---- */

/* on which side of the connection an address lies */
enum rpma_util_ibv_context_type {
	RPMA_UTIL_IBV_CONTEXT_LOCAL = 0,  /* the address is one of this machine */
	RPMA_UTIL_IBV_CONTEXT_REMOTE = 1, /* the address is to be reached from this machine */
};

/* what rpma_conn_next_event reports */
enum rpma_conn_event {
	RPMA_CONN_UNDEFINED = -1,
	RPMA_CONN_ESTABLISHED = 0, /* operations may be posted */
	RPMA_CONN_CLOSED = 1,      /* disconnected, by either side; reported once */
	RPMA_CONN_LOST = 2,        /* the device went away or the connection could not be made */
	RPMA_CONN_REJECTED = 3,    /* the other side refused the connection */
	RPMA_CONN_UNREACHABLE = 4, /* the other side does not answer */
};

/*
 * Finds the device that an address belongs to (LOCAL) or is reached through (REMOTE). The environment
 * variable RPMA_DEVICE decides: "rdma" only RDMA devices, "soft" only the software device (RDMA over TCP, in
 * this process), "auto" or nothing an RDMA device where the address has one, else the software device, with a
 * WARNING in the log. The context belongs to the library and stays open; any thread. RPMA_E_INVAL (also:
 * wrong value of RPMA_DEVICE), RPMA_E_PROVIDER (no device)
 */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
	struct ibv_context **ibv_ctx_ptr);

/*
 * Can the device register memory on demand (on-demand paging), for reads and for writes? *is_odp_capable is 0
 * or 1. File-backed memory of file systems without long-term pinning needs it. 0 on SoftRoCE, whose own
 * cannot be relied on. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* Is it the software device's? *is_soft is 0 or 1. RPMA_E_INVAL */
int rpma_utils_ibv_context_is_soft(struct ibv_context *ibv_ctx, int *is_soft);

/* the event in words; never NULL, static storage */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* an RPMA_E_* value (or 0) in words; never NULL, static storage */
const char *rpma_err_2str(int ret);

/*
 * The last failure of this thread as a sentence: which call, its errno, what can be done. Never NULL; valid
 * until the next failing call of the thread. RPMA_E_NO_COMPLETION and RPMA_E_NO_EVENT are no failures.
 */
const char *rpma_errormsg(void);

/* ---- peer configuration ---- */

/* what a peer tells the other side about itself; travels as a descriptor */
struct rpma_peer_cfg;

/*
 * Makes a configuration with defaults: no direct write to persistent memory.
 * RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);

/* frees a configuration. RPMA_E_INVAL */
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/*
 * Declares whether what the device writes into this peer's persistent memory is durable as soon as it is
 * visible (no cache in between: direct data I/O switched off, or the platform flushes caches on power
 * failure). It is a promise of whoever configures the machine; a false one loses data. RPMA_E_INVAL
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
 * Makes the configuration that another peer described. desc_size is the number of bytes there are; at least
 * 1, what follows is ignored. RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/* ---- peer ---- */

/* a device in use: everything else is made from it */
struct rpma_peer;

/*
 * Makes a peer of a device (rpma_utils_get_ibv_context).
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER, RPMA_E_UNKNOWN (the provider failed without a reason)
 */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);

/*
 * Frees a peer; delete what was made from it first. If a memory region, a request, a connection or a shared
 * receive queue is left, the answer is RPMA_E_PROVIDER; what is left works on, and the device's part of the
 * peer ends with the last of them. Endpoints that are left give no more requests. The pointer is NULL in any
 * case.
 * RPMA_E_INVAL, RPMA_E_PROVIDER
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
 * Software device: TLS for the connections of this peer, in place of what the environment says (softrdma(7)).
 * Files in PEM: a certificate, its key, the CA whose certificates are trusted; the other side needs the same.
 * Before rpma_ep_listen and rpma_conn_req_new, which use what was given last.
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (the device has no TLS), RPMA_E_PROVIDER (a file cannot be used)
 */
int rpma_peer_set_tls(struct rpma_peer *peer, const char *cert_file, const char *key_file,
	const char *ca_file);

struct rpma_conn; /* a connection, from the request being sent or accepted on */

/*
 * Finds the connection, of those made from the peer and not deleted, whose completions carry the number (in
 * ibv_wc.qp_num). The pointer lives until that connection is deleted. RPMA_E_INVAL (also: there is none)
 */
int rpma_peer_find_conn(struct rpma_peer *peer, uint32_t qp_num, struct rpma_conn **conn_ptr);

/* ---- memory regions ---- */

struct rpma_mr_local;  /* memory of this process, registered */
struct rpma_mr_remote; /* memory of the other side, as its descriptor tells */

/* what registered memory is for; combined with | */
#define RPMA_MR_USAGE_READ_SRC (1 << 0)              /* the other side may read from it */
#define RPMA_MR_USAGE_READ_DST (1 << 1)              /* results of own reads land in it */
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)             /* own writes take their data from it */
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)             /* the other side may write to it */
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4) /* the other side may flush it to visibility */
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5) /* the other side may flush it to persistence */
#define RPMA_MR_USAGE_SEND (1 << 6)                  /* messages are sent from it */
#define RPMA_MR_USAGE_RECV (1 << 7)                  /* messages are received in it */

/*
 * Registers size bytes at ptr, which stay the caller's and must stay mapped until rpma_mr_dereg. WRITE_DST
 * together with READ_SRC also allows remote atomics where the device has them, FLUSH_TYPE_* also reading.
 * Memory that cannot be made durable, asked for FLUSH_TYPE_PERSISTENT, is registered with a WARNING and
 * without that usage in its descriptor. RPMA_E_INVAL (also: size 0, usage 0 or unknown bits), RPMA_E_NOMEM,
 * RPMA_E_PROVIDER
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);

/*
 * Deregisters: when it returns, the device touches the memory no more. No operation that uses it may be
 * outstanding. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

/*
 * Writes the descriptor (rpma_mr_get_descriptor_size bytes). Who has it can use the memory as the usage
 * allows: it is a secret between the two sides. RPMA_E_INVAL
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);

/*
 * Size of the descriptor in bytes: 22 (21 as the original library wrote it, one of capabilities).
 * RPMA_E_INVAL
 */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/*
 * Makes the remote memory region that the other side described. desc_size is the number of bytes there are,
 * at least 21; what follows a descriptor is ignored. RPMA_E_INVAL (also: too short, no usage, size 0, a range
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
 * Has the device fetch the pages of a range before they are needed: advice and flags as in ibv_advise_mr(3).
 * For memory registered on demand; on the software device for any memory.
 * RPMA_E_INVAL (also: a page cannot be fetched), RPMA_E_NOSUPP (by the device or by the headers that the
 * library was built with), RPMA_E_PROVIDER
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/* ---- connection configuration ---- */

struct rpma_conn_cfg; /* how a connection is to be made */
struct rpma_srq;      /* a receive queue that connections share */

/*
 * Makes a configuration with defaults: timeout 1000 ms; completion, send and receive queue of 10; no receive
 * completion queue of its own (0); completion channel not shared; no shared receive queue.
 * RPMA_E_INVAL, RPMA_E_NOMEM
 */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);

/* frees a configuration; connections made with it are not concerned. RPMA_E_INVAL */
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/* bounds resolving the address and the route of an outgoing request, each; in ms. RPMA_E_INVAL (also: < 0) */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/*
 * Completions that the main queue can hold: of everything, or of all but receives if rcq_size > 0.
 * RPMA_E_INVAL
 */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);

/*
 * Completions that the receive completion queue can hold; 0: there is none, receives go to the main.
 * RPMA_E_INVAL
 */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);

/* operations that may be outstanding, receives apart. RPMA_E_INVAL */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);

/* receives that may be outstanding. RPMA_E_INVAL */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

/* do both completion queues share one channel, waited on by rpma_conn_wait? RPMA_E_INVAL */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/*
 * Takes receives from a shared receive queue, which must outlive the connection. RPMA_E_INVAL (also: srq
 * NULL)
 */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
/* *srq_ptr is NULL where none was set. RPMA_E_INVAL */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/*
 * Pieces that rpma_readv and rpma_writev can have; 1 by default. With more than the device has (64 at the
 * most) no connection can be requested: it is not supported. RPMA_E_INVAL (also: 0)
 */
int rpma_conn_cfg_set_max_sge(struct rpma_conn_cfg *cfg, uint32_t max_sge);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_max_sge(const struct rpma_conn_cfg *cfg, uint32_t *max_sge);

/*
 * Bytes that rpma_write_inline and rpma_send_inline can have; 8 by default, and at least. With more
 * than the device takes no queues can be set up: it is not supported. RPMA_E_INVAL
 */
int rpma_conn_cfg_set_inline_size(struct rpma_conn_cfg *cfg, uint32_t bytes);
/* RPMA_E_INVAL */
int rpma_conn_cfg_get_inline_size(const struct rpma_conn_cfg *cfg, uint32_t *bytes);

/*
 * Bounds the time from rpma_conn_req_connect to RPMA_CONN_ESTABLISHED: when it is over, the event is
 * RPMA_CONN_UNREACHABLE, and the connection can only be deleted. -1, the default: no bound. RPMA_E_INVAL
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

/* readable (poll) when rpma_conn_next_event has something to tell. RPMA_E_INVAL */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

/*
 * Takes the next event of the connection, waiting for it unless the descriptor is O_NONBLOCK. Closing is
 * reported once. One thread at a time. RPMA_E_INVAL, RPMA_E_NO_EVENT (none is there, or a signal ended the
 * wait), RPMA_E_UNKNOWN (an event that has no name here; *event untouched), RPMA_E_PROVIDER, RPMA_E_NOMEM
 */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);

/* as rpma_conn_next_event, for at most timeout_ms */
int rpma_conn_next_event_timed(struct rpma_conn *conn, int timeout_ms, enum rpma_conn_event *event);

/*
 * What the other side sent along: with its request (passive side), or with its acceptance or rejection
 * (active side, from RPMA_CONN_ESTABLISHED or RPMA_CONN_REJECTED on). The bytes belong to the connection;
 * {NULL, 0} if there are none. RDMA hardware fills them up with zeros; the length is exact all the same if
 * the other side has this library too and sent at least 6 bytes less than travel (rpma_conn_req_connect).
 * RPMA_E_INVAL
 */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);

/*
 * Takes over what the other side's configuration declares (direct write to persistent memory). RPMA_E_INVAL
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
 * Waits for a completion on the shared channel and says whose: *cq, and *is_rcq (optional) whether that is
 * the queue of receives. Collect until RPMA_E_NO_COMPLETION before waiting again; a wait may also end with
 * nothing to collect. flags: 0 or RPMA_W_NO_ARM. RPMA_E_INVAL, RPMA_E_NOT_SHARED_CHNL, RPMA_E_NO_COMPLETION
 * (none, non-blocking; or a signal), RPMA_E_UNKNOWN (an event of another queue), RPMA_E_PROVIDER
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);

/* as rpma_conn_wait, for at most timeout_ms */
int rpma_conn_wait_timed(struct rpma_conn *conn, int flags, int timeout_ms, struct rpma_cq **cq,
	bool *is_rcq);

/* what a connection has counted since it was made */
struct rpma_conn_stats {
	uint64_t size; /* of this structure in bytes, which will grow at its end */
	/* operations posted; an atomic write is an atomic, a durable write a write and a flush */
	uint64_t reads, writes, atomics, flushes, sends, recvs;
	uint64_t bytes_read, bytes_written, bytes_sent;
	/* collected from its own completion queues, and those of them that were no success */
	uint64_t completions, completion_errors;
	uint64_t waits; /* that ended with an event, for its own completion queues */
	/* how often a wrong check sum showed that what came was damaged: software device, once at the most */
	uint64_t crc_errors;
};

/*
 * Fills in the counters. The caller sets stats->size to sizeof(struct rpma_conn_stats) before; it becomes the
 * size that is filled, and what the library does not know is zeroed. Costs the data path no lock.
 * RPMA_E_INVAL (also: size < 8)
 */
int rpma_conn_get_stats(const struct rpma_conn *conn, struct rpma_conn_stats *stats);

/*
 * Starts disconnecting; RPMA_CONN_CLOSED follows when the other side has answered: on hardware it does so by
 * disconnecting or deleting its connection too, so do one of both after RPMA_CONN_CLOSED. Outstanding
 * operations and receives of this side complete with IBV_WC_WR_FLUSH_ERR. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_conn_disconnect(struct rpma_conn *conn);

/*
 * Frees a connection with all it owns. The completions of outstanding operations are not seen any more. The
 * connection is gone also after an error. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/* ---- connection requests ---- */

struct rpma_conn_req; /* a connection before it is made: outgoing (rpma_conn_req_new) or incoming */

/*
 * Makes an outgoing request: resolves address and route (each within the timeout of cfg) and sets up the
 * queues. cfg is optional. The device is the peer's. RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (the device
 * cannot do so much at once as cfg says), RPMA_E_PROVIDER
 */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port,
	const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/* drops a request; an incoming one is rejected. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/*
 * Rejects an incoming request. pdata is optional and says why: the other side gets it by
 * rpma_conn_get_private_data after RPMA_CONN_REJECTED (RDMA hardware: 148 bytes; software device: 255). The
 * request is consumed whatever is returned, unless req_ptr is NULL or points to NULL. RPMA_E_INVAL (also: an
 * outgoing request), RPMA_E_PROVIDER
 */
int rpma_conn_req_reject(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata);

/*
 * Sends the request, or accepts it if it is an incoming one, for which it sets up the queues (if they cannot
 * be, the client is rejected); RPMA_CONN_ESTABLISHED tells when it is done. pdata is optional, copied, and
 * limited by the device (RDMA hardware: 56 bytes with a request, 196 with an acceptance; software device:
 * 255). The request is consumed whatever is returned, unless req_ptr is NULL or points to NULL. RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_conn_req_new), RPMA_E_PROVIDER
 */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
	struct rpma_conn **conn_ptr);

/*
 * Posts a receive before the connection is made, so that it is there when the first message comes. As
 * rpma_recv, but dst is not optional. The first use of an incoming request sets up its queues. RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_conn_req_new), RPMA_E_PROVIDER
 */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/*
 * What the other side sent with an incoming request; belongs to the request; {NULL, 0} if nothing.
 * RPMA_E_INVAL
 */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/* ---- endpoints ---- */

struct rpma_ep; /* listens for connection requests */

/*
 * Listens on an address of this machine with the peer's device.
 * RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);

/* stops listening; requests and connections that came from it live on. RPMA_E_INVAL, RPMA_E_PROVIDER */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);

/* readable (poll) when a request has come. RPMA_E_INVAL */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/*
 * Takes the next incoming request, waiting for it unless the descriptor is O_NONBLOCK. cfg is optional and
 * read at once; the queues are set up when the request is used or accepted. RPMA_E_INVAL (also: an event that
 * is no request), RPMA_E_NO_EVENT (none is there, or a signal), RPMA_E_NOMEM, RPMA_E_NOSUPP (as
 * rpma_conn_req_new), RPMA_E_PROVIDER (also: the endpoint's peer is deleted)
 */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
	struct rpma_conn_req **req_ptr);

/* as rpma_ep_next_conn_req, for at most timeout_ms */
int rpma_ep_next_conn_req_timed(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, int timeout_ms,
	struct rpma_conn_req **req_ptr);

/* ---- shared receive queues ---- */

struct rpma_srq_cfg;

/* makes a configuration with defaults: queue and completion queue of 20. RPMA_E_INVAL, RPMA_E_NOMEM */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);

/* frees a configuration. RPMA_E_INVAL */
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/* receives that may be outstanding. RPMA_E_INVAL */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
/* RPMA_E_INVAL */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);

/*
 * Completions that its completion queue can hold; 0: receives complete in each connection's queue.
 * RPMA_E_INVAL
 */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
/* RPMA_E_INVAL */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

/* makes a shared receive queue; cfg is optional. RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);

/*
 * Frees it; delete the connections and requests that use it first. If one is left, the answer is
 * RPMA_E_PROVIDER, and the queue ends with the last of them. The pointer is NULL in any case.
 * RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_srq_delete(struct rpma_srq **srq_ptr);

/*
 * Posts a receive for whichever connection's message comes; dst NULL with offset and len 0 for an empty
 * message. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/* its completion queue, NULL if it has none; belongs to the shared receive queue. RPMA_E_INVAL */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* ---- operations ---- */

/*
 * Operations are posted and run in order; op_context comes back in the completion (ibv_wc.wr_id). Ranges are
 * checked against the local and the remote region before anything is posted, a transfer also against the
 * largest message of the port: RPMA_E_INVAL. RPMA_E_PROVIDER is most often a full send queue. RPMA_E_NOMEM
 * comes with RPMA_F_MORE only, and RPMA_E_AGAIN only while operations are held back by it. Memory that an
 * operation uses must stay untouched until it has completed, which a later completion of the same connection
 * tells as well as its own does.
 *
 * flags: one of RPMA_F_COMPLETION_*, with | any of the others
 */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)                            /* a completion only if it fails */
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR) /* a completion in any case */

/*
 * More posts follow at once: this one may be held back, and is rung together with the next post of the
 * connection that has no RPMA_F_MORE, or by rpma_conn_submit. What is held back has been copied (pieces,
 * inline data), but not the registered memory. If the ringing call fails with RPMA_E_PROVIDER, what the
 * device did not take stays held, the post of that call included, for rpma_conn_submit to try again. With as
 * many held as there is room for, a post that the device has no room for either is refused by RPMA_E_AGAIN:
 * collect completions, then post it again. Disconnecting and deleting drop what is held.
 */
#define RPMA_F_MORE (1 << 2)
/* starts only after all earlier reads, flushes and atomics of the connection */
#define RPMA_F_FENCE (1 << 3)

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8 /* of the destination's offset, and its size, in bytes */

/*
 * Reads len bytes of the remote region src into dst (READ_DST). Both regions NULL with offsets and len 0 read
 * nothing and complete. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *op_context);

/*
 * Writes len bytes of src (WRITE_SRC) into the remote region dst (WRITE_DST). Its completion says that the
 * data has arrived, not that it is durable: rpma_flush does. Both regions NULL with offsets and len 0 write
 * nothing. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *op_context);

/*
 * As rpma_write, and consumes a receive of the other side, whose completion carries imm.
 * RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
	const void *op_context);

/* a piece of registered local memory; offset and len in bytes */
struct rpma_sge {
	const struct rpma_mr_local *mr;
	size_t offset;
	size_t len;
};

/*
 * As rpma_read, into dst_count pieces one after the other; at most as many as rpma_conn_cfg_set_max_sge says,
 * and 0 read nothing. The array may be reused when the call returns. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_readv(struct rpma_conn *conn, const struct rpma_sge *dst, int dst_count,
	const struct rpma_mr_remote *src, size_t src_offset, int flags, const void *op_context);

/*
 * As rpma_write, from src_count pieces one after the other; see rpma_readv. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_writev(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_sge *src, int src_count, int flags, const void *op_context);

/*
 * As rpma_write, from any memory, which may be reused when the call returns; at most as many bytes as
 * rpma_conn_cfg_set_inline_size says. src may be NULL if len is 0. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER
 */
int rpma_write_inline(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const void *src,
	size_t len, int flags, const void *op_context);

/* both of rpma_write_inline and rpma_write_with_imm. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM,
 * RPMA_E_PROVIDER */
int rpma_write_inline_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const void *src, size_t len, int flags, uint32_t imm, const void *op_context);

/*
 * Writes 8 bytes at once: nobody sees a part of them. dst_offset is a multiple of 8, src any memory (copied
 * before the call returns). It starts only after earlier reads and flushes of the connection, so a pointer
 * follows its data. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_PROVIDER
 */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const char src[8], int flags, const void *op_context);

/* how far a flush reaches (the order is the reverse of the usage bits') */
enum rpma_flush_type {
	RPMA_FLUSH_TYPE_PERSISTENT = 0, /* survives a power failure of the other side */
	RPMA_FLUSH_TYPE_VISIBILITY = 1, /* visible to every reader of the other side */
};

/*
 * Flushes what earlier writes of this connection put into the range: when it has completed with success it is
 * durable (PERSISTENT) or visible there. Done by the device's FLUSH where both sides have it, else by reading
 * after writing, which is durable only if the other side declared direct write to persistent memory
 * (rpma_conn_apply_remote_peer_cfg). The completion is a FLUSH's or a READ's accordingly. RPMA_E_AGAIN,
 * RPMA_E_INVAL (also: unknown type; 4 GiB and more over hardware), RPMA_E_NOMEM, RPMA_E_NOSUPP (the region or
 * the other side does not provide it), RPMA_E_PROVIDER
 */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	enum rpma_flush_type type, int flags, const void *op_context);

/*
 * Writes and flushes exactly what it writes, as one post with one completion: when it is a success, the data
 * is durable (PERSISTENT) or visible there. If either part fails the completion says so, and the data is to
 * be taken for lost. Takes two entries of the send queue. The completion is the flush's (see rpma_flush).
 * None of the regions is optional. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP (as rpma_flush),
 * RPMA_E_PROVIDER
 */
int rpma_write_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context);

/*
 * Puts desired into 8 bytes of the remote region (WRITE_DST with READ_SRC) if they are expected, at once
 * among all remote atomics of that device; what was there goes to result (READ_DST). On the software device
 * also at once with atomics of that side's processors. Values are in the byte order of the target's
 * processors. The remote address is a multiple of 8. RPMA_E_AGAIN, RPMA_E_INVAL, RPMA_E_NOMEM, RPMA_E_NOSUPP
 * (a device or the region does not offer it), RPMA_E_PROVIDER
 */
int rpma_compare_and_swap(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t expected, uint64_t desired, int flags,
	const void *op_context);

/* adds addend, modulo 2^64; otherwise as rpma_compare_and_swap */
int rpma_fetch_and_add(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t addend, int flags, const void *op_context);

/*
 * Rings what RPMA_F_MORE holds back; nothing is a success. RPMA_E_INVAL, RPMA_E_PROVIDER (what the device did
 * not take stays held)
 */
int rpma_conn_submit(struct rpma_conn *conn);

/*
 * Sends a message from src (SEND), NULL with offset and len 0 for an empty one. RPMA_E_AGAIN, RPMA_E_INVAL,
 * RPMA_E_NOMEM, RPMA_E_PROVIDER
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
 * Posts a receive of at most len bytes into dst (RECV), NULL with offset and len 0 for an empty message. It
 * completes with a message, or with an error after rpma_conn_disconnect of this side or after a failed
 * operation; it stays posted when only the other side disconnects. Not for a connection with a shared receive
 * queue: see rpma_srq_recv. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	const void *op_context);

/* ---- completions ---- */

/* readable (poll) when rpma_cq_wait (or, if shared, rpma_conn_wait) has something to take. RPMA_E_INVAL */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);

/*
 * Waits until there may be completions, unless the descriptor is O_NONBLOCK. Collect until
 * RPMA_E_NO_COMPLETION before waiting again; a wait may also end with nothing to collect. RPMA_E_INVAL,
 * RPMA_E_SHARED_CHANNEL, RPMA_E_NO_COMPLETION (none, non-blocking; or a signal), RPMA_E_PROVIDER
 */
int rpma_cq_wait(struct rpma_cq *cq);

/* as rpma_cq_wait, for at most timeout_ms */
int rpma_cq_wait_timed(struct rpma_cq *cq, int timeout_ms);

/*
 * Who arms the queue for its next event: each wait, as it returns (the default), or the program by
 * rpma_cq_arm. A queue that is not armed gives no event. RPMA_E_INVAL
 */
int rpma_cq_set_auto_arm(struct rpma_cq *cq, bool enabled);

/*
 * Arms the queue: the next completion gives an event. Those that are there already give none, so collect once
 * more after arming. RPMA_E_INVAL, RPMA_E_PROVIDER
 */
int rpma_cq_arm(struct rpma_cq *cq);

/*
 * Collects up to num_entries completions into wc[], *num_entries_got says how many (optional if num_entries
 * is 1). Never waits. imm_data is in network byte order: ntohl(). RPMA_E_INVAL (also: num_entries < 1),
 * RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER, RPMA_E_UNKNOWN
 */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/* ---- shorthands ---- */

/*
 * One completion at a time of a connection's main completion queue, as the 0.9 manual has it.
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
 * Takes one completion, translated. Never waits.
 * RPMA_E_INVAL, RPMA_E_NO_COMPLETION, RPMA_E_PROVIDER, RPMA_E_UNKNOWN, RPMA_E_NOSUPP (an opcode without a
 * name here; the completion is taken all the same)
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
	RPMA_LOG_THRESHOLD = 0, /* up to this level messages are made at all; default WARNING */
	RPMA_LOG_THRESHOLD_AUX =
		1, /* up to this level the default function also writes to stderr; default WARNING */
	RPMA_LOG_THRESHOLD_MAX = 2, /* number of thresholds */
};

/*
 * Sets a threshold; the environment variable RPMA_LOG_LEVEL (a name as "debug" or a number from -1 to 5) sets
 * both before the first message. Any thread, at any time. RPMA_E_INVAL
 */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/* RPMA_E_INVAL */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/*
 * A log function gets each message: where it comes from (file_name may be NULL, then line and function mean
 * nothing) and a format with its arguments; the text ends with a newline. Any thread may call it, several at
 * once; it must not call the library.
 */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
	const char *function_name, const char *message_format, ...);

#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/*
 * Replaces the function that gets the messages; RPMA_LOG_USE_DEFAULT_FUNCTION: syslog and stderr again. Any
 * thread, at any time; a message on its way may still reach the earlier function. Always 0.
 */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_H */
