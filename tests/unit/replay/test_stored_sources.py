"""The sources of stored calls: of sub-agents, of hosts that hide texts, and of damaged sessions."""

import json
import sqlite3
from contextlib import closing

import pytest

from seen_sessions import in_a_thread
from toolbus import Agent, AssistantMessage, ToolCall, ToolMessage, ToolResponse, UserMessage, tool
from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.cli.command_line import main
from toolbus.config.targets import load
from toolbus.events import Scope
from toolbus.flow import FlowGuard
from toolbus.history.lookup import find_match
from toolbus.history.message_history import history_of
from toolbus.models import ScriptedModel
from toolbus.replay.stored_sources import find_flow_guard, labelled_sections, read_sources
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader

PROMPT = "Tell bob@home.example that the garden is open."


@tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "agent.db")


def asking(message_id, call_id, name, **arguments):
    call = ToolCall(id=call_id, name=name, arguments=arguments)
    return AssistantMessage(id=message_id, tool_calls=[call])


def session_of(*, arguments):
    """Return a session that reads a page before the call c-mail."""
    answer = ToolResponse("Welcome to the garden.", parameters={})
    return [
        UserMessage(id="m-1", content=PROMPT),
        asking("m-2", "c-read", "web_fetch"),
        ToolMessage(id="m-3", tool_call_id="c-read", tool_name="web_fetch", tool_response=answer),
        asking("m-4", "c-mail", "send_mail", **arguments),
    ]


def store(path, messages, records=()):
    """Store *messages* as a session, the first one with *records*."""

    async def write():
        async with SqliteStore(path) as opened:
            for place, message in enumerate(messages):
                written = () if place else records
                await opened.append("s", AppendRequest(message=message, records=written))

    in_a_thread(write)


def sources_in(path, call_id="c-mail", guard=None):
    with open_reader(path) as reader:
        match = find_match(reader, "call", call_id, None)
        return read_sources(reader, match, history_of(reader, match), guard)


def sections_in(path, call_id="c-mail"):
    with open_reader(path) as reader:
        match = find_match(reader, "call", call_id, None)
        return labelled_sections(reader, match, history_of(reader, match))


def test_the_person_of_a_sub_agent_is_that_of_its_root_session(path):
    async def talk():
        below = [asking("b-1", "c-mail", "send_mail", to="bob@home.example"), "Sent."]
        above = [asking("a-1", "c-help", "helper", prompt="Send it."), "Done."]
        async with SqliteStore(path) as opened:
            helper = Agent(ScriptedModel(below), tools=[send_mail], store=opened)
            async with Agent(
                ScriptedModel(above),
                tools=[helper.as_tool("helper")],
                components=[FlowGuard()],
                store=opened,
            ) as agent:
                await agent.run(PROMPT)

    in_a_thread(talk)

    assert sources_in(path).unnamed == ()


def test_texts_that_a_host_hides_are_unknown(path):
    record = DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id="s"),
        started_ns=1,
        duration_ns=1,
        outcome="unchanged",
        original="",
    )
    store(path, session_of(arguments={"to": "x"}), [record])

    labels = [each.labels for each in sources_in(path).in_view]

    assert ("unknown", "untrusted") in labels


def test_damaged_messages_are_unknown(path):
    store(path, session_of(arguments={"to": "x"}))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE messages SET body = x'00' WHERE id = 'm-3'")

    (damaged,) = sources_in(path).in_view

    assert (damaged.source, damaged.labels) == ("a damaged message", ("unknown", "untrusted"))


def test_a_call_without_stored_arguments_has_no_sources(path):
    answer = ToolResponse("denied", is_error=True, error_type="denied")
    message = ToolMessage(id="m", tool_call_id="c-mail", tool_name="x", tool_response=answer)
    store(path, [message])

    assert sources_in(path) is None
    assert sections_in(path) == []


def test_a_page_has_no_sources_without_stored_labels(path):
    store(path, session_of(arguments={"to": "x"}))

    assert sections_in(path) == []


def test_a_page_does_not_search_a_long_call(path):
    store(path, session_of(arguments={"body": "x " * 200_000}))

    ((title, *_),) = sections_in(path)

    assert title.startswith("too long for a page")


def test_a_replay_of_a_partial_session_has_unknown_texts_in_view(path, tmp_path, capsys):
    scope = Scope(session_id="s")
    times = {"started_ns": 1, "duration_ns": 1}
    record = DispatchRecord(
        event="message:append:before", scope=scope, outcome="unchanged", original="", **times
    )
    store(path, session_of(arguments={"to": "x"}), [record])
    (tmp_path / "flow.toml").write_text('[[component]]\nuse = "flow"\n')

    assert main(["replay", path, "--labels", "--json", "--with", str(tmp_path / "flow.toml")]) == 0

    rows = json.loads(capsys.readouterr().out)["labels"]
    labels = [row["label"].partition(" ")[0] for row in rows if row["kind"] == "message"]
    assert labels[:2] == ["trusted", "unknown"]


def test_a_page_does_not_search_long_texts(path):
    first, asked, answer, *others = session_of(arguments={"to": "x"})
    long = ToolResponse("x " * 2_600_000, parameters={})
    store(path, [first, asked, answer.with_tool_response(long), *others])

    ((title, *_),) = sections_in(path)

    assert title.startswith("too long for a page")


def noted(session, subject, label, **scope):
    """Return a record with the label of a message."""
    entry = HandlerEntry(name="label", priority=0, kind="guard", status="ran", reason=label)
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id=session, run_id="r", **scope),
        subject=subject,
        started_ns=1,
        duration_ns=1,
        outcome="unchanged",
        original="",
        entries=(entry,),
    )


def store_sub_session(path, result=None):
    """Store a session with a page or *result*, and the session of its sub-agent with c-below."""
    above = session_of(arguments={"to": "x"})[2]
    above = above if result is None else above.with_tool_response(result)
    below = asking("b-1", "c-below", "send_mail", to="x")
    records = [
        noted("root", "m-3", "untrusted · tool web_fetch"),
        noted("sub", "b-1", "untrusted · model", root_session_id="root", lineage=("a",)),
    ]

    async def write():
        async with SqliteStore(path) as opened:
            asked = asking("m-2", "c-read", "web_fetch")
            await opened.append("root", AppendRequest(message=asked))
            await opened.append("root", AppendRequest(message=above, records=records[:1]))
            await opened.append("sub", AppendRequest(message=below, records=records[1:]))

    in_a_thread(write)


def test_a_hidden_task_may_have_the_words_of_the_session_above(path):
    store_sub_session(path)

    (known,) = sources_in(path, "c-below").in_view
    assert (known.source, known.message) == ("the result of web_fetch", "m-3")


def test_a_page_does_not_search_a_long_session_above(path):
    store_sub_session(path, ToolResponse("x " * 2_600_000, parameters={}))

    ((title, *_),) = sections_in(path, "c-below")

    assert title.startswith("too long for a page")


def test_a_policy_reads_the_effects_of_calls_without_stored_labels(path, tmp_path):
    first, _, answer, asked = session_of(arguments={"to": "x"})
    response = ToolResponse("Welcome.", parameters={"file": str(tmp_path / "a.md")})
    store(
        path, [first, asking("m-2", "c-read", "read"), answer.with_tool_response(response), asked]
    )
    rules = 'default = "allow"\n[tools.web_fetch]\neffects = ["read"]\nreads = ["file"]\n'
    (tmp_path / "policy.toml").write_text(rules)
    (tmp_path / "all.toml").write_text(
        '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
        f'[[component]]\nuse = "flow"\nsettings = {{ trusted_paths = ["{tmp_path}/**"] }}\n'
    )
    guard = find_flow_guard(load(str(tmp_path / "all.toml")).bus)

    assert sources_in(path, guard=guard).in_view == ()
    assert len(sources_in(path).in_view) == 1
