/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* deadline.c -- a deadline for the whole process */

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"

static const char *volatile deadline_name = "";
static unsigned factor = 1;

static void
say(const char *text)
{
	ssize_t n = write(STDERR_FILENO, text, strlen(text));

	(void)n; /* nothing can be done if it fails */
}

static void
on_alarm(int sig)
{
	(void)sig;
	say("DEADLINE: ");
	say(deadline_name);
	say("\n");
	_exit(DEADLINE_EXIT_CODE);
}

static void
read_factor(void)
{
	const char *text = getenv("TEST_DEADLINE_FACTOR");
	unsigned long value = text ? strtoul(text, NULL, 10) : 1;

	if (value >= 1 && value <= 1000)
		factor = (unsigned)value;
}

unsigned
deadline_scaled(unsigned seconds)
{
	/* read once, because another thread of the test may change the environment later */
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_factor);
	return seconds * factor;
}

void
deadline_start(const char *name, unsigned seconds)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_alarm;
	deadline_name = name;
	sigaction(SIGALRM, &sa, NULL);
	alarm(deadline_scaled(seconds));
}

void
deadline_stop(void)
{
	alarm(0);
}

int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
left_ms(int64_t end_ms)
{
	int64_t left = end_ms - now_ms();

	if (left < 0)
		return 0;
	return left > INT_MAX ? INT_MAX : (int)left;
}
