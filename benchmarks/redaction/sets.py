"""The sets that recall and alarms are measured with, each in two halves.

Everyday contexts, published formats beside all sorts of neighbours, and look-alikes are templates;
what stands in their gaps is drawn from a seed (`values`). Which half an entry is in tells the hash
of its name (`corpus.is_reported`), before any rule was written: rules are made with the first half,
`NAME.toml`, and the second, `NAME_reported.toml`, is measured when they stand.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.redaction.corpus import is_reported
from benchmarks.redaction.values import Values

HERE = Path(__file__).parent
VALUES, FORMAT_VALUES, LOOKALIKE_VALUES, ID_VALUES = 10, 3, 2, 3
"""Texts of one context, of one format beside one neighbour, of one look-alike, and of one id."""


class Case(NamedTuple):
    """A *text* with a *secret* ("" in a look-alike), made from the entry *name* of a *group*."""

    name: str
    group: str
    text: str
    secret: str


def everyday(*, reported: bool = False, values: int = VALUES) -> list[Case]:
    """Return the everyday contexts of one half, with *values* secrets each."""
    return [
        _filled(one["name"], one["group"], one["text"], one["value"], number)
        for one in _entries("everyday", "contexts", reported=reported)
        for number in range(values)
    ]


def formats(*, reported: bool = False, values: int = FORMAT_VALUES) -> list[Case]:
    """Return known formats beside neighbours, with *values* secrets each.

    In the first half both are of the first half; in the second one of them or both are not.
    """
    shapes = {half: _entries("formats", "formats", reported=half) for half in (False, True)}
    beside = {half: _entries("formats", "neighbours", reported=half) for half in (False, True)}
    return [
        _filled(
            f"{one['name']}, {other['name']}",
            other["name"],
            f"{other['before']}«»{other['behind']}",
            one["shape"],
            number,
        )
        for half in (False, True)
        for one in shapes[half]
        for other_half in (False, True)
        for other in beside[other_half]
        for number in range(values)
        if (half or other_half) == reported
    ]


def lookalikes(*, reported: bool = False, values: int = LOOKALIKE_VALUES) -> list[Case]:
    """Return texts of one half without any secret, *values* of each."""
    return [
        _filled(one["name"], one["group"], one["text"], "", number)
        for one in _entries("lookalike_shapes", "lookalikes", reported=reported)
        for number in range(values)
    ]


def ids_to_hand_back(*, reported: bool = False, values: int = ID_VALUES) -> list[Case]:
    """Return texts of one half with an id or a cursor that the next call needs, and no secret."""
    return [
        _filled(one["name"], one["group"], text, one["value"], number)._replace(secret="")
        for one in tomllib.loads((HERE / "ids_to_hand_back.toml").read_text("utf-8"))["ids"]
        for text in one["texts"]
        for number in range(values)
        if is_reported(one["name"]) == reported
    ]


SETS = {
    "everyday": everyday,
    "formats": formats,
    "lookalikes": lookalikes,
    "ids to hand back": ids_to_hand_back,
}


def gone(secret: str, cleaned: str) -> bool:
    """Tell whether *cleaned* has neither *secret* nor any run of 60 % of its letters."""
    run = -(-len(secret) * 6 // 10)
    return not any(secret[start : start + run] in cleaned for start in range(len(secret) - run + 1))


def _entries(name: str, key: str, *, reported: bool) -> list[dict[str, Any]]:
    file = HERE / f"{name}{'_reported' if reported else ''}.toml"
    found: list[dict[str, Any]] = tomllib.loads(file.read_text("utf-8"))[key]
    return found


def _filled(name: str, group: str, text: str, shape: str, number: int) -> Case:
    values = Values(f"{name}/{number}")
    secret = values.make(shape) if shape else ""
    # Cut, so that a scanner does not take this repository for a leak.
    filled = values.filled(text.replace("¦", ""))
    return Case(name, group, filled.replace("«»", secret), secret)
