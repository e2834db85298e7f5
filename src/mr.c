/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mr.c -- memory regions: registration, the rights of the other side, descriptors */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "err.h"
#include "inherited.h"
#include "log.h"
#include "mr.h"

#define USAGE_ALL \
	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | \
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | \
		RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV)
#define USAGE_FLUSH (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define USAGE_ATOMICS (RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST)

static_assert(USAGE_ALL == UINT8_MAX, "the usage fills its byte of the descriptor");

static bool
allows_atomics(const struct rpma_peer *peer, int usage)
{
	return (peer->caps & RPMA_CAP_ATOMICS) && (usage & USAGE_ATOMICS) == USAGE_ATOMICS;
}

static int
usage_to_access(const struct rpma_peer *peer, int usage)
{
	int access = 0;

	if (usage & RPMA_MR_USAGE_READ_SRC)
		access |= IBV_ACCESS_REMOTE_READ;
	if (usage & RPMA_MR_USAGE_READ_DST)
		access |= IBV_ACCESS_LOCAL_WRITE | (peer->is_iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
	/* verbs do not require it, but programs of the original library read into such memory */
	if (usage & RPMA_MR_USAGE_WRITE_SRC)
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (usage & RPMA_MR_USAGE_WRITE_DST)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	if (usage & RPMA_MR_USAGE_RECV)
		access |= IBV_ACCESS_LOCAL_WRITE;

	/* a client without native flush reads after writing, so the region allows reading as well */
	if (usage & USAGE_FLUSH)
		access |= IBV_ACCESS_REMOTE_READ;
	if (peer->caps & RPMA_CAP_NATIVE_FLUSH) {
		if (usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
			access |= RPMAI_ACCESS_FLUSH_GLOBAL;
		if (usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
			access |= RPMAI_ACCESS_FLUSH_PERSISTENT;
	}

	if (allows_atomics(peer, usage))
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	return access;
}

/*
 * Registers without the persistence right if the device or the memory refuses it; *access becomes what was
 * granted
 */
static struct ibv_mr *
reg_durable_or_not(const struct rpma_peer *peer, void *ptr, size_t size, int *access)
{
	struct ibv_mr *mr = peer->rdma->reg_mr(peer->pd, ptr, size, *access);
	if (mr || !(*access & RPMAI_ACCESS_FLUSH_PERSISTENT) || (errno != EOPNOTSUPP && errno != EINVAL))
		return mr;

	*access &= ~RPMAI_ACCESS_FLUSH_PERSISTENT;
	return peer->rdma->reg_mr(peer->pd, ptr, size, *access);
}

/*
 * On-demand paging is for memory that cannot be pinned at all (file systems on DAX). It is not for memory
 * that merely cannot be flushed to persistence: without the pages, a device cannot see that it is not
 * persistent memory.
 */
static struct ibv_mr *
reg_pinned_or_odp(const struct rpma_peer *peer, void *ptr, size_t size, int *access)
{
	int granted = *access;
	struct ibv_mr *mr = reg_durable_or_not(peer, ptr, size, &granted);
	if (mr == NULL && errno == EOPNOTSUPP && (peer->caps & RPMA_CAP_ODP)) {
		granted = *access | IBV_ACCESS_ON_DEMAND;
		mr = reg_durable_or_not(peer, ptr, size, &granted);
	}
	*access = granted;
	return mr;
}

static const char *
reg_way_out(int errnum, const struct rpma_peer *peer)
{
	switch (errnum) {
	case EAGAIN: /* the software device briefly makes a thread */
		/*
		 * message(memory, limit-of-locked-memory): the way out, over hardware mostly -> Raise the
		 * limit; `rpma-info` shows it.
		 */
		return "a limit may be too low: of locked memory (ulimit -l, LimitMEMLOCK=) or of threads "
		       "(ulimit -u, TasksMax=)";
	case ENOMEM:
	case EPERM:
		/* message(limit-of-locked-memory) */
		return "the limit of locked memory may be too low (ulimit -l, LimitMEMLOCK=)";
	case EOPNOTSUPP:
		/*
		 * message(memory): the way out, over hardware -> Use `/dev/daxX.Y`, or a device with
		 * on-demand paging.
		 */
		return (peer->caps & RPMA_CAP_ODP)
			? NULL
			: "memory of a file system on DAX needs on-demand paging, which the device "
			  "does not have, or not so that it can be relied on (SoftRoCE): use a "
			  "device DAX";
	case EFAULT:
		/*
		 * message(memory): the way out of *Bad address* -> Map as many bytes as you register,
		 * writable.
		 */
		return "the range must be mapped, and writable unless it is only a source";
	default:
		return NULL;
	}
}

int
rpmai_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr)
{
	assert(size > 0 && usage != 0);

	struct rpma_mr_local *mr = malloc(sizeof(*mr));
	if (mr == NULL)
		return RPMAI_FAIL_NOMEM();

	const int wanted = usage_to_access(peer, usage);
	int access = wanted;
	struct ibv_mr *ibv_mr = reg_pinned_or_odp(peer, ptr, size, &access);
	if (ibv_mr == NULL) {
		/*
		 * message(memory): rpma_mr_reg(3); the way out follows -> *Bad address*: the range is not
		 * mapped, or is read-only. *Cannot allocate memory* over hardware: see *limit of locked
		 * memory*.
		 */
		int ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errno, reg_way_out(errno, peer),
			"ibv_reg_mr() of %zu bytes", size);
		free(mr);
		return ret;
	}
	if (wanted & ~access & RPMAI_ACCESS_FLUSH_PERSISTENT) {
		usage &= ~RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
		/*
		 * message(memory): rpma_mr_reg(3) with a persistent flush -> Map a file on a disk or on
		 * persistent memory with MAP_SHARED, readable and writable.
		 */
		RPMAI_LOG(WARNING,
			"%zu bytes cannot be made durable (neither persistent memory nor a shared mapping of a file that "
			"can be synced): registered, but rpma_flush() to persistence is not offered",
			size);
	}

	rpmai_peer_use(peer);
	*mr = (struct rpma_mr_local){ .peer = peer, .ibv_mr = ibv_mr, .usage = usage };
	*mr_ptr = mr;
	return 0;
}

int
rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr)
{
	if (peer == NULL || ptr == NULL || mr_ptr == NULL)
		return RPMAI_FAIL_NULL();
	/* message(memory, arguments-of-reg): arguments of rpma_mr_reg(3) -> Correct the program. */
	if (size == 0)
		return RPMAI_FAIL(RPMA_E_INVAL, "a memory region of 0 bytes: give a size of 1 or more");
	/* message(arguments-of-reg) */
	if (usage == 0 || (usage & ~USAGE_ALL))
		return RPMAI_FAIL(RPMA_E_INVAL, "usage 0x%x: give one or more RPMA_MR_USAGE_* flags",
			(unsigned)usage);
	if (rpmai_peer_is_inherited(peer))
		return rpmai_refuse_inherited();

	return rpmai_mr_reg(peer, ptr, size, usage, mr_ptr);
}

int
rpma_mr_dereg(struct rpma_mr_local **mr_ptr)
{
	if (mr_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_mr_local *mr = *mr_ptr;
	if (mr == NULL)
		return 0;
	*mr_ptr = NULL;
	if (rpmai_peer_is_inherited(mr->peer))
		return rpmai_bury_inherited(mr);

	int ret = 0;
	int errnum = mr->peer->rdma->dereg_mr(mr->ibv_mr);
	/* message(memory): rpma_mr_dereg(3) -> Report it, with the log at `RPMA_LOG_LEVEL=debug`. */
	if (errnum)
		ret = RPMAI_FAIL_ERRNO(RPMA_E_PROVIDER, errnum, NULL, "ibv_dereg_mr()");
	ret = rpmai_first_error(ret, rpmai_peer_unuse(mr->peer));
	free(mr);
	return ret;
}

int
rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc)
{
	if (mr == NULL || desc == NULL)
		return RPMAI_FAIL_NULL();

	uint8_t caps = 0;
	if (mr->peer->caps & RPMA_CAP_NATIVE_FLUSH)
		caps |= MR_CAP_NATIVE_FLUSH;
	if (mr->peer->caps & RPMA_CAP_NATIVE_ATOMIC_WRITE)
		caps |= MR_CAP_NATIVE_ATOMIC_WRITE;
	if (allows_atomics(mr->peer, mr->usage))
		caps |= MR_CAP_REMOTE_ATOMICS;

	const struct mr_descriptor md = {
		.raddr = (uintptr_t)mr->ibv_mr->addr,
		.size = mr->ibv_mr->length,
		.rkey = mr->ibv_mr->rkey,
		.usage = (uint8_t)mr->usage,
		.has_caps = true,
		.caps = caps,
	};
	rpmai_mr_descriptor_encode(&md, desc);
	return 0;
}

int
rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size)
{
	if (mr == NULL || desc_size == NULL)
		return RPMAI_FAIL_NULL();

	*desc_size = MR_DESCRIPTOR_SIZE;
	return 0;
}

int
rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr)
{
	if (desc == NULL || mr_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct mr_descriptor md;
	/*
	 * message(memory, no-descriptor): what came from the other side is not what it should be -> Both
	 * programs must agree where the descriptor is in their message.
	 */
	if (!rpmai_mr_descriptor_decode(desc, desc_size, &md))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes are not a descriptor of a memory region (rpma_mr_get_descriptor)",
			desc_size);

	struct rpma_mr_remote *mr = malloc(sizeof(*mr));
	if (mr == NULL)
		return RPMAI_FAIL_NOMEM();

	mr->desc = md;
	*mr_ptr = mr;
	return 0;
}

int
rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr)
{
	if (mr == NULL || ptr == NULL)
		return RPMAI_FAIL_NULL();

	*ptr = mr->ibv_mr->addr;
	return 0;
}

int
rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size)
{
	if (mr == NULL || size == NULL)
		return RPMAI_FAIL_NULL();

	*size = mr->ibv_mr->length;
	return 0;
}

int
rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size)
{
	if (mr == NULL || size == NULL)
		return RPMAI_FAIL_NULL();

	*size = (size_t)mr->desc.size;
	return 0;
}

int
rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type)
{
	if (mr == NULL || flush_type == NULL)
		return RPMAI_FAIL_NULL();

	*flush_type = mr->desc.usage & USAGE_FLUSH;
	return 0;
}

int
rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr)
{
	if (mr_ptr == NULL)
		return RPMAI_FAIL_NULL();

	free(*mr_ptr);
	*mr_ptr = NULL;
	return 0;
}

static const char *
advise_way_out(int errnum)
{
	switch (errnum) {
	case EFAULT:
		return "a page cannot be fetched (the end of a file, a full disk), or RDMA hardware wants memory "
		       "that is registered on demand";
	case EINVAL:
		return "a flag may be unknown, or RDMA hardware wants memory that is registered on demand";
	case EPERM:
		return "prefetching for writes is for memory that the device may write to";
	default:
		return NULL;
	}
}

int
rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags)
{
	if (mr == NULL)
		return RPMAI_FAIL_NULL();
	if (rpmai_peer_is_inherited(mr->peer))
		return rpmai_refuse_inherited();
	/*
	 * message(memory, advise): rpma_mr_advise(3) -> Correct the range; advice is for devices with
	 * on-demand paging.
	 */
	if (!rpmai_range_ok(mr->ibv_mr->length, offset, len) || len > UINT32_MAX)
		return RPMAI_FAIL(RPMA_E_INVAL,
			"%zu bytes at offset %zu: not within the %zu bytes of the region (and 4 GiB)", len,
			offset, mr->ibv_mr->length);

	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->ibv_mr->addr + offset,
		.length = (uint32_t)len,
		.lkey = mr->ibv_mr->lkey,
	};
	int errnum =
		mr->peer->rdma->advise_mr(mr->peer->pd, (enum ibv_advise_mr_advice)advice, flags, &sge, 1);
	int ret = RPMA_E_PROVIDER;
	switch (errnum) {
	case 0:
		return 0;
	case EOPNOTSUPP: /* the same value as ENOTSUP */
		ret = RPMA_E_NOSUPP;
		break;
	case EFAULT:
	case EINVAL:
		ret = RPMA_E_INVAL;
		break;
	default:
		break;
	}
	/* message(advise) */
	return RPMAI_FAIL_ERRNO(ret, errnum, advise_way_out(errnum),
		"ibv_advise_mr(): advice %d, flags 0x%x, %zu bytes at offset %zu", advice, (unsigned)flags,
		len, offset);
}
