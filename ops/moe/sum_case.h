/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of moe_sum share: its tensors, in this order. */
enum {
    CASE_Y,
    CASE_X,
    CASE_PLACES,
    CASE_WEIGHTS,
    CASE_RESIDUAL,
    CASE_TOKENS,
    CASE_IDENTITY,
    CASE_IDENTITY_WEIGHTS,
    CASE_TENSORS
};
