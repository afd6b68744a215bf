# SPDX-License-Identifier: MIT
"""rfg.weights on PyTorch's tensors: the very bytes that NumPy's arrays give, and a product with bf16."""

import numpy as np
import pytest
import rfg
import torch
from checkpoints import CHECKPOINTS, FORMS, K, pack_quantized


def bytes_of(t):
    if t is None:
        return None
    t = t.array if isinstance(t, rfg.View) else t
    return (t if isinstance(t, np.ndarray) else t.numpy()).tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_as_numpy(form):
    name, make, options = FORMS[form]
    tensors, want = make(np.random.default_rng(5))
    theirs = getattr(rfg.weights, name)(*(torch.from_numpy(t) for t in tensors), **options)
    for ours, other in zip(getattr(rfg.weights, name)(*tensors, **options), theirs):
        assert ours == other if isinstance(ours, (str, int)) else bytes_of(ours) == bytes_of(other)
    x = torch.randn(4, K, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(3))
    scale = theirs.w_scale.to(torch.bfloat16) if isinstance(theirs.w_scale, torch.Tensor) else theirs.w_scale
    for q in (theirs, theirs._replace(w_scale=scale).prepack()):
        y = q.gemm(x, dtype="f32")
        assert isinstance(y, torch.Tensor)
        error = (y.double() - x.double() @ torch.from_numpy(want).T).abs()
        assert (error <= 2**-8 * (x.double().abs() @ torch.from_numpy(want).abs().T)).all()  # bf16 scales


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(name):
    make, config = CHECKPOINTS[name]
    tensors, _ = make(np.random.default_rng(5))
    ours, theirs = rfg.weights.load(tensors, config), rfg.weights.load({k: torch.from_numpy(t.copy()) for k, t in tensors.items()}, config)
    for a, b in zip(ours, theirs):
        assert a == b if isinstance(a, (str, int)) else a is None or bytes_of(a) == bytes_of(b.view(torch.int16) if name[:3] == "nf4" else b)


def test_one_column_of_zero_points():
    """compressed-tensors packs them transposed: of one column the stride isn't 1."""
    packed, scales, zeros = (torch.from_numpy(t) for t in pack_quantized(np.random.default_rng(5), False)[0])
    scales, zeros = scales[:, :1].contiguous(), zeros[:, :1].contiguous()
    strided = zeros.as_strided(zeros.shape, (1, zeros.shape[0]))
    want, got = (rfg.weights.pack_quantized(packed, scales, z).w_zero for z in (zeros, strided))
    assert strided.is_contiguous() and (got == want).all()
