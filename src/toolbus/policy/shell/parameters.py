"""Parameter expansion: ``$x``, ``${x:-word}``, ``"${a[@]}"`` …."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.shell.arithmetic import check_arithmetic, words_in
from toolbus.policy.shell.shell_state import UNKNOWN, VariableValue

if TYPE_CHECKING:
    from toolbus.policy.commands import Word
    from toolbus.policy.shell.fields import Fields
    from toolbus.policy.shell.tree import Parameter
    from toolbus.policy.shell.words import WordExpander


def expand_parameter(
    part: Parameter, fields: Fields, expander: WordExpander, *, quoted: bool
) -> None:
    """Add what *part* stands for to *fields*, and read what stands in it."""
    name = part.param.value if part.param else ""
    index = _index(part, expander)
    _read_inside(part, expander, quoted=quoted)
    if part.excl and not part.names and index not in {"@", "*"}:
        expander.walk.refuse(part, "a variable that names another one")
    if name in {"@", "*"} or index in {"@", "*"}:
        _add_all(part, name, index, fields, expander, quoted=quoted)
        return
    value = expander.state.value(name)
    if value is not None and value.items is not None:
        value = _element(value, index or "0")
    elif index not in {"", "0"}:
        value = None
    plain = not (part.excl or part.length or part.slice or part.repl or part.names)
    if part.exp and plain:
        value = _operated(part, value, expander)
        plain = value is not None
    if part.length or (plain and value is not None and value.number):
        fields.unknown(several=not (quoted or expander.state.splits))
    elif plain and value is not None:
        add_word(value.word, fields, quoted=quoted)
    else:
        fields.unknown(several=not quoted)


def add_word(word: Word, fields: Fields, *, quoted: bool) -> None:
    """Add what a variable holds."""
    if word.pattern and (quoted or word.text.startswith("~")):
        if word.text.startswith("~") and not any(sign in word.text for sign in "*?[\\"):
            fields.tilde(word.text)
        else:
            fields.matching(word.text)
    elif not word.known or word.pattern:
        fields.unknown(several=not quoted)
    elif quoted:
        fields.quoted(word.text)
    else:
        fields.expanded(word.text)


def _add_all(
    part: Parameter, name: str, index: str, fields: Fields, expander: WordExpander, *, quoted: bool
) -> None:
    if part.length:
        fields.unknown(several=False)
        return
    operated = part.excl or part.slice or part.repl or part.names or part.exp
    words: tuple[Word, ...] | None
    if name in {"@", "*"}:
        words = expander.state.positional
    else:
        value = expander.state.variables.get(name)
        words = value.items if value else None
    at_sign = name == "@" or index == "@"
    if words is None or operated or (quoted and not at_sign):
        fields.unknown(several=not quoted or at_sign)
        return
    if quoted and not words:
        # In bash "$@" of nothing is no word, though there are quotes around.
        fields.unknown(several=True)
    for position, word in enumerate(words):
        if position:
            fields.finish()
        add_word(word, fields, quoted=quoted)


def _index(part: Parameter, expander: WordExpander) -> str:
    """Return the subscript: ``@``, ``*``, a plain number, ``?`` for any other, or nothing."""
    if part.index is None:
        return ""
    text = expander.walk.source(part).partition("[")[2]
    if text.startswith(("@]", "*]")):
        return text[0]
    name = part.param.value if part.param else ""
    if name in expander.state.maps:
        for word in words_in(part.index):
            expander.single(word)
    else:
        check_arithmetic(part.index, expander)
    number = text.partition("]")[0]
    return number if number.isdecimal() else "?"


def _read_inside(part: Parameter, expander: WordExpander, *, quoted: bool) -> None:
    if part.slice is not None:
        for bound in part.slice.values():
            if isinstance(bound, dict) and "Type" in bound:
                check_arithmetic(bound, expander)
    words = [*words_in(part.repl), *([part.exp.word] if part.exp and part.exp.word else [])]
    for word in words:
        # shfmt takes single quotes there for quotes, and bash mostly for letters.
        if quoted and "'" in expander.walk.source(word):
            expander.walk.refuse(part, "quotes in ${…} in quotes, which shells read differently")
        expander.single(word)
    if part.exp and part.exp.op == "@" and expander.walk.source(part).rstrip("}").endswith("P"):
        expander.walk.refuse(part, "@P runs what the variable holds")


def _element(value: VariableValue, index: str) -> VariableValue:
    items = value.items or ()
    if not index.isdecimal() or int(index) >= len(items):
        return UNKNOWN
    return VariableValue(items[int(index)])


def _operated(
    part: Parameter, value: VariableValue | None, expander: WordExpander
) -> VariableValue | None:
    """Return what is left of *value* behind ``:-``, ``:+`` …, or None if nobody can know."""
    operation = part.exp
    name = part.param.value if part.param else ""
    if operation is None or operation.op not in {"-", ":-", "=", ":=", "?", ":?", "+", ":+"}:
        return None
    if value is None or not value.word.known or name in {"HOME", "PWD"} or name.isdigit():
        if operation.op in {"=", ":="}:
            expander.state.assign(name, UNKNOWN)
        return None
    is_set = bool(value.word.text) or not operation.op.startswith(":")
    if operation.op.endswith("+"):
        is_set = not is_set
    if is_set and not operation.op.endswith("+"):
        return value
    word = expander.single(operation.word)
    if operation.op.endswith("+") and is_set:
        return VariableValue(word=type(word)(""))
    if operation.op in {"=", ":="}:
        expander.state.assign(name, VariableValue(word))
    # The word is split and matched as it stands there, quotes and all: known only if it is plain.
    return VariableValue(word) if word.known and not word.pattern else None
