# SPDX-License-Identifier: MIT
"""aiter_counters.py's GEMM. bf16,bf16->f32 is AITER's bf16gemm_outf32_tn, D zeroed before; i8,i8->bf16 with scales of rows
its I8gemm_bf16_perTokenI8_BpreShuffle; e2m1,e2m1->bf16 with e8m0 scales of 32 its f4gemm_bf16_per1x32Fp4_BpreShuffle (gfx950),
both without split-K and of shuffled weights. Tiles and split-K are those that AITER's host code picks, but for its ties, which
depend on the order of its hash table. From LOOP_FROM rows on, TILES' variant is shown where our pick is another."""
import argparse

import numpy as np

from aiter_launch import Count, Loop, Out, attributes, cus_of, launch, random_bf16, shuffled, table
from emu_counters import Wrong, check, ours, to_float

PIECE = "64 rows by 64 columns by 64 of K"
LOOP_FROM = 256
ROWS = "x_scale=f32 x_per=row w_scale=f32 w_per=row"
MX = "x_scale=e8m0 x_per=group w_scale=e8m0 w_per=group"
TYPES = {"bf16,bf16->f32": "", "i8,i8->bf16": ROWS, "e2m1,e2m1->bf16": MX}
TILE = "gemm_tile{tile_m=256,tile_n=256,tile_k=%d,waves_m=2,waves_n=%d,buffers=2,split_k=1}"
TILES = {"bf16,bf16->f32": TILE % (32, 2), "i8,i8->bf16": TILE % (64, 4), "e2m1,e2m1->bf16": TILE % (128, 2)}


def problems(arch):
    sizes = [(1, 1024, 7168), (8, 1024, 7168), (16, 1024, 7168), (16, 4096, 5120), (64, 1024, 7168), (256, 1024, 5120)]
    texts = ["gemm bf16,bf16->f32 M=%d N=%d K=%d" % s for s in sizes + [(4096, 4096, 512)]]
    if arch == "gfx942":
        return texts + ["gemm i8,i8->bf16 M=4096 N=4096 K=512 " + ROWS]
    return texts + ["gemm e2m1,e2m1->bf16 M=%d N=1024 K=%d %s" % (s + (MX,)) for s in ((16, 7168), (64, 7168), (256, 4096))]


def parse(text):
    n, left = attributes(text, M=0, N=0, K=0)
    types = text.split()[1]
    if types not in TYPES or left != attributes("gemm x " + TYPES[types])[1]:
        raise Wrong("%s: must be of %s, and nothing else" % (text, ", ".join(" ".join(t).strip() for t in TYPES.items())))
    return types, argparse.Namespace(**n)


# ---- AITER's: object, tile and split-K; then grid, arguments, what D must be and within what, checks to leave off ------

def bf16_pick(p, args):
    """asm_gemm_a16w16.cu's rule: few rounds of workgroups, few idle CUs in the last, few padding rows."""
    cus, best = cus_of(args), None
    for row in table(args, "bf16gemm/bf16gemm_outf32.csv"):
        tm, tn = int(row["tileM"]), int(row["tileN"])
        groups, outside = -(-p.M // tm) * (p.N // tn), -p.M % tm
        split = min(cus // groups, 64) if groups < cus else 1
        # parts beyond the end of K, which its host code would launch too, make the result wrong
        steps = p.K // 64
        split = -(-steps // -(-steps // split))
        rounds = -(-groups * split // cus)
        key = (rounds, rounds * cus - groups * split, outside, -tm)
        if not p.N % tn and (best is None or key < best[0]):
            best = key, "bf16gemm/" + row["knl_file"], tm, tn, split
    if not best or p.K % 64:
        raise Wrong("AITER has no bf16 GEMM of N=%d K=%d" % (p.N, p.K))
    return best[1:]


def bf16_call(p, rng, pick):
    _, tm, tn, split = pick
    a, b = random_bf16(rng, (p.M, p.K), 1), random_bf16(rng, (p.N, p.K), 1)
    values = [Out(4 * p.M * p.N), None, a, b, 1.0, 0.0, 4 * p.N, 0, 4 * p.N, 0, 2 * p.K, 0, 2 * p.K, 0, p.M, p.N, p.K, split]
    fa, fb = to_float(a, "bf16").astype(np.float64), to_float(b, "bf16").astype(np.float64)
    # each of K sums in fp32 rounds by half an ulp of at most the sum of sizes: together about sqrt(K) of them, thrice
    slack = 3 * np.sqrt(p.K) * 2.0**-25 * (abs(fa) @ abs(fb).T)
    return (p.N // tn, -(-p.M // tm), split), values, fa @ fb.T, slack, set()


def rounds_pick(p, args, folder, path, fits):
    """asm_gemm_a8w8.cu's and asm_gemm_a4w4.cu's, without split-K; of equals the smallest tile."""
    best, cus = None, cus_of(args)
    for row in table(args, path):
        tm, tn = int(row["tile_m"]), int(row["tile_n"])
        groups = -(-p.M // tm) * (p.N // tn)
        rounds = -(-groups // cus)
        key = rounds, rounds * cus - groups, tm * tn
        if fits(row) and not p.N % tn and (best is None or key < best[0]):
            best = key, folder + row["co_name"], tm, tn, 1
    if not best:
        raise Wrong("AITER has no such GEMM of N=%d" % p.N)
    return best[1:]


def i8_pick(p, args):
    return rounds_pick(p, args, "i8gemm/", "i8gemm/i8gemm_bf16_perTokenI8.csv", lambda row: row["bpreshuffle"] == "1")


def i8_call(p, rng, pick):
    _, tm, tn, split = pick
    a, b = (rng.integers(-127, 128, (rows, p.K), np.int8) for rows in (p.M, p.N))
    sa, sb = ((rng.uniform(0.5, 1, rows) / 2**10).astype(np.float32) for rows in (p.M, p.N))
    values = [Out(2 * p.M * p.N), a, shuffled(b, 32), sa, sb, np.zeros(p.N, np.float32), p.M, p.N, p.K, p.K, p.K, 2 * p.N,
              split]
    want = a.astype(np.float64) @ b.astype(np.float64).T * sa[:, None] * sb
    return (p.N // tn * split, -(-p.M // tm), 1), values, want, 1e-6 * abs(want).max(), {"lds", "barriers"}


def f4_pick(p, args):
    return rounds_pick(p, args, "f4gemm/", "f4gemm/f4gemm_bf16_per1x32Fp4.csv",
                       lambda row: row["bpreshuffle"] == "1" and row["splitK"] == "0")


def e2m1(codes):
    """Values of bytes' two codes each, and with their sign."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([values, -values])
    return np.stack([values[codes & 15], values[codes >> 4]], -1).reshape(len(codes), -1)


def f4_scales(rng, rows, columns):
    """e8m0 codes of rows padded to 256 and columns to 8, and as [rows / 32][columns / 8][column % 4][row % 16][column / 4 %
    2][row / 16 % 2]."""
    s = rng.integers(124, 131, (-(-rows // 256) * 256, -(-columns // 8) * 8), np.uint8)
    laid = s.reshape(len(s) // 32, 2, 16, s.shape[1] // 8, 2, 4).transpose(0, 3, 5, 2, 4, 1)
    return s[:rows, :columns], np.ascontiguousarray(laid)


def f4_call(p, rng, pick):
    _, tm, tn, split = pick
    a, b = (rng.integers(0, 256, (rows, p.K // 2), np.uint8) for rows in (p.M, p.N))
    (sa, la), (sb, lb) = (f4_scales(rng, rows, p.K // 32) for rows in (p.M, p.N))
    rows = -(-p.M // 32) * 32
    values = [Out(2 * rows * p.N), None, a, shuffled(b), 1.0, 0.0, 0, 0, p.N, 0, p.K, 0, p.K, 0, p.M, p.N, p.K, la, lb,
              -(-p.K // 256) * 8, 0, -(-p.K // 256) * 8, 0, 0]
    fa, fb = (e2m1(x) * np.repeat(2.0**(s.astype(np.int64) - 127), 32, 1) for x, s in ((a, sa), (b, sb)))
    return (p.N // tn, -(-p.M // tm), 1), values, fa @ fb.T, 1e-5 * (abs(fa) @ abs(fb).T), set()


CALLS = {"bf16,bf16->f32": (bf16_pick, bf16_call), "i8,i8->bf16": (i8_pick, i8_call), "e2m1,e2m1->bf16": (f4_pick, f4_call)}


def aiter(text, args, pick):
    types, p = parse(text)
    grid, values, want, slack, off = CALLS[types][1](p, np.random.default_rng(args.seed), pick)
    c, got, how = launch(text, args, pick[0], grid, 256, values, off)
    out = types.split("->")[1]
    got = got.view({"f32": np.float32, "bf16": np.uint16}[out]).reshape(-1, p.N)[:p.M]
    check("%s, %s" % (text, how), to_float(got, out), want, out, slack)
    return c, how + (", split-K %d" % pick[3] if pick[3] > 1 else "")


def count(text, args):
    types, p = parse(text)
    pick = CALLS[types][0](p, args)
    theirs, how = aiter(text, args, pick)
    runs = [("ours", ours(text, args))]
    minimal = runs[0][1]["minimal_bytes"]
    if p.M >= LOOP_FROM and types in TILES and runs[0][1]["variant"] != TILES[types]:
        runs.append(("ours", ours(text, args, TILES[types])))
    counts = [Count(who, c["variant"], c, minimal) for who, c in runs] + [Count("AITER", how, theirs, minimal)]
    if p.M < LOOP_FROM:
        return counts, []
    longer, pieces = text.replace(" K=%d" % p.K, " K=%d" % (2 * p.K)), p.M / 64 * p.N / 64 * p.K / 64
    return counts, ([Loop(c["variant"], c, ours(longer, args, c["variant"]), pieces) for _, c in runs] +
                    [Loop(how, theirs, aiter(longer, args, pick)[0], pieces)])
