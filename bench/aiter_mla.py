# SPDX-License-Identifier: MIT
"""aiter_counters.py's latent attention: mla_decode of 16 and 128 heads, one query, pages of 1 (AITER's fast form), is
AITER's mla_dec_stage1_bf16_a16w16_subQ16_mqa16 and subQ128_mqa128 with one split, as AITER's host code launches them."""
import argparse

import numpy as np

from aiter_launch import Count, Loop, Out, Zeroes, attributes, launch, random_bf16
from emu_counters import Wrong, check, ours, to_float

PIECE = "16 queries by 16 keys"
D, DV, SCALE = 576, 512, 192**-0.5


def problems(arch):
    return ["mla_decode bf16->bf16 B=4 Hq=16 D=576 S=1024 Dv=512 page=1",
            "mla_decode bf16->bf16 B=2 Hq=128 D=576 S=512 Dv=512 page=1"] if arch == "gfx942" else []


def parse(text):
    n, left = attributes(text, B=0, Hq=0, D=0, S=0, Dv=0, page=0)
    if left or (n["D"], n["Dv"], n["page"]) != (D, DV, 1) or n["Hq"] not in (16, 128):
        raise Wrong("%s: must have D=576 Dv=512 page=1, 16 or 128 heads, and nothing else" % text)
    return argparse.Namespace(**n)


def aiter(text, args):
    p = parse(text)
    rng = np.random.default_rng(args.seed)
    q, kv = random_bf16(rng, (p.B, p.Hq, D), 1), random_bf16(rng, (p.B * p.S, D), 1)
    order = rng.permutation(p.B * p.S).astype(np.int32)
    begin, row = np.arange(p.B + 1, dtype=np.int32), 2 * p.Hq * D
    sums = Out((4 if p.Hq == 16 else 2) * p.B * p.Hq * DV)  # of one split 16 heads' in fp32, for a second launch
    values = [sums, Zeroes(4 * p.B * p.Hq), q, kv, begin * np.int32(p.S), order, np.ones(p.B, np.int32), float(np.float32(SCALE)),
              p.Hq, 1, row, 2 * D, 0] + ([begin] if p.Hq == 128 else [])
    rows = 16 if p.Hq == 16 else 128
    name = "mla/mla_dec_stage1_bf16_a16w16_subQ%d_mqa%d.co" % (rows, rows)
    c, got, how = launch(text, args, name, (1, p.B, 1), 256, values, {"lds"} if p.Hq == 16 else {"waits"})
    want = np.empty((p.B, p.Hq, DV))
    for b in range(p.B):
        k = to_float(kv[order[b * p.S : (b + 1) * p.S]], "bf16")
        s = to_float(q[b], "bf16") @ k.T * np.float32(SCALE)
        s = np.exp(s - s.max(1, keepdims=True))
        want[b] = s @ k[:, :DV] / s.sum(1, keepdims=True)
    got = got.view(np.float32) if p.Hq == 16 else to_float(got.view(np.uint16), "bf16")
    check("%s, %s" % (text, how), got.reshape(want.shape), want, "bf16", 0.02 * want.std())
    return c, how


def count(text, args):
    p = parse(text)
    mine, (theirs, how) = ours(text, args), aiter(text, args)
    counts = [Count("ours", mine["variant"], mine, mine["minimal_bytes"]), Count("AITER", how, theirs, mine["minimal_bytes"])]
    longer, pieces = text.replace(" S=%d" % p.S, " S=%d" % (2 * p.S)), p.B * p.Hq / 16 * p.S / 16
    return counts, [Loop("ours", mine, ours(longer, args, mine["variant"]), pieces),
                    Loop("AITER", theirs, aiter(longer, args)[0], pieces)]
