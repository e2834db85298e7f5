/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* bounds.h -- every limit of the software device, each with its reason */

#ifndef SOFTRDMA_BOUNDS_H
#define SOFTRDMA_BOUNDS_H

/* what a port of real hardware carries in one message (IBTA: 2^31 bytes) */
#define SOFTRDMA_MSG_MAX 0x80000000u

/*
 * a message travels in frames of at most this payload, so that acknowledgements and responses can pass a long
 * one
 */
#define SOFTRDMA_SEGMENT_MAX (256u * 1024)

/*
 * pieces of local memory in one work request: programs take it for granted that there are 30, as hardware
 * has; bounds what is kept on the stack
 */
#define SOFTRDMA_SGE_MAX 32

/*
 * depth of a send, receive or shared receive queue: what ConnectX offers; sequence numbers need less than
 * 2^31
 */
#define SOFTRDMA_WR_MAX 32768

/* completion queue entries: 48 bytes each, 192 MiB at the most */
#define SOFTRDMA_CQE_MAX 4194303

/* bytes copied into a work request: larger ones gain nothing over a scatter/gather entry */
#define SOFTRDMA_INLINE_MAX 4096

/* and so many are granted to everybody, as by other devices: what is left of a WQE of two basic blocks */
#define SOFTRDMA_INLINE_MIN 64

/* outstanding reads and atomics of one queue pair: the responder keeps state for each */
#define SOFTRDMA_RD_ATOM_MAX 128

/* private data: the length travels in one byte, as in struct rdma_conn_param */
#define SOFTRDMA_PRIVATE_DATA_MAX 255

/* received but not yet placed bytes of one connection; a page-sized request train fits */
#define SOFTRDMA_STAGE_SIZE (16u * 1024)

/* frames that leave in one system call, and pieces of memory in them (IOV_MAX is 1024) */
#define SOFTRDMA_TX_FRAMES 32
#define SOFTRDMA_TX_IOVS 128

/* bytes handed to one system call: more would hold up the other direction */
#define SOFTRDMA_TX_BYTES (1024u * 1024)

/* reads from one socket before another one gets its turn, and frames, if others have as much to do */
#define SOFTRDMA_RX_TURNS 32
#define SOFTRDMA_RX_FRAMES 256
/* and if not: a third of a millisecond */
#define SOFTRDMA_RX_FRAMES_MAX 4096

/*
 * incoming connections whose first message has not arrived, and requests that wait for the application,
 * unless the environment says otherwise; each holds a descriptor, so at most half of those go there by
 * default
 */
#define SOFTRDMA_PENDING_DEFAULT 1024
#define SOFTRDMA_PENDING_MAX 65536

/*
 * Bytes and calls that are spent on what a refused peer has sent after its request, so that the kernel does
 * not reset the connection before the peer has read the reason. An honest peer sends at most a greeting of
 * TLS with a chain of certificates; a flood must not hold up the progress thread.
 */
#define SOFTRDMA_READ_AWAY_SIZE (16u * 1024)
#define SOFTRDMA_READ_AWAY_TURNS 4

/* addresses of which it is known that they have reached for memory that is not theirs: 32 bytes each */
#define SOFTRDMA_TRESPASSERS_MAX 1024

/* after so long without another time it is forgotten */
#define SOFTRDMA_TRESPASS_MEMORY_MS 60000

/* lines of one kind that strangers can cause in one interval; more would let them fill a disk */
#define SOFTRDMA_LOG_LINES 10
#define SOFTRDMA_LOG_INTERVAL_MS 10000

/* a handshake message must be complete within this time */
#define SOFTRDMA_HANDSHAKE_TIMEOUT_MS 5000

/* the other application has this long to accept or reject (IB's CM gives up after about a minute) */
#define SOFTRDMA_CONNECT_TIMEOUT_MS 60000

/* between two questions to an address where nobody listens; the timers of the device are hardly finer */
#define SOFTRDMA_REFUSED_RETRY_MS 20

/* a peer that has vanished without a word (power cut, cable) is noticed after this time */
#define SOFTRDMA_PEER_TIMEOUT_MS 10000

/* the same while it may be making a large range durable, and more waits behind that */
#define SOFTRDMA_FLUSH_TIMEOUT_MS 900000

/* completion queues with at most this many queue pairs are served by whoever polls them */
#define SOFTRDMA_POLLED_LINKS_MAX 4

/* threads that wait for a medium on behalf of a FLUSH */
#define SOFTRDMA_FLUSH_THREADS_MAX 4

/*
 * files that stay known after their last region was deregistered, each with a mapping; then the one that was
 * not looked at for longest is synced and forgotten
 */
#define SOFTRDMA_IDLE_FILES_MAX 256

/*
 * Files that a forked child does not trust because their write-back failed in its parent: 40 bytes each. If
 * there are so many, it trusts no file.
 */
#define SOFTRDMA_FAILED_FILES_MAX 256

/* GIDs of the port: the index travels in one byte, and a program asks for all of them */
#define SOFTRDMA_GIDS_MAX 64

/* descriptors that a forked child closes: as high as the kernel lets them be unless told (fs.nr_open) */
#define SOFTRDMA_DESCRIPTORS_MAX (1 << 20)

/*
 * How long the other side of a queue pair that is connected by hand may be absent: what the attributes
 * timeout and retry_cnt say, but no less than a loaded machine needs, and no more than anybody would wait
 * for.
 */
#define SOFTRDMA_ABSENCE_MIN_MS 1000
#define SOFTRDMA_ABSENCE_MAX_MS 60000

/* pauses between attempts to connect such a queue pair: the first one, doubled up to the last one */
#define SOFTRDMA_PAUSE_MIN_MS 10
#define SOFTRDMA_PAUSE_MAX_MS 1000
/* a fault that a user asks for lasts no longer: an hour is more than any test waits */
#define SOFTRDMA_FAULT_TIME_MAX_S 3600

/* a file of faults is a page of words and comments */
#define SOFTRDMA_FAULT_TEXT_MAX (64u * 1024)

/*
 * bytes of one record with check sums: enough that a record costs little, few enough that it is in the
 * processor's cache when it is copied
 */
#define SOFTRDMA_RECORD_MAX (64u * 1024)

/*
 * Bytes of the records that this side sends. A record with its header fits into one segment of a loopback
 * interface, whose packets have 64 KiB with at most 72 bytes of headers, and into one packet that a network card
 * cuts into segments. A longer one is sent as two packets, which halves the throughput.
 */
#define SOFTRDMA_RECORD_SENT (64u * 1024 - 128)

/* what one call receives of such records: no less than one, with its header */
#define SOFTRDMA_RECORDS_ROOM (256u * 1024)

/*
 * Bytes of a peer's certificates, and how many may stand between its own one and the CA's. They are verified
 * before the peer is trusted: 100 KiB, which OpenSSL takes by default, cost 0.2 s.
 */
#define SOFTRDMA_TLS_CHAIN_MAX (8 * 1024)
#define SOFTRDMA_TLS_CHAIN_DEPTH 8

/* what one record of TLS holds (RFC 8446, 5.1) */
#define SOFTRDMA_TLS_RECORD (16u * 1024)

/*
 * records after which a sender takes the next key: AES-GCM bears 2^24.5 of them (RFC 8446, 5.5), and another
 * key after a GiB costs nothing that one would see
 */
#define SOFTRDMA_TLS_KEY_RECORDS (1u << 16)

/*
 * Bytes of the socket that one call of OpenSSL may take: two of its buffers. What is left is read in a later
 * turn, so records that hold no data, or one byte of a handshake each, do not keep the progress thread.
 */
#define SOFTRDMA_TLS_READ_MAX (32u * 1024)

/*
 * Records without data that a peer may send at a time: KeyUpdate, which costs more to take than to send,
 * NewSessionTicket, ChangeCipherSpec. Each amount of data lets the peer send one more; a peer that changes
 * its key as often as any standard asks for sends far more data than that.
 */
#define SOFTRDMA_TLS_IDLE_RECORDS 32u
#define SOFTRDMA_TLS_DATA_PER_IDLE_RECORD (64u * 1024)

/*
 * What a process shows to others of the same host: regions, each at one of so many places that follow from
 * its key, and connections. What finds no place goes by TCP.
 */
#define SOFTRDMA_BOARD_REGIONS 4096u
#define SOFTRDMA_BOARD_STEPS 16u
#define SOFTRDMA_BOARD_SLOTS 4096u
#define SOFTRDMA_BOARD_ID_SIZE 16

/* mappings of a neighbour's files that one connection keeps at a time */
#define SOFTRDMA_WINDOWS 4

/*
 * bytes copied from or to a neighbour before it is looked at again: whoever takes memory back waits for that
 */
#define SOFTRDMA_DIRECT_MAX (1024u * 1024)

/* a key that both sides are given: as many bits as the ciphers have, and no more than they can use */
#define SOFTRDMA_TLS_PSK_MIN 16u
#define SOFTRDMA_TLS_PSK_MAX 64u
/* and its name, as long as in other programs (RFC 4279, 5.3) */
#define SOFTRDMA_TLS_IDENTITY_MAX 128

#endif /* SOFTRDMA_BOUNDS_H */
