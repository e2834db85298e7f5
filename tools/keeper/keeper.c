/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* keeper.c -- starts, waits for events, and stops */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "files.h"
#include "keeper.h"
#include "log.h"
#include "notify.h"

/*
 * Over hardware, a client that is not established after this time has died. The software device has a time of its own, 5 s,
 * and when that is over it is certain that the client has never had the memory: no other timer may be faster.
 */
#define CONNECT_TIMEOUT_MS 8000
/* pause after listening, or taking a request, has failed */
#define PAUSE_MS 1000
/* the status is written at most this often; and this often while there are clients, whose work it counts */
#define STATUS_PAUSE_MS 1000
#define STATUS_PERIOD_MS 10000
/* a medium that fails while a client goes on is noticed after this time at most */
#define LOOK_MS 200

/* the source of an event: the upper half of epoll's data; the lower one is the place of a client */
enum { ON_SIGNAL, ON_REQUEST, ON_CLIENT };

int64_t
keeper_now_ms(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool
watch(struct keeper *k, int fd, uint32_t kind, uint32_t place)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | place };
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
		epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool
keeper_watch_client(struct keeper *k, const struct client *client)
{
	int fd;

	return rpma_conn_get_event_fd(client->conn, &fd) == 0 &&
		watch(k, fd, ON_CLIENT, (uint32_t)(client - k->clients));
}

/* --- listening --- */

/* stops taking requests, without dropping those that wait */
static void
pause_requests(struct keeper *k)
{
	int fd;

	if (rpma_ep_get_fd(k->ep, &fd) == 0)
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	k->listen_again_ms = keeper_now_ms() + PAUSE_MS;
}

static bool
listen_for_requests(struct keeper *k, char why[static WHY_MAX])
{
	int fd;

	if (k->ep == NULL && rpma_ep_listen(k->peer, k->options->addr, k->options->port, &k->ep))
		return why_say(why, "listening on %s port %s: %s", k->options->addr, k->options->port,
			rpma_errormsg());
	if (rpma_ep_get_fd(k->ep, &fd) || !watch(k, fd, ON_REQUEST, 0)) {
		(void)rpma_ep_shutdown(&k->ep);
		return why_say(why, "watching for requests: %m");
	}
	k->listen_again_ms = 0;
	return true;
}

static void
listen_again(struct keeper *k)
{
	char why[WHY_MAX];

	if (k->listen_again_ms == 0 || keeper_now_ms() < k->listen_again_ms)
		return;
	if (!listen_for_requests(k, why)) {
		log_line("%s", why);
		k->listen_again_ms = keeper_now_ms() + PAUSE_MS;
	}
}

/* --- the loop --- */

/* true if the signal means that the keeper is to end */
static bool
handle_signal(struct keeper *k)
{
	struct signalfd_siginfo signal;

	if (read(k->signal_fd, &signal, sizeof(signal)) != (ssize_t)sizeof(signal))
		return false;
	if (signal.ssi_signo != SIGHUP)
		return true;
	log_line("SIGHUP: nothing to do: the files of TLS are looked at whenever a connection begins");
	return false;
}

/* when the status is due; INT64_MAX: not before something changes */
static int64_t
status_due_ms(const struct keeper *k)
{
	if (k->options->status_path == NULL || (!k->changed && k->client_count == 0))
		return INT64_MAX;
	return k->status_ms + (k->changed ? STATUS_PAUSE_MS : STATUS_PERIOD_MS);
}

static void
write_status(struct keeper *k)
{
	char why[WHY_MAX];

	if (keeper_now_ms() < status_due_ms(k))
		return;
	if (!status_write(k, why))
		log_line("the status: %s", why);
	k->status_ms = keeper_now_ms();
	k->changed = false;
}

/* when to look at the media; INT64_MAX: no client can write */
static int64_t
look_due_ms(const struct keeper *k)
{
	for (int i = 0; i < k->options->lend_count; i++)
		if (k->lends[i].holder || k->lends[i].memory.unrecorded)
			return k->look_ms;
	return INT64_MAX;
}

static void
look_at_media(struct keeper *k)
{
	if (keeper_now_ms() < look_due_ms(k))
		return;
	lending_look_at_media(k);
	k->look_ms = keeper_now_ms() + LOOK_MS;
}

static int
time_to_next(const struct keeper *k)
{
	int64_t next = status_due_ms(k);

	if (look_due_ms(k) < next)
		next = look_due_ms(k);
	if (k->listen_again_ms && k->listen_again_ms < next)
		next = k->listen_again_ms;
	if (next == INT64_MAX)
		return -1;
	next -= keeper_now_ms();
	return next < 0 ? 0 : (int)next;
}

static bool
serve(struct keeper *k)
{
	for (;;) {
		struct epoll_event event;
		/* one event at a time: handling it may end the source of the next one */
		int n = epoll_wait(k->epoll_fd, &event, 1, time_to_next(k));
		if (n < 0 && errno != EINTR) {
			log_line("epoll_wait: %m");
			return false;
		}
		if (n == 1) {
			switch (event.data.u64 >> 32) {
			case ON_SIGNAL:
				if (handle_signal(k))
					return true;
				break;
			case ON_REQUEST:
				if (!lending_next_request(k))
					pause_requests(k);
				break;
			default:
				lending_client_event(k, &k->clients[(uint32_t)event.data.u64]);
			}
		}
		listen_again(k);
		look_at_media(k);
		write_status(k);
	}
}

/* --- starting and stopping --- */

/* before the library starts threads, so that none of them takes the signals */
static bool
open_events(struct keeper *k, char why[static WHY_MAX])
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (k->epoll_fd < 0 || sigprocmask(SIG_BLOCK, &signals, NULL))
		return why_say(why, "preparing for events: %m");
	k->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k->signal_fd < 0 || !watch(k, k->signal_fd, ON_SIGNAL, 0))
		return why_say(why, "preparing for signals: %m");
	return true;
}

bool
keeper_is_soft(const struct keeper *k)
{
	uint32_t caps = 0;

	return rpma_peer_get_caps(k->peer, &caps) == 0 && (caps & RPMA_CAP_SOFT);
}

static bool
open_peer(struct keeper *k, char why[static WHY_MAX])
{
	struct ibv_context *context;
	struct rpma_peer_cfg *peer_cfg = NULL;
	size_t size = 0;

	if (rpma_utils_get_ibv_context(k->options->addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context) ||
		rpma_peer_new(context, &k->peer))
		return why_rpma(why, k->options->addr);
	/* clients post operations; the keeper posts none */
	if (rpma_conn_cfg_new(&k->conn_cfg) || rpma_conn_cfg_set_cq_size(k->conn_cfg, 1) ||
		rpma_conn_cfg_set_sq_size(k->conn_cfg, 1) || rpma_conn_cfg_set_rq_size(k->conn_cfg, 1) ||
		(!keeper_is_soft(k) && rpma_conn_cfg_set_connect_timeout(k->conn_cfg, CONNECT_TIMEOUT_MS)))
		return why_rpma(why, "configuring connections");
	bool good = rpma_peer_cfg_new(&peer_cfg) == 0 &&
		rpma_peer_cfg_set_direct_write_to_pmem(peer_cfg, k->options->direct_write) == 0 &&
		rpma_peer_cfg_get_descriptor_size(peer_cfg, &size) == 0 && size == sizeof(k->peer_cfg) &&
		rpma_peer_cfg_get_descriptor(peer_cfg, &k->peer_cfg) == 0;
	(void)rpma_peer_cfg_delete(&peer_cfg);
	return good || why_say(why, "describing the configuration of the peer failed");
}

static bool
open_lend(struct keeper *k, const struct lend_option *option, struct lend *lend, char why[static WHY_MAX])
{
	static const char *const kinds[] = {
		[KEEPER_VOLATILE] = "volatile",
		[KEEPER_PAGES] = "durable by pages of a file",
		[KEEPER_LINES] = "durable by cache lines",
	};
	char id[IDENTITY_TEXT_SIZE], reason[WHY_MAX];

	*lend = (struct lend){ .name = option->name, .read_only = option->source.read_only };
	if (!memory_open(&lend->memory, &option->source, reason) || !lending_try(k, lend, reason))
		return why_say(why, "%s: %s", option->name, reason);
	identity_text(lend->memory.identity.id, id);
	log_line("%s: %zu bytes of %s, %s%s, %s, identity %s", lend->name, lend->memory.size,
		option->source.path ? option->source.path : "anonymous memory",
		kinds[lend->memory.persistence], lend->read_only ? ", for reading only" : "",
		lend->memory.created           ? "created"
			: lend->memory.renewed ? "without a record of its identity, so it gets a new one"
					       : "as it was",
		id);
	/*
	 * message(keeper, medium-failed): a flush could not write the disk, now or before the keeper was
	 * started -> The kernel's log (`dmesg`) says what the disk did. Save the data by reading; repair or
	 * replace the disk, mount its file system again, check the content; then `--clear-failed`.
	 */
	if (lend->memory.identity.failed)
		log_line(
			"%s: its medium has failed earlier, so it is lent for reading only; --clear-failed ends that",
			lend->name);
	return true;
}

static bool
start(struct keeper *k, char why[static WHY_MAX])
{
	const struct options *options = k->options;

	k->lends = calloc((size_t)options->lend_count, sizeof(*k->lends));
	k->clients = calloc((size_t)KEEPER_PLACES(options), sizeof(*k->clients));
	if (k->lends == NULL || k->clients == NULL)
		return why_say(why, "out of memory");
	for (int i = 0; i < options->lend_count; i++)
		k->lends[i].memory.fd = -1;
	if (!files_are_separate(options, why) || !open_events(k, why) || !open_peer(k, why))
		return false;
	for (int i = 0; i < options->lend_count; i++)
		if (!open_lend(k, &options->lends[i], &k->lends[i], why))
			return false;
	if (!listen_for_requests(k, why))
		return false;
	k->changed = true;
	log_line("listening on %s port %s", options->addr, options->port);
	return true;
}

/* also ends a keeper that was started only partly; false if memory could not be flushed */
static bool
stop(struct keeper *k)
{
	bool good = true;
	char why[WHY_MAX];

	(void)rpma_ep_shutdown(&k->ep);
	if (k->clients)
		lending_settle(k);
	for (int i = 0; k->clients && i < KEEPER_PLACES(k->options); i++)
		if (k->clients[i].conn)
			(void)lending_end(k, &k->clients[i], "the keeper stops");
	for (int i = 0; k->lends && i < k->options->lend_count; i++) {
		struct lend *lend = &k->lends[i];
		if (!lend->read_only && !memory_flush(&lend->memory, why)) {
			/*
			 * message(keeper): the flush at the end of the keeper has failed -> As for a medium
			 * that has failed.
			 */
			log_line("%s: NOT durable: %s", lend->name, why);
			good = false;
			(void)memory_record_failure(&lend->memory, why);
		} else if (lend->has_failed) {
			log_line("%s: NOT durable: its medium has failed", lend->name);
			good = false;
		}
		if (!memory_record_again(&lend->memory, why)) {
			/*
			 * message(keeper, record-not-written): the file of the identity cannot be written;
			 * it may be on the same disk -> Do not start the keeper again before the disk is
			 * repaired. `identity=` can name a file on another disk.
			 */
			log_line("%s: its record cannot be written: %s", lend->name, why);
			good = false;
		}
		memory_close(&lend->memory);
	}
	(void)rpma_conn_cfg_delete(&k->conn_cfg);
	(void)rpma_peer_delete(&k->peer);
	if (k->signal_fd >= 0)
		close(k->signal_fd);
	if (k->epoll_fd >= 0)
		close(k->epoll_fd);
	free(k->clients);
	free(k->lends);
	return good;
}

int
keeper_run(const struct options *options)
{
	struct keeper k = { .options = options, .epoll_fd = -1, .signal_fd = -1 };
	char why[WHY_MAX];

	bool good = start(&k, why);
	if (good) {
		write_status(&k);
		notify("READY=1");
		good = serve(&k);
		notify("STOPPING=1");
		log_line("stopping");
	} else {
		log_line("%s", why);
	}
	if (!stop(&k))
		good = false;
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
