# SPDX-License-Identifier: MIT
"""humming-kernels' products of mxfp4 by bf16 for moe_peers.py, indexed (rows gathered on the way, as vLLM calls it on
GPUs before Hopper) and grouped (rows gathered ahead, as on Hopper), as its heuristics have them; the rest are rfg's
operators."""

import json

import torch

import race

layers = {}  # of the weights that were asked for last


def open(args):
    import humming.layer  # noqa: F401


def layer_of(w):
    """Its two layers; w stays as it is."""
    from humming.layer import HummingLayer

    if layers.get("of") is not w:
        layers.clear()
        for name, n, k, codes, scale in (("w1", 2 * w.inner, w.hidden, w.w1, w.s1), ("w2", w.hidden, w.inner, w.w2, w.s2)):
            config = {"dtype": "float4e2m1", "scale_dtype": "float8e8m0", "group_size": 32}
            layer = HummingLayer(n, k, config, num_experts=w.experts, torch_dtype=torch.bfloat16).cuda()
            layer.load_from_tensors({"weight": codes.view(torch.int32), "weight_scale": scale.view(torch.float8_e8m0fnu)})
            layer.transform()
            layers[name] = layer
        layers["of"] = w
    return layers["w1"], layers["w2"]


def contestant(p, ctx, kind):
    from humming.config import GemmType
    from humming.layer import HummingMethod

    w, t, k, n, e = p.w, p.tokens, p.w.top, p.tokens * p.w.top, p.w.experts
    two = layer_of(w)
    gemm_type = GemmType(kind)
    tuning = [HummingMethod.get_default_tuning_configs(layer, gemm_type=gemm_type) for layer in two]
    more = [
        dict(
            compute_config=json.dumps({"gemm_type": gemm_type.value, "use_batch_invariant": False, "use_f16_accum": False}),
            tuning_config=json.dumps(c),
            valid_shape_m=n,
        )
        for c in tuning
    ]

    def new(dtype, *shape):
        return torch.empty(*shape, device=race.DEV, dtype=dtype)

    up, h, out = new(torch.bfloat16, n, 2 * w.inner), new(torch.bfloat16, n, w.inner), new(torch.bfloat16, n, w.hidden)
    if gemm_type == GemmType.INDEXED:
        block = next(c["block_shape"][0] for least, most, c in tuning[0] if least < n <= most)
        rows = (n + min(e, n) * (block - 1)) // block * block
        sorted_ids, blocks, count = new(torch.int32, rows), new(torch.int32, -(-rows // block)), new(torch.int32, 1)
        places = torch.arange(n, device=race.DEV, dtype=torch.int32).view(t, k)
        for i, m in enumerate(more):
            m.update(sorted_ids=sorted_ids, expert_ids=blocks, num_tokens_padded=count, top_k=1 if i else k)
    else:
        rows, offsets, places = new(torch.int32, n), new(torch.int32, e + 1), new(torch.int32, t, k)
        for m in more:
            m.update(expert_layout=offsets)

    def call(i):
        if gemm_type == GemmType.INDEXED:
            ctx.moe_align(sorted_ids, p.ids[i], format=1, block=block, experts=e, block_experts=blocks, count=count)()
            x = p.x[i]
        else:
            ctx.moe_align(rows, p.ids[i], experts=e, offsets=offsets, places=places)()
            x = p.x[i].index_select(0, rows)
        HummingMethod.forward_layer(two[0], x, outputs=up, **more[0])
        ctx.act_and_mul(h, up, "silu")()
        HummingMethod.forward_layer(two[1], h, outputs=out, **more[1])
        ctx.moe_sum(p.y[i], out, places, weights=p.weights[i])()

    return call


def calls(bench, p, ctx, args):
    if p.w.form != "mxfp4":
        layers.clear()
        return {}
    out = {}
    for kind in ("indexed", "grouped_contiguous"):
        name = "humming" if kind == "indexed" else "humming grouped"
        call = race.attempt("%s, %s" % (p.text, name), lambda: contestant(p, ctx, kind))
        if call:
            out[name] = call
    return out
