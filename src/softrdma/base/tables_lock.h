/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * tables_lock.h -- one lock for the small tables of the process: offenders, accounts, the fault plan in force
 *
 * It is held for some lines, never over a system call or a log line, and no other lock is taken under it.
 */

#ifndef SOFTRDMA_TABLES_LOCK_H
#define SOFTRDMA_TABLES_LOCK_H

void softrdma_tables_lock(void);
void softrdma_tables_unlock(void);

#endif /* SOFTRDMA_TABLES_LOCK_H */
