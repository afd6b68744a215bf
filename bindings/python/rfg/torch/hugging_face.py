# SPDX-License-Identifier: MIT
"""What enable() does in models of Hugging Face transformers: attention through its attention interface, and by class the modules
around it: rotary embeddings, attention modules (projections, norms of heads, RoPE, the cache), decoder layers (sums with the norms
that follow). Seen with transformers 5.23. Nothing here imports transformers before a model of it is given.

The classes below are those whose forwards are as computed here. Other models of transformers have their linear layers, norms and
attention replaced, and keep their RoPE."""

import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from . import model_ops
from .modules import SETTINGS, Report, Rule, Settings, direct, few_rows, norm_settings, old, ops_for, plain, plain_linears, untouched

HALVES = (torch.bfloat16, torch.float16)
HEADS = (64, 96, 128, 192, 256)  # D of rfg_op_mha
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma3")
IMPLEMENTATIONS = ("sdpa", "eager")  # of attention: those that enable() replaces, by "rfg_sdpa" and "rfg_eager"
PREFIX = "rfg_"
OLD = "_rfg_attention"  # attribute of a model: (config, its attention before)


def _is(m: Any, suffix: str) -> bool:
    return type(m).__module__.startswith("transformers.models.") and type(m).__name__ in [f + suffix for f in FAMILIES]


def _ops(x: Tensor) -> Any:
    return model_ops if direct(x) else torch.ops.rfg


# ---- rotary embeddings -------------------------------------------------------------------------------------------------


def rotary(m: Any, x: Tensor, position_ids: Tensor, *args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor]:
    """Cosines and sines as before, but side by side in one tensor, for each sequence: so rfg_op_rope() reads them as they are."""
    if position_ids.dim() == 2 and position_ids.shape[0] == 1:
        position_ids = position_ids.expand(x.shape[0], -1)
    cos, sin = old(m, x, position_ids, *args, **kwargs)
    both = torch.cat((cos, sin), -1)
    return both[..., : cos.shape[-1]], both[..., cos.shape[-1] :]


# ---- attention modules -------------------------------------------------------------------------------------------------


def _for_attention(m: Any) -> Settings:
    parts = (m.q_proj, m.k_proj, m.v_proj)
    why = plain_linears(parts)
    if why:
        return why
    if m.q_proj.weight.dtype not in HALVES:
        return "RoPE in %s: rfg has it in bfloat16 and float16" % m.q_proj.weight.dtype
    if len({p.bias is None for p in parts}) != 1:
        return "some of its projections have biases, some have none"
    norms = [getattr(m, name, None) for name in ("q_norm", "k_norm")]
    found: Dict[str, Any] = {"eps": 1e-6, "plus": False, "norms": norms[0] is not None}
    if norms[0] is not None:
        of_norms = [norm_settings(n) for n in norms]
        if not all(untouched(n) for n in norms) or isinstance(of_norms[0], str) or isinstance(of_norms[1], str):
            return "its norms of heads have hooks, or aren't known"
        if of_norms[0]["eps"] != of_norms[1]["eps"]:
            return "its norms of heads have two epsilons"
        found.update(eps=of_norms[0]["eps"], plus=of_norms[0]["plus"])
    windowed = not type(m).__name__.startswith("Llama")
    window = getattr(m, "sliding_window", getattr(m.config, "sliding_window", None)) if windowed else None
    eager = getattr(sys.modules[type(m).__module__], "eager_attention_forward", None)
    absorbs = ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")
    return dict(found, window=window, windowed=windowed, eager=eager, parts=(("q_proj", "k_proj", "v_proj"),), absorbs=absorbs)


def _static_layer(m: Any, cache: Any, places: Optional[Tensor], like: Tensor, batch: int) -> Any:
    """The layer of a static cache that rotate_append() can write to; None: transformers does it."""
    if not model_ops.is_places(places) or not m.config._attn_implementation.startswith(PREFIX) or cache is None:
        return None
    layers = getattr(cache, "layers", ())
    layer = layers[m.layer_idx] if m.layer_idx < len(layers) else None
    if type(layer).__name__ != "StaticLayer" or not layer.is_initialized:
        return None
    keys, values = layer.keys, layer.values
    shape = (batch, m.config.num_key_value_heads, layer.max_cache_len, m.head_dim)
    same = tuple(keys.shape) == shape == tuple(values.shape) and keys.dtype == values.dtype == like.dtype
    return layer if same and model_ops.can_append(keys) and model_ops.can_append(values) else None


def _projected(m: Any, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    parts = (m.q_proj, m.k_proj, m.v_proj)
    if few_rows(m, x):
        y = ops_for(x).linears(x, [p.weight for p in parts], None if m.q_proj.bias is None else [p.bias for p in parts])
        q, k, v = y.split([p.weight.shape[0] for p in parts], -1)
    else:
        q, k, v = (p(x) for p in parts)
    return q.unflatten(-1, (-1, m.head_dim)), k.unflatten(-1, (-1, m.head_dim)), v.unflatten(-1, (-1, m.head_dim))


def attention_module(
    m: Any, hidden_states: Tensor, position_embeddings: Any = None, attention_mask: Optional[Tensor] = None, past_key_values: Any = None,
    **kwargs: Any
) -> Tuple[Tensor, Optional[Tensor]]:
    x, settings = hidden_states, getattr(m, SETTINGS)
    if position_embeddings is None or x.dtype not in HALVES or not plain(x, m.q_proj.weight) or torch.is_grad_enabled() or m.training:
        return old(
            m, hidden_states, position_embeddings=position_embeddings, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs
        )
    cos, sin = position_embeddings
    q, k, v = _projected(m, x)
    ops = _ops(x)
    layer = _static_layer(m, past_key_values, attention_mask, x, x.shape[0])
    weights = None
    if layer is not None:
        layer.cumulative_length.add_(x.shape[1])
        norms = (m.q_norm.weight, m.k_norm.weight) if settings.norms else (None, None)
        q = ops.rotate_append(layer.keys, layer.values, q, k, v, cos, sin, attention_mask, *norms, settings.eps, settings.plus)
        out = ops.mha_cached(q, layer.keys, layer.values, attention_mask, m.scaling, 0.0, settings.window or 0)
    else:
        if settings.norms:
            norm = ops_for(x).rmsnorm
            q = norm(q.flatten(0, 1), m.q_norm.weight, settings.eps, settings.plus).view(q.shape)
            k = norm(k.flatten(0, 1), m.k_norm.weight, settings.eps, settings.plus).view(k.shape)
        q, k = (t.transpose(1, 2) for t in ops.rotate(q, k, cos, sin))
        v = v.transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, m.layer_idx)
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        compute = ALL_ATTENTION_FUNCTIONS.get_interface(m.config._attn_implementation, settings.eager)
        if settings.windowed:
            kwargs["sliding_window"] = settings.window
        out, weights = compute(m, q, k, v, attention_mask, dropout=0.0, scaling=m.scaling, **kwargs)
    return m.o_proj(out.reshape(*x.shape[:-1], -1).contiguous()), weights


# ---- decoder layers ----------------------------------------------------------------------------------------------------


def _for_layer(m: Any) -> Settings:
    sandwich = hasattr(m, "pre_feedforward_layernorm")
    norm = m.pre_feedforward_layernorm if sandwich else m.post_attention_layernorm
    found = norm_settings(norm)
    if isinstance(found, str) or not untouched(norm):
        return "its norm has hooks, or isn't known"
    name = "pre_feedforward_layernorm" if sandwich else "post_attention_layernorm"
    return {"sandwich": sandwich, "eps": found["eps"], "plus": found["plus"], "next": None, "absorbs": (name,)}


def decoder_layer(m: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    x, settings = hidden_states, getattr(m, SETTINGS)
    norm = m.pre_feedforward_layernorm if settings.sandwich else m.post_attention_layernorm
    if args or m.training or not plain(x, norm.weight):
        return old(m, hidden_states, *args, **kwargs)
    ops = ops_for(x)
    y = m.self_attn(hidden_states=m.input_layernorm(x), **kwargs)[0]
    if settings.sandwich:
        y = m.post_attention_layernorm(y)
    y, total = ops.add_rmsnorm(y, x, norm.weight, settings.eps, settings.plus)
    y = m.mlp(y)
    if settings.sandwich:
        y = m.post_feedforward_layernorm(y)
    after = settings.next
    if after is None or not plain(x, after.weight):
        return total + y
    of_next = getattr(after, SETTINGS)
    y, total = ops.add_rmsnorm(y, total, after.weight, of_next.eps, of_next.plus)
    of_next.ahead.pair = (total, y)
    return total


def _link(model: nn.Module) -> None:
    """Tells each decoder layer which norm follows it."""
    for m in model.modules():
        layers, norm = getattr(m, "layers", None), getattr(m, "norm", None)
        if not isinstance(layers, nn.ModuleList) or not all(_is(layer, "DecoderLayer") for layer in layers):
            continue
        norms = [layer.input_layernorm for layer in layers][1:] + [norm]
        for layer, after in zip(layers, norms):
            mine, its = vars(layer).get(SETTINGS), vars(after).get(SETTINGS) if isinstance(after, nn.Module) else None
            if mine is not None and its is not None and its.op == "rmsnorm" and untouched(after):
                mine.next = after


RULES: List[Rule] = [
    Rule("rope", lambda m: _is(m, "RotaryEmbedding"), lambda m: {}, rotary),
    Rule("rope", lambda m: _is(m, "Attention"), _for_attention, attention_module),
    Rule("residual", lambda m: _is(m, "DecoderLayer"), _for_layer, decoder_layer),
]


# ---- the attention interface -------------------------------------------------------------------------------------------


def _takes(config: Any, dtype: Optional[torch.dtype], device: Any) -> bool:
    if dtype not in HALVES or torch.is_grad_enabled() or torch.is_autocast_enabled(torch.device(device).type):
        return False
    return _head_dim(config) in HEADS


def _head_dim(config: Any) -> int:
    heads = getattr(config, "num_attention_heads", 0)
    return getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 0)


def _is_plain(mask_function: Any) -> bool:
    """Is a mask causal, or causal with a sliding window, and nothing else?"""
    from transformers.masking_utils import causal_mask_function

    if mask_function is causal_mask_function:
        return True
    if getattr(mask_function, "__qualname__", "") != "and_masks.<locals>.and_mask":
        return False
    parts = mask_function.__closure__[0].cell_contents
    window = "sliding_window_overlay.<locals>.inner_mask"
    return len(parts) == 2 and parts[1] is causal_mask_function and getattr(parts[0], "__qualname__", "") == window


def _has_holes(padding: Optional[Tensor], q_offset: Any, q_length: int) -> bool:
    """Are there keys that a mask [B,seen] leaves out? Where its values can't be looked at there may be."""
    if padding is None:
        return False
    if torch.compiler.is_compiling() or (padding.is_cuda and torch.cuda.is_current_stream_capturing()):
        return True
    seen = int(q_offset) + q_length
    return padding.dim() != 2 or padding.shape[1] < seen or not bool(padding[:, :seen].all())


def _mask(before: Callable[..., Any], **how: Any) -> Any:
    """In place of a mask: None where all keys count, as causality has it; places() where a cache isn't full; else the mask."""
    config, q_offset, q_length = how.get("config"), how.get("q_offset", 0), how["q_length"]
    taken = config is not None and _takes(config, how.get("dtype"), how.get("device", "cpu")) and _is_plain(how.get("mask_function"))
    if not taken or _has_holes(how.get("attention_mask"), q_offset, q_length):
        return before(**how)
    kv_offset = how.get("kv_offset", 0)
    if not isinstance(q_offset, Tensor) and kv_offset + how["kv_length"] == q_offset + q_length:
        return None
    if isinstance(kv_offset, Tensor) or kv_offset:
        return before(**how)
    return model_ops.places(how["batch_size"], how["kv_length"], q_length, q_offset, how.get("device", "cpu"))


def _attend(before: Callable[..., Any], m: Any, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], **kwargs: Any) -> Any:
    options = dict(kwargs)
    scale, dropout, cap = options.pop("scaling", None), options.pop("dropout", 0.0), options.pop("softcap", None)
    window, causal = options.pop("sliding_window", None), options.pop("is_causal", None)
    causal = getattr(m, "is_causal", True) if causal is None else causal
    odd = [name for name in ("s_aux", "position_bias", "cache", "output_attentions", "head_mask") if options.get(name) is not None]
    given = model_ops.is_places(mask)
    fits = q.dtype in HALVES and q.dtype == k.dtype == v.dtype and q.shape[-1] == v.shape[-1] and q.shape[-1] in HEADS
    fits = fits and not torch.is_grad_enabled() and not torch.is_autocast_enabled(q.device.type) and not dropout and not odd
    if not fits or not (mask is None or given):
        if given:
            keep = model_ops.mask_of(mask, q.shape[0], q.shape[2], k.shape[2], window or 0)
            mask = keep if before.__name__ == "sdpa_attention_forward" else torch.zeros_like(keep, dtype=q.dtype).masked_fill(~keep, -torch.inf)
        return before(m, q, k, v, mask, **kwargs)
    ops = _ops(q)
    rest = (scale or 0.0, cap or 0.0, (window or 0) if causal else 0)
    out = ops.mha_cached(q.transpose(1, 2), k, v, mask, *rest) if given else ops.mha_heads(q.transpose(1, 2), k, v, bool(causal), *rest)
    return out, None


def _sdpa_mask(*_: Any, **how: Any) -> Any:
    from transformers.masking_utils import sdpa_mask

    return _mask(sdpa_mask, **how)


def _eager_mask(*_: Any, **how: Any) -> Any:
    from transformers.masking_utils import eager_mask

    return _mask(eager_mask, **how)


def _sdpa(m: Any, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None, **kwargs: Any) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return _attend(sdpa_attention_forward, m, q, k, v, mask, **kwargs)


def _eager(m: Any, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None, **kwargs: Any) -> Any:
    return _attend(sys.modules[type(m).__module__].eager_attention_forward, m, q, k, v, mask, **kwargs)


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(PREFIX + "sdpa", _sdpa)
    AttentionInterface.register(PREFIX + "eager", _eager)
    AttentionMaskInterface.register(PREFIX + "sdpa", _sdpa_mask)
    AttentionMaskInterface.register(PREFIX + "eager", _eager_mask)


def _why_not(m: Any, config: Any) -> str:
    name = config._attn_implementation
    if not getattr(m, "_supports_attention_backend", False):
        return "its attention doesn't go through transformers' attention interface"
    if name not in IMPLEMENTATIONS:
        return "its attention is %s: only sdpa and eager are replaced" % name
    if _head_dim(config) not in HEADS:
        return "heads of %d elements: rfg's attention has %s" % (_head_dim(config), ", ".join(map(str, HEADS)))
    dtypes = {p.dtype for p in m.parameters()}
    return "" if dtypes & set(HALVES) else "attention in %s: rfg has bfloat16 and float16" % ", ".join(sorted(map(str, dtypes)))


def finish(model: nn.Module, attention: bool, report: Report) -> None:
    """After the modules: links between layers, attention."""
    hub = sys.modules.get("transformers")
    if hub is None:
        return
    _link(model)
    if not any(vars(m).get(SETTINGS) is not None and _is(m, "Attention") for m in model.modules()):
        for name, m in model.named_modules():
            if _is(m, "RotaryEmbedding") and vars(m).pop(SETTINGS, None) is not None:
                del vars(m)["forward"]
                report.replaced.remove((name, type(m).__name__, "rope"))
                report.kept.append((name, type(m).__name__, "no attention module that it is for was replaced"))
    seen = {id(config) for config, _ in vars(model).get(OLD, ())}
    for name, m in model.named_modules():
        config = getattr(m, "config", None)
        if not isinstance(m, hub.PreTrainedModel) or id(config) in seen or not hasattr(config, "_attn_implementation"):
            continue
        seen.add(id(config))
        why = _why_not(m, config) if attention else "not asked for"
        if why:
            report.kept.append((name or "model", type(m).__name__, "attention: " + why))
            continue
        _register()
        vars(model).setdefault(OLD, []).append((config, config._attn_implementation))
        config._attn_implementation_internal = PREFIX + config._attn_implementation
        report.replaced.append((name or "model", type(m).__name__, "attention"))


def undo(model: nn.Module) -> None:
    for config, name in vars(model).pop(OLD, ()):
        config._attn_implementation_internal = name
