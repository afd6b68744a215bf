# SPDX-License-Identifier: MIT
"""What triton_emu.py launches of triton_kernels.py: arguments, and numpy's answers in double precision."""
import math

import numpy as np
import triton
import triton.language as tl
import triton_kernels as kernels

# ---- formats: (exponent's bits, mantissa's, bias, the highest exponent is for numbers too, -0 is NaN)
NARROW = {"fp8e4nv": (4, 3, 7, True, False), "fp8e5": (5, 2, 15, False, False), "fp8e4b8": (4, 3, 8, True, True),
          "fp8e5b16": (5, 2, 16, True, True)}


def narrow_values(kind):
    e_bits, m_bits, bias, finite, fnuz = NARROW[kind]
    v = np.empty(256)
    for c in range(256):
        e, m = c >> m_bits & (1 << e_bits) - 1, c & (1 << m_bits) - 1
        x = math.ldexp(m, 1 - bias - m_bits) if e == 0 else math.ldexp((1 << m_bits) + m, e - bias - m_bits)
        if not finite and e == (1 << e_bits) - 1:
            x = math.nan if m else math.inf
        elif finite and not fnuz and c & 127 == 127:
            x = math.nan
        v[c] = -x if c & 128 else x
    if fnuz:
        v[128] = math.nan
    return v


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
NUMPY = {"fp32": np.float32, "fp16": np.float16, "fp64": np.float64, "i32": np.int32, "i64": np.int64, "i8": np.int8, "u8": np.uint8}


class Tensor:
    """An argument: its bits, and the values that they stand for."""

    def __init__(self, kind, values=None, bits=None):
        self.kind, self.type = kind, "*" + kind
        if bits is None:
            values = np.asarray(values)
            if kind == "bf16":
                w = values.astype(np.float32).view(np.uint32)
                bits = ((w + 0x7fff + (w >> 16 & 1)) >> 16).astype(np.uint16)
            elif kind in NARROW:
                t = narrow_values(kind)
                order = [c for c in np.argsort(t, kind="stable") if np.isfinite(t[c]) and c != 128]
                at = np.searchsorted(t[order], values.ravel())
                bits = np.array(order, np.uint8)[np.clip(at, 0, len(order) - 1)].reshape(values.shape)
            else:
                bits = values.astype(NUMPY[kind])
        self.bits, self.shape = bits, bits.shape

    @property
    def values(self):
        if self.kind == "bf16":
            return (self.bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.kind in NARROW:
            return narrow_values(self.kind)[self.bits]
        return self.bits if self.bits.dtype.kind in "iu" else self.bits.astype(np.float64)

    def read(self, path):
        return Tensor(self.kind, bits=np.fromfile(path, self.bits.dtype).reshape(self.shape)).values


def wrong(got, expected, relative, absolute):
    got, expected = np.asarray(got), np.asarray(expected)
    if expected.dtype.kind in "iu" and not relative and not absolute:
        bad = got != expected
    else:
        bad = ~(np.abs(got.astype(np.float64) - expected) <= relative * np.abs(expected) + absolute)
    if not bad.any():
        return None
    at = tuple(int(x) for x in np.argwhere(bad)[0])
    return "%d of %d elements are wrong, first %s: got %s, expected %s" % (bad.sum(), bad.size, at, got[at], expected[at])


class Case:
    def __init__(self, name, kernel, args, want, grid, buffers=True, options=None, **constants):
        """args in order, tensors or numbers; want: of an argument's number, (values, relative, absolute error)."""
        self.name, self.kernel, self.args, self.want = name, getattr(kernels, kernel), args, want
        self.grid, self.buffers, self.options, self.constants = grid, buffers, options or {}, constants
        self.known = None  # the check that rightly reports something
        self.types = [a.type if isinstance(a, Tensor) else "fp32" if isinstance(a, float) else "i32" for a in args]


ROUND = {"fp32": 2e-6, "fp16": 2 ** -10, "bf16": 2 ** -7, "fp8e4nv": 2 ** -3, "fp8e5": 2 ** -2}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def philox(seed, offset):
    """The first word of Philox 4x32-10 of counter (offset, 0, 0, 0)."""
    u = np.uint64
    c = [offset.astype(u), np.zeros_like(offset, u), np.zeros_like(offset, u), np.zeros_like(offset, u)]
    k0, k1 = seed & 0xffffffff, seed >> 32
    for _ in range(10):
        a, b = u(0xD2511F53) * c[0], u(0xCD9E8D57) * c[2]
        low = u(0xffffffff)
        c = [(b >> u(32)) ^ c[1] ^ u(k0), b & low, (a >> u(32)) ^ c[3] ^ u(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    return c[0]


def gemm(name, kinds, out, m, n, k, tiles, options=None, b_is_nk=True, buffers=True, kernel="matmul", rng=None, **more):
    integer = kinds[0] == "i8"
    draw = (lambda s: rng.integers(-100, 100, s)) if integer else (lambda s: rng.standard_normal(s))
    a, b = Tensor(kinds[0], draw((m, k))), Tensor(kinds[1], draw((n, k) if b_is_nk else (k, n)))
    w = b.values.T if b_is_nk else b.values
    x, w = (a.values.astype(np.int64), w.astype(np.int64)) if integer else (a.values, w)
    c = Tensor(out, np.zeros((m, n)))
    tol = (0, 0) if integer else (ROUND[out], 1e-6 * float((np.abs(x) @ np.abs(w)).max()))
    bm, bn, bk = tiles
    constants = dict(BM=bm, BN=bn, BK=bk) | more
    if kernel == "matmul":
        constants |= dict(ACC=tl.int32 if integer else tl.float32, B_IS_NK=b_is_nk)
    grid = (-(-m // bm), -(-n // bn)) + ((more["SPLIT"],) if "SPLIT" in more else ())
    return Case(name, kernel, [a, b, c, m, n, k], {2: (x @ w, *tol)}, grid, options=options, buffers=buffers, **constants)


def scaled(name, fa, fb, m, n, k, rng):
    def operand(f, rows):
        if f == "e2m1":
            codes = rng.integers(0, 256, (rows, k // 2), np.uint8)
            v = np.stack([E2M1[codes & 15], E2M1[codes >> 4]], -1).reshape(rows, k)
            return Tensor("u8", codes), v
        t = Tensor({"e4m3": "fp8e4nv", "e5m2": "fp8e5", "bf16": "bf16"}[f], rng.standard_normal((rows, k)))
        return t, t.values
    a, av = operand(fa, m)
    b, bv = operand(fb, n)
    sa, sb = (rng.integers(120, 134, (r, k // 32), np.uint8) for r in (m, n))
    av, bv = (v * np.exp2(s.astype(float) - 127).repeat(32, 1) for v, s in ((av, sa), (bv, sb)))
    out = Tensor("fp32", np.zeros((m, n)))
    return Case(name, "scaled_matmul", [a, Tensor("u8", sa), b, Tensor("u8", sb), out],
                {4: (av @ bv.T, 1e-6, 1e-6 * float((np.abs(av) @ np.abs(bv).T).max()))}, (1,), M=m, N=n, K=k, AF=fa, BF=fb)


def flash(name, kind, heads, s, d, causal, bm, bn, rng, options=None):
    q, k, v = (Tensor(kind, rng.standard_normal((heads, s, d))) for _ in range(3))
    scale = float(np.float32(1 / math.sqrt(d)))
    p = np.einsum("hqd,hkd->hqk", q.values, k.values) * scale
    if causal:
        p = np.where(np.tril(np.ones((s, s), bool)), p, -np.inf)
    lse = np.log(np.exp(p - p.max(-1, keepdims=True)).sum(-1)) + p.max(-1)
    o = np.einsum("hqk,hkd->hqd", np.exp(p - lse[..., None]), v.values)
    return Case(name, "attention", [q, k, v, Tensor(kind, np.zeros_like(o)), Tensor("fp32", np.zeros_like(lse)), s, scale],
                {3: (o, ROUND[kind], 4 * ROUND[kind]), 4: (lse, 1e-5, 1e-5)}, (-(-s // bm), heads), options=options, CAUSAL=causal, BM=bm, BN=bn, D=d)


def cases(arch):
    r = np.random.default_rng(7)
    T = Tensor
    out = []

    def add(*a, **k):
        out.append(Case(*a, **k))

    def new(kind, *shape):
        return T(kind, r.standard_normal(shape))

    for kind in "fp32", "fp16", "bf16":
        x, y = new(kind, 1000), new(kind, 1000)
        add("add_" + kind, "vector_add", [x, y, T(kind, np.zeros(1000)), 1000], {2: (x.values + y.values, ROUND[kind], 1e-7)}, (4,), B=256)
    x, y = (T("i8", r.integers(-128, 128, 999)) for _ in range(2))
    add("add_i8", "vector_add", [x, y, T("i8", np.zeros(999)), 999], {2: ((x.bits + y.bits).astype(np.int8), 0, 0)}, (4,), buffers=False, B=256)
    for kind, rows, cols in ("fp16", 5, 700), ("fp32", 3, 1000):
        x = new(kind, rows, cols)
        e = np.exp(x.values - x.values.max(1, keepdims=True))
        add("softmax_" + kind, "softmax", [x, T(kind, np.zeros((rows, cols))), cols], {1: (e / e.sum(1, keepdims=True), 2 * ROUND[kind], 1e-7)}, (rows,), B=1024)
    x, w, b = new("fp16", 3, 600), new("fp32", 600), new("fp32", 600)
    m, v = x.values.mean(1), x.values.var(1)
    y = (x.values - m[:, None]) / np.sqrt(v + 1e-5)[:, None] * w.values + b.values
    add("layer_norm", "layer_norm", [x, w, b, T("fp16", np.zeros((3, 600))), T("fp32", np.zeros(3)), T("fp32", np.zeros(3)), 600, 1e-5],
        {3: (y, ROUND["fp16"], 1e-5), 4: (m, 1e-5, 1e-6), 5: (1 / np.sqrt(v + 1e-5), 1e-5, 0)}, (3,), B=256)
    x, h, w = new("bf16", 4, 512), new("bf16", 4, 512), new("bf16", 512)
    s = T("bf16", x.values + h.values)
    y = s.values / np.sqrt((s.values ** 2).mean(1, keepdims=True) + 1e-6) * w.values
    add("add_rms_norm", "add_rms_norm", [x, h, w, T("bf16", np.zeros((4, 512))), 512, 1e-6], {1: (s.values, 0, 0), 3: (y, 2 ** -7, 1e-6)}, (4,), B=512)

    out.append(gemm("matmul_fp16", ("fp16", "fp16"), "fp16", 100, 96, 200, (64, 64, 32), rng=r))
    out.append(gemm("matmul_fp16_kn", ("fp16", "fp16"), "fp32", 64, 128, 128, (32, 64, 64), b_is_nk=False, rng=r, options=dict(num_stages=3)))
    out.append(gemm("matmul_bf16", ("bf16", "bf16"), "bf16", 128, 128, 256, (64, 128, 64), rng=r))
    out.append(gemm("matmul_bf16_small", ("bf16", "bf16"), "fp32", 16, 64, 256, (16, 32, 64), rng=r, buffers=False, options=dict(num_warps=2)))
    out.append(gemm("matmul_fp32", ("fp32", "fp32"), "fp32", 64, 64, 96, (32, 32, 32), rng=r))
    e4m3 = "fp8e4b8" if arch == "gfx942" else "fp8e4nv"
    out.append(gemm("matmul_fp8", (e4m3, e4m3), "bf16", 64, 64, 256, (64, 32, 64), rng=r))
    # LLVM 24 leaves 19 wait states after an MFMA of 16 passes where 20 are needed (its own rule too: its search ends after 19)
    out[-1].known = "hazard" if arch == "gfx950" else None
    e5m2 = "fp8e5b16" if arch == "gfx942" else "fp8e5"
    out.append(gemm("matmul_bf8", (e5m2, e5m2), "fp32", 32, 64, 128, (32, 32, 64), rng=r))
    out.append(gemm("matmul_int8", ("i8", "i8"), "i32", 64, 96, 192, (32, 32, 64), rng=r))
    out.append(gemm("split_k", ("fp16", "fp16"), "fp32", 32, 64, 512, (32, 32, 64), kernel="split_k", SPLIT=4, rng=r))
    k, n = 256, 64
    a, codes, scale = new("bf16", 32, k), r.integers(0, 256, (n, k // 2), np.uint8), T("fp32", r.random((n, k // 64)))
    w = (np.stack([codes & 15, codes >> 4], -1).reshape(n, k).astype(float) - 8) * scale.values.repeat(64, 1)
    w = T("bf16", w).values
    add("dequant_matmul", "dequant_matmul", [a, T("u8", codes), scale, T("bf16", np.zeros((32, n))), 32, n, k],
        {3: (np.maximum(a.values @ w.T, 0), 2 ** -7, 1e-3)}, (1, 2), GROUP=64, BM=32, BN=32)
    out.append(scaled("scaled_fp4", "e2m1", "e2m1", 64, 64, 128, r))
    out.append(scaled("scaled_fp8_fp4", "e4m3", "e2m1", 32, 64, 128, r))
    out.append(flash("attention_causal", "fp16", 2, 160, 64, True, 64, 32, r))
    out.append(flash("attention_bf16", "bf16", 1, 128, 128, False, 64, 64, r, dict(num_stages=1)))
    d, page, pages, lens = 64, 16, 6, np.array([83, 1, 32])
    q, kk, vv = new("fp16", 3, d), new("fp16", 18, page, d), new("fp16", 18, page, d)
    table = r.permutation(18).reshape(3, pages)
    o = np.empty((3, d))
    for i in range(3):
        keys, vals = (t.values[table[i]].reshape(-1, d)[:lens[i]] for t in (kk, vv))
        e = np.exp(keys @ q.values[i] * 0.125)
        o[i] = e @ vals / e.sum()
    add("decode_attention", "decode_attention", [q, kk, vv, T("i32", table), T("i32", lens), T("fp16", np.zeros((3, d))), 0.125],
        {5: (o, ROUND["fp16"], 1e-5)}, (3,), PAGE=page, PAGES=pages, D=d)

    x = new("fp32", 300, 50)
    add("column_sum", "column_sum", [x, T("fp64", np.zeros(50)), 300, 50], {1: (x.values.sum(0), 1e-12, 1e-12)}, (2,), BM=64, BN=32)
    x = new("fp16", 6, 400)
    x.bits[2, 77] = x.bits[2, 300] = 9
    add("arg_max", "arg_max", [x, T("fp16", np.zeros(6)), T("i32", np.zeros(6)), 400], {1: (x.values.max(1), 0, 0), 2: (x.values.argmax(1), 0, 0)}, (6,), B=512)
    x = new("fp32", 16, 128)
    add("cumsum", "cumulative_sum", [x, T("fp32", np.zeros((16, 128)))], {1: (x.values.cumsum(1), 0, 1e-4)}, (1,), B=16, C=128, REVERSE=False)
    x = T("i32", r.integers(-9, 9, (8, 256)))
    add("cumsum_reverse", "cumulative_sum", [x, T("i32", np.zeros((8, 256)))], {1: (x.bits[:, ::-1].cumsum(1)[:, ::-1], 0, 0)}, (1,), B=8, C=256, REVERSE=True)
    a, b = T("fp32", r.random((128, 32))), new("fp32", 128, 32)
    h, state = np.empty((128, 32)), 0
    for t in range(128):
        h[t] = state = a.values[t] * state + b.values[t]
    add("linear_recurrence", "linear_recurrence", [a, b, T("fp32", np.zeros((128, 32)))], {2: (h, 1e-5, 1e-5)}, (1,), B=128, C=32)
    x, at = T("i32", r.integers(-1000, 1000, 700)), T("i32", r.integers(0, 16, 700))
    s, big, low, bits = np.zeros(16), np.full(16, -5000), np.full(16, 5000), np.zeros(32, np.int64)
    np.add.at(s, at.bits, x.bits)
    np.maximum.at(big, at.bits, abs(x.bits))
    np.minimum.at(low, at.bits, abs(x.bits))
    np.bitwise_or.at(bits, at.bits, 1 << (x.bits.astype(np.int64) & 31))
    np.bitwise_xor.at(bits, at.bits + 16, x.bits)
    add("atomics", "atomics", [x, at, T("fp32", np.zeros(16)), T("i32", np.full(16, -5000)), T("i32", np.full(16, 5000)),
                               T("i32", np.zeros(32)), T("i32", np.zeros(1)), 700],
        {2: (s, 0, 0), 3: (big, 0, 0), 4: (low, 0, 0), 5: (bits.astype(np.uint32).view(np.int32), 0, 0), 6: (np.array([700]), 0, 0)}, (3,), B=256)
    for kind in "fp16", "bf16":
        x, at = T(kind, r.integers(-8, 9, 500)), T("i32", r.integers(0, 32, 500))
        s = np.zeros(32)
        np.add.at(s, at.bits, x.values)
        add("atomics_" + kind, "half_atomics", [x, at, T(kind, np.zeros(32)), 500], {2: (s, 0, 0)}, (2,), B=256)
    x = T("fp32", r.integers(-50, 50, (12, 200)))
    add("locked_sum", "locked_sum", [x, T("i32", np.zeros(1)), T("fp32", np.zeros(200)), 200], {1: (np.zeros(1, int), 0, 0), 2: (x.values.sum(0), 0, 0)}, (12,), B=256)
    x = T("i32", r.integers(0, 64, 1500))
    add("histogram", "histogram", [x, T("i32", np.zeros(64)), 1500], {1: (np.bincount(x.bits, minlength=64), 0, 0)}, (3,), B=512, BINS=64)
    x = new("fp32", 4, 128)
    add("sort", "sort_rows", [x, T("fp32", np.zeros((4, 128)))], {1: (np.sort(x.values, 1), 0, 0)}, (1,), B=4, C=128, DESCENDING=False)
    x = T("i32", r.integers(-99, 99, (2, 256)))
    add("sort_descending", "sort_rows", [x, T("i32", np.zeros((2, 256)))], {1: (-np.sort(-x.bits, 1), 0, 0)}, (1,), B=2, C=256, DESCENDING=True)
    x = new("fp16", 5, 256)
    add("top_k", "top_k", [x, T("fp16", np.zeros((5, 8)))], {1: (-np.sort(-x.values, 1)[:, :8], 0, 0)}, (5,), C=256, K=8)
    x, at = new("fp32", 16, 64), T("i32", r.integers(0, 64, (16, 64)))
    add("gather", "gather_columns", [x, at, T("fp32", np.zeros((16, 64)))], {2: (np.take_along_axis(x.values, at.bits, 1), 0, 0)}, (1,), B=16, C=64)
    ids, x = T("i32", r.integers(-1, 20, 9)), new("bf16", 20, 200)
    add("embedding", "embedding", [ids, x, T("bf16", np.ones((9, 200))), 200], {2: (np.where(ids.bits[:, None] >= 0, x.values[ids.bits], 0), 0, 0)}, (9,), B=256)
    x, i = new("fp32", 600), np.arange(1024)
    word = philox(1234, i).astype(np.uint32).view(np.int32).astype(np.int64)
    uniform = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    add("dropout", "dropout", [x, T("fp32", np.zeros(600)), 600, 0.25, 1234], {1: (np.where(uniform[:600] > .25, x.values / .75, 0), 1e-6, 0)}, (3,), B=256)
    for kind in "fp16", "i8":
        x = T(kind, r.integers(-100, 100, (70, 90)))
        add("transpose_" + kind, "transpose", [x, T(kind, np.zeros((90, 70))), 70, 90], {1: (x.values.T, 0, 0)}, (2, 2), B=64)
    for kind in "silu", "gelu", "tanh":
        x = new("bf16" if kind == "gelu" else "fp16", 4, 2 * 300)
        g, u = x.values[:, :300], x.values[:, 300:]
        act = (g * sigmoid(g) if kind == "silu" else .5 * g * (1 + np.vectorize(math.erf)(g / math.sqrt(2))) if kind == "gelu"
               else .5 * g * (1 + np.tanh(0.7978845608028654 * (g + 0.044715 * g ** 3))))
        add("gated_" + kind, "gated", [x, T(x.kind, np.zeros((4, 300))), 300], {1: (act * u, ROUND[x.kind], 1e-5)}, (4,), KIND=kind, B=512)
    x, c, s = new("bf16", 5, 3, 128), new("fp32", 5, 64), new("fp32", 5, 64)
    a, b, c_, s_ = x.values[..., :64], x.values[..., 64:], c.values[:, None], s.values[:, None]
    add("rotary", "rotary", [x, c, s, T("bf16", np.zeros((5, 3, 128)))],
        {3: (np.concatenate([a * c_ - b * s_, b * c_ + a * s_], -1), 2 ** -7, 1e-5)}, (5, 3), D=128)
    x = new("bf16", 4, 300)
    s = np.abs(x.values).max(1) / 127
    add("quantize_i8", "quantize", [x, T("i8", np.zeros((4, 300))), T("fp32", np.zeros(4)), 300],
        {1: (x.values / s[:, None], 0, 0.5001), 2: (s, 1e-6, 0)}, (4,), MOST=127.0, B=512)
    x, most = new("fp16", 4, 300), 240.0 if arch == "gfx942" else 448.0
    s = np.abs(x.values).max(1) / most
    add("quantize_fp8", "quantize", [x, T(e4m3, np.zeros((4, 300))), T("fp32", np.zeros(4)), 300],
        {1: (x.values / s[:, None], 2 ** -4 + 1e-5, 2 ** -10), 2: (s, 1e-6, 0)}, (4,), MOST=most, B=512)
    x, label = new("bf16", 5, 700), T("i32", r.integers(0, 700, 5))
    y = np.log(np.exp(x.values).sum(1)) - x.values[np.arange(5), label.bits]
    add("cross_entropy", "cross_entropy", [x, label, T("fp32", np.zeros(5)), 700], {2: (y, 1e-5, 1e-5)}, (5,), B=256)
    x, w = new("fp16", 10, 100), new("fp16", 100, 4)
    y = np.zeros((10, 100))
    for k in range(4):
        y[3 - k:] += x.values[:10 - (3 - k)] * w.values[:, k]
    add("convolution", "convolution", [x, w, T("fp16", np.zeros((10, 100))), 10, 100], {2: (y * sigmoid(y), ROUND["fp16"], 1e-5)}, (10, 1), B=128, W=4)
    x = T("i32", r.integers(1, 300, 200))
    steps = []
    for i, v in enumerate(int(v) for v in x.bits):
        n = 0
        while v > 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        steps.append(n * 1000 + (i + 1) % 7 - int((i - 50) / 3))
    add("collatz", "collatz", [x, T("i32", np.zeros(200)), 200], {1: (np.array(steps), 0, 0)}, (1,), B=256)
    x = new("fp32", 4, 500)
    add("moments", "moments", [x, T("fp32", np.zeros((4, 2))), 500], {1: (np.stack([x.values.mean(1), x.values.var(1)], 1), 1e-5, 1e-5)}, (4,), B=512)
    x, y = (T("i32", r.integers(-2 ** 31, 2 ** 31, 300)) for _ in range(2))
    a, b = x.bits.astype(np.int64), y.bits.astype(np.int64)
    high = ((a.astype(np.uint64) & np.uint64(0xffffffff)) * (b.astype(np.uint64) & np.uint64(0xffffffff)) >> np.uint64(32)).astype(np.int64)
    w = a * b
    q = np.array([int(abs(int(p)) // abs(int(d) | 1)) * (1 if (p < 0) == ((int(d) | 1) < 0) else -1) for p, d in zip(w, b)], np.int64)
    add("integers", "integers", [x, y, T("i64", np.zeros(300)), 300], {2: ((w >> 7) ^ high ^ q ^ (w << (a & 15)), 0, 0)}, (2,), B=256)
    x = T("fp32", r.random(300) * 9 + .01)
    v = x.values
    y = (np.sin(v) + np.cos(3 * v) + np.log2(v) + np.sqrt(v) + np.exp2(-v) + v ** .3 + np.arctan(v)) * v + np.floor(v) - np.ceil(2 * v)
    add("mathematics", "mathematics", [x, T("fp32", np.zeros(300)), 300], {1: (y, 3e-6, 3e-5)}, (2,), B=256)
    return out
