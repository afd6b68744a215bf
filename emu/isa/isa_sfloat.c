/* SPDX-License-Identifier: MIT
 *
 * Scalar floating point: SALU instructions of gfx11.5 and gfx12, and gfx12's transcendentals of one scalar. Denormals
 * by the mode, results rounded to nearest even; f16 results clear the upper half. */
#include "isa_math.h"

static float get_f32(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    uint32_t x = rs(w, i, k);
    return as_f32(ftz_in32(w) ? flush32(x) : x);
}
static float get_f16(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    uint32_t x = rs(w, i, k) & 0xffff;
    return h2f(ftz_in16(w) ? flush16(x) : x);
}
static void set_f32(struct emu_wave *w, const struct emu_inst *i, float f)
{
    ws(w, i, 0, ftz_out32(w) ? flush32(as_u32(f)) : as_u32(f));
}
static void set_f16(struct emu_wave *w, const struct emu_inst *i, double d)
{
    ws(w, i, 0, ftz_out16(w) ? flush16(d2h(d)) : d2h(d));
}

#define IEEE ((w->mode & EMU_MODE_IEEE) != 0)
#define F1(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        float a = get_f32(w, i, 1);                                                                                    \
        set_f32(w, i, e);                                                                                              \
    }
#define F2(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        float a = get_f32(w, i, 1), b = get_f32(w, i, 2);                                                              \
        set_f32(w, i, e);                                                                                              \
    }
#define H1(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        float a = get_f16(w, i, 1);                                                                                    \
        set_f16(w, i, e);                                                                                              \
    }
#define H2(n, e)                                                                                                       \
    H(n)                                                                                                               \
    {                                                                                                                  \
        float a = get_f16(w, i, 1), b = get_f16(w, i, 2);                                                              \
        set_f16(w, i, e);                                                                                              \
    }
/* A condition of f32 and of f16. */
#define CMP(n, e)                                                                                                      \
    H(s_cmp_##n##_f32)                                                                                                 \
    {                                                                                                                  \
        float a = get_f32(w, i, 0), b = get_f32(w, i, 1);                                                              \
        w->scc = e;                                                                                                    \
    }                                                                                                                  \
    H(s_cmp_##n##_f16)                                                                                                 \
    {                                                                                                                  \
        float a = get_f16(w, i, 0), b = get_f16(w, i, 1);                                                              \
        w->scc = e;                                                                                                    \
    }
/* v_s_*: one scalar through the transcendental unit, with VALU's modifiers. */
#define TRANS(n, e)                                                                                                    \
    H(v_s_##n##_f32)                                                                                                   \
    {                                                                                                                  \
        float a = as_f32(flush32(modified(i, rs(w, i, 1), 0x80000000)));                                               \
        float r = scaled(i, flushf((float)(e)), ftz_out32(w));                                                         \
        ws(w, i, 0, as_u32(r));                                                                                        \
    }                                                                                                                  \
    H(v_s_##n##_f16)                                                                                                   \
    {                                                                                                                  \
        uint32_t x = modified(i, rs(w, i, 1), 0x8000) & 0xffff;                                                        \
        float a = h2f(ftz_in16(w) ? flush16(x) : x);                                                                   \
        uint32_t r = d2h(e);                                                                                           \
        r = i->mods->omod || i->mods->clamp ? f2h(scaled(i, h2f(r), ftz_out16(w))) : r;                                \
        ws(w, i, 0, ftz_out16(w) ? flush16(r) : r);                                                                    \
    }
static uint32_t modified(const struct emu_inst *i, uint32_t x, uint32_t sign)
{
    x = i->mods->src[1] & EMU_ABS ? x & ~sign : x;
    return i->mods->src[1] & EMU_NEG ? x ^ sign : x;
}
static float scaled(const struct emu_inst *i, float f, bool flushes)
{
    static const float factor[4] = { 1, 2, 4, 0.5f };
    f = flushes ? f * factor[i->mods->omod] : f; /* omod is for modes without denormals */
    return !i->mods->clamp ? f : f > 0 ? (f < 1 ? f : 1) : 0;
}
#define A(n, f, s)
#include "ops_sfloat.def"
#undef F1
#undef F2
#undef H1
#undef H2
#undef CMP
#undef TRANS
#undef A

H(s_fmac_f32)
{
    set_f32(w, i, __builtin_fmaf(get_f32(w, i, 1), get_f32(w, i, 2), get_f32(w, i, 0)));
}
H(s_fma_f32)
{
    set_f32(w, i, __builtin_fmaf(get_f32(w, i, 1), get_f32(w, i, 2), get_f32(w, i, 3)));
}
H(s_fmac_f16)
{
    set_f16(w, i, (double)get_f16(w, i, 1) * (double)get_f16(w, i, 2) + (double)get_f16(w, i, 0));
}
H(s_cvt_f32_i32)
{
    set_f32(w, i, (float)(int32_t)rs(w, i, 1));
}
H(s_cvt_f32_u32)
{
    set_f32(w, i, (float)rs(w, i, 1));
}
H(s_cvt_i32_f32)
{
    ws(w, i, 0, cvt_i32(truncf(get_f32(w, i, 1))));
}
H(s_cvt_u32_f32)
{
    float a = get_f32(w, i, 1);
    ws(w, i, 0, a > 4294967040.0f ? 0xffffffff : a > 0 ? (uint32_t)(int64_t)a : 0);
}
H(s_cvt_f16_f32)
{
    set_f16(w, i, (double)get_f32(w, i, 1));
}
H(s_cvt_f32_f16)
{
    set_f32(w, i, get_f16(w, i, 1));
}
H(s_cvt_hi_f32_f16)
{
    uint32_t x = rs(w, i, 1) >> 16;
    set_f32(w, i, h2f(ftz_in16(w) ? flush16(x) : x));
}
H(s_cvt_pk_rtz_f16_f32)
{
    ws(w, i, 0, f2h_rtz(get_f32(w, i, 1)) | f2h_rtz(get_f32(w, i, 2)) << 16);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s) { #n, h_##n, s, EMU_SALU, 0 },
#define F1(n, e) ROW(n, "d1 s1f")
#define F2(n, e) ROW(n, "d1 s1f s1f")
#define H1(n, e) ROW(n, "d1 s1h")
#define H2(n, e) ROW(n, "d1 s1h s1h")
#define CMP(n, e) ROW(s_cmp_##n##_f32, "s1f s1f|s") ROW(s_cmp_##n##_f16, "s1h s1h|s")
#define TRANS(n, e) ROW(v_s_##n##_f32, "d1 s1f") ROW(v_s_##n##_f16, "d1 s1h")
#define A(n, f, s) { #n, h_##f, s, EMU_SALU, 0 },
#include "ops_sfloat.def"
    ROW(s_fmac_f32, "b1f s1f s1f")
    ROW(s_fmac_f16, "b1h s1h s1h")
    A(s_fmaak_f32, s_fma_f32, "d1 s1f s1f s1f")
    A(s_fmamk_f32, s_fma_f32, "d1 s1f s1f s1f")
    ROW(s_cvt_f32_i32, "d1 s1")
    ROW(s_cvt_f32_u32, "d1 s1")
    ROW(s_cvt_i32_f32, "d1 s1f")
    ROW(s_cvt_u32_f32, "d1 s1f")
    ROW(s_cvt_f16_f32, "d1 s1f")
    ROW(s_cvt_f32_f16, "d1 s1h")
    ROW(s_cvt_hi_f32_f16, "d1 s1")
    ROW(s_cvt_pk_rtz_f16_f32, "d1 s1f s1f")
};
/* clang-format on */
const struct emu_ops EMU_N(ops_sfloat) = { rows, COUNT(rows) };
