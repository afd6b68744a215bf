#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills rfg's programs at random instants and checks what remains.

    tests/tools/kills.py BINDIR KILL_ENGINE [--kills N] [--seed S] [--kinds tune,engine,...]

After every kill: SQLite finds the database whole, no row and no miss that was there (or was reported as written) is
gone, and a file that is made as a whole is there as a whole or not at all. At the end every program runs once more
undisturbed; then there must be nothing but what it is meant to make: no temporary file or directory beside it, in
$TMPDIR, or among the code objects, and no file set aside. A failure prints the seed that repeats it, more or less.
"""
import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

KEY = "op, dtypes, attrs, M, N, K, arch, cu_count"
SHAPES = "op,dtype,M,N,K\n" + "".join(f"gemm,bf16,{m},{16 * m},64\n" for m in range(1, 7))


class Lost(Exception):
    pass


def query(path, sql):
    """None if the file, or the table in it, is not there yet."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return None
    db = sqlite3.connect(path, timeout=30)
    try:
        return db.execute(sql).fetchall()
    except sqlite3.OperationalError as e:
        if "no such table" in str(e):
            return None
        raise
    finally:
        db.close()


def check_whole(path):
    found = query(path, "PRAGMA integrity_check")
    if found is not None and found != [("ok",)]:
        raise Lost(f"{path}: integrity_check: {found[:3]}")


def rows(path):
    return {tuple(r) for r in query(path, f"SELECT {KEY} FROM tuned") or []}


class Kind:
    """What is run, how long it takes when nobody disturbs it, and what must hold after a kill."""

    def __init__(self, run, name):
        self.run, self.name, self.took, self.kills = run, name, 0.0, 0

    def command(self):
        raise NotImplementedError

    def check(self, out):
        pass

    def expected(self):
        return []


class Tune(Kind):
    """Rows stay, whatever is tuned anew."""

    before = set()

    def command(self):
        force = ["--force"] if self.run.random.random() < 0.7 else []
        return ["rfg-tune", "--db", "tune.db", "--shapes", "shapes.csv", "--per-shape", "0.05", "--device", "cpu", *force]

    def check(self, out):
        check_whole("tune.db")
        now = rows("tune.db")
        if self.before - now:
            raise Lost(f"rows lost: {sorted(self.before - now)}")
        self.before = now

    def expected(self):
        if len(rows("tune.db")) != SHAPES.count("gemm"):
            raise Lost(f"{len(rows('tune.db'))} rows after an undisturbed run")
        return ["tune.db"]


class Engine(Kind):
    """Calls that were reported as written down are."""

    told = 0

    def command(self):
        return [self.run.engine, "cpu", "6"]

    def check(self, out):
        check_whole("engine.db")
        self.told += int(out.split()[-1]) if out.split() else 0
        calls = (query("engine.db", "SELECT sum(calls) FROM misses") or [(0,)])[0][0] or 0
        if calls < self.told:
            raise Lost(f"{calls} calls are recorded, {self.told} were reported")

    def expected(self):
        return ["engine.db"]


class Compile(Kind):
    """An engine that compiles: nothing of the compilers stays."""

    def command(self):
        shutil.rmtree("cache", ignore_errors=True)
        return [self.run.engine, "emu:gfx942:4", "1"]

    def expected(self):
        for base, _, files in os.walk("cache"):
            bad = [f for f in files if not f.endswith(".rfgco")]
            if bad:
                raise Lost(f"in {base}: {bad}")
        return ["cache"]


class Export(Kind):
    def command(self):
        return ["rfg-db", "export", "-o", "export.csv", "full.db"]

    def check(self, out):
        if os.path.exists("export.csv") and open("export.csv").read() != self.run.text:
            raise Lost("export.csv is neither whole nor absent")
        if self.run.random.random() < 0.5 and os.path.exists("export.csv"):
            os.unlink("export.csv")

    def expected(self):
        return ["export.csv"]


class Import(Kind):
    """All or nothing."""

    def command(self):
        return ["rfg-db", "import", "--how", "keep", "--db", "import.db", "full.csv"]

    def check(self, out):
        check_whole("import.db")
        n = len(rows("import.db"))
        if n not in (0, self.run.n) or (out and n == 0):
            raise Lost(f"{n} of {self.run.n} rows imported")
        if self.run.random.random() < 0.7:
            for end in ("", "-wal", "-shm", "-journal"):
                if os.path.exists("import.db" + end):
                    os.unlink("import.db" + end)

    def expected(self):
        return ["import.db"]


class System(Kind):
    def command(self):
        return ["rfg-db", "import", "--system", "--db", "system.db", "full.csv"]

    def check(self, out):
        check_whole("system.db")
        if os.path.exists("system.db") and len(rows("system.db")) != self.run.n:
            raise Lost("system.db is neither whole nor absent")
        if self.run.random.random() < 0.5 and os.path.exists("system.db"):
            os.unlink("system.db")

    def expected(self):
        return ["system.db"]


class Merge(Kind):
    """The one's own rows stay, the other's come all or not at all."""

    def command(self):
        if not os.path.exists("merge.db"):
            shutil.copy("half.db", "merge.db")
        return ["rfg-db", "merge", "--db", "merge.db", "full.db"]

    def check(self, out):
        check_whole("merge.db")
        n = len(rows("merge.db"))
        if n not in (self.run.n // 2, self.run.n) or (out and n != self.run.n):
            raise Lost(f"{n} rows after a merge, not {self.run.n // 2} or {self.run.n}")
        if n == self.run.n:
            for end in ("", "-wal", "-shm"):
                if os.path.exists("merge.db" + end):
                    os.unlink("merge.db" + end)

    def expected(self):
        return ["merge.db"] if os.path.exists("merge.db") else []


KINDS = {
    "tune": Tune, "engine": Engine, "compile": Compile, "export": Export, "import": Import, "system": System,
    "merge": Merge,
}
SHARE = {"tune": 4, "engine": 4, "compile": 1, "export": 4, "import": 4, "system": 2, "merge": 4}


class Run:
    def __init__(self, o):
        self.random = random.Random(o.seed)
        self.bin, self.engine = os.path.abspath(o.bindir), os.path.abspath(o.engine)
        self.dir = tempfile.mkdtemp(prefix="rfg-kills-")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)
        os.chdir(self.dir)
        self.env = dict(os.environ, TMPDIR=self.tmp, HOME=self.dir, XDG_DATA_HOME=self.dir, RFG_CACHE_DIR="cache",
                        RFG_DB="engine.db", RFG_SYSTEM_DB=os.path.join(self.dir, "none.db"), RFG_THREADS="1",
                        RFG_CPU_ISA="portable")
        for name in ("RFG_VARIANTS", "RFG_LOG", "RFG_DEVICE", "RFG_COMPILE_WORKER"):
            self.env.pop(name, None)
        self.kinds = []

    def start(self, command):
        program = command[0] if os.path.isabs(command[0]) else os.path.join(self.bin, command[0])
        return subprocess.Popen([program, *command[1:]], env=self.env, stdout=subprocess.PIPE,
                                stderr=open("stderr", "a"), text=True)

    def undisturbed(self, kind):
        start = time.monotonic()
        child = self.start(kind.command())
        out, _ = child.communicate(timeout=300)
        if child.returncode:
            raise Lost(f"{kind.name}: exit status {child.returncode}: {open('stderr').read()[-2000:]}")
        kind.took = max(kind.took, time.monotonic() - start)
        kind.check(out)

    def kill(self, kind):
        child = self.start(kind.command())
        try:
            out, _ = child.communicate(timeout=self.random.random() * kind.took * 1.1)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            out, _ = child.communicate()
        if child.returncode not in (0, -signal.SIGKILL):
            raise Lost(f"{kind.name}: exit status {child.returncode}: {open('stderr').read()[-2000:]}")
        kind.kills += child.returncode != 0
        kind.check(out)

    def prepared(self, command):
        child = self.start(command)
        child.communicate(timeout=300)
        if child.returncode:
            raise Lost(f"{command}: {open('stderr').read()[-2000:]}")

    def prepare(self, names):
        """A database of some rows, half of them, and their text."""
        with open("shapes.csv", "w") as f:
            f.write(SHAPES)
        with open("many.csv", "w") as f:
            f.write("op,dtypes,attrs,M,N,K,arch,cu_count,variant,params,median_us,spread_us,samples,error,error_bound,"
                    "default_us,vendor_us,source_hash,compiler,driver,rfg_version,date,device,seed,how\n")
            for m in range(1, 401):
                f.write(f'gemm,"bf16,bf16->bf16",,{m},64,256,gfx942,304,gemm_portable,"{{""tile_m"":16}}",{m},0,3,0,1,0,0,,,,0.2.0,'
                        "2026-11-30T00:00:00Z,,1,measured\n")
        for command in (["rfg-db", "import", "--how", "keep", "--db", "full.db", "many.csv"],
                        ["rfg-db", "export", "-o", "full.csv", "full.db"]):
            self.prepared(command)
        self.text = open("full.csv").read()
        lines = self.text.splitlines(True)
        self.n = len(lines) - 1
        with open("half.csv", "w") as f:
            f.writelines(lines[: 1 + self.n // 2])
        self.prepared(["rfg-db", "import", "--how", "keep", "--db", "half.db", "half.csv"])
        self.kinds = [KINDS[n](self, n) for n in names]

    def leftovers(self):
        known = {"tmp", "cache", "shapes.csv", "many.csv", "full.csv", "half.csv", "stderr"}
        databases = {"full.db", "half.db"}
        for _ in range(100):  # children of what was killed end by themselves
            extra = os.listdir("tmp")
            if not extra:
                break
            time.sleep(0.05)
        for kind in self.kinds:
            databases |= set(kind.expected())
        known |= {f + end for f in databases for end in ("", "-wal", "-shm")}
        return [f for f in os.listdir(".") if f not in known] + [os.path.join("tmp", f) for f in extra]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("bindir")
    p.add_argument("engine")
    p.add_argument("--kills", type=int, default=100)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--keep", action="store_true", help="the directory, if something is found")
    o = p.parse_args()
    run = Run(o)
    names = o.kinds.split(",")
    tries = 0
    try:
        run.prepare(names)
        for kind in run.kinds:
            run.undisturbed(kind)
        while sum(k.kills for k in run.kinds) < o.kills:
            tries += 1
            run.kill(run.random.choices(run.kinds, [SHARE[k.name] for k in run.kinds])[0])
        for kind in run.kinds:
            run.undisturbed(kind)
        left = run.leftovers()
        if left:
            raise Lost(f"left behind: {left}")
    except Lost as e:
        print(f"kills.py: seed {o.seed}: after {sum(k.kills for k in run.kinds)} kills: {e}")
        return 1
    finally:
        if not o.keep:
            shutil.rmtree(run.dir, ignore_errors=True)
    print(f"{sum(k.kills for k in run.kinds)} kills in {tries} runs (seed {o.seed}): "
          + ", ".join(f"{k.name} {k.kills}" for k in run.kinds) + "; 0 rows lost, 0 leftovers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
