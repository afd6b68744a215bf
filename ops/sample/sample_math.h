/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of sample, which the host and the kernels share, so that their results are the same bits: integers,
 * and fp32 operations that are rounded once each. Who includes it says what these are: SAMPLE_FN (what a function is
 * declared as), SAMPLE_FMA(a, b, c), SAMPLE_MUL(a, b) (never fused with a sum), SAMPLE_BITS(f), SAMPLE_FLOAT(u). */
#ifndef RFG_SAMPLE_MATH_H
#define RFG_SAMPLE_MATH_H

#define SAMPLE_ONE       (1ull << 40)
#define SAMPLE_NONE      (-SAMPLE_FLOAT(0x7f800000u))
#define SAMPLE_NO_LOGITS 0x007fffffu /* the order of -infinity */

/* 1 / f of a normal f > 0, below 2^126: Newton's method from a guess by the bits, so that all machines agree. */
SAMPLE_FN float sample_reciprocal(float f)
{
    float r = SAMPLE_FLOAT(0x7ef311c7u - SAMPLE_BITS(f));
    for (int i = 0; i < 4; i++)
        r = SAMPLE_FMA(r, SAMPLE_FMA(-f, r, 1.0f), r);
    return r;
}

/* In the order of the floats, -0 as +0; a NaN is -infinity. */
SAMPLE_FN unsigned int sample_order(float l)
{
    unsigned int u = SAMPLE_BITS(l);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        u = 0xff800000u;
    u = u == 0x80000000u ? 0 : u;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}
SAMPLE_FN float sample_of_order(unsigned int order)
{
    return SAMPLE_FLOAT(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

/* What is kept of a row's parameters. */
struct sample_row {
    float inverse_temperature, inverse_repetition, repetition, frequency, presence;
    unsigned int top_p; /* of 2^32; where it is off, not to be read */
    unsigned int min_p; /* of 2^24; 0: off */
    int k;              /* 0: off */
    int greedy, p_on;
};

SAMPLE_FN void sample_temperature(struct sample_row *r, float t)
{
    r->greedy = !(t >= 1e-5f);
    t = t < 0x1p20f ? t : 0x1p20f;
    r->inverse_temperature = r->greedy ? 1.0f : sample_reciprocal(t);
}
SAMPLE_FN void sample_top_p(struct sample_row *r, float p)
{
    r->p_on = p < 1.0f;
    r->top_p = r->p_on && p > 0.0f ? (unsigned int)SAMPLE_MUL(p, 0x1p32f) : 0;
}
SAMPLE_FN void sample_min_p(struct sample_row *r, float p)
{
    r->min_p = p > 0.0f ? (unsigned int)SAMPLE_MUL(p < 1.0f ? p : 1.0f, 0x1p24f) : 0;
}
SAMPLE_FN void sample_repetition(struct sample_row *r, float by)
{
    int on = by > 0x1p-100f && by < 0x1p100f;
    r->repetition = on ? by : 1.0f;
    r->inverse_repetition = on ? sample_reciprocal(by) : 1.0f;
}
SAMPLE_FN void sample_defaults(struct sample_row *r)
{
    r->inverse_temperature = r->inverse_repetition = r->repetition = 1.0f;
    r->frequency = r->presence = 0.0f;
    r->top_p = r->min_p = 0;
    r->k = r->greedy = r->p_on = 0;
}

SAMPLE_FN float sample_penalised(const struct sample_row *r, float l, int count, int in_prompt)
{
    if (count > 0 || in_prompt)
        l = l > 0.0f ? SAMPLE_MUL(l, r->inverse_repetition) : SAMPLE_MUL(l, r->repetition);
    if (count > 0)
        l = SAMPLE_FMA(-r->frequency, (float)count, l) - r->presence;
    return l;
}

/* exp((l - largest) / temperature), in units of 2^-40, rounded down; 0 below min_p. l by its order, as sample_order()
 * gives it. */
SAMPLE_FN unsigned long long sample_weight(const struct sample_row *r, unsigned int order, unsigned int largest,
                                           int filtered)
{
    if (order >= largest)
        return SAMPLE_ONE;
    float t = SAMPLE_MUL(SAMPLE_MUL(sample_of_order(order) - sample_of_order(largest), r->inverse_temperature),
                         0x1.715476p+0f);
    if (!(t > -41.0f))
        return 0;
    int n = (int)t;
    float f = t - (float)n; /* in (-1, 0]; 2^f by a polynomial that is 1 at 0, within 2.2e-8 */
    float p = SAMPLE_FMA(f, 0x1.c8c1aap-14f, 0x1.4e10eep-10f);
    p = SAMPLE_FMA(f, p, 0x1.39e026p-7f);
    p = SAMPLE_FMA(f, p, 0x1.c69408p-5f);
    p = SAMPLE_FMA(f, p, 0x1.ebfab8p-3f);
    p = SAMPLE_FMA(f, p, 0x1.62e42cp-1f);
    p = SAMPLE_FMA(f, p, 1.0f);
    unsigned long long w = (unsigned long long)(unsigned int)SAMPLE_MUL(p, 0x1p24f) << 16 >> -n;
    return filtered && w >> 16 < r->min_p ? 0 : w;
}

/* The upper half of a product. */
SAMPLE_FN unsigned long long sample_mul_high(unsigned long long a, unsigned long long b)
{
    unsigned long long al = (unsigned int)a, ah = a >> 32, bl = (unsigned int)b, bh = b >> 32;
    unsigned long long mid = ah * bl + (al * bl >> 32), low = al * bh + (unsigned int)mid;
    return ah * bh + (mid >> 32) + (low >> 32);
}

/* How much of the weight `all` the largest tokens must have together. */
SAMPLE_FN unsigned long long sample_share(const struct sample_row *r, unsigned long long all)
{
    unsigned long long share = sample_mul_high(all, (unsigned long long)r->top_p << 32);
    return share ? share : 1;
}

/* The fewest times that w makes at least `sum`; w > 0, and V times are enough. */
SAMPLE_FN int sample_times(unsigned long long w, unsigned long long sum)
{
    int low = 1, high = SAMPLE_MAX_V;
    while (low < high) {
        int middle = (low + high) / 2;
        if ((unsigned long long)middle * w >= sum)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first two words of Philox 4x32-10. */
SAMPLE_FN unsigned long long sample_random(unsigned long long seed, unsigned long long offset)
{
    unsigned int c0 = (unsigned int)offset, c1 = (unsigned int)(offset >> 32), c2 = 0, c3 = 0;
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    for (int i = 0; i < 10; i++) {
        unsigned long long a = (unsigned long long)c0 * 0xd2511f53u, b = (unsigned long long)c2 * 0xcd9e8d57u;
        c0 = (unsigned int)(b >> 32) ^ c1 ^ k0;
        c1 = (unsigned int)b;
        c2 = (unsigned int)(a >> 32) ^ c3 ^ k1;
        c3 = (unsigned int)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (unsigned long long)c1 << 32 | c0;
}

#endif
