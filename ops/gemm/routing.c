/* SPDX-License-Identifier: MIT
 *
 * How a grouped product's rows are shared out among experts (enum gemm_routing): what a model makes of it, whose rows
 * serve a call, and loads that were recorded. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gemm.h"
#include "loads.h"

/* ---- recorded loads ---------------------------------------------------------------------------------------------- */

static struct {
    int64_t *tokens, sum;
    int experts;
    char name[RFG_RECORDING_NAME];
} loads;

bool gemm_loads_set(const int64_t *tokens, int experts)
{
    size_t bytes = (size_t)experts * sizeof(*tokens);
    int64_t *copy = experts ? malloc(bytes) : NULL;
    if (experts && !copy)
        return false;
    free(loads.tokens);
    memset(&loads, 0, sizeof(loads));
    if (!experts)
        return true;
    memcpy(copy, tokens, bytes);
    loads.tokens = copy;
    loads.experts = experts;
    for (int e = 0; e < experts; e++)
        loads.sum += copy[e];
    snprintf(loads.name, sizeof(loads.name), "%016" PRIx64, (uint64_t)XXH3_64bits(copy, bytes));
    return true;
}

int gemm_loads(const int64_t **tokens)
{
    if (tokens)
        *tokens = loads.tokens;
    return loads.experts;
}

const char *gemm_loads_name(void)
{
    return loads.name;
}

bool gemm_loads_fit(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!rfg_problem_is_recorded(prob))
        return true;
    if (!loads.experts)
        return rfg_refuse(why, "routing=recorded: must have the tokens of each expert: --loads FILE");
    return prob->v[GEMM_EXPERTS] == loads.experts ||
           rfg_refuse(why, "experts=%" PRId64 ": must be %d with routing=recorded, as many as --loads has",
                      prob->v[GEMM_EXPERTS], loads.experts);
}

struct lost {
    int64_t rest; /* of the division that was rounded down */
    int expert;
};

static int most_first(const void *pa, const void *pb)
{
    const struct lost *a = pa, *b = pb;
    return a->rest != b->rest ? (a->rest < b->rest) - (a->rest > b->rest) : a->expert - b->expert;
}

int64_t *gemm_loads_share(int64_t rows)
{
    __extension__ typedef __int128 wide;
    int64_t *share = loads.experts ? malloc((size_t)loads.experts * sizeof(*share)) : NULL, left = rows;
    struct lost *lost = share ? malloc((size_t)loads.experts * sizeof(*lost)) : NULL;
    if (!lost) {
        free(share);
        return NULL;
    }
    for (int e = 0; e < loads.experts; e++) {
        wide part = (wide)rows * loads.tokens[e];
        share[e] = (int64_t)(part / loads.sum);
        lost[e] = (struct lost){ (int64_t)(part % loads.sum), e };
        left -= share[e];
    }
    qsort(lost, (size_t)loads.experts, sizeof(*lost), most_first);
    for (int i = 0; i < left; i++)
        share[lost[i].expert]++;
    free(lost);
    return share;
}

/* ---- what rows cost, and whose serve a call ---------------------------------------------------------------------- */

/* Experts that rows meet, each of a token's another: the e-th by Zipf's law with a chance of log((e + 2) / (e + 1)) to
 * log(experts + 1) a slot. */
static double met_by_chance(const struct rfg_problem *prob)
{
    int64_t experts = prob->v[GEMM_EXPERTS];
    double slots = (double)(prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1), met = 0;
    bool zipf = prob->v[GEMM_ROUTING] == GEMM_ZIPF;
    for (int64_t e = 0; e < (zipf ? experts : 1); e++) {
        double chance = zipf ? log1p(1.0 / (double)(e + 1)) / log((double)experts + 1) : 1 / (double)experts;
        double missed = 1 - slots * chance;
        met += 1 - pow(missed > 0 ? missed : 0, (double)gemm_x_rows(prob));
    }
    return met * (zipf ? 1 : (double)experts);
}

static double met(const struct rfg_problem *prob)
{
    int64_t *share = NULL;
    if (prob->v[GEMM_ROUTING] == GEMM_ONE)
        return 1;
    if (gemm_is_recorded(prob) && gemm_loads_fit(prob, NULL))
        share = gemm_loads_share(prob->v[GEMM_M]);
    if (!share)
        return met_by_chance(prob);
    int n = 0;
    for (int e = 0; e < loads.experts; e++)
        n += share[e] > 0;
    free(share);
    return n;
}

struct rfg_problem gemm_as_plain(const struct rfg_problem *prob)
{
    struct rfg_problem plain = *prob;
    int64_t rows = prob->v[GEMM_M], all = prob->v[GEMM_N] * gemm_products(prob);
    if (prob->v[GEMM_BATCH]) {
        plain.v[GEMM_BATCH] = 0;
        plain.v[GEMM_N] = all < RFG_MAX_SIZE ? all : RFG_MAX_SIZE;
    }
    if (!prob->v[GEMM_EXPERTS] || !rows)
        return plain;
    int64_t touched = (int64_t)(met(prob) + 0.5);
    touched = prob->v[GEMM_IDS] || touched > rows ? rows : touched < 1 ? 1 : touched;
    plain.v[GEMM_EXPERTS] = 1;
    plain.v[GEMM_M] = ceil_div(rows, touched);
    plain.v[GEMM_N] = prob->v[GEMM_N] * touched < RFG_MAX_SIZE ? prob->v[GEMM_N] * touched : RFG_MAX_SIZE;
    return plain;
}

int64_t gemm_most_tiles(const struct rfg_problem *prob, int tile_m)
{
    int64_t rows = prob->v[GEMM_M], experts = prob->v[GEMM_EXPERTS];
    /* Of each expert that has rows one tile may not be full. */
    int64_t more = (experts < rows ? experts : rows) * (tile_m - 1);
    return prob->v[GEMM_IDS] ? rows : experts ? (rows + more) / tile_m : ceil_div(rows, tile_m);
}

void gemm_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const uint8_t *d = prob->dtype;
    const int64_t *v = prob->v;
    struct rfg_problem plain = gemm_as_plain(prob);
    double batch = (double)gemm_products(prob);
    double experts = v[GEMM_BATCH] ? batch
                     : v[GEMM_N]   ? (double)plain.v[GEMM_N] / (double)v[GEMM_N]
                                   : 1; /* whose w is read */
    double m = (double)v[GEMM_M], n = (double)v[GEMM_N], k = (double)v[GEMM_K];
    *bytes = batch * (double)gemm_x_rows(prob) * (double)rfg_format_bytes(d[0], v[GEMM_K]) +
             experts * n * (double)gemm_w_row_bytes(prob) +
             batch * (double)gemm_y_rows(prob) * (double)rfg_format_bytes(d[2], gemm_y_cols(prob)) *
                 (v[GEMM_RESIDUAL] ? 2 : 1) +
             (v[GEMM_BIAS] ? experts * (double)rfg_format_bytes(gemm_bias_dtype(prob), v[GEMM_N]) : 0) +
             (v[GEMM_EXPERTS] && !v[GEMM_IDS] ? 4 * (double)v[GEMM_EXPERTS] : 0) +
             (v[GEMM_TOP] || v[GEMM_IDS] ? 4 * m : 0) + (v[GEMM_WEIGHTS] ? 4 * m : 0) + (v[GEMM_SLOTS] ? 4 * m : 0);
    if (gemm_w_has_per(prob) && !v[GEMM_W_GROUP]) { /* w's row has those of groups */
        struct gemm_scale_shape x = gemm_x_scales(prob), w = gemm_w_scales(prob);
        x.rows = x.rows < gemm_x_rows(prob) ? x.rows : gemm_x_rows(prob); /* that are read */
        *bytes += ((double)(x.rows * x.cols) + experts * (double)(w.rows * w.cols)) *
                  (double)rfg_format_bytes(gemm_scale_dtype(prob), 1);
    }
    *flops = 2 * batch * m * n * k;
}

/* An engine's own loads tell most of its calls, then Zipf's law; uniform ones mislead. One expert is no engine's. */
bool gemm_row_key(struct rfg_problem *key, int i)
{
    static const enum gemm_routing rows_of[] = { GEMM_RECORDED, GEMM_ZIPF, GEMM_UNIFORM };
    int first = key->v[GEMM_EXPERTS] ? 0 : 2;
    if (i > 2 - first)
        return false;
    key->v[GEMM_ROUTING] = rows_of[first + i];
    return true;
}

bool gemm_is_recorded(const struct rfg_problem *prob)
{
    return prob->v[GEMM_ROUTING] == GEMM_RECORDED;
}
