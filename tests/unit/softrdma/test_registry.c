/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_registry.c -- what a process shows to other processes on the same host */

#include "connected.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "softrdma/engine/threads.h"
#include "softrdma/samehost/registry.h"

/* registrations with keys that a test chooses; 0: the usual ones */
static uint32_t next_key, key_step;

static int
chosen_random(void *buf, size_t len)
{
	if (next_key == 0 || len != sizeof(next_key))
		return counted_random(buf, len);
	memcpy(buf, &next_key, len);
	next_key += key_step;
	return 0;
}

static int
setup_registry(void **state)
{
	static const struct softrdma_env env = { .random = chosen_random, .log = keep_log };
	int ret = setup_device(state);
	softrdma_set_env(&env);
	return ret;
}

static struct ibv_mr *
new_mr(void)
{
	struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, the_mem + 64, 128, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	return mr;
}

/* maps the registry as another process would: through its descriptor */
static struct softrdma_registry *
look(void)
{
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	assert_non_null(slot);
	int fd = (int)softrdma_registry_offer(slot, 1).fd;
	softrdma_registry_give_slot(slot);
	void *map = mmap(NULL, sizeof(struct softrdma_registry), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	return map;
}

static void
look_away(struct softrdma_registry *registry)
{
	munmap(registry, sizeof(*registry));
}

static const struct softrdma_registry_region *
find(const struct softrdma_registry *registry, uint32_t key)
{
	for (unsigned step = 0; step < SOFTRDMA_REGISTRY_STEPS; step++) {
		const struct softrdma_registry_region *region =
			&registry->regions[softrdma_registry_place(key, step)];
		if (region->key == key)
			return region;
	}
	return NULL;
}

/* nothing is shown unless the setting asks for it */
static void
test_off(void **state)
{
	(void)state;
	static const char *const settings[] = { NULL, "0", "3", "yes" };
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (settings[i])
			setenv("SOFTRDMA_SAME_HOST", settings[i], 1);
		else
			unsetenv("SOFTRDMA_SAME_HOST");
		assert_int_equal(softrdma_threads_start(), 0);
		assert_null(softrdma_registry_take_slot(the_pd));
		softrdma_threads_stop();
	}
}

static void
test_files_are_trusted_on_request(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	assert_false(softrdma_registry_trusts_files());
	softrdma_registry_close();
	setenv("SOFTRDMA_SAME_HOST", "2", 1);
	softrdma_registry_open();
	assert_true(softrdma_registry_trusts_files());
	softrdma_registry_close();
	softrdma_registry_close(); /* closing it is harmless */
}

static void
test_does_not_open(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		unsigned skip;
	} fails[] = { { "memfd_create", 0 }, { "fcntl", 0 }, { "mmap", 0 }, { "fcntl", 1 } };
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++) {
		log_clear();
		fail_call(FAIL_MINE, fails[i].call, fails[i].skip, 1, EMFILE);
		softrdma_registry_open();
		assert_int_equal(fail_nothing(), 1);
		assert_null(softrdma_registry_take_slot(the_pd));
		assert_true(log_has("by TCP") && log_has(strerror(EMFILE)));
		assert_int_equal(log_worst, SOFTRDMA_LOG_WARNING);
	}
	random_error = EIO;
	softrdma_registry_open();
	random_error = 0;
	assert_null(softrdma_registry_take_slot(the_pd));

	/* the device works without a registry, and opens one at the next start */
	fail_call(FAIL_MINE, "pthread_create", 0, 1, EAGAIN);
	assert_int_equal(softrdma_threads_start(), EAGAIN);
	assert_null(softrdma_registry_take_slot(the_pd));
}

/* the mapped file can neither be resized nor written to, and exec() closes its descriptor */
static void
test_cannot_be_changed(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	struct softrdma_shm_offer offer = softrdma_registry_offer(slot, 5);
	struct stat st;
	assert_int_equal(offer.pid, getpid());
	assert_int_equal(offer.number, 5);
	assert_int_equal(fstat((int)offer.fd, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct softrdma_registry));
	assert_int_equal(ftruncate((int)offer.fd, 0), -1);
	assert_int_equal(ftruncate((int)offer.fd, st.st_size + 1), -1);
	assert_int_equal(fcntl((int)offer.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_true(fcntl((int)offer.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(pwrite((int)offer.fd, "x", 1, 0), -1);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (int)offer.fd, 0), MAP_FAILED);
	softrdma_registry_give_slot(slot);
	softrdma_registry_close();
}

static void
test_regions(void **state)
{
	(void)state;
	struct ibv_mr *before = new_mr();
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	assert_int_equal(softrdma_threads_start(), 0);
	struct softrdma_registry *registry = look();
	wait_until(softrdma_registry_is_held(&registry->alive));
	struct ibv_mr *after = new_mr();
	const struct ibv_mr *const shown[] = { before, after, the_mr };
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		const struct softrdma_registry_region *region = find(registry, shown[i]->rkey);
		assert_non_null(region);
		assert_int_equal(region->addr, (uintptr_t)shown[i]->addr);
		assert_int_equal(region->length, shown[i]->length);
		assert_int_equal(region->pd, (uintptr_t)the_pd);
		assert_int_equal(region->access, ((const struct softrdma_mr *)shown[i])->access);
	}
	assert_int_not_equal(find(registry, before->rkey)->serial, find(registry, after->rkey)->serial);

	/* an empty region is not shown */
	struct ibv_mr *empty = softrdma_ibv_reg_mr(the_pd, the_mem, 0, 0);
	assert_null(find(registry, empty->rkey));
	softrdma_ibv_dereg_mr(empty);

	uint32_t key = before->rkey;
	assert_int_equal(softrdma_ibv_dereg_mr(before), 0);
	assert_null(find(registry, key));
	assert_non_null(find(registry, after->rkey));

	/* a region outlives the registry, and is shown in the next one */
	look_away(registry);
	softrdma_threads_stop();
	assert_int_equal(softrdma_threads_start(), 0);
	registry = look();
	assert_non_null(find(registry, after->rkey));
	look_away(registry);
	softrdma_threads_stop();
	assert_int_equal(softrdma_ibv_dereg_mr(after), 0);
}

/* The place of a hidden region is not reused before its users have left the memory. */
static void
test_place_is_kept(void **state)
{
	(void)state;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	struct softrdma_registry *registry = look();
	next_key = 0x10007;
	key_step = SOFTRDMA_REGISTRY_REGIONS;
	struct ibv_mr *one = new_mr();
	softrdma_mr_remove((struct softrdma_mr *)one);
	softrdma_registry_hide((struct softrdma_mr *)one);
	assert_int_equal(registry->regions[softrdma_registry_place(0x10007, 0)].key, 0);
	struct ibv_mr *two = new_mr();
	assert_int_equal(registry->regions[softrdma_registry_place(0x10007, 0)].key, 0);
	assert_int_equal(registry->regions[softrdma_registry_place(0x10007, 1)].key, two->rkey);
	softrdma_registry_forget((struct softrdma_mr *)one);
	softrdma_mr_delete((struct softrdma_mr *)one);
	struct ibv_mr *three = new_mr();
	assert_int_equal(registry->regions[softrdma_registry_place(0x10007, 0)].key, three->rkey);
	next_key = 0;
	softrdma_ibv_dereg_mr(two);
	softrdma_ibv_dereg_mr(three);
	look_away(registry);
	softrdma_registry_close();
}

/* regions for which there is no free place are not shown, and still work */
static void
test_no_place_left(void **state)
{
	(void)state;
	struct ibv_mr *mrs[SOFTRDMA_REGISTRY_STEPS + 1];
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	struct softrdma_registry *registry = look();
	next_key = 0x20000 + SOFTRDMA_REGISTRY_REGIONS - 3; /* the search wraps around */
	key_step = SOFTRDMA_REGISTRY_REGIONS;
	for (unsigned i = 0; i <= SOFTRDMA_REGISTRY_STEPS; i++)
		mrs[i] = new_mr();
	next_key = 0;
	for (unsigned i = 0; i <= SOFTRDMA_REGISTRY_STEPS; i++)
		assert_int_equal(find(registry, mrs[i]->rkey) != NULL, i < SOFTRDMA_REGISTRY_STEPS);
	for (unsigned i = 0; i <= SOFTRDMA_REGISTRY_STEPS; i++)
		assert_int_equal(softrdma_ibv_dereg_mr(mrs[i]), 0);
	look_away(registry);
	softrdma_registry_close();
}

static void *
take_and_leave(void *mutex)
{
	assert_int_equal(pthread_mutex_lock(mutex), 0);
	return NULL;
}

/* a held mutex is detected, and so is the death of its owner */
static void
test_who_is_inside(void **state)
{
	(void)state;
	pthread_t thread;
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	assert_false(softrdma_registry_is_held(&slot->inside));
	pthread_mutex_lock(&slot->inside);
	assert_true(softrdma_registry_is_held(&slot->inside));
	pthread_mutex_unlock(&slot->inside);
	assert_false(softrdma_registry_is_held(&slot->inside));
	assert_int_equal(pthread_create(&thread, NULL, take_and_leave, &slot->inside), 0);
	pthread_join(thread, NULL);
	assert_false(softrdma_registry_is_held(&slot->inside));
	assert_int_not_equal(slot->inside.__data.__lock, 0);
	softrdma_registry_close();
}

static void
test_slots(void **state)
{
	(void)state;
	static struct softrdma_registry_slot *slots[SOFTRDMA_REGISTRY_SLOTS];
	setenv("SOFTRDMA_SAME_HOST", "1", 1);
	softrdma_registry_open();
	for (unsigned i = 0; i < SOFTRDMA_REGISTRY_SLOTS; i++) {
		slots[i] = softrdma_registry_take_slot(the_pd);
		assert_non_null(slots[i]);
		assert_int_equal(slots[i]->pd, (uintptr_t)the_pd);
		assert_int_equal(slots[i]->open, 0);
		assert_int_equal(softrdma_registry_offer(slots[i], 1).slot, i);
	}
	assert_null(softrdma_registry_take_slot(the_pd));
	softrdma_registry_give_slot(slots[77]);
	assert_ptr_equal(softrdma_registry_take_slot(&the_mem), slots[77]);
	assert_int_equal(slots[77]->pd, (uintptr_t)&the_mem);
	softrdma_registry_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_off),
		device_test(test_files_are_trusted_on_request),
		device_test(test_does_not_open),
		device_test(test_cannot_be_changed),
		device_test(test_regions),
		device_test(test_place_is_kept),
		device_test(test_no_place_left),
		device_test(test_who_is_inside),
		device_test(test_slots),
	};
	return cmocka_run_group_tests(tests, setup_registry, teardown_device);
}
