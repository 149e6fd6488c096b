"""Asking a model; what it says that no record takes is mended, or kept as text."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from toolbus.errors import ModelError
from toolbus.events.catalogue import ModelDelta
from toolbus.messages.immutable import replace_surrogates, replace_surrogates_in
from toolbus.messages.records import AssistantMessage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from toolbus.events.catalogue import ModelRequest
    from toolbus.models.protocol import Model

OnDelta: TypeAlias = "Callable[[ModelDelta], Awaitable[None] | None]"


async def ask(model: Model, request: ModelRequest, on_delta: OnDelta | None) -> AssistantMessage:
    """Return the answer of *model*, streamed to *on_delta* if there is one.

    If that has to wait it returns what to await, and the stream waits, too.

    Raises `ModelError` for what is no answer, and whatever the model raises.
    """
    answer: object = None
    if on_delta is None:
        answer = await model.complete(request)
    else:
        answer = await _streamed(model, request, on_delta)
    if not isinstance(answer, AssistantMessage):
        reason = f"it gave `{type(answer).__name__}` instead of an AssistantMessage"
        raise ModelError(model.name, reason)
    return answer


async def _streamed(
    model: Model, request: ModelRequest, on_delta: OnDelta
) -> AssistantMessage | None:
    """Show each delta of the stream; return its last answer."""
    answer = None
    stream = model.stream(request)
    try:
        async for item in stream:
            match item:
                case ModelDelta():
                    waiting = on_delta(_mended(item))
                    if waiting is not None:
                        await waiting
                case AssistantMessage():
                    answer = item
                case other:
                    reason = f"its stream gave `{type(other).__name__}`, which is no piece"
                    raise ModelError(model.name, reason)
    finally:
        # Left in the middle it would hold its connection until it is collected.
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return answer


def _mended(delta: ModelDelta) -> ModelDelta:
    sound = replace_surrogates(delta.text)
    if delta.kind != "tool_call":
        return delta if sound is delta.text else replace(delta, text=sound)
    name, call_id = replace_surrogates(delta.name), replace_surrogates(delta.id)
    if sound is delta.text and name is delta.name and call_id is delta.id:
        return delta
    return replace(delta, text=sound, name=name, id=call_id)


def given_call(call_id: str, name: str, arguments: str | Mapping[str, Any]) -> ToolCall:
    """Return a call as a model gave it, for those who write a `Model`.

    *arguments* are JSON, or what that says already. What is no object, or holds what a record
    refuses (NaN, an integer beyond 64 bits), stays as text in `ToolCall.raw`: the call ends as
    `invalid_arguments`, unless a handler makes arguments of it. Half a character becomes U+FFFD.
    """
    import json  # noqa: PLC0415 - slow to import, and an agent needs the rest of this file

    call_id, name = replace_surrogates(call_id), replace_surrogates(name)
    try:
        parsed = (
            json.loads(arguments.strip() or "{}") if isinstance(arguments, str) else dict(arguments)
        )
        if isinstance(parsed, dict):
            return ToolCall(id=call_id, name=name, arguments=replace_surrogates_in(parsed))
    except (ValueError, RecursionError):
        pass
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=repr)
    return ToolCall(id=call_id, name=name, raw=replace_surrogates(text))


def with_own_ids(
    message: AssistantMessage,
    ids: Callable[[], str],
    *,
    has: Callable[[str], bool],
    has_call: Callable[[str], bool],
) -> AssistantMessage:
    """Return *message* with an id that nobody has, and calls that can be told apart.

    *has* and *has_call* tell of ids of messages and calls whether an earlier message has them.
    Local models give all calls of a message one id, or an empty one, and each answer the same;
    some count the calls of each answer from 0. Providers refuse a history with such calls.
    """
    if not message.id or has(message.id):
        message = replace(message, id=ids())
    calls = tuple(_told_apart(message.tool_calls, ids, has_call))
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _told_apart(
    calls: Iterable[ToolCall], ids: Callable[[], str], has_call: Callable[[str], bool]
) -> Iterable[ToolCall]:
    known = {""}
    for call in calls:
        is_taken = call.id in known or has_call(call.id)
        distinct = replace(call, id=ids()) if is_taken else call
        known.add(distinct.id)
        yield distinct
