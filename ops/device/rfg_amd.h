/* SPDX-License-Identifier: MIT
 *
 * AMD, by clang's builtins alone: hipRTC brings names of HIP's own, a bare clang brings none, so none is used. */
#if RFG_AMD

#define RFG_DEVICE static __attribute__((device)) __attribute__((always_inline)) inline
#define RFG_SHARED __attribute__((shared))
#define RFG_KERNEL(threads)                                                                                            \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void
#define RFG_GLOBAL __attribute__((address_space(1)))

typedef unsigned short rfg_u16;
typedef unsigned int rfg_u32;
typedef unsigned long long rfg_u64;
typedef rfg_u32 rfg_u32x4 __attribute__((ext_vector_type(4)));
typedef rfg_u32 rfg_u32x2 __attribute__((ext_vector_type(2)));
typedef float rfg_f32x4 __attribute__((ext_vector_type(4)));
typedef float rfg_f32x2 __attribute__((ext_vector_type(2)));

/* All dynamic LDS, 16 bytes an element. */
extern RFG_SHARED rfg_u32x4 rfg_lds[];

RFG_DEVICE int rfg_thread(void)
{
    return (int)__builtin_amdgcn_workitem_id_x();
}
RFG_DEVICE int rfg_lane(void)
{
    return (int)(__builtin_amdgcn_workitem_id_x() & (RFG_WAVE - 1));
}
/* The same in all lanes, and the compiler is told so. */
RFG_DEVICE int rfg_wave(void)
{
    return __builtin_amdgcn_readfirstlane((int)(__builtin_amdgcn_workitem_id_x() / RFG_WAVE));
}
RFG_DEVICE int rfg_group_x(void)
{
    return (int)__builtin_amdgcn_workgroup_id_x();
}
RFG_DEVICE int rfg_group_y(void)
{
    return (int)__builtin_amdgcn_workgroup_id_y();
}
RFG_DEVICE int rfg_group_z(void)
{
    return (int)__builtin_amdgcn_workgroup_id_z();
}
/* Workgroups along y. The dispatch packet counts work-items; a workgroup is one high. */
RFG_DEVICE int rfg_groups_y(void)
{
    return (int)__builtin_amdgcn_grid_size_y();
}
/* Workgroups along x, `threads` wide. */
RFG_DEVICE int rfg_groups_x(int threads)
{
    return (int)(__builtin_amdgcn_grid_size_x() / (rfg_u32)threads);
}

/* Waits for the workgroup; memory that its threads wrote, LDS and global, can be read by the others. */
RFG_DEVICE void rfg_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* The same for LDS only: global loads stay in flight across it. (The builtin and its fences would wait for them on
 * gfx908 and on gfx10 and later.) */
RFG_DEVICE void rfg_barrier_lds(void)
{
#if RFG_WMMA12
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#else
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#endif
}

/* Memory instructions add an offset of 32 bits in a vector register to a base in scalar ones. For the compiler to see
 * the two at every access, the base must be the same in all lanes, and the offset made anew in each loop and after each
 * branch: else it carries 64-bit sums of them in vector registers. */
RFG_DEVICE char *rfg_uniform(char *base)
{
    rfg_u64 u = (rfg_u64)base;
    rfg_u32 lo = (rfg_u32)__builtin_amdgcn_readfirstlane((int)u);
    rfg_u32 hi = (rfg_u32)__builtin_amdgcn_readfirstlane((int)(u >> 32));
    u = (rfg_u64)hi << 32 | lo;
    asm("" : "+s"(u));
    return (char *)u;
}
RFG_DEVICE rfg_u32 rfg_anew(rfg_u32 offset)
{
    asm volatile("" : "+v"(offset));
    return offset;
}

/* Launches don't overlap. */
RFG_DEVICE void rfg_start_next(void)
{
}
RFG_DEVICE void rfg_await_previous(void)
{
}

/* Neither memory operations nor arithmetic are moved across it. */
RFG_DEVICE void rfg_keep_order(void)
{
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
}

RFG_DEVICE rfg_u32x4 rfg_load16(const void *p)
{
    return *(const RFG_GLOBAL rfg_u32x4 *)p;
}
/* Read once: keeps out of the way of what is worth caching. */
RFG_DEVICE rfg_u32x4 rfg_load16_stream(const void *p)
{
    return __builtin_nontemporal_load((const RFG_GLOBAL rfg_u32x4 *)p);
}
RFG_DEVICE void rfg_store16(void *p, rfg_u32x4 v)
{
    *(RFG_GLOBAL rfg_u32x4 *)p = v;
}
RFG_DEVICE void rfg_store8(void *p, rfg_u32x2 v)
{
    *(RFG_GLOBAL rfg_u32x2 *)p = v;
}
RFG_DEVICE rfg_u32 rfg_load4(const void *p)
{
    return *(const RFG_GLOBAL rfg_u32 *)p;
}
RFG_DEVICE rfg_u16 rfg_load2(const void *p)
{
    return *(const RFG_GLOBAL rfg_u16 *)p;
}
RFG_DEVICE void rfg_store4(void *p, rfg_u32 v)
{
    *(RFG_GLOBAL rfg_u32 *)p = v;
}
RFG_DEVICE void rfg_store2(void *p, rfg_u16 v)
{
    *(RFG_GLOBAL rfg_u16 *)p = v;
}

RFG_DEVICE rfg_u32x2 rfg_load8(const void *p)
{
    return *(const RFG_GLOBAL rfg_u32x2 *)p;
}
RFG_DEVICE rfg_u32 rfg_load1(const void *p)
{
    return *(const RFG_GLOBAL unsigned char *)p;
}
RFG_DEVICE void rfg_store1(void *p, rfg_u32 v)
{
    *(RFG_GLOBAL unsigned char *)p = (unsigned char)v;
}
/* Read or written once, as rfg_load16_stream(), but of memory that this launch also writes. */
RFG_DEVICE rfg_u32x4 rfg_load16_once(const void *p)
{
    return __builtin_nontemporal_load((const RFG_GLOBAL rfg_u32x4 *)p);
}
RFG_DEVICE void rfg_store16_once(void *p, rfg_u32x4 v)
{
    __builtin_nontemporal_store(v, (RFG_GLOBAL rfg_u32x4 *)p);
}
RFG_DEVICE void rfg_store8_once(void *p, rfg_u32x2 v)
{
    __builtin_nontemporal_store(v, (RFG_GLOBAL rfg_u32x2 *)p);
}

RFG_DEVICE float rfg_as_float(rfg_u32 u)
{
    return __builtin_bit_cast(float, u);
}
RFG_DEVICE rfg_u32 rfg_as_u32(float f)
{
    return __builtin_bit_cast(rfg_u32, f);
}
RFG_DEVICE float rfg_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
/* Two at a time: one instruction on MI200 and later. */
RFG_DEVICE rfg_f32x2 rfg_pair(float x, float y)
{
    rfg_f32x2 p = { x, y };
    return p;
}
RFG_DEVICE rfg_f32x2 rfg_add2(rfg_f32x2 a, rfg_f32x2 b)
{
    return a + b;
}
RFG_DEVICE rfg_f32x2 rfg_mul2(rfg_f32x2 a, rfg_f32x2 b)
{
    return a * b;
}
RFG_DEVICE rfg_f32x2 rfg_fma2(rfg_f32x2 a, rfg_f32x2 b, rfg_f32x2 c)
{
#if defined(__has_builtin) && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#else
    rfg_f32x2 r = { __builtin_fmaf(a.x, b.x, c.x), __builtin_fmaf(a.y, b.y, c.y) };
    return r;
#endif
}
RFG_DEVICE float rfg_f16_to_float(rfg_u16 h)
{
    return (float)__builtin_bit_cast(_Float16, h);
}
/* By an instruction of its own: the compiler would fuse the conversion with a product before it (v_fma_mixlo_f16) in
 * some variants and not in others, whose last bits would then differ. (volatile, here and below: the compiler doesn't
 * know that assembly depends on which lanes are on, and would move it to where others are.) */
RFG_DEVICE rfg_u16 rfg_float_to_f16(float f)
{
    rfg_u32 h;
    asm volatile("v_cvt_f16_f32 %0, %1" : "=v"(h) : "v"(f));
    return (rfg_u16)h;
}

/* Words of two fp16 by instructions that take one half of a word, or both, as they are; rfg_dtype.h has the same for
 * those that have none. What is assembly here must not be given what a transcendental instruction has just written: the
 * compiler doesn't look into it for hazards. */
#if RFG_MFMA || RFG_WMMA11 || (RFG_WMMA12 && !RFG_WMMA32) || defined(__gfx906__) || defined(__gfx1030__)
#define RFG_F16_WORDS 1
typedef _Float16 rfg_f16x2 __attribute__((ext_vector_type(2)));

/* a + b. */
RFG_DEVICE rfg_u32 rfg_add_f16x2(rfg_u32 a, rfg_u32 b)
{
    return __builtin_bit_cast(rfg_u32, __builtin_bit_cast(rfg_f16x2, a) + __builtin_bit_cast(rfg_f16x2, b));
}
/* c + the products of both halves. */
RFG_DEVICE float rfg_dot_f16x2(rfg_u32 a, rfg_u32 b, float c)
{
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(rfg_f16x2, a), __builtin_bit_cast(rfg_f16x2, b), c, false);
}
/* c + both halves. (That a constant 1.0 stands in both halves is not what all compilers and their targets agree on.) */
RFG_DEVICE float rfg_sum_f16x2(rfg_u32 a, float c)
{
    rfg_u32 ones = 0x3c003c00u;
    asm("" : "+s"(ones));
    return rfg_dot_f16x2(a, ones, c);
}
/* a times f. The compiler has v_fma_mix_f32 for sums only: before a product it would convert. */
RFG_DEVICE rfg_f32x2 rfg_mul_f16x2(rfg_u32 a, float f)
{
    rfg_f16x2 h = __builtin_bit_cast(rfg_f16x2, a);
    float zero = -0.0f;
    asm("" : "+s"(zero));
    return rfg_pair(rfg_fma((float)h.x, f, zero), rfg_fma((float)h.y, f, zero));
}
/* As fp16: f times w; f times w, plus b; f. */
RFG_DEVICE rfg_u32 rfg_pack_mul_f16x2(rfg_f32x2 f, rfg_u32 w)
{
    rfg_u32 h;
    asm volatile("v_fma_mixlo_f16 %0, %1, %3, neg(0) op_sel_hi:[0,1,0]\n\t"
                 "v_fma_mixhi_f16 %0, %2, %3, neg(0) op_sel:[0,1,0] op_sel_hi:[0,1,0]"
                 : "=&v"(h)
                 : "v"(f.x), "v"(f.y), "v"(w));
    return h;
}
RFG_DEVICE rfg_u32 rfg_pack_fma_f16x2(rfg_f32x2 f, rfg_u32 w, rfg_f32x2 b)
{
    rfg_u32 h;
    asm volatile("v_fma_mixlo_f16 %0, %1, %3, %4 op_sel_hi:[0,1,0]\n\t"
                 "v_fma_mixhi_f16 %0, %2, %3, %5 op_sel:[0,1,0] op_sel_hi:[0,1,0]"
                 : "=&v"(h)
                 : "v"(f.x), "v"(f.y), "v"(w), "v"(b.x), "v"(b.y));
    return h;
}
RFG_DEVICE rfg_u32 rfg_pack_f16(float lo, float hi)
{
    rfg_u32 h;
    asm volatile("v_fma_mixlo_f16 %0, %1, %3, neg(0)\n\t"
                 "v_fma_mixhi_f16 %0, %2, %3, neg(0)"
                 : "=&v"(h)
                 : "v"(lo), "v"(hi), "s"(1.0f));
    return h;
}
#else
#define RFG_F16_WORDS 0
RFG_DEVICE rfg_u32 rfg_pack_f16(float lo, float hi)
{
    return rfg_float_to_f16(lo) | (rfg_u32)rfg_float_to_f16(hi) << 16;
}
#endif
/* Two floats as bf16, to nearest even. No test for NaN: the lower half of a NaN must be 0, which holds for all that
 * arithmetic makes of bf16 inputs (the hardware hands a NaN's bits on, and its own is 0x7fc00000). */
RFG_DEVICE rfg_u32 rfg_pack_bf16(float lo, float hi)
{
#if defined(__gfx950__)
    rfg_u32 v;
    asm volatile("v_cvt_pk_bf16_f32 %0, %1, %2" : "=v"(v) : "v"(lo), "v"(hi));
    return v;
#else
    rfg_u32 a = rfg_as_u32(lo), b = rfg_as_u32(hi);
    a += 0x7fffu + ((a >> 16) & 1u);
    b += 0x7fffu + ((b >> 16) & 1u);
    return __builtin_amdgcn_perm(b, a, 0x07060302u);
#endif
}

#define RFG_MAX_WORDS 0
RFG_DEVICE rfg_u32 rfg_max_x2(rfg_u32 a, rfg_u32 b, int dtype)
{
    return 0;
}

/* Good to an ulp or two; denormal results may be 0. */
RFG_DEVICE float rfg_rcp(float f)
{
    return __builtin_amdgcn_rcpf(f);
}
/* 1 / f, rounded to nearest, of magnitudes from 2^-125 to 2^125. */
RFG_DEVICE float rfg_reciprocal(float f)
{
    return 1.0f / f;
}
RFG_DEVICE float rfg_rsqrt(float f)
{
    return __builtin_amdgcn_rsqf(f);
}
RFG_DEVICE float rfg_exp2(float f)
{
#if defined(__has_builtin) && __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(f);
#else
    return __builtin_exp2f(f);
#endif
}
/* The larger one; the other of a NaN. */
RFG_DEVICE float rfg_max(float a, float b)
{
    return __builtin_fmaxf(a, b);
}
RFG_DEVICE float rfg_min(float a, float b)
{
    return __builtin_fminf(a, b);
}
/* To nearest even, saturating; 0 for a NaN. */
RFG_DEVICE int rfg_float_to_i8(float f)
{
    int i; /* the instruction saturates, and gives 0 for a NaN */
    asm volatile("v_cvt_i32_f32 %0, %1" : "=v"(i) : "v"(__builtin_rintf(f)));
    return i < -128 ? -128 : i > 127 ? 127 : i;
}

#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define RFG_CONVERTS_FP8(dtype) ((dtype) == RFG_E4M3FNUZ)
#elif defined(__gfx950__) || defined(__GFX12__)
#define RFG_CONVERTS_FP8(dtype) ((dtype) == RFG_E4M3)
#else
#define RFG_CONVERTS_FP8(dtype) 0
#endif
/* Four codes, to nearest even, of values within the dtype's range or NaN. */
RFG_DEVICE rfg_u32 rfg_hardware_fp8x4(float a, float b, float c, float d)
{
#if RFG_CONVERTS_FP8(RFG_E4M3FNUZ) || RFG_CONVERTS_FP8(RFG_E4M3)
    int v = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
    return (rfg_u32)__builtin_amdgcn_cvt_pk_fp8_f32(c, d, v, true);
#else
    (void)a, (void)b, (void)c, (void)d;
    return 0;
#endif
}

/* Of the lane `by` further in the row of 16 lanes, going round. All lanes must be on. */
#define RFG_ROW_ROTATE(v, by)                                                                                          \
    rfg_as_float((rfg_u32)__builtin_amdgcn_update_dpp(0, (int)rfg_as_u32(v), 0x120 + (by), 0xf, 0xf, true))
/* In each row of 16 lanes but the first, the last lane of the row before; in the upper half of the wave, lane 31. Only
 * on gfx9. All lanes must be on; the others get 0. */
#define RFG_ROW_BEFORE(v)                                                                                              \
    rfg_as_float((rfg_u32)__builtin_amdgcn_update_dpp(0, (int)rfg_as_u32(v), 0x142, 0xf, 0xf, true))
#define RFG_HALF_BEFORE(v)                                                                                             \
    rfg_as_float((rfg_u32)__builtin_amdgcn_update_dpp(0, (int)rfg_as_u32(v), 0x143, 0xf, 0xf, true))
/* Of lane `lane`, a constant, in all lanes. */
RFG_DEVICE float rfg_of_lane(float v, int lane)
{
    return rfg_as_float((rfg_u32)__builtin_amdgcn_readlane((int)rfg_as_u32(v), lane));
}
/* Of the lane 16 away, in each 32. */
RFG_DEVICE float rfg_other_row(float v)
{
    return rfg_as_float((rfg_u32)__builtin_amdgcn_ds_swizzle((int)rfg_as_u32(v), 0x401f));
}

RFG_DEVICE float rfg_shuffle_xor(float v, int mask)
{
    return rfg_as_float((rfg_u32)__builtin_amdgcn_ds_bpermute((rfg_lane() ^ mask) * 4, (int)rfg_as_u32(v)));
}

/* An agent of several dies, each with an L2 of its own: releases write it back. */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define RFG_MANY_L2 1
#else
#define RFG_MANY_L2 0
#endif
/* What this thread wrote before is seen by whoever sees what it writes (atomically) after. */
RFG_DEVICE void rfg_release_device(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#if RFG_MANY_L2
    /* For the write-back. LLVM 19 drops the fence's own wait where one for older loads stands right before it, as if
     * buffer_wbl2 were nothing to wait for; the emulator's race check found it. */
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
}
/* The same of a whole workgroup: each wave calls rfg_release_wave() before a barrier, and the thread that answers for
 * all of them rfg_release_group() after it. A workgroup's waves run on one CU, behind one L2, so that one wave's
 * write-back (LLVM, AMDGPUUsage, memory model gfx942: fence release agent is buffer_wbl2 sc1 and s_waitcnt vmcnt(0))
 * takes the stores of all that have got there. That they have, each wave sees to itself: a barrier's fences of
 * workgroup scope leave the wait out where waves share an L1, and what another wave only sees it can't release (LLVM's
 * pull requests 160501 and 161638 say so of gfx10's CU mode). Without a write-back the waits are all there is to it. */
RFG_DEVICE void rfg_release_wave(void)
{
#if RFG_MANY_L2
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#else
    rfg_release_device();
#endif
}
RFG_DEVICE void rfg_release_group(void)
{
#if RFG_MANY_L2
    rfg_release_device();
#endif
}
/* What others released before this thread's last atomic is seen by its loads from here on. */
RFG_DEVICE void rfg_acquire_device(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
/* Relaxed, device scope; returns the value before. */
RFG_DEVICE rfg_u32 rfg_atomic_add(rfg_u32 *p, rfg_u32 v)
{
    return __hip_atomic_fetch_add((RFG_GLOBAL rfg_u32 *)p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
RFG_DEVICE void rfg_atomic_store(rfg_u32 *p, rfg_u32 v)
{
    __hip_atomic_store((RFG_GLOBAL rfg_u32 *)p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

#endif
