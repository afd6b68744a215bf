/* SPDX-License-Identifier: MIT
 *
 * A wave a token, whose experts a table says; its lanes have a slot each, and read the logits of these alone. A softmax
 * that is not renormalised also takes the sum over the row.
 *
 * Macros: those of route_device.h, but for BIAS (0), and ID_DTYPE (of token ids, 0: token t's row is t). */
#define BIAS 0
#include "moe/route_device.h"

RFG_DEVICE float logit(const char *x, rfg_u32 e)
{
    return number(rfg_load_float(x, e, IN_DTYPE));
}

/* What a softmax over the row needs. */
RFG_DEVICE void sum_row(const struct route_args *a, const char *x, float *largest, float *inverse)
{
    float most = LOW, sum = 0.0f;
    for (rfg_u32 e = (rfg_u32)rfg_lane(); e < (rfg_u32)a->e; e += RFG_WAVE)
        most = rfg_max(most, logit(x, e));
    most = rfg_reduce_lanes(most, RFG_WAVE, true);
    for (rfg_u32 e = (rfg_u32)rfg_lane(); e < (rfg_u32)a->e; e += RFG_WAVE)
        sum += power(logit(x, e), most);
    *largest = most;
    *inverse = rfg_rcp(rfg_reduce_lanes(sum, RFG_WAVE, false));
}

RFG_DEVICE void route(const struct route_args *a, rfg_u32 row)
{
    const char *x = row_of(a, row);
    long long from = row;
#if ID_DTYPE == RFG_I64
    from = ((const long long *)a->token_ids)[row];
#elif ID_DTYPE == RFG_I32
    from = ((const int *)a->token_ids)[row];
#elif ID_DTYPE
#error "not a dtype of token ids"
#endif
    bool there = rfg_lane() < a->top && from >= 0 && from < a->table_rows;
    rfg_u32 id = there ? rfg_load4(a->table + from * a->ldt + rfg_lane()) : ~0u;
    bool has = id < (rfg_u32)a->e;
    float l = logit(x, has ? id : 0u), largest = 0.0f, inverse = 1.0f;
    if (SCORE == ROUTE_TOPK_SOFTMAX || (SCORE == ROUTE_SOFTMAX && a->renormalise))
        largest = rfg_reduce_lanes(has ? l : LOW, RFG_WAVE, true);
    else if (SCORE == ROUTE_SOFTMAX)
        sum_row(a, x, &largest, &inverse);
    float weight = weight_of(a, l, has, largest, inverse);
    store(a, row, true, has ? id : ~0u, has ? weight : 0.0f);
}

RFG_KERNEL(THREADS) moe_route_table(struct route_args a)
{
    rfg_start_next();
    rfg_await_previous();
    EACH_ROW_OF_A_WAVE(&a, route(&a, row));
}
