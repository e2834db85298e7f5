/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_datagram_qp.c -- queue pairs of unreliable datagrams: made, moved, asked, used by both kinds of posts, destroyed */

#include "datagrams.h"
#include "softrdma/verbs/completion.h"

/* --- made --- */

static void
test_create(void **state)
{
	(void)state;
	struct ibv_qp_init_attr init = { .qp_context = the_mem,
		.qp_type = IBV_QPT_UD,
		.send_cq = the_cq,
		.recv_cq = the_cq,
		.cap = { .max_send_wr = 3, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 2 } };
	const int fds = count_fds();
	struct ibv_qp *qp = softrdma_ibv_create_qp(the_pd, &init);
	assert_non_null(qp);
	assert_int_equal(count_fds(), fds + 1);
	assert_int_equal(count_threads(), 1); /* nothing comes yet */
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(qp->qp_type, IBV_QPT_UD);
	assert_int_equal(init.cap.max_send_wr, 4);
	assert_true(qp->qp_num >> 8 >= 1024 && qp->qp_num <= 0xffffff);

	/* the number has the port, and no other socket can take it */
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in addr = loopback(htons((uint16_t)(qp->qp_num >> 8)));
	assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);

	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr got;
	assert_int_equal(softrdma_ibv_query_qp(qp, &attr, IBV_QP_STATE, &got), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(got.qp_type, IBV_QPT_UD);
	assert_ptr_equal(got.qp_context, the_mem);
	destroy_qp(qp);
	assert_int_equal(count_fds(), fds);
}

static void
test_numbers_differ(void **state)
{
	(void)state;
	enum { MANY = 100 };
	struct ibv_qp *qps[MANY];
	for (int i = 0; i < MANY; i++) {
		qps[i] = ud_new();
		for (int k = 0; k < i; k++)
			assert_int_not_equal(qps[i]->qp_num >> 8, qps[k]->qp_num >> 8);
	}
	for (int i = 0; i < MANY; i++)
		destroy_qp(qps[i]);
}

static int
create_error(struct ibv_qp_init_attr_ex *attr)
{
	errno = 0;
	assert_null(softrdma_ibv_create_qp_ex(softrdma_context(), attr));
	return errno;
}

static void
test_create_arguments(void **state)
{
	(void)state;
	struct ibv_qp_init_attr_ex attr = ud_attr();
	const int fds = count_fds();
	attr.send_cq = NULL;
	assert_int_equal(create_error(&attr), EINVAL);
	attr = ud_attr();
	attr.cap.max_send_wr = SOFTRDMA_WR_MAX + 1;
	assert_int_equal(create_error(&attr), EINVAL);
	attr = ud_attr();
	attr.comp_mask = 0; /* without a protection domain */
	assert_int_equal(create_error(&attr), EINVAL);
	assert_int_equal(count_fds(), fds);

	/* an id of RDMA_PS_TCP has no other type than reliable connections */
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	attr = ud_attr();
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* fails each call of this name in turn, until a queue pair is made; returns how many there are */
static unsigned
create_without(const char *call)
{
	const int fds = count_fds();
	for (unsigned skip = 0;; skip++) {
		struct ibv_qp_init_attr_ex attr = ud_attr();
		fail_call(FAIL_MINE, call, skip, 1, ENOMEM);
		struct ibv_qp *qp = softrdma_ibv_create_qp_ex(softrdma_context(), &attr);
		const int error = errno;
		if (fail_nothing() == 0) {
			assert_non_null(qp);
			destroy_qp(qp);
			return skip;
		}
		assert_null(qp);
		assert_int_equal(error, ENOMEM);
		assert_int_equal(count_fds(), fds);
	}
}

static void
test_create_fails(void **state)
{
	(void)state;
	assert_true(create_without("calloc") >= 6);
	assert_int_equal(create_without("malloc"), 1);

	/* neither family has a socket */
	static const char *const calls[] = { "socket", "bind", "getsockname" };
	struct ibv_qp_init_attr_ex attr = ud_attr();
	const int fds = count_fds();
	for (int i = 0; i < 3; i++) {
		fail_call(FAIL_MINE, calls[i], 0, 2, EACCES);
		assert_int_equal(create_error(&attr), EACCES);
		assert_int_equal(fail_nothing(), 2);
	}

	/* a shortage says nothing about IPv6: no queue pair that has IPv4 only */
	static const int shortages[] = { EMFILE, ENFILE, ENOMEM, ENOBUFS };
	for (int i = 0; i < 4; i++) {
		fail_call(FAIL_MINE, "socket", 0, 1, shortages[i]);
		assert_int_equal(create_error(&attr), shortages[i]);
		assert_int_equal(fail_nothing(), 1);
	}
	random_error = EIO;
	assert_int_equal(create_error(&attr), EIO);
	random_error = 0;
	assert_int_equal(count_fds(), fds);
}

/* --- what forbids them --- */

static void
test_forbidden(void **state)
{
	(void)state;
	static const struct {
		const char *name, *value, *line;
	} settings[] = {
		{ "SOFTRDMA_UD", "0",
			"ibv_create_qp() of unreliable datagrams (UD) is not supported by the software device: "
			"SOFTRDMA_UD is 0\n" },
		{ "SOFTRDMA_TLS_CERT", "cert.pem",
			"ibv_create_qp() of unreliable datagrams (UD) with TLS is not supported by the software "
			"device: datagrams cannot be encrypted: use a reliable connection (IBV_QPT_RC)\n" },
		{ "SOFTRDMA_TLS_CA", "ca.pem", "" }, /* the same line, which comes once */
		{ "SOFTRDMA_TLS_KEY", "key.pem", "" },
		{ "SOFTRDMA_TLS_PSK", "psk", "" },
	};
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct ibv_qp_init_attr_ex attr = ud_attr();
		log_clear();
		setenv(settings[i].name, settings[i].value, 1);
		assert_int_equal(create_error(&attr), EOPNOTSUPP);
		assert_string_equal(log_text, settings[i].line);
		unsetenv(settings[i].name);
		destroy_qp(ud_new());
	}
	setenv("SOFTRDMA_UD", "1", 1);
	destroy_qp(ud_new());
}

/* --- moved --- */

static struct ibv_qp *
ud_in(enum ibv_qp_state state)
{
	struct ibv_qp *qp = ud_new();
	if (state == IBV_QPS_INIT || state == IBV_QPS_ERR)
		ud_to_init(qp);
	if (state == IBV_QPS_RTR)
		ud_to_rtr(qp);
	if (state == IBV_QPS_RTS)
		ud_to_rts(qp);
	if (state == IBV_QPS_ERR)
		move_to(qp, IBV_QPS_ERR);
	return qp;
}

static int
try_mask(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp *qp = ud_in(from);
	struct ibv_qp_attr attr = ud_all(to);
	attr.cur_qp_state = from;
	const int ret = softrdma_ibv_modify_qp(qp, &attr, mask);
	expect_state(qp, ret == 0 && (mask & IBV_QP_STATE) ? to : from);
	destroy_qp(qp);
	return ret;
}

/* for each transition: with all required bits, without each of them, and with each other bit */
static void
test_masks(void **state)
{
	(void)state;
	static const struct {
		enum ibv_qp_state from, to;
		int needs, may;
	} table[] = {
		{ IBV_QPS_RESET, IBV_QPS_INIT, UD_INIT_MASK, 0 },
		{ IBV_QPS_INIT, IBV_QPS_INIT, 0,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
		{ IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
		{ IBV_QPS_RTR, IBV_QPS_RTS, UD_RTS_MASK, IBV_QP_CUR_STATE | IBV_QP_QKEY },
		{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_QKEY },
		{ IBV_QPS_INIT, IBV_QPS_ERR, IBV_QP_STATE, 0 },
		{ IBV_QPS_RTR, IBV_QPS_ERR, IBV_QP_STATE, 0 },
		{ IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE, 0 },
		{ IBV_QPS_RTS, IBV_QPS_RESET, IBV_QP_STATE, 0 },
		{ IBV_QPS_ERR, IBV_QPS_RESET, IBV_QP_STATE, 0 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const enum ibv_qp_state from = table[i].from, to = table[i].to;
		const int needs = table[i].needs, may = table[i].may;
		assert_int_equal(try_mask(from, to, needs), 0);
		assert_int_equal(try_mask(from, to, needs | may), 0);
		for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
			if (needs == bit)
				continue; /* then the call changes nothing */
			const int mask = needs & bit ? needs & ~bit : needs | bit;
			const int ret = try_mask(from, to, mask);
			if (may & bit)
				assert_int_equal(ret, 0);
			else
				assert_int_equal(ret, EINVAL);
		}
	}
	assert_int_equal(try_mask(IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE), EOPNOTSUPP);
	assert_int_equal(try_mask(IBV_QPS_RESET, IBV_QPS_ERR, IBV_QP_STATE), EINVAL);
	assert_int_equal(try_mask(IBV_QPS_INIT, IBV_QPS_RTS, UD_RTS_MASK), EINVAL);
}

static void
test_values(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_new();
	struct ibv_qp_attr attr = ud_all(IBV_QPS_INIT);
	attr.pkey_index = 1;
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, UD_INIT_MASK), EINVAL);
	static const uint8_t ports[] = { 0, 2, 255 };
	for (int i = 0; i < 3; i++) {
		attr = ud_all(IBV_QPS_INIT);
		attr.port_num = ports[i];
		assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, UD_INIT_MASK), EINVAL);
	}
	expect_state(qp, IBV_QPS_RESET);
	destroy_qp(qp);
}

static struct ibv_qp_attr
queried(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.cur_qp_state, attr.qp_state);
	assert_int_equal(attr.cap.max_send_wr, 64);
	return attr;
}

static void
test_query(void **state)
{
	(void)state;
	struct ibv_qp *qp = ud_new();
	struct ibv_qp_attr attr = ud_all(IBV_QPS_INIT);
	attr.qkey = 0xfffffffe;
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, UD_INIT_MASK), 0);
	attr = queried(qp);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.qkey, 0xfffffffe);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.pkey_index, 0);
	assert_int_equal(ud_modify(qp, IBV_QPS_RTR, IBV_QP_STATE), 0);
	assert_int_equal(queried(qp).qp_state, IBV_QPS_RTR);
	assert_int_equal(queried(qp).qkey, 0xfffffffe);
	attr = ud_all(IBV_QPS_RTS);
	attr.sq_psn = 0xff000009;
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, UD_RTS_MASK), 0);
	attr = queried(qp);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.sq_psn, 9); /* 24 bits */
	assert_int_equal(ud_modify(qp, IBV_QPS_RTS, IBV_QP_QKEY), 0);
	assert_int_equal(queried(qp).qkey, QKEY);
	move_to(qp, IBV_QPS_RESET);
	attr = queried(qp);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.qkey | attr.port_num | attr.sq_psn, 0);
	destroy_qp(qp);
}

/* the Q_Key may change while datagrams come */
static void
test_qkey_changes(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	struct ibv_qp_attr attr = { .qkey = QKEY + 1 };
	expect_datagram(qp, ah, qp, 10);
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	ud_post_recv(qp, 1, IN, 100);
	ud_send(qp, 2, ah, qp, 10);
	expect_wc(2, IBV_WC_SUCCESS);
	wait_until(dropped(qp, SOFTRDMA_STATS_QKEY) == 1);
	attr.qkey = QKEY;
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	ud_send(qp, 3, ah, qp, 10);
	expect_passage(3, 1);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* a life after a RESET, and after an error, from any state; the number and the port stay */
static void
test_reset(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	static const enum ibv_qp_state lives[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QPS_ERR };
	struct ibv_ah *ah = new_ah(&gid);
	for (int i = 0; i < 5; i++) {
		struct ibv_qp *qp = ud_in(lives[i]);
		const uint32_t qp_num = qp->qp_num;
		const int fds = count_fds();
		move_to(qp, IBV_QPS_RESET);
		/* in RTR and RTS the connection has a copy of the socket; the first transition starts the threads */
		if (lives[i] != IBV_QPS_RESET)
			assert_int_equal(count_fds(), fds - (i == 2 || i == 3));
		assert_int_equal(qp->qp_num, qp_num);
		move_to(qp, IBV_QPS_RESET);
		ud_to_rts(qp);
		expect_datagram(qp, ah, qp, 100);
		destroy_qp(qp);
	}
	destroy_ah(ah);
}

/* what has completed, and what was posted, is gone after a RESET */
static void
test_reset_drops(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *a = ud_ready(), *b = ud_ready();
	ud_post_recv(b, 1, IN, 100);
	ud_post_recv(b, 2, IN, 100);
	ud_send(a, 3, ah, b, 10);
	expect_passage(3, 1);
	ud_send(a, 4, ah, b, 10);
	ud_send(b, 5, ah, a, 10);
	wait_until(atomic_load(&softrdma_cq_of(the_cq)->count) >= 3);
	move_to(b, IBV_QPS_RESET);
	expect_wc(4, IBV_WC_SUCCESS); /* of the other queue pair */
	expect_no_completion();
	ud_to_rts(b);
	expect_datagram(a, ah, b, 10);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
}

static void
test_reset_fails(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	static const char *const calls[] = { "malloc", "calloc" };
	for (int i = 0; i < 2; i++) {
		unsigned skip = 0;
		for (;; skip++) {
			fail_call(FAIL_MINE, calls[i], skip, 1, ENOMEM);
			const int ret = ud_modify(qp, IBV_QPS_RESET, IBV_QP_STATE);
			if (fail_nothing() == 0) {
				assert_int_equal(ret, 0);
				break;
			}
			assert_int_equal(ret, ENOMEM);
			expect_state(qp, IBV_QPS_ERR);
		}
		assert_true(skip >= 1);
		expect_state(qp, IBV_QPS_RESET);
		ud_to_rts(qp);
	}
	random_error = EIO;
	assert_int_equal(ud_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), EIO);
	random_error = 0;
	expect_state(qp, IBV_QPS_ERR);
	move_to(qp, IBV_QPS_RESET);
	ud_to_rts(qp);

	/* no memory for the socket's filter: what was posted is flushed, as ERR promises */
	ud_post_recv(qp, 1, IN, 100);
	fail_call(FAIL_MINE, "setsockopt", 0, 1, ENOMEM);
	assert_int_equal(ud_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	expect_state(qp, IBV_QPS_ERR);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	expect_no_completion();
	move_to(qp, IBV_QPS_RESET);
	ud_to_rts(qp);
	expect_datagram(qp, ah, qp, 10);
	destroy_ah(ah);
	destroy_qp(qp);
}

/* the kernel has no thread, descriptor or memory left; the call can be made again */
static void
test_moves_fail(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int error;
	} threads[] = { { "epoll_create1", EMFILE }, { "pthread_create", EAGAIN } },
	  sockets[] = { { "fcntl", EMFILE }, { "epoll_ctl", ENOSPC }, { "setsockopt", EPERM } };
	struct ibv_qp *qp = ud_new();
	for (int i = 0; i < 2; i++) {
		fail_call(FAIL_MINE, threads[i].call, 0, 1, threads[i].error);
		assert_int_equal(ud_modify(qp, IBV_QPS_INIT, UD_INIT_MASK), threads[i].error);
		assert_int_equal(fail_nothing(), 1);
		expect_state(qp, IBV_QPS_RESET);
		assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
	}
	ud_to_init(qp);
	const int fds = count_fds();
	for (int i = 0; i < 3; i++) {
		fail_call(FAIL_MINE, sockets[i].call, 0, 1, sockets[i].error);
		assert_int_equal(ud_modify(qp, IBV_QPS_RTR, IBV_QP_STATE), sockets[i].error);
		assert_int_equal(fail_nothing(), 1);
		expect_state(qp, IBV_QPS_INIT);
		assert_int_equal(count_fds(), fds);
	}
	assert_int_equal(ud_modify(qp, IBV_QPS_RTR, IBV_QP_STATE), 0);
	destroy_qp(qp);
}

/* --- posts --- */

/* keeps the system from taking datagrams until allow_sends() */
static void
forbid_sends(void)
{
	fail_call(FAIL_ANY, "sendmmsg", 0, FAIL_FOR_EVER, EAGAIN);
}

static void
allow_sends(void)
{
	assert_true(fail_nothing() > 0);
}

static void
test_error_flushes(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	for (uint64_t i = 0; i < 3; i++)
		ud_post_recv(qp, 100 + i, IN, 100);
	forbid_sends();
	for (uint64_t i = 0; i < 3; i++)
		ud_send(qp, 200 + i, ah, qp, 10);
	expect_no_completion();
	move_to(qp, IBV_QPS_ERR);
	allow_sends();
	uint64_t seen = 0;
	for (int i = 0; i < 6; i++) {
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.qp_num, qp->qp_num);
		seen += wc.wr_id;
	}
	assert_int_equal(seen, 3 * 100 + 3 * 200 + 6);
	/* what is posted now is flushed at once */
	ud_post_recv(qp, 1, IN, 100);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	ud_send(qp, 2, ah, qp, 10);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	/* ERR again changes nothing, and RTS is only reached by RESET */
	move_to(qp, IBV_QPS_ERR);
	assert_int_equal(ud_modify(qp, IBV_QPS_RTS, UD_RTS_MASK), EINVAL);
	expect_no_completion();
	destroy_ah(ah);
	destroy_qp(qp);
}

/* with requests that the system has not taken: they vanish without completions */
static void
test_ends_with_requests(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	forbid_sends();
	ud_send(qp, 1, ah, qp, 10);
	move_to(qp, IBV_QPS_RESET);
	ud_to_rts(qp);
	ud_send(qp, 2, ah, qp, 10);
	destroy_qp(qp);
	allow_sends();
	expect_no_completion();
	destroy_ah(ah);
}

static int
post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	const int ret = ibv_post_send(qp, wr, &bad);
	assert_ptr_equal(bad, ret ? wr : NULL);
	return ret;
}

static void
test_wrong_states(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	static const enum ibv_qp_state early[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
	struct ibv_ah *ah = new_ah(&gid);
	for (int i = 0; i < 3; i++) {
		struct ibv_qp *qp = ud_in(early[i]);
		struct ibv_send_wr wr = ud_wr(1, ah, qp->qp_num, NULL);
		struct ibv_recv_wr recv_wr = { .wr_id = 1 }, *bad = NULL;
		wr.num_sge = 0;
		assert_int_equal(post(qp, &wr), EINVAL);
		assert_int_equal(ibv_post_recv(qp, &recv_wr, &bad), i == 0 ? EINVAL : 0);
		destroy_qp(qp);
	}
	destroy_ah(ah);
}

static void
test_wrong_requests(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	static const enum ibv_wr_opcode others[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	struct ibv_sge sge[3] = { { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey } };
	struct ibv_send_wr wr;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		wr = ud_wr(1, ah, qp->qp_num, sge);
		wr.opcode = others[i];
		assert_int_equal(post(qp, &wr), EINVAL);
	}
	wr = ud_wr(1, ah, qp->qp_num, sge);
	wr.opcode = IBV_WR_LOCAL_INV;
	assert_int_equal(post(qp, &wr), EOPNOTSUPP);
	wr = ud_wr(1, NULL, qp->qp_num, sge);
	assert_int_equal(post(qp, &wr), EINVAL);
	wr = ud_wr(1, ah, qp->qp_num, sge);
	wr.num_sge = 3; /* 2 may be */
	assert_int_equal(post(qp, &wr), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(post(qp, &wr), EINVAL);
	expect_state(qp, IBV_QPS_RTS);
	expect_no_completion();

	/* the good ones before the wrong one leave */
	struct ibv_send_wr list[2] = { ud_wr(5, ah, qp->qp_num, sge), ud_wr(6, NULL, qp->qp_num, sge) };
	struct ibv_send_wr *bad = NULL;
	list[0].next = &list[1];
	ud_post_recv(qp, 4, IN, 100);
	assert_int_equal(ibv_post_send(qp, list, &bad), EINVAL);
	assert_ptr_equal(bad, &list[1]);
	expect_passage(5, 4);

	/* the queue is full */
	forbid_sends();
	for (uint64_t i = 0; i < 64; i++)
		ud_send(qp, i, ah, qp, 10);
	wr = ud_wr(64, ah, qp->qp_num, sge);
	assert_int_equal(post(qp, &wr), ENOMEM);
	allow_sends();
	destroy_ah(ah);
	destroy_qp(qp);
}

/* --- extended verbs --- */

static void
begin(struct ibv_qp_ex *ex, uint64_t wr_id)
{
	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static void
test_extended_posts(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp *qp = ud_ready();
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(qp);
	pattern_fill(the_mem, 64, 3, 0);
	for (uint64_t i = 0; i < 3; i++)
		ud_post_recv(qp, i, IN + 128 * i, 128);
	begin(ex, 10);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)the_mem, 64);
	ibv_wr_send_imm(ex, htonl(77));
	ibv_wr_set_inline_data(ex, the_mem + 8, 56);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY); /* the order does not matter */
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, 0xffffffff); /* the queue pair's own */
	assert_int_equal(ibv_wr_complete(ex), 0);
	unsigned received = 0;
	for (int i = 0; i < 6; i++) {
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		static const uint32_t lengths[] = { 64, 56, 0 };
		assert_int_equal(wc.wr_id, received);
		assert_int_equal(wc.byte_len, GRH + lengths[received]);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, received == 1 ? IBV_WC_WITH_IMM : 0);
		received++;
	}
	assert_int_equal(received, 3);
	assert_int_equal(pattern_check(the_mem + IN + GRH, 64, 3, 0), -1);
	assert_int_equal(pattern_check(the_mem + IN + 128 + GRH, 56, 3, 8), -1);
	destroy_ah(ah);
	destroy_qp(qp);
}

static void
test_extended_refusals(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.cap.max_send_wr = 1; /* so that each request uses the place of the one before */
	struct ibv_qp *qp = ud_with(&attr);
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(qp);
	ud_to_rts(qp);
	ud_post_recv(qp, 1, IN, 128);
	begin(ex, 2);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_passage(2, 1);
	begin(ex, 3); /* without a destination, also not that of the last request */
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	begin(ex, 4);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, NULL, qp->qp_num, QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	begin(ex, 5);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY); /* of no request */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	begin(ex, 6);
	ibv_wr_rdma_write(ex, the_mr->rkey, (uintptr_t)the_mem);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	begin(ex, 7);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	ibv_wr_abort(ex);
	expect_no_completion();
	expect_state(qp, IBV_QPS_RTS);
	destroy_qp(qp);

	/* a reliable connection has no destinations */
	struct ibv_qp *rc = new_qp();
	ex = softrdma_ibv_qp_to_qp_ex(rc);
	to_init(rc);
	to_rtr(rc, &gid, 0x123456, 1);
	to_rts(rc, 2);
	begin(ex, 8);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 0x123456, QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	destroy_qp(rc);
	destroy_ah(ah);
}

static void
test_extended_polls(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 8,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
			IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SL };
	struct ibv_cq_ex *cq = softrdma_ibv_create_cq_ex(softrdma_context(), &cq_attr);
	assert_non_null(cq);
	struct ibv_ah *ah = new_ah(&gid);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	attr.recv_cq = ibv_cq_ex_to_cq(cq);
	struct ibv_qp *a = ud_ready(), *b = ud_with(&attr);
	ud_to_rts(b);
	ud_post_recv(b, 1, IN, 128);
	struct ibv_send_wr wr = ud_wr(2, ah, b->qp_num, NULL);
	wr.num_sge = 0;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0xabcd);
	assert_int_equal(post(a, &wr), 0);
	expect_wc(2, IBV_WC_SUCCESS);
	struct ibv_poll_cq_attr poll_attr = { 0 };
	wait_until(ibv_start_poll(cq, &poll_attr) == 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_byte_len(cq), GRH);
	assert_int_equal(ntohl(ibv_wc_read_imm_data(cq)), 0xabcd);
	assert_int_equal(ibv_wc_read_qp_num(cq), b->qp_num);
	assert_int_equal(ibv_wc_read_src_qp(cq), a->qp_num);
	assert_int_equal(ibv_wc_read_sl(cq), 10);
	ibv_end_poll(cq);
	destroy_ah(ah);
	destroy_qp(a);
	destroy_qp(b);
	assert_int_equal(softrdma_ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_create),
		device_test(test_numbers_differ),
		device_test(test_create_arguments),
		device_test(test_create_fails),
		setting_test(test_forbidden),
		device_test(test_masks),
		device_test(test_values),
		device_test(test_query),
		device_test(test_qkey_changes),
		device_test(test_reset),
		device_test(test_reset_drops),
		device_test(test_reset_fails),
		one_thread_test(test_moves_fail),
		device_test(test_error_flushes),
		device_test(test_ends_with_requests),
		device_test(test_wrong_states),
		device_test(test_wrong_requests),
		device_test(test_extended_posts),
		device_test(test_extended_refusals),
		device_test(test_extended_polls),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
