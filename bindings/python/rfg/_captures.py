# SPDX-License-Identifier: MIT
"""Graphs captured by PyTorch: they run on a stream of its choice, whose workspace must be allocated before (rfg_prepare_stream())."""

import functools
from typing import Any

from ._hooks import context_name
from .context import contexts


def prepare(index: int, stream: int) -> None:
    """Gives a stream of the index-th GPU its workspace, in each context of that GPU."""
    name = context_name("cuda:%d" % index)
    for ctx in list(contexts):
        if ctx.device == name:
            ctx.prepare_stream(stream)


def install(torch: Any) -> None:
    """Makes torch.cuda.CUDAGraph.capture_begin(), by which all of PyTorch's captures begin, prepare its stream."""
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
