#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What our attention makes an emulated gfx942 do, beside AITER's hand-written code objects of the same problems.

    pip download --no-deps amd-aiter && unzip amd_aiter-*.whl 'aiter_meta/hsa/gfx942/*'
    bench/aiter_counters.py --aiter aiter_meta/hsa/gfx942 [--problem TEXT]... [--device emu:gfx942:304] [--bin build/bin] [--json]

Needs numpy, and no GPU. mha_decode with pages of 16 rows is AITER's pa_bf16_noquant_gqa8 or gqa16, mha is fmha_v3_fwd's
hd128 (bf16 to nearest even), batch after batch in one launch, as AITER's own host code launches them. Results of AITER's
are compared with numpy's before they are counted: a wrong one ends the program with status 1. Ours are the dispatcher's
picks, untuned, by `rfg-bench --counters` under all checks. Of the checks that AITER's fail, see docs/emulator.md, those
named in the last column are off while they run.

Columns: instr      wave-instructions of the whole grid
         a wave     the same, of a wave on average
         mfma       matrix instructions; busy: the cycles that they keep a matrix core busy
         valu       VALU instructions, transcendentals among them
         lds        bank conflict cycles over conflict-free cycles, in %
         bytes      asked for (loads, stores, atomics, scalar loads) over the operator's minimum
         lines      distinct lines of 128 bytes over the minimum
         vgprs (AGPRs among them), spills, workgroups

Of mha a second table has the inner loop: what as many keys more add, for each 32 queries by 64 keys. An instruction takes
a wave 4 cycles to issue, a transcendental 16.
         share      busy cycles of MFMAs over the cycles in which the wave issues anything: 4 for each instruction, 16 for
                    transcendentals, for MFMAs all that they are busy; as if nothing else were issued in that time
         issue      busy cycles of MFMAs over issue cycles alone, MFMAs' being 4: above 1 one wave can keep the matrix core
                    busy, if all else is issued while MFMAs are under way"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np

from emu_counters import Wrong, check, emulate, ours, row_of, to_bits, to_float

PROBLEMS = ["mha_decode bf16->bf16 B=8 Hq=32 Hkv=8 D=128 S=4096 page=16",
            "mha_decode bf16->bf16 B=8 Hq=32 Hkv=4 D=128 S=4096 page=16",
            "mha_decode bf16->bf16 B=8 Hq=64 Hkv=4 D=128 S=4096 page=16",
            "mha bf16->bf16 B=4 Hq=32 Hkv=8 D=128 S=512 Sq=512",
            "mha bf16->bf16 B=4 Hq=32 Hkv=8 D=128 S=512 Sq=512 causal=1"]
D = 128
CHECKS = ["registers", "waits", "lds", "races", "hazards", "barriers"]
LOOP = [("mfma", ["mfma"]), ("valu", ["valu"]), ("trans", ["trans"]), ("lds", ["lds", "cross"]),
        ("loads", ["load", "store", "smem"]), ("salu", ["salu"]), ("waits", ["wait"]), ("branches", ["branch"])]


def parse(text):
    words = text.split()
    a = dict(w.split("=", 1) for w in words[2:])
    n = {k: int(a.pop(k, v)) for k, v in (("B", 0), ("Hq", 0), ("Hkv", 0), ("D", 0), ("S", 0), ("Sq", 1), ("page", 0),
                                          ("causal", 0))}
    if words[0] not in ("mha", "mha_decode") or words[1] != "bf16->bf16" or a or n["D"] != D:
        raise Wrong("%s: must be mha or mha_decode of bf16->bf16 with D=128, and nothing else" % text)
    if words[0] == "mha_decode" and (n["page"] != 16 or n["Sq"] != 1 or n["Hq"] // n["Hkv"] > 16):
        raise Wrong("%s: AITER's paged attention has page=16, Sq=1 and at most 16 heads a KV head" % text)
    return words[0], argparse.Namespace(**n)


def random_bf16(rng, shape, size):
    return to_bits(rng.uniform(-size, size, shape).astype(np.float32), "bf16")


def attention(p, q, k, v):
    """Of [B, Sq, Hq, D] and [B, S, Hkv, D], causal to the bottom right, by numpy."""
    out = np.empty(q.shape)
    hidden = np.triu(np.ones((p.Sq, p.S), bool), 1 + p.S - p.Sq) if p.causal else None
    for b in range(p.B):
        for h in range(p.Hkv):
            kf, vf = to_float(k[b, :, h], "bf16"), to_float(v[b, :, h], "bf16")
            for g in range(h * p.Hq // p.Hkv, (h + 1) * p.Hq // p.Hkv):
                s = to_float(q[b, :, g], "bf16") @ kf.T / np.float32(np.sqrt(D))
                if p.causal:
                    s[hidden] = -np.inf
                s = np.exp(s - s.max(1, keepdims=True))
                out[b, :, g] = s @ vf / s.sum(1, keepdims=True)
    return out


# ---- AITER's kernels: arguments as its csrc/py_itfs_cu/asm_*.cu gives them, each padded to 16 bytes ------------------

def pointer(value):
    return [value, "i64:0"]


def number(value):
    return ["f32:%r" % value if isinstance(value, float) else "u32:%d" % value] + 3 * ["u32:0"]


def paged_layout(p, k, v, rng):
    """K as [page][head][D / 8][token][8], V as [page][head][token / 8][D][8], the pages shuffled; and the block table."""
    pages = p.B * -(-p.S // 16)
    rows = [np.zeros((p.B, -(-p.S // 16) * 16, p.Hkv, D), np.uint16) for _ in range(2)]
    rows[0][:, :p.S], rows[1][:, :p.S] = k, v
    table = rng.permutation(pages).astype(np.int32)
    cache = [np.empty((pages, p.Hkv, D // 8, 16, 8), np.uint16), np.empty((pages, p.Hkv, 2, D, 8), np.uint16)]
    cache[0][table] = rows[0].reshape(pages, 16, p.Hkv, D // 8, 8).transpose(0, 2, 3, 1, 4)
    cache[1][table] = rows[1].reshape(pages, 2, 8, p.Hkv, D).transpose(0, 3, 1, 4, 2)
    return cache[0], cache[1], table


def decode_call(p, k, v, rng, buffer):
    gqa = p.Hq // p.Hkv
    kc, vc, table = paged_layout(p, k, v, rng)
    values = [pointer(x) for x in ("OUT", "Q", buffer(kc), buffer(vc), buffer(table), buffer(np.full(p.B, p.S, np.int32)),
                                   "null", "null")]
    head = 2 * 16 * D
    values += [number(x) for x in (float(np.float32(np.log2(np.e) / np.sqrt(D))), len(table) // p.B, p.Hkv, 2 * p.Hq * D,
                                   p.Hkv * head, head, gqa)]
    values.append(pointer("null"))
    return "pa/pa_bf16_noquant_gqa%d_1tg_4w.co" % (8 if gqa <= 8 else 16), (p.Hkv, p.B, 1), 256, values, {"waits", "barriers"}


def prefill_call(p, k, v, rng, buffer):
    row_q, row_k, head = 2 * p.Hq * D, 2 * p.Hkv * D, 2 * D
    values = [pointer(x) for x in ("OUT", "Q", buffer(k), buffer(v), "zero:%d" % (4 * p.B * p.Hq * p.Sq))]
    values += [number(x) for x in (float(np.float32(1 / np.sqrt(D))), p.Sq, row_q, 256 * row_q, head, p.Sq * row_q,
                                   p.Hq // p.Hkv, row_k, head, p.S * row_k, 5, 1, p.S, D, D, p.Hq, row_k, head, p.S * row_k,
                                   row_q, head, p.Sq * row_q)]
    values += [pointer("null"), pointer("null"), number(4 * p.Sq), pointer("null"), pointer("null")]
    tiles = -(-p.Sq // 256)
    grid = ((tiles + 1) // 2 if p.causal else tiles, p.Hq, p.B)
    return ("fmha_v3_fwd/MI300/fwd_hd128_bf16%s_rtne.co" % ("_causal" if p.causal else ""), grid, 512, values,
            {"hazards", "barriers"})


def aiter(text, args):
    """(counters, file and checks left out)"""
    op, p = parse(text)
    rng = np.random.default_rng(args.seed)
    q, k, v = (random_bf16(rng, (p.B, rows, heads, D), size) for rows, heads, size in
               ((p.Sq, p.Hq, 2), (p.S, p.Hkv, 2), (p.S, p.Hkv, 1)))
    with tempfile.TemporaryDirectory() as folder:
        def buffer(array):
            path = os.path.join(folder, "arg%d" % len(os.listdir(folder)))
            array.tofile(path)
            return "in:" + path
        name, grid, threads, values, off = (decode_call if op == "mha_decode" else prefill_call)(p, k, v, rng, buffer)
        out = os.path.join(folder, "out")
        special = {"OUT": "out:%s:%d" % (out, q.nbytes), "Q": buffer(q)}
        values = [special.get(x, x) for pad in values for x in pad]
        path = os.path.join(args.aiter, name)
        if not os.path.exists(path):
            raise Wrong("--aiter: there is no %s" % path)
        c = emulate("%s, %s" % (text, name), path, grid, threads, 0, values, args, ",".join(c for c in CHECKS if c not in off))
        got = np.fromfile(out, np.uint16).reshape(q.shape)
    want = attention(p, q, k, v)
    # weights are rounded to bf16, too: their errors add up to far less than this part of a typical result
    check("%s, %s" % (text, name), to_float(got, "bf16"), want, "bf16", 0.02 * want.std())
    return c, "%s, without %s" % (os.path.basename(name), ", ".join(sorted(off)))


# ---- the tables -------------------------------------------------------------------------------------------------

def columns(text, who, how, c, minimal):
    by = c["by_class"]
    return dict(row_of(text, who, how, c, minimal), mfma=by["mfma"], busy=c["matrix"]["cycles"],
                valu=by["valu"] + by["trans"], workgroups=c["workgroups"])


def loop_of(text, who, less, more):
    """What (p.S of more) - (p.S of less) keys add."""
    p = parse(text)[1]
    unit = p.B * p.Hq * p.Sq / 32 * p.S / 64
    by = {name: sum(more["by_class"][c] - less["by_class"][c] for c in classes) / unit for name, classes in LOOP}
    n = (more["wave_instructions"] - less["wave_instructions"]) / unit
    busy = (more["matrix"]["cycles"] - less["matrix"]["cycles"]) / unit
    other = 4 * (n - by["mfma"]) + 12 * by["trans"]
    return dict(by, problem=text, who=who, instructions=n, busy=busy, share=busy / (busy + other),
                issue=busy / (other + 4 * by["mfma"]))


def show_first(rows, args):
    if args.json:
        return [print(json.dumps(r)) for r in rows]
    print("%-62s %-6s %9s %7s %8s %9s %8s %5s %6s %6s %5s %6s %6s  %s" %
          ("problem", "whose", "instr", "a wave", "mfma", "busy", "valu", "lds%", "bytes", "lines", "vgprs", "spills", "groups",
           "how"))
    for r in rows:
        print("%-62s %-6s %9d %7.0f %8d %9d %8d %5.1f %6.3f %6.3f %5d %6d %6d  %s" %
              (r["problem"], r["who"], r["instructions"], r["a_wave"], r["mfma"], r["busy"], r["valu"], r["lds_conflicts"],
               r["bytes"], r["lines"], r["vgprs"], r["spills"], r["workgroups"], r["how"]))


def show_loops(rows, args):
    if args.json:
        return [print(json.dumps(r)) for r in rows]
    names = [name for name, _ in LOOP]
    print("\n# the inner loop, for each 32 queries by 64 keys\n%-62s %-6s %6s %6s %s  share  issue" %
          ("problem", "whose", "instr", "busy", " ".join("%8s" % n for n in names)))
    for r in rows:
        print("%-62s %-6s %6.1f %6.0f %s  %.3f  %.3f" % (r["problem"], r["who"], r["instructions"], r["busy"],
                                                        " ".join("%8.1f" % r[n] for n in names), r["share"], r["issue"]))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--aiter", required=True, help="the wheel's aiter_meta/hsa/gfx942")
    a.add_argument("--bin", default="build/bin", help="where rfg-bench and rfg-emu are")
    a.add_argument("--device", default="emu:gfx942:304")
    a.add_argument("--problem", action="append", help="in place of the usual ones")
    a.add_argument("--json", action="store_true", help="an object a line")
    a.add_argument("--seed", type=int, default=1)
    args = a.parse_args()
    rows, loops = [], []
    try:
        for text in args.problem or PROBLEMS:
            op, p = parse(text)
            mine = ours(text, args)
            minimal = mine["minimal_bytes"]
            theirs, how = aiter(text, args)
            rows += [columns(text, "ours", mine["variant"], mine, minimal), columns(text, "AITER", how, theirs, minimal)]
            if op == "mha":
                longer = text.replace(" S=%d" % p.S, " S=%d" % (2 * p.S))
                loops += [loop_of(text, "ours", mine, ours(longer, args, mine["variant"])),
                          loop_of(text, "AITER", theirs, aiter(longer, args)[0])]
    except Wrong as e:
        print("aiter_counters.py: %s" % e, file=sys.stderr)
        return 1
    show_first(rows, args)
    if loops:
        show_loops(loops, args)
    return 0


sys.exit(main())
