/* SPDX-License-Identifier: MIT
 *
 * The operators: each is a row of the table below. An object of type Op calls it:
 *
 *   _rfg.rmsnorm(y, x, weight, eps=1e-5, quant=("token", q, scale), stream=None, ctx=None)
 *
 * takes the C function's tensors in their order, outputs first, then the params struct's members by name. */
#include "rfgpy.h"

#include <stddef.h>

/* ---- what an operator is ----------------------------------------------------------------------------------------- */

enum member_kind {
    FLOAT,
    DOUBLE,
    INT32,
    INT64,
    INT32_4,
    INPUT,
    OUTPUT,
    SCALES, /* an output where it has more than one dimension */
    QUANT,
    ACT,
    GATES,
    PER,
    SCALING,
    ROUNDING,
    NESTED,
    MEMORY
};

struct member {
    const char *name;
    enum member_kind kind;
    size_t offset;
    const struct params *nested;
};

struct params {
    size_t size;
    const void *init; /* RFG_<OP>_PARAMS_INIT */
    const struct member *members;
};

typedef void (*function)(void);

struct op {
    const char *name, *symbol; /* gemm, rfg_op_gemm */
    const char *tensors;       /* "y x w"; those before the dash are outputs: "y - x w" */
    const struct params *params;
    rfg_status (*call)(function fn, void *ctx, const rfg_tensor *const *t, const void *params, rfg_stream stream);
    bool joint; /* ctx is a communicator */
};

/* The C functions differ in how many tensors they take: one caller each. t[0], t[1], ... are written out by the row. */
#define CALL(c_name, ...)                                                                                              \
    static rfg_status call_##c_name(function fn, void *ctx, const rfg_tensor *const *t, const void *params,            \
                                    rfg_stream stream)                                                                 \
    {                                                                                                                  \
        (void)params;                                                                                                  \
        return ((__typeof__(&c_name))fn)(ctx, __VA_ARGS__, stream);                                                    \
    }
#define CALLER(c_name, params_type, ...)   CALL(c_name, __VA_ARGS__, (const params_type *)params)
#define CALLER_WITHOUT_PARAMS(c_name, ...) CALL(c_name, __VA_ARGS__)
#define PARAMS(short_name, ...)                                                                                        \
    static const struct member short_name##_members[] = { __VA_ARGS__, { 0 } };                                        \
    static const struct params short_name##_params = { sizeof(short_name##_init), &short_name##_init,                  \
                                                       short_name##_members }
#define MEMBER(type, name, kind)                                                                                       \
    {                                                                                                                  \
#name, kind, offsetof(type, name), NULL                                                                        \
    }

/* ---- the operators ----------------------------------------------------------------------------------------------- */

static const rfg_gemm_params gemm_init = RFG_GEMM_PARAMS_INIT;
PARAMS(gemm, MEMBER(rfg_gemm_params, bias, INPUT), MEMBER(rfg_gemm_params, w_scale, INPUT),
       MEMBER(rfg_gemm_params, residual, INPUT), MEMBER(rfg_gemm_params, gated, INT32),
       MEMBER(rfg_gemm_params, act, ACT), MEMBER(rfg_gemm_params, x_scale, INPUT),
       MEMBER(rfg_gemm_params, w_zero, INPUT), MEMBER(rfg_gemm_params, x_per, PER), MEMBER(rfg_gemm_params, w_per, PER),
       MEMBER(rfg_gemm_params, fast_accum, INT32), MEMBER(rfg_gemm_params, gates, GATES),
       MEMBER(rfg_gemm_params, offsets, INPUT), MEMBER(rfg_gemm_params, rows, INPUT),
       MEMBER(rfg_gemm_params, weights, INPUT), MEMBER(rfg_gemm_params, limit, FLOAT),
       MEMBER(rfg_gemm_params, alpha, FLOAT), MEMBER(rfg_gemm_params, y_scale, INPUT),
       MEMBER(rfg_gemm_params, situ_beta, FLOAT), MEMBER(rfg_gemm_params, situ_linear_beta, FLOAT),
       MEMBER(rfg_gemm_params, w_global, INPUT), MEMBER(rfg_gemm_params, w_group, INT64));
CALLER(rfg_op_gemm, rfg_gemm_params, t[0], t[1], t[2])
CALLER_WITHOUT_PARAMS(rfg_gemm_prepack, t[0], t[1])

static const rfg_act_params act_init = RFG_ACT_PARAMS_INIT;
PARAMS(act, MEMBER(rfg_act_params, act, ACT), MEMBER(rfg_act_params, gates, GATES),
       MEMBER(rfg_act_params, alpha, FLOAT), MEMBER(rfg_act_params, limit, FLOAT), MEMBER(rfg_act_params, quant, QUANT),
       MEMBER(rfg_act_params, situ_beta, FLOAT), MEMBER(rfg_act_params, situ_linear_beta, FLOAT));
CALLER(rfg_op_act, rfg_act_params, t[0], t[1])
CALLER(rfg_op_act_and_mul, rfg_act_params, t[0], t[1])

static const rfg_norm_params norm_init = RFG_NORM_PARAMS_INIT;
PARAMS(norm, MEMBER(rfg_norm_params, eps, FLOAT), MEMBER(rfg_norm_params, one_plus_weight, INT32),
       MEMBER(rfg_norm_params, quant, QUANT), MEMBER(rfg_norm_params, bias, INPUT));
CALLER(rfg_op_rmsnorm, rfg_norm_params, t[0], t[1], t[2])
CALLER(rfg_op_layernorm, rfg_norm_params, t[0], t[1], t[2])
CALLER(rfg_op_add_rmsnorm, rfg_norm_params, t[0], t[1], t[2], t[3], t[4])
CALLER(rfg_op_add_layernorm, rfg_norm_params, t[0], t[1], t[2], t[3], t[4])
CALLER(rfg_op_all_reduce_add_rmsnorm, rfg_norm_params, t[0], t[1], t[2], t[3], t[4])
CALLER_WITHOUT_PARAMS(rfg_op_all_reduce, t[0], t[1])
CALLER_WITHOUT_PARAMS(rfg_op_reduce_scatter, t[0], t[1])
CALLER_WITHOUT_PARAMS(rfg_op_all_gather, t[0], t[1])

static const rfg_embedding_params embedding_init = RFG_EMBEDDING_PARAMS_INIT;
PARAMS(embedding, MEMBER(rfg_embedding_params, scale, FLOAT), MEMBER(rfg_embedding_params, first, INT64));
CALLER(rfg_op_embedding, rfg_embedding_params, t[0], t[1], t[2])

static const rfg_dequantize_params dequantize_init = RFG_DEQUANTIZE_PARAMS_INIT;
PARAMS(dequantize, MEMBER(rfg_dequantize_params, group_rows, INT64), MEMBER(rfg_dequantize_params, group_cols, INT64));
CALLER(rfg_op_dequantize, rfg_dequantize_params, t[0], t[1], t[2])

static const rfg_quantize_params quantize_init = RFG_QUANTIZE_PARAMS_INIT;
PARAMS(quantize, MEMBER(rfg_quantize_params, group_rows, INT64), MEMBER(rfg_quantize_params, group_cols, INT64),
       MEMBER(rfg_quantize_params, scale_given, INT32), MEMBER(rfg_quantize_params, rounding, ROUNDING),
       MEMBER(rfg_quantize_params, reciprocal, INT32), MEMBER(rfg_quantize_params, codes, INT32),
       MEMBER(rfg_quantize_params, max, FLOAT), MEMBER(rfg_quantize_params, floor_amax, FLOAT),
       MEMBER(rfg_quantize_params, floor_scale, FLOAT), MEMBER(rfg_quantize_params, zero_scale, FLOAT),
       MEMBER(rfg_quantize_params, smooth, INPUT), MEMBER(rfg_quantize_params, global, INPUT));
CALLER(rfg_op_quantize, rfg_quantize_params, t[0], t[1], t[2])
CALLER(rfg_op_quantize_scale, rfg_quantize_params, t[0], t[1])

static const rfg_mha_params mha_init = RFG_MHA_PARAMS_INIT;
PARAMS(mha, MEMBER(rfg_mha_params, scale, FLOAT), MEMBER(rfg_mha_params, soft_cap, FLOAT),
       MEMBER(rfg_mha_params, causal, INT32), MEMBER(rfg_mha_params, window, INT32),
       MEMBER(rfg_mha_params, window_left, INT32), MEMBER(rfg_mha_params, window_right, INT32),
       MEMBER(rfg_mha_params, sinks, INPUT), MEMBER(rfg_mha_params, alibi, INPUT), MEMBER(rfg_mha_params, lse, OUTPUT),
       MEMBER(rfg_mha_params, k_scale, INPUT), MEMBER(rfg_mha_params, v_scale, INPUT),
       MEMBER(rfg_mha_params, cu_seqlens_q, INPUT), MEMBER(rfg_mha_params, cu_seqlens_k, INPUT),
       MEMBER(rfg_mha_params, max_seqlen_q, INT32), MEMBER(rfg_mha_params, max_seqlen_k, INT32),
       MEMBER(rfg_mha_params, mean_seqlen_k, INT32), MEMBER(rfg_mha_params, block_table, INPUT),
       MEMBER(rfg_mha_params, kv_lens, INPUT));
CALLER(rfg_op_mha, rfg_mha_params, t[0], t[1], t[2], t[3])
CALLER(rfg_op_mha_decode, rfg_mha_params, t[0], t[1], t[2], t[3])

static const rfg_rope_params rope_init = RFG_ROPE_PARAMS_INIT;
PARAMS(rope, MEMBER(rfg_rope_params, gptj, INT32), MEMBER(rfg_rope_params, last, INT32),
       MEMBER(rfg_rope_params, backward, INT32), MEMBER(rfg_rope_params, mrope_interleaved, INT32),
       MEMBER(rfg_rope_params, sections, INT32_4), MEMBER(rfg_rope_params, offset, INT32));
CALLER(rfg_op_rope, rfg_rope_params, t[0], t[1], t[2], t[3], t[4], t[5])

static const rfg_kv_append_params kv_append_init = RFG_KV_APPEND_PARAMS_INIT;
PARAMS(kv_append, MEMBER(rfg_kv_append_params, k_scale, SCALES), MEMBER(rfg_kv_append_params, v_scale, SCALES));
CALLER(rfg_op_kv_append, rfg_kv_append_params, t[0], t[1], t[2], t[3], t[4])

static const rfg_rope_append_params rope_append_init = RFG_ROPE_APPEND_PARAMS_INIT;
PARAMS(rope_append, { "rope", NESTED, offsetof(rfg_rope_append_params, rope), &rope_params },
       MEMBER(rfg_rope_append_params, q_norm, INPUT), MEMBER(rfg_rope_append_params, k_norm, INPUT),
       MEMBER(rfg_rope_append_params, eps, FLOAT), MEMBER(rfg_rope_append_params, one_plus_weight, INT32),
       MEMBER(rfg_rope_append_params, k_scale, SCALES), MEMBER(rfg_rope_append_params, v_scale, SCALES));
CALLER(rfg_op_rope_append, rfg_rope_append_params, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8])

static const rfg_rope_table_params rope_table_init = RFG_ROPE_TABLE_PARAMS_INIT;
PARAMS(rope_table, MEMBER(rfg_rope_table_params, scaling, SCALING), MEMBER(rfg_rope_table_params, original, INT32),
       MEMBER(rfg_rope_table_params, theta, DOUBLE), MEMBER(rfg_rope_table_params, factor, DOUBLE),
       MEMBER(rfg_rope_table_params, low_freq_factor, DOUBLE), MEMBER(rfg_rope_table_params, high_freq_factor, DOUBLE),
       MEMBER(rfg_rope_table_params, beta_fast, DOUBLE), MEMBER(rfg_rope_table_params, beta_slow, DOUBLE),
       MEMBER(rfg_rope_table_params, attention_factor, DOUBLE), MEMBER(rfg_rope_table_params, mscale, DOUBLE),
       MEMBER(rfg_rope_table_params, mscale_all_dim, DOUBLE), MEMBER(rfg_rope_table_params, first, INT64),
       MEMBER(rfg_rope_table_params, untruncated, INT32), MEMBER(rfg_rope_table_params, length, INT64),
       MEMBER(rfg_rope_table_params, partial_rotary_factor, DOUBLE), MEMBER(rfg_rope_table_params, short_factor, INPUT),
       MEMBER(rfg_rope_table_params, long_factor, INPUT), MEMBER(rfg_rope_table_params, short_mscale, DOUBLE),
       MEMBER(rfg_rope_table_params, long_mscale, DOUBLE));

/* In host memory: without a context and a stream. */
static rfg_status call_rfg_rope_table(function fn, void *ctx, const rfg_tensor *const *t, const void *params,
                                      rfg_stream stream)
{
    (void)ctx;
    (void)stream;
    const rfg_rope_table_params *p = params;
    return ((__typeof__(&rfg_rope_table))fn)(t[0], p);
}

static const rfg_advance_params advance_init = RFG_ADVANCE_PARAMS_INIT;
PARAMS(advance, MEMBER(rfg_advance_params, slots, OUTPUT), MEMBER(rfg_advance_params, block_table, OUTPUT),
       MEMBER(rfg_advance_params, page, INT64), MEMBER(rfg_advance_params, accepted, INPUT),
       MEMBER(rfg_advance_params, active, INPUT), MEMBER(rfg_advance_params, spare, INPUT),
       MEMBER(rfg_advance_params, spare_count, OUTPUT));
CALLER(rfg_op_advance, rfg_advance_params, t[0], t[1])

static const rfg_moe_align_params moe_align_init = RFG_MOE_ALIGN_PARAMS_INIT;
PARAMS(moe_align, MEMBER(rfg_moe_align_params, format, INT32), MEMBER(rfg_moe_align_params, block, INT32),
       MEMBER(rfg_moe_align_params, experts, INT64), MEMBER(rfg_moe_align_params, offsets, OUTPUT),
       MEMBER(rfg_moe_align_params, block_experts, OUTPUT), MEMBER(rfg_moe_align_params, count, OUTPUT),
       MEMBER(rfg_moe_align_params, weights_out, OUTPUT), MEMBER(rfg_moe_align_params, places, OUTPUT),
       MEMBER(rfg_moe_align_params, weights, INPUT), MEMBER(rfg_moe_align_params, expert_map, INPUT),
       MEMBER(rfg_moe_align_params, tokens, INPUT), MEMBER(rfg_moe_align_params, identity, INT64));
CALLER(rfg_op_moe_align, rfg_moe_align_params, t[0], t[1])

static const rfg_moe_sum_params moe_sum_init = RFG_MOE_SUM_PARAMS_INIT;
PARAMS(moe_sum, MEMBER(rfg_moe_sum_params, weights, INPUT), MEMBER(rfg_moe_sum_params, residual, INPUT),
       MEMBER(rfg_moe_sum_params, tokens, INPUT), MEMBER(rfg_moe_sum_params, identity, INPUT),
       MEMBER(rfg_moe_sum_params, identity_weights, INPUT));
CALLER(rfg_op_moe_sum, rfg_moe_sum_params, t[0], t[1], t[2])

static const rfg_lora_params lora_init = RFG_LORA_PARAMS_INIT;
PARAMS(lora, MEMBER(rfg_lora_params, indptr, INPUT), MEMBER(rfg_lora_params, scales, INPUT),
       MEMBER(rfg_lora_params, ranks, INPUT), MEMBER(rfg_lora_params, scale, FLOAT));
CALLER(rfg_op_lora, rfg_lora_params, t[0], t[1], t[2], t[3], t[4])

static const rfg_mla_append_params mla_append_init = RFG_MLA_APPEND_PARAMS_INIT;
PARAMS(mla_append, MEMBER(rfg_mla_append_params, norm, INPUT), MEMBER(rfg_mla_append_params, cos_sin, INPUT),
       MEMBER(rfg_mla_append_params, positions, INPUT), MEMBER(rfg_mla_append_params, q, INPUT),
       MEMBER(rfg_mla_append_params, q_out, OUTPUT), MEMBER(rfg_mla_append_params, kv_scale, INPUT),
       MEMBER(rfg_mla_append_params, eps, FLOAT), MEMBER(rfg_mla_append_params, gptj, INT32),
       MEMBER(rfg_mla_append_params, format, INT32));
CALLER(rfg_op_mla_append, rfg_mla_append_params, t[0], t[1], t[2], t[3])

static const rfg_mla_gather_params mla_gather_init = RFG_MLA_GATHER_PARAMS_INIT;
PARAMS(mla_gather, MEMBER(rfg_mla_gather_params, block_table, INPUT), MEMBER(rfg_mla_gather_params, kv_indptr, INPUT),
       MEMBER(rfg_mla_gather_params, kv_indices, INPUT), MEMBER(rfg_mla_gather_params, first, INPUT),
       MEMBER(rfg_mla_gather_params, kv_scale, INPUT), MEMBER(rfg_mla_gather_params, format, INT32));
CALLER(rfg_op_mla_gather, rfg_mla_gather_params, t[0], t[1], t[2])

static const rfg_mla_params mla_init = RFG_MLA_PARAMS_INIT;
PARAMS(mla, MEMBER(rfg_mla_params, scale, FLOAT), MEMBER(rfg_mla_params, soft_cap, FLOAT),
       MEMBER(rfg_mla_params, causal, INT32), MEMBER(rfg_mla_params, max_seqlen_k, INT32),
       MEMBER(rfg_mla_params, q_rope, INPUT), MEMBER(rfg_mla_params, block_table, INPUT),
       MEMBER(rfg_mla_params, kv_indptr, INPUT), MEMBER(rfg_mla_params, kv_indices, INPUT),
       MEMBER(rfg_mla_params, kv_lens, INPUT), MEMBER(rfg_mla_params, sinks, INPUT),
       MEMBER(rfg_mla_params, lse, OUTPUT), MEMBER(rfg_mla_params, kv_scale, INPUT),
       MEMBER(rfg_mla_params, q_positions, INPUT), MEMBER(rfg_mla_params, format, INT32),
       MEMBER(rfg_mla_params, cp_size, INT32), MEMBER(rfg_mla_params, cp_rank, INT32),
       MEMBER(rfg_mla_params, cp_interleave, INT32));
CALLER(rfg_op_mla_decode, rfg_mla_params, t[0], t[1], t[2])

static const rfg_merge_states_params merge_states_init = RFG_MERGE_STATES_PARAMS_INIT;
PARAMS(merge_states, MEMBER(rfg_merge_states_params, lse_out, OUTPUT), MEMBER(rfg_merge_states_params, base2, INT32));
CALLER(rfg_op_merge_states, rfg_merge_states_params, t[0], t[1], t[2])

static const rfg_moe_params moe_init = RFG_MOE_PARAMS_INIT;
PARAMS(moe, MEMBER(rfg_moe_params, experts, INT64), MEMBER(rfg_moe_params, act, ACT),
       MEMBER(rfg_moe_params, gates, GATES), MEMBER(rfg_moe_params, limit, FLOAT), MEMBER(rfg_moe_params, alpha, FLOAT),
       MEMBER(rfg_moe_params, weights_first, INT32), MEMBER(rfg_moe_params, fast_accum, INT32),
       MEMBER(rfg_moe_params, x_per, PER), MEMBER(rfg_moe_params, w_per, PER), MEMBER(rfg_moe_params, w1_bias, INPUT),
       MEMBER(rfg_moe_params, w2_bias, INPUT), MEMBER(rfg_moe_params, w1_scale, INPUT),
       MEMBER(rfg_moe_params, w2_scale, INPUT), MEMBER(rfg_moe_params, w1_zero, INPUT),
       MEMBER(rfg_moe_params, w2_zero, INPUT), MEMBER(rfg_moe_params, x_scale, INPUT),
       MEMBER(rfg_moe_params, h_scale, INPUT), MEMBER(rfg_moe_params, expert_map, INPUT),
       MEMBER(rfg_moe_params, tokens, INPUT), MEMBER(rfg_moe_params, residual, INPUT),
       MEMBER(rfg_moe_params, workspace, MEMORY), MEMBER(rfg_moe_params, workspace_bytes, INT64),
       MEMBER(rfg_moe_params, x_codes, INT32), MEMBER(rfg_moe_params, rounding, ROUNDING),
       MEMBER(rfg_moe_params, situ_beta, FLOAT), MEMBER(rfg_moe_params, situ_linear_beta, FLOAT),
       MEMBER(rfg_moe_params, identity, INT64), MEMBER(rfg_moe_params, identity_x, INPUT),
       MEMBER(rfg_moe_params, w1_global, INPUT), MEMBER(rfg_moe_params, w2_global, INPUT),
       MEMBER(rfg_moe_params, rows, INPUT), MEMBER(rfg_moe_params, offsets, INPUT),
       MEMBER(rfg_moe_params, sorted, INPUT), MEMBER(rfg_moe_params, places, INPUT));
CALLER(rfg_op_moe, rfg_moe_params, t[0], t[1], t[2], t[3], t[4], t[5])

static _Thread_local size_t bytes_said; /* by the thread's last call of rfg_moe_workspace_bytes() */
static rfg_status call_rfg_moe_workspace_bytes(function fn, void *ctx, const rfg_tensor *const *t, const void *params,
                                               rfg_stream stream)
{
    (void)ctx;
    (void)stream;
    const rfg_moe_params *p = params;
    return ((__typeof__(&rfg_moe_workspace_bytes))fn)(t[0], t[1], t[2], t[3], t[4], t[5], p, &bytes_said);
}

static const rfg_moe_route_params moe_route_init = RFG_MOE_ROUTE_PARAMS_INIT;
PARAMS(moe_route, MEMBER(rfg_moe_route_params, scoring, INT32), MEMBER(rfg_moe_route_params, renormalise, INT32),
       MEMBER(rfg_moe_route_params, bias, INPUT), MEMBER(rfg_moe_route_params, groups, INT64),
       MEMBER(rfg_moe_route_params, topk_groups, INT64), MEMBER(rfg_moe_route_params, shared, INT64),
       MEMBER(rfg_moe_route_params, tokens, INPUT), MEMBER(rfg_moe_route_params, scale, FLOAT),
       MEMBER(rfg_moe_route_params, shared_weight, FLOAT), MEMBER(rfg_moe_route_params, table, INPUT),
       MEMBER(rfg_moe_route_params, token_ids, INPUT));
CALLER(rfg_op_moe_route, rfg_moe_route_params, t[0], t[1], t[2])

static const rfg_moe_gate_params moe_gate_init = RFG_MOE_GATE_PARAMS_INIT;
PARAMS(moe_gate, MEMBER(rfg_moe_gate_params, scoring, INT32), MEMBER(rfg_moe_gate_params, renormalise, INT32),
       MEMBER(rfg_moe_gate_params, bias, INPUT), MEMBER(rfg_moe_gate_params, groups, INT64),
       MEMBER(rfg_moe_gate_params, topk_groups, INT64), MEMBER(rfg_moe_gate_params, shared, INT64),
       MEMBER(rfg_moe_gate_params, tokens, INPUT), MEMBER(rfg_moe_gate_params, scale, FLOAT),
       MEMBER(rfg_moe_gate_params, shared_weight, FLOAT), MEMBER(rfg_moe_gate_params, norm, INPUT),
       MEMBER(rfg_moe_gate_params, normed, OUTPUT), MEMBER(rfg_moe_gate_params, eps, FLOAT),
       MEMBER(rfg_moe_gate_params, one_plus_weight, INT32), MEMBER(rfg_moe_gate_params, w_bias, INPUT),
       MEMBER(rfg_moe_gate_params, rows, OUTPUT), MEMBER(rfg_moe_gate_params, offsets, OUTPUT),
       MEMBER(rfg_moe_gate_params, sorted, OUTPUT), MEMBER(rfg_moe_gate_params, places, OUTPUT));
CALLER(rfg_op_moe_gate, rfg_moe_gate_params, t[0], t[1], t[2], t[3])

CALLER_WITHOUT_PARAMS(rfg_op_argmax, t[0], t[1])

static const rfg_sample_params sample_init = RFG_SAMPLE_PARAMS_INIT;
PARAMS(sample, MEMBER(rfg_sample_params, temperature, INPUT), MEMBER(rfg_sample_params, top_k, INPUT),
       MEMBER(rfg_sample_params, top_p, INPUT), MEMBER(rfg_sample_params, min_p, INPUT),
       MEMBER(rfg_sample_params, repetition, INPUT), MEMBER(rfg_sample_params, frequency, INPUT),
       MEMBER(rfg_sample_params, presence, INPUT), MEMBER(rfg_sample_params, bias, INPUT),
       MEMBER(rfg_sample_params, counts, INPUT), MEMBER(rfg_sample_params, prompt, INPUT),
       MEMBER(rfg_sample_params, order, INT32));
CALLER(rfg_op_sample, rfg_sample_params, t[0], t[1], t[2], t[3])

static const struct op ops[] = {
    { "gemm", "rfg_op_gemm", "y - x w", &gemm_params, call_rfg_op_gemm },
    { "gemm_prepack", "rfg_gemm_prepack", "dst - src", NULL, call_rfg_gemm_prepack },
    { "act", "rfg_op_act", "y - x", &act_params, call_rfg_op_act },
    { "act_and_mul", "rfg_op_act_and_mul", "y - x", &act_params, call_rfg_op_act_and_mul },
    { "rmsnorm", "rfg_op_rmsnorm", "y - x weight", &norm_params, call_rfg_op_rmsnorm },
    { "layernorm", "rfg_op_layernorm", "y - x weight", &norm_params, call_rfg_op_layernorm },
    { "add_rmsnorm", "rfg_op_add_rmsnorm", "y residual_out - x residual weight", &norm_params,
      call_rfg_op_add_rmsnorm },
    { "add_layernorm", "rfg_op_add_layernorm", "y residual_out - x residual weight", &norm_params,
      call_rfg_op_add_layernorm },
    { "embedding", "rfg_op_embedding", "y - ids table", &embedding_params, call_rfg_op_embedding },
    { "dequantize", "rfg_op_dequantize", "y - q scale", &dequantize_params, call_rfg_op_dequantize },
    { "quantize", "rfg_op_quantize", "q scale - x", &quantize_params, call_rfg_op_quantize },
    { "quantize_scale", "rfg_op_quantize_scale", "scale - x", &quantize_params, call_rfg_op_quantize_scale },
    { "mha", "rfg_op_mha", "out - q k v", &mha_params, call_rfg_op_mha },
    { "mha_decode", "rfg_op_mha_decode", "out - q k v", &mha_params, call_rfg_op_mha_decode },
    { "mla_append", "rfg_op_mla_append", "kv - latent k_rope slots", &mla_append_params, call_rfg_op_mla_append },
    { "mla_gather", "rfg_op_mla_gather", "rows - kv cu_seqlens", &mla_gather_params, call_rfg_op_mla_gather },
    { "mla_decode", "rfg_op_mla_decode", "out - q kv", &mla_params, call_rfg_op_mla_decode },
    { "merge_states", "rfg_op_merge_states", "out - o lse", &merge_states_params, call_rfg_op_merge_states },
    { "lora", "rfg_op_lora", "y - x a b ids", &lora_params, call_rfg_op_lora },
    { "rope", "rfg_op_rope", "q_out k_out - q k cos_sin positions", &rope_params, call_rfg_op_rope },
    { "kv_append", "rfg_op_kv_append", "k_cache v_cache - k v slots", &kv_append_params, call_rfg_op_kv_append },
    { "rope_append", "rfg_op_rope_append", "q_out k_cache v_cache - q k v cos_sin positions slots", &rope_append_params,
      call_rfg_op_rope_append },
    { "rope_table", "rfg_rope_table", "table -", &rope_table_params, call_rfg_rope_table },
    { "advance", "rfg_op_advance", "kv_lens positions -", &advance_params, call_rfg_op_advance },
    { "moe_align", "rfg_op_moe_align", "rows - ids", &moe_align_params, call_rfg_op_moe_align },
    { "moe", "rfg_op_moe", "y - x w1 w2 ids weights", &moe_params, call_rfg_op_moe },
    { "moe_workspace_bytes", "rfg_moe_workspace_bytes", "y x w1 w2 ids weights -", &moe_params,
      call_rfg_moe_workspace_bytes },
    { "moe_sum", "rfg_op_moe_sum", "y - x places", &moe_sum_params, call_rfg_op_moe_sum },
    { "moe_route", "rfg_op_moe_route", "ids weights - x", &moe_route_params, call_rfg_op_moe_route },
    { "moe_gate", "rfg_op_moe_gate", "ids weights - x w", &moe_gate_params, call_rfg_op_moe_gate },
    { "argmax", "rfg_op_argmax", "y - x", NULL, call_rfg_op_argmax },
    { "sample", "rfg_op_sample", "y - logits seed offset", &sample_params, call_rfg_op_sample },
    { "all_reduce", "rfg_op_all_reduce", "y - x", NULL, call_rfg_op_all_reduce, true },
    { "reduce_scatter", "rfg_op_reduce_scatter", "y - x", NULL, call_rfg_op_reduce_scatter, true },
    { "all_gather", "rfg_op_all_gather", "y - x", NULL, call_rfg_op_all_gather, true },
    { "all_reduce_add_rmsnorm", "rfg_op_all_reduce_add_rmsnorm", "y residual_out - x residual weight", &norm_params,
      call_rfg_op_all_reduce_add_rmsnorm, true },
};

/* ---- one call ---------------------------------------------------------------------------------------------------- */

enum { MOST_TENSORS = 10, MOST_MEMBERS = 40, MOST_PARAMS = 320 };

struct op_object {
    PyObject_HEAD vectorcallfunc vectorcall;
    const struct op *op;
    function fn; /* found at the first call */
    int tensors, outputs, members;
    const char *names[MOST_TENSORS];
    char text[96];
    PyObject *keywords[MOST_MEMBERS]; /* interned, those of params */
};
static PyObject *str_stream, *str_ctx, *str_cuda_stream;

/* Builds a call's params. */
struct scratch {
    struct views views;
    rfg_quant quant;
    _Alignas(16) char params[MOST_PARAMS], nested[MOST_PARAMS];
};

static bool words(PyObject *value, const char *what, const char *const *names, int first, int *out)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    for (int i = 0; text && names[i]; i++)
        if (!strcmp(text, names[i])) {
            *out = first + i;
            return true;
        }
    char all[160] = "";
    for (int i = 0; names[i]; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", names[i]);
    PyErr_Clear();
    return rfgpy_raise("%s: '%s': must be one of %s", what, text ? text : Py_TYPE(value)->tp_name, all);
}

static const char *const roundings[] = { "exact", "up", "down", "even", "ceil", NULL };

static bool set_quant(struct scratch *s, PyObject *value, const rfg_quant **to)
{
    static const char *const kinds[] = { "static", "token", "group", "mx", NULL };
    PyObject *kind, *q, *scale;
    int number, rounding = RFG_SCALE_EXACT;
    Py_ssize_t size = PyTuple_Check(value) ? PyTuple_GET_SIZE(value) : 0;
    if (size != 3 && size != 4)
        return rfgpy_raise("%s: quant: is a %s: must be a rfg.Quant (kind, q, scale[, rounding])", s->views.op,
                           Py_TYPE(value)->tp_name);
    kind = PyTuple_GET_ITEM(value, 0), q = PyTuple_GET_ITEM(value, 1), scale = PyTuple_GET_ITEM(value, 2);
    if (!words(kind, "quant.kind", kinds, RFG_SCALE_STATIC, &number) ||
        (size == 4 && !words(PyTuple_GET_ITEM(value, 3), "quant.rounding", roundings, RFG_SCALE_EXACT, &rounding)))
        return false;
    s->quant = (rfg_quant){ .size = sizeof(s->quant),
                            .kind = (rfg_scale_kind)number,
                            .rounding = (rfg_scale_rounding)rounding };
    if (!(s->quant.q = rfgpy_view(&s->views, q, "quant.q", true)) ||
        !(s->quant.scale = rfgpy_view(&s->views, scale, "quant.scale", number != RFG_SCALE_STATIC)))
        return false;
    *to = &s->quant;
    return true;
}

static bool set_int(void *to, PyObject *value, const char *name, enum member_kind kind)
{
    long long n = PyLong_AsLongLong(value);
    if (n == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return rfgpy_raise("%s: must be a whole number of 64 bits", name);
    }
    if (kind == INT64)
        *(int64_t *)to = n;
    else if (n < INT32_MIN || n > INT32_MAX)
        return rfgpy_raise("%s: %lld: must be a number of 32 bits", name, n);
    else
        *(int32_t *)to = (int32_t)n;
    return true;
}

static long dimensions_of(PyObject *tensor)
{
    PyObject *ndim = PyObject_GetAttrString(tensor, "ndim");
    long n = ndim ? PyLong_AsLong(ndim) : 0;
    Py_XDECREF(ndim);
    PyErr_Clear(); /* what is no tensor is refused where it is read */
    return n;
}

static bool set_nested(struct scratch *s, const struct member *m, PyObject *value);

static bool set_member(struct scratch *s, char *params, const struct member *m, PyObject *value)
{
    static const char *const pers[] = { "tensor", "row", "block", "group", NULL };
    static const char *const scalings[] = { "default", "linear",   "llama3",       "yarn",
                                            "dynamic", "longrope", "proportional", NULL };
    static const char *const acts[] = { "silu",      "gelu", "gelu_tanh",  "relu", "relu2",
                                        "swigluoai", "situ", "swiglustep", "none", NULL };
    static const char *const gates[] = { "halves", "interleaved", NULL };
    void *to = params + m->offset;
    if (value == Py_None)
        return true; /* as RFG_<OP>_PARAMS_INIT has it */
    switch (m->kind) {
    case FLOAT:
    case DOUBLE: {
        double d = PyFloat_AsDouble(value);
        if (d == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return rfgpy_raise("%s: %s: is a %s: must be a number", s->views.op, m->name, Py_TYPE(value)->tp_name);
        }
        if (m->kind == DOUBLE)
            *(double *)to = d;
        else
            *(float *)to = (float)d;
        return true;
    }
    case INT32:
    case INT64:
        return set_int(to, value, m->name, m->kind);
    case INT32_4: {
        PyObject *list = PySequence_Fast(value, "");
        bool ok = list && PySequence_Fast_GET_SIZE(list) <= 4;
        PyErr_Clear();
        if (!ok)
            rfgpy_raise("%s: %s: must be at most four numbers", s->views.op, m->name);
        for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(list); i++)
            ok = set_int((int32_t *)to + i, PySequence_Fast_GET_ITEM(list, i), m->name, INT32);
        Py_XDECREF(list);
        return ok;
    }
    case INPUT:
    case OUTPUT:
    case SCALES: {
        bool output = m->kind == OUTPUT || (m->kind == SCALES && dimensions_of(value) > 1);
        return (*(const rfg_tensor **)to = rfgpy_view(&s->views, value, m->name, output)) != NULL;
    }
    case QUANT:
        return set_quant(s, value, to);
    case ACT:
        return words(value, "act", acts, RFG_ACT_SILU, to);
    case GATES:
        return words(value, "gates", gates, RFG_GATES_HALVES, to);
    case PER:
        return words(value, m->name, pers, RFG_GEMM_SCALE_TENSOR, to);
    case SCALING:
        return words(value, "scaling", scalings, RFG_ROPE_DEFAULT, to);
    case ROUNDING:
        return words(value, "rounding", roundings, RFG_SCALE_EXACT, to);
    case NESTED:
        return set_nested(s, m, value) && (*(const void **)to = s->nested, true);
    case MEMORY: { /* of a tensor's, from where it is aligned to 256 bytes */
        const rfg_tensor *t = rfgpy_view(&s->views, value, m->name, true);
        if (t)
            *(void **)to = (void *)(((uintptr_t)t->data + 255) / 256 * 256);
        return t != NULL;
    }
    }
    return false;
}

/* A params struct inside of another's: a dict of its members. */
static bool set_nested(struct scratch *s, const struct member *m, PyObject *value)
{
    if (!PyDict_Check(value))
        return rfgpy_raise("%s: %s: is a %s: must be a dict", s->views.op, m->name, Py_TYPE(value)->tp_name);
    memcpy(s->nested, m->nested->init, m->nested->size);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
        const struct member *inner = m->nested->members;
        while (inner->name && !(PyUnicode_Check(key) && !PyUnicode_CompareWithASCIIString(key, inner->name)))
            inner++;
        if (!inner->name)
            return rfgpy_raise("%s: %s: has no such member: %.100s", s->views.op, m->name,
                               PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : "?");
        if (!set_member(s, s->nested, inner, item))
            return false;
    }
    return true;
}

/* None: the current one. A number, or what has one: torch.cuda.Stream. */
static bool set_stream(const struct scratch *s, PyObject *given, rfg_stream *stream)
{
    if (!given || given == Py_None)
        return rfgpy_current_stream(&s->views, stream);
    PyObject *number = PyLong_Check(given) ? Py_NewRef(given) : PyObject_GetAttr(given, str_cuda_stream);
    *stream = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (!PyErr_Occurred())
        return true;
    PyErr_Clear();
    return rfgpy_raise("%s: stream: is a %s: must be a stream of torch.cuda, or a stream's address as a number",
                       s->views.op, Py_TYPE(given)->tp_name);
}

static bool keyword(struct op_object *o, struct scratch *s, PyObject *name, PyObject *value, PyObject **stream,
                    PyObject **ctx)
{
    if (name == str_stream)
        *stream = value;
    else if (name == str_ctx)
        *ctx = value;
    else {
        for (int i = 0; i < o->members; i++)
            if (o->keywords[i] == name)
                return set_member(s, s->params, &o->op->params->members[i], value);
        /* Not interned, or none of ours. */
        PyObject *interned = Py_NewRef(name);
        PyUnicode_InternInPlace(&interned);
        bool ok;
        if (interned != name)
            ok = keyword(o, s, interned, value, stream, ctx);
        else
            ok = PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", o->op->name, name);
        Py_DECREF(interned);
        return ok;
    }
    return true;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct op_object *o = (struct op_object *)self;
    const struct op *op = o->op;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), n_names = names ? PyTuple_GET_SIZE(names) : 0;
    if (nargs != o->tensors)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d tensors (%s), not %zd", op->name, o->tensors, op->tensors,
                            nargs);
    if (!o->fn) {
        if (!rfgpy_need_library())
            return NULL;
        *(void **)&o->fn = rfgpy_symbol(op->symbol);
        if (!o->fn)
            return rfgpy_raise("%s: this librfg (%s) has no %s()", op->name, api.rfg_version(), op->symbol);
    }
    struct scratch s;
    s.views.op = op->name;
    s.views.like = NULL;
    s.views.n = s.views.n_buffers = 0;
    const rfg_tensor *t[MOST_TENSORS];
    PyObject *given_stream = NULL, *given_ctx = NULL, *result = NULL;
    struct context *ctx = NULL;
    void *handle = NULL; /* the context's, or the communicator's */
    rfg_stream stream;
    if (op->params)
        memcpy(s.params, op->params->init, op->params->size);
    for (int n = 0; n < o->tensors; n++) { /* inputs first: outputs may have been made like them, wrong ones too */
        int i = (n + o->outputs) % o->tensors;
        if (args[i] == Py_None)
            t[i] = NULL;
        else if (!(t[i] = rfgpy_view(&s.views, args[i], o->names[i], i < o->outputs)))
            goto end;
    }
    for (Py_ssize_t i = 0; i < n_names; i++)
        if (!keyword(o, &s, PyTuple_GET_ITEM(names, i), args[nargs + i], &given_stream, &given_ctx))
            goto end;
    if (!s.views.n) {
        rfgpy_raise("%s: there is no tensor among the arguments", op->name);
        goto end;
    }
    if (!set_stream(&s, given_stream, &stream) ||
        !(ctx = op->joint ? rfgpy_comm_enter(given_ctx, op->name, &s.views.device, &handle)
                          : rfgpy_context_for(given_ctx, &s.views.device)) ||
        (!op->joint && !rfgpy_context_enter(ctx)))
        goto end;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = op->call(o->fn, op->joint ? handle : ctx->ctx, t, s.params, stream);
    PyEval_RestoreThread(gil);
    if (st != RFG_OK)
        result = rfgpy_raise_status(st);
    else
        result = op->call == call_rfg_moe_workspace_bytes ? PyLong_FromSize_t(bytes_said) : Py_NewRef(Py_None);
    if (op->joint)
        rfgpy_comm_leave(given_ctx);
    else
        rfgpy_context_leave(ctx);
end:
    Py_XDECREF(ctx);
    rfgpy_views_release(&s.views);
    return result;
}

/* ---- the objects ------------------------------------------------------------------------------------------------- */

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct op_object *)self)->op->name);
}

static PyObject *get_symbol(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct op_object *)self)->op->symbol);
}

static PyObject *get_tensors(PyObject *self, void *unused)
{
    (void)unused;
    struct op_object *o = (struct op_object *)self;
    PyObject *names = PyTuple_New(o->tensors);
    for (int i = 0; names && i < o->tensors; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(o->names[i]));
    return names;
}

static PyObject *get_members(PyObject *self, void *unused)
{
    (void)unused;
    struct op_object *o = (struct op_object *)self;
    PyObject *names = PyTuple_New(o->members);
    for (int i = 0; names && i < o->members; i++)
        PyTuple_SET_ITEM(names, i, Py_NewRef(o->keywords[i]));
    return names;
}

static PyGetSetDef op_getset[] = {
    { "__name__", get_name, NULL, NULL, NULL },
    { "symbol", get_symbol, NULL, "the C function's name", NULL },
    { "tensors", get_tensors, NULL, "names of the tensors, in order", NULL },
    { "members", get_members, NULL, "names of the params struct's members", NULL },
    { 0 },
};

static PyTypeObject op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rfg._rfg.Op",         .tp_basicsize = sizeof(struct op_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(struct op_object, vectorcall), .tp_getset = op_getset,
};

static bool name_tensors(struct op_object *o)
{
    snprintf(o->text, sizeof(o->text), "%s", o->op->tensors);
    for (char *at = o->text, *word; (word = strsep(&at, " "));) {
        if (!strcmp(word, "-"))
            o->outputs = o->tensors;
        else if (o->tensors < MOST_TENSORS)
            o->names[o->tensors++] = word;
    }
    return true;
}

static bool name_members(struct op_object *o)
{
    const struct params *p = o->op->params;
    if (p && p->size > MOST_PARAMS) {
        PyErr_Format(PyExc_SystemError, "rfg: %s: params of %zu bytes", o->op->name, p->size);
        return false;
    }
    for (const struct member *m = p ? p->members : NULL; m && m->name && o->members < MOST_MEMBERS; m++)
        if (!(o->keywords[o->members++] = PyUnicode_InternFromString(m->name)))
            return false;
    return true;
}

bool rfgpy_ops_init(PyObject *module)
{
    if (PyType_Ready(&op_type) || !(str_stream = PyUnicode_InternFromString("stream")) ||
        !(str_ctx = PyUnicode_InternFromString("ctx")) ||
        !(str_cuda_stream = PyUnicode_InternFromString("cuda_stream")))
        return false;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct op_object *o = PyObject_New(struct op_object, &op_type);
        if (!o)
            return false;
        memset((char *)o + sizeof(PyObject), 0, sizeof(*o) - sizeof(PyObject));
        o->vectorcall = call;
        o->op = &ops[i];
        bool ok = name_tensors(o) && name_members(o) && !PyModule_AddObjectRef(module, ops[i].name, (PyObject *)o);
        Py_DECREF(o); /* the module keeps it */
        if (!ok)
            return false;
    }
    return true;
}
