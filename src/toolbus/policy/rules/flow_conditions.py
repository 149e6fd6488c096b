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

import tomllib
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
    from collections.abc import Mapping

    from toolbus.components.call_facts import CallFacts
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.part_words import Target
    from toolbus.policy.paths.path_patterns import PathPattern

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
_NO, _YES = MatchResult("no"), MatchResult("yes")
_UNKNOWN = MatchResult("maybe", UNKNOWN_ORIGINS)


def build_flow_condition(key: str, value: Any, *, allows: bool) -> PartCondition:
    """Return the condition of *value* under *key*; raises `MisfitError`."""
    if allows:
        reason = f"an allow rule cannot have `{key}`, which only tightens; use ask or deny"
        raise MisfitError(reason)
    match key:
        case "sink":
            return on_sink(texts(value))
        case "in_view":
            return on_view(texts(value))
        case "carries":
            return on_carried(texts(value))
        case "target_from":
            return on_target_origin(value)
        case "from":
            return on_origin({"": value} if isinstance(value, str) else value)
    if not value:
        raise MisfitError("expected true; leave it out for all hosts")
    return on_new_host()


def on_sink(names: tuple[str, ...]) -> PartCondition:
    """Return the condition that a part is a sink of *names*."""
    wanted = frozenset(names)
    look = partial(_serves, wanted)
    return PartCondition("sink", names, partial(_sink, wanted), every=False, look=look)


def _sink(names: frozenset[str], part: CallPart) -> MatchResult | None:
    """Return whether *part* is a sink of *names*; None if that depends on its words or files."""
    effects = part.effects | part.claimed
    if any(effect in effects for name, effect in _SINKS.items() if name in names):
        return _YES
    depends = (names & {"network", "destroy"} and effects & {"network", "run-code"}) or (
        "execute" in names and effects & CHANGES
    )
    return None if depends else _possible_sink(names, part)


def _serves(names: frozenset[str], part: CallPart, reading: CallReading) -> MatchResult:
    """Return whether *part* is a sink of *names* by its words or its files."""
    answers = [_possible_sink(names, part)]
    if "network" in names:
        answers.append(_sends(part, reading))
    if "destroy" in names and deletes(part, reading):
        answers.append(MatchResult("yes", "it deletes by a request"))
    if "execute" in names:
        uses = [use for use in part.paths if use.kind in CHANGES]
        resolver = _resolver(reading)
        files = [touches(use, _files("run_later"), resolver).answer for use in uses]
        answers += [MatchResult(answer, "it writes a file that is run later") for answer in files]
        if " ".join(part.action[:2]) in language_words("settings", "commands"):
            answers.append(MatchResult("yes", "it changes settings of programs"))
    return max(answers, key=lambda each: _RANKS[each.answer])


def _possible_sink(names: frozenset[str], part: CallPart) -> MatchResult:
    """Return whether *part* may be a sink of *names* by an effect that is not known."""
    if not part.unknown:
        return MatchResult("no", f"its effects are {' and '.join(sorted(part.effects))}")
    if not part.is_tool:
        return MatchResult("maybe", "a command is unknown") if "execute" in names else _NO
    leaves = names & {"network", "message"} and (part.hosts or part.recipients)
    return MatchResult("maybe", "its effects are unknown") if leaves else _NO


def _resolver(reading: CallReading) -> PathResolver:
    # In an unknown folder the names alone must do: most are harmless.
    return reading.resolver if reading.folder else PathResolver(CallPlace("/"))


@cache
def _files(kind: str) -> tuple[PathPattern, ...]:
    """Return the patterns of the files of *kind* in `file_kinds.toml`."""
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


def on_new_host() -> PartCondition:
    """Return the condition that a part reaches a host or recipient that no person named."""
    return PartCondition("new_host", ("true",), _look_later, every=False, look=_reaches_new)


def _look_later(_part: CallPart) -> None:
    return None


def _reaches_new(part: CallPart, reading: CallReading) -> MatchResult:
    facts, doubt = reading.origins, ""
    for place in destinations(part, reading):
        if not place.is_certain:
            doubt = doubt or place.why
        elif facts is None:
            return _UNKNOWN
        elif not (place.address and facts.is_named(place.address)):
            is_shown = not _carries_more(place.why, facts)
            return MatchResult("yes", place.why if is_shown else "it reaches a new host")
    return MatchResult("maybe", doubt) if doubt else MatchResult("no", "it reaches no new host")


def on_view(names: tuple[str, ...]) -> PartCondition:
    """Return the condition that texts with all labels of *names* were in view."""

    def look(_part: CallPart, reading: CallReading) -> MatchResult:
        if reading.origins is None:
            return _UNKNOWN
        view = reading.origins.in_view
        if missing := [name for name in names if name not in view]:
            return MatchResult("no", f"no {missing[0]} text was in view")
        sources = [f"{name} text ({view[name]})" for name in names]
        return MatchResult("yes", f"the model had {' and '.join(sources)} in view")

    return PartCondition("in_view", names, _look_later, every=False, look=look)


def on_origin(labels: Mapping[str, str]) -> PartCondition:
    """Return the condition that an argument has words from a text with its label in *labels*.

    *labels* are by globs of arguments; "" stands for all arguments and for commands.
    """

    def look(part: CallPart, reading: CallReading) -> MatchResult:
        if reading.origins is None:
            return _UNKNOWN
        for path, text in with_whole(instructions_of(part, reading), part):
            wanted = {label for glob, label in labels.items() if not glob or matches(glob, path)}
            for quote in reading.origins.quoted(text) if wanted else ():
                if wanted & quote.labels:
                    name = _show_argument(path, reading.origins)
                    return MatchResult("yes", f"{name} has words from {quote.source}")
        return MatchResult("no", "it has no words from such a text")

    written = tuple([" = ".join(filter(None, each)) for each in labels.items()])
    return PartCondition("from", written, _look_later, every=False, look=look)


def on_target_origin(label: str) -> PartCondition:
    """Return the condition that a target of a part has words from a text with *label*."""

    def look(part: CallPart, reading: CallReading) -> MatchResult:
        facts = reading.origins
        if facts is None:
            return _UNKNOWN
        for target in targets_of(part, reading):
            for quote in facts.quoted(target.text):
                if label in quote.labels and _names_target(quote.text, target, facts):
                    return MatchResult("yes", f"{quote.source} names its target")
        return MatchResult("no", "no such text names its target")

    return PartCondition("target_from", (label,), _look_later, every=False, look=look)


def _names_target(text: str, target: Target, facts: CallFacts) -> bool:
    """Return whether the quote *text* names *target*: an address as a whole, or its new host."""
    if not target.is_address or without_scheme(text) == without_scheme(target.text):
        return True
    hosts = read_host(target.text).hosts
    return not facts.is_named(target.text) and any(host in text.lower() for host in hosts)


def _sends_secret_file(part: CallPart, reading: CallReading) -> bool:
    resolver, patterns = _resolver(reading), _files("secrets")
    uses = [use for use in sent_files(part, reading) if use.kind == "read"]
    return any(touches(use, patterns, resolver).answer == "yes" for use in uses)


def _show_argument(path: str, facts: CallFacts) -> str:
    """Return *path* for a reason, or "it" for a command and for names that carry values."""
    return f"`{path}`" if path and not _carries_more(path, facts) else "it"


def _carries_more(text: str, facts: CallFacts) -> bool:
    """Return whether *text* carries values, other than those that every text of the call does."""
    return not facts.carried(text).keys() <= facts.carried("").keys()


def on_carried(kinds: tuple[str, ...]) -> PartCondition:
    """Return the condition that a part carries a value of *kinds*."""

    def look(part: CallPart, reading: CallReading) -> MatchResult:
        if reading.origins is None:
            return _UNKNOWN
        if "secret" in kinds and _sends_secret_file(part, reading):
            return MatchResult("yes", "it sends a file of secrets")
        for path, text in with_whole(words_of(part, reading), part):
            carried = reading.origins.carried(text)
            # An account that is paid, or an address that is written to, is no value.
            addresses = {"email"} if "@" in text else {"iban", "phone"}
            if is_recipient(text, part):
                carried = {kind: carried[kind] for kind in carried.keys() - addresses}
            for kind in [kind for kind in kinds if kind in carried]:
                name = _show_argument(path, reading.origins)
                origin = f": {carried[kind]}" if carried[kind] else ""
                return MatchResult("yes", f"{name} carries {_VALUES[kind]}{origin}")
        return MatchResult("no", "it carries no such value")

    return PartCondition("carries", kinds, _look_later, every=False, look=look)
