#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The norms and gated activations beside their peers, on one NVIDIA (or ROCm) GPU with PyTorch and Triton.

  bench/norms_peers.py [--rfg-bench build/bin/rfg-bench] [--device nvidia:0] [--db FILE] [--rows 1,16,64,4096] [--quick]

Each problem is timed as rfg-bench does it: a captured graph of calls in one stream, inputs rotated past the last-level
cache (as many sets as it takes, 2048 at most), the median of the replays divided by the calls. Peers: torch.compile
(max-autotune), and Triton kernels of the tutorial kind, one program a row or a block, the best of a few block sizes and
numbers of warps; vllm's and flashinfer's own kernels if they can be imported. A copy kernel gives the bandwidth that is
there. rfg-bench runs before and after, in the same minute, as a process of its own; its figures are the better of the
two. Prints one line a problem and, at the end, the bars."""
import argparse
import json
import math
import subprocess
import sys

import torch
import triton

from triton_kernels import act_and_mul_kernel, add_rmsnorm_fp8_kernel, add_rmsnorm_kernel, copy_kernel

BF16 = torch.bfloat16
DEV = "cuda"


# ---- timing -----------------------------------------------------------------------------------------------------

def cache_bytes():
    return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)


def measure(make, call, input_bytes, replays=31):
    """Median microseconds of call(*set): replays of a graph that goes through all sets."""
    sets = [make() for _ in range(max(1, min(2048, math.ceil(4 * cache_bytes() / input_bytes))))]
    calls = len(sets) * math.ceil(20 / len(sets))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call(*sets[0])
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(*sets[i % len(sets)])
        graph.replay()
        stream.synchronize()
        times = []
        for _ in range(replays):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            stop.record(stream)
            stop.synchronize()
            times.append(1e3 * start.elapsed_time(stop) / calls)
    return sorted(times)[len(times) // 2]


def best(make, input_bytes, calls):
    """The fastest of several ways to call one kernel; what doesn't compile or fit is left out."""
    times = []
    for call in calls:
        try:
            times.append(measure(make, call, input_bytes, 11))
        except Exception as e:
            print("# left out: %s" % str(e).splitlines()[0], file=sys.stderr)
    return min(times) if times else float("nan")


# ---- problems ---------------------------------------------------------------------------------------------------

def rand(*shape):
    return torch.randn(*shape, device=DEV, dtype=BF16)


def eager_add_rmsnorm(x, r, w, y, ro):
    h = x + r
    ro.copy_(h)
    y.copy_(torch.nn.functional.rms_norm(h, (h.shape[-1],), w, 1e-6))


def eager_add_rmsnorm_fp8(x, r, w, q, s, ro):
    h = x + r
    ro.copy_(h)
    f = torch.nn.functional.rms_norm(h, (h.shape[-1],), w, 1e-6).float()
    scale = torch.clamp(f.abs().amax(-1, keepdim=True) / 448, min=1 / (448 * 512))
    s.copy_(scale)
    q.copy_(torch.clamp(f / scale, -448, 448).to(torch.float8_e4m3fn))


def eager_gelu(x, y):
    a, b = x.chunk(2, -1)
    y.copy_(torch.nn.functional.gelu(a, approximate="tanh") * b)


def eager_silu(x, y):
    a, b = x.chunk(2, -1)
    y.copy_(torch.nn.functional.silu(a) * b)


def compiled(fn):
    return torch.compile(fn, mode="max-autotune-no-cudagraphs", dynamic=False)


compiled_fns = {}


def others(op):
    """(name, make's argument order -> call) of installed libraries."""
    found = []
    try:
        import flashinfer
        if op == "add_rmsnorm":
            found.append(("flashinfer", lambda x, r, w, y, ro: flashinfer.fused_add_rmsnorm(x, r, w, 1e-6)))
        elif op == "silu":
            found.append(("flashinfer", lambda x, y: flashinfer.silu_and_mul(x, y)))
        elif op == "gelu":
            found.append(("flashinfer", lambda x, y: flashinfer.gelu_tanh_and_mul(x, y)))
    except Exception:
        pass
    try:
        from vllm import _custom_ops  # noqa: F401  (registers torch.ops._C)
        c = torch.ops._C
        if op == "add_rmsnorm":
            found.append(("vllm", lambda x, r, w, y, ro: c.fused_add_rms_norm(x, r, w, 1e-6)))
        elif op == "silu":
            found.append(("vllm", lambda x, y: c.silu_and_mul(y, x)))
        elif op == "gelu":
            found.append(("vllm", lambda x, y: c.gelu_tanh_and_mul(y, x)))
    except Exception:
        pass
    return found


def add_rmsnorm(m, n):
    make = lambda: (rand(m, n), rand(m, n), rand(n), torch.empty(m, n, device=DEV, dtype=BF16),
                    torch.empty(m, n, device=DEV, dtype=BF16))
    block = triton.next_power_of_2(n)
    calls = [lambda x, r, w, y, ro, k=k: add_rmsnorm_kernel[(m,)](x, r, w, y, ro, n, 1e-6, B=block, num_warps=k)
             for k in (4, 8, 16, 32)]
    return "add_rmsnorm bf16->bf16 M=%d N=%d" % (m, n), make, 4 * m * n, 8 * m * n + 2 * n, calls, eager_add_rmsnorm, \
        "add_rmsnorm"


def add_rmsnorm_fp8(m, n):
    make = lambda: (rand(m, n), rand(m, n), rand(n), torch.empty(m, n, device=DEV, dtype=torch.float8_e4m3fn),
                    torch.empty(m, 1, device=DEV), torch.empty(m, n, device=DEV, dtype=BF16))
    block = triton.next_power_of_2(n)
    calls = [lambda x, r, w, q, s, ro, k=k: add_rmsnorm_fp8_kernel[(m,)](x, r, w, q, s, ro, n, 1e-6, B=block, num_warps=k)
             for k in (4, 8, 16, 32)]
    return "add_rmsnorm bf16->e4m3 M=%d N=%d scale=token" % (m, n), make, 4 * m * n, 7 * m * n + 2 * n + 4 * m, calls, \
        eager_add_rmsnorm_fp8, "fp8"


def act(m, n, tanh):
    make = lambda: (rand(m, 2 * n), torch.empty(m, n, device=DEV, dtype=BF16))
    calls = [lambda x, y, b=b, k=k: act_and_mul_kernel[(triton.cdiv(n, b), m)](x, y, n, TANH=tanh, B=b, num_warps=k)
             for b, k in ((512, 1), (1024, 2), (1024, 4), (2048, 4), (4096, 8))]
    return "act_and_mul bf16->bf16 M=%d N=%d%s" % (m, n, " act=gelu_tanh" if tanh else ""), make, 4 * m * n, 6 * m * n, \
        calls, eager_gelu if tanh else eager_silu, "gelu" if tanh else "silu"


def copy_gbps():
    n = 512 << 20  # elements, 1 GiB each way
    x, y = torch.empty(n, device=DEV, dtype=BF16), torch.empty(n, device=DEV, dtype=BF16)
    us = best(lambda: (x, y), 1 << 40, [lambda a, b, s=s, k=k: copy_kernel[(triton.cdiv(n, s),)](a, b, n, B=s, num_warps=k)
                                        for s, k in ((1024, 4), (2048, 4), (4096, 8), (8192, 8))])
    return 4 * n / us / 1e3


def rfg(args, texts):
    command = [args.rfg_bench, "--device", args.device, "--json", "--rounds", "31"]
    command += ["--db", args.db] if args.db else []
    for t in texts:
        command += ["--problem", t]
    got = {}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    for line in run.stdout.splitlines():
        j = json.loads(line)
        got[j["problem"]] = j
    if run.returncode:
        print("# rfg-bench: exit code %d" % run.returncode, file=sys.stderr)
    return got


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rfg-bench", default="build/bin/rfg-bench")
    p.add_argument("--device", default="nvidia:0")
    p.add_argument("--db", help="the tuned database (default: the user's)")
    p.add_argument("--rows", default="1,2,4,8,16,32,64,256,1024,4096,8192")
    p.add_argument("--quick", action="store_true", help="two sizes of each")
    args = p.parse_args()
    rows = [int(r) for r in args.rows.split(",")]
    hidden = (4096, 8192) if args.quick else (2048, 2880, 4096, 5120, 7168, 8192, 16384)
    inter = (4864, 14336) if args.quick else (1536, 2880, 8192, 14336, 18432, 28672)
    problems = [add_rmsnorm(m, n) for n in hidden for m in rows]
    problems += [add_rmsnorm_fp8(m, n) for n in (4096, 8192) for m in rows]
    problems += [act(m, n, tanh) for tanh in (True, False) for n in inter for m in rows]
    torch._dynamo.config.cache_size_limit = 4096

    gbps = copy_gbps()
    texts = [t for t, *_ in problems]
    ours = rfg(args, texts)
    print("# %s; copy %.0f GB/s, %.1f MB of cache" % (torch.cuda.get_device_name(), gbps, cache_bytes() / 2**20))
    print("%-52s %8s %8s %8s %8s %7s %7s  %s" % ("problem", "rfg us", "compile", "triton", "library", "x best", "% copy",
                                                 "variant"))
    table = []
    for text, make, input_bytes, total_bytes, calls, eager, kind in problems:
        fn = compiled_fns.setdefault(kind, compiled(eager))
        times = {"compile": best(make, input_bytes, [fn]), "triton": best(make, input_bytes, calls)}
        library = [best(make, input_bytes, [call]) for _, call in others(kind)]
        times["library"] = min(library) if library else float("nan")
        table.append((text, times, total_bytes))
    again = rfg(args, texts)
    for text, times, total_bytes in table:
        runs = [g[text] for g in (ours, again) if text in g]
        us = min((r["p50_us"] for r in runs), default=float("nan"))
        peer = min((t for t in times.values() if t == t), default=float("nan"))
        print("%-52s %8.2f %8.2f %8.2f %8.2f %7.2f %7.1f  %s" % (
            text, us, times["compile"], times["triton"], times["library"], peer / us, 100 * total_bytes / us / 1e3 / gbps,
            runs[0]["variant"] if runs else "-"), flush=True)


main()
