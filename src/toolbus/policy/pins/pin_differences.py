"""Differences between pinned tools and the present ones, for a person who decides."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct

from toolbus.policy.pins.look_alikes import PinnedNames, reveal
from toolbus.policy.pins.pinned_items import PinnedServer, ToolPins
from toolbus.terminal.differences import Difference, differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.policy.pins.pinned_items import PinnedItem

MOST_ROWS = 40
"""Rows of a difference that are shown in a question; the rest is counted."""

_SHOWN, _BEFORE = 300, 40
"""Characters of a value that are shown, and of them those that are before the first difference."""

PinKind = Literal["tool", "prompt", "instructions"]


class PinChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one pinned thing of *server*, "" for the program's own; *note* says more."""

    server: str
    kind: PinKind
    name: str
    change: Literal["changed", "new", "gone"]
    note: str = ""
    differences: tuple[Difference, ...] = ()


def compare_pins(before: ToolPins, after: ToolPins) -> list[PinChange]:
    """Return what differs, sorted by server, kind and name; nothing if all is as it was pinned."""
    names = PinnedNames(before)
    changes = list(_server_changes("", before.program, after.program, names))
    for name in sorted({*before.servers, *after.servers}):
        old, new = before.servers.get(name), after.servers.get(name)
        changes += _server_changes(name, old or PinnedServer(), new or PinnedServer(), names)
        if (old is None or new is None) and PinnedServer() in (old, new):
            # A server that says nothing of itself is one all the same.
            changes.append(_change(name, "instructions", "", old, new, note="empty"))
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
            if before is None and after is not None:
                note = names.taken(name, server) if kind == "tool" else ""
                places = whole_item(after)
                yield _change(server, kind, name, before, after, note=note, differences=places)
            elif before is None or after is None:
                yield _change(server, kind, name, before, after)
            elif before.digest != after.digest:
                places = tuple(differences(before.fields, after.fields))
                yield _change(server, kind, name, before, after, differences=places)


def _by_name(item: PinnedItem | None) -> Mapping[str, PinnedItem]:
    return {} if item is None else {"": item}


def _change(
    server: str, kind: PinKind, name: str, before: object, after: object, **details: Any
) -> PinChange:
    change: Literal["changed", "new", "gone"] = "changed"
    if before is None or after is None:
        change = "new" if before is None else "gone"
    return PinChange(server=server, kind=kind, name=name, change=change, **details)


def whole_item(item: PinnedItem) -> tuple[Difference, ...]:
    """Return all that *item* says, as if nothing had been there."""
    return tuple([each for each in differences({}, item.fields) if each.after])


def difference_rows(places: tuple[Difference, ...], limit: int = MOST_ROWS) -> list[str]:
    """Return *places* in rows of text, every character visible, at most *limit* of them.

    Of long values it has what is around the first difference.
    """
    rows = chain.from_iterable(map(_brief_rows, places))
    shown = list(islice(rows, limit))
    remaining = sum(1 for _ in rows)
    return [*shown, f"… {remaining:,} more rows"] if remaining else shown


def whole_rows(place: Difference) -> Iterator[str]:
    """Yield *place* in rows, a line of a text each, without equal lines in front and behind."""
    yield f"{reveal(place.path)}:"
    old, new = _lines(place.before), _lines(place.after)
    start = _first_difference(old, new)
    end = _first_difference(old[start:][::-1], new[start:][::-1])
    for sign, lines in (("-", old), ("+", new)):
        yield from [f"{sign} {reveal(line)}" for line in lines[start : len(lines) - end]]


def _lines(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.split("\n")
    text = _text(value)
    return [] if text is None else [text]


def _brief_rows(place: Difference) -> Iterator[str]:
    yield f"{_excerpt(place.path, 0)}:"
    old, new = _text(place.before), _text(place.after)
    start = 0
    if old is not None and new is not None:
        start = _first_difference(old, new)
    for sign, text in (("-", old), ("+", new)):
        if text is not None:
            yield f"{sign} {_excerpt(text, start)}"


def _text(value: Any) -> str | None:
    """Return *value* as JSON on one line, None if there is none."""
    return None if value is UNSET else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _first_difference(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))


def _excerpt(text: str, start: int) -> str:
    begin = max(0, start - _BEFORE) if len(text) > _SHOWN else 0
    cut = text[begin : begin + _SHOWN]
    head, tail = "…" if begin else "", "…" if begin + len(cut) < len(text) else ""
    return f"{head}{reveal(cut)}{tail}"
