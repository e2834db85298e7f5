/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* shm_path.c -- writes and reads of a connection to a process on the same host, without its socket */

#include <assert.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "softrdma/base/copy.h"
#include "softrdma/base/env.h"
#include "softrdma/base/fork.h"
#include "softrdma/base/sockaddr.h"
#include "softrdma/core/link.h"
#include "softrdma/samehost/local_peer.h"
#include "softrdma/samehost/registry.h"
#include "softrdma/samehost/shm_path.h"

/* nanoseconds between two checks of a peer that accesses memory being deregistered */
#define LOOK_NS 20000
#define NS_PER_S 1000000000u

/* the shared-memory path of one connection to a process on this host */
struct shm_path {
	struct softrdma_shm_path head;              /* first: the part that the link knows */
	union softrdma_address own_addr, peer_addr; /* of the connection's socket; set once */
	struct shm_path *next; /* in the list paths: those opened to the peer; under shm_paths_lock */
	unsigned refs;         /* the link, and threads in wait_for(); under shm_paths_lock */
	struct softrdma_local_peer *local_peer; /* NULL: the peer's offer has not arrived */
	struct softrdma_registry_slot *own;
	const struct softrdma_registry_slot *peer;
	uint32_t number, peer_number;
	uint32_t slot;                         /* this side's slot, as in its offer */
	uint8_t id[SOFTRDMA_REGISTRY_ID_SIZE]; /* this side's registry, as in its offer */
	bool offer_due;
	uint64_t done; /* bytes of the oldest request that have been copied */
	uint64_t uses; /* number of uses of mappings of the peer's memory so far */
	struct softrdma_peer_map maps[SOFTRDMA_PEER_MAPS];
};
static_assert(offsetof(struct shm_path, head) == 0, "the link knows the first member only");

static struct shm_path *
path_of(const struct softrdma_link *link)
{
	return (struct shm_path *)link->shm_path;
}

static pthread_mutex_t shm_paths_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shm_path *paths;
/* the paths of all connections that have a slot, by the slot; under shm_paths_lock */
static struct shm_path *path_at[SOFTRDMA_REGISTRY_SLOTS];

static void
after_fork(void)
{
	softrdma_fork_keep(paths);
	paths = NULL;
	memset(path_at, 0, sizeof(path_at));
	shm_paths_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SOFTRDMA_FORK_HOOK(.rank = SOFTRDMA_FORK_OTHERS, .in_child = after_fork);

/* --- beginning and end --- */

/*
 * Gives the addresses of both ends of a socket; false: the kernel does not tell them. A socket that listens on IPv6 may
 * serve IPv4: its addresses are given in the form that they have at the other end.
 */
static bool
get_addresses(int fd, union softrdma_address *own, union softrdma_address *peer)
{
	socklen_t own_len = sizeof(*own), peer_len = sizeof(*peer);
	memset(own, 0, sizeof(*own));
	memset(peer, 0, sizeof(*peer));
	if (getsockname(fd, &own->any, &own_len) != 0 || getpeername(fd, &peer->any, &peer_len) != 0)
		return false;
	softrdma_address_unmap(own);
	softrdma_address_unmap(peer);
	return true;
}

static const struct softrdma_shm_path_ops ops;

void
softrdma_shm_path_offer(struct softrdma_link *link, int fd)
{
	union softrdma_address own_addr, peer_addr;
	/* needs the registry. A right is withheld only from peers that are not trusted. */
	if (!softrdma_registry_is_there() || link->responder.withheld ||
		!get_addresses(fd, &own_addr, &peer_addr) || !softrdma_address_equal(&own_addr, &peer_addr))
		return;
	uint32_t number;
	if (softrdma_random(&number, sizeof(number)))
		return;
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(link->responder.pd);
	if (slot == NULL)
		return;
	struct shm_path *path = calloc(1, sizeof(*path));
	if (path == NULL) {
		softrdma_registry_give_slot(slot);
		return;
	}
	path->head.ops = &ops;
	path->own_addr = own_addr;
	path->peer_addr = peer_addr;
	path->refs = 1;
	path->own = slot;
	path->number = number ? number : 1;
	path->offer_due = true;
	const struct softrdma_shm_offer offer = softrdma_registry_offer(slot, path->number);
	path->slot = offer.slot;
	memcpy(path->id, offer.id, sizeof(path->id));
	pthread_mutex_lock(&shm_paths_lock);
	path_at[path->slot] = path; /* before the offer leaves, so that the other end finds it */
	pthread_mutex_unlock(&shm_paths_lock);
	link->shm_path = &path->head;
	link->requester.asks_always = true; /* only requests without others before them go this way */
}

static bool
next_offer(struct softrdma_link *link, struct softrdma_shm_offer *offer)
{
	struct shm_path *path = path_of(link);
	if (!path->offer_due)
		return false;
	path->offer_due = false;
	*offer = softrdma_registry_offer(path->own, path->number);
	return true;
}

/* true if the offer names the registry of this process */
static bool
is_of_this_process(const struct shm_path *path, const struct softrdma_shm_offer *offer)
{
	return memcmp(offer->id, path->id, sizeof(path->id)) == 0;
}

/*
 * True if the offer's slot is that of the connection whose socket is the other end of this one. A queue pair that is
 * connected to itself has one socket, which is its own other end.
 */
static bool
is_of_the_other_end(const struct shm_path *path, const struct softrdma_shm_offer *offer)
{
	pthread_mutex_lock(&shm_paths_lock);
	const struct shm_path *other = path_at[offer->slot];
	bool is = other && softrdma_endpoint_equal(&other->own_addr, &path->peer_addr) &&
		softrdma_endpoint_equal(&other->peer_addr, &path->own_addr);
	pthread_mutex_unlock(&shm_paths_lock);
	return is;
}

/*
 * A peer may send back an offer that this process has sent to it, on this connection or on another one. If it were
 * taken, requests to the peer would access this process's own memory. A proxy inside this process does the same and
 * means no harm, so the connection goes on by TCP.
 */
static bool
is_sent_back(const struct shm_path *path, const struct softrdma_shm_offer *offer)
{
	static struct softrdma_log_limit limit = SOFTRDMA_LOG_LIMIT;
	if (!is_of_this_process(path, offer) || is_of_the_other_end(path, offer))
		return false;
	SOFTRDMA_LOG_FEW(&limit, INFO,
		"a peer has sent back an offer of shared memory of this process: the peer is reached by TCP");
	return true;
}

static void
offer_came(struct softrdma_link *link, const struct softrdma_shm_offer *offer)
{
	struct shm_path *path = path_of(link);
	assert(path->local_peer == NULL); /* the link takes one offer */
	if (link->failed || link->responder.withheld || is_sent_back(path, offer))
		return;
	struct softrdma_local_peer *local_peer = softrdma_local_peer_meet(offer);
	if (local_peer == NULL)
		return;
	path->local_peer = local_peer;
	path->peer = &softrdma_local_peer_registry(local_peer)->slots[offer->slot];
	path->peer_number = offer->number;
	memcpy(path->own->peer_id, offer->id, sizeof(path->own->peer_id));
	path->own->peer_slot = offer->slot;
	path->own->peer_number = offer->number;
	pthread_mutex_lock(&shm_paths_lock);
	path->next = paths;
	paths = path;
	pthread_mutex_unlock(&shm_paths_lock);
	/* only now, because a thread that deregisters memory must find in paths all peers that may access it */
	atomic_store(&path->own->open, path->number);
	SOFTRDMA_LOG(INFO,
		"the peer is process %u of this host: its memory is reached directly where the kernel allows it",
		offer->pid);
}

void
softrdma_shm_path_shut(struct softrdma_link *link)
{
	struct shm_path *path = path_of(link);
	if (path)
		atomic_store(&path->own->open, 0);
}

static const struct softrdma_shm_path_ops ops = {
	.next_offer = next_offer,
	.offer_came = offer_came,
	.shut = softrdma_shm_path_shut,
};

/* true if the peer is accessing this process's memory: its busy is odd, and the thread that set it still lives */
static bool
is_busy(const struct shm_path *path)
{
	return atomic_load(&path->peer->busy) % 2 != 0 && softrdma_registry_is_held(&path->peer->inside);
}

/* takes a shared-memory path off the list and frees it; the caller holds shm_paths_lock */
static void
put(struct shm_path **at)
{
	struct shm_path *path = *at;
	*at = path->next;
	softrdma_local_peer_leave(path->local_peer);
	free(path);
}

/* frees shared-memory paths that have ended, except those whose peer is still accessing this process's memory */
static void
sweep(void)
{
	pthread_mutex_lock(&shm_paths_lock);
	struct shm_path **at = &paths;
	while (*at) {
		if ((*at)->refs == 0 && !is_busy(*at))
			put(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&shm_paths_lock);
}

void
softrdma_shm_path_end(struct softrdma_link *link)
{
	struct shm_path *path = path_of(link);
	if (path == NULL)
		return;
	softrdma_shm_path_shut(link);
	link->shm_path = NULL;
	for (int i = 0; i < SOFTRDMA_PEER_MAPS; i++)
		softrdma_peer_map_close(&path->maps[i]);
	pthread_mutex_lock(&shm_paths_lock);
	path_at[path->slot] = NULL; /* while the slot is still this connection's */
	pthread_mutex_unlock(&shm_paths_lock);
	softrdma_registry_give_slot(path->own);
	if (path->local_peer == NULL) {
		free(path);
		return;
	}
	pthread_mutex_lock(&shm_paths_lock);
	path->refs--;
	pthread_mutex_unlock(&shm_paths_lock);
	sweep();
}

/* --- deregistration --- */

/* waits until the peer ends its current access; any later access finds that the memory is hidden */
static void
wait_for(struct shm_path *path)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	const unsigned busy = atomic_load(&path->peer->busy);
	const uint64_t start_ns = softrdma_now_ns();
	bool told = false;
	while (atomic_load(&path->peer->busy) == busy && is_busy(path)) {
		nanosleep(&look, NULL);
		if (!told && softrdma_now_ns() - start_ns > NS_PER_S) {
			told = true;
			/*
			 * message(connected): `SOFTRDMA_SAME_HOST`, and the other process is stopped
			 * (SIGSTOP, a debugger) -> Let it go on, or end it.
			 */
			SOFTRDMA_LOG(WARNING,
				"memory is taken back that another process of this host is writing or reading and, it "
				"seems, was stopped at: waiting for it");
		}
	}
}

void
softrdma_shm_path_wait(void)
{
	pthread_mutex_lock(&shm_paths_lock);
	struct shm_path *path = paths;
	while (path) {
		path->refs++;
		pthread_mutex_unlock(&shm_paths_lock);
		wait_for(path);
		pthread_mutex_lock(&shm_paths_lock);
		path->refs--;
		/* the reference kept it on the list; paths added meanwhile find that the memory is hidden */
		path = path->next;
	}
	pthread_mutex_unlock(&shm_paths_lock);
	sweep();
}

/* --- requests --- */

/*
 * Finds the region that a request accesses, as the responder would, and copies its entry, which may change. False:
 * the request must go to the responder.
 */
static bool
find_region(const struct shm_path *path, const struct softrdma_send *send,
	struct softrdma_registry_region *region)
{
	const int right = softrdma_send_info(send)->right;
	const struct softrdma_registry *registry = softrdma_local_peer_registry(path->local_peer);
	const struct softrdma_registry_region *at = NULL;
	for (unsigned step = 0; step < SOFTRDMA_REGISTRY_STEPS && at == NULL; step++) {
		at = &registry->regions[softrdma_registry_place(send->key, step)];
		if (atomic_load(&at->key) != send->key)
			at = NULL;
	}
	if (at == NULL || send->key == 0) /* 0 marks an entry without a region */
		return false;
	region->addr = atomic_load_explicit(&at->addr, memory_order_relaxed);
	region->length = atomic_load_explicit(&at->length, memory_order_relaxed);
	region->serial = atomic_load_explicit(&at->serial, memory_order_relaxed);
	if (at->pd != path->peer->pd || (at->access & right) != right || send->remote_addr < region->addr)
		return false;
	uint64_t offset = send->remote_addr - region->addr;
	return offset <= region->length && send->length <= region->length - offset;
}

/* the mapping of the region: an existing one, or a new one that replaces the least recently used */
static struct softrdma_peer_map *
map_of(struct shm_path *path, const struct softrdma_registry_region *region)
{
	struct softrdma_peer_map *map = &path->maps[0];
	for (int i = 0; i < SOFTRDMA_PEER_MAPS; i++) {
		struct softrdma_peer_map *at = &path->maps[i];
		if (at->serial == region->serial && at->addr == region->addr &&
			at->length == region->length) {
			at->used = ++path->uses;
			return at;
		}
		if (at->used < map->used)
			map = at;
	}
	softrdma_peer_map_close(map);
	softrdma_peer_map_open(map, path->local_peer, region, softrdma_registry_trusts_files());
	map->used = ++path->uses;
	return map;
}

/*
 * Checks that local memory is there, which the program may have unmapped since it posted the request. In the call that
 * posts, nothing is checked: a check takes as long as the whole request, and a wrong address is that call's argument.
 */
static int
check_local(const struct softrdma_requester *req, void *here, size_t len, bool from_there)
{
	const bool is_posted_now = (int32_t)(req->ring.tail - req->posted_from) >= 0;
	if (is_posted_now)
		return 0;
	return from_there ? softrdma_copy_check_stores(here, len, NULL)
			  : softrdma_copy_check_loads(here, len);
}

/* false: local memory is missing */
static bool
copy_by_map(const struct softrdma_requester *req, const struct softrdma_place *place, uint8_t *there,
	bool from_there)
{
	for (int i = 0; i < place->count; i++) {
		const struct softrdma_mr *mr = place->mr[i];
		uint8_t *here = place->iov[i].iov_base;
		size_t len = place->iov[i].iov_len;
		int ret = mr && !mr->fragile ? check_local(req, here, len, from_there) : 0;
		/* the application sees a READ by its completion, so the order of bytes is free, but words stay whole */
		if (ret == 0 && mr && mr->fragile)
			ret = from_there ? softrdma_copy_to(here, there, len)
					 : softrdma_copy_from(there, here, len);
		else if (ret == 0 && from_there)
			memcpy(here, there, len);
		else if (ret == 0)
			softrdma_copy_upwards(there, here, len);
		if (ret)
			return false;
		there += len;
	}
	return true;
}

/* true if the peer permits accesses, and a deregistration there waits for this side's slot */
static bool
is_open(const struct shm_path *path)
{
	const struct softrdma_registry_slot *peer = path->peer;
	return atomic_load(&peer->open) == path->peer_number && peer->peer_number == path->number &&
		peer->peer_slot == path->slot && memcmp(peer->peer_id, path->id, sizeof(path->id)) == 0 &&
		softrdma_local_peer_alive(path->local_peer);
}

/* copies one part of the oldest request while busy is set; false: this cannot be done locally */
static bool
copy_piece(struct softrdma_link *link, const struct softrdma_send *send, const struct softrdma_place *place,
	size_t len)
{
	struct shm_path *path = path_of(link);
	struct softrdma_registry_region region;
	if (!is_open(path) || !find_region(path, send, &region))
		return false;
	const bool from_there = send->opcode == SOFTRDMA_OP_READ;
	const uint64_t addr = send->remote_addr + path->done;
	const uint64_t offset = addr - region.addr;
	struct softrdma_peer_map *map = map_of(path, &region);
	if (map->base && softrdma_peer_map_holds(map, offset, len))
		return copy_by_map(&link->requester, place, map->base + offset, from_there);
	return softrdma_local_peer_copy(path->local_peer, place->iov, place->count, addr, len, from_there);
}

/* copies the next part of the request; false: the whole request must go by TCP */
static bool
go_on(struct softrdma_link *link, const struct softrdma_send *send)
{
	struct shm_path *path = path_of(link);
	struct softrdma_place place;
	uint64_t left = send->length - path->done;
	size_t len = left < SOFTRDMA_SHM_PATH_MAX ? (size_t)left : SOFTRDMA_SHM_PATH_MAX;
	/* if local memory is refused, the request goes by TCP, which reports the error */
	bool copied = softrdma_requester_segments(&link->requester, send, path->done, len, &place) == 0;
	if (copied) {
		pthread_mutex_lock(&path->own->inside);
		atomic_fetch_add(&path->own->busy, 1);
		copied = copy_piece(link, send, &place, len);
		atomic_fetch_add_explicit(&path->own->busy, 1, memory_order_release);
		pthread_mutex_unlock(&path->own->inside);
	}
	path->done = copied ? path->done + len : 0;
	return copied;
}

static bool
is_by_memory(const struct softrdma_send *send)
{
	return (send->opcode == SOFTRDMA_OP_WRITE || send->opcode == SOFTRDMA_OP_READ) && !send->has_imm &&
		send->length > 0;
}

bool
softrdma_shm_path_run(struct softrdma_link *link)
{
	struct shm_path *path = path_of(link);
	if (path->local_peer == NULL || link->state != SOFTRDMA_LINK_UP)
		return false;
	size_t budget = SOFTRDMA_SHM_PATH_MAX;
	const struct softrdma_send *send;
	while ((send = softrdma_requester_alone(&link->requester)) != NULL && is_by_memory(send)) {
		size_t before = path->done;
		if (!go_on(link, send))
			return false;
		size_t len = path->done - before;
		if (path->done == send->length) {
			path->done = 0;
			softrdma_requester_complete_locally(&link->requester);
		}
		budget = len < budget ? budget - len : 0;
		if (budget == 0)
			return softrdma_requester_alone(&link->requester) != NULL;
	}
	return false;
}
