/* SPDX-License-Identifier: MIT
 *
 * Pairs of small programs in assembly: the bad one breaks one rule of the emulator's checks and must be reported, in
 * the right words; its good neighbour keeps it just so and must not be. All programs of an architecture are assembled
 * by one call of llvm-mc and run by the emulator's own scheduler, without HIP and code objects.
 *
 * Each program starts with
 *   s[0:1] its arguments, s[2:3] `data`: 64 KiB that the host wrote, s[4:5] `fresh`: 4 KiB that nobody wrote,
 *   s[6:7] `freed`: 4 KiB that were freed, s8 the workgroup; v0 the work-item
 * and is ended by s_endpgm. WAVE: the wave's size; WSHIFT: its logarithm; GFX: 0x90a, 0x942, 0x1100.
 * Macros for what differs between the architectures: see test_emu_rules.c. */
#ifndef RFG_TESTS_EMU_RULES_H
#define RFG_TESTS_EMU_RULES_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    P90A = 1,
    P942 = 2,
    P11 = 4,
    P11W64 = 8,
    P12 = 16,
    P950 = 32,
    P94 = P942 | P950,
    P9 = P90A | P94,
    PALL = P9 | P11,
    P_ARCHS = 6
};

struct pair {
    int archs;
    const char *rule;         /* what it is about, for counting and for messages: pairs may share one */
    const char *check, *says; /* of the bad one's report; says NULL: whatever */
    const char *bad, *good;   /* NULL: there is none */
    const char *groups;       /* RFG_EMU_CHECKS; NULL: "usual" */
    int waves, workgroups;    /* 0: one */
    int lds;                  /* bytes; 0: 1024 */
    bool wgp;                 /* gfx11: a workgroup over two CUs */
};

struct pairs {
    int arch; /* index of its bit above */
    struct pair *pair;
    int n, room;
};

/* Adds a copy of the pair, if it is for this architecture; its strings must stay. */
void pair_add(struct pairs *p, const struct pair *pair);
/* As printf; stays as long as the pairs do. */
__attribute__((format(printf, 1, 2))) const char *text(const char *fmt, ...);

/* The families, each of them one test case. */
void pairs_hazards(struct pairs *p);
void pairs_waits(struct pairs *p);
void pairs_lds(struct pairs *p);
void pairs_races(struct pairs *p);
void pairs_registers(struct pairs *p);
void pairs_access(struct pairs *p);
void pairs_nan(struct pairs *p);
void pairs_gfx12(struct pairs *p);

#endif
