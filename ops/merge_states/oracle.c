/* SPDX-License-Identifier: MIT
 *
 * The oracle of merge_states, by the formulas of rfg/merge_states.h. */
#include <math.h>
#include <string.h>

#include "merge.h"
#include "ops/oracle.h"
#include "merge_case.h"

/* Of a token and head: each state's share and lse_out, and how far off either may be. */
struct shares {
    double share[RFG_MERGE_MAX_STATES], off[RFG_MERGE_MAX_STATES]; /* off: of a share, by its size */
    double lse, lse_off;
};

static void find_shares(const struct rfg_problem *prob, const rfg_tensor *lse, int64_t token, int64_t head,
                        struct shares *s)
{
    int64_t n = prob->v[MERGE_N];
    struct merge_strides rows = merge_case_rows(prob, true, false);
    double unit = prob->v[MERGE_BASE2] ? log(2) : 1, top = -INFINITY, sum = 0, off = 0;
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        double v = rfg_element(lse, i * rows.state + token * rows.token + head * rows.head, 0);
        s->share[i] = v == INFINITY ? -INFINITY : v * unit;
        nan |= isnan(v);
        top = fmax(top, s->share[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        /* fp32 has lse to within a half of its last place, its difference, and the exponential of that. */
        double below = s->share[i] - top, weight = below >= -126 * log(2) ? exp(below) : 0;
        s->off[i] = (6 + 4 * (weight > 0 ? -below : 0)) * 0x1p-24;
        s->share[i] = top == -INFINITY ? 0 : weight;
        sum += s->share[i];
        off += s->share[i] * s->off[i];
    }
    double sum_off = sum > 0 ? off / sum + (double)n * 0x1p-24 : 0;
    for (int64_t i = 0; i < n; i++) {
        s->share[i] = nan ? NAN : sum > 0 ? s->share[i] / sum : 0;
        s->off[i] += sum_off + 4 * 0x1p-24;
    }
    s->lse = nan ? NAN : sum > 0 ? (top + log(sum)) / unit : -INFINITY;
    s->lse_off = sum > 0 ? (fabs(s->lse) + 4) * 0x1p-22 + sum_off / unit : 0;
}

static void expect_row(const struct rfg_problem *prob, const rfg_tensor *o, int64_t token, int64_t head,
                       const struct shares *s, double *value, double *allow)
{
    int64_t n = prob->v[MERGE_N], d = prob->v[MERGE_D];
    struct merge_strides rows = merge_case_rows(prob, false, false);
    for (int64_t k = 0; k < d; k++)
        value[k] = allow[k] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d && s->share[i] != 0; k++) {
            double term = s->share[i] * rfg_element(o, i * rows.state + token * rows.token + head * rows.head, k);
            value[k] += term;
            /* Of each state a product and a sum; subnormals may be 0. */
            if (isfinite(term))
                allow[k] += fabs(term) * (s->off[i] + (double)n * 0x1p-24) + 0x1p-126;
        }
}

rfg_status rfg_oracle_merge_states(const struct rfg_problem *prob, const rfg_tensor *host,
                                   struct rfg_expected *expected)
{
    struct shares s;
    int64_t state, token, head, d = prob->v[MERGE_D];
    for (int64_t r = 0; r < expected[CASE_OUT].n_rows; r++) {
        merge_case_place(prob, false, true, expected[CASE_OUT].rows[r], &state, &token, &head);
        find_shares(prob, &host[CASE_LSE], token, head, &s);
        expect_row(prob, &host[CASE_O], token, head, &s, expected[CASE_OUT].value + r * d,
                   expected[CASE_OUT].allow + r * d);
    }
    for (int64_t r = 0; expected[CASE_LSE_OUT].value && r < expected[CASE_LSE_OUT].n_rows; r++) {
        merge_case_place(prob, true, true, expected[CASE_LSE_OUT].rows[r], &state, &token, &head);
        find_shares(prob, &host[CASE_LSE], token, head, &s);
        expected[CASE_LSE_OUT].value[r] = s.lse;
        expected[CASE_LSE_OUT].allow[r] = s.lse_off;
    }
    return RFG_OK;
}
