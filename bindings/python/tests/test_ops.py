# SPDX-License-Identifier: MIT
"""Operators on NumPy's arrays against the formulas."""

import numpy as np
import pytest
import reference
import rfg
from rfg import _rfg

ACTS = ["silu", "gelu", "gelu_tanh", "relu", "relu2", "none"]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(a, b, rel=1e-5):
    a, b = rfg.f32(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= rel * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("m,n,k", [(1, 16, 32), (5, 33, 70), (64, 48, 256)])
def test_gemm(rng, m, n, k):
    x, w, bias = normal(rng, m, k), normal(rng, n, k), normal(rng, n)
    close(rfg.gemm(x, w), x @ w.T)
    close(rfg.gemm(x, w, bias), x @ w.T + bias)
    half = rfg.gemm(x.astype(np.float16), w.astype(np.float16), dtype="f32")
    assert half.dtype == np.float32
    close(half, x.astype(np.float16).astype(float) @ w.astype(np.float16).astype(float).T)
    b = rfg.gemm(rfg.bf16(x), rfg.bf16(w))
    assert b.dtype == "bf16"
    close(b, rfg.f32(rfg.bf16(x)).astype(float) @ rfg.f32(rfg.bf16(w)).astype(float).T, 2**-8)


def test_gemm_batched(rng):
    x, w = normal(rng, 5, 3, 40), normal(rng, 3, 12, 40)
    close(rfg.gemm(x, w), np.einsum("mbk,bnk->mbn", x, w))
    turned = np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    out = np.zeros((3, 5, 12), np.float32)
    assert rfg.gemm(turned, w[:, 2:8], out=out.transpose(1, 0, 2)[..., :6]) is not None
    close(out[..., :6], np.einsum("mbk,bnk->bmn", x, w[:, 2:8]))
    assert not out[..., 6:].any()
    with pytest.raises(rfg.Error, match="x has 2 dimensions: must have 3"):
        rfg.gemm(x[:, 0], w, out=np.zeros((5, 3, 12), np.float32))
    with pytest.raises(rfg.Error, match="bias is given: must be NULL, y has 3 dimensions"):
        rfg.gemm(x, w, normal(rng, 12))


def test_gemm_epilogues(rng):
    x, w, residual = normal(rng, 5, 64), normal(rng, 12, 64), normal(rng, 5, 12)
    close(rfg.gemm(x, w, residual=residual), x @ w.T + residual)
    for gates, gate, up in (("interleaved", (x @ w.T)[:, ::2], (x @ w.T)[:, 1::2]), ("halves", (x @ w.T)[:, :6], (x @ w.T)[:, 6:])):
        close(rfg.gemm(x, w, act="silu", gates=gates), gate / (1 + np.exp(-gate)) * up)
    close(rfg.gemm(x, w, act="silu"), rfg.gemm(x, w, act="silu", gates="halves"))
    with pytest.raises(rfg.Error, match="gates: 'turns': must be one of halves, interleaved"):
        rfg.gemm(x, w, act="silu", gates="turns")


def test_gemm_of_codes(rng):
    x, w, scale = normal(rng, 5, 64), normal(rng, 12, 64), np.array([0.25], np.float32)
    q = rfg.gemm(x, w, dtype=np.int8, y_scale=scale)
    assert q.dtype == np.int8
    assert np.abs(np.clip(x @ w.T / 0.25, -128, 127) - q).max() < 0.501
    with pytest.raises(rfg.Error, match="y is i8, y_scale NULL: must be"):
        rfg.gemm(x, w, dtype=np.int8)


def test_grouped_gemm(rng):
    x, w, bias = normal(rng, 5, 64), normal(rng, 3, 12, 64), normal(rng, 3, 12)
    offsets, rows = np.array([0, 2, 2, 7], np.int32), np.array([4, 0, 1, 1, 2, 3, 4], np.int32)
    weights, expert = normal(rng, 7), np.array([0, 0, 2, 2, 2, 2, 2])
    want = np.einsum("mk,mnk->mn", x[rows], w[expert])
    close(rfg.grouped_gemm(x, w, offsets, rows), want)
    close(rfg.grouped_gemm(x, w.reshape(36, 64), offsets, rows, weights, bias), (want + bias[expert]) * weights[:, None])
    close(rfg.grouped_gemm(x[rows], w, offsets), want)
    gate, up = np.minimum(want[:, :6], 2), np.clip(want[:, 6:], -2, 2)
    got = rfg.grouped_gemm(x, w, offsets, rows, act="swigluoai", limit=2, alpha=1.5)
    close(got, gate / (1 + np.exp(-1.5 * gate)) * (up + 1))
    with pytest.raises(rfg.Error, match="offsets is f32: must be i32"):
        rfg.grouped_gemm(x, w, offsets.astype(np.float32), rows)


def test_moe(rng):
    x, w1, w2 = normal(rng, 5, 32), normal(rng, 4, 48, 32), normal(rng, 4, 32, 24)
    ids, weights, residual = rng.integers(0, 4, (5, 3)).astype(np.int32), normal(rng, 5, 3), normal(rng, 5, 32)
    want = residual.astype(float)
    for t, j in np.ndindex(5, 3):
        gate, up = np.split(w1[ids[t, j]] @ x[t], 2)
        want[t] += weights[t, j] * (w2[ids[t, j]] @ (gate / (1 + np.exp(-gate)) * up))
    args = (x, w1, w2, ids, weights)
    close(rfg.moe(*args, residual=residual), want)
    out = residual.copy()
    size = rfg.moe_workspace_bytes(out, *args)
    close(rfg.moe(*args, residual=out, out=out, workspace=np.empty(size + 255, np.int8)), want)
    with pytest.raises(rfg.Error, match="workspace_bytes %d: must be at least %d" % (size - 1, size)):
        rfg.moe(*args, workspace=np.empty(size + 254, np.int8))
    with pytest.raises(rfg.Error, match="rfg_op_moe: w2 has 23 columns: must be half of an expert's rows of w1.*, 24"):
        rfg.moe(x, w1, w2[:, :, :23].copy(), ids, weights)


def test_moe_of_mx_formats(rng):
    x, w1, w2 = normal(rng, 5, 32), normal(rng, 4 * 64, 32), normal(rng, 4 * 32, 32)
    ids, weights = rng.integers(0, 4, (5, 3)).astype(np.int32), normal(rng, 5, 3)
    mx = dict(group_rows=1, group_cols=32, scale_dtype="e8m0", rounding="up")
    (q1, s1), (q2, s2) = rfg.quantize(w1, "e2m1", **mx), rfg.quantize(w2, "e2m1", **mx)
    v1, v2 = (rfg.dequantize(q, s, group_rows=1, group_cols=32, dtype="f32").reshape(4, -1, 32) for q, s in ((q1, s1), (q2, s2)))
    args = (ids, weights)
    want = rfg.moe(x, v1, v2, *args, gates="interleaved")
    scales = dict(gates="interleaved", w1_scale=s1, w2_scale=s2, x_per="group", w_per="group", experts=4)
    off = [np.abs(rfg.moe(x, q1, q2, *args, **scales, x_codes=c, rounding=r) - want).max() / np.abs(want).max()
           for c, r in (("e4m3", "exact"), ("e2m1", "exact"), ("e2m1", "even"))]
    assert 0 < off[0] < 0.05 < off[1] < 0.5 and 0.05 < off[2] < 0.5 and off[1] != off[2], off
    with pytest.raises(rfg.Error, match="x_codes e5m2: must be of e2m1 or e4m3"):
        rfg.moe(x, q1, q2, *args, **scales, x_codes="e5m2")


def test_gemm_codes(rng):
    x, w = (rng.integers(-128, 128, (r, 300)).astype(np.int8) for r in (5, 130))
    sx, sw = normal(rng, 5), normal(rng, 130)
    want = x.astype(float) @ w.astype(float).T
    close(rfg.gemm(x, w, dtype="f32"), want)
    close(rfg.gemm(x, w, x_scale=sx, w_scale=sw[:1].copy(), x_per="row", dtype="f32"), want * sx[:, None] * sw[0])
    close(rfg.gemm(x, w, sw, x_scale=sx, w_scale=sw, x_per="row", w_per="row", dtype="f32"), want * sx[:, None] * sw + sw)
    bx, bw = normal(rng, 5, 3), normal(rng, 2, 3)
    wide = bw.repeat(128, 0)[:130].repeat(128, 1)[:, :300]
    blocks = dict(x_scale=bx, w_scale=bw, x_per="block", w_per="block", dtype="f32")
    close(rfg.gemm(x, w, **blocks), (x * bx.repeat(128, 1)[:, :300].astype(float)) @ (w * wide.astype(float)).T)
    with pytest.raises(rfg.Error, match="fast"):
        rfg.gemm(x, w, fast_accum=True, dtype="f32")
    with pytest.raises(rfg.Error, match="x_per: 'token': must be one of tensor, row, block, group"):
        rfg.gemm(x, w, x_scale=sx, x_per="token", dtype="f32")
    with pytest.raises(rfg.Error, match="y is i8|dtype of y is i8"):
        rfg.gemm(x, w)


def test_gemm_w8(rng):
    x, w = normal(rng, 5, 192).astype(np.float16), rng.integers(-128, 128, (48, 192)).astype(np.int8)
    f = x.astype(float)
    rows, groups = normal(rng, 48), normal(rng, 48, 3)
    close(rfg.gemm(x, w, w_scale=rows[:1].copy(), dtype="f32"), f @ w.astype(float).T * rows[0])
    close(rfg.gemm(x, rfg.gemm_prepack(w), w_scale=rows, w_per="row", dtype="f32"), f @ w.astype(float).T * rows)
    close(rfg.gemm(x, w, w_scale=groups, w_per="group", dtype="f32"), f @ (w * groups.repeat(64, 1).astype(float)).T)
    with pytest.raises(rfg.Error, match="w_group=38: must be a multiple of 32"):
        rfg.gemm(x, w, w_scale=normal(rng, 48, 5), w_per="group", dtype="f32")


def test_gemm_mx(rng):
    x, w = (rng.integers(0, 256, (r, 64)).astype(np.uint8) for r in (5, 32))
    sx, sw = (rng.integers(120, 134, (r, 4)).astype(np.uint8) for r in (5, 32))
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    of = lambda q, s: np.stack([values[q & 15], values[q >> 4]], -1).reshape(len(q), 128) * 2.0 ** (s.repeat(32, 1).astype(float) - 127)
    e2m1, e8m0 = (lambda a: rfg.view(a, "e2m1")), (lambda a: rfg.view(a, "e8m0"))
    scales = dict(x_scale=e8m0(sx), w_scale=e8m0(sw), x_per="group", w_per="group", dtype="f32")
    want = of(x, sx) @ of(w, sw).T
    close(rfg.gemm(e2m1(x), e2m1(w), **scales), want)
    scales["w_scale"] = rfg.gemm_prepack(e8m0(sw), groups=True)
    close(rfg.gemm(e2m1(x), rfg.gemm_prepack(e2m1(w)), **scales), want)


def test_views_keep_their_strides(rng):
    """Nothing is copied: rows of a larger array are read, and written, where they lie."""
    big, w = normal(rng, 6, 100), normal(rng, 9, 40)
    x = big[1:5, 20:60]
    room = np.full((8, 30), 7, np.float32)
    out = room[::2, 3:12]
    assert rfg.gemm(x, w, out=out) is out
    close(out, x @ w.T)
    assert (room[1::2] == 7).all() and (room[:, :3] == 7).all() and (room[:, 12:] == 7).all()


def test_prepacked(rng):
    w, x = rfg.bf16(normal(rng, 32, 64)), rfg.bf16(normal(rng, 3, 64))
    packed = rfg.gemm_prepack(w)
    assert packed.shape == (2, 2, 4, 16, 8)
    assert (packed.array == w.array.reshape(2, 16, 2, 4, 8).transpose(0, 2, 3, 1, 4)).all()
    assert np.abs(rfg.f32(rfg.gemm(x, packed)) - rfg.f32(rfg.gemm(x, w))).max() <= 0.1


@pytest.mark.parametrize("name", ACTS)
def test_act(rng, name):
    x = normal(rng, 4, 24)
    close(rfg.act(x, name), reference.act(x, name))
    close(rfg.act_and_mul(x, name), reference.act(x[:, :12], name) * x[:, 12:])
    close(rfg.act_and_mul(x, name, gates="interleaved"), reference.act(x[:, ::2], name) * x[:, 1::2])
    y = x.copy()
    assert rfg.act(y, name, out=y) is y
    close(y, reference.act(x, name))


def test_swigluoai(rng):
    x = 6 * normal(rng, 4, 24)
    a, b = np.minimum(x[:, :12], 3.0), np.clip(x[:, 12:], -3, 3)
    close(rfg.act_and_mul(x, "swigluoai", alpha=1.5, limit=3.0), a / (1 + np.exp(-1.5 * a)) * (b + 1))


def test_limits_and_situ(rng):
    x = 6 * normal(rng, 4, 24)
    a, b = np.minimum(x[:, :12], 2.0), np.clip(x[:, 12:], -2, 2)
    close(rfg.act_and_mul(x, limit=2.0), reference.act(a, "silu") * b)
    one = np.eye(24, dtype=np.float32)

    def situ(a, b, beta, linear):
        return beta * np.tanh(a / beta) / (1 + np.exp(-a)) * (b if linear == np.inf else linear * np.tanh(b / linear))

    for given in (dict(), dict(situ_beta=1.0, situ_linear_beta=np.inf), dict(situ_beta=2.5, situ_linear_beta=3.0)):
        want = situ(x[:, :12], x[:, 12:], given.get("situ_beta", 4.0), given.get("situ_linear_beta", 25.0))
        close(rfg.act_and_mul(x, "situ", **given), want)
        close(rfg.gemm(x, one, act="situ", **given), want)
    close(rfg.act_and_mul(x, "situ", limit=2.0), situ(a, b, 4.0, 25.0))
    close(rfg.act_and_mul(x, "swiglustep", limit=2.0), np.minimum(reference.act(x[:, :12], "silu"), 2) * b)
    with pytest.raises(rfg.Error, match="situ_beta is 4, situ_linear_beta 0: must be 0, act is not situ"):
        rfg.act_and_mul(x, situ_beta=4.0)


def test_identity_experts(rng):
    x, w1, w2 = normal(rng, 5, 16), normal(rng, 3, 8, 16), normal(rng, 3, 16, 4)
    ids = rng.integers(0, 6, (5, 4)).astype(np.int32)  # 3, 4: the token itself; 5: nothing
    weights = normal(rng, 5, 4)
    real = rfg.moe(x, w1, w2, np.where(ids < 3, ids, -1).astype(np.int32), weights)
    share = np.where((ids == 3) | (ids == 4), weights, 0).sum(1, keepdims=True)
    close(rfg.moe(x, w1, w2, ids, weights, identity=2), real + share * x)
    close(rfg.moe(x, w1, w2, ids, weights, identity=2, identity_x=2 * x), real + share * 2 * x)
    made = rfg.moe_align(ids, 3, identity=2)
    assert np.array_equal(made.places == rfg.ops.MOE_IDENTITY, (ids == 3) | (ids == 4))
    nothing = np.zeros((20, 16), np.float32)
    close(rfg.moe_sum(nothing, made.places, identity=x, identity_weights=weights), share * x)


def test_route_by_table(rng):
    x, table = normal(rng, 6, 10), rng.integers(0, 10, (50, 3)).astype(np.int32)
    tokens = rng.integers(0, 50, 6)
    tokens[4] = 50  # no row of the table
    ids, weights = rfg.moe_route(x, 3, scoring="sqrt_softplus", renormalise=True, table=table, token_ids=tokens, scale=2.0)
    want = np.where((tokens == 50)[:, None], -1, table[tokens % 50])
    assert np.array_equal(ids, want)
    s = np.sqrt(np.log1p(np.exp(np.take_along_axis(x, np.maximum(want, 0), 1))))
    close(weights, np.where(want < 0, 0, 2 * s / s.sum(1, keepdims=True)))


def test_norms(rng):
    x, r, w, b = normal(rng, 5, 96), normal(rng, 5, 96), normal(rng, 96), normal(rng, 96)
    close(rfg.rmsnorm(x), reference.rms(x))
    close(rfg.rmsnorm(x, w, 0.5), reference.rms(x, w, 0.5))
    close(rfg.rmsnorm(x, w, one_plus_weight=True), reference.rms(x, w + 1))
    close(rfg.layernorm(x, w, b, 0.25), reference.layer(x, w, b, 0.25))
    y, s = rfg.add_rmsnorm(x, r, w, 0.5)
    close(s, x + r)
    close(y, reference.rms(x + r, w, 0.5))
    y, s = rfg.add_layernorm(x, r, w, b, 0.25)
    close(s, x + r)
    close(y, reference.layer(x + r, w, b, 0.25))
    heads = normal(rng, 4, 3, 32)  # [T,H,N] inside of a wider buffer
    wide = np.zeros((4, 5, 32), np.float32)
    wide[:, 1:4] = heads
    close(rfg.rmsnorm(wide[:, 1:4]), reference.rms(heads))


def test_in_place(rng):
    x, r = normal(rng, 3, 64), normal(rng, 3, 64)
    y, s = rfg.add_rmsnorm(x.copy(), r.copy())
    x2, r2 = x.copy(), r.copy()
    y2, s2 = rfg.add_rmsnorm(x2, r2, out=x2, residual_out=r2)
    assert y2 is x2 and s2 is r2
    assert (y2 == y).all() and (s2 == s).all()


@pytest.mark.parametrize("kind", ["token", "group"])
def test_quantised(rng, kind):
    x = normal(rng, 4, 200)
    quant = rfg.new_quant(x, kind, "i8")
    assert quant.q.dtype == np.int8 and quant.scale.shape == ((4,) if kind == "token" else (4, 2))
    assert rfg.rmsnorm(x, quant=quant) is None
    y = reference.rms(x)
    scale = quant.scale[:, None] if kind == "token" else np.repeat(quant.scale, 128, 1)[:, :200]
    assert np.abs(quant.q * scale - y).max() <= scale.max() * 0.51
    assert np.abs(quant.q.astype(int)).max() == 127
    out = np.empty_like(x)
    assert rfg.rmsnorm(x, out=out, quant=quant) is out
    close(out, y)


@pytest.mark.parametrize("dtype", ["e4m3", "e2m1"])
def test_quantised_to_mx_formats(rng, dtype):
    x = normal(rng, 4, 192)
    for rounding in ("up", "down", "even", "ceil"):
        quant, y = rfg.new_quant(x, "mx", dtype, rounding=rounding), np.empty_like(x)
        rfg.rmsnorm(x, out=y, quant=quant)
        q, scale = rfg.quantize(y, dtype, group_rows=1, group_cols=32, scale_dtype="e8m0", rounding=rounding)
        assert (quant.q.array == q.array).all() and (quant.scale.array == scale.array).all()
    assert rfg.new_quant(x, "mx", dtype).rounding == "up"
    with pytest.raises(rfg.Error, match="quant.rounding: 'nearest': must be one of exact, up, down, even, ceil"):
        rfg.act(x, "none", quant=quant._replace(rounding="nearest"))
    with pytest.raises(rfg.Error, match="rounding is 0: must be RFG_SCALE_UP, DOWN, EVEN or CEIL"):
        rfg.act(x, "none", quant=rfg.Quant("mx", quant.q, quant.scale))


def test_quantised_with_a_given_scale(rng):
    x = normal(rng, 4, 64)
    q, scale = np.zeros((4, 64), np.int8), np.array([0.05], np.float32)
    rfg.act(x, "none", quant=rfg.Quant("static", q, scale))
    assert (q == np.clip(np.rint(x / scale), -128, 127)).mean() > 0.99
    assert scale[0] == np.float32(0.05)
    e4m3 = rfg.new_quant(x, "token", "e4m3")
    rfg.act_and_mul(x, "silu", quant=e4m3._replace(q=e4m3.q[:, :32]))
    assert (e4m3.q.array[:, :32] & 0x7F).max() == 0x7E  # 448, the largest


def test_dequantize(rng):
    q, scale = rng.integers(-128, 128, (5, 200)).astype(np.int8), normal(rng, 5, 2)
    want = q * np.repeat(scale, 128, axis=1)[:, :200]
    assert (rfg.dequantize(q, scale, group_rows=1, group_cols=128, dtype="f32") == want).all()
    columns = np.asfortranarray(scale)
    assert (rfg.dequantize(q, columns, group_rows=1, group_cols=128, dtype="f32") == want).all()
    assert (rfg.dequantize(q, scale[:1, :1].copy(), out=np.empty((5, 200), np.float32)) == q * scale[0, 0]).all()


@pytest.mark.parametrize("groups", [(0, 0), (1, 0), (1, 128)])
def test_quantize(rng, groups):
    x = normal(rng, 5, 200) * np.exp2(rng.integers(-8, 8, (5, 1))).astype(np.float32)
    parts = [x] if groups == (0, 0) else [x] if groups == (1, 0) else [x[:, :128], x[:, 128:]]
    largest = np.stack([np.abs(p).max(axis=None if groups == (0, 0) else 1).reshape(-1) for p in parts], axis=1)
    want = np.maximum(largest / np.float32(127), np.float32(1) / np.float32(512 * 127))
    q, scale = rfg.quantize(x, "i8", group_rows=groups[0], group_cols=groups[1])
    assert (scale == want).all() and scale.shape == want.shape
    wide = np.repeat(want, 128, axis=1)[:, :200] if groups[1] else want
    assert (q == np.rint(x / wide)).all()
    assert np.abs(rfg.dequantize(q, scale, group_rows=groups[0], group_cols=groups[1], dtype="f32") - x).max() <= want.max() * 0.5001
    if groups == (0, 0):
        assert rfg.quantize_scale(x, "i8") == want
        assert (rfg.quantize(x, "i8", scale, scale_given=True, max=100)[0] == np.rint(np.clip(x / want, -100, 100))).all()
    else:
        up = rfg.quantize(x, "e4m3", group_rows=1, group_cols=groups[1], scale_dtype="e8m0", rounding="up", floor_amax=1e-10)[1]
        assert (up.array == np.ceil(np.log2(largest / np.float32(448))) + 127).all()


def test_quantize_smooth(rng):
    x, smooth = normal(rng, 5, 200), np.exp(normal(rng, 200))
    q, scale = rfg.quantize(x, "i8", group_rows=1, smooth=smooth)
    want, want_scale = rfg.quantize(x * smooth, "i8", group_rows=1)
    assert (q == want).all() and (scale == want_scale).all()
    assert (q != rfg.quantize(x, "i8", group_rows=1)[0]).any()


def test_embedding(rng):
    table, ids = normal(rng, 10, 24), np.array([3, 9, 0, 10, -1], np.int64)
    want = np.where(((ids >= 0) & (ids < 10))[:, None], table[np.clip(ids, 0, 9)], 0)
    assert (rfg.embedding(ids, table) == want).all()
    close(rfg.embedding(ids.astype(np.int32), table, scale=2.0), 2 * want)
    assert (rfg.embedding(ids + 1000, table, first=1000) == want).all()


def test_mha_windows(rng):
    q, k, v = (normal(rng, 1, n, 2, 64).astype(np.float16) for n in (5, 9, 9))
    assert np.array_equal(rfg.mha(q, k, v, causal=True, window=np.int64(4)), rfg.mha(q, k, v, causal=True, window=(3, -1)))
    for window, says in ((None, "None"), ((1, 2, 3), r"\(1, 2, 3\)")):
        with pytest.raises(rfg.Error, match="window: %s: must be how many keys a query sees, or" % says):
            rfg.mha(q, k, v, window=window)
    with pytest.raises(rfg.Error, match="window=4: must be with causal=1: it says nothing of later keys"):
        rfg.mha(q, k, v, window=4)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (2, 1)}, {"window": 3, "causal": True}, {"scale": 0.3}, {"sinks": True}])
def test_mha(rng, options):
    q, k, v = (normal(rng, 2, n, h, 64).astype(np.float16) for n, h in ((5, 4), (9, 2), (9, 2)))
    sinks = normal(rng, 4) if options.get("sinks") else None
    options = {**options, "sinks": sinks}
    lse = np.empty((2, 4, 5), np.float32)
    out, want_lse = reference.attention(q, k, v, **options)
    got = rfg.mha(q, k, v, lse=lse, **options)
    assert got.dtype == np.float16
    close(got.astype(np.float32), out, 3e-3)
    close(lse, want_lse, 1e-3)


def test_mha_ragged(rng):
    q, k, v = (normal(rng, 7, 2, 64).astype(np.float16) for _ in range(3))
    starts = np.array([0, 3, 7], np.int32)
    got = rfg.mha(q, k, v, causal=True, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=4)
    for a, b in ((0, 3), (3, 7)):
        want, _ = reference.attention(q[None, a:b], k[None, a:b], v[None, a:b], causal=True)
        close(got[a:b].astype(np.float32), want[0], 3e-3)


def test_mha_decode(rng):
    page, lens = 16, np.array([20, 3], np.int32)
    k, v = (normal(rng, 4, page, 2, 64).astype(np.float16) for _ in range(2))
    table = np.array([[2, 0], [1, 3]], np.int32)
    q = normal(rng, 2, 4, 64).astype(np.float16)
    want, _ = reference.attention(q[:, None], k[table].reshape(2, 32, 2, 64), v[table].reshape(2, 32, 2, 64), kv_lens=lens)
    close(rfg.mha_decode(q, k, v, table, lens).astype(np.float32), want[:, 0], 3e-3)
    close(rfg.mha_decode(q, k, v, table, lens, mean_seqlen_k=30).astype(np.float32), want[:, 0], 3e-3)


def rotated(x, table, positions, gptj=False):
    c, s = np.split(table[positions].astype(np.float64)[:, None], 2, -1)
    a, b = (x[..., ::2], x[..., 1::2]) if gptj else np.split(x, 2, -1)
    pairs = a * c - b * s, b * c + a * s
    return np.stack(pairs, -1).reshape(x.shape) if gptj else np.concatenate(pairs, -1)


@pytest.fixture
def rope_inputs(rng):
    q, k, v = (normal(rng, 5, h, 64).astype(np.float16) for h in (4, 2, 2))
    return q, k, v, rfg.rope_table(np.empty((32, 64), np.float32)), np.array([3, 0, 31, 7, 8], np.int64)


def test_rope(rope_inputs):
    q, k, _, table, positions = rope_inputs
    angles = np.arange(32)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    close(table, np.concatenate([np.cos(angles), np.sin(angles)], 1), 1e-6)
    for gptj in (False, True):
        q_out, k_out = rfg.rope(q, k, table, positions, gptj=gptj)
        close(q_out.astype(np.float32), rotated(q, table, positions, gptj), 2e-3)
        close(k_out.astype(np.float32), rotated(k, table, positions, gptj), 2e-3)
    assert rfg.rope(q, None, table, positions)[1] is None
    sections = rfg.rope(q, None, table, np.stack([positions, positions * 0]), sections=[20, 12])[0].astype(np.float64)
    pairs = np.r_[0:20, 32:52]
    close(sections[..., pairs].astype(np.float32), rotated(q, table, positions)[..., pairs], 2e-3)
    assert (sections[..., 20:32] == q[..., 20:32]).all()
    scaled = rfg.rope_table(np.empty((32, 64), np.float32), "linear", factor=2.0, first=4)
    close(scaled[:, :32], np.cos((angles + 4 * angles[1]) / 2), 1e-6)
    with pytest.raises(rfg.Error, match="scaling: 'ntk': must be one of default, linear, llama3, yarn, dynamic, longrope, proportional"):
        rfg.rope_table(scaled, "ntk")
    wide = normal(np.random.default_rng(7), 5, 3, 100).astype(np.float32)
    turned = rfg.rope(wide, None, table, positions, offset=20)[0]
    close(turned[..., 20:84], rotated(wide[..., 20:84], table, positions), 1e-6)
    assert (turned[..., :20] == wide[..., :20]).all() and (turned[..., 84:] == wide[..., 84:]).all()
    with pytest.raises(rfg.Error, match="offset is 37: must be from 0 to 36"):
        rfg.rope(wide, None, table, positions, offset=37)


def test_rope_tables():
    at = np.arange(8)[:, None]
    i = np.arange(4)
    factors = dict(short_factor=[1, 1.5, 2, 3], long_factor=np.array([2, 4, 8, 16], np.float32))
    for length, by in ((0, factors["short_factor"]), (9, factors["long_factor"])):
        t = rfg.rope_table(np.empty((8, 8), np.float32), "longrope", original=8, factor=64.0, length=length, **factors)
        close(t[:, 4:], 3**0.5 * np.sin(at * 1e4 ** (-i / 4) / by), 1e-6)
    t = rfg.rope_table(np.empty((8, 8), np.float32), "proportional", partial_rotary_factor=0.5)
    close(t[:, 4:], np.sin(at * np.where(i < 2, 1e4 ** (-i / 4), 0)), 1e-6)
    t = rfg.rope_table(np.empty((8, 8), np.float32), "dynamic", original=4, factor=2.0)
    close(t[:, 4:], np.sin(at * (1e4 * 3 ** (4 / 3)) ** (-i / 4)), 1e-6)
    with pytest.raises(rfg.Error, match="long_factor has 3 elements: must be table's pairs, 4"):
        rfg.rope_table(t, "longrope", original=8, short_factor=[1] * 4, long_factor=[1] * 3)


def test_cache_writes(rope_inputs):
    q, k, v, table, positions = rope_inputs
    slots = np.array([17, 3, -1, 0, 31], np.int64)
    k_cache, v_cache = np.zeros((2, 16, 2, 64), np.float16), np.zeros((2, 16, 2, 64), np.float16)
    assert rfg.kv_append(k_cache, v_cache, k, v, slots) is None
    there = slots >= 0
    assert (k_cache.reshape(32, 2, 64)[slots[there]] == k[there]).all() and (v_cache.reshape(32, 2, 64)[slots[there]] == v[there]).all()
    assert (np.abs(k_cache).sum((2, 3)) > 0).sum() == 4
    q_out = rfg.rope_append(k_cache, v_cache, q, k, v, table, positions, slots, rope={"gptj": True})
    close(q_out.astype(np.float32), rotated(q, table, positions, True), 2e-3)
    close(k_cache.reshape(32, 2, 64)[slots[there]].astype(np.float32), rotated(k, table, positions, True)[there], 2e-3)
    with pytest.raises(rfg.Error, match="rope: has no such member: half"):
        rfg.rope_append(k_cache, v_cache, q, k, v, table, positions, slots, rope={"half": True})


@pytest.mark.parametrize("dtype", ["i8", "i4"])
def test_caches_of_integers(rng, dtype):
    """kv_append() makes codes and scales, of which mha_decode() and mha() make what they do of the numbers."""
    page, d, tokens = 16, 64, 40
    k, v = (normal(rng, tokens, 2, d).astype(np.float16) for _ in range(2))
    slots = np.array([(2, 0, 1)[i // page] * page + i % page for i in range(tokens)], np.int64)
    held = (np.int8, d) if dtype == "i8" else (np.uint8, d // 2)
    codes = [np.zeros((3, page, 2, held[1]), held[0]) for _ in range(2)]
    scales = [np.ones((3, page, 2), np.float32) for _ in range(2)]
    assert rfg.kv_append(*codes, k, v, slots, k_scale=scales[0], v_scale=scales[1]) is None
    table, lens = np.array([[2, 0, 1]], np.int32), np.array([tokens], np.int32)

    def numbers(codes, scales):
        if dtype == "i8":
            return codes * scales[..., None]
        word = scales.view(np.uint32)
        nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(3, page, 2, d).astype(np.float32)
        return (nibbles - (word & 15)[..., None]) * (word & ~np.uint32(15)).view(np.float32)[..., None]

    made = [numbers(c, s)[table].reshape(1, 48, 2, d) for c, s in zip(codes, scales)]
    for x, y in zip((k, v), made):
        step = np.abs(x).max((1, 2)) / (120 if dtype == "i8" else 7)
        assert (np.abs(y[0, :tokens] - x) <= step[:, None, None]).all()
    q = normal(rng, 1, 3, 4, d).astype(np.float16)
    want, _ = reference.attention(q, *made, kv_lens=lens, causal=True)
    options = dict(causal=True, k_scale=scales[0], v_scale=scales[1])
    close(rfg.mha_decode(q, *codes, table, lens, **options).astype(np.float32), want, 3e-3)
    close(rfg.mha(q, *codes, block_table=table, kv_lens=lens, **options).astype(np.float32), want, 3e-3)
    scales[0].flags.writeable = False
    with pytest.raises(rfg.Error, match="k_scale"):
        rfg.kv_append(*codes, k, v, slots, k_scale=scales[0], v_scale=scales[1])


def test_sampling(rng):
    logits = normal(rng, 6, 50)
    assert (rfg.argmax(logits) == logits.argmax(1)).all()
    assert rfg.argmax(logits, dtype="i32").dtype == np.int32
    seed, offset = np.arange(6, dtype=np.int64), np.zeros(6, np.int64)
    greedy = rfg.sample(logits, seed, offset, temperature=np.zeros(6, np.float32))
    assert (greedy == logits.argmax(1)).all()
    assert (rfg.sample(logits, seed, offset, top_k=np.ones(6, np.int32)) == greedy).all()
    drawn = np.stack([rfg.sample(logits, seed, offset + i) for i in range(20)])
    assert len(np.unique(drawn)) > 10 and drawn.min() >= 0 and drawn.max() < 50
    assert (drawn[0] == rfg.sample(logits, seed, offset)).all()
    bias = np.full((6, 50), -np.inf, np.float32)
    bias[:, 7] = 0
    assert (rfg.sample(logits, seed, offset, bias=bias, joint=True) == 7).all()


def test_advance():
    kv_lens, table = np.array([4, 2, -1], np.int32), np.array([[7, -1], [6, -1], [5, -1]], np.int32)
    positions, slots, count = np.zeros((3, 1), np.int64), np.zeros((3, 1), np.int64), np.array([2], np.int32)
    spare = np.array([9, 8], np.int32)
    assert rfg.advance(kv_lens, positions, slots=slots, block_table=table, page=4, spare=spare, spare_count=count) is None
    assert kv_lens.tolist() == [5, 3, -1] and positions.ravel().tolist() == [4, 2, 0] and slots.ravel().tolist() == [32, 26, -1]
    assert table.tolist() == [[7, 8], [6, -1], [5, -1]] and count.tolist() == [1]
    rfg.advance(kv_lens, positions, accepted=np.array([0, 1, 1], np.int32), active=np.array([1, 0, 1], np.int32))
    assert kv_lens.tolist() == [5, 3, -1] and positions.ravel().tolist() == [4, 0, 0]
    with pytest.raises(rfg.Error, match="block_table is NULL: must be a tensor, with slots"):
        rfg.advance(kv_lens, positions, slots=slots)


def test_mla_append(rope_inputs):
    q, k, _, table, positions = rope_inputs
    slots, latent, k = np.array([17, 3, -1, 0, 31], np.int64), np.tile(q[:, 0], (1, 2)), np.ascontiguousarray(k[:, 0])
    kv, weight = np.zeros((2, 16, 192), np.float16), np.linspace(0.5, 1.5, 128).astype(np.float16)
    q_out = rfg.mla_append(kv, latent, k, slots, norm=weight, eps=1e-5, cos_sin=table, positions=positions, gptj=True, q=q)
    close(q_out.astype(np.float32), rotated(q, table, positions, True), 2e-3)
    there, rows, x = slots >= 0, kv.reshape(32, 192).astype(np.float32), latent.astype(np.float32)
    close(rows[slots[there], :128], (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight)[there], 4e-3)
    close(rows[slots[there], 128:], rotated(k[:, None], table, positions, True)[there, 0], 2e-3)
    assert (np.abs(rows).sum(-1) > 0).sum() == 4
    ends, table, got = np.array([0, 2, 5], np.int32), np.array([[0, 1], [1, 0]], np.int32), np.zeros((6, 192), np.float16)
    rfg.mla_gather(got, kv, ends, table, first=np.array([16, 1], np.int32))
    assert (got == np.concatenate([kv[1, :2], kv[1, 1:4], got[5:]])).all() and (got[5] == 0).all()
    with pytest.raises(rfg.Error, match="format: 'v3': must be one of plain, v32, v4"):
        rfg.mla_append(kv, latent, k, slots, format="v3")


def test_mla_decode(rng):
    """Latent attention is mha_decode with one kv head whose values are a part of its keys."""
    q, kv = normal(rng, 2, 3, 5, 128).astype(np.float16), normal(rng, 4, 8, 128).astype(np.float16)
    table, lens = np.array([[2, 0], [1, 3]], np.int32), np.array([9, 14], np.int32)
    lse, want_lse = np.empty((2, 5, 3), np.float32), np.empty((2, 5, 3), np.float32)
    out = rfg.mla_decode(q, kv, table, lens, scale=0.2, dv=64, causal=True, lse=lse)
    k = np.zeros((2, 16, 1, 128), np.float16)
    for b in range(2):
        k[b, :, 0] = kv[table[b]].reshape(16, 128)
    v = np.concatenate([k[..., :64]] * 2, axis=-1)
    want = rfg.mha_decode(q, k, v, kv_lens=lens, scale=0.2, causal=True, lse=want_lse)
    close(out, want[..., :64], 2e-3)
    close(lse, want_lse, 1e-3)
    apart = rfg.mla_decode(q[..., :64], kv, scale=0.2, causal=True, q_rope=q[..., 64:], kv_lens=lens,
                           kv_indptr=np.array([0, 2, 4], np.int32), kv_indices=table.reshape(-1))  # fmt: skip
    assert (apart == out).all()


def test_merge_states(rng):
    """Attention over keys in two parts, merged, is attention over all of them."""
    q, k, v = (normal(rng, 1, n, 4, 64).astype(np.float16) for n in (3, 20, 20))
    o, lse, whole_lse = np.empty((2, 3, 4, 64), np.float16), np.empty((2, 3, 4), np.float32), np.empty((1, 4, 3), np.float32)
    whole = rfg.mha(q, k, v, lse=whole_lse)
    for i, keys in enumerate((slice(0, 13), slice(13, 20))):
        rfg.mha(q, k[:, keys], v[:, keys], out=o[i : i + 1], lse=lse[i : i + 1].transpose(0, 2, 1))
    out, lse_out = rfg.merge_states(o, lse)
    assert out.dtype == np.float16 and lse_out.dtype == np.float32
    close(out, whole[0], 2e-3)
    close(lse_out, whole_lse[0].T, 1e-3)
    by_two, lse_by_two = rfg.merge_states(o, lse / np.log(2, dtype=np.float32), base2=True, dtype="f32")
    close(by_two, whole[0], 2e-3)
    close(lse_by_two * np.log(2), whole_lse[0].T, 1e-3)
    lse[1], o[1] = -np.inf, np.nan
    first = o[0].copy()
    assert rfg.merge_states(o, lse, out=o[0])[0].base is o
    assert (o[0] == first).all()


def test_lora(rng):
    """Rows of three adapters, one smaller; then the same rows as segments, into columns of a wider y."""
    x, a, b = normal(rng, 6, 40).astype(np.float16), normal(rng, 3, 8, 40).astype(np.float16), normal(rng, 3, 24, 8).astype(np.float16)
    ids, scales, ranks = np.array([2, -1, 0, 2, 1, 7], np.int32), np.array([1, 2, 0.5], np.float32), np.array([8, 3, 8], np.int32)
    y = normal(rng, 6, 24).astype(np.float32)
    want = y.astype(np.float64)
    for m, i in enumerate(ids):
        if 0 <= i < 3:
            h = a[i, : ranks[i]].astype(np.float64) @ x[m].astype(np.float64)
            want[m] += 3 * scales[i] * (b[i, :, : ranks[i]].astype(np.float64) @ h)
    got, wide = y.copy(), np.zeros((6, 60), np.float32)
    assert rfg.lora(got, x, a, b, ids, scales=scales, ranks=ranks, scale=3) is None
    close(got, want, 1e-4)
    wide[:, 30:54] = y
    indptr = np.array([0, 1, 2, 3, 4, 5, 6], np.int32)
    rfg.lora(wide[:, 30:54], x, a, b, ids, indptr=indptr, scales=scales, ranks=ranks, scale=3)
    assert (wide[:, 30:54] == got).all() and (wide[:, :30] == 0).all() and (wide[:, 54:] == 0).all()


def test_nothing_to_do():
    empty = np.zeros((0, 8), np.float32)
    assert rfg.gemm(empty, np.zeros((4, 8), np.float32)).shape == (0, 4)
    assert rfg.rmsnorm(empty).shape == (0, 8)


def test_threads_share_a_context(rng):
    """The interpreter's lock is not held while the library works."""
    import threading

    x, w = normal(rng, 40, 300), normal(rng, 200, 300)
    want, wrong = rfg.gemm(x, w), []

    def work():
        for _ in range(50):
            if not (rfg.gemm(x, w) == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_raw_calls_take_the_c_order(rng):
    """_rfg.<op>(outputs, inputs, members by name), for those who want no new tensors."""
    x, y = normal(rng, 2, 8), np.empty((2, 8), np.float32)
    assert _rfg.rmsnorm(y, x, None, eps=0.5) is None
    close(y, reference.rms(x, None, 0.5))
    name = "".join(["e", "p", "s"])  # not interned
    _rfg.rmsnorm(y, x, None, **{name: 0.25})
    close(y, reference.rms(x, None, 0.25))


def test_raw_defaults(rng):
    """What isn't given is as RFG_<OP>_PARAMS_INIT has it: eps 1e-6."""
    x, y = 1e-4 * normal(rng, 2, 8), np.empty((2, 8), np.float32)
    _rfg.rmsnorm(y, x, None)
    close(y, reference.rms(x, None, 1e-6))
