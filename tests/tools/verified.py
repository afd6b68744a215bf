#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table "What was verified how" of README.md, from what the tests wrote.

  tests/tools/verified.py          writes the table into README.md
  tests/tools/verified.py --check  fails if README.md has another one

Tests append lines to $RFG_VERIFIED_FILE only when they passed; runs worth keeping are in docs/verified/*.jsonl."""
import collections
import glob
import json
import os
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN, END = "<!-- verified:begin -->\n", "<!-- verified:end -->\n"

runs = collections.OrderedDict()      # device title -> variant -> runs that were right
cases = collections.Counter()         # device title -> cases
compiled = collections.OrderedDict()  # (target, compiler) -> variant -> code objects


def title(line):
    device = line["device"].split(":")[0]
    names = {"cpu": "CPU, %s" % line["arch"].split("-", 1)[-1], "nvidia": "NVIDIA %s, %d SMs" % (line["arch"], line["cu_count"])}
    emulated = "emulated %s" % line["arch"].split("-", 1)[-1]
    return names.get(device, emulated if device == "emu" else "%s %s" % (device.upper(), line["arch"]))


for path in sorted(glob.glob(os.path.join(root, "docs", "verified", "*.jsonl"))):
    for text in open(path):
        line = json.loads(text)
        if "compiled_for" in line:
            variants = compiled.setdefault((line["compiled_for"], line["compiler"]), collections.OrderedDict())
            variants[line["variant"]] = variants.get(line["variant"], 0) + line["code_objects"]
        else:
            cases[title(line)] += line["cases"]
            variants = runs.setdefault(title(line), collections.OrderedDict())
            for name, n in line["variants"].items():
                variants[name] = variants.get(name, 0) + n

out = [BEGIN, "| device | how | cases | variants: runs that the double-precision oracle found right |\n", "|---|---|---|---|\n"]
for device, variants in runs.items():
    out.append("| %s | run | %d | %s |\n" % (device, cases[device], ", ".join("%s %d" % v for v in sorted(variants.items()))))
out += ["\n", "| architecture | how | compiler | variants: code objects compiled, none spilling |\n", "|---|---|---|---|\n"]
for (target, compiler), variants in compiled.items():
    out.append("| %s | compiled, not run%s | %s | %s |\n" % (
        target, " here" if target.startswith("sm_90") else "", compiler, ", ".join("%s %d" % v for v in variants.items())))
out.append(END)

readme = os.path.join(root, "README.md")
was = open(readme).read()
now = was[:was.index(BEGIN)] + "".join(out) + was[was.index(END) + len(END):]
if "--check" in sys.argv[1:]:
    sys.exit(0 if now == was else "README.md: the table is not what docs/verified/ says: run tests/tools/verified.py")
open(readme, "w").write(now)
