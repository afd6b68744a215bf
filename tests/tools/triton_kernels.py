# SPDX-License-Identifier: MIT
"""Triton kernels of the kinds that models are made of; triton_emu.py compiles and runs them."""
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, o, cols, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * cols + i, mask=i < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row * cols + i, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=i < cols)


@triton.jit
def layer_norm(x, w, b, o, mean, rstd, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    s = tl.zeros([B], tl.float32)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        s += tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(s, 0) / n
    q = tl.zeros([B], tl.float32)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        d = tl.where(i < n, tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32) - m, 0.0)
        q += d * d
    r = 1 / tl.sqrt(tl.sum(q, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        y = (v - m) * r * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n)
        tl.store(o + row * n + i, y.to(o.dtype.element_ty), mask=i < n)


@triton.jit
def add_rms_norm(x, residual, w, o, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    h = tl.load(x + row * n + i, mask=m, other=0.0) + tl.load(residual + row * n + i, mask=m, other=0.0)
    tl.store(residual + row * n + i, h, mask=m)
    f = h.to(tl.float32)
    r = tl.rsqrt(tl.sum(f * f, 0) / n + eps)
    tl.store(o + row * n + i, (f * r * tl.load(w + i, mask=m, other=0.0).to(tl.float32)).to(o.dtype.element_ty), mask=m)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr, B_IS_NK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], ACC)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        if B_IS_NK:
            p = b + rn[None, :] * K + rk[:, None]
        else:
            p = b + rk[:, None] * N + rn[None, :]
        y = tl.load(p, mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype=ACC)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def split_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * SPLIT):
        rk = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + rm[:, None] * K + rk[None, :]), tl.load(b + rn[None, :] * K + rk[:, None]), acc)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N), sem="relaxed")


@triton.jit
def dequant_matmul(a, q, scale, c, M, N, K, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """4-bit weights, two in a byte along K, a scale for GROUP of them; bias by the epilogue's relu."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, GROUP):
        rk = k + tl.arange(0, GROUP)
        byte = tl.load(q + rn[None, :] * (K // 2) + rk[:, None] // 2)
        nibble = (byte >> ((rk[:, None] % 2) * 4)) & 15
        s = tl.load(scale + rn * (K // GROUP) + k // GROUP)
        w = ((nibble.to(tl.float32) - 8) * s[None, :]).to(a.dtype.element_ty)
        acc = tl.dot(tl.load(a + rm[:, None] * K + rk[None, :]), w, acc)
    acc = tl.maximum(acc, 0.0)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def scaled_matmul(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AF: tl.constexpr, BF: tl.constexpr):
    DA: tl.constexpr = 2 if AF == "e2m1" else 1
    DB: tl.constexpr = 2 if BF == "e2m1" else 1
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(a + m[:, None] * (K // DA) + tl.arange(0, K // DA)[None, :])
    y = tl.load(b + n[None, :] * (K // DB) + tl.arange(0, K // DB)[:, None])
    s = tl.arange(0, K // 32)
    p = tl.load(sa + m[:, None] * (K // 32) + s[None, :])
    q = tl.load(sb + n[:, None] * (K // 32) + s[None, :])
    acc = tl.dot_scaled(x, p, AF, y, q, BF)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def attention(q, k, v, o, lse, S, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0) * BM
    head = tl.program_id(1) * S * D
    rm = start + tl.arange(0, BM)
    rd = tl.arange(0, D)
    x = tl.load(q + head + rm[:, None] * D + rd[None, :], mask=rm[:, None] < S, other=0.0)
    most = tl.full([BM], -1e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(S, start + BM)
    for n in range(0, end, BN):
        rn = n + tl.arange(0, BN)
        kt = tl.load(k + head + rn[None, :] * D + rd[:, None], mask=rn[None, :] < S, other=0.0)
        s = tl.dot(x, kt) * scale
        keep = rn[None, :] < S
        if CAUSAL:
            keep = keep & (rn[None, :] <= rm[:, None])
        s = tl.where(keep, s, -1e30)
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2((s - new[:, None]) * 1.4426950408889634)
        fade = tl.exp2((most - new) * 1.4426950408889634)
        total = total * fade + tl.sum(p, 1)
        vt = tl.load(v + head + rn[:, None] * D + rd[None, :], mask=rn[:, None] < S, other=0.0)
        acc = tl.dot(p.to(vt.dtype), vt, acc * fade[:, None])
        most = new
    tl.store(o + head + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(o.dtype.element_ty), mask=rm[:, None] < S)
    tl.store(lse + tl.program_id(1) * S + rm, most + tl.log(total), mask=rm < S)


@triton.jit
def decode_attention(q, k, v, table, length, o, scale, PAGE: tl.constexpr, PAGES: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(0)
    rd = tl.arange(0, D)
    x = tl.load(q + seq * D + rd).to(tl.float32)
    n = tl.load(length + seq)
    most = -1e30
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for p in range(0, tl.cdiv(n, PAGE)):
        page = tl.load(table + seq * PAGES + p)
        at = tl.arange(0, PAGE)
        keys = tl.load(k + (page * PAGE + at)[:, None] * D + rd[None, :]).to(tl.float32)
        s = tl.where(p * PAGE + at < n, tl.sum(keys * x[None, :], 1) * scale, -1e30)
        new = tl.maximum(most, tl.max(s, 0))
        e = tl.exp(s - new)
        fade = tl.exp(most - new)
        vals = tl.load(v + (page * PAGE + at)[:, None] * D + rd[None, :]).to(tl.float32)
        acc = acc * fade + tl.sum(vals * e[:, None], 0)
        total = total * fade + tl.sum(e, 0)
        most = new
    tl.store(o + seq * D + rd, (acc / total).to(o.dtype.element_ty))


@triton.jit
def column_sum(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    s = tl.zeros([BN], tl.float64)
    for m in range(0, M, BM):
        rm = m + tl.arange(0, BM)
        s += tl.sum(tl.load(x + rm[:, None] * N + rn[None, :], mask=(rm[:, None] < M) & (rn[None, :] < N), other=0.0).to(tl.float64), 0)
    tl.store(o + rn, s, mask=rn < N)


@triton.jit
def arg_max(x, value, index, N, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * N + i, mask=i < N, other=-float("inf"))
    m, at = tl.max(v, 0, return_indices=True)
    tl.store(value + tl.program_id(0), m)
    tl.store(index + tl.program_id(0), at)


@triton.jit
def cumulative_sum(x, o, B: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):
    r = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o + r, tl.cumsum(tl.load(x + r), 1, reverse=REVERSE))


@triton.jit
def combine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_recurrence(a, b, o, B: tl.constexpr, C: tl.constexpr):
    """h[t] = a[t] h[t - 1] + b[t], along the columns."""
    r = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    _, h = tl.associative_scan((tl.load(a + r), tl.load(b + r)), 0, combine)
    tl.store(o + r, h)


@triton.jit
def atomics(x, index, add, most, least, bits, count, n, B: tl.constexpr):
    """Triton 3.9 compares signed integers as unsigned where it puts lanes together before an atomic maximum (v_max_u32, gfx9)."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    at = tl.load(index + i, mask=m)
    tl.atomic_add(add + at, v.to(tl.float32), mask=m, sem="relaxed")
    tl.atomic_max(most + at, tl.abs(v), mask=m)
    tl.atomic_min(least + at, tl.abs(v), mask=m)
    tl.atomic_or(bits + at, 1 << (v & 31), mask=m, sem="relaxed")
    tl.atomic_xor(bits + 16 + at, v, mask=m, sem="relaxed")
    tl.atomic_add(count, tl.sum(m.to(tl.int32), 0))


@triton.jit
def half_atomics(x, index, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.atomic_add(o + tl.load(index + i, mask=m), tl.load(x + i, mask=m), mask=m, sem="relaxed")


@triton.jit
def locked_sum(x, lock, total, N, B: tl.constexpr):
    """Partial sums of rows into one, under a spin lock."""
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * N + i, mask=i < N, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + i, tl.load(total + i, mask=i < N, other=0.0) + v, mask=i < N)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def histogram(x, o, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(o + tl.arange(0, BINS), h, sem="relaxed")


@triton.jit
def sort_rows(x, o, B: tl.constexpr, C: tl.constexpr, DESCENDING: tl.constexpr):
    r = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o + r, tl.sort(tl.load(x + r), descending=DESCENDING))


@triton.jit
def top_k(x, o, C: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * C + tl.arange(0, C))
    tl.store(o + row * K + tl.arange(0, K), tl.topk(v, K))


@triton.jit
def gather_columns(x, index, o, B: tl.constexpr, C: tl.constexpr):
    r = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o + r, tl.gather(tl.load(x + r), tl.load(index + r), 1))


@triton.jit
def embedding(ids, table, o, D, B: tl.constexpr):
    row = tl.load(ids + tl.program_id(0)).to(tl.int64)
    i = tl.arange(0, B)
    v = tl.load(table + row * D + i, mask=(i < D) & (row >= 0), other=0.0)
    tl.store(o + tl.program_id(0) * D + i, v, mask=i < D)


@triton.jit
def dropout(x, o, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    rm = tl.program_id(0) * B + tl.arange(0, B)
    rn = tl.program_id(1) * B + tl.arange(0, B)
    t = tl.load(x + rm[:, None] * N + rn[None, :], mask=(rm[:, None] < M) & (rn[None, :] < N))
    tl.store(o + rn[:, None] * M + rm[None, :], tl.trans(t), mask=(rn[:, None] < N) & (rm[None, :] < M))


@triton.jit
def gated(x, o, n, KIND: tl.constexpr, B: tl.constexpr):
    """silu or gelu of the first half of a row times the second."""
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    g = tl.load(x + row * 2 * n + i, mask=m, other=0.0).to(tl.float32)
    u = tl.load(x + row * 2 * n + n + i, mask=m, other=0.0).to(tl.float32)
    if KIND == "silu":
        a = g * tl.sigmoid(g)
    elif KIND == "gelu":
        a = 0.5 * g * (1 + tl.erf(g * 0.7071067811865476))
    else:
        a = 0.5 * g * (1 + libdevice.tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)))
    tl.store(o + row * n + i, (a * u).to(o.dtype.element_ty), mask=m)


@triton.jit
def rotary(x, cos, sin, o, D: tl.constexpr):
    t = tl.program_id(0)
    h = tl.program_id(1)
    i = tl.arange(0, D // 2)
    p = x + (t * tl.num_programs(1) + h) * D
    a = tl.load(p + i).to(tl.float32)
    b = tl.load(p + D // 2 + i).to(tl.float32)
    c = tl.load(cos + t * (D // 2) + i)
    s = tl.load(sin + t * (D // 2) + i)
    r = o + (t * tl.num_programs(1) + h) * D
    tl.store(r + i, (a * c - b * s).to(o.dtype.element_ty))
    tl.store(r + D // 2 + i, (b * c + a * s).to(o.dtype.element_ty))


@triton.jit
def quantize(x, q, scale, n, MOST: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    s = tl.maximum(tl.max(tl.abs(v), 0), 1e-10) / MOST
    tl.store(scale + row, s)
    y = tl.clamp(v / s, -MOST, MOST)
    if q.dtype.element_ty == tl.int8:
        y = libdevice.rint(y)
    tl.store(q + row * n + i, y.to(q.dtype.element_ty), mask=i < n)


@triton.jit
def cross_entropy(logits, label, loss, N, B: tl.constexpr):
    row = tl.program_id(0)
    most = -float("inf")
    total = 0.0
    for k in range(0, N, B):
        i = k + tl.arange(0, B)
        v = tl.load(logits + row * N + i, mask=i < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(most, tl.max(v, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(v - new), 0)
        most = new
    tl.store(loss + row, tl.log(total) + most - tl.load(logits + row * N + tl.load(label + row)).to(tl.float32))


@triton.jit
def convolution(x, w, o, T, C, B: tl.constexpr, W: tl.constexpr):
    """Depthwise, causal, of width W, with silu."""
    t = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for k in tl.static_range(W):
        at = t - (W - 1) + k
        v = tl.load(x + at * C + c, mask=(c < C) & (at >= 0), other=0.0).to(tl.float32)
        acc += v * tl.load(w + c * W + k, mask=c < C, other=0.0).to(tl.float32)
    tl.store(o + t * C + c, (acc * tl.sigmoid(acc)).to(o.dtype.element_ty), mask=c < C)


@triton.jit
def collatz(x, o, n, B: tl.constexpr):
    """A loop whose lanes end at different times, with integer division."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1)
    steps = tl.zeros([B], tl.int32)
    while tl.max(v, 0) > 1:
        steps += (v > 1).to(tl.int32)
        v = tl.where(v > 1, tl.where(v % 2 == 0, v // 2, 3 * v + 1), v)
    tl.store(o + i, steps * 1000 + (i + 1) % 7 - (i - 50) // 3, mask=i < n)


@triton.jit
def moments(x, o, n, B: tl.constexpr):
    """Welford's mean and variance, put together by a reduction of tuples."""
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    one = (i < n).to(tl.float32)
    m, s, c = tl.reduce((v, v * 0, one), 0, welford)
    tl.store(o + tl.program_id(0) * 2, m)
    tl.store(o + tl.program_id(0) * 2 + 1, s / c)


@triton.jit
def welford(m1, s1, c1, m2, s2, c2):
    c = c1 + c2
    d = m2 - m1
    r = tl.where(c > 0, c2 / tl.maximum(c, 1.0), 0.0)
    return m1 + d * r, s1 + s2 + d * d * c1 * r, c


@triton.jit
def integers(x, y, o, n, B: tl.constexpr):
    """64-bit arithmetic, multiplication's high half, shifts, population counts by bit tricks."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a = tl.load(x + i, mask=m, other=1)
    b = tl.load(y + i, mask=m, other=1)
    h = tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int64)
    w = a.to(tl.int64) * b.to(tl.int64)
    tl.store(o + i, (w >> 7) ^ h ^ (w // (b.to(tl.int64) | 1)) ^ (w << (a & 15).to(tl.int64)), mask=m)


@triton.jit
def mathematics(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m, other=1.0)
    y = tl.sin(v) + tl.cos(v * 3) + tl.log2(v) + tl.sqrt(v) + tl.exp2(-v) + libdevice.pow(v, 0.3) + libdevice.atan(v)
    tl.store(o + i, tl.fma(y, v, tl.floor(v) - tl.ceil(v * 2)), mask=m)
