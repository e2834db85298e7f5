/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* disk_case.c -- what the tests of disks share: a disk of nbdkit-rpma-plugin at a keeper, and what it has told */

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "deadline.h"
#include "disk_case.h"
#include "disk_internal.h"
#include "pattern.h"

#define LINES 256
#define AWAIT_LINK_MS 20000

static char said[LINES][WHY_MAX];
static atomic_uint said_count;

static void
say(const char *text)
{
	unsigned i = atomic_fetch_add(&said_count, 1);

	snprintf(said[i % LINES], WHY_MAX, "%s", text);
}

struct disk_config
case_config(const struct keeper_process *keeper, int timeout_ms, size_t journal_size)
{
	case_forget_lines();
	atomic_store(&said_count, 0);
	return (struct disk_config){
		.host = KEEPER_ADDRESS,
		.port = keeper->port,
		.name = KEEPER_NAME,
		.timeout_ms = timeout_ms,
		.journal_size = journal_size,
		.say = say,
	};
}

bool
case_was_said(const char *text)
{
	for (int i = 0; i < LINES; i++)
		if (strstr(said[i], text))
			return true;
	return false;
}

const char *
case_last_said(void)
{
	return said[(atomic_load(&said_count) + LINES - 1) % LINES];
}

unsigned
case_said_count(void)
{
	return atomic_load(&said_count);
}

void
case_forget_lines(void)
{
	memset(said, 0, sizeof(said));
}

void
case_opens(const struct disk_config *config, struct disk_facts *facts, struct disk **disk)
{
	char why[WHY_MAX] = "";

	if (!disk_probe(config, facts, why) || !disk_start(config, facts, disk, why))
		fail_msg("%s", why);
}

void
case_starts(struct keeper_process *keeper, const struct disk_config *config, struct disk_facts *facts,
	struct disk **disk)
{
	keeper_process_start(keeper);
	case_opens(config, facts, disk);
}

void
case_ends(struct keeper_process *keeper, struct disk **disk)
{
	unsetenv("SOFTRDMA_FAULTS");
	disk_stop(disk);
	keeper_process_fini(keeper);
	deadline_stop();
}

void
case_file_has(const struct keeper_process *keeper, uint64_t seed, uint64_t offset, size_t len)
{
	uint8_t *buf = malloc(len);
	int fd = open(keeper_process_path(keeper, "disk"), O_RDONLY | O_CLOEXEC);

	assert_true(buf && fd >= 0);
	assert_int_equal(pread(fd, buf, len, (off_t)offset), len);
	assert_int_equal(pattern_check(buf, len, seed, offset), -1);
	close(fd);
	free(buf);
}

void
case_refuses(const struct disk_config *config, const char *sentence)
{
	struct disk_facts facts;
	struct disk *disk = NULL;
	char why[WHY_MAX] = "";

	assert_false(disk_probe(config, &facts, why) && disk_start(config, &facts, &disk, why));
	if (strstr(why, sentence) == NULL)
		fail_msg("does not say \"%s\" but \"%s\"", sentence, why);
}

void
case_await_link(struct disk *disk)
{
	const int64_t end = now_ms() + AWAIT_LINK_MS;

	for (bool up = false; !up;) {
		assert_true(now_ms() < end);
		(void)usleep(1000);
		pthread_mutex_lock(&disk->lock);
		up = disk->state == LINK_UP;
		pthread_mutex_unlock(&disk->lock);
	}
}

struct rpma_peer *
case_peer(void)
{
	struct ibv_context *context;
	struct rpma_peer *peer = NULL;

	assert_int_equal(rpma_utils_get_ibv_context(KEEPER_ADDRESS, RPMA_UTIL_IBV_CONTEXT_REMOTE, &context),
		0);
	assert_int_equal(rpma_peer_new(context, &peer), 0);
	return peer;
}
