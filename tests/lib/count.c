/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* count.c -- descriptors and threads of this process */

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "count.h"
#include "deadline.h"

static int
count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (!dir)
		abort();
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

int
count_fds(void)
{
	return count_entries("/proc/self/fd") - 1; /* without the descriptor of opendir() */
}

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1 /* gcc's name for it */
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_SANITIZER_THREAD 1
#else
#define HAS_SANITIZER_THREAD 0
#endif

#ifdef IN_EMULATOR
#define HAS_EMULATOR 1
#else
#define HAS_EMULATOR 0
#endif

bool
in_thread_sanitizer(void)
{
	return HAS_SANITIZER_THREAD;
}

bool
in_emulator(void)
{
	return HAS_EMULATOR;
}

/*
 * A program for another processor runs in the process of an emulator, which has threads of its own. Before main(), and in
 * a new child of fork(), all threads but the calling one are those.
 */
static int emulator_threads;

static void
count_emulator_threads(void)
{
	emulator_threads = count_entries("/proc/self/task") - 1;
}

static void __attribute__((constructor)) watch_emulator_threads(void)
{
	if (!in_emulator())
		return;
	count_emulator_threads();
	if (pthread_atfork(NULL, NULL, count_emulator_threads))
		abort();
}

int
count_threads(void)
{
	int n = count_entries("/proc/self/task") - emulator_threads;
	/* the thread sanitizer adds a thread of its own when the program starts its first one */
	return HAS_SANITIZER_THREAD && n > 1 ? n - 1 : n;
}

int
count_settle(int (*count)(void), int limit, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms;
	int n = count();

	/* nothing reports that a thread has left /proc, so look again */
	while (n > limit && left_ms(end) > 0) {
		poll(NULL, 0, 5);
		n = count();
	}
	return n;
}

/* a thread that has ended meanwhile does not run */
static bool
sleeps(const char *tid)
{
	char path[300], state = 'S';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'S';
	fclose(file);
	return state == 'S';
}

bool
other_threads_sleep(void)
{
	DIR *dir = opendir("/proc/self/task");
	bool all = true;

	if (!dir)
		abort();
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		bool other = e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != (long)gettid();
		all = (!other || sleeps(e->d_name)) && all;
	}
	closedir(dir);
	return all;
}

void
await_sleep_of_other_threads(void)
{
	while (!other_threads_sleep())
		sched_yield();
}
