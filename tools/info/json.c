/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* json.c -- printing the findings for programs */

#include <jansson.h>

#include "info.h"

static json_t *
device_object(const struct info_device *d)
{
	if (!d->is_usable)
		return json_pack("{s:s, s:b, s:s}", "name", d->name, "usable", 0, "reason", d->why_not);
	const struct ibv_device_attr *a = &d->attr;
	json_t *limits = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "queue_entries",
		(json_int_t)a->max_qp_wr, "completion_queue_entries", (json_int_t)a->max_cqe,
		"shared_receive_queue_entries", (json_int_t)a->max_srq_wr, "pieces", (json_int_t)a->max_sge,
		"reads_in_flight", (json_int_t)a->max_qp_rd_atom, "connections", (json_int_t)a->max_qp,
		"memory_regions", (json_int_t)a->max_mr, "message_bytes", (json_int_t)d->port.max_msg_sz);
	return json_pack("{s:s, s:b, s:b, s:s, s:b, s:b, s:b, s:b, s:o}", "name", d->name, "usable", 1,
		"is_software", (d->caps & RPMA_CAP_SOFT) != 0, "port_state",
		ibv_port_state_str(d->port.state), "on_demand_paging", (d->caps & RPMA_CAP_ODP) != 0,
		"native_flush", (d->caps & RPMA_CAP_NATIVE_FLUSH) != 0, "native_atomic_write",
		(d->caps & RPMA_CAP_NATIVE_ATOMIC_WRITE) != 0, "atomics", (d->caps & RPMA_CAP_ATOMICS) != 0,
		"limits", limits);
}

static const char *
reason(const struct info_choice *choice)
{
	return choice->context ? NULL : choice->why_not;
}

static json_t *
address_object(const struct info *info, const struct info_address *a)
{
	const struct info_choice *chosen = info_auto_choice(a);
	return json_pack("{s:s, s:s?, s:b, s:s?, s:s?, s:s?}", "address", a->text, "interface",
		a->interface[0] ? a->interface : NULL, "is_remote", a->is_remote, "auto_takes",
		chosen->context ? info_device_name(info, chosen->context) : NULL, "why_no_rdma_device",
		reason(&a->rdma), "why_not_software_device", reason(&a->soft));
}

/* null if there is no limit or it is unknown */
static json_t *
bytes_value(bool is_known, uint64_t bytes)
{
	return is_known && bytes != UINT64_MAX ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *
memlock_object(const struct info_memlock *m)
{
	return json_pack("{s:b, s:o, s:o, s:b, s:s?}", "is_known", m->is_known, "soft_bytes",
		bytes_value(m->is_known, m->soft), "hard_bytes", bytes_value(m->is_known, m->hard),
		"is_exempt", m->is_exempt, "meaning", info_memlock_meaning(m));
}

/* appends the value and returns the array, or NULL if out of memory */
static json_t *
appended(json_t *array, json_t *value)
{
	if (array && value && json_array_append_new(array, value) == 0)
		return array;
	json_decref(array);
	return NULL;
}

static json_t *
path_object(const struct info *info)
{
	const struct info_path *p = &info->path;
	if (p->path == NULL)
		return json_null();
	json_t *flushes = json_array();
	for (int i = 0; p->granularity != GRANULARITY_UNKNOWN && i < info->device_count; i++)
		flushes = appended(flushes,
			json_pack("{s:s, s:b, s:s?}", "device", info->devices[i].name, "persistent_flush",
				p->can_flush[i], "reason", p->can_flush[i] ? NULL : p->flush_why_not[i]));
	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:s, s:s?, s:s?, s:o}", "path", p->path, "file_system",
		p->file_system, "mount_point", p->mount_point, "is_in_memory", p->is_in_memory, "is_dax",
		p->is_dax, "store_granularity", info_granularity_name(p->granularity), "meaning",
		info_path_meaning(p), "reason", p->granularity == GRANULARITY_UNKNOWN ? p->why_not : NULL,
		"devices", flushes);
}

bool
info_print_json(const struct info *info)
{
	json_t *devices = json_array(), *addresses = json_array(), *regions = json_array();
	for (int i = 0; i < info->device_count; i++)
		devices = appended(devices, device_object(&info->devices[i]));
	for (int i = 0; i < info->address_count; i++)
		addresses = appended(addresses, address_object(info, &info->addresses[i]));
	for (int i = 0; i < info->region_count; i++)
		regions = appended(regions,
			json_pack("{s:s, s:s}", "name", info->regions[i].name, "persistence_domain",
				info->regions[i].domain));
	/* json_pack takes over the members, and fails if one of them is NULL */
	json_t *root = json_pack("{s:s, s:s, s:s?, s:o, s:o, s:o, s:i, s:o, s:o}", "program", "rpma-info",
		"version", RPMA_INFO_VERSION, "RPMA_DEVICE", info->rpma_device, "devices", devices,
		"addresses", addresses, "memlock", memlock_object(&info->memlock), "datagram_buffer",
		info->datagram_buffer, "persistent_memory_regions", regions, "path", path_object(info));
	if (root == NULL)
		return false;
	bool good = json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
	putchar('\n');
	json_decref(root);
	return good;
}
