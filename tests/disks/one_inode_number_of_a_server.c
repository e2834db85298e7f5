/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * one_inode_number_of_a_server.c -- two files to which a server has given one inode number are told apart
 *
 * A file system with a server (FUSE, virtiofs) has neither a device nor a time of birth, and its server may
 * give two files the same inode number. The library took them for one file: the flush of the second file made
 * the first one durable, and succeeded.
 *
 * The server is a child of the test. For each file it keeps the bytes written, and separately those that an
 * fsync() has made durable, which a power cut would leave behind.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "lending.h"
#include "medium.h"

#define FILES 4
#define FIRST_NODE (FUSE_ROOT_ID + 1U) /* the kernel's own number of the first file; it differs for each */
#define MAX_WRITE (128U << 10)
#define BUFFER_SIZE (LENDING_SIZE + 4096) /* for any read or write of a file, and the headers */

/* the inode numbers that stat() and /proc/self/maps show */
static const uint64_t inodes[FILES] = { 42, 42, 43, 44 };
static const char *const names[FILES] = { "one", "same", "another", "different" };
enum { ONE, SAME, ANOTHER, DIFFERENT };

/* the size is fixed */
struct content {
	char written[LENDING_SIZE];
	char synced[LENDING_SIZE];
};

/* shared by the test and the server */
static struct content *contents;

/* --- the server --- */

struct request {
	const struct fuse_in_header *header;
	const void *arg;
	void *answer;
	size_t answer_len;
};

/* the file of a request; NULL if it is for something else */
static struct content *
content_of(const struct request *request)
{
	const uint64_t node = request->header->nodeid;
	return node >= FIRST_NODE && node < FIRST_NODE + FILES ? &contents[node - FIRST_NODE] : NULL;
}

static void
fill_attr(struct fuse_attr *attr, uint64_t node)
{
	if (node == FUSE_ROOT_ID) {
		*attr = (struct fuse_attr){ .ino = FUSE_ROOT_ID, .mode = S_IFDIR | 0700, .nlink = 2 };
		return;
	}
	*attr = (struct fuse_attr){
		.ino = inodes[node - FIRST_NODE],
		.mode = S_IFREG | 0600,
		.nlink = 1,
		.size = LENDING_SIZE,
		.blocks = LENDING_SIZE / 512,
		.blksize = 4096,
	};
}

static int
serve_init(struct request *request)
{
	const struct fuse_init_in *in = request->arg;
	struct fuse_init_out *out = request->answer;
	*out = (struct fuse_init_out){
		.major = FUSE_KERNEL_VERSION,
		.minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = FUSE_BIG_WRITES,
		.max_write = MAX_WRITE,
	};
	request->answer_len = sizeof(*out);
	return 0;
}

static int
serve_lookup(struct request *request)
{
	const char *name = request->arg;
	struct fuse_entry_out *out = request->answer;
	for (unsigned i = 0; i < FILES; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*out = (struct fuse_entry_out){ .nodeid = FIRST_NODE + i, .entry_valid = 1, .attr_valid = 1 };
		fill_attr(&out->attr, out->nodeid);
		request->answer_len = sizeof(*out);
		return 0;
	}
	return ENOENT;
}

/* attributes never change: the test only sets the size that the files already have */
static int
serve_attr(struct request *request)
{
	struct fuse_attr_out *out = request->answer;
	if (request->header->nodeid != FUSE_ROOT_ID && content_of(request) == NULL)
		return ESTALE;
	*out = (struct fuse_attr_out){ .attr_valid = 1 };
	fill_attr(&out->attr, request->header->nodeid);
	request->answer_len = sizeof(*out);
	return 0;
}

static int
serve_open(struct request *request)
{
	struct fuse_open_out *out = request->answer;
	*out = (struct fuse_open_out){ 0 };
	request->answer_len = sizeof(*out);
	return 0;
}

static int
serve_read(struct request *request)
{
	const struct fuse_read_in *in = request->arg;
	const struct content *content = content_of(request);
	if (content == NULL || in->offset > LENDING_SIZE)
		return EINVAL;
	const size_t left = LENDING_SIZE - in->offset;
	request->answer_len = in->size < left ? in->size : left;
	memcpy(request->answer, content->written + in->offset, request->answer_len);
	return 0;
}

static int
serve_write(struct request *request)
{
	const struct fuse_write_in *in = request->arg;
	struct fuse_write_out *out = request->answer;
	struct content *content = content_of(request);
	if (content == NULL || in->offset > LENDING_SIZE || in->size > LENDING_SIZE - in->offset)
		return EINVAL;
	memcpy(content->written + in->offset, in + 1, in->size);
	*out = (struct fuse_write_out){ .size = in->size };
	request->answer_len = sizeof(*out);
	return 0;
}

static int
serve_fsync(struct request *request)
{
	struct content *content = content_of(request);
	if (content == NULL)
		return EINVAL;
	memcpy(content->synced, content->written, LENDING_SIZE);
	return 0;
}

static int
serve_statfs(struct request *request)
{
	struct fuse_statfs_out *out = request->answer;
	*out = (struct fuse_statfs_out){ .st = { .blocks = 1000, .bsize = 4096, .frsize = 4096 } };
	request->answer_len = sizeof(*out);
	return 0;
}

/* returns 0 or an errno value */
static int
serve_request(struct request *request)
{
	switch (request->header->opcode) {
	case FUSE_INIT:
		return serve_init(request);
	case FUSE_LOOKUP:
		return serve_lookup(request);
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		return serve_attr(request);
	case FUSE_OPEN:
		return serve_open(request);
	case FUSE_READ:
		return serve_read(request);
	case FUSE_WRITE:
		return serve_write(request);
	case FUSE_FSYNC:
		return serve_fsync(request);
	case FUSE_STATFS:
		return serve_statfs(request);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return 0;
	default:
		return ENOSYS; /* also for FUSE_STATX, which could return a time of birth */
	}
}

static bool
wants_answer(const struct request *request)
{
	const uint32_t opcode = request->header->opcode;
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

/* serves until the file system is unmounted */
static void
serve(int fd)
{
	static _Alignas(8) char in[BUFFER_SIZE], out[BUFFER_SIZE];
	for (;;) {
		const ssize_t len = read(fd, in, sizeof(in));
		if (len < 0 && (errno == ENOENT || errno == EINTR)) /* ENOENT: a request was withdrawn */
			continue;
		if (len < (ssize_t)sizeof(struct fuse_in_header))
			return;
		struct request request = {
			.header = (const void *)in,
			.arg = in + sizeof(struct fuse_in_header),
			.answer = out + sizeof(struct fuse_out_header),
		};
		if (!wants_answer(&request))
			continue;
		struct fuse_out_header *header = (void *)out;
		header->error = -serve_request(&request);
		header->unique = request.header->unique;
		header->len = (uint32_t)(sizeof(*header) + request.answer_len);
		if (write(fd, out, header->len) < 0 && errno != ENOENT)
			return;
	}
}

/* --- the mount --- */

static struct {
	char dir[40];
	pid_t server;
} mounted = { .dir = "one_inode_number_of_a_server-XXXXXX" };

static bool
skipped(const char *reason)
{
	printf("SKIPPED: %s\n", reason);
	return false;
}

static bool
mount_server(int fd)
{
	char options[100];
	snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=%u,group_id=%u", fd, S_IFDIR, getuid(),
		getgid());
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return skipped("a mount namespace is not permitted");
	if (mkdtemp(mounted.dir) == NULL)
		return skipped("no folder can be made here");
	if (mount("none", mounted.dir, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
		return true;
	rmdir(mounted.dir);
	return skipped("mounting is not permitted");
}

/* ends with the test, in whatever way the test ends */
static void
run_server(int fd, pid_t test)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == test)
		serve(fd);
	_exit(0);
}

static void
stop_server(void)
{
	umount2(mounted.dir, MNT_DETACH);
	rmdir(mounted.dir);
	if (mounted.server > 0) {
		kill(mounted.server, SIGKILL);
		waitpid(mounted.server, NULL, 0);
	}
}

static bool
start_server(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return skipped("/dev/fuse cannot be opened");
	contents = mmap(NULL, FILES * sizeof(*contents), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (contents == MAP_FAILED || !mount_server(fd)) {
		close(fd);
		return false;
	}
	const pid_t test = getpid();
	mounted.server = fork();
	if (mounted.server == 0)
		run_server(fd, test);
	/* only the server holds it: after the server has died, requests fail instead of waiting */
	close(fd);
	if (mounted.server > 0)
		return true;
	stop_server();
	return skipped("no server can be forked");
}

/* --- the tests --- */

static struct lending lendings[FILES];

static void
lend(int file)
{
	char path[sizeof(mounted.dir) + 16];
	struct stat st;
	struct lending *lending = &lendings[file];
	snprintf(path, sizeof(path), "%s/%s", mounted.dir, names[file]);
	lending_begin(lending, open(path, O_RDWR | O_CLOEXEC));
	assert_int_equal(fstat(lending->fd, &st), 0);
	assert_int_equal(st.st_ino, inodes[file]);
	assert_int_equal(lending_lend(lending), 0);
	assert_true(lending_is_persistent(lending));
}

/* at a flush the server must get an fsync() of this very file, which finds the new bytes written */
static void
flush(int file, char value)
{
	assert_int_equal(lending_write(&lendings[file], value), IBV_WC_SUCCESS);
	assert_int_equal(lending_flush(&lendings[file]), IBV_WC_SUCCESS);
	assert_memory_equal(contents[file].written, lendings[file].data, LENDING_SIZE);
	assert_memory_equal(contents[file].synced, lendings[file].data, LENDING_SIZE);
}

/* the second file wrongly got the description of the file that was lent first */
static void
lend_and_flush(int first, int second)
{
	lend(first);
	lend(second);
	flush(second, '2');
	flush(first, '1');
	flush(second, '3');
	lending_end(&lendings[first]);
	lending_end(&lendings[second]);
}

/* the control of the server itself: two inode numbers */
static void
test_two_numbers(void **state)
{
	(void)state;
	lend_and_flush(ANOTHER, DIFFERENT);
}

static void
test_one_number(void **state)
{
	(void)state;
	lend_and_flush(ONE, SAME);
}

/* the device must not use for one file what it remembers of the other one, which was lent before */
static void
test_other_way_round(void **state)
{
	(void)state;
	lend_and_flush(SAME, ONE);
}

int
main(void)
{
	deadline_start("one_inode_number_of_a_server", 100);
	if (!start_server())
		return MEDIUM_SKIPPED;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_numbers),
		cmocka_unit_test(test_one_number),
		cmocka_unit_test(test_other_way_round),
	};
	int failures = cmocka_run_group_tests(tests, NULL, NULL);
	stop_server();
	return failures;
}
