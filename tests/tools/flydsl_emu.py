#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""FlyDSL's code objects on the emulated GPU: small kernels (tiled copies to registers, arithmetic, lanes that are put together) compiled by
PyPI's flydsl without a GPU, run by rfg-emu under its default checks, compared with numpy.

  RFG_FLYDSL_PYTHON=venv/bin/python tests/tools/flydsl_emu.py build/bin/rfg-emu [--arch gfx942]    (a Python with flydsl, torch, numpy; ld.lld)"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201")
N, BLOCK = 512, 64


def start():
    """In the python that has flydsl; one process an architecture, which flydsl reads from the environment."""
    python = os.environ.get("RFG_FLYDSL_PYTHON")
    if not python or not shutil.which("ld.lld"):
        print("SKIPPED: " + ("no ld.lld" if python else "RFG_FLYDSL_PYTHON names no Python with flydsl, torch and numpy"))
        return 77
    ap = argparse.ArgumentParser()
    ap.add_argument("emu")
    ap.add_argument("--arch", action="append", choices=ARCHS)
    o = ap.parse_args()
    failed = 0
    for arch in o.arch or ARCHS:
        with tempfile.TemporaryDirectory() as folder:  # flydsl looks for the linker where ROCm has it
            os.makedirs(folder + "/llvm/bin")
            os.symlink(shutil.which("ld.lld"), folder + "/llvm/bin/ld.lld")
            env = dict(os.environ, COMPILE_ONLY="1", ARCH=arch, FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=folder + "/dump", ROCM_PATH=folder,
                       FLYDSL_RUNTIME_ENABLE_CACHE="0", RFG_FLYDSL_INSIDE=folder)
            failed += subprocess.run([python, os.path.abspath(__file__), o.emu], env=env).returncode != 0
    return failed != 0


if not os.environ.get("RFG_FLYDSL_INSIDE"):
    sys.exit(start())

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402


def kernel_of(op, bits, kind):
    atom_of = {16: fx.UniversalCopy16b, 32: fx.UniversalCopy32b}[bits]

    @flyc.kernel
    def elementwise(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
        bid = fx.block_idx.x
        tid = fx.thread_idx.x
        tA = fx.logical_divide(fx.slice(fx.logical_divide(A, fx.make_layout(BLOCK, 1)), (None, bid)), fx.make_layout(1, 1))
        tB = fx.logical_divide(fx.slice(fx.logical_divide(B, fx.make_layout(BLOCK, 1)), (None, bid)), fx.make_layout(1, 1))
        tC = fx.logical_divide(fx.slice(fx.logical_divide(C, fx.make_layout(BLOCK, 1)), (None, bid)), fx.make_layout(1, 1))
        atom = fx.make_copy_atom(atom_of(), kind)
        rA = fx.make_rmem_tensor(1, kind)
        rB = fx.make_rmem_tensor(1, kind)
        rC = fx.make_rmem_tensor(1, kind)
        fx.copy_atom_call(atom, fx.slice(tA, (None, tid)), rA)
        fx.copy_atom_call(atom, fx.slice(tB, (None, tid)), rB)
        fx.memref_store_vec(op(fx.memref_load_vec(rA), fx.memref_load_vec(rB)), rC)
        fx.copy_atom_call(atom, rC, fx.slice(tC, (None, tid)))

    @flyc.jit
    def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        elementwise(A, B, C).launch(grid=(N // BLOCK, 1, 1), block=[BLOCK, 1, 1], stream=stream)

    return launch


# of positive a and any b; none that ROCm's device libraries, which aren't in the wheel, would be linked for
FLOAT = {
    "add": (lambda a, b: a + b, np.add), "sub": (lambda a, b: a - b, np.subtract), "mul": (lambda a, b: a * b, np.multiply),
    "div": (lambda a, b: b / a, lambda a, b: b / a), "fma": (lambda a, b: fx.fma(a, b, b), lambda a, b: a * b + b),
    "max": (lambda a, b: fx.maximumf(a, b), np.maximum), "min": (lambda a, b: fx.minimumf(a, b), np.minimum),
    "abs": (lambda a, b: fx.absf(b), lambda a, b: abs(b)), "sqrt": (lambda a, b: fx.sqrt(a), lambda a, b: np.sqrt(a)),
    "rsqrt": (lambda a, b: fx.rsqrt(a), lambda a, b: 1 / np.sqrt(a)), "exp": (lambda a, b: fx.exp(b), lambda a, b: np.exp(b)),
    "log": (lambda a, b: fx.log(a), lambda a, b: np.log(a)),
    "polynomial": (lambda a, b: (a * b + b) * a - b, lambda a, b: (a * b + b) * a - b),
    "clamp": (lambda a, b: fx.minimumf(fx.maximumf(b, -a), a), lambda a, b: np.clip(b, -a, a)),
    "quotient": (lambda a, b: (b - a) / (a * a), lambda a, b: (b - a) / (a * a)),
    "silu": (lambda a, b: b / (fx.exp(-b) + 1.0), lambda a, b: b / (1 + np.exp(-b))),
}
HALF = ["add", "mul", "fma", "max", "sqrt"]
INTEGER = {"add": (lambda a, b: a + b, np.add), "mul": (lambda a, b: a * b, np.multiply), "xor": (lambda a, b: a ^ b, np.bitwise_xor),
           "and": (lambda a, b: a & b, np.bitwise_and), "shift": (lambda a, b: a << 3, lambda a, b: a << 3)}


def code_object(dump):
    """The ELF file in the last MLIR text."""
    found = [os.path.join(d, f) for d, _, files in os.walk(dump) for f in files if "module_to_binary" in f]
    text = open(found[0], encoding="utf-8", errors="surrogateescape").read()
    body = re.search(r'bin = "((?:[^"\\]|\\.)*)"', text).group(1)
    simple = {"n": 10, "t": 9, "\\": 92, '"': 34}
    out = bytearray()
    for m in re.finditer(r"\\([0-9A-Fa-f]{2})|\\(.)|([^\\]+)", body, re.S):
        if m.group(1):
            out.append(int(m.group(1), 16))
        elif m.group(2):
            out.append(simple[m.group(2)])
        else:
            out += m.group(3).encode("utf-8", "surrogateescape")
    return bytes(out)


def one(emu, folder, name, op, expected, kind):
    torch_type, fly_type, bits, tolerance = {"f32": (torch.float32, fx.Float32, 32, 2e-5), "f16": (torch.float16, fx.Float16, 16, 2e-3),
                                             "i32": (torch.int32, fx.Int32, 32, 0)}[kind]
    rng = np.random.default_rng(5)
    numpy_type = {"f32": np.float32, "f16": np.float16, "i32": np.int32}[kind]
    a, b = ((rng.integers(-2 ** 31, 2 ** 31, N).astype(numpy_type) for _ in range(2)) if kind == "i32" else
            ((rng.random(N) * 4 + .1).astype(numpy_type), (rng.standard_normal(N) * 2).astype(numpy_type)))
    shutil.rmtree(folder + "/dump", ignore_errors=True)
    quiet = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    try:
        kernel_of(op, bits, fly_type)(*(torch.zeros(N, dtype=torch_type) for _ in range(3)))
    finally:
        os.dup2(quiet, 1)
        os.close(quiet)
        os.close(sink)
    path = os.path.join(folder, name)
    open(path + ".co", "wb").write(code_object(folder + "/dump"))
    a.tofile(path + ".a")
    b.tofile(path + ".b")
    args = ["in:%s.a" % path, "i32:%d" % N, "in:%s.b" % path, "i32:%d" % N, "out:%s.c:%d" % (path, N * bits // 8), "i32:%d" % N]
    p = subprocess.run([emu, "run", path + ".co", "--grid", str(N // BLOCK), "--block", str(BLOCK), "--args"] + args, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        return p.stdout
    got = np.fromfile(path + ".c", numpy_type)
    want = expected(a, b) if kind == "i32" else expected(a.astype(np.float64), b.astype(np.float64))
    bad = got != want if kind == "i32" else ~(abs(got - want) <= tolerance * (1 + abs(want)))
    return "%d of %d are wrong\n" % (bad.sum(), N) if bad.any() else None


def main():
    folder, arch, right = os.environ["RFG_FLYDSL_INSIDE"], os.environ["ARCH"], 0
    table = [("%s_f32" % n, *FLOAT[n], "f32") for n in FLOAT] + [("%s_f16" % n, *FLOAT[n], "f16") for n in HALF] + \
            [("%s_i32" % n, *INTEGER[n], "i32") for n in INTEGER]
    for row in table:
        try:
            why = one(sys.argv[1], folder, *row)
        except Exception as e:
            why = "doesn't compile: %s\n" % (str(e).strip().splitlines() or [repr(e)])[0]
        right += why is None
        if why is not None:
            print("%s %s: %s" % (arch, row[0], why), end="")
    print("%s: %d of %d kernels of FlyDSL are right, without a report" % (arch, right, len(table)), flush=True)
    return right != len(table)


if __name__ == "__main__":
    sys.exit(main())
