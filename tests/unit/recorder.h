/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * recorder.h -- records what functions of the library return in the unit tests
 *
 * The linker puts a wrapper from recorder.awk in front of each function of the public header that can fail.
 * If RPMA_TEST_RECORD is set in the environment, each error of each function is appended to that file once:
 * "rpma_x RPMA_E_INVAL".
 */

#ifndef RECORDER_H
#define RECORDER_H

/* records an error whose bit is not set in *seen yet; returns ret */
int recorder_note(const char *function, int ret, unsigned *seen);

#endif /* RECORDER_H */
