/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* threads.h -- what the device keeps in thread-local variables, for each fiber */

#ifndef TEST_SIMULATION_THREADS_H
#define TEST_SIMULATION_THREADS_H

/* once, before any fiber runs */
void threads_init(void);

#endif /* TEST_SIMULATION_THREADS_H */
