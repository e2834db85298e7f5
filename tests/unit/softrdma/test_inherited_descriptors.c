/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_inherited_descriptors.c -- a program that the application starts inherits no descriptor of the device
 *
 * A listening socket that stays open in a child keeps its port.
 */

#include <dirent.h>
#include <sys/mman.h>

#include "raw_peer.h"

/* counts the open descriptors, and those of them that a child would inherit */
static void
count_inherited(int *open_ptr, int *inherited_ptr)
{
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	*open_ptr = *inherited_ptr = 0;
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		++*open_ptr;
		if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			++*inherited_ptr;
	}
	closedir(dir);
}

static void
test_everything_open(void **state)
{
	(void)state;
	int open_before, inherited_before, open_now, inherited_now;
	count_inherited(&open_before, &inherited_before);

	struct pair_of_ids pair;
	pair_init(&pair);
	struct ibv_comp_channel *channel = softrdma_ibv_create_comp_channel(softrdma_context());
	assert_non_null(channel);
	char path[] = "inherited.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, 4096, SOFTRDMA_ACCESS_FLUSH_PERSISTENT);
	assert_non_null(mr);

	count_inherited(&open_now, &inherited_now);
	/* epoll, eventfd, listener, a socket on each side, three channels, two for the file */
	assert_true(open_now >= open_before + 8);
	assert_int_equal(inherited_now, inherited_before);

	assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
	munmap(mem, 4096);
	close(fd);
	unlink(path);
	softrdma_ibv_destroy_comp_channel(channel);
	pair_fini(&pair);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_everything_open),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
