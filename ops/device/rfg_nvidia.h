/* SPDX-License-Identifier: MIT
 *
 * NVIDIA, by NVRTC: its built-in variables and types, and PTX. */
#if RFG_NVIDIA

#define RFG_DEVICE          static __device__ __forceinline__
#define RFG_SHARED          __shared__
#define RFG_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
/* A kernel whose workgroups x come in clusters of n, which are on neighbouring CUs at one time; the grid must be whole
 * clusters. */
#define RFG_KERNEL_CLUSTER(threads, n)                                                                                 \
    extern "C" __global__ void __cluster_dims__(n, 1, 1) __launch_bounds__(threads, 1)

typedef unsigned short rfg_u16;
typedef unsigned int rfg_u32;
typedef unsigned long long rfg_u64;
typedef uint4 rfg_u32x4;
typedef uint2 rfg_u32x2;
typedef float4 rfg_f32x4;
typedef float2 rfg_f32x2;

/* All dynamic LDS ("shared memory"), 16 bytes an element. */
extern RFG_SHARED rfg_u32x4 rfg_lds[];

RFG_DEVICE int rfg_thread(void)
{
    return (int)threadIdx.x;
}
RFG_DEVICE int rfg_lane(void)
{
    return (int)(threadIdx.x & (RFG_WAVE - 1));
}
RFG_DEVICE int rfg_wave(void)
{
    return (int)(threadIdx.x / RFG_WAVE);
}
RFG_DEVICE int rfg_group_x(void)
{
    return (int)blockIdx.x;
}
RFG_DEVICE int rfg_group_y(void)
{
    return (int)blockIdx.y;
}
RFG_DEVICE int rfg_group_z(void)
{
    return (int)blockIdx.z;
}
RFG_DEVICE int rfg_groups_y(void)
{
    return (int)gridDim.y;
}
RFG_DEVICE int rfg_groups_x(int threads)
{
    (void)threads;
    return (int)gridDim.x;
}

/* Waits for the workgroup; memory that its threads wrote, LDS and global, can be read by the others. */
RFG_DEVICE void rfg_barrier(void)
{
    __syncthreads();
}
RFG_DEVICE void rfg_barrier_lds(void)
{
    __syncthreads();
}

/* The next launch of the stream may begin (see struct rfg_context_params, launch_overlap). */
RFG_DEVICE void rfg_start_next(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/* All launches before are done, their results to be seen. What kernels write is neither read nor written before this,
 * and all threads of a kernel come here, or the next launch would not wait for those before this one. */
RFG_DEVICE void rfg_await_previous(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Into L2: the cache line of an address. */
RFG_DEVICE void rfg_prefetch(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

#if RFG_HAS_CLUSTER
/* Which workgroup of its cluster. */
RFG_DEVICE int rfg_cluster_rank(void)
{
    rfg_u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}
/* A barrier of all threads of the cluster, in halves: what was written before the first, in other workgroups' LDS too,
 * is seen after the second. No other workgroup's LDS is written before the first such barrier: it may not run yet. */
RFG_DEVICE void rfg_cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
RFG_DEVICE void rfg_cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* Writes *p of the rank-th workgroup's LDS. */
RFG_DEVICE void rfg_cluster_store(float *p, int rank, float v)
{
    rfg_u32 at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((rfg_u32)__cvta_generic_to_shared(p)), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
}
RFG_DEVICE void rfg_cluster_store16(void *p, int rank, rfg_f32x4 v)
{
    rfg_u32 at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((rfg_u32)__cvta_generic_to_shared(p)), "r"(rank));
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
/* 16 bytes at address `at` (rfg_lds_address()) of the rank-th workgroup's LDS. */
RFG_DEVICE rfg_u32x4 rfg_cluster_load16(rfg_u32 at, int rank)
{
    rfg_u32x4 v;
    rfg_u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(there)
                 : "memory");
    return v;
}

/* The first half of the first such barrier, where nothing but arrivals was written before: without a fence. */
RFG_DEVICE void rfg_cluster_arrive_first(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* Arrivals: 8 aligned bytes of LDS that count, in rounds. One thread prepares them, and a barrier follows. A round ends
 * when `threads` have arrived, and all bytes that it was to expect. */
RFG_DEVICE void rfg_arrival_init(rfg_u64 *arrival, int threads)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"((rfg_u32)__cvta_generic_to_shared(arrival)),
                 "r"(threads)
                 : "memory");
}
RFG_DEVICE void rfg_arrive(rfg_u64 *arrival)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"((rfg_u32)__cvta_generic_to_shared(arrival))
                 : "memory");
}
/* The same once for a wave, which is done with what others wait to write. */
RFG_DEVICE void rfg_arrive_wave(rfg_u64 *arrival)
{
    if (rfg_lane() == 0)
        rfg_arrive(arrival);
}
/* Arrives, and says how many bytes others of the cluster send. */
RFG_DEVICE void rfg_arrive_expect(rfg_u64 *arrival, rfg_u32 bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"((rfg_u32)__cvta_generic_to_shared(arrival)),
        "r"(bytes)
        : "memory");
}
/* This thread arrives when the asynchronous copies that it has issued are there. */
RFG_DEVICE void rfg_arrive_copies(rfg_u64 *arrival)
{
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"((rfg_u32)__cvta_generic_to_shared(arrival))
        : "memory");
}
/* Waits for the end of an even (odd = 0) or odd round. That of the round before it counts as ended. What was written
 * before the arrivals, copied, or sent is seen by this thread. */
RFG_DEVICE void rfg_arrival_wait(rfg_u64 *arrival, int odd)
{
    rfg_u32 at = (rfg_u32)__cvta_generic_to_shared(arrival), done;
    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(odd)
                     : "memory");
    while (!done);
}
/* 16 bytes to *p of the rank-th workgroup's LDS, counted by that one's arrival. The receiver waits for it: a workgroup
 * may not end before what it is sent is there. */
RFG_DEVICE void rfg_cluster_send16(void *p, rfg_u64 *arrival, int rank, rfg_u32x4 v)
{
    rfg_u32 at, count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((rfg_u32)__cvta_generic_to_shared(p)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(count)
        : "r"((rfg_u32)__cvta_generic_to_shared(arrival)), "r"(rank));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(count)
                 : "memory");
}
RFG_DEVICE rfg_u32 rfg_lds_address(const void *p)
{
    return (rfg_u32)__cvta_generic_to_shared(p);
}
/* Bytes of dynamic LDS that the launch gave. */
RFG_DEVICE rfg_u32 rfg_lds_bytes(void)
{
    rfg_u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}
#endif

RFG_DEVICE char *rfg_uniform(char *base)
{
    return base;
}
RFG_DEVICE rfg_u32 rfg_anew(rfg_u32 offset)
{
    return offset;
}
/* Memory operations are not moved across it (by the front end; ptxas schedules as it likes). */
RFG_DEVICE void rfg_keep_order(void)
{
    asm volatile("" ::: "memory");
}

/* volatile keeps loads in the order written, so that several are in flight before the first is used. */
RFG_DEVICE rfg_u32x4 rfg_load16(const void *p)
{
    rfg_u32x4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
/* Read once: keeps out of the way of what is worth caching. */
RFG_DEVICE rfg_u32x4 rfg_load16_stream(const void *p)
{
    rfg_u32x4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
RFG_DEVICE void rfg_store16(void *p, rfg_u32x4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
RFG_DEVICE void rfg_store8(void *p, rfg_u32x2 v)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
RFG_DEVICE rfg_u32 rfg_load4(const void *p)
{
    return *(const rfg_u32 *)p;
}
RFG_DEVICE rfg_u16 rfg_load2(const void *p)
{
    return *(const rfg_u16 *)p;
}
RFG_DEVICE void rfg_store4(void *p, rfg_u32 v)
{
    *(rfg_u32 *)p = v;
}
RFG_DEVICE void rfg_store2(void *p, rfg_u16 v)
{
    *(rfg_u16 *)p = v;
}

RFG_DEVICE rfg_u32x2 rfg_load8(const void *p)
{
    return *(const rfg_u32x2 *)p;
}
RFG_DEVICE rfg_u32 rfg_load1(const void *p)
{
    return *(const unsigned char *)p;
}
RFG_DEVICE void rfg_store1(void *p, rfg_u32 v)
{
    *(unsigned char *)p = (unsigned char)v;
}
/* Read or written once, as rfg_load16_stream(), but of memory that this launch also writes. */
RFG_DEVICE rfg_u32x4 rfg_load16_once(const void *p)
{
    rfg_u32x4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
RFG_DEVICE void rfg_store16_once(void *p, rfg_u32x4 v)
{
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
RFG_DEVICE void rfg_store8_once(void *p, rfg_u32x2 v)
{
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

RFG_DEVICE float rfg_as_float(rfg_u32 u)
{
    return __uint_as_float(u);
}
RFG_DEVICE rfg_u32 rfg_as_u32(float f)
{
    return __float_as_uint(f);
}
RFG_DEVICE float rfg_fma(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
RFG_DEVICE rfg_f32x2 rfg_pair(float x, float y)
{
    return make_float2(x, y);
}
RFG_DEVICE rfg_f32x2 rfg_add2(rfg_f32x2 a, rfg_f32x2 b)
{
    return make_float2(a.x + b.x, a.y + b.y);
}
RFG_DEVICE rfg_f32x2 rfg_mul2(rfg_f32x2 a, rfg_f32x2 b)
{
    return make_float2(a.x * b.x, a.y * b.y);
}
RFG_DEVICE rfg_f32x2 rfg_fma2(rfg_f32x2 a, rfg_f32x2 b, rfg_f32x2 c)
{
    return make_float2(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y));
}
RFG_DEVICE float rfg_f16_to_float(rfg_u16 h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
RFG_DEVICE rfg_u16 rfg_float_to_f16(float f)
{
    rfg_u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

/* Two floats as fp16 or bf16. */
#define RFG_F16_WORDS 0
RFG_DEVICE rfg_u32 rfg_pack_f16(float lo, float hi)
{
    rfg_u32 v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
RFG_DEVICE rfg_u32 rfg_pack_bf16(float lo, float hi)
{
    rfg_u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

/* The larger ones of two words' halves, fp16 or bf16; the other of a NaN. */
#define RFG_MAX_WORDS (__CUDA_ARCH__ >= 800)
RFG_DEVICE rfg_u32 rfg_max_x2(rfg_u32 a, rfg_u32 b, int dtype)
{
    rfg_u32 v = 0;
#if RFG_MAX_WORDS
    if (dtype == 2) /* RFG_F16 */
        asm("max.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    else
        asm("max.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
#endif
    return v;
}

/* Good to an ulp or two; denormal results may be 0. */
RFG_DEVICE float rfg_rcp(float f)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
    return r;
}
/* 1 / f, rounded to nearest, of magnitudes from 2^-125 to 2^125: what rcp.rn.f32 does of these. */
RFG_DEVICE float rfg_reciprocal(float f)
{
    float r = rfg_rcp(f);
    return rfg_fma(r, rfg_fma(-r, f, 1.0f), r);
}
RFG_DEVICE float rfg_rsqrt(float f)
{
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
    return r;
}
RFG_DEVICE float rfg_exp2(float f)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
    return r;
}
/* The larger one; the other of a NaN. */
RFG_DEVICE float rfg_max(float a, float b)
{
    return fmaxf(a, b);
}
RFG_DEVICE float rfg_min(float a, float b)
{
    return fminf(a, b);
}
/* To nearest even, saturating; 0 for a NaN. */
RFG_DEVICE int rfg_float_to_i8(float f)
{
    int i;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(i) : "f"(f));
    return i;
}

#define RFG_CONVERTS_FP8(dtype) (__CUDA_ARCH__ >= 890 && (dtype) == RFG_E4M3)
/* Four codes, to nearest even, of values within the dtype's range or NaN. */
RFG_DEVICE rfg_u32 rfg_hardware_fp8x4(float a, float b, float c, float d)
{
#if __CUDA_ARCH__ >= 890
    rfg_u16 lo, hi;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(d), "f"(c));
    return lo | (rfg_u32)hi << 16;
#else
    return 0;
#endif
}

RFG_DEVICE float rfg_shuffle_xor(float v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

/* What this thread wrote before is seen by whoever sees what it writes (atomically) after. */
RFG_DEVICE void rfg_release_device(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
/* The same for a workgroup: by all threads before a barrier, and by the one that answers for them after it. */
RFG_DEVICE void rfg_release_wave(void)
{
    rfg_release_device();
}
RFG_DEVICE void rfg_release_group(void)
{
}
/* What others released before this thread's last atomic is seen by its loads from here on. */
RFG_DEVICE void rfg_acquire_device(void)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
/* Relaxed, device scope; returns the value before. */
RFG_DEVICE rfg_u32 rfg_atomic_add(rfg_u32 *p, rfg_u32 v)
{
    rfg_u32 old;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
RFG_DEVICE void rfg_atomic_store(rfg_u32 *p, rfg_u32 v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

#if RFG_HAS_ASYNC
/* 16 bytes from global memory to LDS, without registers; zeroes if !valid (p is then not read, but must be a legal
 * address). Copies belong to the group that the next rfg_async_commit() closes. */
RFG_DEVICE void rfg_async_copy16(rfg_u32x4 *lds, const void *p, bool valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((rfg_u32)__cvta_generic_to_shared(lds)),
                 "l"(p), "r"(valid ? 16 : 0)
                 : "memory");
}
/* The same to an address of LDS. once: other things are kept in the caches rather than this. */
RFG_DEVICE void rfg_async_copy16_at(rfg_u32 at, const void *p, bool valid, bool once)
{
    if (once) {
        rfg_u64 policy;
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(at), "l"(p),
                     "r"(valid ? 16 : 0), "l"(policy)
                     : "memory");
    } else {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(p), "r"(valid ? 16 : 0)
                     : "memory");
    }
}
/* 4 bytes, for what is read once more from near by. */
RFG_DEVICE void rfg_async_copy4_at(rfg_u32 at, const void *p, bool valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(p), "r"(valid ? 4 : 0) : "memory");
}
RFG_DEVICE void rfg_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
RFG_DEVICE void rfg_async_wait_all(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}
/* Waits until at most n (a constant) of this thread's newest groups are under way. */
#define rfg_async_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#endif

#endif
