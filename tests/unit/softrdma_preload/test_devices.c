/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_devices.c -- the list of devices, the context, and its queries */

#include "two_sides.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "softrdma/verbs/device.h"

/* first, because the descriptor for asynchronous events is opened only once */
static void
test_no_descriptor(void **state)
{
	(void)state;
	int count = 7;
	fail_call(FAIL_MINE, "eventfd", 0, FAIL_FOR_EVER, EMFILE);
	assert_null(ibv_open_device(softrdma_context()->device));
	assert_int_equal(errno, EMFILE);
	assert_null(rdma_get_devices(&count));
	assert_int_equal(count, 0);
	struct rdma_cm_id id = { 0 };
	assert_int_equal(softrdma_preload_use_device(&id), ENOMEM);
	fail_nothing();
	assert_int_equal(ibv_close_device(softrdma_context()), EINVAL); /* never opened */
}

static void
test_list(void **state)
{
	(void)state;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_int_equal(count, 1);
	assert_non_null(list[0]);
	assert_null(list[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "softrdma0");
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	assert_true(ibv_get_device_guid(list[0]) != 0);
	struct ibv_context *context = ibv_open_device(list[0]);
	assert_true(softrdma_owns(context));
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(list);
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	ibv_free_device_list(list);
	fail_call(FAIL_MINE, "calloc", 0, FAIL_FOR_EVER, ENOMEM);
	assert_null(ibv_get_device_list(&count));
	assert_int_equal(count, 0);
	assert_null(rdma_get_devices(&count));
	fail_nothing();
	struct ibv_device stranger = { .name = "mlx5_0" };
	assert_null(ibv_open_device(&stranger));
	assert_int_equal(errno, ENODEV);

	struct ibv_context **contexts = rdma_get_devices(&count);
	assert_int_equal(count, 1);
	assert_ptr_equal(contexts[0], context);
	assert_null(contexts[1]);
	rdma_free_devices(contexts);
	contexts = rdma_get_devices(NULL);
	rdma_free_devices(contexts);
}

/* a device that was opened twice must be closed twice; after that its GIDs are invalid */
static void
test_open_and_close(void **state)
{
	(void)state;
	struct ibv_context *context = ibv_open_device(softrdma_context()->device);
	assert_ptr_equal(ibv_open_device(softrdma_context()->device), context);
	union ibv_gid gid, again;
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(ibv_query_gid(context, 1, 0, &again), 0);
	assert_memory_equal(&gid, &again, sizeof(gid));
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(ibv_close_device(context), EINVAL);
	struct ibv_context stranger;
	memset(&stranger, 0, sizeof(stranger));
	assert_int_equal(ibv_close_device(&stranger), EINVAL);
	softrdma_release_gids();
}

static void
test_no_asynchronous_events(void **state)
{
	(void)state;
	struct ibv_context *context = softrdma_preload_context();
	struct ibv_async_event event;
	assert_true(context->async_fd >= 0);
	assert_true(fcntl(context->async_fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

#undef ibv_query_port

static void
test_queries(void **state)
{
	(void)state;
	struct ibv_context *context = softrdma_preload_context();
	struct ibv_device_attr attr;
	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_true(attr.max_qp_rd_atom > 0);

	/* bytes after an old program's shorter structure do not change */
	struct ibv_port_attr port;
	memset(&port, 0x5a, sizeof(port));
	assert_int_equal(ibv_query_port(context, 1, (struct _compat_ibv_port_attr *)&port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.port_cap_flags2, 0x5a5a);
	assert_int_equal(ibv_query_port(context, 2, (struct _compat_ibv_port_attr *)&port), EINVAL);

	__be16 pkey = 0;
	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, htobe16(0xffff));
	assert_int_equal(ibv_get_pkey_index(context, 1, pkey), 0);
	assert_int_equal(ibv_get_pkey_index(context, 1, htobe16(1)), -1);
}

/* the four ways to query a GID agree */
static void
test_gids(void **state)
{
	(void)state;
	struct ibv_context *context = softrdma_preload_context();
	struct ibv_gid_entry entries[64], entry;
	ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
	assert_true(count > 0);
	for (ssize_t i = 0; i < count; i++) {
		union ibv_gid gid;
		unsigned type = 0;
		assert_int_equal(ibv_query_gid(context, 1, (int)i, &gid), 0);
		assert_memory_equal(&gid, &entries[i].gid, sizeof(gid));
		assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0), 0);
		assert_memory_equal(&gid, &entry.gid, sizeof(gid));
		assert_int_equal(ibv_query_gid_type(context, 1, (unsigned)i, &type), 0);
		assert_int_equal(type, SOFTRDMA_GID_TYPE_SYSFS_ROCE_V2);
	}
	softrdma_release_gids();
}

/* a child allocates its own context, which may fail */
static void
test_forked(void **state)
{
	(void)state;
	int count = 0, status = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_int_equal(count, 1);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fail_call(FAIL_MINE, "malloc", 0, 1, ENOMEM);
		bool refused = ibv_open_device(list[0]) == NULL;
		fail_nothing();
		struct ibv_context *context = ibv_open_device(list[0]);
		exit(refused && context && ibv_close_device(context) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	ibv_free_device_list(list);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_descriptor),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_open_and_close),
		cmocka_unit_test(test_no_asynchronous_events),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_gids),
		cmocka_unit_test(test_forked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
