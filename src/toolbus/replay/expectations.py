"""An expectation file: what a replay found when somebody looked, so that CI sees it change.

JSON with sorted keys, no times and no text of the recording that the handlers took away: of a
change only what came after is kept, and of a long text its beginning, its length and its digest.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b
from textwrap import indent
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins

from toolbus.formats.parsing import parse
from toolbus.terminal.files import replacing
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.replay.findings import ReplayFinding, ReplayTotals

_KIND = "replay expectation"
_VERSION = 1
_LONGEST = 400


class Expectation:
    """What is expected, or what was found: the findings of each session, and the totals.

    A finding is kept as its JSON, which takes the least room.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, list[str]] = {}
        self.totals: dict[str, Any] = {}

    def add(self, finding: ReplayFinding) -> None:
        """Keep a finding."""
        self.sessions.setdefault(finding.session, []).append(_json(_kept(finding)))

    def close(self, totals: ReplayTotals) -> None:
        """Keep the totals."""
        self.totals = to_builtins(totals)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        with replacing(path, force=True) as stream:
            for text in self._pieces():
                stream.write(text.encode())

    def _pieces(self) -> Iterator[str]:
        """Give the document as `json.dumps` would write it, a finding at a time."""
        yield '{\n  "sessions": {'
        for at, session in enumerate(sorted(self.sessions)):
            yield f"{',' * bool(at)}\n    {_json(session)}: ["
            for number, finding in enumerate(self.sessions[session]):
                pretty = json.dumps(json.loads(finding), indent=2, ensure_ascii=False)
                yield f"{',' * bool(number)}\n{indent(pretty, ' ' * 6)}"
            yield "\n    ]"
        totals = indent(json.dumps(self.totals, indent=2, sort_keys=True), "  ").lstrip()
        facts = f'"toolbus": "{_KIND}",\n  "totals": {totals},\n  "version": {_VERSION}'
        yield f"\n  }},\n  {facts}\n}}\n"


def read_expectation(path: Path) -> Expectation:
    """Return what *path* holds; raises `UsageError` if that is no expectation."""
    try:
        document = parse(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"there is no {str(path)!r}; make it with --update") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}; repair it, or write it anew with --update") from None
    match document:
        case {"version": int(version)} if version > _VERSION:
            raise UsageError(f"{path}: version {version}, newer than {_VERSION}; update toolbus")
        case {
            "toolbus": str(kind),
            "version": 1,
            "totals": dict(totals),
            "sessions": dict(sessions),
        } if kind == _KIND and all(map(_are_findings, sessions.values())):
            expectation = Expectation()
            expectation.totals = totals
            for session, findings in sessions.items():
                expectation.sessions[session] = [_json(one) for one in findings]
            return expectation
    raise UsageError(f"{path} is no expectation of a replay; write it anew with --update")


def compare(expected: Expectation, found: Expectation) -> Iterator[str]:
    """Give the lines that tell how *found* differs from *expected*; none if it does not."""
    for session in sorted({*expected.sessions, *found.sessions}):
        old, new = expected.sessions.get(session, []), found.sessions.get(session, [])
        lines = [
            *[f"  - {_worded(one)}" for one in _without(old, new)],
            *[f"  + {_worded(one)}" for one in _without(new, old)],
        ]
        if lines:
            yield f"session {session}"
            # What became of one call or message stands together.
            yield from sorted(lines, key=lambda line: line[4:])
    totals = list(_totals(expected.totals, found.totals))
    if totals:
        yield "totals"
        yield from totals


def _without(some: list[str], others: list[str]) -> Iterator[str]:
    """Give those of *some* that are not among *others* as often."""
    left = Counter(others)
    for one in some:
        if left[one]:
            left[one] -= 1
        else:
            yield one


def _totals(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for name in sorted({*expected, *found}):
        old, new = expected.get(name, 0), found.get(name, 0)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _totals(old, new)
        elif old != new:
            yield f"  - {name} {_json(old)}"
            yield f"  + {name} {_json(new)}"


def _kept(finding: ReplayFinding) -> dict[str, Any]:
    kept: dict[str, Any] = {
        "on": finding.role,
        "id": finding.subject,
        "outcome": finding.outcome,
    }
    if finding.tool:
        kept["tool"] = finding.tool
    if finding.reason is not None:
        kept["reason"] = _short(finding.reason)
    if finding.by:
        kept["by"] = list(finding.by)
    if finding.reads is not None:
        kept["reads"] = _short(finding.reads)
    if finding.changes:
        kept["after"] = {
            one.path: "(taken away)" if one.after is UNSET else _short_json(one.after)
            for one in finding.changes
        }
    return kept


def _short_json(value: Any) -> Any:
    if isinstance(value, str):
        return _short(value)
    text = _json(value)
    return value if len(text) <= _LONGEST else _short(text)


def _short(text: str) -> str:
    """Return *text*, or of a long one what tells it from others."""
    if len(text) <= _LONGEST:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[:_LONGEST]} … ({len(text)} characters, blake2b {digest})"


def _are_findings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _worded(kept: str) -> str:
    finding = json.loads(kept)
    names = [str(finding.pop(name)) for name in ("on", "tool", "id", "outcome") if name in finding]
    return " ".join([*names, _json(finding)] if finding else names)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
