# SPDX-License-Identifier: MIT
"""The end of norms_peers.py's output: measured times against the bars for the norms and activations.

A record: {"op", "act", "rows", "n", "fp8", "bytes", "us": {contestant: median us}}. Run alone it tests itself."""

import math

PEERS = ("compile", "triton", "flashinfer", "flashinfer-pdl", "vllm")


def best_peer(us):
    """(name, us) of the fastest peer that ran, or (None, nan)."""
    ran = [(us[p], p) for p in PEERS if us.get(p, math.nan) > 0]
    return (min(ran)[1], min(ran)[0]) if ran else (None, math.nan)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def over_peer(r, ours, gbps):
    name, us = best_peer(r["us"])
    return us / r["us"].get(ours, math.nan), name


def copy_share(r, ours, gbps):
    return r["bytes"] / r["us"].get(ours, math.nan) / 1e3 / gbps, None


def over_plain(r, ours, gbps):
    return r["us"].get(ours + " fp8", math.nan) / r["us"].get(ours, math.nan), None


def picks(op, rows, fp8=False):
    return (
        lambda r: r["op"] == op
        and r["fp8"] == fp8
        and rows[0] <= r["rows"] <= rows[1]
        and (op != "add_rmsnorm" or 4096 <= r["n"] <= 8192)
    )


MOST = 1 << 30
# what is asked for, which records, their figure, the bar, whether more is better
BARS = (
    ("add_rmsnorm, 1..64 rows: x best peer", picks("add_rmsnorm", (1, 64)), over_peer, 1.8, True),
    ("add_rmsnorm, 4096.. rows: share of the copy", picks("add_rmsnorm", (4096, MOST)), copy_share, 0.95, True),
    ("add_rmsnorm, all rows: x best peer", picks("add_rmsnorm", (1, MOST)), over_peer, 1.0, True),
    ("act_and_mul, 1 row: x best peer", picks("act_and_mul", (1, 1)), over_peer, 1.0, True),
    ("act_and_mul, 16..64 rows: x best peer", picks("act_and_mul", (16, 64)), over_peer, 1.4, True),
    ("act_and_mul, 4096.. rows: share of the copy", picks("act_and_mul", (4096, MOST)), copy_share, 0.97, True),
    ("add_rmsnorm, fp8 by token / plain, 4096 rows", picks("add_rmsnorm", (4096, 4096), True), over_plain, 1.05, False),
    ("act_and_mul, fp8 by token / plain, 4096 rows", picks("act_and_mul", (4096, 4096), True), over_plain, 1.05, False),
)


def lines(records, ours, gbps):
    """One line a bar: geomean, the worst case and where, and whether each holds."""
    out = []
    for text, pick, figure, bar, more in BARS:
        got, without = [], 0
        for r in filter(pick, records):
            value, who = figure(r, ours, gbps)
            without += value != value
            if value == value:
                at = "M=%d N=%d%s" % (r["rows"], r["n"], " " + r["act"] if r["act"] else "")
                got.append((value, at + (" against " + who if who else "")))
        asks = "%s %.2f" % (">=" if more else "<=", bar)
        if not got:
            out.append("%-46s %-8s not measured" % (text, asks))
            continue
        worst = (min if more else max)(got)
        holds = [v >= bar if more else v <= bar for v, _ in got]
        mean = geomean([v for v, _ in got])
        out.append(
            "%-46s %-8s geomean %.3f %-6s worst %.3f %-6s (%s); holds in %d of %d%s"
            % (
                text,
                asks,
                mean,
                "met" if (mean >= bar if more else mean <= bar) else "MISSED",
                worst[0],
                "met" if all(holds) else "MISSED",
                worst[1],
                sum(holds),
                len(holds),
                ", %d not measured" % without if without else "",
            )
        )
    return out


def self_test():
    def rec(op, rows, n, us, fp8=False, bytes_=0):
        return {
            "op": op,
            "act": "silu" if op == "act_and_mul" else "",
            "rows": rows,
            "n": n,
            "fp8": fp8,
            "bytes": bytes_,
            "us": us,
        }

    def line(records, text, ours="rfg"):
        return [x for x in lines(records, ours, 4000.0) if x.startswith(text)][0]

    assert best_peer({"triton": 3.0, "vllm": 2.0, "compile": math.nan, "rfg": 1.0}) == ("vllm", 2.0)
    assert best_peer({"rfg": 1.0})[0] is None
    r = [
        rec("add_rmsnorm", 1, 4096, {"rfg": 1.0, "triton": 4.0, "compile": 5.0}),
        rec("add_rmsnorm", 64, 8192, {"rfg": 2.0, "flashinfer-pdl": 2.0}),
        rec("add_rmsnorm", 64, 16384, {"rfg": 9.0, "triton": 1.0}),  # not a size of the bars
        rec("add_rmsnorm", 64, 5120, {"rfg": 9.0}),
    ]  # no peer ran
    got = line(r, "add_rmsnorm, 1..64")
    assert "geomean 2.000 met" in got and "worst 1.000 MISSED" in got and "against flashinfer-pdl" in got, got
    assert "holds in 1 of 2, 1 not measured" in got and "holds in 2 of 2" in line(r, "add_rmsnorm, all"), got
    assert "not measured" in line(r, "act_and_mul, 1 row") and "not measured" in line(r, "add_rmsnorm, 4096")
    # 3.8e8 bytes in 100 us are 3800 GB/s.
    r = [
        rec("add_rmsnorm", 4096, 8192, {"rfg": 100.0}, bytes_=3.8e8),
        rec("act_and_mul", 8192, 99, {"rfg": 100.0}, bytes_=3.8e8),
    ]
    assert "worst 0.950 met" in line(r, "add_rmsnorm, 4096"), line(r, "add_rmsnorm, 4096")
    assert "worst 0.950 MISSED" in line(r, "act_and_mul, 4096")
    r = [rec("add_rmsnorm", 4096, 8192, {"rfg": 10.0, "rfg fp8": 10.4, "rfg+ov": 10.0, "rfg+ov fp8": 10.6}, True)]
    assert "worst 1.040 met" in line(r, "add_rmsnorm, fp8") and "worst 1.060 MISSED" in line(
        r, "add_rmsnorm, fp8", "rfg+ov"
    )
    assert "not measured" in line(r, "add_rmsnorm, 4096")  # a plain op timed beside an fp8 one isn't counted twice
    print("bars: fine")


if __name__ == "__main__":
    self_test()
