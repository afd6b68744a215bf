# SPDX-License-Identifier: MIT
"""What enable() does in models of Hugging Face transformers: attention through its attention interface, and by class the modules
around it: rotary embeddings, attention modules (projections, norms of heads, RoPE, the cache), decoder layers (sums with the norms
that follow). Seen with transformers 5.24. Nothing here imports transformers before a model of it is given.

The classes below are those whose forwards are as computed here. Other models of transformers have their linear layers, norms and
attention replaced, and keep their RoPE."""

import inspect
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .._rfg import Error
from . import model_ops, proof
from .modules import SETTINGS, Report, Rule, Settings, direct, few_rows, norm_settings, old, ops_for, plain, plain_linears, untouched, withdraw

HALVES = (torch.bfloat16, torch.float16)
HEADS = range(8, 513, 8)  # D of rfg_op_mha
CACHES = ("cache", "past_key_values")  # what its argument is called, since transformers 5.24 and before
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma3", "Phi3", "Qwen3_5")
# What else they and their like call a part.
NAMES = {"RotaryEmbedding": ("Gemma4Text", "Qwen3_5Text"), "Attention": ("Gemma4Text",)}
IMPLEMENTATIONS = ("sdpa", "eager")  # of attention: those that enable() replaces, by "rfg_sdpa" and "rfg_eager"
PREFIX = "rfg_"
OLD = "_rfg_attention"  # attribute of a model: (config, its attention before)


def _is(m: Any, suffix: str) -> bool:
    return type(m).__module__.startswith("transformers.models.") and type(m).__name__ in [f + suffix for f in FAMILIES + NAMES.get(suffix, ())]


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


def _projections(m: Any) -> Tuple[str, ...]:
    """Of Gemma 4's layers some have no v, which is k then, and some neither."""
    return tuple(name for name in ("qkv_proj", "q_proj", "k_proj", "v_proj") if getattr(m, name, None) is not None)


def _for_attention(m: Any) -> Settings:
    names = _projections(m)
    parts = [getattr(m, name) for name in names]
    why = "its keys are another layer's" if names == ("q_proj",) else plain_linears(parts)
    if why:
        return why
    if parts[0].weight.dtype not in HALVES:
        return "attention in %s: rfg has it in bfloat16 and float16" % parts[0].weight.dtype
    if len({p.bias is None for p in parts}) != 1:
        return "some of its projections have biases, some have none"
    takes = set(inspect.signature(type(m).forward).parameters)
    unknown = takes - {"self", "hidden_states", "position_embeddings", "attention_mask", "cache_position", "kwargs", "shared_kv_states", *CACHES}
    if unknown or len(takes & set(CACHES)) != 1:
        return "its forward takes %s" % ", ".join(sorted(unknown or takes))
    norms: List[Any] = [getattr(m, name, None) for name in ("q_norm", "k_norm")]
    found: Dict[str, Any] = {"eps": 1e-6, "plus": False, "norms": norms[0] is not None}
    if norms[0] is not None:
        of_norms = [norm_settings(n) for n in norms]
        if not all(untouched(n) for n in norms) or isinstance(of_norms[0], str) or isinstance(of_norms[1], str):
            return "its norms of heads have hooks, or aren't known"
        if of_norms[0]["eps"] != of_norms[1]["eps"] or of_norms[0]["plus"] != of_norms[1]["plus"]:
            return "its norms of heads differ"
        found.update(eps=of_norms[0]["eps"], plus=of_norms[0]["plus"])
    v_norm = getattr(m, "v_norm", None)
    of_v = norm_settings(v_norm) if v_norm is not None else {"eps": None, "plus": False}
    if isinstance(of_v, str) or of_v["plus"] or not (v_norm is None or untouched(v_norm)):
        return "its norm of v has hooks, or isn't known"
    windowed = not type(m).__name__.startswith(("Llama", "Qwen3_5"))
    window = getattr(m, "sliding_window", getattr(m.config, "sliding_window", None)) if windowed else None
    eager = getattr(sys.modules[type(m).__module__], "eager_attention_forward", None)
    joined = (names,) if len(names) > 1 else ()
    return dict(
        found, cache=(takes & set(CACHES)).pop(), window=window, windowed=windowed, eager=eager, projections=names, parts=joined,
        gated=parts[0].weight.shape[0] == 2 * m.config.num_attention_heads * m.head_dim, v_eps=of_v["eps"],
        absorbs=names + ("q_norm", "k_norm", "v_norm")
    )  # fmt: skip


def _static_layer(m: Any, cache: Any, places: Optional[Tensor], like: Tensor) -> Any:
    """The layer of a static cache that rotate_append() can write k to, `like` of [B,S,Hkv,D]; None: transformers does it."""
    if not model_ops.is_places(places) or not m.config._attn_implementation.startswith(PREFIX) or cache is None:
        return None
    layers = getattr(cache, "layers", ())
    layer = layers[m.layer_idx] if m.layer_idx < len(layers) else None
    if type(layer).__name__ != "StaticLayer" or not layer.is_initialized:
        return None
    keys, values = layer.keys, layer.values
    shape = (like.shape[0], like.shape[2], layer.max_cache_len, m.head_dim)
    same = tuple(keys.shape) == shape == tuple(values.shape) and keys.dtype == values.dtype == like.dtype
    return layer if same and model_ops.can_append(keys) and model_ops.can_append(values) else None


def _known(cache: Any) -> bool:
    """Whether a cache, if there is one, is of transformers' own classes, which take keys, values and the layer's number."""
    return cache is None or type(cache).__module__ == "transformers.cache_utils"


def _projected(m: Any, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
    """q, k, v [B,S,heads,D], and what q's heads have beside them (Qwen3.5's gates)."""
    settings = getattr(m, SETTINGS)
    parts = [getattr(m, name) for name in settings.projections]
    if settings.projections == ("qkv_proj",):
        heads = m.config.num_attention_heads, m.config.num_key_value_heads, m.config.num_key_value_heads
        y = parts[0](x).split([n * m.head_dim for n in heads], -1)
    elif few_rows(m, x):
        joined = ops_for(x).linears(x, [p.weight for p in parts], None if parts[0].bias is None else [p.bias for p in parts])
        y = joined.split([p.weight.shape[0] for p in parts], -1)
    else:
        y = [p(x) for p in parts]
    q, k, v = (t.unflatten(-1, (-1, m.head_dim)) for t in (y[0], y[1], y[-1]))
    if settings.v_eps is not None:
        v = ops_for(x).rmsnorm(v.flatten(0, 1), getattr(m.v_norm, "weight", None), settings.v_eps, False).view(v.shape)
    return (q[:, :, ::2], k, v, q[:, :, 1::2]) if settings.gated else (q, k, v, None)


def attention_module(m: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    x, settings, rest = hidden_states, getattr(m, SETTINGS), dict(kwargs)
    angles, mask, cache = (rest.pop(name, None) for name in ("position_embeddings", "attention_mask", settings.cache))
    theirs = bool(args) or angles is None or any(rest.get(name) is not None for name in CACHES) or not _known(cache)
    if theirs or x.dtype not in HALVES or not plain(x, getattr(m, settings.projections[0]).weight) or torch.is_grad_enabled() or m.training:
        return old(m, hidden_states, *args, **kwargs)
    cos, sin = angles
    q, k, v, gate = _projected(m, x)
    ops, shared = _ops(x), rest.pop("shared_kv_states", None)
    layer = _static_layer(m, cache, mask, k)
    weights = None
    if layer is not None:
        layer.cumulative_length.add_(x.shape[1])
        norms = (m.q_norm.weight, m.k_norm.weight) if settings.norms else (None, None)
        q = ops.rotate_append(layer.keys, layer.values, q, k, v, cos, sin, mask, *norms, settings.eps, settings.plus)
        k, v = layer.keys, layer.values
        out = ops.mha_cached(q, k, v, mask, m.scaling, 0.0, model_ops.window_of(mask))
    else:
        if settings.norms:
            norm = ops_for(x).rmsnorm
            q = norm(q.flatten(0, 1), m.q_norm.weight, settings.eps, settings.plus).view(q.shape)
            k = norm(k.flatten(0, 1), m.k_norm.weight, settings.eps, settings.plus).view(k.shape)
        q, k = (t.transpose(1, 2) for t in ops.rotate(q, k, cos, sin))
        v = v.transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v, m.layer_idx)
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        compute = ALL_ATTENTION_FUNCTIONS.get_interface(m.config._attn_implementation, settings.eager)
        if settings.windowed:
            rest["sliding_window"] = settings.window
        out, weights = compute(m, q, k, v, mask, dropout=0.0, scaling=m.scaling, **rest)
    if getattr(m, "store_full_length_kv", False):
        shared[m.layer_type] = k, v
    out = out.reshape(*x.shape[:-1], -1)
    return m.o_proj(out.contiguous() if gate is None else out * torch.sigmoid(gate.reshape(out.shape))), weights


# ---- decoder layers ----------------------------------------------------------------------------------------------------


def _for_layer(m: Any) -> Settings:
    if not hasattr(m, "self_attn"):
        return "it has no attention"
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
            if SETTINGS in vars(layer):
                vars(layer)[SETTINGS].next = None
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
    return config is not None and dtype in HALVES and not torch.is_grad_enabled() and not torch.is_autocast_enabled(torch.device(device).type)


def _window(mask_function: Any) -> Optional[int]:
    """The window of a mask that is causal with a sliding window and nothing else; 0: all keys; None: another mask."""
    from transformers.masking_utils import causal_mask_function

    if mask_function is causal_mask_function:
        return 0
    if getattr(mask_function, "__qualname__", "") != "and_masks.<locals>.and_mask":
        return None
    parts = mask_function.__closure__[0].cell_contents
    slides = getattr(parts[0], "__qualname__", "") == "sliding_window_overlay.<locals>.inner_mask"
    if len(parts) != 2 or parts[1] is not causal_mask_function or not slides:
        return None
    window = parts[0].__closure__[0].cell_contents
    return window if isinstance(window, int) and window > 0 else None


def _has_holes(padding: Optional[Tensor], q_offset: Any, q_length: int) -> bool:
    """Whether a mask [B,seen] leaves keys out. If its values can't be read, it may."""
    if padding is None:
        return False
    if torch.compiler.is_compiling() or (padding.is_cuda and torch.cuda.is_current_stream_capturing()):
        return True
    seen = int(q_offset) + q_length
    return padding.dim() != 2 or padding.shape[1] < seen or not bool(padding[:, :seen].all())


def _mask(before: Callable[..., Any], **how: Any) -> Any:
    """In place of a mask: places() where a cache isn't full, causal() where all keys count; else the mask."""
    q_offset, q_length, kv_offset, device = how.get("q_offset", 0), how["q_length"], how.get("kv_offset", 0), how.get("device", "cpu")
    taken = _takes(how.get("config"), how.get("dtype"), device)
    window = _window(how.get("mask_function")) if taken else None
    if window is None or _has_holes(how.get("attention_mask"), q_offset, q_length):
        return before(**how)
    if not isinstance(q_offset, Tensor) and kv_offset + how["kv_length"] == q_offset + q_length:
        return model_ops.causal(window, device)
    if isinstance(kv_offset, Tensor) or kv_offset:
        return before(**how)
    return model_ops.places(how["batch_size"], how["kv_length"], q_length, q_offset, device, window)


# What models hand to their attention, and none looks at.
IGNORED = ("sliding_window", "position_ids", "cache_position", "use_cache", "output_hidden_states", "output_router_logits", "return_dict")


def _attend(before: Callable[..., Any], m: Any, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], **kwargs: Any) -> Any:
    """mask: of _mask(), which says all of it (not the module nor sliding_window, as in transformers); None: as `before` has it."""
    sdpa = before.__name__ == "sdpa_attention_forward"
    options = {name: x for name, x in kwargs.items() if x is not None and x is not False and name not in IGNORED}
    scale, dropout, cap = options.pop("scaling", None), options.pop("dropout", 0.0), 0.0 if sdpa else options.pop("softcap", 0.0)
    options.pop("is_causal", None)
    ours = mask is not None and model_ops.is_ours(mask)
    causal = ours
    if mask is None and sdpa and q.shape[2] > 1:
        chosen = kwargs.get("is_causal")
        causal = bool(getattr(m, "is_causal", True) if chosen is None else chosen)
    fits = q.dtype in HALVES and q.dtype == k.dtype == v.dtype and q.shape[-1] == k.shape[-1] == v.shape[-1] and q.shape[-1] in HEADS
    fits = fits and q.shape[0] == k.shape[0] == v.shape[0] and (ours or not causal or q.shape[2] == k.shape[2])
    fits = fits and not torch.is_grad_enabled() and not torch.is_autocast_enabled(q.device.type) and not dropout and not options
    if not fits or not (mask is None or ours):
        if ours:
            keep = model_ops.mask_of(mask, q.shape[0], q.shape[2], k.shape[2])
            mask = keep if sdpa else torch.zeros_like(keep, dtype=q.dtype).masked_fill(~keep, torch.finfo(q.dtype).min)
        return before(m, q, k, v, mask, **kwargs)
    ops, window = _ops(q), model_ops.window_of(mask) if ours else 0
    if ours and model_ops.is_places(mask):
        return ops.mha_cached(q.transpose(1, 2), k, v, mask, scale or 0.0, cap, window), None
    return ops.mha_heads(q.transpose(1, 2), k, v, causal, scale or 0.0, cap, window), None


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
    if not getattr(m, "_supports_attention_backend", False) and not hasattr(sys.modules[type(m).__module__], "ALL_ATTENTION_FUNCTIONS"):
        return "its attention doesn't go through transformers' attention interface"
    if name not in IMPLEMENTATIONS:
        return "its attention is %s: only sdpa and eager are replaced" % name
    heads = {part.head_dim for part in m.modules() if isinstance(getattr(part, "head_dim", None), int)}
    if heads and not heads & set(HEADS):
        return "heads of %s elements: rfg's attention has multiples of 8 up to 512" % ", ".join(map(str, sorted(heads)))
    dtypes = {p.dtype for p in m.parameters()}
    return "" if dtypes & set(HALVES) else "attention in %s: rfg has bfloat16 and float16" % ", ".join(sorted(map(str, dtypes)))


# ---- what enable() asks for -----------------------------------------------------------------------------------------------


def _models(model: nn.Module) -> List[Tuple[str, Any]]:
    hub = sys.modules.get("transformers")
    return [] if hub is None else [(name, m) for name, m in model.named_modules() if isinstance(m, hub.PreTrainedModel)]


def rehearsals(model: nn.Module) -> List[proof.Rehearsal]:
    """Of the models of transformers that a module is or has, not those within others."""
    found: List[proof.Rehearsal] = []
    for _, m in _models(model):
        if not any(m in r.modules for r in found):
            found.append(proof.Rehearsal(m))
    return found


def unseen(found: List[proof.Rehearsal], m: nn.Module) -> str:
    """"" or why a module wasn't seen at work."""
    around = next((r for r in found if m in r.modules), None)
    return "it can be proven in a whole model only" if around is None else around.covers(m)


def _attention(model: nn.Module, found: List[proof.Rehearsal], wanted: bool, report: Report) -> None:
    seen = {id(config) for _, config, _ in vars(model).get(OLD, ())}
    for name, m in _models(model):
        config = getattr(m, "config", None)
        if id(config) in seen or not hasattr(config, "_attn_implementation"):
            continue
        seen.add(id(config))
        why = (_why_not(m, config) or unseen(found, m)) if wanted else "not asked for"
        if why:
            report.kept.append((name or "model", type(m).__name__, "attention: " + why))
            continue
        _register()
        vars(model).setdefault(OLD, []).append((m, config, config._attn_implementation))
        config._attn_implementation_internal = PREFIX + config._attn_implementation
        report.replaced.append((name or "model", type(m).__name__, "attention"))


def _keep(model: nn.Module, wrong: nn.Module, why: str, report: Report, attention: bool = False) -> None:
    """Restores a module, or a model's attention."""
    if attention:
        rows = vars(model)[OLD]
        for row in [row for row in rows if row[0] is wrong]:
            row[1]._attn_implementation_internal = row[2]
            rows.remove(row)
    else:
        withdraw(wrong)
    name = next(name for name, m in model.named_modules() if m is wrong) or ("model" if attention else "")
    for row in [row for row in report.replaced if row[0] == name and (row[2] == "attention") == attention]:
        report.replaced.remove(row)
        report.kept.append((name, type(wrong).__name__, ("attention: " if attention else "") + why))


def _wrong(model: nn.Module, around: List[nn.Module]) -> List[Tuple[nn.Module, bool]]:
    """What to give up (attention of a model: True) where the last of these modules differs: the module, or else its attention, or
    else what is around it, or else all."""
    replaced = [m for m in around if SETTINGS in vars(m)]
    if replaced and replaced[-1] is around[-1]:
        return [(replaced[-1], False)]
    models = [row[0] for row in vars(model).get(OLD, ())]
    if any(m in models for m in around):
        return [(m, True) for m in models if m in around]
    return [(m, False) for m in replaced[-1:] or model.modules() if SETTINGS in vars(m)]


def finish(model: nn.Module, found: List[proof.Rehearsal], attention: bool, report: Report) -> None:
    """After the modules: links between layers, attention. Then modules that differ are restored, until none does."""
    _link(model)
    _attention(model, found, attention, report)
    for rehearsal in found:
        faults = [] if rehearsal.why else rehearsal.faults()
        while faults:
            wrong: Dict[Tuple[nn.Module, bool], str] = {}
            for around, why in faults:
                for one in _wrong(model, around):
                    wrong.setdefault(one, why)
            if not wrong:
                raise Error("enable: %s differs from itself: %s" % (type(rehearsal.model).__name__, faults[0][1]))
            for (m, of_attention), why in wrong.items():
                _keep(model, m, why, report, of_attention)
            _link(model)
            faults = rehearsal.faults()
    if not any(vars(m).get(SETTINGS) is not None and _is(m, "Attention") for m in model.modules()):
        for m in [m for m in model.modules() if SETTINGS in vars(m) and _is(m, "RotaryEmbedding")]:
            _keep(model, m, "no attention module that it is for was replaced", report)


def replaced_attention(model: nn.Module) -> int:
    """Of how many models."""
    return len(vars(model).get(OLD, ()))


def undo(model: nn.Module, keep: int = 0) -> None:
    """Restores attention, except in the first models."""
    for _, config, name in vars(model).get(OLD, [])[keep:]:
        config._attn_implementation_internal = name
    if OLD in vars(model):
        del vars(model)[OLD][keep:]
