/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacks.h -- what hostile peers do */

#ifndef ATTACKS_H
#define ATTACKS_H

#include <stdbool.h>
#include <stdint.h>

#define TARGET_GID_SIZE 16

/* what an attack knows of the server */
struct target {
	uint16_t port;
	/* only for queue pairs connected by hand: the GID, and a queue pair that waits for another peer */
	uint8_t gid[TARGET_GID_SIZE];
	uint32_t qp_num;
};

/* what the environment must ask of the server; otherwise the attack is skipped */
enum attack_needs {
	ATTACK_NEEDS_NOTHING,
	ATTACK_NEEDS_TLS,
	ATTACK_NEEDS_CERTIFICATES, /* TLS with certificates, not with a pre-shared key */
};

struct attack {
	const char *name;
	/*
	 * Attacks until end_ms (now_ms()); returns 0 if the server did nothing wrong. Otherwise a line on
	 * standard error says what it let pass.
	 */
	int (*run)(const struct target *target, int64_t end_ms);
	/*
	 * Slow preparation, done before the measurement and in the process that attacks; may be NULL. Returns
	 * 0 if it succeeded.
	 */
	int (*prepare)(const struct target *target);
	bool flushes; /* the honest client makes flushes, also after the attackers have left */
	bool by_hand; /* against queue pairs that are connected by hand, not against a listener */
	enum attack_needs needs;
};

/* the list of attacks; the name of its last entry is NULL */
extern const struct attack attacks[];

#endif /* ATTACKS_H */
