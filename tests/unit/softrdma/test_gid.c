/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_gid.c -- the port's GIDs, and queue pair numbers that stand for a port */

#include "connected.h"
#include "softrdma/base/fork.h"
#include "softrdma/verbs/gid.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>

/* the test supplies the machine's addresses */
static struct ifaddrs plan[80];
static union softrdma_address plan_address[80];
static unsigned plan_count;
static int plan_error;

int __wrap_getifaddrs(struct ifaddrs **all);
void __wrap_freeifaddrs(struct ifaddrs *all);

int
__wrap_getifaddrs(struct ifaddrs **all)
{
	*all = plan_count ? plan : NULL;
	errno = plan_error;
	return plan_error ? -1 : 0;
}

void
__wrap_freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

static void
plan_clear(void)
{
	softrdma_release_gids();
	plan_count = 0;
	plan_error = 0;
}

static struct ifaddrs *
plan_add(const char *text, unsigned flags)
{
	struct ifaddrs *at = &plan[plan_count];
	union softrdma_address *address = &plan_address[plan_count];
	static char name[] = "lo";
	memset(at, 0, sizeof(*at));
	memset(address, 0, sizeof(*address));
	if (plan_count > 0)
		plan[plan_count - 1].ifa_next = at;
	plan_count++;
	at->ifa_name = name;
	at->ifa_flags = flags;
	at->ifa_addr = &address->any;
	if (inet_pton(AF_INET, text, &address->in.sin_addr) == 1)
		address->in.sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &address->in6.sin6_addr) == 1)
		address->in6.sin6_family = AF_INET6;
	else
		address->any.sa_family = AF_UNIX;
	return at;
}

static union ibv_gid
gid_at(unsigned index)
{
	union ibv_gid gid = { .global = { 0 } };
	assert_int_equal(softrdma_gid_get(index, &gid), 0);
	return gid;
}

/* addresses of other machines come first, and IPv4 before IPv6; unreachable or ambiguous ones are left out */
static void
test_table(void **state)
{
	(void)state;
	plan_clear();
	plan_add("::1", IFF_UP | IFF_LOOPBACK);
	plan_add("127.0.0.1", IFF_UP | IFF_LOOPBACK);
	plan_add("2001:db8::1", IFF_UP);
	plan_add("127.0.0.2",
		IFF_UP); /* as if it were another machine's; it must be local so that it can be bound */
	plan_add("127.0.0.2", IFF_UP); /* a second time */
	plan_add("2001:db8::1", IFF_UP);
	plan_add("127.0.0.3", 0);
	plan_add("fe80::1", IFF_UP);
	plan_add("::ffff:127.0.0.1", IFF_UP);
	plan_add("fc53::1", IFF_UP);
	plan_add("a link", IFF_UP);
	plan_add("127.0.0.4", IFF_UP)->ifa_addr = NULL;
	assert_int_equal(softrdma_gid_count(), 6);

	union ibv_gid gid = gid_at(0);
	union softrdma_address where;
	const uint8_t begin[] = { 0xfc, 0x53, 1, 0, 127, 0, 0, 2 };
	assert_memory_equal(gid.raw, begin, sizeof(begin));
	assert_true(gid.global.interface_id != 0);
	assert_true(softrdma_gid_locate(&gid, 0, &where));
	assert_int_equal(where.in.sin_family, AF_INET);
	assert_int_equal(ntohl(where.in.sin_addr.s_addr), 0x7f000002);
	assert_memory_equal(&where.in.sin_port, gid.raw + 8, 2);

	struct in6_addr in6;
	inet_pton(AF_INET6, "2001:db8::1", &in6);
	gid = gid_at(1);
	assert_memory_equal(gid.raw, &in6, 16);
	assert_true(softrdma_gid_locate(&gid, 0x123456, &where));
	assert_int_equal(where.in6.sin6_family, AF_INET6);
	assert_int_equal(ntohs(where.in6.sin6_port), 0x1234);
	assert_memory_equal(&where.in6.sin6_addr, &in6, 16);
	assert_false(softrdma_gid_locate(&gid, 0xff, &where));
	gid = gid_at(2);
	assert_int_equal(gid.raw[3], 2);
	assert_int_equal(gid.raw[7], 1);
	gid = gid_at(3);
	assert_memory_equal(gid.raw, &in6addr_loopback, 16);
	/* the IPv4 addresses again, in the form in which programs look for the address of a RoCE device */
	for (unsigned i = 4; i < 6; i++) {
		struct in6_addr mapped;
		inet_pton(AF_INET6, i == 4 ? "::ffff:127.0.0.2" : "::ffff:127.0.0.1", &mapped);
		gid = gid_at(i);
		assert_memory_equal(gid.raw, &mapped, 16);
		assert_true(softrdma_gid_locate(&gid, 0x123456, &where));
		assert_int_equal(where.in.sin_family, AF_INET);
		assert_int_equal(ntohs(where.in.sin_port), 0x1234);
		assert_memory_equal(&where.in.sin_addr, mapped.s6_addr + 12, 4);
		assert_false(softrdma_gid_locate(&gid, 0xff, &where));
	}
	assert_int_equal(softrdma_gid_get(6, &gid), EINVAL);
	plan_clear();
}

/* the GIDs stay the same until the device is closed; then port and secret change */
static void
test_stays(void **state)
{
	(void)state;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	union ibv_gid first = gid_at(0), again = gid_at(0);
	assert_memory_equal(&first, &again, sizeof(first));
	int fds = count_fds();
	softrdma_release_gids();
	assert_int_equal(count_fds(), fds - 1);
	again = gid_at(0);
	assert_memory_not_equal(first.raw + 10, again.raw + 10, 6);
	plan_clear();
}

/* The port is reserved for this process, and one more socket can listen on it. */
static void
test_port_is_kept(void **state)
{
	(void)state;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	union ibv_gid gid = gid_at(0);
	union softrdma_address where;
	assert_true(softrdma_gid_locate(&gid, 0, &where));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, &where.any, sizeof(where.in)), -1);
	assert_int_equal(errno, EADDRINUSE);
	const int one = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, &where.any, sizeof(where.in)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	plan_clear();
}

static void
test_foreign_gids(void **state)
{
	(void)state;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	union ibv_gid gid = gid_at(0), other = gid;
	union softrdma_address where;
	other.raw[1]++;
	assert_false(softrdma_gid_locate(&other, 0x123456, &where));
	other = gid;
	other.raw[2]++; /* as from a later version */
	assert_false(softrdma_gid_locate(&other, 0x123456, &where));
	other = gid;
	other.raw[8] = other.raw[9] = 0;
	assert_false(softrdma_gid_locate(&other, 0x123456, &where));
	plan_clear();
}

static void
test_no_addresses(void **state)
{
	(void)state;
	union ibv_gid gid;
	plan_clear();
	assert_int_equal(softrdma_gid_count(), 0);
	assert_int_equal(softrdma_gid_get(0, &gid), EINVAL);
	plan_clear();
	plan_error = ENOBUFS;
	assert_int_equal(softrdma_gid_count(), 0);
	assert_true(log_has("the addresses of this machine cannot be read"));
	/* the next call tries again */
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	assert_int_equal(softrdma_gid_count(), 2);
	plan_clear();
}

/* at most a table of this length, however many addresses the machine has */
static void
test_many_addresses(void **state)
{
	(void)state;
	plan_clear();
	for (unsigned i = 0; i < SOFTRDMA_GIDS_MAX + 1; i++) {
		char text[32];
		snprintf(text, sizeof(text), "127.0.1.%u", i + 1);
		plan_add(text, IFF_UP);
	}
	assert_int_equal(softrdma_gid_count(), SOFTRDMA_GIDS_MAX);
	plan_clear();
}

static void
test_binding_fails(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int error;
	} faults[] = { { "socket", EMFILE }, { "setsockopt", EINVAL }, { "bind", EADDRNOTAVAIL },
		{ "getsockname", ENOBUFS } };
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	union ibv_gid gid;
	int fds = count_fds();
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		fail_call(FAIL_MINE, faults[i].call, 0, 1, faults[i].error);
		assert_int_equal(softrdma_gid_get(0, &gid), faults[i].error);
		assert_int_equal(fail_nothing(), 1);
		assert_int_equal(count_fds(), fds);
	}
	random_error = EIO;
	assert_int_equal(softrdma_gid_get(0, &gid), EIO);
	random_error = 0;
	assert_int_equal(softrdma_gid_get(0, &gid), 0);
	plan_clear();
}

static void
test_routes(void **state)
{
	(void)state;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	union ibv_gid gid, other = { 0 };
	int fds = count_fds();
	assert_int_equal(softrdma_gid_get(0, &gid), 0);
	assert_int_equal(softrdma_gid_find_route(&gid, NULL), 0);
	inet_pton(AF_INET6, "fe80::dead:beef", other.raw);
	assert_int_equal(softrdma_gid_find_route(&other, NULL), EHOSTUNREACH);
	other.raw[0] = 0xfc; /* one of ours, but without its fixed bits */
	assert_int_equal(softrdma_gid_find_route(&other, NULL), EINVAL);
	inet_pton(AF_INET6, "2001:db8::1", other.raw);
	fail_call(FAIL_MINE, "connect", 0, 1, ENETUNREACH);
	assert_int_equal(softrdma_gid_find_route(&other, NULL), ENETUNREACH);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_MINE, "socket", 0, 1, EMFILE);
	assert_int_equal(softrdma_gid_find_route(&other, NULL), EMFILE);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(count_fds(), fds + 1); /* the port of its own */
	plan_clear();
}

/* --- numbers --- */

static void
test_numbers_without_addresses(void **state)
{
	(void)state;
	plan_clear();
	uint32_t first, second;
	int fds = count_fds();
	assert_int_equal(softrdma_gid_take_qp_num(&first), 0);
	assert_int_equal(softrdma_gid_take_qp_num(&second), 0);
	assert_int_not_equal(first, second);
	assert_true(first > 1 && first <= 0xffffff);
	softrdma_gid_put_qp_num(first); /* harmless */
	assert_int_equal(count_fds(), fds);
	random_error = EIO;
	assert_int_equal(softrdma_gid_take_qp_num(&first), EIO);
	random_error = 0;
	plan_clear();
}

/*
 * more queue pairs than one port has numbers for: each number is given once, and again after it was returned
 */
static void
take_and_put_numbers(const char *first_address, const char *second_address, int fds_of_a_port)
{
	static uint32_t nums[600];
	const int ports = 3;
	plan_clear();
	plan_add(first_address, IFF_UP);
	plan_add(second_address, IFF_UP);
	int fds = count_fds();
	for (unsigned i = 0; i < 600; i++) {
		int ret = softrdma_gid_take_qp_num(&nums[i]);
		if (ret == EAFNOSUPPORT) {
			print_message("SKIPPED: this machine has no IPv6\n");
			plan_clear();
			skip();
		}
		assert_int_equal(ret, 0);
		assert_true(nums[i] >> 8 >= 1024 && nums[i] <= 0xffffff);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(nums[k], nums[i]);
	}
	assert_int_equal(count_fds(), fds + ports * fds_of_a_port);
	uint32_t again;
	softrdma_gid_put_qp_num(nums[3]);
	softrdma_gid_put_qp_num(nums[3]); /* returning it twice is harmless */
	for (unsigned i = 0; i < 600 && i != 3; i++)
		softrdma_gid_put_qp_num(nums[i]);
	assert_int_equal(softrdma_gid_take_qp_num(&again), 0);
	assert_int_equal(count_fds(), fds + ports * fds_of_a_port);
	/* numbers in use keep their port after the GIDs are released */
	softrdma_release_gids();
	assert_true(count_fds() > fds);
	for (unsigned i = 0; i < 600; i++)
		softrdma_gid_put_qp_num(nums[i]);
	softrdma_gid_put_qp_num(again);
	softrdma_release_gids();
	assert_int_equal(count_fds(), fds);
	plan_clear();
}

static void
test_numbers_with_v4(void **state)
{
	(void)state;
	take_and_put_numbers("127.0.0.1", "127.0.0.2", 1);
}

static void
test_numbers_with_v6(void **state)
{
	(void)state;
	take_and_put_numbers("::1", "2001:db8::1", 1);
}

static void
test_numbers_with_both(void **state)
{
	(void)state;
	take_and_put_numbers("::1", "127.0.0.1", 2);
}

/* a port that is free for IPv6 may be in use for IPv4: another one is tried, a limited number of times */
static void
test_port_is_half_taken(void **state)
{
	(void)state;
	plan_clear();
	plan_add("::1", IFF_UP);
	plan_add("127.0.0.1", IFF_UP);
	uint32_t num;
	int fds = count_fds();
	fail_call(FAIL_MINE, "bind", 1, 1, EADDRINUSE);
	int ret = softrdma_gid_take_qp_num(&num);
	if (ret == EAFNOSUPPORT) {
		fail_nothing();
		plan_clear();
		skip();
	}
	assert_int_equal(ret, 0);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(count_fds(), fds + 2);
	softrdma_gid_put_qp_num(num);
	softrdma_release_gids();
	assert_int_equal(count_fds(), fds);
	fail_call(FAIL_MINE, "bind", 0, 1000, EADDRINUSE);
	assert_int_equal(softrdma_gid_take_qp_num(&num), EADDRINUSE);
	assert_int_equal(fail_nothing(), 16);
	assert_int_equal(count_fds(), fds);
	plan_clear();
}

/* a queue pair of the connection manager may have a number of the port: the next one in the cycle is given */
static void
test_number_is_taken(void **state)
{
	(void)state;
	uint32_t first, second;
	plan_clear();
	plan_add("::1", IFF_UP);
	if (softrdma_gid_take_qp_num(&first) == EAFNOSUPPORT) {
		plan_clear();
		skip();
	}
	struct softrdma_qp *qps[256] = { 0 };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	const uint32_t port = first & ~0xffu;
	for (uint32_t low = 0; low < 256; low++) {
		if ((port | low) == first || low == 7)
			continue;
		qps[low] = softrdma_qp_new(the_pd, &attr, &softrdma_managed_qp, port | low);
		assert_non_null(qps[low]);
	}
	if ((first & 0xff) != 7) {
		/* if it is at rest, a number of another port is given */
		assert_int_equal(softrdma_gid_take_qp_num(&second), 0);
		assert_true(second == (port | 7) || (second & ~0xffu) != port);
		softrdma_gid_put_qp_num(second);
	}
	for (uint32_t low = 0; low < 256; low++) {
		if (qps[low])
			softrdma_qp_delete(qps[low]);
	}
	softrdma_gid_put_qp_num(first);
	plan_clear();
}

/*
 * A number comes again only after all others of its port that are free, in an order that is not that of the numbers;
 * and if nearly all are in use, only after some others.
 */
static void
test_numbers_in_a_cycle(void **state)
{
	(void)state;
	uint32_t first_round[256], held[300], num, last = 0;
	unsigned ascending = 0;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	plan_add("127.0.0.2", IFF_UP);
	for (unsigned i = 0; i < 1024; i++) {
		assert_int_equal(softrdma_gid_take_qp_num(&num), 0);
		for (unsigned k = 0; i < 256 && k < i; k++)
			assert_int_not_equal(num, first_round[k]);
		if (i < 256)
			first_round[i] = num;
		ascending += i > 0 && i < 256 && num == last + 1;
		assert_int_equal(num, first_round[i % 256]);
		softrdma_gid_put_qp_num(num);
		last = num;
	}
	assert_true(ascending < 64);

	/* with any number of queue pairs beside it */
	for (unsigned taken = 0; taken < 300; taken++) {
		uint32_t before[32];
		for (unsigned i = 0; i < 32; i++) {
			assert_int_equal(softrdma_gid_take_qp_num(&before[i]), 0);
			for (unsigned k = 0; k < i; k++)
				assert_int_not_equal(before[i], before[k]);
			softrdma_gid_put_qp_num(before[i]);
		}
		assert_int_equal(softrdma_gid_take_qp_num(&held[taken]), 0);
	}
	for (unsigned i = 0; i < 300; i++)
		softrdma_gid_put_qp_num(held[i]);
	plan_clear();
}

/* the order of another port is another one */
static void
test_order_differs(void **state)
{
	(void)state;
	unsigned same = 0;
	uint32_t nums[2][64];
	plan_add("127.0.0.1", IFF_UP);
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 64; i++)
			assert_int_equal(softrdma_gid_take_qp_num(&nums[round][i]), 0);
		for (unsigned i = 0; i < 64; i++)
			softrdma_gid_put_qp_num(nums[round][i]);
		softrdma_release_gids();
	}
	for (unsigned i = 0; i < 64; i++)
		same += (uint8_t)nums[0][i] == (uint8_t)nums[1][i];
	assert_true(same < 32);
	plan_clear();
}

static void
test_numbers_fail(void **state)
{
	(void)state;
	static const char *const calls[] = { "calloc", "socket", "setsockopt", "bind", "getsockname" };
	plan_clear();
	plan_add("::1", IFF_UP);
	uint32_t num;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fail_call(FAIL_MINE, calls[i], 0, 1, ENOMEM);
		assert_int_equal(softrdma_gid_take_qp_num(&num), ENOMEM);
		fail_nothing();
	}
	fail_call(FAIL_MINE, "setsockopt", 1, 1, ENOMEM);
	assert_int_equal(softrdma_gid_take_qp_num(&num), ENOMEM);
	fail_nothing();
	random_error = EIO;
	assert_int_equal(softrdma_gid_take_qp_num(&num), EIO);
	random_error = 0;
	plan_clear();
}

/* --- datagrams --- */

/* a socket of UDP for each, and the number's upper bits are its port */
static void
test_datagram_numbers(void **state)
{
	(void)state;
	uint32_t nums[20];
	int fds[20];
	plan_clear(); /* addresses do not matter */
	const int fds_then = count_fds();
	for (int i = 0; i < 20; i++) {
		union softrdma_address own;
		socklen_t len = sizeof(own);
		int type;
		socklen_t type_len = sizeof(type);
		assert_int_equal(softrdma_gid_take_datagram_num(&nums[i], &fds[i]), 0);
		assert_int_equal(getsockname(fds[i], &own.any, &len), 0);
		const in_port_t port = own.any.sa_family == AF_INET6 ? own.in6.sin6_port : own.in.sin_port;
		assert_int_equal(nums[i] >> 8, ntohs(port));
		assert_int_equal(softrdma_gid_port(nums[i]), ntohs(port));
		assert_int_equal(getsockopt(fds[i], SOL_SOCKET, SO_TYPE, &type, &type_len), 0);
		assert_int_equal(type, SOCK_DGRAM);
		assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(nums[i] >> 8, nums[k] >> 8);
	}
	assert_int_equal(count_fds(), fds_then + 20);
	for (int i = 0; i < 20; i++)
		softrdma_fork_close(fds[i]);
	fail_call(FAIL_MINE, "socket", 0, 1, EMFILE);
	assert_int_equal(softrdma_gid_take_datagram_num(&nums[0], &fds[0]), EMFILE);
	assert_int_equal(fail_nothing(), 1);
	random_error = EIO;
	assert_int_equal(softrdma_gid_take_datagram_num(&nums[0], &fds[0]), EIO);
	random_error = 0;
	assert_int_equal(count_fds(), fds_then);
}

/* the port of the only datagram socket of the process */
static uint16_t
port_of_datagrams(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint16_t port = 0;
	assert_non_null(dir);
	for (struct dirent *entry; port == 0 && (entry = readdir(dir)) != NULL;) {
		const int fd = atoi(entry->d_name);
		union softrdma_address own;
		socklen_t len = sizeof(own);
		int type = 0;
		socklen_t type_len = sizeof(type);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 || type != SOCK_DGRAM)
			continue;
		assert_int_equal(getsockname(fd, &own.any, &len), 0);
		port = ntohs(own.any.sa_family == AF_INET6 ? own.in6.sin6_port : own.in.sin_port);
	}
	closedir(dir);
	return port;
}

static struct softrdma_qp *rival;
static unsigned draws;

/* the lower bits of a number are drawn: at the first draw another queue pair gets that number */
static int
draw_low_bits(void *buf, size_t len)
{
	struct ibv_qp_init_attr_ex attr = qp_attr();
	if (len != 1)
		return counted_random(buf, len);
	*(uint8_t *)buf = (uint8_t)(5 + draws);
	if (draws++ == 0)
		rival = softrdma_qp_new(the_pd, &attr, &softrdma_managed_qp,
			(uint32_t)port_of_datagrams() << 8 | 5);
	return 0;
}

/* another queue pair may have the number by chance: then the lower bits are drawn again */
static void
test_datagram_number_is_taken(void **state)
{
	(void)state;
	static const struct softrdma_env drawing = { .random = draw_low_bits },
					 usual = { .random = counted_random };
	uint32_t num;
	int fd;
	softrdma_set_env(&drawing);
	assert_int_equal(softrdma_gid_take_datagram_num(&num, &fd), 0);
	softrdma_set_env(&usual);
	assert_non_null(rival);
	assert_int_equal(draws, 2);
	assert_int_equal(rival->qp.qp_num, (num & ~0xffu) | 5);
	assert_int_equal(num & 0xff, 6);
	softrdma_fork_close(fd);
	softrdma_qp_delete(rival);
}

static union ibv_gid
gid_of(const char *text)
{
	union ibv_gid gid;
	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

/* the GIDs that this process has told, and their places */
static void
test_own_gids(void **state)
{
	(void)state;
	unsigned index = 77;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP | IFF_LOOPBACK);
	plan_add("127.0.0.2", IFF_UP);
	plan_add("2001:db8::1", IFF_UP);
	const unsigned count = softrdma_gid_count();
	assert_int_equal(count, 5);
	union ibv_gid gid = gid_of("2001:db8::1");
	assert_true(softrdma_gid_find(&gid, &index) && softrdma_gid_is_own(&gid));
	assert_int_equal(index, 1);
	for (unsigned i = 0; i < count; i++) {
		gid = gid_at(i);
		assert_true(softrdma_gid_is_own(&gid));
		assert_true(softrdma_gid_find(&gid, &index));
		assert_int_equal(index, i);
		for (int byte = 0; byte < 16; byte++) {
			gid.raw[byte] ^= 0x40;
			assert_false(softrdma_gid_is_own(&gid));
			assert_false(softrdma_gid_find(&gid, &index));
			gid.raw[byte] ^= 0x40;
		}
	}
	/* one with a secret is known only when it was told: until then it has no port and no secret */
	softrdma_release_gids();
	assert_int_equal(softrdma_gid_count(), count);
	gid = (union ibv_gid){ .raw = { 0xfc, 0x53, 1, 0, 127, 0, 0, 2 } };
	assert_false(softrdma_gid_is_own(&gid));
	plan_clear();
	assert_false(softrdma_gid_is_own(&gid));
}

static union softrdma_address
address_of(const char *text, uint16_t port)
{
	union softrdma_address address = { .in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	if (inet_pton(AF_INET6, text, &address.in6.sin6_addr) == 1)
		return address;
	address = (union softrdma_address){ .in = { .sin_family = AF_INET, .sin_port = htons(port) } };
	assert_int_equal(inet_pton(AF_INET, text, &address.in.sin_addr), 1);
	return address;
}

static void
test_local_addresses(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_local;
	} table[] = { { "127.0.0.1", true }, { "127.0.0.2", false }, { "2001:db8::1", true },
		{ "2001:db8::2", false }, { "::1", false } };
	plan_clear();
	plan_add("127.0.0.1", IFF_UP | IFF_LOOPBACK);
	plan_add("2001:db8::1", IFF_UP);
	assert_int_equal(softrdma_gid_count(), 3);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (uint16_t port = 0; port < 2; port++) {
			const union softrdma_address address = address_of(table[i].text, port);
			assert_int_equal(softrdma_gid_is_local(&address), table[i].is_local);
		}
	}
	plan_clear();
}

/* a datagram comes from where its GID and its number say */
static void
test_sources(void **state)
{
	(void)state;
	static const char mapped[] = "::ffff:192.0.2.1", v6[] = "2001:db8::1",
			  ours[] = "fc53:100:c000:201:a0b:102:304:506";
	static const struct {
		const char *gid;
		uint32_t qp_num;
		const char *from;
		uint16_t port;
		bool is_from;
	} table[] = {
		{ mapped, 0x123456, "::ffff:192.0.2.1", 0x1234, true },
		{ mapped, 0x1234ff, "::ffff:192.0.2.1", 0x1234, true },
		{ mapped, 0x123456, "::ffff:192.0.2.1", 0x1235, false },
		{ mapped, 0x123456, "::ffff:192.0.2.2", 0x1234, false },
		{ mapped, 0x123456, "2001:db8::1", 0x1234, false },
		{ mapped, 0x56, "::ffff:192.0.2.1", 0, false }, /* no port */
		{ v6, 0xffff01, "2001:db8::1", 0xffff, true },
		{ v6, 0xffff01, "2001:db8::1", 0xfffe, false },
		{ v6, 0xffff01, "2001:db8::2", 0xffff, false },
		{ v6, 0xffff01, "::ffff:192.0.2.1", 0xffff, false },
		{ v6, 0x01, "2001:db8::1", 0, false },
		/* the GID's own port is that of streams */
		{ ours, 0x123456, "::ffff:192.0.2.1", 0x1234, true },
		{ ours, 0x123456, "::ffff:192.0.2.1", 0x0a0b, false },
		{ ours, 0x123456, "::ffff:192.0.2.2", 0x1234, false },
		{ "fc54::1", 0x123456, "::ffff:192.0.2.1", 0x1234, false },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const union ibv_gid gid = gid_of(table[i].gid);
		const union softrdma_address from = address_of(table[i].from, table[i].port);
		assert_int_equal(softrdma_gid_is_from(&gid, table[i].qp_num, &from.in6), table[i].is_from);
	}
}

/* what the kernel says of a way to this machine; 0 if it does not know the question, as an emulator of another processor */
static unsigned
known_mtu(bool v6)
{
	union softrdma_address to = { .in = { .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	if (v6)
		to.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	to.in.sin_port = htons(9);
	int mtu = 0;
	socklen_t len = sizeof(mtu);
	const int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, &to.any, softrdma_address_length(&to.any)), 0);
	if (v6)
		getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &len);
	else
		getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len);
	close(fd);
	assert_true(mtu == 0 || mtu >= 576);
	return (unsigned)mtu;
}

/* the longest packet to a peer; what is not known is 0 */
static void
test_longest_packets(void **state)
{
	(void)state;
	unsigned mtu = 0;
	union ibv_gid gid = gid_of("::ffff:127.0.0.1");
	assert_int_equal(softrdma_gid_find_route(&gid, &mtu), 0);
	assert_int_equal(mtu, known_mtu(false));
	fail_call(FAIL_MINE, "getsockopt", 0, 1, FAIL_ETHERNET);
	assert_int_equal(softrdma_gid_find_route(&gid, &mtu), 0);
	assert_int_equal(mtu, 1500);
	fail_call(FAIL_MINE, "getsockopt", 0, 1, EINVAL);
	assert_int_equal(softrdma_gid_find_route(&gid, &mtu), 0);
	assert_int_equal(mtu, 0);
	fail_nothing();
	/* without a route the value stays */
	mtu = 7;
	fail_call(FAIL_MINE, "connect", 0, 1, ENETUNREACH);
	assert_int_equal(softrdma_gid_find_route(&gid, &mtu), ENETUNREACH);
	fail_nothing();
	assert_int_equal(mtu, 7);
	gid = gid_of("::1");
	const int ret = softrdma_gid_find_route(&gid, &mtu);
	if (ret) { /* a machine without IPv6 */
		print_message("SKIPPED: there is no route to ::1: %s\n", strerror(ret));
		skip();
	}
	assert_int_equal(mtu, known_mtu(true));
}

/* --- queries by programs --- */

static void
test_queries(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	union ibv_gid gid, wanted;
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	plan_add("::1", IFF_UP);
	wanted = gid_at(0);
	assert_int_equal(softrdma_ibv_query_gid(ctx, 1, 0, &gid), 0);
	assert_memory_equal(&gid, &wanted, sizeof(gid));
	const struct {
		uint8_t port;
		int index;
	} wrong[] = { { 0, 0 }, { 2, 0 }, { 1, -1 }, { 1, 3 } };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unsigned type;
		errno = 0;
		assert_int_equal(softrdma_ibv_query_gid(ctx, wrong[i].port, wrong[i].index, &gid), -1);
		assert_int_equal(errno, EINVAL);
		errno = 0;
		assert_int_equal(
			softrdma_ibv_query_gid_type(ctx, wrong[i].port, (unsigned)wrong[i].index, &type), -1);
		assert_int_equal(errno, EINVAL);
	}
	unsigned type = 0;
	assert_int_equal(softrdma_ibv_query_gid_type(ctx, 1, 1, &type), 0);
	assert_int_equal(type, 1);

	struct ibv_port_attr port;
	assert_int_equal(softrdma_ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.gid_tbl_len, 3);

	__be16 pkey = 0;
	assert_int_equal(softrdma_ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(softrdma_ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	assert_int_equal(softrdma_ibv_query_pkey(ctx, 2, 0, &pkey), -1);
	assert_int_equal(softrdma_ibv_get_pkey_index(ctx, 1, 0xffff), 0);
	assert_int_equal(softrdma_ibv_get_pkey_index(ctx, 1, 0x7fff), -1);
	assert_int_equal(softrdma_ibv_get_pkey_index(ctx, 2, 0xffff), -1);
	assert_int_equal(errno, EINVAL);
	plan_clear();
}

/* programs built with a shorter or longer entry */
static void
test_entries(void **state)
{
	(void)state;
	struct ibv_context *ctx = softrdma_context();
	plan_clear();
	plan_add("127.0.0.1", IFF_UP);
	plan_add("::1", IFF_UP);
	union ibv_gid gid = gid_at(0);
	struct ibv_gid_entry entry[4];
	memset(entry, 0xaa, sizeof(entry));
	size_t shorter = offsetof(struct ibv_gid_entry, ndev_ifindex);
	assert_int_equal(softrdma_ibv_query_gid_ex(ctx, 1, 0, entry, 0, shorter), 0);
	assert_memory_equal(&entry[0].gid, &gid, sizeof(gid));
	assert_int_equal(entry[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(entry[0].ndev_ifindex, 0xaaaaaaaa);
	assert_int_equal(softrdma_ibv_query_gid_ex(ctx, 1, 1, entry, 0, sizeof(entry[0]) + 8), 0);
	assert_int_equal(entry[0].gid_index, 1);
	assert_int_equal(entry[0].port_num, 1);
	assert_int_equal(entry[0].ndev_ifindex, if_nametoindex("lo"));
	assert_int_equal(((uint8_t *)&entry[1])[7], 0);
	assert_int_equal(((uint8_t *)&entry[1])[8], 0xaa);
	assert_int_equal(softrdma_ibv_query_gid_ex(ctx, 1, 0, entry, 1, sizeof(entry[0])), EINVAL);
	assert_int_equal(softrdma_ibv_query_gid_ex(ctx, 2, 0, entry, 0, sizeof(entry[0])), EINVAL);
	assert_int_equal(softrdma_ibv_query_gid_ex(ctx, 1, 3, entry, 0, sizeof(entry[0])), EINVAL);

	assert_int_equal(softrdma_ibv_query_gid_table(ctx, entry, 4, 0, sizeof(entry[0])), 3);
	assert_memory_equal(&entry[0].gid, &gid, sizeof(gid));
	assert_int_equal(entry[1].gid_index, 1);
	assert_int_equal(softrdma_ibv_query_gid_table(ctx, entry, 1, 0, sizeof(entry[0])), -EINVAL);
	assert_int_equal(softrdma_ibv_query_gid_table(ctx, entry, 4, 1, sizeof(entry[0])), -EINVAL);
	softrdma_release_gids();
	fail_call(FAIL_MINE, "bind", 0, 1, EADDRNOTAVAIL);
	assert_int_equal(softrdma_ibv_query_gid_table(ctx, entry, 4, 0, sizeof(entry[0])), -EADDRNOTAVAIL);
	fail_nothing();
	plan_clear();
	assert_int_equal(softrdma_ibv_query_gid_table(ctx, entry, 4, 1, sizeof(entry[0])), -EINVAL);
	plan_clear();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_table),
		device_test(test_stays),
		device_test(test_port_is_kept),
		device_test(test_foreign_gids),
		device_test(test_no_addresses),
		device_test(test_many_addresses),
		device_test(test_binding_fails),
		device_test(test_routes),
		device_test(test_numbers_without_addresses),
		device_test(test_numbers_with_v4),
		device_test(test_numbers_with_v6),
		device_test(test_numbers_with_both),
		device_test(test_port_is_half_taken),
		device_test(test_number_is_taken),
		device_test(test_numbers_in_a_cycle),
		device_test(test_order_differs),
		device_test(test_numbers_fail),
		device_test(test_datagram_numbers),
		device_test(test_datagram_number_is_taken),
		device_test(test_own_gids),
		device_test(test_local_addresses),
		device_test(test_sources),
		device_test(test_longest_packets),
		device_test(test_queries),
		device_test(test_entries),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
