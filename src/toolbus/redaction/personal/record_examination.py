"""The examination of one record: its texts are gathered, looked at in slices, and written anew."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from toolbus.redaction.limits import SLICE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.personal.appraisal import Appraisal
    from toolbus.redaction.personal.visitor import Change

T = TypeVar("T")


async def redact_record(
    record: T,
    walk: Callable[[T, TextVisitor], T],
    visitor: Callable[[Change], TextVisitor],
    replace: Callable[[str, str], Generator[None, None, str]],
    appraisal: Appraisal,
) -> T:
    """Return *record* with all texts, over which *walk* takes a *visitor*, as *replace* has them.

    The event loop turns meanwhile, in which the clock of *appraisal* stands. Raises
    `UnexaminedError`.
    """
    texts: dict[tuple[str, str], str] = {}

    def gather(text: str, key: str) -> str:
        appraisal.read(text)
        texts[text, key] = text
        return text

    walk(record, visitor(gather))
    until = monotonic() + SLICE
    for text, key in texts:
        slices = replace(text, key)
        while True:
            try:
                next(slices)
            except StopIteration as end:
                texts[text, key] = end.value
                break
            if monotonic() > until:
                with appraisal.pause():
                    await asyncio.sleep(0)
                until = monotonic() + SLICE
    # A text that was not gathered is none that anybody looked at: then this fails.
    return walk(record, visitor(lambda text, key: texts[text, key]))
