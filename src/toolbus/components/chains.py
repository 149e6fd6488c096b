"""The way of a spec, a call or a response past the adapters of one component."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.components.bound_adapters import AdapterResult
from toolbus.events.catalogue import Deny
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import TextPart, ToolCall, ToolMessage, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.bound_adapters import BoundAdapter
    from toolbus.events.catalogue import ToolSpec
    from toolbus.events.subjects import ToolSelector

_FINE: AdapterResult[Any] = AdapterResult(None)
_LISTED = 5
"""How many hidden tools an entry of the ledger names: servers may have hundreds."""


async def adapt_specs(
    ctx: EventContext[tuple[ToolSpec, ...]],
    adapters: Sequence[BoundAdapter],
    selector: ToolSelector,
) -> tuple[ToolSpec, ...]:
    """Return the specs as *adapters*, first to last, reword those that *selector* chooses.

    One that fails hides its tool, and its entry in the ledger says which.
    """
    specs = ctx.value
    for bound in adapters:
        results = [await _adapt_spec(ctx, bound, spec, selector) for spec in specs]
        bound.advertise(specs, results)
        remaining = tuple([result.value for result in results if not result.withhold])
        if len(remaining) != len(specs) or not all(map(is_, remaining, specs)):
            specs = remaining
        if any(result.applies for result in results):
            _step(ctx, bound, specs, _failure_of(results))
    return specs


def _failure_of(results: Sequence[AdapterResult[ToolSpec]]) -> AdapterResult[Any]:
    """Return the first of *results* that failed, and tell in it which tools all have hidden."""
    failure = next((result for result in results if result.failed), _FINE)
    hidden = [repr(result.value.name) for result in results if result.withhold]
    if not hidden:
        return failure
    rest = f" and {len(hidden) - _LISTED} more" if len(hidden) > _LISTED else ""
    tools = ", ".join(hidden[:_LISTED])
    return replace(failure, failed=f"{failure.failed}, which hides {tools}{rest}")


async def adapt_call(
    ctx: EventContext[ToolCall], adapters: Sequence[BoundAdapter]
) -> ToolCall | Deny:
    """Return the call as *adapters* leave it, last to first: each undoes what it told the model."""
    call = ctx.value
    for bound in reversed(adapters):
        result = bound.adapt_parameters(ctx, call)
        if not isinstance(result, AdapterResult):
            result = await result
        call = result.value
        if result.applies:
            _step(ctx, bound, call, result)
        if result.withhold:
            return Deny(f"adapter {bound.adapter.name!r} {result.failed}", result.detail)
    return call


async def adapt_message(
    ctx: EventContext[Any],
    adapters: Sequence[BoundAdapter],
    message: ToolMessage,
    response: ToolResponse,
) -> ToolMessage:
    """Return *message* with its *response* as *adapters*, first to last, leave it."""
    call = None
    for bound in adapters:
        # The same for all adapters that see the same response.
        call = call or answered_call(message, response)
        result = bound.adapt_response(ctx, response, call)
        if not isinstance(result, AdapterResult):
            result = await result
        if result.withhold or result.value is not response:
            response = result.value
            if result.withhold:
                reason = f"adapter {bound.adapter.name!r} {result.failed}"
                response = withheld(message, response, reason)
            message, call = message.with_tool_response(response), None
        if result.applies:
            tool = ctx.tool
            if tool is not None and tool.output_schema is not None:
                tool = await bound.advertised(ctx, tool)
            _step(ctx, bound, message, result, tool)
    return message


def answered_call(message: ToolMessage, response: ToolResponse) -> ToolCall:
    """Return the call that *message* answers with *response*."""
    parameters = response.parameters or EMPTY
    return ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=parameters)


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


async def _adapt_spec(
    ctx: EventContext[Any], bound: BoundAdapter, spec: ToolSpec, selector: ToolSelector
) -> AdapterResult[ToolSpec]:
    if not selector.matches(spec.name):
        return AdapterResult(spec, applies=False)
    result = bound.adapt_signature(ctx, spec)
    return result if isinstance(result, AdapterResult) else await result


def _step(
    ctx: EventContext[Any],
    bound: BoundAdapter,
    value: object,
    result: AdapterResult[Any],
    tool: ToolSpec | None = None,
) -> None:
    """Tell the ledger, and whoever checks the value, what an adapter left."""
    name, failed, detail = bound.adapter.name, result.failed, result.detail
    ctx.step(name, value, actor=bound, failed=failed, detail=detail, tool=tool)
