/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* test_transitions.c -- which states follow which, and what ibv_modify_qp(3) must and may set on the way */

#include "connected.h"
#include "softrdma/cm/transitions.h"

#define RC IBV_QPT_RC
#define UD IBV_QPT_UD

static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
	IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR };
enum { STATES = sizeof(states) / sizeof(states[0]) };

/* ibv_modify_qp(3) has these tables; S is IBV_QP_STATE */
#define S IBV_QP_STATE

struct row {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required, optional; /* that the device has */
	int refused;            /* that the specification has, and the device has not */
};

static const struct row table[] = {
	{ UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, 0 },
	{ UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, 0 },
	{ UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY, 0 },
	{ UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY, 0 },
	{ RC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0, 0 },
	{ RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ RC, IBV_QPS_INIT, IBV_QPS_RTR,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER,
		IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, IBV_QP_ALT_PATH },
	{ RC, IBV_QPS_RTR, IBV_QPS_RTS,
		IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC,
		IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT },
	{ RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT },
};

static const struct row *
find(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].type == type && table[i].from == from && table[i].to == to)
			return &table[i];
	}
	return NULL;
}

static int
check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	const struct ibv_qp_attr attr = { .qp_state = to, .cur_qp_state = from };
	return softrdma_transition_check(type, from, to, &attr, mask);
}

/* all bits at once, without each required one, with each other one */
static void
test_masks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct row *row = &table[i];
		assert_int_equal(check(row->type, row->from, row->to, row->required), 0);
		assert_int_equal(check(row->type, row->from, row->to, S | row->required | row->optional), 0);
		for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
			int expected = row->refused & bit ? EOPNOTSUPP : EINVAL;
			if ((row->required | row->optional | S) & bit)
				expected = 0;
			assert_int_equal(check(row->type, row->from, row->to, row->required | bit), expected);
			if (row->required & bit)
				assert_int_equal(
					check(row->type, row->from, row->to, S | (row->required & ~bit)),
					EINVAL);
		}
	}
}

/* from each state to each other one */
static void
test_states(void **state)
{
	(void)state;
	static const enum ibv_qp_type types[] = { RC, UD };
	for (int n = 0; n < 2 * STATES * STATES; n++) {
		const enum ibv_qp_type type = types[n % 2];
		const enum ibv_qp_state from = states[n / 2 % STATES], to = states[n / 2 / STATES];
		const bool lives = from != IBV_QPS_SQD && from != IBV_QPS_SQE;
		const bool ends =
			lives && (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET));
		const struct row *row = find(type, from, to);
		int expected = ends || row ? 0 : EINVAL;
		if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
			expected = EOPNOTSUPP;
		assert_int_equal(check(type, from, to, S | (row ? row->required : 0)), expected);
		if (ends) /* nothing else can be set */
			assert_int_equal(check(type, from, to, S | IBV_QP_QKEY), EINVAL);
	}
	assert_int_equal(check(UD, IBV_QPS_RTS, IBV_QPS_SQD, S | IBV_QP_EN_SQD_ASYNC_NOTIFY), EOPNOTSUPP);
	assert_int_equal(check(UD, IBV_QPS_RTS, IBV_QPS_SQD, S | IBV_QP_QKEY), EINVAL);
}

/* the state that the program takes for the current one must be that */
static void
test_current_state(void **state)
{
	(void)state;
	for (int i = 0; i < STATES; i++) {
		const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = states[i] };
		assert_int_equal(softrdma_transition_check(UD, IBV_QPS_RTR, IBV_QPS_RTS, &attr,
					 S | IBV_QP_SQ_PSN | IBV_QP_CUR_STATE),
			states[i] == IBV_QPS_RTR ? 0 : EINVAL);
		assert_int_equal(
			softrdma_transition_check(UD, IBV_QPS_RTR, IBV_QPS_RTS, &attr, S | IBV_QP_SQ_PSN), 0);
	}
}

/* what the device lacks is said once */
static void
test_line(void **state)
{
	(void)state;
	log_clear();
	check(UD, IBV_QPS_RTS, IBV_QPS_SQD, S);
	check(RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_ALT_PATH);
	check(RC, IBV_QPS_RESET, IBV_QPS_RTS, S);
	assert_string_equal(log_text,
		"ibv_modify_qp() to SQD, or with another path is not supported by the software device: "
		"PROGRAMS OF OTHERS in softrdma(7) says what it has\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_line), /* first, because the line comes once */
		device_test(test_masks),
		device_test(test_states),
		device_test(test_current_state),
	};
	return cmocka_run_group_tests(tests, setup_device, teardown_device);
}
