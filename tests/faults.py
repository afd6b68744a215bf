#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws faults: small changes of the sources that a test should notice, which nobody listed. `./dev mutate --generate` runs tests on them.

  faults.py SEED N [PATHS...]   N faults as diff lines, always the same of one seed, one N, the same paths and the same sources
  faults.py --count [PATHS...]  how many places there are of each kind, by folder
  faults.py --check             that each line of tests/equivalents.tsv still matches a line of its file
  faults.py --self-test         each kind on a few lines made for it

The kind is drawn first, each as likely as any other, then a line that has a place of that kind, then the place. Kinds: KINDS below.

tests/equivalents.tsv lists faults that no test can see, each with the reason: file, old text, new text, reason, with tabs between. Texts are
lines without the white space around them (several lines: with one space between), so that edits elsewhere don't matter. FILE#N means the N-th
place of the old text in the file.
"""
import argparse
import bisect
import collections
import hashlib
import itertools
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults_c  # noqa: E402
import faults_py  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EQUIVALENTS = "tests/equivalents.tsv"
PATHS = ["ops", "dispatch", "tuner", "emu", "base", "bindings/python/rfg", "bindings/python/src"]
KINDS = {
    "comparison": "< and <=, > and >=, == and != exchanged",
    "constant": "an integer one more or less",
    "swapped": "operands of -, /, %, << or two arguments alike exchanged",
    "arithmetic": "+ and - exchanged, * made +, && and || exchanged",
    "dropped": "an assignment or a call left out",
    "mask": "& of a mask, % or a minimum, maximum or clamp left out",
    "barrier": "a barrier or a fence left out",
    "wait": "a wait for copies, streams, events or conditions left out",
    "rounding": "another rounding",
    "check": "a check of an argument never taken",
    "unlock": "an unlock or a signal left out",
    "status": "a status made RFG_OK",
}
BY_CHOICE = {"leak": "what frees left out: only ASan sees it"}
# Not by default: benchmarks, what draws the tests' data, stubs that stand in for others' libraries in tests, tables, what runs at build time.
LEFT_OUT = re.compile(r"(^|/)(\w+_)?case(_data)?\.[ch]$|(^|/)mock_\w+\.[ch]$|^emu/isa/isa_list\.c$|^emu/rocm/exports\.py$|(^|/)tests/|^bindings/python/bench/")
# Kernels that only NVIDIA's GPUs run: nothing runs them here.
NVIDIA = re.compile(r"^ops/(.*/)?(nvidia/\w+|\w*(nvidia|wgmma|tma)\w*)(?<!_layout)\.(hip|h)$")
SOURCES = (".c", ".h", ".hip", ".py")


class Fault(collections.namedtuple("Fault", "id kind file line old new")):
    """old and new are whole lines, the first of which is line."""

    def apply(self, text):
        lines, old = text.split("\n"), self.old.split("\n")
        at = self.line - 1
        if lines[at:at + len(old)] != old:
            raise ValueError("%s:%d is not what it was" % (self.file, self.line))
        return "\n".join(lines[:at] + self.new.split("\n") + lines[at + len(old):])

    def diff(self):
        return "\n".join(["%s:%d %s %s" % (self.file, self.line, self.kind, self.id)] + ["-" + line for line in self.old.split("\n")] +
                         ["+" + line for line in self.new.split("\n")])

    def short(self):
        """old -> new, what they share cut off at words' ends."""
        old, new = squeezed(self.old), squeezed(self.new)
        a = len(os.path.commonprefix([old, new]))
        b = len(os.path.commonprefix([old[a:][::-1], new[a:][::-1]]))
        start = max(0, a - 20)
        parts = [("…" * (start > 0)) + t[start:len(t) - b + min(b, 20)] + "…" * (b > 20) for t in (old, new)]
        return " -> ".join(p if len(p) <= 90 else p[:45] + " … " + p[-40:] for p in parts)


def squeezed(text):
    return " ".join(text.split())


def edits(path, text):
    return (faults_py if path.endswith(".py") else faults_c).edits(text)


def faults_of(path, text):
    """Every fault of a file, in order of places. What two kinds make alike is of the rarer one."""
    lines = text.split("\n")
    starts = [0] + list(itertools.accumulate(len(line) + 1 for line in lines))
    out, seen = [], set()
    for kind, start, end, new in sorted(edits(path, text), key=lambda e: (e[0] in ("constant", "arithmetic"), e)):
        first, last = bisect.bisect_right(starts, start) - 1, bisect.bisect_right(starts, max(start, end - 1)) - 1
        old = "\n".join(lines[first:last + 1])
        changed = text[starts[first]:start] + new + text[end:starts[last] + len(lines[last])]
        changed = "\n".join(line.rstrip() if line != kept else line for line, kept in itertools.zip_longest(changed.split("\n"), old.split("\n")) if line is not None)
        name = hashlib.sha256(("%s\n%d\n%s\n%s" % (path, first, old, changed)).encode()).hexdigest()[:8]
        if squeezed(old) != squeezed(changed) and name not in seen:
            seen.add(name)
            out.append((start, Fault(name, kind, path, first + 1, old, changed)))
    return [fault for _, fault in sorted(out)]


def sources(paths=None, root=ROOT):
    """The files that faults are made in; one that paths name is taken in any case."""
    listed = subprocess.run(["git", "ls-files", "--"] + list(paths or PATHS), cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted(f for f in listed if f.endswith(SOURCES) and (f in (paths or []) or not LEFT_OUT.search(f) and not NVIDIA.match(f)))


def read(path, root=ROOT):
    with open(os.path.join(root, path)) as file:
        return file.read()


def draw(seed, paths=None, kinds=None, root=ROOT):
    """Faults without end of a seed: each once."""
    places = {kind: collections.defaultdict(list) for kind in kinds or KINDS}
    for path in sources(paths, root):
        for fault in faults_of(path, read(path, root)):
            if fault.kind in places:
                places[fault.kind][path, fault.line].append(fault)
    left = {kind: list(of_lines.items()) for kind, of_lines in places.items()}
    rng = random.Random(str(seed))
    while True:
        left = {kind: lines for kind, lines in left.items() if lines}
        if not left:
            return
        lines = left[rng.choice(sorted(left))]
        k = rng.randrange(len(lines))
        of_line = lines[k][1]
        yield of_line.pop(rng.randrange(len(of_line)))
        if not of_line:
            lines[k] = lines[-1]
            lines.pop()


def generate(seed, n, paths=None, kinds=None, root=ROOT):
    return list(itertools.islice(draw(seed, paths, kinds, root), n))


def read_equivalents(root=ROOT):
    """[(line number, file, old, new, reason, which place, or None)]"""
    path, rows = os.path.join(root, EQUIVALENTS), []
    for n, line in enumerate(open(path) if os.path.exists(path) else [], 1):
        if line.strip() and not line.startswith("#"):
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 4 or not all(f.strip() for f in fields):
                sys.exit("%s:%d: must be file, old text, new text and reason, with tabs between" % (EQUIVALENTS, n))
            file, _, place = fields[0].partition("#")
            rows.append((n, file, squeezed(fields[1]), squeezed(fields[2]), fields[3], int(place) if place else None))
    return rows


def equivalents(root=ROOT):
    """{(file, old, new): {place or None: reason}}"""
    known = collections.defaultdict(dict)
    for _, file, old, new, reason, place in read_equivalents(root):
        known[file, old, new][place] = reason
    return known


def key(fault):
    return fault.file, squeezed(fault.old), squeezed(fault.new)


def place_of(fault, text):
    """The how many-th place of a fault's old lines in its file's text it is, from 1 on."""
    lines, n = text.split("\n"), fault.old.count("\n") + 1
    return sum(squeezed(" ".join(lines[i:i + n])) == squeezed(fault.old) for i in range(fault.line))


def reason(fault, known, root=ROOT):
    """Why no test can see a fault, by equivalents(), or None."""
    places = known.get(key(fault), {})
    return places.get(None) or places and places.get(place_of(fault, read(fault.file, root))) or None


def check(root=ROOT):
    bad, rows, texts = 0, read_equivalents(root), {}
    for n, path, old, new, _, place in rows:
        if path not in texts:
            full = os.path.join(root, path)
            text = read(path, root) if os.path.exists(full) else ""
            texts[path] = {(*key(f), at) for f in faults_of(path, text) for at in (None, place_of(f, text))}
        if (path, old, new, place) not in texts[path]:
            bad += 1
            print("%s:%d: no fault in %s has this old and this new text any more" % (EQUIVALENTS, n, path))
    twice = [row for row, times in collections.Counter((*r[1:4], r[5]) for r in rows).items() if times > 1]
    for row in twice:
        print("%s: %s: '%s' is listed twice" % (EQUIVALENTS, row[0], row[1]))
    print("%d passed, %d failed" % (len(rows) - bad, bad + len(twice)))
    return bad + len(twice)


def count(paths, root=ROOT):
    table, lines = collections.Counter(), collections.defaultdict(set)
    for path in sources(paths, root):
        for fault in faults_of(path, read(path, root)):
            table[path.split("/")[0], fault.kind] += 1
            lines[fault.kind].add((path, fault.line))
    tops = sorted({top for top, _ in table})
    print("%-12s" % "kind" + "".join("%10s" % top for top in tops) + "%10s%10s" % ("all", "lines"))
    for kind in list(KINDS) + list(BY_CHOICE):
        row = [table[top, kind] for top in tops]
        print("%-12s" % kind + "".join("%10d" % n for n in row) + "%10d%10d" % (sum(row), len(lines[kind])))


def self_test():
    import faults_cases
    failed = 0
    for name, path, text, wanted in faults_cases.CASES:
        got = collections.defaultdict(list)
        for fault in faults_of(path, text):
            got[fault.kind].append(squeezed(fault.new))
        kinds = {kind for kind, _ in wanted}
        got = sorted((kind, new) for kind in got for new in got[kind] if name == "all" or kind in kinds)
        if got != sorted(wanted):
            failed += 1
            print("%s: %s:" % (path, name))
            for row in sorted(set(got) ^ set(wanted)):
                print("  %s %s: %s" % (("not wanted", "wanted")[row in wanted], *row))
    print("%d passed, %d failed" % (len(faults_cases.CASES) - failed, failed))
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("words", nargs="*", metavar="SEED N PATHS", help="what to draw; with --count: paths")
    p.add_argument("--kinds", help="only these, with commas between (%s; %s)" % (", ".join(KINDS), ", ".join(BY_CHOICE)))
    p.add_argument("--count", action="store_true")
    p.add_argument("--check", action="store_true")
    p.add_argument("--self-test", action="store_true")
    a = p.parse_args()
    if a.self_test:
        sys.exit(self_test() > 0)
    if a.check:
        sys.exit(check() > 0)
    if a.count:
        return count(a.words)
    if len(a.words) < 2 or not a.words[1].isdigit():
        p.error("needs SEED and N")
    for fault in generate(a.words[0], int(a.words[1]), a.words[2:], a.kinds and a.kinds.split(",")):
        print(fault.diff())


if __name__ == "__main__":
    main()
