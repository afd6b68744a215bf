/* SPDX-License-Identifier: MIT
 *
 * tile.hip's words of a W of 4 bits, their scales and zero points, on their way to LDS. */

/* Bytes from a row's first word of W to that of a step. A prepacked W has four fragments' in 16 bytes. */
RFG_DEVICE int w_step(int step)
{
    int frag = step * FRAGS_K;
    return PREPACKED ? frag / 4 * (PREPACK_ROWS * PREPACK4_COLS / 2) + frag % 4 * 4 : frag * 16;
}

/* Where, in a buffer that begins with those of the tile (with HALVES: of all), the scale or zero point of the tile's
 * row r and its group `group` is; each has `bytes`. */
RFG_DEVICE rfg_u32 group_at(const struct gemm_args *a, int n0, int rows_n, int r, int group, int bytes)
{
    int groups = W_COLS(a) / W_GROUP;
    if (PREPACKED)
        return (rfg_u32)PREPACKED4_GROUP_AT(r, group, groups) * (rfg_u32)bytes;
    return row_offset(HALVES, w_row_at(a, n0 + r), r, rows_n, groups * bytes, 0) + (rfg_u32)(group * bytes);
}
RFG_DEVICE rfg_buffer groups_of(const struct gemm_args *a, const void *base, int n0, int rows_n, int bytes)
{
    int row = W_COLS(a) / W_GROUP * bytes;
    return HALVES ? rfg_buffer_of(base, a->n * row)
                  : rfg_buffer_of((const char *)base + (long long)n0 * row, rows_n * row);
}

/* The scales and the zero points of a step's groups. One of the last step's may not be there: 0, as the sum is, and as
 * the code is, which nvfp4's scale multiplies. beyond: as of W's words. */
RFG_DEVICE void load_groups(struct staged *s, const struct copier *c, int step, rfg_u32 beyond)
{
    int first = COLUMNS > W_GROUP ? step * GROUPS : step / (W_GROUP / COLUMNS), stride = PREPACKED ? PREPACK_ROWS : 1;
#pragma unroll
    for (int i = 0; SUMS_SCALED && i < SCALE_COPIES; i++) {
        bool there = !TAIL || GROUPS == 1 || first + scale_row(i) / TILE_N < c->groups;
        int at = (int)(c->scale_at[i] | (there ? 0 : 0x80000000u));
        int uniform = first * stride * W_SCALE_BYTES;
#if W_SCALE_BYTES == 4
        s->scale[i] = rfg_llvm_buffer_load4(c->scale, at, uniform, 0);
#elif W_SCALE_BYTES == 2
        s->scale[i] = rfg_llvm_buffer_load2(c->scale, at, uniform, 0);
#else
        s->scale[i] = (rfg_u32)rfg_llvm_buffer_load1(c->scale, at, uniform, 0);
#endif
    }
#pragma unroll
    for (int i = 0; (W_ZERO || W_IS_NVFP4) && i < W_COPIES; i++)
        s->byte[i] =
            rfg_llvm_buffer_load1(c->byte, (int)(c->byte_at[i] | (W_IS_NVFP4 ? beyond : 0)), first * stride, 0);
}

/* Where row r's scale is in LDS. A lane's rows of a fragment follow one another there, on RDNA 3, too. */
RFG_DEVICE int scale_place(int r)
{
    return RFG_FRAG_C_ACROSS ? r / 16 * 16 + r % 2 * 8 + r % 16 / 2 : r;
}

/* Where the thread's scales are. */
RFG_DEVICE void place_groups(struct copier *c, const struct gemm_args *a, int n0, int rows_n)
{
    c->groups = W_COLS(a) / W_GROUP;
    c->scale = groups_of(a, a->w_scale, n0, rows_n, W_SCALE_BYTES);
    c->byte = groups_of(a, W_IS_NVFP4 ? a->w_scale : W_ZEROS(a), n0, rows_n, 1);
#pragma unroll
    for (int i = 0; SUMS_SCALED && i < SCALE_COPIES; i++)
        c->scale_at[i] = group_at(a, n0, rows_n, scale_row(i) % TILE_N, scale_row(i) / TILE_N, W_SCALE_BYTES);
}
