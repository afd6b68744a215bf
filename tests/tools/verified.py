#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes README.md's matrix of operators and devices, and the tables of docs/verified.md, from the tests' records.

  tests/tools/verified.py [SUPPORTS]          writes them
  tests/tools/verified.py [SUPPORTS] --check  fails if the files say something else

SUPPORTS is the program tests/supports of a build (default: build/tests/supports): which variants take which problems of a row. Tests append lines to
$RFG_VERIFIED_FILE only when they passed; runs worth keeping are in docs/verified/*.jsonl. A problem counts as run where its group of test cases ran one of
its variants (of a whole suite's run that was only counted: any), or where tuned_configs/ has a measured row of its operator, formats and options: rfg-tune checks each winner against the oracle. A cell is the
least that holds for all problems of its row. Rows and columns that are the same become one."""
import collections
import csv
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN, END = "<!-- %s:begin -->\n", "<!-- %s:end -->\n"
PRODUCTS = {"cpu": "CPU, x86-64", "sm_90": "H200, H100 `sm_90`", "sm_80": "A100 `sm_80`", "gfx942": "MI300X, MI300A `gfx942`",
            "gfx950": "MI350X, MI355X `gfx950`", "gfx90a": "MI210, MI250 `gfx90a`", "gfx908": "MI100 `gfx908`",
            "gfx1100": "RX 7900 XT, XTX `gfx1100`", "gfx1201": "RX 9070 `gfx1201`", "gfx1030": "RX 6800, 6900 `gfx1030`"}
LEVELS = ["no", "untested", "compiled", "emulated", "hardware"]
LEGEND = [("hardware", "ran there, and results were compared with a double-precision oracle."),
          ("in part", "some of the row's operators or formats ran there; the others were compiled for it, without register spills."),
          ("emulated", "compiled by the real compiler; that code ran in [our emulator](docs/emulator.md) of the architecture, against the same oracle."),
          ("compiled", "compiled for the architecture without register spills, but not run."),
          ("untested", "there are kernels; none was compiled for it."),
          ("no", "there is no kernel."),
          ("°", "only a slow portable kernel exists.")]

runs = collections.OrderedDict()      # device title -> variant -> runs that were right
cases = collections.Counter()         # device title -> cases
compiled = collections.OrderedDict()  # (target, compiler) -> variant -> code objects
ran = collections.defaultdict(set)    # "hardware" or "emulated", arch, group of test cases -> variants
suites = set()                        # arch, group of test cases: of suites that ran on hardware as a whole
tuned = collections.defaultdict(set)  # arch, operator, formats, options -> variants


def options(words):
    """Of a problem's words those that are no size."""
    return frozenset(w for w in words if not w[0].isupper())


def title(line):
    device = line["device"].split(":")[0]
    names = {"cpu": "CPU, %s" % line["arch"].split("-", 1)[-1], "nvidia": "NVIDIA %s, %d SMs" % (line["arch"], line["cu_count"])}
    emulated = "emulated %s" % line["arch"].split("-", 1)[-1]
    return names.get(device, emulated if device == "emu" else "%s %s" % (device.upper(), line["arch"]))


for path in sorted(glob.glob(os.path.join(ROOT, "docs", "verified", "*.jsonl"))):
    for text in open(path):
        line = json.loads(text)
        if "compiled_for" in line:
            variants = compiled.setdefault((line["compiled_for"], line["compiler"]), collections.OrderedDict())
            variants[line["variant"]] = variants.get(line["variant"], 0) + line["code_objects"]
        elif "suite" in line:
            suites.update((line["arch"], group) for group in line["groups"])
        else:
            cases[title(line)] += line["cases"]
            variants = runs.setdefault(title(line), collections.OrderedDict())
            arch = "cpu" if line["device"] == "cpu" else line["arch"].replace("emu-", "")
            for name, n in line["variants"].items():
                variants[name] = variants.get(name, 0) + n
                ran["emulated" if line["device"].startswith("emu") else "hardware", arch, line["group"]].add(name)
for path in glob.glob(os.path.join(ROOT, "tuned_configs", "*", "*.csv")):
    for row in csv.DictReader(open(path)):
        if row["how"] == "measured":
            tuned[row["arch"], row["op"], row["dtypes"], options(row["attrs"].split())].add(row["variant"])


def tables():
    out = ["| device | how | cases | variants: runs that the double-precision oracle found right |\n", "|---|---|---|---|\n"]
    for device, variants in runs.items():
        out.append("| %s | run | %d | %s |\n" % (device, cases[device], ", ".join("%s %d" % v for v in sorted(variants.items()))))
    out += ["\n", "| architecture | how | compiler | variants: code objects compiled, none spilling |\n", "|---|---|---|---|\n"]
    for (target, compiler), variants in compiled.items():
        out.append("| %s | compiled, not run%s | %s | %s |\n" % (
            target, " here" if target.startswith("sm_90") else "", compiler, ", ".join("%s %d" % v for v in variants.items())))
    return "".join(out)


def matrix(supports):
    problems = collections.OrderedDict()  # row, formats -> arch -> what holds for each problem
    archs = []
    for line in subprocess.run([supports], check=True, capture_output=True, text=True).stdout.splitlines():
        name, formats, group, arch, problem, variants = line.split("|")
        archs += [] if arch in archs else [arch]
        problems.setdefault((name, formats), {}).setdefault(arch, []).append(level(arch, group, problem, set(variants.split(",")) - {""}))
    cells = {row: [cell(arch, of[arch]) for arch in archs] for row, of in problems.items()}
    columns = merged((tuple(row[i] for row in cells.values()), arch) for i, arch in enumerate(archs))
    rows = merged(((formats, tuple(of)), name) for (name, formats), of in cells.items())
    out = ["| operator | formats | %s |\n" % " | ".join("; ".join(PRODUCTS[a] for a in of) for of in columns.values()), "|---" * (2 + len(columns)) + "|\n"]
    for (formats, of), names in rows.items():
        out.append("| %s | %s | %s |\n" % ("; ".join(names), formats, " | ".join(of[archs.index(c[0])] for c in columns.values())))
    words = {w for of in cells.values() for c in of for w in ([c[:-2], "°"] if c.endswith(" °") else [c])}
    return "".join(out + ["\n"] + ["* %s: %s\n" % entry for entry in LEGEND if entry[0] in words])


def merged(pairs):
    """What is the same -> the names it has."""
    out = collections.OrderedDict()
    for key, name in pairs:
        out.setdefault(key, []).append(name)
    return out


def level(arch, group, problem, variants):
    op, formats, *words = problem.split()
    if not variants:
        how = "no"
    elif (arch, group) in suites or variants & (ran["hardware", arch, group] | tuned[arch, op, formats, options(words)]):
        how = "hardware"
    elif variants & ran["emulated", arch, group]:
        how = "emulated"
    else:
        how = "compiled" if any(target in (arch, arch + "a") for target, _ in compiled) else "untested"
    return how, arch != "cpu" and all(v.endswith("_portable") for v in variants)


def cell(arch, levels):
    least, most = [f(levels, key=lambda of: LEVELS.index(of[0]))[0] for f in (min, max)]
    how = "in part" if (least, most) == ("compiled", "hardware") else least
    return how + (" °" if how != "no" and any(slow for _, slow in levels) else "")


arguments = [a for a in sys.argv[1:] if a != "--check"]
supports = arguments[0] if arguments else os.path.join(ROOT, "build", "tests", "supports")
for name, mark, text in [("README.md", "matrix", matrix(supports)), ("docs/verified.md", "verified", tables())]:
    path, begin, end = os.path.join(ROOT, name), BEGIN % mark, END % mark
    was = open(path).read()
    now = was[: was.index(begin) + len(begin)] + text + was[was.index(end):]
    if "--check" in sys.argv[1:]:
        if now != was:
            sys.exit("%s: the table is not what docs/verified/, tuned_configs/ and the variants say: run tests/tools/verified.py" % name)
    else:
        open(path, "w").write(now)
