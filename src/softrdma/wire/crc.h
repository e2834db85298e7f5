/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * crc.h -- CRC32C, the checksum of iSCSI, SCTP and iWARP (RFC 3720, 12.1; polynomial 0x1EDC6F41)
 *
 * crc_isal.c computes it with ISA-L, which uses the processor's instructions. crc_table.c gives the same values
 * in builds without ISA-L.
 */

#ifndef SOFTRDMA_CRC_H
#define SOFTRDMA_CRC_H

#include <stddef.h>
#include <stdint.h>

/* extends crc, the CRC32C of preceding bytes, by these bytes; with crc 0 it is the CRC32C of these bytes alone */
uint32_t softrdma_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif /* SOFTRDMA_CRC_H */
