/* SPDX-License-Identifier: MIT
 *
 * The end of gemm kernels whose sums of a tile lie in rows of quads (4 neighbours along n): bias, rounding and store,
 * and what several workgroups have of one tile added up through memory. */
#define RFG_PARTS_BATCH 16 /* partials in flight in the last reduction */

/* Bias, rounding and store of 4 neighbours in a row; those from column n on don't exist. */
RFG_DEVICE void store_quad(const struct gemm_args *a, long long m, int n, rfg_f32x4 f)
{
    float v[4] = { f.x, f.y, f.z, f.w };
    if (a->bias) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < a->n - n)
                v[i] += rfg_load_float(a->bias, n + i, IN_DTYPE);
    }
    /* Rows of Y need not be aligned: only X and W are read in chunks. */
    rfg_u64 address = (rfg_u64)a->y + (rfg_u64)(m * GEMM_LDY(a) + n) * RFG_DTYPE_BYTES(OUT_DTYPE);
    if (a->n - n >= 4 && address % (4 * RFG_DTYPE_BYTES(OUT_DTYPE)) == 0) {
        f.x = v[0];
        f.y = v[1];
        f.z = v[2];
        f.w = v[3];
        rfg_store_float4(a->y, m * GEMM_LDY(a) + n, f, OUT_DTYPE);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < a->n - n)
                rfg_store_float(a->y, m * GEMM_LDY(a) + n + i, v[i], OUT_DTYPE);
    }
}

/* The tile's sums of all splits, `stride` floats apart, in their order: quads of TILE_N / 4 a row, from row m0 and
 * column n0 of Y on. */
RFG_DEVICE void store_parts(const struct gemm_args *a, const float *parts, int splits, int stride, int quads,
                            int threads, int tile_n, int m0, int n0)
{
#pragma unroll 1
    for (int q = rfg_thread(); q < quads; q += threads) {
        int row = q / (tile_n / 4), col = q % (tile_n / 4) * 4;
        rfg_f32x4 sum = rfg_load_f32x4(parts + q * 4);
#pragma unroll 1
        for (int s0 = 1; s0 < splits; s0 += RFG_PARTS_BATCH) {
            rfg_f32x4 part[RFG_PARTS_BATCH];
#pragma unroll
            for (int i = 0; i < RFG_PARTS_BATCH; i++)
                if (s0 + i < splits)
                    part[i] = rfg_load_f32x4(parts + (long long)(s0 + i) * stride + q * 4);
#pragma unroll
            for (int i = 0; i < RFG_PARTS_BATCH; i++)
                if (s0 + i < splits)
                    sum = rfg_add_f32x4(sum, part[i]);
        }
        if (col < a->n - n0)
            store_quad(a, (long long)m0 + row, n0 + col, sum);
    }
}
