"""The conditions of rules on where the words of a call came from, and where they go.

| key | the part of the call |
|---|---|
| `sink` | sends words in a request (network) or a message, runs them (execute), or destroys |
| `new_host` | reaches a host or a recipient that the session's person never named |
| `in_view` | was made while texts with all these labels were in view |
| `from` | has words from a text with this label; a table limits that to some arguments |
| `target_from` | has its recipient, host or path from such a text; if it names none, any word |
| `carries` | has values of any of these kinds |

A component such as `flow` knows these facts. Without one they are unknown, so a deny or ask rule
asks. A plain read of an address that stands word for word in a text in view is no sink. To write a
file of `file_kinds.toml` is to execute. The destination of a command without an address is fixed by
settings; that of a tool is unknown, and so new, unless its table has `urls = []` or
`recipients = []`.

The reasons hold no word of the call but the end of a host's name, which carries no value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.events.subjects import matches
from toolbus.policy.commands import CHANGES
from toolbus.policy.part_words import (
    deletes,
    destinations,
    instructions_of,
    is_recipient,
    may_only_read,
    sent_files,
    stands_in_view,
    targets_of,
    with_whole,
    without_scheme,
    words_of,
)
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.hosts import read_host
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.programs.program_files import language_words
from toolbus.policy.rules.records import MatchResult, PartCondition
from toolbus.policy.rules.tables import texts
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from toolbus.components.call_facts import CallFacts
    from toolbus.policy.commands import PathUse
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.part_words import Target
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.rules.records import Answer

UNKNOWN_ORIGINS = 'the origin of its words is unknown; add the component `use = "flow"`'
_SINKS = {"message": "message", "destroy": "destroy", "execute": "run-code"}
"""The effects of sinks but the network."""
_VALUES = {
    "secret": "a secret",
    "card": "a card number",
    "iban": "an IBAN",
    "private": "private data",
    "email": "an e-mail address",
    "phone": "a phone number",
    "national-id": "an identity number",
}
_RANKS = {"no": 0, "maybe": 1, "yes": 2}
_NAME = re.compile(r"[A-Za-z_-]{1,40}")
_NO, _YES = MatchResult("no"), MatchResult("yes")
_UNKNOWN = MatchResult("maybe", UNKNOWN_ORIGINS)


def build_flow_condition(key: str, value: Any, *, allows: bool) -> PartCondition:
    """Return the condition of *value* under *key*; raises `MisfitError`."""
    if allows:
        reason = f"an allow rule cannot have `{key}`, which only tightens; use ask or deny"
        raise MisfitError(reason)
    if not value:
        raise MisfitError("expected true; leave it out for all hosts")
    wanted: Any
    if key == "from":
        wanted = value if isinstance(value, Mapping) else {"*": value}
        names = tuple([f"{glob} = {label}" for glob, label in wanted.items()])
    else:
        names = wanted = ("true",) if value is True else texts(value)

    look = partial(_look, key, wanted)
    return PartCondition(key, names, lambda _: None, every=False, look=look)


def _look(key: str, wanted: Any, part: CallPart, reading: CallReading) -> MatchResult:
    if key == "sink":
        return _is_sink(frozenset(wanted), part, reading)
    if reading.origins is None:
        is_fixed = key == "new_host" and not any(destinations(part, reading))
        return _NO if is_fixed else _UNKNOWN
    return _LOOKS[key](wanted, part, reading, reading.origins)


def _is_sink(names: frozenset[str], part: CallPart, reading: CallReading) -> MatchResult:
    """Return whether *part* is a sink of *names*, by its effects, its words or its files."""
    effects = part.effects | part.claimed
    if any(effect in effects for name, effect in _SINKS.items() if name in names):
        return _YES
    answers = [_possible_sink(names, part)]
    if "network" in names:
        answers.append(_sends(part, reading))
    if "destroy" in names and deletes(part, reading):
        answers.append(MatchResult("yes", "it deletes by a request"))
    if "execute" in names:
        answers.append(prepares_run(part, reading))
    return max(answers, key=lambda each: _RANKS[each.answer])


def _possible_sink(names: frozenset[str], part: CallPart) -> MatchResult:
    """Return whether *part* may be a sink of *names* by an effect that is not known."""
    if not part.unknown:
        return MatchResult("no", f"its effects are {' and '.join(sorted(part.effects))}")
    if not part.is_tool:
        return MatchResult("maybe", "a command is unknown") if "execute" in names else _NO
    leaves = names & {"network", "message"} and (part.hosts or part.recipients)
    return MatchResult("maybe", "its effects are unknown") if leaves else _NO


def prepares_run(part: CallPart, reading: CallReading) -> MatchResult:
    """Return whether *part* changes what programs do later: their files or their settings."""
    if " ".join(part.action[:2]) in language_words("settings", "commands"):
        return MatchResult("yes", "it changes settings of programs")
    answer = _touched(CHANGES, "run_later", part.paths, reading)
    verb = "writes" if answer == "yes" else "may write"
    return _NO if answer == "no" else MatchResult(answer, f"it {verb} a file that is run later")


def _touched(
    kinds: Collection[str], files: str, uses: Iterable[PathUse], reading: CallReading
) -> Answer:
    """Return whether *uses* of *kinds* touch *files* of `file_kinds.toml`."""
    wanted = [use for use in uses if use.kind in kinds]
    if not wanted:
        return "no"
    # In an unknown folder the names alone must do: most are harmless.
    resolver = reading.resolver if reading.folder else PathResolver(CallPlace("/"))
    answers = [touches(use, files_of_kind(files), resolver).answer for use in wanted]
    return max(answers, key=_RANKS.__getitem__)


@cache
def files_of_kind(kind: str) -> tuple[PathPattern, ...]:
    """Return the patterns of the files of *kind*: "secrets" or "run_later"."""
    text = Path(__file__).with_name("file_kinds.toml").read_text("utf-8")
    return path_patterns(tomllib.loads(text)[kind], project=None)


def _sends(part: CallPart, reading: CallReading) -> MatchResult:
    """Return whether *part* sends more than an address in view, or may do so by its code."""
    if "message" in part.effects:
        return MatchResult("no", "it is a message")
    if "network" not in part.effects | part.claimed:
        runs_address = "run-code" in part.effects and any(destinations(part, reading))
        return MatchResult("maybe", "its code names an address") if runs_address else _NO
    if not may_only_read(part, reading):
        return _YES
    facts = reading.origins
    if facts is None:
        return _UNKNOWN
    if all(stands_in_view(word.text, facts) for word in part.hosts):
        return MatchResult("no", "it only reads an address that stands in view")
    return _YES


def _reaches_new(
    _wanted: Any, part: CallPart, reading: CallReading, facts: CallFacts
) -> MatchResult:
    doubt = ""
    for place in destinations(part, reading):
        if not place.is_certain:
            doubt = doubt or place.why
        elif not (place.address and facts.is_named(place.address)):
            return MatchResult("yes", _safe(place.why, facts) or "it reaches a new host")
    return MatchResult("maybe", doubt) if doubt else MatchResult("no", "it reaches no new host")


def _is_in_view(
    labels: tuple[str, ...], _part: CallPart, _reading: CallReading, facts: CallFacts
) -> MatchResult:
    if missing := [label for label in labels if label not in facts.in_view]:
        return MatchResult("no", f"no {missing[0]} text was in view")
    sources = [f"{label} text ({facts.in_view[label]})" for label in labels]
    return MatchResult("yes", f"the model had {' and '.join(sources)} in view")


def _quotes(
    labels: Mapping[str, str], part: CallPart, reading: CallReading, facts: CallFacts
) -> MatchResult:
    """Return whether *part* has words from texts with *labels*, by globs of its arguments."""
    for path, text in with_whole(instructions_of(part, reading), part):
        wanted = {label for glob, label in labels.items() if matches(glob, path)}
        for quote in facts.quoted(text) if wanted else ():
            if wanted & quote.labels:
                why = f"{_argument(path, facts)} has words from {quote.source}"
                return MatchResult("yes", why)
    return MatchResult("no", "it has no words from such a text")


def _has_target(
    labels: tuple[str, ...], part: CallPart, reading: CallReading, facts: CallFacts
) -> MatchResult:
    for target in targets_of(part, reading):
        for quote in facts.quoted(target.text):
            if quote.labels.issuperset(labels) and _names_target(quote.text, target, facts):
                return MatchResult("yes", f"{quote.source} names its target")
    return MatchResult("no", "no such text names its target")


def _names_target(text: str, target: Target, facts: CallFacts) -> bool:
    """Return whether the quote *text* names *target*: an address as a whole, or its new host."""
    if not target.is_address or without_scheme(text) == without_scheme(target.text):
        return True
    hosts = read_host(target.text).hosts
    return not facts.is_named(target.text) and any(host in text.lower() for host in hosts)


def _carries(
    kinds: tuple[str, ...], part: CallPart, reading: CallReading, facts: CallFacts
) -> MatchResult:
    files = sent_files(part, reading) if "secret" in kinds else ()
    if _touched({"read"}, "secrets", files, reading) == "yes":
        return MatchResult("yes", "it sends a file of secrets")
    for path, text in with_whole(words_of(part, reading), part):
        carried = facts.carried(text)
        # An account that is paid, or an address that is written to, is no value.
        addresses = {"email"} if "@" in text else {"iban", "phone"}
        values = carried.keys() - (addresses if is_recipient(text, part) else ())
        for kind in [kind for kind in kinds if kind in values]:
            origin = f": {carried[kind]}" if carried[kind] else ""
            return MatchResult("yes", f"{_argument(path, facts)} carries {_VALUES[kind]}{origin}")
    return MatchResult("no", "it carries no such value")


def _argument(path: str, facts: CallFacts) -> str:
    """Return the argument of *path* for a reason, or "it" for a command or a name with values."""
    name = path.partition(".")[0]
    return f"`{name}`" if _NAME.fullmatch(name) and _safe(name, facts) else "it"


def _safe(text: str, facts: CallFacts) -> str:
    """Return *text*, or "" if it carries values other than those of every text of the call."""
    return text if facts.carried(text).keys() <= facts.carried("").keys() else ""


_LOOKS: Mapping[str, Callable[[Any, CallPart, CallReading, CallFacts], MatchResult]] = {
    "new_host": _reaches_new,
    "in_view": _is_in_view,
    "from": _quotes,
    "target_from": _has_target,
    "carries": _carries,
}
