"""An adapter in a component: its methods are run so that a failure is a fact and no exception."""

from __future__ import annotations

from functools import lru_cache
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.failures import detail_of, explain, log_failure, passes
from toolbus.components.adapters import (
    AdapterContext,
    ToolAdapter,
    asks_for_context,
    with_context,
)
from toolbus.errors import HandlerContractError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Deny, ToolSpec
from toolbus.messages import schemas
from toolbus.messages.records import ToolResponse, changed, encode
from toolbus.tools.calls.advertised import ArgumentsFiller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

T = TypeVar("T")


class AdapterResult(Struct, Generic[T], frozen=True):
    """What an adapter left: *value* is the old object unless it really changed something.

    *applies* says that the tool is one of its own; *failed* is for the model, *detail* for
    operators; *withhold* says that a failure must not let the value pass.
    """

    value: T
    applies: bool = True
    failed: str | None = None
    detail: str | None = None
    withhold: bool = False


# Sync methods are not awaited: a coroutine for each would cost more than most adapters do.
Running: TypeAlias = "AdapterResult[T] | Coroutine[Any, Any, AdapterResult[T]]"


class BoundAdapter(ArgumentsFiller):
    """An adapter that is registered in one component, and what is known of it from then on.

    As an object it stands for that adapter in that component: the same adapter may be registered
    in several, and in each it is given other signatures.
    """

    __slots__ = ("_advertised", "_parameters_ask", "_response_asks", "_signature_asks", "adapter")

    def __init__(self, adapter: ToolAdapter) -> None:
        self.adapter = adapter
        self._signature_asks = asks_for_context(adapter.adapt_signature)
        self._parameters_ask = asks_for_context(adapter.adapt_parameters)
        self._response_asks = asks_for_context(adapter.adapt_response)
        # By a tool's name: its spec before and after, as a model was last told of it.
        self._advertised: dict[str, tuple[ToolSpec, ToolSpec]] = {}

    def adapt_signature(self, ctx: EventContext[Any], spec: ToolSpec) -> Running[ToolSpec]:
        """Begin to let the adapter reword *spec*."""
        adapter_ctx = AdapterContext(ctx.scope, spec) if self._signature_asks else None
        return self._begin(ctx, spec.name, adapter_ctx, self.adapter.adapt_signature, spec)

    def adapt_parameters(self, ctx: EventContext[Any], call: ToolCall) -> Running[ToolCall]:
        """Begin to let the adapter change the arguments of *call*."""
        adapter_ctx = AdapterContext(ctx.scope, ctx.tool) if self._parameters_ask else None
        return self._begin(ctx, call.name, adapter_ctx, self.adapter.adapt_parameters, call)

    def adapt_response(
        self, ctx: EventContext[Any], response: ToolResponse, call: ToolCall
    ) -> Running[ToolResponse]:
        """Begin to let the adapter change *response*, which answers *call*."""
        adapter_ctx = None
        if self._response_asks:
            adapter_ctx = AdapterContext(ctx.scope, ctx.tool, message_id=ctx.value.id)
        return self._begin(ctx, call.name, adapter_ctx, self.adapter.adapt_response, response, call)

    @property
    def fills(self) -> bool:
        """Whether the adapter has a `fill_parameters` of its own."""
        return type(self.adapter).fill_parameters is not ToolAdapter.fill_parameters

    async def fill(self, call: ToolCall, scope: Scope, spec: ToolSpec) -> ToolCall | Deny:
        """Return *call* as the adapter fills it, or why its tool, that of *spec*, gets nothing."""
        ctx = EventContext(TOOL_CALL_BEFORE, call, scope=scope, tool=spec)
        try:
            if not self.adapter.should_adapt(call.name):
                return call
            method = with_context(self.adapter.fill_parameters)
            new = method(call, ctx=AdapterContext(scope, spec))
            new = await new if isawaitable(new) else new
            return new if isinstance(new, Deny) else self._accept(ctx, call, new)
        except BaseException as error:  # noqa: BLE001 - what passes is raised again
            result = self._fail(ctx, call, error)
        if result.withhold:
            return Deny(f"adapter {self.adapter.name!r} {result.failed}", result.detail)
        return call

    def advertise(
        self, specs: Iterable[ToolSpec], results: Iterable[AdapterResult[ToolSpec]]
    ) -> None:
        """Remember what a model is told in place of *specs* that say what responses look like."""
        self._advertised = {
            spec.name: (spec, result.value)
            for spec, result in zip(specs, results, strict=True)
            if spec.output_schema is not None and result.failed is None
        }

    async def advertised(self, ctx: EventContext[Any], spec: ToolSpec | None) -> ToolSpec | None:
        """Return what the adapter makes of *spec*, if that says what responses look like.

        What a model was told last holds; only if it was told nothing is the adapter asked.
        """
        if spec is None or spec.output_schema is None:
            return spec
        before, after = self._advertised.get(spec.name, (None, spec))
        if before is not None and before.output_schema is spec.output_schema:
            return after
        result = self.adapt_signature(ctx, spec)
        return (result if isinstance(result, AdapterResult) else await result).value

    def _begin(
        self,
        ctx: EventContext[Any],
        tool_name: str,
        adapter_ctx: AdapterContext | None,
        method: Callable[..., Any],
        value: T,
        *call: ToolCall,
    ) -> Running[T]:
        """Return what *method* makes of *value*, or what is left to await, if it is async."""
        try:
            if not self.adapter.should_adapt(tool_name):
                return AdapterResult(value, applies=False)
            new = (
                method(value, *call)
                if adapter_ctx is None
                else method(value, *call, ctx=adapter_ctx)
            )
            if new is None or new is value:
                return AdapterResult(value)
            if type(new) is not type(value) and isawaitable(new):
                return self._await(ctx, value, new)
            return AdapterResult(self._accept(ctx, value, new))
        except BaseException as error:  # noqa: BLE001 - what passes is raised again
            return self._fail(ctx, value, error)

    async def _await(
        self, ctx: EventContext[Any], value: T, new: Awaitable[Any]
    ) -> AdapterResult[T]:
        try:
            return AdapterResult(self._accept(ctx, value, await new))
        except BaseException as error:  # noqa: BLE001 - what passes is raised again
            return self._fail(ctx, value, error)

    def _fail(self, ctx: EventContext[Any], value: T, error: BaseException) -> AdapterResult[T]:
        if passes(error):
            raise error
        event, name = ctx.event.name, self.adapter.name
        _, reason = explain(event, name, error)
        closed = self.adapter.on_error != "open"
        # A failed signature reaches nobody but who reads the log or the ledger.
        where = f" for the tool {value.name!r}" if isinstance(value, ToolSpec) else ""
        log_failure(event, name, error, f"{reason}{where}", silent=closed)
        return AdapterResult(value, failed=reason, detail=detail_of(error), withhold=closed)

    def _accept(self, ctx: EventContext[Any], old: T, new: Any) -> T:
        """Return *new* if it really changes *old*, else *old*; raise if it cannot replace it."""
        if new is None or new is old:
            return old
        # Most often a response. Those that are not equal are not encoded alike either.
        if type(new) is type(old) is ToolResponse and new != old:
            return new
        if problem := _breach(old, new):
            raise HandlerContractError(ctx.event.name, self.adapter.name, problem)
        return new if changed(old, new) else old


def _breach(old: object, new: Any) -> str | None:
    """Return why *new* cannot stand for *old*, or None."""
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
