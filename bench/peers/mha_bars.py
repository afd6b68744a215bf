# SPDX-License-Identifier: MIT
"""The output of mha_peers.py: the table, and at the end measured times against the bars for attention.

A record: the fields of a mha_rows.Row and {"text", "bytes", "kv_bytes", "flops", "us": {contestant: median us}, "error":
{contestant: relative error}}. Run alone it tests itself."""

import math

import gemm_bars
from gemm_bars import fastest

SDPA = ("fa2", "cudnn", "efficient")
PEERS = SDPA + ("fa2-kvcache", "flashinfer", "xqa")
COLUMNS = ("rfg", "rfg+ov", "untuned") + PEERS + ("floor",)


def peer(us):
    """None without the two peers that split the keys: a comparison with the others would flatter us."""
    if not all(us.get(name, math.nan) > 0 for name in ("fa2", "flashinfer")):
        return None, math.nan
    return fastest(us, PEERS)


def of(name):
    return lambda us: fastest(us, (name,))


def floor_share(r, ours, gbps):
    return r["us"].get("floor", math.nan) / r["us"].get(ours, math.nan), None


def plain(r):
    """Decode with the heads and the cache that most rows have."""
    return r["page"] == 16 and (r["hq"], r["hkv"], r["kv"]) == (32, 8, "bf16") and not r["log"]


def single(s):
    return lambda r: plain(r) and r["b"] == 1 and r["s"] == s << 10


def batch(r):
    return plain(r) and r["b"] >= 8


def heads(r):
    return r["page"] == 16 and (r["hq"], r["hkv"]) != (32, 8)


def fp8(r):
    return r["kv"] != "bf16"


def prefill(r):
    return r["page"] == 0


def encoder(r):
    return prefill(r) and not r.get("causal", True)


def over(who):
    return gemm_bars.over(who)


# as in gemm_bars; the same bars for rfg and rfg+ov
BARS = tuple(
    (text, pick, figure, "worst", True, bar, bar)
    for text, pick, figure, bar in (
        ("decode B=1 S=1k: x best peer", single(1), over(peer), 1.8),
        ("decode B=1 S=4k: x best peer", single(4), over(peer), 1.6),
        ("decode B=1 S=16k: x best peer", single(16), over(peer), 1.3),
        ("decode B=1 S=128k: x best peer", single(128), over(peer), 1.1),
        ("decode B=8..256 S=1k..16k: x best peer", batch, over(peer), 1.0),
        ("decode B=8..256 S=1k..16k: of the floor", batch, floor_share, 0.9),
        ("decode ragged: of the floor", lambda r: r["log"], floor_share, 0.85),
        ("decode Hq=64, Hkv=1, B=32: of the floor", lambda r: heads(r) and r["b"] > 1, floor_share, 0.9),
        ("decode Hq=64, Hkv=1, B=1: x best peer", lambda r: heads(r) and r["b"] == 1, over(peer), 1.3),
        ("decode fp8 KV: of the floor", fp8, floor_share, 0.9),
        ("prefill S=2k, 8k, 32k: x FlashAttention-2", lambda r: prefill(r) and r.get("causal", True), over(of("fa2")), 1.0),
    )
)

# nothing is asked of these
ASIDE = (
    ("decode ragged: x best peer", lambda r: r["log"], over(peer)),
    ("decode page 1, 64, 128: of the floor", lambda r: r["page"] not in (0, 16), floor_share),
    ("decode fp8 KV: x FlashInfer", fp8, over(lambda us: fastest(us, ("flashinfer", "xqa")))),
    ("decode Hq=64, Hkv=1, B=1: of the floor", lambda r: heads(r) and r["b"] == 1, floor_share),
    ("prefill: x cuDNN", lambda r: prefill(r) and r.get("causal", True), over(of("cudnn"))),
    ("encoders, cross attention: x FlashAttention-2", encoder, over(of("fa2"))),
    ("encoders, cross attention: x cuDNN", encoder, over(of("cudnn"))),
    ("all: tuned x untuned", lambda r: True, over(of("untuned"))),
)


def where(r):
    return r["text"].split(" ", 2)[2].replace(" D=128", "")


def lines(records, ours, gbps):
    """One line a bar, as gemm_bars has them; then those without one."""
    out = gemm_bars.lines(records, ours, gbps, BARS, where)
    for text, pick, figure in ASIDE:
        got = [(figure(r, ours, gbps)[0], where(r)) for r in filter(pick, records)]
        got = [g for g in got if g[0] == g[0]]
        if got:
            values = [g[0] for g in got]
            each = ", ".join("%.3f %s" % g for g in got) if len(got) <= 4 else "worst %.3f %s" % min(got)
            out.append("%-42s (no bar) geomean %.3f (%s)" % (text, gemm_bars.geomean(values), each))
    return out


# ---- the table --------------------------------------------------------------------------------------------------

SHORT = {"efficient": "effic.", "fa2-kvcache": "kvcache", "flashinfer": "flashi."}
HEAD = "%-58s %s | peer/rfg %-12s of floor | rfg peer | error: rfg, peers (1e-3)" % (
    "us",
    " ".join("%9s" % SHORT.get(c, c) for c in COLUMNS),
    "",
)


def show(r):
    """One line of the table."""
    us, nan = r["us"], math.nan
    ours, (name, peer) = us.get("rfg", nan), fastest(us, PEERS)
    work, unit = (r["flops"] / 1e6, "TFLOP/s") if prefill(r) else (r["kv_bytes"] / 1e6, "TB/s")
    theirs = [1e3 * r["error"][n] for n in PEERS if n in r["error"]]
    digits = 0 if prefill(r) else 2
    return "%-58s %s | %8.2f %-12s %8.3f | %.*f %.*f %s | %.2f, %s" % (
        where(r),
        " ".join("%9.2f" % us.get(c, nan) for c in COLUMNS),
        peer / ours,
        name or "-",
        us.get("floor", nan) / ours,
        digits,
        work / ours,
        digits,
        work / peer,
        unit,
        1e3 * r["error"].get("rfg", nan),
        "%.2f..%.2f" % (min(theirs), max(theirs)) if theirs else "-",
    )


def verdict(records, gbps):
    """The bars, for all of our contestants that ran; and the missing peers."""
    out = []
    for ours in ("rfg", "rfg+ov"):
        if any(ours in r["us"] for r in records):
            out += ["", ours + ":"] + ["  " + x for x in lines(records, ours, gbps)]
    for name in COLUMNS:
        without = [where(r) for r in records if name not in r["us"]]
        if without and len(without) < len(records):
            out.append("# %s was not measured in %d rows: %s" % (name, len(without), "; ".join(without)))
        elif without:
            out.append("# %s was not measured" % name)
    return out


def self_test():
    from mha_rows import ROWS

    def rec(us, **want):
        for r in ROWS:
            if all(getattr(r, k) == v for k, v in want.items()):
                return dict(vars(r), text=r.text, us=us, error={})
        raise AssertionError(want)

    def line(records, text, ours="rfg"):
        return [x for x in lines(records, ours, 4000.0) if x.startswith(text)][0]

    assert peer({"fa2": 3.0, "flashinfer": 2.0, "cudnn": 4.0}) == ("flashinfer", 2.0)
    assert peer({"fa2": 3.0, "cudnn": 2.0, "flashinfer": math.nan})[0] is None
    # Each row is under the bars that it should be.
    under = {t: [r.text for r in ROWS if pick(dict(vars(r), text=r.text))] for t, pick, *_ in BARS}
    count = [len(under[t]) for t in (b[0] for b in BARS)]
    assert count == [1, 1, 1, 1, 12, 12, 1, 2, 2, 2, 3], count
    left = {r.text for r in ROWS} - {t for texts in under.values() for t in texts}
    assert len(left) == 8 and all("page=16" not in t for t in left), left  # pages of 1, 64 and 128, encoders
    r = [
        rec({"rfg": 10.0, "fa2": 30.0, "flashinfer": 19.0, "cudnn": 40.0, "floor": 5.0, "untuned": 12.0}, b=1, s=1024),
        rec({"rfg": 10.0, "fa2": 15.0, "flashinfer": 19.0}, b=1, s=4096),
        rec({"rfg": 100.0, "fa2": 101.0, "flashinfer": 120.0, "floor": 92.0}, b=32, s=4096),
        rec({"rfg": 100.0, "fa2": 99.0, "flashinfer": 120.0, "floor": 89.0, "rfg+ov": 90.0}, b=64, s=4096),
        rec({"rfg": 100.0, "floor": 85.0, "flashinfer": 120.0, "fa2": 300.0}, log=True),
        rec({"rfg": 100.0, "floor": 85.0}, kv="e4m3"),
        rec({"rfg": 100.0, "floor": 95.0}, page=64),
        rec({"rfg": 100.0, "fa2": 110.0, "cudnn": 60.0}, page=0),
    ]
    got = line(r, "decode B=1 S=1k")
    assert ">= 1.80  1.900 met" in got and "B=1 Hq=32 Hkv=8 S=1024 page=16 against flashinfer" in got, got
    assert "1.500 MISSED" in line(r, "decode B=1 S=4k") and "not measured" in line(r, "decode B=1 S=16k")
    got = line(r, "decode B=8..256 S=1k..16k: x")
    assert "0.990 MISSED" in got and "1 hold" in got and "best 1.010" in got, got
    assert "0.890 MISSED" in line(r, "decode B=8..256 S=1k..16k: of")
    assert "1.100 met" in line(r, "decode B=8..256 S=1k..16k: x", "rfg+ov")
    assert "0.850 met" in line(r, "decode ragged: of") and "1.200" in line(r, "decode ragged: x")
    assert "0.850 MISSED" in line(r, "decode fp8 KV: of") and "0.950" in line(r, "decode page")
    assert "1.100 met" in line(r, "prefill S") and "0.600" in line(r, "prefill: x cuDNN")
    assert "1.200" in line(r, "all: tuned")
    assert not [x for x in lines([], "rfg", 1.0) if "not measured" not in x]
    print("mha_bars: fine")


if __name__ == "__main__":
    self_test()
