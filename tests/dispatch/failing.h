/* SPDX-License-Identifier: MIT
 *
 * Calls of the C library that fail when a test says so, in the thread that says so: memory, files, processes, threads,
 * libraries. What the test program itself calls, its fakes included, always works. A program that links this links no
 * other malloc: it doesn't run under sanitizers. */
#ifndef RFG_TESTS_FAILING_H
#define RFG_TESTS_FAILING_H

#include <stdbool.h>

enum failing_how {
    FAILING_NONE,  /* calls are counted */
    FAILING_ONE,   /* the n-th fails */
    FAILING_LATER, /* it and all later ones fail */
    /* None fails, but reads and writes move a part of what they could, waits and locks are interrupted first. */
    FAILING_INTERRUPTED,
};

/* Begins to count calls, from 1, and to fail them; ends what was begun before. */
void failing_begin(enum failing_how how, long n);
/* All calls work from now on. Returns how many were counted. */
long failing_end(void);

/* The calls of the last failing_begin(FAILING_NONE) that are worth a failure: the first and the last from each place in
 * the library, which is a chain of its callers. The k-th of them, 0: there are no more. */
long failing_place(int k);

/* The call that failed first; NULL: none did. */
const char *failing_name(void);
/* Does the message have an error's words that a call failed with? */
bool failing_is_told(const char *message);
/* Did a call fail whose failure harms nobody: removing what is left over, closing, looking at the time of a file? */
bool failing_harmless(void);

/* Blocks that live, the whole process's. */
long failing_blocks(void);
/* Before SQLite is used: what it asks for is counted as a call, not as a block: some of its extensions leak a few when
 * they can't be registered. */
void failing_sqlite(void);

#endif
