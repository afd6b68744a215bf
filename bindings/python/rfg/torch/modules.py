# SPDX-License-Identifier: MIT
"""enable(model): modules of torch.nn, and those of Hugging Face transformers that look like them, compute with rfg. disable(model)
has them as they were. compare(model, inputs) says what it brings."""

import time
from collections import defaultdict
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from .._rfg import Error
from . import custom

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
FORWARD = "_rfg_forward"  # attribute of a replaced module: the operator's name


class Report(NamedTuple):
    """What enable() did: names of modules with their class, and the operator or the reason."""

    replaced: List[Tuple[str, str, str]]
    kept: List[Tuple[str, str, str]]

    def __str__(self) -> str:
        lines = []
        for title, rows, sign in (("replaced", self.replaced, "->"), ("kept", self.kept, "--")):
            groups: Dict[Tuple[str, str], List[str]] = defaultdict(list)
            for name, kind, why in rows:
                groups[kind, why].append(name)
            lines.append("%s: %d modules" % (title, len(rows)))
            for (kind, why), names in groups.items():
                lines.append("  %d x %s %s %s (%s%s)" % (len(names), kind, sign, why, names[0], ", ..." if len(names) > 1 else ""))
        return "\n".join(lines)


Forward = Callable[..., Any]


def _plain(x: Tensor, weight: Optional[Tensor]) -> bool:
    """Does rfg compute what the module would? Not under autocast, which chooses dtypes by PyTorch's operators."""
    kind = x.device.type
    return (weight is None or x.dtype == weight.dtype) and x.dtype in DTYPES and not torch.is_autocast_enabled(kind)


def _ops(x: Tensor) -> Any:
    """Where the operators are: without PyTorch's dispatcher, which takes more than a short kernel does, where nothing is lost by it."""
    compiling = torch.compiler.is_compiling() or torch.is_grad_enabled() or type(x) is not Tensor
    return torch.ops.rfg if compiling or torch._C._len_torch_dispatch_stack() else custom


def _linear(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    if m.weight.stride(-1) != 1:
        return "its weight's rows aren't contiguous"

    def forward(x: Tensor) -> Tensor:
        if x.dim() == 0 or x.numel() > most_rows * x.shape[-1] or not _plain(x, m.weight) or x.stride(-1) != 1:
            return old(x)
        return _ops(x).gemm(x, m.weight, m.bias)

    return forward


def _rmsnorm(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    eps = getattr(m, "variance_epsilon", getattr(m, "eps", None))
    shape = getattr(m, "normalized_shape", None)
    if shape is not None and len(shape) != 1:
        return "it normalises over %d dimensions" % len(shape)
    if m.weight is not None and m.weight.dim() != 1:
        return "its weight has %d dimensions" % m.weight.dim()
    if eps is None and shape is None:
        return "its epsilon isn't known"
    plus = type(m).__name__.startswith("Gemma")

    def forward(x: Tensor) -> Tensor:
        if not _plain(x, m.weight):
            return old(x)
        return _ops(x).rmsnorm(x, m.weight, torch.finfo(x.dtype).eps if eps is None else eps, plus)

    return forward


def _layernorm(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    if len(m.normalized_shape) != 1:
        return "it normalises over %d dimensions" % len(m.normalized_shape)

    def forward(x: Tensor) -> Tensor:
        if not _plain(x, m.weight) or (torch.is_grad_enabled() and (x.requires_grad or (m.weight is not None and m.weight.requires_grad))):
            return old(x)  # rfg has no backward
        return _ops(x).layernorm(x, m.weight, m.bias, m.eps)

    return forward


def _embedding(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    if m.max_norm is not None or m.scale_grad_by_freq or m.sparse:
        return "it has max_norm, scale_grad_by_freq or sparse"
    if m.padding_idx is not None and m.weight.requires_grad and m.training:
        return "it is trained with a padding_idx"

    def forward(ids: Tensor) -> Tensor:
        if ids.dtype not in (torch.int32, torch.int64):
            return old(ids)
        return _ops(ids).embedding(ids, m.weight)

    return forward


def _act_name(m: Any) -> Optional[str]:
    if isinstance(m, nn.GELU):
        return "gelu_tanh" if m.approximate == "tanh" else "gelu"
    names = {"SiLU": "silu", "SiLUActivation": "silu", "ReLU": "relu", "GELUActivation": "gelu", "PytorchGELUTanh": "gelu_tanh"}
    names.update(GELUTanh="gelu_tanh", ReLUSquaredActivation="relu2")
    return names.get(type(m).__name__)


def _act(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    name = _act_name(m)
    if getattr(m, "inplace", False):
        return "it works in place"

    def forward(x: Tensor) -> Tensor:
        return _ops(x).act(x, name) if x.dim() and _plain(x, None) else old(x)

    return forward


def _gated(m: Any, old: Forward, most_rows: int) -> Union[Forward, str]:
    name = _act_name(m.act_fn)
    if name is None:
        return "its activation, %s, isn't rfg's" % type(m.act_fn).__name__
    if m.gate_proj.bias is not None or m.up_proj.bias is not None:
        return "its projections have biases"

    def forward(x: Tensor) -> Tensor:
        gate, up = m.gate_proj.weight, m.up_proj.weight
        if x.numel() > most_rows * x.shape[-1] or not _plain(x, gate) or gate.dtype != up.dtype:
            return old(x)
        return m.down_proj(_ops(x).gated_linear(x, gate, up, name))

    return forward


def _is_gated(m: Any) -> bool:
    parts = [getattr(m, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    return all(type(p) is nn.Linear for p in parts) and hasattr(m, "act_fn") and len(list(m.children())) <= 4


# Which modules an operator replaces; the first that fits.
RULES: List[Tuple[str, Callable[[Any], bool], Callable[[Any, Forward, int], Union[Forward, str]]]] = [
    ("linear", lambda m: type(m) is nn.Linear, _linear),
    ("layernorm", lambda m: type(m) is nn.LayerNorm, _layernorm),
    ("embedding", lambda m: type(m) is nn.Embedding, _embedding),
    ("rmsnorm", lambda m: type(m).__name__.endswith("RMSNorm") and isinstance(getattr(m, "weight", 0), (Tensor, type(None))), _rmsnorm),
    ("act", lambda m: _act_name(m) is not None, _act),
    ("gated", _is_gated, _gated),
]
OPS = tuple(name for name, _, _ in RULES)


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


def enable(model: nn.Module, ops: Optional[Iterable[str]] = None, most_rows: int = 128) -> Report:
    """Has the modules of a model compute with rfg, and says which. They keep their parameters, hooks and names.

    ops        of "linear", "layernorm", "embedding", "rmsnorm", "act", "gated" (an MLP with gate_proj, up_proj, down_proj and
               act_fn); None: all
    most_rows  linear layers of more rows stay PyTorch's

    A call that rfg doesn't take (autocast, another dtype of the input) is computed as before. Attention and RoPE stay the model's."""
    wanted = OPS if ops is None else tuple(ops)
    for name in wanted:
        if name not in OPS:
            raise Error("enable: ops: '%s': must be of %s" % (name, ", ".join(OPS)))
    report = Report([], [])
    for name, m in model.named_modules():
        if FORWARD in vars(m):
            continue  # enabled before
        rule = next((r for r in RULES if r[1](m)), None)
        kind = type(m).__name__
        if rule is None:
            if next(m.children(), None) is None:
                report.kept.append((name, kind, "rfg has no operator for it"))
            continue
        why: Union[Forward, str] = "not asked for" if rule[0] not in wanted else _why_not(m)
        if not why:
            why = rule[2](m, m.forward, most_rows)
        if isinstance(why, str):
            report.kept.append((name, kind, why))
        else:
            vars(m)["forward"] = why
            vars(m)[FORWARD] = rule[0]
            report.replaced.append((name, kind, rule[0]))
    return report


def disable(model: nn.Module) -> int:
    """Undoes enable(); returns how many modules are as they were again."""
    n = 0
    for m in model.modules():
        if vars(m).pop(FORWARD, None) is not None:
            del vars(m)["forward"]
            n += 1
    return n


class Comparison(NamedTuple):
    """compare()'s result. Times in seconds, of one forward. by_op: the modules of an operator together, (before, with rfg); they
    are timed one by one, and waited for, so that their sum is more than the forward takes. A gated MLP's contains its linears'."""

    before: float
    after: float
    by_op: Dict[str, Tuple[float, float]]
    difference: float  #: largest |a - b| of the outputs
    largest: float  #: largest |a| without rfg
    same_argmax: float  #: share of rows whose largest output is the same one

    def __str__(self) -> str:
        lines = ["%-12s %10s %10s %8s" % ("", "before us", "rfg us", "gain")]
        for name, (a, b) in list(self.by_op.items()) + [("forward", (self.before, self.after))]:
            lines.append("%-12s %10.1f %10.1f %7.2fx" % (name, a * 1e6, b * 1e6, a / b))
        lines.append("largest difference %.3g of outputs up to %.3g; argmax the same in %.1f %%" % (self.difference, self.largest, self.same_argmax * 100))
        return "\n".join(lines)


def _first(output: Any) -> Tensor:
    """The tensor that a model's output is about: logits, or the first."""
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        return _first(next(iter(output.values())))
    return _first(output[0])


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _clock(call: Callable[[], Any], runs: int) -> float:
    """The median of so many runs."""
    times = []
    for _ in range(runs):
        _synchronise()
        start = time.perf_counter()
        call()
        _synchronise()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def _clock_ops(kinds: Dict[nn.Module, str], call: Callable[[], Any], runs: int) -> Dict[str, float]:
    total: Dict[str, float] = defaultdict(float)
    began: Dict[nn.Module, float] = {}

    def before(m: nn.Module, *_: Any) -> None:
        _synchronise()
        began[m] = time.perf_counter()

    def after(m: nn.Module, *_: Any) -> None:
        _synchronise()
        total[kinds[m]] += time.perf_counter() - began[m]

    hooks = [h for m in kinds for h in (m.register_forward_pre_hook(before), m.register_forward_hook(after))]
    try:
        for _ in range(runs):
            call()
    finally:
        for h in hooks:
            h.remove()
    return {name: t / runs for name, t in total.items()}


def compare(model: nn.Module, inputs: Any, ops: Optional[Iterable[str]] = None, most_rows: int = 128, runs: int = 10) -> Comparison:
    """Runs a model without rfg and with it: times by operator and of the forward, and how far the outputs differ. inputs: a
    tensor, a tuple of arguments, or a dict of keyword arguments. The model is left as it was."""
    enabled_before = {m: vars(m)["forward"] for m in model.modules() if FORWARD in vars(m)}
    names_before = {m: vars(m)[FORWARD] for m in enabled_before}

    def call() -> Any:
        with torch.no_grad():
            return model(**inputs) if isinstance(inputs, dict) else model(*inputs) if isinstance(inputs, tuple) else model(inputs)

    disable(model)
    try:
        plain = _first(call()).float()
        enable(model, ops, most_rows)
        kinds: Dict[nn.Module, str] = {m: vars(m)[FORWARD] for m in model.modules() if FORWARD in vars(m)}
        ours = _first(call()).float()
        after, after_ops = _clock(call, runs), _clock_ops(kinds, call, runs)
        disable(model)
        before, before_ops = _clock(call, runs), _clock_ops(kinds, call, runs)
    finally:
        disable(model)
        for m, forward in enabled_before.items():
            vars(m)["forward"], vars(m)[FORWARD] = forward, names_before[m]
    by_op = {name: (before_ops[name], after_ops[name]) for name in before_ops if name in after_ops}
    same = float((plain.argmax(-1) == ours.argmax(-1)).float().mean())
    return Comparison(before, after, by_op, float((plain - ours).abs().max()), float(plain.abs().max()), same)
