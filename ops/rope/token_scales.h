/* SPDX-License-Identifier: MIT
 *
 * Codes with a scale for each token and head (rfg/rope.h), of a row whose values are there. Included by rows.hip. */

/* How far a row goes from 0, either way. A NaN doesn't count. */
struct extent {
    float above, below;
};
RFG_DEVICE struct extent larger(struct extent a, struct extent b)
{
    a.above = rfg_max(a.above, b.above);
    a.below = rfg_max(a.below, b.below);
    return a;
}
RFG_DEVICE struct extent extent_of_unit(struct unit t, const float *a, const float *b)
{
    struct extent e = { 0.0f, 0.0f };
#pragma unroll
    for (int i = 0; i < E; i++) {
        if (t.a >= 0) {
            e.above = rfg_max(e.above, a[i]);
            e.below = rfg_max(e.below, -a[i]);
        }
        if (t.b >= 0) {
            e.above = rfg_max(e.above, b[i]);
            e.below = rfg_max(e.below, -b[i]);
        }
    }
    return e;
}

/* A row's scale as a word of memory, what its values are multiplied by, and the code that stands for 0. */
struct code_scale {
    rfg_u32 word;
    float inverse;
    int zero;
};
RFG_DEVICE struct code_scale code_scale_of(struct extent e)
{
    struct code_scale s;
#if KV_I4
    s.word = rfg_as_u32(rfg_max((e.above + e.below) / 15.0f, 1e-6f)) & ~15u;
#else
    s.word = rfg_as_u32(rfg_max(rfg_max(e.above, e.below) / RFG_CODE_MAX(KV_DTYPE), 1e-6f));
#endif
    s.inverse = 1.0f / rfg_as_float(s.word);
    s.zero = 0;
#if KV_I4
    s.zero = rfg_float_to_i8(e.below * s.inverse);
    s.zero = s.zero < 15 ? s.zero : 15;
    s.word |= (rfg_u32)s.zero;
#endif
    return s;
}

#if KV_I4
RFG_DEVICE rfg_u32 i4_code(float f, struct code_scale by)
{
    int code = rfg_float_to_i8(f * by.inverse) + by.zero;
    return (rfg_u32)(code < 0 ? 0 : code < 15 ? code : 15);
}
#endif

#if LANES
RFG_DEVICE float largest_of_row(float v)
{
#if LANES >= 16
    return rfg_reduce_lanes(v, LANES, true);
#else
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        v = rfg_max(v, rfg_shuffle_xor(v, mask));
    return v;
#endif
}
RFG_DEVICE struct extent extent_of_row(struct extent e)
{
    e.above = largest_of_row(e.above);
    e.below = largest_of_row(e.below);
    return e;
}

RFG_DEVICE void store_scaled_chunk(struct row r, int at, const float *f, struct code_scale by)
{
    if (at < 0)
        return;
#if KV_I4
    rfg_u32 codes = 0;
#pragma unroll
    for (int i = 0; i < E; i++)
        codes |= i4_code(f[i], by) << (4 * i);
    if (E == 8)
        rfg_store4(r.to + at / 2, codes);
    else if (E == 4)
        rfg_store2(r.to + at / 2, (rfg_u16)codes);
    else
        rfg_store1(r.to + at / 2, codes);
#else
    rfg_store_codes(r.to, (rfg_u32)at, E, f, by.inverse, KV_DTYPE, IN_DTYPE, WIDTH, STREAM == 2);
#endif
}
/* first: this lane stores the scale. */
RFG_DEVICE void store_scaled(struct row r, struct unit t, const float *a, const float *b, struct code_scale by,
                             bool first)
{
    store_scaled_chunk(r, t.a, a, by);
    store_scaled_chunk(r, t.b, b, by);
    if (first)
        rfg_store4(r.scale, by.word);
}
#else
/* Elements one by one, by way of LDS. */
RFG_DEVICE void keep_row(struct unit t, const float *a, const float *b)
{
    float *row = (float *)rfg_lds;
    if (t.a >= 0)
        row[t.a] = a[0];
    if (t.b >= 0)
        row[t.b] = b[0];
}
RFG_DEVICE void store_row(struct row r, int n, struct code_scale by)
{
    const float *row = (const float *)rfg_lds;
    for (int i = rfg_thread(); i < n * KV_BITS / 8 && r.to; i += THREADS)
#if KV_I4
        rfg_store1(r.to + i, i4_code(row[2 * i], by) | i4_code(row[2 * i + 1], by) << 4);
#else
        rfg_store1(r.to + i, rfg_quantise4(row[i] * by.inverse, 0.0f, 0.0f, 0.0f, KV_DTYPE));
#endif
    if (rfg_thread() == 0 && r.to)
        rfg_store4(r.scale, by.word);
}
#endif
