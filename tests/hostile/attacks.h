/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks.h -- what hostile peers do */

#ifndef ATTACKS_H
#define ATTACKS_H

#include <stdbool.h>
#include <stdint.h>

#define TARGET_GID_SIZE 16

/* what is known of the victim */
struct target {
	uint16_t port;
	/* only of one that is connected by hand: its GID, and a queue pair that waits for another peer */
	uint8_t gid[TARGET_GID_SIZE];
	uint32_t qp_num;
};

/* what the environment must ask the server for; without it there is nothing to be tried */
enum attack_needs {
	ATTACK_NEEDS_NOTHING,
	ATTACK_NEEDS_TLS,
	ATTACK_NEEDS_CERTIFICATES, /* TLS with them, not with a key that both sides have */
};

struct attack {
	const char *name;
	/*
	 * goes on until end_ms (now_ms()); 0 is right. A line of standard error says what the server let pass
	 * that it must not.
	 */
	int (*run)(const struct target *target, int64_t end_ms);
	/* what takes its time before: not measured, and in the process that then runs; NULL: nothing. 0 is
	 * right. */
	int (*prepare)(const struct target *target);
	bool by_hand; /* against queue pairs that are connected by hand, not against a listener */
	enum attack_needs needs;
};

/* a list; its end has no name */
extern const struct attack attacks[];

#endif /* ATTACKS_H */
