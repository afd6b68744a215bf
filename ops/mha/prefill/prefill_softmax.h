/* SPDX-License-Identifier: MIT
 *
 * Of prefill.hip and prefill_wgmma.hip: scores in registers to weights, with a maximum that lags, and the end. */
/* What a wave knows of its queries. */
struct state {
    rfg_frag_c o[FRAGS_Q][D_BLOCKS];
    float top[FRAGS_Q][HALVES];       /* the lagging maximum of scores */
    float sum[FRAGS_Q][HALVES][SUMS]; /* of this lane's weights */
#if ALIBI
    float slope[FRAGS_Q][HALVES];
#endif
    int row0; /* the wave's first row */
};

RFG_DEVICE float absolute(float f)
{
    return rfg_as_float(rfg_as_u32(f) & 0x7fffffffu);
}

/* Over the lanes that share a query. */
RFG_DEVICE float join_lanes(float v, bool largest)
{
#if RFG_NVIDIA
    v = rfg_join(v, rfg_shuffle_xor(v, 1), largest);
    v = rfg_join(v, rfg_shuffle_xor(v, 2), largest);
#else
    v = rfg_join(v, rfg_other_row(v), largest);
#if RFG_WAVE == 64
    v = rfg_join(v, rfg_shuffle_xor(v, 32), largest);
#endif
#endif
    return v;
}

/* What a score is multiplied by to be a power of two's exponent. */
RFG_DEVICE float factor_of(const struct mha_args *a)
{
    return CAP || ALIBI ? 1.0f : absolute(a->scale) * LOG2_E;
}

/* Scores to exponents, where a factor does not do it. */
#if CAP || ALIBI
RFG_DEVICE void change_scores(const struct mha_args *a, const struct place *p, const struct state *w,
                              rfg_frag_c (*s)[BLOCKS], int key0)
{
    float scale = absolute(a->scale);
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#if ALIBI
        float ahead[HALVES]; /* how far the query is ahead of the lane's first key */
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            ahead[h] = (float)(query_of(p, w->row0 + lane_row(rfg_lane(), f, h)) + p->skv - p->sq - key0 -
                               lane_key(rfg_lane()));
#endif
#pragma unroll
        for (int j = 0; j < BLOCKS; j++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++) {
                float v = s[f][j].v[e];
#if CAP
                /* tanh(x) = 1 - 2 / (exp(2 x) + 1) */
                v = rfg_exp2(v * (2.0f * LOG2_E * scale / a->soft_cap)) + 1.0f;
                v = rfg_fma(-2.0f * LOG2_E * a->soft_cap, rfg_rcp(v), LOG2_E * a->soft_cap);
#else
                v *= scale * LOG2_E;
#endif
#if ALIBI
                v = rfg_fma(-w->slope[f][half_of(e)], absolute(ahead[half_of(e)] - (float)element_key(j, e)), v);
#endif
                s[f][j].v[e] = v;
            }
    }
}
#endif

/* A query sees keys first ... first + count - 1. */
struct seen {
    int first, count;
};
RFG_DEVICE struct seen seen_by(const struct mha_args *a, const struct place *p, int query)
{
    struct seen s = { 0, p->skv };
    int far = 1 << 30, at = query + p->skv - p->sq; /* lengths are less than that */
    if (MASK & 2) {
        int left = a->window_left < far ? a->window_left : far;
        s.first = at - left > 0 ? at - left : 0;
    }
    if (MASK) {
        int right = a->window_right < far ? a->window_right : far;
        int end = at + right + 1 < p->skv ? at + right + 1 : p->skv;
        s.count = end > s.first ? end - s.first : 0;
    }
    return s;
}

RFG_DEVICE void mask_scores(const struct mha_args *a, const struct place *p, const struct state *w,
                            rfg_frag_c (*s)[BLOCKS], int key0)
{
    int row0 = anew(w->row0), lane = lane_anew();
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            struct seen seen = seen_by(a, p, query_of(p, row0 + lane_row(lane, f, h)));
            int from = key0 + lane_key(lane) - seen.first;
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (half_of(e) == h)
                        s[f][j].v[e] = (rfg_u32)(from + element_key(j, e)) < (rfg_u32)seen.count
                                           ? s[f][j].v[e]
                                           : rfg_as_float(0xff800000u);
        }
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* Does a lane's score lie above what the maximum may lag by? top: the lane's largest. */
RFG_DEVICE bool find_top(const struct state *w, rfg_frag_c (*s)[BLOCKS], float (*top)[HALVES], float slack)
{
    bool above = false;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float t = rfg_as_float(0xff800000u);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (half_of(e) == h)
                        t = rfg_max(t, s[f][j].v[e]);
            top[f][h] = t;
            above |= t > w->top[f][h] + slack;
        }
    return rfg_any_lane(above);
}

/* The maximum catches up. scale: what the output is to be multiplied by. */
RFG_DEVICE void raise_top(struct state *w, const float (*top)[HALVES], float (*scale)[HALVES], float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float old = w->top[f][h], now = rfg_max(old, join_lanes(top[f][h], true));
            scale[f][h] = rfg_exp2((old - now) * factor);
            w->top[f][h] = now;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                w->sum[f][h][i] *= scale[f][h];
        }
}
RFG_DEVICE void scale_output(struct state *w, const float (*scale)[HALVES])
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++)
                w->o[f][d].v[e] *= scale[f][half_of(e)];
}

RFG_DEVICE float whole_sum(const struct state *w, int f, int h)
{
    return SUMS == 2 ? w->sum[f][h][0] + w->sum[f][h][SUMS - 1] : w->sum[f][h][0];
}

/* Scores to weights. */
RFG_DEVICE void weigh(struct state *w, rfg_frag_c (*s)[BLOCKS], float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float *sums = w->sum[f][h];
            rfg_f32x2 sum = SUMS == 2 ? rfg_pair(sums[0], sums[SUMS - 1]) : rfg_pair(0.0f, 0.0f);
            rfg_f32x2 by = rfg_pair(factor, factor);
            float shift = -factor * w->top[f][h];
            rfg_f32x2 minus = rfg_pair(shift, shift);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e += 2)
                    if (half_of(e) == h) {
                        rfg_f32x2 x = rfg_fma2(rfg_pair(s[f][j].v[e], s[f][j].v[e + 1]), by, minus);
                        x = rfg_pair(rfg_exp2(x.x), rfg_exp2(x.y));
                        sum = rfg_add2(sum, x);
                        s[f][j].v[e] = x.x;
                        s[f][j].v[e + 1] = x.y;
                    }
            sums[0] = SUMS == 2 ? sum.x : sums[0] + (sum.x + sum.y);
            if (SUMS == 2)
                sums[SUMS - 1] = sum.y;
        }
}

/* Two weights, which are neither negative nor infinite. */
RFG_DEVICE rfg_u32 pack_weights(float lo, float hi)
{
#if RFG_NVIDIA
    return DTYPE == RFG_F16 ? rfg_pack_f16(lo, hi) : rfg_pack_bf16(lo, hi);
#elif defined(__gfx950__)
    if (DTYPE == RFG_BF16) {
        typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
        bf16x2 v = { (__bf16)lo, (__bf16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
#endif
#if RFG_AMD
    /* What has just been written by a transcendental instruction must not go into assembly: see rfg_amd.h. */
    if (DTYPE == RFG_F16) {
        rfg_f16x2 v = { (_Float16)lo, (_Float16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
    /* Ties away from zero, which saves an instruction a weight. */
#if defined(__gfx942__)
    /* Both by one addition of 64 bits: the lower one doesn't overflow. */
    rfg_u64 both = ((rfg_u64)rfg_as_u32(hi) << 32 | rfg_as_u32(lo)) + 0x0000800000008000ull;
    return halves_of((rfg_u32)both, (rfg_u32)(both >> 32), true);
#endif
    return halves_of(rfg_as_u32(lo) + 0x8000u, rfg_as_u32(hi) + 0x8000u, true);
#endif
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

#if RFG_AMD
RFG_DEVICE void store_chunk(rfg_u16 *p, const float *f)
{
    rfg_u32x4 v;
    v.x = DTYPE == RFG_F16 ? rfg_pack_f16(f[0], f[1]) : rfg_pack_bf16(f[0], f[1]);
    v.y = DTYPE == RFG_F16 ? rfg_pack_f16(f[2], f[3]) : rfg_pack_bf16(f[2], f[3]);
    v.z = DTYPE == RFG_F16 ? rfg_pack_f16(f[4], f[5]) : rfg_pack_bf16(f[4], f[5]);
    v.w = DTYPE == RFG_F16 ? rfg_pack_f16(f[6], f[7]) : rfg_pack_bf16(f[6], f[7]);
    rfg_store16(p, v);
}
#endif

/* What becomes of a row's output. */
struct row_end {
    rfg_u16 *to; /* element 0 */
    float scale;
    bool in; /* is there such a row? */
};

/* sum: of all lanes' weights; lse: is it to be stored? */
RFG_DEVICE struct row_end end_row(const struct mha_args *a, const struct place *p, int row, float top, float sum,
                                  float factor, bool store_lse)
{
    struct row_end r;
    r.in = row < p->rows;
    int at = r.in ? row : p->rows - 1;
    r.scale = sum > 0.0f ? rfg_rcp(sum) : sum * 0.0f; /* no key: 0; a NaN stays one */
    float lse = sum > 0.0f ? factor * top + rfg_log2(sum) : sum == 0.0f ? rfg_as_float(0xff800000u) : sum;
    if (a->sinks) {
        float sink = LOG2_E * rfg_as_float(rfg_load4(a->sinks + head_of(p, at)));
        float most = rfg_max(lse, sink);
        if (most > rfg_as_float(0xff800000u)) {
            float all = most + rfg_log2(rfg_exp2(lse - most) + rfg_exp2(sink - most));
            r.scale = sum > 0.0f ? r.scale * rfg_exp2(lse - all) : r.scale;
            lse = sum == sum ? all : sum;
        }
    }
    if (a->lse && r.in && store_lse && lane_key(rfg_lane()) == 0) {
        long long b = a->q_begin ? 0 : p->b;
        rfg_store4(a->lse + b * a->lse_batch + (p->q_row + query_of(p, at)) * a->lse_token +
                       head_of(p, at) * a->lse_head,
                   rfg_as_u32(lse * LN_2));
    }
    r.to = element_of(a, &a->out, p, at);
    return r;
}

#if RFG_NVIDIA
/* 32 columns of a row: of 4 neighbouring lanes each has two of each of 4 chunks (o[0].v[0], o[0].v[1], o[0].v[4], ...
 * o[1].v[4], o[1].v[5]); lane t gets all of chunk t. */
RFG_DEVICE void store_chunks(const struct row_end *r, const float *a, const float *b, int column)
{
    int t = rfg_lane() % 4;
    rfg_u32 c[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *v = (i < 2 ? a : b) + 4 * (i % 2);
        c[i] = DTYPE == RFG_F16 ? rfg_pack_f16(v[0] * r->scale, v[1] * r->scale)
                                : rfg_pack_bf16(v[0] * r->scale, v[1] * r->scale);
    }
    /* A 4x4 transpose: first between lanes whose numbers differ in bit 1, then bit 0. */
#pragma unroll
    for (int bit = 2; bit; bit /= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & bit)) {
                rfg_u32 lo = c[i], hi = c[i + bit];
                rfg_u32 got = __shfl_xor_sync(0xffffffffu, t & bit ? lo : hi, bit);
                c[i] = t & bit ? got : lo;
                c[i + bit] = t & bit ? hi : got;
            }
    if (r->in)
        rfg_store16(r->to + column + 8 * t, make_uint4(c[0], c[1], c[2], c[3]));
}
#endif

RFG_DEVICE void store_rows(const struct mha_args *a, const struct place *p, struct state *w, float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            struct row_end r = end_row(a, p, w->row0 + lane_row(rfg_lane(), f, h), w->top[f][h],
                                       join_lanes(whole_sum(w, f, h), false), factor, true);
#if RFG_NVIDIA
#pragma unroll
            for (int d = 0; d < D_BLOCKS; d += 2)
                store_chunks(&r, w->o[f][d].v + 2 * h, w->o[f][d + 1].v + 2 * h, 16 * d);
#else
            if (r.in)
#pragma unroll
                for (int d = 0; d < D_BLOCKS * RFG_FRAG_C / 8; d++) {
                    float v[8];
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        v[e] = w->o[f][(8 * d + e) / RFG_FRAG_C].v[e % RFG_FRAG_C] * r.scale;
                    store_chunk(r.to + element_key(8 * d / RFG_FRAG_C, 0) + lane_key(rfg_lane()), v);
                }
#endif
        }
}
