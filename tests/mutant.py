# SPDX-License-Identifier: MIT
r"""Mutants: small changes of the sources, each with the check that fails on it. tests/mutate.py runs them.

A mutant is a line of a table tests/mutants/*.tsv, with tabs between:

    name      <area>-<slug>
    file      what is changed
    old       the shortest text around the change that stands exactly once in the file; \n, \t and \\ are escapes
    new       the text in its place
    check     environment, target of the build folder, arguments: case=shapes problem="gemm ..." tests/test-gemm
    what      what is wrong: bias is read one element past N
    survives  why no test can tell (only where that is so)

Further changes of the same mutant are lines below it: name, file, old, new. SHORT and GPU have the words that a check may begin with.

  mutant.py --self-test   tables made for it, right and wrong ones, and code that moves
"""
import collections
import contextlib
import glob
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLES = "tests/mutants"

# Short words of a check's environment: case=x is CK_RUN_CASE=x; gfx942 is both variables of its row, and what follows may say otherwise.
SHORT = {"case": "CK_RUN_CASE", "configs": "RFG_TEST_CONFIGS", "devices": "RFG_TEST_DEVICES", "problem": "RFG_TEST_PROBLEM"}
GPU = {"gfx942": {"RFG_TEST_DEVICES": "emu:gfx942:4", "RFG_TEST_CONFIGS": "1"}}

COLUMNS = "name file old new check what survives"
Row = collections.namedtuple("Row", "table number " + COLUMNS)
ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def unescaped(text):
    return re.sub(r"\\.?", lambda m: ESCAPES[m[0]], text)


def escaped(text):
    return re.sub(r"[\n\t\\]", lambda m: next(e for e, c in ESCAPES.items() if c == m[0]), text)


def place(row):
    return "%s:%d" % (row.table, row.number)


def refuse(row, rule):
    sys.exit("%s: %s" % (place(row), rule))


def rows(root=ROOT):
    out = []
    for path in sorted(glob.glob("%s/%s/*.tsv" % (root, TABLES))):
        with open(path) as file:
            lines = list(file)
        for n, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            row = Row(os.path.relpath(path, root), n, *(fields + [""] * 7)[:7])
            if len(fields) > 7 or not (row.name and row.file and row.old.strip()):
                refuse(row, "must be %s, with tabs between" % ", ".join(COLUMNS.split()))
            try:
                out.append(row._replace(old=unescaped(row.old), new=unescaped(row.new)))
            except KeyError as e:
                refuse(row, "'%s': must be one of %s" % (e.args[0], " ".join(ESCAPES)))
    return out


def read_check(text):
    """(environment, command)"""
    env, command = {}, []
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        if not command and word in GPU:
            env.update(GPU[word])
        elif not command and equals:
            env[SHORT.get(name, name)] = value
        else:
            command.append(word)
    return env, command


def read(path):
    """None if it isn't there, or no text."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


class Mutant:
    def __init__(self, changes):
        first, self.changes = changes[0], changes
        if not first.check or not first.what or any(row.check for row in changes[1:]):
            refuse(first, "%s: must say in its first line, and only there, its check and what it is" % first.name)
        self.name, self.what, self.survives = first.name, first.what, first.survives
        self.env, self.run = read_check(first.check)
        if not self.run:
            refuse(first, "'%s': must name a program" % first.check)
        self.files = sorted({row.file for row in changes})
        self.nvidia = "nvidia" in self.env.get("RFG_TEST_DEVICES", "")

    def changed(self, root=ROOT):
        """{file: (its text, the text with the change)} of the sources there. ValueError: it can't be made of them."""
        out = {}
        for file in self.files:
            text, after, end = read(os.path.join(root, file)) or "", "", 0
            mine = [row for row in self.changes if row.file == file]
            for row in sorted(mine, key=lambda row, text=text: text.find(row.old)):
                times, at = text.count(row.old), text.find(row.old)
                if times != 1:
                    raise ValueError("%s: %s: '%s' is there %d times: must be there exactly once" % (place(row), file, escaped(row.old), times))
                if at < end:
                    raise ValueError("%s: %s: '%s' overlaps another line's text" % (place(row), file, escaped(row.old)))
                after, end = after + text[end:at] + row.new, at + len(row.old)
            out[file] = text, after + text[end:]
        return out


def all_mutants(root=ROOT):
    every = [Mutant(list(group)) for _, group in itertools.groupby(rows(root), key=lambda row: row.name)]
    every.sort(key=lambda m: m.name)
    for a, b in zip(every, every[1:]):
        if a.name == b.name:
            refuse(b.changes[0], "%s: that name is taken: %s" % (b.name, place(a.changes[0])))
    return every


def check(mutants, root=ROOT):
    bad = 0
    for m in mutants:
        try:
            m.changed(root)
        except ValueError as e:
            bad += 1
            print("%s: %s" % (m.name, e))
    print("%d passed, %d failed" % (len(mutants) - bad, bad))
    return bad


# ---- --follow: code that moved

def loosely(old):
    """A pattern for the text however it is laid out: what is between words and signs may differ, and how far its first line is indented."""
    words = re.findall(r"\w+|[^\w\s]", old)
    text = re.escape(words[0])
    for a, b in zip(words, words[1:]):
        text += (r"\s+" if re.match(r"\w", a) and re.match(r"\w", b) else r"\s*") + re.escape(b)
    first, last = (re.sub(r"[^\S\n]+", lambda blanks: r"[^\S\n]*", edge) for edge in (old[:-len(old.lstrip())], old[len(old.rstrip()):]))
    return first + text + last


def laid_out(old, new, found):
    """The new text, in what it shares with the old one laid out as the old one was found."""
    a, b, c = ([(m.start(), m.end(), m[0]) for m in re.finditer(r"\w+|[^\w\s]", text)] for text in (old, new, found))
    least, head, tail = min(len(a), len(b)), 0, 0
    while head < least and a[head][2] == b[head][2]:
        head += 1
    while tail < least - head and a[-1 - tail][2] == b[-1 - tail][2]:
        tail += 1
    start = [words[head - 1][1] if head else 0 for words in (b, c)]
    end = [words[-tail][0] if tail else len(text) for words, text in ((b, new), (c, found))]
    return found[:start[1]] + new[start[0]:end[0]] + found[end[1]:]


def find_again(row, texts):
    """(file, old, new) as they are now: the one place in its file, or else the one in all others; None if there is none or more."""
    loose, exact = re.compile(loosely(row.old)), re.compile(re.escape(row.old))

    def places_in(files):  # of Python, layout is grammar
        return [(f, m[0]) for f in files for m in (exact if f.endswith(".py") else loose).finditer(texts.get(f, ""))]

    places = places_in([row.file]) or places_in(texts)
    if len(places) != 1:
        return None
    file, old = places[0]
    new = row.new if old == row.old else laid_out(row.old, row.new, old)
    return (file, old, new) if new != old else None


def follow(root=ROOT):
    """Mends the lines whose old text isn't there any more, from where it is now. Returns how many are lost."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True).stdout
    texts = {f: read(os.path.join(root, f)) for f in listed.split("\n")[:-1] if not f.endswith((".md", ".tsv"))}
    texts = {f: text for f, text in texts.items() if text is not None}
    mended = lost = 0
    for table, of_table in itertools.groupby(rows(root), key=lambda row: row.table):
        lines = read(os.path.join(root, table)).split("\n")
        for row in of_table:
            if texts.get(row.file, "").count(row.old) == 1:
                continue
            now = find_again(row, texts)
            if now:
                mended += 1
                fields = lines[row.number - 1].split("\t")
                fields[1:4] = now[0], escaped(now[1]), escaped(now[2])
                lines[row.number - 1] = "\t".join(fields).rstrip("\t")
                print("%s: %s: found %s" % (row.name, row.file, "in " + now[0] if now[0] != row.file else "laid out anew"))
            else:
                lost += 1
                print("%s: %s: lost: '%s'" % (row.name, row.file, escaped(row.old)))
        write(os.path.join(root, table), "\n".join(lines))
    print("%d found, %d lost" % (mended, lost))
    return lost


# ---- --self-test

HEAD = "int clamp(int n)\n{\n    if (n > 9)\n        n = 9;\n    return n;\n}\n"
REST = "int next(int n)\n{\n    n++;\n    return n;\n}\n"
TABLE = "# a comment\nlate\tops/a.c\tn > 9\tn > 10\tgfx942 configs=2 case=x problem=\"a b\" tests/test-a -k b=c\t9 is cut\tnobody asks\n" \
        "cut\tops/a.c\t        n = 9;\\n\t\ttests/test-a\tnothing is cut\ncut\tops/a.c\tn++\tn--\n"
# Tables of a tree with HEAD and REST in ops/a.c, and what is said of them.
WRONG = [
    ("a|ops/a.c|return n|return 0|tests/a|b", "'return n' is there 2 times: must be there exactly once"),
    ("a|ops/a.c|n > 8|n|tests/a|b", "'n > 8' is there 0 times"),
    ("a|ops/c.c|n > 9|n|tests/a|b", "ops/c.c: 'n > 9' is there 0 times"),
    ("a|ops/a.c|n > 9|n|tests/a|b;a|ops/a.c|9)|8)", "'9)' overlaps another line's text"),
    ("a|ops/a.c||n|tests/a|b", "must be name, file, old, new, check, what, survives"),
    ("a|ops/a.c|n > 9\\r|n|tests/a|b", "'\\r': must be one of"),
    ("a|ops/a.c|n > 9|n|case=b|b", "'case=b': must name a program"),
    ("a|ops/a.c|n > 9|n|tests/a", "a: must say in its first line"),
    ("a|ops/a.c|n > 9|n|tests/a|b;b|ops/a.c|n++|n|tests/a|b;a|ops/a.c|n > 9|n|tests/a|b", "that name is taken: tests/mutants/a.tsv:1"),
]
# Texts of ops/a.c and ops/b.c, and what follow() makes of TABLE: its lines' files, the first's old and new text, how many are lost.
MOVES = [
    (REST, HEAD, "ops/b.c ops/b.c ops/a.c", "n > 9", "n > 10", 0),
    (HEAD.replace("n > 9", "n\n  > 9").replace("        n =", "    n ="), REST, "ops/a.c ops/a.c ops/b.c", "n\n  > 9", "n\n  > 10", 0),
    (HEAD + HEAD, REST, "ops/a.c ops/a.c ops/b.c", "n > 9", "n > 10", 2),
    (HEAD.replace("9", "8"), "", "ops/a.c ops/a.c ops/a.c", "n > 9", "n > 10", 3),
]


def self_test():
    wanted = []
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        for folder in ("ops", TABLES):
            os.makedirs(os.path.join(root, folder))

        def tree(table, a, b):
            for path, text in ((TABLES + "/a.tsv", table), ("ops/a.c", a), ("ops/b.c", b)):
                write(os.path.join(root, path), text)

        tree(TABLE, HEAD + REST, "")
        cut, late = all_mutants(root)
        wanted += [cut.changed(root) == {"ops/a.c": (HEAD + REST, (HEAD + REST).replace("        n = 9;\n", "").replace("n++", "n--"))},
                   late.env == {"RFG_TEST_DEVICES": "emu:gfx942:4", "RFG_TEST_CONFIGS": "2", "CK_RUN_CASE": "x", "RFG_TEST_PROBLEM": "a b"},
                   late.run == ["tests/test-a", "-k", "b=c"] and late.survives == "nobody asks" and not cut.survives]
        for table, rule in WRONG:
            tree(table.replace("|", "\t").replace(";", "\n") + "\n", HEAD + REST, "")
            try:
                said = "".join(str(m.changed(root)) for m in all_mutants(root))
            except (SystemExit, ValueError) as e:
                said = str(e)
            wanted.append("tests/mutants/a.tsv:" in said and rule in said)
        for a, b, files, old, new, lost in MOVES:
            tree(TABLE, a, b)
            with contextlib.redirect_stdout(io.StringIO()):
                count = follow(root)
            now = rows(root)
            wanted.append((" ".join(row.file for row in now), now[0].old, now[0].new, count) == (files, old, new, lost))
    for n, right in enumerate(wanted):
        if not right:
            print("self-test %d failed" % n)
    print("%d passed, %d failed" % (sum(wanted), len(wanted) - sum(wanted)))
    return sum(wanted) < len(wanted)


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else __doc__)
