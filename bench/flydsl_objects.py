#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Code objects of FlyDSL's bf16 GEMMs that AITER's published rows name, for bench/clock.py. No GPU is needed.

    python3 -m venv V && V/bin/pip install flydsl==0.3.1 numpy
    bench/clock.py names --published DIR --rows 30 | V/bin/python bench/flydsl_objects.py AITER OUT

AITER: ROCm/aiter's source tree, whose kernels are compiled where they are; 0.3.1 is what it asks for. Lines read: a
kernel's name, N and K. OUT gets <gfx>/flydsl/<name>_N<N>_K<K>.co. Those files import PyTorch and the rest of AITER, but
need nothing of them to compile: classes of any name stand for them. FlyDSL links by ROCm's ld.lld; LLVM 19's serves."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

NAME = re.compile(
    r"flydsl_gemm(?P<STAGES>\d+)_a(?P<dtype>[a-z0-9]+)_w[a-z0-9]+_[a-z0-9]+_t(?P<TILE_M>\d+)x(?P<TILE_N>\d+)x(?P<TILE_K>\d+)"
    r"_split_k(?P<SPLIT_K>\d+)_block_m_warp(?P<BLOCK_M_WARPS>\d+)_block_n_warp(?P<BLOCK_N_WARPS>\d+)"
    r"_block_k_warp(?P<BLOCK_K_WARPS>\d+)_async_copy(True|False)_b_to_lds(?P<B_TO_LDS>True|False)_b_preshuffleFalse"
    r"_c_to_ldsFalse_(?P<gfx>gfx[0-9a-z]+)$")


class Anything(type):
    """A class whose members are such classes, each the same whenever it is asked for."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(cls, name, Anything(name, (), {}))
        return getattr(cls, name)


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module


def compile_one(aiter, name, n, k):
    """In a process of its own: FlyDSL reads the GPU's name once."""
    stand_in("torch", __getattr__=functools.partial(getattr, Anything("torch", (), {})))
    for package in ("aiter", "aiter.ops", "aiter.ops.flydsl", "aiter.ops.flydsl.kernels"):
        stand_in(package, __path__=[os.path.join(aiter, package.replace(".", os.sep))])
    import flydsl.compiler as flyc
    import flydsl.expr as fx
    from aiter.ops.flydsl.kernels.splitk_hgemm import compile_hgemm_kernel
    found = NAME.match(name).groupdict()
    params = {key: int(value) for key, value in found.items() if value.isdigit()}
    launch = compile_hgemm_kernel(found["dtype"], n, k, B_TO_LDS=found["B_TO_LDS"] == "True", HAS_BIAS=False, **params)
    pointer = flyc.from_c_void_p(fx.Uint8, 0)
    flyc.compile(launch, pointer, pointer, pointer, pointer, 16, pointer, pointer, fx.Stream(0))


def unescaped(text):
    """MLIR's string: \\XX is a byte."""
    return re.sub(rb"\\([0-9A-F]{2}|\\)", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 16)]), text)


def code_object(folder):
    for root, _, files in os.walk(folder):
        for name in files:
            if name.endswith("_gpu_module_to_binary.mlir"):
                with open(os.path.join(root, name), "rb") as f:
                    found = re.search(rb'bin = "((?:[^"\\]|\\.)*)"', f.read(), re.S)
                return unescaped(found[1]) if found else None
    return None


def make(aiter, to, name, n, k):
    """The reason why not; "": made."""
    found = NAME.match(name)
    lld = shutil.which("ld.lld-19") or shutil.which("ld.lld")
    if not found or not lld:
        return "a name of another kernel" if lld else "no ld.lld"
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/rocm/llvm/bin")
        os.symlink(lld, folder + "/rocm/llvm/bin/ld.lld")
        env = dict(os.environ, COMPILE_ONLY="1", FLYDSL_GPU_ARCH=found["gfx"], FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=folder + "/dump",
                   FLYDSL_RUNTIME_CACHE_DIR=folder + "/cache", ROCM_PATH=folder + "/rocm")
        run = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", aiter, name, n, k], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        code = code_object(folder + "/dump")
    if not code:
        return next((line for line in run.stdout.splitlines() if "rror" in line), "nothing was compiled")[:300]
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to, "wb") as f:
        f.write(code)
    return ""


def main():
    if len(sys.argv) == 6 and sys.argv[1] == "--one":
        return compile_one(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    failed = 0
    for line in sys.stdin:
        name, n, k = line.split()
        to = os.path.join(sys.argv[2], name.split("_")[-1], "flydsl", "%s_N%s_K%s.co" % (name, n, k))
        why = "" if os.path.exists(to) else make(sys.argv[1], to, name, n, k)
        if why:
            print("%s N=%s K=%s: %s" % (name, n, k, why), flush=True)
            failed += 1
    return failed > 0


sys.exit(main())
