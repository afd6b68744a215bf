#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tests there are: what each runs, when, and what it costs. tests/meson.build reads this table.

A test program is tests/<room>/test_<name>.c. It needs no line here: by default it runs once, as it is, in `./dev test`.
The tables below say what differs. Seconds are in seconds.tsv, which `./dev test --record` writes.

  suites.py meson BUILD    one line a test: name, program, limit, parallel, suites, environment
"""
import argparse
import collections
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ROOMS = ["dispatch", "db", "jit", "ops", "emu", "tools", "examples"]

# Sources in a library that all test programs link.
SHARED = {"fakehip", "faulty", "emu_kernel", "mha_batch"}
# Sources that are programs or libraries of their own: meson.build says which.
BY_THEMSELVES = {"fake_nvidia", "fake_rocm", "mock_hip", "mock_hip_rest", "mock_tx", "kill_engine", "supports"}
NEED_LLVM_MC = {"emu_isa", "emu_rules"}

# A test may take so many times its seconds, and never less than a minute: other work may run beside it.
PATIENCE, LEAST_LIMIT, UNKNOWN = 8, 60, 30

# What measures time or counts processes has the machine to itself.
ALONE = {"tune_faults", "online", "install", "compile-gfx90a", "compile-gfx942", "compile-gfx1100", "compile-others", "compile-gfx1030"}

# Run under ThreadSanitizer.
THREADED = {"ladder", "cache", "db_files", "snapshot", "pool", "cpu_gemm", "gemm", "prepack", "act", "norm", "mha", "mha_variants", "faulty",
            "emu_front"}

# Not run under AddressSanitizer, and why.
NOT_ASAN = {
    "mha_variants": "the kernels of mha on cpu, which mha runs",
    "asm": "assembles and emulates; what it links runs in emu_rules and jit",
    "overlap": "tunes and benches; the same code runs in tune and bench",
    "emu_isa": "one instruction after another in loops; emu_random runs whole kernels by the same handlers",
    "emu_correct": "compiles a corpus; emu_random and emu_programs run the same checks",
    "emu_removals": "the same corpus", "emu_twins": "the same corpus", "emu_random": "emu_mutated runs the same kernels, broken",
}

# Programs that need one of the emulated ROCm releases; they run on each.
RELEASES = ["5.7", "6.1", "6.4", "7.0", "7.1"]
ON_RELEASES = ["rocm", "rocm_blas", "rocm_devices", "rocm_program", "rocm_rules"]
RELEASE_GPUS = {"5.7": ("MI210", "gfx90a"), "6.1": ("MI300X", "gfx942"), "6.4": ("MI300X", "gfx942"), "7.0": ("MI300X", "gfx942"),
                "7.1": ("RX7900XTX", "gfx1100")}

# Operators on emulated GPUs. ./dev test runs these cases on gfx942, with one kernel a case (RFG_TEST_FEW); the sweeps
# run every case by every variant on gfx90a, gfx942 and gfx1100.
FEW = {
    "act": ["right_quantised", "rows_by_turns"],
    "argmax": ["right_parts", "rows_by_turns"],
    "embedding": ["right_shapes", "right_values", "rows_by_turns"],
    "experts": ["right_kernels", "right_groups", "right_sums", "tiles_by_turns"],
    "gemm": ["right_partials", "right_layouts", "right_values", "right_4_bits", "tiles_by_turns"],
    "gemm_codes": ["right_kernels"],
    "gemm_mx": ["right_kernels"],
    "gemm_tile": ["tiles_by_turns"],
    "mha": ["right_parts", "right_prefill", "units_by_turns"],
    "mha_invariant": [""],
    "mha_rules": [""],
    "moe": ["right_mixtures"],
    "moe_align": ["right_formats", "right_sizes"],
    "moe_route": ["right_scores", "right_groups", "right_values", "rows_by_turns"],
    "moe_sum": [""],
    "norm": ["right_shapes", "right_quantised"],
    "prepack": ["right_products"],
    "quantize": ["right_codes", "right_values_of_codes", "rows_by_turns"],
    "rope": ["right_fused", "rows_by_turns"],
    "sample": ["right_values", "any_batch", "rows_by_turns"],
    "invariant": [""],
    "decoder": ["graph_is_the_step", "any_load"],
}
FEW_OTHERS = {"gfx908": ["gemm:right_partials"], "gfx1030": ["gemm:right_partials"], "gfx1201": ["gemm:right_partials"],
              "gfx950": ["gemm:right_partials"]}

# The sweeps. Attention where it costs least is by hand: RFG_TEST_DEVICES.
SWEPT = ["gfx90a", "gfx942", "gfx1100"]
PARTS = {"attention": ["mha", "mha_invariant", "mha_rules", "mha_lengths", "mha_variants", "sample", "rope", "embedding"],
         "gemm": ["gemm", "gemm_codes", "gemm_mx", "gemm_tile", "prepack", "experts"]}
OF_OPERATORS = ["act", "argmax", "embedding", "experts", "gemm", "gemm_codes", "gemm_mx", "gemm_tile", "invariant", "mha", "mha_invariant",
                "mha_lengths", "mha_rules", "mha_variants", "moe", "moe_align", "moe_route", "moe_sum", "norm", "prepack", "quantize", "rope",
                "sample"]
NOT_SWEPT = {("mha", "gfx90a"), ("mha_rules", "gfx90a"), ("mha_rules", "gfx1100"), ("mha_lengths", "gfx90a"), ("mha_lengths", "gfx1100"),
             ("mha_variants", "gfx90a"), ("mha_variants", "gfx942"), ("mha_variants", "gfx1100")}
SWEPT_OTHERS = {
    "gfx908": ["mha:right_parts"], "gfx1030": ["mha:right_parts"],
    "gfx1201": ["gemm_codes:right_kernels", "mha:right_parts", "embedding:right_shapes", "quantize:right_values_of_codes",
                "moe_route:right_groups"],
    "gfx1151": ["gemm:right_partials"],
    "gfx950": ["gemm_codes:right_kernels", "gemm_mx:right_tiles", "mha:right_parts"]}

# More of what ./dev test runs a little of: test, program, part, environment.
MORE = [
    ("emu_isa-avx512", "emu_isa", "gfx90a-rest", "RFG_EMU_HOST=avx512"),
    ("emu_isa-avx2", "emu_isa", "gfx942-rest", "RFG_EMU_HOST=avx2"),
    ("emu_isa-portable", "emu_isa", "gfx1100-rest", "RFG_EMU_HOST=portable"),
    ("emu_correct-all", "emu_correct", "gfx90a-rest", "RFG_TEST_CORRECT=all"),
    ("emu_twins-all", "emu_twins", "gfx1100-attention", "RFG_TEST_CORRECT=all"),
    ("emu_removals-all", "emu_removals", "gfx90a-attention", "RFG_TEST_CORRECT=all"),
    ("emu_random-all", "emu_random", "gfx90a-rest", "RFG_TEST_SEEDS=1:10:all"),
    ("emu_mutated-all", "emu_mutated", "gfx1100-rest", "RFG_TEST_MUTANTS=300"),
    ("moe_route-random", "moe_route", "gfx1100-rest", "CK_RUN_CASE=random_problems;RFG_TEST_RANDOM=10000"),
    ("moe_align-random", "moe_align", "gfx90a-rest", "CK_RUN_CASE=random_problems;RFG_TEST_RANDOM=4000"),
    ("moe-random", "moe", "gfx1100-rest", "CK_RUN_CASE=random_problems;RFG_TEST_RANDOM=9000"),
    ("gemm_random-all", "gemm_random", "gfx90a-attention", "RFG_TEST_RANDOM=3000"),
    ("compile-gfx1030", "compile", "gfx90a-gemm", "RFG_TEST_ARCH=gfx1030"),
    ("compile-gfx90a", "compile", "gfx90a-rest", "RFG_TEST_ARCH=gfx90a"),
    ("compile-gfx942", "compile", "gfx942-rest", "RFG_TEST_ARCH=gfx942"),
    ("compile-gfx1100", "compile", "gfx1100-rest", "RFG_TEST_ARCH=gfx1100"),
    ("compile-others", "compile", "others-rest", "RFG_TEST_ARCH=gfx908,gfx1030,gfx1201,gfx950,sm_80,sm_90"),
    ("decoder-gfx942-all", "decoder", "gfx942-rest", "RFG_TEST_CONFIGS=1;RFG_TEST_DEVICES=emu:gfx942:304"),
    ("decoder-gfx1100-all", "decoder", "gfx1100-rest", "RFG_TEST_CONFIGS=1;RFG_TEST_DEVICES=emu:gfx1100:96"),
]


class Test:
    """One run of a test program: when is "default" or a sweep's part ("gfx942-gemm")."""

    def __init__(self, name, program, when="default", env=(), sanitizers=False):
        self.name, self.program, self.when, self.env = name, program, when, list(env)
        self.seconds = SECONDS.get(name, UNKNOWN)
        self.sanitizers = sanitizers

    def limit(self):
        return max(LEAST_LIMIT, int(PATIENCE * self.seconds))

    def suites(self):
        if self.when != "default":
            return ["sweep", "sweep-" + self.when]
        return ["default"] + ["asan"] * (self.sanitizers and self.name not in NOT_ASAN) + ["tsan"] * (self.sanitizers and self.name in THREADED)


def read_seconds():
    with open(os.path.join(HERE, "seconds.tsv")) as file:
        rows = [line.split("\t") for line in file if not line.startswith("#")]
    return {name: float(seconds) for name, seconds in rows}


SECONDS = read_seconds()


def programs():
    """name: room"""
    found = {}
    for room in ROOMS:
        for path in sorted(glob.glob(os.path.join(HERE, room, "test_*.c"))):
            found[os.path.basename(path)[len("test_"):-len(".c")]] = room
    return found


def headers(path):
    """The headers of its own folder that a source includes."""
    here = os.path.dirname(path)
    with open(path) as file:
        names = re.findall(r'^ *#include "(?:tests/\w+/)?([^"/]+)"', file.read(), re.M)
    return {name for name in names if os.path.exists(os.path.join(here, name))}


def sources(name, room):
    """A test program's own: test_<name>.c, and what else of its room includes a header that it includes."""
    path = os.path.join(HERE, room, "test_%s.c" % name)
    mine = headers(path)
    others = [other for other in sorted(glob.glob(os.path.join(HERE, room, "*.c")))
              if not os.path.basename(other).startswith("test_") and not os.path.basename(other)[:-2] in SHARED | BY_THEMSELVES
              and headers(other) & mine]
    return [os.path.relpath(p, HERE) for p in [path] + others]


def part_of(program, arch):
    return arch + "-" + next((part for part, names in PARTS.items() if program in names), "rest")


def emulated(arch, cus=4):
    return ["RFG_TEST_CONFIGS=1", "RFG_TEST_DEVICES=emu:%s:%d" % (arch, cus)]


def case_name(program, arch, case):
    return "-".join([program, arch] + [case] * bool(case))


def on_emulated_gpus(ziglang):
    for program, cases in FEW.items():
        for case in cases:
            yield Test(case_name(program, "gfx942", case), program, "default",
                       emulated("gfx942") + ["RFG_TEST_FEW=1"] + ["CK_RUN_CASE=" + case] * bool(case))
    for arch in SWEPT:
        for program in OF_OPERATORS:
            if (program, arch) not in NOT_SWEPT:
                yield Test("%s-%s-all" % (program, arch), program, part_of(program, arch), emulated(arch))
    for table, when in ((FEW_OTHERS, "default"), (SWEPT_OTHERS, "others-rest")):
        for arch, names in table.items():
            if arch == "gfx950" and not ziglang:
                continue
            for program, case in (name.split(":") for name in names):
                few = ["RFG_TEST_FEW=1"] if when == "default" else []
                yield Test(case_name(program, arch, case), program, when, emulated(arch) + few + ["CK_RUN_CASE=" + case])


def on_releases(build):
    for release in RELEASES:
        libraries = os.path.join(build, "emulated-rocm", release)
        for program in ON_RELEASES:
            yield Test("%s-%s" % (program, release), program, "default",
                       ["EMULATED_ROCM=" + release, "EMULATED_ROCM_DIR=" + libraries, "LD_LIBRARY_PATH=" + libraries])
        gpu, arch = RELEASE_GPUS[release]
        env = ["RFG_TEST_CONFIGS=1", "RFG_TEST_DEVICES=amd:0", "EMULATED_ROCM_GPUS=%s:4" % gpu, "LD_LIBRARY_PATH=" + libraries]
        for program, case in (("gemm", "right_partials"), ("mha", "right_parts"), ("act", "right_quantised"), ("norm", "right_shapes")):
            few = (program, release) in {("gemm", "5.7"), ("gemm", "7.1"), ("mha", "7.1")}
            yield Test("%s-rocm-%s" % (program, release), program, "default" if few else arch + "-attention",
                       env + ["CK_RUN_CASE=" + case] + ["RFG_TEST_FEW=1"] * few)
        # (The fake device of these is amd:0 too, in the same process.)
        for program in ["device"] + ["workspace"] * (release == "6.4"):
            yield Test("%s-rocm-%s" % (program, release), program, "default", env)


def tests(build="build", ziglang="", releases=True):
    for name in programs():
        if name not in ON_RELEASES and name != "compile":
            yield Test(name, name, sanitizers=True)
    yield Test("compile-gfx1030-embedding", "compile", env=["RFG_TEST_ARCH=gfx1030", "RFG_TEST_FAMILY=embedding"])
    for name, program, part, env in MORE:
        yield Test(name, program, part, env.split(";"))
    yield from on_emulated_gpus(ziglang)
    if releases:
        yield from on_releases(build)


def for_meson(a):
    zig = ["RFG_ZIGLANG_PYTHON=" + a.ziglang] if a.ziglang else []
    lacks = a.lacks.split(",")
    for t in tests(a.build, a.ziglang, "releases" not in lacks):
        if "llvm-mc" in lacks and t.program in NEED_LLVM_MC:
            continue
        print("\t".join([t.name, t.program, str(t.limit()), "0" if t.name in ALONE else "1", str(int(t.seconds)), ",".join(t.suites()),
                         ";".join(["CK_VERBOSITY=normal"] + t.env + zig)]))


def main():
    p = argparse.ArgumentParser(prog="tests/suites.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    m = sub.add_parser("meson", help="one line a test, for tests/meson.build")
    m.add_argument("build")
    m.add_argument("--ziglang", default="", help="a Python that has PyPI's ziglang, for gfx950")
    m.add_argument("--lacks", default="", help="releases: the emulated ROCm releases are not built; llvm-mc")
    sub.add_parser("programs", help="name and sources of each test program")
    a = p.parse_args()
    if a.command == "meson":
        for_meson(a)
    else:
        for name, room in programs().items():
            print(name, " ".join(sources(name, room)), sep="\t")


if __name__ == "__main__":
    main()
