/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_fork.c -- a child cannot use its parent's device, and the parent is not affected */

#include "connected.h"

#include <semaphore.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "failing.h"
#include "softrdma/base/fork.h"
#include "softrdma/cm/cm.h"

#define DESCRIPTORS 256 /* more than any test opens */
#define CHILD_S 30

/* ends the child: a cmocka assertion would go on with the parent's tests */
static void
must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "the child: failed: %s\n", what);
	_exit(1);
}

/* runs the function in a child, which must succeed */
static void
in_child(void (*run)(struct pair_of_ids *p), struct pair_of_ids *p)
{
	int status;
	fflush(NULL);
	await_sleep_of_other_threads();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		deadline_start("a child", CHILD_S);
		run(p);
		end_child(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void
give_receive(struct pair_of_ids *p)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem + 64, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr *bad, recv = { .sg_list = &sge, .num_sge = 1 };
	assert_int_equal(ibv_post_recv(p->passive->qp, &recv, &bad), 0);
}

/* data passes through the connection, both completions arrive, and no event has come */
static void
expect_connection(struct pair_of_ids *p)
{
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr *bad,
		send = { .sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED };
	memset(the_mem, 0, 128);
	memcpy(the_mem, "8 bytes", 8);
	give_receive(p);
	assert_int_equal(ibv_post_send(p->active->qp, &send, &bad), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	assert_memory_equal(the_mem + 64, "8 bytes", 8);
	assert_false(readable(p->channel->fd, 0));
	assert_false(readable(p->listener.channel->fd, 0));
}

/* --- descriptors --- */

/* a child may keep only the descriptors that programs poll, and files */
static void
look_at_descriptors(struct pair_of_ids *p)
{
	(void)p;
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		struct stat st;
		char path[32], target[64] = "";
		if (fstat(fd, &st) != 0)
			continue;
		must(!S_ISSOCK(st.st_mode), "no socket is left");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		must(readlink(path, target, sizeof(target) - 1) > 0, "what a descriptor is of");
		must(strstr(target, "eventpoll") == NULL, "no epoll is left");
	}
}

static void
test_descriptors_are_closed(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	in_child(look_at_descriptors, &p);
	expect_connection(&p);
	pair_fini(&p);
}

/* a descriptor of the application stays open, even if the device used its number before */
static void
look_at_own_descriptor(struct pair_of_ids *p)
{
	(void)p;
	struct stat st;
	must(fstat(p->listener.addr.sin_port, &st) == 0, "the application's descriptor is left");
}

static void
test_descriptors_of_others_stay(void **state)
{
	(void)state;
	int fd = softrdma_fork_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	softrdma_fork_close(fd);
	assert_int_equal(softrdma_fork_owned(-1), -1);
	assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), fd);
	struct pair_of_ids p = { .listener.addr.sin_port = (in_port_t)fd };
	in_child(look_at_own_descriptor, &p);
	close(fd);
}

/* --- objects --- */

static void
use_queues(struct pair_of_ids *p)
{
	struct ibv_wc wc;
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	struct ibv_qp *qp = p->active->qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	must(ibv_poll_cq(the_cq, 1, &wc) < 0, "ibv_poll_cq");
	must(ibv_req_notify_cq(the_cq, 0) == ESTALE, "ibv_req_notify_cq");
	must(ibv_post_send(qp, &send, &bad_send) == ESTALE && bad_send == &send, "ibv_post_send");
	must(ibv_post_recv(qp, &recv, &bad_recv) == ESTALE && bad_recv == &recv, "ibv_post_recv");
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	must(ibv_wr_complete(ex) == ESTALE, "ibv_wr_complete");
	must(softrdma_ibv_modify_qp(qp, &attr, IBV_QP_STATE) == ESTALE, "ibv_modify_qp");
	must(softrdma_ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == ESTALE, "ibv_query_qp");
	must(softrdma_ibv_destroy_qp(qp) == ESTALE, "ibv_destroy_qp");
	must(softrdma_ibv_destroy_cq(the_cq) == ESTALE, "ibv_destroy_cq");
	softrdma_ibv_ack_cq_events(the_cq, 1);
}

/* objects that a test makes before it forks */
static struct {
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
} made;

static void
use_more_queues(struct pair_of_ids *p)
{
	(void)p;
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq *cq;
	void *context;
	must(ibv_start_poll(made.cq, &attr) == ESTALE, "ibv_start_poll");
	must(ibv_next_poll(made.cq) == ESTALE, "ibv_next_poll");
	must(softrdma_ibv_get_cq_event(made.channel, &cq, &context) == -1 && errno == ESTALE,
		"ibv_get_cq_event");
	must(softrdma_ibv_create_cq(softrdma_context(), 1, NULL, made.channel, 0) == NULL && errno == ESTALE,
		"ibv_create_cq");
	must(softrdma_ibv_destroy_comp_channel(made.channel) == ESTALE, "ibv_destroy_comp_channel");
	struct ibv_recv_wr *bad, recv = { 0 };
	must(ibv_post_srq_recv(made.srq, &recv, &bad) == ESTALE && bad == &recv, "ibv_post_srq_recv");
	must(softrdma_ibv_destroy_srq(made.srq) == ESTALE, "ibv_destroy_srq");
}

static void
test_more_objects_of_the_parent(void **state)
{
	(void)state;
	struct ibv_cq_init_attr_ex cq = { .cqe = 4 };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	made.channel = softrdma_ibv_create_comp_channel(softrdma_context());
	made.cq = softrdma_ibv_create_cq_ex(softrdma_context(), &cq);
	made.srq = softrdma_ibv_create_srq(the_pd, &srq);
	assert_true(made.channel && made.cq && made.srq);
	in_child(use_more_queues, NULL);
	assert_int_equal(softrdma_ibv_destroy_srq(made.srq), 0);
	assert_int_equal(softrdma_ibv_destroy_cq(ibv_cq_ex_to_cq(made.cq)), 0);
	assert_int_equal(softrdma_ibv_destroy_comp_channel(made.channel), 0);
}

static struct rdma_cm_event *taken; /* by the parent */

static void
acknowledge(struct pair_of_ids *p)
{
	(void)p;
	must(softrdma_rdma_ack_cm_event(taken) == -1 && errno == ESTALE, "rdma_ack_cm_event");
}

static void
test_event(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
	assert_int_equal(softrdma_rdma_get_cm_event(p.channel, &taken), 0);
	in_child(acknowledge, &p);
	assert_int_equal(softrdma_rdma_ack_cm_event(taken), 0);
	pair_fini(&p);
}

static void
complete_batch(struct pair_of_ids *p)
{
	must(ibv_wr_complete(softrdma_ibv_qp_to_qp_ex(p->active->qp)) == ESTALE, "ibv_wr_complete");
}

/* the parent forks in the middle of a batch: only the parent can send it */
static void
test_batch(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	struct ibv_qp_ex *ex = softrdma_ibv_qp_to_qp_ex(p.active->qp);
	give_receive(&p);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, the_mr->lkey, (uintptr_t)the_mem, 8);
	in_child(complete_batch, &p);
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next_wc().status, IBV_WC_SUCCESS);
	expect_connection(&p);
	pair_fini(&p);
}

static struct ibv_td *the_td;

static void
use_domain(struct pair_of_ids *p)
{
	(void)p;
	char mem[8];
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	must(softrdma_ibv_reg_mr(the_pd, mem, sizeof(mem), 0) == NULL && errno == ESTALE, "ibv_reg_mr");
	must(softrdma_ibv_dereg_mr(the_mr) == ESTALE, "ibv_dereg_mr");
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	must(softrdma_ibv_advise_mr(the_pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == ESTALE,
		"ibv_advise_mr");
	struct ibv_qp_init_attr init = { .send_cq = the_cq, .recv_cq = the_cq, .qp_type = IBV_QPT_RC };
	must(softrdma_ibv_create_qp(the_pd, &init) == NULL && errno == ESTALE, "ibv_create_qp");
	must(softrdma_ibv_create_srq(the_pd, &srq) == NULL && errno == ESTALE, "ibv_create_srq");
	must(softrdma_ibv_create_qp_ex(softrdma_context(), &attr) == NULL && errno == ESTALE,
		"ibv_create_qp_ex");
	must(softrdma_ibv_dealloc_pd(the_pd) == ESTALE, "ibv_dealloc_pd");
	must(ibv_dealloc_td(the_td) == ESTALE, "ibv_dealloc_td");
	struct ibv_parent_domain_init_attr parent = { .pd = the_pd, .td = the_td };
	must(ibv_alloc_parent_domain(the_pd->context, &parent) == NULL && errno == ESTALE,
		"ibv_alloc_parent_domain");
}

static void
use_ids(struct pair_of_ids *p)
{
	struct rdma_cm_id *id = p->active;
	struct rdma_cm_id *new_one;
	struct rdma_cm_event *event;
	struct sockaddr_in addr = loopback(0);
	struct sockaddr *sa = (struct sockaddr *)&addr;
	struct rdma_conn_param param = { 0 };
	struct ibv_qp_init_attr_ex attr = qp_attr();
	struct ibv_qp_attr values = { .qp_state = IBV_QPS_INIT };
	int mask;
	must(softrdma_rdma_create_id(p->channel, &new_one, NULL, RDMA_PS_TCP) && errno == ESTALE,
		"rdma_create_id");
	must(softrdma_rdma_get_cm_event(p->channel, &event) && errno == EBADF, "rdma_get_cm_event");
	must(softrdma_rdma_bind_addr(id, sa) && errno == ESTALE, "rdma_bind_addr");
	must(softrdma_rdma_resolve_addr(id, NULL, sa, 1) && errno == ESTALE, "rdma_resolve_addr");
	must(softrdma_rdma_resolve_route(id, 1) && errno == ESTALE, "rdma_resolve_route");
	must(softrdma_rdma_create_qp_ex(id, &attr) && errno == ESTALE, "rdma_create_qp");
	must(softrdma_rdma_listen(id, 0) && errno == ESTALE, "rdma_listen");
	must(softrdma_rdma_connect(id, &param) && errno == ESTALE, "rdma_connect");
	must(softrdma_rdma_accept(id, &param) && errno == ESTALE, "rdma_accept");
	must(softrdma_rdma_establish(id) && errno == ESTALE, "rdma_establish");
	must(softrdma_rdma_init_qp_attr(id, &values, &mask) && errno == ESTALE, "rdma_init_qp_attr");
	must(softrdma_rdma_reject(id, NULL, 0) && errno == ESTALE, "rdma_reject");
	must(softrdma_rdma_disconnect(id) && errno == ESTALE, "rdma_disconnect");
	must(softrdma_rdma_migrate_id(id, NULL) && errno == ESTALE, "rdma_migrate_id");
	must(softrdma_rdma_set_ack_timeout(id, 1) && errno == ESTALE, "rdma_set_option");
	must(softrdma_rdma_set_family_only(id, true) && errno == ESTALE, "rdma_set_option of the family");
	must(softrdma_rdma_destroy_id(id) && errno == ESTALE, "rdma_destroy_id");
	softrdma_rdma_set_credentials(id, NULL);
	softrdma_rdma_destroy_qp(id);
	softrdma_rdma_destroy_event_channel(p->channel);
	must(id->qp != NULL, "what was to be destroyed is left");
}

static void
use_objects(struct pair_of_ids *p)
{
	use_queues(p);
	use_domain(p);
	use_ids(p);
	must(strstr(log_text, "made before fork(2) and belongs to the parent") != NULL, "a line of the log");
}

static void
test_objects_of_the_parent(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct ibv_td_init_attr attr = { 0 };
	the_td = ibv_alloc_td(softrdma_context(), &attr);
	assert_non_null(the_td);
	pair_init(&p);
	in_child(use_objects, &p);
	expect_connection(&p);
	pair_fini(&p);
	assert_int_equal(ibv_dealloc_td(the_td), 0);
}

/* makes a new connection with the parent's context, which names the device in both processes */
static void
make_own_connection(struct pair_of_ids *p)
{
	struct ibv_context *context = p->active->verbs;
	must(softrdma_is_inherited(context), "the context is the parent's");
	must(softrdma_owns(context), "and one of the device");
	the_pd = softrdma_ibv_alloc_pd(context);
	the_cq = softrdma_ibv_create_cq(context, 64, NULL, NULL, 0);
	must(the_pd && the_cq, "a protection domain and a completion queue");
	the_mr = softrdma_ibv_reg_mr(the_pd, the_mem, sizeof(the_mem), IBV_ACCESS_LOCAL_WRITE);
	must(the_mr != NULL, "a region");
	struct pair_of_ids own;
	pair_init(&own);
	expect_connection(&own);
	pair_fini(&own);
	must(softrdma_ibv_dereg_mr(the_mr) == 0, "ibv_dereg_mr");
	must(softrdma_ibv_destroy_cq(the_cq) == 0, "ibv_destroy_cq");
	must(softrdma_ibv_dealloc_pd(the_pd) == 0, "ibv_dealloc_pd");
}

static void
test_own_device(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	in_child(make_own_connection, &p);
	expect_connection(&p);
	pair_fini(&p);
}

/* the child's registry for processes of the same host is a new one too, without the parent's regions */
static void
test_own_registry(void **state)
{
	(void)state;
	struct pair_of_ids p;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	pair_init(&p);
	in_child(make_own_connection, &p);
	expect_connection(&p);
	pair_fini(&p);
	unsetenv("SOFTRDMA_SAME_HOST");
}

static void
lack_memory(struct pair_of_ids *p)
{
	(void)p;
	fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
	must(softrdma_ibv_alloc_pd(the_pd->context) == NULL, "no domain without memory for a context");
	fail_nothing();
	struct ibv_td_init_attr attr = { 0 };
	fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
	must(ibv_alloc_td(the_pd->context, &attr) == NULL, "no thread domain either");
	fail_nothing();
	struct ibv_pd *own = softrdma_ibv_alloc_pd(the_pd->context);
	must(own && softrdma_ibv_dealloc_pd(own) == 0, "a domain");
}

static void
test_no_memory(void **state)
{
	(void)state;
	in_child(lack_memory, NULL);
}

static void *
hold_manager(void *arg)
{
	sem_t *sems = arg;
	softrdma_cm_lock();
	sem_post(&sems[0]);
	sem_wait(&sems[1]);
	softrdma_cm_unlock();
	return NULL;
}

/* a log function that is called with the connection manager's lock held may fork, and must not deadlock */
static void
test_manager_is_held(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pthread_t thread;
	sem_t sems[2];
	pair_init(&p);
	sem_init(&sems[0], 0, 0);
	sem_init(&sems[1], 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, hold_manager, sems), 0);
	sem_wait(&sems[0]);
	in_child(make_own_connection, &p);
	sem_post(&sems[1]);
	pthread_join(thread, NULL);
	expect_connection(&p);
	pair_fini(&p);
}

static void
be_a_grandparent(struct pair_of_ids *p)
{
	in_child(make_own_connection, p);
	make_own_connection(p);
}

static void
test_child_of_a_child(void **state)
{
	(void)state;
	struct pair_of_ids p;
	pair_init(&p);
	in_child(be_a_grandparent, &p);
	expect_connection(&p);
	pair_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_descriptors_are_closed),
		device_test(test_descriptors_of_others_stay),
		device_test(test_objects_of_the_parent),
		device_test(test_more_objects_of_the_parent),
		device_test(test_event),
		device_test(test_batch),
		device_test(test_own_device),
		device_test(test_own_registry),
		device_test(test_no_memory),
		device_test(test_manager_is_held),
		device_test(test_child_of_a_child),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
