/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_high_fd.c -- no descriptor of the device is 0, 1 or 2, also where all of them are free */

#include "connected.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "by_hand.h"
#include "softrdma/base/copy.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/notify.h"
#include "softrdma/base/valgrind.h"
#include "standard.h"

static int
setup(void **state)
{
	return setup_test(state);
}

static int
teardown(void **state)
{
	/* a thread that goes on would be moving a descriptor of its own away while ours comes back in its place */
	count_settle(count_threads, 1, PATIENCE_MS);
	standard_open();
	return teardown_test(state);
}

#define closed_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static void
test_moves(void **state)
{
	(void)state;
	standard_close();
	const int low = eventfd(7, 0);
	const int fd = softrdma_high_fd(low);
	assert_int_equal(low, 0);
	assert_true(fd >= 3 && fd < STANDARD_KEPT);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(standard_taken(), 0);
	eventfd_t value = 0;
	assert_int_equal(eventfd_read(fd, &value), 0); /* the same object */
	assert_int_equal(value, 7);
	assert_int_equal(softrdma_high_fd(fd), fd);
	assert_int_equal(softrdma_high_fd(-1), -1);
	close(fd);
}

static void
test_none_is_left(void **state)
{
	(void)state;
	int ends[2] = { -7, -7 };
	standard_close();
	fail_call(FAIL_MINE, "fcntl", 0, 1, EMFILE);
	assert_int_equal(softrdma_high_fd(eventfd(0, 0)), -1);
	assert_int_equal(errno, EMFILE);
	/* the first end, the second one, both */
	for (unsigned which = 0; which < 3; which++) {
		fail_call(FAIL_MINE, "fcntl", which == 1, which == 2 ? 2 : 1, EMFILE);
		assert_int_equal(softrdma_high_pipe(ends, O_CLOEXEC), -1);
		assert_int_equal(errno, EMFILE);
		assert_int_equal(ends[0], -7);
	}
	fail_nothing();
	fail_call(FAIL_MINE, "pipe2", 0, 1, ENFILE);
	assert_int_equal(softrdma_high_pipe(ends, O_CLOEXEC), -1);
	assert_int_equal(errno, ENFILE);
	fail_nothing();
	assert_int_equal(standard_taken(), 0);
}

static void
test_pipe(void **state)
{
	(void)state;
	int ends[2];
	char byte = 0;
	standard_close();
	assert_int_equal(softrdma_high_pipe(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(standard_taken(), 0);
	assert_true(ends[0] >= 3 && ends[1] >= 3);
	assert_true(fcntl(ends[1], F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(ends[1], F_GETFL) & O_NONBLOCK);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	close(ends[0]);
	close(ends[1]);
}

static void
test_stream(void **state)
{
	(void)state;
	char name[18] = "", expected[17] = "";
	prctl(PR_GET_NAME, expected); /* valgrind gives the process a name of its own */
	standard_close();
	FILE *stream = softrdma_high_stream(fopen("/proc/self/comm", "re"));
	assert_non_null(stream);
	assert_int_equal(standard_taken(), 0);
	assert_true(fcntl(fileno(stream), F_GETFD) & FD_CLOEXEC);
	assert_non_null(fgets(name, sizeof(name), stream));
	name[strcspn(name, "\n")] = '\0';
	assert_string_equal(name, expected);
	assert_ptr_equal(softrdma_high_stream(stream), stream);
	fclose(stream);
	fail_call(FAIL_MINE, "fcntl", 0, 1, EMFILE);
	assert_null(softrdma_high_stream(fopen("/proc/self/comm", "re")));
	assert_int_equal(errno, EMFILE);
	fail_nothing();
	assert_null(softrdma_high_stream(NULL));
	assert_int_equal(standard_taken(), 0);
}

/* a child closes the numbers that the descriptors got, and not those that they had */
static void
test_marked(void **state)
{
	(void)state;
	standard_close();
	const int owned = softrdma_fork_owned(eventfd(0, EFD_CLOEXEC));
	const int fd = softrdma_fork_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int notify = softrdma_notify_open();
	assert_true(owned >= 3 && fd >= 3 && notify >= 3);
	assert_int_equal(standard_taken(), 0);
	softrdma_fork_close(owned);
	softrdma_fork_close(fd);
	close(notify);
}

static void
write_to(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)the_mem + 64, the_mr->rkey } },
			   *bad;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
}

/* a thread of the device may just have opened a descriptor there, which it moves away at once */
static void
expect_none_stays(void)
{
	assert_int_equal(count_settle(standard_taken, 0, PATIENCE_MS), 0);
}

/* a connection of ids, also by shared memory: listeners, sockets, epolls, channels, registry */
static void
test_connection(void **state)
{
	(void)state;
	struct pair_of_ids p;
	standard_close();
	setenv("SOFTRDMA_SAME_HOST", "2", 1);
	pair_init(&p);
	expect_none_stays();
	write_to(p.active->qp);
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	expect_none_stays();
	assert_int_equal(softrdma_ibv_destroy_comp_channel(channel), 0);
	pair_fini(&p);
	unsetenv("SOFTRDMA_SAME_HOST");
	expect_none_stays();
}

/* queue pairs that connect by hand: ports of GIDs, listeners, sockets */
static void
test_by_hand(void **state)
{
	(void)state;
	standard_close();
	const union ibv_gid gid = the_gid(AF_INET);
	struct ibv_qp *a = new_qp(), *b = new_qp();
	to_init(a);
	to_init(b);
	to_rtr(a, &gid, b->qp_num, PSN_B);
	to_rtr(b, &gid, a->qp_num, PSN_A);
	to_rts(a, PSN_A);
	to_rts(b, PSN_B);
	write_to(a);
	expect_none_stays();
	assert_int_equal(softrdma_ibv_destroy_qp(a), 0);
	assert_int_equal(softrdma_ibv_destroy_qp(b), 0);
	softrdma_release_gids();
	expect_none_stays();
}

/* memory of a file and the pipe that copies where a sandbox forbids the quick way */
static void
test_memory(void **state)
{
	(void)state;
	char to[8], from[8] = "content";
	standard_close();
	const int fd = softrdma_high_fd(memfd_create("test", MFD_CLOEXEC));
	assert_int_equal(ftruncate(fd, 4096), 0);
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, map, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | SOFTRDMA_ACCESS_FLUSH_GLOBAL |
			SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	expect_none_stays();
	if (mr) /* else the memory cannot be made durable here */
		assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(map, 4096);
	close(fd);
	fail_call(FAIL_MINE, "process_vm_readv", 0, 1, EPERM);
	assert_int_equal(softrdma_copy_from(to, from, sizeof(to)), 0);
	fail_nothing();
	assert_string_equal(to, "content");
	expect_none_stays();
	if (softrdma_under_valgrind()) { /* it reports the next access, without which the pipe stays */
		fds_before += 2;
		return;
	}
	/* memory that is not there: the pipe is closed */
	fail_call(FAIL_MINE, "process_vm_readv", 0, 1, EPERM);
	assert_int_equal(softrdma_copy_from(to, (const void *)4096, sizeof(to)), EFAULT);
	fail_nothing();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		closed_test(test_moves),
		closed_test(test_none_is_left),
		closed_test(test_pipe),
		closed_test(test_stream),
		closed_test(test_marked),
		closed_test(test_connection),
		closed_test(test_by_hand),
		closed_test(test_memory),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
