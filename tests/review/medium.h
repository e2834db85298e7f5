/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * medium.h -- a disk of the test's own: an image file in a tmpfs, a loop device, a file system
 *
 * Everything is mounted in a private mount namespace, which ends with the process and its children. The disk
 * has no cache of its own, so the image holds what the file system has written to the device, and nothing
 * else. A test can therefore fill the disk below the file system, mount it again, or cut the power: a copy of
 * the image is what a power cut would have left behind.
 */

#ifndef TEST_REVIEW_MEDIUM_H
#define TEST_REVIEW_MEDIUM_H

#include <stdbool.h>

#define MEDIUM_PATH_LEN 256

/* the exit status of a test that cannot run here */
#define MEDIUM_SKIPPED 77

struct medium {
	char base[64];  /* the tmpfs */
	char image[96]; /* in it */
	char dir[96];   /* the file system of the image: where the test makes its files */
	char cut[96];   /* the file system after a power cut, while there is one */
};

/*
 * Makes a disk of image_mib MiB with the file system mkfs makes ("mkfs.ext4 -q", without the name of the
 * image), in a tmpfs of backing_mib MiB. The image is sparse: with a smaller tmpfs the disk fails when that
 * is full. False: mounting is not permitted here or a program is missing; a line says "SKIPPED: reason", and
 * the test ends with MEDIUM_SKIPPED. Call it before any thread is made. Mount options may be NULL.
 */
bool medium_open(struct medium *medium, const char *mkfs, const char *options, unsigned image_mib,
	unsigned backing_mib);

/* the path of a file of the file system */
const char *medium_path(const struct medium *medium, const char *name, char path[MEDIUM_PATH_LEN]);

/* takes all that is left of the tmpfs: what the file system writes to new places of the image fails */
void medium_fill(const struct medium *medium);
/* gives it back */
void medium_make_room(const struct medium *medium);

/*
 * Unmounts and mounts again: afterwards files have what is on the disk, not what the page cache had. Nothing
 * may have a file open or mapped.
 */
void medium_remount(const struct medium *medium, const char *options);

/*
 * Cuts the power: mounts what is on the disk now at medium->cut, beside the file system that goes on.
 * medium_uncut() removes it again. Nothing may be written meanwhile.
 */
void medium_cut(struct medium *medium);
void medium_uncut(struct medium *medium);

/* unmounts everything and removes the tmpfs */
void medium_close(struct medium *medium);

#endif /* TEST_REVIEW_MEDIUM_H */
