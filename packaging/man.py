#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""man.py PROGRAM ABOUT OUTPUT: the manual page of a program, of what its --help prints."""
import os
import re
import subprocess
import sys


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def page(name, about, version, text):
    lines = text.rstrip("\n").split("\n")
    if not lines[0].startswith("usage: "):
        sys.exit("%s --help: '%s': must begin with 'usage: '" % (name, lines[0]))
    used = 1
    while used < len(lines) and lines[used].startswith("       " + name):
        used += 1
    usage = [lines[0][7:]] + [line.strip() for line in lines[1:used]]
    out = ['.TH %s 1 "" "rfg %s" "rfg"' % (name.upper(), version), ".SH NAME", "%s \\- %s" % (name, escape(about)),
           ".SH SYNOPSIS", ".nf"] + [escape(line) for line in usage] + [".fi", ".SH DESCRIPTION"]
    for line in lines[used:]:
        term = re.match(r"( {2,6})(\S.*?)(?: {2,}(\S.*))?$", line)
        if not line.strip():
            out.append(".PP")
        elif term and (term[3] or "").startswith("-"):  # "  -h, --help    -V, --version"
            out += [".TP", "\\fB%s\\fR" % escape(term[2]), ".TP", "\\fB%s\\fR" % escape(term[3])]
        elif term:  # "  --option X    what it does", or the option alone, and more lines of that
            out += [".TP", "\\fB%s\\fR" % escape(term[2])] + ([escape(term[3])] if term[3] else [])
        elif line.startswith(" "):
            out.append(escape(line.strip()))
        elif re.match(r"[^.,]*:$", line):
            out += [".SS " + escape(line[:-1])]
        else:
            if ".TP" in out[-3:]:  # which the text that follows is no part of
                out.append(".PP")
            out.append(escape(line))
    # No empty paragraphs, and none before a heading or an option.
    kept = [line for i, line in enumerate(out) if line != ".PP" or (i + 1 < len(out) and not re.match(r"\.(PP|SS|TP)", out[i + 1])
                                                                    and not re.match(r"\.S[HS]", out[i - 1]))]
    return "\n".join(kept + [".SH SEE ALSO", ", ".join("\\fB%s\\fR(1)" % escape(p) for p in PAGES if p != name), ""])


PAGES = ["rfg-bench", "rfg-compile", "rfg-db", "rfg-emu", "rfg-info", "rfg-tune"]

if __name__ == "__main__":
    program, about, output = sys.argv[1:]
    name = os.path.basename(program)
    said = [subprocess.run([program, option], capture_output=True, text=True, check=True).stdout for option in ("--help", "--version")]
    with open(output, "w") as f:
        f.write(page(name, about, said[1].split()[1], said[0]))
