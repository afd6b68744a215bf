/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h, rfg_select.h and rfg_ballot.h: a wave's largest keys, one after the
 * other. All lanes of the wave must be on. */

/* v of lane `lane`, which is the same in all lanes. */
RFG_DEVICE rfg_u32 rfg_of_any_lane(rfg_u32 v, int lane)
{
#if RFG_NVIDIA
    return __shfl_sync(0xffffffffu, v, lane);
#else
    return (rfg_u32)__builtin_amdgcn_readlane((int)v, lane);
#endif
}

struct rfg_pick {
    rfg_u32 key, id; /* in all lanes */
};

/* The largest key, and its lane's id; of equal ones the lowest lane's. */
RFG_DEVICE struct rfg_pick rfg_pick(rfg_u32 key, rfg_u32 id)
{
    struct rfg_pick p;
    p.key = rfg_wave_max_u32(key);
    p.id = rfg_of_any_lane(id, rfg_first_lane(rfg_ballot(key == p.key)));
    return p;
}

/* The float that rfg_order_of() made a key of; of 0 and its like, which is none, a NaN. */
RFG_DEVICE float rfg_float_of(rfg_u32 order)
{
    return rfg_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}
