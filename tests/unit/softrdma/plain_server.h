/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * plain_server.h -- shared by the tests of outgoing connections: a plain socket as the server
 *
 * Each test includes it once.
 */

#ifndef TEST_SOFTRDMA_PLAIN_SERVER_H
#define TEST_SOFTRDMA_PLAIN_SERVER_H

#include "connected.h"

struct server {
	int listening, fd;
	struct sockaddr_in addr;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct softrdma_handshake asked;
};

/* the device's id requests a connection from a plain socket */
static inline void
server_asked(struct server *s, struct rdma_conn_param *param)
{
	s->listening = raw_listen(&s->addr);
	s->channel = new_channel();
	s->id = new_active(s->channel, &s->addr);
	assert_int_equal(softrdma_rdma_connect(s->id, param), 0);
	s->fd = raw_accept(s->listening);
	uint8_t buf[BUF_MAX];
	raw_recv(s->fd, buf, SOFTRDMA_HANDSHAKE_SIZE + (param ? param->private_data_len : 0u));
	assert_int_equal(softrdma_handshake_decode(buf, &s->asked), SOFTRDMA_HANDSHAKE_OK);
	assert_int_equal(s->asked.type, SOFTRDMA_HANDSHAKE_CONNECT);
	assert_int_equal(s->asked.private_len, param ? param->private_data_len : 0);
	if (s->asked.private_len)
		assert_memory_equal(buf + SOFTRDMA_HANDSHAKE_SIZE, param->private_data, s->asked.private_len);
}

static inline void
server_fini(struct server *s)
{
	destroy(s->id);
	softrdma_rdma_destroy_event_channel(s->channel);
	close(s->fd);
	close(s->listening);
}

static inline struct sockaddr_in
closed_port(void)
{
	struct sockaddr_in addr;
	close(raw_listen(&addr));
	return addr;
}

#endif /* TEST_SOFTRDMA_PLAIN_SERVER_H */
