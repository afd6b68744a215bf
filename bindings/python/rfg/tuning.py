# SPDX-License-Identifier: MIT
"""rfg-tune and the other programs, from Python."""

import os
import stat
import subprocess
from typing import Iterable, List, Optional, Sequence, Union

from . import _rfg
from ._hooks import library_path


def _trusted(path: str, owner: int) -> str:
    """"" or why a program that was found is not run: as librfg itself has it (docs/security.md)."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode) or not os.access(path, os.X_OK):
        return "is no program"
    if info.st_uid not in (0, os.geteuid(), owner):
        return "belongs to another user (%d)" % info.st_uid
    if info.st_mode & stat.S_IWOTH:
        return "can be written by others (chmod o-w)"
    return ""


def program(name: str) -> str:
    """The path of a program of librfg's prefix, "rfg-tune": beside the library (a build folder) or in PREFIX/bin."""
    library = os.path.realpath(library_path())
    folder = os.path.dirname(library)
    places = [os.path.join(folder, "bin")]
    for up in (1, 2):  # PREFIX/lib, PREFIX/lib/x86_64-linux-gnu
        parts = folder.split("/")
        if len(parts) > up and parts[-up].startswith("lib"):
            places.append("/".join(parts[:-up] + ["bin"]))
    for place in places:
        path = os.path.realpath(os.path.join(place, name))
        if os.path.exists(path):
            why = _trusted(path, os.stat(library).st_uid)
            if why:
                raise _rfg.Error("%s: %s %s" % (name, path, why))
            return path
    raise _rfg.Error("%s: there is none in %s" % (name, " or ".join(places)))


def tune(
    problems: Union[str, Iterable[str]] = (),
    *,
    shapes: Optional[str] = None,
    from_misses: bool = False,
    device: Optional[str] = None,
    db: Optional[str] = None,
    options: Sequence[str] = (),
    quiet: bool = False,
) -> str:
    """Runs rfg-tune: finds the fastest correct variant for each problem and writes it to the tuned database.

    problems: strings as describe() gives them; shapes: a shapes file; from_misses: what ran without a tuned row.
    device, db: as for rfg-tune; options: further ones, ["--per-shape", "0.5"]. Contexts that are open keep the rows they have
    read. Returns what rfg-tune printed, which is printed too unless quiet. Error: it failed, or left problems out."""
    problems = [problems] if isinstance(problems, str) else list(problems)
    command: List[str] = [program("rfg-tune")]
    for problem in problems:
        command += ["--problem", problem]
    if shapes is not None:
        command += ["--shapes", os.path.abspath(shapes)]
    if from_misses:
        command.append("--from-misses")
    if len(command) == 1:
        raise _rfg.Error("tune: nothing to tune: give problems, shapes or from_misses")
    if device is not None:
        command += ["--device", device]
    if db is not None:
        command += ["--db", os.path.abspath(db)]
    done = subprocess.run(command + list(options), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    if not quiet:
        print(text, end="")
    if done.returncode:
        raise _rfg.Error("rfg-tune: exit code %d: %s" % (done.returncode, text.strip()[-2000:]))
    return text
