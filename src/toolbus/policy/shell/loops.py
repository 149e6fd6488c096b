"""Loops: a body that is read once for each item that is known, or once for all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.shell.arithmetic import is_number
from toolbus.policy.shell.shell_state import NUMBER, UNKNOWN, VariableValue
from toolbus.policy.shell.tree import CounterLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.policy.commands import Word
    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import For, Node, While, WordLoop

# Beyond, what the variable holds is not known, which is true of any of them.
_MAX_ITEMS = 12
_NOTHING: Mapping[str, VariableValue] = {}
_ARITHMETIC = re.compile(r"(?:\b\w+=\$)?\(\(.*?\)\)")
_MOVES = re.compile(r"\b(?:cd|pushd|popd|eval)\b")


def read_while(command: While, shell: Interpreter) -> None:
    """Read a ``while`` or an ``until``."""
    place = len(shell.commands)
    entry = _enter(command, shell)
    shell.statements.read_list(command.cond)
    _read_body(command, entry, shell)
    shell.unsettle(place, itself=True)


def read_for(command: For, shell: Interpreter) -> None:
    """Read a ``for`` or a ``select``."""
    place, loop = len(shell.commands), command.loop
    if isinstance(loop, CounterLoop):
        shell.words.arithmetic.check(loop.init)
        entry = _enter(command, shell)
        shell.words.arithmetic.check(loop.cond)
        shell.words.arithmetic.check(loop.post)
        _read_body(command, entry, shell)
    else:
        items = _items(loop, shell)
        if command.select or items is None or len(items) > _MAX_ITEMS:
            is_number = not command.select and _are_numbers(items)
            entry = _enter(command, shell)
            _read_body(command, entry, shell, {loop.name.value: NUMBER if is_number else UNKNOWN})
        else:
            for word in items:
                shell.state.assign(loop.name.value, VariableValue(word))
                shell.statements.read_list(command.do)
    shell.unsettle(place, itself=True)


def _items(loop: WordLoop, shell: Interpreter) -> tuple[Word, ...] | None:
    if loop.in_pos is None:
        return shell.state.positional
    words = shell.words.expand(loop.items)
    return None if any(not word.known for word in words) else tuple(words)


def _are_numbers(items: tuple[Word, ...] | None) -> bool:
    return items is not None and all(word.known and word.text.isdecimal() for word in items)


def _read_body(
    command: For | While,
    entry: ShellState,
    shell: Interpreter,
    assigned: Mapping[str, VariableValue] = _NOTHING,
) -> None:
    """Read the body once for all turns, with the variables that the loop has *assigned*."""
    with shell.subshell():
        inside = shell.state
        for name, value in assigned.items():
            inside.assign(name, value)
        shell.statements.read_list(command.do)
    changed = any(inside.variables.get(name) != value for name, value in entry.variables.items())
    if (
        changed
        or inside.folder != entry.folder
        or inside.functions.keys() != entry.functions.keys()
    ):
        shell.refuse("a loop in which later turns may mean something else", command)
    shell.state.merge(inside)


def _enter(command: Node, shell: Interpreter) -> ShellState:
    """Forget what an earlier turn of the loop may have changed; return what is known still."""
    source, state = shell.source(command), shell.state
    plain = _ARITHMETIC.sub("", source)
    for name, value in state.variables.items():
        mentioned = re.compile(rf"(?<![\w${{]){name}\b")
        if state.functions or mentioned.search(plain):
            state.variables[name] = UNKNOWN
        elif mentioned.search(source):
            number = value.number or (value.word.known and is_number(value.word.text))
            state.variables[name] = NUMBER if number else UNKNOWN
    if state.functions or _MOVES.search(source):
        state.folder, state.failed, state.assumed = None, None, ()
    return state.copy()
