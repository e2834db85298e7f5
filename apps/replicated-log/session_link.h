/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * session_link.h -- what a session stands on: its connection, single operations, its view of the cluster
 *
 * Functions that return an int return 0, or -1 if the session has to end; then they have told the user why,
 * if there is anything to be told.
 */

#ifndef SESSION_LINK_H
#define SESSION_LINK_H

#include <librpma.h>

#include "cluster.h"
#include "exchange.h"

/* groups of records on their way to one replica, and the operations of each */
#define GROUPS_MAX 4
#define OPS_PER_GROUP 4

/* besides the groups, one word is written at a time: an atomic write and a flush */
#define QUEUE_SIZE (GROUPS_MAX * OPS_PER_GROUP + 2)

/* what is read of a replica's log at a time, to compare or to fetch it */
#define CHUNK ((size_t)1 << 20)

struct session {
	struct member *m;
	struct cluster *c;
	uint64_t epoch; /* that the replica was promised to */
	struct rpma_peer *peer;
	uint8_t *scratch; /* CHUNK bytes */
	struct rpma_mr_local *scratch_mr;
	struct rpma_mr_local *image_mr;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	int event_fd;
	int cq_fd;
	bool closed; /* the connection has ended */
	bool busy;   /* the replica said so */
	const char *device;
	struct exchange remote;
	struct log_header header;
	size_t sent;               /* groups were posted up to here */
	size_t groups[GROUPS_MAX]; /* the ends of those on their way, a ring */
	unsigned first;
	unsigned in_flight;
};

/* what a session sees of the cluster when it looks */
struct view {
	enum phase phase;
	uint64_t epoch;
	size_t end;
	bool fetch;
};

/* look at the cluster */
struct view session_look(struct session *s);

/* tell the cluster */
void session_set_state(struct session *s, enum member_state state);
void session_set_durable(struct session *s, size_t durable);

/* this replica is not used any more; always -1 */
__attribute__((format(printf, 2, 3))) int session_give_up(struct session *s, const char *format, ...);

/* the session ends because of that call; always -1 */
int session_failed(struct session *s, const char *call, int ret);

/* the device (at the first time), the connection, and what the replica says about its memory */
int session_open_connection(struct session *s);
void session_close_connection(struct session *s);

/* the image of the log as memory that can be read and written from; and the end of any such memory */
int session_register_image(struct session *s);
void session_deregister(struct rpma_mr_local **mr);

/*
 * Wait until anything happens: a completion, an event of the connection, a change of the cluster, or the time
 * is over. It uses up the wake-up of the cluster, so look at that again afterwards.
 */
int session_wait_for_change(struct session *s, int timeout_ms);

/* collect one completion: 1 if there was one, 0 if not, -1 if its operation failed */
int session_poll_completion(struct session *s);

/* read from the replica, and wait until it is done */
int session_read_remote(struct session *s, struct rpma_mr_local *dst, size_t dst_offset, size_t offset,
	size_t len);

/* change a word of the replica's header durably, and wait until it is done */
int session_write_word(struct session *s, enum log_word word, uint64_t value);

/* post only: make a range durable; change a word durably, which completes once */
int session_post_flush(struct session *s, size_t offset, size_t len, int flags);
int session_post_word(struct session *s, enum log_word word, uint64_t value);

#endif /* SESSION_LINK_H */
