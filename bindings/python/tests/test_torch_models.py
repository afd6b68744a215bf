# SPDX-License-Identifier: MIT
"""enable() and RFG_TORCH on models of Hugging Face transformers: small ones with random weights, on cpu. What rfg computes is held
against the same weights in fp32, and may not be further from that than the model is without rfg."""

import copy
import functools
import io
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import rfg
import rfg.torch as rt
from rfg import _switch
from rfg.torch import custom, hugging_face, model_ops, modules

transformers = pytest.importorskip("transformers", reason="no transformers (pip install transformers)")
from models import build, used  # noqa: E402
from transformers import DynamicCache, StaticCache  # noqa: E402

BF16 = torch.bfloat16
FAMILIES = ["Llama", "Qwen2", "Qwen3", "Mistral", "Gemma3", "Phi3", "Gemma4", "Qwen3_5"]
torch.manual_seed(6)
IDS = torch.randint(2, 97, (2, 20))
# How far off the model's own logits may be, of the largest: both round some ten results a layer to bf16, of two layers, in other
# places, each by up to 2^-8 (half an ulp), and attention makes them grow. Found: 7.7 of these, of all families and caches.
NEAR = 10 * 2**-8


def logits(model, cache=None, ids=IDS, first=14, step=None):
    """Of all tokens: at once, or `first` and then one by one with a cache (step: who computes these)."""
    with torch.no_grad():
        if cache is None:
            return model(ids).logits.float()
        out = [model(ids[:, :first], past_key_values=cache).logits]
        for i in range(first, ids.shape[1]):
            out.append((model if step is None else step)(ids[:, i : i + 1].contiguous(), past_key_values=cache).logits)
    return torch.cat(out, 1).float()


def error(a, b):
    return float((a - b).square().mean().sqrt())


def caches(model, kind):
    if kind is None:
        return None
    return DynamicCache(config=model.config) if kind == "dynamic" else StaticCache(config=model.config, max_cache_len=kind)


@pytest.mark.parametrize("family,attention", [(f, "sdpa") for f in FAMILIES] + [("Llama", "eager"), ("Gemma3", "eager")])
def test_logits(family, attention):
    model = build(family, attn_implementation=attention)
    exact = logits(build(family, torch.float32))
    for kind in (None, "dynamic", 32, 40) if attention == "sdpa" else (32,):
        before = logits(model, caches(model, kind))
        rt.enable(model)
        after = logits(model, caches(model, kind))
        rt.disable(model)
        assert error(after, exact) <= 1.05 * error(before, exact), kind  # found: at most 0.99
        assert (after - before).abs().max() <= NEAR * model.config.num_hidden_layers / 2 * before.abs().max()
        assert torch.equal(logits(model, caches(model, kind)), before)


@pytest.mark.parametrize("family", ["Llama", "Qwen3", "Gemma3"])
def test_greedy_tokens(family):
    """Of a model whose choices aren't near ties: each token has a next one, which its embedding says loudly."""
    model = build(family, tie_word_embeddings=False)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(64)
        model.lm_head.weight[(torch.arange(97) * 31 + 5) % 97] = model.model.embed_tokens.weight / 64
    how = dict(max_new_tokens=10, do_sample=False)
    static = dict(how, cache_implementation="static", disable_compile=True)
    ids = IDS[:, :10]
    want = model.generate(ids, **how), model.generate(ids, **static)
    rt.enable(model)
    assert torch.equal(model.generate(ids, **how), want[0]) and torch.equal(model.generate(ids, **static), want[1])


def test_what_is_replaced():
    model = build("Llama")
    report = rt.enable(model)
    ops = {}
    for _, kind, op in report.replaced:
        ops[kind, op] = ops.get((kind, op), 0) + 1
    assert ops == {
        ("Embedding", "embedding"): 1, ("LlamaDecoderLayer", "residual"): 2, ("LlamaAttention", "rope"): 2, ("Linear", "linear"): 15,
        ("LlamaMLP", "gated"): 2, ("SiLUActivation", "act"): 2, ("LlamaRMSNorm", "rmsnorm"): 5, ("LlamaRotaryEmbedding", "rope"): 1,
        ("LlamaForCausalLM", "attention"): 1,
    }  # fmt: skip
    assert report.kept == [] and "2 x LlamaDecoderLayer -> residual (model.layers.0, ...)" in str(report)
    assert rt.enable(model).replaced == []
    calls = used(lambda: model(IDS[:, :4]))
    assert {n: calls.count(n) for n in set(calls)} == {
        "embedding": 1, "rmsnorm": 1, "linears": 2, "rotate": 2, "mha_heads": 2, "gemm": 5, "add_rmsnorm": 4, "gated_linear": 2
    }  # fmt: skip
    rt.disable(model)
    assert used(lambda: model(IDS[:, :4])) == [] and model.config._attn_implementation == "sdpa"
    assert not any("forward" in vars(m) or modules.SETTINGS in vars(m) or "_apply" in vars(m) for m in model.modules())


@pytest.mark.parametrize("family", ["Qwen3", "Phi3"])
def test_static_caches_are_written_by_rfg(family):
    model = build(family)
    rt.enable(model)
    cache = caches(model, 32)
    logits(model, cache, IDS[:, :9])
    calls = used(lambda: model(IDS[:, 9:10].contiguous(), past_key_values=cache))
    layers = {"linears": 2, "gemm": 5, "gated_linear": 2} if family == "Qwen3" else {"gemm": 9, "act": 2}  # Phi-3's are joined
    assert {n: calls.count(n) for n in set(calls)} == {
        "embedding": 1, "rmsnorm": 1, "rotate_append": 2, "mha_cached": 2, "add_rmsnorm": 4, **layers
    }  # fmt: skip
    assert int(cache.get_seq_length()) == 10
    other = caches(model, 32)
    rt.disable(model)
    logits(model, other, IDS[:, :9])
    with torch.no_grad():
        model(IDS[:, 9:10], past_key_values=other)
    for a, b in zip(cache.layers, other.layers):
        for x, y in ((a.keys, b.keys), (a.values, b.values)):  # up to the second layer's. Found: 4.4
            assert (x - y).abs().max() <= 6 * 2**-8 * y.abs().max()
        assert not a.keys[:, :, 10:].any()


def test_a_full_cache_isnt_written_beyond():
    given = model_ops.places(2, 8, 3, torch.tensor(7), "cpu")
    assert model_ops.kv_lens(given, 2).tolist() == [10, 10]
    assert given.view(-1)[2:].view(torch.int64).tolist() == [7, -1, -1, 15, -1, -1]


def test_padding_is_the_models():
    """A mask with holes: as without rfg."""
    model = build("Llama")
    mask = torch.ones(2, 10, dtype=torch.int64)
    mask[1, :4] = 0
    call = lambda: model(IDS[:, :10], attention_mask=mask)  # noqa: E731
    with torch.no_grad():
        want = call().logits
        rt.enable(model)
        got = call().logits
    assert (got - want)[mask.bool()].abs().max() <= NEAR * want.abs().max()
    calls = used(call)
    assert "mha_heads" not in calls and "mha_cached" not in calls and "rotate" in calls
    mask[:] = 1
    assert "mha_heads" in used(call)


def test_masks_of_the_static_form():
    """What goes in place of a mask, as PyTorch's attention would have it, for calls that rfg doesn't take."""
    at, key = torch.arange(5, 8)[:, None], torch.arange(12)
    for window in (0, 4):
        given = model_ops.places(2, 12, 3, 5, "cpu", window)
        seen = (key <= at) & (key > at - (window or 99))
        assert model_ops.window_of(given) == window and torch.equal(model_ops.mask_of(given, 2, 3, 12), seen.expand(2, 1, 3, 12))
        whole = model_ops.mask_of(model_ops.causal(window, "cpu"), 2, 3, 8)
        assert torch.equal(whole, seen[:, :8].expand(2, 1, 3, 8))
    given = model_ops.places(2, 12, 3, 5, "cpu")
    model = build("Llama")
    layer = model.model.layers[0].self_attn
    q, k, v = (torch.randn(2, h, n, 64, dtype=BF16) for h, n in ((4, 3), (2, 12), (2, 12)))
    with torch.no_grad():
        want = hugging_face._sdpa(layer, q, k, v, given, scaling=0.125)[0]
        for function in (hugging_face._sdpa, hugging_face._eager):  # position_bias is none of rfg's
            got = function(layer, q, k, v, given, scaling=0.125, head_mask=torch.ones(4))[0]
            assert (got - want).abs().max() <= 0.03


def changed(how):
    """A model of a known family whose second layer, or its attention, is of a class that does more."""
    model = build("Llama")
    layer = model.model.layers[1]
    kind = type(layer) if how == "layer" else type(layer.self_attn)

    class Changed(kind):
        @functools.wraps(kind.forward)
        def forward(self, hidden_states, **kwargs):
            if how == "mask":  # sees all tokens
                kwargs["attention_mask"] = torch.zeros(1, 1, 1, 1, dtype=hidden_states.dtype)
            if how == "drops":
                kwargs["attention_mask"] = kwargs["attention_mask"] * 0
            out = super().forward(hidden_states, **kwargs)
            return out * 1.25 if how == "layer" else (out[0] * 1.25, out[1]) if how == "scale" else out

    Changed.__name__, Changed.__module__ = kind.__name__, kind.__module__
    (layer if how == "layer" else layer.self_attn).__class__ = Changed
    return model


@pytest.mark.parametrize("how,op", [("scale", "rope"), ("layer", "residual"), ("mask", "rope"), ("drops", "attention")])
def test_what_computes_something_else_is_kept(how, op):
    """Of a class with a known name: a forward that does more is compared, and kept."""
    model = changed(how)
    if how == "drops":
        model.set_attn_implementation("eager")
    want = logits(model)
    report = rt.enable(model, ["attention"] if how == "drops" else None)
    at = "model" if op == "attention" else "model.layers.1" if op == "residual" else "model.layers.1.self_attn"
    assert any("differ" in why or "Error" in why for name, _, why in report.kept if name == at)
    assert (logits(model) - want).abs().max() <= NEAR * want.abs().max()
    rt.disable(model)
    assert torch.equal(logits(model), want)


def test_attention_that_rfg_declines_has_its_mask():
    """Weights are asked for: the model's own attention, with the mask that it would have had."""
    for attention in ("eager", "sdpa"):
        model = build("Llama", attn_implementation=attention)
        call = lambda: model(IDS, output_attentions=attention == "eager", position_bias=None)  # noqa: E731
        with torch.no_grad():
            want = call()
            rt.enable(model, ["attention"])
            got = call()
        assert (got.logits - want.logits).abs().max() <= NEAR * want.logits.abs().max()
        if attention == "eager":
            assert torch.equal(got.logits, want.logits) and torch.equal(got.attentions[1], want.attentions[1])


def test_an_exception_leaves_all_as_it_was(monkeypatch):
    model = build("Llama")
    want = logits(model)

    def failing(*_):
        raise MemoryError("no more")

    monkeypatch.setattr(hugging_face, "_wrong", failing)
    monkeypatch.setattr(hugging_face.proof, "differs", lambda *_: "so much" if "rfg" in model.config._attn_implementation else "")
    with pytest.raises(MemoryError, match="no more"):
        rt.enable(model)
    assert not any("forward" in vars(m) or modules.SETTINGS in vars(m) for m in model.modules())
    assert model.config._attn_implementation == "sdpa" and torch.equal(logits(model), want)
    assert all(p.untyped_storage().nbytes() == p.numel() * 2 for p in model.parameters())


@pytest.mark.parametrize("family", ["Llama", "Qwen3", "Gemma3"])
def test_compiles_without_a_break(family):
    torch._dynamo.reset()
    model = build(family)
    rt.enable(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    want = logits(model, caches(model, 32), IDS[:, :16])
    got = logits(model, caches(model, 32), IDS[:, :16], step=compiled)
    assert torch.equal(got, want)
    torch._dynamo.reset()
    assert torch.equal(logits(compiled), logits(model))


def test_float32_has_linears_and_norms_alone():
    model = build("Llama", torch.float32)
    want = logits(model)
    report = rt.enable(model)
    why = {kind: reason for _, kind, reason in report.kept}
    assert why["LlamaForCausalLM"] == "attention: attention in torch.float32: rfg has bfloat16 and float16"
    assert why["LlamaAttention"].startswith("attention in torch.float32") and why["LlamaRotaryEmbedding"].startswith("no attention module")
    assert (logits(model) - want).abs().max() <= 1e-4
    assert set(used(lambda: model(IDS[:, :4]))) == {"embedding", "rmsnorm", "gemm", "gated_linear", "add_rmsnorm"}


def test_reasons():
    report = rt.enable(build("Llama", head_dim=36))
    assert "attention: heads of 36 elements: rfg's attention has multiples of 8 up to 512" in str(report)
    model = build("Llama")
    model.config._attn_implementation_internal = "flex_attention"
    assert "attention: its attention is flex_attention: only sdpa and eager are replaced" in str(rt.enable(model))
    assert model.config._attn_implementation == "flex_attention"
    model = build("Llama")
    model.model.layers[0].self_attn.k_proj.register_forward_hook(lambda *_: None)
    model.model.layers[1].self_attn.v_proj = nn.Sequential(model.model.layers[1].self_attn.v_proj)
    report = rt.enable(model, ops=["rope"])
    why = {name: reason for name, _, reason in report.kept}
    assert why["model.layers.0.self_attn"] == "a projection has hooks, or its forward was replaced by others"
    assert why["model.layers.1.self_attn"] == "a projection is a Sequential"
    assert why["model"] == "attention: not asked for"
    with pytest.raises(rfg.Error, match="model: is a list: must be a torch.nn.Module"):
        rt.enable([])


def test_training_is_the_models():
    model = build("Llama", torch.float32).train()
    other = copy.deepcopy(model)
    rt.enable(other)
    for m in (model, other):
        m(IDS[:, :8], labels=IDS[:, :8]).loss.backward()
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters()):
        assert (a.grad - b.grad).abs().max() <= 1e-3 * max(1, a.grad.abs().max()), name


def test_hooks_of_layers_count():
    """A hook that changes a layer's output: what the layer computed ahead, of the output before, is not taken."""
    model = build("Llama")
    model.model.layers[0].register_forward_hook(lambda m, args, output: output.flip(-1))
    with torch.no_grad():
        want = model(IDS[:, :6]).logits
        rt.enable(model)
        got = model(IDS[:, :6]).logits
    assert (got - want).abs().max() <= NEAR * want.abs().max()


def test_copies_are_models_of_their_own():
    model = build("Gemma3")
    rt.enable(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    want = logits(rt_enabled("Gemma3"), caches(other, 32))  # the copy's weights are apart: it rounds in other places
    assert (logits(other, caches(other, 32)) - want).abs().max() <= NEAR * want.abs().max()
    file = io.BytesIO()
    torch.save(other, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(logits(again), logits(other)) and "mha_heads" in used(lambda: again(IDS[:, :4]))


def rt_enabled(family):
    model = build(family)
    rt.enable(model)
    return model


def test_weights_are_joined():
    model = build("Llama")
    layer = model.model.layers[0]
    groups = [[layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj], [layer.mlp.gate_proj, layer.mlp.up_proj]]
    ways = (lambda *w: custom.adjoining(w)), custom.in_turn
    joined = lambda: [way(*[p.weight for p in g]) is not None for way, g in zip(ways, groups)]  # noqa: E731
    state = {name: t.clone() for name, t in model.state_dict().items()}
    want = logits(rt_enabled("Llama"))
    rt.enable(model)
    assert joined() == [True, True]
    model.to(torch.float32).to(BF16)
    assert joined() == [True, True]
    assert all(torch.equal(t, state[name]) and t.is_contiguous() for name, t in model.state_dict().items())
    model.load_state_dict(state)
    assert joined() == [True, True] and torch.equal(logits(model), want)
    layer.self_attn.k_proj.weight.data = layer.self_attn.k_proj.weight.clone()  # by others: right all the same
    assert joined() == [False, True] and torch.equal(logits(model), want)
    rt.disable(model)
    assert joined() == [False, False]
    assert all(p.untyped_storage().nbytes() == p.numel() * 2 for g in groups for p in [q.weight for q in g])
    rt.enable(model, join=False)
    assert joined() == [False, False]
    apart = logits(model)  # gate and up are rounded before they are multiplied
    assert (apart - want).abs().max() <= 4 * 2**-8 * want.abs().max()  # found: 3.2


def test_compare(capsys):
    model = build("Llama")
    cache = caches(model, 32)
    logits(model, cache, IDS[:, :9])
    c = rt.compare(model, {"input_ids": IDS[:, 9:10].contiguous(), "past_key_values": cache}, runs=2)
    assert set(c.by_op) == {"embedding", "rope", "rmsnorm", "attention", "gated", "linear", "layer"}
    assert c.difference <= NEAR * c.largest and c.same_argmax == 1
    printed = capsys.readouterr().out
    assert "attention" in printed and "largest difference" in printed
    assert int(cache.get_seq_length()) == 9 and model.config._attn_implementation == "sdpa" and used(lambda: model(IDS)) == []
    rt.enable(model, ops=["attention"])
    rt.compare(model, IDS, runs=1, show=False)
    assert capsys.readouterr().out == "" and set(used(lambda: model(IDS))) == {"mha_heads"}
    with pytest.raises(rfg.Error, match="runs: 0"):
        rt.compare(model, IDS, runs=0)


SCRIPT = """
import os, site, sys
site.addsitedir(os.path.dirname(os.environ["PACKAGE"]))  # as pip's folder: rfg-switch.pth
import transformers
sys.path.insert(0, os.environ["TESTS"])
from models import build
import torch
model = build("Llama")
print(hasattr(model.lm_head, "_rfg"))
model.save_pretrained(os.environ["FOLDER"])
model = transformers.AutoModelForCausalLM.from_pretrained(os.environ["FOLDER"], dtype=torch.bfloat16)
print(model.config._attn_implementation, hasattr(model.lm_head, "_rfg"), hasattr(model.model.norm, "_rfg"))
"""


def switched(value, tmp_path):
    package = os.path.join(os.path.dirname(rfg.__file__), "rfg-switch.pth")
    tests = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, RFG_TORCH=value, PACKAGE=package, TESTS=tests, FOLDER=str(tmp_path), HF_HUB_OFFLINE="1")
    return subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("value,ops", [("", None), ("0", None), ("1", ()), ("linear, rmsnorm", ("linear", "rmsnorm"))])
def test_values_of_the_switch(value, ops, monkeypatch):
    monkeypatch.setenv("RFG_TORCH", value)
    assert _switch.chosen() == ops


def test_switch(tmp_path):
    done = switched("1", tmp_path)
    assert done.stdout.splitlines() == ["True", "rfg_sdpa True True"], done.stderr
    assert done.stderr.count("rfg: RFG_TORCH=1: LlamaForCausalLM\nreplaced: ") == 2 and "2 x LlamaAttention -> rope" in done.stderr
    done = switched("yes", tmp_path)
    assert done.returncode == 1 and "rfg.Error: RFG_TORCH=yes: enable: ops: 'yes': must be of linear, " in done.stderr
