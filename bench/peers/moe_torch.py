# SPDX-License-Identifier: MIT
"""PyTorch's grouped_mm for moe_peers.py: between rfg's other operators, and with nothing but PyTorch's."""

import torch

import race


def open(args):
    grouped_mm()


def grouped_mm():
    return getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm


def calls(bench, p, ctx, args):
    w = p.w
    if w.form != "bf16":
        return {}
    mm = grouped_mm()
    w1, w2 = w.w1.transpose(1, 2), w.w2.transpose(1, 2)
    n, k = p.tokens * w.top, w.top

    def new(dtype, *shape):
        return torch.empty(*shape, device=race.DEV, dtype=dtype)

    rows, offsets, places = new(torch.int32, n), new(torch.int32, w.experts + 1), new(torch.int32, p.tokens, k)
    h = new(torch.bfloat16, n, w.inner)

    def around(i):
        ctx.moe_align(rows, p.ids[i], experts=w.experts, offsets=offsets, places=places)()
        up = mm(p.x[i].index_select(0, rows), w1, offs=offsets[1:])
        ctx.act_and_mul(h, up, "silu")()
        out = mm(h, w2, offs=offsets[1:])
        ctx.moe_sum(p.y[i], out, places, weights=p.weights[i])()

    experts = torch.arange(w.experts, device=race.DEV, dtype=torch.int32)

    def eager(i):
        flat = p.ids[i].flatten()
        expert, order = flat.sort(stable=True)
        offs = torch.searchsorted(expert, experts, right=True).int()
        up = mm(p.x[i].index_select(0, order // k), w1, offs=offs)
        gate, up = up.chunk(2, 1)
        out = mm(torch.nn.functional.silu(gate) * up, w2, offs=offs)
        out = torch.empty_like(out).index_copy_(0, order, out).view(p.tokens, k, w.hidden)
        return (out.float() * p.weights[i][:, :, None]).sum(1).bfloat16()

    return {"torch": around, "torch eager": eager}
