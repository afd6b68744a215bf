/* SPDX-License-Identifier: MIT
 *
 * Part of test_args.c. */
/* Joined weights: tests/ops/test_pack.c has the rest. */
static void packs(void)
{
    rfg_context *ctx = open_cpu();
    uint16_t to[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, from[8] = { 0 };
    rfg_tensor dst = rfg_tensor_2d(to, RFG_BF16, 2, 4, 4), all = rfg_tensor_2d(from, RFG_BF16, 2, 4, 4);
    rfg_tensor one = rfg_tensor_2d(from, RFG_BF16, 1, 4, 4), none = rfg_tensor_2d(from, RFG_BF16, 0, 4, 4);
    refused(rfg_pack_qkv(NULL, &dst, &one, &one, &none, NULL), INVALID, "rfg_pack_qkv", "ctx");
    refused(rfg_pack_qkv(ctx, NULL, &one, &one, &none, NULL), INVALID, "rfg_pack_qkv", "dst");
    refused(rfg_pack_qkv(ctx, &dst, &one, &one, &one, NULL), INVALID, "rfg_pack_qkv", "dst");
    refused(rfg_pack_qkv(ctx, &dst, &one, &one, &none, ctx), INVALID, "", "stream");
    refused(rfg_pack_gate_up(NULL, &dst, &one, &one, RFG_GATES_HALVES, NULL), INVALID, "rfg_pack_gate_up", "ctx");
    refused(rfg_pack_gate_up(ctx, &dst, &all, &one, RFG_GATES_HALVES, NULL), INVALID, "rfg_pack_gate_up", "dst");
    refused(rfg_pack_gate_up(ctx, &dst, &all, &none, RFG_GATES_INTERLEAVED, NULL), INVALID, "rfg_pack_gate_up", "gate");
    refused(rfg_pack_gate_up(ctx, &dst, &one, &one, (rfg_gates)-1, NULL), INVALID, "rfg_pack_gate_up", "gates");
    refused(rfg_pack_fnuz(NULL, &dst, &all, NULL, NULL, NULL), INVALID, "rfg_pack_fnuz", "ctx");
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(to[i], i + 1);
    rfg_context_destroy(&ctx);
}
