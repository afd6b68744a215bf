/* SPDX-License-Identifier: MIT
 *
 * Prefill on NVIDIA: how a row's output is stored, of prefill_nvidia.hip and prefill_wgmma.hip. */

/* SKIPPED(): columns before the first one of memory. */
#ifndef SKIPPED
#define SKIPPED(a, p) 0
#endif

/* 32 columns of a row, or those of them that memory has: of 4 neighbouring lanes each has two of each of 4 chunks (o[0].v[0], o[0].v[1], o[0].v[4], ...
 * o[1].v[4], o[1].v[5]); lane t gets all of chunk t. */
RFG_DEVICE void store_chunks(const struct row_end *r, const float *a, const float *b, int column)
{
    int t = rfg_lane() % 4;
    rfg_u32 c[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *v = (i < 2 ? a : b) + 4 * (i % 2);
        c[i] = DTYPE == RFG_F16 ? rfg_pack_f16(v[0] * r->scale, v[1] * r->scale)
                                : rfg_pack_bf16(v[0] * r->scale, v[1] * r->scale);
    }
    /* A 4x4 transpose: first between lanes whose numbers differ in bit 1, then bit 0. */
#pragma unroll
    for (int bit = 2; bit; bit /= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & bit)) {
                rfg_u32 lo = c[i], hi = c[i + bit];
                rfg_u32 got = __shfl_xor_sync(0xffffffffu, t & bit ? lo : hi, bit);
                c[i] = t & bit ? got : lo;
                c[i + bit] = t & bit ? hi : got;
            }
    if (r->in && ((DV % 32 == 0 && DV_REAL == DV) || (rfg_u32)(column + 8 * t) < DV_REAL))
        rfg_store16(r->to + column + 8 * t, make_uint4(c[0], c[1], c[2], c[3]));
}
/* Divides each row by its sum and stores it. */
RFG_DEVICE void store_rows(const struct mha_args *a, const struct work_item *p, struct state *w, float factor)
{
    int part = D_SPLIT > 1 ? rfg_wave() % D_SPLIT : 0;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            struct row_end r = end_row(a, p, w->row0 + rfg_s_query(rfg_lane(), f, h), w->top[f][h],
                                       rfg_s_reduce(whole_sum(w, f, h), false), factor, part == 0);
#pragma unroll
            for (int d = 0; d < D_BLOCKS; d += 2)
                store_chunks(&r, w->o[f][d].v + 2 * h, w->o[f][d + 1 < D_BLOCKS ? d + 1 : d].v + 2 * h,
                             16 * (part * D_BLOCKS + d) - SKIPPED(a, p));
        }
}
