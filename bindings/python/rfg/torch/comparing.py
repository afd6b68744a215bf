# SPDX-License-Identifier: MIT
"""compare(model, inputs): measures the gain of enable() in one call."""

import copy
import time
from collections import defaultdict
from statistics import median
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import nn

from .._rfg import Error
from .modules import CALLS, SETTINGS, disable, enable
from .proof import first

LABELS = {"rope": "attention", "residual": "layer"}  # of modules that are timed with all that is in them


TURNS = 4  # of each side: what slows the machine for a while slows both
ENOUGH = 3  # runs without which nothing is known of their spread


class Times(NamedTuple):
    """Of some runs, in seconds: their median, and where the middle half of them lies (of fewer than five: all of them)."""

    median: float
    low: float
    high: float
    runs: int

    @staticmethod
    def of(samples: List[float]) -> "Times":
        s = sorted(samples)
        edge = (len(s) - 1) // 4
        return Times(median(s), s[edge], s[-1 - edge], len(s))

    def __str__(self) -> str:
        return "%.1f us +-%.0f %%" % (self.median * 1e6, (self.high - self.low) / 2 / self.median * 100)


def gain(before: Times, after: Times) -> Optional[float]:
    """How many times as fast the second is; None: no difference that the spread wouldn't explain."""
    known = min(before.runs, after.runs) >= ENOUGH
    return before.median / after.median if known and (before.low > after.high or after.low > before.high) else None


class Comparison(NamedTuple):
    """compare()'s result. Times are of one forward. by_op: the modules of an operator together, (before, with rfg); they
    are timed one by one, and waited for, so that their sum is more than the forward takes. A layer's contains all in it, an
    attention's and a gated MLP's their linear layers."""

    before: Times
    after: Times
    by_op: Dict[str, Tuple[Times, Times]]
    difference: float  #: largest |a - b| of the outputs
    largest: float  #: largest |a| without rfg
    same_argmax: float  #: share of rows whose largest output is the same one

    def __str__(self) -> str:
        lines = ["%-12s %20s %20s  %s" % ("", "before", "rfg", "gain")]
        for name, (a, b) in list(self.by_op.items()) + [("forward", (self.before, self.after))]:
            times = gain(a, b)
            lines.append("%-12s %20s %20s  %s" % (name, a, b, "no difference" if times is None else "%.2fx" % times))
        lines.append("largest difference %.3g of outputs up to %.3g; argmax the same in %.1f %%" % (self.difference, self.largest, self.same_argmax * 100))
        return "\n".join(lines)


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _clock(call: Callable[[Any], Any], inputs: List[Any]) -> List[float]:
    """A run for each of the inputs."""
    times = []
    for one in inputs:
        _synchronise()
        start = time.perf_counter()
        call(one)
        _synchronise()
        times.append(time.perf_counter() - start)
    return times


def _clock_ops(kinds: Dict[nn.Module, str], call: Callable[[Any], Any], inputs: List[Any]) -> Dict[str, List[float]]:
    """By operator, a sum over its modules for each of the inputs."""
    times: Dict[str, List[float]] = defaultdict(list)
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
            total.clear()
            call(one)
            for name, t in total.items():
                times[name].append(t)
    finally:
        for h in hooks:
            h.remove()
    return times


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
    """Runs a model without rfg and with it, in turn: times by operator and of the forward, medians with the spread of the runs, and
    how far the outputs differ; prints them (show). Fewer than 3 runs tell no difference. inputs: a tensor, a tuple of arguments, or a
    dict of keyword arguments; caches among them are copied for each run. The model is left as it was."""
    if runs < 1:
        raise Error("compare: runs: %d: must be at least 1" % runs)
    calls_before = list(vars(model).get(CALLS, ()))

    def call(one: Any) -> Any:
        with torch.no_grad():
            return model(**one) if isinstance(one, dict) else model(*one) if isinstance(one, tuple) else model(one)

    def copies(n: int) -> List[Any]:
        return [copy.deepcopy(inputs) for _ in range(n)]

    forward: Dict[bool, List[float]] = {False: [], True: []}
    by_op: Dict[bool, Dict[str, List[float]]] = {False: defaultdict(list), True: defaultdict(list)}

    def measure(kinds: Dict[nn.Module, str], ours: bool, n: int) -> None:
        call(copies(1)[0])  # what is done once
        forward[ours] += _clock(call, copies(n))
        for name, times in _clock_ops(kinds, call, copies(n)).items():
            by_op[ours][name] += times

    disable(model)
    try:
        plain = first(call(copies(1)[0])).float()
        enable(model, ops, most_rows)
        kinds = _kinds(model)
        ours = first(call(copies(1)[0])).float()
        on, turns = True, min(TURNS, runs)
        for turn in range(turns):
            for side in (on, not on):
                if side and not on:
                    enable(model, ops, most_rows)
                elif on and not side:
                    disable(model)
                on = side
                measure(kinds, on, runs * (turn + 1) // turns - runs * turn // turns)
    finally:
        disable(model)
        for arguments in calls_before:
            enable(model, *arguments)
    named = {name: (Times.of(times), Times.of(by_op[True][name])) for name, times in by_op[False].items() if name in by_op[True]}
    same = float((plain.argmax(-1) == ours.argmax(-1)).float().mean())
    result = Comparison(Times.of(forward[False]), Times.of(forward[True]), named, float((plain - ours).abs().max()), float(plain.abs().max()), same)
    if show:
        print(result)
    return result
