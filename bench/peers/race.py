# SPDX-License-Identifier: MIT
"""Shared by norms_, gemm_, mha_ and decode_ops_peers.py: contestants captured in graphs and replayed in turn on cold buffers."""

import argparse
import json
import math
import os
import subprocess
import time

import torch
import triton

import peer_kernels as k

DEV = "cuda"
T0 = time.monotonic()


class GpuLost(Exception):
    """The GPU's context is broken; nothing more can be measured by this process."""


def say(*text):
    print(*text, flush=True)


def attempt(what, fn):
    """fn(), or None and a line that says why not."""
    try:
        return fn()
    except Exception as e:  # a peer that fails is left out, whatever it raises
        lines = str(e).strip().splitlines() or [""]
        say("# left out: %s: %s: %s" % (what, type(e).__name__, lines[0][:300]))
        try:
            if DEV == "cuda":
                torch.cuda.synchronize()
        except Exception as e2:
            raise GpuLost("after %s: %s" % (what, str(e2).splitlines()[0])) from e2
        return None


def chosen(ctx, text):
    """What rfg's dispatcher says of a problem: the variant, its parameters and the rung."""
    lines = (attempt("explain", lambda: ctx.explain(text)) or "not explained").splitlines()
    return ([x for x in lines if x.startswith("chosen")] or lines)[0]


def who_is_right(p, calls):
    """The contestants whose results a problem finds right; says so."""
    fine = [n for n, call in calls.items() if attempt(n, lambda: (p.check(call), True)[1])]
    say("%-90s right: %s" % (p.text, ", ".join(fine)))
    return fine


# ---- timing -----------------------------------------------------------------------------------------------------


class Bench:
    """max_sets: of buffers to go through. least: calls of less than 64 MB in a graph."""

    def __init__(self, rounds, max_sets=256, least=20):
        self.rounds, self.max_sets, self.least = rounds, max_sets, least
        self.stream = torch.cuda.Stream()
        self.l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        self.sweep = torch.randn(self.l2, device=DEV)  # 4 bytes each
        self.seconds = {}
        torch.cuda.synchronize()

    def phase(self, name, since):
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - since

    def sets(self, input_bytes):
        return max(1, min(self.max_sets, math.ceil(4 * self.l2 / input_bytes)))

    def calls(self, sets, total_bytes):
        least = self.least if total_bytes < 64 << 20 else 10
        return sets * math.ceil(least / sets)

    def capture(self, call, sets, calls):
        """A graph of calls; with what they returned, which owns its memory."""
        call(0)
        self.stream.synchronize()
        graph, kept = torch.cuda.CUDAGraph(), []
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for i in range(calls):
                kept.append(call(i % sets))
        except Exception:
            try:
                graph.capture_end()
            except Exception:
                pass  # the first failure is the one to tell
            raise
        graph.capture_end()
        graph.replay()
        self.stream.synchronize()
        return graph, kept

    def race(self, graphs, calls, rounds):
        """{name: sorted us a call} of graphs {name: (graph, kept)}, interleaved."""
        names = list(graphs)
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        times = {n: [] for n in names}
        for r in range(rounds):
            for i in range(len(names)):
                n = names[(i + r) % len(names)]
                self.sweep.sum()  # reads past the L2, and keeps the GPU busy while the replay is queued
                start.record(self.stream)
                graphs[n][0].replay()
                stop.record(self.stream)
                stop.synchronize()
                times[n].append(1e3 * start.elapsed_time(stop) / calls)
        return {n: sorted(t) for n, t in times.items()}

    def times(self, p, calls, check=lambda name: True):
        """race() of a problem's contestants {name: call}, but those that fail check(name) or can't be captured."""
        t = time.monotonic()
        graphs = {}
        for name, call in calls.items():
            what = "%s, %s" % (p.text, name)
            if attempt(what, lambda: (check(name), True)[1]):
                g = attempt(what, lambda: self.capture(call, p.n_sets, p.n_calls))
                if g:
                    graphs[name] = g
        self.phase("checks, captures", t)
        t = time.monotonic()
        times = self.race(graphs, p.n_calls, self.rounds)
        self.phase("timing", t)
        return times

    def on_stream(self, run):
        """run() with the stream current: what it returns, or None if the GPU failed on the way."""
        try:
            with torch.cuda.stream(self.stream):
                return run()
        except GpuLost as e:
            say("# the GPU failed: %s" % e)
            return None

    def say_seconds(self):
        spent = ", ".join("%s %.1f" % x for x in self.seconds.items())
        say("\nseconds: %s; in all %.1f" % (spent, time.monotonic() - T0))

    def finish(self, run):
        """run() as on_stream() has it, and where the time went: the exit code."""
        got = self.on_stream(run)
        self.say_seconds()
        return 1 if got is None else got

    def fastest(self, what, candidates, sets, calls, rounds=5, finalists=0, most=64):
        """The call among candidates [(label, call)] that wins a short race: (label, call), or None. finalists: so many
        of the fastest race again, longer. most: calls in a graph."""
        some = min(calls, most)
        graphs = {}
        for i, (label, call) in enumerate(candidates):
            g = attempt("%s %s" % (what, label), lambda: self.capture(call, min(sets, some), some))
            if g:
                graphs[i] = g
        if not graphs:
            return None
        times = self.race(graphs, some, rounds)
        ranked = sorted(times, key=lambda i: median(times[i]))
        if finalists > 1 and len(ranked) > 1:
            times = self.race({i: graphs[i] for i in ranked[:finalists]}, some, 3 * rounds)
            ranked = sorted(times, key=lambda i: median(times[i]))
        return candidates[ranked[0]]


def arguments(doc):
    """A parser for the options of *_peers.py with a shapes file."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--db", default=None, help="tuned database of the user (default: the user's)")
    p.add_argument("--rounds", type=int, default=31)
    p.add_argument("--shapes", help="only writes the problems as a shapes file for rfg-tune")
    p.add_argument("--json")
    return p


def tune(args, texts, overlap=True):
    """Has rfg-tune, args.tune, write rows of these problems to args.db, plain and with overlap. A run that fails is left out."""
    command = [args.tune, "--device", args.device, "--db", args.db] + getattr(args, "tune_options", "").split()
    for text in texts:
        command += ["--problem", text]
    for more in ([], ["--overlap"])[: 1 + overlap]:
        attempt("rfg-tune", lambda: subprocess.run(command + more, check=True, stdout=subprocess.DEVNULL))


def median(sorted_times):
    return sorted_times[len(sorted_times) // 2]


# ---- what is measured once --------------------------------------------------------------------------------------

COPIES = ((512, 4), (1024, 4), (2048, 8), (4096, 8), (8192, 16))


def measure_copy(bench, n):
    """GB/s of the best copy of 2n bytes to elsewhere, and which."""
    x = torch.randn(n, device=DEV, dtype=torch.bfloat16)
    y = torch.empty_like(x)
    calls = {
        "block=%d warps=%d"
        % (b, w): (lambda i, b=b, w=w: k.copy_kernel[(triton.cdiv(n, b),)](x, y, n, B=b, num_warps=w))
        for b, w in COPIES
    }
    calls["cudaMemcpyAsync"] = lambda i: y.copy_(x)
    graphs = {}
    for name, call in calls.items():
        g = attempt("copy " + name, lambda: bench.capture(call, 1, 3))
        if g:
            graphs[name] = g
    times = bench.race(graphs, 3, max(9, bench.rounds // 2)) if graphs else {}
    return max(((4 * n / median(t) / 1e3, name) for name, t in times.items()), default=(math.nan, "none"))


def measure_touch(bench):
    """us of a kernel that loads and stores once, 132 x 256 floats, in a chain of them."""
    x, y = torch.randn(256, 132 * 256, device=DEV), torch.empty(132 * 256, device=DEV)
    g = attempt("touch", lambda: bench.capture(lambda i: k.touch_kernel[(132,)](x[i], y, B=256, num_warps=8), 256, 256))
    return median(bench.race({"touch": g}, 256, bench.rounds)["touch"]) if g else math.nan


def copy_elements():
    return 1 << (29 if DEV == "cuda" else 16)


def measure_machine(bench):
    """The head of the JSON, with copy and touch; printed too."""
    t = time.monotonic()
    n = copy_elements()
    copy, touch = measure_copy(bench, n), measure_touch(bench)
    bench.phase("copy, touch", t)
    head = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "l2": bench.l2,
        "rounds": bench.rounds,
        "copy_gbps": copy[0],
        "copy": copy[1],
        "touch_us": touch,
    }
    say("# %s, torch %s, triton %s, L2 %.0f MB" % (head["gpu"], head["torch"], head["triton"], bench.l2 / 2**20))
    say("# copy of %.1f GB: %.0f GB/s (%s); a node that loads and stores once: %.2f us" % (2e-9 * n, *copy, touch))
    return head


def measure_copy_again(bench, head):
    """GB/s at the end; head keeps the better of the two."""
    gbps = measure_copy(bench, copy_elements())[0]
    head["copy_gbps"] = max(head["copy_gbps"], gbps)
    return gbps


def save(path, head, records):
    if path:
        with open(path + ".new", "w") as f:
            json.dump(dict(head, problems=records), f, indent=1)
        os.replace(path + ".new", path)


def figures(times):
    """Of {name: sorted times}: what a record keeps."""
    return {
        "us": {n: median(t) for n, t in times.items()},
        "p10_us": {n: t[len(t) // 10] for n, t in times.items()},
        "p90_us": {n: t[len(t) * 9 // 10] for n, t in times.items()},
    }


def measured(bench, p, calls, contexts, head):
    """A record of a problem's contestants, and a line of it: rfg's beside the fastest of the others and beside a copy."""
    times = bench.times(p, calls, lambda name: p.check(calls[name]))
    r = dict(figures(times), problem=p.text, bytes=p.bytes, rfg=[chosen(c, p.text) for c in contexts.values()])
    peer = min((t for n, t in r["us"].items() if not n.startswith("rfg")), default=math.nan)
    ours = min((t for n, t in r["us"].items() if n.startswith("rfg")), default=math.nan)
    r["share"] = p.bytes / ours / 1e3 / head["copy_gbps"]
    us = "  ".join("%s %.2f" % x for x in r["us"].items())
    say("%-90s %s | %.2fx, %.1f%% of the copy's bandwidth" % (p.text, us, peer / ours, 100 * r["share"]))
    return r
