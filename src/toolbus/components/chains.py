"""The adapters of one component, applied to a spec, a call or a response.

A failure of an adapter is a result here, not an exception.
"""

from __future__ import annotations

from functools import lru_cache
from inspect import isawaitable, unwrap
from operator import is_
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from toolbus.bus.dispatch.callables import is_async
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.failures import detail_of, explain, log_failure, passes
from toolbus.components.adapters import (
    AdapterContext,
    ToolAdapter,
    asks_for_context,
    overrides,
)
from toolbus.errors import HandlerContractError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Deny,
    ToolSpec,
)
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import (
    ToolCall,
    ToolMessage,
    ToolResponse,
    changed,
    encode,
)
from toolbus.tools.calls.advertised import ArgumentsFiller
from toolbus.transcript.admission import in_place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.events.catalogue import Event, Scope
    from toolbus.events.subjects import ToolSelector

T = TypeVar("T")
_LISTED = 5
"""The number of hidden tools in an entry of the ledger: servers may have hundreds."""


class AdapterResult(Struct, Generic[T], frozen=True):
    """The *value* after an adapter: the old object unless the adapter really changed it.

    *applies*: the tool is one of the adapter's; *failed* is for the model, *detail* for operators;
    *withhold*: the value must not pass, because the adapter failed.
    """

    value: T
    applies: bool = True
    failed: str | None = None
    detail: str | None = None
    withhold: bool = False


_NO_FAILURE: AdapterResult[Any] = AdapterResult(None)
_AWAITED: dict[Any, tuple[str, ...]] = {
    TOOLS_PROVIDE: ("adapt_signature",),
    TOOL_CALL_BEFORE: ("adapt_parameters",),
    # The signature has the schema that an adapted result must fit.
    MESSAGE_APPEND_BEFORE: ("adapt_response", "adapt_signature"),
}
"""The methods of adapters that may be awaited at an event."""


class BoundAdapter(ArgumentsFiller):
    """An adapter in one component.

    The same adapter may be registered in several components, with other specs in each: this object
    represents it in steps of a dispatch.
    """

    __slots__ = ("_advertised", "_asking", "adapter")

    def __init__(self, adapter: ToolAdapter) -> None:
        self.adapter = adapter
        self.fills = overrides(adapter, "fill_parameters")
        methods = ("adapt_signature", "adapt_parameters", "adapt_response", "fill_parameters")
        self._asking = {name for name in methods if asks_for_context(getattr(adapter, name))}
        # By tool name: the spec before and after, as last advertised to a model.
        self._advertised: dict[str, tuple[ToolSpec, ToolSpec]] = {}

    async def fill(self, call: ToolCall, scope: Scope, spec: ToolSpec) -> ToolCall | Deny:
        """Return *call* filled by the adapter, or the denial of its tool, that of *spec*."""
        ctx = EventContext(TOOL_CALL_BEFORE, call, scope=scope, tool=spec)
        try:
            if not self.adapter.should_adapt(call.name):
                return call
            asks = "fill_parameters" in self._asking
            context = {"ctx": AdapterContext(scope, spec)} if asks else {}
            new = self.adapter.fill_parameters(call, **context)
            new = await new if isawaitable(new) else new
            return new if isinstance(new, Deny) else self._accept(ctx, call, new)
        except BaseException as error:  # noqa: BLE001 - `_fail` raises the errors that pass
            result = self._fail(ctx, call, error)
        if result.withhold:
            return Deny(f"adapter {self.adapter.name!r} {result.failed}", result.detail)
        return call

    def advertise(
        self, specs: Iterable[ToolSpec], results: Iterable[AdapterResult[ToolSpec]]
    ) -> None:
        """Keep the specs, changed from *specs*, of tools with output schemas."""
        self._advertised = {
            spec.name: (spec, result.value)
            for spec, result in zip(specs, results, strict=True)
            if spec.output_schema is not None and result.failed is None
        }

    async def advertised(self, ctx: EventContext[Any], spec: ToolSpec | None) -> ToolSpec | None:
        """Return *spec* changed by the adapter, if it has an output schema.

        The spec last advertised to a model is preferred; without one, the adapter is called.
        """
        if spec is None or spec.output_schema is None:
            return spec
        before, after = self._advertised.get(spec.name, (None, spec))
        if before is not None and before.output_schema is spec.output_schema:
            return after
        return (await self.run(ctx, "adapt_signature", spec.name, spec)).value

    async def reword(
        self, ctx: EventContext[Any], spec: ToolSpec, selector: ToolSelector
    ) -> AdapterResult[ToolSpec]:
        """Return *spec* changed by the adapter, if *selector* chooses its tool."""
        if not selector.matches(spec.name):
            return AdapterResult(spec, applies=False)
        return await self.run(ctx, "adapt_signature", spec.name, spec)

    async def run(
        self, ctx: EventContext[Any], method: str, tool_name: str, value: T, *call: ToolCall
    ) -> AdapterResult[T]:
        """Return *value*, of the tool *tool_name*, after the adapter's *method*."""
        adapter = self.adapter
        try:
            if not adapter.should_adapt(tool_name):
                return AdapterResult(value, applies=False)
            adapt = getattr(adapter, method)
            if method in self._asking:
                tool = value if isinstance(value, ToolSpec) else ctx.tool
                message_id = ctx.value.id if call else ""
                context = AdapterContext(ctx.scope, tool, message_id=message_id)
                new = adapt(value, *call, ctx=context)
            else:
                new = adapt(value, *call)
            if new is None or new is value:
                return AdapterResult(value)
            if type(new) is not type(value) and isawaitable(new):
                new = await new
            return AdapterResult(self._accept(ctx, value, new))
        except BaseException as error:  # noqa: BLE001 - `_fail` raises the errors that pass
            return self._fail(ctx, value, error)

    def _fail(self, ctx: EventContext[Any], value: T, error: BaseException) -> AdapterResult[T]:
        if passes(error):
            raise error
        event, name = ctx.event.name, self.adapter.name
        _, reason = explain(event, name, error)
        closed = self.adapter.on_error != "open"
        # A failed signature is visible only in the log and in the ledger.
        where = f" for the tool {value.name!r}" if isinstance(value, ToolSpec) else ""
        log_failure(event, name, error, f"{reason}{where}", silent=closed)
        return AdapterResult(value, failed=reason, detail=detail_of(error), withhold=closed)

    def _accept(self, ctx: EventContext[Any], old: T, new: Any) -> T:
        """Return *new* if it really changes *old*, else *old*; raise if it is not a valid one."""
        if new is None or new is old:
            return old
        # Most often a response. Unequal responses are encoded differently.
        if type(new) is type(old) is ToolResponse and new != old:
            return new
        if problem := _breach(old, new):
            raise HandlerContractError(ctx.event.name, self.adapter.name, problem)
        return new if changed(old, new) else old


class AdapterChain:
    """The adapters of one component, in the order in which they get signatures and responses.

    It is immutable: a component gets a new chain for each change.
    """

    __slots__ = ("adapters", "bound")

    def __init__(self, bound: Iterable[BoundAdapter]) -> None:
        # Sorting is stable, so equal priorities stay in order of registration.
        self.bound = tuple(sorted(bound, key=lambda each: -each.adapter.priority))
        self.adapters = tuple([each.adapter for each in self.bound])

    def waits(self, event: Event) -> bool:
        """Return whether a method of an adapter may be awaited at *event*."""
        methods = [getattr(each, name) for each in self.adapters for name in _AWAITED[event]]
        return any(is_async(method) or is_async(unwrap(method)) for method in methods)

    async def adapt_specs(
        self, ctx: EventContext[tuple[ToolSpec, ...]], selector: ToolSelector
    ) -> tuple[ToolSpec, ...]:
        """Return the specs changed by the adapters, first to last, for tools in *selector*.

        A failed adapter hides its tool, which its entry in the ledger names.
        """
        specs = ctx.value
        for bound in self.bound:
            results = [await bound.reword(ctx, spec, selector) for spec in specs]
            bound.advertise(specs, results)
            remaining = tuple([result.value for result in results if not result.withhold])
            if len(remaining) != len(specs) or not all(map(is_, remaining, specs)):
                specs = remaining
            if any(result.applies for result in results):
                failed, detail = _failure_of(results)
                ctx.step(bound.adapter.name, specs, actor=bound, failed=failed, detail=detail)
        return specs

    async def adapt_call(self, ctx: EventContext[ToolCall]) -> ToolCall | Deny:
        """Return the call after the adapters, last to first: each reverts its own signature."""
        call = ctx.value
        for bound in reversed(self.bound):
            result = await bound.run(ctx, "adapt_parameters", call.name, call)
            call = result.value
            if result.applies:
                failed, detail = result.failed, result.detail
                ctx.step(bound.adapter.name, call, actor=bound, failed=failed, detail=detail)
            if result.withhold:
                return Deny(f"adapter {bound.adapter.name!r} {result.failed}", result.detail)
        return call

    async def adapt_message(
        self, ctx: EventContext[Any], message: ToolMessage, response: ToolResponse
    ) -> ToolMessage:
        """Return *message* with its *response* after the adapters, first to last."""
        call = None
        for bound in self.bound:
            # Shared by all adapters that get the same response.
            call = call or answered_call(message, response)
            result = await bound.run(ctx, "adapt_response", call.name, response, call)
            if result.withhold or result.value is not response:
                response = result.value
                if result.withhold:
                    # Not a verdict, so it also applies in a dry run.
                    reason = f"adapter {bound.adapter.name!r} {result.failed}"
                    text = f"the result was withheld: {reason}"
                    response = in_place_of(message, text, "withheld")
                message, call = message.with_tool_response(response), None
            if result.applies:
                tool = ctx.tool
                if tool is not None and tool.output_schema is not None:
                    tool = await bound.advertised(ctx, tool)
                ctx.step(
                    bound.adapter.name,
                    message,
                    actor=bound,
                    failed=result.failed,
                    detail=result.detail,
                    tool=tool,
                )
        return message


def _failure_of(results: Sequence[AdapterResult[ToolSpec]]) -> tuple[str | None, str | None]:
    """Return the reason of the first failure, with all hidden tools, and its detail."""
    failure = next((result for result in results if result.failed), _NO_FAILURE)
    hidden = [repr(result.value.name) for result in results if result.withhold]
    if not hidden:
        return failure.failed, failure.detail
    rest = f" and {len(hidden) - _LISTED} more" if len(hidden) > _LISTED else ""
    tools = ", ".join(hidden[:_LISTED])
    return f"{failure.failed}, which hides {tools}{rest}", failure.detail


def answered_call(message: ToolMessage, response: ToolResponse) -> ToolCall:
    """Return the call that *message* answers with *response*."""
    parameters = response.parameters or EMPTY
    return ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=parameters)


def _breach(old: object, new: Any) -> str | None:
    """Return the reason why *new* cannot replace *old*, or None."""
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

    Cached, because an adapter returns the same one before each model call. The key is JSON text,
    in which 1, 1.0 and true differ, as they do not as keys of a dict.
    """
    return schemas.check_schema(msgspec.json.decode(schema))
