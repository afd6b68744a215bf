/* SPDX-License-Identifier: MIT
 *
 * malloc() and the like that run out of memory when a test says so, in the thread that says so; what the test program
 * itself, its fakes included, asks for is always there. A program that links this links no other malloc: it doesn't
 * run under sanitizers. */
#ifndef RFG_TESTS_NO_MEMORY_H
#define RFG_TESTS_NO_MEMORY_H

#include <stdbool.h>

/* From now on the n-th request fails, or with all_later it and all that follow; 0: none fails. Requests are counted
 * from here. */
void no_memory_from(long n, bool all_later);
/* Requests since then. */
long no_memory_requests(void);
/* Blocks that live, the whole process's. */
long no_memory_blocks(void);
/* Before SQLite is used: what it asks for is counted as a request, not as a block: some of its extensions leak a few
 * when they can't be registered. */
void no_memory_sqlite(void);

#endif
