/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "greeting.h"
#include "text.h"

#define SIGNATURE "RPMA-GREETING-1" /* 16 bytes with the terminating zero */
#define SIGNATURE_SIZE sizeof(SIGNATURE)

static void
persist(struct greeting_memory *mem, const void *ptr, size_t size)
{
	if (mem->file.map)
		mem->file.persist(ptr, size);
}

static int
map_file(const char *path, struct greeting_memory *mem)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		perror(path);
		return -1;
	}
	int ret = persistent_map(fd, path, true, &mem->file);
	close(fd);

	return ret;
}

static int
open_file(const char *path, size_t offset, const char *initial, struct greeting_memory *mem)
{
	if (map_file(path, mem))
		return -1;
	if (offset > mem->file.size || mem->file.size - offset < SIGNATURE_SIZE + GREETING_SIZE) {
		fprintf(stderr, "%s: too small: %zu bytes are needed from offset %zu on\n", path,
			SIGNATURE_SIZE + GREETING_SIZE, offset);
		return -1;
	}

	char *signature = (char *)mem->file.ptr + offset;
	mem->ptr = mem->file.ptr;
	mem->text_offset = offset + SIGNATURE_SIZE;
	/* the other side must not reach the rest of the file, which may be large */
	mem->size = mem->text_offset + GREETING_SIZE;
	if (memcmp(signature, SIGNATURE, SIGNATURE_SIZE) != 0) {
		greeting_replace(mem, initial);
		memcpy(signature, SIGNATURE, SIGNATURE_SIZE);
	}
	/* also if it was there: an earlier process may have died before it was durable */
	persist(mem, signature, SIGNATURE_SIZE);

	return 0;
}

int
greeting_open(const char *path, size_t offset, const char *initial, struct greeting_memory *mem)
{
	*mem = (struct greeting_memory){ 0 };
	if (path) {
		int ret = open_file(path, offset, initial, mem);
		if (ret)
			greeting_close(mem);
		return ret;
	}

	fprintf(stderr, "no persistent memory was given: volatile memory is used\n");
	mem->ptr = memory_new(GREETING_SIZE);
	if (mem->ptr == NULL)
		return -1;
	mem->size = GREETING_SIZE;
	greeting_replace(mem, initial);

	return 0;
}

void
greeting_close(struct greeting_memory *mem)
{
	if (mem->file.map)
		persistent_unmap(&mem->file);
	else
		free(mem->ptr);
	mem->ptr = NULL;
}

char *
greeting_text(struct greeting_memory *mem)
{
	char *text = (char *)mem->ptr + mem->text_offset;

	text[GREETING_SIZE - 1] = '\0';
	return text;
}

void
greeting_print(const char *label, struct greeting_memory *mem)
{
	char text[GREETING_SIZE];

	printf("%s: %s\n", label,
		text_copy(text, sizeof(text), (char *)mem->ptr + mem->text_offset, GREETING_SIZE));
}

void
greeting_replace(struct greeting_memory *mem, const char *text)
{
	char *dst = (char *)mem->ptr + mem->text_offset;

	memset(dst, 0, GREETING_SIZE);
	snprintf(dst, GREETING_SIZE, "%s", text);
	persist(mem, dst, GREETING_SIZE);
}

void
greeting_persist(struct greeting_memory *mem)
{
	persist(mem, greeting_text(mem), GREETING_SIZE);
}

void
greeting_translate(struct greeting_memory *mem)
{
	bool is_first = strcmp(greeting_text(mem), GREETING_FIRST) == 0;

	printf("translating...\n");
	greeting_replace(mem, is_first ? "¡Hola Mundo!" : GREETING_FIRST);
	greeting_print("Translation", mem);
}
