"""The text of a policy file with suggested rules at its end, and useless rules as comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from toolbus.errors import ConfigurationError
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.settings.spans import sanitize
from toolbus.settings.visible_text import is_visible
from toolbus.suggest.proof import Removal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.suggest.proposals import Proposal

AGAIN_AFTER = timedelta(days=90)
"""The time until a person is to look at a suggested rule again."""

_WIDTH = 100
_MOST_NAMES = 3
"""The persons in the comment of a rule."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = {"\n": r"\n", "\t": r"\t", '"': r"\"", "\\": r"\\"}
_BY_HAND = "edit it by hand"


def edit_policy(file: PolicyFile, changes: Sequence[Proposal | Removal], today: date) -> PolicyFile:
    """Return *file* with the proposed rules of *changes*, and the useless rules as comments.

    Raises `ConfigurationError` unless the result is a valid policy with exactly the expected
    tables.
    """
    lines = file.text.rstrip("\n").split("\n")
    removed = {each.number: each for each in changes if isinstance(each, Removal)}
    added = [each for each in changes if not isinstance(each, Removal)]
    for _, removal in sorted(removed.items(), reverse=True):
        first, end = _span(file, removal.number, lines)
        rule = [f"# {line}".rstrip() for line in lines[first:end]]
        lines[first:end] = [*_comment(f"Removed on {today}: it {removal.reason}."), *rule]
    for proposal in added:
        lines += ["", *rule_text(proposal, today)]
    try:
        edited = PolicyFile(file.file, "\n".join([*lines, ""]).encode())
        edited.read()
    except (ConfigurationError, UnicodeEncodeError) as error:
        reason = f"the rules cannot be added: {error}; {_BY_HAND}"
        raise ConfigurationError(reason, str(file.file)) from error
    remaining = [
        each for number, each in enumerate(file.table.get("rule", ())) if number not in removed
    ]
    expected = {**file.table, "rule": [*remaining, *[to_builtins(each.rule) for each in added]]}
    if {**edited.table, "rule": edited.table.get("rule", [])} != expected:
        raise ConfigurationError(f"the rules cannot be told apart; {_BY_HAND}", str(file.file))
    return edited


def rule_text(proposal: Proposal, today: date) -> list[str]:
    """Return the lines of a suggested rule, with a comment on its evidence before it."""
    evidence = _comment(f"Suggested on {today} from {_evidence(proposal)}.")
    again = f"# Look again on {today + AGAIN_AFTER}."
    pairs = [f"{_key(key)} = {toml_value(value)}" for key, value in proposal.rule.items()]
    return [*evidence, again, "[[rule]]", *pairs]


def _evidence(proposal: Proposal) -> str:
    """Return the number of calls and sessions, the days and the persons behind a proposal."""
    calls = proposal.evidence
    sessions = len({each.session_id for each in calls})
    days = sorted({datetime.fromtimestamp(each.asked_ns / 1e9, UTC).date() for each in calls})
    names = sorted({each.by for each in calls})
    by = ", ".join([*names[:_MOST_NAMES], *["others" for _ in names[_MOST_NAMES:][:1]]])
    when = f"{days[0]} to {days[-1]}"
    return f"{len(calls):,} calls in {sessions:,} sessions, {when}, allowed by {by}"


def toml_value(value: Any) -> str:
    """Return *value* as TOML in one line, with every deceptive character of a text escaped."""
    match value:
        case str():
            return f'"{"".join(map(_escaped, value))}"'
        case bool():
            return "true" if value else "false"
        case Mapping():
            pairs = [f"{_key(key)} = {toml_value(each)}" for key, each in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def _escaped(char: str) -> str:
    return _ESCAPED.get(char) or (char if is_visible(char) else f"\\U{ord(char):08x}")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def _comment(text: str) -> list[str]:
    # A control character or the end of a line would end the comment.
    return textwrap.wrap(
        sanitize(text), _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _span(file: PolicyFile, number: int, lines: Sequence[str]) -> tuple[int, int]:
    """Return the first line of rule *number*, from 0, and the line after its end."""
    place = ("rule", number)
    first = file.lines[place]
    # Keys inside the rule begin with its place, and any other key is in a later table.
    after = [line for path, line in file.lines.items() if line > first and path[:2] != place]
    end = min(after, default=len(lines) + 1) - 1
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1  # The comments before a table are about that table.
    return first - 1, end
