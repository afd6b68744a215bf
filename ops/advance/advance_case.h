/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of advance share: its tensors, in this order. */
enum {
    CASE_POSITIONS,
    CASE_LENS,
    CASE_LENS_OUT,
    CASE_SLOTS,
    CASE_TABLE,
    CASE_TABLE_OUT,
    CASE_COUNT,
    CASE_COUNT_OUT,
    CASE_ACCEPTED,
    CASE_ACTIVE,
    CASE_SPARE,
    CASE_TENSORS
};
