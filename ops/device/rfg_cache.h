/* SPDX-License-Identifier: MIT
 *
 * Caches of codes with a scale for each token and head (rfg/rope.h: int8, int4 and 8-bit floats), as kernels read and
 * write them. Not part of rfg_device.h, whose text all tuned rows' source hashes cover.
 *
 * Macros: KV_DTYPE, or KV_CODES in its place where codes are integers: i8, i4 (which rfg_check.h takes for a mistake).
 * TOKEN_SCALES, if there are such scales. KV_ALIGN, if rows of codes are aligned to less than 16 bytes: 4.
 *
 * A code of i4 is a number from 0 to 15. The last four bits of its head's scale are the code that stands for 0. */
#ifdef KV_CODES
#define KV_DTYPE KV_CODES
#if KV_CODES != RFG_I8 && KV_CODES != RFG_I4
#error "KV_CODES: must be i8 or i4"
#endif
#endif
#ifndef TOKEN_SCALES
#define TOKEN_SCALES 0
#endif
#ifndef KV_ALIGN
#define KV_ALIGN 16
#endif
#define KV_INTS (KV_DTYPE == RFG_I8 || KV_DTYPE == RFG_I4)
#define KV_BITS (KV_DTYPE == RFG_I4 ? 4 : 8 * RFG_DTYPE_BYTES(KV_DTYPE))
#define KV_I4   (KV_DTYPE == RFG_I4)

#if TOKEN_SCALES
/* A scale, and the code that stands for 0, of the word in memory. */
RFG_DEVICE float kv_scale(rfg_u32 word)
{
    return rfg_as_float(KV_I4 ? word & ~15u : word);
}
RFG_DEVICE rfg_u32 kv_zero(rfg_u32 word)
{
    return KV_I4 ? word & 15u : 0u;
}
#endif
