/* SPDX-License-Identifier: MIT
 *
 * AMD only: what kernels that stream weights through buffer loads need. Not part of rfg_device.h, whose text all tuned
 * rows' source hashes cover. */
/* A piece of memory by a buffer resource: loads take an offset of the lane, one that is the same in all lanes, and a
 * constant of up to 4095 that the compiler finds in the former. What lies outside reads as 0 and is not fetched. Raw,
 * checked by bytes; the last word is what each generation wants for 32-bit words. */
typedef int rfg_buffer __attribute__((ext_vector_type(4)));
#if defined(__GFX9__)
#define RFG_BUFFER_WORD 0x00020000
#elif defined(__GFX10__)
#define RFG_BUFFER_WORD 0x31014000
#else
#define RFG_BUFFER_WORD 0x31004000
#endif
#if defined(__GFX12__)
#define RFG_BUFFER_STREAM 1 /* TH_LOAD_NT */
#else
#define RFG_BUFFER_STREAM 2 /* slc; nt on gfx940 and later */
#endif
#define RFG_BUFFER_SC1 16
/* By their names: older compilers have no builtins. */
__attribute__((device)) rfg_u32x4 rfg_llvm_buffer_load16(rfg_buffer, int at, int uniform,
                                                         int how) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__attribute__((device)) rfg_u32x2 rfg_llvm_buffer_load8(rfg_buffer, int at, int uniform,
                                                        int how) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
__attribute__((device)) rfg_u32 rfg_llvm_buffer_load4(rfg_buffer, int at, int uniform,
                                                      int how) __asm("llvm.amdgcn.raw.buffer.load.i32");
__attribute__((device)) rfg_u16 rfg_llvm_buffer_load2(rfg_buffer, int at, int uniform,
                                                      int how) __asm("llvm.amdgcn.raw.buffer.load.i16");
__attribute__((device)) signed char rfg_llvm_buffer_load1(rfg_buffer, int at, int uniform,
                                                          int how) __asm("llvm.amdgcn.raw.buffer.load.i8");
__attribute__((device)) void rfg_llvm_buffer_store16(rfg_u32x4, rfg_buffer, int at, int uniform,
                                                     int how) __asm("llvm.amdgcn.raw.buffer.store.v4i32");

/* base and bytes: the same in all lanes. */
RFG_DEVICE rfg_buffer rfg_buffer_of(const void *base, int bytes)
{
    rfg_u64 u = (rfg_u64)base;
#if defined(__gfx1250__) /* 57 bits of address, 45 of bytes */
    rfg_buffer b = { __builtin_amdgcn_readfirstlane((int)u),
                     __builtin_amdgcn_readfirstlane((int)(u >> 32 | (rfg_u64)(rfg_u32)bytes << 25)),
                     __builtin_amdgcn_readfirstlane((int)((rfg_u32)bytes >> 7)), 0 };
#else
    rfg_buffer b = { __builtin_amdgcn_readfirstlane((int)u), __builtin_amdgcn_readfirstlane((int)(u >> 32) & 0xffff),
                     __builtin_amdgcn_readfirstlane(bytes), RFG_BUFFER_WORD };
#endif
    return b;
}
RFG_DEVICE rfg_u32x4 rfg_buffer_load16(rfg_buffer b, rfg_u32 at, int uniform)
{
    return rfg_llvm_buffer_load16(b, (int)at, uniform, 0);
}
RFG_DEVICE rfg_u32x4 rfg_buffer_load16_stream(rfg_buffer b, rfg_u32 at, int uniform)
{
    return rfg_llvm_buffer_load16(b, (int)at, uniform, RFG_BUFFER_STREAM);
}

/* Before the name of a kernel that is declared ahead of its definition: the least waves of a SIMD, and perhaps the
 * most, and with them registers. Of two waves each has 256, in which the compiler leaves sums where matrix instructions
 * take them; of 512 half are accumulators, and some compilers move sums to and fro. gfx908's are always apart, and RDNA
 * has no more than 256. */
#if RFG_MFMA && !defined(__gfx908__)
#define RFG_WAVES_A_SIMD(...) __attribute__((amdgpu_waves_per_eu(__VA_ARGS__)))
#else
#define RFG_WAVES_A_SIMD(...)
#endif

/* v of lane n of the lane's row of 16. n is a constant, if only after loops are unrolled. All lanes must be on. */
RFG_DEVICE rfg_u32 rfg_row_share(rfg_u32 v, int n)
{
#if defined(__gfx908__)
#define RFG_SHARE(n)                                                                                                   \
    case n:                                                                                                            \
        return (rfg_u32)__builtin_amdgcn_ds_swizzle((int)v, (n) << 5 | 0x10);
#else /* row_newbcast, on RDNA called row_share */
#define RFG_SHARE(n)                                                                                                   \
    case n:                                                                                                            \
        return (rfg_u32)__builtin_amdgcn_update_dpp(0, (int)v, 0x150 + (n), 0xf, 0xf, true);
#endif
#define RFG_SHARE_4(n) RFG_SHARE(n) RFG_SHARE((n) + 1) RFG_SHARE((n) + 2) RFG_SHARE((n) + 3)
    switch (n) {
        RFG_SHARE_4(0)
        RFG_SHARE_4(4)
        RFG_SHARE_4(8)
        RFG_SHARE_4(12)
    }
    return v;
#undef RFG_SHARE_4
#undef RFG_SHARE
}

/* Codes that matrix instructions of their own multiply; others go as fp16. */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define RFG_MMA_FP8(dtype) ((dtype) == RFG_E4M3FNUZ)
#elif defined(__gfx950__)
#define RFG_MMA_FP8(dtype) ((dtype) == RFG_E4M3 || (dtype) == RFG_E5M2)
#else
#define RFG_MMA_FP8(dtype) 0
#endif
#define RFG_MMA_I8(dtype) ((RFG_MFMA || RFG_WMMA11) && (dtype) == RFG_I8)
#define RFG_HAS_MMA_FP8   (RFG_MMA_FP8(RFG_E4M3FNUZ) || RFG_MMA_FP8(RFG_E4M3)) /* and i8's with 8 bytes a lane */

#if RFG_HAS_MMA_FP8
RFG_DEVICE void rfg_stream_mma_fp8(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x, int dtype)
{
    rfg_f32x4 d = { c->v[0], c->v[1], c->v[2], c->v[3] };
    rfg_u32x2 w0 = w->v[0].xy, w1 = w->v[0].zw, x0 = x->v[0].xy, x1 = x->v[0].zw;
    long a0 = __builtin_bit_cast(long, w0), a1 = __builtin_bit_cast(long, w1);
    long b0 = __builtin_bit_cast(long, x0), b1 = __builtin_bit_cast(long, x1);
    if (dtype == RFG_E5M2) {
        d = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(a0, b0, d, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(a1, b1, d, 0, 0, 0);
    } else {
        d = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a0, b0, d, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a1, b1, d, 0, 0, 0);
    }
    c->v[0] = d.x;
    c->v[1] = d.y;
    c->v[2] = d.z;
    c->v[3] = d.w;
}
#endif

#if RFG_MMA_I8(RFG_I8)
RFG_DEVICE void rfg_stream_mma_i8(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x)
{
    typedef int i32_piece __attribute__((ext_vector_type(4)));
    typedef int i32_sums __attribute__((ext_vector_type(RFG_FRAG_WX)));
    i32_sums d;
#pragma unroll
    for (int e = 0; e < RFG_FRAG_WX; e++)
        d[e] = (int)rfg_as_u32(c->v[e]);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
        i32_piece a = __builtin_bit_cast(i32_piece, w->v[i]), b = __builtin_bit_cast(i32_piece, x->v[i]);
#if defined(__gfx950__)
        d = __builtin_amdgcn_mfma_i32_16x16x64_i8(a, b, d, 0, 0, 0);
#elif RFG_HAS_MMA_FP8
        typedef long i64_halves __attribute__((ext_vector_type(2)));
        i64_halves ah = __builtin_bit_cast(i64_halves, a), bh = __builtin_bit_cast(i64_halves, b);
        d = __builtin_amdgcn_mfma_i32_16x16x32_i8(ah.x, bh.x, d, 0, 0, 0);
        d = __builtin_amdgcn_mfma_i32_16x16x32_i8(ah.y, bh.y, d, 0, 0, 0);
#elif RFG_MFMA
#pragma unroll
        for (int word = 0; word < 4; word++)
            d = __builtin_amdgcn_mfma_i32_16x16x16i8(a[word], b[word], d, 0, 0, 0);
#else
        d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, d, false);
#endif
    }
#pragma unroll
    for (int e = 0; e < RFG_FRAG_WX; e++)
        c->v[e] = rfg_as_float((rfg_u32)d[e]);
}
#endif

/* What rfg_stream_mma() has added up. */
RFG_DEVICE float rfg_stream_sum(float sum, int dtype)
{
    return RFG_MMA_I8(dtype) ? (float)(int)rfg_as_u32(sum) : sum;
}

/* rfg_frag_mma_wx(), also of codes (64 columns), and with gfx950's instruction, which takes a lane's whole piece at
 * once. Sums of i8 stay whole numbers, in the floats' registers: rfg_stream_sum(). */
RFG_DEVICE void rfg_stream_mma(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x, int dtype)
{
#if RFG_HAS_MMA_FP8
    if (RFG_MMA_FP8(dtype)) {
        rfg_stream_mma_fp8(c, w, x, dtype);
        return;
    }
#endif
#if RFG_MMA_I8(RFG_I8)
    if (RFG_MMA_I8(dtype)) {
        rfg_stream_mma_i8(c, w, x);
        return;
    }
#endif
    if (RFG_IS_CODE(dtype)) {
        rfg_u32x4 wp[RFG_FRAG_AB][2], xp[RFG_FRAG_X][2];
        rfg_frag_ab a;
        rfg_frag_x b;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++) {
            rfg_frag_parts(wp[i], w->v[i], dtype);
            rfg_frag_parts(xp[i], x->v[i], dtype);
        }
#pragma unroll
        for (int part = 0; part < 2; part++) {
#pragma unroll
            for (int i = 0; i < RFG_FRAG_AB; i++) {
                a.v[i] = wp[i][part];
                b.v[i] = xp[i][part];
            }
            rfg_frag_mma_wx(c, &a, &b, RFG_F16);
        }
        return;
    }
#if defined(__gfx950__)
    typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
    rfg_f32x4 d = { c->v[0], c->v[1], c->v[2], c->v[3] };
    if (dtype == RFG_F16)
        d = __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(rfg_f16x8, w->v[0]),
                                                   __builtin_bit_cast(rfg_f16x8, x->v[0]), d, 0, 0, 0);
    else
        d = __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(bf16x8, w->v[0]),
                                                    __builtin_bit_cast(bf16x8, x->v[0]), d, 0, 0, 0);
    c->v[0] = d.x;
    c->v[1] = d.y;
    c->v[2] = d.z;
    c->v[3] = d.w;
#else
    rfg_frag_mma_wx(c, w, x, dtype);
#endif
}

/* What matrix instructions made is read here. LLVM loses count of the wait states before a read that it puts behind
 * later branches; the emulator's hazard check found it. LLVM 15 does so anywhere. LLVM 19 does where a branch skips
 * instructions that are long enough: it looks at each block before the read once, along the way that it finds first.
 * branches: such a branch follows. */
RFG_DEVICE void rfg_settle(rfg_f32x4 *v, bool branches)
{
    if (__clang_major__ < 16 || (RFG_WAVE == 64 && branches)) /* RDNA has no such wait states */
        asm volatile("" : "+v"(v->x), "+v"(v->y), "+v"(v->z), "+v"(v->w));
}

/* 16 bytes at base + at, of `bytes`, that other workgroups are to see: for rfg_last_wave_to_arrive(), which writes no
 * L2 back. Where there are several, the store goes through its own at once (sc1: LLVM, AMDGPUUsage, memory model
 * gfx942, an atomic store of agent scope). base and bytes: the same in all lanes. */
RFG_DEVICE void rfg_store16_shared(char *base, int bytes, rfg_u32 at, rfg_f32x4 v)
{
#if RFG_MANY_L2
    rfg_llvm_buffer_store16(__builtin_bit_cast(rfg_u32x4, v), rfg_buffer_of(base, bytes), (int)at, 0, RFG_BUFFER_SC1);
#else
    (void)bytes;
    *(RFG_GLOBAL rfg_f32x4 *)(base + at) = v;
#endif
}
/* The same of 2, 4 and 8 bytes, to an address aligned so. */
RFG_DEVICE void rfg_store2_shared(void *p, rfg_u16 v)
{
    __hip_atomic_store((RFG_GLOBAL rfg_u16 *)p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
RFG_DEVICE void rfg_store4_shared(void *p, rfg_u32 v)
{
    rfg_atomic_store((rfg_u32 *)p, v);
}
RFG_DEVICE void rfg_store8_shared(void *p, rfg_u32 lo, rfg_u32 hi)
{
    __hip_atomic_store((RFG_GLOBAL rfg_u64 *)p, (rfg_u64)hi << 32 | lo, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
/* rfg_last_to_arrive() for a wave by itself: n waves, of n workgroups, wrote parts by rfg_store16_shared() or its like.
 * A wave has no barrier to wait at, and a write-back for each is what this saves. All lanes must be on. */
RFG_DEVICE bool rfg_last_wave_to_arrive(rfg_u32 *counter, int n)
{
    rfg_u32 before = 0;
    rfg_release_wave();
    if (rfg_lane() == 0) {
        before = rfg_atomic_add(counter, 1u);
        if (before == (rfg_u32)n - 1u)
            rfg_atomic_store(counter, 0u);
    }
    bool last = __builtin_amdgcn_readfirstlane((int)before) == n - 1;
    if (last)
        rfg_acquire_device();
    return last;
}
