"""What somebody has to know of a library to read a program: counted from the syntax tree.

Each name counts once. What Python brings, what the program defines itself, and what it calls its
tools and servers does not count; texts that are values do not either.
"""

import ast
import builtins
import sys

KINDS = ("imports", "classes", "decorators", "settings", "attributes")
"""Columns, each name in the first that it fits.

Modules and names that are imported · methods that a class overrides · decorators · keyword
arguments, parameters that are given by keyword, and keys of dicts · all other attributes.
"""

CHOSEN = {"path", "files"}
"""Keys that the programs of the pages chose: an argument of their tool, the name of a server."""

_METHODS = {name for kind in (str, list, tuple, dict) for name in dir(kind)}


def count_concepts(program: str) -> dict[str, int]:
    """Return how many concepts of each of `KINDS` *program* needs."""
    return {kind: len(names) for kind, names in find_concepts(program).items()}


def find_concepts(program: str) -> dict[str, set[str]]:
    """Return the names that *program* takes from libraries, by kind."""
    tree = ast.parse(program)
    nodes = list(ast.walk(tree))
    imports, pythons = _imports(nodes)
    known = CHOSEN | _own_attributes(nodes)
    found = {
        "imports": imports,
        "classes": _overridden(nodes),
        "decorators": _decorators(nodes),
        "settings": _settings(nodes),
        "attributes": _attributes(nodes, pythons),
    }
    for kind in KINDS:
        found[kind] = found[kind] - known
        known |= found[kind]
    return found


def _imports(nodes) -> tuple[set[str], set[str]]:
    """Return modules and names of libraries, and the names that Python's own are bound to."""
    foreign, pythons = set(), set(dir(builtins))
    for node in nodes:
        if isinstance(node, ast.Import):
            modules = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules = {node.module}
        else:
            continue
        names = {alias.name for alias in node.names}
        if modules <= set(sys.stdlib_module_names):
            pythons |= names
        else:
            foreign |= modules | names
    return foreign, pythons


def _own_attributes(nodes) -> set[str]:
    """Return the attributes that the program's classes give their instances, and its functions."""
    own = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    in_classes = {
        id(method) for node in nodes if isinstance(node, ast.ClassDef) for method in node.body
    }
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return own | {
        node.name for node in nodes if isinstance(node, functions) and id(node) not in in_classes
    }


def _overridden(nodes) -> set[str]:
    """Return the methods and attributes of classes that have a base: the library calls them."""
    return {
        member.name if hasattr(member, "name") else member.targets[0].id
        for node in nodes
        if isinstance(node, ast.ClassDef) and node.bases
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign)
    }


def _decorators(nodes) -> set[str]:
    found = set()
    for node in nodes:
        for decorator in getattr(node, "decorator_list", ()):
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            found |= {part.attr for part in ast.walk(function) if isinstance(part, ast.Attribute)}
    return found


def _settings(nodes) -> set[str]:
    found = set()
    for node in nodes:
        match node:
            case ast.keyword(arg=str(name)):
                found.add(name)
            case ast.arguments():
                found |= {parameter.arg for parameter in node.kwonlyargs}
            case ast.Dict():
                found |= {_text(key) for key in node.keys}
            case ast.Subscript():
                found.add(_text(node.slice))
    return found - {None}


def _text(node) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _attributes(nodes, pythons: set[str]) -> set[str]:
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in pythons)
    } - _METHODS
