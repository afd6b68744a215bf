/* SPDX-License-Identifier: MIT
 *
 * AMD only, after rfg_amd_stream.h: gfx950's instructions of 128 columns, whose operands are codes (f8f6f4). They may
 * multiply each 32 columns of a row by a scale of e8m0. Twice as many columns a cycle of fp8 as the narrower ones, and
 * four times as many of e2m1. */
#if defined(__gfx950__)
#define RFG_HAS_MMA_WIDE 1
#else
#define RFG_HAS_MMA_WIDE 0
#endif

/* What they take; a row's 128 columns are this many pieces of 64 bytes. */
#define RFG_MMA_WIDE(dtype)    (RFG_HAS_MMA_WIDE && ((dtype) == RFG_E4M3 || (dtype) == RFG_E5M2 || (dtype) == RFG_E2M1))
#define RFG_WIDE_PIECES(dtype) ((dtype) == RFG_E2M1 ? 1 : 2)

#if RFG_HAS_MMA_WIDE
/* C[16,16] += W[16,128] * X[16,128]^T, C as of other instructions. Lane l has of row l % 16 of W, and of X, chunk
 * l / 16 of 16 bytes of each piece: of e2m1 that is columns 32 (l / 16) to 32 (l / 16) + 31 (CDNA4 ISA, 7.1.5). */
#define RFG_WIDE_FORMAT(dtype) ((dtype) == RFG_E2M1 ? 4 : (dtype) == RFG_E5M2 ? 1 : 0) /* cbsz, blgp */
typedef int rfg_wide_ab __attribute__((ext_vector_type(8)));

RFG_DEVICE rfg_wide_ab rfg_wide_of(const rfg_u32x4 *piece, int dtype)
{
    rfg_u32x4 more = piece[RFG_WIDE_PIECES(dtype) - 1]; /* of e2m1 nobody reads it */
    rfg_wide_ab v = { (int)piece[0].x, (int)piece[0].y, (int)piece[0].z, (int)piece[0].w,
                      (int)more.x,     (int)more.y,     (int)more.z,     (int)more.w };
    return v;
}

/* A macro, since formats must be constants without optimisation, too. */
#define RFG_WIDE_MMA(to, of_w, w_dtype, of_x, x_dtype, w_scale, x_scale)                                               \
    do {                                                                                                               \
        rfg_f32x4 d_ = { (to)->v[0], (to)->v[1], (to)->v[2], (to)->v[3] };                                             \
        d_ = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(rfg_wide_of(of_w, w_dtype), rfg_wide_of(of_x, x_dtype),  \
                                                              d_, RFG_WIDE_FORMAT(w_dtype), RFG_WIDE_FORMAT(x_dtype),  \
                                                              0, w_scale, 0, x_scale);                                 \
        (to)->v[0] = d_[0];                                                                                            \
        (to)->v[1] = d_[1];                                                                                            \
        (to)->v[2] = d_[2];                                                                                            \
        (to)->v[3] = d_[3];                                                                                            \
    } while (0)

/* Without scales: two constants of 0 are the compiler's way to say so. */
#define rfg_wide_mma(c, w, w_dtype, x, x_dtype) RFG_WIDE_MMA(c, w, w_dtype, x, x_dtype, 0, 0)
/* The lane's scales, in the lowest byte, are those of columns 32 (l / 16) to 32 (l / 16) + 31 of its rows. */
#define rfg_wide_mma_scaled(c, w, w_dtype, x, x_dtype, w_scale, x_scale)                                               \
    RFG_WIDE_MMA(c, w, w_dtype, x, x_dtype, (int)(w_scale), (int)(x_scale))
#endif
