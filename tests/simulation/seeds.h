/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* seeds.h -- what main.c runs: a simulation, one seed after the other */

#ifndef TEST_SIMULATION_SEEDS_H
#define TEST_SIMULATION_SEEDS_H

#include "driver.h"

/* name and purpose; its options are those that this simulation has besides the common ones, ended by {0} */
extern const struct driver_program world_program;

/* once, before the first seed */
void world_init(void);

/* runs the seed of sim_begin(); returns the number of operations posted */
unsigned world_run(void);

#endif /* TEST_SIMULATION_SEEDS_H */
