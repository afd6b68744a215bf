# SPDX-License-Identifier: MIT
"""Operators of mixtures of experts on NumPy's arrays against the formulas."""

import numpy as np
import pytest
import rfg
from test_ops import close, normal, rng  # noqa: F401 (a fixture)


def sorted_pairs(ids, experts):
    """Flat indices by expert (numpy's stable argsort), and how many each has."""
    flat = ids.reshape(-1)
    local = np.flatnonzero((flat >= 0) & (flat < experts))
    return local[np.argsort(flat[local], kind="stable")], np.bincount(flat[local], minlength=experts)


@pytest.mark.parametrize("t,k,experts", [(1, 8, 256), (37, 4, 9), (200, 2, 3), (0, 8, 5)])
def test_moe_align(rng, t, k, experts):
    ids, weights = rng.integers(-1, experts, (t, k)).astype(np.int32), normal(rng, t, k)
    order, counts = sorted_pairs(ids, experts)
    made = rfg.moe_align(ids, experts, weights=weights)
    assert (made.offsets == np.concatenate([[0], np.cumsum(counts)])).all() and made.offsets.dtype == np.int32
    assert (made.rows[: len(order)] == order // k).all() and (made.weights_out[: len(order)] == weights.reshape(-1)[order]).all()
    places = np.full(t * k, -1)
    places[order] = np.arange(len(order))
    assert (made.places.reshape(-1) == places).all()

    block, wide = 16, -(-counts // 16) * 16
    begin = np.concatenate([[0], np.cumsum(wide)])
    at = np.concatenate([begin[e] + np.arange(counts[e]) for e in range(experts)]).astype(int)
    for format, value, padding in (
        ("vllm", order, t * k), ("aiter", order % k << 24 | order // k, k << 24 | t), ("contiguous", order // k, -1)
    ):
        made = rfg.moe_align(ids, experts, format=format, block=block, weights=weights, places=False)
        want = np.full(made.rows.shape, padding)
        want[at] = value
        assert (made.rows == want).all() and made.places is None and made.offsets is None
        assert (made.weights_out[at] == weights.reshape(-1)[order]).all() and np.count_nonzero(made.weights_out) == len(order)
        if format == "contiguous":
            want = np.full(made.rows.shape, -1)
            want[at] = ids.reshape(-1)[order]
        else:
            want = np.full(made.block_experts.shape, -1)
            want[: begin[-1] // block] = np.repeat(np.arange(experts), wide // block)
            assert list(made.count) == [begin[-1], t][: len(made.count)]
        assert (made.block_experts == want).all()
    made = rfg.moe_align(ids, experts, format="masked", rows=np.empty((experts, t * k), np.int32))
    assert (made.count == counts).all()
    assert all((made.rows[e, : counts[e]] == (order[ids.reshape(-1)[order] == e]) // k).all() for e in range(experts))


def test_moe_align_map(rng):
    ids = rng.integers(0, 20, (50, 4)).astype(np.int32)
    expert_map = np.where(np.arange(20) % 3 == 1, np.arange(20) // 3, -1).astype(np.int32)
    order, counts = sorted_pairs(np.where(np.arange(50)[:, None] < 30, expert_map[ids], -1), 7)
    made = rfg.moe_align(ids, 7, expert_map=expert_map, tokens=np.array([30], np.int32))
    assert (made.rows[: len(order)] == order // 4).all() and made.offsets[-1] == counts.sum() == len(order)
    with pytest.raises(rfg.Error, match="format: 'other'"):
        rfg.moe_align(ids, 7, format="other")


def test_moe_sum(rng):
    ids, weights, residual = rng.integers(-1, 6, (9, 4)).astype(np.int32), normal(rng, 9, 4), normal(rng, 9, 40)
    tokens, made = normal(rng, 9, 40), rfg.moe_align(ids, 6)
    x = tokens[made.rows[: made.offsets[-1]]] * 2  # what the experts make of their rows
    want = np.zeros((9, 40))
    for j in range(4):
        want += np.where(ids[:, j, None] >= 0, weights[:, j, None] * tokens * 2.0, 0)
    close(rfg.moe_sum(x, made.places, weights=weights), want)
    close(rfg.moe_sum(x, made.places, weights=weights, residual=residual), want + residual)
    assert rfg.moe_sum(rfg.bf16(x), made.places, dtype="f32").dtype == np.float32
    assert rfg.moe_sum(rfg.bf16(x), made.places).dtype == "bf16"
    out = residual.copy()
    assert rfg.moe_sum(x, made.places, weights=weights, residual=out, out=out, tokens=np.array([3], np.int32)) is out
    close(out[:3], (want + residual)[:3])
    assert (out[3:] == residual[3:]).all()


def test_moe_gate(rng):
    """The four operators that it is, and moe() with what it sorted."""
    x, w, norm = rfg.bf16(normal(rng, 6, 64)), rfg.bf16(normal(rng, 16, 64)), rfg.bf16(normal(rng, 64))
    bias, w_bias = normal(rng, 16), rfg.bf16(normal(rng, 16))
    choice = dict(scoring="sigmoid", bias=bias, groups=4, topk_groups=2, renormalise=True, scale=2.5, shared=1, shared_weight=0.5)
    made = rfg.moe_gate(x, w, 3, norm=norm, eps=1e-5, one_plus_weight=True, w_bias=w_bias, **choice)
    normed = rfg.rmsnorm(x, norm, eps=1e-5, one_plus_weight=True)
    assert (rfg.f32(made.normed) == rfg.f32(normed)).all()
    ids, weights = rfg.moe_route(rfg.gemm(normed, w, w_bias, dtype="f32"), 3, **choice)
    assert (made.ids == ids).all()
    close(made.weights, weights)
    align = rfg.moe_align(ids, 17, weights=made.weights)
    for name in ("rows", "offsets", "places", "weights_out"):
        assert (getattr(made.align, name) == getattr(align, name)).all(), name
    bare = rfg.moe_gate(x, w, 3, scoring="softmax", tokens=np.array([2], np.int32))
    assert bare.normed is None and (bare.ids[2:] == -1).all() and (bare.ids[:2] >= 0).all()
    w1, w2 = rfg.bf16(normal(rng, 17, 32, 64)), rfg.bf16(normal(rng, 17, 64, 16))
    y = rfg.moe(normed, w1, w2, made.ids, made.weights, dtype="f32")
    assert (rfg.moe(made.normed, w1, w2, made.ids, made.weights, align=made.align, dtype="f32") == y).all() and y.any()
    with pytest.raises(rfg.Error, match="scoring: 'relu': must be one of softmax, topk_softmax"):
        rfg.moe_gate(x, w, 2, scoring="relu")


def test_moe_route(rng):
    x, bias = normal(rng, 9, 32), normal(rng, 32)
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    ids, weights = rfg.moe_route(x, 4)
    want = np.argsort(-x, 1)[:, :4]
    assert (ids == want).all() and ids.dtype == np.int32
    close(weights, np.take_along_axis(p, want, 1))
    # DeepSeek V3: groups by the sum of their two best, and a shared expert.
    s = 1 / (1 + np.exp(-x))
    c = s + bias
    best = np.sort(c.reshape(9, 8, 4), 2)[:, :, 2:].sum(2)
    kept = best >= np.sort(best, 1)[:, 4:5]
    want = np.argsort(-np.where(np.repeat(kept, 4, 1), c, -np.inf), 1)[:, :6]
    ids, weights = rfg.moe_route(
        x, 6, scoring="sigmoid", bias=bias, groups=8, topk_groups=4, renormalise=True, scale=2.5, shared=1, shared_weight=0.5,
        tokens=np.array([7], np.int32)
    )
    assert (ids[:7, :6] == want[:7]).all() and (ids[:7, 6] == 32).all() and (ids[7:] == -1).all() and (weights[7:] == 0).all()
    chosen = np.take_along_axis(s, want, 1)
    close(weights[:7, :6], (2.5 * chosen / chosen.sum(1, keepdims=True))[:7])
    assert (weights[:7, 6] == 0.5).all()
    assert rfg.moe_route(x, 2, scoring="topk_softmax", bias=bias, ids=ids[:, :2], weights=weights[:, :2])[0].base is not None
    close(weights[:, :2].sum(1), np.ones(9))
    with pytest.raises(rfg.Error, match="scoring: 'relu': must be one of softmax, topk_softmax"):
        rfg.moe_route(x, 2, scoring="relu")
    with pytest.raises(rfg.Error, match="ids has 33 columns: must have from 1 to 32"):
        rfg.moe_route(x, 33)
