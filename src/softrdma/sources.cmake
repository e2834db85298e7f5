# the software device, as one list for every library that holds it
set(SOFTRDMA_SOURCES
	softrdma/address.c
	softrdma/advise.c
	softrdma/board.c
	softrdma/cm.c
	softrdma/completion.c
	softrdma/copy.c
	softrdma/cq_ex.c
	softrdma/credentials.c
	softrdma/device.c
	softrdma/direct.c
	softrdma/env.c
	softrdma/fault_plan.c
	softrdma/faults.c
	softrdma/faulty.c
	softrdma/fork.c
	softrdma/gid.c
	softrdma/handshake.c
	softrdma/hello.c
	softrdma/io.c
	softrdma/link.c
	softrdma/mapping.c
	softrdma/memory.c
	softrdma/modify.c
	softrdma/neighbour.c
	softrdma/newcomers.c
	softrdma/notify.c
	softrdma/pending.c
	softrdma/persist.c
	softrdma/persist_dax.c
	softrdma/persist_file.c
	softrdma/persist_msync.c
	softrdma/post.c
	softrdma/post_ex.c
	softrdma/qp.c
	softrdma/records.c
	softrdma/recv_queue.c
	softrdma/rendezvous.c
	softrdma/requester.c
	softrdma/responder.c
	softrdma/source.c
	softrdma/waiter.c
	softrdma/wire.c
	softrdma/workers.c
)
if(HAVE_ISAL)
	list(APPEND SOFTRDMA_SOURCES softrdma/crc_isal.c)
else()
	list(APPEND SOFTRDMA_SOURCES softrdma/crc_table.c)
endif()
if(HAVE_OPENSSL)
	list(APPEND SOFTRDMA_SOURCES softrdma/tls_openssl.c)
else()
	list(APPEND SOFTRDMA_SOURCES softrdma/tls_none.c)
endif()
