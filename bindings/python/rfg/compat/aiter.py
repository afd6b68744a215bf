# SPDX-License-Identifier: MIT
"""AITER's names and argument forms, as vLLM and SGLang call them, on rfg (AITER of August 2026).

    from rfg.compat import aiter
    aiter.rmsnorm2d_fwd(x, weight, 1e-6)

    rfg.compat.aiter.install()    # `import aiter` finds these: in AITER, if it is there, else in its place

Outputs that AITER's functions are given are written, as there; nothing is kept of them. Arguments that choose AITER's kernels or are
their scratch memory are taken and not looked at. What rfg has no operator for, or not in that form, is an rfg.Error; install() in an
AITER that is there has that call go to AITER's own function, and `declined` says which and why."""

import functools
import importlib
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .. import ops
from .._rfg import Error

EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)


def _rows(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _out(function: str, name: str, t: Tensor) -> Tensor:
    """An output as rows; it is written, so it can't be a copy."""
    if t.dim() == 2:
        return t
    try:
        return t.view(-1, t.shape[-1])
    except RuntimeError:
        raise Error("%s: %s: strides %s of shape %s aren't rows" % (function, name, t.stride(), tuple(t.shape))) from None


def _only(function: str, **given: Any) -> None:
    """Arguments that must have their defaults."""
    for name, (value, usual) in given.items():
        same = value is usual if usual is None or isinstance(value, Tensor) else value == usual
        if not same:
            what = "a tensor" if isinstance(value, Tensor) else repr(value)
            raise Error("%s: %s: %s: rfg has it with %r alone" % (function, name, what, usual))


# ---- norms -------------------------------------------------------------------------------------------------------------


def rms_norm(input: Tensor, weight: Tensor, epsilon: float, use_model_sensitive_rmsnorm: int = 0) -> Tensor:
    return ops.rmsnorm(_rows(input), weight, epsilon).view(input.shape)


rmsnorm2d_fwd = rms_norm


def rms_norm_cu(out: Tensor, input: Tensor, weight: Tensor, epsilon: float) -> None:
    ops.rmsnorm(_rows(input), weight, epsilon, out=_out("rms_norm_cu", "out", out))


def rmsnorm(out: Tensor, input: Tensor, weight: Tensor, epsilon: float, gemma_norm: bool = False) -> None:
    ops.rmsnorm(_rows(input), weight, epsilon, out=_out("rmsnorm", "out", out), one_plus_weight=gemma_norm)


def rmsnorm2d_fwd_with_add(
    out: Tensor, input: Tensor, residual_in: Tensor, residual_out: Tensor, weight: Tensor, epsilon: float, gemma_norm: bool = False,
    use_model_sensitive_rmsnorm: int = 0
) -> None:
    name = "rmsnorm2d_fwd_with_add"
    ops.add_rmsnorm(
        _rows(input), _rows(residual_in), weight, epsilon, out=_out(name, "out", out), residual_out=_out(name, "residual_out", residual_out),
        one_plus_weight=gemma_norm
    )  # fmt: skip


def add_rmsnorm(
    out: Tensor, input: Tensor, residual_in: Tensor, residual_out: Tensor, weight: Tensor, epsilon: float, gemma_norm: bool = False
) -> None:
    rmsnorm2d_fwd_with_add(out, input, residual_in, residual_out, weight, epsilon, gemma_norm)


def fused_add_rms_norm_cu(input: Tensor, residual_in: Tensor, weight: Tensor, epsilon: float) -> None:
    """In place: residual_in is the sum, input its norm."""
    rows, sums = _out("fused_add_rms_norm_cu", "input", input), _out("fused_add_rms_norm_cu", "residual_in", residual_in)
    ops.add_rmsnorm(rows, sums, weight, epsilon, out=rows, residual_out=sums)


fused_add_rms_norm = fused_add_rms_norm_cu


def _quant(function: str, out: Tensor, scale: Tensor, group_size: int, shuffle_scale: bool) -> ops.Quant:
    if group_size not in (0, 128):
        raise Error("%s: group_size: %d: rfg has 0, a scale a row, and 128" % (function, group_size))
    _only(function, shuffle_scale=(shuffle_scale, False))
    rows = _out(function, "out", out)
    scales = scale.view(-1) if not group_size else scale.view(rows.shape[0], -1)
    return ops.Quant("group" if group_size else "token", rows, scales)


def rmsnorm2d_fwd_with_dynamicquant(
    out: Tensor, input: Tensor, yscale: Tensor, weight: Tensor, epsilon: float, use_model_sensitive_rmsnorm: int = 0, group_size: int = 0,
    shuffle_scale: bool = False
) -> None:
    quant = _quant("rmsnorm2d_fwd_with_dynamicquant", out, yscale, group_size, shuffle_scale)
    ops.rmsnorm(_rows(input), weight, epsilon, quant=quant)


def rmsnorm2d_fwd_with_add_dynamicquant(
    out: Tensor, input: Tensor, residual_in: Tensor, residual_out: Tensor, yscale: Tensor, weight: Tensor, epsilon: float,
    use_model_sensitive_rmsnorm: int = 0, group_size: int = 0, shuffle_scale: bool = False
) -> None:
    name = "rmsnorm2d_fwd_with_add_dynamicquant"
    quant = _quant(name, out, yscale, group_size, shuffle_scale)
    ops.add_rmsnorm(
        _rows(input), _rows(residual_in), weight, epsilon, residual_out=_out(name, "residual_out", residual_out), quant=quant
    )  # fmt: skip


def layer_norm(
    input: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, epsilon: float = 1e-5, x_bias: Optional[Tensor] = None
) -> Tensor:
    _only("layer_norm", x_bias=(x_bias, None))
    return ops.layernorm(_rows(input), weight, bias, epsilon).view(input.shape)


layernorm2d_fwd = layer_norm


def layernorm2d_fwd_with_add(
    out: Tensor, input: Tensor, residual_in: Tensor, residual_out: Tensor, weight: Tensor, bias: Tensor, epsilon: float,
    x_bias: Optional[Tensor] = None
) -> None:
    name = "layernorm2d_fwd_with_add"
    _only(name, x_bias=(x_bias, None))
    ops.add_layernorm(
        _rows(input), _rows(residual_in), weight, bias, epsilon, out=_out(name, "out", out),
        residual_out=_out(name, "residual_out", residual_out)
    )  # fmt: skip


# ---- activations -------------------------------------------------------------------------------------------------------


def silu_and_mul(out: Tensor, input: Tensor, limit: float = 0.0) -> None:
    ops.act_and_mul(_rows(input), "silu", limit=limit, out=_out("silu_and_mul", "out", out))


def gelu_and_mul(out: Tensor, input: Tensor) -> None:
    ops.act_and_mul(_rows(input), "gelu", out=_out("gelu_and_mul", "out", out))


def gelu_tanh_and_mul(out: Tensor, input: Tensor) -> None:
    ops.act_and_mul(_rows(input), "gelu_tanh", out=_out("gelu_tanh_and_mul", "out", out))


def gelu_fast(out: Tensor, input: Tensor) -> None:
    ops.act(_rows(input), "gelu_tanh", out=_out("gelu_fast", "out", out))


def scaled_silu_and_mul(out: Tensor, input: Tensor, scale: Tensor) -> None:
    """silu(a) b / scale, in 8 bits."""
    quant = ops.Quant("static", _out("scaled_silu_and_mul", "out", out), scale.view(1))
    ops.act_and_mul(_rows(input), "silu", quant=quant)


# ---- linear layers -----------------------------------------------------------------------------------------------------


def gemm_a16w16(
    A: Tensor, B: Tensor, bias: Optional[Tensor] = None, otype: Optional[torch.dtype] = None, scale_a: Optional[Tensor] = None,
    scale_b: Optional[Tensor] = None, scale_c: Optional[Tensor] = None
) -> Tensor:
    _only("gemm_a16w16", scale_a=(scale_a, None), scale_b=(scale_b, None), scale_c=(scale_c, None))
    w = B
    if getattr(B, "is_shuffled", False):
        n, k = B.shape
        if n % 16 or k % 32:
            raise Error("gemm_a16w16: B: %d by %d: a shuffled weight has multiples of 16 and 32" % (n, k))
        w = B.view(n // 16, k // 32, 4, 16, 8)
    return ops.gemm(_rows(A), w, bias, dtype=otype or A.dtype).view(*A.shape[:-1], B.shape[0])


def gemm_a8w8(
    XQ: Tensor, WQ: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Optional[Tensor] = None, dtype: torch.dtype = torch.bfloat16,
    splitK: Optional[int] = None
) -> Tensor:
    """fp8 or int8 by scales of tokens [M,1] or a tensor [1], and of channels [1,N] or a tensor. splitK: rfg's tuner knows."""
    pers = ["tensor" if s.numel() == 1 else "row" for s in (x_scale, w_scale)]
    scales: Any = dict(x_scale=x_scale.reshape(-1), w_scale=w_scale.reshape(-1), x_per=pers[0], w_per=pers[1])
    return ops.gemm(_rows(XQ), WQ, bias, dtype=dtype, **scales).view(*XQ.shape[:-1], WQ.shape[0])


def gemm_a8w8_blockscale(
    XQ: Tensor, WQ: Tensor, x_scale: Tensor, w_scale: Tensor, dtype: torch.dtype = torch.bfloat16, isBpreshuffled: bool = False
) -> Tensor:
    """fp8 by scales of 1x128 [M,K/128] and 128x128 [N/128,K/128]."""
    _only("gemm_a8w8_blockscale", isBpreshuffled=(isBpreshuffled, False))
    scales: Any = dict(x_scale=x_scale, w_scale=w_scale, x_per="block", w_per="block")
    return ops.gemm(_rows(XQ), WQ, dtype=dtype, **scales).view(*XQ.shape[:-1], WQ.shape[0])


class TunedGemm:
    def mm(
        self, inp: Tensor, weights: Tensor, bias: Optional[Tensor] = None, otype: Optional[torch.dtype] = None,
        scale_a: Optional[Tensor] = None, scale_b: Optional[Tensor] = None, scale_c: Optional[Tensor] = None
    ) -> Tensor:
        return gemm_a16w16(inp, weights, bias, otype, scale_a, scale_b, scale_c)


tgemm = TunedGemm()


# ---- attention ---------------------------------------------------------------------------------------------------------


def _cache(function: str, name: str, cache: Tensor, dtype: str) -> Tensor:
    if cache.dtype in (torch.uint8, torch.int8):
        raise Error("%s: %s: is %s: give it as the fp8 dtype that it holds (view(torch.float8_e4m3fn))" % (function, name, cache.dtype))
    if dtype not in ("auto", "bf16", "fp16", "bfloat16", "float16") and not dtype.startswith("fp8"):
        raise Error("%s: kv_cache_dtype: '%s': rfg has auto and fp8" % (function, dtype))
    return cache


def _scale(cache: Tensor, scale: Optional[Tensor]) -> Optional[Tensor]:
    """Of 8-bit caches. Others have none, whatever an engine gives with them."""
    return scale.reshape(-1) if scale is not None and cache.dtype in EIGHT_BITS else None


def _decode(
    function: str, out: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor, lens: Tensor, most: int, queries: int, **options: Any
) -> Tensor:
    b = lens.shape[0]
    if q.shape[0] != b * queries:
        raise Error("%s: query: %d rows for %d sequences of %d: rfg has equally many of each" % (function, q.shape[0], b, queries))
    if queries > 1:
        q, o = q.unflatten(0, (b, queries)), out.unflatten(0, (b, queries))
        options["causal"] = True
    else:
        o = out
    ops.mha_decode(q, k, v, table, lens, out=o, max_seqlen_k=most, **options)
    return out


def paged_attention_v1(
    out: Tensor, workspace_buffer: Optional[Tensor], query: Tensor, key_cache: Tensor, value_cache: Tensor, scale: float, block_tables: Tensor,
    cu_query_lens: Optional[Tensor], context_lens: Tensor, max_context_len: int, alibi_slopes: Optional[Tensor], kv_cache_dtype: str,
    kv_cache_layout: str, logits_soft_cap: float, k_scale: Tensor, v_scale: Tensor, fp8_out_scale: Optional[Tensor] = None,
    partition_size: int = 256, mtp: int = 1, sliding_window: int = 0
) -> Tensor:
    """query [B * mtp,Hq,D]; caches [blocks,page,Hkv,D] (NHD) or [blocks,Hkv,page,D] (HND)."""
    name = "paged_attention_v1"
    _only(name, fp8_out_scale=(fp8_out_scale, None))
    if kv_cache_layout not in ("NHD", "HND"):
        raise Error("%s: kv_cache_layout: '%s': must be NHD or HND" % (name, kv_cache_layout))
    k, v = _cache(name, "key_cache", key_cache, kv_cache_dtype), _cache(name, "value_cache", value_cache, kv_cache_dtype)
    if kv_cache_layout == "HND":
        k, v = k.transpose(1, 2), v.transpose(1, 2)
    return _decode(
        name, out, query, k, v, block_tables, context_lens, max_context_len, mtp, scale=scale, soft_cap=logits_soft_cap,
        alibi=alibi_slopes, k_scale=_scale(k, k_scale), v_scale=_scale(v, v_scale),
        window=max(sliding_window, 0)
    )  # fmt: skip


def paged_attention_rocm(
    out: Tensor, exp_sums: Optional[Tensor], max_logits: Optional[Tensor], tmp_out: Optional[Tensor], query: Tensor, key_cache: Tensor,
    value_cache: Tensor, num_kv_heads: int, scale: float, block_tables: Tensor, context_lens: Tensor, block_size: int, max_context_len: int,
    alibi_slopes: Optional[Tensor], kv_cache_dtype: str, k_scale: Tensor, v_scale: Tensor, fp8_out_scale: Optional[Tensor] = None,
    partition_size: int = 256, mtp: int = 1, q_scale: Optional[Tensor] = None
) -> Tensor:
    """Caches in vLLM's older form, [blocks,Hkv,D/x,page,x] and [blocks,Hkv,D,page]."""
    name = "paged_attention_rocm"
    _only(name, fp8_out_scale=(fp8_out_scale, None), q_scale=(q_scale, None))
    k, v = _cache(name, "key_cache", key_cache, kv_cache_dtype), _cache(name, "value_cache", value_cache, kv_cache_dtype)
    return _decode(
        name, out, query, k, v, block_tables, context_lens, max_context_len, mtp, scale=scale, alibi=alibi_slopes,
        k_scale=_scale(k, k_scale), v_scale=_scale(v, v_scale)
    )  # fmt: skip


def mla_decode_fwd(
    q: Tensor, kv_buffer: Tensor, o: Tensor, qo_indptr: Tensor, kv_indptr: Tensor, kv_indices: Tensor, kv_last_page_lens: Tensor,
    max_seqlen_q: int, page_size: int = 1, nhead_kv: int = 1, sm_scale: Optional[float] = None, logit_cap: float = 0.0,
    num_kv_splits: Optional[int] = None, num_kv_splits_indptr: Optional[Tensor] = None, work_meta_data: Optional[Tensor] = None,
    work_indptr: Optional[Tensor] = None, work_info_set: Optional[Tensor] = None, reduce_indptr: Optional[Tensor] = None,
    reduce_final_map: Optional[Tensor] = None, reduce_partial_map: Optional[Tensor] = None, q_scale: Optional[Tensor] = None,
    kv_scale: Optional[Tensor] = None, intra_batch_mode: bool = False, return_logits: bool = False, return_lse: bool = False,
    g_kv_indptr: Optional[Tensor] = None, cp_world_size: int = 1, cp_rank: int = 0, causal: bool = True
) -> Tuple[Tensor, Optional[Tensor]]:
    """q [B * max_seqlen_q,Hq,D], kv_buffer [pages,page,1,D], o [B * max_seqlen_q,Hq,Dv]; any heads, pages, and queries up to 8. Returns
    (o, lse [B * max_seqlen_q,Hq] or None)."""
    name = "mla_decode_fwd"
    _only(name, nhead_kv=(nhead_kv, 1), return_logits=(return_logits, False), g_kv_indptr=(g_kv_indptr, None), cp_world_size=(cp_world_size, 1))
    kv = _cache(name, "kv_buffer", kv_buffer, "auto")
    if kv.dim() != 4 or kv.shape[1] != page_size:
        raise Error("%s: kv_buffer: has shape %s: must be [pages,%d,1,D], page_size is %d" % (name, tuple(kv.shape), page_size, page_size))
    b = kv_indptr.shape[0] - 1
    if q.shape[0] != b * max_seqlen_q:
        raise Error("%s: q: %d rows for %d sequences of %d: rfg has equally many of each" % (name, q.shape[0], b, max_seqlen_q))
    lse = q.new_empty(q.shape[:2], dtype=torch.float32) if return_lse else None
    parts = [q, o, lse]
    if max_seqlen_q > 1:
        parts = [t if t is None else t.unflatten(0, (b, max_seqlen_q)) for t in parts]
        parts[2] = lse if lse is None else parts[2].transpose(1, 2)
    ops.mla_decode(
        parts[0], kv, None, (kv_indptr[1:] - kv_indptr[:-1] - 1) * page_size + kv_last_page_lens,
        scale=kv.shape[-1] ** -0.5 if sm_scale is None else sm_scale, out=parts[1], soft_cap=max(logit_cap, 0.0), causal=causal and max_seqlen_q > 1,
        kv_indptr=kv_indptr, kv_indices=kv_indices, kv_scale=_scale(kv, kv_scale), lse=parts[2]
    )  # fmt: skip
    return o, lse


def pa_fwd_asm(
    Q: Tensor, K: Tensor, V: Tensor, block_tables: Tensor, context_lens: Tensor, block_tables_stride0: int, max_qlen: int = 1,
    K_QScale: Optional[Tensor] = None, V_QScale: Optional[Tensor] = None, out_: Optional[Tensor] = None,
    qo_indptr: Optional[Tensor] = None, high_precision: Optional[int] = 1, kernelName: Optional[str] = None
) -> Tensor:
    """K [blocks,Hkv,D/x,page,x], V [blocks,Hkv,D,page]; the scale of the scores is 1 / sqrt(D)."""
    if V.dim() == 5:
        raise Error("pa_fwd_asm: V: has 5 dimensions: rfg has [blocks,Hkv,D,page], not the shuffled [blocks,Hkv,page/x,D,x]")
    k, v = _cache("pa_fwd_asm", "K", K, "auto"), _cache("pa_fwd_asm", "V", V, "auto")
    for name, scale in (("K_QScale", _scale(k, K_QScale)), ("V_QScale", _scale(v, V_QScale))):
        if scale is not None and scale.numel() not in (1, k.shape[1]):
            raise Error("pa_fwd_asm: %s: %d scales: rfg has one, or one a head" % (name, scale.numel()))
    out = torch.empty_like(Q) if out_ is None else out_
    most = block_tables.shape[1] * k.shape[3]
    return _decode(
        "pa_fwd_asm", out, Q, k, v, block_tables, context_lens, most, max_qlen, k_scale=_scale(k, K_QScale), v_scale=_scale(v, V_QScale)
    )  # fmt: skip


def _window(function: str, size: Tuple[int, ...]) -> ops.Window:
    left, right, sink = (tuple(size) + (0,))[:3]
    if sink:
        raise Error("%s: window_size: %s: keys at the beginning that all see: rfg hasn't these" % (function, tuple(size)))
    return 0 if left < 0 and right < 0 else (left, right)


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, ...] = (-1, -1, 0), bias: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = True, return_lse: bool = False, return_attn_probs: bool = False, how_v3_bf16_cvt: int = 1,
    cu_seqlens_q: Optional[Tensor] = None, cu_seqlens_kv: Optional[Tensor] = None, sink_ptr: Optional[Tensor] = None, num_splits: int = 0
) -> Any:
    name = "flash_attn_func"
    _only(name, dropout_p=(dropout_p, 0.0), bias=(bias, None), return_attn_probs=(return_attn_probs, False))
    _only(name, cu_seqlens_q=(cu_seqlens_q, None), cu_seqlens_kv=(cu_seqlens_kv, None))
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32) if return_lse else None
    window = _window(name, window_size)
    out = ops.mha(q, k, v, scale=softmax_scale or 0.0, causal=causal, window=window, alibi=alibi_slopes, sinks=sink_ptr, lse=lse)
    return (out, lse) if return_lse else out


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int, min_seqlen_q: int = 0,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, logits_soft_cap: float = 0.0, causal: bool = False,
    window_size: Tuple[int, ...] = (-1, -1, 0), bias: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False, return_lse: bool = False, return_attn_probs: bool = False, how_v3_bf16_cvt: int = 1,
    block_table: Optional[Tensor] = None, out: Optional[Tensor] = None, cu_seqlens_q_padded: Optional[Tensor] = None,
    cu_seqlens_k_padded: Optional[Tensor] = None, sink_ptr: Optional[Tensor] = None
) -> Any:
    """q [T,Hq,D], k and v [Tk,Hkv,D], or with block_table [blocks,page,Hkv,D]. lse is [Hq,T]."""
    name = "flash_attn_varlen_func"
    _only(name, dropout_p=(dropout_p, 0.0), bias=(bias, None), return_attn_probs=(return_attn_probs, False))
    _only(name, cu_seqlens_q_padded=(cu_seqlens_q_padded, None), cu_seqlens_k_padded=(cu_seqlens_k_padded, None))
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_lse else None
    keys: Dict[str, Any] = dict(cu_seqlens_k=cu_seqlens_k)
    if block_table is not None:
        keys = dict(block_table=block_table, kv_lens=cu_seqlens_k[1:] - cu_seqlens_k[:-1])
    out = ops.mha(
        q, k, v, out=out, scale=softmax_scale or 0.0, soft_cap=logits_soft_cap, causal=causal, window=_window(name, window_size),
        alibi=alibi_slopes, sinks=sink_ptr, lse=lse, cu_seqlens_q=cu_seqlens_q, max_seqlen_q=int(max_seqlen_q),
        max_seqlen_k=int(max_seqlen_k), **keys
    )  # fmt: skip
    return (out, lse) if return_lse else out


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, kv_cache_dtype: str,
    k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None, asm_layout: bool = False
) -> None:
    """Caches in vLLM's older form, [blocks,Hkv,D/x,page,x] and [blocks,Hkv,D,page]."""
    name = "reshape_and_cache"
    _only(name, asm_layout=(asm_layout, False))
    k, v = _cache(name, "key_cache", key_cache, kv_cache_dtype), _cache(name, "value_cache", value_cache, kv_cache_dtype)
    ops.kv_append(k, v, key, value, slot_mapping.to(torch.int64), k_scale=_scale(k, k_scale), v_scale=_scale(v, v_scale))


def reshape_and_cache_flash(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, kv_cache_dtype: str, k_scale: Tensor,
    v_scale: Tensor
) -> None:
    """Caches [blocks,page,Hkv,D]."""
    name = "reshape_and_cache_flash"
    k, v = _cache(name, "key_cache", key_cache, kv_cache_dtype), _cache(name, "value_cache", value_cache, kv_cache_dtype)
    ops.kv_append(k, v, key, value, slot_mapping.to(torch.int64), k_scale=_scale(k, k_scale), v_scale=_scale(v, v_scale))


# ---- RoPE --------------------------------------------------------------------------------------------------------------

_tables: Any = WeakTensorKeyDictionary()  # of cos: (sin's version and address, cos' version, the table)


def _table(function: str, cos: Tensor, sin: Tensor) -> Tensor:
    """Caches of cosines and sines [maxpos,..,R/2] as one table [maxpos,R]: where they are halves of one, that; else a new one,
    kept as long as cos is there."""
    n = cos.shape[-1]
    c, s = cos.reshape(-1, n), sin.reshape(-1, n)
    if c.dtype == s.dtype and s.data_ptr() == c.data_ptr() + n * c.element_size() and c.stride() == s.stride() == (2 * n, 1):
        return c.as_strided((c.shape[0], 2 * n), (2 * n, 1))
    key = (sin.data_ptr(), sin._version, cos._version)
    known = _tables.get(cos)
    if known is None or known[0] != key:
        known = (key, torch.cat((c, s), -1))
        _tables[cos] = known
    return known[1]


def _rotate(
    function: str, x: Tensor, y: Optional[Tensor], cos: Tensor, sin: Tensor, positions: Tensor, style: int, front: bool, last: bool,
    in_place: bool
) -> Tuple[Tensor, Optional[Tensor]]:
    if style not in (0, 1):
        raise Error("%s: rotate_style: %d: must be 0 (NeoX) or 1 (GPT-J)" % (function, style))
    _only(function, reuse_freqs_front_part=(bool(front), True))

    def heads(name: str, t: Tensor) -> Tensor:
        try:
            return t.view(-1, *t.shape[-2:])
        except RuntimeError:
            raise Error("%s: %s: strides %s of shape %s: its tokens can't be taken as one dimension" % (function, name, t.stride(), tuple(t.shape))) from None

    xs, ys = heads("input_x", x), None if y is None else heads("input_y", y)
    a, b = ops.rope(
        xs, ys, _table(function, cos, sin), positions.reshape(-1), q_out=xs if in_place else None, k_out=ys if in_place else None,
        gptj=style == 1, last=bool(last)
    )  # fmt: skip
    return a.view(x.shape), None if y is None else b.view(y.shape)  # type: ignore[union-attr]


def rope_cached_positions_2c_fwd_inplace(
    input_x: Tensor, input_y: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, rotate_style: int, reuse_freqs_front_part: bool,
    nope_first: bool
) -> None:
    """input_x [b,s,Hq,D], input_y [b,s,Hkv,D] (or with s first), positions [b,s]; cos, sin [maxpos,1,1,R/2]."""
    name = "rope_cached_positions_2c_fwd_inplace"
    _rotate(name, input_x, input_y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, True)


def rope_cached_positions_fwd_inplace(
    input: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, rotate_style: int, reuse_freqs_front_part: bool, nope_first: bool
) -> None:
    name = "rope_cached_positions_fwd_inplace"
    _rotate(name, input, None, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, True)


def rope_cached_positions_2c_fwd(
    input_x: Tensor, input_y: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, rotate_style: int, reuse_freqs_front_part: bool,
    nope_first: bool, transpose_output: bool = False
) -> Any:
    name = "rope_cached_positions_2c_fwd"
    _only(name, transpose_output=(transpose_output, False))
    return _rotate(name, input_x, input_y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, False)


def rope_cached_positions_fwd(
    input: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, rotate_style: int, reuse_freqs_front_part: bool, nope_first: bool,
    transpose_output: bool = False
) -> Tensor:
    name = "rope_cached_positions_fwd"
    _only(name, transpose_output=(transpose_output, False))
    return _rotate(name, input, None, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first, False)[0]


def rotary_embedding_fwd(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_cache: Tensor, sin_cache: Tensor, is_neox: bool, is_nope_first: bool
) -> None:
    """In place: query [..,Hq * head_size], key [..,Hkv * head_size]."""
    name = "rotary_embedding_fwd"
    q, k = query.unflatten(-1, (-1, head_size)), key.unflatten(-1, (-1, head_size))
    _rotate(name, q, k, cos_cache, sin_cache, positions, 0 if is_neox else 1, True, is_nope_first, True)


# ---- sampling ----------------------------------------------------------------------------------------------------------


def greedy_sample(out: Tensor, input: Tensor) -> None:
    ops.argmax(_rows(input), out=out.view(-1))


# ---- the switch --------------------------------------------------------------------------------------------------------

NAMES = [
    name for name, what in list(globals().items())
    if not name.startswith("_") and inspect.isfunction(what) and what.__module__ == __name__
]  # fmt: skip
#: of an AITER that is there: functions whose calls rfg declined, with the last reason
declined: Dict[str, str] = {}
_replaced: List[Tuple[Any, str, Any]] = []


def _before(name: str, ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(ours)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except Error as e:  # nothing was written
            declined[name] = str(e)
            return theirs(*args, **kwargs)

    return call


def install() -> List[str]:
    """Makes `import aiter` find these functions: in AITER's modules if it is installed, else in its place. Call it before the engine is imported.
    Returns the names that are rfg's now; uninstall() undoes it."""
    uninstall()
    if "aiter" not in sys.modules and importlib.util.find_spec("aiter") is None:
        sys.modules["aiter"] = sys.modules["aiter.mla"] = sys.modules[__name__]
        return list(NAMES)
    there: List[ModuleType] = [importlib.import_module("aiter")]
    if hasattr(there[0], "__path__") and importlib.util.find_spec("aiter.mla") is not None:
        there.append(importlib.import_module("aiter.mla"))
    functions = {name: getattr(module, name) for module in there for name in NAMES if hasattr(module, name)}
    ours = {name: _before(name, globals()[name], theirs) for name, theirs in functions.items()}
    for module in [m for n, m in list(sys.modules.items()) if n == "aiter" or n.startswith("aiter.")]:
        for name, theirs in functions.items():
            if vars(module).get(name) is theirs:
                _replaced.append((module, name, theirs))
                setattr(module, name, ours[name])
    return sorted(functions)


def uninstall() -> None:
    if sys.modules.get("aiter") is sys.modules[__name__]:
        del sys.modules["aiter"], sys.modules["aiter.mla"]
    while _replaced:
        module, name, theirs = _replaced.pop()
        setattr(module, name, theirs)
