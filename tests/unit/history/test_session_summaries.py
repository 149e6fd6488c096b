"""The counts of a session that a real agent run has made, and of rows that no agent would write."""

import sqlite3
from contextlib import closing

import pytest

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    tool,
)
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import MessageDenied
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.history import session_summaries
from toolbus.history.figures import Figures
from toolbus.history.session_summaries import SessionSummary, read_on
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest, SqliteStore
from toolbus.store.sqlite.sqlite_reader import SqliteReader


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@tool
def read(path: str) -> str:
    return "the pin is [pin-abcdefghijklmnop]"


@tool
def delete(path: str) -> str:
    raise OSError("the disk is full")


def calls(*names):
    return tuple([ToolCall(name=name, arguments={"path": f"/{name}"}) for name in names])


def judge(ctx):
    match ctx.value.name:
        case "forbidden":
            return Deny("never")
        case "delete":
            return Ask("really?")
    return None


def shorten(ctx):
    if ctx.value.role == "tool" and "pin" in ctx.value.text:
        return ctx.value.with_text(ctx.value.text.removeprefix("the "))
    return Deny("no bombs") if ctx.value.text == "bomb" else None


def answer(ctx):
    return ToolResponse("known already") if ctx.value.name == "cached" else None


def approve(ask, call, scope):
    return call.id != "refused"


SCRIPT = (
    AssistantMessage(
        tool_calls=calls("read", "read", "delete", "forbidden", "cached", "nowhere"),
        usage={"input_tokens": 100, "output_tokens": 7, "cost": 0.25},
    ),
    AssistantMessage(
        tool_calls=(ToolCall(id="refused", name="delete", arguments={"path": "/"}),),
        usage={"input_tokens": 150, "output_tokens": 5, "cost": 0.5},
    ),
    AssistantMessage(content="done", usage={"input_tokens": 200}),
)


async def run(path):
    async with SqliteStore(path) as store:
        agent = Agent(
            ScriptedModel(SCRIPT),
            tools=[read, delete],
            store=store,
            session_id="s",
            agent_id="writer",
            approver=approve,
        )
        agent.guard(TOOL_CALL_BEFORE, judge)
        agent.on(TOOL_CALL_BEFORE, answer)
        agent.on(MESSAGE_APPEND_BEFORE, shorten)
        await agent.run("Look at\n  the files")
        with pytest.raises(MessageDenied):
            await agent.run("bomb")


def placeholders(text):
    return [("pin", "[pin-abcdefghijklmnop]")] * text.count("[pin-abcdefghijklmnop]")


NOTHING = SessionSummary()


def summarize(path, summary=NOTHING, figures=None, session_id="s"):
    with SqliteReader(path, live=True) as reader:
        session, is_partial = reader.session(session_id), True
        counted = Figures() if figures is None else figures
        while is_partial:
            summary, is_partial = read_on(reader, session, summary, counted, placeholders)
    return summary


EXPECTED_CALLS = {
    "read": {"ok": 2},
    "delete": {"error": 1, "denied": 1},
    "forbidden": {"denied": 1},
    "cached": {"answered": 1},
    "nowhere": {"unknown_tool": 1},
}


@pytest.mark.parametrize("slice_length", [1, 2, 3, 200])
async def test_a_run_is_counted_in_slices_of_any_length(path, monkeypatch, slice_length):
    await run(path)
    monkeypatch.setattr(session_summaries, "SLICE", slice_length)
    figures = Figures()

    summary = summarize(path, figures=figures)

    assert summary.calls == EXPECTED_CALLS
    # A call by the guard, one by the approver, and a user message.
    assert (summary.denied, summary.asked, summary.changed) == (3, 2, 2)
    assert (summary.tokens_in, summary.tokens_out, summary.cost) == (450, 12, 0.75)
    assert (summary.agents, summary.prompt) == (("writer",), "Look at the files")
    assert (summary.messages, summary.call_count, summary.damaged) == (11, 7, 0)
    assert summary.state == "done"
    assert figures.calls == EXPECTED_CALLS
    assert figures.agents == {"writer": 1}
    assert (figures.values, figures.messages) == ({"pin": 1}, {"pin": 2})
    handlers = {name: dict(each.effects) for name, each in figures.handlers.items()}
    assert handlers["judge"] == {"denied": 1, "asked": 2}
    assert handlers["answer"] == {"answered": 1}
    assert handlers["shorten"] == {"changed": 2, "denied": 1}
    assert figures.handlers["judge"].durations.count == 7


@pytest.mark.parametrize("slice_length", [1, 200])
async def test_counting_on_equals_counting_anew(path, monkeypatch, slice_length):
    monkeypatch.setattr(session_summaries, "SLICE", slice_length)
    figures, summary = Figures(), SessionSummary()
    for number in range(3):
        async with SqliteStore(path) as store:
            records = tuple([denial(f"{number}-{each}") for each in range(2)])
            await store.append("s", AppendRequest(records=records[:1]))
            summary = summarize(path, summary, figures)
            await store.append("s", AppendRequest(records=records[1:]))
            message = UserMessage(content="hello")
            await store.append("s", AppendRequest(message=message, records=(denial("m"),)))
        summary = summarize(path, summary, figures)

    assert summary == summarize(path)
    assert (summary.denied, summary.messages) == (7, 3)


def denial(subject):
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(agent_id="reviewer", lineage=("claude-code",)),
        subject=subject,
        started_ns=1,
        duration_ns=1,
        outcome="denied",
        original="",
    )


async def test_a_host_stands_before_its_agents(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(records=(denial("m"),)))

    assert summarize(path).agents == ("claude-code", "reviewer")


async def test_damaged_rows_are_counted_and_passed_over(path):
    await run(path)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE messages SET body = 'x' WHERE seq = 3")
        other.execute("UPDATE ledger SET body = 'x' WHERE key = (SELECT max(key) FROM ledger)")
    figures = Figures()

    summary = summarize(path, figures=figures)

    assert (summary.messages, summary.damaged, figures.damaged) == (11, 2, 2)
    assert summary.call_count == 6


async def test_a_session_without_an_answer_is_open(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=UserMessage(content="x" * 1_000)))

    summary = summarize(path)

    assert (summary.state, len(summary.prompt), summary.cost) == ("open", 200, None)


async def test_a_request_of_calls_is_not_a_final_answer(path):
    async with SqliteStore(path) as store:
        message = AssistantMessage(content="I look.", tool_calls=calls("read"))
        await store.append("s", AppendRequest(message=message))

    assert summarize(path).state == "open"


async def test_many_denials_are_counted_once_each(path, monkeypatch):
    monkeypatch.setattr(session_summaries, "SLICE", 10)
    refusal = ToolResponse.from_text("no", is_error=True, error_type="denied")
    async with SqliteStore(path) as store:
        for number in range(250):
            message = ToolMessage(
                tool_call_id=f"c{number}", tool_name="read", tool_response=refusal
            )
            request = AppendRequest(message=message, records=(denial(f"c{number}"),))
            await store.append("s", request)

    assert summarize(path).denied == 250
