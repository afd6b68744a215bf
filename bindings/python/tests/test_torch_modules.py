# SPDX-License-Identifier: MIT
"""enable(), disable() and compare() on a model of torch.nn's modules and such as transformers has."""

import copy

import models
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rfg
import rfg.torch as rt
from rfg.torch import comparing
from rfg.torch.comparing import Comparison, Times, gain

BF16 = torch.bfloat16


class LlamaRMSNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))
        self.variance_epsilon = 1e-5

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + self.variance_epsilon)).to(x.dtype)


class MLP(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(n, 2 * n, bias=False), nn.Linear(n, 2 * n, bias=False)
        self.down_proj, self.act_fn = nn.Linear(2 * n, n, bias=False), nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm1, self.norm2 = LlamaRMSNorm(n), nn.RMSNorm(n, eps=1e-5)
        self.qkv, self.o, self.mlp, self.dropout = nn.Linear(n, 3 * n), nn.Linear(n, n), MLP(n), nn.Dropout(0.0)

    def forward(self, x):
        b, s, n = x.shape
        q, k, v = (t.view(b, s, 2, n // 2).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, n))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Model(nn.Module):
    def __init__(self, n=64, vocabulary=100):
        super().__init__()
        self.embed, self.layers = nn.Embedding(vocabulary, n), nn.ModuleList(Layer(n) for _ in range(2))
        self.norm, self.gelu, self.head = nn.LayerNorm(n), nn.GELU(), nn.Linear(n, vocabulary)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.gelu(self.norm(x)))


@pytest.fixture(params=[torch.float32, BF16])
def model(request):
    torch.manual_seed(1)
    return Model().to(request.param).eval()


IDS = torch.arange(10).view(2, 5)


# Both sides round some ten results a layer, of two layers, each by up to half an ulp (2^-8 of bf16), in other places; they add up at
# random: sqrt(20) = 4.5 times as much. In fp32 only sums of up to a hundred terms differ.
NEAR = {torch.float32: 2**-20, BF16: 4.5 * 2**-8}


def near(a, b):
    tolerance = NEAR[a.dtype]
    return (a.float() - b.float()).abs().max() <= tolerance * max(1, b.abs().max())


def used(model, ids=IDS):
    return models.used(lambda: model(ids))


def test_enable_and_disable(model):
    with torch.no_grad():
        want = model(IDS)
    report = rt.enable(model)
    ops = {name: op for name, _, op in report.replaced}
    assert ops["layers.0.norm1"] == ops["layers.1.norm2"] == "rmsnorm"
    assert ops["layers.0.mlp"] == "gated" and ops["embed"] == "embedding" and ops["norm"] == "layernorm" and ops["gelu"] == "act"
    assert len(ops) == 4 + 2 * 9
    assert [(name, why) for name, _, why in report.kept] == [("layers.%d.dropout" % i, "rfg has no operator for it") for i in range(2)]
    assert "replaced: 22 modules" in str(report) and "2 x LlamaRMSNorm -> rmsnorm" in str(report)
    calls = used(model)
    assert {n: calls.count(n) for n in set(calls)} == {"gemm": 7, "gated_linear": 2, "rmsnorm": 4, "layernorm": 1, "embedding": 1, "act": 1}
    with torch.no_grad():
        assert near(model(IDS), want)
    assert rt.enable(model).replaced == []
    assert rt.disable(model) == 22 and rt.disable(model) == 0
    assert used(model) == []
    with torch.no_grad():
        assert torch.equal(model(IDS), want)


def test_chosen_ops(model):
    report = rt.enable(model, ops=["rmsnorm"])
    assert {op for _, _, op in report.replaced} == {"rmsnorm"}
    assert ("head", "Linear", "not asked for") in report.kept
    with pytest.raises(rfg.Error, match="ops: 'conv'"):
        rt.enable(model, ops=["conv"])


def test_many_rows_stay_pytorchs(model):
    rt.enable(model, most_rows=9)
    assert "gemm" not in used(model) and "gated_linear" not in used(model)
    assert used(model, IDS[:, :4]).count("gated_linear") == 2


def test_what_is_left_alone():
    m = nn.ModuleDict({
        "f64": nn.Linear(4, 4).double(), "conv": nn.Conv1d(2, 2, 1), "planes": nn.LayerNorm((3, 4)), "meta": nn.Linear(4, 4, device="meta"),
        "sparse": nn.Embedding(4, 4, sparse=True), "in_place": nn.ReLU(inplace=True), "patched": nn.Linear(4, 4),
    })  # fmt: skip
    m["patched"].forward = lambda x: x
    report = rt.enable(m)
    assert report.replaced == []
    why = {name: reason for name, _, reason in report.kept}
    assert why["f64"] == "dtype torch.float64" and why["planes"] == "it normalises over 2 dimensions" and why["meta"] == "on device meta"
    assert "sparse" in why["sparse"] and why["in_place"] == "it works in place" and "replaced by others" in why["patched"]
    assert rt.disable(m) == 0 and m["patched"](3) == 3


class PlusRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight + 1, 1e-5)


class GemmaRMSNorm(LlamaRMSNorm):
    """Not what its name says."""


@pytest.mark.parametrize("kind,plus", [(PlusRMSNorm, True), (GemmaRMSNorm, False)])
def test_weights_of_norms_are_found(kind, plus):
    m = kind(32)
    x = torch.randn(3, 32)
    with torch.no_grad():
        want = m(x)
        assert len(rt.enable(m).replaced) == 1 and vars(m)["_rfg"].plus == plus
        assert near(m(x), want) and torch.equal(m(x=x), want)  # a call in another form is the module's own


class ClampedMLP(MLP):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x).clamp(max=7)) * self.up_proj(x).clamp(-7, 7))


class ScaledMLP(MLP):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * 1.02


class DroppingMLP(MLP):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1, self.training)


class ShiftingMLP(MLP):
    """Of a token and the one before it."""

    before = 0.0

    def forward(self, x):
        x, self.before = x + self.before, x[..., -1:, :]
        return super().forward(x)


class CentredRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        return super().forward(x - x.mean(-1, keepdim=True))


class FloorRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        h = x.float()
        return self.weight * (h / h.square().mean(-1, keepdim=True).sqrt().clamp(min=self.variance_epsilon)).to(x.dtype)


class GatedRMSNorm(LlamaRMSNorm):
    def forward(self, x, gate=None):
        return super().forward(x if gate is None else x * F.silu(gate))


class SiLUActivation(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ZeroMLP(MLP):
    def __init__(self, n):
        super().__init__(n)
        nn.init.zeros_(self.down_proj.weight)


@pytest.mark.parametrize("kind,why", [
    (ClampedMLP, "rfg's output would differ by"), (ScaledMLP, "rfg's output would differ by"), (DroppingMLP, "rfg's output would differ by"),
    (ShiftingMLP, "rfg's output would differ"), (CentredRMSNorm, "rfg's output would differ by"), (FloorRMSNorm, "rfg's output would differ by"),
    (GatedRMSNorm, "its forward takes x, gate"), (SiLUActivation, "rfg's output would differ by"), (ZeroMLP, "what it computes can't be seen"),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_what_computes_something_else_is_kept(kind, why, dtype):
    torch.manual_seed(2)
    m = (kind(64) if kind is not SiLUActivation else kind()).to(dtype).eval()
    state = torch.random.get_rng_state()
    report = rt.enable(m)
    assert [w for name, _, w in report.kept if name == ""][0].startswith(why) and not any(name == "" for name, _, _ in report.replaced)
    assert "forward" not in vars(m) and not m.training and torch.equal(torch.random.get_rng_state(), state)


def test_an_exception_leaves_all_as_it_was(model, monkeypatch):
    with torch.no_grad():
        want = model(IDS)
    rt.enable(model, ops=["rmsnorm"])
    join, calls = rt.modules._join, []

    def failing(m, names):
        calls.append(m)
        if len(calls) == 2:
            raise MemoryError("no more")
        return join(m, names)

    monkeypatch.setattr(rt.modules, "_join", failing)
    with pytest.raises(MemoryError, match="no more"):
        rt.enable(model)
    assert {vars(m)["_rfg"].op for m in model.modules() if "_rfg" in vars(m)} == {"rmsnorm"}
    assert all(p.untyped_storage().nbytes() == p.numel() * p.element_size() for p in model.parameters())
    rt.disable(model)
    assert not any("forward" in vars(m) or "_rfg" in vars(m) or "_apply" in vars(m) for m in model.modules())
    with torch.no_grad():
        assert torch.equal(model(IDS), want)


def test_autocast_is_pytorchs(model):
    rt.enable(model)
    with torch.autocast("cpu", dtype=BF16):
        assert set(used(model)) <= {"embedding"}


def test_trains_as_before(model):
    other = copy.deepcopy(model)
    model(IDS).float().square().mean().backward()
    rt.enable(other)
    other(IDS).float().square().mean().backward()
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters()):
        assert near(b.grad, a.grad) or (b.grad - a.grad).abs().max() <= 0.05 * a.grad.abs().max(), name


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiles_without_a_break(model, backend):
    torch._dynamo.reset()
    rt.enable(model)
    with torch.no_grad():
        want = model(IDS)
        assert torch.equal(torch.compile(model, fullgraph=True, backend=backend)(IDS), want)


def test_times_and_their_spread():
    """No clock here: what is said of samples."""
    base = [100e-6, 101e-6, 102e-6, 103e-6, 104e-6, 105e-6, 106e-6, 107e-6, 900e-6]
    slow = Times.of(base)
    assert slow == (104e-6, 102e-6, 106e-6, 9) and str(slow) == "104.0 us +-2 %"  # the outlier is in no figure
    assert gain(slow, Times.of([t / 2 for t in base])) == pytest.approx(2) and gain(slow, Times.of([t * 2 for t in base])) == pytest.approx(0.5)
    noise = Times.of([1e-6, 2e-6, 5e-6, 103e-6, 104e-6, 300e-6, 429e-6])  # a middle half from 5 (or so) to 300 us
    assert gain(slow, noise) is None and gain(noise, slow) is None
    assert gain(Times.of([429e-6]), Times.of([1e-6])) is None and gain(Times.of([4e-6] * 2), Times.of([1e-6] * 2)) is None  # too few
    assert gain(Times.of([4e-6, 5e-6, 6e-6]), Times.of([1e-6, 2e-6, 4e-6])) is None  # all of few runs count
    assert gain(Times.of([4e-6, 5e-6, 6e-6]), Times.of([1e-6, 2e-6, 3.9e-6])) == pytest.approx(2.5)
    text = str(Comparison(slow, noise, {"linear": (slow, Times.of([t / 2 for t in base]))}, 0.0, 1.0, 1.0))
    assert "2.00x" in text.splitlines()[1] and "no difference" in text.splitlines()[2] and "104.0 us +-2 %" in text


def test_both_sides_are_measured_in_turn(model, monkeypatch):
    sides = []
    clock = comparing._clock
    monkeypatch.setattr(comparing, "_clock", lambda call, inputs: sides.append((bool(used(model)), len(inputs))) or clock(call, inputs))
    rt.compare(model, (IDS,), runs=5, show=False)
    assert sides == [(True, 1), (False, 1), (False, 1), (True, 1), (True, 1), (False, 1), (False, 2), (True, 2)]


def test_compare(model):
    c = rt.compare(model, (IDS,), runs=3)
    assert set(c.by_op) == {"linear", "rmsnorm", "layernorm", "embedding", "act", "gated"}
    assert c.before.median > 0 and c.after.median > 0 and c.after.runs == 3 and 0 <= c.difference <= NEAR[model.embed.weight.dtype] * max(1, c.largest) and c.same_argmax >= 0.9  # a near tie
    assert "forward" in str(c) and used(model) == []
    rt.enable(model, ops=["rmsnorm"])
    assert "rmsnorm" not in rt.compare(model, {"ids": IDS}, ops=["linear"], runs=1).by_op
    assert set(used(model)) == {"rmsnorm"}
