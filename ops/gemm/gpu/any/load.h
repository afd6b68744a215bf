/* SPDX-License-Identifier: MIT
 *
 * How gemm kernels read X and W. This is the only text that knows W's formats: a kernel's main loop sees floats or
 * matrix fragments. A format of W is a branch of the #if below, with
 *
 *   W_VEC                elements of a row of W that a lane takes at a time, the `vec` of gemm's w_formats
 *   W_BYTES_OF(k)        bytes of k elements, of whole blocks
 *   w_element()          one element as a float (gemm_portable)
 *   struct w_row, w_row_of(), w_chunk, w_load(), w_unpack()
 *                        a lane's vector, loaded first, dequantised to floats later (gemm_skinny)
 *   W_CHUNK_SCALE(chunk) with SCALE_LATE, what the sum of a chunk's products is multiplied by; 1 if it isn't there
 *   W_IS_FRAGMENTS       1: 16-byte chunks of W are those of matrix fragments, elements of X's format
 *   W_IS_4_BITS           1: they become fragments by w_decode(); see load4.h
 *   W_IS_NVFP4            1: they are scaled as they become fragments, by w_decode_by()
 *   W_IS_8_BITS           1: they do by w_decode8(); see load8.h
 *
 * Kernels of matrix cores take only formats with W_IS_FRAGMENTS: some copy W to LDS without registers in between. Those
 * for few rows, gemm_stream_mma and gemm_thin_mma, decode others.
 *
 * X and W may also be codes of 8 bits, with scales of rows, which the epilogue knows, or of blocks, by which kernels
 * multiply the sum of each GEMM_SCALE_BLOCK columns (gemm_portable: each element). Of mx formats (e4m3 or e2m1 by e2m1,
 * e4m3 by e4m3) each GEMM_SCALE_GROUP columns of a row have a scale, on both sides.
 *
 * Macros: IN_DTYPE (X), W_DTYPE, OUT_DTYPE (Y), W_SCALE_DTYPE (0: no scales), W_GROUP
 * (columns of W that share them), SCALES (of codes: gemm_args.h), SCALE_DTYPE (of these), PACKED (rows of X, W and Y
 * follow each other), PREPACKED (W is; see prepack_layout.h). Kernels that only read rows of W have no macro
 * PREPACKED.
 * Macros that may be missing, which is 0: SCALE_LATE (w_unpack() leaves scales out that all of a chunk has), W_PADDED (1: a prepacked W's K is padded to whole blocks),
 * W_ZERO (not 0: zero points, i8), W_GLOBAL (1: its scales are multiplied by w_global), W_SHORTER (1: a row's last group
 * may be shorter), GATED (epilogue.h), HALVES (rows of W are all gates, then all
 * ups, and kernels number them as if they took turns), LIMITED (epilogue.h), EXPERTS (a grouped product: experts.h),
 * and with it EXPERT_IDS (of rows of Y experts are said), GATHER (rows of X are said by a->rows), WEIGHTED and SLOTS (rows are summed: slots.h); BATCH (a product for
 * each plane of the grid: take_batch()). */
#ifndef W_ZERO
#define W_ZERO 0
#endif
#ifndef W_GLOBAL
#define W_GLOBAL 0
#endif
#ifndef W_SHORTER
#define W_SHORTER 0
#endif
#ifndef W_PADDED
#define W_PADDED 0
#endif
#ifndef EXPERTS
#define EXPERTS 0
#endif
#ifndef SCALE_LATE
#define SCALE_LATE 0
#endif
#ifndef EXPERT_IDS
#define EXPERT_IDS 0
#endif
#ifndef GATHER
#define GATHER 0
#endif
#ifndef LIMITED
#define LIMITED 0
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef HALVES
#define HALVES 0
#endif
#ifndef SLOTS
#define SLOTS 0
#endif
#ifndef BATCH
#define BATCH 0
#endif
#include "rfg_blocks.h"

#define Y_CODES RFG_IS_CODE(OUT_DTYPE)
/* In the order in which they lie. */
#define GEMM_ARGS                                                                                                      \
    (BATCH           ? GEMM_ARGS_BATCH                                                                                 \
     : SLOTS         ? GEMM_ARGS_SLOTS                                                                                 \
     : Y_CODES       ? GEMM_ARGS_Y_CODES                                                                               \
     : EXPERTS       ? GEMM_ARGS_EXPERTS                                                                               \
     : LIMITED       ? GEMM_ARGS_LIMITED                                                                               \
     : W_ZERO        ? GEMM_ARGS_W_ZERO                                                                                \
     : W_GLOBAL      ? GEMM_ARGS_W_ZERO                                                                                \
     : SCALES        ? GEMM_ARGS_SCALES                                                                                \
     : RESIDUAL      ? GEMM_ARGS_RESIDUAL                                                                              \
     : W_SCALE_DTYPE ? GEMM_ARGS_W_SCALE                                                                               \
                     : GEMM_ARGS_PLAIN)
#include "gemm/gemm_args.h"
#include "gemm/prepack_layout.h"

/* Row strides in elements. */
#define GEMM_LDX(a) (PACKED ? (long long)(a)->k : (a)->ldx)
#define GEMM_LDW(a) (PACKED ? (long long)W_COLS(a) : (a)->ldw)
/* Columns of W, and groups of them. */
#define W_COLS(a) (W_PADDED ? PREPACKED4_COLS((a)->k) : (a)->k)
#if W_SHORTER
#define W_GROUPS_IN(cols) ((int)(((unsigned)(cols) + W_GROUP - 1) / W_GROUP))
#else
#define W_GROUPS_IN(cols) ((cols) / W_GROUP)
#endif

/* Where row n of W, as kernels number them, is, and row m of X. */
RFG_DEVICE long long w_row_at(const struct gemm_args *a, long long n)
{
    return HALVES ? n % 2 * (a->n / 2) + n / 2 : n;
}
RFG_DEVICE long long x_row_at(const struct gemm_args *a, long long m)
{
#if GATHER
    rfg_u32 row = rfg_load4((const char *)a->rows + m * 4), last = (rfg_u32)a->x_rows - 1;
    return row < last ? row : last; /* whatever is there */
#else
    (void)a;
    return m;
#endif
}

/* ---- X: as it lies in memory ------------------------------------------------------------------------------------ */

/* What 16-bit X, and W of 4 bits beside it, is multiplied as; of mx formats both. */
#define X_AS (SCALES == GEMM_SCALES_GROUPS ? RFG_F16 : IN_DTYPE)

#if IN_DTYPE == RFG_E2M1
#define X_BYTES_OF(k) ((k) / 2)
#define X_VEC         32
#else
#define X_BYTES       RFG_DTYPE_BYTES(IN_DTYPE)
#define X_BYTES_OF(k) ((k)*X_BYTES)
#define X_VEC         RFG_DTYPE_VEC(IN_DTYPE)
#endif
#if EXPERTS
#define X_ROWS(a)    (a)->x_rows
#define N_EXPERTS(a) (a)->experts
#else
#define X_ROWS(a)    (a)->m
#define N_EXPERTS(a) 0
#endif

#if SCALES
#define SCALE_BYTES (RFG_IS_FLOAT(SCALE_DTYPE) ? RFG_DTYPE_BYTES(SCALE_DTYPE) : 1)
/* Blocks of W_GROUP columns are of one row of W. */
#define SCALE_COLUMNS (SCALES == GEMM_SCALES_GROUPS ? GEMM_SCALE_GROUP : W_GROUP ? W_GROUP : GEMM_SCALE_BLOCK)
RFG_DEVICE float load_scale(const void *scale, long long at)
{
#if RFG_IS_FLOAT(SCALE_DTYPE)
    return rfg_load_float(scale, at, SCALE_DTYPE);
#else
    return rfg_load_scale(scale, at, SCALE_DTYPE);
#endif
}
/* Of a row of X in memory, or of row m, and of the columns from block * SCALE_COLUMNS on. */
RFG_DEVICE float x_scale_at(const struct gemm_args *a, long long row, int block)
{
    return !RFG_IS_FLOAT(IN_DTYPE) && a->x_scale
               ? load_scale(a->x_scale, row * a->x_scale_row + block * (long long)a->x_scale_col)
               : 1.0f;
}
RFG_DEVICE float x_scale_of(const struct gemm_args *a, long long m, int block)
{
    return x_scale_at(a, x_row_at(a, m), block);
}
RFG_DEVICE float w_scale_of(const struct gemm_args *a, long long n, int block)
{
    long long row = SCALES == GEMM_SCALES_BLOCKS && !W_GROUP ? w_row_at(a, n) / GEMM_SCALE_BLOCK : w_row_at(a, n);
    return a->w_scale ? load_scale(a->w_scale, row * a->w_scale_row + block * (long long)a->w_scale_col) : 1.0f;
}
#endif

/* Scales of a block of W that a lane of AMD's fragments needs: one, or gate's and up's, whose rows take turns; the row
 * of the block that has number i; and which one is that of the fragment's element e. */
#define W_SCALES       (HALVES && !RFG_FRAG_C_ACROSS ? 2 : 1)
#define W_SCALE_ROW(i) (HALVES && RFG_FRAG_C_ACROSS ? rfg_lane() / 16 : (i))
#define W_SCALE_OF(e)  (W_SCALES == 2 ? (e) % 2 : 0)

#if SCALES == GEMM_SCALES_ROWS && RFG_NVIDIA
/* The scales of rows `m` of X and `n` of W are read at the end, which would wait for memory: they come to L1 now. */
RFG_DEVICE void expect_x_scale(const struct gemm_args *a, long long m)
{
    if (a->x_scale && m < a->m)
        asm volatile(
            "prefetch.global.L1 [%0];" ::"l"((const char *)a->x_scale + x_row_at(a, m) * a->x_scale_row * SCALE_BYTES));
}
RFG_DEVICE void expect_w_scale(const struct gemm_args *a, long long n)
{
    if (a->w_scale && n < a->n)
        asm volatile(
            "prefetch.global.L1 [%0];" ::"l"((const char *)a->w_scale + w_row_at(a, n) * a->w_scale_row * SCALE_BYTES));
}
#endif

/* e2m1: other bits of `code` than the lowest four don't matter. */
RFG_DEVICE float e2m1_value(rfg_u32 code)
{
    /* exponent and fraction in fp32's place, times 2^126: 0.5 is a denormal there */
    return rfg_as_float((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
}

RFG_DEVICE float x_element(const struct gemm_args *a, long long m, int k)
{
#if RFG_IS_CODE(IN_DTYPE) || IN_DTYPE == RFG_E2M1
#if IN_DTYPE == RFG_E2M1
    float f = e2m1_value(rfg_load1((const char *)a->x + (x_row_at(a, m) * a->ldx + k) / 2) >> k % 2 * 4);
#else
    float f = rfg_code_value(rfg_load1((const char *)a->x + x_row_at(a, m) * a->ldx + k), IN_DTYPE);
#endif
#if SCALES >= GEMM_SCALES_BLOCKS
    f *= x_scale_of(a, m, k / SCALE_COLUMNS);
#endif
    return f;
#else
    return rfg_load_float(a->x, x_row_at(a, m) * a->ldx + k, IN_DTYPE);
#endif
}

/* With buffer loads: where a chunk of a tile's row r, of `rows`, is in a buffer that begins with the tile's first row;
 * if they don't follow one another, in one that begins with row 0, in which it is row `row`. */
RFG_DEVICE rfg_u32 row_offset(bool apart, long long row, int r, int rows, int ld, int chunk)
{
    if (!apart)
        return (rfg_u32)(r * ld + chunk * 16);
    return r < rows ? (rfg_u32)row * (rfg_u32)ld + (rfg_u32)chunk * 16 : 0x80000000u;
}

RFG_DEVICE const char *x_row(const struct gemm_args *a, int m)
{
    return (const char *)a->x + X_BYTES_OF(x_row_at(a, m) * GEMM_LDX(a));
}

#if RFG_IS_FLOAT(IN_DTYPE)
/* X_VEC elements of a row, from element chunk * X_VEC on. */
RFG_DEVICE void x_vector(float *f, const char *row, int chunk)
{
    rfg_unpack(f, rfg_load16(row + (long long)chunk * 16), IN_DTYPE);
}
#elif SCALES == GEMM_SCALES_GROUPS
/* Elements 8 chunk to 8 chunk + 7 of a row of codes, not scaled. */
RFG_DEVICE void x_vector(float *f, const char *row, int chunk)
{
    rfg_u32x2 v;
#if IN_DTYPE == RFG_E2M1
    v.x = v.y = rfg_load4(row + (long long)chunk * 4);
#else
    v = rfg_load8(row + (long long)chunk * 8);
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
#if IN_DTYPE == RFG_E2M1
        f[i] = e2m1_value(v.x >> 4 * i);
#else
        f[i] = rfg_code_value((i < 4 ? v.x : v.y) >> i % 4 * 8 & 255u, IN_DTYPE);
#endif
}
#endif

/* ---- W ---------------------------------------------------------------------------------------------------------- */

#if (W_DTYPE == RFG_F32 || W_DTYPE == RFG_F16 || W_DTYPE == RFG_BF16) && W_DTYPE == IN_DTYPE && !W_SCALE_DTYPE

#define W_BYTES        RFG_DTYPE_BYTES(W_DTYPE)
#define W_BYTES_OF(k)  ((k)*W_BYTES)
#define W_VEC          RFG_DTYPE_VEC(W_DTYPE)
#define W_IS_FRAGMENTS (W_DTYPE != RFG_F32)

RFG_DEVICE long long w_place(long long n, int k, long long ld, bool prepacked)
{
    return prepacked ? PREPACKED_AT(n, k, ld) : n * ld + k;
}
RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    return rfg_load_float(a->w, w_place(w_row_at(a, n), k, a->ldw, prepacked), W_DTYPE);
}

typedef const char *w_row;
typedef rfg_u32x4 w_chunk;

RFG_DEVICE w_row w_row_of(const struct gemm_args *a, int n)
{
    return (const char *)a->w + w_row_at(a, n) * GEMM_LDW(a) * W_BYTES;
}
RFG_DEVICE w_chunk w_load(w_row row, int chunk)
{
    return rfg_load16_stream(row + (long long)chunk * 16);
}
/* The part-th X_VEC elements of a chunk. */
RFG_DEVICE void w_unpack(float *f, w_chunk chunk, int part)
{
    (void)part; /* there is one */
    rfg_unpack(f, chunk, W_DTYPE);
}

#elif RFG_IS_CODE(W_DTYPE) && W_DTYPE == IN_DTYPE && !W_GROUP

#define W_BYTES        1
#define W_BYTES_OF(k)  (k)
#define W_VEC          16
#define W_IS_FRAGMENTS 1

RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    (void)prepacked; /* never */
    float f = rfg_code_value(rfg_load1((const char *)a->w + w_row_at(a, n) * a->ldw + k), W_DTYPE);
#if SCALES >= GEMM_SCALES_BLOCKS
    f *= w_scale_of(a, n, k / SCALE_COLUMNS);
#endif
    return f;
}

typedef const char *w_row;

RFG_DEVICE w_row w_row_of(const struct gemm_args *a, int n)
{
    return (const char *)a->w + w_row_at(a, n) * GEMM_LDW(a);
}

#elif RFG_IS_4_BITS(W_DTYPE) && W_SCALE_DTYPE

#include "gemm/gpu/any/load4.h"

#elif RFG_IS_CODE(W_DTYPE) && RFG_IS_FLOAT(IN_DTYPE)

#include "gemm/gpu/any/load8.h"

#elif RFG_IS_BLOCKS(W_DTYPE) && RFG_IS_FLOAT(IN_DTYPE)

#include "gemm/gpu/any/load_blocks.h"

#else
#error "gemm has no loader for this format of W (with these of X and scales)"
#endif

#ifndef W_CHUNK_SCALE
#define W_CHUNK_SCALE(chunk) 1.0f
#endif
#ifndef W_IS_4_BITS
#define W_IS_4_BITS 0
#endif
#ifndef W_IS_NVFP4
#define W_IS_NVFP4 0
#endif
#ifndef W_IS_8_BITS
#define W_IS_8_BITS 0
#endif

/* ---- W as matrix fragments -------------------------------------------------------------------------------------- */

#if W_IS_FRAGMENTS

#define W_UNIT         1.0f
#define W_STEPS        1 /* fragments in a step of the main loop */
#define W_ROW_AT(a, n) w_row_of(a, n)
/* Chunk `chunk` of row n's first step of W, and bytes from there to the one a step on. */
#if PREPACKED
#define W_FRAG_AT(a, n, chunk)                                                                                         \
    ((const char *)(a)->w + (n) / PREPACK_ROWS * (long long)(a)->k * (PREPACK_ROWS * 2) +                              \
     (chunk) * (PREPACK_ROWS * 16) + (n) % PREPACK_ROWS * 16)
#define W_FRAG_STEP (PREPACK_BLOCK * 2)
#else
#define W_FRAG_AT(a, n, chunk) (w_row_of(a, n) + (chunk)*16)
#define W_FRAG_STEP            (PREPACK_COLS * 2)
#endif
#endif
