/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* variables.h -- the settings that the device takes from the environment */

#ifndef SOFTRDMA_VARIABLES_H
#define SOFTRDMA_VARIABLES_H

#include <stdint.h>

/*
 * They take the name of a variable in the list of variables.c. They read the environment by secure_getenv(), so no
 * other thread may change the environment meanwhile. Any thread.
 */

/* the text of the variable; NULL if it is not set or is empty */
const char *softrdma_variable(const char *name);

/*
 * a number in [min, max]; def if the variable is not set or is empty, and def if it has any other value. Then a
 * WARNING shows the value, once in the process until the value changes.
 */
uint64_t softrdma_setting(const char *name, uint64_t min, uint64_t max, uint64_t def);

/*
 * Writes a WARNING for each variable of the environment that begins like one of the device and is not in the list,
 * for it is a typing error or is of another version. To be called once.
 */
void softrdma_variables_check(void);

#endif /* SOFTRDMA_VARIABLES_H */
