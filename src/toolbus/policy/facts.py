"""The facts of a call before it runs: its parts, their effects, files and hosts."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.events.catalogue import Scope, ToolSpec
from toolbus.messages.records import ToolCall
from toolbus.policy.commands import Command, PathUse, Unreadable, Word
from toolbus.policy.paths.resolver import CallPlace, PathResolver

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallPart(Struct, frozen=True, kw_only=True, dict=True):
    """One thing that a call does: a command of its line, a part of it that nobody can read, or it.

    *command* is None unless it is a command; *action* and *options* are `CommandEffects`'. What is
    *unknown* says why. *claimed* are effects that only tighten: those that a tool which nobody
    trusts says of itself.
    """

    source: str
    command: Command | None = None
    action: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    paths: tuple[PathUse, ...] = ()
    hosts: tuple[Word, ...] = ()
    branches: tuple[Word, ...] = ()
    unknown: tuple[Unreadable, ...] = ()
    folder: str | None = "."
    """Where it works, as `CommandEffects.folder`."""
    globs: tuple[Word, ...] = ()
    """Patterns that may become options, as `CommandEffects.globs`."""
    settled: bool = True
    """Whether its paths lead where they lead now."""
    is_tool: bool = False
    """Whether it is a call of a tool that is no shell."""

    @cached_property
    def programs(self) -> frozenset[str]:
        """The names by which a rule may call its program: as written, and its plain one."""
        if self.command is None:
            return frozenset()
        written = posixpath.basename(self.command.program.text)
        return frozenset({written, *self.action[:1]})


class CallFacts(Struct, frozen=True, kw_only=True, dict=True):
    """What rules judge: a *call* of a *tool* (None: nobody knows it) by *scope*, in parts.

    *folder* is where it begins, an absolute path, or None; *line* is that of a shell, else "".
    """

    call: ToolCall
    scope: Scope
    parts: tuple[CallPart, ...]
    tool: ToolSpec | None = None
    folder: str | None = None
    line: str = ""

    @cached_property
    def effects(self) -> frozenset[str]:
        """All that its parts do, as far as that is known."""
        return frozenset().union(*[part.effects | part.claimed for part in self.parts])

    @cached_property
    def resolver(self) -> PathResolver:
        """Where its paths lead, as long as this is judged."""
        return PathResolver(CallPlace(self.folder))

    @property
    def unknown(self) -> Sequence[Unreadable]:
        """What nobody can know of it without running it."""
        return [each for part in self.parts for each in part.unknown]
