/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* info.h -- what rpma-info finds out, and how it prints it */

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

/* a device of rdma-core, or the software device */
struct info_device {
	struct ibv_context *context;
	char name[64];
	bool is_usable; /* false: why_not says what failed, and the members after it are 0 */
	char why_not[INFO_TEXT_MAX];
	uint32_t caps; /* enum rpma_cap */
	struct ibv_device_attr attr;
	struct ibv_port_attr port; /* port 1 */
};

/* the device that an address gives, for one of the two choices */
struct info_choice {
	struct ibv_context *context; /* NULL: no device, why_not says why */
	char why_not[INFO_TEXT_MAX];
};

struct info_address {
	char interface[IF_NAMESIZE]; /* empty: the address came from the command line */
	char text[64];
	bool is_remote;
	struct info_choice rdma;
	struct info_choice soft;
};

struct info_memlock {
	bool is_known;
	uint64_t soft, hard; /* in bytes; UINT64_MAX: no limit */
	bool is_exempt;      /* true if the process has CAP_IPC_LOCK: the limit does not apply */
};

/* a region of persistent memory that the kernel lists below /sys/bus/nd */
struct info_region {
	char name[64];
	char domain[64]; /* cpu_cache, memory_controller, or empty */
};

enum info_granularity { GRANULARITY_UNKNOWN, GRANULARITY_BYTE, GRANULARITY_CACHE_LINE, GRANULARITY_PAGE };

/* the place where the user wants to keep data */
struct info_path {
	const char *path; /* NULL: not given */
	char file_system[64];
	char mount_point[INFO_TEXT_MAX];
	bool is_in_memory; /* true for tmpfs and the like: nothing there survives a power failure */
	bool is_dax;       /* attribute of the file itself */
	enum info_granularity granularity;
	char why_not[INFO_TEXT_MAX]; /* why granularity is unknown */
	/* for each device, in the order of info.devices: true if it can flush this memory to persistence */
	bool can_flush[INFO_DEVICES_MAX];
	char flush_why_not[INFO_DEVICES_MAX][INFO_TEXT_MAX];
};

struct info {
	int device_count;
	struct info_device devices[INFO_DEVICES_MAX];
	int address_count;
	struct info_address addresses[INFO_ADDRESSES_MAX];
	struct info_memlock memlock;
	/* bytes that a socket for datagrams of the software device keeps (net.core.rmem_max); 0: unknown */
	int datagram_buffer;
	int region_count;
	struct info_region regions[INFO_REGIONS_MAX];
	struct info_path path;
	const char *rpma_device; /* value of the variable; NULL if it is not set */
};

/* each fills in its part, which also tells what could not be found out */
void info_find_devices(struct info *info);
/* adds the addresses of all interfaces that are up */
void info_find_addresses(struct info *info);
void info_add_address(struct info *info, const char *text, bool is_remote);
void info_find_limits(struct info *info);
/* call this after info_find_devices */
void info_find_path(struct info *info, const char *text);

/* the name of the device with this context, "none" for NULL */
const char *info_device_name(const struct info *info, const struct ibv_context *context);
/* the choice of "auto": the RDMA device if the address has one, else the software device */
const struct info_choice *info_auto_choice(const struct info_address *address);
/* true if any device can use the address */
bool info_is_usable(const struct info_address *address);
/* a sentence about what memory of the path is good for; NULL if its granularity is unknown */
const char *info_path_meaning(const struct info_path *path);
const char *info_granularity_name(enum info_granularity granularity);
/* a sentence about the memlock limit; NULL if it is unknown */
const char *info_memlock_meaning(const struct info_memlock *memlock);

void info_print_text(const struct info *info);
/* returns false if out of memory */
bool info_print_json(const struct info *info);

#endif /* INFO_H */
