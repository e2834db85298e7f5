/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* help.c -- the text of --help */

#include <stdio.h>

#include "help.h"

static const char help[] =
	"rpma-perf -- how fast remote memory is\n"
	"\n"
	"  rpma-perf server ADDRESS [options]   lends its memory to the clients that measure with it\n"
	"  rpma-perf client ADDRESS [options]   measures with the server at that address\n"
	"  rpma-perf local [ADDRESS] [options]  both at once, in two processes of this machine (127.0.0.1)\n"
	"\n"
	"Any host that reaches the server's ports can use it: it is for networks that are trusted.\n"
	"\n"
	"What is measured (client, local):\n"
	"  --op LIST            write, read, send, write-with-imm, atomic-write, cas, write+flush, write_flush,\n"
	"                       ping-pong (write)\n"
	"  --size LIST          bytes per operation: 64,4k,1m or, doubling, 64:1m (64); atomics have 8\n"
	"  --flush-type TYPE    visibility or persistent (visibility)\n"
	"  --depth N            operations in flight, per connection (1)\n"
	"  --batch N            posted with RPMA_F_MORE and rung together (1)\n"
	"  --signal-every N     only every Nth operation asks for a completion (1)\n"
	"  --connections N      (1)\n"
	"  --clients N          connections that one event loop serves, on each side: with --wait fd\n"
	"  --threads N          that share the connections (1)\n"
	"  --inline N           operations of up to N bytes are posted inline (0: none)\n"
	"  --pieces N           of local memory, in each write or read (1)\n"
	"  --rate N             operations per second that are due on each connection (as many as go)\n"
	"  --wait [HOW]         the initiator waits for completions by: poll, cq_wait, fd (poll; without HOW cq_wait)\n"
	"  --target-waits HOW   the target's program: poll, cq_wait, fd, or pause, as long as it gets no messages\n"
	"                       (pause; for messages poll, and fd if the initiator sleeps)\n"
	"  --duration SECONDS   of each step (1)\n"
	"  --count N            operations per connection and step, instead of a duration\n"
	"  --warm-up SECONDS    before each step, not counted (0.2)\n"
	"  --verify             checks every byte that arrives; the figures are then no measure\n"
	"\n"
	"Report (client, local):\n"
	"  --json, --csv        instead of a table\n"
	"  --report FILE        a page with charts as well (HTML, needs nothing else)\n"
	"\n"
	"The target's memory (server, local):\n"
	"  --memory WHERE       dram, a directory (for a file that is removed again), a file, a device DAX (dram)\n"
	"  --overwrite          WHERE may exist; its content is lost\n"
	"  --direct-write       declare direct write to persistent memory (see rpma_peer_cfg_set_direct_write_to_pmem)\n"
	"  --max-memory SIZE    of all clients together; more is refused (1g)\n"
	"  --compute US         microseconds that the target's program computes for each message (0)\n"
	"\n"
	"Connections:\n"
	"  --port N             of the control connection (7471; 0 at the server: one that is free)\n"
	"  --data-port N        of the RDMA connections (server, local; one that is free)\n"
	"  --once               the server ends with its first client\n"
	"  --device WHICH       auto, rdma or soft: as RPMA_DEVICE in the environment\n"
	"\n"
	"  --help, --version\n"
	"\n"
	"A latency is the time from posting, with --rate from when it was due, to the completion being seen. MB are 10^6\n"
	"bytes of payload. CPU is the time of all threads of the process, the device's own included. A percentile is shown if\n"
	"there are enough latencies for it: 2 for p50, 10 for p90, 100 for p99, 1,000 for p99.9.\n"
	"\n"
	"Exit status: 0 done; 1 it did not work (device, connection, operation, the other side has gone); 2 wrong\n"
	"command line; 3 wrong data was found by --verify.\n";

void
help_print(void)
{
	fputs(help, stdout);
}

void
help_print_version(void)
{
	puts("rpma-perf " RPMA_PERF_VERSION);
}
