"""The redactor: it cleans records of one session after another, and puts values back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from toolbus.messages.codec import encode
from toolbus.messages.text_walker import rewrite_response, updated
from toolbus.redaction.limits import SLICE, ScanLimits, UnexaminedError
from toolbus.redaction.numbering import agree, join
from toolbus.redaction.secrets.examination import Examination, Sight
from toolbus.redaction.secrets.quoting import Unquoter
from toolbus.redaction.secrets.secret_registry import SessionRegistries

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.components.state import State
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.engine import Engine
    from toolbus.redaction.secrets.secret_registry import Caller, SecretRegistry
    from toolbus.redaction.secrets.vault import Vault

T = TypeVar("T")

_END = object()


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
        limits = ScanLimits(chars, seconds, clock)
        self._looking, self._knowing = Sight(engine, allow, limits), Sight(None, allow, limits)

    def clean(
        self,
        session: str,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        *,
        look: bool = True,
        stream: str | None = None,
    ) -> T:
        """Return *record* of *session* without secrets; the same object if it has none.

        *walk* takes a visitor over its texts. Without *look* only those that are known are taken
        out. Records of one *stream* follow each other. Raises `UnexaminedError`.
        """
        with self.registries.lock:
            registry = self.registries.of(session)
            sight = self._looking if look else self._knowing
            examination = Examination(record, walk, registry, sight, stream)
            for _ in examination.slices():
                pass
            return examination.record

    def passes(
        self,
        session: str,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        *,
        look: bool = True,
        stream: str | None = None,
    ) -> bool:
        """Return whether a quick look shows that `clean_agreed` would return *record* itself."""
        sight = self._looking if look else self._knowing
        with self.registries.lock:
            registry = self.registries.of(session)
            # What another task is examining may be known when this record has its turn.
            if registry.lock.here().locked():
                return False
            return Examination(record, walk, registry, sight, stream).is_clean()

    async def clean_agreed(
        self,
        session: str,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        state: State | None,
        *,
        look: bool = True,
        stream: str | None = None,
    ) -> T:
        """Do as `clean`, with numbers that all processes of the session agree on, in *state*.

        The event loop turns meanwhile; records of one session wait for each other. Cancelled, it
        has found nothing. Raises `UnexaminedError` and `StoreError`.
        """
        registry = self.registry(session)
        sight = self._looking if look else self._knowing

        async def work() -> T | UnexaminedError:
            examination = Examination(record, walk, registry, sight, stream)
            try:
                await self._run(examination)
            except UnexaminedError as error:
                # What was found until then has its number, and is found again in other forms.
                return error
            return examination.record

        cleaned = await agree(registry, work, state)
        if isinstance(cleaned, UnexaminedError):
            raise cleaned
        return cleaned

    async def _run(self, examination: Examination[T]) -> None:
        """Run all slices of *examination*, and let the loop turn between them."""
        slices, locked = examination.slices(), self.registries.lock
        try:
            until = time.monotonic() + SLICE
            while True:
                with locked:
                    if next(slices, _END) is _END:
                        return
                if time.monotonic() > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + SLICE
        finally:
            with locked:
                slices.close()

    async def filled(self, session: str, call: ToolCall, vault: Vault) -> ToolCall:
        """Return *call* with values of *session* where *vault* allows it."""
        registry = self.registry(session)
        # Not while a record is examined: what was given out is known from here on.
        async with registry.lock.here():
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
        registry = self.registry(session)
        await join(registry, state)
        with self.registries.lock:
            if not registry.is_new(message_id):
                return response
            unquoter = Unquoter(registry.suffix, registry.answered(caller))
            return rewrite_response(response, unquoter, parameters=False)

    def unquoted_spec(self, session: str, spec: ToolSpec) -> ToolSpec:
        """Return *spec*, as somebody tells it, with no placeholder of *session*."""
        suffix = self.registry(session).suffix
        if suffix.encode() not in encode(spec):
            return spec
        unquoter = Unquoter(suffix)
        (description,) = unquoter.texts((spec.description,))
        return updated(
            spec,
            description=description,
            input_schema=unquoter.json(spec.input_schema),
            output_schema=unquoter.json(spec.output_schema),
            annotations=unquoter.json(spec.annotations),
        )

    def registry(self, session: str) -> SecretRegistry:
        """Return what is known of the secrets of *session*."""
        with self.registries.lock:
            return self.registries.of(session)
