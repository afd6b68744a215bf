# SPDX-License-Identifier: MIT
"""RFG_TORCH: models of Hugging Face transformers compute with rfg, without a change of the program. 1: all of
rfg.torch.enable()'s operators; a list of them, "linear,rmsnorm": these; 0 or nothing: none.

rfg-switch.pth, which pip installs beside the package, calls install() as Python starts if the variable is set. Models are enabled
when from_pretrained() returns them, or when eval() is called; what was replaced goes to stderr."""

import functools
import importlib.util
import os
import sys
import threading
from typing import Any, Callable, Optional, Tuple

from . import _rfg

MODULE = "transformers.modeling_utils"
_within = threading.local()  # from_pretrained() calls eval() before the model is whole


def chosen() -> Optional[Tuple[str, ...]]:
    """RFG_TORCH's operators: (): all; None: it is off."""
    value = "" if _rfg.privileged() else os.environ.get("RFG_TORCH", "").strip()
    if value in ("", "0"):
        return None
    return () if value == "1" else tuple(name.strip() for name in value.split(","))


def _enable(model: Any) -> None:
    ops = chosen()
    from .torch import modules

    if ops is None or modules.CALLS in vars(model):
        return
    try:
        report = modules.enable(model, ops or None)
    except _rfg.Error as e:
        raise _rfg.Error("RFG_TORCH=%s: %s" % (os.environ["RFG_TORCH"], e)) from None
    except Exception as e:  # not the program's: its model is as it was
        print("rfg: RFG_TORCH=%s: %s is left as it is: %s: %s" % (os.environ["RFG_TORCH"], type(model).__name__, type(e).__name__, e), file=sys.stderr)
        return
    print("rfg: RFG_TORCH=%s: %s\n%s" % (os.environ["RFG_TORCH"], type(model).__name__, report), file=sys.stderr)


def _patch(module: Any) -> None:
    cls = module.PreTrainedModel
    load: Callable[..., Any] = vars(cls)["from_pretrained"].__func__
    evaluate: Callable[..., Any] = cls.eval

    @functools.wraps(load)
    def from_pretrained(kind: Any, *args: Any, **kwargs: Any) -> Any:
        outer = getattr(_within, "loading", False)
        _within.loading = True
        try:
            loaded = load(kind, *args, **kwargs)
        finally:
            _within.loading = outer
        if not outer:
            _enable(loaded[0] if isinstance(loaded, tuple) else loaded)
        return loaded

    @functools.wraps(evaluate)
    def evaluated(self: Any) -> Any:
        evaluate(self)
        if not getattr(_within, "loading", False):
            _enable(self)
        return self

    cls.from_pretrained, cls.eval = classmethod(from_pretrained), evaluated


class _Finder:
    """Finds transformers' module as it would be found without this, and patches it when it has been executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_installed = False


def install() -> None:
    global _installed
    if _installed or chosen() is None:
        return
    _installed = True
    if MODULE in sys.modules:
        _patch(sys.modules[MODULE])
    else:
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
