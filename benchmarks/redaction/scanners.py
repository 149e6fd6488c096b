"""Who looks for secrets: we, and others on the same input.

Each gives back a text without what it found: ours with placeholders, and what the others report is
cut out, wherever it stands in the text.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from benchmarks.redaction.others import Betterleaks, DetectSecrets, Kingfisher, processor_seconds
from toolbus.messages import ToolResponse
from toolbus.messages.record_walker import rewrite_response
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import builtin, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OURS, PUBLISHED = "toolbus", "toolbus, published rules only"
WITHHELD = "[withheld]"

# In code stand `[a-z]` and `[self]` as well: what the text had already does not count.
_PLACEHOLDER = re.compile(r"\[[a-z0-9]+(?:-[a-z0-9]+)*\]")


class Scanner(Protocol):
    """Somebody who looks for secrets."""

    name: str
    lacks: str

    def cleaned(self, texts: Sequence[str]) -> list[str]:
        """Return the texts without what was found in them."""

    def alarms(self, texts: Sequence[str], suffix: str = ".txt") -> int:
        """Return how often a secret is said to be in files of *texts*, whose names end so."""

    def seconds(self, text: str) -> float:
        """Return the seconds of a processor's time in which *text* is looked through."""


class Ours:
    """Toolbus, with all rules or without our own."""

    lacks = ""

    def __init__(self, name: str = OURS, *, published_only: bool = False) -> None:
        self.name, self._published_only = name, published_only

    def cleaned(self, texts: Sequence[str]) -> list[str]:
        """Return the texts as they come out, each in a session of its own."""
        return [self._cleaned(text) for text in texts]

    def alarms(self, texts: Sequence[str], _: str = ".txt") -> int:
        """Return how many placeholders stand there; a text that is withheld counts its lines."""
        return sum(
            text.count("\n") + 1 if clean == WITHHELD else _added(text, clean)
            for text, clean in zip(texts, self.cleaned(texts), strict=True)
        )

    def seconds(self, text: str) -> float:
        """Return the seconds in which a response of *text* is cleaned."""
        redactor, response = self._redactor(), ToolResponse.from_text(text)

        async def clean() -> None:
            # A loop that ends takes long to show what its task returned.
            await redactor.clean("s", response, rewrite_response)

        return processor_seconds(lambda: asyncio.run(clean()))

    @cached_property
    def _engine(self) -> Engine:
        without = {one.name for one in builtin()} if self._published_only else set()
        # Both sets name some of their rules alike.
        rules = [one for one in choose((), (), {}) if not (without and one in builtin())]
        return Engine(tuple(rules))

    def _redactor(self) -> Redactor:
        return Redactor(self._engine, chars=10**9, seconds=10**6)

    def _cleaned(self, text: str) -> str:
        response = ToolResponse.from_text(text)
        try:
            return asyncio.run(self._redactor().clean("s", response, rewrite_response)).text
        except UnexaminedError:
            return WITHHELD


def _added(text: str, clean: str) -> int:
    if clean == text:
        return 0
    before, after = (Counter(_PLACEHOLDER.findall(one)) for one in (text, clean))
    return (after - before).total()


BUILDS: dict[str, Callable[[], Scanner]] = {
    OURS: Ours,
    PUBLISHED: lambda: Ours(PUBLISHED, published_only=True),
    Betterleaks.name: Betterleaks,
    DetectSecrets.name: DetectSecrets,
    Kingfisher.name: Kingfisher,
}
