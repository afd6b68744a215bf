#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a decoder does beside its GEMMs, norms and attention, and its peers: rope_append (norm of q and k, rotation,
write to the cache), argmax and sample, on one NVIDIA GPU with PyTorch and Triton.

    bench/decode_ops_peers.py --lib build/librfg.so [--db tuned.db] [--flashinfer WHEEL] [--json FILE]
    bench/decode_ops_peers.py --device cpu        # no times: is everybody right?

Contestants of a problem run in this process and one stream, captured in graphs of as many calls, each after the one
before it, replayed in turn on cold buffers (peers/race.py). Each one's results are checked first.

  rfg         through ctypes; rfg+ov: with launch_overlap and the database's rows of overlap=1
  compile     torch.compile, max-autotune-no-cudagraphs; eager: torch.argmax as it is
  flashinfer  of a folder with an unpacked flashinfer-python wheel (it builds kernels by nvcc, and needs tvm_ffi).
              rope_append: cake_fused_qk_rope_append, with 64 heads of q beside 8 of k, or 8 beside 1: it has no others.
              sample: top_k_top_p_sampling_from_logits, top_k_first ("joint" takes top-p of the whole vocabulary).
              Its parameters are scalars, which are its fast path; rfg's are a row's own
  cake        sample: FlashInfer's softmax and cake_sampling, scalars too

A sampler is right if each token is one of those that top-k and top-p leave."""

import argparse
import gc
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import rfg  # noqa: E402

import torch  # noqa: E402

import race  # noqa: E402
from race import attempt  # noqa: E402

BF16, F32, D, PAGE, EPS, TOP_K, TOP_P = torch.bfloat16, torch.float32, 128, 16, 1e-6, 50, 0.9
DTYPES = {"bf16": BF16, "f32": F32}


def rope_append(qkv, hq, hkv, table, positions, slots, wq, wk, kc, vc):
    """Writes k and v to rows of the caches, and returns q."""
    q, key, v = qkv.split((hq, hkv, hkv), 1)
    c, s = table[positions].unsqueeze(1).chunk(2, -1)

    def turned(x, w):
        x = x.float()
        a, b = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * w).chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    kc.index_copy_(0, slots, turned(key, wk).to(kc.dtype))
    vc.index_copy_(0, slots, v.to(vc.dtype))
    return turned(q, wq).to(kc.dtype)


def argmax(x):
    return x.argmax(-1)


def left(logits):
    """The tokens that top-k and top-p leave, and their shares; 0 of the others."""
    values, tokens = torch.topk(logits, TOP_K)
    p = values.float().softmax(-1)
    return tokens, torch.where(p.cumsum(-1) - p < TOP_P, p, 0)


def sample(logits, u):
    tokens, p = left(logits)
    sums = p.cumsum(-1)
    at = (sums <= u * sums[:, -1:]).sum(-1, keepdim=True).clamp(max=TOP_K - 1)
    return tokens.gather(-1, at).squeeze(-1)


class Problem:
    """n_sets of buffers. A contestant: name -> call of a set, which returns what it wrote of it."""

    def __init__(self, text, n_bytes):
        self.text, self.bytes = text, n_bytes

    def allocate(self, bench):
        self.n_sets = bench.sets(self.bytes // 2) if bench else 2
        self.n_calls = bench.calls(self.n_sets, self.bytes) if bench else 2
        self.fill(range(self.n_sets), lambda *s, dtype=BF16: torch.randn(*s, device=race.DEV, dtype=dtype))

    def peers(self):
        """FlashInfer's contestants: {name: what makes its call}."""
        return {"flashinfer": self.flashinfer}


class RopeAppend(Problem):
    def __init__(self, t, hq, hkv):
        self.t, self.hq, self.hkv = t, hq, hkv
        text = "rope_append bf16,i64->bf16 T=%d D=%d Hq=%d Hkv=%d page=%d norm=w table=f32"
        super().__init__(text % (t, D, hq, hkv, PAGE), t * (4 * D * (hq + 2 * hkv) + 4 * D + 16))

    def fill(self, sets, random):
        """Decoding: a request a token, each in a page of its own; from 1024 tokens on one request's first ones."""
        t, one = self.t, self.t >= 1024
        n = {"device": race.DEV}
        self.form, self.args = rope_append, []
        angles = torch.outer(torch.arange(max(t, 4096)), 10000.0 ** -(torch.arange(0, D, 2) / D))
        self.table = torch.cat((angles.cos(), angles.sin()), -1).to(**n)
        self.weights = [(torch.rand(D) + 0.5).to(BF16).to(**n) for _ in "qk"]
        pages = (t + PAGE - 1) // PAGE if one else t
        self.positions = torch.arange(t, **n) if one else torch.randint(0, 4096, (t,), **n)
        self.page_of = torch.randperm(pages, **n)
        at = self.positions // PAGE if one else torch.arange(t, **n)
        self.slots = self.page_of[at] * PAGE + self.positions % PAGE
        rows = (pages * PAGE, self.hkv, D)
        for _ in sets:
            qkv = random(t, self.hq + 2 * self.hkv, D)
            caches = torch.full((2, *rows), math.nan, dtype=BF16, **n)
            self.args.append([qkv, self.hq, self.hkv, self.table, self.positions, self.slots, *self.weights, *caches])
        self.out = torch.full((len(sets), t, self.hq, D), math.nan, dtype=BF16, **n)

    def rfg(self, ctx):
        calls = []
        for i, a in enumerate(self.args):
            caches = [c.view(-1, PAGE, self.hkv, D) for c in a[8:]]
            q, key, v = a[0].split((self.hq, self.hkv, self.hkv), 1)
            calls.append(ctx.rope_append(self.out[i], *caches, q, key, v, *a[3:8], EPS))
        return lambda i: (calls[i](), self.out[i])[1]

    def flashinfer(self):
        from flashinfer.cake_fused_qk_rope_append import cake_fused_qk_rmsnorm_rope_append_paged_kv_cache as fused

        one, n = self.t >= 1024, {"device": race.DEV, "dtype": torch.int32}
        lens = torch.tensor([self.t], **n) if one else (self.positions + 1).to(torch.int32)
        starts = torch.tensor([0, self.t], **n) if one else torch.arange(self.t + 1, **n)
        table = self.page_of.to(torch.int32)
        table = table[None].contiguous() if one else table[:, None].expand(-1, 4096 // PAGE).contiguous()
        wq, wk = (w.float() for w in self.weights)
        norm = dict(qk_norm_policy=2, q_norm_weight=wq, k_norm_weight=wk, eps=EPS)
        heads = dict(num_q_heads=self.hq, num_kv_heads=self.hkv, clear_unused_last_page_rows=False)

        def call(i):
            qkv, caches = self.args[i][0].view(self.t, -1), self.args[i][8:]
            caches = [c.view(-1, PAGE, self.hkv, D) for c in caches]
            return fused(qkv, self.table, lens, starts, table, *caches, out_q=self.out[i], **norm, **heads)

        return call

    def check(self, call):
        a, slots = self.args[0], self.slots
        want = [x.to(F32) for x in a[8:]]
        want = [rope_append(a[0].float(), *a[1:8], *want)] + [w[slots] for w in want]
        for t in (self.out[0], *a[8:]):
            t.fill_(math.nan)
        got = [call(0)] + [c[slots] for c in a[8:]]
        for name, g, w in zip(("q", "k", "v"), got, want):
            error = ((g.float() - w).norm() / w.norm()).item()
            if not error <= 0.004:  # rounded once to bf16 it is 0.0017
                raise RuntimeError("wrong %s: |got - expected| / |expected| is %.3g, must be <= 0.004" % (name, error))


class Rows(Problem):
    """argmax, sample: of logits [B,V]."""

    def __init__(self, op, dtype, b, v):
        self.op, self.dtype, self.b, self.v = op, DTYPES[dtype], b, v
        self.form = {"argmax": argmax, "sample": sample}[op]
        text = "argmax %s->i64 M=%d V=%d"
        if op == "sample":
            text = "sample %s->i64 B=%d V=%d temperature=1 top_k=1 top_p=1"
        super().__init__(text % (dtype, b, v), self.dtype.itemsize * b * v)

    def fill(self, sets, random):
        self.logits = [3 * random(self.b, self.v, dtype=self.dtype) for _ in sets]
        u = torch.rand(self.b, 1, device=race.DEV)
        self.args = [[x] if self.op == "argmax" else [x, u] for x in self.logits]
        self.y = torch.full((len(sets), self.b), -1, device=race.DEV, dtype=torch.int64)
        self.seeds = torch.arange(self.b, device=race.DEV), torch.full_like(self.y[0], 7)

        def per_row(value, dtype):
            return torch.full((self.b,), value, device=race.DEV, dtype=dtype)

        self.params = per_row(1, F32), per_row(TOP_K, torch.int32), per_row(TOP_P, F32)  # the calls have their addresses only

    def rfg(self, ctx):
        calls = [
            ctx.argmax(y, x) if self.op == "argmax" else ctx.sample(y, x, *self.seeds, *self.params)
            for y, x in zip(self.y, self.logits)
        ]
        return lambda i: (calls[i](), self.y[i])[1]

    def peers(self):
        return {"flashinfer": self.flashinfer, "cake": self.cake} if self.op == "sample" else {}

    def flashinfer(self):
        from flashinfer.sampling import top_k_top_p_sampling_from_logits as draw

        seed, offset = self.seeds  # tensors: a captured call draws with what they hold at its replay
        return lambda i: draw(self.logits[i], TOP_K, TOP_P, seed=seed, offset=offset)

    def cake(self):
        from flashinfer.cake_sampling import top_k_top_p_sampling_from_probs as draw
        from flashinfer.sampling import softmax

        return lambda i: draw(softmax(self.logits[i]), TOP_K, TOP_P, philox_seed=7, philox_offset=0)

    def check(self, call):
        self.y.fill_(-1)
        got, x = call(0).long(), self.logits[0]
        picked = x.gather(-1, got.clamp(0, self.v - 1)[:, None])
        if self.op == "argmax":
            right = (picked == x.max(-1, keepdim=True).values).squeeze(-1)  # of equal ones any
        else:  # of equal ones any, and a hair's breadth of the sum's rounding
            tokens, p = left(x)
            right = (picked >= torch.where(p > 0, x.gather(-1, tokens), math.inf).amin(-1, keepdim=True) - 0.02)[:, 0]
        if not (right & (got >= 0) & (got < self.v)).all():
            raise RuntimeError("wrong tokens: %s" % got[~right].tolist()[:8])


def contestants(p, args, contexts, forms):
    out = {name: attempt(name, lambda: p.rfg(ctx)) for name, ctx in contexts.items()}
    if p.form is argmax:
        out["eager"] = lambda i: argmax(*p.args[i])
    if forms:
        out["compile"] = lambda i: forms[p.form](*p.args[i])
    if args.flashinfer:
        out |= {name: attempt(name, make) for name, make in p.peers().items()}
    return {name: call for name, call in out.items() if call}


def run(args, bench, records):
    if args.flashinfer:
        sys.path.insert(0, args.flashinfer)
    stream = bench.stream.cuda_stream if bench else None
    overlaps = [("rfg", False), ("rfg+ov", True)][: 2 if bench else 1]
    contexts = {n: rfg.Rfg(args.lib, args.device, args.db, ov, stream) for n, ov in overlaps}
    compiled = lambda f: torch.compile(f, mode="max-autotune-no-cudagraphs", dynamic=False)  # noqa: E731
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
    forms = {} if args.no_compile else {f: compiled(f) for f in (rope_append, argmax, sample)}
    head = race.measure_machine(bench) if bench else {}
    todo = [RopeAppend(t, hq, hkv) for hq, hkv in args.heads for t in args.tokens]
    todo += [Rows(op, t, b, args.vocabulary) for op in ("argmax", "sample") for t in args.dtype for b in args.rows]
    for p in todo:
        p.allocate(bench)
        calls = contestants(p, args, contexts, forms)
        if not bench:
            records.append(race.who_is_right(p, calls))
            continue
        records.append(race.measured(bench, p, calls, contexts, head))
        race.save(args.json, head, records)
        del p, calls
        gc.collect()
        torch.cuda.empty_cache()
    return True


def main():
    numbers = lambda text: [int(t) for t in text.split(",")]  # noqa: E731
    heads = lambda text: [tuple(int(n) for n in t.split("x")) for t in text.split(",")]  # noqa: E731
    names = lambda text: text.split(",")  # noqa: E731
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0; cpu: check only")
    p.add_argument("--db", help="the tuned database (default: the user's)")
    p.add_argument("--flashinfer", metavar="WHEEL", help="folder of an unpacked flashinfer-python wheel")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--tokens", type=numbers, default=[1, 8, 32, 64, 8192], help="of rope_append")
    p.add_argument("--heads", type=heads, default=[(32, 8), (64, 8)], help="of rope_append (32x8,64x8)")
    p.add_argument("--rows", type=numbers, default=[1, 8, 32, 64], help="of argmax and sample")
    p.add_argument("--dtype", type=names, default=list(DTYPES), help="of argmax's and sample's logits (bf16,f32)")
    p.add_argument("--vocabulary", type=int, default=128256)
    p.add_argument("--rounds", type=int, default=25)
    p.add_argument("--json", metavar="FILE", help="everything measured")
    args = p.parse_args()
    records = []
    if args.device == "cpu":
        race.DEV = "cpu"
        run(args, None, records)
        return int(not all("rfg" in r for r in records))
    gc.disable()  # not in the middle of a capture, but after each problem
    bench = race.Bench(args.rounds)
    done = bench.on_stream(lambda: run(args, bench, records))
    bench.say_seconds()
    return int(not done or not records)


if __name__ == "__main__":
    sys.exit(main())
