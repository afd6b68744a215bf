/* SPDX-License-Identifier: MIT
 *
 * The device prelude: the only place that knows the architectures. Kernels are C-style HIP on top of it and compile with
 * hipRTC (LLVM 15 and later), clang for HIP without any header, and NVRTC. Only compiler builtins are used on AMD, so
 * that a run-time compiler's predefined header does not matter.
 *
 * Macros a kernel sets before including: DT_IN and DT_OUT, one of DT_BF16, DT_F16, DT_F32. */

#define DT_BF16 0
#define DT_F16  1
#define DT_F32  2

typedef unsigned short rfg_u16;
typedef unsigned int rfg_u32;
typedef unsigned long long rfg_u64;

/* ---- which machine ------------------------------------------------------------------------------------------------ */

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define RFG_NVIDIA 1
#define RFG_WAVE   32
#define RFG_MMA    1
typedef uint4 rfg_u32x4;
#else
#define RFG_AMD 1
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
typedef rfg_u32 rfg_u32x4 __attribute__((ext_vector_type(4)));
#if defined(__gfx908__)
#define RFG_MFMA     1
#define RFG_MFMA_908 1
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define RFG_MFMA 1
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) ||                   \
    defined(__gfx1150__) || defined(__gfx1151__)
#define RFG_WMMA11 1
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define RFG_WMMA12 1
#endif
#ifdef RFG_MFMA
#define RFG_WAVE 64
#elif defined(__gfx900__) || defined(__gfx906__)
#define RFG_WAVE 64
#else
#define RFG_WAVE 32
#endif
#if defined(RFG_MFMA) || defined(RFG_WMMA11) || defined(RFG_WMMA12)
#define RFG_MMA 1
#endif
#endif

#define RFG_FN static inline __device__ __attribute__((always_inline))

/* A kernel of at most `threads` threads a workgroup: lets the compiler use the registers that this leaves. */
#ifdef RFG_NVIDIA
#define RFG_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#else
#define RFG_KERNEL(threads) extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, threads)))
#endif

/* ---- ids, barrier, LDS ----------------------------------------------------------------------------------------------- */

#ifdef RFG_NVIDIA
RFG_FN int rfg_tid(void) { return (int)threadIdx.x; }
RFG_FN int rfg_group_x(void) { return (int)blockIdx.x; }
RFG_FN int rfg_group_y(void) { return (int)blockIdx.y; }
RFG_FN int rfg_group_z(void) { return (int)blockIdx.z; }
RFG_FN int rfg_groups_x(void) { return (int)gridDim.x; }
RFG_FN int rfg_groups_z(void) { return (int)gridDim.z; }
RFG_FN void rfg_barrier(void) { __syncthreads(); }
#else
RFG_FN int rfg_tid(void) { return (int)__builtin_amdgcn_workitem_id_x(); }
RFG_FN int rfg_group_x(void) { return (int)__builtin_amdgcn_workgroup_id_x(); }
RFG_FN int rfg_group_y(void) { return (int)__builtin_amdgcn_workgroup_id_y(); }
RFG_FN int rfg_group_z(void) { return (int)__builtin_amdgcn_workgroup_id_z(); }
/* Grid sizes are in threads; workgroups here are one thread deep in y and z. */
RFG_FN int rfg_groups_x(void) { return (int)(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()); }
RFG_FN int rfg_groups_z(void) { return (int)__builtin_amdgcn_grid_size_z(); }
RFG_FN void rfg_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#endif

/* The wave is the same number in all its lanes: telling the compiler keeps what follows from it in scalar registers. */
RFG_FN int rfg_wave(void)
{
#ifdef RFG_AMD
    return __builtin_amdgcn_readfirstlane(rfg_tid() / RFG_WAVE);
#else
    return rfg_tid() / RFG_WAVE;
#endif
}
RFG_FN int rfg_lane(void) { return rfg_tid() % RFG_WAVE; }

/* Dynamic LDS; its size comes with the launch. 16-byte aligned. */
#ifdef RFG_NVIDIA
extern "C" __shared__ rfg_u32x4 rfg_lds[];
#else
extern "C" __shared__ rfg_u32x4 rfg_lds[];
#endif

/* ---- loads ------------------------------------------------------------------------------------------------------------ */

/* 16 bytes that are read once by the whole grid (weights): they should not push out what is read again. */
RFG_FN rfg_u32x4 rfg_load_once(const void *p)
{
#ifdef RFG_NVIDIA
    rfg_u32x4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
#else
    return __builtin_nontemporal_load((const rfg_u32x4 *)p);
#endif
}

RFG_FN rfg_u32x4 rfg_load(const void *p) { return *(const rfg_u32x4 *)p; }

RFG_FN rfg_u32x4 rfg_zero16(void)
{
    rfg_u32x4 z = { 0, 0, 0, 0 };
    return z;
}

/* ---- number formats --------------------------------------------------------------------------------------------------- */

#ifdef RFG_NVIDIA
RFG_FN float rfg_bits_float(rfg_u32 u) { return __uint_as_float(u); }
RFG_FN rfg_u32 rfg_float_bits(float f) { return __float_as_uint(f); }
RFG_FN float rfg_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
RFG_FN float rfg_bits_float(rfg_u32 u) { return __builtin_bit_cast(float, u); }
RFG_FN rfg_u32 rfg_float_bits(float f) { return __builtin_bit_cast(rfg_u32, f); }
RFG_FN float rfg_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#endif

RFG_FN float rfg_f16_float(rfg_u16 h)
{
#ifdef RFG_NVIDIA
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
#else
    return (float)__builtin_bit_cast(_Float16, h);
#endif
}

RFG_FN rfg_u16 rfg_float_f16(float f)
{
#ifdef RFG_NVIDIA
    rfg_u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
    return __builtin_bit_cast(rfg_u16, (_Float16)f);
#endif
}

/* To nearest even; a NaN stays one. */
RFG_FN rfg_u16 rfg_float_bf16(float f)
{
    rfg_u32 u = rfg_float_bits(f);
    rfg_u32 r = u + 0x7fff + ((u >> 16) & 1);
    return (rfg_u16)(((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : r) >> 16);
}

/* Element i of an array of a dtype. */
RFG_FN float rfg_get(const void *p, long long i, int dtype)
{
    if (dtype == DT_F32)
        return ((const float *)p)[i];
    rfg_u16 h = ((const rfg_u16 *)p)[i];
    return dtype == DT_F16 ? rfg_f16_float(h) : rfg_bits_float((rfg_u32)h << 16);
}

RFG_FN void rfg_put(void *p, long long i, float v, int dtype)
{
    if (dtype == DT_F32)
        ((float *)p)[i] = v;
    else
        ((rfg_u16 *)p)[i] = dtype == DT_F16 ? rfg_float_f16(v) : rfg_float_bf16(v);
}

/* acc += a . b over the two 16-bit elements of each word. */
RFG_FN float rfg_dot2(rfg_u32 a, rfg_u32 b, float acc, int dtype)
{
    float a0, a1, b0, b1;
    if (dtype == DT_BF16) {
        a0 = rfg_bits_float(a << 16);
        a1 = rfg_bits_float(a & 0xffff0000);
        b0 = rfg_bits_float(b << 16);
        b1 = rfg_bits_float(b & 0xffff0000);
    } else {
        a0 = rfg_f16_float((rfg_u16)a);
        a1 = rfg_f16_float((rfg_u16)(a >> 16));
        b0 = rfg_f16_float((rfg_u16)b);
        b1 = rfg_f16_float((rfg_u16)(b >> 16));
    }
    return rfg_fma(a1, b1, rfg_fma(a0, b0, acc));
}

RFG_FN float rfg_dot8(rfg_u32x4 a, rfg_u32x4 b, float acc, int dtype)
{
    acc = rfg_dot2(a.x, b.x, acc, dtype);
    acc = rfg_dot2(a.y, b.y, acc, dtype);
    acc = rfg_dot2(a.z, b.z, acc, dtype);
    return rfg_dot2(a.w, b.w, acc, dtype);
}

/* ---- waves -------------------------------------------------------------------------------------------------------------- */

RFG_FN float rfg_shuffle_xor(float v, int mask)
{
#ifdef RFG_NVIDIA
    float r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(mask));
    return r;
#else
    int from = (rfg_lane() ^ mask) << 2;
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(from, __builtin_bit_cast(int, v)));
#endif
}

/* The sum over the wave, in all its lanes, by a tree of fixed shape. */
RFG_FN float rfg_wave_sum(float v)
{
#pragma unroll
    for (int m = RFG_WAVE / 2; m; m >>= 1)
        v += rfg_shuffle_xor(v, m);
    return v;
}

/* ---- across workgroups ---------------------------------------------------------------------------------------------------- */

/* One thread adds 1 to a counter; what its workgroup wrote before (a barrier comes first) is released to the device, and
 * what others released to it before is acquired. Returns the old value. */
RFG_FN rfg_u32 rfg_arrive(rfg_u32 *counter)
{
#ifdef RFG_NVIDIA
    rfg_u32 old;
    asm volatile("fence.acq_rel.gpu; atom.add.acq_rel.gpu.global.u32 %0, [%1], 1; fence.acq_rel.gpu;"
                 : "=r"(old)
                 : "l"(counter)
                 : "memory");
    return old;
#else
    return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#endif
}

/* Every thread that wrote (reads) what rfg_arrive() releases (acquired) calls these before the barrier before it (after the
 * barrier after it): the barrier orders a workgroup only. */
RFG_FN void rfg_release(void)
{
#ifdef RFG_NVIDIA
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
}
RFG_FN void rfg_acquire(void)
{
#ifdef RFG_NVIDIA
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
#endif
}

/* True in every thread of the last of `groups` workgroups to come here; resets the counter for the next launch. Results
 * that the workgroups wrote before are visible to it. lds: one word that is free. */
RFG_FN bool rfg_last_group(rfg_u32 *counter, int groups, rfg_u32 *lds)
{
    rfg_release();
    rfg_barrier();
    if (rfg_tid() == 0) {
        rfg_u32 old = rfg_arrive(counter);
        if (old == (rfg_u32)groups - 1)
            *counter = 0; /* nobody else touches it before the next launch */
        *lds = old;
    }
    rfg_barrier();
    bool last = *lds == (rfg_u32)groups - 1;
    if (last)
        rfg_acquire();
    return last;
}

/* ---- copies from global memory to LDS ----------------------------------------------------------------------------------------
 *
 * A tile's copy is two steps around the work that hides it: rfg_copy_issue() for each 16 bytes, then rfg_copy_land(). With
 * hardware copies the first does all and the second nothing; elsewhere the bytes wait in registers between the two.
 * rfg_copy_commit() closes a tile, rfg_copy_wait(n) waits until at most the n last ones are under way; a barrier follows. */
RFG_FN void rfg_copy_issue(rfg_u32x4 *reg, void *lds, const void *global, bool valid)
{
#ifdef RFG_NVIDIA
    rfg_u32 to = (rfg_u32)__cvta_generic_to_shared(lds);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
    *reg = valid ? *(const rfg_u32x4 *)global : rfg_zero16();
#endif
}
RFG_FN void rfg_copy_land(const rfg_u32x4 *reg, void *lds)
{
#ifdef RFG_AMD
    *(rfg_u32x4 *)lds = *reg;
#endif
}
RFG_FN void rfg_copy_commit(void)
{
#ifdef RFG_NVIDIA
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
#ifdef RFG_NVIDIA
#define rfg_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#else
#define rfg_copy_wait(n) ((void)0)
#endif

/* ---- matrix fragments ------------------------------------------------------------------------------------------------------
 *
 * D[16,16] += A[16,k] * B[16,k]^T over RFG_KSTEP elements of k; both operands are 16 rows with k contiguous, as X and W of
 * our GEMM are. Which lane holds which k is free as long as A and B agree: each lane takes whole 16-byte pieces of a row, so
 * that a fragment is one or two 128-bit LDS reads and no transposition.
 *
 *   NVIDIA  mma.sync m16n8k16: lane = 4*g + t holds rows g and g+8, bytes [16t, 16t+16) of 64
 *   MFMA    16x16x16 (gfx908 bf16: 16x16x8): lane = 16*q + r holds row r, bytes [16q, 16q+16) of 64
 *   gfx12   WMMA 16x16x16: lane = 16*q + r holds row r, bytes [16q, 16q+16) of 32
 *   gfx11   WMMA 16x16x16: lanes r and 16+r both hold row r, all 32 bytes
 *
 * RFG_LDS_PAD: bytes added to a row of LDS whose length is a multiple of 128, so that these reads hit all banks. */
#ifdef RFG_MMA

#if defined(RFG_NVIDIA) || defined(RFG_MFMA)
#define RFG_KSTEP 32
#else
#define RFG_KSTEP 16
#endif
#define RFG_ACC     (256 / RFG_WAVE) /* fp32 accumulators a lane */
#ifdef RFG_NVIDIA
#define RFG_LDS_PAD 64
#else
#define RFG_LDS_PAD 16
#endif

struct rfg_frag {
    rfg_u32x4 v[2]; /* MFMA and gfx12 use the first only */
};

/* rows: LDS, the first row's k position; stride: bytes between rows. */
RFG_FN struct rfg_frag rfg_frag_load(const char *rows, int stride)
{
    struct rfg_frag f;
    int lane = rfg_lane();
#if defined(RFG_NVIDIA)
    const char *p = rows + (lane / 4) * stride + (lane % 4) * 16;
    f.v[0] = *(const rfg_u32x4 *)p;
    f.v[1] = *(const rfg_u32x4 *)(p + 8 * stride);
#elif defined(RFG_WMMA11)
    const char *p = rows + (lane % 16) * stride;
    f.v[0] = *(const rfg_u32x4 *)p;
    f.v[1] = *(const rfg_u32x4 *)(p + 16);
#else
    f.v[0] = *(const rfg_u32x4 *)(rows + (lane % 16) * stride + (lane / 16) * 16);
    f.v[1] = f.v[0];
#endif
    return f;
}

/* Where accumulator i of this lane lies in D. */
RFG_FN int rfg_acc_row(int i)
{
    int lane = rfg_lane();
#if defined(RFG_NVIDIA)
    return lane / 4 + (i & 2 ? 8 : 0);
#elif defined(RFG_WMMA11)
    return 2 * i + lane / 16;
#elif defined(RFG_WMMA12)
    return i + 8 * (lane / 16);
#else
    return i + 4 * (lane / 16);
#endif
}
RFG_FN int rfg_acc_col(int i)
{
    int lane = rfg_lane();
#if defined(RFG_NVIDIA)
    return 2 * (lane % 4) + (i & 1) + (i & 4 ? 8 : 0);
#else
    return lane % 16;
#endif
}

#if defined(RFG_NVIDIA)
RFG_FN void rfg_mma_16x8x16(float *d, rfg_u32 a0, rfg_u32 a1, rfg_u32 a2, rfg_u32 a3, rfg_u32 b0, rfg_u32 b1)
{
#if DT_IN == DT_F16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}
#else
typedef short rfg_s16x2 __attribute__((ext_vector_type(2)));
typedef short rfg_s16x4 __attribute__((ext_vector_type(4)));
typedef short rfg_s16x8 __attribute__((ext_vector_type(8)));
typedef short rfg_s16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 rfg_f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 rfg_f16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 rfg_f16x16 __attribute__((ext_vector_type(16)));
typedef float rfg_f32x4 __attribute__((ext_vector_type(4)));
typedef float rfg_f32x8 __attribute__((ext_vector_type(8)));
typedef rfg_u32 rfg_u32x2 __attribute__((ext_vector_type(2)));
typedef rfg_u32 rfg_u32x8 __attribute__((ext_vector_type(8)));
#endif

RFG_FN void rfg_mma(float d[RFG_ACC], const struct rfg_frag *a, const struct rfg_frag *b)
{
#if defined(RFG_NVIDIA)
    const rfg_u32x4 *al = &a->v[0], *ah = &a->v[1];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        rfg_mma_16x8x16(d + 4 * h, al->x, ah->x, al->y, ah->y, b->v[h].x, b->v[h].y);
        rfg_mma_16x8x16(d + 4 * h, al->z, ah->z, al->w, ah->w, b->v[h].z, b->v[h].w);
    }
#elif defined(RFG_MFMA)
    rfg_f32x4 c = { d[0], d[1], d[2], d[3] };
    rfg_u32x2 al = { a->v[0].x, a->v[0].y }, ah = { a->v[0].z, a->v[0].w };
    rfg_u32x2 bl = { b->v[0].x, b->v[0].y }, bh = { b->v[0].z, b->v[0].w };
#if DT_IN == DT_F16
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, al), __builtin_bit_cast(rfg_f16x4, bl), c, 0,
                                              0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, ah), __builtin_bit_cast(rfg_f16x4, bh), c, 0,
                                              0, 0);
#elif defined(RFG_MFMA_908)
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(rfg_s16x2, al.x), __builtin_bit_cast(rfg_s16x2, bl.x), c,
                                              0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(rfg_s16x2, al.y), __builtin_bit_cast(rfg_s16x2, bl.y), c,
                                              0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(rfg_s16x2, ah.x), __builtin_bit_cast(rfg_s16x2, bh.x), c,
                                              0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(rfg_s16x2, ah.y), __builtin_bit_cast(rfg_s16x2, bh.y), c,
                                              0, 0, 0);
#else
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, al), __builtin_bit_cast(rfg_s16x4, bl), c,
                                                  0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, ah), __builtin_bit_cast(rfg_s16x4, bh), c,
                                                  0, 0, 0);
#endif
#pragma unroll
    for (int i = 0; i < 4; i++)
        d[i] = c[i];
#else
    rfg_f32x8 c;
#pragma unroll
    for (int i = 0; i < 8; i++)
        c[i] = d[i];
#if defined(RFG_WMMA11)
    rfg_u32x8 aw = { a->v[0].x, a->v[0].y, a->v[0].z, a->v[0].w, a->v[1].x, a->v[1].y, a->v[1].z, a->v[1].w };
    rfg_u32x8 bw = { b->v[0].x, b->v[0].y, b->v[0].z, b->v[0].w, b->v[1].x, b->v[1].y, b->v[1].z, b->v[1].w };
#if DT_IN == DT_F16
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(rfg_f16x16, aw), __builtin_bit_cast(rfg_f16x16, bw),
                                                   c);
#else
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(rfg_s16x16, aw),
                                                    __builtin_bit_cast(rfg_s16x16, bw), c);
#endif
#else
#if DT_IN == DT_F16
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(rfg_f16x8, a->v[0]),
                                                         __builtin_bit_cast(rfg_f16x8, b->v[0]), c);
#else
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(rfg_s16x8, a->v[0]),
                                                          __builtin_bit_cast(rfg_s16x8, b->v[0]), c);
#endif
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
        d[i] = c[i];
#endif
}

#endif /* RFG_MMA */
