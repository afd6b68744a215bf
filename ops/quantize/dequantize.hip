/* SPDX-License-Identifier: MIT
 *
 * dequantize, all chunks of 8 codes of all rows as one list: each thread takes UNROLL of them, THREADS apart, loads
 * them and their scales, then stores. The grid may be smaller than the list: it is gone through in strides of the grid.
 *
 * Macros: Q_DTYPE, SCALE_DTYPE, OUT_DTYPE (y), WHOLE (rows are whole chunks, aligned to 8 bytes), WIDTH_Y (bytes of a
 * store), THREADS, UNROLL. */
#include "rfg_device.h"
#include "quantize/dequantize_args.h"
#include "quantize/scale_device.h"

#define CHUNK 8

/* A word of 4 bytes, a code each; of nibbles all eight are in v.x. */
RFG_DEVICE rfg_u32x2 load_codes(const char *q, int left)
{
    if (WHOLE && RFG_IS_4_BITS(Q_DTYPE)) {
        rfg_u32x2 w = { rfg_load4(q), 0u };
        return w;
    }
    if (WHOLE)
        return rfg_load8(q);
    rfg_u32x2 v;
    v.x = v.y = 0;
#pragma unroll
    for (int i = 0; i < CHUNK / 2; i++) {
        v.x |= i * PER_BYTE < left ? rfg_load1(q + i) << (8 * i) : 0u;
        v.y |= (i + 4) * PER_BYTE < left ? rfg_load1(q + i + 4) << (8 * i) : 0u;
    }
    return v;
}

RFG_DEVICE float code_at(rfg_u32x2 codes, int i)
{
    if (Q_DTYPE == RFG_I4)
        return (float)((int)(codes.x << (28 - 4 * i)) >> 28);
    if (Q_DTYPE != RFG_E2M1)
        return rfg_code_value((i < 4 ? codes.x : codes.y) >> (i % 4 * 8) & 255u, Q_DTYPE);
    rfg_u32 code = codes.x >> (4 * i), low = code & 7u;
    rfg_u32 size = low > 1u ? (low + 252u) << 22 : low ? 0x3f000000u : 0u;
    return rfg_as_float(size | (code & 8u) << 28);
}

RFG_KERNEL(THREADS) dequantize_rows(struct dequantize_args args)
{
    rfg_u32 total = (rfg_u32)args.m * args.row_chunks;
    rfg_u32 step = (rfg_u32)rfg_groups_x(THREADS) * (THREADS * UNROLL);
    rfg_start_next();
    rfg_await_previous();
    for (rfg_u32 base = (rfg_u32)rfg_group_x() * (THREADS * UNROLL); base < total; base += step) {
        rfg_u32x2 codes[UNROLL];
        float scale[UNROLL];
        rfg_u32 row[UNROLL];
        int first[UNROLL], left[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rfg_u32 at = base + (rfg_u32)(u * THREADS + rfg_thread());
            row[u] = (rfg_u32)((rfg_u64)(at * 2u) * args.mul >> 32) >> args.shift;
            first[u] = (int)(at - row[u] * args.row_chunks) * CHUNK;
            left[u] = at < total ? args.n - first[u] : 0;
            if (left[u] > 0) {
                codes[u] = load_codes((const char *)args.q + (row[u] * args.ldq + first[u]) / PER_BYTE, left[u]);
                scale[u] = rfg_load_scale(args.scale,
                                          (row[u] >> args.row_shift) * args.scale_row +
                                              (first[u] >> args.col_shift) * args.scale_col,
                                          SCALE_DTYPE);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (left[u] <= 0)
                continue;
            char *y = (char *)args.y + row[u] * args.ldy * RFG_DTYPE_BYTES(OUT_DTYPE);
            float f[CHUNK];
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                f[i] = code_at(codes[u], i) * scale[u];
#pragma unroll
            for (int i = 0; i < CHUNK; i += RFG_DTYPE_VEC(OUT_DTYPE))
                if (i < left[u])
                    rfg_store_chunk(y, (rfg_u32)(first[u] + i) * RFG_DTYPE_BYTES(OUT_DTYPE), left[u] - i,
                                    rfg_pack(f + i, OUT_DTYPE), OUT_DTYPE, WIDTH_Y, false);
        }
    }
}
