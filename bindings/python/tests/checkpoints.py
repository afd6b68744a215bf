# SPDX-License-Identifier: MIT
"""4-bit weights as checkpoints have them, word by word after the formats' descriptions, and what they stand for in double precision."""

import numpy as np

N, K, GROUP = 32, 384, 128
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # logical columns of a word's nibbles, the lowest first


def word(values):
    """Eight codes as an int32, the first in the lowest bits."""
    return np.uint32(sum(int(v) << 4 * i for i, v in enumerate(values))).astype(np.int32)


def drawn(rng, zeros=True):
    """q [N,K], z [N,K/GROUP] from 0 to 15, f16 scales: every code there is."""
    q = rng.integers(0, 16, (N, K))
    z = rng.integers(0, 16, (N, K // GROUP)) if zeros else np.full((N, K // GROUP), 8)
    z[0, 0] = 0 if zeros else 8
    z[1, 0] = 15 if zeros else 8
    return q, z, rng.uniform(0.01, 0.1, (N, K // GROUP)).astype(np.float16)


def value(q, z, s, group_of=None):
    g = np.arange(K) // GROUP if group_of is None else group_of
    return (q - z[:, g]).astype(np.float64) * s.astype(np.float64)[:, g]


def awq(rng):
    q, z, s = drawn(rng)

    def words(a):  # [N, rows] to [rows, N/8]
        return np.array([[word([a[8 * j + c, r] for c in AWQ_ORDER]) for j in range(N // 8)] for r in range(a.shape[1])])

    return (words(q), words(z), np.ascontiguousarray(s.T)), value(q, z, s)


def gptq(rng, v1=True, act_order=False):
    q, z, s = drawn(rng)
    group_of = rng.permutation(K) // GROUP if act_order else np.arange(K) // GROUP
    qweight = np.array([[word(q[n, 8 * r : 8 * r + 8]) for n in range(N)] for r in range(K // 8)])
    qzeros = np.array([[word(z[8 * j : 8 * j + 8, g]) for j in range(N // 8)] for g in range(K // GROUP)])
    if v1:
        qzeros -= 0x11111111  # of words: a 0 borrows from the zero point above it, as GPTQModel's do
    return (qweight, qzeros, np.ascontiguousarray(s.T), group_of.astype(np.int32)), value(q, z, s, group_of)


def pack_quantized(rng, symmetric):
    q, z, s = drawn(rng, not symmetric)
    packed = np.array([[word(q[n, 8 * j : 8 * j + 8]) for j in range(K // 8)] for n in range(N)])
    zeros = np.array([[word(z[8 * j : 8 * j + 8, g]) for g in range(K // GROUP)] for j in range(N // 8)])
    return (packed, s) if symmetric else (packed, s, zeros), value(q, z, s)


def mxfp4(rng):
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    values += [-v for v in values]
    q, e = rng.integers(0, 16, (N, K)), rng.integers(120, 132, (N, K // 32))
    blocks = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8).reshape(N, K // 32, 16)
    return (blocks, e.astype(np.uint8)), np.array(values)[q] * np.exp2(e - 127.0).repeat(32, 1)


FORMS = {
    "awq": ("awq", lambda rng: awq(rng), {}),
    "gptq v1": ("gptq", lambda rng: gptq(rng), {}),
    "gptq v2": ("gptq", lambda rng: gptq(rng, v1=False), {"v1": False}),
    "gptq act-order": ("gptq", lambda rng: gptq(rng, act_order=True), {}),
    "compressed-tensors": ("pack_quantized", lambda rng: pack_quantized(rng, True), {}),
    "compressed-tensors, zero points": ("pack_quantized", lambda rng: pack_quantized(rng, False), {}),
    "mxfp4": ("mxfp4", lambda rng: mxfp4(rng), {}),
}
