# SPDX-License-Identifier: MIT
"""The end of moe_peers.py's output: measured times against the bars for a mixture of experts.

A record: {"model", "form", "routing", "t", "bytes", "copy": us of the bytes at copy speed, "us": {contestant: median us}}.
Run alone it tests itself."""

import math

import gemm_bars
from bars import geomean

OURS = ("rfg", "rfg+ov", "untuned", "whole", "whole+ov")
LARGE = 100e6  # bytes: below, so many microseconds more are allowed
MORE = 8.0


def peer(us):
    return gemm_bars.fastest(us, [n for n in us if n not in OURS])


def whole(r, ours):
    return r["us"].get(ours.replace("rfg", "whole"), math.nan)


def share(r, ours, gbps):
    return r["copy"] / whole(r, ours), None


def beyond(r, ours, gbps):
    return whole(r, ours) - r["copy"], None


def over_peer(r, ours, gbps):
    name, us = peer(r["us"])
    return us / r["us"].get(ours, math.nan), name


def over_uniform(r, ours, gbps):
    other = r.get("uniform")
    return (whole(r, ours) / r["copy"]) / (whole(other, ours) / other["copy"]) if other else math.nan, None


def few(r):
    return r["t"] <= 64


def of(routing, *picks):
    return lambda r: r["routing"] == routing and all(pick(r) for pick in picks)


def large(r):
    return r["bytes"] > LARGE


BARS = [
    ("T <= 64, > 100 MB: whole, share of the copy", of("uniform", few, large), share, "worst", True, 0.85, 0.85),
    ("T <= 64, <= 100 MB: whole, us beyond the copy", of("uniform", few, lambda r: not large(r)), beyond, "worst", False, MORE, MORE),
    ("T <= 64: experts, x best peer", of("uniform", few), over_peer, "mean", True, 1.4, 1.4),
    ("T > 64: experts, x best peer", of("uniform", lambda r: not few(r)), over_peer, "mean", True, 1.0, 1.0),
    ("zipf / uniform, time a byte", of("zipf"), over_uniform, "worst", False, 1.1, 1.1),
    ("untuned / tuned speed", of("uniform"), gemm_bars.untuned, "mean", True, 0.95, None),
]  # fmt: skip


def microseconds(r, ours, gbps):
    return r["us"].get(ours, math.nan), None


# of records {"what", "t", "pairs", "us"} of moe_small.py
SMALL = [
    ("route, T <= 64: x best peer", lambda r: r["what"] == "route" and few(r), over_peer, "mean", True, 1.3, 1.3),
    ("route, T <= 64: us", lambda r: r["what"] == "route" and few(r), microseconds, "worst", False, 4.0, 4.0),
    ("align, T k <= 512: us", lambda r: r["what"] == "align" and r["pairs"] <= 512, microseconds, "worst", False, 3.0, 3.0),
]  # fmt: skip


def where(r):
    return "%s %s %s T=%d" % (r["model"], r["form"], r["routing"], r["t"])


def pairs(records):
    """Of each record with another routing the uniform one of the same problem."""
    uniform = {(r["model"], r["form"], r["t"]): r for r in records if r["routing"] == "uniform"}
    return [dict(r, uniform=uniform.get((r["model"], r["form"], r["t"]))) if r["routing"] != "uniform" else r for r in records]


def table(records):
    """A form, T and model a line, and the geometric mean of the models."""
    out = ["%-6s %5s %-8s | %9s %9s | %9s %9s | %s" % ("form", "T", "model", "of copy", "with ov", "x peer", "with ov", "peer's of copy")]
    uniform = [r for r in records if r["routing"] == "uniform"]
    for key in dict.fromkeys((r["form"], r["t"]) for r in uniform):
        some = [r for r in uniform if (r["form"], r["t"]) == key]
        for name, of_ in [(r["model"], [r]) for r in some] + [("all", some)] * (len(some) > 1):

            def mean(figure, ours):
                values = [v for v in (figure(r, ours, 0)[0] for r in of_) if v == v]
                return geomean(values) if values else math.nan

            cells = [mean(f, o) for f in (share, over_peer) for o in ("rfg", "rfg+ov")]
            theirs = mean(lambda r, ours, gbps: (r["copy"] / peer(r["us"])[1], None), "")
            who = peer(of_[0]["us"])[0] if len(of_) == 1 else ""
            out.append("%-6s %5d %-8s | %9.3f %9.3f | %9.3f %9.3f | %.3f %s" % (*key, name, *cells, theirs, who))
    return out


def small_lines(records):
    out = []
    for ours in ("rfg", "rfg+ov"):
        said = gemm_bars.lines(records, ours, math.nan, SMALL, lambda r: "%s T=%d" % (r["what"], r["t"]))
        out += ["", ours + ":"] + ["  " + x for x in said]
    return out


def lines(records):
    out = table(records)
    for ours in ("rfg", "rfg+ov"):
        if any(ours in r["us"] for r in records):
            out += ["", ours + ":"] + ["  " + x for x in gemm_bars.lines(pairs(records), ours, math.nan, BARS, where)]
    return out


def self_test():
    def rec(t, us, copy=100.0, bytes_=3e8, routing="uniform", form="bf16", model="m"):
        return dict(model=model, form=form, routing=routing, t=t, bytes=bytes_, copy=copy, us=us)

    r = [
        rec(1, {"rfg": 110.0, "whole": 125.0, "whole+ov": 100.0, "rfg+ov": 90.0, "untuned": 220.0, "torch": 220.0, "vllm": 165.0}),
        rec(8, {"rfg": 30.0, "whole": 31.0, "torch": 60.0}, copy=20.0, bytes_=8e7),
        rec(256, {"rfg": 100.0, "whole": 110.0, "torch": 90.0}),
        rec(1, {"rfg": 110.0, "whole": 275.0, "torch": 1.0}, routing="zipf", copy=200.0),
    ]
    assert peer(r[0]["us"]) == ("vllm", 165.0) and peer({"rfg": 1.0})[0] is None

    def line(text, ours="rfg"):
        return [x for x in gemm_bars.lines(pairs(r), ours, math.nan, BARS, where) if x.startswith(text)][0]

    assert "0.800 MISSED" in line("T <= 64, > 100 MB") and "1 problems" in line("T <= 64, > 100 MB")
    assert "1.000 met" in line("T <= 64, > 100 MB", "rfg+ov")
    assert "11.000 MISSED" in line("T <= 64, <= 100 MB")  # 31 - 20
    assert "1.732 met" in line("T <= 64: experts") and "against vllm" in line("T <= 64: experts")  # 1.5 and 2
    assert "0.900 MISSED" in line("T > 64")
    assert "1.100 met" in line("zipf")  # 275 / 200 over 125 / 100
    assert "0.500 MISSED" in line("untuned")
    assert not [x for x in gemm_bars.lines(pairs(r), "rfg+ov", math.nan, BARS, where) if "untuned" in x]
    text = "\n".join(lines(r))
    assert "bf16       1 m        |     0.800     1.000 |     1.500     1.833 | 0.606 vllm" in text, text
    assert "all" not in text and "all" in "\n".join(table(r + [dict(r[0], model="n")]))
    r = [dict(what="route", t=8, pairs=64, us={"rfg": 2.0, "vllm": 3.0, "compile": 9.0}), dict(what="align", t=64, pairs=512, us={"rfg": 3.5})]
    text = "\n".join(small_lines(r))
    assert "x best peer                >= 1.30  1.500 met" in text and "<= 4.00  2.000 met" in text, text
    assert "<= 3.00  3.500 MISSED" in text and "align T=64" in text, text
    print("moe_bars: fine")


if __name__ == "__main__":
    self_test()
