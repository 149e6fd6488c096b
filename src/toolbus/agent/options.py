"""The options of an agent and of its runs, typed for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    from toolbus.bus.bus import EventBus
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.components.participants import BeforeToolCallback
    from toolbus.messages.records import JsonObject
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.definitions import Tool
    from toolbus.tools.toolset import Toolset


class AgentOptions(TypedDict, total=False):
    """The options of `Agent` besides its model and `output_type`; see there."""

    tools: Iterable[Tool | Callable[..., Any] | Toolset]
    components: Iterable[AgentComponent | ToolAdapter]
    bus: EventBus | None
    store: Store | str | PathLike[str] | None
    session_id: str | None
    agent_id: str | None
    system: str | None
    approver: Approver | CallGate | None
    approval_timeout: float | None
    before_tool_callback: BeforeToolCallback | None
    deps: Any
    max_turns: int
    output_retries: int
    model_settings: JsonObject
    ids: Callable[[], str]
    clock: Callable[[], int]
    grace: float
    keep_originals: bool


class RunArguments(TypedDict, total=False):
    """The arguments of `Agent.run` besides its prompt and `output_type`."""

    context: JsonObject
    deps: Any
