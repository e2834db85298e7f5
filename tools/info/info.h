/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.h -- what rpma-info finds out, and how it tells */

#ifndef INFO_H
#define INFO_H

#include <librpma.h>

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define INFO_TEXT_MAX 512
#define INFO_DEVICES_MAX 32
#define INFO_ADDRESSES_MAX 128
#define INFO_REGIONS_MAX 32

/* a device, rdma-core's or the software one */
struct info_device {
	struct ibv_context *context;
	char name[64];
	bool is_usable; /* else why_not says what failed, and what follows is 0 */
	char why_not[INFO_TEXT_MAX];
	uint32_t caps; /* enum rpma_cap */
	struct ibv_device_attr attr;
	struct ibv_port_attr port; /* the first */
};

/* which device an address gives, for one of the two choices */
struct info_choice {
	struct ibv_context *context; /* NULL: none, why_not says why */
	char why_not[INFO_TEXT_MAX];
};

struct info_address {
	char interface[IF_NAMESIZE]; /* empty: asked for on the command line */
	char text[64];
	bool is_remote;
	struct info_choice rdma;
	struct info_choice soft;
};

struct info_memlock {
	bool is_known;
	uint64_t soft, hard; /* bytes; UINT64_MAX: no limit */
	bool is_exempt;      /* CAP_IPC_LOCK: the limit does not count */
};

/* persistent memory as the kernel shows it, below /sys/bus/nd */
struct info_region {
	char name[64];
	char domain[64]; /* cpu_cache, memory_controller, or empty */
};

enum info_granularity { GRANULARITY_UNKNOWN, GRANULARITY_BYTE, GRANULARITY_CACHE_LINE, GRANULARITY_PAGE };

/* where the user wants to keep data */
struct info_path {
	const char *path; /* NULL: not asked for */
	char file_system[64];
	char mount_point[INFO_TEXT_MAX];
	bool is_in_memory; /* tmpfs and the like: nothing there survives a power failure */
	bool is_dax;       /* the file's own attribute */
	enum info_granularity granularity;
	char why_not[INFO_TEXT_MAX]; /* granularity is unknown because of this */
	/* does each device, in the order of info.devices, let it be flushed to persistence? */
	bool can_flush[INFO_DEVICES_MAX];
	char flush_why_not[INFO_DEVICES_MAX][INFO_TEXT_MAX];
};

struct info {
	int device_count;
	struct info_device devices[INFO_DEVICES_MAX];
	int address_count;
	struct info_address addresses[INFO_ADDRESSES_MAX];
	struct info_memlock memlock;
	int region_count;
	struct info_region regions[INFO_REGIONS_MAX];
	struct info_path path;
	const char *rpma_device; /* the variable; NULL */
};

/* each fills in its part; what cannot be found out is said in the part itself */
void info_find_devices(struct info *info);
/* the addresses of all interfaces that are up */
void info_find_addresses(struct info *info);
void info_add_address(struct info *info, const char *text, bool is_remote);
void info_find_limits(struct info *info);
/* needs the devices */
void info_find_path(struct info *info, const char *text);

/* the name of the device with this context, "none" for NULL */
const char *info_device_name(const struct info *info, const struct ibv_context *context);
/* what "auto" takes: RDMA where there is some, else the software device */
const struct info_choice *info_auto_choice(const struct info_address *address);
/* a sentence on what a granularity means for direct write; NULL if it is unknown */
const char *info_granularity_meaning(enum info_granularity granularity);
const char *info_granularity_name(enum info_granularity granularity);
/* likewise on the memlock limit */
const char *info_memlock_meaning(const struct info_memlock *memlock);

void info_print_text(const struct info *info);
/* false: out of memory */
bool info_print_json(const struct info *info);

#endif /* INFO_H */
