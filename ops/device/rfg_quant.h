/* SPDX-License-Identifier: MIT
 *
 * 16-byte chunks of a row, whole or in pieces, and the 8-bit codes that rows are quantised to. */

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

/* The chunk `at` bytes into a row (a base that all lanes share costs no 64-bit arithmetic), read `width` bytes (a
 * constant) at a time: RFG_DTYPE_VEC(dtype) elements. Of a narrower width than 16, n elements are there (a multiple of
 * what `width` bytes hold, may be more than a chunk): the others are 0. once: keep it out of the caches' way. */
RFG_DEVICE rfg_u32x4 rfg_load_chunk(const void *row, rfg_u32 at, int n, int dtype, int width, bool once)
{
    const char *p = (const char *)row + at;
    rfg_u32x4 v;
    if (width == 16)
        return once ? rfg_load16_once(p) : rfg_load16(p);
    rfg_u32 u[4] = { 0, 0, 0, 0 };
    int bytes = n * RFG_DTYPE_BYTES(dtype);
#ifdef __clang__ /* its plain "unroll" stops half-way in large kernels, and u would lie in scratch */
#pragma clang loop unroll(full)
#else
#pragma unroll
#endif
    for (int k = 0; k < 16 / width; k++) {
        if (k * width >= bytes)
            continue;
        if (width == 8) {
            rfg_u32x2 two = rfg_load8(p + k * 8);
            u[k * 2] = two.x;
            u[k * 2 + 1] = two.y;
        } else if (width == 4)
            u[k] = rfg_load4(p + k * 4);
        else
            u[k / 2] |= (rfg_u32)rfg_load2(p + k * 2) << (k % 2 * 16);
    }
    v.x = u[0];
    v.y = u[1];
    v.z = u[2];
    v.w = u[3];
    return v;
}

RFG_DEVICE void rfg_store_chunk(void *row, rfg_u32 at, int n, rfg_u32x4 v, int dtype, int width, bool once)
{
    char *p = (char *)row + at;
    if (width == 16) {
        if (once)
            rfg_store16_once(p, v);
        else
            rfg_store16(p, v);
        return;
    }
    rfg_u32 u[4] = { v.x, v.y, v.z, v.w };
    int bytes = n * RFG_DTYPE_BYTES(dtype);
#pragma unroll
    for (int k = 0; k < 16 / width; k++) {
        if (k * width >= bytes)
            continue;
        if (width == 8) {
            rfg_u32x2 two;
            two.x = u[k * 2];
            two.y = u[k * 2 + 1];
            rfg_store8(p + k * 8, two);
        } else if (width == 4)
            rfg_store4(p + k * 4, u[k]);
        else
            rfg_store2(p + k * 2, (rfg_u16)(u[k / 2] >> (k % 2 * 16)));
    }
}

/* A chunk of floats, rounded to nearest even. For bf16 see rfg_pack_bf16(). */
RFG_DEVICE rfg_u32x4 rfg_pack(const float *f, int dtype)
{
    rfg_u32x4 v;
    if (dtype == RFG_F32) {
        v.x = rfg_as_u32(f[0]);
        v.y = rfg_as_u32(f[1]);
        v.z = rfg_as_u32(f[2]);
        v.w = rfg_as_u32(f[3]);
    } else if (dtype == RFG_F16) {
        v.x = rfg_pack_f16(f[0], f[1]);
        v.y = rfg_pack_f16(f[2], f[3]);
        v.z = rfg_pack_f16(f[4], f[5]);
        v.w = rfg_pack_f16(f[6], f[7]);
    } else {
        v.x = rfg_pack_bf16(f[0], f[1]);
        v.y = rfg_pack_bf16(f[2], f[3]);
        v.z = rfg_pack_bf16(f[4], f[5]);
        v.w = rfg_pack_bf16(f[6], f[7]);
    }
    return v;
}

/* a + b, rounded. */
RFG_DEVICE rfg_u32x4 rfg_chunk_add(rfg_u32x4 a, rfg_u32x4 b, int dtype)
{
    if (RFG_F16_WORDS && dtype == RFG_F16) { /* rounded once, as the sum in fp32 is: that is exact or far too small */
        a.x = rfg_add_f16x2(a.x, b.x);
        a.y = rfg_add_f16x2(a.y, b.y);
        a.z = rfg_add_f16x2(a.z, b.z);
        a.w = rfg_add_f16x2(a.w, b.w);
        return a;
    }
    float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
    rfg_unpack(f, a, dtype);
    rfg_unpack(g, b, dtype);
#pragma unroll
    for (int i = 0; i < RFG_DTYPE_VEC(dtype); i += 2) {
        rfg_f32x2 two = rfg_add2(rfg_pair(f[i], f[i + 1]), rfg_pair(g[i], g[i + 1]));
        f[i] = two.x;
        f[i + 1] = two.y;
    }
    return rfg_pack(f, dtype);
}

/* sum + the elements, or their squares; the sum's halves are parts of it. */
RFG_DEVICE rfg_f32x2 rfg_chunk_sum(rfg_u32x4 v, rfg_f32x2 sum, bool squares, int dtype)
{
    if (RFG_F16_WORDS && dtype == RFG_F16) {
        sum.x = squares ? rfg_dot_f16x2(v.x, v.x, sum.x) : rfg_sum_f16x2(v.x, sum.x);
        sum.y = squares ? rfg_dot_f16x2(v.y, v.y, sum.y) : rfg_sum_f16x2(v.y, sum.y);
        sum.x = squares ? rfg_dot_f16x2(v.z, v.z, sum.x) : rfg_sum_f16x2(v.z, sum.x);
        sum.y = squares ? rfg_dot_f16x2(v.w, v.w, sum.y) : rfg_sum_f16x2(v.w, sum.y);
        return sum;
    }
    float f[RFG_MAX_VEC];
    rfg_unpack(f, v, dtype);
#pragma unroll
    for (int i = 0; i < RFG_DTYPE_VEC(dtype); i += 2) {
        rfg_f32x2 two = rfg_pair(f[i], f[i + 1]);
        sum = squares ? rfg_fma2(two, two, sum) : rfg_add2(sum, two);
    }
    return sum;
}

/* ---- codes ------------------------------------------------------------------------------------------------------ */

#define RFG_CODE_MAX(dtype)                                                                                            \
    ((dtype) == RFG_E4M3       ? 448.0f                                                                                \
     : (dtype) == RFG_E4M3FNUZ ? 240.0f                                                                                \
     : (dtype) == RFG_E5M2     ? 57344.0f                                                                              \
     : (dtype) == RFG_E2M1     ? 6.0f                                                                                  \
                               : 127.0f)

/* To nearest even, saturating; a NaN becomes a NaN. */
RFG_DEVICE rfg_u32 rfg_fp8_code(float f, int dtype)
{
    int mantissa = dtype == RFG_E5M2 ? 2 : 3, bias = dtype == RFG_E4M3 ? 7 : dtype == RFG_E5M2 ? 15 : 8;
    rfg_u32 u = rfg_as_u32(f), sign = u >> 24 & 0x80u;
    float a = rfg_min(rfg_as_float(u & 0x7fffffffu), RFG_CODE_MAX(dtype));
    /* Denormals of the format: the sum's last bit is theirs. */
    float magic = rfg_as_float((rfg_u32)(127 + 23 + 1 - bias - mantissa) << 23);
    rfg_u32 small = rfg_as_u32(a + magic) - rfg_as_u32(magic);
    rfg_u32 n = rfg_as_u32(a);
    n = ((n + (1u << (22 - mantissa)) - 1u + (n >> (23 - mantissa) & 1u)) >> (23 - mantissa)) -
        ((rfg_u32)(127 - bias) << mantissa);
    rfg_u32 code = a < rfg_as_float((rfg_u32)(128 - bias) << 23) ? small : n;
    code = dtype == RFG_E4M3FNUZ && code == 0 ? 0u : code | sign;
    return f == f ? code : dtype == RFG_E4M3FNUZ ? 0x80u : 0x7fu;
}

/* What a code stands for, exactly; the format's NaNs and infinities too. */
RFG_DEVICE float rfg_code_value(rfg_u32 code, int dtype)
{
    if (dtype == RFG_I8)
        return (float)((int)(code << 24) >> 24);
    int mantissa = dtype == RFG_E5M2 ? 2 : 3, bias = dtype == RFG_E4M3 ? 7 : dtype == RFG_E5M2 ? 15 : 8;
    rfg_u32 low = code & 0x7fu;
    /* The format's denormals are a magic number's last bits: fp32's own may be flushed. */
    rfg_u32 magic = (rfg_u32)(127 + 24 - bias - mantissa) << 23;
    float small = rfg_as_float(magic + low) - rfg_as_float(magic);
    rfg_u32 n = (low << (23 - mantissa)) + ((rfg_u32)(127 - bias) << 23);
    if (dtype == RFG_E5M2 && low >= 0x7cu)
        n = low == 0x7cu ? 0x7f800000u : 0x7fc00000u;
    if (dtype == RFG_E4M3 && low == 0x7fu)
        n = 0x7fc00000u;
    n = low >> mantissa ? n : rfg_as_u32(small);
    if (dtype == RFG_E4M3FNUZ && code == 0x80u)
        n = 0x7fc00000u;
    return rfg_as_float(n | (code & 0x80u) << 24);
}

/* 2^(b - 127); b = 0 is a denormal. */
RFG_DEVICE float rfg_power_of(rfg_u32 b)
{
    return rfg_as_float(b ? b << 23 : 0x00400000u);
}
/* 1 by that; b = 255 is a NaN, as in e8m0. */
RFG_DEVICE float rfg_inverse_power_of(rfg_u32 b)
{
    return b < 255u ? rfg_power_of(254u - b) : rfg_as_float(0x7fc00000u);
}

/* An f32 or e8m0, whose 255 is a NaN. */
RFG_DEVICE float rfg_load_scale(const void *scale, long long at, int dtype)
{
    if (dtype == RFG_F32)
        return rfg_load_float(scale, at, RFG_F32);
    rfg_u32 b = rfg_load1((const char *)scale + at);
    return b == 255u ? rfg_as_float(0x7fc00000u) : rfg_power_of(b);
}

/* Four of the eight bytes of a (0 to 3) and b (4 to 7), by a hexadecimal digit each, the lowest first. */
RFG_DEVICE rfg_u32 rfg_byte_perm(rfg_u32 a, rfg_u32 b, rfg_u32 which)
{
#if RFG_NVIDIA
    return __byte_perm(a, b, which);
#else
    /* v_perm counts from its second operand. */
    rfg_u32 s = (which & 0x7) | (which & 0x70) << 4 | (which & 0x700) << 8 | (which & 0x7000) << 12;
    return __builtin_amdgcn_perm(b, a, s);
#endif
}

/* Two 8-bit codes, in the upper bytes of u's halves, as fp16. e5m2 is fp16 cut short. e4m3 has its exponent a bit lower
 * and another bias, which a multiplication settles, exactly, for subnormals too; its NaNs only if `nans`. */
RFG_DEVICE rfg_u32 rfg_f8_to_f16x2(rfg_u32 u, int dtype, bool nans)
{
    if (dtype == RFG_E5M2)
        return u;
    rfg_u32 r, nan = 0;
#if RFG_NVIDIA
    rfg_u32 h = (u & 0x80008000u) | (u >> 1 & 0x3f803f80u);
    if (nans && dtype == RFG_E4M3) { /* all ones carry into bit 14, which becomes 0x7e00 */
        rfg_u32 m = ((h & 0x3f803f80u) + 0x00800080u) & 0x40004000u;
        nan = (m << 1) - (m >> 5);
    }
#else
    typedef short i16x2 __attribute__((ext_vector_type(2)));
    typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
    rfg_u32 h = __builtin_bit_cast(rfg_u32, __builtin_bit_cast(i16x2, u) >> (short)1) & 0xbf80bf80u;
#endif
    if (nans && dtype == RFG_E4M3FNUZ) { /* -0 */
        rfg_u32 t = h ^ 0x80008000u, m = ~(((t & 0x7fff7fffu) + 0x7fff7fffu) | t) & 0x80008000u;
        nan = m - (m >> 6);
    }
#if RFG_NVIDIA
    rfg_u32 scale = dtype == RFG_E4M3 ? 0x5c005c00u : 0x58005800u; /* 2^8, 2^7 */
    asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(h), "r"(scale));
#else
    f16x2 v = __builtin_bit_cast(f16x2, h), f = v * (_Float16)(dtype == RFG_E4M3 ? 256 : 128);
    if (nans && dtype == RFG_E4M3) /* all ones are 1.875 here, which times 36352 is infinite; 448, the next, is 1.75 */
        f += v * (_Float16)36352 * (_Float16)0;
    r = __builtin_bit_cast(rfg_u32, f);
#endif
    return r | nan;
}
/* Four codes: RFG_E4M3, RFG_E4M3FNUZ or RFG_E5M2. */
RFG_DEVICE rfg_u32x2 rfg_f8_to_f16x4(rfg_u32 u, int dtype, bool nans)
{
    rfg_u32x2 r;
#if RFG_NVIDIA && __CUDA_ARCH__ >= 890
    if (dtype == RFG_E4M3) {
        asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %2;\n"
            "cvt.rn.f16x2.e4m3x2 %0, lo;\ncvt.rn.f16x2.e4m3x2 %1, hi;\n}"
            : "=r"(r.x), "=r"(r.y)
            : "r"(u));
        return r;
    }
#endif
    r.x = rfg_f8_to_f16x2(rfg_byte_perm(u, 0, 0x1404), dtype, nans);
    r.y = rfg_f8_to_f16x2(rfg_byte_perm(u, 0, 0x3424), dtype, nans);
    return r;
}

RFG_DEVICE float rfg_clamp_keep_nan(float f, float max)
{
    float c = rfg_min(rfg_max(f, -max), max);
    return f == f ? c : f;
}

/* Four of them, the first in the lowest byte. */
RFG_DEVICE rfg_u32 rfg_quantise4(float a, float b, float c, float d, int dtype)
{
    if (dtype == RFG_I8)
        return (rfg_u32)(rfg_float_to_i8(a) & 255) | (rfg_u32)(rfg_float_to_i8(b) & 255) << 8 |
               (rfg_u32)(rfg_float_to_i8(c) & 255) << 16 | (rfg_u32)rfg_float_to_i8(d) << 24;
    if (RFG_CONVERTS_FP8(dtype)) {
        if (RFG_NVIDIA) /* the instruction saturates */
            return rfg_hardware_fp8x4(a, b, c, d);
        float max = RFG_CODE_MAX(dtype);
        return rfg_hardware_fp8x4(rfg_clamp_keep_nan(a, max), rfg_clamp_keep_nan(b, max), rfg_clamp_keep_nan(c, max),
                                  rfg_clamp_keep_nan(d, max));
    }
    return rfg_fp8_code(a, dtype) | rfg_fp8_code(b, dtype) << 8 | rfg_fp8_code(c, dtype) << 16 |
           rfg_fp8_code(d, dtype) << 24;
}

/* To nearest even, saturating; 6 for a NaN. */
RFG_DEVICE rfg_u32 rfg_e2m1_code(float f)
{
    rfg_u32 sign = rfg_as_u32(f) & 0x80000000u;
    float size = rfg_min(rfg_as_float(rfg_as_u32(f) ^ sign), 6.0f);
    rfg_u32 e = rfg_as_u32(size) & 0x7f800000u;
    e = e > 0x3f800000u ? e : 0x3f800000u;
    rfg_u32 magic = e + (22u << 23); /* the sum's last place is the code's: 0.5, from 2 on 1, from 4 on 2 */
    rfg_u32 code = rfg_as_u32(size + rfg_as_float(magic)) - magic + ((e - 0x3f800000u) >> 22);
    return f == f ? code | sign >> 28 : code;
}

/* The same; 0 for a NaN. */
RFG_DEVICE rfg_u32 rfg_i4_code(float f)
{
    int code = rfg_float_to_i8(f);
    code = code > 7 ? 7 : code < -8 ? -8 : code;
    return (rfg_u32)code & 15u;
}

/* rfg_store_codes() of 4-bit ones, two in a byte, the first in the low bits; n is even. */
RFG_DEVICE void rfg_store_nibbles(char *p, int n, const float *f, float inverse, int dtype, int from, int width)
{
    rfg_u32 codes = 0;
#pragma unroll
    for (int i = 0; i < RFG_DTYPE_VEC(from); i++)
        codes |= (dtype == RFG_I4 ? rfg_i4_code(f[i] * inverse) : rfg_e2m1_code(f[i] * inverse)) << (4 * i);
    if (width == 16 && from != RFG_F32)
        rfg_store4(p, codes);
    else if (width == 16)
        rfg_store2(p, (rfg_u16)codes);
    else
#pragma unroll
        for (int i = 0; i < RFG_DTYPE_VEC(from) / 2; i++)
            if (2 * i < n)
                rfg_store1(p + i, codes >> (8 * i));
}

/* The codes of a chunk's floats times `inverse`, from element `at` of a row on; `width` is that of rfg_load_chunk() for
 * dtype `from`. */
RFG_DEVICE void rfg_store_codes(void *row, rfg_u32 at, int n, const float *f, float inverse, int dtype, int from,
                                int width, bool once)
{
    char *p = (char *)row + (RFG_IS_4_BITS(dtype) ? at / 2u : at);
    rfg_u32x2 v;
    if (RFG_IS_4_BITS(dtype)) {
        rfg_store_nibbles(p, n, f, inverse, dtype, from, width);
        return;
    }
    v.x = rfg_quantise4(f[0] * inverse, f[1] * inverse, f[2] * inverse, f[3] * inverse, dtype);
    v.y = from == RFG_F32 ? 0u : rfg_quantise4(f[4] * inverse, f[5] * inverse, f[6] * inverse, f[7] * inverse, dtype);
    int piece = width / RFG_DTYPE_BYTES(from); /* bytes, and elements */
    if (piece == 8) {
        if (once)
            rfg_store8_once(p, v);
        else
            rfg_store8(p, v);
        return;
    }
    rfg_u32 u[2] = { v.x, v.y };
#pragma unroll
    for (int k = 0; k < RFG_DTYPE_VEC(from) / piece; k++) {
        if (width != 16 && k * piece >= n)
            continue;
        if (piece == 4)
            rfg_store4(p + k * 4, u[k]);
        else if (piece == 2)
            rfg_store2(p + k * 2, (rfg_u16)(u[k / 2] >> (k % 2 * 16)));
        else
            rfg_store1(p + k, u[k / 4] >> (k % 4 * 8));
    }
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

#define RFG_SCALE_NONE   0
#define RFG_SCALE_STATIC 1
#define RFG_SCALE_TOKEN  2
#define RFG_SCALE_GROUP  3
#define RFG_SCALE_MX     4

/* Kinds of scales that groups of neighbouring columns share, and the lanes of one: neighbours with a chunk each. */
#define RFG_IS_GROUPED(kind)         ((kind) == RFG_SCALE_GROUP || (kind) == RFG_SCALE_MX)
#define RFG_GROUP_LANES(kind, dtype) (((kind) == RFG_SCALE_MX ? 32 : 128) / RFG_DTYPE_VEC(dtype))

/* enum rfg_scale_rounding */
#define RFG_SCALE_EXACT 0
#define RFG_SCALE_UP    1
#define RFG_SCALE_DOWN  2
#define RFG_SCALE_EVEN  3
#define RFG_SCALE_CEIL  4

/* The scale of values up to `largest`. Never 0, as vLLM's: all codes are then 0. */
RFG_DEVICE float rfg_scale_of(float largest, int dtype)
{
    float max = RFG_CODE_MAX(dtype);
    return rfg_max(largest * (1.0f / max), 1.0f / (max * 512.0f));
}

/* Largest magnitude of a chunk's floats. */
RFG_DEVICE float rfg_chunk_max(const float *f, int dtype)
{
    float m = 0.0f;
#pragma unroll
    for (int i = 0; i < RFG_DTYPE_VEC(dtype); i++)
        m = rfg_max(m, rfg_as_float(rfg_as_u32(f[i]) & 0x7fffffffu));
    return m;
}

#define RFG_CODE_MANTISSA(dtype)                                                                                       \
    ((dtype) == RFG_I8 ? 6 : (dtype) == RFG_E2M1 ? 1 : (dtype) == RFG_E5M2 || (dtype) == RFG_I4 ? 2 : 3)
#define RFG_CODE_EXPONENT(dtype)                                                                                       \
    ((dtype) == RFG_I8 ? 6 : RFG_IS_4_BITS(dtype) ? 2 : (dtype) == RFG_E5M2 ? 15 : (dtype) == RFG_E4M3FNUZ ? 7 : 8)

/* The power of two that v, the largest magnitude, is rounded to as a scale for codes of dtype, by its exponent: 2^(b -
 * 127), 255 of an infinity. Of RFG_SCALE_UP v is that by the dtype's largest. */
RFG_DEVICE rfg_u32 rfg_power_scale(float v, int rounding, int dtype)
{
    rfg_u32 u = rfg_as_u32(v);
    if (rounding == RFG_SCALE_UP) {
        rfg_u32 b = u <= 0x00400000u ? 0u : (u + 0x7fffffu) >> 23;
        return u < 0x7f800000u && b > 254u ? 254u : b;
    }
    rfg_u32 place = rounding == RFG_SCALE_DOWN   ? 0u
                    : rounding == RFG_SCALE_EVEN ? 1u << (22 - RFG_CODE_MANTISSA(dtype))
                                                 : 0x7fffffu;
    rfg_u32 b = (u + place) >> 23;
    return u >= 0x7f800000u ? 255u : b > RFG_CODE_EXPONENT(dtype) ? b - RFG_CODE_EXPONENT(dtype) : 0u;
}

/* The largest of `lanes` neighbours (a constant: a power of two up to the wave), in all of them. */
RFG_DEVICE float rfg_reduce_group(float v, int lanes)
{
    if (lanes >= 16)
        return rfg_reduce_lanes(v, lanes, true);
#pragma unroll
    for (int mask = 1; mask < lanes; mask *= 2)
        v = rfg_max(v, rfg_shuffle_xor(v, mask));
    return v;
}

/* Of a group whose lanes have a chunk f each, of dtype `from`, of which this lane's is the row's `chunk`th: the
 * reciprocal of its scale for codes of `dtype`. The group's first lane stores the scale: row: element of the row's
 * first one, col: their distance. All lanes are on; those whose chunk isn't there hold zeroes. */
RFG_DEVICE float rfg_group_inverse(void *scale, long long row, long long col, int chunk, bool there, const float *f,
                                   int kind, int rounding, int dtype, int from)
{
    float largest = rfg_reduce_group(rfg_chunk_max(f, from), RFG_GROUP_LANES(kind, from));
    bool first = there && chunk % RFG_GROUP_LANES(kind, from) == 0;
    long long at = row + chunk / RFG_GROUP_LANES(kind, from) * col;
    if (kind == RFG_SCALE_MX) {
        float v = rounding == RFG_SCALE_UP ? largest / RFG_CODE_MAX(dtype) : largest;
        rfg_u32 b = rfg_power_scale(v, rounding, dtype);
        if (first)
            rfg_store1((char *)scale + at, b);
        return rfg_inverse_power_of(b);
    }
    float s = rfg_scale_of(largest, dtype);
    if (first)
        rfg_store_float(scale, at, s, RFG_F32);
    return rfg_rcp(s);
}
