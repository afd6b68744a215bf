/* SPDX-License-Identifier: MIT
 *
 * Number formats as raw bits. A dtype is one of these constants (enum rfg_dtype's values), always known at compile
 * time, so that every test of it folds away; rfg_check.h refuses those that a function doesn't know. */
#define RFG_F32      1
#define RFG_F16      2
#define RFG_BF16     3
#define RFG_E4M3     4
#define RFG_E4M3FNUZ 5
#define RFG_E5M2     6
#define RFG_I8       7
#define RFG_I32      8
#define RFG_I4       9
#define RFG_E2M1     10
#define RFG_E8M0     11
#define RFG_I64      12

#define RFG_IS_FLOAT(d) ((d) == RFG_F32 || (d) == RFG_F16 || (d) == RFG_BF16)
#define RFG_IS_HALF(d)  ((d) == RFG_F16 || (d) == RFG_BF16)
#define RFG_IS_CODE(d)  ((d) == RFG_E4M3 || (d) == RFG_E4M3FNUZ || (d) == RFG_E5M2 || (d) == RFG_I8)

#define RFG_IS_4_BITS(d) ((d) == RFG_I4 || (d) == RFG_E2M1)

/* 0 for others. */
#define RFG_DTYPE_BYTES(dtype) ((dtype) == RFG_F32 ? 4 : RFG_IS_HALF(dtype) ? 2 : RFG_IS_CODE(dtype) ? 1 : 0)
/* Elements in 16 bytes; at most. */
#define RFG_DTYPE_VEC(dtype) (16 / RFG_DTYPE_BYTES(dtype))
#define RFG_MAX_VEC          8

RFG_DEVICE float rfg_bf16_to_float(rfg_u16 h)
{
    return rfg_as_float((rfg_u32)h << 16);
}

/* To nearest, ties to even; a NaN stays one. */
RFG_DEVICE rfg_u16 rfg_float_to_bf16(float f)
{
#if defined(__gfx950__) /* its instruction quiets a NaN and keeps the upper half */
    return (rfg_u16)rfg_pack_bf16(f, f);
#else
    rfg_u32 u = rfg_as_u32(f);
    rfg_u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (rfg_u16)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
#endif
}

RFG_DEVICE float rfg_load_float(const void *base, long long i, int dtype)
{
    if (dtype == RFG_F32)
        return rfg_as_float(rfg_load4((const float *)base + i));
    rfg_u16 h = rfg_load2((const rfg_u16 *)base + i);
    return dtype == RFG_F16 ? rfg_f16_to_float(h) : rfg_bf16_to_float(h);
}

RFG_DEVICE rfg_u16 rfg_float_to_16(float f, int dtype)
{
    return dtype == RFG_F16 ? rfg_float_to_f16(f) : rfg_float_to_bf16(f);
}

/* Two of them as a word. */
RFG_DEVICE rfg_u32 rfg_floats_to_16(float lo, float hi, int dtype)
{
#if defined(__gfx950__)
    if (dtype == RFG_BF16)
        return rfg_pack_bf16(lo, hi);
#endif
    return rfg_float_to_16(lo, dtype) | (rfg_u32)rfg_float_to_16(hi, dtype) << 16;
}

RFG_DEVICE void rfg_store_float(void *base, long long i, float f, int dtype)
{
    if (dtype == RFG_F32)
        rfg_store4((float *)base + i, rfg_as_u32(f));
    else
        rfg_store2((rfg_u16 *)base + i, rfg_float_to_16(f, dtype));
}

/* Four neighbours; base + i is aligned to four elements. */
RFG_DEVICE void rfg_store_float4(void *base, long long i, rfg_f32x4 f, int dtype)
{
    if (dtype == RFG_F32) {
        rfg_u32x4 v;
        v.x = rfg_as_u32(f.x);
        v.y = rfg_as_u32(f.y);
        v.z = rfg_as_u32(f.z);
        v.w = rfg_as_u32(f.w);
        rfg_store16((float *)base + i, v);
    } else {
        rfg_u32x2 v;
        v.x = rfg_floats_to_16(f.x, f.y, dtype);
        v.y = rfg_floats_to_16(f.z, f.w, dtype);
        rfg_store8((rfg_u16 *)base + i, v);
    }
}

RFG_DEVICE rfg_f32x4 rfg_load_f32x4(const float *p)
{
    rfg_u32x4 u = rfg_load16(p);
    rfg_f32x4 f;
    f.x = rfg_as_float(u.x);
    f.y = rfg_as_float(u.y);
    f.z = rfg_as_float(u.z);
    f.w = rfg_as_float(u.w);
    return f;
}
RFG_DEVICE void rfg_store_f32x4(float *p, rfg_f32x4 f)
{
    rfg_store_float4(p, 0, f, RFG_F32);
}
RFG_DEVICE rfg_f32x4 rfg_add_f32x4(rfg_f32x4 a, rfg_f32x4 b)
{
    a.x += b.x;
    a.y += b.y;
    a.z += b.z;
    a.w += b.w;
    return a;
}

/* The two elements of a word. */
RFG_DEVICE float rfg_low(rfg_u32 u, int dtype)
{
    return dtype == RFG_F16 ? rfg_f16_to_float((rfg_u16)u) : rfg_as_float(u << 16);
}
RFG_DEVICE float rfg_high(rfg_u32 u, int dtype)
{
    return dtype == RFG_F16 ? rfg_f16_to_float((rfg_u16)(u >> 16)) : rfg_as_float(u & 0xffff0000u);
}

#if !RFG_F16_WORDS /* as in rfg_amd.h */
RFG_DEVICE rfg_u32 rfg_add_f16x2(rfg_u32 a, rfg_u32 b)
{
    return rfg_pack_f16(rfg_low(a, RFG_F16) + rfg_low(b, RFG_F16), rfg_high(a, RFG_F16) + rfg_high(b, RFG_F16));
}
RFG_DEVICE float rfg_dot_f16x2(rfg_u32 a, rfg_u32 b, float c)
{
    return rfg_fma(rfg_high(a, RFG_F16), rfg_high(b, RFG_F16), rfg_fma(rfg_low(a, RFG_F16), rfg_low(b, RFG_F16), c));
}
RFG_DEVICE float rfg_sum_f16x2(rfg_u32 a, float c)
{
    return c + rfg_low(a, RFG_F16) + rfg_high(a, RFG_F16);
}
RFG_DEVICE rfg_f32x2 rfg_mul_f16x2(rfg_u32 a, float f)
{
    return rfg_pair(rfg_low(a, RFG_F16) * f, rfg_high(a, RFG_F16) * f);
}
RFG_DEVICE rfg_u32 rfg_pack_mul_f16x2(rfg_f32x2 f, rfg_u32 w)
{
    return rfg_pack_f16(f.x * rfg_low(w, RFG_F16), f.y * rfg_high(w, RFG_F16));
}
RFG_DEVICE rfg_u32 rfg_pack_fma_f16x2(rfg_f32x2 f, rfg_u32 w, rfg_f32x2 b)
{
    return rfg_pack_f16(rfg_fma(f.x, rfg_low(w, RFG_F16), b.x), rfg_fma(f.y, rfg_high(w, RFG_F16), b.y));
}
#endif

/* 16 bytes as RFG_DTYPE_VEC(dtype) floats. */
RFG_DEVICE void rfg_unpack(float *f, rfg_u32x4 v, int dtype)
{
    if (dtype == RFG_F32) {
        f[0] = rfg_as_float(v.x);
        f[1] = rfg_as_float(v.y);
        f[2] = rfg_as_float(v.z);
        f[3] = rfg_as_float(v.w);
    } else {
        f[0] = rfg_low(v.x, dtype);
        f[1] = rfg_high(v.x, dtype);
        f[2] = rfg_low(v.y, dtype);
        f[3] = rfg_high(v.y, dtype);
        f[4] = rfg_low(v.z, dtype);
        f[5] = rfg_high(v.z, dtype);
        f[6] = rfg_low(v.w, dtype);
        f[7] = rfg_high(v.w, dtype);
    }
}
