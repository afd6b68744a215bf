# SPDX-License-Identifier: MIT
"""rfg.weights on NumPy's arrays: products of a checkpoint's weights against double precision; and what is refused."""

import checkpoints
import numpy as np
import pytest
import rfg
from checkpoints import CHECKPOINTS, FORMS, K, N


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def close(x, q, want, rounded=0.0):
    """x f16; sums of K terms in fp32. rounded: what each weight may be off by, of itself."""
    got = q.gemm(x, dtype="f32")
    x = x.astype(np.float64)
    assert (np.abs(got - x @ want.T) <= ((K**0.5 + 4) * 2**-24 + rounded) * (np.abs(x) @ np.abs(want).T)).all()


PACKED = {"i4": (4, 128, 32), "e2m1": (4, 128, 32), "e4m3": (4, 64, 16), "int8": (4, 64, 16)}


@pytest.mark.parametrize("form", FORMS)
def test_products(rng, form):
    name, make, options = FORMS[form]
    tensors, want = make(rng)
    x = rng.standard_normal((5, K)).astype(np.float16)
    q = getattr(rfg.weights, name)(*tensors, **options)
    kind = str(q.w.dtype)
    wants = {"mxfp4": "e2m1", "nvfp4": "e2m1", "float_quantized": "e4m3", "int_quantized": "int8"}
    assert q.w.shape == (N, K) and kind == ("int8" if options.get("bits") == 8 else wants.get(name, "i4"))
    assert (q.columns is not None) == (form == "gptq act-order")
    close(x, q, want)
    packed = q.prepack()
    chunks, cols, chunk = PACKED[kind]
    assert packed.w.shape == (N // 16, K // cols, chunks, 16, chunk)
    assert kind not in ("i4", "e2m1") or packed.w_scale.shape == (N // 16, q.w_scale.shape[1], 16)
    close(x, packed, want)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(rng, name):
    """By the config; what isn't of the weights may be there. nf4 is rounded to bf16, and multiplied by an x of it."""
    make, config = CHECKPOINTS[name]
    tensors, want = make(rng)
    q = rfg.weights.load({**tensors, "bias": np.zeros(N)}, config)
    x = rng.integers(-8, 9, (5, K)).astype(np.float32)
    if not name.startswith("nf4"):
        close(x.astype(np.float16), q, want)
        return
    got = q.gemm(rfg.bf16(x), dtype="f32")
    assert (np.abs(got - x @ want.T) <= 2**-8 * (np.abs(x) @ np.abs(want).T)).all() and not np.array_equal(got, x @ want.T)
    f16 = rfg.weights.nf4(
        tensors["weight"], tensors["weight.absmax"], (N, K), dtype="f16",
        nested=(tensors["weight.nested_quant_map"], tensors["weight.nested_absmax"], 1.5, 256) if name == "nf4 nested" else None
    )
    close(x.astype(np.float16), f16, want, 2**-11)


def test_zero_points_tell_v1_from_v2(rng):
    """All of them 8, as symmetric layers have it: stored as 7 or as 8, whatever the config says. Others tell nothing."""
    w, (make, config) = rfg.weights, CHECKPOINTS["gptq"]
    tensors, _ = make(rng)
    unsaid = {k: v for k, v in config.items() if k != "checkpoint_format"}
    for stored, word, configs in ((7, 0x77777777, (config, unsaid)), (8, -0x77777778, (config, unsaid, {**config, "checkpoint_format": "gptq_v2"}))):
        symmetric = {**tensors, "qzeros": np.full_like(tensors["qzeros"], word)}
        for c in configs:
            assert (w.load(symmetric, c).w_zero == 0).all()
        assert (w.gptq(*(symmetric[n] for n in ("qweight", "qzeros", "scales"))).w_zero == 0).all()
    sevens = {**tensors, "qzeros": np.full_like(tensors["qzeros"], 0x77777777)}
    assert (w.load(sevens, {**config, "checkpoint_format": "gptq_v2"}).w_zero == -1).all()  # 7 is a zero point of v2
    with pytest.raises(rfg.Error, match="say v1=True .checkpoint_format .gptq.: they are stored less 1. or v1=False"):
        w.load(tensors, unsaid)


def test_shorter_groups(rng):
    """The last of a row: the group is said, by the call or by the config."""
    n, k, group = 16, 352, 128
    q, s = rng.integers(0, 16, (n, k)), rng.uniform(0.01, 0.1, (n, 3)).astype(np.float16)
    want = (q - 8) * s.astype(np.float64).repeat(group, 1)[:, :k]
    packed = np.array([[checkpoints.word(q[i, 8 * j : 8 * j + 8]) for j in range(k // 8)] for i in range(n)])
    x = rng.integers(-8, 9, (3, k)).astype(np.float16)
    config = checkpoints._compressed("pack-quantized", num_bits=4, group_size=group)
    for made in (rfg.weights.pack_quantized(packed, s, group=group), rfg.weights.load({"weight_packed": packed, "weight_scale": s}, config)):
        assert made.w_group == group
        for form in (made, made.prepack()):
            assert (np.abs(form.gemm(x, dtype="f32") - x @ want.T) <= 24 * 2**-24 * (np.abs(x.astype(float)) @ np.abs(want).T)).all()
    with pytest.raises(rfg.Error, match="3 groups of 352 columns: .*say group= if the last one is shorter"):
        rfg.weights.pack_quantized(packed, s)


def test_nvfp4_pads(rng):
    """K that is no multiple of 128: groups of 16 up to eight."""
    w, s = rng.integers(0, 256, (N, 144), dtype=np.uint8), rng.integers(40, 80, (N, 18), dtype=np.uint8)
    q = rfg.weights.nvfp4(w, s, np.array([0.5], np.float32))
    x = rng.integers(-4, 5, (5, 288)).astype(np.float16)
    packed = q.prepack()
    assert packed.w.shape == (N // 16, 3, 4, 16, 32) and packed.w_scale.shape == (N // 16, 24, 16)
    y = [form.gemm(x, dtype="f32") for form in (q, packed)]
    assert np.allclose(y[0], y[1], rtol=1e-5, atol=1e-3) and (y[0] != 0).any()


def test_configs_refused(rng):
    make, config = CHECKPOINTS["w4a16"]
    tensors, _ = make(rng)

    def refused(words, t, c):
        with pytest.raises(rfg.Error, match="weights.load: " + words):
            rfg.weights.load(t, c)

    refused("quant_method is None: must be awq, bitsandbytes, compressed-tensors, fp8, gptq, modelopt", tensors, {})
    refused("quant_method is 'exl3': must be", tensors, {"quant_method": "exl3"})
    refused("format is 'marlin-24': must be pack-quantized, float-quantized", tensors, {**config, "format": "marlin-24"})
    refused("no weight_scale: must be there with compressed-tensors pack-quantized", {"weight_packed": tensors["weight_packed"]}, config)
    refused("num_bits is 3: must be 4 or 8", tensors, checkpoints._compressed("pack-quantized", num_bits=3))
    refused("weight_g_idx", {**tensors, "weight_g_idx": np.arange(K)}, config)
    two = {**config, "config_groups": {**config["config_groups"], "group_1": {}}}
    refused("config_groups has 2 groups: must be the layer's alone", tensors, two)
    gptq, c = CHECKPOINTS["gptq"][0](rng)[0], CHECKPOINTS["gptq"][1]
    refused("bits is 3: must be 4", gptq, {**c, "bits": 3})
    refused("checkpoint_format is 'marlin': must be None or 'gptq' or 'gptq_v2'", gptq, {**c, "checkpoint_format": "marlin"})
    awq = CHECKPOINTS["awq"]
    refused("version is 'gemv': must be 'gemm' or 'GEMM'", awq[0](rng)[0], {**awq[1], "version": "gemv"})
    int8 = CHECKPOINTS["int8"]
    refused("weight_zero_point has others than 0", {**int8[0](rng)[0], "weight_zero_point": np.ones((N, 1), np.int8)}, int8[1])


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
    refused("weights.awq: 48 groups of 384 columns: columns in a group must be a multiple of 16", w.awq, qweight, qzeros, np.ones((48, N), np.float16))
    refused("3 groups of 384 columns, group=200: columns in", w.awq, qweight, qzeros, scales, group=200)
    (qweight, qzeros, scales, g_idx), _ = checkpoints.gptq(rng)
    wrong = g_idx.copy()
    wrong[0] = 1
    refused("g_idx: each of the 3 groups must have 128 columns", w.gptq, qweight, qzeros, scales, wrong, v1=True)
    refused(r"g_idx is \[383\]: must be \[384\]", w.gptq, qweight, qzeros, scales, g_idx[1:], v1=True)
    refused("N=31: must be a multiple of 8", w.gptq, qweight[:, :31], qzeros, scales[:, :31])
    (packed, scales, zeros), _ = checkpoints.pack_quantized(rng, False)
    refused(r"weight_zero_point is \[32, 3\]: must be \[4, 3\]", w.pack_quantized, packed, scales, zeros.repeat(8, 0))
    refused("bits is 3: must be 4 or 8", w.pack_quantized, packed, scales, bits=3)
    refused("weight_zero_point: must be None of 8 bits", w.pack_quantized, packed, scales, zeros, bits=8)
    (codes, scale), _ = checkpoints.float_quantized(rng, "tensor")
    refused(r"weight_scale is \[3\]: must be \[1\], \[32\], \[32,1\], \[1,3\] .*K=384", w.float_quantized, codes, np.ones(3, np.float32))
    refused("weight is float16: must be float8_e4m3fn or uint8", w.float_quantized, codes.astype(np.float16), scale)
    (codes, scale, one), _ = checkpoints.nvfp4(rng)
    refused(r"weight_scale is \[32, 23\]: must be \[32, 24\]", w.nvfp4, codes, scale[:, 1:], one)
    refused("weight_scale_2, weight_global_scale: must be one of them", w.nvfp4, codes, scale)
    refused("weight_scale_2, weight_global_scale: must be one of them", w.nvfp4, codes, scale, one, weight_global_scale=one)
    refused("weight_scale_2 is float64: must be float32", w.nvfp4, codes, scale, one.astype(float))
    t, _ = checkpoints.nf4(rng)
    refused(r"absmax is \[192\]: must be \[96\]", w.nf4, t["weight"], t["weight.absmax"], (N, K), block=128)
    refused("dtype is 'f32': must be bf16 or f16", w.nf4, t["weight"], t["weight.absmax"], (N, K), dtype="f32")
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
