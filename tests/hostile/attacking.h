/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacking.h -- functions that the attacks share */

#ifndef ATTACKING_H
#define ATTACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attacks.h"

/* the server closes an unfinished connection after 5 s; a slow server gets this long */
#define PATIENCE_MS 15000

/* reports what the server let pass; returns 1, the result of an attack that found a fault */
int let_pass(const char *what);
bool over(int64_t end_ms);
void pause_ms(long ms);
/* true if there is something to read or the stream has ended */
bool has_ended(int fd);

/* how to open connections that are kept until the server closes them */
struct crowd {
	unsigned count;       /* at a time; at most CROWD_MAX */
	unsigned host, hosts; /* the first address and the number of addresses from there on */
	const void *bytes;    /* what each connection sends */
	size_t len;
};

#define CROWD_MAX 1000

/* keeps `count` connections open, and opens a new one for each that the server closes */
int crowd(const struct crowd *how, const struct target *target, int64_t end_ms);

/*
 * the same with connections that send their bytes one at a time, and never the last one; the server must
 * close each by its deadline
 */
int crowd_of_lorises(const struct crowd *how, const struct target *target, int64_t end_ms);

/* sent in one call: a larger piece would hold the socket long enough for the other side to find it empty */
#define FILLER_SIZE (64 * 1024)

/* what is sent after a refusal: frames with continuing sequence numbers, or zeros */
struct filler {
	bool frames;
	uint32_t seq; /* of the first frame */
};

/*
 * Sends the bytes, and the filler after them in the same call, so that there is no pause between the two.
 * Then sends more filler as fast as the socket takes it, until the other side ends the stream or the time is
 * over. Returns the bytes that the other side has acknowledged.
 */
uint64_t pour(int fd, const void *bytes, size_t len, struct filler filler, int64_t end_ms);

/* the most bytes that a server that ends the stream accepts, most of them into the buffer of its socket */
#define TAKEN_MAX (32 * 1024 * 1024)

/* runs `count` processes, each with its number; returns 0 if all returned 0 */
typedef int parallel_fn(const struct target *target, int64_t end_ms, unsigned number, void *arg);
int in_parallel(unsigned count, parallel_fn *one, const struct target *target, int64_t end_ms, void *arg);

/* one for each kind of refusal (attacks_refused.c) */
int after_other_version(const struct target *target, int64_t end_ms);
int after_damage(const struct target *target, int64_t end_ms);
int after_wrong_kind(const struct target *target, int64_t end_ms);
int after_garbage(const struct target *target, int64_t end_ms);
int prepare_busy(const struct target *target);
int after_busy(const struct target *target, int64_t end_ms);
int after_rejection(const struct target *target, int64_t end_ms);
int after_wrong_key(const struct target *target, int64_t end_ms);
int after_broken_frame(const struct target *target, int64_t end_ms);
int after_no_certificate(const struct target *target, int64_t end_ms);

/* floods from many addresses, and of flushes (attacks_floods.c) */
int storm(const struct target *target, int64_t end_ms);
int flushes_and_fin(const struct target *target, int64_t end_ms);
int flushes_and_reset(const struct target *target, int64_t end_ms);

/* TLS (attacks_tls.c) */
int prepare_key_updates(const struct target *target);
int key_updates(const struct target *target, int64_t end_ms);
int prepare_empty_records(const struct target *target);
int empty_records(const struct target *target, int64_t end_ms);
int prepare_hellos(const struct target *target);
int recorded_hellos(const struct target *target, int64_t end_ms);
int slow_tls(const struct target *target, int64_t end_ms);

/* queue pairs that are connected by hand (attacks_by_hand.c) */
int silent_callers(const struct target *target, int64_t end_ms);
int half_joins(const struct target *target, int64_t end_ms);
int joins_of_lorises(const struct target *target, int64_t end_ms);
int wrong_joins(const struct target *target, int64_t end_ms);
int after_wrong_join(const struct target *target, int64_t end_ms);

#endif /* ATTACKING_H */
