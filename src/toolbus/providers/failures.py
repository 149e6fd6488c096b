"""What is wrong when a provider does not answer, in one line and without a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import ContextOverflowError, DecodeError, ModelError
from toolbus.providers.keys import hide

if TYPE_CHECKING:
    from collections.abc import Iterable

_RETRIES = "x-stainless-retry-count"
"""The header in which both SDKs tell their server how often they have tried again."""

_LONGEST = 500
_OVERFLOW_CODES = {
    "context_length_exceeded",  # OpenAI
    "exceed_context_size_error",  # llama.cpp
    "request_too_large",  # Anthropic
}
# Anthropic; OpenAI and vLLM; llama.cpp; LiteLLM; Bedrock. Linear: no part repeats another.
_OVERFLOW_TEXT = re.compile(
    r"prompt is too long|maximum context length|exceeds? the (?:available )?context (?:size|window)"
    r"|contextwindowexceeded|input is too long for requested model",
    re.IGNORECASE,
)


class RefusedAnswerError(Exception):
    """An error that came as if it were an answer; *body* is what it said."""

    def __init__(self, body: Any) -> None:
        self.body = body
        super().__init__("the answer is an error, and nobody said why")


def failure_of(model: str, error: Exception, secrets: Iterable[str]) -> ModelError:
    """Return *error*, which an SDK or one of our readers raised, as a `ModelError`.

    It holds neither the request nor the error, whose headers have the key.
    """
    if isinstance(error, ModelError):
        return error
    status, body = getattr(error, "status_code", None), _error_in(getattr(error, "body", None))
    text = _line(str(body.get("message") or _named(error)))
    codes = {str(body.get(name)) for name in ("code", "type")}
    reason = text if status is None else f"HTTP {status}: {text}"
    is_overflow = codes & _OVERFLOW_CODES or (
        status in {None, 400} and _OVERFLOW_TEXT.search(text) is not None
    )
    kind = ContextOverflowError if is_overflow else ModelError
    return kind(model, hide(reason, secrets), 1 + retries_of(error))


def retries_of(answer: Any) -> int:
    """Return how often the SDK has tried again for *answer*, an error or a raw response of it."""
    if isinstance(retries := getattr(answer, "retries_taken", None), int):
        return retries
    headers = getattr(getattr(answer, "request", None), "headers", {})
    count = headers.get(_RETRIES, "")
    return int(count) if count.isdecimal() else 0


def _error_in(body: Any) -> dict[str, Any]:
    """Return what *body* says of the error: OpenAI's SDK unwraps it, Anthropic's does not."""
    match body:
        case {"error": dict(error)}:
            return error
        case {"error": str(message)}:
            return {"message": message}
        case dict():
            return body
        case str() if body:
            return {"message": body}
    return {}


def _named(error: Exception) -> str:
    if isinstance(error, DecodeError):
        return f"its answer cannot be read: {error}"
    # The SDKs' errors of connections say nothing of the cause, which is another library's.
    cause = error.__cause__
    text = f"{type(error).__name__}: {error}"
    return text if cause is None else f"{text} ({type(cause).__name__})"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
