"""Loops: a body that is read once for each item that is known, or once for all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.shell.arithmetic import check_arithmetic, is_number
from toolbus.policy.shell.shell_state import NUMBER, UNKNOWN, VariableValue
from toolbus.policy.shell.tree import CounterLoop
from toolbus.policy.shell.words import WordExpander

if TYPE_CHECKING:
    from toolbus.policy.commands import Word
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.tree import For, Node, While
    from toolbus.policy.shell.walk import ShellScope, TextWalk

# Beyond, what the variable holds is not known, which is true of any of them.
_MAX_ITEMS = 12
_ARITHMETIC = re.compile(r"(?:\b\w+=\$)?\(\(.*?\)\)")
_MOVES = re.compile(r"\b(?:cd|pushd|popd|eval)\b")


def read_while(command: While, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    """Read a ``while`` or an ``until``."""
    place = len(walk.commands)
    entry = _enter(command, walk, state)
    walk.read_list(command.cond, walk, state, scope)
    inside = state.copy()
    walk.read_list(command.do, walk, inside, scope)
    _leave(command, walk, entry, inside)
    state.merge(inside)
    walk.unsettle(place, itself=True)


def read_for(command: For, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    """Read a ``for`` or a ``select``."""
    place = len(walk.commands)
    loop = command.loop
    if isinstance(loop, CounterLoop):
        expander = WordExpander(walk, state, scope)
        check_arithmetic(loop.init, expander)
        entry = _enter(command, walk, state)
        check_arithmetic(loop.cond, expander)
        check_arithmetic(loop.post, expander)
        inside = state.copy()
        walk.read_list(command.do, walk, inside, scope)
        _leave(command, walk, entry, inside)
        state.merge(inside)
    else:
        items = _items(command, walk, state, scope)
        if command.select or items is None:
            _read_once(command, loop.name.value, UNKNOWN, walk, state, scope)
        elif len(items) > _MAX_ITEMS:
            number = all(word.known and word.text.isdecimal() for word in items)
            _read_once(command, loop.name.value, NUMBER if number else UNKNOWN, walk, state, scope)
        else:
            for word in items:
                state.assign(loop.name.value, VariableValue(word))
                walk.read_list(command.do, walk, state, scope)
    walk.unsettle(place, itself=True)


def _items(
    command: For, walk: TextWalk, state: ShellState, scope: ShellScope
) -> tuple[Word, ...] | None:
    loop = command.loop
    assert not isinstance(loop, CounterLoop)  # noqa: S101 - for mypy
    if loop.in_pos is None:
        return state.positional
    words = WordExpander(walk, state, scope).words(loop.items)
    return None if any(not word.known for word in words) else tuple(words)


def _read_once(
    command: For,
    name: str,
    value: VariableValue,
    walk: TextWalk,
    state: ShellState,
    scope: ShellScope,
) -> None:
    entry = _enter(command, walk, state)
    inside = state.copy()
    inside.assign(name, value)
    walk.read_list(command.do, walk, inside, scope)
    _leave(command, walk, entry, inside)
    state.merge(inside)


def _enter(command: Node, walk: TextWalk, state: ShellState) -> ShellState:
    """Forget what an earlier turn of the loop may have changed; return what is known still."""
    source = walk.source(command)
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


def _leave(command: Node, walk: TextWalk, entry: ShellState, inside: ShellState) -> None:
    changed = any(inside.variables.get(name) != value for name, value in entry.variables.items())
    if (
        changed
        or inside.folder != entry.folder
        or inside.functions.keys() != entry.functions.keys()
    ):
        walk.refuse(command, "a loop in which later turns may mean something else")
