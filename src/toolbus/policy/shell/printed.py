"""What a piece of a text prints, where that can be known without running it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.shell.tree import Binary, CallNode, Literal

if TYPE_CHECKING:
    from toolbus.policy.shell.tree import Statement
    from toolbus.policy.shell.words import WordExpander

# What prints a number and nothing else; with `wc` a file would have its name behind it.
_NUMBERS = re.compile(r"wc -[lcmw]|nproc|date \+%[sYmdHMSjuN]|grep -c \S+|id -u|tput cols")


def printed_by(statements: tuple[Statement, ...], expander: WordExpander) -> str | None:
    """Return what *statements* print, if they are one plain echo, printf or cat."""
    if len(statements) != 1:
        return None
    statement = statements[0]
    call = statement.cmd
    if not isinstance(call, CallNode) or call.assigns or statement.background or not call.args:
        return None
    first = call.args[0].parts
    if len(first) != 1 or not isinstance(first[0], Literal):
        return None
    name = first[0].value
    if name in expander.state.functions or name not in {"echo", "printf", "cat"}:
        return None
    if name == "cat":
        return _document(statement, expander) if len(call.args) == 1 else None
    if statement.redirs:
        return None
    before = len(expander.walk.commands), len(expander.walk.unreadable)
    words = expander.words(call.args[1:])
    after = len(expander.walk.commands), len(expander.walk.unreadable)
    if before != after or not all(word.known and not word.pattern for word in words):
        # What stands in the words was read just now, and will be again.
        del expander.walk.commands[before[0] :], expander.walk.changing[before[0] :]
        del expander.walk.unreadable[before[1] :]
        return None
    texts = [word.text for word in words]
    return _echoed(texts) if name == "echo" else _formatted(texts)


def prints_number(statements: tuple[Statement, ...]) -> bool:
    """Return whether *statements* certainly print a number."""
    if len(statements) != 1:
        return False
    statement = statements[0]
    while isinstance(statement.cmd, Binary) and statement.cmd.op == "|":
        statement = statement.cmd.y
    call = statement.cmd
    if not isinstance(call, CallNode) or call.assigns:
        return False
    parts = [part for word in call.args for part in word.parts]
    if not all(isinstance(part, Literal) for part in parts) or len(parts) != len(call.args):
        return False
    text = " ".join(part.value for part in parts if isinstance(part, Literal))
    return bool(_NUMBERS.fullmatch(text))


def _document(statement: Statement, expander: WordExpander) -> str | None:
    if len(statement.redirs) != 1 or not statement.redirs[0].op.startswith("<<"):
        return None
    if "PATH" in expander.state.variables:
        return None
    return stdin_of(statement, expander)


def stdin_of(statement: Statement, expander: WordExpander) -> str | None:
    """Return the text of the last here-document or here-string of *statement*."""
    text = None
    for redirect in statement.redirs:
        before = text
        if redirect.op == "<<<":
            word = expander.single(redirect.word)
            text = word.text + "\n" if word.known and not word.pattern else None
        elif redirect.op in {"<<", "<<-"}:
            delimiter = redirect.word.parts if redirect.word else ()
            verbatim = not all(
                isinstance(part, Literal) and "\\" not in part.value for part in delimiter
            )
            indented = redirect.op == "<<-"
            text = expander.document(redirect.hdoc, verbatim=verbatim, indented=indented)
        elif redirect.op.startswith("<"):
            text = None
        if redirect.n is not None and redirect.n.value != "0":
            text = before
    return text


def _echoed(texts: list[str]) -> str | None:
    newline = "\n"
    if texts[:1] == ["-n"]:
        newline = ""
        texts = texts[1:]
    # dash reads backslashes in what it echoes, and bash more options.
    if any("\\" in text for text in texts) or (texts and re.fullmatch(r"-[neE]+", texts[0])):
        return None
    return " ".join(texts) + newline


def _formatted(texts: list[str]) -> str | None:
    if not texts or texts[0].startswith("-"):
        return None
    form, *values = texts
    end = "\n" if form.endswith("\\n") else ""
    plain = form.removesuffix("\\n")
    if plain == "%s" and values:
        return "".join(value + end for value in values)
    if "%" in plain or "\\" in plain or values:
        return None
    return plain + end
