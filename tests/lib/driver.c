/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* driver.c -- what the mains of the harnesses share */

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "driver.h"
#include "options.h"

#define OPTIONS_MAX 32
#define BAR_WIDTH 30
#define PROGRESS_MS 100

struct driver_settings driver = { .dir = "." };

static const struct driver_program *program;
static bool given[OPTIONS_MAX];
static int64_t start_ms;

static _Noreturn void
exit_with_hint(void)
{
	fprintf(stderr, "%s --help describes the options\n", program->name);
	exit(DRIVER_REFUSED);
}

_Noreturn void
driver_refuse(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit_with_hint();
}

/* what the system has refused; errno says why */
static _Noreturn void
fail(const char *what)
{
	fprintf(stderr, "%s: ", program->name);
	perror(what);
	exit(EXIT_FAILURE);
}

/* ---- options ---- */

static _Noreturn void
help(void)
{
	printf("usage: %s [OPTION]...\n%s\n", program->name, program->purpose);
	for (const struct driver_option *o = program->options; o->name; o++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s %s", o->name, o->value ? o->value : "");
		printf("  %-26s %s", left, o->help);
		if (o->number && *o->number && *o->number <= o->max)
			printf(" (default: %lu)", *o->number);
		putchar('\n');
	}
	printf("  %-26s print this text\n", "--help");
	exit(EXIT_SUCCESS);
}

static void
store(const struct driver_option *o, const char *text)
{
	if (o->flag)
		*o->flag = true;
	else if (o->number && !option_number(text, o->min, o->max, o->number))
		driver_refuse("--%s: '%s' is not a number from %lu to %lu", o->name, text, o->min, o->max);
	else if (o->is_choice && !option_matches(o->value, text))
		driver_refuse("--%s: '%s' is not one of %s", o->name, text, o->value);
	else if (o->text)
		*o->text = text;
}

/* a harness may change its directory */
static void
make_resume_absolute(void)
{
	static char path[PATH_MAX];
	size_t len;

	if (driver.resume == NULL || driver.resume[0] == '/')
		return;
	if (getcwd(path, sizeof(path)) == NULL)
		fail("the working directory");
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/%s", driver.resume);
	driver.resume = path;
}

static void
choose_seed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	driver.seed = ((unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000) & UINT32_MAX;
}

void
driver_parse(const struct driver_program *p, int argc, char **argv)
{
	struct option options[OPTIONS_MAX + 2] = { { "help", no_argument, NULL, OPTIONS_MAX } };
	int i;

	program = p;
	start_ms = now_ms();
	for (i = 0; p->options[i].name; i++)
		options[i + 1] = (struct option){ p->options[i].name,
			p->options[i].value ? required_argument : no_argument, NULL, i };
	while ((i = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (i == OPTIONS_MAX)
			help();
		if (i == '?')
			exit_with_hint(); /* getopt_long() has said what is wrong */
		store(&p->options[i], optarg);
		given[i] = true;
	}
	if (optind < argc)
		driver_refuse("'%s' is not an option", argv[optind]);
	make_resume_absolute();
	if (!driver_given("seed"))
		choose_seed();
}

/* the first option on the command line that matches, or NULL */
static const char *
find_given(const char *names)
{
	for (int i = 0; program->options[i].name; i++)
		if (given[i] && option_matches(names, program->options[i].name))
			return program->options[i].name;
	return NULL;
}

bool
driver_given(const char *name)
{
	return find_given(name) != NULL;
}

void
driver_excludes(const char *name, const char *others)
{
	const char *other = find_given(others);

	if (driver_given(name) && other)
		driver_refuse("--%s and --%s exclude each other", name, other);
}

void
driver_needs(const char *name, const char *others)
{
	if (driver_given(name) && !find_given(others))
		driver_refuse("--%s needs --%s", name, others);
}

bool
driver_admits(const char *name)
{
	return option_matches(driver.only, name);
}

void
driver_refuse_if_none(size_t admitted, const char *what)
{
	if (admitted == 0)
		driver_refuse("--only: '%s' matches no %s", driver.only ? driver.only : "*", what);
}

/* ---- time and seed ---- */

bool
driver_is_time_over(void)
{
	return driver.seconds && now_ms() - start_ms >= (int64_t)driver.seconds * 1000;
}

void
driver_print_seed(void)
{
	printf("seed %lu\n", driver.seed);
	fflush(stdout);
}

/* ---- the resume file ---- */

const char *
driver_build(void)
{
	static char text[64];
	struct stat st;

	if (stat("/proc/self/exe", &st))
		fail("/proc/self/exe");
	snprintf(text, sizeof(text), "%ju %jd.%09ld", (uintmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec);
	return text;
}

FILE *
driver_open_resume(char rest[static DRIVER_LINE_MAX], const char *format, ...)
{
	char expected[DRIVER_LINE_MAX], line[DRIVER_LINE_MAX];
	FILE *f = driver.resume ? fopen(driver.resume, "re") : NULL;
	va_list args;

	if (f == NULL)
		return NULL;
	va_start(args, format);
	vsnprintf(expected, sizeof(expected), format, args);
	va_end(args);
	if (!fgets(line, sizeof(line), f) || strncmp(line, expected, strlen(expected)) != 0) {
		fclose(f);
		return NULL;
	}
	snprintf(rest, DRIVER_LINE_MAX, "%s", line + strlen(expected));
	return f;
}

__attribute__((format(printf, 3, 0))) static void
write_file(const char *path, const char *mode, const char *format, va_list args)
{
	FILE *f = fopen(path, mode);

	if (f == NULL || vfprintf(f, format, args) < 0 || fclose(f))
		fail(path);
}

void
driver_save(const char *format, ...)
{
	char path[PATH_MAX + 8];
	va_list args;

	if (driver.resume == NULL)
		return;
	snprintf(path, sizeof(path), "%s.new", driver.resume);
	va_start(args, format);
	write_file(path, "we", format, args);
	va_end(args);
	if (rename(path, driver.resume))
		fail(driver.resume);
}

void
driver_append(const char *format, ...)
{
	va_list args;

	if (driver.resume == NULL)
		return;
	va_start(args, format);
	write_file(driver.resume, "ae", format, args);
	va_end(args);
}

/* ---- what is printed ---- */

void
driver_progress(unsigned long done, unsigned long of, const char *format, ...)
{
	static int64_t last_ms;
	int filled = (int)(done < of ? done * BAR_WIDTH / of : BAR_WIDTH);
	va_list args;

	if (!isatty(STDERR_FILENO) || now_ms() - last_ms < PROGRESS_MS)
		return;
	last_ms = now_ms();
	fprintf(stderr, "\r[%.*s%*s] %lu/%lu ", filled, "##############################", BAR_WIDTH - filled,
		"", done, of);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\033[K", stderr);
}

void
driver_clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

int
driver_close(bool good, const char *format, ...)
{
	va_list args;

	driver_clear_progress();
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
