"""The view of a sub-agent whose host does not show its task."""

from msgspec.structs import replace

from toolbus import EventBus, Scope, ToolMessage, ToolResponse, UserMessage, events
from toolbus.flow import FlowGuard

MAIN = Scope(agent_id="coder", session_id="s")
BELOW = Scope(
    agent_id="helper",
    session_id="s/helper",
    lineage=("coder",),
    root_session_id="s",
    parent_session_id="s",
)


def page(number, text):
    response = ToolResponse.from_text(text)
    return ToolMessage(
        id=f"m{number}", tool_call_id=f"c{number}", tool_name="fetch", tool_response=response
    )


async def test_a_hidden_task_may_have_words_of_all_that_was_in_view_above():
    bus, flow = EventBus(), FlowGuard()
    async with flow.installed(bus):
        for message in (UserMessage(id="m0", content="look"), page(1, "a stranger's page")):
            await bus.apply(events.MESSAGE_APPEND_BEFORE, message, scope=MAIN)
        below = await flow.view(BELOW)
        await bus.apply(events.MESSAGE_APPEND_BEFORE, page(2, "a later page"), scope=MAIN)

    sources = [text.source for text in below.sources if text.label.is_known]
    assert sources == ["the prompt", "the result of fetch"]
    assert not below.label.is_trusted


async def test_a_task_that_is_shown_has_no_other_words():
    bus, flow = EventBus(), FlowGuard()
    async with flow.installed(bus):
        await bus.apply(events.MESSAGE_APPEND_BEFORE, page(1, "a stranger's page"), scope=MAIN)
        below = await flow.view(replace(BELOW, parent_call_id="c9"))

    assert [text.source for text in below.sources if text.label.is_known] == []
