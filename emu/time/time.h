/* SPDX-License-Identifier: MIT
 *
 * A model of time on top of the emulator: microseconds of a launch on the GPU that is emulated, from what its waves
 * executed. docs/perf/amd_time.md says what its answers are worth.
 *
 *   trace.c      a sink of the emulator's events writes down what the waves of one XCD executed
 *   program.c    what an instruction is to the model
 *   simulate.c   replays the waves on the CUs of that XCD
 *   memory.c     L1, L2, and the share of the XCD in what is behind them
 *   estimate.c   rounds of workgroups, the clock under load, the launch's cost
 *   params.def   every number
 *
 * Times within are whole cycles of the shader's clock, and 256ths of them for bandwidths: the same bits every run. */
#ifndef RFG_EMU_TIME_H
#define RFG_EMU_TIME_H

#include <stdio.h>

#include "emu/run/front.h"

/* Of the whole model. Raise it with a change that changes answers (test_emu_time has one of them). */
#define EMU_TIME_VERSION 2
/* Nine tenths of AITER's published rows that no fit saw were predicted so well (docs/perf/amd_time.md); of the GPUs that
 * they are of. */
#define EMU_TIME_ERROR 0.15
static inline bool emu_time_is_judged(int gfx)
{
    return gfx == 0x942 || gfx == 0x950;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

struct emu_time_params {
#define P(name, unit, gfx90a, gfx942, mi308x, gfx950, gfx1100, gfx1201, source, error) double name;
#include "params.def"
#undef P
};
/* Those of an architecture (emu_arch.gfx) and of its product with so many CUs. */
void emu_time_defaults(int gfx, int cu_count, struct emu_time_params *p);
/* "name=value". False: error names what is wrong. */
bool emu_time_set(struct emu_time_params *p, const char *text, char *error, size_t error_size);
/* The table: name, value, unit, source, error; one row a line. */
void emu_time_print_params(FILE *f, const struct emu_time_params *p);

/* ---- traces ------------------------------------------------------------------------------------------------------ */

enum emu_time_class {
    EMU_TIME_VALU,
    EMU_TIME_TRANS,
    EMU_TIME_MATRIX,
    EMU_TIME_SALU,
    EMU_TIME_BRANCH,
    EMU_TIME_WAIT, /* for counters */
    EMU_TIME_BARRIER,
    EMU_TIME_NOP, /* and s_sleep */
    EMU_TIME_LDS,
    EMU_TIME_LOAD,
    EMU_TIME_STORE,
    EMU_TIME_ATOMIC,
    EMU_TIME_SCALAR, /* loads */
    EMU_TIME_OTHER,  /* issues, and nothing else */
    EMU_TIME_CLASSES
};
extern const char *const emu_time_class_names[EMU_TIME_CLASSES];

/* An instruction of the program. */
struct emu_time_inst {
    uint8_t cls;     /* enum emu_time_class */
    uint8_t flat;    /* counts on lgkmcnt too */
    uint8_t returns; /* an atomic */
    uint8_t n_reads, n_writes;
    uint16_t cycles;  /* matrix core: busy; NOP: wait states, or 16 for each 64 cycles of s_sleep */
    uint32_t wait;    /* emu_inst.wait */
    uint32_t address; /* of the code, in bytes */
    struct emu_time_range {
        uint16_t reg;
        uint8_t words;
        uint8_t is_c; /* a matrix instruction's sum */
    } read[7], write[3];
};

/* Instructions executed one after the other. */
struct emu_time_run {
    uint32_t first, count;
};
/* What one memory instruction touched; a FLAT instruction or a load to LDS has the sum of its parts. */
struct emu_time_access {
    uint8_t lds_cycles; /* at the LDS' whole bandwidth, conflicts included */
    uint8_t lines64;    /* 64-byte lines, at most 255 */
    uint16_t n;         /* in emu_time_trace.line */
    uint32_t first;
};
struct emu_time_path {
    uint32_t first, n; /* runs */
    uint64_t hash;
};
struct emu_time_wave {
    uint32_t path;
    uint32_t n_accesses;
    size_t access; /* the first */
};
struct emu_time_group {
    uint64_t number;
    size_t wave; /* the first */
};
/* An allocation, in lines of 128 bytes. share: how many XCDs' misses one fetch from memory serves. */
struct emu_time_block {
    uint64_t lo, hi;
    double share;
};

/* What one XCD's waves of a launch executed. line: first line << 8 | number of lines, of 128 bytes. */
struct emu_time_trace {
    char kernel[256];
    int gfx, cu_count, xcds, xcd, simds, wave_size; /* xcd: the one whose waves these are */
    int waves;                                      /* of a workgroup */
    int groups_a_unit, units;                       /* workgroups that a CU (or WGP) holds; the XCD's */
    uint64_t n_workgroups;                          /* of the launch */
    uint64_t on_xcd;                                /* ... of this XCD; the groups are the first of them */
    uint64_t unique;                                /* lines that the whole launch touches: an estimate */
    struct emu_time_inst *inst;
    struct emu_time_run *run;
    struct emu_time_path *path;
    struct emu_time_wave *wave;
    struct emu_time_group *group;
    struct emu_time_access *access;
    uint64_t *line;
    struct emu_time_block *block;
    size_t n_inst, n_runs, n_paths, n_waves, n_groups, n_accesses, n_lines, n_blocks;
};
void emu_time_trace_free(struct emu_time_trace *t);
/* The block that a line is in; n_blocks: none. */
size_t emu_time_block_of(const struct emu_time_trace *t, uint64_t line);
/* A file of this host's layout, for refits. A damaged one is refused; read none that others made: indices aren't
 * checked. False, NULL: errno says why (EINVAL: not such a file, or damaged). */
bool emu_time_trace_write(const struct emu_time_trace *t, FILE *f);
struct emu_time_trace *emu_time_trace_read(FILE *f);

/* One instruction of a program (program.c). */
struct emu_effect;
void emu_time_describe(struct emu_time_inst *out, const struct emu_program *p, const struct emu_inst *i,
                       const struct emu_effect *e);

/* From now on each launch is traced, in one thread. Its workgroups that aren't needed are not run, and its matrix
 * instructions compute nothing: its results are not right. done() gets the trace, which is then its own. rounds: of
 * workgroups that fill the device, at least 2; a launch whose workgroups may wait for each other runs whole. */
void emu_time_record(int rounds, void (*done)(void *to, struct emu_time_trace *t), void *to);
void emu_time_record_end(void);

/* ---- times ------------------------------------------------------------------------------------------------------- */

/* Where inputs are before a launch. */
enum emu_time_inputs {
    EMU_TIME_ROTATED, /* 101 copies, as AITER's benchmarks: in the last cache if they fit there, else in memory */
    EMU_TIME_COLD,
    EMU_TIME_WARM /* in the last cache */
};

struct emu_time_result {
    double us;
    double cycles;    /* of the XCD's waves, at clock_mhz */
    double clock_mhz; /* what the load leaves of it */
    double launch_us;
    bool cold;          /* inputs came from memory */
    double matrix_busy; /* shares of the cycles: the matrix cores' */
    double lds_busy, l1_busy, mall_busy, hbm_busy;
    double bytes_l2, bytes_fabric, bytes_hbm; /* of this XCD: asked of the L2, of what is behind, of memory */
    uint64_t simulated;                       /* wave-instructions */
    double limit[8]; /* wave-cycles by what a wave waited for: enum emu_time_stall, over all wave-cycles */
};
enum emu_time_stall {
    EMU_STALL_NONE, /* issues */
    EMU_STALL_OPERAND,
    EMU_STALL_PIPE, /* SIMD or matrix core busy */
    EMU_STALL_VMEM,
    EMU_STALL_LDS, /* and scalar loads */
    EMU_STALL_BARRIER,
    EMU_STALL_FETCH,
    EMU_STALLS
};
extern const char *const emu_time_stall_names[EMU_STALLS];

/* Segments of waves' lives, for a timeline. */
struct emu_time_segment {
    uint32_t unit, simd, wave; /* wave: a number of its own */
    uint64_t from, to;         /* cycles */
    const char *what;
};
struct emu_time_timeline {
    struct emu_time_segment *segment;
    size_t n, capacity;
    uint32_t units; /* of the first so many */
    uint64_t *hot;  /* [trace's n_inst]: wave-cycles that an instruction waited and issued */
};

/* False: no memory. timeline NULL: none. */
bool emu_time_estimate(const struct emu_time_trace *t, const struct emu_time_params *p, enum emu_time_inputs inputs,
                       struct emu_time_timeline *timeline, struct emu_time_result *out);
void emu_time_timeline_write(const struct emu_time_timeline *tl, double mhz, FILE *f);

#endif
