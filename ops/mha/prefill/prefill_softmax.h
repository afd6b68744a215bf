/* SPDX-License-Identifier: MIT
 *
 * Prefill's online softmax, of prefill_amd.hip, prefill_nvidia.hip and prefill_wgmma.hip: scores in registers become
 * probabilities relative to a maximum that lags, and at the end outputs are divided by their sum and stored. The
 * kernels define store_rows(). */

/* What a wave has of its queries. */
struct state {
    rfg_frag_c o[FRAGS_Q][D_BLOCKS];
    float top[FRAGS_Q][RFG_S_ROWS];             /* the maximum that is subtracted */
    float sum[FRAGS_Q][RFG_S_ROWS][RFG_S_SUMS]; /* of this lane's probabilities */
#if ALIBI
    float slope[FRAGS_Q][RFG_S_ROWS];
#endif
    int row0; /* the wave's first row */
};

RFG_DEVICE float absolute(float f)
{
    return rfg_as_float(rfg_as_u32(f) & 0x7fffffffu);
}

/* What a score is multiplied by to be a power of two's exponent. */
RFG_DEVICE float factor_of(const struct mha_args *a)
{
    return CAP || ALIBI ? 1.0f : absolute(a->scale) * LOG2_E;
}

/* Scores to exponents of two, where multiplication by a factor does not do it. */
#if CAP || ALIBI
RFG_DEVICE void change_scores(const struct mha_args *a, const struct work_item *p, const struct state *w,
                              rfg_frag_c (*s)[BLOCKS], int key0)
{
    float scale = absolute(a->scale);
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#if ALIBI
        float ahead[RFG_S_ROWS]; /* how far the query is ahead of the lane's first key */
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++)
            ahead[h] = (float)(query_of(p, w->row0 + rfg_s_query(rfg_lane(), f, h)) + p->skv - p->sq - key0 -
                               rfg_s_lane_key(rfg_lane()));
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
                v = rfg_fma(-w->slope[f][rfg_s_half(e)], absolute(ahead[rfg_s_half(e)] - (float)rfg_s_key(j, e)), v);
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
RFG_DEVICE struct seen seen_by(const struct mha_args *a, const struct work_item *p, int query)
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

RFG_DEVICE void mask_scores(const struct mha_args *a, const struct work_item *p, const struct state *w,
                            rfg_frag_c (*s)[BLOCKS], int key0)
{
    int row0 = rfg_recompute(w->row0), lane = rfg_recompute_lane();
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            struct seen seen = seen_by(a, p, query_of(p, row0 + rfg_s_query(lane, f, h)));
            int from = key0 + rfg_s_lane_key(lane) - seen.first;
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (rfg_s_half(e) == h)
                        s[f][j].v[e] = (rfg_u32)(from + rfg_s_key(j, e)) < (rfg_u32)seen.count
                                           ? s[f][j].v[e]
                                           : rfg_as_float(0xff800000u);
        }
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* Is a score of any lane more than the slack above the maximum that is subtracted? top: the lane's largest. */
RFG_DEVICE bool find_top(const struct state *w, rfg_frag_c (*s)[BLOCKS], float (*top)[RFG_S_ROWS], float slack)
{
    bool above = false;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            float t = rfg_as_float(0xff800000u);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (rfg_s_half(e) == h)
                        t = rfg_max(t, s[f][j].v[e]);
            top[f][h] = t;
            above |= t > w->top[f][h] + slack;
        }
    return rfg_any_lane(above);
}

/* Raises the maximum that is subtracted, of all of the wave's rows (INVARIANT, defined: of those alone that must).
 * scale: what the output is to be multiplied by. */
RFG_DEVICE void raise_top(struct state *w, const float (*top)[RFG_S_ROWS], float (*scale)[RFG_S_ROWS], float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            float old = w->top[f][h], now = rfg_max(old, rfg_s_reduce(top[f][h], true));
#ifdef INVARIANT /* not because another row of the wave wants it */
            now = now > old + rfg_min(SLACK * rfg_rcp(factor), 1e30f) ? now : old;
#endif
            scale[f][h] = rfg_exp2((old - now) * factor);
            w->top[f][h] = now;
#pragma unroll
            for (int i = 0; i < RFG_S_SUMS; i++)
                w->sum[f][h][i] *= scale[f][h];
        }
}
RFG_DEVICE void scale_output(struct state *w, const float (*scale)[RFG_S_ROWS])
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++)
                w->o[f][d].v[e] *= scale[f][rfg_s_half(e)];
}

RFG_DEVICE float whole_sum(const struct state *w, int f, int h)
{
    return RFG_S_SUMS == 2 ? w->sum[f][h][0] + w->sum[f][h][RFG_S_SUMS - 1] : w->sum[f][h][0];
}

/* Scores to probabilities, and their sums. */
RFG_DEVICE void softmax_step(struct state *w, rfg_frag_c (*s)[BLOCKS], float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            float *sums = w->sum[f][h];
            rfg_f32x2 sum = RFG_S_SUMS == 2 ? rfg_pair(sums[0], sums[RFG_S_SUMS - 1]) : rfg_pair(0.0f, 0.0f);
            rfg_f32x2 by = rfg_pair(factor, factor);
            float shift = -factor * w->top[f][h];
            rfg_f32x2 minus = rfg_pair(shift, shift);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e += 2)
                    if (rfg_s_half(e) == h) {
                        rfg_f32x2 x = rfg_fma2(rfg_pair(s[f][j].v[e], s[f][j].v[e + 1]), by, minus);
                        x = rfg_pair(rfg_exp2(x.x), rfg_exp2(x.y));
                        sum = rfg_add2(sum, x);
                        s[f][j].v[e] = x.x;
                        s[f][j].v[e + 1] = x.y;
                    }
            sums[0] = RFG_S_SUMS == 2 ? sum.x : sums[0] + (sum.x + sum.y);
            if (RFG_S_SUMS == 2)
                sums[RFG_S_SUMS - 1] = sum.y;
        }
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

/* Where a row's output goes. */
struct row_end {
    rfg_u16 *to; /* element 0 */
    float scale;
    bool in; /* is there such a row? */
};

/* top, sum: the row's maximum and sum of probabilities, of all lanes. With sinks they take part in the scale and in the
 * log-sum-exp. */
RFG_DEVICE struct row_end end_row(const struct mha_args *a, const struct work_item *p, int row, float top, float sum,
                                  float factor, bool store_lse)
{
    struct row_end r;
    r.in = row < p->rows;
    int at = r.in ? row : p->rows - 1;
    r.scale = sum > 0.0f ? rfg_rcp(sum) : sum * 0.0f; /* no key: 0; a NaN stays one */
    float lse = sum > 0.0f ? factor * top + rfg_log2(sum) : sum == 0.0f ? rfg_as_float(0xff800000u) : sum;
    if (a->sinks) {
        float sink = LOG2_E * load_sink(a, head_of(p, at));
        float most = rfg_max(lse, sink);
        if (most > rfg_as_float(0xff800000u)) {
            float all = most + rfg_log2(rfg_exp2(lse - most) + rfg_exp2(sink - most));
            r.scale = sum > 0.0f ? r.scale * rfg_exp2(lse - all) : r.scale;
            lse = sum == sum ? all : sum;
        }
    }
    if (a->lse && r.in && store_lse && rfg_s_lane_key(rfg_lane()) == 0) {
        long long b = a->q_begin ? 0 : p->b;
        rfg_store4(a->lse + b * a->lse_batch + (p->q_row + query_of(p, at)) * a->lse_token +
                       head_of(p, at) * a->lse_head,
                   rfg_as_u32(lse * LN_2));
    }
    r.to = element_of(a, &a->out, p, at);
    return r;
}
