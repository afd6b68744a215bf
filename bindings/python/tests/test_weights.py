# SPDX-License-Identifier: MIT
"""rfg.weights on NumPy's arrays: products of a checkpoint's weights against double precision; and what is refused."""

import checkpoints
import numpy as np
import pytest
import rfg
from checkpoints import FORMS, K, N


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def close(x, q, want):
    """x f16; sums of K terms in fp32."""
    rows = x if q.columns is None else np.ascontiguousarray(x[:, q.columns])
    got = rfg.gemm(rows, q.w, w_scale=q.w_scale, w_zero=q.w_zero, dtype="f32")
    x = x.astype(np.float64)
    assert (np.abs(got - x @ want.T) <= (K**0.5 + 4) * 2**-24 * (np.abs(x) @ np.abs(want).T)).all()


@pytest.mark.parametrize("form", FORMS)
def test_products(rng, form):
    name, make, options = FORMS[form]
    tensors, want = make(rng)
    x = rng.standard_normal((5, K)).astype(np.float16)
    q = getattr(rfg.weights, name)(*tensors, **options)
    assert q.w.shape == (N, K) and q.w.dtype == ("e2m1" if form == "mxfp4" else "i4")
    assert (q.columns is not None) == (form == "gptq act-order")
    close(x, q, want)
    packed = q.prepack()
    assert packed.w.shape == (N // 16, K // 128, 4, 16, 32) and packed.w_scale.shape == (N // 16, q.w_scale.shape[1], 16)
    close(x, packed, want)


def test_prepack_pads(rng):
    """K that is no multiple of 128."""
    blocks, scales = rng.integers(0, 256, (N, 3, 16), dtype=np.uint8), rng.integers(124, 130, (N, 3), dtype=np.uint8)
    x = rng.integers(-4, 5, (5, 96)).astype(np.float16)
    q = rfg.weights.mxfp4(blocks, scales)
    packed = q.prepack()
    assert packed.w.shape == (N // 16, 1, 4, 16, 32) and packed.w_scale.shape == (N // 16, 4, 16)
    y = [rfg.gemm(x, w.w, w_scale=w.w_scale, dtype="f32") for w in (q, packed)]
    assert (y[0] == y[1]).all() and (y[0] != 0).any()


def test_slices(rng):
    """Of tensors that aren't contiguous, a part."""
    (qweight, qzeros, scales), want = checkpoints.awq(rng)
    x = rng.standard_normal((3, K)).astype(np.float16)
    wide = [np.concatenate([t, t], 1)[:, : t.shape[1]] for t in (qweight, qzeros, scales)]
    close(x, rfg.weights.awq(*wide), want)
    q = rfg.weights.awq(qweight, qzeros, scales)
    part = rfg.gemm(x, q.w[16:], w_scale=q.w_scale[16:], w_zero=q.w_zero[16:], dtype="f32")
    assert (part == rfg.gemm(x, q.w, w_scale=q.w_scale, w_zero=q.w_zero, dtype="f32")[:, 16:]).all()


def test_one_scale_a_row(rng):
    """compressed-tensors' "channel" strategy."""
    (packed, scales), _ = checkpoints.pack_quantized(rng, True)
    x, s = rng.standard_normal((3, K)).astype(np.float16), scales[:, :1].copy()
    q = rfg.weights.pack_quantized(packed, s)
    codes = (packed[:, :, None] >> 4 * np.arange(8) & 15).reshape(N, K) - 8.0
    close(x, q, codes * s.astype(np.float64))


def test_refusals(rng):
    def refused(words, call, *args, **more):
        with pytest.raises(rfg.Error, match=words):
            call(*args, **more)

    w = rfg.weights
    (qweight, qzeros, scales), _ = checkpoints.awq(rng)
    refused(r"weights.awq: qweight is int64: must be int32", w.awq, qweight.astype(np.int64), qzeros, scales)
    refused(r"weights.awq: qzeros is \[3, 3\]: must be \[3, 4\]", w.awq, qweight, qzeros[:, :3], scales)
    refused(r"weights.awq: scales is \[3, 31\]: must be \[any, 32\]", w.awq, qweight, qzeros, scales[:, :31])
    refused(r"scales is float64: must be float16 or bfloat16 or float32", w.awq, qweight, qzeros, scales.astype(float))
    refused("weights.awq: 5 groups of 384 columns", w.awq, qweight, qzeros, np.ones((5, N), np.float16))
    refused("weights.awq: 24 groups of 384 columns", w.awq, qweight, qzeros, np.ones((24, N), np.float16))
    (qweight, qzeros, scales, g_idx), _ = checkpoints.gptq(rng)
    wrong = g_idx.copy()
    wrong[0] = 1
    refused("g_idx: each of the 3 groups must have 128 columns", w.gptq, qweight, qzeros, scales, wrong)
    refused(r"g_idx is \[383\]: must be \[384\]", w.gptq, qweight, qzeros, scales, g_idx[1:])
    refused("N=31: must be a multiple of 8", w.gptq, qweight[:, :31], qzeros, scales[:, :31])
    (packed, scales, zeros), _ = checkpoints.pack_quantized(rng, False)
    refused(r"weight_zero_point is \[32, 3\]: must be \[4, 3\]", w.pack_quantized, packed, scales, zeros.repeat(8, 0))
    (blocks, scales), _ = checkpoints.mxfp4(rng)
    refused(r"blocks is \[32, 192\]: must be \[any, any, 16\]", w.mxfp4, blocks.reshape(N, K // 2), scales)
    refused(r"scales is \[32, 11\]: must be \[32, 12\]", w.mxfp4, blocks, scales[:, 1:])
    refused("rfg_op_gemm: ", rfg.gemm, np.ones((1, K), np.float32), rfg.view(blocks.reshape(N, K // 2), "e2m1"), w_scale=scales.view(np.int8))


def test_views_of_4_bits():
    a = np.arange(4 * 64, dtype=np.uint8).reshape(4, 64)
    v = rfg.view(a, "i4")
    assert v.shape == (4, 128) and v.stride() == (128, 1) and v[1:].shape == (3, 128) and v[1:].data_ptr() == v.data_ptr() + 64
    assert rfg.empty(v, (8, 32)).array.shape == (8, 16)
    for bad in (lambda: v[:, 2], lambda: v.reshape(-1), lambda: rfg.view(a[:, ::2], "i4"), lambda: rfg.view(a.view(np.int16), "e2m1")):
        with pytest.raises(rfg.Error, match="view: "):
            bad()
