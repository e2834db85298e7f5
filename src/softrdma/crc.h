/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * crc.h -- CRC32C, the check sum of iSCSI, SCTP and iWARP (RFC 3720, 12.1; polynomial 0x1EDC6F41)
 *
 * crc_isal.c computes it by ISA-L, with the processor's instructions; crc_table.c is for builds without, and
 * gives the same values.
 */

#ifndef SOFTRDMA_CRC_H
#define SOFTRDMA_CRC_H

#include <stddef.h>
#include <stdint.h>

/* of these bytes behind those that have given crc; 0: behind none */
uint32_t softrdma_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif /* SOFTRDMA_CRC_H */
