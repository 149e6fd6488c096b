"""Arithmetic and tests: what runs while they are computed.

bash evaluates the value of a name as an expression again, and runs a ``$(…)`` in the subscript of
an array: with ``x='a[$(rm y)]'``, ``$((x))`` removes y. So a name may only stand there if it holds
a number, or if the text sets it nowhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import convert

from toolbus.policy.shell.printed import prints_number
from toolbus.policy.shell.shell_state import NUMBER, UNKNOWN
from toolbus.policy.shell.tree import (
    ArithmeticExpansion,
    DoubleQuoted,
    Expression,
    Literal,
    Parameter,
    SingleQuoted,
    Substitution,
    WordNode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.shell.tree import Part
    from toolbus.policy.shell.words import WordExpander

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"\s*[+-]?(?:\d+#)?\w*\s*\Z", re.ASCII)
_COMPARING = frozenset("-eq -ne -lt -le -gt -ge".split())
_ASSIGNING = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
_SET_TO_NUMBERS = frozenset(
    """BASHPID BASH_SUBSHELL COLUMNS EPOCHSECONDS EUID HISTCMD LINENO LINES OPTIND PIPESTATUS
    PPID RANDOM SECONDS SHLVL SRANDOM UID""".split()
)
_REASON = "arithmetic on what isn't known to be a number: bash runs commands in it"


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


def check_arithmetic(tree: Expression | None, expander: WordExpander) -> None:
    """Read what *tree* runs, and note the names that it sets; refuse what may run more."""
    if tree is None:
        return
    kind = tree.get("Type")
    if kind == "Word":
        for part in convert(tree, WordNode).parts:
            _check_part(part, expander)
    elif kind == "ParamExp":
        _check_parameter(convert(tree, Parameter), expander)
    else:
        for side in ("X", "Y"):
            check_arithmetic(tree.get(side), expander)
        if tree.get("Op") in {"++", "--"} or tree.get("Op") in _ASSIGNING:
            for word in words_in(tree.get("X")):
                _assign(word, expander)


def check_test(tree: Expression | None, expander: WordExpander) -> None:
    """Read what a test of ``[[ … ]]`` runs."""
    if tree is None:
        return
    operator, kind = tree.get("Op"), tree.get("Type")
    if kind == "Word":
        expander.single(convert(tree, WordNode))
    elif operator in _COMPARING:
        check_arithmetic(tree.get("X"), expander)
        check_arithmetic(tree.get("Y"), expander)
    elif operator in {"-v", "-R"}:
        for word in words_in(tree.get("X")):
            check_name(expander.single(word).text, expander)
    else:
        check_test(tree.get("X"), expander)
        check_test(tree.get("Y"), expander)


def check_name(name: str, expander: WordExpander) -> None:
    """Refuse *name*, of a variable that a builtin asks for or sets, if it has a subscript."""
    if not _NAME.match(name) and not re.fullmatch(r"[A-Za-z_]\w*\[(?:\d+|@|\*)\]", name):
        expander.walk.refuse(name, "a variable's name that may run commands")


def is_number(text: str) -> bool:
    """Return whether bash takes *text* for a number, or for the name of a variable."""
    return bool(_NUMBER.match(text)) and not _NAME.match(text)


def _check_part(part: Part, expander: WordExpander) -> None:
    if isinstance(part, Literal):
        for name in re.findall(r"[A-Za-z_]\w*", part.value):
            _check_variable(name, part, expander)
        if re.search(r"[`$\\]", part.value):
            expander.walk.refuse(part, _REASON)
    elif isinstance(part, DoubleQuoted):
        for inner in part.parts:
            _check_part(inner, expander)
    elif isinstance(part, Parameter):
        _check_parameter(part, expander)
    elif isinstance(part, ArithmeticExpansion):
        check_arithmetic(part.x, expander)
    elif isinstance(part, Substitution) and prints_number(part.stmts):
        expander.single(WordNode(parts=(part,)))
    elif not (isinstance(part, SingleQuoted) and re.fullmatch(r"\w*", part.value)):
        expander.single(WordNode(parts=(part,)))
        expander.walk.refuse(part, _REASON)


def _check_parameter(part: Parameter, expander: WordExpander) -> None:
    if part.length:
        expander.single(WordNode(parts=(part,)))
        return
    if part.index is not None:
        check_arithmetic(part.index, expander)
    if part.slice or part.repl or part.excl or part.names:
        expander.single(WordNode(parts=(part,)))
        expander.walk.refuse(part, _REASON)
    elif part.exp:
        default = expander.single(part.exp.word)
        if part.exp.op not in {"-", ":-"} or not is_number(default.text or "0"):
            expander.walk.refuse(part, _REASON)
    _check_variable(part.param.value if part.param else "", part, expander)


def _check_variable(name: str, part: Part, expander: WordExpander) -> None:
    state = expander.state
    if name in _SET_TO_NUMBERS or not state.is_set(name):
        value = state.value(name) if name.isdigit() or name in {"@", "*"} else None
    else:
        value = state.value(name) or UNKNOWN
    if value is None or value.number:
        return
    items = (value.word,) if value.items is None else value.items
    if not all(word.known and is_number(word.text or "0") for word in items):
        expander.walk.refuse(part, _REASON)


def _assign(word: WordNode, expander: WordExpander) -> None:
    for part in word.parts:
        if isinstance(part, Literal) and _NAME.match(part.value):
            expander.state.assign(part.value, NUMBER)
        elif isinstance(part, Parameter) and part.param:
            expander.state.assign(part.param.value, UNKNOWN)
