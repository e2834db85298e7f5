/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * session_link.h -- the parts of a session: its connection, single operations, its view of the cluster
 *
 * Functions that return an int return 0, or -1 if the session has to end. They have then told the user the
 * reason, if there is one to tell.
 */

#ifndef SESSION_LINK_H
#define SESSION_LINK_H

#include <librpma.h>

#include "cluster.h"
#include "exchange.h"

/* groups of records in flight to one replica, and the operations of each */
#define GROUPS_MAX 4
#define OPS_PER_GROUP 4

/*
 * Besides the groups, one more pair of operations is in flight at most: an atomic write or a read, with its
 * flush. And one renewal of the lease.
 */
#define QUEUE_SIZE (GROUPS_MAX * OPS_PER_GROUP + 2 + 1)

/* bytes read from a replica's log at a time, to compare or to fetch it */
#define CHUNK ((size_t)1 << 20)

struct session {
	struct member *m;
	struct cluster *c;
	uint64_t epoch; /* the epoch that the replica was promised to */
	struct rpma_peer *peer;
	uint8_t *scratch; /* CHUNK bytes */
	struct rpma_mr_local *scratch_mr;
	struct rpma_mr_local *image_mr;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	int event_fd;
	int cq_fd;
	bool closed;  /* true if the connection has ended */
	bool busy;    /* true if the replica rejected with "busy" */
	bool entered; /* true if the replica takes part in the cluster */
	const char *device;
	struct exchange remote;
	struct log_header header;
	size_t sent;               /* groups are posted up to this offset */
	size_t groups[GROUPS_MAX]; /* the ends of the groups in flight, a ring */
	unsigned first;
	unsigned in_flight;
	uint64_t lease;      /* the value that the replica was given last */
	int64_t renew_at_ms; /* the time to give it the next one */
	bool renewing;       /* true if a renewal is in flight */
	uint64_t question;   /* of cluster_ask(), which the renewal answers; 0: none */
	unsigned completed;  /* operations that have completed and were not asked for yet, without renewals */
};

/* a copy of the parts of the cluster that a session needs */
struct view {
	enum phase phase;
	uint64_t question;
	size_t commit;
	uint64_t epoch;
	size_t end;
	bool fetch;
};

/* reads the state of the cluster */
struct view session_look(struct session *s);

/* report the session's progress to the cluster */
void session_set_state(struct session *s, enum member_state state);
void session_set_durable(struct session *s, size_t durable);

/* makes the replica unusable for good; always returns -1 */
__attribute__((format(printf, 2, 3))) int session_give_up(struct session *s, const char *format, ...);

/* ends the session because of that call; always returns -1 */
int session_failed(struct session *s, const char *call, int ret);

/* opens the device (the first time) and the connection, and reads where the replica's memory is */
int session_open_connection(struct session *s);
void session_close_connection(struct session *s);

/* registers the image of the log for writing from it and reading into it; deregisters any such memory */
int session_register_image(struct session *s);
void session_deregister(struct rpma_mr_local **mr);

/*
 * Waits until anything may have happened: a completion, an event of the connection, a change of the cluster.
 * It consumes the wake-up of the cluster, so look at the cluster again afterwards. It renews the lease, so a
 * session waits by this function alone.
 */
int session_wait_for_change(struct session *s);

/* the next completion: 1 if there was one, 0 if not, -1 if an operation failed */
int session_poll_completion(struct session *s);

/*
 * session_read_durable -- reads from the replica, and makes what it has read durable there
 *
 * What a replica's memory shows may never have become durable, also if this writer wrote it: the flush may
 * have failed, or the connection may have ended before it. So there is no other function to read with.
 */
int session_read_durable(struct session *s, struct rpma_mr_local *dst, size_t dst_offset, size_t offset,
	size_t len);

/* changes a word of the replica's header durably, and waits for the completion */
int session_write_word(struct session *s, enum log_word word, uint64_t value);

/* only post: a flush of a range; a durable change of a word, which has one completion */
int session_post_flush(struct session *s, size_t offset, size_t len, int flags);
int session_post_word(struct session *s, enum log_word word, uint64_t value);

#endif /* SESSION_LINK_H */
