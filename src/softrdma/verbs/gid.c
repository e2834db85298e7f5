/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* gid.c -- the port's GIDs: one for each address of the machine */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/base/cancel.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/bounds.h"
#include "softrdma/engine/datagram_socket.h"
#include "softrdma/engine/links.h"
#include "softrdma/verbs/device.h"
#include "softrdma/verbs/gid.h"

#define TAG_FIRST 0xfc
#define TAG_SECOND 0x53
#define GID_VERSION 1
#define GID_OF_MANAGER 0 /* in the place of a version */
#define NONCE_SIZE 6

#define QP_NUMS_OF_A_PORT 256
/*
 * Of a port's free numbers, these were returned last and are not given: a program that destroys queue pairs and makes new
 * ones meets an old number only after that many others, even if it has nearly all of them
 */
#define QP_NUMS_AT_REST 32
/* a port that is free with IPv6 may be taken with IPv4 */
#define PORT_TRIES 16

/* the only partition key: the default partition, as a full member */
#define DEFAULT_PKEY 0xffff

/*
 * An IPv4 address has two entries. The GID of one holds a port and a secret. The GID of the other is like that of a RoCE
 * device, from which programs read the address. With that one the port is part of the queue pair's number, as with IPv6.
 */
struct gid_entry {
	union softrdma_address address; /* with the port, once it is bound (tagged) */
	bool tagged;                    /* IPv4, with a port of its own */
	unsigned ifindex;
	int fd; /* keeps the port (tagged); -1: not bound yet */
	uint8_t nonce[NONCE_SIZE];
};

/* a port whose number is part of queue pair numbers */
struct qp_port {
	uint16_t port;
	int fd_v4, fd_v6; /* -1: the machine has no such addresses */
	unsigned taken;
	bool is_taken[QP_NUMS_OF_A_PORT];
	/*
	 * The free numbers, in the order in which they are given: first in random order, then in the order in which they
	 * came back. So a number comes again only after all others that are free.
	 */
	uint8_t free[QP_NUMS_OF_A_PORT];
	uint8_t first_free; /* where the ring begins */
	struct qp_port *next;
};

/* read once, so that an index keeps its meaning; guarded by the lock. Under it only the locks of descriptors and of
 * the list of connections are taken. */
static struct {
	pthread_mutex_t lock;
	bool known;
	unsigned count;
	struct gid_entry entries[SOFTRDMA_GIDS_MAX];
	struct qp_port *ports;
} gids = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* the child has ports and secrets of its own */
static void
after_fork(void)
{
	softrdma_fork_keep(gids.ports);
	memset(&gids, 0, sizeof(gids));
	gids.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- the table --- */

static bool
is_usable(const struct ifaddrs *at)
{
	if (at->ifa_addr == NULL || !(at->ifa_flags & IFF_UP))
		return false;
	if (at->ifa_addr->sa_family == AF_INET)
		return true;
	if (at->ifa_addr->sa_family != AF_INET6)
		return false;
	/* no GID for addresses that need a scope, or that look like a GID of the other kinds */
	const struct in6_addr *addr = &((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr;
	return !IN6_IS_ADDR_LINKLOCAL(addr) && !IN6_IS_ADDR_V4MAPPED(addr) && addr->s6_addr[0] != TAG_FIRST;
}

static void
add_entry(const struct ifaddrs *at, bool tagged)
{
	struct gid_entry entry = { .fd = -1, .tagged = tagged };
	memcpy(&entry.address, at->ifa_addr, softrdma_address_length(at->ifa_addr));
	entry.ifindex = if_nametoindex(at->ifa_name);
	for (unsigned i = 0; i < gids.count; i++) {
		if (gids.entries[i].tagged == tagged &&
			softrdma_address_equal(&gids.entries[i].address, &entry.address))
			return;
	}
	if (gids.count < SOFTRDMA_GIDS_MAX)
		gids.entries[gids.count++] = entry;
}

/* reads the addresses. Many programs take the first GID, so addresses that other machines reach come before loopback,
 * and of these GIDs with a secret before others; plain IPv4 ones come last. The lock is held. */
static void
read_addresses(void)
{
	struct ifaddrs *all;
	if (gids.known)
		return;
	if (getifaddrs(&all) != 0) {
		/*
		 * message(limits): programs of verbs cannot connect queue pairs themselves -> The system's
		 * text says why.
		 */
		SOFTRDMA_LOG(WARNING,
			"the addresses of this machine cannot be read, so there are no GIDs: %s",
			strerror(errno));
		return;
	}
	static const struct kind {
		int family;
		bool loopback, tagged;
	} kinds[] = {
		{ AF_INET, false, true },
		{ AF_INET6, false, false },
		{ AF_INET, true, true },
		{ AF_INET6, true, false },
		{ AF_INET, false, false },
		{ AF_INET, true, false },
	};
	for (const struct kind *kind = kinds; kind < kinds + sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
			if (is_usable(at) && at->ifa_addr->sa_family == kind->family &&
				!!(at->ifa_flags & IFF_LOOPBACK) == kind->loopback)
				add_entry(at, kind->tagged);
		}
	}
	freeifaddrs(all);
	gids.known = true;
}

unsigned
softrdma_gid_count(void)
{
	pthread_mutex_lock(&gids.lock);
	read_addresses();
	unsigned count = gids.count;
	pthread_mutex_unlock(&gids.lock);
	return count;
}

/* makes a socket that keeps a port of the address; 0 with the port filled in, or an errno value */
static int
keep_port(union softrdma_address *address, int *fd_ptr)
{
	const int one = 1;
	bool v6 = address->any.sa_family == AF_INET6;
	socklen_t len = softrdma_address_length(&address->any);
	int fd = softrdma_fork_socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	int ret = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
		(v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) != 0) ||
		bind(fd, &address->any, len) != 0 || getsockname(fd, &address->any, &len) != 0) {
		ret = errno;
		softrdma_fork_close(fd);
	} else {
		*fd_ptr = fd;
	}
	return ret;
}

/* the lock is held */
static int
bind_entry(struct gid_entry *entry)
{
	union softrdma_address address = entry->address;
	int ret = softrdma_random(entry->nonce, sizeof(entry->nonce));
	if (ret == 0)
		ret = keep_port(&address, &entry->fd);
	if (ret == 0)
		entry->address = address;
	return ret;
}

static void
encode(const struct gid_entry *entry, unsigned index, union ibv_gid *gid)
{
	if (entry->address.any.sa_family == AF_INET6) {
		memcpy(gid->raw, &entry->address.in6.sin6_addr, sizeof(gid->raw));
		return;
	}
	if (!entry->tagged) {
		static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
		memcpy(gid->raw, mapped, sizeof(mapped));
		memcpy(gid->raw + sizeof(mapped), &entry->address.in.sin_addr, 4);
		return;
	}
	gid->raw[0] = TAG_FIRST;
	gid->raw[1] = TAG_SECOND;
	gid->raw[2] = GID_VERSION;
	gid->raw[3] = (uint8_t)index;
	memcpy(gid->raw + 4, &entry->address.in.sin_addr, 4);
	memcpy(gid->raw + 8, &entry->address.in.sin_port, 2);
	memcpy(gid->raw + 10, entry->nonce, NONCE_SIZE);
}

static int
get_with_interface(unsigned index, union ibv_gid *gid, unsigned *ifindex)
{
	int ret = 0;
	pthread_mutex_lock(&gids.lock);
	read_addresses();
	if (index >= gids.count) {
		ret = EINVAL;
	} else {
		struct gid_entry *entry = &gids.entries[index];
		if (entry->fd < 0 && entry->tagged)
			ret = bind_entry(entry);
		if (ret == 0) {
			encode(entry, index, gid);
			*ifindex = entry->ifindex;
		}
	}
	pthread_mutex_unlock(&gids.lock);
	return ret;
}

int
softrdma_gid_get(unsigned index, union ibv_gid *gid)
{
	unsigned ifindex;
	return get_with_interface(index, gid, &ifindex);
}

bool
softrdma_gid_locate(const union ibv_gid *gid, uint32_t qp_num, union softrdma_address *where)
{
	memset(where, 0, sizeof(*where));
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw)) {
		where->in.sin_family = AF_INET;
		memcpy(&where->in.sin_addr, gid->raw + 12, 4);
		where->in.sin_port = htons((uint16_t)(qp_num >> SOFTRDMA_QP_NUM_PORT_SHIFT));
		return where->in.sin_port != 0;
	}
	if (gid->raw[0] != TAG_FIRST) {
		where->in6.sin6_family = AF_INET6;
		memcpy(&where->in6.sin6_addr, gid->raw, sizeof(gid->raw));
		where->in6.sin6_port = htons((uint16_t)(qp_num >> SOFTRDMA_QP_NUM_PORT_SHIFT));
		return where->in6.sin6_port != 0;
	}
	where->in.sin_family = AF_INET;
	memcpy(&where->in.sin_addr, gid->raw + 4, 4);
	memcpy(&where->in.sin_port, gid->raw + 8, 2);
	return gid->raw[1] == TAG_SECOND && gid->raw[2] == GID_VERSION && where->in.sin_port != 0;
}

void
softrdma_gid_of_manager(union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = TAG_FIRST;
	gid->raw[1] = TAG_SECOND;
	gid->raw[2] = GID_OF_MANAGER;
}

bool
softrdma_gid_is_of_manager(const union ibv_gid *gid)
{
	union ibv_gid manager;
	softrdma_gid_of_manager(&manager);
	return memcmp(gid, &manager, sizeof(manager)) == 0;
}

/* of a connected socket; 0: unknown */
static unsigned
mtu_of(int fd, bool v6)
{
	int mtu = 0;
	socklen_t len = sizeof(mtu);
	if (v6)
		getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &len);
	else
		getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len);
	return mtu > 0 ? (unsigned)mtu : 0;
}

int
softrdma_gid_find_route(const union ibv_gid *gid, unsigned *mtu)
{
	union softrdma_address where;
	/* the route does not depend on the port: any number will do */
	if (!softrdma_gid_locate(gid, 1u << SOFTRDMA_QP_NUM_PORT_SHIFT, &where))
		return EINVAL;
	const bool v6 = where.any.sa_family == AF_INET6;
	if (v6 && IN6_IS_ADDR_LINKLOCAL(&where.in6.sin6_addr))
		return EHOSTUNREACH; /* no port of this device has such a GID */
	int fd = softrdma_fork_socket(where.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	/* a datagram socket sends nothing here: the kernel only looks up the route */
	int ret = connect(fd, &where.any, softrdma_address_length(&where.any)) == 0 ? 0 : errno;
	if (ret == 0 && mtu)
		*mtu = mtu_of(fd, v6);
	softrdma_fork_close(fd);
	return ret;
}

/* --- numbers that hold a port --- */

/* true if a GID of this family needs the port in the queue pair's number. The lock is held. */
static bool
have_untagged(int family)
{
	for (unsigned i = 0; i < gids.count; i++) {
		if (!gids.entries[i].tagged && gids.entries[i].address.any.sa_family == family)
			return true;
	}
	return false;
}

static void
close_port(struct qp_port *port)
{
	if (port->fd_v4 >= 0)
		softrdma_fork_close(port->fd_v4);
	if (port->fd_v6 >= 0)
		softrdma_fork_close(port->fd_v6);
}

/* keeps the same port on all addresses of both families; 0, EADDRINUSE (try again), or another errno value */
static int
keep_port_of_all(struct qp_port *port)
{
	union softrdma_address v4 = { .in = { .sin_family = AF_INET } };
	union softrdma_address v6 = { .in6 = { .sin6_family = AF_INET6 } };
	int ret = 0;
	port->fd_v4 = port->fd_v6 = -1;
	if (have_untagged(AF_INET6))
		ret = keep_port(&v6, &port->fd_v6);
	v4.in.sin_port = v6.in6.sin6_port;
	if (ret == 0 && have_untagged(AF_INET))
		ret = keep_port(&v4, &port->fd_v4);
	port->port = ntohs(port->fd_v4 >= 0 ? v4.in.sin_port : v6.in6.sin6_port);
	if (ret)
		close_port(port);
	return ret;
}

/* puts all numbers of a new port into the ring, in random order; 0 or an errno value */
static int
shuffle(struct qp_port *port)
{
	uint32_t draws[QP_NUMS_OF_A_PORT];
	int ret = softrdma_random(draws, sizeof(draws));
	if (ret)
		return ret;
	for (unsigned i = 0; i < QP_NUMS_OF_A_PORT; i++) {
		const unsigned at = draws[i] % (i + 1);
		port->free[i] = port->free[at];
		port->free[at] = (uint8_t)i;
	}
	return 0;
}

/* adds a port on all addresses, because the queue pair gets its address only when it goes to RTR. 0 or an errno value. */
static int
add_port(void)
{
	struct qp_port *port = calloc(1, sizeof(*port));
	if (port == NULL)
		return ENOMEM;
	int ret = shuffle(port);
	if (ret)
		goto err_free;
	ret = EADDRINUSE;
	for (int try = 0; try < PORT_TRIES && ret == EADDRINUSE; try++)
		ret = keep_port_of_all(port);
	if (ret)
		goto err_free;
	port->next = gids.ports;
	gids.ports = port;
	return 0;

err_free:
	free(port);
	return ret;
}

/* returns a number to the end of the ring, which has this number of others */
static void
append_free(struct qp_port *port, unsigned count, uint8_t low)
{
	port->free[(uint8_t)(port->first_free + count)] = low;
}

/* takes a free number of the port; false: all are taken or at rest */
static bool
take_from(struct qp_port *port, uint32_t *qp_num)
{
	const unsigned count = QP_NUMS_OF_A_PORT - port->taken;
	for (unsigned i = count; i > QP_NUMS_AT_REST; i--) {
		uint8_t low = port->free[port->first_free++];
		*qp_num = (uint32_t)port->port << SOFTRDMA_QP_NUM_PORT_SHIFT | low;
		if (softrdma_links_have_qp_num(*qp_num)) { /* a queue pair of the connection manager */
			append_free(port, count - 1, low);
			continue;
		}
		port->is_taken[low] = true;
		port->taken++;
		return true;
	}
	return false;
}

static bool
take_from_any(uint32_t *qp_num)
{
	for (struct qp_port *port = gids.ports; port; port = port->next) {
		if (take_from(port, qp_num))
			return true;
	}
	return false;
}

/* takes any number of 24 bits that is not in use, except 0 and 1, which are for management. 0 or an errno value. */
static int
take_random(uint32_t *qp_num)
{
	int ret;
	do {
		ret = softrdma_random(qp_num, sizeof(*qp_num));
		*qp_num &= 0xffffff;
	} while (ret == 0 && (*qp_num < 2 || softrdma_links_have_qp_num(*qp_num)));
	return ret;
}

int
softrdma_gid_take_qp_num(uint32_t *qp_num)
{
	pthread_mutex_lock(&gids.lock);
	read_addresses();
	const bool has_port = have_untagged(AF_INET) || have_untagged(AF_INET6);
	int ret = has_port ? 0 : take_random(qp_num);
	/* queue pairs of the connection manager may have all numbers of a new port: so this is a loop */
	while (ret == 0 && has_port && !take_from_any(qp_num))
		ret = add_port();
	pthread_mutex_unlock(&gids.lock);
	return ret;
}

void
softrdma_gid_put_qp_num(uint32_t qp_num)
{
	pthread_mutex_lock(&gids.lock);
	for (struct qp_port *port = gids.ports; port; port = port->next) {
		uint8_t low = (uint8_t)qp_num;
		if (port->port == qp_num >> SOFTRDMA_QP_NUM_PORT_SHIFT && port->is_taken[low]) {
			append_free(port, QP_NUMS_OF_A_PORT - port->taken, low);
			port->is_taken[low] = false;
			port->taken--;
		}
	}
	pthread_mutex_unlock(&gids.lock);
}

int
softrdma_gid_take_datagram_num(uint32_t *qp_num, int *fd)
{
	uint16_t port;
	int ret = softrdma_datagram_socket_open(fd, &port);
	if (ret)
		return ret;
	uint8_t low;
	do {
		ret = softrdma_random(&low, sizeof(low));
		*qp_num = (uint32_t)port << SOFTRDMA_QP_NUM_PORT_SHIFT | low;
	} while (ret == 0 && softrdma_links_have_qp_num(*qp_num));
	if (ret)
		softrdma_fork_close(*fd);
	return ret;
}

bool
softrdma_gid_find(const union ibv_gid *gid, unsigned *index)
{
	union ibv_gid own;
	bool is_own = false;
	pthread_mutex_lock(&gids.lock);
	read_addresses(); /* a program may know its address without having asked for a GID */
	for (unsigned i = 0; i < gids.count && !is_own; i++) {
		const struct gid_entry *entry = &gids.entries[i];
		encode(entry, i, &own);
		is_own = (!entry->tagged || entry->fd >= 0) && memcmp(&own, gid, sizeof(own)) == 0;
		*index = i;
	}
	pthread_mutex_unlock(&gids.lock);
	return is_own;
}

bool
softrdma_gid_is_own(const union ibv_gid *gid)
{
	unsigned index;
	return softrdma_gid_find(gid, &index);
}

bool
softrdma_gid_is_local(const union softrdma_address *address)
{
	bool is_local = false;
	pthread_mutex_lock(&gids.lock);
	read_addresses();
	for (unsigned i = 0; i < gids.count && !is_local; i++)
		is_local = softrdma_address_equal(&gids.entries[i].address, address);
	pthread_mutex_unlock(&gids.lock);
	return is_local;
}

bool
softrdma_gid_is_from(const union ibv_gid *gid, uint32_t qp_num, const struct sockaddr_in6 *from)
{
	union softrdma_address claimed, source = { .in6 = *from };
	if (!softrdma_gid_locate(gid, qp_num, &claimed))
		return false;
	softrdma_address_unmap(&source);
	return softrdma_address_equal(&claimed, &source) &&
		qp_num >> SOFTRDMA_QP_NUM_PORT_SHIFT == ntohs(from->sin6_port);
}

void
softrdma_release_gids(void)
{
	pthread_mutex_lock(&gids.lock);
	for (unsigned i = 0; i < gids.count; i++) {
		if (gids.entries[i].fd >= 0)
			softrdma_fork_close(gids.entries[i].fd);
	}
	gids.count = 0;
	gids.known = false;
	struct qp_port **at = &gids.ports;
	while (*at) {
		struct qp_port *port = *at;
		if (port->taken > 0) {
			at = &port->next;
			continue;
		}
		*at = port->next;
		close_port(port);
		free(port);
	}
	pthread_mutex_unlock(&gids.lock);
}

/* --- the calls of libibverbs --- */

int
softrdma_ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	SOFTRDMA_NO_CANCEL;
	(void)context;
	struct ibv_gid_entry full = { .gid_index = gid_index,
		.port_num = port_num,
		.gid_type = IBV_GID_TYPE_ROCE_V2 };
	if (port_num != 1 || flags)
		return EINVAL;
	int ret = get_with_interface(gid_index, &full.gid, &full.ndev_ifindex);
	if (ret)
		return ret;
	memset(entry, 0, entry_size);
	memcpy(entry, &full, entry_size < sizeof(full) ? entry_size : sizeof(full));
	return 0;
}

ssize_t
softrdma_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
	uint32_t flags, size_t entry_size)
{
	SOFTRDMA_NO_CANCEL;
	uint32_t count = softrdma_gid_count();
	if (count > max_entries)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		void *entry = (char *)entries + i * entry_size;
		int ret = softrdma_ibv_query_gid_ex(context, 1, i, entry, flags, entry_size);
		if (ret)
			return -ret;
	}
	return flags ? -EINVAL : (ssize_t)count;
}

static int
result(int errnum)
{
	errno = errnum ? errnum : errno;
	return errnum ? -1 : 0;
}

int
softrdma_ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	SOFTRDMA_NO_CANCEL;
	(void)context;
	return result(port_num != 1 || index < 0 ? EINVAL : softrdma_gid_get((unsigned)index, gid));
}

int
softrdma_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
	unsigned int *type)
{
	SOFTRDMA_NO_CANCEL;
	(void)context;
	if (port_num != 1 || index >= softrdma_gid_count())
		return result(EINVAL);
	*type = SOFTRDMA_GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}

int
softrdma_ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	(void)context;
	if (port_num != 1 || index != 0)
		return result(EINVAL);
	*pkey = htobe16(DEFAULT_PKEY);
	return 0;
}

int
softrdma_ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	(void)context;
	return port_num == 1 && pkey == htobe16(DEFAULT_PKEY) ? 0 : result(EINVAL);
}
