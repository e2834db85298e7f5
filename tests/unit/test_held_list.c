/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_held_list.c -- the spare lists of a peer, for requests that RPMA_F_MORE holds back */

#include <string.h>

#include "held_list.h"
#include "mock.h"

#define SIZE 100

static struct held_spares spares;

static struct held_list *
take(size_t size)
{
	struct held_list *list = rpmai_held_list_take(&spares, size);
	assert_non_null(list);
	assert_true(list->size >= size);
	assert_true((uintptr_t)list->room % 16 == 0);
	memset(list->room, 0x3c, size);
	return list;
}

static void
the_last_one_comes_first(void **state)
{
	(void)state;
	rpmai_held_spares_init(&spares);
	struct held_list *first = take(SIZE), *second = take(SIZE);
	rpmai_held_list_return(&spares, first);
	rpmai_held_list_return(&spares, second);
	rpmai_held_list_return(&spares, NULL);
	assert_ptr_equal(take(SIZE), second);
	assert_ptr_equal(take(SIZE - 1), first);

	/* one that is too small is replaced */
	rpmai_held_list_return(&spares, first);
	struct held_list *larger = take(SIZE + 1);
	assert_null(spares.first);
	rpmai_held_list_return(&spares, larger);
	rpmai_held_list_return(&spares, second);
	rpmai_held_spares_fini(&spares);
}

static void
there_is_no_memory(void **state)
{
	(void)state;
	rpmai_held_spares_init(&spares);
	mock.malloc_skip = 0;
	assert_null(rpmai_held_list_take(&spares, SIZE));
	rpmai_held_list_return(&spares, take(SIZE));
	mock.malloc_skip = 0;
	assert_null(rpmai_held_list_take(&spares, SIZE + 1));
	assert_null(spares.first);
	rpmai_held_spares_fini(&spares);
}

static void
one_ends_at_a_time(void **state)
{
	(void)state;
	rpmai_held_spares_init(&spares);
	struct held_list *first = take(SIZE), *second = take(SIZE);
	rpmai_held_spares_shrink(&spares); /* both are in use */
	rpmai_held_list_return(&spares, first);
	rpmai_held_list_return(&spares, second);
	rpmai_held_spares_shrink(&spares);
	assert_ptr_equal(spares.first, first);
	rpmai_held_spares_shrink(&spares);
	assert_null(spares.first);
	rpmai_held_spares_fini(&spares);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_one_comes_first, mock_setup, mock_teardown),
		cmocka_unit_test_setup_teardown(there_is_no_memory, mock_setup, mock_teardown),
		cmocka_unit_test_setup_teardown(one_ends_at_a_time, mock_setup, mock_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
