#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the structure of the source tree by its #include lines:

  * arrows between rooms point one way (docs/architecture.md);
  * folders include each other in no circle, files of a folder in at most MOST_FILE_CYCLES;
  * no file has over MOST_LINES lines, lists of words apart;
  * conditionals on an architecture stand in ops/device/, outside of it at most MOST_CONDITIONALS;
  * nothing in ops/ compares a target's name: what follows from it is asked of base/arch.h's table;
  * files that comments name exist.

  tests/tools/arrows.py [ROOT]        says each break with file, line, arrow and rule; exit 1 if there is one
  tests/tools/arrows.py --self-test   that each rule is found broken in a small tree made for it
"""
import collections
import os
import re
import sys
import tempfile

from circles import circles

ROOMS = "include base ops dispatch emu tuner bench tests examples bindings".split()
MOST_LINES = 700
MOST_FILE_CYCLES = 1
MOST_CONDITIONALS = 4  # each says why it is there

# What a room may include of other rooms.
BELOW = {
    "include": [],
    "base": ["include"],
    "ops": ["include", "base"],
    "dispatch": ["include", "base", "ops"],
    "emu": ["include", "base"],
    "tuner": ["include", "base", "ops", "dispatch"],
    "bench": ["include", "base", "ops", "dispatch", "tuner"],
    "tests": ["include", "base", "ops", "dispatch", "emu", "tuner", "bench", "examples"],
    "examples": ["include"],
    "bindings": ["include"],
}
# In ops/ these are for all operators; every other folder is an operator's.
SHARED_OPS = ["device", "model", "cpu"]
# Of the tuner's rooms this one is for the others, and all that bench/ sees.
SHARED_TUNER = "tuner/harness/"
# Arrows beside those above: file (or its beginning), what it includes (or its beginning).
BESIDE = [
    ("emu/", "dispatch/hip/hip.h"),           # the table that a platform fills
    ("emu/", "dispatch/hip/hip_platform.h"),
    ("tuner/tools/emu", "emu/"),              # rfg-emu
    ("bench/counters.c", "emu/count/"),
    ("tuner/harness/clock", "emu/time/"),     # for rfg-bench and rfg-tune
]

INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)')
ON_WAVE = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\bRFG_WAVE\b")
# Macros that say which machine is compiled for (ops/device/rfg_target.h, the compiler's own). In an #if or in an expression; RFG_WAVE is a number
# elsewhere.
ARCHITECTURE = re.compile(
    r"\b(RFG_(AMD|NVIDIA|MFMA|WMMA11|WMMA12|HAS_(MMA|WGMMA|ASYNC|CLUSTER))|__gfx\w+__|__GFX\w+__|__AMDGCN__|__CUDA_ARCH\w*|__CUDACC\w*)\b")
# A call that compares strings, of which one is a device's target or arch, or a literal name of one.
COMPARED = re.compile(
    r"""\b(?:str(?:n?case|n)?cmp|str(?:case)?str|memcmp)\s*\((?:[^()]|\([^()]*\))*?(?:(?:->|\.)target\b|dev->arch\b|"(?:gfx|sm_))""")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
# A file as a comment names it; not a pattern (check_*.c), not part of a longer word.
NAMED = re.compile(r"(?<![\w/.*<>$-])((?:\w[\w-]*/)*\w[\w-]*\.(?:c|h|hip|def|py|md))(?![\w*])")
# What calibrate.hip calls tuner/tune/calibrate.c: a kernel's text is part of its hash. Others' headers, examples, halves of registers.
OTHERS = set("tuner/calibrate.c amd_comgr.h cublasLt.h hipblas-common.h hipblaslt.h kernel.hip library_types.h llvm-c/Disassembler.h rocblas-types.h v0.h ziglang.py".split())


def sources(root):
    for room in ROOMS:
        for folder, folders, names in os.walk(os.path.join(root, room)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".hip", ".def", ".cu")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def operator(path):
    """The operator that a file belongs to, None if it is for all."""
    parts = path.split("/")
    return parts[1] if parts[0] == "ops" and len(parts) > 2 and parts[1] not in SHARED_OPS else None


def broken_rule(a, b):
    """The rule that file a breaks by including file b; None: it may."""
    room, other = a.split("/")[0], b.split("/")[0]
    if any(a.startswith(x) and b.startswith(y) for x, y in BESIDE) or a.startswith("ops/") and a.endswith("call.c") and b == "dispatch/dispatch.h":
        return None  # public functions stand above the dispatcher
    if room != other and other not in BELOW[room]:
        return "%s/ includes only %s" % (room, ", ".join(x + "/" for x in BELOW[room]) or "nothing of other rooms")
    if a.startswith("ops/device/") and not b.startswith("ops/device/"):
        return "ops/device/ includes nothing but itself"
    if room == other == "ops" and operator(b) and operator(a) != operator(b):
        return "of operators' folders only the operator's own" if operator(a) else "what operators share includes no operator's folder"
    if b.startswith("tuner/") and room in ("tuner", "bench") and not b.startswith(SHARED_TUNER) and os.path.dirname(a) != os.path.dirname(b):
        return "of the tuner's rooms only the own and " + SHARED_TUNER
    return None


class Tree:
    def __init__(self, root):
        self.bad = []
        self.files = list(sources(root))
        self.text = {f: open(os.path.join(root, f), errors="replace").read() for f in self.files}
        known = set(self.files)
        self.arrows = []  # (file, line, included file)
        for f in self.files:
            for n, line in enumerate(self.text[f].split("\n"), 1):
                m = INCLUDE.match(line)
                # As the compiler looks: beside the file, from the top, in include/, in ops/; kernels: in ops/device/.
                for where in (os.path.dirname(f), "", "include", "ops", "ops/device") if m else ():
                    target = os.path.normpath(os.path.join(where, m[2]))
                    if target in known and not (where == os.path.dirname(f) and m[1] == "<"):
                        self.arrows.append((f, n, target))
                        break
        self.named = known | set(os.path.relpath(os.path.join(d, x), root) for d, _, fs in os.walk(root) for x in fs
                                 if x.endswith((".py", ".md", ".def", ".csv")) and not os.path.relpath(d, root).startswith(("build", ".git")))

    def say(self, where, line, what, rule):
        self.bad.append("%s:%d: %s: %s" % (where, line, what, rule))

    def check(self):
        self.check_arrows()
        self.check_circles()
        self.check_sizes()
        self.check_conditionals()
        self.check_targets()
        self.check_names()
        return self.bad

    def check_arrows(self):
        for f, n, target in self.arrows:
            rule = broken_rule(f, target)
            if rule:
                self.say(f, n, "%s -> %s" % (f, target), rule)

    def check_circles(self):
        folders = collections.defaultdict(set)
        for f, n, target in self.arrows:
            if os.path.dirname(f) != os.path.dirname(target):
                folders[os.path.dirname(f)].add(os.path.dirname(target))
        for circle in circles(folders):
            for f, n, target in self.arrows:
                if os.path.dirname(f) != os.path.dirname(target) and {os.path.dirname(f), os.path.dirname(target)} <= set(circle):
                    self.say(f, n, "%s -> %s" % (f, target), "folders include each other in no circle: " + ", ".join(circle))
        # A file is a source with its header. A header with no source of its name is a part of those who include it.
        stem = lambda path: os.path.splitext(path)[0]
        own = {stem(f) for f in self.files if not f.endswith((".h", ".def"))}
        direct = collections.defaultdict(set)
        for f, n, target in self.arrows:
            direct[stem(f)].add(stem(target))

        def reached(name, seen):
            for to in direct[name]:
                if to in own:
                    yield to
                elif to not in seen:
                    seen.add(to)
                    yield from reached(to, seen)

        graph = {name: {to for to in reached(name, set()) if to != name and os.path.dirname(to) == os.path.dirname(name)} for name in own}
        found = circles(graph)
        if len(found) > MOST_FILE_CYCLES:
            for circle in found:
                self.say(circle[0], 1, " <-> ".join(circle), "at most %d circles of files that include each other's headers" % MOST_FILE_CYCLES)

    def check_sizes(self):
        for f in self.files:
            n = self.text[f].count("\n")
            if n > MOST_LINES and not f.endswith("_words.def"):  # a list that a program wrote
                self.say(f, n, "%d lines" % n, "a file has at most %d" % MOST_LINES)

    def check_conditionals(self):
        count = collections.Counter()
        for f in self.files:
            if f.startswith("ops/") and not f.startswith("ops/device/"):
                text = self.text[f].replace("\\\n", " ")
                count[f] = sum(1 for line in text.split("\n") if ARCHITECTURE.search(line) or ON_WAVE.match(line))
        total = sum(count.values())
        if total > MOST_CONDITIONALS:
            for f, n in count.most_common():
                if n:
                    self.say(f, 1, "%d conditionals on an architecture" % n, "outside ops/device/ at most %d, there are %d" % (MOST_CONDITIONALS, total))
        self.conditionals = total

    def check_targets(self):
        for f in self.files:
            if f.startswith("ops/"):
                for call in COMPARED.finditer(self.text[f]):
                    line = self.text[f].count("\n", 0, call.start()) + 1
                    self.say(f, line, call[0], "ops/ compares no target's name, it asks dev->hw (base/arch.h)")

    def check_names(self):
        tails = collections.defaultdict(set)  # the ends of all paths
        for path in self.named:
            parts = path.split("/")
            for i in range(len(parts)):
                tails["/".join(parts[i:])].add(path)
        for f in self.files:
            for comment in COMMENT.finditer(self.text[f]):
                if comment[0][0] != "/":
                    continue
                for name in NAMED.finditer(comment[0]):
                    if name[1] not in tails and name[1] not in OTHERS:
                        line = self.text[f].count("\n", 0, comment.start() + name.start()) + 1
                        self.say(f, line, "'%s'" % name[1], "a file that a comment names exists")


def self_test():
    good = {
        "include/rfg/core.h": "", "base/log.h": "", "base/log.c": '#include "log.h"\n', "ops/op.h": '#include "base/log.h"\n#include "rfg/core.h"\n',
        "ops/model/model.h": '#include "ops/op.h"\n', "ops/device/rfg_device.h": "#if RFG_AMD\n#endif\n",
        "ops/a/a.hip": '#include "rfg_device.h"\n', "ops/a/a.c": '#include "a.h"\n#include "ops/model/model.h"\n', "ops/a/a.h": "/* Not in b.c. */\n",
        "ops/b/b.c": '#include "ops/op.h"\n', "dispatch/context.h": '#include "ops/op.h"\n', "dispatch/hip/hip.h": '#include "ops/op.h"\n',
        "emu/hip/hip_emu.c": '#include "dispatch/hip/hip.h"\n', "tuner/harness/case.h": "", "tuner/tune/tune.c": '#include "dispatch/context.h"\n#include "tuner/harness/case.h"\n', "tests/test.c": '#include "emu/hip/hip_emu.c"\n',
    }
    planted = [  # a file, what it holds, what must be said of it
        ("ops/a/bad.c", '\n#include "dispatch/context.h"\n', "ops/a/bad.c:2: ops/a/bad.c -> dispatch/context.h: ops/ includes only"),
        ("ops/a/bad.c", '#include "../b/b.c"\n', "ops/a/bad.c:1: ops/a/bad.c -> ops/b/b.c: of operators' folders"),
        ("ops/model/bad.c", '#include "ops/a/a.h"\n', "what operators share includes no operator's folder"),
        ("ops/device/bad.h", '#include "ops/op.h"\n', "ops/device/ includes nothing but itself"),
        ("base/bad.c", '#include <ops/op.h>\n', "base/bad.c:1: base/bad.c -> ops/op.h: base/ includes only include/"),
        ("dispatch/bad.c", ' # include "emu/hip/hip_emu.c"\n', "dispatch/ includes only"),
        ("dispatch/bad.c", '#include "tuner/tune/tune.c"\n', "dispatch/ includes only"),
        ("emu/bad.c", '#include "dispatch/context.h"\n', "emu/ includes only"),
        ("tuner/bad.c", '#include "emu/hip/hip_emu.c"\n', "tuner/ includes only"),
        ("tuner/db/bad.c", '#include "tuner/tune/tune.c"\n', "of the tuner's rooms only the own and"),
        ("tuner/harness/bad.c", '#include "../tune/tune.c"\n', "of the tuner's rooms only the own and"),
        ("bench/bad.c", '#include "tuner/tune/tune.c"\n', "of the tuner's rooms only the own and"),
        ("examples/bad.c", '#include "base/log.h"\n', "examples/ includes only include/"),
        ("dispatch/context.c", '#include "dispatch/hip/hip.h"\n', None),
        ("tuner/long.c", "\n" * (MOST_LINES + 1), "tuner/long.c:701: 701 lines"),
        ("ops/a/bad.h", "#if FOO \\\n && RFG_WAVE == 64\n#endif\n" * (MOST_CONDITIONALS + 1), "conditionals on an architecture"),
        ("ops/a/bad.c", "x = RFG_NVIDIA ? 1 : 2;\n" * (MOST_CONDITIONALS + 1), "conditionals on an architecture"),
        ("ops/a/bad.c", '\nx = !strcmp(dev->target, name);\n', "ops/a/bad.c:2: strcmp(dev->target: ops/ compares no target's name"),
        ("ops/a/bad.h", 'x = strncmp(f(dev),\n "gfx11", 5);\n', "ops/ compares no target's name"),
        ("ops/a/bad.c", 'x = strstr(copy.target, "x") || strncasecmp(dev->arch, s, 3);\n', "ops/ compares no target's name"),
        ("ops/a/bad.c", 'x = !strcmp(a->arch, dev->hw->name) || f(dev->target, "gfx942");\n', None),
        ("base/bad.c", 'int a; /* see\n * there.c. */\n', "base/bad.c:2: 'there.c': a file that a comment names exists"),
    ]
    several = [  # several files at once
        ({"dispatch/context.c": '#include "dispatch/hip/hip.h"\n', "dispatch/hip/bad.c": '#include "dispatch/context.h"\n'}, "in no circle: dispatch, dispatch/hip"),
        ({"base/%s%d.%s" % (n, i, e): '#include "%s%d.h"\n' % (m, i) if e == "c" else "" for i in range(MOST_FILE_CYCLES + 1)
          for n, m in ("xy", "yx") for e in "ch"}, "base/x0 <-> base/y0: at most"),
    ]
    for files, wanted in [({f: text}, wanted) for f, text, wanted in planted] + several + [({}, None)]:
        with tempfile.TemporaryDirectory() as root:
            for f, text in {**good, **files}.items():
                os.makedirs(os.path.dirname(os.path.join(root, f)), exist_ok=True)
                open(os.path.join(root, f), "w").write(text)
            bad = Tree(root).check()
            if bad if wanted is None else not any(wanted in line for line in bad):
                sys.exit("%s: wanted %s, got %s" % (", ".join(files), wanted or "no finding", bad or "none"))
    print("1 passed, 0 failed")


if "--self-test" in sys.argv[1:]:
    self_test()
    sys.exit()
tree = Tree(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
for line in tree.check():
    print(line)
print("%d arrows, %d conditionals on an architecture outside ops/device/" % (len(tree.arrows), tree.conditionals))
sys.exit(len(tree.bad) > 0)
