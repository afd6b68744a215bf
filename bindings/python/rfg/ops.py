# SPDX-License-Identifier: MIT
"""The operators of include/rfg/*.h, one function each. The headers say shapes, dtypes, aliasing, errors and formulas.

Tensors are PyTorch's (any device that rfg has), NumPy's and rfg.view()'s (cpu); nothing is copied. All tensors of a call are
on one device. Outputs are new tensors, or the ones given as out=. Calls are asynchronous on PyTorch's current stream, or on
stream=; on cpu the result is there on return. ctx=: a rfg.Context in place of the device's default one.

None of these has a backward, and PyTorch's compiler can't look into them: rfg.torch has those. What C refuses is an rfg.Error."""

from array import array
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _rfg
from ._arguments import Ctx, Tensor, _shape
from ._arguments import Quant as Quant, new_quant as new_quant
from ._hooks import dtype as dtype_number
from .moe import (
    MOE_FORMATS as MOE_FORMATS, MOE_IDENTITY as MOE_IDENTITY, MoeGate as MoeGate, MoeRows as MoeRows, moe as moe,
    moe_align as moe_align, moe_gate as moe_gate, moe_route as moe_route, moe_sum as moe_sum,
    moe_workspace_bytes as moe_workspace_bytes
)
from .view import empty, view

Window = Union[int, Tuple[int, int]]


def gemm(
    x: Tensor, w: Tensor, bias: Optional[Tensor] = None, *, out: Optional[Tensor] = None, dtype: Any = None,
    w_scale: Optional[Tensor] = None, residual: Optional[Tensor] = None, act: Optional[str] = None, x_scale: Optional[Tensor] = None,
    x_per: str = "tensor", w_per: str = "tensor", fast_accum: bool = False, w_zero: Optional[Tensor] = None, gates: str = "halves",
    limit: float = 0.0, alpha: float = 0.0, situ_beta: float = 0.0, situ_linear_beta: float = 0.0, y_scale: Optional[Tensor] = None,
    w_global: Optional[Tensor] = None, w_group: int = 0,
    stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_gemm: Y[M,N] = X[M,K] W[N,K]^T (+ bias[N]) (+ residual), a linear layer (torch.nn.functional.linear).

    x [M,K] bf16, f16, f32; w [N,K], x's dtype, or of gemm_prepack(); bias [N], x's dtype or f32; dtype: of a new out.
    residual [M,N], out's dtype; may be out. act ("silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai", "situ", "swiglustep"): w's rows
    are gate's, then up's (gates "interleaved": in turn), and Y[M,N/2] = act(gate) * up, both within limit; the numbers are act_and_mul()'s.

    x and w of codes, e4m3, e4m3fnuz, e5m2 or i8 (then dtype or out says what Y is): x_scale, w_scale, f32 or e8m0, per "tensor" [1], "row"
    [M], [N], or "block" [M,ceil(K/128)], [ceil(N/128),ceil(K/128)]; bias [N], Y's dtype or f32. x and w of mx formats, e4m3 or e2m1 by e2m1,
    e4m3 by e4m3: both per "group", e8m0 [M,K/32], [N,K/32]; of a w of gemm_prepack() w_scale is of it, too.
    fast_accum, of fp8: sums may be the matrix unit's own, of 14 bits. y_scale [1] f32: of an out of codes, which is round(Y / y_scale).

    w of e4m3, e4m3fnuz, e5m2 or i8 with x of bf16 or f16, also of gemm_prepack(): w_scale bf16, f16, f32 or e8m0, w_per as above, or "group"
    [N,K/group], groups of a multiple of 32 columns.

    Batched, x [M,batch,K] and w [batch,N,K], of one dtype, alone: Y[M,batch,N] (torch.bmm of w transposed).

    w of i4 or e2m1 (a rfg.view(); rfg.weights makes it) with x of bf16 or f16: w_scale [N,ceil(K/group)] (i4: bf16, f16, f32; e2m1:
    e8m0, or e4m3 of nvfp4), w_zero [N,ceil(K/group)] i8 (i4 only), w_global [1] f32 (nvfp4 only): multiplies all of w_scale. w_group: columns
    of a group, if the last one is shorter."""
    if out is None:
        shape = _shape("gemm", "w", w)
        n = shape[0] if len(shape) != 5 else shape[0] * 16
        rows = _shape("gemm", "x", x)
        out = empty(x, (rows[0], rows[1], shape[1]) if len(rows) == len(shape) == 3 else (rows[0], n // 2 if act else n), dtype)
    plain = bias is None and w_scale is None and residual is None and act is None and x_scale is None and w_zero is None and y_scale is None
    if plain and not fast_accum and w_global is None and not w_group:
        _rfg.gemm(out, x, w, stream=stream, ctx=ctx)
    else:
        _rfg.gemm(
            out, x, w, bias=bias, w_scale=w_scale, residual=residual, gated=act is not None, act=act or "silu", x_scale=x_scale,
            x_per=x_per, w_per=w_per, fast_accum=fast_accum, w_zero=w_zero, gates=gates, limit=limit, alpha=alpha,
            situ_beta=situ_beta, situ_linear_beta=situ_linear_beta, y_scale=y_scale,
            w_global=w_global, w_group=w_group, stream=stream, ctx=ctx
        )
    return out


def grouped_gemm(
    x: Tensor, w: Tensor, offsets: Tensor, rows: Optional[Tensor] = None, weights: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, *, out: Optional[Tensor] = None, dtype: Any = None, w_scale: Optional[Tensor] = None,
    act: Optional[str] = None, x_scale: Optional[Tensor] = None, x_per: str = "tensor", w_per: str = "tensor", fast_accum: bool = False,
    w_zero: Optional[Tensor] = None, gates: str = "halves", limit: float = 0.0, alpha: float = 0.0, situ_beta: float = 0.0,
    situ_linear_beta: float = 0.0, y_scale: Optional[Tensor] = None, w_global: Optional[Tensor] = None, w_group: int = 0,
    stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_gemm of experts: rows offsets[e] to offsets[e+1] - 1 of Y are products with expert e's w (torch's grouped_mm).

    w [E,N,K] (or of gemm_prepack() of [E N,K]); offsets [E+1] i32, read when the kernel runs: rows of out that are no expert's aren't
    written. rows [M] i32: row i of Y is made of row rows[i] of x; None: of row i. weights [M] f32: rows are multiplied by them, before an
    act. bias [E,N], w_scale and w_zero are the experts' one after the other, w_global is [E]. The rest: as for gemm()."""
    if out is None:
        experts = _shape("grouped_gemm", "offsets", offsets)[0] - 1
        shape = _shape("grouped_gemm", "w", w)
        n = shape[1] if len(shape) == 3 else shape[0] * (16 if len(shape) == 5 else 1) // max(experts, 1)
        m = _shape("grouped_gemm", "x", x)[0] if rows is None else _shape("grouped_gemm", "rows", rows)[0]
        out = empty(x, (m, n // 2 if act else n), dtype)
    _rfg.gemm(
        out, x, w, bias=bias, w_scale=w_scale, gated=act is not None, act=act or "silu", x_scale=x_scale, x_per=x_per, w_per=w_per,
        fast_accum=fast_accum, w_zero=w_zero, gates=gates, offsets=offsets, rows=rows, weights=weights, limit=limit,
        alpha=alpha, situ_beta=situ_beta, situ_linear_beta=situ_linear_beta, y_scale=y_scale, w_global=w_global, w_group=w_group,
        stream=stream, ctx=ctx
    )
    return out


def gemm_prepack(
    src: Tensor, *, groups: bool = False, pad: int = 0, out: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_gemm_prepack: a weight [N,K] laid out as matrix cores load it, [N/16, K/32, 4, 16, 8]; N % 16 = 0, K % 32 = 0.

    Of 8 bits [N/16, K/64, 4, 16, 16], K % 64 = 0. Of i4 or e2m1 [N/16, ceil(K/128), 4, 16, 32]; and, with groups, its w_scale or w_zero [N,K/group] as [N/16, K/group + pad, 16]:
    where K isn't a multiple of 128 groups are padded to those of the next one."""
    if out is None:
        n, k = _shape("gemm_prepack", "src", src, 2)[:2]
        kind = src.dtype if isinstance(src.dtype, str) else "i8" if src.dtype.itemsize == 1 else "f16"  # a view has a name
        chunk = 32 if kind in ("i4", "e2m1") else 8 if kind in ("bf16", "f16") else 16
        out = empty(src, (n // 16, k + pad, 16) if groups else (n // 16, -(-k // (4 * chunk)), 4, 16, chunk))
    _rfg.gemm_prepack(out, src, stream=stream, ctx=ctx)
    return out


def act(
    x: Tensor, act: str = "silu", *, out: Optional[Tensor] = None, quant: Optional[Quant] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_act: Y[M,N] = act(X). act: silu, gelu, gelu_tanh, relu, relu2, none.

    With quant the quantised output is written; the plain one too if there is an out, which may be x; else None is returned."""
    if out is None and quant is None:
        out = empty(x, _shape("act", "x", x))
    _rfg.act(out, x, act=act, quant=quant, stream=stream, ctx=ctx)
    return out


def act_and_mul(
    x: Tensor, act: str = "silu", *, out: Optional[Tensor] = None, gates: str = "halves", alpha: float = 0.0, limit: float = 0.0,
    situ_beta: float = 0.0, situ_linear_beta: float = 0.0, quant: Optional[Quant] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_act_and_mul: Y[M,N] = act(A) B with X = [A, B] of [M,2N] (silu_and_mul of vLLM and AITER).

    act: silu, gelu, gelu_tanh, relu, relu2, swigluoai (alpha), situ (situ_beta, situ_linear_beta; inf: B as it is), swiglustep, none. limit: A is at
    most that, B within it, before (swiglustep: after; 0: those 7, others none). gates "interleaved": a row of x is a0 b0 a1 b1 ... quant: as for act()."""
    if out is None and quant is None:
        shape = _shape("act_and_mul", "x", x)
        out = empty(x, (*shape[:-1], shape[-1] // 2))
    _rfg.act_and_mul(
        out, x, act=act, gates=gates, alpha=alpha, limit=limit, situ_beta=situ_beta, situ_linear_beta=situ_linear_beta, quant=quant,
        stream=stream, ctx=ctx
    )  # fmt: skip
    return out


def rmsnorm(
    x: Tensor, weight: Optional[Tensor] = None, eps: float = 1e-6, *, out: Optional[Tensor] = None, one_plus_weight: bool = False,
    quant: Optional[Quant] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_rmsnorm: Y = X / sqrt(mean(X^2) + eps) * weight, row by row. x [M,N] (or [N], [T,H,N]); weight [N], x's dtype or
    f32, None: 1; one_plus_weight: the weight is 1 + w (Gemma). out may be x. quant: as for act()."""
    if out is None and quant is None:
        out = empty(x, _shape("rmsnorm", "x", x))
    _rfg.rmsnorm(out, x, weight, eps=eps, one_plus_weight=one_plus_weight, quant=quant, stream=stream, ctx=ctx)
    return out


def layernorm(
    x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-6, *, out: Optional[Tensor] = None,
    one_plus_weight: bool = False, quant: Optional[Quant] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_layernorm: Y = (X - mean(X)) / sqrt(var(X) + eps) * weight + bias, row by row. All else as for rmsnorm().
    (torch.nn.LayerNorm's eps is 1e-5.)"""
    if out is None and quant is None:
        out = empty(x, _shape("layernorm", "x", x))
    _rfg.layernorm(out, x, weight, eps=eps, one_plus_weight=one_plus_weight, quant=quant, bias=bias, stream=stream, ctx=ctx)
    return out


def add_rmsnorm(
    x: Tensor, residual: Tensor, weight: Optional[Tensor] = None, eps: float = 1e-6, *, out: Optional[Tensor] = None,
    residual_out: Optional[Tensor] = None, one_plus_weight: bool = False, quant: Optional[Quant] = None, stream: Any = None,
    ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_add_rmsnorm: residual_out = X + residual, Y = rmsnorm(residual_out) (fused_add_rms_norm of vLLM and AITER).
    residual: x's dtype or f32. out may be x, residual_out may be residual: in place. Returns (out, residual_out)."""
    if out is None and quant is None:
        out = empty(x, _shape("add_rmsnorm", "x", x))
    if residual_out is None:
        residual_out = empty(residual, _shape("add_rmsnorm", "residual", residual))
    _rfg.add_rmsnorm(
        out, residual_out, x, residual, weight, eps=eps, one_plus_weight=one_plus_weight, quant=quant, stream=stream, ctx=ctx
    )
    return out, residual_out


def add_layernorm(
    x: Tensor, residual: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-6, *,
    out: Optional[Tensor] = None, residual_out: Optional[Tensor] = None, one_plus_weight: bool = False, quant: Optional[Quant] = None,
    stream: Any = None, ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_add_layernorm: the same with layernorm(). Returns (out, residual_out)."""
    if out is None and quant is None:
        out = empty(x, _shape("add_layernorm", "x", x))
    if residual_out is None:
        residual_out = empty(residual, _shape("add_layernorm", "residual", residual))
    options: Dict[str, Any] = dict(eps=eps, one_plus_weight=one_plus_weight, quant=quant, bias=bias)
    _rfg.add_layernorm(out, residual_out, x, residual, weight, **options, stream=stream, ctx=ctx)
    return out, residual_out


def embedding(
    ids: Tensor, table: Tensor, *, scale: float = 0.0, first: int = 0, dtype: Any = None, out: Optional[Tensor] = None, stream: Any = None,
    ctx: Ctx = None
) -> Tensor:
    """rfg_op_embedding: Y[m] = scale table[ids[m] - first], zeros for ids that aren't the table's. ids [M] i32 or i64,
    table [V,N]; scale 0: 1; first: the id of the table's first row (vocabulary-parallel ranks)."""
    if out is None:
        out = empty(table, (_shape("embedding", "ids", ids)[0], _shape("embedding", "table", table, 2)[1]), dtype)
    _rfg.embedding(out, ids, table, scale=scale, first=first, stream=stream, ctx=ctx)
    return out


def dequantize(
    q: Tensor, scale: Tensor, *, group_rows: int = 0, group_cols: int = 0, dtype: Any = "bf16", out: Optional[Tensor] = None,
    stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_dequantize: Y[m,n] = Q[m,n] scale[m / group_rows, n / group_cols]. q [M,N] e4m3, e4m3fnuz, e5m2, i8; scale [R,C] f32 or
    e8m0, row- or column-major; groups of 0: all rows, all columns. dtype: of a new out, bf16, f16 or f32."""
    if out is None:
        out = empty(q, _shape("dequantize", "q", q), dtype)
    _rfg.dequantize(out, q, scale, group_rows=group_rows, group_cols=group_cols, stream=stream, ctx=ctx)
    return out


def quantize(
    x: Tensor, dtype: Any = None, scale: Optional[Tensor] = None, *, group_rows: int = 0, group_cols: int = 0, scale_given: bool = False,
    scale_dtype: Any = "f32", rounding: str = "exact", reciprocal: int = 0, max: float = 0.0, floor_amax: float = 0.0,
    floor_scale: float = 0.0, zero_scale: float = 0.0, smooth: Optional[Tensor] = None, global_scale: Optional[Tensor] = None,
    out: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_quantize: Q[m,n] = round(X[m,n] / scale[m / group_rows, n / group_cols]). Returns (q, scale).

    x [M,N] bf16, f16, f32; dtype, of a new q: e4m3, e4m3fnuz, e5m2, i8. Scales: (group_rows, group_cols) = (0, 0) one, (1, 0) one a
    row, (1, 32 | 64 | 128) groups; of scale_dtype f32 or e8m0; scale: a tensor for them, row- or column-major, or with scale_given
    the one to take. rounding: exact, up, down, even, ceil; reciprocal: flags, 1: of max, 2: of the scale; smooth [N], f32 or x's dtype: factors of
    x's columns (SmoothQuant); the rest as in C, 0: none. nvfp4: dtype e2m1, (1, 16), scale_dtype e4m3, global_scale [1] f32 (C's global)."""
    if out is None:
        out = empty(x, _shape("quantize", "x", x), dtype)
    if scale is None:
        rows = _shape("quantize", "x", x)[0] if group_rows else 1
        scale = empty(x, (rows, -(-_shape("quantize", "x", x, 2)[1] // group_cols) if group_cols else 1), scale_dtype)
    _rfg.quantize(
        out, scale, x, group_rows=group_rows, group_cols=group_cols, scale_given=scale_given, rounding=rounding, reciprocal=reciprocal,
        max=max, floor_amax=floor_amax, floor_scale=floor_scale, zero_scale=zero_scale, smooth=smooth, stream=stream, ctx=ctx,
        **({} if global_scale is None else {"global": global_scale})
    )
    return out, scale


def quantize_scale(
    x: Tensor, codes: Any, *, scale_dtype: Any = "f32", rounding: str = "exact", reciprocal: int = 0, max: float = 0.0,
    floor_amax: float = 0.0, floor_scale: float = 0.0, zero_scale: float = 0.0, out: Optional[Tensor] = None, stream: Any = None,
    ctx: Ctx = None
) -> Tensor:
    """rfg_op_quantize_scale: the one scale of x [M,N] for codes of a dtype (e4m3, e4m3fnuz, e5m2, i8), [1,1]. All else as for
    quantize(), which takes it with scale_given."""
    if out is None:
        out = empty(x, (1, 1), scale_dtype)
    _rfg.quantize_scale(
        out, x, codes=dtype_number(codes), rounding=rounding, reciprocal=reciprocal, max=max, floor_amax=floor_amax,
        floor_scale=floor_scale, zero_scale=zero_scale, stream=stream, ctx=ctx
    )
    return out


def _window(window: Any) -> Dict[str, int]:
    if hasattr(window, "__index__"):
        return dict(window=window, window_left=0, window_right=0)
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise _rfg.Error("mha: window: %s: must be how many keys a query sees, or (keys before, keys after)" % (window,))
    return dict(window=-1, window_left=window[0], window_right=window[1])  # RFG_MHA_WINDOW_SIDES


def _cache(t: Any) -> Any:
    """A cache of uint8 holds i4, two in a byte."""
    return view(t, "i4") if str(getattr(t, "dtype", "")) in ("uint8", "torch.uint8") else t


def mha(
    q: Tensor, k: Tensor, v: Tensor, *, out: Optional[Tensor] = None, scale: float = 0.0, soft_cap: float = 0.0, causal: bool = False,
    window: Window = 0, sinks: Optional[Tensor] = None, alibi: Optional[Tensor] = None, lse: Optional[Tensor] = None,
    k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None, cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None, max_seqlen_q: int = 0, max_seqlen_k: int = 0, block_table: Optional[Tensor] = None,
    kv_lens: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_mha: prefill attention. q [B,Sq,Hq,D], k [B,Skv,Hkv,D], v [B,Skv,Hkv,Dv]; causal is aligned to the bottom right.

    scale 0: 1 / sqrt(D); window: how many keys a query sees, its own the last of them (with causal, or one query of mha_decode());
    or (keys before, keys after) its own, -1: all; sinks, alibi [Hq] f32; lse: an output,
    [B,Hq,Sq] f32; k_scale, v_scale: of k and v of codes ([1], [Hkv], or k's shape but for D; uint8 is i4, two in a byte). cu_seqlens_q, cu_seqlens_k [B+1] int32 and max_seqlen_q: ragged batches
    without a batch dimension. block_table, kv_lens: k and v are a paged cache."""
    k, v = _cache(k), _cache(v)
    if out is None:
        v_shape = _shape("mha", "v", v)
        dv = v_shape[-1] if len(v_shape) != 4 or len(_shape("mha", "k", k)) != 5 else v_shape[2]
        out = empty(q, _shape("mha", "q", q)[:-1] + (dv,))
    _rfg.mha(
        out, q, k, v,
        scale=scale, soft_cap=soft_cap, causal=causal, **_window(window),
        sinks=sinks, alibi=alibi, lse=lse, k_scale=k_scale, v_scale=v_scale, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, block_table=block_table,
        kv_lens=kv_lens, stream=stream, ctx=ctx,
    )  # fmt: skip
    return out


def mha_decode(
    q: Tensor, k: Tensor, v: Tensor, block_table: Optional[Tensor] = None, kv_lens: Optional[Tensor] = None, *,
    out: Optional[Tensor] = None, scale: float = 0.0, soft_cap: float = 0.0, causal: bool = False,
    window: Window = 0, sinks: Optional[Tensor] = None, alibi: Optional[Tensor] = None, lse: Optional[Tensor] = None,
    k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None, max_seqlen_k: int = 0, mean_seqlen_k: int = 0, stream: Any = None,
    ctx: Ctx = None
) -> Tensor:
    """rfg_op_mha_decode: 1 to 8 queries a sequence against a cache of pages. q [B,Hq,D] or [B,Sq,Hq,D];
    k, v [blocks,page,Hkv,D], or vLLM's older form (k [blocks,Hkv,D/x,page,x], v [blocks,Hkv,D,page]).

    block_table [B,n] int32; None: block b is all of sequence b. kv_lens [B] int32. mean_seqlen_k: about how many keys a
    sequence has, 0: not known. The rest as for mha()."""
    k, v = _cache(k), _cache(v)
    if out is None:
        v_shape = _shape("mha_decode", "v", v, 3)
        dv = v_shape[-1] if len(_shape("mha_decode", "k", k)) != 5 else v_shape[2]
        out = empty(q, _shape("mha_decode", "q", q)[:-1] + (dv,))
    _rfg.mha_decode(
        out, q, k, v,
        scale=scale, soft_cap=soft_cap, causal=causal, **_window(window),
        sinks=sinks, alibi=alibi, lse=lse, k_scale=k_scale, v_scale=v_scale, max_seqlen_k=max_seqlen_k,
        mean_seqlen_k=mean_seqlen_k, block_table=block_table, kv_lens=kv_lens, stream=stream, ctx=ctx,
    )  # fmt: skip
    return out


def lora(
    y: Tensor, x: Tensor, a: Tensor, b: Tensor, ids: Tensor, *, indptr: Optional[Tensor] = None, scales: Optional[Tensor] = None,
    ranks: Optional[Tensor] = None, scale: float = 1.0, stream: Any = None, ctx: Ctx = None
) -> None:
    """rfg_op_lora: y[m] += scale * scales[i] * (x[m] a[i]^T) b[i]^T with i = ids[m], the adapter of row m; ids below 0: none.

    y [M,N] bf16, f16, f32, a view of columns too; x [M,K] bf16, f16; a [L,rank,K], b [L,N,rank] x's dtype; ids [M] i32. indptr [S+1] i32:
    rows indptr[s] to indptr[s+1] - 1 have adapter ids[s]. scales [L] f32; ranks [L] i32: of adapters that use less than rank."""
    _rfg.lora(y, x, a, b, ids, indptr=indptr, scales=scales, ranks=ranks, scale=scale, stream=stream, ctx=ctx)


MLA_FORMATS = ("plain", "v32", "v4")


def _mla_format(op: str, format: str) -> int:
    if format not in MLA_FORMATS:
        raise _rfg.Error("%s: format: '%s': must be one of %s" % (op, format, ", ".join(MLA_FORMATS)))
    return MLA_FORMATS.index(format)


def mla_append(
    kv: Tensor, latent: Tensor, k_rope: Optional[Tensor], slots: Tensor, *, norm: Optional[Tensor] = None, eps: float = 0.0,
    cos_sin: Optional[Tensor] = None, positions: Optional[Tensor] = None, gptj: bool = False, q: Optional[Tensor] = None,
    q_out: Optional[Tensor] = None, kv_scale: Optional[Tensor] = None, format: str = "plain", stream: Any = None, ctx: Ctx = None
) -> Optional[Tensor]:
    """rfg_op_mla_append: writes rows of latent attention's cache: the latent [T,C] after its RMSNorm, k_rope [T,R] rotated.

    kv [blocks,page,C+R] (format "v32", "v4": e4m3 [blocks,page,656 or 584]); slots [T] int64. norm: weight [C], or [C+R] of a norm
    of both. q [T,Hq,R] is rotated to q_out, which is returned."""
    if q is not None and q_out is None:
        q_out = empty(q, _shape("mla_append", "q", q))
    _rfg.mla_append(
        kv, latent, k_rope, slots,
        norm=norm, cos_sin=cos_sin, positions=positions, q=q, q_out=q_out, kv_scale=kv_scale, eps=eps, gptj=gptj,
        format=_mla_format("mla_append", format), stream=stream, ctx=ctx,
    )  # fmt: skip
    return q_out


def mla_decode(
    q: Tensor, kv: Tensor, block_table: Optional[Tensor] = None, kv_lens: Optional[Tensor] = None, *, scale: float, dv: int = 0,
    out: Optional[Tensor] = None, q_rope: Optional[Tensor] = None, soft_cap: float = 0.0, causal: bool = False,
    kv_indptr: Optional[Tensor] = None, kv_indices: Optional[Tensor] = None, sinks: Optional[Tensor] = None, lse: Optional[Tensor] = None,
    kv_scale: Optional[Tensor] = None, max_seqlen_k: int = 0, q_positions: Optional[Tensor] = None, format: str = "plain",
    cp_size: int = 0, cp_rank: int = 0, cp_interleave: int = 0, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_mla_decode: absorbed latent attention, 1 to 8 queries a sequence. q [B,Hq,D] or [B,Sq,Hq,D]; kv [blocks,page,D].

    The first dv elements of a row of kv are the value. dv 0: out's, with q_rope q's, or 512 of 576. scale must be given: 1 /
    sqrt(elements of an unabsorbed head). format: as in mla_append(). q_positions [B] int32, with causal: of each sequence's first
    query; cp_size ranks share a sequence's keys in turns of cp_interleave. block_table [B,n] int32, or kv_indptr [B+1] and kv_indices; kv_lens [B] int32. lse: an
    output, without the sinks, [B,Hq,Sq] f32 ([B,Hq] without Sq)."""
    if out is None:
        shape = _shape("mla_decode", "q", q)
        out = empty(q, shape[:-1] + (dv or (512 if q_rope is None and shape[-1] == 576 else shape[-1]),))
    _rfg.mla_decode(
        out, q, kv,
        scale=scale, soft_cap=soft_cap, causal=causal, max_seqlen_k=max_seqlen_k, q_rope=q_rope, block_table=block_table,
        kv_indptr=kv_indptr, kv_indices=kv_indices, kv_lens=kv_lens, sinks=sinks, lse=lse, kv_scale=kv_scale,
        q_positions=q_positions, format=_mla_format("mla_decode", format), cp_size=cp_size, cp_rank=cp_rank,
        cp_interleave=cp_interleave, stream=stream, ctx=ctx,
    )  # fmt: skip
    return out


def mla_gather(
    rows: Tensor, kv: Tensor, cu_seqlens: Tensor, block_table: Optional[Tensor] = None, *, kv_indptr: Optional[Tensor] = None,
    kv_indices: Optional[Tensor] = None, first: Optional[Tensor] = None, kv_scale: Optional[Tensor] = None, format: str = "plain",
    stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_mla_gather: rows [N,D] read back from latent attention's cache, dequantised. rows cu_seqlens[b] to cu_seqlens[b+1] - 1 become
    sequence b's keys from first[b] on. Returns rows. kv, tables and format as in mla_decode()."""
    _rfg.mla_gather(
        rows, kv, cu_seqlens,
        block_table=block_table, kv_indptr=kv_indptr, kv_indices=kv_indices, first=first, kv_scale=kv_scale,
        format=_mla_format("mla_gather", format), stream=stream, ctx=ctx,
    )  # fmt: skip
    return rows


def merge_states(
    o: Tensor, lse: Tensor, *, base2: bool = False, out: Optional[Tensor] = None, lse_out: Optional[Tensor] = None, dtype: Any = None,
    stream: Any = None, ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_merge_states: n attention states over disjoint keys, merged: what attention over all of these keys gives.

    o [n,T,H,D] bf16, f16, f32: outputs; lse [n,T,H] f32: natural logarithms, with base2 to base 2 (FlashInfer's). Any strides but D's.
    -inf and inf: no keys, o is not looked at. Returns (out [T,H,D], lse_out [T,H]). out may be one of the states; dtype: of a new
    out, o's if None."""
    shape = _shape("merge_states", "o", o, 4)
    out = empty(o, shape[1:], dtype) if out is None else out
    lse_out = empty(o, shape[1:3], "f32") if lse_out is None else lse_out
    _rfg.merge_states(out, o, lse, lse_out=lse_out, base2=int(base2), stream=stream, ctx=ctx)
    return out, lse_out


def rope(
    q: Tensor, k: Optional[Tensor], cos_sin: Tensor, positions: Tensor, *, q_out: Optional[Tensor] = None, k_out: Optional[Tensor] = None,
    gptj: bool = False, last: bool = False, backward: bool = False, mrope_interleaved: bool = False, sections: Sequence[int] = (),
    offset: int = 0, stream: Any = None, ctx: Ctx = None
) -> Tuple[Tensor, Tensor]:
    """rfg_op_rope: q [T,Hq,D] and k [T,Hkv,D] rotated by their positions [T] (or [A,T], sections); cos_sin [maxpos,R] is
    rope_table()'s; the R elements are a head's first, its last, or those from offset on. k may be None. q_out may be q, k_out k:
    in place. Returns (q_out, k_out)."""
    q_out = empty(q, _shape("rope", "q", q)) if q_out is None and q is not None else q_out
    k_out = empty(k, _shape("rope", "k", k)) if k_out is None and k is not None else k_out
    options: Dict[str, Any] = dict(gptj=gptj, last=last, backward=backward, mrope_interleaved=mrope_interleaved, sections=sections)
    _rfg.rope(q_out, k_out, q, k, cos_sin, positions, **options, offset=offset, stream=stream, ctx=ctx)
    return q_out, k_out


def kv_append(
    k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, slots: Tensor, *, k_scale: Optional[Tensor] = None,
    v_scale: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> None:
    """rfg_op_kv_append: writes k [T,Hkv,D] and v to rows slots [T] (int64; -1: none) of caches [blocks,page,Hkv,D], where
    mha_decode() reads them (vLLM's reshape_and_cache). k_scale, v_scale: of caches of codes; [blocks,page,Hkv] are outputs, a scale
    for each token and head, which i8 and i4 (uint8, two in a byte) need."""
    _rfg.kv_append(_cache(k_cache), _cache(v_cache), k, v, slots, k_scale=k_scale, v_scale=v_scale, stream=stream, ctx=ctx)


def rope_append(
    k_cache: Tensor, v_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, cos_sin: Tensor, positions: Tensor, slots: Tensor, *,
    q_out: Optional[Tensor] = None, rope: Optional[Dict[str, Any]] = None, q_norm: Optional[Tensor] = None,
    k_norm: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False, k_scale: Optional[Tensor] = None,
    v_scale: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_rope_append: rope() of q and k, and kv_append() of k and v, in one launch; with q_norm and k_norm [D] an RMSNorm of
    each head before, to which eps and one_plus_weight belong. rope: a dict of rope()'s options, {"gptj": True}. Returns q_out."""
    q_out = empty(q, _shape("rope_append", "q", q)) if q_out is None else q_out
    options: Dict[str, Any] = dict(rope=rope, q_norm=q_norm, k_norm=k_norm)
    if q_norm is not None or k_norm is not None:
        options.update(eps=eps, one_plus_weight=one_plus_weight)
    _rfg.rope_append(
        q_out, _cache(k_cache), _cache(v_cache), q, k, v, cos_sin, positions, slots, **options, k_scale=k_scale, v_scale=v_scale,
        stream=stream, ctx=ctx
    )
    return q_out


def advance(
    kv_lens: Tensor, positions: Tensor, *, slots: Optional[Tensor] = None, block_table: Optional[Tensor] = None, page: int = 0,
    accepted: Optional[Tensor] = None, active: Optional[Tensor] = None, spare: Optional[Tensor] = None,
    spare_count: Optional[Tensor] = None, stream: Any = None, ctx: Ctx = None
) -> None:
    """rfg_op_advance: kv_lens [B] i32 of the next step, in place; positions [B] or [B,Sq] and slots of its tokens, by block_table
    [B,n] i32 with blocks of `page` keys. accepted [B]: tokens of the last step that count; active [B]: 0: the sequence stands
    still; new blocks are taken from the end of spare [F], of which there are spare_count [1]. All of these i32."""
    _rfg.advance(
        kv_lens, positions, slots=slots, block_table=block_table, page=page, accepted=accepted, active=active, spare=spare,
        spare_count=spare_count, stream=stream, ctx=ctx
    )  # fmt: skip


def rope_table(table: Tensor, scaling: str = "default", theta: float = 10000.0, **options: Any) -> Tensor:
    """rfg_rope_table: fills table [maxpos,R] in host memory, f32, bf16 or f16, for rope(). scaling: default, linear, llama3, yarn,
    dynamic, longrope, proportional. options: rfg_rope_table_params' other members: original, factor, low_freq_factor,
    high_freq_factor, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, first, untruncated, length,
    partial_rotary_factor, short_factor and long_factor (f32 [R/2] or lists of numbers), short_mscale, long_mscale."""
    for name in ("short_factor", "long_factor"):
        if isinstance(options.get(name), (list, tuple)):
            options[name] = array("f", options[name])
    _rfg.rope_table(table, scaling=scaling, theta=theta, **options)
    return table


def argmax(x: Tensor, *, out: Optional[Tensor] = None, dtype: Any = "i64", stream: Any = None, ctx: Ctx = None) -> Tensor:
    """rfg_op_argmax: Y[m] = the column of the largest element of row m of X [M,V]; of equal ones the first. dtype: i32 or i64."""
    if out is None:
        out = empty(x, (_shape("argmax", "x", x)[0],), dtype)
    _rfg.argmax(out, x, stream=stream, ctx=ctx)
    return out


def sample(
    logits: Tensor, seed: Tensor, offset: Tensor, *, out: Optional[Tensor] = None, dtype: Any = "i64", temperature: Optional[Tensor] = None,
    top_k: Optional[Tensor] = None, top_p: Optional[Tensor] = None, min_p: Optional[Tensor] = None, repetition: Optional[Tensor] = None,
    frequency: Optional[Tensor] = None, presence: Optional[Tensor] = None, bias: Optional[Tensor] = None, counts: Optional[Tensor] = None,
    prompt: Optional[Tensor] = None, joint: bool = False, stream: Any = None, ctx: Ctx = None
) -> Tensor:
    """rfg_op_sample: a token drawn from each row of logits [B,V], by seed and offset [B] i64 alone: the same in any batch.

    Of each row, [B] f32: temperature, top_p, min_p, repetition, frequency, presence; i32: top_k. Of each token, [B,V]: bias f32,
    counts i32, prompt i8. joint: top-p is of all tokens, not of what top-k left (RFG_SAMPLE_JOINT). dtype: i32 or i64."""
    if out is None:
        out = empty(logits, (_shape("sample", "logits", logits)[0],), dtype)
    _rfg.sample(
        out, logits, seed, offset, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition=repetition,
        frequency=frequency, presence=presence, bias=bias, counts=counts, prompt=prompt, order=int(joint), stream=stream, ctx=ctx
    )
    return out
