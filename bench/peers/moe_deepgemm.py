# SPDX-License-Identifier: MIT
"""DeepGEMM's grouped products for moe_peers.py: of rows in segments of whole blocks (contiguous) and, for few tokens,
of as many rows for each expert (masked); the rest are rfg's operators."""

import torch

import race

MASKED = 4096  # rows of all experts, at most
deep_gemm = None


def open(args):
    global deep_gemm
    import deep_gemm as found

    deep_gemm = found


def contestant(p, ctx, masked):
    w, t, k, n, e = p.w, p.tokens, p.w.top, p.tokens * p.w.top, p.w.experts
    fp8 = w.form == "fp8"

    def new(dtype, *shape):
        return torch.zeros(*shape, device=race.DEV, dtype=dtype)

    if masked:
        each = -(-t // 4) * 4
        rows, count, m = new(torch.int32, e, each), new(torch.int32, e), e * each
        sort = dict(format=4, experts=e, count=count)
    else:
        block = deep_gemm.get_mk_alignment_for_contiguous_layout()
        m = (n + min(e, n) * (block - 1)) // block * block
        rows, of_rows = new(torch.int32, m), new(torch.int32, m)
        sort = dict(format=3, block=block, experts=e, block_experts=of_rows)
    places = new(torch.int32, t, k)
    up, h, out = new(torch.bfloat16, m, 2 * w.inner), new(torch.bfloat16, m, w.inner), new(torch.bfloat16, m, w.hidden)
    if fp8:
        xq, hq = new(torch.float8_e4m3fn, m, w.hidden), new(torch.float8_e4m3fn, m, w.inner)
        # by columns, as its kernels take them; of each expert's rows it makes that itself
        xs, hs = new(torch.float32, w.s1.shape[2], m).t(), new(torch.float32, w.s2.shape[2], m).t()
        if masked:
            xs, hs = xs.contiguous(), hs.contiguous()

    def multiply(x, scale, weights, w_scale, to):
        if masked:
            x, to, scale = x.view(e, each, -1), to.view(e, each, -1), scale.view(e, each, -1) if fp8 else None
            more = (count, max(1, -(-n // e)))
            if fp8:
                deep_gemm.fp8_m_grouped_gemm_nt_masked((x, scale), (weights, w_scale), to, *more)
            else:
                deep_gemm.m_grouped_bf16_gemm_nt_masked(x, weights, to, *more)
        elif fp8:
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous((x, scale), (weights, w_scale), to, of_rows)
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(x, weights, to, of_rows)

    def codes(q, scale, x):
        if fp8:
            ctx.quantize(q, scale, x, group_rows=1, group_cols=128)()
            return q, scale
        return x, None

    def call(i):
        ctx.moe_align(rows, p.ids[i], places=places, **sort)()
        x = p.x[i].index_select(0, rows.flatten() if masked else rows.clamp_min(0))
        multiply(*codes(xq if fp8 else None, xs if fp8 else None, x), w.w1, w.s1, up)
        ctx.act_and_mul(h, up, "silu")()
        multiply(*codes(hq if fp8 else None, hs if fp8 else None, h), w.w2, w.s2, out)
        ctx.moe_sum(p.y[i], out, places, weights=p.weights[i])()

    return call


def calls(bench, p, ctx, args):
    if p.w.form not in ("bf16", "fp8"):
        return {}
    out = {"deepgemm": contestant(p, ctx, False)}
    if p.w.experts * p.tokens <= MASKED:
        out["deepgemm masked"] = contestant(p, ctx, True)
    return out
