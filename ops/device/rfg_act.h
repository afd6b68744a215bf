/* SPDX-License-Identifier: MIT
 *
 * The activations of rfg/act.h. */

/* enum rfg_act */
#define RFG_ACT_SILU      0
#define RFG_ACT_GELU      1
#define RFG_ACT_GELU_TANH 2
#define RFG_ACT_RELU      3
#define RFG_ACT_RELU2     4
#define RFG_ACT_SWIGLUOAI 5

/* All by twos: see rfg_pair(). */
RFG_DEVICE rfg_f32x2 rfg_both(float f)
{
    return rfg_pair(f, f);
}

RFG_DEVICE rfg_f32x2 rfg_sigmoid_exp2(rfg_f32x2 minus_log2e_v)
{
    rfg_f32x2 f = rfg_add2(rfg_pair(rfg_exp2(minus_log2e_v.x), rfg_exp2(minus_log2e_v.y)), rfg_both(1.0f));
    return rfg_pair(rfg_rcp(f.x), rfg_rcp(f.y));
}

RFG_DEVICE float rfg_magnitude(float f)
{
    return rfg_as_float(rfg_as_u32(f) & 0x7fffffffu);
}

/* v Phi(v). erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z / 2): P is a Chebyshev fit of ours to log(erfc(z) / t) + z^2
 * on z in [0, 14], good to 9e-8 of erfc(z) everywhere, so that nothing cancels for negative v. */
RFG_DEVICE rfg_f32x2 rfg_gelu(rfg_f32x2 v)
{
    rfg_f32x2 z = rfg_mul2(rfg_pair(rfg_magnitude(v.x), rfg_magnitude(v.y)), rfg_both(0.70710678f));
    rfg_f32x2 t = rfg_fma2(z, rfg_both(0.5f), rfg_both(1.0f)), p = rfg_both(0.17100675404071808f);
    t = rfg_pair(rfg_rcp(t.x), rfg_rcp(t.y));
    p = rfg_fma2(p, t, rfg_both(-0.8196915984153748f));
    p = rfg_fma2(p, t, rfg_both(1.4752486944198608f));
    p = rfg_fma2(p, t, rfg_both(-1.107899785041809f));
    p = rfg_fma2(p, t, rfg_both(0.2488659769296646f));
    p = rfg_fma2(p, t, rfg_both(-0.16692271828651428f));
    p = rfg_fma2(p, t, rfg_both(0.0893019437789917f));
    p = rfg_fma2(p, t, rfg_both(0.3757663071155548f));
    p = rfg_fma2(p, t, rfg_both(0.9998276829719543f));
    p = rfg_fma2(p, t, rfg_both(-1.265503168106079f));
    p = rfg_mul2(rfg_both(1.4426950408889634f), rfg_fma2(rfg_pair(-z.x, -z.y), z, p));
    p = rfg_mul2(rfg_mul2(rfg_both(0.5f), t), rfg_pair(rfg_exp2(p.x), rfg_exp2(p.y))); /* erfc(z) / 2 */
    return rfg_mul2(v, rfg_pair(v.x < 0.0f ? p.x : 1.0f - p.x, v.y < 0.0f ? p.y : 1.0f - p.y));
}

/* Of `act`, a constant; of swigluoai, which isn't a product with one, and of none: v. */
RFG_DEVICE rfg_f32x2 rfg_activate(rfg_f32x2 v, int act)
{
    if (act == RFG_ACT_SILU)
        return rfg_mul2(v, rfg_sigmoid_exp2(rfg_mul2(rfg_both(-1.4426950408889634f), v)));
    if (act == RFG_ACT_GELU)
        return rfg_gelu(v);
    if (act == RFG_ACT_GELU_TANH) /* (1 + tanh(u)) / 2 = sigmoid(2u) */
        return rfg_mul2(
            v, rfg_sigmoid_exp2(rfg_mul2(v, rfg_fma2(rfg_mul2(v, v), rfg_both(-0.10294324f), rfg_both(-2.3022082f)))));
    if (act == RFG_ACT_RELU)
        return rfg_pair(v.x < 0.0f ? 0.0f : v.x, v.y < 0.0f ? 0.0f : v.y);
    if (act == RFG_ACT_RELU2)
        return rfg_pair(v.x < 0.0f ? 0.0f : v.x * v.x, v.y < 0.0f ? 0.0f : v.y * v.y);
    return v;
}
