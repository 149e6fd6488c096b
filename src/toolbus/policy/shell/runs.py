"""One program that is run, with all that comes to it, and its entry in the reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.policy.commands import Command, Redirection, Word
from toolbus.policy.shell.shell_state import RUN_BY_SHELL
from toolbus.policy.shell.steady import moves_paths
from toolbus.policy.shell.walk import ShellScope, TextWalk

if TYPE_CHECKING:
    from toolbus.policy.shell.shell_state import ShellState

RUN_BY_SHELL_REASON = "the shell runs what a variable holds that is set"
Settings = tuple[tuple[str, Word], ...]


class Run(Struct, frozen=True):
    """What stands around a program: where, with which files and settings."""

    source: str
    scope: ShellScope
    place: int
    """Where its command belongs in the reading: before those that stand in its words."""
    redirections: tuple[Redirection, ...] = ()
    stdin: str | None = None
    has_stdin: bool = False
    """Whether it has an input of its own, be it known or not."""
    settings: Settings = ()
    functions: bool = True
    """Whether a function may be meant."""
    shell: bool = True
    """Whether a builtin of this shell may be meant."""

    def inner_scope(self) -> ShellScope:
        """Return the scope of what a compound command or a function runs."""
        return replace(
            self.scope,
            redirections=(*self.scope.redirections, *self.redirections),
            stdin=self.stdin if self.has_stdin else self.scope.stdin,
            piped=self.scope.piped and not self.has_stdin,
        )

    def wrapped(self, wrapper: str, place: int) -> Run:
        """Return what stands around a program that *wrapper* runs."""
        return replace(
            self, scope=self.scope.through(wrapper), place=place, functions=False, shell=False
        )


def add_command(run: Run, words: tuple[Word, ...], walk: TextWalk, state: ShellState) -> None:
    """Add the command of *words*, the first of which is the program."""
    scope = run.inner_scope()
    settings = tuple((name, value.word) for name, value in state.variables.items())
    if any(name in RUN_BY_SHELL for name, _ in (*settings, *run.settings)):
        walk.refuse(run.source, RUN_BY_SHELL_REASON)
    command = Command(
        program=words[0],
        words=words[1:],
        settings=(*scope.settings, *settings, *run.settings),
        redirections=scope.redirections,
        stdin=scope.stdin,
        piped=scope.piped,
        folder=state.folder,
        assumed=state.assumed,
        inside=scope.inside,
        source=run.source,
    )
    walk.add(command, run.place, changing=moves_paths(command))


def run_nothing(run: Run, walk: TextWalk, state: ShellState) -> ShellState:
    """Add a piece that runs no program, but sets variables or opens files."""
    add_command(run, (Word(""),), walk, state)
    return state
