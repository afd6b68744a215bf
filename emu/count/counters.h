/* SPDX-License-Identifier: MIT
 *
 * Counters: sums over all launches between a begin and an end, independent of the schedule and the host's threads; and
 * the launched kernels. docs/emulator.md defines each number. */
#ifndef RFG_EMU_COUNTERS_H
#define RFG_EMU_COUNTERS_H

#include <jansson.h>
#include <stdio.h>

#include "emu/run/front.h"

#define EMU_MATRIX_ROWS 160 /* room for matrix_cycles.c's table */

/* Global memory by one kind of instruction: loads, stores, atomics of lanes, scalar loads. */
struct emu_traffic {
    uint64_t requests;            /* instructions with a lane on (FLAT: its global part) */
    uint64_t bytes;               /* that the lanes asked for */
    uint64_t lines64, lines128;   /* distinct lines of 64 and 128 bytes of each instruction, added up */
    uint64_t unique64, unique128; /* distinct lines of each launch, added up over launches */
};

/* Numbers only: sums are made member by member. */
struct emu_counters {
    uint64_t launches, workgroups, waves;
    uint64_t instructions, by_class[EMU_CLASSES]; /* wave-instructions */
    uint64_t dual_issued;                         /* pairs of them that gfx11 issues as one */
    uint64_t vector, active_lanes, vector_lanes;  /* VALU instructions; the lanes that were on, and that there were */
    uint64_t matrix, matrix_cycles;               /* MFMA and WMMA; the cycles that they keep a matrix core busy */
    uint64_t by_matrix[EMU_MATRIX_ROWS];          /* ... by row of the table: emu_matrix_name() */
    struct emu_traffic loads, stores, atomics, scalar;
    uint64_t unique64, unique128;  /* lines that any of these touched */
    uint64_t l2_asked, l2_fetched; /* lines of 128 bytes, with RFG_EMU_L2: l2.h */
    uint64_t scratch_load_bytes, scratch_store_bytes;
    uint64_t lds_requests, lds_load_bytes, lds_store_bytes, lds_atomic_bytes;
    uint64_t lds_ideal_cycles, lds_conflict_cycles; /* lds_banks.c */
    uint64_t waitcnts, barriers, sleeps;
    uint64_t spin_iterations; /* of loops that do nothing but load what others may write */
    uint64_t branches_taken;
};

/* One kernel, as it was launched: distinct by name, work-items and dynamic LDS. */
struct emu_kernel_use {
    char name[200];
    uint64_t launches, workgroups;
    int threads, waves, wave_size; /* of a workgroup */
    int vgprs, agprs, sgprs, spilled_vgprs, spilled_sgprs;
    uint32_t static_lds, dynamic_lds, scratch; /* bytes; scratch: of a work-item */
    struct emu_residency at;
};

/* NULL: begins to count what launches do, from zero. Else: ends it and gives the sums. */
void rfg_emu_count(struct emu_counters *sums);
/* The kernels of the last count that ended, in the order of their first launches; valid until the next begins. */
int rfg_emu_count_kernels(const struct emu_kernel_use **list);

/* "valu", "load"... */
const char *emu_class_name(enum emu_class cls);
/* matrix_cycles.c: rows of the table, -1: none; names without "v_", NULL: no such row. */
int emu_matrix_find(const char *op_name, int gfx);
int emu_matrix_row(const struct emu_arch *arch, const struct emu_inst *i);
const char *emu_matrix_name(int row);
unsigned emu_matrix_cycles(int row);

/* lds_banks.c: cycles that the LDS needs for one access, were there no conflicts, and those that conflicts add. */
void emu_lds_cycles(const struct emu_arch *arch, const struct emu_access *a, unsigned *ideal, unsigned *conflicts);

/* counters_print.c: all of the counters, as a JSON object (NULL: no memory) and as indented text. */
json_t *emu_counters_json(const struct emu_counters *n, const struct emu_kernel_use *kernels, int n_kernels);
void emu_counters_print(FILE *f, const struct emu_counters *n, const struct emu_kernel_use *kernels, int n_kernels);

#endif
