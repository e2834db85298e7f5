/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* devices.c -- the devices of the machine, and their capabilities */

#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"

/* the software device always has this address, since it needs only an address of this machine */
#define ANY_LOCAL_ADDRESS "127.0.0.1"

static void
describe(struct info_device *device)
{
	struct rpma_peer *peer = NULL;
	snprintf(device->name, sizeof(device->name), "%.63s", device->context->device->name);
	if (rpma_peer_new(device->context, &peer) || rpma_peer_get_caps(peer, &device->caps)) {
		snprintf(device->why_not, sizeof(device->why_not), "%s", rpma_errormsg());
		(void)rpma_peer_delete(&peer);
		return;
	}
	(void)rpma_peer_delete(&peer);

	struct ibv_device_attr_ex attr = { 0 };
	int errnum = ibv_query_device_ex(device->context, NULL, &attr);
	if (errnum == 0)
		errnum = ibv_query_port(device->context, 1, &device->port);
	if (errnum) {
		snprintf(device->why_not, sizeof(device->why_not), "asking for its limits: %s",
			strerror(errnum));
		return;
	}
	device->attr = attr.orig_attr;
	device->is_usable = true;
}

void
info_find_devices(struct info *info)
{
	/* the list of librdmacm, because the library uses only the contexts that librdmacm has opened */
	int count = 0;
	struct ibv_context **list = rdma_get_devices(&count);
	/* the last element is for the software device */
	for (int i = 0; i < count && info->device_count < INFO_DEVICES_MAX - 1; i++) {
		info->devices[info->device_count].context = list[i];
		describe(&info->devices[info->device_count++]);
	}
	if (list)
		rdma_free_devices(list);

	struct info_device *soft = &info->devices[info->device_count++];
	if (setenv("RPMA_DEVICE", "soft", 1) ||
		rpma_utils_get_ibv_context(ANY_LOCAL_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &soft->context)) {
		snprintf(soft->name, sizeof(soft->name), "the software device");
		snprintf(soft->why_not, sizeof(soft->why_not), "%s", rpma_errormsg());
		return;
	}
	describe(soft);
}

const char *
info_device_name(const struct info *info, const struct ibv_context *context)
{
	for (int i = 0; context && i < info->device_count; i++)
		if (info->devices[i].context == context)
			return info->devices[i].name;
	return context ? "unknown" : "none";
}
