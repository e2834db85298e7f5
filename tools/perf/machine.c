/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* machine.c -- the machine on which figures were measured */

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

static void
find_processor(char text[static MACHINE_TEXT_MAX])
{
	snprintf(text, MACHINE_TEXT_MAX, "unknown");
	FILE *file = fopen("/proc/cpuinfo", "re");
	if (file == NULL)
		return;
	char line[256];
	while (fgets(line, sizeof(line), file)) {
		const char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && colon) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(text, MACHINE_TEXT_MAX, "%.150s", colon + 1 + strspn(colon + 1, " "));
			break;
		}
	}
	fclose(file);
}

void
machine_describe(struct machine *machine)
{
	struct utsname uts;
	struct tm tm;
	time_t now = time(NULL);

	machine->cores = sysconf(_SC_NPROCESSORS_ONLN);
	find_processor(machine->processor);
	snprintf(machine->kernel, sizeof(machine->kernel), "unknown");
	if (uname(&uts) == 0)
		snprintf(machine->kernel, sizeof(machine->kernel), "%.40s %.80s %.20s", uts.sysname,
			uts.release, uts.machine);
	snprintf(machine->date, sizeof(machine->date), "unknown");
	if (gmtime_r(&now, &tm))
		strftime(machine->date, sizeof(machine->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
}
