#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mla_decode beside FlashMLA and a copy's bandwidth, on one NVIDIA GPU, in one process. About a minute; with --tune
three more, most of which the host checks candidates.

    bench/mla_peers.py --tune build/bin/rfg-tune [--lib build/librfg.so] [--db tuned.db] [--json FILE]
    bench/mla_peers.py --device cpu        # no times: is rfg right?

Contestants of a problem are captured in graphs of as many calls and replayed in turn on cold buffers (peers/race.py).
Each one's results are checked first. --tune has rfg-tune write the problems' rows to --db (default: one that is thrown
away) before anything is measured.

  rfg       through ctypes
  flashmla  FlashMLA's dense kernel for sm_90, as the package sgl-flash-mla keeps it (use_legacy), its plan made before.
            It takes 64 and 128 heads alone: with fewer, q is padded to 64, as vLLM and SGLang do

bf16, D=576 Dv=512, pages of 64, all sequences as long. The bars: over FlashMLA 1.15 times as fast (geomean), nowhere
slower; with 128 heads and 32 sequences or more its TFLOP/s; with at most 32 heads and more than 64 MB 0.90 of the copy."""

import argparse
import gc
import math
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import rfg  # noqa: E402

import torch  # noqa: E402

import race  # noqa: E402
from race import attempt, say  # noqa: E402

BF16, F32 = torch.bfloat16, torch.float32
D, DV, PAGE, SCALE = 576, 512, 64, 192**-0.5
# heads, sequences, keys
PROBLEMS = [(h, b, s) for h in (16, 64, 128) for b, s in ((1, 1024), (1, 8192), (8, 8192), (32, 1024), (32, 8192), (128, 1024), (128, 8192))]


class Problem:
    def __init__(self, heads, sequences, keys):
        self.hq, self.b, self.s = heads, sequences, keys
        self.text = "mla_decode bf16->bf16 B=%d Hq=%d D=%d S=%d Dv=%d page=%d" % (sequences, heads, D, keys, DV, PAGE)
        self.bytes = sequences * (keys * D * 2 + heads * (D + DV) * 2)
        self.flops = 2 * sequences * heads * keys * (D + DV)

    def allocate(self, bench):
        self.n_sets = bench.sets(self.bytes) if bench else 2
        self.n_calls = bench.calls(self.n_sets, self.bytes) if bench else 2
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

    def check(self, call):
        self.out.fill_(math.nan)
        got = call(0)
        for b in (0, self.b - 1):
            kv = self.kv[0][self.table[b].long()].view(-1, D).double()
            want = torch.softmax(self.q[0, b].double() @ kv.T * SCALE, -1) @ kv[:, :DV]
            error = ((got[b].double() - want).norm() / want.norm()).item()
            if not error <= 0.006:  # weights and the output are rounded to bf16: 0.003
                raise RuntimeError("wrong: |got - expected| / |expected| is %.3g, must be <= 0.006" % error)


def check(args):
    """On cpu: is rfg right?"""
    race.DEV, ctx = "cpu", rfg.Rfg(args.lib, "cpu")
    wrong = 0
    for p in (Problem(16, 2, 256), Problem(128, 1, 128)):
        p.allocate(None)
        wrong += len(race.who_is_right(p, {"rfg": p.rfg(ctx)})) < 1
    return int(wrong > 0)


def measure(args, bench, records):
    contexts = {"rfg": rfg.Rfg(args.lib, args.device, args.db, False, bench.stream.cuda_stream)}
    head = race.measure_machine(bench)
    for sizes in PROBLEMS:
        p = Problem(*sizes)
        p.allocate(bench)
        calls = {"rfg": attempt("rfg", lambda: p.rfg(contexts["rfg"])), "flashmla": attempt("flashmla", p.flashmla)}
        r = race.measured(bench, p, {n: call for n, call in calls.items() if call}, contexts, head)
        r["tflops"] = {n: p.flops / us / 1e6 for n, us in r["us"].items()}
        say("    %s | %s" % ("  ".join("%s %.0f TFLOP/s" % x for x in r["tflops"].items()), "; ".join(r["rfg"])))
        records.append(r)
        del p, calls
        gc.collect()
        torch.cuda.empty_cache()
    race.measure_copy_again(bench, head)
    over = [r["us"]["flashmla"] / r["us"]["rfg"] for r in records if len(r["us"]) == 2]
    if over:
        say("over flashmla: %.2fx geomean, worst %.2fx" % (math.prod(over) ** (1 / len(over)), min(over)))
    race.save(args.json, head, records)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0; cpu: check only")
    p.add_argument("--tune", metavar="RFG_TUNE", help="the program that tunes the problems before")
    p.add_argument("--tune-options", default="", help="for it, as one word")
    p.add_argument("--db", help="tuned database (default: one that is thrown away)")
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--json", metavar="FILE", help="everything measured")
    args, records = p.parse_args(), []
    if args.device == "cpu":
        return check(args)
    with tempfile.TemporaryDirectory() as folder:
        args.db = args.db or os.path.join(folder, "tuned.db")
        if args.tune:
            race.tune(args, [Problem(*sizes).text for sizes in PROBLEMS], overlap=False)
        gc.disable()  # not in the middle of a capture, but after each problem
        bench = race.Bench(args.rounds, max_sets=4)
        bench.on_stream(lambda: measure(args, bench, records))
        bench.say_seconds()
    return int(len(records) < len(PROBLEMS))


if __name__ == "__main__":
    sys.exit(main())
