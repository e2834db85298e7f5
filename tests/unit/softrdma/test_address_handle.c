/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_address_handle.c -- address handles: where they lead, what is refused, and what an arrived datagram says */

#include <netinet/ip.h>
#include <sys/wait.h>

#include "datagrams.h"
#include "softrdma/verbs/address_handle.h"

static const struct softrdma_destination *
to_of(struct ibv_ah *ah)
{
	return &softrdma_address_handle_of(ah)->to;
}

static void
refuse(struct ibv_ah_attr attr, int error)
{
	errno = 0;
	assert_null(softrdma_ibv_create_ah(the_pd, &attr));
	assert_int_equal(errno, error);
}

/* the mapped form of an address of IPv4 */
static void
expect_address(const struct sockaddr_in6 *address, const char *text)
{
	struct in6_addr wanted;
	assert_int_equal(inet_pton(AF_INET6, text, &wanted), 1);
	assert_int_equal(address->sin6_family, AF_INET6);
	assert_memory_equal(&address->sin6_addr, &wanted, sizeof(wanted));
}

static void
test_create(void **state)
{
	(void)state;
	static const struct {
		int family;
		const char *address;
	} kinds[] = { { AF_INET, "::ffff:127.0.0.1" }, { MAPPED, "::ffff:127.0.0.1" }, { AF_INET6, "::1" } };
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const union ibv_gid gid = the_gid(kinds[i].family);
		struct ibv_ah_attr attr = ah_attr(&gid);
		attr.grh.flow_label = 0xfffabcde; /* 20 bits */
		attr.grh.traffic_class = 0x55;
		attr.grh.hop_limit = 9;
		struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &attr);
		assert_non_null(ah);
		assert_ptr_equal(ah->pd, the_pd);
		assert_ptr_equal(ah->context, softrdma_context());
		expect_address(&to_of(ah)->address, kinds[i].address);
		expect_address(&to_of(ah)->source, kinds[i].address);
		assert_memory_equal(&to_of(ah)->to, &gid, sizeof(gid));
		assert_memory_equal(&to_of(ah)->from, &gid, sizeof(gid));
		assert_int_equal(to_of(ah)->flow_label, 0xabcde);
		assert_int_equal(to_of(ah)->traffic_class, 0x55);
		assert_int_equal(to_of(ah)->hop_limit, 9);
		assert_false(to_of(ah)->summed); /* nothing is damaged within a machine */
		destroy_ah(ah);
		ah = new_ah(&gid);
		assert_int_equal(to_of(ah)->hop_limit, 64);
		destroy_ah(ah);
	}
}

/* datagrams to another machine have a sum, unless the program says otherwise */
static void
test_sums(void **state)
{
	(void)state;
	union ibv_gid own = the_gid(MAPPED), other = own;
	other.raw[15] = 77; /* has a route, and is no address of this machine */
	static const struct {
		const char *setting;
		bool own, other;
	} table[] = { { "", false, true }, { "0", false, false }, { "1", true, true }, { "2", false, true } };
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		setenv("SOFTRDMA_CRC", table[i].setting, 1);
		struct ibv_ah *near = new_ah(&own), *far = new_ah(&other);
		assert_int_equal(to_of(near)->summed, table[i].own);
		assert_int_equal(to_of(far)->summed, table[i].other);
		destroy_ah(near);
		destroy_ah(far);
	}
}

static void
test_refusals(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED), v6 = { .raw = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };
	const struct ibv_ah_attr good = ah_attr(&gid);
	struct ibv_ah_attr bad = good;
	bad.is_global = 0;
	refuse(bad, EINVAL);
	static const uint8_t ports[] = { 0, 2, 255 };
	for (int i = 0; i < 3; i++) {
		bad = good;
		bad.port_num = ports[i];
		refuse(bad, EINVAL);
	}
	bad = good;
	bad.grh.sgid_index = (uint8_t)softrdma_gid_count();
	refuse(bad, EINVAL);
	bad.grh.sgid_index = UINT8_MAX;
	refuse(bad, EINVAL);
	bad = good;
	bad.grh.dgid = v6; /* from an address of IPv4 */
	refuse(bad, EINVAL);
	bad = good;
	memset(bad.grh.dgid.raw, 0xfc, 16); /* one of ours, but without its fixed bytes */
	refuse(bad, EINVAL);
	bad = good;
	softrdma_gid_of_manager(&bad.grh.dgid);
	refuse(bad, EINVAL);

	const int fds = count_fds();
	fail_call(FAIL_MINE, "connect", 0, 1, ENETUNREACH);
	refuse(good, ENETUNREACH);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_MINE, "socket", 0, 1, EMFILE);
	refuse(good, EMFILE);
	assert_int_equal(fail_nothing(), 1);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	refuse(good, ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_int_equal(count_fds(), fds);
}

/* from an address of IPv6 to one of IPv4; and the port of link-local addresses is unknown */
static void
test_refusals_from_v6(void **state)
{
	(void)state;
	const union ibv_gid mapped = the_gid(MAPPED);
	the_gid(AF_INET6); /* the source; skips if the machine has no IPv6 */
	refuse(ah_attr(&mapped), EINVAL);
	union ibv_gid local = { .raw = { 0xfe, 0x80, [15] = 1 } };
	refuse(ah_attr(&local), EHOSTUNREACH);
}

/* the GID of the source is opened when it is first used, and that may fail */
static void
test_source_fails(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(AF_INET);
	const struct ibv_ah_attr attr = ah_attr(&gid);
	softrdma_release_gids();
	random_error = EIO;
	refuse(attr, EIO);
	random_error = 0;
	assert_int_equal(open_gids(), 0);
}

/* a protection domain stays as long as it has handles */
static void
test_domain_is_in_use(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_ah_attr attr = ah_attr(&gid);
	struct ibv_ah *first = softrdma_ibv_create_ah(pd, &attr);
	struct ibv_ah *second = softrdma_ibv_create_ah(pd, &attr);
	assert_true(first && second);
	attr.port_num = 2;
	assert_null(softrdma_ibv_create_ah(pd, &attr)); /* what was refused does not count */
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);
	destroy_ah(first);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), EBUSY);
	destroy_ah(second);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), 0);
}

/* a machine whose packets are shorter than the longest datagram: a line says once which datagrams leave in pieces */
static void
test_fragments(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	fail_call(FAIL_MINE, "getsockopt", 0, 1, EINVAL); /* the length is unknown */
	destroy_ah(new_ah(&gid));
	assert_int_equal(fail_nothing(), 1);
	assert_false(log_has("leave in several packets"));
	destroy_ah(new_ah(&gid)); /* loopback has long ones */
	assert_false(log_has("leave in several packets"));
	for (int i = 0; i < 2; i++) {
		fail_call(FAIL_MINE, "getsockopt", 0, 1, FAIL_ETHERNET);
		destroy_ah(new_ah(&gid));
		assert_int_equal(fail_nothing(), 1);
	}
	assert_string_equal(log_text,
		"datagrams of more than 1384 bytes leave in several packets, because a packet to a peer has "
		"at most 1500 bytes\n");
	assert_int_equal(log_worst, SOFTRDMA_LOG_NOTICE);
}

/* --- answers --- */

/* the completion of a datagram from another queue pair of the process; its GRH is at the begin of IN */
static void
exchange(const union ibv_gid *gid, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t traffic_class)
{
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	struct ibv_ah_attr attr = ah_attr(gid);
	attr.grh.traffic_class = traffic_class;
	attr.grh.flow_label = 0x12345;
	struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &attr);
	assert_non_null(ah);
	*wc = expect_datagram(a, ah, b, 20);
	memcpy(grh, the_mem + IN + 8, sizeof(*grh));
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

static void
test_answers(void **state)
{
	(void)state;
	static const int families[] = { MAPPED, AF_INET, AF_INET6 };
	for (int i = 0; i < 3; i++) {
		const union ibv_gid gid = the_gid(families[i]);
		const unsigned own_index = gid_index;
		struct ibv_wc wc;
		struct ibv_grh grh;
		struct ibv_ah_attr attr;
		exchange(&gid, &wc, &grh, 0xf1);
		memset(&attr, 0xff, sizeof(attr));
		assert_int_equal(softrdma_ibv_init_ah_from_wc(softrdma_context(), 1, &wc, &grh, &attr), 0);
		assert_int_equal(attr.is_global, 1);
		assert_int_equal(attr.port_num, 1);
		assert_int_equal(attr.dlid, 0);
		assert_int_equal(attr.grh.sgid_index, own_index);
		assert_int_equal(attr.grh.hop_limit, 255);
		assert_int_equal(attr.grh.traffic_class, 0xf1);
		assert_int_equal(attr.grh.flow_label, families[i] == MAPPED ? 0 : 0x12345);
		assert_memory_equal(&attr.grh.dgid, &gid, sizeof(gid));
		struct ibv_ah *ah = softrdma_ibv_create_ah_from_wc(the_pd, &wc, &grh, 1);
		assert_non_null(ah);
		assert_memory_equal(&to_of(ah)->to, &gid, sizeof(gid));
		assert_int_equal(to_of(ah)->hop_limit, 255);
		destroy_ah(ah);
	}
}

static void
refuse_answer(uint8_t port, unsigned flags, struct ibv_grh grh)
{
	struct ibv_wc wc = { .wc_flags = flags };
	struct ibv_ah_attr attr;
	errno = 0;
	assert_int_equal(softrdma_ibv_init_ah_from_wc(softrdma_context(), port, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(softrdma_ibv_create_ah_from_wc(the_pd, &wc, &grh, port));
	assert_int_equal(errno, EINVAL);
}

static void
test_no_answers(void **state)
{
	(void)state;
	struct ibv_grh v6 = { .version_tclass_flow = htonl(6u << 28) }, v4 = { 0 };
	struct iphdr ip = { .version = 4, .ihl = 5 };
	const union ibv_gid own = the_gid(MAPPED);
	memcpy(&ip.daddr, own.raw + 12, 4);
	ip.saddr = ip.daddr;
	memcpy((char *)&v4 + 20, &ip, sizeof(ip));
	refuse_answer(1, 0, v4); /* without a GRH */
	refuse_answer(1, IBV_WC_WITH_IMM, v4);
	refuse_answer(0, IBV_WC_GRH, v4);
	refuse_answer(2, IBV_WC_GRH, v4);
	ip.daddr = htonl(0xc0000201); /* not of this machine */
	memcpy((char *)&v4 + 20, &ip, sizeof(ip));
	refuse_answer(1, IBV_WC_GRH, v4);
	v6.dgid = (union ibv_gid){ .raw = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };
	v6.sgid = own;
	refuse_answer(1, IBV_WC_GRH, v6);
}

/* a child has no handles: it may not use those of its parent */
/* posts one byte with this handle; an errno value, and the request is the bad one */
static int
post_with(struct ibv_qp *qp, struct ibv_ah *ah)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 1, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = ud_wr(1, ah, qp->qp_num, &sge), *bad = NULL;
	const int ret = ibv_post_send(qp, &wr, &bad);
	assert_true(ret == 0 || bad == &wr);
	return ret;
}

/* as on SoftRoCE: the handle must be of the queue pair's domain */
static void
test_of_another_domain(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah_attr attr = ah_attr(&gid);
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_qp *qp = ud_ready();
	struct ibv_ah *ah = softrdma_ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	assert_int_equal(post_with(qp, ah), EINVAL);
	assert_int_equal(post_with(qp, NULL), EINVAL);
	destroy_ah(ah);
	destroy_qp(qp);
	assert_int_equal(softrdma_ibv_dealloc_pd(pd), 0);
}

/* multicast, and the address of no host, in both forms */
static void
test_no_host(void **state)
{
	(void)state;
	static const union ibv_gid gids[] = {
		{ .raw = { [10] = 0xff, [11] = 0xff, 224, 0, 0, 1 } },
		{ .raw = { [10] = 0xff, [11] = 0xff, 0, 0, 0, 0 } },
		{ .raw = { 0xff, 0x02, [15] = 1 } },
		{ .raw = { 0 } },
	};
	the_gid(MAPPED);
	for (size_t i = 0; i < sizeof(gids) / sizeof(gids[0]); i++)
		refuse(ah_attr(&gids[i]), EINVAL);
}

/* a queue pair of the child, and a handle of the parent */
static bool
child_is_refused(struct ibv_ah *ah)
{
	struct ibv_pd *pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_cq *cq = softrdma_ibv_create_cq(softrdma_context(), 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *qp = softrdma_ibv_create_qp(pd, &init);
	if (qp == NULL)
		return false;
	ud_to_rts(qp);
	struct ibv_send_wr wr = ud_wr(1, ah, qp->qp_num, NULL), *bad;
	wr.num_sge = 0;
	const int ret = ibv_post_send(qp, &wr, &bad);
	return softrdma_ibv_destroy_qp(qp) == 0 && softrdma_ibv_destroy_cq(cq) == 0 &&
		softrdma_ibv_dealloc_pd(pd) == 0 && ret == ESTALE;
}

static void
test_after_fork(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah_attr attr = ah_attr(&gid);
	struct ibv_ah *ah = new_ah(&gid);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool good = softrdma_ibv_create_ah(the_pd, &attr) == NULL && errno != 0;
		good = good && softrdma_ibv_destroy_ah(ah) != 0 && child_is_refused(ah);
		end_child(good ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	destroy_ah(ah);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create),
		setting_test(test_sums),
		device_test(test_refusals),
		device_test(test_refusals_from_v6),
		device_test(test_source_fails),
		device_test(test_domain_is_in_use),
		device_test(test_fragments),
		device_test(test_answers),
		device_test(test_no_answers),
		device_test(test_of_another_domain),
		device_test(test_no_host),
		device_test(test_after_fork),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
