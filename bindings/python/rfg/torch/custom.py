# SPDX-License-Identifier: MIT
"""Custom operators torch.ops.rfg.*: rfg's functions for PyTorch's compiler. Each row of OPS is a schema, what computes it
and what its results look like (the meta function); autograd.py has the backwards.

Tensors may have any leading dimensions where rows are meant: they are folded, with a copy if their strides can't be."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _rfg, ops

_library = torch.library.Library("rfg", "DEF")
DEVICES = ("CPU", "CUDA")  # ROCm's tensors are of PyTorch's CUDA key
EPILOGUE_ROWS = 64  # up to which products activate: the products of more are a vendor's as often as not, which has no such epilogue


def _rows(x: Tensor) -> Tensor:
    """[..., N] as [M,N]."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _norm_rows(x: Tensor) -> Tensor:
    """The same for norms, which take [N], [M,N] and [T,H,N] with its strides."""
    return x if x.dim() <= 3 else x.reshape(-1, x.shape[-1])


def _width(w: Tensor) -> Any:
    """N of a weight, plain or prepacked."""
    return w.shape[0] if w.dim() != 5 else w.shape[0] * 16


def _scales(x: Tensor, columns: Any, kind: str) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if kind == "mx":
        return x.new_empty((rows, columns // 32), dtype=_DTYPES["e8m0"])
    return x.new_empty((rows,) if kind == "token" else (rows, (columns + 127) // 128), dtype=torch.float32)


# ---- what computes them ------------------------------------------------------------------------------------------------


def gemm(x: Tensor, w: Tensor, bias: Optional[Tensor] = None, dtype: Optional[torch.dtype] = None) -> Tensor:
    return ops.gemm(_rows(x), w, bias, dtype=dtype).view(*x.shape[:-1], _width(w))


def gemm_batched(x: Tensor, w: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    """x [M,batch,K], w [batch,N,K]."""
    return ops.gemm(x, w, dtype=dtype)


def gemm_scaled(
    x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, x_per: str, w_per: str, dtype: torch.dtype, bias: Optional[Tensor] = None
) -> Tensor:
    """Of 8-bit x and w; per: "tensor", "row", "block"."""
    scales: Any = dict(x_scale=x_scale, w_scale=w_scale, x_per=x_per, w_per=w_per)
    return ops.gemm(_rows(x), w, bias, dtype=dtype, **scales).view(*x.shape[:-1], _width(w))


def gemm_prepack(src: Tensor) -> Tensor:
    return ops.gemm_prepack(src)


def adjoining(parts: Sequence[Tensor]) -> Optional[Tensor]:
    """Tensors that lie one after the other in one storage (enable() has q, k and v's weights so) as one, along their first
    dimension; None: they don't."""
    first, at = parts[0], parts[0].data_ptr()
    storage = first.untyped_storage().data_ptr()
    for p in parts:
        if p.data_ptr() != at or not p.is_contiguous() or p.dtype != first.dtype or p.untyped_storage().data_ptr() != storage:
            return None
        at += p.numel() * p.element_size()
    return first.as_strided((sum(p.shape[0] for p in parts), *first.shape[1:]), first.stride())


def in_turn(gate: Tensor, up: Tensor) -> Optional[Tensor]:
    """Two weights [N,K] whose rows lie in turn in one storage (enable() has gate's and up's so) as one of [2N,K]; None: they don't."""
    if gate.dim() != 2:
        return None
    n, k = gate.shape
    strides, storage = (2 * k, 1), gate.untyped_storage().data_ptr()
    if up.shape != gate.shape or gate.stride() != strides or up.stride() != strides or up.dtype != gate.dtype:
        return None
    if up.untyped_storage().data_ptr() != storage or up.data_ptr() != gate.data_ptr() + k * gate.element_size():
        return None
    return gate.as_strided((2 * n, k), (k, 1))


def linears(x: Tensor, weights: Sequence[Tensor], biases: Optional[Sequence[Tensor]] = None) -> Tensor:
    """Several linear layers of one input, their outputs side by side: one GEMM where the weights adjoin."""
    rows = _rows(x)
    w = adjoining(weights)
    bias = adjoining(biases) if biases else None
    if w is not None and (bias is not None or not biases):
        return ops.gemm(rows, w, bias).view(*x.shape[:-1], w.shape[0])
    y = x.new_empty((rows.shape[0], sum(w.shape[0] for w in weights)))
    at = 0
    for i, w in enumerate(weights):
        ops.gemm(rows, w, biases[i] if biases else None, out=y[:, at : at + w.shape[0]])
        at += w.shape[0]
    return y.view(*x.shape[:-1], at)


def gated_linear(x: Tensor, gate: Tensor, up: Tensor, act: str = "silu") -> Tensor:
    rows, w = _rows(x), in_turn(gate, up)
    if w is None:
        y = ops.act_and_mul(linears(rows, (gate, up)), act)
    elif rows.shape[0] <= EPILOGUE_ROWS:
        y = ops.gemm(rows, w, act=act, gates="interleaved")
    else:
        y = ops.act_and_mul(ops.gemm(rows, w), act, gates="interleaved")
    return y.view(*x.shape[:-1], gate.shape[0])


def act(x: Tensor, act: str = "silu") -> Tensor:
    return ops.act(_rows(x), act).view(x.shape)


def act_and_mul(
    x: Tensor, act: str = "silu", gates: str = "halves", alpha: float = 0.0, limit: float = 0.0, situ_beta: float = 0.0,
    situ_linear_beta: float = 0.0
) -> Tensor:  # fmt: skip
    y = ops.act_and_mul(_rows(x), act, gates=gates, alpha=alpha, limit=limit, situ_beta=situ_beta, situ_linear_beta=situ_linear_beta)
    return y.view(*x.shape[:-1], x.shape[-1] // 2)


def rmsnorm(x: Tensor, weight: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False) -> Tensor:
    return ops.rmsnorm(_norm_rows(x), weight, eps, one_plus_weight=one_plus_weight).view(x.shape)


def layernorm(
    x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False
) -> Tensor:
    return ops.layernorm(_norm_rows(x), weight, bias, eps, one_plus_weight=one_plus_weight).view(x.shape)


def add_rmsnorm(
    x: Tensor, residual: Tensor, weight: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False
) -> Tuple[Tensor, Tensor]:
    y, out = ops.add_rmsnorm(_norm_rows(x), _norm_rows(residual), weight, eps, one_plus_weight=one_plus_weight)
    return y.view(x.shape), out.view(x.shape)


def add_layernorm(
    x: Tensor, residual: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-6,
    one_plus_weight: bool = False
) -> Tuple[Tensor, Tensor]:
    y, out = ops.add_layernorm(_norm_rows(x), _norm_rows(residual), weight, bias, eps, one_plus_weight=one_plus_weight)
    return y.view(x.shape), out.view(x.shape)


def act_quant(
    x: Tensor, dtype: torch.dtype, act: str = "none", kind: str = "token", rounding: Optional[str] = None
) -> Tuple[Tensor, Tensor]:
    quant = ops.new_quant(x, kind, dtype, tuple(_rows(x).shape), rounding)
    ops.act(_rows(x), act, quant=quant)
    return quant.q.view(x.shape), quant.scale


def act_and_mul_quant(
    x: Tensor, dtype: torch.dtype, act: str = "silu", kind: str = "token", rounding: Optional[str] = None
) -> Tuple[Tensor, Tensor]:
    rows, n = _rows(x), x.shape[-1] // 2
    quant = ops.new_quant(x, kind, dtype, (rows.shape[0], n), rounding)
    ops.act_and_mul(rows, act, quant=quant)
    return quant.q.view(*x.shape[:-1], n), quant.scale


def rmsnorm_quant(
    x: Tensor, weight: Optional[Tensor], dtype: torch.dtype, eps: float = 1e-6, one_plus_weight: bool = False, kind: str = "token",
    rounding: Optional[str] = None
) -> Tuple[Tensor, Tensor]:
    quant = ops.new_quant(x, kind, dtype, tuple(_rows(x).shape), rounding)
    ops.rmsnorm(_rows(x), weight, eps, one_plus_weight=one_plus_weight, quant=quant)
    return quant.q.view(x.shape), quant.scale


def add_rmsnorm_quant(
    x: Tensor, residual: Tensor, weight: Optional[Tensor], dtype: torch.dtype, eps: float = 1e-6, one_plus_weight: bool = False,
    kind: str = "token", rounding: Optional[str] = None
) -> Tuple[Tensor, Tensor, Tensor]:
    quant = ops.new_quant(x, kind, dtype, tuple(_rows(x).shape), rounding)
    _, out = ops.add_rmsnorm(_rows(x), _rows(residual), weight, eps, one_plus_weight=one_plus_weight, quant=quant)
    return quant.q.view(x.shape), quant.scale, out.view(x.shape)


def embedding(ids: Tensor, table: Tensor, scale: float = 0.0, first: int = 0, dtype: Optional[torch.dtype] = None) -> Tensor:
    y = ops.embedding(ids.reshape(-1).contiguous(), table, scale=scale, first=first, dtype=dtype)
    return y.view(*ids.shape, table.shape[1])


def dequantize(q: Tensor, scale: Tensor, dtype: torch.dtype, group_rows: int = 0, group_cols: int = 0) -> Tensor:
    return ops.dequantize(q, scale, group_rows=group_rows, group_cols=group_cols, dtype=dtype)


_QUANTIZED = "str rounding=\"exact\", int reciprocal=0, float max=0.0, float floor_amax=0.0, float floor_scale=0.0, float zero_scale=0.0"
_DTYPES = {"f32": torch.float32, "e8m0": getattr(torch, "float8_e8m0fnu", torch.uint8)}


def quantize(
    x: Tensor, dtype: torch.dtype, group_rows: int = 0, group_cols: int = 0, scale_dtype: str = "f32", rounding: str = "exact",
    reciprocal: int = 0, max: float = 0.0, floor_amax: float = 0.0, floor_scale: float = 0.0, zero_scale: float = 0.0
) -> Tuple[Tensor, Tensor]:
    q, scale = ops.quantize(
        _rows(x), dtype, group_rows=group_rows, group_cols=group_cols, scale_dtype=scale_dtype, rounding=rounding,
        reciprocal=reciprocal, max=max, floor_amax=floor_amax, floor_scale=floor_scale, zero_scale=zero_scale
    )
    return q.view(x.shape), scale


def _quantized(
    x: Tensor, dtype: torch.dtype, group_rows: int = 0, group_cols: int = 0, scale_dtype: str = "f32", *_: Any, **__: Any
) -> Tuple[Tensor, Tensor]:
    rows = x.numel() // x.shape[-1] if group_rows else 1
    cols = (x.shape[-1] + group_cols - 1) // group_cols if group_cols else 1
    return x.new_empty(x.shape, dtype=dtype), x.new_empty((rows, cols), dtype=_DTYPES[scale_dtype])


def quantize_given(x: Tensor, scale: Tensor, dtype: torch.dtype, reciprocal: int = 0, max: float = 0.0) -> Tensor:
    given = scale.detach().reshape(1, 1)
    return ops.quantize(_rows(x), dtype, given, scale_given=True, reciprocal=reciprocal, max=max)[0].view(x.shape)


def quantize_scale(
    x: Tensor, codes: torch.dtype, scale_dtype: str = "f32", rounding: str = "exact", reciprocal: int = 0, max: float = 0.0,
    floor_amax: float = 0.0, floor_scale: float = 0.0, zero_scale: float = 0.0
) -> Tensor:
    return ops.quantize_scale(
        _rows(x), codes, scale_dtype=scale_dtype, rounding=rounding, reciprocal=reciprocal, max=max, floor_amax=floor_amax,
        floor_scale=floor_scale, zero_scale=zero_scale
    )


_ATTENTION = ("scale", "soft_cap", "causal", "window", "sinks", "alibi", "k_scale", "v_scale")
_OF_MHA = _ATTENTION + ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "block_table", "kv_lens")
_OF_DECODE = ("block_table", "kv_lens") + _ATTENTION + ("max_seqlen_k", "mean_seqlen_k")


def _named(names: Sequence[str], rest: Sequence[Any], options: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments by name: PyTorch's dispatcher gives them by place. (Tensors that it takes by name only have no autograd.)"""
    options.update(zip(names, rest))
    if "window" in options:
        options["window"] = options["window"][0] if len(options["window"]) == 1 else options["window"]
    return options


def mha(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tensor:
    return ops.mha(q, k, v, **_named(_OF_MHA, rest, options))


def mha_lse(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tuple[Tensor, Tensor]:
    lse = _lse(q)
    return ops.mha(q, k, v, lse=lse, **_named(_OF_MHA, rest, options)), lse


def mha_decode(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tensor:
    return ops.mha_decode(q, k, v, **_named(_OF_DECODE, rest, options))


def rope(
    q: Tensor, k: Tensor, cos_sin: Tensor, positions: Tensor, gptj: bool = False, last: bool = False, backward: bool = False,
    mrope_interleaved: bool = False, sections: Sequence[int] = (), offset: int = 0
) -> Tuple[Tensor, Tensor]:
    options: Dict[str, Any] = dict(gptj=gptj, last=last, backward=backward, mrope_interleaved=mrope_interleaved, sections=sections)
    return ops.rope(q, k, cos_sin, positions, **options, offset=offset)


def kv_append(
    k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, slots: Tensor, k_scale: Optional[Tensor] = None,
    v_scale: Optional[Tensor] = None
) -> None:
    ops.kv_append(k_cache, v_cache, k, v, slots, k_scale=k_scale, v_scale=v_scale)


def rope_append(
    k_cache: Tensor, v_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, cos_sin: Tensor, positions: Tensor, slots: Tensor,
    q_norm: Optional[Tensor] = None, k_norm: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False,
    k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None, gptj: bool = False, last: bool = False, offset: int = 0
) -> Tensor:
    options: Dict[str, Any] = dict(q_norm=q_norm, k_norm=k_norm, eps=eps, one_plus_weight=one_plus_weight, k_scale=k_scale, v_scale=v_scale)
    return ops.rope_append(k_cache, v_cache, q, k, v, cos_sin, positions, slots, rope={"gptj": gptj, "last": last, "offset": offset}, **options)


def advance(
    kv_lens: Tensor, positions: Tensor, slots: Optional[Tensor] = None, block_table: Optional[Tensor] = None, page: int = 0,
    accepted: Optional[Tensor] = None, active: Optional[Tensor] = None, spare: Optional[Tensor] = None, spare_count: Optional[Tensor] = None
) -> None:
    options: Dict[str, Any] = dict(slots=slots, block_table=block_table, page=page, accepted=accepted, active=active)
    ops.advance(kv_lens, positions, **options, spare=spare, spare_count=spare_count)


def moe_route(x: Tensor, top: int, *rest: Any, **options: Any) -> Tuple[Tensor, Tensor]:
    options.update(zip("scoring bias groups topk_groups renormalise scale shared shared_weight tokens table token_ids".split(), rest))
    if options.get("token_ids") is not None:
        options["token_ids"] = options["token_ids"].reshape(-1)
    ids, weights = ops.moe_route(_rows(x), top, **options)
    return ids.view(*x.shape[:-1], -1), weights.view(*x.shape[:-1], -1)


def moe_align(
    ids: Tensor, experts: int, expert_map: Optional[Tensor] = None, tokens: Optional[Tensor] = None, identity: int = 0
) -> Tuple[Tensor, Tensor, Tensor]:
    """(rows, offsets, places) of the plain format: what grouped products take."""
    made = ops.moe_align(_rows(ids), experts, expert_map=expert_map, tokens=tokens, identity=identity)
    return made.rows, made.offsets, made.places


def moe_sum(
    x: Tensor, places: Tensor, weights: Optional[Tensor] = None, residual: Optional[Tensor] = None, tokens: Optional[Tensor] = None,
    identity: Optional[Tensor] = None, identity_weights: Optional[Tensor] = None
) -> Tensor:  # fmt: skip
    options: Dict[str, Any] = dict(identity=identity, identity_weights=identity_weights)
    return ops.moe_sum(x, places, weights=weights, residual=residual, tokens=tokens, **options)


_OF_MOE = (
    "act gates limit alpha weights_first x_per w_per w1_bias w2_bias w1_scale w2_scale w1_zero w2_zero x_scale h_scale expert_map tokens residual "
    "x_codes dtype situ_beta situ_linear_beta identity identity_x w1_global w2_global"
).split()


def moe(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor, *rest: Any, **options: Any) -> Tensor:
    options.update(zip(_OF_MOE, rest))
    if options.get("residual") is not None:
        options["residual"] = _rows(options["residual"])
    if options.get("identity_x") is not None:
        options["identity_x"] = _rows(options["identity_x"])
    return ops.moe(_rows(x), w1, w2, _rows(ids), _rows(weights), **options).view(x.shape)


def lora(
    y: Tensor, x: Tensor, a: Tensor, b: Tensor, ids: Tensor, indptr: Optional[Tensor] = None, scales: Optional[Tensor] = None,
    ranks: Optional[Tensor] = None, scale: float = 1.0
) -> None:
    ops.lora(y, x, a, b, ids, indptr=indptr, scales=scales, ranks=ranks, scale=scale)


_OF_MLA = "block_table kv_lens dv q_rope soft_cap causal kv_indptr kv_indices sinks kv_scale max_seqlen_k".split()


def mla_decode(q: Tensor, kv: Tensor, scale: float, *rest: Any, **options: Any) -> Tensor:
    options.update(zip(_OF_MLA, rest))
    return ops.mla_decode(q, kv, scale=scale, **options)


def mla_decode_lse(q: Tensor, kv: Tensor, scale: float, *rest: Any, **options: Any) -> Tuple[Tensor, Tensor]:
    lse = _latent_lse(q)
    return mla_decode(q, kv, scale, *rest, lse=lse, **options), lse


def _latent_lse(q: Tensor) -> Tensor:
    """[B,Hq,Sq] of [B,Sq,Hq,D], [B,Hq] of [B,Hq,D]."""
    shape = q.shape[:2] if q.dim() == 3 else (q.shape[0], q.shape[2], q.shape[1])
    return q.new_empty(shape, dtype=torch.float32)


def _latent(q: Tensor, kv: Tensor, scale: float, *rest: Any, **options: Any) -> Tensor:
    options.update(zip(_OF_MLA, rest))
    whole = options.get("q_rope") is None and q.shape[-1] == 576
    return q.new_empty((*q.shape[:-1], options.get("dv") or (512 if whole else q.shape[-1])))


def merge_states(o: Tensor, lse: Tensor, base2: bool = False) -> Tuple[Tensor, Tensor]:
    return ops.merge_states(o, lse, base2=base2)


def argmax(x: Tensor) -> Tensor:
    return ops.argmax(_rows(x)).view(x.shape[:-1])


_OF_SAMPLE = "temperature top_k top_p min_p repetition frequency presence bias counts prompt joint".split()


def sample(logits: Tensor, seed: Tensor, offset: Tensor, *rest: Any, **options: Any) -> Tensor:
    options.update(zip(_OF_SAMPLE, rest))
    return ops.sample(logits, seed, offset, **options)


def _lse(q: Tensor) -> Tensor:
    """[B,Hq,Sq] of [B,Sq,Hq,D], [Hq,T] of [T,Hq,D]."""
    shape = q.shape[:-3] + (q.shape[-2], q.shape[-3])
    return q.new_empty(shape, dtype=torch.float32)


def _attended(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    dv = v.shape[-1] if k.dim() != 5 else v.shape[2]
    return q.new_empty((*q.shape[:-1], dv * 2 if v.dtype == torch.uint8 else dv))  # i4: two in a byte


def _mixed(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor, *rest: Any, **options: Any) -> Tensor:
    options.update(zip(_OF_MOE, rest))
    return x.new_empty(x.shape, dtype=options.get("dtype") or x.dtype)


# ---- schemas and meta functions ----------------------------------------------------------------------------------------

_MHA = (
    "float scale=0.0, float soft_cap=0.0, bool causal=False, int[1] window=0, Tensor? sinks=None, Tensor? alibi=None, "
    "Tensor? k_scale=None, Tensor? v_scale=None, "
)
_PREFILL = (
    "(Tensor q, Tensor k, Tensor v, " + _MHA + "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, SymInt max_seqlen_q=0, "
    "SymInt max_seqlen_k=0, Tensor? block_table=None, Tensor? kv_lens=None)"
)
_MLA = (
    "(Tensor q, Tensor kv, float scale, Tensor? block_table=None, Tensor? kv_lens=None, SymInt dv=0, Tensor? q_rope=None, "
    "float soft_cap=0.0, bool causal=False, Tensor? kv_indptr=None, Tensor? kv_indices=None, Tensor? sinks=None, "
    "Tensor? kv_scale=None, SymInt max_seqlen_k=0)"
)
_NORM = "float eps=1e-6, bool one_plus_weight=False"

Op = Tuple[Callable[..., Any], str, Callable[..., Any]]
OPS: List[Op] = [
    (
        gemm,
        "(Tensor x, Tensor w, Tensor? bias=None, ScalarType? dtype=None) -> Tensor",
        lambda x, w, bias=None, dtype=None: x.new_empty((*x.shape[:-1], _width(w)), dtype=dtype or x.dtype),
    ),
    (
        gemm_batched,
        "(Tensor x, Tensor w, ScalarType? dtype=None) -> Tensor",
        lambda x, w, dtype=None: x.new_empty((*x.shape[:-1], w.shape[1]), dtype=dtype or x.dtype),
    ),
    (
        gemm_scaled,
        "(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, str x_per, str w_per, ScalarType dtype, Tensor? bias=None) -> Tensor",
        lambda x, w, x_scale, w_scale, x_per, w_per, dtype, bias=None: x.new_empty((*x.shape[:-1], _width(w)), dtype=dtype),
    ),
    (
        gemm_prepack,
        "(Tensor src) -> Tensor",
        lambda src: src.new_empty((src.shape[0] // 16, src.shape[1] // 32, 4, 16, 8)),
    ),
    (
        linears,
        "(Tensor x, Tensor[] weights, Tensor[]? biases=None) -> Tensor",
        lambda x, weights, biases=None: x.new_empty((*x.shape[:-1], sum(w.shape[0] for w in weights))),
    ),
    (
        gated_linear,
        '(Tensor x, Tensor gate, Tensor up, str act="silu") -> Tensor',
        lambda x, gate, up, act="silu": x.new_empty((*x.shape[:-1], gate.shape[0])),
    ),
    (act, '(Tensor x, str act="silu") -> Tensor', lambda x, act="silu": x.new_empty(x.shape)),
    (
        act_and_mul,
        '(Tensor x, str act="silu", str gates="halves", float alpha=0.0, float limit=0.0, float situ_beta=0.0, float situ_linear_beta=0.0) -> Tensor',
        lambda x, *_, **__: x.new_empty((*x.shape[:-1], x.shape[-1] // 2)),
    ),
    (rmsnorm, "(Tensor x, Tensor? weight=None, " + _NORM + ") -> Tensor", lambda x, *_, **__: x.new_empty(x.shape)),
    (
        layernorm,
        "(Tensor x, Tensor? weight=None, Tensor? bias=None, " + _NORM + ") -> Tensor",
        lambda x, *_, **__: x.new_empty(x.shape),
    ),
    (
        add_rmsnorm,
        "(Tensor x, Tensor residual, Tensor? weight=None, " + _NORM + ") -> (Tensor, Tensor)",
        lambda x, residual, *_, **__: (x.new_empty(x.shape), residual.new_empty(x.shape)),
    ),
    (
        add_layernorm,
        "(Tensor x, Tensor residual, Tensor? weight=None, Tensor? bias=None, " + _NORM + ") -> (Tensor, Tensor)",
        lambda x, residual, *_, **__: (x.new_empty(x.shape), residual.new_empty(x.shape)),
    ),
    (
        act_quant,
        '(Tensor x, ScalarType dtype, str act="none", str kind="token", str? rounding=None) -> (Tensor, Tensor)',
        lambda x, dtype, act="none", kind="token", rounding=None: (x.new_empty(x.shape, dtype=dtype), _scales(x, x.shape[-1], kind)),
    ),
    (
        act_and_mul_quant,
        '(Tensor x, ScalarType dtype, str act="silu", str kind="token", str? rounding=None) -> (Tensor, Tensor)',
        lambda x, dtype, act="silu", kind="token", rounding=None: (
            x.new_empty((*x.shape[:-1], x.shape[-1] // 2), dtype=dtype),
            _scales(x, x.shape[-1] // 2, kind),
        ),
    ),
    (
        rmsnorm_quant,
        "(Tensor x, Tensor? weight, ScalarType dtype, " + _NORM + ', str kind="token", str? rounding=None) -> (Tensor, Tensor)',
        lambda x, weight, dtype, eps=0.0, one_plus_weight=False, kind="token", rounding=None: (
            x.new_empty(x.shape, dtype=dtype),
            _scales(x, x.shape[-1], kind),
        ),
    ),
    (
        add_rmsnorm_quant,
        "(Tensor x, Tensor residual, Tensor? weight, ScalarType dtype, " + _NORM + ', str kind="token", str? rounding=None) -> (Tensor, Tensor, Tensor)',
        lambda x, residual, weight, dtype, eps=0.0, one_plus_weight=False, kind="token", rounding=None: (
            x.new_empty(x.shape, dtype=dtype),
            _scales(x, x.shape[-1], kind),
            residual.new_empty(x.shape),
        ),
    ),
    (
        embedding,
        "(Tensor ids, Tensor table, float scale=0.0, int first=0, ScalarType? dtype=None) -> Tensor",
        lambda ids, table, scale=0.0, first=0, dtype=None: table.new_empty((*ids.shape, table.shape[1]), dtype=dtype or table.dtype),
    ),
    (
        dequantize,
        "(Tensor q, Tensor scale, ScalarType dtype, SymInt group_rows=0, SymInt group_cols=0) -> Tensor",
        lambda q, scale, dtype, *_, **__: q.new_empty(q.shape, dtype=dtype),
    ),
    (
        quantize,
        '(Tensor x, ScalarType dtype, SymInt group_rows=0, SymInt group_cols=0, str scale_dtype="f32", ' + _QUANTIZED + ") -> (Tensor, Tensor)",
        _quantized,
    ),
    (
        quantize_given,
        "(Tensor x, Tensor scale, ScalarType dtype, int reciprocal=0, float max=0.0) -> Tensor",
        lambda x, scale, dtype, *_, **__: x.new_empty(x.shape, dtype=dtype),
    ),
    (
        quantize_scale,
        '(Tensor x, ScalarType codes, str scale_dtype="f32", ' + _QUANTIZED + ") -> Tensor",
        lambda x, codes, scale_dtype="f32", *_, **__: x.new_empty((1, 1), dtype=_DTYPES[scale_dtype]),
    ),
    (mha, _PREFILL + " -> Tensor", _attended),
    (mha_lse, _PREFILL + " -> (Tensor, Tensor)", lambda q, k, v, *_, **__: (_attended(q, k, v), _lse(q))),
    (
        mha_decode,
        "(Tensor q, Tensor k, Tensor v, Tensor? block_table=None, Tensor? kv_lens=None, "
        + _MHA
        + "SymInt max_seqlen_k=0, SymInt mean_seqlen_k=0) -> Tensor",
        _attended,
    ),
    (
        rope,
        "(Tensor q, Tensor k, Tensor cos_sin, Tensor positions, bool gptj=False, bool last=False, bool backward=False, "
        "bool mrope_interleaved=False, int[] sections=[], int offset=0) -> (Tensor, Tensor)",
        lambda q, k, *_, **__: (q.new_empty(q.shape), k.new_empty(k.shape)),
    ),
    (
        kv_append,
        "(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, Tensor slots, Tensor(c!)? k_scale=None, Tensor(d!)? v_scale=None) -> ()",
        lambda *_, **__: None,
    ),
    (
        rope_append,
        "(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor q, Tensor k, Tensor v, Tensor cos_sin, Tensor positions, Tensor slots, "
        "Tensor? q_norm=None, Tensor? k_norm=None, " + _NORM + ", Tensor(c!)? k_scale=None, Tensor(d!)? v_scale=None, bool gptj=False, "
        "bool last=False, int offset=0) -> Tensor",
        lambda k_cache, v_cache, q, *_, **__: q.new_empty(q.shape),
    ),
    (
        advance,
        "(Tensor(a!) kv_lens, Tensor(b!) positions, Tensor(c!)? slots=None, Tensor(d!)? block_table=None, int page=0, "
        "Tensor? accepted=None, Tensor? active=None, Tensor? spare=None, Tensor(e!)? spare_count=None) -> ()",
        lambda *_, **__: None,
    ),
    (
        moe_route,
        '(Tensor x, int top, str scoring="softmax", Tensor? bias=None, int groups=1, int topk_groups=0, bool renormalise=False, float scale=1.0, '
        "int shared=0, float shared_weight=1.0, Tensor? tokens=None, Tensor? table=None, Tensor? token_ids=None) -> (Tensor, Tensor)",
        lambda x, top, scoring="", bias=None, groups=1, topk_groups=0, renormalise=False, scale=1.0, shared=0, *_, **__: (
            x.new_empty((*x.shape[:-1], top + shared), dtype=torch.int32),
            x.new_empty((*x.shape[:-1], top + shared), dtype=torch.float32),
        ),
    ),
    (
        moe_align,
        "(Tensor ids, int experts, Tensor? expert_map=None, Tensor? tokens=None, int identity=0) -> (Tensor, Tensor, Tensor)",
        lambda ids, experts, *_, **__: (
            ids.new_empty((ids.numel(),)),
            ids.new_empty((experts + 1,)),
            ids.new_empty((ids.numel() // ids.shape[-1], ids.shape[-1])),
        ),
    ),
    (
        moe_sum,
        "(Tensor x, Tensor places, Tensor? weights=None, Tensor? residual=None, Tensor? tokens=None, Tensor? identity=None, "
        "Tensor? identity_weights=None) -> Tensor",
        lambda x, places, *_, **__: x.new_empty((places.shape[0], x.shape[1])),
    ),
    (
        moe,
        '(Tensor x, Tensor w1, Tensor w2, Tensor ids, Tensor weights, str act="silu", str gates="halves", float limit=0.0, float alpha=0.0, '
        'bool weights_first=False, str x_per="tensor", str w_per="tensor", Tensor? w1_bias=None, Tensor? w2_bias=None, Tensor? w1_scale=None, '
        "Tensor? w2_scale=None, Tensor? w1_zero=None, Tensor? w2_zero=None, Tensor? x_scale=None, Tensor? h_scale=None, Tensor? expert_map=None, "
        "Tensor? tokens=None, Tensor? residual=None, ScalarType? x_codes=None, ScalarType? dtype=None, float situ_beta=0.0, "
        "float situ_linear_beta=0.0, int identity=0, Tensor? identity_x=None, Tensor? w1_global=None, Tensor? w2_global=None) -> Tensor",
        _mixed,
    ),
    (
        lora,
        "(Tensor(a!) y, Tensor x, Tensor a, Tensor b, Tensor ids, Tensor? indptr=None, Tensor? scales=None, Tensor? ranks=None, "
        "float scale=1.0) -> ()",
        lambda *_, **__: None,
    ),
    (mla_decode, _MLA + " -> Tensor", _latent),
    (
        mla_decode_lse,
        _MLA + " -> (Tensor, Tensor)",
        lambda q, kv, scale, *rest, **options: (_latent(q, kv, scale, *rest, **options), _latent_lse(q)),
    ),
    (
        merge_states,
        "(Tensor o, Tensor lse, bool base2=False) -> (Tensor, Tensor)",
        lambda o, lse, *_, **__: (o.new_empty(o.shape[1:]), lse.new_empty(lse.shape[1:])),
    ),
    (argmax, "(Tensor x) -> Tensor", lambda x: x.new_empty(x.shape[:-1], dtype=torch.int64)),
    (
        sample,
        "(Tensor logits, Tensor seed, Tensor offset, Tensor? temperature=None, Tensor? top_k=None, Tensor? top_p=None, "
        "Tensor? min_p=None, Tensor? repetition=None, Tensor? frequency=None, Tensor? presence=None, Tensor? bias=None, "
        "Tensor? counts=None, Tensor? prompt=None, bool joint=False) -> Tensor",
        lambda logits, *_, **__: logits.new_empty(logits.shape[:1], dtype=torch.int64),
    ),
]


def define(rows: List[Op]) -> None:
    for function, schema, meta in rows:
        name = function.__name__
        _library.define(name + schema)
        for key in DEVICES:
            _library.impl(name, function, key)
        torch.library.register_fake("rfg::" + name, meta, lib=_library)


define(OPS)
