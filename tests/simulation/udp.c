/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* udp.c -- simulated UDP sockets, and the network between them */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/epoll.h>

#include "addresses.h"
#include "disk.h"
#include "fds.h"
#include "sim.h"
#include "udp.h"

#define SOCKETS_MAX 32
#define QUEUE_MAX 256
#define MESSAGES_MAX 2048
#define FLIGHTS_MAX 1024
/* a datagram leaves the buffer of its sender within this time */
#define OUT_DELAY_NS (50 * SIM_US)
/* as for streams (net.c): no datagram waits longer than this for its reader */
#define UNREAD_NS_MAX (300 * SIM_MS)
#define PORT_FIRST 20000

struct waiting {
	struct udp_message *message;
	uint64_t since_ns;
};

/* what the copies of a descriptor share */
struct udp_socket {
	unsigned copies; /* 0: it is closed */
	unsigned life;   /* the place has had this number of sockets */
	bool is_v6, is_bound, passes;
	uint16_t port;
	unsigned leaving; /* datagrams in its own buffer */
	unsigned first, count;
	struct waiting queue[QUEUE_MAX];
};

/* one datagram under way: first in the buffer of its sender, then in the network */
struct flight {
	struct udp_message *message; /* NULL: a free place */
	struct udp_socket *sender;   /* NULL: it has left */
	unsigned life;               /* of the sender */
	uint16_t to;
	uint64_t due_ns;
};

static struct {
	struct udp_plan plan;
	struct udp_socket sockets[SOCKETS_MAX];
	struct flight flights[FLIGHTS_MAX];
	unsigned flights_used; /* all places from here on are free */
	struct udp_message messages[MESSAGES_MAX];
	unsigned message_count;
	struct {
		unsigned sent, doubled, stray;
		unsigned lost, to_nobody, filtered, no_room, drained, closed, read;
	} counts;
} udp;

void
udp_begin(const struct udp_plan *plan)
{
	assert(plan->in_room <= QUEUE_MAX);
	for (unsigned i = 0; i < SOCKETS_MAX; i++)
		udp.sockets[i] = (struct udp_socket){ .life = 0 };
	memset(udp.flights, 0, udp.flights_used * sizeof(udp.flights[0]));
	memset(&udp.counts, 0, sizeof(udp.counts));
	udp.flights_used = udp.message_count = 0;
	udp.plan = *plan;
}

static struct udp_message *
new_message(void)
{
	SIM_CHECK(udp.message_count < MESSAGES_MAX, "too many datagrams");
	struct udp_message *message = &udp.messages[udp.message_count++];
	message->size = message->copies = message->delivered = 0;
	memset(&message->from, 0, sizeof(message->from));
	return message;
}

/* --- the network --- */

static struct udp_socket *
bound_to(uint16_t port)
{
	for (unsigned i = 0; i < SOCKETS_MAX; i++) {
		struct udp_socket *socket = &udp.sockets[i];
		if (socket->copies > 0 && socket->is_bound && socket->port == port)
			return socket;
	}
	return NULL;
}

/* wakes who waits for one of these events at any of its descriptors */
static void
wake(const struct udp_socket *socket, uint32_t events)
{
	for (unsigned i = 0; i < FDS_MAX; i++) {
		if (fds[i].kind == KIND_UDP && fds[i].udp == socket)
			fds_wake_for(&fds[i], events);
	}
}

static struct flight *
begin_flight(struct udp_message *message, uint16_t to, uint64_t max_ns)
{
	struct flight *flight = udp.flights;

	while (flight->message)
		SIM_CHECK(++flight < udp.flights + FLIGHTS_MAX, "too many datagrams under way");
	if (flight >= udp.flights + udp.flights_used)
		udp.flights_used = (unsigned)(flight - udp.flights) + 1;
	message->copies++;
	*flight =
		(struct flight){ .message = message, .to = to, .due_ns = sim.now_ns + sim_delay_ns(max_ns) };
	return flight;
}

static struct udp_message *
changed_copy(const struct udp_message *message)
{
	struct udp_message *other = new_message();

	other->from = message->from;
	other->to_v6 = message->to_v6;
	other->size = message->size;
	memcpy(other->bytes, message->bytes, message->size);
	return other;
}

/* one bit of one byte, often of the header */
static struct udp_message *
damage(const struct udp_message *message)
{
	struct udp_message *other = changed_copy(message);
	const size_t at = sim_below((uint32_t)(sim_chance(500) && message->size > 68 ? 68 : message->size));

	other->bytes[at] ^= (uint8_t)(1u << sim_below(8));
	SIM_TRACE("byte %zu of a datagram is damaged", at);
	return other;
}

/* makes a datagram that no queue pair has sent */
static void
send_stray(const struct udp_message *message, uint16_t to)
{
	struct udp_message *other = changed_copy(message);
	const unsigned way = sim_below(5);

	udp.counts.stray++;
	switch (way) {
	case 0: /* a part */
		other->size = sim_below((uint32_t)message->size);
		break;
	case 1: /* more than the header tells */
		sim_random_bytes(other->bytes + message->size, UDP_SIZE - message->size);
		other->size = message->size + 1 + sim_below((uint32_t)(UDP_SIZE - message->size));
		break;
	case 2: /* from a stranger */
		other->from.sin6_addr.s6_addr[15] ^= 0x40;
		break;
	case 3: /* from another socket of the sender */
		other->from.sin6_port ^= htons(1);
		break;
	default: /* any bytes, to any port */
		other->size = sim_below(200);
		sim_random_bytes(other->bytes, other->size);
		to = (uint16_t)(PORT_FIRST + sim_below(udp.plan.ports));
		break;
	}
	SIM_TRACE("a stranger sends %zu bytes to port %u", other->size, to);
	begin_flight(other, to, udp.plan.delay_ns);
}

static void
depart(struct flight *flight)
{
	struct udp_message *message = flight->message;
	const uint16_t to = flight->to;
	struct udp_socket *sender = flight->sender;

	*flight = (struct flight){ 0 };
	message->copies--;
	if (sender->life == udp.sockets[sender - udp.sockets].life && sender->leaving > 0) {
		sender->leaving--;
		/* as Linux does (sock_def_write_space) */
		if (2 * sender->leaving <= udp.plan.out_room)
			wake(sender, EPOLLOUT);
	}
	if (sim_chance(udp.plan.stray))
		send_stray(message, to);
	if (sim_chance(udp.plan.twice)) {
		udp.counts.doubled++;
		SIM_TRACE("a datagram is doubled");
		begin_flight(message, to, udp.plan.delay_ns);
	}
	if (sim_chance(udp.plan.lose)) {
		udp.counts.lost++;
		SIM_TRACE("a datagram is lost");
		return;
	}
	if (sim_chance(udp.plan.damage))
		message = damage(message);
	begin_flight(message, to, udp.plan.delay_ns);
}

static void
arrive(struct flight *flight)
{
	struct udp_message *message = flight->message;
	struct udp_socket *socket = bound_to(flight->to);
	const unsigned port = flight->to;

	/* a socket of IPv4 has no address of IPv6 */
	if (socket && message->to_v6 && !socket->is_v6)
		socket = NULL;
	*flight = (struct flight){ 0 };
	SIM_TRACE("%zu bytes arrive at port %u%s", message->size, port,
		socket == NULL            ? ", which no socket has"
			: !socket->passes ? ", and are not wanted"
					  : "");
	if (socket == NULL) {
		udp.counts.to_nobody++;
	} else if (!socket->passes) {
		udp.counts.filtered++;
	} else if (socket->count >= udp.plan.in_room) {
		udp.counts.no_room++;
		SIM_TRACE("port %u has no room", port);
	} else {
		socket->queue[(socket->first + socket->count++) % QUEUE_MAX] =
			(struct waiting){ message, sim.now_ns };
		wake(socket, EPOLLIN);
	}
}

static struct flight *
next_flight(void)
{
	struct flight *next = NULL;

	for (struct flight *flight = udp.flights; flight < udp.flights + udp.flights_used; flight++) {
		if (flight->message && (next == NULL || flight->due_ns < next->due_ns))
			next = flight;
	}
	return next;
}

uint64_t
udp_happen(void)
{
	struct flight *flight;

	while ((flight = next_flight()) != NULL && flight->due_ns <= sim.now_ns) {
		if (flight->sender)
			depart(flight);
		else
			arrive(flight);
	}
	return flight ? flight->due_ns : SIM_NEVER;
}

bool
udp_is_quiet(void)
{
	for (unsigned i = 0; i < SOCKETS_MAX; i++) {
		if (udp.sockets[i].copies > 0 && udp.sockets[i].count > 0)
			return false;
	}
	return next_flight() == NULL;
}

void
udp_check_end(void)
{
	const unsigned sent = udp.counts.sent + udp.counts.doubled + udp.counts.stray;
	const unsigned gone = udp.counts.lost + udp.counts.to_nobody + udp.counts.filtered +
		udp.counts.no_room + udp.counts.drained + udp.counts.closed + udp.counts.read;

	SIM_CHECK(sent == gone, "the network has had %u datagrams, and %u have come to an end", sent, gone);
	for (unsigned i = 0; i < SOCKETS_MAX; i++)
		SIM_CHECK(udp.sockets[i].copies == 0, "a socket of port %u is still open",
			udp.sockets[i].port);
}

/* --- sockets --- */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int number, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int number, const struct sockaddr *addr, socklen_t len);
int __wrap_getsockname(int number, struct sockaddr *addr, socklen_t *len);
int __wrap_getsockopt(int number, int level, int name, void *value, socklen_t *len);
int __wrap_sendmmsg(int number, struct mmsghdr *msgs, unsigned count, int flags);
int __wrap_recvmmsg(int number, struct mmsghdr *msgs, unsigned count, int flags, struct timespec *timeout);

static bool
has_no_fd(void)
{
	if (!sim_chance(udp.plan.no_fd))
		return false;
	SIM_TRACE("no descriptor");
	errno = EMFILE;
	return true;
}

static struct udp_socket *
new_socket(void)
{
	struct udp_socket *socket = udp.sockets;

	while (socket->copies > 0)
		SIM_CHECK(++socket < udp.sockets + SOCKETS_MAX, "too many sockets");
	*socket = (struct udp_socket){ .copies = 1, .life = socket->life + 1, .passes = true };
	return socket;
}

int
__wrap_socket(int domain, int type, int protocol)
{
	const bool is_datagram = (type & 0xf) == SOCK_DGRAM;

	(void)protocol;
	if (domain == AF_INET6 && !addresses_have_v6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	if (has_no_fd())
		return -1;
	struct fd *fd = fds_open(is_datagram ? KIND_UDP : KIND_PORT);
	fd->is_v6 = domain == AF_INET6;
	if (is_datagram) {
		fd->udp = new_socket();
		fd->udp->is_v6 = fd->is_v6;
	}
	return fds_number(fd);
}

static uint16_t
free_port(void)
{
	uint16_t port;

	do {
		port = (uint16_t)(PORT_FIRST + sim_below(udp.plan.ports));
	} while (bound_to(port));
	return port;
}

int
__wrap_bind(int number, const struct sockaddr *addr, socklen_t len)
{
	struct fd *fd = fds_get(number);

	(void)addr;
	(void)len;
	SIM_CHECK(fd->kind == KIND_UDP || fd->kind == KIND_PORT, "a descriptor of another kind is bound");
	if (fd->kind == KIND_PORT) /* no peer connects to it */
		fd->port = (uint16_t)(PORT_FIRST + number - FD_FIRST);
	if (fd->kind == KIND_PORT)
		return 0;
	SIM_CHECK(!fd->udp->passes, "a socket is bound that would receive at once");
	fd->udp->port = free_port();
	fd->udp->is_bound = true;
	return 0;
}

/* a route is looked up, and nothing sent */
int
__wrap_connect(int number, const struct sockaddr *addr, socklen_t len)
{
	(void)addr;
	(void)len;
	SIM_CHECK(fds_get(number)->kind == KIND_UDP, "a descriptor of another kind is connected");
	return 0;
}

int
__wrap_getsockname(int number, struct sockaddr *addr, socklen_t *len)
{
	const struct fd *fd = fds_get(number);
	const uint16_t port = htons(fd->kind == KIND_UDP ? fd->udp->port : fd->port);
	const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = port };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = port };
	const socklen_t size = fd->is_v6 ? sizeof(v6) : sizeof(v4);

	SIM_CHECK(*len >= size, "an address has no room");
	*len = size;
	if (fd->is_v6) {
		memcpy(addr, &v6, sizeof(v6));
		return 0;
	}
	/* the address of a port that is kept stays as it was bound */
	struct sockaddr_in now;
	memcpy(&now, addr, sizeof(now));
	now.sin_family = AF_INET;
	now.sin_port = port;
	memcpy(addr, fd->kind == KIND_PORT ? &now : &v4, sizeof(v4));
	return 0;
}

/* of a route: the largest packet */
int
__wrap_getsockopt(int number, int level, int name, void *value, socklen_t *len)
{
	const int mtu = 65535;

	(void)fds_get(number);
	(void)level;
	(void)name;
	assert(*len == sizeof(mtu));
	memcpy(value, &mtu, sizeof(mtu));
	return 0;
}

int
udp_setsockopt(struct fd *fd, int level, int name, const void *value)
{
	struct udp_socket *socket = fd->udp;
	struct sock_fprog filter;

	if (level != SOL_SOCKET || name != SO_ATTACH_FILTER)
		return 0;
	memcpy(&filter, value, sizeof(filter));
	SIM_CHECK(filter.len == 1 && filter.filter[0].code == (BPF_RET | BPF_K), "a filter of another form");
	if (sim_chance(udp.plan.no_memory)) {
		SIM_TRACE("no memory for a filter");
		errno = ENOMEM;
		return -1;
	}
	socket->passes = filter.filter[0].k != 0;
	SIM_CHECK(!socket->passes || socket->count == 0,
		"port %u receives, and has %u datagrams that came before", socket->port, socket->count);
	return 0;
}

int
udp_copy(struct fd *fd)
{
	if (has_no_fd())
		return -1;
	struct fd *copy = fds_open(KIND_UDP);
	copy->udp = fd->udp;
	copy->is_v6 = fd->is_v6;
	copy->udp->copies++;
	return fds_number(copy);
}

static void
check_wait(const struct udp_socket *socket)
{
	uint64_t since_ns = socket->queue[socket->first].since_ns;

	/* a flush without a worker holds up all sockets */
	if (since_ns < disk_synced_ns())
		since_ns = disk_synced_ns();
	SIM_CHECK(sim.now_ns - since_ns < UNREAD_NS_MAX,
		"a datagram at port %u has waited to be read for %" PRIu64 " ms", socket->port,
		(sim.now_ns - since_ns) / SIM_MS);
}

/* an epoll goes on watching what a copy keeps open, and would report a descriptor that is closed */
void
udp_close(struct fd *fd)
{
	struct udp_socket *socket = fd->udp;

	SIM_CHECK(socket->copies == 1 || !fds_is_watched(fd),
		"port %u is closed, and an epoll still watches it", socket->port);
	if (--socket->copies > 0)
		return;
	if (socket->count > 0 && socket->passes)
		check_wait(socket);
	udp.counts.closed += socket->count;
	if (socket->is_bound)
		SIM_TRACE("port %u is closed, with %u datagrams", socket->port, socket->count);
}

uint32_t
udp_events(const struct fd *fd)
{
	const struct udp_socket *socket = fd->udp;

	return (socket->count > 0 ? EPOLLIN : 0u) | (2 * socket->leaving < udp.plan.out_room ? EPOLLOUT : 0u);
}

/* --- sending --- */

static struct sockaddr_in6
to_v6(const void *addr, bool is_v6)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4;

	if (is_v6) {
		memcpy(&v6, addr, sizeof(v6));
		return v6;
	}
	memcpy(&v4, addr, sizeof(v4));
	v6.sin6_port = v4.sin_port;
	v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(v6.sin6_addr.s6_addr + 12, &v4.sin_addr, 4);
	return v6;
}

/* the source that the datagram asks for */
static struct sockaddr_in6
source_of(const struct fd *fd, const struct msghdr *msg)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(fd->udp->port) };
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);

	SIM_CHECK(msg->msg_controllen >= sizeof(*cmsg), "a datagram leaves without a source");
	if (cmsg->cmsg_level == IPPROTO_IPV6) {
		struct in6_pktinfo info;
		SIM_CHECK(fd->is_v6 && cmsg->cmsg_type == IPV6_PKTINFO &&
				cmsg->cmsg_len == CMSG_LEN(sizeof(info)),
			"the source of a datagram has another form");
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		v6.sin6_addr = info.ipi6_addr;
	} else {
		struct in_pktinfo info;
		struct sockaddr_in v4 = { .sin_port = v6.sin6_port };
		SIM_CHECK(!fd->is_v6 && cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO &&
				cmsg->cmsg_len == CMSG_LEN(sizeof(info)),
			"the source of a datagram has another form");
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		v4.sin_addr = info.ipi_spec_dst;
		v6 = to_v6(&v4, false);
	}
	SIM_CHECK(addresses_have(&v6.sin6_addr),
		"a datagram leaves from an address that the machine has not");
	return v6;
}

/* false: the system does not take it now, and errno says why */
static bool
send_one(struct fd *fd, const struct msghdr *msg, bool is_first)
{
	static const int refusals[] = { EPERM, ENETUNREACH, ENOBUFS };
	struct udp_socket *socket = fd->udp;

	SIM_CHECK(msg->msg_namelen == (fd->is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)),
		"a destination has another length");
	if (socket->leaving >= udp.plan.out_room) {
		SIM_TRACE("port %u is full", socket->port);
		errno = EAGAIN;
		return false;
	}
	/* an error is told of the first datagram of a call only; behind others, the next call has it */
	if (sim_chance(udp.plan.refuse)) {
		errno = refusals[sim_below(3)];
		if (is_first) {
			SIM_TRACE("port %u: a datagram is refused", socket->port);
			udp_on_refusal(socket->port);
		}
		return false;
	}
	struct udp_message *message = new_message();
	const struct sockaddr_in6 to = to_v6(msg->msg_name, fd->is_v6);
	message->from = source_of(fd, msg);
	message->to_v6 = !IN6_IS_ADDR_V4MAPPED(&to.sin6_addr);
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const struct iovec *iov = &msg->msg_iov[i];
		SIM_CHECK(iov->iov_len <= UDP_SIZE - message->size, "a datagram is too long");
		if (iov->iov_len > 0)
			memcpy(message->bytes + message->size, iov->iov_base, iov->iov_len);
		message->size += iov->iov_len;
	}
	SIM_TRACE("port %u sends %zu bytes to port %u", socket->port, message->size, ntohs(to.sin6_port));
	udp_on_leave(socket->port, message, &to);
	struct flight *flight = begin_flight(message, ntohs(to.sin6_port), OUT_DELAY_NS);
	flight->sender = socket;
	flight->life = socket->life;
	socket->leaving++;
	udp.counts.sent++;
	return true;
}

int
__wrap_sendmmsg(int number, struct mmsghdr *msgs, unsigned count, int flags)
{
	struct fd *fd = fds_get(number);
	unsigned sent = 0;

	SIM_CHECK(flags == (MSG_DONTWAIT | MSG_NOSIGNAL), "a call that waits, or raises a signal");
	SIM_CHECK(count > 0, "nothing is sent");
	if (fds_is_interrupted())
		return -1;
	while (sent < count && send_one(fd, &msgs[sent].msg_hdr, sent == 0))
		sent++;
	return sent > 0 ? (int)sent : -1;
}

/* for datagrams that injected faults hold back */
ssize_t
udp_sendmsg(struct fd *fd, const struct msghdr *msg, int flags)
{
	struct mmsghdr one = { .msg_hdr = *msg };

	return __wrap_sendmmsg(fds_number(fd), &one, 1, flags) == 1 ? 1 : -1;
}

/* --- receiving --- */

static struct waiting
take_oldest(struct udp_socket *socket)
{
	const struct waiting waiting = socket->queue[socket->first];

	socket->first = (socket->first + 1) % QUEUE_MAX;
	socket->count--;
	return waiting;
}

static void
tell_source(const struct fd *fd, const struct udp_message *message, struct msghdr *msg)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = message->from.sin6_port };

	memcpy(&v4.sin_addr, message->from.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
	SIM_CHECK(msg->msg_namelen >= sizeof(message->from), "a source has no room");
	msg->msg_namelen = fd->is_v6 ? sizeof(message->from) : sizeof(v4);
	if (fd->is_v6)
		memcpy(msg->msg_name, &message->from, sizeof(message->from));
	else
		memcpy(msg->msg_name, &v4, sizeof(v4));
}

static void
read_one(struct fd *fd, struct mmsghdr *to)
{
	check_wait(fd->udp);
	struct udp_message *message = take_oldest(fd->udp).message;
	const struct iovec *iov = to->msg_hdr.msg_iov;
	const bool fits = message->size <= iov->iov_len;

	SIM_CHECK(to->msg_hdr.msg_iovlen == 1, "a datagram is read in pieces");
	to->msg_len = (unsigned)(fits ? message->size : iov->iov_len);
	to->msg_hdr.msg_flags = fits ? 0 : MSG_TRUNC;
	memcpy(iov->iov_base, message->bytes, to->msg_len);
	tell_source(fd, message, &to->msg_hdr);
	udp.counts.read++;
	udp_on_read(fd->udp->port, message);
}

int
__wrap_recvmmsg(int number, struct mmsghdr *msgs, unsigned count, int flags, struct timespec *timeout)
{
	struct fd *fd = fds_get(number);
	unsigned read = 0;

	(void)timeout;
	SIM_CHECK(flags == MSG_DONTWAIT, "a call that waits");
	if (fds_is_interrupted())
		return -1;
	if (sim_chance(udp.plan.no_memory)) {
		errno = ENOMEM;
		return -1;
	}
	for (; read < count && fd->udp->count > 0; read++)
		read_one(fd, &msgs[read]);
	if (read > 0) {
		SIM_TRACE("port %u: %u datagrams are read", fd->udp->port, read);
		return (int)read;
	}
	errno = EAGAIN;
	return -1;
}

/* drops what has come */
ssize_t
udp_recv(struct fd *fd, int flags)
{
	SIM_CHECK(flags == (MSG_DONTWAIT | MSG_TRUNC), "a call that waits, or tells another length");
	SIM_CHECK(!fd->udp->passes, "datagrams are dropped while others come");
	if (fd->udp->count == 0) {
		errno = EAGAIN;
		return -1;
	}
	udp.counts.drained++;
	return (ssize_t)take_oldest(fd->udp).message->size;
}
