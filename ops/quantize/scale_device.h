/* SPDX-License-Identifier: MIT
 *
 * For kernels that include it after rfg_device.h: the scales of dequantize, quantize and quantize_scale.
 *
 * Macros: SCALE_DTYPE; of those that make scales also Q_DTYPE, ROUNDING (enum rfg_scale_rounding), RECIPROCAL (flags).
 */
#if SCALE_DTYPE != RFG_F32 && SCALE_DTYPE != RFG_E8M0 && (SCALE_DTYPE != RFG_E4M3 || Q_DTYPE != RFG_E2M1)
#error "SCALE_DTYPE: must be f32, e8m0, or e4m3 of e2m1"
#endif
#if !RFG_IS_CODE(Q_DTYPE) && !RFG_IS_4_BITS(Q_DTYPE)
#error "Q_DTYPE: must be e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4"
#endif
#define PER_BYTE (RFG_IS_4_BITS(Q_DTYPE) ? 2 : 1) /* codes, the first in the low bits */

#ifdef ROUNDING
#include "quantize/quotient.h"

#define EXACT RFG_SCALE_EXACT
#define UP    RFG_SCALE_UP

#define OF_MAX   1
#define OF_SCALE 2

/* Whether amax and its scale are near 1, as quotient.h has it. What is below the floor doesn't count. */
RFG_DEVICE bool is_near(float amax, struct quantize_rule r)
{
    amax = rfg_max(amax, r.floor_amax);
    return (ROUNDING != EXACT && ROUNDING != UP) || (amax >= 0x1p-60f && amax <= r.near);
}

/* The scale for values up to `amax`, as bits: a float's, or of powers of two the exponent's, with 255 for infinity.
 * near: perhaps false though is_near(). */
RFG_DEVICE rfg_u32 scale_of(float amax, struct quantize_rule r, bool near)
{
    amax = rfg_max(amax, r.floor_amax);
    if (ROUNDING == EXACT || ROUNDING == UP) {
        struct quotient by_max = { 1.0f, r.inverse_max, r.max };
        float s = RECIPROCAL & OF_MAX ? amax * r.inverse_max : near ? quotient_of_near(amax, by_max) : amax / r.max;
        s = rfg_max(s, r.floor_scale);
        if (ROUNDING == EXACT)
            return rfg_as_u32(s) ? rfg_as_u32(s) : rfg_as_u32(r.zero_scale);
        return rfg_power_scale(s, UP, Q_DTYPE);
    }
    return rfg_power_scale(amax, ROUNDING, Q_DTYPE);
}

RFG_DEVICE float scale_value(rfg_u32 s)
{
    if (SCALE_DTYPE == RFG_E8M0 && s == 255u)
        return rfg_as_float(0x7fc00000u);
    return ROUNDING == EXACT ? rfg_as_float(s) : rfg_power_of(s);
}

RFG_DEVICE void store_scale(void *scale, long long at, rfg_u32 s)
{
    if (SCALE_DTYPE != RFG_F32)
        rfg_store1((char *)scale + at, s);
    else
        rfg_store_float(scale, at, scale_value(s), RFG_F32);
}
#endif
