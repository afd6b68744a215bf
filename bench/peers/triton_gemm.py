# SPDX-License-Identifier: MIT
"""Triton's split-K GEMM, swept: about 80 configurations a problem (tiles, splits, stages; one launch, partial sums
added up by a second launch, or by the last to arrive), compiled ahead on all cores. M, N and K are run-time arguments,
so most problems share most kernels."""

import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from collections import namedtuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

import peer_kernels as k

PARTS = 64 << 20  # fp32 numbers for partial sums; splits that need more are left out
SUM_BLOCK = 512

Config = namedtuple("Config", "bm bn bk split last warps stages")


def configs(m, quick=False):
    bms = [16] if m <= 16 else [32] if m <= 32 else [64] if m <= 64 else [64, 128]
    bks, stages = ((256,), (3,)) if quick else ((128, 256), (3, 4))
    out = []
    for bm, bn, bk, split, st in itertools.product(bms, (16, 32, 64), bks, (1, 4, 8, 16), stages):
        if (bm + bn) * bk * 2 * st > 220000 or (bm >= 64 and bn == 16):
            continue  # shared memory; too little for the loads of x
        out += [Config(bm, bn, bk, split, last, 4, st) for last in ((0,) if split == 1 else (0, 1))]
    return out


def fits(c, m, n):
    return c.split == 1 or c.split * m * n <= PARTS


def kind(m, n, kk):
    """The properties by which Triton specialises kernels: arguments that are 1, or multiples of 16."""
    return tuple(1 if v == 1 else 16 if v % 16 == 0 else 0 for v in (m, n, kk, m * n))


def job(dtype, m, n, kk, c):
    return (dtype,) + kind(m, n, kk) + c


# ---- compiling ahead ----------------------------------------------------------------------------------------------


class NoDevice:
    """As much of Triton's driver as compiling needs, so that a worker never touches the GPU."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0


def worker_init(capability):
    driver.set_active(NoDevice(capability))


def compile_one(task):
    """Into Triton's cache. (the job, None or why not)"""
    key, dtype, m, n, kk, c = task
    dtype = getattr(torch, dtype)
    try:
        k.gemm_splitk_kernel.warmup(
            dtype, dtype, dtype, torch.float32, torch.int32, m, n, kk, c.bm, c.bn, c.bk, c.split, c.last,
            grid=(1,), num_warps=c.warps, num_stages=c.stages,
        )  # fmt: skip
        if c.split > 1 and not c.last:
            k.splitk_sum_kernel.warmup(dtype, torch.float32, m * n, c.split, SUM_BLOCK, grid=(1,))
    except Exception as e:
        return key, "%s: %s" % (type(e).__name__, (str(e).splitlines() or [""])[0])
    return key, None


def capability():
    """90 on sm_90, None without a GPU; asked by a process of its own, so that this one can still fork."""
    code = (
        "import ctypes as c; l = c.CDLL('libcuda.so.1'); v = [c.c_int(), c.c_int()]; assert not l.cuInit(0); "
        "assert not any(l.cuDeviceGetAttribute(c.byref(v[i]), 75 + i, 0) for i in (0, 1)); "
        "print(10 * v[0].value + v[1].value)"
    )
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return int(r.stdout) if r.returncode == 0 else None


class Ahead:
    """Compiles in forked workers: made before this process uses the GPU."""

    def __init__(self, problems, capability, quick=False, workers=None):
        tasks = {}
        for dtype, m, n, kk in problems:
            for c in configs(m, quick):
                if fits(c, m, n):
                    tasks.setdefault(job(dtype, m, n, kk, c), (job(dtype, m, n, kk, c), dtype, m, n, kk, c))
        self.asked, self.ready, self.failed, self.t0 = len(tasks), set(), {}, time.monotonic()
        workers = workers or min(16, len(os.sched_getaffinity(0)))
        self.pool = multiprocessing.get_context("fork").Pool(workers, worker_init, (capability,))
        self.results = self.pool.imap_unordered(compile_one, list(tasks.values()))

    def wait(self, limit):
        """Until all is compiled, or so many seconds after the start."""
        try:
            while len(self.ready) + len(self.failed) < self.asked:
                key, why = self.results.next(max(0.01, self.t0 + limit - time.monotonic()))
                if why:
                    self.failed[key] = why
                else:
                    self.ready.add(key)
        except multiprocessing.TimeoutError:
            pass
        self.pool.terminate()
        self.pool.join()

    def lines(self):
        left = self.asked - len(self.ready) - len(self.failed)
        out = ["triton: %d of %d kernels compiled by %.1f s after the start%s"
               % (len(self.ready), self.asked, time.monotonic() - self.t0,
                  "; %d LEFT OUT: out of time" % left if left else "")]  # fmt: skip
        if self.failed:
            out.append("triton: %d failed, such as: %s" % (len(self.failed), next(iter(self.failed.values()))))
        return out


# ---- running ------------------------------------------------------------------------------------------------------


class Gemm:
    """ready: the jobs to choose from."""

    def __init__(self, device, ready, quick=False):
        self.parts = torch.empty(PARTS, device=device, dtype=torch.float32)
        self.counters = torch.zeros(1 << 16, device=device, dtype=torch.int32)
        self.ready, self.quick, self.bad = ready, quick, set()

    def run(self, c, y, x, w):
        m, kk = x.shape
        n = w.shape[0]
        grid = (triton.cdiv(n, c.bn), c.split, triton.cdiv(m, c.bm))
        k.gemm_splitk_kernel[grid](
            x, w, y, self.parts, self.counters, m, n, kk, c.bm, c.bn, c.bk, c.split, c.last,
            num_warps=c.warps, num_stages=c.stages,
        )  # fmt: skip
        if c.split > 1 and not c.last:
            k.splitk_sum_kernel[(triton.cdiv(m * n, SUM_BLOCK),)](y, self.parts, m * n, c.split, SUM_BLOCK)

    def candidates(self, dtype, ys, xs, ws):
        """[(label, call of a set)], and how many configurations are left out."""
        m, kk = xs[0].shape
        n = ws[0].shape[0]
        all_of_them = configs(m, self.quick)
        some = [c for c in all_of_them
                if fits(c, m, n) and c not in self.bad and job(dtype, m, n, kk, c) in self.ready]  # fmt: skip

        def call(c):
            def one(i):
                try:
                    self.run(c, ys[i], xs[i], ws[i])
                except Exception:
                    self.bad.add(c)  # too large for this GPU, say: don't ask again
                    raise

            return one

        label = "%dx%dx%d split=%d%s warps=%d stages=%d"
        return [
            (label % (c.bm, c.bn, c.bk, c.split, " last" if c.last else "", c.warps, c.stages), call(c)) for c in some
        ], len(all_of_them) - len(some)
