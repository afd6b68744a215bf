#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attention beside its peers and its floor, on one NVIDIA GPU with PyTorch, Triton and nvcc.

    bench/peers/build.sh flashinfer_mha FLASHINFER_INCLUDE flashinfer_mha.so        # where nvcc is; optional
    bench/peers/build.sh flashinfer_xqa FLASHINFER_INCLUDE 16 4 bf16 xqa.so         # optional, for each page, group, dtype
    bench/mha_peers.py --lib build/librfg.so --db tuned.db --flashinfer-lib flashinfer_mha.so --xqa-libs xqa*.so
    bench/mha_peers.py --list
    bench/mha_peers.py --report FILE...                                 # of --json: the table and the bars again

All contestants of a row run in this process, in one stream, on the same bytes of K and V: each is captured in a graph
of the same number of dependent calls that goes through the same sets of K and V (as many as exceed 4x the L2); the
graphs are replayed in turn, whoever begins changing from round to round, and before each timed replay 4x the L2 is read.
Every figure is the median over the rounds, divided by the calls, in microseconds. Each contestant's result is first
compared with attention in fp64 on a sample of heads; who is wrong or fails is left out and named.

  rfg          rfg_op_mha_decode (a paged cache, its table a random permutation) and rfg_op_mha through ctypes; rfg+ov:
               with launch_overlap (programmatic dependent launch); untuned: with no tuned database at all
  fa2          PyTorch's SDPA with FlashAttention-2 (it splits the keys of decode), cudnn: with cuDNN, efficient: with
               the memory-efficient kernel; K and V contiguous; the better of enable_gqa and of a group's heads given as
               queries of one head; of ragged lengths FlashAttention-2's varlen form
  fa2-kvcache  flash_attn_with_kvcache(), flash_attn_func() where the package flash_attn is installed
  flashinfer   the fastest of FlashInfer's decode on the paged cache (CUDA cores and tensor cores, with and without
               programmatic dependent launch, planned on the host for exactly these lengths) and, for one sequence, its
               single decode. With fp8 the scale of V isn't applied
  xqa          the XQA kernel that FlashInfer's trtllm_batch_decode_with_kv_cache() takes on sm_90, with and without
               programmatic dependent launch; with fp8 its queries and weights are e4m3, too. Peers: these six
  floor        a kernel that only reads the bytes of K and V, the fastest of 22 configurations

The bars are printed at the end. The floor's library is built on the way unless it is named. Exit: 0; 1 nothing measured
or the GPU failed; 2 bad usage."""

import argparse
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import mha_bars as bars  # noqa: E402
import mha_rows  # noqa: E402


def parse(argv):
    names = bars.COLUMNS[1:]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default="build/librfg.so", help="the shared library (default %(default)s)")
    p.add_argument("--device", default="nvidia:0", help="rfg's name of PyTorch's device 0 (default %(default)s)")
    p.add_argument("--db", help="the tuned database (default: the user's)")
    p.add_argument("--system-db", help="the read-only one under it (default: the installed one)")
    p.add_argument("--flashinfer-lib", metavar="FILE", help="flashinfer_mha of bench/peers/build.sh")
    p.add_argument("--xqa-libs", nargs="+", default=[], metavar="FILE", help="flashinfer_xqa of bench/peers/build.sh")
    p.add_argument("--floor-lib", metavar="FILE", help="floor of bench/peers/build.sh (default: built)")
    p.add_argument("--rows", metavar="N-M,...", help="only these, as --list numbers them")
    p.add_argument("--only", metavar="PATTERN", help="only rows whose text matches this regular expression")
    p.add_argument("--list", action="store_true", help="print the rows and leave")
    p.add_argument("--rounds", type=int, default=25, help="timed replays of each contestant (default %(default)s)")
    p.add_argument("--without", default="", help="to leave out: " + ",".join(names))
    p.add_argument("--seconds", type=float, default=500, help="no row is begun after so long (default %(default)s)")
    p.add_argument("--json", metavar="FILE", help="everything measured, written anew after each row")
    p.add_argument("--report", nargs="+", metavar="FILE", help="print what such files hold and leave")
    args = p.parse_args(argv)
    if args.rounds < 5:
        p.error("--rounds %d: must be at least 5" % args.rounds)
    args.without = set(filter(None, args.without.split(",")))
    if args.without - set(names):
        p.error("--without: %s: must be of %s" % (", ".join(sorted(args.without - set(names))), ", ".join(names)))
    args.todo = list(mha_rows.ROWS)
    try:
        if args.rows:
            picked = mha_rows.numbers(args.rows, len(mha_rows.ROWS))
            args.todo = [r for i, r in enumerate(mha_rows.ROWS) if i in picked]
        if args.only:
            args.todo = [r for r in args.todo if re.search(args.only, r.text)]
    except ValueError as e:
        p.error("--rows %s: %s" % (args.rows, e))
    except re.error as e:
        p.error("--only %s: %s" % (args.only, e))
    if not args.todo:
        p.error("no row is left of %d by --rows and --only" % len(mha_rows.ROWS))
    if args.list or args.report:
        return args
    paths = {"lib": args.lib, "flashinfer-lib": args.flashinfer_lib, "floor-lib": args.floor_lib}
    for name, path in [*paths.items(), *(("xqa-libs", path) for path in args.xqa_libs)]:
        if path and not os.path.exists(path):
            p.error("--%s %s: no such file" % (name, path))
    # dlopen() would search for a bare name.
    args.lib, args.flashinfer_lib, args.floor_lib = (path and os.path.abspath(path) for path in paths.values())
    args.xqa_libs = [os.path.abspath(path) for path in args.xqa_libs]
    return args


def report(paths):
    """Of the files of --json; of a row in several of them the last counts."""
    heads, records = [], {}
    for path in paths:
        with open(path) as f:
            head = json.load(f)
        records.update((r["text"], r) for r in head.pop("problems"))
        heads.append(head)
        print("# %s: %s, copy %.0f GB/s" % (path, head["gpu"], head["copy_gbps"]))
    order = [row.text for row in mha_rows.ROWS]
    records = sorted(records.values(), key=lambda r: order.index(r["text"]) if r["text"] in order else len(order))
    print(
        "\n".join(
            [bars.HEAD] + [bars.show(r) for r in records] + bars.verdict(records, max(h["copy_gbps"] for h in heads))
        )
    )
    return 0 if records else 1


def main(argv=None):
    args = parse(argv)
    if args.list:
        print("\n".join(mha_rows.listing(args.todo)))
        return 0
    if args.report:
        return report(args.report)
    import mha_run  # and with it PyTorch and Triton

    return mha_run.main(args)


if __name__ == "__main__":
    sys.exit(main())
