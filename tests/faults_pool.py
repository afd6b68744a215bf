#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`./dev mutate --generate` for a machine of many cores and little time: many trees, each in a root folder of its own at the same path, so that one
build is copied rather than made for each; and no test is begun for one fault while a cheaper one waits for another.

  faults_pool.py draw --seeds A,B,C -o DRAWN [PATHS...]   draws faults
  faults_pool.py baseline DRAWN -o FILE                   in a root: a line for each test of ./dev test: which lines of the faults' files it runs, of the
                                                          tree /f/clean, which is built with gcov
  faults_pool.py run DRAWN --baseline FILE --roots DIR... --minutes M -o RESULTS   as root: in each DIR is a tree /f/0 (source, build), /f/cache, /f/ccache.
                                                          --clean DIR: it makes the baseline first, in this root (FILE: its path there)
  faults_pool.py again RESULTS --changed TESTS... -o DRAWN   what no test killed, to be judged in the tree that this file is in: by tests that didn't run
                                                          yet, and by those that changed. --first FILE: JSON, which tests to begin with by a fault's id.
                                                          run --leave-out TESTS: what the baseline says of them is old
  faults_pool.py table RESULTS...                         what they say together; those of a later file are taken
  faults_pool.py worker [CORES]                           in such a root: what `run` starts; lines FOLDER FILE...: what `baseline` starts
  faults_pool.py --self-test                              who runs what, and what is said of it

tests/tools/faults_roots.sh makes the roots. Of a host's source all tests of ./dev test are tried that run its line, of a kernel those that
tests/suites.py names; first those that take the least time for the share of the file that they run.

A test kills a fault if it fails twice, and passes without it: by the baseline or, what --changed adds, once it was tried. RESULTS lists for each
fault how far it came; what ended for time is undecided.
"""
import argparse
import collections
import heapq
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults  # noqa: E402
import faults_run  # noqa: E402

WHERE = os.environ.get("FAULTS_TREE", "/f/0")
TREE = types.SimpleNamespace(where=WHERE, source=WHERE + "/source", build=WHERE + "/build", builds=True)
CACHE = "/f/cache"
BUILDING = 6          # seconds that a step costs besides its tests
STEPS = (15, 45, 60)  # seconds of tests of a fault's first, second and any later step
MOST_SWEPT = 200      # seconds of tests that --changed adds, a fault, unless run --most-swept says more
AGAIN = 30            # seconds: a test that took longer isn't repeated
LEAST, COMPILING = 25, 30  # seconds that a test may take at least, and more if it compiles kernels
NOT_BUILT = ("-5.7", "-6.1", "-7.0")  # of ROCm's releases
NEED_MORE = ("python_torch", "ggml", "emu_triton")  # than a root has


# ---- which faults, and what sees them

def tests_of(path):
    import suites
    tests = sorted(suites.tests_for([path]), key=lambda t: (not t.default, t.seconds, t.name))
    return [(t.name, t.default, t.seconds) for t in tests if t.program not in NEED_MORE and not t.name.endswith(NOT_BUILT)]


def draw(a):
    import mutate
    equal, out = faults.equivalents(), []
    for seed in a.seeds.split(","):
        for n, fault in enumerate(faults.generate(seed, a.n, a.paths, a.kinds and a.kinds.split(","))):
            out.append(dict(fault._asdict(), seed=seed, n=n, kernels=mutate.kernel_text([fault.file]), diff=fault.diff(), equivalent=faults.reason(fault, equal),
                            tests=tests_of(fault.file)))
    write_drawn(a.output, a.count, out)


def again(a):
    """Faults that were tested and not killed, with what they passed."""
    equal, out = faults.equivalents(), []
    first = json.load(open(a.first)) if a.first else {}
    for f in read_results(a.results):
        if f["verdict"] in ("survived", "undecided"):
            fault = faults.Fault(**{field: f[field] for field in faults.Fault._fields})
            try:
                fault.apply(faults.read(fault.file))
            except ValueError as changed:
                print("left out: %s" % changed)
                continue
            kept = [ran for ran in f["ran"] if ran[0] not in a.changed]
            out.append(dict({k: f[k] for k in ("seed", "n", "kernels", "diff") + faults.Fault._fields}, equivalent=faults.reason(fault, equal), tests=tests_of(f["file"]), ran=kept,
                            first=first.get(f["id"], [])))
    write_drawn(a.output, len(out), out)


def write_drawn(path, count, found):
    with open(path, "w") as file:
        json.dump({"count": count, "faults": found}, file, indent=1)
    print("%d faults" % len(found))


def tree_lines(tree, counts, files):
    """What faults_run.lines_run() says, by a process of its own: many threads wait for tests."""
    asked = [sys.executable, os.path.abspath(__file__), "lines", tree, counts]
    done = subprocess.run(asked, input="\n".join(files), capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def lines(a):
    """Prints the lines of files (stdin) that ran, of sources only: a header's are in many units."""
    files = sys.stdin.read().split("\n")
    ends = {os.path.basename(f) + ".gcda" for f in files if f.endswith(".c")}
    for d, _, names in os.walk(a.folder):
        for name in names:
            if name.endswith(".gcda") and not any(name == end or name.endswith("_" + end) for end in ends):
                os.unlink(os.path.join(d, name))
    found = faults_run.lines_run(types.SimpleNamespace(source=a.tree + "/source", build=a.tree + "/build"), a.folder)
    json.dump({path: bits for path, bits in found.items() if path in files and path.endswith(".c")}, sys.stdout)


def baseline(a):
    """Each test of ./dev test on the tree /f/clean: a line of JSON [name, result, what, seconds, lines], when it ends; "begun" once none is left."""
    import suites
    tree = types.SimpleNamespace(where="/f/clean", source="/f/clean/source", build="/f/clean/build")
    files = sorted({f["file"] for f in json.load(open(a.drawn))["faults"]})
    tests = [t for t in sorted(suites.everything(), key=lambda t: -t.seconds) if t.default and t.name in suites.of_build(tree.build) and t.name not in a.leave_out]
    start, lock = time.time(), threading.Lock()
    out = open(a.output, "w")

    def put(what):
        with lock:
            out.write(json.dumps(what) + "\n")
            out.flush()

    def work(number):
        pin(number)
        while True:
            with lock:
                test = tests.pop(0) if tests else None
            if test is None:
                return
            ran, begun = {}, time.time()
            result, what, _ = faults_run.run_test(tree, test, CACHE, faults_run.PATIENCE * max(faults_run.LEAST_LIMIT, test.seconds) + faults_run.COMPILING,
                                                  look=lambda scratch: ran.update(tree_lines(tree.where, scratch + "/counts", files), seconds=time.time() - begun))
            seconds = ran.pop("seconds", 0) or time.time() - begun
            put([test.name, result, what, seconds, ran])
            print("%5.0f s %-8s %-40s %5.1f s %s" % (time.time() - start, result, test.name, time.time() - begun, "" if result == "passed" else what[:150]), flush=True)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(a.jobs)]
    for t in threads:
        t.start()
    while tests:
        time.sleep(0.5)
    put(["begun"])
    for t in threads:
        t.join()
    put(["ended"])


def read_baseline(path):
    """{test: (result, what, seconds, lines)}, and whether all tests have begun, and ended"""
    rows = []
    for line in open(path) if os.path.exists(path) else []:
        if line.endswith("\n"):
            rows.append(json.loads(line))
    return {row[0]: row[1:] for row in rows if len(row) > 1}, ["begun"] in rows, ["ended"] in rows


def add_tests(found, known, most_swept=MOST_SWEPT):
    """Leaves of the tests of ./dev test those that pass and, if any runs a fault's lines, run them; of what --changed adds the cheaper. Each fault's
    tests come in the order of how much they cost for how much of the file they run."""
    every = [name for name, of in known.items() if of[0] == "passed"]
    for f in found:
        bits = ((1 << f["old"].count("\n") + 1) - 1) << f["line"]
        named = {t[0]: t[2] for t in f["tests"] if t[1]}
        runs = {name: known[name][3].get(f["file"], (0, 0)) for name in every}
        reach = [name for name in every if runs[name][1] & bits]
        there = any(of[0] & bits for of in runs.values())
        tests = reach or [name for name in every if name in named]
        most = max([bin(runs[name][1]).count("1") for name in tests] + [1])

        def price(name):
            share = bin(runs[name][1]).count("1") / most if reach else 0.5
            return (BUILDING / 2 + known[name][2]) / (0.1 + share) / (2 if name in named else 1)

        default = [(known[name][2], name) for name in sorted(tests, key=price)]
        default += sorted((1.5 * seconds, name) for name, seconds in named.items() if name not in known)
        default.sort(key=lambda t: t[1] not in f.get("first", ()))
        swept, spent = [], 0
        for name, is_default, seconds in sorted(f["tests"], key=lambda t: t[0] not in f.get("first", ())):
            if not is_default and spent + seconds <= most_swept:
                swept.append((name, False, seconds))
                spent += seconds
        f.update(reached=bool(reach), untold=not there, tests=[(name, True, seconds) for seconds, name in default] + swept)


# ---- inside a root

def pin(number):
    """A thread, and what it starts, stay on two cores: as many as the tests' machine has."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 2:
        os.sched_setaffinity(0, {cores[number % len(cores)], cores[(number + 1) % len(cores)]})


def make(targets):
    env = dict(os.environ, CCACHE_DIR="/f/ccache")
    done = subprocess.run(["ninja", "-C", TREE.build] + targets, capture_output=True, text=True, env=env)
    return None if done.returncode == 0 else done.stdout[-20000:]


def try_tests(job, tests, cores):
    """What became of a fault or, without one, of the right tree: the first test that fails ends it."""
    kernels, ran = job.get("kernels", False), []
    every = os.sched_getaffinity(0)
    cache = CACHE if kernels else TREE.where + "/cache"
    if kernels:
        problem = make(sorted({target for name, _, _ in job["tests"] for target in tests[name].target}))
        assert not problem, problem
        job = dict(job, built=True)
    for name, _, seconds in job["tests"]:
        test = tests[name]
        problem = None if job.get("built") else make(test.target)
        if problem:
            return "nocompile", next((line for line in problem.split("\n") if "error" in line), "the build fails")[:200], ran
        for attempt in range(2):
            start = time.time()
            if not kernels:
                shutil.rmtree(cache, ignore_errors=True)
                subprocess.run(["cp", "-al", CACHE, cache], check=False)
            os.sched_setaffinity(0, cores or every)
            result, what, output = faults_run.run_test(TREE, test, cache, max(LEAST, 4 * seconds) + COMPILING * kernels, kernels)
            os.sched_setaffinity(0, every)
            spent = time.time() - start
            if result != "failed" or spent > AGAIN or what.startswith("no end") or "old" not in job:
                break
        ran.append((name, result, round(spent, 1)))
        if result == "failed":
            compiled = faults_run.NOT_COMPILED.search(output) if kernels else None
            if compiled:
                return "nocompile", compiled[0] + output[compiled.end():].split("\n")[0][:150], ran
            return "killed", what[:150], ran
    return "passed", "", ran


def worker(a):
    import suites
    tests = {t.name: t for t in suites.everything()}
    cores = set(map(int, a.cores.split(","))) if a.cores else None
    for line in sys.stdin:
        job = json.loads(line)
        path = TREE.source + "/" + job["file"] if "old" in job else None
        text = open(path).read() if path else None
        try:
            if path:
                fault = faults.Fault(**{field: job[field] for field in faults.Fault._fields})
                with open(path, "w") as file:
                    file.write(fault.apply(text))
            answer = try_tests(job, tests, cores)
        except Exception as e:
            answer = "error", repr(e)[-3000:], []
        finally:
            if path:
                with open(path, "w") as file:
                    file.write(text)
        print(json.dumps(answer), flush=True)


# ---- outside

class Pool:
    def __init__(self, planned, end):
        self.lock, self.end = threading.Condition(), end
        self.faults = planned["faults"]
        self.queue, self.verify = [], []  # (step, order, fault), (seconds, test)
        self.right = {}                   # test: it passes without a fault
        self.waiting = collections.defaultdict(list)  # faults that a test killed which is not known to be right
        self.running = 0
        self.drawn = collections.defaultdict(list)
        for f in sorted(self.faults, key=lambda f: (f["n"], f["seed"])):
            f.update(verdict="undecided", what="", test=None, ran=f.get("ran", []), step=0, spent=0.0)
            self.drawn[f["seed"]].append(f)
        for seed in self.drawn:
            for _ in range(planned.get("counts", {}).get(seed, planned["count"])):
                self.draw(seed)

    def draw(self, seed):
        """The next fault of a seed goes into the queue."""
        if self.drawn[seed]:
            f = self.drawn[seed].pop(0)
            if f["equivalent"]:
                f.update(verdict="equivalent", what=f["equivalent"])
            elif not f["tests"]:
                f.update(verdict="skipped", what="no test that can see it passes without it")
            else:
                heapq.heappush(self.queue, (0, f["n"], f["seed"], self.faults.index(f)))

    def next(self):
        """A job: ("verify", name, seconds) or ("fault", fault, tests); None at the end."""
        with self.lock:
            while True:
                if time.time() > self.end:
                    return None
                if self.verify:
                    self.running += 1
                    seconds, name = heapq.heappop(self.verify)
                    return "verify", name, seconds
                if self.queue:
                    f = self.faults[heapq.heappop(self.queue)[3]]
                    tests, spent = [], 0
                    done = {name for name, _, _ in f["ran"]}
                    for t in f["tests"]:
                        if t[0] in done or self.right.get(t[0]) is False:
                            continue
                        if tests and (spent + t[2] > STEPS[min(f["step"], 2)] or t[1] != tests[0][1]):
                            break
                        tests.append(t)
                        spent += t[2]
                    self.running += 1
                    return "fault", f, tests
                if self.running == 0:
                    return None
                self.lock.wait(1)

    def verified(self, name, passed):
        with self.lock:
            self.running -= 1
            self.right[name] = passed
            for f in self.waiting.pop(name, []):
                if passed:
                    f["verdict"] = "killed"
                else:
                    self.put(f)
            self.lock.notify_all()

    def put(self, f):
        f["verdict"] = "undecided"
        done = {name for name, _, _ in f["ran"]}
        if all(t[0] in done or self.right.get(t[0]) is False for t in f["tests"]):
            f["verdict"] = "survived" if any(r == "passed" for _, r, _ in f["ran"]) else "skipped"
            f["what"] = "%d tests pass" % sum(r == "passed" for _, r, _ in f["ran"])
        else:
            rest = next(t for t in f["tests"] if t[0] not in done and self.right.get(t[0]) is not False)
            heapq.heappush(self.queue, (f["step"] + 1000 * (not rest[1]), f["n"], f["seed"], self.faults.index(f)))

    def tried(self, f, tests, verdict, what, ran, seconds):
        with self.lock:
            self.running -= 1
            f["ran"] += ran
            f["spent"] += seconds
            f["step"] += 1
            if verdict == "killed":
                name = ran[-1][0]
                f.update(test=name, default=next(t[1] for t in tests if t[0] == name), what=what)
                if name in self.right and self.right[name]:
                    f["verdict"] = "killed"
                elif name in self.right:
                    self.put(f)
                else:
                    f["verdict"] = "killed?"
                    self.waiting[name].append(f)
                    if len(self.waiting[name]) == 1:
                        heapq.heappush(self.verify, (next(t[2] for t in tests if t[0] == name), name))
            elif verdict == "passed":
                self.put(f)
            else:
                f.update(verdict=verdict, what=what)
                if verdict == "nocompile":
                    self.draw(f["seed"])
            self.lock.notify_all()

    def drive(self, root, cores):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "FAULTS_TREE": WHERE}
        process = subprocess.Popen(["chroot", root, "python3", TREE.source + "/tests/faults_pool.py", "worker", cores], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        while True:
            job = self.next()
            if job is None:
                break
            kind, what, rest = job
            start = time.time()
            sent = {"tests": [(what, True, rest)]} if kind == "verify" else dict({k: what[k] for k in faults.Fault._fields}, kernels=what["kernels"], tests=rest)
            process.stdin.write(json.dumps(sent) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            verdict, said, ran = json.loads(line) if line else ("error", "the worker ended", [])
            if time.time() > self.end + 5:  # another thread may be writing the results
                break
            if kind == "verify":
                self.verified(what, verdict == "passed" and all(r == "passed" for _, r, _ in ran))
                if verdict != "passed":
                    print("not right without a fault: %s: %s" % (what, said[:300]), flush=True)
            else:
                self.tried(what, rest, verdict, said, ran, time.time() - start)
                print("%5.0f %-9s %s %s:%d %s %.1f s %s | %s" % (self.end - time.time(), what["verdict"], what["id"], what["file"], what["line"], what["kind"], time.time() - start,
                                                              what["test"] or "", said[:80]), flush=True)
            if not line:
                break
        process.kill()


def know(a, end):
    """The baseline: what a file says or, with --clean, what is made now. Its last tests run on while faults are judged."""
    if not a.clean:
        return {name: of for name, of in read_baseline(a.baseline)[0].items() if name not in a.leave_out}
    path, drawn = a.clean + a.baseline, a.clean + "/f/drawn.json"
    shutil.copy(a.drawn, drawn)
    subprocess.Popen(["chroot", a.clean, "python3", "/f/clean/source/tests/faults_pool.py", "baseline", "/f/drawn.json", "-o", a.baseline, "--leave-out", *a.leave_out])
    known, begun, ended = {}, False, False
    start = time.time()
    while not ended and not (begun and time.time() > start + a.wait):
        time.sleep(1)
        known, begun, ended = read_baseline(path)
    for root in a.roots:  # what it compiled
        shutil.rmtree(root + CACHE, ignore_errors=True)
        subprocess.run(["cp", "-al", a.clean + CACHE, root + CACHE], check=False)
    print("baseline: %d tests in %.0f s; not right: %s" % (len(known), time.time() - start, ", ".join(
        "%s (%s)" % (name, of[1][:60]) for name, of in sorted(known.items()) if of[0] == "failed")), flush=True)
    return known


def run(a):
    planned = json.load(open(a.drawn))
    end = time.time() + 60 * a.minutes
    known = know(a, end)
    add_tests(planned["faults"], known, a.most_swept)
    host = [sum(t[2] for t in f["tests"] if t[1]) for f in planned["faults"]]
    print("%d faults; tests of ./dev test of one: %.0f s on average, %.0f at most" % (len(host), sum(host) / len(host), max(host)), flush=True)
    pool = Pool(planned, end)
    pool.right = {name: True for name, of in known.items() if of[0] == "passed"}
    cores, threads = sorted(os.sched_getaffinity(0)), []
    for i, root in enumerate(a.roots):
        two = "%d,%d" % (cores[i % len(cores)], cores[(i + 1) % len(cores)]) if len(cores) > 2 else ""
        threads.append(threading.Thread(target=pool.drive, args=(root, two), daemon=True))
        threads[-1].start()
    while any(t.is_alive() for t in threads) and time.time() < pool.end + 3:
        time.sleep(0.5)
        if int(time.time()) % 20 == 0:
            save(pool, a.output)
    save(pool, a.output)
    table(argparse.Namespace(results=[a.output], survivors=False))
    sys.stdout.flush()
    os._exit(0)


def save(pool, path):
    with pool.lock:
        text = json.dumps({"faults": [f for f in pool.faults if f["ran"] or f["verdict"] != "undecided"], "right": pool.right})
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def read_results(paths):
    found = {}
    for path in paths:
        for f in json.load(open(path))["faults"]:
            found[f["seed"], f["id"]] = f
    return list(found.values())


def table(a):
    rows = [f for f in read_results(a.results) if f["verdict"] not in ("nocompile", "skipped")]
    keys = [("seed", lambda f: f["seed"]), ("kind", lambda f: f["kind"]), ("folder", lambda f: f["file"].split("/")[0]), ("all", lambda f: "all")]
    for title, of in keys:
        print("%-12s %6s %8s %9s %11s %9s %10s %10s" % (title, "made", "killed", "--changed", "equivalent", "survived", "undecided", "of decided"))
        for name in sorted({of(f) for f in rows}):
            here = [f for f in rows if of(f) == name]
            n = collections.Counter("killed" if f["verdict"] in ("killed", "killed?") and f["default"] else "changed" if f["verdict"].startswith("killed") else
                                    f["verdict"] for f in here)
            seen = n["killed"] + n["changed"] + n["survived"]
            print("%-12s %6d %8d %9d %11d %9d %10d %6.1f%% %.1f%%" % (name, len(here), n["killed"], n["changed"], n["equivalent"], n["survived"], n["undecided"] + n["error"],
                                                                100.0 * n["killed"] / max(1, seen), 100.0 * (n["killed"] + n["changed"]) / max(1, seen)))
    if a.survivors:
        for f in rows:
            if f["verdict"] in ("survived", "undecided", "error"):
                print("\n%s %s %s: %s\n%s" % (f["seed"], f["id"], f["verdict"], f["what"] or "%d of %d tests ran" % (len(f["ran"]), len(f["tests"])), f["diff"]))


def self_test():
    """Faults of two seeds, and what their tests would say: killed at once; at the second step; by what --changed adds, of which one fails
    without a fault too; survived; not compiled, for which another is drawn; equivalent."""
    said = {"quick": {"killed": ["k"]}, "slow": {"killed": ["s"]}, "swept": {"killed": ["w"]}, "wrong": {"killed": ["k", "s", "w", "x"]}}
    made = [("k", None), ("s", None), ("n", None), ("w", None), ("x", None), ("e", "the same")]
    found = [dict(id=name, kind="check", file="base/a.c", line=1, old="a", new="b", seed=seed, n=n, kernels=False, diff="", equivalent=equal,
                  tests=[("quick", True, 1), ("slow", True, 100), ("wrong", False, 5), ("swept", False, 50)])
             for seed in ("1", "2") for n, (name, equal) in enumerate(made)]
    pool = Pool({"count": 5, "faults": found}, time.time() + 20)
    pool.right = {"quick": True, "slow": True}
    begun = []
    while (job := pool.next()) is not None:
        kind, what, rest = job
        if kind == "verify":
            pool.verified(what, what != "wrong")
            continue
        begun.append(rest[0][0])
        ran = []
        for name, _, _ in rest:
            ran.append((name, "failed" if what["id"] in said[name]["killed"] else "passed", 1))
            if ran[-1][1] == "failed":
                break
        pool.tried(what, rest, "nocompile" if what["id"] == "n" else "killed" if ran[-1][1] == "failed" else "passed", "", [] if what["id"] == "n" else ran, 1)
    got = {(f["seed"], f["id"]): (f["verdict"], f["test"] if f["verdict"] == "killed" else None) for f in found}
    wanted = {"k": ("killed", "quick"), "s": ("killed", "slow"), "n": ("nocompile", None), "w": ("killed", "swept"), "x": ("survived", None), "e": ("equivalent", None)}
    wrong = [(key, got[key], wanted[key[1]]) for key in got if got[key] != wanted[key[1]]]
    if begun != sorted(begun, key=["quick", "slow", "wrong", "swept"].index):
        wrong.append(begun)
    for line in wrong:
        print(line)
    print("%d passed, %d failed" % (not wrong, len(wrong)))
    return bool(wrong)


def main():
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    s = sub.add_parser("draw")
    s.add_argument("paths", nargs="*")
    s.add_argument("--seeds", required=True)
    s.add_argument("--n", type=int, default=150, help="drawn of each, some for those that don't compile")
    s.add_argument("--count", type=int, default=100, help="run of each")
    s.add_argument("--kinds")
    s.add_argument("-o", dest="output", required=True)
    b = sub.add_parser("baseline")
    b.add_argument("drawn")
    b.add_argument("--leave-out", nargs="*", default=[], help="tests that take long: tried last")
    b.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 2)
    b.add_argument("-o", dest="output", required=True)
    r = sub.add_parser("run")
    r.add_argument("drawn")
    r.add_argument("--baseline", required=True)
    r.add_argument("--roots", nargs="+", required=True)
    r.add_argument("--clean", help="the root in which the baseline is made")
    r.add_argument("--leave-out", nargs="*", default=[], help="as of baseline")
    r.add_argument("--most-swept", type=float, default=MOST_SWEPT)
    r.add_argument("--wait", type=float, default=90, help="seconds after which faults are judged though tests of the baseline still run")
    r.add_argument("--minutes", type=float, required=True)
    r.add_argument("-o", dest="output", required=True)
    g = sub.add_parser("again")
    g.add_argument("results", nargs="+")
    g.add_argument("--changed", nargs="*", default=[])
    g.add_argument("--first")
    g.add_argument("-o", dest="output", required=True)
    t = sub.add_parser("table")
    t.add_argument("results", nargs="+")
    t.add_argument("--survivors", action="store_true")
    w = sub.add_parser("worker")
    w.add_argument("cores", nargs="?", default="")
    g = sub.add_parser("lines")
    g.add_argument("tree")
    g.add_argument("folder")
    a = p.parse_args()
    {"lines": lines, "draw": draw, "again": again, "baseline": baseline, "run": run, "table": table, "worker": worker}[a.command](a)


if __name__ == "__main__":
    main()
