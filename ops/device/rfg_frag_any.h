/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h: C[16,X] += W[16,32] X[X,32]^T of 16-bit elements straight from global
 * memory, by matrix instructions where there are any (rfg_frag.h, rfg_frag_mma_wx()), else by fp32 arithmetic.
 *
 * A lane has RFG_WX_W pointers to rows of W and RFG_WX_X to rows of X. It loads pieces of 16 bytes: RFG_WX_W_PIECES of
 * W, and RFG_WX_X_PIECES of each of X's rows. It gets RFG_WX_SUMS elements of C. */
#if RFG_HAS_MMA
#define RFG_WX_ROWS     RFG_FRAG_X_ROWS
#define RFG_WX_X        1
#define RFG_WX_W        (RFG_NVIDIA ? 2 : 1)
#define RFG_WX_W_PIECES RFG_FRAG_AB
#define RFG_WX_X_PIECES RFG_FRAG_X
#define RFG_WX_SUMS     RFG_FRAG_WX
typedef rfg_frag_wx rfg_wx;
#else
#define RFG_WX_ROWS     (RFG_WAVE / 4)
#define RFG_WX_X        4
#define RFG_WX_W        1
#define RFG_WX_W_PIECES 4
#define RFG_WX_X_PIECES 4
#define RFG_WX_SUMS     4
typedef struct rfg_wx {
    float v[RFG_WX_SUMS];
} rfg_wx;
#endif

/* The row of W, and of X, of a lane's i-th pointer. */
RFG_DEVICE int rfg_wx_w_row(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_row(i);
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int rfg_wx_x_row(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_row(i);
#else
    return 4 * (rfg_lane() / 16) + i;
#endif
}
RFG_DEVICE int rfg_wx_chunk(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_chunk(i);
#else
    return i;
#endif
}
/* Element i of a lane's sums: its row of W, and of X. */
RFG_DEVICE int rfg_wx_sum_w(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_c_row(i);
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int rfg_wx_sum_x(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_c_col(i);
#else
    return rfg_wx_x_row(i);
#endif
}

/* c += w x^T over 32 columns. */
RFG_DEVICE void rfg_wx_product(rfg_wx *c, const rfg_u32x4 *w, const rfg_u32x4 (*x)[RFG_WX_X_PIECES], int dtype)
{
#if RFG_HAS_MMA
    rfg_frag_ab fw;
    rfg_frag_x fx;
#pragma unroll
    for (int i = 0; i < RFG_WX_W_PIECES; i++)
        fw.v[i] = w[i];
#pragma unroll
    for (int i = 0; i < RFG_WX_X_PIECES; i++)
        fx.v[i] = x[0][i];
    (rfg_frag_mma_wx)(c, &fw, &fx, dtype); /* rfg_check.h's macro of this name wants a constant */
#else
#pragma unroll
    for (int p = 0; p < 4; p++) {
        float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
        (rfg_unpack)(f, w[p], dtype);
#pragma unroll
        for (int i = 0; i < RFG_WX_X; i++) {
            (rfg_unpack)(g, x[i][p], dtype);
#pragma unroll
            for (int k = 0; k < RFG_MAX_VEC; k++)
                c->v[i] = rfg_fma(f[k], g[k], c->v[i]);
        }
    }
#endif
}

/* What matrix instructions made is read here: see rfg_settle() in rfg_amd_stream.h. */
RFG_DEVICE void rfg_wx_settle(rfg_wx *c)
{
#if defined(__clang__) && __clang_major__ < 16
#pragma unroll
    for (int i = 0; i < RFG_WX_SUMS; i++)
        asm volatile("" : "+v"(c->v[i]));
#else
    (void)c;
#endif
}
