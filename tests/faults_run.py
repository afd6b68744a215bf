# SPDX-License-Identifier: MIT
"""`./dev mutate --generate SEED N [PATHS...]`: makes N faults (faults.py), and runs on each what tests/suites.py says can see it.

Tests of `./dev test` run first, the cheapest first; with --deep those that `./dev test --changed` adds follow. The first that fails kills the
fault. A test counts only if it passes in a tree without faults; that is asked once, before its first use. A fault that doesn't compile is
counted apart, and another is drawn. A survivor is a hole in the tests, or a line of tests/equivalents.tsv.
"""
import argparse
import collections
import contextlib
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


def environment(tree, build, test, cache):
    """A test's environment with folders of its own to write to. build: another tree's, where only kernels differ."""
    shutil.rmtree(tree.where + "/scratch", ignore_errors=True)
    os.makedirs(tree.where + "/scratch", exist_ok=True)
    scratch = tempfile.mkdtemp(dir=tree.where + "/scratch")
    for d in ("data", "tmp"):
        os.makedirs(scratch + "/" + d)
    env = dict(os.environ, **test.environment(build, tree.source))
    env.update(RFG_BINDIR=build + "/bin", RFG_SOURCE_ROOT=tree.source, RFG_PYTHON=sys.executable, XDG_DATA_HOME=scratch + "/data",
               XDG_CACHE_HOME=cache, RFG_TEST_CACHE=cache + "/tests", TMPDIR=scratch + "/tmp", CK_VERBOSITY="normal")
    if build != tree.build:
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


def run_test(tree, build, test, cache, limit):
    """(passed, failed or skipped; what happened; the end of its output)"""
    env = environment(tree, build, test, cache)
    with open(tree.where + "/output", "wb+") as out:
        started = subprocess.Popen(test.argv(build), cwd=build, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
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
            kill_left(tree.where + "/scratch")
        out.seek(max(0, out.tell() - 200000))
        text = out.read().decode(errors="replace")
    if code is None:
        return "failed", "no end after %d s" % limit, text
    if code == 77:
        return "skipped", "skipped", text
    checks = re.findall(r"Checks: (\d+)", text)
    if code == 0 and checks and not any(map(int, checks)):
        return "failed", "no check ran", text
    failed = re.findall(r":([FE]:[^\n]*)", text)
    return "failed" if code else "passed", "passed" if code == 0 else failed[0] if failed else "exit %d" % code, text


class Baseline:
    """The tree without faults: which tests pass there. What they compile there goes into the cache that all trees read."""

    def __init__(self, tree, cache):
        self.tree, self.cache, self.known, self.lock = tree, cache, {}, threading.Lock()

    def of(self, test):
        """(passed, failed or skipped; what happened; seconds)"""
        with self.lock:
            if test.name not in self.known:
                problem = self.tree.make(test.target)
                if problem:
                    sys.exit("the tree itself doesn't build:\n" + problem)
                start = time.time()
                result, what, _ = run_test(self.tree, self.tree.build, test, self.cache, PATIENCE * max(LEAST_LIMIT, test.seconds) + COMPILING)
                self.known[test.name] = result, what, time.time() - start
            return self.known[test.name]


class Judge:
    def __init__(self, suites, baseline, is_kernel_text, deep, root):
        self.suites, self.baseline, self.is_kernel_text, self.deep = suites, baseline, is_kernel_text, deep
        self.equivalents = faults.equivalents(root)

    def tests_for(self, path):
        tests = [t for t in self.suites.tests_for([path]) if t.default or self.deep]
        return sorted(tests, key=lambda t: (not t.default, t.seconds, t.name))

    def judge(self, tree, fault):
        """(verdict, what, the test that killed it)"""
        if faults.key(fault) in self.equivalents:
            return "equivalent", self.equivalents[faults.key(fault)], None
        kernels = self.is_kernel_text([fault.file])
        if not kernels and not tree.builds:
            return "skipped", "not in kernel text, and nothing is built (--programs)", None
        path = tree.source + "/" + fault.file
        text = open(path).read()
        try:
            with open(path, "w") as file:
                file.write(fault.apply(text))
            return self.run(tree, fault, kernels)
        finally:
            with open(path, "w") as file:
                file.write(text)

    def run(self, tree, fault, kernels):
        # A broken host may write nonsense into a cache, so it has a copy. A broken kernel is another key.
        cache = self.baseline.cache if kernels else tree.where + "/cache"
        ran, tests = 0, self.tests_for(fault.file)
        for test in tests:
            result, _, usual = self.baseline.of(test)
            if result != "passed":
                continue
            if not kernels:
                problem = tree.make(test.target)
                if problem:
                    return "nocompile", next((line for line in problem.split("\n") if "error:" in line), "the build fails")[:200], None
                shutil.rmtree(cache, ignore_errors=True)
                if os.path.isdir(self.baseline.cache):
                    subprocess.run(["cp", "-al", self.baseline.cache, cache], check=False)
            limit = max(LEAST_LIMIT, PATIENCE * max(test.seconds, usual)) + COMPILING * kernels
            result, what, output = run_test(tree, self.baseline.tree.build if kernels else tree.build, test, cache, limit)
            ran += result == "passed"
            if result == "failed":
                if kernels and NOT_COMPILED.search(output):
                    return "nocompile", NOT_COMPILED.search(output)[0] + output[NOT_COMPILED.search(output).end():].split("\n")[0][:150], None
                return "killed", "%s%s: %s" % (test.name, "" if test.default else " (--changed)", what[:150]), test
        if tests and not ran:
            return "skipped", "no test that can see it passes without it", None
        return "survived", "%d tests pass%s" % (ran, ", %d not run" % (len(tests) - ran) if ran < len(tests) else ""), None


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
    for name, (result, what, _) in sorted(baseline.known.items()):
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
    baseline = Baseline(make_tree(a.dir + "/clean"), a.dir + "/cache")
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

    def __init__(self, where):
        self.where, self.source, self.build = where, where + "/source", where + "/build"
        os.makedirs(self.source + "/base")
        os.makedirs(self.build)
        with open(self.source + "/base/a.c", "w") as file:
            file.write(PROGRAM)

    def make(self, targets):
        done = subprocess.run(["cc", "-w", "-o", self.build + "/test", self.source + "/base/a.c"], capture_output=True, text=True)
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
              {v for v, _, _ in by_line["return n / 3;"]} == {"survived", "equivalent"},
              any("no end" in r["what"] for r in got if r["old"].strip() == "*left -= 1;")]
    for n, right in enumerate(wanted):
        if not right:
            print("self-test %d failed: %s" % (n, dict(by_line)))
    print("%d passed, %d failed" % (sum(wanted), len(wanted) - sum(wanted)))
    return sum(wanted) < len(wanted)


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else __doc__)
