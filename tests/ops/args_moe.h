/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of moe_align, moe_sum and rfg_op_moe(), and what may be wrong with their params. */
/* ---- moe_align: rows, ids, then those of its format -------------------------------------------------------------- */

static rfg_status moe_align_of(const struct call *c, rfg_moe_align_params p)
{
    return rfg_op_moe_align(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}
static rfg_status moe_align(const struct call *c)
{
    rfg_moe_align_params p = c->moe_align;
    p.offsets = c->t[2];
    p.weights_out = c->t[3];
    p.weights = c->t[4];
    p.places = c->t[5];
    p.expert_map = c->t[6];
    p.tokens = c->t[7];
    return moe_align_of(c, p);
}
static rfg_status moe_align_blocks(const struct call *c)
{
    rfg_moe_align_params p = c->moe_align;
    p.block_experts = c->t[2];
    p.count = c->t[3];
    return moe_align_of(c, p);
}
static rfg_status moe_align_masked(const struct call *c)
{
    rfg_moe_align_params p = c->moe_align;
    p.count = c->t[2];
    p.weights_out = c->t[3];
    p.weights = c->t[4];
    return moe_align_of(c, p);
}
static rfg_tensor some_ints = { &some_ints, RFG_I32, 1, { 5 }, { 1 } };
#define SPOIL_ALIGN(name, member, value)                                                                               \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->moe_align.member = value;                                                                                   \
    }
SPOIL_ALIGN(align_format_negative, format, -1)
SPOIL_ALIGN(align_format_unknown, format, 5)
SPOIL_ALIGN(align_block_negative, block, -1)
SPOIL_ALIGN(align_block_large, block, 65537)
SPOIL_ALIGN(align_block_two, block, 2)
SPOIL_ALIGN(align_experts_negative, experts, -1)
SPOIL_ALIGN(align_experts_many, experts, 8193)
SPOIL_ALIGN(align_identity_negative, identity, -1)
SPOIL_ALIGN(align_identity_many, identity, 65537)
SPOIL_ALIGN(align_identity_two, identity, 2) /* without places */
SPOIL_ALIGN(align_offsets_given, offsets, &some_ints)
SPOIL_ALIGN(align_count_given, count, &some_ints)
SPOIL_ALIGN(align_blocks_given, block_experts, &some_ints)
SPOIL_ALIGN(align_weights_alone, weights, &some_ints)
#define ALIGN_WRONGS                                                                                                   \
    { "format", align_format_negative }, { "format", align_format_unknown }, { "block", align_block_negative },        \
        { "block", align_block_large }, { "experts", align_experts_negative }, { "experts", align_experts_many },      \
        { "identity", align_identity_negative },                                                                       \
    {                                                                                                                  \
        "identity", align_identity_many                                                                                \
    }
static const struct wrong align_wrongs[] = { ALIGN_WRONGS,
                                             { "block", align_block_two },
                                             { "count", align_count_given },
                                             { "block_experts", align_blocks_given },
                                             { NULL, NULL } };
static const struct wrong align_blocks_wrongs[] = { ALIGN_WRONGS,
                                                    { "identity", align_identity_two },
                                                    { "offsets", align_offsets_given },
                                                    { "weights_out", align_weights_alone },
                                                    { NULL, NULL } };
static const struct wrong align_masked_wrongs[] = { ALIGN_WRONGS,
                                                    { "block", align_block_two },
                                                    { "offsets", align_offsets_given },
                                                    { "block_experts", align_blocks_given },
                                                    { NULL, NULL } };

/* ---- moe_sum: y, residual, x, places, weights, tokens ------------------------------------------------------------ */

static rfg_status moe_sum(const struct call *c)
{
    rfg_moe_sum_params p = { .residual = c->t[1], .weights = c->t[4], .tokens = c->t[5] };
    return rfg_op_moe_sum(c->ctx, c->t[0], c->t[2], c->t[3], PARAMS(p), c->stream);
}

static rfg_status moe_sum_identity(const struct call *c)
{
    rfg_moe_sum_params p = { .identity = c->t[3], .identity_weights = c->t[4] };
    return rfg_op_moe_sum(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

/* ---- rfg_op_moe(): y, residual, x, w1, w2, ids, weights, w1_bias, w2_bias, expert_map, tokens, identity_x -------- */

static rfg_status moe(const struct call *c)
{
    static _Alignas(256) char workspace[8192];
    rfg_moe_params p = c->moe;
    p.residual = c->t[1];
    p.w1_bias = c->t[7];
    p.w2_bias = c->t[8];
    p.expert_map = c->t[9];
    p.tokens = c->t[10];
    p.identity_x = c->t[11];
    p.workspace = workspace + p.workspace_bytes % 256; /* as a test may want it */
    p.workspace_bytes = sizeof(workspace) - p.workspace_bytes;
    return rfg_op_moe(c->ctx, c->t[0], c->t[2], c->t[3], c->t[4], c->t[5], c->t[6], PARAMS(p), c->stream);
}
/* ---- the same of weights of 4 bits, and of 8: y, x, w1, w2, ids, weights, then scales ---------------------------- */

static rfg_status moe_of(const struct call *c, rfg_moe_params p)
{
    static _Alignas(256) char workspace[16384];
    p.workspace = workspace;
    p.workspace_bytes = sizeof(workspace);
    return rfg_op_moe(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], c->t[4], c->t[5], PARAMS(p), c->stream);
}
static rfg_status moe_i4(const struct call *c)
{
    rfg_moe_params p = c->moe;
    p.w1_scale = c->t[6];
    p.w2_scale = c->t[7];
    p.w1_zero = c->t[8];
    p.w2_zero = c->t[9];
    return moe_of(c, p);
}
static rfg_status moe_nvfp4(const struct call *c)
{
    rfg_moe_params p = c->moe;
    p.w1_scale = c->t[6];
    p.w2_scale = c->t[7];
    p.w1_global = c->t[8];
    p.w2_global = c->t[9];
    return moe_of(c, p);
}
static rfg_status moe_codes(const struct call *c)
{
    rfg_moe_params p = c->moe;
    p.w1_scale = c->t[6];
    p.w2_scale = c->t[7];
    p.x_scale = c->t[8];
    p.h_scale = c->t[9];
    return moe_of(c, p);
}
#define SPOIL_MOE(name, member, value)                                                                                 \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->moe.member = value;                                                                                         \
    }
SPOIL_MOE(moe_experts, experts, 3)
SPOIL_MOE(moe_experts_many, experts, 8193)
SPOIL_MOE(moe_act, act, RFG_ACT_NONE)
SPOIL_MOE(moe_situ, situ_beta, 4)
SPOIL_MOE(moe_identity_negative, identity, -1)
SPOIL_MOE(moe_identity_many, identity, 65537)
SPOIL_MOE(moe_limit, limit, -1)
SPOIL_MOE(moe_alpha, alpha, 1)
SPOIL_MOE(moe_fast, fast_accum, 1)
SPOIL_MOE(moe_per, x_per, (rfg_gemm_scale)3)
SPOIL_MOE(moe_per_none, x_per, (rfg_gemm_scale)4)
SPOIL_MOE(moe_x_codes, x_codes, RFG_E4M3)
SPOIL_MOE(moe_rounding, rounding, RFG_SCALE_UP)
SPOIL_MOE(moe_rounding_none, rounding, 5)
SPOIL_MOE(moe_w_per, w_per, (rfg_gemm_scale)1)
SPOIL_MOE(moe_w1_scale, w1_scale, &some_ints)
SPOIL_MOE(moe_w2_zero, w2_zero, &some_ints)
SPOIL_MOE(moe_h_scale, h_scale, &some_ints)
SPOIL_MOE(moe_x_scale, x_scale, &some_ints)
SPOIL_MOE(moe_unaligned, workspace_bytes, 8)
SPOIL_MOE(moe_workspace_bytes, workspace_bytes, 8192 - 256)
static const struct wrong moe_wrongs[] = { { "experts", moe_experts },
                                           { "experts", moe_experts_many },
                                           { "act", moe_act },
                                           { "limit", moe_limit },
                                           { "alpha", moe_alpha },
                                           { "situ_beta", moe_situ },
                                           { "identity", moe_identity_negative },
                                           { "identity", moe_identity_many },
                                           { "fast_accum", moe_fast },
                                           { "x_per", moe_per },
                                           { "x_per", moe_per_none },
                                           { "x_codes", moe_x_codes },
                                           { "rounding", moe_rounding },
                                           { "rounding", moe_rounding_none },
                                           { "w_per", moe_w_per },
                                           { "w1_scale", moe_w1_scale },
                                           { "w2_zero", moe_w2_zero },
                                           { "h_scale", moe_h_scale },
                                           { "x_scale", moe_x_scale },
                                           { "workspace", moe_unaligned },
                                           { "workspace_bytes", moe_workspace_bytes },
                                           { NULL, NULL } };
