/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* server.c -- the target: serves one client after the other */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "receiver.h"
#include "server.h"
#include "target.h"

#define IDLE_TIMEOUT_MS 60000 /* longest pause between two steps of a client */
#define LAST_WORD_MS 1000     /* time for the client to say that it ends, after a thread has failed */
#define PORT_TRIES 10         /* another process may take a free port before this one listens on it */

struct server {
	const struct options *options;
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	uint16_t data_port;
	int listener;
	uint16_t port;
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

/* runs a step from go to result; msg becomes result */
static bool
measure(struct target *target, int fd, struct control_message *msg, char why[static WHY_MAX])
{
	struct receivers *receivers;
	if (!receivers_start(target, &receivers, why))
		return false;

	struct control_result result = { 0 };
	*msg = (struct control_message){ .type = CONTROL_GO };
	bool good = control_send(fd, msg, why) && await(fd, receivers, CONTROL_MARK, msg, why);
	struct cpu_time begin = cpu_now();
	good = good && await(fd, receivers, CONTROL_FINISH, msg, why);
	result.cpu = cpu_since(begin);
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
	return control_send(fd, msg, why);
}

/* runs a step; msg holds setup */
static bool
serve_step(struct server *server, int fd, struct control_message *msg, char why[static WHY_MAX])
{
	const struct options *options = server->options;
	const struct load load = msg->load;
	struct target target;
	if (!target_open(&target, &load, server->peer, options->memory, options->overwrite,
		    options->max_memory, why))
		return false;

	*msg = (struct control_message){ .type = CONTROL_READY };
	msg->ready.token = target.token;
	msg->ready.port = server->data_port;
	if (target.memory.is_file)
		snprintf(msg->ready.memory, sizeof(msg->ready.memory), "file, store granularity: %s",
			target.memory.granularity);
	else
		snprintf(msg->ready.memory, sizeof(msg->ready.memory), "DRAM");
	bool good = control_send(fd, msg, why) &&
		target_accept(&target, server->ep, options->direct_write, fd, why) &&
		measure(&target, fd, msg, why);
	target_close(&target);
	return good;
}

/* ---- clients ---- */

static bool
serve_client(struct server *server, int fd, char why[static WHY_MAX])
{
	struct control_message msg;
	bool is_closed;
	if (!control_receive(fd, CONTROL_HELLO, CONTROL_PATIENCE_MS, &msg, NULL, why))
		return false;
	msg = (struct control_message){ .type = CONTROL_HELLO, .version = CONTROL_VERSION };
	if (!control_send(fd, &msg, why))
		return false;
	for (;;) {
		if (!control_receive(fd, CONTROL_SETUP, IDLE_TIMEOUT_MS, &msg, &is_closed, why))
			return is_closed; /* a client may leave between two steps */
		if (!serve_step(server, fd, &msg, why))
			return false;
	}
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

	bool good = true;
	do {
		char client[CONTROL_TEXT_MAX];
		int fd;
		good = control_accept(server.listener, &fd, client, why);
		if (!good) {
			fprintf(stderr, "rpma-perf server: %s\n", why);
			break;
		}
		good = serve_client(&server, fd, why);
		if (!good) {
			if (ready_fd < 0) /* else the client is the same program, which prints it */
				fprintf(stderr, "rpma-perf server: %s: %s\n", client, why);
			control_refuse(fd, why);
		}
		close(fd);
	} while (!options->once);
	server_close(&server);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
