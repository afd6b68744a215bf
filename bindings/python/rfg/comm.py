# SPDX-License-Identifier: MIT
"""Collectives of the GPUs of one host (rfg/comm.h), a process a rank:

    comm = rfg.comm.from_torch()              # ranks of torch.distributed's group, which carries the handles only
    comm.all_reduce(x, out=x)
    y, residual = comm.all_reduce_add_rmsnorm(x, residual, weight)

from_mpi() and from_socket() do the same without PyTorch. All ranks make the same calls in the same order; each call is one kernel on
PyTorch's current stream, and may be captured once prepare() has loaded the kernels. A rank that doesn't come within timeout_ms makes later calls
and check() an rfg.Error that names it; then close(), and make another."""

import os
import socket
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _rfg
from ._hooks import context_name, dtype as dtype_number
from .context import Context, context
from ._arguments import Quant, Tensor, _shape
from .view import empty

Address = Union[str, Tuple[str, int]]
Exchange = Callable[[bytes], Sequence[bytes]]


class Comm(_rfg.Comm):
    """rfg_comm, connected.

    exchange  takes this rank's handle and returns all ranks', in their order
    ctx       a rfg.Context, or a device's name. The communicator keeps it open
    timeout_ms  how long a call waits for a peer; 0: the library's own
    vendor_from  messages of so many KiB and more are NCCL's or RCCL's, whose rules rfg/comm.h says; 0: none"""

    def __init__(
        self, exchange: Exchange, rank: int, ranks: int, ctx: Union[str, Context] = "cpu", timeout_ms: int = 0, vendor_from: int = 0
    ) -> None:
        super().__init__(context(ctx), rank, ranks, timeout_ms, vendor_from)
        self.rank, self.ranks = rank, ranks
        self.connect(list(exchange(self.handle())))

    def prepare(self, dtype: Any) -> None:
        """rfg_comm_prepare(): loads the kernels of a dtype, of PyTorch or by rfg's name, so that calls may be captured."""
        super().prepare(dtype_number(dtype))

    def all_reduce(self, x: Tensor, *, out: Optional[Tensor] = None, stream: Any = None) -> Tensor:
        """rfg_op_all_reduce: the sum of all ranks' x; out may be x."""
        out = empty(x, _shape("all_reduce", "x", x)) if out is None else out
        _rfg.all_reduce(out, x, stream=stream, ctx=self)
        return out

    def reduce_scatter(self, x: Tensor, *, out: Optional[Tensor] = None, stream: Any = None) -> Tensor:
        """rfg_op_reduce_scatter: part `rank` of the sum of all ranks' x, x [ranks * N, ...]: [N, ...]."""
        if out is None:
            shape = _shape("reduce_scatter", "x", x)
            if shape[0] % self.ranks:
                raise _rfg.Error("reduce_scatter: x has %d rows: must be a multiple of the ranks, %d" % (shape[0], self.ranks))
            out = empty(x, (shape[0] // self.ranks, *shape[1:]))
        _rfg.reduce_scatter(out, x, stream=stream, ctx=self)
        return out

    def all_gather(self, x: Tensor, *, out: Optional[Tensor] = None, stream: Any = None) -> Tensor:
        """rfg_op_all_gather: all ranks' x [N, ...], one behind the other: [ranks * N, ...]."""
        if out is None:
            shape = _shape("all_gather", "x", x)
            out = empty(x, (shape[0] * self.ranks, *shape[1:]))
        _rfg.all_gather(out, x, stream=stream, ctx=self)
        return out

    def all_reduce_add_rmsnorm(
        self, x: Tensor, residual: Tensor, weight: Optional[Tensor] = None, eps: float = 1e-6, *, out: Optional[Tensor] = None,
        residual_out: Optional[Tensor] = None, one_plus_weight: bool = False, quant: Optional[Quant] = None, stream: Any = None
    ) -> Tuple[Tensor, Tensor]:
        """rfg_op_all_reduce_add_rmsnorm: all_reduce() of x, then rfg.add_rmsnorm() of it. Returns (out, residual_out)."""
        if out is None and quant is None:
            out = empty(x, _shape("all_reduce_add_rmsnorm", "x", x))
        if residual_out is None:
            residual_out = empty(residual, _shape("all_reduce_add_rmsnorm", "residual", residual))
        _rfg.all_reduce_add_rmsnorm(
            out, residual_out, x, residual, weight, eps=eps, one_plus_weight=one_plus_weight, quant=quant, stream=stream, ctx=self
        )
        return out, residual_out

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def from_torch(group: Any = None, ctx: Union[str, Context, None] = None, **settings: int) -> Comm:
    """Of a group of torch.distributed (None: all ranks), of any backend. ctx None: PyTorch's current GPU, or cpu if it has none. settings: Comm's."""
    import torch
    import torch.distributed as dist

    if ctx is None:
        ctx = context_name("cuda:%d" % torch.cuda.current_device() if torch.cuda.is_available() else "cpu")
    ranks = dist.get_world_size(group)

    def exchange(own: bytes) -> List[bytes]:
        everyones: List[Any] = [None] * ranks
        dist.all_gather_object(everyones, own, group)
        return everyones

    return Comm(exchange, dist.get_rank(group), ranks, ctx, **settings)


def from_mpi(communicator: Any, ctx: Union[str, Context] = "cpu", **settings: int) -> Comm:
    """Of a communicator of mpi4py (mpi4py.MPI.COMM_WORLD), or of whatever has its allgather(), Get_rank() and Get_size()."""
    return Comm(communicator.allgather, communicator.Get_rank(), communicator.Get_size(), ctx, **settings)


def from_socket(address: Address, rank: int, ranks: int, ctx: Union[str, Context] = "cpu", wait: float = 60, **settings: int) -> Comm:
    """Ranks of this host without a framework: rank 0 listens at a path (a socket in a folder that is the user's own) or at a (host, port) for at
    most `wait` seconds, collects the others' handles and sends all to each."""
    return Comm(lambda own: _exchange(address, rank, ranks, own, time.monotonic() + wait), rank, ranks, ctx, **settings)


def _receive(s: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = s.recv(size - len(data))
        if not more:
            raise _rfg.Error("from_socket: a rank has closed its socket")
        data += more
    return data


def _exchange(address: Address, rank: int, ranks: int, own: bytes, until: float) -> List[bytes]:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    everyones = [own] * ranks
    try:
        if rank == 0:
            _collect(family, address, everyones, until)
            return everyones
        with _reach(family, address, until) as s:
            s.settimeout(max(until - time.monotonic(), 0.01))
            s.sendall(bytes([rank]) + own)
            data = _receive(s, ranks * len(own))
    except socket.timeout:
        raise _rfg.Error("from_socket: %s: rank %d waited in vain for all %d ranks" % (address, rank, ranks)) from None
    return [data[r * len(own):(r + 1) * len(own)] for r in range(ranks)]


def _collect(family: int, address: Address, everyones: List[bytes], until: float) -> None:
    sockets = {}
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if family == socket.AF_INET:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(len(everyones))
        try:
            while len(sockets) < len(everyones) - 1:
                listener.settimeout(max(until - time.monotonic(), 0.01))
                s, _ = listener.accept()
                s.settimeout(max(until - time.monotonic(), 0.01))
                r = _receive(s, 1)[0]
                if not 0 < r < len(everyones) or r in sockets:
                    raise _rfg.Error("from_socket: %s: rank %d came: must be from 1 to %d, each once" % (address, r, len(everyones) - 1))
                sockets[r], everyones[r] = s, _receive(s, len(everyones[0]))
            for s in sockets.values():
                s.sendall(b"".join(everyones))
        finally:
            for s in sockets.values():
                s.close()
            if isinstance(address, str):
                os.unlink(address)


def _reach(family: int, address: Address, until: float) -> socket.socket:
    """Rank 0 may not listen yet."""
    while True:
        s = socket.socket(family, socket.SOCK_STREAM)
        try:
            s.connect(address)
            return s
        except (FileNotFoundError, ConnectionRefusedError):
            s.close()
            if time.monotonic() > until:
                raise socket.timeout() from None
            time.sleep(0.01)
