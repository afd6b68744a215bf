/* SPDX-License-Identifier: MIT
 *
 * stream.hip's steps with gfx950's instructions of 128 columns (rfg_amd_wide.h): W and X by rows, of e4m3, e5m2 or
 * e2m1, which need no decoding. A step has 128 columns: of each fragment one piece of 64 bytes a row, of 8 bits two. Of
 * mx formats the instruction scales its columns; a lane's scale is a byte of its row. */
#define W_PIECES RFG_WIDE_PIECES(W_DTYPE)
#define X_PIECES RFG_WIDE_PIECES(IN_DTYPE)
#define STEP_K   128

/* One step of a wave. */
struct step {
    rfg_u32x4 w[FRAGS_N][W_PIECES], x[FRAGS_M][X_PIECES];
#if MX
    rfg_u32 w_scale[FRAGS_N], x_scale[FRAGS_M];
#elif SCALES == GEMM_SCALES_BLOCKS
    float w_scale[W_SCALES], x_scale[FRAGS_M];
#endif
};

/* Where the wave's pieces are. */
struct place {
    rfg_buffer w, x;
    rfg_u32 w_at[FRAGS_N][RFG_FRAG_AB], x_at[FRAGS_M][RFG_FRAG_X]; /* of the lane, at k = 0 */
    int chunks;                                                    /* of 16 bytes in a row of X */
#if MX
    const char *w_scale[FRAGS_N], *x_scale[FRAGS_M]; /* of the lane's rows */
    int groups;                                      /* of a row */
#elif SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n, m[FRAGS_M]; /* rows of W and of X whose scales these are */
#endif
};

#if MX
RFG_DEVICE void place_scales(struct place *p, const struct gemm_args *a, int m0, int n0)
{
    p->groups = a->k / GEMM_SCALE_GROUP;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        int n = n0 + j * 16 + rfg_frag_row(0);
        p->w_scale[j] = (const char *)a->w_scale + w_row_at(a, n < a->n ? n : a->n - 1) * (long long)a->w_scale_row;
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++) {
        int m = m0 + i * 16 + rfg_frag_row(0);
        p->x_scale[i] = (const char *)a->x_scale + x_row_at(a, m < a->m ? m : a->m - 1) * (long long)a->x_scale_row;
    }
}
#endif

/* The lane's offset of a piece, or one out of every buffer if that lies beyond the row's end. */
RFG_DEVICE rfg_u32 offset_of(rfg_u32 at, int chunk, int chunks)
{
    return !TAIL || chunk + rfg_frag_chunk(0) < chunks ? at : 0x80000000u;
}

/* Step `step + u`. */
RFG_DEVICE void load_step(struct step *s, const struct place *p, int step, int u)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int h = 0; h < W_PIECES; h++)
            s->w[j][h] = rfg_buffer_load16_stream(
                p->w,
                offset_of(p->w_at[j][0], ((step + u) * W_PIECES + h) * 4, p->chunks * W_PIECES / X_PIECES) +
                    (u * W_PIECES + h) * 64 % REACH,
                step * W_PIECES * 64 + (u * W_PIECES + h) * 64 / REACH * REACH);
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int h = 0; h < X_PIECES; h++)
            s->x[i][h] = rfg_buffer_load16(p->x,
                                           offset_of(p->x_at[i][0], ((step + u) * X_PIECES + h) * 4, p->chunks) +
                                               (u * X_PIECES + h) * 64 % REACH,
                                           step * X_PIECES * 64 + (u * X_PIECES + h) * 64 / REACH * REACH);
#if MX
    int group = (step + u) * 4 + rfg_frag_chunk(0);
    if (TAIL)
        group = group < p->groups ? group : p->groups - 1; /* of codes that are 0 */
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        s->w_scale[j] = rfg_load1(p->w_scale[j] + group);
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
        s->x_scale[i] = rfg_load1(p->x_scale[i] + group);
#elif SCALES == GEMM_SCALES_BLOCKS
#pragma unroll
    for (int h = 0; h < W_SCALES; h++)
        s->w_scale[h] = w_scale_of(p->a, p->n + W_SCALE_ROW(h), step + u);
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
        s->x_scale[j] = x_scale_at(p->a, p->m[j], step + u);
#endif
}

RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    (void)u;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
#if MX
            rfg_wide_mma_scaled(&acc[j][i], s->w[j], W_DTYPE, s->x[i], IN_DTYPE, s->w_scale[j], s->x_scale[i]);
#elif SCALES == GEMM_SCALES_BLOCKS
            rfg_frag_wx part;
            rfg_frag_zero(&part);
            rfg_wide_mma(&part, s->w[j], W_DTYPE, s->x[i], IN_DTYPE);
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                acc[j][i].v[e] = rfg_fma(part.v[e], s->w_scale[W_SCALE_OF(e)] * s->x_scale[i], acc[j][i].v[e]);
#else
            rfg_wide_mma(&acc[j][i], s->w[j], W_DTYPE, s->x[i], IN_DTYPE);
#endif
        }
}
