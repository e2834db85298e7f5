/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * identity.h -- what tells memory that a client knows from other memory of the same name
 *
 * The identity is a random number that belongs to the content. It is kept in a small file beside the memory,
 * together with the client that had the memory for writing last, and with a failure of the medium. The record
 * also names the inode and the time of birth of the memory's file. If another file has taken its place, the
 * record is not about that file, and the memory gets a new identity. The file has a copy of the identity, so that
 * no record is made or taken for true while another one belongs to it.
 */

#ifndef KEEPER_IDENTITY_H
#define KEEPER_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "durable_file.h"
#include "perf/why.h"
#include "protocol.h"

#define IDENTITY_TEXT_SIZE (2 * KEEPER_IDENTITY_SIZE + 1)

/* which file the record is about; all 0 for a device DAX, whose number may change when the machine starts */
struct identity_file {
	uint64_t inode;
	int64_t born_s;
	uint32_t born_ns;
};

struct identity {
	uint8_t id[KEEPER_IDENTITY_SIZE];
	uint64_t last_writer; /* 0: none */
	bool failed;          /* the medium has failed, and the operator has not cleared that */
	struct identity_file file;
};

bool identity_of_file(int fd, struct identity_file *file, char why[static WHY_MAX]);

/* a new identity without a writer; false if the kernel gives no random bytes */
bool identity_new(struct identity *identity, const struct identity_file *file, char why[static WHY_MAX]);

/*
 * A copy of the identity on the file itself, in an extended attribute: which record belongs to the file, whatever path
 * leads to it.
 */
struct identity_stamp {
	bool is_there; /* false also if the file system has no such attributes */
	bool failed;   /* the medium has failed */
	uint8_t id[KEEPER_IDENTITY_SIZE];
};

/* false with *why if it cannot be read or understood */
bool identity_stamp_load(int fd, struct identity_stamp *stamp, char why[static WHY_MAX]);
/* false with *why if it cannot be written; true also if the file system has no such attributes */
bool identity_stamp_store(int fd, const struct identity *identity, char why[static WHY_MAX]);

enum identity_found { IDENTITY_FOUND, IDENTITY_NONE, IDENTITY_OF_ANOTHER_FILE, IDENTITY_UNREADABLE };

/* reads the record at path; *why is set with IDENTITY_UNREADABLE */
enum identity_found identity_load(const char *path, const struct identity_file *file,
	struct identity *identity, char why[static WHY_MAX]);

/* writes the record; with DURABLE_FILE_REPLACED it is on the disk when the call returns */
enum durable_file_result identity_store(const char *path, const struct identity *identity,
	char why[static WHY_MAX]);

void identity_text(const uint8_t id[static KEEPER_IDENTITY_SIZE], char text[static IDENTITY_TEXT_SIZE]);

#endif /* KEEPER_IDENTITY_H */
