/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * recorder.h -- what the unit tests have seen functions of the library return
 *
 * The linker puts a stand-in of recorder.awk before each function of the public header that can fail. If
 * RPMA_TEST_RECORD is set in the environment, each error of each function is appended to that file once:
 * "rpma_x RPMA_E_INVAL".
 */

#ifndef RECORDER_H
#define RECORDER_H

/* the errors that *seen has bits for are not recorded again; returns ret */
int recorder_note(const char *function, int ret, unsigned *seen);

#endif /* RECORDER_H */
