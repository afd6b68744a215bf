/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments of functions that are no operators but take params structs like them. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "args.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* Wrong params and tables; nothing is written. */
void rope_table(void)
{
    static float data[8] = { 7 }, ones[] = { 1, 1, 1 }, zero[] = { 1, 0 }, infinite[] = { 1, INFINITY };
    static const rfg_tensor factors = { ones, RFG_F32, 1, { 2 }, { 1 } }, three = { ones, RFG_F32, 1, { 3 }, { 1 } },
                            halves = { ones, RFG_F16, 1, { 2 }, { 1 } }, over = { data + 6, RFG_F32, 1, { 2 }, { 1 } },
                            wrongs[] = { { zero, RFG_F32, 1, { 2 }, { 1 } }, { infinite, RFG_F32, 1, { 2 }, { 1 } } };
    static const rfg_rope_table_params wrong[] = {
        { .scaling = (rfg_rope_scaling)-1 },
        { .scaling = (rfg_rope_scaling)7 },
        { .theta = 1 },
        { .theta = NAN },
        { .factor = 0.5 },
        { .factor = INFINITY },
        { .scaling = RFG_ROPE_LLAMA3 },
        { .scaling = RFG_ROPE_YARN, .original = -1 },
        { .scaling = RFG_ROPE_LLAMA3, .original = 8192, .low_freq_factor = 4 },
        { .scaling = RFG_ROPE_YARN, .original = 8192, .beta_slow = 33 },
        { .low_freq_factor = -1 },
        { .attention_factor = -1 },
        { .mscale = NAN },
        { .mscale_all_dim = -1 },
        { .first = -1 },
        { .reserved = 1 },
        { .length = 2 },
        { .scaling = RFG_ROPE_DYNAMIC },
        { .scaling = RFG_ROPE_DYNAMIC, .original = 8, .length = -1 },
        { .scaling = RFG_ROPE_DYNAMIC, .original = 8, .length = 1LL << 31 },
        { .scaling = RFG_ROPE_DYNAMIC, .original = 8, .first = 7, .length = 8 }, /* positions 7 and 8 */
        { .scaling = RFG_ROPE_DYNAMIC, .original = 8, .short_factor = &factors },
        { .scaling = RFG_ROPE_YARN, .original = 8, .partial_rotary_factor = .5 },
        { .scaling = RFG_ROPE_PROPORTIONAL, .partial_rotary_factor = -.5 },
        { .scaling = RFG_ROPE_PROPORTIONAL, .partial_rotary_factor = 1.25 },
        { .scaling = RFG_ROPE_PROPORTIONAL, .partial_rotary_factor = .49 }, /* of 2 pairs */
        { .scaling = RFG_ROPE_PROPORTIONAL, .long_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 1, .short_factor = &factors, .long_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .long_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &three, .long_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &factors, .long_factor = &halves },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &wrongs[0], .long_factor = &factors },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &factors, .long_factor = &wrongs[1] },
        { .scaling = RFG_ROPE_LONGROPE, .original = 8, .short_factor = &factors, .long_factor = &over },
        { .short_mscale = 1 },
        { .long_mscale = -1 },
    };
    static const char *const named[] = { "scaling",
                                         "scaling",
                                         "theta",
                                         "theta",
                                         "factor",
                                         "factor",
                                         "original",
                                         "original",
                                         "high_freq_factor",
                                         "beta_fast",
                                         "low_freq_factor",
                                         "attention_factor",
                                         "mscale",
                                         "mscale_all_dim",
                                         "first",
                                         "reserved",
                                         "length is given",
                                         "original is 0",
                                         "length is -1",
                                         "length is 2147483648",
                                         "length is 8: must be at least 9",
                                         "short_factor is given",
                                         "partial_rotary_factor is given",
                                         "partial_rotary_factor is -0.5",
                                         "partial_rotary_factor is 1.25",
                                         "partial_rotary_factor is 0.49: is no pair of 2",
                                         "long_factor is given",
                                         "original is 1: must be at least 2",
                                         "short_factor is NULL",
                                         "long_factor is NULL",
                                         "short_factor has 3 elements: must be table's pairs, 2",
                                         "long_factor is f16",
                                         "short_factor[1] is 0",
                                         "long_factor[1] is inf",
                                         "table [",
                                         "short_mscale is given",
                                         "long_mscale is -1" };
    _Static_assert(COUNT(wrong) == COUNT(named), "a name each");
    const rfg_tensor right = rfg_tensor_2d(data, RFG_F32, 2, 4, 4);
    const rfg_tensor narrow = rfg_tensor_2d(data, RFG_F32, 2, 2, 2);
    const rfg_rope_table_params dynamic = { .size = sizeof(dynamic), .scaling = RFG_ROPE_DYNAMIC, .original = 8 };
    for (int i = 0; i < COUNT(wrong); i++) {
        rfg_rope_table_params p = wrong[i];
        p.size = sizeof(p);
        ck_assert_msg(rfg_rope_table(&right, &p) == RFG_ERROR_INVALID_ARGUMENT, "%s: taken", named[i]);
        ck_assert_msg(strstr(rfg_last_error(), named[i]), "'%s' lacks '%s'", rfg_last_error(), named[i]);
    }
    rfg_rope_table_params sizeless = { .size = 0 };
    rfg_tensor t[] = { right, right, right, right, right };
    t[0].dtype = RFG_I32;
    t[1].shape[1] = 3;
    t[2].shape[1] = 0;
    t[3].strides[0] = 3;
    t[4].data = NULL;
    for (int i = 0; i < COUNT(t); i++) {
        ck_assert_msg(rfg_rope_table(&t[i], NULL) == RFG_ERROR_INVALID_ARGUMENT, "table %d: taken", i);
        ck_assert_msg(strstr(rfg_last_error(), "table"), "'%s'", rfg_last_error());
    }
    ck_assert_int_eq(rfg_rope_table(NULL, NULL), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(rfg_rope_table(&right, &sizeless), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(rfg_rope_table(&narrow, &dynamic), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(rfg_last_error(), "table has 2 columns: dynamic needs"), "'%s'", rfg_last_error());
    ck_assert(data[0] == 7 && data[7] == 0);
    ck_assert_int_eq(rfg_rope_table(&right, NULL), RFG_OK);
    ck_assert(data[0] == 1 && data[2] == 0);
}

/* What rfg_op_moe() refuses but for data; those may be missing. */
void moe_workspace(void)
{
    rfg_tensor t[] = { rfg_tensor_2d(NULL, RFG_BF16, 3, 8, 8),  rfg_tensor_2d(NULL, RFG_BF16, 3, 8, 8),
                       rfg_tensor_2d(NULL, RFG_BF16, 24, 8, 8), rfg_tensor_2d(NULL, RFG_BF16, 16, 6, 6),
                       rfg_tensor_2d(NULL, RFG_I32, 3, 2, 2),   rfg_tensor_2d(NULL, RFG_F32, 3, 2, 2) };
    static const char *const names[] = { "y", "x", "w1", "w2", "ids", "weights" };
    rfg_moe_params p = RFG_MOE_PARAMS_INIT;
    size_t bytes = 77;
    p.experts = 2;
#define ASK() rfg_moe_workspace_bytes(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &p, &bytes)
    for (int i = 0; i < COUNT(t); i++) {
        rfg_tensor kept = t[i];
        for (int d = 0; d < 2; d++) {
            t[i].shape[d]++;
            t[i].strides[0] += d;
            ck_assert_msg(ASK() == RFG_ERROR_INVALID_ARGUMENT, "%s: taken", names[i]);
            ck_assert_msg(strstr(rfg_last_error(), names[i]), "'%s' lacks '%s'", rfg_last_error(), names[i]);
            t[i] = kept;
        }
        t[i].ndim = 6;
        ck_assert_int_eq(ASK(), RFG_ERROR_INVALID_ARGUMENT);
        t[i] = kept;
    }
    p.experts = 0; /* w1 has two dimensions */
    ck_assert_int_eq(ASK(), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(rfg_last_error(), "experts is 0, w1 has 2 dimensions"), "%s", rfg_last_error());
    p.experts = 2;
    p.size = 3;
    ck_assert_int_eq(ASK(), RFG_ERROR_INVALID_ARGUMENT);
    p.size = sizeof(p);
    ck_assert_int_eq(rfg_moe_workspace_bytes(&t[0], NULL, &t[2], &t[3], &t[4], &t[5], &p, &bytes),
                     RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(rfg_moe_workspace_bytes(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &p, NULL),
                     RFG_ERROR_INVALID_ARGUMENT);
    ck_assert(bytes == 77);
    /* offsets, rows, sorted weights, places, 6 x 6 and 6 x 8 of bf16: 256 bytes each */
    ck_assert_msg(ASK() == RFG_OK && bytes == 6 * 256, "%zu", bytes);
}
