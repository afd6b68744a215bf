/* SPDX-License-Identifier: MIT
 *
 * Between simulate.c, memory.c and estimate.c. */
#ifndef RFG_EMU_TIME_SIMULATE_H
#define RFG_EMU_TIME_SIMULATE_H

#include "time.h"

#define EMU_FINE 256 /* parts of a cycle, in which bandwidths are counted */

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* The memory of an XCD's CUs. */
struct emu_time_memory;

struct emu_time_memory_shape {
    const struct emu_time_params *p;
    const struct emu_time_trace *t;
    double mhz; /* the shader's clock: what is given in ns and GB/s depends on it */
    int units;  /* CUs, each with an L1 */
    bool cold;  /* inputs are in memory, not in the last cache */
};

/* NULL: no memory. */
struct emu_time_memory *emu_time_memory_create(const struct emu_time_memory_shape *s);
void emu_time_memory_free(struct emu_time_memory *m);

/* One instruction's access, by a CU, at that cycle: when its data are there (loads, atomics), or when it is known to be
 * done (stores). *taken: until when it keeps the CU's address unit. Calls come in about the order of their times. */
uint64_t emu_time_load(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                       uint64_t *taken);
uint64_t emu_time_store(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                        uint64_t *taken);
uint64_t emu_time_atomic(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                         uint64_t *taken);
/* Through the scalar cache, which two CUs share. */
uint64_t emu_time_scalar(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a);
/* When a CU's next address can be taken. */
uint64_t emu_time_address_free(const struct emu_time_memory *m, int unit);
/* When all that was written is out of the caches. */
uint64_t emu_time_flush(const struct emu_time_memory *m);

struct emu_time_traffic {
    double l1_cycles;                                      /* of all CUs: that their L1s moved data */
    double l2_bytes, fabric_bytes, hbm_bytes, write_bytes; /* of the XCD; hbm: its share */
    double fabric_cycles, hbm_cycles;                      /* that its share was busy */
};
void emu_time_traffic(const struct emu_time_memory *m, struct emu_time_traffic *out);

/* ---- simulate.c -------------------------------------------------------------------------------------------------- */

struct emu_time_run_shape {
    const struct emu_time_trace *t;
    const struct emu_time_params *p;
    double mhz;
    bool cold;
    size_t groups;                      /* the first so many of the trace's */
    struct emu_time_timeline *timeline; /* NULL: none */
    uint64_t *hot;                      /* NULL: none; [t->n_inst]: wave-cycles before and in an instruction */
};
struct emu_time_outcome {
    uint64_t cycles;
    uint64_t instructions;
    uint64_t matrix_cycles, lds_cycles; /* of all CUs, busy */
    uint64_t stall[EMU_STALLS], life;   /* wave-cycles */
    struct emu_time_traffic traffic;
};
/* False: no memory. */
bool emu_time_simulate(const struct emu_time_run_shape *s, struct emu_time_outcome *out);

#endif
