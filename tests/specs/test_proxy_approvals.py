"""The scenarios of `specs/proxy_approvals.md`."""

import asyncio
import json
import shutil
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from toolbus.approvals import answer
from toolbus.approvals.questions import Question
from toolbus.messages.codec import decoder
from toolbus.store import SqliteStore
from wires import PROXY, wired

STATELESS = "2026-07-28"
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "decline"}

SERVER = """
import json, os, sys

def run(params):
    with open("effects", "a") as effects:
        effects.write(json.dumps(params) + "\\n")
    return {"content": [{"type": "text", "text": "paid"}]}

for line in sys.stdin:
    frame = json.loads(line)
    params = frame.get("params", {})
    result = {}
    if frame.get("method") == "tools/list":
        about = open("about").read() if os.path.exists("about") else "Pay."
        tool = {"description": about, "inputSchema": {"type": "object"}}
        result = {"tools": [{"name": name} | tool for name in ("pay", "survey")]}
    elif frame.get("method") == "tools/call":
        if params["name"] == "survey" and params.get("requestState") != "theirs":
            form = {"message": "which colour?", "requestedSchema": {"type": "object"}}
            wanted = {"colour": {"method": "elicitation/create", "params": form}}
            result = {"resultType": "input_required", "inputRequests": wanted,
                      "requestState": "theirs"}
        else:
            result = run(params)
    if "id" in frame:
        print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
"""

OFFICIAL = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("till")

@server.tool()
def pay(amount: int) -> str:
    with open("effects", "a") as effects:
        effects.write(f"{amount}\\n")
    return "paid"

server.run("stdio")
"""

GUARD = """
from toolbus import AgentComponent, Ask, events, guard
class Till(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Ask("pay it?")
"""

read_question = decoder(Question)


class Till:
    """A folder with a server that notes its effects, a guard, and the store of the proxies."""

    def __init__(self, here, environment):
        self.here, self.environment = here, environment
        (here / "server.py").write_text(SERVER)
        (here / "official.py").write_text(OFFICIAL)
        (here / "guard.py").write_text(GUARD)
        (here / "toolbus.toml").write_text('[[component]]\nuse = "./guard.py:Till"\n')

    def command(self, *options, server="server.py"):
        named = options if "--config" in options else ("--config", "toolbus.toml", *options)
        return [*PROXY, *named, "--store", "calls.db", "--", sys.executable, server]

    @asynccontextmanager
    async def proxy(self, *options, elicits=False, hold="0", client="", server="server.py"):
        """Give a client of a proxy that has begun its session."""
        waits = () if hold is None else ("--approval-wait", hold)
        command = self.command(*waits, *options, server=server)
        async with wired(command, cwd=self.here, env=self.environment) as wire:
            capabilities = {"elicitation": {}} if elicits else {}
            params = {"capabilities": capabilities, "clientInfo": {"name": client}}
            await wire.ask(0, "initialize", params)
            yield wire

    def effects(self):
        file = self.here / "effects"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def questions(self):
        """Return all questions, the oldest first."""

        def read(store):
            with store.reader() as reader:
                rows = [row.body for _, row in reader.states_like("question:")]
            return sorted(map(read_question, rows), key=lambda question: question.asked_ns)

        async with SqliteStore(self.here / "calls.db") as store:
            return await asyncio.to_thread(read, store)

    async def asked(self, count=1):
        """Return the latest question once there are *count*."""
        while len(questions := await self.questions()) < count:
            await asyncio.sleep(0.01)
        return questions[-1]

    async def answer(self, question, **verdict):
        async with SqliteStore(self.here / "calls.db") as store:
            words = {"by": "ann", "approve": True, **verdict}
            return (await answer(store, question.id, question.digest, **words)).status


@pytest.fixture
def till(tmp_path, environment):
    return Till(tmp_path / "here", environment)


async def pay(wire, own, name="pay", /, **more):
    params = {"name": name, "arguments": {"amount": 5}, **more}
    frame = await wire.ask(own, "tools/call", params)
    return frame.get("result") or frame["error"]


def stateless(**more):
    """Return the params of a stateless client that shows forms."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    return {"_meta": meta, **more}


def text_of(result):
    return result["content"][0]["text"]


async def test_a_client_without_forms_reads_the_handle(till):
    async with till.proxy() as client:
        waits = await pay(client, 1)
        first = await till.asked()
        await till.answer(first)
        paid = await pay(client, 2)
        waits_again = await pay(client, 3)

    done, second = await till.questions()
    assert text_of(waits).startswith("a person must approve this call; question " + first.id)
    assert waits["isError"]
    assert text_of(paid) == "paid"
    assert second.id in text_of(waits_again)
    assert (done.state, done.host, second.state) == ("done", "proxy", "pending")
    assert len(till.effects()) == 1


async def test_a_held_call_continues_with_the_answer(till):
    async with till.proxy(hold="50") as client:
        results = []
        for own, verdict in enumerate(({}, {"approve": False, "reason": "too much"}), 1):
            calling = asyncio.create_task(pay(client, own))
            await till.answer(await till.asked(own), **verdict)
            results.append(await calling)

    assert [text_of(each) for each in results] == ["paid", "too much"]
    assert len(till.effects()) == 1


async def test_the_first_answer_of_form_and_store_counts(till):
    async with till.proxy(elicits=True) as client:
        client.send(id=1, method="tools/call", params={"name": "pay", "arguments": {}})
        while (form := await client.frame()).get("method") != "elicitation/create":
            pass
        await till.answer(await till.asked(), approve=False, reason="too much")
        while (cancelled := await client.frame()).get("method") != "notifications/cancelled":
            pass
        client.send(id=form["id"], result=YES)
        denied = (await client.answer(1))["result"]

    (question,) = await till.questions()
    assert "│ pay it?" in form["params"]["message"].splitlines()
    assert cancelled["params"]["requestId"] == form["id"]
    assert text_of(denied) == "too much"
    assert (question.state, question.answered_by) == ("denied", "ann")
    assert till.effects() == []


async def test_a_cancelled_call_withdraws_its_question(till):
    async with till.proxy(hold="50") as client:
        client.send(id=1, method="tools/call", params={"name": "pay", "arguments": {}})
        question = await till.asked()
        client.send(method="notifications/cancelled", params={"requestId": 1})
        while (await till.questions())[0].state == "pending":
            pass
        late = await till.answer(question)

    assert late == "too_late"
    assert [each.state for each in await till.questions()] == ["withdrawn"]


async def test_an_oversized_question_waits_in_the_store(till):
    async with till.proxy(elicits=True) as client:
        arguments = {"text": "x" * 20_000}
        params = {"name": "pay", "arguments": arguments}
        waits = (await client.ask(1, "tools/call", params))["result"]

    (question,) = await till.questions()
    assert question.id in text_of(waits)
    assert not any(b"elicitation" in line for line in client.lines)


@pytest.mark.full
async def test_a_secret_is_approved_without_being_shown(till):
    secret = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q"[:36]
    file = till.here / "toolbus.toml"
    file.write_text(f'{file.read_text()}[[component]]\nuse = "redact-secrets"\n')
    arguments = {"token": secret}

    async with till.proxy() as client:
        waits = await pay(client, 1, arguments=arguments)
        question = await till.asked()
        await till.answer(question)
        paid = await pay(client, 2, arguments=arguments)

    (effect,) = till.effects()
    stored = b"".join(each.read_bytes() for each in till.here.glob("calls.db*"))
    assert (question.hidden, text_of(paid)) == (True, "paid")
    assert question.arguments["token"].startswith("[github-pat")
    assert effect["arguments"] == arguments
    assert secret not in json.dumps(waits)
    assert secret.encode() not in stored


@pytest.mark.full
async def test_the_configuration_limits_the_wait(till):
    rest = '[[component]]\nuse = "./guard.py:Till"\n'
    (till.here / "brief.toml").write_text(f"[approvals]\nwait = 0\nexpires_after = 1\n{rest}")

    async with till.proxy("--config", "brief.toml", hold=None) as client:
        first = text_of(await pay(client, 1))
        question = await till.asked()
        while (told := text_of(await pay(client, 2))) == first:
            await asyncio.sleep(0.05)
        anew = text_of(await pay(client, 3))

    assert question.expires_ns - question.asked_ns == 10**9
    assert told == "approval was not given in time"
    assert (await till.questions())[1].id in anew


@pytest.mark.full
async def test_a_changed_tool_asks_again(till):
    async with till.proxy() as client:
        await client.ask(1, "tools/list", {})
        await pay(client, 2)
        await till.answer(await till.asked())
        (till.here / "about").write_text("Pay all.")
        await client.ask(3, "tools/list", {})
        waits = await pay(client, 4)

    withdrawn, anew = await till.questions()
    assert (withdrawn.state, anew.state, till.effects()) == ("withdrawn", "pending", [])
    assert anew.id in text_of(waits)
    assert anew.definition != withdrawn.definition


@pytest.mark.full
async def test_the_approved_arguments_are_sent(till):
    changing = "dict.__setitem__(ctx.value.arguments, 'amount', 6); return"
    (till.here / "guard.py").write_text(GUARD.replace("return", changing))

    async with till.proxy() as client:
        await pay(client, 1)
        question = await till.asked()
        await till.answer(question)
        await pay(client, 2)

    (effect,) = till.effects()
    assert effect["arguments"] == question.arguments == {"amount": 6}


async def test_the_repeated_call_carries_the_approval(till):
    async with till.proxy() as client:
        asking = await pay(client, 1, **stateless())
        state, wanted = asking["requestState"], asking["inputRequests"]
        ((key, request),) = wanted.items()
        answers = {"requestState": state, "inputResponses": {key: YES}}
        paid = await pay(client, 2, **stateless(**answers))
        again = await pay(client, 3, **stateless(**answers))

    assert asking["resultType"] == again["resultType"] == "input_required"
    assert request["method"] == "elicitation/create"
    assert "│ pay it?" in request["params"]["message"].splitlines()
    assert (text_of(paid), paid.get("resultType", "complete")) == ("paid", "complete")
    (effect,) = till.effects()
    assert effect == {"name": "pay", "arguments": {"amount": 5}, **stateless()}
    done, anew = await till.questions()
    assert (done.state, done.answered_by, anew.state) == ("done", "client", "pending")


async def test_only_a_genuine_approval_runs_the_tool(till):
    async with till.proxy() as client:
        asking = await pay(client, 1, **stateless())
        state, (key,) = asking["requestState"], asking["inputRequests"]
        silent = await pay(client, 2, **stateless(requestState=state))
        other = await pay(
            client,
            3,
            **stateless(requestState=state, inputResponses={key: NO}, arguments={"amount": 6}),
        )
        changed = state[:-6] + ("AAAA" if state[-6:-2] != "AAAA" else "BBBB") + state[-2:]
        broken = await pay(client, 4, **stateless(requestState=changed))
        denied = await pay(
            client, 5, **stateless(requestState=silent["requestState"], inputResponses={key: NO})
        )

    assert silent["resultType"] == other["resultType"] == "input_required"
    assert broken["message"] == "unknown `requestState`; call again without it"
    assert text_of(denied) == "approval was refused"
    assert till.effects() == []


@pytest.mark.full
async def test_the_server_s_own_question_passes(till):
    answered, brought = [], {}
    async with till.proxy() as client:
        for own in range(1, 9):
            result = await pay(client, own, "survey", **stateless(**brought))
            if result.get("resultType") != "input_required":
                break
            ((key, request),) = result["inputRequests"].items()
            answered.append(request["params"]["message"].splitlines()[0])
            said = {"action": "accept", "content": {"colour": "red"}} if key == "colour" else YES
            brought = {"requestState": result["requestState"], "inputResponses": {key: said}}

    (effect,) = till.effects()
    theirs = "The MCP server asks, not toolbus: which colour?"
    assert answered == ["the model calls survey", theirs, "the model calls survey"]
    assert effect["requestState"] == "theirs"
    assert effect["inputResponses"] == {
        "colour": {"action": "accept", "content": {"colour": "red"}}
    }


@pytest.mark.full
@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_the_official_client_asks_its_user(till, mode):
    shown = []

    async def say_yes(_context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    program, *words = till.command("--approval-wait", "0", server="official.py")
    place = {"cwd": till.here, "env": till.environment}
    server = stdio_client(StdioServerParameters(command=program, args=words, **place))
    async with Client(server, mode=mode, elicitation_callback=say_yes) as client:
        result = await client.call_tool("pay", {"amount": 5})

    assert "│ pay it?" in shown[0].splitlines()
    assert (len(shown), result.content[0].text, till.effects()) == (1, "paid", [5])
    assert [each.state for each in await till.questions()] == ["done"]


async def post(url, token, own):
    """Return the text of the result of a call by a stateless client, which shows *token*."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "till", "version": "1"},
    }
    params = {"name": "pay", "arguments": {"amount": 5}, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {token}",
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": "pay",
    }
    body = {"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params}
    async with httpx2.AsyncClient(timeout=60) as http:
        reply = await http.post(url, json=body, headers=headers)
    return text_of(reply.json()["result"])


@pytest.mark.full
async def test_over_http_each_client_has_its_questions(till):
    command = till.command("--approval-wait", "0", "--listen", "127.0.0.1:0")
    pipes = {"stdin": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=till.here, env=till.environment, **pipes
    )
    try:
        line = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
        url = line.removeprefix("toolbus: listening on ").strip()
        waiting = [await post(url, token, 1) for token in ("ann", "bob")]
        first, second = await till.questions()
        await till.answer(first)
        again = [await post(url, token, 2) for token in ("bob", "ann", "bob")]
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)

    assert [first.id in waiting[0], second.id in waiting[1]] == [True, True]
    assert first.session_id != second.session_id
    assert second.id in again[0]
    assert (again[1], again[2]) == ("paid", again[0])
    assert len(till.effects()) == 1


def contradictions(facts, mode):
    """Return what is wrong about a kill; nothing, if all is well."""
    then, end = facts["then"], facts["finally"]
    yeses = {"taken", "done", "unknown"}
    checks = {
        "it ran though it was not taken": then["runs"] == 0 or yeses & {*then["states"]},
        "it did not run though it is done": then["states"] != ["done"] or then["runs"] == 1,
        "it ran twice by a yes": end["runs"] <= sum(state in yeses for state in end["states"]),
        "it did not run by a yes that is done": end["runs"] >= end["states"].count("done"),
        "the client was not answered": facts["read"] == ("paid" if mode == "approve" else "no"),
        "a question still seems to be taken": "taken" not in end["states"],
        "a repeated call says nothing of the first": end["told"]
        == ["unknown" in end["states"][:number] for number in range(len(end["states"]))],
    }
    return [name for name, holds in checks.items() if not holds]


NAMED = ("--session", "work")


async def test_the_next_proxy_continues_the_session(till):
    async with till.proxy(*NAMED, client="one") as client:
        waits = await pay(client, 1)
    question = await till.asked()
    await till.answer(question)
    async with till.proxy(*NAMED, client="one") as client:
        paid = await pay(client, 1)
        anew = await pay(client, 2)

    done, second = await till.questions()
    assert question.id in text_of(waits)
    assert (text_of(paid), len(till.effects())) == ("paid", 1)
    assert second.id in text_of(anew)
    assert (done.state, second.state, done.session_id) == ("done", "pending", second.session_id)
    assert done.session_id.startswith("work-")


@pytest.mark.full
async def test_no_other_client_attaches(till):
    shutil.copy(till.here / "server.py", till.here / "other.py")
    others = [
        (("--session", "play"), {"client": "one"}),
        ((), {"client": "one"}),
        (NAMED, {"client": "two"}),
        (NAMED, {"client": "one", "server": "other.py"}),
    ]

    async with till.proxy(*NAMED, client="one") as client:
        await pay(client, 1)
        await till.answer(await till.asked())
        told = []
        async with till.proxy(*NAMED, client="one") as second:
            told.append(text_of(await pay(second, 1)))
    for options, facts in others:
        async with till.proxy(*options, **facts) as other:
            told.append(text_of(await pay(other, 1)))

    approved, *rest = await till.questions()
    assert approved.state == "approved"
    assert [each.state for each in rest] == ["pending"] * 5
    assert all(each.id in text for each, text in zip(rest, told, strict=True))
    assert len({each.session_id for each in (approved, *rest)}) == 6
    assert till.effects() == []


@pytest.mark.full
async def test_a_question_outlives_its_client(till):
    async with till.proxy(*NAMED, hold="50") as client:
        client.send(id=1, method="tools/call", params={"name": "pay", "arguments": {}})
        await till.asked()
    left = await till.questions()
    async with till.proxy(*NAMED, hold="50") as client:
        progress = {"_meta": {"progressToken": "t"}}
        params = {"name": "pay", "arguments": {}, **progress}
        client.send(id=1, method="tools/call", params=params)
        while (await client.frame()).get("method") != "notifications/progress":
            pass
        client.send(method="notifications/cancelled", params={"requestId": 1})
        while (await till.questions())[0].state == "pending":
            pass

    assert [each.state for each in left] == ["pending"]
    assert [each.state for each in await till.questions()] == ["withdrawn"]


def test_a_name_needs_a_store(command):
    server = ("--", "true")
    cases = {
        ("--session=a", *server): "add --store STORE",
        ("--session=a", "--store=s.db", "--listen=0", *server): "leave it out, or --listen",
        ("--session=a/b", "--store=s.db", *server): "expected a name of at most 40 letters",
    }

    for words, way_out in cases.items():
        done = command("proxy", *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert way_out in done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("killed", "mode"),
    [("sqlite", "approve"), ("sqlite", "deny"), ("postgres", "approve")],
    indirect=["killed"],
)
def test_no_kill_causes_a_second_run(killed, mode):
    kills = killed.kills("kill_proxy.py", mode)

    steps = {facts["step"] for facts in kills}
    assert {"before swap_state", "after swap_state", "before append", "after append"} <= steps
    assert {"before pay", "after pay"} <= steps or mode == "deny"
    assert {state for facts in kills for state in facts["then"]["states"]} >= (
        {"pending", "denied"} if mode == "deny" else {"pending", "approved", "unknown"}
    )
    assert [(facts, flaws) for facts in kills if (flaws := contradictions(facts, mode))] == []
