"""The rules by which `FlowGuard(sinks=…)` judges calls without a policy.

They are those of the starting policy. A tool's name says which sink it is, and the names of its
arguments say where a call goes. No reason repeats a text of the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask
from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, UNTRUSTED
from toolbus.flow.named_addresses import URL, recipients_in
from toolbus.flow.sources import read_globs
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.components.call_facts import CallFacts
    from toolbus.messages.records import ToolCall

SINKS = ("network", "message", "execute", "destroy")
_RECIPIENTS = frozenset(
    {"to", "cc", "bcc", "recipient", "recipients", "email", "emails", "attendees", "invitees"}
    | {"guests", "channel", "channels", "repo", "repository", "iban", "account", "payee", "wallet"}
    | {"phone", "url", "urls", "uri", "host", "hosts", "hostname", "endpoint", "domain", "domains"}
    | {"address", "addresses", "link", "links", "href", "webhook", "website", "site", "server"}
)
_FILES = frozenset({"path", "paths", "file", "files", "filename", "folder", "dir", "target"})
_FINAL_WORD = re.compile(r"[A-Za-z]?[a-z]*$")


class FlowRule(NamedTuple):
    """A rule that asks about calls of these *sinks* if all of its conditions hold.

    *carries* has kinds of values, *in_view* labels that all were in view. *untrusted* are the
    texts of the call that may not quote an untrusted text: its "words" or its "targets".
    """

    reason: str
    sinks: tuple[str, ...]
    carries: tuple[str, ...] = ()
    untrusted: str = ""
    in_view: tuple[str, ...] = ()
    new_host: bool = False


_LEAVING = ("network", "message")
_NEW = "secret or private values would go to an address that no person named"
_SECRET = "a secret or a card may leave, after a stranger's text was read"  # noqa: S105 - a reason
RULES = (
    FlowRule(_NEW, _LEAVING, ("secret", "card", "iban", PRIVATE), new_host=True),
    FlowRule(_SECRET, (*_LEAVING, "execute"), ("secret", "card"), in_view=(UNTRUSTED,)),
    FlowRule("a stranger's text names the target", ("network", "destroy"), (), "targets"),
    FlowRule("it runs words of a stranger's text", ("execute",), (), "words"),
)


def check_sinks(sinks: Mapping[str, str]) -> None:
    """Raise `RegistrationError` unless *sinks* maps globs of tools to sinks."""
    if not isinstance(sinks, Mapping):
        raise RegistrationError("sinks", f"expected sinks by glob pattern, got {sinks!r}")
    read_globs("sinks", (*sinks,))
    for sink in sinks.values():
        if sink not in SINKS:
            raise RegistrationError("sinks", f"unknown sink {sink!r}{hint(str(sink), SINKS)}")


def judge(call: ToolCall, sinks: Mapping[str, str], facts: CallFacts) -> Ask | None:
    """Return the verdict on *call* by the *sinks* of tools; None if no rule forbids it."""
    reached = {sink for pattern, sink in sinks.items() if matches(pattern, call.name)}
    texts = list(_texts(call.arguments))
    broken = [
        rule for rule in RULES if reached.intersection(rule.sinks) and _holds(rule, texts, facts)
    ]
    return Ask("; ".join([rule.reason for rule in broken])) if broken else None


def _holds(rule: FlowRule, texts: list[tuple[str, str]], facts: CallFacts) -> bool:
    if not all(name in facts.in_view for name in rule.in_view):
        return False
    if rule.new_host and all(map(facts.is_named, _addresses(texts))):
        return False
    words = [text for _, text in texts]
    words.append("\n".join(words))  # A value may be split over several arguments.
    targets = [text for name, text in texts if _ends_in(name, _RECIPIENTS | _FILES)]
    quoting = targets if targets and rule.untrusted == "targets" else words
    pieces = [quoted for text in quoting for quoted in facts.quoted(text) if rule.untrusted]
    if rule.untrusted and not any(UNTRUSTED in quoted.labels for quoted in pieces):
        return False
    kinds = frozenset(rule.carries)
    return not kinds or any(kinds & facts.carried(text).keys() for text in words)


def _ends_in(name: str, words: frozenset[str]) -> bool:
    match = _FINAL_WORD.search(name)
    return match is not None and match[0].lower() in words


def _addresses(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the addresses in *texts*: whole arguments that name some, and URLs inside of texts."""
    for name, text in texts:
        if _ends_in(name, _RECIPIENTS) or recipients_in(text):
            yield from filter(None, map(str.strip, re.split(r"[,;\n]", text)))
        else:
            yield from [match[0] for match in URL.finditer(text)]


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in *value*, keys included, each with the name of its argument."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield "", key
            yield from _texts(item, key)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _texts(item, name)
    elif isinstance(value, int):
        yield name, str(value)
