# SPDX-License-Identifier: MIT
"""Quantised weights of checkpoints as rfg.gemm takes them. Tensors are NumPy's or PyTorch's (any device); memory is little-endian.

    q = rfg.weights.load(tensors, config)           # of one layer, by name; the checkpoint's quantization_config
    q = rfg.weights.awq(qweight, qzeros, scales)    # or by format
    y = q.prepack().gemm(x)                         # prepack(): for matrix cores, once

A checkpoint's int4 are unsigned, 0 to 15; rfg's are those less 8, zero points too: w = (q - z) s is the same."""

import json
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from . import _rfg, ops
from .view import View, bf16

Tensor = Any  #: torch.Tensor, numpy.ndarray


class Weights(NamedTuple):
    """What rfg.gemm() takes.

    w         [N,K] i4 or e2m1; e4m3 or i8; or bf16 or f16, dequantised
    w_scale   of 4 bits [N,ceil(K/group)] bf16, f16 or f32, with e2m1 also e8m0 or e4m3; of 8 bits as w_per says; or None
    w_zero    [N,ceil(K/group)] i8, or None: 0
    columns   [K] int64, or None: w's column i is the layer's columns[i], and multiplies x[:, columns[i]]
    w_per     of 8 bits: "tensor", "row", "block" or "group"
    w_global  [1] f32, what e4m3 scales are multiplied by, or None
    w_group   columns of a group, if the last one is shorter; else 0"""

    w: Any
    w_scale: Any
    w_zero: Any = None
    columns: Any = None
    w_per: str = "tensor"
    w_global: Any = None
    w_group: int = 0

    def gemm(self, x: Tensor, bias: Optional[Tensor] = None, **more: Any) -> Tensor:
        """rfg.gemm() of x [M,K], bf16 or f16, and these weights; more: its other arguments."""
        rows = x if self.columns is None else _packed(x[:, self.columns])
        return ops.gemm(
            rows, self.w, bias, w_scale=self.w_scale, w_zero=self.w_zero, w_per=self.w_per, w_global=self.w_global, w_group=self.w_group,
            **more
        )

    def prepack(self) -> "Weights":
        """The same laid out for matrix cores (rfg.gemm_prepack()): N % 16 = 0, and K % 128 = 0 or K % 32 = 0 with groups that divide the next
        multiple of 128; of 8 bits K % 64 = 0, of 16 K % 32 = 0."""
        w = ops.gemm_prepack(self.w)
        if not isinstance(self.w, View) or self.w.dtype not in ("i4", "e2m1"):
            return self._replace(w=w)
        k, groups = self.w.shape[1], self.w_scale.shape[1]
        group = self.w_group or k // groups
        pad = -(-(-(-k // 128) * 128) // group) - groups if k % 128 and groups > 1 else 0
        zero = None if self.w_zero is None else ops.gemm_prepack(self.w_zero, groups=True, pad=pad)
        scale = ops.gemm_prepack(self.w_scale, groups=True, pad=pad)
        return self._replace(w=w, w_scale=scale, w_zero=zero, w_group=self.w_group if k % 128 == 0 else 0)


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


def _group(fn: str, k: int, groups: int, group: int = 0, least: int = 16) -> Tuple[int, int]:
    """Columns of a group, and the same if the last one is shorter, else 0. group: what the caller says, or 0."""
    if groups == 1 and not group:
        return k, 0
    size = group or (k // groups if groups > 0 else 0)
    if size < 1 or -(-k // size) != groups or (size % least and size != k):
        raise _rfg.Error(
            "%s: %d groups of %d columns%s: columns in a group must be a multiple of %d%s" %
            (fn, groups, k, ", group=%d" % group if group else "", least, "" if group else "; say group= if the last one is shorter")
        )
    return size, size if k % size else 0


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


def awq(qweight: Tensor, qzeros: Tensor, scales: Tensor, *, group: int = 0) -> Weights:
    """AutoAWQ's "gemm" form: qweight int32 [K,N/8], qzeros int32 [K/group,N/8], scales [K/group,N]. group: columns of a group, if the last
    one is shorter."""
    fn = "weights.awq"
    _is(fn, "qweight", qweight, "int32", None, None)
    k, n = qweight.shape[0], qweight.shape[1] * 8
    _is(fn, "scales", scales, _SCALES, None, n)
    _, shorter = _group(fn, k, scales.shape[0], group)
    _is(fn, "qzeros", qzeros, "int32", scales.shape[0], n // 8)

    def in_order(words: Tensor) -> Tensor:  # nibbles of a word are columns 0, 2, 4, 6, 1, 3, 5, 7; returns [N, rows]
        each = _nibbles(_bytes(words)).reshape(words.shape[0], n // 8, 8)
        return each[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(words.shape[0], n).swapaxes(0, 1)

    return Weights(_codes(in_order(qweight)), _packed(scales.swapaxes(0, 1)), _zeros(in_order(qzeros)), w_group=shorter)


def _is_v1(fn: str, qzeros: Tensor, v1: Optional[bool]) -> bool:
    """Are zero points stored less 1? All of them 8, as symmetric layers have it, say it whatever the file says. (v1 stores 7 for 8, and all 9
    is what no quantiser makes.)"""
    for word, stored_less_one in ((-0x77777778, False), (0x77777777, True)):
        if qzeros.shape[0] and bool((qzeros == word).all()) and (v1 is None or not stored_less_one):
            return stored_less_one
    if v1 is None:
        raise _rfg.Error(
            "%s: zero points aren't all 7 or all 8, which would tell v1 from v2: say v1=True (checkpoint_format \"gptq\": they are stored less 1)"
            " or v1=False (\"gptq_v2\")" % fn
        )
    return v1


def gptq(qweight: Tensor, qzeros: Tensor, scales: Tensor, g_idx: Optional[Tensor] = None, *, v1: Optional[bool] = None, group: int = 0) -> Weights:
    """GPTQ: qweight int32 [K/8,N], qzeros int32 [K/group,N/8], scales [K/group,N], g_idx [K]: each column's group, or None. group: columns
    of a group, if the last one is shorter.

    v1: zero points are stored less 1 (checkpoint_format "gptq", the usual one), not as they are ("gptq_v2"); GPTQModel takes 1 from all
    eight of a word at once, so that a 0 borrows from the one above it. None: zero points tell, or the call is refused; with v1=True those
    that are all 8 still count as v2's, which some files hold under v1's name. Where g_idx is not in ascending order (act-order, desc_act)
    columns are sorted by it, and Weights.columns says how."""
    fn = "weights.gptq"
    _is(fn, "qweight", qweight, "int32", None, None)
    k, n = qweight.shape[0] * 8, qweight.shape[1]
    _is(fn, "scales", scales, _SCALES, None, n)
    groups = scales.shape[0]
    size, shorter = _group(fn, k, groups, group)
    if n % 8:
        raise _rfg.Error("%s: N=%d: must be a multiple of 8" % (fn, n))
    _is(fn, "qzeros", qzeros, "int32", groups, n // 8)
    codes = _nibbles(_bytes(qweight).reshape(k // 8, n, 4)).swapaxes(0, 1).reshape(n, k)
    columns = None
    if g_idx is not None:
        _is(fn, "g_idx", g_idx, "int32 or int64", k)
        order = g_idx.argsort(stable=True) if hasattr(g_idx, "data_ptr") else g_idx.argsort(kind="stable")
        if g_idx[order].tolist() != [i // size for i in range(k)]:
            raise _rfg.Error("%s: g_idx: each of the %d groups must have %d columns" % (fn, groups, size))
        if not bool((g_idx[1:] >= g_idx[:-1]).all()):
            columns, codes = order, codes[:, order]
    zeros = _nibbles(_bytes(qzeros + 0x11111111 if _is_v1(fn, qzeros, v1) else qzeros))
    return Weights(_codes(codes), _packed(scales.swapaxes(0, 1)), _zeros(zeros.swapaxes(0, 1)), columns, w_group=shorter)


def pack_quantized(
    weight_packed: Tensor, weight_scale: Tensor, weight_zero_point: Optional[Tensor] = None, *, bits: int = 4, group: int = 0
) -> Weights:
    """compressed-tensors' "pack-quantized": weight_packed int32 [N,K bits/32], weight_scale [N,ceil(K/group)] (or [N,1]: K is the group), and,
    of 4 bits that aren't symmetric, weight_zero_point int32 [N/8,ceil(K/group)]. bits: 4 or 8 (w8a16); group: columns of a group, if the last
    one is shorter. (One with g_idx, "actorder": "group", is not taken.)"""
    fn = "weights.pack_quantized"
    if bits not in (4, 8):
        raise _rfg.Error("%s: bits is %r: must be 4 or 8" % (fn, bits))
    _is(fn, "weight_packed", weight_packed, "int32", None, None)
    n, k = weight_packed.shape[0], weight_packed.shape[1] * (32 // bits)
    _is(fn, "weight_scale", weight_scale, _SCALES, n, None)
    groups = weight_scale.shape[1]
    if bits == 8:
        if weight_zero_point is not None:
            raise _rfg.Error("%s: weight_zero_point: must be None of 8 bits: rfg.gemm has no zero points of them" % fn)
        return int_quantized((_bytes(weight_packed) ^ 0x80).view(_xp(weight_packed).int8), weight_scale)
    _, shorter = _group(fn, k, groups, group)
    zeros = None
    if weight_zero_point is not None:
        if n % 8:
            raise _rfg.Error("%s: N=%d: must be a multiple of 8 with a weight_zero_point" % (fn, n))
        _is(fn, "weight_zero_point", weight_zero_point, "int32", n // 8, groups)
        each = _nibbles(_bytes(weight_zero_point).reshape(n // 8, groups, 4))
        zeros = _zeros(each.swapaxes(1, 2).reshape(n, groups))
    return Weights(View(_bytes(weight_packed) ^ 0x88, "i4"), _packed(weight_scale), zeros, w_group=shorter)


def _eight_bits(fn: str, w: Any, n: int, k: int, scale: Optional[Tensor]) -> Weights:
    """By the shape of the scales. Blocks have 128 rows and columns; of shapes that may be two things (N or K of 128 and less, or one) it is the
    same."""
    if scale is None:
        return Weights(w, None)
    _is(fn, "weight_scale", scale.reshape(-1), _SCALES, None)
    shape = tuple(scale.shape)
    if scale.reshape(-1).shape[0] == 1:
        return Weights(w, _packed(scale).reshape(1))
    if shape in ((n,), (n, 1)):
        return Weights(w, _packed(scale).reshape(n), w_per="row")
    if shape == (-(-n // 128), -(-k // 128)):
        return Weights(w, _packed(scale), w_per="block")
    if len(shape) == 2 and shape[0] == n and k % shape[1] == 0 and k // shape[1] % 32 == 0:
        return Weights(w, _packed(scale), w_per="group")
    raise _rfg.Error(
        "%s: weight_scale is %s: must be [1], [%d], [%d,1], [%d,%d] (blocks of 128 x 128) or [%d,K/group] with groups of a multiple of 32 columns"
        " that divides K=%d" % (fn, list(shape), n, n, -(-n // 128), -(-k // 128), n, k)
    )


def float_quantized(weight: Tensor, weight_scale: Optional[Tensor] = None) -> Weights:
    """compressed-tensors' "float-quantized", ModelOpt's and others' fp8, for an x of 16 bits: weight [N,K] e4m3 (torch.float8_e4m3fn, or uint8
    of NumPy), weight_scale of the tensor [1], of channels [N] or [N,1], of blocks [ceil(N/128),ceil(K/128)] or of groups [N,K/group].
    DeepSeek's weight_scale_inv is such a scale of blocks, too."""
    fn = "weights.float_quantized"
    _is(fn, "weight", weight, "float8_e4m3fn or uint8", None, None)
    return _eight_bits(fn, View(_packed(weight), "e4m3"), weight.shape[0], weight.shape[1], weight_scale)


def int_quantized(weight: Tensor, weight_scale: Tensor) -> Weights:
    """compressed-tensors' "int-quantized" of 8 bits, symmetric, for an x of 16: weight int8 [N,K], weight_scale as of float_quantized()."""
    fn = "weights.int_quantized"
    _is(fn, "weight", weight, "int8", None, None)
    return _eight_bits(fn, _packed(weight), weight.shape[0], weight.shape[1], weight_scale)


def nvfp4(
    weight: Tensor, weight_scale: Tensor, weight_scale_2: Optional[Tensor] = None, *, weight_global_scale: Optional[Tensor] = None
) -> Weights:
    """nvfp4: weight uint8 [N,K/2], the even column in the low four bits, weight_scale [N,K/16] e4m3 (torch.float8_e4m3fn, or uint8 of NumPy),
    and one f32 of the tensor: ModelOpt's weight_scale_2, which multiplies, or compressed-tensors' weight_global_scale, which divides."""
    fn = "weights.nvfp4"
    _is(fn, "weight", weight, "uint8", None, None)
    n, k = weight.shape[0], weight.shape[1] * 2
    _is(fn, "weight_scale", weight_scale, "float8_e4m3fn or uint8", n, -(-k // 16))
    if (weight_scale_2 is None) == (weight_global_scale is None):
        raise _rfg.Error("%s: weight_scale_2, weight_global_scale: must be one of them" % fn)
    scale = weight_global_scale if weight_scale_2 is None else weight_scale_2
    _is(fn, "weight_scale_2" if weight_scale_2 is not None else "weight_global_scale", scale.reshape(-1), "float32", 1)
    one = _packed(scale).reshape(1)
    return Weights(
        View(_packed(weight), "e2m1"), View(_packed(weight_scale), "e4m3"), w_global=one if weight_scale_2 is not None else 1 / one,
        w_group=16 if k % 16 else 0
    )


def mxfp4(blocks: Tensor, scales: Tensor) -> Weights:
    """gpt-oss's mxfp4, of one expert: blocks uint8 [N,K/32,16], scales uint8 [N,K/32]. Memory is shared where it is packed."""
    fn = "weights.mxfp4"
    _is(fn, "blocks", blocks, "uint8", None, None, 16)
    n, groups = blocks.shape[0], blocks.shape[1]
    _is(fn, "scales", scales, "uint8", n, groups)
    return Weights(View(_packed(blocks).reshape(n, groups * 16), "e2m1"), View(_packed(scales), "e8m0"))


# The 16 values of nf4 (QLoRA, 2023, appendix E): quantiles of a normal distribution, as bitsandbytes has them in fp32.
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0
)


def _at(t: Tensor) -> Tensor:
    """As an index: PyTorch takes uint8 for a mask."""
    return t.long() if hasattr(t, "data_ptr") else t


def nf4(
    weight: Tensor, absmax: Tensor, shape: Tuple[int, int], *, block: int = 64, quant_map: Optional[Tensor] = None, dtype: str = "bf16",
    nested: Optional[Tuple[Tensor, Tensor, float, int]] = None
) -> Weights:
    """bitsandbytes' nf4, dequantised to dtype ("bf16" or "f16"): rfg.gemm has no such format. weight uint8 of N K / 2 bytes, the even column in
    the high four bits; absmax f32, of each `block` elements of the layer, shape [N,K]. quant_map [16] f32: the codes' values (fp4 has others); None:
    nf4's. nested, where absmax is uint8 (double quantisation): its map [256] f32, absmax f32, offset, and how many share one of these."""
    fn = "weights.nf4"
    if dtype not in ("bf16", "f16"):
        raise _rfg.Error("%s: dtype is %r: must be bf16 or f16" % (fn, dtype))
    xp, (n, k) = _xp(weight), shape
    octets = _packed(weight).reshape(-1)
    blocks = -(-n * k // block)
    _is(fn, "weight", octets, "uint8", -(-n * k // 2))
    _is(fn, "absmax", absmax, "uint8" if nested else "float32", blocks)
    if nested:
        values, outer, offset, each = nested
        _is(fn, "nested map", values, "float32", 256)
        _is(fn, "nested absmax", outer, "float32", -(-blocks // each))
        absmax = values[_at(absmax)] * outer[_at(xp.arange(blocks) // each)] + offset
    if quant_map is None:
        quant_map = xp.asarray(_NF4, dtype=xp.float32)
        quant_map = quant_map.to(weight.device) if hasattr(weight, "data_ptr") else quant_map
    _is(fn, "quant_map", quant_map, "float32", 16)
    codes = xp.stack((octets >> 4, octets & 15), -1).reshape(-1)[: n * k]
    w = (quant_map[_at(codes)] * absmax[_at(xp.arange(n * k) // block)]).reshape(n, k)
    if xp.__name__ == "numpy":
        return Weights(bf16(w) if dtype == "bf16" else w.astype(xp.float16), None)
    return Weights(w.to(xp.bfloat16 if dtype == "bf16" else xp.float16), None)


# ---- by a checkpoint's config ------------------------------------------------------------------------------------------------------------------------

Tensors = Mapping[str, Tensor]
Config = Mapping[str, Any]


def _said(config: Config, key: str, *wants: Any) -> Any:
    value = config.get(key, wants[0])
    if value not in wants:
        raise _rfg.Error("weights.load: %s is %r: must be %s" % (key, value, " or ".join(map(repr, wants))))
    return value


def _group_size(config: Config) -> int:
    size = config.get("group_size")
    return size if size and size > 0 else 0


def _of_groups(k: int, config: Config) -> int:
    """The group, if it doesn't divide K: else the scales say it."""
    size = _group_size(config)
    return size if size and k % size else 0


def _awq(t: Tensors, c: Config) -> Weights:
    _said(c, "bits", 4)
    _said(c, "version", "gemm", "GEMM")
    return awq(t["qweight"], t["qzeros"], t["scales"], group=_of_groups(t["qweight"].shape[0], c))


def _gptq(t: Tensors, c: Config) -> Weights:
    _said(c, "bits", 4)
    v1 = {None: None, "gptq": True, "gptq_v2": False}[_said(c, "checkpoint_format", None, "gptq", "gptq_v2")]
    return gptq(t["qweight"], t["qzeros"], t["scales"], t.get("g_idx"), v1=v1, group=_of_groups(t["qweight"].shape[0] * 8, c))


def _pack_quantized(t: Tensors, c: Config) -> Weights:
    if t.get("weight_g_idx") is not None:
        raise _rfg.Error("weights.load: weight_g_idx (actorder \"group\"): must not be there, it is not taken")
    bits = _said(c, "num_bits", 4, 8)
    group = _of_groups(t["weight_packed"].shape[1] * (32 // bits), c) if bits == 4 else 0
    return pack_quantized(t["weight_packed"], t["weight_scale"], t.get("weight_zero_point"), bits=bits, group=group)


def _naive(t: Tensors, c: Config) -> Weights:
    if t.get("weight_zero_point") is not None and bool((t["weight_zero_point"] != 0).any()):
        raise _rfg.Error("weights.load: weight_zero_point has others than 0: rfg.gemm has no zero points of 8 bits")
    return (int_quantized if _name(t["weight"]) == "int8" else float_quantized)(t["weight"], t["weight_scale"])


def _mxfp4(t: Tensors, _: Config) -> Weights:
    n, octets = t["weight_packed"].shape
    return mxfp4(t["weight_packed"].reshape(n, octets // 16, 16), t["weight_scale"])


def _bitsandbytes(t: Tensors, _: Config) -> Weights:
    state = json.loads(bytes(t["weight.quant_state.bitsandbytes__nf4"].tolist()))
    nested = None
    if "weight.nested_absmax" in t:
        nested = (t["weight.nested_quant_map"], t["weight.nested_absmax"], state["nested_offset"], state["nested_blocksize"])
    dtype = "f16" if state["dtype"] == "float16" else "bf16"
    return nf4(
        t["weight"], t["weight.absmax"], tuple(state["shape"]), block=state["blocksize"], quant_map=t.get("weight.quant_map"), dtype=dtype,
        nested=nested
    )


class Format(NamedTuple):
    """A row of FORMATS: quant_method and format as a checkpoint's config has them, the tensors that a layer must have, and what reads them."""

    method: str
    format: str
    tensors: Tuple[str, ...]
    read: Callable[[Tensors, Config], Weights]


_EIGHT = ("weight", "weight_scale")
FORMATS = (
    Format("awq", "", ("qweight", "qzeros", "scales"), _awq),
    Format("gptq", "", ("qweight", "qzeros", "scales"), _gptq),
    Format("compressed-tensors", "pack-quantized", ("weight_packed", "weight_scale"), _pack_quantized),
    Format("compressed-tensors", "float-quantized", _EIGHT, _naive),
    Format("compressed-tensors", "int-quantized", _EIGHT, _naive),
    Format("compressed-tensors", "naive-quantized", _EIGHT, _naive),
    Format(
        "compressed-tensors", "nvfp4-pack-quantized", ("weight_packed", "weight_scale", "weight_global_scale"),
        lambda t, _: nvfp4(t["weight_packed"], t["weight_scale"], weight_global_scale=t["weight_global_scale"])
    ),
    Format("compressed-tensors", "mxfp4-pack-quantized", ("weight_packed", "weight_scale"), _mxfp4),
    Format(
        "modelopt", "NVFP4", ("weight", "weight_scale", "weight_scale_2"),
        lambda t, _: nvfp4(t["weight"], t["weight_scale"], t["weight_scale_2"])
    ),
    Format("modelopt", "FP8", _EIGHT, _naive),
    Format("fp8", "", ("weight", "weight_scale_inv"), lambda t, _: float_quantized(t["weight"], t["weight_scale_inv"])),
    Format("bitsandbytes", "", ("weight", "weight.absmax", "weight.quant_state.bitsandbytes__nf4"), _bitsandbytes),
)


def _settings(config: Config) -> Dict[str, Any]:
    """With what compressed-tensors says of its group of layers, of which there must be one."""
    groups = list((config.get("config_groups") or {}).values())
    if len(groups) > 1:
        raise _rfg.Error("weights.load: config_groups has %d groups: must be the layer's alone" % len(groups))
    own = {k: v for group in groups for k, v in (("format", group.get("format")), *(group.get("weights") or {}).items()) if v is not None}
    return {**config, **own}


def load(tensors: Tensors, config: Config) -> Weights:
    """A layer's weights: tensors by their names behind the layer's ("qweight", "weight.absmax"), and the checkpoint's quantization_config, which
    says the format (FORMATS). What isn't of the weights (bias, input_scale) may be there, too."""
    c = _settings(config)
    method, form = c.get("quant_method"), c.get("format") or c.get("quant_algo") or ""
    rows = [f for f in FORMATS if f.method == method]
    if not rows:
        raise _rfg.Error("weights.load: quant_method is %r: must be %s" % (method, ", ".join(sorted({f.method for f in FORMATS}))))
    row = next((f for f in rows if f.format in ("", form)), None)
    if row is None:
        raise _rfg.Error("weights.load: format is %r: must be %s of %s" % (form, ", ".join(f.format for f in rows), method))
    lacks = [name for name in row.tensors if tensors.get(name) is None]
    if lacks:
        raise _rfg.Error("weights.load: no %s: must be there with %s" % (", ".join(lacks), " ".join(filter(None, (method, row.format)))))
    return row.read(tensors, c)
