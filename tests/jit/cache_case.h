/* SPDX-License-Identifier: MIT
 *
 * A code cache to test, with a compiler that counts how often it is called, across processes too. */
#ifndef RFG_TESTS_CACHE_CASE_H
#define RFG_TESTS_CACHE_CASE_H

#include "dispatch/jit/jit_internal.h"

/* A temporary directory and a cache's in it, <root>/cache (not made); what the last warnings_of() saw. */
extern char *root, dir[512], *warned;

/* The compiler: of targets that begin with "test", and asked first. Of sources with "slow" in them it takes 0.1 s,
 * "long" 4 s, with "bad" it fails, with "forever" it never ends while cache_hang is set. */
extern const struct rfg_jit_provider *const cache_provider;
extern const char *cache_version, *cache_options[];
extern bool cache_hang;
size_t compiles(void); /* so far, in all processes */

/* Check fixtures. */
void cache_setup(void);
void cache_teardown(void);

struct rfg_jit_request request(const char *source); /* of target test1 */
/* The code object's content is compared. */
rfg_status get(struct rfg_cache *c, const char *source);
/* In a fresh cache over the same directory; returns its statistics. */
struct rfg_cache_stats get_fresh(const char *source);
char *file_of(const char *source); /* malloc'ed */

/* Runs fn with stderr in a file; how many warnings it printed that begin with prefix. */
int warnings_of(void (*fn)(void), const char *prefix);

#endif
