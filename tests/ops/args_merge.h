/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: a call of merge_states: out, o, lse, lse_out. */
static rfg_status merge_states(const struct call *c)
{
    rfg_merge_states_params p = { .lse_out = c->t[3] };
    return rfg_op_merge_states(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
