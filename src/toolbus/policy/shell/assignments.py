"""Variables that a command sets: in front of it, alone, or with ``declare`` and ``export``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import check_arithmetic, check_name, words_in
from toolbus.policy.shell.calls import run_words
from toolbus.policy.shell.printed import prints_number
from toolbus.policy.shell.runs import add_command, run_nothing
from toolbus.policy.shell.shell_state import (
    DYNAMIC,
    NUMBER,
    SPECIAL_BUILTINS,
    UNKNOWN,
    VariableValue,
)
from toolbus.policy.shell.tree import ArithmeticExpansion, Substitution
from toolbus.policy.shell.words import WordExpander

if TYPE_CHECKING:
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import Assignment, CallNode, Declaration
    from toolbus.policy.shell.walk import TextWalk

# What may stand behind an array; with anything else bash takes it for a text.
_ENDS = frozenset([b"", b" ", b"\t", b"\n", b";", b"&", b"|", b")", b"<", b">", b"`"])


def read_call(call: CallNode, run: Run, walk: TextWalk, state: ShellState) -> ShellState:
    """Read a simple command; *state* becomes the one behind it, that of a failure is returned."""
    expander = WordExpander(walk, state, run.scope)
    words = expander.words(call.args)
    if not words:
        for assignment in call.assigns:
            _assign(assignment, expander)
        return run_nothing(run, walk, state)
    if not call.assigns:
        return run_words(tuple(words), run, walk, state)
    inner = state.copy()
    settings = [
        _assign(assignment, WordExpander(walk, inner, run.scope)) for assignment in call.assigns
    ]
    name = words[0].text
    run = replace(run, settings=tuple(settings))
    if name not in SPECIAL_BUILTINS and name not in state.functions:
        return run_words(tuple(words), run, walk, state)
    failure = run_words(tuple(words), run, walk, inner)
    for setting, _ in settings:
        inner.assign(setting, UNKNOWN)
        failure.assign(setting, UNKNOWN)
    if failure is inner:
        failure = state
    state.become(inner)
    return failure


def declare(command: Declaration, run: Run, walk: TextWalk, state: ShellState) -> ShellState:
    """Read ``declare``, ``export``, ``local`` …."""
    expander = WordExpander(walk, state, run.scope)
    program = command.variant.value
    words = [Word(program)]
    options = ""
    for argument in command.args:
        if argument.name is None:
            added = expander.words([argument.value] if argument.value else [])
            words += added
            for word in added:
                options += _options(program, word, run, walk)
                _declare_word(word, expander, run)
            continue
        name = argument.name.value
        _apply_options(options, name, state)
        if argument.naked:
            words.append(Word(name))
            if "local" in program or "declare" in program or "typeset" in program:
                state.assign(name, UNKNOWN)
            continue
        before = state.variables.get(name)
        _, value = _assign(argument, expander)
        if argument.array is None and _may_be_array(program, name, options, before):
            check_declared(value, run, walk)
        braces = re.search(r"(?<!\$)\{", walk.source(argument))
        if braces or (program == "local" and not run.scope.calls):
            # Braces become several words here; outside of a function `local` fails.
            state.assign(name, UNKNOWN)
        sign = "+=" if argument.append else "="
        words.append(
            Word(name + sign + value.text, value.known, value.pattern)
            if value.known and not braces
            else Word(walk.source(argument), known=False, start=name + sign)
        )
    if program == "readonly" or "r" in options:
        names = {argument.name.value for argument in command.args if argument.name}
        state.fixed |= names
    add_command(run, tuple(words), walk, state)
    return state


def _options(program: str, word: Word, run: Run, walk: TextWalk) -> str:
    if not word.known:
        walk.refuse(run.source, "options that are not known")
        return ""
    if not word.text.startswith(("-", "+")):
        return ""
    if "n" in word.text and program != "export":
        walk.refuse(run.source, "a variable that names another one")
    if "i" in word.text and word.text.startswith("-"):
        walk.refuse(run.source, "a variable that computes with any text that it is given")
    if "f" in word.text and ("x" in word.text or program == "export"):
        walk.refuse(run.source, "functions for the programs that are run")
    return word.text[1:]


def _declare_word(word: Word, expander: WordExpander, run: Run) -> None:
    """Set what a word sets that was no assignment before its quotes were gone."""
    name, sign, value = word.text.partition("=")
    if word.known and sign:
        check_name(name.removesuffix("+"), expander)
        check_declared(Word(value), run, expander.walk)
        expander.state.assign(name.removesuffix("+"), UNKNOWN)


def check_declared(value: Word, run: Run, walk: TextWalk) -> None:
    """Refuse a *value* that ``declare`` expands a second time: one for an array, in brackets."""
    if not value.known or value.text.startswith("("):
        walk.refuse(run.source, "a value that bash may read again, and run what it finds there")


def _may_be_array(program: str, name: str, options: str, before: VariableValue | None) -> bool:
    """Tell whether bash may take a text that *program* sets for the elements of an array."""
    if not {"a", "A"}.isdisjoint(options):
        return True
    is_text = before is None or (before.word.known and before.items is None)
    return program not in {"export", "readonly"} and (name in DYNAMIC or not is_text)


def _apply_options(options: str, name: str, state: ShellState) -> None:
    if "A" in options:
        state.maps |= {name}
    if re.search("[luc]", options):
        state.fixed |= {name}


def _assign(assignment: Assignment, expander: WordExpander) -> tuple[str, Word]:
    """Set what *assignment* sets; return its name and the value."""
    state = expander.state
    name = assignment.name.value if assignment.name else ""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        expander.walk.refuse(assignment, "an assignment for shfmt, and a program's name for bash")
    follows = expander.walk.data[assignment.end.offset : assignment.end.offset + 1]
    if assignment.array is not None and follows not in _ENDS:
        expander.walk.refuse(assignment, "an array for shfmt, and a text for bash")
    if name in state.fixed:
        expander.walk.refuse(
            assignment, "a variable that can't be set, or changes what it is given"
        )
    if assignment.index is not None or assignment.array is not None:
        return name, _assign_array(assignment, name, expander)
    word = expander.single(assignment.value, assigned=True)
    if assignment.append:
        word = _appended(state.variables.get(name), word, expander.walk.source(assignment))
    if word.pattern and re.search(r"[*?\[]", word.text):
        word = replace(word, known=False, pattern=False)
    if word.known and re.search(r"\[.*(?:\$\(|`)", word.text):
        expander.walk.refuse(assignment, "a value that runs commands where it is computed with")
    state.assign(name, VariableValue(word) if word.known else _unknown(assignment))
    return name, word


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
    if before is None or not before.word.known or not word.known or before.items is not None:
        return Word(source, known=False)
    if before.word.pattern or word.pattern:
        return Word(source, known=False)
    return Word(before.word.text + word.text)


def _assign_array(assignment: Assignment, name: str, expander: WordExpander) -> Word:
    state = expander.state
    if assignment.index is not None:
        if name in state.maps:
            for word in words_in(assignment.index):
                expander.single(word)
        else:
            check_arithmetic(assignment.index, expander)
    if assignment.array is None:
        expander.single(assignment.value, assigned=True)
        state.assign(name, UNKNOWN)
        return Word(expander.walk.source(assignment), known=False)
    items: list[Word] = []
    plain = not assignment.append
    for element in assignment.array.elems:
        if element.index is not None:
            plain = False
            if name not in state.maps:
                check_arithmetic(element.index, expander)
        if element.value is not None:
            items += expander.words((element.value,))
    plain = (
        plain and name not in state.maps and all(word.known and not word.pattern for word in items)
    )
    state.assign(
        name, VariableValue(Word("", known=False), items=tuple(items)) if plain else UNKNOWN
    )
    check_name(name, expander)
    return Word(expander.walk.source(assignment), known=False)
