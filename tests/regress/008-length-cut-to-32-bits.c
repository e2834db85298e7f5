/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * This never was a bug here, but no test would have found it (tests/mutation/059). The original library cuts
 * a length to the 32 bits that verbs have for it, and transfers the remainder: 4 GiB and 8 bytes become 8
 * bytes.
 */

#include "mock.h"

#define GIB ((size_t)1 << 30)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static void
test_lengths_beyond_32_bits(void **state)
{
	(void)state;
	static const size_t lengths[] = { UINT32_MAX, 4 * GIB, 4 * GIB + 8, 8 * GIB };
	static char memory[8];
	struct rpma_peer *peer = mock_peer();
	struct rpma_conn *conn = mock_conn(peer, NULL);
	struct rpma_mr_local *mr = NULL;
	struct rpma_mr_remote *remote = mock_remote(8 * GIB, 0xFF, true, 0);
	assert_ok(rpma_mr_reg(peer, memory, 8 * GIB, 0xFF,
		&mr)); /* the mock device does not access the memory */

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t len = lengths[i];
		assert_fails(RPMA_E_INVAL, rpma_read(conn, mr, 0, remote, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_write(conn, remote, 0, mr, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_write_with_imm(conn, remote, 0, mr, 0, len, ALWAYS, 1, NULL));
		assert_fails(RPMA_E_INVAL, rpma_send(conn, mr, 0, len, ALWAYS, NULL));
		assert_fails(RPMA_E_INVAL, rpma_send_with_imm(conn, mr, 0, len, ALWAYS, 1, NULL));
		if (len > UINT32_MAX)
			assert_fails(RPMA_E_INVAL, rpma_recv(conn, mr, 0, len, NULL));
	}
	assert_int_equal(mock.sends + mock.recvs, 0);

	rpma_mr_dereg(&mr);
	rpma_mr_remote_delete(&remote);
	rpma_conn_delete(&conn);
	rpma_peer_delete(&peer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rpma_test(test_lengths_beyond_32_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
