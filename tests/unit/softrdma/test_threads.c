/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_threads.c -- the threads of the device start and end, and a region is taken back from all connections */

#include "serving.h"

#include "softrdma/engine/threads.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void
test_starts_and_stops(void **state)
{
	(void)state;
	int fds = count_fds();
	for (int i = 0; i < 30; i++) {
		assert_int_equal(softrdma_threads_start(), 0);
		assert_int_equal(softrdma_threads_start(), 0);
		assert_int_equal(count_threads(), 2);
		softrdma_threads_stop();
		assert_int_equal(count_threads(), 2); /* another object still needs it */
		softrdma_threads_stop();
		assert_int_equal(count_settle(count_threads, 1, PATIENCE_MS), 1);
		assert_int_equal(count_fds(), fds);
	}
}

static void
test_does_not_start(void **state)
{
	(void)state;
	static const char *const calls[] = { "epoll_create1", "eventfd", "epoll_ctl", "pthread_create" };
	int fds = count_fds();
	for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
		/* there are two epoll instances; the first one needs two descriptors */
		const char *call = calls[i / 2];
		fail_call(FAIL_MINE, call, strncmp(call, "epoll_", 6) == 0 ? i % 2 : 0, 1, EMFILE);
		assert_int_equal(softrdma_threads_start(), EMFILE);
		assert_int_equal(count_fds(), fds);
	}
	fail_nothing();
	assert_int_equal(softrdma_threads_start(), 0);
	softrdma_threads_stop();
}

/*
 * a child of fork() without exec() has no threads of the device; its changes to its copy affect no other
 * process
 */
static void
test_forked_child(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	pid_t pid = fork();
	if (pid == 0) {
		/* the child has its own copies of these descriptors */
		close(softrdma_connection_of(softrdma_qp_of(p.active->qp)->link)->fd);
		close(p.channel->fd);
		_exit(7);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_true(write_works(p.active->qp));
	assert_true(write_works(p.passive->qp));
	expect_no_event(p.channel);
	pair_fini(&p);
}

/* deregistering a region while it is being sent ends the connection */
static void
test_deregistered_when_half_sent(void **state)
{
	(void)state;
	struct raw_peer p;
	raw_peer_init(&p);
	size_t size = 64u << 20; /* more than any socket buffer holds */
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	struct ibv_sge sge = { .addr = (uintptr_t)mem, .length = (uint32_t)size, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED },
			   *bad;
	assert_int_equal(ibv_post_send(p.id->qp, &wr, &bad), 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	munmap(mem, size);

	/* a queue pair that is being destroyed has no memory in transit */
	struct ibv_qp *qp = p.link->qp;
	p.link->qp = NULL;
	mr = softrdma_ibv_reg_mr(the_pd, the_mem, 8, 0);
	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	p.link->qp = qp;
	raw_peer_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		one_thread_test(test_starts_and_stops),
		device_test(test_does_not_start),
		device_test(test_forked_child),
		device_test(test_deregistered_when_half_sent),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
