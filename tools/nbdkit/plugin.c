/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * plugin.c -- nbdkit-rpma-plugin: memory of rpma-keeper as a block device
 *
 * All NBD connections share one disk, so a flush on one of them covers what the others have written. The disk
 * is made after nbdkit has gone to the background: objects of librpma do not survive fork().
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "command_line.h"
#include "disk.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* nbdkit asks for sizes between these */
#define BLOCK_PREFERRED_MIN 512
#define BLOCK_MAXIMUM (32U << 20)

static void
say(const char *text)
{
	nbdkit_error("%s", text);
}

static struct disk_config config = {
	.timeout_ms = DISK_TIMEOUT_DEFAULT_S * 1000,
	.journal_size = DISK_JOURNAL_DEFAULT,
	.say = say,
};
static struct disk_facts facts;
static struct disk *disk;

/* --- configuration --- */

static int
set_bool(const char *value, bool *setting)
{
	int parsed = nbdkit_parse_bool(value);

	if (parsed < 0)
		return -1;
	*setting = parsed;
	return 0;
}

static int
set_timeout(const char *value)
{
	unsigned seconds;

	if (nbdkit_parse_unsigned("timeout", value, &seconds))
		return -1;
	if (seconds < 1 || seconds > DISK_TIMEOUT_MAX_S) {
		nbdkit_error("timeout=%s: it must be from 1 to %d seconds", value, DISK_TIMEOUT_MAX_S);
		return -1;
	}
	config.timeout_ms = (int)seconds * 1000;
	return 0;
}

static int
set_journal(const char *value)
{
	int64_t size = nbdkit_parse_size(value);

	if (size < 0)
		return -1;
	if ((uint64_t)size < DISK_JOURNAL_MIN || (uint64_t)size > DISK_JOURNAL_MAX) {
		nbdkit_error("journal=%s: it must be at least 1M", value);
		return -1;
	}
	config.journal_size = (size_t)size;
	return 0;
}

static int
plugin_config(const char *key, const char *value)
{
	if (strcmp(key, "host") == 0)
		config.host = value;
	else if (strcmp(key, "port") == 0)
		config.port = value;
	else if (strcmp(key, "name") == 0)
		config.name = value;
	else if (strcmp(key, "timeout") == 0)
		return set_timeout(value);
	else if (strcmp(key, "journal") == 0)
		return set_journal(value);
	else if (strcmp(key, "takeover") == 0)
		return set_bool(value, &config.takeover);
	else if (strcmp(key, "writeback") == 0)
		return set_bool(value, &config.write_back);
	else if (strcmp(key, "readonly") == 0)
		return set_bool(value, &config.read_only);
	else if (strcmp(key, "volatile") == 0)
		return set_bool(value, &config.volatile_allowed);
	else {
		nbdkit_error("%s is no parameter of this plugin", key);
		return -1;
	}
	return 0;
}

/* nbdkit tells a plugin of -r when the first client has connected, and the memory is taken before that */
static bool
nbdkit_is_read_only(void)
{
	FILE *args = fopen("/proc/self/cmdline", "re");

	if (args == NULL)
		return false;
	const bool result = command_line_is_read_only(args);
	fclose(args);
	return result;
}

static int
plugin_config_complete(void)
{
	if (nbdkit_is_read_only())
		config.read_only = true;
	if (config.port == NULL)
		config.port = KEEPER_PORT_DEFAULT;
	if (config.host == NULL || config.name == NULL) {
		nbdkit_error("%s= is missing", config.host ? "name" : "host");
		return -1;
	}
	if (!keeper_name_is_valid(config.name)) {
		nbdkit_error("name=%s: a name has at most %d letters, digits, '.', '_' and '-'", config.name,
			KEEPER_NAME_MAX);
		return -1;
	}
	if (config.read_only && config.takeover) {
		nbdkit_error("takeover=true is for writing, and -r or readonly=true is given");
		return -1;
	}
	return 0;
}

/* what is wrong is reported here, while nbdkit is still in the foreground */
static int
plugin_get_ready(void)
{
	char why[WHY_MAX];

	if (disk_probe(&config, &facts, why))
		return 0;
	nbdkit_error("%s at %s port %s: %s", config.name, config.host, config.port, why);
	return -1;
}

static int
plugin_after_fork(void)
{
	char why[WHY_MAX];

	if (disk_start(&config, &facts, &disk, why))
		return 0;
	nbdkit_error("%s at %s port %s: %s", config.name, config.host, config.port, why);
	return -1;
}

static void
plugin_cleanup(void)
{
	disk_stop(&disk);
}

/* --- what a client may know --- */

static void *
plugin_open(int readonly)
{
	(void)readonly;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
plugin_get_size(void *handle)
{
	(void)handle;
	return (int64_t)facts.size;
}

static int
plugin_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)handle;
	*minimum = 1;
	*preferred = facts.block_size < BLOCK_PREFERRED_MIN ? BLOCK_PREFERRED_MIN : facts.block_size;
	*maximum = BLOCK_MAXIMUM;
	return 0;
}

static int
plugin_can_write(void *handle)
{
	(void)handle;
	return !config.read_only;
}

/* a reader may see what the writer has not flushed, and cannot flush it */
static int
plugin_can_flush(void *handle)
{
	(void)handle;
	return !config.read_only;
}

static int
plugin_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

/* true because all connections share one disk: a flush covers what was written by any of them */
static int
plugin_can_multi_conn(void *handle)
{
	(void)handle;
	return 1;
}

static int
plugin_is_rotational(void *handle)
{
	(void)handle;
	return 0;
}

/* --- requests --- */

static int
result(bool good)
{
	if (good)
		return 0;
	nbdkit_set_error(EIO);
	return -1;
}

static int
plugin_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return result(disk_read(disk, buf, count, offset));
}

static int
plugin_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	return result(disk_write(disk, buf, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int
plugin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	return result(disk_zero(disk, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int
plugin_flush(void *handle, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return result(disk_flush(disk));
}

static struct nbdkit_plugin plugin = {
	.name = "rpma",
	.longname = "nbdkit plugin for memory of rpma-keeper",
	.version = RPMA_PLUGIN_VERSION,
	.description = "memory of another machine as a block device, over RDMA",
	.config = plugin_config,
	.config_complete = plugin_config_complete,
	.config_help = "host=HOST       (required) the machine of rpma-keeper\n"
		       "port=PORT       its port; " KEEPER_PORT_DEFAULT " unless given\n"
		       "name=NAME       (required) under which it lends the memory\n"
		       "timeout=SECONDS how long a request waits for a keeper that is gone; 60 unless given\n"
		       "journal=SIZE    memory for data that is not flushed yet; 64M unless given\n"
		       "takeover=true   take the memory also from another client\n"
		       "writeback=true  answer a write when it is on its way to the keeper\n"
		       "readonly=true   only read it, as with -r\n"
		       "volatile=true   accept memory that nothing makes durable",
	.get_ready = plugin_get_ready,
	.after_fork = plugin_after_fork,
	.cleanup = plugin_cleanup,
	.open = plugin_open,
	.get_size = plugin_get_size,
	.block_size = plugin_block_size,
	.can_write = plugin_can_write,
	.can_flush = plugin_can_flush,
	.can_fua = plugin_can_fua,
	.can_multi_conn = plugin_can_multi_conn,
	.is_rotational = plugin_is_rotational,
	.pread = plugin_pread,
	.pwrite = plugin_pwrite,
	.zero = plugin_zero,
	.trim = plugin_zero,
	.flush = plugin_flush,
	.errno_is_preserved = 0,
};

/* what nbdkit calls; its macro has no prototype for it */
extern __attribute__((visibility("default"))) struct nbdkit_plugin *plugin_init(void);

NBDKIT_REGISTER_PLUGIN(plugin)
