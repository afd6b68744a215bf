/* SPDX-License-Identifier: MIT
 *
 * Internals of run/: device memory, launches, reports. For emu/ and its tests only. */
#ifndef RFG_EMU_FRONT_H
#define RFG_EMU_FRONT_H

#include <pthread.h>
#include <stdatomic.h>

#include "emu/code/code.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define EMU_RED_ZONE 256 /* bytes, at least, before and after each allocation */

enum emu_block_kind { EMU_BLOCK_DEVICE, EMU_BLOCK_CODE, EMU_BLOCK_KERNARG, EMU_BLOCK_SCRATCH };

/* A known range of addresses: an allocation, a segment of a code object, a launch's arguments or scratch. */
struct emu_block {
    uint64_t lo, hi; /* the bytes that may be touched */
    uint8_t kind;    /* enum emu_block_kind */
    bool writable, freed;
    bool host;           /* hipHostMalloc()'s or hipHostRegister()'s */
    uint64_t number;     /* the device's n-th; for reports */
    const char *label;   /* kernel or segment, NULL: none; for reports */
    char argument[80];   /* of the last launch, that pointed into it; for reports: "argument 2 'out'" */
    uint8_t *mapping;    /* what the allocator obtained, red zones included; NULL: someone else's */
    size_t mapping_size; /* of a free that is remembered: address space only, where it is whole pages */
    void *shadow;        /* the checks' */
};

struct emu_memory {
    struct emu_block **block; /* sorted by lo; never overlapping */
    int n, capacity;
    uint64_t numbers;
    size_t allocated, limit;  /* bytes of live device allocations */
    struct emu_block **freed; /* quarantine, oldest first */
    int n_freed;
    size_t freed_bytes;
};

/* Device memory for `size` > 0 bytes, 256-byte aligned, filled with 0xFF (hardware gives what was there; this makes
 * NaN of it). NULL: no memory. */
struct emu_block *emu_memory_alloc(struct emu_memory *m, size_t size);
/* Quarantines. False if p isn't the start of a live allocation: *freed says whether it once was. */
bool emu_memory_free(struct emu_memory *m, const void *p, bool *freed);
/* Makes memory that someone else owns known, and unknown again. NULL: no memory. */
struct emu_block *emu_memory_add(struct emu_memory *m, enum emu_block_kind kind, const void *p, size_t size,
                                 bool writable, const char *label);
void emu_memory_remove(struct emu_memory *m, struct emu_block *b);
/* The block with the greatest lo <= address; NULL: none. The address may lie behind its end. */
struct emu_block *emu_memory_find(const struct emu_memory *m, uint64_t address);
/* Whether the address is the device's: valid, in a red zone, or freed. Otherwise it is the host's. */
bool emu_memory_owns(const struct emu_memory *m, const void *p);
/* Whether [p, p + size) is inside one live block. If not, why says what is there. */
bool emu_memory_check(const struct emu_memory *m, const void *p, size_t size, bool write, char *why, size_t why_size);
/* "4 bytes past the end of allocation 7 (4096 bytes at 0x7f...)" */
void emu_memory_describe(const struct emu_memory *m, uint64_t address, char *buf, size_t size);
/* Which allocations a launch's arguments point into. */
void emu_memory_arguments(struct emu_memory *m, const struct emu_kernel *k, const uint8_t *kernarg);
void emu_memory_destroy(struct emu_memory *m);

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Seams for checks and counters: set once, before the first launch. A NULL member is not called. Callbacks come from
 * many threads at once, those of one workgroup from one at a time. */
struct emu_launch_watch;
struct emu_hooks {
    void (*launch_begin)(struct emu_launch *l);
    void (*launch_end)(struct emu_launch *l);
    void (*group_begin)(struct emu_launch *l, struct emu_workgroup *wg); /* before its waves */
    void (*wave_begin)(struct emu_wave *w);                              /* registers are set: may set w->watch */
    /* The group's place goes away; until then the next workgroup finds its shadow and its waves' checks and counts. */
    void (*group_free)(struct emu_workgroup *wg);
    void (*wave_end)(struct emu_wave *w);
    void (*barrier)(struct emu_workgroup *wg); /* every wave that is left has arrived */
    /* Of waves with EMU_WATCH_ACCESS, after the front's own checks; a->lanes are those that go on. b: of the first lane
     * of a global access, else NULL. Returns the lanes that may really go on. */
    uint64_t (*access)(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b);
    void (*block_begin)(struct emu_block *b); /* memory became known; may set b->shadow */
    void (*block_end)(struct emu_block *b);
    void (*host_write)(struct emu_block *b, uint64_t address, size_t size); /* memcpy, memset */
};
extern const struct emu_hooks *emu_hooks; /* never NULL */

/* hsa_kernel_dispatch_packet_t */
struct emu_packet {
    uint16_t header, setup, workgroup_size[3], reserved0;
    uint32_t grid_size[3], private_segment_size, group_segment_size;
    uint64_t kernel_object, kernarg_address, reserved1, completion_signal;
};

/* Compilers widen loads of arguments: the segment is readable to the end of its last 64 bytes, as the hardware's. */
#define EMU_KERNARG_SIZE(bytes) (((size_t)(bytes) + 63) & ~(size_t)63)

#define EMU_MAX_RANKS 8

struct emu_launch {
    const struct emu_arch *arch;
    int cu_count;
    struct emu_memory *memory;
    const struct emu_code *code;
    const struct emu_kernel *kernel;
    const struct emu_program *prog;
    uint32_t grid[3], block[3]; /* workgroups; work-items of one */
    uint32_t dynamic_lds;
    uint8_t *kernarg; /* EMU_KERNARG_SIZE(kernel->kernarg_bytes), 64-byte aligned, hidden arguments filled */
    /* A joint launch: the same kernel and grid on several devices at once, each with arguments of its own. Workgroup
     * `number` is rank number % ranks'. memory has all devices' blocks. ranks 0: an ordinary one. */
    int ranks;
    uint8_t *const *kernargs;
    /* The rest is the scheduler's. */
    uint32_t lds_bytes;
    int waves;             /* of a workgroup */
    int xcds;              /* workgroup w runs on XCD w % xcds */
    int resident;          /* workgroups that the device holds at a time */
    uint64_t n_workgroups; /* of all ranks */
    struct emu_packet *packet;
    uint8_t *queue;   /* an amd_queue_t: zeroes but for the apertures */
    uint8_t *scratch; /* for resident workgroups */
    size_t scratch_per_wave;
    _Atomic bool stop;             /* a fault: nobody goes on */
    _Atomic(const char *) why;     /* the check that stopped it */
    uint64_t executed;             /* wave-instructions */
    bool cooperative;              /* all workgroups are resident, and may wait for each other */
    struct emu_hostcall *hostcall; /* NULL: the kernel asks nothing of the host */
    struct emu_touched *touched;   /* run/touched.h; NULL: nobody asks what it touches */
    bool one_thread;               /* launch_begin() may ask for it */
    /* ... and for workgroups that are not to run; NULL: all are. */
    bool (*skips)(const struct emu_launch *l, uint64_t workgroup);
    struct emu_launch_watch *watch; /* the checks' and counters' */
};

/* Fills kernarg's explicit part from hipModuleLaunchKernel()'s params, or from a packed buffer; then the hidden one.
 * l: arch, kernel, grid, block, dynamic_lds, kernarg are set. */
void emu_kernarg_fill(struct emu_launch *l, void *const *params, const void *packed, size_t packed_size);

/* The limits of a CU's workgroups; several if they give the same number. */
enum emu_limit {
    EMU_LIMIT_WAVES = 1, /* the SIMDs' places for waves */
    EMU_LIMIT_VGPRS = 2, /* with AGPRs */
    EMU_LIMIT_SGPRS = 4, /* gfx9 */
    EMU_LIMIT_LDS = 8,
    EMU_LIMIT_BARRIERS = 16 /* each workgroup of several waves needs one */
};
struct emu_residency {
    int groups; /* workgroups that one CU (or WGP, if the kernel runs in that mode) holds; 0: not even one */
    int waves;  /* ... their waves */
    int simds;  /* that share these */
    bool wgp;
    unsigned limits; /* enum emu_limit */
};
void emu_residency(const struct emu_arch *arch, const struct emu_kernel *k, int threads, uint32_t lds_bytes,
                   struct emu_residency *r);
/* Workgroups of the kernel that one CU (or WGP) holds, times their number; 0: it doesn't fit. */
int emu_occupancy(const struct emu_arch *arch, const struct emu_kernel *k, int cu_count, int threads,
                  uint32_t lds_bytes);

enum emu_result { EMU_DONE, EMU_FAILED, EMU_NO_MEMORY };
/* Runs the whole grid. EMU_FAILED: a fatal report was made; l->why names its check. */
enum emu_result emu_launch_run(struct emu_launch *l);
/* Wave-instructions of all launches so far. */
uint64_t emu_executed(void);

/* RFG_EMU_THREADS, RFG_EMU_SCHEDULE, RFG_EMU_TURN, RFG_EMU_MAX_SPIN, RFG_EMU_MAX_INSTRUCTIONS, read at each launch.
 * turn: the most instructions that a wave executes before the next has its turn. */
struct emu_settings {
    int threads;
    bool shuffle;
    uint64_t seed, turn, max_spin, max_instructions;
};
void emu_settings_read(struct emu_settings *s);

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* "'ds_read_b32 v1, v2' at kernel+0x10 (kernel.hip:12)": of whom else a report tells. */
void emu_report_place(const struct emu_launch *l, const struct emu_inst *i, char *buf, size_t size);
/* Each distinct one (kernel, check, instruction) is printed once; all are counted. */
int emu_reports(const char *check);            /* how many since the start or the last clear; NULL: of all checks */
void emu_reports_last(char *buf, size_t size); /* the text of the latest that was printed; "" if none */
void emu_reports_clear(void);
bool emu_report_is_fatal(const char *check);
/* For findings outside of a wave (deadlock, the host's doing); l may be NULL. */
__attribute__((format(printf, 3, 4))) void emu_report_launch(struct emu_launch *l, const char *check, const char *fmt,
                                                             ...);

#endif
