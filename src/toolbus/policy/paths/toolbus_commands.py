"""Commands of `toolbus` that no judged tool may run because they act for a person."""

from __future__ import annotations

import os
import posixpath
import re
import sys
import sysconfig
from functools import cache
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse
from toolbus.policy.paths.file_access import NO_ACCESS, FileAccess, doubtful
from toolbus.policy.paths.path_patterns import is_in
from toolbus.policy.paths.protected_files import PACKAGE
from toolbus.policy.paths.targets import find_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import Command, Word
    from toolbus.policy.paths.resolver import PathResolver

PERSON_COMMANDS = frozenset(
    {"anchor", "answer", "approvals", "approve", "copy", "forget", "hosts", "install", "login"}
    | {"logout", "pin", "setup", "trust", "ui", "uninstall", "untrust"}
)
"""Subcommands that answer, sign, trust, install, pin, log in, or change what a session keeps.

So do those of `policy` below.
"""
_OF_POLICY = frozenset({"init", "suggest"})
"""Actions of `policy` for a person; `suggest` would tell a model which habit is not a rule yet."""

_PYTHON = re.compile(r"(?:python|pypy|py)[\d.]*[a-z]*")
_MODULE = re.compile(r"-[A-Za-z]*m(.*)", re.DOTALL)
_STARTS_OTHERS = frozenset(
    {"conda", "coverage", "hatch", "mamba", "micromamba", "pdm", "pipx", "pixi", "poetry", "rye"}
    | {"uv", "uvx", "xargs", "parallel", "nix", "mise", "asdf", "direnv", "script", "expect"}
)
_TYPES = frozenset(
    {"tmux", "screen", "zellij", "dtach", "abduco", "systemd-run", "at", "batch", "osascript"}
    | {"xdotool", "ydotool", "wtype", "xterm", "konsole", "gnome-terminal", "kitty", "alacritty"}
    | {"wezterm", "foot", "docker", "podman", "launchctl", "socat", "unbuffer", "dbus-run-session"}
)
"""Programs that type into other terminals, or start commands elsewhere."""
_TYPED = re.compile(
    rf"\btoolbus[\s'\"]+(?:-\S+[\s'\"]+)*({'|'.join(sorted(PERSON_COMMANDS))}|policy\s+(?:{'|'.join(sorted(_OF_POLICY))}))\b"
)
_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
_OPERANDS = 2
"""Words without a dash that may be the subcommand: the first may be an option's value."""


def runs_person_command(command: Command, resolver: PathResolver) -> FileAccess:
    """Return whether *command* runs one: "yes" is always denied, "maybe" requires approval."""
    if not command.program.known:
        return NO_ACCESS
    if posixpath.basename(command.program.text) in _TYPES and (
        typed := _TYPED.search(" ".join([word.text for word in command.words]))
    ):
        return FileAccess("yes", f"toolbus {typed[1]}")
    words = _words_of_toolbus(command, resolver)
    return NO_ACCESS if words is None else _judge_words(words, command)


def _judge_words(words: Sequence[Word], command: Command) -> FileAccess:
    """Return whether `toolbus` with these *words* acts for a person."""
    operands = [word for word in words if not (word.known and word.text.startswith("-"))]
    for index, word in enumerate(operands[:_OPERANDS]):
        access = _judge_operand(word, operands[index + 1 : index + 2])
        if access.answer != "no":
            return access
    gets_words = any(name in each for each in command.inside for name in ("xargs", "parallel"))
    if gets_words and not operands:
        return doubtful("the toolbus command that it runs is unknown")
    return NO_ACCESS


def _judge_operand(word: Word, following: Sequence[Word]) -> FileAccess:
    """Return whether *word*, with the word *following* it, is a subcommand for people."""
    if not word.known or word.pattern:
        return doubtful(f"{word.text!r} may be any command of toolbus")
    if word.text in PERSON_COMMANDS:
        return FileAccess("yes", f"toolbus {word.text}")
    if word.text != "policy":
        return NO_ACCESS
    if not following:
        return FileAccess("maybe", "toolbus policy init")
    action = following[0]
    if not action.known or action.pattern:
        return FileAccess("yes", "toolbus policy init")
    is_ours = action.text in _OF_POLICY
    return FileAccess("yes", f"toolbus policy {action.text}") if is_ours else NO_ACCESS


def _words_of_toolbus(command: Command, resolver: PathResolver) -> Sequence[Word] | None:
    """Return the arguments of `toolbus`, None if *command* does not run it."""
    program, name = command.program, posixpath.basename(command.program.text).lower()
    if _is_ours(program, command, resolver):
        return command.words
    # Without a slash the program is searched in PATH, not in the project.
    is_linked = "/" in program.text and _leads_to(program, command, resolver) == _real(
        sys.executable
    )
    if name in _STARTS_OTHERS:
        for index, word in enumerate(command.words):
            if word.known and _is_ours(word, command, resolver):
                return command.words[index + 1 :]
    if name in _STARTS_OTHERS or _PYTHON.fullmatch(name) or is_linked:
        return _words_of_module(command, resolver)
    return None


def _words_of_module(command: Command, resolver: PathResolver) -> Sequence[Word] | None:
    """Return the words after ``-m toolbus``, or after a file of this package."""
    # Complex because the meaning of a word depends on the words before it.
    words = command.words
    before, is_script = "", True
    for index, word in enumerate(words):
        module = _MODULE.fullmatch(word.text) if word.known else None
        if module is not None:
            behind = 1 if module[1] else 2
            name = module[1] or "".join([each.text for each in words[index + 1 : index + 2]])
            if name.split(".")[0] == "toolbus":
                return words[index + behind :]
        elif word.known and not word.text.startswith("-"):
            if _is_ours(word, command, resolver, by_name=is_script):
                return words[index + 1 :]
            # Python runs the first operand, unless it is an option's value.
            is_script = is_script and before in _WITH_VALUE
        before = word.text
    return None


def _is_ours(word: Word, command: Command, resolver: PathResolver, *, by_name: bool = True) -> bool:
    """Return whether *word* is the program `toolbus`, by any name, or a file of this package."""
    # On a file system that ignores case, so does the search for a program.
    if by_name and posixpath.basename(word.text).lower() == "toolbus":
        return True
    if "/" not in word.text:
        return False
    path, package = _leads_to(word, command, resolver), _real(str(PACKAGE))
    return is_in(path, package) or path == _real(f"{sysconfig.get_path('scripts')}/toolbus")


def _leads_to(word: Word, command: Command, resolver: PathResolver) -> str:
    paths = find_targets(PathUse(word, "read", command.folder), resolver).paths
    return paths[0].path if paths else ""


@cache
def _real(path: str) -> str:
    """Return the real path of *path*, a path of this installation."""
    return os.path.realpath(path)
