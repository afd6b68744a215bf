#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the small model's text: English documentation that Debian ships under free licences, as plain ASCII.

  corpus.py corpus.txt [--keep FOLDER]

Packages come from the machine's own Debian archive (apt-get download) and are unpacked, not installed. Every document is
one paragraph a line, documents are separated by a blank line. Licences, changelogs, indexes and pages in other languages
are left out, and so is a paragraph that has been there before.
"""
import argparse
import glob
import gzip
import hashlib
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import unicodedata

PACKAGES = """aptitude-doc-en debian-faq debian-handbook debian-history debian-policy debian-reference-en developers-reference
git-doc gnucash-docs harden-doc installation-guide-amd64 maint-guide postgresql-doc-15 python3.11-doc gimp-help-en
libreoffice-help-en-us""".split()
SKIPPED = re.compile(r"copyright|licen[cs]e|changelog|genindex|bookindex|py-modindex|/search\.|fdl|gpl|/legal|/_sources/"
                     r"|/(ca|cs|da|de|es|fi|fr|hu|it|ja|ko|nb|nl|pl|pt|pt-br|ro|ru|sv|tr|uk|vi|zh-cn|zh-tw|zh_CN|zh_TW)/"
                     r"|\.(ca|cs|da|de|es|fi|fr|hu|it|ja|ko|nl|pl|pt|pt-br|ro|ru|sv|vi|zh-cn|zh-tw)\.", re.I)
BLOCKS = set("p div li dt dd tr td th pre h1 h2 h3 h4 h5 h6 blockquote br table ul ol dl section article body".split())
SILENT = set("script style head nav footer sup".split())


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self.silent = [], 0

    def handle_starttag(self, tag, attrs):
        self.silent += tag in SILENT
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.silent = max(0, self.silent - (tag in SILENT))
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.silent:
            self.parts.append(data.replace("\n", " "))


FOLD = {0x2018: "'", 0x2019: "'", 0x201c: '"', 0x201d: '"', 0x2013: "-", 0x2014: "-", 0x2026: "...", 0x2022: "*", 0x2192: "->"}


def paragraphs(raw, is_html):
    text = raw.decode("utf-8", "replace")
    if is_html:
        parser = Text()
        parser.feed(text)
        lines = "".join(parser.parts).split("\n")
    else:
        lines = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text)]
    for line in lines:
        line = unicodedata.normalize("NFKD", line.translate(FOLD)).encode("ascii", "ignore").decode()
        line = " ".join(line.split())
        # Sentences: no menus, no tables of numbers, no lines of code.
        letters = sum(c.isalpha() or c == " " for c in line)
        if len(line) >= 60 and letters >= 0.85 * len(line) and re.search(r"\b(the|a|is|to|of)\b", line):
            yield line


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("out")
    options.add_argument("--keep", help="unpack here, and leave it")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q"] + PACKAGES, cwd=folder, check=True)
        seen, documents, total = set(), [], 0
        for deb in sorted(glob.glob(os.path.join(folder, "*.deb"))):
            root = deb[:-len(".deb")]
            subprocess.run(["dpkg", "-x", deb, root], check=True)
            before = total
            for path in sorted(glob.glob(root + "/**/*", recursive=True)):
                name = path[len(root):]
                kind = re.search(r"\.(x?html?|txt)(\.gz)?$", name)
                if not kind or not os.path.isfile(path) or os.path.islink(path) or SKIPPED.search(name):
                    continue
                raw = (gzip.open if kind[2] else open)(path, "rb").read()
                kept = []
                for p in paragraphs(raw, kind[1] != "txt"):
                    digest = hashlib.sha1(p.encode()).digest()
                    if digest not in seen:
                        seen.add(digest)
                        kept.append(p)
                if kept:
                    documents.append("\n".join(kept))
                    total += len(documents[-1]) + 2
            print("%s: %d bytes" % (os.path.basename(deb), total - before), file=sys.stderr)
    with open(options.out, "w") as f:
        f.write("\n\n".join(documents) + "\n")
    print("%s: %d documents, %d bytes" % (options.out, len(documents), total), file=sys.stderr)


if __name__ == "__main__":
    main()
