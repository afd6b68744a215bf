/* SPDX-License-Identifier: MIT
 *
 * What becomes of a product: the ends that a problem asks for, and those that a variant has. */
#include <inttypes.h>

#include "gemm.h"

static const struct {
    unsigned end;
    int key;
    const char *rule; /* of a variant without it */
} ends[] = {
    { GEMM_END_SLOTS, GEMM_SLOTS, "must be 0, it sums no rows" },
    { GEMM_END_EXPERTS, GEMM_EXPERTS, "must be 0, it multiplies by one w" },
    { GEMM_END_RESIDUAL, GEMM_RESIDUAL, "must be 0, it adds none" },
    { GEMM_END_ACT, GEMM_GATED, "must be none, it has no activation" },
    { GEMM_END_HALVES, GEMM_GATES, "must be interleaved, its rows of gate and up take turns" },
};

unsigned gemm_ends_asked(const struct rfg_problem *prob)
{
    unsigned asked = gemm_y_is_codes(prob) ? GEMM_END_CODES : 0;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends[i].end == GEMM_END_HALVES ? gemm_halves(prob) : prob->v[ends[i].key] != 0)
            asked |= ends[i].end;
    return asked;
}

bool gemm_takes_ends(const struct rfg_problem *prob, unsigned has, struct rfg_reason *why)
{
    unsigned lacks = gemm_ends_asked(prob) & ~has;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const struct rfg_key *key = &prob->op->keys[ends[i].key];
        int64_t v = prob->v[ends[i].key];
        if (lacks & ends[i].end)
            return key->names ? rfg_refuse(why, "%s=%s: %s", key->name, key->names[v - key->min], ends[i].rule)
                              : rfg_refuse(why, "%s=%" PRId64 ": %s", key->name, v, ends[i].rule);
    }
    return !lacks || gemm_y_is_float(prob, why);
}

/* Rows that are summed by token in the same launch (ops/gemm_sum.h). */
bool gemm_slots_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t m = v[GEMM_M], slots = v[GEMM_SLOTS];
    if (!slots)
        return !v[GEMM_TOKENS] || rfg_refuse(why, "tokens=1: slots is 0");
    if (!v[GEMM_EXPERTS])
        return rfg_refuse(why, "slots=%" PRId64 ": experts is 0", slots);
    if (v[GEMM_GATED])
        return rfg_refuse(why, "slots=%" PRId64 ": must be 0 with an act", slots);
    if (!gemm_y_is_float(prob, why))
        return false;
    return (m % slots == 0 && m <= GEMM_MAX_SLOT_ROWS) ||
           rfg_refuse(why, "M=%" PRId64 ": must be a multiple of slots=%" PRId64 ", at most %d", m, slots,
                      GEMM_MAX_SLOT_ROWS);
}

size_t gemm_slot_bytes(const struct rfg_problem *prob)
{
    if (!prob->v[GEMM_SLOTS])
        return 0;
    return (size_t)GEMM_SLOT_BYTES(prob->v[GEMM_M], prob->v[GEMM_N], rfg_format_bytes(prob->dtype[2], 1));
}
