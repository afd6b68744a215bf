# SPDX-License-Identifier: MIT
"""Every causal language model of the installed transformers, as a small one with random weights: with rfg.torch.enable() logits are
those without, of a prompt, of a cached token, of a padded batch. Prints how many are equal, kept as they are, and refused: those that
can't be built small or run without rfg. It ends after $RFG_WALK_SECONDS (300), and counts what it hasn't reached. $RFG_WALK: words that a class's name must have one of."""

import copy
import inspect
import os
import time
import warnings

import pytest
import torch

import rfg.torch as rt

transformers = pytest.importorskip("transformers", reason="no transformers (pip install transformers)")
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING  # noqa: E402

# Those that a config has are set.
SMALL = dict(
    vocab_size=320, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
    max_position_embeddings=256, n_positions=256, n_embd=128, n_layer=2, n_head=2, n_inner=192, d_model=128, ffn_dim=192, n_layers=2, n_heads=2,
    num_layers=2, num_heads=2, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=192, encoder_layers=2, encoder_attention_heads=2,
    moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2,
    n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=64, qk_nope_head_dim=64, v_head_dim=64,
    sliding_window=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, state_size=16, mamba_d_state=16, vocab_size_per_layer_input=320,
    hidden_size_per_layer_input=32, global_head_dim=128,
)  # fmt: skip
LARGEST = 5_000_000  # parameters
SECONDS = float(os.environ.get("RFG_WALK_SECONDS", "300"))  # what isn't reached by then is counted
IDS = torch.randint(3, 320, (2, 13), generator=torch.Generator().manual_seed(3))


def build(config_class, model_class):
    known = config_class()
    names = set(inspect.signature(config_class.__init__).parameters) | set(vars(known))
    config = config_class(**{name: size for name, size in SMALL.items() if name in names})
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class._from_config(config).parameters())
    if size > LARGEST:
        raise ValueError("%d parameters" % size)
    torch.manual_seed(1)
    model = model_class._from_config(config).eval()
    for p in model.parameters():
        p.data.copy_(torch.randn(p.shape) * 0.1 if p.dim() > 1 else p.data + torch.randn(p.shape) * 0.2)
    return model


def logits(model, kind):
    """Of tokens that count: of a prompt; of it and the token after; of two of which one is padded on the left."""
    how = {} if kind == "prompt" else dict(use_cache=True)
    mask = torch.ones_like(IDS)
    mask[0, :3] = kind != "padded"
    name = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"
    out = []
    with torch.no_grad():
        for step in (slice(0, 12), slice(12, 13)):
            more = dict(attention_mask=mask[:, : step.stop]) if kind == "padded" else {}
            result = model(input_ids=IDS[:, step].contiguous(), **how, **more)
            out.append(result.logits.float()[mask[:, step].bool()])
            if kind == "prompt":
                break
            if result.get(name) is None:
                raise ValueError("it has no cache")
            how[name] = result[name]
    return torch.cat(out)


def compare(model):
    """enable()'s report, and what is unequal."""
    exact, model = model, copy.deepcopy(model).to(torch.bfloat16)
    before = {"prompt": logits(model, "prompt")}
    for kind in ("cached", "padded"):
        try:
            before[kind] = logits(model, kind)
        except Exception:  # without rfg: it can't do this
            pass
    if not before["prompt"].isfinite().all():
        raise ValueError("logits that aren't finite")
    report = rt.enable(model)
    unequal = []
    for kind, want in before.items():
        try:
            got = logits(model, kind)
        except Exception as e:
            unequal.append("%s: %s: %s" % (kind, type(e).__name__, str(e)[:120]))
            continue
        if not (got - want).abs().max() <= 0.06 * want.abs().max():  # both round to bfloat16: whose is nearer to float32's?
            best = logits(exact, kind)
            off = [(x - best).square().mean().sqrt() for x in (want, got)]
            if not off[1] <= 1.25 * off[0]:
                unequal.append("%s: off by %.3g of %.3g, without rfg by %.3g" % (kind, off[1], best.abs().max(), off[0]))
    rt.disable(model)
    if not all(torch.equal(logits(model, kind), want) for kind, want in before.items()):
        unequal.append("not as before after disable()")
    return report, unequal


def test_every_causal_model(capsys):
    words = os.environ.get("RFG_WALK", "").split()
    equal, kept, late, refused, wrong = [], [], [], {}, {}
    ops = dict.fromkeys(rt.modules.all_ops(), 0)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    start = time.monotonic()
    for config_class, model_class in MODEL_FOR_CAUSAL_LM_MAPPING.items():
        name = model_class.__name__
        if words and not any(w in name for w in words):
            continue
        if time.monotonic() - start > SECONDS:
            late.append(name)
            continue
        try:
            model = build(config_class, model_class)
            logits(model, "prompt")
        except Exception as e:
            refused[name] = "%s: %s" % (type(e).__name__, (str(e).splitlines() or [""])[0][:100])
            continue
        try:
            report, unequal = compare(model)
        except Exception as e:
            refused[name] = "%s: %s" % (type(e).__name__, (str(e).splitlines() or [""])[0][:100])
            continue
        if unequal:
            wrong[name] = unequal
        (equal if report.replaced else kept).append(name)
        for op in {op for _, _, op in report.replaced}:
            ops[op] += 1
        if os.environ.get("RFG_WALK_SAYS"):
            with capsys.disabled():
                print("%s %.1f s %s\n%s" % (name, time.monotonic() - start, unequal, report), flush=True)
    with capsys.disabled():
        print("\ntransformers %s: %d classes equal, %d kept, %d refused, %d unequal, %d not reached; replaced in: %s" % (
            transformers.__version__, len(set(equal) - set(wrong)), len(kept), len(refused), len(wrong), len(late), ", ".join("%s %d" % one for one in ops.items())))  # fmt: skip
        for name, why in list(refused.items()) + list(wrong.items()):
            print("  %s: %s" % (name, why))
    assert not wrong and (words or equal)
