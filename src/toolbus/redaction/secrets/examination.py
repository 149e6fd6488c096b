"""One examination of a record, in slices: gather its texts, look at them, write it anew."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.secrets.collecting import Collector, TailVisitor
from toolbus.redaction.secrets.rewriting import Rewriter
from toolbus.redaction.secrets.scanning import Scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.limits import ScanLimits
    from toolbus.redaction.secrets.engine import Engine
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

T = TypeVar("T")
logger = logging.getLogger("toolbus")

# What was taken out may have stood between two halves of something else.
_ROUNDS = 3
_LONGER = 16


class Sight(NamedTuple):
    """What an examination looks with: *engine*, if it is to find what nobody knows yet."""

    engine: Engine | None
    allow: tuple[str, ...]
    limits: ScanLimits


class Examination(Generic[T]):
    """Cleans *record*, over whose texts *walk* takes a visitor; *stream* is what it is a piece of.

    After all `slices` have run, `record` is the clean one; the same object if it was clean.
    """

    def __init__(
        self,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        registry: SecretRegistry,
        sight: Sight,
        stream: str | None = None,
    ) -> None:
        self.record, self._walk, self._registry, self._sight = record, walk, registry, sight
        self._stream, self._chars = stream, 0

    def slices(self) -> Generator[None, None, None]:
        """Do the work; others may have their turn after each item. Raises `UnexaminedError`.

        Only the work's own time counts.
        """
        limits, work = self._sight.limits, self._work()
        spent, since = 0.0, limits.clock()
        try:
            for _ in work:
                spent += limits.clock() - since
                limits.check(spent, self._chars)
                yield
                since = limits.clock()
        except UnexaminedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may pass
            # Its text and its frames may hold what was looked at.
            logger.error("secrets could not be looked for: %s", type(error).__name__)  # noqa: TRY400
            raise UnexaminedError("it could not be looked through") from None
        finally:
            self._registry.shrink()

    def _work(self) -> Iterator[None]:
        tail = None if self._stream is None else self._registry.tail(self._stream)
        scanner = Scanner(self._sight.engine, self._registry, self._sight.allow, tail)
        latest = ""
        for number in range(_ROUNDS):
            # Placeholders may be longer than what they stand for, and were read before.
            collector = Collector(self._sight.limits.chars * (_LONGER if number else 1))
            seer = TailVisitor(collector, tail)
            self._walk(self.record, seer)
            self._chars = max(self._chars, collector.chars)
            latest = latest or seer.latest
            yield
            yield from scanner.look(collector, again=number > 0)
            rewriter = Rewriter(scanner.edits, scanner.exact, collector.encoded)
            new = self._walk(self.record, TailVisitor(rewriter, tail))
            if new is self.record:
                break
            self.record = new
            yield
        if self._stream is not None:
            self._registry.follow(self._stream, latest)
