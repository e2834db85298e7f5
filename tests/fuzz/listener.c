/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * listener.c -- what a listening program sees of a client that sends any bytes
 *
 * This covers the whole way in: a socket, the handshake, a request, its private data, and the stream after
 * the request has been accepted. An input is a byte that says what the program does with a request, a byte
 * that says where the client's bytes are cut in two, and the client's bytes. If these are no complete
 * request, the client ends its stream, so the listener never has to wait for a deadline.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <librpma.h>

#include "fuzz.h"
#include "pair.h"
#include "softrdma/wire/crc.h"
#include "softrdma/wire/wire.h"
#include "wait.h"

enum answer {
	ANSWER_REJECT = 1 << 0,
	ANSWER_DROP = 1 << 1, /* the request is deleted */
	SUMS_AS_THEY_ARE = 1 << 7,
};

static const char addr[] = "127.0.0.1";
static char port[NET_PORT_LEN];
static struct rpma_peer *peer;
static struct rpma_ep *ep;

static void
set_up(void)
{
	struct ibv_context *ctx = NULL;
	int fd = -1;

	fuzz_quieten();
	setenv("RPMA_DEVICE", "soft", 1);
	FUZZ_CHECK(rpma_utils_get_ibv_context(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx) == 0);
	FUZZ_CHECK(rpma_peer_new(ctx, &peer) == 0);
	FUZZ_CHECK(pair_listen(peer, addr, port, &ep) == 0);
	FUZZ_CHECK(rpma_ep_get_fd(ep, &fd) == 0);
}

/* connect() to the end: libFuzzer's timer signal interrupts the call, and the kernel goes on connecting */
static bool
is_connected(int fd, const struct sockaddr_in *to)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int error = 0;
	socklen_t len = sizeof(error);

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		return true;
	if (errno != EINTR)
		return false;
	while (poll(&pfd, 1, WAIT_MS) < 0)
		FUZZ_CHECK(errno == EINTR);
	return pfd.revents && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

static ssize_t
receive_some(int fd)
{
	uint8_t bytes[512];
	ssize_t n;

	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n < 0 && errno == EINTR);
	return n;
}

static int
connect_client(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	/* closing resets the connection, so its port is free again at once */
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &to.sin_addr);
	FUZZ_CHECK(fd >= 0 && is_connected(fd, &to));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return fd;
}

/* stops without an error if the listener has already closed the connection */
static void
send_bytes(int fd, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		bytes += n;
		len -= (size_t)n;
	}
}

/* true if the listener sends nothing further, false if a request has arrived */
static bool
await_end_or_request(int fd)
{
	struct pollfd pfd[2] = { { .fd = fd, .events = POLLIN }, { .events = POLLIN } };

	FUZZ_CHECK(rpma_ep_get_fd(ep, &pfd[1].fd) == 0);
	for (;;) {
		int n = poll(pfd, 2, WAIT_MS);

		FUZZ_CHECK(n > 0 || (n < 0 && errno == EINTR));
		if (n < 0)
			continue;
		if (pfd[1].revents)
			return false;
		if (pfd[0].revents && receive_some(fd) <= 0)
			return true;
	}
}

/* the request holds what the client has sent */
static void
check_request(struct rpma_conn_req *req, const uint8_t *bytes, size_t len)
{
	struct rpma_conn_private_data pdata = { NULL, 0 };

	FUZZ_CHECK(rpma_conn_req_get_private_data(req, &pdata) == 0);
	FUZZ_CHECK(len >= SOFTRDMA_HANDSHAKE_SIZE && pdata.len <= bytes[7]);
	FUZZ_CHECK(pdata.len == 0 || memcmp(pdata.ptr, bytes + SOFTRDMA_HANDSHAKE_SIZE, pdata.len) == 0);
}

/* accepts the request; whatever the client's stream holds, the connection must end when the stream does */
static void
accept_request(struct rpma_conn_req *req, int fd)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn *conn = NULL;
	int ret = rpma_conn_req_connect(&req, NULL, &conn);

	FUZZ_CHECK(req == NULL && (ret == 0) == (conn != NULL));
	if (ret)
		return;
	shutdown(fd, SHUT_WR);
	ret = wait_event(conn, &event, WAIT_MS);
	if (ret == 0 && event == RPMA_CONN_ESTABLISHED)
		ret = wait_event(conn, &event, WAIT_MS);
	FUZZ_CHECK(ret == 0 && event != RPMA_CONN_ESTABLISHED);
	rpma_conn_disconnect(conn);
	FUZZ_CHECK(rpma_conn_delete(&conn) == 0);
	while (receive_some(fd) > 0)
		;
}

static void
answer(int fd, unsigned how, const uint8_t *bytes, size_t len)
{
	struct rpma_conn_req *req = NULL;
	int ret = rpma_ep_next_conn_req(ep, NULL, &req);

	/* the client may have closed its end earlier, so the call may fail */
	FUZZ_CHECK((ret == 0) == (req != NULL));
	if (ret)
		return;
	check_request(req, bytes, len);
	if (how & ANSWER_REJECT) {
		ret = rpma_conn_req_reject(&req, NULL);
		FUZZ_CHECK(req == NULL && (ret == 0 || ret == RPMA_E_PROVIDER));
	} else if (how & ANSWER_DROP) {
		rpma_conn_req_delete(&req);
		FUZZ_CHECK(req == NULL);
	} else {
		accept_request(req, fd);
	}
}

/* a complete message is a request, whatever follows it */
static bool
is_request(const uint8_t *bytes, size_t len)
{
	struct softrdma_handshake hs;

	return len >= SOFTRDMA_HANDSHAKE_SIZE &&
		softrdma_handshake_decode(bytes, &hs) == SOFTRDMA_HANDSHAKE_OK &&
		hs.type == SOFTRDMA_HANDSHAKE_CONNECT && len - SOFTRDMA_HANDSHAKE_SIZE >= hs.private_len &&
		softrdma_crc32c(0, bytes + SOFTRDMA_HANDSHAKE_SIZE, hs.private_len) == hs.private_crc;
}

static void
be_client(unsigned how, size_t cut, const uint8_t *bytes, size_t len)
{
	int fd = connect_client();

	send_bytes(fd, bytes, len < cut ? len : cut);
	if (len > cut)
		send_bytes(fd, bytes + cut, len - cut);
	if (!is_request(bytes, len)) /* the end of the stream ends the wait */
		shutdown(fd, SHUT_WR);
	if (!await_end_or_request(fd))
		answer(fd, how, bytes, len);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	if (peer == NULL)
		set_up();
	unsigned how = fuzz_u8(&in);
	size_t cut = fuzz_u8(&in);
	uint8_t *bytes = malloc(in.left + 1);
	FUZZ_CHECK(bytes);
	if (in.left)
		memcpy(bytes, in.at, in.left);
	if (!(how & SUMS_AS_THEY_ARE))
		fuzz_put_sums(bytes, in.left);
	be_client(how, cut, bytes, in.left);
	free(bytes);
	return 0;
}
