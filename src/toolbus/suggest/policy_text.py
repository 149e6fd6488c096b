"""The text of a policy file with suggested rules at its end."""

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.suggest.proposals import Proposal

AGAIN_AFTER = timedelta(days=90)
"""The time until a person is to look at a suggested rule again."""

_WIDTH = 90
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = {"\n": r"\n", "\t": r"\t", '"': r"\"", "\\": r"\\"}


def with_rules(file: PolicyFile, proposals: Sequence[Proposal]) -> PolicyFile:
    """Return *file* with further rules, but not in its text; for judging only."""
    policy, rules = PolicyFile(file.file, file.text.encode()), file.table.get("rule", [])
    policy.table["rule"] = [*rules, *[to_builtins(each.rule) for each in proposals]]
    return policy


def edit_policy(file: PolicyFile, proposals: Sequence[Proposal], today: date) -> PolicyFile:
    """Return *file* with the rules of *proposals* at the end of its text.

    Raises `ConfigurationError` unless the result is a valid policy with exactly these rules.
    """
    lines = [line for each in proposals for line in ("", *rule_text(each, today))]
    text = "\n".join([file.text.rstrip("\n"), *lines, ""])
    try:
        edited = PolicyFile(file.file, text.encode())
        edited.read()
    except (ConfigurationError, UnicodeEncodeError) as error:
        reason = f"the rules cannot be added: {error}; edit it by hand"
        raise ConfigurationError(reason, str(file.file)) from error
    if edited.table != with_rules(file, proposals).table:
        raise ConfigurationError("the rules cannot be added; edit it by hand", str(file.file))
    return edited


def rule_text(proposal: Proposal, today: date) -> list[str]:
    """Return the lines of a suggested rule, with a comment on its evidence before it."""
    calls = proposal.evidence
    sessions = len({each.session_id for each in calls})
    days = sorted([datetime.fromtimestamp(each.asked_ns / 1e9, UTC).date() for each in calls])
    persons = ", ".join(sorted({each.by for each in calls}))
    evidence = (
        f"Suggested on {today}: {persons} allowed {len(calls):,} calls in {sessions:,} sessions, "
        f"{days[0]} to {days[-1]}."
    )
    # A control character or the end of a line would end the comment.
    comment = textwrap.wrap(sanitize(evidence), _WIDTH - 2, break_on_hyphens=False)
    pairs = [f"{_key(key)} = {toml_value(value)}" for key, value in proposal.rule.items()]
    again = f"# Look again on {today + AGAIN_AFTER}."
    return [*[f"# {line}" for line in comment], again, "[[rule]]", *pairs]


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
