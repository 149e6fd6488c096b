"""Records as a report may show them: with a mark where a secret stood that is still in them.

A report shows what was before beside what came of it. What came of it may hold placeholders, so
what was before holds marks: else both would look the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from toolbus.redaction.record_walk import rewrite_record
from toolbus.redaction.secrets.collecting import SecretVisitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.components.state import State
    from toolbus.redaction.secrets.redactor import Redactor

R = TypeVar("R")

# Stands for a suffix meanwhile: no text has a noncharacter (Unicode, section 23.7).
_ASIDE = "\ufdd0"


async def concealed(redactor: Redactor, session: str, record: R, state: State | None) -> R:
    """Return *record*, a message, a call or a text, with `(secret github-pat-1)` for secrets.

    Placeholders in it stay. Raises `UnexaminedError` and `StoreError`.
    """
    before = redactor.registries.of(session).suffix
    aside = rewrite_record(record, _Mapper(lambda text: text.replace(f"-{before}]", f"-{_ASIDE}]")))
    cleaned = await redactor.clean_agreed(session, aside, rewrite_record, state)
    suffix = redactor.registries.of(session).suffix
    fresh = re.compile(rf"\[([a-z0-9-]+)-{suffix}\]")

    def mark(text: str) -> str:
        return fresh.sub(r"(secret \1)", text).replace(f"-{_ASIDE}]", f"-{before}]")

    return rewrite_record(cleaned, _Mapper(mark))


class _Mapper(SecretVisitor):
    """Changes each text by itself, whatever it stands in."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        return tuple(map(self._change, texts))
