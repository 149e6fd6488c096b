"""The rules by which `FlowGuard(sinks=…)` judges calls without a policy.

They are those of the starting policy, but a tool's name alone says which sink it is: all words of
a call may be its target, and each word that is alone may be its address. No reason repeats a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask
from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, UNTRUSTED, strings_of
from toolbus.flow.named_addresses import URL, recipient_of
from toolbus.flow.sources import read_globs
from toolbus.messages.records import encode
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from toolbus.components.call_facts import CallFacts
    from toolbus.messages.records import ToolCall

SINKS = ("network", "message", "execute", "destroy")
_SECRETS = frozenset(["secret", "card"])
_VALUES = _SECRETS | {"iban", PRIVATE}
NEW_HOST = "secret or private values would go to an address that no person named"
BESIDE_STRANGERS = "a secret or a card may leave, after a stranger's text was read"
TARGET = "a stranger's text names the target"
RUNS = "it runs words of a stranger's text"
_QUOTES = {TARGET: {"network", "destroy"}, RUNS: {"execute"}}


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
    if not reached:
        return None
    texts = list(strings_of((*call.arguments.values(),)))
    # A value may be split over several arguments.
    words = [*texts, encode(call.arguments).decode()]
    kinds = {kind for text in words for kind in facts.carried(text)}
    reasons = [*_reasons_of_values(kinds, texts, reached, facts)]
    if _quote_strangers(words, facts):
        reasons += [reason for reason, of in _QUOTES.items() if reached & of]
    return Ask("; ".join(reasons)) if reasons else None


def _reasons_of_values(
    kinds: AbstractSet[str], texts: Iterable[str], reached: AbstractSet[str], facts: CallFacts
) -> Iterator[str]:
    if reached & {"network", "message"} and kinds & _VALUES and _is_new(texts, facts):
        yield NEW_HOST
    if reached - {"destroy"} and kinds & _SECRETS and UNTRUSTED in facts.in_view:
        yield BESIDE_STRANGERS


def _quote_strangers(words: Iterable[str], facts: CallFacts) -> bool:
    quotes = chain.from_iterable(map(facts.quoted, words))
    return any(UNTRUSTED in quote.labels for quote in quotes)


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
