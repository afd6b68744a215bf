/* SPDX-License-Identifier: MIT
 *
 * W[N,K], its scales or its zero points, rearranged as prepack_layout.h has them. Each thread moves UNROLL chunks,
 * THREADS apart, in the order in which they are stored, so that writes are whole lines. The grid may be smaller than
 * that: it is gone through in strides of the grid. A chunk of W is 16 bytes: of 16-bit and 8-bit elements they are together
 * in src, too; of 4-bit ones they are four words, one of each 32 columns. Of scales and zero points it is one.
 *
 * It does not let the next launch begin early: what it writes are weights, which kernels may fetch before they wait.
 *
 * Macros: THREADS, UNROLL, BITS (of an element), GROUPS (0: W of 16, 8 or 4 bits; 1: scales or zero points of 8, 16 or
 * 32), PAD (may be missing, which is 0: dst has so many groups of zeros more than src, or 1: columns up to whole
 * blocks). */
#include "rfg_device.h"
#include "gemm/prepack_args.h"
#include "gemm/prepack_layout.h"

#ifndef PAD
#define PAD 0
#endif
#if GROUPS
#define COLS         1 /* of a block of 16 rows, */
#define CHUNK        8
#define BLOCK_CHUNKS 16
typedef rfg_u32 chunk;
#else
#define COLS         (BITS == 4 ? PREPACK4_COLS : BITS == 8 ? PREPACK8_COLS : PREPACK_COLS)
#define CHUNK        (BITS == 8 ? PREPACK8_CHUNK : 8) /* columns from one to the next in a row */
#define BLOCK_CHUNKS 64                               /* 16 rows x 4 */
typedef rfg_u32x4 chunk;
#endif

/* The chunk that begins with this element of src. columns: of the row from there on. */
RFG_DEVICE chunk load_chunk(const void *src, long long element, int columns)
{
    (void)columns;
#if PAD && GROUPS
    if (columns <= 0)
        return 0;
#endif
#if GROUPS
    const char *p = (const char *)src + element * (BITS / 8);
    return BITS == 8 ? rfg_load1(p) : BITS == 16 ? rfg_load2(p) : rfg_load4(p);
#elif BITS == 4
    const char *p = (const char *)src + element / 2;
#if PAD
    rfg_u32 a = rfg_load4(p), b = columns > 32 ? rfg_load4(p + 16) : 0, c = columns > 64 ? rfg_load4(p + 32) : 0;
    rfg_u32 d = columns > 96 ? rfg_load4(p + 48) : 0;
#else
    rfg_u32 a = rfg_load4(p), b = rfg_load4(p + 16), c = rfg_load4(p + 32), d = rfg_load4(p + 48);
#endif
    rfg_u32x4 v = { PREPACK4_WORD(a), PREPACK4_WORD(b), PREPACK4_WORD(c), PREPACK4_WORD(d) };
    return v;
#else
    return rfg_load16_stream((const char *)src + element * (BITS / 8));
#endif
}

RFG_DEVICE void store_chunk(void *dst, long long at, chunk v)
{
#if GROUPS && BITS == 8
    rfg_store1((char *)dst + at, v);
#elif GROUPS && BITS == 16
    rfg_store2((char *)dst + at * 2, (rfg_u16)v);
#elif GROUPS
    rfg_store4((char *)dst + at * 4, v);
#else
    rfg_store16((char *)dst + at * 16, v);
#endif
}

RFG_KERNEL(THREADS) gemm_prepack(struct prepack_args a)
{
    rfg_u32 across = GROUPS ? (rfg_u32)a.k + PAD : (rfg_u32)a.k / COLS + PAD;
    long long total = (long long)a.n / 16 * across * BLOCK_CHUNKS;
    long long step = (long long)rfg_groups_x(THREADS) * (THREADS * UNROLL);
    rfg_await_previous();
    for (long long base = (long long)rfg_group_x() * (THREADS * UNROLL); base < total; base += step) {
        chunk v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            long long at = base + u * THREADS + rfg_thread();
            rfg_u32 block = (rfg_u32)(at / BLOCK_CHUNKS), in = (rfg_u32)(at % BLOCK_CHUNKS);
            rfg_u32 down = block / across, column = (block - down * across) * COLS + in / 16 * CHUNK;
            if (at < total)
                v[u] = load_chunk(a.src, (down * 16ll + in % 16) * a.ld + column, a.k - (int)column);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            long long at = base + u * THREADS + rfg_thread();
            if (at < total)
                store_chunk(a.dst, at, v[u]);
        }
    }
}
