"""Checks of the bridge to Strands beyond the scenarios: `python strands_checks.py`.

It runs in an environment of Strands, prints the names of the checks that hold, and ends with the
traceback of the first that does not.
"""

import asyncio
import json
import tempfile
import threading
import traceback
from pathlib import Path

from pydantic import BaseModel
from scenarios import HIDDEN, REASON, SECRET
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.multiagent import GraphBuilder
from strands.session.file_session_manager import FileSessionManager
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from strands.types.tools import AgentTool
from strands_world import WorldModel
from world import FIELDS, Script
from world_handlers import Watch, components

from toolbus import AgentComponent, on
from toolbus import tool as our_tool
from toolbus.bridges.strands import StrandsBridge
from toolbus.events import MESSAGE_APPEND_AFTER
from toolbus.store import SqliteStore

DENY, REDACT, ANSWERS = {"deny": "danger"}, {"redact": "*"}, {"redact_answer": "*"}
ASK = {"ask": "danger"}
DANGER = ["danger", {"text": "x"}]


class Room:
    """An agent with a bridge of *handlers*, whose model plays *turns*; *ran* are its tools."""

    def __init__(self, turns, *handlers, hooks=(), tools=(), store=None, more=(), **options):
        self.seen, self.ran = json.loads(json.dumps(FIELDS)), []
        made = [Watch(self.seen), *components(handlers), *more]
        self.bridge = StrandsBridge(made, partial=True, store=store)
        self.agent = self.make(turns, tools, hooks=[self.bridge, *hooks], **options)

    def make(self, turns, tools=(), prefix="c", **options):
        """Return an agent with the tools `danger` and `echo`, and *tools*."""

        @tool
        def danger(text: str) -> str:
            """Do a dangerous thing."""
            self.ran.append(text)
            return f"did {text} with {SECRET}"

        @tool
        async def echo(text: str) -> str:
            """Return the text."""
            self.ran.append(text)
            return text

        model = WorldModel(Script(turns, self.seen, prefix))
        options = {"callback_handler": None, **options}
        return Agent(model=model, tools=[danger, echo, *tools], **options)

    @property
    def ends(self):
        """The number of ends and the status of each call."""
        return {
            id_: (count, self.seen["statuses"][id_]) for id_, count in self.seen["ends"].items()
        }


def answers(result, response):
    """Return *response* to all interrupts of *result*."""
    return [
        {"interruptResponse": {"interruptId": each.id, "response": response}}
        for each in result.interrupts
    ]


async def read_roles(path):
    """Return the roles of the messages in the only session of a store."""
    async with SqliteStore(path, read_only=True) as store:
        (session,) = await store.sessions()
        return " ".join([message.role for message in await store.read(session.id)])


def check_interrupt_goes_on_in_another_process():
    with tempfile.TemporaryDirectory() as folder:

        def room(*turns):
            store = SqliteStore(Path(folder, "log.db"))
            manager = FileSessionManager(session_id="s1", storage_dir=folder)
            return Room(turns, ASK, store=store, session_manager=manager)

        before = room([DANGER])
        paused = before.agent("go")
        asyncio.run(before.bridge.aclose())
        after = room("done")
        result = after.agent(answers(paused, "yes"))
        asyncio.run(after.bridge.aclose())

        assert (paused.stop_reason, result.stop_reason) == ("interrupt", "end_turn")
        assert (before.ran, before.ends, before.seen["runs"]) == ([], {}, [])
        assert (after.ran, after.ends, after.seen["runs"]) == (["x"], {"c1": (1, "ok")}, ["ok"])
        assert asyncio.run(read_roles(Path(folder, "log.db"))) == "user assistant tool assistant"


def check_interrupt_is_refused_and_spares_siblings():
    room = Room(([DANGER, ["echo", {"text": "a"}]], "done"), ASK)

    result = room.agent(answers(room.agent("go"), "no"))

    assert str(result) == "done\n"
    assert (room.ran, room.ends) == (["a"], {"c1": (1, "denied"), "c2": (1, "ok")})


def check_interrupt_of_an_agent_as_a_tool_reaches_the_program():
    room = Room(([["helper", {"input": "go"}]], "done"), ASK, tools=[])
    helper = room.make(([DANGER], "done below"), prefix="s", name="helper", description="helps")
    room.agent.tool_registry.process_tools([helper.as_tool(preserve_context=True)])

    paused = room.agent("go")
    room.agent(answers(paused, "y"))

    assert paused.stop_reason == "interrupt"
    assert (room.ran, room.ends) == (["x"], {"s1": (1, "ok"), "c1": (1, "ok")})


def check_question_below_a_function_is_left_to_the_approver():
    @tool
    def delegate(task: str) -> str:
        """Give a task to an agent, and take any end for its answer."""
        return str(room.bridge.wrap(room.make(([DANGER], "done below"), prefix="s"))(task))

    room = Room(([["delegate", {"task": "go"}]], "done"), ASK, tools=[delegate])

    assert room.agent("go").stop_reason == "end_turn"
    assert (room.ran, room.ends) == ([], {"s1": (1, "denied"), "c1": (1, "ok")})


def check_question_of_a_direct_call_is_left_to_the_approver():
    room = Room((), ASK)

    refused = room.agent.tool.danger(text="x")

    assert (refused["status"], room.ran) == ("error", [])
    assert [*room.ends.values()] == [(1, "denied")]


def check_answer_is_not_used_for_another_call_of_its_id():
    class SameIds(WorldModel):
        async def stream(self, *args, **options):
            async for chunk in super().stream(*args, **options):
                start = chunk.get("contentBlockStart", {}).get("start", {})
                if "toolUse" in start:
                    start["toolUse"]["toolUseId"] = "c1"
                yield chunk

    for executor in (SequentialToolExecutor(), ConcurrentToolExecutor()):
        room = Room((), ASK)
        turns = [DANGER, ["danger", {"text": "worse"}]], "done"
        agent = room.make(turns, hooks=[room.bridge], tool_executor=executor)
        agent.model = SameIds(Script(turns, room.seen, "c"))

        paused = agent("go")
        agent(answers(paused, "yes"))

        assert [each.reason["arguments"] for each in paused.interrupts] == [{"text": "x"}]
        assert room.ran in (["x"], [])


def check_direct_call_is_judged():
    room = Room((), DENY, REDACT)

    refused = room.agent.tool.danger(text="x")
    redacted = room.agent.tool.echo(text=SECRET)

    assert (refused["content"], redacted["content"]) == ([{"text": REASON}], [{"text": HIDDEN}])
    assert [count for count, _ in room.ends.values()] == [1, 1]


def check_call_that_a_hook_repeats_has_an_end_for_each_run():
    left = [True, True]

    def repeat(event: AfterToolCallEvent):
        event.retry = bool(left and left.pop())

    room = Room(([["echo", {"text": "a"}]], "done"), hooks=[repeat])
    room.agent("go")

    assert room.ran == ["a", "a", "a"]
    assert room.ends == {"c1": (3, "ok")}


def check_tool_that_a_hook_chooses_is_judged():
    def choose(event: BeforeToolCallEvent):
        event.selected_tool = event.agent.tool_registry.registry["danger"]

    room = Room(([["echo", {"text": "a"}]], "done"), DENY)
    room.agent.hooks.add_callback(BeforeToolCallEvent, choose)
    room.agent("go")

    assert (room.ran, room.ends) == ([], {"c1": (1, "denied")})


class Speakers(AgentComponent):
    """An observer of the answers in each session."""

    def __init__(self):
        super().__init__()
        self.sessions = {}

    @on(MESSAGE_APPEND_AFTER, roles="assistant")
    def note(self, ctx):
        if ctx.value.text:
            self.sessions.setdefault(ctx.scope.session_id, []).append(ctx.value.text)


def check_parallel_nodes_of_a_graph_do_not_mix():
    # strands-agents 1.62: they share one `invocation_state`, with "agent" in it.
    room, builder, speakers = Room(()), GraphBuilder(), Speakers()
    made = [Watch(room.seen), speakers, *components([DENY, ANSWERS])]
    room.bridge = StrandsBridge(made, partial=True)
    for name in "abc":
        turns = [DANGER, ["echo", {"text": name}]], f"{name} has {SECRET}"
        builder.add_node(room.make(turns, prefix=name, name=name), name)
    builder.set_execution_timeout(30)

    result = room.bridge.wrap(builder.build())("go")

    found = {name: str(node.result).strip() for name, node in result.results.items()}
    assert found == {name: f"{name} has {HIDDEN}" for name in "abc"}
    assert sorted(room.ran) == ["a", "b", "c"]
    assert sorted(speakers.sessions.values()) == [[found[name]] for name in "abc"]


def check_threads_share_a_bridge():
    with tempfile.TemporaryDirectory() as folder:
        room = Room((), REDACT, store=SqliteStore(Path(folder, "log.db")))

        def run(number):
            turns = [["echo", {"text": SECRET}], DANGER], "done"
            room.make(turns, prefix=f"t{number}-", hooks=[room.bridge])("go")

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        asyncio.run(room.bridge.aclose())

        assert room.seen["runs"] == ["ok"] * 4
        assert sorted(room.ends.values()) == [(1, "ok")] * 8
        assert SECRET not in json.dumps(room.seen["read"])


class Blocks(AgentTool):
    """A tool whose result has blocks of all kinds."""

    tool_name, tool_type = "blocks", "python"
    tool_spec = {  # noqa: RUF012 - as the base class has it
        "name": "blocks",
        "description": "Return blocks.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }

    async def stream(self, tool_use, invocation_state, **_):
        yield f"a step with {SECRET}"
        yield {
            "toolUseId": tool_use["toolUseId"],
            "status": "success",
            "content": [
                {"text": SECRET},
                {"json": {"token": SECRET}},
                {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
                {"document": {"name": "d", "format": "txt", "source": {"bytes": SECRET.encode()}}},
            ],
            "structuredContent": {"tokens": [SECRET]},
        }


def check_background_call_is_judged():
    # The model chooses it, strands-agents 1.62.
    turns = [["danger", {"text": "x", "_background_execution": True}]], "waiting", "done"
    for handler, ran in ((REDACT, ["x"]), (DENY, [])):
        room = Room((), handler)
        agent = room.make(turns, hooks=[room.bridge], background_tasks=True)
        agent("go")

        assert (room.ran, [count for count, _ in room.ends.values()]) == (ran, [1])
        assert SECRET not in json.dumps(agent.messages, default=str)


def check_each_kind_of_block_is_redacted():
    results, room = [], Room(([["blocks", {}]], "done"), REDACT, tools=[Blocks()])
    room.agent.hooks.add_callback(AfterToolCallEvent, lambda event: results.append(event.result))

    async def stream():
        return [event async for event in room.agent.stream_async("go")]

    events = asyncio.run(stream())

    text, value, image, document = results[0]["content"]
    assert (text["text"], json.loads(value["text"])) == (HIDDEN, {"token": HIDDEN})
    assert image["image"]["source"]["bytes"] == b"\x89PNG"
    assert document["document"]["source"]["bytes"] == HIDDEN.encode()
    assert results[0]["structuredContent"] == {"tokens": [HIDDEN]}
    assert SECRET not in repr(events)


class Odd(AgentTool):
    """A tool that returns *blocks*."""

    tool_name, tool_type = "odd", "test"

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    @property
    def tool_spec(self):
        schema = {"json": {"type": "object", "properties": {}}}
        return {"name": "odd", "description": "Return blocks.", "inputSchema": schema}

    async def stream(self, tool_use, invocation_state, **_):
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": self.blocks}


def check_no_text_of_a_block_passes_unseen():
    file = {"format": "txt", "name": "a", "source": {"bytes": b"a"}}
    for block in (
        {"text": "a", "json": {"a": SECRET}},
        {"document": {**file, "context": SECRET}},
        {"document": {**file, "source": {"text": SECRET}}},
        {"searchResult": {"content": [{"text": SECRET}]}},
    ):
        room = Room(([["odd", {}]], "done"), REDACT, tools=[Odd([{"text": "b"}, block])])
        room.agent("go")
        assert room.ends == {"c1": (1, "ok")}
        assert HIDDEN in str(room.agent.messages)
        assert SECRET not in str(room.agent.messages)


def check_no_cause_or_note_of_a_failure_passes_unseen():
    def cause():
        raise RuntimeError("again") from ValueError(SECRET)

    def note():
        error = RuntimeError("again")
        error.add_note(SECRET)
        raise error

    def group():
        raise ExceptionGroup("several", [ValueError(SECRET)])

    for fail, kept in ((cause, RuntimeError), (note, RuntimeError), (group, type(None))):
        events, room = [], Room(([[fail.__name__, {}]], "done"), REDACT, tools=[tool(fail)])
        room.agent.hooks.add_callback(AfterToolCallEvent, events.append)
        room.agent("go")
        assert isinstance(events[0].exception, kept)
        assert SECRET not in "".join(traceback.format_exception(events[0].exception))
        assert room.ends == {"c1": (1, "error")}


def check_structured_answer_is_judged():
    class Found(BaseModel):
        """What was found."""

        text: str

    room = Room(([["Found", {"text": f"it is {SECRET}"}]], "done"), ANSWERS)
    result = room.agent("go", structured_output_model=Found)
    assert result.structured_output == Found(text=f"it is {HIDDEN}")


def check_odd_arguments_have_an_end():
    room = Room(([["echo", {"text": 2**70}]], [["echo", {"wrong": 1}]], "done"))
    room.agent("go")

    wrong = (1, "invalid_arguments")
    assert (room.ran, room.ends) == ([], {"c1": wrong, "c2": wrong})


def check_tools_of_components_are_offered():
    class Clock(AgentComponent):
        @our_tool
        def clock(self, zone: str) -> str:
            """Tell the time."""
            return f"noon in {zone}"

    room = Room(([["clock", {"zone": "UTC"}]], "done"), more=[Clock()])
    room.agent("go")

    assert room.seen["offered"]["clock"] == "Tell the time."
    assert room.seen["read"] == {"c1": "noon in UTC"}


def check_prompt_of_a_caller_is_not_changed():
    prompt = [{"text": SECRET}, {"text": "b"}]
    room = Room(("done",), {"redact_prompt": "*"})
    room.agent(prompt)

    assert prompt == [{"text": SECRET}, {"text": "b"}]
    assert room.seen["prompt"] == f"{HIDDEN}\nb"


if __name__ == "__main__":
    for name, check in [*globals().items()]:
        if name.startswith("check_"):
            check()
            print(name)
