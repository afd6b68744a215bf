# SPDX-License-Identifier: MIT
"""enable(model): modules of torch.nn, and those of Hugging Face transformers (hugging_face.py), compute with rfg.
disable(model) has them as they were.

A replaced module has two attributes more: its `forward`, a function of this package bound to it, so that copies of a model have
their own and a model can be pickled; and SETTINGS, what enable() chose for it."""

from collections import defaultdict
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from .._rfg import Error
from ..context import version
from . import custom, proof

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
SETTINGS = "_rfg"  # attribute of a replaced module
GATED = ("gate_proj", "up_proj")
CALLS = "_rfg_enabled"  # attribute of a model: the arguments of enable()'s calls


class Report(NamedTuple):
    """enable()'s report: names of modules with their class, and the operator or the reason."""

    replaced: List[Tuple[str, str, str]]
    kept: List[Tuple[str, str, str]]

    def __str__(self) -> str:
        lines = []
        for title, rows, sign in (("replaced", self.replaced, "->"), ("kept", self.kept, "--")):
            groups: Dict[Tuple[str, str], List[str]] = defaultdict(list)
            for name, kind, why in rows:
                groups[kind, why].append(name)
            lines.append("%s: %d modules" % (title, len({name for name, _, _ in rows})))
            for (kind, why), names in groups.items():
                lines.append("  %d x %s %s %s (%s%s)" % (len(names), kind, sign, why, names[0], ", ..." if len(names) > 1 else ""))
        return "\n".join(lines)


def plain(x: Tensor, weight: Optional[Tensor]) -> bool:
    """Whether rfg computes the same as the module. Not under autocast, which chooses dtypes by PyTorch's operators."""
    kind = x.device.type
    return (weight is None or x.dtype == weight.dtype) and x.dtype in DTYPES and not torch.is_autocast_enabled(kind)


def direct(x: Tensor) -> bool:
    """Whether an operator may be called without PyTorch's dispatcher, which takes longer than a short kernel."""
    compiling = torch.compiler.is_compiling() or torch.is_grad_enabled() or type(x) is not Tensor
    return not (compiling or torch._C._len_torch_dispatch_stack())


def ops_for(x: Tensor) -> Any:
    return custom if direct(x) else torch.ops.rfg


def old(m: Any, *args: Any, **kwargs: Any) -> Any:
    """The module's result without rfg."""
    return type(m).forward(m, *args, **kwargs)


def one_input(forward: Callable[..., Tensor]) -> Callable[..., Any]:
    """Calls in any form other than one tensor go to the module's own forward."""

    @wraps(forward)
    def call(m: Any, *args: Any, **kwargs: Any) -> Any:
        return old(m, *args, **kwargs) if kwargs or len(args) != 1 else forward(m, args[0])

    return call


# ---- forwards ----------------------------------------------------------------------------------------------------------


def few_rows(m: Any, x: Tensor) -> bool:
    return bool(x.dim() and x.numel() <= getattr(m, SETTINGS).most_rows * x.shape[-1] and x.stride(-1) == 1)


@one_input
def linear(m: Any, x: Tensor) -> Tensor:
    if not few_rows(m, x) or not plain(x, m.weight):
        return old(m, x)
    return ops_for(x).gemm(x, m.weight, m.bias)


class Ahead:
    """Of a norm: its input and output, where the layer before computed both in one operator (hugging_face.py)."""

    def __init__(self) -> None:
        self.pair: Optional[Tuple[Tensor, Tensor]] = None

    def __deepcopy__(self, memo: Any) -> "Ahead":
        return Ahead()


@one_input
def rmsnorm(m: Any, x: Tensor) -> Tensor:
    settings = getattr(m, SETTINGS)
    pair, settings.ahead.pair = settings.ahead.pair, None
    if pair is not None and pair[0] is x:
        return pair[1]
    weight = getattr(m, "weight", None)
    if not plain(x, weight):
        return old(m, x)
    return ops_for(x).rmsnorm(x, weight, torch.finfo(x.dtype).eps if settings.eps is None else settings.eps, settings.plus)


@one_input
def layernorm(m: Any, x: Tensor) -> Tensor:
    if not plain(x, m.weight) or (torch.is_grad_enabled() and (x.requires_grad or (m.weight is not None and m.weight.requires_grad))):
        return old(m, x)  # rfg has no backward
    return ops_for(x).layernorm(x, m.weight, m.bias, m.eps)


@one_input
def embedding(m: Any, ids: Tensor) -> Tensor:
    if ids.dtype not in (torch.int32, torch.int64):
        return old(m, ids)
    return ops_for(ids).embedding(ids, m.weight)


@one_input
def act(m: Any, x: Tensor) -> Tensor:
    return ops_for(x).act(x, getattr(m, SETTINGS).act) if x.dim() and plain(x, None) else old(m, x)


@one_input
def gated(m: Any, x: Tensor) -> Tensor:
    gate, up = m.gate_proj.weight, m.up_proj.weight
    if not few_rows(m, x) or not plain(x, gate) or gate.dtype != up.dtype:
        return old(m, x)
    return m.down_proj(ops_for(x).gated_linear(x, gate, up, getattr(m, SETTINGS).act))


# ---- which modules they are for: a reason not to, or what the forward wants to know ---------------------------------------

Settings = Union[str, Dict[str, Any]]


def unproven(m: Any, forward: Callable[..., Any], found: Dict[str, Any], x: Tensor) -> str:
    """"" or why a module of one input can't have this forward with these settings."""
    before = vars(m).get(SETTINGS)
    vars(m)[SETTINGS] = SimpleNamespace(most_rows=x.numel(), **found)
    try:
        return proof.prove(m, partial(old, m), partial(forward, m), x)
    finally:
        vars(m).pop(SETTINGS)
        if before is not None:
            vars(m)[SETTINGS] = before


def _for_linear(m: Any) -> Settings:
    if m.weight.stride(-1) != 1:
        return "its weight's rows aren't contiguous"
    return unproven(m, linear, {}, proof.values(m.in_features, m.weight)) or {}


def norm_settings(m: Any) -> Settings:
    eps = getattr(m, "variance_epsilon", getattr(m, "eps", None))
    shape = getattr(m, "normalized_shape", None)
    if shape is not None and len(shape) != 1:
        return "it normalises over %d dimensions" % len(shape)
    weight = getattr(m, "weight", None)
    if weight is not None and weight.dim() != 1:
        return "its weight has %d dimensions" % weight.dim()
    if eps is None and shape is None:
        return "its epsilon isn't known"
    width = weight.shape[0] if weight is not None else shape[0] if shape else 64
    x = proof.values(width, next(m.parameters(), torch.ones(1)))
    found = [{"eps": eps, "plus": plus, "ahead": Ahead()} for plus in (False, True)]  # its weight is w, or 1 + w
    return next((f for f in found if not unproven(m, rmsnorm, f, x)), None) or unproven(m, rmsnorm, found[0], x)


def _for_layernorm(m: Any) -> Settings:
    if len(m.normalized_shape) != 1:
        return "it normalises over %d dimensions" % len(m.normalized_shape)
    return unproven(m, layernorm, {}, proof.values(m.normalized_shape[0], next(m.parameters(), torch.ones(1)))) or {}


def _for_embedding(m: Any) -> Settings:
    if m.max_norm is not None or m.scale_grad_by_freq or m.sparse:
        return "it has max_norm, scale_grad_by_freq or sparse"
    if m.padding_idx is not None and m.weight.requires_grad and m.training:
        return "it is trained with a padding_idx"
    ids = torch.arange(6, device=m.weight.device).view(2, 3) * (m.num_embeddings // 6)
    return unproven(m, embedding, {}, ids) or {}


def _act_name(m: Any) -> Optional[str]:
    if isinstance(m, nn.GELU):
        return "gelu_tanh" if m.approximate == "tanh" else "gelu"
    names = {"SiLU": "silu", "SiLUActivation": "silu", "ReLU": "relu", "GELUActivation": "gelu", "PytorchGELUTanh": "gelu_tanh"}
    names.update(GELUTanh="gelu_tanh", ReLUSquaredActivation="relu2")
    return names.get(type(m).__name__)


def _for_act(m: Any) -> Settings:
    if getattr(m, "inplace", False):
        return "it works in place"
    found = {"act": _act_name(m)}
    return unproven(m, act, found, proof.values(64, next(m.parameters(), torch.ones(1)))) or found


def untouched(m: Any) -> bool:
    """Whether its forward may be skipped and its result computed elsewhere."""
    return not m._forward_hooks and not m._forward_pre_hooks and ("forward" not in vars(m) or SETTINGS in vars(m))


def plain_linears(parts: Sequence[Any]) -> str:
    """"" or why what a module computes with these linear layers can't be computed without calling them."""
    for p in parts:
        if type(p) is not nn.Linear:
            return "a projection is a %s" % type(p).__name__
        if not untouched(p):
            return "a projection has hooks, or its forward was replaced by others"
        if p.weight.dtype not in DTYPES or type(p.weight) is not nn.Parameter or p.weight.stride(-1) != 1:
            return "a projection's weight is %s of class %s" % (p.weight.dtype, type(p.weight).__name__)
    return ""


def _for_gated(m: Any) -> Settings:
    name = _act_name(m.act_fn)
    if name is None:
        return "its activation, %s, isn't rfg's" % type(m.act_fn).__name__
    if m.gate_proj.bias is not None or m.up_proj.bias is not None:
        return "its projections have biases"
    found: Dict[str, Any] = {"act": name, "parts": (GATED,), "absorbs": ("gate_proj", "up_proj", "act_fn")}
    why = plain_linears((m.gate_proj, m.up_proj)) or ("its activation has hooks" if not untouched(m.act_fn) else "")
    return why or unproven(m, gated, found, proof.values(m.gate_proj.in_features, m.gate_proj.weight)) or found


def _is_gated(m: Any) -> bool:
    parts = [getattr(m, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    return all(isinstance(p, nn.Module) for p in parts) and hasattr(m, "act_fn") and len(list(m.children())) <= 4


class Rule(NamedTuple):
    op: str
    fits: Callable[[Any], bool]
    settings: Callable[[Any], Settings]
    forward: Callable[..., Any]


# Which modules an operator replaces; the first that fits.
RULES: List[Rule] = [
    Rule("linear", lambda m: type(m) is nn.Linear, _for_linear, linear),
    Rule("layernorm", lambda m: type(m) is nn.LayerNorm, _for_layernorm, layernorm),
    Rule("embedding", lambda m: type(m) is nn.Embedding, _for_embedding, embedding),
    Rule("rmsnorm", lambda m: type(m).__name__.endswith("RMSNorm") and isinstance(getattr(m, "weight", None), (Tensor, type(None))),
         norm_settings, rmsnorm),
    Rule("act", lambda m: _act_name(m) is not None, _for_act, act),
    Rule("gated", _is_gated, _for_gated, gated),
]  # fmt: skip


def _why_not(m: Any) -> str:
    """"" or why a module of a kind that rfg has is left as it is."""
    tensors = [p for p in m.parameters(recurse=False)]
    if any(p.dtype not in DTYPES for p in tensors):
        return "dtype %s" % ", ".join(sorted({str(p.dtype) for p in tensors}))
    if any(type(p) not in (nn.Parameter, Tensor) for p in tensors):
        return "a parameter of class %s" % type(next(p for p in tensors if type(p) not in (nn.Parameter, Tensor))).__name__
    if any(p.device.type not in ("cpu", "cuda") for p in tensors):
        return "on device %s" % next(p.device for p in tensors if p.device.type not in ("cpu", "cuda"))
    return "its forward was replaced by others" if "forward" in vars(m) else ""


# ---- weights side by side -------------------------------------------------------------------------------------------------


def _join(m: Any, names: Sequence[str]) -> bool:
    """Has the weights (and biases) of linear layers lie one after the other in memory, so that one GEMM takes them all; the rows of
    an MLP's gate_proj and up_proj in turn, so that it activates too."""
    joined = False
    parts = [getattr(m, name) for name in names]
    turn = names == GATED
    for kind in ("weight", "bias"):
        tensors = [getattr(p, kind) for p in parts]
        if any(t is None for t in tensors) or (custom.in_turn(*tensors) if turn else custom.adjoining(tensors)) is not None:
            continue
        if len({(t.dtype, t.device, t.shape if turn else t.shape[1:]) for t in tensors}) == 1:
            with torch.no_grad():
                data = [t.detach() for t in tensors]
                whole = torch.stack(data, 1) if turn else torch.cat(data)
                views = whole.unbind(1) if turn else whole.split([t.shape[0] for t in tensors])
                for t, part in zip(tensors, views):
                    t.data = part
                if whole.is_cuda:
                    torch.cuda.synchronize(whole.device)  # with launch_overlap weights may be fetched before the stream comes to them
            joined = True
    return joined


def _part(m: Any, names: Sequence[str]) -> None:
    """Each in memory of its own again."""
    for name in names:
        for t in (getattr(m, name).weight, getattr(m, name).bias):
            if t is not None and t.untyped_storage().nbytes() > t.numel() * t.element_size():
                t.data = t.detach().clone()


def _apply(m: Any, function: Callable[..., Any], recurse: bool = True) -> Any:
    """Of torch.nn.Module: to(), cuda() and half() go through it, and leave each weight in memory of its own."""
    type(m)._apply(m, function, recurse)
    for names in getattr(m, SETTINGS).joined:
        _join(m, names)
    return m


def _save(m: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Of torch.nn.Module: state_dict() goes through it. Files of safetensors, and save_pretrained(), take no rows that are apart."""
    type(m)._save_to_state_dict(m, destination, prefix, keep_vars)
    for name in ("weight", "bias"):
        if destination.get(prefix + name) is not None:
            destination[prefix + name] = destination[prefix + name].contiguous()


# ---- the switch -----------------------------------------------------------------------------------------------------------


def _models() -> Any:
    from . import hugging_face

    return hugging_face


def all_rules() -> List[Rule]:
    return _models().RULES + RULES


def all_ops() -> Tuple[str, ...]:
    return tuple(dict.fromkeys([r.op for r in RULES] + [r.op for r in _models().RULES] + ["attention"]))


def check_ops(ops: Optional[Iterable[str]]) -> Tuple[str, ...]:
    wanted = all_ops() if ops is None else (ops,) if isinstance(ops, str) else tuple(ops)
    for name in wanted:
        if name not in all_ops():
            raise Error("enable: ops: '%s': must be of %s" % (name, ", ".join(all_ops())))
    return wanted


def enable(model: nn.Module, ops: Optional[Iterable[str]] = None, most_rows: int = 128, join: bool = True) -> Report:
    """Has the modules of a model compute with rfg, and says which. They keep their parameters, hooks and names.

    ops        of "linear", "layernorm", "embedding", "rmsnorm", "act", "gated" (an MLP with gate_proj, up_proj, down_proj and
               act_fn), and in models of transformers "rope" (all that an attention module does before its attention),
               "attention" and "residual" (sums with the norms that follow them); None: all
    most_rows  linear layers of more rows stay PyTorch's
    join       weights that have one input (q, k and v; gate and up) are moved next to each other in memory, so that one GEMM
               takes them. They stay parameters of their own, which are views of it until disable()

    Each module is compared with its own forward first, on random values, and a model of transformers on random tokens, with caches
    and padding (proof.py): hooks of the model run then. What differs is kept, with the reason. What raises leaves all as it was.
    A call that rfg doesn't take (autocast, another dtype of the input, a mask with holes) is computed as before."""
    if not isinstance(model, nn.Module):
        raise Error("enable: model: is a %s: must be a torch.nn.Module" % type(model).__name__)
    wanted = check_ops(ops)
    version()  # a library that can't be loaded is said now, not in the first call
    before, attention = {m for m in model.modules() if SETTINGS in vars(m)}, _models().replaced_attention(model)
    try:
        with proof.aside(model):
            report = _enable(model, wanted, most_rows, join)
    except BaseException:
        for m in model.modules():
            if m not in before:
                withdraw(m)
        _models().undo(model, attention)
        raise
    vars(model).setdefault(CALLS, []).append((wanted, most_rows, join))
    return report


def _enable(model: nn.Module, wanted: Sequence[str], most_rows: int, join: bool) -> Report:
    report = Report([], [])
    rules, rehearsals = all_rules(), _models().rehearsals(model)
    for name, m in model.named_modules():
        if SETTINGS in vars(m):
            continue  # enabled before
        rule = next((r for r in rules if r.fits(m)), None)
        kind = type(m).__name__
        if rule is None:
            if next(m.children(), None) is None:
                report.kept.append((name, kind, "rfg has no operator for it"))
            continue
        found: Settings = "not asked for" if rule.op not in wanted else _why_not(m)
        if not found and rule in _models().RULES:
            found = _models().unseen(rehearsals, m)
        if not found:
            found = rule.settings(m)
        if isinstance(found, str):
            report.kept.append((name, kind, found))
            continue
        joined = [names for names in found.pop("parts", ()) if join and _join(m, names)]
        vars(m)[SETTINGS] = SimpleNamespace(op=rule.op, most_rows=most_rows, joined=joined, **found)
        vars(m)["forward"] = partial(rule.forward, m)
        if joined:
            vars(m)["_apply"] = partial(_apply, m)
        for part in [getattr(m, name) for names in joined if names == GATED for name in names]:
            vars(part)["_save_to_state_dict"] = partial(_save, part)
        report.replaced.append((name, kind, rule.op))
    _models().finish(model, rehearsals, "attention" in wanted, report)
    return report


def withdraw(m: nn.Module) -> bool:
    """Has one module as it was."""
    settings = vars(m).pop(SETTINGS, None)
    if settings is not None:
        del vars(m)["forward"]
        vars(m).pop("_apply", None)
        for names in settings.joined:
            _part(m, names)
            for name in names:
                vars(getattr(m, name)).pop("_save_to_state_dict", None)
    return settings is not None


def disable(model: nn.Module) -> int:
    """Undoes enable(); returns how many modules are as they were again."""
    _models().undo(model)
    vars(model).pop(CALLS, None)
    return sum([withdraw(m) for m in model.modules()])
