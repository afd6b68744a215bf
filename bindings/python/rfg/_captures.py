# SPDX-License-Identifier: MIT
"""Graphs that PyTorch captures: on a stream of its choice, which needs its workspace before (rfg_prepare_stream())."""

import functools
from typing import Any

from . import _hooks, _rfg
from .context import contexts


def prepare(index: int, stream: int) -> None:
    """Gives a stream of the index-th GPU its workspace, in each context of that GPU."""
    name = "%s:%d" % ({_hooks.AMD: "amd", _hooks.NVIDIA: "nvidia"}[_hooks.device("cuda:%d" % index)[0]], index)
    for ctx in list(contexts):
        try:
            if ctx.device == name:
                ctx.prepare_stream(stream)
        except _rfg.Error:
            if not repr(ctx).endswith("closed>"):
                raise


def install(torch: Any) -> None:
    """From now on torch.cuda.CUDAGraph.capture_begin(), by which all of PyTorch's captures begin, prepares its stream."""
    graph = torch.cuda.CUDAGraph
    begin = graph.capture_begin
    if hasattr(begin, "_rfg"):
        return

    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        index = torch.cuda.current_device()
        prepare(index, torch.cuda.current_stream(index).cuda_stream)
        return begin(self, *args, **kwargs)

    capture_begin._rfg = True  # type: ignore[attr-defined]
    graph.capture_begin = capture_begin
