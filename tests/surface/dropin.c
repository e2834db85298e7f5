/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * dropin.c -- a program of the original library, which runs on ours
 *
 *	dropin                    both roles
 *	dropin target PIPE        writes its port to the pipe
 *	dropin initiator PIPE
 *
 * Compiled against the header and linked to the library of the distribution; LD_LIBRARY_PATH puts ours in its
 * place (original.h says what is checked). The target's memory is that of a file, or of the device DAX that
 * DROPIN_DEVICE names.
 */

#include "original.h"

#define SEED 42u
#define TAIL_OFFSET 32768

/* reads what the medium has: a file is read, a device is mapped once more */
static void
read_medium(const char *path, bool is_device, unsigned char *copy)
{
	if (is_device) {
		unsigned char *mem = original_map(path, 0);
		memcpy(copy, mem, TWO_SIZE);
		munmap(mem, ORIGINAL_MAP_UNIT);
		return;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	TRUE(fd >= 0 && read(fd, copy, TWO_SIZE) == TWO_SIZE);
	close(fd);
}

static void
target(int port_fd)
{
	const char *device = getenv("DROPIN_DEVICE");
	const char *path = device ? device : "dropin.pmem";
	printf("the library is %s\n", original_library());
	unsigned char *mem = original_map(path, device ? 0 : O_CREAT | O_TRUNC);
	memset(mem, 0, TWO_SIZE);
	char message[64];
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_mr_local *mr, *message_mr;
	ZERO(rpma_mr_reg(peer, mem, TWO_SIZE,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT |
			RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		&mr));
	/*
	 * programs of the original end if this fails; on hardware it prefetches memory that is registered on
	 * demand
	 */
	int ret = rpma_mr_advise(mr, 0, TWO_SIZE, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
		IBV_ADVISE_MR_FLAG_FLUSH);
	const char *which = getenv("RPMA_DEVICE");
	TRUE(ret == 0 || which == NULL || strcmp(which, "soft") != 0);
	ZERO(rpma_mr_reg(peer, message, sizeof(message), RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND,
		&message_mr));

	char descriptor[24];
	size_t size;
	ZERO(rpma_mr_get_descriptor_size(mr, &size));
	TRUE(size <= sizeof(descriptor)); /* the size that the original's users reserve */
	ZERO(rpma_mr_get_descriptor(mr, descriptor));

	char port[8];
	struct rpma_ep *ep = two_listen(peer, port);
	two_tell_port(port_fd, port);
	struct rpma_conn *conn = two_accept(ep, NULL, descriptor, size, message_mr);

	two_expect_completion(conn, message_mr, IBV_WC_RECV);
	TRUE(strcmp(message, "written") == 0);
	unsigned char *copy = malloc(TWO_SIZE);
	TRUE(copy);
	read_medium(path, device != NULL, copy);
	TRUE(memcmp(mem, copy, TWO_SIZE) == 0);
	TRUE(two_check(copy, 10000, SEED));
	TRUE(memcmp(copy + TAIL_OFFSET, "8 bytes!", 8) == 0);
	free(copy);

	strcpy(message, "seen");
	ZERO(rpma_send(conn, message_mr, 0, sizeof(message), RPMA_F_COMPLETION_ALWAYS, "send"));
	two_expect_completion(conn, "send", IBV_WC_SEND);
	two_expect_event(conn, RPMA_CONN_CLOSED);

	ZERO(rpma_conn_disconnect(conn));
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_ep_shutdown(&ep));
	ZERO(rpma_mr_dereg(&message_mr));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
	munmap(mem, ORIGINAL_MAP_UNIT);
	if (!device)
		unlink(path);
}

static struct rpma_mr_remote *
remote_region(struct rpma_conn *conn)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	size_t size;
	int flush_type;
	ZERO(rpma_conn_get_private_data(conn, &data));
	ZERO(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	ZERO(rpma_mr_remote_get_size(remote, &size));
	TRUE(size == TWO_SIZE);
	ZERO(rpma_mr_remote_get_flush_type(remote, &flush_type));
	TRUE(flush_type & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	return remote;
}

static void
initiator(const char *port)
{
	printf("the library is %s\n", original_library());
	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_REMOTE);
	unsigned char *mem = calloc(1, TWO_SIZE);
	struct rpma_mr_local *mr;
	TRUE(mem);
	ZERO(rpma_mr_reg(peer, mem, TWO_SIZE,
		RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
		&mr));
	struct rpma_conn *conn = two_connect(peer, port, NULL);
	original_apply_peer_cfg(conn);
	struct rpma_mr_remote *remote = remote_region(conn);

	two_fill(mem, 10000, SEED);
	ZERO(rpma_write(conn, remote, 0, mr, 0, 10000, RPMA_F_COMPLETION_ON_ERROR, NULL));
	ZERO(rpma_flush(conn, remote, 0, 10000, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS,
		"flush"));
	enum ibv_wc_opcode opcode = two_expect_completion(conn, "flush", (enum ibv_wc_opcode) - 1);
	printf("flush: %s\n", opcode == IBV_WC_RDMA_READ ? "by a read" : "native");
	ZERO(rpma_atomic_write(conn, remote, TAIL_OFFSET, "8 bytes!", RPMA_F_COMPLETION_ALWAYS, "atomic"));
	two_expect_completion(conn, "atomic", (enum ibv_wc_opcode) - 1);
	ZERO(rpma_flush(conn, remote, TAIL_OFFSET, 8, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS,
		"tail"));
	two_expect_completion(conn, "tail", (enum ibv_wc_opcode) - 1);

	memset(mem, 0, TWO_SIZE);
	ZERO(rpma_read(conn, mr, 0, remote, 0, TWO_SIZE, RPMA_F_COMPLETION_ALWAYS, "read"));
	two_expect_completion(conn, "read", IBV_WC_RDMA_READ);
	TRUE(two_check(mem, 10000, SEED));
	TRUE(memcmp(mem + TAIL_OFFSET, "8 bytes!", 8) == 0);

	ZERO(rpma_recv(conn, mr, 64, 64, "recv"));
	strcpy((char *)mem, "written");
	ZERO(rpma_send(conn, mr, 0, 64, RPMA_F_COMPLETION_ON_ERROR, NULL));
	two_expect_completion(conn, "recv", IBV_WC_RECV);
	TRUE(strcmp((char *)mem + 64, "seen") == 0);

	ZERO(rpma_conn_disconnect(conn));
	two_expect_event(conn, RPMA_CONN_CLOSED);
	ZERO(rpma_mr_remote_delete(&remote));
	ZERO(rpma_conn_delete(&conn));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
	free(mem);
}

/* each role runs in a program of its own, perhaps with another library; the pipe is a named one */
static void
target_alone(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	TRUE(fd >= 0);
	target(fd);
}

static void
initiator_alone(const char *path)
{
	char port[8] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	TRUE(fd >= 0 && read(fd, port, sizeof(port)) == sizeof(port));
	close(fd);
	initiator(port);
}

int
main(int argc, char **argv)
{
	if (argc != 3)
		return two_run(target, initiator);
	alarm(TWO_DEADLINE_S);
	if (strcmp(argv[1], "target") == 0)
		target_alone(argv[2]);
	else
		initiator_alone(argv[2]);
	return 0;
}
