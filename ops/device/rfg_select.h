/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h: choosing among floats by integers in their order. */

/* A number in the order of the floats, never 0; -0 and +0 have one. f is no NaN. */
RFG_DEVICE rfg_u32 rfg_order_of(float f)
{
    rfg_u32 u = rfg_as_u32(f + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

RFG_DEVICE rfg_u32 rfg_larger_u32(rfg_u32 a, rfg_u32 b)
{
    return a > b ? a : b;
}

/* The largest of the wave's, in all lanes. All lanes must be on. */
RFG_DEVICE rfg_u32 rfg_wave_max_u32(rfg_u32 v)
{
#if RFG_NVIDIA && __CUDA_ARCH__ >= 800
    rfg_u32 most;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(v));
    return most;
#elif RFG_AMD /* as rfg_reduce_lanes() */
#define RFG_OF(f) rfg_as_u32(f)
    float f = rfg_as_float(v);
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_ROW_ROTATE(f, 8))));
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_ROW_ROTATE(f, 4))));
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_ROW_ROTATE(f, 2))));
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_ROW_ROTATE(f, 1))));
#if RFG_WAVE == 64
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_ROW_BEFORE(f))));
    f = rfg_as_float(rfg_larger_u32(RFG_OF(f), RFG_OF(RFG_HALF_BEFORE(f))));
    return RFG_OF(rfg_of_lane(f, 63));
#else
    return rfg_larger_u32(RFG_OF(rfg_of_lane(f, 0)), RFG_OF(rfg_of_lane(f, 16)));
#endif
#undef RFG_OF
#else
    for (int mask = RFG_WAVE / 2; mask > 0; mask /= 2)
        v = rfg_larger_u32(v, rfg_as_u32(rfg_shuffle_xor(rfg_as_float(v), mask)));
    return v;
#endif
}

/* Of the lane `by` (a constant) below; in those that have none, anything. */
RFG_DEVICE rfg_u64 rfg_shuffle_up_u64(rfg_u64 v, int by)
{
#if RFG_AMD
    int from = (rfg_lane() - by) * 4;
    rfg_u32 low = (rfg_u32)__builtin_amdgcn_ds_bpermute(from, (int)(rfg_u32)v);
    rfg_u32 high = (rfg_u32)__builtin_amdgcn_ds_bpermute(from, (int)(rfg_u32)(v >> 32));
    return (rfg_u64)high << 32 | low;
#else
    return __shfl_up_sync(0xffffffffu, v, by);
#endif
}

/* The sum of v in this lane and those below it. */
RFG_DEVICE rfg_u64 rfg_wave_sum_upto(rfg_u64 v)
{
#pragma unroll
    for (int by = 1; by < RFG_WAVE; by *= 2) {
        rfg_u64 other = rfg_shuffle_up_u64(v, by);
        v += rfg_lane() >= by ? other : 0;
    }
    return v;
}

RFG_DEVICE rfg_u32 rfg_wave_sum_upto_u32(rfg_u32 v)
{
#if RFG_AMD
    return (rfg_u32)rfg_wave_sum_upto(v);
#else
#pragma unroll
    for (int by = 1; by < RFG_WAVE; by *= 2) {
        rfg_u32 other = __shfl_up_sync(0xffffffffu, v, by);
        v += rfg_lane() >= by ? other : 0u;
    }
    return v;
#endif
}

/* The sum of v over the threads before this one, of a workgroup of `waves` waves (a constant); *all: over all. totals:
 * a word of LDS for each wave. All threads come here. */
RFG_DEVICE rfg_u64 rfg_group_sum_before(rfg_u64 v, rfg_u64 *totals, int waves, rfg_u64 *all)
{
    rfg_u64 sum = rfg_wave_sum_upto(v), before = 0, every = 0;
    rfg_barrier_lds(); /* the last call's totals are read */
    if (rfg_lane() == RFG_WAVE - 1)
        totals[rfg_wave()] = sum;
    rfg_barrier_lds();
    for (int w = 0; w < waves; w++) {
        before += w < rfg_wave() ? totals[w] : 0;
        every += totals[w];
    }
    *all = every;
    return before + sum - v;
}

/* Adds to a word of LDS; returns what it was. */
RFG_DEVICE rfg_u32 rfg_lds_add(rfg_u32 *p, rfg_u32 v)
{
#if RFG_AMD
    return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
    return atomicAdd(p, v);
#endif
}

/* A product that no sum after it is fused with. */
RFG_DEVICE float rfg_mul_rounded(float a, float b)
{
#if RFG_AMD
    float p = a * b;
    asm volatile("" : "+v"(p));
    return p;
#else
    return __fmul_rn(a, b);
#endif
}
