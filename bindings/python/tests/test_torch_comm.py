# SPDX-License-Identifier: MIT
"""rfg.comm.from_torch() on ranks of torch.distributed: cpu ranks with Gloo, against its own all_reduce()."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import rfg

RANKS = 2


def rank_of(rank, path, queue):
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=RANKS)
    with rfg.comm.from_torch(ctx="cpu") as c:
        g = torch.Generator().manual_seed(rank)
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randint(-8, 8, (7, 64), generator=g).to(dtype)
            want = x.clone()
            dist.all_reduce(want)
            assert torch.equal(c.all_reduce(x), want)
            parts = [torch.empty_like(x) for _ in range(RANKS)]
            dist.all_gather(parts, x)
            assert torch.equal(c.all_gather(x), torch.cat(parts))
            y, residual = c.all_reduce_add_rmsnorm(x, torch.ones_like(x), torch.ones(64, dtype=dtype))
            assert torch.equal(residual, want + 1)
            torch.testing.assert_close(y, torch.nn.functional.rms_norm((want + 1).float(), (64,), eps=1e-6).to(dtype), atol=0.02, rtol=0.02)
    dist.destroy_process_group()
    queue.put(rank)


def test_ranks_of_torch(tmp_path):
    start = mp.get_context("spawn")
    queue = start.SimpleQueue()
    mp.spawn(rank_of, (os.path.join(str(tmp_path), "r"), queue), nprocs=RANKS)
    assert {queue.get() for _ in range(RANKS)} == set(range(RANKS))
