"""The abilities that the handlers of a component need."""

import pytest

from toolbus import AgentComponent, EventBus, ToolAdapter, ToolResponse, events, guard, on, tool
from toolbus.components.needs import needs_of


class Guard(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): ...


class Rewriter(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def rewrite(self, ctx): ...


class AnswerReader(AgentComponent):
    @on(events.MESSAGE_APPEND_BEFORE, roles=["assistant", "system"])
    def read(self, ctx): ...


class AnyMessage(AgentComponent):
    @on(events.MESSAGE_APPEND_BEFORE)
    def read(self, ctx): ...


class FactTeller(AnyMessage):
    @on(events.MODEL_CALL_BEFORE)
    def read_request(self, ctx): ...

    async def facts_of(self, ctx): ...


class Watcher(AgentComponent):
    @on(events.TOOL_CALL_AFTER)
    def watch(self, ctx): ...


class Offer(AgentComponent):
    @tool
    def look(self) -> str:
        """Look."""
        return ""


class Shortener(ToolAdapter):
    def adapt_response(self, response, call):
        return ToolResponse.from_text("short")


class Filler(ToolAdapter):
    def fill_parameters(self, call):
        return call


class Adapting(AgentComponent):
    def __init__(self, adapter):
        self.register_tool_adapter(adapter)


def needs(component):
    bus = EventBus()
    with component.installed(bus):
        return {need for _, found in needs_of(bus, component) for need in found}


@pytest.mark.parametrize(
    ("component", "needed"),
    [
        (Guard(), {"deny", "ask"}),
        (Rewriter(), {"rewrite_arguments"}),
        (AnswerReader(), {"replace_answer"}),
        (AnyMessage(), {"replace_result", "replace_failure", "rewrite_prompt", "replace_answer"}),
        (FactTeller(), set()),
        (Watcher(), set()),
        (Offer(), {"add_tools"}),
    ],
)
def test_each_handler_needs_the_abilities_of_its_event(component, needed):
    assert needs(component) == needed


def test_an_adapter_needs_the_abilities_of_its_methods():
    assert needs(Adapting(Shortener())) == {"replace_result", "replace_failure"}
    # Values are filled in by the runner, as the last step before the tool.
    assert needs(Adapting(Filler())) == set()
