// SPDX-License-Identifier: BSD-3-Clause
// Copyright the librpma authors

// mpi.c -- two processes or more: messages of all sizes around a ring, from all to all, and from any to one; and memory
// that other processes write, read, and add to. The content of all of them is checked.
//
//	mpi [messages]		prints "mpi: <test> | pass" or "mpi: <test> | fail: <reason>"; with an argument, only messages
//
// At last it prints "mpi bytes: <number>". At least this number of bytes went from process to process.

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 4 << 20, WINDOW = 100000, BLOCK = 20000, SMALL = 500, ADDITIONS = 100 };

static int rank, ranks, next, previous;
static unsigned long long bytes; // that this process has given to others

static void
fill(unsigned char *at, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i)
		at[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static bool
is_filled(const unsigned char *at, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; ++i) {
		if (at[i] != (unsigned char)(i * 7 + i / 251 + seed))
			return false;
	}
	return true;
}

// combines the results of all processes, and prints one line for them
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
		MPI_Status statuses[2]; // the headers of MPICH make gcc warn of MPI_STATUSES_IGNORE
		memset(in, 0, (size_t)size);
		fill(out, (size_t)size, round + (unsigned int)rank);
		MPI_Irecv(in, size, MPI_BYTE, previous, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, size, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, statuses);
		good = good && is_filled(in, (size_t)size, round + (unsigned int)previous);
		bytes += (unsigned int)size;
	}
	char test[64];
	snprintf(test, sizeof(test), "messages of %d bytes", size);
	return tell(test, good);
}

// each process has a block for each of them
static bool
all_to_all(unsigned char *out, unsigned char *in)
{
	bool good = true;
	for (unsigned int round = 0; round < 5; ++round) {
		memset(in, 0, (size_t)ranks * BLOCK);
		for (int to = 0; to < ranks; ++to)
			fill(out + to * BLOCK, BLOCK, round + 16U * (unsigned int)rank + (unsigned int)to);
		MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
		for (int from = 0; from < ranks; ++from)
			good = good &&
				is_filled(in + from * BLOCK, BLOCK,
					round + 16U * (unsigned int)from + (unsigned int)rank);
		bytes += (unsigned int)(ranks - 1) * BLOCK;
	}
	return tell("from all to all", good);
}

// many small messages from all others, which come before the first process asks for them
static bool
any_to_one(unsigned char *out, unsigned char *in)
{
	enum { EACH = 400, MOST_RANKS = 64 };
	bool good = true;
	if (rank != 0) {
		for (unsigned int i = 0; i < EACH; ++i) {
			fill(out, SMALL, i + (unsigned int)rank);
			MPI_Send(out, SMALL, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
			bytes += SMALL;
		}
	} else {
		unsigned int seen[MOST_RANKS] = { 0 };
		for (int i = 0; i < EACH * (ranks - 1); ++i) {
			MPI_Status status;
			MPI_Recv(in, SMALL, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
			const int from = status.MPI_SOURCE;
			good = good && from > 0 && from < MOST_RANKS &&
				is_filled(in, SMALL, seen[from]++ + (unsigned int)from);
		}
	}
	return tell("from any to one", good);
}

static bool
window(unsigned char *out, unsigned char *in)
{
	MPI_Win win;
	MPI_Win_create(in, WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	memset(in, 0, WINDOW);
	fill(out, WINDOW, 40 + (unsigned int)rank);
	MPI_Win_fence(0, win);
	MPI_Put(out, WINDOW, MPI_BYTE, next, 0, WINDOW, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	bool put = is_filled(in, WINDOW, 40 + (unsigned int)previous);
	memset(out, 0, WINDOW);
	MPI_Win_fence(0, win);
	MPI_Get(out, WINDOW, MPI_BYTE, next, 0, WINDOW, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	bool get = is_filled(out, WINDOW, 40 + (unsigned int)rank);
	bytes += 2 * WINDOW;
	MPI_Win_free(&win);
	put = tell("one-sided put", put);
	return tell("one-sided get", get) && put;
}

// each process adds to the numbers of all
static bool
accumulate(void)
{
	enum { NUMBERS = 1000 };
	static long sums[NUMBERS], add[NUMBERS];
	MPI_Win win;
	memset(sums, 0, sizeof(sums));
	for (int i = 0; i < NUMBERS; ++i)
		add[i] = i + 1000L * rank;
	MPI_Win_create(sums, sizeof(sums), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	for (int to = 0; to < ranks; ++to)
		MPI_Accumulate(add, NUMBERS, MPI_LONG, to, 0, NUMBERS, MPI_LONG, MPI_SUM, win);
	MPI_Win_fence(0, win);
	bool good = true;
	for (int i = 0; i < NUMBERS; ++i)
		good = good && sums[i] == (long)ranks * i + 1000L * ranks * (ranks - 1) / 2;
	bytes += (unsigned int)(ranks - 1) * sizeof(sums);
	MPI_Win_free(&win);
	return tell("one-sided accumulate", good);
}

// all add one to a counter of the first process, without its help; no two of them get the same number
static bool
counter(void)
{
	static long number; // MPICH 4.0.2 adds elsewhere if it is on the stack, over any transport
	long one = 1, got = -1, last = -1, sum = 0, sums = 0;
	MPI_Win win;
	bool good = true;
	MPI_Win_create(&number, rank == 0 ? sizeof(number) : 0, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
		&win);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < ADDITIONS; ++i) {
		MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win);
		MPI_Win_flush(0, win);
		good = good && got > last;
		last = got;
		sum += got;
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	const long all = (long)ranks * ADDITIONS;
	MPI_Allreduce(&sum, &sums, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	good = good && sums == all * (all - 1) / 2 && (rank != 0 || number == all);
	return tell("one-sided counter", good);
}

int
main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	next = (rank + 1) % ranks;
	previous = (rank + ranks - 1) % ranks;
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
	if (out == NULL || in == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	bool good = true;
	const int sizes[] = { 0, 1, 8, 4096, 65537, LARGEST };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i)
		good = messages(out, in, sizes[i]) && good;
	good = all_to_all(out, in) && good;
	good = any_to_one(out, in) && good;
	if (argc == 1) {
		good = window(out, in) && good;
		good = accumulate() && good;
		good = counter() && good;
	}
	unsigned long long sum = 0;
	MPI_Reduce(&bytes, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("mpi bytes: %llu\n", sum);
	free(out);
	free(in);
	MPI_Finalize();
	return good ? 0 : 1;
}
