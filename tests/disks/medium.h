/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * medium.h -- a disk for a test: an image file in a tmpfs, a loop device, a file system
 *
 * Everything is mounted in a private mount namespace, which ends with the process and its children. The disk
 * has no cache of its own, so the image holds exactly what the file system has written to the device. So a
 * test can fill the disk below the file system, mount it again, or cut the power: a copy of the image is what
 * a power cut would leave behind.
 */

#ifndef TEST_DISKS_MEDIUM_H
#define TEST_DISKS_MEDIUM_H

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
 * Makes a disk of image_mib MiB, with the file system that mkfs makes ("mkfs.ext4 -q", without the name of
 * the image), in a tmpfs of backing_mib MiB. The image is sparse: with a smaller tmpfs the disk fails when
 * the tmpfs is full. Returns false if mounting is not permitted here or a program is missing; then it has
 * printed "SKIPPED: reason", and the test ends with MEDIUM_SKIPPED. Call it before any thread is made. Mount
 * options may be NULL.
 */
bool medium_open(struct medium *medium, const char *mkfs, const char *options, unsigned image_mib,
	unsigned backing_mib);

/* makes the path of a file in the file system */
const char *medium_path(const struct medium *medium, const char *name, char path[MEDIUM_PATH_LEN]);

/* fills the rest of the tmpfs, so that writes of the file system to new places of the image fail */
void medium_fill(const struct medium *medium);
/* frees it again */
void medium_make_room(const struct medium *medium);

/*
 * Unmounts and mounts again: after that files have the content of the disk, not of the page cache. No file
 * may be open or mapped.
 */
void medium_remount(const struct medium *medium, const char *options);

/*
 * Cuts the power: mounts a copy of the disk's current content at medium->cut, beside the file system, which
 * continues. medium_uncut() removes it again. Nothing may be written meanwhile.
 */
void medium_cut(struct medium *medium);
void medium_uncut(struct medium *medium);

/* unmounts everything and removes the tmpfs */
void medium_close(struct medium *medium);

#endif /* TEST_DISKS_MEDIUM_H */
