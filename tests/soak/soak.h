/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * soak.h -- hours of work: does anything grow, get slower, get lost?
 *
 * A server and some clients, each a process of its own. Time is cut into windows. In a window a client makes
 * one connection after the other and works on it; at its end all clients are at rest, without a connection,
 * and memory and descriptors of each process are counted: what an idle process has must not grow.
 */

#ifndef TEST_SOAK_H
#define TEST_SOAK_H

#include <stdatomic.h>
#include <stdint.h>

#include "net.h"

#define SOAK_CLIENTS_MAX 8
#define SOAK_WINDOWS 12
/*
 * What is not there at once is not counted: buffers grow to their size, threads are started, and the heap
 * comes to the height that it has when connections of all clients begin and end together. The first windows
 * are for that.
 */
#define SOAK_WARM_UP 2

/* what each client has of the server's memory: a counter, and behind it the data */
#define SOAK_DATA_AT ((size_t)4096)
#define SOAK_SLOT ((size_t)4 << 20)
#define SOAK_WRITE_MAX ((size_t)1 << 20)
#define SOAK_MESSAGE_MAX ((size_t)4096)

/* a latency in ns by its highest 7 bits: about one percent */
#define SOAK_BUCKETS (64 * 64)

struct soak_latencies {
	uint32_t count[SOAK_BUCKETS];
};

struct soak_client {
	atomic_ulong connections, broken, operations, bytes;
	struct soak_latencies latencies[SOAK_WINDOWS]; /* of small reads and writes without injected faults */
};

/* memory of all processes; what is not atomic is looked at when its writer rests */
struct soak_shared {
	char port[NET_PORT_LEN];
	atomic_uint window;    /* that may be worked on; SOAK_WINDOWS: the end */
	atomic_uint resting;   /* clients that wait for the next one */
	atomic_uint connected; /* connections of the server */
	struct soak_client clients[SOAK_CLIENTS_MAX];
};

/* forked processes: they end with status 0, or say what is wrong and end with 1 */
void soak_serve(struct soak_shared *shared, const char *dir, int ready_fd);
void soak_be_client(struct soak_shared *shared, unsigned index, uint64_t seed, unsigned window_ms);

/* ends the process if ret, a result of the library, is an error */
void soak_must(const char *what, int ret);
_Noreturn void soak_fail(const char *what);

unsigned soak_bucket(uint64_t ns);
uint64_t soak_bucket_ns(unsigned bucket);

#endif /* TEST_SOAK_H */
