/* SPDX-License-Identifier: MIT
 *
 * Memory that several devices read and write while their kernels run. Not part of rfg_device.h, whose text all tuned
 * rows' source hashes cover.
 *
 * Stores of 16 bytes here are two whole words of 8 bytes: who sees one half of a word sees the other. Nothing orders
 * the words, unless rfg_peer_release() and rfg_peer_acquire() do. */
#if RFG_AMD

/* Stores at system scope: they don't stay in this device's L2. */
RFG_DEVICE void rfg_peer_store(void *p, rfg_u32x4 v)
{
    RFG_GLOBAL rfg_u64 *to = (RFG_GLOBAL rfg_u64 *)p;
    __hip_atomic_store(to, (rfg_u64)v.y << 32 | v.x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(to + 1, (rfg_u64)v.w << 32 | v.z, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
/* Data that a flag says is there. */
RFG_DEVICE void rfg_peer_store_data(void *p, rfg_u32x4 v)
{
    rfg_peer_store(p, v);
}
/* Past the caches. */
RFG_DEVICE rfg_u32x4 rfg_peer_load(const void *p)
{
    const RFG_GLOBAL rfg_u64 *from = (const RFG_GLOBAL rfg_u64 *)p;
    rfg_u64 a = __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    rfg_u64 b = __hip_atomic_load(from + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    rfg_u32x4 v = { (rfg_u32)a, (rfg_u32)(a >> 32), (rfg_u32)b, (rfg_u32)(b >> 32) };
    return v;
}
/* What the workgroup wrote before the barrier before it, each wave after rfg_peer_settle(), is seen by whoever sees
 * what this thread stores by rfg_peer_signal() after. */
RFG_DEVICE void rfg_peer_settle(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
}
RFG_DEVICE void rfg_peer_release(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
}
/* What others released before the last rfg_peer_look() of this thread; or, by all threads after a barrier, of any. */
RFG_DEVICE void rfg_peer_acquire(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
RFG_DEVICE void rfg_peer_acquire_group(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
RFG_DEVICE void rfg_peer_signal(rfg_u32 *p, rfg_u32 v)
{
    __hip_atomic_store((RFG_GLOBAL rfg_u32 *)p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
RFG_DEVICE rfg_u32 rfg_peer_look(const rfg_u32 *p)
{
    return __hip_atomic_load((const RFG_GLOBAL rfg_u32 *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
/* Of this device's alone. */
RFG_DEVICE void rfg_peer_add(rfg_u64 *p, rfg_u64 v)
{
    (void)__hip_atomic_fetch_add((RFG_GLOBAL rfg_u64 *)p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
/* The device's clock, of 100 MHz. */
RFG_DEVICE rfg_u64 rfg_peer_clock(void)
{
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_s_sendmsg_rtnl(0x83);
#else
    return __builtin_amdgcn_s_memrealtime();
#endif
}
RFG_DEVICE void rfg_peer_pause(void)
{
    __builtin_amdgcn_s_sleep(1);
}

#else

RFG_DEVICE void rfg_peer_store(void *p, rfg_u32x4 v)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
RFG_DEVICE void rfg_peer_store_data(void *p, rfg_u32x4 v)
{
    rfg_store16(p, v);
}
RFG_DEVICE rfg_u32x4 rfg_peer_load(const void *p)
{
    rfg_u32x4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
RFG_DEVICE void rfg_peer_settle(void)
{
}
RFG_DEVICE void rfg_peer_release(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}
RFG_DEVICE void rfg_peer_acquire(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}
RFG_DEVICE void rfg_peer_acquire_group(void)
{
}
RFG_DEVICE void rfg_peer_signal(rfg_u32 *p, rfg_u32 v)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
RFG_DEVICE rfg_u32 rfg_peer_look(const rfg_u32 *p)
{
    rfg_u32 v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
RFG_DEVICE void rfg_peer_add(rfg_u64 *p, rfg_u64 v)
{
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
RFG_DEVICE rfg_u64 rfg_peer_clock(void)
{
    rfg_u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
RFG_DEVICE void rfg_peer_pause(void)
{
}

#endif
