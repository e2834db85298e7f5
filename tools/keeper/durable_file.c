/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* durable_file.c -- small files that are replaced as a whole */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "durable_file.h"
#include "resolve.h"

int
durable_file_open_directory(const char *path, char why[static WHY_MAX])
{
	char copy[PATH_MAX];

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy)) {
		why_say(why, "%s: the path is too long", path);
		return -1;
	}
	const char *directory = dirname(copy);
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		why_say(why, "opening the directory %s: %m", directory);
	return fd;
}

bool
durable_file_sync_directory(const char *path, char why[static WHY_MAX])
{
	int fd = durable_file_open_directory(path, why);
	if (fd < 0)
		return false;
	bool good = fsync(fd) == 0 || why_say(why, "syncing the directory of %s: %m", path);
	close(fd);
	return good;
}

static bool
write_all(int fd, const char *text)
{
	for (size_t left = strlen(text); left > 0;) {
		ssize_t written = write(fd, text, left);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return false;
		text += written;
		left -= (size_t)written;
	}
	return true;
}

/* writes the file that is to replace an old one; old is NULL if it does not exist */
static bool
write_fresh(const char *fresh, const struct stat *old, const char *text, mode_t mode, bool durable,
	char why[static WHY_MAX])
{
	/* a file of its own: one that lies there may have another mode, another owner, or be the end of a pipe */
	(void)unlink(fresh);
	int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return why_say(why, "opening %s: %m", fresh);
	/* root clears a failure in the record of a keeper that runs as another user, and must not shut it out */
	if (old && old->st_uid != geteuid())
		(void)!fchown(fd, old->st_uid, old->st_gid);
	bool good = write_all(fd, text) && (!durable || fsync(fd) == 0);
	if (!good)
		why_say(why, "writing %s: %m", fresh);
	if (close(fd) && good)
		good = why_say(why, "closing %s: %m", fresh);
	return good;
}

enum durable_file_result
durable_file_replace(const char *path, const char *text, mode_t mode, bool durable, char why[static WHY_MAX])
{
	char fresh[PATH_MAX], real[RESOLVED_MAX];
	struct stat old;

	resolve(path, real);
	path = real;
	if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh)) {
		why_say(why, "%s: the path is too long", path);
		return DURABLE_FILE_AS_BEFORE;
	}
	const bool exists = lstat(path, &old) == 0;
	if (exists && !S_ISREG(old.st_mode)) {
		why_say(why, "%s is no file", path);
		return DURABLE_FILE_AS_BEFORE;
	}
	if (!write_fresh(fresh, exists ? &old : NULL, text, mode, durable, why)) {
		(void)unlink(fresh);
		return DURABLE_FILE_AS_BEFORE;
	}
	if (rename(fresh, path)) {
		why_say(why, "renaming %s to %s: %m", fresh, path);
		(void)unlink(fresh);
		return DURABLE_FILE_UNSURE;
	}
	return !durable || durable_file_sync_directory(path, why) ? DURABLE_FILE_REPLACED
								  : DURABLE_FILE_UNSURE;
}
