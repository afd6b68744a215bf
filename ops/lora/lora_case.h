/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of lora share: its tensors, in this order. a and b are rows: of adapter i, those
 * from i * lora_case_rows() on. */
enum { CASE_Y, CASE_X, CASE_A, CASE_B, CASE_IDS, CASE_INDPTR, CASE_SCALES, CASE_RANKS, CASE_Y_IN, CASE_TENSORS };

#define CASE_SCALE 1.5f

/* Rows of memory from an adapter to the next, of so many: one more than there are, if there are gaps. */
static inline int64_t lora_case_rows(const struct rfg_problem *prob, int64_t rows)
{
    return rows + (prob->v[LORA_FORM] == LORA_GAPS ? 1 : 0);
}
