/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_datagram_id.c -- ids of RDMA_PS_UDP: a client asks, the server answers, and datagrams take the way of the answer
 *
 * Plain TCP sockets replace one side where that side says what the device never would.
 */

#include "datagrams.h"
#include "plain_server.h"

#include <sys/wait.h>

/* the status of an event without a queue pair (IBTA 1, 12.11) */
enum { NOBODY = 1, REJECTED = 2, NO_QP = 3, OTHER_VERSION = 5 };

#define HOP_LIMIT 64
#define SEED_OF_REQUEST 11
#define SEED_OF_ANSWER 12

/* --- both sides --- */

static struct rdma_cm_id *
new_ud_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;
	assert_int_equal(softrdma_rdma_create_id(channel, &id, &the_mem, RDMA_PS_UDP), 0);
	return id;
}

/* a loopback address of this family, with any port */
static struct sockaddr_storage
loopback_of(int family)
{
	struct sockaddr_storage addr = { 0 };
	const struct sockaddr_in v4 = loopback(0);
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	if (family == AF_INET)
		memcpy(&addr, &v4, sizeof(v4));
	else
		memcpy(&addr, &v6, sizeof(v6));
	return addr;
}

struct sides {
	struct rdma_event_channel *server, *client; /* the channels */
	struct rdma_cm_id *listener, *active, *passive;
	struct sockaddr_storage addr; /* of the listener */
};

/* an id has the address and does not listen: so the port refuses, and no other process takes it meanwhile */
static void
bind_at(struct sides *s, int family)
{
	memset(s, 0, sizeof(*s));
	struct sockaddr_storage any = loopback_of(family);
	s->server = new_channel();
	s->client = new_channel();
	s->listener = new_ud_id(s->server);
	assert_int_equal(softrdma_rdma_bind_addr(s->listener, (struct sockaddr *)&any), 0);
	s->addr = s->listener->route.addr.src_storage;
	assert_int_not_equal(rdma_get_src_port(s->listener), 0);
}

static void
listen_at(struct sides *s, int family)
{
	bind_at(s, family);
	assert_int_equal(softrdma_rdma_listen(s->listener, 0), 0);
}

static void
resolve(struct rdma_cm_id *id, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage dst = *addr;
	assert_int_equal(softrdma_rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	expect_event(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(softrdma_rdma_resolve_route(id, 1000), 0);
	expect_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void
give_ud_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = ud_attr();
	assert_int_equal(softrdma_rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(id->qp->qp_type, IBV_QPT_UD);
	assert_ptr_equal(id->pd, the_pd);
	expect_state(id->qp, IBV_QPS_RTS);
}

/* a client that may ask this address */
static struct rdma_cm_id *
new_client(struct rdma_event_channel *channel, const struct sockaddr_storage *addr)
{
	struct rdma_cm_id *id = new_ud_id(channel);
	resolve(id, addr);
	return id;
}

/* the client asks, and the server's program has the request */
static void
ask_with(struct sides *s, struct rdma_conn_param *param)
{
	s->active = new_client(s->client, &s->addr);
	assert_int_equal(softrdma_rdma_connect(s->active, param), 0);
	s->passive = expect_event(s->server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void
ask(struct sides *s, int family)
{
	listen_at(s, family);
	ask_with(s, NULL);
}

static void
expect_quiet(const struct sides *s)
{
	expect_no_event(s->server);
	expect_no_event(s->client);
}

static void
sides_fini(struct sides *s)
{
	expect_quiet(s);
	if (s->active)
		destroy(s->active);
	if (s->passive)
		destroy(s->passive);
	if (s->listener)
		destroy(s->listener);
	softrdma_rdma_destroy_event_channel(s->client);
	softrdma_rdma_destroy_event_channel(s->server);
}

/* accepts with a queue pair of the request's own */
static void
accept_request(struct sides *s)
{
	give_ud_qp(s->passive);
	assert_int_equal(softrdma_rdma_accept(s->passive, NULL), 0);
}

/* the client has the answer, and this is the number in the answer */
static void
expect_answer(struct sides *s, uint32_t qp_num)
{
	struct rdma_cm_event *event = take_event(s->client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->status, 0);
	assert_ptr_equal(event->id, s->active);
	assert_int_equal(event->param.ud.qp_num, qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
}

static void
expect_unreachable(struct sides *s, int status)
{
	struct rdma_cm_event *event = take_event(s->client, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, s->active);
	assert_int_equal(event->param.ud.private_data_len, 0);
	assert_null(event->param.ud.private_data);
	assert_int_equal(event->param.ud.qp_num, 0);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
}

static void
expect_refused(int result, int errnum)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, errnum);
}

/* --- the way there and back --- */

static struct rdma_conn_param
with_data(uint8_t *data, size_t len, uint64_t seed)
{
	pattern_fill(data, len, seed, 0);
	return (struct rdma_conn_param){ .private_data = data, .private_data_len = (uint8_t)len };
}

static void
expect_data(const struct rdma_ud_param *param, size_t len, uint64_t seed)
{
	assert_int_equal(param->private_data_len, len);
	if (len == 0)
		assert_null(param->private_data);
	else
		assert_int_equal(pattern_check(param->private_data, len, seed, 0), -1);
}

static void
expect_request(struct sides *s, size_t len)
{
	struct rdma_cm_event *event = take_event(s->server, RDMA_CM_EVENT_CONNECT_REQUEST);
	s->passive = event->id;
	assert_int_equal(event->status, 0);
	assert_ptr_equal(event->listen_id, s->listener);
	assert_ptr_not_equal(s->passive, s->listener);
	assert_int_equal(s->passive->ps, RDMA_PS_UDP);
	assert_int_equal(s->passive->qp_type, IBV_QPT_UD);
	assert_ptr_equal(s->passive->context, s->listener->context);
	assert_ptr_equal(s->passive->verbs, softrdma_context());
	assert_int_equal(rdma_get_src_port(s->passive), rdma_get_src_port(s->listener));
	assert_int_equal(rdma_get_dst_port(s->passive), rdma_get_src_port(s->active));
	expect_data(&event->param.ud, len, SEED_OF_REQUEST);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
}

/* returns an address handle of the way in the event */
static struct ibv_ah *
expect_established(struct sides *s, const union ibv_gid *gid, size_t len)
{
	struct rdma_cm_event *event = take_event(s->client, RDMA_CM_EVENT_ESTABLISHED);
	struct rdma_ud_param *param = &event->param.ud;
	assert_int_equal(event->status, 0);
	assert_ptr_equal(event->id, s->active);
	assert_null(event->listen_id);
	expect_data(param, len, SEED_OF_ANSWER);
	assert_int_equal(param->qp_num, s->passive->qp->qp_num);
	assert_int_equal(param->qkey, RDMA_UDP_QKEY);
	struct ibv_ah_attr way = { .is_global = 1, .port_num = 1 };
	way.grh.dgid = *gid;
	way.grh.sgid_index = (uint8_t)gid_index;
	way.grh.hop_limit = HOP_LIMIT;
	assert_memory_equal(&param->ah_attr.grh.dgid, &way.grh.dgid, sizeof(way.grh.dgid));
	assert_int_equal(param->ah_attr.grh.flow_label, 0);
	assert_int_equal(param->ah_attr.grh.sgid_index, way.grh.sgid_index);
	assert_int_equal(param->ah_attr.grh.hop_limit, way.grh.hop_limit);
	assert_int_equal(param->ah_attr.grh.traffic_class, 0);
	assert_int_equal(param->ah_attr.is_global, 1);
	assert_int_equal(param->ah_attr.port_num, 1);
	assert_int_equal(param->ah_attr.dlid, 0);
	struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &param->ah_attr);
	assert_non_null(ah);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
	return ah;
}

/* a datagram goes to the server, and the server answers to where it came from */
static void
talk(const struct sides *s, struct ibv_ah *there, size_t len)
{
	struct ibv_wc wc = expect_datagram(s->active->qp, there, s->passive->qp, len);
	struct ibv_ah *back =
		softrdma_ibv_create_ah_from_wc(the_pd, &wc, (struct ibv_grh *)(the_mem + IN + 8), 1);
	assert_non_null(back);
	assert_int_equal(wc.src_qp, s->active->qp->qp_num);
	expect_datagram(s->passive->qp, back, s->active->qp, len);
	destroy_ah(back);
}

static void
ask_and_talk(int family)
{
	static const size_t sizes[] = { 0, 1, 180, SOFTRDMA_PRIVATE_DATA_MAX };
	assert_int_equal(QKEY, RDMA_UDP_QKEY); /* so the helpers send with the right one */
	const union ibv_gid gid = the_gid(family == AF_INET ? MAPPED : family);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct sides s;
		uint8_t request[SOFTRDMA_PRIVATE_DATA_MAX], answer[SOFTRDMA_PRIVATE_DATA_MAX];
		const size_t answer_size = sizes[3 - i];
		struct rdma_conn_param param = with_data(request, sizes[i], SEED_OF_REQUEST);
		listen_at(&s, family);
		s.active = new_client(s.client, &s.addr);
		give_ud_qp(s.active);
		assert_int_equal(softrdma_rdma_connect(s.active, &param), 0);
		expect_request(&s, sizes[i]);
		expect_quiet(&s);

		give_ud_qp(s.passive);
		param = with_data(answer, answer_size, SEED_OF_ANSWER);
		param.qp_num = 0x77; /* not looked at: the id has a queue pair */
		assert_int_equal(softrdma_rdma_accept(s.passive, &param), 0);
		struct ibv_ah *ah = expect_established(&s, &gid, answer_size);
		talk(&s, ah, 1 + sizes[i]);
		destroy_ah(ah);
		sides_fini(&s); /* the server has no further event */
	}
}

static void
test_ask_v4(void **state)
{
	(void)state;
	ask_and_talk(AF_INET);
}

static void
test_ask_v6(void **state)
{
	(void)state;
	ask_and_talk(AF_INET6);
}

/* the queue pair of the answer need not be that of the id */
static void
test_accept_with_another_queue_pair(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	for (int stored = 0; stored < 2; stored++) {
		struct sides s;
		ask(&s, AF_INET);
		struct ibv_qp *qp = ud_ready(), *client = ud_ready();
		struct rdma_conn_param param = { .qp_num = stored ? 0 : qp->qp_num };
		if (stored)
			s.passive->qp = qp;
		assert_int_equal(softrdma_rdma_accept(s.passive, stored ? NULL : &param), 0);
		expect_answer(&s, qp->qp_num);
		struct ibv_ah *ah = new_ah(&gid);
		expect_datagram(client, ah, qp, 100);
		destroy_ah(ah);
		destroy_qp(client);
		s.passive->qp = NULL;
		destroy_qp(qp);
		sides_fini(&s);
	}
}

/* without a queue pair it remains a request, which can be rejected or accepted later */
static void
test_accept_without_queue_pair(void **state)
{
	(void)state;
	for (int accepts = 0; accepts < 2; accepts++) {
		struct sides s;
		struct rdma_conn_param param = { .rnr_retry_count = 7 };
		ask(&s, AF_INET);
		expect_refused(softrdma_rdma_accept(s.passive, NULL), EINVAL);
		expect_refused(softrdma_rdma_accept(s.passive, &param), EINVAL);
		expect_quiet(&s);
		if (accepts) {
			accept_request(&s);
			expect_answer(&s, s.passive->qp->qp_num);
		} else {
			assert_int_equal(softrdma_rdma_reject(s.passive, NULL, 0), 0);
			expect_unreachable(&s, REJECTED);
		}
		sides_fini(&s);
	}
}

/* --- no queue pair --- */

static void
test_rejected_by_program(void **state)
{
	(void)state;
	static const size_t sizes[] = { 1, 180, SOFTRDMA_PRIVATE_DATA_MAX };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct sides s;
		uint8_t data[SOFTRDMA_PRIVATE_DATA_MAX];
		const struct rdma_conn_param param = with_data(data, sizes[i], SEED_OF_ANSWER);
		ask(&s, AF_INET);
		assert_int_equal(softrdma_rdma_reject(s.passive, data, param.private_data_len), 0);
		struct rdma_cm_event *event = take_event(s.client, RDMA_CM_EVENT_UNREACHABLE);
		assert_int_equal(event->status, REJECTED);
		assert_ptr_equal(event->id, s.active);
		expect_data(&event->param.ud, sizes[i], SEED_OF_ANSWER);
		assert_int_equal(event->param.ud.qp_num, 0);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		expect_refused(softrdma_rdma_reject(s.passive, NULL, 0), EINVAL);
		struct rdma_conn_param late = { .qp_num = 0x123456 };
		expect_refused(softrdma_rdma_accept(s.passive, &late), EINVAL);
		expect_refused(softrdma_rdma_connect(s.active, NULL), EINVAL);
		expect_refused(softrdma_rdma_disconnect(s.active), EINVAL);
		expect_refused(softrdma_rdma_disconnect(s.passive), EINVAL);
		sides_fini(&s);
	}
}

static void
test_nobody_listens(void **state)
{
	(void)state;
	struct sides s;
	bind_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	expect_unreachable(&s, NOBODY);
	assert_true(log_has("no software device listens at 127.0.0.1:"));
	sides_fini(&s);
}

/* a listener for connections has no queue pair of datagrams, and its program does not learn of the question */
static void
test_listener_for_connections(void **state)
{
	(void)state;
	struct listener l;
	listener_init(&l);
	const uint64_t refused = count_refused(&l, SOFTRDMA_REFUSED_CLOSED);
	struct sides s = { .client = new_channel(), .server = new_channel() };
	memcpy(&s.addr, &l.addr, sizeof(l.addr));
	s.active = new_client(s.client, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	expect_unreachable(&s, NOBODY);
	expect_no_event(l.channel);
	assert_int_equal(count_refused(&l, SOFTRDMA_REFUSED_CLOSED), refused + 1);
	sides_fini(&s);

	/* the control: a connection is what it takes */
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
}

/* and the other way round */
static void
test_connection_to_listener_for_datagrams(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	struct sockaddr_in addr;
	memcpy(&addr, &s.addr, sizeof(addr));
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_NO_LISTENER);
	expect_state(id->qp, IBV_QPS_INIT);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	expect_quiet(&s);
	ask_with(&s, NULL); /* the listener still takes what it is for */
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	sides_fini(&s);
}

/* a way back needs a GID of this side's address, and not every address of the loopback has one */
static void
test_source_without_gid(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	struct sockaddr_in from = address_of_host(3);
	s.active = new_ud_id(s.client);
	assert_int_equal(softrdma_rdma_bind_addr(s.active, (struct sockaddr *)&from), 0);
	resolve(s.active, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_request(&s);
	assert_ptr_equal(expect_event(s.client, RDMA_CM_EVENT_ADDR_ERROR, -EADDRNOTAVAIL), s.active);
	sides_fini(&s);
}

static void
test_no_destination(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_ud_id(channel);
	expect_refused(softrdma_rdma_connect(id, NULL), EINVAL);
	expect_refused(softrdma_rdma_accept(id, NULL), EINVAL);
	expect_refused(softrdma_rdma_reject(id, NULL, 0), EINVAL);
	expect_refused(softrdma_rdma_disconnect(id), EINVAL);
	expect_refused(softrdma_rdma_establish(id), EINVAL);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* --- one side ends --- */

static void
test_listener_goes_first(void **state)
{
	(void)state;
	struct sides s;
	ask(&s, AF_INET); /* the program has the request */
	destroy(s.listener);
	s.listener = NULL;
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	sides_fini(&s);

	listen_at(&s, AF_INET); /* the request's event waits */
	s.active = new_client(s.client, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	assert_true(readable(s.server->fd, PATIENCE_MS));
	destroy(s.listener);
	s.listener = NULL;
	expect_unreachable(&s, REJECTED);
	sides_fini(&s);
}

static void
test_client_goes_first(void **state)
{
	(void)state;
	for (int accepts = 0; accepts < 2; accepts++) {
		struct sides s, other;
		ask(&s, AF_INET);
		destroy(s.active);
		s.active = NULL;
		ask(&other,
			AF_INET); /* the progress thread has seen the end by now, or will later: the same */
		give_ud_qp(s.passive);
		assert_int_equal(accepts ? softrdma_rdma_accept(s.passive, NULL)
					 : softrdma_rdma_reject(s.passive, "no", 2),
			0);
		sides_fini(&s);
		accept_request(&other);
		expect_answer(&other, other.passive->qp->qp_num);
		sides_fini(&other);
	}
}

static void
test_request_without_answer(void **state)
{
	(void)state;
	struct sides s;
	ask(&s, AF_INET);
	destroy(s.passive);
	s.passive = NULL;
	expect_unreachable(&s, REJECTED);
	sides_fini(&s);
}

/* the server's program takes its time, and more */
static void
test_no_answer(void **state)
{
	(void)state;
	struct sides s;
	ask(&s, AF_INET);
	clock_forward_ms(SOFTRDMA_CONNECT_TIMEOUT_MS + 1);
	expect_unreachable(&s, -ETIMEDOUT);
	assert_true(log_has("has neither accepted nor rejected the connection within 60 s"));
	accept_request(&s); /* too late, and no error */
	sides_fini(&s);
}

static void
test_unheard_answer(void **state)
{
	(void)state;
	struct sides s;
	ask(&s, AF_INET);
	softrdma_rdma_destroy_event_channel(s.client);
	accept_request(&s);
	wait_for_log("no memory for an event: the answer of a server is not reported");
	destroy(s.active);
	s.active = NULL;
	s.client = new_channel();
	sides_fini(&s);
}

/* --- the order of calls --- */

static void
test_second_question(void **state)
{
	(void)state;
	struct sides s;
	ask(&s, AF_INET);
	for (int answered = 0; answered < 2; answered++) {
		expect_refused(softrdma_rdma_connect(s.active, NULL), EINVAL);
		expect_refused(softrdma_rdma_listen(s.active, 0), EINVAL);
		expect_refused(softrdma_rdma_accept(s.active, NULL), EINVAL);
		expect_refused(softrdma_rdma_reject(s.active, NULL, 0), EINVAL);
		if (!answered) {
			expect_refused(softrdma_rdma_disconnect(s.active), EINVAL);
			expect_refused(softrdma_rdma_disconnect(s.passive), EINVAL);
			expect_refused(softrdma_rdma_connect(s.passive, NULL), EINVAL);
			accept_request(&s);
			expect_answer(&s, s.passive->qp->qp_num);
		}
	}
	expect_refused(softrdma_rdma_accept(s.passive, NULL), EINVAL);
	expect_refused(softrdma_rdma_reject(s.passive, NULL, 0), EINVAL);
	expect_refused(softrdma_rdma_connect(s.listener, NULL), EINVAL);
	sides_fini(&s);
}

static void
expect_flushed(struct rdma_cm_id *id)
{
	expect_state(id->qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 2; i++) {
		const struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.qp_num, id->qp->qp_num);
		assert_int_equal(wc.wr_id, 40 + i);
	}
	expect_no_completion();
}

/* each side ends its own queue pair, and the other side does not hear of it */
static void
test_disconnect(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	give_ud_qp(s.active);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	struct rdma_cm_id *const ids[] = { s.active, s.passive };
	for (int i = 0; i < 2; i++) {
		for (unsigned k = 0; k < 2; k++)
			ud_post_recv(ids[i]->qp, 40 + k, IN, GRH + 64);
	}
	expect_no_completion();
	assert_int_equal(softrdma_rdma_disconnect(s.active), 0);
	expect_flushed(s.active);
	expect_state(s.passive->qp, IBV_QPS_RTS);
	assert_int_equal(softrdma_rdma_disconnect(s.passive), 0);
	expect_flushed(s.passive);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(softrdma_rdma_disconnect(ids[i]), 0); /* harmless */
		softrdma_rdma_destroy_qp(ids[i]);
		assert_int_equal(softrdma_rdma_disconnect(ids[i]), 0);
	}
	sides_fini(&s);
}

/* a queue pair of datagrams outlives its id, and an id its queue pair */
static void
test_order_of_destruction(void **state)
{
	(void)state;
	const union ibv_gid gid = the_gid(MAPPED);
	struct sides s;
	listen_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	give_ud_qp(s.active);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	struct ibv_qp *const client = s.active->qp, *const server = s.passive->qp;
	assert_int_equal(softrdma_rdma_destroy_id(s.active), 0);
	assert_int_equal(softrdma_rdma_destroy_id(s.passive), 0);
	s.active = s.passive = NULL;
	struct ibv_ah *ah = new_ah(&gid);
	expect_datagram(client, ah, server, 300);
	destroy_ah(ah);
	destroy_qp(client);
	destroy_qp(server);

	/* the queue pair of a client goes while the server decides: another one takes the datagrams */
	ask_with(&s, NULL);
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	softrdma_rdma_destroy_qp(s.passive);
	assert_null(s.passive->qp);
	softrdma_rdma_destroy_qp(s.passive); /* it has none */
	sides_fini(&s);
}

/* --- queue pairs of ids --- */

static void
test_types(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	s.active = new_ud_id(s.client);
	struct ibv_qp_init_attr_ex attr = ud_attr();
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EINVAL); /* no device yet */
	resolve(s.active, &s.addr);
	attr = qp_attr();
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EINVAL);
	assert_null(s.active->qp);
	attr = ud_attr();
	attr.comp_mask = 0; /* no protection domain */
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EINVAL);
	attr.cap.max_send_wr = SOFTRDMA_WR_MAX + 1;
	s.active->pd = the_pd; /* the default of rdma_create_qp() */
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EINVAL);
	attr.cap.max_send_wr = 3;
	assert_int_equal(softrdma_rdma_create_qp_ex(s.active, &attr), 0);
	assert_int_equal(attr.cap.max_send_wr, 4);
	struct ibv_qp_attr got;
	struct ibv_qp_init_attr init;
	assert_int_equal(softrdma_ibv_query_qp(s.active->qp, &got, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
	assert_int_equal(got.qp_state, IBV_QPS_RTS);
	assert_int_equal(got.qkey, RDMA_UDP_QKEY);
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EINVAL); /* it has one */
	sides_fini(&s);

	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_in addr = loopback(htons(1));
	struct rdma_cm_id *id = new_resolved(channel, &addr);
	attr = ud_attr();
	expect_refused(softrdma_rdma_create_qp_ex(id, &attr), EOPNOTSUPP);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* fails each call of this name in turn, until there is a queue pair; returns how many calls there are */
static unsigned
create_qp_without(struct rdma_cm_id *id, const char *call, int error)
{
	const int fds = count_fds();
	for (unsigned skip = 0;; skip++) {
		struct ibv_qp_init_attr_ex attr = ud_attr();
		fail_call(FAIL_MINE, call, skip, 1, error);
		const int ret = softrdma_rdma_create_qp_ex(id, &attr);
		const int errnum = errno;
		if (fail_nothing() == 0) {
			assert_int_equal(ret, 0);
			softrdma_rdma_destroy_qp(id);
			assert_int_equal(count_settle(count_fds, fds, PATIENCE_MS), fds);
			return skip;
		}
		assert_int_equal(ret, -1);
		assert_int_equal(errnum, error);
		assert_null(id->qp);
		assert_int_equal(count_settle(count_fds, fds, PATIENCE_MS), fds);
	}
}

static void
test_queue_pair_fails(void **state)
{
	(void)state;
	struct rdma_event_channel *channel = new_channel();
	struct sockaddr_storage addr = loopback_of(AF_INET);
	((struct sockaddr_in *)&addr)->sin_port = htons(1);
	struct rdma_cm_id *id = new_client(channel, &addr);
	assert_true(create_qp_without(id, "calloc", ENOMEM) >= 6);
	assert_true(create_qp_without(id, "pthread_create", EAGAIN) >= 1);
	assert_true(create_qp_without(id, "fcntl", EMFILE) >= 1);
	give_ud_qp(id);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
test_attributes(void **state)
{
	(void)state;
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	static const int masks[] = { UD_INIT_MASK, IBV_QP_STATE, UD_RTS_MASK };
	struct sides s;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask = 0;
	listen_at(&s, AF_INET);
	s.active = new_ud_id(s.client);
	expect_refused(softrdma_rdma_init_qp_attr(s.active, &attr, &mask), EINVAL); /* no device yet */
	resolve(s.active, &s.addr);
	struct ibv_qp *qp = ud_new();
	for (int i = 0; i < 3; i++) {
		memset(&attr, 0xee, sizeof(attr));
		attr.qp_state = states[i];
		attr.sq_psn = 5;
		assert_int_equal(softrdma_rdma_init_qp_attr(s.active, &attr, &mask), 0);
		assert_int_equal(mask, UD_INIT_MASK);
		assert_int_equal(attr.qp_state, states[i]);
		assert_int_equal(attr.pkey_index, 0);
		assert_int_equal(attr.port_num, 1);
		assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
		assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, masks[i]), 0);
		expect_state(qp, states[i]);
	}
	destroy_qp(qp);
	sides_fini(&s);
}

/* --- ids without a channel --- */

struct question {
	pthread_t thread;
	struct rdma_cm_id *id;
	int result, error;
};

static void *
connect_and_wait(void *arg)
{
	struct question *q = arg;
	q->result = softrdma_rdma_connect(q->id, NULL);
	q->error = errno;
	return NULL;
}

static void
question_begin(struct question *q, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage dst = *addr;
	q->id = new_ud_id(NULL);
	assert_int_equal(softrdma_rdma_resolve_addr(q->id, NULL, (struct sockaddr *)&dst, 1000), 0);
	assert_int_equal(softrdma_rdma_resolve_route(q->id, 1000), 0);
	assert_int_equal(pthread_create(&q->thread, NULL, connect_and_wait, q), 0);
}

/* waits for the outcome, which the id keeps as its event */
static const struct rdma_cm_event *
question_end(struct question *q, int result, enum rdma_cm_event_type type, int status)
{
	assert_int_equal(pthread_join(q->thread, NULL), 0);
	assert_int_equal(q->result, result);
	assert_non_null(q->id->event);
	assert_int_equal(q->id->event->event, type);
	assert_int_equal(q->id->event->status, status);
	return q->id->event;
}

static void
test_synchronous_ids(void **state)
{
	(void)state;
	struct sides s;
	struct question q;
	const union ibv_gid gid = the_gid(MAPPED);
	listen_at(&s, AF_INET);
	question_begin(&q, &s.addr);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_ud_qp(s.passive);
	assert_int_equal(softrdma_rdma_migrate_id(s.passive, NULL), 0);
	assert_int_equal(softrdma_rdma_accept(s.passive, NULL), 0); /* does not wait: nothing follows */
	assert_null(s.passive->event);
	const struct rdma_cm_event *event = question_end(&q, 0, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(event->param.ud.qp_num, s.passive->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(&event->param.ud.ah_attr.grh.dgid, &gid, sizeof(gid));
	assert_int_equal(softrdma_rdma_disconnect(q.id), 0);
	assert_int_equal(softrdma_rdma_disconnect(s.passive), 0);
	destroy(q.id);
	destroy(s.passive);

	question_begin(&q, &s.addr);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(softrdma_rdma_reject(s.passive, NULL, 0), 0);
	question_end(&q, -1, RDMA_CM_EVENT_UNREACHABLE, REJECTED);
	assert_int_equal(q.error, ECONNREFUSED);
	destroy(q.id);
	destroy(s.passive);
	s.passive = NULL;

	struct sides nobody;
	bind_at(&nobody, AF_INET);
	question_begin(&q, &nobody.addr);
	question_end(&q, -1, RDMA_CM_EVENT_UNREACHABLE, NOBODY);
	assert_int_equal(q.error, ECONNREFUSED);
	destroy(q.id);
	sides_fini(&nobody);

	question_begin(&q, &s.addr);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	clock_forward_ms(SOFTRDMA_CONNECT_TIMEOUT_MS + 1);
	question_end(&q, -1, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	assert_int_equal(q.error, ETIMEDOUT); /* an errno value is what it says */
	destroy(q.id);
	sides_fini(&s);
}

/* --- what forbids them, and what is missing --- */

static void
test_forbidden(void **state)
{
	(void)state;
	static const struct {
		const char *name, *value, *line;
	} settings[] = {
		{ "SOFTRDMA_UD", "0",
			"rdma_create_id() of unreliable datagrams (UD) is not supported by the software device: "
			"SOFTRDMA_UD is 0\n" },
		{ "SOFTRDMA_TLS_PSK", "psk",
			"rdma_create_id() of unreliable datagrams (UD) with TLS is not supported by the software "
			"device: datagrams cannot be encrypted: use a reliable connection (IBV_QPT_RC)\n" },
		{ "SOFTRDMA_TLS_CERT", "cert.pem", "" }, /* the same line, which comes once */
	};
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *const untouched = (void *)the_mem;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct rdma_cm_id *id = untouched;
		log_clear();
		setenv(settings[i].name, settings[i].value, 1);
		expect_refused(softrdma_rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), EOPNOTSUPP);
		assert_ptr_equal(id, untouched);
		assert_string_equal(log_text, settings[i].line);
		id = new_id(channel); /* connections are not concerned */
		destroy(id);
		unsetenv(settings[i].name);
		id = new_ud_id(channel);
		destroy(id);
	}
	softrdma_rdma_destroy_event_channel(channel);
}

/* the variable changes while there are ids */
static void
test_forbidden_later(void **state)
{
	(void)state;
	struct sides s;
	struct ibv_qp_init_attr_ex attr = ud_attr();
	listen_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	setenv("SOFTRDMA_UD", "0", 1);
	expect_refused(softrdma_rdma_create_qp_ex(s.active, &attr), EOPNOTSUPP);
	assert_null(s.active->qp);
	sides_fini(&s);
}

static void
test_injected_rejection(void **state)
{
	(void)state;
	struct sides s;
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5 };
	setenv("SOFTRDMA_FAULTS", "reject@2", 1);
	listen_at(&s, AF_INET);
	for (int n = 1; n <= 3; n++) {
		if (n == 2) {
			s.active = new_client(s.client, &s.addr);
			assert_int_equal(softrdma_rdma_connect(s.active, &param), 0);
			expect_unreachable(&s, REJECTED);
			assert_true(log_has("injected fault: the request of 127.0.0.1:"));
			s.passive = NULL;
		} else {
			ask_with(&s, &param);
			accept_request(&s);
			expect_answer(&s, s.passive->qp->qp_num);
			destroy(s.passive);
			s.passive = NULL;
		}
		expect_quiet(&s);
		destroy(s.active);
		s.active = NULL;
	}
	sides_fini(&s);
}

static bool
refused_in_child(int result)
{
	const bool refused = result == -1 && errno == ESTALE;
	errno = 0;
	return refused;
}

/* a child has its parent's ids and cannot use them; the parent goes on */
static void
test_fork(void **state)
{
	(void)state;
	if (softrdma_under_valgrind()) {
		print_message(
			"skipped: valgrind reports what the child inherits as lost, and changes its status\n");
		skip();
	}
	struct sides s;
	ask(&s, AF_INET);
	struct rdma_cm_id *idle = new_client(s.client, &s.addr);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct ibv_qp_init_attr_ex init = ud_attr();
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
		struct rdma_cm_id *id;
		int mask;
		bool good = refused_in_child(softrdma_rdma_connect(idle, NULL));
		good = refused_in_child(softrdma_rdma_listen(idle, 0)) && good;
		good = refused_in_child(softrdma_rdma_create_qp_ex(idle, &init)) && good;
		good = refused_in_child(softrdma_rdma_init_qp_attr(idle, &attr, &mask)) && good;
		good = refused_in_child(softrdma_rdma_accept(s.passive, NULL)) && good;
		good = refused_in_child(softrdma_rdma_reject(s.passive, NULL, 0)) && good;
		good = refused_in_child(softrdma_rdma_disconnect(s.active)) && good;
		good = refused_in_child(softrdma_rdma_destroy_id(s.listener)) && good;
		good = refused_in_child(softrdma_rdma_create_id(s.client, &id, NULL, RDMA_PS_UDP)) && good;
		end_child(good ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect_quiet(&s);
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	destroy(idle);
	sides_fini(&s);
}

static void
test_no_memory(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	struct rdma_cm_id *const untouched = (void *)the_mem;
	struct rdma_cm_id *id = untouched;
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	expect_refused(softrdma_rdma_create_id(s.client, &id, NULL, RDMA_PS_UDP), ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	assert_ptr_equal(id, untouched);

	/* the events are allocated first, and stay with the id: so each attempt has an id of its own */
	unsigned failures = 0;
	for (bool failed = true; failed;) {
		s.active = new_client(s.client, &s.addr);
		fail_call(FAIL_MINE, "calloc", failures, 1, ENOMEM);
		const int ret = softrdma_rdma_connect(s.active, NULL);
		const int error = errno;
		failed = fail_nothing() > 0;
		assert_int_equal(ret, failed ? -1 : 0);
		if (failed) {
			assert_int_equal(error, ENOMEM);
			failures++;
			expect_quiet(&s);
			destroy(s.active);
		}
	}
	assert_true(failures >= 3);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_ud_qp(s.passive);
	fail_call(FAIL_ANY, "calloc", 0, FAIL_FOR_EVER, ENOMEM);
	assert_int_equal(softrdma_rdma_accept(s.passive, NULL), 0);
	expect_answer(&s, s.passive->qp->qp_num);
	assert_int_equal(fail_nothing(), 0);
	sides_fini(&s);
}

/* --- a plain socket asks --- */

static int
raw_ask(const struct sides *s, uint8_t type, const char *text)
{
	uint8_t buf[BUF_MAX];
	struct sockaddr_in addr;
	memcpy(&addr, &s->addr, sizeof(addr));
	const int fd = raw_connect(&addr);
	raw_send(fd, buf, raw_message(buf, type, text));
	return fd;
}

/* the server lacks memory for the id of the request, or for the event */
static void
test_no_memory_for_request(void **state)
{
	(void)state;
	struct sides s;
	listen_at(&s, AF_INET);
	for (unsigned skip = 2; skip < 4;
		skip++) { /* the first two are for the stream: test_pending has these */
		fail_call(FAIL_THEIRS, "calloc", skip, 1, ENOMEM);
		const int fd = raw_ask(&s, SOFTRDMA_HANDSHAKE_RESOLVE, "");
		raw_expect_reject(fd, SOFTRDMA_REJECT_BUSY);
		assert_int_equal(fail_nothing(), 1);
		close(fd);
		expect_quiet(&s);
	}
	sides_fini(&s);
}

static void
test_request_in_pieces(void **state)
{
	(void)state;
	struct sides s;
	uint8_t buf[BUF_MAX];
	struct sockaddr_in addr;
	listen_at(&s, AF_INET);
	memcpy(&addr, &s.addr, sizeof(addr));
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_RESOLVE, "private");
	const int fd = raw_connect(&addr);
	const int one = 1;
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	for (size_t i = 0; i < len; i++) {
		expect_no_event(s.server);
		raw_send(fd, buf + i, 1);
	}
	struct rdma_cm_event *event = take_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	s.passive = event->id;
	assert_int_equal(event->param.ud.private_data_len, 7);
	assert_memory_equal(event->param.ud.private_data, "private", 7);
	assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);

	give_ud_qp(s.passive);
	struct rdma_conn_param param = { .private_data = "yes",
		.private_data_len = 3,
		.responder_resources = 9, /* these are of connections */
		.initiator_depth = 9,
		.rnr_retry_count = 7 };
	assert_int_equal(softrdma_rdma_accept(s.passive, &param), 0);
	struct softrdma_handshake hs;
	raw_recv(fd, buf, SOFTRDMA_HANDSHAKE_SIZE + 3);
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(hs.type, SOFTRDMA_HANDSHAKE_ACCEPT);
	assert_int_equal(hs.qp_num, s.passive->qp->qp_num);
	assert_int_equal(hs.seq, RDMA_UDP_QKEY);
	assert_int_equal(hs.private_len, 3);
	assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, "yes", 3);
	assert_int_equal(hs.records, 0);
	assert_int_equal(hs.responder_resources, 0);
	assert_int_equal(hs.initiator_depth, 0);
	raw_expect_end(fd);
	close(fd);
	sides_fini(&s);
}

/* what may come instead of a question: the program does not hear of it */
static void
test_other_requests(void **state)
{
	(void)state;
	struct sides s;
	struct listener l;
	listen_at(&s, AF_INET);
	int fd = raw_ask(&s, SOFTRDMA_HANDSHAKE_CONNECT, "private");
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	static const uint8_t types[] = { SOFTRDMA_HANDSHAKE_ACCEPT, SOFTRDMA_HANDSHAKE_REJECT,
		SOFTRDMA_HANDSHAKE_JOIN };
	for (size_t i = 0; i < sizeof(types); i++) {
		fd = raw_ask(&s, types[i], "");
		raw_expect_end(fd);
		close(fd);
	}
	expect_quiet(&s);
	sides_fini(&s);

	listener_init(&l);
	memset(&s, 0, sizeof(s));
	memcpy(&s.addr, &l.addr, sizeof(l.addr));
	fd = raw_ask(&s, SOFTRDMA_HANDSHAKE_RESOLVE, "private");
	raw_expect_reject(fd, SOFTRDMA_REJECT_NO_LISTENER);
	close(fd);
	expect_no_event(l.channel);
	listener_fini(&l);
}

/* --- a plain socket answers --- */

/* the device's id asks a plain socket */
static void
raw_asked(struct server *s, struct rdma_conn_param *param)
{
	uint8_t buf[BUF_MAX];
	struct sockaddr_storage addr = { 0 };
	const size_t len = param ? param->private_data_len : 0;
	s->listening = raw_listen(&s->addr);
	memcpy(&addr, &s->addr, sizeof(s->addr));
	s->channel = new_channel();
	s->id = new_client(s->channel, &addr);
	assert_int_equal(softrdma_rdma_connect(s->id, param), 0);
	s->fd = raw_accept(s->listening);
	raw_recv(s->fd, buf, SOFTRDMA_HANDSHAKE_SIZE + len);
	assert_int_equal(softrdma_handshake_decode(buf, &s->asked), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(s->asked.type, SOFTRDMA_HANDSHAKE_RESOLVE);
	assert_int_equal(s->asked.private_len, len);
	if (len)
		assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, param->private_data, len);
	assert_int_equal(s->asked.qp_num, 0);
	assert_int_equal(s->asked.seq, 0);
	expect_no_event(s->channel);
}

/* an ACCEPT with these values; returns its length */
static size_t
raw_answer(uint8_t buf[static BUF_MAX], uint32_t qp_num, uint32_t qkey)
{
	struct softrdma_handshake hs;
	const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, "welcome");
	assert_int_equal(softrdma_handshake_decode(buf, &hs), SOFTRDMA_HANDSHAKE_OK);
	hs.qp_num = qp_num;
	hs.seq = qkey;
	softrdma_handshake_encode(&hs, buf);
	return len;
}

/* the event has what the server says */
static void
test_answers(void **state)
{
	(void)state;
	static const struct {
		uint32_t qp_num, qkey;
	} answers[] = { { 0x123456, 0x89abcdef }, { 0x100, 1 }, { 0xffffff, 0 } };
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5 };
	struct ibv_qp *qp = ud_ready();
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct server s;
		uint8_t buf[BUF_MAX];
		raw_asked(&s, &param);
		const size_t len = raw_answer(buf, answers[i].qp_num, answers[i].qkey);
		const int one = 1;
		setsockopt(s.fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
		for (size_t k = 0; k < len; k++) {
			expect_no_event(s.channel);
			raw_send(s.fd, buf + k, 1);
		}
		struct rdma_cm_event *event = take_event(s.channel, RDMA_CM_EVENT_ESTABLISHED);
		struct rdma_ud_param *ud = &event->param.ud;
		assert_int_equal(ud->qp_num, answers[i].qp_num);
		assert_int_equal(ud->qkey, answers[i].qkey);
		assert_int_equal(ud->private_data_len, 7);
		assert_memory_equal(ud->private_data, "welcome", 7);
		raw_expect_end(s.fd);

		struct ibv_ah *ah = softrdma_ibv_create_ah(the_pd, &ud->ah_attr);
		assert_non_null(ah);
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = ud_wr(i, ah, ud->qp_num, &sge), *bad = NULL;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		assert_int_equal(next_wc().wr_id, i);
		destroy_ah(ah);
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		expect_no_event(s.channel);
		server_fini(&s);
	}
	expect_no_completion();
	destroy_qp(qp);
}

static void
test_refusals(void **state)
{
	(void)state;
	static const struct {
		uint16_t reason;
		int status;
		const char *line;
	} reasons[] = {
		{ SOFTRDMA_REJECT_CONSUMER, REJECTED, "" },
		{ SOFTRDMA_REJECT_NO_LISTENER, NOBODY, "" },
		{ SOFTRDMA_REJECT_VERSION, OTHER_VERSION, "speaks another version of the protocol than" },
		{ SOFTRDMA_REJECT_BUSY, NO_QP, "has too many requests pending" },
		{ SOFTRDMA_REJECT_DAMAGED, NO_QP, "got a request that was damaged on its way: try again" },
		{ SOFTRDMA_REJECT_PLAIN, NO_QP, "speaks TLS only, and this side has no credentials" },
		{ 999, NO_QP, "" },
	};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct server s;
		uint8_t buf[BUF_MAX];
		raw_asked(&s, NULL);
		const size_t len = raw_message(buf, SOFTRDMA_HANDSHAKE_REJECT, "because");
		buf[20] = (uint8_t)reasons[i].reason;
		buf[21] = (uint8_t)(reasons[i].reason >> 8);
		raw_sum_again(buf, 7);
		raw_send(s.fd, buf, len);
		struct rdma_cm_event *event = take_event(s.channel, RDMA_CM_EVENT_UNREACHABLE);
		assert_int_equal(event->status, reasons[i].status);
		assert_int_equal(event->param.ud.private_data_len, 7);
		assert_memory_equal(event->param.ud.private_data, "because", 7);
		assert_int_equal(event->param.ud.qp_num, 0); /* although raw_message() has filled one in */
		assert_int_equal(softrdma_rdma_ack_cm_event(event), 0);
		assert_true(log_has(reasons[i].line));
		raw_expect_end(s.fd);
		server_fini(&s);
	}
}

enum wrong_answer { DAMAGED, DAMAGED_DATA, LATER_VERSION, NOT_OURS, A_QUESTION, THE_END, WRONG_ANSWERS };

static void
test_wrong_answers(void **state)
{
	(void)state;
	static const char *const lines[] = {
		[DAMAGED] = "has sent a reply that was damaged on its way (CRC32C)",
		[DAMAGED_DATA] = "has sent a reply that was damaged on its way (CRC32C)",
		[LATER_VERSION] = "of the protocol of the software device, not",
		[NOT_OURS] = "does not speak the protocol of the software device",
		[A_QUESTION] = "has replied with a request",
		[THE_END] = "has closed the connection without a reply",
	};
	for (int way = 0; way < WRONG_ANSWERS; way++) {
		struct server s;
		uint8_t buf[BUF_MAX];
		raw_asked(&s, NULL);
		size_t len = raw_answer(buf, 0x123456, RDMA_UDP_QKEY);
		if (way == DAMAGED)
			buf[8] ^= 1;
		else if (way == DAMAGED_DATA)
			buf[len - 1] ^= 1;
		else if (way == LATER_VERSION)
			buf[4]++;
		else if (way == NOT_OURS)
			buf[0] ^= 1;
		else if (way == A_QUESTION)
			len = raw_message(buf, SOFTRDMA_HANDSHAKE_RESOLVE, "");
		if (way == THE_END)
			shutdown(s.fd, SHUT_WR);
		else
			raw_send(s.fd, buf, len);
		expect_event(s.channel, RDMA_CM_EVENT_UNREACHABLE, -EPROTO);
		assert_true(log_has(lines[way]));
		expect_no_event(s.channel);
		server_fini(&s);
		log_clear();
	}
}

/* --- a patient client --- */

/* the server may begin to listen after its client has asked */
static void
test_listening_late(void **state)
{
	(void)state;
	static const struct softrdma_env patient = { .refused_patience_ms = 60000 };
	struct sides s;
	softrdma_set_env(&patient);
	bind_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	fail_call(FAIL_THEIRS, "connect", 0, 1, ECONNREFUSED);
	wait_until(has_failed(1));
	fail_nothing();
	expect_quiet(&s);
	assert_int_equal(softrdma_rdma_listen(s.listener, 0), 0);
	s.passive = expect_event(s.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_request(&s);
	expect_answer(&s, s.passive->qp->qp_num);
	sides_fini(&s);

	/* the patience ends */
	bind_at(&s, AF_INET);
	s.active = new_client(s.client, &s.addr);
	assert_int_equal(softrdma_rdma_connect(s.active, NULL), 0);
	fail_call(FAIL_THEIRS, "connect", 0, 1, ECONNREFUSED);
	wait_until(has_failed(1));
	fail_nothing();
	clock_forward_ms(60000);
	expect_unreachable(&s, NOBODY);
	sides_fini(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_ask_v4), device_test(test_ask_v6),
		device_test(test_accept_with_another_queue_pair), device_test(test_accept_without_queue_pair),
		device_test(test_rejected_by_program), device_test(test_nobody_listens),
		device_test(test_listener_for_connections),
		device_test(test_connection_to_listener_for_datagrams), device_test(test_source_without_gid),
		device_test(test_no_destination), device_test(test_listener_goes_first),
		device_test(test_client_goes_first), device_test(test_request_without_answer),
		device_test(test_no_answer), device_test(test_unheard_answer),
		device_test(test_second_question), device_test(test_disconnect),
		device_test(test_order_of_destruction), device_test(test_types),
		one_thread_test(test_queue_pair_fails), device_test(test_attributes),
		device_test(test_synchronous_ids), setting_test(test_forbidden),
		setting_test(test_forbidden_later), setting_test(test_injected_rejection),
		device_test(test_fork), device_test(test_no_memory),
		one_thread_test(test_no_memory_for_request), device_test(test_request_in_pieces),
		device_test(test_other_requests), device_test(test_answers), device_test(test_refusals),
		device_test(test_wrong_answers),
		device_test(test_listening_late), /* last, because the patience cannot be reset */
	};
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
