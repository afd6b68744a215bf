/* SPDX-License-Identifier: MIT
 *
 * Matrix fragments: C[16,16] += A[16,32] * B[16,32]^T, A and B of 16-bit elements with k contiguous, C of floats spread
 * over a wave. Hardware prescribes which lane holds which k of A and B; since a sum over k does not mind its order, all
 * that matters is that A and B agree, so each lane takes whole 16-byte chunks (8 elements) of its row:
 *
 *             rows of lane l       chunks of lane l       C element i of lane l: row, column
 *   MFMA      l % 16               l / 16                 4 (l / 16) + i, l % 16
 *   RDNA 3    l % 16 (twice)       0, 1, 2, 3             2 i + l / 16, l % 16
 *   RDNA 4    l % 16               l / 16, 2 + l / 16     8 (l / 16) + i, l % 16
 *   mma.sync  l / 4, 8 + l / 4     l % 4                  l / 4 + 8 (i / 2 % 2), 2 (l % 4) + i % 2 + 8 (i / 4)
 *
 * In LDS a tile is rows of `chunks` 16-byte chunks (a power of two, at least 8); chunk c of row r lies at
 * r * chunks + (c ^ rfg_swizzle(r)), which keeps both the copies into it and the fragment loads free of bank conflicts.
 */
#if RFG_HAS_MMA

#define RFG_FRAG_K      32
#define RFG_FRAG_CHUNKS 4

#if RFG_MFMA
#define RFG_FRAG_AB 1
#define RFG_FRAG_C  4
#elif RFG_WMMA11
#define RFG_FRAG_AB 4
#define RFG_FRAG_C  8
#elif RFG_WMMA12
#define RFG_FRAG_AB 2
#define RFG_FRAG_C  8
#else
#define RFG_FRAG_AB 2
#define RFG_FRAG_C  8
#endif

typedef struct rfg_frag_ab {
    rfg_u32x4 v[RFG_FRAG_AB];
} rfg_frag_ab;
typedef struct rfg_frag_c {
    float v[RFG_FRAG_C];
} rfg_frag_c;

/* mma.sync: 8 lanes at a time read 4 chunks of 2 rows. AMD: one chunk of 8 rows. */
RFG_DEVICE int rfg_swizzle(int row)
{
#if RFG_NVIDIA
    return (row & 1) * 4;
#else
    return row & 7;
#endif
}

#if RFG_AMD /* NVIDIA's have an instruction of their own */
/* Four i8 as fp16: 1024 + 128 + i has them in its last bits. */
RFG_DEVICE rfg_u32x2 rfg_i8_to_f16x4(rfg_u32 u)
{
    typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
    f16x2 by = { (_Float16)1152, (_Float16)1152 };
    rfg_u32x2 r;
    u ^= 0x80808080u;
    rfg_u32 lo = rfg_byte_perm(u, 0x64646464u, 0x4140), hi = rfg_byte_perm(u, 0x64646464u, 0x4342);
    r.x = __builtin_bit_cast(rfg_u32, __builtin_bit_cast(f16x2, lo) - by);
    r.y = __builtin_bit_cast(rfg_u32, __builtin_bit_cast(f16x2, hi) - by);
    return r;
}
#endif

/* Four codes as fp16, which has all their values. */
RFG_DEVICE rfg_u32x2 rfg_codes_to_f16x4(rfg_u32 u, int dtype)
{
#if RFG_AMD
    if (dtype == RFG_I8)
        return rfg_i8_to_f16x4(u);
#endif
    return rfg_f8_to_f16x4(u, dtype, true);
}

/* A chunk of codes of 8 bits is a piece of a fragment of 64 columns. As fp16 it is pieces of two fragments of 32, whose
 * k A and B agree about. */
RFG_DEVICE void rfg_frag_parts(rfg_u32x4 part[2], rfg_u32x4 chunk, int dtype)
{
    rfg_u32 u[4] = { chunk.x, chunk.y, chunk.z, chunk.w };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rfg_u32x2 lo = rfg_codes_to_f16x4(u[2 * i], dtype), hi = rfg_codes_to_f16x4(u[2 * i + 1], dtype);
        part[i].x = lo.x;
        part[i].y = lo.y;
        part[i].z = hi.x;
        part[i].w = hi.y;
    }
}

RFG_DEVICE void rfg_frag_zero(rfg_frag_c *c)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_C; i++)
        c->v[i] = 0.0f;
}

/* 16 rows from row0 (a multiple of 16), 4 chunks from chunk0 (a multiple of 4). */
RFG_DEVICE void rfg_frag_load(rfg_frag_ab *f, const rfg_u32x4 *tile, int chunks, int row0, int chunk0)
{
    int lane = rfg_lane();
#if RFG_NVIDIA
    int row = lane / 4;
    int at = (row0 + row) * chunks + ((chunk0 + lane % 4) ^ rfg_swizzle(row));
    f->v[0] = tile[at];
    f->v[1] = tile[at + 8 * chunks];
#else
    int row = lane % 16;
    const rfg_u32x4 *p = tile + (row0 + row) * chunks;
#if RFG_MFMA
    f->v[0] = p[(chunk0 + lane / 16) ^ rfg_swizzle(row)];
#elif RFG_WMMA12
    f->v[0] = p[(chunk0 + lane / 16) ^ rfg_swizzle(row)];
    f->v[1] = p[(chunk0 + 2 + lane / 16) ^ rfg_swizzle(row)];
#else
#pragma unroll
    for (int i = 0; i < 4; i++)
        f->v[i] = p[(chunk0 + i) ^ rfg_swizzle(row)];
#endif
#endif
}

/* Neighbouring rows of C are in lanes whose numbers differ by this; 0: in one lane, by twos. */
#define RFG_FRAG_C_ACROSS (RFG_WMMA11 ? 16 : 0)

RFG_DEVICE int rfg_frag_c_row(int i)
{
    int lane = rfg_lane();
#if RFG_MFMA
    return 4 * (lane / 16) + i;
#elif RFG_WMMA11
    return 2 * i + lane / 16;
#elif RFG_WMMA12
    return 8 * (lane / 16) + i;
#else
    return lane / 4 + 8 * (i / 2 % 2);
#endif
}

RFG_DEVICE int rfg_frag_c_col(int i)
{
    int lane = rfg_lane();
#if RFG_NVIDIA
    return 2 * (lane % 4) + i % 2 + 8 * (i / 4);
#else
    (void)i;
    return lane % 16;
#endif
}

#if RFG_NVIDIA
#define RFG_MMA_SYNC(type, d, a0, a1, a2, a3, b0, b1)                                                                  \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "             \
        "{%8, %9}, {%0, %1, %2, %3};"                                                                                  \
        : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                                       \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

/* 16 rows by 8: words x, y of a lane's chunk are the instruction's k = 2t, 2t+1 and 2t+8, 2t+9; z, w those of a second
 * one. */
RFG_DEVICE void rfg_mma_16x8(float *d, const rfg_u32x4 *a, rfg_u32x4 b, int dtype)
{
    if (dtype == RFG_F16) {
        RFG_MMA_SYNC("f16", d, a[0].x, a[1].x, a[0].y, a[1].y, b.x, b.y);
        RFG_MMA_SYNC("f16", d, a[0].z, a[1].z, a[0].w, a[1].w, b.z, b.w);
    } else {
        RFG_MMA_SYNC("bf16", d, a[0].x, a[1].x, a[0].y, a[1].y, b.x, b.y);
        RFG_MMA_SYNC("bf16", d, a[0].z, a[1].z, a[0].w, a[1].w, b.z, b.w);
    }
}

/* The same of 64 columns of i8: the sum is exact, and added to d. */
RFG_DEVICE void rfg_mma_16x8_i8(float *d, const rfg_u32x4 *a, rfg_u32x4 b)
{
    int t[4] = { 0, 0, 0, 0 };
#define RFG_MMA_SYNC_I8(a0, a1, a2, a3, b0, b1)                                                                        \
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "               \
        "{%0, %1, %2, %3};"                                                                                            \
        : "+r"(t[0]), "+r"(t[1]), "+r"(t[2]), "+r"(t[3])                                                               \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
    RFG_MMA_SYNC_I8(a[0].x, a[1].x, a[0].y, a[1].y, b.x, b.y);
    RFG_MMA_SYNC_I8(a[0].z, a[1].z, a[0].w, a[1].w, b.z, b.w);
#pragma unroll
    for (int i = 0; i < 4; i++)
        d[i] += (float)t[i];
}

RFG_DEVICE void rfg_frag_mma(rfg_frag_c *c, const rfg_frag_ab *a, const rfg_frag_ab *b, int dtype)
{
#pragma unroll
    for (int j = 0; j < 2; j++)
        rfg_mma_16x8(c->v + 4 * j, a->v, b->v[j], dtype);
}

#else /* AMD */

typedef short rfg_s16x2 __attribute__((ext_vector_type(2)));
typedef short rfg_s16x4 __attribute__((ext_vector_type(4)));
typedef short rfg_s16x8 __attribute__((ext_vector_type(8)));
typedef short rfg_s16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 rfg_f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 rfg_f16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 rfg_f16x16 __attribute__((ext_vector_type(16)));
typedef rfg_u32 rfg_u32x8 __attribute__((ext_vector_type(8)));
typedef float rfg_f32x8 __attribute__((ext_vector_type(8)));

#if RFG_WMMA32
typedef __bf16 rfg_bf16x16 __attribute__((ext_vector_type(16)));

/* Both of a lane's pieces of A, and of B, in one instruction. */
RFG_DEVICE rfg_f32x8 rfg_wmma32(rfg_u32x8 a, rfg_u32x8 b, rfg_f32x8 c, int dtype)
{
    if (dtype == RFG_F16)
        return __builtin_amdgcn_wmma_f32_16x16x32_f16(false, __builtin_bit_cast(rfg_f16x16, a), false,
                                                      __builtin_bit_cast(rfg_f16x16, b), 0, c, false, false);
    return __builtin_amdgcn_wmma_f32_16x16x32_bf16(false, __builtin_bit_cast(rfg_bf16x16, a), false,
                                                   __builtin_bit_cast(rfg_bf16x16, b), 0, c, false, false);
}
#endif

#if RFG_MFMA
RFG_DEVICE void rfg_frag_mma(rfg_frag_c *c, const rfg_frag_ab *a, const rfg_frag_ab *b, int dtype)
{
    rfg_f32x4 d = { c->v[0], c->v[1], c->v[2], c->v[3] };
    /* Copies: __builtin_bit_cast of a vector's component reads the vector's first bytes, whichever it is. */
    rfg_u32x2 a0 = a->v[0].xy, a1 = a->v[0].zw, b0 = b->v[0].xy, b1 = b->v[0].zw;
    if (dtype == RFG_F16) {
        d = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, a0), __builtin_bit_cast(rfg_f16x4, b0),
                                                  d, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, a1), __builtin_bit_cast(rfg_f16x4, b1),
                                                  d, 0, 0, 0);
    } else {
#if defined(__gfx908__)
        rfg_u32 wa[4] = { a0.x, a0.y, a1.x, a1.y }, wb[4] = { b0.x, b0.y, b1.x, b1.y };
#pragma unroll
        for (int i = 0; i < 4; i++)
            d = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(rfg_s16x2, wa[i]),
                                                      __builtin_bit_cast(rfg_s16x2, wb[i]), d, 0, 0, 0);
#else
        d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, a0),
                                                      __builtin_bit_cast(rfg_s16x4, b0), d, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, a1),
                                                      __builtin_bit_cast(rfg_s16x4, b1), d, 0, 0, 0);
#endif
    }
    c->v[0] = d.x;
    c->v[1] = d.y;
    c->v[2] = d.z;
    c->v[3] = d.w;
}
#else /* WMMA */
RFG_DEVICE void rfg_frag_mma(rfg_frag_c *c, const rfg_frag_ab *a, const rfg_frag_ab *b, int dtype)
{
    rfg_f32x8 d = { c->v[0], c->v[1], c->v[2], c->v[3], c->v[4], c->v[5], c->v[6], c->v[7] };
#if RFG_WMMA32
    d = rfg_wmma32(__builtin_shufflevector(a->v[0], a->v[1], 0, 1, 2, 3, 4, 5, 6, 7),
                   __builtin_shufflevector(b->v[0], b->v[1], 0, 1, 2, 3, 4, 5, 6, 7), d, dtype);
#else
#pragma unroll
    for (int i = 0; i < 2; i++) {
#if RFG_WMMA11
        rfg_u32x8 va = __builtin_shufflevector(a->v[2 * i], a->v[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7);
        rfg_u32x8 vb = __builtin_shufflevector(b->v[2 * i], b->v[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7);
        if (dtype == RFG_F16)
            d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(rfg_f16x16, va),
                                                           __builtin_bit_cast(rfg_f16x16, vb), d);
        else
            d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(rfg_s16x16, va),
                                                            __builtin_bit_cast(rfg_s16x16, vb), d);
#else
        if (dtype == RFG_F16)
            d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(rfg_f16x8, a->v[i]),
                                                                 __builtin_bit_cast(rfg_f16x8, b->v[i]), d);
        else
            d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(rfg_s16x8, a->v[i]),
                                                                  __builtin_bit_cast(rfg_s16x8, b->v[i]), d);
#endif
    }
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
        c->v[i] = d[i];
}
#endif
#endif /* AMD */

/* ---- straight from global memory --------------------------------------------------------------------------------
 *
 * The same without LDS, for W[16,32] (A) and the narrowest X (B) there is: C[n,m] has rows of W as rows and rows of X
 * as columns. A fragment is loaded in 16-byte pieces; these say which row and chunk of it piece i of this lane is. */
#if RFG_NVIDIA
#define RFG_FRAG_X_ROWS 8
#define RFG_FRAG_X      1
#define RFG_FRAG_WX     4
typedef struct rfg_frag_x {
    rfg_u32x4 v[RFG_FRAG_X];
} rfg_frag_x;
typedef struct rfg_frag_wx {
    float v[RFG_FRAG_WX];
} rfg_frag_wx;
#else
#define RFG_FRAG_X_ROWS 16
#define RFG_FRAG_X      RFG_FRAG_AB
#define RFG_FRAG_WX     RFG_FRAG_C
typedef rfg_frag_ab rfg_frag_x;
typedef rfg_frag_c rfg_frag_wx;
#endif

RFG_DEVICE int rfg_frag_row(int i)
{
#if RFG_NVIDIA
    return rfg_lane() / 4 + 8 * i;
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int rfg_frag_chunk(int i)
{
#if RFG_NVIDIA
    (void)i;
    return rfg_lane() % 4;
#elif RFG_WMMA11
    return i;
#elif RFG_WMMA12
    return rfg_lane() / 16 + 2 * i;
#else
    (void)i;
    return rfg_lane() / 16;
#endif
}
/* Element i of C: rfg_frag_c_row(i) of W, rfg_frag_c_col(i) of X. */
RFG_DEVICE void rfg_frag_mma_wx(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x, int dtype)
{
#if RFG_NVIDIA
    rfg_mma_16x8(c->v, w->v, x->v[0], dtype);
#else
    rfg_frag_mma(c, w, x, dtype);
#endif
}
#endif /* RFG_HAS_MMA */
