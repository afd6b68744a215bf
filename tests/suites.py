#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of tests: what each runs, when, and its cost. tests/meson.build reads it.

A test program is tests/<room>/test_<name>.c. It needs no line here: by default it runs once, as it is, in `./dev test`.
The tables below say what differs. Seconds are in seconds.tsv, which `./dev test --record` writes.

  suites.py meson BUILD      one line a test, for tests/meson.build
  suites.py changed [BASE]   what a change since BASE can break, with minutes
  suites.py record           takes seconds.tsv anew from the last `./dev test`
"""
import argparse
import fnmatch
import functools
import glob
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ROOMS = ["dispatch", "db", "jit", "ops", "emu", "tools", "examples"]

# Sources in a library that all test programs link.
SHARED = {"fakehip", "faulty", "emu_kernel", "mha_batch"}
# Sources that are programs or libraries of their own: meson.build says which.
BY_THEMSELVES = {"fake_nvidia", "fake_rocm", "mock_hip", "mock_hip_rest", "mock_cuda", "mock_tx", "kill_engine", "supports"}
NEED_LLVM_MC = {"emu_isa", "emu_rules"}

# A test may take so many times its seconds, and never less than two minutes: other work may run beside it.
PATIENCE, LEAST_LIMIT = 10, 120
# Of tests that seconds.tsv lacks: of `./dev test`, of sweeps.
UNKNOWN, UNKNOWN_SWEPT = 30, 150
# What estimates assume: two cores, and of a mutant to build and run.
CORES, MUTANT_SECONDS = 2, 20

# What uses all cores, or writes where others read, has the machine to itself.
ALONE = {"install", "compile-gfx90a", "compile-gfx942", "compile-gfx1100", "compile-others", "compile-gfx1030"}

# Not in `./dev test` at all: compiles for minutes; compiles a corpus of kernels in many ways, takes each wait out of it; takes gigabytes.
ONLY_SWEPT = {"compile", "emu_correct", "emu_removals", "far"}
# A little of what a sweep below runs whole.
LESS = {"emu_random": ["RFG_TEST_ARCH=gfx942"], "gemm_random": ["RFG_TEST_RANDOM=120"]}
# meson's MALLOC_PERTURB_ would fill the gigabytes that damaged files ask for, and a communicator's window of 72 MiB each time.
UNFILLED = {"emu_elf", "failing", "comm", "comm_norm", "comm_faulty"}

# Run under ThreadSanitizer: tests, and cases of tests of which the rest would run the same threads again.
THREADED = {"ladder", "first_calls", "cache", "db_killed", "snapshot", "pool", "cpu_gemm", "act", "emu_front"}
THREADED_CASES = [("gemm", "many_threads_one_context"), ("norm", "right_shapes"), ("mha", "right_prefill"), ("mha", "right_decode"), ("faulty", "threads")]

# Not run under AddressSanitizer, and why.
NOT_ASAN = {
    "asm": "assembles and emulates; what it links runs in emu_rules and jit",
    "format": "converts every number there is, on the stack; the harness converts some", "fleet": "waits for processes; rfg-tune runs in tune",
    "bench": "times; the harness and programs run the same code", "calibrate": "times",
    "emu_checks": "the emulator runs whole kernels in emu_mutated, emu_nan, emu_front and emu_programs",
    "emu_counters": "the same", "emu_hip": "the same", "emu_launch": "the same", "emu_random": "the same kernels as emu_mutated", "emu_twins": "compiles a corpus; the same",
    "emu_isa": "one instruction after another in loops; emu_mutated runs kernels by the same handlers",
    "gemm_random": "products at random: gemm, gemm_codes and gemm_mx run the same kernels of cpu",
    "failing": "brings a malloc of its own", "stack": "measures stacks, which ASan widens", "emu_memory": "measures memory, which ASan widens",
    "model": "a few million answers of host code; fuzz-problem and the operators' tests ask the same functions",
    "invariant": "the same kernels as gemm's", "mha_invariant": "the same kernels as mha's", "mha_variants": "the same kernels as mha's",
    "mx_outputs": "the same kernels as norm's and act's",
    "jit_workers": "waits for processes; the compilers' workers run in jit and programs",
    "report": "times: a busy machine makes its rows provisional",
    "online": "waits for processes; rfg-tune runs in tune", "tune_faults": "the same", "overlap": "the same, and bench",
    "xcd": "emulates gemm; the same as emu_checks",
}

# Tests of a program that `./dev test` leaves to the sweep "<program>-slow", by their tags: each takes 3 to 45 s of CPU time, and finds
# what others of `./dev test` find in a sample.
SLOW = {
    "comm": "compile",
    "comm_norm": "compile",
    "asm": "llvm_mc_takes_every_set every_way_through_the_ring",
    "db_files": "endless_work_is_ended",
    "experts": "right_hopper",
    "faulty": "every_call_fails_from_one_on",
    "gemm": "one_rounding one_rounding_where_there_were_two",
    "jit": "unknown_formats_are_refused",
    "overlap": "benches_with_overlap",
    "rfg_db": "system_databases_verify",
    "xcd": "fetched",
}

# Programs that need one of the emulated ROCm releases; they run on each: on those that are built by default (meson_options.txt) in `./dev test`.
RELEASES = ["5.7", "6.1", "6.4", "7.0", "7.1"]
USUAL_RELEASES = ["6.4", "7.1"]
ON_RELEASES = ["rocm", "rocm_blas", "rocm_calls", "rocm_devices", "rocm_faults", "rocm_headers", "rocm_hiprtc", "rocm_late", "rocm_program", "rocm_rules", "rocm_streams"]
# But for those that are the same code on all: the oldest and those that are usual.
ON_SOME = {"rocm_calls": ["5.7", "6.4", "7.1"], "rocm_faults": ["5.7", "6.4", "7.1"], "rocm_headers": ["6.4"], "rocm_hiprtc": ["5.7", "6.4", "7.1"], "rocm_late": ["6.4"], "rocm_streams": ["6.4"]}
RELEASE_GPUS = {"5.7": ("MI210", "gfx90a"), "6.1": ("MI300X", "gfx942"), "6.4": ("MI300X", "gfx942"), "7.0": ("MI300X", "gfx942"),
                "7.1": ("RX7900XTX", "gfx1100")}

# Operators on emulated GPUs. ./dev test runs these tests of a program on gfx942 (of one that has no line: all), with one or two kernels a case
# (RFG_TEST_FEW) and in one process: a case is run if it has enough that none before it had (op_few.h). The sweeps run every case by every variant on gfx90a, gfx942 and
# gfx1100. "tables": those that OP_CASES() makes.
FEW = {
    "act": "tables rows_by_turns",
    "advance": "tables steps any_state",
    "argmax": "tables rows_by_turns",
    "embedding": "tables any_id rows_by_turns",
    "far": "far_few",
    "indices": "of_routing of_heads of_experts of_mixtures",
    "experts": "tables tiles_by_turns",
    "gemm": "tables tiles_by_turns",
    "gemm_codes": "tables",
    "gemm_mx": "tables",
    "gemm_tile": "tiles_by_turns",
    "mha": "tables right_segments units_by_turns",
    "moe": "right_mixtures",
    "moe_workspace": "same_bits given",
    "moe_align": "tables",
    "moe_gate": "right_choices",
    "moe_route": "tables rows_by_turns",
    "moe_sum": "tables rows_by_turns",
    "mx_outputs": "tables",
    "norm": "tables",
    "prepack": "tables",
    "quantize": "tables rows_by_turns",
    "rope": "tables rows_by_turns",
    "sample": "tables any_batch rows_by_turns",
}
# And these cases of programs that are not made by op_main().
FEW_CASES = {"comm": ["right_graphs", "broken_twins"], "comm_norm": ["right_norms"], "comm_long": ["same_bits"], "decoder": ["graph", "load"]}
FEW_OTHERS = {"gfx1030": ["gemm:right_partials"], "gfx1201": ["gemm:right_partials"],
              "gfx950": ["gemm:right_partials"]}

# The sweeps. Attention where it costs least is by hand: RFG_TEST_DEVICES.
SWEPT = ["gfx90a", "gfx942", "gfx1100"]
PARTS = {"attention": ["mha", "mha_invariant", "mha_rules", "mha_lengths", "mha_variants", "sample", "rope", "embedding"],
         "gemm": ["gemm", "gemm_codes", "gemm_mx", "gemm_tile", "prepack", "experts", "far"]}
# Operators' tests, as of_operators() finds them, that are not swept: they need no device, or run the kernels of norm, act and gemm.
NEVER_SWEPT = {"composed", "cpu_i8", "gemm_refused", "mx_outputs", "subnormal"}
# And those of which ./dev test runs nothing on an emulated GPU: the kernels are others' tests' too.
NOT_FEW = {"invariant", "mha_invariant", "mha_lengths", "mha_variants"}
NOT_SWEPT = {("mha", "gfx90a"), ("mha_rules", "gfx90a"), ("mha_rules", "gfx1100"), ("mha_lengths", "gfx90a"), ("mha_lengths", "gfx1100"),
             ("mha_variants", "gfx90a"), ("mha_variants", "gfx942"), ("mha_variants", "gfx1100")}
SWEPT_OTHERS = {
    "gfx908": ["gemm:right_partials", "mha:right_parts"], "gfx1030": ["mha:right_parts"],
    "gfx1201": ["gemm_codes:right_kernels", "mha:right_parts", "embedding:right_shapes", "quantize:right_values_of_codes",
                "moe_route:right_groups"],
    "gfx1151": ["gemm:right_partials"],
    "gfx950": ["gemm_codes:right_kernels", "gemm_mx:right_tiles", "mha:right_parts", "far:far_experts", "far:far_products", "far:far_heads"]}

# More of what ./dev test runs a little of: test, program, part, environment.
MORE = [
    ("far-cpu", "far", "gfx942-gemm", "RFG_TEST_DEVICES=cpu"),
    ("emu_isa-avx512", "emu_isa", "gfx90a-rest", "RFG_EMU_HOST=avx512;RFG_TEST_RANDOM=400000"),
    ("emu_isa-avx2", "emu_isa", "gfx942-rest", "RFG_EMU_HOST=avx2;RFG_TEST_RANDOM=400000"),
    ("emu_isa-portable", "emu_isa", "gfx1100-rest", "RFG_EMU_HOST=portable;RFG_TEST_RANDOM=400000"),
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
    ("compile-others", "compile", "others-rest", "RFG_TEST_ARCH=gfx908,gfx1030,gfx1201,gfx950,gfx1250,sm_80,sm_90"),
    ("decoder-gfx942-all", "decoder", "gfx942-rest", "RFG_TEST_CONFIGS=1;RFG_TEST_DEVICES=emu:gfx942:304"),
    ("decoder-gfx1100-all", "decoder", "gfx1100-rest", "RFG_TEST_CONFIGS=1;RFG_TEST_DEVICES=emu:gfx1100:96"),
]


class Test:
    """One run of a test: when is "default" or a sweep's part ("gfx942-gemm"). It runs as the build says (meson's own list)."""

    def __init__(self, name, program, when="default", env=(), sanitizers=False):
        self.name, self.program, self.when, self.env = name, program, when, list(env)
        self.default = when == "default"
        self.seconds = SECONDS.get(name, UNKNOWN if self.default else UNKNOWN_SWEPT)
        self.sanitizers = sanitizers

    def limit(self):
        return max(LEAST_LIMIT, int(PATIENCE * self.seconds))

    def suites(self):
        if self.when == "tsan":
            return ["tsan"]
        if not self.default:
            return ["sweep", "sweep-" + self.when]
        return ["default"] + ["asan"] * (self.sanitizers and self.name not in NOT_ASAN) + ["tsan"] * (self.sanitizers and self.name in THREADED)

    @property
    def target(self):
        """What ninja must build for it."""
        tools = ["tuner/rfg-" + tool for tool in ("tune", "db", "info", "compile", "emu", "bench")]
        mocks = ["tests/mock-%s.so" % mock for mock in ("blas", "blas-old", "hip", "cuda", "tx")] + ["tests/fake-rocm.so", "tests/rfg-tune-fake", "tests/rfg-bench-fake"]
        more = {"decoder": ["examples/decoder/rfg-decoder"], "decoder_program": ["examples/decoder/rfg-decoder"], "rfg_db": ["all"], "install": ["all"], "python": ["all"], "verified": ["tests/supports"],
                "example-cpu": ["examples/decoder_layer"], "example-emu": ["examples/decoder_layer"]}
        if any("emulated-rocm" in e for e in self.env):
            return ["all"]
        own = ["tests/test-" + self.program] if self.program in programs() else ["tests/" + self.name] if self.name.startswith("fuzz-") else []
        return own + tools + mocks + more.get(self.program, [])

    def argv(self, build):
        return of_build(build)[self.name]["cmd"]

    def environment(self, build, source):
        return of_build(build)[self.name]["env"]


@functools.lru_cache(maxsize=None)
def of_build(build):
    with open(os.path.join(build, "meson-info", "intro-tests.json")) as file:
        return {t["name"]: t for t in json.load(file)}


def read_seconds():
    with open(os.path.join(HERE, "seconds.tsv")) as file:
        rows = [line.split("\t") for line in file if not line.startswith("#")]
    return {name: float(seconds) for name, seconds in rows}


SECONDS = read_seconds()


@functools.lru_cache(maxsize=None)
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


@functools.lru_cache(maxsize=None)
def of_operators():
    """Programs whose tests run on each device: they end in op_main() (op_cases.h)."""
    def on_devices(name, room):
        with open(os.path.join(HERE, room, "test_%s.c" % name)) as file:
            return re.search(r"\bop_main(_gpus)?\(", file.read())
    return [name for name, room in programs().items() if name not in NEVER_SWEPT and on_devices(name, room)]


def text_of(program):
    return "".join(open(os.path.join(HERE, source)).read() for source in sources(program, programs()[program]))


def tables_of(program):
    """Its tables of cases, by the tests that run them: OP_CASES(test, table, ...) of op_cases.h."""
    return dict(re.findall(r"^OP_CASES(?:_\w+)?\((\w+), (\w+)", text_of(program), re.M))


def few_tests():
    """Of each program the tests that ./dev test runs on an emulated GPU; []: all."""
    few = {program: [] for program in of_operators() if program not in NOT_FEW}
    for program, names in FEW.items():
        tables = [name for name in tables_of(program) if name not in SLOW.get(program, "").split()]
        few[program] = [test for name in names.split() for test in (tables if name == "tables" else [name])]
    return few


def operators_of(program, tests_):
    """The operators whose problems are in the tables of these tests."""
    text = text_of(program)
    for name, said in re.findall(r'^#define (\w+) "([^"]*)"$', text, re.M):  # #define P "mla_append "
        text = re.sub(r'\b%s "' % name, lambda _: '"' + said, text)
    tables = [table for test, table in tables_of(program).items() if not tests_ or test in tests_]
    bodies = [re.search(r"\b%s\[[^\]]*\] = \{(.*?)^\};" % table, text, re.S | re.M) for table in tables]
    return {word for body in bodies if body for word in re.findall(r'"(\w+) [a-z0-9]+(?:,|->)', body[1])}


# Emulated work runs when it is waited for: a wait that is left out shows in results. (Tests of the emulator say themselves.)
LATE = "RFG_EMU_LATE=1"


def emulated(arch, cus=4):
    return ["RFG_TEST_CONFIGS=1", "RFG_TEST_DEVICES=emu:%s:%d" % (arch, cus), LATE]


def on_emulated_gpus(ziglang):
    for program, names in few_tests().items():
        yield Test(program + "-gfx942", program, "default",
                   emulated("gfx942") + ["RFG_TEST_FEW=1", "CK_FORK=no"] + ["CK_INCLUDE_TAGS=" + " ".join(names)] * bool(names))
    for program, cases in FEW_CASES.items():
        for case in cases:
            yield Test("%s-gfx942-%s" % (program, case), program, "default",
                       emulated("gfx942") + ["RFG_TEST_FEW=1", "CK_RUN_CASE=" + case] + ["MALLOC_PERTURB_=0"] * (program in UNFILLED))
    for arch in SWEPT:
        for program in of_operators():
            if (program, arch) not in NOT_SWEPT:
                yield Test("%s-%s-all" % (program, arch), program, part_of(program, arch), emulated(arch))
    for table, when in ((FEW_OTHERS, "default"), (SWEPT_OTHERS, "others-rest")):
        for arch, names in table.items():
            if arch == "gfx950" and not ziglang:
                continue
            for program, case in (name.split(":") for name in names):
                few = ["RFG_TEST_FEW=1"] if when == "default" else []
                yield Test("-".join([program, arch, case]), program, when, emulated(arch) + few + ["CK_RUN_CASE=" + case])


def on_releases(build, built):
    for release in built:
        when = "default" if release in USUAL_RELEASES else "others-rest"
        libraries = os.path.join(build, "emulated-rocm", release)
        for program in (p for p in ON_RELEASES if release in ON_SOME.get(p, RELEASES)):
            yield Test("%s-%s" % (program, release), program, when,
                       ["EMULATED_ROCM=" + release, "EMULATED_ROCM_DIR=" + libraries, "LD_LIBRARY_PATH=" + libraries])
        gpu, arch = RELEASE_GPUS[release]
        env = ["RFG_TEST_CONFIGS=1", LATE, "RFG_TEST_DEVICES=amd:0", "EMULATED_ROCM_GPUS=%s:4" % gpu, "LD_LIBRARY_PATH=" + libraries]
        for program, case in (("gemm", "right_partials"), ("mha", "right_parts"), ("act", "right_quantised"), ("norm", "right_shapes")):
            few = (program, release) in {("gemm", "6.4"), ("mha", "7.1")}
            yield Test("%s-rocm-%s" % (program, release), program, "default" if few else arch + "-attention",
                       env + ["CK_RUN_CASE=" + case] + ["RFG_TEST_FEW=1"] * few)
        # (The fake device of these is amd:0 too, in the same process.)
        for program in ["device"] + ["workspace"] * (release == "6.4"):
            yield Test("%s-rocm-%s" % (program, release), program, when, env)


def tests(build="build", ziglang="", releases=RELEASES):
    for name in programs():
        if name not in ON_RELEASES and name not in ONLY_SWEPT:
            env = ["CK_EXCLUDE_TAGS=" + SLOW[name]] if name in SLOW else LESS.get(name, [])
            env = env + ["MALLOC_PERTURB_=0"] * (name in UNFILLED)
            yield Test(name, name, env=env + [LATE] * (not name.startswith("emu_")), sanitizers=True)
        if name in SLOW:
            yield Test(name + "-slow", name, "others-rest", ["CK_INCLUDE_TAGS=" + SLOW[name]])
    for name, program, part, env in MORE:
        yield Test(name, program, part, env.split(";"))
    for program, case in THREADED_CASES:
        yield Test("%s-%s" % (program, case), program, "tsan", ["CK_RUN_CASE=" + case])
    yield from on_emulated_gpus(ziglang)
    yield from on_releases(build, releases)


# ---- what a changed file can break

# Tests that are scripts or programs of other folders: meson.build has them. Of default ones, but those of the second list.
SCRIPTS = ["verified", "arrows", "arrows_self", "links", "links_self", "duplicates", "duplicates_self", "suites", "faults", "faults_run", "faults_pool", "equivalents", "mutant", "emu_gfx950_words",
           "emu_gfx11_words", "hip_page", "hook", "fleet_scripts", "install", "python", "example-cpu", "example-emu", "tune-rocm-7.1"] + ["fuzz-" + f for f in ("problem", "shapes", "loads", "rows_csv", "database", "cache_file", "pack", "elf", "dlpack")]
SWEPT_SCRIPTS = ["python_torch", "ggml", "emu_triton", "tune-rocm-5.7", "tune-rocm-6.1", "tune-rocm-6.4", "tune-rocm-7.0"]

# Operators' tests whose names don't begin with their folder's.
OF_FOLDER = {
    "gemm": ["gemm*", "experts", "prepack", "cpu_gemm", "cpu_i8", "vendor*", "asm", "xcd", "invariant", "pack", "moe", "decoder"],
    "mha": ["mha*", "mla*", "decoder"], "quantize": ["quantize", "quotient", "mx_outputs", "moe"], "norm": ["norm", "mx_outputs"],
    "act": ["act", "mx_outputs"], "moe": ["moe*", "experts"], "rope": ["rope", "decoder"], "sample": ["sample", "argmax*", "decoder"],
    "advance": ["advance", "example-*"],
}
# What runs every operator in some way.
OF_ANY = ["args", "far", "indices", "model", "operands", "outputs", "oracles", "describe", "ranks", "overlap", "python", "compile*"]
# Kernels run by whatever has an emulated GPU.
OF_KERNELS = ["*-gfx*", "*-rocm-*", "compile*", "xcd", "invariant", "mha_invariant", "emu_counters"]
# Paths and the tests that see them; the first that matches is taken. "*": all tests.
SEEN_BY = [
    ("ops/device/*", OF_KERNELS),
    ("ops/format*", ["format", "operand*", "conversions", "gemm*", "quantize*", "args", "outputs", "decoder", "compile*"]),
    ("ops/cpu/*", ["act", "norm", "quantize", "embedding", "moe*", "mx_outputs", "pool", "fork", "rope", "sample", "argmax", "invariant"]),
    ("ops/calibrate/*", ["calibrate", "compile*"]),
    ("ops/*", ["args", "params", "model", "operand*", "outputs", "oracles", "ladder", "ranks", "describe", "asm", "overlap", "xcd", "compile*", "fuzz-problem",
               "shapes", "programs", "tune", "bench", "verified"] + [name + "*" for name in of_operators()]),
    ("asm/*", ["asm", "invariant", "compile*"]),
    ("base/*", ["*"]),
    ("dispatch/db/*", ["db*", "snapshot", "shapes*", "packs", "rfg_db", "rfg_pack", "ladder", "overlap", "tune", "tune_faults", "online", "fleet*", "fuzz-*",
                       "describe", "settings", "python", "fork", "first_calls", "failing"]),
    ("dispatch/jit/*", ["jit*", "cache", "locks", "trust", "text", "packs", "rfg_pack", "which_rocm", "tune", "fork", "asm", "fuzz-cache_file",
                        "fuzz-pack", "programs", "rocm*", "gemm-gfx942", "gemm-gfx1030-right_partials"]),
    ("dispatch/hip/*", ["hip", "cuda", "device*", "amd_device", "amd_facts", "which_rocm", "rocm*", "faulty", "vendor*", "emu_hip", "trace", "workspace*", "core"]),
    ("dispatch/comm*", ["comm*", "failing", "args"]),
    ("dispatch/*", ["*"]),
    ("emu/check/*", ["emu_rules", "emu_checks", "emu_twins*", "emu_correct*", "emu_removals*", "emu_nan", "emu_programs", "emu_mutated*", "emu_random*",
                     "emu_align", "emu_front", "emu_aiter*", "rocm_rules*", "gemm-gfx942"]),
    ("emu/time/*", ["emu_time"]),
    ("emu/count/*", ["emu_counters", "emu_l2", "bench", "emu_programs"]),
    ("emu/rocm/*", ["rocm*", "*-rocm-*", "which_rocm", "vendor*"]),
    ("emu/hip/*", ["emu_hip", "emu_launch", "emu_front", "emu_elf", "emu_checks", "emu_programs", "rocm*", "*-rocm-*", "device", "example-emu", "gemm-gfx*", "decoder-gfx942*"]),
    ("emu/code/*", ["emu_elf", "emu_start", "fuzz-elf", "emu_programs", "emu_hip", "emu_launch", "emu_front", "gemm-gfx*", "cache", "text"]),
    ("emu/*", ["emu_*", "rocm*", "xcd", "*-gfx*"]),
    ("tuner/harness/case*", ["harness", "special_data", "outputs", "oracles", "ranks", "gemm*", "mha*", "norm*", "quantize*", "tune", "bench"]),
    ("tuner/harness/fenced*", ["harness", "gemm*"]), ("tuner/harness/oracle*", ["harness", "oracles", "format", "conversions", "gemm*", "quantize*"]),
    ("tuner/harness/output*", ["outputs", "harness", "gemm*"]), ("tuner/harness/harness*", ["harness", "outputs", "gemm*", "tune", "bench"]),
    ("tuner/harness/timing*", ["timing", "tune", "bench", "report"]), ("tuner/harness/replay*", ["harness", "timing", "bench", "tune"]),
    ("tuner/harness/loads*", ["loads", "tune"]), ("tuner/harness/stamp*", ["tune*", "rfg_db", "fleet*"]), ("tuner/tune/calibrate*", ["calibrate", "programs"]),
    ("tuner/db/*", ["rfg_db", "rfg_pack", "fleet*", "programs", "python"]),
    ("tuner/tune/*", ["tune*", "online", "report", "fleet*", "loads", "overlap", "programs"]), ("tuner/tools/emu*", ["emu_programs", "programs"]),
    ("tuner/*", ["programs", "tune", "rfg_db", "rfg_pack", "bench"]),
    ("bench/*", ["bench", "overlap"]), ("tuned_configs/*", ["rfg_db", "install", "verified", "fleet*"]),
    ("bindings/ggml/*", ["ggml"]), ("bindings/*", ["python", "python_torch"]),
    ("examples/decoder/*", ["decoder*"]), ("examples/*", ["example-*", "tune", "shapes"]),
    ("include/*", ["*"]), ("packaging/*", ["install"]), ("docs/*", ["verified", "duplicates"]), ("*.md", ["verified"]),
    ("tests/fuzz/*", ["fuzz-*"]), ("tests/op_cases*", ["gemm*", "norm*", "act*"]), ("tests/mutants/*", []), ("tests/*.py", ["suites", "faults*", "mutant"]),
    ("*", ["*"]),
]


def patterns_for(path):
    """The tests that see a path, as patterns of names or of programs."""
    part = path.split("/")
    if part[0] == "tests" and len(part) == 3 and part[2].endswith((".c", ".h")) and part[1] in ROOMS:
        users = [name for name, room in programs().items() if room == part[1] and
                 (os.path.relpath(os.path.join(ROOT, path), HERE) in sources(name, room) or part[2] in headers(os.path.join(HERE, room, "test_%s.c" % name)))]
        return users or ["*"]
    if part[0] == "ops" and len(part) > 2 and part[1] not in ("device", "cpu", "calibrate", "model"):
        folder = part[1]
        names = OF_FOLDER.get(folder, [folder + "*"])
        return names + (["compile*"] if path.endswith(".hip") else ["compile*", "model"] if "/gpu/" in path else OF_ANY)
    return next(names for pattern, names in SEEN_BY if fnmatch.fnmatch(path, pattern))


def everything():
    known = list(tests())
    known += [Test(name, name) for name in SCRIPTS] + [Test(name, name, "others-rest") for name in SWEPT_SCRIPTS]
    return known


def tests_for(files):
    patterns = {p for path in files for p in patterns_for(path)}
    return [t for t in everything() if t.when != "tsan" and any(fnmatch.fnmatch(t.name, p) or fnmatch.fnmatch(t.program, p) for p in patterns)]


def changed_files(base):
    listed = subprocess.run(["git", "diff", "--name-only", base], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        sys.exit("./dev test --changed %s: %s" % (base, listed.stderr.strip()))
    new = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(set((listed.stdout + new.stdout).split()))


def mutants_for(files):
    import mutant
    return [m.name for m in mutant.all_mutants() if set(m.files) & set(files)]


def changed(a):
    """Prints the names of tests to standard output, one a line, and what they are to standard error."""
    files = a.files or changed_files(a.base)
    if not files:
        sys.exit("./dev test --changed %s: nothing has changed since" % a.base)
    chosen = tests_for(files)
    default, swept = [t for t in chosen if t.default], [t for t in chosen if not t.default]
    mutants = mutants_for(files)

    def minutes(tests_):
        return sum(t.seconds for t in tests_) / 60 / CORES

    say = functools.partial(print, file=sys.stderr)
    say("changed since %s: %s" % (a.base, ", ".join(files) if len(files) < 8 else "%d files" % len(files)))
    say("  %3d tests of ./dev test   %5.1f minutes" % (len(default), minutes(default)))
    say("  %3d of the sweeps         %5.1f minutes: %s" % (len(swept), minutes(swept), ", ".join(t.name for t in swept) or "none"))
    say("  %3d mutants               %5.1f minutes" % (len(mutants), len(mutants) * MUTANT_SECONDS / 60 / CORES))
    if any(f.startswith("bindings/python/") for f in files):
        say("  and by hand: ./dev torch (the Python package has changed)")
    print("\n".join([t.name for t in chosen] + ["mutant:" + m for m in mutants]))


def record(a):
    """Of the log of meson's last run."""
    with open(os.path.join(a.build, "meson-logs", "testlog.json")) as file:
        ran = [json.loads(line) for line in file]
    seconds = dict(SECONDS, **{re.sub(r"^[^:]*:|.* / ", "", t["name"]): t["duration"] for t in ran if t["result"] == "OK"})
    known = {t.name for t in everything()}
    with open(os.path.join(HERE, "seconds.tsv"), "w") as file:
        file.write("# test\tseconds beside one other test, on two cores (./dev test --record)\n")
        file.writelines("%s\t%.1f\n" % (name, seconds[name]) for name in sorted(seconds) if name in known)


def self_test():
    """Each name and each pattern means something; each source file is seen by some test."""
    names = {t.name for t in everything()} | {t.program for t in everything()}
    wrong = ["no test %s" % n for n in list(ALONE) + list(THREADED) + [p for p, _ in THREADED_CASES] + list(NOT_ASAN) + list(UNFILLED) if n not in names]
    wrong += ["seconds.tsv: no test %s" % n for n in SECONDS if n not in names]
    option = re.search(r"option\('rocm_releases'.*choices: \[(.*?)\], value: \[(.*?)\]", open(os.path.join(ROOT, "meson_options.txt")).read())
    if [re.findall(r"[\d.]+", text) for text in option.groups()] != [RELEASES, USUAL_RELEASES]:
        wrong.append("meson_options.txt: rocm_releases: choices and value are not RELEASES and USUAL_RELEASES")
    for pattern, seers in SEEN_BY + [(folder, seen) for folder, seen in OF_FOLDER.items()] + [("any", OF_ANY), ("kernels", OF_KERNELS)]:
        wrong += ["%s: no test %s" % (pattern, p) for p in seers if not any(fnmatch.fnmatch(n, p) for n in names)]
    for path, test, is_swept in (("ops/norm/rows.hip", "norm-gfx90a-all", True), ("ops/norm/rows.hip", "norm", False), ("emu/check/check_lds.c", "emu_twins-all", True),
                                 ("dispatch/db/db.c", "rfg_db", False), ("tests/ops/test_act.c", "act-gfx942", False),
                                 ("tests/tools/tune_case.c", "loads", False), ("ops/gemm/gpu/amd/stream.hip", "gemm-gfx942-all", True)):
        if not any(t.name == test and t.default != is_swept for t in tests_for([path])):
            wrong.append("%s isn't seen by %s" % (path, test))
    if any(t.name == "mha" for t in tests_for(["dispatch/db/db.c"])):
        wrong.append("dispatch/db is seen by mha")
    with open(os.path.join(ROOT, "ops", "registry.def")) as file:
        emulated_ones = set().union(*(operators_of(program, names) for program, names in few_tests().items()))
        wrong += ["./dev test runs no kernel of %s on an emulated GPU: FEW" % op for op in re.findall(r"^RFG_OP\((\w+),", file.read(), re.M) if op not in emulated_ones]
    for line in wrong:
        print(line)
    print("%d passed, %d failed" % (0 if wrong else 1, len(wrong)))
    return bool(wrong)


def for_meson(a):
    zig = ["RFG_ZIGLANG_PYTHON=" + a.ziglang] if a.ziglang else []
    lacks = a.lacks.split(",")
    every = ["CK_VERBOSITY=normal", "CK_DEFAULT_TIMEOUT=60"] + zig  # 4 s, Check's own, are too few beside other work
    for t in tests(a.build, a.ziglang, a.releases.split(",") if a.releases else []):
        if "llvm-mc" in lacks and t.program in NEED_LLVM_MC:
            continue
        print("\t".join([t.name, t.program, str(t.limit()), "0" if t.name in ALONE else "1", str(int(t.seconds)), ",".join(t.suites()),
                         ";".join(every + t.env)]))


def main():
    p = argparse.ArgumentParser(prog="tests/suites.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    m = sub.add_parser("meson", help="one line a test, for tests/meson.build")
    m.add_argument("build")
    m.add_argument("--ziglang", default="", help="a Python that has PyPI's ziglang, for gfx950")
    m.add_argument("--lacks", default="", help="llvm-mc")
    m.add_argument("--releases", default="", help="the emulated ROCm releases that are built")
    sub.add_parser("programs", help="name and sources of each test program")
    c = sub.add_parser("changed", help="the tests and mutants that a change can break, and what they cost")
    c.add_argument("base", nargs="?", default="HEAD", help="a commit (default: %(default)s: what is not committed)")
    c.add_argument("--files", nargs="+", help="these files in place of what git says")
    r = sub.add_parser("record", help="write seconds.tsv from the last run of a build")
    r.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    sub.add_parser("self-test")
    a = p.parse_args()
    if a.command == "meson":
        for_meson(a)
    elif a.command == "changed":
        changed(a)
    elif a.command == "record":
        record(a)
    elif a.command == "self-test":
        sys.exit(self_test())
    else:
        for name, room in programs().items():
            print(name, " ".join(sources(name, room)), sep="\t")


if __name__ == "__main__":
    main()
