#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mla_decode beside FlashMLA, FlashInfer, Triton and a copy's bandwidth, on one NVIDIA GPU, in one process. About a
minute and a half; with --tune as much again.

    bench/peers/build.sh flashinfer_mla FLASHINFER_INCLUDE flashinfer_mla.so        # where nvcc is; optional
    bench/mla_peers.py --tune build/bin/rfg-tune --flashinfer-lib flashinfer_mla.so [--db tuned.db] [--json FILE]
    bench/mla_peers.py --device cpu        # no times: is rfg right?

Contestants of a problem are captured in graphs of as many calls and replayed in turn on cold buffers (peers/race.py).
Each one's results are checked first. --tune has rfg-tune write rows of the problems of at most 8192 keys to --db
(default: one that is thrown away) before anything is measured; longer ones take the nearest row.

  rfg       through ctypes
  flashmla  FlashMLA's dense kernel for sm_90, as the package sgl-flash-mla keeps it (use_legacy), its plan made before.
            It takes 64 and 128 heads alone: with fewer, q is padded to 64, as vLLM and SGLang do
  fa2, fa3  FlashInfer's kernels of batch MLA, their plan made before; as many heads as there are
  triton    in the manner of vLLM's: a program for 16 heads of a part of a sequence's keys, then a second launch that
            merges the parts; the fastest of some numbers of parts and keys a step

bf16, D=576 Dv=512, pages of 64, all sequences as long. The bars: over the best peer 1.15 times as fast (geomean),
nowhere slower; with 128 heads and 32 sequences or more FlashMLA's TFLOP/s; with at most 32 heads and more than 64 MB
0.90 of the copy."""

import argparse
import ctypes
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
D, DV, PAGE, SCALE = 576, 512, 64, 192**-0.5
SIZES = [(b, s) for b in (32, 1, 128, 8) for s in (8192, 1024, 32768) if b * s <= 1 << 20]
PROBLEMS = [(h, b, s) for b, s in SIZES for h in (128, 16, 64)]  # heads, sequences, keys
TUNED_KEYS = 8192


@triton.jit
def parts_kernel(q, kv, table, lens, o, lse, scale, heads, columns, parts, PAGE: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
                 H: tl.constexpr, N: tl.constexpr):  # fmt: skip
    b, h0, part = tl.program_id(0).to(tl.int64), tl.program_id(1) * H, tl.program_id(2)
    h, c, r, n = h0 + tl.arange(0, H), tl.arange(0, DV), DV + tl.arange(0, D - DV), tl.arange(0, N)
    there = h < heads
    at = (b * heads + h)[:, None] * D
    qn = tl.load(q + at + c[None, :], mask=there[:, None], other=0.0)
    qr = tl.load(q + at + r[None, :], mask=there[:, None], other=0.0)
    keys = tl.load(lens + b)
    each = tl.cdiv(tl.cdiv(keys, parts), N) * N
    begin, end = part * each, tl.minimum(part * each + each, keys)
    most = tl.full((H,), -float("inf"), tl.float32)
    total = tl.zeros((H,), tl.float32)
    acc = tl.zeros((H, DV), tl.float32)
    for k0 in range(begin, end, N):
        k = k0 + n
        block = tl.load(table + b * columns + k // PAGE, mask=k < end, other=0).to(tl.int64)
        row = (block * PAGE + k % PAGE) * D
        kn = tl.load(kv + row[None, :] + c[:, None], mask=(k < end)[None, :], other=0.0)
        kr = tl.load(kv + row[None, :] + r[:, None], mask=(k < end)[None, :], other=0.0)
        s = (tl.dot(qn, kn) + tl.dot(qr, kr)) * (scale * 1.4426950408889634)
        s = tl.where((k < end)[None, :], s, -float("inf"))
        top = tl.maximum(most, tl.max(s, 1))
        down, p = tl.exp2(most - top), tl.exp2(s - top[:, None])
        total = total * down + tl.sum(p, 1)
        acc = acc * down[:, None] + tl.dot(p.to(kn.dtype), tl.trans(kn))
        most = top
    to = (b * heads + h) * parts + part
    if begin < end:
        tl.store(o + to[:, None] * DV + c[None, :], acc / total[:, None], mask=there[:, None])
    tl.store(lse + to, tl.where(begin < end, most + tl.log2(total), -float("inf")), mask=there)


@triton.jit
def merge_kernel(o, lse, out, parts, DV: tl.constexpr):
    row, c = tl.program_id(0).to(tl.int64), tl.arange(0, DV)
    most, total = -float("inf"), 0.0
    acc = tl.zeros((DV,), tl.float32)
    for i in range(parts):
        said = tl.load(lse + row * parts + i)
        if said > -float("inf"):
            top = tl.maximum(most, said)
            down, w = tl.exp2(most - top), tl.exp2(said - top)
            acc = acc * down + w * tl.load(o + (row * parts + i) * DV + c)
            total = total * down + w
            most = top
    tl.store(out + row * DV + c, (acc / total).to(out.dtype.element_ty))


class FlashInfer:
    def __init__(self, path, stream):
        self.lib, self.stream = ctypes.CDLL(path), stream
        v, i, ints = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int32)
        self.lib.peer_mla_error.restype = ctypes.c_char_p
        self.lib.peer_mla_open.argtypes = [ctypes.POINTER(v), i, ints, i, i, i, v]
        self.lib.peer_mla_run.argtypes = [v, v, v, v, v, ctypes.c_float, v]
        self.lib.peer_mla_close.argtypes = [v]

    def check(self, failed):
        if failed:
            raise RuntimeError(self.lib.peer_mla_error().decode())

    def call(self, p, fa3):
        plan, lens = ctypes.c_void_p(), (ctypes.c_int32 * p.b)(*[p.s] * p.b)
        self.check(self.lib.peer_mla_open(ctypes.byref(plan), int(fa3), lens, p.b, p.hq, PAGE, self.stream))
        p.plans.append((self.lib, plan))
        indices = p.table.view(-1)

        def call(i):
            given = [t.data_ptr() for t in (p.q[i], p.kv[i], p.out[i], indices)]
            self.check(self.lib.peer_mla_run(plan, *given, SCALE, self.stream))
            return p.out[i]

        return call


class Problem:
    def __init__(self, heads, sequences, keys):
        self.hq, self.b, self.s = heads, sequences, keys
        self.text = "mla_decode bf16->bf16 B=%d Hq=%d D=%d S=%d Dv=%d page=%d" % (sequences, heads, D, keys, DV, PAGE)
        self.bytes = sequences * (keys * D * 2 + heads * (D + DV) * 2)
        self.flops = 2 * sequences * heads * keys * (D + DV)
        self.plans = []

    def allocate(self, bench):
        self.n_sets = bench.sets(self.bytes) if bench else 2
        self.n_calls = bench.calls(self.n_sets, self.bytes) if bench else 2
        if self.bytes > 1 << 30:
            self.n_calls = 4
        pages = self.b * self.s // PAGE
        self.kv = torch.randn(self.n_sets, pages, PAGE, 1, D, device=race.DEV, dtype=BF16)
        self.q = torch.randn(self.n_sets, self.b, self.hq, D, device=race.DEV, dtype=BF16)
        self.out = torch.full((self.n_sets, self.b, self.hq, DV), math.nan, device=race.DEV, dtype=BF16)
        self.table = torch.randperm(pages, device=race.DEV).to(torch.int32).view(self.b, -1)
        self.lens = torch.full((self.b,), self.s, device=race.DEV, dtype=torch.int32)

    def rfg(self, ctx):
        calls = [
            ctx.mla_decode(out, q, kv, scale=SCALE, block_table=self.table, kv_lens=self.lens, max_seqlen_k=self.s)
            for out, q, kv in zip(self.out, self.q, self.kv)
        ]
        return lambda i: (calls[i](), self.out[i])[1]

    def flashmla(self):
        import flash_mla

        heads = max(64, self.hq)
        q = torch.zeros(self.n_sets, self.b, 1, heads, D, device=race.DEV, dtype=BF16)
        q[:, :, 0, : self.hq] = self.q
        plan = flash_mla.get_mla_metadata()[0]

        def call(i):
            out = flash_mla.flash_mla_with_kvcache(
                q[i], self.kv[i], self.table, self.lens, DV, plan, softmax_scale=SCALE, causal=False, use_legacy=True
            )[0]
            return out[:, 0, : self.hq]

        return call

    def triton(self, parts, keys, warps):
        rows, blocks = self.b * self.hq, triton.cdiv(self.hq, 16)
        o = torch.empty(rows * parts * DV, device=race.DEV, dtype=F32)
        lse = torch.empty(rows * parts, device=race.DEV, dtype=F32)

        def call(i):
            given = (self.q[i], self.kv[i], self.table, self.lens, o, lse, SCALE, self.hq, self.table.shape[1], parts)
            parts_kernel[(self.b, blocks, parts)](*given, PAGE=PAGE, D=D, DV=DV, H=16, N=keys, num_warps=warps, num_stages=2)
            merge_kernel[(rows,)](o, lse, self.out[i], parts, DV=DV, num_warps=4)
            return self.out[i]

        return call

    def fastest_triton(self, bench):
        """Parts that give every SM about one to four programs."""
        programs = self.b * triton.cdiv(self.hq, 16)
        parts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n * 64 <= self.s and (n == 1 or n * programs <= 4 * 132)][-3:]
        ways = [("%d parts, %d keys" % (n, k), self.triton(n, k, 4)) for n in parts for k in (32, 64)]
        return bench.fastest(self.text + " triton", ways, self.n_sets, self.n_calls, rounds=3, most=4)

    def check(self, call):
        self.out.fill_(math.nan)
        got = call(0)
        for b in (0, self.b - 1):
            kv = self.kv[0][self.table[b].long()].view(-1, D).double()
            want = torch.softmax(self.q[0, b].double() @ kv.T * SCALE, -1) @ kv[:, :DV]
            error = ((got[b].double() - want).norm() / want.norm()).item()
            if not error <= 0.006:  # weights and the output are rounded to bf16: 0.003
                raise RuntimeError("wrong: |got - expected| / |expected| is %.3g, must be <= 0.006" % error)

    def close(self):
        for lib, plan in self.plans:
            lib.peer_mla_close(plan)


def check(args):
    """On cpu: is rfg right?"""
    race.DEV, ctx = "cpu", rfg.Rfg(args.lib, "cpu")
    wrong = 0
    for p in (Problem(16, 2, 256), Problem(128, 1, 128)):
        p.allocate(None)
        wrong += len(race.who_is_right(p, {"rfg": p.rfg(ctx)})) < 1
    return int(wrong > 0)


def contestants(p, bench, contexts, flashinfer):
    calls = {name: attempt(name, lambda: p.rfg(ctx)) for name, ctx in contexts.items()}
    calls["flashmla"] = attempt("flashmla", p.flashmla)
    for name in ("fa2", "fa3") if flashinfer else ():
        calls[name] = attempt(name, lambda: flashinfer.call(p, name == "fa3"))
    won = attempt("triton", lambda: p.fastest_triton(bench))
    if won:
        calls["triton, " + won[0]] = won[1]
    return {name: call for name, call in calls.items() if call}


def bars(records):
    """One line for each bar that there are figures for."""
    over = [(peer / ours, r["problem"]) for r in records for peer, ours in [best(r)] if peer < math.inf]
    if over:
        mean = math.prod(x for x, _ in over) ** (1 / len(over))
        say("over the best peer: %.2fx geomean of %d (1.15), worst %.2fx (1.0): %s" % (mean, len(over), *min(over)))
    for hq in sorted({r["hq"] for r in records}):
        some = [peer / ours for r in records if r["hq"] == hq for peer, ours in [best(r)] if peer < math.inf]
        if some:
            say("  Hq=%d: %.2fx geomean, worst %.2fx" % (hq, math.prod(some) ** (1 / len(some)), min(some)))
    many = [(r["us"]["flashmla"] / best(r)[1], r["problem"]) for r in records if r["hq"] == 128 and r["b"] >= 32 and "flashmla" in r["us"]]
    if many:
        say("128 heads, B>=32, over flashmla (1.0): " + "  ".join("%.2fx" % x for x, _ in many))
    far = [(r["share"], r["problem"]) for r in records if r["hq"] <= 32 and r["bytes"] > 64e6]
    if far:
        say("at most 32 heads, over 64 MB: at least %.3f of the copy (0.90): %s" % min(far))


def best(r):
    """us of the best peer and of rfg."""
    return min((t for n, t in r["us"].items() if n != "rfg"), default=math.inf), r["us"].get("rfg", math.inf)


def measure(args, bench, records):
    stream = bench.stream.cuda_stream
    contexts = {"rfg": rfg.Rfg(args.lib, args.device, args.db, False, stream)}
    flashinfer = args.flashinfer_lib and attempt("flashinfer", lambda: FlashInfer(args.flashinfer_lib, stream))
    head = race.measure_machine(bench)
    for sizes in PROBLEMS:
        if race.time.monotonic() - race.T0 > args.seconds:
            say("# out of time: %d of %d problems" % (len(records), len(PROBLEMS)))
            break
        p = Problem(*sizes)
        p.allocate(bench)
        calls = contestants(p, bench, contexts, flashinfer)
        r = race.measured(bench, p, calls, contexts, head)
        r.update(hq=p.hq, b=p.b, s=p.s, tflops={n: p.flops / us / 1e6 for n, us in r["us"].items()})
        say("    %.0f TFLOP/s, %s" % (r["tflops"].get("rfg", 0), "; ".join(r["rfg"])))
        records.append(r)
        race.save(args.json, head, records)
        p.close()
        del p, calls
        gc.collect()
        torch.cuda.empty_cache()
    bars(records)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0; cpu: check only")
    p.add_argument("--tune", metavar="RFG_TUNE", help="the program that tunes the problems before")
    p.add_argument("--tune-options", default="--per-shape 0.4", help="for it, as one word (default %(default)s)")
    p.add_argument("--db", help="tuned database (default: one that is thrown away)")
    p.add_argument("--flashinfer-lib", metavar="FILE", help="flashinfer_mla of bench/peers/build.sh")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=1e9, help="begin no problem later than this after the start")
    p.add_argument("--json", metavar="FILE", help="everything measured")
    args, records = p.parse_args(), []
    if args.device == "cpu":
        return check(args)
    with tempfile.TemporaryDirectory() as folder:
        args.db = args.db or os.path.join(folder, "tuned.db")
        if args.tune:
            texts = [Problem(*sizes).text for sizes in PROBLEMS if sizes[2] <= TUNED_KEYS]
            race.tune(args, texts, overlap=False)
            say("# tuned: %.0f s" % (race.time.monotonic() - race.T0))
        gc.disable()  # not in the middle of a capture, but after each problem
        bench = race.Bench(args.rounds, max_sets=4)
        bench.on_stream(lambda: measure(args, bench, records))
        bench.say_seconds()
    return int(len(records) < len(PROBLEMS))


if __name__ == "__main__":
    sys.exit(main())
