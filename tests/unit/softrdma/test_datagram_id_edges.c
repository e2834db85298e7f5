/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_datagram_id_edges.c -- ids of RDMA_PS_UDP: late queue pairs, addresses of no host, numbers of no queue pair */

#include "datagrams.h"

#define PAYLOAD 100

static struct rdma_cm_id *
new_ud_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;
	assert_int_equal(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	return id;
}

static void
give_ud_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = ud_attr();
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	expect_state(id->qp, IBV_QPS_RTS);
}

/* both sides of a question, each with its own channel */
struct question {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener, *client, *request;
};

/* a client without a queue pair asks at this address; the port is the listener's */
static void
question_init(struct question *q, const union softrdma_address *at, const union softrdma_address *ask)
{
	union softrdma_address bound = *at, asked = *ask;
	q->server_channel = new_channel();
	q->client_channel = new_channel();
	q->listener = new_ud_id(q->server_channel);
	assert_int_equal(softrdma_rdma_bind_addr(q->listener, &bound.any), 0);
	assert_int_equal(softrdma_rdma_listen(q->listener, 0), 0);
	/* both families have the port at the same place */
	asked.in.sin_port = q->listener->route.addr.src_sin.sin_port;
	q->client = new_ud_id(q->client_channel);
	assert_int_equal(softrdma_rdma_resolve_addr(q->client, NULL, &asked.any, 1000), 0);
	expect_event(q->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_connect(q->client, NULL), 0);
	q->request = expect_event(q->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void
question_fini(struct question *q)
{
	destroy(q->request);
	destroy(q->client);
	destroy(q->listener);
	expect_no_event(q->server_channel);
	expect_no_event(q->client_channel);
	softrdma_rdma_destroy_event_channel(q->client_channel);
	softrdma_rdma_destroy_event_channel(q->server_channel);
}

/* the way that the client learns leads to the server's queue pair */
static void
expect_way(const struct question *q)
{
	struct rdma_cm_event *event = take_event(q->client_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, q->request->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, QKEY);
	struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &event->param.ud.ah_attr);
	softrdma_rdma_ack_cm_event(event);
	assert_non_null(ah);
	if (q->client->qp == NULL)
		give_ud_qp(q->client);
	expect_datagram(q->client->qp, ah, q->request->qp, PAYLOAD);
	destroy_ah(ah);
}

static union softrdma_address
address_of(const char *text)
{
	union softrdma_address address = { .in6.sin6_family = AF_INET6 };
	if (inet_pton(AF_INET6, text, &address.in6.sin6_addr) == 1)
		return address;
	address = (union softrdma_address){ .in.sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, text, &address.in.sin_addr), 1);
	return address;
}

/* the question does not concern the client's queue pair, so the program may make that while it waits, or later */
static void
test_late_queue_pair(void **state)
{
	(void)state;
	const union softrdma_address at = address_of("127.0.0.1");
	for (int while_it_waits = 0; while_it_waits < 2; while_it_waits++) {
		struct question q;
		question_init(&q, &at, &at);
		if (while_it_waits)
			give_ud_qp(q.client);
		give_ud_qp(q.request);
		assert_int_equal(softrdma_rdma_accept(q.request, NULL), 0);
		expect_way(&q); /* makes the queue pair if the client has none */
		/* another one in its place */
		softrdma_rdma_destroy_qp(q.client);
		give_ud_qp(q.client);
		question_fini(&q);
	}
}

static void
expect_way_to_no_host(const char *listens_at, const char *asks)
{
	struct question q;
	const union softrdma_address at = address_of(listens_at), ask = address_of(asks);
	question_init(&q, &at, &ask);
	give_ud_qp(q.request);
	assert_int_equal(softrdma_rdma_accept(q.request, NULL), 0);
	expect_way(&q);
	question_fini(&q);
}

/* the kernel connects these addresses to this machine, and no address handle may have them */
static void
test_no_host(void **state)
{
	(void)state;
	expect_way_to_no_host("127.0.0.1", "0.0.0.0");
	the_gid(AF_INET6); /* skips the rest without IPv6 */
	expect_way_to_no_host("127.0.0.1", "::ffff:0.0.0.0");
	expect_way_to_no_host("::1", "::");
}

/* no port, or more than 24 bits */
static const uint32_t wrong_numbers[] = { 0, 1, 0xff, 0x1000000, 0x80012300, 0xffffffff };
static const uint32_t right_numbers[] = { 0x100, 0x123456, 0xffffff };

/* a plain socket answers with this number; returns the event, which the caller acknowledges */
static struct rdma_cm_event *
answer_with(uint32_t qp_num, struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	uint8_t buf[BUF_MAX];
	struct softrdma_handshake hs;
	struct sockaddr_in addr;
	const int listening = raw_listen(&addr);
	struct rdma_cm_id *id = new_ud_id(channel);
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	const int fd = raw_accept(listening);
	raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_RESOLVE);
	hs = (struct softrdma_handshake){ .version = SOFTRDMA_WIRE_VERSION,
		.type = SOFTRDMA_HANDSHAKE_ACCEPT,
		.qp_num = qp_num,
		.seq = QKEY };
	softrdma_handshake_encode(&hs, buf);
	raw_send(fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	struct rdma_cm_event *event = take_event(channel, type);
	assert_ptr_equal(event->id, id);
	close(fd);
	close(listening);
	return event;
}

static void
acknowledge_and_destroy(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	softrdma_rdma_ack_cm_event(event);
	destroy(id);
}

/* the number comes from a stranger */
static void
test_wrong_number_of_a_server(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	for (size_t i = 0; i < sizeof(wrong_numbers) / sizeof(wrong_numbers[0]); i++) {
		struct rdma_cm_event *event =
			answer_with(wrong_numbers[i], channel, RDMA_CM_EVENT_UNREACHABLE);
		assert_int_equal(event->status, -EPROTO);
		assert_int_equal(event->param.ud.qp_num, 0);
		assert_true(log_has("has named no queue pair of datagrams"));
		log_clear();
		acknowledge_and_destroy(event);
	}
	for (size_t i = 0; i < sizeof(right_numbers) / sizeof(right_numbers[0]); i++) {
		struct rdma_cm_event *event =
			answer_with(right_numbers[i], channel, RDMA_CM_EVENT_ESTABLISHED);
		assert_int_equal(event->param.ud.qp_num, right_numbers[i]);
		acknowledge_and_destroy(event);
	}
	expect_no_event(channel);
	softrdma_rdma_destroy_event_channel(channel);
}

/* the request stays one, and the program may name another queue pair */
static void
test_wrong_number_of_a_program(void **state)
{
	(void)state;
	struct question q;
	const union softrdma_address at = address_of("127.0.0.1");
	question_init(&q, &at, &at);
	for (size_t i = 0; i < sizeof(wrong_numbers) / sizeof(wrong_numbers[0]); i++) {
		struct rdma_conn_param param = { .qp_num = wrong_numbers[i] };
		assert_int_equal(softrdma_rdma_accept(q.request, &param), -1);
		assert_int_equal(errno, EINVAL);
		expect_no_event(q.client_channel);
	}
	/* a reliable connection gets no datagrams */
	q.request->qp = new_qp();
	assert_int_equal(softrdma_rdma_accept(q.request, NULL), -1);
	assert_int_equal(errno, EINVAL);
	softrdma_rdma_destroy_qp(q.request);
	expect_no_event(q.client_channel);
	struct rdma_conn_param param = { .qp_num = right_numbers[1] };
	assert_int_equal(softrdma_rdma_accept(q.request, &param), 0);
	struct rdma_cm_event *event = take_event(q.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, right_numbers[1]);
	softrdma_rdma_ack_cm_event(event);
	question_fini(&q);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_late_queue_pair),
		device_test(test_no_host),
		device_test(test_wrong_number_of_a_server),
		device_test(test_wrong_number_of_a_program),
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
