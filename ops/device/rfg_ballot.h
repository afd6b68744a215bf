/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h: sets of a wave's lanes, as bits. All lanes of the wave must be on. */

#if RFG_WAVE == 64
typedef rfg_u64 rfg_lanes;
#else
typedef rfg_u32 rfg_lanes;
#endif

/* The lanes where b is true, in all of them. */
RFG_DEVICE rfg_lanes rfg_ballot(bool b)
{
#if RFG_NVIDIA
    return __ballot_sync(0xffffffffu, b);
#elif RFG_WAVE == 32 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w32)
    return __builtin_amdgcn_ballot_w32(b);
#elif RFG_WAVE == 64 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_ballot_w64(b);
#else /* LLVM 15 */
    return (rfg_lanes)__builtin_amdgcn_uicmp((rfg_u32)b, 0u, 33); /* ICMP_NE */
#endif
}

RFG_DEVICE rfg_u32 rfg_count_lanes(rfg_lanes set)
{
#if RFG_NVIDIA
    return (rfg_u32)__popc(set);
#else
    return (rfg_u32)__builtin_popcountll(set);
#endif
}

/* How many of the set are below this lane. */
RFG_DEVICE rfg_u32 rfg_lanes_below(rfg_lanes set)
{
#if RFG_NVIDIA
    return (rfg_u32)__popc(set & ((1u << rfg_lane()) - 1u));
#elif RFG_WAVE == 32
    return __builtin_amdgcn_mbcnt_lo(set, 0u);
#else
    return __builtin_amdgcn_mbcnt_hi((rfg_u32)(set >> 32), __builtin_amdgcn_mbcnt_lo((rfg_u32)set, 0u));
#endif
}

/* The lowest of a set that isn't empty. */
RFG_DEVICE int rfg_first_lane(rfg_lanes set)
{
#if RFG_NVIDIA
    return __ffs((int)set) - 1;
#else
    return __builtin_ctzll(set);
#endif
}

/* The lanes whose v, below 2^bits, is this one's. */
RFG_DEVICE rfg_lanes rfg_alike(rfg_u32 v, int bits)
{
    rfg_lanes set = ~(rfg_lanes)0;
    for (int b = 0; b < bits; b++) {
        bool one = (v >> b & 1u) != 0;
        rfg_lanes ones = rfg_ballot(one);
        set &= one ? ones : ~ones;
    }
    return set;
}

/* v of a lane that each chooses. */
RFG_DEVICE rfg_u32 rfg_shuffle_u32(rfg_u32 v, int lane)
{
#if RFG_NVIDIA
    return __shfl_sync(0xffffffffu, v, lane);
#else
    return (rfg_u32)__builtin_amdgcn_ds_bpermute(lane * 4, (int)v);
#endif
}
