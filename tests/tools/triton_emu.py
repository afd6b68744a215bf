#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Triton's code objects on the emulated GPU: compiled by PyPI's triton (no GPU is needed), run by rfg-emu under its default checks,
compared with numpy. Every result must be right, and nothing may be reported.

  python3 -m venv venv && venv/bin/pip install --no-deps triton numpy
  RFG_TRITON_PYTHON=venv/bin/python tests/tools/triton_emu.py build/bin/rfg-emu [--arch gfx942] [--only NAME] [--keep DIR]"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
KNOWN = {"hazard": "hazards"}  # a check's group
ARCHS = {"gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}


def restart():
    """In the python that has triton, if this one is another."""
    python = os.environ.get("RFG_TRITON_PYTHON")
    if not python:
        print("SKIPPED: RFG_TRITON_PYTHON names no Python with triton and numpy")
        sys.exit(77)
    if os.environ.get("RFG_TRITON_INSIDE") != python:
        os.environ["RFG_TRITON_INSIDE"] = python
        os.execv(python, [python] + sys.argv)


if __name__ == "__main__":
    restart()
    sys.path.insert(0, HERE)

import triton  # noqa: E402
import triton_cases  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402


def compiled(case, arch):
    """The code object's bytes and what launching it needs."""
    names = case.kernel.arg_names
    signature = {n: case.types[k] if k < len(case.types) else "constexpr" for k, n in enumerate(names)}
    attributes = {}
    for k, a in enumerate(case.args):  # what Triton's launcher says of a tensor, of an integer
        if hasattr(a, "bits"):
            attributes[(k,)] = [["tt.divisibility", 16]] + ([["tt.pointer_range", 32]] if case.buffers else [])
        elif case.types[k][0] == "i" and a % 16 == 0:
            attributes[(k,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=case.kernel, signature=signature, constexprs=case.constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("hip", arch, ARCHS[arch]), options=dict(num_warps=4) | case.options)


def run(emu, arch, case, kernel, folder):
    """What is wrong with it, or None; what the emulator printed."""
    file = os.path.join(folder, "%s-%s" % (case.name, arch))
    with open(file + ".co", "wb") as f:
        f.write(kernel.asm["hsaco"])
    args = []
    for k, (a, t) in enumerate(zip(case.args, case.types)):
        if hasattr(a, "bits"):
            path = "%s.%d" % (file, k)
            a.bits.tofile(path)
            args.append("inout:%s:%s" % (path, path) if k in case.want else "in:" + path)
        else:
            args.append("%s:%s" % ({"fp32": "f32", "i32": "i32", "i64": "i64"}[t], a))
    if kernel.metadata.global_scratch_size or kernel.metadata.profile_scratch_size:
        return "asks for scratch in memory", ""
    command = [emu, "run", file + ".co", "--grid", ",".join(map(str, case.grid)), "--block",
               str(kernel.metadata.num_warps * kernel.metadata.warp_size), "--lds", str(kernel.metadata.shared), "--args"] + args + ["null"] * 2
    def launch(checks):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                              env=dict(os.environ) | ({"RFG_EMU_CHECKS": checks} if checks else {}))

    p = launch(None)
    if case.known:
        reports = [line for line in p.stdout.splitlines() if "warning: emu: " in line]
        if not reports or any("emu: %s:" % case.known not in line for line in reports):
            return "is known for %s, which is not what is reported" % case.known, p.stdout
        p = launch(",".join({"registers", "waits", "lds", "races", "hazards", "barriers"} - {KNOWN[case.known]}))
    if p.returncode:
        return "rfg-emu: exit status %d" % p.returncode, p.stdout
    for k, (expected, relative, absolute) in case.want.items():
        got = case.args[k].read("%s.%d" % (file, k))
        bad = triton_cases.wrong(got, expected, relative, absolute)
        if bad is not None:
            return "argument %d: %s" % (k, bad), p.stdout
    return None, p.stdout


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("emu")
    ap.add_argument("--arch", action="append", choices=list(ARCHS))
    ap.add_argument("--only", action="append")
    ap.add_argument("--keep", help="leave code objects and LLVM's text there")
    ap.add_argument("-j", type=int, default=2)
    o = ap.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "cache"))
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
        if o.keep:
            os.makedirs(o.keep, exist_ok=True)

        def one(arch, case):
            try:
                kernel = compiled(case, arch)
            except Exception as e:
                return "doesn't compile: " + (str(e).strip().splitlines() or [repr(e)])[-1], ""
            if o.keep:
                with open(os.path.join(o.keep, "%s-%s.s" % (case.name, arch)), "w") as f:
                    f.write(kernel.asm["amdgcn"])
            return run(o.emu, arch, case, kernel, o.keep or folder)

        for arch in o.arch or ARCHS:
            cases = [c for c in triton_cases.cases(arch) if not o.only or c.name in o.only]
            right, known = 0, sum(c.known is not None for c in cases)
            with ThreadPoolExecutor(o.j) as pool:
                for case, (why, said) in zip(cases, pool.map(lambda c: one(arch, c), cases)):
                    right += why is None
                    if why is not None:
                        print("%s %s: %s\n%s" % (arch, case.name, why, said), end="", flush=True)
            print("%s: %d of %d kernels of Triton %s are right, %s" % (
                arch, right, len(cases), triton.__version__, "%d with a report that is right too" % known if known else "without a report"), flush=True)
            failed += len(cases) - right
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
