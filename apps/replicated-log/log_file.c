/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log_file.h"
#include "random_id.h"

#define MAGIC_SIZE 8

static int
complain(const char *path, const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", path, what, strerror(err));
	return -1;
}

static int
pwrite_all(int fd, const uint8_t *buf, size_t len, off_t offset)
{
	while (len) {
		ssize_t n = pwrite(fd, buf, len, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		buf += n;
		len -= (size_t)n;
		offset += n;
	}
	return 0;
}

/*
 * File systems mark blocks that were never written. A flush of the first data in such a block would have to
 * change that mark as well, which makes appending several times slower. So all blocks are written once, here.
 */
static int
write_zeros(int fd, uint64_t size)
{
	static const uint8_t zeros[1 << 20];

	for (uint64_t offset = 0; offset < size; offset += sizeof(zeros)) {
		size_t len = size - offset < sizeof(zeros) ? (size_t)(size - offset) : sizeof(zeros);
		if (pwrite_all(fd, zeros, len, (off_t)offset))
			return -1;
	}

	return fsync(fd);
}

/* the magic is written last: until it is durable, the file is not a log */
static int
write_header(int fd, uint64_t size)
{
	uint8_t page[LOG_HEADER_SIZE];

	log_header_encode(page, size, random_id(LOG_WORD_MAX));
	if (pwrite_all(fd, page + MAGIC_SIZE, sizeof(page) - MAGIC_SIZE, MAGIC_SIZE) || fsync(fd))
		return -1;

	return pwrite_all(fd, page, MAGIC_SIZE, 0) || fsync(fd) ? -1 : 0;
}

static int
fill_new_file(int fd, const char *path, uint64_t size)
{
	/* a full disk must be an error here, not a fault when a record arrives */
	int err = posix_fallocate(fd, 0, (off_t)size);
	if (err)
		return complain(path, "cannot get its space", err);
	if (write_zeros(fd, size) || write_header(fd, size))
		return complain(path, "cannot be written", errno);

	return 0;
}

/*
 * The draft has a name that no other file has. After a crash, a log may have the name of its draft as well, so a
 * draft that is there already must not be written to.
 */
int
log_file_create(const char *path, uint64_t size)
{
	char draft[PATH_MAX];

	if (snprintf(draft, sizeof(draft), "%s.new-XXXXXX", path) >= (int)sizeof(draft))
		return complain(path, "cannot be created", ENAMETOOLONG);
	int fd = mkostemp(draft, O_CLOEXEC);
	if (fd < 0)
		return complain(draft, "cannot be created", errno);

	int ret = fill_new_file(fd, draft, size);
	/* unlike rename, link never replaces a file; the new name must also survive a power cut */
	if (ret == 0 && (link(draft, path) || persistent_sync_directory(path)))
		ret = complain(path, "cannot be created", errno);
	if (unlink(draft))
		ret = complain(draft, "cannot be removed", errno);
	close(fd);

	return ret;
}

static int
check_log(const char *path, struct log_file *file, bool records_too)
{
	const uint8_t *log = file->mem.ptr;

	enum log_status status = log_header_decode(log, file->mem.size, file->mem.size, &file->header);
	if (status != LOG_OK) {
		fprintf(stderr, "%s: refused and left as it is: %s\n", path, log_status_2str(status));
		return -1;
	}

	log_scan_init(&file->scan, log, (size_t)file->header.tail);
	if (records_too && log_scan_all(&file->scan) != LOG_OK) {
		fprintf(stderr,
			"%s: refused and left as it is: record %" PRIu64 " at offset %zu is damaged\n", path,
			file->scan.records, file->scan.offset);
		return -1;
	}

	return 0;
}

/*
 * Lets the file show what its medium has. After a write to the medium has failed, the kernel shows the new
 * bytes and does not write them again. A replica that was started again would show them as durable.
 */
static int
forget_cached(const char *path, int fd)
{
	if (fsync(fd))
		return complain(path, "cannot be brought to its medium", errno);
	/* it drops what the medium has, if no other process uses it; on DAX and tmpfs there is nothing to drop */
	int err = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

	return err ? complain(path, "cannot be read from its medium", err) : 0;
}

/* checks what can be checked before the file is mapped */
static int
check_file(const char *path, int fd, bool writable)
{
	struct stat st;

	if (fstat(fd, &st))
		return complain(path, "cannot be examined", errno);
	if (!S_ISREG(st.st_mode)) {
		fprintf(stderr, "%s: refused: not a regular file\n", path);
		return -1;
	}
	if (st.st_size < (off_t)LOG_SIZE_MIN) {
		fprintf(stderr, "%s: refused and left as it is: %s\n", path, log_status_2str(LOG_SHORT));
		return -1;
	}
	if (writable && flock(fd, LOCK_EX | LOCK_NB))
		return complain(path, "is served by another process", errno);

	return 0;
}

int
log_file_open(const char *path, bool writable, struct log_file *file)
{
	*file = (struct log_file){ .fd = -1 };
	file->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (file->fd < 0)
		return complain(path, "cannot be opened", errno);

	if (check_file(path, file->fd, writable) || (writable && forget_cached(path, file->fd)) ||
		persistent_map(file->fd, path, writable, &file->mem) || check_log(path, file, writable)) {
		log_file_close(file);
		return -1;
	}

	return 0;
}

void
log_file_close(struct log_file *file)
{
	persistent_unmap(&file->mem);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}
