"""A component while it is checked: installed, with its adapters as they run there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.components.adapters import ToolAdapter, with_context
from toolbus.components.components import AgentComponent
from toolbus.components.participants import ComponentHost
from toolbus.errors import DeadlineError
from toolbus.events.catalogue import Scope
from toolbus.messages.immutable import EMPTY
from toolbus.testing.limits import Stopwatch, TimeIsUp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.components.adapters import AdapterContext
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse

CHECKED = Scope(agent_id="checked", session_id="checked")
"""Who speaks in a check."""


@contextmanager
def installed(subject: object, limit: float) -> Iterator[Stopwatch]:
    """Give what runs the functions of *subject*, which is installed meanwhile if a component."""
    watch = Stopwatch(limit)
    try:
        if not isinstance(subject, AgentComponent) or subject.host is not None:
            yield watch
            return
        host = ComponentHost(scope=CHECKED)
        subject.setup(host)
        try:
            watch.run(lambda: subject.install(host))
            try:
                yield watch
            finally:
                watch.run(subject.close)
        finally:
            subject.teardown()
    except TimeIsUp:
        raise DeadlineError(limit) from None
    finally:
        watch.close()


class InstalledAdapter(ToolAdapter):
    """The *adapter* of a *component* as it runs there: for the component's tools alone."""

    def __init__(self, component: AgentComponent, adapter: ToolAdapter) -> None:
        self.name, self.tools = adapter.name, adapter.tools
        self._component, self._adapter = component, adapter

    def should_adapt(self, tool_name: str) -> bool:
        """Tell whether both are for the tool *tool_name*."""
        return self._component.selector.matches(tool_name) and self._adapter.should_adapt(tool_name)

    def adapt_signature(self, spec: ToolSpec, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *spec*."""
        if self.should_adapt(spec.name):
            return with_context(self._adapter.adapt_signature)(spec, ctx=ctx)
        return None

    def adapt_parameters(self, call: ToolCall, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *call*."""
        if self.should_adapt(call.name):
            return with_context(self._adapter.adapt_parameters)(call, ctx=ctx)
        return None

    def adapt_response(self, response: ToolResponse, call: ToolCall, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *response*."""
        if not self.should_adapt(call.name):
            return None
        # A call is rebuilt from its message, where a response may have lost its parameters.
        rebuilt = replace(call, arguments=response.parameters or EMPTY)
        return with_context(self._adapter.adapt_response)(response, rebuilt, ctx=ctx)
