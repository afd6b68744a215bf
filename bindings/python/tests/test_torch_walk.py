# SPDX-License-Identifier: MIT
"""Every causal language model of the installed transformers, small and with random weights: what it computes with rfg is as near to
the same weights in fp32 as what it computes without. test_torch_walk.py [TYPE ...] prints a line for each."""

import sys
import warnings

import pytest
import torch

import rfg.torch as rt

transformers = pytest.importorskip("transformers", reason="no transformers (pip install transformers)")
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as MODELS  # noqa: E402

# What configurations call their sizes. All experts are chosen: a near tie of two would be decided by rounding.
SIZES = {
    256: "hidden_size n_embd d_model dim embedding_size max_position_embeddings n_positions word_embed_proj_dim",
    192: "intermediate_size ffn_dim n_inner d_ff moe_intermediate_size shared_expert_intermediate_size ffn_hidden_size expert_dim "
         "decoder_ffn_dim encoder_ffn_dim",
    97: "vocab_size vocab_size_per_layer_input",
    64: "head_dim qk_rope_head_dim qk_nope_head_dim v_head_dim q_lora_rank kv_lora_rank rotary_dim d_head global_head_dim",
    16: "sliding_window hidden_size_per_layer_input",
    4: "num_attention_heads n_head num_heads num_local_experts num_experts n_routed_experts num_experts_per_tok moe_num_experts moe_k "
       "top_k_experts moe_topk num_experts_per_token experts_per_token moe_num_shared_experts "
       "decoder_attention_heads encoder_attention_heads",
    2: "decoder_layers encoder_layers num_key_value_heads num_hidden_layers n_layer num_layers n_layers num_kv_heads multi_query_group_num",
    1: "n_group topk_group n_shared_experts num_shared_experts first_k_dense_replace",
    0: "pad_token_id num_kv_shared_layers num_nextn_predict_layers",
}  # fmt: skip
MORE = {  # what else must fit these
    "bamba": dict(mamba_n_heads=8, mamba_d_head=64, attn_layer_indices=[1]),
    "granitemoehybrid": dict(mamba_n_heads=8, mamba_d_head=64),
    "gemma4_text": dict(per_layer_config=None),
    "gemma4_unified_text": dict(per_layer_config=None),
    "laguna": dict(num_attention_heads_per_layer=[4, 4]),
    "mamba2": dict(num_heads=8, head_dim=64),
}
SIZE = {name: size for size, names in SIZES.items() for name in names.split()}
MOST = 20_000_000  # parameters
torch.manual_seed(6)
IDS = torch.randint(2, 97, (2, 14))
FIRST = 11
PADDED = torch.ones(2, 14, dtype=torch.int64)
PADDED[1, :4] = 0


def small(kind):
    """A configuration with two layers: of two kinds, where there are."""
    given = CONFIG_MAPPING[kind]().to_dict()
    for name, value in given.items():
        if name in SIZE and value is not None:
            given[name] = SIZE[name]
    for name in ("layer_types", "mlp_layer_types", "layers_block_type", "no_rope_layers", "attention_types"):
        if isinstance(given.get(name), list) and given[name]:
            last = next((v for v in given[name] if v != given[name][0]), given[name][0])
            given[name] = [given[name][0], last]
    if given.get("kv_lora_rank"):  # each head has keys of its own, of one latent
        given["num_key_value_heads"] = given["num_attention_heads"]
    given.update(MORE.get(kind, {}), bos_token_id=1, eos_token_id=None)
    for name in ("transformers_version", "architectures", "model_type", "rope_scaling"):
        given.pop(name, None)
    return CONFIG_MAPPING[kind](**given)


def build(kind):
    config = small(kind)
    torch.manual_seed(1)
    with torch.device("meta"):
        n = sum(p.numel() for p in getattr(transformers, MODELS[kind])(config).parameters())
    if n > MOST:
        raise ValueError("%d parameters" % n)
    model = getattr(transformers, MODELS[kind])(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(0, 1.2 * p.shape[-1] ** -0.5)
            else:
                p.add_(torch.randn_like(p) * 0.2)  # a norm's weight may stand for 1 + w
    return model


def logits(model):
    """Of a prompt, of three steps with a cache, and of a padded batch."""
    with torch.no_grad():
        whole = model(IDS).logits.float()
        out = model(IDS[:, :FIRST], use_cache=True)
        steps = []
        for i in range(FIRST, IDS.shape[1]):
            out = model(IDS[:, i : i + 1], past_key_values=out.past_key_values, use_cache=True)
            steps.append(out.logits.float())
        padded = model(IDS, attention_mask=PADDED).logits.float()[PADDED.bool()]
    return {"prompt": whole, "steps": torch.cat(steps, 1), "padded": padded}


def rms(t):
    return float(t.square().mean().sqrt())


def judge(kind):
    """(equal, kept, refused or BAD; why)"""
    try:
        model = build(kind)
        exact = logits(model.float())
        model = model.to(torch.bfloat16)
        before = logits(model)
    except Exception as why:  # not of rfg: a configuration that can't be made small, or a model that needs more than tokens
        return "refused", "%s: %s" % (type(why).__name__, " ".join(str(why).split())[:150])
    report = rt.enable(model)
    after = logits(model)
    for name, want in exact.items():
        without, with_rfg = rms(before[name] - want), rms(after[name] - want)
        if not with_rfg <= 1.5 * without + 1e-6:
            return "BAD", "%s: rms error %.3g, without rfg %.3g" % (name, with_rfg, without)
    rt.disable(model)
    again = logits(model)
    if not all(torch.equal(again[name], before[name]) for name in before):
        return "BAD", "disable() leaves another model"
    ops = sorted({op for _, _, op in report.replaced})
    return ("equal", " ".join(ops)) if set(ops) - {"linear", "embedding"} else ("kept", "but " + " ".join(ops))


def walk(kinds):
    found = {}
    for kind in kinds:
        verdict, why = judge(kind)
        found.setdefault(verdict, []).append(kind)
        print("%-8s %-28s %s" % (verdict, kind, why), flush=True)
    print(", ".join("%d %s" % (len(found[v]), v) for v in sorted(found)), flush=True)
    return found


def test_every_class(capsys):
    warnings.simplefilter("ignore")
    with capsys.disabled():
        print()
        found = walk(sorted(MODELS))
    assert "BAD" not in found
    assert len(found["equal"]) >= 80


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit("BAD" in walk(sys.argv[1:] or sorted(MODELS)))
