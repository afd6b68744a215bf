# SPDX-License-Identifier: MIT
"""Quantised weights as checkpoints have them, word by word after the formats' descriptions, and what they stand for in double precision."""

import json

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


def e4m3(codes):
    """What codes of e4m3 stand for (OCP 8-bit floating point), none of them a NaN."""
    e, f, sign = codes >> 3 & 15, codes & 7, 1.0 - 2.0 * (codes >> 7)
    return sign * np.where(e > 0, (8 + f) * np.exp2(e - 10.0), f * 2.0**-9)


def e4m3_codes(rng, *shape):
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    return np.where(codes & 127 == 127, codes - 1, codes).astype(np.uint8)


def float_quantized(rng, per):
    """fp8: a scale of the tensor, of channels, of blocks of 128 x 128 (N of one and a bit) or of groups."""
    codes = e4m3_codes(rng, N, K)
    shape = {"tensor": (1,), "channel": (N, 1), "block": (-(-N // 128), K // 128), "group": (N, K // 64)}[per]
    s = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    rows = s[np.zeros(N, int)] if per in ("tensor", "block") else s
    each = {"block": 128, "group": 64}.get(per, K)
    return (codes, s), e4m3(codes) * rows.reshape(N, -1).astype(np.float64).repeat(each, 1)[:, :K]


def pack_quantized_8(rng, channel):
    """w8a16: four codes in a word, 128 more than they stand for."""
    q, s = rng.integers(-128, 128, (N, K)), rng.uniform(0.001, 0.01, (N, 1 if channel else K // GROUP)).astype(np.float16)
    u = (q + 128).astype(np.uint32)
    packed = (u[:, ::4] | u[:, 1::4] << 8 | u[:, 2::4] << 16 | u[:, 3::4] << 24).astype(np.uint32).view(np.int32)
    return (packed, s), q * s.astype(np.float64).repeat(K if channel else GROUP, 1)


def int_quantized(rng):
    q, s = rng.integers(-128, 128, (N, K)).astype(np.int8), rng.uniform(0.001, 0.01, (N, 1)).astype(np.float32)
    return (q, s), q * s.astype(np.float64)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def nvfp4(rng, divides=False):
    """ModelOpt's; or compressed-tensors', whose scale of the tensor divides."""
    q, s = rng.integers(0, 16, (N, K)), e4m3_codes(rng, N, K // 16)
    one = np.array([1 / 512 if divides else 0.0371], np.float32)
    packed = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)
    return (packed, s, 1 / one if divides else one), E2M1[q] * e4m3(s).repeat(16, 1) * np.float64(one[0])


def nf4(rng, nested=False):
    """QLoRA's values; blocks of 64 elements in the layer's order; the even column in the high bits."""
    values = [
        -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
        0.7229568362236023, 1
    ]
    q = rng.integers(0, 16, N * K)
    packed = (q[::2] << 4 | q[1::2]).astype(np.uint8).reshape(-1, 1)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [N, K]}
    tensors = {"weight": packed, "weight.quant_map": np.array(values, np.float32)}
    absmax = rng.uniform(0.5, 2, N * K // 64).astype(np.float32)
    if nested:
        codes, of = rng.integers(0, 256, N * K // 64).astype(np.uint8), np.linspace(-1, 1, 256).astype(np.float32)
        outer = rng.uniform(0.5, 1, -(-len(codes) // 256)).astype(np.float32)
        absmax = of[codes] * outer[np.arange(len(codes)) // 256] + np.float32(1.5)
        state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=1.5)
        tensors.update({"weight.absmax": codes, "weight.nested_absmax": outer, "weight.nested_quant_map": of})
    else:
        tensors["weight.absmax"] = absmax
    tensors["weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return tensors, np.array(values)[q].reshape(N, K) * absmax.astype(np.float64).repeat(64).reshape(N, K)


FORMS = {
    "awq": ("awq", lambda rng: awq(rng), {}),
    "gptq v1": ("gptq", lambda rng: gptq(rng), {"v1": True}),
    "gptq v2": ("gptq", lambda rng: gptq(rng, v1=False), {"v1": False}),
    "gptq act-order": ("gptq", lambda rng: gptq(rng, act_order=True), {"v1": True}),
    "compressed-tensors": ("pack_quantized", lambda rng: pack_quantized(rng, True), {}),
    "compressed-tensors, zero points": ("pack_quantized", lambda rng: pack_quantized(rng, False), {}),
    "mxfp4": ("mxfp4", lambda rng: mxfp4(rng), {}),
    "nvfp4": ("nvfp4", lambda rng: nvfp4(rng), {}),
    "fp8 tensor": ("float_quantized", lambda rng: float_quantized(rng, "tensor"), {}),
    "fp8 channel": ("float_quantized", lambda rng: float_quantized(rng, "channel"), {}),
    "fp8 block": ("float_quantized", lambda rng: float_quantized(rng, "block"), {}),
    "fp8 group": ("float_quantized", lambda rng: float_quantized(rng, "group"), {}),
    "w8a16 channel": ("pack_quantized", lambda rng: pack_quantized_8(rng, True), {"bits": 8}),
    "w8a16 group": ("pack_quantized", lambda rng: pack_quantized_8(rng, False), {"bits": 8}),
    "int8": ("int_quantized", lambda rng: int_quantized(rng), {}),
}


def _names(names, made):
    return dict(zip(names.split(), made[0])), made[1]


def _compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": weights}}}


# A layer's tensors by name, a checkpoint's config.
CHECKPOINTS = {
    "awq": (lambda rng: _names("qweight qzeros scales", awq(rng)), {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}),
    "gptq": (
        lambda rng: _names("qweight qzeros scales g_idx", gptq(rng)),
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "checkpoint_format": "gptq"}
    ),
    "gptq v2": (
        lambda rng: _names("qweight qzeros scales g_idx", gptq(rng, v1=False)),
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "checkpoint_format": "gptq_v2"}
    ),
    "w4a16": (lambda rng: _names("weight_packed weight_scale", pack_quantized(rng, True)), _compressed("pack-quantized", num_bits=4, group_size=GROUP)),
    "w4a16 zero points": (
        lambda rng: _names("weight_packed weight_scale weight_zero_point", pack_quantized(rng, False)),
        _compressed("pack-quantized", num_bits=4, group_size=GROUP)
    ),
    "w8a16": (lambda rng: _names("weight_packed weight_scale", pack_quantized_8(rng, True)), _compressed("pack-quantized", num_bits=8)),
    "fp8": (lambda rng: _names("weight weight_scale", float_quantized(rng, "channel")), _compressed("float-quantized", num_bits=8, type="float")),
    "fp8 block": (lambda rng: _names("weight weight_scale", float_quantized(rng, "block")), _compressed("float-quantized", num_bits=8, type="float")),
    "int8": (lambda rng: _names("weight weight_scale", int_quantized(rng)), _compressed("naive-quantized", num_bits=8)),
    "nvfp4": (
        lambda rng: _names("weight_packed weight_scale weight_global_scale", nvfp4(rng, True)),
        _compressed("nvfp4-pack-quantized", num_bits=4, group_size=16)
    ),
    "mxfp4": (
        lambda rng: _names("weight_packed weight_scale", ((lambda b, s: (b.reshape(N, K // 2), s))(*mxfp4(np.random.default_rng(3))[0]),
                                                            mxfp4(np.random.default_rng(3))[1])),
        _compressed("mxfp4-pack-quantized", num_bits=4, group_size=32)
    ),
    "modelopt nvfp4": (
        lambda rng: _names("weight weight_scale weight_scale_2", nvfp4(rng)), {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    ),
    "modelopt fp8": (lambda rng: _names("weight weight_scale", float_quantized(rng, "tensor")), {"quant_method": "modelopt", "quant_algo": "FP8"}),
    "deepseek": (
        lambda rng: _names("weight weight_scale_inv", float_quantized(rng, "block")), {"quant_method": "fp8", "weight_block_size": [128, 128]}
    ),
    "nf4": (lambda rng: nf4(rng), {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    "nf4 nested": (lambda rng: nf4(rng, True), {"quant_method": "bitsandbytes", "load_in_4bit": True}),
}
