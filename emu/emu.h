/* SPDX-License-Identifier: MIT
 *
 * The emulated AMD GPU: common declarations of its folders. Each folder includes only those above it:
 *   code/   code objects: elf.c, image.c (bundles), meta.c (kernels), lines.c (source lines)
 *   isa/    decode.c (machine code to struct emu_inst, once, before it runs), isa_*.c (what each instruction does)
 *   run/    memory.c (allocations, shadow), sched.c (workgroups, waves, threads), launch.c
 *   check/  check_*.c (what a sanitizer would say)
 *   count/  counters.c, events
 *   time/   microseconds from events
 *   hip/    the HIP table
 *   rocm/   libamdhip64 of several ROCm releases, made of it (tests only)
 *
 * Device addresses are host addresses. Memory operations take effect when they are issued; what the hardware leaves
 * pending until an s_waitcnt is bookkeeping of the checks, so a program that waits properly can't tell. */
#ifndef RFG_EMU_EMU_H
#define RFG_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- architectures ---------------------------------------------------------------------------------------------- */

struct emu_arch {
    const char *name; /* "gfx942": also LLVM's -mcpu */
    int gfx; /* what it runs as: 0x908, 0x90a, 0x942, 0x950, 0x1030, 0x1100, 0x1150, 0x1200; gfx940, 941 as 0x942 */
    int wave_size; /* default; kernels on gfx10+ may be wave64 by their descriptor */
    int lds_bytes, cu_count, simds, waves_per_simd;
    int vgprs_per_simd; /* of 64-lane (gfx9) or 32-lane (gfx10+) registers, for occupancy */
    int vgpr_granule;
    int xcds;                 /* chiplets with an L2 of their own: 8 on gfx942, else 1; see emu_xcds() */
    int l2_kib;               /* of one of them */
    bool unified_agprs;       /* gfx90a+: AGPRs are the upper part of the VGPR file */
    bool fnuz;                /* fp8 is e4m3fnuz/e5m2fnuz */
    int mach;                 /* EF_AMDGPU_MACH in an ELF's flags */
    bool packed_tid;          /* work-item ids are packed in v0 */
    bool architected_scratch; /* FLAT_SCRATCH is set by the hardware */
    bool emulated;            /* else it is only recognised */
};
const struct emu_arch *emu_arch_find(const char *name);
const struct emu_arch *emu_arch_of_mach(unsigned mach);
/* "gfx908, gfx90a, ...": those that are emulated. */
void emu_arch_names(char *buf, size_t size);
/* The arch whose products stand for it: gfx940, gfx941 and gfx11-generic were never sold. */
const char *emu_arch_sold(const struct emu_arch *arch);
/* The XCDs of a device with so many CUs: a whole GPU, another product, or a partition of it. */
int emu_xcds(const struct emu_arch *arch, int cu_count);

/* ---- operands --------------------------------------------------------------------------------------------------- */

/* One index space for registers. AGPRs are rows 256..511 of the vector file on every arch. */
enum {
    EMU_SGPR = 0, /* s0..s105; s[106:107] is vcc; ttmp0..15 at 108..123 */
    EMU_VCC = 106,
    EMU_TTMP = 108,
    EMU_M0 = 124, /* on every arch (gfx11 encodes it as 125; the text says m0) */
    EMU_NULL = 125,
    EMU_EXEC = 126, /* 126 lo, 127 hi */
    EMU_SCC = 128,  /* src_scc, src_vccz, src_execz */
    EMU_VCCZ = 129,
    EMU_EXECZ = 130,
    EMU_APERTURE = 131, /* src_shared_base, src_shared_limit, src_private_base, src_private_limit: 131..134 */
    EMU_CONST = 255,    /* the instruction's own constant: emu_inst.k[] of that operand */
    EMU_VGPR = 256,     /* v0..v255 */
    EMU_AGPR = 512,     /* a0..a255 */
    EMU_NONE = 0xffff,  /* operand is absent or "off" */
};

#define EMU_MAX_OPERANDS 6

enum emu_source_mod { EMU_NEG = 1, EMU_ABS = 2, EMU_SEXT = 4 };

/* What a source lane of row r is read from: see emu_mods.dpp. */
enum emu_dpp {
    EMU_DPP_NONE,
    EMU_DPP_QUAD_PERM,
    EMU_DPP_ROW_SHL,
    EMU_DPP_ROW_SHR,
    EMU_DPP_ROW_ROR,
    EMU_DPP_WAVE_SHL,
    EMU_DPP_WAVE_ROL,
    EMU_DPP_WAVE_SHR,
    EMU_DPP_WAVE_ROR,
    EMU_DPP_ROW_MIRROR,
    EMU_DPP_ROW_HALF_MIRROR,
    EMU_DPP_ROW_BCAST15,
    EMU_DPP_ROW_BCAST31,
    EMU_DPP_ROW_SHARE /* row_newbcast too */,
    EMU_DPP_ROW_XMASK,
    EMU_DPP_8
};

/* Per-instruction modifiers in one place; which apply depends on the op. */
struct emu_mods {
    uint8_t src[EMU_MAX_OPERANDS];             /* EMU_NEG, EMU_ABS, EMU_SEXT */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi; /* packed math, bit per source; op_sel bit 3: destination */
    uint8_t omod;                              /* 0, 1: *2, 2: *4, 3: /2 */
    bool clamp;
    uint8_t dpp;      /* enum emu_dpp, 0: none */
    uint16_t dpp_arg; /* quad_perm byte, shift count, lane */
    uint32_t dpp8;    /* 8 lanes of 3 bits */
    uint8_t row_mask, bank_mask;
    bool bound_ctrl, fi;
    bool sdwa;
    uint8_t sdwa_dst, sdwa_unused, sdwa_src[2]; /* byte_0..3 = 0..3, word_0/1 = 4/5, dword = 6 */
    uint8_t cbsz, abid, blgp;                   /* MFMA */
    uint8_t bitop3;                             /* its truth table */
    int32_t offset, offset1;                    /* memory, LDS */
    bool offen, idxen, addr64, lds, gds, tfe, d16_hi;
    bool glc, slc, dlc, nt, sc0, sc1; /* cache policy as the text says it; glc: th:TH_ATOMIC_RETURN too */
    uint8_t scope;                    /* gfx12: 0 CU, 1 SE, 2 DEV, 3 SYS */
};

struct emu_wave;
struct emu_inst;
typedef void (*emu_exec_fn)(struct emu_wave *w, const struct emu_inst *i);

/* Row of the instruction table: mnemonic without _e32/_e64/_dpp/_sdwa suffix. */
enum emu_class {
    EMU_SALU,
    EMU_SMEM,
    EMU_BRANCH,
    EMU_WAIT,
    EMU_MESSAGE,
    EMU_VALU,
    EMU_TRANS,
    EMU_MFMA,
    EMU_VMEM_LOAD,
    EMU_VMEM_STORE,
    EMU_VMEM_ATOMIC,
    EMU_FLAT_LOAD,
    EMU_FLAT_STORE,
    EMU_FLAT_ATOMIC,
    EMU_SCRATCH_LOAD,
    EMU_SCRATCH_STORE,
    EMU_LDS,
    EMU_LDS_ATOMIC,
    EMU_CROSS /* readlane, DPP-like, permute: reads other lanes */,
    EMU_CACHE /* buffer_inv, wbl2 */,
    EMU_CLASSES
};
struct emu_op {
    const char *name;
    emu_exec_fn fn; /* NULL: known but not implemented */
    /* The operands in the text's order, space separated: role and 32-bit words. d1 destination, s2 source of two words,
     * b1 both read and written, m lane mask (wave-size bits: 1 or 2 SGPRs) as destination, n the same as source,
     * i immediate. Generic checks and the decoder read nothing else. "d4 s1 s2" = global_load_dwordx4. A trailing '?'
     * may be absent. Implicit registers follow after '|': V vcc, S scc, E exec, M m0; upper case read, lower written.
     * 0 words: as many as the text names. A letter after the words is the operand's type (enum emu_type), which is what
     * constants are widened to and how neg and abs work: f f32, h f16, w 16-bit integer, y packed bf16, d f64, j signed
     * 64-bit, p packed f16 or i16 (2 words: f32). Several rows may share a name: the one whose number of operands fits
     * the text is taken. */
    const char *sig;
    uint8_t cls;   /* enum emu_class */
    uint32_t info; /* of the family's own meaning: element size, MFMA shape index... */
};

enum emu_type { EMU_B32, EMU_F32, EMU_F16, EMU_I16, EMU_BF16, EMU_B64, EMU_F64, EMU_I64, EMU_PK };

/* emu_inst.slow: bit k: source operand k is not simply a row of the vector file (a scalar, a constant, modified). */
enum { EMU_SLOW_KEEP_HI = 0x40 /* a 16-bit result leaves the upper half alone */, EMU_SLOW_DST = 0x80 };

struct emu_inst {
    emu_exec_fn fn; /* == op->fn, or a specialised one the decoder chose */
    const struct emu_op *op;
    uint32_t address;                                        /* byte offset in the code object's text */
    uint8_t size, n;                                         /* bytes; operands */
    uint16_t reg[EMU_MAX_OPERANDS];                          /* index space above */
    uint8_t words[EMU_MAX_OPERANDS], role[EMU_MAX_OPERANDS]; /* from sig; role: 'd', 's', 'b', 'm', 'n', 'i' */
    uint64_t k[EMU_MAX_OPERANDS];   /* constants: already widened to the operand's type (inline floats too) */
    const struct emu_mods *mods;    /* never NULL; shared all-zero one if there are none */
    int32_t target;                 /* branches: index of the target instruction, -1: not in this code */
    uint32_t wait;                  /* s_waitcnt: see EMU_WAIT_* ; s_sleep, s_barrier arguments in k[0] */
    uint8_t type[EMU_MAX_OPERANDS]; /* enum emu_type */
    uint8_t slow;                   /* see EMU_SLOW_* */
    uint8_t src0;                   /* operand that is the instruction's source 0: DPP and SDWA change it */
    uint16_t need_v, need_a;        /* rows that must exist: the highest named + 1 */
};
/* emu_inst.wait: a counter's limit + 1 in each byte, 0: not waited for. gfx12's loadcnt is VM, dscnt LGKM, storecnt VS;
 * kmcnt has a byte of its own, expcnt's (nothing that is emulated there counts by it). */
enum { EMU_WAIT_VM = 0, EMU_WAIT_LGKM = 8, EMU_WAIT_EXP = 16, EMU_WAIT_KM = 16, EMU_WAIT_VS = 24 };

/* A decoded .text: every instruction that is reached from the kernels' entries and from functions whose address is
 * taken or called; linear sweep of each symbol. */
struct emu_program {
    const struct emu_arch *arch;
    struct emu_inst *inst;
    int n;
    uint64_t base; /* host address of text byte 0: s_getpc, s_swappc use it */
    size_t size;
    int32_t *at; /* by text byte offset / 4: instruction index or -1 */
    void *pool;  /* the decoder's: what mods point into */
    int wave_size;
    struct emu_effect *effects; /* emu_effects(); NULL: not asked for yet */
    bool lds_parts;             /* ... it may store less than a word to LDS */
};

/* Decodes the whole text. False: error says the instruction, its address and bytes. An op without fn is an error
 * unless allow_unknown (coverage), which then leaves fn NULL. */
bool emu_decode(struct emu_program *prog, const struct emu_arch *arch, int wave_size, const void *text, size_t size,
                uint64_t base, bool allow_unknown, char *error, size_t error_size);
void emu_program_free(struct emu_program *prog);
/* The instruction as text (disassembled again), for reports. */
void emu_inst_text(const struct emu_program *prog, const struct emu_inst *i, char *buf, size_t size);

/* ---- execution -------------------------------------------------------------------------------------------------- */

enum emu_stop {              /* why emu_run() came back */
                EMU_RUNNING, /* the budget is used up */
                EMU_END,     /* s_endpgm */
                EMU_BARRIER, /* waits for the workgroup */
                EMU_YIELD,   /* s_sleep, s_nop in a spin: let others run */
                EMU_FAULT,   /* the launch is over; wave->fault says why */
                EMU_GRID,    /* waits for wave->grid_waves waves of the grid, itself among them */
};

struct emu_workgroup;
struct emu_launch;
struct emu_lds_shadow;
struct emu_checks; /* per-wave state of the checks; NULL when they are off */
struct emu_counts; /* ... of the counters */

enum emu_watch { EMU_WATCH_BEFORE = 1, EMU_WATCH_AFTER = 2, EMU_WATCH_ACCESS = 4 /* the hook: front.h */ };

struct emu_wave {
    const struct emu_inst *pc; /* next to execute */
    uint64_t exec;             /* lanes 0..wave_size-1 */
    uint32_t
        s[EMU_SCC]; /* by register index; s[EMU_EXEC] and [EMU_EXEC+1] are NOT used: see exec; vcc IS s[106..107] */
    bool scc;
    uint8_t stop; /* enum emu_stop */
    uint8_t wave_size;
    uint32_t mode;          /* MODE register: rounding and denormals in bits 0..7, DX10_CLAMP 8, IEEE 9, ... */
    int n_vgprs, n_agprs;   /* rows that exist */
    uint32_t (*v)[64];      /* rows 0..n_vgprs-1; lanes above wave_size unused */
    uint32_t (*a)[64];      /* AGPR rows */
    uint8_t *scratch;       /* wave's; lane l's byte b of dword-interleaved memory: front's emu_scratch() */
    uint32_t scratch_bytes; /* per lane */
    struct emu_workgroup *wg;
    struct emu_launch *launch;
    const struct emu_program *prog;
    struct emu_checks *checks;
    struct emu_counts *counts;
    uint8_t watch;                  /* enum emu_watch: what is called of emu_before(), emu_after(), hooks->access() */
    int index;                      /* wave in its workgroup */
    uint8_t init_sgprs, init_vgprs; /* how many the hardware set */
    uint64_t executed;              /* wave-instructions */
    uint64_t mem_lo, mem_hi;        /* the allocation last touched: the quick bounds test */
    uint64_t lds_stores;
    uint64_t stores; /* to global memory, counted by emu_access(): how the scheduler sees that things move */
    uint64_t trap_pc;
    uint32_t grid_waves, grid_turn; /* EMU_GRID: how many, and in which of the grid's barriers */
    bool vskip;                     /* s_setvskip: vector instructions do nothing */
    bool signalled;                 /* s_barrier_signal, whose s_barrier_wait hasn't come yet */
    uint8_t gpr_index;              /* s_set_gpr_idx_on: which operands M0 shifts; 0: off */
};

struct emu_workgroup {
    uint32_t id[3];
    uint64_t number; /* of the launch's workgroups, all ranks' of a joint one */
    int rank;        /* of a joint launch; else 0 */
    int n_waves, at_barrier, ended;
    uint8_t *lds;
    uint32_t lds_bytes;
    struct emu_wave *wave;         /* [n_waves] */
    int xcd;                       /* which L2 it is on */
    struct emu_lds_shadow *shadow; /* the checks' */
};

/* Runs a wave for at most budget instructions. */
enum emu_stop emu_run(struct emu_wave *w, int64_t budget);

/* Called before and after each instruction of a wave that is watched; after: not if it stopped the wave. Set once,
 * before any wave runs. */
extern void (*emu_before)(struct emu_wave *w, const struct emu_inst *i);
extern void (*emu_after)(struct emu_wave *w, const struct emu_inst *i);

/* The rows of the instruction table that this host runs ("avx512", "avx2", "portable"); RFG_EMU_HOST forces one. */
const struct emu_op *emu_op_find(const char *name);
const struct emu_op *emu_op_next(const struct emu_op *op); /* all of them; NULL first and last */
const char *emu_host(void);

/* Records a fault or a finding against the wave's current instruction; stops the launch if it is fatal. check: a string
 * that stays. */
__attribute__((format(printf, 5, 6))) void emu_report(struct emu_wave *w, const struct emu_inst *i, const char *check,
                                                      uint64_t lanes, const char *fmt, ...);

/* The same of what is right but may not be meant: neither counted nor a failure. */
__attribute__((format(printf, 5, 6))) void emu_note(struct emu_wave *w, const struct emu_inst *i, const char *what,
                                                    uint64_t lanes, const char *fmt, ...);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum emu_space { EMU_GLOBAL, EMU_LDS_SPACE, EMU_SCRATCH };
enum emu_access_kind { EMU_LOAD, EMU_STORE, EMU_ATOMIC };

/* One memory instruction, all lanes: the only way to memory. The handler fills it, emu_access() checks and counts it
 * and says which lanes may go on; then the handler moves the bytes at (uint8_t *)addr (global), wg->lds + addr (LDS),
 * or emu_scratch(w, lane, addr).
 * Workgroups run on several host threads: a global atomic must be a host atomic (sequentially consistent), and loads
 * and stores of global memory must be such that a spinning wave sees another's store: aligned words of up to 8 bytes
 * whole. LDS and scratch belong to one thread at a time. */
struct emu_access {
    uint8_t space, kind;
    uint8_t bytes;      /* of a lane, 1..16 */
    uint8_t align;      /* what the instruction demands */
    bool scalar;        /* SMEM: lane 0 only, bytes up to 64 */
    bool indirect;      /* its data go between memory and LDS, to no register */
    uint8_t transposed; /* 0, or a transposing load: bits of an element, EMU_TR_GFX12 added for gfx12's */
    uint16_t data;      /* the first register of what is loaded or stored; EMU_NONE: none */
    uint64_t lanes;
    uint64_t addr[64];
};
uint64_t emu_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a);
/* What the lanes of a transposing load get, of what each loaded: words rows, at most 4. */
enum { EMU_TR_GFX12 = 64 };
void emu_transpose(unsigned layout, int words, uint32_t (*rows)[64]);
uint8_t *emu_scratch(struct emu_wave *w, int lane, uint32_t offset);

/* FLAT apertures: 64 KiB-aligned fake ranges that never are host memory. */
#define EMU_SHARED_BASE  0x0001000000000000ull
#define EMU_PRIVATE_BASE 0x0002000000000000ull

#endif
