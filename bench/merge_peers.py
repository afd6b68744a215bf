#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""merge_states beside Triton, torch.compile and a copy's bandwidth, on one NVIDIA GPU, in one process. Less than a
minute of GPU time.

    bench/merge_peers.py --tune build/bin/rfg-tune [--lib build/librfg.so] [--db tuned.db] [--json FILE]
    bench/merge_peers.py --device cpu        # no times: is everybody right?

Contestants of a problem are captured in graphs of as many calls and replayed in turn on cold buffers (peers/race.py).
Each one's results are checked first. --tune has rfg-tune write the problems' rows to --db (default: one that is thrown
away) before anything is measured.

  rfg      through ctypes; rfg+ov: with launch_overlap
  rows     Triton, a program a row: the states one after the other, all in flight (vLLM's merge_attn_states with n states)
  tile     Triton, a program a row: the states as one tile, its weights by reductions
           (both: the fastest of 1, 2, 4 and 8 warps)
  compile  torch.compile, max-autotune-no-cudagraphs

The bar: 8 states of T=128 H=128 D=512 bf16 at 0.85 of the copy's bandwidth."""

import argparse
import gc
import math
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import rfg  # noqa: E402

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import race  # noqa: E402
from race import attempt, say  # noqa: E402

BF16, F32 = torch.bfloat16, torch.float32
BAR, BAR_PROBLEM = 0.85, (8, 128, 128, 512)
# n, T, H, D: the bar's; a shared prefix (decode, prefill); chunks; split-KV and ranks
PROBLEMS = [BAR_PROBLEM, (2, 128, 128, 512), (2, 8, 128, 512), (2, 4096, 32, 128), (4, 8192, 8, 128), (8, 8, 32, 128), (64, 8, 32, 128)]


@triton.jit
def rows_kernel(o, lse, out, lse_out, rows, N: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    there = at < D
    top = -float("inf")
    for i in tl.static_range(N):
        top = tl.maximum(top, tl.load(lse + i * rows + row))
    top = tl.where(top == -float("inf"), 0.0, top)
    total = 0.0
    acc = tl.zeros((B,), tl.float32)
    for i in tl.static_range(N):
        w = tl.exp(tl.load(lse + i * rows + row) - top)
        x = tl.load(o + (i * rows + row) * D + at, mask=there, other=0.0).to(tl.float32)
        total += w
        acc += tl.where(w == 0.0, 0.0, w * x)
    tl.store(out + row * D + at, (acc / tl.where(total == 0.0, 1.0, total)).to(out.dtype.element_ty), mask=there)
    tl.store(lse_out + row, top + tl.log(total))


@triton.jit
def tile_kernel(o, lse, out, lse_out, rows, N: tl.constexpr, N2: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    row, at, state = tl.program_id(0).to(tl.int64), tl.arange(0, B), tl.arange(0, N2)
    there, known = at < D, state < N
    x = tl.load(o + (state[:, None] * rows + row) * D + at[None, :], mask=known[:, None] & there[None, :], other=0.0)
    said = tl.load(lse + state * rows + row, mask=known, other=-float("inf"))
    top = tl.max(said, 0)
    top = tl.where(top == -float("inf"), 0.0, top)
    w = tl.exp(said - top)
    total = tl.sum(w, 0)
    acc = tl.sum(tl.where(w[:, None] == 0.0, 0.0, w[:, None] * x.to(tl.float32)), 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row * D + at, acc.to(out.dtype.element_ty), mask=there)
    tl.store(lse_out + row, top + tl.log(total))


def formula(o, lse):
    merged = torch.logsumexp(lse, 0)
    return (torch.exp(lse - merged).unsqueeze(-1) * o.float()).sum(0).to(o.dtype), merged


class Problem:
    def __init__(self, n, t, h, d):
        self.n, self.t, self.h, self.d = n, t, h, d
        self.text = "merge_states bf16->bf16 T=%d H=%d D=%d n=%d" % (t, h, d, n)
        self.bytes = t * h * ((n + 1) * (2 * d + 4))

    def allocate(self, bench):
        self.n_sets = bench.sets(self.bytes) if bench else 2
        self.n_calls = bench.calls(self.n_sets, self.bytes) if bench else 2
        shape = (self.n_sets, self.n, self.t, self.h)
        self.o = torch.randn(*shape, self.d, device=race.DEV).to(BF16)
        self.lse = 3 * torch.randn(*shape, device=race.DEV)
        self.out = torch.full((self.n_sets, self.t, self.h, self.d), math.nan, device=race.DEV, dtype=BF16)
        self.lse_out = torch.full((self.n_sets, self.t, self.h), math.nan, device=race.DEV)

    def wrote(self, i):
        return self.out[i], self.lse_out[i]

    def rfg(self, ctx):
        sets = zip(self.out, self.o, self.lse, self.lse_out)
        calls = [ctx.merge_states(out, o, lse, lse_out=lse_out) for out, o, lse, lse_out in sets]
        return lambda i: (calls[i](), self.wrote(i))[1]

    def triton(self, kernel, warps):
        rows, b = self.t * self.h, triton.next_power_of_2(self.d)
        more = {"N2": triton.next_power_of_2(self.n)} if kernel is tile_kernel else {}

        def call(i):
            given = (self.o[i], self.lse[i], self.out[i], self.lse_out[i], rows)
            kernel[(rows,)](*given, N=self.n, D=self.d, B=b, num_warps=warps, **more)
            return self.wrote(i)

        return call

    def check(self, call):
        self.out.fill_(math.nan)
        self.lse_out.fill_(math.nan)
        want = formula(self.o[0].double(), self.lse[0].double())
        for name, g, w in zip(("out", "lse_out"), call(0), want):
            error = ((g.double() - w.double()).norm() / w.double().norm()).item()
            if not error <= 0.004:  # rounded once to bf16 it is 0.0017
                raise RuntimeError("wrong %s: |got - expected| / |expected| is %.3g, must be <= 0.004" % (name, error))


def contestants(p, bench, contexts, compiled):
    out = {name: attempt(name, lambda: p.rfg(ctx)) for name, ctx in contexts.items()}
    for name, kernel in (("rows", rows_kernel), ("tile", tile_kernel)):
        ways = [("%d warps" % w, p.triton(kernel, w)) for w in (1, 2, 4, 8)]
        best = bench.fastest("%s %s" % (p.text, name), ways, p.n_sets, p.n_calls, rounds=3)
        if best:
            out["%s, %s" % (name, best[0])] = best[1]
    if compiled:
        out["compile"] = lambda i: compiled(p.o[i], p.lse[i])
    return {name: call for name, call in out.items() if call}


def check(args):
    """On cpu: is rfg right, and is the formula?"""
    race.DEV, ctx = "cpu", rfg.Rfg(args.lib, "cpu")
    wrong = 0
    for p in (Problem(*sizes) for sizes in PROBLEMS):
        p.allocate(None)
        wrong += len(race.who_is_right(p, {"rfg": p.rfg(ctx), "eager": lambda i: formula(p.o[i], p.lse[i])})) < 2
    return int(wrong > 0)


def measure(args, bench, records):
    stream = bench.stream.cuda_stream
    contexts = {n: rfg.Rfg(args.lib, args.device, args.db, n == "rfg+ov", stream) for n in ("rfg", "rfg+ov")}
    compiled = None if args.no_compile else torch.compile(formula, mode="max-autotune-no-cudagraphs", dynamic=False)
    head = race.measure_machine(bench)
    for sizes in PROBLEMS:
        p = Problem(*sizes)
        p.allocate(bench)
        r = race.measured(bench, p, contestants(p, bench, contexts, compiled), contexts, head)
        say("# " + "; ".join(r["rfg"]))
        if sizes == BAR_PROBLEM:
            say("# the bar of %.2f: %s" % (BAR, "kept" if r["share"] >= BAR else "MISSED"))
        records.append(r)
        race.save(args.json, head, records)
        del p
        gc.collect()
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0; cpu: check only")
    p.add_argument("--db", help="the tuned database (default: the user's; with --tune: one that is thrown away)")
    p.add_argument("--tune", metavar="RFG-TUNE", help="tunes the problems first, by this program")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--json", metavar="FILE", help="everything measured")
    args = p.parse_args()
    if args.device == "cpu":
        return check(args)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        if args.tune:
            args.db = args.db or os.path.join(folder, "tuned.db")
            race.tune(args, [Problem(*sizes).text for sizes in PROBLEMS])
        gc.disable()  # not in the middle of a capture, but after each problem
        bench = race.Bench(args.rounds)
        bench.on_stream(lambda: measure(args, bench, records))
        bench.say_seconds()
    return int(len(records) < len(PROBLEMS))


if __name__ == "__main__":
    sys.exit(main())
