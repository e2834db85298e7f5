/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_advise.c -- memory advice: argument checks, the pages present afterwards, and advice that the kernel
 * lacks
 */

#include <errno.h>

#include "failing.h"
#include "fixture.h"
#include "softrdma/base/copy.h"

#define PAGES 4
#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH IBV_ADVISE_MR_FLAG_FLUSH

static struct ibv_pd *pd, *other_pd;
static size_t page;
static uint8_t *mem; /* not written to yet */
static struct ibv_mr *mr;

static int
setup(void **state)
{
	(void)state;
	quieten();
	page = (size_t)sysconf(_SC_PAGESIZE);
	pd = softrdma_ibv_alloc_pd(softrdma_context());
	other_pd = softrdma_ibv_alloc_pd(softrdma_context());
	mem = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(mem != MAP_FAILED);
	(void)madvise(mem, PAGES * page, MADV_NOHUGEPAGE); /* a huge page could map them all */
	mr = softrdma_ibv_reg_mr(pd, mem, PAGES * page, IBV_ACCESS_LOCAL_WRITE);
	return mr == NULL;
}

static int
teardown(void **state)
{
	(void)state;
	fail_nothing();
	softrdma_ibv_dereg_mr(mr);
	munmap(mem, PAGES * page);
	return softrdma_ibv_dealloc_pd(pd) || softrdma_ibv_dealloc_pd(other_pd);
}

static int
advise(enum ibv_advise_mr_advice advice, uint32_t flags, const struct ibv_mr *of, size_t offset, size_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)of->addr + offset,
		.length = (uint32_t)len,
		.lkey = of->lkey,
	};
	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

/* as a bit mask */
static unsigned
pages_present(void)
{
	unsigned char vec[PAGES];
	unsigned present = 0;
	assert_int_equal(mincore(mem, PAGES * page, vec), 0);
	for (unsigned i = 0; i < PAGES; i++)
		present |= (vec[i] & 1u) << i;
	return present;
}

static bool
kernel_populates(void)
{
	uint8_t *probe = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(probe != MAP_FAILED);
	bool yes = softrdma_copy_prefetch(probe, page) == 0;
	munmap(probe, page);
	return yes;
}

static void
test_pages_are_fetched(void **state)
{
	(void)state;
	if (!kernel_populates()) {
		printf("SKIPPED: the kernel has no MADV_POPULATE_READ\n");
		skip();
	}
	assert_int_equal(pages_present(), 0);
	assert_int_equal(advise(NO_FAULT, FLUSH, mr, 0, PAGES * page), 0);
	assert_int_equal(advise(PREFETCH, FLUSH, mr, page, 0), 0);
	assert_int_equal(pages_present(), 0);

	/* even if only a byte of a page is named, and without waiting for it */
	assert_int_equal(advise(PREFETCH_WRITE, FLUSH, mr, 2 * page - 1, 2), 0);
	assert_int_equal(pages_present(), 0x6);
	assert_int_equal(advise(PREFETCH_WRITE, 0, mr, PAGES * page - 1, 1), 0);
	assert_int_equal(pages_present(), 0xE);

	struct ibv_sge all[PAGES];
	for (size_t i = 0; i < PAGES; i++)
		all[i] = (struct ibv_sge){ .addr = (uintptr_t)(mem + i * page),
			.length = 1,
			.lkey = mr->lkey };
	assert_int_equal(softrdma_ibv_advise_mr(pd, PREFETCH_WRITE, 0, all, PAGES), 0);
	assert_int_equal(pages_present(), 0xF);
}

/* a refused call fetches nothing, not even for the SGEs before the wrong one */
static void
test_refusals(void **state)
{
	(void)state;
	struct ibv_sge sges[2] = {
		{ .addr = (uintptr_t)mem, .length = 1, .lkey = mr->lkey },
		{ .addr = (uintptr_t)mem, .length = 1, .lkey = mr->lkey + 1 },
	};
	assert_int_equal(softrdma_ibv_advise_mr(pd, PREFETCH_WRITE, 0, sges, 2), EFAULT);
	assert_int_equal(softrdma_ibv_advise_mr(pd, PREFETCH_WRITE, 0, sges, 0), EINVAL);
	assert_int_equal(softrdma_ibv_advise_mr(pd, PREFETCH_WRITE, 0, NULL, 1), EINVAL);
	assert_int_equal(softrdma_ibv_advise_mr(other_pd, PREFETCH_WRITE, 0, sges, 1), EPERM);
	assert_int_equal(advise(PREFETCH_WRITE, FLUSH << 1, mr, 0, 1), EINVAL);
	assert_int_equal(advise((enum ibv_advise_mr_advice)(NO_FAULT + 1), 0, mr, 0, 1), EOPNOTSUPP);
	for (enum ibv_advise_mr_advice advice = PREFETCH; advice <= NO_FAULT; advice++) {
		assert_int_equal(advise(advice, 0, mr, PAGES * page, 1), EFAULT);
		assert_int_equal(advise(advice, 0, mr, 1, PAGES * page), EFAULT);
		assert_int_equal(advise(advice, 0, mr, (size_t)-1, 1), EFAULT);
	}
	assert_int_equal(pages_present(), 0);

	struct ibv_mr *read_only = softrdma_ibv_reg_mr(pd, mem, page, IBV_ACCESS_REMOTE_READ);
	assert_non_null(read_only);
	assert_int_equal(advise(PREFETCH_WRITE, 0, read_only, 0, 1), EPERM);
	assert_int_equal(advise(PREFETCH, 0, read_only, 0, 1), 0);
	softrdma_ibv_dereg_mr(read_only);
	assert_int_equal(advise(PREFETCH, 0, &(struct ibv_mr){ .addr = mem, .lkey = 0 }, 0, 1), EFAULT);
}

/* before Linux 5.14 the advice is only a hint, which cannot fail */
static void
test_an_old_kernel(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "madvise", 0, FAIL_FOR_EVER, EINVAL);
	assert_int_equal(advise(PREFETCH, FLUSH, mr, 0, page), 0);
	assert_int_equal(advise(PREFETCH_WRITE, FLUSH, mr, 0, page), 0);
	assert_int_equal(fail_nothing(), 4);
}

static void
test_failures_of_the_kernel(void **state)
{
	(void)state;
	fail_call(FAIL_MINE, "madvise", 0, 1, EHWPOISON);
	assert_int_equal(advise(PREFETCH, FLUSH, mr, 0, page), EFAULT);
	assert_int_equal(fail_nothing(), 1);
	if (kernel_populates()) {
		munmap(mem + page, page);
		assert_int_equal(advise(PREFETCH, FLUSH, mr, 0, PAGES * page), EFAULT);
	}
}

/* after the end of a file: an error, not a signal */
static void
test_a_file_that_ends(void **state)
{
	(void)state;
	if (!kernel_populates()) {
		printf("SKIPPED: the kernel has no MADV_POPULATE_READ\n");
		skip();
	}
	int fd = memfd_create("advice", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
	uint8_t *file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(file != MAP_FAILED);
	struct ibv_mr *of_file = softrdma_ibv_reg_mr(pd, file, 2 * page, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(of_file);
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	assert_int_equal(advise(PREFETCH, FLUSH, of_file, 0, page), 0);
	assert_int_equal(advise(PREFETCH, FLUSH, of_file, 0, 2 * page), EFAULT);
	assert_int_equal(advise(PREFETCH_WRITE, FLUSH, of_file, page, 1), EFAULT);
	softrdma_ibv_dereg_mr(of_file);
	munmap(file, 2 * page);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pages_are_fetched, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_old_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failures_of_the_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_file_that_ends, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
