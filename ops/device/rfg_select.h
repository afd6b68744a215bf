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
