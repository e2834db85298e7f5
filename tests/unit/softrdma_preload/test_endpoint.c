/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_endpoint.c -- endpoints, queue pairs with their own completion queues, shared receive queues of an id
 */

#include "two_sides.h"
#include "softrdma/cm/event.h"

/* sends a message from one id to the other, over their own completion queues */
static void
send_text(struct rdma_cm_id *from, struct rdma_cm_id *to, const char *text)
{
	char in[64] = "", out[64];
	memset(out, 0, sizeof(out));
	strncpy(out, text, sizeof(out) - 1);
	struct ibv_mr *in_mr = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_mr *out_mr = rdma_reg_msgs(from, out, sizeof(out));
	assert_non_null(in_mr);
	assert_non_null(out_mr);
	assert_int_equal(rdma_post_recv(to, NULL, in, sizeof(in), in_mr), 0);
	assert_int_equal(rdma_post_send(from, NULL, out, sizeof(out), out_mr, 0), 0);
	struct ibv_wc wc;
	assert_int_equal(rdma_get_send_comp(from, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(to, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, sizeof(in));
	assert_string_equal(in, text);
	assert_int_equal(rdma_dereg_mr(in_mr), 0);
	assert_int_equal(rdma_dereg_mr(out_mr), 0);
}

/* both sides are told of the end; a synchronous call waits for it, and a second one finds that it is over */
static void
disconnect_both(struct rdma_cm_id *first, struct rdma_cm_id *second)
{
	assert_int_equal(rdma_disconnect(first), 0);
	assert_int_equal(first->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(second), 0);
	assert_int_equal(second->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(second), 0);
}

static void
talk_over(const char *node)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listen = passive_ep(node, NULL, &attr);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one, listen), 0);
	attr = small_qp();
	struct rdma_cm_id *active = active_ep(node, listen, &attr);
	assert_non_null(active->qp);
	assert_ptr_equal(active->qp->send_cq, active->send_cq);
	assert_ptr_equal(attr.recv_cq, active->recv_cq);
	assert_int_equal(rdma_connect(active, NULL), 0);
	struct rdma_cm_id *passive = NULL;
	pthread_join(thread, (void **)&passive);
	assert_non_null(passive);
	assert_ptr_equal(passive->pd, active->pd); /* they share one */
	assert_int_equal(rdma_get_dst_port(active), rdma_get_src_port(passive));
	assert_int_equal(rdma_get_src_port(active), rdma_get_dst_port(passive));

	send_text(active, passive, "there");
	send_text(passive, active, "and back");
	disconnect_both(active, passive);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listen);
}

static void
test_talk(void **state)
{
	(void)state;
	talk_over("127.0.0.1");
	talk_over("::1");
}

/* --- endpoints of datagrams --- */

static struct rdma_cm_id *
datagram_ep(const char *node, uint16_t port, int flags)
{
	char service[8];
	snprintf(service, sizeof(service), "%u", port);
	const struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_UDP };
	struct rdma_addrinfo *res = NULL;
	struct rdma_cm_id *id = NULL;
	struct ibv_qp_init_attr attr = small_qp();
	assert_int_equal(rdma_getaddrinfo(node, service, &hints, &res), 0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	return id;
}

/* sends a datagram to the queue pair that the answer has named */
static void
send_datagram(struct rdma_cm_id *from, struct rdma_cm_id *to, const char *text)
{
	enum { HEADER = 40 };
	char in[HEADER + 64] = "", out[64];
	memset(out, 0, sizeof(out));
	strncpy(out, text, sizeof(out) - 1);
	struct rdma_ud_param answer = from->event->param.ud;
	struct ibv_ah *ah = ibv_create_ah(from->pd, &answer.ah_attr);
	assert_non_null(ah);
	struct ibv_mr *in_mr = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_mr *out_mr = rdma_reg_msgs(from, out, sizeof(out));
	assert_non_null(in_mr);
	assert_non_null(out_mr);
	assert_int_equal(rdma_post_recv(to, NULL, in, sizeof(in), in_mr), 0);
	assert_int_equal(rdma_post_ud_send(from, NULL, out, sizeof(out), out_mr, 0, ah, answer.qp_num), 0);
	struct ibv_wc wc;
	assert_int_equal(rdma_get_send_comp(from, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(to, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, sizeof(in));
	assert_int_equal(wc.src_qp, from->qp->qp_num);
	assert_string_equal(in + HEADER, text);
	assert_int_equal(rdma_dereg_mr(in_mr), 0);
	assert_int_equal(rdma_dereg_mr(out_mr), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* both sides have a queue pair, and the client's call returns when the server has named its own */
static void
test_datagrams(void **state)
{
	(void)state;
	struct rdma_cm_id *listen = datagram_ep("127.0.0.1", 0, RAI_PASSIVE);
	assert_int_equal(rdma_listen(listen, 0), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one, listen), 0);
	struct rdma_cm_id *active = datagram_ep("127.0.0.1", ntohs(rdma_get_src_port(listen)), 0);
	assert_non_null(active->qp);
	assert_int_equal(rdma_connect(active, NULL), 0);
	struct rdma_cm_id *passive = NULL;
	pthread_join(thread, (void **)&passive);
	assert_non_null(passive);
	assert_int_equal(active->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(passive->qp->qp_type, IBV_QPT_UD);
	assert_int_equal(active->event->param.ud.qp_num, passive->qp->qp_num);
	send_datagram(active, passive, "where the answer says");
	assert_int_equal(rdma_disconnect(active), 0);
	assert_int_equal(rdma_disconnect(passive), 0);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listen);
}

/* --- what is missing or wrong --- */

/* without attributes no queue pair is made; a given protection domain is used */
static void
test_without_attributes(void **state)
{
	(void)state;
	struct ibv_pd *pd = ibv_alloc_pd(softrdma_preload_context());
	struct rdma_cm_id *listen = passive_ep("127.0.0.1", pd, NULL);
	struct rdma_cm_id *active = active_ep("127.0.0.1", listen, NULL);
	assert_null(active->qp);
	struct ibv_qp_init_attr attr = small_qp();
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_qp(active, pd, &attr), 0);
	assert_ptr_equal(active->qp->pd, pd);
	assert_int_equal(rdma_create_qp(active, pd, &attr), -1); /* it has one */
	assert_int_equal(errno, EINVAL);

	/* the program must make the queue pair with which it accepts */
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one, listen), 0);
	assert_int_equal(rdma_connect(active, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	pthread_join(thread, NULL);
	rdma_destroy_ep(active);
	rdma_destroy_ep(listen);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* destroying a queue pair ends the connection, and the id is told; a connected id can be disconnected */
static void
test_queue_pair_goes_first(void **state)
{
	(void)state;
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listen = passive_ep("127.0.0.1", NULL, &attr);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one, listen), 0);
	attr = small_qp();
	struct rdma_cm_id *active = active_ep("127.0.0.1", listen, &attr);
	assert_int_equal(rdma_connect(active, NULL), 0);
	struct rdma_cm_id *passive = NULL;
	pthread_join(thread, (void **)&passive);

	rdma_destroy_qp(active);
	assert_null(active->send_cq);
	assert_null(active->recv_cq_channel);
	assert_int_equal(rdma_disconnect(active), 0);
	assert_int_equal(active->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(passive), 0);
	/* the queue pair is destroyed without its id, as rping does it */
	struct ibv_cq *send_cq = passive->send_cq, *recv_cq = passive->recv_cq;
	assert_int_equal(ibv_destroy_qp(passive->qp), 0);
	assert_int_equal(rdma_disconnect(passive), 0);
	assert_int_equal(ibv_destroy_cq(send_cq), 0);
	assert_int_equal(ibv_destroy_cq(recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(passive->send_cq_channel), 0);
	assert_int_equal(ibv_destroy_comp_channel(passive->recv_cq_channel), 0);
	assert_int_equal(rdma_destroy_id(passive), 0);
	rdma_destroy_ep(active);
	rdma_destroy_ep(listen);
}

static void
test_shared_receive_queue(void **state)
{
	(void)state;
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listen = passive_ep("127.0.0.1", NULL, &attr);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_one, listen), 0);
	struct rdma_cm_id *active = active_ep("127.0.0.1", listen, NULL);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	assert_int_equal(rdma_create_srq(active, NULL, &srq_attr), 0);
	assert_int_equal(rdma_create_srq(active, NULL, &srq_attr), -1);
	assert_int_equal(errno, EINVAL);
	struct ibv_srq_attr is;
	assert_int_equal(ibv_query_srq(active->srq, &is), 0);
	assert_int_equal(is.max_wr, 4);
	assert_int_equal(is.max_sge, 1);
	assert_int_equal(is.srq_limit, 0);
	attr = small_qp();
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_qp(active, NULL, &attr), 0);
	assert_ptr_equal(active->qp->srq, active->srq);
	assert_int_equal(rdma_connect(active, NULL), 0);
	struct rdma_cm_id *passive = NULL;
	pthread_join(thread, (void **)&passive);
	send_text(passive, active, "shared");
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listen);

	/* the extended form supports only the basic type */
	struct rdma_cm_id *id = NULL;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	struct ibv_srq_init_attr_ex ex = { .attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_XRC };
	assert_int_equal(rdma_create_srq_ex(id, &ex), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_BASIC;
	assert_int_equal(rdma_create_srq_ex(id, &ex), -1); /* no protection domain */
	assert_int_equal(errno, EINVAL);
	ex.comp_mask = IBV_SRQ_INIT_ATTR_PD;
	ex.pd = ibv_alloc_pd(softrdma_preload_context());
	assert_int_equal(rdma_create_srq_ex(id, &ex), 0);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	rdma_destroy_srq(id);
	rdma_destroy_srq(id);
	assert_int_equal(rdma_create_srq_ex(id, &ex), -1);
	fail_nothing();
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(ibv_dealloc_pd(ex.pd), 0);
}

/* each allocation of an active endpoint fails once: the call returns an error and leaves nothing behind */
static void
test_no_memory(void **state)
{
	(void)state;
	struct rdma_cm_id *const untouched = (void *)state;
	static const char *const calls[] = { "calloc", "eventfd" };
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listen = passive_ep("127.0.0.1", NULL, &attr);
	struct rdma_addrinfo *active = resolve("127.0.0.1", ntohs(rdma_get_src_port(listen)), 0);
	struct rdma_addrinfo *passive = resolve("127.0.0.1", 0, RAI_PASSIVE);
	for (int which = 0; which < 4; which++) {
		struct rdma_addrinfo *res = which & 1 ? active : passive;
		bool failed = true;
		unsigned fault = 0;
		while (failed) {
			struct rdma_cm_id *id = untouched;
			attr = small_qp();
			fail_call(FAIL_MINE, calls[which / 2], fault++, 1, which / 2 ? EMFILE : ENOMEM);
			int ret = rdma_create_ep(&id, res, NULL, &attr);
			int error = errno;
			failed = fail_nothing() > 0;
			if (failed) {
				assert_int_equal(ret, -1);
				assert_true(error == ENOMEM || error == EMFILE);
				assert_ptr_equal(id, untouched);
			} else {
				assert_int_equal(ret, 0);
				rdma_destroy_ep(id);
			}
		}
		assert_true(fault > 1);
	}
	/* a queue that is too large */
	struct rdma_cm_id *id = active_ep("127.0.0.1", listen, NULL);
	attr = small_qp();
	attr.qp_type = IBV_QPT_RC;
	attr.cap.max_send_wr = INT32_MAX;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(id->send_cq);
	rdma_destroy_ep(id);
	/* a kind of queue pair that the device lacks */
	passive->ai_qp_type = IBV_QPT_UC;
	assert_int_equal(rdma_create_ep(&id, passive, NULL, NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	passive->ai_qp_type = IBV_QPT_RC;
	/* a source address that this machine does not have */
	((struct sockaddr_in *)passive->ai_src_addr)->sin_addr.s_addr = htonl(0x08080808);
	assert_int_equal(rdma_create_ep(&id, passive, NULL, NULL), -1);
	assert_int_equal(errno, ENODEV);
	passive->ai_port_space = RDMA_PS_IPOIB;
	assert_int_equal(rdma_create_ep(&id, passive, NULL, NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	/* a type that the port space does not have */
	passive->ai_port_space = RDMA_PS_UDP;
	assert_int_equal(rdma_create_ep(&id, passive, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	passive->ai_port_space = RDMA_PS_TCP;
	passive->ai_qp_type = IBV_QPT_UD;
	assert_int_equal(rdma_create_ep(&id, passive, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	/* a destination of an unknown family */
	active->ai_dst_addr->sa_family = AF_UNIX;
	assert_int_equal(rdma_create_ep(&id, active, NULL, NULL), -1);
	rdma_freeaddrinfo(active);
	rdma_freeaddrinfo(passive);
	rdma_destroy_ep(listen);
}

/* if a request cannot be taken it is refused, and the next one can be taken */
static void
test_request_fails(void **state)
{
	(void)state;
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listen = passive_ep("127.0.0.1", NULL, &attr);
	struct rdma_cm_id *untouched = listen, *id = listen;
	for (unsigned skip = 0; skip < 2; skip++) {
		attr = small_qp();
		struct rdma_cm_id *active = active_ep("127.0.0.1", listen, &attr);
		assert_int_equal(rdma_migrate_id(active, rdma_create_event_channel()), 0);
		assert_int_equal(rdma_connect(active, NULL), 0);
		struct pollfd pfd = { .fd = listen->channel->fd, .events = POLLIN };
		assert_int_equal(poll(&pfd, 1, 20000), 1);
		fail_call(FAIL_MINE, "calloc", skip, 1, ENOMEM);
		assert_int_equal(rdma_get_request(listen, &id), -1);
		assert_int_equal(errno, ENOMEM);
		fail_nothing();
		assert_ptr_equal(id, untouched);
		struct rdma_cm_event *event;
		assert_int_equal(rdma_get_cm_event(active->channel, &event), 0);
		assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
		rdma_ack_cm_event(event);
		struct rdma_event_channel *channel = active->channel;
		rdma_destroy_ep(active);
		rdma_destroy_event_channel(channel);
	}
	/* the wait fails */
	fail_call(FAIL_MINE, "poll", 0, 1, EINTR);
	assert_int_equal(rdma_get_request(listen, &id), -1);
	assert_int_equal(errno, EINTR);
	/* The event that a call has kept is released. An event other than a request is an error. */
	assert_int_equal(
		softrdma_id_post(softrdma_id_of(listen), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL, NULL),
		0);
	assert_int_equal(rdma_get_cm_event(listen->channel, &listen->event), 0);
	assert_int_equal(
		softrdma_id_post(softrdma_id_of(listen), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL, NULL),
		0);
	assert_int_equal(rdma_get_request(listen, &id), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(listen->event);
	/* only for synchronous ids */
	struct rdma_event_channel *channel = rdma_create_event_channel();
	assert_int_equal(rdma_migrate_id(listen, channel), 0);
	assert_int_equal(rdma_get_request(listen, &id), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_ep(listen);
	rdma_destroy_event_channel(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_talk),
		cmocka_unit_test(test_datagrams),
		cmocka_unit_test(test_without_attributes),
		cmocka_unit_test(test_queue_pair_goes_first),
		cmocka_unit_test(test_shared_receive_queue),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_request_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
