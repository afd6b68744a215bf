#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two builds of rfg-bench on one device in one run, to see whether a change makes anything slower.

    bench/before_after.py --device nvidia:0 --ops mha_decode,add_rmsnorm \\
        --before OLD/build/tuner/rfg-bench --before-db OLD/build/tuned_configs/sm_90_132-v1.db \\
        --after build/tuner/rfg-bench --after-db build/tuned_configs/sm_90_132-v2.db

Times the problems that --after-db holds rows for (rfg-db beside --after lists them), an operator at a time. The builds
take turns, whoever begins changing from round to round. A figure is the median over the rounds of rfg-bench's medians.
Printed for each operator: the geometric mean of after / before and the problems furthest from 1. Each build has a code
cache of its own, filled before the first round.
Exit: 0; 1 a build failed; 2 bad usage; 3 a problem is slower by more than --threshold per cent."""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for build in "before", "after":
        p.add_argument(f"--{build}", required=True, metavar="PROGRAM", help="an rfg-bench")
        p.add_argument(f"--{build}-db", required=True, metavar="DB", help="its tuned rows")
    p.add_argument("--device", required=True)
    p.add_argument("--ops", required=True, help="comma-separated")
    p.add_argument("--most", type=int, default=50, help="problems of an operator, chosen by --seed (default %(default)s)")
    p.add_argument("--match", default="", help="only problems that contain this")
    p.add_argument("--rounds", type=int, default=4, help="default %(default)s")
    p.add_argument("--max-seconds", default="0.12", help="of a problem in a round (default %(default)s)")
    p.add_argument("--threshold", type=float, default=1, help="per cent (default %(default)s)")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args(argv)


def problems(o):
    tool = os.path.join(os.path.dirname(o.after), "rfg-db")
    rows = json.loads(subprocess.run([tool, "list", "--json", o.after_db], check=True, stdout=subprocess.PIPE).stdout)
    for op in o.ops.split(","):
        of_op = sorted({r["problem"] for r in rows if r["op"] == op and o.match in r["problem"]})
        if not of_op:
            sys.exit(f"before_after.py: {o.after_db}: no row of '{op}' that contains '{o.match}'")
        yield op, sorted(random.Random(o.seed).sample(of_op, min(o.most, len(of_op))))


def bench(program, db, home, o, of_op, seconds):
    """{problem: its median in us}"""
    env = dict(os.environ, RFG_SYSTEM_DB=os.path.abspath(db), RFG_DB=os.path.join(home, "user.db"), RFG_CACHE_DIR=os.path.join(home, "cache"))
    command = [program, "--device", o.device, "--json", "--no-check", "--max-seconds", seconds]
    for p in of_op:
        command += ["--problem", p]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"before_after.py: {program} exits with {done.returncode}", file=sys.stderr)
        sys.exit(1)
    return {r["problem"]: r["p50_us"] for r in map(json.loads, done.stdout.splitlines())}


def main(argv):
    o = parse(argv)
    slower = 0
    with tempfile.TemporaryDirectory() as tmp:
        builds = [(o.before, o.before_db, os.path.join(tmp, "before")), (o.after, o.after_db, os.path.join(tmp, "after"))]
        for b in builds:
            os.mkdir(b[2])
        for op, of_op in problems(o):
            times = [{p: [] for p in of_op} for _ in builds]
            for b in builds:
                bench(*b, o, of_op, "0.01")
            for r in range(o.rounds):
                for i in (0, 1) if r % 2 == 0 else (1, 0):
                    for p, us in bench(*builds[i], o, of_op, o.max_seconds).items():
                        times[i][p].append(us)
            rows = sorted((statistics.median(times[1][p]) / statistics.median(times[0][p]), p) for p in of_op)
            mean = math.exp(statistics.mean(math.log(ratio) for ratio, _ in rows))
            print(f"{op}: {len(rows)} problems, after / before {mean:.4f}, from {rows[0][0]:.4f} to {rows[-1][0]:.4f}")
            for ratio, p in rows[:2] + rows[max(2, len(rows) - 3):]:
                print(f"  {ratio:.4f}  {p}: " + " / ".join(" ".join(f"{us:.2f}" for us in times[i][p]) for i in (1, 0)))
            slower += sum(ratio > 1 + o.threshold / 100 for ratio, _ in rows)
    return 3 if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
