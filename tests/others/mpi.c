// SPDX-License-Identifier: BSD-3-Clause
// Copyright the librpma authors

// mpi.c -- two processes: messages of all sizes in both directions, sums over both processes, and memory that
// the other process writes and reads

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 4 << 20 };

static int rank;

static void
fill(unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i)
		bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static bool
is_filled(const unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i) {
		if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed))
			return false;
	}
	return true;
}

// combines the results of both processes, and prints one line for them
static bool
tell(const char *test, bool good)
{
	int mine = good, all = 0;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	if (rank == 0) {
		printf("mpi: %s | %s\n", test, all ? "pass" : "fail: wrong content");
		fflush(stdout);
	}
	return all;
}

static bool
messages(unsigned char *out, unsigned char *in, int size)
{
	bool good = true;
	for (unsigned int round = 0; round < 20; ++round) {
		MPI_Request requests[2];
		memset(in, 0, (size_t)size);
		fill(out, (size_t)size, round + (unsigned int)rank);
		MPI_Irecv(in, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		good = good && is_filled(in, (size_t)size, round + 1U - (unsigned int)rank);
	}
	char test[64];
	snprintf(test, sizeof(test), "messages of %d bytes", size);
	return tell(test, good);
}

static bool
window(unsigned char *out, unsigned char *in, size_t size)
{
	MPI_Win win;
	MPI_Win_create(in, (MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	memset(in, 0, size);
	fill(out, size, 40 + (unsigned int)rank);
	MPI_Win_fence(0, win);
	MPI_Put(out, (int)size, MPI_BYTE, 1 - rank, 0, (int)size, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	bool put = is_filled(in, size, 41 - (unsigned int)rank);
	memset(out, 0, size);
	MPI_Win_fence(0, win);
	MPI_Get(out, (int)size, MPI_BYTE, 1 - rank, 0, (int)size, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	bool get = is_filled(out, size, 40 + (unsigned int)rank);
	MPI_Win_free(&win);
	put = tell("one-sided put", put);
	return tell("one-sided get", get) && put;
}

int
main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
	if (out == NULL || in == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	bool good = true;
	const int sizes[] = { 0, 1, 8, 4096, 65537, LARGEST };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i)
		good = messages(out, in, sizes[i]) && good;
	if (argc == 1)
		good = window(out, in, 100000) && good;
	free(out);
	free(in);
	MPI_Finalize();
	return good ? 0 : 1;
}
