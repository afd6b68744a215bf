#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A roofline plot (SVG) of what gemm_peers.py --json measured.

    bench/roofline.py gemm.json [--peak-tflops 790] > docs/perf/gemm_roofline.svg

Across: flops over the bytes that must move (x, w and y once). Up: flops a second. The roof is the bandwidth of the copy that the
same run measured, and the matrix cores' peak. Points of one N are joined, M from left to right; the floor is the kernel
that only reads the weights. Both axes are logarithmic."""

import argparse
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 560, 70, 190, 30, 50
SERIES = (  # of the JSON's times; vendor: the fastest of three
    ("rfg", ("rfg",), "#c0392b", ""),
    ("rfg, launch overlap", ("rfg+ov",), "#e67e22", "5,3"),
    ("vendor", ("cublas", "cublaslt", "lt"), "#2c3e50", ""),
    ("Triton", ("triton",), "#2980b9", ""),
    ("weights read only", ("floor",), "#95a5a6", "2,3"),
)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("json")
    p.add_argument("--peak-tflops", type=float, default=790, help="of the matrix cores (default %(default)s)")
    args = p.parse_args()
    with open(args.json) as f:
        run = json.load(f)
    problems = [x for x in run["problems"] if x["grid"]]
    if not problems:
        sys.exit("roofline: %s has no problem of the K=7168 grid" % args.json)
    ns = sorted({x["n"] for x in problems})

    def flops(x):
        return 2.0 * x["m"] * x["n"] * x["k"]

    x0, x1 = 0.8, max(flops(x) / x["bytes"] for x in problems) * 1.6
    y1 = args.peak_tflops * 1.3
    y0 = min(flops(x) / max(x["us"].values()) for x in problems) * 1e-6 * 0.7

    def at(intensity, tflops):
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * math.log(intensity / x0) / math.log(x1 / x0),
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(tflops / y0) / math.log(y1 / y0),
        )

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'
        % (WIDTH, HEIGHT),
        '<rect width="100%" height="100%" fill="white"/>',
    ]

    def line(points, color, dash="", width=1.5):
        out.append(
            '<polyline fill="none" stroke="%s" stroke-width="%g" stroke-dasharray="%s" points="%s"/>'
            % (color, width, dash, " ".join("%.1f,%.1f" % xy for xy in points))
        )

    def text(x, y, s, more=""):
        out.append('<text x="%.1f" y="%.1f" %s>%s</text>' % (x, y, more, s))

    for e in range(math.ceil(math.log10(y0)), math.floor(math.log10(y1)) + 1):
        line((at(x0, 10.0**e), at(x1, 10.0**e)), "#ddd", width=1)
        text(LEFT - 6, at(x0, 10.0**e)[1] + 4, "%g" % 10.0**e, 'text-anchor="end"')
    e = 1
    while e < x1:
        line((at(e, y0), at(e, y1)), "#eee", width=1)
        text(at(e, y0)[0], HEIGHT - BOTTOM + 16, str(e), 'text-anchor="middle"')
        e *= 2
    bandwidth = run["copy_gbps"] * 1e-3  # TFLOP/s for each flop a byte
    ridge = min(args.peak_tflops / bandwidth, x1)
    line([at(x0, x0 * bandwidth), at(ridge, ridge * bandwidth)] + [at(x1, args.peak_tflops)] * (ridge < x1), "black", width=2)
    text(*at(x0 * 1.05, x0 * bandwidth * 1.9), "copy, %.2f TB/s" % bandwidth)
    for i, (name, keys, color, dash) in enumerate(SERIES):
        for n in ns:
            points = []
            for x in sorted((x for x in problems if x["n"] == n), key=lambda x: x["m"]):
                us = min((x["us"][k] for k in keys if k in x["us"]), default=None)
                if us:
                    points.append(at(flops(x) / x["bytes"], flops(x) / us * 1e-6))
            line(points, color, dash, 1)
            for q in points:
                out.append('<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>' % (q + (color,)))
            if points and keys == ("rfg",):
                text(points[-1][0] + 8, points[-1][1] + 4, "N=%d" % n)
        y = TOP + 20 + 18 * i
        line(((WIDTH - RIGHT + 40, y), (WIDTH - RIGHT + 64, y)), color, dash)
        text(WIDTH - RIGHT + 70, y + 4, name)
    text(LEFT, TOP - 12, "gemm bf16, K=7168, M=1...128: %s; TFLOP/s" % run["gpu"])
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "flops a byte", 'text-anchor="middle"')
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
