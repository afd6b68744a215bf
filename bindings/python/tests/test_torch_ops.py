# SPDX-License-Identifier: MIT
"""PyTorch's tensors on cpu: values against PyTorch, the compiler, gradients."""

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F

import rfg
import rfg.torch as rt
from rfg import _rfg
from rfg.torch import autograd, custom, model_ops

torch.manual_seed(3)
BF16 = torch.bfloat16


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def codes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


# One rounding of a result is at most half an ulp of the largest; what fp32 sums of a few hundred terms are off by is at most 2^-20.
ROUNDED = {torch.float32: 2**-20, torch.float16: 2**-11, BF16: 2**-8}


def close(a, b, rel=ROUNDED[torch.float32]):
    assert a.shape == b.shape
    assert (a.double() - b.double()).abs().max() <= rel * max(1, b.abs().max())


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


def table():
    return rfg.rope_table(torch.empty(16, 64))


def caches():
    return torch.zeros(2, 16, 2, 64, dtype=BF16), torch.zeros(2, 16, 2, 64, dtype=BF16)


def beside(batch, n):
    """Cosines and sines as hugging_face.rotary() has them."""
    angles = torch.randn(batch, n, 32)
    both = torch.cat((angles.cos(), angles.cos(), angles.sin(), angles.sin()), -1).to(BF16)
    return both[..., :64], both[..., 64:]


def caches_of_heads():
    return randn(2, 2, 7, 64, dtype=BF16), randn(2, 2, 7, 64, dtype=BF16)


CALLS = {
    "gemm": lambda: (randn(2, 3, 32), randn(16, 32), randn(16)),
    "gemm_scaled": lambda: (codes(2, 3, 300), codes(130, 300), torch.rand(6, 3), torch.rand(2, 3), "block", "block", BF16),
    "gemm_prepack": lambda: (randn(32, 64, dtype=BF16),),
    "linears": lambda: (randn(2, 3, 32), [randn(16, 32), randn(8, 32)], [randn(16), randn(8)]),
    "gated_linear": lambda: (randn(2, 3, 32), randn(16, 32), randn(16, 32), "gelu"),
    "act": lambda: (randn(2, 3, 32), "gelu_tanh"),
    "act_and_mul": lambda: (randn(2, 3, 32), "silu", "interleaved"),
    "rmsnorm": lambda: (randn(2, 3, 2, 32), randn(32), 1e-5, True),
    "layernorm": lambda: (randn(2, 3, 32), randn(32), randn(32), 1e-5),
    "add_rmsnorm": lambda: (randn(2, 3, 32), randn(2, 3, 32), randn(32)),
    "add_layernorm": lambda: (randn(2, 3, 32), randn(2, 3, 32), randn(32), randn(32)),
    "act_quant": lambda: (randn(2, 3, 200), torch.int8, "relu", "group"),
    "act_and_mul_quant": lambda: (randn(2, 3, 64), torch.float8_e4m3fn),
    "rmsnorm_quant": lambda: (randn(2, 3, 64), None, torch.float8_e4m3fn, 1e-6, False, "mx", "even"),
    "add_rmsnorm_quant": lambda: (randn(2, 3, 32), randn(2, 3, 32), randn(32), torch.int8),
    "embedding": lambda: (torch.tensor([[1, 5], [9, 0]]), randn(10, 32), 2.0),
    "dequantize": lambda: (torch.randint(-128, 128, (3, 200)).to(torch.int8), randn(3, 2), BF16, 1, 128),
    "quantize": lambda: (randn(2, 3, 200), torch.float8_e4m3fn, 1, 128),
    "quantize_given": lambda: (randn(2, 3, 200), torch.tensor([0.01]), torch.int8, 2, 100.0),
    "quantize_scale": lambda: (randn(2, 3, 200), torch.float8_e5m2),
    "mha": lambda: (randn(2, 4, 4, 64, dtype=BF16), randn(2, 6, 2, 64, dtype=BF16), randn(2, 6, 2, 64, dtype=BF16), 0.1, 0.0, True, [3, 0]),
    "mha_lse": lambda: tuple(randn(2, 4, 2, 64, dtype=BF16) for _ in range(3)),
    "mha_decode": lambda: (
        randn(2, 4, 64, dtype=BF16), randn(4, 16, 2, 64, dtype=BF16), randn(4, 16, 2, 64, dtype=BF16),
        torch.tensor([[2, 0], [1, 3]], dtype=torch.int32), torch.tensor([20, 3], dtype=torch.int32)),
    "rope": lambda: (randn(3, 4, 64, dtype=BF16), randn(3, 2, 64, dtype=BF16), table(), torch.tensor([1, 0, 9]), True),
    "kv_append": lambda: (*caches(), randn(3, 2, 64, dtype=BF16), randn(3, 2, 64, dtype=BF16), torch.tensor([5, -1, 17])),
    "rope_append": lambda: (
        *caches(), randn(3, 4, 64, dtype=BF16), randn(3, 2, 64, dtype=BF16), randn(3, 2, 64, dtype=BF16), table(), torch.tensor([1, 0, 9]),
        torch.tensor([5, -1, 17]), randn(64), randn(64)),
    "advance": lambda: (
        i32(4, 2, -1), torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), i32(7, -1, 6, -1, 5, -1).view(3, 2), 4, None,
        i32(1, 1, 1), i32(9, 8), i32(2)),
    "moe_route": lambda: (randn(2, 3, 8), 2, "sigmoid", randn(8), 2, 1, True),
    "moe_align": lambda: (i32(3, 0, 1, 2, 3, 1).view(3, 2), 4),
    "moe_sum": lambda: (randn(6, 32), i32(3, 0, 1, 2, 5, 4).view(3, 2), torch.rand(3, 2), randn(3, 32)),
    "moe": lambda: (
        randn(2, 3, 32, dtype=BF16), randn(4, 128, 32, dtype=BF16), randn(4, 32, 64, dtype=BF16), i32(*range(4), *range(4), 1, 0, 3, 2).view(2, 3, 2),
        torch.rand(2, 3, 2)),
    "lora": lambda: (randn(5, 24), randn(5, 16, dtype=BF16), randn(2, 8, 16, dtype=BF16), randn(2, 24, 8, dtype=BF16), i32(1, -1, 0, 1, 1)),
    "gemm_batched": lambda: (randn(5, 3, 16, dtype=BF16), randn(3, 24, 16, dtype=BF16)),
    "mla_decode": lambda: (randn(2, 3, 576, dtype=BF16), randn(2, 9, 576, dtype=BF16), 0.1),
    "mla_decode_lse": lambda: (randn(2, 2, 3, 128, dtype=BF16), randn(2, 9, 128, dtype=BF16), 0.1, None, None, 64),
    "merge_states": lambda: (randn(3, 4, 2, 40), randn(3, 4, 2), True),
    "argmax": lambda: (randn(2, 3, 50),),
    "sample": lambda: (randn(3, 50), torch.arange(3), torch.zeros(3, dtype=torch.int64), torch.tensor([0.5, 1.0, 0.0])),
    "rotate": lambda: (randn(2, 3, 4, 64, dtype=BF16), randn(2, 3, 2, 64, dtype=BF16), *beside(2, 3)),
    "rotate_append": lambda: (
        torch.zeros(2, 2, 16, 64, dtype=BF16), torch.zeros(2, 2, 16, 64, dtype=BF16), randn(2, 3, 4, 64, dtype=BF16),
        randn(2, 3, 2, 64, dtype=BF16), randn(2, 3, 2, 64, dtype=BF16), *beside(2, 3), model_ops.places(2, 16, 3, 5, "cpu"), randn(64), randn(64)),
    "mha_cached": lambda: (
        randn(2, 3, 4, 64, dtype=BF16), randn(2, 2, 16, 64, dtype=BF16), randn(2, 2, 16, 64, dtype=BF16), model_ops.places(2, 16, 3, 5, "cpu"), 0.1),
    "mha_heads": lambda: (*(randn(2, h, n, 64, dtype=BF16).transpose(1, 2) for h, n in ((4, 3),)), *caches_of_heads(), True, 0.1, 0.0, 4),
}  # fmt: skip
OF_MODELS = [f.__name__ for f, _, _ in model_ops.OPS]
NAMES = [f.__name__ for f, _, _ in custom.OPS] + OF_MODELS


def test_every_operator_has_a_custom_one():
    assert set(CALLS) == set(NAMES)
    ops = {op.__name__ for op in vars(_rfg).values() if isinstance(op, type(_rfg.gemm))}
    assert ops - {"rope_table", "moe_workspace_bytes"} <= set(NAMES)  # which are for the host
    assert all(getattr(rt, name) is getattr(torch.ops.rfg, name) for name in NAMES if name not in OF_MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_custom_operators_keep_pytorchs_rules(name):
    """Schema, meta function (shapes, strides and dtypes), autograd's registration, tracing with static and dynamic shapes."""
    tests = ["test_schema", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic"]
    args = tuple(a.requires_grad_() if isinstance(a, torch.Tensor) and name in autograd.BACKWARDS and a.is_floating_point() else a for a in CALLS[name]())
    torch.library.opcheck(getattr(torch.ops.rfg, name).default, args, test_utils=tests + ["test_autograd_registration"] * (name in autograd.BACKWARDS))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NAMES)
def test_compiles_without_a_break(name, backend):
    torch._dynamo.reset()
    op, args = getattr(torch.ops.rfg, name), CALLS[name]()
    compiled = torch.compile(lambda *a: op(*a), fullgraph=True, backend=backend)
    copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        got, want = compiled(*args), op(*copies)
    got, want = (x if isinstance(x, tuple) else () if x is None else (x,) for x in (got, want))
    written = [(a, b) for a, b in zip(args[:2], copies) if name.endswith("append")]
    for a, b in list(zip(got, want, strict=True)) + written:
        assert a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, BF16])
def test_values(dtype):
    rel = ROUNDED[dtype]
    x, w, b, r = randn(2, 3, 64, dtype=dtype), randn(48, 64, dtype=dtype), randn(48, dtype=dtype), randn(2, 3, 64, dtype=dtype)
    n, c = randn(64, dtype=dtype), randn(64, dtype=dtype)
    close(rt.gemm(x, w, b), F.linear(x.double(), w.double(), b.double()), rel)
    close(rt.gemm(x, w, None, torch.float32), F.linear(x.double(), w.double()))
    close(rt.gated_linear(x, w, w, "silu"), F.silu(F.linear(x, w)) * F.linear(x, w), 3 * rel)  # PyTorch rounds gate and up
    close(rt.rmsnorm(x, n, 1e-5), F.rms_norm(x.double(), (64,), n.double(), 1e-5), rel)
    close(rt.layernorm(x, n, c, 1e-5), F.layer_norm(x.double(), (64,), n.double(), c.double(), 1e-5), rel)
    y, s = rt.add_rmsnorm(x, r, n, 1e-5)
    assert torch.equal(s, x + r)
    close(y, F.rms_norm((x + r).double(), (64,), n.double(), 1e-5), rel)
    close(rt.act(x, "gelu"), F.gelu(x.double()), rel)
    close(rt.act_and_mul(x), F.silu(x[..., :32].double()) * x[..., 32:].double(), rel)


def test_attention_values():
    q, k, v = randn(2, 5, 4, 64, dtype=BF16), randn(2, 9, 2, 64, dtype=BF16), randn(2, 9, 2, 64, dtype=BF16)
    close(rt.mha(q, k, v, causal=True, window=3), rt.mha(q, k, v, causal=True, window=[2, 0]).float(), 0)
    with pytest.raises(rfg.Error, match=r"window: \[1, 2, 3\]: must be how many keys a query sees, or"):
        rt.mha(q, k, v, window=[1, 2, 3])
    out, lse = rt.mha_lse(q, k, v, causal=True)
    want, want_lse = reference.attention(*(t.float().numpy() for t in (q, k, v)), causal=True)
    close(out, torch.from_numpy(want), ROUNDED[BF16])
    close(lse, torch.from_numpy(want_lse))
    q, k, v, table, lens = CALLS["mha_decode"]()
    want, _ = reference.attention(q[:, None].float().numpy(), *(t[table.long()].reshape(2, 32, 2, 64).float().numpy() for t in (k, v)), kv_lens=lens)
    close(rt.mha_decode(q, k, v, table, lens), torch.from_numpy(want[:, 0]), ROUNDED[BF16])


def test_quantised_values():
    x = randn(4, 200)
    q, scale = rt.rmsnorm_quant(x, None, torch.float8_e4m3fn, kind="group")
    assert q.dtype == torch.float8_e4m3fn and scale.shape == (4, 2)
    back = q.float() * scale.repeat_interleave(128, 1)[:, :200]
    close(back, F.rms_norm(x, (200,), eps=1e-6), 2**-4)


# ---- gradients ---------------------------------------------------------------------------------------------------------

def turned(x, t):
    (a, b), (c, s) = x.float().chunk(2, -1), t.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


GRADS = {
    "gemm": (lambda: (randn(2, 3, 32, grad=True), randn(16, 32, grad=True), randn(16, grad=True)), F.linear),
    "gated_linear": (
        lambda: (randn(2, 3, 32, grad=True), randn(16, 32, grad=True), randn(16, 32, grad=True)),
        lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u)),
    "rmsnorm": (
        lambda: (randn(2, 3, 32, grad=True), randn(32, grad=True), 0.1, True),
        lambda x, w, eps, _: F.rms_norm(x, (32,), w + 1, eps)),
    "add_rmsnorm": (
        lambda: (randn(2, 3, 32, grad=True), randn(2, 3, 32, grad=True), randn(32, grad=True), 0.1, False),
        lambda x, r, w, eps, _: (F.rms_norm(x + r, (32,), w, eps), x + r)),
    "embedding": (
        lambda: (torch.tensor([[1, 5, 1], [9, 0, 3]]), randn(10, 32, grad=True), 3.0),
        lambda ids, t, s: F.embedding(ids, t) * s),
    "rope": (
        lambda: (randn(3, 4, 64, dtype=BF16, grad=True), randn(3, 2, 64, dtype=BF16, grad=True), table(), torch.tensor([1, 0, 9])),
        lambda q, k, t, p: tuple(turned(x, t[p][:, None]) for x in (q, k))),
    "rope offset": (
        lambda: (randn(3, 4, 128, grad=True), randn(3, 2, 128, grad=True), table(), torch.tensor([1, 0, 9]), False, False, False, False, [], 24),
        lambda q, k, t, p, *_: tuple(torch.cat((x[..., :24], turned(x[..., 24:88], t[p][:, None]), x[..., 88:]), -1) for x in (q, k))),
}  # fmt: skip
ACTS = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"), "relu": F.relu, "relu2": lambda a: F.relu(a) ** 2, "none": lambda a: a}
for _name, _f in ACTS.items():
    GRADS["act " + _name] = (lambda n=_name: (randn(3, 32, grad=True), n), lambda x, n: ACTS[n](x))
    GRADS["act_and_mul " + _name] = (lambda n=_name: (randn(3, 32, grad=True), n), lambda x, n: ACTS[n](x[:, :16]) * x[:, 16:])
GRADS["act_and_mul interleaved"] = (lambda: (randn(3, 32, grad=True), "silu", "interleaved"), lambda x, n, _: F.silu(x[:, ::2]) * x[:, 1::2])


def gradients(function, args):
    outputs = function(*args)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    generator = torch.Generator().manual_seed(5)
    weights = [torch.randn(o.shape, generator=generator) for o in outputs]
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    return torch.autograd.grad(sum((o * w).sum() for o, w in zip(outputs, weights)), inputs)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", GRADS)
def test_gradients(name, compiled):
    torch._dynamo.reset()
    make, reference_of = GRADS[name]
    args, op = make(), getattr(rt, name.split()[0])
    call = torch.compile(lambda *a: op(*a), fullgraph=True, backend="aot_eager") if compiled else op
    for got, want in zip(gradients(call, args), gradients(reference_of, args)):
        close(got, want, ROUNDED[got.dtype])


def test_backwards_are_tested():
    assert {name.split()[0] for name in GRADS} == set(autograd.BACKWARDS)


def test_embedding_of_ids_elsewhere_has_no_gradient():
    table = randn(4, 8, grad=True)
    rt.embedding(torch.tensor([1, 7, -2]), table).sum().backward()
    assert table.grad[1].eq(1).all() and table.grad[[0, 2, 3]].eq(0).all()


def test_no_backward():
    q = [randn(1, 2, 2, 64, dtype=BF16, grad=True) for _ in range(3)]
    with pytest.raises(rfg.Error, match="rfg::mha: has no backward"):
        rt.mha(*q).sum().backward()
    x = randn(2, 32, grad=True)
    with pytest.raises(rfg.Error, match="rfg::layernorm: has no backward"):
        rt.layernorm(x).sum().backward()
    k = randn(3, 2, 64, dtype=BF16, grad=True)
    with pytest.raises((rfg.Error, RuntimeError), match="requires a gradient|doesn't support|not support|leaf"):
        rt.kv_append(*caches(), k, k, torch.tensor([5, -1, 17]))
    with pytest.raises(rfg.Error, match="no backward of swigluoai"):
        rt.act_and_mul(x, "swigluoai").sum().backward()
    w = randn(32, 64, dtype=BF16)
    with pytest.raises(rfg.Error, match="no backward with a prepacked w"):
        rt.gemm(randn(2, 64, dtype=BF16, grad=True), rt.gemm_prepack(w)).sum().backward()
    assert rt.rmsnorm(x).requires_grad and not rt.rmsnorm(x.detach()).requires_grad


# ---- rfg's own functions on tensors ------------------------------------------------------------------------------------


def test_plain_functions_take_tensors_without_copies():
    big, w = randn(6, 100), randn(9, 40)
    room = torch.full((8, 30), 7.0)
    out = room[::2, 3:12]
    assert rfg.gemm(big[1:5, 20:60], w, out=out) is out
    close(out, F.linear(big[1:5, 20:60], w))
    assert (room[1::2] == 7).all() and (room[:, :3] == 7).all() and (room[:, 12:] == 7).all()
    x = big.numpy()
    assert (rfg.rmsnorm(x) == rfg.rmsnorm(big).numpy()).all()
    assert rfg.gemm(big, torch.randn(3, 100), dtype="f32").dtype == torch.float32
    q = rfg.new_quant(big, "token", "e4m3")
    assert q.q.dtype == torch.float8_e4m3fn
    rfg.rmsnorm(big, quant=q)
    assert torch.equal(q.q.view(torch.uint8), rt.rmsnorm_quant(big, None, torch.float8_e4m3fn)[0].view(torch.uint8))


class ByAttributes:
    """A tensor as PyTorch before 2.9 shows it, without the DLPack exchange interface."""

    def __init__(self, t):
        self.t = t

    def __getattr__(self, name):
        return getattr(self.t, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, BF16])
def test_older_pytorch(dtype):
    x, w = randn(3, 64, dtype=dtype)[:, :32], randn(16, 32, dtype=dtype)
    y = torch.empty(3, 16, dtype=dtype)
    _rfg.gemm(ByAttributes(y), ByAttributes(x), ByAttributes(w))
    assert torch.equal(y, rfg.gemm(x, w))
    problem = rfg.describe(_rfg.gemm, y, x, w)
    assert problem == rfg.describe(_rfg.gemm, *map(ByAttributes, (y, x, w))) and "ldx=64" in problem


def test_plain_functions_refuse_what_they_cannot():
    x, w = randn(3, 32), torch.nn.Parameter(randn(16, 32))
    with pytest.raises(rfg.Error, match="w requires a gradient, which this function can't give: call the one of rfg.torch"):
        rfg.gemm(x, w)
    with torch.no_grad():
        close(rfg.gemm(x, w), F.linear(x, w))
    with torch.inference_mode():
        close(rfg.gemm(x, w), F.linear(x, w))
    with pytest.raises(rfg.Error, match="w has a dtype that rfg has no name for"):
        rfg.gemm(x, w.detach().double(), out=x)
    with pytest.raises(rfg.Error, match="must be 1"):
        rfg.gemm(x, randn(32, 16).t())
    with pytest.raises(rfg.Error, match="no tensor with memory of its own|on a device that rfg doesn't know"):
        rfg.rmsnorm(torch.empty(3, 32, device="meta"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode, pytest.raises(rfg.Error, match="data is NULL|no tensor with memory of its own"):
        rfg.rmsnorm(mode.from_tensor(x), out=mode.from_tensor(x))
    with pytest.raises(rfg.Error, match="y is on nvidia:0, x on cpu"):
        _rfg.rmsnorm(OnGpu(x), x, None)
    with pytest.raises(rfg.Error, match="no tensor with memory of its own|has a dtype"):
        rfg.rmsnorm(x.to_sparse(), out=x)


class OnGpu(ByAttributes):
    device = torch.device("cuda:0")


def test_views_of_numpy_share_memory():
    a = np.zeros((2, 8), np.float32)
    rfg.rmsnorm(torch.ones(2, 8), out=torch.from_numpy(a))
    assert np.allclose(a, 1)


def rotated(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return x.float() * cos[:, :, None].float() + torch.cat((-b, a), -1) * sin[:, :, None].float()


@pytest.mark.parametrize("how", ["beside", "apart", "one for all"])
def test_rotate(how):
    q, k, (cos, sin) = randn(2, 3, 4, 64, dtype=BF16), randn(2, 3, 2, 64, dtype=BF16), beside(2, 3)
    if how == "apart":
        cos, sin = cos.clone(), sin.clone()
    if how == "one for all":
        cos, sin = cos[:1], sin[:1]
    for got, x in zip(torch.ops.rfg.rotate(q, k, cos, sin), (q, k)):
        close(got.float(), rotated(x, cos, sin), ROUNDED[BF16])


@pytest.mark.parametrize("batch,n", [(1, 24), (2, 16)])
def test_rotate_append_and_cached_attention(batch, n):
    """Sequences of 5 keys in caches of n get 3 more; queries of one and of many rows."""
    q, k, v, (cos, sin) = randn(batch, 3, 4, 64, dtype=BF16), *(randn(batch, 3, 2, 64, dtype=BF16) for _ in "kv"), beside(batch, 3)
    caches = [randn(batch, 2, n, 64, dtype=BF16) for _ in "kv"]
    before = [c.clone() for c in caches]
    assert model_ops.can_append(caches[0]) and not model_ops.can_append(torch.zeros(2, 2, 24, 64)) and not model_ops.can_append(caches[0].transpose(1, 2))
    given = model_ops.places(batch, n, 3, 5, "cpu")
    close(torch.ops.rfg.rotate_append(*caches, q, k, v, cos, sin, given).float(), rotated(q, cos, sin), ROUNDED[BF16])
    close(caches[0][:, :, 5:8].float(), rotated(k, cos, sin).transpose(1, 2), ROUNDED[BF16])
    assert torch.equal(caches[1][:, :, 5:8], v.transpose(1, 2))
    for c, old in zip(caches, before):
        assert torch.equal(c[:, :, :5], old[:, :, :5]) and torch.equal(c[:, :, 8:], old[:, :, 8:])
    for rows in (3, 12):
        q = randn(batch, rows, 4, 64, dtype=BF16)
        wide = [c.repeat_interleave(2, 1).float() for c in caches]
        for window in (0, 4):
            given = model_ops.places(batch, n, rows, n - 1 - rows, "cpu", window)
            mask = model_ops.mask_of(given, batch, rows, n)
            want = F.scaled_dot_product_attention(q.transpose(1, 2).float(), *wide, attn_mask=mask, scale=0.1).transpose(1, 2)
            close(torch.ops.rfg.mha_cached(q, *caches, given, 0.1, 0.0, window).float(), want, ROUNDED[BF16])


def test_gated_in_turn():
    """Where rows of gate and up lie in turn the product activates, or for many rows act_and_mul reads it so."""
    whole = randn(24, 2, 32)
    gate, up = whole.unbind(1)
    assert custom.in_turn(gate, up) is not None and custom.in_turn(up, gate) is None
    assert custom.in_turn(gate, up.clone()) is None and custom.in_turn(gate.contiguous(), up.contiguous()) is None
    assert custom.in_turn(whole, whole) is None  # no matrices
    for rows in (3, custom.EPILOGUE_ROWS, custom.EPILOGUE_ROWS + 1):
        x = randn(rows, 32)
        close(rt.gated_linear(x, gate, up, "gelu"), F.gelu(F.linear(x, gate)) * F.linear(x, up))
        close(rt.gated_linear(x, gate, up), rt.gated_linear(x, gate.contiguous(), up.contiguous()))


def test_joined_linears():
    """One GEMM where weights adjoin: the same values."""
    x, whole, bias = randn(3, 32), randn(24, 32), randn(24)
    parts, biases = whole.split([16, 8]), bias.split([16, 8])
    assert custom.adjoining(parts) is not None and custom.adjoining(parts[::-1]) is None and custom.adjoining([p.clone() for p in parts]) is None
    for w, b in ((parts, biases), ([p.clone() for p in parts], biases), (parts, [b.clone() for b in biases])):
        close(rt.linears(x, w, b), F.linear(x, whole, bias))
    close(rt.linears(x, parts), F.linear(x, whole))
