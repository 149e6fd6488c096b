"""The list of a configuration's components, without their settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

import toolbus
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.config.entries import Entry


class ComponentSummary(Struct, frozen=True, kw_only=True):
    """One `[[component]]` of a configuration, without its settings, which may be secret.

    *priority* is None if none is given; *where* is "file:line".
    """

    name: str
    use: str
    enabled: bool
    tools: tuple[str, ...]
    priority: int | None
    where: str


def summarize(entries: Iterable[Entry]) -> tuple[ComponentSummary, ...]:
    """Return the *entries* of a configuration without their settings."""
    names = ComponentSummary.__struct_fields__
    return tuple(
        [ComponentSummary(**{name: getattr(entry, name) for name in names}) for entry in entries]
    )


def show_components(components: Sequence[ComponentSummary], screen: Screen) -> None:
    """Print *components*, numbered, with their restrictions and places."""
    screen.line()
    screen.line(Span("components", "strong"), right=[Span("as installed", "dim")])
    rows: list[tuple[Span | str, ...]] = []
    for number, component in enumerate(components, 1):
        facts = [] if component.name == component.use else [component.use]
        facts += [] if component.tools == ("*",) else [f"only {', '.join(component.tools)}"]
        facts += [] if component.priority is None else [f"priority {component.priority}"]
        place = f"{number:>4}" if component.enabled else " off"
        rows.append((place, component.name, " · ".join(facts)))
    notes = [short_place(component.where) for component in components]
    screen.table(rows, indent=1, notes=notes)


def short_place(where: str) -> str:
    """Return "file:line" relative to this folder or to our package, if it is inside either."""
    for root in (Path.cwd(), Path(toolbus.__file__).parents[1]):
        if where.startswith(f"{root}{os.sep}"):
            return where.removeprefix(f"{root}{os.sep}")
    return where
