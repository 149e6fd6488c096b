"""What a piece of a text prints, where that can be known without running it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.shell.tree import Literal

if TYPE_CHECKING:
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.tree import RedirectNode, Statement


def printed_by(statements: tuple[Statement, ...], shell: Interpreter) -> str | None:
    """Return what *statements* print, if they are one plain echo, printf or cat."""
    # Each condition is one under which something else may be printed, too.
    call = statements[0].call if len(statements) == 1 else None
    name, *nodes = call.args if call is not None and call.args else (None,)
    if call is None or name is None or name.literal in shell.state.functions:
        return None
    if name.literal == "cat":
        return None if nodes else _document(statements[0], shell)
    if name.literal not in {"echo", "printf"} or statements[0].redirs:
        return None
    words = shell.try_words(tuple(nodes))
    if words is None or not all(word.known and not word.pattern for word in words):
        return None
    texts = [word.text for word in words]
    return _echoed(texts) if name.literal == "echo" else _formatted(texts)


def _document(statement: Statement, shell: Interpreter) -> str | None:
    if len(statement.redirs) != 1 or not statement.redirs[0].op.startswith("<<"):
        return None
    if "PATH" in shell.state.variables:
        return None
    return stdin_of(statement, shell)


def stdin_of(statement: Statement, shell: Interpreter) -> str | None:
    """Return the text of the last here-document or here-string of *statement*."""
    text = None
    for redirect in statement.redirs:
        document = _given_text(redirect, shell)
        is_input = redirect.n is None or redirect.n.value == "0"
        if is_input and redirect.op.startswith("<"):
            text = document
    return text


def _given_text(redirect: RedirectNode, shell: Interpreter) -> str | None:
    """Return the text that stands behind *redirect*, None if it is a file, or not known."""
    if redirect.op == "<<<":
        word = shell.words.single(redirect.word)
        return word.text + "\n" if word.known and not word.pattern else None
    if redirect.op not in {"<<", "<<-"}:
        return None
    delimiter = redirect.word.parts if redirect.word else ()
    verbatim = not all(isinstance(part, Literal) and "\\" not in part.value for part in delimiter)
    indented = redirect.op == "<<-"
    return shell.words.document(redirect.hdoc, verbatim=verbatim, indented=indented)


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
