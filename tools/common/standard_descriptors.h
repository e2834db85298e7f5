/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* standard_descriptors.h -- 0, 1 and 2 of a program that was started without some of them */

#ifndef TOOLS_STANDARD_DESCRIPTORS_H
#define TOOLS_STANDARD_DESCRIPTORS_H

#include <stdbool.h>

/*
 * Opens /dev/null as standard input, output and error where they are closed. Without it a file that the program opens would
 * get one of their numbers, and what it prints would be written into that. They are open in the wrong direction, so that a
 * result which cannot be printed is an error, as before. Called first in main(); false with errno.
 */
bool open_standard_descriptors(void);

#endif /* TOOLS_STANDARD_DESCRIPTORS_H */
