"""The scenarios of `specs/timeline.md`."""

import asyncio
import html
import io
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from html.parser import HTMLParser

import pytest

from seen_sessions import in_a_thread
from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResponse,
    UserMessage,
    events,
    guard,
    on,
)
from toolbus.approvals import StoredApprovals
from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.cli.output.page_file import write_session
from toolbus.errors import MessageDenied
from toolbus.events import Scope
from toolbus.history.timeline import read_parts, read_timeline
from toolbus.history.view_walker import rewrite_view
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.messages.text_walker import TextMapper
from toolbus.models import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader
from ui_server import running_ui

SECRET = "sk-canary-4242"
HOSTILE = "<script>alert(1)</script>\"'&\u202e/ %2F"
RULES = """
from toolbus import AgentComponent, Ask, Deny, events, guard

class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        command = str(ctx.value.arguments)
        if "push" in command:
            return Ask("May it push?")
        return Deny("no removal") if "rm" in command else None

    @guard(events.RUN_BEFORE)
    def judge_prompt(self, ctx):
        return Deny("not this") if "damn" in ctx.value.text else None

    @guard(events.MCP_REQUEST_BEFORE)
    def judge_request(self, ctx):
        return Deny("no secrets")
"""
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    tools = [{"name": "shell", "inputSchema": {"type": "object"}}]
    result = {"tools": tools, "content": [{"type": "text", "text": "done"}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class House(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def normalise(self, ctx):
        path = str(ctx.value.arguments.get("path", ""))
        short = path.replace("//", "/")
        return ctx.value.merge_arguments({"path": short}) if short != path else None

    @guard(events.TOOL_CALL_BEFORE)
    def inside_only(self, ctx):
        is_outside = str(ctx.value.arguments.get("path", "")).startswith("/")
        return Deny("only inside the project") if is_outside else None

    @guard(events.TOOL_CALL_BEFORE, tools=("push",))
    def ask_push(self, ctx):
        return Ask("May it push?")

    @on(events.MESSAGE_PERSIST_BEFORE)
    def hide(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, "[hidden]"))

    @guard(events.MESSAGE_APPEND_BEFORE)
    def polite(self, ctx):
        return Deny("not polite") if "damn" in ctx.value.text else None


async def read(path: str) -> str:
    await asyncio.sleep(0.02)
    return f"{path} holds {SECRET}"


async def outer(ctx: ToolContext) -> str:
    return (await ctx.call("read", {"path": "inner"})).text


def push(branch: str) -> str:
    return branch


def call(name, tool, **arguments):
    return ToolCall(id=name, name=tool, arguments=arguments)


def asking(name, *calls, **fields):
    return AssistantMessage(id=name, tool_calls=calls, **fields)


def write(path, work):
    async def run():
        async with SqliteStore(path) as store:
            await work(store)

    in_a_thread(run)


async def work_of_agent(store):
    """Run the agent of most scenarios: it ends with a question to a person."""
    usage = {"input_tokens": 1_200, "output_tokens": 77, "cost": 0.0123}
    first = (
        call("c1", "read", path="a//b"),
        call("c2", "read", path="//etc"),
        call("c3", "outer"),
    )
    answers = [
        asking("a1", *first, content="I look.", usage=usage),
        asking("a2", call("c4", "nope"), call("c5", "read", wrong=1)),
        asking("a3", call("c6", "push", branch="main")),
    ]
    agent = Agent(
        ScriptedModel(answers),
        tools=[read, outer, push],
        components=[House()],
        store=store,
        session_id="work",
        keep_originals=True,
        approver=StoredApprovals(),
    )
    async with agent:
        with pytest.raises(MessageDenied):
            await agent.append(UserMessage(id="rude", content="damn"))
        result = await agent.run("clean up")
    assert result.status == "pending"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Return the store of the agent's session."""
    path = tmp_path_factory.mktemp("work") / "agent.db"
    write(path, work_of_agent)
    return path


def timeline_of(path, session=None, after=0, limit=200, **options):
    with open_reader(path) as reader:
        row = next(row for row in reader.sessions() if session in {None, row.id})
        return read_timeline(reader, row, after, limit, **options)


def entries_of(timeline):
    return [entry for turn in timeline.turns for entry in turn.messages]


def calls_of(timeline):
    return {each.id: each for entry in entries_of(timeline) for each in entry.calls}


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and its text without style and script."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._raw = [], [], False
        self.feed(text)
        self.text = " ".join("".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._raw = tag in {"style", "script"}

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        if not self._raw:
            self.texts.append(data)

    def links(self, start):
        found = [attrs.get("href", "") for tag, attrs in self.elements if tag == "a"]
        return [href for href in found if href.startswith(start)]


def page_of(ui, path):
    answered = ui.get(path)
    assert answered.status == 200, answered.text
    return Elements(answered.text)


def test_turns_hold_messages_and_their_calls(work):
    timeline = timeline_of(work)

    numbers = [turn.number for turn in timeline.turns if turn.run_id]
    assert numbers == [0, 1, 2, 3]
    model = timeline.turns[2].messages[0]
    assert (model.tokens_in, model.tokens_out, model.cost) == (1_200, 77, 0.0123)
    one, other, _ = model.calls
    assert (one.tool, one.status, one.answer.message.tool_call_id) == ("read", "ok", "c1")
    assert one.duration_ns >= 20_000_000
    assert one.started_ns <= other.started_ns < one.started_ns + one.duration_ns


def test_a_changed_call_has_both_forms(work):
    changed = calls_of(timeline_of(work))["c1"]

    assert changed.requested.arguments == {"path": "a//b"}
    assert changed.executed.arguments == {"path": "a/b"}
    steps = [(each.name, each.status) for each in changed.dispatches[0].handlers]
    assert steps == [
        ("House.normalise", "changed"),
        ("House.inside_only", "ran"),
        ("House.ask_push", "skipped"),
    ]


def test_a_denied_call_names_handler_and_reason(work):
    calls = calls_of(timeline_of(work))

    denied, unknown, invalid = calls["c2"], calls["c4"], calls["c5"]
    assert (denied.status, denied.reason) == ("denied", "only inside the project")
    assert (denied.by, denied.executed) == ("House.inside_only", None)
    assert (unknown.status, unknown.reason[:20]) == ("unknown_tool", "no tool named 'nope'")
    assert (invalid.status, invalid.by) == ("invalid_arguments", "")
    assert "unknown field `wrong`" in invalid.reason


def test_a_call_that_waits_is_asked(work):
    waiting = calls_of(timeline_of(work))["c6"]

    assert (waiting.status, waiting.reason, waiting.by) == (
        "asked",
        "May it push?",
        "House.ask_push",
    )
    assert waiting.answer is waiting.executed is None


def test_refused_and_nested_things_have_their_place(work):
    entries = entries_of(timeline_of(work))

    refused, prompt, model, nested, second, _ = entries
    assert (refused.id, refused.message) == ("rude", None)
    assert refused.dispatches[0].reason == "not polite"
    assert (prompt.message.text, model.id, second.id) == ("clean up", "a1", "a2")
    assert nested.message is None
    assert [each.status for each in nested.calls] == ["ran"]


def test_hooks_of_a_coding_agent_are_a_timeline(tmp_path, monkeypatch, as_person):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rules.py").write_text(RULES)
    config = tmp_path / "toolbus.toml"
    config.write_text('[[component]]\nuse = "rules.py:Rules"\n')
    settings = HookSettings(config=str(config), store=tmp_path / "hooks.db")

    def tell(event, **facts):
        payload = {"session_id": "s", "cwd": str(tmp_path), **facts}
        answer("claude-code", event, json.dumps(payload).encode(), settings)

    tell("UserPromptSubmit", prompt="clean up")
    for name, command in [("t1", "ls"), ("t2", "rm x"), ("t3", "git push")]:
        facts = {"tool_use_id": name, "tool_input": {"command": command}}
        tell("PreToolUse", tool_name="Bash", **facts)
    facts = {"tool_use_id": "t1", "tool_input": {"command": "ls"}}
    tell("PostToolUse", tool_name="Bash", tool_response={"stdout": "done"}, **facts)
    tell("UserPromptSubmit", prompt="damn")
    timeline = timeline_of(tmp_path / "hooks.db")

    calls = {name.rpartition("/")[2]: each for name, each in calls_of(timeline).items()}
    statuses = {name: (each.status, each.reason) for name, each in calls.items()}
    expected = {"t1": ("ok", ""), "t2": ("denied", "no removal"), "t3": ("asked", "May it push?")}
    assert statuses == expected
    assert calls["t1"].duration_ns > calls["t2"].started_ns - calls["t1"].started_ns
    (*_, end) = entries_of(timeline)
    assert [(each.event, each.reason) for each in end.dispatches] == [("run:before", "not this")]


@pytest.mark.full  # A process of the proxy and its server.
def test_calls_of_the_proxy_are_a_timeline(tmp_path):
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "server.py").write_text(SERVER)
    requests = [
        ("tools/call", {"name": "shell", "arguments": {"command": "ls"}}),
        ("tools/call", {"name": "shell", "arguments": {"command": "rm x"}}),
        ("resources/read", {"uri": "file:///secret"}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": place, "method": method, "params": params})
        for place, (method, params) in enumerate(requests)
    ]
    options = ("--with", "rules.py:Rules", "--store", "proxy.db")
    command = [
        sys.executable,
        "-m",
        "toolbus",
        "proxy",
        *options,
        "--",
        sys.executable,
        "server.py",
    ]
    sent = "\n".join(lines) + "\n"
    subprocess.run(command, input=sent, text=True, cwd=tmp_path, timeout=60, check=False)
    timeline = timeline_of(tmp_path / "proxy.db")

    ends = {(each.status, each.reason) for each in calls_of(timeline).values()}
    assert ends == {("ok", ""), ("denied", "no removal")}
    refused = [entry.dispatches[0] for entry in entries_of(timeline) if entry.message is None]
    assert [(each.event, each.reason) for each in refused] == [("mcp:request:before", "no secrets")]


@pytest.mark.parametrize("limit", range(1, 12))
def test_parts_hold_every_message_once(work, limit):
    parts, after, has_more = [], 0, True
    while has_more:
        parts.append(timeline_of(work, after=after, limit=limit))
        after, has_more = parts[-1].end, parts[-1].has_more

    whole = timeline_of(work)
    assert [entry for part in parts for entry in entries_of(part)] == entries_of(whole)
    assert len(entries_of(whole)) == 6


def test_an_answer_far_behind_stands_in_its_call(tmp_path):
    async def work(store):
        others = [UserMessage(id=f"u{place}", content="later") for place in range(300)]
        asked = asking("a", call("c", "read"))
        answered = ToolMessage(id="t", tool_call_id="c", tool_name="read", content="late")
        await store.append("s", AppendRequest(message=answered, before=(asked, *others)))

    write(tmp_path / "s.db", work)
    near, far = timeline_of(tmp_path / "s.db"), timeline_of(tmp_path / "s.db", after=200)

    assert calls_of(near)["c"].answer.message.text == "late"
    assert [entry.id for entry in entries_of(far)] == [f"u{place}" for place in range(199, 300)]


def test_a_reused_call_id_has_two_calls(tmp_path):
    async def work(store):
        for name in ("one", "two"):
            asked = asking(f"a-{name}", call("c", "read", path=name))
            answered = ToolMessage(tool_call_id="c", tool_name="read", content=name)
            await store.append("s", AppendRequest(message=answered, before=(asked,)))

    write(tmp_path / "s.db", work)
    entries = entries_of(timeline_of(tmp_path / "s.db"))

    assert [entry.calls[0].answer.message.text for entry in entries] == ["one", "two"]
    later = entries_of(timeline_of(tmp_path / "s.db", after=1, limit=2))
    assert [entry.id for entry in later] == ["a-two"]


def refusal_of(place):
    denied = HandlerEntry(name="g", priority=1, kind="guard", status="denied", reason="no")
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id="s"),
        subject=f"m{place}",
        started_ns=place,
        duration_ns=1,
        outcome="denied",
        reason="no",
        original="d",
        entries=(denied,),
    )


def test_a_flood_of_records_is_cut(tmp_path):
    async def work(store):
        records = tuple(refusal_of(place) for place in range(500))
        await store.append("s", AppendRequest(records=records))

    write(tmp_path / "s.db", work)
    timeline = timeline_of(tmp_path / "s.db")

    assert timeline.is_cut
    assert [entry.id for entry in entries_of(timeline)] == [f"m{place}" for place in range(100)]


def test_a_damaged_message_leaves_the_others_readable(tmp_path):
    async def work(store):
        for name in ("one", "two", "three"):
            await store.append("s", AppendRequest(message=UserMessage(id=name, content=name)))

    write(tmp_path / "s.db", work)
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        connection.execute("UPDATE messages SET body = '{\"role\"' WHERE id = 'two'")
    first, damaged, last = entries_of(timeline_of(tmp_path / "s.db"))

    assert (first.id, damaged.id, last.id) == ("one", "two", "three")
    assert damaged.message is None
    assert damaged.damage.startswith("message 2 is damaged")


def test_the_page_answers_the_four_questions(work):
    with running_ui(work) as ui:
        session, one = page_of(ui, "/sessions/work").text, page_of(ui, "/calls/work/c1").text

    assert "~ House.normalise changed the call" in session
    assert "denied" in session
    assert "House.inside_only: only inside the project" in session
    assert "the model calls push waits for a person" in session
    assert "The model read another text than the store holds." in session
    assert f"What the model read a/b holds {SECRET}" in one
    assert "What the store holds a/b holds [hidden]" in one


def test_details_show_the_changes_of_handlers(work):
    with running_ui(work) as ui:
        text = page_of(ui, "/calls/work/c2").text

    assert "As it ran: It did not run." in text
    assert "arguments.path - //etc+ /etc" in text
    assert "House.inside_only denied guard" in text
    assert "House.ask_push not run guard House.inside_only had ended the dispatch: denied" in text


@pytest.fixture(scope="module")
def long_session(tmp_path_factory):
    """Return a store with a session of 1,000 messages of three calls each."""
    path = tmp_path_factory.mktemp("long") / "long.db"

    def record(event, subject, call_id, place):
        change = {"fields": ("arguments",), "before": "a" * 32, "after": "b" * 32}
        entries = [
            HandlerEntry(
                name=f"Handler{each}", priority=1, kind="transformer", status="changed", **change
            )
            for each in range(5)
        ]
        return DispatchRecord(
            event=event,
            scope=Scope(session_id="s", run_id="r", turn=place),
            subject=subject,
            call_id=call_id,
            started_ns=place * 10**9,
            duration_ns=1,
            outcome="changed",
            original="d",
            entries=tuple(entries),
        )

    async def work(store):
        for place in range(1, 1_001):
            names = [f"c{place}-{each}" for each in range(3)]
            asked = asking(f"a{place}", *[call(name, "read", path="x") for name in names])
            answers = [
                ToolMessage(
                    id=f"t-{name}",
                    tool_call_id=name,
                    tool_name="read",
                    tool_response=ToolResponse("long " * 300, duration_ns=10**6),
                )
                for name in names
            ]
            records = [record("message:append:before", asked.id, "", place)]
            records += [record("tool:call:before", name, name, place) for name in names]
            records += [
                record("message:append:before", each.id, each.tool_call_id, place)
                for each in answers
            ]
            before = (asked, *answers[:2])
            request = AppendRequest(message=answers[2], before=before, records=tuple(records))
            await store.append("s", request)

    write(path, work)
    return path


def onward_from(page):
    """Return the address of the next part, "" behind the last one."""
    links = [attrs["href"] for _, attrs in page.elements if attrs.get("rel") == "next"]
    return links[0] if links else ""


def test_the_first_screen_stays_small(long_session):
    with running_ui(long_session) as ui:
        first = page_of(ui, "/sessions/s")
        second = page_of(ui, onward_from(first))

    for part in (first, second):
        assert 1_000 < len(part.elements) <= 2_000
        classes = [attrs.get("class", "").split()[:1] for _, attrs in part.elements]
        assert 20 < classes.count(["message"]) + classes.count(["call"]) <= 200


@pytest.mark.full
def test_all_parts_together_are_the_session(long_session):
    names, path = [], "/sessions/s"
    with running_ui(long_session) as ui:
        while path:
            part = page_of(ui, path)
            names += dict.fromkeys(name.rpartition("/")[2] for name in part.links("/calls/s/"))
            path = onward_from(part)

    assert names == [f"c{place}-{each}" for place in range(1, 1_001) for each in range(3)]


@pytest.mark.full  # A browser.
def test_scrolling_brings_the_next_parts(long_session, open_page):
    with running_ui(long_session) as ui:
        page = open_page()
        name, _, value = ui.cookie.partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
        page.goto(f"{ui.url}/sessions/s")
        first = page.locator(".message").count()
        for times in (2, 3):
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_function(
                "(least) => document.querySelectorAll('.message').length >= least",
                arg=times * first - 5,
            )
        numbers = page.evaluate("[...document.querySelectorAll('.message')].map(each => each.id)")

        assert numbers == [f"m{4 * place + 1}" for place in range(len(numbers))]
        assert page.url == f"{ui.url}/sessions/s"
        page.close()  # Before the server ends, which its stream would complain about.


def hostile_session(path):
    async def work(store):
        asked = asking(HOSTILE, call(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE}), content=HOSTILE)
        record = refusal_of(0)
        entry = HandlerEntry(
            name=HOSTILE, priority=1, kind="guard", status="denied", reason=HOSTILE
        )
        facts = {"scope": Scope(session_id=HOSTILE), "subject": "x", "entries": (entry,)}
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        hostile = DispatchRecord(**{**fields, **facts, "reason": HOSTILE})
        answered = ToolMessage(
            tool_call_id=HOSTILE, tool_name=HOSTILE, tool_response=ToolResponse(HOSTILE)
        )
        request = AppendRequest(message=answered, before=(asked,), records=(hostile,))
        await store.append(HOSTILE, request)

    write(path, work)


def test_hostile_texts_stay_texts(tmp_path):
    hostile_session(tmp_path / "s.db")
    with running_ui(tmp_path / "s.db") as ui:
        session = ui.get("/sessions/" + quoted(HOSTILE)).text
        detail = ui.get(f"/calls/{quoted(HOSTILE)}/{quoted(HOSTILE)}").text

    for text in (session, detail):
        assert [tag for tag, _ in Elements(text).elements].count("script") == 1
        assert "alert(1)</script>" not in text
        assert "\u202e" not in text
        assert html.escape("<script>alert(1)</script>") in text
        assert "\\u202e" in text


def quoted(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


def test_any_id_has_a_page(tmp_path):
    hostile_session(tmp_path / "s.db")
    with running_ui(tmp_path / "s.db") as ui:
        session = page_of(ui, "/sessions/" + quoted(HOSTILE))
        links = session.links("/messages/") + session.links("/calls/")
        texts = [page_of(ui, link).text for link in links]

    assert len(links) == 3
    assert all("<script>alert(1)</script>" in text for text in texts)


def test_an_unknown_id_is_not_found(work):
    paths = ("/sessions/nope", "/sessions/", "/messages/work/nope", "/calls/work/nope", "/calls/x")
    with running_ui(work) as ui:
        statuses = [ui.get(path).status for path in paths]

    assert statuses == [404] * 5


def test_a_file_needs_no_server(work, command, tmp_path):
    made = command("export", "--html", work, "work", "-o", tmp_path / "work.html")

    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr.startswith(f"toolbus: 9 messages written to {tmp_path / 'work.html'}")
    text = (tmp_path / "work.html").read_text()
    page = Elements(text)
    assert {tag for tag, _ in page.elements}.isdisjoint({"form", "link", "img", "iframe", "base"})
    assert set(page.links("")) == {"#main"}
    assert not [attrs for _, attrs in page.elements if attrs.keys() & {"src", "action", "style"}]
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; "
        r"base-uri 'none'; form-action 'none'",
        html.unescape(policy),
    )
    assert (tmp_path / "work.html").stat().st_mode & 0o777 == 0o600


def file_of(path, redact=lambda view: view):
    stream = io.BytesIO()
    with open_reader(path) as reader:
        (session,) = reader.sessions()
        parts = map(redact, read_parts(reader, session, values=True))
        write_session(stream, redact(session), parts, hidden={})
    return stream.getvalue().decode()


def test_the_file_holds_the_changes_of_handlers(work):
    page = Elements(file_of(work))

    details = [tag for tag, _ in page.elements].count("details")
    assert details >= 10
    assert "arguments.path - a//b+ a/b" in page.text
    assert f"What the model read a/b holds {SECRET}" in page.text
    assert "House.ask_push not run guard" in page.text
    assert "May it push?" in page.text


def test_the_file_holds_whole_texts(tmp_path):
    prompt, argument, result = [letter * 10_000 for letter in "xyz"]

    async def work(store):
        asked = asking("a", call("c", "read", path=argument))
        answered = ToolMessage(
            tool_call_id="c", tool_name="read", tool_response=ToolResponse(result)
        )
        before = (UserMessage(content=prompt), asked)
        await store.append("s", AppendRequest(message=answered, before=before))

    write(tmp_path / "s.db", work)
    text = Elements(file_of(tmp_path / "s.db")).text

    assert all(whole in text for whole in (prompt, argument, result))


def test_every_text_can_be_redacted(work):
    change = TextMapper(lambda text: text.replace(SECRET, "[gone]").replace("work", "[name]"))
    hidden = file_of(work, lambda view: rewrite_view(view, change))

    assert SECRET in file_of(work)
    assert SECRET not in hidden
    assert "a/b holds [gone]" in hidden
    assert "Session [name]" in hidden


def test_an_existing_file_stays(work, command, tmp_path):
    (tmp_path / "here/work.html").write_text("mine")
    refused = command("export", "--html", work, "work")
    kept = (tmp_path / "here/work.html").read_text()
    replaced = command("export", "--html", work, "work", "--force")

    assert (refused.returncode, kept) == (2, "mine")
    assert "work.html exists; choose another name, or add --force" in refused.stderr
    assert replaced.returncode == 0
    assert "Session work" in (tmp_path / "here/work.html").read_text()
