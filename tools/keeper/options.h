/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.h -- the command line of rpma-keeper */

#ifndef KEEPER_OPTIONS_H
#define KEEPER_OPTIONS_H

#include "memory.h"

#define LENDS_MAX 64 /* names that one keeper lends */
#define CLIENTS_DEFAULT 64
#define CLIENTS_MAX 4096

struct lend_option {
	char name[KEEPER_NAME_MAX + 1];
	struct memory_source source; /* its strings are the options' */
};

struct options {
	enum { MODE_SERVE, MODE_CLEAR_FAILED, MODE_HELP, MODE_VERSION } mode;
	char *addr;
	const char *port;
	struct lend_option lends[LENDS_MAX];
	int lend_count;
	int clients_max;
	const char *status_path; /* NULL: none */
	bool direct_write;
	const char *clear_failed;          /* the name given; NULL: not given */
	const struct lend_option *cleared; /* with MODE_CLEAR_FAILED: the memory of that name */
	char *strings[LENDS_MAX + 1];      /* what the others point into */
	int string_count;
};

/* false: *why says what is wrong. options_free is called in either case */
bool options_parse(struct options *options, int argc, char *argv[], char why[static WHY_MAX]);
void options_free(struct options *options);

void options_print_help(void);

#endif /* KEEPER_OPTIONS_H */
