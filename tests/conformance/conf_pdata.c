/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_pdata.c -- private data with the request and with the response
 *
 * Content is checked everywhere. Its length is exact on the software device; the connection managers of
 * hardware pad it, and carry 56 bytes with a request.
 */

#include <string.h>

#include "groups.h"
#include "pattern.h"
#include "role.h"

#define SEED_THERE 0x71
#define SEED_BACK 0x72
/* the length that rdma_connect(3) can carry with RDMA_PS_TCP */
#define RDMA_LIMIT 56

static struct rpma_conn_private_data
make(uint8_t *buf, uint8_t len, uint64_t seed)
{
	struct rpma_conn_private_data pdata = { buf, len };

	pattern_fill(buf, len, seed, 0);
	return pdata;
}

static void
check(struct role *r, const struct rpma_conn_private_data *got, uint8_t len, uint64_t seed)
{
	if (r->soft) {
		CHECK_EQ(got->len, len);
		CHECK((got->ptr == NULL) == (len == 0));
	}
	if (len == 0)
		return;
	CHECK(got->len >= len);
	CHECK_EQ(pattern_check(got->ptr, len, seed, 0), -1);
}

static void
pdata_target(struct role *r)
{
	uint8_t len = *(const uint8_t *)r->scenario->arg;
	struct rpma_conn_private_data got = { 0 };
	uint8_t buf[UINT8_MAX];
	struct rpma_conn_private_data mine = make(buf, len, SEED_BACK);
	struct rpma_conn_req *req;

	role_open(r);
	role_listen(r);
	req = req_next(r, NULL);
	CHECK_OK(rpma_conn_req_get_private_data(req, &got));
	check(r, &got, len, SEED_THERE);
	r->conn = req_accept(req, len ? &mine : NULL);
	/* the call has copied it, so the buffer can be reused */
	memset(buf, 0, sizeof(buf));
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	CHECK_OK(rpma_conn_get_private_data(r->conn, &got));
	check(r, &got, len, SEED_THERE);
	role_close(r);
}

static void
pdata_initiator(struct role *r)
{
	uint8_t len = *(const uint8_t *)r->scenario->arg;
	struct rpma_conn_private_data got = { 0 };
	uint8_t buf[UINT8_MAX];
	struct rpma_conn_private_data mine = make(buf, len, SEED_THERE);

	role_open(r);
	role_listen(r);
	r->conn = conn_request(r, NULL, len ? &mine : NULL);
	memset(buf, 0, sizeof(buf));
	CHECK_OK(rpma_conn_get_private_data(r->conn, &got));
	CHECK(got.ptr == NULL && got.len == 0);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	CHECK_OK(rpma_conn_get_private_data(r->conn, &got));
	check(r, &got, len, SEED_BACK);
	role_close(r);
}

/* ---- the device's limit: private data that is too long is an invalid argument, and does no harm ---- */

static void
limit_target(struct role *r)
{
	struct rpma_conn_private_data got = { 0 };
	struct rpma_conn_req *req;
	uint64_t len;

	role_open(r);
	role_listen(r);
	len = ctl_get_u64(r);
	req = req_next(r, NULL);
	CHECK_OK(rpma_conn_req_get_private_data(req, &got));
	check(r, &got, (uint8_t)len, SEED_THERE);
	r->conn = req_accept(req, NULL);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	role_close(r);
}

static void
limit_initiator(struct role *r)
{
	uint8_t buf[UINT8_MAX];
	struct rpma_conn_private_data mine = make(buf, UINT8_MAX, SEED_THERE);
	struct rpma_conn_req *req = NULL;
	int ret;

	role_open(r);
	role_listen(r);
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	ret = rpma_conn_req_connect(&req, &mine, &r->conn);
	CHECK(req == NULL);
	if (ret && !r->soft) {
		CHECK_RET(ret, RPMA_E_INVAL);
		CHECK(r->conn == NULL);
		mine.len = RDMA_LIMIT;
		r->conn = conn_request(r, NULL, &mine);
		ret = 0;
	}
	CHECK_OK(ret);
	ctl_put_u64(r, mine.len);
	expect_event(r->conn, RPMA_CONN_ESTABLISHED);
	role_close(r);
}

/* ---- invalid private data ---- */

static void
wrong_target(struct role *r)
{
	role_connect(r, NULL);
	role_close(r);
}

static void
wrong_initiator(struct role *r)
{
	struct rpma_conn_private_data no_length = { (void *)(uintptr_t) "x", 0 };
	struct rpma_conn_private_data no_pointer = { NULL, 1 };
	struct rpma_conn_req *req = NULL;
	struct rpma_conn *conn = NULL;

	role_open(r);
	role_listen(r);
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	CHECK_RET(rpma_conn_req_connect(&req, &no_length, &conn), RPMA_E_INVAL);
	CHECK(req == NULL && conn == NULL);
	CHECK_OK(rpma_conn_req_new(r->peer, r->addr, r->port, NULL, &req));
	CHECK_RET(rpma_conn_req_connect(&req, &no_pointer, &conn), RPMA_E_INVAL);
	CHECK(req == NULL && conn == NULL);
	r->conn = conn_connect(r, NULL);
	role_close(r);
}

static const uint8_t len_0 = 0;
static const uint8_t len_1 = 1;
static const uint8_t len_56 = RDMA_LIMIT;
static const uint8_t len_255 = UINT8_MAX;

static const struct scenario list[] = {
	{ "pdata-0", pdata_target, pdata_initiator, 0, 0, &len_0 },
	{ "pdata-1", pdata_target, pdata_initiator, 0, 0, &len_1 },
	{ "pdata-56", pdata_target, pdata_initiator, 0, 0, &len_56 },
	{ "pdata-255", pdata_target, pdata_initiator, 0, SOFT_ONLY, &len_255 },
	{ "pdata-limit", limit_target, limit_initiator, 0, 0, NULL },
	{ "pdata-wrong", wrong_target, wrong_initiator, 0, 0, NULL },
};

const struct scenario_group group_pdata = { list, sizeof(list) / sizeof(list[0]) };
