/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of merge_states share: its tensors, in this order, all as rows of one head: o and
 * out of D elements, lse and lse_out of one. */
enum { CASE_OUT, CASE_LSE_OUT, CASE_O, CASE_LSE, CASE_TENSORS };

/* Rows of memory from a state, token and head to the next, by the problem's form; of_lse: lse and lse_out. */
static inline struct merge_strides merge_case_rows(const struct rfg_problem *prob, bool of_lse, bool output)
{
    int64_t n = prob->v[MERGE_N], t = prob->v[MERGE_T], h = prob->v[MERGE_H], form = prob->v[MERGE_FORM];
    if (form == MERGE_NHT || (form == MERGE_MHA && of_lse))
        return (struct merge_strides){ output ? 0 : t * h, 1, t };
    if (form == MERGE_TNH && !output)
        return (struct merge_strides){ h, n * h, 1 };
    return (struct merge_strides){ output ? 0 : t * h, h, 1 };
}

/* The state, token and head of a row of memory. */
static inline void merge_case_place(const struct rfg_problem *prob, bool of_lse, bool output, int64_t row,
                                    int64_t *state, int64_t *token, int64_t *head)
{
    struct merge_strides s = merge_case_rows(prob, of_lse, output);
    *state = output ? 0 : row / s.state % prob->v[MERGE_N];
    *token = row / s.token % prob->v[MERGE_T];
    *head = row / s.head % prob->v[MERGE_H];
}
