# SPDX-License-Identifier: MIT
"""compare(model, inputs): what enable() brings, in one call."""

import copy
import time
from collections import defaultdict
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import nn

from .._rfg import Error
from .modules import CALLS, SETTINGS, disable, enable
from .proof import first

LABELS = {"rope": "attention", "residual": "layer"}  # of modules that are timed with all that is in them


class Comparison(NamedTuple):
    """compare()'s result. Times in seconds, of one forward. by_op: the modules of an operator together, (before, with rfg); they
    are timed one by one, and waited for, so that their sum is more than the forward takes. A layer's contains all in it, an
    attention's and a gated MLP's their linear layers."""

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


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _clock(call: Callable[[Any], Any], inputs: List[Any]) -> float:
    """The median of a run for each of the inputs."""
    times = []
    for one in inputs:
        _synchronise()
        start = time.perf_counter()
        call(one)
        _synchronise()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def _clock_ops(kinds: Dict[nn.Module, str], call: Callable[[Any], Any], inputs: List[Any]) -> Dict[str, float]:
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
        for one in inputs:
            call(one)
    finally:
        for h in hooks:
            h.remove()
    return {name: t / len(inputs) for name, t in total.items()}


def _kinds(model: nn.Module) -> Dict[nn.Module, str]:
    """The replaced modules that are called, by operator: not those whose work is done in one around them, or before."""
    absorbed: Set[nn.Module] = set()
    found: Dict[nn.Module, str] = {}
    for m in model.modules():
        settings = vars(m).get(SETTINGS)
        if settings is not None:
            found[m] = LABELS.get(settings.op, settings.op) if list(m.children()) else settings.op
            absorbed.update(getattr(m, name) for name in getattr(settings, "absorbs", ()) if isinstance(getattr(m, name, None), nn.Module))
            if getattr(settings, "next", None) is not None:
                absorbed.add(settings.next)
    return {m: kind for m, kind in found.items() if m not in absorbed}


def compare(
    model: nn.Module, inputs: Any, ops: Optional[Iterable[str]] = None, most_rows: int = 128, runs: int = 10, show: bool = True
) -> Comparison:
    """Runs a model without rfg and with it: times by operator and of the forward, and how far the outputs differ; prints them
    (show). inputs: a tensor, a tuple of arguments, or a dict of keyword arguments; caches among them are copied for each run.
    The model is left as it was."""
    if runs < 1:
        raise Error("compare: runs: %d: must be at least 1" % runs)
    calls_before = list(vars(model).get(CALLS, ()))

    def call(one: Any) -> Any:
        with torch.no_grad():
            return model(**one) if isinstance(one, dict) else model(*one) if isinstance(one, tuple) else model(one)

    def copies(n: int) -> List[Any]:
        return [copy.deepcopy(inputs) for _ in range(n)]

    disable(model)
    try:
        plain = first(call(copies(1)[0])).float()
        enable(model, ops, most_rows)
        kinds = _kinds(model)
        ours = first(call(copies(1)[0])).float()
        after, after_ops = _clock(call, copies(runs)), _clock_ops(kinds, call, copies(runs))
        disable(model)
        before, before_ops = _clock(call, copies(runs)), _clock_ops(kinds, call, copies(runs))
    finally:
        disable(model)
        for arguments in calls_before:
            enable(model, *arguments)
    by_op = {name: (before_ops[name], after_ops[name]) for name in before_ops if name in after_ops}
    same = float((plain.argmax(-1) == ours.argmax(-1)).float().mean())
    result = Comparison(before, after, by_op, float((plain - ours).abs().max()), float(plain.abs().max()), same)
    if show:
        print(result)
    return result
