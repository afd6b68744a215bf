#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counters of our kernels on an emulated AMD GPU, beside Triton's own AMD code objects of the same problems.

  bench/triton_counters.py [--gemm] [--problem TEXT]... [--device emu:gfx942:304] [--bin build/bin] [--all] [--json]
  bench/triton_counters.py --gemm --static [--device gfx950:256]

Needs PyPI's triton and numpy, and no GPU: Triton compiles for GPUTarget("hip", ARCH) by itself, `rfg-emu run` runs the
code object under all of the emulator's checks, and its result is compared with numpy's before it is counted: a wrong
one, or a finding of the checks, ends the program with status 1. Each problem's Triton kernel is compiled in several
shapes (warps, blocks, splits): the one with the fewest wave-instructions is shown (--all: each). Ours are the
dispatcher's picks, untuned, by `rfg-bench --counters`.

Columns: instr      wave-instructions of the whole grid
         a wave     the same, of a wave on average
         valu/16B   VALU instructions of a wave for each 16 bytes a lane that it loads
         bytes      asked for (loads, stores, atomics, scalar loads) over the operator's minimum
         lines      distinct lines of 128 bytes over the minimum
         full       bytes asked for by loads and stores over those of the lines that each instruction touches
         lds        bank conflict cycles over conflict-free cycles, in %
         vgprs, spills, waves a SIMD: of the first kernel
--gemm only, in place of valu/16B and full:
         a K tile   wave-instructions for each 16 rows of X by 16 of W by 128 along k that are multiplied
         KB/CU      loads under way at most, in KB by CU of the device: each wave's loads until its first wait for one,
                    all workgroups that fit at once
FlyDSL's rows are what its split-K kernel's static counts, times its waves, come to; with the trips through its loop,
as far as its MFMAs say how often it runs, in the last column.
--static: instructions as they stand in the code object, no emulator: for devices that it doesn't know, as gfx950."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import peer_kernels as tk
from emu_counters import Wrong, add_up, check, emulate, ours, row_of, to_bits, to_float

NORMS = ["add_rmsnorm bf16->bf16 M=16 N=4096", "add_rmsnorm bf16->bf16 M=64 N=8192",
         "add_rmsnorm bf16->bf16 M=4096 N=8192",
         "add_rmsnorm f16->f16 M=16 N=4096", "add_rmsnorm f16->f16 M=64 N=8192",
         "add_rmsnorm f16->f16 M=4096 N=8192", "add_rmsnorm f32->f32 M=16 N=4096",
         "act_and_mul bf16->bf16 M=64 N=14336 act=gelu_tanh", "act_and_mul bf16->bf16 M=64 N=14336 act=silu",
         "act_and_mul f16->f16 M=64 N=14336 act=silu"]
GEMMS = ["gemm bf16,bf16->bf16 M=%d N=%d K=7168" % (m, n) for m in (1, 8, 64) for n in (384, 1024)]
EPS = 1e-6
# FlyDSL's split-K GEMM as its tuned tables have it (gfx950) or nearest (gfx942), bf16, K = 7168: compiled offline and
# disassembled. By the most rows: rows and columns of a tile, split, waves; instructions and MFMAs of a wave as they stand
# in the code, and of a trip through its loop; trips' length along k; KB of LDS that loads are under way to; VGPRs.
FLYDSL = {"gfx942": {16: (16, 64, 14, 2, (1019, 32), (222, 16), 128, 20, 90),
                     64: (32, 64, 7, 4, (725, 32), (159, 16), 128, 24, 60)},
          "gfx950": {16: (16, 64, 8, 2, (519, 32), (53, 4), 64, 70, 44),
                     64: (32, 64, 7, 4, (483, 32), (75, 8), 128, 72, 52)}}

Call = namedtuple("Call", "kernel grid args consts warps stages")  # args: (name, Triton's type, value) each
Out = namedtuple("Out", "array")  # a buffer that begins as this array, and is written
Problem = namedtuple("Problem", "op dtype m n k attrs")


def empty(shape, dtype):
    return np.zeros(shape, {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[dtype])


# ---- running one code object --------------------------------------------------------------------------------------

def compile_call(call, arch, wave):
    """Specialised as Triton's launcher does: arguments that 16 divides are said to be, ones are constants."""
    signature, consts, attrs = {}, dict(call.consts), {}
    for i, (name, kind, value) in enumerate(call.args):
        signature[name] = kind
        if kind[0] == "*" or (kind == "i32" and value % 16 == 0):
            attrs[(i,)] = [["tt.divisibility", 16]]
        elif kind == "i32" and value == 1:
            signature[name], consts[name] = "constexpr", 1
    signature.update({name: "constexpr" for name in call.consts})
    source = ASTSource(call.kernel, signature=signature, constexprs=consts, attrs=attrs)
    options = {"num_warps": call.warps, "num_stages": call.stages}
    return triton.compile(source, target=GPUTarget("hip", arch, wave), options=options), consts


def run_call(call, args, folder):
    """Launches it on the emulator; buffers that are Out() are read back. Gives the counters."""
    compiled, consts = compile_call(call, args.arch, args.wave)
    path = os.path.join(folder, "kernel.hsaco")
    with open(path, "wb") as f:
        f.write(compiled.asm["hsaco"])
    if args.static:
        return {"static": static_counts(compiled.asm["amdgcn"], args), "grid": call.grid, "waves": call.warps}
    values, outs = [], []
    for i, (name, kind, value) in enumerate(call.args):
        if name in consts:
            continue
        if kind[0] != "*":
            values.append("%s:%r" % ({"fp32": "f32"}.get(kind, kind), value))
            continue
        file, array = os.path.join(folder, "arg%d" % i), value.array if isinstance(value, Out) else value
        array.tofile(file)
        if isinstance(value, Out):
            outs.append((array, file + ".out"))
            values.append("inout:%s:%s.out" % (file, file))
        else:
            values.append("in:" + file)
    values += ["null", "null"]  # Triton's scratch buffers for all workgroups and for its profiler: of no use here
    if getattr(compiled.metadata, "global_scratch_size", 0):
        raise Wrong("%s: needs global scratch" % call.kernel.__name__)
    c = emulate(call.kernel.__name__, path, call.grid, call.warps * args.wave, compiled.metadata.shared, values, args)
    for array, file in outs:
        array[...] = np.fromfile(file, array.dtype).reshape(array.shape)
    if args.gemm:
        c["under_way"] = static_counts(compiled.asm["amdgcn"], args)["under_way"]
    return c


# ---- what a code object says by itself --------------------------------------------------------------------------

CLASSES = [("mfma", "v_mfma"), ("vmem", "buffer_load|global_load|buffer_store|global_store|global_atomic|buffer_atomic"),
           ("ds", "ds_"), ("valu", "v_"), ("salu", "s_")]


def disassemble(path):
    tool = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    if not tool:
        raise Wrong("no llvm-objdump (Debian: llvm-19)")
    return "".join(subprocess.run(c + [path], stdout=subprocess.PIPE, check=True, text=True).stdout
                   for c in ([tool, "-d"], [tool.replace("objdump", "readelf"), "--notes"]))


def static_counts(text, args):
    """Instructions by class, and the bytes of a wave's loads before it first waits for one, of assembly with its notes."""
    counts, under_way, waited = dict.fromkeys(["instructions"] + [c for c, _ in CLASSES], 0), 0, False
    for line in text.splitlines():
        words = line.split()
        if not re.match("\t[a-z]", line) or words[0] in ("s_code_end", "s_nop"):
            continue
        op = words[0]
        counts["instructions"] += 1
        counts[next((c for c, prefix in CLASSES if re.match(prefix, op)), "salu")] += 1
        waited = waited or (op == "s_waitcnt" and "vmcnt" in line)
        size = re.match("(?:buffer|global)_load_(?:lds_)?dword(x\\d)?", op)
        if size and not waited:
            under_way += 4 * int((size.group(1) or "x1")[1:]) * args.wave

    def note(name):
        found = re.search(r"\.%s:\s+(\d+)" % name, text)
        return int(found.group(1)) if found else 0
    return dict(counts, under_way=under_way, vgprs=note("vgpr_count"),
                spills=note("vgpr_spill_count") + note("sgpr_spill_count") + note("private_segment_fixed_size"))


def our_code(problem, variant, args):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ours")
        command = [os.path.join(args.bin, "rfg-compile"), "--arch", args.device.replace("emu:", ""), "--problem", problem,
                   "--variant", variant]
        zig = args.arch == "gfx950"  # which objdump 19 doesn't know: the compiler's own assembly
        run = subprocess.run(command + (["--source"] if zig else ["-o", path]), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        if run.returncode:
            raise Wrong("rfg-compile: exit code %d: %s" % (run.returncode, run.stderr.strip()))
        if not zig:
            return static_counts(disassemble(path), args)
        with open(path, "w") as f:
            f.write(run.stdout)
        zig = [os.environ.get("RFG_ZIGLANG_PYTHON", sys.executable), "-m", "ziglang", "clang", "-x", "hip", "-std=c++17",
               "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3", "--offload-arch=gfx950",
               "-S", "-o", path + ".s", path]
        run = subprocess.run(zig, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            raise Wrong("ziglang: exit code %d: %s" % (run.returncode, run.stderr.strip()))
        with open(path + ".s") as f:
            return static_counts(f.read(), args)


# ---- problems: a reference, and the calls to try ------------------------------------------------------------------

TYPES = {"bf16": "*bf16", "f16": "*fp16", "f32": "*fp32"}


def parse(text):
    words = text.split()
    attrs = dict(w.split("=", 1) for w in words[2:])
    dims = {k: int(attrs.pop(k, 0)) for k in "MNK"}
    return Problem(words[0], re.split("->|,", words[1])[0], dims["M"], dims["N"], dims["K"], attrs)


def add_rmsnorm(p, rng):
    """Yields (what it is called, calls, check) for each way."""
    x, r = (to_bits(rng.standard_normal((p.m, p.n), np.float32), p.dtype) for _ in range(2))
    w = to_bits(1 + 0.25 * rng.standard_normal(p.n, np.float32), p.dtype)
    h = to_bits(to_float(x, p.dtype) + to_float(r, p.dtype), p.dtype)
    f = to_float(h, p.dtype).astype(np.float64)
    want = f / np.sqrt((f * f).mean(1, keepdims=True) + EPS) * to_float(w, p.dtype)
    t = TYPES[p.dtype]
    for warps in (4, 8, 16):
        y, ro = Out(empty((p.m, p.n), p.dtype)), Out(empty((p.m, p.n), p.dtype))

        def verify(name, y=y, ro=ro):
            check(name + ", residual", to_float(ro.array, p.dtype), to_float(h, p.dtype).astype(float), p.dtype, 0)
            check(name, to_float(y.array, p.dtype), want, p.dtype, 1e-5)

        arguments = [("x", t, x), ("r", t, r), ("w", t, w), ("y", t, y), ("ro", t, ro), ("eps", "fp32", EPS)]
        block = triton.next_power_of_2(p.n)
        yield "%d warps, block %d" % (warps, block), [
            Call(tk.add_rmsnorm_kernel, (p.m,), arguments, {"N": p.n, "B": block}, warps, 2)], verify


def act_and_mul(p, rng):
    x = to_bits(2 * rng.standard_normal((p.m, 2 * p.n), np.float32), p.dtype)
    a, b = np.split(to_float(x, p.dtype).astype(np.float64), 2, 1)
    tanh = p.attrs.get("act", "silu") == "gelu_tanh"
    if tanh:
        want = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) * b
    else:
        want = a / (1 + np.exp(-a)) * b
    t = TYPES[p.dtype]
    for warps in (4, 8, 16):
        for block in (1024, 2048, 4096, 8192):
            if block < warps * 64 * 2 or block > warps * 64 * 32:
                continue
            y = Out(empty((p.m, p.n), p.dtype))
            yield "%d warps, block %d" % (warps, block), [
                Call(tk.act_and_mul_kernel, (triton.cdiv(p.n, block), p.m), [("x", t, x), ("y", t, y), ("n", "i32", p.n)],
                     {"TANH": tanh, "B": block}, warps, 2)
            ], lambda name, y=y: check(name, to_float(y.array, p.dtype), want, p.dtype, 1e-5)


def gemm(p, rng):
    x = to_bits(rng.standard_normal((p.m, p.k), np.float32), p.dtype)
    w = to_bits(rng.standard_normal((p.n, p.k), np.float32), p.dtype)
    want = (to_float(x, p.dtype).astype(np.float64) @ to_float(w, p.dtype).astype(np.float64).T)
    t = TYPES[p.dtype]
    bm = 16 if p.m <= 16 else 32 if p.m <= 32 else 64
    for bn in (32, 64):
        for bk in (128, 256):
            for split in (4, 8, 16):
                for last in (True, False):
                    if (bm + bn) * bk * 2 > 65536:
                        continue
                    y = Out(empty((p.m, p.n), p.dtype))
                    parts = Out(np.zeros((split, p.m, p.n), np.float32))
                    tiles = (triton.cdiv(p.n, bn), split, triton.cdiv(p.m, bm))
                    calls = [Call(tk.gemm_splitk_kernel, tiles,
                                  [("x", t, x), ("w", t, w), ("y", t, y), ("parts", "*fp32", parts),
                                   ("counters", "*i32", Out(np.zeros(tiles[0] * tiles[2], np.int32))), ("M", "i32", p.m),
                                   ("N", "i32", p.n), ("K", "i32", p.k)],
                                  {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "LAST": last}, 4, 2)]
                    if not last:
                        calls.append(Call(tk.splitk_sum_kernel, (triton.cdiv(p.m * p.n, 512),),
                                          [("y", t, y), ("parts", "*fp32", parts), ("n", "i32", p.m * p.n)],
                                          {"SPLIT": split, "B": 512}, 4, 2))
                    yield "%dx%dx%d, split %d, %s" % (bm, bn, bk, split, "1 launch" if last else "2 launches"), calls, \
                        lambda name, y=y: check(name, to_float(y.array, p.dtype), want, p.dtype, 1e-3)


# ---- the table ----------------------------------------------------------------------------------------------------

def gemm_columns(row, p, c, args):
    """What --gemm shows beside."""
    row["a_k_tile"] = row["instructions"] / gemm_tiles(p)
    k = c["kernels"][0]
    at_once = min(k["workgroups"] / k["launches"], args.cus * k["workgroups_per_cu"])
    loads = c["global"]["loads"]  # lanes that are off, or out of a buffer, ask for nothing
    asked = min(loads["bytes"] / max(loads["requests"] * 16 * args.wave, 1), 1)
    row["kb_a_cu"] = c["under_way"] * asked * k["waves"] * at_once / args.cus / 1024
    return row


def gemm_tiles(p):
    return -(-p.m // 16) * -(-p.n // 16) * p.k / 128


def flydsl_row(text, p, args):
    shapes = FLYDSL.get(args.arch)
    if not shapes or p.k != 7168 or p.dtype != "bf16" or p.m > 64:
        return None
    tm, tn, split, waves, (instructions, mfma), (loop, loop_mfma), loop_k, ring, vgprs = shapes[16 if p.m <= 16 else 64]
    groups = -(-p.m // tm) * -(-p.n // tn) * split
    total = groups * waves * instructions
    trips = p.k // split // loop_k - mfma // loop_mfma  # beside those that the code has once
    run = groups * waves * (instructions + trips * loop)
    return {"problem": text, "who": "FlyDSL", "how": "%dx%d, split %d, static; with its loop's trips %d" % (tm, tn, split, run), "instructions": total,
            "a_wave": instructions, "a_k_tile": total / gemm_tiles(p), "kb_a_cu": ring * groups / args.cus,
            "bytes": float("nan"), "lines": float("nan"), "lds_conflicts": float("nan"), "vgprs": vgprs, "spills": 0,
            "waves_per_simd": float("nan")}


def show(r, args):
    if args.json:
        print(json.dumps(r), flush=True)
    elif args.gemm:
        print("%-42s %-6s %9d %7.0f %8.1f %6.3f %6.3f %6.1f %5.1f %5d %6d %5.3g  %s" %
              (r["problem"], r["who"], r["instructions"], r["a_wave"], r["a_k_tile"], r["bytes"], r["lines"], r["kb_a_cu"],
               r["lds_conflicts"], r["vgprs"], r["spills"], r["waves_per_simd"], r["how"]), flush=True)
    else:
        print("%-50s %-6s %9d %7.0f %8.1f %6.3f %6.3f %5.2f %5.1f %5d %6d %5.3g  %s" %
              (r["problem"], r["who"], r["instructions"], r["a_wave"], r["valu_per_16B"], r["bytes"], r["lines"], r["full"],
               r["lds_conflicts"], r["vgprs"], r["spills"], r["waves_per_simd"], r["how"]), flush=True)


def triton_rows(text, minimal, args):
    p = parse(text)
    ways = {"add_rmsnorm": add_rmsnorm, "act_and_mul": act_and_mul, "gemm": gemm}.get(p.op)
    if not ways:
        raise Wrong("%s: there is no Triton kernel of '%s' here" % (text, p.op))
    rows = []
    for how, calls, verify in ways(p, np.random.default_rng(args.seed)):
        with tempfile.TemporaryDirectory() as folder:
            sums = None
            for call in calls:
                counters = run_call(call, args, folder)
                sums = add_up(sums, counters) if sums else counters
        verify("%s, Triton, %s" % (text, how))
        row = row_of(text, "Triton", how, sums, minimal)
        rows.append(gemm_columns(row, p, sums, args) if args.gemm else row)
    return sorted(rows, key=lambda r: r["instructions"])


def static_table(args):
    """Of the model's pick for each problem, which must be gemm_stream_mma's: its parameters say how many waves it has."""
    print("# %s, static; Triton %s" % (args.device, triton.__version__))
    print("%-42s %-6s %9s %7s %5s %5s %5s %5s %5s %6s %5s %6s  %s" %
          ("problem", "whose", "instr", "a wave", "mfma", "vmem", "ds", "valu", "salu", "KB/CU", "vgprs", "spills", "how"))

    def line(text, who, c, waves, groups, how):
        print("%-42s %-6s %9d %7d %5d %5d %5d %5d %5d %6.1f %5d %6d  %s" %
              (text, who, c["instructions"] * waves * groups, c["instructions"], c["mfma"], c["vmem"], c["ds"], c["valu"],
               c["salu"], c["under_way"] * waves * groups / args.cus / 1024, c["vgprs"], c["spills"], how), flush=True)
    for text in args.problem or GEMMS:
        p = parse(text)
        run = subprocess.run([os.path.join(args.bin, "rfg-tune"), "--device", args.device.replace("emu:", ""), "--dry-run",
                              "--problem", text], stdout=subprocess.PIPE, text=True, check=True)
        variant = re.search(r"us  (\S+)  \(default\)", run.stdout).group(1)
        v = dict((k, int(n)) for k, n in re.findall(r"(\w+)=(\d+)", variant))
        if not variant.startswith("gemm_stream_mma"):
            raise Wrong("%s: the model picks %s: --static knows gemm_stream_mma only" % (text, variant))
        groups = -(-p.m // v["tile_m"]) * -(-p.n // (16 * v["frags_n"])) * v["split_k"]
        line(text, "ours", our_code(text, variant, args), v["k_waves"], groups, variant)
        fly = flydsl_row(text, p, args)
        if fly:
            print("%-42s %-6s %9d %7d %37s %6.1f %5d %6d  %s" % (text, "FlyDSL", fly["instructions"], fly["a_wave"], "",
                                                              fly["kb_a_cu"], fly["vgprs"], 0, fly["how"]))
        ways = []
        for how, calls, _ in gemm(p, np.random.default_rng(args.seed)):
            if len(calls) == 1 and "x128, split 8" in how:
                with tempfile.TemporaryDirectory() as folder:
                    ways.append((how, run_call(calls[0], args, folder)))
        for how, w in ways:
            line(text, "Triton", w["static"], w["waves"], w["grid"][0] * w["grid"][1] * w["grid"][2], how)
    return 0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", default="build/bin", help="where rfg-bench and rfg-emu are")
    a.add_argument("--device", default="emu:gfx942:304")
    a.add_argument("--gemm", action="store_true", help="split-K GEMM of bf16 with K=7168 in place of norms and activations")
    a.add_argument("--static", action="store_true", help="--gemm by the code objects alone, without the emulator")
    a.add_argument("--problem", action="append", help="in place of the usual ones")
    a.add_argument("--all", action="store_true", help="each way that Triton's kernel was compiled")
    a.add_argument("--json", action="store_true", help="an object a line")
    a.add_argument("--seed", type=int, default=1)
    args = a.parse_args()
    args.arch = args.device.split(":")[1 if args.device.startswith("emu:") else 0]
    args.wave = 64 if args.arch.startswith("gfx9") else 32
    args.cus = int((args.device.split(":") + ["304"])[2 if args.device.startswith("emu:") else 1])
    if args.static:
        return static_table(args)
    if not args.json:
        print("# %s; Triton %s" % (args.device, triton.__version__))
        if args.gemm:
            print("%-42s %-6s %9s %7s %8s %6s %6s %6s %5s %5s %6s %5s  %s" %
                  ("problem", "whose", "instr", "a wave", "a K tile", "bytes", "lines", "KB/CU", "lds%", "vgprs", "spills",
                   "waves", "how"))
        else:
            print("%-50s %-6s %9s %7s %8s %6s %6s %5s %5s %5s %6s %5s  %s" %
              ("problem", "whose", "instr", "a wave", "valu/16B", "bytes", "lines", "full", "lds%", "vgprs", "spills",
               "waves", "how"))
    try:
        for text in args.problem or (GEMMS if args.gemm else NORMS):
            c = ours(text, args)
            row = row_of(text, "ours", c["variant"], c, c["minimal_bytes"])
            if args.gemm:
                c["under_way"] = our_code(text, c["variant"], args)["under_way"]
                gemm_columns(row, parse(text), c, args)
            show(row, args)
            fly = flydsl_row(text, parse(text), args) if args.gemm else None
            if fly:
                show(fly, args)
            rows = triton_rows(text, c["minimal_bytes"], args)
            for r in rows if args.all else rows[:1]:
                show(r, args)
    except Wrong as e:
        print("triton_counters.py: %s" % e, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
