/* SPDX-License-Identifier: MIT
 *
 * Of decode.hip: a step's scores to weights, relative to a maximum that lags; AMD's and NVIDIA's lanes hold other
 * pieces of them, and what is quick isn't the same. */
RFG_DEVICE bool is_masked(const struct mha_args *a, const struct unit *u, int token, int row)
{
    int at = u->len - SQ + row / GROUP;
    return token >= u->len || (MASK && (token - at > a->window_right || at - token > a->window_left));
}
/* Scores as powers of two, masked. */
RFG_DEVICE float score(const struct mha_args *a, const struct unit *u, float s, int token, int row, bool masks)
{
    int query = row / GROUP, at = u->len - SQ + query, head = u->head * GROUP + row % GROUP;
    if (CAP) {
        float x = s * u->scale / a->soft_cap; /* tanh */
        s = a->soft_cap * LOG2_E * (1.0f - 2.0f * rfg_rcp(1.0f + rfg_exp2(x * (2 * LOG2_E))));
    } else {
        s *= u->scale * LOG2_E;
    }
    if (ALIBI) {
        int far = at > token ? at - token : token - at;
        s -= rfg_as_float(rfg_load4(a->alibi + (head < a->hq ? head : 0))) * LOG2_E * (float)far;
    }
    if (masks && is_masked(a, u, token, row))
        s = MINUS_INFINITY;
    return s;
}
#if MMA_DTYPE != DTYPE
#define UP(t, i) q[t].up[(i) % LANE_QUERIES]
#else
#define UP(t, i) u->scale
#endif

#if RFG_AMD
/* Scores to weights by few instructions for each. First, what scores are above acc->m, by an FMA. It follows the matrix
 * instructions without a branch between: of several ways from there to here LLVM, up to 19 at least, looks at one alone
 * for how long to wait. */
struct relative {
    float w[TILES][RFG_FRAG_WX], factor[TILES];
};
RFG_DEVICE void relate(const struct mha_args *a, const struct unit *u, const struct queries *q, const struct sums *acc,
                       rfg_frag_wx *s, struct relative *r, int first)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float up = 1.0f;
#if MMA_DTYPE != DTYPE
        up = q[t].up[0];
#else
        (void)q;
#endif
        r->factor[t] = CAP || ALIBI ? 1.0f : u->scale * LOG2_E * up;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
            if (CAP || ALIBI)
                s[t].v[i] = score(a, u, s[t].v[i] * up, first + rfg_frag_c_row(i),
                                  u->row0 + t * Q_TILE + rfg_frag_c_col(i), false);
            r->w[t][i] = rfg_fma(s[t].v[i], r->factor[t], -acc->m[t][0]);
            asm volatile("" : "+v"(r->w[t][i]));
        }
    }
}
/* Then masks and a new m, by branches that are seldom taken. */
RFG_DEVICE void weigh(const struct mha_args *a, const struct unit *u, struct sums *acc, rfg_frag_wx *s,
                      struct relative *r, int first, bool masks)
{
    float(*w)[RFG_FRAG_WX] = r->w;
    bool raise = false;
    if (masks) {
        asm volatile("");
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                if (is_masked(a, u, first + rfg_frag_c_row(i), u->row0 + t * Q_TILE + rfg_frag_c_col(i)))
                    w[t][i] = MINUS_INFINITY;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            raise |= w[t][i] > SLACK;
    /* What weights are relative to need not be the largest score, only near it. */
    if (any_lane(raise)) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float m = acc->m[t][0];
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++) {
                s[t].v[i] = w[t][i] == MINUS_INFINITY ? MINUS_INFINITY : s[t].v[i] * r->factor[t];
                m = rfg_max(m, s[t].v[i]);
            }
            m = over_tokens(m, true);
            float down = rfg_exp2(acc->m[t][0] - m);
            acc->m[t][0] = m;
            acc->l[t][0] *= down;
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                w[t][i] = s[t].v[i] - m;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int i = 0; i < O_FLOATS; i++)
                    acc->o[t][b][i] *= down;
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
            s[t].v[i] = rfg_exp2(w[t][i]);
            acc->l[t][0] += s[t].v[i];
        }
}
#else
/* Scores to weights. */
RFG_DEVICE void weigh(const struct mha_args *a, const struct unit *u, const struct queries *q, struct sums *acc,
                      rfg_frag_wx *s, int first, bool masks)
{
    bool raise = false;
#if PLAIN
    rfg_frag_wx over[TILES]; /* scores relative to acc->m */
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            over[t].v[i] = rfg_fma(s[t].v[i], UP(t, i), -acc->m[t][i % LANE_QUERIES]);
    if (masks) {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                if (is_masked(a, u, first + rfg_frag_c_row(i), u->row0 + t * Q_TILE + rfg_frag_c_col(i)))
                    over[t].v[i] = MINUS_INFINITY;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            raise |= over[t].v[i] > SLACK;
#else
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
            s[t].v[i] =
                score(a, u, s[t].v[i], first + rfg_frag_c_row(i), u->row0 + t * Q_TILE + rfg_frag_c_col(i), masks);
            raise |= s[t].v[i] > acc->m[t][i % LANE_QUERIES] + SLACK;
        }
#endif
    /* What weights are relative to need not be the largest score, only near it. */
    if (any_lane(raise)) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float down[LANE_QUERIES];
#if PLAIN
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                s[t].v[i] = over[t].v[i] == MINUS_INFINITY ? MINUS_INFINITY : s[t].v[i] * UP(t, i);
#endif
#pragma unroll
            for (int j = 0; j < LANE_QUERIES; j++) {
                float m = acc->m[t][j];
#pragma unroll
                for (int i = j; i < RFG_FRAG_WX; i += LANE_QUERIES)
                    m = rfg_max(m, s[t].v[i]);
                m = over_tokens(m, true);
                down[j] = rfg_exp2(acc->m[t][j] - m);
                acc->m[t][j] = m;
                acc->l[t][j] *= down[j];
            }
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int i = 0; i < O_FLOATS; i++)
                    acc->o[t][b][i] *= down[i % LANE_QUERIES];
#if PLAIN
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                over[t].v[i] = s[t].v[i] - acc->m[t][i % LANE_QUERIES];
#endif
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
#if PLAIN
            s[t].v[i] = rfg_exp2(over[t].v[i]);
#else
            s[t].v[i] = rfg_exp2(s[t].v[i] - acc->m[t][i % LANE_QUERIES]);
#endif
            acc->l[t][i % LANE_QUERIES] += s[t].v[i];
        }
    }
}
#endif
