"""The redactor of records, for all sessions, and the way back from placeholders to values."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeVar

from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.text_walker import updated
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
    """Strips the letters of *placeholders* and the suffix of *former* ones from texts.

    Placeholders that are *allowed* stay.
    """

    def __init__(
        self,
        placeholders: SessionPlaceholders,
        former: FormerPlaceholders | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        self._placeholders = placeholders
        # Allowed placeholders match first, and yield no span.
        parts = [*map(re.escape, allowed), LETTERS.pattern]
        if former is not None and former.suffix:
            parts.append(rf"(?<![A-Za-z0-9])({former.suffix})(?![A-Za-z0-9])")
        self._pattern = re.compile("|".join(parts))

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return *texts* without quoted placeholders, also across adjoining texts."""
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
    """Yield *whole* between *bounds*, with a mark in place of each of *spans*."""
    index = 0
    for begin, end in pairwise(bounds):
        pieces, position = list[str](), begin
        while index < len(spans) and spans[index][0] < end:
            start, stop = spans[index]
            pieces += [whole[position : max(start, begin)], QUOTED if start >= begin else ""]
            position = min(stop, end)
            if stop > end:
                break  # The span continues in the next text.
            index += 1
        yield "".join([*pieces, whole[position:end]])


T = TypeVar("T")


class Redactor:
    """Redacts matches of *engine* in records, except the values *allow*, exact or glob patterns.

    One record may have *chars* characters of text, and its scan may take *seconds*, not counting
    other tasks.
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
        """The key of placeholders; None for the user's key."""
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

        *walk* visits its texts. Without *look* only known secrets are removed. Records of one
        *stream* adjoin. The scan yields to other tasks; records of one session, whose state
        *state_of* returns, wait for each other. Raises `UnexaminedError` and `StoreError`.
        """
        sight = self._looking if look else self._knowing
        with self.registries.lock:
            registry = self.registries.of(session)
            examination = Examination(record, walk, registry, sight, stream)
            # A scan of another task may register secrets that this record holds as well.
            if not registry.lock.current().locked() and examination.begin():
                return examination.record
        registry.placeholders.begin(state_of(), self.key)
        async with registry.lock.current():
            return await registry.placeholders.salted(
                partial(examination.end, self.registries.lock)
            )

    async def for_display(self, session: str, record: T, state: State | None) -> T:
        """Return *record*, a message, a call or a text, with secrets as `(secret github-pat)`.

        Placeholders stay. Raises `UnexaminedError` and `StoreError`.
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
        """Return *call* with the values of *session* that *vault* allows. Raises `StoreError`."""
        registry = self.registry(session, state)
        if may_hold_former(call.arguments):
            await self.read_former(registry, state)
        # Under the lock of the session's scans: values given out are known secrets from here on.
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
        """Return a tool's *response* with no placeholder of *session*.

        Placeholders made by a component in the message *message_id* stay, and so do those that a
        sub-agent wrote below the call *caller*. Raises `StoreError`.
        """
        registry = self.registry(session, state)
        former = await self.read_former(registry, state)
        with self.registries.lock:
            if not registry.is_new(message_id):
                return response
            unquoter = Unquoter(registry.placeholders, former, registry.answered(caller))
            return rewrite_response(response, unquoter, parameters=False)

    async def unquoted_spec(self, session: str, spec: ToolSpec, state: State | None) -> ToolSpec:
        """Return a tool's *spec* with no placeholder of *session*."""
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
        """Return a session's placeholders of 0.3, read once. Raises `StoreError`."""
        if registry.former is None:
            registry.former = await former_placeholders(state)
        return registry.former

    def registry(self, session: str, state: State | None) -> SecretRegistry:
        """Return the registry of the secrets of *session*, whose state is *state*."""
        with self.registries.lock:
            registry = self.registries.of(session)
            registry.placeholders.begin(state, self.key)
            return registry


class _Mapper(SecretVisitor):
    """Applies *change* to each text."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        return tuple(map(self._change, texts))
