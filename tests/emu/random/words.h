/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of random kernels (random_kernels.py), compiled for GPUs (HIP) and for the host (C). On the host a
 * work-item is an iteration of a loop, each step of a kernel runs for all of them, and HOST_* define the exchange
 * between lanes. */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;

#define NOINLINE __attribute__((noinline))
#define INLINE   inline __attribute__((always_inline))
#define MAYBE    /* the compiler's choice */

#ifdef __AMDGCN__
#define __global__   __attribute__((global))
#define __device__   __attribute__((device))
#define __shared__   __attribute__((shared))
#define __constant__ __attribute__((constant))
#define FUNCTION     static __device__ __attribute__((unused))
#define TABLE        static __device__ const
#define SHARED       __shared__
#define TID          ((u32)__builtin_amdgcn_workitem_id_x())
#define GROUP        ((u32)__builtin_amdgcn_workgroup_id_x())
#define LANE         (TID % WAVE)
#define BARRIER                                                                                                        \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                             \
    __builtin_amdgcn_s_barrier();                                                                                      \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define WAVE           32
#define BALLOT(c)      ((u64)__builtin_amdgcn_ballot_w32(c))
#define XOR16(v)       ((u32)__builtin_amdgcn_permlanex16((int)(v), (int)(v), 0x76543210, 0xfedcba98, false, false))
#define COUNT_LOWER(m) ((u32)__builtin_amdgcn_mbcnt_lo((u32)(m), 0))
#else
#define WAVE           64
#define BALLOT(c)      ((u64)__builtin_amdgcn_ballot_w64(c))
#define XOR16(v)       ((u32)__builtin_amdgcn_ds_bpermute((int)((LANE ^ 16) * 4), (int)(v)))
#define COUNT_LOWER(m) ((u32)__builtin_amdgcn_mbcnt_hi((u32)((m) >> 32), __builtin_amdgcn_mbcnt_lo((u32)(m), 0)))
#endif
#define FIRST(v)              ((u32)__builtin_amdgcn_readfirstlane((int)(v)))
#define READ_LANE(v, k)       ((u32)__builtin_amdgcn_readlane((int)(v), k))
#define SHUFFLE(v, l)         ((u32)__builtin_amdgcn_ds_bpermute((int)((l) % WAVE * 4), (int)(v)))
#define SWIZZLE(v, x)         ((u32)__builtin_amdgcn_ds_swizzle((int)(v), (x) << 10 | 31))
#define DPP(old, v, c, bound) ((u32)__builtin_amdgcn_update_dpp((int)(old), (int)(v), c, 0xf, 0xf, bound))
#define SPACE                 __HIP_MEMORY_SCOPE_WORKGROUP
#define AGENT                 __HIP_MEMORY_SCOPE_AGENT
#define ATOMIC(op, p, v, s)   __hip_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, s)
#define EXCHANGE(p, v)        __hip_atomic_exchange(p, v, __ATOMIC_RELAXED, SPACE)
#define REPLACE(p, old, v)    __hip_atomic_compare_exchange_strong(p, old, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SPACE)
#define REVERSE(v)            __builtin_bitreverse32(v)
#define UBFE(v, o, n)         ((u32)__builtin_amdgcn_ubfe(v, (u32)(o) % 32, n))
#define SBFE(v, o, n)         ((i32)__builtin_amdgcn_sbfe((int)(v), (u32)(o) % 32, n))
#define ALIGNBYTE(a, b, n)    ((u32)__builtin_amdgcn_alignbyte(a, b, (u32)(n) % 4))
#define SAD(a, b, c)          ((u32)__builtin_amdgcn_sad_u8(a, b, c))
/* LLVM makes v_fma_mixlo of a product or an fma that becomes an f16, which loses -0, and rounds once: not of this. */
#define APART(x)                                                                                                       \
    ({                                                                                                                 \
        __typeof__((x) + 0) apart_ = (x);                                                                              \
        __asm__("" : "+v"(apart_));                                                                                    \
        apart_;                                                                                                        \
    })
#else
#include <stdbool.h>
#define FUNCTION       static __attribute__((unused))
#define TABLE          static const
#define SHARED         static
#define APART(x)       (x)
#define TID            host_tid
#define GROUP          host_group
#define SPACE          0
#define AGENT          0
static u32 host_tid, host_group, WAVE;
#define HOST_MAX(p, v) (*(p) = *(p) < (v) ? (v) : *(p))
#define HOST_MIN(p, v) (*(p) = *(p) > (v) ? (v) : *(p))
#define ATOMIC(op, p, v, s)                                                                                            \
    ({                                                                                                                 \
        __auto_type old_ = *(p);                                                                                       \
        HOST_##op(p, (__typeof__(old_))(v));                                                                           \
        old_;                                                                                                          \
    })
#define HOST_add(p, v) (*(p) += (v))
#define HOST_sub(p, v) (*(p) -= (v))
#define HOST_and(p, v) (*(p) &= (v))
#define HOST_or(p, v)  (*(p) |= (v))
#define HOST_xor(p, v) (*(p) ^= (v))
#define HOST_max       HOST_MAX
#define HOST_min       HOST_MIN
#define EXCHANGE(p, v)                                                                                                 \
    ({                                                                                                                 \
        __auto_type old_ = *(p);                                                                                       \
        *(p) = (v);                                                                                                    \
        old_;                                                                                                          \
    })
#define REPLACE(p, old, v) (*(p) == *(old) ? (*(p) = (v), true) : (*(old) = *(p), false))
static inline u32 REVERSE(u32 v)
{
    u32 r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}
#define UBFE(v, o, n)      ((u32)((u32)(v) >> (u32)(o) % 32 & ((1u << (n)) - 1)))
static inline i32 SBFE(u32 v, u32 o, u32 n)
{
    u32 field = v >> o % 32;
    if (o % 32 + n < 32) /* else all that is above the offset, with its sign */
        return (i32)(field << (32 - n)) >> (32 - n);
    return (i32)v >> o % 32;
}
#define ALIGNBYTE(a, b, n) ((u32)(((u64)(u32)(a) << 32 | (u32)(b)) >> (u32)(n) % 4 * 8))
static inline u32 SAD(u32 a, u32 b, u32 c)
{
    for (int i = 0; i < 32; i += 8) {
        u32 x = a >> i & 255, y = b >> i & 255;
        c += x > y ? x - y : y - x;
    }
    return c;
}
/* Of what each work-item gives as a and b, what lane t gets. All work-items of a wave take part. */
static inline u64 host_ballot(const u64 *a, const u64 *b, u32 t, u32 size)
{
    u64 mask = 0;
    u32 base = t - t % WAVE;
    for (u32 l = 0; l < WAVE && base + l < size; l++)
        if (a[base + l] && b[base + l])
            mask |= (u64)1 << l;
    return mask;
}
static inline u64 host_first(const u64 *a, const u64 *b, u32 t, u32 size)
{
    u32 l = t - t % WAVE;
    while (l < size && !b[l])
        l++;
    return (u32)a[l];
}
static inline u32 host_lane(const u64 *a, u32 t, u32 lane)
{
    return (u32)a[t - t % WAVE + lane % WAVE];
}
static inline u32 host_dpp(const u64 *old, const u64 *a, u32 t, u32 control, bool bound)
{
    u32 l = t % 16, n = control & 15, from = l;
    if (control < 0x100)
        from = (l & ~3u) | (control >> l % 4 * 2 & 3);
    else if (control < 0x110) /* row_shl */
        from = l + n;
    else if (control < 0x120) /* row_shr */
        from = l - n;
    else if (control < 0x130) /* row_ror */
        from = (l - n) % 16;
    else
        from = control == 0x140 ? 15 - l : (l & 8) | (7 - (l & 7));
    return from < 16 ? (u32)a[t - l + from] : bound ? 0 : (u32)old[t];
}
#endif

/* ---- bits and floats: every NaN is the same ---------------------------------------------------------------------- */

#define BITS(f, u, nan, infinity)                                                                                      \
    FUNCTION u bits_##f(f x)                                                                                           \
    {                                                                                                                  \
        u b;                                                                                                           \
        __builtin_memcpy(&b, &x, sizeof(b));                                                                           \
        return (u)(b << 1) > (u)((u)(infinity) << 1) ? (u)(nan) : b;                                                   \
    }                                                                                                                  \
    FUNCTION f of_##f(u b)                                                                                             \
    {                                                                                                                  \
        f x;                                                                                                           \
        b = (u)(b << 1) > (u)((u)(infinity) << 1) ? (u)(nan) : b;                                                      \
        __builtin_memcpy(&x, &b, sizeof(b));                                                                           \
        return x;                                                                                                      \
    }
BITS(f16, u16, 0x7e00, 0x7c00)
BITS(f32, u32, 0x7fc00000u, 0x7f800000u)
BITS(f64, u64, 0x7ff8000000000000ull, 0x7ff0000000000000ull)

/* Conversions that C leaves open: 0 for what is out of range. */
#define TO_INT(t, f, lo, hi)                                                                                           \
    FUNCTION t f##_to_##t(f x)                                                                                         \
    {                                                                                                                  \
        return x > (f)(lo) && x < (f)(hi) ? (t)x : (t)0;                                                               \
    }
#define TO_INTS(f)                                                                                                     \
    TO_INT(i8, f, -129, 128)                                                                                           \
    TO_INT(u8, f, -1, 256)                                                                                             \
    TO_INT(i16, f, -32768, 32767)                                                                                      \
    TO_INT(u16, f, -1, 65000)                                                                                          \
    TO_INT(i32, f, -0x1p31, 0x1p31)                                                                                    \
    TO_INT(u32, f, -1, 0x1p32)                                                                                         \
    TO_INT(i64, f, -0x1p63, 0x1p63)                                                                                    \
    TO_INT(u64, f, -1, 0x1p64)
TO_INTS(f32)
TO_INTS(f64)

/* x / 0 = x, and the one quotient that overflows. */
#define DIVIDE(t, overflows)                                                                                           \
    FUNCTION t div_##t(t a, t b)                                                                                       \
    {                                                                                                                  \
        return b == 0 || (overflows) ? a : (t)(a / b);                                                                 \
    }                                                                                                                  \
    FUNCTION t mod_##t(t a, t b)                                                                                       \
    {                                                                                                                  \
        return b == 0 || (overflows) ? (t)0 : (t)(a % b);                                                              \
    }
DIVIDE(i8, 0)
DIVIDE(u8, 0)
DIVIDE(i16, 0)
DIVIDE(u16, 0)
DIVIDE(i32, b == -1)
DIVIDE(u32, 0)
DIVIDE(i64, b == -1)
DIVIDE(u64, 0)

/* zero: added, so that floats' are + 0 from whichever side: LLVM 22 takes v_max for them. */
#define PICKS(t, zero)                                                                                                 \
    FUNCTION INLINE t max_##t(t a, t b)                                                                                \
    {                                                                                                                  \
        return (t)((a < b ? b : a) zero);                                                                              \
    }                                                                                                                  \
    FUNCTION INLINE t min_##t(t a, t b)                                                                                \
    {                                                                                                                  \
        return (t)((b < a ? b : a) zero);                                                                              \
    }
PICKS(i8, )
PICKS(u8, )
PICKS(i16, )
PICKS(u16, )
PICKS(i32, )
PICKS(u32, )
PICKS(i64, )
PICKS(u64, )
PICKS(f16, +0)
PICKS(f32, +0)
PICKS(f64, +0)
