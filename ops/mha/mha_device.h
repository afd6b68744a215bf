/* SPDX-License-Identifier: MIT
 *
 * What attention's kernels share. */
#define LOG2_E 1.44269504f
#define LN_2   0.69314718f

RFG_DEVICE bool any_lane(bool b)
{
#if RFG_NVIDIA
    return __any_sync(0xffffffffu, b);
#elif RFG_WAVE == 32 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w32)
    return __builtin_amdgcn_ballot_w32(b) != 0;
#elif RFG_WAVE == 64 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_ballot_w64(b) != 0;
#else /* LLVM 15 */
    return __builtin_amdgcn_uicmp((rfg_u32)b, 0u, 33) != 0; /* ICMP_NE */
#endif
}

/* A length or a place that the tensors hold, whatever the caller's says. */
RFG_DEVICE int within(int n, int least, int most)
{
    n = n < most ? n : most;
    return n > least ? n : least;
}

RFG_DEVICE float log2_of(float f)
{
#if RFG_NVIDIA
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
    return r;
#elif defined(__has_builtin) && __has_builtin(__builtin_amdgcn_logf)
    return __builtin_amdgcn_logf(f);
#else
    return __builtin_log2f(f);
#endif
}

/* The arguments, read anew: AMD's scalar registers don't hold all of them from the kernel's start to its end. */
RFG_DEVICE struct mha_args args_anew(const struct mha_args *a)
{
#if RFG_AMD
    struct mha_args copy;
    rfg_u64 at = (rfg_u64)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(at));
    __builtin_memcpy(&copy, (const void *)(const __attribute__((address_space(4))) char *)at, sizeof(copy));
    return copy;
#else
    return *a;
#endif
}
