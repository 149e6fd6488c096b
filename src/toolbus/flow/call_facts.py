"""The facts about the words of one call: the labels in view, quotes, values and named addresses."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from toolbus.components.call_facts import QuotedPiece
from toolbus.flow.carried_values import (
    SECRET,
    UNREAD,
    kinds_of_placeholders,
    kinds_of_values,
    piece_in,
)
from toolbus.flow.decoded_texts import DecodedTexts, read_argument
from toolbus.flow.labels import PRIVATE, UNKNOWN, UNTRUSTED
from toolbus.flow.named_addresses import (
    NamedAddresses,
    decoded_url,
    recipient_of,
)
from toolbus.flow.quotes import covers, find_quotes, vouched_quotes
from toolbus.flow.sources import CallFolders
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.call_facts import FactSources
    from toolbus.flow.quotes import Quote
    from toolbus.flow.session_views import LabelledText, RootFacts, SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import ToolCall

_LONGEST_LINE = 1_000
"""Characters before a quote that are searched for the beginning of its command."""
_COMMAND_END = re.compile(r"[\n;&|(`]")
_RUNNERS = frozenset({"sh", "bash", "zsh", "source", ".", "exec", "python", "python3", "node"})
"""Programs that run their operands."""
_FILE = re.compile(r"[\w-]+(?:/[\w-][\w.-]*)*/[\w-]+(?:\.[\w-]+)+")
_DOUBTS = frozenset([UNTRUSTED, UNKNOWN])


class CallFactMaker:
    """Makes the facts of calls by *settings*; components of *sources* read effects."""

    def __init__(self, settings: FlowSettings, sources: FactSources) -> None:
        self._settings, self._sources = settings, sources
        self._named: WeakKeyDictionary[RootFacts, NamedAddresses] = WeakKeyDictionary()

    async def facts(self, ctx: EventContext[ToolCall], view: SessionView) -> FlowFacts:
        """Return the facts of the call of *ctx*, made by the model of *view*."""
        named = self._named.get(view.root)
        if named is None:
            named = self._named[view.root] = NamedAddresses((), self._settings.trusted_hosts)
        named.read(view.root.person_texts)
        sends_private = self._settings.private_paths and await self._sends_private_file(ctx)
        always = {PRIVATE: "the files that it sends"} if sends_private else {}
        if ctx.original is not ctx.value:
            # A handler may have put values in place of the model's placeholders.
            always |= dict(kinds_of_placeholders(encode(ctx.original).decode()))
        call_id = ctx.value.id
        return FlowFacts(view.before(call_id), view.labels_before(call_id), named, always)

    async def _sends_private_file(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether the call of *ctx* may send a private file, or a folder around one."""
        folders = CallFolders.of(ctx.scope)
        for reader in self._sources.effects:
            effects = await reader.effects_of(ctx.value, ctx.tool, ctx.scope)
            reads = effects.reads if effects and "network" in effects.does else ()
            if any(self._settings.may_hold_private(path, folders) for path in reads):
                return True
        return False


class FlowFacts:
    """The facts about the words of a call, made when *view* was in view, with labels *in_view*.

    *named* has the addresses of the session's persons. All texts of the call carry the kinds that
    it *always* carries.
    """

    def __init__(
        self,
        view: Sequence[LabelledText],
        in_view: Mapping[str, str],
        named: NamedAddresses,
        always: Mapping[str, str] = EMPTY,
    ) -> None:
        self._view, self._named, self._always, self.in_view = view, named, always, in_view

    @cached_property
    def _sources(self) -> list[LabelledText]:
        return [labelled for labelled in self._view if labelled.is_source]

    @cached_property
    def _secrets(self) -> dict[str, str]:
        """The sources of the pieces of all secrets in view: a text is searched once for all."""
        sources = reversed(self._sources)
        return {part: each.source for each in sources for part in each.secrets}

    def quoted(self, text: str) -> Sequence[QuotedPiece]:
        """Return the pieces of *text*, also encoded ones, that stand in the texts in view.

        A piece that a trusted text says as well is not untrusted; and one that a text without any
        label says, such as a person's, is left out.
        """
        return [*dict.fromkeys(self._pieces_of(text))]

    def carried(self, text: str) -> Mapping[str, str]:
        """Return the kinds of values in *text*, in any reading, with their origins."""
        return {**dict(reversed([*self._kinds_in(text)])), **self._always}

    def is_named(self, address: str) -> bool:
        """Return whether a person or a setting named *address*.

        A mailbox or an account may stand in a trusted text in view instead; a host may not, for a
        document names many.
        """
        return self._named.is_named(address) or self._stand_in_view([address], _DOUBTS)

    def _stand_in_view(self, recipients: Iterable[str], without: frozenset[str]) -> bool:
        """Return whether sources *without* these labels have all of *recipients*."""
        sources = [each for each in self._sources if each.label.names.isdisjoint(without)]
        return all(
            any(recipient_of(each) in source.addresses for source in sources) for each in recipients
        )

    def _covers(self, quotes: Sequence[Quote], without: frozenset[str]) -> Callable[[Quote], bool]:
        """Return whether a quote is within *quotes* of sources *without* these labels."""
        names = [self._sources[quote.number].label.names for quote in quotes]
        allowed = [each.isdisjoint(without) for each in names]
        return covers(compress(quotes, allowed))

    def _pieces_of(self, text: str) -> Iterator[QuotedPiece]:
        if not self.in_view:
            return
        argument, url = read_argument(text), decoded_url(text.strip())
        for source in self._sources:
            labels = source.label.names
            # The rest of a text that is not read to its end may hold any text.
            is_read = argument.is_complete and source.index.is_complete
            texts = [*([] if is_read else [""]), *([text] if url in source.addresses else [])]
            for each in texts if labels else ():
                yield QuotedPiece(each, source.source, labels, source.message_id)
        for reading in argument.texts:
            yield from self._pieces_in(reading)

    def _pieces_in(self, reading: str) -> Iterator[QuotedPiece]:
        quotes = find_quotes(reading, [source.index for source in self._sources])
        vouched = vouched_quotes(quotes, reading, self._sources)
        is_trusted = self._covers(vouched, _DOUBTS)
        is_public = self._covers(vouched, _DOUBTS | {PRIVATE})
        for quote in quotes:
            source = self._sources[quote.number]
            labels = source.label.names
            are_named = self._named.are_named_files(quote.text)
            if is_trusted(quote) or are_named or _is_operand(quote, reading):
                labels -= _DOUBTS
            if labels and not is_public(quote):
                yield QuotedPiece(quote.text, source.source, labels, source.message_id)

    def _kinds_in(self, text: str) -> Iterator[tuple[str, str]]:
        # To write to a person is not to tell others the person's address; but an address that no
        # text in view has may be made of private words.
        are_old = self._stand_in_view(re.split("[,;]", text), frozenset())
        for quoted in () if are_old else self.quoted(text):
            if PRIVATE in quoted.labels:
                yield PRIVATE, quoted.source
        readings = DecodedTexts([text])
        for reading in readings.texts:
            yield from kinds_of_values(reading)
            if (part := piece_in(reading, self._secrets)) is not None:
                yield SECRET, self._secrets[part]
        # The rest of a text that is not read to its end may be any value.
        yield from () if readings.is_complete else UNREAD.items()


def _is_operand(quote: Quote, reading: str) -> bool:
    """Return whether *quote* is a relative file that a program gets behind its first operand.

    The first words of a line are the program, a script or a target, which a stranger may not name.
    """
    around = reading[max(quote.start - 1, 0) : quote.end + 1].strip(" \n'\"")
    if around != quote.text or not _FILE.fullmatch(around):
        return False
    before = _COMMAND_END.split(reading[max(quote.start - _LONGEST_LINE, 0) : quote.start])[-1]
    words = [word for word in before.split() if not word.startswith("-")]
    return len(words) > 1 and _RUNNERS.isdisjoint(words)
