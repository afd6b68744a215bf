/* SPDX-License-Identifier: MIT
 *
 * The table of operators: what each takes, and its caller. */
#include "op.h"

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

const struct op rfgpy_ops[] = {
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
const size_t rfgpy_n_ops = sizeof(rfgpy_ops) / sizeof(rfgpy_ops[0]);

bool rfgpy_op_says(const struct op *op, size_t *bytes)
{
    *bytes = bytes_said;
    return op->call == call_rfg_moe_workspace_bytes;
}
