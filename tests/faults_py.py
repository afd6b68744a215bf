# SPDX-License-Identifier: MIT
"""Places for faults in Python sources (tests/faults.py draws of them), by the syntax tree. Each is (kind, start, end, new text)."""
import ast
import re

COMPARISONS = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
               ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in")}
ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}
SILENT = re.compile(r"(print|warn|warning|debug|info|log)$")


class Places(ast.NodeVisitor):
    def __init__(self, text):
        self.text, self.out, self.names = text, [], [set()]
        self.lines = [0]
        for line in text.encode().split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.bytes = text.encode()

    def at(self, line, column):
        """The character that ast calls so."""
        return len(self.bytes[:self.lines[line - 1] + column].decode())

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def between(self, kind, a, b, word, new):
        """Exchanges an operator that stands between two nodes."""
        start, end = self.span(a)[1], self.span(b)[0]
        m = re.search(r"(?<![<>=!*/\w])%s(?![<>=*/\w])" % re.escape(word).replace(r"\ ", r"\s+"), re.sub(r"#[^\n]*", lambda c: " " * len(c[0]), self.text[start:end]))
        if m:
            self.out.append((kind, start + m.start(), start + m.end(), new))

    def visit_Compare(self, node):
        operands = [node.left] + node.comparators
        for a, op, b in zip(operands, node.ops, operands[1:]):
            self.between("comparison", a, b, *COMPARISONS[type(op)])
        self.generic_visit(node)

    def visit_BinOp(self, node):
        texts = [n for n in (node.left, node.right) if isinstance(n, ast.JoinedStr) or isinstance(n, ast.Constant) and isinstance(n.value, (str, bytes))]
        if type(node.op) in ARITHMETIC and not texts:
            self.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
        if not isinstance(node.op, ast.Mod) or not texts:  # arguments of a message
            self.generic_visit(node)

    def visit_BoolOp(self, node):
        for a, b in zip(node.values, node.values[1:]):
            self.between("arithmetic", a, b, *(("and", "or") if isinstance(node.op, ast.And) else ("or", "and")))
        self.generic_visit(node)

    def visit_Constant(self, node):
        start, end = self.span(node)
        if isinstance(node.value, bool):
            self.out.append(("constant", start, end, str(not node.value)))
        elif isinstance(node.value, int) and self.text[start:end] == str(node.value):
            for new in [1] if node.value == 0 else [node.value - 1, node.value + 1]:
                self.out.append(("constant", start, end, str(new)))

    def visit_JoinedStr(self, node):
        pass

    def visit_Raise(self, node):
        pass

    def visit_Assert(self, node):
        pass

    def visit_FunctionDef(self, node):
        for default in node.args.defaults + [d for d in node.args.kw_defaults if d]:
            self.visit(default)
        self.names.append({a.arg for a in node.args.args + node.args.kwonlyargs})
        for part in node.body:
            self.visit(part)
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def drop(self, node):
        self.out.append(("dropped", *self.span(node), "pass"))

    def visit_Assign(self, node):
        names = {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if len(self.names) > 1 and names <= self.names[-1]:  # else a use of the name fails, whatever is tested
            self.drop(node)
        self.names[-1].update(names)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if len(self.names) > 1:
            self.drop(node)
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call) and len(self.names) > 1:
            called = node.value.func
            if SILENT.match(called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")):
                return
            self.drop(node)
        self.generic_visit(node)

    def visit_If(self, node):
        if isinstance(node.body[-1], ast.Raise):
            start = self.at(node.lineno, node.col_offset)
            word = re.match(r"(?:el)?if\s+", self.text[start:])
            end = self.text.index(":", self.span(node.test)[1])
            if word:
                start += word.end()
                self.out.append(("check", start, end, "(%s) and False" % self.text[start:end]))
        self.generic_visit(node)


def edits(text):
    places = Places(text)
    places.visit(ast.parse(text))
    return places.out
