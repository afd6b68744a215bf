/* SPDX-License-Identifier: MIT
 *
 * Sums of gemm_tile on their way to LDS. */
/* A fragment's sums to the wave's 16 rows in LDS. */
RFG_DEVICE void put_sums(float *sums, const rfg_frag_wx *acc, int j)
{
    float *row = sums + rfg_frag_c_col(0) * SUM_STRIDE + j * 16;
#if RFG_FRAG_C_ACROSS
#pragma unroll
    for (int e = 0; e < RFG_FRAG_WX; e++)
        row[rfg_frag_c_row(e)] = final_of(acc->v[e]);
#else
#pragma unroll
    for (int e = 0; e < RFG_FRAG_WX; e += 4) {
        rfg_f32x4 quad = { final_of(acc->v[e]), final_of(acc->v[e + 1]), final_of(acc->v[e + 2]),
                           final_of(acc->v[e + 3]) };
        *(rfg_f32x4 *)(row + rfg_frag_c_row(e)) = quad;
    }
#endif
}
