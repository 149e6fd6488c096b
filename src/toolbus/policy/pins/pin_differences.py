"""Differences between pinned and current tools, for a person's decision.

The differences note a new tool whose name looks like the name of a pinned tool: `skeleton`.
"""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import combining, normalize

from msgspec import UNSET, Struct

from toolbus.policy.pins.first_sight import FirstSight, SuspiciousText
from toolbus.policy.pins.pinned_items import PinnedServer, ToolPins, reveal
from toolbus.settings.differences import Difference, differences
from toolbus.settings.look_alikes import LATIN_LETTERS
from toolbus.settings.visible_text import is_visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.policy.pins.pinned_items import PinnedItem

MOST_ROWS = 40
"""Rows of a difference shown in a question; the rest is counted."""

_SHOWN, _BEFORE = 300, 40
"""Characters of a row that are shown, and how many of them precede the first difference."""

_LONGEST = 1_000
"""Characters of a name that are compared."""

_LONGEST_NAME = 128
"""Characters of a tool's name; MCP 2025-11-25, server/tools, "Tool Names"."""

_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))

PinKind = Literal["tool", "prompt", "instructions"]


class PinChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a pinned item of *server* ("": the program itself), with a *note*.

    An uncovered item has members for clients of MCP alone, and a pin from before they were pinned.
    *warnings* are the suspicious texts of a new item, or the new texts of a changed item.
    """

    server: str
    kind: PinKind
    name: str
    change: Literal["changed", "new", "gone", "uncovered"]
    note: str = ""
    differences: tuple[Difference, ...] = ()
    warnings: tuple[SuspiciousText, ...] = ()


class PinnedNames:
    """The names of the tools in *pins*, by their appearance."""

    def __init__(self, pins: ToolPins) -> None:
        self._alike: dict[str, list[tuple[str, str]]] = {}
        for server, pinned in pins.sources.items():
            for name in pinned.tools:
                self._alike.setdefault(skeleton(name), []).append((server, name))

    def taken(self, name: str, source: str | None) -> str:
        """Return which pinned tool the new tool *name* of *source* may be confused with, or ""."""
        alike = self._alike.get(skeleton(name), ())
        for server, other in alike:
            if other == name and server != source:
                return f"{brief_name(name)!r} is pinned as a tool of {describe_source(server)}"
        for server, other in alike:
            if other != name:
                of = f" of {describe_source(server)}" if server != source else ""
                return f"its name looks like that of the pinned tool {brief_name(other)!r}{of}"
        return ""


def skeleton(name: str) -> str:
    """Return a key for the look of *name*.

    Case, accents, invisible characters and the kind of word separator do not count.
    """
    letters = normalize("NFKD", name[:_LONGEST])
    shown = "".join([char for char in letters if is_visible(char) and not combining(char)])
    text = shown.casefold().translate(LATIN_LETTERS)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text


def brief_name(name: str) -> str:
    """Return *name* with every character visible, truncated to the length of a valid name."""
    return reveal(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


def describe_source(source: str) -> str:
    """Return a person's name for the server *source*; "" is the program itself."""
    return f"server {brief_name(source)!r}" if source else "this program"


def compare_pins(before: ToolPins, after: ToolPins) -> list[PinChange]:
    """Return the changes, sorted by server, kind and name."""
    names, sight = PinnedNames(before), FirstSight(before, after)
    changes: list[PinChange] = []
    for name in sorted({*before.sources, *after.sources}):
        old, new = before.sources.get(name), after.sources.get(name)
        changes += _server_changes(name, old or PinnedServer(), new or PinnedServer(), names, sight)
        if (old is None or new is None) and PinnedServer() in (old, new):
            # A server without any description still counts.
            changes.append(
                PinChange(
                    server=name,
                    kind="instructions",
                    name="",
                    change="new" if old is None else "gone",
                    note="empty",
                )
            )
    return changes


def _server_changes(
    server: str, old: PinnedServer, new: PinnedServer, names: PinnedNames, sight: FirstSight
) -> Iterator[PinChange]:
    kinds: tuple[tuple[PinKind, Mapping[str, PinnedItem], Mapping[str, PinnedItem]], ...] = (
        ("instructions", _by_name(old.instructions), _by_name(new.instructions)),
        ("prompt", old.prompts, new.prompts),
        ("tool", old.tools, new.tools),
    )
    for kind, former, latter in kinds:
        for name in sorted({*former, *latter}):
            before, after = former.get(name), latter.get(name)
            if after is None:
                yield PinChange(server=server, kind=kind, name=name, change="gone")
            elif (state := _state(before, after)) is not None:
                yield PinChange(
                    server=server,
                    kind=kind,
                    name=name,
                    change=state,
                    note=names.taken(name, server) if state == "new" and kind == "tool" else "",
                    differences=item_differences(before, after),
                    warnings=sight.suspicious_texts(name, after, server, before),
                )


def _state(
    before: PinnedItem | None, after: PinnedItem
) -> Literal["new", "changed", "uncovered"] | None:
    """Return how *after* differs from *before*, or None; a missing member is a change here."""
    if before is None:
        return "new"
    if before.digest == after.digest:
        return None
    if (before.members is None) is (after.members is None) or not before.allows(after):
        return "changed"
    return "uncovered" if after.members else None


def _by_name(item: PinnedItem | None) -> Mapping[str, PinnedItem]:
    return {} if item is None else {"": item}


def item_differences(before: PinnedItem | None, after: PinnedItem) -> tuple[Difference, ...]:
    """Return the differences of *after* from *before*; all of *after* for a new item."""
    if before is not None:
        return tuple(differences(before.whole, after.whole))
    return tuple([each for each in differences({}, after.whole) if each.after])


def difference_rows(places: tuple[Difference, ...], limit: int = MOST_ROWS) -> list[str]:
    """Return *places* as at most *limit* rows of text, with every character visible.

    Long rows are cut to the surroundings of the first difference.
    """
    rows = chain.from_iterable([whole_rows(place, is_brief=True) for place in places])
    shown = list(islice(rows, limit))
    remaining = sum(1 for _ in rows)
    return [*shown, f"… {remaining:,} more rows"] if remaining else shown


def whole_rows(place: Difference, *, is_brief: bool = False) -> Iterator[str]:
    """Yield *place* as rows, one per line of text, without equal lines at either end."""
    yield f"{_excerpt(place.path, 0) if is_brief else reveal(place.path)}:"
    values = place.before, place.after
    # As JSON, "1" and 1 differ visibly.
    as_text = all(value is UNSET or isinstance(value, str) for value in values)
    old, new = [_lines(value, as_text=as_text) for value in values]
    start = _first_difference(old, new)
    end = _first_difference(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    first = _first_difference(old[0], new[0]) if old and new else 0
    for sign, lines in (("-", old), ("+", new)):
        for line in lines:
            yield f"{sign} {_excerpt(line, first) if is_brief else reveal(line)}"


def _lines(value: Any, *, as_text: bool) -> list[str]:
    """Return the lines of a text, or a value as one line of JSON; empty for an absent value."""
    if value is UNSET:
        return []
    if as_text:
        lines: list[str] = value.split("\n")
        return lines
    return [json.dumps(value, ensure_ascii=False, sort_keys=True)]


def _first_difference(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))


def _excerpt(text: str, start: int) -> str:
    begin = max(0, min(start, len(text)) - _BEFORE) if len(text) > _SHOWN else 0
    cut = text[begin : begin + _SHOWN]
    head, tail = "…" if begin else "", "…" if begin + len(cut) < len(text) else ""
    return f"{head}{reveal(cut)}{tail}"
