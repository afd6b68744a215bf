/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of advance, and what may be wrong with its params: kv_lens, positions, slots, block_table,
 * accepted, active, spare, spare_count. */
static rfg_status advance(const struct call *c)
{
    rfg_advance_params p = c->advance;
    p.slots = p.slots ? p.slots : c->t[2];
    p.block_table = c->t[3];
    p.accepted = c->t[4];
    p.active = c->t[5];
    p.spare = p.spare ? p.spare : c->t[6];
    p.spare_count = c->t[7];
    return rfg_op_advance(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}
static rfg_tensor two_longs = { &two_longs, RFG_I64, 1, { 3 }, { 1 } };
#define SPOIL_ADVANCE(name, member, value)                                                                             \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->advance.member = value;                                                                                     \
    }
SPOIL_ADVANCE(advance_page_none, page, 0)
SPOIL_ADVANCE(advance_page_negative, page, -4)
SPOIL_ADVANCE(advance_page_large, page, INT64_C(1) << 21)
SPOIL_ADVANCE(advance_slots_alone, slots, &two_longs)
SPOIL_ADVANCE(advance_spare_alone, spare, &two_longs)
static const struct wrong advance_wrongs[] = {
    { "page", advance_page_none }, { "page", advance_page_negative }, { "page", advance_page_large }, { NULL, NULL }
};
static const struct wrong advance_plain_wrongs[] = { { "block_table", advance_page_large },
                                                     { "block_table", advance_slots_alone },
                                                     { "block_table", advance_spare_alone },
                                                     { NULL, NULL } };
