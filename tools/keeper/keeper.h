/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * keeper.h -- lends memory to clients
 *
 * One thread does all of this. It only makes and ends connections: the device serves what clients read, write
 * and flush. Each client has a registration of its own. So revoking the access of one does not touch the
 * others, and a key that was revoked never becomes valid again.
 */

#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include <librpma.h>
#include <time.h>

#include "lease.h"
#include "options.h"

struct client;

/* memory that is lent under a name */
struct lend {
	const char *name;
	bool read_only;
	struct memory memory;
	struct client *holder; /* the client that has it for writing; NULL: none */
	bool unrevoked;        /* the access of an earlier holder could not be revoked */
	bool has_failed;       /* its medium has failed since the keeper was started */
	int readers;
	uint64_t granted, refused,
		revoked; /* requests; revoked: how often a holder lost its access to another client */
};

struct client {
	struct rpma_conn *conn; /* NULL: this place is free */
	struct rpma_mr_local *mr;
	struct lend *lend;
	uint64_t id;
	uint64_t displaced; /* the writer before, while this one is not established; 0: none */
	bool writes;
	bool established;
	time_t since;
};

/*
 * Places beyond the limit of clients: one for each name, which readers cannot take from its holder while that
 * one connects again; and one for a client that takes over from another.
 */
#define KEEPER_PLACES(options) ((options)->clients_max + (options)->lend_count + 1)

struct keeper {
	const struct options *options;
	struct lend *lends;     /* as many as the options have */
	struct client *clients; /* KEEPER_PLACES of them */
	int client_count;
	struct rpma_peer *peer;
	struct rpma_conn_cfg *conn_cfg;
	uint8_t peer_cfg;        /* the descriptor of the peer configuration */
	struct rpma_ep *ep;      /* NULL: not listening */
	int64_t listen_again_ms; /* when to try to listen again; 0: listening, or not meant to */
	int epoll_fd;
	int signal_fd;
	int64_t look_ms;   /* when to look at the media again */
	uint64_t failures; /* operations of clients that had failed at the last look */
	bool changed;      /* since the status was written */
	int64_t status_ms; /* when it was written */
};

/* runs until SIGTERM or SIGINT; returns the exit status of the program */
int keeper_run(const struct options *options);

/* --- lending.c --- */

/* takes the next request, if there is one, and grants or refuses it; false: none could be taken, try later */
bool lending_next_request(struct keeper *k);

/* takes the events of a client's connection, and ends the client if it is gone */
void lending_client_event(struct keeper *k, struct client *client);

/*
 * Ends the client. After true, what it has sent can no longer change the memory. False: that is not certain,
 * and no client gets the memory for writing from then on.
 */
bool lending_end(struct keeper *k, struct client *client, const char *because);

/*
 * Before the keeper ends: waits a few seconds for writers that are not established. The writers before those that never
 * are may resume.
 */
void lending_settle(struct keeper *k);

/* finds out whether the memory can be registered, and made durable if it is not volatile */
bool lending_try(struct keeper *k, struct lend *lend, char why[static WHY_MAX]);

/* finds out whether the medium of the memory has failed, and records that */
void lending_look_at_medium(struct keeper *k, struct lend *lend);

/* the same for all memory, if an operation has failed meanwhile; what could not be recorded is recorded */
void lending_look_at_media(struct keeper *k);

/* --- keeper.c --- */

/* of a clock that is never set, in milliseconds */
int64_t keeper_now_ms(void);

/* true if the device is the software device */
bool keeper_is_soft(const struct keeper *k);

/* watches the events of a client's connection */
bool keeper_watch_client(struct keeper *k, const struct client *client);

/* --- status.c --- */

/* writes the status into the file that the options name */
bool status_write(const struct keeper *k, char why[static WHY_MAX]);

#endif /* KEEPER_KEEPER_H */
