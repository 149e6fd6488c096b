"""Real text without secrets, made of what is installed here: sources, search results, lists, logs.

Each text is what one tool call would return. The half that a file is in tells the hash of its name,
as for the other sets (`sets`): alarms are looked at in the first half only.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.redaction.corpus import is_reported
from benchmarks.redaction.sets import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 6_000_000
"""Letters of each kind of text in each half, as far as there are so many."""

LINES = 300
"""Lines of one search result, or of one page of a log."""

_OWN = "toolbus"
_LOGS = ("/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/apt/history.log")
# What a developer searches for. Whoever searches for passwords finds those of tests.
_QUERIES = re.compile(r"path|import|token|key|config|version|TODO|return", re.IGNORECASE)
_LONGEST_LINE = 400


def python(*, reported: bool = False, limit: int = LIMIT) -> list[Case]:
    """Return Python files of all that is installed."""
    return _some("python", _files(".py"), reported=reported, limit=limit)


def javascript(*, reported: bool = False, limit: int = LIMIT) -> list[Case]:
    """Return JavaScript files of all that is installed; npm's, with the extra `dev`."""
    return _some("javascript", _files(".js", ".cjs", ".mjs"), reported=reported, limit=limit)


def search(*, reported: bool = False, limit: int = LIMIT) -> list[Case]:
    """Return what searches find in those files: as lines of grep, as JSON and as YAML."""
    files = (one for one in _files(".py", ".js", ".json", ".md") if is_reported(one[0]) == reported)
    hits = islice(_hits(files), limit // 200)
    cases = []
    for number, page in enumerate(iter(lambda: list(islice(hits, LINES)), [])):
        kind = ("grep", "json", "yaml")[number % 3]
        cases.append(Case(f"{kind} {number}", "search", _SHOWN[kind](page), ""))
    return cases


def logs(*, reported: bool = False, limit: int = LIMIT) -> list[Case]:
    """Return pages of lock files, lists of hashes and logs."""
    pages = []
    for name, path in [*_files("RECORD", ".lock", "lock.json"), *_system_logs()]:
        lines = _read(path).splitlines(keepends=True)
        pages += [
            Case(f"{name}, page {start}", "logs", "".join(lines[start : start + LINES]), "")
            for start in range(0, len(lines), LINES)
        ]
        if name.endswith("RECORD"):
            pages.append(Case(f"{name}, locked", "logs", _locked(lines), ""))
    some = [one for one in pages if one.text and is_reported(one.name) == reported]
    return some[: max(1, limit // 20_000)]


TEXTS = {"python": python, "javascript": javascript, "search": search, "logs": logs}


def megabytes(cases: list[Case]) -> float:
    """Return the size of the texts of *cases* in UTF-8."""
    return sum(len(one.text.encode()) for one in cases) / 1e6


def _some(group: str, files: list[tuple[str, Path]], *, reported: bool, limit: int) -> list[Case]:
    cases, size = [], 0
    for name, path in files:
        if is_reported(name) == reported and size < limit:
            text = _read(path)
            size += len(text)
            cases.append(Case(name, group, text, ""))
    return cases


def _hits(files: Iterator[tuple[str, Path]]) -> Iterator[tuple[str, int, str]]:
    """Give path, number and text of lines that a search finds, at most five of a file."""
    for name, path in files:
        lines = enumerate(_read(path).splitlines(), 1)
        found = ((name, number, line) for number, line in lines if _QUERIES.search(line))
        yield from islice((one for one in found if len(one[2]) <= _LONGEST_LINE), 5)


def _grep(page: list[tuple[str, int, str]]) -> str:
    return "".join([f"{path}:{number}:{line}\n" for path, number, line in page])


def _json(page: list[tuple[str, int, str]]) -> str:
    hits = [{"file_path": path, "line": number, "text": line} for path, number, line in page]
    return json.dumps(hits, indent=1)


def _yaml(page: list[tuple[str, int, str]]) -> str:
    return "".join([f"- file_path: {path}\n  line: {number}\n" for path, number, _ in page])


_SHOWN = {"grep": _grep, "json": _json, "yaml": _yaml}


def _locked(record: list[str]) -> str:
    """Return the hashes of a *record* of files as a lock file has them."""
    rows = [line.rstrip("\n").split(",") for line in record[:LINES]]
    return "".join(
        [
            f'    {{file = "{row[0]}", hash = "{row[1].replace("=", ":")}"}},\n'
            for row in rows
            if row[1:]
        ]
    )


def _system_logs() -> list[tuple[str, Path]]:
    return [(one, Path(one)) for one in _LOGS if Path(one).is_file()]


def _read(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


@cache
def _all_files() -> list[tuple[str, Path]]:
    """Return names and places of the files of all distributions but ours, in order of a hash."""
    found = {
        str(file): Path(str(file.locate()))
        for one in metadata.distributions()
        if one.name != _OWN
        for file in one.files or ()
        if not str(file).startswith("..")
    }
    return sorted(found.items(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())


def _files(*endings: str) -> list[tuple[str, Path]]:
    return [
        (name, path) for name, path in _all_files() if name.endswith(endings) and path.is_file()
    ]
