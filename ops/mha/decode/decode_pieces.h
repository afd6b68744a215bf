/* SPDX-License-Identifier: MIT
 *
 * What decode's lanes hold of keys and values: pieces as they are loaded, and as matrix instructions take them.
 * Included by decode_amd.hip and decode_nvidia.hip, which define load16_if(), load8_if(), load4_if(), KEY_STEPS,
 * PAIRED_VALUES, PADDED_LOADS and SUBNORMALS (of i4's codes; decode_subnormals.h) before.
 *
 * D_SPLIT > 1 (NVIDIA): so many neighbouring waves have the same keys, each its part of D and of DV: heads whose outputs
 * a wave's registers don't hold. They add their products for the scores in LDS.
 *
 * O[16,Q] += V[16 tokens, 16]^T P[Q, 16]^T: row r of block j of O stands for an element of V's rows that a lane has.
 * All that a lane holds of a token is pieces of PIECE neighbouring elements; the pieces of a row's lanes lie one behind
 * the other. */
#ifndef D_SPLIT
#define D_SPLIT 1
#endif
/* Steps in LDS; piece by piece, of all lanes. */
#ifndef RING
#define RING 0
#endif
#if RING
#define OF_LANES [RFG_WAVE]
#define MINE     [rfg_lane()]
#else
#define OF_LANES
#define MINE
#endif
#define D_PART  (D / D_SPLIT)
#define DV_PART (DV / D_SPLIT)
RFG_DEVICE int part_of(void)
{
    return D_SPLIT > 1 ? rfg_wave() % D_SPLIT : 0;
}

#define BLOCKS      (DV_PART / 16)
#define V_ELEMENTS  (RFG_PV_ROWS * BLOCKS)                  /* of a token in a lane */
#define KV_BYTES    (KV_I4 ? 1 : RFG_DTYPE_BYTES(KV_DTYPE)) /* strides count these */
#define BYTES_OF(n) ((n)*KV_BITS / 8)                       /* so many elements */
#define KV_SMALL    (KV_BYTES == 1)
/* What is multiplied: keys and values of 8 bits and less as fp16, which takes an instruction where bf16 takes four;
 * queries with them. */
#define MMA_DTYPE   (KV_SMALL ? RFG_F16 : DTYPE)
#define FITS(n)     (V_ELEMENTS % (n) == 0 && (n)*KV_BITS <= 8 * KV_ALIGN)
#define PIECE       (FITS(32) ? 32 : FITS(16) ? 16 : FITS(8) ? 8 : FITS(4) ? 4 : 2)
#define LANES_A_ROW (16 / RFG_PV_ROWS)
#define PIECES      (V_ELEMENTS / PIECE)
#define P_WORDS     (RFG_PV_TOKENS / 2)

/* The element of V that is a lane's e-th. */
RFG_DEVICE int pv_element(int lane, int e)
{
    return e / PIECE * (LANES_A_ROW * PIECE) + lane * PIECE + e % PIECE;
}

/* Queries are divided by a power of two: what is multiplied has a smaller range, or some are multiplied by 16. */
#define SCALED_QUERIES (MMA_DTYPE != DTYPE || SUBNORMALS)

#if SUBNORMALS
#include "mha/decode/decode_subnormals.h"
#elif KV_INTS
#include "mha/decode/decode_ints.h"
#elif KV_SMALL
/* 8 elements of 8 bits as fp16. */
RFG_DEVICE rfg_u32x4 widened(rfg_u32 first, rfg_u32 second)
{
    rfg_u32x2 lo = rfg_f8_to_f16x4(first, KV_DTYPE, false), hi = rfg_f8_to_f16x4(second, KV_DTYPE, false);
    rfg_u32x4 v;
    v.x = lo.x;
    v.y = lo.y;
    v.z = hi.x;
    v.w = hi.y;
    return v;
}
#endif

#if KV_ALIGN < 16
RFG_DEVICE void load8_by_4(rfg_u32x2 *v, const char *p, bool on)
{
    rfg_u32 lo = v->x, hi = v->y;
    load4_if(&lo, p, on);
    load4_if(&hi, p + 4, on);
    v->x = lo;
    v->y = hi;
}
#else
#define load8_by_4 load8_if
#endif

/* 8 elements of a key for each of KEY_STEPS neighbouring parts of D. */
#if KV_INTS
#define KEY_WORDS BYTES_OF(2 * KEY_STEPS) /* of 4 bytes */
#if KEY_WORDS == 4
typedef rfg_u32x4 key_piece;
#define load_key load16_if
#elif KEY_WORDS == 2
typedef rfg_u32x2 key_piece;
#define load_key load8_by_4
#else
typedef rfg_u32 key_piece;
#define load_key load4_if
#endif
/* zero: of its token, in both halves; i4. */
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step, rfg_u32 zero)
{
#if KEY_WORDS == 4
    rfg_u32 w[KEY_WORDS] = { k.x, k.y, k.z, k.w };
#elif KEY_WORDS == 2
    rfg_u32 w[KEY_WORDS] = { k.x, k.y };
#else
    rfg_u32 w[KEY_WORDS] = { k };
#endif
#if SUBNORMALS
    (void)zero;
    return i4_key(w[step % KEY_STEPS]);
#elif KV_I4
    return i4_key(w[step % KEY_STEPS], zero);
#else
    (void)zero;
    return i8_key(w[step % KEY_STEPS * 2], w[step % KEY_STEPS * 2 + 1]);
#endif
}
#elif KEY_STEPS == 2
typedef rfg_u32x4 key_piece;
#define load_key load16_if
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    return widened(step % 2 ? k.z : k.x, step % 2 ? k.w : k.y);
}
#elif KV_SMALL
typedef rfg_u32x2 key_piece;
#define load_key load8_by_4
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    (void)step;
    return widened(k.x, k.y);
}
#else
typedef rfg_u32x4 key_piece;
#define load_key load16_if
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    (void)step;
    return k;
}
#endif

/* Does memory have this lane's piece i of a row of values? As is_key(). */
RFG_DEVICE bool is_value(int i)
{
    return DV_REAL == DV || part_of() * DV_PART + (i * LANES_A_ROW + rfg_pv_lane()) * PIECE < DV_REAL;
}
RFG_DEVICE int value_at(int i)
{
    return PADDED_LOADS || is_value(i) ? i * BYTES_OF(LANES_A_ROW * PIECE) : -(rfg_pv_lane() * BYTES_OF(PIECE));
}

#define V_LOADED (BYTES_OF(V_ELEMENTS) / 4) /* words of a token in a lane, as they come, */
#define V_WORDS  (V_ELEMENTS / 2)           /* and as 16-bit numbers */
#if BYTES_OF(PIECE) < 4
#error "DV: must be a multiple of 64 with 8-bit values, and 128 with i4 where a lane has all of a block's rows"
#endif

typedef union value_piece {
    rfg_u32 w[BYTES_OF(PIECE) / 4];
#if BYTES_OF(PIECE) == 16
    rfg_u32x4 v;
#define load_piece load16_if
#elif BYTES_OF(PIECE) == 8
    rfg_u32x2 v;
#define load_piece load8_if
#else
    rfg_u32 v;
#define load_piece load4_if
#endif
} value_piece;
typedef value_piece value_place OF_LANES;
RFG_DEVICE void load_value(value_place *v, const char *row, bool on)
{
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        load_piece(&v[i] MINE.v, row + value_at(i), on && (!PADDED_LOADS || is_value(i)));
}
#define VALUE_WORD(v, i) ((v)[(i) / (BYTES_OF(PIECE) / 4)].w[(i) % (BYTES_OF(PIECE) / 4)])
RFG_DEVICE void clear_value(value_piece *v)
{
#pragma unroll
    for (int w = 0; w < V_LOADED; w++)
        VALUE_WORD(v, w) = 0;
}

/* A step's values as 16-bit numbers. */
#if KV_SMALL && PAIRED_VALUES
struct values {
    rfg_u32 pair[RFG_PV_TOKENS / 2][V_ELEMENTS];
};
#if KV_INTS
/* zeros: of each two tokens; i4. */
#if KV_I4
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES], const rfg_u32 *zeros)
#define ZEROS(i) zeros[i]
#else
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES])
#define ZEROS(i) 0
#endif
{
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS / 2; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++)
            int_values(v->pair[i] + w * (32 / KV_BITS), VALUE_WORD(in[2 * i], w), VALUE_WORD(in[2 * i + 1], w),
                       ZEROS(i));
}
#else
/* The bytes of two tokens side by side before they are converted: half the work. */
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES])
{
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS / 2; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++) {
            rfg_u32 a = VALUE_WORD(in[2 * i], w), b = VALUE_WORD(in[2 * i + 1], w);
            rfg_u32x2 lo = rfg_f8_to_f16x4(rfg_byte_perm(a, b, 0x5140), KV_DTYPE, false),
                      hi = rfg_f8_to_f16x4(rfg_byte_perm(a, b, 0x7362), KV_DTYPE, false);
            v->pair[i][4 * w] = lo.x;
            v->pair[i][4 * w + 1] = lo.y;
            v->pair[i][4 * w + 2] = hi.x;
            v->pair[i][4 * w + 3] = hi.y;
        }
}
#endif
/* Element e of tokens 2 i and 2 i + 1. */
RFG_DEVICE rfg_u32 two_tokens(const struct values *v, int i, int e)
{
    return v->pair[i][e];
}
#else
struct values {
    rfg_u32 w[RFG_PV_TOKENS][V_WORDS];
};
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES])
{
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++) {
#if KV_SMALL
            rfg_u32x2 two = rfg_f8_to_f16x4(VALUE_WORD(in[i], w), KV_DTYPE, false);
            v->w[i][2 * w] = two.x;
            v->w[i][2 * w + 1] = two.y;
#else
            v->w[i][w] = VALUE_WORD(in[i], w);
#endif
        }
}
RFG_DEVICE rfg_u32 two_tokens(const struct values *v, int i, int e)
{
    return rfg_byte_perm(v->w[2 * i][e / 2], v->w[2 * i + 1][e / 2], e % 2 ? 0x7632 : 0x5410);
}
#endif

RFG_DEVICE void multiply_values(float (*o)[RFG_PV_O], const struct values *v, const rfg_u32 *p, int block)
{
    rfg_u32 a[P_WORDS * RFG_PV_ROWS];
#pragma unroll
    for (int i = 0; i < P_WORDS; i++)
#pragma unroll
        for (int r = 0; r < RFG_PV_ROWS; r++)
            a[i * RFG_PV_ROWS + r] = two_tokens(v, i, r * BLOCKS + block);
    rfg_pv_mma(o[block], a, p, MMA_DTYPE);
}

/* A lane has V_ELEMENTS elements e of O, and of each RFG_PV_O / RFG_PV_ROWS floats i: float e / BLOCKS * (RFG_PV_O /
 * RFG_PV_ROWS) + i of block e % BLOCKS. The element of V's rows that it is; its query is rfg_frag_wx_col(i). */
RFG_DEVICE int output_element(int e, int i)
{
    return pv_element(rfg_pv_o_lane(i), e);
}
