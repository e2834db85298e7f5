/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* datagram_socket.c -- the UDP socket of a queue pair of unreliable datagrams (UD): receives and sends, in bounded turns */

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/fork.h"
#include "softrdma/core/datagram.h"
#include "softrdma/engine/datagram_socket.h"
#include "softrdma/engine/engine.h"
#include "softrdma/engine/fault_inject.h"
#include "softrdma/engine/send.h"

/* datagrams of one system call, and system calls of one turn */
#define BATCH 16
#define TURNS 8

/* bytes that are asked for the socket's buffers; the system gives what it allows (net.core.rmem_max) */
#define BUFFER_SIZE (8 << 20)

#define DATAGRAM_SIZE (SOFTRDMA_DATAGRAM_HEADER + SOFTRDMA_DATAGRAM_MAX)

/* a datagram that an injected fault lets leave after the next one */
struct later {
	size_t length; /* 0: no datagram waits */
	union softrdma_address to, source;
	uint8_t bytes[DATAGRAM_SIZE];
};

struct softrdma_datagram_socket {
	const struct softrdma_datagram_calls *calls;
	bool is_v6; /* the socket sends to mapped addresses, too */
	bool has_own_gid;
	union ibv_gid own_gid; /* the last one that was asked for, if there is one */
	uint8_t received[BATCH][DATAGRAM_SIZE];
	struct later later;
	uint8_t headers[BATCH][SOFTRDMA_DATAGRAM_HEADER];
	uint8_t payloads[BATCH][SOFTRDMA_DATAGRAM_MAX]; /* of datagrams that leave from a copy */
};

/* --- receiving --- */

struct arrivals {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	union softrdma_address from[BATCH];
};

static bool
is_own_gid(struct softrdma_datagram_socket *socket, const union ibv_gid *gid)
{
	if (socket->has_own_gid && memcmp(&socket->own_gid, gid, sizeof(*gid)) == 0)
		return true;
	if (!socket->calls->is_own_gid(gid))
		return false;
	socket->own_gid = *gid;
	socket->has_own_gid = true;
	return true;
}

/* a datagram of this size has come; every byte of it may be forged */
static void
take(struct softrdma_connection *conn, uint8_t *bytes, size_t size, const union softrdma_address *from)
{
	struct softrdma_link *link = &conn->link;
	struct softrdma_datagram datagram;
	const struct sockaddr_in6 from_v6 = softrdma_address_map(from);
	if (!softrdma_datagram_decode(bytes, size, &datagram) || datagram.to_qp != link->responder.qp_num ||
		!is_own_gid(conn->datagram_socket, &datagram.to) ||
		!conn->datagram_socket->calls->is_from(&datagram.from, datagram.from_qp, &from_v6))
		softrdma_datagram_drop(link, SOFTRDMA_STATS_FOREIGN);
	else if (!softrdma_datagram_is_whole(&datagram, bytes))
		softrdma_datagram_drop(link, SOFTRDMA_STATS_DAMAGED);
	else
		softrdma_datagram_deliver(link, &datagram, bytes);
}

/* one system call; true: there may be more */
static bool
receive_batch(struct softrdma_connection *conn, bool *progress)
{
	SOFTRDMA_NO_CANCEL;
	struct arrivals arrivals;
	for (int i = 0; i < BATCH; i++) {
		arrivals.iov[i] = (struct iovec){ conn->datagram_socket->received[i], DATAGRAM_SIZE };
		arrivals.msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &arrivals.from[i],
			.msg_namelen = sizeof(arrivals.from[i]),
			.msg_iov = &arrivals.iov[i],
			.msg_iovlen = 1,
		};
	}
	const int count = recvmmsg(conn->fd, arrivals.msgs, BATCH, MSG_DONTWAIT, NULL);
	if (count < 0) /* no edge comes for what waits if memory was short */
		return errno == EINTR || errno == ENOMEM || errno == ENOBUFS;
	softrdma_pages_forget(&conn->link.rx.pages);
	for (int i = 0; i < count; i++) {
		const struct mmsghdr *msg = &arrivals.msgs[i];
		if (msg->msg_hdr.msg_flags & MSG_TRUNC)
			softrdma_datagram_drop(&conn->link, SOFTRDMA_STATS_FOREIGN);
		else
			take(conn, conn->datagram_socket->received[i], msg->msg_len, &arrivals.from[i]);
	}
	*progress = *progress || count > 0;
	return count == BATCH;
}

static bool
receive(struct softrdma_connection *conn, bool *progress)
{
	bool more = conn->fd >= 0;
	for (int turn = 0; more && turn < TURNS; turn++)
		more = receive_batch(conn, progress);
	return more;
}

/* --- datagrams that are to leave --- */

union control {
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	struct cmsghdr align;
};

struct departures {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH][SOFTRDMA_SGE_MAX + 1];
	union softrdma_address to[BATCH];
	union control control[BATCH];
};

/* the address of this side that the GID names; else the peer would take it for a forged one */
static void
set_source(struct msghdr *msg, union control *control, const union softrdma_address *source)
{
	const bool v6 = source->any.sa_family == AF_INET6;
	memset(control, 0, sizeof(*control));
	msg->msg_control = control->bytes;
	msg->msg_controllen =
		v6 ? CMSG_SPACE(sizeof(struct in6_pktinfo)) : CMSG_SPACE(sizeof(struct in_pktinfo));
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	cmsg->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
	if (v6) {
		const struct in6_pktinfo info = { .ipi6_addr = source->in6.sin6_addr };
		cmsg->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	} else {
		const struct in_pktinfo info = { .ipi_spec_dst = source->in.sin_addr };
		cmsg->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	}
}

static union softrdma_address
for_socket(const struct softrdma_datagram_socket *socket, const struct sockaddr_in6 *v6)
{
	union softrdma_address address = { .in6 = *v6 };
	if (!socket->is_v6)
		softrdma_address_unmap(&address);
	return address;
}

/* the status with which the request at seq fails; IBV_WC_SUCCESS: its datagram is the next of the batch */
static enum ibv_wc_status
prepare(struct softrdma_connection *conn, uint32_t seq, struct departures *out, unsigned at)
{
	const struct softrdma_destination *to = softrdma_send_ring_at(&conn->link.requester.ring, seq)->to;
	uint8_t *header = conn->datagram_socket->headers[at], *payload = conn->datagram_socket->payloads[at];
	const bool copies = to->summed || conn->fault_inject;
	struct softrdma_place place;
	const enum ibv_wc_status status = softrdma_datagram_build(&conn->link, seq, header, &place);
	if (status != IBV_WC_SUCCESS)
		return status;
	struct iovec *iov = out->iov[at];
	iov[0] = (struct iovec){ header, SOFTRDMA_DATAGRAM_HEADER };
	memcpy(&iov[1], place.iov, (size_t)place.count * sizeof(place.iov[0]));
	if (copies && !softrdma_datagram_copy(&place, payload, &iov[1].iov_len)) {
		softrdma_mr_tell_missing();
		return IBV_WC_LOC_PROT_ERR;
	}
	if (copies)
		iov[1].iov_base = payload;
	if (to->summed)
		softrdma_datagram_sum(header, payload, iov[1].iov_len);
	out->to[at] = for_socket(conn->datagram_socket, &to->address);
	const union softrdma_address source = for_socket(conn->datagram_socket, &to->source);
	out->msgs[at].msg_hdr = (struct msghdr){
		.msg_name = &out->to[at],
		.msg_namelen = softrdma_address_length(&out->to[at].any),
		.msg_iov = iov,
		.msg_iovlen = 1 + (copies ? 1u : (size_t)place.count),
	};
	set_source(&out->msgs[at].msg_hdr, &out->control[at], &source);
	return IBV_WC_SUCCESS;
}

/* --- sending with injected faults: one datagram at a time, from a copy --- */

/* as sendmsg(2), of one that leaves after another */
static void
send_later(struct softrdma_connection *conn)
{
	struct later *later = &conn->datagram_socket->later;
	struct iovec iov = { later->bytes, later->length };
	struct msghdr msg = {
		.msg_name = &later->to,
		.msg_namelen = softrdma_address_length(&later->to.any),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	union control control;
	if (later->length == 0)
		return;
	set_source(&msg, &control, &later->source);
	sendmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL); /* if that fails, it is lost */
	later->length = 0;
}

static void
keep_for_later(struct softrdma_connection *conn, const struct departures *out)
{
	struct later *later = &conn->datagram_socket->later;
	const struct iovec *iov = out->iov[0];
	const struct softrdma_send_ring *ring = &conn->link.requester.ring;
	later->length = iov[0].iov_len + iov[1].iov_len;
	memcpy(later->bytes, iov[0].iov_base, iov[0].iov_len);
	memcpy(later->bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	later->to = out->to[0];
	later->source =
		for_socket(conn->datagram_socket, &softrdma_send_ring_at(ring, ring->tail)->to->source);
}

/* as sendmmsg(2), for the first datagram of the batch */
static int
send_with_faults(struct softrdma_connection *conn, struct departures *out)
{
	const struct iovec *last = &out->iov[0][out->iov[0][1].iov_len > 0 ? 1 : 0];
	const enum softrdma_datagram_fate fate = softrdma_fault_inject_datagram(conn->fault_inject);
	int sent = 1;
	if (fate == SOFTRDMA_DATAGRAM_IS_CORRUPT) /* the last byte, of the payload or of the sum */
		((uint8_t *)last->iov_base)[last->iov_len - 1] ^= 1;
	if (fate == SOFTRDMA_DATAGRAM_LEAVES_LATER)
		keep_for_later(conn, out);
	else if (fate != SOFTRDMA_DATAGRAM_IS_LOST)
		sent = sendmmsg(conn->fd, out->msgs, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0 && fate == SOFTRDMA_DATAGRAM_LEAVES_TWICE)
		sendmmsg(conn->fd, out->msgs, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0 && fate != SOFTRDMA_DATAGRAM_LEAVES_LATER)
		send_later(conn);
	conn->fault_inject->datagrams += sent > 0;
	return sent;
}

/* --- sending --- */

/* the oldest request's datagram was not taken; true: go on with the next one */
static bool
refused(struct softrdma_connection *conn, int error)
{
	struct softrdma_link *link = &conn->link;
	switch (error) {
	case EINTR:
		return true;
	case EAGAIN:
		softrdma_send_wait_for_space(conn);
		return false;
	case EFAULT:
		softrdma_mr_tell_missing();
		softrdma_link_fail(link, IBV_WC_LOC_PROT_ERR);
		return false;
	default: /* no route, a firewall, no memory: as lost on its way */
		softrdma_datagram_drop(link, SOFTRDMA_STATS_UNSENT);
		softrdma_datagram_sent(link, 1);
		return true;
	}
}

/* true if requests wait for room in the socket */
static bool
is_full(const struct softrdma_connection *conn)
{
	return conn->link.requester.ring.tail != conn->link.requester.ring.head;
}

/* one system call; true: there may be more to send */
static bool
send_batch(struct softrdma_connection *conn)
{
	SOFTRDMA_NO_CANCEL;
	struct softrdma_link *link = &conn->link;
	const struct softrdma_send_ring *ring = &link->requester.ring;
	struct departures out;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	unsigned count = 0;
	const unsigned most = conn->fault_inject ? 1 : BATCH;
	while (count < most && ring->tail + count != ring->head) {
		status = prepare(conn, ring->tail + count, &out, count);
		if (status != IBV_WC_SUCCESS)
			break;
		count++;
	}
	if (count == 0) {
		if (status != IBV_WC_SUCCESS)
			softrdma_link_fail(link, status);
		return false;
	}
	const int sent = conn->fault_inject
		? send_with_faults(conn, &out)
		: sendmmsg(conn->fd, out.msgs, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return refused(conn, errno);
	softrdma_datagram_sent(link, (unsigned)sent);
	return true;
}

static void
send_all(struct softrdma_connection *conn)
{
	const struct softrdma_link *link = &conn->link;
	bool more = conn->fd >= 0 && link->qp && link->qp->state == IBV_QPS_RTS;
	conn->awaits_reply = false;
	for (int turn = 0; more && turn < TURNS; turn++)
		more = send_batch(conn);
	if (more && is_full(conn))
		softrdma_engine_queue(&conn->watched);
	/* the kernel reports the room of each datagram that has left, as long as it is asked to */
	if (conn->wants_space && conn->fd >= 0 && !is_full(conn)) {
		conn->wants_space = false;
		softrdma_connection_watch_again(conn);
	}
}

static bool
has_input(const struct softrdma_connection *conn)
{
	(void)conn;
	return false;
}

static const struct softrdma_transport by_datagrams = {
	.receive = receive,
	.send = send_all,
	.has_input = has_input,
	.is_full = is_full,
};

/* --- beginning and end --- */

struct softrdma_link *
softrdma_datagram_socket_new_link(void)
{
	struct softrdma_datagram_socket *socket = calloc(1, sizeof(*socket));
	if (socket == NULL)
		return NULL;
	struct softrdma_link *link = softrdma_connection_new();
	if (link == NULL) {
		free(socket);
		return NULL;
	}
	struct softrdma_connection *conn = softrdma_connection_of(link);
	conn->datagram_socket = socket;
	conn->transport = &by_datagrams;
	return link;
}

static void
set_options(int fd, bool v6)
{
	const int size = BUFFER_SIZE, dont = IP_PMTUDISC_DONT, dont_v6 = IPV6_PMTUDISC_DONT;
	/* each of them only makes losses rarer */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	/* a datagram that is longer than a packet of the path leaves in fragments */
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof(dont));
	if (v6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &dont_v6, sizeof(dont_v6));
}

/* lets the kernel pass this number of bytes of each datagram: 0 drops it. 0 or an errno value. */
static int
set_filter(int fd, uint32_t bytes)
{
	struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, bytes);
	const struct sock_fprog filter = { 1, &pass };
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0 ? 0 : errno;
}

int
softrdma_datagram_socket_pause(int fd)
{
	char byte;
	const int ret = set_filter(fd, 0);
	/* ends, because nothing more comes */
	while (ret == 0 && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0)
		;
	return ret;
}

/* 0 or an errno value; address gets the port */
static int
open_socket(union softrdma_address *address, int *fd_ptr)
{
	const int zero = 0;
	const bool v6 = address->any.sa_family == AF_INET6;
	socklen_t len = softrdma_address_length(&address->any);
	int fd = softrdma_fork_socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if ((v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) != 0) ||
		set_filter(fd, 0) != 0 || bind(fd, &address->any, len) != 0 ||
		getsockname(fd, &address->any, &len) != 0) {
		const int ret = errno;
		softrdma_fork_close(fd);
		return ret;
	}
	set_options(fd, v6);
	*fd_ptr = fd;
	return 0;
}

/* true if the same call may succeed later */
static bool
is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

int
softrdma_datagram_socket_open(int *fd, uint16_t *port)
{
	union softrdma_address both = { .in6 = { .sin6_family = AF_INET6 } };
	union softrdma_address v4 = { .in = { .sin_family = AF_INET } };
	int ret = open_socket(&both, fd);
	*port = ntohs(both.in6.sin6_port);
	/* a machine without IPv6; on others, a queue pair that only IPv4 reaches would lose what comes by IPv6 */
	if (ret && !is_shortage(ret)) {
		ret = open_socket(&v4, fd);
		*port = ntohs(v4.in.sin_port);
	}
	return ret;
}

int
softrdma_datagram_socket_attach(struct softrdma_link *link, int fd,
	const struct softrdma_datagram_calls *calls)
{
	struct softrdma_connection *conn = softrdma_connection_of(link);
	union softrdma_address own = { .any.sa_family = AF_UNSPEC };
	socklen_t len = sizeof(own);
	getsockname(fd, &own.any, &len);
	conn->datagram_socket->calls = calls;
	conn->datagram_socket->is_v6 = own.any.sa_family == AF_INET6;
	const int ret = set_filter(fd, UINT32_MAX);
	if (ret) {
		softrdma_fork_close(fd);
		return ret;
	}
	return softrdma_connection_watch(conn, fd);
}
