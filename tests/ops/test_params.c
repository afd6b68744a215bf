/* SPDX-License-Identifier: MIT
 *
 * Every member of every params struct of include/rfg, set alone in a call that is right: it has an effect on the
 * outputs, or it is refused; and 0 is the default that NULL has. A member that is in a header and not in the table, or
 * the other way about, fails the test. */
#include <glob.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static rfg_context *ctx;
static float x[4096], y[4096], w[4096], z[4096];
static uint16_t hx[16384], hy[16384], hk[16384], hv[16384];
static int32_t ids[16], ints[64];
static int64_t longs[8];
static char work[1 << 16] __attribute__((aligned(256)));

/* A tensor that is no function's. */
static const rfg_tensor odd = { longs, RFG_I64, 5, { 1, 1, 1, 1, 7 }, { 7, 7, 7, 7, 1 } };
static const rfg_quant odd_quant = { .size = 0 };
static const rfg_rope_params odd_rope = { .size = 0 };

static void setup(void)
{
    rfg_context_params p = {
        .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
}

static void teardown(void)
{
    rfg_context_destroy(&ctx);
}

static void fill(void)
{
    for (int i = 0; i < COUNT(x); i++) {
        x[i] = (float)(i * 37 % 23 - 11) / 4;
        w[i] = (float)(i * 53 % 19 - 9) / 4;
        y[i] = z[i] = 0;
    }
    for (int i = 0; i < COUNT(hx); i++) { /* bf16 of about 1 */
        hx[i] = (uint16_t)(0x3f80 + i * 29 % 97);
        hk[i] = (uint16_t)((i * 7 % 3 ? 0x3e80 : 0xbe80) + i * 13 % 61);
        hv[i] = (uint16_t)(0x3f00 + i * 31 % 83);
        hy[i] = 0;
    }
    for (int i = 0; i < COUNT(ids); i++)
        ids[i] = i * 3 % 4;
    memset(ints, 0x55, sizeof(ints));
    for (int i = 0; i < COUNT(longs); i++)
        longs[i] = i;
}

#define F2(p, rows, cols) rfg_tensor_2d(p, RFG_F32, rows, cols, cols)
#define H2(p, rows, cols) rfg_tensor_2d(p, RFG_BF16, rows, cols, cols)
#define H3(p, ...)        rfg_tensor_nd(p, RFG_BF16, 3, (const int64_t[]){ __VA_ARGS__ })
#define H4(p, ...)        rfg_tensor_nd(p, RFG_BF16, 4, (const int64_t[]){ __VA_ARGS__ })

static rfg_status act(const void *p)
{
    rfg_tensor tx = F2(x, 2, 8), ty = F2(y, 2, 8);
    return rfg_op_act(ctx, &ty, &tx, p, NULL);
}
static rfg_status act_and_mul(const void *p)
{
    rfg_tensor tx = F2(x, 2, 16), ty = F2(y, 2, 8);
    return rfg_op_act_and_mul(ctx, &ty, &tx, p, NULL);
}
static rfg_status embedding(const void *p)
{
    rfg_tensor t = F2(w, 4, 8), i = rfg_tensor_1d(ids, RFG_I32, 3), ty = F2(y, 3, 8);
    return rfg_op_embedding(ctx, &ty, &i, &t, p, NULL);
}
static rfg_status advance(const void *p)
{
    rfg_tensor lens = rfg_tensor_1d(ints, RFG_I32, 2), positions = rfg_tensor_1d(ints + 8, RFG_I32, 2);
    return rfg_op_advance(ctx, &lens, &positions, p, NULL);
}
static rfg_status gemm(const void *p)
{
    rfg_tensor tx = F2(x, 2, 8), tw = F2(w, 4, 8), ty = F2(y, 2, 4);
    return rfg_op_gemm(ctx, &ty, &tx, &tw, p, NULL);
}
static rfg_status gated(const void *p)
{
    rfg_gemm_params g = RFG_GEMM_PARAMS_INIT;
    rfg_tensor tx = F2(x, 2, 8), tw = F2(w, 8, 8), ty = F2(y, 2, 4);
    if (p)
        memcpy(&g, p, sizeof(g));
    g.gated = 1;
    return rfg_op_gemm(ctx, &ty, &tx, &tw, &g, NULL);
}
static rfg_status mha(const void *p)
{
    rfg_tensor q = H4(hx, 1, 4, 2, 64), k = H4(hk, 1, 6, 1, 64), v = H4(hv, 1, 6, 1, 64), out = H4(hy, 1, 4, 2, 64);
    return rfg_op_mha(ctx, &out, &q, &k, &v, p, NULL);
}
static rfg_status masked(const void *p, int is_causal, int32_t window)
{
    rfg_mha_params m = RFG_MHA_PARAMS_INIT;
    if (p)
        memcpy(&m, p, sizeof(m));
    m.causal |= is_causal;
    m.window = window ? window : m.window;
    return mha(&m);
}
static rfg_status causal(const void *p)
{
    return masked(p, 1, 0);
}
static rfg_status sides(const void *p)
{
    return masked(p, 0, RFG_MHA_WINDOW_SIDES);
}
static rfg_status rmsnorm(const void *p)
{
    rfg_tensor tx = F2(x, 2, 8), ty = F2(y, 2, 8), tw = rfg_tensor_1d(w, RFG_F32, 8);
    return rfg_op_rmsnorm(ctx, &ty, &tx, &tw, p, NULL);
}
static rfg_status layernorm(const void *p)
{
    rfg_tensor tx = F2(x, 2, 8), ty = F2(y, 2, 8);
    return rfg_op_layernorm(ctx, &ty, &tx, NULL, p, NULL);
}
static rfg_status quantize(const void *p)
{
    rfg_tensor tx = F2(x, 2, 64), q = rfg_tensor_2d(y, RFG_I8, 2, 64, 64), s = F2(z, 1, 1);
    return rfg_op_quantize(ctx, &q, &s, &tx, p, NULL);
}
static rfg_status quantize_zeroes(const void *p)
{
    memset(x, 0, sizeof(x));
    return quantize(p);
}
static rfg_status dequantize(const void *p)
{
    rfg_tensor q = rfg_tensor_2d(x, RFG_I8, 2, 64, 64), s = F2(w, 1, 1), ty = F2(y, 2, 64);
    return rfg_op_dequantize(ctx, &ty, &q, &s, p, NULL);
}
static rfg_status moe_gate(const void *p)
{
    rfg_moe_gate_params m = RFG_MOE_GATE_PARAMS_INIT;
    rfg_tensor tx = H2(hx, 2, 16), w = H2(hk, 4, 16), i = rfg_tensor_2d(ints, RFG_I32, 2, 2, 2), t = F2(y, 2, 2);
    rfg_tensor norm = rfg_tensor_1d(hv, RFG_BF16, 16), normed = H2(hy, 2, 16);
    rfg_tensor rows = rfg_tensor_1d(ints + 8, RFG_I32, 4), offsets = rfg_tensor_1d(ints + 16, RFG_I32, 5);
    rfg_tensor sorted = rfg_tensor_1d(y + 8, RFG_F32, 4), places = rfg_tensor_2d(ints + 24, RFG_I32, 2, 2, 2);
    if (p)
        memcpy(&m, p, sizeof(m));
    m.norm = m.norm ? m.norm : &norm;
    m.normed = m.normed ? m.normed : &normed;
    m.rows = m.rows ? m.rows : &rows;
    m.offsets = m.offsets ? m.offsets : &offsets;
    m.sorted = m.sorted ? m.sorted : &sorted;
    m.places = m.places ? m.places : &places;
    return rfg_op_moe_gate(ctx, &i, &t, &tx, &w, &m, NULL);
}
static rfg_status moe_route(const void *p)
{
    rfg_tensor tx = F2(x, 2, 8), i = rfg_tensor_2d(ints, RFG_I32, 2, 2, 2), t = F2(y, 2, 2);
    return rfg_op_moe_route(ctx, &i, &t, &tx, p, NULL);
}
static rfg_status moe_align(const void *p)
{
    rfg_moe_align_params a = RFG_MOE_ALIGN_PARAMS_INIT;
    rfg_tensor rows = rfg_tensor_1d(ints, RFG_I32, 4), t = rfg_tensor_2d(ids, RFG_I32, 2, 2, 2);
    rfg_tensor offsets = rfg_tensor_1d(ints + 32, RFG_I32, 2);
    if (p)
        memcpy(&a, p, sizeof(a));
    a.offsets = a.offsets ? a.offsets : &offsets;
    return rfg_op_moe_align(ctx, &rows, &t, &a, NULL);
}
/* With a norm and a rotation. */
static rfg_status mla_append(const void *p)
{
    rfg_mla_append_params m = RFG_MLA_APPEND_PARAMS_INIT;
    rfg_tensor latent = H2(hx, 2, 64), rope = H2(hx, 2, 32), kv = H3(hy, 1, 8, 96);
    rfg_tensor norm = rfg_tensor_1d(hv, RFG_BF16, 64), slots = rfg_tensor_1d(longs, RFG_I64, 2), table = H2(hk, 4, 32);
    if (p)
        memcpy(&m, p, sizeof(m));
    m.norm = m.norm ? m.norm : &norm;
    m.cos_sin = m.cos_sin ? m.cos_sin : &table;
    m.positions = m.positions ? m.positions : &slots;
    return rfg_op_mla_append(ctx, &kv, &latent, &rope, &slots, &m, NULL);
}
static rfg_status mla_gather(const void *p)
{
    rfg_tensor rows = H2(hy, 5, 96), kv = H3(hk, 2, 8, 96), ends = rfg_tensor_1d(ids, RFG_I32, 3);
    return rfg_op_mla_gather(ctx, &rows, &kv, &ends, p, NULL);
}
/* Causal matters with two queries; scale must be given, which NULL doesn't. */
static rfg_status mla(const void *p)
{
    rfg_mla_params m = RFG_MLA_PARAMS_INIT;
    rfg_tensor out = H4(hy, 1, 2, 2, 64), q = H4(hx, 1, 2, 2, 96), kv = H3(hk, 1, 8, 96);
    if (p)
        memcpy(&m, p, sizeof(m));
    m.scale = m.scale != 0 ? m.scale : 4;
    return rfg_op_mla_decode(ctx, &out, &q, &kv, &m, NULL);
}
static rfg_status merge_states(const void *p)
{
    rfg_tensor out = rfg_tensor_nd(y, RFG_F32, 3, (int64_t[]){ 2, 3, 4 }),
               o = rfg_tensor_nd(x, RFG_F32, 4, (int64_t[]){ 2, 2, 3, 4 }),
               lse = rfg_tensor_nd(w, RFG_F32, 3, (int64_t[]){ 2, 2, 3 });
    return rfg_op_merge_states(ctx, &out, &o, &lse, p, NULL);
}
static rfg_status lora(const void *p)
{
    rfg_tensor ty = rfg_tensor_2d(hy, RFG_BF16, 4, 8, 8), tx = rfg_tensor_2d(hx, RFG_BF16, 4, 16, 16),
               a = H3(hk, 4, 8, 16), b = H3(hv, 4, 8, 8), i = rfg_tensor_1d(ids, RFG_I32, 4);
    return rfg_op_lora(ctx, &ty, &tx, &a, &b, &i, p, NULL);
}
static rfg_status comm(const void *p)
{
    rfg_comm *c;
    rfg_comm_handle h;
    rfg_tensor tx = F2(x, 2, 8), ty = F2(y, 2, 8);
    rfg_status st = rfg_comm_create(&c, ctx, 0, 1, p);
    if (st == RFG_OK && (st = rfg_comm_get_handle(c, &h)) == RFG_OK && (st = rfg_comm_connect(c, &h)) == RFG_OK)
        st = rfg_op_all_reduce(c, &ty, &tx, NULL);
    rfg_comm_destroy(&c);
    return st;
}
static rfg_status moe_sum(const void *p)
{
    rfg_tensor tx = F2(x, 4, 8), t = rfg_tensor_2d(ids, RFG_I32, 2, 2, 2), ty = F2(y, 2, 8);
    return rfg_op_moe_sum(ctx, &ty, &tx, &t, p, NULL);
}
static rfg_status moe(const void *p)
{
    rfg_moe_params m = RFG_MOE_PARAMS_INIT;
    rfg_tensor tx = F2(x, 2, 8), t = rfg_tensor_2d(ids, RFG_I32, 2, 2, 2), tw = F2(w + 64, 2, 2), ty = F2(y, 2, 8);
    rfg_tensor w1 = { w, RFG_F32, 3, { 4, 16, 8 }, { 128, 8, 1 } },
               w2 = { w + 512, RFG_F32, 3, { 4, 8, 8 }, { 64, 8, 1 } };
    if (p)
        memcpy(&m, p, sizeof(m));
    return rfg_op_moe(ctx, &ty, &tx, &w1, &w2, &t, &tw, &m, NULL);
}
static rfg_status rope(const void *p)
{
    rfg_tensor q = H3(hx, 2, 2, 16), o = H3(hy, 2, 2, 16), a = F2(w, 8, 8), at = rfg_tensor_1d(longs + 3, RFG_I64, 2);
    return rfg_op_rope(ctx, &o, NULL, &q, NULL, &a, &at, p, NULL);
}
static rfg_status kv_append(const void *p)
{
    rfg_tensor kc = H4(hy, 2, 4, 1, 64), vc = H4(hy + 4096, 2, 4, 1, 64), k = H3(hk, 2, 1, 64), v = H3(hv, 2, 1, 64);
    rfg_tensor slots = rfg_tensor_1d(longs + 1, RFG_I64, 2);
    return rfg_op_kv_append(ctx, &kc, &vc, &k, &v, &slots, p, NULL);
}
static rfg_status rope_append(const void *p)
{
    rfg_tensor kc = H4(hy, 2, 4, 1, 64), vc = H4(hy + 4096, 2, 4, 1, 64), k = H3(hk, 2, 1, 64), v = H3(hv, 2, 1, 64);
    rfg_tensor q = H3(hx, 2, 2, 64), o = H3(hy + 8192, 2, 2, 64), a = F2(w, 8, 64);
    rfg_tensor slots = rfg_tensor_1d(longs + 1, RFG_I64, 2);
    return rfg_op_rope_append(ctx, &o, &kc, &vc, &q, &k, &v, &a, &slots, &slots, p, NULL);
}
static rfg_status rope_table(const void *p)
{
    rfg_tensor t = F2(y, 8, 8);
    return rfg_rope_table(&t, p);
}
static rfg_status sample(const void *p)
{
    rfg_tensor l = F2(x, 2, 64), ty = rfg_tensor_1d(ints, RFG_I32, 2);
    rfg_tensor seed = rfg_tensor_1d(longs, RFG_I64, 2), offset = seed;
    return rfg_op_sample(ctx, &ty, &l, &seed, &offset, p, NULL);
}

/* HINT: no other values in these calls: hints; what goes with members or tensors that aren't there, which the struct
 * says; how a quotient is made. */
enum kind { INT, LONG, REAL, DOUBLE, TENSOR, QUANT, ROPE, MEMORY, HINT };

static const struct member {
    const char *type, *name;
    size_t size, offset;
    enum kind kind;
    double value;
    rfg_status (*call)(const void *params), (*other)(const void *params); /* other: in this one, too; or NULL */
} members[] = {
#define M(type, name, kind, value, ...)                                                                                \
    {                                                                                                                  \
#type, #name, sizeof(type), offsetof(type, name), kind, value, __VA_ARGS__                                     \
    }
    M(rfg_act_params, act, INT, RFG_ACT_RELU, act, act_and_mul),
    M(rfg_act_params, gates, INT, 1, act, act_and_mul),
    M(rfg_act_params, alpha, REAL, 2, act, act_and_mul),
    M(rfg_act_params, limit, REAL, .5, act, act_and_mul),
    M(rfg_act_params, quant, QUANT, 0, act, act_and_mul),
    M(rfg_act_params, situ_beta, REAL, 2, act, act_and_mul),
    M(rfg_act_params, situ_linear_beta, REAL, 2, act, act_and_mul),
    M(rfg_advance_params, slots, TENSOR, 0, advance),
    M(rfg_advance_params, block_table, TENSOR, 0, advance),
    M(rfg_advance_params, page, LONG, 4, advance),
    M(rfg_advance_params, accepted, TENSOR, 0, advance),
    M(rfg_advance_params, active, TENSOR, 0, advance),
    M(rfg_advance_params, spare, TENSOR, 0, advance),
    M(rfg_advance_params, spare_count, TENSOR, 0, advance),
    M(rfg_comm_params, timeout_ms, HINT, 5, comm),
    M(rfg_comm_params, vendor_from, INT, -1, comm),
    M(rfg_embedding_params, scale, REAL, 2, embedding),
    M(rfg_embedding_params, first, LONG, 1, embedding),
    M(rfg_gemm_params, bias, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, w_scale, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, residual, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, gated, INT, 1, gemm),
    M(rfg_gemm_params, act, INT, RFG_ACT_RELU, gemm, gated),
    M(rfg_gemm_params, x_scale, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, w_zero, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, x_per, INT, RFG_GEMM_SCALE_ROW, gemm, gated),
    M(rfg_gemm_params, w_per, INT, RFG_GEMM_SCALE_ROW, gemm, gated),
    M(rfg_gemm_params, fast_accum, INT, 1, gemm, gated),
    M(rfg_gemm_params, gates, INT, 1, gemm, gated),
    M(rfg_gemm_params, offsets, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, rows, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, weights, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, limit, REAL, .5, gemm, gated),
    M(rfg_gemm_params, alpha, REAL, 2, gemm, gated),
    M(rfg_gemm_params, y_scale, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, situ_beta, REAL, 2, gemm, gated),
    M(rfg_gemm_params, situ_linear_beta, REAL, 2, gemm, gated),
    M(rfg_gemm_params, w_global, TENSOR, 0, gemm, gated),
    M(rfg_gemm_params, w_group, LONG, 16, gemm, gated),
    M(rfg_mha_params, scale, REAL, 2, mha),
    M(rfg_mha_params, soft_cap, REAL, 1, mha),
    M(rfg_mha_params, causal, INT, 1, mha),
    M(rfg_mha_params, window, INT, 2, mha, causal),
    M(rfg_mha_params, window_left, INT, 1, mha, sides),
    M(rfg_mha_params, window_right, INT, 1, mha, sides),
    M(rfg_mha_params, sinks, TENSOR, 0, mha),
    M(rfg_mha_params, alibi, TENSOR, 0, mha),
    M(rfg_mha_params, lse, TENSOR, 0, mha),
    M(rfg_mha_params, k_scale, TENSOR, 0, mha),
    M(rfg_mha_params, v_scale, TENSOR, 0, mha),
    M(rfg_mha_params, cu_seqlens_q, TENSOR, 0, mha),
    M(rfg_mha_params, cu_seqlens_k, TENSOR, 0, mha),
    M(rfg_mha_params, max_seqlen_q, INT, 3, mha),
    M(rfg_mha_params, max_seqlen_k, HINT, 3, mha),
    M(rfg_mha_params, mean_seqlen_k, HINT, 3, mha),
    M(rfg_mha_params, block_table, TENSOR, 0, mha),
    M(rfg_mha_params, kv_lens, TENSOR, 0, mha),
    M(rfg_lora_params, indptr, TENSOR, 0, lora),
    M(rfg_lora_params, scales, TENSOR, 0, lora),
    M(rfg_lora_params, ranks, TENSOR, 0, lora),
    M(rfg_lora_params, scale, REAL, 2, lora),
    M(rfg_lora_params, reserved, INT, 1, lora),
    M(rfg_mla_append_params, norm, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, cos_sin, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, positions, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, q, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, q_out, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, kv_scale, TENSOR, 0, mla_append),
    M(rfg_mla_append_params, eps, REAL, .5, mla_append),
    M(rfg_mla_append_params, gptj, INT, 1, mla_append),
    M(rfg_mla_append_params, format, HINT, 0, mla_append),
    M(rfg_mla_append_params, reserved, HINT, 0, mla_append),
    M(rfg_mla_gather_params, block_table, TENSOR, 0, mla_gather),
    M(rfg_mla_gather_params, kv_indptr, TENSOR, 0, mla_gather),
    M(rfg_mla_gather_params, kv_indices, TENSOR, 0, mla_gather),
    M(rfg_mla_gather_params, first, TENSOR, 0, mla_gather),
    M(rfg_mla_gather_params, kv_scale, TENSOR, 0, mla_gather),
    M(rfg_mla_gather_params, format, HINT, 0, mla_gather),
    M(rfg_mla_gather_params, reserved, HINT, 0, mla_gather),
    M(rfg_mla_params, scale, REAL, 2, mla),
    M(rfg_mla_params, soft_cap, REAL, 1, mla),
    M(rfg_mla_params, causal, INT, 1, mla),
    M(rfg_mla_params, max_seqlen_k, HINT, 3, mla),
    M(rfg_mla_params, q_rope, TENSOR, 0, mla),
    M(rfg_mla_params, block_table, TENSOR, 0, mla),
    M(rfg_mla_params, kv_indptr, TENSOR, 0, mla),
    M(rfg_mla_params, kv_indices, TENSOR, 0, mla),
    M(rfg_mla_params, kv_lens, TENSOR, 0, mla),
    M(rfg_mla_params, sinks, TENSOR, 0, mla),
    M(rfg_mla_params, lse, TENSOR, 0, mla),
    M(rfg_mla_params, kv_scale, TENSOR, 0, mla),
    M(rfg_mla_params, q_positions, TENSOR, 0, mla),
    M(rfg_mla_params, format, HINT, 0, mla),
    M(rfg_mla_params, cp_size, HINT, 0, mla),
    M(rfg_mla_params, cp_rank, HINT, 0, mla),
    M(rfg_mla_params, cp_interleave, HINT, 0, mla),
    M(rfg_merge_states_params, lse_out, TENSOR, 0, merge_states),
    M(rfg_merge_states_params, base2, INT, 1, merge_states),
    M(rfg_merge_states_params, reserved, INT, 1, merge_states),
    M(rfg_moe_gate_params, scoring, INT, RFG_MOE_SIGMOID, moe_gate),
    M(rfg_moe_gate_params, renormalise, INT, 1, moe_gate),
    M(rfg_moe_gate_params, bias, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, groups, LONG, 3, moe_gate),
    M(rfg_moe_gate_params, topk_groups, LONG, 2, moe_gate),
    M(rfg_moe_gate_params, shared, LONG, 1, moe_gate),
    M(rfg_moe_gate_params, tokens, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, scale, REAL, 2, moe_gate),
    M(rfg_moe_gate_params, shared_weight, REAL, 2, moe_gate),
    M(rfg_moe_gate_params, norm, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, normed, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, eps, REAL, 2, moe_gate),
    M(rfg_moe_gate_params, one_plus_weight, INT, 1, moe_gate),
    M(rfg_moe_gate_params, w_bias, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, rows, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, offsets, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, sorted, TENSOR, 0, moe_gate),
    M(rfg_moe_gate_params, places, TENSOR, 0, moe_gate),
    M(rfg_moe_route_params, scoring, INT, RFG_MOE_SIGMOID, moe_route),
    M(rfg_moe_route_params, bias, TENSOR, 0, moe_route),
    M(rfg_moe_route_params, groups, LONG, 3, moe_route),
    M(rfg_moe_route_params, topk_groups, LONG, 2, moe_route),
    M(rfg_moe_route_params, renormalise, INT, 1, moe_route),
    M(rfg_moe_route_params, shared, LONG, 1, moe_route),
    M(rfg_moe_route_params, tokens, TENSOR, 0, moe_route),
    M(rfg_moe_route_params, scale, REAL, 2, moe_route),
    M(rfg_moe_route_params, shared_weight, REAL, 2, moe_route),
    M(rfg_moe_route_params, table, TENSOR, 0, moe_route),
    M(rfg_moe_route_params, token_ids, TENSOR, 0, moe_route),
    M(rfg_moe_align_params, format, INT, RFG_MOE_VLLM, moe_align),
    M(rfg_moe_align_params, block, INT, 2, moe_align),
    M(rfg_moe_align_params, experts, LONG, 4, moe_align),
    M(rfg_moe_align_params, offsets, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, block_experts, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, count, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, weights_out, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, places, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, weights, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, expert_map, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, tokens, TENSOR, 0, moe_align),
    M(rfg_moe_align_params, identity, LONG, 1, moe_align),
    M(rfg_moe_sum_params, weights, TENSOR, 0, moe_sum),
    M(rfg_moe_sum_params, residual, TENSOR, 0, moe_sum),
    M(rfg_moe_sum_params, tokens, TENSOR, 0, moe_sum),
    M(rfg_moe_sum_params, identity, TENSOR, 0, moe_sum),
    M(rfg_moe_sum_params, identity_weights, TENSOR, 0, moe_sum),
    M(rfg_moe_params, experts, LONG, 3, moe),
    M(rfg_moe_params, act, INT, RFG_ACT_RELU, moe),
    M(rfg_moe_params, gates, INT, 1, moe),
    M(rfg_moe_params, limit, REAL, .5, moe),
    M(rfg_moe_params, alpha, REAL, 2, moe),
    M(rfg_moe_params, weights_first, INT, 1, moe),
    M(rfg_moe_params, fast_accum, INT, 1, moe),
    M(rfg_moe_params, x_per, INT, RFG_GEMM_SCALE_ROW, moe),
    M(rfg_moe_params, w_per, INT, RFG_GEMM_SCALE_ROW, moe),
    M(rfg_moe_params, w1_bias, TENSOR, 0, moe),
    M(rfg_moe_params, w2_bias, TENSOR, 0, moe),
    M(rfg_moe_params, w1_scale, TENSOR, 0, moe),
    M(rfg_moe_params, w2_scale, TENSOR, 0, moe),
    M(rfg_moe_params, w1_zero, TENSOR, 0, moe),
    M(rfg_moe_params, w2_zero, TENSOR, 0, moe),
    M(rfg_moe_params, x_scale, TENSOR, 0, moe),
    M(rfg_moe_params, h_scale, TENSOR, 0, moe),
    M(rfg_moe_params, expert_map, TENSOR, 0, moe),
    M(rfg_moe_params, tokens, TENSOR, 0, moe),
    M(rfg_moe_params, residual, TENSOR, 0, moe),
    M(rfg_moe_params, workspace, MEMORY, 0, moe),
    M(rfg_moe_params, workspace_bytes, LONG, 1, moe),
    M(rfg_moe_params, x_codes, INT, RFG_E4M3, moe),
    M(rfg_moe_params, rounding, INT, RFG_SCALE_CEIL, moe),
    M(rfg_moe_params, situ_beta, REAL, 2, moe),
    M(rfg_moe_params, situ_linear_beta, REAL, 2, moe),
    M(rfg_moe_params, identity, LONG, -1, moe),
    M(rfg_moe_params, identity_x, TENSOR, 0, moe),
    M(rfg_moe_params, w1_global, TENSOR, 0, moe),
    M(rfg_moe_params, w2_global, TENSOR, 0, moe),
    M(rfg_moe_params, rows, TENSOR, 0, moe),
    M(rfg_moe_params, offsets, TENSOR, 0, moe),
    M(rfg_moe_params, sorted, TENSOR, 0, moe),
    M(rfg_moe_params, places, TENSOR, 0, moe),
    M(rfg_norm_params, eps, REAL, .5, rmsnorm, layernorm),
    M(rfg_norm_params, one_plus_weight, INT, 1, rmsnorm, layernorm),
    M(rfg_norm_params, quant, QUANT, 0, rmsnorm, layernorm),
    M(rfg_norm_params, bias, TENSOR, 0, rmsnorm, layernorm),
    M(rfg_quantize_params, group_rows, LONG, 1, quantize),
    M(rfg_quantize_params, group_cols, LONG, 32, quantize),
    M(rfg_quantize_params, scale_given, INT, 1, quantize),
    M(rfg_quantize_params, rounding, INT, RFG_SCALE_CEIL, quantize),
    M(rfg_quantize_params, reciprocal, HINT, 3, quantize),
    M(rfg_quantize_params, codes, INT, RFG_I8, quantize),
    M(rfg_quantize_params, max, REAL, 100, quantize),
    M(rfg_quantize_params, floor_amax, REAL, 100, quantize),
    M(rfg_quantize_params, floor_scale, REAL, 1, quantize),
    M(rfg_quantize_params, zero_scale, REAL, 1, quantize_zeroes),
    M(rfg_quantize_params, smooth, TENSOR, 0, quantize),
    M(rfg_quantize_params, global, TENSOR, 0, quantize),
    M(rfg_dequantize_params, group_rows, LONG, 1, dequantize),
    M(rfg_dequantize_params, group_cols, LONG, 32, dequantize),
    M(rfg_rope_params, gptj, INT, 1, rope),
    M(rfg_rope_params, last, INT, 1, rope),
    M(rfg_rope_params, backward, INT, 1, rope),
    M(rfg_rope_params, mrope_interleaved, INT, 1, rope),
    M(rfg_rope_params, sections, HINT, 1, rope),
    M(rfg_rope_params, offset, INT, 4, rope),
    M(rfg_rope_params, reserved, INT, 1, rope),
    M(rfg_kv_append_params, k_scale, TENSOR, 0, kv_append),
    M(rfg_kv_append_params, v_scale, TENSOR, 0, kv_append),
    M(rfg_rope_append_params, rope, ROPE, 0, rope_append),
    M(rfg_rope_append_params, q_norm, TENSOR, 0, rope_append),
    M(rfg_rope_append_params, k_norm, TENSOR, 0, rope_append),
    M(rfg_rope_append_params, eps, REAL, .5, rope_append),
    M(rfg_rope_append_params, one_plus_weight, INT, 1, rope_append),
    M(rfg_rope_append_params, k_scale, TENSOR, 0, rope_append),
    M(rfg_rope_append_params, v_scale, TENSOR, 0, rope_append),
    M(rfg_rope_table_params, scaling, INT, RFG_ROPE_YARN, rope_table),
    M(rfg_rope_table_params, original, HINT, 8192, rope_table), /* of other scalings */
    M(rfg_rope_table_params, theta, DOUBLE, 500, rope_table),
    M(rfg_rope_table_params, factor, HINT, 0, rope_table),
    M(rfg_rope_table_params, low_freq_factor, HINT, 0, rope_table),
    M(rfg_rope_table_params, high_freq_factor, HINT, 0, rope_table),
    M(rfg_rope_table_params, beta_fast, HINT, 0, rope_table),
    M(rfg_rope_table_params, beta_slow, HINT, 0, rope_table),
    M(rfg_rope_table_params, attention_factor, HINT, 0, rope_table),
    M(rfg_rope_table_params, mscale, HINT, 0, rope_table),
    M(rfg_rope_table_params, mscale_all_dim, HINT, 0, rope_table),
    M(rfg_rope_table_params, first, LONG, 3, rope_table),
    M(rfg_rope_table_params, untruncated, HINT, 1, rope_table),
    M(rfg_rope_table_params, reserved, INT, 1, rope_table),
    M(rfg_rope_table_params, length, LONG, 8, rope_table),
    M(rfg_rope_table_params, partial_rotary_factor, DOUBLE, .5, rope_table),
    M(rfg_rope_table_params, short_factor, TENSOR, 0, rope_table),
    M(rfg_rope_table_params, long_factor, TENSOR, 0, rope_table),
    M(rfg_rope_table_params, short_mscale, DOUBLE, 2, rope_table),
    M(rfg_rope_table_params, long_mscale, DOUBLE, 2, rope_table),
    M(rfg_sample_params, temperature, TENSOR, 0, sample),
    M(rfg_sample_params, top_k, TENSOR, 0, sample),
    M(rfg_sample_params, top_p, TENSOR, 0, sample),
    M(rfg_sample_params, min_p, TENSOR, 0, sample),
    M(rfg_sample_params, repetition, TENSOR, 0, sample),
    M(rfg_sample_params, frequency, TENSOR, 0, sample),
    M(rfg_sample_params, presence, TENSOR, 0, sample),
    M(rfg_sample_params, bias, TENSOR, 0, sample),
    M(rfg_sample_params, counts, TENSOR, 0, sample),
    M(rfg_sample_params, prompt, TENSOR, 0, sample),
    M(rfg_sample_params, order, HINT, RFG_SAMPLE_JOINT, sample), /* of filters that there aren't */
    M(rfg_sample_params, reserved, INT, 1, sample),
#undef M
};

/* All that a call may write. */
static void outputs(char *copy)
{
    memcpy(copy, y, sizeof(y));
    memcpy(copy += sizeof(y), z, sizeof(z));
    memcpy(copy += sizeof(z), hy, sizeof(hy));
    memcpy(copy + sizeof(hy), ints, sizeof(ints));
}
enum { ALL = sizeof(y) + sizeof(z) + sizeof(hy) + sizeof(ints) };

static void set(const struct member *m, char *params)
{
    const void *pointer = m->kind == TENSOR  ? (const void *)&odd
                          : m->kind == QUANT ? (const void *)&odd_quant
                          : m->kind == ROPE  ? (const void *)&odd_rope
                                             : work + 1;
    int32_t i = (int32_t)m->value;
    int64_t l = (int64_t)m->value;
    float f = (float)m->value;
    const void *from = m->kind == INT || m->kind == HINT ? (const void *)&i
                       : m->kind == LONG                 ? (const void *)&l
                       : m->kind == REAL                 ? (const void *)&f
                       : m->kind == DOUBLE               ? (const void *)&m->value
                                                         : (const void *)&pointer;
    memcpy(params + m->offset, from, m->kind == INT || m->kind == REAL || m->kind == HINT ? 4 : sizeof(int64_t));
}

static void alone(const struct member *m, rfg_status (*call)(const void *params))
{
    static char plain[ALL], zeroes[ALL], with[ALL];
    char params[512] = { 0 };
    memcpy(params, &m->size, sizeof(m->size));
    fill();
    ck_assert_msg(call(NULL) == RFG_OK, "%s: without params: %s", m->type, rfg_last_error());
    outputs(plain);
    fill();
    ck_assert_msg(call(params) == RFG_OK, "%s: of zeroes: %s", m->type, rfg_last_error());
    outputs(zeroes);
    ck_assert_msg(!memcmp(plain, zeroes, ALL), "%s: zeroes are not what NULL is", m->type);
    set(m, params);
    fill();
    rfg_status st = call(params);
    outputs(with);
    if (m->kind == HINT)
        ck_assert_msg(st == RFG_OK && !memcmp(plain, with, ALL), "%s.%s: is no hint: %s", m->type, m->name,
                      rfg_last_error());
    else if (st == RFG_OK)
        ck_assert_msg(memcmp(plain, with, ALL), "%s.%s: taken, and has no effect", m->type, m->name);
    else
        ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT, "%s.%s: %s", m->type, m->name, rfg_last_error());
}

START_TEST(each_member)
{
    alone(&members[_i], members[_i].call);
    if (members[_i].other)
        alone(&members[_i], members[_i].other);
}
END_TEST

/* A row of zeroes normalised without a word about eps is zeroes, not NaN. */
START_TEST(zero_row)
{
    rfg_norm_params p = { .size = sizeof(p) };
    rfg_tensor tx = F2(z, 1, 8), ty = F2(y, 1, 8);
    fill();
    ck_assert_msg(rfg_op_rmsnorm(ctx, &ty, &tx, NULL, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 8; i++)
        ck_assert(y[i] == 0);
}
END_TEST

/* ---- the headers ------------------------------------------------------------------------------------------------- */

/* The names that a declaration's line of a struct declares are in the table; how many there are. */
static int check_line(const char *type, char *line)
{
    int n = 0;
    char *stop = strchr(line, ';');
    if (!stop)
        return 0;
    *stop = 0;
    for (char *at = line, *word; (word = strsep(&at, ","));) {
        word[strcspn(word, "[")] = 0;
        char *name = word + strlen(word);
        while (name > word && strchr("abcdefghijklmnopqrstuvwxyz_0123456789", name[-1]))
            name--;
        bool known = !strcmp(name, "size");
        for (int i = 0; i < COUNT(members); i++)
            known |= !strcmp(members[i].type, type) && !strcmp(members[i].name, name);
        ck_assert_msg(known, "%s.%s: is not in the table of this test", type, name);
        n += strcmp(name, "size") != 0;
    }
    return n;
}

/* Members of the params structs in a header. */
static int check_header(const char *path)
{
    char *text = rfg_read_file(path, NULL), *at = text, type[64] = "";
    bool comment = false;
    int found = 0;
    ck_assert_msg(text != NULL, "%s", path);
    for (char *line; (line = strsep(&at, "\n"));) {
        if (sscanf(line, "typedef struct %63[a-z_0-9] {", type) == 1 || comment || !strstr(type, "_params")) {
            comment = comment && !strstr(line, "*/");
            continue;
        }
        char *begins = strstr(line, "/*");
        if (begins && !strstr(begins, "*/"))
            comment = true;
        if (begins)
            *begins = 0;
        if (*line == '}')
            *type = 0;
        else
            found += check_line(type, line);
    }
    free(text);
    return found;
}

/* Of all headers but core.h, whose params are a context's. */
START_TEST(all_members)
{
    glob_t headers;
    char *pattern = rfg_asprintf("%s/include/rfg/*.h", getenv("RFG_SOURCE_ROOT"));
    int found = 0;
    ck_assert_int_eq(glob(pattern, 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        if (strcmp(strrchr(headers.gl_pathv[i], '/'), "/core.h"))
            found += check_header(headers.gl_pathv[i]);
    ck_assert_int_eq(found, COUNT(members));
    globfree(&headers);
    free(pattern);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("params");
    TCase *tc = test_case(s, "params", setup, teardown);
    ADD_TESTS(tc, zero_row, all_members);
    ADD_LOOPS(tc, COUNT(members), each_member);
    return run_suite(s);
}
