/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* name.h -- what the client has for the server to read */

#ifndef NAME_H
#define NAME_H

#define NAME_SIZE 32 /* bytes with the end */

#endif /* NAME_H */
