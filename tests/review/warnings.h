/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* warnings.h -- the WARNINGs of the library, for tests by cmocka that count them */

#ifndef TEST_REVIEW_WARNINGS_H
#define TEST_REVIEW_WARNINGS_H

/* from now on they are kept, and nothing is printed; once more is the same */
void warnings_begin(void);

/* how many there have been so far with a text that fits the pattern (fnmatch(3)) */
int warnings_like(const char *pattern);

#endif /* TEST_REVIEW_WARNINGS_H */
