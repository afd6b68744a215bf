/* SPDX-License-Identifier: MIT */
#include "slots.h"

#include "ops/format.h"
#include "rfg/moe.h"

#define STRETCH 512 /* columns, whose sums stay in the nearest cache */

static void add_row(float *sum, const void *x, int dtype, int64_t at, int n, float weight)
{
    for (int i = 0; i < n; i++)
        sum[i] += weight * rfg_float_get(x, dtype, at + i);
}

void rfg_cpu_sum_slots(const struct rfg_cpu_slots *s, int64_t t)
{
    for (int64_t from = 0; from < s->n; from += STRETCH) {
        int n = s->n - from < STRETCH ? (int)(s->n - from) : STRETCH;
        float sum[STRETCH] = { 0 };
        for (int slot = 0; slot < s->top; slot++) {
            int at = s->places[t * s->ldp + slot];
            if (s->experts)
                at = at >= 0 && at < s->experts ? (int)t * s->top + slot : -1;
            if (at == RFG_MOE_IDENTITY && s->identity)
                add_row(sum, s->identity, s->in, t * s->ld_identity + from, n,
                        s->identity_weights[t * s->ld_identity_weights + slot]);
            if (at >= 0 && at < s->x_rows)
                add_row(sum, s->x, s->in, at * s->ldx + from, n, s->weights ? s->weights[t * s->ldw + slot] : 1);
        }
        if (s->residual)
            add_row(sum, s->residual, s->out, t * s->ldr + from, n, 1);
        for (int i = 0; i < n; i++)
            rfg_float_put(s->y, s->out, t * s->ldy + from + i, sum[i]);
    }
}
