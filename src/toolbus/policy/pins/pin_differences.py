"""Differences between pinned tools and the present ones, for a person who decides.

A new tool whose name looks like a pinned one is told as such: `skeleton`.
"""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import combining, normalize

from msgspec import UNSET, Struct

from toolbus.policy.pins.pinned_items import PinnedServer, ToolPins, reveal
from toolbus.settings.differences import Difference, differences
from toolbus.settings.look_alikes import LATIN_LETTERS
from toolbus.settings.visible_text import is_visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.policy.pins.pinned_items import PinnedItem

MOST_ROWS = 40
"""Rows of a difference that are shown in a question; the rest is counted."""

_SHOWN, _BEFORE = 300, 40
"""Characters of a row that are shown, and of them those that are before the first difference."""

_LONGEST = 1_000
"""Characters of a name that are compared."""

_LONGEST_NAME = 128
"""Characters of a tool's name; MCP 2025-11-25, server/tools, "Tool Names"."""

_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))

PinKind = Literal["tool", "prompt", "instructions"]


class PinChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of one pinned thing of *server*, "" for the program's own; *note* says more."""

    server: str
    kind: PinKind
    name: str
    change: Literal["changed", "new", "gone"]
    note: str = ""
    differences: tuple[Difference, ...] = ()


class PinnedNames:
    """The names of the tools in *pins*, by how they look."""

    def __init__(self, pins: ToolPins) -> None:
        self._alike: dict[str, list[tuple[str, str]]] = {}
        for server, pinned in pins.sources.items():
            for name in pinned.tools:
                self._alike.setdefault(skeleton(name), []).append((server, name))

    def taken(self, name: str, source: str | None) -> str:
        """Return for which pinned tool the new tool *name* of *source* may be taken, or ""."""
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
    """Return what is equal for two names if a reader takes them for each other.

    Case, accents, invisible characters, and which of the signs between words is used do not count.
    """
    letters = normalize("NFKD", name[:_LONGEST])
    shown = "".join([char for char in letters if is_visible(char) and not combining(char)])
    text = shown.casefold().translate(LATIN_LETTERS)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text


def brief_name(name: str) -> str:
    """Return *name* with every character visible, and cut if it is longer than any name."""
    return reveal(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


def describe_source(source: str) -> str:
    """Return how a person calls the server *source*; "" is the program itself."""
    return f"server {brief_name(source)!r}" if source else "this program"


def compare_pins(before: ToolPins, after: ToolPins) -> list[PinChange]:
    """Return what differs, sorted by server, kind and name; nothing if all is as it was pinned."""
    names = PinnedNames(before)
    changes: list[PinChange] = []
    for name in sorted({*before.sources, *after.sources}):
        old, new = before.sources.get(name), after.sources.get(name)
        changes += _server_changes(name, old or PinnedServer(), new or PinnedServer(), names)
        if (old is None or new is None) and PinnedServer() in (old, new):
            # A server that says nothing of itself is one all the same.
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
    server: str, old: PinnedServer, new: PinnedServer, names: PinnedNames
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
            elif before is None or before.digest != after.digest:
                is_new = before is None
                yield PinChange(
                    server=server,
                    kind=kind,
                    name=name,
                    change="new" if is_new else "changed",
                    note=names.taken(name, server) if is_new and kind == "tool" else "",
                    differences=item_differences(before, after),
                )


def _by_name(item: PinnedItem | None) -> Mapping[str, PinnedItem]:
    return {} if item is None else {"": item}


def item_differences(before: PinnedItem | None, after: PinnedItem) -> tuple[Difference, ...]:
    """Return where *after* differs from *before*; all that it says if nothing was there."""
    if before is not None:
        return tuple(differences(before.fields, after.fields))
    return tuple([each for each in differences({}, after.fields) if each.after])


def difference_rows(places: tuple[Difference, ...], limit: int = MOST_ROWS) -> list[str]:
    """Return *places* in rows of text, every character visible, at most *limit* of them.

    Of long rows they have what is around the first difference.
    """
    rows = chain.from_iterable([whole_rows(place, is_brief=True) for place in places])
    shown = list(islice(rows, limit))
    remaining = sum(1 for _ in rows)
    return [*shown, f"… {remaining:,} more rows"] if remaining else shown


def whole_rows(place: Difference, *, is_brief: bool = False) -> Iterator[str]:
    """Yield *place* in rows, a line of a text each, without equal lines in front and behind."""
    yield f"{_excerpt(place.path, 0) if is_brief else reveal(place.path)}:"
    values = place.before, place.after
    # "1" and 1 are told apart as JSON.
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
    """Return the lines of a text, or a value as JSON on one; nothing if there is none."""
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
