"""The published examples and look-alikes, and the source code that has no secrets."""

from __future__ import annotations

import hashlib
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FORMATS = HERE.parents[1] / "specs/credential_formats.toml"

LINES = 200_000
"""Lines of source code that are looked through, for the slowest of all would take an hour else."""

# What is named so, and all that it requires, is what our own tests run with.
_OWN = "toolbus"


class Example(NamedTuple):
    """A *text* with a *secret* of a *format*; *reported* is the half that was not developed with.

    *late* ones were fetched when the rules had been measured once.
    """

    format: str
    text: str
    secret: str
    reported: bool
    late: bool


def formats() -> list[str]:
    """Return the names of the formats that were listed before anything was measured."""
    return [one["name"] for one in tomllib.loads(FORMATS.read_text("utf-8"))["formats"]]


def is_reported(name: str) -> bool:
    """Tell whether the format *name* is in the half that is only reported."""
    return hashlib.sha256(name.encode()).digest()[-1] % 2 == 1


def examples(file: str = "examples.toml") -> list[Example]:
    """Return the published examples."""
    found = tomllib.loads((HERE / file).read_text("utf-8"))["examples"]
    return [_example(one) for one in found]


def unlisted() -> list[Example]:
    """Return examples of vendors that were thought of when all rules stood."""
    return examples("unlisted.toml")


def lookalikes() -> list[str]:
    """Return texts without any secret."""
    found = tomllib.loads((HERE / "lookalikes.toml").read_text("utf-8"))["lookalikes"]
    return [_joined(one["text"]) for one in found]


def sources() -> tuple[list[Path], int]:
    """Return source files of what we depend on, and how many lines they have in all."""
    files = sorted(_files(), key=lambda path: hashlib.sha256(path.name.encode()).digest())
    taken, lines = [], 0
    for path in files:
        taken.append(path)
        lines += path.read_bytes().count(b"\n")
        if lines >= LINES:
            break
    return taken, lines


def _example(raw: dict[str, str]) -> Example:
    text = _joined(raw["text"])
    secret = text[text.index("«") + 1 : text.index("»")]
    plain = text.replace("«", "").replace("»", "")
    name = raw["format"]
    return Example(name, plain, secret, is_reported(name), bool(raw.get("late")))


def _joined(text: str) -> str:
    # Cut, so that a scanner does not take this repository for a leak.
    return text.replace("¦", "")


def _files() -> set[Path]:
    """Return the Python files of all distributions that ours requires, with any extra."""
    seen, waiting = set[str](), [_OWN]
    files: set[Path] = set()
    while waiting:
        name = re.split(r"[ \[<>=!~;(]", waiting.pop(), maxsplit=1)[0].lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        waiting += found.requires or []
        if name != _OWN:
            files |= {
                Path(str(one.locate()))
                for one in found.files or ()
                if one.suffix == ".py" and Path(str(one.locate())).is_file()
            }
    return files
