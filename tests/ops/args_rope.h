/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of rope, kv_append and rope_append. */
/* q_out, q, k_out, k, cos_sin, positions */
static rfg_status rope(const struct call *c)
{
    rfg_rope_params p = c->rope;
    return rfg_op_rope(c->ctx, c->t[0], c->t[2], c->t[1], c->t[3], c->t[4], c->t[5], PARAMS(p), c->stream);
}
static void section_negative(struct call *c)
{
    c->rope.sections[0] += 3;
    c->rope.sections[1] -= 3;
}
static void sections_short(struct call *c)
{
    c->rope.sections[1]--;
}
static void offset_negative(struct call *c)
{
    c->rope.offset = -1;
}
static void offset_beyond(struct call *c)
{
    c->rope.offset = 9;
}
static void offset_of_last(struct call *c)
{
    c->rope.last = 1;
    c->rope.offset = 8;
}
static void rope_reserved(struct call *c)
{
    c->rope.reserved = 1;
}
static const struct wrong rope_wrongs[] = { { "offset", offset_negative },
                                            { "offset is 9: must be from 0 to 8, D less cos_sin's columns",
                                              offset_beyond },
                                            { "offset is 8: must be 0 with last", offset_of_last },
                                            { "reserved", rope_reserved },
                                            { NULL, NULL } };
static const struct wrong axes_wrongs[] = { { "sections", section_negative },
                                            { "sections", sections_short },
                                            { NULL, NULL } };

/* k_cache, v_cache, k, v, slots, k_scale, v_scale */
static rfg_status kv_append(const struct call *c)
{
    rfg_kv_append_params p = { .k_scale = c->t[5], .v_scale = c->t[6] };
    return rfg_op_kv_append(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], c->t[4], PARAMS(p), c->stream);
}

/* q_out, q, k_cache, v_cache, k, v, cos_sin, positions, slots, q_norm, k_norm, k_scale, v_scale */
static rfg_status rope_append(const struct call *c)
{
    rfg_rope_append_params p = c->rope_append;
    p.q_norm = c->t[9], p.k_norm = c->t[10], p.k_scale = c->t[11], p.v_scale = c->t[12];
    return rfg_op_rope_append(c->ctx, c->t[0], c->t[2], c->t[3], c->t[1], c->t[4], c->t[5], c->t[6], c->t[7], c->t[8],
                              PARAMS(p), c->stream);
}
static void append_eps_nan(struct call *c)
{
    c->rope_append.eps = NAN;
}
static void append_eps_negative(struct call *c)
{
    c->rope_append.eps = -1;
}
static void append_eps_subnormal(struct call *c)
{
    c->rope_append.eps = 0x1p-127f;
}
static void rope_without_size(struct call *c)
{
    static const rfg_rope_params none;
    c->rope_append.rope = &none;
}
static const struct wrong append_wrongs[] = { { "eps", append_eps_nan },
                                              { "eps", append_eps_negative },
                                              { "eps", append_eps_subnormal },
                                              { "rope", rope_without_size },
                                              { NULL, NULL } };
