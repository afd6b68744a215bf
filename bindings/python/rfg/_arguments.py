# SPDX-License-Identifier: MIT
"""What the functions of operators share: types of their arguments, and shapes of their outputs."""

from typing import Any, NamedTuple, Optional, Tuple

from . import _rfg
from .view import empty

Tensor = Any  #: torch.Tensor, numpy.ndarray, rfg.View
Ctx = Optional[_rfg.Context]


class Quant(NamedTuple):
    """rfg_quant: a quantised output.

    kind      "static" (scale [1] is read), "token" (one a row), "group" (one for each 128 columns of a row), "mx" (one for each 32)
    q         the output's shape, e4m3, e4m3fnuz, e5m2 or i8; of mx e4m3 or e2m1
    scale     f32: static [1], token [M], group [M, ceil(N / 128)]; mx: e8m0 [M, N / 32]
    rounding  of mx scales: up, down, even, ceil"""

    kind: str
    q: Tensor
    scale: Tensor
    rounding: str = "exact"


def _shape(op: str, name: str, tensor: Any, least: int = 1) -> Tuple[int, ...]:
    """A tensor's shape, for an output like it. An argument that is no tensor, or has too few dimensions, is an error that names it."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise _rfg.Error("%s: %s is %s: must be a tensor" % (op, name, "None" if tensor is None else "a " + type(tensor).__name__))
    if len(shape) < least:
        raise _rfg.Error("%s: %s has %d dimensions: must have at least %d" % (op, name, len(shape), least))
    return tuple(shape)


def new_quant(like: Tensor, kind: str, dtype: Any, shape: Optional[Tuple[int, ...]] = None, rounding: Optional[str] = None) -> Quant:
    """A Quant of new tensors for an output of like's shape (or of another), kind "token", "group" or "mx" (rounding: "up" if None)."""
    shape = _shape("new_quant", "like", like) if shape is None else tuple(shape)
    rows = 1
    for n in shape[:-1]:
        rows *= n
    if kind not in ("token", "group", "mx"):
        raise _rfg.Error("new_quant: kind: '%s': must be token, group or mx (static has a scale of the caller's)" % kind)
    mx = kind == "mx"
    scales = (rows,) if kind == "token" else (rows, -(-shape[-1] // (32 if mx else 128)))
    return Quant(kind, empty(like, shape, dtype), empty(like, scales, "e8m0" if mx else "f32"), rounding or ("up" if mx else "exact"))
