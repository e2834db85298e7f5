/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* devices.c -- the list of devices, which has one entry, its context, and its properties */

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "preload.h"
#include "softrdma/verbs/device.h"
#include "softrdma/base/notify.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned opened; /* guarded by lock */

/* for programs written for hardware, which may rely on its slowness: see struct softrdma_env */
#define REFUSED_PATIENCE_MS 1000

static void
begin_anew(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	softrdma_preload_after_fork();
}

__attribute__((constructor)) static void
set_surroundings(void)
{
	static const struct softrdma_env env = { .refused_patience_ms = REFUSED_PATIENCE_MS };
	softrdma_set_env(&env);
	pthread_atfork(NULL, NULL, begin_anew); /* if memory for it is lacking, the device warns too */
}

/* --- contexts --- */

struct ibv_context *
softrdma_preload_context(void)
{
	struct ibv_context *context = softrdma_context();
	if (context == NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	/* the descriptor never becomes readable, as on hardware that works */
	if (context->async_fd < 0)
		context->async_fd = softrdma_notify_open();
	bool ready = context->async_fd >= 0;
	pthread_mutex_unlock(&lock);
	return ready ? context : NULL;
}

struct ibv_device **
ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));
	if (list)
		list[0] = softrdma_device();
	if (num_devices)
		*num_devices = list ? 1 : 0;
	return list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *
ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int
ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1; /* the kernel does not know the device */
}

__be64
ibv_get_device_guid(struct ibv_device *device)
{
	(void)device;
	return htobe64(SOFTRDMA_NODE_GUID);
}

struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	if (device != softrdma_device()) {
		errno = ENODEV;
		return NULL;
	}
	struct ibv_context *context = softrdma_preload_context();
	if (context) {
		pthread_mutex_lock(&lock);
		opened++;
		pthread_mutex_unlock(&lock);
	}
	return context;
}

/* the context is shared and stays open; the last close releases the GIDs that were handed out */
int
ibv_close_device(struct ibv_context *context)
{
	int ret = softrdma_owns(context) ? 0 : EINVAL;
	pthread_mutex_lock(&lock);
	if (opened == 0)
		ret = EINVAL;
	bool last = ret == 0 && --opened == 0;
	pthread_mutex_unlock(&lock);
	if (last)
		softrdma_release_gids();
	return ret;
}

struct ibv_context **
rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	struct ibv_context *context = softrdma_preload_context();
	if (context)
		list = calloc(2, sizeof(struct ibv_context *));
	if (list)
		list[0] = context;
	if (num_devices)
		*num_devices = list ? 1 : 0;
	return list;
}

void
rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

/* --- asynchronous events: there are none --- */

int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)event;
	int ret;
	do {
		ret = softrdma_notify_wait(context->async_fd);
	} while (ret == 0);
	errno = ret;
	return -1;
}

void
ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/*
 * --- fork(2): no memory is pinned, so the copy-on-write of a child never takes pages away from the device;
 * the device does everything else itself (softrdma/base/fork.h) ---
 */

int
ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status
ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* --- queries --- */

int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	struct ibv_device_attr_ex attr;
	int ret = softrdma_ibv_query_device_ex(context, NULL, &attr);
	if (ret == 0)
		*device_attr = attr.orig_attr;
	return ret;
}

#undef ibv_query_port
/* for programs built before struct ibv_port_attr grew: it ended with its flags then */
int
ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr)
{
	struct ibv_port_attr attr;
	int ret = softrdma_ibv_query_port(context, port_num, &attr);
	if (ret == 0)
		memcpy(port_attr, &attr, offsetof(struct ibv_port_attr, port_cap_flags2));
	return ret;
}

int
ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	return softrdma_ibv_query_pkey(context, port_num, index, pkey);
}

int
ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	return softrdma_ibv_get_pkey_index(context, port_num, pkey);
}

int
ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	return softrdma_ibv_query_gid(context, port_num, index, gid);
}

int
ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, unsigned int *type)
{
	return softrdma_ibv_query_gid_type(context, port_num, index, type);
}

int
_ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	return softrdma_ibv_query_gid_ex(context, port_num, gid_index, entry, flags, entry_size);
}

ssize_t
_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
	uint32_t flags, size_t entry_size)
{
	return softrdma_ibv_query_gid_table(context, entries, max_entries, flags, entry_size);
}
