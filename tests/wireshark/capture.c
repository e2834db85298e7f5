/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* capture.c -- writes what the software device sends to a pcap file, without the rights that capturing needs */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "capture.h"
#include "ledger.h"

#define CONNECTIONS_MAX 64
#define PACKET_MAX 65535

/* of the format pcap, in the byte order of the machine, with times in us */
#define PCAP_MAGIC 0xa1b2c3d4u
#define LINKTYPE_RAW 101 /* packets begin with the header of IP */

#define IPV4_HEADER 20u
#define IPV6_HEADER 40u
#define TCP_HEADER 20u
#define UDP_HEADER 8u
#define TCP_SYN 2
#define TCP_PUSH 8
#define TCP_ACK 16
#define WINDOW 65535
#define TIME_TO_LIVE 64

struct endpoint {
	int family;
	uint8_t addr[16]; /* IPv4: the first 4 */
	uint16_t port;
};

/* the one that sent first is the first of the two */
struct connection {
	struct endpoint end[2];
	uint32_t seq[2]; /* of the next byte from each end */
	struct ledger_shared shared;
	struct ledger_stream stream[2];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *packets, *lines;
static size_t segment_max;
static struct connection connections[CONNECTIONS_MAX];
static size_t connection_count;

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
int __real_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags);

/* --- packets --- */

static void
put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void
put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

static uint32_t
sum(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	return sum;
}

static unsigned
folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

/* returns the length of the header, which says that len bytes of a protocol follow */
static size_t
put_ip(uint8_t *at, const struct endpoint *from, const struct endpoint *to, uint8_t protocol, size_t len)
{
	if (from->family == AF_INET6) {
		memset(at, 0, IPV6_HEADER);
		at[0] = 6 << 4;
		put16(at + 4, (unsigned)len);
		at[6] = protocol;
		at[7] = TIME_TO_LIVE;
		memcpy(at + 8, from->addr, 16);
		memcpy(at + 24, to->addr, 16);
		return IPV6_HEADER;
	}
	memset(at, 0, IPV4_HEADER);
	at[0] = 4 << 4 | IPV4_HEADER / 4;
	put16(at + 2, (unsigned)(IPV4_HEADER + len));
	at[8] = TIME_TO_LIVE;
	at[9] = protocol;
	memcpy(at + 12, from->addr, 4);
	memcpy(at + 16, to->addr, 4);
	put16(at + 10, folded(sum(0, at, IPV4_HEADER)));
	return IPV4_HEADER;
}

/* of the header of TCP or UDP, what follows it, and what IP has of both */
static unsigned
sum_of(const struct endpoint *from, const struct endpoint *to, uint8_t protocol, const uint8_t *bytes,
	size_t len)
{
	const size_t addr_len = from->family == AF_INET6 ? 16 : 4;
	uint32_t pseudo = sum(protocol + (uint32_t)len, from->addr, addr_len);
	pseudo = sum(pseudo, to->addr, addr_len);
	return folded(sum(pseudo, bytes, len));
}

static void
write_bytes(const uint8_t *packet, size_t len)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const uint32_t length = (uint32_t)len;
	const uint32_t record[4] = { (uint32_t)now.tv_sec, (uint32_t)(now.tv_nsec / 1000), length, length };
	fwrite(record, sizeof(record), 1, packets);
	fwrite(packet, length, 1, packets);
}

static void
write_packet(struct connection *conn, int from, uint8_t flags, const uint8_t *bytes, size_t len)
{
	static uint8_t packet[IPV6_HEADER + TCP_HEADER + PACKET_MAX];
	const struct endpoint *src = &conn->end[from], *dst = &conn->end[!from];
	const size_t at = put_ip(packet, src, dst, IPPROTO_TCP, TCP_HEADER + len);
	uint8_t *tcp = packet + at;
	memset(tcp, 0, TCP_HEADER);
	put16(tcp, src->port);
	put16(tcp + 2, dst->port);
	put32(tcp + 4, conn->seq[from]);
	put32(tcp + 8, flags & TCP_ACK ? conn->seq[!from] : 0);
	tcp[12] = TCP_HEADER / 4 << 4;
	tcp[13] = flags;
	put16(tcp + 14, WINDOW);
	memcpy(tcp + TCP_HEADER, bytes, len);
	put16(tcp + 16, sum_of(src, dst, IPPROTO_TCP, tcp, TCP_HEADER + len));
	write_bytes(packet, at + TCP_HEADER + len);
	conn->seq[from] += (uint32_t)len + (flags & TCP_SYN ? 1 : 0);
}

/* --- connections --- */

static struct endpoint
endpoint_of(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	struct endpoint end = { .family = addr->ss_family };
	if (end.family == AF_INET6) {
		memcpy(end.addr, &in6->sin6_addr, 16);
		end.port = ntohs(in6->sin6_port);
	} else {
		memcpy(end.addr, &in->sin_addr, 4);
		end.port = ntohs(in->sin_port);
	}
	return end;
}

static bool
is_same(const struct endpoint *a, const struct endpoint *b)
{
	return a->family == b->family && a->port == b->port && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* its three packets without data are made up, because the kernel does not show its own */
static struct connection *
begin_connection(const struct endpoint *from, const struct endpoint *to)
{
	static const uint8_t nothing[1];
	if (connection_count == CONNECTIONS_MAX)
		return NULL;
	struct connection *conn = &connections[connection_count++];
	*conn = (struct connection){ .end = { *from, *to } };
	for (int i = 0; i < 2; i++) {
		conn->stream[i].from = conn->end[i].port;
		conn->stream[i].to = conn->end[!i].port;
	}
	write_packet(conn, 0, TCP_SYN, nothing, 0);
	write_packet(conn, 1, TCP_SYN | TCP_ACK, nothing, 0);
	write_packet(conn, 0, TCP_ACK, nothing, 0);
	return conn;
}

/* the connection of a socket, and which of its ends the socket is; NULL: none that is captured */
static struct connection *
connection_of(int fd, int *from)
{
	struct sockaddr_storage own, peer;
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	memset(&own, 0, sizeof(own));
	memset(&peer, 0, sizeof(peer));
	if (packets == NULL || getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 ||
		getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
		(own.ss_family != AF_INET && own.ss_family != AF_INET6))
		return NULL;
	const struct endpoint src = endpoint_of(&own), dst = endpoint_of(&peer);
	for (size_t i = 0; i < connection_count; i++) {
		*from = !is_same(&connections[i].end[0], &src);
		if (is_same(&connections[i].end[*from], &src) && is_same(&connections[i].end[!*from], &dst))
			return &connections[i];
	}
	*from = 0;
	return begin_connection(&src, &dst);
}

static void
take(struct connection *conn, int from, const uint8_t *bytes, size_t len)
{
	ledger_take(&conn->stream[from], &conn->shared, bytes, len, lines);
	while (len > 0) {
		const size_t n = len < segment_max ? len : segment_max;
		write_packet(conn, from, TCP_PUSH | TCP_ACK, bytes, n);
		bytes += n;
		len -= n;
	}
}

/* --- datagrams --- */

static void
unmap(struct endpoint *end)
{
	if (end->family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)end->addr))
		return;
	end->family = AF_INET;
	memmove(end->addr, end->addr + 12, 4);
	memset(end->addr + 4, 0, sizeof(end->addr) - 4);
}

/* where a datagram comes from: the socket has the port, and the message the address */
static bool
find_source(int fd, const struct msghdr *msg, struct endpoint *from)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	memset(&own, 0, sizeof(own));
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	if (cmsg == NULL || getsockname(fd, (struct sockaddr *)&own, &len) != 0)
		return false;
	*from = endpoint_of(&own);
	memset(from->addr, 0, sizeof(from->addr));
	if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
		struct in6_pktinfo info;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		from->family = AF_INET6;
		memcpy(from->addr, &info.ipi6_addr, 16);
	} else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
		struct in_pktinfo info;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		from->family = AF_INET;
		memcpy(from->addr, &info.ipi_spec_dst, 4);
	} else {
		return false;
	}
	unmap(from);
	return true;
}

static void
take_datagram(int fd, const struct msghdr *msg)
{
	static uint8_t datagram[UDP_HEADER + PACKET_MAX], packet[IPV6_HEADER + sizeof(datagram)];
	struct sockaddr_storage name;
	struct endpoint from;
	size_t len = UDP_HEADER;
	if (!find_source(fd, msg, &from))
		return;
	memset(&name, 0, sizeof(name));
	memcpy(&name, msg->msg_name, msg->msg_namelen);
	struct endpoint to = endpoint_of(&name);
	unmap(&to);
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(datagram + len, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		len += msg->msg_iov[i].iov_len;
	}
	put16(datagram, from.port);
	put16(datagram + 2, to.port);
	put16(datagram + 4, (unsigned)len);
	put16(datagram + 6, 0);
	put16(datagram + 6, sum_of(&from, &to, IPPROTO_UDP, datagram, len));
	const size_t at = put_ip(packet, &from, &to, IPPROTO_UDP, len);
	memcpy(packet + at, datagram, len);
	write_bytes(packet, at + len);
	ledger_take_datagram(from.port, to.port, datagram + UDP_HEADER, len - UDP_HEADER, lines);
}

/* --- what the linker puts in the place of send(), sendmsg() and sendmmsg() --- */

int
__wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
	pthread_mutex_lock(&lock);
	const int n = __real_sendmmsg(fd, msgs, count, flags);
	for (int i = 0; packets && i < n; i++)
		take_datagram(fd, &msgs[i].msg_hdr);
	pthread_mutex_unlock(&lock);
	return n;
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	int from = 0;
	pthread_mutex_lock(&lock);
	struct connection *conn = connection_of(fd, &from);
	const ssize_t n = __real_sendmsg(fd, msg, flags);
	size_t left = n > 0 ? (size_t)n : 0;
	for (size_t i = 0; conn && left > 0; i++) {
		const size_t len = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;
		take(conn, from, msg->msg_iov[i].iov_base, len);
		left -= len;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

ssize_t
__wrap_send(int fd, const void *buf, size_t len, int flags)
{
	int from = 0;
	pthread_mutex_lock(&lock);
	struct connection *conn = connection_of(fd, &from);
	const ssize_t n = __real_send(fd, buf, len, flags);
	if (conn && n > 0)
		take(conn, from, buf, (size_t)n);
	pthread_mutex_unlock(&lock);
	return n;
}

bool
capture_open(const char *path, size_t segment)
{
	char ledger[4096];
	const struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t zone, accuracy, most, link_type;
	} header = { .magic = PCAP_MAGIC,
		.major = 2,
		.minor = 4,
		.most = PACKET_MAX,
		.link_type = LINKTYPE_RAW };
	segment_max = segment;
	if (snprintf(ledger, sizeof(ledger), "%s.ledger", path) >= (int)sizeof(ledger))
		return false;
	lines = fopen(ledger, "we");
	packets = fopen(path, "we");
	return lines && packets && fwrite(&header, sizeof(header), 1, packets) == 1;
}

bool
capture_close(void)
{
	pthread_mutex_lock(&lock);
	const bool good = !ferror(packets) && !ferror(lines);
	const bool closed = fclose(packets) == 0 && fclose(lines) == 0;
	packets = lines = NULL;
	pthread_mutex_unlock(&lock);
	return good && closed;
}
