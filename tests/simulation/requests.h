/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* requests.h -- what an application asks for: made up, right or wrong, and posted */

#ifndef TEST_SIMULATION_REQUESTS_H
#define TEST_SIMULATION_REQUESTS_H

#include "side.h"

/* a few requests, if the plan has some left and the queue pair is there; what has no room is forgotten */
void requests_post(struct side *side);
void requests_post_recv(struct side *side);

#endif /* TEST_SIMULATION_REQUESTS_H */
