/* SPDX-License-Identifier: MIT
 *
 * x / s, rounded to nearest, of many x and one s, by three instructions each. For kernels that include it after
 * rfg_device.h.
 *
 * r is 1 / s, rounded. q = x r is off by up to 1.5 last places; q less r times its remainder q s - x is the rounded
 * quotient of all fp32 numbers, as long as nothing overflows, and nothing that counts underflows. Only quotients that
 * are next to what is halfway between two numbers could be in doubt; tests/ops/test_quotient.c tries all of these. */

/* Between these nothing does, if q doesn't overflow. What is below 2^-19, so 0 as a code, may lose places, but neither
 * its sign nor that it is small. */
#define QUOTIENT_LEAST 0x1p-80f
#define QUOTIENT_MOST  0x1p125f

struct quotient {
    float before; /* what x is multiplied with first: a power of two, with the sign of s */
    float r, s;
};

/* By what lies between these. */
RFG_DEVICE struct quotient quotient_near(float s)
{
    struct quotient d;
    d.before = 1.0f;
    d.r = rfg_reciprocal(s);
    d.s = s;
    return d;
}

/* By anything. */
RFG_DEVICE struct quotient quotient_by(float s)
{
    struct quotient d;
    rfg_u32 sign = rfg_as_u32(s) & 0x80000000u;
    float size = rfg_as_float(rfg_as_u32(s) ^ sign);
    bool finite = size > 0.0f && size < rfg_as_float(0x7f800000u);
    /* What this makes overflow or underflow does so as a code, too. */
    float before = !finite ? 1.0f : size < QUOTIENT_LEAST ? 0x1p100f : size > QUOTIENT_MOST ? 0x1p-100f : 1.0f;
    d.before = rfg_as_float(rfg_as_u32(before) | sign);
    d.s = finite ? size * before : 0.0f; /* with which x r stays what it is */
    d.r = finite ? rfg_reciprocal(d.s) : rfg_rcp(size);
    return d;
}

/* d: of a quotient_near(); x / s doesn't overflow. */
RFG_DEVICE float quotient_of_near(float x, struct quotient d)
{
    float q = x * d.r;
    return rfg_fma(-rfg_fma(q, d.s, -x), d.r, q); /* these signs keep that of -0 */
}

RFG_DEVICE float quotient_of(float x, struct quotient d)
{
    x *= d.before;
    float q = x * d.r;
    return (rfg_as_u32(q) & 0x7fffffffu) < 0x7f800000u ? quotient_of_near(x, d) : q;
}
