# SPDX-License-Identifier: MIT
"""Reads a page of rfg-tune --report beside the file of --json: every candidate must be there, in its place."""
import json
import math
import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "input", "link", "img"}
REFERENCES = {"src", "href", "xlink:href", "action", "formaction", "data", "srcset", "poster", "background", "cite", "ping"}
FORBIDDEN = {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "noscript"}


def fail(message):
    sys.exit(f"{sys.argv[1]}: {message}")


def check(truth, message):
    if not truth:
        fail(message)


class Node:
    def __init__(self, tag, attrs, parent):
        self.tag, self.attrs, self.parent, self.children, self.own = tag, attrs, parent, [], []

    def all(self, tag, cls=None):
        """All below, in the order of the page."""
        for c in self.children:
            if isinstance(c, Node):
                if c.tag == tag and (cls is None or cls in (c.attrs.get("class") or "").split()):
                    yield c
                yield from c.all(tag, cls)

    def text(self):
        return "".join(c.text() if isinstance(c, Node) else c for c in self.children)


class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Node("", {}, None)
        self.ids = set()

    def handle_starttag(self, tag, attrs):
        names = [a for a, _ in attrs]
        check(len(names) == len(set(names)), f"<{tag}>: an attribute is there twice: {names}")
        check(tag not in FORBIDDEN, f"<{tag}> is there")
        for name, value in attrs:
            check(not name.startswith("on"), f"<{tag} {name}>: a handler")
            check(name not in REFERENCES or (value or "").startswith("#"), f"<{tag} {name}='{value}'>: refers outside")
        ident = dict(attrs).get("id")
        check(ident not in self.ids, f"id '{ident}' is there twice")
        if ident:
            self.ids.add(ident)
        node = Node(tag, dict(attrs), self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.at = self.at.parent

    def handle_endtag(self, tag):
        check(self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>")
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def shown(text):
    """As a page shows it: control characters are replaced."""
    return "".join("\ufffd" if c < " " or c == "\x7f" else c for c in text or "")


def position(ratio):
    return 2 + 96 * math.log2(min(max(ratio, 0.5), 4) / 0.5) / 3


def percent(text):
    check(text.endswith("%") and 0 <= float(text[:-1]) <= 100, f"'{text}' is no place on a strip")
    return float(text[:-1])


def check_strip(name, s, strip):
    us = s["median_us"]
    ticks = [t for t in strip.all("line", "t") if "n" not in t.attrs["class"].split()]
    tries = s.get("tries", [])
    check(len(ticks) == len(tries), f"{name}: {len(ticks)} ticks for {len(tries)} candidates")
    for t, tick in zip(tries, ticks):
        check(t["config"] in tick.text(), f"{name}: a tick says '{tick.text()}', not '{t['config']}'")
        x = percent(tick.attrs["x1"])
        check(x == percent(tick.attrs["x2"]) and abs(x - position(t["us"] / us)) < 0.011, f"{name}: {t['config']} is at {x} %")
        classes = tick.attrs["class"].split()
        for key, cls in (("vendor", "v"), ("raced", "r")):
            check(bool(t.get(key)) == (cls in classes), f"{name}: {t['config']}: class {cls}")
        check((t["samples"] == 0) == ("o" in classes), f"{name}: {t['config']}: ran once?")
    plain = list(strip.all("line", "n"))
    check(len(plain) == sum("plain_us" in t for t in tries), f"{name}: ticks without overlap")
    for key, mark in (("median_us", "w"), ("default_us", "d"), ("vendor_us", "u")):
        marks = list(strip.all("use", mark))
        check(len(marks) == (s[key] > 0), f"{name}: {len(marks)} marks of {key}")
        for m in marks:
            check(abs(percent(m.attrs["x"]) - position(s[key] / us)) < 0.011, f"{name}: {key} is at {m.attrs['x']}")
            check(m.attrs["href"] == "#" + mark, f"{name}: {key} is drawn as {m.attrs['href']}")
    floors, floor = list(strip.all("line", "f")), s["floor_us"] / us
    check(len(floors) == (floor >= 0.5), f"{name}: {len(floors)} floors")
    check(floor >= 0.5 or f"floor {floor:.2f}\u00d7" in strip.text(), f"{name}: the floor is not said")
    for key, what in (("default_us", "default"), ("vendor_us", "vendor")):
        far = s[key] > 4 * us
        check(far == (f"{what} {s[key] / us:.1f}\u00d7" in strip.text()), f"{name}: {what} off the scale")
    far = sum(t["us"] > 4 * us for t in tries)
    check(not far or f"{far} over 4\u00d7" in strip.text(), f"{name}: {far} are off the scale")
    (band,) = strip.all("rect", "b")
    want = {"time": "bad", None: None}.get(s.get("spread_swamps"), "warn")
    got = [c for c in band.attrs["class"].split() if c != "b"]
    check(got == ([want] if want else []), f"{name}: spread drawn as {got}, not {want}")
    percent(band.attrs["x"])
    percent(band.attrs["width"])


def check_list(name, s, body):
    def cells(row):
        return [c.text() for c in row.children if isinstance(c, Node)]

    rows = list(body.all("tr", "timed"))
    tries = sorted(s.get("tries", []), key=lambda t: t["us"])
    check(len(rows) == len(tries), f"{name}: {len(rows)} rows for {len(tries)} candidates")
    for row, t in zip(rows, tries):
        got = cells(row)
        check(got[0] == f"{t['us']:.2f}" and t["config"] in got[-1], f"{name}: {got}, not {t}")
        for word in ("winner", "default"):
            check(bool(t.get(word)) == (word in [c.text() for c in row.all("span", "chip")]), f"{name}: {got}: {word}?")
    rows = list(body.all("tr", "untimed"))
    check(len(rows) == len(s.get("untimed", [])), f"{name}: {len(rows)} untimed")
    for row, t in zip(rows, s.get("untimed", [])):
        got = cells(row)
        check(t["config"] in got[-1] and t["state"] in got[-1] and t.get("what", "") in got[-1], f"{name}: {got}, not {t}")


def check_shape(i, s, body):
    name = s["problem"]
    check(body.attrs.get("id") == f"p{i + 1}", f"{name}: id {body.attrs.get('id')}")
    check(next(body.all("th")).text() == shown(name), f"{name}: shown as '{next(body.all('th')).text()}'")
    check(next(body.all("th")).attrs["data-v"] == shown(name), f"{name}: sorted as '{next(body.all('th')).attrs['data-v']}'")
    strips = list(body.all("svg", "strip"))
    check(len(strips) == ("median_us" in s), f"{name}: {len(strips)} strips")
    chips = " | ".join(c.text() for c in body.all("span", "chip"))
    for state in ("not reached", "failed", "refused"):
        n = sum(c["state"] == state for c in s.get("untimed", []))
        check(not n or f"{n} {state}" in chips, f"{name}: '{n} {state}' is not among '{chips}'")
    check(f"provisional: {s['provisional']}" in chips if "provisional" in s else "provisional" not in chips, f"{name}: chips '{chips}'")
    check(("spread" in chips) == ("spread_swamps" in s), f"{name}: chips '{chips}'")
    if strips:
        check(f"{s['median_us']:.2f}" in next(body.all("tr")).text(), f"{name}: no median")
        check(shown(s["config"]) in body.text(), f"{name}: no winner")
        check_strip(name, s, strips[0])
    else:
        check(s["state"] in body.text() and shown(s.get("why")) in body.text(), f"{name}: says '{body.text()}'")
    check_list(name, s, body)


def main():
    page = Page()
    text = open(sys.argv[1], encoding="utf-8").read()
    page.feed(text)
    page.close()
    check(page.at is page.root, f"<{page.at.tag}> is not closed")
    run = json.load(open(sys.argv[2], encoding="utf-8"))
    (csp,) = (m for m in page.root.all("meta") if m.attrs.get("http-equiv") == "Content-Security-Policy")
    check(csp.attrs["content"].startswith("default-src 'none';"), "the policy lets something in")
    (style,) = page.root.all("style")
    (script,) = page.root.all("script")
    for word in ("url(", "@import", "http:", "https:", "fetch", "XMLHttp", "import(", "eval", "innerHTML"):
        check(word not in style.text() + script.text(), f"'{word}' is there")
    check("prefers-color-scheme:dark" in style.text(), "no dark colours")
    for key in ("product", "driver", "device", "arch"):
        check(shown(run[key]) in page.root.text(), f"{key} '{run[key]}' is not there")
    bodies = list(page.root.all("tbody", "p"))
    check(len(bodies) == len(run["shapes"]), f"{len(bodies)} problems, not {len(run['shapes'])}")
    for i, s in enumerate(run["shapes"]):
        check_shape(i, s, bodies[i])
    print(len(bodies), sum(len(s.get("tries", [])) for s in run["shapes"]))


main()
