"""What a spec of components should not mention."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    tool,
)
from toolbus.bus.bus import EventBus
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.models.scripted import ScriptedModel
from toolbus.tools.toolset import Toolset


class Star(ToolAdapter):
    def adapt_signature(self, spec):
        return replace(spec, description=spec.description + "*")


@tool
def read() -> str:
    """Read."""
    return "text"


def host_of(bus: EventBus) -> SimpleNamespace:
    return SimpleNamespace(bus=bus, tools=Toolset(), scope=Scope(agent_id="main"))


async def test_a_shared_adapter_has_a_depth_in_each_component():
    bus, depths, star = EventBus(), [], Star()
    components = [AgentComponent(), AgentComponent()]
    for component in components:
        component.register_tool_adapter(star)
    for priority in (500, 201, 100):
        bus.on(TOOL_CALL_BEFORE, lambda ctx: depths.append(ctx.tool.description), priority=priority)
    asks = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="read"),))

    async with Agent(
        ScriptedModel([asks, "done"]), tools=[read], components=components, bus=bus
    ) as agent:
        await agent.run("go")

    assert depths == ["Read.**", "Read.*", "Read."]


async def test_a_teardown_without_setup_does_nothing():
    bus, component = EventBus(), AgentComponent()

    component.teardown()
    component.setup(host_of(bus))
    component.teardown()
    component.teardown()

    assert bus.handlers(MESSAGE_APPEND_BEFORE) == ()


async def test_a_redactor_for_display_under_its_former_name_is_refused():
    class Former(AgentComponent):
        async def concealed(self, record, scope):
            return record

    with pytest.raises(RegistrationError, match=r"`concealed` is `for_display` since 0\.5"):
        Agent(ScriptedModel([]), components=[Former()])


async def test_components_share_no_state():
    first, second = AgentComponent(), AgentComponent()
    first.register_tool_adapter(Star())
    first.setup(host_of(EventBus()))

    assert (second.adapters, second.host) == ((), None)
    second.setup(host_of(EventBus()))


async def test_adapters_share_the_call_until_the_response_changes():
    seen = []

    class Sees(ToolAdapter):
        def adapt_response(self, response, call):
            seen.append(call)

    class Hides(ToolAdapter):
        async def adapt_response(self, response, call):
            return replace(response, parameters=None)

    component, bus = AgentComponent(), EventBus()
    for adapter in (Sees(), Sees(), Hides(), Sees()):
        component.register_tool_adapter(adapter)
    component.setup(host_of(bus))
    response = replace(ToolResponse.from_text("x"), parameters={"path": "a"})
    message = ToolMessage(id="m", tool_call_id="c", tool_name="read", tool_response=response)

    await bus.apply(MESSAGE_APPEND_BEFORE, message, scope=Scope(agent_id="main"))

    assert seen[0] is seen[1]
    assert [call.arguments for call in seen] == [{"path": "a"}, {"path": "a"}, {}]


async def test_registering_during_a_dispatch_counts_from_the_next():
    component, bus = AgentComponent(), EventBus()
    listen = Star()

    class Inviting(ToolAdapter):
        def adapt_parameters(self, call):
            component.register_tool_adapter(listen)

    component.register_tool_adapter(Inviting())
    component.setup(host_of(bus))

    context = await bus.apply(
        TOOL_CALL_BEFORE, ToolCall(id="c", name="read"), scope=Scope(agent_id="main")
    )

    assert context.denied is None
    assert [one.name for one in context.steps] == ["Inviting"]
    assert listen in component.adapters


def test_an_adapter_without_a_name_is_shown():
    class Nameless:
        pass

    stranger = Nameless()

    with pytest.raises(RegistrationError, match=r"adapter <.*Nameless object"):
        AgentComponent().register_tool_adapter(stranger)
