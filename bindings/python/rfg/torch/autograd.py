# SPDX-License-Identifier: MIT
"""Backwards of the custom operators, in PyTorch's own operators: rfg has kernels for the forward only. Operators without one say so
when a gradient is asked for."""

from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import Tensor

from .._rfg import Error
from . import custom, model_ops

Grads = Tuple[Optional[Tensor], ...]


def _sum_rows(g: Tensor) -> Tensor:
    return g.reshape(-1, g.shape[-1]).sum(0)


def _save(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
    """Tensors among the inputs are saved as such, the rest as it is."""
    ctx.save_for_backward(*[x if isinstance(x, Tensor) else None for x in inputs])
    ctx.rest = [None if isinstance(x, Tensor) else x for x in inputs]


def gemm(ctx: Any, g: Tensor) -> Grads:
    x, w, bias = ctx.saved_tensors[:3]
    if w.dim() != 2:
        raise Error("gemm: there is no backward with a prepacked w: give the plain one")
    rows, g = x.reshape(-1, x.shape[-1]), g.to(x.dtype).reshape(-1, w.shape[0])
    gx = (g @ w).view(x.shape) if ctx.needs_input_grad[0] else None
    gw = g.t() @ rows if ctx.needs_input_grad[1] else None
    gb = g.sum(0).to(bias.dtype) if bias is not None and ctx.needs_input_grad[2] else None
    return gx, gw, gb, None


def _rms(s: Tensor, weight: Optional[Tensor], eps: float, plus: bool, g: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
    """Of y = s / sqrt(mean(s^2) + eps) w, in fp32: gradients of s and w."""
    s, g = s.float(), g.float()
    r = torch.rsqrt(s.square().mean(-1, keepdim=True) + eps)
    scaled = g if weight is None else g * (weight.float() + (1 if plus else 0))
    gs = r * (scaled - s * r * r * (scaled * s).mean(-1, keepdim=True))
    return gs, None if weight is None else _sum_rows(g * s * r).to(weight.dtype)


def rmsnorm(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors[:2]
    gx, gw = _rms(x, weight, ctx.rest[2], ctx.rest[3], g)
    return gx.to(x.dtype), gw, None, None


def _save_sum(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
    x, residual, weight, eps, plus = inputs
    ctx.save_for_backward(output[1], weight)
    ctx.rest = x.dtype, residual.dtype, eps, plus


def add_rmsnorm(ctx: Any, g: Optional[Tensor], g_sum: Optional[Tensor]) -> Grads:
    s, weight = ctx.saved_tensors
    x_dtype, residual_dtype, eps, plus = ctx.rest
    gs, gw = (torch.zeros_like(s, dtype=torch.float32), None) if g is None else _rms(s, weight, eps, plus, g)
    if g_sum is not None:
        gs = gs + g_sum.float()
    return gs.to(x_dtype), gs.to(residual_dtype), gw, None, None


def _act_backward(g: Tensor, a: Tensor, act: str) -> Tensor:
    if act == "silu":
        return torch.ops.aten.silu_backward(g, a)
    if act in ("gelu", "gelu_tanh"):
        return torch.ops.aten.gelu_backward(g, a, approximate="tanh" if act == "gelu_tanh" else "none")
    if act == "relu":
        return g * (a > 0)
    if act == "relu2":
        return g * 2 * torch.relu(a)
    if act == "none":
        return g
    raise Error("act: there is no backward of %s" % act)


_FORWARD: Dict[str, Callable[[Tensor], Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda a: torch.nn.functional.gelu(a, approximate="tanh"),
    "relu": torch.relu,
    "relu2": lambda a: torch.relu(a).square(),
    "none": lambda a: a,
}


def act(ctx: Any, g: Tensor) -> Grads:
    (x, _), name = ctx.saved_tensors, ctx.rest[1]
    return _act_backward(g.float(), x.float(), name).to(x.dtype), None


def act_and_mul(ctx: Any, g: Tensor) -> Grads:
    x = ctx.saved_tensors[0]
    name, interleaved, limit = ctx.rest[1], ctx.rest[2] == "interleaved", ctx.rest[4]
    pairs = x.float().unflatten(-1, (-1, 2) if interleaved else (2, -1))
    dim = -1 if interleaved else -2
    a, b = pairs.select(dim, 0), pairs.select(dim, 1)
    g, most = g.float(), limit or torch.inf
    within_a, within_b = a <= most, b.abs() <= most  # where they are clamped nothing comes back
    a, b = a.clamp(max=most), b.clamp(-most, most)
    ga = _act_backward(g * b, a, name) * within_a
    return torch.stack((ga, g * _FORWARD[name](a) * within_b), dim).flatten(-2).to(x.dtype), None, None, None, None, None, None


def embedding(ctx: Any, g: Tensor) -> Grads:
    ids, table = ctx.saved_tensors[:2]
    scale, first = ctx.rest[2:4]
    rows = ids.reshape(-1).long() - first
    there = (rows >= 0) & (rows < table.shape[0])
    g = g.reshape(-1, g.shape[-1]).float() * there.unsqueeze(-1) * (scale or 1.0)
    gt = torch.zeros(table.shape, dtype=torch.float32, device=table.device)
    return None, gt.index_add(0, torch.where(there, rows, 0), g).to(table.dtype), None, None, None


def gated_linear(ctx: Any, g: Tensor) -> Grads:
    x, gate, up, _ = ctx.saved_tensors
    name = ctx.rest[3]
    rows, g = x.reshape(-1, x.shape[-1]), g.reshape(-1, gate.shape[0]).float()
    a, b = (rows @ gate.t()).float(), (rows @ up.t()).float()
    ga = _act_backward(g * b, a, name).to(x.dtype)
    gb = (g * _FORWARD[name](a)).to(x.dtype)
    return (ga @ gate + gb @ up).view(x.shape), ga.t() @ rows, gb.t() @ rows, None


def rope(ctx: Any, gq: Optional[Tensor], gk: Optional[Tensor]) -> Grads:
    """Rotated back by the same angles."""
    q, k, cos_sin, positions = ctx.saved_tensors[:4]
    gptj, last, backward, interleaved, sections, offset = ctx.rest[4:10]
    gq, gk = (torch.zeros_like(x) if g is None else g.to(x.dtype).contiguous() for g, x in ((gq, q), (gk, k)))
    return torch.ops.rfg.rope(gq, gk, cos_sin, positions, gptj, last, not backward, interleaved, sections, offset) + (None,) * 8


BACKWARDS: Dict[str, Tuple[Callable[..., Grads], Callable[..., None]]] = {
    "gemm": (gemm, _save),
    "gated_linear": (gated_linear, _save),
    "rmsnorm": (rmsnorm, _save),
    "add_rmsnorm": (add_rmsnorm, _save_sum),
    "act": (act, _save),
    "act_and_mul": (act_and_mul, _save),
    "embedding": (embedding, _save),
    "rope": (rope, _save),
}


def _none(name: str) -> Callable[..., Grads]:
    def backward(ctx: Any, *grads: Any) -> Grads:
        raise Error("rfg::%s: has no backward: call it under torch.no_grad(), or use PyTorch's own operator for training" % name)

    return backward


for _function, _schema, _meta in custom.OPS + model_ops.OPS:
    _name = _function.__name__
    if "!" in _schema:
        continue  # what writes to its arguments has no autograd: PyTorch refuses it
    _backward, _setup = BACKWARDS.get(_name, (_none(_name), None))
    torch.library.register_autograd("rfg::" + _name, _backward, setup_context=_setup, lib=custom._library)
