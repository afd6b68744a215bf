/* SPDX-License-Identifier: MIT
 *
 * The valid answers of moe_gate. What is normed is computed; logits are those of the normed row that the kernel wrote,
 * and as far off as a sum in fp32 may be; of them the choice is one that moe_route may make. The order of rows is that
 * of the ids that the kernel wrote. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "gate_case.h"
#include "route_case.h"

#define EPS 0x1p-24

static int64_t rows_that_count(const struct rfg_problem *prob, const rfg_tensor *host)
{
    int64_t t = prob->v[GATE_T], n = prob->v[GATE_TOKENS] ? *(const int32_t *)host[CASE_LIMIT].data : t;
    return n < 0 ? 0 : n < t ? n : t;
}

/* The norm, by rfg/moe.h's formula; a sum of squares errs by about sqrt(K) roundings, and a few follow. */
rfg_status rfg_oracle_moe_gate(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const struct rfg_expected *of = &expected[CASE_NORMED];
    int64_t k = prob->v[GATE_K];
    for (int64_t i = 0; of->value && i < of->n_rows; i++) {
        double squares = 0;
        int64_t row = of->rows[i];
        for (int64_t c = 0; c < k; c++)
            squares += rfg_element(&host[CASE_X], row, c) * rfg_element(&host[CASE_X], row, c);
        double rstd = 1 / sqrt(squares / (double)k + (double)GATE_EPS);
        for (int64_t c = 0; c < k; c++) {
            double w = rfg_load(host[CASE_NORM].data, host[CASE_NORM].dtype, c);
            double v = rfg_element(&host[CASE_X], row, c) * rstd * (prob->v[GATE_NORM] == GATE_NORM_1W ? 1 + w : w);
            of->value[i * k + c] = v;
            of->allow[i * k + c] = row >= rows_that_count(prob, host) ? -1
                                   : isfinite(v)                      ? fabs(v) * (sqrt((double)k) + 16) * EPS
                                                                      : 0;
        }
    }
    return RFG_OK;
}

/* A row's logits, and how far off they may be: not at all, if all there is are integers. */
static double find_logits(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int64_t row,
                          float *logits)
{
    const rfg_tensor *x = prob->v[GATE_NORM] ? &got[CASE_NORMED] : &host[CASE_X];
    int64_t k = prob->v[GATE_K];
    double most = 0;
    bool integers = true;
    for (int64_t e = 0; e < prob->v[GATE_E]; e++) {
        double bias = prob->v[GATE_W_BIAS] ? rfg_load(host[CASE_W_BIAS].data, host[CASE_W_BIAS].dtype, e) : 0;
        double sum = bias, all = fabs(bias);
        for (int64_t c = 0; c < k; c++) {
            double a = rfg_element(x, row, c), b = rfg_element(&host[CASE_W], e, c);
            sum += a * b;
            all += fabs(a * b);
            integers = integers && a == rint(a) && b == rint(b) && bias == rint(bias);
        }
        logits[e] = (float)sum;
        most = isfinite(all) ? fmax(most, all) : most;
    }
    return integers && most < 0x1p24 ? 0 : most * (sqrt((double)k) + 16) * EPS;
}

static bool choice_right(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                         int64_t row, struct rfg_reason *why)
{
    struct rfg_problem route = gate_route(prob);
    float logits[ROUTE_WAVE_E];
    double near = row < rows_that_count(prob, host) ? find_logits(prob, host, got, row, logits) : 0;
    rfg_tensor own[ROUTE_TENSORS] = { { 0 } }, its[ROUTE_TENSORS] = { { 0 } };
    own[ROUTE_X] = (rfg_tensor){ logits, RFG_F32, 2, { prob->v[GATE_T], prob->v[GATE_E] }, { 0, 1 } };
    own[ROUTE_BIASES] = host[CASE_BIAS];
    own[ROUTE_LIMIT] = host[CASE_LIMIT];
    its[ROUTE_IDS] = got[CASE_IDS];
    its[ROUTE_WEIGHTS] = got[CASE_WEIGHTS];
    return route_accept_near(&route, own, its, tensor == CASE_IDS ? ROUTE_IDS : ROUTE_WEIGHTS, row, near, why);
}

/* Pairs before this one: of smaller experts, or of its own and earlier. */
static int64_t place_of(const int32_t *ids, int64_t pairs, int64_t pair)
{
    int64_t before = 0;
    for (int64_t i = 0; i < pairs; i++)
        before += ids[i] >= 0 && (ids[i] < ids[pair] || (ids[i] == ids[pair] && i < pair));
    return before;
}

static bool is(double got, double want, struct rfg_reason *why)
{
    return got == want || rfg_refuse(why, "is %.9g: must be %.9g", got, want);
}

bool gate_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor, int64_t row,
                 struct rfg_reason *why)
{
    const int32_t *ids = got[CASE_IDS].data;
    int64_t slots = prob->v[GATE_TOP] + prob->v[GATE_SHARED], pairs = prob->v[GATE_T] * slots, below = 0;
    if (tensor == CASE_IDS || tensor == CASE_WEIGHTS)
        return choice_right(prob, host, got, tensor, row, why);
    if (tensor == CASE_PLACES) {
        for (int64_t i = row * slots; i < (row + 1) * slots; i++)
            if (!is(((const int32_t *)got[tensor].data)[i], ids[i] < 0 ? -1 : (double)place_of(ids, pairs, i), why))
                return false;
        return true;
    }
    if (tensor == CASE_OFFSETS) {
        for (int64_t i = 0; i < pairs; i++)
            below += ids[i] >= 0 && ids[i] < row;
        return is(((const int32_t *)got[tensor].data)[row], (double)below, why);
    }
    for (int64_t i = 0; i < pairs; i++)
        if (ids[i] >= 0 && place_of(ids, pairs, i) == row)
            return tensor == CASE_ROWS ? is(((const int32_t *)got[tensor].data)[row], (double)(i / slots), why)
                                       : is((double)((const float *)got[tensor].data)[row],
                                            (double)((const float *)got[CASE_WEIGHTS].data)[i], why);
    return true; /* behind the last pair */
}
