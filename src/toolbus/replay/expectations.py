"""An expectation file: the reviewed findings of a replay, for CI to notice changes.

JSON with sorted keys, without times and without text that handlers removed: a change keeps only
the new value, and a long text its beginning, length and digest. Placeholders lose the suffix of
their session.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b
from textwrap import indent
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins

from toolbus.formats.json_input import parse
from toolbus.redaction.placeholders import evened
from toolbus.settings.files import reason_of, replacing
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.replay.findings import ReplayFinding, ReplayTotals

_KIND = "replay expectation"
_VERSION = 1
_MAX_LENGTH = 400


class Expectation:
    """The expected or actual findings of each session, and the totals.

    A finding is kept as JSON, which takes the least memory.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, list[str]] = {}
        self.totals: dict[str, Any] = {}

    def add(self, finding: ReplayFinding) -> None:
        """Add a finding."""
        self.sessions.setdefault(finding.session, []).append(_json(_facts(finding)))

    def close(self, totals: ReplayTotals) -> None:
        """Add the totals."""
        self.totals = to_builtins(totals)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        with replacing(path, force=True) as stream:
            for text in self._parts():
                stream.write(text.encode())

    def _parts(self) -> Iterator[str]:
        """Yield the document as `json.dumps` writes it, a finding at a time."""
        yield '{\n  "sessions": {'
        for index, session in enumerate(sorted(self.sessions)):
            yield f"{',' * bool(index)}\n    {_json(session)}: ["
            for number, finding in enumerate(self.sessions[session]):
                pretty = json.dumps(json.loads(finding), indent=2, ensure_ascii=False)
                yield f"{',' * bool(number)}\n{indent(pretty, ' ' * 6)}"
            yield "\n    ]"
        totals = indent(json.dumps(self.totals, indent=2, sort_keys=True), "  ").lstrip()
        facts = f'"toolbus": "{_KIND}",\n  "totals": {totals},\n  "version": {_VERSION}'
        yield f"\n  }},\n  {facts}\n}}\n"


def read_expectation(path: Path) -> Expectation:
    """Return the expectation in *path*; raises `UsageError` for another file."""
    try:
        document = parse(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}; write it with --update") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}; repair it, or rewrite it with --update") from None
    match document:
        case {"version": int(version)} if version > _VERSION:
            raise UsageError(f"{path}: version {version} is newer than {_VERSION}; update toolbus")
        case {
            "toolbus": str(kind),
            "version": 1,
            "totals": dict(totals),
            "sessions": dict(sessions),
        } if kind == _KIND and all(map(_are_findings, sessions.values())):
            expectation = Expectation()
            expectation.totals = totals
            for session, findings in sessions.items():
                expectation.sessions[session] = [evened(_json(finding)) for finding in findings]
            return expectation
    raise UsageError(f"{path} is not an expectation of a replay; rewrite it with --update")


def compare(expected: Expectation, actual: Expectation) -> Iterator[str]:
    """Yield the lines of the difference between *expected* and *actual*, none if they are equal."""
    for session in sorted({*expected.sessions, *actual.sessions}):
        old, new = expected.sessions.get(session, []), actual.sessions.get(session, [])
        lines = [
            *[f"  - {_line_of(finding)}" for finding in _without(old, new)],
            *[f"  + {_line_of(finding)}" for finding in _without(new, old)],
        ]
        if lines:
            yield f"session {session}"
            # Lines about one call or message come together.
            yield from sorted(lines, key=lambda line: line[4:])
    totals = list(_totals(expected.totals, actual.totals))
    if totals:
        yield "totals"
        yield from totals


def _without(some: list[str], others: list[str]) -> Iterator[str]:
    """Yield the items of *some* that *others* has fewer times."""
    rest = Counter(others)
    for finding in some:
        if rest[finding]:
            rest[finding] -= 1
        else:
            yield finding


def _totals(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    for name in sorted({*expected, *actual}):
        old, new = expected.get(name, 0), actual.get(name, 0)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _totals(old, new)
        elif old != new:
            yield f"  - {name} {_json(old)}"
            yield f"  + {name} {_json(new)}"


def _facts(finding: ReplayFinding) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "on": finding.role,
        "id": finding.subject,
        "outcome": finding.outcome,
    }
    if finding.tool:
        facts["tool"] = finding.tool
    if finding.reason is not None:
        facts["reason"] = _short(finding.reason)
    if finding.by:
        facts["by"] = list(finding.by)
    if finding.reads is not None:
        facts["reads"] = _short(finding.reads)
    if finding.changes:
        facts["after"] = {
            evened(change.path): "(taken away)"
            if change.after is UNSET
            else _short_json(change.after)
            for change in finding.changes
        }
    return facts


def _short_json(value: Any) -> Any:
    if isinstance(value, str):
        return _short(value)
    text = evened(_json(value))
    return json.loads(text) if len(text) <= _MAX_LENGTH else _short(text)


def _short(text: str) -> str:
    """Return *text*, the same for each session; a long one as beginning, length and digest."""
    text = evened(text)
    if len(text) <= _MAX_LENGTH:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[:_MAX_LENGTH]} … ({len(text)} characters, blake2b {digest})"


def _are_findings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(finding, dict) for finding in value)


def _line_of(text: str) -> str:
    finding = json.loads(text)
    words = [str(finding.pop(name)) for name in ("on", "tool", "id", "outcome") if name in finding]
    if actors := finding.pop("by", None):
        words.append(f"by {', '.join(map(str, actors))}")
    if reason := finding.pop("reason", None):
        words.append(f"({' '.join(str(reason).split())})")
    return " ".join([*words, _json(finding)] if finding else words)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
