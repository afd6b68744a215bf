/* SPDX-License-Identifier: MIT
 *
 * gemm for few rows of X on AMD's matrix cores, in as few instructions as it takes: weights stream through registers
 * once, each wave multiplies FRAGS_N x 16 rows of W by all TILE_M rows of X in its own part of k, and a part is asked
 * for whole, UNROLL steps of 32, before anything is waited for.
 *
 * What keeps it lean: buffer loads, whose address is a base for the workgroup in scalar registers, an offset for the
 * lane that never changes, one for the wave in a scalar register and one in the instruction: a step costs loads and
 * matrix instructions, nothing else. What lies outside of a buffer reads as 0 and is not fetched: rows of X and W that
 * don't exist are masked by that alone. The parts of k follow each other, so that a line of W is one wave's.
 *
 * k is split across K_WAVES waves, whose sums are added in LDS, and across SPLIT workgroups, whose partial sums go
 * through the workspace: each wave owns some quads, and of the workgroups' waves that own the same quads the last one
 * to arrive adds their partials in the order of the splits.
 *
 * With SLOTS the waves that stored a column of tiles count themselves in the same way, and the last one sums its rows
 * by token: slots.h.
 *
 * Codes of 8 bits have steps of 64. With scales of blocks a step's sums are multiplied by theirs before they are added.
 *
 * W of 4 bits, prepacked, is loaded in the same pieces, each of four steps of 32 columns; X comes in the pieces that it
 * always has. It becomes fragments of X's format exactly, in registers; the sums of a group are multiplied by their
 * rows' scales, in fp32, which takes an instruction for each sum, where scaling W would take one for each element and a
 * rounding. The scales are loaded with the step. Beside it X may be of mx formats: its codes become fp16, too, and the
 * sums of a group are multiplied by both scales. By rows mx formats, and fp8, are multiplied by gfx950's instructions
 * as they are: stream_wide.h.
 *
 * W of 8 bits beside X of 16: stream_w8.h; nvfp4: stream_nvfp4.h.
 *
 * Budget of a wave's step of 32 columns of 16 bits on CDNA: FRAGS_N loads of W and TILE_M / 16 of X, 1024 bytes each; a
 * product of 16x16x32 for each of FRAGS_N * FRAGS_M fragments. W is read once for each tile along m. What binds is
 * memory.
 *
 * Macros: those of load.h and epilogue.h (X fp16 or bf16 and W the same or of 4 or 8 bits; or both codes), TILE_M (16, 32,
 * 64), FRAGS_N, K_WAVES, UNROLL (in steps), SPLIT, EXACT (all parts have the same number of steps, a multiple of
 * UNROLL), ONCE (no part has more than UNROLL steps), TAIL (K % 32 != 0; of W of 8 bits % 64, of W of 4 bits % 128),
 * PREPACKED (W is: a fragment is 1024 contiguous bytes, and the next step's follows it). Grid: (tiles along m, SPLIT
 * neighbours for each tile along n), in rfg_xcd_tile()'s order on several dies. Needs rows of X and W aligned to 16
 * bytes, K % 8 = 0 (of W of 8 bits % 16), and tiles of X and W that span less than 2 GiB. */
#include "rfg_device.h"
#include "rfg_amd_stream.h"
#include "rfg_amd_wide.h"
#include "rfg_xcd.h"
#include "gemm/gpu/any/load.h"
#define Y_SHARED SLOTS
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/amd/stream_layout.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/any/slots.h"

#define THREADS (K_WAVES * RFG_WAVE)
#define TILE_N  (FRAGS_N * 16)
#define FRAGS_M (TILE_M / 16)
#define MX      (SCALES == GEMM_SCALES_GROUPS)
#define WIDE    (!PREPACKED && RFG_MMA_WIDE(IN_DTYPE))
#define REACH   4096 /* of an instruction's own offset: steps further on are by the scalar one */
/* Accumulators go through LDS and the workspace four at a time as they lie in the wave: [quad][lane]. */
#define FRAG_QUADS (RFG_FRAG_WX / 4)
#define QUADS      (FRAGS_N * FRAGS_M * FRAG_QUADS)
#define FINISHERS  STREAM_FINISHERS(QUADS, K_WAVES) /* waves that own quads: every FINISHERS-th */
#define OWN_QUADS  (QUADS / FINISHERS)
#define PART_BYTES STREAM_PARTIAL_BYTES(TILE_M, TILE_N)
static_assert(QUADS * RFG_WAVE * 16 == PART_BYTES, "a wave's quads are not the tile");

static_assert(SCALES != GEMM_SCALES_BLOCKS || GEMM_SCALE_BLOCK % TILE_N == 0, "a tile has several scales of W");

/* With scales of blocks a wave's steps are whole blocks: the sums of one are scaled at its last step, whose ring has
 * its scales. */
#if SCALES == GEMM_SCALES_BLOCKS
#define BLOCK_COLUMNS (SCALE_COLUMNS < GEMM_SCALE_BLOCK ? SCALE_COLUMNS : GEMM_SCALE_BLOCK)
#define BLOCK_STEPS   (BLOCK_COLUMNS / STEP_K)
static_assert(SCALE_COLUMNS % BLOCK_COLUMNS == 0, "a block has several scales");
#else
#define BLOCK_STEPS 1
#endif
#define ENDS_BLOCK(u) ((u) % BLOCK_STEPS == BLOCK_STEPS - 1)
#define ROW_SCALES    (SCALES == GEMM_SCALES_BLOCKS && W_IS_8_BITS && W_GROUP) /* each row of W has its own */

#if WIDE
#include "gemm/gpu/amd/stream_wide.h"
#else

#define FRAG_BYTES   (MX ? X_BYTES_OF(RFG_FRAG_K) : RFG_FRAG_K * 2) /* of a row of X */
#define STEP_BYTES   (W_STEPS * FRAG_BYTES)                         /* of X; of W: W_FRAG_STEP */
/* From the lane's piece of a step's first fragment to that of another, and what counts as the fragment's step. */
#define X_PART       (W_IS_8_BITS ? 16 : FRAG_BYTES)
#define X_STEP(s, h) (W_IS_8_BITS ? (s) : (s)*W_STEPS + (h))
#if MX
#define STEP_K PREPACK4_COLS
#else
#define STEP_K (STEP_BYTES / X_BYTES)
#endif
#if W_IS_NVFP4
#include "gemm/gpu/amd/stream_nvfp4.h"
#elif W_IS_4_BITS
/* Of each group of a step a lane needs the scales of its rows of C (on RDNA 3 every other row). 16 neighbouring lanes
 * need the same ones, so each loads one word of theirs: lane l has word 16 i + l % 16 of
 * [FRAGS_N][W_GROUPS][SCALE_WORDS] in scale[i], and makes floats of it that all of them multiply by. */
#define SCALE_VALUES (RFG_FRAG_C_ACROSS ? (W_SCALE_BYTES == 1 ? 2 : 1) : 4 / W_SCALE_BYTES) /* of a word */
#define SCALE_WORDS  (RFG_FRAG_WX / SCALE_VALUES)                                           /* of a group */
#define SCALE_LIST   (FRAGS_N * W_GROUPS * SCALE_WORDS)
#define SCALE_LOADS  ((SCALE_LIST + 15) / 16)
#define GROUP_BYTES  (PREPACK_ROWS * W_SCALE_BYTES)
#endif

/* One step of a wave. */
struct step {
    rfg_frag_ab w[FRAGS_N];
#if MX
    x_codes x[W_STEPS][FRAGS_M][RFG_FRAG_X];
    rfg_u32 x_scale[FRAGS_M]; /* of the step's four groups */
#else
    rfg_frag_x x[W_STEPS][FRAGS_M];
#endif
#if ROW_SCALES
    float w_scale[FRAGS_N][RFG_FRAG_WX];
#elif SCALES == GEMM_SCALES_BLOCKS
    float w_scale[W_SCALES], x_scale[FRAGS_M];
#endif
#if W_IS_NVFP4
    rfg_u32 scale[FRAGS_N][SCALES_A_ROW]; /* of the lane's row of W */
#elif W_IS_4_BITS
    rfg_u32 scale[SCALE_LOADS];
#if W_ZERO
    int zero[FRAGS_N][W_GROUPS]; /* of the lane's row of W */
#endif
#endif
};

/* Where the wave's pieces are. */
struct place {
    rfg_buffer w, x;
    rfg_u32 w_at[FRAGS_N][RFG_FRAG_AB], x_at[FRAGS_M][RFG_FRAG_X]; /* of the lane, at k = 0 */
    int chunks;                                                    /* of 16 bytes in a row */
#if SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n, m[FRAGS_M]; /* rows of W and of X whose scales these are */
#endif
#if W_IS_4_BITS
    rfg_buffer scale, zero;
    rfg_u32 scale_at[SCALE_LOADS], zero_at; /* of the lane */
    int groups;                             /* of a row */
#endif
#if MX
    rfg_buffer x_scale;
    rfg_u32 x_scale_at[FRAGS_M]; /* of the rows of X that the lane's columns of C are of */
#endif
};

#if MX
RFG_DEVICE void place_scales(struct place *p, const struct gemm_args *a, int m0, int n0)
{
    (void)n0;
    p->x_scale = rfg_buffer_of(a->x_scale, 0x7fffffff);
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++) {
        int m = m0 + i * 16 + rfg_frag_c_col(0);
        p->x_scale_at[i] = (rfg_u32)x_row_at(a, m < a->m ? m : a->m - 1) * (rfg_u32)a->x_scale_row;
    }
}
#endif

/* The lane's offset, or one out of every buffer if its piece of the step lies beyond the row's end. */
RFG_DEVICE rfg_u32 offset_of(const struct place *p, rfg_u32 at, int step, int i)
{
    return !TAIL || step * RFG_FRAG_CHUNKS + rfg_frag_chunk(i) < p->chunks ? at : 0x80000000u;
}

#if W_IS_4_BITS
RFG_DEVICE void place_groups(struct place *p, const struct gemm_args *a, int n0, int rows_n)
{
    p->groups = W_COLS(a) / W_GROUP;
    long long group0 = (long long)n0 / PREPACK_ROWS * p->groups;
    int groups = rows_n / PREPACK_ROWS * p->groups;
    p->scale = rfg_buffer_of((const char *)a->w_scale + group0 * GROUP_BYTES, groups * GROUP_BYTES);
#if W_IS_NVFP4
#pragma unroll
    for (int i = 0; i < SCALE_LOADS; i++)
        p->scale_at[i] = scale_offset(i);
#else
#pragma unroll
    for (int i = 0; i < SCALE_LOADS; i++) {
        int word = i * 16 + rfg_lane() % 16, of = word % SCALE_WORDS;
        int group = word / (W_GROUPS * SCALE_WORDS) * p->groups + word / SCALE_WORDS % W_GROUPS;
        int at = RFG_FRAG_C_ACROSS ? (W_SCALE_BYTES == 4 ? of * 8 + rfg_lane() / 16 * 4 : of * 4)
                                   : rfg_frag_c_row(0) * W_SCALE_BYTES + of * 4;
        p->scale_at[i] = word < SCALE_LIST ? (rfg_u32)(group * GROUP_BYTES + at) : 0x80000000u;
    }
#endif
#if W_ZERO
    p->zero = rfg_buffer_of((const char *)a->w_zero + group0 * PREPACK_ROWS, groups * PREPACK_ROWS);
    p->zero_at = (rfg_u32)rfg_frag_row(0);
#endif
}

#if W_IS_NVFP4
#define LOAD_SCALES(s, p, step, u) load_scales((s)->scale, (p)->scale, (p)->scale_at, (p)->groups, step, u)
#else
#define LOAD_SCALES(s, p, step, u) load_scales((s)->scale, p, step, u)
/* Of step `step + u`. */
RFG_DEVICE void load_scales(rfg_u32 *scale, const struct place *p, int step, int u)
{
    int first = W_GROUP > PREPACK4_COLS ? W_GROUP_OF(step + u) : W_GROUP_OF(step);
    int more = W_GROUP > PREPACK4_COLS ? 0 : u * W_GROUPS;
#pragma unroll
    for (int i = 0; i < SCALE_LOADS; i++)
        scale[i] = rfg_llvm_buffer_load4(p->scale, (int)p->scale_at[i] + more * GROUP_BYTES, first * GROUP_BYTES, 0);
}

#if W_ZERO
RFG_DEVICE void load_zeros(int *zero, const struct place *p, int step, int u, int frag)
{
    int first = frag * p->groups + (W_GROUP > PREPACK4_COLS ? W_GROUP_OF(step + u) : W_GROUP_OF(step));
#pragma unroll
    for (int i = 0; i < W_GROUPS; i++) {
        int more = W_GROUP > PREPACK4_COLS ? 0 : u * W_GROUPS + i;
        zero[i] = rfg_llvm_buffer_load1(p->zero, (int)(p->zero_at + more * PREPACK_ROWS), first * PREPACK_ROWS, 0);
    }
}
#endif

/* The floats of a lane's words. */
RFG_DEVICE void scales_of(float (*f)[SCALE_VALUES], const rfg_u32 *scale)
{
    int odd = RFG_FRAG_C_ACROSS ? rfg_lane() / 16 : 0, step = RFG_FRAG_C_ACROSS ? 2 : 1;
#pragma unroll
    for (int i = 0; i < SCALE_LOADS * SCALE_VALUES; i++) {
        rfg_u32 word = scale[i / SCALE_VALUES];
        if (W_SCALE_BYTES < 4)
            word >>= (i % SCALE_VALUES * step + odd) * (W_SCALE_BYTES * 8);
        f[i / SCALE_VALUES][i % SCALE_VALUES] = w_group_scale(&word, 0);
    }
}
/* The one of element e of fragment j's sums of group g. */
RFG_DEVICE float scale_of(float (*f)[SCALE_VALUES], int j, int g, int e)
{
    int word = (j * W_GROUPS + g) * SCALE_WORDS + e / SCALE_VALUES;
    return rfg_as_float(rfg_row_share(rfg_as_u32(f[word / 16][e % SCALE_VALUES]), word % 16));
}
#endif
#endif

#if !MX
#define LOAD_X s->x[h][j].v[i] = rfg_buffer_load16
#elif IN_DTYPE == RFG_E2M1
#define LOAD_X(b, at, uniform) s->x[h][j][i] = rfg_llvm_buffer_load4(b, (int)(at), uniform, 0)
#else
#define LOAD_X(b, at, uniform) s->x[h][j][i] = rfg_llvm_buffer_load8(b, (int)(at), uniform, 0)
#endif

/* Step `step + u`. */
RFG_DEVICE void load_step(struct step *s, const struct place *p, int step, int u)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            s->w[j].v[i] = rfg_buffer_load16_stream(
                p->w,
                (W_IS_4_BITS ? p->w_at[j][i] : offset_of(p, p->w_at[j][i], step + u, i)) + u * W_FRAG_STEP % REACH,
                step * W_FRAG_STEP + u * W_FRAG_STEP / REACH * REACH);
#if W_IS_4_BITS
    LOAD_SCALES(s, p, step, u);
#if W_ZERO
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        load_zeros(s->zero[j], p, step, u, j);
#endif
#endif
#pragma unroll
    for (int h = 0; h < W_STEPS; h++)
#pragma unroll
        for (int j = 0; j < FRAGS_M; j++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_X; i++)
                LOAD_X(p->x,
                       offset_of(p, p->x_at[j][i], X_STEP(step + u, h), i) + (u * STEP_BYTES + h * X_PART) % REACH,
                       step * STEP_BYTES + (u * STEP_BYTES + h * X_PART) / REACH * REACH);
#if MX
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
        s->x_scale[j] = rfg_llvm_buffer_load4(p->x_scale, (int)p->x_scale_at[j] + u * W_STEPS, step * W_STEPS, 0);
#if W_PADDED /* behind K is anything, a NaN perhaps */
    int there = p->chunks / RFG_FRAG_CHUNKS - (step + u) * W_STEPS;
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
        s->x_scale[j] &= there >= 4 ? 0xffffffffu : (1u << 8 * there) - 1u;
#endif
#endif
#if SCALES == GEMM_SCALES_BLOCKS
    if (!ENDS_BLOCK(u))
        return;
#if ROW_SCALES
#pragma unroll
    for (int e = 0; e < FRAGS_N * RFG_FRAG_WX; e++) {
        int j = e / RFG_FRAG_WX, n = p->n + j * 16 + rfg_frag_c_row(e % RFG_FRAG_WX);
        s->w_scale[j][e % RFG_FRAG_WX] =
            w_scale_of(p->a, n < p->a->n ? n : p->a->n - 1, (step + u) / BLOCK_STEPS * BLOCK_COLUMNS / SCALE_COLUMNS);
    }
#else
#pragma unroll
    for (int h = 0; h < W_SCALES; h++)
        s->w_scale[h] = w_scale_of(p->a, p->n + W_SCALE_ROW(h), (step + u) / BLOCK_STEPS);
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
        s->x_scale[j] = x_scale_at(p->a, p->m[j], (step + u) / BLOCK_STEPS);
#endif
#endif
}

/* What matrix instructions made is read in multiply(), for rfg_settle()'s reason. */
RFG_DEVICE void settle_sums(rfg_frag_wx (*acc)[FRAGS_M])
{
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        float *v = acc[i / FRAG_QUADS / FRAGS_M][i / FRAG_QUADS % FRAGS_M].v + i % FRAG_QUADS * 4;
        rfg_f32x4 quad = { v[0], v[1], v[2], v[3] };
        rfg_settle(&quad, !EXACT && !ONCE); /* load_next() may be skipped */
        v[0] = quad.x;
        v[1] = quad.y;
        v[2] = quad.z;
        v[3] = quad.w;
    }
}

#if MX
#include "gemm/gpu/amd/stream_mx.h"
#elif W_IS_NVFP4
RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    (void)u;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        rfg_keep_order(); /* or all of W is decoded first, into registers that there aren't */
#pragma unroll
        for (int h = 0; h < W_STEPS; h++) {
            rfg_frag_ab w;
            decode_fragment(&w, &s->w[j], s->scale[j], h);
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
                rfg_stream_mma(&acc[j][i], &w, &s->x[h][i], IN_DTYPE);
        }
    }
}
#elif W_IS_4_BITS
#include "gemm/gpu/amd/stream_w4.h"
#elif W_IS_8_BITS
#include "gemm/gpu/amd/stream_w8.h"
#else
RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    bool ends = ENDS_BLOCK(u);
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
#if SCALES == GEMM_SCALES_BLOCKS
            rfg_frag_wx *block = &acc[FRAGS_N + j][i];
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                block->v[e] = u % BLOCK_STEPS ? block->v[e] : 0.0f;
            rfg_stream_mma(block, &s->w[j], &s->x[0][i], IN_DTYPE);
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                if (ends)
                    acc[j][i].v[e] = rfg_fma(rfg_stream_sum(block->v[e], IN_DTYPE),
                                             s->w_scale[W_SCALE_OF(e)] * s->x_scale[i], acc[j][i].v[e]);
#else
            rfg_stream_mma(&acc[j][i], &s->w[j], &s->x[0][i], IN_DTYPE);
#endif
        }
    if (SCALES == GEMM_SCALES_BLOCKS && ends)
        settle_sums(acc);
}
#endif

#endif /* !WIDE */

static_assert(UNROLL % BLOCK_STEPS == 0, "a ring has parts of a block");

RFG_DEVICE float final_of(float sum)
{
    return W_IS_4_BITS || W_IS_8_BITS || SCALES == GEMM_SCALES_BLOCKS ? W_UNIT * sum : rfg_stream_sum(sum, IN_DTYPE);
}

#if !WIDE
/* Or a loop would keep offsets with each load's constant added, in as many registers. */
RFG_DEVICE void offsets_anew(struct place *p)
{
#pragma unroll
    for (int i = 0; i < FRAGS_N * RFG_FRAG_AB; i++)
        p->w_at[i / RFG_FRAG_AB][i % RFG_FRAG_AB] = rfg_anew(p->w_at[i / RFG_FRAG_AB][i % RFG_FRAG_AB]);
#pragma unroll
    for (int i = 0; i < FRAGS_M * RFG_FRAG_X; i++)
        p->x_at[i / RFG_FRAG_X][i % RFG_FRAG_X] = rfg_anew(p->x_at[i / RFG_FRAG_X][i % RFG_FRAG_X]);
#if W_IS_4_BITS
#pragma unroll
    for (int i = 0; i < SCALE_LOADS; i++)
        p->scale_at[i] = rfg_anew(p->scale_at[i]);
#endif
#if MX
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
        p->x_scale_at[i] = rfg_anew(p->x_scale_at[i]);
#endif
}
#endif

/* load_step() in a loop. Its registers are those of the step that was multiplied last. */
RFG_DEVICE void load_next(struct step *s, struct place *p, int step, int u)
{
#if !WIDE
    if (W_IS_4_BITS || W_IS_8_BITS)
        rfg_keep_order();
    if (EXACT || W_IS_4_BITS)
        offsets_anew(p);
#endif
    load_step(s, p, step, u);
}

/* Column of Y of element e of the lane's quad q. */
RFG_DEVICE int column_of(int n0, int q, int e)
{
    return n0 + q / (FRAGS_M * FRAG_QUADS) * 16 + rfg_frag_c_row(q % FRAG_QUADS * 4 + e);
}

/* Quad q's row of the tile. */
RFG_DEVICE int row_of(int q)
{
    return q / FRAG_QUADS % FRAGS_M * 16 + rfg_frag_c_col(0);
}

/* Can quads be stored whole? The same for all. (On RDNA 3 they are of every other column.) */
RFG_DEVICE bool whole_quads(const struct gemm_args *a)
{
    rfg_u64 bits = (rfg_u64)a->y | (rfg_u64)(GEMM_LDY(a) * RFG_DTYPE_BYTES(OUT_DTYPE));
    return !RFG_FRAG_C_ACROSS && a->n % 4 == 0 && bits % (4 * RFG_DTYPE_BYTES(OUT_DTYPE)) == 0;
}

/* Bias, rounding and store of the wave's quads. What is rare is short rather than quick: code has to be fetched, too.
 */
RFG_DEVICE void store_quads(const struct gemm_args *a, rfg_f32x4 *own, int wave, int m0, int n0)
{
    if (whole_quads(a)) {
#pragma unroll
        for (int i = 0; i < OWN_QUADS; i++) {
            int q = i * FINISHERS + wave, m = m0 + row_of(q), n = column_of(n0, q, 0);
            struct column_ends ends;
            if (m >= a->m || n >= a->n)
                continue;
            if (finishes(a))
                ends = column_ends_of(a, n);
            store_4_whole(a, m, n, own[i], &ends);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < OWN_QUADS; i++) {
        int q = i * FINISHERS + wave, m = m0 + row_of(q);
#pragma unroll 1
        for (int e = 0; e < 4; e++) {
            int n = column_of(n0, q, e);
            bool there = m < a->m && n < a->n;
            if (!GATED || RFG_FRAG_C_ACROSS)
                store_lanes(a, m, n, 0, own[0].x, RFG_FRAG_C_ACROSS, there);
            else if (there && e % 2 == 0)
                store_gated(a, m, n, own[0].x, own[0].y);
            own[0].x = own[0].y;
            own[0].y = own[0].z;
            own[0].z = own[0].w;
        }
#pragma unroll
        for (int j = 1; j < OWN_QUADS; j++)
            own[j - 1] = own[j];
    }
}

/* Asks for the wave's first steps, all at once. */
RFG_DEVICE void begin(struct step *ring, const struct place *p, int step, int end)
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || step + u < end)
            load_step(&ring[u], p, step, u);
}

#include "gemm/gpu/amd/stream_sums.h"

/* Where the lane's pieces of the rows are, at k = 0. */
RFG_DEVICE void place_rows(struct place *p, const struct gemm_args *a, int n0, int rows_m, int rows_n, int ldx, int ldw)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            p->w_at[j][i] = PREPACKED ? (rfg_u32)(j * 16 * ldw + rfg_frag_chunk(i) * 256 + rfg_frag_row(i) * 16)
                                      : row_offset(HALVES, w_row_at(a, n0 + j * 16 + rfg_frag_row(i)),
                                                   j * 16 + rfg_frag_row(i), rows_n, ldw, rfg_frag_chunk(i));
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_X; i++) {
            int row = j * RFG_FRAG_X_ROWS + rfg_frag_row(i);
            p->x_at[j][i] =
                row_offset(GATHER, GATHER && row < rows_m ? x_row_at(a, row) : 0, row, rows_m, ldx, rfg_frag_chunk(i));
#if W_IS_8_BITS /* a chunk of W has two of X beside it */
            p->x_at[j][i] += (rfg_u32)(rfg_frag_chunk(i) * 16);
#endif
#if MX && !WIDE /* a chunk has eight codes */
            p->x_at[j][i] -= (rfg_u32)(rfg_frag_chunk(i) * (16 - X_BYTES_OF(8)));
#endif
        }
}

RFG_DEVICE void zero_sums(rfg_frag_wx (*acc)[FRAGS_M])
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                acc[j][i].v[e] = 0.0f;
}

/* The workgroup's tile. True in the waves that have stored it, of one that no expert has in as many. */
RFG_DEVICE bool make_tile(struct gemm_args a)
{
    int wave = rfg_wave(), tiles_m = (a.m - 1) / TILE_M + 1;
    struct rfg_tile t = { rfg_group_x(), rfg_group_y() / SPLIT, SPLIT == 1 ? 0 : rfg_group_y() % SPLIT };
    if (XCDS > 1 && tiles_m > 1 && !EXPERTS)
        t = rfg_xcd_tile(rfg_group_x() + rfg_group_y() * tiles_m, TILE_M, tiles_m, (a.n - 1) / TILE_N + 1, SPLIT);
    int m0 = t.m * TILE_M, n0 = t.n * TILE_N, split = t.split;
#if BATCH
    take_batch(&a);
#endif
#if EXPERTS
    if (!take_tile(&a, TILE_M, rfg_group_x()))
        return split == 0 && wave < FINISHERS;
    m0 = 0;
#endif
    int part = split * K_WAVES + wave, parts = SPLIT * K_WAVES, all = (a.k - 1) / (STEP_K * BLOCK_STEPS) + 1;
    int step = EXACT && ONCE ? part * UNROLL : rfg_share_begin(all, part, parts) * BLOCK_STEPS;
    int end = EXACT && ONCE ? step + UNROLL : rfg_share_begin(all, part + 1, parts) * BLOCK_STEPS;

    struct place p;
    p.chunks = a.k / (MX && !WIDE ? 8 : W_IS_8_BITS ? W_VEC : X_VEC);
    int ldx = (int)X_BYTES_OF(GEMM_LDX(&a)), ldw = (int)W_BYTES_OF(GEMM_LDW(&a));
    int rows_m = a.m - m0 < TILE_M ? a.m - m0 : TILE_M, rows_n = a.n - n0 < TILE_N ? a.n - n0 : TILE_N;
    p.x = GATHER ? rfg_buffer_of(a.x, (X_ROWS(&a) - 1) * ldx + X_BYTES_OF(a.k))
                 : rfg_buffer_of(x_row(&a, m0), (rows_m - 1) * ldx + X_BYTES_OF(a.k));
    p.w = HALVES ? rfg_buffer_of(a.w, (a.n - 1) * ldw + W_BYTES_OF(a.k))
                 : rfg_buffer_of(W_ROW_AT(&a, n0), (rows_n - 1) * ldw + W_BYTES_OF(W_COLS(&a)));
#if W_IS_4_BITS && !WIDE
    place_groups(&p, &a, n0, rows_n);
#endif
    place_rows(&p, &a, n0, rows_m, rows_n, ldx, ldw);
#if MX
    place_scales(&p, &a, m0, n0);
#endif

#if SCALES == GEMM_SCALES_BLOCKS
    p.a = &a;
    p.n = n0;
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++) {
        int m = m0 + j * 16 + rfg_frag_c_col(0);
        p.m[j] = (int)x_row_at(&a, m < a.m ? m : a.m - 1);
    }
#endif

    struct step ring[UNROLL];
    rfg_frag_wx acc[FRAGS_N * (SCALES == GEMM_SCALES_BLOCKS ? 2 : 1)][FRAGS_M]; /* the second half: of a block */
    begin(ring, &p, step, end);
    rfg_keep_order();
    zero_sums(acc);
#if EXACT || ONCE
#pragma unroll 1
    for (; !ONCE && step + UNROLL < end; step += UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            multiply(acc, &ring[u], u);
            load_next(&ring[u], &p, step + UNROLL, u);
        }
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || step + u < end)
            multiply(acc, &ring[u], u);
#else
#pragma unroll 1
    for (; step < end; step += UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (step + u < end)
                multiply(acc, &ring[u], u);
            if (step + UNROLL + u < end)
                load_next(&ring[u], &p, step + UNROLL, u);
        }
#endif

    /* To LDS, and of all waves added up in their order. */
    rfg_f32x4 *sums = (rfg_f32x4 *)rfg_lds + rfg_lane(), own[OWN_QUADS];
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int h = 0; h < FRAG_QUADS; h++) {
                const float *v = acc[j][i].v + 4 * h;
                rfg_f32x4 quad = { final_of(v[0]), final_of(v[1]), final_of(v[2]), final_of(v[3]) };
                int q = (j * FRAGS_M + i) * FRAG_QUADS + h;
                if (K_WAVES > 1) {
                    sums[(wave * QUADS + q) * RFG_WAVE] = quad;
                } else {
                    rfg_settle(&quad, false);
                    own[q] = quad;
                }
            }
    if (K_WAVES > 1) {
        rfg_barrier_lds();
        if (wave >= FINISHERS)
            return false;
        add_waves(own, sums, wave);
    }
#if SPLIT > 1
#if EXPERTS
    int tile = rfg_group_x() * ((a.n - 1) / TILE_N + 1) + t.n;
#else
    int tile = t.n * tiles_m + t.m;
#endif
    char *partials = (char *)a.workspace + (long long)tile * (SPLIT * PART_BYTES);
#pragma unroll
    for (int i = 0; i < OWN_QUADS; i++) {
        int q = i * FINISHERS + wave;
        if (row_of(q) < rows_m)
            rfg_store16_shared(partials + split * PART_BYTES, PART_BYTES,
                               (rfg_u32)(q * (RFG_WAVE * 16) + rfg_lane() * 16), own[i]);
    }
    if (!rfg_last_wave_to_arrive(a.counters + tile * FINISHERS + wave, SPLIT))
        return false;
    add_splits(own, partials, wave, rows_m);
#endif
    store_quads(&a, own, wave, m0, n0);
    return true;
}

#if W_IS_4_BITS || W_IS_8_BITS || SCALES == GEMM_SCALES_BLOCKS /* other instructions than matrix ones read sums, too */
extern "C" __attribute__((global)) RFG_WAVES_A_SIMD(2) void gemm_stream_mma(struct gemm_args a);
#endif
RFG_KERNEL(THREADS) gemm_stream_mma(struct gemm_args a)
{
#if SLOTS
    /* First in the workspace are the product's rows, and the counters of columns of tiles. */
    int column = rfg_group_y() / SPLIT;
    struct gemm_args rows = a;
    rows.y = a.workspace;
    rows.workspace = (char *)a.workspace + GEMM_SLOT_BYTES(a.m, a.n, Y_BYTES);
    rows.counters = a.counters + ((a.n - 1) / TILE_N + 1);
    if (make_tile(rows) && rfg_last_wave_to_arrive(a.counters + column, rfg_groups_x(THREADS) * FINISHERS))
        sum_columns(&a, column * TILE_N, TILE_N, rfg_lane(), RFG_WAVE);
#else
    make_tile(a);
#endif
}
