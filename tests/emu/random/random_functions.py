# SPDX-License-Identifier: MIT
"""The statements and expressions of random_kernels.py: what one work-item does, as text that is HIP and C."""

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
