#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lora beside Triton kernels of our own in the manner of vLLM's lora_shrink and lora_expand (punica), on one NVIDIA GPU,
in one process. Less than a minute of GPU time.

    bench/lora_peers.py --tune build/bin/rfg-tune [--lib build/librfg.so] [--db tuned.db] [--json FILE]
    bench/lora_peers.py --device cpu        # no times: is everybody right?

Contestants of a problem are captured in graphs of as many calls and replayed in turn on cold buffers (peers/race.py).
Each one's results are checked first. --tune has rfg-tune write the problems' rows to --db (default: one that is thrown
away) before anything is measured.

  rfg      through ctypes; rfg+ov: with launch_overlap
  vllm     Triton: h is zeroed; shrink, split K, adds to it atomically; expand rounds h to 16 bits and adds to y. With
           vLLM's default sizes of blocks (vllm/lora/ops/triton_ops/utils.py). Rows are sorted by adapter before, as
           vLLM does once a step: that isn't measured
  triton   the same kernels; the fastest of some sizes of blocks

The bar: 64 rows of 8 adapters, rank 16, 4096 x 4096, 1.3 times as fast as vllm and triton."""

import argparse
import gc
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
BAR, BAR_PROBLEM = 1.3, (64, 4096, 4096, 16, 8)
# M, N, K, rank, adapters
PROBLEMS = [BAR_PROBLEM, (1, 4096, 4096, 16, 8), (8, 4096, 4096, 16, 8), (64, 4096, 4096, 16, 64), (64, 4096, 4096, 64, 8),
            (64, 4096, 14336, 16, 8), (128, 14336, 4096, 32, 16), (16, 8192, 8192, 64, 4), (2048, 4096, 4096, 16, 4)]
# blocks of m, rank, k, split of k, warps; m, n, rank, warps
VLLM_FEW, VLLM_MANY, VLLM_EXPAND = (32, 16, 256, 64, 4), (32, 16, 32, 8, 4), (64, 128, 16, 4)
SHRINKS = [(16, 16, 256, 16, 4), (16, 16, 128, 32, 4), (16, 16, 512, 8, 8), (32, 16, 128, 16, 4), (32, 32, 128, 16, 4), (64, 64, 64, 8, 4)]
EXPANDS = [(16, 64, 16, 4), (16, 128, 16, 4), (16, 256, 16, 4), (32, 128, 16, 4), (32, 128, 32, 4), (64, 128, 64, 8)]


@triton.jit
def shrink_kernel(x, a, h, order, count, begin, M, K, R: tl.constexpr, BM: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    pid, adapter = tl.program_id(0), tl.program_id(1)
    split, pid = pid % SPLIT, pid // SPLIT
    pm, pr = pid // tl.cdiv(R, BR), pid % tl.cdiv(R, BR)
    rows = tl.load(count + adapter)
    if pm * BM >= rows:
        return
    at = pm * BM + tl.arange(0, BM)
    row = tl.load(order + tl.load(begin + adapter) + at, mask=at < rows, other=0)
    r, k = pr * BR + tl.arange(0, BR), split * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BR), tl.float32)
    for k0 in range(0, K, BK * SPLIT):
        there = k0 + k < K
        xs = tl.load(x + row[:, None] * K + k0 + k[None, :], mask=there[None, :], other=0.0)
        ws = tl.load(a + (adapter * R + r[None, :]) * K + k0 + k[:, None], mask=there[:, None] & (r < R)[None, :], other=0.0)
        acc += tl.dot(xs, ws)
    to = h + row[:, None] * R + r[None, :]
    mask = (at < rows)[:, None] & (r < R)[None, :]
    if SPLIT == 1:
        tl.store(to, acc, mask=mask)
    else:
        tl.atomic_add(to, acc, mask=mask, sem="relaxed")


@triton.jit
def expand_kernel(h, b, y, order, count, begin, M, N, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BR: tl.constexpr):
    pid, adapter = tl.program_id(0), tl.program_id(1)
    pm, pn = pid // tl.cdiv(N, BN), pid % tl.cdiv(N, BN)
    rows = tl.load(count + adapter)
    if pm * BM >= rows:
        return
    at, n = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    row = tl.load(order + tl.load(begin + adapter) + at, mask=at < rows, other=0)
    acc = tl.zeros((BM, BN), tl.float32)
    for r0 in range(0, R, BR):
        r = r0 + tl.arange(0, BR)
        hs = tl.load(h + row[:, None] * R + r[None, :], mask=(r < R)[None, :], other=0.0).to(b.dtype.element_ty)
        ws = tl.load(b + (adapter * N + n[None, :]) * R + r[:, None], mask=(n < N)[None, :] & (r < R)[:, None], other=0.0)
        acc += tl.dot(hs, ws)
    to, mask = y + row[:, None] * N + n[None, :], (at < rows)[:, None] & (n < N)[None, :]
    tl.store(to, (acc + tl.load(to, mask=mask, other=0.0)).to(y.dtype.element_ty), mask=mask)


class Problem:
    def __init__(self, m, n, k, rank, adapters):
        self.m, self.n, self.k, self.rank, self.adapters = m, n, k, rank, adapters
        self.text = "lora bf16->bf16 M=%d N=%d K=%d rank=%d adapters=%d" % (m, n, k, rank, adapters)
        self.bytes = 2 * min(adapters, m) * rank * (n + k) + 2 * m * k + 4 * m * n

    def allocate(self, bench):
        self.n_sets = bench.sets(self.bytes) if bench else 2
        self.n_calls = bench.calls(self.n_sets, self.bytes) if bench else 2
        s, made = self.n_sets, lambda *shape: torch.randn(*shape, device=race.DEV).to(BF16)
        self.x, self.a = made(s, self.m, self.k), made(s, self.adapters, self.rank, self.k)
        self.b, self.y = made(s, self.adapters, self.n, self.rank), made(s, self.m, self.n)
        self.h = torch.zeros(self.m, self.rank, device=race.DEV)
        # Each adapter has as many rows, in any order.
        ids = (torch.arange(self.m) * self.adapters // self.m if self.m > self.adapters else torch.arange(self.m)) % self.adapters
        self.ids = ids[torch.randperm(self.m)].to(race.DEV).to(torch.int32)
        self.order = torch.sort(self.ids.long(), stable=True)[1].to(torch.int32)
        self.count = torch.bincount(self.ids.long(), minlength=self.adapters).to(torch.int32)
        self.begin = (torch.cumsum(self.count, 0) - self.count).to(torch.int32)
        self.most = int(self.count.max())

    def rfg(self, ctx):
        calls = [ctx.lora(y, x, a, b, self.ids) for y, x, a, b in zip(self.y, self.x, self.a, self.b)]
        return lambda i: (calls[i](), self.y[i])[1]

    def triton(self, shrink, expand):
        sm, sr, sk, split, warps = shrink
        em, en, er, more_warps = expand
        cdiv, rows = triton.cdiv, (self.order, self.count, self.begin, self.m)
        first = (split * cdiv(self.m, sm) * cdiv(self.rank, sr), self.adapters)
        second = (cdiv(self.m, em) * cdiv(self.n, en), self.adapters)

        def call(i):
            if split > 1:
                self.h.zero_()
            shrink_kernel[first](self.x[i], self.a[i], self.h, *rows, self.k, R=self.rank, BM=sm, BR=sr, BK=sk, SPLIT=split,
                                 num_warps=warps, num_stages=2)
            expand_kernel[second](self.h, self.b[i], self.y[i], *rows, self.n, R=self.rank, BM=em, BN=en, BR=er,
                                  num_warps=more_warps, num_stages=2)
            return self.y[i]

        return call

    def check(self, call):
        was = self.y[0].clone()
        want = was.double()
        for m, adapter in enumerate(self.ids.tolist()):
            want[m] += self.b[0][adapter].double() @ (self.a[0][adapter].double() @ self.x[0][m].double())
        got = call(0)
        error = ((got.double() - want).norm() / want.norm()).item()
        self.y[0].copy_(was)
        if not error <= 0.005:  # rounded once to bf16 it is 0.0017; with h rounded, too, 0.0024
            raise RuntimeError("wrong y: |got - expected| / |expected| is %.3g, must be <= 0.005" % error)


def contestants(p, bench, contexts):
    out = {name: attempt(name, lambda: p.rfg(ctx)) for name, ctx in contexts.items()}
    default = VLLM_FEW if p.m < 128 else VLLM_MANY
    out["vllm"] = p.triton(default, VLLM_EXPAND)
    shrinks = [("%s" % (s,), p.triton(s, VLLM_EXPAND)) for s in [default] + SHRINKS]
    best = bench.fastest(p.text + " shrink", shrinks, p.n_sets, p.n_calls, rounds=3)
    shrink = ([default] + SHRINKS)[[c[0] for c in shrinks].index(best[0])] if best else default
    expands = [("%s %s" % (shrink, e), p.triton(shrink, e)) for e in [VLLM_EXPAND] + EXPANDS]
    best = bench.fastest(p.text + " expand", expands, p.n_sets, p.n_calls, rounds=3)
    if best:
        out["triton %s" % best[0]] = best[1]
    return {name: call for name, call in out.items() if call}


def check(args):
    """On cpu: is rfg right?"""
    race.DEV, ctx = "cpu", rfg.Rfg(args.lib, "cpu")
    wrong = 0
    for p in (Problem(*sizes) for sizes in PROBLEMS[:4]):
        p.allocate(None)
        wrong += len(race.who_is_right(p, {"rfg": p.rfg(ctx)})) < 1
    return int(wrong > 0)


def measure(args, bench, records):
    stream = bench.stream.cuda_stream
    contexts = {n: rfg.Rfg(args.lib, args.device, args.db, n == "rfg+ov", stream) for n in ("rfg", "rfg+ov")}
    head = race.measure_machine(bench)
    for sizes in PROBLEMS[: args.problems]:
        p = Problem(*sizes)
        p.allocate(bench)
        r = race.measured(bench, p, contestants(p, bench, contexts), contexts, head)
        say("# " + "; ".join(r["rfg"]))
        if sizes == BAR_PROBLEM:
            peer = min((t for n, t in r["us"].items() if not n.startswith("rfg")), default=0)
            ratio = peer / min(t for n, t in r["us"].items() if n.startswith("rfg"))
            say("# the bar of %.1fx: %s, %.2fx" % (BAR, "kept" if ratio >= BAR else "MISSED", ratio))
        del p
        gc.collect()
        records.append(r)
        race.save(args.json, head, records)
    return len(records)


def main():
    p = race.arguments(__doc__)
    p.add_argument("--problems", type=int, default=len(PROBLEMS), help="only the first so many")
    p.add_argument("--tune-options", default="", help="more options of --tune, in one word")
    p.add_argument("--tune", metavar="RFG-TUNE", help="tunes the problems first, by this program")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0; cpu: check only")
    args, records = p.parse_args(), []
    if args.shapes:
        p.error("--shapes: --tune knows the problems")
    if args.device == "cpu":
        return check(args)
    folder = tempfile.TemporaryDirectory()
    if args.tune and not args.db:
        args.db = os.path.join(folder.name, "tuned.db")
    if args.tune:
        race.tune(args, [Problem(*sizes).text for sizes in PROBLEMS[: args.problems]])
    gc.disable()  # not in the middle of a capture, but after each problem
    bench = race.Bench(args.rounds)
    bench.finish(lambda: measure(args, bench, records))
    return int(len(records) < args.problems)


if __name__ == "__main__":
    sys.exit(main())
