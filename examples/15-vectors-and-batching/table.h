/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * table.h -- a table in the server's memory: rows in slots, each with a key and its value
 *
 *	offset  size
 *	     0     8  key, little-endian; 0: the slot is free
 *	     8    40  value: a text with a terminating zero
 *
 * The slot follows from the key, so neighbouring keys lie far apart, as in a hash table. Keys are 1 to
 * TABLE_SLOTS, and no two keys have the same slot.
 */

#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>

#define KEY_SIZE 8 /* COUNTER_SIZE: counter_put and counter_get */
#define VALUE_SIZE 40
#define ROW_SIZE (KEY_SIZE + VALUE_SIZE)

#define TABLE_SLOTS 4096 /* a power of two */
#define TABLE_SIZE (TABLE_SLOTS * ROW_SIZE)

/* the factor is odd, so this is a permutation */
static inline size_t
table_slot(uint64_t key)
{
	return (size_t)(key * 2654435761U % TABLE_SLOTS);
}

#endif /* TABLE_H */
