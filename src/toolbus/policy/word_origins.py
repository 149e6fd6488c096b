"""The facts of other components about the origin of a call's words, joined for all rules."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from toolbus.components.call_facts import FactSources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.call_facts import CallFacts, QuotedPiece
    from toolbus.messages.records import ToolCall

logger = logging.getLogger("toolbus")


class JoinedFacts:
    """The facts of one or more *sources*, joined by the most restrictive, each computed once."""

    def __init__(self, sources: Sequence[CallFacts]) -> None:
        self._sources = sources
        self._quoted: dict[str, Sequence[QuotedPiece]] = {}
        self._carried: dict[str, Mapping[str, str]] = {}
        self.in_view: Mapping[str, str] = {
            label: source for each in reversed(sources) for label, source in each.in_view.items()
        }

    def quoted(self, text: str) -> Sequence[QuotedPiece]:
        """Return the pieces of *text* that stand in the texts in view."""
        if text not in self._quoted:
            pieces = chain.from_iterable([each.quoted(text) for each in self._sources])
            self._quoted[text] = tuple(pieces)
        return self._quoted[text]

    def carried(self, text: str) -> Mapping[str, str]:
        """Return the kinds of values in *text*, with their origins."""
        if text not in self._carried:
            kinds = [each.carried(text).items() for each in reversed(self._sources)]
            self._carried[text] = dict(chain.from_iterable(kinds))
        return self._carried[text]

    def is_named(self, address: str) -> bool:
        """Return whether every source knows that a person named *address*."""
        return all(each.is_named(address) for each in self._sources)


class OriginReader:
    """Reads the origin of words for one policy; without a source it warns once."""

    def __init__(self) -> None:
        self._has_warned = False

    async def read(self, bus: EventBus, ctx: EventContext[ToolCall]) -> JoinedFacts | None:
        """Return the facts that components on *bus* know about the call of *ctx*."""
        answers = [await each.facts_of(ctx) for each in bus.shared(FactSources).facts]
        if facts := [each for each in answers if each is not None]:
            return JoinedFacts(facts)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "rules of the policy need the origin of words, which no component knows, so they"
                ' ask; add the component `use = "flow"`'
            )
        return None
