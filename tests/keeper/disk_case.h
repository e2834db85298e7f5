/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* disk_case.h -- what the tests of disks share: a disk of nbdkit-rpma-plugin at a keeper, and what it has told */

#ifndef TEST_DISK_CASE_H
#define TEST_DISK_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#include "disk.h"
#include "keeper_process.h"

/* for a disk at the keeper, whose lines are kept from now on; those of before are forgotten */
struct disk_config case_config(const struct keeper_process *keeper, int timeout_ms, size_t journal_size);

/* the last lines that disks have told */
bool case_was_said(const char *text);
const char *case_last_said(void);
/* how many lines since case_config(); case_forget_lines() does not reset it */
unsigned case_said_count(void);
void case_forget_lines(void);

/* starts the keeper, and opens a disk at it; its facts go to *facts */
void case_starts(struct keeper_process *keeper, const struct disk_config *config, struct disk_facts *facts,
	struct disk **disk);
/* the end of a case: of its faults, its disk, its keeper and its deadline */
void case_ends(struct keeper_process *keeper, struct disk **disk);
/* the file that the keeper lends has this pattern in these bytes */
void case_file_has(const struct keeper_process *keeper, uint64_t seed, uint64_t offset, size_t len);

/* opens a disk; its facts go to *facts */
void case_opens(const struct disk_config *config, struct disk_facts *facts, struct disk **disk);
/* opening one fails, with this sentence or one that contains it */
void case_refuses(const struct disk_config *config, const char *sentence);
/* waits until the link of the disk is up */
void case_await_link(struct disk *disk);

/* a peer that speaks to the keeper without a disk */
struct rpma_peer *case_peer(void);

#endif /* TEST_DISK_CASE_H */
