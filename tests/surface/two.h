/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * two.h -- a target and an initiator in two processes, which use only functions of the original library's
 * header
 *
 * The programs of this folder are compiled against that header or against ours, so this file includes
 * neither.
 */

#ifndef SURFACE_TWO_H
#define SURFACE_TWO_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TWO_SIZE 65536
#define TWO_DEADLINE_S 60

/* ends the program with the error message unless the call returns 0 */
#define ZERO(call) \
	do { \
		int zero_ret = (call); \
		if (zero_ret) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				rpma_err_2str(zero_ret)); \
			exit(1); \
		} \
	} while (0)

#define TRUE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

/* the target's address; TWO_ADDR in the environment names the address of another device */
static inline const char *
two_addr(void)
{
	const char *addr = getenv("TWO_ADDR");
	return addr ? addr : "127.0.0.1";
}

/* fills the memory with bytes that show where they belong */
static inline void
two_fill(unsigned char *mem, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		mem[i] = (unsigned char)((i * 2654435761u + seed) >> 11);
}

static inline int
two_check(const unsigned char *mem, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != (unsigned char)((i * 2654435761u + seed) >> 11))
			return 0;
	return 1;
}

static inline struct rpma_peer *
two_peer(enum rpma_util_ibv_context_type type)
{
	struct ibv_context *dev;
	struct rpma_peer *peer;
	ZERO(rpma_utils_get_ibv_context(two_addr(), type, &dev));
	ZERO(rpma_peer_new(dev, &peer));
	return peer;
}

/*
 * Finds a free port. Another process may take it before the caller listens on it, so the caller tries again.
 */
static inline void
two_free_port(char port[8])
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	TRUE(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	TRUE(getsockname(fd, (struct sockaddr *)&addr, &len) == 0);
	snprintf(port, 8, "%u", (unsigned int)ntohs(addr.sin_port));
	close(fd);
}

static inline struct rpma_ep *
two_listen(struct rpma_peer *peer, char port[8])
{
	struct rpma_ep *ep = NULL;
	int ret = -1;
	for (int i = 0; ret && i < 10; i++) {
		two_free_port(port);
		ret = rpma_ep_listen(peer, two_addr(), port, &ep);
	}
	ZERO(ret);
	return ep;
}

static inline void
two_expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;
	ZERO(rpma_conn_next_event(conn, &event));
	if (event != expected) {
		fprintf(stderr, "%s instead of %s\n", rpma_utils_conn_event_2str(event),
			rpma_utils_conn_event_2str(expected));
		exit(1);
	}
}

/*
 * takes the next completion of the connection, which must be a success of this operation; returns its opcode
 */
static inline enum ibv_wc_opcode
two_expect_completion(struct rpma_conn *conn, const void *op_context, enum ibv_wc_opcode opcode)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret;
	ZERO(rpma_conn_get_cq(conn, &cq));
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
		ret = rpma_cq_wait(cq);
		TRUE(ret == 0 || ret == RPMA_E_NO_COMPLETION);
	}
	ZERO(ret);
	TRUE(wc.status == IBV_WC_SUCCESS);
	TRUE(wc.wr_id == (uint64_t)(uintptr_t)op_context);
	TRUE(opcode == (enum ibv_wc_opcode) - 1 || wc.opcode == opcode);
	return wc.opcode;
}

/*
 * The target waits for the initiator's request and accepts it with these bytes of private data. cfg may be
 * NULL.
 */
static inline struct rpma_conn *
two_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, void *pdata, size_t len,
	struct rpma_mr_local *recv_mr)
{
	struct rpma_conn_private_data data = { .ptr = pdata, .len = (uint8_t)len };
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	ZERO(rpma_ep_next_conn_req(ep, cfg, &req));
	if (recv_mr)
		ZERO(rpma_conn_req_recv(req, recv_mr, 0, 64, recv_mr));
	ZERO(rpma_conn_req_connect(&req, len ? &data : NULL, &conn));
	two_expect_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

static inline struct rpma_conn *
two_connect(struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	ZERO(rpma_conn_req_new(peer, two_addr(), port, cfg, &req));
	ZERO(rpma_conn_req_connect(&req, NULL, &conn));
	two_expect_event(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

/*
 * Runs the target in a child, and the initiator here. The target sends its port through a pipe once it
 * listens.
 */
static inline int
two_run(void (*target)(int port_fd), void (*initiator)(const char *port))
{
	int fds[2];
	char port[8] = "";
	TRUE(pipe(fds) == 0);
	alarm(TWO_DEADLINE_S);
	pid_t pid = fork();
	TRUE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(TWO_DEADLINE_S);
		close(fds[0]);
		target(fds[1]);
		exit(0);
	}
	close(fds[1]);
	TRUE(read(fds[0], port, sizeof(port)) == sizeof(port));
	close(fds[0]);
	initiator(port);

	int status;
	TRUE(waitpid(pid, &status, 0) == pid);
	TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

static inline void
two_tell_port(int fd, const char port[8])
{
	TRUE(write(fd, port, 8) == 8);
	close(fd);
}

#endif /* SURFACE_TWO_H */
