/* SPDX-License-Identifier: MIT
 *
 * gemm for many rows of X on AMD's matrix cores: what bounds it is arithmetic, so each wave keeps as large a part of
 * the tile of Y in registers as it has, and all else is done in as few instructions as it takes.
 *
 * A step is WIDTH bytes of each row of the tile. Three are under way: one is multiplied out of LDS, the next one goes
 * from registers to LDS, one more comes from memory to registers. With BUFFERS 2 the next one has a place in LDS of its
 * own, and a step has one barrier; with 1 it has to wait for the one that is multiplied, and the CU's other workgroups
 * work meanwhile. Loads are buffer loads, as in stream.hip: the lane's offset never changes, the step is a scalar, and
 * what lies outside of a buffer reads as 0 and is not fetched: rows that don't exist, and steps beyond the last one,
 * whose buffer is empty.
 *
 * Chunk c of row r lies in LDS where chunk c ^ swizzle(r) would: what a wave stores, and the fragments that it loads,
 * ask each bank once a cycle.
 *
 * Sums are made as gemm_stream_mma's of one wave of k: the same instructions, their steps in the order of k. Of i8
 * they stay whole numbers to the end. On gfx950 steps of 128 bytes of fp8 take its instructions of 128 columns. Scales
 * of blocks multiply the sums of a step (its columns are in one block) before these are added.
 *
 * W of 4 bits, by rows or prepacked, comes as words of eight codes. Each is the place of a 16-byte chunk of LDS, which
 * it becomes on its way there: exactly, in X's format, so that each code is decoded once for all rows of the tile. The
 * scales go along as fp32. As in stream.hip they multiply the sums of a group (or of a step, if that is less), since
 * the codes times their scales have more bits than X's format; but for nvfp4, whose codes are multiplied by theirs on
 * their way. Of mx formats codes stay as they are: tile_mx.h.
 *
 * W of 8 bits beside X of 16, by rows or prepacked, comes as eight codes for each chunk of LDS, too. Its scales are as
 * those of codes. Of 64 columns LDS has X's and W's even chunks before the odd ones: as stream.hip multiplies them.
 *
 * Budget of a step: (TILE_M + TILE_N) * WIDTH bytes from memory to LDS (a W of 4 bits that is decoded has a quarter of
 * its bytes in memory). Of each 64 bytes of a row a wave loads FRAGS_M + FRAGS_N fragments of 1024 bytes from LDS on CDNA,
 * for FRAGS_M * FRAGS_N products. What binds is arithmetic.
 *
 * Macros: those of load.h and epilogue.h (X and W fp16, bf16 or codes; W of 4 or 8 bits with X fp16 or bf16; on gfx950 mx
 * formats, W by rows), TILE_M, TILE_N, WAVES_M, WAVES_N (waves along the tile's rows and columns, each of whose parts
 * is a multiple of 16), WIDTH (64, 128; of X), BUFFERS (1, 2), TAIL (rows aren't whole steps), PREPACKED. Grid: (tiles,
 * parts of k), tiles in rfg_xcd_tile()'s order: of bands of X, so that what runs at a time is about square. Workgroups
 * of a tile add their sums in the order of the parts. Needs rows of X and W aligned to 16 bytes, whole chunks of them,
 * and tiles of X and W that span less than 2 GiB. With FAR rows of X are gathered from anywhere: each has an address of
 * its own, and what lies beyond its end is not loaded. */
#include "rfg_device.h"
#include "rfg_amd_stream.h"
#include "rfg_amd_wide.h"
#include "rfg_xcd.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/amd/tile_layout.h"
#include "gemm/gpu/any/experts.h"

#define WAVES       (WAVES_M * WAVES_N)
#define THREADS     (WAVES * RFG_WAVE)
#define WAVE_M      (TILE_M / WAVES_M)
#define WAVE_N      (TILE_N / WAVES_N)
#define FRAGS_M     (WAVE_M / 16)
#define FRAGS_N     (WAVE_N / 16)
#define MX          (SCALES == GEMM_SCALES_GROUPS)
#define DECODES     (W_IS_4_BITS && !MX)     /* W is decoded on its way to LDS, and scaled (nvfp4), or */
#define SUMS_SCALED (DECODES && !W_IS_NVFP4) /* sums of its groups are */
#define WIDE        (RFG_MMA_WIDE(IN_DTYPE) && (MX || WIDTH == 128))
#define COLUMNS     (WIDTH * 8 / X_BYTES_OF(8)) /* of a step */
/* Chunks of a row of X in a step, and of a row of W in LDS. */
#define CHUNKS    (WIDTH / 16)
#define W_CHUNKS  (DECODES || W_IS_8_BITS ? CHUNKS : W_BYTES_OF(COLUMNS) / 16)
#define FRAGS_K   (CHUNKS / RFG_FRAG_CHUNKS)
#define W_FRAGS_K (W_CHUNKS / RFG_FRAG_CHUNKS)

/* Groups of a step, and parts, whose sums are scaled: groups, or single fragments where these have 16 registers. Of mx
 * formats a part is what an instruction takes. */
#if DECODES
#define GROUPS TILE_GROUPS(COLUMNS, W_GROUP)
#define PARTS  (!SUMS_SCALED ? 1 : RFG_FRAG_AB == 4 ? FRAGS_K : GROUPS)
static_assert(COLUMNS % W_GROUP == 0 || W_GROUP % COLUMNS == 0, "a step is neither whole groups nor part of one");
#else
#define GROUPS 0
#define PARTS  (MX ? COLUMNS / 128 : 1)
#endif
#define PART_FRAGS   (FRAGS_K / PARTS)
#define W_PART_FRAGS (W_FRAGS_K / PARTS)

/* A thread copies chunk tid % CHUNKS of every ROWS_A_PASS-th row. */
#define ROWS_A_PASS   (THREADS / CHUNKS)
#define W_ROWS_A_PASS (THREADS / W_CHUNKS)
#define X_COPIES      (TILE_M / ROWS_A_PASS)
#define W_COPIES      (TILE_N / W_ROWS_A_PASS)
/* Of 4 bits its i-th scale is row scale_row(i) % TILE_N's, of group scale_row(i) / TILE_N. With more threads than
 * scales some copy the same, which takes no branch. */
#define SCALE_COPIES ((TILE_N * GROUPS - 1) / THREADS + 1)
RFG_DEVICE int scale_row(int i)
{
    return (rfg_thread() + i * THREADS) % (TILE_N * GROUPS);
}
#define W_IN_LDS      (TILE_M * CHUNKS) /* chunk; behind W come the scales */
#define SCALES_IN_LDS (W_IN_LDS + TILE_N * W_CHUNKS)
#define SCALE_BYTES_OF_STEP                                                                                            \
    (MX ? TILE_MX_BYTES(FRAGS_M, FRAGS_N, WAVES_M, WAVES_N, PARTS) : TILE_GROUP_BYTES(SUMS_SCALED ? GROUPS : 0, TILE_N))
#define STEP_CHUNKS (SCALES_IN_LDS + SCALE_BYTES_OF_STEP / 16)
static_assert((CHUNKS == 4 || CHUNKS == 8) && (W_CHUNKS == 4 || W_CHUNKS == 8), "the swizzle knows rows of 4 and of 8");
static_assert(TILE_M % ROWS_A_PASS == 0 && TILE_N % W_ROWS_A_PASS == 0, "a pass is not of rows of the tile alone");
static_assert(ROWS_A_PASS % 16 == 0 && W_ROWS_A_PASS % 16 == 0, "a thread's rows differ in their swizzle");
static_assert(FRAGS_M * WAVES_M * 16 == TILE_M && FRAGS_N * WAVES_N * 16 == TILE_N, "waves don't share the tile");
static_assert(SCALES != GEMM_SCALES_BLOCKS || (GEMM_SCALE_BLOCK % WAVE_N == 0 && GEMM_SCALE_BLOCK % COLUMNS == 0),
              "a wave's step has several scales of W");

/* The epilogue's view of LDS. */
#define SUM_STRIDE TILE_SUM_STRIDE(WAVE_N)
#define QUADS_ROW  (WAVE_N / 4)
#define LANE_ROWS  (RFG_WAVE / QUADS_ROW) /* rows that a wave stores at once */
static_assert(RFG_WAVE % QUADS_ROW == 0 && LANE_ROWS <= 16, "a wave doesn't store whole rows");

RFG_DEVICE int swizzle(int row, int chunks)
{
    return chunks == 8 ? row & 7 : row >> 1 & 3;
}

#if MX
#include "gemm/gpu/amd/tile_mx.h"
#endif

#if W_IS_8_BITS
#include "rfg_decode8.h"
#endif
/* Where in a row of LDS a step's chunk comes. */
RFG_DEVICE int place_of(int chunk)
{
    return W_IS_8_BITS && CHUNKS == 8 ? chunk % 2 * 4 + chunk / 2 : chunk;
}

/* What a thread copies, and where it puts it. */
struct copier {
    rfg_buffer x, w; /* x: not with FAR */
#if FAR
    const char *x_at[X_COPIES];
    rfg_u32 w_at[W_COPIES];
#else
    rfg_u32 x_at[X_COPIES], w_at[W_COPIES]; /* bytes, at k = 0 */
#endif
    int chunk, w_chunk; /* its chunks of a step */
    int chunks;         /* of a row of X */
    int end;            /* the step after the last one */
    int to, w_to;       /* chunk of LDS, of its first row of X, and of W */
#if MX
    struct mx_copier mx;
#endif
#if DECODES
    rfg_buffer scale, byte; /* byte: a word's zero point, or nvfp4's scale */
    rfg_u32 scale_at[SCALE_COPIES], byte_at[W_COPIES];
    int groups; /* of a row */
#endif
};
/* A step on its way to LDS. */
struct staged {
    rfg_u32x4 x[X_COPIES];
#if DECODES
    rfg_u32 w[W_COPIES], scale[SCALE_COPIES];
    int byte[W_COPIES];
#elif W_IS_8_BITS
    rfg_u32x2 w[W_COPIES];
#else
    rfg_u32x4 w[W_COPIES];
#endif
#if MX
    struct mx_staged mx;
#endif
};

#if DECODES
#include "gemm/gpu/amd/tile_w4.h"
#else
#define W_STEP (W_CHUNKS * (PREPACKED ? PREPACK_ROWS : 1) * (W_IS_8_BITS ? 8 : 16))
#endif

/* Steps come in their order: none follows an empty one. */
RFG_DEVICE void load_step(struct staged *s, struct copier *c, int step)
{
    rfg_u32 beyond = !TAIL || step * CHUNKS + c->chunk < c->chunks ? 0 : 0x80000000u;
    rfg_u32 w_beyond = W_CHUNKS == CHUNKS ? beyond : 0; /* e2m1 has no NaN: whatever is there times 0 is 0 */
#if !FAR
    c->x.z = xcd_scalar(step < c->end ? c->x.z : 0);
#endif
    c->w.z = xcd_scalar(step < c->end ? c->w.z : 0);
#pragma unroll
    for (int i = 0; i < X_COPIES; i++)
#if FAR
        s->x[i] = step < c->end && !beyond ? rfg_load16(c->x_at[i] + (long long)step * WIDTH) : (rfg_u32x4)(0);
#else
        s->x[i] = rfg_buffer_load16(c->x, c->x_at[i] | beyond, step * WIDTH);
#endif
#if DECODES
#pragma unroll
    for (int i = 0; i < W_COPIES; i++)
        s->w[i] = rfg_llvm_buffer_load4(c->w, (int)(c->w_at[i] | w_beyond), w_step(step), 0);
    load_groups(s, c, step, w_beyond);
#else
#pragma unroll
    for (int i = 0; i < W_COPIES; i++)
#if W_IS_8_BITS
        s->w[i] = rfg_llvm_buffer_load8(c->w, (int)(c->w_at[i] | w_beyond), step * W_STEP, 0);
#else
        s->w[i] = rfg_buffer_load16(c->w, c->w_at[i] | w_beyond, step * W_STEP);
#endif
#endif
#if MX
    load_mx(&s->mx, &c->mx, step);
#endif
}

RFG_DEVICE void put_step(const struct staged *s, const struct copier *c, rfg_u32x4 *lds)
{
#pragma unroll
    for (int i = 0; i < X_COPIES; i++)
        lds[c->to + i * (ROWS_A_PASS * CHUNKS)] = s->x[i];
#if DECODES
#pragma unroll
    for (int i = 0; i < W_COPIES; i++) {
#if W_IS_NVFP4
        rfg_u32x4 v = w_decode_by(s->w[i], w_e4m3((rfg_u32)s->byte[i]));
        lds[c->w_to + i * (W_ROWS_A_PASS * W_CHUNKS)] = PREPACKED ? v : w_in_order(v);
#else
        w_offset offset = W_OFFSET_OF(s->byte[i]);
        lds[c->w_to + i * (W_ROWS_A_PASS * W_CHUNKS)] =
            PREPACKED ? w_decode(s->w[i], offset) : w_decode_row(s->w[i], offset);
#endif
    }
    float *scales = (float *)(lds + SCALES_IN_LDS);
#pragma unroll
    for (int i = 0; SUMS_SCALED && i < SCALE_COPIES; i++)
        scales[scale_place(scale_row(i))] = w_group_scale(&s->scale[i], 0);
#else
#pragma unroll
    for (int i = 0; i < W_COPIES; i++)
#if W_IS_8_BITS
        lds[c->w_to + i * (W_ROWS_A_PASS * W_CHUNKS)] = w_decode8_8(s->w[i].x, s->w[i].y);
#else
        lds[c->w_to + i * (W_ROWS_A_PASS * W_CHUNKS)] = s->w[i];
#endif
#endif
#if MX
    put_mx(&s->mx, lds + SCALES_IN_LDS);
#endif
}

/* Where the wave works: its first rows in the tile; where in LDS the lane's pieces of its first fragments are; and of
 * scales of blocks. */
struct place {
    int row_m, row_n;
    rfg_u32 x_at[FRAGS_K][RFG_FRAG_AB], w_at[W_FRAGS_K][RFG_FRAG_AB];
#if SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n, m[FRAGS_M]; /* rows of W and of X whose scales these are */
    int blocks;
#endif
#if DECODES
    int scale_at; /* float, of the first group's */
#endif
};

/* Fragment i, whose rows, of so many chunks, follow by sixteens. */
RFG_DEVICE void load_frag(rfg_frag_ab *f, const rfg_u32x4 *lds, const rfg_u32 *at, int i, int chunks)
{
#pragma unroll
    for (int piece = 0; piece < RFG_FRAG_AB; piece++)
        f->v[piece] = lds[at[piece] + i * (16 * chunks)];
}

#if SCALES == GEMM_SCALES_BLOCKS
/* Of a step's sums. There is none beyond the last one. */
RFG_DEVICE void load_scales(float *scale, const struct place *p, int step)
{
    int block = step * COLUMNS / GEMM_SCALE_BLOCK;
    block = block < p->blocks ? block : p->blocks - 1;
    float w[W_SCALES];
#pragma unroll
    for (int h = 0; h < W_SCALES; h++)
        w[h] = w_scale_of(p->a, p->n + W_SCALE_ROW(h), block);
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int h = 0; h < W_SCALES; h++)
            scale[i * W_SCALES + h] = w[h] * x_scale_at(p->a, p->m[i], block);
}
#endif

/* c += the product of a part's pieces of two fragments; of mx formats with their scales. */
RFG_DEVICE void multiply_frags(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x, rfg_u32 w_scale,
                               rfg_u32 x_scale)
{
#if WIDE
    rfg_u32x4 a[W_PART_FRAGS], b[PART_FRAGS];
#pragma unroll
    for (int k = 0; k < W_PART_FRAGS; k++)
        a[k] = w[k].v[0];
#pragma unroll
    for (int k = 0; k < PART_FRAGS; k++)
        b[k] = x[k].v[0];
#if MX
    rfg_wide_mma_scaled(c, a, W_DTYPE, b, IN_DTYPE, w_scale, x_scale);
#else
    (void)w_scale, (void)x_scale;
    rfg_wide_mma(c, a, IN_DTYPE, b, IN_DTYPE);
#endif
#else
    (void)w_scale, (void)x_scale;
#pragma unroll
    for (int k = 0; k < PART_FRAGS; k++)
        rfg_stream_mma(c, &w[k], &x[k], IN_DTYPE);
#endif
}

#if SUMS_SCALED
#define SCALED                 1
#define SCALE_OF_PART(i, j, e) w_scale[j][e]
/* Of the lane's rows of C. */
RFG_DEVICE void read_scales(float (*scale)[RFG_FRAG_WX], const struct place *p, const rfg_u32x4 *lds, int part)
{
    const float *from = (const float *)(lds + SCALES_IN_LDS) + p->scale_at + part * GROUPS / PARTS * TILE_N;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int e = 0; e < RFG_FRAG_WX; e += 4) {
            rfg_f32x4 quad = *(const rfg_f32x4 *)(from + j * 16 + e);
            scale[j][e] = quad.x;
            scale[j][e + 1] = quad.y;
            scale[j][e + 2] = quad.z;
            scale[j][e + 3] = quad.w;
        }
}
#else
#define SCALED                 (SCALES == GEMM_SCALES_BLOCKS)
#define SCALE_OF_PART(i, j, e) scale[(i)*W_SCALES + W_SCALE_OF(e)]
#endif

/* scale: of the step's columns, with scales of blocks. */
RFG_DEVICE void multiply_step(rfg_frag_wx (*acc)[FRAGS_N], const struct place *p, const rfg_u32x4 *lds,
                              const float *scale)
{
    (void)scale;
#if SCALED || WIDE
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        if (RFG_FRAG_AB == 4 && part) /* as below */
            rfg_keep_order();
        rfg_frag_ab w[FRAGS_N][W_PART_FRAGS];
        rfg_u32 of_w[FRAGS_N] = { 0 }, of_x[FRAGS_M] = { 0 }; /* scales of mx formats */
#if SUMS_SCALED
        float w_scale[FRAGS_N][RFG_FRAG_WX];
        read_scales(w_scale, p, lds, part);
#elif MX
        read_mx(of_x, of_w, lds + SCALES_IN_LDS, part);
#endif
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int k = 0; k < W_PART_FRAGS; k++)
                load_frag(&w[j][k], lds, p->w_at[part * W_PART_FRAGS + k], j, W_CHUNKS);
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
            rfg_frag_x x[PART_FRAGS];
            if (DECODES && RFG_FRAG_AB < 4 &&
                i % 2 == 0) /* or all sums are made first, in registers that there aren't */
                rfg_keep_order();
#pragma unroll
            for (int k = 0; k < PART_FRAGS; k++)
                load_frag(&x[k], lds, p->x_at[part * PART_FRAGS + k], i, CHUNKS);
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++) {
#if !SCALED
                multiply_frags(&acc[i][j], w[j], x, of_w[j], of_x[i]);
#else
                rfg_frag_wx sums;
                rfg_frag_zero(&sums);
                multiply_frags(&sums, w[j], x, 0, 0);
#pragma unroll
                for (int e = 0; e < RFG_FRAG_WX; e++)
                    acc[i][j].v[e] =
                        rfg_fma(rfg_stream_sum(sums.v[e], IN_DTYPE), SCALE_OF_PART(i, j, e), acc[i][j].v[e]);
#endif
            }
        }
    }
#else
#pragma unroll
    for (int k = 0; k < FRAGS_K; k++) {
        rfg_frag_ab w[FRAGS_N];
        rfg_frag_x x[FRAGS_M];
        if (RFG_FRAG_AB == 4 && k) /* fragments of 16 registers: those of two k at once leave too few for the rest */
            rfg_keep_order();
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            load_frag(&w[j], lds, p->w_at[k], j, W_CHUNKS);
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            load_frag(&x[i], lds, p->x_at[k], i, CHUNKS);
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++)
                rfg_stream_mma(&acc[i][j], &w[j], &x[i], IN_DTYPE);
    }
#endif
}

RFG_DEVICE float final_of(float sum)
{
    return SCALED ? W_UNIT * sum : rfg_stream_sum(sum, IN_DTYPE);
}

#include "gemm/gpu/amd/tile_sums.h"

/* Can quads be stored whole? The same for all. */
RFG_DEVICE bool whole_quads(const struct gemm_args *a)
{
    rfg_u64 bits = (rfg_u64)a->y | (rfg_u64)(GEMM_LDY(a) * Y_BYTES);
    return a->n % 4 == 0 && bits % (4 * Y_BYTES) == 0;
}

/* Where the thread's rows of X are. */
RFG_DEVICE void place_x(struct copier *c, const struct gemm_args *a, int row, int rows_m, int ldx)
{
#pragma unroll
    for (int i = 0; i < X_COPIES; i++) {
        int r = row + i * ROWS_A_PASS;
#if FAR
        c->x_at[i] = x_row(a, r < rows_m ? r : rows_m - 1) + c->chunk * 16;
#else
        c->x_at[i] = row_offset(GATHER, GATHER && r < rows_m ? x_row_at(a, r) : 0, r, rows_m, ldx, c->chunk);
#endif
    }
}

/* Where the thread's rows of W are, and their zero points. */
RFG_DEVICE void place_w(struct copier *c, const struct gemm_args *a, int row_w, int n0, int rows_n, int ldw)
{
#pragma unroll
    for (int i = 0; i < W_COPIES; i++) {
        int r = row_w + i * W_ROWS_A_PASS;
#if DECODES
        int chunk = c->chunk % RFG_FRAG_CHUNKS, word = c->chunk / RFG_FRAG_CHUNKS * 4;
        c->w_at[i] = PREPACKED ? (rfg_u32)(r / PREPACK_ROWS * PREPACK_ROWS * ldw + r % PREPACK_ROWS * 16) +
                                     (rfg_u32)(chunk * (PREPACK_ROWS * 16) + word)
                               : row_offset(HALVES, w_row_at(a, n0 + r), r, rows_n, ldw, 0) + (rfg_u32)(c->chunk * 4);
        c->byte_at[i] = group_at(a, n0, rows_n, r, c->chunk / (CHUNKS / GROUPS), 1);
#elif W_IS_8_BITS
        c->w_at[i] = PREPACKED ? (rfg_u32)(r / PREPACK_ROWS * PREPACK_ROWS * ldw + r % PREPACK_ROWS * 16) +
                                     (rfg_u32)(c->w_chunk / 2 * (PREPACK_ROWS * 16) + c->w_chunk % 2 * 8)
                               : row_offset(HALVES, w_row_at(a, n0 + r), r, rows_n, ldw, 0) + (rfg_u32)(c->w_chunk * 8);
#else
        c->w_at[i] =
            PREPACKED
                ? (rfg_u32)(r / PREPACK_ROWS * PREPACK_ROWS * ldw + (c->w_chunk * PREPACK_ROWS + r % PREPACK_ROWS) * 16)
                : row_offset(HALVES, w_row_at(a, n0 + r), r, rows_n, ldw, c->w_chunk);
#endif
    }
}

/* Where the lane's pieces of the wave's first fragments are in LDS. */
RFG_DEVICE void place_frags(struct place *p)
{
#pragma unroll
    for (int k = 0; k < (FRAGS_K > W_FRAGS_K ? FRAGS_K : W_FRAGS_K); k++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++) {
            int r = rfg_frag_row(i), chunk = k * RFG_FRAG_CHUNKS + rfg_frag_chunk(i);
            /* Not for the compiler to see how it is made: it would make each fragment's anew. */
            if (k < FRAGS_K)
                p->x_at[k][i] = rfg_anew((rfg_u32)((p->row_m + r) * CHUNKS + (chunk ^ swizzle(r, CHUNKS))));
            if (k < W_FRAGS_K)
                p->w_at[k][i] =
                    rfg_anew((rfg_u32)(W_IN_LDS + (p->row_n + r) * W_CHUNKS + (chunk ^ swizzle(r, W_CHUNKS))));
        }
}

#if SCALES == GEMM_SCALES_BLOCKS
/* Whose scales of blocks the wave needs. */
RFG_DEVICE void place_blocks(struct place *p, const struct gemm_args *a, int m0, int n0)
{
    p->a = a;
    p->n = n0 + p->row_n < a->n ? n0 + p->row_n : a->n - 1;
    p->blocks = (a->k - 1) / GEMM_SCALE_BLOCK + 1;
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++) {
        int m = m0 + p->row_m + i * 16 + rfg_frag_c_col(0);
        p->m[i] = (int)x_row_at(a, m < a->m ? m : a->m - 1);
    }
}
#endif

RFG_DEVICE void zero_sums(rfg_frag_wx (*acc)[FRAGS_N])
{
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            rfg_frag_zero(&acc[i][j]);
}

/* The sums of the wave's i-th 16 rows, to LDS. Registers have no index. */
RFG_DEVICE void put_row(float *sums, rfg_frag_wx (*acc)[FRAGS_N], int i)
{
#pragma unroll
    for (int at = 0; at < FRAGS_M; at++)
        if (i == at) {
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++)
                put_sums(sums, &acc[at][j], j);
        }
}

#define WAVES_A_SIMD (WAVES > 4 || FRAGS_M * FRAGS_N <= 32 ? 2 : 1)
extern "C" __attribute__((global)) RFG_WAVES_A_SIMD(WAVES_A_SIMD, WAVES_A_SIMD) void gemm_tile(struct gemm_args a);

RFG_KERNEL(THREADS) gemm_tile(struct gemm_args a)
{
    int tid = rfg_thread(), wave = rfg_wave(), splits = rfg_groups_y();
    int tiles_m = (a.m - 1) / TILE_M + 1, tiles_n = (a.n - 1) / TILE_N + 1;
#if EXPERTS
    struct expert expert;
    if (!find_expert(&expert, &a, TILE_M, rfg_group_x() / tiles_n))
        return;
    struct rfg_tile t = rfg_xcd_tile(rfg_group_x() - expert.first * tiles_n, TILE_M, expert.tiles, tiles_n, 1);
    int number = expert.first * tiles_n + t.n * expert.tiles + t.m;
    a = args_of(&a, &expert, t.m * TILE_M, TILE_M);
    t.m = 0;
    t.split = rfg_group_y();
#else
    struct rfg_tile t =
        rfg_xcd_tile(rfg_group_x() + rfg_group_y() * (tiles_m * tiles_n), TILE_M, tiles_m, tiles_n, splits);
    int number = t.n * tiles_m + t.m;
#endif
    int m0 = t.m * TILE_M, n0 = t.n * TILE_N, steps = (a.k - 1) / COLUMNS + 1;
    int step = xcd_scalar(rfg_share_begin(steps, t.split, splits));

    struct copier c;
    int row = tid / CHUNKS, row_w = tid / W_CHUNKS;
    c.chunk = tid % CHUNKS;
    c.chunks = a.k / X_VEC;
    c.w_chunk = tid % W_CHUNKS;
    c.end = xcd_scalar(rfg_share_begin(steps, t.split + 1, splits));
    c.to = row * CHUNKS + (place_of(c.chunk) ^ swizzle(row, CHUNKS));
    c.w_to = W_IN_LDS + row_w * W_CHUNKS + (place_of(c.w_chunk) ^ swizzle(row_w, W_CHUNKS));
    int ldx = (int)X_BYTES_OF(GEMM_LDX(&a)), ldw = (int)W_BYTES_OF(GEMM_LDW(&a));
    int rows_m = a.m - m0 < TILE_M ? a.m - m0 : TILE_M, rows_n = a.n - n0 < TILE_N ? a.n - n0 : TILE_N;
#if !FAR
    c.x = GATHER ? rfg_buffer_of(a.x, (X_ROWS(&a) - 1) * ldx + X_BYTES_OF(a.k))
                 : rfg_buffer_of(x_row(&a, m0), (rows_m - 1) * ldx + X_BYTES_OF(a.k));
#endif
    c.w = HALVES ? rfg_buffer_of(a.w, (a.n - 1) * ldw + W_BYTES_OF(W_COLS(&a)))
                 : rfg_buffer_of(W_ROW_AT(&a, n0), (rows_n - 1) * ldw + W_BYTES_OF(W_COLS(&a)));
    place_x(&c, &a, row, rows_m, ldx);
    place_w(&c, &a, row_w, n0, rows_n, ldw);
#if MX
    c.mx = mx_copier_of(&a, m0, n0, rows_m, rows_n);
#endif
#if DECODES
    place_groups(&c, &a, n0, rows_n);
#endif

    struct place p;
    p.row_m = wave % WAVES_M * WAVE_M;
    p.row_n = wave / WAVES_M * WAVE_N;
    place_frags(&p);
#if DECODES
    p.scale_at = p.row_n + (RFG_FRAG_C_ACROSS ? rfg_lane() / 16 * 8 : rfg_frag_c_row(0));
#endif
    float scale[FRAGS_M * W_SCALES], next_scale[FRAGS_M * W_SCALES];
#if SCALES == GEMM_SCALES_BLOCKS
    place_blocks(&p, &a, m0, n0);
    load_scales(next_scale, &p, step);
#endif

    struct staged s;
    rfg_u32x4 *lds = rfg_lds;
    rfg_frag_wx acc[FRAGS_M][FRAGS_N];
    load_step(&s, &c, step);
    zero_sums(acc);
    put_step(&s, &c, lds);
    load_step(&s, &c, step + 1);
    rfg_barrier_lds();
    int buffer = 0;
#pragma unroll 1
    for (; step < c.end; step++) {
#if SCALES == GEMM_SCALES_BLOCKS
#pragma unroll
        for (int i = 0; i < FRAGS_M * W_SCALES; i++)
            scale[i] = next_scale[i];
        load_scales(next_scale, &p, step + 1);
#endif
        int next = BUFFERS == 1 ? 0 : STEP_CHUNKS - buffer;
        if (BUFFERS == 2) { /* whoever reads it is done: the last barrier came after that */
            put_step(&s, &c, lds + next);
            load_step(&s, &c, step + 2);
            rfg_keep_order(); /* else the loads come last, to save registers */
        }
        multiply_step(acc, &p, lds + buffer, scale);
        rfg_barrier_lds();
        if (BUFFERS == 1) {
            put_step(&s, &c, lds);
            load_step(&s, &c, step + 2);
            rfg_barrier_lds();
        }
        buffer = next;
    }

    /* Sums come by way of LDS, each wave's by itself, so that neighbouring lanes have neighbouring columns. Registers
     * have no index; the rest of the loop's body is there once. */
    float *sums = (float *)rfg_lds + wave * (16 * SUM_STRIDE);
    float *parts = (float *)a.workspace + (long long)number * splits * TILE_PARTIALS(TILE_M, TILE_N);
    float *part = parts + (long long)t.split * TILE_PARTIALS(TILE_M, TILE_N);
    int lane_row = rfg_lane() / QUADS_ROW, col = rfg_lane() % QUADS_ROW * 4, n = p.row_n + col;
    bool whole = splits == 1 && whole_quads(&a);
    struct column_ends ends;
    if (whole && finishes(&a) && n < rows_n)
        ends = column_ends_of(&a, n0 + n);
#pragma unroll 1
    for (int i = 0; i < FRAGS_M; i++) {
        rfg_keep_order();
        put_row(sums, acc, i);
        rfg_keep_order();
        if (n >= rows_n)
            continue;
        const float *from = sums + lane_row * SUM_STRIDE + col;
        int m = p.row_m + 16 * i + lane_row;
        if (whole) {
#pragma unroll
            for (int r = 0; r < 16; r += LANE_ROWS)
                if (m + r < rows_m)
                    store_4_whole(&a, (long long)m0 + m + r, n0 + n, *(const rfg_f32x4 *)(from + r * SUM_STRIDE),
                                  &ends);
            continue;
        }
#pragma unroll 1
        for (int r = 0; r < 16 && m + r < rows_m; r += LANE_ROWS) {
            rfg_f32x4 sum = *(const rfg_f32x4 *)(from + r * SUM_STRIDE);
            if (splits > 1)
                rfg_store_f32x4(part + (m + r) * TILE_N + n, sum);
            else
                store_4(&a, (long long)m0 + m + r, n0 + n, sum);
        }
    }
    if (splits == 1)
        return;

    /* The flag takes the place of sums[0]: everybody has passed the barrier inside before it is written. */
    if (rfg_last_to_arrive(a.counters + number, splits, (rfg_u32 *)rfg_lds))
        reduce_partials(&a, parts, splits, TILE_PARTIALS(TILE_M, TILE_N), rows_m * (TILE_N / 4), THREADS, TILE_N, m0,
                        n0);
}
