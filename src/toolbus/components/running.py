"""Run one method of one adapter, so that its failure is a fact and no exception."""

from __future__ import annotations

from functools import lru_cache
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from toolbus.bus.dispatch.failures import detail_of, explain, log_failure, passes
from toolbus.errors import HandlerContractError
from toolbus.events.catalogue import TOOLS_PROVIDE, ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import TextPart, ToolCall, ToolMessage, ToolResponse, changed, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from toolbus.components.adapters import ToolAdapter
    from toolbus.events.catalogue import Event

T = TypeVar("T")

Told: TypeAlias = "Mapping[tuple[int, str], tuple[ToolSpec, ToolSpec]]"
"""What adapters made of the specs of tools: before and after, by adapter and name."""


class Done(Struct, Generic[T], frozen=True):
    """What an adapter left: *value* is the old object unless it really changed something.

    *concerned* says that the tool is one of its own; *failed* is for the model, *detail* for
    operators; *withhold* says that a failure must not let the value pass.
    """

    value: T
    concerned: bool = True
    failed: str | None = None
    detail: str | None = None
    withhold: bool = False


async def run_adapter(
    adapter: ToolAdapter,
    event: Event,
    tool_name: str,
    method: Callable[..., Any],
    value: T,
    *more: object,
) -> Done[T]:
    """Return what *method* of *adapter* makes of *value*, which belongs to the tool *tool_name*."""
    done = begin_adapter(adapter, event, tool_name, method, value, *more)
    return done if isinstance(done, Done) else await done


def begin_adapter(
    adapter: ToolAdapter,
    event: Event,
    tool_name: str,
    method: Callable[..., Any],
    value: T,
    *more: object,
) -> Done[T] | Coroutine[Any, Any, Done[T]]:
    """Do as `run_adapter`, and give what is left to await, if *method* is async."""
    try:
        if not adapter.should_adapt(tool_name):
            return Done(value, concerned=False)
        new = method(value, *more)
        if new is None or new is value:
            return Done(value)
        if type(new) is not type(value) and isawaitable(new):
            return _awaited(adapter, event, value, new)
        return Done(_kept(adapter, event, value, new))
    except BaseException as error:  # noqa: BLE001 - what passes is raised again
        return _failed(adapter, event, value, error)


async def _awaited(adapter: ToolAdapter, event: Event, value: T, new: Awaitable[Any]) -> Done[T]:
    try:
        return Done(_kept(adapter, event, value, await new))
    except BaseException as error:  # noqa: BLE001 - what passes is raised again
        return _failed(adapter, event, value, error)


def _failed(adapter: ToolAdapter, event: Event, value: T, error: BaseException) -> Done[T]:
    if passes(error):
        raise error
    _, reason = explain(event.name, adapter.name, error)
    closed = adapter.on_error != "open"
    log_failure(event.name, adapter.name, error, reason, silent=closed)
    return Done(value, failed=reason, detail=detail_of(error), withhold=closed)


def answered_call(message: ToolMessage, response: ToolResponse) -> ToolCall:
    """Return the call that *message* answers with *response*."""
    parameters = response.parameters or EMPTY
    return ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=parameters)


def left(adapter: ToolAdapter, message: ToolMessage, done: Done[ToolResponse]) -> ToolMessage:
    """Return *message* with what *adapter* left of its response, and nothing else changed."""
    new = done.value
    if done.withhold:
        new = withheld(message, new, f"adapter {adapter.name!r} {done.failed}")
    return message if new is message.tool_response else message.with_tool_response(new)


async def promised(adapter: ToolAdapter, spec: ToolSpec | None, told: Told) -> ToolSpec | None:
    """Return what *adapter* makes of *spec*, if that says what responses look like.

    What a model was *told* of it last holds; only if it was told nothing is the adapter asked.
    """
    if spec is None or spec.output_schema is None:
        return spec
    before, after = told.get((id(adapter), spec.name), (None, spec))
    if before is not None and before.output_schema is spec.output_schema:
        return after
    method = adapter.adapt_signature
    return (await run_adapter(adapter, TOOLS_PROVIDE, spec.name, method, spec)).value


def promises(
    adapter: ToolAdapter, specs: Iterable[ToolSpec], done: Iterable[Done[ToolSpec]]
) -> Told:
    """Return what *adapter* has *done* with those *specs* that say what responses look like."""
    return {
        (id(adapter), spec.name): (spec, one.value)
        for spec, one in zip(specs, done, strict=True)
        if spec.output_schema is not None and one.failed is None
    }


def withheld(message: ToolMessage, response: ToolResponse, reason: str) -> ToolResponse:
    """Return what stands for *response*, which an adapter should have changed and could not.

    Not a verdict but a replacement, so that it holds in a dry run too. Whatever the response
    said, its parameters included, is not in it.
    """
    return ToolResponse(
        content=(TextPart(text=f"the result was withheld: {reason}"),),
        is_error=True,
        error_type="withheld",
        tool_name=message.tool_name,
        tool_call_id=message.tool_call_id,
        duration_ns=response.duration_ns,
    )


def _kept(adapter: ToolAdapter, event: Event, old: T, new: Any) -> T:
    """Return *new* if it is a real change of *old*, else *old*; raise if it is no such thing."""
    if new is None or new is old:
        return old
    # Most often a response. Those that are not equal are not encoded alike either.
    if type(new) is type(old) is ToolResponse and new != old:
        return new
    if problem := _breach(old, new):
        raise HandlerContractError(event.name, adapter.name, problem)
    return new if changed(old, new) else old


def _breach(old: object, new: Any) -> str | None:
    if type(new) is not type(old):
        return f"returned `{type(new).__name__}` instead of `{type(old).__name__}`"
    for field in ("name", "id"):
        if getattr(new, field, None) != getattr(old, field, None):
            return f"changed the {field}"
    if isinstance(new, ToolSpec) and isinstance(old, ToolSpec):
        for schema, known in (
            (new.input_schema, old.input_schema),
            (new.output_schema, old.output_schema),
        ):
            if schema is not None and schema is not known and (problem := _flaw(encode(schema))):
                return f"returned a malformed schema: {problem}"
    return None


@lru_cache(maxsize=256)
def _flaw(schema: bytes) -> str | None:
    """Return the first flaw of *schema*, in JSON, or None.

    An adapter says the same before each model call. Kept by its text, because as JSON 1, 1.0 and
    true differ, and as keys of a cache they would not.
    """
    return schemas.check_schema(msgspec.json.decode(schema))
