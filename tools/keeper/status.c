/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* status.c -- what is lent to whom, as JSON */

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "durable_file.h"
#include "keeper.h"

static json_t *
client_json(const struct client *client)
{
	char id[9];

	snprintf(id, sizeof(id), "%08" PRIx32, (uint32_t)(client->id >> 32));
	return json_pack("{s:s, s:b, s:b, s:I}", "client", id, "writes", client->writes, "established",
		client->established, "since", (json_int_t)client->since);
}

static json_t *
lend_json(const struct keeper *k, const struct lend *lend)
{
	static const char *const kinds[] = {
		[KEEPER_VOLATILE] = "none",
		[KEEPER_PAGES] = "pages",
		[KEEPER_LINES] = "lines",
	};
	char id[IDENTITY_TEXT_SIZE];
	json_t *clients = json_array();

	for (int i = 0; clients && i < KEEPER_PLACES(k->options); i++)
		if (k->clients[i].conn && k->clients[i].lend == lend)
			(void)json_array_append_new(clients, client_json(&k->clients[i]));
	identity_text(lend->memory.identity.id, id);
	json_t *holder = lend->holder ? client_json(lend->holder) : json_null();
	return json_pack("{s:s, s:I, s:s, s:b, s:b, s:b, s:s, s:b, s:o, s:i, s:I, s:I, s:I, s:o}", "name",
		lend->name, "size", (json_int_t)lend->memory.size, "persistence",
		kinds[lend->memory.persistence], "read_only", lend->read_only, "failed",
		lend->memory.identity.failed, "unrevoked", lend->unrevoked, "identity", id,
		"lent_for_writing", lend->holder != NULL, "holder", holder, "readers", lend->readers,
		"granted", (json_int_t)lend->granted, "refused", (json_int_t)lend->refused, "revoked",
		(json_int_t)lend->revoked, "clients", clients);
}

/* what the device has done for all clients; RDMA hardware does not count it */
static json_t *
served_json(const struct keeper *k)
{
	struct rpma_peer_stats stats = { .size = sizeof(stats) };

	if (rpma_peer_get_stats(k->peer, &stats))
		return json_null();
	const uint64_t refused = stats.refused_invalid + stats.refused_access + stats.refused_failed;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "reads", (json_int_t)stats.served_reads,
		"bytes_read", (json_int_t)stats.served_bytes_read, "writes", (json_int_t)stats.served_writes,
		"bytes_written", (json_int_t)stats.served_bytes_written, "flushes",
		(json_int_t)stats.served_flushes, "refused", (json_int_t)refused, "flush_seconds",
		(double)stats.flush_ns / 1e9);
}

bool
status_write(const struct keeper *k, char why[static WHY_MAX])
{
	json_t *lends = json_array();

	for (int i = 0; lends && i < k->options->lend_count; i++)
		(void)json_array_append_new(lends, lend_json(k, &k->lends[i]));
	json_t *root = json_pack("{s:I, s:i, s:i, s:o, s:o}", "written", (json_int_t)time(NULL), "clients",
		k->client_count, "clients_max", k->options->clients_max, "served", served_json(k), "lends",
		lends);
	char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	bool good = text ? durable_file_replace(k->options->status_path, text, 0644, false, why) ==
			DURABLE_FILE_REPLACED
			 : why_say(why, "out of memory");
	free(text);
	json_decref(root);
	return good;
}
