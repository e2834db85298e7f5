/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * server.c -- the target: serves several clients at once, each in a thread
 *
 * All RDMA connections come to one endpoint, and how large the queues of a connection are must be said before it is
 * known for whom it is. So the connections of one client are made at a time: a client is told that the target is ready
 * when it is its turn.
 */

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "receiver.h"
#include "server.h"
#include "target.h"

#define CLIENTS_MAX 64        /* each has threads and memory; further ones wait until one has gone */
#define IDLE_TIMEOUT_MS 60000 /* longest pause between two steps of a client */
#define LAST_WORD_MS 1000     /* time for the client to say that it ends, after a thread has failed */
#define PORT_TRIES 10         /* another process may take a free port before this one listens on it */

struct session;

struct server {
	const struct options *options;
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	uint16_t data_port;
	int listener;
	uint16_t port;
	pthread_mutex_t accepting;  /* held while the connections of a client are made */
	pthread_mutex_t lock;       /* protects what follows */
	pthread_cond_t has_left;    /* a client has gone */
	struct session *sessions;   /* all clients */
	uint32_t count;             /* of them */
	uint32_t busy;              /* number of clients that are in a step */
	uint64_t memory;            /* bytes that they have */
	const struct session *user; /* of memory that only one client can have; or NULL */
};

/* a client */
struct session {
	struct server *server;
	struct session *next;
	int fd;
	char name[CONTROL_TEXT_MAX]; /* its address */
	uint32_t most_busy; /* the most clients that were in a step at once, since the mark of this one */
};

/* ---- setting up ---- */

/*
 * On software devices and iWARP, librdmacm uses the kernel's ports, so a port that TCP finds free is a good
 * guess
 */
static bool
guess_port(const char *addr, uint16_t *port, char why[static WHY_MAX])
{
	int fd;
	if (!control_listen(addr, "0", &fd, port, why))
		return false;
	close(fd);
	return true;
}

/* true if another program has taken the port since it was guessed; any other failure would only be repeated */
static bool
port_was_taken(void)
{
	return strstr(rpma_errormsg(), strerror(EADDRINUSE)) != NULL;
}

static bool
listen_for_data(struct server *server, char why[static WHY_MAX])
{
	const struct options *options = server->options;
	char port[8];
	if (options->data_port) {
		server->data_port = (uint16_t)strtoul(options->data_port, NULL, 10);
		return rpma_ep_listen(server->peer, options->addr, options->data_port, &server->ep) == 0
			? true
			: why_rpma(why, "listening for RDMA connections");
	}
	for (int i = 0; i < PORT_TRIES; i++) {
		if (!guess_port(options->addr, &server->data_port, why))
			return false;
		snprintf(port, sizeof(port), "%u", server->data_port);
		if (rpma_ep_listen(server->peer, options->addr, port, &server->ep) == 0)
			return true;
		if (!port_was_taken())
			break;
	}
	return why_rpma(why, "listening for RDMA connections");
}

static bool
server_open(struct server *server, const struct options *options, char why[static WHY_MAX])
{
	struct ibv_context *device;
	*server = (struct server){ .options = options, .listener = -1 };
	pthread_mutex_init(&server->accepting, NULL);
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->has_left, NULL);
	/* else each client would be told the same */
	if (!memory_check(options->memory, options->overwrite, why))
		return false;
	if (rpma_utils_get_ibv_context(options->addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device) ||
		rpma_peer_new(device, &server->peer))
		return why_say(why, "%s", rpma_errormsg());
	return listen_for_data(server, why) &&
		control_listen(options->addr, options->port, &server->listener, &server->port, why);
}

static void
server_close(struct server *server)
{
	if (server->listener >= 0)
		close(server->listener);
	(void)rpma_ep_shutdown(&server->ep);
	(void)rpma_peer_delete(&server->peer);
	pthread_cond_destroy(&server->has_left);
	pthread_mutex_destroy(&server->lock);
	pthread_mutex_destroy(&server->accepting);
}

/* ---- what clients share ---- */

/* takes memory for a step, and lets the client begin it */
static bool
begin_step(struct session *session, const struct load *load, char why[static WHY_MAX])
{
	struct server *server = session->server;
	const struct options *options = server->options;
	const uint64_t size = load_target_size(load);
	bool good = true;
	pthread_mutex_lock(&server->lock);
	/*
	 * message(perf): the server does not lend that much -> Raise `--max-memory` at the server, or take
	 * a smaller `--size` or `--depth`.
	 */
	if (server->memory == 0 && size > options->max_memory)
		good = why_say(why, "%" PRIu64 " bytes of memory are asked for, and --max-memory is %" PRIu64,
			size, options->max_memory);
	else if (size > options->max_memory - server->memory)
		good = why_say(why,
			"%" PRIu64 " bytes of memory are asked for, other clients have %" PRIu64
			", and --max-memory is %" PRIu64,
			size, server->memory, options->max_memory);
	else if (server->user != NULL && server->user != session)
		good = why_say(why,
			"another client uses %s: give the server a folder, then each client gets a file of its own",
			options->memory);
	if (good) {
		if (!memory_can_be_shared(options->memory))
			server->user = session; /* for all of its steps */
		server->memory += size;
		server->busy++;
		for (struct session *s = server->sessions; s; s = s->next)
			if (s->most_busy < server->busy)
				s->most_busy = server->busy;
	}
	pthread_mutex_unlock(&server->lock);
	return good;
}

static void
end_step(const struct session *session, const struct load *load)
{
	struct server *server = session->server;
	pthread_mutex_lock(&server->lock);
	server->memory -= load_target_size(load);
	server->busy--;
	pthread_mutex_unlock(&server->lock);
}

/* the part begins that the client measures */
static void
mark(struct session *session)
{
	pthread_mutex_lock(&session->server->lock);
	session->most_busy = session->server->busy;
	pthread_mutex_unlock(&session->server->lock);
}

static uint32_t
most_busy_since_mark(struct session *session)
{
	pthread_mutex_lock(&session->server->lock);
	uint32_t most = session->most_busy;
	pthread_mutex_unlock(&session->server->lock);
	return most;
}

/* ---- one step ---- */

/* counts the messages and slots with wrong data at the end of a step */
static uint64_t
count_wrong(struct target *target, const uint64_t *posted)
{
	if (!target->load.verify)
		return 0;
	uint64_t wrong = 0;
	for (uint32_t i = 0; i < target->load.connections; i++)
		wrong += target->conns[i].wrong;
	return wrong + target_verify(target, posted);
}

/* receives the client's next message; gives up if a thread has failed, which the client may not see by itself */
static bool
await(int fd, struct receivers *receivers, enum control_type type, struct control_message *msg,
	char why[static WHY_MAX])
{
	struct pollfd pfds[2] = { { .fd = fd, .events = POLLIN },
		{ .fd = receivers_fd(receivers), .events = POLLIN } };
	while (poll(pfds, 2, -1) < 0)
		if (errno != EINTR)
			return why_say(why, "waiting for the client: %m");
	/* if the client has gone, threads fail as well: that it has gone says more */
	if (pfds[0].revents == 0 && poll(pfds, 1, LAST_WORD_MS) <= 0 && receivers_have_failed(receivers, why))
		return false;
	return control_receive(fd, type, -1, msg, NULL, why);
}

/* lets the client measure, from go to finish; msg becomes finish */
static bool
serve_run(struct session *session, struct receivers *receivers, struct control_message *msg,
	struct control_result *result, char why[static WHY_MAX])
{
	*msg = (struct control_message){ .type = CONTROL_GO };
	if (!control_send(session->fd, msg, why) || !await(session->fd, receivers, CONTROL_MARK, msg, why))
		return false;
	mark(session);
	struct cpu_time begin = cpu_now();
	if (!await(session->fd, receivers, CONTROL_FINISH, msg, why))
		return false;
	result->cpu = cpu_since(begin);
	result->clients = most_busy_since_mark(session);
	return true;
}

/* runs a step from go to result */
static bool
measure(struct session *session, struct target *target, struct control_message *msg, char why[static WHY_MAX])
{
	struct receivers *receivers;
	if (!receivers_start(target, &receivers, why))
		return false;

	struct control_result result = { 0 };
	bool good = serve_run(session, receivers, msg, &result, why);
	if (good && msg->counts.count != target->load.connections)
		good = why_say(why, "the client counts the operations of %u connections, and has %u",
			msg->counts.count, target->load.connections);
	if (!good) {
		char ignored[WHY_MAX];
		(void)receivers_end(receivers, NULL, ignored);
		return false;
	}
	if (!receivers_end(receivers, msg->counts.posted, why))
		return false;

	result.wrong = count_wrong(target, msg->counts.posted);
	if (result.wrong)
		snprintf(result.first_wrong, sizeof(result.first_wrong), "%s", target->first_wrong);
	*msg = (struct control_message){ .type = CONTROL_RESULT, .result = result };
	return control_send(session->fd, msg, why);
}

/* tells the client that the target is ready, and accepts its connections */
static bool
accept_connections(struct session *session, struct target *target, struct control_message *msg,
	char why[static WHY_MAX])
{
	struct server *server = session->server;
	*msg = (struct control_message){ .type = CONTROL_READY };
	msg->ready.token = target->token;
	msg->ready.port = server->data_port;
	if (target->memory.is_file)
		snprintf(msg->ready.memory, sizeof(msg->ready.memory), "file, store granularity: %s",
			target->memory.granularity);
	else
		snprintf(msg->ready.memory, sizeof(msg->ready.memory), "DRAM");

	pthread_mutex_lock(&server->accepting);
	bool good = control_send(session->fd, msg, why) &&
		target_accept(target, server->ep, server->options->direct_write, session->fd, why);
	pthread_mutex_unlock(&server->accepting);
	return good;
}

/* runs a step; msg holds setup */
static bool
serve_step(struct session *session, struct control_message *msg, char why[static WHY_MAX])
{
	const struct options *options = session->server->options;
	const struct load load = msg->load;
	struct target target;
	if (!begin_step(session, &load, why))
		return false;
	bool good =
		target_open(&target, &load, session->server->peer, options->memory, options->overwrite, why);
	if (good) {
		target.compute_ns = (uint64_t)options->compute_us * 1000;
		good = accept_connections(session, &target, msg, why) && measure(session, &target, msg, why);
		target_close(&target);
	}
	end_step(session, &load);
	return good;
}

/* ---- clients ---- */

static bool
serve_client(struct session *session, char why[static WHY_MAX])
{
	struct control_message msg;
	bool is_closed;
	if (!control_receive(session->fd, CONTROL_HELLO, CONTROL_PATIENCE_MS, &msg, NULL, why))
		return false;
	msg = (struct control_message){ .type = CONTROL_HELLO, .version = CONTROL_VERSION };
	if (!control_send(session->fd, &msg, why))
		return false;
	for (;;) {
		if (!control_receive(session->fd, CONTROL_SETUP, IDLE_TIMEOUT_MS, &msg, &is_closed, why))
			return is_closed; /* a client may leave between two steps */
		if (!serve_step(session, &msg, why))
			return false;
	}
}

/* serves a client from beginning to end, and frees the session */
static bool
run_session(struct session *session, bool is_silent)
{
	struct server *server = session->server;
	char why[WHY_MAX];
	bool good = serve_client(session, why);
	if (!good) {
		if (!is_silent)
			fprintf(stderr, "rpma-perf server: %s: %s\n", session->name, why);
		control_refuse(session->fd, why);
	}
	close(session->fd);

	pthread_mutex_lock(&server->lock);
	struct session **link = &server->sessions;
	while (*link != session)
		link = &(*link)->next;
	*link = session->next;
	server->count--;
	if (server->user == session)
		server->user = NULL;
	pthread_cond_signal(&server->has_left);
	pthread_mutex_unlock(&server->lock);
	free(session);
	return good;
}

static void *
session_main(void *arg)
{
	(void)pthread_setname_np(pthread_self(), "perf-session");
	(void)run_session(arg, false);
	return NULL;
}

/* waits until the server has fewer clients than that */
static void
wait_for_fewer(struct server *server, uint32_t count)
{
	pthread_mutex_lock(&server->lock);
	while (server->count >= count)
		pthread_cond_wait(&server->has_left, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

/* accepts the next client; NULL after a failure that will not go away */
static struct session *
next_session(struct server *server, char why[static WHY_MAX])
{
	wait_for_fewer(server, CLIENTS_MAX);
	struct session *session = calloc(1, sizeof(*session));
	if (session == NULL) {
		why_say(why, "out of memory");
		return NULL;
	}
	session->server = server;
	if (!control_accept(server->listener, &session->fd, session->name, why)) {
		free(session);
		return NULL;
	}
	pthread_mutex_lock(&server->lock);
	session->next = server->sessions;
	server->sessions = session;
	server->count++;
	pthread_mutex_unlock(&server->lock);
	return session;
}

/* serves clients at once until no further one can be accepted; always false */
static bool
serve_all(struct server *server, char why[static WHY_MAX])
{
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	for (struct session *session; (session = next_session(server, why)) != NULL;) {
		pthread_t thread;
		/* without a thread for it, this one serves the client, and the others wait */
		if (pthread_create(&thread, &detached, session_main, session))
			(void)run_session(session, false);
	}
	pthread_attr_destroy(&detached);
	wait_for_fewer(server, 1);
	return false;
}

int
server_run(const struct options *options, int ready_fd)
{
	struct server server;
	char why[WHY_MAX];
	if (!server_open(&server, options, why)) {
		fprintf(stderr, "rpma-perf server: %s\n", why);
		server_close(&server);
		return EXIT_FAILURE;
	}
	if (ready_fd >= 0)
		dprintf(ready_fd, "%u\n", server.port);
	else
		printf("listening on %s port %u, RDMA on port %u\n", options->addr, server.port,
			server.data_port);
	fflush(stdout);

	bool good, is_told = false;
	if (options->once) {
		struct session *session = next_session(&server, why);
		is_told = session != NULL;
		/* a local client is the same program, which prints the reason */
		good = session != NULL && run_session(session, ready_fd >= 0);
	} else {
		good = serve_all(&server, why);
	}
	if (!good && !is_told)
		fprintf(stderr, "rpma-perf server: %s\n", why);
	server_close(&server);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
