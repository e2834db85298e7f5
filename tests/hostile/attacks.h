/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks.h -- what hostile peers do */

#ifndef ATTACKS_H
#define ATTACKS_H

#include <stdint.h>

struct attack {
	const char *name;
	/*
	 * goes on until end_ms (now_ms()); 0 is right. A line of standard error says what the server let pass
	 * that it must not.
	 */
	int (*run)(uint16_t port, int64_t end_ms);
};

/* a list; its end has no name */
extern const struct attack attacks[];

#endif /* ATTACKS_H */
