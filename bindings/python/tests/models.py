# SPDX-License-Identifier: MIT
"""Small models of transformers with random weights, and what a model's forward calls."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HEAD = 64


def build(family, dtype=torch.bfloat16, seed=1, **changes):
    """A causal language model of two layers: "Llama", "Qwen3", "Gemma3" ..., its weights such that logits are of order 1."""
    import transformers

    sizes = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=HEAD,
                 vocab_size=97, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None)  # fmt: skip
    if family == "Gemma3":
        sizes.update(sliding_window=16, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=HEAD)
    if family == "Gemma4":  # heads and tables of two sizes; the last two layers have the keys of those before
        sizes.update(num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2, sliding_window=16,
                     global_head_dim=2 * HEAD, vocab_size_per_layer_input=97, hidden_size_per_layer_input=32, final_logit_softcapping=20.0)
    if family == "Qwen3_5":
        sizes.update(layer_types=["linear_attention", "full_attention"], linear_key_head_dim=32, linear_value_head_dim=32,
                     linear_num_key_heads=2, linear_num_value_heads=4)  # fmt: skip
    if family == "Mistral":
        sizes.update(sliding_window=16)
    if family == "Phi3":  # LongRoPE, of three quarters of a head, whose factors change after 16 tokens
        factors = {"short_factor": [1 + i / 50 for i in range(24)], "long_factor": [1 + i / 4 for i in range(24)]}
        sizes.update(hidden_size=4 * HEAD, max_position_embeddings=32, original_max_position_embeddings=16, partial_rotary_factor=0.75,
                     rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, **factors))  # fmt: skip
    sizes.update(changes)
    torch.manual_seed(seed)
    name = family + ("TextConfig" if family in ("Gemma3", "Gemma4", "Qwen3_5") else "Config")
    model = getattr(transformers, family + "ForCausalLM")(getattr(transformers, name)(**sizes)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(0, 0.3 if p.dim() == 1 else p.shape[1] ** -0.5 * 1.5)
            if p.dim() == 1 and family not in ("Gemma3", "Qwen3_5") and name.endswith("weight"):
                p.add_(1)
    return model.to(dtype)


def used(call):
    """The rfg operators that a call runs."""
    names = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Record():
        call()
    return [n.split(".")[1] for n in names if n.startswith("rfg.")]
