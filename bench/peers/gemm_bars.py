# SPDX-License-Identifier: MIT
"""The end of gemm_peers.py's output: measured times against the bars for the decode GEMM.

A record: {"m", "n", "k", "grid", "bytes", "weight_bytes", "us": {contestant: median us}, "error": {contestant: largest
error}}. Run alone it tests itself."""

import math

from bars import geomean

VENDOR = ("cublas", "cublaslt", "lt")
FLOOR = {"rfg": "floor", "rfg+ov": "floor+ov"}


def fastest(us, names):
    """(name, us) of the fastest that ran, or (None, nan)."""
    ran = [(us[n], n) for n in names if us.get(n, math.nan) > 0]
    return (min(ran)[1], min(ran)[0]) if ran else (None, math.nan)


def vendor(us):
    return fastest(us, VENDOR)


def peer(us):
    """None without Triton: a comparison with the vendor alone would flatter us."""
    return fastest(us, VENDOR + ("triton",)) if us.get("triton", math.nan) > 0 else (None, math.nan)


# A figure: (value, whom it is against) of a record; nan if something wasn't measured.


def over(who):
    def figure(r, ours, gbps):
        name, us = who(r["us"])
        return us / r["us"].get(ours, math.nan), name

    return figure


def over_floor(r, ours, gbps):
    return r["us"].get(ours, math.nan) / r["us"].get(FLOOR[ours], math.nan), None


def copy_share(r, ours, gbps):
    return r["bytes"] / r["us"].get(ours, math.nan) / 1e3 / gbps, None


def untuned(r, ours, gbps):
    return r["us"].get(ours, math.nan) / r["us"].get("untuned", math.nan), None


def untuned_over_vendor(r, ours, gbps):
    name, us = vendor(r["us"])
    return us / r["us"].get("untuned", math.nan), name


def error_over(who):
    def figure(r, ours, gbps):
        name = who(r["us"])[0]
        ours, theirs = r["error"].get(ours, math.nan), r["error"].get(name, math.nan)
        return 1.0 if ours == theirs else ours / theirs if theirs else math.inf, name

    return figure


def grid(r):
    return r["grid"]


def every(r):
    return r["m"] <= 128


def triton_ran(us):
    return fastest(us, ("triton",))


def small(r):
    return grid(r) and r["m"] <= 8


def heavy(r):
    return r["weight_bytes"] >= 64e6


# what is asked for; which records; their figure; what of it ("mean" of them, the "best" or "worst" one); whether more
# is better; the bar for rfg and for rfg+ov, None where there is none
BARS = (
    ("K=7168 grid: x vendor", grid, over(vendor), "mean", True, 1.75, 2.2),
    ("K=7168 grid: x peers", grid, over(peer), "mean", True, 1.4, 1.65),
    ("K=7168 grid, M <= 8: x vendor", small, over(vendor), "mean", True, 1.85, 2.2),
    ("K=7168 grid, M <= 8: x peers", small, over(peer), "mean", True, 1.55, 1.85),
    ("K=7168 grid, best problem: x vendor", grid, over(vendor), "best", True, 2.7, 3.4),
    ("K=7168 grid, worst problem: x peers", grid, over(peer), "worst", True, 1.0, 1.0),
    ("K=7168 grid, M <= 16: time / floor", lambda r: grid(r) and r["m"] <= 16, over_floor, "mean", False, 1.15, 1.15),
    ("K=7168 grid, M 32..128: time / floor", lambda r: grid(r) and r["m"] >= 32, over_floor, "mean", False, 1.35, 1.35),
    ("all, M <= 128: x peers", every, over(peer), "mean", True, 1.25, 1.25),
    ("all, M <= 128, worst problem: x peers", every, over(peer), "worst", True, 1.0, 1.0),
    ("all, weights >= 64 MB: share of the copy", heavy, copy_share, "worst", True, 0.9, 0.9),
    ("all: untuned / tuned speed", every, untuned, "mean", True, 0.97, None),
    ("all, worst problem: untuned / tuned speed", every, untuned, "worst", True, 0.85, None),
    ("all, worst problem: untuned x vendor", every, untuned_over_vendor, "worst", True, 0.95, None),
    ("more than 128 rows: x vendor", lambda r: r["m"] > 128, over(vendor), "mean", True, 0.95, 0.95),
    ("all: largest error / the vendor's", every, error_over(vendor), "worst", False, 1.0, 1.0),
    ("all: largest error / Triton's", every, error_over(triton_ran), "worst", False, 1.0, 1.0),
)  # fmt: skip


def where(r):
    return "M=%d N=%d K=%d" % (r["m"], r["n"], r["k"])


def lines(records, ours, gbps, table=BARS, where=where):
    """One line a bar: its figure and whether it is met; geomean, worst and best and where."""
    out = []
    for text, pick, figure, what, more, *bars in table:
        bar = bars[0 if ours == "rfg" else 1]
        if bar is None:
            continue
        got, without = [], 0
        for r in filter(pick, records):
            value, who = figure(r, ours, gbps)
            without += value != value
            if value == value:
                got.append((value, where(r) + (" against " + who if who else "")))
        asks = "%s %.2f" % (">=" if more else "<=", bar)
        if not got:
            out.append("%-42s %-8s not measured" % (text, asks))
            continue
        ranked = sorted(got, reverse=not more)  # the worst first
        mean = geomean([v for v, _ in got])
        value = {"mean": mean, "worst": ranked[0][0], "best": ranked[-1][0]}[what]
        out.append(
            "%-42s %-8s %.3f %-6s (%d problems%s: geomean %.3f; worst %.3f, %s; best %.3f, %s; %d hold)"
            % (
                text,
                asks,
                value,
                "met" if (value >= bar if more else value <= bar) else "MISSED",
                len(got),
                ", %d not measured" % without if without else "",
                mean,
                *ranked[0],
                *ranked[-1],
                sum(v >= bar if more else v <= bar for v, _ in got),
            )
        )
    return out


def self_test():
    def rec(m, us, n=64, k=7168, in_grid=True, bytes_=1e6, weight=1e6, error=None):
        r = {"m": m, "n": n, "k": k, "grid": in_grid, "bytes": bytes_, "weight_bytes": weight}
        return dict(r, us=us, error=error or {})

    def line(records, text, ours="rfg"):
        return [x for x in lines(records, ours, 4000.0) if x.startswith(text)][0]

    assert vendor({"cublas": 3.0, "lt": 2.0, "triton": 1.0, "rfg": 0.5}) == ("lt", 2.0)
    assert peer({"cublas": 3.0, "lt": math.nan, "triton": 1.0}) == ("triton", 1.0)
    assert vendor({"triton": 1.0})[0] is None and peer({"lt": 1.0})[0] is None
    r = [
        rec(1, {"rfg": 1.0, "rfg+ov": 0.5, "untuned": 1.0, "lt": 4.0, "cublas": 5.0, "triton": 2.0, "floor": 1.0}),
        rec(64, {"rfg": 2.0, "untuned": 2.5, "cublaslt": 2.0, "triton": 4.0, "floor": 1.6}),
        rec(64, {"rfg": 9.0, "untuned": 9.0, "lt": 9.0, "triton": 9.5}, n=100, in_grid=False),
        rec(256, {"rfg": 9.0, "untuned": 99.0, "lt": 1.0}, in_grid=False),  # beyond the bars
    ]
    # over the vendor 4 and 1; over the peers 2 and 1
    got = line(r, "K=7168 grid: x vendor")
    assert "2.000 met" in got and "worst 1.000, M=64 N=64 K=7168 against cublaslt" in got and "1 hold" in got, got
    assert " 8.000 met" in line(r, "K=7168 grid: x vendor", "rfg+ov") and "1 not measured" in line(
        r, "K=7168 grid: x vendor", "rfg+ov"
    )
    assert "1.414 met" in line(r, "K=7168 grid: x peers") and "4.000 met" in line(r, "K=7168 grid, M <= 8: x v")
    assert "2.000 met" in line(r, "K=7168 grid, M <= 8: x p") and "4.000 met" in line(r, "K=7168 grid, best")
    assert "1.000 met" in line(r, "K=7168 grid, worst") and "against cublaslt" in line(r, "K=7168 grid, worst")
    assert "1.000 met" in line(r, "K=7168 grid, M <= 16") and "1.250 met" in line(r, "K=7168 grid, M 32")
    assert "not measured" in line(r, "K=7168 grid, M <= 16", "rfg+ov")  # its floor has overlap too
    assert "1.000 met" in line(r, "all, M <= 128, worst")
    assert "1.260 met" in line(r, "all, M <= 128") and "3 problems" in line(r, "all, M <= 128")  # 2, 1, 1
    got = line(r, "all: untuned")
    assert "0.928 MISSED" in got and "2 hold" in got, got  # 1, 0.8, 1
    assert "0.800 MISSED" in line(r, "all, worst problem: untuned / tuned")
    got = line(r, "all, worst problem: untuned x vendor")  # 4, 0.8, 1
    assert "0.800 MISSED" in got and not [x for x in lines(r, "rfg+ov", 1.0) if "untuned" in x], got
    assert "not measured" in line(r, "all, weights") and "not measured" in line(r, "all: largest error / the")
    # 3.8e8 bytes in 100 us are 3800 GB/s; the worst must hold.
    r[2]["us"].pop("triton")
    assert "2 problems, 1 not measured" in line(r, "all, M <= 128")
    r = [
        rec(1, {"rfg": 100.0, "lt": 1.0, "triton": 1.0}, bytes_=3.8e8, weight=64e6),
        rec(2, {"rfg": 100.0, "lt": 1.0}, bytes_=3.4e8, weight=65e6, error={"rfg": 1.0, "lt": 1.0}),
    ]
    r[0]["error"] = {"rfg": 2.0, "lt": 1.0, "triton": 2.0}
    got = line(r, "all, weights")
    assert "0.850 MISSED" in got and "best 0.950" in got, got
    assert "2.000 MISSED" in line(r, "all: largest error / the") and "1.000 met" in line(r, "all: largest error / T")
    r = [rec(1024, {"rfg": 9.0, "lt": 9.0}), rec(128, {"rfg": 9.0, "lt": 1.0})]
    assert "1.000 met" in line(r, "more than 128 rows") and "1 problems" in line(r, "more than 128 rows")
    print("gemm_bars: fine")


if __name__ == "__main__":
    self_test()
