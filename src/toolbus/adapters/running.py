"""Run one method of one adapter, so that its failure is a fact and no exception."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from toolbus.dispatch.failures import detail_of, log_failure
from toolbus.messages import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.adapters import ToolAdapter
    from toolbus.events import Event

T = TypeVar("T")


class Done(NamedTuple, Generic[T]):
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
    try:
        if not adapter.should_adapt(tool_name):
            return Done(value, concerned=False)
        new = method(value, *more)
        if isawaitable(new):
            new = await new
        if new is None or new is value:
            return Done(value)
        _check(new, value)
        return Done(new if changed(value, new) else value)
    except Exception as error:  # noqa: BLE001 - the adapter's policy says what its failure does
        reason = str(error) if isinstance(error, AdapterContractError) else "raised an error"
        closed = adapter.on_error != "open"
        log_failure(event.name, adapter.name, error, reason, silent=closed)
        return Done(value, failed=reason, detail=detail_of(error), withhold=closed)


class AdapterContractError(Exception):
    """An adapter returned what it must not; never leaves this file."""


def _check(new: Any, old: Any) -> None:
    if type(new) is not type(old):
        message = f"returned `{type(new).__name__}` instead of `{type(old).__name__}`"
        raise AdapterContractError(message)
    for field in ("name", "id"):
        if getattr(new, field, None) != getattr(old, field, None):
            message = f"changed the {field}"
            raise AdapterContractError(message)
