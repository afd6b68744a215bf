#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the structure of the library at link level, by the names that nm finds in its objects:

  * a room takes names of those below it only (docs/architecture.md);
  * no files take each other's names in a circle;
  * what a file needs in order to link leaves out what the table APART says.

  tests/tools/links.py BUILD ...     says each break with files, names and rule; exit 1 if there is one
  tests/tools/links.py --self-test   that each rule is found broken in small libraries made for it
"""
import collections
import fnmatch
import json
import os
import subprocess
import sys

from circles import circles

# A file is in the first room that has its path.
ROOMS = [("base", "base/*"), ("calls", "ops/*call.c"), ("ops", "ops/*"), ("dispatch", "dispatch/*"), ("emu", "emu/*")]
# The rooms that a room takes names of, beside its own.
BELOW = {"base": [], "ops": ["base"], "dispatch": ["base", "ops"], "emu": ["base"], "calls": ["base", "ops", "dispatch"]}
# Arrows beside those: file, whose names it takes.
BESIDE = [
    ("emu/hip/*", "dispatch/hip/hip_platform.c"),  # the emulator is a platform, as those of dispatch/hip are
    ("emu/hip/*", "dispatch/device.c"),
]
# Files that only list what there is. They name what they list, whose files may ask them for it.
REGISTRIES = {
    "dispatch/hip/platforms.c": "the platforms, the emulator among them",
    "ops/registry.c": "the operators",
    "ops/variants.c": "their variants",
}
# File, what it links without, why.
APART = [("ops/problem.c", ["ops/variants.c", "ops/kernel.c", "ops/model/*", "ops/cpu/*"], "problems are read without any kernel")]


def room(path):
    return next((name for name, pattern in ROOMS if fnmatch.fnmatch(path, pattern)), None)


def arrow_text(a, b, names):
    return "%s -> %s: %s" % (a, b, ", ".join(sorted(names)))


def needed(start, owner, undefined):
    """The files that a file links with, by way of which."""
    way, found = {start: None}, [start]
    for f in found:
        for other in sorted({owner[name] for name in undefined[f] if name in owner} - set(way)):
            way[other] = f
            found.append(other)
    return way


def check(defined, undefined):
    """What is wrong with a library; its files' names, by file."""
    owner = {name: f for f, names in defined.items() for name in names}
    arrows = collections.defaultdict(set)  # (file, file): names
    for f, names in undefined.items():
        for name in names:
            if owner.get(name, f) != f and f not in REGISTRIES:
                arrows[f, owner[name]].add(name)
    bad, graph = [], {f: set() for f in defined}
    for (a, b), names in sorted(arrows.items()):
        mine, other = room(a), room(b)
        beside = any(fnmatch.fnmatch(a, x) and fnmatch.fnmatch(b, y) for x, y in BESIDE)
        if mine == other or beside or other in BELOW.get(mine, []):
            graph[a].add(b)
        else:
            bad.append("%s: %s takes names of %s only" % (arrow_text(a, b, names), mine, ", ".join(BELOW.get(mine, [])) or "no other room"))
    for circle in circles(graph):
        bad.append("files take each other's names in no circle: " + " <-> ".join(circle))
        bad += ["  " + arrow_text(a, b, names) for (a, b), names in sorted(arrows.items()) if {a, b} <= set(circle)]
    for f, patterns, why in APART:
        way = needed(f, owner, undefined)
        for other in way:
            if any(fnmatch.fnmatch(other, pattern) for pattern in patterns):
                bad.append("%s links with %s, by %s: %s" % (f, other, way[other], why))
    return bad, len(arrows)


def read_nm(text, source):
    """The names of nm -P -A OBJECT...; source: an object's source file."""
    defined, undefined = collections.defaultdict(set), collections.defaultdict(set)
    for line in text.splitlines():
        where, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        f = source[where]
        defined[f], undefined[f]
        if kind == "U":
            undefined[f].add(name)
        elif kind in "TDBRVWC":
            defined[f].add(name)
    return defined, undefined


def read(build):
    """Of a build directory, the objects of the library."""
    source = {}
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        folder = entry["output"].split("/")[-2]
        if folder == "librfg-internal.a.p" or (entry["output"].startswith("ops/") and folder.startswith("librfg-")):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            made = os.path.relpath(os.path.join(entry["directory"], entry["file"]), build)
            source[os.path.join(build, entry["output"])] = path if made.startswith("..") else made
    text = subprocess.run(["nm", "-P", "-A"] + sorted(source), capture_output=True, text=True, check=True).stdout
    return read_nm(text, source)


def self_test():
    good = {  # file: what it defines, what it takes
        "base/log.c": ("log", "printf"), "ops/problem.c": ("format ops_find", "log ops"), "ops/registry.c": ("ops", "gemm"),
        "ops/gemm/gemm.c": ("gemm", "format"), "ops/gemm/call.c": ("op_gemm", "gemm dispatch"),
        "dispatch/enter.c": ("enter", "log"), "dispatch/call.c": ("dispatch", "enter load"), "dispatch/device.c": ("imagine", "log"),
        "dispatch/hip/platforms.c": ("platforms", "emu amd"), "dispatch/hip/hip_amd.c": ("amd", "ordinal"),
        "dispatch/hip/hip_platform.c": ("ordinal", "log"), "emu/hip/hip_emu.c": ("emu", "ordinal imagine"),
        "dispatch/open.c": ("load", "platforms enter"),
    }
    planted = [  # files beside those or in their place, what must be said; None: nothing
        ({}, None),
        ({"base/log.c": ("log", "enter")}, "base/log.c -> dispatch/enter.c: enter: base takes names of no other room only"),
        ({"dispatch/enter.c": ("enter", "op_gemm")}, "dispatch/enter.c -> ops/gemm/call.c: op_gemm: dispatch takes names of base, ops only"),
        ({"dispatch/enter.c": ("enter", "emu")}, "dispatch/enter.c -> emu/hip/hip_emu.c: emu: dispatch takes names of"),
        ({"emu/hip/hip_emu.c": ("emu", "dispatch")}, "emu/hip/hip_emu.c -> dispatch/call.c: dispatch: emu takes names of base only"),
        ({"dispatch/enter.c": ("enter", "load")}, "in no circle: dispatch/enter.c <-> dispatch/open.c"),
        ({"dispatch/enter.c": ("enter", "load")}, "  dispatch/open.c -> dispatch/enter.c: enter"),
        ({"dispatch/enter.c": ("enter", "dispatch")}, "in no circle: dispatch/call.c <-> dispatch/enter.c <-> dispatch/open.c"),
        ({"base/a.c": ("a", "b"), "base/b.c": ("b", "a")}, "in no circle: base/a.c <-> base/b.c"),
        ({"dispatch/hip/hip_amd.c": ("amd", "platforms")}, None),
        ({"ops/gemm/gemm.c": ("gemm", "dispatch")}, "ops takes names of base only"),
        ({"ops/gemm/gemm.c": ("gemm", "ops_find")}, None),
        ({"ops/gemm/gemm.c": ("gemm", "format macro"), "ops/kernel.c": ("macro", "log")},
         "ops/problem.c links with ops/kernel.c, by ops/gemm/gemm.c: problems are read without any kernel"),
    ]
    for files, wanted in planted:
        library = {**good, **files}
        text = "".join("%s.o: %s %s\n" % (f, n, "U" if i else "T 0 1") for f, both in library.items() for i in (0, 1) for n in both[i].split())
        bad, _ = check(*read_nm(text, {f + ".o": f for f in library}))
        if bad if wanted is None else not any(wanted in line for line in bad):
            sys.exit("%s: wanted %s, got %s" % (files, wanted or "no finding", bad or "none"))
    print("%d passed, 0 failed" % len(planted))


if sys.argv[1:] == ["--self-test"]:
    self_test()
    sys.exit()
found, n_arrows = check(*read(os.path.abspath(sys.argv[1])))
for said in found:
    print(said)
print("%d arrows between files" % n_arrows)
sys.exit(len(found) > 0)
