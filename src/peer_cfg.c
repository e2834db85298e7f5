/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* peer_cfg.c -- the configuration that a peer tells the other side */

#include <stdatomic.h>
#include <stdlib.h>

#include "descriptor.h"
#include "err.h"

struct rpma_peer_cfg {
	atomic_bool direct_write_to_pmem;
};

int
rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr)
{
	if (pcfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	struct rpma_peer_cfg *pcfg = malloc(sizeof(*pcfg));
	if (pcfg == NULL)
		return RPMAI_FAIL_NOMEM();

	atomic_init(&pcfg->direct_write_to_pmem, false);
	*pcfg_ptr = pcfg;
	return 0;
}

int
rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr)
{
	if (pcfg_ptr == NULL)
		return RPMAI_FAIL_NULL();

	free(*pcfg_ptr);
	*pcfg_ptr = NULL;
	return 0;
}

int
rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported)
{
	if (pcfg == NULL)
		return RPMAI_FAIL_NULL();

	atomic_store(&pcfg->direct_write_to_pmem, supported);
	return 0;
}

int
rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported)
{
	if (pcfg == NULL || supported == NULL)
		return RPMAI_FAIL_NULL();

	*supported = atomic_load(&pcfg->direct_write_to_pmem);
	return 0;
}

int
rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc)
{
	if (pcfg == NULL || desc == NULL)
		return RPMAI_FAIL_NULL();

	rpmai_peer_cfg_descriptor_encode(atomic_load(&pcfg->direct_write_to_pmem), desc);
	return 0;
}

int
rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size)
{
	if (pcfg == NULL || desc_size == NULL)
		return RPMAI_FAIL_NULL();

	*desc_size = PEER_CFG_DESCRIPTOR_SIZE;
	return 0;
}

int
rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr)
{
	bool direct_write_to_pmem;

	if (desc == NULL || pcfg_ptr == NULL)
		return RPMAI_FAIL_NULL();
	/* message(no-descriptor) */
	if (!rpmai_peer_cfg_descriptor_decode(desc, desc_size, &direct_write_to_pmem))
		return RPMAI_FAIL(RPMA_E_INVAL,
			"a peer configuration descriptor has at least %d byte, not %zu",
			PEER_CFG_DESCRIPTOR_SIZE, desc_size);

	struct rpma_peer_cfg *pcfg;
	int ret = rpma_peer_cfg_new(&pcfg);
	if (ret)
		return ret;

	atomic_store(&pcfg->direct_write_to_pmem, direct_write_to_pmem);
	*pcfg_ptr = pcfg;
	return 0;
}
