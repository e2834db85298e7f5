/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer_cfg.c -- the descriptor of a peer's configuration, as it arrives from another machine */

#include <librpma.h>

#include "descriptor.h"
#include "fuzz.h"

static void
check_codec(const uint8_t *desc, size_t size)
{
	uint8_t again[PEER_CFG_DESCRIPTOR_SIZE];
	bool direct = false, decoded = false;

	FUZZ_CHECK(rpmai_peer_cfg_descriptor_decode(desc, size, &direct) == (size > 0));
	if (size == 0)
		return;
	rpmai_peer_cfg_descriptor_encode(direct, again);
	FUZZ_CHECK(rpmai_peer_cfg_descriptor_decode(again, sizeof(again), &decoded) && decoded == direct);
	/* the decoder takes any value but 0 as true, and the encoder writes 1 */
	if (desc[0] <= 1)
		FUZZ_CHECK(again[0] == desc[0]);
}

static void
check_public(const uint8_t *desc, size_t size)
{
	struct rpma_peer_cfg *pcfg = NULL;
	uint8_t again[PEER_CFG_DESCRIPTOR_SIZE];
	bool direct = false;
	int ret = rpma_peer_cfg_from_descriptor(desc, size, &pcfg);

	FUZZ_CHECK(ret == (size > 0 ? 0 : RPMA_E_INVAL));
	FUZZ_CHECK((ret == 0) == (pcfg != NULL));
	if (ret)
		return;
	FUZZ_CHECK(rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &direct) == 0 && direct == (desc[0] != 0));
	FUZZ_CHECK(rpma_peer_cfg_get_descriptor(pcfg, again) == 0 && again[0] == (direct ? 1 : 0));
	FUZZ_CHECK(rpma_peer_cfg_delete(&pcfg) == 0 && pcfg == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool quiet;

	if (!quiet)
		fuzz_quieten();
	quiet = true;
	check_codec(data, size);
	if (data)
		check_public(data, size);
	return 0;
}
