"""Where ``cd``, ``pushd`` and ``popd`` lead, by their words alone."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.policy.commands import Word
    from toolbus.policy.shell.shell_state import ShellState


def change_folder(words: tuple[Word, ...], state: ShellState) -> ShellState:
    """Follow ``cd``: *state* is the one in the folder, the returned one that of who stayed."""
    failure = state.copy()
    physical = False
    while words and words[0].known and re.fullmatch(r"-[LPe@]+|--", words[0].text):
        physical = physical or "P" in words[0].text
        words = words[1:]
    previous = state.folder
    if len(words) > 1:
        target = None
    elif not words:
        target = _home(state)
    elif words[0] == type(words[0])("-"):
        target = state.previous
    else:
        target = join_folder(words[0], state, physical=physical)
    _enter(target, state, words[0].text if words else "~")
    state.previous = previous
    failure.failed = failure.failed or target or "?"
    return failure


def push_folder(words: tuple[Word, ...], state: ShellState) -> ShellState:
    """Follow ``pushd``."""
    failure = state.copy()
    if len(words) == 1 and not re.match(r"[-+]", words[0].text):
        previous = state.folder
        _enter(join_folder(words[0], state), state, words[0].text)
        state.stack = (previous, *state.stack)
        state.previous = previous
    else:
        _enter(None, state)
        state.stack = ()
    failure.failed = failure.failed or state.folder or "?"
    return failure


def pop_folder(words: tuple[Word, ...], state: ShellState) -> ShellState:
    """Follow ``popd``."""
    failure = state.copy()
    previous = state.folder
    if words or not state.stack:
        _enter(None, state)
        state.stack = ()
    else:
        _enter(state.stack[0], state)
        state.stack = state.stack[1:]
    state.previous = previous
    failure.failed = failure.failed or state.folder or "?"
    return failure


def join_folder(word: Word, state: ShellState, *, physical: bool = False) -> str | None:
    """Return the folder that *word* leads to from that of *state*, or None if nobody can know.

    As bash does it, ``x/..`` is where it began, even if x is a link.
    """
    if not word.known or "CDPATH" in state.variables or not word.text:
        return None
    target = word.text
    if word.pattern:
        if not target.startswith("~") or re.search(r"[*?\[\\]", target):
            return None
        return None if ".." in target else posixpath.normpath(target)
    if physical and ".." in target:
        return None
    if target.startswith("~"):
        target = "./" + target
    if target.startswith("/"):
        return posixpath.normpath(target).replace("//", "/")
    if state.folder is None or (".." in target and state.folder.startswith("~")):
        return None
    joined = posixpath.normpath(posixpath.join(state.folder, target))
    is_home = state.folder.startswith("~")
    return "./" + joined if joined.startswith("~") and not is_home else joined


def _home(state: ShellState) -> str | None:
    home = state.value("HOME")
    return home.word.text if home and home.word.known else None


def _enter(target: str | None, state: ShellState, word: str = "") -> None:
    # Whoever could not enter one folder, and has entered another, stayed in neither.
    state.folder, state.failed = target, None
    if not target or word.startswith(("/", "~")):
        state.assumed = ()
