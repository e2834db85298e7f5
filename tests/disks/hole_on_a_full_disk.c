/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * hole_on_a_full_disk.c -- an accepted peer cannot end the target's process by SIGBUS
 *
 * The target had registered memory of a sparse file, and the peer had filled the disk by its writes. The
 * page of a hole can then be read, but not stored to. Atomic operations tested a page by a load; so did
 * plain writes where a sandbox forbids process_vm_writev().
 *
 * Here each kind of request goes to memory whose page is missing and cannot be made: a hole on a full disk,
 * a hole on a full tmpfs, the truncated part of a file, and huge pages without a pool. The requests go over
 * TCP, with CRC32C and without, over TLS, and between processes of one host, to a target with and without a
 * sandbox. The client must get a remote operation error, and the target must serve the next connections.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "librpma.h"
#include "medium.h"
#include "pair.h"
#include "pattern.h"
#include "wait.h"

#define ADDR "127.0.0.1"
#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define POPULATE_WRITE 23

#define IMAGE_MIB 32
#define TMPFS_MIB 4
#define SPARSE (256 * MIB)

/*
 * the range that a client fills, one segment after the other, and the holes, which it never writes to before
 */
#define FILL_FROM MIB
#define HOLES_FROM (128 * MIB)
#define HOLE_STEP (4 * MIB)

#define SEED 18
#define SECONDS 100

enum place { DISK, TMPFS, CUT, HUGE_MEMFD, HUGE_SYSV, PLACES };
enum way { TCP, RECORDS, TLS, SAME_HOST, SAME_HOST_FILES };
enum sandbox { NONE, NO_PROCESS_VM, NO_POPULATE };

static const char *const place_names[] = { "a full disk", "a full tmpfs", "a file that was cut",
	"huge pages of a memfd", "huge pages of System V" };
static const char *const way_names[] = { "TCP", "TCP with CRC32C", "TLS", "the same host",
	"the same host, files trusted" };
static const char *const sandbox_names[] = { "", ", without process_vm_*()",
	", without MADV_POPULATE_WRITE" };

enum kind {
	ATOMIC_WRITE,
	COMPARE_SWAP,
	FETCH_ADD,
	WRITE,
	WRITE_LONG,
	WRITE_IMM,
	SEND,
	SEND_LONG,
	READ,
	READ_LONG,
	KINDS
};

static const char *const kind_names[] = { "atomic write", "compare and swap", "fetch and add", "write",
	"long write", "write with immediate data", "send", "long send", "read", "long read" };

#define SHORT_LEN ((size_t)64)
#define LONG_LEN MIB

static const size_t lengths[] = { 8, 8, 8, SHORT_LEN, LONG_LEN, SHORT_LEN, SHORT_LEN, LONG_LEN, SHORT_LEN,
	LONG_LEN };

struct test_case {
	enum place place;
	enum way way;
	enum sandbox sandbox;
};

static const struct test_case cases[] = {
	{ DISK, TCP, NONE },
	{ DISK, TCP, NO_PROCESS_VM },
	{ DISK, TCP, NO_POPULATE },
	{ DISK, RECORDS, NONE },
	{ DISK, RECORDS, NO_PROCESS_VM },
	{ DISK, TLS, NONE },
	{ DISK, TLS, NO_PROCESS_VM },
	{ DISK, SAME_HOST, NONE },
	{ DISK, SAME_HOST, NO_PROCESS_VM },
	{ DISK, SAME_HOST_FILES, NONE },
	{ TMPFS, TCP, NONE },
	{ TMPFS, TCP, NO_PROCESS_VM },
	{ TMPFS, RECORDS, NONE },
	{ TMPFS, TLS, NONE },
	{ TMPFS, TLS, NO_PROCESS_VM },
	{ TMPFS, SAME_HOST, NONE },
	{ TMPFS, SAME_HOST_FILES, NONE },
	{ CUT, TCP, NONE },
	{ CUT, TCP, NO_PROCESS_VM },
	{ CUT, TCP, NO_POPULATE },
	{ CUT, TLS, NO_PROCESS_VM },
	{ CUT, SAME_HOST, NONE },
	{ HUGE_MEMFD, TCP, NONE },
	{ HUGE_MEMFD, SAME_HOST_FILES, NONE },
	{ HUGE_SYSV, TCP, NONE },
	{ HUGE_SYSV, RECORDS, NONE },
	{ HUGE_SYSV, TLS, NONE },
};

/* the role and the case of this process, for messages of failures */
static const char *role = "test";
static char about[256];

__attribute__((format(printf, 1, 2), noreturn)) static void
fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "FAILED: %s, %s: ", role, about);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	_exit(1);
}

static void
must(int ret, const char *what)
{
	if (ret)
		fail("%s: %s, %s", what, rpma_err_2str(ret), strerror(errno));
}

static void
must_do(bool done, const char *what)
{
	if (!done)
		fail("%s: %s", what, strerror(errno));
}

/* --- the sandbox --- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, jump) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, jump)
#define IF(value, jump) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, jump, 0)
#define GIVE(result) BPF_STMT(BPF_RET | BPF_K, result)

static void
install(struct sock_filter *filter, size_t len)
{
	const struct sock_fprog program = { .len = (unsigned short)len, .filter = filter };
	must_do(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must_do(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "PR_SET_SECCOMP");
}

static void
enter_sandbox(enum sandbox sandbox)
{
	struct sock_filter without_process_vm[] = {
		LOAD(nr),
		IF(SYS_process_vm_readv, 2),
		IF(SYS_process_vm_writev, 1),
		GIVE(SECCOMP_RET_ALLOW),
		GIVE(SECCOMP_RET_ERRNO | EPERM),
	};
	/* the result of a kernel before 5.14 */
	struct sock_filter without_populate[] = {
		LOAD(nr),
		UNLESS(SYS_madvise, 3),
		LOAD(args[2]),
		UNLESS(POPULATE_WRITE, 1),
		GIVE(SECCOMP_RET_ERRNO | EINVAL),
		GIVE(SECCOMP_RET_ALLOW),
	};
	if (sandbox == NO_PROCESS_VM)
		install(without_process_vm, sizeof(without_process_vm) / sizeof(without_process_vm[0]));
	else if (sandbox == NO_POPULATE)
		install(without_populate, sizeof(without_populate) / sizeof(without_populate[0]));
}

/* --- the target --- */

static struct medium medium;
static char tmpfs[MEDIUM_PATH_LEN], psk[MEDIUM_PATH_LEN];

struct target {
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	struct rpma_mr_local *holes; /* the memory with the holes */
	struct rpma_mr_local *usual; /* ordinary memory */
};

static bool
is_huge(enum place place)
{
	return place == HUGE_MEMFD || place == HUGE_SYSV;
}

static size_t
size_of(enum place place)
{
	return is_huge(place) ? 4 * MIB : SPARSE;
}

/* there are so few huge pages that all kinds share one */
static size_t
hole_of(enum place place, enum kind kind)
{
	return is_huge(place) ? 0 : HOLES_FROM + (size_t)kind * HOLE_STEP;
}

/* a truncated file does not need a full disk */
static const char *
path_of(enum place place, char path[MEDIUM_PATH_LEN])
{
	const char *folder = place == DISK ? medium.dir : place == TMPFS ? tmpfs : medium.base;
	snprintf(path, MEDIUM_PATH_LEN, "%.200s/sparse", folder);
	return path;
}

static void *
map_huge(enum place place)
{
	const size_t size = size_of(place);
	if (place == HUGE_SYSV) {
		int id = shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_HUGETLB | SHM_NORESERVE | 0600);
		must_do(id >= 0, "shmget");
		void *map = shmat(id, NULL, 0);
		shmctl(id, IPC_RMID, NULL);
		must_do(map != (void *)-1, "shmat");
		return map;
	}
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_ALLOW_SEALING);
	must_do(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd_create");
	must_do(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "F_ADD_SEALS");
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	must_do(map != MAP_FAILED, "mmap");
	return map;
}

/* the first page of a file is written, so it exists */
static void *
map_file(enum place place)
{
	char path[MEDIUM_PATH_LEN], page[PAGE];
	pattern_fill(page, sizeof(page), SEED, 0);
	int fd = open(path_of(place, path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must_do(fd >= 0, path);
	must_do(pwrite(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page) && fsync(fd) == 0,
		"the first page");
	must_do(ftruncate(fd, (off_t)SPARSE) == 0, "ftruncate");
	void *map = mmap(NULL, SPARSE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must_do(map != MAP_FAILED, "mmap");
	close(fd);
	return map;
}

static void
cut_file(void)
{
	char path[MEDIUM_PATH_LEN];
	must_do(truncate(path_of(CUT, path), (off_t)PAGE) == 0, "truncate");
}

#define USAGE (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_RECV)

/* each kind of request has a connection of its own; the client announces the kind */
static void
serve_one(struct target *target, enum place place)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_private_data asked;
	uint8_t descriptors[128];
	size_t size;
	must(rpma_ep_next_conn_req(target->ep, NULL, &req), "rpma_ep_next_conn_req");
	must(rpma_conn_req_get_private_data(req, &asked), "rpma_conn_req_get_private_data");
	must_do(asked.len == 1, "private data");
	const uint8_t kind = *(const uint8_t *)asked.ptr;
	if (kind == SEND || kind == SEND_LONG)
		must(rpma_conn_req_recv(req, target->holes, hole_of(place, kind), lengths[kind], NULL),
			"rpma_conn_req_recv");
	else
		must(rpma_conn_req_recv(req, target->usual, 0, PAGE, NULL), "rpma_conn_req_recv");
	must(rpma_mr_get_descriptor_size(target->holes, &size), "rpma_mr_get_descriptor_size");
	must(rpma_mr_get_descriptor(target->holes, descriptors), "rpma_mr_get_descriptor");
	const struct rpma_conn_private_data told = { .ptr = descriptors, .len = (uint8_t)size };
	must(rpma_conn_req_connect(&req, &told, &conn), "rpma_conn_req_connect");
	while (event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST)
		must(wait_event(conn, &event, WAIT_MS), "the end of a connection");
	rpma_conn_disconnect(conn);
	must(rpma_conn_delete(&conn), "rpma_conn_delete");
}

static void
new_target(struct target *target, const struct test_case *test, char port[NET_PORT_LEN])
{
	struct ibv_context *ctx;
	void *usual = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *holes = is_huge(test->place) ? map_huge(test->place) : map_file(test->place);
	must(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx), "the device");
	must(rpma_peer_new(ctx, &target->peer), "rpma_peer_new");
	must(rpma_mr_reg(target->peer, holes, size_of(test->place), USAGE, &target->holes), "rpma_mr_reg");
	must(rpma_mr_reg(target->peer, usual, PAGE, USAGE, &target->usual), "rpma_mr_reg");
	must(pair_listen(target->peer, ADDR, port, &target->ep), "rpma_ep_listen");
	if (test->place == CUT)
		cut_file();
}

/* serves until the parent closes its end of the pipe */
static void
be_target(const struct test_case *test, int orders, int told)
{
	struct target target = { 0 };
	char port[NET_PORT_LEN] = "";
	int fd;
	role = "target";
	deadline_start(about, SECONDS);
	enter_sandbox(test->sandbox);
	new_target(&target, test, port);
	must(rpma_ep_get_fd(target.ep, &fd), "rpma_ep_get_fd");
	must_do(write(told, port, sizeof(port)) == (ssize_t)sizeof(port), "write");
	struct pollfd fds[] = { { .fd = orders, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	while (fds[0].revents == 0) {
		must_do(poll(fds, 2, -1) > 0 || errno == EINTR, "poll");
		if (fds[1].revents & POLLIN)
			serve_one(&target, test->place);
	}
	must(rpma_ep_shutdown(&target.ep), "rpma_ep_shutdown");
	must(rpma_mr_dereg(&target.holes), "rpma_mr_dereg");
	must(rpma_mr_dereg(&target.usual), "rpma_mr_dereg");
	must(rpma_peer_delete(&target.peer), "rpma_peer_delete");
	_exit(0);
}

/* --- the client --- */

struct client {
	struct rpma_peer *peer;
	const char *port;
	uint8_t *bytes; /* LONG_LEN of them */
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	struct rpma_mr_remote *holes;
};

static void
client_connect(struct client *client, enum kind kind)
{
	const uint8_t asked = (uint8_t)kind;
	const struct rpma_conn_private_data pdata = { .ptr = (void *)(uintptr_t)&asked, .len = 1 };
	struct rpma_conn_private_data told;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	struct rpma_conn_req *req;
	must(rpma_conn_req_new(client->peer, ADDR, client->port, NULL, &req), "rpma_conn_req_new");
	must(rpma_conn_req_connect(&req, &pdata, &client->conn), "rpma_conn_req_connect");
	must(wait_event(client->conn, &event, WAIT_MS), "an answer");
	if (event != RPMA_CONN_ESTABLISHED)
		fail("no connection for %s: %s", kind_names[kind], rpma_utils_conn_event_2str(event));
	must(rpma_conn_get_private_data(client->conn, &told), "rpma_conn_get_private_data");
	must(rpma_mr_remote_from_descriptor(told.ptr, told.len, &client->holes),
		"rpma_mr_remote_from_descriptor");
}

static void
client_leave(struct client *client)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	rpma_conn_disconnect(client->conn);
	while (event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST)
		must(wait_event(client->conn, &event, WAIT_MS), "the end of the connection");
	must(rpma_mr_remote_delete(&client->holes), "rpma_mr_remote_delete");
	must(rpma_conn_delete(&client->conn), "rpma_conn_delete");
}

static int
post(struct client *client, enum kind kind, size_t offset)
{
	const int flags = RPMA_F_COMPLETION_ALWAYS;
	struct rpma_mr_remote *there = client->holes;
	switch (kind) {
	case ATOMIC_WRITE:
		return rpma_atomic_write(client->conn, there, offset, (const char *)client->bytes, flags,
			NULL);
	case COMPARE_SWAP:
		return rpma_compare_and_swap(client->conn, client->mr, 0, there, offset, 0, 1, flags, NULL);
	case FETCH_ADD:
		return rpma_fetch_and_add(client->conn, client->mr, 0, there, offset, 1, flags, NULL);
	case WRITE:
	case WRITE_LONG:
		return rpma_write(client->conn, there, offset, client->mr, 0, lengths[kind], flags, NULL);
	case WRITE_IMM:
		return rpma_write_with_imm(client->conn, there, offset, client->mr, 0, lengths[kind], flags,
			1, NULL);
	case SEND:
	case SEND_LONG:
		return rpma_send(client->conn, client->mr, 0, lengths[kind], flags, NULL);
	default:
		return rpma_read(client->conn, client->mr, 0, there, offset, lengths[kind], flags, NULL);
	}
}

static enum ibv_wc_status
make(struct client *client, enum kind kind, size_t offset)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	must(post(client, kind, offset), kind_names[kind]);
	must(rpma_conn_get_cq(client->conn, &cq), "rpma_conn_get_cq");
	int ret = wait_wc(cq, &wc, WAIT_MS);
	if (ret)
		fail("%s: nothing was said: %s", kind_names[kind], rpma_err_2str(ret));
	return wc.status;
}

static void
expect(enum kind kind, const char *where, enum ibv_wc_status status, enum ibv_wc_status wanted)
{
	if (status != wanted)
		fail("%s to %s: %s, and not %s", kind_names[kind], where, ibv_wc_status_str(status),
			ibv_wc_status_str(wanted));
}

/* writes until a write is refused */
static void
fill(struct client *client, enum place place)
{
	size_t offset = FILL_FROM;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	client_connect(client, WRITE_LONG);
	while (status == IBV_WC_SUCCESS && offset < HOLES_FROM && !is_huge(place)) {
		status = make(client, WRITE_LONG, offset);
		offset += LONG_LEN;
	}
	client_leave(client);
	if (!is_huge(place))
		expect(WRITE_LONG, "the end of the room", status, IBV_WC_REM_OP_ERR);
}

/*
 * the expected status: reads of a hole succeed on the disk only; elsewhere the page is missing for loads as
 * well
 */
static enum ibv_wc_status
wanted_of(enum place place, enum kind kind)
{
	bool reads = kind == READ || kind == READ_LONG;
	return reads && place == DISK ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR;
}

static void
reach_for_holes(struct client *client, enum place place)
{
	for (enum kind kind = 0; kind < KINDS; kind++) {
		pattern_fill(client->bytes, LONG_LEN, SEED, 0);
		client_connect(client, kind);
		enum ibv_wc_status status = make(client, kind, hole_of(place, kind));
		client_leave(client);
		expect(kind, place_names[place], status, wanted_of(place, kind));
		if (status == IBV_WC_SUCCESS && pattern_check_byte(client->bytes, lengths[kind], 0) >= 0)
			fail("a hole was not read as zeros");
	}
}

/* uses the page that exists: writes it, reads it back, and counts up in it */
static void
use_first_page(struct client *client, enum sandbox sandbox)
{
	const enum ibv_wc_status atomics = sandbox == NO_POPULATE ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;
	client_connect(client, WRITE);
	pattern_fill(client->bytes, SHORT_LEN, SEED + 1, 0);
	expect(WRITE, "a page that is there", make(client, WRITE, 128), IBV_WC_SUCCESS);
	memset(client->bytes, 0, SHORT_LEN);
	expect(READ, "a page that is there", make(client, READ, 128), IBV_WC_SUCCESS);
	if (pattern_check(client->bytes, SHORT_LEN, SEED + 1, 0) >= 0)
		fail("what was written is not there");
	expect(READ, "the first page", make(client, READ, 0), IBV_WC_SUCCESS);
	if (pattern_check(client->bytes, SHORT_LEN, SEED, 0) >= 0)
		fail("what was not written is not as it was");
	expect(FETCH_ADD, "a page that is there", make(client, FETCH_ADD, 256), atomics);
	client_leave(client);
}

/* Blocks of the disk were reserved in vain, and the next fill() uses them up. Disks of other tests are left alone. */
static void
free_reserved_blocks(void)
{
	int fd = open(medium.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must_do(fd >= 0, "opening the disk");
	(void)syncfs(fd);
	close(fd);
}

static void
be_client(const struct test_case *test, const char *port)
{
	struct client client = { .port = port };
	struct ibv_context *ctx;
	role = "client";
	deadline_start(about, SECONDS);
	client.bytes = mmap(NULL, LONG_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx), "the device");
	must(rpma_peer_new(ctx, &client.peer), "rpma_peer_new");
	must(rpma_mr_reg(client.peer, client.bytes, LONG_LEN,
		     RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_READ_DST, &client.mr),
		"rpma_mr_reg");
	fill(&client, test->place);
	if (test->place == DISK)
		free_reserved_blocks();
	fill(&client, test->place);
	reach_for_holes(&client, test->place);
	if (!is_huge(test->place))
		use_first_page(&client, test->sandbox);
	must(rpma_mr_dereg(&client.mr), "rpma_mr_dereg");
	must(rpma_peer_delete(&client.peer), "rpma_peer_delete");
	_exit(0);
}

/* --- the test --- */

static void
set_way(enum way way)
{
	if (way == TLS)
		setenv("SOFTRDMA_TLS_PSK", psk, 1);
	else
		unsetenv("SOFTRDMA_TLS_PSK");
	setenv("SOFTRDMA_CRC", way == RECORDS ? "1" : "0", 1);
	setenv("SOFTRDMA_SAME_HOST", way == SAME_HOST ? "1" : way == SAME_HOST_FILES ? "2" : "0", 1);
}

static void
expect_exit(pid_t pid, const char *who)
{
	int status;
	must_do(waitpid(pid, &status, 0) == pid, "waitpid");
	if (WIFSIGNALED(status))
		fail("the %s was ended by signal %d (%s)", who, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0)
		fail("the %s gave %d", who, WEXITSTATUS(status));
}

static void
run(const struct test_case *test)
{
	int orders[2], told[2];
	char port[NET_PORT_LEN];
	set_way(test->way);
	must_do(pipe2(orders, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0, "pipe2");
	pid_t target = fork();
	must_do(target >= 0, "fork");
	if (target == 0) {
		close(orders[1]);
		be_target(test, orders[0], told[1]);
	}
	close(orders[0]);
	close(told[1]);
	must_do(read(told[0], port, sizeof(port)) == (ssize_t)sizeof(port), "the target's port");
	pid_t client = fork();
	must_do(client >= 0, "fork");
	if (client == 0)
		be_client(test, port);
	/*
	 * waits for the client, but reports the target first: the cause of its end tells more than the
	 * client's error
	 */
	siginfo_t ended;
	must_do(waitid(P_PID, (id_t)client, &ended, WEXITED | WNOWAIT) == 0, "waitid");
	close(orders[1]);
	expect_exit(target, "target");
	expect_exit(client, "client");
	close(told[0]);
	printf("passed: %s\n", about);
	fflush(stdout);
}

static void
make_psk(void)
{
	snprintf(psk, sizeof(psk), "%s/psk", medium.base);
	int fd = open(psk, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must_do(fd >= 0 && dprintf(fd, "test:0123456789abcdef0123456789abcdef\n") > 0, "a key");
	close(fd);
}

/* true if the library was built with TLS; asked in a child, so that this process has no thread yet */
static bool
has_tls(void)
{
	pid_t child = fork();
	int status = 1;
	if (child == 0) {
		struct ibv_context *ctx;
		struct rpma_peer *peer;
		must(rpma_utils_get_ibv_context(ADDR, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx), "the device");
		must(rpma_peer_new(ctx, &peer), "rpma_peer_new");
		rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
		int ret = rpma_peer_set_tls(peer, "", "", "");
		rpma_peer_delete(&peer);
		_exit(ret == RPMA_E_NOSUPP);
	}
	must_do(child > 0 && waitpid(child, &status, 0) == child, "fork");
	return status == 0;
}

/* true if there is a pool of huge pages, which would supply the missing ones */
static bool
has_huge_pages(void)
{
	char line[128];
	unsigned long pages = 0, more = 0;
	FILE *meminfo = fopen("/proc/meminfo", "re");
	while (meminfo && fgets(line, sizeof(line), meminfo))
		sscanf(line, "HugePages_Free: %lu", &pages);
	if (meminfo)
		fclose(meminfo);
	FILE *overcommit = fopen("/proc/sys/vm/nr_overcommit_hugepages", "re");
	if (overcommit == NULL || fscanf(overcommit, "%lu", &more) != 1)
		pages++; /* the kernel has no huge pages */
	if (overcommit)
		fclose(overcommit);
	return pages + more > 0;
}

static const char *
reason_to_leave_out(const struct test_case *test, bool tls, bool huge_pages)
{
	if (test->way == TLS && !tls)
		return "the library has no TLS";
	if (is_huge(test->place) && huge_pages)
		return "huge pages are not known here, or there are some";
	return NULL;
}

/* hole_on_a_full_disk [part of the name of a case] */
int
main(int argc, char *argv[])
{
	if (!medium_open(&medium, "mkfs.ext4 -q -m 0", NULL, IMAGE_MIB, 2 * IMAGE_MIB))
		return MEDIUM_SKIPPED;
	char options[32];
	snprintf(tmpfs, sizeof(tmpfs), "%s/small", medium.base);
	snprintf(options, sizeof(options), "size=%um", (unsigned)TMPFS_MIB);
	must_do(mkdir(tmpfs, 0700) == 0 && mount("none", tmpfs, "tmpfs", 0, options) == 0, "a tmpfs");
	make_psk();
	const bool tls = has_tls(), huge_pages = has_huge_pages();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct test_case *test = &cases[i];
		const char *reason = reason_to_leave_out(test, tls, huge_pages);
		snprintf(about, sizeof(about), "%s, by %s%s", place_names[test->place], way_names[test->way],
			sandbox_names[test->sandbox]);
		if (argc > 1 && strstr(about, argv[1]) == NULL)
			continue;
		if (reason)
			printf("left out: %s: %s\n", about, reason);
		else
			run(test);
	}
	umount2(tmpfs, MNT_DETACH);
	medium_close(&medium);
	return 0;
}
