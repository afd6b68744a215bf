#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counters of our kernels on an emulated gfx942 or gfx950, beside AITER's hand-written code objects of the same problems.

    pip download --no-deps --pre amd-aiter && unzip amd_aiter-*.whl 'aiter_meta/hsa/*'
    bench/aiter_counters.py --aiter aiter_meta/hsa/gfx942 [--op attention|mla|gemm|moe]... [--problem TEXT]...
                            [--device emu:gfx942:304] [--bin build/bin] [--json]

Needs numpy, and no GPU. aiter_attention.py, aiter_mla.py, aiter_gemm.py and aiter_moe.py say which of AITER's code objects do a problem.
Results of AITER's are compared with numpy's before they are counted: a wrong one ends the program with status 1. Ours are
the dispatcher's picks, untuned, by `rfg-bench --counters` under all checks. Of the checks that AITER's fail, see
docs/emulator.md, those named in the last column are off while they run; "in turn": waves take turns of one instruction.

Columns: instr      wave-instructions of the whole grid
         /KB        the same, for 1000 bytes of the operator's minimum
         a wave     the same, of a wave on average
         mfma       matrix instructions; busy: the cycles that they keep a matrix core busy
         share      busy cycles of MFMAs over the cycles in which waves issue anything: 4 for each instruction, 16 for
                    transcendentals, for MFMAs all that they are busy; as if nothing else were issued in that time
         valu       VALU instructions, transcendentals among them
         lds        bank conflict cycles over conflict-free cycles, in %
         bytes      asked for (loads, stores, atomics, scalar loads) over the operator's minimum
         lines      distinct lines of 128 bytes over the minimum
         vgprs (AGPRs among them), spills, workgroups

Of mha, of mla_decode, and of gemm from 256 rows on, a second table has the inner loop: what as many keys, or as much of K, more add.
         share      as above
         issue      busy cycles of MFMAs over issue cycles alone, MFMAs' being 4: above 1 one wave can keep the matrix core
                    busy, if all else is issued while MFMAs are under way"""
import argparse
import json
import sys

import aiter_attention
import aiter_gemm
import aiter_mla
import aiter_moe
from emu_counters import Wrong, row_of

OPERATORS = {"attention": aiter_attention, "mla": aiter_mla, "gemm": aiter_gemm, "moe": aiter_moe}
OPERATOR_OF = {"mla_decode": "mla", "mha": "attention", "mha_decode": "attention", "gemm": "gemm", "moe": "moe"}
LOOP = [("mfma", ["mfma"]), ("valu", ["valu"]), ("trans", ["trans"]), ("lds", ["lds", "cross"]),
        ("loads", ["load", "store", "smem"]), ("salu", ["salu"]), ("waits", ["wait"]), ("branches", ["branch"])]
COLUMNS = ("%9d %7.2f %7.0f %8d %9d %5.3f %8d %5.1f %6.3f %6.3f %5d %6d %6d",
           ["instructions", "per_kb", "a_wave", "mfma", "busy", "share", "valu", "lds_conflicts", "bytes", "lines", "vgprs",
            "spills", "workgroups"])


def busy_share(busy, instructions, mfma, trans):
    """(share, issue) as above."""
    other = 4 * (instructions - mfma) + 12 * trans
    return busy / (busy + other), busy / (other + 4 * mfma)


def columns(text, count):
    c, by = count.counters, count.counters["by_class"]
    busy, n = c["matrix"]["cycles"], c["wave_instructions"]
    return dict(row_of(text, count.who, count.how, c, count.minimal), per_kb=1000 * n / count.minimal, mfma=by["mfma"],
                busy=busy, share=busy_share(busy, n, by["mfma"], by["trans"])[0], valu=by["valu"] + by["trans"],
                workgroups=c["workgroups"])


def loop_of(text, piece, loop):
    less, more = loop.less, loop.more
    by = {name: sum(more["by_class"][c] - less["by_class"][c] for c in classes) / loop.pieces for name, classes in LOOP}
    n = (more["wave_instructions"] - less["wave_instructions"]) / loop.pieces
    busy = (more["matrix"]["cycles"] - less["matrix"]["cycles"]) / loop.pieces
    share, issue = busy_share(busy, n, by["mfma"], by["trans"])
    return dict(by, problem=text, piece=piece, who=loop.who, instructions=n, busy=busy, share=share, issue=issue)


def show(rows):
    wide = max(len(r["problem"]) for r in rows)
    print("%-*s %-6s %9s %7s %7s %8s %9s %5s %8s %5s %6s %6s %5s %6s %6s  %s" %
          (wide, "problem", "whose", "instr", "/KB", "a wave", "mfma", "busy", "share", "valu", "lds%", "bytes", "lines",
           "vgprs", "spills", "groups", "how"))
    for r in rows:
        print("%-*s %-6s %s  %s" % (wide, r["problem"], r["who"], COLUMNS[0] % tuple(r[k] for k in COLUMNS[1]), r["how"]))


def show_loops(rows):
    names = [name for name, _ in LOOP]
    for piece in dict.fromkeys(r["piece"] for r in rows):
        here = [r for r in rows if r["piece"] == piece]
        wide = max(len(r["problem"]) for r in here)
        print("\n# the inner loop, for each %s\n%-*s %6s %6s %s  share  issue  whose" %
              (piece, wide, "problem", "instr", "busy", " ".join("%8s" % n for n in names)))
        for r in here:
            print("%-*s %6.1f %6.0f %s  %.3f  %.3f  %s" % (wide, r["problem"], r["instructions"], r["busy"], " ".join(
                "%8.1f" % r[n] for n in names), r["share"], r["issue"], r["who"]))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--aiter", required=True, help="the wheel's aiter_meta/hsa/gfx942, or gfx950")
    a.add_argument("--bin", default="build/bin", help="where rfg-bench and rfg-emu are")
    a.add_argument("--device", default="emu:gfx942:304")
    a.add_argument("--op", action="append", choices=list(OPERATORS), help="the usual problems of this alone")
    a.add_argument("--problem", action="append", help="in place of the usual ones")
    a.add_argument("--json", action="store_true", help="an object a line")
    a.add_argument("--seed", type=int, default=1)
    args = a.parse_args()
    arch = args.device.split(":")[1]
    rows, loops = [], []
    try:
        for text in args.problem or [t for op in args.op or OPERATORS for t in OPERATORS[op].problems(arch)]:
            if text.split()[0] not in OPERATOR_OF:
                raise Wrong("%s: must be one of %s" % (text, ", ".join(OPERATOR_OF)))
            op = OPERATORS[OPERATOR_OF[text.split()[0]]]
            counts, more = op.count(text, args)
            rows += [columns(text, c) for c in counts]
            loops += [loop_of(text, op.PIECE, x) for x in more]
    except Wrong as e:
        print("aiter_counters.py: %s" % e, file=sys.stderr)
        return 1
    if args.json:
        for r in rows + loops:
            print(json.dumps(r))
        return 0
    show(rows)
    if loops:
        show_loops(loops)
    return 0


sys.exit(main())
