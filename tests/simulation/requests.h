/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* requests.h -- makes random requests of an application, valid and invalid ones, and posts them */

#ifndef TEST_SIMULATION_REQUESTS_H
#define TEST_SIMULATION_REQUESTS_H

#include "side.h"

/*
 * posts a few requests, if the plan has some left and the queue pair exists; those without room are dropped
 */
void requests_post(struct side *side);
void requests_post_recv(struct side *side);

#endif /* TEST_SIMULATION_REQUESTS_H */
