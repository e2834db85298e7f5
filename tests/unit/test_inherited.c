/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_inherited.c -- which objects a child has inherited, and how their use is refused */

#include <pthread.h>
#include <stdlib.h>

#include "inherited.h"
#include "mock.h"

static const struct ibv_context *asked; /* what the device was asked about last */

static bool
is_of_parent(const struct ibv_context *ctx)
{
	asked = ctx;
	return ctx == &mock.other_ctx;
}

/* the device decides; hardware has no such call, and nothing of it counts as inherited */
static void
test_the_device_decides(void **state)
{
	(void)state;
	struct rdma_api software = { .is_inherited = is_of_parent }, hardware = { 0 };
	struct ibv_cq ibv_cq = { .context = &mock.ctx };
	struct rpma_peer peer = { .rdma = &software, .process = &mock.other_ctx };
	struct rpma_cq cq = { .rdma = &software, .ibv_cq = &ibv_cq };

	assert_true(rpmai_peer_is_inherited(&peer));
	assert_ptr_equal(asked, &mock.other_ctx);
	assert_false(rpmai_cq_is_inherited(&cq));
	assert_ptr_equal(asked, &mock.ctx);
	ibv_cq.context = &mock.other_ctx;
	assert_true(rpmai_cq_is_inherited(&cq));

	asked = NULL;
	peer.rdma = cq.rdma = &hardware;
	assert_false(rpmai_peer_is_inherited(&peer));
	assert_false(rpmai_cq_is_inherited(&cq));
	assert_null(asked);
}

static void
expect_refused(int ret)
{
	assert_int_equal(ret, RPMA_E_PROVIDER);
	assert_non_null(strstr(rpma_errormsg(), "made before fork(2) and belongs to the parent"));
	assert_non_null(strstr(rpma_errormsg(), "make a new one"));
}

#define THREADS 4
#define OBJECTS 50

static void *
bury_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < OBJECTS; i++) {
		char *object = malloc(1);
		assert_non_null(object);
		*object = 'x';
		assert_int_equal(rpmai_bury_inherited(object), RPMA_E_PROVIDER);
		assert_int_equal(*object,
			'x'); /* it was not touched; a sanitizer sees if it was freed or lost */
	}
	return NULL;
}

static void
test_refused_and_kept(void **state)
{
	(void)state;
	static char object = 'x';
	expect_refused(rpmai_refuse_inherited());
	expect_refused(rpmai_bury_inherited(&object));
	assert_int_equal(object, 'x');
	/* without memory it is refused all the same */
	mock.malloc_skip = 0;
	expect_refused(rpmai_bury_inherited(&object));
	mock.malloc_skip = -1;

	/* several threads at once; the log of the mock is that of one thread */
	pthread_t threads[THREADS];
	assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, bury_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_device_decides),
		cmocka_unit_test_setup_teardown(test_refused_and_kept, mock_setup, mock_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
