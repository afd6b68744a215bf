/* SPDX-License-Identifier: MIT
 *
 * For kernels that read formats whose blocks hold their scales (GGUF's): their numbers (enum rfg_dtype's), dot products
 * of bytes, and reads of what isn't aligned. Include it after rfg_device.h. */
#ifndef RFG_BLOCKS_H
#define RFG_BLOCKS_H

#define RFG_Q4_0   13
#define RFG_Q4_1   14
#define RFG_Q5_0   15
#define RFG_Q5_1   16
#define RFG_Q8_0   17
#define RFG_Q2_K   18
#define RFG_Q3_K   19
#define RFG_Q4_K   20
#define RFG_Q5_K   21
#define RFG_Q6_K   22
#define RFG_IQ4_NL 23
#define RFG_IQ4_XS 24
#define RFG_MXFP4  25
#define RFG_NVFP4  26

#define RFG_IS_BLOCKS(d) ((d) >= RFG_Q4_0 && (d) <= RFG_NVFP4)

/* c and the products of four signed bytes. */
#if RFG_NVIDIA
RFG_DEVICE int rfg_dot4(rfg_u32 a, rfg_u32 b, int c)
{
    return __dp4a((int)a, (int)b, c);
}
#elif defined(__gfx11__) || defined(__GFX11__) || defined(__GFX12__)
RFG_DEVICE int rfg_dot4(rfg_u32 a, rfg_u32 b, int c)
{
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
}
#elif RFG_MFMA || defined(__gfx906__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) ||       \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) ||                    \
    defined(__gfx1035__) || defined(__gfx1036__)
RFG_DEVICE int rfg_dot4(rfg_u32 a, rfg_u32 b, int c)
{
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
}
#else
RFG_DEVICE int rfg_dot4(rfg_u32 a, rfg_u32 b, int c)
{
#pragma unroll
    for (int i = 0; i < 32; i += 8)
        c += ((int)(a << (24 - i)) >> 24) * ((int)(b << (24 - i)) >> 24);
    return c;
}
#endif

/* Bytes of a table of 16, by the codes in the low and in the high four bits of q's bytes. */
#if RFG_NVIDIA
RFG_DEVICE rfg_u32 rfg_byte_table_4(rfg_u32 codes, const rfg_u32 *table)
{
    rfg_u32 at = codes & 0x7777u; /* a selector has four bits of a byte of two words */
    return __byte_perm(__byte_perm(table[0], table[1], at), __byte_perm(table[2], table[3], at),
                       0x3210u | (codes & 0x8888u) >> 1);
}
RFG_DEVICE void rfg_byte_table(rfg_u32 q, const rfg_u32 *table, rfg_u32 *low, rfg_u32 *high)
{
    rfg_u32 first = rfg_byte_table_4(q, table), second = rfg_byte_table_4(q >> 16, table);
    *low = __byte_perm(first, second, 0x6420);
    *high = __byte_perm(first, second, 0x7531);
}
#else
RFG_DEVICE rfg_u32 rfg_byte_table_4(rfg_u32 codes, const rfg_u32 *table)
{
    rfg_u32 at = codes & 0x07070707u, upper = (codes >> 3 & 0x01010101u) * 255u;
    rfg_u32 a = __builtin_amdgcn_perm(table[1], table[0], at), b = __builtin_amdgcn_perm(table[3], table[2], at);
    return (a & ~upper) | (b & upper);
}
RFG_DEVICE void rfg_byte_table(rfg_u32 q, const rfg_u32 *table, rfg_u32 *low, rfg_u32 *high)
{
    *low = rfg_byte_table_4(q & 0x0f0f0f0fu, table);
    *high = rfg_byte_table_4(q >> 4 & 0x0f0f0f0fu, table);
}
#endif

/* The lowest bytes of four words. */
RFG_DEVICE rfg_u32 rfg_low_bytes(rfg_u32 a, rfg_u32 b, rfg_u32 c, rfg_u32 d)
{
#if RFG_NVIDIA
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
    return __builtin_amdgcn_perm(b, a, 0x0c0c0400u) | __builtin_amdgcn_perm(d, c, 0x04000c0cu);
#endif
}

/* Of each half word the greater. */
RFG_DEVICE rfg_u32 rfg_max_u16x2(rfg_u32 a, rfg_u32 b)
{
#if RFG_NVIDIA
    return __vmaxu2(a, b);
#else
    typedef rfg_u16 u16x2 __attribute__((ext_vector_type(2)));
    u16x2 x = __builtin_bit_cast(u16x2, a), y = __builtin_bit_cast(u16x2, b);
    return __builtin_bit_cast(rfg_u32, __builtin_elementwise_max(x, y));
#endif
}

#if RFG_NVIDIA
/* The four bytes from byte `at` (0 to 3) of two words on. */
RFG_DEVICE rfg_u32 rfg_from_byte(rfg_u32 low, rfg_u32 high, rfg_u32 at)
{
    return __funnelshift_r(low, high, at * 8);
}
RFG_DEVICE void rfg_wave_sync(void)
{
    __syncwarp();
}
#if RFG_HAS_WGMMA
/* Copies that the wave's lanes then ask for find the arrivals that its lanes prepared. */
RFG_DEVICE void rfg_arrivals_ready(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
}
#endif
#else
typedef rfg_u32x4 rfg_u32x4_anywhere __attribute__((aligned(1)));
typedef rfg_u32 rfg_u32_anywhere __attribute__((aligned(1)));
/* From global memory, at any address: hardware takes it. Read once. */
RFG_DEVICE rfg_u32x4 rfg_load16_anywhere(const void *p)
{
    return *(const RFG_GLOBAL rfg_u32x4_anywhere *)p;
}
RFG_DEVICE rfg_u32 rfg_load4_anywhere(const void *p)
{
    return *(const RFG_GLOBAL rfg_u32_anywhere *)p;
}
#endif

/* n words from an address aligned to `align` bytes: of LDS on NVIDIA, of global memory on AMD, where loads need no
 * alignment. */
RFG_DEVICE void rfg_read_words(rfg_u32 *to, const char *p, int n, int align)
{
#if RFG_NVIDIA
    if (align >= 16) {
#pragma unroll
        for (int i = 0; i < n / 4; i++) {
            rfg_u32x4 v = ((const rfg_u32x4 *)p)[i];
            to[i * 4] = v.x;
            to[i * 4 + 1] = v.y;
            to[i * 4 + 2] = v.z;
            to[i * 4 + 3] = v.w;
        }
    } else if (align >= 4) {
#pragma unroll
        for (int i = 0; i < n; i++)
            to[i] = ((const rfg_u32 *)p)[i];
    } else { /* the words around them */
        rfg_u32 off = (rfg_u32)((rfg_u64)p & 3);
        const rfg_u32 *from = (const rfg_u32 *)(p - off);
        rfg_u32 low = from[0];
#pragma unroll
        for (int i = 0; i < n; i++) {
            rfg_u32 high = from[i + 1];
            to[i] = rfg_from_byte(low, high, off);
            low = high;
        }
    }
#else
    (void)align;
#pragma unroll
    for (int i = 0; i < n / 4; i++) {
        rfg_u32x4 v = rfg_load16_anywhere(p + i * 16);
        to[i * 4] = v.x;
        to[i * 4 + 1] = v.y;
        to[i * 4 + 2] = v.z;
        to[i * 4 + 3] = v.w;
    }
#pragma unroll
    for (int i = n / 4 * 4; i < n; i++)
        to[i] = rfg_load4_anywhere(p + i * 4);
#endif
}
RFG_DEVICE rfg_u32 rfg_read_byte(const char *p)
{
#if RFG_NVIDIA
    return *(const unsigned char *)p;
#else
    return rfg_load1(p);
#endif
}
RFG_DEVICE rfg_u32 rfg_read_half(const char *p)
{
#if RFG_NVIDIA
    return *(const rfg_u16 *)p;
#else
    return rfg_load2(p);
#endif
}

#endif
