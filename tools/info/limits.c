/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* limits.c -- how much memory may be pinned, and the persistent memory that the kernel lists */

#include <dirent.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "info.h"

#define ND_DEVICES "/sys/bus/nd/devices"
#define DATAGRAM_BUFFER (8 << 20)        /* BUFFER_SIZE of softrdma/engine/datagram_socket.c */
#define SMALL_LIMIT ((uint64_t)64 << 20) /* regions of a serious program are larger than this */

/* true if the effective capabilities, as the kernel shows them, have CAP_IPC_LOCK */
static bool
has_ipc_lock(void)
{
	char line[128];
	uint64_t caps = 0;
	FILE *file = fopen("/proc/self/status", "re");
	if (file == NULL)
		return false;
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "CapEff:", 7) == 0)
			caps = strtoull(line + 7, NULL, 16);
	fclose(file);
	return caps & (uint64_t)1 << CAP_IPC_LOCK;
}

static uint64_t
bytes(rlim_t limit)
{
	return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

/* regions ("region0" and so on) have the attribute; other devices of the bus do not */
static void
find_regions(struct info *info)
{
	DIR *dir = opendir(ND_DEVICES);
	if (dir == NULL)
		return;
	for (const struct dirent *entry; (entry = readdir(dir)) && info->region_count < INFO_REGIONS_MAX;) {
		char path[sizeof(ND_DEVICES) + sizeof(entry->d_name) + 32];
		if (strncmp(entry->d_name, "region", 6) != 0)
			continue;
		struct info_region *region = &info->regions[info->region_count];
		snprintf(path, sizeof(path), "%s/%s/persistence_domain", ND_DEVICES, entry->d_name);
		FILE *file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fgets(region->domain, sizeof(region->domain), file))
			region->domain[strcspn(region->domain, "\n")] = '\0';
		fclose(file);
		snprintf(region->name, sizeof(region->name), "%.63s", entry->d_name);
		info->region_count++;
	}
	closedir(dir);
}

/* what the system gives of the bytes that the software device asks for; 0: unknown */
static int
find_datagram_buffer(void)
{
	const int asked = DATAGRAM_BUFFER;
	int given = 0;
	socklen_t len = sizeof(given);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &asked, sizeof(asked)) != 0 ||
		getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &given, &len) != 0)
		given = 0;
	close(fd);
	return given / 2; /* the kernel shows twice as much, for its own use (socket(7)) */
}

void
info_find_limits(struct info *info)
{
	info->datagram_buffer = find_datagram_buffer();
	struct rlimit limit;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
		info->memlock.is_known = true;
		info->memlock.soft = bytes(limit.rlim_cur);
		info->memlock.hard = bytes(limit.rlim_max);
		info->memlock.is_exempt = has_ipc_lock();
	}
	find_regions(info);
}

const char *
info_memlock_meaning(const struct info_memlock *memlock)
{
	if (!memlock->is_known)
		return NULL;
	if (memlock->is_exempt)
		return "this user has CAP_IPC_LOCK, for whom the limit does not count";
	if (memlock->soft == UINT64_MAX)
		return "RDMA devices may pin as much memory as there is";
	if (memlock->soft < SMALL_LIMIT)
		return "RDMA devices pin what is registered, all regions together up to this limit (rpma_mr_reg fails "
		       "with RPMA_E_PROVIDER, ENOMEM): raise it (ulimit -l, limits.conf, LimitMEMLOCK= of systemd). "
		       "The software device pins nothing";
	return "RDMA devices pin what is registered, all regions together up to this limit. The software device pins "
	       "nothing";
}
