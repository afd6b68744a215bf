/* SPDX-License-Identifier: MIT
 *
 * Memory instructions: global, flat, buffer and scratch accesses, LDS, atomics. Addresses of all lanes are computed
 * first and checked together; lanes that are switched off or out of bounds touch nothing. */
#include "isa.h"

#include "float.h"
#include "memory.h"

/* What a load does with what it read, a store with what it writes; in the upper byte of info, the lower one is the
 * bytes of a lane. */
enum { ZERO, SIGN, D16, D16_HI, D16_SIGN, D16_HI_SIGN, HIGH };
#define INFO(bytes, how) ((bytes) | (how) << 8)

#define EACH(lanes) for (uint64_t m_ = (lanes), l = 0; m_ && (l = (uint64_t)__builtin_ctzll(m_), 1); m_ &= m_ - 1)

/* ---- addresses ------------------------------------------------------------------------------------------------------
 */

/* vaddr (operand k), saddr (operand s): a 64-bit pair, or a 32-bit offset on a scalar base. */
static void global_addresses(W *w, I *i, int k, int s, uint64_t *addr)
{
    uint64_t base = (uint64_t)(int64_t)i->m.offset;
    if (i->reg[s] != EMU_NONE) {
        base += emu_s64(w, i, s);
        if (i->reg[k] == EMU_NONE)
            LANES addr[l] = base;
        else {
            const uint32_t *v = emu_row(w, i->reg[k]);
            LANES addr[l] = base + v[l];
        }
        return;
    }
    const uint32_t *lo = emu_row(w, i->reg[k]), *hi = emu_row(w, (uint16_t)(i->reg[k] + 1));
    LANES addr[l] = (lo[l] | (uint64_t)hi[l] << 32) + base;
}

/* Scratch: byte offsets in a lane's own memory. */
static uint8_t *scratch_at(W *w, I *i, int lane, uint64_t offset, unsigned bytes)
{
    if (offset + bytes > w->scratch_bytes) {
        emu_report(w, i, "scratch-out-of-bounds", true, UINT64_C(1) << lane,
                   "%u bytes at offset %llu of %u bytes a lane", bytes, (unsigned long long)offset, w->scratch_bytes);
        return NULL;
    }
    return w->scratch + (size_t)lane * w->scratch_bytes + offset;
}

/* ---- moving ---------------------------------------------------------------------------------------------------------
 */

static void load_lane(W *w, I *i, int k, int lane, const void *from)
{
    int bytes = i->op->info & 255, how = i->op->info >> 8;
    uint32_t v[4] = { 0 };
    memcpy(v, from, (size_t)bytes);
    uint32_t *d = &emu_row(w, i->reg[k])[lane];
    bool sign = how == SIGN || how == D16_SIGN || how == D16_HI_SIGN;
    if (sign)
        v[0] = bytes == 1 ? (uint32_t)(int8_t)v[0] : (uint32_t)(int16_t)v[0];
    if (how == D16 || how == D16_SIGN)
        v[0] = (v[0] & 0xffff) | (*d & 0xffff0000u);
    if (how == D16_HI || how == D16_HI_SIGN)
        v[0] = v[0] << 16 | (*d & 0xffff);
    for (int n = 0; n < (bytes + 3) / 4; n++)
        emu_row(w, (uint16_t)(i->reg[k] + n))[lane] = v[n];
}

static void store_lane(W *w, I *i, int k, int lane, void *to)
{
    int bytes = i->op->info & 255, how = i->op->info >> 8;
    uint32_t v[4];
    for (int n = 0; n < (bytes + 3) / 4; n++)
        v[n] = emu_row(w, (uint16_t)(i->reg[k] + n))[lane];
    if (how == HIGH)
        v[0] >>= 16;
    memcpy(to, v, (size_t)bytes);
}

static void x_global_load(W *w, I *i)
{
    uint64_t addr[64];
    global_addresses(w, i, 1, 2, addr);
    uint64_t ok = emu_global(w, i, EMU_IS_LOAD, addr, w->exec, i->op->info & 255);
    if (i->op->info == INFO(16, ZERO)) {
        uint32_t *d = emu_row(w, i->reg[0]);
        EACH(ok)
        {
            uint32_t v[4];
            memcpy(v, (void *)(uintptr_t)addr[l], 16);
            d[l] = v[0];
            d[l + 64] = v[1];
            d[l + 128] = v[2];
            d[l + 192] = v[3];
        }
        return;
    }
    EACH(ok) load_lane(w, i, 0, (int)l, (void *)(uintptr_t)addr[l]);
}

static void x_global_store(W *w, I *i)
{
    uint64_t addr[64];
    global_addresses(w, i, 0, 2, addr);
    uint64_t ok = emu_global(w, i, EMU_IS_STORE, addr, w->exec, i->op->info & 255);
    EACH(ok) store_lane(w, i, 1, (int)l, (void *)(uintptr_t)addr[l]);
}

/* FLAT: by aperture to LDS or scratch, else global. */
static void flat(W *w, I *i, int k, int data, bool store)
{
    uint64_t addr[64], global = 0, lds = 0, scratch = 0;
    uint32_t offset[64];
    unsigned bytes = i->op->info & 255;
    const uint32_t *lo = emu_row(w, i->reg[k]), *hi = emu_row(w, (uint16_t)(i->reg[k] + 1));
    LANES
    {
        addr[l] = (lo[l] | (uint64_t)hi[l] << 32) + (uint64_t)(int64_t)i->m.offset;
        offset[l] = (uint32_t)addr[l];
        uint64_t bit = UINT64_C(1) << l;
        *(addr[l] >> 32 == EMU_SHARED_BASE >> 32    ? &lds
          : addr[l] >> 32 == EMU_PRIVATE_BASE >> 32 ? &scratch
                                                    : &global) |= bit;
    }
    enum emu_kind kind = store ? EMU_IS_STORE : EMU_IS_LOAD;
    global &= w->exec;
    if (global)
        global = emu_global(w, i, kind, addr, global, bytes);
    lds &= w->exec;
    if (lds)
        lds = emu_lds(w, i, kind, offset, lds, bytes);
    EACH(w->exec & (global | lds | scratch))
    {
        uint64_t bit = UINT64_C(1) << l;
        uint8_t *p = global & bit ? (uint8_t *)(uintptr_t)addr[l]
                     : lds & bit  ? w->wg->lds + offset[l]
                                  : scratch_at(w, i, (int)l, offset[l], bytes);
        if (p && store)
            store_lane(w, i, data, (int)l, p);
        else if (p)
            load_lane(w, i, data, (int)l, p);
    }
}

static void x_flat_load(W *w, I *i)
{
    flat(w, i, 1, 0, false);
}

static void x_flat_store(W *w, I *i)
{
    flat(w, i, 0, 1, true);
}

static void scratch(W *w, I *i, int k, int s, int data, bool store)
{
    uint32_t base = (uint32_t)i->m.offset + (i->reg[s] == EMU_NONE ? 0 : emu_s32(w, i, s));
    const uint32_t *v = i->reg[k] == EMU_NONE ? NULL : emu_row(w, i->reg[k]);
    EACH(w->exec)
    {
        uint8_t *p = scratch_at(w, i, (int)l, base + (v ? v[l] : 0), i->op->info & 255);
        if (p && store)
            store_lane(w, i, data, (int)l, p);
        else if (p)
            load_lane(w, i, data, (int)l, p);
    }
}

static void x_scratch_load(W *w, I *i)
{
    scratch(w, i, 1, 2, 0, false);
}

static void x_scratch_store(W *w, I *i)
{
    scratch(w, i, 0, 2, 1, true);
}

/* Buffers: a 128-bit descriptor of base, stride and number of records. What lies beyond them reads as 0 and is not
 * written. Operand k is vaddr, then come the descriptor and soffset. */
static uint64_t buffer_addresses(W *w, I *i, int k, uint64_t *addr, unsigned bytes)
{
    const uint32_t *d = &w->s[i->reg[k + 1]];
    uint64_t base = d[0] | (uint64_t)(d[1] & 0xffff) << 32, inside = 0;
    uint32_t stride = d[1] >> 16 & 0x3fff, records = d[2], soffset = emu_s32(w, i, k + 2);
    const uint32_t *v = i->reg[k] == EMU_NONE ? NULL : emu_row(w, i->reg[k]);
    const uint32_t *v2 = i->m.idxen && i->m.offen ? emu_row(w, (uint16_t)(i->reg[k] + 1)) : v;
    LANES
    {
        uint64_t index = i->m.idxen && v ? v[l] : 0, off = (i->m.offen && v2 ? v2[l] : 0) + (uint32_t)i->m.offset;
        bool in = stride ? index < records && off + bytes <= stride : off + soffset + bytes <= records;
        addr[l] = base + soffset + index * stride + off;
        inside |= (uint64_t)in << l;
    }
    return inside;
}

/* A swizzled buffer is how gfx9 reaches scratch memory: launch.c gives the descriptor. soffset counts for the wave. */
static bool buffer_scratch(W *w, I *i, bool store)
{
    if (!(w->s[i->reg[2] + 1] >> 31))
        return false;
    uint32_t base = (uint32_t)i->m.offset + emu_s32(w, i, 3) / w->lanes;
    const uint32_t *v = i->m.offen ? emu_row(w, i->reg[1]) : NULL;
    EACH(w->exec)
    {
        uint8_t *p = scratch_at(w, i, (int)l, base + (v ? v[l] : 0), i->op->info & 255);
        if (p && store)
            store_lane(w, i, 0, (int)l, p);
        else if (p)
            load_lane(w, i, 0, (int)l, p);
    }
    return true;
}

/* No data register: lane l's element goes to LDS at M0 + offset + l elements. */
static void buffer_to_lds(W *w, I *i)
{
    unsigned bytes = i->op->info & 255, step = bytes < 4 ? 4 : bytes;
    uint64_t addr[64], inside = buffer_addresses(w, i, 0, addr, bytes);
    uint32_t at[64];
    LANES at[l] = (w->s[EMU_M0] & 0xffff) + (uint32_t)i->m.offset + step * (uint32_t)l;
    uint64_t ok = emu_global(w, i, EMU_IS_LOAD, addr, w->exec & inside, bytes) | (w->exec & ~inside);
    ok = emu_lds(w, i, EMU_IS_STORE, at, ok, step);
    EACH(ok)
    {
        uint32_t v[4] = { 0 };
        if (inside >> l & 1)
            memcpy(v, (void *)(uintptr_t)addr[l], bytes);
        memcpy(w->wg->lds + at[l], v, step);
    }
}

static void x_buffer_load(W *w, I *i)
{
    static const uint32_t zero[4];
    uint64_t addr[64], inside;
    if (i->m.lds) {
        buffer_to_lds(w, i);
        return;
    }
    if (buffer_scratch(w, i, false))
        return;
    inside = buffer_addresses(w, i, 1, addr, i->op->info & 255);
    EACH(w->exec & ~inside) load_lane(w, i, 0, (int)l, zero);
    uint64_t ok = emu_global(w, i, EMU_IS_LOAD, addr, w->exec & inside, i->op->info & 255);
    EACH(ok) load_lane(w, i, 0, (int)l, (void *)(uintptr_t)addr[l]);
}

static void x_buffer_store(W *w, I *i)
{
    if (buffer_scratch(w, i, true))
        return;
    uint64_t addr[64], inside = buffer_addresses(w, i, 1, addr, i->op->info & 255);
    uint64_t ok = emu_global(w, i, EMU_IS_STORE, addr, w->exec & inside, i->op->info & 255);
    EACH(ok) store_lane(w, i, 0, (int)l, (void *)(uintptr_t)addr[l]);
}

/* ---- LDS
 * ------------------------------------------------------------------------------------------------------------- */

static void x_ds_read(W *w, I *i)
{
    const uint32_t *a = emu_row(w, i->reg[1]);
    uint32_t at[64];
    LANES at[l] = a[l] + (uint32_t)i->m.offset;
    uint64_t ok = emu_lds(w, i, EMU_IS_LOAD, at, w->exec, i->op->info & 255);
    EACH(ok) load_lane(w, i, 0, (int)l, w->wg->lds + at[l]);
}

static void x_ds_write(W *w, I *i)
{
    const uint32_t *a = emu_row(w, i->reg[0]);
    uint32_t at[64];
    LANES at[l] = a[l] + (uint32_t)i->m.offset;
    uint64_t ok = emu_lds(w, i, EMU_IS_STORE, at, w->exec, i->op->info & 255);
    EACH(ok) store_lane(w, i, 1, (int)l, w->wg->lds + at[l]);
}

/* Two elements, at offset0 and offset1 elements (times 64 for st64). info: bytes of an element; the upper byte is the
 * factor of the offsets: 1 or 64. */
static void ds_2addr(W *w, I *i, int k, bool store)
{
    const uint32_t *a = emu_row(w, i->reg[k]);
    int bytes = i->op->info & 255, factor = i->op->info >> 8, words = bytes / 4;
    for (int e = 0; e < 2; e++) {
        uint32_t at[64];
        LANES at[l] = a[l] + (uint32_t)((e ? i->m.offset1 : i->m.offset) * bytes * factor);
        uint64_t ok = emu_lds(w, i, store ? EMU_IS_STORE : EMU_IS_LOAD, at, w->exec, (unsigned)bytes);
        for (int n = 0; n < words; n++) {
            uint32_t *row =
                store ? emu_row(w, (uint16_t)(i->reg[1 + e] + n)) : emu_row(w, (uint16_t)(i->reg[0] + e * words + n));
            EACH(ok)
            {
                uint8_t *p = w->wg->lds + at[l] + 4 * n;
                if (store)
                    memcpy(p, &row[l], 4);
                else
                    memcpy(&row[l], p, 4);
            }
        }
    }
}

/* The address register may be among those loaded: it is read once, before. */
static void x_ds_read2(W *w, I *i)
{
    struct emu_inst copy = *i;
    uint32_t save[64];
    int words = 2 * (i->op->info & 255) / 4;
    if (i->reg[1] >= i->reg[0] && i->reg[1] < i->reg[0] + words) {
        /* Load the half that does not hold the address last. */
        memcpy(save, emu_row(w, i->reg[1]), sizeof(save));
        const uint32_t *a = save;
        int bytes = i->op->info & 255, factor = i->op->info >> 8;
        for (int e = 0; e < 2; e++) {
            uint32_t at[64];
            LANES at[l] = a[l] + (uint32_t)((e ? i->m.offset1 : i->m.offset) * bytes * factor);
            uint64_t ok = emu_lds(w, i, EMU_IS_LOAD, at, w->exec, (unsigned)bytes);
            for (int n = 0; n < bytes / 4; n++)
                EACH(ok)
            memcpy(&emu_row(w, (uint16_t)(i->reg[0] + e * bytes / 4 + n))[l], w->wg->lds + at[l] + 4 * n, 4);
        }
        return;
    }
    ds_2addr(w, &copy, 1, false);
}

static void x_ds_write2(W *w, I *i)
{
    ds_2addr(w, i, 0, true);
}

/* info 1: push (permute): lane's value goes to lane addr / 4; 0: pull. Only lanes that are on give. */
static void x_ds_permute(W *w, I *i)
{
    const uint32_t *a = emu_row(w, i->reg[1]), *v = emu_row(w, i->reg[2]);
    uint32_t r[64] = { 0 };
    int mask = w->lanes - 1;
    EACH(w->exec)
    {
        int other = (int)((a[l] + (uint32_t)i->m.offset) >> 2) & mask;
        if (i->op->info)
            r[other] = v[l];
        else
            r[l] = w->exec >> other & 1 ? v[other] : 0;
    }
    uint32_t *d = emu_row(w, i->reg[0]);
    EACH(w->exec) d[l] = r[l];
}

/* offset: bit 15 set: a quad permutation; else and, or, xor masks of 5 bits within groups of 32. */
static void x_ds_swizzle(W *w, I *i)
{
    const uint32_t *v = emu_row(w, i->reg[1]);
    uint32_t r[64], o = (uint32_t)i->m.offset;
    LANES
    {
        int from = o >> 15 ? (l & ~3) + (int)(o >> 2 * (l & 3) & 3)
                           : (l & 32) | ((((l & 31) & (int)(o & 31)) | (int)(o >> 5 & 31)) ^ (int)(o >> 10 & 31));
        r[l] = w->exec >> from & 1 ? v[from] : 0;
    }
    uint32_t *d = emu_row(w, i->reg[0]);
    EACH(w->exec) d[l] = r[l];
}

/* ---- atomics
 * ----------------------------------------------------------------------------------------------------------- */

enum atomic {
    ADD,
    SUB,
    SMIN,
    UMIN,
    SMAX,
    UMAX,
    AND,
    OR,
    XOR,
    INC,
    DEC,
    SWAP,
    CMPSWAP,
    FADD,
    PK_ADD_F16,
    PK_ADD_BF16,
    DADD,
    FMIN,
    FMAX,
    RSUB
};

static uint16_t to_bf16(float f)
{
    uint32_t u = f2u(f);
    return (uint16_t)(f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint64_t combine(enum atomic op, uint64_t old, uint64_t v, uint64_t cmp, int bytes)
{
    bool wide = bytes == 8;
    int64_t so = wide ? (int64_t)old : (int32_t)old, sv = wide ? (int64_t)v : (int32_t)v;
    switch (op) {
    case ADD:
        return old + v;
    case SUB:
        return old - v;
    case RSUB:
        return v - old;
    case SMIN:
        return so < sv ? old : v;
    case SMAX:
        return so > sv ? old : v;
    case UMIN:
        return old < v ? old : v;
    case UMAX:
        return old > v ? old : v;
    case AND:
        return old & v;
    case OR:
        return old | v;
    case XOR:
        return old ^ v;
    case INC:
        return old >= v ? 0 : old + 1;
    case DEC:
        return old == 0 || old > v ? v : old - 1;
    case SWAP:
        return v;
    case CMPSWAP:
        return old == cmp ? v : old;
    case FADD:
        return f2u(u2f((uint32_t)old) + u2f((uint32_t)v));
    case FMIN:
        return u2f((uint32_t)v) < u2f((uint32_t)old) ? v : old;
    case FMAX:
        return u2f((uint32_t)v) > u2f((uint32_t)old) ? v : old;
    case DADD:
        return d2u(u2d(old) + u2d(v));
    case PK_ADD_F16:
        return float_to_half(half_to_float((uint16_t)old) + half_to_float((uint16_t)v)) |
               (uint32_t)float_to_half(half_to_float((uint16_t)(old >> 16)) + half_to_float((uint16_t)(v >> 16))) << 16;
    case PK_ADD_BF16:
        return to_bf16(u2f((uint32_t)old << 16) + u2f((uint32_t)v << 16)) |
               (uint32_t)to_bf16(u2f((uint32_t)old & 0xffff0000u) + u2f((uint32_t)v & 0xffff0000u)) << 16;
    }
    return old;
}

static uint64_t data_of(W *w, I *i, int k, int n, uint64_t lane)
{
    uint16_t r = i->reg[k];
    uint64_t v = emu_row(w, (uint16_t)(r + n))[lane];
    return v;
}

/* One lane's read-modify-write at p; the value before goes to operand d (-1: nowhere). Operand k: new value, then (low
 * words first) the one to compare with. */
static void modify(W *w, I *i, int k, int d, uint64_t lane, void *p)
{
    int bytes = i->op->info >> 8, words = bytes / 4;
    enum atomic op = (enum atomic)(i->op->info & 255);
    uint64_t old = 0, v = data_of(w, i, k, 0, lane), cmp = 0;
    if (words == 2)
        v |= data_of(w, i, k, 1, lane) << 32;
    if (op == CMPSWAP) {
        cmp = data_of(w, i, k, words, lane);
        if (words == 2)
            cmp |= data_of(w, i, k, 3, lane) << 32;
    }
    memcpy(&old, p, (size_t)bytes);
    uint64_t now = combine(op, old, v, cmp, bytes);
    memcpy(p, &now, (size_t)bytes);
    if (d >= 0)
        for (int n = 0; n < words; n++)
            emu_row(w, (uint16_t)(i->reg[d] + n))[lane] = (uint32_t)(old >> 32 * n);
}

/* "d? vaddr data saddr": with a result where glc or sc0 asks for it. */
static void x_global_atomic(W *w, I *i)
{
    uint64_t addr[64];
    int first = i->m.ret ? 1 : 0;
    global_addresses(w, i, first, first + 2, addr);
    uint64_t ok = emu_global(w, i, EMU_IS_ATOMIC, addr, w->exec, (unsigned)i->op->info >> 8);
    EACH(ok) modify(w, i, first + 1, i->m.ret ? 0 : -1, l, (void *)(uintptr_t)addr[l]);
}

static void x_flat_atomic(W *w, I *i)
{
    uint64_t addr[64];
    int first = i->m.ret ? 1 : 0;
    const uint32_t *lo = emu_row(w, i->reg[first]), *hi = emu_row(w, (uint16_t)(i->reg[first] + 1));
    LANES addr[l] = (lo[l] | (uint64_t)hi[l] << 32) + (uint64_t)(int64_t)i->m.offset;
    uint64_t ok = emu_global(w, i, EMU_IS_ATOMIC, addr, w->exec, (unsigned)i->op->info >> 8);
    EACH(ok) modify(w, i, first + 1, i->m.ret ? 0 : -1, l, (void *)(uintptr_t)addr[l]);
}

static void ds_atomic(W *w, I *i, int k, int d)
{
    const uint32_t *a = emu_row(w, i->reg[k]);
    uint32_t at[64];
    LANES at[l] = a[l] + (uint32_t)i->m.offset;
    uint64_t ok = emu_lds(w, i, EMU_IS_ATOMIC, at, w->exec, (unsigned)i->op->info >> 8);
    EACH(ok) modify(w, i, k + 1, d, l, w->wg->lds + at[l]);
}

static void x_ds_atomic(W *w, I *i)
{
    ds_atomic(w, i, 0, -1);
}

static void x_ds_atomic_rtn(W *w, I *i)
{
    ds_atomic(w, i, 1, 0);
}

static void x_cache(W *w, I *i)
{
    (void)w, (void)i;
}

/* ---- the table
 * ----------------------------------------------------------------------------------------------------------- */

#define LOADS(M)                                                                                                       \
    M("ubyte", "u8", 1, 1, ZERO)                                                                                       \
    M("sbyte", "i8", 1, 1, SIGN)                                                                                       \
    M("ushort", "u16", 1, 2, ZERO)                                                                                     \
    M("sshort", "i16", 1, 2, SIGN)                                                                                     \
    M("dword", "b32", 1, 4, ZERO)                                                                                      \
    M("dwordx2", "b64", 2, 8, ZERO)                                                                                    \
    M("dwordx3", "b96", 3, 12, ZERO)                                                                                   \
    M("dwordx4", "b128", 4, 16, ZERO)                                                                                  \
    M("ubyte_d16", "d16_u8", 1, 1, D16)                                                                                \
    M("ubyte_d16_hi", "d16_hi_u8", 1, 1, D16_HI)                                                                       \
    M("sbyte_d16", "d16_i8", 1, 1, D16_SIGN)                                                                           \
    M("sbyte_d16_hi", "d16_hi_i8", 1, 1, D16_HI_SIGN)                                                                  \
    M("short_d16", "d16_b16", 1, 2, D16)                                                                               \
    M("short_d16_hi", "d16_hi_b16", 1, 2, D16_HI)
#define STORES(M)                                                                                                      \
    M("byte", "b8", 1, 1, ZERO)                                                                                        \
    M("short", "b16", 1, 2, ZERO)                                                                                      \
    M("dword", "b32", 1, 4, ZERO)                                                                                      \
    M("dwordx2", "b64", 2, 8, ZERO)                                                                                    \
    M("dwordx3", "b96", 3, 12, ZERO)                                                                                   \
    M("dwordx4", "b128", 4, 16, ZERO)                                                                                  \
    M("byte_d16_hi", "d16_hi_b8", 1, 1, HIGH)                                                                          \
    M("short_d16_hi", "d16_hi_b16", 1, 2, HIGH)

#define GLOAD(a, b, words, bytes, how)                                                                                 \
    { "global_load_" a, x_global_load, "d" #words " s0 s0", EMU_LOAD, 'u', INFO(bytes, how) },                         \
        { "global_load_" b, x_global_load, "d" #words " s0 s0", EMU_LOAD, 'u', INFO(bytes, how) },                     \
        { "flat_load_" a, x_flat_load, "d" #words " s2", EMU_LOAD, 'u', INFO(bytes, how) },                            \
        { "flat_load_" b, x_flat_load, "d" #words " s2", EMU_LOAD, 'u', INFO(bytes, how) },                            \
        { "scratch_load_" a, x_scratch_load, "d" #words " s0 s0", EMU_LOAD, 'u', INFO(bytes, how) },                   \
        { "scratch_load_" b, x_scratch_load, "d" #words " s0 s0", EMU_LOAD, 'u', INFO(bytes, how) },                   \
        { "buffer_load_" a, x_buffer_load, "s0 s4 s1/d" #words " s0 s4 s1", EMU_LOAD, 'u', INFO(bytes, how) },         \
        { "buffer_load_" b, x_buffer_load, "s0 s4 s1/d" #words " s0 s4 s1", EMU_LOAD, 'u', INFO(bytes, how) },
#define GSTORE(a, b, words, bytes, how)                                                                                \
    { "global_store_" a, x_global_store, "s0 s" #words " s0", EMU_STORE, 'u', INFO(bytes, how) },                      \
        { "global_store_" b, x_global_store, "s0 s" #words " s0", EMU_STORE, 'u', INFO(bytes, how) },                  \
        { "flat_store_" a, x_flat_store, "s2 s" #words, EMU_STORE, 'u', INFO(bytes, how) },                            \
        { "flat_store_" b, x_flat_store, "s2 s" #words, EMU_STORE, 'u', INFO(bytes, how) },                            \
        { "scratch_store_" a, x_scratch_store, "s0 s" #words " s0", EMU_STORE, 'u', INFO(bytes, how) },                \
        { "scratch_store_" b, x_scratch_store, "s0 s" #words " s0", EMU_STORE, 'u', INFO(bytes, how) },                \
        { "buffer_store_" a, x_buffer_store, "s" #words " s0 s4 s1", EMU_STORE, 'u', INFO(bytes, how) },               \
        { "buffer_store_" b, x_buffer_store, "s" #words " s0 s4 s1", EMU_STORE, 'u', INFO(bytes, how) },
#define DSR(a, words, bytes, how)                                                                                      \
    { "ds_read_" a, x_ds_read, "d" #words " s1", EMU_LDS_OP, 'u', INFO(bytes, how) },                                  \
        { "ds_load_" a, x_ds_read, "d" #words " s1", EMU_LDS_OP, 'u', INFO(bytes, how) },
#define DSW(a, words, bytes, how)                                                                                      \
    { "ds_write_" a, x_ds_write, "s1 s" #words, EMU_LDS_OP, 'u', INFO(bytes, how) },                                   \
        { "ds_store_" a, x_ds_write, "s1 s" #words, EMU_LDS_OP, 'u', INFO(bytes, how) },
/* name on gfx9, name on gfx11 with its type, operation; 32 bits and 64 bits */
#define ATOMICS(M)                                                                                                     \
    M("add", "add_u", ADD)                                                                                             \
    M("sub", "sub_u", SUB)                                                                                             \
    M("smin", "min_i", SMIN)                                                                                           \
    M("umin", "min_u", UMIN)                                                                                           \
    M("smax", "max_i", SMAX)                                                                                           \
    M("umax", "max_u", UMAX)                                                                                           \
    M("and", "and_b", AND)                                                                                             \
    M("or", "or_b", OR)                                                                                                \
    M("xor", "xor_b", XOR)                                                                                             \
    M("inc", "inc_u", INC)                                                                                             \
    M("dec", "dec_u", DEC)                                                                                             \
    M("swap", "swap_b", SWAP)
#define RMW(name, w, op, bytes)                                                                                        \
    {                                                                                                                  \
        "global_atomic_" name, x_global_atomic, "s0 s" #w " s0/d0 s0 s" #w " s0", EMU_ATOMIC, 'u', (op) | (bytes) << 8 \
    },                                                                                                                 \
        { "flat_atomic_" name, x_flat_atomic, "s2 s" #w "/d0 s2 s" #w, EMU_ATOMIC, 'u', (op) | (bytes) << 8 },
#define GATOMIC(a, b, op)         RMW(a, 1, op, 4) RMW(a "_x2", 2, op, 8) RMW(b "32", 1, op, 4) RMW(b "64", 2, op, 8)
#define DSRMW(name, w, op, bytes) { "ds_" name, x_ds_atomic, "s1 s" #w, EMU_LDS_OP, 'u', (op) | (bytes) << 8 },
#define DSRTN(name, w, op, bytes)                                                                                      \
    { "ds_" name, x_ds_atomic_rtn, "d" #w " s1 s" #w, EMU_LDS_OP, 'u', (op) | (bytes) << 8 },
#define DSA(verb, type, op)                                                                                            \
    DSRMW(verb "_" type "32", 1, op, 4)                                                                                \
    DSRMW(verb "_" type "64", 2, op, 8) DSRTN(verb "_rtn_" type "32", 1, op, 4) DSRTN(verb "_rtn_" type "64", 2, op, 8)
#define CACHE(name) { name, x_cache, "", EMU_CACHE, 'u', 0 },

const struct emu_op emu_memory_ops[] = {
    LOADS(GLOAD) STORES(GSTORE) DSR("u8", 1, 1, ZERO) DSR("i8", 1, 1, SIGN) DSR("u16", 1, 2, ZERO)
        DSR("i16", 1, 2, SIGN) DSR("b32", 1, 4, ZERO) DSR("b64", 2, 8, ZERO) DSR("b96", 3, 12, ZERO)
            DSR("b128", 4, 16, ZERO) DSR("u8_d16", 1, 1, D16) DSR("u8_d16_hi", 1, 1, D16_HI) DSR("u16_d16", 1, 2, D16)
                DSR("u16_d16_hi", 1, 2, D16_HI) DSW("b8", 1, 1, ZERO) DSW("b16", 1, 2, ZERO) DSW("b32", 1, 4, ZERO) DSW(
                    "b64", 2, 8, ZERO) DSW("b96", 3, 12, ZERO) DSW("b128", 4, 16, ZERO) DSW("b8_d16_hi", 1, 1, HIGH)
                    DSW("b16_d16_hi", 1, 2, HIGH){ "ds_read2_b32", x_ds_read2, "d2 s1", EMU_LDS_OP, 'u', INFO(4, 1) },
    { "ds_read2_b64", x_ds_read2, "d4 s1", EMU_LDS_OP, 'u', INFO(8, 1) },
    { "ds_read2st64_b32", x_ds_read2, "d2 s1", EMU_LDS_OP, 'u', INFO(4, 64) },
    { "ds_read2st64_b64", x_ds_read2, "d4 s1", EMU_LDS_OP, 'u', INFO(8, 64) },
    { "ds_load_2addr_b32", x_ds_read2, "d2 s1", EMU_LDS_OP, 'u', INFO(4, 1) },
    { "ds_load_2addr_b64", x_ds_read2, "d4 s1", EMU_LDS_OP, 'u', INFO(8, 1) },
    { "ds_load_2addr_stride64_b32", x_ds_read2, "d2 s1", EMU_LDS_OP, 'u', INFO(4, 64) },
    { "ds_load_2addr_stride64_b64", x_ds_read2, "d4 s1", EMU_LDS_OP, 'u', INFO(8, 64) },
    { "ds_write2_b32", x_ds_write2, "s1 s1 s1", EMU_LDS_OP, 'u', INFO(4, 1) },
    { "ds_write2_b64", x_ds_write2, "s1 s2 s2", EMU_LDS_OP, 'u', INFO(8, 1) },
    { "ds_write2st64_b32", x_ds_write2, "s1 s1 s1", EMU_LDS_OP, 'u', INFO(4, 64) },
    { "ds_write2st64_b64", x_ds_write2, "s1 s2 s2", EMU_LDS_OP, 'u', INFO(8, 64) },
    { "ds_store_2addr_b32", x_ds_write2, "s1 s1 s1", EMU_LDS_OP, 'u', INFO(4, 1) },
    { "ds_store_2addr_b64", x_ds_write2, "s1 s2 s2", EMU_LDS_OP, 'u', INFO(8, 1) },
    { "ds_store_2addr_stride64_b32", x_ds_write2, "s1 s1 s1", EMU_LDS_OP, 'u', INFO(4, 64) },
    { "ds_store_2addr_stride64_b64", x_ds_write2, "s1 s2 s2", EMU_LDS_OP, 'u', INFO(8, 64) },
    { "ds_bpermute_b32", x_ds_permute, "d1 s1 s1", EMU_LDS_OP, 'u', 0 },
    { "ds_permute_b32", x_ds_permute, "d1 s1 s1", EMU_LDS_OP, 'u', 1 },
    { "ds_swizzle_b32", x_ds_swizzle, "d1 s1", EMU_LDS_OP, 'u', 0 },
    ATOMICS(GATOMIC) RMW("cmpswap", 2, CMPSWAP, 4) RMW("cmpswap_x2", 4, CMPSWAP, 8) RMW("cmpswap_b32", 2, CMPSWAP, 4)
        RMW("cmpswap_b64", 4, CMPSWAP, 8) RMW("add_f32", 1, FADD, 4) RMW("add_f64", 2, DADD, 8)
            RMW("pk_add_f16", 1, PK_ADD_F16, 4) RMW("pk_add_bf16", 1, PK_ADD_BF16, 4) DSA("add", "u", ADD)
                DSA("sub", "u", SUB) DSA("rsub", "u", RSUB) DSA("min", "i", SMIN) DSA("min", "u", UMIN)
                    DSA("max", "i", SMAX) DSA("max", "u", UMAX) DSA("and", "b", AND) DSA("or", "b", OR)
                        DSA("xor", "b", XOR) DSA("inc", "u", INC) DSA("dec", "u", DEC) DSRMW("add_f32", 1, FADD, 4)
                            DSRTN("add_rtn_f32", 1, FADD, 4) DSRTN("wrxchg_rtn_b32", 1, SWAP, 4)
                                DSRTN("wrxchg_rtn_b64", 2, SWAP, 8) DSRTN("storexchg_rtn_b32", 1, SWAP, 4)
                                    DSRTN("storexchg_rtn_b64", 2, SWAP, 8) CACHE("buffer_wbinvl1")
                                        CACHE("buffer_wbinvl1_vol") CACHE("buffer_wbl2") CACHE("buffer_inv")
                                            CACHE("buffer_invl2") CACHE("buffer_gl0_inv")
                                                CACHE("buffer_gl1_inv"){ NULL, NULL, NULL, 0, 0, 0 },
};
