"""Commands with a label, "only reads" or not, and whether a policy for reading would allow them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.shell.command_reader import read_command

if TYPE_CHECKING:
    from collections.abc import Iterable

DISAGREEMENTS = Path(__file__).with_name("disagreements.toml")
_READING = frozenset({"read", "network"})


class LabelledCommand(NamedTuple):
    """A command of a table of others: JSON lines with these three keys."""

    program: str
    command: str
    read_only: bool


class Share(NamedTuple):
    """Of one program: rows that only read, how many are allowed; the same of those that do more."""

    reading: int
    reading_allowed: int
    others: int
    others_allowed: int


def load(file: Path) -> list[LabelledCommand]:
    """Return the rows of *file*."""
    with file.open(encoding="utf-8") as lines:
        return [LabelledCommand(**json.loads(line)) for line in lines]


def is_allowed(command: str) -> bool:
    """Tell whether "allow what only reads, ask about the rest" allows *command*.

    Asking a server is reading, as it is to who made the labels.
    """
    reading = read_command(command)
    if reading.unreadable:
        return False
    judged = [effects_of(each) for each in reading.commands]
    return all(each.effects <= _READING and not each.unknown for each in judged)


def digest(command: str) -> str:
    """Return what names *command* in the list of disagreements."""
    return hashlib.sha256(command.encode()).hexdigest()[:16]


def disagreements() -> dict[str, str]:
    """Return why we think that a command only reads, by its digest."""
    entries = tomllib.loads(DISAGREEMENTS.read_text("utf-8"))["disagreement"]
    return {entry["digest"]: f"{entry['why']} ({entry['source']})" for entry in entries}


def wrongly_allowed(rows: Iterable[LabelledCommand]) -> list[LabelledCommand]:
    """Return those that are allowed though they do more, without the listed disagreements."""
    listed = disagreements()
    return [
        row
        for row in rows
        if not row.read_only and digest(row.command) not in listed and is_allowed(row.command)
    ]


def shares(rows: Iterable[LabelledCommand]) -> dict[str, Share]:
    """Return the share of each program, the largest first."""
    counts: dict[str, list[int]] = {}
    for row in rows:
        count = counts.setdefault(row.program, [0, 0, 0, 0])
        place = 0 if row.read_only else 2
        count[place] += 1
        count[place + 1] += is_allowed(row.command)
    largest = sorted(counts.items(), key=lambda item: (-item[1][0] - item[1][2], item[0]))
    return {program: Share(*count) for program, count in largest}
