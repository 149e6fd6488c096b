"""Arithmetic and tests, and the commands that run while they are evaluated.

bash evaluates the value of a name as an expression again, and runs a ``$(…)`` in the subscript of
an array: with ``x='a[$(rm y)]'``, ``$((x))`` removes y. So a name is only accepted if its value is
a number, or if the text never sets it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import convert

from toolbus.policy.shell.state import NUMBER, UNKNOWN
from toolbus.policy.shell.syntax import (
    ArithmeticExpansion,
    DoubleQuoted,
    Expression,
    Literal,
    Parameter,
    SingleQuoted,
    WordNode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.commands import Word
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.syntax import Operation, Part

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"[+-]?\d*", re.ASCII)
_COMPARING = frozenset("-eq -ne -lt -le -gt -ge".split())
_ASSIGNING = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
_REASON = "arithmetic on a value that may not be a number: bash runs commands in it"


def words_in(tree: Any) -> Iterator[WordNode]:
    """Yield the words in an expression, a slice or a replacement."""
    if not isinstance(tree, dict):
        return
    if "Parts" in tree and tree.get("Type", "Word") == "Word":
        yield convert(tree, WordNode)
        return
    if tree.get("Type") == "ParamExp":
        yield WordNode(parts=(convert(tree, Parameter),))
        return
    for value in tree.values():
        yield from words_in(value)


def is_number(word: Word) -> bool:
    """Return whether *word* is certainly a number or empty."""
    return word == NUMBER or (word.known and _NUMBER.fullmatch(word.text) is not None)


class Arithmetic:
    """Interprets arithmetic and tests in the text of *shell*."""

    def __init__(self, shell: Interpreter) -> None:
        self._shell = shell

    def check(self, tree: Expression | None) -> None:
        """Interpret commands in *tree*, and the names it sets; refuse values that may run more."""
        if tree is None:
            return
        kind = tree.get("Type")
        if kind == "Word":
            for part in convert(tree, WordNode).parts:
                self._check_part(part)
        elif kind == "ParamExp":
            self._check_parameter(convert(tree, Parameter))
        else:
            for side in ("X", "Y"):
                self.check(tree.get(side))
            if tree.get("Op") in {"++", "--"} or tree.get("Op") in _ASSIGNING:
                for word in words_in(tree.get("X")):
                    self._assign(word)

    def check_test(self, tree: Expression | None) -> None:
        """Interpret the commands in a test of ``[[ … ]]``."""
        if tree is None:
            return
        operator, kind = tree.get("Op"), tree.get("Type")
        if kind == "Word":
            self._shell.words.single(convert(tree, WordNode))
        elif operator in _COMPARING:
            self.check(tree.get("X"))
            self.check(tree.get("Y"))
        elif operator in {"-v", "-R"}:
            for word in words_in(tree.get("X")):
                self.check_name(self._shell.words.single(word).text)
        else:
            self.check_test(tree.get("X"))
            self.check_test(tree.get("Y"))

    def check_name(self, name: str) -> None:
        """Refuse *name*, the variable of a builtin, if it has a subscript that may run commands."""
        if not _NAME.match(name) and not re.fullmatch(r"[A-Za-z_]\w*\[(?:\d+|@|\*)\]", name):
            self._shell.refuse("a variable name that may run commands", name)

    def _check_part(self, part: Part) -> None:
        if isinstance(part, Literal):
            for name in re.findall(r"[A-Za-z_]\w*", part.value):
                self._check_variable(name, part)
            if re.search(r"[`$\\]", part.value):
                self._shell.refuse(_REASON, part)
        elif isinstance(part, DoubleQuoted):
            for inner in part.parts:
                self._check_part(inner)
        elif isinstance(part, Parameter):
            self._check_parameter(part)
        elif isinstance(part, ArithmeticExpansion):
            self.check(part.x)
        elif not (isinstance(part, SingleQuoted) and re.fullmatch(r"\w*", part.value)):
            self._shell.words.single(WordNode(parts=(part,)))
            self._shell.refuse(_REASON, part)

    def _check_parameter(self, part: Parameter) -> None:
        if part.length:
            self._shell.words.single(WordNode(parts=(part,)))
            return
        if part.index is not None:
            self.check(part.index)
        if part.slice or part.repl or part.excl or part.names:
            self._shell.words.single(WordNode(parts=(part,)))
            self._shell.refuse(_REASON, part)
        elif part.exp:
            self._check_default(part, part.exp)
        self._check_variable(part.name, part)

    def _check_default(self, part: Parameter, operation: Operation) -> None:
        default = self._shell.words.single(operation.word)
        if operation.op not in {"-", ":-"} or not is_number(default):
            self._shell.refuse(_REASON, part)

    def _check_variable(self, name: str, part: Part) -> None:
        state = self._shell.state
        is_parameter = name.isdigit() or name in {"@", "*"}
        if not is_parameter and (state.is_number(name) or not state.is_set(name)):
            return
        value = state.value(name)
        if value is not None and not is_number(value):
            self._shell.refuse(_REASON, part)

    def _assign(self, word: WordNode) -> None:
        for part in word.parts:
            if isinstance(part, Literal) and _NAME.match(part.value):
                self._shell.state.assign(part.value, NUMBER)
            elif isinstance(part, Parameter) and part.param:
                self._shell.state.assign(part.param.value, UNKNOWN)
