# SPDX-License-Identifier: MIT
"""Places for faults in C and in kernels' text (tests/faults.py draws of them). What only NVIDIA's GPUs run is left out: no test without one sees it.

Source reads one file into tokens, pairs brackets, and tells blocks, initialisers and types apart. It expects clang-format's spacing: a binary
operator has white space on both sides, a unary one touches its operand, a compound literal's brace touches its type. Each kind below is a
function that yields (kind, start, end, new text). Comments, strings, preprocessor lines, heads of functions and types are left alone.
"""
import bisect
import functools
import re

TOKEN = re.compile(r"""
  (?P<pp>(?:\A|(?<=\n))[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])*)
 |(?P<space>[ \t\r\f\v]+|\n|\\\n)
 |(?P<comment>//[^\n]*|/\*.*?\*/)
 |(?P<str>(?:L|u8|u|U)?"(?:\\.|[^"\\\n])*")
 |(?P<chr>'(?:\\.|[^'\\\n])*')
 |(?P<num>\.?[0-9](?:[eEpP][+-]|[\w.])*)
 |(?P<id>[A-Za-z_]\w*)
 |(?P<op>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|.)
""", re.S | re.X)

OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
WORDS = set("return case else do goto sizeof if for while switch default break continue typedef".split())
QUALIFIERS = set("static const volatile register extern _Thread_local inline typedef RFG_SHARED __attribute__".split())
TYPES = set("struct union enum void char short int long float double signed unsigned _Bool bool size_t".split())
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
ASM = {"asm", "__asm", "__asm__"}

# Calls whose arguments are text, or that aren't evaluated.
MESSAGE = re.compile(r"(\w+_)?(fail|failed|failing|refuse|refused|bad|BAD|REFUSED|die|warn|warn_each|usage|say|error)(_code|_dir|_line|_programs|_special)?$"
                     r"|rfg_log$|rfg_print\w*$|v?f?printf$|f?puts$|f?putc$|perror$|emu_(hazard_)?report\w*$")
UNEVALUATED = re.compile(r"sizeof$|_*attribute_*$|_Static_assert$|static_assert$|assert$|_*typeof_*$|offsetof$|_Alignof$|RFG_ONLY$|va_\w+$|_*asm_*$|_Pragma$|COUNT$")
# Calls that say no, and are what a check ends in.
REFUSAL = re.compile(r"(\w+_)?(fail|failed|failing|refuse|refused|bad|BAD|REFUSED|die)(_code|_dir|_line|_programs|_special)?$|header_error$|refuse_\w+$")
# Calls that only log or hint, or that only a sanitiser misses.
SILENT = re.compile(r"rfg_log\w*$|rfg_warn\w*$|rfg_(fail|refuse|print)\w*$|v?f?printf$|f?puts$|f?putc$|fflush$|perror$|va_(start|end|copy)$|assert$|\w*prefetch\w*$"
                    r"|__builtin_amdgcn_(sched|s_setprio|s_sleep|iglp)\w*$|\w*(^|_)(mutex_|read|write|try)?(lock|trylock)$|RFG_ONLY$|madvise$|rfg_keep_order$")
NVIDIA = re.compile(r"\(?(RFG_NVIDIA|RFG_HAS_(WGMMA|ASYNC|CLUSTER)|WGMMA|CLUSTER|WHOLE_STEPS|__CUDA\w*|defined\(__CUDA\w*\))\b")
NVIDIA_CALL = re.compile(r"rfg_(await_previous|start_next|cluster_\w+|wg_\w+|arrival_\w+|arrive|arrive_\w+|async_\w+)$|__syncwarp$")
LEAK = re.compile(r"(\w*_)?(free|free_all|destroy|destroy_all|close|fclose|closedir|closelog|decref|finalize|munmap|release|unref)(_v2)?$|release_\w+$|free_\w+$"
                  r"|\w+_(destroy|free|release)_\w+$|globfree$|tdestroy$|Py_\w*DECREF$|Py_CLEAR$|PyBuffer_Release$")
# sched_barrier only tells the compiler in which order to schedule.
BARRIER = re.compile(r"(?!emu_|.*sched_)(\w*_)?(barrier|barrier_lds|syncthreads|syncwarp|fence|threadfence|sfence|mfence)(_\w+)?$|__sync_synchronize$")
WAIT = re.compile(r"(?!emu_only)(\w*_)?(a?wait|AWAIT|waitcnt|timedwait)(_\w+)?$|\w*(Synchronize|WaitEvent)$")
UNLOCK = re.compile(r"(\w*_)?unlock$|\w*cond_(signal|broadcast)$")
CLAMP = re.compile(r"MIN$|MAX$|rfg_(min|max)$|f?(min|max)f?_?$|[iud]?(min|max)_?(32|64|d)?$|(rfg_)?clamp\w*$")
ROUND = {"rint": "floor", "rintf": "floorf", "__builtin_rintf": "__builtin_floorf", "nearbyint": "floor", "nearbyintf": "floorf", "roundeven": "floor",
         "roundevenf": "floorf", "floor": "ceil", "floorf": "ceilf", "ceil": "floor", "ceilf": "floorf", "trunc": "rint", "truncf": "rintf",
         "round": "floor", "roundf": "floorf", "lrint": "lround", "lrintf": "lroundf", "lround": "lrint", "lroundf": "lrintf"}
UNORDERED = re.compile(CLAMP.pattern + r"|(str|mem)n?(case)?cmp$|f?abs\w*$|isless\w*$")
BUILTIN = re.compile(r"__builtin_|rfg_llvm_|_mm|MFMA|WMMA|SWMMAC")  # their constants are bound by the compiler


@functools.lru_cache(None)
def untouched(name):
    return MESSAGE.match(name) or UNEVALUATED.match(name)


@functools.lru_cache(None)
def clamps(name):
    return CLAMP.match(name)


@functools.lru_cache(None)
def waits(name):
    return re.match(r"\w+Synchronize$", name)


class Token:
    __slots__ = ("kind", "text", "start", "end")

    def __init__(self, kind, text, start):
        self.kind, self.text, self.start, self.end = kind, text, start, start + len(text)


def nvidia_only(directives):
    """Whether what follows each directive is compiled for NVIDIA alone."""
    out, stack = [], []
    for words in directives:
        name, condition = (words or [""])[0], " ".join(words[1:])
        if name in ("if", "ifdef", "ifndef", "elif", "else"):
            before = stack.pop() if name in ("elif", "else") and stack else ("", False)
            stack.append((condition, before[0] == "RFG_AMD" if name == "else" else NVIDIA.match(condition) is not None))
        elif name == "endif" and stack:
            stack.pop()
        out.append(any(flag for _, flag in stack))
    return out


class Source:
    """The tokens of a file, without those of branches for NVIDIA alone; match[i] the other bracket of bracket i, up[i] the bracket around token i (-1: none), brace[i] the brace."""

    def __init__(self, text):
        self.text = text
        self.t, directives = [], []
        for m in TOKEN.finditer(text):
            if m.lastgroup == "pp":
                directives.append((len(self.t), m[0].split("#", 1)[1].split(), m.start()))
            elif m.lastgroup not in ("space", "comment"):
                self.t.append(Token(m.lastgroup, m[0], m.start()))
        self.words, self.n = [t.text for t in self.t], len(self.t)
        self.directives = [at for _, _, at in directives]
        self.nvidia = [False] + nvidia_only([name for _, name, _ in directives])
        self.pair(directives)
        self.sort_braces()
        self.find_statements()
        self.find_types()
        self.skip = self.find_skips()
        self.inside = [i for i in range(len(self.t)) if not self.skip[i] and self.zone(i) in ("block", "init")]
        self.operators = [i for i in self.inside if self.binary(i)]

    def s(self, i):
        return self.words[i] if 0 <= i < self.n else ""

    def pair(self, directives):
        """Brackets; each branch of an #if starts with the brackets that are open before it."""
        n = len(self.t)
        self.match, self.up = [-1] * n, [-1] * n
        stack, saved, d = [], [], 0
        for i, t in enumerate(self.t):
            while d < len(directives) and directives[d][0] <= i:
                name = (directives[d][1] or [""])[0]
                if name in ("if", "ifdef", "ifndef"):
                    saved.append(list(stack))
                elif name.startswith("el") and saved:
                    stack = list(saved[-1])
                elif name == "endif" and saved:
                    saved.pop()
                d += 1
            if t.text in CLOSE and t.kind == "op" and stack and self.s(stack[-1]) == CLOSE[t.text]:
                self.match[i] = stack.pop()
                self.match[self.match[i]] = i
            self.up[i] = stack[-1] if stack else -1
            if t.text in OPEN and t.kind == "op":
                stack.append(i)

    def sort_braces(self):
        """sort[i] of a brace: block, init, type or file (extern "C"); brace[i]: the brace around token i."""
        n = len(self.t)
        self.sort, self.brace, self.zones = {}, [-1] * n, {-1: ""}
        for i, t in enumerate(self.t):
            u = self.up[i]
            self.brace[i] = u if u < 0 or self.s(u) == "{" else self.brace[u]
            if t.text == "{" and t.kind == "op":
                self.sort[i] = self.sort_of(i)
                self.zones[i] = self.zone_in(i)

    def sort_of(self, i):
        p, around = self.s(i - 1), self.sort.get(self.brace[i])
        if around == "init" and self.up[i] == self.brace[i]:
            return "init"
        if i and self.t[i - 1].kind == "str":
            return "file"
        k = i - 1
        if p == ")" and self.match[k] > 0 and self.s(self.match[k] - 1) in ("__attribute__", "aligned"):
            k = self.match[k] - 2
        if self.s(k) in ("struct", "union", "enum") or self.s(k - 1) in ("struct", "union", "enum"):
            if not (k == i - 1 and p == ")"):
                return "type"
        if p in ("=", ",", "]"):
            return "init"
        if p == ")" and self.t[i - 1].end == self.t[i].start:
            return "init"
        return "block"

    def zone_in(self, b):
        """What is in brace b: block, init (in a function), table (of a file), or "" where nothing is mutated."""
        if b < 0 or self.sort[b] == "type":
            return ""
        around = self.zones[self.brace[b]]
        if self.sort[b] == "file":
            return around
        return self.sort[b] if self.sort[b] == "block" or around in ("block", "init") else "table"

    def zone(self, i):
        return self.zones[self.brace[i]]

    def starts(self, i):
        """Whether a statement starts at token i."""
        if self.up[i] < 0 or self.sort.get(self.up[i]) != "block" or self.s(i) in ("}", "{", ";"):
            return False
        p = self.s(i - 1)
        if p in (";", "{", "}", "else", "do"):
            return p != "}" or self.sort.get(self.match[i - 1], "block") == "block"
        if p == ")" and self.match[i - 1] > 0:
            return self.s(self.match[i - 1] - 1) in ("if", "for", "while", "switch")
        if p == ":":
            k = i - 2
            while k > 0 and not (self.s(k) in (";", "}", "{", ":") and self.up[k] <= self.up[i]) and i - k < 40:
                k -= 1
            return self.s(k + 1) in ("case", "default") or k + 2 == i - 1
        return False

    def find_statements(self):
        """statement[i] = the token that ends the one that starts at i (its ; or }), of simple ones; self.ends of controls: see end_of()."""
        self.statement = {}
        for i in range(len(self.t)):
            if self.starts(i) and self.s(i) not in WORDS - {"sizeof"}:
                k = i
                while k < len(self.t) and not (self.s(k) == ";" and self.up[k] == self.up[i]) and self.s(k) != "}":
                    k = self.match[k] + 1 if self.s(k) in OPEN and self.match[k] > k else k + 1
                if self.s(k) == ";":
                    self.statement[i] = k

    def declares(self, i):
        a, b, c = self.s(i), self.s(i + 1), self.s(i + 2)
        if a in QUALIFIERS or a in TYPES:
            return True
        if not self.t[i].kind == "id" or a in WORDS or a in ASM:
            return False
        if self.t[i + 1].kind == "id":
            return True
        return b == "*" and self.t[i + 1].start > self.t[i].end and self.t[i + 2].start == self.t[i + 1].end and (c == "*" or self.t[i + 2].kind == "id")

    def declared(self, i, end, types):
        """Puts the names that tokens i..end-1 declare into types, and notes their array sizes."""
        pieces, first = [[]], True
        k = i
        level = self.up[i]
        while k < end:
            if self.s(k) == "," and self.up[k] == level:
                pieces.append([])
            else:
                pieces[-1].append(k)
            k += 1
        base = ""
        for piece in pieces:
            head = []
            for k in piece:
                if self.up[k] == level and self.s(k) in ("=", "[", "("):
                    break
                if self.up[k] == level:
                    head.append(k)
            for k in piece:  # sizes: brackets before =
                if self.up[k] == level and self.s(k) == "=":
                    break
                if self.s(k) == "[" and self.up[k] == level and self.match[k] > 0:
                    self.sizes.append((k, self.match[k]))
            names = [k for k in head if self.t[k].kind == "id"]
            if not names:
                first = False
                continue
            stars = sum(self.s(k) == "*" for k in head)
            if first:
                base = " ".join(self.s(k) for k in head[:head.index(names[-1])] if self.s(k) not in QUALIFIERS and self.s(k) != "*")
            types[self.s(names[-1])] = base + "*" * (stars + any(self.s(k) == "[" and self.up[k] == level for k in piece))
            first = False

    def find_types(self):
        """self.types[b]: {name: type} of the function whose body is brace b."""
        self.types, self.sizes, self.declarations = {}, [], set()
        for b, sort in self.sort.items():
            if sort == "block" and self.sort.get(self.brace[b]) in (None, "file"):
                types = self.types[b] = {}
                k = b - 1
                if self.s(k) == ")" and self.match[k] >= 0:
                    start = self.match[k] + 1
                    for c in range(start, k + 1):
                        if c == k or self.s(c) == "," and self.up[c] == self.match[k]:
                            if c > start:
                                self.declared(start, c, types)
                            start = c + 1
        for i, end in self.statement.items():
            if self.declares(i):
                self.declarations.add(i)
                self.declared(i, end, self.types.get(self.function(i), {}))

    def function(self, i):
        b = self.brace[i]
        while b >= 0 and b not in self.types:
            b = self.brace[b]
        return b

    def type_of(self, i):
        return self.types.get(self.function(i), {}).get(self.s(i))

    def find_skips(self):
        skip = [False] * len(self.t)

        def span(a, b):
            for k in range(a, b):
                skip[k] = True
        for i, t in enumerate(self.t):
            if t.kind == "id" and self.s(i + 1) in ("(", "volatile") and untouched(t.text):
                k = i + 1 + (self.s(i + 1) == "volatile")
                if self.s(k) == "(" and self.match[k] > 0:
                    span(i, self.match[k] + 1)
            elif t.text == "case":
                k = i
                while self.s(k) != ":" and k - i < 30:
                    k += 1
                span(i, k)
            elif t.text == "[" and self.sort.get(self.up[i]) == "init" and self.s(i - 1) in ("{", ",") and self.match[i] > 0:
                span(i, self.match[i])  # a designator
        for a, b in self.sizes:
            span(a, b)
        for b, sort in self.sort.items():
            if sort == "init" and self.match[b] > 0:
                inside = self.t[b + 1:self.match[b]]
                numbers = sum(t.kind == "num" for t in inside)
                if [t.text for t in inside] == ["0"] or numbers > 30 and 2 * numbers > sum(t.kind in ("num", "id", "str") for t in inside):
                    span(b, self.match[b])
        return skip

    def binary(self, i):
        t = self.t
        if not 0 < i < len(t) - 1 or t[i].kind != "op" or t[i - 1].end == t[i].start or t[i].end == t[i + 1].start:
            return False
        return t[i - 1].kind in ("num", "chr") or t[i - 1].kind == "id" and t[i - 1].text not in WORDS | TYPES or t[i - 1].text in (")", "]")

    def touches(self, i):
        return i > 0 and self.t[i - 1].end == self.t[i].start

    def left(self, i):
        """The first token of the operand that ends before token i; -1 if that isn't clear."""
        k = i - 1
        while k >= 0:
            if self.s(k) in (")", "]"):
                k = self.match[k]
                if k < 0:
                    return -1
                if self.touches(k) and (self.t[k - 1].kind == "id" or self.s(k - 1) in (")", "]")):
                    if self.s(k - 1) == ")" and self.s(k) == "(":
                        break  # a cast of a group
                    k -= 1
                    continue
            elif self.t[k].kind not in ("id", "num", "chr"):
                return -1
            if self.s(k - 1) in (".", "->"):
                k -= 2
                continue
            break
        while self.touches(k) and (self.s(k - 1) in ("-", "!", "~", "*", "&", ")")):
            k = self.match[k - 1] if self.s(k - 1) == ")" else k - 1
            if k < 0:
                return -1
        return k

    def right(self, i):
        """The last token of the operand that starts after token i; -1 if that isn't clear."""
        k = i + 1
        while True:
            if self.s(k) in ("-", "!", "~", "*", "&"):
                k += 1
            elif self.s(k) == "(" and self.match[k] > 0 and self.match[k] + 1 < len(self.t) and self.touches(self.match[k] + 1) and (
                    self.t[self.match[k] + 1].kind in ("id", "num") or self.s(self.match[k] + 1) in ("(", "-", "~", "*", "&")):
                k = self.match[k] + 1  # a cast
            else:
                break
        if self.s(k) == "(":
            k = self.match[k]
        elif k >= len(self.t) or self.t[k].kind not in ("id", "num", "chr") or self.s(k) in WORDS:
            return -1
        while k > 0:
            if self.s(k + 1) in (".", "->"):
                k += 2
            elif self.s(k + 1) in ("(", "[") and self.touches(k + 1):
                k = self.match[k + 1]
            elif self.s(k + 1) == "{" and self.touches(k + 1):
                return -1
            else:
                return k
        return -1

    def of(self, a, b):
        """The text of tokens a..b."""
        return self.text[self.t[a].start:self.t[b].end]

    def headed(self, i, *words):
        """Whether token i is in the head of one of these (for, while)."""
        u = self.up[i]
        while u >= 0 and self.s(u) != "{":
            if self.s(u) == "(" and self.s(u - 1) in words:
                return True
            u = self.up[u]
        return False

    def arguments(self, p):
        """[(first token, last token)] of the arguments in parenthesis p."""
        out, start = [], p + 1
        for k in range(p + 1, self.match[p] + 1):
            if k == self.match[p] or self.s(k) == "," and self.up[k] == p:
                out.append((start, k - 1))
                start = k + 1
        return [] if self.match[p] == p + 1 else out

    def called(self, i, end):
        """The parenthesis of the call that tokens i..end-1 are; -1 if they are none. (void)f(x) is one too."""
        if self.s(i) == "(" and self.s(i + 1) == "void" and self.s(i + 2) == ")":
            i += 3
        p = self.match[end - 1] if self.s(end - 1) == ")" else -1
        if p <= i or self.t[p - 1].kind != "id" or self.s(p - 1) in WORDS:
            return -1
        return p if all(self.t[k].kind == "id" or self.s(k) in ("->", ".", "[", "]") or self.up[k] != self.up[i] for k in range(i, p)) else -1

    def edits(self):
        """Every place: (kind, start, end, new text)."""
        for kind in KINDS:
            for name, start, end, new in kind(self):
                at = bisect.bisect_left(self.directives, start)
                if not self.nvidia[at] and (at == len(self.directives) or self.directives[at] >= end):  # no directive in between
                    yield name, start, end, new


def comparison(src):
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
    for i in src.operators:
        op = src.s(i)
        if op not in other or op in ("==", "!=") and src.headed(i, "for", "while"):
            continue
        a, b = src.left(i), src.right(i)
        if a >= 0 and b >= 0 and op not in ("==", "!="):  # a < b ? a : b, if (a > b) b = a: the same at equality
            x, y = src.of(a, i - 1), src.of(i + 1, b)
            after = " ".join(src.text[src.t[b].end:src.t[b].end + 200].split(";")[0].split())
            if after in ("? %s : %s" % (x, y), "? %s : %s" % (y, x), ") %s = %s" % (x, y), ") %s = %s" % (y, x)):
                continue
        yield "comparison", src.t[i].start, src.t[i].end, other[op]


def constant(src):
    for i, t in enumerate(src.t):
        if t.kind != "num" or src.skip[i]:
            continue
        zone = src.zone(i)
        m = re.match(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uUlL]*)$", t.text)
        if not zone or not m or src.s(i - 1) == "[" and zone == "table":
            continue
        u, bound = src.up[i], False
        while u >= 0 and src.s(u) != "{":
            bound = bound or src.s(u) == "(" and u > 0 and BUILTIN.search(src.s(u - 1)) is not None
            u = src.up[u]
        if bound:
            continue
        value = int(m[1], 16 if m[1][:2] in ("0x", "0X") else 10)
        for new in ([1] if value == 0 else [value - 1, value + 1]):
            text = ("0x%0*x" % (len(m[1]) - 2, new) if m[1][:2] in ("0x", "0X") else str(new)) + m[2]
            yield "constant", t.start, t.end, text


def arithmetic(src):
    other = {"+": "-", "-": "+", "*": "+", "+=": "-=", "-=": "+=", "&&": "||", "||": "&&"}
    for i in src.operators:
        if src.s(i) in other and src.t[i + 1].kind != "str":
            if src.s(i) in ("&&", "||") and any(src.s(k + 1) == "(" and REFUSAL.match(src.s(k)) for k in (i + 1,)):
                continue  # the check's
            yield "arithmetic", src.t[i].start, src.t[i].end, other[src.s(i)]


SIGNLESS = re.compile(r"f?abs[fl]?$|l?labs$")


def swapped(src):
    tighter = {"-": "-+*/%", "/": "*/%", "%": "*/%", "<<": "-+*/%<<>>"}
    for i in src.inside:
        op = src.s(i)
        if op in tighter and src.binary(i):
            a, b = src.left(i), src.right(i)
            if a > 0 and b > 0 and src.of(a, i - 1) != src.of(i + 1, b) and not (src.s(a - 1) in tighter[op] and src.binary(a - 1)) \
                    and not (src.s(b + 1) in "*/%-+"[:3 if op == "-" else 5 if op == "<<" else 0] and src.binary(b + 1)) \
                    and not (op == "-" and SIGNLESS.match(src.s(a - 2)) and src.s(a - 1) == "(" and src.s(b + 1) == ")"):
                yield "swapped", src.t[a].start, src.t[b].end, src.of(i + 1, b) + src.text[src.t[i - 1].end:src.t[i + 1].start] + src.of(a, i - 1)
        if op != "(" or src.t[i - 1].kind != "id" or src.s(i - 1) in WORDS or src.match[i] < 0 or UNORDERED.match(src.s(i - 1)) or not src.touches(i):
            continue
        args = src.arguments(i)
        for (a, b), (c, d) in zip(args, args[1:]):
            if src.of(a, b) != src.of(c, d) and alike(src, a, b, c, d):
                yield "swapped", src.t[a].start, src.t[d].end, src.of(c, d) + src.text[src.t[b].end:src.t[c].start] + src.of(a, b)


def alike(src, a, b, c, d):
    """Whether two arguments have one shape and, as far as is seen, one type."""
    if b - a != d - c or b - a > 8 or any(src.t[a + k].kind != src.t[c + k].kind for k in range(b - a + 1)):
        return False
    if a == b:
        if src.t[a].kind == "num":
            return not BUILTIN.search(src.s(a - 1))
        return src.t[a].kind == "id" and src.type_of(a) is not None and src.type_of(a) == src.type_of(c)
    same = [src.s(a + k) == src.s(c + k) for k in range(b - a + 1)]
    if not all(s or src.t[a + k].kind in ("id", "num") for k, s in enumerate(same)):
        return False
    return same[0] and same.count(False) == 1 and src.s(a) not in WORDS and not (src.s(a + 1) in ("->", ".") and b - a == 2 and not related(src.s(b), src.s(d)))


def related(x, y):
    """Members that may well be of one type: short names, or those that share a part."""
    return len(x) <= 2 and len(y) <= 2 or bool(set(x.split("_")) & set(y.split("_"))) or x[:3] == y[:3] or x[-3:] == y[-3:]


def statements(src):
    """dropped, leak, barrier, wait, unlock: a whole statement goes."""
    for i, end in src.statement.items():
        t = src.t
        if i in src.declarations:
            continue
        kind = None
        if src.s(i) in ASM:
            text = src.of(i, end)
            kind = "wait" if "wait" in text else "barrier" if re.search("barrier|fence", text) else None
            if '"=' in text or '"+' in text:
                kind = None
        else:
            p = src.called(i, end)
            if p >= 0:
                name = src.s(p - 1)
                kind = next((k for k, r in (("barrier", BARRIER), ("wait", WAIT), ("unlock", UNLOCK), ("leak", LEAK)) if r.match(name)), "dropped")
                if NVIDIA_CALL.match(name):
                    kind = None
                elif name == "flock":
                    kind = "unlock" if "LOCK_UN" in src.of(p, end) else None
                elif kind == "dropped" and (SILENT.match(name) or UNEVALUATED.match(name) or REFUSAL.match(name)):
                    kind = None
            elif any(src.s(k) in ASSIGN and src.up[k] == src.up[i] for k in range(i, end)):
                kind = "dropped"
        if kind:
            yield kind, t[i].start, t[end].end, "(void)0;"
    for i in src.inside:  # hipStreamSynchronize() as a value
        if waits(src.s(i)) and src.s(i + 1) == "(" and src.match[i + 1] > 0 and src.s(src.match[i + 1] + 1) in (";", ")", "!=", "=="):
            k = i
            while src.s(k - 1) in (".", "->"):
                k -= 2
            if k not in src.statement and src.t[k].kind == "id":
                yield "wait", src.t[k].start, src.t[src.match[i + 1]].end, "0"


def mask(src):
    for i in src.inside:
        if src.s(i) in ("&", "%") and src.binary(i):
            b = src.right(i)
            after = src.s(b + 1)
            if b < 0 or src.s(i) == "&" and after not in (")", "]", ";", ",", "?", ":", "&", "|", "^", "&&", "||", "}"):
                continue
            if src.s(i) == "&" and not (src.t[i + 1].kind == "num" or src.s(i + 1) in ("(", "~")):
                continue
            yield "mask", src.t[i - 1].end, src.t[b].end, ""
        elif src.s(i) in ("&=", "%=") and src.binary(i) and i > 0 and src.left(i) in src.statement:
            end = src.statement[src.left(i)]
            yield "mask", src.t[src.left(i)].start, src.t[end].end, "(void)0;"
        elif src.t[i].kind == "id" and clamps(src.s(i)) and src.s(i + 1) == "(" and src.match[i + 1] > 0 and src.s(i - 1) not in (".", "->"):
            for a, b in src.arguments(i + 1)[:2 if "clamp" not in src.s(i) else 1]:
                if i not in src.statement:
                    yield "mask", src.t[i].start, src.t[src.match[i + 1]].end, "(%s)" % src.of(a, b)


def rounding(src):
    for i in src.inside:
        word = src.s(i)
        if src.t[i].kind == "id" and src.s(i + 1) == "(" and src.s(i - 1) not in (".", "->"):
            if word in ROUND:
                yield "rounding", src.t[i].start, src.t[i].end, ROUND[word]
            elif word == "ceil_div" and len(src.arguments(i + 1)) == 2:
                (a, b), (c, d) = src.arguments(i + 1)
                yield "rounding", src.t[i].start, src.t[src.match[i + 1]].end, "((%s) / (%s))" % (src.of(a, b), src.of(c, d))
        elif word in ("0x7fff", "0x7fffu") and src.s(i - 1) in ("+", "+="):
            yield "rounding", src.t[i].start, src.t[i].end, "0x8000" + word[6:]
            yield "rounding", src.t[i].start, src.t[i].end, "0" + word[6:]
        elif word == "(" and src.match[i] > 0 and src.s(src.match[i] + 1) == "/" and src.s(src.match[i] - 1) == "1" and src.s(src.match[i] - 2) == "-":
            plus = [k for k in range(i, src.match[i]) if src.s(k) == "+" and src.up[k] == i]  # (a + b - 1) / b
            if plus and src.binary(plus[-1]):
                yield "rounding", src.t[plus[-1] - 1].end, src.t[src.match[i] - 1].end, ""


def refuses(src, i):
    """check or status if the statement at token i leaves with an error; None if it doesn't."""
    if src.s(i) == "{":
        if src.match[i] < 0:
            return None
        last = [k for k in range(i, src.match[i]) if src.up[k] == i and src.starts(k)]
        return refuses(src, last[-1]) if last else None
    k = i
    if src.s(k) == "return":
        k += 1
        if src.s(k).startswith("RFG_ERROR_"):
            return "check"
        if src.s(k + 1) == ";" and src.type_of(k) == "rfg_status":
            return "status"
    elif src.t[i].kind == "id" and src.s(i + 1) == "=":
        k += 2
    return "check" if src.t[k].kind == "id" and REFUSAL.match(src.s(k)) and src.s(k + 1) == "(" else None


def check(src):
    """Checks that are never taken, and those of a status (kind status)."""
    for i, t in enumerate(src.t):
        if t.text == "if" and src.s(i + 1) == "(" and src.match[i + 1] > 0 and src.zone(i) == "block":
            close = src.match[i + 1]
            condition = src.text[src.t[i + 1].end:src.t[close].start]
            kind = refuses(src, close + 1)
            if not kind and src.s(close + 1) == "return" and src.s(close + 2) in ("false", "NULL") and re.search(r"\b(why|error)\b", condition):
                kind = "check"
            if kind:
                yield kind, src.t[i + 1].end, src.t[close].start, "(%s) && 0" % condition
        elif t.kind == "id" and REFUSAL.match(t.text) and src.s(i + 1) == "(" and src.match[i + 1] > 0 and src.zone(i) == "block":
            before = src.s(i - 1)
            if before == "||":
                yield "check", t.start, src.t[src.match[i + 1]].end, "true"
            elif before == ":" and src.s(i - 2) in ("RFG_OK", "true") and src.s(i - 3) == "?":
                yield "check", t.start, src.t[src.match[i + 1]].end, src.s(i - 2)


def status(src):
    for i, t in enumerate(src.t):
        if src.zone(i) != "block":
            continue
        if t.text == "return":
            value = src.t[i + 1]
            if src.s(i + 2) == ";" and (value.text.startswith("RFG_ERROR_") or src.type_of(i + 1) == "rfg_status"):
                yield "status", value.start, value.end, "RFG_OK"
            elif value.text == "rfg_fail" and src.s(i + 3).startswith("RFG_ERROR_"):
                yield "status", src.t[i + 3].start, src.t[i + 3].end, "RFG_OK"
            elif value.text in ("BAD", "rfg_hip_fail") and src.match[i + 2] > 0 and src.s(src.match[i + 2] + 1) == ";":
                yield "status", value.start, src.t[src.match[i + 2]].end, "(%s, RFG_OK)" % src.of(i + 1, src.match[i + 2])
        elif t.text == "=" and src.type_of(i - 1) == "rfg_status" and src.s(i - 2) not in (".", "->"):
            k = i + 1
            while k < len(src.t) and src.s(k) not in (";", ",", ")"):
                k = src.match[k] + 1 if src.s(k) in OPEN and src.match[k] > 0 else k + 1
            value = src.of(i + 1, k - 1)
            if "(" in value and "?" not in value:
                yield "status", src.t[i + 1].start, src.t[k - 1].end, "(%s, RFG_OK)" % value


KINDS = [comparison, constant, arithmetic, swapped, statements, mask, rounding, check, status]


def edits(text):
    return Source(text).edits()
