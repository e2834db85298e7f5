/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* name.h -- the size of the name that the server reads from the client */

#ifndef NAME_H
#define NAME_H

#define NAME_SIZE 32 /* in bytes, with the terminating zero */

#endif /* NAME_H */
