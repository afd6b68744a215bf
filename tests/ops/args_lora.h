/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of lora: y, x, a, b, ids, scales, ranks, indptr. */
static rfg_status lora(const struct call *c)
{
    rfg_lora_params p = { .scale = c->lora_scale, .scales = c->t[5], .ranks = c->t[6], .indptr = c->t[7] };
    return rfg_op_lora(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], c->t[4], PARAMS(p), c->stream);
}
static void lora_scale_nan(struct call *c)
{
    c->lora_scale = NAN;
}
static void lora_scale_inf(struct call *c)
{
    c->lora_scale = -INFINITY;
}
static const struct wrong lora_wrongs[] = { { "scale", lora_scale_nan }, { "scale", lora_scale_inf }, { NULL, NULL } };
#define LORA_FORMS                                                                                                     \
    { "rfg_op_lora",                                                                                                   \
      "lora",                                                                                                          \
      "an id a row",                                                                                                   \
      lora,                                                                                                            \
      .wrongs = lora_wrongs,                                                                                           \
      .n = 7,                                                                                                          \
      .args = { { "y", T2(B, 3, 20), ARG_OUT, FLOATS },                                                                \
                { "x", T2(B, 3, 16), 0 },                                                                              \
                { "a", T3(B, 2, 8, 16), 0 },                                                                           \
                { "b", T3(B, 2, 20, 8), 0 },                                                                           \
                { "ids", T1(RFG_I32, 3), 0, .values = { 1, -1, 0 } },                                                  \
                { "scales", T1(RFG_F32, 2), ARG_OPTIONAL },                                                            \
                { "ranks", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 8, 3 } } } },                                     \
    {                                                                                                                  \
        "rfg_op_lora", "lora", "segments", lora, .wrongs = lora_wrongs, .n = 8, .args = {                              \
            { "y", T2(RFG_F32, 2, 20), ARG_OUT, FLOATS },                                                              \
            { "x", T2(RFG_F16, 2, 16), 0 },                                                                            \
            { "a", T3(RFG_F16, 2, 8, 16), 0 },                                                                         \
            { "b", T3(RFG_F16, 2, 20, 8), 0 },                                                                         \
            { "ids", T1(RFG_I32, 2), 0, .values = { 1, 0 } },                                                          \
            { "scales", T1(RFG_F32, 2), ARG_OPTIONAL },                                                                \
            { "ranks", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 8, 3 } },                                             \
            { "indptr", T1(RFG_I32, 3), ARG_OPTIONAL, .values = { 0, 1, 2 } }                                          \
        }                                                                                                              \
    }
