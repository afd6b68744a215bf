# SPDX-License-Identifier: MIT
"""The Triton kernels of norms_peers.py: the tutorial kind, one program a row or a block, swept over block sizes and
warps; and the copies that say what bandwidth is there."""

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
