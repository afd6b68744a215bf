# SPDX-License-Identifier: MIT
"""Functions that the extension module rarely calls: the library, default contexts, the meaning of frameworks' objects."""

import atexit
import os
import sys
from typing import Any, Tuple

from . import _rfg

# PyTorch's, NumPy's and ml_dtypes' names.
NAMES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "e8m0",
    "int8": "i8",
    "int32": "i32",
    "int64": "i64",
}
CPU, AMD, NVIDIA, OTHER = range(4)  # enum device_kind of src/rfgpy.h


def library_path() -> str:
    """Where librfg is: $RFG_LIBRARY, else the one in this package, else the one that the package was built for.
    No other place is looked at: see docs/security.md."""
    named = "" if _rfg.privileged() else os.environ.get("RFG_LIBRARY", "")
    if named:
        return named
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_prefix", "lib")
    try:
        from ._built import LIBRARY, SONAME
    except ImportError:
        raise _rfg.Error("librfg: this package was built without one: set RFG_LIBRARY to the absolute path of librfg.so") from None
    path = LIBRARY or os.path.join(here, SONAME)
    if not os.path.exists(path):
        raise _rfg.Error("librfg: %s isn't there: install it again, or set RFG_LIBRARY to the absolute path of librfg.so" % path)
    return path


def load_library() -> None:
    _rfg.load(library_path())


def make_context(device: str) -> Any:
    from .context import Context

    return Context(device)


atexit.register(_rfg.close_all)


def dtype(of: Any) -> int:
    """The number of a dtype; 0: rfg has none of that name."""
    name = str(of).rpartition(".")[2]
    return _rfg.dtype_number(NAMES.get(name, name))


def device(of: Any) -> Tuple[int, int]:
    """The kind and index of a device: of PyTorch, or a name of rfg's."""
    kind, _, index = str(of).partition(":")
    number = int(index) if index.isdigit() else 0
    if kind == "cuda":
        torch = sys.modules.get("torch")
        hip = torch is not None and torch.version.hip
        return AMD if hip else NVIDIA, number
    return {"cpu": CPU, "amd": AMD, "nvidia": NVIDIA}.get(kind, OTHER), number


def context_name(of: Any) -> str:
    """The rfg device of a device's tensors; "cpu" for devices that rfg doesn't have."""
    kind, index = device(of)
    return ("cpu", "amd:%d" % index, "nvidia:%d" % index, "cpu")[kind]


def current_stream(index: int) -> int:
    torch = sys.modules.get("torch")
    return torch.cuda.current_stream(index).cuda_stream if torch is not None else 0


def grad_enabled() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled()
