"""The redactor: it cleans records of one session after another, and puts values back."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeVar

from toolbus.messages.text_walker import rewrite_response, updated
from toolbus.redaction.limits import ScanLimits
from toolbus.redaction.live_placeholders import former_placeholders, may_hold_former
from toolbus.redaction.placeholders import LETTERS, kind_of, placeholders_in, restored
from toolbus.redaction.records import rewrite_record
from toolbus.redaction.secrets.collecting import SecretVisitor
from toolbus.redaction.secrets.examination import Examination, Sight
from toolbus.redaction.secrets.secret_registry import SessionRegistries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from toolbus.components.state import State
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.live_placeholders import FormerPlaceholders
    from toolbus.redaction.placeholders import SessionPlaceholders
    from toolbus.redaction.secrets.engine import Engine
    from toolbus.redaction.secrets.secret_registry import Caller, SecretRegistry
    from toolbus.redaction.secrets.vault import Vault

QUOTED = "(quoted)"
"""The mark in place of the letters: `[github-pat-(quoted)]` is not a placeholder."""


class Unquoter(SecretVisitor):
    """Takes the letters of *placeholders* out of texts, and the suffix of the *former* ones.

    Those of the placeholders *allowed* stay.
    """

    def __init__(
        self,
        placeholders: SessionPlaceholders,
        former: FormerPlaceholders | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        self._placeholders = placeholders
        # What is allowed comes first, and is no span.
        parts = [*map(re.escape, allowed), LETTERS.pattern]
        if former is not None and former.suffix:
            parts.append(rf"(?<![A-Za-z0-9])({former.suffix})(?![A-Za-z0-9])")
        self._pattern = re.compile("|".join(parts))

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return *texts* without quotations, also where one goes on in the next text."""
        whole = "".join(texts)
        spans = [*self._quotations(whole)]
        if not spans:
            return texts
        return tuple(_pieces(whole, spans, [0, *accumulate(map(len, texts))]))

    def _quotations(self, whole: str) -> Iterator[tuple[int, int]]:
        for match in self._pattern.finditer(whole):
            group = match.lastindex
            if group == 2 or (group == 1 and self._placeholders.is_own(match[1])):  # noqa: PLR2004 - the suffix
                yield match.span(group)


def _pieces(whole: str, spans: list[tuple[int, int]], bounds: list[int]) -> Iterator[str]:
    """Give *whole* between *bounds*, with a mark where one of *spans* begins and none of it."""
    index = 0
    for begin, end in pairwise(bounds):
        pieces, position = list[str](), begin
        while index < len(spans) and spans[index][0] < end:
            start, stop = spans[index]
            pieces += [whole[position : max(start, begin)], QUOTED if start >= begin else ""]
            position = min(stop, end)
            if stop > end:
                break  # It goes on in the next text.
            index += 1
        yield "".join([*pieces, whole[position:end]])


T = TypeVar("T")


class Redactor:
    """Cleans records of what *engine* finds, but for the values *allow*, exact or as patterns.

    No more than *chars* of text are looked at in one record, and no longer than *seconds*, in
    which the turns of others do not count.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        allow: tuple[str, ...] = (),
        chars: int,
        seconds: float,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.registries = SessionRegistries()
        self.key: bytes | None = None
        """The key of placeholders; None: the user's."""
        limits = ScanLimits(chars, seconds, clock)
        self._looking, self._knowing = Sight(engine, allow, limits), Sight(None, allow, limits)

    async def clean(
        self,
        session: str,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        state_of: Callable[[], State | None] = lambda: None,
        *,
        look: bool = True,
        stream: str | None = None,
    ) -> T:
        """Return *record* of *session* without secrets; the same object if it has none.

        *walk* takes a visitor over its texts. Without *look* only those that are known are taken
        out. Records of one *stream* follow each other. The event loop turns meanwhile; records of
        one session, whose state *state_of* gives, wait for each other. Raises `UnexaminedError` and
        `StoreError`.
        """
        sight = self._looking if look else self._knowing
        with self.registries.lock:
            registry = self.registries.of(session)
            examination = Examination(record, walk, registry, sight, stream)
            # What another task is examining may be known when this record has its turn.
            if not registry.lock.current().locked() and examination.begin():
                return examination.record
        registry.placeholders.begin(state_of(), self.key)
        async with registry.lock.current():
            return await registry.placeholders.salted(
                partial(examination.end, self.registries.lock)
            )

    async def concealed(self, session: str, record: T, state: State | None) -> T:
        """Return *record*, a message, a call or a text, with `(secret github-pat)` for secrets.

        Placeholders in it stay. Raises `UnexaminedError` and `StoreError`.
        """
        before = set[str]()

        def note(text: str) -> str:
            before.update(placeholders_in(text))
            return text

        def mark(placeholder: str) -> str | None:
            return None if placeholder in before else f"(secret {kind_of(placeholder)})"

        rewrite_record(record, _Mapper(note))
        cleaned = await self.clean(session, record, rewrite_record, lambda: state)
        return rewrite_record(cleaned, _Mapper(lambda text: restored(text, mark)))

    async def filled(
        self, session: str, call: ToolCall, vault: Vault, state: State | None
    ) -> ToolCall:
        """Return *call* with values of *session* where *vault* allows it. Raises `StoreError`."""
        registry = self.registry(session, state)
        if may_hold_former(call.arguments):
            await self.read_former(registry, state)
        # Not while a record is examined: what was given out is known from here on.
        async with registry.lock.current():
            with self.registries.lock:
                filled = vault.filled(call, registry.restored)
                registry.shrink()
                return filled

    async def unquoted(
        self,
        session: str,
        response: ToolResponse,
        state: State | None,
        message_id: str,
        caller: Caller,
    ) -> ToolResponse:
        """Return *response*, as its tool gave it, with no placeholder of *session*.

        What a component has cleaned in the message *message_id* stays, and so do placeholders
        that a sub-agent said below the call *caller*. Raises `StoreError`.
        """
        registry = self.registry(session, state)
        former = await self.read_former(registry, state)
        with self.registries.lock:
            if not registry.is_new(message_id):
                return response
            unquoter = Unquoter(registry.placeholders, former, registry.answered(caller))
            return rewrite_response(response, unquoter, parameters=False)

    async def unquoted_spec(self, session: str, spec: ToolSpec, state: State | None) -> ToolSpec:
        """Return *spec*, as somebody tells it, with no placeholder of *session*."""
        registry = self.registry(session, state)
        unquoter = Unquoter(registry.placeholders, await self.read_former(registry, state))
        (description,) = unquoter.texts((spec.description,))
        return updated(
            spec,
            description=description,
            input_schema=unquoter.json(spec.input_schema),
            output_schema=unquoter.json(spec.output_schema),
            annotations=unquoter.json(spec.annotations),
        )

    async def read_former(
        self, registry: SecretRegistry, state: State | None
    ) -> FormerPlaceholders:
        """Return the placeholders of 0.3 of a session, which are read once. Raises `StoreError`."""
        if registry.former is None:
            registry.former = await former_placeholders(state)
        return registry.former

    def registry(self, session: str, state: State | None) -> SecretRegistry:
        """Return what is known of the secrets of *session*, for which *state* is kept."""
        with self.registries.lock:
            registry = self.registries.of(session)
            registry.placeholders.begin(state, self.key)
            return registry


class _Mapper(SecretVisitor):
    """Changes each text by itself, wherever it stands."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        return tuple(map(self._change, texts))
