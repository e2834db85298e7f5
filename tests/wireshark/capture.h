/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * capture.h -- writes what the software device sends to a pcap file, without the rights that capturing needs
 *
 * The linker's --wrap sends each send(), sendmsg() and sendmmsg() of the device here. What the kernel has taken of a TCP
 * socket becomes packets with headers of IP and TCP, in the order in which it left: both ends of a connection are in this
 * process, and one lock is held from before the call until the packets are written. What sendmmsg() has sent are datagrams,
 * whose packets have headers of IP and UDP.
 */

#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * From here on packets go to path, each with at most segment bytes of a stream, and the lines of the ledger to
 * path.ledger. False: errno says why.
 */
bool capture_open(const char *path, size_t segment);
/* false: not everything was written */
bool capture_close(void);

#endif /* CAPTURE_H */
