"""Variables that a command sets: in front of it, alone, or with ``declare`` and ``export``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import words_in
from toolbus.policy.shell.shell_state import DYNAMIC, NUMBER, SPECIAL_BUILTINS, UNKNOWN
from toolbus.policy.shell.syntax import ArithmeticExpansion

if TYPE_CHECKING:
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.syntax import Assignment, CallNode, Declaration

# Options of `declare` and `export` after which a value is what it was: -x and -g set, others show.
_HARMLESS = frozenset({"-x", "-g", "-p", "-F", "--"})
# What may stand behind an array; with anything else bash takes it for a text.
_ENDS = frozenset([b"", b" ", b"\t", b"\n", b";", b"&", b"|", b")", b"<", b">", b"`"])


def read_call(call: CallNode, shell: Interpreter) -> ShellState:
    """Read a simple command; return the state behind its failure."""
    words = tuple(shell.words.expand(call.args))
    if not words:
        for assignment in call.assigns:
            _assign(assignment, shell)
        return shell.run_nothing()
    if not call.assigns:
        return shell.run_words(words)
    state = shell.state
    inner = state.copy()
    with shell.using(state=inner):
        settings = tuple([_assign(assignment, shell) for assignment in call.assigns])
    run, name = replace(shell.run, settings=settings), words[0].text
    if name not in SPECIAL_BUILTINS and name not in state.functions:
        with shell.using(run=run):
            return shell.run_words(words)
    with shell.using(run=run, state=inner):
        failure = shell.run_words(words)
    for setting, _ in settings:
        inner.assign(setting, UNKNOWN)
        failure.assign(setting, UNKNOWN)
    if failure is inner:
        failure = state
    state.become(inner)
    return failure


def declare(command: Declaration, shell: Interpreter) -> ShellState:
    """Read ``declare``, ``export``, ``local`` …."""
    program = command.variant.value
    words = [Word(program)]
    if program == "readonly":
        shell.refuse("a variable that nothing sets again")
    for argument in command.args:
        if argument.name is None:
            added = shell.words.expand([argument.value] if argument.value else [])
            words += added
            for word in added:
                _declare_word(word, shell)
        elif argument.naked:
            words.append(Word(argument.name.value))
            if program != "export":
                shell.state.assign(argument.name.value, UNKNOWN)
        else:
            words.append(_declare_value(program, argument, shell))
    shell.add_command(tuple(words))
    return shell.state


def _declare_word(word: Word, shell: Interpreter) -> None:
    """Read an option, or what was no assignment before its quotes were gone."""
    name, sign, value = word.text.partition("=")
    if not word.known or (name[:1] in {"-", "+"} and word.text not in _HARMLESS):
        shell.refuse("an option that may change what a variable means")
    elif sign:
        shell.words.arithmetic.check_name(name.removesuffix("+"))
        _check_declared(Word(value), shell)
        shell.state.assign(name.removesuffix("+"), UNKNOWN)


def _declare_value(program: str, argument: Assignment, shell: Interpreter) -> Word:
    """Set what *argument* sets; return it as a word of *program*."""
    before = shell.state.variables.get(argument.name.value if argument.name else "")
    name, value = _assign(argument, shell)
    may_be_array = name in DYNAMIC or (before is not None and not before.known)
    if argument.array is None and program != "export" and may_be_array:
        _check_declared(value, shell)
    source = shell.source(argument)
    braces = re.search(r"(?<!\$)\{", source)
    if braces or (program == "local" and not shell.scope.calls):
        # Braces become several words here; outside of a function `local` fails.
        shell.state.assign(name, UNKNOWN)
    start = name + ("+=" if argument.append else "=")
    if value.known and not braces:
        return Word(start + value.text, value.known, value.pattern)
    return Word(source, known=False, start=start)


def _check_declared(value: Word, shell: Interpreter) -> None:
    """Refuse a *value* that ``declare`` expands a second time: one for an array, in brackets."""
    if not value.known or value.text.startswith("("):
        shell.refuse("a value that bash may read again, and run what it finds there")


def _assign(assignment: Assignment, shell: Interpreter) -> tuple[str, Word]:
    """Set what *assignment* sets; return its name and the value."""
    state = shell.state
    name = assignment.name.value if assignment.name else ""
    _refuse_doubtful(assignment, name, shell)
    if assignment.index is not None or assignment.array is not None:
        return name, _assign_array(assignment, name, shell)
    parts = assignment.value.parts if assignment.value and not assignment.append else ()
    word = shell.words.single(assignment.value, assigned=True)
    if assignment.append:
        word = _appended(state.variables.get(name), word, shell.source(assignment))
    if word.pattern and re.search(r"[*?\[]", word.text):
        word = replace(word, known=False, pattern=False)
    if word.known and re.search(r"\[.*(?:\$\(|`)", word.text):
        shell.refuse("a value that runs commands where it is computed with", assignment)
    computed = bool(parts) and all(isinstance(part, ArithmeticExpansion) for part in parts)
    state.assign(name, word if word.known else NUMBER if computed else UNKNOWN)
    return name, word


def _refuse_doubtful(assignment: Assignment, name: str, shell: Interpreter) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        shell.refuse("an assignment for shfmt, and a program's name for bash", assignment)
    follows = shell.data[assignment.end.offset : assignment.end.offset + 1]
    if assignment.array is not None and follows not in _ENDS:
        shell.refuse("an array for shfmt, and a text for bash", assignment)


def _appended(before: Word | None, word: Word, source: str) -> Word:
    if before is None or not before.known or not word.known or before.pattern or word.pattern:
        return Word(source, known=False)
    return Word(before.text + word.text)


def _assign_array(assignment: Assignment, name: str, shell: Interpreter) -> Word:
    """Read the elements of an array, of which nothing is known then."""
    shell.words.arithmetic.check(assignment.index)
    if assignment.array is None:
        shell.words.single(assignment.value, assigned=True)
    else:
        for element in assignment.array.get("Elems", ()):
            shell.words.arithmetic.check(element.get("Index"))
            shell.words.expand(words_in(element.get("Value")))
        shell.words.arithmetic.check_name(name)
    shell.state.assign(name, UNKNOWN)
    return Word(shell.source(assignment), known=False)
