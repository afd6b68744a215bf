/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of mla_decode, mla_append and mla_gather. */
/* out, q, kv, block_table, kv_lens, lse, sinks, kv_scale */
static rfg_status mla_paged(const struct call *c)
{
    rfg_mla_params p = c->mla;
    p.block_table = c->t[3], p.kv_lens = c->t[4], p.lse = c->t[5], p.sinks = c->t[6], p.kv_scale = c->t[7];
    return rfg_op_mla_decode(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
/* out, q, kv, q_rope, kv_indptr, kv_indices, lse, q_positions */
static rfg_status mla_indices(const struct call *c)
{
    rfg_mla_params p = c->mla;
    p.q_rope = c->t[3], p.kv_indptr = c->t[4], p.kv_indices = c->t[5], p.lse = c->t[6], p.q_positions = c->t[7];
    return rfg_op_mla_decode(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static void mla_scale_none(struct call *c)
{
    c->mla.scale = 0;
}
static void mla_scale_nan(struct call *c)
{
    c->mla.scale = NAN;
}
static void mla_cap_negative(struct call *c)
{
    c->mla.soft_cap = -1;
}
static void mla_most_negative(struct call *c)
{
    c->mla.max_seqlen_k = -1;
}
static void mla_format(struct call *c)
{
    c->mla.format = (rfg_mla_format)-1;
}
static void mla_size_negative(struct call *c)
{
    c->mla.cp_size = -1;
}
static void mla_rank_beyond(struct call *c)
{
    c->mla.cp_rank = 1;
}
static void mla_ranks_many(struct call *c)
{
    c->mla.cp_size = 1 << 16, c->mla.cp_interleave = 1 << 15;
}
static const struct wrong mla_wrongs[] = {
    { "scale", mla_scale_none },           { "scale", mla_scale_nan },    { "soft_cap", mla_cap_negative },
    { "max_seqlen_k", mla_most_negative }, { "format", mla_format },      { "cp_size", mla_size_negative },
    { "cp_rank", mla_rank_beyond },        { "cp_size", mla_ranks_many }, { NULL, NULL }
};

/* kv, latent, k_rope, slots, norm, cos_sin, positions, q_out, q, kv_scale */
static rfg_status mla_append(const struct call *c)
{
    rfg_mla_append_params p = c->mla_append;
    p.norm = c->t[4], p.cos_sin = c->t[5], p.positions = c->t[6], p.q_out = c->t[7], p.q = c->t[8];
    p.kv_scale = c->t[9];
    return rfg_op_mla_append(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}
static void mla_append_eps_nan(struct call *c)
{
    c->mla_append.eps = NAN;
}
static void mla_append_eps_subnormal(struct call *c)
{
    c->mla_append.eps = 0x1p-127f;
}
static void mla_append_format(struct call *c)
{
    c->mla_append.format = (rfg_mla_format)3;
}
static void mla_append_reserved(struct call *c)
{
    c->mla_append.reserved = 1;
}
static const struct wrong mla_append_wrongs[] = { { "eps", mla_append_eps_nan },
                                                  { "eps", mla_append_eps_subnormal },
                                                  { "format", mla_append_format },
                                                  { "reserved", mla_append_reserved },
                                                  { NULL, NULL } };

/* rows, kv, cu_seqlens, block_table, first, kv_scale */
static rfg_status mla_gather(const struct call *c)
{
    rfg_mla_gather_params p = c->mla_gather;
    p.block_table = c->t[3], p.first = c->t[4], p.kv_scale = c->t[5];
    return rfg_op_mla_gather(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
/* rows, kv, cu_seqlens, kv_indptr, kv_indices */
static rfg_status mla_gather_indices(const struct call *c)
{
    rfg_mla_gather_params p = c->mla_gather;
    p.kv_indptr = c->t[3], p.kv_indices = c->t[4];
    return rfg_op_mla_gather(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static void mla_gather_format(struct call *c)
{
    c->mla_gather.format = (rfg_mla_format)7;
}
static void mla_gather_reserved(struct call *c)
{
    c->mla_gather.reserved = 1;
}
static const struct wrong mla_gather_wrongs[] = { { "format", mla_gather_format },
                                                  { "reserved", mla_gather_reserved },
                                                  { NULL, NULL } };

/* clang-format off */
#define MLA_FORMS \
    { "rfg_op_mla_gather", "mla_gather", "codes", mla_gather, .wrongs = mla_gather_wrongs, .n = 6, \
      .args = { { "rows", T2(B, 7, 96), ARG_OUT, 1u << RFG_F16, .sizes = 1 }, \
                { "kv", T3(RFG_E4M3, 2, 4, 96), 0, 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2, .sizes = 1 }, \
                { "cu_seqlens", T1(RFG_I32, 3), 0, .values = { 0, 3, 7 } }, \
                { "block_table", T2(RFG_I32, 2, 2), ARG_OPTIONAL, .sizes = 2, .values = { 0, 1, 1, 0 } }, \
                { "first", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 1, 0 } }, \
                { "kv_scale", T1(RFG_F32, 1), ARG_OPTIONAL } } }, \
    { "rfg_op_mla_gather", "mla_gather", "indices", mla_gather_indices, .wrongs = mla_gather_wrongs, .n = 5, \
      .args = { { "rows", T2(B, 7, 96), ARG_OUT, .sizes = 1 }, \
                { "kv", T4(B, 3, 4, 1, 96), 0, 1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2, .sizes = 1 }, \
                { "cu_seqlens", T1(RFG_I32, 3), 0, .values = { 0, 3, 7 } }, \
                { "kv_indptr", T1(RFG_I32, 3), 0, .values = { 0, 1, 3 } }, \
                { "kv_indices", T1(RFG_I32, 3), 0, .sizes = 1, .values = { 2, 0, 1 } } } }, \
    { "rfg_op_mla_append", "mla_append", "codes", mla_append, .call = { .mla_append = { .eps = 1e-6f } }, \
      .wrongs = mla_append_wrongs, .n = 10, \
      .args = { { "kv", T3(RFG_E4M3, 2, 4, 96), ARG_OUT, 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2, .sizes = 1 }, \
                { "latent", T2(B, 3, 64), 0 }, \
                { "k_rope", T2(B, 3, 32), 0 }, \
                { "slots", T1(RFG_I64, 3), 0 }, \
                { "norm", T1(B, 64), 0, 1u << RFG_F32 }, \
                { "cos_sin", T2(RFG_F32, 8, 32), 0, 1u << B, .sizes = 1 }, \
                { "positions", T1(RFG_I32, 3), 0, 1u << RFG_I64, .values = { 1, 0, 7 } }, \
                { "q_out", T3(B, 3, 4, 32), ARG_OUT | ARG_SAME_AS_NEXT }, \
                { "q", T3(B, 3, 4, 32), 0 }, \
                { "kv_scale", T1(RFG_F32, 1), ARG_OPTIONAL } } }, \
    { "rfg_op_mla_decode", "mla_decode", "paged", mla_paged, .call = { .mla = { .scale = 0.1f } }, .wrongs = mla_wrongs, \
      .n = 8, \
      .args = { { "out", T4(B, 2, 3, 4, 64), ARG_OUT }, \
                { "q", T4(B, 2, 3, 4, 96), 0 }, \
                { "kv", T3(RFG_E4M3, 2, 16, 96), 0, 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2, .sizes = 1 }, \
                { "block_table", T2(RFG_I32, 2, 2), ARG_OPTIONAL, .sizes = 2, .values = { 0, 1, 1, 0 } }, \
                { "kv_lens", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 5, 9 } }, \
                { "lse", T3(RFG_F32, 2, 4, 3), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE }, \
                { "sinks", T1(RFG_F32, 4), ARG_OPTIONAL, 1u << B }, \
                { "kv_scale", T1(RFG_F32, 1), ARG_OPTIONAL } } }, \
    { "rfg_op_mla_decode", "mla_decode", "indices", mla_indices, \
      .call = { .mla = { .scale = 0.1f, .causal = 1 } }, .wrongs = mla_wrongs, .n = 8, \
      .args = { { "out", T3(B, 2, 4, 64), ARG_OUT }, \
                { "q", T3(B, 2, 4, 64), 0 }, \
                { "kv", T4(B, 3, 8, 1, 128), 0, 1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2, .sizes = 1 }, \
                { "q_rope", T3(B, 2, 4, 64), 0 }, \
                { "kv_indptr", T1(RFG_I32, 3), 0, .values = { 0, 1, 3 } }, \
                { "kv_indices", T1(RFG_I32, 3), 0, .sizes = 1, .values = { 2, 0, 1 } }, \
                { "lse", T2(RFG_F32, 2, 4), ARG_OUT | ARG_OPTIONAL | ARG_ANY_STRIDE }, \
                { "q_positions", T1(RFG_I32, 2), ARG_OPTIONAL, .values = { 3, 9 } } } }
/* clang-format on */
