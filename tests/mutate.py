#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the mutants of tests/mutants (tests/mutant.py: what they are): makes each change, builds the test named in it, and expects that test to fail.
With --generate it makes the changes itself: tests/faults.py draws them, tests/faults_run.py runs them.

A mutant is killed if its check fails, crashes or takes longer than the limit. The same check must pass without the mutant. Those whose environment
names an nvidia device are skipped unless --device nvidia is given; with --programs DIR nothing is built: only mutants of kernel text run, through
RFG_KERNEL_DIR.
"""
import argparse
import concurrent.futures
import glob
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time

import suites

from mutant import ROOT, all_mutants, check, follow, write

LIMIT = 120  # seconds


def kernel_text(files):
    """Whether they are compiled at run time only."""
    return all(re.match(r"(ops/.*\.hip|ops/device/.*)$", f) or f.endswith(".h") and only_kernels_include(f) for f in files)


def only_kernels_include(header, seen=()):
    """Headers are known by their names: one that includes its namesake is not asked twice."""
    line = re.compile(r'^ *#include "(?:.*/)?%s"' % re.escape(os.path.basename(header)), re.M)
    texts = [f for top in ("ops", "tests/ops") for f in glob.glob("%s/%s/**/*.[ch]*" % (ROOT, top), recursive=True)]
    users = [os.path.relpath(f, ROOT) for f in texts if line.search(open(f).read())]
    seen = (*seen, os.path.basename(header))
    return users and all(f.endswith(".hip") or os.path.basename(f) in seen or f.endswith(".h") and only_kernels_include(f, seen)
                         for f in users)


class Tree:
    """A copy of the sources, with a build of its own unless programs says where there is one. covered: it counts which lines run."""

    def __init__(self, where, programs, covered=False):
        self.where, self.source = where, where + "/source"
        self.build = programs or where + "/build"
        self.builds = not programs
        self.passed = {}
        os.makedirs(self.source, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
        files = listed.stdout.split("\n")[:-1] if listed.returncode == 0 else [
            os.path.relpath(os.path.join(d, f), ROOT) for top in ("ops", "asm") for d, _, fs in os.walk(ROOT + "/" + top) for f in fs]
        for f in files:
            a, b = ROOT + "/" + f, self.source + "/" + f
            if os.path.isfile(a) and not (os.path.isfile(b) and open(a, "rb").read() == open(b, "rb").read()):
                os.makedirs(os.path.dirname(b), exist_ok=True)
                shutil.copyfile(a, b)
                shutil.copymode(a, b)
        # Trees compile the same files, and each file again when its mutant goes: all but once that is ccache's work.
        cached = {"CC": "ccache gcc"} if shutil.which("ccache") and "CC" not in os.environ else {}
        self.env = dict(os.environ, CCACHE_DIR=os.path.dirname(where) + "/ccache", CCACHE_BASEDIR=os.path.dirname(where), CCACHE_NOHASHDIR="1", **cached)
        if self.builds and not os.path.exists(self.build + "/build.ninja"):
            self.must(["meson", "setup", "-Dtests=enabled", "-Dwerror=false", "-Ddebug=false", "-Demu_hosts=native", "-Drocm_releases=" + ",".join(suites.RELEASES),
                       "-Db_coverage=" + str(covered).lower(), self.build, self.source], self.env)

    @staticmethod
    def must(command, env=None):
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            sys.exit("%s\n%s%s" % (" ".join(command), done.stdout[-4000:], done.stderr[-4000:]))

    def make(self, targets):
        """Builds them; the compiler's message if it can't."""
        if not self.builds:
            return None
        done = subprocess.run(["ninja", "-C", self.build] + targets, capture_output=True, text=True, env=self.env)
        return None if done.returncode == 0 else done.stdout[-3000:]

    def make_for(self, mutant):
        """Builds what the mutant's test takes."""
        programs = ["tuner/rfg-" + name for name in ("tune", "db", "info", "compile", "emu", "bench")]
        programs += ["tests/" + name for name in ("fake-rocm.so", "mock-blas.so", "mock-blas-old.so", "mock-hip.so", "mock-nccl.so", "mock-nccl-old.so", "mock-tx.so", "rfg-tune-fake", "rfg-bench-fake")]
        programs += ["examples/decoder/rfg-decoder"] if mutant.run[0].startswith("tests/test-decoder") else []
        if mutant.run[0] == "tests/test-rfg_db":
            programs += ["tuned_configs/%s-v4.db" % os.path.basename(d[:-1]) for d in glob.glob(self.source + "/tuned_configs/*_*/")]
        if "EMULATED_ROCM" in mutant.env:
            programs += ["emu/rocm/rocm-%s.stamp" % name for name in (mutant.env["EMULATED_ROCM"], "bitcode")]
        target = mutant.run[0] if mutant.run[0].startswith(("tests/", "tuner/", "bench/")) else "all"
        return self.make([target] + programs)

    def test(self, mutant, kernels):
        """(passed, what happened, the end of its output)"""
        program = self.build + "/" + mutant.run[0]
        scratch = self.where + "/scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        for d in ("data", "tmp"):
            os.makedirs(scratch + "/" + d)
        env = dict(os.environ, RFG_BINDIR=self.build + "/bin", RFG_SOURCE_ROOT=self.source, RFG_PYTHON=sys.executable,
                   RFG_TEST_CACHE=scratch + "/tests", XDG_DATA_HOME=scratch + "/data", XDG_CACHE_HOME=self.where + "/cache",
                   TMPDIR=scratch + "/tmp", CK_VERBOSITY="normal", **mutant.env)
        if kernels:
            env["RFG_KERNEL_DIR"] = self.source + "/ops"
        started = subprocess.Popen([program if os.path.exists(program) else mutant.run[0]] + mutant.run[1:], cwd=self.build, env=env,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            out, _ = started.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, 9)
            started.communicate()
            return False, "no end after %d s" % LIMIT, ""
        out = out.decode(errors="replace")
        failed = re.findall(r":([FE]:[^\n]*)", out)
        code = started.returncode
        checks = re.findall(r"Checks: (\d+)", out)
        if checks and not any(map(int, checks)):
            return False, "no check ran: CK_RUN_CASE names none", out[-2000:]
        return code == 0, ("passed" if code == 0 else failed[0][:150] if failed else "exit %d" % code), out[-2000:]

    def judge(self, mutant):
        """(verdict, details)"""
        kernels = kernel_text(mutant.files)
        if not kernels and not self.builds:
            return "skipped", "it is not in kernel text, and nothing is built (--programs)"
        key = (tuple(mutant.run), tuple(sorted(mutant.env.items())))
        if key not in self.passed:
            problem = self.make_for(mutant)
            if problem:
                sys.exit("the tree itself doesn't build:\n" + problem)
            self.passed[key] = self.test(mutant, False)
        if self.passed[key][1] == "exit 77":
            return "skipped", "its test is skipped here: " + self.passed[key][2].strip()
        if not self.passed[key][0]:
            return "broken", "fails without the mutant: %s\n%s" % self.passed[key][1:]
        try:
            changed = mutant.changed(self.source)
        except ValueError as e:
            return "broken", str(e)
        try:
            for file, (_, after) in changed.items():
                write(self.source + "/" + file, after)
            problem = None if kernels else self.make_for(mutant)
            if problem:
                return "broken", "doesn't compile:\n" + problem
            passed, what, _ = self.test(mutant, kernels)
            return "survived" if passed else "killed", what
        finally:
            for file, (before, _) in changed.items():
                write(self.source + "/" + file, before)


def main():
    p = argparse.ArgumentParser(prog="./dev mutate", description="runs the mutants of tests/mutants; exit 1 if one survives unexplained")
    p.add_argument("names", nargs="*", help="mutants, or the beginnings of their names (default: all); with --generate: files or folders")
    p.add_argument("--generate", nargs=2, metavar=("SEED", "N"), help="make N faults from a seed, and list those that no test sees")
    p.add_argument("--deep", action="store_true", help="with --generate: what ./dev test --changed adds runs too")
    p.add_argument("--kinds", help="with --generate: only these kinds, with commas between (tests/faults.py --help)")
    p.add_argument("--fault", action="append", metavar="ID", help="with --generate: of the seed's faults only this one (again: more)")
    p.add_argument("--json", metavar="FILE", help="with --generate: write the results there")
    p.add_argument("--tenth", action="store_true", help="a tenth of them, drawn from a seed: the commit's, or --seed")
    p.add_argument("--seed", help="any text")
    p.add_argument("--minutes", type=float, help="begin no mutant after so long; those left out are counted")
    p.add_argument("--list", action="store_true", help="only list them")
    p.add_argument("--check", action="store_true", help="only check that every old text is there exactly once")
    p.add_argument("--follow", action="store_true", help="mend the tables where code moved; exit 1 if an old text is nowhere")
    p.add_argument("--jobs", type=int, default=2, help="trees that work at once (default: %(default)s)")
    p.add_argument("--dir", default=ROOT + "/build-mutate", help="where the copies are (default: %(default)s)")
    p.add_argument("--programs", metavar="BUILD", help="an existing build; mutants of kernel text only")
    p.add_argument("--device", choices=["nvidia"], help="also those that need this device")
    a = p.parse_args()
    if a.generate:
        if not a.generate[1].isdigit():
            p.error("--generate: N is '%s': must be a number" % a.generate[1])
        import faults_run
        sys.exit(faults_run.run(a, lambda where, covered=False: Tree(where, a.programs and os.path.abspath(a.programs), covered), kernel_text))
    if a.follow:
        sys.exit(follow() > 0)
    mutants = all_mutants()
    if a.names:
        mutants = [m for m in mutants if any(m.name.startswith(n) for n in a.names)]
    if a.tenth:
        seed = a.seed or subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        print("seed %s" % seed)
        mutants = [m for m in mutants if not m.nvidia]
        mutants = random.Random(seed).sample(mutants, -(-len(mutants) // 10))
    if not mutants:
        sys.exit("no mutant of that name: %s" % " ".join(a.names))
    if a.list:
        for m in mutants:
            print("%-40s %s" % (m.name, m.what))
        return
    if a.check:
        sys.exit(check(mutants) > 0)

    trees = queue.Queue()
    for i in range(max(1, min(a.jobs, len(mutants)))):
        trees.put(Tree("%s/%d" % (a.dir, i), a.programs and os.path.abspath(a.programs)))
    if len(mutants) > 10:  # one after the other: what the first compiles the others find in the cache
        for tree in list(trees.queue):
            if tree.builds:
                tree.must(["ninja", "-C", tree.build], tree.env)
    count = dict.fromkeys(("killed", "survived", "explained", "broken", "skipped"), 0)
    lock = threading.Lock()
    end = time.time() + 60 * (a.minutes or 0)

    def one(m):
        start, tree = time.time(), trees.get()
        try:
            if a.minutes is not None and start > end:
                verdict, details = "skipped", "out of time"
            elif m.nvidia and a.device != "nvidia":
                verdict, details = "skipped", "needs %s" % m.env["RFG_TEST_DEVICES"]
            else:
                verdict, details = tree.judge(m)
        finally:
            trees.put(tree)
        if verdict == "survived" and m.survives:
            verdict, details = "explained", m.survives
        with lock:
            count[verdict] += 1
            print("%-9s %-40s %5.1f s  %s" % (verdict, m.name, time.time() - start, details if verdict != "survived" else m.what), flush=True)

    with concurrent.futures.ThreadPoolExecutor(trees.qsize()) as pool:
        for done in [pool.submit(one, m) for m in mutants]:
            done.result()
    ran = count["killed"] + count["survived"] + count["explained"]
    print("%d mutants: %s; %.1f%% killed" % (len(mutants), ", ".join("%d %s" % (n, v) for v, n in count.items()),
                                            100.0 * count["killed"] / max(1, ran)))
    print("%d passed, %d failed, %d skipped" % (count["killed"] + count["explained"], count["survived"] + count["broken"], count["skipped"]))
    sys.exit(count["survived"] + count["broken"] > 0)


if __name__ == "__main__":
    main()
