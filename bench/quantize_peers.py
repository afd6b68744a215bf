#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rfg_op_quantize beside its peers, on one NVIDIA GPU with PyTorch.

    bench/quantize_peers.py --lib build/librfg.so [--db tuned.db] [--m 1,64,4096] [--n 7168] [--kinds group,token] [--json FILE]

bf16 to e4m3. A kind is what shares a scale, and its rule: group (128 columns, f32), token (a row, f32), mx (32 columns, e8m0,
rounded up), static (the tensor's f32 scale, read). All contestants run in this process on the same buffers, in graphs of dependent
calls over so many sets of x, q and scales that x exceeds 4x the L2, replayed in turn; before each timed replay 4x the L2 is read.
Figures are medians in microseconds. Each contestant's codes and scales are compared with eager PyTorch's first: rfg's must be the
same, of a peer's one code in 500 may differ, and scales by 2^-22; who is wrong or fails is named and left out.

  rfg         rfg_op_quantize; rfg+ov: with launch_overlap; untuned: with no tuned database
  torch       torch.compile of the same formula
  flashinfer  flashinfer.mxfp8_quantize, scales not swizzled, where it can be imported (mx)
  copy        bytes at the speed of a copy of 1 GB, which is what 0.95 is wanted of; floor: with 1.25 us more

At the end each kind's geometric mean over the best peer, and the bars. Exit: 0; 1 nothing measured; 2 bad usage."""

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

KINDS = {  # group_cols, problem's words, params
    "group": (128, "f32", "group_rows=1 group_cols=128", dict(group_rows=1, group_cols=128)),
    "token": (0, "f32", "group_rows=1", dict(group_rows=1)),
    "mx": (32, "e8m0", "group_rows=1 group_cols=32 rounding=up", dict(group_rows=1, group_cols=32, rounding=1)),
    "static": (0, "f32", "", dict(scale_given=1)),
}
MAX = 448.0
FLOOR = 1 / (512 * MAX)


def formula(kind):
    """x, given scale -> codes, scales: in eager PyTorch each step is fp32's, rounded to nearest. (By a number, which lies
    on the host, a GPU divides by multiplying with its reciprocal; by a tensor it divides.)"""
    cols = KINDS[kind][0]
    most = torch.tensor(MAX, device=race.DEV)

    def coded(v):
        return v.clamp(-MAX, MAX).to(torch.float8_e4m3fn)

    def grouped(x, given):
        v = x.float().view(x.shape[0], -1, cols or x.shape[1])
        s = (v.abs().amax(2) / most).clamp_min(FLOOR)
        return coded(v / s[:, :, None]).view(x.shape), s

    def mx(x, given):
        v = x.float().view(x.shape[0], -1, cols)
        u = (v.abs().amax(2) / most).view(torch.int32)
        b = ((u + 0x7FFFFF) >> 23).clamp(0, 254)  # the power of two that isn't below
        s = (b << 23).view(torch.float32).clamp_min(2.0**-127)
        return coded(v / s[:, :, None]).view(x.shape), b.to(torch.uint8)

    def static(x, given):
        return coded(x.float() / given), given

    return {"mx": mx, "static": static}.get(kind, grouped)


class Problem:
    def __init__(self, kind, m, n):
        self.kind, self.m, self.n = kind, m, n
        self.cols, self.scale, words, self.params = KINDS[kind]
        self.groups = n // self.cols if self.cols else 1
        scales = 1 if kind == "static" else m * self.groups
        self.bytes = 3 * m * n + scales * (1 if self.scale == "e8m0" else 4)
        self.attrs = words
        self.text = "quantize bf16->e4m3,%s M=%d N=%d %s" % (self.scale, m, n, words)

    def allocate(self, bench):
        s = self.n_sets = bench.sets(2 * self.m * self.n)
        self.n_calls = bench.calls(s, self.bytes)
        generator = torch.Generator(device=race.DEV).manual_seed(1)
        self.x = torch.empty(s, self.m, self.n, device=race.DEV, dtype=torch.bfloat16)
        for i in range(s):
            self.x[i] = torch.randn(self.m, self.n, device=race.DEV, generator=generator)
        self.q = torch.empty(s, self.m, self.n, device=race.DEV, dtype=torch.float8_e4m3fn)
        rows = 1 if self.kind == "static" else self.m
        dtype = torch.float8_e8m0fnu if self.scale == "e8m0" else torch.float32
        self.s = torch.empty(s, rows, self.groups, device=race.DEV, dtype=dtype)
        if self.kind == "static":
            self.s.fill_(0.011)
        self.want = formula(self.kind)(self.x[0], self.s[0])
        bench.stream.synchronize()


def measure(bench, p, contexts, compiled):
    p.allocate(bench)
    calls = {}
    for name, ctx in contexts.items():
        made = [ctx.quantize(p.q[i], p.s[i], p.x[i], **p.params) for i in range(p.n_sets)]
        calls[name] = lambda i, made=made: made[i]()
    calls["torch"] = lambda i: compiled[p.kind](p.x[i], p.s[i])
    if p.kind == "mx":
        try:
            import flashinfer

            calls["flashinfer"] = lambda i: flashinfer.mxfp8_quantize(p.x[i], is_sf_swizzled_layout=False)
        except ImportError as e:
            say("# left out: flashinfer: %s" % e)

    def check(name):
        got = calls[name](0)
        ours = got is None
        q, s = (p.q[0], p.s[0]) if ours else got
        bench.stream.synchronize()
        allowed = 0 if ours else p.m * p.n // 500

        def bits(t):
            return t.reshape(-1).view(torch.int32 if t.dtype == torch.float32 else torch.uint8)

        for what, a, b in (("codes", q, p.want[0]), ("scales", s, p.want[1])):
            off = bits(a) != bits(b)
            if not ours and b.dtype == torch.float32:  # what torch.compile divides by a constant may be off in the last bits
                off = (a.reshape(-1) - b.reshape(-1)).abs() > b.reshape(-1).abs() * 2**-22
            wrong = off.sum().item()
            if wrong > (allowed if what == "codes" else 0 if ours else b.numel() // 100):
                raise ValueError("wrong: %d of %d %s differ" % (wrong, b.numel(), what))

    return bench.times(p, calls, check)


def report(records):
    say("\n%-7s %6s %9s %9s %9s %9s" % ("kind", "M", "over peer", "of copy", "of floor", "untuned"))
    for r in records:
        ours = min(r["ours"], default=math.nan)
        untuned = r["us"].get("rfg", math.nan) / r["us"].get("untuned", math.nan)
        say("%-7s %6d %8.2fx %9.2f %9.2f %9.2f" % (r["kind"], r["m"], (r["peer"] or math.nan) / ours, r["copy"] / ours,
                                                    r["floor"] / ours, untuned))  # fmt: skip
    for kind in dict.fromkeys(r["kind"] for r in records):
        gains = [r["peer"] / min(r["ours"]) for r in records if r["kind"] == kind and r["peer"] and r["ours"]]
        if gains:
            say("%s: %.2fx of the best peer" % (kind, math.exp(sum(map(math.log, gains)) / len(gains))))


def of_copy(r, ours, gbps):
    return r["copy"] / r["us"].get(ours, math.nan), None


def over_peer(r, ours, gbps):
    return (r["peer"] or math.nan) / r["us"].get(ours, math.nan), None


BARS = (
    ("4096 x 7168: share of the copy", lambda r: (r["m"], r["n"]) == (4096, 7168), of_copy, "worst", True, 0.95, 0.95),
    ("1 to 64 rows: x best peer", lambda r: r["m"] <= 64, over_peer, "mean", True, 1.3, 1.3),
)


def main(argv=None):
    p = race.arguments(__doc__)
    p.add_argument("--m", default="1,16,64,512,4096,16384")
    p.add_argument("--n", default="7168")
    p.add_argument("--kinds", default="group,token,mx,static")
    args = p.parse_args(argv)
    kinds = args.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        p.error("--kinds %s: must be of %s" % (args.kinds, ", ".join(KINDS)))
    try:
        sizes = [(int(m), int(n)) for n in args.n.split(",") for m in args.m.split(",")]
    except ValueError as e:
        p.error("--m, --n: %s" % e)
    if any(n % 128 for _, n in sizes):
        p.error("--n %s: must be multiples of 128" % args.n)
    problems = [Problem(kind, m, n) for kind in kinds for m, n in sizes]
    if args.shapes:
        with open(args.shapes, "w") as f:
            f.write("op,dtype,M,N,K,attrs\n")
            for q in problems:
                f.write('quantize,"bf16->e4m3,%s",%d,%d,,%s\n' % (q.scale, q.m, q.n, q.attrs))
        return 0
    bench = race.Bench(args.rounds)
    contexts = rfg.contexts(args.lib, args.db, bench.stream.cuda_stream)
    torch._dynamo.config.cache_size_limit = 1000
    compiled = {kind: torch.compile(formula(kind), dynamic=False) for kind in kinds}

    def run():
        head, records = race.measure_machine(bench), []
        for q in problems:
            times = attempt(q.text, lambda: measure(bench, q, contexts, compiled))
            if not times:
                continue
            us = {n: race.median(t) for n, t in times.items()}
            peers = [t for n, t in us.items() if n in ("torch", "flashinfer")]
            copy = q.bytes / head["copy_gbps"] / 1e3
            records.append(dict(race.figures(times), problem=q.text, kind=q.kind, m=q.m, n=q.n, copy=copy, floor=copy + 1.25,
                                ours=[us[n] for n in ("rfg", "rfg+ov") if n in us], peer=min(peers, default=None)))  # fmt: skip
            line = "  ".join("%s %.2f" % x for x in us.items())
            say("%-6s M=%-5d N=%-5d copy %.2f  %s" % (q.kind, q.m, q.n, copy, line))
            say("#   %s" % race.chosen(contexts["rfg"], q.text))
        if records:
            report(records)
            for ours in ("rfg", "rfg+ov"):
                lines = gemm_bars.lines(records, ours, math.nan, BARS, lambda r: "%s M=%d N=%d" % (r["kind"], r["m"], r["n"]))
                say("\n%s:\n  %s" % (ours, "\n  ".join(lines)))
            race.save(args.json, head, records)
        return 0 if records else 1

    return bench.finish(run)


if __name__ == "__main__":
    sys.exit(main())
