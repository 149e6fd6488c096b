"""One session of the proxy, without pipes: what both sides get, also from fools and villains."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus import AgentComponent, Ask, Deny, ToolAdapter, ToolSpec, events, guard, on
from toolbus.approvals.records import questions_of
from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.proxy.proxy import Proxy
from toolbus.mcp.session import judged_session
from toolbus.mcp.session.request_table import Channels
from toolbus.store.memory import MemoryStore


class Watcher(AgentComponent):
    """Somebody who judges, and lets all pass."""

    def __init__(self):
        self.register_tool_adapter(ToolAdapter())


def read(line):
    """Return the JSON of *line*, else the line: without handlers anything goes to the server."""
    try:
        return json.loads(line)
    except ValueError:
        return line


def channels(client, server):
    """Return what reads lines into the lists *client* and *server*."""
    return Channels(lambda line: client.append(read(line)), lambda line: server.append(read(line)))


class Wires:
    """Both sides of a session: the frames that each got."""

    def __init__(self, proxy):
        self.client, self.server = [], []
        self.session = open_session(proxy, channels(self.client, self.server))

    def ask(self, **frame):
        self.session.from_client(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def call(self, own, name="echo", **params):
        self.ask(id=own, method="tools/call", params={"name": name, **params})

    async def tell(self, **frame):
        await self.session.from_server(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    async def listed(self, *names, **more):
        """Answer the proxy's own question for the tools."""
        await turns()
        asked = next(one for one in self.server if one.get("method") == "tools/list")
        self.server.remove(asked)
        await self.tell(id=asked["id"], result={"tools": [{"name": n} for n in names], **more})
        await turns()
        return asked


async def turns():
    """Let everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


async def until(condition):
    """Let everything run until *condition* holds; questions are read from a store by a thread."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def wired(*components, **options):
    async with Proxy(components, **options) as proxy:
        wires = Wires(proxy)
        yield wires
        await wires.session.close()


async def test_a_call_waits_for_one_list_and_goes_on():
    async with wired(Watcher()) as wires:
        wires.call(0)
        wires.call(1)
        await wires.listed("echo")

        assert [one["id"] for one in wires.server] == [0, 1]


async def test_what_components_keep_in_memory_ends_with_the_session():
    proxy = Proxy([Watcher()])
    async with proxy:
        wires = Wires(proxy)
        state = proxy.state("n", wires.session.scope)
        await state.update(lambda _: 1)
        await wires.session.close()

        assert await state.read() is None


async def test_the_list_is_asked_page_by_page_with_the_calls_metadata():
    async with wired(Watcher()) as wires:
        wires.call(1, _meta={"version": "2026-07-28", "progressToken": 1})
        first = await wires.listed("echo", nextCursor="more")
        second = await wires.listed("other")

        assert first["params"] == {"_meta": {"version": "2026-07-28"}}
        assert second["params"] == {"cursor": "more", "_meta": {"version": "2026-07-28"}}
        assert wires.server[0]["params"]["name"] == "echo"


@pytest.mark.parametrize("answer", [{"error": {"code": 1, "message": "no"}}, {"result": [1]}])
async def test_a_server_without_a_list_can_be_called(answer):
    async with wired(Watcher()) as wires:
        wires.call(1, "any")
        await turns()
        await wires.tell(id=wires.server.pop()["id"], **answer)
        await turns()

        assert wires.server[0]["params"]["name"] == "any"


async def test_changed_tools_are_asked_for_again():
    async with wired(Watcher()) as wires:
        wires.call(1)
        await wires.listed("echo")
        await wires.tell(method="notifications/tools/list_changed")
        wires.call(2)
        await turns()

        assert wires.server[-1]["method"] == "tools/list"


async def test_a_spec_that_no_tool_has_is_left_out(caplog):
    class Inventive(AgentComponent):
        @on(events.TOOLS_PROVIDE)
        def add(self, ctx):
            return (*ctx.value, ToolSpec(name="invented"))

    async with wired(Inventive()) as wires:
        wires.ask(id=1, method="tools/list")
        tools = [{"name": "echo", "inputSchema": {"type": 5}}, {"name": 7}, "x"]
        await wires.tell(id=1, result={"tools": tools})
        await turns()

        assert [one["name"] for one in wires.client[0]["result"]["tools"]] == ["echo"]
        assert "invented" in caplog.text


async def test_a_list_that_cannot_be_judged_is_refused():
    class Strict(AgentComponent):
        @on(events.TOOLS_PROVIDE, on_error="raise")
        def fail(self, ctx):
            raise ValueError

    async with wired(Strict()) as wires:
        wires.ask(id=1, method="tools/list")
        await wires.tell(id=1, result={"tools": []})
        wires.ask(id=2, method="tools/list", params={"cursor": "x"})
        await wires.tell(id=2, error={"code": 1, "message": "no"})
        await turns()

        assert "fail" in wires.client[0]["error"]["message"]
        assert wires.client[1]["error"] == {"code": 1, "message": "no"}


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"id": 1, "params": {}}, "expected a string as `name`"),
        ({"id": 1, "params": [1]}, "expected a string as `name`"),
        ({"id": 1}, "expected a string as `name`"),
        ({"id": 1, "params": {"name": "a", "arguments": [1]}}, "expected an object as `arguments`"),
        ({"id": 1, "params": {"name": "a", "arguments": {"n": 1e22}}}, None),
        ({"id": 1, "params": {"name": "a", "arguments": {"n": 10**30}}}, "some readers round"),
        ({"id": None, "params": {"name": "a"}}, "needs an id"),
        ({"params": {"name": "a"}}, None),
    ],
)
async def test_what_is_no_tool_call_goes_nowhere(frame, words):
    async with wired(Watcher()) as wires:
        wires.ask(method="tools/call", **frame)

        if words is not None:
            assert words in wires.client[0]["error"]["message"]
        assert all(one["method"] == "tools/list" for one in wires.server)


async def test_a_call_that_is_cancelled_early_does_not_reach_the_server():
    async with wired(Watcher()) as wires:
        wires.call(1)
        wires.ask(method="notifications/cancelled", params={"requestId": 1})
        wires.ask(method="notifications/cancelled", params={"requestId": [1]})
        await turns()

        assert "tools/call" not in [one["method"] for one in wires.server]


async def test_a_call_takes_two_tasks_and_leaves_nothing_behind():
    async with wired(Watcher()) as wires:
        wires.call(0)
        await wires.listed("echo")
        before = asyncio.all_tasks()
        wires.call(1)
        await turns()
        calls = asyncio.all_tasks() - before
        rest = wires.session.begin_from_server(
            json.dumps({"id": 1, "result": {"content": []}}).encode()
        )
        await turns()

        # One for the frame, and one for the call, which may be left behind.
        assert (len(calls), rest) == (2, None)
        assert [one["id"] for one in wires.client] == [1]
        assert list(wires.session._calls._by_id) == [0]
        assert len(wires.session._calls._under_way) == 1


async def test_a_call_that_is_denied_at_once_leaves_nothing_behind():
    class Strict(AgentComponent):
        @guard(events.TOOL_CALL_BEFORE)
        def no(self, ctx):
            return Deny("no")

    async with wired(Strict()) as wires:
        wires.call(0)
        await wires.listed("echo")
        wires.call(1)
        await turns()

        assert [one["id"] for one in wires.client] == [0, 1]
        assert not wires.session._calls._by_id
        assert not wires.session._calls._under_way


@pytest.mark.parametrize("late", range(6))
async def test_calls_wait_for_the_list_in_their_order(late):
    async with wired(Watcher()) as wires:
        wires.call(0)
        wires.call(1)
        await turns()
        asked = wires.server.pop()
        await wires.tell(id=asked["id"], result={"tools": [{"name": "echo"}]})
        # The list is there, and some of those who wait for it have not woken up yet.
        for _ in range(late):
            await asyncio.sleep(0)
        wires.call(2)
        await turns()

        assert [one["id"] for one in wires.server] == [0, 1, 2]


async def test_a_late_answer_to_a_cancelled_call_passes_the_handlers_once():
    class Number(ToolAdapter):
        def adapt_response(self, response, call):
            return response.map_text(
                lambda text: text.replace("late", f"late {call.arguments['n']}")
            )

    class Numbering(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Number())

    async with wired(Numbering()) as wires:
        for own in range(4):
            wires.call(own, arguments={"n": own})
        await wires.listed("echo")
        for own in range(4):
            wires.ask(method="notifications/cancelled", params={"requestId": own})
        await turns()
        block = {"type": "text", "text": "late", "annotations": {"note": "late"}}
        await wires.tell(id=0, error={"code": 0, "message": "too late"})
        await wires.tell(id=1, result={"content": [block], "structuredContent": {"a": "late"}})
        await wires.tell(id=2, result={"content": []})
        await wires.tell(id=2, result={"content": []})
        await turns()

        assert {one["id"]: one.get("result", one.get("error")) for one in wires.client} == {
            0: {"code": 0, "message": "too late 0"},
            1: {
                "content": [{**block, "text": "late 1", "annotations": {"note": "late 1"}}],
                "structuredContent": {"a": "late 1"},
            },
            2: {"content": []},
        }
        assert len(wires.client) == 3


class Asking(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def ask(self, ctx):
        return Ask("May it?")


async def asked(wires, own=1, **arguments):
    elicitation = {"capabilities": {"elicitation": {"form": {}}}}
    wires.ask(id="i", method="initialize", params=elicitation)
    wires.call(own, arguments=arguments)
    await wires.listed("echo")
    await until(lambda: wires.client)
    (question,) = [one for one in wires.client if one["method"] == "elicitation/create"]
    return question


async def test_a_question_ends_with_its_call():
    async with wired(Asking()) as wires:
        question = await asked(wires, text="x" * 3_000)
        wires.ask(method="notifications/cancelled", params={"requestId": 1})
        await turns()
        wires.ask(id=question["id"], result={"action": "accept", "content": {"approve": True}})
        await turns()

        assert question["params"]["message"].count("x" * 70) == 3_000 // 77
        told = [one for one in wires.client if one.get("method") == "notifications/cancelled"]
        assert told[0]["params"]["requestId"] == question["id"]
        assert "tools/call" not in [one.get("method") for one in wires.server]


async def test_a_client_that_is_gone_approves_nothing():
    async with wired(Asking()) as wires:
        await asked(wires)
        wires.session.client_gone()
        await wires.session.settle(1)

        assert wires.client[-1]["result"]["isError"]


async def test_a_call_that_is_held_ends_with_its_client():
    async with MemoryStore() as store, wired(Asking(), store=store) as wires:
        wires.call(1)
        await wires.listed("echo")
        scope = wires.session.scope
        while not (questions := await questions_of(store, scope.session_id)):
            await turns()
        wires.session.client_gone()
        await wires.session.settle(30)

        (question,) = await questions_of(store, scope.session_id)
        assert (questions[0].state, question.state) == ("pending", "withdrawn")
        assert "the client is gone" in wires.client[-1]["result"]["content"][0]["text"]


async def test_a_client_that_shows_no_forms_is_not_asked():
    async with wired(Asking()) as wires:
        modes = {"capabilities": {"elicitation": {"url": {}}}}
        wires.ask(id="i", method="initialize", params=modes)
        wires.call(1)
        await wires.listed("echo")

        assert "no approver is available" in wires.client[0]["result"]["content"][0]["text"]


async def test_answers_of_the_client_pass():
    async with wired(Watcher()) as wires:
        wires.ask(id="s", result={"roots": []})

        assert wires.server == [{"jsonrpc": "2.0", "id": "s", "result": {"roots": []}}]


@pytest.mark.parametrize("components", [(), (Watcher,)])
async def test_after_the_servers_end_every_request_is_an_error(components):
    async with wired(*[one() for one in components]) as wires:
        wires.ask(id=1, method="ping")
        wires.session.server_gone("the server ended")
        wires.ask(id=2, method="ping")
        wires.call(3)
        await turns()

        assert [one["id"] for one in wires.client] == [1, 2, 3]
        assert all(one["error"]["message"] == "the server ended" for one in wires.client)


async def test_a_retried_call_has_a_new_id_and_the_clients_answer():
    class Again(AgentComponent):
        @on(events.TOOL_CALL_ERROR)
        def again(self, ctx):
            return events.Retry(0)

    async with wired(Again()) as wires:
        wires.ask(id=1, method="tools/list")
        idempotent = {"name": "echo", "annotations": {"idempotentHint": True}}
        await wires.tell(id=1, result={"tools": [idempotent]})
        wires.call(2)
        await turns()
        await wires.tell(id=2, result={"content": [], "isError": True})
        await turns()
        again = wires.server[-1]
        await wires.tell(id=again["id"], result={"content": [{"type": "text", "text": "fine"}]})
        await turns()

        assert again["params"] == {"name": "echo", "arguments": {}}
        assert again["id"] != 2
        assert wires.client[-1]["id"] == 2
        assert wires.client[-1]["result"]["content"][0]["text"] == "fine"


async def test_arguments_that_a_handler_broke_are_its_fault():
    class Breaking(AgentComponent):
        @on(events.TOOL_CALL_BEFORE)
        def breaks(self, ctx):
            return ctx.value.merge_arguments({"n": "many"})

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with wired(Breaking()) as wires:
        wires.ask(id=1, method="tools/list")
        await wires.tell(id=1, result={"tools": [{"name": "echo", "inputSchema": schema}]})
        wires.call(2, arguments={"n": 1})
        wires.call(3, arguments={"n": "the client's own mistake"})
        await turns()

        broken, mistaken = [one["result"]["content"][0]["text"] for one in wires.client[-2:]]
        assert "breaks" in broken
        assert mistaken == "invalid arguments: expected integer, got string - at `$.n`"
        assert not [one for one in wires.server if one["method"] == "tools/call"]


async def test_a_text_in_place_of_a_promised_structure_is_an_error():
    class Summary(ToolAdapter):
        def adapt_response(self, response, call):
            return response.with_text("short")

    class Short(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Summary())

    tool = {"name": "echo", "outputSchema": {"type": "object"}}
    async with wired(Short()) as wires:
        wires.ask(id=1, method="tools/list")
        await wires.tell(id=1, result={"tools": [tool]})
        wires.call(2)
        wires.ask(id=3, method="x/y")
        await turns()
        await wires.tell(id=2, result={"content": [], "structuredContent": {"a": 1}})
        await wires.tell(id=3, result={"a": 1})
        await turns()

        short = {"content": [{"type": "text", "text": "short"}], "isError": True}
        answers = {one["id"]: one for one in wires.client}
        assert answers[2]["result"] == short
        assert "a handler removed structured content" in answers[3]["error"]["message"]


async def test_a_handler_may_take_the_call_away_or_refuse_it():
    class Judge(AgentComponent):
        @on(events.MESSAGE_APPEND_BEFORE)
        def take(self, ctx):
            calls = getattr(ctx.value, "tool_calls", ())
            if calls and calls[0].name == "refused":
                return Deny("not this one")
            return replace(ctx.value, tool_calls=()) if calls else None

    async with wired(Judge()) as wires:
        wires.call(1, "taken")
        wires.call(2, "refused")
        await wires.listed("taken", "refused")
        said = [one["result"]["content"][0]["text"] for one in wires.client]

        assert said == ["a handler removed the call", "not this one"]


async def test_a_store_that_fails_is_an_error_of_the_call():
    class Full(MemoryStore):
        durable = True

        async def append(self, session_id, stored):
            raise OSError("disk full")

    async with wired(Watcher(), store=Full()) as wires:
        wires.call(1)
        await wires.listed("echo")

        assert "disk full" in wires.client[0]["error"]["message"]


async def test_batches_of_the_server_are_taken_apart_when_somebody_judges():
    async with wired(Watcher()) as judged, wired() as plain:
        for wires in (judged, plain):
            wires.ask(id=1, method="a")
            wires.ask(id=2, method="b")
            answers = [{"jsonrpc": "2.0", "id": own, "result": {}} for own in (1, 2)]
            await wires.session.from_server(json.dumps(answers).encode() + b"\n")
        await turns()

        assert judged.client == answers
        assert plain.client == [answers]


async def test_members_that_json_rpc_does_not_know_are_dropped_when_somebody_judges():
    async with wired(Watcher()) as wires:
        await wires.tell(method="notifications/x", params={"a": 1}, more="secret")
        await wires.tell(method="notifications/y", more="secret")

        wires.ask(id=1, method="x")
        wires.call(2)
        await wires.listed("echo")
        await wires.tell(id=1, result={}, error={"code": 1, "message": ""}, more="secret")
        await wires.tell(id=2, result={"content": []}, params="secret")
        await turns()

        assert [one["id"] for one in wires.client[2:]] == [1, 2]
        assert "secret" not in json.dumps(wires.client)


junk = st.sampled_from(
    [b"", b"\n", b"{}\n", b"[]\n", b"[1,{}]\n", b"null\n", b"\xff\n", b'{"id":1}\n', b"{\n"]
)
ids = st.sampled_from([0, 1, "1", None, 1.5, "x"])
methods = st.sampled_from(["tools/call", "tools/list", "resources/read", "ping", "x/y"])
values = st.sampled_from([None, {}, [], "x", {"name": "echo"}, {"content": 5}, {"tools": [{}]}])
frames = st.fixed_dictionaries(
    {}, optional={"id": ids, "method": methods, "params": values, "result": values, "error": values}
).map(lambda frame: json.dumps(frame).encode() + b"\n")
plays = st.lists(
    st.tuples(st.booleans(), junk | frames | st.lists(frames, max_size=3).map(
        lambda some: b"[" + b",".join(some).replace(b"\n", b"") + b"]\n")),
    max_size=12,
)  # fmt: skip


@given(plays, st.booleans())
async def test_no_villain_breaks_a_session(play, judged):
    """Whatever comes, nothing is raised, nobody waits, and a later call works."""
    async with wired(*([Watcher()] if judged else [])) as wires:
        for from_server, line in play:
            if from_server:
                await wires.session.from_server(line)
            else:
                wires.session.from_client(line)
            await asyncio.sleep(0)
        wires.client.clear()
        wires.ask(id="last", method="ping")
        await wires.tell(id="last", result={"fine": True})
        wires.session.server_gone("the end")
        await wires.session.settle(5)

        assert {"jsonrpc": "2.0", "id": "last", "result": {"fine": True}} in wires.client


async def test_an_answer_that_cannot_be_handled_is_an_error(caplog):
    async def fail(*_):
        raise LookupError("unforeseen")

    async with wired(Watcher()) as wires:
        wires.session.server_messages._answer = fail
        wires.ask(id=1, method="ping")
        await wires.tell(id=1, result={})
        await turns()

    assert [one["id"] for one in wires.client] == [1]
    assert "LookupError" in wires.client[0]["error"]["message"]
    assert "unforeseen" in caplog.text


class Dying(AgentComponent):
    """Somebody in whose handlers a future is cancelled: no `Exception`, and nobody's wish."""

    @on(events.TOOLS_PROVIDE)
    async def list_tools(self, ctx):
        await self.die()

    @on(events.MESSAGE_APPEND_BEFORE)
    async def read(self, ctx):
        await self.die()

    async def die(self):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("tools/list", {"result": {"tools": [{"name": "echo"}]}}),
        ("tools/call", {"result": {"tools": [{"name": "echo"}]}}),
    ],
)
async def test_a_request_whose_task_dies_is_answered(method, answer):
    async with wired(Dying()) as wires:
        wires.ask(id=1, method=method, params={"name": "echo"})
        await turns()
        await wires.tell(id=wires.server[0]["id"], **answer)
        await turns()

    assert [one["id"] for one in wires.client] == [1]
    assert "CancelledError" in wires.client[0]["error"]["message"]


async def test_a_request_of_the_server_whose_task_dies_is_answered():
    async def die(*_):
        await Dying().die()

    async with wired(Watcher()) as wires:
        wires.session.server_messages._forward = die
        await wires.tell(id="s", method="sampling/createMessage", params={"text": "x"})

    assert wires.client == []
    assert [one["id"] for one in wires.server] == ["s"]
    assert "CancelledError" in wires.server[0]["error"]["message"]


async def test_a_handler_that_hangs_on_a_notification_holds_nothing_up(monkeypatch, caplog):
    class Hanging(AgentComponent):
        @on(events.MESSAGE_APPEND_BEFORE)
        async def look(self, context):
            if context.value.tool_name == "notifications/message":
                await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(judged_session, "IN_ORDER", 0.05)
    async with wired(Hanging()) as wires, asyncio.timeout(30):
        wires.ask(id=1, method="ping")
        await wires.tell(method="notifications/message", params={"level": "info", "data": "x"})
        await wires.tell(method="notifications/progress", params={"progressToken": 1})
        await wires.tell(id=1, result={})
        while len(wires.client) < 2:
            await asyncio.sleep(0)

    assert [one.get("method") for one in wires.client] == ["notifications/progress", None]
    assert "notifications/message has been at handlers for 0.05 s" in caplog.text


async def test_a_cancelled_task_answers_nothing():
    async def wait(*_):
        await asyncio.get_running_loop().create_future()

    async with wired(Watcher()) as wires:
        wires.session.server_messages._answer = wait
        wires.ask(id=1, method="ping")
        await wires.tell(id=1, result={})

    assert wires.client == []


async def test_what_comes_of_a_message_goes_where_that_message_says():
    class Asking(AgentComponent):
        @guard(events.TOOL_CALL_BEFORE)
        def ask(self, ctx):
            return Ask("really?")

    streams = {name: ([], []) for name in ("call", "answers")}
    places = {name: channels(*ends) for name, ends in streams.items()}

    async with wired(Asking()) as wires:
        wires.ask(id=0, method="initialize", params={"capabilities": {"elicitation": {}}})
        session = wires.session
        call = {"id": 1, "method": "tools/call", "params": {"name": "echo"}}
        session.from_client(json.dumps(call).encode(), places["call"])
        await turns()
        (listing,) = streams["call"][1]
        page = {"id": listing["id"], "result": {"tools": [{"name": "echo"}]}}
        await session.from_server(json.dumps(page).encode(), places["answers"])
        await until(lambda: streams["call"][0])
        (question,) = streams["call"][0]
        yes = {"action": "accept", "content": {"approve": True}}
        approval = json.dumps({"id": question["id"], "result": yes}).encode()
        session.from_client(approval, places["answers"])
        await until(lambda: len(streams["call"][1]) == 2)
        told = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
        await session.from_server(json.dumps(told).encode(), places["answers"])
        done = json.dumps({"id": 1, "result": {"content": []}}).encode()
        await session.from_server(done, places["answers"])
        await turns()

    assert [one.get("method") for one in streams["call"][1]] == ["tools/list", "tools/call"]
    assert [one.get("id") for one in streams["call"][0]] == [question["id"], 1]
    assert [one.get("method") for one in streams["answers"][0]] == ["notifications/message"]
    assert streams["answers"][1] == wires.client == []
