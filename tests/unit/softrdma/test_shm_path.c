/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_shm_path.c -- writes and reads over the shared-memory path: on the same host, without the socket
 *
 * Both sides are in this process; the device does not notice that.
 */

#include "by_hand.h"
#include "connected.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "softrdma/samehost/registry.h"
#include "softrdma/samehost/shm_path.h"

#define FILE_SIZE ((size_t)4 << 20)

/* memory mapped from a file that either can be truncated or cannot; the second half is the target */
struct file {
	int fd;
	uint8_t *mem;
	struct ibv_mr *mr;
};

static void
file_init(struct file *file, bool sealed)
{
	file->fd = memfd_create("direct", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(file->fd, FILE_SIZE), 0);
	if (sealed)
		assert_int_equal(fcntl(file->fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	file->mem = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	assert_ptr_not_equal(file->mem, MAP_FAILED);
	file->mr = softrdma_ibv_reg_mr(the_pd, file->mem, FILE_SIZE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(file->mr);
}

static void
file_fini(struct file *file)
{
	assert_int_equal(softrdma_ibv_dereg_mr(file->mr), 0);
	munmap(file->mem, FILE_SIZE);
	close(file->fd);
}

static struct softrdma_link *
link_of(const struct rdma_cm_id *id)
{
	return softrdma_qp_of(id->qp)->link;
}

/* the slots in this process's registry; the sides of a pair take them in order */
static struct softrdma_registry *the_registry;

static unsigned
open_slots(void)
{
	unsigned count = 0;
	for (unsigned i = 0; i < 8; i++)
		count += atomic_load(&the_registry->slots[i].open) != 0;
	return count;
}

/* finds the process's own mapping, which is the only writable one */
static void
find_the_registry(void)
{
	struct softrdma_registry_slot *slot = softrdma_registry_take_slot(the_pd);
	assert_non_null(slot);
	char *slots = (char *)(slot - softrdma_registry_offer(slot, 1).slot);
	softrdma_registry_give_slot(slot);
	the_registry = (void *)(slots - offsetof(struct softrdma_registry, slots));
	assert_int_equal(the_registry->magic, SOFTRDMA_REGISTRY_MAGIC);
}

static void
setting(const char *value)
{
	setenv("SOFTRDMA_SAME_HOST", value, 1);
}

/* connects a pair, and waits until both sides have opened their slots */
static void
near_init(struct pair_of_ids *p, const char *value)
{
	setting(value);
	pair_init(p);
	find_the_registry();
	wait_until(open_slots() == 2);
}

static void
near_fini(struct pair_of_ids *p)
{
	pair_fini(p);
}

static uint32_t
made_by(const struct rdma_cm_id *id)
{
	return locked(link_of(id), link_of(id)->requester.completed_locally);
}

static struct ibv_send_wr
request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 7,
		.opcode = opcode,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return wr;
}

static enum ibv_wc_status
post(const struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	assert_int_equal(ibv_post_send(id->qp, wr, &bad), 0);
	struct ibv_wc wc = next_wc();
	assert_int_equal(wc.wr_id, wr->wr_id);
	return wc.status;
}

static void
fill(uint8_t *mem, size_t len)
{
	static uint8_t seed;
	seed = (uint8_t)(seed + 31);
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)(seed + i * 13 + (i >> 9));
}

/*
 * writes len bytes from the start of one region to `offset` of another, and reads them back to another place
 */
static void
expect_moves(struct rdma_cm_id *id, struct ibv_mr *here, struct ibv_mr *there, size_t offset, size_t len)
{
	uint8_t *local = here->addr, *remote = (uint8_t *)there->addr + offset;
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = (uint32_t)len, .lkey = here->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)remote, there->rkey);
	fill(local, len);
	memset(remote, 0, len);
	assert_int_equal(post(id, &wr), IBV_WC_SUCCESS);
	assert_memory_equal(local, remote, len);

	fill(remote, len);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(post(id, &wr), IBV_WC_SUCCESS);
	assert_memory_equal(local, remote, len);
}

/* the slot in which this id's side marks that it accesses its peer's memory */
static struct softrdma_registry_slot *
slot_of(struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < 8; i++) {
		struct softrdma_registry_slot *slot = &the_registry->slots[i];
		unsigned before = atomic_load(&slot->busy);
		expect_moves(id, the_mr, the_mr, 4096, 8);
		if (atomic_load(&slot->busy) != before)
			return slot;
	}
	fail();
	return NULL;
}

/* --- operations that complete locally --- */

static void
test_writes_and_reads(void **state)
{
	(void)state;
	static const size_t lengths[] = { 1, 7, 8, 64, 4096, 20000 };
	struct pair_of_ids p;
	near_init(&p, "1");
	struct rdma_cm_id *const sides[] = { p.active, p.passive };
	for (size_t side = 0; side < 2; side++) {
		uint32_t made = 0;
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			expect_moves(sides[side], the_mr, the_mr, 30001, lengths[i]);
			made += 2;
		}
		assert_int_equal(made_by(sides[side]), made);
	}
	assert_true(log_has("reached directly"));
	near_fini(&p);
}

static void
test_through_peer_maps(void **state)
{
	(void)state;
	static const struct {
		bool sealed;
		const char *value;
	} ways[] = { { true, "1" }, { false, "1" }, { false, "2" } };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct pair_of_ids p;
		struct file file;
		near_init(&p, ways[i].value);
		file_init(&file, ways[i].sealed);
		expect_moves(p.active, the_mr, file.mr, FILE_SIZE / 2 - 5, 4096);
		expect_moves(p.active, file.mr, the_mr, 100, 4096);
		/* longer than one block and than one turn; local memory is mapped from a file as well */
		expect_moves(p.active, file.mr, file.mr, FILE_SIZE / 2, FILE_SIZE / 2);
		assert_int_equal(made_by(p.active), 6);
		file_fini(&file);
		near_fini(&p);
	}
}

/* more regions than a connection keeps mapped */
static void
test_many_regions(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct file files[SOFTRDMA_PEER_MAPS + 2];
	near_init(&p, "1");
	for (size_t i = 0; i < SOFTRDMA_PEER_MAPS + 2; i++)
		file_init(&files[i], true);
	for (size_t i = 0; i < 3 * (SOFTRDMA_PEER_MAPS + 2); i++)
		expect_moves(p.active, the_mr, files[i % (SOFTRDMA_PEER_MAPS + 2)].mr, 4096 * i, 64);
	assert_int_equal(made_by(p.active), 6 * (SOFTRDMA_PEER_MAPS + 2));
	for (size_t i = 0; i < SOFTRDMA_PEER_MAPS + 2; i++)
		file_fini(&files[i]);
	near_fini(&p);
}

static void
test_pieces_and_inline(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)the_mem, .length = 10, .lkey = the_mr->lkey },
		{ .addr = (uintptr_t)the_mem + 500, .length = 20, .lkey = the_mr->lkey },
	};
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, sge, (uintptr_t)the_mem + 4096, the_mr->rkey);
	wr.num_sge = 2;
	fill(the_mem, 600);
	assert_int_equal(post(p.active, &wr), IBV_WC_SUCCESS);
	assert_memory_equal(the_mem + 4096, the_mem, 10);
	assert_memory_equal(the_mem + 4106, the_mem + 500, 20);
	wr.send_flags |= IBV_SEND_INLINE;
	sge[0].lkey = 0; /* not checked for inline data */
	fill(the_mem, 600);
	assert_int_equal(post(p.active, &wr), IBV_WC_SUCCESS);
	assert_memory_equal(the_mem + 4096, the_mem, 10);
	assert_int_equal(made_by(p.active), 2);
	near_fini(&p);
}

/* operations that need the other side go through the socket, in order with those that do not */
static void
test_order(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 50, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr *bad;
	struct ibv_send_wr imm =
		request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, (uintptr_t)the_mem + 4096, the_mr->rkey);
	struct ibv_send_wr add =
		request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, (uintptr_t)the_mem + 4096, the_mr->rkey);
	struct ibv_send_wr write = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)the_mem + 8192, the_mr->rkey);
	add.wr.atomic.remote_addr = (uintptr_t)the_mem + 4096;
	add.wr.atomic.rkey = the_mr->rkey;
	add.wr.atomic.compare_add = 5;
	struct ibv_send_wr nothing = write;
	nothing.num_sge = 0;

	memset(the_mem, 0, 16384);
	the_mem[0] = 3;
	assert_int_equal(post(p.active, &write), IBV_WC_SUCCESS);
	assert_int_equal(post(p.active, &nothing), IBV_WC_SUCCESS);
	assert_int_equal(post(p.active, &add), IBV_WC_SUCCESS);
	assert_int_equal(the_mem[4096], 5);
	assert_int_equal(the_mem[0], 0); /* the previous content */
	assert_int_equal(made_by(p.active), 1);

	/* a write after a message that finds no receive waits for that message */
	imm.wr_id = 1;
	write.wr_id = 2;
	imm.next = &write;
	the_mem[0] = 9;
	assert_int_equal(ibv_post_send(p.active->qp, &imm, &bad), 0);
	wait_until(locked(link_of(p.active), link_of(p.active)->requester.waiting));
	assert_int_equal(the_mem[8192], 3);
	assert_int_equal(made_by(p.active), 1);
	assert_int_equal(ibv_post_recv(p.passive->qp, &recv, &bad_recv), 0);
	uint64_t last = 0;
	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id != 50) {
			assert_int_equal(wc.wr_id, ++last);
		}
	}
	assert_int_equal(the_mem[8192], 9);

	/* the sequence numbers continue on both paths */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(post(p.active, &write), IBV_WC_SUCCESS);
		assert_int_equal(post(p.active, &add), IBV_WC_SUCCESS);
	}
	assert_int_equal(the_mem[4096], 9 + 100);
	near_fini(&p);
}

/* what is not signaled is answered at once all the same, because what follows it does not go by the socket before */
static void
test_no_late_acknowledgement(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_sge place = { .addr = (uintptr_t)the_mem + 4096, .length = 8, .lkey = the_mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 50, .sg_list = &place, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr message = request(IBV_WR_SEND, &sge, 0, 0), *bad;
	message.send_flags = 0;
	pthread_mutex_lock(&link_of(p.passive)->lock);
	link_of(p.passive)->responder.answers = SOFTRDMA_ACK_LATER_FROM; /* as if all had replies until now */
	pthread_mutex_unlock(&link_of(p.passive)->lock);
	assert_int_equal(ibv_post_recv(p.passive->qp, &recv, &bad_recv), 0);
	clock_stop(); /* no beat comes */
	assert_int_equal(ibv_post_send(p.active->qp, &message, &bad), 0);
	assert_int_equal(next_wc().wr_id, 50);
	const struct softrdma_requester *req = &link_of(p.active)->requester;
	wait_until(locked(link_of(p.active), req->ring.tail == req->ring.head));
	clock_go_on();
	expect_moves(p.active, the_mr, the_mr, 30001, 64);
	assert_int_equal(made_by(p.active), 2);
	near_fini(&p);
}

/* --- operations that do not --- */

/* the other side refuses them, with the same status as over TCP */
static void
test_refusals(void **state)
{
	(void)state;
	static uint8_t other_mem[256];
	struct ibv_pd *other_pd = softrdma_ibv_alloc_pd(softrdma_context());
	struct ibv_mr *foreign = softrdma_ibv_reg_mr(other_pd, other_mem, sizeof(other_mem),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *read_only = softrdma_ibv_reg_mr(the_pd, the_mem, 64, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *write_only =
		softrdma_ibv_reg_mr(the_pd, the_mem, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	const uint64_t start = (uintptr_t)the_mem;
	const struct {
		enum ibv_wr_opcode opcode;
		uint64_t addr;
		uint32_t rkey;
	} refused[] = {
		{ IBV_WR_RDMA_WRITE, start, the_mr->rkey + 1 },
		{ IBV_WR_RDMA_WRITE, (uintptr_t)other_mem, foreign->rkey },
		{ IBV_WR_RDMA_WRITE, start, read_only->rkey },
		{ IBV_WR_RDMA_READ, start, write_only->rkey },
		{ IBV_WR_RDMA_WRITE, start - 1, the_mr->rkey },
		{ IBV_WR_RDMA_WRITE, start + MEM_SIZE - 7, the_mr->rkey },
		{ IBV_WR_RDMA_READ, start + MEM_SIZE + 100, the_mr->rkey },
		{ IBV_WR_RDMA_READ, UINT64_MAX - 3, the_mr->rkey },
	};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct pair_of_ids p;
		near_init(&p, "1");
		struct ibv_sge sge = { .addr = start + 1000, .length = 8, .lkey = the_mr->lkey };
		struct ibv_send_wr wr = request(refused[i].opcode, &sge, refused[i].addr, refused[i].rkey);
		assert_int_equal(post(p.active, &wr), IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(made_by(p.active), 0);
		/* the queue pair that refused a request closes its slot */
		wait_until(open_slots() == 0);
		near_fini(&p);
	}

	struct pair_of_ids p;
	near_init(&p, "1");
	struct ibv_sge sge = { .addr = start, .length = 8, .lkey = the_mr->lkey + 1 };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, start, the_mr->rkey);
	assert_int_equal(post(p.active, &wr), IBV_WC_LOC_PROT_ERR);
	near_fini(&p);
	softrdma_ibv_dereg_mr(write_only);
	softrdma_ibv_dereg_mr(read_only);
	softrdma_ibv_dereg_mr(foreign);
	softrdma_ibv_dealloc_pd(other_pd);
}

/*
 * If the kernel forbids the copy, or local memory was truncated, the operation goes over TCP, which reports
 * errors.
 */
static void
test_goes_by_tcp(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct file file;
	near_init(&p, "1");
	fail_call(FAIL_MINE, "process_vm_writev", 0, FAIL_FOR_EVER, EPERM);
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 64, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)the_mem + 4096, the_mr->rkey);
	fill(the_mem, 64);
	assert_int_equal(post(p.active, &wr), IBV_WC_SUCCESS);
	assert_memory_equal(the_mem, the_mem + 4096, 64);
	assert_int_equal(made_by(p.active), 0);
	fail_nothing();
	expect_moves(p.active, the_mr, the_mr, 8000, 100);
	assert_int_equal(made_by(p.active), 2);
	near_fini(&p);

	struct file target;
	near_init(&p, "1");
	file_init(&file, false);
	file_init(&target, true);
	assert_int_equal(ftruncate(file.fd, 0), 0);
	sge = (struct ibv_sge){ .addr = (uintptr_t)file.mem, .length = 64, .lkey = file.mr->lkey };
	wr = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)target.mem, target.mr->rkey);
	assert_int_equal(post(p.active, &wr), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(made_by(p.active), 0);
	file_fini(&target);
	file_fini(&file);
	near_fini(&p);
}

/* what is done in the memory of a peer, and not in the call that posted it, looks first if local memory is still there */
static void
test_local_memory_is_lost(void **state)
{
	(void)state;
	static const struct {
		enum ibv_wr_opcode opcode;
		int left; /* protection of the local memory */
		enum ibv_wc_status status;
		uint32_t made;
	} cases[] = {
		{ IBV_WR_RDMA_WRITE, PROT_NONE, IBV_WC_LOC_PROT_ERR, 0 },
		{ IBV_WR_RDMA_WRITE, PROT_READ, IBV_WC_SUCCESS, 1 },
		{ IBV_WR_RDMA_READ, PROT_NONE, IBV_WC_LOC_PROT_ERR, 0 },
		{ IBV_WR_RDMA_READ, PROT_READ, IBV_WC_LOC_PROT_ERR, 0 },
		{ IBV_WR_RDMA_READ, PROT_READ | PROT_WRITE, IBV_WC_SUCCESS, 1 },
	};
	const size_t size = 16 * 4096;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const bool is_long = i % 2; /* more pages than are looked at one by one */
		struct pair_of_ids p;
		struct file target;
		near_init(&p, "1");
		file_init(&target, true);
		uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
		expect_moves(p.active, mr, target.mr, 0, 64);
		uint32_t made = made_by(p.active);

		/* the fenced request waits for the response to the atomic */
		struct ibv_sge result = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
		struct ibv_send_wr atomic = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &result, 0, 0), *bad;
		atomic.wr_id = 6;
		atomic.wr.atomic.remote_addr = (uintptr_t)the_mem + 4096;
		atomic.wr.atomic.rkey = the_mr->rkey;
		struct ibv_sge sge = { .addr = (uintptr_t)mem,
			.length = is_long ? (uint32_t)size : 64,
			.lkey = mr->lkey };
		struct ibv_send_wr wr =
			request(cases[i / 2].opcode, &sge, (uintptr_t)target.mem, target.mr->rkey);
		wr.send_flags |= IBV_SEND_FENCE;
		pthread_mutex_lock(&link_of(p.passive)->lock);
		assert_int_equal(ibv_post_send(p.active->qp, &atomic, &bad), 0);
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
		assert_int_equal(mprotect(mem, size, cases[i / 2].left), 0);
		pthread_mutex_unlock(&link_of(p.passive)->lock);
		struct ibv_wc wc = next_wc();
		assert_int_equal(wc.wr_id, 6);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		wc = next_wc();
		assert_int_equal(wc.wr_id, 7);
		assert_int_equal(wc.status, cases[i / 2].status);
		assert_int_equal(made_by(p.active) - made, cases[i / 2].made);

		assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
		munmap(mem, size);
		file_fini(&target);
		near_fini(&p);
	}
}

static bool
connects_without_a_path(void)
{
	struct pair_of_ids p;
	pair_init(&p);
	bool without = locked(link_of(p.passive), link_of(p.passive)->shm_path == NULL);
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	expect_moves(p.passive, the_mr, the_mr, 4096, 64);
	if (without)
		assert_int_equal(made_by(p.active) + made_by(p.passive), 0);
	pair_fini(&p);
	return without;
}

/*
 * A call fails while the passive side accepts. Returns false if this fails more than the shared-memory path.
 */
static bool
accept_with_fault(struct pair_of_ids *p, const char *call, unsigned skip)
{
	static const struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_conn_param given = param;
	listener_init(&p->listener);
	p->channel = new_channel();
	p->active = new_active(p->channel, &p->listener.addr);
	assert_int_equal(softrdma_rdma_connect(p->active, &given), 0);
	p->passive = expect_event(p->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->passive);
	fail_call(FAIL_MINE, call, skip, 1, ENOMEM);
	random_error = strcmp(call, "random numbers") == 0 ? EIO : 0;
	static struct softrdma_registry_slot *slots[SOFTRDMA_REGISTRY_SLOTS + 1];
	unsigned count = 0;
	if (strcmp(call, "slots") == 0) {
		while ((slots[count] = softrdma_registry_take_slot(the_pd)) != NULL)
			count++;
	}
	int ret = softrdma_rdma_accept(p->passive, &given);
	random_error = 0;
	fail_nothing();
	while (count > 0)
		softrdma_registry_give_slot(slots[--count]);
	if (ret) {
		pair_fini(p);
		return false;
	}
	expect_event(p->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(p->listener.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	return true;
}

static void
give_offer(struct softrdma_link *link, const struct softrdma_shm_offer *offer)
{
	pthread_mutex_lock(&link->lock);
	if (link->shm_path)
		link->shm_path->ops->offer_came(link, offer);
	pthread_mutex_unlock(&link->lock);
}

static const struct softrdma_shm_offer no_process = { .pid = 1, .fd = 900, .number = 1 };

/*
 * the setting is off, or the peer's location is unknown: the connection works without the shared-memory path
 */
static void
test_no_path(void **state)
{
	(void)state;
	static const char *const calls[] = { "calloc", "getsockname", "getpeername", "random numbers",
		"slots" };
	setting("0");
	assert_true(connects_without_a_path());
	setting("1");
	assert_false(connects_without_a_path());
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct pair_of_ids p;
		bool without = false;
		for (unsigned skip = 0; !without && skip < 8; skip++) {
			if (!accept_with_fault(&p, calls[i], skip))
				continue;
			without = link_of(p.passive)->shm_path == NULL;
			/*
			 * the passive side has no slot, so give the active side an offer of a process that
			 * does not exist
			 */
			if (without)
				give_offer(link_of(p.active), &no_process);
			expect_moves(p.active, the_mr, the_mr, 4096, 64);
			expect_moves(p.passive, the_mr, the_mr, 4096, 64);
			pair_fini(&p);
		}
		assert_true(without);
	}
}

/* a plain socket whose other end is a queue pair of this process, and the offer that it got */
struct raw_peer {
	struct listener l;
	struct rdma_cm_id *id;
	int fd;
	uint32_t seq;
	uint8_t offer[SOFTRDMA_FRAME_SIZE + SOFTRDMA_REGISTRY_ID_SIZE];
};

static void
raw_peer_init(struct raw_peer *p)
{
	uint8_t buf[BUF_MAX];
	struct softrdma_frame frame, ready = { .opcode = SOFTRDMA_OP_READY };
	setting("1");
	listener_init(&p->l);
	p->fd = raw_connect(&p->l.addr);
	raw_send(p->fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	p->seq = 100;
	p->id = expect_event(p->l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(p->id);
	assert_int_equal(softrdma_rdma_accept(p->id, NULL), 0);
	raw_recv(p->fd, buf, SOFTRDMA_HANDSHAKE_SIZE);
	raw_frame(p->fd, &ready);
	expect_event(p->l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	raw_recv(p->fd, p->offer, sizeof(p->offer));
	assert_true(softrdma_frame_decode(p->offer, &frame));
	assert_int_equal(frame.opcode, SOFTRDMA_OP_SHM_OFFER);
	find_the_registry();
}

static void
raw_peer_fini(struct raw_peer *p)
{
	destroy(p->id);
	close(p->fd);
	listener_fini(&p->l);
}

/* the link goes on, and has handled all that was sent before */
static void
raw_expect_alive(struct raw_peer *p)
{
	uint8_t header[SOFTRDMA_FRAME_SIZE];
	struct softrdma_frame frame = { .opcode = SOFTRDMA_OP_WRITE,
		.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
		.seq = p->seq };
	raw_frame(p->fd, &frame);
	raw_recv(p->fd, header, sizeof(header));
	assert_true(softrdma_frame_decode(header, &frame));
	assert_int_equal(frame.opcode, SOFTRDMA_OP_ACK);
	assert_int_equal(frame.seq, p->seq++);
}

/* the offer of a registry that looks like that of another process; fd: of its memory */
static struct softrdma_shm_offer
offer_of_another(int *fd)
{
	static struct softrdma_registry registry = { .magic = SOFTRDMA_REGISTRY_MAGIC,
		.id = "another process" };
	*fd = memfd_create("another", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(*fd, &registry, sizeof(registry)), sizeof(registry));
	assert_int_equal(
		fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
	struct softrdma_shm_offer offer = { .pid = (uint32_t)getpid(), .fd = (uint32_t)*fd, .number = 77 };
	memcpy(offer.id, registry.id, sizeof(offer.id));
	return offer;
}

/* the offer of another process is taken, but not by a queue pair that is in error */
static void
test_offer_of_another_process(void **state)
{
	(void)state;
	for (int failed = 0; failed < 2; failed++) {
		struct raw_peer p;
		int fd;
		const struct softrdma_shm_offer offer = offer_of_another(&fd);
		raw_peer_init(&p);
		struct softrdma_link *link = link_of(p.id);
		pthread_mutex_lock(&link->lock);
		if (failed)
			softrdma_link_close(link);
		assert_non_null(link->shm_path);
		link->shm_path->ops->offer_came(link, &offer);
		pthread_mutex_unlock(&link->lock);
		assert_int_equal(open_slots(), !failed);
		raw_peer_fini(&p);
		close(fd);
	}
}

/* a peer makes one offer; a second one breaks the protocol, whether the first one was taken or not */
static void
test_second_offer(void **state)
{
	(void)state;
	for (int own = 0; own < 2; own++) {
		struct raw_peer p;
		uint8_t other[sizeof(p.offer)] = { 0 };
		struct softrdma_frame frame;
		raw_peer_init(&p);
		softrdma_shm_offer_encode(&no_process, &frame);
		softrdma_frame_encode(&frame, other);
		raw_send(p.fd, own ? p.offer : other, sizeof(p.offer));
		raw_expect_alive(&p);
		log_clear();
		raw_send(p.fd, other, sizeof(other));
		expect_event(p.l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		raw_expect_end(p.fd);
		assert_true(log_has(
			"a peer sent a second offer of shared memory (SHM_OFFER): connection closed"));
		raw_peer_fini(&p);
	}
}

/*
 * A peer that sends an offer back is not this process itself, whatever it says. It is reached over TCP. The same holds
 * for one that names a free slot.
 */
static void
test_echo(void **state)
{
	(void)state;
	for (uint64_t slots = 0; slots < 2; slots++) {
		struct raw_peer p;
		struct softrdma_frame frame;
		raw_peer_init(&p);
		assert_true(softrdma_frame_decode(p.offer, &frame));
		frame.addr += slots << 32;
		softrdma_frame_encode(&frame, p.offer);
		log_clear();
		raw_send(p.fd, p.offer, sizeof(p.offer));
		raw_expect_alive(&p); /* the link would have opened its slot before this response */
		assert_int_equal(open_slots(), 0);
		assert_true(log_has("sent back an offer"));
		raw_peer_fini(&p);
	}
}

/*
 * A peer with two connections sends each the offer that it got on the other one. Both slots are of this process, and
 * each would watch the other. But neither socket is the other one's end.
 */
static void
test_crossed_offers(void **state)
{
	(void)state;
	struct raw_peer one, two;
	raw_peer_init(&one);
	raw_peer_init(&two);
	raw_send(one.fd, two.offer, sizeof(two.offer));
	raw_send(two.fd, one.offer, sizeof(one.offer));
	raw_expect_alive(&one);
	raw_expect_alive(&two);
	assert_int_equal(open_slots(), 0);
	assert_true(log_has("sent back an offer"));
	raw_peer_fini(&two);
	raw_peer_fini(&one);
}

/* an application may listen on IPv6 and be called by IPv4, so that both ends show their addresses in two forms */
static void
test_both_families(void **state)
{
	(void)state;
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct pair_of_ids p;
	setting("1");
	p.listener.channel = new_channel();
	p.listener.id = new_id(p.listener.channel);
	if (softrdma_rdma_bind_addr(p.listener.id, (struct sockaddr *)&any) != 0) {
		listener_fini(&p.listener);
		print_message("skipped: no IPv6\n");
		skip();
	}
	assert_int_equal(softrdma_rdma_listen(p.listener.id, 0), 0);
	p.listener.addr = loopback(p.listener.id->route.addr.src_sin6.sin6_port);
	pair_connect(&p, qp_attr().cap.max_send_wr);
	assert_int_equal(p.passive->route.addr.src_addr.sa_family, AF_INET6);
	find_the_registry();
	wait_until(open_slots() == 2);
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	expect_moves(p.passive, the_mr, the_mr, 4096, 64);
	assert_int_equal(made_by(p.active) + made_by(p.passive), 4);
	near_fini(&p);
}

/* a queue pair that is connected to itself has one socket, and its own offer is the right one */
static void
test_to_itself(void **state)
{
	(void)state;
	setting("1");
	union ibv_gid gid = the_gid(AF_INET);
	struct ibv_qp *qp = new_qp();
	struct ibv_qp_attr attr = init_attr();
	attr.qp_access_flags |= SOFTRDMA_ACCESS_FLUSH_PERSISTENT; /* a path needs all rights */
	assert_int_equal(softrdma_ibv_modify_qp(qp, &attr, INIT_MASK), 0);
	to_rtr(qp, &gid, qp->qp_num, PSN_A);
	to_rts(qp, PSN_A);
	wait_until(link_state(qp) == SOFTRDMA_LINK_UP);
	find_the_registry();
	wait_until(open_slots() == 1);
	post_write(qp, 1);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_int_equal(
		locked(softrdma_qp_of(qp)->link, softrdma_qp_of(qp)->link->requester.completed_locally), 1);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
}

/* requests to a side that has closed its slot go over TCP */
static void
test_shut(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct softrdma_link *link = link_of(p.passive);
	pthread_mutex_lock(&link->lock);
	softrdma_shm_path_shut(link);
	pthread_mutex_unlock(&link->lock);
	assert_int_equal(open_slots(), 1);
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	assert_int_equal(made_by(p.active), 0);
	expect_moves(p.passive, the_mr, the_mr, 4096, 64);
	assert_int_equal(made_by(p.passive), 2);
	near_fini(&p);
}

/* requests go over TCP if the peer's slot names another process, or another slot of it */
static void
test_watched_by_another(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct softrdma_registry_slot *own = slot_of(p.active);
	struct softrdma_registry_slot *peer = &the_registry->slots[own == the_registry->slots];
	uint32_t made = made_by(p.active);
	peer->peer_slot++;
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	peer->peer_slot--;
	peer->peer_number++;
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	peer->peer_number--;
	peer->peer_id[15]++;
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	peer->peer_id[15]--;
	assert_int_equal(made_by(p.active), made);
	expect_moves(p.active, the_mr, the_mr, 4096, 64);
	assert_int_equal(made_by(p.active), made + 2);
	near_fini(&p);
}

/* 0 is no valid key, but stands in the place of a former region */
static void
test_key_of_nothing(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	uint32_t key;
	do {
		struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, the_mem, 4096,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		key = mr->rkey;
		softrdma_ibv_dereg_mr(mr);
	} while (softrdma_registry_place(key, 0) != softrdma_registry_place(0, 0));
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem + 4096, .length = 64, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)the_mem, 0);
	assert_int_equal(post(p.active, &wr), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(made_by(p.active), 0);
	near_fini(&p);
}

/* a completion that does not fit puts the queue pair into error, on this path too */
static void
test_overrun(void **state)
{
	(void)state;
	struct ibv_cq *usual = the_cq;
	the_cq = softrdma_ibv_create_cq(softrdma_context(), 2, NULL, NULL, 0);
	struct pair_of_ids p;
	near_init(&p, "1");
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)the_mem + 4096, the_mr->rkey),
			   *bad;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_send(p.active->qp, &wr, &bad), 0);
	expect_state(p.active->qp, IBV_QPS_ERR);
	near_fini(&p);
	softrdma_ibv_destroy_cq(the_cq);
	the_cq = usual;
}

/* --- deregistering memory --- */

static bool
is_shown(uint32_t key)
{
	bool shown = false;
	for (unsigned step = 0; step < SOFTRDMA_REGISTRY_STEPS; step++)
		shown = shown ||
			atomic_load(&the_registry->regions[softrdma_registry_place(key, step)].key) == key;
	return shown;
}

struct taking {
	struct ibv_mr *mr;
	uint32_t key;
	atomic_bool done;
};

static void *
take_back(void *arg)
{
	struct taking *taking = arg;
	assert_int_equal(softrdma_ibv_dereg_mr(taking->mr), 0);
	atomic_store(&taking->done, true);
	return NULL;
}

static void
enter(struct softrdma_registry_slot *slot)
{
	assert_int_equal(pthread_mutex_lock(&slot->inside), 0);
	atomic_fetch_add(&slot->busy, 1);
}

static void
leave(struct softrdma_registry_slot *slot)
{
	atomic_fetch_add(&slot->busy, 1);
	pthread_mutex_unlock(&slot->inside);
}

static void
begin_taking(struct taking *taking, pthread_t *thread)
{
	taking->mr = softrdma_ibv_reg_mr(the_pd, the_mem + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(taking->mr);
	taking->key = taking->mr->rkey;
	assert_true(is_shown(taking->key));
	atomic_init(&taking->done, false);
	assert_int_equal(pthread_create(thread, NULL, take_back, taking), 0);
}

/* true if the registry no longer shows the region: the thread that deregisters it waits then, or is about to */
static bool
is_hidden(const struct taking *taking)
{
	return !is_shown(taking->key);
}

static void
test_waits_for_who_is_in_it(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct softrdma_registry_slot *slot = slot_of(p.active);
	struct taking taking;
	pthread_t thread;

	enter(slot);
	begin_taking(&taking, &thread);
	wait_until(is_hidden(&taking));
	wait_until((clock_forward_ms(2000), log_has("waiting for it")));
	assert_false(atomic_load(&taking.done));
	/* the other direction still works meanwhile */
	expect_moves(p.passive, the_mr, the_mr, 8192, 64);
	leave(slot);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&taking.done));

	/* If busy changes, the peer has begun another operation, so it has looked at the registry again. */
	enter(slot);
	begin_taking(&taking, &thread);
	wait_until((atomic_fetch_add(&slot->busy, 2), atomic_load(&taking.done)));
	pthread_join(thread, NULL);
	leave(slot);
	near_fini(&p);
}

static void *
enter_and_die(void *slot)
{
	enter(slot);
	return NULL;
}

/* a thread that was using the memory has died */
static void
test_does_not_wait_for_the_dead(void **state)
{
	(void)state;
	struct pair_of_ids p;
	near_init(&p, "1");
	struct softrdma_registry_slot *slot = slot_of(p.active);
	struct taking taking;
	pthread_t thread, dead;
	assert_int_equal(pthread_create(&dead, NULL, enter_and_die, slot), 0);
	pthread_join(dead, NULL);
	assert_int_equal(atomic_load(&slot->busy) % 2, 1);
	begin_taking(&taking, &thread);
	pthread_join(thread, NULL);
	near_fini(&p);
}

static void *
destroy_qp(void *id)
{
	softrdma_rdma_destroy_qp(id);
	return NULL;
}

/* The end of a connection waits for a peer that still uses the memory. So does a deregistration after it. */
static void
test_waits_at_the_end(void **state)
{
	(void)state;
	struct pair_of_ids p, other;
	near_init(&p, "1");
	struct softrdma_registry_slot *slot = slot_of(p.active);
	pair_init(&other); /* keeps the registry open */
	enter(slot);
	struct taking taking;
	pthread_t thread, destroyer;
	assert_int_equal(pthread_create(&destroyer, NULL, destroy_qp, p.passive), 0);
	wait_until(atomic_load(&the_registry->slots[slot == the_registry->slots].open) == 0);
	begin_taking(&taking, &thread);
	wait_until(is_hidden(&taking));
	assert_false(atomic_load(&taking.done));
	leave(slot);
	pthread_join(destroyer, NULL);
	pthread_join(thread, NULL);
	pair_fini(&p);
	pair_fini(&other);
}

/* the whole life of a client whose id is destroyed before its queue pair, as some programs do */
static _Noreturn void
be_a_client(int pipe_fd)
{
	struct sockaddr_in addr;
	static const struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_conn_param given = param;
	assert_int_equal(read(pipe_fd, &addr, sizeof(addr)), sizeof(addr));
	/* objects from before the fork belong to the parent */
	the_pd = softrdma_ibv_alloc_pd(softrdma_context());
	the_cq = softrdma_ibv_create_cq(softrdma_context(), 64, NULL, NULL, 0);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, &given), 0);
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	find_the_registry();
	wait_until(open_slots() == 1);
	struct ibv_qp *qp = id->qp;
	id->qp = NULL;
	assert_int_equal(softrdma_rdma_destroy_id(id), 0);
	softrdma_rdma_destroy_event_channel(channel);
	struct ibv_wc wc;
	ibv_poll_cq(the_cq, 1, &wc);
	assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	_exit(0);
}

/* the registry that the connection used is gone by then */
static void
test_queue_pair_outlives_the_registry(void **state)
{
	(void)state;
	int fds[2], status;
	struct listener l;
	static const struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_conn_param given = param;
	setting("1");
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_a_client(fds[0]);
	listener_init(&l);
	assert_int_equal(write(fds[1], &l.addr, sizeof(l.addr)), sizeof(l.addr));
	struct rdma_cm_id *id = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(id);
	assert_int_equal(softrdma_rdma_accept(id, &given), 0);
	expect_event(l.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_event(l.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(id);
	listener_fini(&l);
	close(fds[0]);
	close(fds[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_writes_and_reads),
		device_test(test_through_peer_maps),
		device_test(test_many_regions),
		device_test(test_pieces_and_inline),
		device_test(test_order),
		device_test(test_no_late_acknowledgement),
		device_test(test_refusals),
		device_test(test_goes_by_tcp),
		device_test(test_local_memory_is_lost),
		device_test(test_no_path),
		device_test(test_offer_of_another_process),
		device_test(test_second_offer),
		device_test(test_echo),
		device_test(test_crossed_offers),
		device_test(test_both_families),
		device_test(test_to_itself),
		device_test(test_shut),
		device_test(test_watched_by_another),
		device_test(test_key_of_nothing),
		device_test(test_overrun),
		device_test(test_waits_for_who_is_in_it),
		device_test(test_does_not_wait_for_the_dead),
		device_test(test_waits_at_the_end),
		device_test(test_queue_pair_outlives_the_registry),
	};
	/*
	 * Both sides are in this process, and read and write the same memory. The thread sanitizer does not see that TCP orders
	 * what two progress threads do there.
	 */
	setenv("SOFTRDMA_THREADS", "1", 1);
	return cmocka_run_group_tests(tests, setup_by_hand, teardown_by_hand);
}
