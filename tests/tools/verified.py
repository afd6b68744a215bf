#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README.md's matrix of operators and devices, and the tables of docs/verified.md, from what the tests wrote.

  tests/tools/verified.py [SUPPORTS]          writes them
  tests/tools/verified.py [SUPPORTS] --check  fails if the files say something else

SUPPORTS is the program tests/supports of a build (default: build/tests/supports): which variants take which formats. Tests append lines to
$RFG_VERIFIED_FILE only when they passed; runs worth keeping are in docs/verified/*.jsonl. That a variant ran on a GPU is also said by the measured rows
of tuned_configs/: rfg-tune checks each winner against the oracle."""
import collections
import csv
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN, END = "<!-- %s:begin -->\n", "<!-- %s:end -->\n"
PRODUCTS = {"cpu": "CPU", "sm_90": "H100, H200", "sm_80": "A100", "gfx942": "MI300", "gfx950": "MI350", "gfx90a": "MI200", "gfx908": "MI100",
            "gfx1100": "RX 7900", "gfx1201": "RX 9070", "gfx1030": "RX 6800"}

runs = collections.OrderedDict()      # device title -> variant -> runs that were right
cases = collections.Counter()         # device title -> cases
compiled = collections.OrderedDict()  # (target, compiler) -> variant -> code objects
ran = collections.defaultdict(set)    # "hardware" or "emulated", arch -> variants


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
        else:
            cases[title(line)] += line["cases"]
            variants = runs.setdefault(title(line), collections.OrderedDict())
            arch = "cpu" if line["device"] == "cpu" else line["arch"].replace("emu-", "")
            for name, n in line["variants"].items():
                variants[name] = variants.get(name, 0) + n
                ran["emulated" if line["device"].startswith("emu") else "hardware", arch].add(name)
for path in glob.glob(os.path.join(ROOT, "tuned_configs", "*", "*.csv")):
    for row in csv.DictReader(open(path)):
        if row["how"] == "measured":
            ran["hardware", row["arch"]].add(row["variant"])


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
    rows, archs = collections.OrderedDict(), []
    for line in subprocess.run([supports], check=True, capture_output=True, text=True).stdout.splitlines():
        name, formats, arch, variants = line.split("|")
        archs += [] if arch in archs else [arch]
        key = (len(rows) if not archs.index(arch) else len(rows) - 1, name, formats)
        rows.setdefault(key, []).append(cell(arch, set(variants.split(",")) - {""}))
    out = ["| operator | formats | %s |\n" % " | ".join(PRODUCTS[a] if a == "cpu" else "%s `%s`" % (PRODUCTS[a], a) for a in archs),
           "|---" * (2 + len(archs)) + "|\n"]
    return "".join(out + ["| %s | %s | %s |\n" % (name, formats, " | ".join(cells)) for (_, name, formats), cells in rows.items()])


def cell(arch, variants):
    if not variants:
        return "no"
    if variants & ran["hardware", arch]:
        how = "hardware"
    elif variants & ran["emulated", arch]:
        how = "emulated"
    else:
        how = "compiled" if any(target.rstrip("a") == arch or target == arch for target, _ in compiled) else "untested"
    return how + ("" if arch == "cpu" or any(not v.endswith("_portable") for v in variants) else " °")


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
