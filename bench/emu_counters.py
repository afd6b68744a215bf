# SPDX-License-Identifier: MIT
"""Shared by triton_counters.py and aiter_counters.py: code objects of other projects on the emulator, checked and counted."""
import json
import os
import subprocess

import numpy as np


class Wrong(Exception):
    pass


def to_bits(f, dtype):
    """float32 to what lies in memory, to nearest even."""
    if dtype == "f32":
        return f.astype(np.float32)
    if dtype == "f16":
        return f.astype(np.float16)
    u = np.ascontiguousarray(f, dtype=np.float32).view(np.uint32)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)


def to_float(a, dtype):
    return (a.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else a.astype(np.float32)


def check(name, got, want, dtype, slack):
    """Within the output's rounding, and `slack` for sums of floats in another order."""
    eps = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}[dtype]
    bad = ~(np.abs(got.astype(np.float64) - want) <= eps * np.abs(want) * 1.01 + slack)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Wrong("%s: %d of %d elements are wrong, the first at %s: %g, must be %g" %
                    (name, bad.sum(), bad.size, at, got[at], want[at]))


def emulate(what, path, grid, block, lds, values, args, checks=None, turn=None):
    """Launches the code object's only kernel; checks, turn: RFG_EMU_CHECKS, RFG_EMU_TURN. Gives the counters; its outputs
    are in files."""
    command = [os.path.join(args.bin, "rfg-emu"), "run", path, "--device", args.device, "--grid", ",".join(map(str, grid)),
               "--block", str(block), "--lds", str(lds), "--counters", "--json", "--args"] + values
    env = dict(os.environ, **{k: str(v) for k, v in (("RFG_EMU_CHECKS", checks), ("RFG_EMU_TURN", turn)) if v})
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    if run.returncode:
        raise Wrong("%s: rfg-emu: exit code %d: %s" % (what, run.returncode, run.stderr.strip()[:2000]))
    return json.loads(run.stdout)["counters"]


def ours(problem, args, variant=None, more=()):
    """Counters of the dispatcher's pick, or of this variant; more: options of rfg-bench."""
    command = [os.path.join(args.bin, "rfg-bench"), "--device", args.device, "--counters", "--json", "--problem", problem]
    command += (["--variant", variant] if variant else []) + list(more)
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        raise Wrong("rfg-bench: exit code %d: %s" % (run.returncode, run.stderr.strip()))
    return json.loads(run.stdout)


def add_up(a, b):
    """Counters of launches one after the other."""
    if isinstance(a, dict):
        return {k: add_up(a[k], b[k]) if k in a and k in b else a.get(k, b.get(k)) for k in {**a, **b}}
    return a + b


def row_of(problem, who, how, c, minimal):
    g, by, k = c["global"], c["by_class"], c["kernels"][0]
    kinds = [g["loads"], g["stores"], g["atomics"], g["scalar_loads"]]
    vector = [g["loads"], g["stores"]]
    lines = sum(t["lines128"] for t in vector) * 128
    return {"problem": problem, "who": who, "how": how, "instructions": c["wave_instructions"],
            "a_wave": c["wave_instructions"] / c["waves"],
            "valu_per_16B": (by["valu"] + by["trans"]) * k["wave_size"] * 16 / max(g["loads"]["bytes"], 1),
            "bytes": sum(t["bytes"] for t in kinds) / minimal, "lines": g["unique128"] * 128 / minimal,
            "full": sum(t["bytes"] for t in vector) / max(lines, 1),
            "lds_conflicts": 100 * c["lds"]["conflict_cycles"] / max(c["lds"]["ideal_cycles"], 1),
            "vgprs": max(k["vgprs"] + k["agprs"] for k in c["kernels"]),
            "spills": sum(k["spilled_vgprs"] + k["spilled_sgprs"] + k["scratch"] for k in c["kernels"]),
            "waves_per_simd": k["waves_per_simd"]}
