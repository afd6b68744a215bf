/* SPDX-License-Identifier: MIT
 *
 * Global, flat, scratch, buffer and scalar memory instructions. */
#include "isa_mem.h"

static void start(access_t *a, const struct emu_wave *w, int space, int kind, uint32_t info)
{
    a->space = (uint8_t)space;
    a->kind = (uint8_t)kind;
    a->bytes = info & MEM_BYTES;
    a->align = kind == EMU_ATOMIC ? info & MEM_BYTES : 1;
    a->scalar = a->indirect = false;
    a->transposed = 0;
    a->data = EMU_NONE;
    a->lanes = w->exec;
}

/* ---- global: kv address, ks scalar base or off ------------------------------------------------------------------- */

static void global_addr(struct emu_wave *w, const struct emu_inst *i, int kv, int ks, int kind, access_t *a)
{
    int64_t offset = i->mods->offset;
    start(a, w, EMU_GLOBAL, kind, i->op->info);
    if (ks >= 0 && i->reg[ks] < EMU_NULL) {
        row32 t;
        uint64_t base = rs2(w, i, ks) + (uint64_t)offset;
        if (i->reg[kv] == EMU_NONE) {
            LANES a->addr[l] = base;
            return;
        }
        const uint32_t *v = src(w, i, kv, t);
        LANES a->addr[l] = base + v[l];
    } else {
        row64 v;
        src64(w, i, kv, v);
        LANES a->addr[l] = v[l] + (uint64_t)offset;
    }
}
H(global_load)
{
    access_t a;
    global_addr(w, i, 1, 2, EMU_LOAD, &a);
    EMU_N(mem_load)(w, i, 0, &a, i->op->info, 0);
}
void EMU_N(mem_load_tr)(struct emu_wave *w, const struct emu_inst *i, access_t *a, uint32_t info)
{
    uint32_t rows[4][64];
    int words = (int)(info & MEM_BYTES) / 4;
    a->transposed = (uint8_t)(info >> MEM_OP);
    EMU_N(mem_load)(w, i, 0, a, info & 0xffff, 0);
    for (int k = 0; k < words; k++)
        memcpy(rows[k], vrow(w, i->reg[0] + (unsigned)k), 256);
    emu_transpose(a->transposed, words, rows);
    for (int k = 0; k < words; k++)
        blend(vrow(w, i->reg[0] + (unsigned)k), rows[k], w->exec);
}
H(global_load_tr)
{
    access_t a;
    global_addr(w, i, 1, 2, EMU_LOAD, &a);
    EMU_N(mem_load_tr)(w, i, &a, i->op->info);
}
H(global_load_lds)
{
    access_t a;
    global_addr(w, i, 0, 1, EMU_LOAD, &a);
    EMU_N(mem_to_lds)(w, i, &a, i->op->info, 0);
}
H(global_store)
{
    access_t a;
    global_addr(w, i, 0, 2, EMU_STORE, &a);
    EMU_N(mem_store)(w, i, 1, &a, i->op->info);
}
H(global_atomic)
{
    access_t a;
    int d = i->n == 4;
    global_addr(w, i, d, d + 2, EMU_ATOMIC, &a);
    EMU_N(mem_atomic)(w, i, d - 1, d + 1, -1, &a, i->op->info);
}

/* ---- scratch: v address or off, s offset or off ------------------------------------------------------------------ */

static void scratch_addr(struct emu_wave *w, const struct emu_inst *i, int kv, int ks, int kind, access_t *a)
{
    uint32_t base = (uint32_t)i->mods->offset;
    start(a, w, EMU_SCRATCH, kind, i->op->info);
    if (i->reg[ks] < EMU_VGPR && i->reg[ks] != EMU_NULL)
        base += rs(w, i, ks);
    if (i->reg[kv] == EMU_NONE) {
        LANES a->addr[l] = base;
    } else {
        row32 t;
        const uint32_t *v = src(w, i, kv, t);
        LANES a->addr[l] = v[l] + base;
    }
}
H(scratch_load)
{
    access_t a;
    scratch_addr(w, i, 1, 2, EMU_LOAD, &a);
    EMU_N(mem_load)(w, i, 0, &a, i->op->info, 0);
}
H(scratch_store)
{
    access_t a;
    scratch_addr(w, i, 0, 2, EMU_STORE, &a);
    EMU_N(mem_store)(w, i, 1, &a, i->op->info);
}

/* ---- flat: each lane's address says which memory it is ----------------------------------------------------------- */

/* The lanes of one space; their addresses within it. */
static bool flat_part(struct emu_wave *w, const struct emu_inst *i, int kv, int kind, int space, access_t *a)
{
    row64 v;
    uint64_t lanes = 0;
    src64(w, i, kv, v);
    start(a, w, space, kind, i->op->info);
    for (int l = 0; l < 64; l++) {
        uint64_t p = v[l] + (uint64_t)(int64_t)i->mods->offset, hi = v[l] >> 32;
        int where = hi == EMU_SHARED_BASE >> 32    ? EMU_LDS_SPACE
                    : hi == EMU_PRIVATE_BASE >> 32 ? EMU_SCRATCH
                                                   : EMU_GLOBAL;
        if (where == space)
            lanes |= 1ull << l;
        a->addr[l] = where == EMU_GLOBAL ? p : (uint32_t)p;
    }
    a->lanes = lanes & w->exec;
    return a->lanes != 0;
}
/* The address registers may be among those loaded: all parts' addresses first. */
H(flat_load)
{
    access_t a[3];
    bool any[3];
    for (int s = 0; s < 3; s++)
        any[s] = flat_part(w, i, 1, EMU_LOAD, s, &a[s]);
    for (int s = 0; s < 3; s++)
        if (any[s])
            EMU_N(mem_load)(w, i, 0, &a[s], i->op->info, 0);
}
H(flat_store)
{
    access_t a;
    for (int s = 0; s < 3; s++)
        if (flat_part(w, i, 0, EMU_STORE, s, &a))
            EMU_N(mem_store)(w, i, 1, &a, i->op->info);
}
H(flat_atomic)
{
    access_t a[3];
    bool any[3];
    int d = i->n == 3;
    for (int s = 0; s < 3; s++)
        any[s] = flat_part(w, i, d, EMU_ATOMIC, s, &a[s]);
    for (int s = 0; s < 3; s++)
        if (any[s])
            EMU_N(mem_atomic)(w, i, d - 1, d + 1, -1, &a[s], i->op->info);
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

struct resource {
    uint64_t base;
    uint32_t stride, records, index_stride, element; /* element, index_stride: in bytes, lanes */
    bool swizzle, add_tid;
    int oob; /* gfx10+: OOB_SELECT; -1: gfx9's rule */
};
static struct resource read_resource(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    uint32_t d[4];
    for (int n = 0; n < 4; n++)
        d[n] = rs_word(w, i, k, n);
    int gfx = w->prog->arch->gfx;
    struct resource r = { .base = d[0] | (uint64_t)(d[1] & 0xffff) << 32,
                          .stride = d[1] >> 16 & 0x3fff,
                          .records = d[2],
                          .index_stride = 8u << (d[3] >> 21 & 3),
                          .add_tid = d[3] >> 23 & 1,
                          .oob = -1 };
    if (gfx >= 0x1100)
        r.swizzle = d[1] >> 30, r.element = d[1] >> 30 == 1 ? 4 : d[1] >> 30 == 2 ? 8 : 16;
    else
        r.swizzle = d[1] >> 31, r.element = 4; /* gfx8 was the last with a field for it (LLVM: getScratchRsrcWords23) */
    if (gfx >= 0x1000)
        r.oob = d[3] >> 28 & 3;
    return r;
}
/* kv: index and offset, as the modifiers say; kr: the resource; then the scalar offset. Returns the lanes that are out
 * of range: loads give 0, stores do nothing. Each element of `bytes` is in or out as a whole for stride 0 by its
 * dwords. */
static uint64_t buffer_addr(struct emu_wave *w, const struct emu_inst *i, int kv, int kr, int kind, access_t *a)
{
    const struct emu_mods *m = i->mods;
    struct resource r = read_resource(w, i, kr);
    uint32_t soffset = rs(w, i, kr + 1);
    unsigned bytes = i->op->info & MEM_BYTES;
    row32 t0, t1;
    const uint32_t *index = NULL, *offset = NULL;
    start(a, w, EMU_GLOBAL, kind, i->op->info);
    if (m->idxen)
        index = src(w, i, kv, t0);
    if (m->offen)
        offset = src_word(w, i, kv, m->idxen, t1);
    uint64_t out = 0;
    for (int l = 0; l < 64; l++) {
        uint32_t idx = index ? index[l] : 0, off = (offset ? offset[l] : 0) + (uint32_t)m->offset;
        bool bad;
        if (r.add_tid)
            idx += (uint32_t)l;
        uint64_t at;
        if (r.swizzle && r.stride) {
            uint64_t hi_i = idx / r.index_stride, lo_i = idx % r.index_stride, hi_o = off / r.element,
                     lo_o = off % r.element;
            at = hi_i * r.stride * r.index_stride + hi_o * r.element * r.index_stride + lo_i * r.element + lo_o;
        } else {
            at = (uint64_t)idx * r.stride + off;
        }
        if (r.oob < 0)
            bad = r.stride && index ? idx >= r.records : at + soffset + bytes > r.records;
        else if (r.oob == 0)
            bad = idx >= r.records || (r.stride && off + bytes > r.stride);
        else if (r.oob == 1)
            bad = idx >= r.records;
        else if (r.oob == 2)
            bad = r.records == 0;
        else if (r.swizzle && r.stride)
            bad = idx >= r.records || off + bytes > r.stride;
        else
            bad = at + soffset + bytes > r.records;
        out |= (uint64_t)bad << l;
        a->addr[l] = r.base + at + soffset;
    }
    out &= w->exec;
    a->lanes = w->exec & ~out;
    return out;
}
/* A lane that is partly in range: a raw buffer is checked dword by dword. Rare, so lanes are redone one by one. */
static uint64_t partial_load(struct emu_wave *w, const struct emu_inst *i, int kr, const access_t *a, uint64_t out,
                             row32 *t)
{
    unsigned bytes = i->op->info & MEM_BYTES;
    struct resource r = read_resource(w, i, kr);
    uint64_t some = 0;
    if (bytes <= 4 || (r.oob >= 0 ? r.oob != 3 : r.stride != 0))
        return 0;
    for (int l = 0; l < 64; l++) {
        uint64_t at = a->addr[l] - r.base;
        if (!(out >> l & 1) || at + 4 > r.records)
            continue;
        access_t one = *a;
        unsigned n = (unsigned)(r.records - at) / 4 * 4;
        one.bytes = (uint8_t)n;
        one.lanes = 1ull << l;
        one.data = i->reg[0];
        if (!emu_access(w, i, &one))
            continue;
        for (unsigned d = 0; d < n / 4; d++)
            memcpy(&t[d][l], (const uint8_t *)(uintptr_t)a->addr[l] + 4 * d, 4);
        some |= 1ull << l;
    }
    return some;
}
H(buffer_load)
{
    access_t a;
    uint64_t out = buffer_addr(w, i, 1, 2, EMU_LOAD, &a);
    row32 t[4];
    uint64_t some = 0;
    if (unlikely(out)) {
        memset(t, 0, sizeof(t));
        some = partial_load(w, i, 2, &a, out, t);
    }
    EMU_N(mem_load)(w, i, 0, &a, i->op->info, out);
    if (unlikely(some))
        for (unsigned d = 0; d < (i->op->info & MEM_BYTES) / 4; d++)
            blend(vrow(w, i->reg[0] + d), t[d], some);
}
H(buffer_load_lds)
{
    access_t a;
    uint64_t out = buffer_addr(w, i, 0, 1, EMU_LOAD, &a);
    EMU_N(mem_to_lds)(w, i, &a, i->op->info, out);
}
H(buffer_store)
{
    access_t a;
    uint64_t out = buffer_addr(w, i, 1, 2, EMU_STORE, &a);
    unsigned bytes = i->op->info & MEM_BYTES;
    EMU_N(mem_store)(w, i, 0, &a, i->op->info);
    struct resource r = read_resource(w, i, 2);
    if (likely(!out) || bytes <= 4 || (r.oob >= 0 ? r.oob != 3 : r.stride != 0))
        return;
    row32 t;
    for (int l = 0; l < 64; l++) { /* the dwords that are in range */
        uint64_t at = a.addr[l] - r.base;
        if (!(out >> l & 1) || at + 4 > r.records)
            continue;
        access_t one = a;
        one.bytes = (uint8_t)((r.records - at) / 4 * 4);
        one.lanes = 1ull << l;
        one.data = i->reg[0];
        if (emu_access(w, i, &one))
            for (unsigned d = 0; d < one.bytes / 4u; d++)
                memcpy((uint8_t *)(uintptr_t)a.addr[l] + 4 * d, &src_word(w, i, 0, (int)d, t)[l], 4);
    }
}
H(buffer_atomic)
{
    access_t a;
    bool wanted = i->mods->glc || i->mods->sc0;
    buffer_addr(w, i, 1, 2, EMU_ATOMIC, &a);
    EMU_N(mem_atomic)(w, i, wanted ? 0 : -1, 0, -1, &a, i->op->info);
}
H(nothing)
{
    (void)w, (void)i;
}

/* ---- scalar memory ----------------------------------------------------------------------------------------------- */

static int64_t smem_offset(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    int64_t o = i->mods->offset;
    if (i->n > k && i->reg[k] != EMU_NONE)
        o += i->reg[k] == EMU_CONST ? (int64_t)(int32_t)i->k[k] : (int64_t)rs(w, i, k);
    return o;
}
/* The hardware drops an address's low two bits, so one that has any is a mistake. */
static bool smem(struct emu_wave *w, const struct emu_inst *i, int kind, uint64_t address, unsigned bytes)
{
    access_t a;
    start(&a, w, EMU_GLOBAL, kind, bytes);
    a.align = kind == EMU_ATOMIC || bytes < 4 ? (uint8_t)bytes : 4;
    a.scalar = true;
    a.lanes = 1;
    a.addr[0] = address;
    a.data = i->reg[0];
    return emu_access(w, i, &a) & 1;
}
H(s_load)
{
    uint32_t x[16] = { 0 };
    unsigned bytes = i->op->info & MEM_BYTES;
    uint64_t p = rs2(w, i, 1) + (uint64_t)smem_offset(w, i, 2);
    if (smem(w, i, EMU_LOAD, p, bytes))
        memcpy(x, (const void *)(uintptr_t)p, bytes);
    for (unsigned d = 0; d < bytes / 4; d++)
        ws_reg(w, i->reg[0] + d, x[d]);
}
/* gfx12: a byte or two, extended. */
H(s_load_small)
{
    unsigned bytes = i->op->info & MEM_BYTES;
    uint64_t p = rs2(w, i, 1) + (uint64_t)smem_offset(w, i, 2);
    uint16_t x = 0;
    if (smem(w, i, EMU_LOAD, p, bytes))
        memcpy(&x, (const void *)(uintptr_t)p, bytes);
    ws(w, i, 0, !(i->op->info & MEM_SIGNED) ? x : bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x);
}
H(s_buffer_load)
{
    uint32_t x[16] = { 0 };
    unsigned bytes = i->op->info & MEM_BYTES;
    struct resource r = read_resource(w, i, 1);
    uint64_t size = r.stride ? (uint64_t)r.stride * r.records : r.records, at = (uint64_t)smem_offset(w, i, 2);
    uint64_t n = at >= size ? 0 : size - at < bytes ? (size - at) / 4 * 4 : bytes;
    if (n && smem(w, i, EMU_LOAD, r.base + at, (unsigned)n))
        memcpy(x, (const void *)(uintptr_t)(r.base + at), n);
    for (unsigned d = 0; d < bytes / 4; d++)
        ws_reg(w, i->reg[0] + d, x[d]);
}
H(s_store)
{
    unsigned bytes = i->op->info & MEM_BYTES;
    uint64_t p = rs2(w, i, 1) + (uint64_t)smem_offset(w, i, 2);
    if (!smem(w, i, EMU_STORE, p, bytes))
        return;
    for (unsigned d = 0; d < bytes / 4; d++) {
        uint32_t x = rs_word(w, i, 0, (int)d);
        memcpy((uint8_t *)(uintptr_t)p + 4 * d, &x, 4);
    }
}
/* gfx9 has atomics in the scalar cache, too. Operand 0: data, and what was there if glc asks; cmpswap's comparand comes
 * after the new value. */
static void scalar_atomic(struct emu_wave *w, const struct emu_inst *i, uint64_t p)
{
    int op = (int)(i->op->info >> MEM_OP);
    unsigned bytes = i->op->info & MEM_BYTES, words = bytes / 4;
    if (!smem(w, i, EMU_ATOMIC, p, bytes))
        return;
    uint64_t v = bytes == 8 ? rs2(w, i, 0) : rs(w, i, 0), c = v, m, n;
    if (op == OP_CMPSWAP)
        c = rs_word(w, i, 0, (int)words) | (bytes == 8 ? (uint64_t)rs_word(w, i, 0, 3) << 32 : 0);
    if (bytes == 8) {
        uint64_t old = __atomic_load_n((uint64_t *)(uintptr_t)p, __ATOMIC_RELAXED);
        do
            n = EMU_N(mem_apply64)(op, old, v, c);
        while (
            !__atomic_compare_exchange_n((uint64_t *)(uintptr_t)p, &old, n, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
        m = old;
    } else {
        uint32_t old = __atomic_load_n((uint32_t *)(uintptr_t)p, __ATOMIC_RELAXED);
        do
            n = EMU_N(mem_apply32)(op, old, (uint32_t)v, (uint32_t)c);
        while (!__atomic_compare_exchange_n((uint32_t *)(uintptr_t)p, &old, (uint32_t)n, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        m = old;
    }
    for (unsigned d = 0; d < words && i->mods->glc; d++)
        ws_reg(w, i->reg[0] + d, (uint32_t)(m >> 32 * d));
}
H(s_atomic)
{
    scalar_atomic(w, i, rs2(w, i, 1) + (uint64_t)smem_offset(w, i, 2));
}
H(s_buffer_atomic)
{
    struct resource r = read_resource(w, i, 1);
    uint64_t size = r.stride ? (uint64_t)r.stride * r.records : r.records, at = (uint64_t)smem_offset(w, i, 2);
    if (at + (i->op->info & MEM_BYTES) <= size)
        scalar_atomic(w, i, r.base + at);
}

/* clang-format off */
static const struct emu_op rows[] = {
/* Loads under gfx9's and gfx11's names in all spaces. */
#define LOADS(n, d, info)                                                                                              \
    { "global_load_" n, h_global_load, d " s0 s0", EMU_VMEM_LOAD, info },                                              \
    { "flat_load_" n, h_flat_load, d " s2", EMU_FLAT_LOAD, info },                                                     \
    { "scratch_load_" n, h_scratch_load, d " s0 s0", EMU_SCRATCH_LOAD, info },                                         \
    { "buffer_load_" n, h_buffer_load, d " s0 s4 s1", EMU_VMEM_LOAD, info },
#define LDS_LOADS(n, info)                                                                                             \
    { "global_load_lds_" n, h_global_load_lds, "s0 s0|M", EMU_VMEM_LOAD, (info) | MEM_LDS },                           \
    { "buffer_load_" n, h_buffer_load_lds, "s0 s4 s1|M", EMU_VMEM_LOAD, (info) | MEM_LDS },
#define STORES(n, s, info)                                                                                             \
    { "global_store_" n, h_global_store, "s0 " s " s0", EMU_VMEM_STORE, info },                                        \
    { "flat_store_" n, h_flat_store, "s2 " s, EMU_FLAT_STORE, info },                                                  \
    { "scratch_store_" n, h_scratch_store, "s0 " s " s0", EMU_SCRATCH_STORE, info },                                   \
    { "buffer_store_" n, h_buffer_store, s " s0 s4 s1", EMU_VMEM_STORE, info },
    LOADS("dword", "d1", 4) LOADS("dwordx2", "d2", 8) LOADS("dwordx3", "d3", 12) LOADS("dwordx4", "d4", 16)
    LDS_LOADS("dwordx3", 12) LDS_LOADS("dwordx4", 16)
    LOADS("b32", "d1", 4) LOADS("b64", "d2", 8) LOADS("b96", "d3", 12) LOADS("b128", "d4", 16)
    LOADS("ubyte", "d1", 1) LOADS("u8", "d1", 1) LOADS("sbyte", "d1", 1 | MEM_SIGNED) LOADS("i8", "d1", 1 | MEM_SIGNED)
    LOADS("ushort", "d1", 2) LOADS("u16", "d1", 2) LOADS("sshort", "d1", 2 | MEM_SIGNED) LOADS("i16", "d1", 2 | MEM_SIGNED)
    LOADS("ubyte_d16", "d1", 1 | MEM_D16) LOADS("d16_u8", "d1", 1 | MEM_D16)
    LOADS("ubyte_d16_hi", "d1", 1 | MEM_D16_HI) LOADS("d16_hi_u8", "d1", 1 | MEM_D16_HI)
    LOADS("sbyte_d16", "d1", 1 | MEM_SIGNED | MEM_D16) LOADS("d16_i8", "d1", 1 | MEM_SIGNED | MEM_D16)
    LOADS("sbyte_d16_hi", "d1", 1 | MEM_SIGNED | MEM_D16_HI) LOADS("d16_hi_i8", "d1", 1 | MEM_SIGNED | MEM_D16_HI)
    LOADS("short_d16", "d1", 2 | MEM_D16) LOADS("d16_b16", "d1", 2 | MEM_D16)
    LOADS("short_d16_hi", "d1", 2 | MEM_D16_HI) LOADS("d16_hi_b16", "d1", 2 | MEM_D16_HI)
    /* waves of 32; of 64, with half the registers, their layout is not known */
    { "global_load_tr_b64", h_global_load_tr, "d2 s0 s0", EMU_VMEM_LOAD, 8 | (8 | EMU_TR_GFX12) << MEM_OP },
    { "global_load_tr_b128", h_global_load_tr, "d4 s0 s0", EMU_VMEM_LOAD, 16 | (16 | EMU_TR_GFX12) << MEM_OP },
    LDS_LOADS("dword", 4) LDS_LOADS("ubyte", 1) LDS_LOADS("sbyte", 1 | MEM_SIGNED) LDS_LOADS("ushort", 2)
    LDS_LOADS("sshort", 2 | MEM_SIGNED)
    STORES("dword", "s1", 4) STORES("dwordx2", "s2", 8) STORES("dwordx3", "s3", 12) STORES("dwordx4", "s4", 16)
    STORES("b32", "s1", 4) STORES("b64", "s2", 8) STORES("b96", "s3", 12) STORES("b128", "s4", 16)
    STORES("byte", "s1", 1) STORES("b8", "s1", 1) STORES("short", "s1", 2) STORES("b16", "s1", 2)
    STORES("byte_d16_hi", "s1", 1 | MEM_D16_HI) STORES("d16_hi_b8", "s1", 1 | MEM_D16_HI)
    STORES("short_d16_hi", "s1", 2 | MEM_D16_HI) STORES("d16_hi_b16", "s1", 2 | MEM_D16_HI)
#define GLOBAL_ATOMICS(n, words, data, info)                                                                                  \
    { "global_atomic_" n, h_global_atomic, "s0 s" data " s0", EMU_VMEM_ATOMIC, info },                                 \
    { "global_atomic_" n, h_global_atomic, "d" words " s0 s" data " s0", EMU_VMEM_ATOMIC, info },                      \
    { "flat_atomic_" n, h_flat_atomic, "s2 s" data, EMU_FLAT_ATOMIC, info },                                           \
    { "flat_atomic_" n, h_flat_atomic, "d" words " s2 s" data, EMU_FLAT_ATOMIC, info },
#define ATOMICS(n, words, data, info)                                                                                  \
    GLOBAL_ATOMICS(n, words, data, info)                                                                               \
    { "buffer_atomic_" n, h_buffer_atomic, "b" data " s0 s4 s1", EMU_VMEM_ATOMIC, info },
#define A4(n9, n11, op) ATOMICS(n9, "1", "1", 4 | (op) << MEM_OP) ATOMICS(n11, "1", "1", 4 | (op) << MEM_OP)
#define A8(n9, n11, op) ATOMICS(n9, "2", "2", 8 | (op) << MEM_OP) ATOMICS(n11, "2", "2", 8 | (op) << MEM_OP)
#define AB(n, n32, n64, op) A4(n, n32, op) A8(n "_x2", n64, op)
    AB("swap", "swap_b32", "swap_b64", OP_SWAP) AB("add", "add_u32", "add_u64", OP_ADD)
    AB("sub", "sub_u32", "sub_u64", OP_SUB) AB("smin", "min_i32", "min_i64", OP_SMIN)
    AB("umin", "min_u32", "min_u64", OP_UMIN) AB("smax", "max_i32", "max_i64", OP_SMAX)
    AB("umax", "max_u32", "max_u64", OP_UMAX) AB("and", "and_b32", "and_b64", OP_AND)
    AB("or", "or_b32", "or_b64", OP_OR) AB("xor", "xor_b32", "xor_b64", OP_XOR)
    AB("inc", "inc_u32", "inc_u64", OP_INC) AB("dec", "dec_u32", "dec_u64", OP_DEC)
    ATOMICS("add_f32", "1", "1", 4 | OP_FADD << MEM_OP) ATOMICS("add_f64", "2", "2", 8 | OP_FADD << MEM_OP)
    ATOMICS("min_f32", "1", "1", 4 | OP_FMIN << MEM_OP) ATOMICS("max_f32", "1", "1", 4 | OP_FMAX << MEM_OP)
    ATOMICS("min_f64", "2", "2", 8 | OP_FMIN << MEM_OP) ATOMICS("max_f64", "2", "2", 8 | OP_FMAX << MEM_OP)
    /* gfx10's names */
    ATOMICS("fmin", "1", "1", 4 | OP_FMIN << MEM_OP) ATOMICS("fmin_x2", "2", "2", 8 | OP_FMIN << MEM_OP)
    ATOMICS("fmax", "1", "1", 4 | OP_FMAX << MEM_OP) ATOMICS("fmax_x2", "2", "2", 8 | OP_FMAX << MEM_OP)
    ATOMICS("fcmpswap", "1", "2", 4 | OP_FCMPSWAP << MEM_OP) ATOMICS("fcmpswap_x2", "2", "4", 8 | OP_FCMPSWAP << MEM_OP)
    { "global_atomic_csub", h_global_atomic, "s0 s1 s0", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
    { "global_atomic_csub", h_global_atomic, "d1 s0 s1 s0", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
    { "buffer_atomic_csub", h_buffer_atomic, "b1 s0 s4 s1", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
    ATOMICS("min_num_f32", "1", "1", 4 | OP_FMIN << MEM_OP) ATOMICS("max_num_f32", "1", "1", 4 | OP_FMAX << MEM_OP)
    ATOMICS("sub_clamp_u32", "1", "1", 4 | OP_CSUB << MEM_OP) ATOMICS("cond_sub_u32", "1", "1", 4 | OP_COND_SUB << MEM_OP)
    ATOMICS("pk_add_f16", "1", "1", 4 | OP_PK_F16 << MEM_OP) ATOMICS("pk_add_bf16", "1", "1", 4 | OP_PK_BF16 << MEM_OP)
    ATOMICS("cmpswap", "1", "2", 4 | OP_CMPSWAP << MEM_OP) ATOMICS("cmpswap_x2", "2", "4", 8 | OP_CMPSWAP << MEM_OP)
    ATOMICS("cmpswap_b32", "1", "2", 4 | OP_CMPSWAP << MEM_OP) ATOMICS("cmpswap_b64", "2", "4", 8 | OP_CMPSWAP << MEM_OP)
    ATOMICS("cmpswap_f32", "1", "2", 4 | OP_FCMPSWAP << MEM_OP)
    { "global_atomic_csub_u32", h_global_atomic, "s0 s1 s0", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
    { "global_atomic_csub_u32", h_global_atomic, "d1 s0 s1 s0", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
    { "buffer_atomic_csub_u32", h_buffer_atomic, "b1 s0 s4 s1", EMU_VMEM_ATOMIC, 4 | OP_CSUB << MEM_OP },
#define CACHE(n) { n, h_nothing, "*", EMU_CACHE, 0 },
    CACHE("buffer_inv") CACHE("buffer_wbl2") CACHE("buffer_invl2") CACHE("buffer_wbinvl1") CACHE("buffer_wbinvl1_vol")
    CACHE("buffer_gl0_inv") CACHE("buffer_gl1_inv") CACHE("global_inv") CACHE("global_wb") CACHE("global_wbinv")
#define SLOADS(n, d, bytes)                                                                                            \
    { "s_load_" n, h_s_load, d " s2 s1?", EMU_SMEM, bytes },                                                           \
    { "s_buffer_load_" n, h_s_buffer_load, d " s4 s1?", EMU_SMEM, bytes },
    SLOADS("dword", "d1", 4) SLOADS("dwordx2", "d2", 8) SLOADS("dwordx4", "d4", 16) SLOADS("dwordx8", "d8", 32)
    SLOADS("dwordx16", "d16", 64) SLOADS("b32", "d1", 4) SLOADS("b64", "d2", 8) SLOADS("b128", "d4", 16)
    SLOADS("b256", "d8", 32) SLOADS("b512", "d16", 64) SLOADS("b96", "d3", 12)
    { "s_load_u8", h_s_load_small, "d1 s2 s1?", EMU_SMEM, 1 },
    { "s_load_i8", h_s_load_small, "d1 s2 s1?", EMU_SMEM, 1 | MEM_SIGNED },
    { "s_load_u16", h_s_load_small, "d1 s2 s1?", EMU_SMEM, 2 },
    { "s_load_i16", h_s_load_small, "d1 s2 s1?", EMU_SMEM, 2 | MEM_SIGNED },
    { "s_store_dword", h_s_store, "s1 s2 s1?", EMU_SMEM, 4 },
    { "s_store_dwordx2", h_s_store, "s2 s2 s1?", EMU_SMEM, 8 },
    { "s_store_dwordx4", h_s_store, "s4 s2 s1?", EMU_SMEM, 16 },
#define SATOMIC(n, data, info)                                                                                         \
    { "s_atomic_" n, h_s_atomic, data " s2 s1?", EMU_SMEM, info },                                                     \
    { "s_buffer_atomic_" n, h_s_buffer_atomic, data " s4 s1?", EMU_SMEM, info },
#define SATOMICS(n, op) SATOMIC(n, "b1", 4 | (op) << MEM_OP) SATOMIC(n "_x2", "b2", 8 | (op) << MEM_OP)
    SATOMICS("swap", OP_SWAP) SATOMICS("add", OP_ADD) SATOMICS("sub", OP_SUB) SATOMICS("smin", OP_SMIN)
    SATOMICS("umin", OP_UMIN) SATOMICS("smax", OP_SMAX) SATOMICS("umax", OP_UMAX) SATOMICS("and", OP_AND)
    SATOMICS("or", OP_OR) SATOMICS("xor", OP_XOR) SATOMICS("inc", OP_INC) SATOMICS("dec", OP_DEC)
    SATOMIC("cmpswap", "b2", 4 | OP_CMPSWAP << MEM_OP) SATOMIC("cmpswap_x2", "b4", 8 | OP_CMPSWAP << MEM_OP)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_vmem) = { rows, COUNT(rows) };
