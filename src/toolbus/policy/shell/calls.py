"""What the words of one simple command run: a function, a builtin, a wrapper, a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.shell.builtins import read_builtin
from toolbus.policy.shell.nested_shells import SHELLS, read_shell
from toolbus.policy.shell.runs import add_command
from toolbus.policy.shell.shell_state import UNKNOWN
from toolbus.policy.shell.wrapped_programs import read_wrapped

if TYPE_CHECKING:
    from toolbus.policy.commands import Word
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import Definition, ShellState
    from toolbus.policy.shell.walk import TextWalk


def run_words(words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState) -> ShellState:
    """Read what *words* run; *state* becomes the one behind it, that of a failure is returned."""
    program = words[0]
    if not program.known or program.pattern or program.several:
        walk.refuse(run.source, "which program it runs is known only when it runs")
        add_command(run, words, walk, state)
        return state
    name = program.text
    if run.functions and name in state.functions:
        definition = state.functions[name]
        if definition is not None:
            return _call(definition, words[1:], run, walk, state)
        walk.refuse(run.source, "a function that is defined in several ways")
    add_command(run, words, walk, state)
    with walk.deeper():
        return _read_inside(name, words, run, walk, state)


def _read_inside(
    name: str, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> ShellState:
    """Read what the command of *words*, which is in the reading already, runs in its turn."""
    if run.shell:
        failure = read_builtin(name, words[1:], run, walk, state)
        if failure is not None:
            return failure
    plain = name.rpartition("/")[2]
    if plain in SHELLS:
        read_shell(plain, words[1:], run, walk, state)
    else:
        read_wrapped(plain, words[1:], run, walk, state)
    return state


def _call(
    definition: Definition, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> ShellState:
    name = definition.node.name.value
    walk.uncalled.pop(id(definition.node), None)
    if name in run.scope.calls:
        walk.refuse(run.source, "a function that calls itself")
        return state
    before, positional = dict(state.variables), state.positional
    state.positional = None if any(word.several for word in words) else words
    for setting, _ in run.settings:
        state.assign(setting, UNKNOWN)
    scope = run.inner_scope().through(f"{name}()")
    with walk.nested(definition.data):
        walk.read_list(
            (definition.node.body,), walk, state, replace(scope, calls=(*scope.calls, name))
        )
    state.positional = positional
    # Which of them were local to the function is not worth to be known.
    for variable, value in state.variables.items():
        if before.get(variable) != value:
            state.variables[variable] = UNKNOWN
    return state
