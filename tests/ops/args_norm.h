/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of norms and activations, and what may be wrong with their params and rfg_quant. */
/* ---- norms: y, q, scale, residual_out, x, residual, weight, bias; those an operator lacks are left out ---------- */

static rfg_status rmsnorm(const struct call *c)
{
    rfg_norm_params p = c->norm;
    return rfg_op_rmsnorm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status rmsnorm_quant(const struct call *c)
{
    rfg_quant q = { 0, c->kind, c->rounding, c->t[2], c->t[3] };
    rfg_norm_params p = c->norm;
    p.quant = QUANT(q);
    return rfg_op_rmsnorm(c->ctx, c->t[0], c->t[1], c->t[4], PARAMS(p), c->stream);
}

static rfg_status layernorm(const struct call *c)
{
    rfg_norm_params p = c->norm;
    p.bias = c->t[3];
    return rfg_op_layernorm(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}

static rfg_status add_rmsnorm(const struct call *c)
{
    rfg_quant q = { 0, c->kind, c->rounding, c->t[4], c->t[5] };
    rfg_norm_params p = c->norm;
    p.quant = QUANT(q);
    return rfg_op_add_rmsnorm(c->ctx, c->t[0], c->t[2], c->t[1], c->t[3], c->t[6], PARAMS(p), c->stream);
}

static rfg_status add_layernorm(const struct call *c)
{
    rfg_norm_params p = c->norm;
    p.bias = c->t[5];
    return rfg_op_add_layernorm(c->ctx, c->t[0], c->t[2], c->t[1], c->t[3], c->t[4], PARAMS(p), c->stream);
}

static void eps_nan(struct call *c)
{
    c->norm.eps = NAN;
}
static void eps_inf(struct call *c)
{
    c->norm.eps = INFINITY;
}
static void eps_negative(struct call *c)
{
    c->norm.eps = -1e-30f;
}
static rfg_tensor some_bias = { &some_bias, RFG_BF16, 1, { 20 }, { 1 } };
static void rms_bias(struct call *c)
{
    c->norm.bias = &some_bias;
}
static void kind_0(struct call *c)
{
    c->kind = (rfg_scale_kind)0;
}
static void kind_5(struct call *c)
{
    c->kind = (rfg_scale_kind)5;
}
static void quant_rounding_unknown(struct call *c)
{
    c->rounding = 5;
}
static void quant_rounding_negative(struct call *c)
{
    c->rounding = -1;
}
/* Exact, which powers of two can't be; where scales are no powers of two a rounding. */
static void quant_rounding_wrong(struct call *c)
{
    c->rounding = c->kind == RFG_SCALE_MX ? RFG_SCALE_EXACT : RFG_SCALE_UP;
}
static void kind_negative(struct call *c)
{
    c->kind = (rfg_scale_kind)-1;
}

static const struct wrong norm_wrongs[] = {
    { "eps", eps_nan }, { "eps", eps_inf }, { "eps", eps_negative }, { NULL, NULL }
};
static const struct wrong rmsnorm_wrongs[] = {
    { "eps", eps_nan }, { "eps", eps_inf }, { "eps", eps_negative }, { "bias", rms_bias }, { NULL, NULL }
};
static const struct wrong norm_quant_wrongs[] = {
    { "eps", eps_nan },
    { "bias", rms_bias },
    { "quant", kind_0 },
    { "quant", kind_5 },
    { "quant", kind_negative },
    { "rounding", quant_rounding_unknown },
    { "rounding", quant_rounding_negative },
    { "rounding", quant_rounding_wrong },
    { NULL, NULL },
};

/* ---- activations ------------------------------------------------------------------------------------------------ */

static rfg_status act(const struct call *c)
{
    rfg_act_params p = c->act;
    return rfg_op_act(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}

static rfg_status act_quant(const struct call *c)
{
    rfg_quant q = { 0, c->kind, c->rounding, c->t[2], c->t[3] };
    rfg_act_params p = c->act;
    p.quant = QUANT(q);
    return rfg_op_act(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}

static rfg_status act_and_mul(const struct call *c)
{
    rfg_quant q = { 0, c->kind, c->rounding, c->t[2], c->t[3] };
    rfg_act_params p = c->act;
    p.quant = QUANT(q);
    return rfg_op_act_and_mul(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}

static void act_negative(struct call *c)
{
    c->act.act = (rfg_act)-1;
}
static void act_9(struct call *c)
{
    c->act.act = (rfg_act)9;
}
static void act_swiglu(struct call *c)
{
    c->act.act = RFG_ACT_SWIGLUOAI;
}
static void act_gates(struct call *c)
{
    c->act.gates = RFG_GATES_INTERLEAVED;
}
static void alpha_nan(struct call *c)
{
    c->act.alpha = NAN;
}
static void limit_inf(struct call *c)
{
    c->act.limit = INFINITY;
}
static void limit_negative(struct call *c)
{
    c->act.limit = -1;
}

static const struct wrong mul_wrongs[] = {
    { "act", act_negative },
    { "act", act_9 },
    { "alpha", alpha_nan },
    { "limit", limit_inf },
    { "limit", limit_negative },
    { "quant", kind_0 },
    { "quant", kind_negative },
    { "rounding", quant_rounding_wrong },
    { NULL, NULL },
};
static const struct wrong act_wrongs[] = {
    { "act", act_negative }, { "act", act_9 },       { "act", act_swiglu },
    { "gates", act_gates },  { "alpha", alpha_nan }, { "limit", limit_negative },
    { NULL, NULL },
};
