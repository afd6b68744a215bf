# SPDX-License-Identifier: MIT
"""Choosing experts (DeepSeek V3's: 8 of 256, in 8 groups of which 4 count) and sorting tokens by expert alone, for
moe_peers.py: rfg, vLLM's kernels (peers/vllm_moe.cu) and torch.compile."""

import ctypes as c
import os
import subprocess

import torch

import moe_problem as mp
import race
from race import attempt, say

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERTS, TOP, ROUTE = 256, 8, dict(scoring=2, groups=8, topk_groups=4, renormalise=1, scale=2.5)
BLOCK = 16  # of vLLM's layout
SETS, CALLS = 16, 64


def vllm_library(args):
    """peers/vllm_moe.cu, built where it isn't given; None without."""
    path = args.vllm_lib
    if not path:
        if not args.vllm:
            raise ValueError("neither --vllm-lib nor --vllm is given")
        path = os.path.join(os.path.abspath(args.vllm), "rfg_peer.so")
        include = os.path.join(os.path.dirname(torch.__file__), "include")
        if not os.path.exists(path):
            made = [os.path.join(HERE, "build.sh"), "vllm_moe", os.path.join(args.vllm, "csrc"), include, path]
            subprocess.run(["bash"] + made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in ("c10", "c10_cuda", "torch_cpu", "torch_cuda"):  # it is linked to none, but has names of theirs
        c.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "lib%s.so" % name), mode=c.RTLD_GLOBAL)
    lib = c.CDLL(path)
    v, i64 = c.c_void_p, c.c_int64
    lib.peer_grouped_topk.argtypes = [v] * 4 + [i64] * 5 + [c.c_double, c.c_int, v]
    lib.peer_align.argtypes = [v] * 5 + [i64] * 5 + [v]
    return lib


def checked(code):
    if code:
        raise RuntimeError("vLLM's kernel: cudaError %d" % code)


class Small:
    def __init__(self, what, t):
        self.what, self.t, self.n_sets, self.n_calls = what, t, SETS, CALLS
        g = torch.Generator(device=race.DEV).manual_seed(3)
        self.x = torch.randn(SETS, t, EXPERTS, device=race.DEV, generator=g)
        self.bias = torch.rand(EXPERTS, device=race.DEV, generator=g) - 0.5
        made = [mp.route(x.double(), TOP, bias=self.bias.double(), **ROUTE) for x in self.x]
        self.ids, self.weights = torch.stack([m[0] for m in made]), torch.stack([m[1] for m in made])
        self.got_ids, self.got_weights = torch.empty_like(self.ids[0]), torch.empty_like(self.weights[0])
        n = t * TOP
        self.rows = new(n)
        self.offsets, self.places = new(EXPERTS + 1), new(t, TOP)
        most = (n + min(EXPERTS, n) * (BLOCK - 1)) // BLOCK * BLOCK
        self.sorted, self.blocks, self.count, self.sums = new(most), new(-(-most // BLOCK)), new(1), new(EXPERTS + 1)
        names = {"route": "moe_route f32->f32 T=%d E=%d top=%d score=sigmoid bias=1 groups=8 top_groups=4 renorm=1"}
        self.text = names.get(what, "moe_align i32->i32 T=%d E=%d top=%d places=1") % (t, EXPERTS, TOP)
        self.text += " format=vllm block=%d" % BLOCK if what == "align vllm" else ""

    def ours(self, ctx):
        if self.what == "route":
            return [ctx.moe_route(self.got_ids, self.got_weights, x, bias=self.bias, **ROUTE) for x in self.x]
        if self.what == "align":
            return [ctx.moe_align(self.rows, i, experts=EXPERTS, offsets=self.offsets, places=self.places) for i in self.ids]
        more = dict(format=1, block=BLOCK, experts=EXPERTS, block_experts=self.blocks, count=self.count)
        return [ctx.moe_align(self.sorted, i, **more) for i in self.ids]

    def vllm(self, lib, stream):
        def route(i, pdl):
            checked(lib.peer_grouped_topk(self.got_ids.data_ptr(), self.got_weights.data_ptr(), self.x[i].data_ptr(), self.bias.data_ptr(),
                                          self.t, EXPERTS, ROUTE["groups"], ROUTE["topk_groups"], TOP, ROUTE["scale"], pdl, stream))  # fmt: skip

        def align(i):
            checked(lib.peer_align(self.sorted.data_ptr(), self.blocks.data_ptr(), self.count.data_ptr(), self.sums.data_ptr(),
                                   self.ids[i].data_ptr(), self.t * TOP, TOP, EXPERTS, BLOCK, self.sorted.numel(), stream))  # fmt: skip

        if self.what == "route":
            return {"vllm": lambda i: route(i, 0), "vllm pdl": lambda i: route(i, 1)}
        return {"vllm": align}

    def check(self, call):
        """Of set 0."""
        for t in (self.got_ids, self.rows, self.sorted):
            t.fill_(-7)
        got = call(0)
        torch.cuda.synchronize() if race.DEV == "cuda" else None
        if self.what == "route":
            ids, weights = got or (self.got_ids, self.got_weights)
            order, want = ids.long().argsort(1), self.ids[0].long().argsort(1)
            wrong = (ids.gather(1, order) != self.ids[0].gather(1, want)).sum().item()
            off = (weights.gather(1, order) - self.weights[0].gather(1, want)).abs().max().item()
            if wrong or off > 1e-3:
                raise ValueError("wrong: %d ids, weights off by %.3g" % (wrong, off))
            return
        pairs = self.ids[0].flatten().tolist()
        want = sorted((e, n) for n, e in enumerate(pairs))
        if self.what == "align":
            got = [(pairs[t * TOP + pairs[t * TOP : t * TOP + TOP].index(e)], t) for e, t in self.segments()]
            right = [(e, n // TOP) for e, n in want]
        else:
            blocks, rows = self.blocks.tolist(), self.sorted.tolist()
            there = rows[: self.count.item()]
            got = sorted((blocks[at // BLOCK], n) for at, n in enumerate(there) if n < len(pairs))
            right = want
        if got != right:
            raise ValueError("wrong: rows of experts")

    def segments(self):
        """(expert, token) of each row."""
        offsets, rows = self.offsets.tolist(), self.rows.tolist()
        return [(e, rows[r]) for e in range(EXPERTS) for r in range(offsets[e], offsets[e + 1])]


def new(*shape):
    return torch.empty(*shape, device=race.DEV, dtype=torch.int32)


def measure(bench, contexts, args):
    records = []
    lib = None if "vllm" in args.without else attempt("vllm", lambda: vllm_library(args))
    say("# left out: flashinfer: its routing is compiled for minutes when it is first called")
    torch._dynamo.config.cache_size_limit = 100
    for what in ("route", "align", "align vllm"):
        for t in args.t:
            p = Small(what, t)
            calls = {}
            for name, ctx in contexts.items():
                made = p.ours(ctx)
                calls[name] = lambda i, made=made: made[i]()
            if lib and what != "align":
                calls.update(p.vllm(lib, bench.stream.cuda_stream))
            if what == "route" and "torch" not in args.without:
                formula = torch.compile(lambda x: mp.route(x, TOP, bias=p.bias, **ROUTE), dynamic=False)
                calls["compile"] = lambda i: formula(p.x[i])
            times = attempt(p.text, lambda: bench.times(p, calls, lambda name: p.check(calls[name])))
            if not times:
                continue
            r = dict(race.figures(times), problem=p.text, what=what, t=t, pairs=t * TOP)
            records.append(r)
            say("%-10s T=%-5d %s" % (what, t, "  ".join("%s %.2f" % x for x in r["us"].items())))
            if args.verbose:
                say("#   %s" % race.chosen(contexts["rfg"], p.text))
    return records
