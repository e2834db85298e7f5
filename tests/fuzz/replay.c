/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* replay.c -- gives files to a target, one after another: corpora, and inputs that a fuzzer has found */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

/* no input of a corpus is longer */
#define INPUT_MAX ((size_t)1 << 20)

static unsigned long replayed;

static _Noreturn void
failed(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	exit(EXIT_FAILURE);
}

static void
replay_file(const char *path)
{
	static uint8_t bytes[INPUT_MAX];
	FILE *f = fopen(path, "re");
	uint8_t *input;
	size_t size;

	if (!f)
		failed(path);
	size = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	/* allocated at the exact size, so that a sanitizer sees a read past its end */
	input = malloc(size ? size : 1);
	if (!input)
		failed(path);
	memcpy(input, bytes, size);
	LLVMFuzzerTestOneInput(input, size);
	free(input);
	replayed++;
}

static int
is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void
replay(const char *path)
{
	struct dirent **entries;
	struct stat st;
	char name[4096];
	int count;

	if (stat(path, &st))
		failed(path);
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path);
		return;
	}
	count = scandir(path, &entries, is_visible, alphasort);
	if (count < 0)
		failed(path);
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		free(entries[i]);
		replay_file(name);
	}
	free(entries);
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%lu inputs replayed\n", replayed);
	/* fails if there was no input: a corpus is not where it should be */
	return replayed ? EXIT_SUCCESS : EXIT_FAILURE;
}
