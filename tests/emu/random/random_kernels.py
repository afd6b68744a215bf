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

from random_functions import DEPTH, FLOATS, IN, INTS, OWN, SLOT, TOTALS, WIDTH, Function, pick


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
