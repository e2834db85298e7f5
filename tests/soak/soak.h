/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * soak.h -- hours of work: does anything grow, get slower or get lost?
 *
 * A server and its clients are separate processes. Time is divided into windows. In a window a client makes
 * one connection after the other and works on each. At the end of a window all clients rest, without a
 * connection, and the soak counts memory, descriptors and threads of each process. The memory of a process at
 * rest must not grow, and its descriptors must stay the same.
 */

#ifndef TEST_SOAK_H
#define TEST_SOAK_H

#include <stdatomic.h>
#include <stdint.h>

#include "net.h"

#define SOAK_CLIENTS_MAX 8
#define SOAK_WINDOWS 12
/*
 * The first windows are a warm-up and do not count: buffers grow to their size, threads start, and the heap
 * reaches the size that it has when connections of all clients begin and end together.
 */
#define SOAK_WARM_UP 2

/* a client's part of the server's memory: a counter, then the data */
#define SOAK_DATA_AT ((size_t)4096)
#define SOAK_SLOT ((size_t)4 << 20)
#define SOAK_WRITE_MAX ((size_t)1 << 20)
#define SOAK_MESSAGE_MAX ((size_t)4096)

/* a latency in ns goes to a bucket by its highest 7 bits: within about one percent */
#define SOAK_BUCKETS (64 * 64)

struct soak_latencies {
	uint32_t count[SOAK_BUCKETS];
};

struct soak_client {
	atomic_ulong connections, broken, operations, bytes;
	struct soak_latencies latencies[SOAK_WINDOWS]; /* of small reads and writes without injected faults */
};

/* shared by all processes; a member that is not atomic is read while its writer rests */
struct soak_shared {
	char port[NET_PORT_LEN];
	atomic_uint window;    /* the current window; SOAK_WINDOWS at the end */
	atomic_uint resting;   /* clients that wait for the next window */
	atomic_uint connected; /* connections of the server */
	struct soak_client clients[SOAK_CLIENTS_MAX];
};

/* the forked processes: each ends with status 0, or prints what is wrong and ends with 1 */
void soak_serve(struct soak_shared *shared, const char *dir, int ready_fd);
void soak_be_client(struct soak_shared *shared, unsigned index, uint64_t seed, unsigned window_ms);

/* ends the process if ret, a return value of the library, is an error */
void soak_must(const char *what, int ret);
_Noreturn void soak_fail(const char *what);

unsigned soak_bucket(uint64_t ns);
uint64_t soak_bucket_ns(unsigned bucket);

#endif /* TEST_SOAK_H */
