/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* fault_plan.c -- the fault plan in force: SOFTRDMA_FAULTS, or the file that it names */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/base/env.h"
#include "softrdma/base/high_fd.h"
#include "softrdma/base/tables_lock.h"
#include "softrdma/base/variables.h"
#include "softrdma/bounds.h"
#include "softrdma/faults/fault_plan.h"

/* characters of the variable that a log line shows */
#define SHOWN_MAX 200

static struct softrdma_fault_plan *in_force; /* NULL: none */

/* --- reading --- */

/* reads the descriptor up to its end; 0 with the length, or an errno value */
static int
read_to_end(int fd, char text[static SOFTRDMA_FAULT_TEXT_MAX], size_t *len)
{
	for (*len = 0;;) {
		/* if the buffer is full, reads one byte more to find out whether the file ends there */
		char more;
		bool full = *len == SOFTRDMA_FAULT_TEXT_MAX;
		ssize_t n = read(fd, full ? &more : text + *len, full ? 1 : SOFTRDMA_FAULT_TEXT_MAX - *len);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0 && full)
			return EFBIG;
		if (n > 0)
			*len += (size_t)n;
	}
}

/* 0 with the file's text, which the caller frees, or an errno value */
static int
read_file(const char *path, char **text, size_t *len)
{
	int fd = softrdma_high_fd(open(path, O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return errno;
	int ret = ENOMEM;
	*text = malloc(SOFTRDMA_FAULT_TEXT_MAX);
	if (*text)
		ret = read_to_end(fd, *text, len);
	if (ret)
		free(*text);
	close(fd);
	return ret;
}

/* makes a plan from this text, with a reference; 0, EINVAL or ENOMEM */
static int
new_plan(const char *text, size_t len, struct softrdma_fault_plan **plan_ptr)
{
	struct softrdma_fault_plan *plan = calloc(1, sizeof(*plan) + len);
	if (plan == NULL)
		return ENOMEM;
	struct softrdma_fault_error error;
	if (!softrdma_fault_spec_parse(text, len, &plan->spec, &error)) {
		/*
		 * message(environment, faults): the word in quotes is wrong; the reason follows -> INJECTED
		 * FAULTS in softrdma(7) has the words.
		 */
		if (error.line > 0)
			SOFTRDMA_LOG(ERROR, "SOFTRDMA_FAULTS, line %u: \"%s\": %s", error.line, error.word,
				error.why);
		else
			/* message(faults) */
			SOFTRDMA_LOG(ERROR, "SOFTRDMA_FAULTS: \"%s\": %s", error.word, error.why);
		free(plan);
		return EINVAL;
	}
	atomic_init(&plan->refs, 1);
	plan->len = len;
	memcpy(plan->text, text, len);
	*plan_ptr = plan;
	return 0;
}

/* logs a warning, so that readers of the log do not take injected faults for real ones */
static void
tell(const char *setting, const struct softrdma_fault_plan *plan)
{
	char shown[SHOWN_MAX + 1];
	size_t len = 0;
	for (; *setting && len < SHOWN_MAX; setting++, len++) {
		shown[len] = *setting;
		if (*setting < ' ' || *setting > '~')
			shown[len] = '?';
	}
	shown[len] = '\0';
	/*
	 * message(environment): `SOFTRDMA_FAULTS` is in force -> Unset it where connections must not break.
	 */
	SOFTRDMA_LOG(WARNING,
		"faults are injected into this process, as SOFTRDMA_FAULTS asks: %s (seed %llu)", shown,
		(unsigned long long)plan->spec.word[SOFTRDMA_FAULT_SEED].value);
}

static bool
is_of(const struct softrdma_fault_plan *plan, const char *text, size_t len)
{
	return plan && plan->len == len && memcmp(plan->text, text, len) == 0;
}

/* the reference becomes that of the process; NULL: no plan is in force */
static void
put_in_force(struct softrdma_fault_plan *plan)
{
	softrdma_tables_lock();
	struct softrdma_fault_plan *before = in_force;
	in_force = plan;
	softrdma_tables_unlock();
	softrdma_fault_plan_put(before);
}

static int
read_setting(const char *setting)
{
	char *file = NULL;
	const char *text = setting;
	size_t len = strlen(setting);
	int ret = 0;
	if (*setting == '@') {
		ret = read_file(setting + 1, &file, &len);
		text = file;
	}
	if (ret) {
		/* message(faults) */
		SOFTRDMA_LOG(ERROR, "SOFTRDMA_FAULTS: the file %s cannot be read: %s", setting + 1,
			strerror(ret));
		return ret == ENOMEM ? ENOMEM : EINVAL;
	}
	assert(text); /* the file's, if there is one */
	struct softrdma_fault_plan *now = softrdma_fault_plan_get();
	if (!is_of(now, text, len)) {
		struct softrdma_fault_plan *plan;
		ret = new_plan(text, len, &plan);
		if (ret == 0) {
			tell(setting, plan);
			put_in_force(plan);
		}
	}
	softrdma_fault_plan_put(now);
	free(file);
	return ret;
}

int
softrdma_fault_plan_read(void)
{
	const char *setting = softrdma_variable("SOFTRDMA_FAULTS");
	if (setting)
		return read_setting(setting);
	put_in_force(NULL);
	return 0;
}

/* --- the plan in force --- */

struct softrdma_fault_plan *
softrdma_fault_plan_get(void)
{
	softrdma_tables_lock();
	struct softrdma_fault_plan *plan = in_force;
	if (plan)
		atomic_fetch_add(&plan->refs, 1);
	softrdma_tables_unlock();
	return plan;
}

void
softrdma_fault_plan_put(struct softrdma_fault_plan *plan)
{
	if (plan && atomic_fetch_sub(&plan->refs, 1) == 1)
		free(plan);
}

bool
softrdma_fault_plan_rejects(void)
{
	struct softrdma_fault_plan *plan = softrdma_fault_plan_get();
	bool rejects = plan &&
		softrdma_fault_spec_strike(&plan->spec, SOFTRDMA_FAULT_REJECT, 0,
			atomic_fetch_add(&plan->requests, 1) + 1);
	softrdma_fault_plan_put(plan);
	return rejects;
}
