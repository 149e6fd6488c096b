import asyncio

from toolbus import (
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
)
from toolbus.transcript.transcript import Transcript


async def test_a_task_of_a_sync_observer_may_append_at_once():
    bus, tasks = EventBus(), []

    async def write(message):
        await asyncio.sleep(0)

    transcript = Transcript(bus, "s", write)

    @bus.on(MESSAGE_APPEND_AFTER, when=lambda ctx: ctx.value.id == "1")
    def note(ctx):
        message = UserMessage(id="2", content="noted")
        tasks.append(asyncio.ensure_future(transcript.append(message, Scope())))

    await transcript.append(UserMessage(id="1", content="hi"), Scope())
    await tasks[0]

    assert [one.id for one in transcript.messages] == ["1", "2"]


async def test_an_answer_that_nobody_asked_for_names_nobody():
    bus, seen = EventBus(), []

    async def write(message):
        pass

    transcript = Transcript(bus, "s", write)
    bus.on(TOOL_CALL_PERSIST_AFTER, lambda ctx: seen.append(ctx.value))

    await transcript.enter(ToolMessage(id="t", tool_call_id="c", tool_name="read"), Scope())

    (facts,) = seen
    assert (facts.message_id, facts.tool_input, facts.tool_call_id) == ("", {}, "c")


async def test_the_stub_of_an_error_is_an_error():
    bus, written = EventBus(), []

    async def write(message):
        written.append(message)

    transcript = Transcript(bus, "s", write)
    bus.guard(MESSAGE_PERSIST_BEFORE, lambda ctx: Deny("not to be kept"))
    response = ToolResponse.from_text("no such file", is_error=True, error_type="OSError")

    message = ToolMessage(id="t", tool_call_id="c", tool_name="read", tool_response=response)
    await transcript.enter(message, Scope())

    (stored,) = written
    assert stored.tool_response == ToolResponse.from_text("not to be kept", is_error=True)


async def test_a_message_that_is_not_written_is_copied_only_for_observers_of_the_copy():
    bus, seen = EventBus(), []
    transcript = Transcript(bus, "s", None)

    async def enter(message):
        entering = await transcript.prepare(message, Scope(), is_written=False)
        await transcript.announce(entering)

    call = ToolCall(id="c", name="read", arguments={"path": "a"})

    # Nobody hears of the first message, and of the second one its own handler subscribes others.
    await enter(AssistantMessage(id="a", tool_calls=(call,)))

    @bus.on(MESSAGE_APPEND_BEFORE)
    def subscribe(ctx):
        for event in (MESSAGE_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER, MESSAGE_APPEND_AFTER):
            bus.on(event, lambda ctx: seen.append((ctx.event.name, ctx.value)))

    await enter(ToolMessage(id="t", tool_call_id="c", tool_name="read"))

    assert [one.id for one in transcript.messages] == ["a", "t"]
    assert [name for name, _ in seen] == [
        "message:persist:before",
        "tool:call:persist:after",
        "message:append:after",
    ]
    assert (seen[1][1].message_id, seen[1][1].tool_input) == ("a", {"path": "a"})
