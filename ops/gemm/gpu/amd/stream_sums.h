/* SPDX-License-Identifier: MIT
 *
 * Sums of a tile that gemm_stream_mma's waves and splits have parts of. Part of stream.hip. */

/* Adds the waves' quads, in their order. */
RFG_DEVICE void add_waves(rfg_f32x4 *own, const rfg_f32x4 *sums, int wave)
{
#pragma unroll
    for (int i = 0; i < OWN_QUADS; i++) {
        const rfg_f32x4 *s = sums + (i * FINISHERS + wave) * RFG_WAVE;
        own[i] = s[0];
#pragma unroll
        for (int w = 1; w < K_WAVES; w++)
            own[i] = rfg_add_f32x4(own[i], s[w * QUADS * RFG_WAVE]);
    }
}

#if SPLIT > 1
#define ADD_QUADS (SPLIT <= 16 ? 32 / SPLIT : 1) /* of all splits: so many fit in registers */

/* Adds the splits' quads, in their order: a batch of quads is under way at once. A branch around rows that are not
 * there would have each quad wait for the one before. */
RFG_DEVICE void add_splits(rfg_f32x4 *own, const char *partials, int wave, int rows_m)
{
    const rfg_buffer b = rfg_buffer_of(partials, SPLIT * PART_BYTES);
#pragma unroll
    for (int first = 0; first < OWN_QUADS; first += ADD_QUADS) {
        rfg_u32x4 part[ADD_QUADS][SPLIT];
#pragma unroll
        for (int i = 0; i < ADD_QUADS; i++) {
            int q = (first + i) * FINISHERS + wave;
            rfg_u32 at = row_of(q) < rows_m ? (rfg_u32)(q * (RFG_WAVE * 16) + rfg_lane() * 16) : 0x80000000u;
#pragma unroll
            for (int s = 0; s < SPLIT; s++)
                if (first + i < OWN_QUADS)
                    part[i][s] = rfg_buffer_load16(b, at, s * PART_BYTES);
        }
        rfg_keep_order();
#pragma unroll
        for (int i = 0; i < ADD_QUADS; i++)
#pragma unroll
            for (int s = 0; s < SPLIT; s++)
                if (first + i < OWN_QUADS) {
                    rfg_f32x4 v = __builtin_bit_cast(rfg_f32x4, part[i][s]);
                    own[first + i] = s ? rfg_add_f32x4(own[first + i], v) : v;
                }
    }
}
#endif
