# SPDX-License-Identifier: MIT
"""Triton kernels of the tutorial kind, what ours are timed beside (norms_peers.py) and counted beside
(triton_counters.py): one program a row or a block; and the copies that say what bandwidth is there."""

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def touch_kernel(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def add_rmsnorm_kernel(x, r, w, y, ro, eps, N: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, B)
    m = at < N
    h = tl.load(x + row + at, mask=m, other=0).to(tl.float32) + tl.load(r + row + at, mask=m, other=0).to(tl.float32)
    h = h.to(x.dtype.element_ty)
    tl.store(ro + row + at, h, mask=m)
    h = h.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(h * h) / N + eps)
    tl.store(y + row + at, (h * rstd * tl.load(w + at, mask=m, other=0).to(tl.float32)).to(y.dtype.element_ty), mask=m)


@triton.jit
def add_rmsnorm_fp8_kernel(x, r, w, q, s, ro, eps, N: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, B)
    m = at < N
    h = tl.load(x + row * N + at, mask=m, other=0).to(tl.float32)
    h += tl.load(r + row * N + at, mask=m, other=0).to(tl.float32)
    h = h.to(x.dtype.element_ty)
    tl.store(ro + row * N + at, h, mask=m)
    h = h.to(tl.float32)
    f = h * tl.rsqrt(tl.sum(h * h) / N + eps) * tl.load(w + at, mask=m, other=0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(f)) / 448.0, 1.0 / (448.0 * 512.0))
    tl.store(s + row, scale)
    tl.store(q + row * N + at, (f / scale).to(q.dtype.element_ty), mask=m)


@triton.jit
def gate(a, b, TANH: tl.constexpr):
    if TANH:
        return a * tl.sigmoid(1.5957691216 * (a + 0.044715 * a * a * a)) * b
    return a * tl.sigmoid(a) * b


@triton.jit
def act_and_mul_kernel(x, y, n, TANH: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * B + tl.arange(0, B)
    m = at < n
    a = tl.load(x + row * 2 * n + at, mask=m, other=0).to(tl.float32)
    b = tl.load(x + row * 2 * n + n + at, mask=m, other=0).to(tl.float32)
    tl.store(y + row * n + at, gate(a, b, TANH).to(y.dtype.element_ty), mask=m)


@triton.jit
def act_and_mul_fp8_kernel(x, q, s, N: tl.constexpr, TANH: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, B)
    m = at < N
    a = tl.load(x + row * 2 * N + at, mask=m, other=0).to(tl.float32)
    b = tl.load(x + row * 2 * N + N + at, mask=m, other=0).to(tl.float32)
    f = gate(a, b, TANH)
    scale = tl.maximum(tl.max(tl.abs(f)) / 448.0, 1.0 / (448.0 * 512.0))
    tl.store(s + row, scale)
    tl.store(q + row * N + at, (f / scale).to(q.dtype.element_ty), mask=m)


@triton.jit
def gemm_splitk_kernel(x, w, y, parts, counters, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                       SPLIT: tl.constexpr, LAST: tl.constexpr):
    """y[M, N] = x[M, K] w[N, K]^T. SPLIT > 1: fp32 partials, which the last to arrive adds up (LAST), or
    splitk_sum_kernel."""
    n_id, k_id, m_id = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, cols, ks = m_id * BM + tl.arange(0, BM), n_id * BN + tl.arange(0, BN), k_id * BK + tl.arange(0, BK)
    xp = x + (rows % M)[:, None] * K + ks[None, :]
    wp = w + (cols % N)[None, :] * K + ks[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(k_id * BK, K, BK * SPLIT):
        there = k + tl.arange(0, BK) < K
        a = tl.load(xp, mask=there[None, :], other=0.)
        b = tl.load(wp, mask=there[:, None], other=0., eviction_policy="evict_first")
        acc = tl.dot(a, b, acc)
        xp += BK * SPLIT
        wp += BK * SPLIT
    at = rows[:, None] * N + cols[None, :]
    ok = (rows < M)[:, None] & (cols < N)[None, :]
    if SPLIT == 1:
        tl.store(y + at, acc.to(y.dtype.element_ty), mask=ok)
    else:
        tl.store(parts + k_id * M * N + at, acc, mask=ok)
        if LAST:
            tl.debug_barrier()
            c = counters + m_id * tl.num_programs(0) + n_id
            if tl.atomic_add(c, 1, sem="acq_rel") == SPLIT - 1:
                s = tl.zeros((BM, BN), tl.float32)
                for i in range(SPLIT):
                    s += tl.load(parts + i * M * N + at, mask=ok, other=0., cache_modifier=".cg")
                tl.store(y + at, s.to(y.dtype.element_ty), mask=ok)
                tl.store(c, 0)


@triton.jit
def splitk_sum_kernel(y, parts, n, SPLIT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.zeros((B,), tl.float32)
    for k in range(SPLIT):
        s += tl.load(parts + k * n + i, mask=i < n, other=0.)
    tl.store(y + i, s.to(y.dtype.element_ty), mask=i < n)
