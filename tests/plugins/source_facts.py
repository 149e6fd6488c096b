"""Facts about the files of `src/toolbus`, read from their syntax trees once in a process.

The trees are large, so none is kept.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import toolbus

ROOT = Path(toolbus.__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.Assert),
    *(ast.comprehension, ast.match_case),
)


class FunctionFacts(NamedTuple):
    """One function; its *branches* are those of functions within it as well."""

    name: str
    line: int
    end: int
    branches: int

    @property
    def complexity(self):
        return 1 + self.branches


class SourceFacts:
    """One file: its *room*, its *name* as a module, its text, and what its syntax tree holds."""

    def __init__(self, path):
        self.path = path
        self.below = path.relative_to(ROOT)
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        self.room = parts[1] if len(parts) > 2 else ""
        self.name = ".".join(parts)
        self.text = path.read_text("utf-8")
        self.lines = self.text.count("\n")
        self.bound_names = []
        self.classes = []
        self.docstrings = []
        self.functions = []
        self.imports = set()
        tree = ast.parse(self.text)
        self.docstring = ast.get_docstring(tree) or ""
        self._read(tree)

    @property
    def module(self):
        return self.name.removesuffix(".__init__")

    def _read(self, node):
        """Note the facts of *node* and of all below it; return the number of its branches."""
        branches = 0
        for value in vars(node).values():
            for child in value if type(value) is list else (value,):
                if isinstance(child, ast.AST):
                    branches += self._read(child)
        kind = type(node)
        if reading := READINGS.get(kind):
            reading(self, node)
        if kind in FUNCTIONS:
            self.functions.append(FunctionFacts(node.name, node.lineno, node.end_lineno, branches))
        elif kind is ast.BoolOp:
            branches += len(node.values) - 1
        return branches + (kind in BRANCHES)

    def _read_documented(self, node):
        self.docstrings.append(ast.get_docstring(node) or "")

    def _read_class(self, node):
        self.classes.append(node.name)
        self._read_documented(node)

    def _read_function(self, node):
        self.bound_names.append((node.name, node.lineno))
        self._read_documented(node)

    def _read_argument(self, node):
        self.bound_names.append((node.arg, node.lineno))

    def _read_name(self, node):
        if type(node.ctx) is ast.Store:
            self.bound_names.append((node.id, node.lineno))

    def _read_attribute(self, node):
        if type(node.ctx) is ast.Store:
            self.bound_names.append((node.attr, node.lineno))

    def _read_import(self, node):
        self.imports.update(each.name for each in node.names)

    def _read_import_from(self, node):
        if node.module:
            self.imports.add(node.module)
            self.imports.update(f"{node.module}.{each.name}" for each in node.names)


READINGS = {
    ast.AsyncFunctionDef: SourceFacts._read_function,
    ast.Attribute: SourceFacts._read_attribute,
    ast.ClassDef: SourceFacts._read_class,
    ast.FunctionDef: SourceFacts._read_function,
    ast.Import: SourceFacts._read_import,
    ast.ImportFrom: SourceFacts._read_import_from,
    ast.Module: SourceFacts._read_documented,
    ast.Name: SourceFacts._read_name,
    ast.arg: SourceFacts._read_argument,
}


@cache
def sources():
    """Return the facts about all files, in the order of their paths."""
    return [SourceFacts(path) for path in sorted(ROOT.rglob("*.py"))]
