"""Checks of the bridge to Pydantic AI beyond the scenarios: `python pydantic_ai_checks.py`.

It runs in an environment of Pydantic AI, prints the names of the checks that hold, and ends with
the traceback of the first that does not.
"""

import asyncio
import contextlib
import json
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ImageUrl,
    ModelRetry,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolOutput,
    ToolReturn,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from pydantic_ai_world import model_of, result_of
from scenarios import HIDDEN, REASON, SECRET
from world import FIELDS, Script
from world_handlers import Watch, components

from toolbus import AgentComponent, AssistantMessage, Deny, UserMessage, events, on, tool
from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.pydantic_ai import PydanticAIBridge
from toolbus.bridges.session import PromptDenied
from toolbus.store import SqliteStore

ASK, DENY, REDACT = {"ask": "echo"}, {"deny": "echo"}, {"redact": "*"}
ECHO = ["echo", {"text": "a"}]
PAUSES = [str, DeferredToolRequests]


class Room:
    """An agent with a bridge of *handlers*, whose model plays *turns*; *ran* are its echoes."""

    def __init__(
        self, turns, *handlers, more=(), capabilities=(), tools=(), bridge=None, **options
    ):
        self.seen, self.ran = json.loads(json.dumps(FIELDS)), []
        made = [Watch(self.seen), *components(handlers), *more]
        self.bridge = PydanticAIBridge(made, partial=True, **(bridge or {}))
        options = {"capabilities": [self.bridge, *capabilities], **options}
        self.agent = self.make(turns, tools, **options)

    def make(self, turns, tools=(), prefix="c", **options):
        """Return an agent with the tool `echo`, and *tools*."""

        async def echo(text: str) -> str:
            """Return the text."""
            self.ran.append(text)
            return text

        model = model_of(Script(turns, self.seen, prefix))
        return Agent(model, tools=[echo, *tools], **options)

    async def answer(self, paused, **results):
        """Run the agent on from where it has *paused*, with *results* from outside."""
        given = DeferredToolResults(**results)
        history = paused.all_messages()
        return await self.agent.run(message_history=history, deferred_tool_results=given)


def read_by(result):
    """Return the texts of all results in the messages of *result* by call id."""
    parts = [part for message in result.all_messages() for part in message.parts]
    return dict(result_of(part) for part in parts if isinstance(part, ToolReturnPart))


async def check_approved_call_runs_after_a_pause():
    room = Room(([ECHO], "done"), ASK, output_type=PAUSES)
    paused = await room.agent.run("go")
    shown = paused.output.metadata["c1"]
    result = await room.answer(paused, approvals={"c1": True})

    assert shown == {"question": "May it run?", "arguments": {"text": "a"}}
    assert (room.ran, result.output, room.seen["statuses"]) == (["a"], "done", {"c1": "ok"})
    assert room.seen["ends"] == {"c1": 1}


async def check_refused_call_has_its_end():
    room = Room(([ECHO], "done"), ASK, REDACT, output_type=PAUSES)
    paused = await room.agent.run("go")
    result = await room.answer(paused, approvals={"c1": ToolDenied(f"no, {SECRET}")})

    assert (room.ran, read_by(result)) == ([], {"c1": f"no, {HIDDEN}"})
    assert (room.seen["ends"], room.seen["statuses"]) == ({"c1": 1}, {"c1": "denied"})


async def check_approval_is_for_the_arguments_that_were_shown():
    room = Room(
        ([ECHO], "done"), {"rewrite": "echo", "append": {"text": "!"}}, ASK, output_type=PAUSES
    )
    paused = await room.agent.run("go")
    result = await room.answer(
        paused, approvals={"c1": ToolApproved(override_args={"text": "other"})}
    )

    assert "other" not in read_by(result)["c1"]
    assert "other!" not in room.ran


async def check_another_process_goes_on_after_the_pause():
    with tempfile.TemporaryDirectory() as folder:
        path, history = Path(folder, "log.db"), b""
        for turns in (([ECHO],), ("done",)):
            room = Room(turns, ASK, output_type=PAUSES, bridge={"store": SqliteStore(path)})
            if history:
                result = await room.agent.run(
                    message_history=ModelMessagesTypeAdapter.validate_json(history),
                    deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
                )
                assert (room.ran, result.output) == (["a"], "done")
            else:
                history = (await room.agent.run("go")).all_messages_json()
            await room.bridge.aclose()
            await room.bridge.host.store.close()

    assert room.seen["ends"] == {"c1": 1}


async def check_call_that_requires_approval_is_judged_too():
    ran = []

    def danger(text: str) -> str:
        ran.append(text)
        return text

    turns = ([["danger", {"text": "a"}]], "done")
    tools = [Tool(danger, requires_approval=True)]
    room = Room(turns, {"deny": "danger"}, output_type=PAUSES, tools=tools)
    result = await room.answer(await room.agent.run("go"), approvals={"c1": True})

    assert (ran, read_by(result), room.seen["ends"]) == ([], {"c1": REASON}, {"c1": 1})


def external(*handlers):
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    toolset = ExternalToolset([ToolDefinition(name="far", parameters_json_schema=schema)])
    turns = ([["far", {"key": "a"}]], "done")
    return Room(turns, *handlers, output_type=PAUSES, toolsets=[toolset])


async def check_external_call_is_judged_and_its_result_redacted():
    room = external({"rewrite": "far", "set": {"key": "b"}}, REDACT)
    paused = await room.agent.run("go")
    result = await room.answer(paused, calls={"c1": f"far {SECRET}"})

    assert paused.output.calls[0].args == {"key": "b"}
    assert read_by(result) == {"c1": f"far {HIDDEN}"}
    assert (room.seen["ends"], room.seen["statuses"]) == ({"c1": 1}, {"c1": "ok"})


async def check_denied_external_call_is_not_handed_out():
    room = external({"deny": "far"})
    result = await room.agent.run("go")

    assert (result.output, read_by(result), room.seen["ends"]) == (
        "done",
        {"c1": REASON},
        {"c1": 1},
    )


async def check_result_of_a_call_that_its_tool_defers_is_redacted():
    def later() -> str:
        raise CallDeferred

    turns = ([["later", {}], ["echo", {"text": SECRET}]], "done")
    room = Room(turns, REDACT, output_type=PAUSES, tools=[later])
    result = await room.answer(await room.agent.run("go"), calls={"c1": f"late {SECRET}"})

    assert read_by(result) == {"c1": f"late {HIDDEN}", "c2": HIDDEN}
    assert room.seen["ends"] == {"c1": 1, "c2": 1}


async def check_output_function_is_judged():
    paid = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    for handlers, sums in (((), [5]), (({"deny": "pay"},), [])):
        paid.clear()
        turns = ([["pay", {"amount": 5}]], "done")
        output = [str, ToolOutput(pay, name="pay")]
        room = Room(turns, *handlers, output_type=output)
        result = await room.agent.run("go")
        assert (paid, result.output) == (sums, "paid" if sums else "done")
        assert room.seen["ends"] == {"c1": 1}


async def check_structured_output_is_redacted():
    class Found(BaseModel):
        text: str

    turns = ([["final_result", {"text": f"it is {SECRET}"}]],)
    room = Room(turns, {"redact_answer": "*"}, output_type=Found)
    result = await room.agent.run("go")

    assert result.output == Found(text=f"it is {HIDDEN}")
    assert SECRET not in str(result.all_messages())


async def check_other_capabilities_see_nothing_raw():
    class Spy(AbstractCapability):
        async def after_tool_execute(self, ctx, *, call, tool_def, args, result):
            sees.append(result)
            return result

        async def on_tool_execute_error(self, ctx, *, call, tool_def, args, error):
            sees.append(str(error))
            raise error

        async def after_model_request(self, ctx, *, request_context, response):
            sees.append(response.text)
            return response

    def fail() -> str:
        raise RuntimeError(SECRET)

    sees, turns = [], ([["echo", {"text": SECRET}], ["fail", {}]], f"it is {SECRET}")
    room = Room(turns, REDACT, {"redact_answer": "*"}, capabilities=[Spy()], tools=[fail])
    await room.agent.run("go")

    assert HIDDEN in sees
    assert f"it is {HIDDEN}" in sees
    assert SECRET not in str(sees)


async def check_arguments_are_validated_after_other_hooks():
    class Copies(AbstractCapability):
        async def before_tool_execute(self, ctx, *, call, tool_def, args):
            return {**args}

    added = []

    def add(a: int, b: int) -> int:
        added.append((a, b))
        return a + b

    turns = ([["add", {"a": "one", "b": 2}]], "done")
    room = Room(turns, capabilities=[Copies()], tools=[add])
    await room.agent.run("go")

    assert (added, room.seen["statuses"]) == ([], {"c1": "invalid_arguments"})


async def check_rewritten_arguments_have_the_types_of_the_function():
    got = []

    def book(day: date) -> str:
        got.append(day)
        return "booked"

    turns = ([["book", {"day": "2024-05-06"}]], "done")
    room = Room(turns, {"rewrite": "book", "set": {"day": "2020-01-02"}}, tools=[book])
    await room.agent.run("go")

    assert got == [date(2020, 1, 2)]


async def check_arguments_that_json_cannot_hold_are_judged():
    def anything(**options: Any) -> str:
        ran.append(options)
        return "ran"

    ran, wrong = [], ("{not", "[1]", {"INVALID_JSON": "x"}, {"n": 10**30})
    for args, handlers in [
        (args, them) for args in wrong for them in ((), ({"deny": "anything"},))
    ]:
        parts = [[ToolCallPart("anything", args, "c1")], [TextPart("done")]]
        model = FunctionModel(lambda messages, info: ModelResponse(parts=parts.pop(0)))  # noqa: B023
        room = Room((), *handlers, tools=[anything])
        await room.agent.run("go", model=model)
        assert room.seen["statuses"] == {"c1": "denied" if handlers else "invalid_arguments"}, args
    assert ran == []


async def check_retries_count_as_without_a_bridge():
    def picky() -> str:
        raise ModelRetry("not like that")

    for name, status in (("picky", "error"), ("nothing", "unknown_tool")):
        room = Room(([[name, {}]], [[name, {}]], "done"), tools=[picky])
        with contextlib.suppress(UnexpectedModelBehavior):
            await room.agent.run("go")
            raise AssertionError(name)
        assert room.seen["statuses"] == {"c1": status, "c2": status}
        assert room.seen["runs"] == ["error"]


async def check_limits_of_the_framework_end_the_run():
    def spend() -> str:
        raise UsageLimitExceeded("too much")

    room = Room(([["spend", {}]], "done"), tools=[spend])
    with contextlib.suppress(UsageLimitExceeded):
        await room.agent.run("go")
        raise AssertionError

    assert (room.seen["runs"], room.seen["ends"]) == (["error"], {"c1": 1})


async def check_results_with_files_are_kept_or_become_text():
    def picture() -> ToolReturn:
        file = BinaryContent(b"123", media_type="image/png")
        return ToolReturn(return_value=text, content=["see", file], metadata={"size": 3})

    for text, shown in (("a", "a"), (SECRET, HIDDEN)):
        room = Room(([["picture", {}]], "done"), REDACT, tools=[picture])
        result = await room.agent.run("go")
        parts = [part for message in result.all_messages() for part in message.parts]
        files = [part for part in parts if isinstance(part, UserPromptPart)][1:]
        assert shown in read_by(result)["c1"]
        assert len(files) == (text == "a")


async def check_texts_and_addresses_of_files_are_judged():
    def file() -> Any:
        return values.pop()

    text = BinaryContent(f"it is {SECRET}".encode(), media_type="text/plain")
    values = [text, [text, "more"], ImageUrl(f"http://localhost/{SECRET}")]
    while values:
        room = Room(([["file", {}]], "done"), REDACT, tools=[file])
        result = await room.agent.run("go")
        assert HIDDEN in read_by(result)["c1"]
        assert SECRET not in str(result.all_messages())


async def check_further_content_of_an_external_result_is_judged():
    room = external(REDACT)
    far = ToolReturn(return_value="far", content=[f"more {SECRET}"])
    result = await room.answer(await room.agent.run("go"), calls={"c1": far})

    assert f"more {HIDDEN}" in str(result.all_messages())
    assert SECRET not in str(result.all_messages())


async def check_results_of_any_type_are_what_the_model_reads():
    class Aliased(BaseModel):
        text: str = Field(alias="Text")

    def anything() -> Any:
        return value

    values = (b"\xff", date(2020, 1, 2), 10**30, {1}, (1, "a"), True, [{"a": None}])
    for value in (*values, Aliased(Text=SECRET)):
        turns = ([["anything", {}]], "done")
        room = Room(turns, REDACT, tools=[anything])
        alone = read_by(await room.make(turns, [anything]).run("go"))
        bridged = read_by(await room.agent.run("go"))
        assert bridged == {"c1": alone["c1"].replace(SECRET, HIDDEN)}, value


async def check_prompt_of_a_history_is_judged():
    def history(text):
        return [ModelRequest(parts=[UserPromptPart(content=text)])]

    room, given = Room(("done",), {"redact_prompt": "*"}, {"deny_prompt": "bomb"}), history(SECRET)
    result = await room.agent.run(message_history=given)
    assert (room.seen["prompt"], given[0].parts[0].content) == (HIDDEN, SECRET)
    assert SECRET not in str(result.all_messages())
    with contextlib.suppress(PromptDenied):
        await room.agent.run(message_history=history("a bomb"))
        raise AssertionError


async def check_other_capabilities_see_the_judged_prompt():
    class Spy(AbstractCapability):
        async def before_model_request(self, ctx, request_context):
            seen.extend(request_context.messages)
            return request_context

    seen, given = [], [ModelRequest(parts=[UserPromptPart(content=SECRET)])]
    room = Room(("done", "done"), {"redact_prompt": "*"}, capabilities=[Spy()])
    await room.agent.run(f"go {SECRET}")
    await room.agent.run(message_history=given)

    assert len(seen) == 2
    assert SECRET not in str(seen)


async def check_prompt_keeps_its_pictures():
    room, picture = Room(("done",), {"redact_prompt": "*"}), ImageUrl(url="http://a.test/b.png")
    await room.agent.run([f"a {SECRET}", picture, "b"])

    assert room.seen["prompt"] == [f"a {HIDDEN}\nb", picture]


async def check_stream_is_live_unless_a_handler_may_change_the_answer():
    for handlers, pieces in (
        ((REDACT,), ["a lon", "g ans", "wer"]),
        (({"redact_answer": "*"},), ["a long answer"]),
    ):
        room = Room(("a long answer",), *handlers)
        async with room.agent.run_stream("go") as stream:
            shown = [text async for text in stream.stream_text(delta=True, debounce_by=None)]
        assert (shown, room.seen["runs"]) == (pieces, ["ok"])


async def check_cancelled_question_ends_its_call():
    asked = asyncio.Event()

    async def never(ask, call, scope):
        asked.set()
        await asyncio.sleep(30)

    room = Room(([ECHO], "done"), ASK, bridge={"approver": never})
    task = asyncio.create_task(room.agent.run("go"))
    await asked.wait()
    task.cancel()
    await asyncio.wait([task], timeout=5)

    assert task.cancelled()
    assert (room.ran, room.seen["statuses"]) == ([], {"c1": "cancelled"})
    assert room.seen["runs"] == ["cancelled"]


async def check_failed_model_ends_the_run_once():
    def fail(messages, info):
        raise RuntimeError("no model")

    room = Room(("done",))
    with contextlib.suppress(RuntimeError):
        await room.agent.run("go", model=FunctionModel(fail))
        raise AssertionError

    assert room.seen["runs"] == ["error"]


async def check_answer_that_a_validator_refuses_ends_no_run():
    room, tries = Room(("one", "two")), []

    @room.agent.output_validator
    def validate(text):
        tries.append(text)
        if text == "one":
            raise ModelRetry("again")
        return text

    result = await room.agent.run("go")

    assert (result.output, tries, room.seen["runs"]) == ("two", ["one", "two"], ["ok"])


async def check_tools_of_components_are_offered():
    class Clock(AgentComponent):
        @tool
        def clock(self, zone: str) -> str:
            """Tell the time."""
            return f"noon in {zone}"

    room = Room(([["clock", {"zone": "UTC"}]], "done"), more=[Clock()])
    result = await room.agent.run("go")

    assert room.seen["offered"]["clock"] == "Tell the time."
    assert read_by(result) == {"c1": "noon in UTC"}


async def check_tool_may_appear_in_a_later_step():
    is_there = []

    async def prepare(ctx, definition):
        return definition if is_there else None

    def late() -> str:
        return "here"

    def open_door() -> str:
        is_there.append(True)
        return "open"

    turns = ([["late", {}], ["open_door", {}]], [["late", {}]], "done")
    room = Room(turns, tools=[Tool(late, prepare=prepare), open_door])
    await room.agent.run("go")

    assert room.seen["statuses"] == {"c1": "unknown_tool", "c2": "ok", "c3": "ok"}


async def check_agent_with_the_bridge_is_not_wrapped():
    room = Room(("done",))

    assert room.bridge.wrap(room.agent) is room.agent


class Told(AgentComponent):
    """A component with *functions* by event, which keeps what it gets in *values*."""

    def __init__(self, **functions):
        super().__init__()
        self.functions, self.values = functions, {}

    def answer(self, name, ctx):
        self.values.setdefault(name, []).append(ctx.value)
        function = self.functions.get(name)
        return function(ctx.value) if function else None

    @on(events.MODEL_CALL_BEFORE)
    def before(self, ctx):
        return self.answer("before", ctx)

    @on(events.MODEL_CALL_AFTER)
    def after(self, ctx):
        self.answer("after", ctx)

    @on(events.MODEL_CALL_ERROR)
    def failed(self, ctx):
        return self.answer("failed", ctx)


def no_model(messages, info):
    raise RuntimeError(f"no model, {SECRET}")


async def check_texts_of_a_request_are_changed():
    def change(request):
        return replace(request, messages=[each.map_text(shorten) for each in request.messages])

    def shorten(text):
        return text.replace("long ", "")

    turns = ([["echo", {"text": "a long text"}]], "done")
    told = Told(before=change)
    room = Room(turns, more=[told])
    result = await room.agent.run("a long prompt")
    first, second = told.values["before"]
    roles = [message.role for message in second.messages]

    assert [tool.name for tool in first.tools] == ["echo"]
    assert (first.messages[0].text, roles) == ("a long prompt", ["user", "assistant", "tool"])
    assert (room.seen["read"], room.seen["prompt"]) == ({"c1": "a text"}, "a prompt")
    assert (result.output, read_by(result)) == ("done", {"c1": "a long text"})
    assert [reply.message.text for reply in told.values["after"]] == ["", "done"]
    assert told.values["after"][0].message.usage["input_tokens"] > 0


async def check_other_changes_of_a_request_are_refused():
    added = UserMessage(content="more")
    for changes in ({"tools": ()}, {"messages": (added,)}, {"messages": ()}, {"model": "other"}):
        room = Room(("done",), more=[Told(before=lambda request: replace(request, **changes))])  # noqa: B023
        with contextlib.suppress(BridgeError):
            await room.agent.run("go")
            raise AssertionError(changes)
        assert room.seen["requests"] == 0


async def check_request_is_denied_or_answered():
    room = Room(("done",), more=[Told(before=lambda request: Deny("too dear"))])
    with contextlib.suppress(PromptDenied):
        await room.agent.run("go")
        raise AssertionError
    assert (room.seen["requests"], room.seen["runs"]) == (0, ["denied"])

    room = Room(("done",), more=[Told(before=lambda request: AssistantMessage(content="early"))])
    result = await room.agent.run("go")
    assert (result.output, room.seen["requests"]) == ("early", 0)


async def check_failed_request_is_answered():
    told = Told(failed=lambda failure: AssistantMessage(content="later, please"))
    room = Room(("done",), more=[told])
    result = await room.agent.run("go", model=FunctionModel(no_model))

    assert (result.output, room.seen["runs"]) == ("later, please", ["ok"])
    assert told.values["failed"][0].error_type == "RuntimeError"


async def run_checks():
    """Run all checks, in order."""
    for name, check in [*globals().items()]:
        if name.startswith("check_"):
            await asyncio.wait_for(check(), 20)
            print(name)


if __name__ == "__main__":
    asyncio.run(run_checks())
