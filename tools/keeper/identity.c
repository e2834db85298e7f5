/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* identity.c -- what tells memory that a client knows from other memory of the same name */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "identity.h"

#define FORMAT_VERSION 1
#define STAMP "user.rpma-keeper"
#define STAMP_FAILED " failed"

bool
identity_of_file(int fd, struct identity_file *file, char why[static WHY_MAX])
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx))
		return why_say(why, "statx: %m");
	*file = (struct identity_file){ .inode = stx.stx_ino };
	if (stx.stx_mask & STATX_BTIME) {
		file->born_s = stx.stx_btime.tv_sec;
		file->born_ns = stx.stx_btime.tv_nsec;
	}
	return true;
}

bool
identity_new(struct identity *identity, const struct identity_file *file, char why[static WHY_MAX])
{
	*identity = (struct identity){ .file = *file };
	if (getrandom(identity->id, sizeof(identity->id), 0) != (ssize_t)sizeof(identity->id))
		return why_say(why, "getrandom: %m");
	return true;
}

void
identity_text(const uint8_t id[static KEEPER_IDENTITY_SIZE], char text[static IDENTITY_TEXT_SIZE])
{
	for (size_t i = 0; i < KEEPER_IDENTITY_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static bool
id_parse(const char *text, uint8_t id[static KEEPER_IDENTITY_SIZE])
{
	if (strlen(text) != 2 * KEEPER_IDENTITY_SIZE ||
		strspn(text, "0123456789abcdef") != 2 * KEEPER_IDENTITY_SIZE)
		return false;
	for (size_t i = 0; i < KEEPER_IDENTITY_SIZE; i++) {
		const char digits[] = { text[2 * i], text[2 * i + 1], '\0' };
		id[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return true;
}

/* JSON's integers are signed, so the client's number is text */
static bool
writer_parse(const char *text, uint64_t *writer)
{
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return false;
	*writer = strtoull(text, NULL, 16);
	return true;
}

enum identity_found
identity_load(const char *path, const struct identity_file *file, struct identity *identity,
	char why[static WHY_MAX])
{
	const char *id_string, *writer_string;
	json_int_t version, inode, born_s, born_ns;
	int failed = false; /* records that were written before there was this member lack it */
	json_error_t error;
	struct identity found = { 0 };

	FILE *stream = fopen(path, "re");
	if (stream == NULL) {
		if (errno == ENOENT)
			return IDENTITY_NONE;
		why_say(why, "opening %s: %m", path);
		return IDENTITY_UNREADABLE;
	}
	json_t *root = json_loadf(stream, JSON_REJECT_DUPLICATES, &error);
	fclose(stream);
	bool good = root &&
		json_unpack_ex(root, &error, 0, "{s:I, s:s, s:s, s:I, s:I, s:I, s?b}", "version", &version,
			"identity", &id_string, "last_writer", &writer_string, "inode", &inode, "born_s",
			&born_s, "born_ns", &born_ns, "failed", &failed) == 0;
	if (!good)
		why_say(why, "%s is no record of an identity: %s", path, error.text);
	else if (version != FORMAT_VERSION || !id_parse(id_string, found.id) ||
		!writer_parse(writer_string, &found.last_writer))
		good = why_say(why, "%s is no record of an identity of version %d", path, FORMAT_VERSION);
	json_decref(root);
	if (!good)
		return IDENTITY_UNREADABLE;

	found.file = *file;
	found.failed = failed;
	if ((uint64_t)inode != file->inode || born_s != file->born_s || born_ns != (json_int_t)file->born_ns)
		return IDENTITY_OF_ANOTHER_FILE;
	*identity = found;
	return IDENTITY_FOUND;
}

enum durable_file_result
identity_store(const char *path, const struct identity *identity, char why[static WHY_MAX])
{
	char id[IDENTITY_TEXT_SIZE], writer[17];

	identity_text(identity->id, id);
	snprintf(writer, sizeof(writer), "%016" PRIx64, identity->last_writer);
	json_t *root = json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:b}", "version", (json_int_t)FORMAT_VERSION,
		"identity", id, "last_writer", writer, "inode", (json_int_t)identity->file.inode, "born_s",
		(json_int_t)identity->file.born_s, "born_ns", (json_int_t)identity->file.born_ns, "failed",
		(int)identity->failed);
	char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	/* with the number of the last writer, others could resume in its place */
	enum durable_file_result result = DURABLE_FILE_AS_BEFORE;
	if (text)
		result = durable_file_replace(path, text, 0600, true, why);
	else
		why_say(why, "out of memory");
	free(text);
	json_decref(root);
	return result;
}

bool
identity_stamp_load(int fd, struct identity_stamp *stamp, char why[static WHY_MAX])
{
	char text[IDENTITY_TEXT_SIZE + sizeof(STAMP_FAILED)] = "";

	*stamp = (struct identity_stamp){ .is_there = false };
	const ssize_t len = fgetxattr(fd, STAMP, text, sizeof(text) - 1);
	if (len < 0 && (errno == ENODATA || errno == ENOTSUP))
		return true;
	/*
	 * message(keeper, attribute): status 1: what tells which record belongs to the file -> Look at the
	 * disk. If the memory is to be new: `setfattr -x user.rpma-keeper FILE`, and remove the record.
	 */
	if (len < 0)
		return why_say(why, "the attribute user.rpma-keeper cannot be read: %m");
	stamp->failed = len >= IDENTITY_TEXT_SIZE && strcmp(text + IDENTITY_TEXT_SIZE - 1, STAMP_FAILED) == 0;
	/* message(attribute) */
	if (len != IDENTITY_TEXT_SIZE - 1 && !stamp->failed)
		return why_say(why, "the attribute user.rpma-keeper is no identity: %s", text);
	text[IDENTITY_TEXT_SIZE - 1] = '\0';
	stamp->is_there = id_parse(text, stamp->id);
	return stamp->is_there || why_say(why, "the attribute user.rpma-keeper is no identity: %s", text);
}

bool
identity_stamp_store(int fd, const struct identity *identity, char why[static WHY_MAX])
{
	char text[IDENTITY_TEXT_SIZE + sizeof(STAMP_FAILED)];

	identity_text(identity->id, text);
	snprintf(text + IDENTITY_TEXT_SIZE - 1, sizeof(STAMP_FAILED), "%s",
		identity->failed ? STAMP_FAILED : "");
	/* message(attribute) */
	if (fsetxattr(fd, STAMP, text, strlen(text), 0))
		return errno == ENOTSUP ||
			why_say(why, "the attribute user.rpma-keeper cannot be written: %m");
	return fsync(fd) == 0 || why_say(why, "fsync: %m");
}
