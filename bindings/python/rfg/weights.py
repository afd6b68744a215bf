# SPDX-License-Identifier: MIT
"""4-bit weights of checkpoints as rfg.gemm takes them. Tensors are NumPy's or PyTorch's (any device); memory is little-endian.

    q = rfg.weights.awq(qweight, qzeros, scales).prepack()      # prepack(): for matrix cores, once
    y = rfg.gemm(x, q.w, w_scale=q.w_scale, w_zero=q.w_zero)    # GPTQ in act-order: of x[:, q.columns]

A checkpoint's int4 are unsigned, 0 to 15; rfg's are those less 8, zero points too: w = (q - z) s is the same."""

from typing import Any, NamedTuple, Optional

from . import _rfg, ops
from .view import View

Tensor = Any  #: torch.Tensor, numpy.ndarray


class Weights(NamedTuple):
    """What rfg.gemm() takes.

    w        [N,K] i4 or e2m1
    w_scale  [N,K/group] bf16, f16 or f32; e8m0 with e2m1
    w_zero   [N,K/group] i8, or None: 0
    columns  [K] int64, or None: w's column i is the layer's columns[i], and multiplies x[:, columns[i]]"""

    w: Any
    w_scale: Any
    w_zero: Any = None
    columns: Any = None

    def prepack(self) -> "Weights":
        """The same laid out for matrix cores (rfg.gemm_prepack()); N % 16 = 0, K % 128 = 0, with groups of 32 K % 32 = 0."""
        pad = -self.w_scale.shape[1] % 4 if self.w.shape[1] % 128 else 0
        zero = None if self.w_zero is None else ops.gemm_prepack(self.w_zero, groups=True, pad=pad)
        return Weights(ops.gemm_prepack(self.w), ops.gemm_prepack(self.w_scale, groups=True, pad=pad), zero, self.columns)


def _xp(t: Tensor) -> Any:
    """The tensor's framework, of which names are used that both have."""
    if hasattr(t, "data_ptr"):
        import torch

        return torch
    import numpy

    return numpy


def _packed(t: Tensor) -> Tensor:
    """Its elements one after the other."""
    return t.contiguous() if hasattr(t, "contiguous") else _xp(t).ascontiguousarray(t)


def _name(t: Tensor) -> str:
    return str(t.dtype).rpartition(".")[2]


def _is(fn: str, name: str, t: Tensor, dtypes: str, *shape: Optional[int]) -> None:
    """Refuses a tensor of another dtype or shape; None: any size."""
    if _name(t) not in dtypes.split(" or "):
        raise _rfg.Error("%s: %s is %s: must be %s" % (fn, name, _name(t), dtypes))
    got = tuple(t.shape)
    if len(got) != len(shape) or any(want is not None and have != want for have, want in zip(got, shape)):
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        raise _rfg.Error("%s: %s is %s: must be [%s]" % (fn, name, list(got), sizes))


_SCALES = "float16 or bfloat16 or float32"


def _group(fn: str, k: int, groups: int) -> int:
    if groups < 1 or k % groups or k // groups % 32:
        raise _rfg.Error("%s: %d groups of %d columns: columns in a group must be a multiple of 32" % (fn, groups, k))
    return k // groups


def _bytes(words: Tensor) -> Tensor:
    """int32 as uint8, four times the columns. Flat in between: of one column any stride counts as packed, and PyTorch views only 1."""
    return _packed(words).reshape(-1).view(_xp(words).uint8).reshape(words.shape[0], words.shape[1] * 4)


def _nibbles(octets: Tensor) -> Tensor:
    """The low and the high four bits of each byte, in turn: twice the columns."""
    pairs = _xp(octets).stack((octets & 15, octets >> 4), -1)
    return pairs.reshape(*octets.shape[:-1], octets.shape[-1] * 2)


def _codes(nibbles: Tensor) -> View:
    """Unsigned [N,K], one in a byte, as i4. 8 less is the highest bit turned."""
    return View(_packed((nibbles[:, ::2] | nibbles[:, 1::2] << 4) ^ 0x88), "i4")


def _zeros(nibbles: Tensor) -> Tensor:
    """Unsigned [N,groups] as i8, 8 less."""
    return (_packed(nibbles) - 8).view(_xp(nibbles).int8)


def awq(qweight: Tensor, qzeros: Tensor, scales: Tensor) -> Weights:
    """AutoAWQ's "gemm" form: qweight int32 [K,N/8], qzeros int32 [K/group,N/8], scales [K/group,N]."""
    fn = "weights.awq"
    _is(fn, "qweight", qweight, "int32", None, None)
    k, n = qweight.shape[0], qweight.shape[1] * 8
    _is(fn, "scales", scales, _SCALES, None, n)
    _group(fn, k, scales.shape[0])
    _is(fn, "qzeros", qzeros, "int32", scales.shape[0], n // 8)

    def in_order(words: Tensor) -> Tensor:  # nibbles of a word are columns 0, 2, 4, 6, 1, 3, 5, 7; returns [N, rows]
        each = _nibbles(_bytes(words)).reshape(words.shape[0], n // 8, 8)
        return each[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(words.shape[0], n).swapaxes(0, 1)

    return Weights(_codes(in_order(qweight)), _packed(scales.swapaxes(0, 1)), _zeros(in_order(qzeros)))


def gptq(qweight: Tensor, qzeros: Tensor, scales: Tensor, g_idx: Optional[Tensor] = None, *, v1: bool = True) -> Weights:
    """GPTQ: qweight int32 [K/8,N], qzeros int32 [K/group,N/8], scales [K/group,N], g_idx [K]: each column's group, or None.

    v1: zero points are stored less 1 (checkpoint_format "gptq", the usual one), not as they are ("gptq_v2"); GPTQModel takes 1 from all
    eight of a word at once, so that a 0 borrows from the one above it. Where g_idx is not in ascending order (act-order, desc_act)
    columns are sorted by it, and Weights.columns says how."""
    fn = "weights.gptq"
    _is(fn, "qweight", qweight, "int32", None, None)
    k, n = qweight.shape[0] * 8, qweight.shape[1]
    _is(fn, "scales", scales, _SCALES, None, n)
    groups = scales.shape[0]
    group = _group(fn, k, groups)
    if n % 8:
        raise _rfg.Error("%s: N=%d: must be a multiple of 8" % (fn, n))
    _is(fn, "qzeros", qzeros, "int32", groups, n // 8)
    codes = _nibbles(_bytes(qweight).reshape(k // 8, n, 4)).swapaxes(0, 1).reshape(n, k)
    columns = None
    if g_idx is not None:
        _is(fn, "g_idx", g_idx, "int32 or int64", k)
        order = g_idx.argsort(stable=True) if hasattr(g_idx, "data_ptr") else g_idx.argsort(kind="stable")
        ends = g_idx[order].reshape(groups, group)[:, :: group - 1]  # of each group, the first and the last
        if ends.tolist() != [[i, i] for i in range(groups)]:
            raise _rfg.Error("%s: g_idx: each of the %d groups must have %d columns" % (fn, groups, group))
        if not bool((g_idx[1:] >= g_idx[:-1]).all()):
            columns, codes = order, codes[:, order]
    zeros = _nibbles(_bytes(qzeros + 0x11111111 if v1 else qzeros))
    return Weights(_codes(codes), _packed(scales.swapaxes(0, 1)), _zeros(zeros.swapaxes(0, 1)), columns)


def pack_quantized(weight_packed: Tensor, weight_scale: Tensor, weight_zero_point: Optional[Tensor] = None) -> Weights:
    """compressed-tensors' "pack-quantized" of 4 bits: weight_packed int32 [N,K/8], weight_scale [N,K/group] (or [N,1]: K is the
    group), and, if it isn't symmetric, weight_zero_point int32 [N/8,K/group]. (One with g_idx, "actorder": "group", is not taken.)"""
    fn = "weights.pack_quantized"
    _is(fn, "weight_packed", weight_packed, "int32", None, None)
    n, k = weight_packed.shape[0], weight_packed.shape[1] * 8
    _is(fn, "weight_scale", weight_scale, _SCALES, n, None)
    groups = weight_scale.shape[1]
    _group(fn, k, groups)
    zeros = None
    if weight_zero_point is not None:
        if n % 8:
            raise _rfg.Error("%s: N=%d: must be a multiple of 8 with a weight_zero_point" % (fn, n))
        _is(fn, "weight_zero_point", weight_zero_point, "int32", n // 8, groups)
        each = _nibbles(_bytes(weight_zero_point).reshape(n // 8, groups, 4))
        zeros = _zeros(each.swapaxes(1, 2).reshape(n, groups))
    return Weights(View(_bytes(weight_packed) ^ 0x88, "i4"), _packed(weight_scale), zeros)


def mxfp4(blocks: Tensor, scales: Tensor) -> Weights:
    """gpt-oss's mxfp4, of one expert: blocks uint8 [N,K/32,16], scales uint8 [N,K/32]. Memory is shared where it is packed."""
    fn = "weights.mxfp4"
    _is(fn, "blocks", blocks, "uint8", None, None, 16)
    n, groups = blocks.shape[0], blocks.shape[1]
    _is(fn, "scales", scales, "uint8", n, groups)
    return Weights(View(_packed(blocks).reshape(n, groups * 16), "e2m1"), View(_packed(scales), "e8m0"))
