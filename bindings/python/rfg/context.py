# SPDX-License-Identifier: MIT
"""Contexts: a device, its tuned databases and its code cache (rfg/core.h)."""

from typing import Any, Callable, NamedTuple, Optional, Union
from weakref import WeakSet

from . import _rfg


class Stats(NamedTuple):
    """rfg_stats: a context's counters."""

    calls: int  #: op calls that were launched
    misses: int  #: of them, not answered by an exact tuned row
    plans: int  #: distinct problems seen
    compiles: int  #: compiler runs
    cache_hits: int  #: code objects found in the cache on disk or in memory
    tuned: int  #: problems that took up a row which was tuned online


class Context(_rfg.Context):
    """rfg_context, with the members of rfg_context_params as arguments. Operators create a default context for each device; a context with other
    settings is passed to them as ctx=.

    device: "cpu", "amd:0", "nvidia:0", "emu:gfx942:304"; None: $RFG_DEVICE, else the first GPU, else "cpu"."""

    def __init__(self, device: Optional[str] = None, **settings: Any) -> None:
        super().__init__(device, **settings)
        contexts.add(self)

    def close(self) -> None:
        """rfg_context_destroy(), after running calls have ended. Operators then refuse the context."""
        contexts.discard(self)
        super().close()

    def stats(self) -> Stats:
        """rfg_context_stats()."""
        return Stats(*super().stats())

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            return "<rfg.Context %s>" % self.device
        except _rfg.Error:
            return "<rfg.Context, closed>"


contexts: "WeakSet[Context]" = WeakSet()  # those that aren't closed


def context(device: Union[str, Context] = "cpu") -> Context:
    """The default context of a device: "cpu", "nvidia:0", "amd:1"."""
    return device if isinstance(device, Context) else _rfg.context(device)


def prepare(problem: str, ctx: Union[str, Context] = "cpu") -> None:
    """rfg_prepare(): compiles and loads what a problem needs, "gemm bf16,bf16->bf16 M=1..256 N=2112 K=7168", so that calls
    neither compile nor allocate, and are legal under stream capture."""
    context(ctx).prepare(problem)


def explain(problem: str, ctx: Union[str, Context] = "cpu") -> str:
    """rfg_explain(): which variant serves a problem, and why."""
    return context(ctx).explain(problem)


def stats(ctx: Union[str, Context] = "cpu") -> Stats:
    """rfg_context_stats() of a device's default context, or of one that is given."""
    return context(ctx).stats()


def describe(function: Callable[..., Any], *args: Any, ctx: Union[str, Context, None] = None, **kwargs: Any) -> str:
    """The problem string of a call, without running it (rfg_describe_begin()): describe(rfg.gemm, x, w). prepare(), explain() and tune() take
    it. "" if the call has nothing to do. ctx: as above; None: that of the first tensor's device."""
    if ctx is None:
        tensors = [a for a in args if hasattr(a, "shape")]
        device = getattr(tensors[0], "device", "cpu") if tensors else "cpu"
        from ._hooks import context_name

        ctx = context_name(device)
    here = context(ctx)
    here.describe_begin()
    try:
        function(*args, ctx=here, **kwargs)
    finally:
        problem = here.describe_end()
    return problem


def version() -> str:
    """The library's version, e.g. "0.2.0"."""
    return _rfg.version()


def prepare_from_csv(path: str, ctx: Optional[Union[str, Context]] = "cpu") -> None:
    """rfg_prepare_from_csv(): the same as prepare() for every row of a shapes file."""
    context(ctx or "cpu").prepare_from_csv(path)
