"""Components that a file names: `toolbus.toml`, or `[tool.toolbus]` of `pyproject.toml`.

[[component]]
use = "redact-secrets"          # what a package offers in the group `toolbus.components`
settings = { keep = 4 }         # for its constructor

[[component]]
use = "./policy.py:ReadOnly"    # a class in a file, or "package.module:Class"
tools = ["git_*"]               # glob patterns; else all tools
priority = 300                  # higher comes first; 100 if not given
name = "policy"                 # if one thing is used twice
enabled = false                 # then it is not even imported
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.config.documents import NAME, Document, find, read_document
from toolbus.config.entries import TABLES, Entry, read_entries
from toolbus.config.making import make_component
from toolbus.config.offers import find_maker
from toolbus.config.values import MisfitError
from toolbus.errors import LoadError, RegistrationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.components.components import AgentComponent

__all__ = ["Configuration", "Configured", "Entry", "find", "load", "read"]

_PRIORITY = 100


class Configured(NamedTuple):
    """A *component*, and the *entry* of the file that it was made of."""

    entry: Entry
    component: AgentComponent


class Configuration(NamedTuple):
    """What *file* names, in the order in which it is to be installed, and what is *disabled*."""

    file: Path
    configured: tuple[Configured, ...]
    disabled: tuple[Entry, ...]

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The components, for `Agent(components=…)`."""
        return tuple([configured.component for configured in self.configured])


def load(file: Path | str | None = None) -> tuple[AgentComponent, ...]:
    """Return the components that *file*, else the nearest configuration, names, in their order.

    A higher priority comes first, then what stands first in the file; what a component requires
    comes before it. They are new ones each time. Raises as `read` does.
    """
    return read(file).components


def read(file: Path | str | None = None) -> Configuration:
    """Return what *file*, else the nearest configuration, names.

    What code prints while it is imported goes to standard error. Raises `LoadError` if there is no
    configuration, and `ConfigurationError` if it, or something that it names, cannot be used.
    """
    path = find() if file is None else Path(file).expanduser()
    if path is None:
        what = f"no {NAME}, and no [tool.toolbus] in a pyproject.toml, here or in a folder above"
        raise LoadError(f"there is {what}; write one, or name a file")
    document = read_document(path)
    entries = read_entries(document)
    with redirect_stdout(sys.stderr):
        made = [Configured(entry, _made(document, entry)) for entry in entries if entry.enabled]
    disabled = tuple([entry for entry in entries if not entry.enabled])
    return Configuration(path, tuple(_in_order(document, made)), disabled)


def _made(document: Document, entry: Entry) -> AgentComponent:
    """Return the component that *entry* describes."""
    place, folder = (TABLES, entry.index), document.file.parent
    try:
        maker = find_maker(entry.use, folder)
    except LoadError as error:
        raise document.error(str(error), *place, "use") from error
    try:
        component = make_component(maker, entry.settings, folder)
    except MisfitError as error:
        reason = f"component {entry.name!r}: {error.reason}"
        raise document.error(reason, *place, *_below("settings", error.path)) from error
    if (entry.tools, entry.priority) != (("*",), None):
        try:
            component.restrict(tools=entry.tools, priority=entry.priority)
        except RegistrationError as error:
            key = "priority" if entry.tools == ("*",) else "tools"
            raise document.error(str(error), *place, key) from error
    return component


def _below(key: str, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return (key, *path) if path else ()


def _in_order(document: Document, made: Sequence[Configured]) -> list[Configured]:
    """Return *made* by priority, and each after those that it requires."""
    ranked = sorted(made, key=lambda configured: -_rank(configured.entry))
    placed: list[Configured] = []
    visited: set[int] = set()

    def place(configured: Configured) -> None:
        # Components may require each other; then neither can be the first.
        if configured.entry.index in visited:
            return
        visited.add(configured.entry.index)
        for wanted in configured.component.requires:
            others = [other for other in ranked if isinstance(other.component, wanted)]
            if not others:
                reason = f"component {configured.entry.name!r} requires {wanted.__name__}"
                way_out = f"add a [[{TABLES}]] for that"
                raise document.error(f"{reason}; {way_out}", TABLES, configured.entry.index)
            for other in others:
                place(other)
        placed.append(configured)

    for configured in ranked:
        place(configured)
    return placed


def _rank(entry: Entry) -> int:
    return _PRIORITY if entry.priority is None else entry.priority
