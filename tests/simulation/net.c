/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* net.c -- two simulated sockets and the bytes between them */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "disk.h"
#include "fiber.h"
#include "fds.h"
#include "net.h"
#include "sim.h"
#include "udp.h"

#define ROOM_MAX ((uint32_t)1 << 16)

/* doc/softrdma-protocol.md, section 3 */
#define FRAME_HEADER 32
#define FRAME_LENGTH_AT 8
#define FRAME_DISCONNECT 33
/* section 2 */
#define RECORD_HEADER 12

/* the keep-alive time of a connection on which nothing comes back, if no other timeout was set */
#define SILENCE_MS 10000

/*
 * bytes are received within this time, unless a flush holds them up. If the application leads and does something else, the
 * device notices that after 6 ms, or after 200 ms if the application looks at another lead.
 */
#define UNREAD_NS_MAX (300 * SIM_MS)

/* one direction; positions count bytes of the stream */
struct pipe {
	uint8_t bytes[ROOM_MAX];
	uint64_t written, arrived, read;
	bool fin_written, fin_arrived;
	bool swallows; /* what is written is lost, unnoticed by the writer */
	/* the protocol's frames, which tell if the stream ends inside one */
	uint8_t header[FRAME_HEADER];
	size_t header_len;
	uint32_t payload_left;
	bool torn, disconnected;
	/* the records around them, if the stream has records */
	uint8_t record_header[RECORD_HEADER];
	size_t record_header_len;
	uint32_t record_left;
	uint64_t damage_at; /* SIM_NEVER: no damage */
	uint64_t next_ns;   /* when the next piece arrives */
	uint64_t unread_ns; /* when the oldest byte arrived that has not been read */
	uint64_t cut_at;
	enum net_cut cut_how;
};

static struct {
	struct net_plan plan;
	struct pipe pipes[NET_SIDES]; /* by writer */
	bool cut;
	bool reset;                          /* by a side that had not read everything */
	uint64_t silence_ends_ns[NET_SIDES]; /* when TCP gives up; SIM_NEVER: it has no reason to */
	uint64_t stuck_ns[NET_SIDES];        /* since when sent bytes have had no room; 0: they have room */
} net;

static struct fd *
socket_of(unsigned side)
{
	for (unsigned i = 0; i < FDS_MAX; i++) {
		if (fds[i].kind == KIND_SOCKET && fds[i].side == side)
			return &fds[i];
	}
	return NULL;
}

void
net_begin(const struct net_plan *plan)
{
	assert(plan->room <= ROOM_MAX);
	net.plan = *plan;
	fds_reset();
	for (unsigned side = 0; side < NET_SIDES; side++) {
		struct pipe *pipe = &net.pipes[side];

		pipe->written = pipe->arrived = pipe->read = 0;
		pipe->fin_written = pipe->fin_arrived = pipe->swallows = false;
		pipe->torn = pipe->disconnected = false;
		pipe->header_len = pipe->payload_left = 0;
		pipe->record_header_len = pipe->record_left = 0;
		pipe->next_ns = pipe->cut_at = pipe->damage_at = SIM_NEVER;
		net.silence_ends_ns[side] = SIM_NEVER;
		net.stuck_ns[side] = 0;
	}
	net.cut = net.reset = false;
}

void
net_connect(int sockets[static NET_SIDES])
{
	for (unsigned side = 0; side < NET_SIDES; side++) {
		struct fd *fd = fds_open(KIND_SOCKET);

		fd->side = side;
		fd->timeout_ms = SILENCE_MS;
		sockets[side] = fds_number(fd);
	}
}

/* --- events --- */

static struct pipe *
pipe_in(const struct fd *fd)
{
	return &net.pipes[1 - fd->side];
}

static struct pipe *
pipe_out(const struct fd *fd)
{
	return &net.pipes[fd->side];
}

static uint64_t
room_of(const struct pipe *pipe)
{
	return net.plan.room - (pipe->written - pipe->read);
}

/* the result of poll(2) now */
uint32_t
fds_events(const struct fd *fd)
{
	uint32_t events = 0;

	if (fd->kind == KIND_EVENT)
		return fd->count > 0 ? EPOLLIN : 0;
	if (fd->kind == KIND_EPOLL)
		return fds_has_report(fd) ? EPOLLIN : 0;
	if (fd->kind == KIND_UDP)
		return udp_events(fd);
	const struct pipe *in = pipe_in(fd);
	bool ended = in->fin_arrived || fd->read_shut;
	if (in->arrived > in->read || ended || fd->error)
		events |= EPOLLIN;
	if (ended || fd->error)
		events |= EPOLLRDHUP;
	if (fd->error)
		events |= EPOLLERR | EPOLLHUP;
	if (ended && pipe_out(fd)->fin_written)
		events |= EPOLLHUP;
	if (room_of(pipe_out(fd)) > 0 || fd->error)
		events |= EPOLLOUT;
	return events;
}

static void
set_error(unsigned side, int error)
{
	struct fd *fd = socket_of(side);

	net.silence_ends_ns[side] = SIM_NEVER;
	if (fd == NULL || fd->error)
		return;
	fd->error = error;
	fds_wake(fd);
}

/* the reader has made room */
static void
room_again(unsigned side)
{
	struct fd *fd = socket_of(side);

	net.stuck_ns[side] = 0;
	if (fd == NULL || !fd->wants_room)
		return;
	fd->wants_room = false;
	fds_wake(fd);
}

/* --- the stream --- */

static void
expect_arrival(struct pipe *pipe)
{
	if (pipe->next_ns != SIM_NEVER || pipe->fin_arrived || pipe->swallows)
		return;
	if (pipe->arrived == pipe->written && !pipe->fin_written)
		return;
	uint64_t max_ns = sim_chance(net.plan.stall) ? 4 * SIM_S : net.plan.delay_ns;
	pipe->next_ns = sim.now_ns + sim_delay_ns(max_ns);
}

/* from now on nothing comes back, which TCP notices after its timeout */
static void
fall_silent(void)
{
	for (unsigned side = 0; side < NET_SIDES; side++) {
		struct fd *fd = socket_of(side);
		net.pipes[side].swallows = true;
		net.pipes[side].next_ns = SIM_NEVER;
		if (fd)
			net.silence_ends_ns[side] = sim.now_ns + fd->timeout_ms * SIM_MS;
	}
}

static void
cut(struct pipe *pipe, enum net_cut how)
{
	static const char *const names[NET_CUTS] = { "reset", "end of one direction", "silence" };

	SIM_TRACE("the stream is cut: %s", names[how]);
	net.cut = true;
	pipe->cut_at = SIM_NEVER;
	switch (how) {
	case NET_CUT_RESET:
		fall_silent();
		set_error(0, ECONNRESET);
		set_error(1, ECONNRESET);
		break;
	case NET_CUT_FIN:
		pipe->fin_arrived = true;
		pipe->swallows = true;
		pipe->next_ns = SIM_NEVER;
		/* TCP tells a sender some time later that the other side has stopped reading */
		net.silence_ends_ns[pipe - net.pipes] = sim.now_ns + SILENCE_MS * SIM_MS;
		if (socket_of((unsigned)(1 - (pipe - net.pipes))))
			fds_wake(socket_of((unsigned)(1 - (pipe - net.pipes))));
		break;
	default:
		fall_silent();
		break;
	}
}

void
net_cut_behind(unsigned side, uint64_t bytes, enum net_cut how)
{
	net.pipes[side].cut_at = bytes;
	net.pipes[side].cut_how = how;
}

void
net_damage(unsigned side, uint64_t byte)
{
	assert(net.plan.records);
	net.pipes[side].damage_at = byte;
}

void
net_cut_now(enum net_cut how)
{
	if (!net.cut)
		cut(&net.pipes[sim_below(NET_SIDES)], how);
}

bool
net_is_cut(void)
{
	return net.cut;
}

bool
net_was_reset(void)
{
	return net.reset;
}

bool
net_is_torn(unsigned side)
{
	return net.pipes[side].torn;
}

static void
arrive(unsigned side)
{
	struct pipe *pipe = &net.pipes[side];
	struct fd *fd = socket_of(1 - side);
	uint64_t backlog = pipe->written - pipe->arrived;
	uint64_t piece = 1 + sim_below(net.plan.piece_max);

	pipe->next_ns = SIM_NEVER;
	if (piece < backlog / 32) /* byte by byte, but not endlessly */
		piece = backlog / 32;
	if (piece > backlog || sim_chance(200))
		piece = backlog;
	if (!net.cut && pipe->arrived + piece >= pipe->cut_at)
		piece = pipe->cut_at - pipe->arrived;
	if (pipe->arrived == pipe->read)
		pipe->unread_ns = sim.now_ns;
	pipe->arrived += piece;
	SIM_TRACE("%" PRIu64 " bytes arrive at %u", piece, 1 - side);
	if (!net.cut && pipe->arrived == pipe->cut_at) {
		if (fd && piece > 0)
			fds_wake(fd);
		cut(pipe, pipe->cut_how);
		return;
	}
	/* the end of the stream comes with the last bytes, or after them */
	if (pipe->fin_written && pipe->arrived == pipe->written && (piece == 0 || sim_chance(500)))
		pipe->fin_arrived = true;
	if (fd == NULL) { /* the socket is closed: the bytes are discarded */
		pipe->read = pipe->arrived;
		if (piece > 0)
			set_error(side, ECONNRESET);
	} else {
		fds_wake(fd);
	}
	expect_arrival(pipe);
}

static void
look_at_timers(unsigned side, uint64_t *next_ns)
{
	const struct fd *fd = socket_of(side);

	/* a peer whose window stays closed counts as dead after the same time (TCP_USER_TIMEOUT) */
	if (fd && net.stuck_ns[side] && net.silence_ends_ns[side] == SIM_NEVER) {
		uint64_t end_ns = net.stuck_ns[side] + fd->timeout_ms * SIM_MS;
		if (end_ns <= sim.now_ns) {
			SIM_TRACE("TCP gives up at %u: no room for so long", side);
			net.stuck_ns[side] = 0;
			set_error(side, ETIMEDOUT);
			set_error(1 - side, ECONNRESET);
		} else if (end_ns < *next_ns) {
			*next_ns = end_ns;
		}
	}
	if (net.silence_ends_ns[side] <= sim.now_ns) {
		SIM_TRACE("TCP gives up at %u: nothing comes back", side);
		set_error(side, ETIMEDOUT);
	} else if (net.silence_ends_ns[side] < *next_ns) {
		*next_ns = net.silence_ends_ns[side];
	}
}

uint64_t
net_happen(void)
{
	uint64_t next_ns = SIM_NEVER;

	for (unsigned side = 0; side < NET_SIDES; side++) {
		if (net.pipes[side].next_ns <= sim.now_ns)
			arrive(side);
		if (net.pipes[side].next_ns < next_ns)
			next_ns = net.pipes[side].next_ns;
		look_at_timers(side, &next_ns);
	}
	return next_ns;
}

/* --- calls of the device --- */

bool
fds_is_interrupted(void)
{
	if (!sim_chance(net.plan.interrupt))
		return false;
	errno = EINTR;
	return true;
}

/* no frame may follow DISCONNECT */
static void
check_frame(struct pipe *pipe, uint8_t opcode)
{
	SIM_CHECK(!pipe->disconnected, "a frame is sent behind DISCONNECT");
	pipe->disconnected = opcode == FRAME_DISCONNECT;
}

static uint32_t
get32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* follows the frames that are sent */
static void
parse_frames(struct pipe *pipe, const uint8_t *at, size_t len)
{
	while (len > 0) {
		size_t n = pipe->payload_left;

		if (n == 0) {
			n = FRAME_HEADER - pipe->header_len < len ? FRAME_HEADER - pipe->header_len : len;
			memcpy(pipe->header + pipe->header_len, at, n);
			pipe->header_len += n;
			if (pipe->header_len == FRAME_HEADER) {
				pipe->payload_left = get32(pipe->header + FRAME_LENGTH_AT);
				pipe->header_len = 0;
				check_frame(pipe, pipe->header[0]);
			}
		} else {
			n = n < len ? n : len;
			pipe->payload_left -= (uint32_t)n;
		}
		at += n;
		len -= n;
	}
}

/* follows the records that are sent, and the frames in them */
static void
parse_records(struct pipe *pipe, const uint8_t *at, size_t len)
{
	while (len > 0) {
		size_t n = pipe->record_left;

		if (n == 0) {
			const size_t missing = RECORD_HEADER - pipe->record_header_len;
			n = missing < len ? missing : len;
			memcpy(pipe->record_header + pipe->record_header_len, at, n);
			pipe->record_header_len += n;
			if (pipe->record_header_len == RECORD_HEADER) {
				pipe->record_left = get32(pipe->record_header);
				pipe->record_header_len = 0;
				SIM_CHECK(pipe->record_left > 0, "an empty record is sent");
			}
		} else {
			n = n < len ? n : len;
			parse_frames(pipe, at, n);
			pipe->record_left -= (uint32_t)n;
		}
		at += n;
		len -= n;
	}
}

static void
parse(struct pipe *pipe, const uint8_t *at, size_t len)
{
	if (net.plan.records)
		parse_records(pipe, at, len);
	else
		parse_frames(pipe, at, len);
}

/* damages the received bytes, which begin at this position of the stream */
static void
damage(struct pipe *pipe, uint64_t position, uint8_t *bytes, uint64_t len)
{
	if (pipe->damage_at < position || pipe->damage_at - position >= len)
		return;
	bytes[pipe->damage_at - position] ^= (uint8_t)(1u << sim_below(8));
	SIM_TRACE("byte %" PRIu64 " is damaged", pipe->damage_at);
	net.cut = true;
}

static void
check_wait(struct pipe *pipe)
{
	uint64_t since_ns = pipe->unread_ns;

	if (since_ns < disk_synced_ns())
		since_ns = disk_synced_ns();
	SIM_CHECK(sim.now_ns - since_ns < UNREAD_NS_MAX,
		"bytes have waited to be received for %" PRIu64 " ms", (sim.now_ns - since_ns) / SIM_MS);
	pipe->unread_ns = sim.now_ns;
}

ssize_t __wrap_sendmsg(int number, const struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int number, struct msghdr *msg, int flags);

ssize_t
__wrap_sendmsg(int number, const struct msghdr *msg, int flags)
{
	struct fd *fd = fds_get(number);
	if (fd->kind == KIND_UDP)
		return udp_sendmsg(fd, msg, flags);
	struct pipe *pipe = pipe_out(fd);
	uint64_t total = 0;

	SIM_CHECK(flags == (MSG_DONTWAIT | MSG_NOSIGNAL), "a call that waits, or raises a signal");
	SIM_CHECK(!pipe->fin_written, "something is sent behind the end of the stream");
	if (fds_is_interrupted())
		return -1;
	if (fd->error) {
		errno = EPIPE;
		return -1;
	}
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		total += msg->msg_iov[i].iov_len;
	SIM_CHECK(total > 0, "nothing is sent");
	uint64_t room = room_of(pipe);
	if (room == 0) {
		fd->wants_room = true;
		if (net.stuck_ns[fd->side] == 0)
			net.stuck_ns[fd->side] = sim.now_ns;
		errno = EAGAIN;
		return -1;
	}
	uint64_t len = total < room ? total : room;
	if (sim_chance(100)) /* fewer, as if memory were short */
		len = 1 + sim_random() % len;
	uint64_t left = len;
	for (size_t i = 0; left > 0; i++) {
		const uint8_t *from = msg->msg_iov[i].iov_base;
		size_t n = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;

		left -= n;
		while (n > 0) {
			size_t at = pipe->written % ROOM_MAX;
			size_t some = n < ROOM_MAX - at ? n : ROOM_MAX - at;

			memcpy(pipe->bytes + at, from, some);
			parse(pipe, from, some);
			pipe->written += some;
			from += some;
			n -= some;
		}
	}
	SIM_TRACE("%u sends %" PRIu64 " of %" PRIu64 " bytes", fd->side, len, total);
	expect_arrival(pipe);
	return (ssize_t)len;
}

ssize_t
__wrap_recvmsg(int number, struct msghdr *msg, int flags)
{
	struct fd *fd = fds_get(number);
	struct pipe *pipe = pipe_in(fd);
	uint64_t before = pipe->read;

	SIM_CHECK(flags == MSG_DONTWAIT, "a call that waits");
	if (fds_is_interrupted())
		return -1;
	if (fd->read_shut)
		return 0;
	if (pipe->read < pipe->arrived)
		check_wait(pipe);
	for (size_t i = 0; i < msg->msg_iovlen && pipe->read < pipe->arrived; i++) {
		uint8_t *to = msg->msg_iov[i].iov_base;
		uint64_t n = msg->msg_iov[i].iov_len;

		if (n > pipe->arrived - pipe->read)
			n = pipe->arrived - pipe->read;
		while (n > 0) {
			size_t at = pipe->read % ROOM_MAX;
			size_t some = n < ROOM_MAX - at ? n : ROOM_MAX - at;

			memcpy(to, pipe->bytes + at, some);
			damage(pipe, pipe->read, to, some);
			pipe->read += some;
			to += some;
			n -= some;
		}
	}
	uint64_t len = pipe->read - before;
	if (len > 0) {
		SIM_TRACE("%u receives %" PRIu64 " bytes", fd->side, len);
		room_again(1 - fd->side);
		return (ssize_t)len;
	}
	if (pipe->fin_arrived)
		return 0;
	errno = fd->error ? fd->error : EAGAIN;
	return -1;
}

ssize_t __wrap_send(int number, const void *buf, size_t len, int flags);
ssize_t __wrap_recv(int number, void *buf, size_t len, int flags);

ssize_t
__wrap_send(int number, const void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	return __wrap_sendmsg(number, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

ssize_t
__wrap_recv(int number, void *buf, size_t len, int flags)
{
	struct fd *fd = fds_get(number);
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	if (fd->kind == KIND_UDP)
		return udp_recv(fd, flags);
	return __wrap_recvmsg(number, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

int __wrap_shutdown(int number, int how);
int __real_close(int number);
int __wrap_close(int number);
int __wrap_setsockopt(int number, int level, int name, const void *value, socklen_t len);
int __wrap_getpeername(int number, struct sockaddr *addr, socklen_t *len);
int __real_fcntl(int number, int command, ...);
int __wrap_fcntl(int number, int command, ...);

static void
end_writing(const struct fd *fd)
{
	struct pipe *pipe = pipe_out(fd);

	pipe->torn = pipe->header_len > 0 || pipe->payload_left > 0 || pipe->record_header_len > 0 ||
		pipe->record_left > 0;
	pipe->fin_written = true;
	expect_arrival(pipe);
}

int
__wrap_shutdown(int number, int how)
{
	struct fd *fd = fds_get(number);

	SIM_TRACE("%u shuts %s down", fd->side, how == SHUT_WR ? "its side" : "both sides");
	end_writing(fd);
	if (how == SHUT_RDWR) {
		fd->read_shut = true;
		fds_wake(fd);
	}
	return 0;
}

/* unread bytes make the close a reset, which overtakes bytes on their way to the other side */
static void
close_socket(struct fd *fd)
{
	struct pipe *in = pipe_in(fd), *out = pipe_out(fd);
	bool reset = in->written > in->read && !in->swallows;

	SIM_TRACE("%u closes its socket%s", fd->side, reset ? ": a reset" : "");
	fd->kind = KIND_NONE;
	net.reset = net.reset || reset;
	if (reset) {
		out->written = out->arrived + sim_random() % (out->written - out->arrived + 1);
		set_error(1 - fd->side, ECONNRESET);
	} else {
		end_writing(fd);
	}
	in->read = in->arrived;
}

int
__wrap_close(int number)
{
	if (number < FD_FIRST)
		return __real_close(number);
	struct fd *fd = fds_get(number);
	if (fd->kind == KIND_SOCKET)
		close_socket(fd);
	else if (fd->kind == KIND_UDP)
		udp_close(fd);
	fds_close(fd);
	return 0;
}

int
__wrap_setsockopt(int number, int level, int name, const void *value, socklen_t len)
{
	struct fd *fd = fds_get(number);

	(void)len;
	if (fd->kind == KIND_UDP)
		return udp_setsockopt(fd, level, name, value);
	if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT)
		memcpy(&fd->timeout_ms, value, sizeof(fd->timeout_ms));
	return 0;
}

int
__wrap_getpeername(int number, struct sockaddr *addr, socklen_t *len)
{
	(void)fds_get(number);
	(void)addr;
	(void)len;
	errno = ENOTCONN;
	return -1;
}

int
__wrap_fcntl(int number, int command, ...)
{
	va_list ap;

	va_start(ap, command);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (number < FD_FIRST)
		return __real_fcntl(number, command, arg);
	struct fd *fd = fds_get(number);
	switch (command) {
	case F_DUPFD_CLOEXEC:
		return fd->kind == KIND_UDP ? udp_copy(fd) : fds_copy_epoll(number);
	case F_GETFL:
		return fd->flags;
	case F_SETFL:
		fd->flags = (int)(intptr_t)arg;
		return 0;
	default:
		return 0;
	}
}
