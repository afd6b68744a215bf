#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks rfg for what other projects' users ask for most: head sizes, page sizes, caches of codes, weight-only formats, experts,
tables of angles, loaders of weights, LoRA. Each line of ASKED is asked for twice: by problem strings, which rfg-bench runs and
compares with the oracle, and through the Python package, compared with NumPy here. Prints a line each and a total.

    PYTHONPATH=build/bindings/python RFG_LIBRARY=$PWD/build/librfg.so examples/asked.py [--bench build/bin/rfg-bench] [--device cpu]

--device is rfg-bench's: Python's calls are on the host's memory, so on cpu. Needs NumPy. Exit code: 0 if all were right."""

import argparse
import json
import os
import subprocess
import sys

import numpy as np

os.environ["RFG_DEVICE"] = "cpu"
import rfg  # noqa: E402

rng = np.random.default_rng(5)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def normal(*shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


def far(got, want):
    """How far off, of the largest."""
    got = np.asarray(rfg.f32(got), np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    return float(np.abs(got - want).max() / max(1e-30, np.abs(want).max()))


def nibbles(a):
    return np.stack([a & 15, a >> 4], -1).reshape(*a.shape[:-1], -1)


def e4m3(codes):
    sign, e, m = 1 - 2.0 * (codes >> 7), (codes >> 3 & 15).astype(float), codes & 7
    return sign * np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * 2.0 ** (e - 7))


def e5m2(codes):
    return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)


def attend(q, k, v):
    """q [S,Hq,D], its keys the last S of k [T,Hkv,D]; causal."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    group, seen = q.shape[1] // k.shape[1], np.tri(len(q), len(k), len(k) - len(q), dtype=bool)
    out = np.empty((*q.shape[:2], v.shape[-1]))
    for h in range(q.shape[1]):
        s = np.where(seen, q[:, h] @ k[:, h // group].T / q.shape[-1] ** 0.5, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        out[:, h] = p / p.sum(1, keepdims=True) @ v[:, h // group]
    return out


# ---- attention ----------------------------------------------------------------------------------------------------------


def heads(d, dv=None, dtype=np.float16):
    q, k, v = normal(1, 5, 4, d, dtype=dtype), normal(1, 9, 2, d, dtype=dtype), normal(1, 9, 2, dv or d, dtype=dtype)
    return far(rfg.mha(q, k, v, causal=True), attend(q[0], k[0], v[0])[None])


def pages(page):
    tokens, table = page + 5, np.array([[1, 0]], np.int32)
    k, v, q = normal(2, page, 2, 64), normal(2, page, 2, 64), normal(1, 4, 64)
    lens, rows = np.array([tokens], np.int32), [t[[1, 0]].reshape(-1, 2, 64)[:tokens] for t in (k, v)]
    return far(rfg.mha_decode(q, k, v, table, lens), attend(q, *rows))


def cache(name):
    """With a scale a token and head, made as it is written; what it holds is read by vLLM's rule."""
    tokens, d, held = 24, 64, {"i8": np.int8, "i4": np.uint8, "e4m3": np.uint8}[name]
    k, v, q = normal(tokens, 2, d), normal(tokens, 2, d), normal(1, 4, d)
    codes = [np.zeros((2, 16, 2, d // (2 if name == "i4" else 1)), held) for _ in range(2)]
    scales = [np.ones((2, 16, 2), np.float32) for _ in range(2)]
    given = [rfg.view(c, "e4m3") for c in codes] if name == "e4m3" else codes
    rfg.kv_append(*given, k, v, np.arange(tokens), k_scale=scales[0], v_scale=scales[1])

    def numbers(c, s):
        if name == "i4":
            word = s.view(np.uint32)
            return (nibbles(c) - (word & 15)[..., None].astype(float)) * (word & ~np.uint32(15)).view(np.float32)[..., None]
        return (c if name == "i8" else e4m3(c)) * s[..., None].astype(float)

    made = [numbers(c, s).reshape(32, 2, d)[:tokens] for c, s in zip(codes, scales)]
    assert far(made[0], k.astype(float)) < {"i8": 0.01, "i4": 0.1, "e4m3": 0.05}[name]
    lens, table = np.array([tokens], np.int32), np.array([[0, 1]], np.int32)
    return far(rfg.mha_decode(q, *given, table, lens, k_scale=scales[0], v_scale=scales[1]), attend(q, *made))


# ---- weights ------------------------------------------------------------------------------------------------------------


def drawn(name, *shape):
    """A w of 8 bits: what rfg takes, its numbers."""
    c = rng.integers(0, 256, shape).astype(np.uint8)
    if name == "i8":
        return c.view(np.int8), c.view(np.int8).astype(float)
    c[(c & 127) >= {"e4m3": 127, "e4m3fnuz": 127, "e5m2": 124}[name]] = 1
    c[c == 128] = 0
    return rfg.view(c, name), e5m2(c) if name == "e5m2" else e4m3(c) / (2 if name == "e4m3fnuz" else 1)


def wide(s, per):
    return s if per == "tensor" else s.reshape(-1, 1) if per == "row" else s.repeat(128 if per == "block" else 64, 1)


def w8(name, per):
    """By rows, prepacked, and grouped by expert."""
    n, k, experts = 32, 256, 2
    x, (w, values) = normal(4, k), drawn(name, n, k)
    shape = {"tensor": (1,), "row": (n,), "block": (1, 2), "group": (n, 4)}[per]
    s = np.abs(normal(*shape, dtype=np.float32)) + 0.1
    want = x.astype(float) @ (values * wide(s, per)).T
    how = dict(w_scale=s, w_per=per, dtype="f32")
    worst = max(far(rfg.gemm(x, w, **how), want), far(rfg.gemm(x, rfg.gemm_prepack(w), **how), want))
    if per == "tensor":
        return worst
    c, values = drawn(name, experts * n, k)
    scales = np.abs(normal(experts * shape[0], *shape[1:], dtype=np.float32)) + 0.1
    parts = [x[2 * e : 2 * e + 2].astype(float) @ (values[e * n : e * n + n] * wide(scales[e * shape[0] : (e + 1) * shape[0]], per)).T for e in (0, 1)]
    w = c.reshape(experts, n, k)
    got = rfg.grouped_gemm(x, w, np.array([0, 2, 4], np.int32), w_scale=scales, w_per=per, dtype="f32")
    return max(worst, far(got, np.concatenate(parts)))


def i4(k, group):
    codes, x = rng.integers(0, 256, (32, k // 2)).astype(np.uint8), normal(3, k)
    groups = -(-k // group)
    s, z = normal(32, groups), rng.integers(-8, 8, (32, groups)).astype(np.int8)
    numbers = (nibbles(codes) ^ 8).astype(float) - 8
    wide = lambda t: t.astype(float).repeat(group, 1)[:, :k]  # noqa: E731
    more = dict(w_group=group) if k % group else {}
    return far(rfg.gemm(x, rfg.view(codes, "i4"), w_scale=s, w_zero=z, dtype="f32", **more), x.astype(float) @ ((numbers - wide(z)) * wide(s)).T)


def nvfp4():
    codes, x = rng.integers(0, 256, (32, 64)).astype(np.uint8), normal(3, 128)
    s, all_of_it = rng.integers(40, 80, (32, 8)).astype(np.uint8), np.array([0.37], np.float32)
    want = x.astype(float) @ (E2M1[nibbles(codes)] * e4m3(s).repeat(16, 1) * 0.37).T
    w, scale = rfg.view(codes, "e2m1"), rfg.view(s, "e4m3")
    packed = dict(w_scale=rfg.gemm_prepack(scale, groups=True), w_global=all_of_it, dtype="f32")
    return max(far(rfg.gemm(x, w, w_scale=scale, w_global=all_of_it, dtype="f32"), want), far(rfg.gemm(x, rfg.gemm_prepack(w), **packed), want))


def loaders():
    """A layer as its file has it; what rfg multiplies with it is compared with the same numbers."""
    x, worst = normal(3, 128), 0.0
    c, s = rng.integers(0, 256, (32, 128)).astype(np.uint8), np.abs(normal(32, 1, dtype=np.float32)) + 0.1
    c[(c & 127) == 127] = 1
    quantized = lambda **weights: {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}  # noqa: E731
    fp8 = dict(quantized(num_bits=8, type="float", strategy="channel", symmetric=True), format="float-quantized")
    q = rfg.weights.load({"weight": c, "weight_scale": s}, fp8)
    worst = max(worst, far(q.gemm(x, dtype="f32"), x.astype(float) @ (e4m3(c) * s).T))
    word, zeros, scales = rng.integers(-(2**31), 2**31, (128, 4)).astype(np.int32), rng.integers(-(2**31), 2**31, (1, 4)).astype(np.int32), normal(1, 32)
    q = rfg.weights.awq(word, zeros, scales)
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])  # the nibble of a word that has its logical column
    of = lambda t: (t.view(np.uint32)[..., None] >> (4 * order).astype(np.uint32) & 15).reshape(len(t), 32).astype(float)  # noqa: E731
    return max(worst, far(q.gemm(x, dtype="f32"), x.astype(float) @ ((of(word) - of(zeros)) * scales.astype(float))))


# ---- the others ---------------------------------------------------------------------------------------------------------


def many_experts():
    x, w1, w2 = normal(4, 16, dtype=np.float32), normal(2048, 16, 16, dtype=np.float32), normal(2048, 16, 8, dtype=np.float32)
    ids, weights = np.array([[2047, 0], [1500, 1024], [7, 2046], [1025, 3]], np.int32), normal(4, 2, dtype=np.float32)
    want = np.zeros((4, 16))
    for t, j in np.ndindex(4, 2):
        gate, up = np.split(w1[ids[t, j]] @ x[t], 2)
        want[t] += weights[t, j] * (w2[ids[t, j]] @ (gate / (1 + np.exp(-gate)) * up))
    return far(rfg.moe(x, w1, w2, ids, weights), want)


def gates(name):
    x = 4 * normal(3, 32, dtype=np.float32)
    a, b = x[:, :16].astype(float), x[:, 16:].astype(float)
    if name == "situ":
        want, more = 4 * np.tanh(a / 4) / (1 + np.exp(-a)) * 25 * np.tanh(b / 25), {}
    else:
        limited = np.minimum(a, 2) if name == "silu" else a
        want, more = np.minimum(limited / (1 + np.exp(-limited)), 2) * np.clip(b, -2, 2), dict(limit=2.0)
    eye = np.eye(32, dtype=np.float32)
    return max(far(rfg.act_and_mul(x, name, **more), want), far(rfg.gemm(x, eye, act=name, **more), want))


def hash_routing():
    x, table, tokens = normal(5, 8, dtype=np.float32), rng.integers(0, 8, (20, 2)).astype(np.int32), rng.integers(0, 20, 5)
    ids, weights = rfg.moe_route(x, 2, scoring="sigmoid", renormalise=True, table=table, token_ids=tokens)
    s = 1 / (1 + np.exp(-np.take_along_axis(x.astype(float), table[tokens], 1)))
    return float((ids != table[tokens]).any()) + far(weights, s / s.sum(1, keepdims=True))


def identities():
    x, w1, w2 = normal(4, 16, dtype=np.float32), normal(2, 16, 16, dtype=np.float32), normal(2, 16, 8, dtype=np.float32)
    ids, weights = np.array([[0, 2], [3, 1], [2, 3], [1, 0]], np.int32), normal(4, 2, dtype=np.float32)
    real = rfg.moe(x, w1, w2, np.where(ids < 2, ids, -1).astype(np.int32), weights)
    return far(rfg.moe(x, w1, w2, ids, weights, identity=2), real + np.where(ids >= 2, weights, 0).sum(1, keepdims=True) * x.astype(float))


def table(scaling, frequency, size=1.0, **options):
    got, at = rfg.rope_table(np.empty((16, 8), np.float32), scaling, **options), np.arange(16)[:, None] * frequency
    return far(got, size * np.concatenate((np.cos(at), np.sin(at)), 1))


def rotated(offset):
    """f32, its middle rotated."""
    q, t = normal(3, 2, 64, dtype=np.float32), rfg.rope_table(np.empty((8, 32), np.float32))
    want, at = q.astype(float), np.array([5, 0, 7])
    cos, sin = t[at, None, :16].astype(float), t[at, None, 16:].astype(float)
    a, b = q[..., offset : offset + 16].astype(float), q[..., offset + 16 : offset + 32].astype(float)
    want[..., offset : offset + 16], want[..., offset + 16 : offset + 32] = a * cos - b * sin, b * cos + a * sin
    return far(rfg.rope(q, None, t, at, offset=offset)[0], want)


def lora(rank):
    x, a, b, y = normal(6, 40), normal(3, rank, 40), normal(3, 24, rank), normal(6, 24, dtype=np.float32)
    ids, want = np.array([2, -1, 0, 2, 1, 0], np.int32), y.astype(float)
    for m, i in enumerate(ids):
        want[m] += b[i].astype(float) @ (a[i].astype(float) @ x[m].astype(float)) if i >= 0 else 0
    rfg.lora(y, x, a, b, ids)
    return far(y, want)


PAIRS, T = np.arange(4), 1e4 ** (-np.arange(4) / 4.0)
W8 = [(n, p) for n in ("e4m3", "e4m3fnuz", "e5m2", "i8") for p in ("tensor", "row", "block", "group")]


def w8_problems(name, per):
    scale = "w_scale=f32" + ("" if per == "tensor" else " w_per=%s" % per + (" w_group=64" if per == "group" else ""))
    form = "gemm bf16,%s->bf16 M=%%d N=48 K=256 %s" % (name, scale)
    return [form % 4, form % 4 + " packed=1", form % 8 + " experts=2 top=2"]


# what, problems, Python's way, how far off it may be
ASKED = [("heads of %d" % d, ["mha bf16->bf16 B=1 Hq=4 Hkv=2 D=%d S=20 Sq=20 causal=1" % d, "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=%d S=40 page=16" % d],
          lambda d=d: heads(d), 2e-3) for d in (32, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256, 320, 512)]  # fmt: skip
ASKED += [
    ("v of another size", ["mha f16->f16 B=1 Hq=4 Hkv=2 D=72 Dv=40 S=20 Sq=20 causal=1"], lambda: heads(72, 40), 2e-3),
    ("f32 attention", ["mha f32->f32 B=1 Hq=4 Hkv=2 D=80 S=20 Sq=20 causal=1"], lambda: heads(80, None, np.float32), 1e-5),
]
ASKED += [("pages of %d" % p, ["mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=%d page=%d" % (p + 9, p)], lambda p=p: pages(p), 2e-3) for p in (48, 784)]
ASKED += [("cache of %s" % n, ["kv_append bf16->%s T=20 D=64 Hkv=2 page=16 scales=token" % n,
                               "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 kv=%s scales=token" % n],
           lambda n=n: cache(n), 3e-3) for n in ("i8", "i4", "e4m3")]  # fmt: skip
ASKED += [("A16W8: %s by %s" % w, w8_problems(*w), lambda w=w: w8(*w), 1e-5) for w in W8]
ASKED += [
    ("i4 in groups of 16", ["gemm bf16,i4->bf16 M=8 N=48 K=512 w_scale=f16 w_group=16"], lambda: i4(256, 16), 1e-5),
    ("i4, the last group shorter", ["gemm bf16,i4->bf16 M=8 N=48 K=448 w_scale=f16 w_zero=i8 w_group=128"], lambda: i4(448, 128), 1e-5),
    ("i4, a scale a row", ["gemm bf16,i4->bf16 M=8 N=48 K=416 w_scale=f16 w_group=416"], lambda: i4(416, 416), 1e-5),
    ("nvfp4", ["gemm bf16,e2m1->bf16 M=4 N=48 K=256 w_scale=e4m3 w_group=16 w_global=1", "gemm bf16,e2m1->bf16 M=4 N=48 K=256 w_scale=e4m3 w_group=16 w_global=1 packed=1",
               "gemm bf16,e2m1->bf16 M=8 N=48 K=256 experts=2 top=2 w_scale=e4m3 w_group=16 w_global=1"], nvfp4, 1e-5),
    ("loaders of weights", [], loaders, 1e-5),
    ("2048 experts", ["moe_route bf16->f32 T=4 E=2048 top=8", "gemm bf16,bf16->f32 M=16 N=16 K=64 experts=2048 top=2"], many_experts, 1e-5),
    ("SiTU", ["act_and_mul bf16->bf16 M=4 N=64 act=situ", "gemm bf16,bf16->f32 M=4 N=32 K=64 act=situ"], lambda: gates("situ"), 1e-5),
    ("silu within a limit", ["act_and_mul bf16->bf16 M=4 N=64 limit=2", "gemm bf16,bf16->f32 M=4 N=32 K=64 act=silu limit=2"], lambda: gates("silu"), 1e-5),
    ("clamped silu (swiglustep)", ["act_and_mul bf16->bf16 M=4 N=64 act=swiglustep limit=2"], lambda: gates("swiglustep"), 1e-5),
    ("hash routing", ["moe_route bf16->f32 T=5 E=16 top=2 score=sigmoid table=50 token_ids=i64 renorm=1"], hash_routing, 1e-5),
    ("identity experts", ["moe_sum bf16->bf16 T=4 N=64 top=2 weights=1 identity=1"], identities, 1e-5),
    ("RoPE: dynamic NTK", [], lambda: table("dynamic", (1e4 * 7 ** (4 / 3)) ** (-PAIRS / 4.0), original=4, factor=2.0), 1e-5),
    ("RoPE: longrope", [], lambda: table("longrope", T / [2, 4, 8, 16], 3**0.5, original=8, factor=64.0, short_factor=[1] * 4, long_factor=[2, 4, 8, 16]), 1e-5),
    ("RoPE: proportional", [], lambda: table("proportional", np.where(PAIRS < 2, T, 0), partial_rotary_factor=0.5), 1e-5),
    ("RoPE: f32, the middle of a head", ["rope f32,i32->f32 T=8 D=64 R=32 Hq=2 Hkv=1 offset=8"], lambda: rotated(8), 1e-5),
]  # fmt: skip
ASKED += [("LoRA of rank %d" % r, ["lora bf16->bf16 M=9 N=64 K=128 rank=%d adapters=3" % r], lambda r=r: lora(r), 1e-4) for r in (8, 16, 64, 256)]


def by_problem(bench, device):
    """A line of rfg-bench's for each problem: what is wrong, or nothing."""
    problems = [p for _, asked, _, _ in ASKED for p in asked]
    command = [bench, "--device", device, "--db", "", "--rounds", "3", "--max-seconds", "0.001", "--json"]
    for p in problems:
        command += ["--problem", p]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != len(problems):
        sys.exit("asked.py: rfg-bench: exit code %d, %d of %d problems:\n%s" % (done.returncode, len(lines), len(problems), done.stderr[-3000:]))
    return len(lines)


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default=os.path.join(root, "build", "bin", "rfg-bench"), help="the program (default: %(default)s)")
    p.add_argument("--device", default="cpu", help="of the problem strings")
    args = p.parse_args()
    problems, wrong = by_problem(args.bench, args.device), 0
    for what, asked, call, allowed in ASKED:
        try:
            off = call()
            said = "off by %.1e" % off + ("" if off <= allowed else ": must be at most %.0e" % allowed)
            bad = not off <= allowed
        except (rfg.Error, AssertionError) as e:
            said, bad = "%s: %s" % (type(e).__name__, e), True
        wrong += bad
        print("%-6s %-32s %d problems right; Python: %s" % ("WRONG" if bad else "ok", what, len(asked), said))
    print("%d asked for, %d problem strings right, %d wrong through Python" % (len(ASKED), problems, wrong))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
