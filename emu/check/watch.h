/* SPDX-License-Identifier: MIT
 *
 * Observers of a launch: the checks (check_*.c) and the counters (counters.c). watch.c passes them the hooks of run/.
 *
 * RFG_EMU_CHECKS says which checks run: names of groups, comma-separated; "+nan" for the usual ones and that one; "0"
 * or "none" for only those of every memory access (bounds, alignment). */
#ifndef RFG_EMU_WATCH_H
#define RFG_EMU_WATCH_H

#include "effects.h"
#include "emu/run/front.h"

enum emu_check_group {
    EMU_CHECK_REGISTERS = 1, /* what nothing wrote reaches a store, an address or a branch: registers, LDS and memory */
    EMU_CHECK_WAITS = 2,     /* registers that a load or a store still has under way */
    EMU_CHECK_LDS = 4,       /* races between a workgroup's waves */
    EMU_CHECK_RACES = 8,     /* races in global memory */
    EMU_CHECK_HAZARDS = 16,  /* instructions too close to each other */
    EMU_CHECK_BARRIERS = 32, /* waves that part at barriers */
    EMU_CHECK_NAN = 64,      /* NaN out of none: only if asked for */
    EMU_CHECK_STRICT = 128,  /* hazards of which AMD's own kernels take no notice: only if asked for */
    EMU_CHECK_NOTES = 256,   /* what is right but may not be meant: only if asked for */
    EMU_CHECK_STREAMS = 512, /* races between streams (emu/hip): only if asked for */
    EMU_CHECK_USUAL = 63,
};
/* RFG_EMU_CHECKS, read at each launch. An unknown name is a warning, and the usual checks run. */
unsigned emu_checks_wanted(void);

struct emu_regs;           /* check_registers.c: of a wave */
struct emu_scratch_shadow; /* check_memory.c: of a wave */
struct emu_hazards;        /* check_hazards.c: of a wave */
struct emu_nans;           /* check_nan.c: of a wave */
struct emu_clocks;         /* check_waves.c: of a wave */
struct emu_races;          /* check_races.c: of a launch */

/* Of a wave; kept by its place from one workgroup to the next. A member is NULL if its group isn't wanted. */
struct emu_checks {
    unsigned groups;
    uint32_t barriers;                /* that it took part in */
    const struct emu_inst *current;   /* the instruction as the program has it */
    const struct emu_effect *effects; /* of the program: index by instruction */
    struct emu_regs *regs;
    struct emu_scratch_shadow *scratch; /* NULL: the kernel has none */
    struct emu_hazards *hazards;
    struct emu_nans *nans;
    struct emu_clocks *clocks;
};

/* Of a launch. */
struct emu_launch_watch {
    unsigned groups;
    const struct emu_effect *effects;
    struct emu_races *races;
    struct emu_count_launch *counts; /* counters.c: NULL: nobody counts */
};

/* A wave's memory operations by counter: how many left, and up to which one they are known to have returned. */
struct emu_progress {
    uint32_t vm_issued, vm_done, vs_issued, vs_done, lgkm_issued, lgkm_done;
    uint32_t km_issued, km_done; /* gfx12: scalar loads, apart from LDS */
};

/* check_registers.c */
struct emu_regs *emu_regs_create(void); /* NULL: no memory */
void emu_regs_destroy(struct emu_regs *r);
void emu_regs_begin(struct emu_wave *w);
void emu_regs_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);
const struct emu_progress *emu_regs_progress(const struct emu_wave *w);
/* These lanes of the register got bytes by `load` that nothing wrote. known: bits of each lane; NULL: none. */
enum emu_origin { EMU_FROM_MEMORY, EMU_FROM_LDS, EMU_FROM_SCRATCH };
void emu_regs_undefined(struct emu_wave *w, unsigned reg, uint64_t lanes, const uint32_t *known,
                        const struct emu_inst *load, enum emu_origin origin);
/* Lanes of the register that were written, all bits of them; the bits of one lane. */
uint64_t emu_regs_defined(const struct emu_wave *w, unsigned reg);
uint32_t emu_regs_bits(const struct emu_wave *w, unsigned reg, int lane);
/* The initialised bytes of a word that a lane stores, one bit per byte. */
unsigned emu_regs_bytes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, unsigned word,
                        int lane);
/* What a lane stores: a->bytes of them. */
void emu_stored_bytes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int lane,
                      uint8_t *bytes);
/* Checks that the registers of a store to memory are initialised. Returns the lanes that copy uninitialised bytes. */
uint64_t emu_regs_stored(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a);

/* check_lds.c */
struct emu_lds_shadow *emu_lds_create(uint32_t bytes, int waves); /* NULL: no memory */
void emu_lds_destroy(struct emu_lds_shadow *s);
void emu_lds_begin(struct emu_workgroup *wg);
void emu_lds_wave_end(struct emu_wave *w);
void emu_lds_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a);
void emu_lds_barrier(struct emu_workgroup *wg);

/* check_memory.c */
void emu_memory_begin(struct emu_block *b);
void emu_memory_end(struct emu_block *b);
/* Only some bits of a word that these lanes loaded are initialised. */
uint32_t emu_bits_of_bytes(unsigned bytes);
void emu_regs_loaded(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, unsigned word,
                     uint64_t lanes, uint32_t *bits, enum emu_origin origin);
/* The same of a transposing load: known[word][lane] as it was loaded, ones where it was written. */
void emu_regs_transposed(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                         uint32_t (*known)[64], enum emu_origin origin);
void emu_memory_host_write(struct emu_block *b, uint64_t address, size_t size);
void emu_memory_trust(const struct emu_memory *m); /* all of it counts as written */
/* copied: of a store, lanes some bytes of which nothing wrote: memory has the mark then. */
void emu_memory_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b, uint64_t copied);
struct emu_scratch_shadow *emu_scratch_create(size_t bytes); /* of a wave; NULL: no memory */
void emu_scratch_begin(struct emu_scratch_shadow *s);
void emu_scratch_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a);
struct emu_pages **emu_memory_pages(const struct emu_block *b); /* NULL: isn't watched */

/* check_races.c */
struct emu_races *emu_races_create(struct emu_launch *l);
void emu_races_destroy(struct emu_races *r);
void emu_races_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                      const struct emu_block *b);
void emu_races_wave_end(struct emu_wave *w);
/* check_waves.c */
struct emu_clocks *emu_clocks_create(void);
void emu_clocks_destroy(struct emu_clocks *c);
void emu_clocks_begin(struct emu_wave *w);
void emu_clocks_before(struct emu_wave *w, const struct emu_inst *i);
void emu_clocks_barrier(struct emu_workgroup *wg);

/* check_hazards.c */
struct emu_hazards *emu_hazards_create(void);
void emu_hazards_begin(struct emu_wave *w);
void emu_hazards_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);

/* check_nan.c */
struct emu_nans *emu_nans_create(void);
void emu_nans_begin(struct emu_wave *w);
void emu_nans_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);
void emu_nans_after(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);

/* counters.c: of a launch and of its waves, for the sums and for events */
/* A loop that waits for others: it loads from where it loaded before (LDS: if asked for), or does atomics for their
 * results, and neither stores nor computes with matrices. */
bool emu_only_waits(const struct emu_program *p, const struct emu_effect *effects, int from, int to, bool lds);
bool emu_counts_wanted(bool *one_thread);
struct emu_count_launch *emu_counts_begin(const struct emu_launch *l, const struct emu_effect *effects);
/* The sink's, for emu_launch.skips. */
bool (*emu_counts_skips(const struct emu_count_launch *c))(const struct emu_launch *l, uint64_t workgroup);
void emu_counts_end(struct emu_count_launch *c, const struct emu_launch *l);
struct emu_counts *emu_counts_create(struct emu_count_launch *c); /* NULL: no memory */
void emu_counts_destroy(struct emu_counts *c);                    /* adds what it counted to its launch's */
void emu_counts_wave(struct emu_wave *w, bool begins);
void emu_counts_before(struct emu_wave *w, const struct emu_inst *i);
void emu_counts_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b);
void emu_counts_barrier(struct emu_count_launch *c, const struct emu_workgroup *wg);

/* Installs all of it; before the first launch. */
void emu_watch(void);

#endif
