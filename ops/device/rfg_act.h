/* SPDX-License-Identifier: MIT
 *
 * The activations of rfg/act.h. */

/* enum rfg_act */
#define RFG_ACT_SILU       0
#define RFG_ACT_GELU       1
#define RFG_ACT_GELU_TANH  2
#define RFG_ACT_RELU       3
#define RFG_ACT_RELU2      4
#define RFG_ACT_SWIGLUOAI  5
#define RFG_ACT_SITU       6
#define RFG_ACT_SWIGLUSTEP 7
#define RFG_ACT_LAST       RFG_ACT_SWIGLUSTEP

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

/* Below 0.625 v + v^3 P(v^2), P a fit of ours, good to 1e-7 of tanh(v); above it 1 - 2 / (1 + exp(2|v|)). */
RFG_DEVICE rfg_f32x2 rfg_tanh(rfg_f32x2 v)
{
    rfg_f32x2 z = rfg_mul2(v, v), p = rfg_both(-0.006096714176237583f),
              m = rfg_pair(rfg_magnitude(v.x), rfg_magnitude(v.y));
    p = rfg_fma2(p, z, rfg_both(0.020997179672122f));
    p = rfg_fma2(p, z, rfg_both(-0.05385090783238411f));
    p = rfg_fma2(p, z, rfg_both(0.1333276927471161f));
    p = rfg_fma2(p, z, rfg_both(-0.333333283662796f));
    p = rfg_fma2(rfg_mul2(v, z), p, v);
    rfg_f32x2 e =
        rfg_fma2(rfg_both(-2.0f), rfg_sigmoid_exp2(rfg_mul2(rfg_both(2.8853900817779268f), m)), rfg_both(1.0f));
    return rfg_pair(m.x < 0.625f ? p.x : v.x < 0.0f ? -e.x : e.x, m.y < 0.625f ? p.y : v.y < 0.0f ? -e.y : e.y);
}

/* Of `act`, a constant; of those that aren't a product with one (from swigluoai on): v. */
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

#ifdef RFG_GATE_ARGS
/* What `act`, a constant, makes of a gate and an up that have limits, by the formulas of rfg/act.h. RFG_GATE_ARGS: a
 * struct with those of struct rfg_gate. Activations of gates alone always have limits, if only infinity. (Of one element, and
 * by address: shipped rows have been measured with the code that this makes.) */
RFG_DEVICE float rfg_gate_up(const RFG_GATE_ARGS *a, float gate, float up, int act)
{
    if (act != RFG_ACT_SWIGLUSTEP)
        gate = gate > a->limit ? a->limit : gate;
    up = up > a->limit ? a->limit : up < -a->limit ? -a->limit : up;
    if (act == RFG_ACT_SWIGLUOAI) {
        gate *= rfg_sigmoid_exp2(rfg_both(-1.4426950408889634f * a->alpha * gate)).x;
        return gate * (up + 1.0f);
    }
    if (act == RFG_ACT_SITU) {
        float beta = a->alpha, linear = rfg_as_float((rfg_u32)a->linear_beta);
        float on = rfg_sigmoid_exp2(rfg_both(-1.4426950408889634f * gate)).x;
        rfg_f32x2 bent = rfg_tanh(rfg_pair(gate * rfg_rcp(beta), up * rfg_rcp(linear)));
        up = linear < rfg_as_float(0x7f800000u) ? linear * bent.y : up;
        return beta * bent.x * on * up;
    }
    if (act == RFG_ACT_SWIGLUSTEP) {
        gate = rfg_activate(rfg_both(gate), RFG_ACT_SILU).x;
        return (gate > a->limit ? a->limit : gate) * up;
    }
    return rfg_activate(rfg_both(gate), act).x * up;
}
#endif
