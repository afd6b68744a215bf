/* SPDX-License-Identifier: MIT
 *
 * The operator advance: its keys, rules and table. The public function is in call.c. */
#include "advance.h"

#include <inttypes.h>

#include "ops/params.h"
#include "ops/operand.h"

static const struct rfg_key advance_keys[ADVANCE_NKEYS] = {
    [ADVANCE_B] = { "B", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "sequences" },
    [ADVANCE_SQ] = { "Sq", RFG_KEY_SIZE, 0, 1, ADVANCE_MAX_TOKENS, NULL, "tokens of a sequence in each step" },
    [ADVANCE_BLOCKS] = { "blocks", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of the block table" },
    [ADVANCE_PAGE] = { "page", RFG_KEY_ATTR, 0, 0, ADVANCE_MAX_PAGE, NULL, "keys of a block; 0: there is no table" },
    [ADVANCE_SLOTS] = { "slots", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: slots are written" },
    [ADVANCE_ACCEPTED] = { "accepted", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: how many tokens count is in device memory" },
    [ADVANCE_ACTIVE] = { "active", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: sequences may be off" },
    [ADVANCE_SPARE] = { "spare", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,
                        "size of the list of spare blocks; 0: there is none" },
    [ADVANCE_LDB] = { "ldb", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                      "row stride of the table in elements; 0: packed" },
    [ADVANCE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand advance_operands[] = {
    { "kv_lens", false, RFG_FORMAT_LISTED, 0, 0 },
    { "positions", true, RFG_FORMAT_LISTED, 1, 0 },
    { "lens_out", true, RFG_FORMAT_AS, 0, 0 },
    { "slots", true, RFG_FORMAT_ALWAYS, RFG_I64, 0 },
    { "block_table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "table_out", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "spare_count", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "count_out", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "accepted", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "active", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "spare", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (d[0] != RFG_I32)
        return rfg_refuse(why, "dtype of kv_lens is %s: must be i32", rfg_dtype_name((rfg_dtype)d[0]));
    return d[1] == RFG_I32 || d[1] == RFG_I64 ||
           rfg_refuse(why, "dtype of positions is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[1]));
}

static bool advance_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    for (int i = ADVANCE_SLOTS; i <= ADVANCE_LDB; i++)
        if (i != ADVANCE_ACCEPTED && i != ADVANCE_ACTIVE && v[i] && !v[ADVANCE_PAGE])
            return rfg_refuse(why, "%s=%" PRId64 ": needs page=, there is no block table", advance_keys[i].name, v[i]);
    if (!v[ADVANCE_BLOCKS] != !v[ADVANCE_PAGE])
        return rfg_refuse(why, "blocks=%" PRId64 " page=%" PRId64 ": both or neither must be 0", v[ADVANCE_BLOCKS],
                          v[ADVANCE_PAGE]);
    return !v[ADVANCE_LDB] || v[ADVANCE_LDB] >= v[ADVANCE_BLOCKS] ||
           rfg_refuse(why, "ldb=%" PRId64 ": must be at least blocks=%" PRId64, v[ADVANCE_LDB], v[ADVANCE_BLOCKS]);
}

static void advance_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double tokens = (double)v[ADVANCE_B] * (double)v[ADVANCE_SQ];
    *bytes =
        4 * (double)v[ADVANCE_B] * (2 + (double)((v[ADVANCE_PAGE] > 0) + v[ADVANCE_ACCEPTED] + v[ADVANCE_ACTIVE])) +
        tokens * (double)(rfg_format_bytes(prob->dtype[1], 1) + 8 * v[ADVANCE_SLOTS]);
    *flops = tokens + 1; /* moves: 0 would mean nothing to do */
}

void advance_set_sizes(struct advance_args *a, const struct rfg_problem *prob, const rfg_tensor *table)
{
    const int64_t *v = prob->v;
    a->b = (int)v[ADVANCE_B];
    a->sq = (int)v[ADVANCE_SQ];
    a->blocks = (int)v[ADVANCE_BLOCKS];
    a->n_spare = (int)v[ADVANCE_SPARE];
    a->page_shift = v[ADVANCE_PAGE] ? __builtin_ctzll((unsigned long long)v[ADVANCE_PAGE]) : 0;
    a->table = table ? table->data : NULL;
    a->ldb = v[ADVANCE_LDB] ? v[ADVANCE_LDB] : v[ADVANCE_BLOCKS];
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_advance_desc = {
    .name = "advance",
    .id = 34,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(advance_operands),
    .n_keys = ADVANCE_NKEYS,
    .keys = advance_keys,
    .column_key = { "B", "Sq", "blocks" },
    RFG_KARGS(struct advance_args),
    .valid = advance_valid,
    .cost = advance_cost,
};
