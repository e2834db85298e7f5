/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* control_line.c -- a line of rpma-perf's control protocol, as it arrives from another machine */

#include <stdlib.h>
#include <string.h>

#include "control_message.h"
#include "fuzz.h"

static struct control_message first, second;

/* the text is printable, and has an end */
static void
check_text(const char text[CONTROL_TEXT_MAX])
{
	size_t len = strnlen(text, CONTROL_TEXT_MAX);

	FUZZ_CHECK(len < CONTROL_TEXT_MAX);
	for (size_t i = 0; i < len; i++)
		FUZZ_CHECK(text[i] >= ' ' && text[i] <= '~');
}

static void
check_load(const struct load *load)
{
	FUZZ_CHECK(load->op < OP_COUNT && load->target_waits < WAY_COUNT);
	FUZZ_CHECK(load->size >= 1 && load->size <= LOAD_SIZE_MAX);
	FUZZ_CHECK(load->depth >= 1 && load->depth <= LOAD_DEPTH_MAX);
	FUZZ_CHECK(load->signal_every >= 1 && load->signal_every <= LOAD_DEPTH_MAX);
	FUZZ_CHECK(load->connections >= 1 && load->connections <= LOAD_CONNECTIONS_MAX);
	FUZZ_CHECK(load->threads >= 1 && load->threads <= load->connections &&
		load->threads <= LOAD_THREADS_MAX);
	/* the sum of all slots does not wrap */
	FUZZ_CHECK(load_target_size(load) / load->connections == load_target_share(load));
}

/* what was understood is understood again, and the same, after it was written as this side writes it */
static void
check_again(void)
{
	char why[WHY_MAX];
	char *line = control_encode(&first);
	size_t len;

	FUZZ_CHECK(line != NULL);
	len = strlen(line);
	FUZZ_CHECK(len > 0 && len <= CONTROL_LINE_MAX && line[len - 1] == '\n');
	memset(&second, 0, sizeof(second));
	FUZZ_CHECK(control_decode(line, len - 1, &second, why));
	char *again = control_encode(&second);
	FUZZ_CHECK(again != NULL && strcmp(line, again) == 0);
	free(again);
	free(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	char why[WHY_MAX];
	unsigned version;

	if (size > CONTROL_LINE_MAX)
		return 0;
	memset(&first, 0, sizeof(first));
	/* what needs no newline is never a message */
	bool is_foreign = control_is_foreign(bytes, size);
	FUZZ_CHECK(!control_is_old(bytes, size, &version) || is_foreign);
	if (!control_decode(bytes, size, &first, why)) {
		FUZZ_CHECK(strnlen(why, WHY_MAX) < WHY_MAX);
		return 0;
	}
	if (first.type == CONTROL_SETUP)
		check_load(&first.load);
	else if (first.type == CONTROL_READY)
		check_text(first.ready.memory);
	else if (first.type == CONTROL_RESULT)
		check_text(first.result.first_wrong);
	else if (first.type == CONTROL_ERROR)
		check_text(first.sentence);
	else if (first.type == CONTROL_FINISH)
		FUZZ_CHECK(first.counts.count >= 1 && first.counts.count <= LOAD_CONNECTIONS_MAX);
	check_again();
	return 0;
}
