"""The verdicts of handlers: `Deny`, `Ask`, `Retry`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.errors import FreezeError
from toolbus.messages.immutable import escape_surrogates, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_REASON = "refused without a reason"
NO_PROMPT = "may this go on?"
"""The defaults for a reason or a prompt that is empty or not text."""


class Deny(Struct, frozen=True):
    """A refusal: *reason* is for the model, *detail* for operators only.

    The constructor never fails: a reason that is not text, an exception say, becomes the detail.

    >>> Deny("only inside the project", detail="/etc is in the list of folders").reason
    'only inside the project'
    """

    reason: str = NO_REASON
    detail: str | None = None

    def __post_init__(self) -> None:
        reason: Any = self.reason
        is_text = isinstance(reason, str)
        details = [each for each in (None if is_text else reason, self.detail) if each is not None]
        force_setattr(self, "reason", (is_text and in_words(reason)) or NO_REASON)
        force_setattr(self, "detail", "; ".join(map(in_words, details)) if details else None)


class Ask(Struct, frozen=True):
    """A guard's request that a person decides about the final value; *prompt* is the question.

    A guard with rules names the *rule* that asks, and gives a digest of its active *rules*: a
    waiting approval expires with them. The constructor never fails, as for `Deny`.

    >>> Ask("Pay 500?").prompt
    'Pay 500?'
    """

    prompt: str = NO_PROMPT
    rule: str = ""
    rules: str = ""

    def __post_init__(self) -> None:
        prompt: Any = self.prompt
        words = "" if prompt is None else in_words(prompt)
        if not isinstance(prompt, str):
            words = words and f"{NO_PROMPT} ({words})"
        force_setattr(self, "prompt", words or NO_PROMPT)
        for name in ("rule", "rules"):
            force_setattr(self, name, in_words(getattr(self, name) or ""))

    @classmethod
    def merged(cls, asks: Sequence[Ask]) -> Ask:
        """Return *asks* as one question, with each prompt and rule on lines of its own."""
        if len(asks) == 1:
            return asks[0]
        columns = zip(*((ask.prompt, ask.rule, ask.rules) for ask in asks), strict=True)
        return cls(*["\n".join(column) for column in columns])


def in_words(value: object) -> str:
    """Return any *value* as text that UTF-8 can carry, "" for empty text."""
    try:
        if isinstance(value, str):
            text = plain(value)
            return escape_surrogates(text) if text.strip() else ""
        is_error = isinstance(value, BaseException)
        return escape_surrogates(f"{type(value).__name__}: {value}" if is_error else repr(value))
    except Exception:  # noqa: BLE001 - the description of a refusal must not fail
        return type(value).__name__


class Retry(Struct, frozen=True):
    """A request to run a failed tool again, after *delay* seconds.

    >>> Retry(delay=0.5)
    Retry(delay=0.5)
    """

    delay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.delay < inf:
            raise FreezeError(f"expected seconds to wait, got {self.delay!r}", "$.delay")
