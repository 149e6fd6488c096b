"""Assertions about the effects of handlers, for any test runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.ledger.trace import changed_fields
from toolbus.events.catalogue import Ask, Deny, RunResult, ToolCallOutcome
from toolbus.messages.records import ToolMessage, ToolResponse, changed
from toolbus.testing.value_text import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING: Any = object()


def assert_denied(result: object, reason: str = "") -> str:
    """Assert that *result* is a denial whose reason contains *reason*; return the whole reason.

    *result* is the result of a guard (`Deny`), of `bus.apply` or of a run, the outcome of a call,
    or a tool message or its response. Raises `AssertionError`.

    >>> assert_denied(Deny("only inside the project"), "inside")
    'only inside the project'
    """
    text = _reason_of(result)
    if text is None:
        if isinstance(result, EventContext):
            result = result.asked or result.answer or result.value
        msg = f"expected a denial, got {describe(result)}"
        raise AssertionError(msg)
    if reason not in text:
        msg = f"expected a denial with {reason!r} in its reason, got {text!r}"
        raise AssertionError(msg)
    return text


def assert_allowed(result: object) -> None:
    """Assert that *result*, as for `assert_denied`, is neither a denial nor a question.

    Raises `AssertionError`.

    >>> assert_allowed(asyncio.run(EventBus().apply(events.TOOL_CALL_BEFORE, ToolCall(name="t"))))
    """
    reason = _reason_of(result)
    outcome = None if reason is None else f"it was denied: {reason}"
    match result:
        case Ask(prompt=prompt) | EventContext(asked=Ask(prompt=prompt)):
            outcome = f"it requires approval: {prompt}"
    if outcome is not None:
        msg = f"expected the call to be allowed, but {outcome}"
        raise AssertionError(msg)


def assert_unchanged(result: Any, after: Any = _MISSING) -> None:
    """Assert that nothing was changed, denied, asked or answered; raises `AssertionError`.

    *result* is the result of `bus.apply`, or the outcome of a call. With *after*, two values are
    compared as on the bus, by their encoding; an *after* of None means unchanged, as for the
    result of a handler or an adapter.

    >>> call = ToolCall(name="read", arguments={"path": "a"})
    >>> assert_unchanged(asyncio.run(EventBus().apply(events.TOOL_CALL_BEFORE, call)))
    """
    for problem in _problems(result, after):
        raise AssertionError(problem)


def _reason_of(result: object) -> str | None:
    match result:
        case Deny(reason=reason):
            return reason
        case EventContext():
            return None if result.denied is None else result.denied.reason
        case ToolCallOutcome(status="denied"):
            return result.response.text
        case ToolMessage(tool_response=ToolResponse() as response):
            return _reason_of(response)
        case ToolResponse(is_error=True, error_type="denied"):
            return result.text
        case RunResult(status="denied"):
            return result.reason or ""
    return None


def _problems(before: Any, after: Any) -> Iterator[str]:
    if after is not _MISSING:
        yield from _differences(before, after)
        return
    match before:
        case EventContext():
            outcomes = {
                "denied": before.denied,
                "asked": before.asked,
                "rejected": before.rejected,
                "answered": before.answer,
            }
            for outcome, text in outcomes.items():
                if text is not None:
                    yield f"expected no change, but it was {outcome}: {describe(text)}"
            yield from _differences(before.original, before.value)
        case ToolCallOutcome(executed=None):
            yield f"expected no change, but the call was not executed: {before.status}"
        case ToolCallOutcome():
            yield from _differences(before.requested, before.executed)
        case _:
            yield f"expected two values to compare, got only {describe(before)}"


def _differences(before: Any, after: Any) -> Iterator[str]:
    if after is None or not changed(before, after):
        return
    fields = changed_fields(before, after) if isinstance(before, Struct) else ()
    pairs = [(f".{name}", getattr(before, name), getattr(after, name)) for name in fields]
    lines = [f"  {name}: {describe(old)} → {describe(new)}" for name, old, new in pairs]
    yield "\n".join(
        ["expected no change, got:", *(lines or [f"  {describe(before)} → {describe(after)}"])]
    )
