/* SPDX-License-Identifier: MIT
 *
 * Lanes' bytes between registers and memory, and atomics on it: for every address space. */
#include "isa_mem.h"
#include "isa_math.h"

static inline int words_of(unsigned bytes)
{
    return bytes < 4 ? 1 : (int)bytes / 4;
}

static inline uint32_t load_small(const uint8_t *p, unsigned bytes, bool is_signed)
{
    uint16_t h;
    if (bytes == 1)
        return is_signed ? (uint32_t)(int8_t)*p : *p;
    memcpy(&h, p, 2);
    return is_signed ? (uint32_t)(int16_t)h : h;
}

static void commit_rows(struct emu_wave *w, const struct emu_inst *i, int k, row32 *t, int words, uint64_t lanes)
{
    for (int d = 0; d < words; d++)
        blend(vrow(w, i->reg[k] + (unsigned)d), t[d], lanes);
}

/* Rows of four words each from 64 lanes' 16 bytes. */
typedef uint32_t quad __attribute__((vector_size(16)));
static inline quad load_quad(const uint8_t *base, uint64_t addr)
{
    quad q;
    memcpy(&q, (const uint8_t *)((uintptr_t)base + addr), 16);
    return q;
}
static void load_x4(row32 *t, const uint8_t *base, const uint64_t *addr)
{
    for (int l = 0; l < 64; l += 4) {
        quad a = load_quad(base, addr[l]), b = load_quad(base, addr[l + 1]);
        quad c = load_quad(base, addr[l + 2]), d = load_quad(base, addr[l + 3]);
        quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        quad AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        quad r0 = __builtin_shufflevector(ab, cd, 0, 1, 4, 5), r1 = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        quad r2 = __builtin_shufflevector(AB, CD, 0, 1, 4, 5), r3 = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
        memcpy(&t[0][l], &r0, 16);
        memcpy(&t[1][l], &r1, 16);
        memcpy(&t[2][l], &r2, 16);
        memcpy(&t[3][l], &r3, 16);
    }
}
static bool adjacent(const uint64_t *addr)
{
    uint64_t off = 0;
    LANES off |= addr[l] ^ (addr[0] + 4ull * (unsigned)l);
    return off == 0;
}

/* A lane's words of scratch; at any byte, as LLVM's code for gfx942 and gfx10 counts on. */
static void scratch_word(struct emu_wave *w, const access_t *a, int l, uint32_t more, uint32_t *x, unsigned bytes,
                         bool store)
{
    uint8_t *p = lane_ptr(w, a, l, more);
    if (((uint32_t)a->addr[l] & 3) + bytes > 4) { /* in two words, which are not adjacent */
        for (unsigned b = 0; b < bytes; b++) {
            p = lane_ptr(w, a, l, more + b);
            if (store)
                memcpy(p, (uint8_t *)x + b, 1);
            else
                memcpy((uint8_t *)x + b, p, 1);
        }
    } else if (store)
        memcpy(p, x, bytes);
    else
        memcpy(x, p, bytes);
}

/* Lanes in `zero` were out of a buffer's range and get 0. */
void EMU_N(mem_load)(struct emu_wave *w, const struct emu_inst *i, int k, access_t *a, uint32_t info, uint64_t zero)
{
    unsigned bytes = info & MEM_BYTES;
    int words = words_of(bytes);
    a->data = i->reg[k];
    uint64_t lanes = a->lanes ? emu_access(w, i, a) : 0, all = a->lanes | zero;
    row32 t[4];
    if (lanes != ~0ull)
        for (int d = 0; d < words; d++)
            memset(t[d], 0, 256);
    if (bytes < 4) {
        for (int l = 0; l < 64; l++)
            if (lanes >> l & 1) {
                uint32_t x = 0;
                if (a->space == EMU_SCRATCH)
                    scratch_word(w, a, l, 0, &x, bytes, false);
                else
                    memcpy(&x, lane_ptr(w, a, l, 0), bytes);
                t[0][l] = load_small((uint8_t *)&x, bytes, info & MEM_SIGNED);
            }
        if (info & (MEM_D16 | MEM_D16_HI)) {
            /* With ECC on the register file (gfx9 from gfx908 on) a load writes whole registers: the
             * other half is 0. */
            const uint32_t *old = vrow(w, i->reg[k]);
            uint32_t keep = w->prog->arch->gfx >= 0x1000 ? ~0u : 0;
            if (info & MEM_D16_HI)
                LANES t[0][l] = t[0][l] << 16 | (old[l] & keep & 0xffff);
            else
                LANES t[0][l] = (t[0][l] & 0xffff) | (old[l] & keep & 0xffff0000);
        }
    } else if (a->space == EMU_SCRATCH) {
        for (int l = 0; l < 64; l++)
            for (int d = 0; lanes >> l & 1 && d < words; d++)
                scratch_word(w, a, l, 4 * (uint32_t)d, &t[d][l], 4, false);
    } else {
        const uint8_t *base = a->space == EMU_LDS_SPACE ? w->wg->lds : (const uint8_t *)0;
        if (lanes == ~0ull && words == 4) {
            load_x4(t, base, a->addr);
            commit_rows(w, i, k, t, words, all);
            return;
        }
        if (lanes == ~0ull && words == 1 && adjacent(a->addr)) {
            memcpy(t[0], (const uint8_t *)(uintptr_t)((uintptr_t)base + a->addr[0]), 256);
            commit_rows(w, i, k, t, words, all);
            return;
        }
#define MOVE(n)                                                                                                        \
    for (int l = 0; l < 64; l++) {                                                                                     \
        if (!(lanes >> l & 1))                                                                                         \
            continue;                                                                                                  \
        uint32_t x[n];                                                                                                 \
        memcpy(x, (const uint8_t *)((uintptr_t)base + a->addr[l]), sizeof(x));                                         \
        for (int d = 0; d < n; d++)                                                                                    \
            t[d][l] = x[d];                                                                                            \
    }
        if (words == 1)
            MOVE(1)
        else if (words == 2)
            MOVE(2)
        else if (words == 3)
            MOVE(3)
        else
            MOVE(4)
#undef MOVE
    }
    commit_rows(w, i, k, t, words, all);
}

void EMU_N(mem_store)(struct emu_wave *w, const struct emu_inst *i, int k, access_t *a, uint32_t info)
{
    unsigned bytes = info & MEM_BYTES;
    int words = words_of(bytes);
    a->data = i->reg[k];
    uint64_t lanes = a->lanes ? emu_access(w, i, a) : 0;
    if (!lanes)
        return;
    row32 t[4];
    const uint32_t *r[4];
    for (int d = 0; d < words; d++)
        r[d] = src_word(w, i, k, d, t[d]);
    if (a->space == EMU_LDS_SPACE && bytes == 4 && lanes == ~0ull && adjacent(a->addr)) {
        memcpy(w->wg->lds + a->addr[0], r[0], 256);
        return;
    }
    for (int l = 0; l < 64; l++) {
        if (!(lanes >> l & 1))
            continue;
        if (bytes < 4) {
            uint32_t x = info & MEM_D16_HI ? r[0][l] >> 16 : r[0][l];
            if (a->space == EMU_SCRATCH)
                scratch_word(w, a, l, 0, &x, bytes, true);
            else
                memcpy(lane_ptr(w, a, l, 0), &x, bytes);
        } else if (a->space == EMU_SCRATCH) {
            for (int d = 0; d < words; d++) {
                uint32_t x = r[d][l];
                scratch_word(w, a, l, 4 * (uint32_t)d, &x, 4, true);
            }
        } else {
            uint32_t x[4];
            for (int d = 0; d < words; d++)
                x[d] = r[d][l];
            memcpy(lane_ptr(w, a, l, 0), x, bytes);
        }
    }
}

void EMU_N(mem_to_lds)(struct emu_wave *w, const struct emu_inst *i, access_t *a, uint32_t info, uint64_t zero)
{
    unsigned bytes = info & MEM_BYTES;
    a->indirect = true;
    uint64_t all = a->lanes | zero, lanes = a->lanes ? emu_access(w, i, a) : 0;
    access_t to = { .space = EMU_LDS_SPACE,
                    .kind = EMU_STORE,
                    .bytes = (uint8_t)(bytes < 4 ? 4 : bytes),
                    .align = 4,
                    .indirect = true,
                    .data = EMU_NONE,
                    .lanes = all };
    uint32_t m0 =
        w->prog->arch->lds_bytes > 65536 ? 0x3ffff : 0xffff; /* gfx950: not in its guide, but it has 160 KiB */
    uint32_t base = (w->s[EMU_M0] & m0) + (uint32_t)i->mods->offset;
    for (int l = 0; l < 64; l++)
        to.addr[l] = base + (uint32_t)l * to.bytes;
    if (!all)
        return;
    uint64_t out = emu_access(w, i, &to);
    for (int l = 0; l < 64; l++) {
        uint32_t x[4] = { 0 };
        if (!(out >> l & 1))
            continue;
        if (lanes >> l & 1) {
            const uint8_t *p = lane_ptr(w, a, l, 0);
            if (bytes < 4)
                x[0] = load_small(p, bytes, info & MEM_SIGNED);
            else
                memcpy(x, p, bytes);
        }
        memcpy(w->wg->lds + to.addr[l], x, to.bytes);
    }
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static uint32_t pk_add(uint32_t a, uint32_t b, bool bf16)
{
    uint32_t r = 0;
    for (int h = 0; h < 32; h += 16) {
        uint32_t x = a >> h & 0xffff, y = b >> h & 0xffff;
        uint32_t s = bf16 ? f2bf(bf2f(x) + bf2f(y)) : d2h((double)h2f(x) + (double)h2f(y));
        r |= s << h;
    }
    return r;
}

uint64_t EMU_N(mem_apply64)(int op, uint64_t m, uint64_t v, uint64_t c)
{
    int64_t sm = (int64_t)m, sv = (int64_t)v;
    switch (op) {
    case OP_SWAP:
        return v;
    case OP_CMPSWAP:
        return m == c ? v : m;
    case OP_FCMPSWAP:
        return as_f64(m) == as_f64(c) ? v : m;
    case OP_ADD:
        return m + v;
    case OP_SUB:
        return m - v;
    case OP_RSUB:
        return v - m;
    case OP_CSUB:
        return m < v ? 0 : m - v;
    case OP_COND_SUB:
        return m < v ? m : m - v;
    case OP_SMIN:
        return sv < sm ? v : m;
    case OP_UMIN:
        return v < m ? v : m;
    case OP_SMAX:
        return sv > sm ? v : m;
    case OP_UMAX:
        return v > m ? v : m;
    case OP_AND:
        return m & v;
    case OP_OR:
        return m | v;
    case OP_XOR:
        return m ^ v;
    case OP_INC:
        return m >= v ? 0 : m + 1;
    case OP_DEC:
        return m == 0 || m > v ? v : m - 1;
    case OP_MSKOR: /* v is the mask, c the bits */
        return (m & ~v) | c;
    case OP_FADD:
        return as_u64(as_f64(m) + as_f64(v));
    case OP_FMIN:
        return as_u64(dmin_(as_f64(m), as_f64(v), 0));
    case OP_FMAX:
        return as_u64(dmax_(as_f64(m), as_f64(v), 0));
    default:
        return m;
    }
}

uint32_t EMU_N(mem_apply32)(int op, uint32_t m, uint32_t v, uint32_t c)
{
    switch (op) {
    case OP_FCMPSWAP:
        return as_f32(m) == as_f32(c) ? v : m;
    case OP_FADD:
        return as_u32(as_f32(m) + as_f32(v));
    case OP_FMIN:
        return as_u32(fmin_(as_f32(m), as_f32(v), 0));
    case OP_FMAX:
        return as_u32(fmax_(as_f32(m), as_f32(v), 0));
    case OP_PK_F16:
        return pk_add(m, v, false);
    case OP_PK_BF16:
        return pk_add(m, v, true);
    default: /* integers: the sign extended, signed and unsigned ones keep their order */
        return (uint32_t)EMU_N(mem_apply64)(op, (uint64_t)(int32_t)m, (uint64_t)(int32_t)v, (uint64_t)(int32_t)c);
    }
}

void EMU_N(mem_atomic)(struct emu_wave *w, const struct emu_inst *i, int kd, int kv, int kc, access_t *a, uint32_t info)
{
    unsigned bytes = info & MEM_BYTES;
    int op = (int)(info >> MEM_OP), words = words_of(bytes);
    a->data = i->reg[kv];
    uint64_t all = a->lanes, lanes = a->lanes ? emu_access(w, i, a) : 0;
    row32 old[2], tv[2], tc[2];
    const uint32_t *v[2], *c[2];
    bool two = op == OP_CMPSWAP || op == OP_MSKOR || op == OP_FCMPSWAP;
    memset(old, 0, sizeof(old));
    for (int d = 0; d < words; d++) {
        v[d] = src_word(w, i, kv, d, tv[d]);
        c[d] = !two ? v[d] : kc >= 0 ? src_word(w, i, kc, d, tc[d]) : src_word(w, i, kv, words + d, tc[d]);
    }
    for (int l = 0; l < 64; l++) {
        if (!(lanes >> l & 1))
            continue;
        void *p = lane_ptr(w, a, l, 0);
        if ((uintptr_t)p % bytes) {
            emu_report(w, i, "misaligned", 1ull << l, "an atomic of %u bytes at 0x%llx", bytes,
                       (unsigned long long)a->addr[l]);
            continue;
        }
        if (words == 1) {
            uint32_t m = __atomic_load_n((uint32_t *)p, __ATOMIC_RELAXED), n;
            do
                n = EMU_N(mem_apply32)(op, m, v[0][l], c[0][l]);
            while (!__atomic_compare_exchange_n((uint32_t *)p, &m, n, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
            old[0][l] = m;
        } else {
            uint64_t m = __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED), n;
            uint64_t x = v[0][l] | (uint64_t)v[1][l] << 32, y = c[0][l] | (uint64_t)c[1][l] << 32;
            do
                n = EMU_N(mem_apply64)(op, m, x, y);
            while (!__atomic_compare_exchange_n((uint64_t *)p, &m, n, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
            old[0][l] = (uint32_t)m;
            old[1][l] = (uint32_t)(m >> 32);
        }
    }
    if (kd >= 0)
        commit_rows(w, i, kd, old, words, all);
}
