#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The all-reduce beside NCCL and PyTorch's symmetric memory (one-shot and two-shot kernels), on N GPUs of one host, a
process a rank. Multicast stays off. Less than a minute.

    bench/comm_peers.py [--ranks 2] [--lib build/librfg.so] [--json FILE]

Each contestant's calls are captured in a graph of CALLS, and replayed in turn; the median of the replays of all rounds,
by rank 0's events. Results are compared before anything is timed."""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS, ROUNDS, REPLAYS = 50, 3, 5
SIZES = [8 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20]
BARS = {8 << 10: 1.6, 64 << 10: 1.6, 256 << 10: 1.6, 1 << 20: 1.2, 16 << 20: 1.0}  # over the best of the others
BF16 = 3


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 5), ("strides", ctypes.c_int64 * 5)]


class ContextParams(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("user_db", ctypes.c_char_p), ("system_db", ctypes.c_char_p), ("cache_dir", ctypes.c_char_p),
                ("threads", ctypes.c_int32), ("misses", ctypes.c_int32), ("variants", ctypes.c_char_p), ("pack", ctypes.c_char_p), ("tune", ctypes.c_char_p),
                ("launch_overlap", ctypes.c_int32), ("batch_invariant", ctypes.c_int32)]


class Rfg:
    """A rank of rfg's communicator; handles go through torch.distributed."""

    def __init__(self, path, rank, ranks, exchange):
        self.lib = lib = ctypes.CDLL(path)
        lib.rfg_last_error.restype = ctypes.c_char_p
        self.ctx, self.comm = ctypes.c_void_p(), ctypes.c_void_p()
        p = ContextParams(size=ctypes.sizeof(ContextParams), device=f"nvidia:{rank}".encode(), user_db=b"", system_db=b"")
        self.check(lib.rfg_context_create(ctypes.byref(self.ctx), ctypes.byref(p)))
        params = (ctypes.c_int64 * 2)(16, 20000)  # rfg_comm_params: size, timeout_ms
        self.check(lib.rfg_comm_create(ctypes.byref(self.comm), self.ctx, rank, ranks, params))
        own = ctypes.create_string_buffer(256)
        self.check(lib.rfg_comm_get_handle(self.comm, own))
        self.check(lib.rfg_comm_connect(self.comm, b"".join(exchange(own.raw))))
        self.check(lib.rfg_comm_prepare(self.comm, BF16))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.rfg_last_error().decode())

    @staticmethod
    def view(t):
        v = Tensor(data=t.data_ptr(), dtype=BF16, ndim=1)
        v.shape[0], v.strides[0] = t.numel(), 1
        return v

    def all_reduce(self, y, x, stream):
        self.check(self.lib.rfg_op_all_reduce(self.comm, ctypes.byref(self.view(y)), ctypes.byref(self.view(x)), ctypes.c_void_p(stream)))

    def verify(self):
        self.check(self.lib.rfg_comm_check(self.comm))


def contestants(torch, dist, rfg, n, dev, x):
    """name: (function of no arguments, the tensor that it leaves its sum in)."""
    import torch.distributed._symmetric_memory as symm
    group = dist.group.WORLD.group_name
    y, in_place = torch.empty_like(x), x.clone()
    all_ = {"rfg": (lambda: rfg.all_reduce(y, x, torch.cuda.current_stream().cuda_stream), y),
            "nccl": (lambda: dist.all_reduce(in_place), in_place)}
    try:
        s, out = symm.empty(n, dtype=x.dtype, device=dev), torch.empty_like(x)
        symm.rendezvous(s, group)
        s.copy_(x)
        t = symm.empty(n, dtype=x.dtype, device=dev)
        symm.rendezvous(t, group)
        t.copy_(x)
        all_["symm one-shot"] = (lambda: torch.ops.symm_mem.one_shot_all_reduce_out(s, "sum", group, out), out)
        all_["symm two-shot"] = (lambda: torch.ops.symm_mem.two_shot_all_reduce_(t, "sum", group), t)
    except Exception as e:  # noqa: BLE001: whatever it lacks, the others run
        if dist.get_rank() == 0:
            print("symm_mem:", str(e)[:200], flush=True)
    return all_


def capture(torch, fn):
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    g = torch.cuda.CUDAGraph()
    with torch.cuda.stream(s):
        for _ in range(3):
            fn()
        s.synchronize()
        with torch.cuda.graph(g, stream=s, capture_error_mode="thread_local"):
            for _ in range(CALLS):
                fn()
    torch.cuda.synchronize()
    return g


def time_graph(torch, dist, g):
    """One graph before and one after, so that the ranks are in step within the events."""
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    g.replay()
    a.record()
    g.replay()
    b.record()
    g.replay()
    torch.cuda.synchronize()
    return a.elapsed_time(b) * 1e3 / CALLS


def run_size(torch, dist, rfg, rank, ranks, nbytes):
    n, dev = nbytes // 2, torch.device("cuda", rank)
    xs = [torch.randn(n, generator=torch.Generator().manual_seed(r)).to(torch.bfloat16) for r in range(ranks)]
    want = sum(x.float() for x in xs).to(torch.bfloat16)
    all_ = contestants(torch, dist, rfg, n, dev, xs[rank].to(dev))
    graphs, us = {}, {}
    for name, (fn, out) in all_.items():
        dist.barrier()
        try:
            fn()
            torch.cuda.synchronize()
        except (RuntimeError, AttributeError) as e:
            if name == "rfg":
                raise
            if rank == 0:
                print(f"{name}: {str(e)[:200]}", flush=True)
            continue
        if not torch.equal(out.cpu(), want) and (name == "rfg" or not torch.allclose(out.cpu().float(), want.float(), rtol=2e-2, atol=2e-2)):
            raise RuntimeError(f"rank {rank}: {name} is wrong at {nbytes} bytes")
        out.zero_()
        graphs[name], us[name] = capture(torch, fn), []
    for _ in range(ROUNDS):
        for name, g in graphs.items():
            us[name] += [time_graph(torch, dist, g) for _ in range(REPLAYS)]
    rfg.verify()
    return {name: statistics.median(v) for name, v in us.items()}


def run_rank(args, rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=args.ranks, device_id=torch.device("cuda", rank))

    def exchange(own):
        got = [None] * args.ranks
        dist.all_gather_object(got, own)
        return got

    rfg = Rfg(args.lib, rank, args.ranks, exchange)
    rows = []
    for nbytes in args.sizes:
        us = run_size(torch, dist, rfg, rank, args.ranks, nbytes)
        best = min(v for k, v in us.items() if k != "rfg")
        row = {"ranks": args.ranks, "bytes": nbytes, "us": us, "ratio": best / us["rfg"], "bar": BARS.get(nbytes)}
        rows.append(row)
        if rank == 0:
            bar = f"  bar {row['bar']}: {'met' if row['ratio'] >= row['bar'] else 'MISSED'}" if row["bar"] else ""
            print(f"{nbytes:9d} bytes  " + "  ".join(f"{k} {v:7.2f}" for k, v in us.items()) + f"  {row['ratio']:.2f}x{bar}", flush=True)
    if rank == 0 and args.json:
        with open(args.json, "w") as f:
            json.dump({"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "nccl": torch.cuda.nccl.version(), "rows": rows}, f)
    dist.barrier()
    torch.cuda.synchronize()
    os._exit(0)  # graphs hold NCCL's communicator, which waits for them


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--lib", default=os.path.join(HERE, "..", "build", "librfg.so"))
    p.add_argument("--json")
    p.add_argument("--port", type=int, default=29571)
    p.add_argument("--sizes", type=lambda s: [int(v) for v in s.split(",")], default=SIZES)
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.rank is not None:
        run_rank(args, args.rank)
    ps = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--rank", str(r)]) for r in range(args.ranks)]
    sys.exit(max(q.wait() for q in ps))


if __name__ == "__main__":
    main()
