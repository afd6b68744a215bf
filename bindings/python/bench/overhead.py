#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cost of a call from Python over the C call: gemm f32 M=1 N=16 K=16 on cpu, one thread. Beside rfg's module the same call through
cffi (ABI mode) and ctypes, with views made of the tensors in each call, as those would have to.

  RFG_LIBRARY=build/librfg.so.0.2 PYTHONPATH=build/bindings/python python3 bindings/python/bench/overhead.py
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import timeit

os.environ["RFG_THREADS"] = "1"
import rfg  # noqa: E402
from rfg import _rfg, _hooks  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "..", "..", "include")
CALLS = 500


def c_call(library, m):
    with tempfile.TemporaryDirectory() as folder:
        exe = os.path.join(folder, "call")
        subprocess.run(["cc", "-O2", "-I" + INCLUDE, os.path.join(HERE, "call.c"), library, "-Wl,-rpath," + os.path.dirname(library), "-o", exe], check=True)
        return float(subprocess.run([exe, str(m)], check=True, stdout=subprocess.PIPE).stdout)


def measure(function):
    function()
    return min(timeit.repeat(function, number=CALLS, repeat=200)) / CALLS * 1e9


class CTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 5), ("strides", ctypes.c_int64 * 5)]


def with_ctypes(library, tensors):
    lib = ctypes.CDLL(library)
    ctx = ctypes.c_void_p()
    assert lib.rfg_context_create(ctypes.byref(ctx), None) == 0

    def view(t):
        v = CTensor(t.data_ptr(), 1, t.ndim)
        for i, (n, s) in enumerate(zip(t.shape, t.stride())):
            v.shape[i], v.strides[i] = n, s
        return ctypes.byref(v)

    def call():
        lib.rfg_op_gemm(ctx, *[view(t) for t in tensors], None, None)

    return call


def with_cffi(library, tensors):
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("""typedef struct { void *data; int dtype; int32_t ndim; int64_t shape[5], strides[5]; } rfg_tensor;
        int rfg_context_create(void **, void *);
        int rfg_op_gemm(void *, rfg_tensor *, rfg_tensor *, rfg_tensor *, void *, void *);""")
    lib = ffi.dlopen(library)
    ctx = ffi.new("void **")
    assert lib.rfg_context_create(ctx, ffi.NULL) == 0
    kind, null, context = ffi.typeof("rfg_tensor *"), ffi.NULL, ctx[0]

    def view(t):
        return ffi.new(kind, (ffi.cast("void *", t.data_ptr()), 1, t.ndim, t.shape, t.stride()))

    def call():
        lib.rfg_op_gemm(context, *[view(t) for t in tensors], null, null)

    return call


def main():
    library = os.path.realpath(_hooks.library_path())
    os.environ["RFG_DEVICE"] = "cpu"
    rows = []
    try:
        import torch
    except ImportError:
        torch = None
        print("without torch: NumPy only")
    import numpy

    for m in (0, 1):
        base = c_call(library, m)
        rows.append(("C call", m, base, 0))
        shapes = ((m, 16), (m, 16), (16, 16))
        kinds = {"numpy": [numpy.zeros(s, "f") for s in shapes]}
        if torch:
            kinds["torch"] = [torch.zeros(s) for s in shapes]
        for name, (y, x, w) in kinds.items():
            calls = {"_rfg.gemm(y, x, w)": lambda: _rfg.gemm(y, x, w), "rfg.gemm(x, w, out=y)": lambda: rfg.gemm(x, w, out=y), "rfg.gemm(x, w)": lambda: rfg.gemm(x, w)}
            if name == "torch":
                views = [ByAttributes(t) for t in (y, x, w)]
                calls["_rfg.gemm, by attributes"] = lambda: _rfg.gemm(*views)
                calls["torch.empty alone"] = lambda: x.new_empty((m, 16))
                calls["torch.nn.functional.linear"] = lambda: torch.nn.functional.linear(x, w)
                calls["ctypes"] = with_ctypes(library, (y, x, w))
                try:
                    calls["cffi"] = with_cffi(library, (y, x, w))
                except ImportError:
                    pass
                from rfg.torch import gemm as custom_gemm

                calls["rfg.torch.gemm(x, w)"] = lambda: custom_gemm(x, w)
            for what, function in calls.items():
                with torch.no_grad() if torch else tempfile.TemporaryDirectory():
                    t = measure(function)
                rows.append((name + ": " + what, m, t, t - base))
    print("%-44s %2s %9s %9s" % ("call", "M", "ns", "over C"))
    for row in rows:
        print("%-44s %2d %9.0f %9.0f" % row)
    return 0


class ByAttributes:
    """A tensor that is asked by its attributes alone, as one of PyTorch before 2.9."""

    def __init__(self, t):
        self.data_ptr, self.stride, self.shape, self.dtype, self.device, self.requires_grad = t.data_ptr, t.stride, t.shape, t.dtype, t.device, False


if __name__ == "__main__":
    sys.exit(main())
