/* SPDX-License-Identifier: MIT
 *
 * A HIP table around another that makes one call fail: the n-th of an entry. */
#ifndef RFG_TESTS_FAULTY_H
#define RFG_TESTS_FAULTY_H

#include "dispatch/hip/hip.h"

enum faulty_entry {
#define X(ret, name, params, args) FAULTY_##name,
    RFG_HIP_ENTRIES(X) RFG_HIP_PEER_ENTRIES(X)
#undef X
        FAULTY_describe,
    FAULTY_ENTRIES
};

/* Wraps base (for ever). The wrapped table's calls are counted from here on, none fails. */
const struct rfg_hip *faulty(const struct rfg_hip *base);
const char *faulty_name(enum faulty_entry entry);
/* Calls of an entry since the last faulty_arm(), or of all of them (FAULTY_ENTRIES). */
int faulty_calls(enum faulty_entry entry);
/* The n-th call (from 1) of the entry from now on returns error and does nothing; but what destroys or ends something
 * does it first: a runtime that fails there has lost the object, and nobody can free it any more. What was to be made
 * is a handle that must not be used. n 0: none fails. */
void faulty_arm(enum faulty_entry entry, int n, hipError_t error);
/* The n-th call of all and every later one fail, as after a fault of the device; until faulty_repair(). */
void faulty_break(int n, hipError_t error);
void faulty_repair(void);
/* Has a call failed? */
bool faulty_fired(void);
bool faulty_fired_in(enum faulty_entry entry);

#endif
