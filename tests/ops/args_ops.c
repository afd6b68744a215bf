/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

#define FLOATS  (1u << RFG_F32 | 1u << RFG_F16 | 1u << RFG_BF16)
#define CODES   (1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2 | 1u << RFG_I8)
#define NIBBLES (1u << RFG_E2M1 | 1u << RFG_I4)
#define B       RFG_BF16

#define T1(dtype, n)                                                                                                   \
    {                                                                                                                  \
        NULL, dtype, 1, { n },                                                                                         \
        {                                                                                                              \
            1                                                                                                          \
        }                                                                                                              \
    }
#define T2(dtype, m, n)                                                                                                \
    {                                                                                                                  \
        NULL, dtype, 2, { m, n },                                                                                      \
        {                                                                                                              \
            n, 1                                                                                                       \
        }                                                                                                              \
    }
#define T3(dtype, l, m, n)                                                                                             \
    {                                                                                                                  \
        NULL, dtype, 3, { l, m, n },                                                                                   \
        {                                                                                                              \
            (m) * (n), n, 1                                                                                            \
        }                                                                                                              \
    }
#define T4(dtype, k, l, m, n)                                                                                          \
    {                                                                                                                  \
        NULL, dtype, 4, { k, l, m, n },                                                                                \
        {                                                                                                              \
            (l) * (m) * (n), (m) * (n), n, 1                                                                           \
        }                                                                                                              \
    }
#define T5(dtype, j, k, l, m, n)                                                                                       \
    {                                                                                                                  \
        NULL, dtype, 5, { j, k, l, m, n },                                                                             \
        {                                                                                                              \
            (k) * (l) * (m) * (n), (l) * (m) * (n), (m) * (n), n, 1                                                    \
        }                                                                                                              \
    }

static const struct wrong no_wrongs[] = { { NULL, NULL } };

/* ---- gemm ------------------------------------------------------------------------------------------------------- */

/* The call's params struct, or its quant, as its caller has it: see struct foreign. */
size_t params_size;

static void *params_of(const struct call *c, bool quant, void *params, size_t own)
{
    static _Alignas(64) unsigned char caller[8192];
    const struct foreign *f = &c->foreign;
    if (f->quant != quant) {
        memcpy(params, &own, sizeof(own));
        return params;
    }
    size_t size = f->sized ? f->size : own;
    memset(caller, f->rest, sizeof(caller));
    memcpy(caller, params, f->kept ? f->kept : own);
    memcpy(caller, &size, sizeof(size));
    if (f->dirt)
        caller[f->dirt] = 1;
    params_size = own;
    return caller;
}
#define PARAMS(p) params_of(c, false, &(p), sizeof(p))
#define QUANT(q)  params_of(c, true, &(q), sizeof(q))

static rfg_status gemm(const struct call *c)
{
    rfg_gemm_params p = { .bias = c->t[3] };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status gemm_residual(const struct call *c)
{
    rfg_gemm_params p = { .residual = c->t[1] };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[2], c->t[3], PARAMS(p), c->stream);
}

static rfg_status gemm_codes_out(const struct call *c)
{
    rfg_gemm_params p = { .y_scale = c->t[3] };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status gemm_nvfp4(const struct call *c)
{
    rfg_gemm_params p = { .w_scale = c->t[3], .w_global = c->t[4] };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status gemm_gated(const struct call *c)
{
    rfg_gemm_params p = { .bias = c->t[3], .gated = 1, .act = RFG_ACT_GELU };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status gemm_batched(const struct call *c)
{
    rfg_gemm_params p = { .fast_accum = 0 };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status gemm_grouped(const struct call *c)
{
    rfg_gemm_params p = { .bias = c->t[3], .offsets = c->t[4], .rows = c->t[5], .weights = c->t[6] };
    return rfg_op_gemm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status prepack(const struct call *c)
{
    params_size = 0;
    return rfg_gemm_prepack(c->ctx, c->t[0], c->t[1], c->stream);
}

#include "args_norm.h"

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* out, q, k, v, lse, sinks, alibi */
static rfg_status mha(const struct call *c)
{
    rfg_mha_params p = c->mha;
    p.lse = c->t[4], p.sinks = c->t[5], p.alibi = c->t[6];
    return rfg_op_mha(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}

/* out, q, k, v, lse, cu_seqlens_q, cu_seqlens_k */
static rfg_status mha_varlen(const struct call *c)
{
    rfg_mha_params p = c->mha;
    p.lse = c->t[4], p.cu_seqlens_q = c->t[5], p.cu_seqlens_k = c->t[6];
    return rfg_op_mha(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}

/* out, q, k, v, k_scale, v_scale, block_table, kv_lens */
static rfg_status mha_paged(const struct call *c)
{
    rfg_mha_params p = c->mha;
    p.k_scale = c->t[4], p.v_scale = c->t[5], p.block_table = c->t[6], p.kv_lens = c->t[7];
    return rfg_op_mha(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}

/* out, q, k, v, block_table, kv_lens, lse, k_scale, v_scale, sinks, alibi */
static rfg_status decode(const struct call *c)
{
    rfg_mha_params p = c->mha;
    p.block_table = c->t[4], p.kv_lens = c->t[5], p.lse = c->t[6], p.k_scale = c->t[7], p.v_scale = c->t[8];
    p.sinks = c->t[9], p.alibi = c->t[10];
    return rfg_op_mha_decode(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}

static void scale_nan(struct call *c)
{
    c->mha.scale = NAN;
}
static void scale_inf(struct call *c)
{
    c->mha.scale = -INFINITY;
}
static void cap_nan(struct call *c)
{
    c->mha.soft_cap = NAN;
}
static void cap_negative(struct call *c)
{
    c->mha.soft_cap = -1;
}
static void left_negative(struct call *c)
{
    c->mha.window = RFG_MHA_WINDOW_SIDES;
    c->mha.window_left = -2;
}
static void right_negative(struct call *c)
{
    c->mha.window = RFG_MHA_WINDOW_SIDES;
    c->mha.window_right = INT32_MIN;
}
static void window_negative(struct call *c)
{
    c->mha.window = -2;
}
static void left_alone(struct call *c)
{
    c->mha.window_left = -1;
}
static void max_k_negative(struct call *c)
{
    c->mha.max_seqlen_k = -1;
}
static void mean_k_negative(struct call *c)
{
    c->mha.mean_seqlen_k = INT32_MIN;
}
static void max_q_negative(struct call *c)
{
    c->mha.max_seqlen_q = -1;
}

#define MHA_WRONGS                                                                                                     \
    { "scale", scale_nan }, { "scale", scale_inf }, { "soft_cap", cap_nan }, { "soft_cap", cap_negative },             \
        { "window_left", left_negative }, { "window_right", right_negative }, { "max_seqlen_k", max_k_negative },      \
        { "window", window_negative }, { "window_left", left_alone },                                                  \
    {                                                                                                                  \
        "mean_seqlen_k", mean_k_negative                                                                               \
    }
static const struct wrong mha_wrongs[] = { MHA_WRONGS, { NULL, NULL } };
static const struct wrong varlen_wrongs[] = { MHA_WRONGS, { "max_seqlen_q", max_q_negative }, { NULL, NULL } };

#include "args_advance.h"
#include "args_embedding.h"
#include "args_lora.h"
#include "args_merge.h"
#include "args_mla.h"
#include "args_moe.h"
#include "args_quantize.h"
#include "args_rope.h"
#include "args_route.h"
#include "args_sample.h"

/* ---- the calls --------------------------------------------------------------------------------------------------- */

#define STATIC .call = { .kind = RFG_SCALE_STATIC }
#define TOKEN  .call = { .kind = RFG_SCALE_TOKEN }
#define GROUP  .call = { .kind = RFG_SCALE_GROUP }
#define MX     .call = { .kind = RFG_SCALE_MX, .rounding = RFG_SCALE_EVEN }

const struct form forms[] = {
    { "rfg_op_gemm", "gemm", "plain", gemm, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", T2(B, 4, 6), ARG_OUT, FLOATS },
                { "x", T2(B, 4, 8), 0 },
                { "w", T2(B, 6, 8), 0, CODES },
                { "bias", T1(B, 6), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_gemm", "gemm", "rows apart", gemm, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", { NULL, RFG_F32, 2, { 4, 6 }, { 7, 1 } }, ARG_OUT, FLOATS },
                { "x", { NULL, B, 2, { 4, 8 }, { 9, 1 } }, 0 },
                { "w", { NULL, B, 2, { 6, 8 }, { 16, 1 } }, 0, CODES },
                { "bias", T1(B, 6), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_gemm", "gemm", "prepacked", gemm, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", T2(RFG_F16, 3, 32), ARG_OUT, FLOATS },
                { "x", T2(RFG_F16, 3, 64), 0 },
                { "w", T5(RFG_F16, 2, 2, 4, 16, 8), 0 },
                { "bias", T1(RFG_F16, 32), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_gemm", "gemm", "residual", gemm_residual, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", T2(B, 4, 6), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(B, 4, 6), ARG_OPTIONAL },
                { "x", T2(B, 4, 8), 0 },
                { "w", T2(B, 6, 8), 0, CODES } } },
    { "rfg_op_gemm", "gemm", "y of codes", gemm_codes_out, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", T2(RFG_E4M3, 4, 6), ARG_OUT, CODES },
                { "x", T2(B, 4, 8), 0 },
                { "w", T2(B, 6, 8), 0, CODES },
                { "y_scale", T1(RFG_F32, 1), 0 } } },
    { "rfg_op_gemm", "gemm", "nvfp4", gemm_nvfp4, .wrongs = no_wrongs, .n = 5,
      .args = { { "y", T2(B, 4, 6), ARG_OUT, FLOATS },
                { "x", T2(B, 4, 64), 0, FLOATS | CODES | NIBBLES },
                { "w", T2(RFG_E2M1, 6, 64), 0, CODES },
                { "w_scale", T2(RFG_E4M3, 6, 4), 0 },
                { "w_global", T1(RFG_F32, 1), ARG_OPTIONAL } } },
    { "rfg_op_gemm", "gemm", "gated", gemm_gated, .wrongs = no_wrongs, .n = 4,
      .args = { { "y", T2(B, 4, 3), ARG_OUT, FLOATS },
                { "x", T2(B, 4, 8), 0 },
                { "w", T2(B, 6, 8), 0, CODES },
                { "bias", T1(B, 6), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_gemm", "gemm", "grouped", gemm_grouped, .wrongs = no_wrongs, .n = 7,
      .args = { { "y", T2(B, 5, 6), ARG_OUT, FLOATS },
                { "x", T2(B, 4, 8), 0, 0, 1 },
                { "w", T2(B, 12, 8), 0, CODES },
                { "bias", T1(B, 12), ARG_OPTIONAL, 1u << RFG_F32 },
                { "offsets", T1(RFG_I32, 3), 0, .values = { 0, 2, 5 } },
                { "rows", T1(RFG_I32, 5), 0, .values = { 3, 0, 1, 2, 3 } },
                { "weights", T1(RFG_F32, 5), ARG_OPTIONAL } } },
    { "rfg_op_gemm", "gemm", "batched", gemm_batched, .wrongs = no_wrongs, .n = 3,
      .args = { { "y", T3(B, 4, 2, 6), ARG_OUT, FLOATS }, { "x", T3(B, 4, 2, 8), 0 }, { "w", T3(B, 2, 6, 8), 0 } } },
    { "rfg_gemm_prepack", "gemm_prepack", "plain", prepack, .wrongs = no_wrongs, .n = 2,
      .args = { { "dst", T5(B, 2, 2, 4, 16, 8), ARG_OUT }, { "src", T2(B, 32, 64), 0 } } },
    { "rfg_gemm_prepack", "gemm_prepack", "4 bits", prepack, .wrongs = no_wrongs, .n = 2,
      .args = { { "dst", T5(RFG_I4, 2, 2, 4, 16, 32), ARG_OUT }, { "src", T2(RFG_I4, 32, 256), 0 } } },
    { "rfg_gemm_prepack", "gemm_prepack", "groups", prepack, .wrongs = no_wrongs, .n = 2,
      .args = { { "dst", T3(RFG_F16, 2, 6, 16), ARG_OUT }, { "src", T2(RFG_F16, 32, 6), 0 } } },
    { "rfg_op_rmsnorm", "rmsnorm", "plain", rmsnorm, .wrongs = rmsnorm_wrongs, .n = 3,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "weight", T1(B, 20), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_rmsnorm", "rmsnorm", "heads", rmsnorm, .wrongs = rmsnorm_wrongs, .n = 3,
      .args = { { "y", T3(B, 2, 3, 8), ARG_OUT | ARG_SAME_AS_NEXT },
                { "x", { NULL, B, 3, { 2, 3, 8 }, { 40, 8, 1 } }, 0 },
                { "weight", T1(B, 8), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_rmsnorm", "rmsnorm", "scale=token", rmsnorm_quant, TOKEN, .wrongs = norm_quant_wrongs, .n = 5,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "q", T2(RFG_E4M3, 3, 20), ARG_OUT, CODES },
                { "scale", T1(RFG_F32, 3), ARG_OUT },
                { "weight", T1(B, 20), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_rmsnorm", "rmsnorm", "scale=group", rmsnorm_quant, GROUP, .wrongs = norm_quant_wrongs, .n = 5,
      .args = { { "y", T2(B, 3, 260), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 260), 0 },
                { "q", T2(RFG_I8, 3, 260), ARG_OUT, CODES },
                { "scale", { NULL, RFG_F32, 2, { 3, 3 }, { 1, 4 } }, ARG_OUT | ARG_ANY_STRIDE }, /* columns */
                { "weight", T1(B, 260), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_rmsnorm", "rmsnorm", "scale=mx", rmsnorm_quant, MX, .wrongs = norm_quant_wrongs, .n = 5,
      .args = { { "y", T2(B, 3, 96), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 96), 0 },
                { "q", T2(RFG_E2M1, 3, 96), ARG_OUT, 1u << RFG_E4M3 },
                { "scale", { NULL, RFG_E8M0, 2, { 3, 3 }, { 1, 4 } }, ARG_OUT | ARG_ANY_STRIDE }, /* columns */
                { "weight", T1(B, 96), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_layernorm", "layernorm", "plain", layernorm, .wrongs = norm_wrongs, .n = 4,
      .args = { { "y", T2(RFG_F32, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "x", T2(RFG_F32, 3, 20), 0 },
                { "weight", T1(RFG_F32, 20), ARG_OPTIONAL },
                { "bias", T1(RFG_F32, 20), ARG_OPTIONAL } } },
    { "rfg_op_add_rmsnorm", "add_rmsnorm", "scale=static", add_rmsnorm, STATIC, .wrongs = norm_quant_wrongs, .n = 7,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "residual_out", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(B, 3, 20), 0 },
                { "q", T2(RFG_E5M2, 3, 20), ARG_OUT, CODES },
                { "scale", T1(RFG_F32, 1), 0 },
                { "weight", T1(B, 20), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_add_layernorm", "add_layernorm", "f32 residuals, weight and bias", add_layernorm, .wrongs = norm_wrongs,
      .n = 6,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "residual_out", T2(RFG_F32, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(RFG_F32, 3, 20), 0 },
                { "weight", T1(RFG_F32, 20), ARG_OPTIONAL },
                { "bias", T1(RFG_F32, 20), ARG_OPTIONAL } } },
    { "rfg_op_add_layernorm", "add_layernorm", "plain", add_layernorm, .wrongs = norm_wrongs, .n = 6,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "residual_out", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(B, 3, 20), 0 },
                { "weight", T1(B, 20), ARG_OPTIONAL },
                { "bias", T1(B, 20), ARG_OPTIONAL } } },
    { "rfg_op_act", "act", "plain", act, .wrongs = act_wrongs, .n = 2,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT }, { "x", T2(B, 3, 20), 0 } } },
    { "rfg_op_act", "act", "scale=token", act_quant, TOKEN, .wrongs = act_wrongs, .n = 4,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "q", T2(RFG_E4M3FNUZ, 3, 20), ARG_OUT, CODES },
                { "scale", T2(RFG_F32, 3, 1), ARG_OUT } } },
    { "rfg_op_act", "act", "scale=static, of two dimensions", act_quant, STATIC, .wrongs = act_wrongs, .n = 4,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_OPTIONAL | ARG_SAME_AS_NEXT },
                { "x", T2(B, 3, 20), 0 },
                { "q", T2(RFG_I8, 3, 20), ARG_OUT, CODES },
                { "scale", T2(RFG_F32, 1, 1), 0 } } },
    { "rfg_op_act_and_mul", "act_and_mul", "scale=group", act_and_mul, GROUP, .wrongs = mul_wrongs, .n = 4,
      .args = { { "y", T2(RFG_F16, 3, 130), ARG_OUT | ARG_OPTIONAL },
                { "x", T2(RFG_F16, 3, 260), 0 },
                { "q", T2(RFG_E4M3, 3, 130), ARG_OUT, CODES },
                { "scale", T2(RFG_F32, 3, 2), ARG_OUT } } },
    { "rfg_op_act_and_mul", "act_and_mul", "scale=mx", act_and_mul, MX, .wrongs = mul_wrongs, .n = 4,
      .args = { { "y", T2(RFG_F16, 3, 64), ARG_OUT | ARG_OPTIONAL },
                { "x", T2(RFG_F16, 3, 128), 0 },
                { "q", T2(RFG_E4M3, 3, 64), ARG_OUT, 1u << RFG_E2M1 },
                { "scale", T2(RFG_E8M0, 3, 2), ARG_OUT } } },
    { "rfg_op_embedding", "embedding", "plain", embedding, .wrongs = embedding_wrongs, .n = 3,
      .args = { { "y", T2(B, 3, 20), ARG_OUT, 1u << RFG_F32 },
                { "ids", T1(RFG_I32, 3), 0, 1u << RFG_I64, .values = { 1, 0, 4 } },
                { "table", T2(B, 5, 20), 0, .sizes = 1 } } },
    { "rfg_op_advance", "advance", "with spare blocks", advance, .call = { .advance = { .page = 4 } },
      .wrongs = advance_wrongs, .n = 8,
      .args = { { "kv_lens", T1(RFG_I32, 3), ARG_OUT, .values = { 4, 2, 7 } },
                { "positions", T2(RFG_I64, 3, 2), ARG_OUT, 1u << RFG_I32 },
                { "slots", T2(RFG_I64, 3, 2), ARG_OUT | ARG_OPTIONAL },
                { "block_table", T2(RFG_I32, 3, 5), ARG_OUT, .sizes = 2, .values = { 1, 0, 4 } },
                { "accepted", T1(RFG_I32, 3), ARG_OPTIONAL, .values = { 1, 2, 0 } },
                { "active", T1(RFG_I32, 3), ARG_OPTIONAL, .values = { 1, 1, 0 } },
                { "spare", T1(RFG_I32, 6), 0, .sizes = 1, .values = { 9, 8, 7, 6, 5, 4 } },
                { "spare_count", T1(RFG_I32, 1), ARG_OUT, .values = { 6 } } } },
    { "rfg_op_advance", "advance", "lengths and positions", advance, .wrongs = advance_plain_wrongs, .n = 2,
      .args = { { "kv_lens", T1(RFG_I32, 3), ARG_OUT, .values = { 4, 2, 7 } },
                { "positions", T1(RFG_I32, 3), ARG_OUT, 1u << RFG_I64 } } },
    { "rfg_op_dequantize", "dequantize", "one scale", dequantize, .wrongs = dequantize_wrongs, .n = 3,
      .args = { { "y", T2(B, 3, 20), ARG_OUT, FLOATS },
                { "q", T2(RFG_E4M3, 3, 20), 0, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 1, 1), 0, 1u << RFG_E8M0 } } },
    { "rfg_op_dequantize", "dequantize", "groups", dequantize, .call = { .dequantize = { 0, 1, 8 } },
      .wrongs = dequantize_wrongs, .n = 3,
      .args = { { "y", T2(RFG_F32, 3, 20), ARG_OUT, FLOATS },
                { "q", T2(RFG_I8, 3, 20), 0, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 3, 3), 0, 1u << RFG_E8M0 } } },
    { "rfg_op_quantize", "quantize", "tokens", quantize, .call = { .quantize = { .group_rows = 1 } },
      .wrongs = quantize_wrongs, .n = 3,
      .args = { { "q", T2(RFG_E4M3, 3, 40), ARG_OUT, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 3, 1), ARG_OUT, 0 },
                { "x", T2(B, 3, 40), 0, FLOATS } } },
    { "rfg_op_quantize", "quantize", "groups", quantize,
      .call = { .quantize = { .group_rows = 1, .group_cols = 32, .rounding = RFG_SCALE_UP } },
      .wrongs = (const struct wrong[]){ { "group_cols", quantize_cols_odd }, { NULL, NULL } }, .n = 3,
      .args = { { "q", T2(RFG_E4M3, 3, 40), ARG_OUT, CODES | NIBBLES },
                { "scale", T2(RFG_E8M0, 3, 2), ARG_OUT, 1u << RFG_F32 },
                { "x", T2(RFG_F32, 3, 40), 0, FLOATS } } },
    { "rfg_op_quantize", "quantize", "nvfp4", quantize_nvfp4,
      .call = { .quantize = { .group_rows = 1, .group_cols = 16 } },
      .wrongs = (const struct wrong[]){ { "floor_amax", floor_amax_small }, { NULL, NULL } }, .n = 4,
      .args = { { "q", T2(RFG_E2M1, 3, 40), ARG_OUT, 0 },
                { "scale", T2(RFG_E4M3, 3, 3), ARG_OUT, 0 },
                { "x", T2(B, 3, 40), 0, FLOATS },
                { "global", T1(RFG_F32, 1), ARG_OPTIONAL } } },
    { "rfg_op_quantize", "quantize", "smooth tokens", quantize, .call = { .quantize = { .group_rows = 1 } },
      .wrongs = no_wrongs, .n = 4,
      .args = { { "q", T2(RFG_I8, 3, 40), ARG_OUT, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 3, 1), ARG_OUT, 0 },
                { "x", T2(B, 3, 40), 0, 0 },
                { "smooth", T1(B, 40), ARG_OPTIONAL, 1u << RFG_F32 } } },
    { "rfg_op_quantize", "quantize", "a tensor's scale", quantize, .wrongs = quantize_tensor_wrongs, .n = 3,
      .args = { { "q", T2(RFG_E4M3, 3, 40), ARG_OUT, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 1, 1), ARG_OUT, 0 },
                { "x", T2(B, 3, 40), 0, FLOATS } } },
    { "rfg_op_quantize", "quantize", "a given scale", quantize, .call = { .quantize = { .scale_given = 1 } },
      .wrongs = quantize_given_wrongs, .n = 3,
      .args = { { "q", T2(RFG_E4M3, 3, 40), ARG_OUT, CODES | NIBBLES },
                { "scale", T2(RFG_F32, 1, 1), 0, 1u << RFG_E8M0 },
                { "x", T2(B, 3, 40), 0, FLOATS } } },
    { "rfg_op_quantize_scale", "quantize_scale", "plain", quantize_scale, .call = { .quantize = { .codes = RFG_E4M3 } },
      .wrongs = quantize_scale_wrongs, .n = 2,
      .args = { { "scale", T2(RFG_F32, 1, 1), ARG_OUT, 0 }, { "x", T2(B, 3, 40), 0, FLOATS, .sizes = 3 } } },
    { "rfg_op_rope", "rope", "plain", rope, .wrongs = no_wrongs, .n = 6,
      .args = { { "q_out", T3(B, 3, 4, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "q", { NULL, B, 3, { 3, 4, 16 }, { 64, 16, 1 } }, 0 },
                { "k_out", T3(B, 3, 2, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "k", { NULL, B, 3, { 3, 2, 16 }, { 40, 16, 1 } }, 0 },
                { "cos_sin", T2(RFG_F32, 8, 16), 0, 1u << B, .sizes = 1 },
                { "positions", T1(RFG_I32, 3), 0, 1u << RFG_I64, .values = { 1, 0, 7 } } } },
    { "rfg_op_rope", "rope", "axes", rope, .call = { .rope = { .sections = { 2, 1, 1 } } }, .wrongs = axes_wrongs,
      .n = 6,
      .args = { { "q_out", T3(RFG_F16, 2, 3, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "q", T3(RFG_F16, 2, 3, 16), 0 },
                { "k_out", T3(RFG_F16, 2, 1, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "k", T3(RFG_F16, 2, 1, 16), 0 },
                { "cos_sin", T2(RFG_F16, 8, 8), 0, 1u << RFG_F32, .sizes = 1 },
                { "positions", T2(RFG_I32, 3, 2), 0, 1u << RFG_I64, .sizes = 1, .values = { 1, 0, 7, 2, 9, 3 } } } },
    { "rfg_op_rope", "rope", "f32, the last", rope, .call = { .rope = { .offset = 8 } }, .wrongs = rope_wrongs, .n = 6,
      .args = { { "q_out", T3(RFG_F32, 2, 3, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "q", T3(RFG_F32, 2, 3, 16), 0 },
                { "k_out", T3(RFG_F32, 2, 1, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "k", T3(RFG_F32, 2, 1, 16), 0 },
                { "cos_sin", T2(RFG_F32, 8, 8), 0, .sizes = 1 },
                { "positions", T1(RFG_I32, 2), 0, 1u << RFG_I64, .values = { 1, 0 } } } },
    { "rfg_op_kv_append", "kv_append", "plain", kv_append, .wrongs = no_wrongs, .n = 5,
      .args = { { "k_cache", T4(B, 2, 4, 2, 16), ARG_OUT },
                { "v_cache", T4(B, 2, 4, 2, 8), ARG_OUT },
                { "k", T3(B, 3, 2, 16), 0 },
                { "v", T3(B, 3, 2, 8), 0 },
                { "slots", T1(RFG_I64, 3), 0 } } },
    { "rfg_op_kv_append", "kv_append", "older vLLM, codes", kv_append, .wrongs = no_wrongs, .n = 7,
      .args = { { "k_cache", T5(RFG_E4M3, 3, 2, 2, 4, 16), ARG_OUT },
                { "v_cache", T4(RFG_E4M3, 3, 2, 32, 4), ARG_OUT },
                { "k", T3(RFG_F16, 3, 2, 32), 0 },
                { "v", T3(RFG_F16, 3, 2, 32), 0 },
                { "slots", T1(RFG_I64, 3), 0 },
                { "k_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "v_scale", T1(RFG_F32, 1), ARG_OPTIONAL, .sizes = 1 } } }, /* 2: one a head */
    { "rfg_op_kv_append", "kv_append", "scales of tokens", kv_append, .wrongs = no_wrongs, .n = 7,
      .args = { { "k_cache", T4(RFG_I8, 2, 4, 2, 16), ARG_OUT },
                { "v_cache", T4(RFG_I8, 2, 4, 2, 8), ARG_OUT },
                { "k", T3(B, 3, 2, 16), 0 },
                { "v", T3(B, 3, 2, 8), 0 },
                { "slots", T1(RFG_I64, 3), 0 },
                { "k_scale", T3(RFG_F32, 2, 4, 2), ARG_OUT | ARG_ANY_STRIDE },
                { "v_scale", T3(RFG_F32, 2, 4, 2), ARG_OUT | ARG_ANY_STRIDE } } },
    { "rfg_op_rope_append", "rope_append", "norm, codes", rope_append, .call = { .rope_append = { .eps = 1e-6f } },
      .wrongs = append_wrongs, .n = 13,
      .args = { { "q_out", T3(B, 3, 4, 16), ARG_OUT | ARG_SAME_AS_NEXT },
                { "q", T3(B, 3, 4, 16), 0 },
                { "k_cache", T4(RFG_E5M2, 2, 4, 2, 16), ARG_OUT },
                { "v_cache", T4(RFG_E5M2, 2, 4, 2, 16), ARG_OUT },
                { "k", T3(B, 3, 2, 16), 0 },
                { "v", T3(B, 3, 2, 16), 0 },
                { "cos_sin", T2(RFG_F32, 8, 16), 0, 1u << B, .sizes = 1 },
                { "positions", T1(RFG_I32, 3), 0, 1u << RFG_I64, .values = { 1, 0, 7 } },
                { "slots", T1(RFG_I64, 3), 0 },
                { "q_norm", T1(B, 16), 0 },
                { "k_norm", T1(B, 16), 0 },
                { "k_scale", T1(RFG_F32, 1), ARG_OPTIONAL, .sizes = 1 },
                { "v_scale", T1(RFG_F32, 2), ARG_OPTIONAL } } },
    { "rfg_op_moe_gate", "moe_gate", "norm, groups, a shared expert", moe_gate,
      .call = { .moe_gate = { .groups = 4, .topk_groups = 2, .shared = 1, .eps = 1e-5f } }, .wrongs = gate_wrongs,
      .n = 13,
      .args = { { "ids", T2(RFG_I32, 3, 3), ARG_OUT },
                { "weights", T2(RFG_F32, 3, 3), ARG_OUT },
                { "x", T2(B, 3, 16), 0 },
                { "w", T2(B, 8, 16), 0 },
                { "normed", T2(B, 3, 16), ARG_OUT },
                { "norm", T1(B, 16), 0 },
                { "rows", T1(RFG_I32, 9), ARG_OUT },
                { "offsets", T1(RFG_I32, 10), ARG_OUT },
                { "sorted", T1(RFG_F32, 9), ARG_OUT },
                { "places", T2(RFG_I32, 3, 3), ARG_OUT },
                { "w_bias", T1(B, 8), ARG_OPTIONAL },
                { "bias", T1(RFG_F32, 8), ARG_OPTIONAL, 1u << B },
                { "tokens", T1(RFG_I32, 1), ARG_OPTIONAL, .values = { 2 } } } },
    { "rfg_op_moe_route", "moe_route", "groups, a shared expert", moe_route,
      .call = { .moe_route = { .groups = 4, .topk_groups = 2, .shared = 1 } }, .wrongs = route_wrongs, .n = 5,
      .args = { { "ids", T2(RFG_I32, 3, 7), ARG_OUT },
                { "weights", T2(RFG_F32, 3, 7), ARG_OUT },
                { "x", T2(B, 3, 20), 0, FLOATS },
                { "bias", T1(RFG_F32, 20), ARG_OPTIONAL, 1u << B },
                { "tokens", T1(RFG_I32, 1), ARG_OPTIONAL, .values = { 2 } } } },
    { "rfg_op_moe_route", "moe_route", "a table", moe_route_table,
      .call = { .moe_route = { .renormalise = 1, .shared = 1 } }, .wrongs = route_table_wrongs, .n = 5,
      .args = { { "ids", T2(RFG_I32, 3, 4), ARG_OUT },
                { "weights", T2(RFG_F32, 3, 4), ARG_OUT },
                { "x", T2(B, 3, 20), 0, FLOATS, .sizes = 2 },
                { "table", T2(RFG_I32, 2, 3), 0, .sizes = 1, .values = { 1, -1, 6, 3, 20, 19 } },
                { "token_ids", T1(RFG_I32, 3), 0, 1u << RFG_I64, .values = { 1, 0, 2 } } } },
    { "rfg_op_moe_align", "moe_align", "plain", moe_align, .call = { .moe_align = { .experts = 4 } },
      .wrongs = align_wrongs, .n = 8,
      .args = { { "rows", T1(RFG_I32, 6), ARG_OUT },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 1, 0, 6, 3, -1, 2 } },
                { "offsets", T1(RFG_I32, 5), ARG_OUT },
                { "weights_out", T1(RFG_F32, 6), ARG_OUT },
                { "weights", T2(RFG_F32, 3, 2), 0 },
                { "places", T2(RFG_I32, 3, 2), ARG_OUT | ARG_OPTIONAL },
                { "expert_map", T1(RFG_I32, 7), ARG_OPTIONAL, .sizes = 1, .values = { 0, 3, -1, 2, 9, 1, 1 } },
                { "tokens", T1(RFG_I32, 1), ARG_OPTIONAL, .values = { 2 } } } },
    { "rfg_op_moe_align", "moe_align", "blocks", moe_align_blocks,
      .call = { .moe_align = { .format = RFG_MOE_VLLM, .block = 2, .experts = 4 } }, .wrongs = align_blocks_wrongs,
      .n = 4,
      .args = { { "rows", T1(RFG_I32, 10), ARG_OUT },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 1, 0, 1, 3, -1, 2 } },
                { "block_experts", T1(RFG_I32, 5), ARG_OUT },
                { "count", T1(RFG_I32, 1), ARG_OUT } } },
    { "rfg_op_moe_align", "moe_align", "masked", moe_align_masked,
      .call = { .moe_align = { .format = RFG_MOE_MASKED, .experts = 2 } }, .wrongs = align_masked_wrongs, .n = 5,
      .args = { { "rows", T2(RFG_I32, 2, 3), ARG_OUT },
                { "ids", T2(RFG_I32, 3, 2), 0, .sizes = 3, .values = { 1, 0, 1, 1, -1, 1 } },
                { "count", T1(RFG_I32, 2), ARG_OUT },
                { "weights_out", T2(RFG_F32, 2, 3), ARG_OUT },
                { "weights", T2(RFG_F32, 3, 2), 0 } } },
    { "rfg_op_moe", "moe", "floats", moe, .call = { .moe = { .identity = 1 } }, .wrongs = moe_wrongs, .n = 12,
      .args = { { "y", T2(B, 3, 8), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(B, 3, 8), ARG_OPTIONAL },
                { "x", T2(B, 3, 8), 0 },
                { "w1", T3(B, 2, 12, 8), 0 },
                { "w2", T3(B, 2, 8, 6), 0 },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 0, 1, 1, 0, 2, 1 } },
                { "weights", T2(RFG_F32, 3, 2), 0 },
                { "w1_bias", T2(B, 2, 12), ARG_OPTIONAL, 1u << RFG_F32 },
                { "w2_bias", T2(B, 2, 8), ARG_OPTIONAL, 1u << RFG_F32 },
                { "expert_map", T1(RFG_I32, 3), ARG_OPTIONAL, 0, 1, .values = { 1, -1, 0 } },
                { "tokens", T1(RFG_I32, 1), ARG_OPTIONAL, .values = { 2 } },
                { "identity_x", T2(B, 3, 8), ARG_OPTIONAL } } },
    { "rfg_op_moe", "moe", "4 bits", moe_i4, .wrongs = no_wrongs, .n = 10,
      .args = { { "y", T2(B, 3, 64), ARG_OUT, FLOATS },
                { "x", T2(B, 3, 64), 0, 1u << RFG_F16 },
                { "w1", T3(RFG_I4, 2, 64, 64), 0 },
                { "w2", T3(RFG_I4, 2, 64, 32), 0 },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 0, 1, 1, 0, 2, 1 } },
                { "weights", T2(RFG_F32, 3, 2), 0 },
                { "w1_scale", T2(B, 128, 2), 0, 1u << RFG_F16 | 1u << RFG_F32 },
                { "w2_scale", T2(B, 128, 1), 0, 1u << RFG_F16 | 1u << RFG_F32 },
                { "w1_zero", T2(RFG_I8, 128, 2), ARG_OPTIONAL },
                { "w2_zero", T2(RFG_I8, 128, 1), ARG_OPTIONAL } } },
    { "rfg_op_moe", "moe", "nvfp4", moe_nvfp4, .wrongs = no_wrongs, .n = 10,
      .args = { { "y", T2(B, 3, 64), ARG_OUT, FLOATS },
                { "x", T2(B, 3, 64), 0, 1u << RFG_F16 },
                { "w1", T3(RFG_E2M1, 2, 64, 64), 0 },
                { "w2", T3(RFG_E2M1, 2, 64, 32), 0 },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 0, 1, 1, 0, 2, 1 } },
                { "weights", T2(RFG_F32, 3, 2), 0 },
                { "w1_scale", T2(RFG_E4M3, 128, 4), 0 },
                { "w2_scale", T2(RFG_E4M3, 128, 2), 0 },
                { "w1_global", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "w2_global", T1(RFG_F32, 2), ARG_OPTIONAL } } },
    { "rfg_op_moe", "moe", "8 bits", moe_codes, .wrongs = no_wrongs, .n = 10,
      .args = { { "y", T2(B, 3, 64), ARG_OUT, FLOATS },
                { "x", T2(B, 3, 64), 0, FLOATS | 1u << RFG_E4M3 },
                { "w1", T3(RFG_E4M3, 2, 64, 64), 0 },
                { "w2", T3(RFG_E4M3, 2, 64, 32), 0 },
                { "ids", T2(RFG_I32, 3, 2), 0, .values = { 0, 1, 1, 0, 2, 1 } },
                { "weights", T2(RFG_F32, 3, 2), 0 },
                { "w1_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "w2_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "x_scale", T1(RFG_F32, 1), 0 },
                { "h_scale", T1(RFG_F32, 1), 0 } } },
    { "rfg_op_moe_sum", "moe_sum", "all", moe_sum, .wrongs = no_wrongs, .n = 6,
      .args = { { "y", T2(B, 3, 20), ARG_OUT | ARG_SAME_AS_NEXT },
                { "residual", T2(B, 3, 20), ARG_OPTIONAL },
                { "x", T2(B, 5, 20), 0, FLOATS, .sizes = 1 },
                { "places", T2(RFG_I32, 3, 2), 0, .values = { 4, 0, -1, 2, 5, 2 } },
                { "weights", T2(RFG_F32, 3, 2), ARG_OPTIONAL },
                { "tokens", T1(RFG_I32, 1), ARG_OPTIONAL, .values = { 2 } } } },
    { "rfg_op_moe_sum", "moe_sum", "identities", moe_sum_identity, .wrongs = no_wrongs, .n = 5,
      .args = { { "y", T2(RFG_F32, 3, 20), ARG_OUT, FLOATS },
                { "x", T2(B, 5, 20), 0, .sizes = 1 },
                { "places", T2(RFG_I32, 3, 2), 0, .values = { 4, 0, -2, 2, 5, -2 } },
                { "identity", T2(B, 3, 20), 0 },
                { "identity_weights", T2(RFG_F32, 3, 2), 0 } } },
    { "rfg_op_merge_states", "merge_states", "all", merge_states, .wrongs = no_wrongs, .n = 4,
      .args = { { "out", T3(B, 3, 4, 20), ARG_OUT | ARG_SAME_AS_NEXT, FLOATS }, /* any state of o */
                { "o", T4(B, 2, 3, 4, 20), 0, FLOATS },
                { "lse", T3(RFG_F32, 2, 3, 4), ARG_ANY_STRIDE },
                { "lse_out", T2(RFG_F32, 3, 4), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE } } },
    LORA_FORMS,
    { "rfg_op_argmax", "argmax", "plain", argmax, .wrongs = no_wrongs, .n = 2,
      .args = { { "y", T1(RFG_I64, 3), ARG_OUT, 1u << RFG_I32 }, { "x", T2(B, 3, 20), 0, FLOATS, .sizes = 2 } } },
    { "rfg_op_sample", "sample", "all", draw, .wrongs = sample_wrongs, .n = 14,
      .args = { { "y", T1(RFG_I64, 3), ARG_OUT, 1u << RFG_I32 },
                { "logits", T2(B, 3, 20), 0, FLOATS },
                { "seed", T1(RFG_I64, 3), 0 },
                { "offset", T1(RFG_I64, 3), 0 },
                { "temperature", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "top_k", T1(RFG_I32, 3), ARG_OPTIONAL, .values = { 5, 0, 30 } },
                { "top_p", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "min_p", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "repetition", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "frequency", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "presence", T1(RFG_F32, 3), ARG_OPTIONAL },
                { "bias", T2(RFG_F32, 3, 20), ARG_OPTIONAL },
                { "counts", T2(RFG_I32, 3, 20), ARG_OPTIONAL },
                { "prompt", T2(RFG_I8, 3, 20), ARG_OPTIONAL } } },
    { "rfg_op_sample", "sample", "logits alone", draw, .wrongs = sample_wrongs, .n = 4,
      .args = { { "y", T1(RFG_I32, 3), ARG_OUT, 1u << RFG_I64 },
                { "logits", T2(RFG_F32, 3, 20), 0, FLOATS, .sizes = 2 },
                { "seed", T1(RFG_I64, 3), 0 },
                { "offset", T1(RFG_I64, 3), 0 } } },
    { "rfg_op_mha", "mha", "dense", mha, .wrongs = mha_wrongs, .n = 7,
      .args = { { "out", T4(B, 2, 3, 4, 64), ARG_OUT },
                { "q", T4(B, 2, 3, 4, 64), 0 },
                { "k", T4(B, 2, 5, 2, 64), 0 },
                { "v", T4(B, 2, 5, 2, 64), 0 },
                { "lse", T3(RFG_F32, 2, 4, 3), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE },
                { "sinks", T1(RFG_F32, 4), ARG_OPTIONAL, 1u << B },
                { "alibi", T1(RFG_F32, 4), ARG_OPTIONAL } } },
    { "rfg_op_mha", "mha", "varlen", mha_varlen, .call = { .mha = { .max_seqlen_q = 4 } }, .wrongs = varlen_wrongs,
      .n = 7,
      .args = { { "out", T3(RFG_F16, 5, 4, 64), ARG_OUT },
                { "q", T3(RFG_F16, 5, 4, 64), 0 },
                { "k", T3(RFG_F16, 7, 2, 64), 0 },
                { "v", T3(RFG_F16, 7, 2, 64), 0 },
                { "lse", T2(RFG_F32, 4, 5), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE },
                { "cu_seqlens_q", T1(RFG_I32, 3), 0, .values = { 0, 2, 5 } },
                { "cu_seqlens_k", T1(RFG_I32, 3), 0, .values = { 0, 3, 7 } } } },
    { "rfg_op_mha", "mha", "paged", mha_paged, .wrongs = mha_wrongs, .n = 8,
      .args = { { "out", T4(B, 2, 3, 4, 64), ARG_OUT },
                { "q", T4(B, 2, 3, 4, 64), 0 },
                { "k", T4(RFG_E4M3, 3, 8, 2, 64), 0 },
                { "v", T4(RFG_E4M3, 3, 8, 2, 64), 0 },
                { "k_scale", T1(RFG_F32, 1), ARG_OPTIONAL, .sizes = 1 }, /* 2: one a head */
                { "v_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "block_table", T2(RFG_I32, 2, 2), 0, .sizes = 2, .values = { 0, 1, 2, 1 } },
                { "kv_lens", T1(RFG_I32, 2), 0, .values = { 5, 9 } } } },
    { "rfg_op_mha_decode", "mha_decode", "paged", decode, .wrongs = mha_wrongs, .n = 11,
      .args = { { "out", T4(B, 2, 3, 4, 64), ARG_OUT },
                { "q", T4(B, 2, 3, 4, 64), 0 },
                { "k", T4(RFG_E5M2, 2, 8, 2, 64), 0 },
                { "v", T4(RFG_E5M2, 2, 8, 2, 64), 0 },
                { "block_table", T2(RFG_I32, 2, 2), ARG_OPTIONAL, .sizes = 2, .values = { 0, 1, 1, 0 } },
                { "kv_lens", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 5, 8 } },
                { "lse", T3(RFG_F32, 2, 4, 3), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE },
                { "k_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "v_scale", T1(RFG_F32, 2), ARG_OPTIONAL },
                { "sinks", T1(RFG_F32, 4), ARG_OPTIONAL, 1u << B },
                { "alibi", T1(RFG_F32, 4), ARG_OPTIONAL } } },
    { "rfg_op_mha_decode", "mha_decode", "scales of tokens", decode, .wrongs = mha_wrongs, .n = 9,
      .args = { { "out", T4(B, 2, 3, 4, 64), ARG_OUT },
                { "q", T4(B, 2, 3, 4, 64), 0 },
                { "k", T4(RFG_I4, 2, 8, 2, 64), 0 },
                { "v", T4(RFG_I4, 2, 8, 2, 64), 0 },
                { "block_table", T2(RFG_I32, 2, 2), ARG_OPTIONAL, .sizes = 2, .values = { 0, 1, 1, 0 } },
                { "kv_lens", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 5, 8 } },
                { "lse", T3(RFG_F32, 2, 4, 3), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE },
                { "k_scale", T3(RFG_F32, 2, 8, 2), ARG_ANY_STRIDE },
                { "v_scale", T3(RFG_F32, 2, 8, 2), ARG_ANY_STRIDE } } },
    { "rfg_op_mha_decode", "mha_decode", "older vLLM", decode, .wrongs = mha_wrongs, .n = 6,
      .args = { { "out", T3(B, 2, 4, 64), ARG_OUT },
                { "q", T3(B, 2, 4, 64), 0 },
                { "k", T5(B, 3, 2, 8, 16, 8), 0 },
                { "v", T4(B, 3, 2, 64, 16), 0 },
                { "block_table", T2(RFG_I32, 2, 2), 0, .sizes = 2, .values = { 0, 1, 2, 1 } },
                { "kv_lens", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 5, 19 } } } },
    MLA_FORMS,
};
const int n_forms = COUNT(forms);
