/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_outputs.c -- a call that fails leaves its output unchanged
 *
 * Otherwise a program that cleans up by its pointers would delete an object that never existed.
 */

#include "mock.h"

#define ALLOCATIONS_MAX 20

static struct rpma_peer *peer;
static uint8_t descriptor[64];
static int elsewhere;

static int
new_conn_cfg(void **out)
{
	return rpma_conn_cfg_new((struct rpma_conn_cfg **)out);
}

static int
delete_conn_cfg(void **out)
{
	return rpma_conn_cfg_delete((struct rpma_conn_cfg **)out);
}

static int
new_conn_req(void **out)
{
	return rpma_conn_req_new(peer, "192.0.2.1", "7204", NULL, (struct rpma_conn_req **)out);
}

static int
delete_conn_req(void **out)
{
	return rpma_conn_req_delete((struct rpma_conn_req **)out);
}

static int
new_ep(void **out)
{
	return rpma_ep_listen(peer, "192.0.2.1", "7204", (struct rpma_ep **)out);
}

static int
delete_ep(void **out)
{
	return rpma_ep_shutdown((struct rpma_ep **)out);
}

static int
new_mr(void **out)
{
	return rpma_mr_reg(peer, descriptor, sizeof(descriptor), RPMA_MR_USAGE_SEND,
		(struct rpma_mr_local **)out);
}

static int
delete_mr(void **out)
{
	return rpma_mr_dereg((struct rpma_mr_local **)out);
}

static int
new_remote(void **out)
{
	return rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), (struct rpma_mr_remote **)out);
}

static int
delete_remote(void **out)
{
	return rpma_mr_remote_delete((struct rpma_mr_remote **)out);
}

static int
new_peer(void **out)
{
	return rpmai_peer_new(&mock_rdma, &mock.ctx, (struct rpma_peer **)out);
}

static int
delete_peer(void **out)
{
	return rpma_peer_delete((struct rpma_peer **)out);
}

static int
new_peer_cfg(void **out)
{
	return rpma_peer_cfg_new((struct rpma_peer_cfg **)out);
}

static int
delete_peer_cfg(void **out)
{
	return rpma_peer_cfg_delete((struct rpma_peer_cfg **)out);
}

static int
new_srq(void **out)
{
	return rpma_srq_new(peer, NULL, (struct rpma_srq **)out);
}

static int
delete_srq(void **out)
{
	return rpma_srq_delete((struct rpma_srq **)out);
}

static int
new_srq_cfg(void **out)
{
	return rpma_srq_cfg_new((struct rpma_srq_cfg **)out);
}

static int
delete_srq_cfg(void **out)
{
	return rpma_srq_cfg_delete((struct rpma_srq_cfg **)out);
}

static const struct {
	const char *name;
	int (*make)(void **out);
	int (*delete)(void **out);
} calls[] = {
	{ "conn_cfg", new_conn_cfg, delete_conn_cfg },
	{ "conn_req", new_conn_req, delete_conn_req },
	{ "ep", new_ep, delete_ep },
	{ "mr", new_mr, delete_mr },
	{ "remote mr", new_remote, delete_remote },
	{ "peer", new_peer, delete_peer },
	{ "peer_cfg", new_peer_cfg, delete_peer_cfg },
	{ "srq", new_srq, delete_srq },
	{ "srq_cfg", new_srq_cfg, delete_srq_cfg },
};

/* the k-th allocation fails, for k from 0 on until the call succeeds */
static void
test_no_memory(void **state)
{
	(void)state;
	struct rpma_mr_local *mr = NULL;
	peer = mock_peer();
	assert_ok(rpma_mr_reg(peer, descriptor, sizeof(descriptor), RPMA_MR_USAGE_SEND, &mr));
	assert_ok(rpma_mr_get_descriptor(mr, descriptor));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int ret = RPMA_E_NOMEM;
		for (int k = 0; ret; k++) {
			void *out = &elsewhere;
			assert_true(k < ALLOCATIONS_MAX);
			mock.malloc_skip = k;
			ret = calls[i].make(&out);
			mock.malloc_skip = -1;
			if (ret && (ret != RPMA_E_NOMEM || out != &elsewhere))
				fail_msg("%s, allocation %d: %d, and the output is %s", calls[i].name, k, ret,
					out == &elsewhere ? "untouched" : "written");
			if (ret == 0)
				assert_ok(calls[i].delete(&out));
		}
	}
	rpma_mr_dereg(&mr);
	rpma_peer_delete(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
