"""Commands of `toolbus` itself that no judged tool may run: they speak for a person."""

from __future__ import annotations

import posixpath
import re
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse
from toolbus.policy.paths.protected import PACKAGE
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.paths.touching import Touch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import Command, Word
    from toolbus.policy.paths.resolving import PathResolver

FOR_PEOPLE = frozenset(
    {"answer", "approvals", "approve", "copy", "forget", "hosts", "install", "login", "logout"}
    | {"pin", "setup", "trust", "uninstall", "untrust"}
)
"""Subcommands that answer, trust, install, pin, log in, or change what a session keeps."""

_POLICY_FOR_PEOPLE = frozenset({"init"})
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
"""They type into other terminals, or start what they are told elsewhere."""
_TYPED = re.compile(
    rf"\btoolbus[\s'\"]+(?:-\S+[\s'\"]+)*({'|'.join(sorted(FOR_PEOPLE))}|policy\s+init)\b"
)
_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
_NO = Touch("no")
_OPERANDS = 2
"""Words without a dash in which a subcommand may stand: the first ones may belong to options."""


def is_for_people(command: Command, resolver: PathResolver) -> Touch:
    """Return whether *command* runs one of them: "yes" is never allowed, "maybe" is asked about."""
    if typed := _typed(command):
        return Touch("yes", f"toolbus {typed}")
    words = _words_of_toolbus(command, resolver)
    if words is None:
        return _NO
    operands = [word for word in words if not (word.known and word.text.startswith("-"))]
    for index, word in enumerate(operands[:_OPERANDS]):
        touch = _judge_operand(word, operands[index + 1 : index + 2])
        if touch.answer != "no":
            return touch
    gets_words = any(name in each for each in command.inside for name in ("xargs", "parallel"))
    if gets_words and not operands:
        return Touch("maybe", "", "", "which command of toolbus it runs is not known")
    return _NO


def _typed(command: Command) -> str:
    """Return the command of `toolbus` that *command* types into another terminal, "" for none."""
    if not command.program.known or posixpath.basename(command.program.text) not in _TYPES:
        return ""
    match = _TYPED.search(" ".join([word.text for word in command.words]))
    return "" if match is None else match[1]


def _judge_operand(word: Word, following: Sequence[Word]) -> Touch:
    """Return whether *word*, with the one *following* it, is a subcommand for people."""
    if not word.known or word.pattern:
        reason = f"which command of toolbus {word.text!r} is, is not known"
        return Touch("maybe", "", "", reason)
    if word.text in FOR_PEOPLE:
        return Touch("yes", f"toolbus {word.text}")
    if word.text == "policy" and (not following or _may_be_init(following[0])):
        return Touch("yes" if following else "maybe", "toolbus policy init")
    return _NO


def _may_be_init(word: Word) -> bool:
    return not word.known or word.pattern or word.text in _POLICY_FOR_PEOPLE


def _words_of_toolbus(command: Command, resolver: PathResolver) -> Sequence[Word] | None:
    """Return what `toolbus` is given, None if *command* does not run it."""
    words, program = command.words, command.program
    if not program.known:
        return None
    if _is_ours(program, command, resolver):
        return words
    name = posixpath.basename(program.text)
    if _PYTHON.fullmatch(name) or _is_interpreter(program, command, resolver):
        return _words_of_module(command, resolver)
    if name in _STARTS_OTHERS:
        for index, word in enumerate(words):
            if word.known and _is_ours(word, command, resolver):
                return words[index + 1 :]
        return _words_of_module(command, resolver)
    return None


def _words_of_module(command: Command, resolver: PathResolver) -> Sequence[Word] | None:
    """Return what follows ``-m toolbus``, or a file of this package that is run."""
    words = command.words
    script = True
    for index, word in enumerate(words):
        if not word.known:
            continue
        module = _MODULE.fullmatch(word.text)
        if module is not None:
            behind = 1 if module[1] else 2
            name = module[1] or "".join([each.text for each in words[index + 1 : index + 2]])
            if name.split(".")[0] == "toolbus":
                return words[index + behind :]
        elif not word.text.startswith("-"):
            if _is_ours(word, command, resolver, by_name=script):
                return words[index + 1 :]
            # The first one is what Python runs, unless it is an option's.
            script = script and index > 0 and words[index - 1].text in _WITH_VALUE
    return None


def _is_ours(word: Word, command: Command, resolver: PathResolver, *, by_name: bool = True) -> bool:
    """Return whether *word* is the program `toolbus`, by any name, or a file of this package."""
    if by_name and posixpath.basename(word.text) == "toolbus":
        return True
    if "/" not in word.text:
        return False
    path, package = _leads_to(word, command, resolver), _real(str(PACKAGE))
    script = _real(posixpath.join(sysconfig.get_path("scripts"), "toolbus"))
    return path in {script, package} or path.startswith(f"{package}/")


def _is_interpreter(program: Word, command: Command, resolver: PathResolver) -> bool:
    # Without a slash it is looked for elsewhere than in a folder of the project.
    if "/" not in program.text:
        return False
    return _leads_to(program, command, resolver) == _real(sys.executable)


def _leads_to(word: Word, command: Command, resolver: PathResolver) -> str:
    paths = find_targets(PathUse(word, "read", command.folder), resolver).paths
    return paths[0].path if paths else ""


def _real(path: str) -> str:
    return str(Path(path).resolve())
