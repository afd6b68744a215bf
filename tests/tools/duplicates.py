#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds passages of LEAST lines or more that occur twice, identical except for white space. Blank lines, comments, lone punctuation and
includes don't count. docs/architecture.md lists those that stay, each with its reason; any other is a finding, and so is one listed that is gone.

  tests/tools/duplicates.py [ROOT]        says each finding; exit 1 if there is one
  tests/tools/duplicates.py --self-test   that a passage written twice is found, and one of five lines is not
"""
import collections
import os
import re
import sys
import tempfile

ROOMS = "include base ops dispatch emu tuner bench tests examples bindings".split()
LEAST = 6
MOST = 10  # passages that may stay
LIST = "docs/architecture.md"
# "* `a.c`, `b.c`: the reason" after the heading
HEADING = "Repeated passages"
LISTED = re.compile(r"^\* ((?:`[^`]+`(?:, )?)+):(?: |$)")

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)
HASH = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
THIN = re.compile(r"[^\w]*$|#\s*include\b|import\b|from\b")


def code(path, text):
    """[(line number, its code)] of the lines that count."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m[0]) if m[0][0] in "/#" else m[0]
    text = (HASH if path.endswith(".py") else COMMENT).sub(blank, text)
    lines = ((n, " ".join(line.rstrip("\\").split())) for n, line in enumerate(text.split("\n"), 1))
    return [(n, line) for n, line in lines if not THIN.match(line)]


def passages(texts):
    """[(lines, (file, first line), (file, first line))] of {file: text}, the longest first."""
    lines = {f: code(f, text) for f, text in texts.items()}
    places = collections.defaultdict(list)
    for f, of_file in lines.items():
        for i in range(len(of_file) - LEAST + 1):
            places[tuple(line for _, line in of_file[i:i + LEAST])].append((f, i))
    longest = {}
    for where in places.values():
        for a, (f, i) in enumerate(where):
            for g, j in where[a + 1:]:
                n = LEAST
                while i + n < len(lines[f]) and j + n < len(lines[g]) and lines[f][i + n][1] == lines[g][j + n][1]:
                    n += 1
                if (f != g or i + n <= j) and n > longest.get((f, g, j - i), (0,))[0]:
                    longest[f, g, j - i] = n, (f, lines[f][i][0]), (g, lines[g][j][0])
    return sorted(longest.values(), reverse=True)


def findings(root):
    texts = {}
    for room in ROOMS:
        for folder, folders, names in os.walk(os.path.join(root, room)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".hip", ".def", ".cu", ".py")):
                    path = os.path.join(folder, name)
                    texts[os.path.relpath(path, root)] = open(path, errors="replace").read()
    text = open(os.path.join(root, LIST)).read()
    listed = [re.findall("`([^`]+)`", m[1]) for m in map(LISTED.match, text.partition(HEADING)[2].split("\n")) if m]
    used, bad = set(), []
    for n, (f, i), (g, j) in passages(texts):
        reasons = [k for k, files in enumerate(listed) if all(any(x == y or y.endswith("/") and x.startswith(y) for y in files) for x in (f, g))]
        used.update(reasons)
        if not reasons:
            bad.append("%s:%d: %d lines stand again at %s:%d: make them one, or say in %s why not" % (f, i, n, g, j, LIST))
    bad += ["%s: '%s': nothing stands twice there any more" % (LIST, ", ".join(listed[k])) for k in range(len(listed)) if k not in used]
    return bad + ["%s: %d passages: at most %d may stay" % (LIST, len(listed), MOST)] * (len(listed) > MOST), len(listed)


def self_test():
    passage = "".join("int f%d(int x)\n{\n    return x + %d; // %%s\n}\n" % (i, i) for i in range(3))  # 6 lines that count
    a, b = "#include <a.h>\n" + passage % (("here",) * 3), "/* int f0(int x) */\n\n" + passage % (("there",) * 3)
    short = b.replace("return x + 2", "return x - 2")
    row = "\n* `ops/`, `emu/b.c`: a reason"
    for files, listed, wanted in (((a, b), "", "ops/a.c:2: 6 lines stand again at emu/b.c:3"), ((a, b), row, None), ((a, short), "", None),
                                  ((a, short), row, "nothing stands twice"), (("", a + "int y;\n" + b), "", "emu/b.c:2: 6 lines"),
                                  ((a, b), row * (MOST + 1), "at most")):
        with tempfile.TemporaryDirectory() as root:
            for path, text in zip(("ops/a.c", "emu/b.c", LIST), files + (HEADING + listed,)):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                open(os.path.join(root, path), "w").write(text)
            bad = findings(root)[0]
            if bad if wanted is None else not any(wanted in line for line in bad):
                sys.exit("wanted %s, got %s" % (wanted or "no finding", bad or "none"))
    print("1 passed, 0 failed")


if "--self-test" in sys.argv[1:]:
    self_test()
    sys.exit()
bad, stay = findings(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
for line in bad:
    print(line)
print("%d passages stay" % stay)
sys.exit(len(bad) > 0)
