#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The decode GEMM beside its peers and its floor, on one NVIDIA GPU with PyTorch, Triton and nvcc.

    bench/gemm_peers.py --lib build/librfg.so --db tuned.db [--models shapes/*.csv] [--json FILE]
    bench/gemm_peers.py --lib build/librfg.so --db tuned.db --repeat 10000
    bench/gemm_peers.py --lib build/librfg.so --db tuned.db --format fp8|i4|mxfp4 [that program's options]
    bench/gemm_peers.py --lib build/librfg.so --db tuned.db --format all [--json FILE]

Of bf16 (and fp16), unless --format names another: fp8 is bench/gemm_codes_peers.py, i4 and mxfp4 are bench/gemm_w4_peers.py, whose --help say
what they take; all runs one after the other, with options that all of them have, and writes FILE.bf16, FILE.fp8 and so on.

All contestants of a problem run in this process, in one stream, on the same buffers: each is captured in a graph of
the same number of dependent calls that goes through the same sets of x, w and y (so many that the weights exceed 4x the
L2); the graphs are replayed in turn, whoever begins changing from round to round, and before each timed replay 4x the
L2 is read. Every figure is the median over the rounds, divided by the calls, in microseconds. Each contestant's result
is compared with PyTorch's in fp64 first; who is wrong or fails is left out and named.

  rfg       rfg_op_gemm through ctypes; rfg+ov: with launch_overlap (programmatic dependent launch), which takes the
            databases' rows of overlap=1 (rfg-tune --overlap) where there are any; untuned: with no tuned database at
            all, so that the analytical model picks (no overlap)
  cublas    torch.mm with cuBLAS, cublaslt: with cuBLASLt; lt: the fastest of all that cuBLASLt's heuristics offer (64
            at most). The vendor is the fastest of the three
  triton    a split-K kernel, the fastest of about 80 configurations (peers/triton_gemm.py). Peers: vendor and Triton
  floor     a kernel that only reads the weights, the fastest of 22 configurations; floor+ov: with programmatic
            dependent launch

The problems are those of the K=7168 decode grid, built in, or of --shapes; those of --models come after them, shuffled,
so that a run cut short has seen a fair sample. The bars are printed at the end. --repeat N checks instead that N
replays of ours are equal bit by bit while another stream works. The libraries of bench/peers/build.sh are built on the
way unless they are named. Exit: 0; 1 nothing measured, the GPU failed, or --repeat found a difference; 2 bad usage."""

import argparse
import csv
import ctypes
import gc
import math
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import gemm_bars as bars  # noqa: E402
import rfg  # noqa: E402

import torch  # noqa: E402

import race  # noqa: E402
import triton_gemm  # noqa: E402
from floor import Floor, built, checked  # noqa: E402
from race import attempt, say  # noqa: E402

GRID = [(m, n, 7168) for n in (64, 384, 512, 1024) for m in (1, 2, 4, 8, 16, 32, 64, 128)]
DTYPES = {"bf16": "bfloat16", "f16": "float16"}
WORKSPACE = 64 << 20  # cuBLASLt's
PEERS = ("cublas", "cublaslt", "lt", "triton", "floor", "overlap", "untuned")


# ---- problems ---------------------------------------------------------------------------------------------------


class Problem:
    def __init__(self, dtype, m, n, k):
        self.dtype, self.m, self.n, self.k = dtype, m, n, k
        self.grid = dtype == "bf16" and (m, n, k) in GRID
        self.weight_bytes = 2 * n * k
        self.bytes = 2 * (n * k + m * k + m * n)
        self.text = "gemm %s,%s->%s M=%d N=%d K=%d" % (dtype, dtype, dtype, m, n, k)

    def allocate(self, bench):
        s = self.n_sets = bench.sets(self.weight_bytes)
        self.n_calls = bench.calls(s, self.bytes)
        self.short = 64 if self.bytes < 64 << 20 else 4  # calls in the races that choose

        def matrices(make, rows, cols):
            """In one piece, each aligned to 256 bytes."""
            step = -(-rows * cols // 128) * 128
            flat = make(s * step, device=race.DEV, dtype=getattr(torch, DTYPES[self.dtype]))
            return [flat[i * step :][: rows * cols].view(rows, cols) for i in range(s)]

        self.x, self.w = matrices(torch.randn, self.m, self.k), matrices(torch.randn, self.n, self.k)
        self.y = matrices(torch.empty, self.m, self.n)
        self.wt = [w.t() for w in self.w]
        self.exact = self.x[0].double() @ self.w[0].double().t()
        # What rounding the exact result costs: nobody's largest error can be much less.
        self.rounding = (self.exact.to(self.y[0].dtype).double() - self.exact).abs().max().item()
        bench.stream.synchronize()  # rfg+ov reads weights ahead of the work before it


def read_shapes(paths, most_m):
    """Problems of CSV files with a header op,dtype,M,N,K[,attrs]; and how many were of more than `most_m` rows."""
    out, beyond = [], 0
    for path in paths:
        with open(path, newline="") as f:
            rows = csv.DictReader(f)
            for row in rows:
                at = "%s:%d: " % (path, rows.line_num)
                missing = [c for c in ("op", "dtype", "M", "N", "K") if not row.get(c)]
                if missing:
                    raise ValueError("%sno %s: needs op,dtype,M,N,K" % (at, ", ".join(missing)))
                if row["op"] != "gemm" or row["dtype"] not in DTYPES or (row.get("attrs") or "").strip():
                    raise ValueError(
                        "%sop %s dtype %s attrs '%s': must be gemm of bf16 or f16 without attributes"
                        % (at, row["op"], row["dtype"], row.get("attrs") or "")
                    )
                try:
                    m, n, k = (int(row[c]) for c in "MNK")
                except ValueError as e:
                    raise ValueError("%s%s" % (at, e)) from None
                if min(m, n) < 1 or k < 8 or k % 8:
                    raise ValueError("%sM=%d N=%d K=%d: M, N >= 1, K a multiple of 8" % (at, m, n, k))
                if m > most_m:
                    beyond += 1
                else:
                    out.append(Problem(row["dtype"], m, n, k))
    return out, beyond


def problems(args):
    """Without repetitions."""
    beyond = [0, 0]
    if args.shapes:
        first, beyond[0] = read_shapes(args.shapes, args.most_m)
    else:
        first = [Problem("bf16", *mnk) for mnk in GRID if not args.quick or mnk[0] in (1, 8, 64)]
    then, beyond[1] = read_shapes(args.models, args.most_m)
    random.Random(0).shuffle(then)
    if args.quick:
        then = then[:8]
    if sum(beyond):
        say("# %d problems of more than %d rows are not measured" % (sum(beyond), args.most_m))
    return list({p.text: p for p in first + then}.values())


# ---- peers ------------------------------------------------------------------------------------------------------


class CublasLt:
    """Of peers/cublaslt.cu."""

    def __init__(self, path, stream):
        self.lib, self.stream = ctypes.CDLL(path), stream
        v, i64, i, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_uint64
        self.lib.peer_lt_open.argtypes = [ctypes.POINTER(v), i, i64, i64, i64, u64, ctypes.POINTER(i)]
        self.lib.peer_lt_run.argtypes = [v, i, v, v, v, v, u64, v]
        self.lib.peer_lt_describe.argtypes = [v, i, ctypes.c_char_p, ctypes.c_size_t]
        self.lib.peer_lt_close.argtypes = [v]
        self.workspace = torch.empty(WORKSPACE, device=race.DEV, dtype=torch.uint8)

    def candidates(self, p):
        """[(label, call of a set)], in the heuristics' order; until close()."""
        self.plan, found = ctypes.c_void_p(), ctypes.c_int()
        checked(
            self.lib.peer_lt_open(self.plan, p.dtype == "f16", p.m, p.n, p.k, WORKSPACE, ctypes.byref(found)),
            "cublasLtMatmulAlgoGetHeuristic",
        )
        run, plan, space, stream = self.lib.peer_lt_run, self.plan, self.workspace.data_ptr(), self.stream
        args = [(p.w[i].data_ptr(), p.x[i].data_ptr(), p.y[i].data_ptr()) for i in range(p.n_sets)]
        text = ctypes.create_string_buffer(160)
        out = []
        for a in range(found.value):
            self.lib.peer_lt_describe(plan, a, text, len(text))
            call = lambda i, a=a: checked(
                run(plan, a, *args[i], space, WORKSPACE, stream), "cublasLtMatmul"
            )  # noqa: E731
            out.append((text.value.decode(), call))
        return out

    def close(self):
        self.lib.peer_lt_close(self.plan)
        self.plan = None


def torch_call(p, library):
    def call(i):
        torch.mm(p.x[i], p.wt[i], out=p.y[i])

    def first_choose(i):
        if i == 0:  # of every capture
            torch.backends.cuda.preferred_blas_library(library)
        call(i)

    return first_choose


# ---- ours -------------------------------------------------------------------------------------------------------


def open_contexts(args, bench, todo):
    """{contestant: context}, with all of the problems compiled ahead."""
    out = {}
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        f.write("op,dtype,M,N,K\n" + "".join("gemm,%s,%d,%d,%d\n" % (p.dtype, p.m, p.n, p.k) for p in todo))
        f.flush()
        for name, overlap, dbs in (
            ("rfg", False, (args.db, args.system_db)),
            ("rfg+ov", True, (args.db, args.system_db)),
            ("untuned", False, ("", "")),
        ):
            if {"rfg+ov": "overlap"}.get(name, name) in args.without:
                continue
            t = time.monotonic()
            stream = bench.stream.cuda_stream or None
            ctx = attempt(name, lambda: rfg.Rfg(args.lib, args.device, dbs[0], overlap, stream, dbs[1]))
            if ctx:
                out[name] = ctx
                attempt("%s, preparing" % name, lambda: ctx.prepare_from_csv(f.name))
                say("# %s: prepared in %.1f s" % (name, time.monotonic() - t))
    return out


# ---- the run ----------------------------------------------------------------------------------------------------


def largest_error(p, call):
    """Of set 0 against the exact result; raises if it is wrong."""
    p.y[0].fill_(math.nan)
    call(0)
    torch.cuda.current_stream().synchronize()
    off = p.y[0].double() - p.exact
    relative = (off.norm() / p.exact.norm()).item()
    if not relative <= 0.006:  # rounded once to bf16 it is 0.0017
        raise RuntimeError("wrong: |got - expected| / |expected| is %.3g, must be <= 0.006" % relative)
    return off.abs().max().item()


def contestants_of(p, bench, args, contexts, peers):
    """{name: call of a set}, {name: configuration}, configurations of Triton's left out."""
    calls, labels, left_out = {}, {}, 0
    for name, ctx in contexts.items():
        made = [ctx.gemm(p.y[i], p.x[i], p.w[i]) for i in range(p.n_sets)]
        calls[name] = lambda i, made=made: made[i]()
        labels[name] = race.chosen(ctx, p.text)
    for name in ("cublas", "cublaslt"):
        if name not in args.without:
            calls[name] = torch_call(p, name)
    if "lt" in peers:
        t = time.monotonic()
        found = attempt("%s, lt" % p.text, lambda: peers["lt"].candidates(p)) or []
        won = bench.fastest("%s, lt" % p.text, found, p.n_sets, p.n_calls, rounds=3, finalists=6, most=p.short)
        if won:
            labels["lt"], calls["lt"] = "%s of %d" % (won[0], len(found)), won[1]
        bench.phase("cuBLASLt's heuristics", t)
    if "triton" in peers:
        t = time.monotonic()
        found, left_out = peers["triton"].candidates(DTYPES[p.dtype], p.y, p.x, p.w)
        won = bench.fastest("%s, triton" % p.text, found, p.n_sets, p.n_calls, rounds=3, finalists=6, most=p.short)
        if won:
            labels["triton"], calls["triton"] = "%s of %d" % (won[0], len(found)), won[1]
        bench.phase("triton's sweeps", t)
    if "floor" in peers:
        t = time.monotonic()
        for name, overlap in (("floor", 0), ("floor+ov", 1)):
            won = attempt(
                "%s, %s" % (p.text, name),
                lambda: peers["floor"].contestant(
                    bench,
                    p.text,
                    (p.n, p.k, overlap),
                    [w.data_ptr() for w in p.w],
                    p.weight_bytes,
                    p.n_calls,
                    p.short,
                    overlap,
                ),
            )
            if won:
                labels[name], calls[name] = won
        bench.phase("floor's sweeps", t)
    return calls, labels, left_out


def measure(p, bench, args, contexts, peers):
    """Times all contestants of a problem; returns its record."""
    p.allocate(bench)
    calls, labels, left_out = contestants_of(p, bench, args, contexts, peers)
    errors = {}

    def check(name):
        if not name.startswith("floor"):
            errors[name] = largest_error(p, calls[name])

    times = bench.times(p, calls, check)
    if "lt" in peers and getattr(peers["lt"], "plan", None):
        peers["lt"].close()
    return {
        "problem": p.text,
        "m": p.m,
        "n": p.n,
        "k": p.k,
        "grid": p.grid,
        "bytes": p.bytes,
        "weight_bytes": p.weight_bytes,
        "sets": p.n_sets,
        "calls": p.n_calls,
        **race.figures(times),
        "error": errors,
        "rounding_error": p.rounding,
        "configurations": labels,
        "triton_left_out": left_out,
    }


COLUMNS = ("rfg", "rfg+ov", "untuned", "cublas", "cublaslt", "lt", "triton", "floor", "floor+ov")
HEAD = "%4s %6s %5s %s | vendor/rfg, /ov  peers/rfg, /ov | rfg/floor, ov | error/rounding: rfg vendor triton" % (
    "M",
    "N",
    "K",
    " ".join("%8s" % c for c in COLUMNS),
)


def show(r):
    us, nan = r["us"], math.nan
    (vendor, v), (_, p) = bars.vendor(us), bars.peer(us)
    ours, ov = us.get("rfg", nan), us.get("rfg+ov", nan)

    def error(name):
        return r["error"].get(name, nan) / (r["rounding_error"] or nan)

    say(
        "%4d %6d %5d %s | %10.2f %5.2f %10.2f %5.2f | %9.2f %4.2f | %.4f %.4f %.4f%s"
        % (
            r["m"],
            r["n"],
            r["k"],
            " ".join("%8.2f" % us.get(c, nan) for c in COLUMNS),
            v / ours,
            v / ov,
            p / ours,
            p / ov,
            ours / us.get("floor", nan),
            ov / us.get("floor+ov", nan),
            error("rfg"),
            error(vendor),
            error("triton"),
            "; %d of triton's left out" % r["triton_left_out"] if r["triton_left_out"] else "",
        )
    )


def open_peers(args, bench, ahead):
    out = {}
    stream = bench.stream.cuda_stream
    for name, library, make in (("lt", "cublaslt", CublasLt), ("floor", "floor", Floor)):
        if name not in args.without:
            peer = attempt(name, lambda: make(built(library, getattr(args, library + "_lib")), stream))
            if peer:
                out[name] = peer
    if ahead:
        ahead.wait(args.compile_seconds)
        for line in ahead.lines():
            say("# " + line)
        out["triton"] = triton_gemm.Gemm(race.DEV, ahead.ready, args.quick)
    return out


def run(args, bench, todo, ahead, records):
    t = time.monotonic()
    contexts = open_contexts(args, bench, todo)
    bench.phase("rfg's preparation", t)
    t = time.monotonic()
    peers = open_peers(args, bench, ahead)
    bench.phase("building, waiting for triton's compiler", t)
    head = race.measure_machine(bench)
    say("# us a call, bf16 unless said; error: the largest, over that of rounding the exact result")
    say(HEAD)
    for i, p in enumerate(todo):
        if time.monotonic() - race.T0 > args.seconds:
            say("# OUT OF TIME: %d of %d problems not measured, from %s on" % (len(todo) - i, len(todo), p.text))
            break
        if "triton" in peers and bench.seconds.get("triton's sweeps", 0) > args.seconds / 2:
            say("# Triton LEFT OUT from here on: its sweeps took half of the time")
            del peers["triton"]
        r = attempt(p.text, lambda: measure(p, bench, args, contexts, peers))
        todo[i] = p = None  # the buffers
        gc.collect()
        torch.cuda.empty_cache()
        if r:
            records.append(r)
            show(r)
            race.save(args.json, head, records)
    not_tuned = [r["problem"] for r in records if " by rung 1 " not in r["configurations"].get("rfg", "") + " "]
    if not_tuned and "rfg" in contexts:
        say("# %d problems have no tuned row, such as %s: theirs is no tuned time" % (len(not_tuned), not_tuned[0]))
    for name in ("lt", "triton"):
        without = [r["problem"] for r in records if name not in r["us"]]
        if without:
            say("# %s was not measured in %d problems, such as %s" % (name, len(without), without[0]))
    race.measure_copy_again(bench, head)
    race.save(args.json, head, records)
    return head


# ---- repeatability ----------------------------------------------------------------------------------------------


def repeated(p, ctx, other, bench, background, n):
    """How many of n replays differ from the first call's bits, and how many replays other work had meanwhile. A graph:
    poison the outputs of some sets, run those calls back to back, compare on the device."""
    sets = range(min(4, p.n_sets))
    calls = [ctx.gemm(p.y[i], p.x[i], p.w[i]) for i in sets]
    for c in calls:
        c()
    bench.stream.synchronize()
    expected = [p.y[i].view(torch.int16).clone() for i in sets]
    if not all(torch.isfinite(p.y[i].float()).all().item() for i in sets):
        raise RuntimeError("the first call's result isn't finite")
    different = torch.zeros((), device=race.DEV, dtype=torch.int64)

    def once(_):
        for i in sets:
            p.y[i].fill_(math.nan)
        for c in calls:
            c()
        for i in sets:
            different.add_((p.y[i].view(torch.int16) != expected[i]).any())

    graph = bench.capture(once, 1, 1)
    with torch.cuda.stream(background):
        y = torch.empty_like(p.y[0])
        theirs = other.gemm(y, p.x[-1], p.w[-1])
        a = torch.randn(1024, 1024, device=race.DEV, dtype=torch.bfloat16)
        big = torch.empty(1 << 24, device=race.DEV)
        b, big_to = torch.empty_like(a), torch.empty_like(big)

        def busy(_):
            torch.mm(a, a, out=b)
            theirs()
            big_to.copy_(big)
            theirs()

        busy(0)
        background.synchronize()
        busy_graph = torch.cuda.CUDAGraph()
        busy_graph.capture_begin(capture_error_mode="thread_local")
        for _ in range(4):
            busy(0)
        busy_graph.capture_end()

    def seconds(g, stream):
        t = time.monotonic()
        with torch.cuda.stream(stream):
            for _ in range(20):
                g.replay()
        stream.synchronize()
        return (time.monotonic() - t) / 20

    seconds(busy_graph, background)
    every = max(1, round(seconds(busy_graph, background) / seconds(graph[0], bench.stream)))
    different.zero_()
    bench.stream.synchronize()
    backgrounds = 0
    for i in range(n):
        if i % every == 0:
            with torch.cuda.stream(background):
                busy_graph.replay()
            backgrounds += 1
        graph[0].replay()
        if i % 500 == 499:
            bench.stream.synchronize()
    bench.stream.synchronize()
    background.synchronize()
    return different.item(), backgrounds


def run_repeat(args, bench, todo):
    contexts = open_contexts(args, bench, todo)
    background = torch.cuda.Stream()
    other = rfg.Rfg(args.lib, args.device, args.db, False, background.cuda_stream or None, args.system_db)
    checks = bad = 0
    for i, p in enumerate(todo):
        if time.monotonic() - race.T0 > args.seconds:
            say("# OUT OF TIME: %d of %d problems not checked, from %s on" % (len(todo) - i, len(todo), p.text))
            break
        p.allocate(bench)
        for name, ctx in contexts.items():
            got = attempt("%s, %s" % (p.text, name), lambda: repeated(p, ctx, other, bench, background, args.repeat))
            checks += 1
            bad += got is None or got[0] != 0
            if got:
                say(
                    "%-44s %-8s %d replays beside %d of other work: %s; %s"
                    % (
                        p.text,
                        name,
                        args.repeat,
                        got[1],
                        "%d outputs DIFFER" % got[0] if got[0] else "bitwise equal",
                        race.chosen(ctx, p.text),
                    )
                )
        todo[i] = p = None
        gc.collect()
        torch.cuda.empty_cache()
    say("\n%d of %d: %d replays bitwise equal" % (checks - bad, checks, args.repeat))
    return bad > 0 or not checks


# ---- the command line -------------------------------------------------------------------------------------------


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0 (default %(default)s)")
    p.add_argument("--db", help="the tuned database (default: the user's)")
    p.add_argument("--system-db", help="the read-only one under it (default: the installed one)")
    p.add_argument("--shapes", nargs="+", default=[], metavar="FILE", help="problems instead of the K=7168 grid")
    p.add_argument("--models", nargs="+", default=[], metavar="FILE", help="problems beside them")
    p.add_argument("--cublaslt-lib", metavar="FILE", help="of bench/peers/build.sh (default: built)")
    p.add_argument("--floor-lib", metavar="FILE", help="of bench/peers/build.sh (default: built)")
    p.add_argument("--rounds", type=int, default=25, help="timed replays of each contestant (default %(default)s)")
    p.add_argument("--quick", action="store_true", help="fewer problems, fewer configurations of Triton's")
    p.add_argument("--most-m", type=int, default=128, help="leave out problems of more rows (default %(default)s)")
    p.add_argument("--without", default="", help="to leave out: " + ",".join(PEERS))
    p.add_argument("--compile-seconds", type=float, default=70, help="for Triton's kernels (default %(default)s)")
    p.add_argument("--seconds", type=float, default=220, help="no problem is begun after so long (default %(default)s)")
    p.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="check N replays of ours bit by bit instead ($RFG_VARIANTS: of a family)",
    )
    p.add_argument("--json", metavar="FILE", help="everything measured, written anew after each problem")
    args = p.parse_args(argv)
    if args.rounds < 5:
        p.error("--rounds %d: must be at least 5" % args.rounds)
    if args.repeat is not None and args.repeat < 1:
        p.error("--repeat %d: must be at least 1" % args.repeat)
    args.without = set(filter(None, args.without.split(",")))
    if args.without - set(PEERS):
        p.error("--without: %s: must be of %s" % (", ".join(sorted(args.without - set(PEERS))), ", ".join(PEERS)))
    for name in ("cublaslt_lib", "floor_lib", "lib"):
        path = getattr(args, name)
        if path and not os.path.exists(path):
            p.error("--%s %s: no such file" % (name.replace("_", "-"), path))
        if path:
            setattr(args, name, os.path.abspath(path))  # dlopen() would search for a bare name
    try:
        args.problems = problems(args)
    except (OSError, ValueError) as e:
        p.error(str(e))
    if not args.problems:
        p.error("no problems of at most %d rows in %s" % (args.most_m, ", ".join(args.shapes + args.models)))
    return args


FORMATS = {"bf16": [], "fp8": ["gemm_codes_peers.py"]}
FORMATS.update({f: ["gemm_w4_peers.py", "--format", f] for f in ("i4", "mxfp4")})


def run_format(name, argv):
    """The program for a format, in a process of its own: its exit code."""
    program = FORMATS[name] or [os.path.basename(__file__)]
    path = os.path.join(HERE, program[0])
    if not os.path.exists(path):
        say("# left out: %s: no %s" % (name, path))
        return 1
    return subprocess.run([sys.executable, path, *program[1:], *argv]).returncode


def main(argv=None):
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--format", choices=[*FORMATS, "all"], default="bf16")
    known, argv = first.parse_known_args(argv)
    if known.format == "all":
        first.add_argument("--json")
        known, argv = first.parse_known_args(["--format", "all", *argv])
        codes = []
        for name in FORMATS:
            say("\n==== %s" % name)
            codes.append(run_format(name, argv + (["--json", "%s.%s" % (known.json, name)] if known.json else [])))
        return max(codes)
    if FORMATS[known.format]:
        return run_format(known.format, argv)
    args = parse(argv)
    todo = args.problems
    capability = triton_gemm.capability()
    if capability is None:
        say("gemm_peers: no NVIDIA GPU here (libcuda.so.1 finds none)")
        return 1
    ahead = None
    if "triton" not in args.without and not args.repeat:
        ahead = triton_gemm.Ahead([(DTYPES[p.dtype], p.m, p.n, p.k) for p in todo], capability, args.quick)
    if race.DEV == "cuda" and not torch.cuda.is_available():
        say("gemm_peers: PyTorch finds no GPU")
        return 1
    gc.disable()  # not in the middle of a capture, but after each problem
    bench = race.Bench(args.rounds, max_sets=1024, least=64)
    bench.phase("start", race.T0)
    if args.repeat:
        code = bench.on_stream(lambda: run_repeat(args, bench, todo))
        bench.say_seconds()
        return int(code is None or code)
    records = []
    head = bench.on_stream(lambda: run(args, bench, todo, ahead, records))
    for ours in ("rfg", "rfg+ov"):
        if any(ours in r["us"] for r in records):
            say("\n%s:" % ours)
            say("\n".join("  " + x for x in bars.lines(records, ours, head["copy_gbps"] if head else math.nan)))
    bench.say_seconds()
    return int(not head or not records)


if __name__ == "__main__":
    sys.exit(main())
