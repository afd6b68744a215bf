#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random kernels without undefined behaviour, as text that is HIP and C: `random_kernels.py FIRST COUNT > file`.

The same seed gives the same kernel `seed_N(in, out, n)`. A kernel is a row of steps. A phase is a function of one
work-item: its state `s`, integers and floats of every width, loops and switches that lanes leave one by one, arrays,
structs, vectors, pointers, calls. Between phases lanes give each other values, and there are barriers. LDS and a part
of `out` are shared; in a phase each work-item has a slot of its own there, or all read, or all do the same atomic. So
nothing depends on the order in which work-items run, and the host can run them one after another.

Floats are exact: +, -, *, /, sqrt, fma and conversions are rounded the same everywhere (without contraction); what a
NaN's bits are is never asked.
"""
import random
import sys

INTS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
FLOATS = ["f16", "f32", "f64"]
WIDTH = {t: int(t[1:]) for t in INTS + FLOATS}
IN, SLOT, TOTALS, OWN = 1024, 16, 16, 4  # words of in; bytes of a slot; words that all groups add to; of a work-item
# A test's length is the compilers'; these keep a kernel at a screen or two.
DEPTH, COST = 3, 150


def pick(r, weights):
    return r.choices(list(weights), weights.values())[0]


class Function:
    """Where statements go: names in scope, and how often what is written here runs."""

    def __init__(self, kernel, has_state):
        self.k, self.r, self.has_state = kernel, kernel.r, has_state
        self.scopes, self.cost, self.times, self.count, self.loops = [[]], 0, 1, 0, 0
        self.lines, self.indent = [], 1
        self.shared = {}  # area: mode, of a phase

    def put(self, text):
        self.lines.append("    " * self.indent + text)
        self.cost += self.times

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}_"

    def declare(self, kind, t, name, size=0, constant=False):
        self.scopes[-1].append((kind, t, name, size, constant))

    def names(self, kind, t=None, writable=False):
        return [v for s in self.scopes for v in s
                if v[0] == kind and (t is None or v[1] == t) and not (writable and v[4])]

    # ---- expressions: text whose type is t ----

    def constant(self, t):
        r = self.r
        if t in FLOATS:
            value = r.choice(["0", "1", "-1", "0.5", "2", "-3", "10", "0.1", "1.0 / 3", "-0.0", "1e-5", "6e-8",
                              "65504", "1e4"] + (["1e-40", "3e38", "16777217.0", "4294967296.0"] if t != "f16" else []) +
                             (["1e-310", "1e300", "9007199254740993.0"] if t == "f64" else []))
            return f"(({t})({value}))"
        w, signed = WIDTH[t], t[0] == "i"
        v = r.choice([0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, 255, (1 << w) - 1, 1 << (w - 1),
                      (1 << (w - 1)) - 1, r.getrandbits(w), r.getrandbits(w), r.getrandbits(8)]) & ((1 << w) - 1)
        return f"(({t}){v}{'ull' if v >> 32 else 'u'})"

    def plain(self, t):
        """An index of an index: a name, or a number."""
        names = [v[2] for v in self.names("var", t)]
        if t == "u32":
            names += ["TID", "(u32)n", "TID"] + [f"(u32){v[2]}" for v in self.names("counter")]
        return self.r.choice(names) if names else self.constant(t)

    def leaf(self, t):
        r = self.r
        ways = [lambda: self.constant(t)]
        for v in self.names("var", t):
            ways += [lambda v=v: v[2]] * 3
        for v in self.names("array", t):
            ways += [lambda v=v: f"{v[2]}[{self.index(v[3], 1)}]"] * 2
        for v in self.names("pointer", t):
            ways += [lambda v=v: f"*{v[2]}"] * 2
        if self.has_state:
            for f in self.k.fields:
                if f[0] == t:
                    ways += [lambda f=f: f"s->{f[1]}"] * 3
            for area, mode in self.shared.items():
                if mode in ("own", "read") and t in INTS:
                    ways += [lambda a=area: self.place(a, t, 1)] * 2
        if t == "u32":
            ways += [lambda: f"in[{self.index(IN, 1)}]", lambda: "(u32)n", lambda: "TID", lambda: "GROUP"]
            ways += [lambda v=v: f"(u32){v[2]}" for v in self.names("counter")]
        if t == "i32":
            ways += [lambda: "(i32)TID", lambda: "n", lambda: f"(i32)in[TID + {r.randrange(768)}]"]
        if t in self.k.tables:
            ways += [lambda: f"{self.k.tables[t]}[{self.index(8, 1)}]"]
        return r.choice(ways)()

    def index(self, size, depth):
        r = self.r
        t = pick(r, {"u32": 5, "u8": 1, "u16": 1, "u64": 1, "counter": 3})
        counters = self.names("counter")
        if t == "counter" and counters:
            e = f"{r.choice(counters)[2]} + {r.randrange(4)}u"
        else:
            t = "u32" if t == "counter" else t
            e = self.expr(t, depth - 1) if depth > 1 or r.random() < 0.1 else self.plain(t)
        return f"({e}) % {size}u" if r.random() < 0.8 or size & (size - 1) else f"({e}) & {size - 1}u"

    def place(self, area, t, depth):
        """An lvalue of type t in a shared area: in this work-item's slot, or anywhere."""
        n = WIDTH[t] // 8
        if self.shared[area] == "own":
            return f"((WORD({t}) *){area}_slot)[{self.index(SLOT // n, depth)}]"
        return f"((const WORD({t}) *){area})[{self.index(self.k.size * SLOT // n, depth)}]"

    def convert(self, t, f, e):
        if f == t:
            return e
        if t in INTS and f in FLOATS:
            return f"{'f32' if f == 'f16' else f}_to_{t}({'(f32)' if f == 'f16' else ''}{e})"
        # Compilers go through f32 from wide integers, which rounds twice.
        if t == "f16" and f in INTS and WIDTH[f] > 16:
            return f"(f16)(i16){e}"
        return f"(f16)APART({e})" if t == "f16" and f in FLOATS else f"({t}){e}"

    def expr(self, t, depth):
        r = self.r
        if depth <= 0 or r.random() < 0.15:
            return self.leaf(t)
        return self.float_expr(t, depth - 1) if t in FLOATS else self.int_expr(t, depth - 1)

    def condition(self, depth):
        r = self.r
        way = r.random()
        t = r.choice(INTS + FLOATS)
        if way < 0.55:
            return f"({self.expr(t, depth)} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {self.expr(t, depth)})"
        if way < 0.75:
            return f"({self.expr('u32', depth)} & {r.choice([1, 2, 3, 4, 7, 0x80, 0x100])}u)"
        if way < 0.9 and depth > 0:
            return f"({self.condition(depth - 1)} {r.choice(['&&', '||'])} {self.condition(depth - 1)})"
        return f"(!{self.condition(depth - 1)})" if depth > 0 else f"({self.leaf('u8')} > 99)"

    def from_other(self, t, depth):
        f = self.r.choice(INTS + FLOATS)
        return "(" + self.convert(t, f, f"({self.expr(f, depth)})") + ")"

    def call(self, t, depth):
        fit = [f for f in self.k.functions if f.type == t and f.cost * self.times < COST // 2]
        if not fit:
            return self.leaf(t)
        f = self.r.choice(fit)
        self.cost += f.cost * self.times
        return f"{f.title}({', '.join(['in', 'n'] + [self.expr(p, depth - 1) for p in f.parameters])})"

    def int_expr(self, t, d):
        r, w = self.r, WIDTH[t]
        c = "u64" if w == 64 else "u32"
        way = pick(r, {"arith": 30, "shift": 12, "compare": 6, "choose": 8, "other": 12, "unary": 6, "divide": 4,
                       "pick": 5, "call": 8, "bits": 6, "wide": 4, "special": 4})
        if way == "arith":
            return f"(({t})(({c}){self.expr(t, d)} {r.choice('+-*&|^+-*')} ({c}){self.expr(t, d)}))"
        if way == "shift":
            by = f"({self.expr(r.choice(['u32', 'u8', t]), d)} & {w - 1})" if r.random() < 0.6 else str(r.randrange(w))
            return f"(({t})(({c}){self.expr(t, d)} << {by}))" if r.random() < 0.4 else f"(({t})({self.expr(t, d)} >> {by}))"
        if way == "compare":
            return f"(({t}){self.condition(d)})"
        if way == "choose":
            return f"({self.condition(d)} ? {self.expr(t, d)} : {self.expr(t, d)})"
        if way == "other":
            return self.from_other(t, d)
        if way == "unary":
            return f"(({t})({r.choice(['~', '0 - ', '!'])}({c}){self.expr(t, d)}))"
        if way == "divide":
            if r.random() < 0.5:  # by a constant: multiplications
                return f"(({t})({self.expr(t, d)} {r.choice('/%')} ({t}){r.choice([3, 5, 7, 10, 12, 16, 100, 127])}))"
            return f"{r.choice(['div', 'mod'])}_{t}({self.expr(t, d)}, {self.expr(t, d)})"
        if way == "pick":
            return f"{r.choice(['min', 'max'])}_{t}({self.expr(t, d)}, {self.expr(t, d)})"
        if way == "call":
            return self.call(t, d)
        if way == "wide" and w == 64:
            u = "unsigned __int128" if t == "u64" else "__int128"
            return f"(({t})(({u}){self.expr(t, d)} * {self.expr(t, d)} >> {r.choice([1, 32, 64, 65])}))"
        if way == "wide":
            return f"(({t})((u64){self.expr(t, d)} * (u64){self.expr(t, d)} >> {r.choice([8, 16, 24, 32])}))"
        if way == "special":
            return f"(({t}){self.special(d)})"
        if w == 64:
            e = f"(u64){self.expr(t, d)}"
            return r.choice([f"(({t})__builtin_popcountll({e}))", f"(({t})__builtin_clzll({e} | 1))",
                             f"(({t})__builtin_ctzll({e} | 1ull << 63))", f"(({t})__builtin_bswap64({e}))",
                             f"(({t})bits_f64({self.expr('f64', d)}))"])
        e = f"(u32){self.expr(t, d)}"
        return r.choice([f"(({t})__builtin_popcount({e}))", f"(({t})__builtin_clz({e} | 1))",
                         f"(({t})__builtin_ctz({e} | 1u << 31))", f"(({t})__builtin_bswap32({e}))",
                         f"(({t})bits_f32({self.expr('f32', d)}))", f"(({t})bits_f16({self.expr('f16', d)}))",
                         f"(({t})REVERSE({e}))"])

    def special(self, d):
        r = self.r
        a, b, c = (f"(u32){self.expr('u32', d)}" for _ in range(3))
        n = r.randrange(1, 31)
        return r.choice([f"UBFE({a}, {r.choice([b, r.randrange(32)])}, {n})", f"SBFE({a}, {r.choice([b, r.randrange(32)])}, {n})",
                         f"ALIGNBYTE({a}, {b}, {c})", f"SAD({a}, {b}, {c})",
                         f"({a} << {n} | {a} >> {32 - n})"])

    def float_expr(self, t, d):
        r = self.r
        way = pick(r, {"arith": 40, "divide": 4, "choose": 8, "other": 12, "unary": 8, "pick": 5, "root": 3, "fma": 6,
                       "round": 5, "bits": 5, "call": 6, "scale": 2})
        suffix = "" if t == "f64" else "f"
        wide = t if t != "f16" else "f32"  # the C library has no functions of f16
        if way == "arith":
            return f"({self.expr(t, d)} {r.choice('+-*')} {self.expr(t, d)})"
        if way == "divide":
            return f"({self.expr(t, d)} / {self.expr(t, d)})"
        if way == "choose":
            return f"({self.condition(d)} ? {self.expr(t, d)} : {self.expr(t, d)})"
        if way == "other":
            return self.from_other(t, d)
        if way == "unary":
            return f"(-{self.expr(t, d)})" if r.random() < 0.5 else f"(({t})__builtin_fabs{suffix}({self.expr(t, d)}))"
        if way == "pick":
            return f"{r.choice(['min', 'max'])}_{t}({self.expr(t, d)}, {self.expr(t, d)})"
        if way == "root":
            return f"(({t})__builtin_sqrt{suffix}(({wide}){self.expr(t, d)}))"
        if way == "fma":
            a, b, c = (f"({wide}){self.expr(t, d)}" for _ in range(3))
            e = f"__builtin_fma{'' if t == 'f64' else 'f'}({a}, {b}, {c})"
            return f"((f16)APART({e}))" if t == "f16" else f"({e})"
        if way == "round":
            return f"(({t})__builtin_{r.choice(['floor', 'ceil', 'trunc', 'rint'])}{suffix}(({wide}){self.expr(t, d)}))"
        if way == "scale" and t != "f16":
            return f"(({t})__builtin_ldexp{suffix}({self.expr(t, d)}, (i32)({self.expr('u32', d)} % 41u) - 20))"
        if way == "call":
            return self.call(t, d)
        u = f"u{WIDTH[t]}"
        return f"of_{t}({self.expr(u, d)})"

    # ---- statements ----

    def target(self, t):
        """Something of type t that may be assigned to; None: nothing is."""
        r = self.r
        ways = [lambda v=v: v[2] for v in self.names("var", t, True)]
        ways += [lambda v=v: f"{v[2]}[{self.index(v[3], 1)}]" for v in self.names("array", t, True)]
        ways += [lambda v=v: f"*{v[2]}" for v in self.names("pointer", t, True)]
        if self.has_state:
            ways += [lambda f=f: f"s->{f[1]}" for f in self.k.fields if f[0] == t]
            ways += [lambda a=a: self.place(a, t, 1) for a, m in self.shared.items() if m == "own" and t in INTS]
        return r.choice(ways)() if ways else None

    def assign(self):
        r = self.r
        t = r.choice(INTS + FLOATS + ["u32", "f32"])
        place = self.target(t)
        if not place:
            return self.local()
        d = r.choice([1, 2, 2, DEPTH])
        if r.random() < 0.3 and t in INTS:
            c = "u64" if WIDTH[t] == 64 else "u32"
            return self.put(f"{place} {r.choice(['^=', '|=', '&=', '^='])} ({t})(({c}){self.expr(t, d)});")
        return self.put(f"{place} = {self.expr(t, d)};")

    def local(self):
        r = self.r
        t = r.choice(INTS + FLOATS)
        if r.random() < 0.65:
            name, constant = self.name("v"), r.random() < 0.2
            word = "volatile " if r.random() < 0.06 else "const " if constant else ""
            self.put(f"{word}{t} {name} = {self.expr(t, 2)};")
            if word != "volatile ":
                self.declare("var", t, name, 0, constant)
            else:
                self.put(f"{name} = {self.expr(t, 2)};")
                self.declare("var", t, name, 0, True)
            return
        name, size = self.name("a"), r.choice([2, 3, 4, 5, 8, 8, 13, 16, 20])
        if r.random() < 0.5 and size < 9:
            self.put(f"{t} {name}[{size}] = {{ {', '.join(self.expr(t, 1) for _ in range(size))} }};")
        else:
            self.put(f"{t} {name}[{size}];")
            i = self.name("i")
            start = self.expr(t, 1)
            step = f"({t})({i} * {r.choice([1, 3, 77])})"
            self.put(f"for (u32 {i} = 0; {i} < {size}; {i}++)")
            self.put(f"    {name}[{i}] = ({t})({f'({t})' if t in FLOATS else '(u32)'}{start} {r.choice('+-') if t in FLOATS else r.choice('+-^')} {step});"
                     if t not in ("i64", "u64") else f"    {name}[{i}] = ({t})((u64){start} ^ (u64){step});")
        self.declare("array", t, name, size)

    def pointer(self):
        """To one of two things of a type: private, and shared where it is this work-item's."""
        r = self.r
        t = r.choice(INTS + FLOATS)
        places = [f"&{v[2]}" for v in self.names("var", t, True)]
        places += [f"&{v[2]}[{self.index(v[3], 1)}]" for v in self.names("array", t, True)]
        if self.has_state:
            places += [f"&s->{f[1]}" for f in self.k.fields if f[0] == t]
            if t in INTS:
                places += [f"({t} *)&{self.place(a, t, 1)}" for a, m in self.shared.items() if m == "own"] * 2
        if not places:
            return self.local()
        name = self.name("p")
        a, b = r.choice(places), r.choice(places)
        # Types of 16 bits and less alias: the compilers are told that everything does.
        self.put(f"{t} *{name} = {self.condition(1)} ? {a} : {b};" if a != b else f"{t} *{name} = {a};")
        self.declare("pointer", t, name)

    def block(self, room, depth, before=()):
        self.scopes.append([])
        self.indent += 1
        for line in before:
            self.put(line)
        self.statements(room, depth)
        self.indent -= 1
        self.scopes.pop()

    def branch(self, depth):
        r = self.r
        self.put(f"if {self.condition(2)} {{")
        self.block(r.randrange(1, 4), depth - 1)
        if r.random() < 0.5:
            self.put("} else {")
            self.block(r.randrange(1, 4), depth - 1)
        self.put("}")

    def leave(self):
        """Lanes go one by one: only in a loop."""
        r = self.r
        if self.loops:
            self.put(f"if {self.condition(1)}")
            self.put(f"    {r.choice(['break', 'continue', 'break'])};")
        else:
            self.assign()

    def loop(self, depth):
        r = self.r
        most = r.choice([2, 3, 4, 6, 9])
        if self.times * most > 40:
            return self.branch(depth)
        i, old = self.name("i"), self.times
        way = r.random()
        if way < 0.5:
            bound = f"{self.index(most, 2)} + 1u" if r.random() < 0.7 else str(most)
            self.put(f"for (u32 {i} = 0, m_{i} = {bound}; {i} < m_{i}; {i}++) {{" if r.random() < 0.7 else
                     f"for (u32 {i} = {bound}; {i} > 0; {i}--) {{")
            end = "}"
        elif way < 0.8:
            self.put(f"u32 {i} = 0;")
            self.put(f"while ({self.condition(1)} && {i} < {most}) {{")
            end = "}"
        else:
            self.put(f"u32 {i} = 0;")
            self.put("do {")
            end = f"}} while ({self.condition(1)} && {i} < {most});"
        self.times *= most
        self.loops += 1
        self.scopes.append([])
        self.declare("counter", "u32", i)
        self.block(r.randrange(1, 4), depth - 1, [] if way < 0.5 else [f"{i}++;"])
        self.scopes.pop()
        self.loops -= 1
        self.times = old
        self.put(end)

    def switch(self, depth):
        r = self.r
        n = r.choice([2, 3, 4, 5, 8])
        self.put(f"switch ({self.expr(r.choice(['u32', 'i32', 'u8', 'u64']), 2)} & {r.choice([3, 7, 15])}) {{")
        values = [str(v) for v in r.sample(range(16), n)]
        values.insert(r.randrange(n + 1), "default")
        loops, self.loops = self.loops, 0  # a `break` would be the switch's
        for v in values:
            self.put(("case " + v if v != "default" else v) + ": {")
            self.block(r.randrange(1, 3), depth - 1)
            self.put("}")
            if r.random() < 0.7:
                self.put("break;")
        self.loops = loops
        self.put("}")

    def jump(self):
        """A loop with two entries."""
        r = self.r
        a, b, i = self.name("l"), self.name("l"), self.name("i")
        t = r.choice(["u32", "i32", "f32"])
        place = self.target(t)
        if not place or self.times > 4:
            return self.assign()
        first, second = self.expr(t, 2), self.expr(t, 2)
        c, again, out = self.condition(1), self.condition(1), self.condition(1)
        self.put("{")
        self.put(f"    u32 {i} = {r.randrange(2, 6)};")
        self.put(f"    if {c}")
        self.put(f"        goto {b};")
        self.put(f"{a}:")
        self.put(f"    {place} = {first};")
        self.put(f"    if ({i}-- == 0 || {out})")
        self.put(f"        goto end_{a};")
        self.put(f"{b}:")
        self.put(f"    {place} = {second};")
        self.put(f"    if ({i} > 0 && {again})")
        self.put(f"        goto {a};")
        self.put(f"end_{a}:;")
        self.put("}")

    def vector(self):
        r = self.r
        t = r.choice(["u32", "f32", "f16", "u16", "i16", "i32", "u8", "f64", "u64"])
        n = r.choice([2, 4, 8] if WIDTH[t] < 32 else [2, 4])
        place = self.target(t)
        if not place:
            return self.assign()
        v, a, b = f"{t}x{n}", self.name("x"), self.name("x")
        self.k.vectors.add((t, n))
        self.put("{")
        self.indent += 1
        if t in INTS and r.random() < 0.5:
            self.put(f"{v} {a} = *(const {v} *)(in + {self.index(IN - 32, 1)} / {n * WIDTH[t] // 32 or 1} * {n * WIDTH[t] // 32 or 1});")
        else:
            self.put(f"{v} {a} = {{ {', '.join(self.expr(t, 1) for _ in range(n))} }};")
        self.put(f"{v} {b} = {{ {', '.join(self.expr(t, 1) for _ in range(n))} }};")
        ops = "+-*" if t in FLOATS else "+-*^&|" if t[0] == "u" else "^&|"
        for _ in range(r.randrange(1, 4)):
            # No |: LLVM 22 loses the element of -1 that another block put into a vector (v | -1 becomes v).
            self.put(f"{a} = {a} {r.choice(ops).replace('|', '^')} {b};")
            if r.random() < 0.5:
                self.put(f"{b} = {b} {r.choice(ops).replace('|', '^')} {a};")
        if r.random() < 0.4:
            self.put(f"{b}[{self.index(n, 1)}] = {self.expr(t, 1)};")
        self.put(f"{place} = {a}[{self.index(n, 1)}];")
        if r.random() < 0.5:
            self.put(f"{place} = {b}[{r.randrange(n)}];")
        self.indent -= 1
        self.put("}")

    def struct(self):
        if not self.k.structs:
            return self.assign()
        name, members = self.r.choice(self.k.structs)
        q, r = self.name("q"), self.r
        self.put("{")
        self.indent += 1
        self.put(f"struct {name} {q};")
        for t, m, bits, _ in members:
            self.put(f"{q}.{m} = {self.expr(t, 1)};" if not bits else f"{q}.{m} = ({t})({self.expr(t, 1)} & {(1 << bits) - 1});")
        self.put(f"{q} = turn_{name}({q}, {self.expr('u32', 1)});")
        for t, m, bits, _ in r.sample(members, 2):
            place = self.target(t)
            if place:
                self.put(f"{place} = {q}.{m};")
        self.indent -= 1
        self.put("}")

    def share(self):
        """Atomics: on this work-item's slot with what they return, or on anything if all do the same."""
        r = self.r
        if not self.shared or not self.has_state:
            return self.assign()
        area, mode = r.choice(list(self.shared.items()))
        t = r.choice(["u32", "u32", "i32", "u64", "i64"])
        v = self.expr(t, 2)
        place = self.target(t)
        if mode == "read" or (mode == "own" and not place):
            return self.assign()
        if mode != "own":
            # One that changes nothing is a load to LLVM, which in LDS can't be told from one that isn't atomic.
            op, t = mode
            v = f"({self.expr(t, 2)}) {'& ~1u' if op in ('and', 'min') else '| 1u'}"
            return self.put(f"(void)ATOMIC({op}, ({t} *){area} + ({self.index(self.k.size * SLOT // (WIDTH[t] // 8), 2)}), "
                            f"({t})({v}), SPACE);")
        p = f"({t} *)&{self.place(area, t, 1)}"
        way = r.random()
        if way < 0.6:
            op = r.choice(["add", "and", "or", "xor", "min", "max"])
            if op == "add" and t[0] == "i":
                t2 = "u" + t[1:]
                return self.put(f"{place} = ({t})ATOMIC(add, ({t2} *){p}, ({t2}){v}, SPACE);")
            self.put(f"{place} = ATOMIC({op}, {p}, {v}, SPACE);" if r.random() < 0.7 else f"(void)ATOMIC({op}, {p}, {v}, SPACE);")
        elif way < 0.8:
            self.put(f"{place} = EXCHANGE({p}, {v});")
        else:
            o = self.name("o")
            self.put(f"{t} {o} = {self.expr(t, 1)};")
            self.put(f"(void)REPLACE({p}, &{o}, {v});")
            self.put(f"{place} = {o};")

    def total(self):
        op, word = self.r.choice(self.k.totals)
        self.put(f"(void)ATOMIC({op}, totals + {word}, {self.expr('u32', 2)}, AGENT);" if self.has_state else ";")

    def gather(self, into):
        """Nothing of the outermost scope was for nothing."""
        for kind, t, name, size, _ in self.scopes[0]:
            if kind in ("var", "array"):
                value = f"{name}[{self.index(size, 1)}]" if kind == "array" else name
                self.put(f"{into} = {into} * 31 + (u64){f'bits_{t}({value})' if t in FLOATS else value};")

    def statements(self, room, depth):
        for _ in range(room):
            if self.cost > COST:
                return
            way = pick(self.r, {"assign": 30, "local": 10, "branch": 12 if depth else 0, "loop": 12 if depth else 0,
                                "switch": 4 if depth else 0, "leave": 12 if self.loops else 0, "pointer": 4, "vector": 4,
                                "struct": 4, "share": 10 if self.has_state else 0, "jump": 1, "total": 2 if self.has_state else 0})
            if way in ("branch", "loop", "switch"):
                getattr(self, way)(depth)
            else:
                getattr(self, way)()


class Kernel:
    def __init__(self, seed):
        r = self.r = random.Random(seed)
        self.seed, self.functions, self.tables, self.vectors, self.structs = seed, [], {}, set(), []
        self.size, self.groups = r.choice([64, 128, 128, 192, 256, 96]), r.choice([1, 2, 3])
        self.fields = [("u32", "x"), ("u64", "y"), ("f32", "z")]
        self.fields += [(r.choice(INTS + FLOATS), f"w{i}") for i in range(r.randrange(2, 6))]
        self.totals = [(r.choice(["add", "or", "xor", "max"]), i) for i in range(TOTALS)]
        self.text = []

    def helper(self, number):
        """A function of a few numbers."""
        r = self.r
        f = Function(self, False)
        f.type, f.parameters = r.choice(INTS + FLOATS), [r.choice(INTS + FLOATS) for _ in range(r.randrange(1, 5))]
        f.title = f"f{self.seed}_{number}"
        for i, t in enumerate(f.parameters):
            f.declare("var", t, f"g{i}_")
        f.statements(r.randrange(1, 5), 2)
        result = f.expr(f.type, 2)
        itself = r.random() < 0.2
        if itself:  # calls itself, a lane as often as it wants
            f.put(f"if ({f.condition(1)} && n > 0 && n < 4)")
            f.put(f"    return {f.title}({', '.join(['in', 'n - 1'] + [f.expr(t, 1) for t in f.parameters])});")
            f.cost *= 4
        head = ", ".join(["const u32 *in", "i32 n"] + [f"{t} g{i}_" for i, t in enumerate(f.parameters)])
        way = r.choice(["NOINLINE", "INLINE", "MAYBE"])
        self.text += [f"FUNCTION {'MAYBE' if itself and way == 'INLINE' else way} "
                      f"{f.type} {f.title}({head})", "{",
                      "    (void)in, (void)n;", *f.lines, f"    return {result};", "}"]
        self.functions.append(f)
        if r.random() < 0.25:  # and one of the same kind: which is called, each lane decides
            g, two = f"{f.title}b", ", ".join(["in", "n"] + [f"g{i}_" for i in range(len(f.parameters))])
            twin = Function(self, False)
            twin.scopes = [[v for v in f.scopes[0] if v[2].startswith("g")]]
            types = ", ".join(["const u32 *", "i32"] + f.parameters)
            self.text += [f"FUNCTION NOINLINE {f.type} {g}({head})", "{", "    (void)in, (void)n;",
                          f"    return {twin.expr(f.type, 2)};", "}",
                          f"FUNCTION {f.type} {f.title}_either({head})", "{",
                          f"    {f.type} (*which)({types}) = ({twin.expr('u32', 1)} & 1) ? {f.title} : {g};",
                          f"    return which({two});", "}"]
            f.title += "_either"

    def structure(self, number):
        r = self.r
        name, members = f"s{self.seed}_{number}", []
        for i in range(r.randrange(3, 7)):
            t = r.choice(INTS + FLOATS)
            bits = r.randrange(1, min(WIDTH[t], 30)) if t in ("u8", "u16", "u32", "u64") and r.random() < 0.4 else 0
            members.append((t, f"m_{i}", bits, 0))
        self.text += [f"struct {name} {{"] + [f"    {t} {m}{f' : {b}' if b else ''};" for t, m, b, _ in members] + ["};"]
        f = Function(self, False)
        self.text += [f"FUNCTION {r.choice(['NOINLINE', 'MAYBE'])} struct {name} turn_{name}(struct {name} q, u32 x)", "{"]
        for t, m, b, _ in r.sample(members, 3):
            value = f"({t})(q.{m} * ({t})x)" if t in FLOATS else f"({t})((u64)q.{m} * 3 + x)"
            self.text.append(f"    if (x & {r.choice([1, 2, 4])})")
            self.text.append(f"        q.{m} = {value if not b else f'({t})(({value}) & {(1 << b) - 1})'};")
        self.text += ["    return q;", "}"]
        self.structs.append((name, members))

    def phase(self, number, shared, slots):
        r = self.r
        f = Function(self, True)
        f.shared = shared
        f.indent = 1
        areas = ", ".join(f"u8 *{a}" for a in ("near", "far"))
        f.statements(r.randrange(3, 6), DEPTH)
        f.gather("s->y")
        self.text += [f"FUNCTION {r.choice(['NOINLINE', 'INLINE', 'INLINE', 'MAYBE'])} void p{self.seed}_{number}"
                      f"(struct state{self.seed} *s, const u32 *in, u32 *totals, {areas}, i32 n)", "{",
                      "    (void)in, (void)totals, (void)near, (void)far, (void)n;"]
        self.text += [f"    u8 *{a}_slot = {a} + {SLOT} * ({slots[a]});" for a, m in shared.items() if m == "own"]
        self.text += [*f.lines, "}"]

    def state_expr(self, t):
        """For what lanes give each other: of the state alone."""
        f = Function(self, True)
        f.shared = {}
        return f.expr(t, 2)

    def lanes(self):
        """Lanes of a wave give each other values; the same twice: for a GPU, and for the host."""
        r = self.r
        whole = self.size % 64 == 0
        ways = ["ballot", "guarded_ballot", "count"] + (["shuffle", "lane", "first", "guarded_first", "dpp", "dpp",
                                                         "swizzle", "xor16"] if whole else [])
        way = r.choice(ways)
        field = r.choice([x for x in self.fields if x[0] in ("u32", "u64", "i64", "i32", "u16")])
        t, to = field[0], f"s->{field[1]}"
        a = self.condition_of_state() if "ballot" in way or way == "count" else self.state_expr("u32")
        b = "1"
        if "guarded" in way:
            b = self.condition_of_state()
        elif way in ("shuffle", "dpp"):
            b = self.state_expr("u32")
        k = r.randrange(32)
        if way == "dpp":
            k, bound = r.choice([r.randrange(256), 0x100 + r.randrange(1, 16), 0x110 + r.randrange(1, 16),
                                 0x120 + r.randrange(1, 16), 0x140, 0x141]), r.random() < 0.5
        gpu, host = {
            "ballot": lambda: (f"BALLOT({a})", "host_ballot(a, b, t, SZ)"),
            "guarded_ballot": lambda: (f"BALLOT({a})", "host_ballot(a, b, t, SZ)"),
            "count": lambda: (f"COUNT_LOWER(BALLOT({a}))",
                              "(u32)__builtin_popcountll(host_ballot(a, b, t, SZ) & (((u64)1 << t % WAVE) - 1))"),
            "shuffle": lambda: (f"SHUFFLE({a}, {b})", "host_lane(a, t, (u32)b[t])"),
            "lane": lambda: (f"READ_LANE({a}, {k})", f"host_lane(a, t, {k})"),
            "first": lambda: (f"FIRST({a})", "host_first(a, b, t, SZ)"),
            "guarded_first": lambda: (f"FIRST({a})", "host_first(a, b, t, SZ)"),
            "dpp": lambda: (f"DPP({b}, {a}, {k}, {'true' if bound else 'false'})",
                            f"host_dpp(b, a, t, {k}, {'true' if bound else 'false'})"),
            "swizzle": lambda: (f"SWIZZLE({a}, {k})", f"host_lane(a, t, (t % WAVE) ^ {k})"),
            "xor16": lambda: (f"XOR16({a})", "host_lane(a, t, (t % WAVE) ^ 16)"),
        }[way]()
        guard = "guarded" in way
        gpu = f"if ({b}) {to} = ({t}){gpu};" if guard else f"{to} = ({t}){gpu};"
        host = host.replace("SZ", str(self.size))
        return ([gpu], [f"for (u32 t = 0; t < {self.size}; t++) {{", f"    struct state{self.seed} *s = &all[t];",
                        "    TID = t;", f"    a[t] = (u64)({a});", f"    b[t] = (u64)({b});", "}",
                        f"for (u32 t = 0; t < {self.size}; t++) {{", f"    struct state{self.seed} *s = &all[t];",
                        f"    {'if (b[t]) ' if guard else ''}{to} = ({t}){host};", "}"])

    def condition_of_state(self):
        f = Function(self, True)
        return f.condition(2)

    def slots(self):
        r, n = self.r, self.size
        odd = [x for x in range(1, n) if x % 2 and x % 3] if n % 3 == 0 else list(range(1, n, 2))
        return f"TID * {r.choice(odd)}u + {r.randrange(n)}u) % {n}u".replace("TID", "(TID", 1)

    def write(self):
        r, n = self.r, self.seed
        for t in r.sample(INTS + ["f32", "f64"], 2):
            self.tables[t] = f"table{n}_{t}"
            f = Function(self, False)
            self.text.append(f"TABLE {t} {self.tables[t]}[8] = {{ {', '.join(f.constant(t) for _ in range(8))} }};")
        for i in range(r.randrange(0, 3)):
            self.structure(i)
        self.text += [f"struct state{n} {{"] + [f"    {t} {name};" for t, name in self.fields] + ["};"]
        for i in range(r.randrange(0, 4)):
            self.helper(i)
        gpu, host, last = [], [], {}
        phases = r.randrange(2, 4)
        steps = []
        for i in range(phases):
            shared = {a: pick(r, {"own": 5, "read": 2, "atomic": 3}) for a in ("near", "far") if r.random() < 0.7}
            for a, mode in shared.items():
                if mode == "atomic":
                    shared[a] = (r.choice(["add", "or", "and", "xor", "max", "min"]), r.choice(["u32", "u64"]))
            self.phase(i, shared, {a: self.slots() for a in shared})
            steps.append(("phase", i))
            for _ in range(r.choice([0, 0, 1, 2])):
                steps.append(("lanes", self.lanes()))
        repeat = r.random() < 0.2
        for what, step in steps:
            if what == "lanes":
                gpu += step[0]
                host += step[1]
                continue
            args = "in, totals, near, far, n"
            gpu += [f"p{n}_{step}(s, {args});", "BARRIER;"]
            host += [f"for (TID = 0; TID < {self.size}; TID++)", f"    p{n}_{step}(&all[TID], {args});"]
        if repeat:
            gpu = ["for (i32 turn = 0; turn < n % 3; turn++) {", *("    " + x for x in gpu), "}"]
            host = ["for (i32 turn = 0; turn < n % 3; turn++) {", *("    " + x for x in host), "}"]
        start = []
        for i, (t, name) in enumerate(self.fields):
            word = f"in[(GROUP * {self.size} + TID + {i * 37}) % {IN}]"
            start.append(f"s->{name} = " + (f"(f32)(i32){word} / 65536;" if t == "f32" else f"({t})(i8){word};" if t in FLOATS else
                                           f"({t})({word} * 0x100000001ull);" if WIDTH[t] == 64 else f"({t}){word};"))
        start += [f"for (u32 i = 0; i < {SLOT // 4}; i++)", f"    ((u32 *)near)[TID * {SLOT // 4} + i] = ((u32 *)far)[TID * {SLOT // 4} + i] = in[(TID * 7 + i) % {IN}];"]
        end = ["u64 h = 0;"]
        for t, name in self.fields:
            value = f"bits_{t}(s->{name})" if t in FLOATS else f"s->{name}"
            end.append(f"h = h * 0x9e3779b97f4a7c15ull + (u64){value}; h ^= h >> 29;")
        end += ["own[0] = (u32)h;", "own[1] = (u32)(h >> 32);", "own[2] = s->x;", "own[3] = bits_f32(s->z);"]
        words = self.size * (OWN + SLOT // 4)  # of a group
        head = [f"u32 *totals = out, *own = out + {TOTALS} + GROUP * {words} + TID * {OWN};",
                f"u8 *near = near_, *far = (u8 *)(out + {TOTALS} + GROUP * {words} + {self.size * OWN});"]
        spread = [f"for (u32 i = 0; i < {SLOT // 4}; i++)", f"    own[i] ^= ((u32 *)near)[TID * {SLOT // 4} + i];"]
        self.text += ["#ifdef __AMDGCN__",
                      f'extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size({self.size}, {self.size}))) '
                      f"seed_{n}(const u32 *in, u32 *out, i32 n)", "{",
                      f"    __shared__ __attribute__((aligned(16))) u8 near_[{self.size * SLOT}];",
                      f"    struct state{n} mine, *s = &mine;"]
        self.text += ["    " + x for x in head + start + ["BARRIER;"] + gpu + ["BARRIER;"] + end + spread] + ["}", "#else"]
        self.text += [f"static void seed_{n}(const u32 *in, u32 *out, i32 n)", "{",
                      f"    static __attribute__((aligned(16))) u8 near_[{self.size * SLOT}];",
                      f"    static struct state{n} all[{self.size}];", f"    static u64 a[{self.size}], b[{self.size}];",
                      "    (void)a, (void)b;",
                      f"    for (GROUP = 0; GROUP < {self.groups}; GROUP++) {{", "        TID = 0;",
                      f"        u32 *totals = out;", f"        {head[1]}", "        (void)totals;",
                      f"        for (TID = 0; TID < {self.size}; TID++) {{", f"            struct state{n} *s = &all[TID];"]
        self.text += ["            " + x for x in start] + ["        }"] + ["        " + x for x in host]
        self.text += [f"        for (TID = 0; TID < {self.size}; TID++) {{", f"            struct state{n} *s = &all[TID];",
                      f"            {head[0].replace('*totals = out, ', '')}"]
        self.text += ["            " + x for x in end + spread] + ["        }", "    }", "}", "#endif"]
        return self.text


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    kernels = [Kernel(seed) for seed in range(first, first + count)]
    texts = [k.write() for k in kernels]
    print('#include "words.h"')
    print("#define WORD(t) t")
    for t, n in sorted(set().union(*(k.vectors for k in kernels))):
        print(f"typedef {t} {t}x{n} __attribute__((vector_size({WIDTH[t] // 8 * n})));")
    for text in texts:
        print("\n".join(text))
    print("#ifndef __AMDGCN__")
    print("const struct {\n    int seed;\n    u32 size, groups, words;\n    void (*run)(const u32 *, u32 *, i32);\n} random_kernels[] = {")
    for k in kernels:
        print(f"    {{ {k.seed}, {k.size}, {k.groups}, {TOTALS + k.groups * k.size * (OWN + SLOT // 4)}, seed_{k.seed} }},")
    print("};\nconst int random_count = sizeof(random_kernels) / sizeof(random_kernels[0]);")
    print("void random_wave(u32 wave)\n{\n    WAVE = wave;\n}\n#endif")


if __name__ == "__main__":
    main()
