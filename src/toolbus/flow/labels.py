"""Labels of texts: who said a text, whether its source is trusted, and what it holds."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Speaker: TypeAlias = Literal["person", "system", "model", "tool", "agent", "unknown"]

UNTRUSTED, UNKNOWN, PRIVATE = "untrusted", "unknown", "private"


class Label(Struct, frozen=True, kw_only=True):
    """The label of a text, said by *speaker*, a tool or agent *name*, of *server*.

    Unless *is_trusted*, a stranger may have written it. *holds* names what it holds: the kinds of
    values that redaction found, and "private" by a setting. *is_known* is False if a part of its
    sources was not seen; then it is not trusted.
    """

    speaker: Speaker
    name: str = ""
    server: str = ""
    is_trusted: bool = False
    is_known: bool = True
    holds: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The label in the words of rules: "untrusted", "unknown" and what the text holds."""
        doubts = [] if self.is_trusted and self.is_known else [UNTRUSTED]
        return frozenset([*doubts, *([] if self.is_known else [UNKNOWN]), *self.holds])
