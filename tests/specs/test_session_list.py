"""The scenarios of `specs/session_list.md`."""

import asyncio
import html
import json
import re
import shutil
import sqlite3
import sys
import threading
import time
from contextlib import closing
from itertools import chain
from urllib.parse import unquote

import pytest
from benchmarks.archives import make_archive

from postgres_server import Forwarder
from seen_sessions import fill_hostile_store, in_a_thread
from toolbus import Agent, Ask, AssistantMessage, Deny, ToolCall, ToolResponse, UserMessage, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.hosts.run.event_answer import answer as answer_event
from toolbus.hosts.run.requests import HookSettings
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store import AppendRequest, PostgresStore, SqliteStore
from toolbus.testing.fakes import FakeClock
from ui_server import running_ui
from wires import PROXY, wired

COLUMNS = ("session", "state", "agent", "prompt", "messages", "calls", "denied", "asked")
COLUMNS += ("changed", "in", "out", "written")
SECRETS = [
    "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q",
    "ghp_" + "x7K2m5AbCdEfQrStUvWx3Yz81LmN04PqRsTu",
]
SERVER = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    if "id" in frame:
        result = {"content": [{"type": "text", "text": "paid"}], "tools": [], "isError": False}
        print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
"""
GUARD = """
from toolbus import AgentComponent, Deny, events, guard
class Till(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Deny("no") if ctx.value.name == "steal" else None
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@tool
def read(path: str) -> str:
    return f"all is well; {path}"


@tool
def delete(path: str) -> str:
    raise OSError("the disk is full")


def calls(*names, argument="/etc"):
    return tuple([ToolCall(name=name, arguments={"path": argument}) for name in names])


def judge(ctx):
    time.sleep(0.002)
    verdicts = {"forbidden": Deny("never"), "delete": Ask("really?")}
    return verdicts.get(ctx.value.name)


def respond(ctx):
    return ToolResponse("known already") if ctx.value.name == "cached" else None


def shorten(ctx):
    message = ctx.value
    return message.with_text("all is …") if message.text.startswith("all is well") else None


def break_off(ctx):
    raise RuntimeError("a mistake of mine")


SCRIPT = (
    AssistantMessage(
        tool_calls=calls("read", "read", "delete", "forbidden", "cached", "nowhere"),
        usage={"input_tokens": 1_000, "output_tokens": 70},
    ),
    AssistantMessage(content="Done.", usage={"input_tokens": 1_200, "output_tokens": 9}),
)


def make_agent(store, name, script=SCRIPT, *, agent="writer", approver=lambda *_: True, **options):
    made = Agent(
        ScriptedModel(script),
        tools=[read, delete],
        store=store,
        session_id=name,
        agent_id=agent,
        approver=approver,
        **options,
    )
    made.guard(TOOL_CALL_BEFORE, judge)
    made.on(TOOL_CALL_BEFORE, respond)
    made.on(MESSAGE_APPEND_BEFORE, shorten)
    return made


def in_store(path, work, clock=None):
    """Return the result of *work*, an async function of the store at *path*."""

    async def run():
        options = {} if clock is None else {"clock": clock}
        async with SqliteStore(path, **options) as store:
            return await work(store)

    return asyncio.run(run())


def run_agents(path, *names, prompt="Look at\n the files", **options):
    async def work(store):
        for name in names:
            await make_agent(store, name, **options).run(prompt)

    in_store(path, work)


def append(path, *names, text="hello", store=SqliteStore):
    async def work():
        async with store(path) as opened:
            for name in names:
                message = UserMessage(content=f"{text} from {name}")
                await opened.append(name, AppendRequest(message=message))

    asyncio.run(work())


def cells_of(row):
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
    return [html.unescape(re.sub("<[^>]+>", "", cell)).strip() for cell in cells]


def listed(ui, query="/"):
    """Return the lines of the list, by column."""
    page = ui.get(query)
    assert page.status == 200, page.text
    lines = re.findall(r'<tr id="session-\d+">(.*?)</tr>', page.text, re.DOTALL)
    return [dict(zip(COLUMNS, cells_of(line), strict=True)) for line in lines]


def names(ui, query="/"):
    return [line["session"] for line in listed(ui, query)]


def wait_for(condition, seconds=10.0):
    """Return the first true result of *condition*."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
    return result


def counted(ui, query="/"):
    """Return the lines of the list once all sessions are counted."""

    def lines():
        listing = listed(ui, query)
        return listing and all(line["state"] != "counting …" for line in listing) and listing

    return wait_for(lines)


def figures(ui, sessions):
    """Return the tables of the figures by title once so many *sessions* are counted."""
    words = f"{sessions:,} of {sessions:,} sessions are counted"
    page = wait_for(lambda: (page := ui.get("/figures").text).count(words) and page)
    tables = {}
    for section in re.findall("<section>(.*?)</section>", page, re.DOTALL):
        title = html.unescape(re.search("<h2>(.*?)</h2>", section)[1])
        rows = [cells_of(row) for row in re.findall("<tr>(.*?)</tr>", section, re.DOTALL)]
        head, *rest = rows or [[]]
        tables[title] = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rest}
    return tables


# --- lines ---------------------------------------------------------------------------------------


def test_the_latest_written_session_comes_first(path):
    append(path, "oldest", "middle", "newest", "oldest")

    with running_ui(path) as ui:
        assert names(ui) == ["oldest", "newest", "middle"]


def test_a_line_has_counts_of_a_run(path):
    run_agents(path, "s")

    with running_ui(path) as ui:
        (line,) = counted(ui)

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line.pop("written"))
    assert line == {
        "session": "s",
        "state": "done",
        "agent": "writer",
        "prompt": "Look at the files",
        "messages": "9",
        "calls": "6",
        "denied": "1",
        "asked": "1",
        "changed": "2",
        "in": "2,200",
        "out": "79",
    }


def test_a_running_session_is_counted_on(path):
    append(path, "s")
    with running_ui(path) as ui:
        counted(ui)

        run_agents(path, "s")

        began = time.monotonic()
        wait_for(lambda: [line for line in listed(ui) if line["calls"] == "6"])
        assert time.monotonic() - began < 2


def test_a_waiting_question_is_a_state(path):
    script = (AssistantMessage(tool_calls=calls("delete")), "Done.")

    async def ask(store):
        await make_agent(store, "s", script, approver=StoredApprovals(store=store)).run("go")

    async def end(store):
        (question,) = await questions_of(store, "s")
        await answer(store, question.id, question.digest, approve=True, by="ann")
        await make_agent(store, "s", script[1:], approver=StoredApprovals(store=store)).resume()

    in_store(path, ask)
    with running_ui(path) as ui:
        assert counted(ui)[0]["state"] == "asked"
        assert names(ui, "/?state=asked") == ["s"]

        in_store(path, end)

        wait_for(lambda: listed(ui)[0]["state"] == "done")
        wait_for(lambda: names(ui, "/?state=asked") == [])


def test_sessions_of_coding_agents_name_them(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    rules = tmp_path / "toolbus.toml"
    rules.write_text('[[component]]\nuse = "policy"\nsettings = { default = "allow" }\n')
    settings = HookSettings(config=str(rules), store=path, limit=20.0)
    facts = {"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": "PreToolUse"}
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1"}
    for members in (facts | call, facts | call | {"agent_id": "helper", "tool_use_id": "c2"}):
        answer_event("claude-code", "PreToolUse", json.dumps(members).encode(), settings)

    with running_ui(path) as ui:
        lines = {line["session"]: line["agent"] for line in counted(ui)}

    assert lines == {
        "claude-code:s1": "claude-code",
        "claude-code:s1/helper": "claude-code, helper",
    }


@pytest.mark.full  # A process.
async def test_sessions_of_a_proxy_are_listed(path, tmp_path, environment):
    here = tmp_path / "here"
    (here / "server.py").write_text(SERVER)
    (here / "till.py").write_text(GUARD)
    command = [*PROXY, "--with", "till.py:Till", "--store", path, "--", sys.executable, "server.py"]
    async with wired(command, cwd=here, env=environment) as wire:
        await wire.ask(0, "initialize", {"capabilities": {}, "clientInfo": {"name": "client"}})
        for number, name in enumerate(("pay", "pay", "steal"), 1):
            await wire.ask(number, "tools/call", {"name": name, "arguments": {}})
        await wire.end()

    with running_ui(path) as ui:
        (line,) = counted(ui)

    assert (line["agent"], line["calls"], line["denied"]) == ("proxy", "3", "1")


@pytest.fixture(scope="module")
def large_store(tmp_path_factory):
    """Return a store whose older session takes a second or more to read."""
    path = tmp_path_factory.mktemp("large") / "store.db"
    make_archive(path, 30_000)
    append(path, "small")
    return path


def test_uncounted_sessions_show_known_facts(large_store):
    with running_ui(large_store) as ui:
        small, large = listed(ui)

    assert (large["session"], large["state"], large["messages"]) == ("s", "counting …", "30,000")
    assert (small["session"], small["messages"]) == ("small", "1")
    assert large["written"]


def follow(ui, query, rel):
    """Return the lines of all pages from *query* on, and the last page's address."""
    lines = []
    while True:
        page = ui.get(query).text
        lines.append(names(ui, query))
        link = re.search(f'<a href="([^"]+)" rel="{rel}">', page)
        if link is None:
            return lines, query
        query = html.unescape(link[1])


def test_a_long_list_has_pages(path):
    sessions = [f"s-{number}" for number in range(120)]
    append(path, *sessions)

    with running_ui(path) as ui:
        pages, last = follow(ui, "/", "next")
        back, _ = follow(ui, last, "prev")

    assert [len(page) for page in pages] == [50, 50, 20]
    assert [*chain(*pages)] == sessions[::-1]
    assert back == pages[::-1]


def test_hostile_names_stay_texts(path):
    asyncio.run(fill_hostile_store(path))

    with running_ui(path) as ui:
        lines = counted(ui)
        pages = [ui.get(query).text for query in ("/", "/?q=o", "/figures")]
        links = re.findall('<a href="(/sessions/[^"]*)"', pages[0])

    assert len(lines) == len(links) == 6
    stored = {row[0] for row in sqlite3.connect(path).execute("SELECT id FROM sessions")}
    assert {unquote(html.unescape(link).removeprefix("/sessions/")) for link in links} == stored
    for page in pages:
        assert "<script>document" not in page
        assert "<h1>not ours" not in page
        # A browser does not show the value that a choice sends back.
        shown = re.sub('value="[^"]*"', "", page)
        assert not re.search("[\u202e\u2066\u200b\x1b\x07]", shown)
    assert "\\u202eevil" in pages[0]


# --- the filter ----------------------------------------------------------------------------------


def test_words_are_searched_without_case(path):
    append(path, "Import-1", text="Fix the NIGHTLY run")
    append(path, "import-2", text="Write the notes")
    append(path, "export-1", text="Fix the nightly run")

    with running_ui(path) as ui:
        counted(ui)

        assert names(ui, "/?q=nightly") == ["export-1", "Import-1"]
        assert names(ui, "/?q=IMPORT+nightly") == ["Import-1"]
        assert names(ui, "/?q=nightly+notes") == []


def test_conditions_are_combined(path):
    run_agents(path, "all", agent="coder")
    run_agents(path, "reads", script=(AssistantMessage(tool_calls=calls("read")), "Done."))
    append(path, "open")

    with running_ui(path) as ui:
        counted(ui)

        assert names(ui, "/?agent=coder") == ["all"]
        assert names(ui, "/?state=open") == ["open"]
        assert names(ui, "/?state=done") == ["reads", "all"]
        assert names(ui, "/?tool=read") == ["reads", "all"]
        assert names(ui, "/?tool=delete") == names(ui, "/?denied=1") == ["all"]
        assert names(ui, "/?asked=1&tool=read&state=done&agent=coder") == ["all"]
        assert names(ui, "/?asked=1&agent=writer") == []
        page = ui.get("/?q=a&agent=coder&tool=read&denied=1").text
        for part in (
            'name="q" value="a"',
            '<option value="coder" selected>',
            '<option value="read" selected>',
            'name="denied" value="1" checked',
        ):
            assert part in page


def test_a_filtered_list_has_pages(path):
    sessions = [f"s-{number}" for number in range(60)]
    append(path, *sessions, text="find me")
    append(path, "other", text="not")

    with running_ui(path) as ui:
        counted(ui)
        pages, _ = follow(ui, "/?q=find+me", "next")

    assert [len(page) for page in pages] == [50, 10]
    assert [*chain(*pages)] == sessions[::-1]


def test_a_filter_tells_its_progress(large_store):
    with running_ui(large_store) as ui:
        wait_for(lambda: "has read 1 of the 2 latest sessions" in ui.get("/?q=small").text)

        assert names(ui, "/?q=hello") == ["small"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/?page=0&x=1&q=", 2),
        ("/?page=-1", 2),
        ("/?page=1e9", 2),
        ("/?page=9999999", 0),
        ("/?agent=%00&tool=%F0%9F&state=gone&page=%D9%A1", 0),
        ("/?q=" + "x" * 4_000, 0),
        ("/?denied=&asked", 0),
    ],
)
def test_odd_queries_are_harmless(path, query, expected):
    append(path, "a", "b")

    with running_ui(path) as ui:
        counted(ui)
        assert len(listed(ui, query)) == expected


# --- failures ------------------------------------------------------------------------------------


def test_damaged_rows_are_passed_over(path):
    run_agents(path, "s")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE messages SET body = 'x' WHERE seq = 3")

    with running_ui(path) as ui:
        tables = figures(ui, 1)
        page = ui.get("/figures").text

    assert tables["Calls by tool and status"]["read"]["ok"] == "1"
    assert tables["Calls by tool and status"]["delete"]["error"] == "1"
    assert "1 damaged rows are left out" in page


@pytest.mark.full
def test_a_failing_store_is_tried_again(path):
    append(path, "s")
    away = path.rename(path.with_suffix(".away"))
    with running_ui(path) as ui:
        assert "no such file" in ui.get("/").text

        away.rename(path)

        assert counted(ui)[0]["state"] == "open"
        assert names(ui, "/?q=hello") == ["s"]


def test_deleted_sessions_leave_the_list(path):
    async def forget(store):
        return await store.forget_sessions(time.time_ns() - 60 * 10**9)

    async def write(store):
        await store.append("old", AppendRequest(message=UserMessage(content="hello")))

    in_store(path, write, FakeClock())
    append(path, "new")
    with running_ui(path) as ui:
        counted(ui)
        assert names(ui, "/?q=hello") == ["new", "old"]

        assert in_store(path, forget) == ("old",)

        assert names(ui) == ["new"]
        wait_for(lambda: names(ui, "/?q=hello") == ["new"])


def test_the_server_ends_at_once(large_store):
    def threads():
        return [each.name for each in threading.enumerate() if "index" in each.name]

    with running_ui(large_store):
        wait_for(threads)
        began = time.monotonic()

    assert time.monotonic() - began < 2
    assert threads() == []


@pytest.mark.full
def test_postgresql_is_followed_like_a_file(postgres, database):
    append(database, "s", store=PostgresStore)
    target = postgres.folder / f".s.PGSQL.{postgres.port}"
    forwarder = Forwarder(target)
    name = database.rpartition("/")[2].partition("?")[0]
    address = f"postgresql://postgres@127.0.0.1:{forwarder.port}/{name}?sslmode=disable"
    with running_ui(address) as ui:
        assert counted(ui)[0]["messages"] == "1"

        forwarder.cut()
        append(database, "s", "t", store=PostgresStore)

        wait_for(lambda: names(ui, "/?q=hello") == ["t", "s"])
        assert [line["messages"] for line in counted(ui)] == ["1", "2"]
    forwarder.close()


# --- figures -------------------------------------------------------------------------------------


def test_calls_are_counted_by_status(path):
    run_agents(path, "a", "b")

    with running_ui(path) as ui:
        table = figures(ui, 2)["Calls by tool and status"]

    statuses = {tool: {k: v for k, v in row.items() if v != "0"} for tool, row in table.items()}
    assert statuses == {
        "read": {"total": "4", "ok": "4"},
        "delete": {"total": "2", "error": "2"},
        "forbidden": {"total": "2", "denied": "2"},
        "cached": {"total": "2", "answered": "2"},
        "nowhere": {"total": "2", "unknown tool": "2"},
    }


def test_handlers_have_costs_and_effects(path):
    async def work(store):
        agent = make_agent(store, "s")
        agent.on(MESSAGE_APPEND_BEFORE, break_off)
        await agent.run("go")

    in_store(path, work)

    with running_ui(path) as ui:
        tables = figures(ui, 1)
        page = ui.get("/figures").text

    times, effects = tables["Time of handlers"], tables["Effects of handlers"]
    assert next(iter(times)) == "judge"
    assert times["judge"]["runs"] == "6"
    total, median, late = [
        float(times["judge"][name].removesuffix(" ms")) for name in ("time", "median", "95 %")
    ]
    assert total >= 12
    assert 2 <= median <= late <= total
    assert effects["judge"] | {"denied": "1", "asked": "1", "total": "2"} == effects["judge"]
    assert effects["respond"]["answered"] == "1"
    assert effects["shorten"]["changed"] == "2"
    assert effects["break_off"]["failed"] == times["break_off"]["runs"] == "9"
    assert page.index('class="denied"') < page.index("Hidden values by kind")


def test_hidden_values_are_counted_by_kind(path):
    async def work(store):
        for name, secret in (("a", SECRETS[0]), ("b", SECRETS[1])):
            script = (AssistantMessage(tool_calls=calls("read", "read", argument=secret)), "Done.")
            await make_agent(store, name, script, components=[RedactSecrets()]).run("go")

    in_store(path, work)

    with running_ui(path) as ui:
        table = figures(ui, 2)["Hidden values by kind"]

    (kind,) = table
    assert kind == "github-pat"
    # In each session the request and both results have the same value.
    assert table[kind] == {"values": "2", "messages": "6"}


def test_questions_have_waiting_times(path):
    script = (AssistantMessage(tool_calls=calls("delete")), "Done.")
    clock = FakeClock(time.time_ns())

    async def work(store):
        for name, seconds in (("a", 5), ("b", 120), ("waits", None)):
            approvals = StoredApprovals(store=store, clock=clock)
            await make_agent(store, name, script, approver=approvals).run("go")
            (question,) = await questions_of(store, name)
            if seconds is not None:
                clock.advance(seconds)
                await answer(
                    store, question.id, question.digest, approve=False, by="ann", clock=clock
                )

    in_store(path, work)

    with running_ui(path) as ui:
        tables = figures(ui, 3)
        page = ui.get("/figures").text

    assert {state: row["questions"] for state, row in tables["Questions by state"].items()} == {
        "denied": "2",
        "pending": "1",
    }
    waits = {label: row["answers"] for label, row in tables["Time until an answer"].items()}
    assert waits == {
        "less than 10 s": "1",
        "less than 1 min": "1",
        "less than 10 min": "2",
        "less than 1 h": "2",
        "less than 1 d": "2",
        "in all": "2",
    }
    assert re.search("Median [45] s, 95 % (1 min 5|2 min)", page)


def test_each_plot_has_its_numbers(path):
    run_agents(path, "s")

    with running_ui(path) as ui:
        figures(ui, 1)
        page = ui.get("/figures").text

    sections = re.findall("<section>(.*?)</section>", page, re.DOTALL)
    plots = [section for section in sections if "<svg" in section]
    assert (len(sections), len(plots)) == (6, 3)
    for plot in plots:
        title = re.search("<h2>(.*?)</h2>", plot)[1]
        assert f'<div class="wide" role="region" tabindex="0" aria-label="{title}">' in plot
        assert plot.count('<th scope="row">') == plot.count("<svg") >= 1
        assert plot.count('<th scope="col"') >= 1
        bars = [re.findall(' width="([0-9.]+)%"', bar) for bar in plot.split("<svg")[1:]]
        lengths = [sum(map(float, widths[1:])) for widths in bars]
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[0] == pytest.approx(100)
        assert 'style="' not in plot


# --- in a browser: last, for its driver keeps the event loop of this thread -----------------------


async def append_later(path):
    async with SqliteStore(path) as store:
        await store.append("later", AppendRequest(message=UserMessage(content="hello again")))


@pytest.mark.full
def test_an_open_list_is_counted_on(large_store, tmp_path, open_page):
    path = shutil.copy(large_store, tmp_path / "copy.db")
    with running_ui(path) as ui:
        page = open_page()
        page.goto(ui.locks.new_links()[0])
        page.get_by_role("button").click()
        page.locator("tr", has_text="30,000").get_by_text("counting …").wait_for()
        page.evaluate("document.title = 'the same page'")

        page.locator("tr", has_text="30,000").get_by_text("open").wait_for()
        in_a_thread(append_later, path)

        page.locator("tr", has_text="hello again").get_by_text("open").wait_for()
        assert page.title() == "the same page"
        page.close()  # Before the server ends, which its stream would complain about.
