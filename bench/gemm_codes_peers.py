#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The GEMM of fp8 weights and activations beside its peers, on one NVIDIA GPU with PyTorch.

    bench/gemm_codes_peers.py --lib build/librfg.so --db tuned.db [--m 1,8,16] [--per tensor,row,block] [--fast] [--json FILE]

A problem is DeepSeek's [N,K] (or --nk 2112x7168,...), M rows of e4m3, fp32 scales of tensors, of rows (tokens and channels) or of
blocks (1x128 by 128x128), bf16 out. All contestants run in this process on the same buffers, in graphs of dependent calls over so
many sets of x, w and y that the weights exceed 4x the L2, replayed in turn; before each timed replay 4x the L2 is read. Figures are
medians in microseconds. Each contestant's result is compared with PyTorch's in fp64 first; who is wrong or fails is named and left out.

  rfg       rfg_op_gemm, --fast: with fast_accum; rfg+ov: with launch_overlap; untuned: with no tuned database
  torch     torch._scaled_mm (tensor, row), torch.nn.functional.scaled_mm (block), with and without fast accumulation: cuBLASLt, CUTLASS
  deepgemm  deep_gemm.fp8_gemm_nt, where a module deep_gemm can be imported (block)
  floor     max(bytes at the copy's speed, flops at 1979 TFLOPS) + 1.25 us

At the end geometric means over the best peer, times over the floor, and the bars. Exit: 0; 1 nothing measured; 2 bad usage."""

import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import gemm_bars  # noqa: E402
import rfg  # noqa: E402

import torch  # noqa: E402

import race  # noqa: E402
from race import attempt, say  # noqa: E402

NK = "2112x7168,7168x2048,24576x1536,4096x7168"
PER = ("tensor", "row", "block")
BLOCK = 128
FP8_TFLOPS = 1979


class Problem:
    def __init__(self, per, m, n, k, fast):
        self.per, self.m, self.n, self.k, self.fast = per, m, n, k, fast
        self.weight_bytes = n * k
        self.bytes = n * k + m * k + 2 * m * n
        if per == "block":
            self.bytes += 4 * (m * -(-k // BLOCK) + -(-n // BLOCK) * -(-k // BLOCK))
        said = " x_scale=f32 w_scale=f32" + ("" if per == "tensor" else " x_per=%s w_per=%s" % (per, per))
        said += " fast=1" if fast else ""
        self.text = "gemm e4m3,e4m3->bf16 M=%d N=%d K=%d%s" % (m, n, k, said)

    def allocate(self, bench):
        s = self.n_sets = bench.sets(self.weight_bytes)
        self.n_calls = bench.calls(s, self.bytes)
        generator = torch.Generator(device=race.DEV).manual_seed(1)

        def codes(rows):
            made = torch.empty(s, rows, self.k, device=race.DEV, dtype=torch.float8_e4m3fn)
            for i in range(s):
                made[i] = torch.randn(rows, self.k, device=race.DEV, generator=generator).to(torch.float8_e4m3fn)
            return made

        def scales(rows, cols):
            return torch.rand(rows, cols, device=race.DEV, generator=generator) + 0.5

        self.x, self.w = codes(self.m), codes(self.n)
        self.y = torch.empty(s, self.m, self.n, device=race.DEV, dtype=torch.bfloat16)
        kb, nb = -(-self.k // BLOCK), -(-self.n // BLOCK)
        x, w = self.x[0].double(), self.w[0].double()
        if self.per == "tensor":
            self.sx, self.sw = scales(1, 1)[0], scales(1, 1)[0]
            x, w = x * self.sx, w * self.sw
        elif self.per == "row":
            self.sx, self.sw = scales(self.m, 1), scales(self.n, 1)
            x, w = x * self.sx, w * self.sw
        else:
            self.sx, self.sw = scales(kb, self.m).t(), scales(nb, kb)  # x's by columns, as the peers have them
            x = x * self.sx.repeat_interleave(BLOCK, 1)[:, : self.k]
            w = w * self.sw.repeat_interleave(BLOCK, 0)[: self.n].repeat_interleave(BLOCK, 1)[:, : self.k]
        self.exact = x @ w.t()
        self.size = (x.abs() @ w.abs().t()).max().item()
        bench.stream.synchronize()

    def floor(self, copy):
        return max(self.bytes / copy / 1e3, 2e-6 * self.m * self.n * self.k / FP8_TFLOPS) + 1.25


def torch_calls(p):
    out = {}
    for fast in (False, True):
        name = "torch" + ("+fast" if fast else "")
        if p.per == "block":
            F = torch.nn.functional
            recipes = (F.ScalingType.BlockWise1x128, F.ScalingType.BlockWise128x128)
            if fast:
                continue
            out[name] = lambda i: F.scaled_mm(p.x[i], p.w[i].t(), p.sx, recipes[0], p.sw.t(), recipes[1], output_dtype=torch.bfloat16)
        else:
            sw = p.sw.t() if p.per == "row" else p.sw
            out[name] = lambda i, fast=fast: torch._scaled_mm(
                p.x[i], p.w[i].t(), scale_a=p.sx, scale_b=sw, out_dtype=torch.bfloat16, use_fast_accum=fast
            )
    return out


def deepgemm_calls(p):
    if p.per != "block":
        return {}
    try:
        import deep_gemm
    except ImportError as e:
        say("# left out: deepgemm: %s" % e)
        return {}
    return {"deepgemm": lambda i: deep_gemm.fp8_gemm_nt((p.x[i], p.sx), (p.w[i], p.sw), p.y[i])}


def measure(bench, p, contexts):
    p.allocate(bench)
    calls = {}
    for name, ctx in contexts.items():
        made = [ctx.gemm(p.y[i], p.x[i], p.w[i], p.sx, p.sw, PER.index(p.per), p.fast) for i in range(p.n_sets)]
        calls[name] = lambda i, made=made: made[i]()
    calls.update(torch_calls(p))
    calls.update(deepgemm_calls(p))

    def check(name):
        got = calls[name](0)
        bench.stream.synchronize()
        got = p.y[0] if got is None else got
        error = (got.double() - p.exact).abs().max().item()
        limit = p.size * 2**-7  # fp8's own instructions keep about 14 bits of a sum
        if not error <= limit:
            raise ValueError("wrong: off by %.3g, allowed %.3g" % (error, limit))

    return bench.times(p, calls, check)


def report(records, copy):
    say("\n%-7s %6s %9s %9s %9s %s" % ("per", "M", "over peer", "over floor", "untuned", "problems"))
    for key in sorted({(r["per"], r["m"]) for r in records}, key=lambda k: (PER.index(k[0]), k[1])):
        some = [r for r in records if (r["per"], r["m"]) == key]

        def mean(values):
            values = [v for v in values if v]
            return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan

        gains = [r["peer"] / min(r["ours"]) for r in some if r["peer"] and r["ours"]]
        floors = [min(r["ours"]) / r["floor"] for r in some if r["ours"]]
        untuned = [r["us"]["rfg"] / r["us"]["untuned"] for r in some if "rfg" in r["us"] and "untuned" in r["us"]]
        say("%-7s %6d %8.2fx %9.2f %9.2f %d" % (*key, mean(gains), mean(floors), mean(untuned), len(some)))


def of(per, least, most):
    return lambda r: r["per"] in per and least <= r["m"] <= most


def over_floor(r, ours, gbps):
    return r["us"].get(ours, math.nan) / r["floor"], None


def over_peer(r, ours, gbps):
    return (r["peer"] or math.nan) / r["us"].get(ours, math.nan), None


def bars():
    """As gemm_bars.BARS."""
    out = []
    for per, peer, many in (("tensor", 1.5, 0.95), ("row", 2.0, 0.95), ("block", 1.5, 1.0)):
        out += [
            ("%s, M <= 16: time / floor" % per, of([per], 1, 16), over_floor, "mean", False, 1.2, 1.2),
            ("%s, M <= 16: x best peer" % per, of([per], 1, 16), over_peer, "mean", True, peer, peer),
            ("%s, M 32..128: time / floor" % per, of([per], 32, 128), over_floor, "mean", False, 1.35, 1.35),
            ("%s, 1024, 4096 rows: x best peer" % per, of([per], 1024, 4096), over_peer, "mean", True, many, many),
        ]
    return out + [("M 32..128, worst problem: x best peer", of(PER, 32, 128), over_peer, "worst", True, 1.0, 1.0)]


def main(argv=None):
    p = race.arguments(__doc__)
    p.add_argument("--m", default="1,8,16,64,128")
    p.add_argument("--nk", default=NK)
    p.add_argument("--per", default=",".join(PER))
    p.add_argument("--fast", action="store_true", help="rfg's sums may have about 14 bits, as the peers' have")
    args = p.parse_args(argv)
    try:
        ms = [int(m) for m in args.m.split(",")]
        nks = [tuple(int(x) for x in nk.split("x")) for nk in args.nk.split(",")]
        problems = [Problem(per, m, n, k, args.fast) for per in args.per.split(",") for n, k in nks for m in ms]
    except ValueError as e:
        p.error("--m, --nk: %s" % e)
    if not set(args.per.split(",")) <= set(PER):
        p.error("--per %s: must be of %s" % (args.per, ", ".join(PER)))
    if args.shapes:
        with open(args.shapes, "w") as f:
            f.write("op,dtype,M,N,K,attrs\n")
            for q in problems:
                f.write('gemm,"e4m3,e4m3->bf16",%d,%d,%d,%s\n' % (q.m, q.n, q.k, q.text.split("K=%d " % q.k)[1]))
        return 0
    bench = race.Bench(args.rounds)
    contexts = rfg.contexts(args.lib, args.db, bench.stream.cuda_stream)

    def run():
        head, records = race.measure_machine(bench), []
        for q in problems:
            times = attempt(q.text, lambda: measure(bench, q, contexts))
            if not times:
                continue
            us = {n: race.median(t) for n, t in times.items()}
            peers = [t for n, t in us.items() if n.startswith(("torch", "deep"))]
            ours = [us[n] for n in ("rfg", "rfg+ov") if n in us]
            records.append(dict(race.figures(times), problem=q.text, per=q.per, m=q.m, n=q.n, k=q.k, ours=ours,
                                peer=min(peers, default=None), floor=q.floor(head["copy_gbps"])))  # fmt: skip
            line = "  ".join("%s %.2f" % x for x in us.items())
            say("%-6s M=%-4d %5dx%-5d floor %.2f  %s" % (q.per, q.m, q.n, q.k, records[-1]["floor"], line))
        if records:
            report(records, head["copy_gbps"])
            for ours in ("rfg", "rfg+ov"):
                where = "%s M=%d N=%d K=%d"
                said = gemm_bars.lines(records, ours, math.nan, bars(), lambda r: where % (r["per"], r["m"], r["n"], r["k"]))
                say("\n%s:\n  %s" % (ours, "\n  ".join(said)))
            race.save(args.json, head, records)
        return 0 if records else 1

    return bench.finish(run)


if __name__ == "__main__":
    sys.exit(main())
