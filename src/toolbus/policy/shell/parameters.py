"""Parameter expansion: ``$x`` and ``${x}``; nothing is known of ``${x:-y}``, ``"${a[@]}"`` …."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.shell.arithmetic import words_in
from toolbus.policy.shell.shell_state import UNKNOWN

if TYPE_CHECKING:
    from toolbus.policy.commands import Word
    from toolbus.policy.shell.fields import Fields
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.tree import Parameter


def expand_parameter(part: Parameter, fields: Fields, shell: Interpreter, *, quoted: bool) -> None:
    """Add what *part* stands for to *fields*, and read what stands in it."""
    name = part.param.value if part.param else ""
    index = _index(part, shell)
    _read_inside(part, shell, quoted=quoted)
    if part.excl and not part.names and index not in {"@", "*"}:
        shell.refuse("a variable that names another one", part)
    operated = part.excl or part.slice or part.repl or part.names or part.exp or part.index
    if part.exp and part.exp.op in {"=", ":="}:
        shell.state.assign(name, UNKNOWN)
    if name in {"@", "*"} and not operated and not part.length:
        _add_all(name, fields, shell, quoted=quoted)
        return
    is_list = name in {"@", "*"} or index in {"@", "*"}
    value = None if is_list or operated else shell.state.value(name)
    if part.length:
        fields.unknown(several=not (is_list or quoted or shell.state.splits))
    elif value is None:
        fields.unknown(several=not quoted or name == "@" or index == "@")
    elif value.number:
        fields.unknown(several=not (quoted or shell.state.splits))
    else:
        add_word(value.word, fields, quoted=quoted)


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


def _add_all(name: str, fields: Fields, shell: Interpreter, *, quoted: bool) -> None:
    """Add the positional parameters, of which ``"$*"`` makes one word."""
    words = shell.state.positional
    if words is None or (quoted and name == "*"):
        fields.unknown(several=not quoted or name == "@")
        return
    if quoted and not words:
        # In bash "$@" of nothing is no word, though there are quotes around.
        fields.unknown(several=True)
    for position, word in enumerate(words):
        if position:
            fields.finish()
        add_word(word, fields, quoted=quoted)


def _index(part: Parameter, shell: Interpreter) -> str:
    """Return the subscript: ``@``, ``*``, a plain number, ``?`` for any other, or nothing."""
    if part.index is None:
        return ""
    text = shell.source(part).partition("[")[2]
    if text.startswith(("@]", "*]")):
        return text[0]
    shell.words.arithmetic.check_index(part.index, part.param.value if part.param else "")
    number = text.partition("]")[0]
    return number if number.isdecimal() else "?"


def _read_inside(part: Parameter, shell: Interpreter, *, quoted: bool) -> None:
    if part.slice is not None:
        for bound in part.slice.values():
            if isinstance(bound, dict) and "Type" in bound:
                shell.words.arithmetic.check(bound)
    words = [*words_in(part.repl), *([part.exp.word] if part.exp and part.exp.word else [])]
    for word in words:
        # shfmt takes single quotes there for quotes, and bash mostly for letters.
        if quoted and "'" in shell.source(word):
            shell.refuse("quotes in ${…} in quotes, which shells read differently", part)
        shell.words.single(word)
    if part.exp and part.exp.op == "@" and shell.source(part).rstrip("}").endswith("P"):
        shell.refuse("@P runs what the variable holds", part)
