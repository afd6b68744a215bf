/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of moe_align share: its tensors, in this order. */
enum {
    CASE_ROWS,
    CASE_IDS,
    CASE_OFFSETS,
    CASE_BLOCK_EXPERTS,
    CASE_COUNT,
    CASE_WEIGHTS_OUT,
    CASE_PLACES,
    CASE_WEIGHTS,
    CASE_MAP,
    CASE_TOKENS,
    CASE_TENSORS
};
