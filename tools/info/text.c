/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* text.c -- printing the findings for people */

#include <inttypes.h>

#include "info.h"

static const char *
yes(bool is_so)
{
	return is_so ? "yes" : "no";
}

static void
print_device(const struct info_device *device)
{
	printf("%s%s\n", device->name,
		device->caps & RPMA_CAP_SOFT ? " (the software device: RDMA over TCP)" : "");
	if (!device->is_usable) {
		printf("  cannot be used: %s\n", device->why_not);
		return;
	}
	const struct ibv_device_attr *attr = &device->attr;
	printf("  port:                 %s, messages of up to %u bytes\n",
		ibv_port_state_str(device->port.state), device->port.max_msg_sz);
	printf("  on-demand paging:     %s\n", yes(device->caps & RPMA_CAP_ODP));
	printf("  native flush:         %s\n", yes(device->caps & RPMA_CAP_NATIVE_FLUSH));
	printf("  native atomic write:  %s\n", yes(device->caps & RPMA_CAP_NATIVE_ATOMIC_WRITE));
	printf("  remote atomics:       %s\n", yes(device->caps & RPMA_CAP_ATOMICS));
	printf("  queues:               %d entries of a send or receive queue, %d of a completion queue, %d of a shared "
	       "receive queue\n",
		attr->max_qp_wr, attr->max_cqe, attr->max_srq_wr);
	printf("  pieces per operation: %d; reads and atomics in flight: %d\n", attr->max_sge,
		attr->max_qp_rd_atom);
	printf("  connections:          %d; memory regions: %d\n", attr->max_qp, attr->max_mr);
}

static void
print_address(const struct info *info, const struct info_address *address)
{
	const struct info_choice *chosen = info_auto_choice(address);
	printf("%s%s%s%s%s: %s\n", address->text, address->interface[0] ? " (" : "", address->interface,
		address->interface[0] ? ")" : "", address->is_remote ? " (remote)" : "",
		info_device_name(info, chosen->context));
	if (address->rdma.context == NULL)
		printf("  no RDMA device: %s\n", address->rdma.why_not);
	if (address->soft.context == NULL)
		printf("  not the software device: %s\n", address->soft.why_not);
}

static void
print_bytes(uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		printf("unlimited");
	else
		printf("%" PRIu64 " KiB", bytes / 1024);
}

static void
print_memlock(const struct info_memlock *memlock)
{
	if (!memlock->is_known) {
		printf("unknown\n");
		return;
	}
	print_bytes(memlock->soft);
	printf(", may be raised to ");
	print_bytes(memlock->hard);
	printf("\n  %s\n", info_memlock_meaning(memlock));
}

static const char *
domain_meaning(const struct info_region *region)
{
	if (region->domain[0] == 'c')
		return "caches are saved when the power fails (eADR)";
	if (region->domain[0] == 'm')
		return "caches are not saved when the power fails (ADR)";
	return "the kernel does not know";
}

static void
print_path(const struct info *info)
{
	const struct info_path *path = &info->path;
	printf("\nMemory at %s\n", path->path);
	printf("  file system:          %s%s%s, DAX: %s\n", path->file_system,
		path->mount_point[0] ? " at " : "", path->mount_point, yes(path->is_dax));
	printf("  store granularity:    %s\n", info_granularity_name(path->granularity));
	if (path->granularity == GRANULARITY_UNKNOWN) {
		printf("                        %s\n", path->why_not);
		return;
	}
	printf("                        %s\n", info_path_meaning(path));
	for (int i = 0; i < info->device_count; i++)
		printf("  flush to persistence, %s: %s%s%s\n", info->devices[i].name, yes(path->can_flush[i]),
			path->can_flush[i] ? "" : ": ", path->flush_why_not[i]);
}

void
info_print_text(const struct info *info)
{
	printf("Devices\n\n");
	for (int i = 0; i < info->device_count; i++)
		print_device(&info->devices[i]);

	printf("\nAddresses, and what RPMA_DEVICE=auto takes for them (now it is %s)\n\n",
		info->rpma_device ? info->rpma_device : "not set, which is auto");
	for (int i = 0; i < info->address_count; i++)
		print_address(info, &info->addresses[i]);

	printf("\nMemory that may be locked: ");
	print_memlock(&info->memlock);

	printf("\nDatagrams that wait in a socket: ");
	if (info->datagram_buffer)
		print_bytes((uint64_t)info->datagram_buffer);
	else
		printf("unknown");
	printf("\n");

	printf("\nPersistent memory that the kernel shows: %s\n", info->region_count ? "" : "none");
	for (int i = 0; i < info->region_count; i++)
		printf("  %s: %s; %s\n", info->regions[i].name,
			info->regions[i].domain[0] ? info->regions[i].domain : "no persistence domain",
			domain_meaning(&info->regions[i]));
	if (info->path.path)
		print_path(info);
}
