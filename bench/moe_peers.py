#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mixture of experts beside its peers, on one NVIDIA GPU with PyTorch.

    bench/moe_peers.py --lib build/librfg.so [--db tuned.db] [--models dsv3,gptoss,qwen3] [--forms bf16,fp8,mxfp4]
                       [--t 1,8,64] [--routing uniform,zipf] [--without vllm,...] [--json FILE]
    bench/moe_peers.py --lib build/librfg.so --small ...      # instead: routing and alignment alone
    bench/moe_peers.py --lib build/librfg.so --parts ...      # instead: rfg's operators, one by one
    bench/moe_peers.py --lib build/librfg.so --once ...       # instead: each of them once, for ncu

Models: dsv3 (DeepSeek V3's experts over 8 ranks: H=7168 I=2048, 32 local experts, 8 of them a token), gptoss (gpt-oss-120b: 2880,
2880, 128, 4), qwen3 (Qwen3-235B: 4096, 1536, 128, 8); all with silu and without biases. Forms of weights: bf16, fp8 (e4m3 in blocks of
128x128, x and what is between in 1x128), mxfp4 (x of bf16). All contestants run in this process on the same buffers, in graphs of
dependent calls, each with tokens and a routing of its own, so that the experts that it reads (counted as bytes) are not in the L2;
graphs are replayed in turn, before each timed replay 4x the L2 is read. Figures are medians in microseconds. Of 64 tokens each
contestant's result is compared with fp64 first (|got - exact| / |exact|: 0.01, fp8 0.06); who is wrong or fails is named and left out.

  rfg       rfg_op_moe, given ids and weights; rfg+ov: with launch_overlap; untuned: with no tuned database
  whole     rfg_op_moe_route() and rfg_op_moe(); whole+ov: with launch_overlap
  torch     torch.nn.functional.grouped_mm (bf16), the rest around it (alignment, activation, sum) by rfg's operators, which take less
            time than PyTorch's; eager: that by PyTorch's operators
  vllm      vLLM's Triton kernel (bf16, fp8), where --vllm names an unpacked source distribution of it, with its tables of this GPU, else
            its default, else the fastest of its tables' configurations for this GPU (--vllm-configs of them); around it rfg's operators
  deepgemm  its grouped products, contiguous and masked (bf16, fp8), where it can be imported; around them rfg's operators
  humming   humming-kernels (mxfp4), where it can be imported
  copy      bytes of the experts that are touched at the speed of a copy

--small: 8 of 256 experts in groups, beside vLLM's kernels (built from --vllm, or --vllm-lib of bench/peers/build.sh) and torch.compile.

At the end the bars: share of copy speed of `whole`; rfg over the best peer, both of experts alone. Exit: 0; 1 nothing measured; 2 bad
usage."""

import gc
import importlib
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import rfg  # noqa: E402

import torch  # noqa: E402

import moe_bars  # noqa: E402
import moe_problem as mp  # noqa: E402
import moe_small  # noqa: E402
import race  # noqa: E402
from race import attempt, say  # noqa: E402

PEERS = ("torch", "vllm", "deepgemm", "humming")
COLUMNS = {"gemm": "M N K", "moe_route": "T E top", "moe_align": "T E top", "moe_sum": "T N top", "quantize": "M N"}


def row(problem):
    """A problem string as a line of a shapes file."""
    op, dtype, *words = problem.split()
    values = dict(w.split("=") for w in words)
    columns = [values.pop(c) for c in COLUMNS[op].split()] + [""]
    return '%s,"%s",%s,%s\n' % (op, dtype, ",".join(columns[:3]), " ".join("%s=%s" % x for x in values.items()))


def write_shapes(path, problems):
    with open(path, "w") as f:
        f.write("op,dtype,M,N,K,attrs\n" + "".join(dict.fromkeys(row(t) for t in problems)))


class Ours:
    """What rfg does of a problem, in one context; set i's calls."""

    def __init__(self, ctx, p, weights, space):
        self.ctx, self.p, self.memory = ctx, p, []  # views of rfg's own no memory
        self.w1, self.w2, self.params = weights
        sets = range(p.n_sets)
        self.chosen = [torch.empty_like(p.ids[0]), torch.empty_like(p.weights[0])]
        self.experts = [ctx.moe(space, p.y[i], p.x[i], self.w1, self.w2, p.ids[i], p.weights[i], **self.params) for i in sets]
        self.routes = [ctx.moe_route(*self.chosen, p.l[i], bias=p.bias, **p.w.route) for i in sets]
        routed = [ctx.moe(space, p.y[i], p.x[i], self.w1, self.w2, *self.chosen, **self.params) for i in sets]
        self.whole = [(self.routes[i], routed[i]) for i in sets]

    def run_whole(self, i):
        for call in self.whole[i]:
            call()

    def parts(self):
        """{part: call of a set} of what rfg_op_moe() does, on memory of their own."""
        ctx, p, w = self.ctx, self.p, self.p.w
        t, k, n = p.tokens, w.top, p.tokens * w.top

        def new(dtype, *shape):
            self.memory.append(torch.empty(*shape, device=race.DEV, dtype=dtype))
            return self.memory[-1]

        offsets, rows = new(torch.int32, p.n_sets, w.experts + 1), new(torch.int32, p.n_sets, n)
        sorted_, places = new(torch.float32, p.n_sets, n), new(torch.int32, p.n_sets, t, k)
        h, out = new(torch.bfloat16, n, w.inner), new(torch.bfloat16, n, w.hidden)
        calls = {"route": self.routes, "align": [], "gemm1": [], "gemm2": [], "sum": []}
        gate = dict(gated=1, act=0, gates=self.params.get("gates", 0))
        per, fast = self.params.get("w_per", 0), self.params.get("fast_accum", 0)
        if w.form == "fp8":
            calls["quantize1"], calls["quantize2"] = [], []
            xq, hq = new(torch.float8_e4m3fn, t, w.hidden), new(torch.float8_e4m3fn, n, w.inner)
            xs, hs = new(torch.float32, t, mp.blocks(w.hidden)), new(torch.float32, n, mp.blocks(w.inner))
        for i in range(p.n_sets):
            calls["align"].append(ctx.moe_align(rows[i], p.ids[i], experts=w.experts, offsets=offsets[i], weights=p.weights[i],
                                                weights_out=sorted_[i], places=places[i]))  # fmt: skip
            x, hx, x_scale, h_scale = p.x[i], h, None, None
            if w.form == "fp8":
                calls["quantize1"].append(ctx.quantize(xq, xs, p.x[i], group_rows=1, group_cols=128))
                calls["quantize2"].append(ctx.quantize(hq, hs, h, group_rows=1, group_cols=128))
                x, hx, x_scale, h_scale = xq, hq, xs, hs
            calls["gemm1"].append(ctx.gemm(h, x, self.w1, x_scale, self.params.get("w1_scale"), per, fast, offsets=offsets[i], rows=rows[i], **gate))  # fmt: skip
            calls["gemm2"].append(ctx.gemm(out, hx, self.w2, h_scale, self.params.get("w2_scale"), per, fast, offsets=offsets[i], weights=sorted_[i]))  # fmt: skip
            calls["sum"].append(ctx.moe_sum(p.y[i], out, places[i]))
        for one in calls["align"]:
            one()
        order = ("route", "align", "quantize1", "gemm1", "quantize2", "gemm2", "sum")
        return {name: lambda i, name=name: calls[name][i]() for name in order if name in calls}


def prepare(contexts, problems):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "shapes.csv")
        write_shapes(path, problems)
        for name, ctx in contexts.items():
            t = time.monotonic()
            attempt("%s, preparing" % name, lambda: ctx.prepare_from_csv(path))
            say("# %s: prepared in %.1f s" % (name, time.monotonic() - t))


def space_of(kept):
    """Workspaces: one for all calls."""

    def space(size):
        if not kept or kept[-1].numel() < size:
            made = torch.empty(size + (64 << 20), device=race.DEV, dtype=torch.uint8)
            kept.append(made[-made.data_ptr() % 256 :])
        return kept[-1]

    return space


def check(p, call, got=None):
    """Of set 0; its error."""
    if got is None:
        p.y[0].fill_(float("nan"))
        got = call(0)
    torch.cuda.synchronize() if race.DEV == "cuda" else None
    error = p.error(p.y[0] if got is None else got)
    if not error <= mp.ERRORS[p.w.form]:
        raise ValueError("wrong: |got - exact| / |exact| is %.3g, must be <= %g" % (error, mp.ERRORS[p.w.form]))
    return error


def check_route(p, ours):
    ours.routes[0]()
    torch.cuda.synchronize() if race.DEV == "cuda" else None
    ids, weights = ours.chosen
    wrong = (ids != p.ids[0]).any(1).sum().item()
    off = (weights - p.weights[0]).abs().max().item()
    if wrong > p.tokens // 1000 or not (wrong or off <= 1e-3):
        raise ValueError("wrong: ids of %d of %d tokens, weights off by %.3g" % (wrong, p.tokens, off))


def measure(bench, p, contexts, ours_of, space, peers, args):
    made, calls, errors = {}, {}, {}
    for name, ctx in contexts.items():
        made[name] = attempt("%s, %s" % (p.text, name), lambda: Ours(ctx, p, ours_of, space))
    made = {name: ours for name, ours in made.items() if ours}
    for name, ours in made.items():
        calls[name] = lambda i, ours=ours: ours.experts[i]()
        if name != "untuned":
            calls[name.replace("rfg", "whole")] = ours.run_whole
    for name, peer in peers.items():
        t = time.monotonic()
        more = attempt("%s, %s" % (p.text, name), lambda: peer.calls(bench, p, contexts["rfg"], args))
        calls.update(more or {})
        bench.phase(name, t)

    def right(name):
        if name.startswith("whole"):
            check_route(p, made[name.replace("whole", "rfg")])
        errors[name] = check(p, calls[name])

    times = bench.times(p, calls, right)
    return times, errors


def measure_parts(bench, p, contexts, ours_of, space):
    out = {}
    for name, ctx in contexts.items():
        ours = attempt("%s, %s" % (p.text, name), lambda: Ours(ctx, p, ours_of, space))
        if not ours:
            continue
        attempt("%s, %s" % (p.text, name), lambda: check_route(p, ours))
        parts = ours.parts()
        parts["experts"] = lambda i, ours=ours: ours.experts[i]()
        parts["whole"] = ours.run_whole
        out[name] = bench.times(p, parts, lambda part: part != "experts" or check(p, parts["experts"]))
    return out


def run_once(bench, p, ctx, ours_of, space):
    """Between cudaProfilerStart and Stop, so that `ncu --profile-from-start off` sees nothing else."""
    parts = Ours(ctx, p, ours_of, space).parts()
    bench.stream.synchronize()
    torch.cuda.profiler.start()
    for call in parts.values():
        call(0)
    bench.stream.synchronize()
    torch.cuda.profiler.stop()


def say_parts(p, out, copy):
    w = p.w
    us = p.bytes / copy / 1e3
    say("\n%s: %.1f experts, %.0f MB, at copy speed %.1f us" % (p.text, p.touched, p.bytes / 1e6, us))
    share = {"gemm1": 2 / 3, "gemm2": 1 / 3, "experts": 1, "whole": 1}
    for name, times in out.items():
        cells = ["%s %.2f" % (part, race.median(t)) + (" (%.2f)" % (us * share[part] / race.median(t)) if part in share else "")
                 for part, t in times.items()]  # fmt: skip
        say("  %-8s %s" % (name, "  ".join(cells)))
    return dict(model=w.model, form=w.form, t=p.tokens, copy=us, parts={n: race.figures(t) for n, t in out.items()})


def run(bench, args, contexts, peers):
    head, records, kept = {} if args.once else race.measure_machine(bench), [], []
    space = space_of(kept)
    for model in args.models:
        for form in args.forms:
            w = attempt("weights of %s, %s" % (model, form), lambda: mp.Weights(model, form))
            ours_of = w and attempt("rfg's weights of %s, %s" % (model, form), lambda: w.ours(contexts["rfg"], args.fast))
            if not ours_of:
                continue
            for routing in args.routing:
                for t in args.t:
                    p = mp.Problem(w, routing, t)
                    texts = mp.parts_of(w, t, routing, args.fast)
                    if time.monotonic() - race.T0 > args.seconds:
                        say("# OUT OF TIME: not measured: %s" % p.text)
                        continue
                    began = time.monotonic()
                    attempt(p.text, lambda: p.allocate(bench))
                    bench.stream.synchronize()
                    bench.phase("data, reference", began)
                    if args.verbose:
                        for part, text in texts.items():
                            say("#   %-9s %s: %s" % (part, text, race.chosen(contexts["rfg"], text)))
                    if args.once:
                        run_once(bench, p, contexts["rfg"], ours_of, space)
                        continue
                    if args.parts:
                        out = attempt(p.text, lambda: measure_parts(bench, p, contexts, ours_of, space))
                        if out:
                            records.append(say_parts(p, out, head["copy_gbps"]))
                        continue
                    got = attempt(p.text, lambda: measure(bench, p, contexts, ours_of, space, peers, args))
                    if not got:
                        continue
                    times, errors = got
                    r = dict(race.figures(times), problem=p.text, model=model, form=form, routing=routing, t=t, bytes=p.bytes,
                             touched=p.touched, copy=p.bytes / head["copy_gbps"] / 1e3, error=errors)  # fmt: skip
                    records.append(r)
                    say("%-7s %-6s %-7s T=%-5d copy %.1f  %s" % (model, form, routing, t, r["copy"],
                                                            "  ".join("%s %.1f" % x for x in r["us"].items())))  # fmt: skip
                    race.save(args.json, head, records)
                    p = None
                    gc.collect()
            w = ours_of = None
            gc.collect()
            torch.cuda.empty_cache()
    if records and not args.parts:
        say("\n" + "\n".join(moe_bars.lines(records)))
    race.save(args.json, head, records)
    return 0 if records or args.once else 1


def run_small(bench, args, contexts):
    head = race.measure_machine(bench)
    records = moe_small.measure(bench, contexts, args)
    say("\n".join(moe_bars.small_lines(records)))
    race.save(args.json, head, records)
    return 0 if records else 1


def parse(argv):
    p = race.arguments(__doc__)
    p.add_argument("--models", default=",".join(mp.MODELS))
    p.add_argument("--forms", default=",".join(mp.FORMS))
    p.add_argument("--t", default="1,8,64", help="numbers of tokens (default %(default)s)")
    p.add_argument("--routing", default="uniform", help="uniform, zipf (default %(default)s)")
    p.add_argument("--without", default="", help="to leave out: " + ",".join(PEERS))
    p.add_argument("--vllm", metavar="FOLDER", help="an unpacked source distribution of vLLM")
    p.add_argument("--vllm-configs", type=int, default=4, help="configurations to try where it has no table (default %(default)s)")
    p.add_argument("--seconds", type=float, default=500, help="no problem is begun after so long (default %(default)s)")
    p.add_argument("--fast", action="store_true", help="fp8: sums may have about 14 bits, as the peers' have")
    p.add_argument("--vllm-lib", metavar="FILE", help="of bench/peers/build.sh vllm_moe (default: built)")
    p.add_argument("--small", action="store_true", help="time routing and alignment alone instead")
    p.add_argument("--parts", action="store_true", help="time rfg's operators one by one instead")
    p.add_argument("--once", action="store_true", help="run them once instead, for a profiler")
    p.add_argument("-v", "--verbose", action="store_true", help="say what the dispatcher chose")
    args = p.parse_args(argv)
    for name, known in (("models", mp.MODELS), ("forms", mp.FORMS), ("routing", ("uniform", "zipf")), ("without", PEERS)):
        given = [x for x in getattr(args, name).split(",") if x]
        unknown = [x for x in given if x not in known]
        if unknown:
            p.error("--%s %s: must be of %s" % (name, ",".join(unknown), ", ".join(known)))
        setattr(args, name, given)
    try:
        args.t = [int(t) for t in args.t.split(",")]
    except ValueError as e:
        p.error("--t: %s" % e)
    if min(args.t) < 1:
        p.error("--t %d: must be at least 1" % min(args.t))
    return args


def main(argv=None):
    args = parse(argv)
    problems = [text for model in args.models for form in args.forms for routing in args.routing for t in args.t
                for text in mp.parts_of(mp.Described(model, form), t, routing, args.fast).values()]  # fmt: skip
    if args.shapes:
        write_shapes(args.shapes, problems)
        return 0
    gc.disable()  # not in the middle of a capture, but after each problem
    bench = race.Bench(args.rounds)
    contexts = rfg.contexts(args.lib, args.db, bench.stream.cuda_stream)
    if args.small:
        return bench.finish(lambda: run_small(bench, args, contexts))
    if args.parts:
        contexts.pop("untuned")
    if args.once:
        contexts = {"rfg": contexts["rfg"]}
    prepare(contexts, problems)
    peers = {}
    for name in PEERS:
        if name not in args.without and not args.parts and not args.once:
            peer = attempt(name, lambda: importlib.import_module("moe_" + name))
            if peer and attempt(name, lambda: (peer.open(args), True)[1]):
                peers[name] = peer
    return bench.finish(lambda: run(bench, args, contexts, peers))


if __name__ == "__main__":
    sys.exit(main())
