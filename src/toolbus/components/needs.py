"""The abilities that the handlers of a component need in a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.components.adapter_handlers import AdapterHandler, owner_of
from toolbus.components.call_facts import CallFactSource
from toolbus.components.marks import tools_of
from toolbus.events.catalogue import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    RUN_BEFORE,
    RUN_ERROR,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.bus.bus import EventBus
    from toolbus.bus.subscriptions import HandlerInfo
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event

_OF_EVENT: Mapping[Event, tuple[str, ...]] = {
    RUN_BEFORE: ("block_prompt",),
    RUN_ERROR: ("answer_errors",),
    TOOLS_PROVIDE: ("change_tools",),
    TOOL_CALL_ERROR: ("retry",),
    MODEL_CALL_BEFORE: ("model_calls",),
    MODEL_CALL_ERROR: ("model_calls",),
    MODEL_CALL_DELTA: ("model_calls",),
    MODEL_CALL_AFTER: ("model_calls",),
}
_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    "tool": ("replace_result", "replace_failure"),
    "user": ("rewrite_prompt",),
    "assistant": ("replace_answer",),
}


def needs_of(bus: EventBus, component: AgentComponent) -> Iterator[tuple[Event, tuple[str, ...]]]:
    """Yield the events that *component* handles on *bus*, each with the abilities that it needs.

    Its tools count as handlers of `TOOLS_PROVIDE`.
    """
    tells_facts = isinstance(component, CallFactSource)
    for event in CATALOGUE:
        for info, function in zip(bus.handlers(event), bus.functions(event), strict=True):
            if owner_of(function) is component and not _is_idle(function):
                only_reads = event is not TOOL_CALL_BEFORE and tells_facts
                yield event, () if only_reads else _needs(event, info, function)
    if any(True for _ in tools_of(component)):
        yield TOOLS_PROVIDE, ("add_tools",)


def _is_idle(function: object) -> bool:
    # A host runs the tool itself, so no parameter is filled in as the last step.
    return isinstance(function, AdapterHandler) and all(
        method.__name__ == "fill_parameters" for _, method in function.methods()
    )


def _needs(event: Event, handler: HandlerInfo, function: object) -> tuple[str, ...]:
    if event is TOOL_CALL_BEFORE:
        return ("deny", "ask") if handler.kind == "guard" else ("rewrite_arguments",)
    if event is MESSAGE_APPEND_BEFORE:
        is_adapting = isinstance(function, AdapterHandler)
        roles = ("tool",) if is_adapting else handler.roles or tuple(_OF_ROLE)
        return tuple([need for role in roles for need in _OF_ROLE.get(role, ())])
    return _OF_EVENT.get(event, ())
