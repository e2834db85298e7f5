/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* power_cut.h -- what a power cut at this moment would leave of the files in the current folder */

#ifndef TEST_POWER_CUT_H
#define TEST_POWER_CUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The command makes the cut (tests/lossy/power-cut). With the argument "begin" it prints the folder that
 * stands for the current one in a copy of the medium; with "end" it removes the copy. Returns false if the
 * command failed; folder or words then contains its last line.
 */
bool power_cut_begin(const char *command, char *folder, size_t folder_len);
bool power_cut_end(const char *command, char *words, size_t words_len);

#endif /* TEST_POWER_CUT_H */
