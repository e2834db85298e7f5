/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* warnings.h -- counts the WARNINGs of the library, for cmocka tests */

#ifndef TEST_DISKS_WARNINGS_H
#define TEST_DISKS_WARNINGS_H

/* starts to keep them instead of printing them; may be called again */
void warnings_begin(void);

/* returns how many so far have a text that matches the pattern (fnmatch(3)) */
int warnings_like(const char *pattern);

#endif /* TEST_DISKS_WARNINGS_H */
