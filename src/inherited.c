/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* inherited.c -- objects that were made before fork(2), in the child */

#include <stdatomic.h>
#include <stdlib.h>

#include "err.h"
#include "inherited.h"

struct grave {
	void *object;
	struct grave *next;
};

static _Atomic(struct grave *) graves;

int
rpmai_refuse_inherited(void)
{
	/*
	 * message(limits, inherited): a child uses an object of its parent -> Make peers, endpoints and
	 * connections anew in the child: FORK in librpma(7).
	 */
	return RPMAI_FAIL(RPMA_E_PROVIDER,
		"the object was made before fork(2) and belongs to the parent process: make a new one in this "
		"process");
}

int
rpmai_bury_inherited(void *object)
{
	struct grave *grave =
		malloc(sizeof(*grave)); /* if this fails, only leak checkers lose sight of the object */
	if (grave) {
		grave->object = object;
		grave->next = atomic_load(&graves);
		while (!atomic_compare_exchange_weak(&graves, &grave->next, grave))
			;
	}
	return rpmai_refuse_inherited();
}
