"""The redactor: it cleans records of one session after another, and puts values back."""

from __future__ import annotations

import logging
import time
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.messages.text_walker import TextMapper, rewrite_call, rewrite_message
from toolbus.redaction.numbering import agree
from toolbus.redaction.secrets.scanning import (
    Rewriter,
    ScanLimits,
    Scanner,
    SecretVisitor,
    UnexaminedError,
)
from toolbus.redaction.secrets.secret_registry import SessionRegistries

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.components.state import State
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.engine import Engine
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

T = TypeVar("T")
logger = logging.getLogger("toolbus")

# What was taken out may have stood between two halves of something else.
_ROUNDS = 3
_TAIL = 512


class Redactor:
    """Cleans records of what *engine* finds, but for the values *allow*, exact or as patterns.

    No more than *chars* of text are looked at in one record, and no longer than *seconds*.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        allow: tuple[str, ...] = (),
        chars: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registries = SessionRegistries()
        self._engine, self._allow = engine, allow
        self._limits = ScanLimits(chars, seconds, clock)
        # Threads may dispatch at the same time.
        self._lock = RLock()

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
        registry = self._registry(session)
        return self._checked(registry, record, walk, look=look, stream=stream)

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

        Raises `UnexaminedError` and `StoreError`.
        """
        registry = self._registry(session)

        def work() -> T | UnexaminedError:
            try:
                return self._checked(registry, record, walk, look=look, stream=stream)
            except UnexaminedError as error:
                # What was found until then has its number, and is found again in other forms.
                return error

        cleaned = await agree(registry, work, state)
        if isinstance(cleaned, UnexaminedError):
            raise cleaned
        return cleaned

    def _registry(self, session: str) -> SecretRegistry:
        with self._lock:
            return self.registries.of(session)

    def _checked(
        self,
        registry: SecretRegistry,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        *,
        look: bool,
        stream: str | None,
    ) -> T:
        with self._lock:
            try:
                return self._cleaned(registry, record, walk, look=look, stream=stream)
            except UnexaminedError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may pass
                # Its text and its frames may hold what was looked at.
                logger.error("secrets could not be looked for: %s", type(error).__name__)  # noqa: TRY400
                raise UnexaminedError("it could not be looked through") from None
            finally:
                registry.shrink()

    def restore(self, session: str, call: ToolCall) -> ToolCall:
        """Return *call* with values where placeholders of *session* stand."""
        with self._lock:
            return rewrite_call(call, TextMapper(self.registries.of(session).restored))

    def note(self, session: str, messages: tuple[Message, ...]) -> None:
        """Note the placeholders in the *messages* that *session* had before we knew of it, once."""
        with self._lock:
            registry = self.registries.of(session)
            if not registry.noted:
                registry.noted = True
                for message in messages:
                    rewrite_message(message, _Noter(registry))

    def _cleaned(
        self,
        registry: SecretRegistry,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        *,
        look: bool,
        stream: str | None,
    ) -> T:
        tail = None if stream is None else registry.tail(stream)
        latest = ""
        for _ in range(_ROUNDS):
            scanner = Scanner(self._engine, registry, self._allow, self._limits) if look else None
            if scanner is not None:
                seer = _TailVisitor(scanner, tail)
                walk(record, seer)
                latest = latest or seer.latest
            new = walk(record, _TailVisitor(Rewriter(registry, scanner), tail))
            if new is record:
                break
            record = new
        if stream is not None:
            registry.follow(stream, latest[-_TAIL:])
        return record


class _TailVisitor(SecretVisitor):
    """Shows *visitor* the first texts behind *tail*, which went before them."""

    def __init__(self, visitor: TextVisitor, tail: str | None) -> None:
        self._visitor, self._tail, self.latest = visitor, tail, ""

    def json(self, value: Any) -> Any:
        return self._visitor.json(value)

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        if not self._tail:
            self.latest = self.latest or texts[-1]
            return self._visitor.texts(texts)
        tail, self._tail, self.latest = self._tail, None, texts[-1]
        return self._visitor.texts((tail, *texts))[1:]


class _Noter(SecretVisitor):
    """Tells *registry* of the placeholders that stand in texts."""

    def __init__(self, registry: SecretRegistry) -> None:
        self._note = registry.note

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        for text in texts:
            self._note(text)
        return texts
