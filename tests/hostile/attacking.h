/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* attacking.h -- what attacks are made of */

#ifndef ATTACKING_H
#define ATTACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attacks.h"

/* the server ends by itself what is unfinished after 5 s; this is how long one that hesitates is believed */
#define PATIENCE_MS 15000

/* tells it; 1, as an attack returns it */
int let_pass(const char *what);
bool over(int64_t end_ms);
void pause_ms(long ms);
/* has something come, or is the stream at its end? */
bool has_ended(int fd);

/* how connections are opened that are kept as long as the victim bears them */
struct crowd {
	unsigned count;       /* at a time; at most CROWD_MAX */
	unsigned host, hosts; /* from so many addresses, this one and those behind it */
	const void *bytes;    /* what each of them says */
	size_t len;
};

#define CROWD_MAX 1000

/* as many as can be, and new ones for those that the victim ends */
int crowd(const struct crowd *how, const struct target *target, int64_t end_ms);

/*
 * the same with what each says a byte at a time, and the last one never; none lives longer than the deadline
 */
int crowd_of_lorises(const struct crowd *how, const struct target *target, int64_t end_ms);

/* sent in one call: more would hold the socket for so long that the other side finds it empty */
#define FILLER_SIZE (64 * 1024)

/* what is sent behind a refusal: frames with numbers that go on, or zeros */
struct filler {
	bool frames;
	uint32_t seq; /* of the first frame */
};

/*
 * Sends the bytes and the filler behind them, in one call so that no pause lies between the two, and more of
 * it as fast as the socket takes it: until the other side ends the stream or the time is over.
 */
uint64_t pour(int fd, const void *bytes, size_t len, struct filler filler, int64_t end_ms);

/*
 * what a server that ends the stream takes at the most, all but a little of it into the buffer of its socket
 */
#define TAKEN_MAX (32 * 1024 * 1024)

/* so many processes do the same, each with its number; 0: all were right */
typedef int parallel_fn(const struct target *target, int64_t end_ms, unsigned number, void *arg);
int in_parallel(unsigned count, parallel_fn *one, const struct target *target, int64_t end_ms, void *arg);

/* one for each way to be refused (attacks_refused.c) */
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
