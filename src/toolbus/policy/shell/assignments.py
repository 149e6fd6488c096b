"""Variables that a command sets: in front of it, alone, or with ``declare`` and ``export``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import prints_number
from toolbus.policy.shell.shell_state import (
    DYNAMIC,
    NUMBER,
    SPECIAL_BUILTINS,
    UNKNOWN,
    VariableValue,
)
from toolbus.policy.shell.tree import ArithmeticExpansion, Substitution

if TYPE_CHECKING:
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import Assignment, CallNode, Declaration

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
    program, state = command.variant.value, shell.state
    words = [Word(program)]
    options = ""
    for argument in command.args:
        if argument.name is None:
            added = shell.words.expand([argument.value] if argument.value else [])
            words += added
            for word in added:
                options += _options(program, word, shell)
                _declare_word(word, shell)
            continue
        name = argument.name.value
        _apply_options(options, name, state)
        if not argument.naked:
            words.append(_declare_value(program, argument, options, shell))
            continue
        words.append(Word(name))
        if program not in {"export", "readonly"}:
            state.assign(name, UNKNOWN)
    if program == "readonly" or "r" in options:
        state.fixed |= {argument.name.value for argument in command.args if argument.name}
    shell.add_command(tuple(words))
    return state


def _declare_value(program: str, argument: Assignment, options: str, shell: Interpreter) -> Word:
    """Set what *argument* sets; return it as a word of *program*."""
    before = shell.state.variables.get(argument.name.value if argument.name else "")
    name, value = _assign(argument, shell)
    if argument.array is None and _may_be_array(program, name, options, before):
        check_declared(value, shell)
    source = shell.source(argument)
    braces = re.search(r"(?<!\$)\{", source)
    if braces or (program == "local" and not shell.scope.calls):
        # Braces become several words here; outside of a function `local` fails.
        shell.state.assign(name, UNKNOWN)
    start = name + ("+=" if argument.append else "=")
    if value.known and not braces:
        return Word(start + value.text, value.known, value.pattern)
    return Word(source, known=False, start=start)


def _options(program: str, word: Word, shell: Interpreter) -> str:
    if not word.known:
        shell.refuse("options that are not known")
        return ""
    if not word.text.startswith(("-", "+")):
        return ""
    if "n" in word.text and program != "export":
        shell.refuse("a variable that names another one")
    if "i" in word.text and word.text.startswith("-"):
        shell.refuse("a variable that computes with any text that it is given")
    if "f" in word.text and ("x" in word.text or program == "export"):
        shell.refuse("functions for the programs that are run")
    return word.text[1:]


def _declare_word(word: Word, shell: Interpreter) -> None:
    """Set what a word sets that was no assignment before its quotes were gone."""
    name, sign, value = word.text.partition("=")
    if word.known and sign:
        shell.words.arithmetic.check_name(name.removesuffix("+"))
        check_declared(Word(value), shell)
        shell.state.assign(name.removesuffix("+"), UNKNOWN)


def check_declared(value: Word, shell: Interpreter) -> None:
    """Refuse a *value* that ``declare`` expands a second time: one for an array, in brackets."""
    if not value.known or value.text.startswith("("):
        shell.refuse("a value that bash may read again, and run what it finds there")


def _may_be_array(program: str, name: str, options: str, before: VariableValue | None) -> bool:
    """Tell whether bash may take a text that *program* sets for the elements of an array."""
    if not {"a", "A"}.isdisjoint(options):
        return True
    is_text = before is None or (before.word.known)
    return program not in {"export", "readonly"} and (name in DYNAMIC or not is_text)


def _apply_options(options: str, name: str, state: ShellState) -> None:
    if "A" in options:
        state.maps |= {name}
    if re.search("[luc]", options):
        state.fixed |= {name}


def _assign(assignment: Assignment, shell: Interpreter) -> tuple[str, Word]:
    """Set what *assignment* sets; return its name and the value."""
    state = shell.state
    name = assignment.name.value if assignment.name else ""
    _refuse_doubtful(assignment, name, shell)
    if assignment.index is not None or assignment.array is not None:
        return name, _assign_array(assignment, name, shell)
    word = shell.words.single(assignment.value, assigned=True)
    if assignment.append:
        word = _appended(state.variables.get(name), word, shell.source(assignment))
    if word.pattern and re.search(r"[*?\[]", word.text):
        word = replace(word, known=False, pattern=False)
    if word.known and re.search(r"\[.*(?:\$\(|`)", word.text):
        shell.refuse("a value that runs commands where it is computed with", assignment)
    state.assign(name, VariableValue(word) if word.known else _unknown(assignment))
    return name, word


def _refuse_doubtful(assignment: Assignment, name: str, shell: Interpreter) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        shell.refuse("an assignment for shfmt, and a program's name for bash", assignment)
    follows = shell.data[assignment.end.offset : assignment.end.offset + 1]
    if assignment.array is not None and follows not in _ENDS:
        shell.refuse("an array for shfmt, and a text for bash", assignment)
    if name in shell.state.fixed:
        shell.refuse("a variable that can't be set, or changes what it is given", assignment)


def _unknown(assignment: Assignment) -> VariableValue:
    parts = assignment.value.parts if assignment.value else ()
    if len(parts) == 1 and not assignment.append:
        part = parts[0]
        if isinstance(part, ArithmeticExpansion):
            return NUMBER
        if isinstance(part, Substitution) and prints_number(part.stmts):
            return NUMBER
    return UNKNOWN


def _appended(before: VariableValue | None, word: Word, source: str) -> Word:
    if before is None or not before.word.known or not word.known:
        return Word(source, known=False)
    if before.word.pattern or word.pattern:
        return Word(source, known=False)
    return Word(before.word.text + word.text)


def _assign_array(assignment: Assignment, name: str, shell: Interpreter) -> Word:
    """Read the elements of an array, of which nothing is known then."""
    arithmetic = shell.words.arithmetic
    if assignment.index is not None:
        arithmetic.check_index(assignment.index, name)
    if assignment.array is None:
        shell.words.single(assignment.value, assigned=True)
    for element in assignment.array.elems if assignment.array else ():
        if element.index is not None:
            arithmetic.check_index(element.index, name)
        if element.value is not None:
            shell.words.expand((element.value,))
    shell.state.assign(name, UNKNOWN)
    if assignment.array is not None:
        arithmetic.check_name(name)
    return Word(shell.source(assignment), known=False)
