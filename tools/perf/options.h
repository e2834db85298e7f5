/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.h -- the command line */

#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "load.h"
#include "why.h"

#define OPTIONS_SIZES_MAX 64
#define OPTIONS_COMMAND_MAX 4096

enum mode { MODE_SERVER, MODE_CLIENT, MODE_LOCAL, MODE_HELP, MODE_VERSION };
enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };

struct options {
	/* the command line, quoted as a shell needs it, in printable ASCII; the end of a long one is left out */
	char command[OPTIONS_COMMAND_MAX];
	enum mode mode;
	const char *addr;
	const char *port; /* port of the control connection */

	/* of the target */
	const char *data_port; /* port of the RDMA connections; NULL: any free port */
	const char *memory;
	bool overwrite;
	bool direct_write;
	bool once; /* true if the server ends after its first client */
	uint64_t max_memory;
	uint32_t compute_us; /* time that its program computes for each message */

	/* of the initiator */
	struct load load;         /* everything except op and size */
	bool is_target_way_given; /* false: load.target_waits depends on the operation */
	enum op ops[OP_COUNT];
	int op_count;
	uint64_t sizes[OPTIONS_SIZES_MAX];
	int size_count;
	double warm_up_s;
	double duration_s;
	uint64_t count; /* operations per connection; 0: limited by the duration */
	enum format format;
	const char *report; /* file for the HTML page, or NULL */
};

/* returns false and the reason if the command line is wrong */
bool options_parse(struct options *options, int argc, char *argv[], char why[static WHY_MAX]);

#endif /* PERF_OPTIONS_H */
