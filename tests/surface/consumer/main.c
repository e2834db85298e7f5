/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* main.c -- a user's program, with names that the library also uses inside */

#include <librpma.h>
#include <stdio.h>
#include <string.h>

int rpmai_log(void);
int softrdma_now_ns(void);
int softrdma_log_line(void);

int
rpmai_log(void)
{
	return 1;
}

int
softrdma_now_ns(void)
{
	return 2;
}

int
softrdma_log_line(void)
{
	return 3;
}

int
main(void)
{
	struct ibv_context *dev;
	struct rpma_peer *peer;
	int ret = rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &dev);
	if (ret == 0)
		ret = rpma_peer_new(dev, &peer);
	if (ret == 0)
		ret = rpma_peer_delete(&peer);
	/* the original lacks this call, so the header and library are not those of another installation */
	printf("%s\n", ret ? rpma_errormsg() : "a peer came and went");
	return ret || strcmp(rpma_err_2str(RPMA_E_INVAL), "Invalid argument") != 0 ||
		rpmai_log() + softrdma_now_ns() + softrdma_log_line() != 6;
}
