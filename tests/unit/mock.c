/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* mock.c -- a device that exists only in memory */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>

#include "mock.h"

struct mock mock = { .malloc_skip = -1 };

/* ---- failures ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
struct tm *__real_localtime_r(const time_t *when, struct tm *tm);
struct tm *__wrap_localtime_r(const time_t *when, struct tm *tm);
void *__real_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b));
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b));
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

static void
trace(const char *call)
{
	if (mock.traced < MOCK_TRACE)
		mock.trace[mock.traced++] = call;
}

static bool
is_named(const char *call)
{
	if (mock.fail_call == NULL || strcmp(call, mock.fail_call) != 0)
		return false;
	const int left = mock.fail_skip--;
	return left <= 0 && left >= -mock.fail_again;
}

/* counts one more call that may fail; true if it must */
static bool
fails(const char *call)
{
	trace(call);
	mock.fallible++;
	bool by_name = is_named(call);
	bool by_number = mock.fail_kth && mock.fallible == mock.fail_kth;
	if (by_name || by_number)
		errno = mock.fail_errno ? mock.fail_errno : EIO;
	return by_name || by_number;
}

static bool
allocation_fails(void)
{
	if (mock.malloc_skip < 0)
		return false;
	errno = ENOMEM;
	return mock.malloc_skip-- == 0;
}

/* only the library's allocations: cmocka and the C library are not linked with this wrapper */
void *
__wrap_malloc(size_t size)
{
	return allocation_fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *
__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return fails("mmap") ? MAP_FAILED : __real_mmap(addr, len, prot, flags, fd, off);
}

/* The calls from here on fail by name only. munmap() unmaps the page even if it reports an error. */
int
__wrap_munmap(void *addr, size_t len)
{
	int ret = __real_munmap(addr, len);
	if (!is_named("munmap"))
		return ret;
	errno = mock.fail_errno ? mock.fail_errno : EIO;
	return -1;
}

int
__wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (!is_named("poll"))
		return __real_poll(fds, count, timeout);
	errno = mock.fail_errno ? mock.fail_errno : EIO;
	return -1;
}

struct tm *
__wrap_localtime_r(const time_t *when, struct tm *tm)
{
	if (mock.held) {
		sem_post(mock.held);
		sem_wait(mock.go_on);
	}
	return is_named("localtime_r") ? NULL : __real_localtime_r(when, tm);
}

void *
__wrap_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b))
{
	return is_named("tsearch") ? NULL : __real_tsearch(key, root, compare);
}

/* these report an error and do nothing */
static bool
is_refused(const char *call)
{
	if (!is_named(call))
		return false;
	errno = mock.fail_errno ? mock.fail_errno : EIO;
	return true;
}

int
__wrap_timerfd_create(int clock, int flags)
{
	return is_refused("timerfd_create") ? -1 : __real_timerfd_create(clock, flags);
}

int
__wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	return is_refused("timerfd_settime") ? -1 : __real_timerfd_settime(fd, flags, when, before);
}

int
__wrap_epoll_create1(int flags)
{
	return is_refused("epoll_create1") ? -1 : __real_epoll_create1(flags);
}

int
__wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return is_refused("epoll_ctl") ? -1 : __real_epoll_ctl(epoll, op, fd, event);
}

static void *
make(size_t size)
{
	void *object = __real_calloc(1, size);
	assert_non_null(object);
	mock.live++;
	return object;
}

static void
unmake(void *object)
{
	assert_non_null(object);
	mock.live--;
	free(object);
}

static int
errnum(const char *call)
{
	return fails(call) ? errno : 0;
}

/* ---- requests that reach the send queue ---- */

static void
keep_send(const struct ibv_send_wr *wr)
{
	mock.send_wr = *wr;
	if (wr->num_sge)
		mock.send_sge = wr->sg_list[0];
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge) {
		assert_in_range(wr->sg_list[0].length, 1, sizeof(mock.send_inline));
		memcpy(mock.send_inline, (const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length);
	}
	if (mock.chained < MOCK_CHAIN) {
		mock.chain[mock.chained].wr = *wr;
		assert_in_range(wr->num_sge, 0, MOCK_SGE);
		if (wr->num_sge)
			memcpy(mock.chain[mock.chained].sge, wr->sg_list,
				(size_t)wr->num_sge * sizeof(*wr->sg_list));
		memcpy(mock.chain[mock.chained].inline_data, mock.send_inline, sizeof(mock.send_inline));
		mock.chained++;
	}
	mock.sends += (int)wr->opcode != RPMAI_WR_FLUSH && (int)wr->opcode != RPMAI_WR_ATOMIC_WRITE;
}

/* takes the requests that fit into the send queue, up to send_limit */
static int
m_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	mock.rung++;
	int ret = errnum("post_send");
	for (; wr && ret == 0; wr = wr->next) {
		if (mock.send_limit && mock.sends >= mock.send_limit)
			ret = ENOMEM;
		else
			keep_send(wr);
		if (ret)
			break;
	}
	*bad_wr = wr;
	return ret;
}

/* ---- extended operations ---- */

static struct {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MOCK_SGE];
	size_t flush_len;
	uint8_t flush_type;
} batch[MOCK_CHAIN];
static int batched;

static void
begin(struct ibv_qp_ex *qp, int opcode, uint32_t rkey, uint64_t raddr)
{
	assert_in_range(batched, 0, MOCK_CHAIN - 1);
	memset(&batch[batched], 0, sizeof(batch[batched]));
	batch[batched++].wr = (struct ibv_send_wr){
		.wr_id = qp->wr_id,
		.opcode = (enum ibv_wr_opcode)opcode,
		.send_flags = qp->wr_flags,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
}

static void
m_wr_start(struct ibv_qp_ex *qp)
{
	(void)qp;
	batched = 0;
}

static void
m_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr)
{
	begin(qp, IBV_WR_RDMA_WRITE, rkey, raddr);
}

static void
m_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, raddr);
	batch[batched - 1].wr.imm_data = imm;
}

static void
m_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr)
{
	begin(qp, IBV_WR_RDMA_READ, rkey, raddr);
}

static void
m_wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, IBV_WR_SEND, 0, 0);
}

static void
m_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin(qp, IBV_WR_SEND_WITH_IMM, 0, 0);
	batch[batched - 1].wr.imm_data = imm;
}

static void
m_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, uint64_t compare, uint64_t swap)
{
	begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0);
	batch[batched - 1].wr.wr.atomic.remote_addr = raddr;
	batch[batched - 1].wr.wr.atomic.rkey = rkey;
	batch[batched - 1].wr.wr.atomic.compare_add = compare;
	batch[batched - 1].wr.wr.atomic.swap = swap;
}

static void
m_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0);
	batch[batched - 1].wr.wr.atomic.remote_addr = raddr;
	batch[batched - 1].wr.wr.atomic.rkey = rkey;
	batch[batched - 1].wr.wr.atomic.compare_add = add;
}

static void
m_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, const void *src)
{
	begin(qp, RPMAI_WR_ATOMIC_WRITE, rkey, raddr);
	mock.flush.wr_id = qp->wr_id;
	mock.flush.rkey = rkey;
	mock.flush.raddr = raddr;
	mock.atomic_flags = qp->wr_flags;
	memcpy(mock.atomic, src, sizeof(mock.atomic));
	mock.atomics++;
}

static void
m_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, size_t len, uint8_t type)
{
	begin(qp, RPMAI_WR_FLUSH, rkey, raddr);
	mock.flush.wr_id = qp->wr_id;
	mock.flush.flags = qp->wr_flags;
	mock.flush.rkey = rkey;
	mock.flush.raddr = raddr;
	mock.flush.len = len;
	mock.flush.type = type;
	mock.flushes++;
}

static void
m_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sges)
{
	(void)qp;
	assert_in_range(num_sge, 1, MOCK_SGE);
	memcpy(batch[batched - 1].sge, sges, num_sge * sizeof(*sges));
	batch[batched - 1].wr.num_sge = (int)num_sge;
	batch[batched - 1].wr.sg_list = batch[batched - 1].sge;
}

static void
m_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t len)
{
	const struct ibv_sge sge = { .addr = (uintptr_t)addr, .length = (uint32_t)len };
	m_wr_set_sge_list(qp, 1, &sge);
	assert_true(batch[batched - 1].wr.send_flags & IBV_SEND_INLINE); /* SoftRoCE checks this flag */
}

/* takes all requests or none, as providers do */
static int
m_wr_complete(struct ibv_qp_ex *qp)
{
	(void)qp;
	assert_in_range(batched, 1, MOCK_CHAIN);
	mock.rung++;
	int ret = errnum("wr_complete");
	for (int i = 0; i < batched && ret == 0; i++)
		keep_send(&batch[i].wr);
	return ret;
}

static void
give_extended_operations(struct ibv_qp_ex *qp)
{
	qp->wr_start = m_wr_start;
	qp->wr_complete = m_wr_complete;
	qp->wr_rdma_write = m_wr_rdma_write;
	qp->wr_rdma_write_imm = m_wr_rdma_write_imm;
	qp->wr_rdma_read = m_wr_rdma_read;
	qp->wr_send = m_wr_send;
	qp->wr_send_imm = m_wr_send_imm;
	qp->wr_atomic_cmp_swp = m_wr_atomic_cmp_swp;
	qp->wr_atomic_fetch_add = m_wr_atomic_fetch_add;
	qp->wr_atomic_write = m_wr_atomic_write;
	qp->wr_set_sge_list = m_wr_set_sge_list;
	qp->wr_set_inline_data = m_wr_set_inline_data;
}

/* ---- librdmacm ---- */

static int
m_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
	struct rdma_addrinfo **res)
{
	assert_int_equal(hints->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(hints->ai_qp_type, IBV_QPT_RC);
	if (mock.fail_getaddrinfo)
		return mock.fail_getaddrinfo;
	if (fails("getaddrinfo"))
		return -1;

	struct rdma_addrinfo *rai = make(sizeof(*rai));
	struct sockaddr_in6 *sin6 = make(sizeof(*sin6)); /* room for both families */
	struct sockaddr_in *sin = (struct sockaddr_in *)(void *)sin6;
	if (!strcmp(node, "ib")) {
		sin6->sin6_family = AF_IB;
	} else if (strchr(node, ':')) {
		sin6->sin6_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, node, &sin6->sin6_addr), 1);
	} else {
		sin->sin_family = AF_INET;
		sin->sin_port = htons((uint16_t)(service ? atoi(service) : 0));
		assert_int_equal(inet_pton(AF_INET, node, &sin->sin_addr), 1);
	}
	if (hints->ai_flags & RAI_PASSIVE)
		rai->ai_src_addr = (struct sockaddr *)sin;
	else
		rai->ai_dst_addr = (struct sockaddr *)sin;
	*res = rai;
	return 0;
}

static void
m_freeaddrinfo(struct rdma_addrinfo *res)
{
	unmake(res->ai_src_addr ? res->ai_src_addr : res->ai_dst_addr);
	unmake(res);
}

static struct ibv_context **
m_get_devices(int *count)
{
	if (mock.no_devices || fails("get_devices"))
		return NULL;
	struct ibv_context **list = make(3 * sizeof(*list));
	*count = mock.devices ? mock.devices : 1;
	if (mock.devices >= 0)
		list[0] = &mock.ctx;
	return list;
}

static void
m_free_devices(struct ibv_context **list)
{
	unmake(list);
}

static struct rdma_event_channel *
m_create_event_channel(void)
{
	if (fails("create_event_channel"))
		return NULL;
	struct rdma_event_channel *channel = make(sizeof(*channel));
	channel->fd = mock.channel_fd ? mock.channel_fd : 1000;
	return channel;
}

static void
m_destroy_event_channel(struct rdma_event_channel *channel)
{
	trace("destroy_event_channel");
	unmake(channel);
}

static int
m_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	(void)context;
	if (fails("create_id"))
		return -1;
	*id = make(sizeof(**id));
	(*id)->channel = channel;
	(*id)->ps = ps;
	return 0;
}

static int
m_destroy_id(struct rdma_cm_id *id)
{
	assert_null(id->qp);
	bool failed = fails("destroy_id");
	unmake(id);
	return failed ? -1 : 0;
}

static int
m_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	assert_non_null(addr);
	if (fails("bind_addr"))
		return -1;
	id->verbs = mock.no_verbs ? NULL : &mock.ctx;
	id->port_num = 1;
	return 0;
}

static int
m_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	(void)src;
	assert_non_null(dst);
	mock.timeout_ms = timeout_ms;
	if (fails("resolve_addr"))
		return -1;
	id->verbs = mock.no_verbs ? NULL : &mock.ctx;
	id->port_num = 1;
	return 0;
}

static int
m_credentials_load(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_credentials **credentials)
{
	assert_true(cert_file && key_file && ca_file);
	int ret = errnum("credentials_load");
	if (ret == 0 && *credentials == NULL) {
		mock.live++;
		*credentials = (struct softrdma_credentials *)(void *)&mock.credentials;
	}
	return ret;
}

static void
m_credentials_put(struct softrdma_credentials *credentials)
{
	assert_ptr_equal(credentials, &mock.credentials);
	trace("credentials_put");
	mock.live--;
}

static void
m_set_credentials(struct rdma_cm_id *id, struct softrdma_credentials *credentials)
{
	assert_non_null(id);
	assert_ptr_equal(credentials, &mock.credentials);
	trace("set_credentials");
}

static int
m_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)id;
	assert_int_equal(timeout_ms, mock.timeout_ms);
	return fails("resolve_route") ? -1 : 0;
}

static int
m_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	mock.qp_attr = *attr;
	if (fails("create_qp_ex"))
		return -1;
	struct ibv_qp_ex *qp = make(sizeof(*qp));
	qp->qp_base.context = id->verbs;
	qp->qp_base.qp_num = MOCK_QP_NUM;
	give_extended_operations(qp);
	id->qp = &qp->qp_base;
	return 0;
}

static void
m_destroy_qp(struct rdma_cm_id *id)
{
	trace("destroy_qp");
	unmake(id->qp);
	id->qp = NULL;
}

static int
m_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	assert_non_null(qp);
	mock.modified = *attr;
	mock.modified_mask = attr_mask;
	return errnum("modify_qp");
}

static int
keep_param(const char *call, struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	assert_non_null(id->channel);
	mock.param = *param;
	if (param->private_data_len)
		memcpy(mock.param_data, param->private_data, param->private_data_len);
	return fails(call) ? -1 : 0;
}

static int
m_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return keep_param("connect", id, param);
}

static int
m_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return keep_param("accept", id, param);
}

static int
m_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return fails("listen") ? -1 : 0;
}

static int
m_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void)id;
	mock.param_data_len = len;
	if (len)
		memcpy(mock.param_data, data, len);
	return fails("reject") ? -1 : 0;
}

static int
m_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return fails("disconnect") ? -1 : 0;
}

static int
m_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (fails("migrate_id"))
		return -1;
	id->channel = channel;
	return 0;
}

static int
m_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	assert_non_null(channel);
	if (fails("get_cm_event"))
		return -1;
	if (mock.events_taken == mock.events_queued) {
		errno = EAGAIN;
		return -1;
	}
	*event = &mock.events[mock.events_taken++];
	return 0;
}

static int
m_ack_cm_event(struct rdma_cm_event *event)
{
	mock.events_acked++;
	memset(event, 0xA5, sizeof(*event)); /* after this, a reader of the event gets garbage */
	return fails("ack_cm_event") ? -1 : 0;
}

/* ---- libibverbs ---- */

static int
m_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr)
{
	(void)context;
	(void)input;
	*attr = mock.attr;
	return errnum("query_device_ex");
}

static int
m_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	(void)context;
	assert_int_equal(port_num, 1);
	attr->max_msg_sz = mock.max_msg_size;
	return errnum("query_port");
}

static struct ibv_pd *
m_alloc_pd(struct ibv_context *context)
{
	if (fails("alloc_pd")) {
		if (mock.fail_errno < 0)
			errno = 0;
		return NULL;
	}
	struct ibv_pd *pd = make(sizeof(*pd));
	pd->context = context;
	return pd;
}

static int
m_dealloc_pd(struct ibv_pd *pd)
{
	unmake(pd);
	return errnum("dealloc_pd");
}

static struct ibv_mr *
m_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (mock.registrations < 4)
		mock.access[mock.registrations] = access;
	mock.registrations++;
	if (fails("reg_mr"))
		return NULL;
	if ((access & mock.fail_access) || (mock.fail_without & ~access)) {
		errno = mock.fail_errno;
		return NULL;
	}
	struct ibv_mr *mr = make(sizeof(*mr));
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = MOCK_LKEY;
	mr->rkey = MOCK_RKEY;
	return mr;
}

static int
m_dereg_mr(struct ibv_mr *mr)
{
	unmake(mr);
	return errnum("dereg_mr");
}

static int
m_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge,
	uint32_t num_sge)
{
	(void)pd;
	(void)advice;
	(void)flags;
	assert_int_equal(num_sge, 1);
	mock.advised = *sge;
	return errnum("advise_mr");
}

static struct ibv_comp_channel *
m_create_comp_channel(struct ibv_context *context)
{
	(void)context;
	if (fails("create_comp_channel"))
		return NULL;
	struct ibv_comp_channel *channel = make(sizeof(*channel));
	channel->fd = mock.channel_fd ? mock.channel_fd : 2000;
	return channel;
}

static int
m_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	unmake(channel);
	return errnum("destroy_comp_channel");
}

static struct ibv_cq *
m_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	int comp_vector)
{
	(void)cq_context;
	assert_non_null(channel);
	assert_int_equal(comp_vector, 0);
	if (mock.cqs < 4)
		mock.cqe[mock.cqs] = cqe;
	mock.cqs++;
	if (fails("create_cq"))
		return NULL;
	struct ibv_cq *cq = make(sizeof(*cq));
	cq->context = context;
	cq->channel = channel;
	return cq;
}

static int
m_destroy_cq(struct ibv_cq *cq)
{
	unmake(cq);
	return errnum("destroy_cq");
}

static int
m_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	assert_non_null(channel);
	if (fails("get_cq_event"))
		return -1;
	if (mock.cq_event == NULL) {
		errno = EAGAIN;
		return -1;
	}
	*cq = mock.cq_event;
	*cq_context = NULL;
	return 0;
}

static void
m_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	assert_non_null(cq);
	mock.cq_events_acked += (int)nevents;
}

static struct ibv_srq *
m_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	mock.srq_attr = *attr;
	if (fails("create_srq"))
		return NULL;
	struct ibv_srq *srq = make(sizeof(*srq));
	srq->context = pd->context;
	srq->pd = pd;
	return srq;
}

static int
m_destroy_srq(struct ibv_srq *srq)
{
	unmake(srq);
	return errnum("destroy_srq");
}

static struct ibv_qp_ex *
m_qp_to_qp_ex(struct ibv_qp *qp)
{
	trace("qp_to_qp_ex");
	return mock.no_qp_ex ? NULL : (struct ibv_qp_ex *)qp;
}

/* ---- operations of the context ---- */

static void
keep_recv(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	assert_null(wr->next);
	mock.recv_wr = *wr;
	if (wr->num_sge)
		mock.recv_sge = wr->sg_list[0];
	*bad_wr = wr;
}

static int
m_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)qp;
	mock.recvs++;
	keep_recv(wr, bad_wr);
	return errnum("post_recv");
}

static int
m_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)srq;
	mock.srq_recvs++;
	keep_recv(wr, bad_wr);
	return errnum("post_srq_recv");
}

static int
m_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	(void)cq;
	int n = mock.wcs;
	for (int i = 0; i < n && i < num_entries; i++)
		wc[i] = mock.wc[i];
	if (mock.wcs_once)
		mock.wcs = 0;
	return n;
}

static int
m_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	assert_int_equal(solicited_only, 0);
	mock.notified++;
	return errnum("req_notify_cq");
}

struct rdma_api mock_rdma;

static const struct rdma_api working = {
	.name = "mock",
	.is_soft = false,
	.read_flushes = true,
	.flush_max = UINT64_MAX,
	.connect_data_max = 56,
	.accept_data_max = 196,
	.reject_data_max = 148,
	.getaddrinfo = m_getaddrinfo,
	.freeaddrinfo = m_freeaddrinfo,
	.get_devices = m_get_devices,
	.free_devices = m_free_devices,
	.create_event_channel = m_create_event_channel,
	.destroy_event_channel = m_destroy_event_channel,
	.create_id = m_create_id,
	.destroy_id = m_destroy_id,
	.bind_addr = m_bind_addr,
	.resolve_addr = m_resolve_addr,
	.resolve_route = m_resolve_route,
	.credentials_load = m_credentials_load,
	.credentials_put = m_credentials_put,
	.set_credentials = m_set_credentials,
	.create_qp_ex = m_create_qp_ex,
	.destroy_qp = m_destroy_qp,
	.modify_qp = m_modify_qp,
	.connect = m_connect,
	.listen = m_listen,
	.accept = m_accept,
	.reject = m_reject,
	.disconnect = m_disconnect,
	.migrate_id = m_migrate_id,
	.get_cm_event = m_get_cm_event,
	.ack_cm_event = m_ack_cm_event,
	.query_device_ex = m_query_device_ex,
	.query_port = m_query_port,
	.alloc_pd = m_alloc_pd,
	.dealloc_pd = m_dealloc_pd,
	.reg_mr = m_reg_mr,
	.dereg_mr = m_dereg_mr,
	.advise_mr = m_advise_mr,
	.create_comp_channel = m_create_comp_channel,
	.destroy_comp_channel = m_destroy_comp_channel,
	.create_cq = m_create_cq,
	.destroy_cq = m_destroy_cq,
	.get_cq_event = m_get_cq_event,
	.ack_cq_events = m_ack_cq_events,
	.create_srq = m_create_srq,
	.destroy_srq = m_destroy_srq,
	.qp_to_qp_ex = m_qp_to_qp_ex,
	.wr_flush = m_wr_flush,
};

/* ---- for the tests ---- */

__attribute__((format(printf, 5, 6))) static void
keep_log(enum rpma_log_level level, const char *file, const int line, const char *func, const char *fmt, ...)
{
	(void)file;
	(void)line;
	(void)func;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(mock.last_log, sizeof(mock.last_log), fmt, ap);
	va_end(ap);
	mock.logged[level]++;

	/* none of these may appear in a log line: keys and addresses */
	assert_null(strstr(mock.last_log, "a1b2c3d4"));
	assert_null(strstr(mock.last_log, "2712847316"));
	assert_null(strstr(mock.last_log, "11223344"));
}

int
mock_setup(void **state)
{
	(void)state;
	memset(&mock, 0, sizeof(mock));
	mock.malloc_skip = -1;
	mock.max_msg_size = MOCK_MAX_MSG;
	mock.device.transport_type = IBV_TRANSPORT_IB;
	mock.ctx.device = &mock.device;
	mock.ctx.ops.post_send = m_post_send;
	mock.ctx.ops.post_recv = m_post_recv;
	mock.ctx.ops.post_srq_recv = m_post_srq_recv;
	mock.ctx.ops.poll_cq = m_poll_cq;
	mock.ctx.ops.req_notify_cq = m_req_notify_cq;
	mock.other_ctx = mock.ctx;
	mock_rdma = working;
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
	rpma_log_set_function(keep_log);
	return 0;
}

int
mock_teardown(void **state)
{
	(void)state;
	mock.malloc_skip = -1;
	if (mock.live)
		print_error("%d objects are left\n", mock.live);
	if (mock.events_acked != mock.events_taken)
		print_error("%d of %d events acknowledged\n", mock.events_acked, mock.events_taken);
	return mock.live || mock.events_acked != mock.events_taken;
}

int
mock_count(const char *call)
{
	int n = 0;
	for (int i = 0; i < mock.traced; i++)
		n += !strcmp(mock.trace[i], call);
	return n;
}

int
mock_last(const char *call)
{
	for (int i = mock.traced - 1; i >= 0; i--)
		if (!strcmp(mock.trace[i], call))
			return i;
	return -1;
}

void
mock_queue_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, const void *data, uint8_t len)
{
	assert_in_range(mock.events_queued, 0, MOCK_EVENTS - 1);
	struct rdma_cm_event *event = &mock.events[mock.events_queued++];
	memset(event, 0, sizeof(*event));
	event->event = type;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		event->listen_id = id;
		event->id = make(sizeof(*event->id));
		event->id->verbs = &mock.ctx;
		event->id->port_num = 1;
		event->id->channel = id ? id->channel : NULL;
	} else {
		event->id = id;
	}
	event->param.conn.private_data = data;
	event->param.conn.private_data_len = len;
}

void
mock_native(void)
{
	mock.attr.device_cap_flags_ex =
		RPMAI_CAP_FLUSH_GLOBAL | RPMAI_CAP_FLUSH_PERSISTENT | RPMAI_CAP_ATOMIC_WRITE;
	mock.attr.orig_attr.atomic_cap = IBV_ATOMIC_HCA;
}

struct rpma_peer *
mock_peer(void)
{
	struct rpma_peer *peer = NULL;
	assert_ok(rpmai_peer_new(&mock_rdma, &mock.ctx, &peer));
	return peer;
}

struct rpma_conn *
mock_conn(struct rpma_peer *peer, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;
	assert_ok(rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req));
	assert_ok(rpma_conn_req_connect(&req, NULL, &conn));
	return conn;
}

struct rpma_mr_remote *
mock_remote(uint64_t size, int usage, bool has_caps, int caps)
{
	uint8_t desc[MR_DESCRIPTOR_SIZE];
	const struct mr_descriptor md = {
		.raddr = 0x10000,
		.size = size,
		.rkey = MOCK_RKEY,
		.usage = (uint8_t)usage,
		.has_caps = true,
		.caps = (uint8_t)caps,
	};
	struct rpma_mr_remote *mr = NULL;
	rpmai_mr_descriptor_encode(&md, desc);
	assert_ok(rpma_mr_remote_from_descriptor(desc, has_caps ? MR_DESCRIPTOR_SIZE : MR_DESCRIPTOR_SIZE_MIN,
		&mr));
	return mr;
}
