/* SPDX-License-Identifier: MIT
 *
 * The emulated AMD GPU, inside. Three parts meet here:
 *   front   hip_emu.c (the HIP table), memory.c (allocations), elf.c (code objects), launch.c (workgroups and waves)
 *   isa     decode.c (machine code -> struct emu_inst, once, before it runs), isa_*.c (what each instruction does)
 *   checks  check.c (what a sanitizer would say), counters
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
    const char *name;   /* "gfx942": also LLVM's -mcpu */
    int gfx;            /* 0x90a, 0x942, 0x1100 */
    int wave_size;      /* default; a gfx10+ kernel may be wave64 by its descriptor */
    int lds_bytes;      /* a workgroup's limit */
    int cu_count;       /* where a device's name doesn't say */
    int simds, waves;   /* of a CU; per SIMD */
    int vgprs, granule; /* of a SIMD, in rows of a wave; allocation granule */
    bool unified;       /* AGPRs are the upper part of a wave's VGPRs */
};
const struct emu_arch *emu_arch_find(const char *name, size_t len);

/* ---- decoded instructions --------------------------------------------------------------------------------------- */

/* One index space for registers. */
enum {
    EMU_VCC = 106, /* s0..s105 before it; vcc is s[106:107] */
    EMU_TTMP = 108,
    EMU_M0 = 124,
    EMU_NULL = 125,
    EMU_EXEC = 126,
    EMU_SCC = 128,
    EMU_VCCZ = 129,
    EMU_EXECZ = 130,
    EMU_SHARED_BASE_REG = 131, /* src_shared_base, _limit, src_private_base, _limit */
    EMU_CONST = 140,           /* the instruction's own constant: k[] of that operand */
    EMU_VGPR = 256,            /* v0..v255 */
    EMU_AGPR = 512,            /* a0..a255 */
    EMU_NONE = 0xffff,         /* absent, or "off" */
};

#define EMU_OPERANDS 6

enum { EMU_NEG = 1, EMU_ABS = 2, EMU_SEXT = 4 };

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
    EMU_DPP_ROW_NEWBCAST,
    EMU_DPP_ROW_SHARE,
    EMU_DPP_ROW_XMASK,
    EMU_DPP_8,
};

struct emu_mods {
    uint8_t src[EMU_OPERANDS]; /* EMU_NEG, EMU_ABS, EMU_SEXT, by operand */
    uint8_t op_sel, op_sel_hi; /* bit per source; op_sel_hi defaults to all ones */
    uint8_t neg_lo, neg_hi;    /* packed math, bit per source */
    uint8_t omod;              /* 1: *2, 2: *4, 3: /2 */
    bool clamp, sdwa, bound_ctrl, fi;
    uint8_t dpp;      /* enum emu_dpp */
    uint32_t dpp_arg; /* quad_perm as 4 x 2 bits, dpp8 as 8 x 3 bits, else a count or lane */
    uint8_t row_mask, bank_mask;
    uint8_t sel_dst, sel[2], sel_unused; /* SDWA: bytes 0..3, words 4, 5, dword 6; unused: pad, sext, preserve */
    uint8_t cbsz, abid, blgp;            /* MFMA */
    bool offen, idxen, lds, gds, ret;    /* ret: glc or sc0 */
    bool sc0, sc1, nt;
    int32_t offset, offset1;
};

struct emu_wave;
struct emu_inst;
typedef void (*emu_exec_fn)(struct emu_wave *w, const struct emu_inst *i);

enum emu_class {
    EMU_SALU,
    EMU_SMEM,
    EMU_BRANCH,
    EMU_SYNC, /* waits, barriers, messages, hints */
    EMU_VALU,
    EMU_MMA,
    EMU_LOAD,
    EMU_STORE,
    EMU_ATOMIC,
    EMU_LDS_OP,
    EMU_CACHE, /* write-back and invalidate */
    EMU_CLASSES
};

/* A row of the instruction table: the mnemonic without _e32, _e64, _dpp or _sdwa. */
struct emu_op {
    const char *name;
    emu_exec_fn fn;
    /* The operands in the order of LLVM's text: role and number of 32-bit words, as in "d4 s1 s2". d destination, s
     * source, b both, m lane mask written, n lane mask read, i immediate. '?': may be absent. */
    const char *sig;
    uint8_t cls;
    uint8_t type; /* of constants: 'u' 32-bit, 'h' half, 'd' double or 64-bit, 'p' packed halves */
    int16_t info; /* the handler's own */
};

struct emu_inst {
    emu_exec_fn fn;
    const struct emu_op *op;
    uint32_t address; /* byte offset in the text */
    uint8_t size, n;
    char role[EMU_OPERANDS];
    uint8_t words[EMU_OPERANDS];
    uint16_t reg[EMU_OPERANDS];
    uint64_t k[EMU_OPERANDS];
    int32_t target; /* branches: index of the instruction */
    /* s_waitcnt: how many may be left under way + 1; 0: not waited for */
    uint8_t wait_vm, wait_lgkm, wait_vs;
    /* How results hang on sources, for the checks: op_sel picks words; word by word; the low word on low words only;
     * on other lanes; on one of two. */
    bool on_scc, on_vcc, sets_scc; /* branches; comparisons */
    bool packed32, pk_mov, wordwise, low_first, cross, select;
    struct emu_mods m;
};

struct emu_program {
    const struct emu_arch *arch;
    int wave_size;
    struct emu_inst *inst; /* inst[n] is a sentinel that faults */
    int n;
    uint64_t base; /* host address of the text */
    size_t size;
    int32_t *at; /* by byte offset / 4: index, or -1 */
};

/* Decodes a text section. An instruction that can't be decoded or is not implemented is an error that names it, its
 * address and its bytes, unless unknown is given: then its text is handed over and decoding goes on. */
bool emu_decode(struct emu_program *p, const struct emu_arch *arch, int wave_size, const void *text, size_t size,
                uint64_t base, void (*unknown)(void *ctx, const char *text), void *ctx, char *error, size_t error_size);
void emu_program_free(struct emu_program *p);
/* One instruction as text, for reports. */
void emu_text_of(const struct emu_program *p, const struct emu_inst *i, char *buf, size_t size);
/* False: LLVM's disassembler isn't there; why says what was looked for. */
bool emu_llvm_ready(char *why, size_t size);

/* ---- execution -------------------------------------------------------------------------------------------------- */

enum emu_stop { EMU_RUNNING, EMU_END, EMU_BARRIER, EMU_YIELD, EMU_FAULT };

struct emu_workgroup;
struct emu_launch;
struct emu_checks;

struct emu_wave {
    const struct emu_inst *pc;
    uint64_t exec;
    uint32_t (*v)[64];  /* rows: 0..255 VGPRs, 256..511 AGPRs; only the kernel's own exist */
    uint64_t dpp_write; /* lanes that the instruction may write: set while its sources are read */
    uint32_t s[128];    /* EXEC is not here */
    bool scc, flush32, flush16;
    uint8_t stop, lanes;
    uint32_t mode;
    int n_vgprs, n_agprs;
    struct emu_workgroup *wg;
    struct emu_launch *launch;
    const struct emu_program *prog;
    struct emu_checks *checks;
    uint8_t *scratch;
    uint32_t scratch_bytes; /* of a lane */
    int index;
    uint64_t executed;
    uintptr_t mem_lo, mem_hi; /* the allocation last touched */
};

struct emu_workgroup {
    uint32_t id[3];
    int n_waves, waiting, ended;
    uint8_t *lds;
    uint32_t lds_bytes;
    struct emu_lds_shadow *shadow; /* of the checks; NULL if they are off */
    struct emu_wave *wave;
};

/* Runs a wave for at most budget instructions. */
enum emu_stop emu_run(struct emu_wave *w, int64_t budget);

/* A finding about the wave's instruction: "check" names the kind. Fatal ones end the launch. */
__attribute__((format(printf, 6, 7))) void emu_report(struct emu_wave *w, const struct emu_inst *i, const char *check,
                                                      bool fatal, uint64_t lanes, const char *fmt, ...);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum emu_kind { EMU_IS_LOAD, EMU_IS_STORE, EMU_IS_ATOMIC };

/* Lanes of `lanes` whose `bytes` at addr lie in an allocation; others are reported. */
uint64_t emu_global(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint64_t *addr,
                    uint64_t lanes, unsigned bytes);
/* The same for LDS offsets. */
uint64_t emu_lds(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint32_t *offset,
                 uint64_t lanes, unsigned bytes);

/* Memory that kernels may touch: what hipMalloc gave, and segments of code objects and kernel arguments. */
void *emu_alloc(size_t size, const char *what);
bool emu_free(void *p);
/* Is [p, p + n) inside of one allocation? lo and hi (may be NULL) get its bounds. */
bool emu_mapped(uint64_t p, size_t n, uintptr_t *lo, uintptr_t *hi);
/* What is near an address, for reports: "16 bytes after hipMalloc 0x... (4096 bytes)". */
void emu_whereabouts(uint64_t p, char *buf, size_t size);

/* FLAT apertures: no host address is there. */
#define EMU_SHARED_BASE  0x1000000000000000ull
#define EMU_PRIVATE_BASE 0x2000000000000000ull

/* ---- code objects ------------------------------------------------------------------------------------------------ */

struct emu_arg {
    uint32_t offset, size;
    uint8_t hidden; /* enum emu_hidden, 0: an ordinary argument */
};
enum emu_hidden {
    EMU_ARG_VALUE,
    EMU_ARG_OFFSET_X,
    EMU_ARG_OFFSET_Y,
    EMU_ARG_OFFSET_Z,
    EMU_ARG_BLOCKS_X,
    EMU_ARG_BLOCKS_Y,
    EMU_ARG_BLOCKS_Z,
    EMU_ARG_SIZE_X,
    EMU_ARG_SIZE_Y,
    EMU_ARG_SIZE_Z,
    EMU_ARG_REM_X,
    EMU_ARG_REM_Y,
    EMU_ARG_REM_Z,
    EMU_ARG_DIMS,
    EMU_ARG_LDS_SIZE,
    EMU_ARG_ZERO, /* hidden arguments that are null here */
};

#define EMU_MAX_ARGS 512

struct emu_kernel {
    char name[256];
    uint8_t descriptor[64];
    uint32_t entry; /* offset in the text */
    uint32_t lds, scratch, kernarg_size;
    int vgprs, agprs, sgprs, max_threads, wave_size;
    int n_args;
    struct emu_arg args[EMU_MAX_ARGS];
};

struct emu_module {
    const struct emu_arch *arch;
    uint8_t *image; /* the loaded segments */
    size_t image_size;
    uint64_t text_address; /* offset in the image */
    size_t text_size;
    int n_kernels;
    struct emu_kernel *kernels;
    struct emu_program program[2]; /* decoded when first wanted: wave32, wave64 */
};

bool emu_module_load(struct emu_module *m, const void *file, size_t size, char *error, size_t error_size);
void emu_module_unload(struct emu_module *m);
struct emu_kernel *emu_module_kernel(struct emu_module *m, const char *name);
const struct emu_program *emu_module_program(struct emu_module *m, int wave_size, char *error, size_t error_size);
/* The size of an ELF file from its headers: hipModuleLoadData isn't told. */
size_t emu_elf_size(const void *file);

/* ---- launches -----------------------------------------------------------------------------------------------------
 */

struct emu_counters {
    uint64_t waves, instructions, by_class[EMU_CLASSES];
    uint64_t vector, active_lanes; /* VALU instructions, and the lanes that were on in them */
    uint64_t load_bytes, store_bytes, lines64, lines128, lds_bytes, barriers;
};

struct emu_launch {
    const struct emu_arch *arch;
    struct emu_module *module;
    const struct emu_kernel *kernel;
    int cu_count;
    uint32_t grid[3], block[3], dynamic_lds;
    void *kernarg, *packet;
    uint64_t seed;      /* 0: in order */
    bool checks, count; /* count: by class, lanes and lines too */
    struct emu_counters counters;
    int findings;
    bool failed;
    char first[1024]; /* the first finding's text */
};

/* Runs to the end. False: a fatal finding, or the launch can't be made; launch->first says why. */
bool emu_launch_run(struct emu_launch *launch);

#endif
