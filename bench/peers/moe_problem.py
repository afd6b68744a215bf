# SPDX-License-Identifier: MIT
"""The problems of moe_peers.py: weights of a mixture of experts in one of the forms, tokens and their routing, and the right answer in fp64."""

import math

import torch

import race
import rfg

# H, I, local experts, experts of a token; how rfg_op_moe_route() chooses them
MODELS = {
    "dsv3": (7168, 2048, 32, 8, dict(scoring=2, groups=8, topk_groups=4, renormalise=1, scale=2.5)),
    "gptoss": (2880, 2880, 128, 4, dict(scoring=1)),
    "qwen3": (4096, 1536, 128, 8, dict(scoring=0, renormalise=1)),
}
SCORES = ("softmax", "topk_softmax", "sigmoid", "sqrt_softplus")
FORMS = ("bf16", "fp8", "mxfp4")
# |got - exact| / |exact|: two or three roundings to bf16 are 0.004; codes of x and of what is between 0.026 each
ERRORS = {"bf16": 0.01, "mxfp4": 0.01, "fp8": 0.06}
BLOCK, GROUP = 128, 32
SAMPLE = 64  # tokens that are compared
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def blocks(n):
    return -(-n // BLOCK)


INTERLEAVED = 1  # RFG_GATES_INTERLEAVED


def in_turns(w, experts):
    """Rows of gate and up in turn, of halves [E,2I,...]."""
    half = w.shape[1] // 2
    return w.view(experts, 2, half, -1).transpose(1, 2).reshape(w.shape)


class Described:
    def __init__(self, model, form):
        self.model, self.form = model, form
        self.hidden, self.inner, self.experts, self.top, self.route = MODELS[model]


class Weights(Described):
    """w1 [E,2I,H], gate's rows first, w2 [E,H,I] and their scales, as the peers take them; ours: as rfg does."""

    def __init__(self, model, form):
        super().__init__(model, form)
        self.generator = torch.Generator(device=race.DEV).manual_seed(1)
        self.s1 = self.s2 = None
        e, h, i = self.experts, self.hidden, self.inner
        make = getattr(self, form)
        self.w1, self.s1 = make(e, 2 * i, h)
        self.w2, self.s2 = make(e, h, i)
        self.expert_bytes = sum(t.numel() * t.element_size() for t in (self.w1, self.w2, self.s1, self.s2) if t is not None) // e

    def bf16(self, e, n, k):
        w = torch.empty(e, n, k, device=race.DEV, dtype=torch.bfloat16)
        return w.normal_(std=k**-0.5, generator=self.generator), None

    def fp8(self, e, n, k):
        w = torch.empty(e, n, k, device=race.DEV, dtype=torch.float8_e4m3fn)
        for one in w:
            one.copy_(torch.empty(n, k, device=race.DEV, dtype=torch.bfloat16).normal_(generator=self.generator))
        s = torch.rand(e, blocks(n), blocks(k), device=race.DEV, generator=self.generator) + 0.5
        return w, s * k**-0.5

    def mxfp4(self, e, n, k):
        w = torch.randint(0, 256, (e, n, k // 2), device=race.DEV, dtype=torch.uint8, generator=self.generator)
        about = 127 + round(math.log2(k**-0.5 / 2.9))
        s = torch.randint(about - 1, about + 1, (e, n, k // GROUP), device=race.DEV, dtype=torch.uint8, generator=self.generator)
        return w, s

    def exact(self, w, s, e):
        """Expert e's, in fp64."""
        if self.form == "bf16":
            return w[e].double()
        if self.form == "fp8":
            n, k = w.shape[1:]
            return w[e].double() * s[e].double().repeat_interleave(BLOCK, 0)[:n].repeat_interleave(BLOCK, 1)[:, :k]
        values = torch.tensor(E2M1 + tuple(-v for v in E2M1), device=race.DEV, dtype=torch.double)
        both = torch.stack((w[e] & 15, w[e] >> 4), 2).flatten(1).long()
        return values[both] * torch.exp2(s[e].double() - 127).repeat_interleave(GROUP, 1)

    def ours(self, ctx, fast=False):
        """(w1, w2, params of rfg_op_moe): rows of gate and up in turn, of mxfp4 prepacked; fp8's
        blocks can't be mixed."""
        e = self.experts
        if self.form == "fp8":
            return self.w1, self.w2, dict(w1_scale=self.s1, w2_scale=self.s2, x_per=2, w_per=2, fast_accum=int(fast))
        w1 = in_turns(self.w1, e)
        if self.form == "bf16":
            return w1, self.w2, {"gates": INTERLEAVED}
        made = {"experts": e, "gates": INTERLEAVED}
        out = []
        for name, w, s in (("w1_scale", w1, in_turns(self.s1, e)), ("w2_scale", self.w2, self.s2)):
            n, k = w.shape[1], 2 * w.shape[2]
            s = s.reshape(e * n, k // GROUP).view(torch.float8_e8m0fnu)
            w = w.reshape(e * n, k // 2)
            cols = -(-k // 128) * 128
            packed = rfg.Fp4(torch.empty(e * n, cols // 2, device=race.DEV, dtype=torch.uint8), True)
            scales = torch.empty(e * n // 16, cols // GROUP, 16, device=race.DEV, dtype=torch.uint8).view(torch.float8_e8m0fnu)
            ctx.prepack(packed, rfg.Fp4(w))
            ctx.prepack(scales, s)
            made[name] = scales
            out.append(packed)
        torch.cuda.synchronize() if race.DEV == "cuda" else None
        return out[0], out[1], made


def route(logits, top, scoring, groups=1, topk_groups=1, renormalise=0, scale=1.0, bias=None):
    """rfg_op_moe_route()'s formula: ids, weights."""
    if scoring == 1:
        found = logits.topk(top, 1)
        return found.indices.int(), found.values.softmax(1).float()
    score = logits.softmax(1) if scoring == 0 else logits.sigmoid()
    choice = score + bias if bias is not None else score
    if groups > 1:
        of = choice.view(len(logits), groups, -1)
        best = of.topk(2, 2).values.sum(2) if bias is not None else of.amax(2)
        kept = torch.zeros_like(best).scatter_(1, best.topk(topk_groups, 1).indices, 1.0)
        choice = torch.where(kept[:, :, None] > 0, of, -math.inf).flatten(1)
    ids = choice.topk(top, 1).indices
    weights = score.gather(1, ids)
    if renormalise:
        weights = weights / weights.sum(1, keepdim=True)
    return ids.int(), (weights * scale).float()


class Problem:
    """T tokens. Sets: of logits, ids, weights and x; each has a routing of its own, so that one after the other reads
    experts that are not in the L2."""

    def __init__(self, weights, routing, tokens):
        self.w, self.routing, self.tokens = weights, routing, tokens
        self.text = "moe %s %s T=%d routing=%s" % (weights.model, weights.form, tokens, routing)

    def logits(self, rows, experts, generator):
        """By Gumbel's noise the largest k are k different ones, drawn by their probability."""
        noise = -torch.log(-torch.log(torch.rand(rows, experts, device=race.DEV, generator=generator).clamp(1e-6, 1 - 1e-6)))
        if self.routing == "zipf":
            ranks = torch.randperm(experts, device=race.DEV, generator=generator) + 1
            noise = noise - torch.log(ranks.float())
        return noise

    def allocate(self, bench):
        w, t = self.w, self.tokens
        g = torch.Generator(device=race.DEV).manual_seed(2)
        touched = min(w.experts, t * w.top) * w.expert_bytes // 2
        s = self.n_sets = max(4, bench.sets(touched))
        self.n_calls = max(s, 20 if t <= 64 else 8 if t <= 1024 else 4)
        self.bias = torch.zeros(w.experts, device=race.DEV) if w.model == "dsv3" else None
        self.x = torch.randn(s, t, w.hidden, device=race.DEV, generator=g).bfloat16()
        self.y = torch.empty(s, t, w.hidden, device=race.DEV, dtype=torch.bfloat16)
        self.l = torch.stack([self.logits(t, w.experts, g) for _ in range(s)])
        made = [route(l.double(), w.top, bias=self.bias, **w.route) for l in self.l]
        self.ids = torch.stack([ids for ids, _ in made])
        self.weights = torch.stack([weights for _, weights in made])
        self.touched = sum(ids.unique().numel() for ids in self.ids) / s
        self.bytes = self.touched * w.expert_bytes
        self.sample = torch.arange(0, t, max(1, t // SAMPLE), device=race.DEV)[:SAMPLE]
        self.right = self.reference()

    def reference(self):
        """Of the sampled tokens of set 0."""
        w, rows = self.w, self.sample
        ids, weights, x = self.ids[0][rows], self.weights[0][rows].double(), self.x[0][rows].double()
        y = torch.zeros(len(rows), w.hidden, device=race.DEV, dtype=torch.double)
        for e in ids.unique().tolist():
            t, j = (ids == e).nonzero(as_tuple=True)
            gate, up = (x[t] @ w.exact(w.w1, w.s1, e).t()).chunk(2, 1)
            h = gate * gate.sigmoid() * up
            y.index_add_(0, t, weights[t, j, None] * (h @ w.exact(w.w2, w.s2, e).t()))
        return y

    def error(self, y):
        """Of y, set 0's, over all sampled tokens."""
        return ((y[self.sample].double() - self.right).norm() / self.right.norm()).item()


def parts_of(w, t, routing="uniform", fast=False):
    """{part: problem string} of rfg's operators."""
    r, e, k = w.route, w.experts, w.top
    words = "T=%d E=%d top=%d score=%s" % (t, e, k, SCORES[r["scoring"]])
    if w.model == "dsv3":
        words += " bias=1 groups=%d top_groups=%d" % (r["groups"], r["topk_groups"])
    words += " renorm=1" if r.get("renormalise") else ""
    said = " experts=%d" % e
    routed = "" if routing == "uniform" else " routing=" + routing
    blocks_ = " x_scale=f32 w_scale=f32 x_per=block w_per=block" + (" fast=1" if fast else "")
    dtypes, one, two = {
        "bf16": ("bf16,bf16->bf16", " gates=interleaved", ""),
        "fp8": ("e4m3,e4m3->bf16", blocks_, blocks_),
        "mxfp4": ("bf16,e2m1->bf16", " gates=interleaved w_scale=e8m0 w_group=32 packed=1", " w_scale=e8m0 w_group=32 packed=1"),
    }[w.form]  # fmt: skip
    out = {
        "route": "moe_route f32->f32 " + words,
        "align": "moe_align i32->i32 T=%d top=%d E=%d weights=1 places=1" % (t, k, e),
        "gemm1": "gemm %s M=%d N=%d K=%d act=silu%s%s top=%d%s" % (dtypes, t * k, 2 * w.inner, w.hidden, one, said, k, routed),
        "gemm2": "gemm %s M=%d N=%d K=%d%s%s weights=1%s" % (dtypes, t * k, w.hidden, w.inner, two, said, routed),
        "sum": "moe_sum bf16->bf16 T=%d N=%d top=%d" % (t, w.hidden, k),
    }
    if w.form == "fp8":
        for name, m, n in (("quantize1", t, w.hidden), ("quantize2", t * k, w.inner)):
            out[name] = "quantize bf16->e4m3,f32 M=%d N=%d group_rows=1 group_cols=128" % (m, n)
    return out
