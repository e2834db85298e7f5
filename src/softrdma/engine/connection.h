/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * connection.h -- the socket of a link: from the time when the link gets it until it is closed
 *
 * A connection is a link (link.h) with what its socket needs. Each link of the device is one:
 * softrdma_connection_of() finds it. The caller holds the link's lock unless stated otherwise.
 */

#ifndef SOFTRDMA_CONNECTION_H
#define SOFTRDMA_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/base/sockaddr.h"
#include "softrdma/base/source.h"
#include "softrdma/core/link.h"
#include "softrdma/engine/watched.h"
#include "softrdma/wire/plain.h"
#include "softrdma/wire/tls.h"

struct softrdma_fault_inject;
struct softrdma_connection;
struct softrdma_datagram_socket;

/* how the socket of a link is used. The link's lock is held in the calls. */
struct softrdma_transport {
	/* receives in bounded time; true: there is more. progress is set if something came. */
	bool (*receive)(struct softrdma_connection *conn, bool *progress);
	/* sends all that is due, in bounded time */
	void (*send)(struct softrdma_connection *conn);
	/* true if there may be input that the socket does not report */
	bool (*has_input)(const struct softrdma_connection *conn);
	/* true if something waits for room in the socket */
	bool (*is_full)(const struct softrdma_connection *conn);
};

/* which thread reads the socket of a connection; set by reader.c only */
enum softrdma_reader {
	SOFTRDMA_READER_ENGINE, /* the progress thread: epoll reports input */
	/* the engine's epoll reports only room, for which the sender waits */
	SOFTRDMA_READER_LEAD,   /* the threads that wait or poll at its channel (lead.h) */
	SOFTRDMA_READER_WORKER, /* a flush worker */
};

/* a time at which something ends that the connection waits for (deadlines.c) */
struct softrdma_deadline {
	uint64_t when_ns; /* of softrdma_now_ns(); 0: none */
};

/* guarded by the link's lock, unless stated otherwise */
struct softrdma_connection {
	struct softrdma_link link;                  /* first: softrdma_connection_of() */
	struct softrdma_watched watched;            /* its progress thread finds the connection by it */
	struct softrdma_fault_inject *fault_inject; /* NULL: no faults are injected */

	const struct softrdma_transport *transport;
	struct softrdma_datagram_socket *datagram_socket; /* NULL: the socket is a stream */

	int fd;                         /* -1: no socket */
	struct softrdma_stream *stream; /* of the socket; NULL without one */
	struct softrdma_plain plain;    /* that stream, if it is neither TLS nor records */
	bool encrypted;                 /* true if the stream is TLS */
	union softrdma_address peer;    /* the peer's address; of no family if it is unknown */
	bool offence_noted;             /* true if the peer's access violation is counted */
	unsigned shut_outs; /* softrdma_source_shut_outs() when the peer's address was last looked up */
	bool fin_sent;
	bool hung_up;           /* true if the peer has ended its stream: read to the end */
	atomic_uint crc_errors; /* records that were damaged on their way; no lock */
	bool patient;           /* true if the socket has the long timeout */

	/* the socket's reader (reader.c) */
	enum softrdma_reader reader;
	bool wants_space;             /* true if room in a full socket is waited for (back-pressure) */
	struct softrdma_lead *led_by; /* NULL: none */
	unsigned polls;               /* how often a thread of the program has served it ... */
	unsigned polls_handled;       /* ... when the progress thread last served it */
	uint32_t posts_handled; /* the requester's head then: shows whether requests were posted since */

	/* requests that wait in the ring for others (gather.c) */
	uint64_t gathers_since_ns; /* since when; 0: none do */
	uint64_t gather_again_ns;  /* before this time none do, because the last ones had to wait for long */

	/* its flushes (flush_worker.c) */
	size_t flushed_in_turn;   /* bytes that were made durable without a worker in this turn */
	uint64_t second_flush_ns; /* when the second of these flushes began; 0: there was none */
	bool flush_running;       /* a worker makes a range durable, or is about to */
	bool has_worker;          /* a worker has the connection, and makes all its flushes until it leaves */
	/* in the lists of flushes that wait for a worker, and who asks; guarded by the workers' lock */
	struct softrdma_connection *job_next;
	struct softrdma_source job_source;

	struct softrdma_deadline deadline; /* by then the peer must have sent READY, or ended its stream */
	uint8_t rnr_retry;                 /* how often the peer's RNR timer may expire; 7: without limit */
	struct softrdma_deadline rnr_timer;
	uint32_t rnr_refusals; /* the requester's refusals when the RNR timer was set */
	unsigned absence_ms;   /* how long requests wait for a connection, in ms; 0: without limit */
	struct softrdma_deadline absence_timer;
	struct softrdma_deadline ack_timer; /* by then acknowledgements leave that wait for a reply */
	uint32_t responded;                 /* the responder's when that timer was set */
	bool awaits_reply; /* true if acknowledgements wait for one of the thread that has served it */

	atomic_uint account; /* of its listener (accounts.h); set before it is attached; no lock */

	/* in the list of all connections (links.c); guarded by its lock */
	struct softrdma_connection *next, *prev;
	struct softrdma_connection *next_alike; /* in the list of those whose queue pair numbers are alike */
	bool listed;
};

static inline struct softrdma_connection *
softrdma_connection_of(struct softrdma_link *link)
{
	return (struct softrdma_connection *)link;
}

/* creates a connection without a socket, and gives its link; NULL: no memory. No lock. */
struct softrdma_link *softrdma_connection_new(void);

/*
 * Takes over a connected socket and its TLS (NULL: none), also if this fails. Without TLS the stream consists of records
 * with check sums if records is true. 0 or an errno value.
 */
int softrdma_connection_attach(struct softrdma_link *link, int fd, struct softrdma_tls *tls, bool records);
/* tells the peer's address, for a peer that has reset the connection before it was attached */
void softrdma_connection_peer_is(struct softrdma_link *link, const struct sockaddr *addr);
/* closes the socket, if there is one */
void softrdma_connection_detach(struct softrdma_link *link);

/*
 * Receives what has arrived, in bounded time. It is called before the program's own end of the connection fails what is
 * outstanding: requests whose acknowledgement is there already succeed.
 */
void softrdma_connection_collect(struct softrdma_link *link);
/* sends all that is due, in bounded time */
void softrdma_connection_send(struct softrdma_link *link);
/* sets the deadline for the peer's next step; 0: the peer has taken it */
void softrdma_connection_deadline(struct softrdma_link *link, unsigned ms);
/* a receive was posted that the link has been waiting for. No lock held. */
void softrdma_connection_receive_posted(struct softrdma_link *link);

/* --- for the other files of the engine --- */

/* the progress thread waits for the socket from here on; if that fails, the socket is closed. 0 or an errno value. */
int softrdma_connection_watch(struct softrdma_connection *conn, int fd);

/* receives and sends in bounded time; true if something was received */
bool softrdma_connection_serve(struct softrdma_connection *conn);
/*
 * The same by a thread that takes the completions next. If it gets a message and replies as a rule, acknowledgements leave with
 * the reply, or by the next call, or after some time.
 */
bool softrdma_connection_serve_replier(struct softrdma_connection *conn);
/* the thread has finished with its completions: acknowledgements leave that still wait for a reply */
void softrdma_connection_no_reply(struct softrdma_connection *conn);
/* a FLUSH has been made: the same, from what came with it on */
void softrdma_connection_flushed(struct softrdma_connection *conn);
/* the queue pair is about to leave its queues: no thread of the program reads the socket. No lock. */
void softrdma_connection_stop_leading(struct softrdma_link *link);
/* sets what the progress thread waits for at the socket; the kernel reports again what is there already */
int softrdma_connection_watch_again(struct softrdma_connection *conn);
/* the stream has ended: so does the connection */
void softrdma_connection_stream_ended(struct softrdma_connection *conn);

#endif /* SOFTRDMA_CONNECTION_H */
