import asyncio

from toolbus import EventBus, Scope, ToolMessage, UserMessage
from toolbus.events import MESSAGE_APPEND_AFTER, TOOL_CALL_PERSIST_AFTER
from toolbus.transcript import Transcript


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

    await transcript.append(ToolMessage(id="t", tool_call_id="c", tool_name="read"), Scope())

    (facts,) = seen
    assert (facts.message_id, facts.tool_input, facts.tool_call_id) == ("", {}, "c")
