/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * failed_write_back.c -- how this kernel reports a failed write-back, and whether later stores reach the
 * disk; without librpma
 *
 *	failed_write_back MKFS MOUNT-OPTIONS IMAGE-MIB BACKING-MIB
 *
 * A thin disk is full while data is written to new blocks; then it has room again. Exit status: 0; 1 if the
 * kernel does not report the failure as the software device needs it (doc/durability.md, "A medium that
 * fails"); 77 if nothing can be mounted. The content of the file after the next mount is printed but not
 * checked.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../disks/medium.h"

#define SIZE (64u << 10)

static struct medium medium;
static int status;

static void
must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(EXIT_FAILURE);
}

/* a file with the application's description and mapping, and a mapping through another description */
struct file {
	const char *name;
	int fd;
	char *mem, *own;
};

static int
open_file(const struct file *file, int flags)
{
	char path[MEDIUM_PATH_LEN];
	int fd = open(medium_path(&medium, file->name, path), flags | O_CLOEXEC, 0600);
	must(fd >= 0, "open");
	return fd;
}

static void
begin(struct file *file)
{
	file->fd = open_file(file, O_RDWR | O_CREAT);
	must(ftruncate(file->fd, SIZE) == 0, "ftruncate");
	file->mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	/* like softrdma_description_open(): no access, and the descriptor is closed */
	int fd = open_file(file, O_RDWR);
	file->own = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	must(file->mem != MAP_FAILED && file->own != MAP_FAILED, "mmap");
	close(fd);
	must(fsync(file->fd) == 0, "the first fsync");
}

static void
end(struct file *file)
{
	munmap(file->mem, SIZE);
	munmap(file->own, SIZE);
	close(file->fd);
}

static void
report(const struct file *file, const char *who, int ret, bool fails)
{
	const char *said = ret ? strerror(errno) : "success";
	printf("%-13s %-56s %s%s\n", file->name, who, said, (ret != 0) == fails ? "" : " (NOT AS RELIED ON)");
	if ((ret != 0) != fails)
		status = EXIT_FAILURE;
}

static void
let_it_fail(struct file *file)
{
	memset(file->mem, 'a', SIZE);
	medium_fill(&medium);
	report(file, "fsync, the application's description", fsync(file->fd), true);
	report(file, "fsync, once more", fsync(file->fd), false);
	report(file, "msync, another description, opened before", msync(file->own, SIZE, MS_SYNC), true);
	report(file, "msync, once more", msync(file->own, SIZE, MS_SYNC), false);
	int late = open_file(file, O_RDWR);
	report(file, "fsync, a description opened after", fsync(late), false);
	close(late);
	medium_make_room(&medium);
	report(file, "there is room again: msync", msync(file->own, SIZE, MS_SYNC), false);
}

static const char *
content(const char *data)
{
	for (size_t i = 1; i < SIZE; i++) {
		if (data[i] != data[0])
			return "a mixture";
	}
	switch (data[0]) {
	case 0:
		return "zeros";
	case 'a':
		return "what was stored before the failure";
	case 'b':
		return "what was stored after the failure";
	default:
		return "something else";
	}
}

/*
 * uses up the blocks that mkfs has written: a write there would partly succeed, which guest-failed-write-back
 * covers
 */
static void
use_old_room(void)
{
	static char data[1 << 20];
	struct file file = { .name = "first" };
	int fd = open_file(&file, O_RDWR | O_CREAT);
	memset(data, 'f', sizeof(data));
	must(write(fd, data, sizeof(data)) == sizeof(data) && fsync(fd) == 0, "the first file");
	close(fd);
}

static void
report_content(const struct file *file, const char *when, const char *data)
{
	printf("%-13s %-56s %s\n", file->name, when, content(data));
}

static void
report_disk(const struct file *file)
{
	static char found[SIZE];
	int fd = open_file(file, O_RDONLY);
	must(read(fd, found, SIZE) == SIZE, "read");
	close(fd);
	report_content(file, "after the next mount there are", found);
}

int
main(int argc, char *argv[])
{
	if (argc != 5)
		return EXIT_FAILURE;
	const char *options = *argv[2] ? argv[2] : NULL;
	setlinebuf(stdout);
	if (!medium_open(&medium, argv[1], options, (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4])))
		return MEDIUM_SKIPPED;
	struct file left = { .name = "left-alone" }, stored = { .name = "stored-again" };
	use_old_room();
	begin(&left);
	begin(&stored);
	let_it_fail(&left);
	report_content(&left, "its pages have", left.mem);
	let_it_fail(&stored);
	memset(stored.mem, 'b', SIZE);
	report(&stored, "stored again: fsync", fsync(stored.fd), false);
	report(&stored, "stored again: msync", msync(stored.own, SIZE, MS_SYNC), false);
	report_content(&stored, "its pages have", stored.mem);
	end(&left);
	end(&stored);
	medium_remount(&medium, options);
	report_disk(&left);
	report_disk(&stored);
	medium_close(&medium);
	return status;
}
