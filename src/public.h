/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * public.h -- librpma.h with its functions visible
 *
 * The library is compiled with hidden visibility, except for what the public header declares. This keeps the
 * installed header free of compiler pragmas.
 */

#ifndef RPMAI_PUBLIC_H
#define RPMAI_PUBLIC_H

#pragma GCC visibility push(default)
#include "librpma.h"
#pragma GCC visibility pop

#endif /* RPMAI_PUBLIC_H */
