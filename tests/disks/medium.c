/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* medium.c -- a disk for a test: an image file in a tmpfs, a loop device, a file system */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "medium.h"

#define COMMAND_LEN 1024

/*
 * the programs for disks are not in every user's path; a sanitizer's runtime must not be preloaded into them
 */
#define PREFIX "export PATH=$PATH:/usr/sbin:/sbin; unset LD_PRELOAD; "

__attribute__((format(printf, 1, 2))) static bool
run(const char *fmt, ...)
{
	char command[COMMAND_LEN] = PREFIX;
	const size_t used = strlen(command);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(command + used, sizeof(command) - used, fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

static void
must(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "%s failed\n", what);
	abort();
}

static bool
skip(const char *reason)
{
	printf("SKIPPED: %s\n", reason);
	return false;
}

bool
medium_open(struct medium *medium, const char *mkfs, const char *options, unsigned image_mib,
	unsigned backing_mib)
{
	char size[32];
	*medium = (struct medium){ .base = "/tmp/medium-XXXXXX" };
	/* the command's first word is a program that must exist */
	if (!run("command -v \"$(set -- %s; echo $1)\" losetup >/dev/null", mkfs))
		return skip("the program that makes the file system is not installed");
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return skip("a mount namespace is not permitted");
	if (mkdtemp(medium->base) == NULL)
		return skip("no folder can be made in /tmp");
	snprintf(size, sizeof(size), "size=%um", backing_mib);
	if (mount("none", medium->base, "tmpfs", 0, size) != 0) {
		rmdir(medium->base);
		return skip("mounting is not permitted");
	}
	snprintf(medium->image, sizeof(medium->image), "%s/image", medium->base);
	snprintf(medium->dir, sizeof(medium->dir), "%s/disk", medium->base);
	must(mkdir(medium->dir, 0777) == 0, "mkdir");
	must(run("truncate -s %uM %s && %s %s >/dev/null", image_mib, medium->image, mkfs, medium->image),
		mkfs);
	if (run("mount -o loop%s%s %s %s", options ? "," : "", options ? options : "", medium->image,
		    medium->dir))
		return true;
	medium_close(medium);
	return skip("a loop device cannot be mounted");
}

const char *
medium_path(const struct medium *medium, const char *name, char path[MEDIUM_PATH_LEN])
{
	snprintf(path, MEDIUM_PATH_LEN, "%s/%s", medium->dir, name);
	return path;
}

void
medium_fill(const struct medium *medium)
{
	static const char zeros[1 << 16];
	char path[MEDIUM_PATH_LEN];
	snprintf(path, sizeof(path), "%s/ballast", medium->base);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	must(fd >= 0, "the file that fills the disk");
	for (size_t step = sizeof(zeros); step > 0; step /= 2) {
		while (write(fd, zeros, step) > 0)
			;
	}
	must(errno == ENOSPC, "filling the disk");
	close(fd);
}

void
medium_make_room(const struct medium *medium)
{
	char path[MEDIUM_PATH_LEN];
	snprintf(path, sizeof(path), "%s/ballast", medium->base);
	must(unlink(path) == 0, "making room");
}

void
medium_remount(const struct medium *medium, const char *options)
{
	must(run("umount %s", medium->dir), "umount");
	must(run("mount -o loop%s%s %s %s", options ? "," : "", options ? options : "", medium->image,
		     medium->dir),
		"mount");
}

void
medium_cut(struct medium *medium)
{
	snprintf(medium->cut, sizeof(medium->cut), "%s/cut", medium->base);
	must(mkdir(medium->cut, 0777) == 0, "mkdir");
	must(run("cp --sparse=always %s %s.cut && mount -o loop %s.cut %s", medium->image, medium->image,
		     medium->image, medium->cut),
		"mounting what a power cut has left");
}

void
medium_uncut(struct medium *medium)
{
	/* the loop device releases the copy later, so its space is released here at once */
	must(run("umount %s && rmdir %s && truncate -s 0 %s.cut && rm %s.cut", medium->cut, medium->cut,
		     medium->image, medium->image),
		"unmounting what a power cut has left");
	medium->cut[0] = '\0';
}

void
medium_close(struct medium *medium)
{
	if (medium->cut[0])
		medium_uncut(medium);
	umount2(medium->dir, MNT_DETACH);
	umount2(medium->base, MNT_DETACH);
	rmdir(medium->base);
}
