/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * values.c -- every value and size that the original's header fixes
 *
 * Compiled against our header and against the distribution's: an assertion that holds for both has the same
 * value in both. The test is that it compiles.
 */

#include <librpma.h>

#define IS(name, value) _Static_assert((name) == (value), #name)

IS(RPMA_W_WAIT_FOR_COMPLETION, 1);
IS(RPMA_DEFAULT_TIMEOUT_MS, 1000);

IS(RPMA_E_UNKNOWN, -100000);
IS(RPMA_E_NOSUPP, -100001);
IS(RPMA_E_PROVIDER, -100002);
IS(RPMA_E_NOMEM, -100003);
IS(RPMA_E_INVAL, -100004);
IS(RPMA_E_NO_COMPLETION, -100005);
IS(RPMA_E_NO_EVENT, -100006);
IS(RPMA_E_AGAIN, -100007);
IS(RPMA_E_SHARED_CHANNEL, -100008);
IS(RPMA_E_NOT_SHARED_CHNL, -100009);

IS(RPMA_MR_USAGE_READ_SRC, 1);
IS(RPMA_MR_USAGE_READ_DST, 2);
IS(RPMA_MR_USAGE_WRITE_SRC, 4);
IS(RPMA_MR_USAGE_WRITE_DST, 8);
IS(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, 16);
IS(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, 32);
IS(RPMA_MR_USAGE_SEND, 64);
IS(RPMA_MR_USAGE_RECV, 128);

IS(RPMA_F_COMPLETION_ON_ERROR, 1);
IS(RPMA_F_COMPLETION_ALWAYS, 3);
IS(RPMA_ATOMIC_WRITE_ALIGNMENT, 8);
IS(sizeof(RPMA_LOG_USE_DEFAULT_FUNCTION), sizeof(void *));

IS(RPMA_UTIL_IBV_CONTEXT_LOCAL, 0);
IS(RPMA_UTIL_IBV_CONTEXT_REMOTE, 1);

IS(RPMA_CONN_UNDEFINED, -1);
IS(RPMA_CONN_ESTABLISHED, 0);
IS(RPMA_CONN_CLOSED, 1);
IS(RPMA_CONN_LOST, 2);
IS(RPMA_CONN_REJECTED, 3);
IS(RPMA_CONN_UNREACHABLE, 4);

IS(RPMA_FLUSH_TYPE_PERSISTENT, 0);
IS(RPMA_FLUSH_TYPE_VISIBILITY, 1);

IS(RPMA_LOG_DISABLED, -1);
IS(RPMA_LOG_LEVEL_FATAL, 0);
IS(RPMA_LOG_LEVEL_ERROR, 1);
IS(RPMA_LOG_LEVEL_WARNING, 2);
IS(RPMA_LOG_LEVEL_NOTICE, 3);
IS(RPMA_LOG_LEVEL_INFO, 4);
IS(RPMA_LOG_LEVEL_DEBUG, 5);
IS(RPMA_LOG_THRESHOLD, 0);
IS(RPMA_LOG_THRESHOLD_AUX, 1);
IS(RPMA_LOG_THRESHOLD_MAX, 2);

IS(sizeof(enum rpma_util_ibv_context_type), 4);
IS(sizeof(enum rpma_conn_event), 4);
IS(sizeof(enum rpma_flush_type), 4);
IS(sizeof(enum rpma_log_level), 4);
IS(sizeof(enum rpma_log_threshold), 4);
IS(sizeof(struct rpma_conn_private_data), 16);
IS(offsetof(struct rpma_conn_private_data, ptr), 0);
IS(offsetof(struct rpma_conn_private_data, len), 8);
IS(sizeof(((struct rpma_conn_private_data *)0)->len), 1);

/* the assignment checks the type of the log function */
void values_log(enum rpma_log_level level, const char *file_name, const int line_no,
	const char *function_name, const char *message_format, ...);
extern rpma_log_function *const values_log_function;
rpma_log_function *const values_log_function = values_log;

#ifdef VALUES_OURS
IS(RPMA_OP_READ, 0);
IS(RPMA_OP_WRITE, 1);
IS(RPMA_OP_FLUSH, 2);
IS(RPMA_OP_SEND, 3);
IS(RPMA_OP_RECV, 4);
IS(RPMA_OP_RECV_RDMA_WITH_IMM, 5);
IS(RPMA_OP_ATOMIC, 6);
IS(sizeof(struct rpma_completion), 32);
IS(offsetof(struct rpma_completion, op_context), 0);
IS(offsetof(struct rpma_completion, op), 8);
IS(offsetof(struct rpma_completion, byte_len), 12);
IS(offsetof(struct rpma_completion, op_status), 16);
IS(offsetof(struct rpma_completion, flags), 20);
IS(offsetof(struct rpma_completion, imm), 24);
#endif
