#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attention's bars that need no peer: heads of any size, and caches of 8 and 4 bits beside bf16's.

    bench/mha_own_bars.py --bench build/bin/rfg-bench --device nvidia:0 --tune build/bin/rfg-tune --db tuned.db
    bench/mha_own_bars.py --report FILE...        # of --json: the bars again

Each problem is timed by rfg-bench: the median of a replayed graph, cold inputs. With --tune each gets a row in --db
before; without, rows of --db (default: the user's) and of the installed database serve.

  decode, heads    time over the floor, which is the bytes of keys and values of the heads' own size over the bandwidth,
                   and a launch. At most 1.15
  prefill, heads   TFLOP/s of the heads' own flops over those of the next larger multiple of 32. At least 0.85
  caches           bf16's time over the cache's, codes with a scale a token and head. At least 1.6 (i8), 2.4 (i4)

Exit: 0 all bars hold; 1 not; 2 bad usage or nothing was measured."""

import argparse
import json
import math
import subprocess
import sys

DECODE = [(8, 72), (8, 80), (8, 112), (8, 120), (8, 160), (32, 80)]  # B, D; Hq=32 Hkv=8
WIDE = [(8, 320), (8, 512), (16, 512)]  # Hq=16 Hkv=2; 16 sequences of 8192 keys
PREFILL = [(72, 96), (80, 96), (112, 128), (120, 128), (160, 192)]
CACHES = [("i8", 1.6), ("i4", 2.4)]


def decode(b, d, more=""):
    heads, s = ("Hq=32 Hkv=8", 4096) if d < 256 else ("Hq=16 Hkv=2", 4096 if b < 16 else 8192)
    return "mha_decode bf16->bf16 B=%d %s D=%d S=%d page=16%s" % (b, heads, d, s, more)


def prefill(d):
    return "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=%d Sq=8192 S=8192 causal=1" % d


def cache(b, kv):
    return decode(b, 128, " kv=%s scales=token" % kv if kv else "")


def bars(us, gbps, launch):
    """[(text, wanted, figure, holds)] of {problem: us}; a figure is NaN where a time is missing."""
    out = []

    def number(problem, key):
        return int(problem.split(" %s=" % key)[1].split()[0])

    for problem in [decode(*x) for x in DECODE + WIDE]:
        b, hkv, d, s = (number(problem, k) for k in ("B", "Hkv", "D", "S"))
        floor = 4e-3 * b * hkv * d * s / gbps + launch
        got = us.get(problem, math.nan) / floor
        out.append(("decode B=%d D=%d S=%d: of the floor, %.1f us" % (b, d, s, floor), "<= 1.15", got, got <= 1.15))
    for d, larger in PREFILL:
        got = us.get(prefill(larger), math.nan) * d / (us.get(prefill(d), math.nan) * larger)
        out.append(("prefill 8k D=%d: TFLOP/s over D=%d's" % (d, larger), ">= 0.85", got, got >= 0.85))
    for b in (8, 32):
        for kv, wanted in CACHES:
            got = us.get(cache(b, ""), math.nan) / us.get(cache(b, kv), math.nan)
            out.append(("cache of %s, B=%d S=4096: bf16's time over its" % (kv, b), ">= %.1f" % wanted, got, got >= wanted))
    return out


def problems():
    out = [cache(b, kv) for b in (8, 32) for kv in ("", "i8", "i4")]
    out += [decode(*x) for x in DECODE + WIDE]
    return out + [prefill(d) for d in sorted({d for pair in PREFILL for d in pair})]


def measure(args):
    if args.tune:
        command = [args.tune, "--device", args.device, "--db", args.db, "--per-shape", str(args.per_shape)]
        for x in problems():
            command += ["--problem", x]
        subprocess.run(command, stdout=sys.stderr)
    command = [args.bench, "--device", args.device, "--no-check", "--json", "--max-seconds", "0.5"]
    command += ["--db", args.db] if args.db else []
    for x in problems():
        command += ["--problem", x]
    got = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in got.splitlines() if line.startswith("{")]


def show(records, gbps, launch):
    """The table and the verdicts; the number of bars that don't hold."""
    us = {ordered(r["problem"]): r["p50_us"] for r in records}
    for x in problems():
        if x in us:
            print("%9.2f us  %s" % (us[x], x))
    missed = 0
    for text, wanted, got, holds in bars(us, gbps, launch):
        missed += not holds
        verdict = "met" if holds else "not measured" if math.isnan(got) else "MISSED"
        print("%-58s %s  %.3f %s" % (text, wanted, got, verdict))
    return missed


def ordered(text):
    """The problem of problems() that this one is: rfg-bench has the keys in an order of its own."""
    for x in problems():
        if sorted(x.split()) == sorted(text.split()):
            return x
    return text


def self_test():
    us = {x: 100.0 for x in problems()}
    us[cache(8, "")], us[cache(8, "i4")] = 34.5, 14.0
    us[decode(8, 80)] = 4e-3 * 8 * 8 * 80 * 4096 / 4300 + 1.25
    us[prefill(72)] = 80.0
    got = {text: (figure, holds) for text, _, figure, holds in bars(us, 4300, 1.25)}
    assert abs(got["cache of i4, B=8 S=4096: bf16's time over its"][0] - 2.464) < 1e-3
    assert got["cache of i8, B=8 S=4096: bf16's time over its"] == (0.345, False)
    assert [v for t, v in got.items() if t.startswith("decode B=8 D=80 ")] == [(1.0, True)]
    assert abs(got["prefill 8k D=72: TFLOP/s over D=96's"][0] - 0.9375) < 1e-9
    assert math.isnan(bars({}, 4300, 1.25)[0][2]) and not bars({}, 4300, 1.25)[0][3]
    assert ordered("mha bf16->bf16 B=1 Hq=32 Hkv=8 D=72 S=8192 Sq=8192 causal=1") == prefill(72)
    print("mha_own_bars: fine")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default="build/bin/rfg-bench", help="(default %(default)s)")
    p.add_argument("--tune", metavar="RFG_TUNE", help="tune each problem first; needs --db")
    p.add_argument("--per-shape", type=float, default=1.0, help="seconds of tuning each (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="(default %(default)s)")
    p.add_argument("--db", help="the tuned database")
    p.add_argument("--gbps", type=float, default=4300, help="of memory (default %(default)s, an H200's)")
    p.add_argument("--launch-us", type=float, default=1.25, help="of the floor (default %(default)s)")
    p.add_argument("--json", metavar="FILE", help="what rfg-bench said")
    p.add_argument("--report", nargs="+", metavar="FILE", help="print what such files hold and leave")
    p.add_argument("--list", action="store_true", help="print the problems and leave")
    p.add_argument("--self-test", action="store_true")
    args = p.parse_args()
    if args.tune and not args.db:
        p.error("--tune: must be with --db")
    if args.self_test:
        return self_test()
    if args.list:
        return print("\n".join(problems()))
    records = []
    for path in args.report or []:
        with open(path) as f:
            records += json.load(f)
    if not args.report:
        records = measure(args)
        if args.json:
            with open(args.json, "w") as f:
                json.dump(records, f, indent=1)
    if not records:
        print("mha_own_bars: nothing was measured", file=sys.stderr)
        return 2
    return 1 if show(records, args.gbps, args.launch_us) else 0


if __name__ == "__main__":
    sys.exit(main())
