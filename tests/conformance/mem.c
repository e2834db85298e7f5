/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mem.c -- registered memory with guards, and descriptors */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control.h"
#include "mem.h"
#include "pattern.h"
#include "power_cut.h"

/* the fixed part of a descriptor: base, size and key, little-endian, then one byte of usage */
#define DESC_BASE 0
#define DESC_SIZE 8
#define DESC_KEY 16
#define DESC_USAGE 20

/* a device DAX is mapped by multiples of this */
#define DEVICE_UNIT ((size_t)2 << 20)

static void
map(struct mem *m, size_t len, int fd, off_t at, size_t unit)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	memset(m, 0, sizeof(*m));
	m->len = len;
	m->fd = fd;
	m->at = at;
	m->mapped = GUARD + len + GUARD;
	m->held = (m->mapped + unit - 1) / unit * unit;
	m->base = mmap(NULL, m->held, PROT_READ | PROT_WRITE, flags, fd, at);
	CHECK(m->base != MAP_FAILED);
	m->data = m->base + GUARD;
	memset(m->base, GUARD_BYTE, m->mapped);
}

void
mem_new_with(struct rpma_peer *peer, struct mem *m, size_t len, int usage)
{
	map(m, len, -1, 0, 1);
	CHECK_OK(rpma_mr_reg(peer, m->base, m->mapped, usage, &m->mr));
}

void
mem_new(struct role *r, struct mem *m, size_t len, int usage)
{
	mem_new_with(r->peer, m, len, usage);
}

/* a file without a name is not durable, so the name stays as long as the mapping */
static int
temporary_file(struct role *r, char **name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/conformance-XXXXXX", r->dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		check_failed(__FILE__, __LINE__, "cannot make %s: %s", path, strerror(errno));
	*name = strdup(path);
	CHECK(*name != NULL);
	return fd;
}

/* makes the name of a new file durable, which a flush does not do */
static void
sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fsync(fd), 0);
	close(fd);
}

static void
reg_file(struct role *r, struct mem *m, int usage)
{
	int ret = rpma_mr_reg(r->peer, m->base, m->mapped, usage, &m->mr);

	/* hardware needs on-demand paging for DAX; and not every kernel can pin the page cache */
	if (ret == RPMA_E_PROVIDER && !r->soft && (errno == EOPNOTSUPP || errno == EFAULT))
		check_skip(r, "this device cannot register a file mapping (%s)", strerror(errno));
	CHECK_OK(ret);
}

static void
map_and_register(struct role *r, struct mem *m, size_t len, int fd, int usage)
{
	CHECK_EQ(ftruncate(fd, (off_t)(GUARD + len + GUARD)), 0);
	map(m, len, fd, 0, 1);
	reg_file(r, m, usage);
}

/* each mapping of a process gets the next range of the device */
static void
map_and_register_device(struct role *r, struct mem *m, size_t len, int usage)
{
	static _Atomic off_t end;
	off_t at =
		atomic_fetch_add(&end, (off_t)((len + 2 * GUARD) / DEVICE_UNIT * DEVICE_UNIT + DEVICE_UNIT));
	int fd = open(r->device, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		check_failed(__FILE__, __LINE__, "cannot open %s: %s", r->device, strerror(errno));
	map(m, len, fd, at, DEVICE_UNIT);
	reg_file(r, m, usage);
}

void
mem_new_file(struct role *r, struct mem *m, size_t len, int usage)
{
	char *path = NULL;
	int fd;

	if (r->device) {
		map_and_register_device(r, m, len, usage);
		return;
	}
	fd = temporary_file(r, &path);
	map_and_register(r, m, len, fd, usage);
	m->path = path;
	if (r->power_cut)
		sync_folder(r->dir);
}

void
mem_new_memfd(struct role *r, struct mem *m, size_t len, int usage)
{
	int fd = memfd_create("conformance", MFD_CLOEXEC);

	CHECK(fd >= 0);
	map_and_register(r, m, len, fd, usage);
}

void
mem_read_file(const struct mem *m, void *buf, size_t n, size_t offset)
{
	void *other;

	if (m->held == m->mapped) {
		CHECK_EQ(pread(m->fd, buf, n, m->at + (off_t)offset), n);
		return;
	}
	other = mmap(NULL, m->held, PROT_READ, MAP_SHARED, m->fd, m->at);
	CHECK(other != MAP_FAILED);
	memcpy(buf, (uint8_t *)other + offset, n);
	munmap(other, m->held);
}

void
mem_dereg(struct mem *m)
{
	CHECK_OK(rpma_mr_dereg(&m->mr));
	CHECK(m->mr == NULL);
}

void
mem_delete(struct mem *m)
{
	if (m->mr)
		mem_dereg(m);
	munmap(m->base, m->held);
	if (m->path)
		unlink(m->path);
	free(m->path);
	if (m->fd >= 0)
		close(m->fd);
}

void
mem_fill(struct mem *m, uint64_t seed)
{
	pattern_fill(m->data, m->len, seed, 0);
}

static void
check_guard(const char *file, int line, const uint8_t *guard, size_t len, const char *where)
{
	ptrdiff_t bad = pattern_check_byte(guard, len, GUARD_BYTE);

	if (bad >= 0)
		check_failed(file, line, "byte %td %s the payload was written", bad, where);
}

void
mem_check_head_at(const char *file, int line, const struct mem *m, size_t head, uint64_t seed)
{
	ptrdiff_t bad = pattern_check(m->data, head, seed, 0);

	if (bad >= 0)
		check_failed(file, line, "payload differs at byte %td of %zu", bad, head);
	check_guard(file, line, m->base, GUARD, "before");
	check_guard(file, line, m->data + head, m->len - head + GUARD, "behind");
}

void
mem_check_at(const char *file, int line, const struct mem *m, uint64_t seed)
{
	mem_check_head_at(file, line, m, m->len, seed);
}

void
mem_check_untouched_at(const char *file, int line, const struct mem *m)
{
	mem_check_head_at(file, line, m, 0, 0);
}

/*
 * reads the payload from a file; returns the number of bytes read, 0 if the file does not exist or cannot be
 * read
 */
static size_t
read_payload(const char *path, uint8_t *payload, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0;
	ssize_t n = 1;

	if (fd < 0)
		return 0;
	while (done < len && n > 0) {
		n = pread(fd, payload + done, len - done, (off_t)(GUARD + done));
		done += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return done;
}

/* the payload as a power cut now would leave it, to be freed by the caller; NULL if that cannot be known */
static uint8_t *
payload_after_power_cut(const struct role *r, const struct mem *m)
{
	char folder[4096], path[2 * 4096];
	uint8_t *payload;
	size_t len;

	if (!r->power_cut || !m->path)
		return NULL;
	payload = malloc(m->len);
	CHECK(payload != NULL || m->len == 0);
	if (!power_cut_begin(r->power_cut, folder, sizeof(folder)))
		check_failed(__FILE__, __LINE__, "no power cut: %s", folder);
	snprintf(path, sizeof(path), "%s/%s", folder, m->path);
	len = read_payload(path, payload, m->len);
	if (!power_cut_end(r->power_cut, folder, sizeof(folder)))
		check_failed(__FILE__, __LINE__, "no end of the power cut: %s", folder);
	if (len < m->len)
		check_failed(__FILE__, __LINE__, "lost by a power cut: all behind byte %zu of %zu", len,
			m->len);
	return payload;
}

void
mem_check_durable_at(const char *file, int line, const struct role *r, const struct mem *m, uint64_t seed)
{
	uint8_t *payload = payload_after_power_cut(r, m);
	ptrdiff_t bad = payload ? pattern_check(payload, m->len, seed, 0) : -1;

	free(payload);
	if (bad >= 0)
		check_failed(file, line, "lost by a power cut: byte %td of %zu was acknowledged", bad,
			m->len);
}

void
mem_check_durable_untouched_at(const char *file, int line, const struct role *r, const struct mem *m)
{
	uint8_t *payload = payload_after_power_cut(r, m);
	ptrdiff_t bad = payload ? pattern_check_byte(payload, m->len, GUARD_BYTE) : -1;

	free(payload);
	if (bad >= 0)
		check_failed(file, line, "lost by a power cut: byte %td of %zu was acknowledged", bad,
			m->len);
}

void
desc_get(const struct mem *m, struct desc *d)
{
	CHECK_OK(rpma_mr_get_descriptor_size(m->mr, &d->len));
	CHECK(d->len >= DESC_USAGE + 1 && d->len <= DESC_MAX);
	CHECK_OK(rpma_mr_get_descriptor(m->mr, d->bytes));
}

void
desc_alter_key(struct desc *d)
{
	for (size_t i = DESC_KEY; i < DESC_USAGE; i++)
		d->bytes[i] ^= 0x5a;
}

void
desc_alter_usage(struct desc *d, int usage)
{
	d->bytes[DESC_USAGE] = (uint8_t)usage;
}

static void
add_u64(uint8_t *field, int64_t difference)
{
	uint64_t value;

	memcpy(&value, field, sizeof(value));
	value = htole64(le64toh(value) + (uint64_t)difference);
	memcpy(field, &value, sizeof(value));
}

void
desc_alter_size(struct desc *d, int64_t difference)
{
	add_u64(d->bytes + DESC_SIZE, difference);
}

void
desc_alter_base(struct desc *d, int64_t difference)
{
	add_u64(d->bytes + DESC_BASE, difference);
}

struct rpma_mr_remote *
desc_import(const struct desc *d)
{
	struct rpma_mr_remote *remote = NULL;

	CHECK_OK(rpma_mr_remote_from_descriptor(d->bytes, d->len, &remote));
	return remote;
}

void
desc_put(struct role *r, const struct mem *m)
{
	struct desc d;

	desc_get(m, &d);
	ctl_send(r, d.bytes, d.len);
}

void
desc_take(struct role *r, struct desc *d)
{
	d->len = ctl_recv(r, d->bytes, sizeof(d->bytes));
}

struct rpma_mr_remote *
remote_take(struct role *r)
{
	struct desc d;

	desc_take(r, &d);
	return desc_import(&d);
}
