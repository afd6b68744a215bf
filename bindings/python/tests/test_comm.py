# SPDX-License-Identifier: MIT
"""rfg.comm on cpu ranks, a process each: from_socket() and from_mpi()'s interface on NumPy's arrays."""

import multiprocessing
import os
import time

import numpy as np
import pytest

import rfg
from rfg import comm

RANKS = 3


def numbers(rank, n):
    return (np.arange(n) % 13 + rank).astype(np.float32)


def collectives(c):
    x = numbers(c.rank, 60).reshape(6, 10)
    total = sum(numbers(r, 60).reshape(6, 10) for r in range(c.ranks))
    np.testing.assert_array_equal(c.all_reduce(x), total)
    np.testing.assert_array_equal(c.reduce_scatter(x), total[2 * c.rank:2 * c.rank + 2])
    np.testing.assert_array_equal(c.all_gather(x), np.concatenate([numbers(r, 60).reshape(6, 10) for r in range(c.ranks)]))
    residual, weight = numbers(7, 60).reshape(6, 10), numbers(1, 10)
    y, out = c.all_reduce_add_rmsnorm(x, residual, weight)
    want, want_out = rfg.add_rmsnorm(total, residual, weight)
    np.testing.assert_array_equal(out, want_out)
    np.testing.assert_array_equal(y, want)
    assert c.all_reduce(x, out=x) is x
    np.testing.assert_array_equal(x, total)
    c.prepare("f32")
    c.check()


def of_sockets(rank, path):
    with comm.from_socket(path, rank, RANKS, wait=30) as c:
        collectives(c)


def of_ports(rank, port):
    with comm.from_socket(("127.0.0.1", port), rank, RANKS, rfg.Context("cpu", threads=1), wait=30) as c:
        collectives(c)


class Mpi:
    """What from_mpi() takes of mpi4py."""

    def __init__(self, rank, barrier, handles):
        self.rank, self.barrier, self.handles = rank, barrier, handles

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return RANKS

    def allgather(self, own):
        self.handles[self.rank] = own
        self.barrier.wait(30)
        return [self.handles[r] for r in range(RANKS)]


def of_mpi(rank, barrier, handles):
    with comm.from_mpi(Mpi(rank, barrier, handles)) as c:
        collectives(c)


def dies(rank, path, queue):
    c = comm.from_socket(path, rank, RANKS, timeout_ms=700, wait=30)
    x = numbers(rank, 5)
    c.all_reduce(x, out=x)
    if rank == 1:
        os._exit(0)
    begin = time.monotonic()
    try:
        while True:
            c.all_reduce(x, out=x)
    except rfg.Error as e:
        queue.put((str(e), e.status, time.monotonic() - begin))
    try:
        c.check()
    except rfg.Error as e:
        queue.put((str(e), e.status, 0.0))


def run(target, *args):
    """In processes that begin anew: a child of fork() may not use what its parent used."""
    start = multiprocessing.get_context("spawn")
    ranks = [start.Process(target=target, args=(r, *args)) for r in range(RANKS)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join(60)
        assert p.exitcode == 0


def test_ranks_by_a_path(tmp_path):
    path = str(tmp_path / "s")
    run(of_sockets, path)
    assert not os.path.exists(path)


def test_ranks_by_a_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    run(of_ports, port)


def test_ranks_by_mpi():
    with multiprocessing.get_context("spawn").Manager() as manager:
        run(of_mpi, manager.Barrier(RANKS), manager.dict())


def test_a_dead_rank_is_named(tmp_path):
    queue = multiprocessing.get_context("spawn").Queue()
    run(dies, str(tmp_path / "s"), queue)
    for _ in range(2 * (RANKS - 1)):
        text, status, seconds = queue.get(timeout=10)
        assert "rank 1 did not come within 700 ms" in text and status == "RFG_ERROR_DEVICE" and seconds < 5


def test_nobody_comes(tmp_path):
    for rank in (0, 1):
        with pytest.raises(rfg.Error, match="rank %d waited in vain for all 2 ranks" % rank):
            comm.from_socket(str(tmp_path / "s"), rank, 2, wait=0.2)


def test_refused():
    handles = []
    one = comm.Comm(lambda own: handles.append(own) or [own], 0, 1)
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(one.all_reduce(x), x)
    with pytest.raises(rfg.Error, match="x has 3 rows: must be a multiple of the ranks, 2"):
        two = comm.Comm.__new__(comm.Comm)
        two.ranks = 2
        two.reduce_scatter(x)
    with pytest.raises(rfg.Error, match="connect: handles: must be 1 of 256 bytes"):
        one.connect([handles[0], handles[0]])
    with pytest.raises(rfg.Error, match="comm is connected"):
        one.connect(handles)
    with pytest.raises(rfg.Error, match="dtype is e4m3: must be bf16, f16 or f32"):
        one.prepare("e4m3")
    with pytest.raises(rfg.Error, match="y.dtype is f16"):
        one.all_reduce(x, out=x.astype(np.float16))
    with pytest.raises(rfg.Error, match="ctx: must be a rfg.comm.Comm"):
        rfg._rfg.all_reduce(x, x)
    with pytest.raises(rfg.Error, match="vendor_from: cpu has neither NCCL nor RCCL"):
        comm.Comm(lambda own: [own], 0, 1, vendor_from=1)
    with pytest.raises(rfg.Error, match="rank is 2: must be from 0 to 1"):
        comm.Comm(lambda own: [own], 2, 2)
    one.close()
    one.close()
    with pytest.raises(rfg.Error, match="the communicator was closed"):
        one.all_reduce(x)


def test_keeps_its_context():
    ctx = rfg.Context("cpu")
    one = comm.Comm(lambda own: [own], 0, 1, ctx)
    ctx.close()
    with pytest.raises(rfg.Error, match="the context was closed"):
        one.all_reduce(np.ones(4, np.float32))
    one.close()
