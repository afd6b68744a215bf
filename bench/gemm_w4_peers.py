#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The GEMM of 4-bit and 8-bit weights and bf16 activations beside its peers, on one NVIDIA GPU with PyTorch.

    bench/gemm_w4_peers.py --lib build/librfg.so --db tuned.db [--m 1,8,16] [--format i4,mxfp4,e4m3] [--json FILE]

A problem is DeepSeek's [N,K] (or --nk 2112x7168,...), M rows of bf16, prepacked W of i4 with bf16 scales of 128 columns (no -8 among the
codes, for which humming has a shorter way), of mxfp4, or of e4m3 with a scale a row. All contestants run in this process on the same codes, scales and x, in graphs of
dependent calls over so many sets of x, w and y that the weights exceed 4x the L2, replayed in turn; before each timed replay 4x the L2 is
read. Figures are medians in microseconds. Each contestant's result is compared with PyTorch's in fp64 first; who is wrong or fails is named
and left out.

  rfg       rfg_op_gemm; rfg+ov: with launch_overlap; untuned: with no tuned database; rows: of e4m3, W by rows
  humming   humming-kernels, as its heuristics have it, where a module humming can be imported. pip's --target drops a mode that it
            needs: chmod +x humming/_native/*/nvrtc_compile
  torch     torch._weight_int4pack_mm (i4 only)
  floor     max(bytes at the copy's speed, flops at 989 TFLOPS) + 1.25 us

At the end geometric means over the best peer, times over the floor, and the share of copy speed. Exit: 0; 1 nothing measured; 2 bad usage."""

import ctypes as c
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import rfg  # noqa: E402

import torch  # noqa: E402

import race  # noqa: E402
from race import attempt, say  # noqa: E402

NK = "2112x7168,7168x2048,24576x1536,4096x7168"
FORMATS = {  # dtype, bits, columns that share a scale (0: all), dtype of scales, their bytes, more of the problem
    "i4": ("i4", 4, 128, "bf16", 2, ""),
    "mxfp4": ("e2m1", 4, 32, "e8m0", 1, ""),
    "e4m3": ("e4m3", 8, 0, "f32", 4, "w_per=row "),
}
BF16_TFLOPS = 989
SCALE_ROW = 1  # rfg_gemm_scale
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class Problem:
    def __init__(self, format, m, n, k):
        self.format, self.m, self.n, self.k = format, m, n, k
        self.dtype, self.bits, self.group, self.scales, scale_bytes, more = FORMATS[format]
        self.groups = k // self.group if self.group else 1
        self.weight_bytes = n * k * self.bits // 8 + n * self.groups * scale_bytes
        self.bytes = self.weight_bytes + 2 * m * (k + n)
        self.attrs = "w_scale=%s %s%s" % (self.scales, more, "w_group=%d " % self.group if self.group else "")
        self.text = "gemm bf16,%s->bf16 M=%d N=%d K=%d %spacked=1" % (self.dtype, m, n, k, self.attrs)

    def allocate(self, bench):
        s = self.n_sets = bench.sets(self.weight_bytes)
        self.n_calls = bench.calls(s, self.bytes)
        generator = torch.Generator(device=race.DEV).manual_seed(1)
        kwargs = dict(device=race.DEV, generator=generator)
        codes = torch.randint(0, 1 << self.bits, (self.n, self.k), dtype=torch.uint8, **kwargs)
        if self.format == "mxfp4":
            e = torch.randint(124, 131, (self.n, self.groups), dtype=torch.uint8, **kwargs)
            self.scale = e.view(torch.float8_e8m0fnu)
            values = torch.tensor(E2M1 + tuple(-v for v in E2M1), dtype=torch.float64, device=race.DEV)[codes.int()]
            scale = torch.exp2(e.double() - 127)
        else:
            self.scale = (torch.rand(self.n, self.groups, **kwargs) + 0.5).bfloat16()
            scale = self.scale.double()
            if self.format == "i4":
                codes[codes == 8] = 7
                values = (codes.to(torch.int8) << 4 >> 4).double()
            else:
                codes[codes & 127 == 127] = 0  # NaN
                values = codes.view(torch.float8_e4m3fn).double()
                self.scale = self.scale.float()
        self.codes = codes if self.bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4
        w = values * scale.repeat_interleave(self.k // self.groups, 1)
        self.x = torch.randn(s, self.m, self.k, **kwargs).bfloat16()
        self.y = torch.empty(s, self.m, self.n, device=race.DEV, dtype=torch.bfloat16)
        x = self.x[0].double()
        self.exact = x @ w.t()
        self.size = (x.abs() @ w.abs().t()).max().item()
        bench.stream.synchronize()

    def floor(self, copy):
        return max(self.bytes / copy / 1e3, 2e-6 * self.m * self.n * self.k / BF16_TFLOPS) + 1.25


def view(data, dtype, shape):
    """A packed rfg_tensor."""
    t = rfg.Tensor(data.data_ptr(), dtype, len(shape))
    stride = 1
    for i in reversed(range(len(shape))):
        t.shape[i], t.strides[i] = shape[i], stride
        stride *= shape[i]
    return t


def rfg_calls(p, contexts):
    lib = next(iter(contexts.values())).lib
    lib.rfg_gemm_prepack.argtypes = [c.c_void_p] * 4
    dtype = [i for i in range(32) if lib.rfg_dtype_name(i) == p.dtype.encode()][0]
    scale_dtype = rfg.DTYPES[str(p.scale.dtype).replace("torch.", "")]
    n, k = p.n, p.k
    ctx = contexts["rfg"]
    w, scale = torch.empty_like(p.codes), p.scale.clone()
    chunk = 128 // p.bits
    packed = (n // 16, k // chunk // 4, 4, 16, chunk)
    scales = (n // 16, p.groups, 16) if p.group else (n,)
    ctx.check(lib.rfg_gemm_prepack(ctx.ctx, c.byref(view(w, dtype, packed)), c.byref(view(p.codes, dtype, (n, k))), ctx.stream))
    if p.group:
        to, of = view(scale, scale_dtype, scales), view(p.scale, scale_dtype, (n, p.groups))
        ctx.check(lib.rfg_gemm_prepack(ctx.ctx, c.byref(to), c.byref(of), ctx.stream))
    sets = [(w.clone(), scale.clone()) for _ in range(p.n_sets)]
    per = {} if p.group else {"w_per": SCALE_ROW}

    def calls(ctx, shape):
        made = []
        for i, (w, scale) in enumerate(sets):
            params = rfg.GemmParams(w_scale=c.pointer(view(scale, scale_dtype, scales)), **per)
            made.append((rfg.tensor(p.y[i]), rfg.tensor(p.x[i]), c.byref(view(w, dtype, shape)), c.byref(params), w, scale))
        return lambda i: ctx.check(lib.rfg_op_gemm(ctx.ctx, *made[i][:4], ctx.stream))

    out = {name: calls(ctx, packed) for name, ctx in contexts.items()}
    if p.bits == 8:
        sets = [(p.codes.clone(), scale) for _, scale in sets]
        out["rows"] = calls(ctx, (n, k))
    return out


def humming_calls(p):
    try:
        from humming.forward import humming_forward
        from humming.layer import HummingLayer
    except ImportError as e:
        say("# left out: humming: %s" % e)
        return {}

    def make():
        codes, scale = p.codes, p.scale
        if p.format == "i4":
            config = {"dtype": "int4", "group_size": 128}
            codes = p.codes ^ 0x88
        elif p.format == "mxfp4":
            config = {"dtype": "float4e2m1", "scale_dtype": "float8e8m0", "group_size": 32}
        else:
            config, scale = {"dtype": "float8e4m3"}, p.scale.bfloat16()
        layer = HummingLayer(p.n, p.k, config, torch_dtype=torch.bfloat16).cuda()
        layer.load_from_tensors({"weight": codes.contiguous().view(torch.int32), "weight_scale": scale})
        layer.transform()
        sets = [(layer.weight.clone(), layer.weight_scale.clone()) for _ in range(p.n_sets)]
        scale_2 = getattr(layer, "weight_scale_2", None)

        def call(i):
            humming_forward(
                layer.humming_config, p.x[i], sets[i][0], sets[i][1], weight_scale_2=scale_2, outputs=p.y[i], locks=layer.locks
            )

        return call

    call = attempt("%s, humming" % p.text, make)
    return {"humming": call} if call else {}


def torch_calls(p):
    if p.format != "i4":
        return {}

    def make():
        codes = p.codes ^ 0x88
        packed = torch._convert_weight_to_int4pack(codes << 4 | codes >> 4, 8)
        scale = torch.stack([p.scale.t(), torch.zeros_like(p.scale.t())], 2).contiguous()
        sets = [(packed.clone(), scale.clone()) for _ in range(p.n_sets)]
        return lambda i: torch._weight_int4pack_mm(p.x[i], sets[i][0], p.group, sets[i][1])

    call = attempt("%s, torch" % p.text, make)
    return {"torch": call} if call else {}


def measure(bench, p, contexts):
    p.allocate(bench)
    calls = {**rfg_calls(p, contexts), **humming_calls(p), **torch_calls(p)}

    def check(name):
        p.y[0].zero_()
        got = calls[name](0)
        bench.stream.synchronize()
        got = p.y[0] if got is None else got
        error = (got.double() - p.exact).abs().max().item()
        limit = p.exact.abs().max().item() * 2**-7 + p.size * 2**-12  # peers round W times its scale to bf16
        if not error <= limit:
            raise ValueError("wrong: off by %.3g, allowed %.3g" % (error, limit))

    return bench.times(p, calls, check)


def report(records, copy):
    say("\n%-7s %6s %9s %9s %9s %9s %s" % ("format", "M", "over peer", "over floor", "of copy", "untuned", "problems"))
    for key in sorted({(r["format"], r["m"]) for r in records}):
        some = [r for r in records if (r["format"], r["m"]) == key]

        def mean(values):
            values = [v for v in values if v]
            return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan

        gains = [r["peer"] / min(r["ours"]) for r in some if r["peer"] and r["ours"]]
        floors = [min(r["ours"]) / r["floor"] for r in some if r["ours"]]
        shares = [r["bytes"] / copy / 1e3 / min(r["ours"]) for r in some if r["ours"]]
        untuned = [r["us"]["rfg"] / r["us"]["untuned"] for r in some if "rfg" in r["us"] and "untuned" in r["us"]]
        say("%-7s %6d %8.2fx %10.2f %9.2f %9.2f %d" % (*key, mean(gains), mean(floors), mean(shares), mean(untuned), len(some)))


def main():
    p = race.arguments(__doc__)
    p.add_argument("--m", default="1,8,16,64,128")
    p.add_argument("--nk", default=NK)
    p.add_argument("--format", default=",".join(FORMATS))
    args = p.parse_args()
    if not set(args.format.split(",")) <= set(FORMATS):
        p.error("--format %s: must be of %s" % (args.format, ", ".join(FORMATS)))
    try:
        ms = [int(m) for m in args.m.split(",")]
        nks = [tuple(int(x) for x in nk.split("x")) for nk in args.nk.split(",")]
        problems = [Problem(f, m, n, k) for f in args.format.split(",") for n, k in nks for m in ms]
    except ValueError as e:
        p.error("--m, --nk: %s" % e)
    if args.shapes:
        with open(args.shapes, "w") as f:
            f.write("op,dtype,M,N,K,attrs\n")
            for q in problems:
                for layout in ("packed=1", "")[: 1 + (q.bits == 8)]:
                    f.write('gemm,"bf16,%s->bf16",%d,%d,%d,%s%s\n' % (q.dtype, q.m, q.n, q.k, q.attrs, layout))
        return 0
    bench = race.Bench(args.rounds)
    contexts = rfg.contexts(args.lib, args.db, bench.stream.cuda_stream)

    def run():
        head, records = race.measure_machine(bench), []
        for q in problems:
            times = attempt(q.text, lambda: measure(bench, q, contexts))
            if not times:
                continue
            us = {n: race.median(t) for n, t in times.items()}
            peers = [t for n, t in us.items() if n in ("humming", "torch")]
            ours = [us[n] for n in ("rfg", "rfg+ov") if n in us]
            records.append(dict(race.figures(times), problem=q.text, format=q.format, m=q.m, n=q.n, k=q.k, ours=ours, bytes=q.bytes,
                                peer=min(peers, default=None), floor=q.floor(head["copy_gbps"])))  # fmt: skip
            line = "  ".join("%s %.2f" % x for x in us.items())
            say("%-6s M=%-4d %5dx%-5d floor %.2f  %s" % (q.format, q.m, q.n, q.k, records[-1]["floor"], line))
        if records:
            report(records, head["copy_gbps"])
            race.save(args.json, head, records)
        return 0 if records else 1

    return bench.finish(run)


if __name__ == "__main__":
    sys.exit(main())
