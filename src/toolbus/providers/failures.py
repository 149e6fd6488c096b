"""Provider failures as errors of one line, without keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import ContextOverflowError, DecodeError, ModelError
from toolbus.providers.keys import hide_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

_RETRIES = "x-stainless-retry-count"
"""The header in which both SDKs send the number of retries."""

_LONGEST = 500
_OVERFLOW_CODES = {
    "context_length_exceeded",  # OpenAI
    "exceed_context_size_error",  # llama.cpp
    "request_too_large",  # Anthropic
}
# Anthropic; OpenAI and vLLM; llama.cpp; LiteLLM; Bedrock. Linear: no alternative overlaps another.
_OVERFLOW_TEXT = re.compile(
    r"prompt is too long|maximum context length|exceeds? the (?:available )?context (?:size|window)"
    r"|contextwindowexceeded|input is too long for requested model",
    re.IGNORECASE,
)


class RefusedAnswerError(Exception):
    """An error in the form of an answer, with *body*."""

    def __init__(self, body: Any) -> None:
        self.body = body
        super().__init__("the answer is an error without a message")


def failure_of(model: str, error: Exception, secrets: Iterable[str]) -> ModelError:
    """Return *error* of an SDK or a reader as a `ModelError`.

    It references neither the request nor the error, whose headers contain the key.
    """
    if isinstance(error, ModelError):
        return error
    status, body = getattr(error, "status_code", None), _error_in(getattr(error, "body", None))
    text = _line(str(body.get("message") or _text_of(error)))
    codes = {str(body.get(name)) for name in ("code", "type")}
    reason = text if status is None else f"HTTP {status}: {text}"
    is_overflow = codes & _OVERFLOW_CODES or (
        status in {None, 400} and _OVERFLOW_TEXT.search(text) is not None
    )
    kind = ContextOverflowError if is_overflow else ModelError
    return kind(model, hide_keys(reason, secrets), 1 + retries_of(error))


def retries_of(answer: Any) -> int:
    """Return the SDK's number of retries for *answer*, an error or a raw response."""
    if isinstance(retries := getattr(answer, "retries_taken", None), int):
        return retries
    headers = getattr(getattr(answer, "request", None), "headers", {})
    count = headers.get(_RETRIES, "")
    return int(count) if count.isdecimal() else 0


def _error_in(body: Any) -> dict[str, Any]:
    """Return the error object in *body*, which OpenAI's SDK unwraps and Anthropic's does not."""
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


def _text_of(error: Exception) -> str:
    if isinstance(error, DecodeError):
        return f"the answer is unreadable: {error}"
    # The SDKs' connection errors do not name the cause, an error of another library.
    cause = error.__cause__
    text = f"{type(error).__name__}: {error}"
    return text if cause is None else f"{text} ({type(cause).__name__})"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
