"""A request to a model, and the repair of answers that no record could hold."""

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
    """Return the answer of *model*, streamed to *on_delta* if given.

    The stream waits for the awaitable that *on_delta* may return.

    Raises `ModelError` for an object that is not an answer, and the model's own errors.
    """
    answer: object = None
    if on_delta is None:
        answer = await model.complete(request)
    else:
        answer = await _streamed(model, request, on_delta)
    if not isinstance(answer, AssistantMessage):
        reason = f"it returned `{type(answer).__name__}` instead of an AssistantMessage"
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
                    waiting = on_delta(_with_valid_text(item))
                    if waiting is not None:
                        await waiting
                case AssistantMessage():
                    answer = item
                case other:
                    reason = f"its stream yielded `{type(other).__name__}`, not a delta"
                    raise ModelError(model.name, reason)
    finally:
        # A stream left in the middle would hold its connection until it is collected.
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return answer


def _with_valid_text(delta: ModelDelta) -> ModelDelta:
    text = replace_surrogates(delta.text)
    if delta.kind != "tool_call":
        return delta if text is delta.text else replace(delta, text=text)
    name, call_id = replace_surrogates(delta.name), replace_surrogates(delta.id)
    if text is delta.text and name is delta.name and call_id is delta.id:
        return delta
    return replace(delta, text=text, name=name, id=call_id)


def given_call(call_id: str, name: str, arguments: str | Mapping[str, Any]) -> ToolCall:
    """Return a call with unchecked output of a model, for authors of a `Model`.

    *arguments* are JSON text or an object. Text that is not an object, or has values that a record
    refuses (NaN, an integer beyond 64 bits), is kept in `ToolCall.raw`: the call ends as
    `invalid_arguments`, unless a handler replaces it. An unpaired surrogate becomes U+FFFD.
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
    """Return *message* with a unique id, and calls with unique ids.

    *has* and *has_call* return whether an earlier message or call has an id. Local models give all
    calls of a message one id, or an empty one, and the same to each answer; some count the calls
    of each answer from 0. Providers refuse a history with such calls.
    """
    if not message.id or has(message.id):
        message = replace(message, id=ids())
    calls = tuple(_with_distinct_ids(message.tool_calls, ids, has_call))
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _with_distinct_ids(
    calls: Iterable[ToolCall], ids: Callable[[], str], has_call: Callable[[str], bool]
) -> Iterable[ToolCall]:
    known = {""}
    for call in calls:
        is_taken = call.id in known or has_call(call.id)
        distinct = replace(call, id=ids()) if is_taken else call
        known.add(distinct.id)
        yield distinct
