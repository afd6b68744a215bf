/* SPDX-License-Identifier: MIT
 *
 * The oracle of moe_align, by the layouts of rfg/moe.h: all rows are laid down in whole, one expert after the other,
 * then those asked for are read off. */
#include <stdlib.h>

#include "align.h"
#include "align_case.h"
#include "ops/oracle.h"

/* The content of a row, and of a pair's place. */
struct row {
    int64_t expert, token, slot; /* token -1: padding; expert -1: behind all segments */
};
struct laid {
    struct row *rows;
    double *places;    /* by t k + slot */
    int64_t n, *begin; /* begin[e]: of its segment; begin[E]: the end of all of them */
    int64_t *counts;
    int64_t tokens;
};

/* The expert that a pair goes to, or -1. */
static int64_t local_expert(const struct rfg_problem *prob, const rfg_tensor *host, int64_t t, int64_t slot)
{
    double id = rfg_element(&host[CASE_IDS], t, slot);
    if (prob->v[ALIGN_MAP]) {
        if (id < 0 || id >= (double)prob->v[ALIGN_MAP])
            return -1;
        id = rfg_load(host[CASE_MAP].data, RFG_I32, (int64_t)id);
    }
    return id >= 0 && id < (double)prob->v[ALIGN_E] ? (int64_t)id : -1;
}

static void lay_expert(const struct rfg_problem *prob, const rfg_tensor *host, struct laid *l, int64_t e, int64_t *at)
{
    const int64_t *v = prob->v;
    bool masked = v[ALIGN_FORMAT] == RFG_MOE_MASKED;
    int64_t room = masked ? align_rows(prob) : INT64_MAX, n = 0;
    l->begin[e] = *at;
    for (int64_t t = 0; t < l->tokens; t++)
        for (int64_t slot = 0; slot < v[ALIGN_TOP]; slot++) {
            if (local_expert(prob, host, t, slot) != e || n >= room)
                continue;
            l->rows[*at + n] = (struct row){ e, t, slot };
            l->places[t * v[ALIGN_TOP] + slot] = (double)(*at + n);
            n++;
        }
    l->counts[e] = n;
    *at += masked ? room : n;
    while (!masked && *at % v[ALIGN_BLOCK])
        l->rows[(*at)++] = (struct row){ e, -1, -1 };
}

static double row_value(const struct rfg_problem *prob, const struct row *r)
{
    double t = (double)prob->v[ALIGN_T], k = (double)prob->v[ALIGN_TOP];
    switch ((rfg_moe_format)prob->v[ALIGN_FORMAT]) {
    case RFG_MOE_VLLM:
        return r->token < 0 ? t * k : (double)r->token * k + (double)r->slot;
    case RFG_MOE_AITER:
        return r->token < 0 ? k * 0x1p24 + t : (double)r->slot * 0x1p24 + (double)r->token;
    default:
        return (double)r->token;
    }
}

static double block_value(const struct rfg_problem *prob, const struct laid *l, int64_t i)
{
    bool contiguous = prob->v[ALIGN_FORMAT] == RFG_MOE_CONTIGUOUS;
    int64_t at = contiguous ? i : i * prob->v[ALIGN_BLOCK];
    const struct row *r = at < l->n ? &l->rows[at] : NULL;
    return !r || (contiguous && r->token < 0) ? -1 : (double)r->expert;
}

static double count_value(const struct rfg_problem *prob, const struct laid *l, int64_t i)
{
    if (prob->v[ALIGN_FORMAT] == RFG_MOE_MASKED)
        return (double)l->counts[i];
    return (double)(i == 0 ? l->begin[prob->v[ALIGN_E]] : l->tokens);
}

/* Element i of a tensor. false: nobody writes it. */
static bool value_of(const struct rfg_problem *prob, const rfg_tensor *host, const struct laid *l, int tensor,
                     int64_t i, double *value)
{
    const struct row *r = &l->rows[tensor == CASE_ROWS || tensor == CASE_WEIGHTS_OUT ? i : 0];
    bool written = r->token >= 0 || ALIGN_PADS(prob->v[ALIGN_FORMAT]);
    *value = (double)i + 1; /* of what isn't written: anything that isn't all alike */
    switch (tensor) {
    case CASE_ROWS:
        *value = written ? row_value(prob, r) : *value;
        return written;
    case CASE_WEIGHTS_OUT:
        *value = !written ? *value : r->token < 0 ? 0 : rfg_element(&host[CASE_WEIGHTS], r->token, r->slot);
        return written;
    case CASE_OFFSETS:
        *value = (double)l->begin[i];
        return true;
    case CASE_BLOCK_EXPERTS:
        *value = block_value(prob, l, i);
        return true;
    case CASE_COUNT:
        *value = count_value(prob, l, i);
        return true;
    default:
        *value = l->places[i];
        return true;
    }
}

static void lay_all(const struct rfg_problem *prob, const rfg_tensor *host, struct laid *l)
{
    int64_t at = 0;
    double most = prob->v[ALIGN_TOKENS] ? rfg_load(host[CASE_TOKENS].data, RFG_I32, 0) : (double)prob->v[ALIGN_T];
    l->tokens = most < 0 ? 0 : most > (double)prob->v[ALIGN_T] ? prob->v[ALIGN_T] : (int64_t)most;
    for (int64_t i = 0; i < l->n; i++)
        l->rows[i] = (struct row){ -1, -1, -1 };
    int64_t top = prob->v[ALIGN_TOP], end = prob->v[ALIGN_MAP] ? prob->v[ALIGN_MAP] : prob->v[ALIGN_E];
    for (int64_t i = 0; i < prob->v[ALIGN_T] * top; i++) {
        double id = rfg_element(&host[CASE_IDS], i / top, i % top);
        bool own = i / top < l->tokens && id >= (double)end && id < (double)(end + prob->v[ALIGN_IDENTITIES]);
        l->places[i] = own ? RFG_MOE_IDENTITY : -1;
    }
    for (int64_t e = 0; e < prob->v[ALIGN_E]; e++)
        lay_expert(prob, host, l, e, &at);
    l->begin[prob->v[ALIGN_E]] = at;
}

rfg_status rfg_oracle_moe_align(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const int64_t *v = prob->v;
    bool masked = v[ALIGN_FORMAT] == RFG_MOE_MASKED;
    struct laid l = { .n = align_rows(prob) * (masked ? v[ALIGN_E] : 1) };
    l.rows = calloc((size_t)l.n + 1, sizeof(*l.rows));
    l.places = calloc((size_t)(v[ALIGN_T] * v[ALIGN_TOP]) + 1, sizeof(*l.places));
    l.begin = calloc((size_t)v[ALIGN_E] + 1, sizeof(*l.begin));
    l.counts = calloc((size_t)v[ALIGN_E] + 1, sizeof(*l.counts));
    bool room = l.rows && l.places && l.begin && l.counts;
    if (room)
        lay_all(prob, host, &l);
    for (int tensor = 0; room && tensor < CASE_TENSORS; tensor++) {
        const struct rfg_expected *e = &expected[tensor];
        int64_t cols = tensor == CASE_PLACES                                           ? v[ALIGN_TOP]
                       : masked && (tensor == CASE_ROWS || tensor == CASE_WEIGHTS_OUT) ? align_rows(prob)
                                                                                       : 1;
        for (int64_t i = 0; e->value && i < e->n_rows * cols; i++)
            e->allow[i] = value_of(prob, host, &l, tensor, e->rows[i / cols] * cols + i % cols, &e->value[i]) ? 0 : -1;
    }
    free(l.rows);
    free(l.places);
    free(l.begin);
    free(l.counts);
    return room ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "moe_align's oracle: no memory");
}
