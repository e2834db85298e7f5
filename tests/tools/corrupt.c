/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * corrupt.c -- preloaded into rpma-perf: omits the last byte of each transfer, and makes atomics wrong by one
 */

#include <librpma.h>

#include <dlfcn.h>
#include <stdlib.h>

/* the library's own function, which ours hides */
static void *
real(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (symbol == NULL)
		abort();
	return symbol;
}

int
rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_remote *, size_t, const struct rpma_mr_local *, size_t,
		size_t, int, const void *);
	*(void **)&call = real("rpma_write");
	return call(conn, dst, dst_offset, src, src_offset, len - 1, flags, op_context);
}

int
rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags, const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_local *, size_t, const struct rpma_mr_remote *, size_t,
		size_t, int, const void *);
	*(void **)&call = real("rpma_read");
	return call(conn, dst, dst_offset, src, src_offset, len - 1, flags, op_context);
}

int
rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
	const void *op_context)
{
	int (*call)(struct rpma_conn *, const struct rpma_mr_local *, size_t, size_t, int, const void *);
	*(void **)&call = real("rpma_send");
	return call(conn, src, offset, len - 1, flags, op_context);
}

int
rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
	const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_remote *, size_t, const struct rpma_mr_local *, size_t,
		size_t, int, uint32_t, const void *);
	*(void **)&call = real("rpma_write_with_imm");
	/* makes the immediate value wrong once, with the right data: only the announcement is wrong */
	return call(conn, dst, dst_offset, src, src_offset, len, flags, imm == 7 ? 8 : imm, op_context);
}

int
rpma_write_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	const struct rpma_mr_local *src, size_t src_offset, size_t len, enum rpma_flush_type type, int flags,
	const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_remote *, size_t, const struct rpma_mr_local *, size_t,
		size_t, enum rpma_flush_type, int, const void *);
	*(void **)&call = real("rpma_write_flush");
	return call(conn, dst, dst_offset, src, src_offset, len - 1, type, flags, op_context);
}

int
rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
	int flags, const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_remote *, size_t, const char *, int, const void *);
	*(void **)&call = real("rpma_atomic_write");
	char other[8];
	for (int i = 0; i < 8; i++)
		other[i] = (char)(src[i] ^ (i == 7));
	return call(conn, dst, dst_offset, other, flags, op_context);
}

int
rpma_compare_and_swap(struct rpma_conn *conn, struct rpma_mr_local *result, size_t result_offset,
	struct rpma_mr_remote *dst, size_t dst_offset, uint64_t expected, uint64_t desired, int flags,
	const void *op_context)
{
	int (*call)(struct rpma_conn *, struct rpma_mr_local *, size_t, struct rpma_mr_remote *, size_t,
		uint64_t, uint64_t, int, const void *);
	*(void **)&call = real("rpma_compare_and_swap");
	return call(conn, result, result_offset, dst, dst_offset, expected, desired + 1, flags, op_context);
}
