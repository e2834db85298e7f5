/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * readme_target.c -- the other side of the README's program
 *
 * Serves a file as memory, its descriptor in the private data, starts the program with address and port, and
 * looks into the file when the program is done.
 *
 *	readme_target <program> <text that the file must begin with>
 */

#include <librpma.h>
#include <signal.h>

#include "two.h"

static pid_t
start(const char *program, const char *port)
{
	pid_t pid = fork();
	TRUE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, two_addr(), port, (char *)NULL);
		exit(127);
	}
	return pid;
}

int
main(int argc, char *argv[])
{
	TRUE(argc == 3);
	alarm(TWO_DEADLINE_S);
	int fd = open("readme.pmem", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	TRUE(fd >= 0 && ftruncate(fd, TWO_SIZE) == 0);
	void *mem = mmap(NULL, TWO_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(mem != MAP_FAILED);

	struct rpma_peer *peer = two_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL);
	struct rpma_mr_local *mr;
	ZERO(rpma_mr_reg(peer, mem, TWO_SIZE, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
		&mr));
	char descriptor[24], port[8];
	size_t size;
	ZERO(rpma_mr_get_descriptor_size(mr, &size));
	TRUE(size <= sizeof(descriptor));
	ZERO(rpma_mr_get_descriptor(mr, descriptor));

	struct rpma_ep *ep = two_listen(peer, port);
	pid_t pid = start(argv[1], port);
	struct rpma_conn *conn = two_accept(ep, descriptor, size, NULL);
	two_expect_event(conn, RPMA_CONN_CLOSED);
	ZERO(rpma_conn_disconnect(conn));
	ZERO(rpma_conn_delete(&conn));

	int status;
	TRUE(waitpid(pid, &status, 0) == pid);
	TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	char text[256] = "";
	TRUE(strlen(argv[2]) < sizeof(text));
	TRUE(pread(fd, text, strlen(argv[2]), 0) == (ssize_t)strlen(argv[2]));
	TRUE(strcmp(text, argv[2]) == 0);

	ZERO(rpma_ep_shutdown(&ep));
	ZERO(rpma_mr_dereg(&mr));
	ZERO(rpma_peer_delete(&peer));
	munmap(mem, TWO_SIZE);
	close(fd);
	unlink("readme.pmem");
	return 0;
}
