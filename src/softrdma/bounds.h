/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * bounds.h -- limits of the software device, each with its reason
 *
 * What peers and programs can use up, and what more than one file, test or document knows. A number by which one file shares
 * out its own work (how often it looks, how many it takes in a turn) stands at the head of that file.
 */

#ifndef SOFTRDMA_BOUNDS_H
#define SOFTRDMA_BOUNDS_H

/* bytes of one message, as a port of hardware carries (IBTA: 2^31 bytes) */
#define SOFTRDMA_MSG_MAX 0x80000000u

/* bytes of payload in one frame, so that acknowledgements and responses can pass between frames of a long message */
#define SOFTRDMA_SEGMENT_MAX (256u * 1024)

/* the greatest number of a queue pair: it has 24 bits (IBTA) */
#define SOFTRDMA_QP_NUM_MAX 0xffffffu

/* bytes of payload in an unreliable datagram: the port's MTU, as IBTA demands */
#define SOFTRDMA_DATAGRAM_MAX 4096

/* SGEs of one work request: programs rely on the 30 that hardware has; limits arrays on the stack */
#define SOFTRDMA_SGE_MAX 32

/* depth of a send, receive or shared receive queue, as ConnectX offers; sequence numbers allow less than 2^31 */
#define SOFTRDMA_WR_MAX 32768

/* completion queue entries (CQEs): sizeof(struct ibv_wc) is 48 bytes, so a queue has at most 192 MiB */
#define SOFTRDMA_CQE_MAX 4194303

/* bytes of inline data in a work request: more would have no advantage over an SGE */
#define SOFTRDMA_INLINE_MAX 4096

/* bytes of inline data that every queue pair gets, as on other devices: the rest of a WQE of two basic blocks */
#define SOFTRDMA_INLINE_MIN 64

/* outstanding reads and atomics of one queue pair: the responder keeps state for each */
#define SOFTRDMA_RD_ATOM_MAX 128

/* bytes of private data: the length has one byte, as in struct rdma_conn_param */
#define SOFTRDMA_PRIVATE_DATA_MAX 255

/* bytes of one connection that are received but not yet placed; holds a few requests of a page each */
#define SOFTRDMA_STAGE_SIZE (16u * 1024)

/* frames that leave in one system call, and iovecs in them (IOV_MAX is 1024) */
#define SOFTRDMA_TX_FRAMES 32
#define SOFTRDMA_TX_IOVS 128

/*
 * If GATHER_FROM requests of a queue pair wait for their response, posted ones leave together: at most GATHER_MAX, each of
 * at most GATHER_LENGTH bytes. A system call takes as long as a copy of some KiB.
 */
#define SOFTRDMA_GATHER_FROM 4
#define SOFTRDMA_GATHER_MAX SOFTRDMA_TX_FRAMES
#define SOFTRDMA_GATHER_LENGTH 1024u
/* how long they may wait, in ns: longer than a response takes on a local network, if a thread is there to receive it */
#define SOFTRDMA_GATHER_NS 200000

/*
 * A message is acknowledged together with its reply, after this number of messages had one, if no program waits for it, or
 * while the thread that has received it handles it. If no reply comes within this time, in ns, the acknowledgement leaves by
 * itself at the next beat.
 */
#define SOFTRDMA_ACK_LATER_FROM 16
#define SOFTRDMA_ACK_LATER_NS 1000000

/* bytes in one system call: more would delay the other direction */
#define SOFTRDMA_TX_BYTES (1024u * 1024)

/*
 * Bytes that the kernel holds of one connection and that its peer has no room for: else a peer that never reads pins up to 4 MiB
 * (net.ipv4.tcp_wmem) until it is given up. Bytes on their way to a peer that reads do not count.
 */
#define SOFTRDMA_UNSENT_MAX (512 * 1024)

/* reads from one socket before another socket gets its turn, and frames received if another socket waits */
#define SOFTRDMA_RX_TURNS 32
#define SOFTRDMA_RX_FRAMES 256
/* frames if no other socket waits: they take about a third of a millisecond */
#define SOFTRDMA_RX_FRAMES_MAX 4096

/*
 * Pending connections: those whose first message has not arrived, and requests that wait for the application. Each
 * holds a descriptor, so the default is at most half of the descriptors. The environment can set up to PENDING_MAX.
 */
#define SOFTRDMA_PENDING_DEFAULT 1024
#define SOFTRDMA_PENDING_MAX 65536

/*
 * Bytes per call, and calls, to read what a refused peer has sent after its request. This keeps the kernel from
 * resetting the connection before the peer has read the reason. An honest peer sends at most a TLS handshake message
 * with a chain of certificates; a flood must not delay the progress thread.
 */
#define SOFTRDMA_READ_AWAY_SIZE (16u * 1024)
#define SOFTRDMA_READ_AWAY_TURNS 4

/* addresses for which access violations are counted: 32 bytes each */
#define SOFTRDMA_OFFENDERS_MAX 1024

/* an address's count is forgotten this long after its last access violation */
#define SOFTRDMA_OFFENDER_MEMORY_MS 60000

/* log lines of one kind that remote hosts can cause in one interval; more would let them fill a disk */
#define SOFTRDMA_LOG_LINES 10
#define SOFTRDMA_LOG_INTERVAL_MS 10000

/* a handshake message must be complete within this time */
#define SOFTRDMA_HANDSHAKE_TIMEOUT_MS 5000

/* the peer's application has this long to accept or reject (IB's CM gives up after about a minute) */
#define SOFTRDMA_CONNECT_TIMEOUT_MS 60000

/* between two attempts to connect to an address without a listener; the device's timers are hardly finer */
#define SOFTRDMA_REFUSED_RETRY_MS 20

/* after this time the device notices that a peer has vanished without ending the connection (power cut, cable) */
#define SOFTRDMA_PEER_TIMEOUT_MS 10000

/* the same while the peer may be making a large range durable, and further requests wait after that */
#define SOFTRDMA_FLUSH_TIMEOUT_MS 900000

/*
 * The thread that polls a completion queue asks each connection for input, if there are at most this many: each poll that
 * finds nothing makes a system call for each of them. With more, it asks the epoll of their lead, while that is on.
 */
#define SOFTRDMA_POLLED_LINKS_MAX 4

/* how long a call that polls may sleep, in ns, if threads that compute want its processor: less than a time slice takes */
#define SOFTRDMA_NAP_NS 250000

/*
 * How long one turn of a connection makes flushes that cannot block, in ns: hardly less than SOFTRDMA_RX_FRAMES_MAX frames
 * take. Workers make those that follow. Each of them takes 1 us on Linux 6.11 and later. Before that it reads
 * /proc/self/maps, which takes 15 us, and longer if the process has many mappings.
 */
#define SOFTRDMA_FLUSH_TURN_NS 250000u

/*
 * Progress threads: what this many copy fills the bandwidth of memory. Each request for a connection asks all of them for
 * a look at their connections.
 */
#define SOFTRDMA_THREADS_MAX 8

/* threads that wait for the medium of a FLUSH, and how many of them may do so for one address: one is left for others */
#define SOFTRDMA_FLUSH_THREADS_MAX 5
#define SOFTRDMA_FLUSH_THREADS_OF_ADDRESS (SOFTRDMA_FLUSH_THREADS_MAX - 1)

/*
 * Files that are remembered after their last region was deregistered, each with a mapping. If there are more, the
 * next one in turn whose sync succeeds is forgotten.
 */
#define SOFTRDMA_IDLE_FILES_MAX 256

/*
 * Files that a forked child does not trust because their write-back has failed in its parent: 32 bytes each. If the
 * list is full, the child trusts no file.
 */
#define SOFTRDMA_FAILED_FILES_MAX 256

/* addresses of listeners with statistics of their own, and one account for all others: programs listen at a few */
#define SOFTRDMA_ACCOUNTS_MAX 64u

/* GIDs of the port: an index has one byte, and programs query all of them */
#define SOFTRDMA_GIDS_MAX 64

/* descriptors that a forked child closes: the kernel's default limit (fs.nr_open) */
#define SOFTRDMA_DESCRIPTORS_MAX (1 << 20)

/*
 * Limits of the time for which the peer of a queue pair that is connected by hand may be absent. The attributes timeout
 * and retry_cnt determine it, but a loaded machine needs the minimum, and no program would wait longer than the maximum.
 */
#define SOFTRDMA_ABSENCE_MIN_MS 1000
#define SOFTRDMA_ABSENCE_MAX_MS 60000

/* pauses between attempts to connect such a queue pair: the first one, doubled each time up to the longest */
#define SOFTRDMA_PAUSE_MIN_MS 10
#define SOFTRDMA_PAUSE_MAX_MS 1000
/* the longest time of an injected fault: an hour is more than any test waits */
#define SOFTRDMA_FAULT_TIME_MAX_S 3600

/* bytes of a file of faults: more than a page of words and comments needs */
#define SOFTRDMA_FAULT_TEXT_MAX (64u * 1024)

/*
 * Bytes of one record with checksums: many, so that a record costs little per byte, but few enough to stay in the
 * processor's cache until they are copied.
 */
#define SOFTRDMA_RECORD_MAX (64u * 1024)

/*
 * Bytes of the records that this side sends. A record with its header fits into one packet of a loopback interface,
 * which has 64 KiB with at most 72 bytes of headers. It also fits into one packet that a network card cuts into
 * segments. A longer record is sent as two packets, which halves the throughput.
 */
#define SOFTRDMA_RECORD_SENT (64u * 1024 - 128)

/* bytes of such records that one call receives: at least one record with its header */
#define SOFTRDMA_RECORDS_ROOM (256u * 1024)

/*
 * Bytes of a peer's certificates, and number of certificates between its own and the CA's. They are verified before
 * the peer is trusted: 100 KiB, the default of OpenSSL, take 0.2 s.
 */
#define SOFTRDMA_TLS_CHAIN_MAX (8 * 1024)
#define SOFTRDMA_TLS_CHAIN_DEPTH 8

/* bytes of data in one record of TLS (RFC 8446, 5.1) */
#define SOFTRDMA_TLS_RECORD (16u * 1024)

/*
 * Records after which a sender changes its key: a key of AES-GCM is good for 2^24.5 records (RFC 8446, 5.5), and a
 * change after each GiB has no measurable cost.
 */
#define SOFTRDMA_TLS_KEY_RECORDS (1u << 16)

/*
 * Bytes that one call of OpenSSL may read from the socket: two of its buffers. The rest is read in a later turn, so
 * records without data, or with one byte of a handshake each, do not occupy the progress thread.
 */
#define SOFTRDMA_TLS_READ_MAX (32u * 1024)

/*
 * Records without data that a peer may send at a time: KeyUpdate, which costs the receiver more than the sender,
 * NewSessionTicket, ChangeCipherSpec. Each DATA_PER_IDLE_RECORD bytes of data allow one more. A peer that changes its
 * key as often as any standard demands sends far more data in between.
 */
#define SOFTRDMA_TLS_IDLE_RECORDS 32u
#define SOFTRDMA_TLS_DATA_PER_IDLE_RECORD (64u * 1024)

/*
 * Entries of the registry that a process publishes to others on the same host: regions, with the number of entries
 * where a key can be, and slots for connections. What finds no free entry uses TCP.
 */
#define SOFTRDMA_REGISTRY_REGIONS 4096u
#define SOFTRDMA_REGISTRY_STEPS 16u
#define SOFTRDMA_REGISTRY_SLOTS 4096u
#define SOFTRDMA_REGISTRY_ID_SIZE 16

/* mappings of a local peer's files that one connection keeps at a time */
#define SOFTRDMA_PEER_MAPS 4

/* bytes copied from or to a local peer before its registry is read again: a deregistration there waits for one copy */
#define SOFTRDMA_SHM_PATH_MAX (1024u * 1024)

/* bytes of a pre-shared key: at least as many bits as the ciphers have, and at most what they can use */
#define SOFTRDMA_TLS_PSK_MIN 16u
#define SOFTRDMA_TLS_PSK_MAX 64u
/* characters of its name, as in other programs (RFC 4279, 5.3) */
#define SOFTRDMA_TLS_IDENTITY_MAX 128

#endif /* SOFTRDMA_BOUNDS_H */
