/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* output.c -- where a report goes: checked before the measurement, written as a whole after it */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

/* a file that is being made beside the one that it will replace */
struct draft {
	int fd;
	char *target; /* the file to replace, without symbolic links */
	char *path;
};

/* true if path is, or will be, a regular file; false, with the reason or with an empty one if it is a device or a pipe */
static bool
is_regular(const char *path, struct stat *st, char why[static WHY_MAX])
{
	why[0] = '\0';
	*st = (struct stat){ .st_mode = 0 };
	if (stat(path, st)) {
		if (errno != ENOENT)
			return why_say(why, "%s: %m", path);
		return true;
	}
	if (S_ISDIR(st->st_mode))
		return why_say(why, "%s is a folder: a file is needed", path);
	if (access(path, W_OK))
		return why_say(why, "%s: %m", path);
	return S_ISREG(st->st_mode);
}

static void
close_draft(struct draft *draft)
{
	if (draft->fd >= 0)
		close(draft->fd);
	if (draft->path)
		(void)unlink(draft->path);
	free(draft->path);
	free(draft->target);
}

/* false: nothing is left behind */
static bool
open_draft(struct draft *draft, const char *path, const struct stat *st, char why[static WHY_MAX])
{
	const bool exists = st->st_mode != 0;
	char *target = exists ? realpath(path, NULL) : strdup(path), *name = NULL;
	if (target == NULL) {
		why_say(why, "%s: %m", path);
		return false;
	}
	if (asprintf(&name, "%s.%d.new", target, getpid()) < 0) {
		name = NULL;
		why_say(why, "out of memory");
		goto err_free;
	}
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		why_say(why, "%s cannot be written: no new file can be made in its folder: %m", path);
		goto err_free;
	}
	if (exists && fchmod(fd, st->st_mode & 0777)) {
		why_say(why, "%s cannot be written: the mode of the new file: %m", path);
		goto err_remove;
	}
	*draft = (struct draft){ fd, target, name };
	return true;

err_remove:
	close(fd);
	(void)unlink(name);
err_free:
	free(name);
	free(target);
	return false;
}

bool
output_check(const char *path, char why[static WHY_MAX])
{
	struct stat st;
	struct draft draft;
	if (!is_regular(path, &st, why))
		return why[0] == '\0';
	if (!open_draft(&draft, path, &st, why))
		return false;
	close_draft(&draft);
	return true;
}

static bool
write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
	}
	return true;
}

static bool
write_directly(const char *path, const void *bytes, size_t len, char why[static WHY_MAX])
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	bool good = fd >= 0 && write_all(fd, bytes, len);
	if (!good)
		why_say(why, "writing %s: %m", path);
	if (fd >= 0 && close(fd) && good)
		good = why_say(why, "writing %s: %m", path);
	return good;
}

bool
output_write(const char *path, const void *bytes, size_t len, char why[static WHY_MAX])
{
	struct stat st;
	struct draft draft;
	if (!is_regular(path, &st, why))
		return why[0] == '\0' && write_directly(path, bytes, len, why);
	if (!open_draft(&draft, path, &st, why))
		return false;

	int errnum = write_all(draft.fd, bytes, len) ? 0 : errno;
	/* some file systems report a full disk only here */
	if (close(draft.fd) && errnum == 0)
		errnum = errno;
	draft.fd = -1;
	if (errnum == 0 && rename(draft.path, draft.target))
		errnum = errno;
	const bool good = errnum == 0;
	if (!good) {
		why_say(why, "writing %s: %s", path, strerror(errnum));
	} else { /* the file has got the name of its target */
		free(draft.path);
		draft.path = NULL;
	}
	close_draft(&draft);
	return good;
}

bool
output_check_standard(char why[static WHY_MAX])
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (flags < 0)
		return why_say(why, "standard output: %m");
	if ((flags & O_ACCMODE) == O_RDONLY)
		return why_say(why, "standard output is not open for writing");
	return true;
}
