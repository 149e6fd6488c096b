"""Members of a host's JSON, checked, and JSON for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.messages.immutable import mend_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import Ability, HookDecision, HookEvent


SKIPPED = 'allowed by a rule with prompt = "skip"'
"""The reason for a host whose own prompt is answered."""


def text_at(payload: Mapping[str, Any], name: str) -> str:
    """Return the text *name* of *payload*; raises `DecodeError` if there is none, or it is ""."""
    text = payload.get(name)
    if isinstance(text, str) and text:
        return mend_text(text)
    raise DecodeError(f"expected a text, got {_kind(text)}", f"$.{name}")


def optional_text(payload: Mapping[str, Any], name: str) -> str:
    """Return the text *name* of *payload*; "" if it is missing or null."""
    text = payload.get(name)
    if text is None:
        return ""
    if isinstance(text, str):
        return mend_text(text)
    raise DecodeError(f"expected a text, got {_kind(text)}", f"$.{name}")


def object_at(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object *name* of *payload*; raises `DecodeError` if there is none."""
    value = payload.get(name)
    if isinstance(value, dict):
        return value
    raise DecodeError(f"expected an object, got {_kind(value)}", f"$.{name}")


def json_answer(value: Mapping[str, Any], *undelivered: Ability) -> HookAnswer:
    """Return the answer whose standard output is *value* as JSON."""
    return HookAnswer(stdout=msgspec.json.encode(value), undelivered=undelivered)


def refusal(event: HookEvent, decision: HookDecision) -> str | None:
    """Return why the call of *event* may not run, for a host that asks nobody; None if it may."""
    if decision.denied is not None:
        return decision.denied
    if decision.asked is not None:
        return decision.asked
    if decision.call is not None and event.call and decision.call.name != event.call.name:
        return (
            f"toolbus: the call of {event.call.name!r} was to become one of "
            f"{decision.call.name!r}, which a hook cannot bring about"
        )
    return None


def call_shortfall(decision: HookDecision) -> tuple[Ability, ...]:
    """Return what of *decision* a host is not told that asks nobody and takes no context there."""
    context: tuple[Ability, ...] = ("add_context",) if decision.context else ()
    asks = decision.asked is not None and decision.denied is None
    return (*context, "ask") if asks else context


def replaces(event: HookEvent, decision: HookDecision) -> bool:
    """Tell whether the model is to read something else than the result of *event*."""
    before, after = event.response, decision.response
    return after is not None and (before is None or before.content != after.content)


def context_text(decision: HookDecision) -> str:
    """Return what the model is to read in addition; "" if nothing."""
    return "\n\n".join(text for text in decision.context if text)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
