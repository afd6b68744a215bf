#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The norms and gated activations beside their peers, on one NVIDIA GPU with PyTorch and Triton.

    bench/peers/build.sh flashinfer FLASHINFER_INCLUDE flashinfer.so        # where nvcc is; optional
    bench/peers/build.sh vllm VLLM_CSRC TORCH_INCLUDE vllm.so               # optional
    bench/norms_peers.py --lib build/librfg.so --flashinfer-lib flashinfer.so --vllm-lib vllm.so [--json FILE]

All contestants of a problem run in this process, in one stream, on the same buffers: each is captured in a graph of the
same number of calls that goes through the same sets of tensors (as many as exceed 4x the L2, 256 at most); the graphs
are replayed in turn, whoever begins changing from round to round, and before each timed replay 4x the L2 is read, so
that no set is still cached. Every figure is the median over the rounds, divided by the calls, in microseconds. Each
contestant's results are compared with PyTorch's in fp32 first; who is wrong or fails is left out and named.

  rfg         rfg_op_* through ctypes, writing to buffers of their own; rfg+ov: with launch_overlap (programmatic
              dependent launch, which flashinfer uses by default too) and the database's rows of overlap=1
              (rfg-tune --overlap) where there are any; rfg in place: as flashinfer and vllm do it
  compile     torch.compile, max-autotune-no-cudagraphs, of the functional form; every call has outputs of its own
  triton      tutorial kernels, the fastest of a few block sizes and numbers of warps by a short race
  flashinfer  FlashInfer's CUDA kernels (the better of with and without programmatic dependent launch), vllm: vLLM's;
              add_rmsnorm works in place there; with fp8 flashinfer has one static scale instead of one a row
  copy        a copy that moves as many bytes

One line a problem, as it is finished; the bars at the end, for rfg and for rfg+ov. Exit: 0; 1 nothing measured or the
GPU failed; 2 bad usage."""

import argparse
import ctypes
import gc
import math
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import bars  # noqa: E402
import rfg  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402

import peer_kernels as k  # noqa: E402
import race  # noqa: E402
from race import attempt, say  # noqa: E402

BF16, FP8, F32 = torch.bfloat16, torch.float8_e4m3fn, torch.float32
EPS = 1e-6


# ---- problems ---------------------------------------------------------------------------------------------------


class Problem:
    """Buffers, contestants and the answer of one problem. A contestant: name -> (call of a set, what the call wrote
    as a function of its return value: the tensors to compare with the reference)."""

    def __init__(self, op, rows, n, act="", fp8=False):
        self.op, self.rows, self.n, self.act, self.fp8 = op, rows, n, act, fp8
        out = rows * n + 4 * rows if fp8 else 2 * rows * n
        if op == "add_rmsnorm":
            self.input_bytes, self.bytes = 4 * rows * n + 2 * n, 6 * rows * n + 2 * n + out
        else:
            self.input_bytes, self.bytes = 4 * rows * n, 4 * rows * n + out
        self.text = "%s bf16->%s M=%d N=%d%s%s" % (
            op,
            "e4m3" if fp8 else "bf16",
            rows,
            n,
            " act=" + act if act == "gelu_tanh" else "",
            " scale=token" if fp8 else "",
        )

    def allocate(self, bench):
        m, n = self.rows, self.n
        s = self.n_sets = bench.sets(self.input_bytes)
        self.n_calls = bench.calls(s, self.bytes)

        def random(*shape):
            return torch.randn(s, *shape, device=race.DEV, dtype=BF16)

        def empty(*shape, dtype=BF16):
            return torch.empty(s, *shape, device=race.DEV, dtype=dtype)

        self.y = empty(m, n)
        if self.fp8:
            self.q, self.scale = empty(m, n, dtype=FP8), empty(m, 1, dtype=F32)
        if self.op == "add_rmsnorm":
            self.x, self.r, self.w, self.ro = random(m, n), random(m, n), random(n), empty(m, n)
        else:
            self.x = random(m, 2 * n)
        self.copy_from = empty(max(self.bytes // 4 // 64, 1) * 64)  # full vectors in every set
        self.copy_from.normal_()
        self.copy_to = torch.empty_like(self.copy_from)
        bench.stream.synchronize()  # rfg+ov reads weights ahead of the work before it

    def reference(self):
        """In fp32, of set 0 as it is now."""
        x = self.x[0]
        if self.op == "add_rmsnorm":
            h = x + self.r[0]
            f = h.float()
            f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPS) * self.w[0].float()
            return [f, h.float()]
        a, b = x.float().chunk(2, -1)
        return [(F.gelu(a, approximate="tanh") if self.act == "gelu_tanh" else F.silu(a)) * b]

    def poison(self):
        self.y[0].fill_(math.nan)
        if self.fp8:
            self.q[0].view(torch.uint8).fill_(0x7F)
            self.scale[0].fill_(math.nan)
        if self.op == "add_rmsnorm":
            self.ro[0].fill_(math.nan)

    def dequantised(self, q, scale):
        return q.float() * scale

    # What a call wrote.
    def plain(self, _):
        return [self.y[0]] + ([self.ro[0]] if self.op == "add_rmsnorm" else [])

    def quantised(self, _):
        return [self.dequantised(self.q[0], self.scale[0])] + ([self.ro[0]] if self.op == "add_rmsnorm" else [])

    def in_place(self, _):
        return [self.x[0], self.r[0]]

    def returned(self, got):
        got = got if isinstance(got, tuple) else (got,)
        return [self.dequantised(got[0], got[1])] + list(got[2:]) if self.fp8 else list(got)


def compiled_forms():
    def add_rmsnorm(x, r, w):
        h = x + r
        return F.rms_norm(h, (h.shape[-1],), w, EPS), h

    def quantise(f):
        scale = torch.clamp(f.abs().amax(-1, keepdim=True) / 448, min=1 / (448 * 512))
        return torch.clamp(f / scale, -448, 448).to(FP8), scale

    def add_rmsnorm_fp8(x, r, w):
        h = x + r
        q, scale = quantise(F.rms_norm(h, (h.shape[-1],), w, EPS).float())
        return q, scale, h

    def gelu_tanh(x):
        a, b = x.chunk(2, -1)
        return F.gelu(a, approximate="tanh") * b

    def silu(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    def gelu_tanh_fp8(x):
        return quantise(gelu_tanh(x).float())

    def silu_fp8(x):
        return quantise(silu(x).float())

    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 4096)
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # rather than time eager kernels unnoticed
    forms = {
        ("add_rmsnorm", "", False): add_rmsnorm,
        ("add_rmsnorm", "", True): add_rmsnorm_fp8,
        ("act_and_mul", "gelu_tanh", False): gelu_tanh,
        ("act_and_mul", "gelu_tanh", True): gelu_tanh_fp8,
        ("act_and_mul", "silu", False): silu,
        ("act_and_mul", "silu", True): silu_fp8,
    }
    return {key: torch.compile(fn, mode="max-autotune-no-cudagraphs", dynamic=False) for key, fn in forms.items()}


def rfg_contestants(p, name, ctx):
    """rfg or rfg+ov. Beside an fp8 problem the plain one runs too, to be compared with."""
    out, sets = {}, range(p.n_sets)
    if p.op == "add_rmsnorm":

        def make(i, y, ro, **quant):
            return ctx.add_rmsnorm(y, ro, p.x[i], p.r[i], p.w[i], EPS, **quant)

        plain = [make(i, p.y[i], p.ro[i]) for i in sets]
        fp8 = [make(i, None, p.ro[i], q=p.q[i], scale=p.scale[i]) for i in sets] if p.fp8 else None
        if not p.fp8 and name == "rfg":
            in_place = [make(i, p.x[i], p.r[i]) for i in sets]
            out["rfg in place"] = (lambda i: in_place[i](), p.in_place)
    else:
        plain = [ctx.act_and_mul(p.y[i], p.x[i], p.act) for i in sets]
        fp8 = [ctx.act_and_mul(None, p.x[i], p.act, q=p.q[i], scale=p.scale[i]) for i in sets] if p.fp8 else None
    out[name] = (lambda i: plain[i](), p.plain)
    if p.fp8:
        out[name + " fp8"] = (lambda i: fp8[i](), p.quantised)
    return out


def triton_candidates(p):
    m, n = p.rows, p.n
    block, tanh = triton.next_power_of_2(n), p.act == "gelu_tanh"
    if p.op == "add_rmsnorm":

        def call(i, warps):
            if p.fp8:
                k.add_rmsnorm_fp8_kernel[(m,)](
                    p.x[i], p.r[i], p.w[i], p.q[i], p.scale[i], p.ro[i], EPS, N=n, B=block, num_warps=warps
                )
            else:
                k.add_rmsnorm_kernel[(m,)](p.x[i], p.r[i], p.w[i], p.y[i], p.ro[i], EPS, N=n, B=block, num_warps=warps)

        return [("warps=%d" % w, lambda i, w=w: call(i, w)) for w in (4, 8, 16, 32)]
    if p.fp8:
        return [
            (
                "warps=%d" % w,
                lambda i, w=w: k.act_and_mul_fp8_kernel[(m,)](
                    p.x[i], p.q[i], p.scale[i], N=n, TANH=tanh, B=block, num_warps=w
                ),
            )
            for w in (8, 16, 32)
        ]
    return [
        (
            "block=%d warps=%d" % (b, w),
            lambda i, b=b, w=w: k.act_and_mul_kernel[(triton.cdiv(n, b), m)](
                p.x[i], p.y[i], n, TANH=tanh, B=b, num_warps=w
            ),
        )
        for b, w in ((256, 2), (512, 4), (1024, 4), (2048, 8), (4096, 8))
    ]


def copy_candidates(p):
    n = p.copy_from.shape[-1]
    return [
        (
            "block=%d warps=%d" % (b, w),
            lambda i, b=b, w=w: k.copy_kernel[(triton.cdiv(n, b),)](p.copy_from[i], p.copy_to[i], n, B=b, num_warps=w),
        )
        for b, w in race.COPIES
    ]


class PeerLib:
    """A library of bench/peers/build.sh."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        v, i64, f = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        for name, args in (
            ("peer_add_rmsnorm", [v] * 3 + [i64, i64, f, ctypes.c_int, v]),
            ("peer_add_rmsnorm_static_fp8", [v] * 5 + [i64, i64, f, ctypes.c_int, v]),
            ("peer_silu_and_mul", [v] * 2 + [i64, i64, ctypes.c_int, v]),
            ("peer_gelu_tanh_and_mul", [v] * 2 + [i64, i64, ctypes.c_int, v]),
        ):
            if hasattr(self.lib, name):
                getattr(self.lib, name).argtypes = args

    def contestant(self, p, pdl, stream):
        """(call, what it wrote), or None if the library has no such kernel."""

        def ptr(t, i):
            return t[i].data_ptr()

        sets, end = range(p.n_sets), (pdl, stream)
        if p.op == "act_and_mul":
            fn = getattr(self.lib, "peer_%s_and_mul" % p.act)
            args = [(ptr(p.y, i), ptr(p.x, i), p.rows, p.n) + end for i in sets]
            wrote = p.plain
        elif p.fp8:
            if not hasattr(self.lib, "peer_add_rmsnorm_static_fp8"):
                return None
            fn = self.lib.peer_add_rmsnorm_static_fp8
            static = (p.reference()[0].abs().max() / 448).reshape(1)
            args = [
                (ptr(p.q, i), ptr(p.x, i), ptr(p.r, i), ptr(p.w, i), static.data_ptr(), p.rows, p.n, EPS) + end
                for i in sets
            ]
            wrote = lambda _: [p.dequantised(p.q[0], static), p.r[0]]  # noqa: E731 (and keeps static alive)
        else:
            fn = self.lib.peer_add_rmsnorm
            args = [(ptr(p.x, i), ptr(p.r, i), ptr(p.w, i), p.rows, p.n, EPS) + end for i in sets]
            wrote = p.in_place

        def call(i):
            e = fn(*args[i])
            if e:
                raise RuntimeError("cudaError_t %d" % e)

        return call, wrote


def check(name, p, contestant):
    """Runs set 0 and compares with the reference; raises if it is wrong. The inputs are as before afterwards."""
    call, wrote = contestant
    inputs = [p.x] + ([p.r] if p.op == "add_rmsnorm" else [])
    saved = [t[0].clone() for t in inputs]
    expected = p.reference()
    p.poison()
    got = wrote(call(0))
    torch.cuda.current_stream().synchronize()
    if len(got) != len(expected):
        raise RuntimeError("%d results, not %d" % (len(got), len(expected)))
    # Rounded once to bf16 it is 0.0017, to e4m3 0.027; some round twice.
    limits = [0.05 if got[0].dtype == F32 else 0.006, 0.006]
    for which, g, e, limit in zip(("result", "residual"), got, expected, limits):
        error = ((g.float() - e).norm() / e.norm()).item()
        if not error <= limit:
            raise RuntimeError(
                "wrong %s: |got - expected| / |expected| is %.3g, must be <= %.3g" % (which, error, limit)
            )
    for t, s in zip(inputs, saved):
        t[0].copy_(s)


# ---- the run ----------------------------------------------------------------------------------------------------

COLUMNS = ("rfg", "rfg+ov", "rfg in place", "compile", "triton", "flashinfer", "vllm", "copy")


def measure(p, bench, args, contexts, libs, forms):
    """Times all contestants of a problem; returns its record."""
    p.allocate(bench)
    contestants, labels = {}, {}
    for name, ctx in contexts.items():
        contestants.update(attempt("%s, %s" % (p.text, name), lambda: rfg_contestants(p, name, ctx)) or {})
    if forms:
        t = time.monotonic()
        fn = forms[p.op, p.act, p.fp8]
        inputs = (p.x, p.r, p.w) if p.op == "add_rmsnorm" else (p.x,)
        views = [[t[i] for t in inputs] for i in range(p.n_sets)]
        if attempt("%s, compile" % p.text, lambda: (fn(*views[0]), bench.stream.synchronize(), True)[2]):
            contestants["compile"] = (lambda i: fn(*views[i]), p.returned)
        bench.phase("torch.compile", t)
    t = time.monotonic()
    for name, candidates, wrote in (
        ("triton", triton_candidates, p.quantised if p.fp8 else p.plain),
        ("copy", copy_candidates, None),
    ):
        if name not in args.without:
            winner = bench.fastest("%s, %s" % (p.text, name), candidates(p), p.n_sets, p.n_calls)
            if winner:
                labels[name], contestants[name] = winner[0], (winner[1], wrote)
    bench.phase("triton sweeps", t)
    t = time.monotonic()
    for name, lib in libs.items():
        for label, pdl in ((name, 0), (name + "-pdl", 1)) if name == "flashinfer" else ((name, 0),):
            c = attempt(label, lambda: lib.contestant(p, pdl, bench.stream.cuda_stream))
            if c:
                contestants[label] = c
    chosen = attempt(
        "explain",
        lambda: [
            line for ctx in contexts.values() for line in ctx.explain(p.text).splitlines() if line.startswith("chosen")
        ],
    )
    bench.phase("explaining, libraries", t)
    checked = lambda name: contestants[name][1] and check(name, p, contestants[name])
    times = bench.times(p, {name: c[0] for name, c in contestants.items()}, checked)
    return {
        "problem": p.text,
        "op": p.op,
        "act": p.act,
        "rows": p.rows,
        "n": p.n,
        "fp8": p.fp8,
        "bytes": p.bytes,
        "sets": p.n_sets,
        "calls": p.n_calls,
        **race.figures(times),
        "configurations": labels,
        "rfg": chosen,
    }


def show(r, gbps):
    us = dict(r["us"])
    if r["fp8"]:
        us.update({n: us.get(n + " fp8", math.nan) for n in ("rfg", "rfg+ov")})
    name, peer = bars.best_peer(us)
    text = r["problem"].replace("bf16->bf16 ", "").replace("bf16->e4m3", "fp8").replace(" scale=token", "")
    row = dict(us, flashinfer=min((us[n] for n in ("flashinfer", "flashinfer-pdl") if n in us), default=math.nan))
    best = us.get("rfg", math.nan)
    say(
        "%-46s %s | %5.2f %5.2f %-14s %5.1f%% of copy, %5.1f%% of as many bytes%s"
        % (
            text,
            " ".join("%7.2f" % row.get(c, math.nan) for c in COLUMNS),
            peer / best,
            peer / us.get("rfg+ov", math.nan),
            name or "-",
            100 * r["bytes"] / best / 1e3 / gbps,
            100 * us.get("copy", math.nan) / best,
            ", %.3fx plain" % (best / r["us"].get("rfg", math.nan)) if r["fp8"] else "",
        )
    )


def problems(args):
    """The most telling first, should the time run out."""
    out = []
    for m in args.rows:
        out += [Problem("add_rmsnorm", m, n) for n in args.hidden]
    fp8_rows = [m for m in args.rows if m == 4096] or args.rows[-1:]
    for m in fp8_rows:
        out += [Problem("add_rmsnorm", m, n, fp8=True) for n in args.hidden]
    middle = args.inter[len(args.inter) // 2]
    for m in args.rows:
        out.append(Problem("act_and_mul", m, middle, "gelu_tanh"))
    for m in fp8_rows:
        out.append(Problem("act_and_mul", m, middle, "gelu_tanh", fp8=True))
    for n in args.inter:
        if n != middle:
            out += [Problem("act_and_mul", m, n, "gelu_tanh") for m in args.rows]
    return out + [Problem("act_and_mul", m, middle, "silu") for m in args.rows]


def parse(argv):
    def sizes(text):
        got = [int(t) for t in text.split(",")]
        if min(got) < 1:
            raise argparse.ArgumentTypeError("%s: sizes must be at least 1" % text)
        return got

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0 (default %(default)s)")
    p.add_argument("--db", help="the tuned database (default: the user's)")
    p.add_argument("--flashinfer-lib", metavar="FILE", help="of bench/peers/build.sh")
    p.add_argument("--vllm-lib", metavar="FILE", help="of bench/peers/build.sh")
    p.add_argument("--rows", type=sizes)
    p.add_argument("--hidden", type=sizes)
    p.add_argument("--inter", type=sizes)
    p.add_argument("--rounds", type=int, default=25, help="timed replays of each contestant (default %(default)s)")
    p.add_argument("--quick", action="store_true", help="fewer sizes")
    p.add_argument("--without", default="", help="contestants to leave out: compile,triton,copy,overlap")
    p.add_argument("--compile-seconds", type=float, default=110, help="for torch.compile in all (default %(default)s)")
    p.add_argument("--seconds", type=float, default=230, help="no problem is begun after so long (default %(default)s)")
    p.add_argument("--json", metavar="FILE", help="everything measured, written anew after each problem")
    args = p.parse_args(argv)
    if args.rounds < 5:
        p.error("--rounds %d: must be at least 5" % args.rounds)
    args.without = set(filter(None, args.without.split(",")))
    unknown = args.without - {"compile", "triton", "copy", "overlap"}
    if unknown:
        p.error("--without: %s: must be compile, triton, copy or overlap" % ", ".join(sorted(unknown)))
    for name in ("flashinfer_lib", "vllm_lib", "lib"):
        path = getattr(args, name)
        if path and not os.path.exists(path):
            p.error("--%s %s: no such file" % (name.replace("_", "-"), path))
    args.rows = args.rows or ([1, 16, 64, 4096] if args.quick else [1, 4, 16, 64, 1024, 4096, 8192])
    args.hidden = args.hidden or ([8192] if args.quick else [4096, 8192])
    args.inter = args.inter or ([14336] if args.quick else [4864, 14336, 28672])
    return args


def run(args, bench, records):
    libs = {}
    for name, path in (("flashinfer", args.flashinfer_lib), ("vllm", args.vllm_lib)):
        lib = path and attempt(name, lambda: PeerLib(path))
        if lib:
            libs[name] = lib
    contexts = {}
    for name, overlap in (("rfg", False), ("rfg+ov", True)):
        if not (overlap and "overlap" in args.without):
            ctx = attempt(
                name, lambda: rfg.Rfg(args.lib, args.device, args.db, overlap, bench.stream.cuda_stream or None)
            )
            if ctx:
                contexts[name] = ctx
    forms = {} if "compile" in args.without else compiled_forms()
    head = race.measure_machine(bench)
    if "rfg" in contexts:
        explained = attempt(
            "explain", lambda: contexts["rfg"].explain("add_rmsnorm bf16->bf16 M=16 N=%d" % args.hidden[-1])
        )
        say("# " + "\n# ".join((explained or "").splitlines()[:5]))
    say("# us a call; best peer / rfg, best peer / rfg+ov, the best peer; rfg's share of the bandwidth of the copy")
    say("# above, and of that of the copy in its line")
    say(
        "%-46s %s"
        % (
            "problem",
            " ".join("%7s" % c.replace("flashinfer", "flashi").replace("rfg in place", "inplace") for c in COLUMNS),
        )
    )
    todo = problems(args)
    for i, p in enumerate(todo):
        if time.monotonic() - race.T0 > args.seconds:
            say("# out of time: %d problems not measured, from %s on" % (len(todo) - i, p.text))
            break
        if forms and bench.seconds.get("torch.compile", 0) > args.compile_seconds:
            say("# torch.compile left out from here on: its %.0f s are spent" % args.compile_seconds)
            forms = {}
        r = attempt(p.text, lambda: measure(p, bench, args, contexts, libs, forms))
        todo[i] = p = None  # the buffers
        gc.collect()
        torch.cuda.empty_cache()
        if r:
            records.append(r)
            show(r, head["copy_gbps"])
            race.save(args.json, head, records)
    head["copy_gbps_at_the_end"] = race.measure_copy_again(bench, head)
    head["touch_us_at_the_end"] = race.measure_touch(bench)
    say(
        "# at the end: copy %.0f GB/s, load and store once %.2f us"
        % (head["copy_gbps_at_the_end"], head["touch_us_at_the_end"])
    )
    race.save(args.json, head, records)
    return head


def main(argv=None):
    args = parse(argv)
    if race.DEV == "cuda" and not torch.cuda.is_available():
        say("norms_peers: PyTorch finds no GPU")
        return 1
    gc.disable()  # not in the middle of a capture, but after each problem
    bench = race.Bench(args.rounds)
    bench.phase("start", race.T0)
    records = []
    head = bench.on_stream(lambda: run(args, bench, records))
    gbps = head["copy_gbps"] if head else math.nan
    for ours in ("rfg", "rfg+ov"):
        if any(ours in r["us"] for r in records):
            say("\n%s:" % ours)
            say("\n".join("  " + line for line in bars.lines(records, ours, gbps)))
    bench.say_seconds()
    return int(not head or not records)


if __name__ == "__main__":
    sys.exit(main())
