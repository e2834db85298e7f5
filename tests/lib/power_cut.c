/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* power_cut.c -- a power cut, made by a command */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "power_cut.h"
#include "process.h"

/* copying the medium takes about 100 ms */
#define COMMAND_MS 30000

/* leaves the command's last line in line */
static bool
order(const char *command, const char *what, char *line, size_t line_len)
{
	char *argv[] = { (char *)(uintptr_t)command, (char *)(uintptr_t)what, NULL };
	struct proc p;
	int status;

	line[0] = '\0';
	if (proc_start(&p, argv, NULL)) {
		snprintf(line, line_len, "%s cannot be started: %s", command, strerror(errno));
		return false;
	}
	while (proc_read_line(&p, line, line_len, COMMAND_MS) >= 0)
		;
	status = proc_wait(&p, COMMAND_MS);
	proc_kill(&p);
	return status == 0;
}

bool
power_cut_begin(const char *command, char *folder, size_t folder_len)
{
	return order(command, "begin", folder, folder_len) && folder[0] == '/';
}

bool
power_cut_end(const char *command, char *words, size_t words_len)
{
	return order(command, "end", words, words_len);
}
