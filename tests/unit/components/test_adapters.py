import asyncio
from functools import wraps

import pytest

from toolbus import (
    AgentComponent,
    EventBus,
    Scope,
    ToolAdapter,
    ToolMessage,
    ToolResponse,
)
from toolbus.components.adapter_handlers import AdapterHandler, AsyncAdapterHandler
from toolbus.components.participants import ComponentHost
from toolbus.errors import DispatchError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE

MESSAGE = ToolMessage(
    id="m", tool_call_id="c", tool_name="read", tool_response=ToolResponse.from_text("")
)


class Adapts(ToolAdapter):
    def adapt_parameters(self, call): ...


class Fills(ToolAdapter):
    def fill_parameters(self, call): ...


class Both(Adapts, Fills):
    name = "Both"


class Says(ToolAdapter):
    def __init__(self, word):
        self.word = word

    def adapt_response(self, response, call):
        return response.with_text(response.text + self.word)


class SaysLater(Says):
    async def adapt_response(self, response, call):
        await asyncio.sleep(0)
        return response.with_text(response.text + self.word)


def saying(*words):
    bus, components = EventBus(), []
    for word in words:
        component = AgentComponent()
        component.register_tool_adapter(Says(word))
        component.setup(ComponentHost(bus, Scope()))
        components.append(component)
    return bus, components


def waits(bus):
    return [isinstance(each, AsyncAdapterHandler) for each in bus.functions(MESSAGE_APPEND_BEFORE)]


def test_an_adapter_that_fills_is_listed_behind_those_that_adapt():
    component = AgentComponent()
    for adapter in (Adapts(), Fills(), Both(), ToolAdapter()):
        component.register_tool_adapter(adapter)

    method = component._on_tool_call_before_adapter
    methods = AdapterHandler(component, TOOL_CALL_BEFORE, method).methods()

    assert [(adapter.name, method.__name__) for adapter, method in methods] == [
        ("Both", "adapt_parameters"),
        ("Adapts", "adapt_parameters"),
        ("Both", "fill_parameters"),
        ("Fills", "fill_parameters"),
    ]


async def test_the_handler_is_chosen_anew_and_keeps_its_place():
    bus, (first, second) = saying("a", "b")
    later = SaysLater("c")
    infos = bus.handlers(MESSAGE_APPEND_BEFORE)
    sync = bus.apply_sync(MESSAGE_APPEND_BEFORE, MESSAGE).value.text

    first.register_tool_adapter(later)
    waiting = waits(bus)
    told = (await bus.apply(MESSAGE_APPEND_BEFORE, MESSAGE)).value.text
    with pytest.raises(DispatchError, match="is async"):
        bus.apply_sync(MESSAGE_APPEND_BEFORE, MESSAGE)
    first.unregister_tool_adapter(later)

    assert (sync, told) == ("ab", "acb")
    assert (waiting, waits(bus)) == ([True, False], [False, False])
    assert bus.handlers(MESSAGE_APPEND_BEFORE) == infos
    second.teardown()
    first.teardown()
    assert bus.handlers(MESSAGE_APPEND_BEFORE) == ()


async def test_a_dispatch_under_way_withholds_rather_than_skips():
    bus, (component,) = saying("a")

    @bus.on(MESSAGE_APPEND_BEFORE, priority=60, once=True)
    async def register(ctx):
        component.register_tool_adapter(SaysLater("b"))

    first, second = [await bus.apply(MESSAGE_APPEND_BEFORE, MESSAGE) for _ in range(2)]

    assert first.value.text == "the result was withheld: adapter 'SaysLater' raised an error"
    assert second.value.text == "ab"


def test_a_decorated_async_method_is_async():
    def logged(method):
        @wraps(method)
        def call(*arguments):
            return method(*arguments)

        return call

    class Logged(SaysLater):
        adapt_response = logged(SaysLater.adapt_response)

    bus, (component,) = saying("a")
    component.register_tool_adapter(Logged("b"))

    assert waits(bus) == [True]


async def test_a_sync_method_that_waits_is_withheld_with_the_way_out():
    class Waits(Says):
        def adapt_response(self, response, call):
            return SaysLater("b").adapt_response(response, call)

    bus, (component,) = saying("a")
    component.register_tool_adapter(Waits("b"))

    context = await bus.apply(MESSAGE_APPEND_BEFORE, MESSAGE)

    assert context.value.text == "the result was withheld: adapter 'Waits' raised an error"
    assert "declare its method with `async def`" in context.steps[-1].detail
