# SPDX-License-Identifier: MIT
"""aiter_counters.py's attention: mha_decode with pages of 16 rows is AITER's pa_bf16_noquant_gqa8 or gqa16, mha is
fmha_v3_fwd's hd128 (bf16 to nearest even), batch after batch in one launch, as AITER's own host code launches them."""
import argparse

import numpy as np

from aiter_launch import Count, Loop, Out, Zeroes, attributes, launch, random_bf16
from emu_counters import Wrong, check, ours, to_float

PIECE = "32 queries by 64 keys"
D = 128


def problems(arch):
    return ["mha_decode bf16->bf16 B=8 Hq=32 Hkv=8 D=128 S=4096 page=16",
            "mha_decode bf16->bf16 B=8 Hq=32 Hkv=4 D=128 S=4096 page=16",
            "mha_decode bf16->bf16 B=8 Hq=64 Hkv=4 D=128 S=4096 page=16",
            "mha bf16->bf16 B=4 Hq=32 Hkv=8 D=128 S=512 Sq=512",
            "mha bf16->bf16 B=4 Hq=32 Hkv=8 D=128 S=512 Sq=512 causal=1"] if arch == "gfx942" else []


def parse(text):
    words = text.split()
    n, left = attributes(text, B=0, Hq=0, Hkv=0, D=0, S=0, Sq=1, page=0, causal=0)
    if words[1] != "bf16->bf16" or left or n["D"] != D:
        raise Wrong("%s: must be of bf16->bf16 with D=128, and nothing else" % text)
    if words[0] == "mha_decode" and (n["page"] != 16 or n["Sq"] != 1 or n["Hq"] // n["Hkv"] > 16):
        raise Wrong("%s: AITER's paged attention has page=16, Sq=1 and at most 16 heads a KV head" % text)
    return words[0], argparse.Namespace(**n)


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


def paged_layout(p, k, v, rng):
    """K as [page][head][D / 8][token][8], V as [page][head][token / 8][D][8], the pages shuffled; and the block table."""
    pages = p.B * -(-p.S // 16)
    rows = [np.zeros((p.B, -(-p.S // 16) * 16, p.Hkv, D), np.uint16) for _ in range(2)]
    rows[0][:, :p.S], rows[1][:, :p.S] = k, v
    order = rng.permutation(pages).astype(np.int32)
    cache = [np.empty((pages, p.Hkv, D // 8, 16, 8), np.uint16), np.empty((pages, p.Hkv, 2, D, 8), np.uint16)]
    cache[0][order] = rows[0].reshape(pages, 16, p.Hkv, D // 8, 8).transpose(0, 2, 3, 1, 4)
    cache[1][order] = rows[1].reshape(pages, 2, 8, p.Hkv, D).transpose(0, 3, 1, 4, 2)
    return cache[0], cache[1], order


def decode_call(p, q, k, v, rng):
    gqa, head = p.Hq // p.Hkv, 2 * 16 * D
    kc, vc, order = paged_layout(p, k, v, rng)
    values = [Out(q.nbytes), q, kc, vc, order, np.full(p.B, p.S, np.int32), None, None,
              float(np.float32(np.log2(np.e) / np.sqrt(D))), len(order) // p.B, p.Hkv, 2 * p.Hq * D, p.Hkv * head, head, gqa,
              None]
    return "pa/pa_bf16_noquant_gqa%d_1tg_4w.co" % (8 if gqa <= 8 else 16), (p.Hkv, p.B, 1), 256, values, {"waits", "barriers"}


def prefill_call(p, q, k, v, rng):
    row_q, row_k, head = 2 * p.Hq * D, 2 * p.Hkv * D, 2 * D
    values = [Out(q.nbytes), q, k, v, Zeroes(4 * p.B * p.Hq * p.Sq), float(np.float32(1 / np.sqrt(D))), p.Sq, row_q,
              256 * row_q, head, p.Sq * row_q, p.Hq // p.Hkv, row_k, head, p.S * row_k, 5, 1, p.S, D, D, p.Hq, row_k, head,
              p.S * row_k, row_q, head, p.Sq * row_q, None, None, 4 * p.Sq, None, None]
    tiles = -(-p.Sq // 256)
    grid = ((tiles + 1) // 2 if p.causal else tiles, p.Hq, p.B)
    return ("fmha_v3_fwd/MI300/fwd_hd128_bf16%s_rtne.co" % ("_causal" if p.causal else ""), grid, 512, values,
            {"hazards", "barriers"})


def aiter(text, args):
    op, p = parse(text)
    rng = np.random.default_rng(args.seed)
    q, k, v = (random_bf16(rng, (p.B, rows, heads, D), size) for rows, heads, size in
               ((p.Sq, p.Hq, 2), (p.S, p.Hkv, 2), (p.S, p.Hkv, 1)))
    call = (decode_call if op == "mha_decode" else prefill_call)(p, q, k, v, rng)
    c, got, how = launch(text, args, *call)
    want = attention(p, q, k, v)
    # weights are rounded to bf16, too: their errors add up to far less than this part of a typical result
    check("%s, %s" % (text, how), to_float(got.view(np.uint16).reshape(q.shape), "bf16"), want, "bf16", 0.02 * want.std())
    return c, how


def count(text, args):
    op, p = parse(text)
    mine = ours(text, args)
    theirs, how = aiter(text, args)
    counts = [Count("ours", mine["variant"], mine, mine["minimal_bytes"]), Count("AITER", how, theirs, mine["minimal_bytes"])]
    if op == "mha_decode":
        return counts, []
    longer, pieces = text.replace(" S=%d" % p.S, " S=%d" % (2 * p.S)), p.B * p.Hq * p.Sq / 32 * p.S / 64
    return counts, [Loop("ours", mine, ours(longer, args, mine["variant"]), pieces),
                    Loop("AITER", theirs, aiter(longer, args)[0], pieces)]
