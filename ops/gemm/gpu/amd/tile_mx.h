/* SPDX-License-Identifier: MIT
 *
 * Scales of tile.hip's mx formats, which gfx950's instructions of 128 columns take (rfg_amd_wide.h): four for each row
 * and part of a step, one for each lane of a fragment. In LDS a lane's scales of four fragments are one word:
 *
 *   [part][wave][block of 64 of its rows][row % 16][group][fragment]    X's, then W's
 *
 * They come in single bytes: rows of scales are as long as K has groups, so that they have no alignment. */
#define GROUPS_OF_STEP (PARTS * 4)
#define X_MX_BYTES     (TILE_M * GROUPS_OF_STEP)
#define W_MX_BYTES     (TILE_N * GROUPS_OF_STEP)
#define X_MX_COPIES    ((X_MX_BYTES - 1) / THREADS + 1)
#define W_MX_COPIES    ((W_MX_BYTES - 1) / THREADS + 1)
#define X_MX_BLOCKS    TILE_MX_BLOCKS(FRAGS_M)
#define W_MX_BLOCKS    TILE_MX_BLOCKS(FRAGS_N)
#define W_MX_IN_LDS    (PARTS * WAVES_M * X_MX_BLOCKS * 256)

struct mx_copier {
    rfg_buffer x, w;
    rfg_u32 x_at[X_MX_COPIES], w_at[W_MX_COPIES]; /* of the thread, at k = 0 */
    int groups;                                   /* of a row */
};
struct mx_staged {
    signed char x[X_MX_COPIES], w[W_MX_COPIES];
};

/* The thread's i-th byte of X's or W's: with more threads than bytes some copy the same, which takes no branch. */
RFG_DEVICE int mx_number(int i, int bytes)
{
    return (rfg_thread() + i * THREADS) % bytes;
}

RFG_DEVICE struct mx_copier mx_copier_of(const struct gemm_args *a, int m0, int n0, int rows_m, int rows_n)
{
    struct mx_copier c;
    const char *x = (const char *)a->x_scale, *w = (const char *)a->w_scale;
    int ldx = a->x_scale_row, ldw = a->w_scale_row;
    c.groups = a->k / GEMM_SCALE_GROUP;
    c.x = GATHER ? rfg_buffer_of(x, (X_ROWS(a) - 1) * ldx + c.groups)
                 : rfg_buffer_of(x + (long long)m0 * ldx, (rows_m - 1) * ldx + c.groups);
    c.w = HALVES ? rfg_buffer_of(w, (a->n - 1) * ldw + c.groups)
                 : rfg_buffer_of(w + (long long)n0 * ldw, (rows_n - 1) * ldw + c.groups);
#pragma unroll
    for (int i = 0; i < X_MX_COPIES; i++) {
        int number = mx_number(i, X_MX_BYTES), r = number / GROUPS_OF_STEP;
        c.x_at[i] = row_offset(GATHER, GATHER && r < rows_m ? x_row_at(a, r) : 0, r, rows_m, ldx, 0) +
                    (rfg_u32)(number % GROUPS_OF_STEP);
    }
#pragma unroll
    for (int i = 0; i < W_MX_COPIES; i++) {
        int number = mx_number(i, W_MX_BYTES), r = number / GROUPS_OF_STEP;
        c.w_at[i] = row_offset(HALVES, w_row_at(a, n0 + r), r, rows_n, ldw, 0) + (rfg_u32)(number % GROUPS_OF_STEP);
    }
    return c;
}

/* Behind a row's last group is the next row's first, which may be a NaN: 0 is loaded instead. All of a thread's bytes
 * are of one group if threads are a multiple of a row's groups, as they are. */
static_assert(THREADS % GROUPS_OF_STEP == 0, "a thread's scales are of several groups");
RFG_DEVICE void load_mx(struct mx_staged *s, const struct mx_copier *c, int step)
{
    int group = rfg_thread() % GROUPS_OF_STEP;
    rfg_u32 beyond = !TAIL || step * GROUPS_OF_STEP + group < c->groups ? 0 : 0x80000000u;
#pragma unroll
    for (int i = 0; i < X_MX_COPIES; i++)
        s->x[i] = rfg_llvm_buffer_load1(c->x, (int)(c->x_at[i] | beyond), step * GROUPS_OF_STEP, 0);
#pragma unroll
    for (int i = 0; i < W_MX_COPIES; i++)
        s->w[i] = rfg_llvm_buffer_load1(c->w, (int)(c->w_at[i] | beyond), step * GROUPS_OF_STEP, 0);
}

/* Where the scale of the tile's row r and the step's group g is, of `waves` waves with `blocks` each. */
RFG_DEVICE int mx_place(int r, int g, int waves, int blocks, int rows_a_wave)
{
    int frag = r % rows_a_wave / 16, block = (g / 4 * waves + r / rows_a_wave) * blocks + frag / 4;
    return block * 256 + (r % 16 * 4 + g % 4) * 4 + frag % 4;
}

RFG_DEVICE void put_mx(const struct mx_staged *s, rfg_u32x4 *lds)
{
    signed char *to = (signed char *)lds;
#pragma unroll
    for (int i = 0; i < X_MX_COPIES; i++) {
        int number = mx_number(i, X_MX_BYTES);
        to[mx_place(number / GROUPS_OF_STEP, number % GROUPS_OF_STEP, WAVES_M, X_MX_BLOCKS, WAVE_M)] = s->x[i];
    }
#pragma unroll
    for (int i = 0; i < W_MX_COPIES; i++) {
        int number = mx_number(i, W_MX_BYTES);
        to[W_MX_IN_LDS + mx_place(number / GROUPS_OF_STEP, number % GROUPS_OF_STEP, WAVES_N, W_MX_BLOCKS, WAVE_N)] =
            s->w[i];
    }
}

/* The lane's of all fragments of a wave, each in the lowest byte. */
RFG_DEVICE void read_mx_words(rfg_u32 *scale, const rfg_u32 *words, int frags)
{
    rfg_u32 word = 0;
#pragma unroll
    for (int i = 0; i < frags; i++) {
        word = i % 4 ? word : words[i / 4 * 64 + rfg_frag_row(0) * 4 + rfg_frag_chunk(0)];
        scale[i] = word >> i % 4 * 8;
    }
}
RFG_DEVICE void read_mx(rfg_u32 *x, rfg_u32 *w, const rfg_u32x4 *lds, int part)
{
    const rfg_u32 *words = (const rfg_u32 *)lds;
    int wave_m = rfg_wave() % WAVES_M, wave_n = rfg_wave() / WAVES_M;
    read_mx_words(x, words + (part * WAVES_M + wave_m) * (X_MX_BLOCKS * 64), FRAGS_M);
    read_mx_words(w, words + W_MX_IN_LDS / 4 + (part * WAVES_N + wave_n) * (W_MX_BLOCKS * 64), FRAGS_N);
}
