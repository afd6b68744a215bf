/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: floating point of every size, conversions, lanes that give each other values. All results are
 * exact. */

ITEM(doubles)
{
    double a = (double)(x >> 8), b = (double)((i & 255) + 1), sum = 0;
    for (unsigned k = 0; k < (x & 7); k++) {
        sum += a * b;
        if (sum > 1e12)
            break;
        a *= 0.5;
    }
    double q = (double)(x & 0xffff) * b / b; /* exact */
    float f = (float)(q / 4) + (float)(sum > 1e9 ? 1 : 0);
    return (unsigned)(long long)q + (unsigned)f + (unsigned)(int)(a < b ? a : b);
}

/* Roots of squares, in every size. */
#ifdef __AMDGCN__
FUNCTION double root64(double d)
{
#if __has_builtin(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(d);
#else
    return __builtin_sqrt(d);
#endif
}
FUNCTION float root32(float f)
{
    return __builtin_amdgcn_sqrtf(f);
}
#else
static double root64(double d)
{
    double r = 0;
    for (double step = 1 << 20; step >= 1; step /= 2)
        if ((r + step) * (r + step) <= d)
            r += step;
    return r;
}
static float root32(float f)
{
    return (float)root64((double)f);
}
#endif
ITEM(roots)
{
    double d = (double)(x & 0xfffff);
    float f = (float)(x & 0x7ff);
    unsigned r = (unsigned)root64(d * d) + 3 * (unsigned)root32(f * f);
    if (x & 1)
        r += (unsigned)root64((double)(i * i));
    return r;
}

/* To and from integers of every size; rounding. */
#ifdef __AMDGCN__
#define FLOOR(x) __builtin_floorf(x)
#define TRUNC(x) __builtin_truncf(x)
#define CEIL(x)  __builtin_ceil(x)
#else
#define FLOOR(x) ((x) < (float)(int)(x) ? (float)(int)(x)-1 : (float)(int)(x))
#define TRUNC(x) ((float)(int)(x))
#define CEIL(x)  ((x) > (double)(long long)(x) ? (double)(long long)(x) + 1 : (double)(long long)(x))
#endif
ITEM(conversions)
{
    int s = (int)x >> 12;
    float f = (float)s / 16, g = FLOOR(f), h = TRUNC(f);
    double d = (double)(long long)((unsigned long long)x << 8) / 64, e = CEIL(d / 32);
    unsigned r = (unsigned)(int)g + 3 * (unsigned)(int)h + (unsigned)(long long)e;
    r += (unsigned)(float)(x & 0xff) + (unsigned)(float)(x >> 8 & 0xff) * 2 + (unsigned)(float)(x >> 24) * 5;
    long long l = (long long)(float)(x >> 9) * 5;
    return r + (unsigned)(l >> 2) + (unsigned)(short)(float)(s & 0x3ff);
}

/* Halves: packed, mixed with floats, in pairs. */
#ifdef __AMDGCN__
typedef _Float16 half2_ __attribute__((ext_vector_type(2)));
KERNEL(packed_halves)
{
    unsigned x = in[ME];
    half2_ a = { (_Float16)(float)(x & 15), (_Float16)(float)(x >> 4 & 15) };
    half2_ b = { (_Float16)(float)(x >> 8 & 7), (_Float16)(float)(x >> 12 & 7) }, sum = a;
    for (unsigned k = 0; k < (x >> 28); k++) {
        sum = sum + b;
        if (sum.x > (_Float16)40.0f)
            break;
        sum = sum * (half2_)((_Float16)1.0f) - a * (half2_)((_Float16)0.0f);
    }
    _Float16 mixed = (_Float16)((float)a.x * (float)b.y + (float)(x >> 16 & 31));
    half2_ put = { mixed, a.y };
    if (x & 0x100)
        put.y = (_Float16)((float)b.x * (float)a.y + 3);
    ((half2_ *)out)[ITEMS + ME] = put;
    out[ME] =
        (unsigned)(int)(float)sum.x + 1000 * (unsigned)(int)(float)sum.y + (unsigned)(int)((float)put.x + (float)put.y);
}
#else
FUNCTION unsigned half_bits(unsigned v) /* of a small integer */
{
    unsigned e = 0;
    if (!v)
        return 0;
    while (v >> e > 1)
        e++;
    return (e + 15) << 10 | ((v << (10 - e)) & 0x3ff);
}
HOST(packed_halves)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned x = in[i], a[2] = { x & 15, x >> 4 & 15 }, b[2] = { x >> 8 & 7, x >> 12 & 7 };
        unsigned sum[2] = { a[0], a[1] };
        for (unsigned k = 0; k < (x >> 28); k++) {
            sum[0] += b[0];
            sum[1] += b[1];
            if (sum[0] > 40)
                break;
        }
        unsigned put[2] = { a[0] * b[1] + (x >> 16 & 31), x & 0x100 ? b[0] * a[1] + 3 : a[1] };
        out[ITEMS + i] = half_bits(put[0]) | half_bits(put[1]) << 16;
        out[i] = sum[0] + 1000 * sum[1] + put[0] + put[1];
    }
}
#endif

/* One half of a register, and then the other: v_fma_mixlo, v_cvt, d16 loads and stores. */
#ifdef __AMDGCN__
KERNEL(halves_of_registers)
{
    __shared__ _Float16 s[2 * SIZE];
    unsigned x = in[ME];
    _Float16 lo = (_Float16)((float)(x & 7) * 3.0f + 1.0f), hi = (_Float16)((float)(x >> 3 & 7) * 5.0f);
    s[2 * TID] = lo;
    if (x & 1)
        s[2 * TID + 1] = hi;
    else
        s[2 * TID + 1] = lo;
    BARRIER;
    half2_ v;
    v.x = s[(2 * TID + 3) % (2 * SIZE)];
    v.y = s[(2 * TID + 8) % (2 * SIZE)];
    if (x & 2)
        v.y = v.x + (_Float16)1.0f;
    const unsigned short *shorts = (const unsigned short *)in;
    unsigned short w[2] = { shorts[2 * ME + 1], shorts[2 * ME] };
    const unsigned char *bytes = (const unsigned char *)in;
    out[ME] = (unsigned)(int)((float)v.x + 100 * (float)v.y);
    ((unsigned short *)out)[2 * (ITEMS + ME)] = w[0];
    ((unsigned short *)out)[2 * (ITEMS + ME) + 1] = (unsigned short)(w[1] + bytes[4 * ME + 2]);
}
#else
HOST(halves_of_registers)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned s[2 * SIZE];
        for (int t = 0; t < SIZE; t++) {
            unsigned x = in[g * SIZE + t], lo = (x & 7) * 3 + 1, hi = (x >> 3 & 7) * 5;
            s[2 * t] = lo;
            s[2 * t + 1] = x & 1 ? hi : lo;
        }
        for (int t = 0; t < SIZE; t++) {
            unsigned x = in[g * SIZE + t], v = s[(2 * t + 3) % (2 * SIZE)], w = s[(2 * t + 8) % (2 * SIZE)];
            out[g * SIZE + t] = v + 100 * (x & 2 ? v + 1 : w);
            out[ITEMS + g * SIZE + t] = x >> 16 | ((x & 0xffff) + (x >> 16 & 255)) << 16;
        }
    }
}
#endif

/* bf16 by hand: rounded to nearest even, two to a word. */
ITEM(brain_floats)
{
    union {
        float f;
        unsigned u;
    } a, b;
    a.f = (float)(x & 0xffff);
    b.f = (float)(x >> 16);
    unsigned lo = (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16, hi = (b.u + 0x7fff + (b.u >> 16 & 1)) >> 16;
    a.u = lo << 16;
    b.u = hi << 16;
    return (lo | hi << 16) + (unsigned)a.f + (unsigned)b.f + (i & 1);
}

/* Of each sort of number: which it is, its exponent, its neighbour. */
ITEM(sorts_of_numbers)
{
    union {
        unsigned u;
        float f;
    } v;
    static const unsigned some[8] = {
        0, 0x80000000u, 0x7f800000u, 0x7fc00000u, 0x3f800000u, 1, 0xff800000u, 0xc0490fdbu
    };
    v.u = some[x & 7];
    unsigned r = v.f != v.f ? 1 : v.f > 3e38f ? 2 : v.f < -3e38f ? 3 : v.f == 0 ? 4 : v.f < 0 ? 5 : 6;
    if (!(v.f < 1.0f))
        r += 10;
    if (v.f >= -4.0f && v.f <= 4.0f)
        r += 20;
    return r + (i & 1);
}

/* Division of every size of integer, by what lanes have and by what all share: v_rcp_iflag_f32. */
ITEM(more_divisions)
{
    unsigned d = (x >> 20) + 1, s = (unsigned)n;
    int a = (int)x, b = (int)(i & 31) - 16;
    unsigned r = x / d + x % d * 3 + x / s + i % s;
    if (b)
        r += (unsigned)(a / b) + (unsigned)(a % b);
    unsigned short h = (unsigned short)x, k = (unsigned short)(d & 0xff) + 1;
    r += (unsigned)(h / k) + (unsigned)(h % k);
    return r + (unsigned)((unsigned long long)x * 1000 / ((unsigned long long)d << 9 | 7));
}

/* Powers of two by every transcendental; each result is used at once. */
#ifdef __AMDGCN__
KERNEL(more_transcendentals)
{
    unsigned x = in[ME], k = x & 15;
    float f = (float)(1u << k), q = f * f;
    float a = __builtin_amdgcn_rsqf(q);                                       /* 2^-k */
    float b = __builtin_amdgcn_sqrtf(q);                                      /* 2^k */
    float c = __builtin_amdgcn_rcpf(a);                                       /* 2^k */
    float s = __builtin_amdgcn_sinf(0.25f * (float)(x & 1) + (float)(k & 1)); /* turns */
    float t = __builtin_amdgcn_cosf((float)(k & 3));
    double d = __builtin_amdgcn_rsq((double)q), e = __builtin_amdgcn_rcp(d);
    _Float16 h = __builtin_amdgcn_sqrth((_Float16)(float)(1u << (k & 6)));
    _Float16 g = __builtin_amdgcn_rcph(h), w = __builtin_amdgcn_rsqh((_Float16)(float)(1u << (k & 6)));
    out[ME] = (unsigned)b + (unsigned)c * 3 + (unsigned)(int)(s * 2 + t) * 5;
    out[ME + ITEMS] = (unsigned)(e + 0.5);
    out[ME + 2 * ITEMS] = (unsigned)(int)((float)g * (float)h * 8 + (float)w * (float)h * 16);
}
#else
HOST(more_transcendentals)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned x = in[i], k = x & 15;
        out[i] = (1u << k) * 4 + ((x & 1) * 2 + 1) * 5;
        out[i + ITEMS] = 1u << k;
        out[i + 2 * ITEMS] = 24;
    }
}
#endif

/* Sums over rows and waves by DPP, permlane and permutes, and one lane's value for all. */
#ifdef __AMDGCN__
#define SHIFTED(v, by) __builtin_amdgcn_update_dpp(0, v, 0x110 | (by), 0xf, 0xf, true)
KERNEL(lane_sums)
{
    int v = (int)in[ME] & 0xffffff, s = v;
    s += SHIFTED(s, 1);
    s += SHIFTED(s, 2);
    s += SHIFTED(s, 4);
    s += SHIFTED(s, 8); /* sums from the row's first lane on */
#if RDNA
    int half = __builtin_amdgcn_permlanex16(0, s, 0xffffffffu, 0xffffffffu, false, false);
    if (TID & 16)
        s += half;
    int turned = __builtin_amdgcn_permlane16(v, v, 0x89abcdef, 0x01234567, false, false);
#else
    int half = __builtin_amdgcn_ds_bpermute(4 * ((TID & 48) - 1), s);
    if (TID & 16)
        s += half;
    int turned = __builtin_amdgcn_ds_bpermute(4 * (TID ^ 15), v);
#endif
    turned += __builtin_amdgcn_update_dpp(0, v, 0x140, 0xf, 0xf, true); /* row_mirror */
    int first = __builtin_amdgcn_readfirstlane(s), third = __builtin_amdgcn_readlane(s, 2);
    int other = __builtin_amdgcn_ds_permute(4 * ((TID & 63) ^ 3), v);
    out[ME] = (unsigned)s;
    out[ME + ITEMS] = (unsigned)(turned + 3 * other);
    if ((TID & 63) == 0)
        out[2 * ITEMS + ME] = (unsigned)(first + third);
}
#else
HOST(lane_sums)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned s = 0;
        for (int k = i & ~31; k <= i; k++)
            s += in[k] & 0xffffff;
        out[i] = s;
        out[i + ITEMS] = 2 * (in[i ^ 15] & 0xffffff) + 3 * (in[i ^ 3] & 0xffffff);
    }
    for (int i = 0; i < ITEMS; i += 64)
        out[2 * ITEMS + i] = out[i] + out[i + 2];
}
#endif

/* Lanes that are off give what they have, or nothing; only some lanes are asked. */
#ifdef __AMDGCN__
KERNEL(lanes_in_branches)
{
    unsigned x = in[ME], r = 0;
    int v = (int)x;
    if (x & 1) {
        int neighbour = __builtin_amdgcn_update_dpp(7, v, 0xb1, 0xf, 0xf, false); /* off: 7 */
        r = (unsigned)neighbour;
        if (x & 2)
            r += (unsigned)__builtin_amdgcn_readfirstlane(n);
    }
    bool some = __builtin_amdgcn_ds_bpermute(4 * (TID & 63), (int)(x & 4)) != 0;
    unsigned all = 0;
    for (unsigned k = 0; k < 4; k++)
        all += (unsigned)__builtin_amdgcn_ds_swizzle((int)(x & 255), 0x8000 | 0x1b) & 63; /* quads turned round */
    out[ME] = r + (some ? 5 : 0);
    out[ME + ITEMS] = all;
}
#else
HOST(lanes_in_branches)
{
    for (int i = 0; i < ITEMS; i++) {
        unsigned x = in[i];
        if (x & 1)
            out[i] = (in[i ^ 1] & 1 ? in[i ^ 1] : 7) + (x & 2 ? (unsigned)n : 0);
        out[i] += x & 4 ? 5 : 0;
        out[i + ITEMS] = 4 * (in[i ^ 3] & 63);
    }
}
#endif

/* Products of bytes and of halves: dot instructions where they are. */
#ifdef __AMDGCN__
KERNEL(dots)
{
    unsigned x = in[ME], y = in[ME ^ 1];
#if (MFMA || __gfx1030__) && __has_builtin(__builtin_amdgcn_sdot4)
    int s = __builtin_amdgcn_sdot4((int)x, (int)y, 5, false);
    s = __builtin_amdgcn_sdot4((int)y, (int)y, s, false);
#elif (__gfx1100__ || __gfx1201__) && __has_builtin(__builtin_amdgcn_sudot4)
    int s = __builtin_amdgcn_sudot4(true, (int)x, true, (int)y, 5, false);
    s = __builtin_amdgcn_sudot4(true, (int)y, true, (int)y, s, false);
#else
    int s = 5;
    for (int k = 0; k < 4; k++)
        s += (signed char)(x >> 8 * k) * (signed char)(y >> 8 * k) +
             (signed char)(y >> 8 * k) * (signed char)(y >> 8 * k);
#endif
#if __has_builtin(__builtin_amdgcn_fdot2)
    half2_ a = { (_Float16)(float)(x & 7), (_Float16)(float)(x >> 3 & 7) };
    half2_ b = { (_Float16)(float)(y & 7), (_Float16)(float)(y >> 3 & 7) };
    float f = __builtin_amdgcn_fdot2(a, b, 1.0f, false);
    f = __builtin_amdgcn_fdot2(a, a, f, false);
#else
    float f =
        (float)(1 + (x & 7) * (y & 7) + (x >> 3 & 7) * (y >> 3 & 7) + (x & 7) * (x & 7) + (x >> 3 & 7) * (x >> 3 & 7));
#endif
    out[ME] = (unsigned)s + (unsigned)(int)f;
}
#else
HOST(dots)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned x = in[i], y = in[i ^ 1];
        int s = 5;
        for (int k = 0; k < 4; k++)
            s += (signed char)(x >> 8 * k) * (signed char)(y >> 8 * k) +
                 (signed char)(y >> 8 * k) * (signed char)(y >> 8 * k);
        out[i] = (unsigned)s + 1 + (x & 7) * (y & 7) + (x >> 3 & 7) * (y >> 3 & 7) + (x & 7) * (x & 7) +
                 (x >> 3 & 7) * (x >> 3 & 7);
    }
}
#endif

/* Loads that pass the caches by, stores that need not stay in them, volatile ones; the same word by the same lane. */
#ifdef __AMDGCN__
KERNEL(own_words)
{
    volatile unsigned *p = out;
    unsigned x = __builtin_nontemporal_load(&in[ME]);
    p[ME] = x;
    unsigned y = p[ME];
    p[ME] = y * 3;
    if (x & 1)
        p[ME] += 4;
    __builtin_nontemporal_store(p[ME] + 1, &out[ME + ITEMS]);
    out[ME + 2 * ITEMS] = out[ME] ^ x;
    out[ME + 2 * ITEMS] = out[ME + 2 * ITEMS] + 1;
}
#else
HOST(own_words)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        out[i] = in[i] * 3 + (in[i] & 1 ? 4 : 0);
        out[i + ITEMS] = out[i] + 1;
        out[i + 2 * ITEMS] = (out[i] ^ in[i]) + 1;
    }
}
#endif

/* Copies of any length from any place: bytes, then words, then bytes. */
ITEM(copies)
{
    unsigned char bytes[48];
    const unsigned char *from = (const unsigned char *)in + (x & 1023);
    unsigned length = 5 + (i & 31), r = 0;
    for (unsigned k = 0; k < length; k++)
        bytes[k] = from[k];
    for (unsigned k = 0; k + 4 <= length; k += 4) {
        unsigned w;
        __builtin_memcpy(&w, bytes + k, 4);
        r = r * 5 + w;
    }
    for (unsigned k = length & ~3u; k < length; k++)
        r = r * 3 + bytes[k];
    return r;
}
