# SPDX-License-Identifier: MIT
"""Mixtures of experts (include/rfg/moe.h). rfg.ops has these functions, too, and says what holds for all operators."""

from typing import Any, NamedTuple, Optional, Tuple

from . import _rfg
from ._arguments import Ctx, Tensor, _shape
from ._hooks import dtype as dtype_number
from .view import empty

MOE_IDENTITY = -2  #: RFG_MOE_IDENTITY, a place of moe_align()
MOE_FORMATS = ("plain", "vllm", "aiter", "contiguous", "masked")  #: rfg_moe_format's


class MoeRows(NamedTuple):
    """The results of moe_align(). None: the format has none, or it wasn't asked for."""

    rows: Tensor
    offsets: Optional[Tensor]
    block_experts: Optional[Tensor]
    count: Optional[Tensor]
    weights_out: Optional[Tensor]
    places: Optional[Tensor]


def moe_align(
    ids: Tensor, experts: int, *, format: str = "plain", block: int = 1, weights: Optional[Tensor] = None,
    expert_map: Optional[Tensor] = None, tokens: Optional[Tensor] = None, places: Any = True, rows: Optional[Tensor] = None,
    offsets: Optional[Tensor] = None, block_experts: Optional[Tensor] = None, count: Optional[Tensor] = None,
    weights_out: Optional[Tensor] = None, identity: int = 0, stream: Any = None, ctx: Ctx = None
) -> MoeRows:
    """rfg_op_moe_align: pairs of tokens and slots of ids [T,k] i32 sorted by expert, stably.

    format: "plain" (rows: tokens, offsets [experts+1]), "vllm", "aiter", "contiguous", "masked" (DeepGEMM's), with segments of whole
    blocks where the format pads. weights [T,k] f32 are sorted along; expert_map [G] i32: ids are indices to it; tokens [1] i32: how many
    tokens count. identity: so many ids behind the experts' stand for the token itself: no row, a place of MOE_IDENTITY. places: True for a new tensor, or False; rows, offsets, block_experts, count, weights_out: tensors in place of new ones."""
    if format not in MOE_FORMATS:
        raise _rfg.Error("moe_align: format: '%s': must be one of %s" % (format, ", ".join(MOE_FORMATS)))
    t, k = _shape("moe_align", "ids", ids, 2)[:2]
    pairs, pads = t * k, format in ("vllm", "aiter", "contiguous")
    most = pairs + min(experts, pairs) * (block - 1)
    if rows is None:
        rows = empty(ids, (experts, t) if format == "masked" else (most // block * block if block > 0 else pairs,), "i32")
    if offsets is None and format == "plain":
        offsets = empty(ids, (experts + 1,), "i32")
    if block_experts is None and pads:
        block_experts = empty(ids, (rows.shape[0] if format == "contiguous" else -(-rows.shape[0] // max(block, 1)),), "i32")
    if count is None and format in ("vllm", "aiter", "masked"):
        count = empty(ids, ({"vllm": 1, "aiter": 2}.get(format, experts),), "i32")
    if weights_out is None and weights is not None:
        weights_out = empty(ids, tuple(rows.shape), "f32")
    if places is True or places is False:
        places = empty(ids, (t, k), "i32") if places else None
    _rfg.moe_align(
        rows, ids, format=MOE_FORMATS.index(format), block=block, experts=experts, offsets=offsets, block_experts=block_experts, count=count,
        weights_out=weights_out, places=places, weights=weights, expert_map=expert_map, tokens=tokens, identity=identity, stream=stream,
        ctx=ctx
    )
    return MoeRows(rows, offsets, block_experts, count, weights_out, places)


def moe_workspace_bytes(y: Tensor, x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor, **params: Any) -> int:
    """rfg_moe_workspace_bytes: bytes of workspace that moe() takes for these tensors and members of rfg_moe_params."""
    return _rfg.moe_workspace_bytes(y, x, w1, w2, ids, weights, **params)


def moe(
    x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor, *, act: str = "silu", gates: str = "halves", limit: float = 0.0,
    alpha: float = 0.0, weights_first: bool = False, fast_accum: bool = False, x_per: str = "tensor", w_per: str = "tensor",
    w1_bias: Optional[Tensor] = None, w2_bias: Optional[Tensor] = None, w1_scale: Optional[Tensor] = None,
    w2_scale: Optional[Tensor] = None, w1_zero: Optional[Tensor] = None, w2_zero: Optional[Tensor] = None,
    x_scale: Optional[Tensor] = None, h_scale: Optional[Tensor] = None, expert_map: Optional[Tensor] = None,
    tokens: Optional[Tensor] = None, residual: Optional[Tensor] = None, experts: int = 0, out: Optional[Tensor] = None, dtype: Any = None,
    workspace: Optional[Tensor] = None, x_codes: Any = None, rounding: str = "exact", situ_beta: float = 0.0,
    situ_linear_beta: float = 0.0, identity: int = 0, identity_x: Optional[Tensor] = None, w1_global: Optional[Tensor] = None,
    w2_global: Optional[Tensor] = None, align: Optional[MoeRows] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_moe: a mixture of experts, Y[t] = sum over slots j of weights[t,j] W2[e] (act(gate) * up), e = ids[t,j] (+ residual[t]).

    x [T,H]; w1 [E,2I,H], gate's rows, then up's, as most checkpoints have them (gates "interleaved": in turn); w2 [E,H,I]; ids
    [T,k] i32; weights [T,k] f32. Formats, scales (w1_global [E] is w_global), zero points, biases, act, limit: as of grouped_gemm(). With w1 and w2 of 8
    bits x and what is between are quantised by row or by block, or by x_scale and h_scale [1]; with x_codes of x's dtype they stay as they are. Of mx
    formats (x_per and w_per "group") to x_codes, by default w1's; rounding: of their e8m0 scales ("exact", which they can't be: "up"). weights_first:
    they multiply before the activation.
    expert_map, tokens: as of moe_align(). identity: so many ids behind the experts' add the token itself times its weight (LongCat), of
    identity_x [T,H], out's dtype, or x. align: moe_align()'s result with weights and places, or moe_gate()'s, which then isn't made again. residual [T,H], out's dtype; may be out. experts: E where w1 hasn't three dimensions.
    workspace: an i8 tensor of moe_workspace_bytes() + 255; None: a new one."""
    if out is None:
        out = empty(x, _shape("moe", "x", x), dtype)
    members = dict(
        act=act, gates=gates, limit=limit, alpha=alpha, weights_first=weights_first, fast_accum=fast_accum, x_per=x_per,
        w_per=w_per, w1_bias=w1_bias, w2_bias=w2_bias, w1_scale=w1_scale, w2_scale=w2_scale, w1_zero=w1_zero, w2_zero=w2_zero,
        x_scale=x_scale, h_scale=h_scale, expert_map=expert_map, tokens=tokens, residual=residual, experts=experts,
        x_codes=0 if x_codes is None else dtype_number(x_codes), rounding=rounding, situ_beta=situ_beta, situ_linear_beta=situ_linear_beta,
        identity=identity, identity_x=identity_x, w1_global=w1_global, w2_global=w2_global
    )
    if align is not None:
        members.update(rows=align.rows, offsets=align.offsets, sorted=align.weights_out, places=align.places)
    size = _rfg.moe_workspace_bytes(out, x, w1, w2, ids, weights, **members, ctx=ctx) if workspace is None else workspace.shape[0] - 255
    if workspace is None:
        workspace = empty(x, (size + 255,), "i8")
    _rfg.moe(out, x, w1, w2, ids, weights, **members, workspace=workspace, workspace_bytes=size, stream=stream, ctx=ctx)
    return out


def moe_sum(
    x: Tensor, places: Tensor, *, weights: Optional[Tensor] = None, residual: Optional[Tensor] = None, tokens: Optional[Tensor] = None,
    identity: Optional[Tensor] = None, identity_weights: Optional[Tensor] = None, out: Optional[Tensor] = None, dtype: Any = None,
    stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_moe_sum: Y[t] = sum over slots j of weights[t,j] X[places[t,j]] (+ residual[t]), in the order of the slots.

    x [R,N] bf16, f16, f32; places [T,k] i32, of moe_align(): one that is no row of x counts as not there; weights [T,k] f32; residual
    [T,N], out's dtype, may be out; tokens [1] i32: rows of out from there on are not written. identity [T,N], x's dtype, and
    identity_weights [T,k] f32: what places of MOE_IDENTITY add. dtype: of a new out, x's if None."""
    if out is None:
        out = empty(x, (_shape("moe_sum", "places", places)[0], _shape("moe_sum", "x", x, 2)[1]), dtype)
    _rfg.moe_sum(
        out, x, places, weights=weights, residual=residual, tokens=tokens, identity=identity, identity_weights=identity_weights,
        stream=stream, ctx=ctx
    )  # fmt: skip
    return out


MOE_SCORINGS = ("softmax", "topk_softmax", "sigmoid", "sqrt_softplus")  #: rfg_moe_scoring's


def moe_route(
    x: Tensor, top: int, *, scoring: str = "softmax", bias: Optional[Tensor] = None, groups: int = 1, topk_groups: int = 0,
    renormalise: bool = False, scale: float = 1.0, shared: int = 0, shared_weight: float = 1.0, tokens: Optional[Tensor] = None,
    table: Optional[Tensor] = None, token_ids: Optional[Tensor] = None, ids: Optional[Tensor] = None, weights: Optional[Tensor] = None,
    stream: Any = None, ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_moe_route: the `top` experts of each token, from the router's logits x [T,E]. Returns (ids i32, weights f32), [T,top+shared].

    scoring: softmax, topk_softmax (gpt-oss), sigmoid (DeepSeek V3, Llama 4), sqrt_softplus; bias [E], f32 or x's dtype, chooses (and with
    topk_softmax weighs). Of `groups` groups only the topk_groups best (0: all) have experts to choose. renormalise: weights over their sum;
    scale: times this. shared: so many experts E, E+1, ... with shared_weight, in each row's last slots. tokens [1] i32: how many rows count.

    table [V,top] i32: the experts themselves (hash routing), of row token_ids[t], i32 or i64 (None: t); only weights are then made."""
    if scoring not in MOE_SCORINGS:
        raise _rfg.Error("moe_route: scoring: '%s': must be one of %s" % (scoring, ", ".join(MOE_SCORINGS)))
    shape = (_shape("moe_route", "x", x)[0], top + shared)
    ids = empty(x, shape, "i32") if ids is None else ids
    weights = empty(x, shape, "f32") if weights is None else weights
    _rfg.moe_route(
        ids, weights, x, scoring=MOE_SCORINGS.index(scoring), bias=bias, groups=groups, topk_groups=topk_groups,
        renormalise=int(renormalise), shared=shared, tokens=tokens, scale=scale, shared_weight=shared_weight if shared else 0.0, table=table,
        token_ids=token_ids, stream=stream, ctx=ctx
    )
    return ids, weights


class MoeGate(NamedTuple):
    """The results of moe_gate(). normed: None without a norm."""

    ids: Tensor
    weights: Tensor
    align: MoeRows
    normed: Optional[Tensor]


def moe_gate(
    x: Tensor, w: Tensor, top: int, *, scoring: str = "softmax", bias: Optional[Tensor] = None, groups: int = 1, topk_groups: int = 0,
    renormalise: bool = False, scale: float = 1.0, shared: int = 0, shared_weight: float = 1.0, tokens: Optional[Tensor] = None,
    norm: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False, w_bias: Optional[Tensor] = None,
    stream: Any = None, ctx: Ctx = None
) -> MoeGate:
    """rfg_op_moe_gate: rmsnorm(), the router's gemm(), moe_route() and moe_align() in one launch, for up to 64 tokens.

    x [T,H] bf16, f16; w [E,H], x's dtype: the router's weights; w_bias [E], x's dtype. norm [H], x's dtype: of the norm, with eps and
    one_plus_weight as of rmsnorm(). The rest as of moe_route(). moe() takes normed as x, and align."""
    if scoring not in MOE_SCORINGS:
        raise _rfg.Error("moe_gate: scoring: '%s': must be one of %s" % (scoring, ", ".join(MOE_SCORINGS)))
    t, experts = _shape("moe_gate", "x", x)[0], _shape("moe_gate", "w", w)[0]
    ids, weights, places = empty(x, (t, top + shared), "i32"), empty(x, (t, top + shared), "f32"), empty(x, (t, top + shared), "i32")
    rows, weights_out = empty(x, (t * (top + shared),), "i32"), empty(x, (t * (top + shared),), "f32")
    offsets = empty(x, (experts + shared + 1,), "i32")
    normed = None if norm is None else empty(x, _shape("moe_gate", "x", x))
    _rfg.moe_gate(
        ids, weights, x, w, scoring=MOE_SCORINGS.index(scoring), bias=bias, groups=groups, topk_groups=topk_groups,
        renormalise=int(renormalise), shared=shared, tokens=tokens, scale=scale, shared_weight=shared_weight if shared else 0.0, norm=norm,
        normed=normed, eps=0.0 if norm is None else eps, one_plus_weight=int(one_plus_weight), w_bias=w_bias, rows=rows, offsets=offsets,
        sorted=weights_out, places=places, stream=stream, ctx=ctx
    )
    return MoeGate(ids, weights, MoeRows(rows, offsets, None, None, weights_out, places), normed)
