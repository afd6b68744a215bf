# SPDX-License-Identifier: MIT
"""Memory with a dtype that NumPy or PyTorch has no name for, and output tensors."""

from typing import Any, Optional, Tuple

from . import _rfg

# NumPy's dtype of the same size, where it has none of that name.
_HELD_AS = {"bf16": "uint16", "e4m3": "uint8", "e4m3fnuz": "uint8", "e5m2": "uint8", "e8m0": "uint8", "i4": "uint8", "e2m1": "uint8"}
_TWO_IN_A_BYTE = ("i4", "e2m1")
_OF_NUMPY = {"f32": "float32", "f16": "float16", "i8": "int8", "i32": "int32", "i64": "int64"}


class View:
    """A NumPy array or PyTorch tensor whose elements are of another dtype, as rfg_tensor has it: bf16 in uint16, 8-bit formats
    in uint8; i4 and e2m1 two in a uint8, the even column in the low four bits, so that shape has twice the array's columns."""

    def __init__(self, array: Any, dtype: str):
        size = {"uint16": 2, "uint8": 1}.get(_HELD_AS.get(dtype, ""), 0)
        if not size:
            raise _rfg.Error("view: dtype: '%s': must be one of %s" % (dtype, ", ".join(_HELD_AS)))
        if array.dtype.itemsize != size:
            raise _rfg.Error("view: the array has elements of %d bytes: must be %d for %s" % (array.dtype.itemsize, size, dtype))
        self.array, self.dtype = array, dtype
        self._per_byte = 2 if dtype in _TWO_IN_A_BYTE else 1
        if self._per_byte == 2 and (not self.shape or (self.shape[-1] > 2 and self._strides()[-1] != 1)):
            raise _rfg.Error("view: the array's last dimension isn't contiguous: must be for %s" % dtype)

    def _strides(self) -> Tuple[int, ...]:
        if hasattr(self.array, "stride"):
            return tuple(self.array.stride())
        return tuple(s // self.array.itemsize for s in self.array.strides)

    @property
    def device(self) -> Any:
        return self.array.device if hasattr(self.array, "data_ptr") else "cpu"

    @property
    def shape(self) -> Tuple[int, ...]:
        shape = tuple(self.array.shape)
        return shape if self._per_byte == 1 or not shape else (*shape[:-1], shape[-1] * 2)

    @property
    def ndim(self) -> int:
        return int(self.array.ndim)

    def data_ptr(self) -> int:
        if hasattr(self.array, "data_ptr"):
            return int(self.array.data_ptr())
        return int(self.array.__array_interface__["data"][0])

    def stride(self) -> Tuple[int, ...]:
        strides = self._strides()
        return strides if self._per_byte == 1 else (*(s * 2 for s in strides[:-1]), 1)

    def __getitem__(self, index: Any) -> "View":
        if self._per_byte == 2 and not isinstance(index, (int, slice)):
            raise _rfg.Error("view: of %s can only be indexed by rows" % self.dtype)
        return View(self.array[index], self.dtype)

    def reshape(self, *shape: Any) -> "View":
        if self._per_byte == 2:
            raise _rfg.Error("view: of %s can't be reshaped: reshape its array" % self.dtype)
        return View(self.array.reshape(*shape), self.dtype)


def view(array: Any, dtype: str) -> View:
    """Says what the elements of a NumPy array are: view(a.astype(...), "bf16"), with a of uint16 or of ml_dtypes.bfloat16.
    dtype: bf16, e4m3, e4m3fnuz, e5m2, e8m0; i4 and e2m1 of uint8 [..., K/2]. A PyTorch tensor will do, too. The memory stays
    the array's."""
    return View(array, dtype)


def bf16(array: Any) -> View:
    """A copy of a NumPy array of float32, rounded to bf16, to nearest even."""
    import numpy

    bits = numpy.ascontiguousarray(array, numpy.float32).view(numpy.uint32)
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return View(numpy.where(nan, (bits >> 16) | 0x40, rounded).astype(numpy.uint16), "bf16")


def f32(of: Any) -> Any:
    """A copy as a NumPy array of float32: of a bf16 View, or of an array."""
    import numpy

    if not isinstance(of, View):
        return numpy.asarray(of, numpy.float32)
    if of.dtype != "bf16":
        raise _rfg.Error("f32: dtype: '%s': must be bf16" % of.dtype)
    return (of.array.astype(numpy.uint32) << 16).view(numpy.float32)


def _held(shape: Tuple[int, ...], dtype: str) -> Tuple[int, ...]:
    """The shape of the array that holds so many elements."""
    return (*shape[:-1], shape[-1] // 2) if dtype in _TWO_IN_A_BYTE else shape


def empty(like: Any, shape: Tuple[int, ...], dtype: Optional[Any] = None) -> Any:
    """A new tensor of like's framework, on its device: of like's dtype, or of one by rfg's or its framework's name."""
    if isinstance(like, View) and dtype is None and hasattr(like.array, "new_empty"):
        return View(like.array.new_empty(_held(shape, like.dtype)), like.dtype)
    new_empty = getattr(like, "new_empty", None)
    if new_empty is not None:  # PyTorch
        if dtype is None:
            return new_empty(shape)
        if isinstance(dtype, str):
            import torch

            from ._hooks import NAMES

            names = {ours: theirs for theirs, ours in NAMES.items()}
            if dtype not in names:
                raise _rfg.Error("dtype: '%s': must be one of %s" % (dtype, ", ".join(names)))
            dtype = getattr(torch, names[dtype])
        return new_empty(shape, dtype=dtype)
    import numpy

    name = dtype if isinstance(dtype, str) else None
    if dtype is None and isinstance(like, View):
        name = like.dtype
    if name in _HELD_AS:
        return View(numpy.empty(_held(shape, name), _HELD_AS[name]), name)
    try:
        return numpy.empty(shape, like.dtype if dtype is None else _OF_NUMPY.get(name or "", dtype))
    except (AttributeError, TypeError) as e:
        what = "a " + type(like).__name__ if dtype is None else repr(dtype)
        raise _rfg.Error("dtype: no array can be made like %s: %s" % (what, e)) from None
