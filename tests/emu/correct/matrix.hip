/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: matrix instructions, fp8 conversions, transcendentals. What an architecture has no instructions for
 * is done without. */

/* Of small integers: exact. D = A B + C, 16x16x16 a wave of 64 (32), into `out` by rows. */
#ifdef __AMDGCN__
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float4_ __attribute__((ext_vector_type(4)));
typedef float float8_ __attribute__((ext_vector_type(8)));
typedef float float16_ __attribute__((ext_vector_type(16)));

FUNCTION float small_of(unsigned x)
{
    return (float)(int)(x & 7) - 3;
}

KERNEL(matrix_16)
{
    if (TID >= 64 || GROUP > 0)
        return;
#if __gfx1030__
    for (int k = TID; k < 256; k += 64) {
        float d = 0;
        for (int s = 0; s < 16 * ((n & 3) + 1); s++)
            d += small_of(in[64 * (k / 16) + s]) * small_of(in[64 * (k & 15) + s] >> 8);
        out[k] = (unsigned)(int)d;
    }
#elif __gfx1201__
    if (TID >= 32)
        return;
    half8 a, b;
    float8_ d = { 0, 0, 0, 0, 0, 0, 0, 0 };
    for (int s = 0; s < (n & 3) + 1; s++) {
        for (int k = 0; k < 8; k++) {
            a[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + TID / 16 * 8 + k]);
            b[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + TID / 16 * 8 + k] >> 8);
        }
        d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, d);
        if (d[0] > 1000)
            break;
    }
    for (int k = 0; k < 8; k++)
        out[16 * (k + TID / 16 * 8) + (TID & 15)] = (unsigned)(int)d[k];
#elif __gfx1100__
    if (TID >= 32)
        return;
    half16 a, b;
    float8_ d = { 0, 0, 0, 0, 0, 0, 0, 0 };
    for (int s = 0; s < (n & 3) + 1; s++) {
        for (int k = 0; k < 16; k++) {
            a[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + k]);
            b[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + k] >> 8);
        }
        d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, d);
        if (d[0] > 1000)
            break;
    }
    for (int k = 0; k < 8; k++)
        out[16 * (2 * k + TID / 16) + (TID & 15)] = (unsigned)(int)d[k];
#else
    half4 a, b;
    float4_ d = { 0, 0, 0, 0 };
    for (int s = 0; s < (n & 3) + 1; s++) {
        for (int k = 0; k < 4; k++) {
            a[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + TID / 16 * 4 + k]);
            b[k] = (_Float16)small_of(in[s * 16 + 64 * (TID & 15) + TID / 16 * 4 + k] >> 8);
        }
        d = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, d, 0, 0, 0);
        if (d[0] > 1000)
            break;
    }
    for (int k = 0; k < 4; k++)
        out[16 * (TID / 16 * 4 + k) + (TID & 15)] = (unsigned)(int)d[k];
#endif
}
#else
static float small_of(unsigned x)
{
    return (float)(int)(x & 7) - 3;
}
HOST(matrix_16)
{
    for (int m = 0; m < 16; m++)
        for (int c = 0; c < 16; c++) {
            float d = 0;
            for (int k = 0; k < 16 * ((n & 3) + 1); k++)
                d += small_of(in[64 * m + k]) * small_of(in[64 * c + k] >> 8);
            out[16 * m + c] = (unsigned)(int)d;
        }
}
#endif

/* Long ones, whose results are used at once, and then overwritten. */
#ifdef __AMDGCN__
KERNEL(matrix_32)
{
    int lane = TID & 63;
    if (TID >= 64 || GROUP > 0)
        return;
#if !MFMA
    for (int k = lane; k < 1024; k += 64) {
        float d = 0;
        for (int i = 0; i < 8; i++)
            d += small_of(in[32 * (k / 32) % 512 + i]) * small_of(in[(k & 31) + 32 * i] >> 8);
        out[k] = (unsigned)(int)(d + d * d);
    }
#else
    half4 a, b;
    float16_ d, e;
    for (int k = 0; k < 16; k++)
        d[k] = 0;
    for (int k = 0; k < 4; k++) {
        a[k] = (_Float16)small_of(in[32 * (lane & 31) % 512 + lane / 32 * 4 + k]);
        b[k] = (_Float16)small_of(in[(lane & 31) + 32 * (lane / 32 * 4 + k)] >> 8);
    }
    d = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, d, 0, 0, 0);
    for (int k = 0; k < 16; k++)
        e[k] = d[k] * d[k];
    for (int k = 0; k < 16; k++) {
        float v = d[k];
        if (n > 100)
            v += e[k];
        out[32 * (k / 4 * 8 + lane / 32 * 4 + (k & 3)) + (lane & 31)] = (unsigned)(int)v;
    }
#endif
}
#else
HOST(matrix_32)
{
    (void)n;
    for (int m = 0; m < 32; m++)
        for (int c = 0; c < 32; c++) {
            float d = 0;
            for (int k = 0; k < 8; k++)
                d += small_of(in[32 * m % 512 + k]) * small_of(in[c + 32 * k] >> 8);
            out[32 * m + c] = (unsigned)(int)(d + d * d);
        }
}
#endif

/* Four small numbers to fp8 and back. */
#ifdef __AMDGCN__
KERNEL(fp8_pairs)
{
    unsigned x = in[ME];
    float f[4];
    for (int k = 0; k < 4; k++)
        f[k] = small_of(x >> 8 * k);
#if __gfx942__ || __gfx950__ || __gfx1201__
    int packed = __builtin_amdgcn_cvt_pk_fp8_f32(f[0], f[1], 0, false);
    int other;
    if (x & 1) {
        packed = __builtin_amdgcn_cvt_pk_fp8_f32(f[2], f[3], packed, true);
        other = __builtin_amdgcn_cvt_pk_bf8_f32(f[0], f[1], packed, false);
        packed = __builtin_amdgcn_cvt_pk_bf8_f32(f[0], f[1], other, true) & 0xffff;
        packed = __builtin_amdgcn_cvt_pk_fp8_f32(f[0], f[1], packed, false);
    }
    packed = __builtin_amdgcn_cvt_pk_fp8_f32(f[2], f[3], packed, true);
    f[0] = __builtin_amdgcn_cvt_f32_fp8(packed, 0);
    f[1] = __builtin_amdgcn_cvt_f32_fp8(packed, 1);
    f[2] = __builtin_amdgcn_cvt_f32_fp8(packed, 2);
    f[3] = __builtin_amdgcn_cvt_f32_fp8(packed, 3);
#endif
    out[ME] = (unsigned)(int)(f[0] + 10 * f[1] + 100 * f[2] + 1000 * f[3] + (float)n);
}
#else
HOST(fp8_pairs)
{
    for (int i = 0; i < ITEMS; i++)
        out[i] = (unsigned)(int)(small_of(in[i]) + 10 * small_of(in[i] >> 8) + 100 * small_of(in[i] >> 16) +
                                 1000 * small_of(in[i] >> 24) + (float)n);
}
#endif

/* A transcendental's result is used, a load that passes the caches by between. */
#ifdef __AMDGCN__
KERNEL(transcendentals)
{
    unsigned x = in[ME];
    float f = (float)(1u << (x & 15));
    float r = __builtin_amdgcn_rcpf(f); /* exact: powers of two */
    unsigned seen = __hip_atomic_load(&out[OUTS - 1], __ATOMIC_ACQUIRE, AGENT);
    r *= (float)(x >> 20);
#if __has_builtin(__builtin_amdgcn_logf)
    float l = __builtin_amdgcn_logf(f);
    float e = l > 3 ? __builtin_amdgcn_exp2f(l - 3) : 1;
#else /* hipRTC of LLVM 15 */
    float l = (float)(x & 15);
    float e = l > 3 ? __builtin_amdgcn_rcpf(8 / f) : 1;
#endif
    _Float16 h = __builtin_amdgcn_rcph((_Float16)f);
    double d = __builtin_amdgcn_rcp((double)f);
    out[ME] = (unsigned)(r * f) + (unsigned)(e * 2) + (unsigned)((float)h * f) + seen;
    out[ME + ITEMS] = (unsigned)(d * f);
}
#else
HOST(transcendentals)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned l = in[i] & 15;
        out[i] = (in[i] >> 20) + (l > 3 ? 2u << (l - 3) : 2) + 1;
        out[i + ITEMS] = 1;
    }
}
#endif
