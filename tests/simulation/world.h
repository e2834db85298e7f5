/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* world.h -- the two applications of the current seed */

#ifndef TEST_SIMULATION_WORLD_H
#define TEST_SIMULATION_WORLD_H

#include "seeds.h"
#include "side.h"

extern struct side world_sides[SIDES];

#endif /* TEST_SIMULATION_WORLD_H */
