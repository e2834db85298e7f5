/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* world.h -- runs one seed from its plan to its end */

#ifndef TEST_SIMULATION_WORLD_H
#define TEST_SIMULATION_WORLD_H

#include "side.h"

extern struct side world_sides[SIDES];

void world_init(void);

/* runs the seed of sim_begin(); returns the number of operations posted */
unsigned world_run(void);

#endif /* TEST_SIMULATION_WORLD_H */
