"""The facts of a call before it runs: its parts, their effects, files and hosts."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from toolbus.components.call_facts import CallFacts
from toolbus.events.catalogue import Scope, ToolSpec
from toolbus.messages.records import ToolCall
from toolbus.policy.commands import Command, PathUse, Unreadable, Word
from toolbus.policy.part_words import addresses_in
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.tool_arguments import argument_texts

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallPart(Struct, frozen=True, kw_only=True, dict=True):
    """A part of a call: a command of its line, an unreadable piece of it, or the whole tool call.

    *command* is None unless the part is a command; *action* and *options* are as in
    `CommandEffects`. *claimed* effects, declared by an untrusted tool, only tighten the verdict.
    """

    source: str
    command: Command | None = None
    action: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    paths: tuple[PathUse, ...] = ()
    hosts: tuple[Word, ...] = ()
    recipients: tuple[Word, ...] = ()
    """The addresses, channels or accounts in the arguments of a tool that sends messages."""
    branches: tuple[Word, ...] = ()
    reaches: Literal["", "fixed", "public"] = ""
    """The declared destination of a tool: a fixed one, or anyone."""
    unknown: tuple[Unreadable, ...] = ()
    folder: str | None = "."
    """The working folder, as `CommandEffects.folder`."""
    globs: tuple[Word, ...] = ()
    """Patterns that may expand to options, as `CommandEffects.globs`."""
    paths_stable: bool = True
    """Whether its paths still lead to the same files when it runs."""
    is_tool: bool = False
    """Whether it is a call of a tool other than a shell."""

    @cached_property
    def programs(self) -> frozenset[str]:
        """The names of its program in rules: the name as written and the canonical name."""
        if self.command is None:
            return frozenset()
        written = posixpath.basename(self.command.program.text)
        return frozenset({written, *self.action[:1]})

    @cached_property
    def recipient_names(self) -> frozenset[str]:
        """The texts of its recipients."""
        return frozenset([word.text for word in self.recipients])


class CallReading(Struct, frozen=True, kw_only=True, dict=True):
    """The input of rules: a *call* by *scope*, in parts, of a *tool* (None: unknown).

    *folder* is the absolute path of its starting folder, or None; *line* the command line of a
    shell, else "". *switched_off* are the names of a shell's unknown arguments with values such as
    false, which count as absent. *origins* are the facts about the origin of its words, None if
    unknown.
    """

    call: ToolCall
    scope: Scope
    parts: tuple[CallPart, ...]
    tool: ToolSpec | None = None
    folder: str | None = None
    line: str = ""
    switched_off: tuple[str, ...] = ()
    origins: CallFacts | None = None

    @cached_property
    def argument_texts(self) -> dict[str, str]:
        """The texts of its arguments by their paths, with long numbers and inner keys."""
        return argument_texts(self.call.arguments)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses in its words, read once for all parts and rules."""
        return tuple(addresses_in(self))

    @cached_property
    def effects(self) -> frozenset[str]:
        """All known effects of its parts."""
        return frozenset().union(*[part.effects | part.claimed for part in self.parts])

    @cached_property
    def resolver(self) -> PathResolver:
        """The path resolver for this verdict."""
        return PathResolver(CallPlace(self.folder))

    @property
    def unknown(self) -> Sequence[Unreadable]:
        """The pieces of the call that cannot be known without running it."""
        return [each for part in self.parts for each in part.unknown]
