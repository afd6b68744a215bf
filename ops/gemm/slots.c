/* SPDX-License-Identifier: MIT
 *
 * Grouped products whose rows are summed by token in the same launch (ops/gemm_sum.h): what they may be. */
#include <inttypes.h>

#include "gemm.h"

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

bool gemm_keeps_rows(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return !prob->v[GEMM_SLOTS] ||
           rfg_refuse(why, "slots=%" PRId64 ": must be 0, it sums no rows", prob->v[GEMM_SLOTS]);
}

size_t gemm_slot_bytes(const struct rfg_problem *prob)
{
    if (!prob->v[GEMM_SLOTS])
        return 0;
    return (size_t)GEMM_SLOT_BYTES(prob->v[GEMM_M], prob->v[GEMM_N], rfg_format_bytes(prob->dtype[2], 1));
}
