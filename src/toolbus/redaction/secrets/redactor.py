"""The redactor: it cleans records of one session after another, and puts values back."""

from __future__ import annotations

import logging
import time
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.redaction.secrets.books import Books
from toolbus.redaction.secrets.examining import (
    Cleaner,
    Limits,
    Looker,
    SecretVisitor,
    UnexaminedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.books import Book
    from toolbus.redaction.secrets.engine import Engine

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
        self.books = Books()
        self._engine, self._allow = engine, allow
        self._limits = Limits(chars, seconds, clock)
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
        with self._lock:
            book = self.books.of(session)
            try:
                return self._cleaned(book, record, walk, look=look, stream=stream)
            except UnexaminedError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may pass
                # Its text and its frames may hold what was looked at.
                logger.error("secrets could not be looked for: %s", type(error).__name__)  # noqa: TRY400
                raise UnexaminedError("it could not be looked through") from None
            finally:
                book.shrink()

    def restore(self, session: str, record: T, walk: Callable[[T, TextVisitor], T]) -> T:
        """Return *record* with values where placeholders of *session* stand."""
        with self._lock:
            return walk(record, _Restorer(self.books.of(session)))

    def note(
        self, session: str, records: tuple[T, ...], walk: Callable[[T, TextVisitor], T]
    ) -> None:
        """Note the placeholders in the *records* that *session* had before we knew of it, once."""
        with self._lock:
            book = self.books.of(session)
            if not book.noted:
                book.noted = True
                for record in records:
                    walk(record, _Noter(book))

    def _cleaned(
        self,
        book: Book,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        *,
        look: bool,
        stream: str | None,
    ) -> T:
        tail = None if stream is None else book.tail(stream)
        last = ""
        for _ in range(_ROUNDS):
            looker = Looker(self._engine, book, self._allow, self._limits) if look else None
            if looker is not None:
                seer = _Following(looker, tail)
                walk(record, seer)
                last = last or seer.last
            new = walk(record, _Following(Cleaner(book, looker), tail))
            if new is record:
                break
            record = new
        if stream is not None:
            book.follow(stream, last[-_TAIL:])
        return record


class _Following(SecretVisitor):
    """Shows *visitor* the first texts behind *tail*, which went before them."""

    def __init__(self, visitor: TextVisitor, tail: str | None) -> None:
        self._visitor, self._tail, self.last = visitor, tail, ""

    def json(self, value: Any) -> Any:
        return self._visitor.json(value)

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        if not self._tail:
            self.last = self.last or texts[-1]
            return self._visitor.texts(texts)
        tail, self._tail, self.last = self._tail, None, texts[-1]
        return self._visitor.texts((tail, *texts))[1:]


class _Restorer(SecretVisitor):
    """Puts the values of *book* where their placeholders stand."""

    def __init__(self, book: Book) -> None:
        self._restored = book.restored

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        return tuple(map(self._restored, texts))


class _Noter(SecretVisitor):
    """Tells *book* of the placeholders that stand in texts."""

    def __init__(self, book: Book) -> None:
        self._note = book.note

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        for text in texts:
            self._note(text)
        return texts
