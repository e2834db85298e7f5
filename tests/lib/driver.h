/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * driver.h -- what the mains of the harnesses share: options, seed, resume file, progress line, exit status
 *
 * A harness lists its options in one table, which --help prints. A wrong option ends the process with
 * DRIVER_REFUSED and a message that names the option and its value.
 */

#ifndef TEST_DRIVER_H
#define TEST_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DRIVER_REFUSED 2
#define DRIVER_LINE_MAX 256 /* bytes of a line of a resume file */

/* the options that several harnesses have */
struct driver_settings {
	unsigned long seed;
	unsigned long seconds; /* 0: no limit */
	const char *only;      /* patterns, separated by '|'; NULL: everything */
	const char *resume;    /* absolute path of the resume file; NULL: none */
	const char *dir;       /* "." by default */
	bool list;
};

extern struct driver_settings driver;

/* exactly one of flag, text and number is set; the caller stores the default there before driver_parse() */
struct driver_option {
	const char *name;  /* without its dashes; NULL ends the table */
	const char *value; /* the name of the value in --help; NULL for a flag */
	const char *help;  /* what the option does, with the unit of its value */
	bool *flag;
	const char **text;
	unsigned long *number;
	unsigned long min, max; /* of a number */
	bool is_choice;         /* true if `value` lists the texts that are allowed, separated by '|' */
};

/* beginnings of rows, to be followed by `.help` where the meaning depends on the harness */
#define DRIVER_SEED \
	"seed", "N", "seed of the random choices (default: taken from the clock, and printed)", \
		.number = &driver.seed, .max = UINT32_MAX
#define DRIVER_ONLY \
	"only", "PATTERNS", "run only what matches one of the shell patterns, which '|' separates", \
		.text = &driver.only
#define DRIVER_LIST "list", NULL, "print the names of what would run, and run nothing", .flag = &driver.list
#define DRIVER_SECONDS "seconds", "T", .number = &driver.seconds, .min = 1, .max = 86400
#define DRIVER_DIR "dir", "DIRECTORY", .text = &driver.dir
#define DRIVER_RESUME "resume", "FILE", .text = &driver.resume

struct driver_program {
	const char *name;
	const char *purpose; /* sentences for --help */
	const struct driver_option *options;
};

/* stores the options, chooses a seed if none is given; --help ends the process with status 0 */
void driver_parse(const struct driver_program *program, int argc, char **argv);

/* true if the option is on the command line */
bool driver_given(const char *name);
/* refuse the command line if it has the option and one (or none) of the others, names separated by '|' */
void driver_excludes(const char *name, const char *others);
void driver_needs(const char *name, const char *others);
_Noreturn void driver_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* true if --only admits the name; driver_refuse_if_none() refuses an --only that has admitted nothing */
bool driver_admits(const char *name);
void driver_refuse_if_none(size_t admitted, const char *what);

/* true if --seconds have passed since driver_parse() */
bool driver_is_time_over(void);
void driver_print_seed(void);

/*
 * Size and modification time of the running program: a result of another build does not count. The text is
 * static.
 */
const char *driver_build(void);
/*
 * Opens the resume file if its first line begins with the formatted text, and stores the rest of that line.
 * NULL if there is no such file. The caller closes it.
 */
FILE *driver_open_resume(char rest[static DRIVER_LINE_MAX], const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* both do nothing without --resume; driver_save() replaces the file in one step, as it may be killed */
void driver_save(const char *format, ...) __attribute__((format(printf, 1, 2)));
void driver_append(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* on a terminal: a bar, and the formatted text; at most ten times a second */
void driver_progress(unsigned long done, unsigned long of, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void driver_clear_progress(void);

/* prints the closing line; the exit status of the harness: 0 if good, else 1 */
int driver_close(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif /* TEST_DRIVER_H */
