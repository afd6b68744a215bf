#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GGUF products of few rows beside ggml's CUDA kernels (quantize_q8_1 and mul_mat_vec_q, as llama.cpp runs them).

    bench/peers/ggml_mmvq.sh GGML BIN q4_0 q4_k ...     # GGML: vendor/llama.cpp/ggml of llama-cpp-python's sdist
    bench/gguf_peers.py --peers BIN [--bench rfg-bench] [--db DB] [--types q4_0,q4_k] [--rows 1,2,4,8]

A line each: microseconds of rfg (the dispatcher's choice), of ggml's two kernels and of its product alone, over rfg's,
and the share of `--gbps` at which W was read.
"""
import argparse
import math
import os
import subprocess

SHAPES = ((14336, 4096), (4096, 4096), (4096, 14336), (1024, 4096))  # Llama-3-8B
BYTES = {"q4_0": 18 / 32, "q4_1": 20 / 32, "q5_0": 22 / 32, "q5_1": 24 / 32, "q8_0": 34 / 32, "q2_k": 84 / 256,
         "q3_k": 110 / 256, "q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256, "iq4_nl": 18 / 32,
         "iq4_xs": 136 / 256, "mxfp4": 17 / 32, "nvfp4": 36 / 64}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", required=True)
    p.add_argument("--bench", default="rfg-bench")
    p.add_argument("--db")
    p.add_argument("--types", default="q4_0,q4_k,q5_k,q6_k,q8_0,iq4_xs,mxfp4")
    p.add_argument("--rows", default="1,2,4,8")
    p.add_argument("--gbps", type=float, default=4200)
    o = p.parse_args()
    rows = [int(m) for m in o.rows.split(",")]
    print(f"{'type':8}{'M':>3}{'N':>7}{'K':>7}{'rfg us':>9}{'ggml us':>9}{'alone':>8}{'over':>7}{'share':>7}  variant")
    every = []
    for t in o.types.split(","):
        sizes = [(m, n, k) for m in rows for n, k in SHAPES]
        words = [str(v) for s in sizes for v in s]
        peer = {tuple(map(int, f[1:4])): (float(f[4]), float(f[5])) for f in
                (l.split() for l in subprocess.run([os.path.join(o.peers, "mmvq-" + t), *words], check=True, text=True,
                                                   capture_output=True).stdout.splitlines())}
        args = [o.bench, "--no-check", "--rounds", "20", "--max-seconds", "0.1"] + (["--db", o.db] if o.db else [])
        for m, n, k in sizes:
            args += ["--problem", f"gemm bf16,{t}->bf16 M={m} N={n} K={k} fast=1"]
        for l in subprocess.run(args, check=True, text=True, capture_output=True).stdout.splitlines():
            f = l.split()
            if f[:1] != ["gemm"]:
                continue
            m, n, k = (int(f[i].split("=")[1]) for i in (2, 3, 4))
            us, (both, alone) = float(f[6]), peer[m, n, k]
            every.append(both / us)
            print(f"{t:8}{m:3}{n:7}{k:7}{us:9.2f}{both:9.2f}{alone:8.2f}{both / us:7.2f}"
                  f"{n * k * BYTES[t] / us / o.gbps / 1e3:7.2f}  {f[-1]}")
    print(f"geomean {math.exp(sum(map(math.log, every)) / len(every)):.2f}, worst {min(every):.2f}")


main()
