# SPDX-License-Identifier: MIT
"""Custom operators in the form in which models of transformers have their tensors: heads before positions, cosines and sines
per token, caches of which a part is filled. hugging_face.py calls them; the rows are as in custom.py."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .. import ops
from .custom import Op, define

MOST_QUERIES = 8  # of mha_decode
_counts: Dict[Any, Tensor] = {}


def _count(n: int, device: torch.device) -> Tensor:
    """0, 1, ... n-1, int32. Kept, but for one that is made under capture, whose values are there in a replay only."""
    known = _counts.get(device)
    if known is None or known.shape[0] < n:
        known = torch.arange(max(4096, 1 << (n - 1).bit_length()), dtype=torch.int32, device=device)
        if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            _counts[device] = known
    return known[:n]


def _table(cos: Tensor, sin: Tensor, batch: int) -> Tensor:
    """[T,R] as rfg_op_rope() has it, of cos and sin [B,S,R] whose halves are alike. No copy where they lie side by side, as
    hugging_face.py's rotary embedding leaves them: row t is then the last half of cos and the first of sin."""
    n, half = cos.shape[-1], cos.shape[-1] // 2
    step = cos.element_size()
    beside = sin.data_ptr() == cos.data_ptr() + n * step and cos.stride() == sin.stride() and cos.stride(-2) == 2 * n
    if beside and cos.shape[0] == batch and (batch == 1 or cos.stride(0) == cos.shape[1] * 2 * n):
        return cos.as_strided((batch * cos.shape[1], n), (2 * n, 1), cos.storage_offset() + half)
    table = torch.cat((cos[..., :half], sin[..., :half]), -1)
    return table.expand(batch, -1, -1).reshape(-1, n).contiguous()  # of one position each: a view with a stride of 0


def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Tuple[Tensor, Tensor]:
    """q [B,S,Hq,D] and k [B,S,Hkv,D] turned by cos and sin [B or 1,S,D] (apply_rotary_pos_emb of Llama's kin)."""
    rows = q.shape[0] * q.shape[1]
    turned = ops.rope(q.flatten(0, 1), k.flatten(0, 1), _table(cos, sin, q.shape[0]), _count(rows, q.device))
    return turned[0].view(q.shape), turned[1].view(k.shape)


def causal(window: int, device: torch.device) -> Tensor:
    """What goes through a model in place of a causal mask of all keys that there are: int32 [1,1+window,1,0]. window: a query sees
    so many keys, its own included; 0: all. It is no mask, so that what computes with it as with one fails."""
    return torch.empty(1, 1 + window, 1, 0, dtype=torch.int32, device=device)


def places(batch: int, keys: int, queries: int, filled: Any, device: torch.device, window: int = 0) -> Tensor:
    """The same where caches of `keys` places have `filled` keys, a number or a tensor, before `queries` new ones are written: int32
    [1,1+window,1,..], alike for all of the second dimension, in which are kv_lens [batch] and slots [batch * queries] int64 of
    rotate_append(), b * keys + position. A token that has no place left has -1."""
    at = torch.arange(queries, device=device) + filled
    slots = torch.where(at < keys, at + torch.arange(0, batch * keys, keys, device=device)[:, None], -1)
    lens = (at[-1:] + 1).to(torch.int32).expand(batch + batch % 2)
    halves = torch.stack((slots, slots >> 32), -1).to(torch.int32)  # inductor can't view() an expanded tensor as another dtype
    return torch.cat((lens, halves.view(-1))).view(1, 1, 1, -1).expand(1, 1 + window, 1, -1)


def is_ours(mask: Tensor) -> bool:
    return mask.dtype == torch.int32 and mask.dim() == 4 and mask.shape[0] == mask.shape[2] == 1


def is_places(mask: Optional[Tensor]) -> bool:
    return mask is not None and is_ours(mask) and mask.shape[3] > 0


def window_of(given: Tensor) -> int:
    return given.shape[1] - 1


def kv_lens(given: Tensor, batch: int) -> Tensor:
    return given[0, 0, 0, :batch]


def mask_of(given: Tensor, batch: int, queries: int, keys: int) -> Tensor:
    """The same as a mask [batch,1,queries,keys] of PyTorch's attention."""
    last = kv_lens(given, batch).view(-1, 1, 1, 1) - 1 if is_places(given) else keys - 1
    at = last - (queries - 1) + torch.arange(queries, device=given.device).view(-1, 1)
    key, window = torch.arange(keys, device=given.device), window_of(given)
    mask = (key <= at) & (key > at - window) if window else key <= at
    return mask.expand(batch, 1, queries, keys)


def can_append(cache: Tensor) -> bool:
    """Whether a cache [B,Hkv,N,D] can be written as pages, whose sizes are powers of two."""
    b, _, n, _ = cache.shape
    return cache.is_contiguous() and (b == 1 or n & (n - 1) == 0)


def _written(cache: Tensor) -> Tensor:
    """The cache in its pages: of a sequence alone any that divide N, else a sequence each."""
    return _pages(cache, cache.shape[2] & -cache.shape[2]) if cache.shape[0] == 1 else cache.transpose(1, 2)


def rotate_append(
    k_cache: Tensor, v_cache: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, given: Tensor,
    q_norm: Optional[Tensor] = None, k_norm: Optional[Tensor] = None, eps: float = 1e-6, one_plus_weight: bool = False
) -> Tensor:
    """rotate(), after a norm of each head if there is one, with k and v [B,S,Hkv,D] written to the places() of caches
    [B,Hkv,N,D]."""
    b, s = q.shape[:2]
    slots = given[0, 0, 0, b + b % 2 :].view(torch.int64)
    turned = ops.rope_append(
        _written(k_cache), _written(v_cache), q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), _table(cos, sin, q.shape[0]),
        _count(b * s, q.device), slots, q_norm=q_norm, k_norm=k_norm, eps=eps, one_plus_weight=one_plus_weight
    )  # fmt: skip
    return turned.view(q.shape)


def _pages(cache: Tensor, page: int) -> Tensor:
    """[B,H,N,D] as a cache of pages [blocks,page,H,D]. Page j of sequence b is block b H N / page + j; those between are rows of
    other heads, and are not used."""
    b, h, n, d = cache.shape
    return cache.as_strided((((b - 1) * h * n + n) // page, page, h, d), (page * d, d, n * d, 1))


def mha_cached(
    q: Tensor, k: Tensor, v: Tensor, given: Tensor, scale: float = 0.0, soft_cap: float = 0.0, window: int = 0
) -> Tensor:
    """Causal attention of q [B,S,Hq,D] to the filled keys of k, v [B,Hkv,N,D] (places()), the last S of which are q's own.
    window: a query sees so many keys, its own included; 0: all."""
    options: Dict[str, Any] = dict(scale=scale, soft_cap=soft_cap, causal=q.shape[1] > 1, window=window, kv_lens=kv_lens(given, q.shape[0]))
    if q.shape[1] <= MOST_QUERIES:
        return ops.mha_decode(q, k.transpose(1, 2), v.transpose(1, 2), **options)
    b, h, n, _ = k.shape
    page = n & -n  # the largest power of two that divides n
    table = _count(b, q.device)[:, None] * (h * n // page) + _count(n // page, q.device)
    return ops.mha(q, _pages(k.contiguous(), page), _pages(v.contiguous(), page), block_table=table, **options)


def mha_heads(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float = 0.0, soft_cap: float = 0.0, window: int = 0) -> Tensor:
    """Attention of q [B,S,Hq,D] to all of k, v [B,Hkv,N,D]; causal: the last S keys are q's own."""
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    options: Dict[str, Any] = dict(scale=scale, soft_cap=soft_cap, causal=causal and q.shape[1] > 1 or window > 0, window=window)
    return ops.mha_decode(q, k, v, **options) if causal and q.shape[1] <= MOST_QUERIES else ops.mha(q, k, v, **options)


def _attended(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


_SCORES = "float scale=0.0, float soft_cap=0.0, int window=0) -> Tensor"
OPS: List[Op] = [
    (
        rotate,
        "(Tensor q, Tensor k, Tensor cos, Tensor sin) -> (Tensor, Tensor)",
        lambda q, k, *_: (q.new_empty(q.shape), k.new_empty(k.shape)),
    ),
    (
        rotate_append,
        "(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor q, Tensor k, Tensor v, Tensor cos, Tensor sin, Tensor places, "
        "Tensor? q_norm=None, Tensor? k_norm=None, float eps=1e-6, bool one_plus_weight=False) -> Tensor",
        lambda k_cache, v_cache, q, *_, **__: q.new_empty(q.shape),
    ),
    (mha_cached, "(Tensor q, Tensor k, Tensor v, Tensor places, " + _SCORES, _attended),
    (mha_heads, "(Tensor q, Tensor k, Tensor v, bool causal, " + _SCORES, _attended),
]
define(OPS)
