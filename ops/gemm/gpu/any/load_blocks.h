/* SPDX-License-Identifier: MIT
 *
 * load.h's branch of a W whose blocks hold their scales (GGUF's), one element at a time. ops/format_blocks.h has the
 * same table and says what a field is. */
#include "gemm/gpu/any/blocks.h"

#define W_BYTES_OF(k)  ((k) / W_BLOCK * W_BLOCK_BYTES)
#define W_VEC          32
#define W_IS_FRAGMENTS 0

RFG_DEVICE int w_field(const char *block, int i, int at, int bits, int run)
{
    int span = 8 / bits * run;
    return (int)rfg_load1(block + at + i / span * run + i % run) >> i % span / run * bits & ((1 << bits) - 1);
}

RFG_DEVICE float w_half(const char *p)
{
    return rfg_f16_to_float((rfg_u16)(rfg_load1(p) | rfg_load1(p + 1) << 8));
}

/* A part's scale and min, both without the block's. */
RFG_DEVICE void w_part(const char *b, int j, float *scale, float *m)
{
    *scale = 1.0f;
    *m = -1.0f;
#if W_DTYPE == RFG_Q2_K
    *scale = (float)(rfg_load1(b + j) & 15);
    *m = (float)(rfg_load1(b + j) >> 4);
#elif W_DTYPE == RFG_Q3_K
    *scale = (float)((w_field(b, j, 96, 4, 8) | w_field(b, j, 104, 2, 4) << 4) - 32);
#elif W_DTYPE == RFG_Q4_K || W_DTYPE == RFG_Q5_K
    int low = (int)rfg_load1(b + 4 + j % 4), middle = (int)rfg_load1(b + 8 + j % 4),
        high = (int)rfg_load1(b + 12 + j % 4);
    *scale = (float)(j < 4 ? low & 63 : (high & 15) | low >> 6 << 4);
    *m = (float)(j < 4 ? middle & 63 : high >> 4 | middle >> 6 << 4);
#elif W_DTYPE == RFG_Q6_K
    *scale = (float)(signed char)rfg_load1(b + 192 + j);
#elif W_DTYPE == RFG_IQ4_XS
    *scale = (float)((w_field(b, j, 4, 4, 1) | w_field(b, j, 2, 2, 1) << 4) - 32);
#elif W_DTYPE == RFG_MXFP4
    (void)j;
    *scale = w_e8m0_half(rfg_load1(b));
#elif W_DTYPE == RFG_NVFP4
    *scale = w_ue4m3_half(rfg_load1(b + j));
#else
    (void)b, (void)j;
#endif
}

RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    (void)prepacked; /* never */
    const char *b = (const char *)a->w + (w_row_at(a, n) * a->ldw + k) / W_BLOCK * W_BLOCK_BYTES;
    int i = k % W_BLOCK, code = w_field(b, i, W_LOW);
    float scale, m;
#ifdef W_HIGH
    code |= w_field(b, i, W_HIGH) << W_LOW_BITS;
#endif
    w_part(b, i / W_PART, &scale, &m);
#if W_D_AT >= 0
    scale *= w_half(b + W_D_AT);
#endif
    float v = scale * (float)w_number(code);
#if W_MIN_AT >= 0
    v = rfg_fma(-w_half(b + W_MIN_AT), m, v);
#endif
    return v;
}
