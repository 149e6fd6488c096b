"""The rules by which `FlowGuard(sinks=…)` judges calls without a policy.

They are those of the starting policy, but a tool's name alone says which sink it is: all words of
a call may be its target, and each word that is alone may be its address. No reason repeats a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask
from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, UNTRUSTED
from toolbus.flow.message_labels import strings_of
from toolbus.flow.named_addresses import URL, recipient_of
from toolbus.flow.sources import read_globs
from toolbus.messages.records import encode
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.components.call_facts import CallFacts
    from toolbus.messages.records import ToolCall

SINKS = ("network", "message", "execute", "destroy")


class FlowRule(NamedTuple):
    """A rule that asks about calls of these *sinks* if all of its conditions hold.

    The call *carries* one of these kinds of values, texts with all labels *in_view* were in view,
    it *quotes* an untrusted text, or it reaches a *new_host*.
    """

    reason: str
    sinks: tuple[str, ...]
    carries: tuple[str, ...] = ()
    in_view: tuple[str, ...] = ()
    quotes: bool = False
    new_host: bool = False


_LEAVING = ("network", "message")
_NEW = "secret or private values would go to an address that no person named"
_SECRET = "a secret or a card may leave, after a stranger's text was read"  # noqa: S105 - a reason
RULES = (
    FlowRule(_NEW, _LEAVING, ("secret", "card", "iban", PRIVATE), new_host=True),
    FlowRule(_SECRET, (*_LEAVING, "execute"), ("secret", "card"), in_view=(UNTRUSTED,)),
    FlowRule("a stranger's text names the target", ("network", "destroy"), quotes=True),
    FlowRule("it runs words of a stranger's text", ("execute",), quotes=True),
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
    texts = list(strings_of((*call.arguments.values(),)))
    broken = [
        rule.reason
        for rule in RULES
        if reached.intersection(rule.sinks)
        and facts.in_view.keys() >= {*rule.in_view}
        and (not rule.new_host or _is_new(texts, facts))
        and _holds(rule, [*texts, encode(call.arguments).decode()], facts)
    ]
    return Ask("; ".join(broken)) if broken else None


def _holds(rule: FlowRule, words: Iterable[str], facts: CallFacts) -> bool:
    """Return whether *words*, together at the end, quote and carry what *rule* forbids."""
    if rule.quotes:
        return any(UNTRUSTED in quote.labels for text in words for quote in facts.quoted(text))
    return any(not facts.carried(text).keys().isdisjoint(rule.carries) for text in words)


def _is_new(texts: Iterable[str], facts: CallFacts) -> bool:
    """Return whether *texts* have no address that a person named, or another one as well."""
    addresses = [address for text in texts for address in _addresses(text)]
    return not addresses or not all(map(facts.is_named, addresses))


def _addresses(text: str) -> Iterator[str]:
    """Yield the URLs and mailboxes in *text*, or all of it if it is one word or one account."""
    words = text.replace(",", " ").replace(";", " ").split()
    if len(words) == 1 or recipient_of(text):
        yield text
    else:
        yield from URL.findall(text)
        yield from [word for word in words if "@" in word and "://" not in word]
