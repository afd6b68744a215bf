#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model of time (emu/time, docs/perf/amd_time.md) judged by microseconds that AITER publishes, and fitted on some of them.

    clock.py trace --published DIR --aiter HSA [--flydsl DIR] [--rows N] [--only TEXT]   emulates: minutes; what it traced is kept
    clock.py names --published DIR [--rows N]                              FlyDSL's kernels that trace needs
    clock.py judge --published DIR [--param NAME=VALUE]...                 predicts all that is traced; the tables
    clock.py fit   --published DIR [--steps N]                             fits what params.def calls fitted

--published: amd_kernels.csv (gfx, cus, format, M, N, K, splitK, kernel, us). --aiter: ROCm/aiter's hsa, with gfx942/ and
gfx950/; --flydsl: what bench/flydsl_objects.py made of `names`. --cache (default .clock): traces and predictions, by what they are of; git ignores it. No GPU is needed.

Buffers are zeroes: control flow of these kernels doesn't depend on values. Rows are chosen by a hash of their problem, so
that more of them are a superset. Half of the rows (by another hash of N and K) are for fitting: those kernels and N x K of
which the other half has none are "left out" twice over. FlyDSL's rows are never fitted. The table says for each family and format: rows; median and 90th
percentile of |predicted / published - 1|; bias, the median of predicted / published."""
import argparse
import collections
import csv
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
FITTED = ["launch_us", "miss_lines", "fetch_cycles", "matrix_clock_mhz", "hbm_gbps", "hbm_half", "write_gbps"]


def digest(*words):
    return int(hashlib.sha256("|".join(map(str, words)).encode()).hexdigest()[:12], 16)


class Row:
    def __init__(self, r):
        self.gfx, self.cus, self.kernel = r["gfx"], int(r["cus"]), r["kernel"]
        self.format = r["format"] + (" flydsl" if r["library"] == "flydsl" else "")
        self.M, self.N, self.K, self.split = (int(r[k] or 0) for k in ("M", "N", "K", "splitK"))
        self.us = float(r["us"])
        self.name = self.kernel.split("E")[0] if not self.kernel.startswith("_ZN5aiter") else mangled(self.kernel)

    def key(self):
        return "%s_%d_%s_M%d_N%d_K%d_s%d" % (self.gfx, self.cus, self.name, self.M, self.N, self.K, self.split)

    def fits(self):
        """Is it for fitting?"""
        return digest("fit", self.N, self.K) % 2 == 0 and not self.never_fits()

    def problem(self):
        return self.gfx, self.cus, self.format.split()[0], self.M, self.N, self.K

    def never_fits(self):
        """Is it of kernels of another kind than those that the model was made by?"""
        return "flydsl" in self.format

    def family(self):
        return "%s %s" % (self.gfx if self.cus != 80 else "gfx942/80", self.format)


def mangled(kernel):
    """The name in _ZN5aiter<length><name>E."""
    rest = kernel[len("_ZN5aiter"):]
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return rest[digits:digits + int(rest[:digits])]


# ---- launches: the argument structures of AITER's csrc/py_itfs_cu/asm_*.cu, each member padded to 16 bytes ----------------

def words(r, values):
    """("zero", bytes), None, ints and floats; FlyDSL's aren't padded."""
    out = []
    for v in values:
        pointer = isinstance(v, tuple) or v is None
        out.append("null" if v is None else "zero:%d" % max(v[1], 16) if pointer else
                   "f32:%r" % v if isinstance(v, float) else "u32:%d" % v)
        if not r.never_fits():
            out += ["i64:0"] if pointer else ["u32:0"] * 3
    return out


def tile_of(name):
    return next(tuple(map(int, w.split("x")[:2])) for w in name.replace("_t", "_").split("_")
                if w.count("x") in (1, 2) and w.replace("x", "").isdigit())


def zero(n):
    return "zero", int(n)


def bf16(r):
    tm, tn = tile_of(r.name)
    split = max(r.split, 1)
    row = 2 * r.N
    return "bf16gemm/%s.co" % r.name, (r.N // tn, -(-r.M // tm), split), [
        zero(-(-r.M // tm) * tm * row), None, zero(2 * r.M * r.K), zero(2 * r.N * r.K), 1.0, 0.0, row, 0, row, 0, 2 * r.K, 0,
        2 * r.K, 0, r.M, r.N, r.K, split, 1, None, 0, zero(1 << 16)]


def i8(r):
    tm, tn = tile_of(r.name)
    split = max(r.split, 1)
    return "i8gemm/%s.co" % r.name, (r.N // tn * split, -(-r.M // tm), 1), [
        zero(2 * r.M * r.N), zero(r.M * r.K), zero(r.N * r.K), zero(4 * r.M), zero(4 * r.N), zero(4 * r.N), r.M, r.N, r.K, r.K,
        r.K, 2 * r.N, split]


def fp8(r):
    tm, tn = tile_of(r.name)
    split = max(r.split, 1)
    return "fp8gemm_blockscale/%s.co" % r.name, (r.N // tn * split, -(-r.M // tm), 1), [
        zero(2 * r.M * r.N), zero(r.M * r.K), zero(r.N * r.K), zero(4 * r.M * r.K // 128), zero(4 * r.N // 128 * r.K // 128),
        zero(4 * r.N), r.M, r.N, r.K, r.K, r.K, 2 * r.N, split, r.M, r.N // 128, r.K // 128]


def f4(r):
    tm, tn = tile_of(r.name)
    rows, columns, scales = -(-r.M // 256) * 256, -(-r.N // 256) * 256, -(-r.K // 256) * 8
    split = 1 << r.split
    return "f4gemm/%s.co" % r.name, (-(-r.N // tn), -(-r.M // tm), split), [
        zero(2 * rows * r.N), None, zero(r.M * r.K // 2), zero(r.N * r.K // 2), 1.0, 0.0, 0, 0, r.N, 0, r.K, 0, r.K, 0, r.M, r.N,
        r.K, zero(rows * scales), zero(columns * scales), scales, 0, scales, 0, r.split]


def flydsl(r):
    """kernels/splitk_hgemm.py's launch: D, A, B, bias, M, and what its parts of K wait for."""
    tm, tn = tile_of(r.name)
    return "flydsl/%s_N%d_K%d.co" % (r.name, r.N, r.K), (-(-r.M // tm) * (r.N // tn), max(r.split, 1), 1), [
        zero(2 * r.M * r.N), zero(2 * r.M * r.K), zero(2 * r.N * r.K), zero(2 * r.N), r.M, zero(1024), zero(1024)]


LAUNCH = {"bf16": bf16, "i8": i8, "fp8_block": fp8, "mxfp4": f4, "bf16 flydsl": flydsl}


def waves_of(r):
    """Of a workgroup."""
    return math.prod(int(n) for n in re.findall(r"_block_[mnk]_warp(\d+)", r.name)) if r.never_fits() else 4


def zeroed_first(r):
    """D is zeroed by a launch before: its bytes, else 0."""
    split = 1 << r.split if r.format == "mxfp4" else r.split
    return 2 * r.M * r.N if split > 1 and r.format in ("fp8_block", "mxfp4") else 0


# ---- rows ---------------------------------------------------------------------------------------------------------------

def published(args):
    with open(os.path.join(args.published, "amd_kernels.csv"), newline="") as f:
        rows = [Row(r) for r in csv.DictReader(f) if r["library"] == "asm" or r["kernel"].startswith("flydsl_gemm")]
    rows = [r for r in rows if r.format in LAUNCH and "small_m" not in r.name and not (args.only and args.only not in r.key())]
    several = {p for p, n in collections.Counter(r.problem() for r in rows).items() if n > 1}
    return [r for r in rows if not args.several or r.problem() in several]


def chosen(args):
    """At most --rows of each GPU and format, those of each kernel by turns; with --several of so many problems all."""
    by = {}
    if args.several:
        problems = sorted({r.problem() for r in published(args)}, key=lambda p: digest("choose", *p))[:args.rows]
        return [r for r in published(args) if r.problem() in problems]
    for r in sorted(published(args), key=lambda r: digest("choose", r.key())):
        by.setdefault(r.family(), {}).setdefault(r.name, []).append(r)
    out = []
    for kernels in by.values():
        turns = [r for i in range(max(map(len, kernels.values()))) for k in sorted(kernels) for r in kernels[k][i:i + 1]]
        out += [r for r in turns if 2.0 * r.M * r.N * r.K <= args.most_flops][:args.rows]
    return out


def trace_path(args, r):
    return os.path.join(args.cache, "traces", r.key() + ".trace")


def fitted_words(args, path, given):
    """As many as the kernel has: structures of AITER's grow at their ends, and its host code passes what it knows; what
    pads a pointer is one argument or two."""
    text = subprocess.run([args.emu, "list", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    kinds = [line.split()[1:3] for line in text.splitlines() if line.strip().split(":")[0].isdigit()]
    out, given = [], list(given)
    for kind, size in kinds:
        if given and given[0] == "i64:0" and size == "4":
            given[:1] = ["u32:0", "u32:0"]
        out.append(given.pop(0) if given else "null" if kind.startswith("pointer") else "u32:0")
    return out


def names(args):
    for name, n, k in sorted({(r.name, r.N, r.K) for r in chosen(args) if r.never_fits()}):
        print(name, n, k)
    return 0


def trace(args):
    os.makedirs(os.path.join(args.cache, "traces"), exist_ok=True)
    for n, r in enumerate(sorted(chosen(args), key=lambda r: r.M * r.N * r.K)):
        to = trace_path(args, r)
        if os.path.exists(to) or os.path.exists(to + ".failed"):
            continue
        path, grid, values = LAUNCH[r.format](r)
        path = os.path.join(args.flydsl if r.never_fits() else args.aiter, r.gfx, path)
        if not os.path.exists(path):
            continue
        command = [args.emu, "time", path, "--device", "%s:%d" % (r.gfx, r.cus), "--grid", ",".join(map(str, grid)), "--block",
                   str(64 * waves_of(r)), "--json", "--trace", to, "--rounds", str(args.rounds), "--args"] + fitted_words(args, path, words(r, values))
        try:
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=args.seconds)
            why = run.stderr.strip() if run.returncode else ""
        except subprocess.TimeoutExpired:
            why = "more than %d s" % args.seconds
        if why:
            with open(to + ".failed", "w") as f:
                f.write(why + "\n")
            print("%s: %s" % (r.key(), why.splitlines()[-1][:200]), flush=True)
        else:
            us = json.loads(run.stdout.splitlines()[-1])["us"]
            print("%4d %-90s %9.2f %9.2f" % (n, r.key(), r.us, us), flush=True)


# ---- predictions ------------------------------------------------------------------------------------------------------------

def version(args):
    """What a prediction depends on beside its trace and parameters: the program."""
    with open(args.emu, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def known_of(args, r):
    path = os.path.join(args.cache, "results", args.version, "%s.json" % r.key())
    if not os.path.exists(path):
        return path, {}
    with open(path) as f:
        return path, json.load(f)


def replay(args, rows, params):
    """rfg-emu's results of the rows' traces, kept by parameters and program."""
    key = json.dumps(sorted(params.items()))
    command = [args.emu, "time", "--replay", "--json"] + ["--param=%s=%r" % p for p in sorted(params.items())]
    run = subprocess.run(command + [trace_path(args, r) for r in rows], stdout=subprocess.PIPE, text=True, check=True)
    for r, text in zip(rows, run.stdout.splitlines()):
        path, known = known_of(args, r)
        known[key] = json.loads(text)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            json.dump(known, f)
        os.replace(path + ".new", path)


def all_predictions(args, rows, params):
    """rfg-emu's result of each row, us of both launches where D is zeroed by one before."""
    key, out = json.dumps(sorted(params.items())), []
    missing = [r for r in rows if key not in known_of(args, r)[1]]
    parts = [missing[i::args.jobs] for i in range(args.jobs) if missing[i::args.jobs]]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda part: replay(args, part, params), parts))
    for r in rows:
        p = dict(known_of(args, r)[1][key])
        if zeroed_first(r):
            p["us"] += p["launch_us"] + zeroed_first(r) / 3e6
        out.append(p)
    return out


def defaults(args, gfx):
    text = subprocess.run([args.emu, "time", "--params", "--device", gfx], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()[1:]}


def traced(args):
    """Of --newer FILE those that were traced since it was written: rows that a fit has not seen."""
    since = os.path.getmtime(args.newer) if args.newer else 0
    paths = [(r, trace_path(args, r)) for r in published(args)]
    return [r for r, path in paths if os.path.exists(path) and os.path.getmtime(path) > since]


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0] * len(values)
    for place, i in enumerate(order):
        out[i] = place
    return out


def correlation(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / sum((x - mean)**2 for x in a)


def line(name, pairs):
    """pairs: (published, predicted)."""
    errors = [abs(p / u - 1) for u, p in pairs]
    return "%-34s %5d %8.1f%% %8.1f%% %7.3f" % (name, len(pairs), 100 * quantile(errors, 0.5), 100 * quantile(errors, 0.9),
                                               quantile([p / u for u, p in pairs], 0.5))


def limit_of(p):
    """What the prediction says limits it."""
    busy = {k: v for k, v in p["busy"].items()}
    top = max(busy, key=busy.get)
    waits = max(p["waves"], key=p["waves"].get)
    return "%s %.2f, waves: %s" % (top, busy[top], waits)


def size_of(us):
    return "< 6 us" if us < 6 else "6 to 12 us" if us < 12 else "12 to 40 us" if us < 40 else "> 40 us"


def judge(args):
    rows = traced(args)
    params = dict((p.split("=")[0], float(p.split("=")[1])) for p in args.param)
    predictions = all_predictions(args, rows, params)
    pairs = [(r, r.us, p["us"], p) for r, p in zip(rows, predictions)]
    head = "%-34s %5s %9s %9s %7s" % ("", "rows", "median", "90th", "bias")

    def outside(r):
        return not r.fits() and not r.never_fits()

    def table(title, group, which):
        print("\n%s\n%s" % (title, head))
        by = {}
        for r, us, p, more in pairs:
            if which(r):
                by.setdefault(group(r, p, more), []).append((us, p))
        for name in sorted(by):
            print(line(name, by[name]))
        together = [x for some in by.values() for x in some]
        if together:
            print(line("all", together))

    table("never fitted: FlyDSL's", lambda r, p, m: r.family(), lambda r: r.never_fits())
    table("rows outside the fit, by GPU and format", lambda r, p, m: r.family(), outside)
    table("rows of the fit", lambda r, p, m: r.family(), lambda r: r.fits())
    table("outside, by published time", lambda r, p, m: size_of(r.us), outside)
    table("all rows, by kernel", lambda r, p, m: "%s %s" % (r.gfx, r.name[-30:]), lambda r: True)
    by = {}
    for r, us, p, _ in pairs:
        by.setdefault((r.family(), r.N, r.K), []).append((us, p))
    order = [correlation(*zip(*x)) for x in by.values() if len(x) >= 5]
    if order:
        print("\nrank correlation over M, of an N x K with 5 rows and more: %d of them, mean %.3f, least %.3f" %
              (len(order), sum(order) / len(order), min(order)))
    by = {}
    for r, us, p, _ in pairs:
        by.setdefault(r.problem(), []).append((p, us))
    several = [x for x in by.values() if len(x) >= 2]
    if several:
        lost = [min(x)[1] / min(us for _, us in x) for x in several]
        print("problems with two kernels and more: %d; the best by the clock is the best published in %d; its published "
              "time over that: median %.3f, worst %.3f" % (len(several), lost.count(1), quantile(lost, 0.5), max(lost)))
    print("\nthe worst ten\n%9s %9s  %s" % ("published", "predicted", "row; what the model says limits it"))
    for r, us, p, more in sorted(pairs, key=lambda x: -abs(math.log(x[2] / x[1])))[:10]:
        print("%9.2f %9.2f  %s; %s" % (us, p, r.key(), limit_of(more)))
    if args.all:
        for r, us, p, more in sorted(pairs, key=lambda x: (x[0].family(), x[0].name, x[1])):
            print("%9.2f %9.2f %6.3f  %s; %s" % (us, p, p / us, r.key(), limit_of(more)))
    return 0


# ---- the fit ----------------------------------------------------------------------------------------------------------------

def loss(args, rows, params):
    """Of logarithms: as a median, but smooth."""
    errors = [abs(math.log(p["us"] / r.us)) for r, p in zip(rows, all_predictions(args, rows, params))]
    return sum(math.sqrt(e * e + 0.03**2) for e in errors) / len(errors)


def fit(args):
    """Of each GPU: parameter by parameter, steps that shrink."""
    for gfx in sorted({r.gfx for r in traced(args)}):
        rows = [r for r in traced(args) if r.gfx == gfx and r.fits() and r.cus != 80]
        if not rows:
            continue
        start, params, step = defaults(args, gfx), {}, 0.1
        best = loss(args, rows, params)
        print("%s: %d rows, loss %.4f" % (gfx, len(rows), best), flush=True)
        for _ in range(args.steps):
            moved = False
            for name in FITTED:
                for factor in (1 + step, 1 / (1 + step)):
                    tried = dict(params, **{name: float("%.4g" % (params.get(name, start[name]) * factor))})
                    is_ = loss(args, rows, tried)
                    if is_ < best:
                        best, params, moved = is_, tried, True
                        print("  %s=%g: %.4f" % (name, tried[name], best), flush=True)
                        break
            step = step if moved else step / 2
            if step < 0.02:
                break
        print("%s: %s" % (gfx, " ".join("--param %s=%g" % p for p in sorted(params.items()))), flush=True)
    return 0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("what", choices=["trace", "names", "judge", "fit"])
    a.add_argument("--published", required=True)
    a.add_argument("--aiter", help="trace: ROCm/aiter's hsa")
    a.add_argument("--flydsl", default="", help="trace: what bench/flydsl_objects.py made")
    a.add_argument("--several", action="store_true", help="problems of which several kernels are published; --rows of them")
    a.add_argument("--emu", default=os.path.join(HERE, "..", "build", "bin", "rfg-emu"))
    a.add_argument("--cache", default=os.path.join(HERE, "..", ".clock"))
    a.add_argument("--rows", type=int, default=30, help="trace: of each GPU and format (default 30)")
    a.add_argument("--rounds", type=int, default=3, help="trace: as rfg-emu time --rounds")
    a.add_argument("--most-flops", type=float, default=3e12, help="trace: leave out larger problems")
    a.add_argument("--seconds", type=int, default=120, help="trace: give up on a row after so many")
    a.add_argument("--only", help="rows whose key has this in it")
    a.add_argument("--newer", help="judge: only what was traced after this file was written")
    a.add_argument("--param", action="append", default=[])
    a.add_argument("--steps", type=int, default=12)
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--all", action="store_true", help="judge: each row")
    args = a.parse_args()
    args.version = version(args)
    if args.what == "trace" and not args.aiter:
        a.error("trace: --aiter is missing")
    return {"trace": trace, "names": names, "judge": judge, "fit": fit}[args.what](args)


sys.exit(main())
