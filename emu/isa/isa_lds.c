/* SPDX-License-Identifier: MIT
 *
 * DS instructions: LDS loads, stores, atomics; permutes through the LDS crossbar, which touch no memory. */
#include "isa_mem.h"

/* Addresses of a lane's LDS bytes: 32-bit sums that wrap. */
static void lds_addr(struct emu_wave *w, const struct emu_inst *i, int k, uint32_t offset, int kind, access_t *a)
{
    row32 t;
    const uint32_t *addr = src(w, i, k, t);
    unsigned bytes = i->op->info & MEM_BYTES;
    a->space = EMU_LDS_SPACE;
    a->kind = (uint8_t)kind;
    a->bytes = (uint8_t)bytes;
    a->align = (uint8_t)(kind == EMU_ATOMIC ? bytes : 1); /* as ROCm has SH_MEM_CONFIG.alignment_mode: unaligned */
    a->scalar = a->indirect = false;
    a->transposed = 0;
    a->data = EMU_NONE;
    a->lanes = w->exec;
    LANES a->addr[l] = addr[l] + offset;
}
static uint32_t element_offset(const struct emu_inst *i, int which)
{
    uint32_t info = i->op->info, bytes = info & MEM_BYTES;
    uint32_t n = (uint32_t)(which ? i->mods->offset1 : i->mods->offset);
    return n * bytes * (info & MEM_ST64 ? 64 : 1);
}

H(ds_read)
{
    access_t a;
    lds_addr(w, i, 1, (uint32_t)i->mods->offset, EMU_LOAD, &a);
    EMU_N(mem_load)(w, i, 0, &a, i->op->info, 0);
}
H(ds_read_tr)
{
    access_t a;
    lds_addr(w, i, 1, (uint32_t)i->mods->offset, EMU_LOAD, &a);
    EMU_N(mem_load_tr)(w, i, &a, i->op->info);
}
/* The second half goes to the registers after the first's; the address may be one of them. */
H(ds_read2)
{
    access_t a, b;
    struct emu_inst second = *i;
    lds_addr(w, i, 1, element_offset(i, 0), EMU_LOAD, &a);
    lds_addr(w, i, 1, element_offset(i, 1), EMU_LOAD, &b);
    second.reg[0] = (uint16_t)(i->reg[0] + (i->op->info & MEM_BYTES) / 4);
    EMU_N(mem_load)(w, i, 0, &a, i->op->info, 0);
    EMU_N(mem_load)(w, &second, 0, &b, i->op->info, 0);
}
H(ds_write)
{
    access_t a;
    lds_addr(w, i, 0, (uint32_t)i->mods->offset, EMU_STORE, &a);
    EMU_N(mem_store)(w, i, 1, &a, i->op->info);
}
H(ds_write2)
{
    access_t a;
    lds_addr(w, i, 0, element_offset(i, 0), EMU_STORE, &a);
    EMU_N(mem_store)(w, i, 1, &a, i->op->info);
    lds_addr(w, i, 0, element_offset(i, 1), EMU_STORE, &a);
    EMU_N(mem_store)(w, i, 2, &a, i->op->info);
}
/* addr, data[, data2]; the comparand comes first but for gfx11's cmpstore. */
static void ds_atomic_at(struct emu_wave *w, const struct emu_inst *i, int kd, int ka)
{
    access_t a;
    int op = (int)(i->op->info >> MEM_OP), kv = ka + 1, kc = -1;
    lds_addr(w, i, ka, (uint32_t)i->mods->offset, EMU_ATOMIC, &a);
    if (op == OP_CMPSWAP || op == OP_FCMPSWAP) {
        kv = i->op->info & MEM_CMP_LAST ? ka + 1 : ka + 2;
        kc = i->op->info & MEM_CMP_LAST ? ka + 2 : ka + 1;
    } else if (op == OP_MSKOR) {
        kc = ka + 2;
    }
    EMU_N(mem_atomic)(w, i, kd, kv, kc, &a, i->op->info);
}
H(ds_atomic)
{
    ds_atomic_at(w, i, -1, 0);
}
H(ds_atomic_rtn)
{
    ds_atomic_at(w, i, 0, 1);
}

/* ---- permutes ---------------------------------------------------------------------------------------------------- */

/* Lane l gets what lane (addr / 4) mod the wave's size holds; 0 if that one is off. */
H(ds_bpermute_b32)
{
    row32 ta, td, r;
    const uint32_t *addr = src(w, i, 1, ta), *data = src(w, i, 2, td);
    uint32_t mask = w->wave_size - 1u, offset = (uint32_t)i->mods->offset;
    LANES
    {
        uint32_t s = (addr[l] + offset) / 4 & mask;
        r[l] = w->exec >> s & 1 ? data[s] : 0;
    }
    blend(vrow(w, i->reg[0]), r, w->exec);
}
/* Lane l gives to lane (addr / 4) mod the wave's size; the highest giver wins, who gets nothing gets 0. */
H(ds_permute_b32)
{
    row32 ta, td, r = { 0 };
    const uint32_t *addr = src(w, i, 1, ta), *data = src(w, i, 2, td);
    uint32_t mask = w->wave_size - 1u, offset = (uint32_t)i->mods->offset;
    for (int l = 0; l < w->wave_size; l++)
        if (w->exec >> l & 1)
            r[(addr[l] + offset) / 4 & mask] = data[l];
    blend(vrow(w, i->reg[0]), r, w->exec);
}
static uint32_t brev5(uint32_t l)
{
    return (l & 1) << 4 | (l & 2) << 2 | (l & 4) | (l & 8) >> 2 | (l & 16) >> 4;
}
H(ds_swizzle_b32)
{
    row32 td, r;
    const uint32_t *data = src(w, i, 1, td);
    uint32_t pattern = (uint32_t)i->mods->offset;
    for (uint32_t l = 0; l < 64; l++) {
        uint32_t s, keep = pattern & 31, turn = pattern >> 5 & 31;
        if (pattern >= 0xe000) /* FFT: the lane's bits reversed, shifted by as many as are kept */
            s = (l & 32) | (l & keep) | brev5(l) >> __builtin_popcount(keep);
        else if (pattern >= 0xc000) /* rotation of the bits that aren't kept */
            s = (l & 32) | (l & keep) | ((pattern & 0x400 ? l - turn : l + turn) & ~keep & 31);
        else if (pattern & 0x8000)
            s = (l & ~3u) | (pattern >> 2 * (l & 3) & 3);
        else
            s = (l & 32) | ((((l & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
        r[l] = w->exec >> s & 1 ? data[s] : 0;
    }
    blend(vrow(w, i->reg[0]), r, w->exec);
}
H(ds_nop)
{
    (void)w, (void)i;
}

/* clang-format off */
static const struct emu_op rows[] = {
#define READ(n9, n11, d, info)                                                                                         \
    { "ds_read_" n9, h_ds_read, d " s1", EMU_LDS, info }, { "ds_load_" n11, h_ds_read, d " s1", EMU_LDS, info },
#define WRITE(n9, n11, s, info)                                                                                        \
    { "ds_write_" n9, h_ds_write, "s1 " s, EMU_LDS, info }, { "ds_store_" n11, h_ds_write, "s1 " s, EMU_LDS, info },
    READ("b32", "b32", "d1", 4) READ("b64", "b64", "d2", 8) READ("b96", "b96", "d3", 12) READ("b128", "b128", "d4", 16)
    READ("u8", "u8", "d1", 1) READ("i8", "i8", "d1", 1 | MEM_SIGNED) READ("u16", "u16", "d1", 2)
    READ("i16", "i16", "d1", 2 | MEM_SIGNED) READ("u8_d16", "u8_d16", "d1", 1 | MEM_D16)
    READ("u8_d16_hi", "u8_d16_hi", "d1", 1 | MEM_D16_HI) READ("i8_d16", "i8_d16", "d1", 1 | MEM_SIGNED | MEM_D16)
    READ("i8_d16_hi", "i8_d16_hi", "d1", 1 | MEM_SIGNED | MEM_D16_HI) READ("u16_d16", "u16_d16", "d1", 2 | MEM_D16)
    READ("u16_d16_hi", "u16_d16_hi", "d1", 2 | MEM_D16_HI)
    WRITE("b8", "b8", "s1", 1) WRITE("b16", "b16", "s1", 2) WRITE("b32", "b32", "s1", 4) WRITE("b64", "b64", "s2", 8)
    WRITE("b96", "b96", "s3", 12) WRITE("b128", "b128", "s4", 16) WRITE("b8_d16_hi", "b8_d16_hi", "s1", 1 | MEM_D16_HI)
    WRITE("b16_d16_hi", "b16_d16_hi", "s1", 2 | MEM_D16_HI)
#define TRANSPOSED(n, d, bytes, bits) { "ds_read_" n, h_ds_read_tr, d " s1", EMU_LDS, bytes | bits << MEM_OP },
    TRANSPOSED("b64_tr_b16", "d2", 8, 16) TRANSPOSED("b64_tr_b8", "d2", 8, 8) TRANSPOSED("b64_tr_b4", "d2", 8, 4)
    TRANSPOSED("b96_tr_b6", "d3", 12, 6)
#define TWO(b, d, s, bytes)                                                                                            \
    { "ds_read2_" b, h_ds_read2, d " s1", EMU_LDS, bytes | MEM_TWO },                                                  \
    { "ds_read2st64_" b, h_ds_read2, d " s1", EMU_LDS, bytes | MEM_TWO | MEM_ST64 },                                   \
    { "ds_load_2addr_" b, h_ds_read2, d " s1", EMU_LDS, bytes | MEM_TWO },                                             \
    { "ds_load_2addr_stride64_" b, h_ds_read2, d " s1", EMU_LDS, bytes | MEM_TWO | MEM_ST64 },                         \
    { "ds_write2_" b, h_ds_write2, "s1 " s " " s, EMU_LDS, bytes | MEM_TWO },                                          \
    { "ds_write2st64_" b, h_ds_write2, "s1 " s " " s, EMU_LDS, bytes | MEM_TWO | MEM_ST64 },                           \
    { "ds_store_2addr_" b, h_ds_write2, "s1 " s " " s, EMU_LDS, bytes | MEM_TWO },                                     \
    { "ds_store_2addr_stride64_" b, h_ds_write2, "s1 " s " " s, EMU_LDS, bytes | MEM_TWO | MEM_ST64 },
    TWO("b32", "d2", "s1", 4) TWO("b64", "d4", "s2", 8)
#define ATOMIC(n, s, d, op, bytes, ty)                                                                                 \
    { "ds_" n "_" ty, h_ds_atomic, "s1 " s, EMU_LDS_ATOMIC, bytes | op << MEM_OP },                                    \
    { "ds_" n "_rtn_" ty, h_ds_atomic_rtn, d " s1 " s, EMU_LDS_ATOMIC, bytes | op << MEM_OP },
#define BOTH(n, op, t32, t64) ATOMIC(n, "s1", "d1", op, 4, t32) ATOMIC(n, "s2", "d2", op, 8, t64)
    BOTH("add", OP_ADD, "u32", "u64") BOTH("sub", OP_SUB, "u32", "u64") BOTH("rsub", OP_RSUB, "u32", "u64")
    BOTH("inc", OP_INC, "u32", "u64") BOTH("dec", OP_DEC, "u32", "u64") BOTH("min", OP_SMIN, "i32", "i64")
    BOTH("max", OP_SMAX, "i32", "i64") BOTH("min", OP_UMIN, "u32", "u64") BOTH("max", OP_UMAX, "u32", "u64")
    BOTH("and", OP_AND, "b32", "b64") BOTH("or", OP_OR, "b32", "b64") BOTH("xor", OP_XOR, "b32", "b64")
    BOTH("add", OP_FADD, "f32", "f64") BOTH("min", OP_FMIN, "f32", "f64") BOTH("max", OP_FMAX, "f32", "f64")
    BOTH("min_num", OP_FMIN, "f32", "f64") BOTH("max_num", OP_FMAX, "f32", "f64")
    ATOMIC("sub_clamp", "s1", "d1", OP_CSUB, 4, "u32") ATOMIC("cond_sub", "s1", "d1", OP_COND_SUB, 4, "u32")
    ATOMIC("pk_add", "s1", "d1", OP_PK_F16, 4, "f16") ATOMIC("pk_add", "s1", "d1", OP_PK_BF16, 4, "bf16")
    ATOMIC("mskor", "s1 s1", "d1", OP_MSKOR, 4, "b32") ATOMIC("mskor", "s2 s2", "d2", OP_MSKOR, 8, "b64")
    ATOMIC("cmpst", "s1 s1", "d1", OP_CMPSWAP, 4, "b32") ATOMIC("cmpst", "s2 s2", "d2", OP_CMPSWAP, 8, "b64")
    ATOMIC("cmpst", "s1 s1", "d1", OP_FCMPSWAP, 4, "f32") ATOMIC("cmpst", "s2 s2", "d2", OP_FCMPSWAP, 8, "f64")
    ATOMIC("cmpstore", "s1 s1", "d1", OP_CMPSWAP, 4 | MEM_CMP_LAST, "b32")
    ATOMIC("cmpstore", "s2 s2", "d2", OP_CMPSWAP, 8 | MEM_CMP_LAST, "b64")
    ATOMIC("cmpstore", "s1 s1", "d1", OP_FCMPSWAP, 4 | MEM_CMP_LAST, "f32")
    ATOMIC("cmpstore", "s2 s2", "d2", OP_FCMPSWAP, 8 | MEM_CMP_LAST, "f64")
    { "ds_wrxchg_rtn_b32", h_ds_atomic_rtn, "d1 s1 s1", EMU_LDS_ATOMIC, 4 | OP_SWAP << MEM_OP },
    { "ds_wrxchg_rtn_b64", h_ds_atomic_rtn, "d2 s1 s2", EMU_LDS_ATOMIC, 8 | OP_SWAP << MEM_OP },
    { "ds_storexchg_rtn_b32", h_ds_atomic_rtn, "d1 s1 s1", EMU_LDS_ATOMIC, 4 | OP_SWAP << MEM_OP },
    { "ds_storexchg_rtn_b64", h_ds_atomic_rtn, "d2 s1 s2", EMU_LDS_ATOMIC, 8 | OP_SWAP << MEM_OP },
    { "ds_bpermute_b32", h_ds_bpermute_b32, "d1 s1 s1", EMU_CROSS, 0 },
    { "ds_permute_b32", h_ds_permute_b32, "d1 s1 s1", EMU_CROSS, 0 },
    { "ds_swizzle_b32", h_ds_swizzle_b32, "d1 s1", EMU_CROSS, 0 },
    { "ds_nop", h_ds_nop, "*", EMU_WAIT, 0 },
};
/* clang-format on */
const struct emu_ops EMU_N(ops_lds) = { rows, COUNT(rows) };
