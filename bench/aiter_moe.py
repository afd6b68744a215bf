# SPDX-License-Identifier: MIT
"""aiter_counters.py's mixture of experts, "moe X->bf16 T= E= top= H= I= [per=row|block]": T tokens, each of which goes to
`top` of E experts, W1 of I (gated: 2 I) x H, W2 of H x I. AITER's are its fmoe objects with SiLU: of bf16 not gated, of fp8
(gfx942: e4m3fnuz, gfx950: e4m3) and i8 gated, with scales of rows or, of fp8, of blocks of 128; one launch for both products
and the sum, which is added to O by atomics. Ours are the operators that rfg_op_moe() makes of it (of bf16 rfg_op_act()
between the products), one after the other. X is of codes, quantised before. Sorting tokens by expert, and AITER's zeroing of
O, aren't counted. Minimum: weights and scales of the experts that have a token, X and its scales, and Y."""
import argparse
import os
import tempfile

import numpy as np

from aiter_launch import Count, Out, attributes, cus_of, launch, random_bf16, shuffled, table
from emu_counters import Wrong, add_up, check, ours, to_float

PIECE = None
BLOCK = 32  # tokens of an expert that a workgroup of AITER's has
# By X's dtype and what shares a scale: the list of AITER's objects, and the checks that they fail.
LISTS = {("bf16", ""): ("fmoe_bf16_noquant_g1u0_silu.csv", {"lds", "waits"}),
         ("fp8", "row"): ("fmoe_bf16_pertokenFp8_g1u1_silu.csv", set()),
         ("i8", "row"): ("fmoe_bf16_pertokenInt8_g1u1_silu.csv", set()),
         ("fp8", "block"): ("fmoe_bf16_blockscaleFp8_g1u1_silu.csv", {"lds", "waits"})}


def fp8_of(arch):
    return "e4m3fnuz" if arch == "gfx942" else "e4m3"


def problems(arch):
    return ["moe %s->bf16 T=%d E=8 top=2 H=2048 I=1024%s" % (x, t, per) for x, per in
            (("bf16", ""), (fp8_of(arch), " per=row"), ("i8", " per=row"), (fp8_of(arch), " per=block")) for t in (1, 8, 16)]


def parse(text, args):
    n, left = attributes(text, T=0, E=0, top=0, H=0, I=0)
    p = argparse.Namespace(x=text.split()[1].split("->")[0], per=left.pop("per", ""), **n)
    p.fp8 = p.x == fp8_of(args.device.split(":")[1])
    kind = ("fp8" if p.fp8 else p.x, p.per)
    if kind not in LISTS or not text.split()[1].endswith("->bf16") or left or p.H % 128 or p.I % 128 or p.top > p.E:
        raise Wrong("%s: must be bf16->bf16, or %s or i8->bf16 with per=row, or the former with per=block" %
                    (text, fp8_of(args.device.split(":")[1])))
    p.list, p.off = LISTS[kind]
    p.rows = p.I if p.x == "bf16" else 2 * p.I  # of W1
    return p


def operands(p, rng):
    """Of each token its experts and weights; X, W1, W2 as they lie; their scales, None with bf16."""
    o = argparse.Namespace(experts=np.stack([rng.permutation(p.E)[:p.top] for _ in range(p.T)]),
                           weights=rng.uniform(0.25, 0.75, (p.T, p.top)).astype(np.float32))
    shapes = (p.T, p.H), (p.E, p.rows, p.H), (p.E, p.H, p.I)
    if p.x == "bf16":
        o.x, o.w1, o.w2 = (random_bf16(rng, s, 1) for s in shapes)
        o.sx = o.s1 = o.s2 = None
        return o
    o.x, o.w1, o.w2 = (codes(p, rng, s) for s in shapes)
    scales = ((p.T, 1), (p.E, p.rows, 1), (p.E, p.H, 1))
    if p.per == "block":
        scales = (p.T, p.H // 128), (p.E, p.rows // 128, p.H // 128), (p.E, p.H // 128, p.I // 128)
    unit = values_of(p, np.uint8(0x38)) * 8 if p.fp8 else 74
    o.sx, o.s1, o.s2 = ((size * rng.uniform(0.5, 1.5, s) / unit).astype(np.float32)
                        for s, size in zip(scales, (1, 2 / np.sqrt(p.H), 1 / np.sqrt(p.I))))
    return o


def codes(p, rng, shape):
    """fp8 below 16, and none its NaN."""
    c = rng.integers(0, 256, shape, np.uint8)
    if p.fp8:
        c[(c & 0x78) > 0x58] &= 0xdf
    c[c == 0x80] = 0
    return c


def values_of(p, c):
    if p.x == "bf16":
        return to_float(c, "bf16").astype(np.float64)
    if not p.fp8:
        return c.view(np.int8).astype(np.float64)
    e, m = (c >> 3 & 15).astype(int), (c & 7).astype(np.float64)
    v = np.where(e > 0, (8 + m) * 2.0**(e - 11), m * 2.0**-10) * (1 if p.x == "e4m3fnuz" else 2)
    return np.where(c & 128, -v, v)


def scaled(p, c, s):
    """A matrix's values; s: of each row or 128 columns of it, or of 128 x 128."""
    v = values_of(p, c)
    return v if s is None else v * np.repeat(np.repeat(s, len(v) // len(s), 0), v.shape[1] // s.shape[1], 1)


def expected(p, o, tile):
    """O, and by how much it may be off: what is between the products is rounded to X's dtype, O is added up in bf16."""
    want, variance, added = (np.zeros((p.T, p.H)) for _ in range(3))
    x = scaled(p, o.x, o.sx)
    for e in range(p.E):
        tokens, slots = np.nonzero(o.experts == e)
        if not len(tokens):
            continue
        w1, w2 = (scaled(p, w[e], s if s is None else s[e]) for w, s in ((o.w1, o.s1), (o.w2, o.s2)))
        h = x[tokens] @ w1.T
        gate = h[:, :p.I]
        h = gate / (1 + np.exp(-gate)) * (h[:, p.I:] if p.rows > p.I else 1)
        error = abs(h).max(1, keepdims=True) / 127 if p.x == "i8" else abs(h) * 2.0**(-4 if p.fp8 else -8)
        weight = o.weights[tokens, slots][:, None]
        np.add.at(variance, tokens, np.broadcast_to(error**2, h.shape) @ (w2**2).T / 3 * weight**2)
        for i in range(0, p.I, tile):
            part = h[:, i:i + tile] @ w2[:, i:i + tile].T * weight
            np.add.at(want, tokens, part)
            np.add.at(added, tokens, abs(part))
    return want, 6 * np.sqrt(variance) + 2.0**-7 * added + 1e-3


# ---- AITER's ----------------------------------------------------------------------------------------------------------

def pick(p, args, blocks):
    """asm_fmoe.cu's: few rounds of workgroups, few CUs empty in the last, persistent ones first."""
    best, cus = None, cus_of(args)
    for row in table(args, "fmoe/silu/" + p.list):
        tile = int(row["subGU_n"])
        if "_vs_" not in row["knl_file"] or row["smf"] != "0" or p.I % tile:
            continue
        groups = p.I // tile * blocks
        rounds = -(-groups // cus)
        key = rounds, rounds * cus - groups, row["ps"] != "1"
        if best is None or key < best[0]:
            best = key, "fmoe/silu/" + row["knl_file"], tile, int(row["tg_num_perCU"]) * cus if row["ps"] == "1" else 0
    if not best:
        raise Wrong("AITER has no fmoe of I=%d" % p.I)
    return best[1:]


def by_expert(p, o, blocks):
    """Tokens by expert in blocks of 32: (slot << 24 | token, weight, expert of each block, and how many there are)."""
    ids, weights = np.full(BLOCK * blocks, p.top << 24 | p.T, np.int32), np.zeros(BLOCK * blocks, np.float32)
    experts, n = np.zeros(blocks, np.int32), 0
    for e in range(p.E):
        tokens, slots = np.nonzero(o.experts == e)
        for i in range(0, len(tokens), BLOCK):
            t, s = tokens[i:i + BLOCK], slots[i:i + BLOCK]
            ids[BLOCK * n:BLOCK * n + len(t)], weights[BLOCK * n:BLOCK * n + len(t)] = s << 24 | t, o.weights[t, s]
            experts[n], n = e, n + 1
    return ids, weights, experts, np.array([BLOCK * n, p.T], np.int32)


def aiter(text, p, o, args):
    blocks = -(-(p.T * p.top + p.E * BLOCK - p.top) // BLOCK)  # as many as its host code makes room for
    name, tile, persistent = pick(p, args, blocks)
    ids, weights, experts, valid = by_expert(p, o, blocks)
    tiles, size = p.I // tile, o.x.itemsize
    of_expert = [0 if s is None else 4 * s[0].size for s in (o.s1, o.s2)]
    values = [Out(2 * p.T * p.H), o.x, shuffled(o.w1), valid, shuffled(o.w2),
              np.ascontiguousarray(o.sx.T) if p.per == "block" else o.sx, o.s1, o.s2, None, ids, weights, experts,
              p.H, p.I, p.T, p.E, p.H * size, p.H * size, p.I * size, 2 * p.H, p.rows * p.H * size, p.H * p.I * size,
              of_expert[0], of_expert[1], 4 * p.I, p.top, persistent // tiles * tiles, tiles]
    # of these a wave overwrites in LDS what others may have still to read
    c, got, how = launch(text, args, name, (persistent, 1, 1) if persistent else (tiles, blocks, 1), 256, values, p.off,
                         "lds" in p.off)
    want, slack = expected(p, o, tile)
    check("%s, %s" % (text, how), to_float(got.view(np.uint16).reshape(want.shape), "bf16"), want, "bf16", slack)
    return c, how


# ---- ours -------------------------------------------------------------------------------------------------------------

def parts(p):
    """rfg-bench's problems of one call."""
    pairs, types, scale = p.T * p.top, "%s,%s->bf16" % (p.x, p.x), ""
    between = "act bf16->bf16 M=%d N=%d act=silu" % (pairs, p.I)
    if p.per:
        scale = " x_scale=f32 x_per=%s w_scale=f32 w_per=%s" % (p.per, p.per)
        between = "quantize bf16->%s,f32 M=%d N=%d group_rows=1%s" % (p.x, pairs, p.I,
                                                                     " group_cols=128" if p.per == "block" else "")
    return ["gemm %s M=%d N=%d K=%d experts=%d top=%d%s%s" % (types, pairs, p.rows, p.H, p.E, p.top,
                                                             " act=silu" if p.rows > p.I else "", scale), between,
            "gemm %s M=%d N=%d K=%d experts=%d weights=1%s" % (types, pairs, p.H, p.I, p.E, scale),
            "moe_sum bf16->bf16 T=%d N=%d top=%d" % (p.T, p.H, p.top)]


def count(text, args):
    p = parse(text, args)
    o = operands(p, np.random.default_rng(args.seed))
    tokens = np.bincount(o.experts.ravel(), minlength=p.E)
    touched = (tokens > 0).sum()
    minimal = touched * (o.w1[0].nbytes + o.w2[0].nbytes) + o.x.nbytes + 2 * p.T * p.H
    minimal += 0 if o.sx is None else o.sx.nbytes + touched * (o.s1[0].nbytes + o.s2[0].nbytes)
    with tempfile.TemporaryDirectory() as folder:
        loads = os.path.join(folder, "loads")
        np.savetxt(loads, tokens, "%d")
        runs = [ours(t, args, None, ["--loads", loads] if "experts=" in t else []) for t in parts(p)]
    sums = runs[0]
    for c in runs[1:]:
        sums = add_up(sums, c)
    theirs, how = aiter(text, p, o, args)
    return [Count("ours", " + ".join(c["variant"] for c in runs), sums, minimal), Count("AITER", how, theirs, minimal)], []
