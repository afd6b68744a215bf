# SPDX-License-Identifier: MIT
"""`./dev mutate --generate SEED N [PATHS...]`: makes N faults (faults.py), and runs on each what tests/suites.py says can see it.

Tests of `./dev test` run first, the cheapest first; with --deep those that `./dev test --changed` adds follow. The first that fails kills the
fault. Each test first runs in a tree without faults, built with gcov: it counts only if it passes there, and runs only on faults whose lines it
runs there (macros, tables and kernels: on all). Kept for later runs on the same sources. A fault that doesn't compile is counted apart, and
another is drawn. A survivor is a hole in the tests, or a line of tests/equivalents.tsv.
"""
import argparse
import collections
import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import faults

MEMORY, FILE = 12 << 30, 2 << 30  # what a test may take
LEAST_LIMIT, PATIENCE = 20, 5     # seconds, times what a test takes
COMPILING = 100                   # seconds more where kernels are not in the cache
NOT_COMPILED = re.compile(r"\.(?:hip|h):\d+:\d+: (?:fatal )?error: ")


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment(tree, test, cache, scratch, kernels):
    """A test's environment with folders of its own to write to. kernels: they are read from the tree's sources, not from the programs."""
    for d in ("data", "tmp"):
        os.makedirs(scratch + "/" + d)
    env = dict(os.environ, **test.environment(tree.build, tree.source))
    env.update(RFG_BINDIR=tree.build + "/bin", RFG_SOURCE_ROOT=tree.source, RFG_PYTHON=sys.executable, XDG_DATA_HOME=scratch + "/data",
               XDG_CACHE_HOME=cache, RFG_TEST_CACHE=cache + "/tests", TMPDIR=scratch + "/tmp", CK_VERBOSITY="normal",
               GCOV_PREFIX=scratch + "/counts")
    if kernels:
        env["RFG_KERNEL_DIR"] = tree.source + "/ops"
    return env


def kill_left(scratch):
    """Ends what a test left behind in sessions of its own: processes whose TMPDIR is the test's."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"TMPDIR=%s/" % scratch.encode() in open("/proc/%s/environ" % pid, "rb").read():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # it ended, or isn't ours


def run_test(tree, test, cache, limit, kernels=False, look=None):
    """(passed, failed or skipped; what happened; the end of its output). look(folder): called with what it wrote, before that goes."""
    scratch = tempfile.mkdtemp(dir=tree.where)
    try:
        env = environment(tree, test, cache, scratch, kernels)
        with open(scratch + "/output", "wb+") as out:
            started = subprocess.Popen(test.argv(tree.build), cwd=tree.build, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=limits)
            try:
                code = started.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                try:
                    os.killpg(started.pid, signal.SIGKILL)  # what it started too
                except ProcessLookupError:
                    pass
                started.wait()
                kill_left(scratch)
            out.seek(max(0, out.seek(0, os.SEEK_END) - 200000))
            text = out.read().decode(errors="replace")
        if look:
            look(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if code is None:
        return "failed", "no end after %d s" % limit, text
    if code == 77:
        return "skipped", "skipped", text
    checks = re.findall(r"Checks: (\d+)", text)
    if code == 0 and checks and not any(map(int, checks)):
        return "failed", "no check ran", text
    failed = re.findall(r":([FE]:[^\n]*)", text)
    return "failed" if code else "passed", "passed" if code == 0 else failed[0] if failed else "exit %d" % code, text


def lines_run(tree, counts):
    """{file: (lines that are instructions, lines that ran)}, as bits, of what gcc's instrumentation left under counts."""
    found = [os.path.join(d, f) for d, _, files in os.walk(counts) for f in files if f.endswith(".gcda")]
    for path in found:  # gcov wants both files side by side
        os.symlink(path[len(counts):-2] + "no", path[:-2] + "no")
    said = subprocess.run(["gcov", "--json-format", "--stdout"] + found, capture_output=True, text=True, cwd=tree.build).stdout if found else ""
    lines = {}
    for unit in (json.loads(line) for line in said.split("\n") if line):
        for file in unit["files"]:
            path = os.path.relpath(os.path.join(unit["current_working_directory"], file["file"]), tree.source)
            there, ran = lines.get(path, (0, 0))
            for line in file["lines"]:
                bit = 1 << line["line_number"]
                there |= bit
                ran |= bit if line["count"] else 0
            lines[path] = there, ran
    return {path: bits for path, bits in lines.items() if not path.startswith("../")}


class Baseline:
    """The tree without faults, built with gcov's instrumentation: which tests pass there, how long they take and which lines they run. It is kept for
    later runs on the same sources. What tests compile here goes into the cache that all trees read."""

    def __init__(self, tree, cache):
        self.tree, self.cache, self.lock = tree, cache, threading.Lock()
        self.locks = collections.defaultdict(threading.Lock)
        problem = tree.make([])
        if problem:
            sys.exit("the tree itself doesn't build:\n" + problem)
        digest = hashlib.sha256()
        for path in sorted(os.path.join(d, f) for d, _, files in os.walk(tree.source) for f in files):
            if not re.search(r"\.(pyc|md)$|/tests/(faults\w*|mutate|mutant)\.py$|/tests/(equivalents|mutants/\w+)\.tsv$", path):  # what no test reads
                digest.update(path.encode() + b"\0" + open(path, "rb").read())
        self.path = os.path.dirname(tree.where) + "/baseline-%s.json" % digest.hexdigest()[:16]
        self.known = json.load(open(self.path)) if os.path.exists(self.path) else {}

    def of(self, test):
        """(passed, failed or skipped; what happened; seconds; lines as lines_run() has them)"""
        with self.locks[test.name]:
            if test.name not in self.known:
                lines, start = {}, time.time()
                result, what, _ = run_test(self.tree, test, self.cache, PATIENCE * max(LEAST_LIMIT, test.seconds) + COMPILING,
                                           look=lambda scratch: lines.update(lines_run(self.tree, scratch + "/counts")))
                with self.lock:
                    self.known[test.name] = result, what, time.time() - start, lines
                    with open(self.path + ".new", "w") as file:
                        json.dump(self.known, file)
                    os.replace(self.path + ".new", self.path)
            return self.known[test.name]

    def reach(self, test, fault):
        """Whether the test runs one of the fault's lines: True, False, or None if they are no instructions (a macro, a table, a kernel)."""
        bits = ((1 << fault.old.count("\n") + 1) - 1) << fault.line
        there, ran = self.of(test)[3].get(fault.file, (0, 0))
        return bool(ran & bits) if there & bits else None


class Judge:
    def __init__(self, suites, baseline, is_kernel_text, deep, root):
        self.suites, self.baseline, self.is_kernel_text, self.deep = suites, baseline, is_kernel_text, deep
        self.equivalents, self.root = faults.equivalents(root), root

    def tests_for(self, fault):
        """Tests that pass without the fault and run its lines, the cheapest first. All, if none does: what ends by a signal or _exit() leaves no
        counts."""
        tests = [t for t in self.suites.tests_for([fault.file]) if t.default or self.deep]
        tests = [t for t in sorted(tests, key=lambda t: (not t.default, t.seconds, t.name)) if self.baseline.of(t)[0] == "passed"]
        reach = [self.baseline.reach(t, fault) for t in tests]
        return [t for t, reached in zip(tests, reach) if reached or True not in reach]

    def judge(self, tree, fault):
        """(verdict, what, the test that killed it)"""
        if faults.reason(fault, self.equivalents, self.root):
            return "equivalent", faults.reason(fault, self.equivalents, self.root), None
        kernels = self.is_kernel_text([fault.file])
        if not kernels and not tree.builds:
            return "skipped", "not in kernel text, and nothing is built (--programs)", None
        tests = self.tests_for(fault)
        if not tests:
            return "skipped", "no test that can see it passes without it", None
        if kernels:  # programs read the broken text at run time: they are built from the right one
            problem = tree.make(sorted({target for t in tests for target in t.target}))
            if problem:
                sys.exit("the tree itself doesn't build:\n" + problem)
        path = tree.source + "/" + fault.file
        text = open(path).read()
        try:
            with open(path, "w") as file:
                file.write(fault.apply(text))
            return self.run(tree, fault, kernels, tests)
        finally:
            with open(path, "w") as file:
                file.write(text)

    def run(self, tree, fault, kernels, tests):
        # A broken host may write nonsense into a cache, so it has a copy. A broken kernel is another key.
        cache = self.baseline.cache if kernels else tree.where + "/cache"
        ran = 0
        for test in tests:
            if not kernels:
                problem = tree.make(test.target)
                if problem:
                    return "nocompile", next((line for line in problem.split("\n") if "error:" in line), "the build fails")[:200], None
                shutil.rmtree(cache, ignore_errors=True)
                if os.path.isdir(self.baseline.cache):
                    subprocess.run(["cp", "-al", self.baseline.cache, cache], check=False)
            limit = max(LEAST_LIMIT, PATIENCE * max(test.seconds, self.baseline.of(test)[2])) + COMPILING * kernels
            result, what, output = run_test(tree, test, cache, limit, kernels)
            ran += result == "passed"
            if result == "failed":
                if kernels and NOT_COMPILED.search(output):
                    return "nocompile", NOT_COMPILED.search(output)[0] + output[NOT_COMPILED.search(output).end():].split("\n")[0][:150], None
                return "killed", "%s%s: %s" % (test.name, "" if test.default else " (--changed)", what[:150]), test
        return "survived", "%d tests pass" % ran, None


def table(title, rows, results, deep):
    print("%-16s %7s %7s %9s %7s%s" % (title, "made", "killed", "survived", "by test", "  by --changed" if deep else ""))
    for name, of in rows:
        here = [r for r in results if of(r)]
        killed, survived = (sum(r["verdict"] == v for r in here) for v in ("killed", "survived"))
        default = sum(r["verdict"] == "killed" and r["default"] for r in here)
        if here:
            print("%-16s %7d %7d %9d %6.1f%%%s" % (name, len(here), killed, survived, 100.0 * default / max(1, killed + survived),
                                                  "  %11.1f%%" % (100.0 * killed / max(1, killed + survived)) if deep else ""))


def summary(results, left_out, baseline, deep):
    made = [r for r in results if r["verdict"] not in ("nocompile", "skipped")]
    print()
    table("kind", [(k, lambda r, k=k: r["kind"] == k) for k in sorted({r["kind"] for r in made})], made, deep)
    tops = sorted({r["file"].split("/")[0] for r in made})
    table("folder", [(t, lambda r, t=t: r["file"].startswith(t + "/")) for t in tops] + [("all", lambda r: True)], made, deep)
    for name, (result, what, _, _) in sorted(baseline.known.items()):
        if result != "passed":
            print("not run: %s: without a fault it is %s: %s" % (name, result, what))
    for r in results:
        if r["verdict"] == "survived":
            print("\n" + r["diff"])
    count = collections.Counter(r["verdict"] for r in results)
    print("\n%d faults: %d killed, %d survived, %d equivalent; %d not compiled, %d skipped, %d left out for time" % (
        len(made), count["killed"], count["survived"], count["equivalent"], count["nocompile"], count["skipped"], left_out))


def run(a, make_tree, is_kernel_text, suites=None, root=faults.ROOT):
    """What tests/mutate.py does with --generate: a is its arguments. Returns the exit status."""
    if suites is None:
        import suites
    seed, n = a.generate[0], int(a.generate[1])
    drawn = faults.draw(seed, a.names, a.kinds and a.kinds.split(","), root)
    if a.fault:
        drawn = (f for f in drawn if f.id in a.fault)
        n = len(a.fault)
    trees = [make_tree("%s/%d" % (a.dir, i)) for i in range(max(1, min(a.jobs, n)))]
    baseline = Baseline(make_tree(a.dir + "/clean", covered=True), a.dir + "/cache")
    judge = Judge(suites, baseline, is_kernel_text, a.deep, root)
    end = None if a.minutes is None else time.time() + 60 * a.minutes
    results, lock, state = [], threading.Lock(), {"wanted": n, "broken": None}

    def work(tree):
        while state["broken"] is None:
            with lock:
                if state["wanted"] == 0 or end is not None and time.time() > end:
                    return
                fault = next(drawn, None)
                if fault is None:  # there are no more
                    state["wanted"] = 0
                    return
                state["wanted"] -= 1
            start = time.time()
            try:
                verdict, what, test = judge.judge(tree, fault)
            except BaseException as e:  # the other trees stop too
                state["broken"] = e
                return
            seconds = time.time() - start
            with lock:
                if verdict == "nocompile":
                    state["wanted"] += 1
                results.append(dict(fault._asdict(), verdict=verdict, what=what, seconds=round(seconds, 1), test=test and test.name,
                                    default=bool(test and test.default), diff=fault.diff()))
                print("%-10s %s:%d %s %s  %.1f s  %s | %s" % (verdict, fault.file, fault.line, fault.kind, fault.id, seconds, fault.short(), what), flush=True)

    print("seed %s" % seed, flush=True)
    threads = [threading.Thread(target=work, args=(tree,), daemon=True) for tree in trees]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if state["broken"] is not None:
            raise state["broken"]
    finally:
        summary(results, state["wanted"], baseline, a.deep)
        if a.json:
            with open(a.json, "w") as file:
                json.dump({"seed": seed, "paths": a.names, "deep": a.deep, "left_out": state["wanted"], "results": results}, file, indent=1)
    return int(any(r["verdict"] == "survived" for r in results))


# ---- --self-test: a tree of one file, with tests of its own

PROGRAM = """int clamp(int n, int *left)
{
    int cut = 0;
    if (n > 9)
        cut = 1;
    while (*left > 0)
        *left -= 1;
    return n - cut;
}
int doubled(int n)
{
    return 2 * n;
}
int spare(int n)
{
    return n / 3;
}
int main(int argc, char **argv)
{
    int left = 3;
    (void)argv;
    if (argc == 1)
        return clamp(20, &left) != 19 || clamp(5, &left) != 5 || left != 0;
    return doubled(3) != 6;
}
"""


class SmallTree:
    builds = True

    def __init__(self, where, covered=False):
        self.where, self.source, self.build, self.options = where, where + "/source", where + "/build", ["--coverage"] * covered
        os.makedirs(self.source + "/base")
        os.makedirs(self.build)
        with open(self.source + "/base/a.c", "w") as file:
            file.write(PROGRAM)

    def make(self, targets):
        done = subprocess.run(["gcc", "-w", *self.options, "-o", self.build + "/test", "base/a.c"], cwd=self.source, capture_output=True, text=True)
        return done.stderr if done.returncode else None


class SmallTest:
    def __init__(self, name, arguments, default):
        self.name, self.arguments, self.default, self.seconds, self.target = name, arguments, default, 0.01, ["test"]

    def argv(self, build):
        return [build + "/test"] + self.arguments if self.name != "broken" else ["false"]

    def environment(self, build, source):
        return {}


class SmallSuites:
    @staticmethod
    def tests_for(files):
        return [SmallTest("more", ["x"], False), SmallTest("first", [], True), SmallTest("broken", [], True)]


def self_test():
    """Every fault of PROGRAM, up to main(): which are killed by which test, which survive, which hang, which doesn't count."""
    global LEAST_LIMIT
    LEAST_LIMIT = 2
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/base")
        os.makedirs(root + "/tests")
        with open(root + "/base/a.c", "w") as file:
            file.write(PROGRAM)
        with open(root + "/" + faults.EQUIVALENTS, "w") as file:
            file.write("base/a.c\treturn n / 3;\treturn 3 / n;\tnobody asks\n")
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        subprocess.run(["git", "add", "."], cwd=root, check=True)
        a = argparse.Namespace(generate=("1", "1000"), names=["base"], kinds=None, fault=None, dir=root + "/trees", jobs=2, minutes=None, deep=True,
                               json=root + "/results")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = run(a, SmallTree, lambda files: False, SmallSuites, root)
        got = json.load(open(root + "/results"))["results"]
        kept = [open("%s/trees/%s/source/base/a.c" % (root, tree)).read() == PROGRAM for tree in ("0", "1", "clean")]
    by_line = collections.defaultdict(set)
    for r in got:
        by_line[r["old"].strip()].add((r["verdict"], r["test"], faults.squeezed(r["new"])))
    wanted = [status == 1 and all(kept), "not run: broken" in printed.getvalue() and "-    return n / 3;" in printed.getvalue(),
              ("killed", "more", "return 3 * n;") in by_line["return 2 * n;"], ("survived", None, "if (n >= 9)") in by_line["if (n > 9)"],
              ("killed", "first", "(void)0;") in by_line["cut = 1;"], ("killed", "first", "(void)0;") in by_line["*left -= 1;"],
              {v for v, _, _ in by_line["return n / 3;"]} == {"survived", "equivalent"}, any(r["what"] == "1 tests pass" for r in got),
              any("no end" in r["what"] for r in got if r["old"].strip() == "*left -= 1;")]
    for n, right in enumerate(wanted):
        if not right:
            print("self-test %d failed: %s" % (n, dict(by_line)))
    print("%d passed, %d failed" % (sum(wanted), len(wanted) - sum(wanted)))
    return sum(wanted) < len(wanted)


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else __doc__)
